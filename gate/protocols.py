"""The seams, one screen each. Adapters implement them, ``gate.wiring`` binds them, tests fake them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Protocol

from gate.domain.chat import ChatReply, ChatRequest
from gate.domain.forge import (
    ChangedFiles,
    Comment,
    CommentWrite,
    CommitStatus,
    Permission,
    PullRequest,
    Tree,
)
from gate.domain.report import State
from gate.domain.sandbox import (
    BoxFacts,
    BoxSpec,
    Collected,
    ExecResult,
    OneShotResult,
    OneShotSpec,
    PutFile,
    ReapReport,
    SandboxFacts,
)
from gate.domain.skill import SkillFile


class Box(Protocol):
    """A running sandbox: put files, run commands, take files. Single use."""

    def facts(self) -> BoxFacts:
        """What the engine says about it. Raises SandboxError."""

    def put_skill(self, files: Sequence[PutFile], *, name: str) -> None:
        """Put a skill at ``/skills/<name>``, root-owned and read-only for tools. Raises SandboxError."""

    def put_workspace(self, files: Sequence[PutFile]) -> None:
        """Put files into ``/work``, owned by the tool uid. Raises SandboxError."""

    def exec(
        self, argv: Sequence[str], *, timeout_s: float, stdin: bytes = b"", output_cap_bytes: int = 262_144
    ) -> ExecResult:
        """Run a command as the tool uid in ``/work``.

        On time-out the whole process tree is killed and ``timed_out`` is set. Raises BoxDeadError where the box can run
        nothing more (``agent_caused`` says whose doing it was, ``oom`` why), SandboxError where the engine failed.
        """

    def collect(self, *, max_bytes: int = 20_000_000, max_files: int = 2_000) -> Collected:
        """Take ``/work`` out (paused meanwhile). Raises SandboxError where the sentinel is missing or the box is gone."""


class Sandbox(Protocol):
    """Where untrusted code runs."""

    def facts(self) -> SandboxFacts:
        """What it is. Raises SandboxError with a remedy where there is no usable engine."""

    def resolve_image(self, image: str) -> str:
        """The immutable id of an image that is there (``sha256:…``). Raises SandboxError with a remedy."""

    def open(self, spec: BoxSpec) -> AbstractContextManager[Box]:
        """A fresh Box; leaving the block destroys container and volumes whatever happened. Raises SandboxError."""

    def run_once(self, spec: OneShotSpec) -> OneShotResult:
        """Run one command in a fresh container with ``files`` in ``/work``; always removed. Raises SandboxError."""

    def reap(self, session_id: str | None = None) -> ReapReport:
        """Remove what a session left (None: what any dead or expired owner left). Never raises for a single object."""

    def kill_all(self, session_id: str) -> None:
        """Kill this session's containers at once, for signals. Safe from another thread. Never raises."""


class ChatModel(Protocol):
    """One turn with a model. Implementations are thread-safe."""

    @property
    def name(self) -> str:
        """``provider:model`` as the user named it."""

    @property
    def family(self) -> str:
        """Whose models these are (``anthropic``, ``openai``, ``openai@host``), to warn when a family judges itself."""

    def complete(self, request: ChatRequest) -> ChatReply:
        """Ask once, with provider retries inside. Raises ModelError."""


class Repository(Protocol):
    """A Git repository, read without running anything of it (DESIGN.md 3: how Git is called)."""

    @property
    def location(self) -> str:
        """For messages."""

    @property
    def root(self) -> Path:
        """The folder that paths are relative to."""

    def resolve(self, revision: str) -> str:
        """The commit id of a revision. Raises RepositoryError naming the revision."""

    def merge_base(self, one: str, other: str) -> str:
        """Raises RepositoryError with a remedy where there is none (shallow clone)."""

    def default_branch(self) -> str | None:
        """The commit at the tip of the default branch; None: unknown."""

    def default_base(self) -> str | None:
        """The commit to compare with where the user named none: merge base with the default branch; None: unknown."""

    def changed_paths(self, base: str, head: str) -> list[tuple[str, str, str | None]]:
        """(status, path, old path): status A, M, D, T, R or C as git says; NUL-safe; sorted by path."""

    def tree(self, commit: str, under: str = "") -> list[tuple[str, str, str]]:
        """(path, mode, blob id) of every entry below ``under``; submodules have mode 160000. Sorted by path."""

    def paths(self, commit: str) -> Mapping[str, tuple[str, str]]:
        """Path -> (mode, blob id) of every entry; cheap to ask for single paths."""

    def find(self, commit: str, name: str) -> list[tuple[str, str, str]]:
        """(path, mode, blob id) of every entry with this file name, in any case. Sorted by path."""

    def blobs(self, ids: Sequence[str]) -> dict[str, bytes]:
        """Contents by id, in one git process. Raises RepositoryError for an unknown id."""

    def read_skill_files(self, commit: str, folder: str) -> tuple[SkillFile, ...]:
        """Every entry below a folder, paths relative to it, by blob and mode; empty where there is none."""

    def is_dirty(self) -> bool:
        """Whether tracked files differ from HEAD (the gate judges commits; the user is told)."""


class Clock(Protocol):
    """Time as an argument."""

    def now_iso(self) -> str:
        """UTC, ``2026-01-31T12:00:00Z``."""

    def today_iso(self) -> str:
        """The run date, ``2026-01-31``: frozen for the session, replayed from a recording."""

    def monotonic_ms(self) -> int:
        """For durations."""


class Progress(Protocol):
    """Says how far the session is. Never decides anything."""

    def say(self, text: str) -> None:
        """One plain line of trusted text."""

    def run_done(self, label: str, outcome: str) -> None:
        """A run ended."""


class Forge(Protocol):
    """One repository on GitHub. Every method raises ForgeError (``kind`` and remedy) and returns in bounded time.

    Nothing here decides anything; what it returns was read live, not from an event's payload.
    """

    def who_am_i(self) -> str:
        """The login that this token writes comments as (``github-actions[bot]``, ``my-app[bot]``, ``octocat``)."""

    def pull_request(self, number: int) -> PullRequest:
        """As it is now."""

    def head_is(self, number: int, sha: str) -> bool:
        """Whether the pull request still has this head: to be asked before anything is written about it."""

    def changed_files(self, number: int) -> ChangedFiles:
        """All pages; ``complete`` says whether that is all."""

    def find_comment(self, number: int, marker: str) -> Comment | None:
        """The oldest comment that we wrote ourselves and that carries the marker (``carries_marker``); all pages."""

    def upsert_comment(self, number: int, marker: str, body: str, *, head_sha: str | None = None) -> CommentWrite:
        """Update our comment with this marker, or create it. Never a second one; further ones of ours are removed.

        ``head_sha``: what the text is about; where the pull request has moved on, nothing is written (``stale``).
        Raises ForgeError (``validation``) for a body over 65,536 characters or without its marker, before any request.
        """

    def set_status(self, sha: str, context: str, state: State, description: str, target_url: str = "") -> CommitStatus:
        """Set the status of a context at a commit. The description is cut by ``status_description``."""

    def status_of(self, sha: str, context: str) -> CommitStatus | None:
        """The newest status of a context (upper and lower case are one) at a commit; None: there is none."""

    def permission_of(self, user: str) -> Permission:
        """A user's role; NONE for somebody unknown."""

    def labelled_by(self, number: int, label: str) -> str | None:
        """Who put a label that is on the pull request now; None: it is not on it, or nobody knows who did."""

    def merge_base(self, base: str, head: str) -> str:
        """The commit that two commits, branches or tags have in common."""

    def tree(self, commit: str) -> Tree:
        """Every file of a commit, whatever folder it is in."""

    def blob(self, blob_id: str) -> bytes:
        """The content of a file, by id."""
