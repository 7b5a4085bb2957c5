"""The seams, one screen each. Adapters implement them, ``gate.wiring`` binds them, tests fake them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

if TYPE_CHECKING:
    from gate.domain.chat import ChatReply, ChatRequest, TokenUsage, ToolSpec
    from gate.domain.findings import Finding
    from gate.domain.forge import (
        ChangedFiles,
        CheckOutput,
        CheckRun,
        Comment,
        CommentWrite,
        CommitStatus,
        Conclusion,
        Permission,
        PullRequest,
        Tree,
    )
    from gate.domain.gateway import Asked, Dialect, Exchange, McpCall
    from gate.domain.handover import Handed, Progressed
    from gate.domain.mcp import McpListing, McpResult
    from gate.domain.report import State
    from gate.domain.sandbox import (
        BoxFacts,
        BoxSpec,
        Collected,
        Examined,
        ExecResult,
        OneShotResult,
        OneShotSpec,
        ProgramFile,
        PutFile,
        ReapReport,
        SandboxFacts,
    )
    from gate.domain.skill import SkillFile


class Channel(Protocol):
    """Standard input and output of a program in a sandbox. One thread reads, one writes, any may close."""

    def read(self) -> bytes:
        """The next bytes that it printed; waits for them; empty at its end. Raises SandboxError where the engine failed."""

    def write(self, data: bytes) -> None:
        """Give it all of ``data``; waits until it is taken. Raises SandboxError where nobody takes it any more."""

    def close(self) -> None:
        """Let go of it; a read or a write that waits ends. Closing twice does nothing."""


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

    def connect(self, argv: Sequence[str]) -> AbstractContextManager[Channel]:
        """Start a program of the gate's own, as the uid that tools cannot signal, and hold on to both its ends.

        Leaving the block lets go of it (the program sees the end of its input). Raises SandboxError where it could not be
        started.
        """

    def collect(self, *, max_bytes: int = 20_000_000, max_files: int = 2_000) -> Collected:
        """Take ``/work`` out (paused meanwhile). Raises SandboxError where the sentinel is missing or the box is gone."""


class Sandbox(Protocol):
    """Where untrusted code runs."""

    def facts(self) -> SandboxFacts:
        """What it is. Raises SandboxError with a remedy where there is no usable engine."""

    def examine(self) -> tuple[Examined, ...]:
        """What whoever sets it up should know: what it is, where, and what it lacks. Never raises for any of that."""

    def resolve_image(self, image: str) -> str:
        """The immutable id of an image that is there (``sha256:…``). Raises SandboxError with a remedy."""

    def install(self, image: str, session_id: str, files: Sequence[ProgramFile]) -> str:
        """Fill a volume with programs, for ``BoxSpec.programs``; ``reap`` of the session removes it. Raises SandboxError."""

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


class GatewayObserver(Protocol):
    """Who decides what becomes of a run's requests. Called from the gateway's own thread: must not wait."""

    def admit(self, asked: Asked) -> str | None:
        """Before anything is sent: None lets it pass, a sentence refuses it."""

    def ended(self, exchange: Exchange) -> None:
        """Every request that was put to ``admit`` ends here, once."""


class McpTools(Protocol):
    """Tools that the gate answers itself."""

    def specs(self) -> tuple[ToolSpec, ...]:
        """The tools, named ``mcp__<server>__<tool>``."""

    def answer(self, name: str, arguments: dict[str, Any]) -> tuple[str, bool]:
        """(text, whether it is an error). May wait; is called by one thread at a time."""


class McpLine(Protocol):
    """A session with a real MCP server, for one run. Used by one thread."""

    def call(self, tool: str, arguments: dict[str, Any]) -> McpResult:
        """Ask one of the allowed tools, by its own name. What the tool itself calls an error is in the result.

        Raises McpServerError where the server was not reached, gave no answer in time or none that can be read.
        """


class McpReach(Protocol):
    """The real MCP servers that the base policy names. The gate is their client: no sandbox reaches them. Thread-safe."""

    def listing(self, server: str) -> McpListing:
        """What a server offers; asked once a session, then remembered. Raises McpServerError."""

    def connect(self, server: str) -> AbstractContextManager[McpLine]:
        """A fresh session with a server; leaving the block ends it. Raises McpServerError."""


class GatewayLine(Protocol):
    """The way of one sandbox to the model, while it is open."""

    @property
    def url(self) -> str:
        """Where it is found inside the sandbox; without a path."""

    @property
    def token(self) -> str:
        """What requests must carry. It tells this run from others and opens nothing else."""

    @property
    def broken(self) -> str | None:
        """Why the way is gone although nobody closed it; None: it is there."""

    @property
    def model_ms(self) -> int:
        """For how long at least one answer was waited for."""

    @property
    def mcp_calls(self) -> tuple[McpCall, ...]:
        """What the gate's own mock servers were asked and answered."""

    @property
    def counts(self) -> Mapping[str, int]:
        """Kind of fallback -> how often, such as tools that were stripped."""

    def wait_idle(self, seconds: float) -> None:
        """Wait until no answer is under way, at the longest so many seconds: a program may end before its last answer has
        been written down."""

    def spending(self) -> tuple[TokenUsage | None, float | None]:
        """(tokens, US dollars) of this run; None is unknown."""


class ModelGateway(Protocol):
    """Where agent programs in sandboxes reach the session's model: the gate adds the key and writes everything down."""

    @property
    def model(self) -> str:
        """The only model that may be asked for, as the provider calls it."""

    @property
    def dialects(self) -> frozenset[Dialect]:
        """What the provider of that model speaks."""

    def serve(
        self, box: Box, *, label: str, observer: GatewayObserver, log: Recorder, mcp: McpTools | None = None
    ) -> AbstractContextManager[GatewayLine]:
        """Open the way from one box. ``label``: of the run, whose budget it is. ``log``: gets every request before it is sent.

        Leaving the block ends every request under way. Raises SandboxError where the relay does not come up.
        """

    def close(self) -> None:
        """The session is over. Never raises."""


class Recorder(Protocol):
    """Where a record goes, line by line; ``gate.evidence.events.EventLog`` is one."""

    def append(self, kind: str, **data: Any) -> object:
        """Append one event. Raises InfrastructureError (disk)."""


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

    def links(self, commit: str) -> list[tuple[str, str]]:
        """(path, blob id) of every symbolic link, sorted by path."""

    def ending(self, commit: str, ends: tuple[str, ...]) -> list[str]:
        """Every path that ends in one of these, as they are written. Sorted."""

    def is_dirty(self, under: Sequence[str] = ()) -> bool:
        """Whether tracked files in these folders (none: all) differ from HEAD (the gate judges commits; the user is told)."""

    def checked_out_from(self) -> str:
        """Whose the checked-out branch is, where it is known to be another's: a pull request's, another repository's. Else empty."""

    def remarks(self) -> tuple[Finding, ...]:
        """What must be said about the answers so far: where they came from another way than the checkout. One that
        ``blocks`` says that they are not the whole truth, and nothing that is built on them may be green."""


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

    def expect(self, *, cases: int, runs: int, calls: int) -> None:
        """What is planned, before anything runs; ``calls`` is a guess of how often models will be asked."""

    def step(self, what: str, total: int) -> None:
        """A part of the session begins, with so many things to do."""

    def step_done(self) -> None:
        """One of these things is done. A run says ``run_done`` instead."""


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

    def pull_requests_at(self, sha: str) -> tuple[PullRequest, ...]:
        """Every open pull request whose head is this commit, from a fork too, by number; all pages."""

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

    def start_check(self, sha: str, name: str, details_url: str = "") -> CheckRun:
        """A new check run in progress at a commit. Only tokens of an App may (a workflow's own is one)."""

    def end_check(self, check_id: int, conclusion: Conclusion, output: CheckOutput) -> CheckRun:
        """Complete a check run. The conclusion goes first, then the annotations, 50 a request; none is sent twice."""

    def check(self, check_id: int) -> CheckRun:
        """As it is now."""

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


class GateService(Protocol):
    """A gate service that judges for a repository without keys. Raises InfrastructureError where it is not reached and
    ``gate.domain.handover.Refused`` where it does not take the work."""

    def keys(self) -> tuple[str, ...]:
        """The public keys that it publishes now."""

    def hand_over(self, event: Mapping[str, Any], nonce: str, inputs: Mapping[str, str]) -> Handed:
        """Hand over what an event is about. ``nonce``: comes back in the signature. ``inputs``: of the Action, by name."""

    def progress(self, handed: Handed) -> Progressed:
        """How far it is."""

    def cancel(self, handed: Handed) -> None:
        """Nobody waits for it any more. Takes three seconds at the longest; never raises."""

    def bundle(self, handed: Handed) -> AbstractContextManager[tuple[str, Iterator[bytes]]]:
        """(signature, packed bundle) of work that is done; nothing of it has been checked."""


class ObjectFacts(NamedTuple):
    """One object of a store."""

    key: str
    sha256: str
    """Of its content as it was put there; empty where somebody else put it there."""
    size: int
    """Bytes."""


class Objects(Protocol):
    """Bytes by key in a store elsewhere. Thread-safe. Raises InfrastructureError where it cannot be asked."""

    def put(self, key: str, content: Iterable[bytes]) -> ObjectFacts:
        """Keep the whole content or nothing of it; what was there before is replaced."""

    def get(self, key: str) -> tuple[ObjectFacts, Iterator[bytes]]:
        """The content in pieces, not checked against anything. Raises LookupError where there is none."""

    def remove(self, key: str) -> None:
        """Nothing is there afterwards, whether or not there was."""

    def names(self) -> Iterator[str]:
        """The key of every object."""
