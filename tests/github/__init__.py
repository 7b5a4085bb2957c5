"""A stateful fake GitHub over real HTTP on 127.0.0.1, held to GitHub's own OpenAPI description in both directions."""

from tests.github.faults import (
    Fault,
    dripping,
    dropped,
    primary_limit,
    refused,
    secondary_limit,
    server_error,
    silent,
)
from tests.github.server import READ, WRITE, Asked, FakeGitHub, FakeGitHubError
from tests.github.world import ChangedFile, Comment, File, Pull, Repository, Token, User, World

__all__ = [
    "READ",
    "WRITE",
    "Asked",
    "ChangedFile",
    "Comment",
    "FakeGitHub",
    "FakeGitHubError",
    "Fault",
    "File",
    "Pull",
    "Repository",
    "Token",
    "User",
    "World",
    "dripping",
    "dropped",
    "primary_limit",
    "refused",
    "secondary_limit",
    "server_error",
    "silent",
]
