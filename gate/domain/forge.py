"""What the gate reads from and writes to a forge (GitHub), and the limits of the texts that it writes."""

from __future__ import annotations

import re
import unicodedata
from enum import StrEnum
from typing import Literal

from pydantic import Field

from gate.domain.base import Value
from gate.domain.report import State

COMMENT_CHARACTERS = 65_536
"""GitHub refuses a longer comment body (status 422)."""
DESCRIPTION_CHARACTERS = 140
"""GitHub refuses a longer description of a commit status (status 422), and any with a 4-byte character."""
ANNOTATIONS_PER_REQUEST = 50
"""GitHub refuses a request about a check run with more annotations (status 422); later requests add to earlier ones."""
CHANGED_FILES_CAP = 3_000
"""GitHub lists no more changed files of a pull request than these, without saying so."""
MARKER_LINES = 3
"""A marker counts only among the first lines of a comment: text that quotes one further down is not ours."""

_INVISIBLE = re.compile("[\x00-\x1f\x7f-\x9f\u2028\u2029\u200b\u200c\u200e\u200f\u202a-\u202e\u2060-\u206f\ufeff]+")
_BEYOND_BMP = re.compile("[\ud800-\udfff\U00010000-\U0010ffff]+")
_JOINER = "\u200d"


class PullRequest(Value):
    """A pull request as it is now (an event's payload shows it as it was)."""

    number: int
    state: Literal["open", "closed"]
    draft: bool
    author: str
    """Login; empty where the account is gone."""
    author_association: str
    """GitHub's word for the author's relation to the repository: OWNER, MEMBER, COLLABORATOR, CONTRIBUTOR, NONE, …"""
    head_sha: str
    head_ref: str
    head_repository_id: int | None
    """None: the fork was deleted."""
    base_sha: str
    """Tip of the base branch as the pull request knows it; not the merge base."""
    base_ref: str
    base_repository_id: int
    labels: tuple[str, ...] = ()
    changed_files: int
    """How many files it changes, also beyond what can be listed."""

    @property
    def from_fork(self) -> bool:
        """Whether the head is in another repository, or in one that is gone."""
        return self.head_repository_id != self.base_repository_id


class ChangedFile(Value):
    """One file of a pull request."""

    path: str
    status: Literal["added", "removed", "modified", "renamed", "copied", "changed", "unchanged"]
    previous_path: str | None = None
    """Where a renamed or copied file comes from."""
    blob: str | None = None
    """Git blob id of the file at the head (of a removed one: at the base)."""


class ChangedFiles(Value):
    """The files of a pull request."""

    head_sha: str
    """The head that they belong to."""
    files: tuple[ChangedFile, ...]
    complete: bool
    """False: GitHub did not list all of them (cap of 3,000), or the head moved. Ask Git; never take it for the whole."""


class Comment(Value):
    """A comment on a pull request."""

    id: int
    author: str
    body: str
    url: str


class CommentWrite(Value):
    """What became of a comment that was to be written."""

    action: Literal["created", "updated", "unchanged", "stale"]
    """``stale``: the pull request has a newer head than the one the text is about; nothing was written."""
    comment: Comment | None = None
    """None only for ``stale``."""


class CommitStatus(Value):
    """The newest status of one context at a commit."""

    context: str
    state: State
    description: str
    target_url: str = ""


class Annotation(Value):
    """A remark at one place of a commit, as a check run shows it."""

    path: str
    """Of a file of the commit, relative to the repository."""
    line: int = Field(ge=1)
    level: Literal["notice", "warning", "failure"]
    title: str
    """At most 255 characters."""
    message: str
    """Plain text of at most 64 KB."""


Conclusion = Literal["success", "failure", "action_required", "cancelled"]
"""Of a check run. Never ``neutral`` nor ``skipped``: branch protection takes both for a success."""


class CheckOutput(Value):
    """What a check run says."""

    title: str
    summary: str
    """Markdown of at most 65,535 characters."""
    annotations: tuple[Annotation, ...] = ()
    """Any number: they are sent in parts."""


class CheckRun(Value):
    """A check run as it is now."""

    id: int
    name: str
    completed: bool
    conclusion: str = ""
    """Empty while it goes on."""
    annotations: int = 0


class Permission(StrEnum):
    """A user's role in a repository, weakest first. Custom roles count as the built-in role that they are based on."""

    NONE = "none"
    READ = "read"
    TRIAGE = "triage"
    WRITE = "write"
    MAINTAIN = "maintain"
    ADMIN = "admin"

    def allows(self, needed: Permission) -> bool:
        """Whether this role includes ``needed``."""
        ranks = list(Permission)
        return ranks.index(self) >= ranks.index(needed)


class TreeEntry(Value):
    """One entry below a commit."""

    path: str
    mode: str
    """As Git says: 100644, 100755, 120000 (link), 160000 (submodule), 040000 (folder)."""
    blob: str


class Tree(Value):
    """Every file, link and submodule of a commit, sorted by path."""

    entries: tuple[TreeEntry, ...]
    complete: bool
    """False: GitHub cut the list (100,000 entries or 7 MB)."""


def status_description(text: str) -> str:
    """``text`` as GitHub takes it for a status: one line, at most 140 characters, none outside of the BMP.

    Characters beyond the BMP (most emoji) become one U+FFFD a run. Cut at a space where one is near, never between a
    character and what combines with it; what was cut shows as ``…``. Idempotent.
    """
    line = " ".join(_BEYOND_BMP.sub("\ufffd", _INVISIBLE.sub(" ", text)).split())
    if len(line) <= DESCRIPTION_CHARACTERS:
        return line
    end = DESCRIPTION_CHARACTERS - 1
    while end > DESCRIPTION_CHARACTERS // 2 and _attached(line, end):
        end -= 1
    space = line.rfind(" ", 0, end + 1)
    if space > DESCRIPTION_CHARACTERS * 4 // 5:
        end = space
    return f"{line[:end].rstrip()}…"


def _attached(line: str, index: int) -> bool:
    """Whether a cut before ``line[index]`` would part a character from its marks, selectors or joiners."""
    mark = line[index]
    return (
        bool(unicodedata.combining(mark))
        or unicodedata.category(mark) in ("Mn", "Me", "Mc")
        or _JOINER in (mark, line[index - 1])
    )


def carries_marker(body: str, marker: str) -> bool:
    """Whether ``marker`` stands alone on one of the first lines of a comment."""
    return bool(marker) and marker in (line.strip() for line in body.splitlines()[:MARKER_LINES])
