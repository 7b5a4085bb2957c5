"""An in-memory sandbox for tests of whatever uses one."""

from __future__ import annotations

import hashlib
import os
import subprocess
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from types import TracebackType
from typing import Self

from gate.domain.sandbox import (
    BoxFacts,
    BoxSpec,
    Collected,
    CollectedBlob,
    Examined,
    ExecResult,
    OneShotResult,
    OneShotSpec,
    ProgramFile,
    PutFile,
    ReapReport,
    SandboxFacts,
)
from gate.errors import BoxDeadError, SandboxError

SENTINEL = "/work/.skill-gate/sentinel"
DEFAULT_IMAGES = {"skill-gate-sandbox:dev": "sha256:" + "5a" * 32}


@dataclass(frozen=True)
class Command:
    """What was asked of a box."""

    argv: tuple[str, ...]
    stdin: bytes = b""
    timeout_s: float = 30.0


@dataclass(frozen=True)
class Ran:
    """How a scripted command ended. The fake cuts the output to the caller's cap and counts what was cut."""

    stdout: bytes = b""
    stderr: bytes = b""
    exit_code: int = 0
    timed_out: bool = False
    oom: bool = False


Program = Callable[["ScriptedBox", Command], Ran | bytes | str]
"""What runs: reads and writes the box's files, returns how it ended (text or bytes: stdout, exit code 0).

Raising BoxDeadError ends the box, SandboxError is an engine that fails once, FileNotFoundError and PermissionError end the
command with exit code 1 and the error on stderr, as they would in a shell.
"""


def command_not_found(box: ScriptedBox, command: Command) -> Ran:
    """The default program: a sandbox in which nothing is installed."""
    del box
    return Ran(stderr=f"{command.argv[0]}: command not found\n".encode(), exit_code=127)


class ProcessChannel:
    """``gate.protocols.Channel`` to a real process."""

    def __init__(self, argv: Sequence[str]) -> None:
        self._process = subprocess.Popen(
            list(argv), stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, bufsize=0
        )

    def read(self) -> bytes:
        """The next bytes that it printed."""
        assert self._process.stdout is not None
        return os.read(self._process.stdout.fileno(), 65_536)

    def write(self, data: bytes) -> None:
        """Give it all of ``data``."""
        assert self._process.stdin is not None
        try:
            view = memoryview(data)
            while view:
                view = view[os.write(self._process.stdin.fileno(), view) :]
        except OSError as error:
            raise SandboxError(f"A program in the sandbox takes nothing more: {error}") from error

    def close(self) -> None:
        """Let go of it."""
        self._process.kill()
        self._process.wait()


@dataclass
class ScriptedBox:
    """A Box of dictionaries. Paths are absolute (``/work/a.txt``, ``/skills/name/SKILL.md``)."""

    spec: BoxSpec
    program: Program
    image_id: str
    files: dict[str, bytes] = field(default_factory=lambda: {SENTINEL: b"sentinel"})
    executable: set[str] = field(default_factory=set)
    links: dict[str, str] = field(default_factory=dict)
    """Links that a program made: path -> target. They are refused on collection."""
    calls: list[Command] = field(default_factory=list)
    dead: SandboxError | None = None
    closed: bool = False

    # --- for programs

    def path(self, name: str) -> str:
        """Where a name leads for a command, which runs in /work."""
        return name if name.startswith("/") else f"/work/{name}"

    def read(self, name: str) -> bytes:
        """Content of a file. Raises FileNotFoundError."""
        if self.path(name) not in self.files:
            raise FileNotFoundError(f"{name}: No such file or directory")
        return self.files[self.path(name)]

    def write(self, name: str, data: bytes) -> None:
        """Write as the tool uid. Raises PermissionError outside /work, /tmp and for the gate's own file."""
        path = self.path(name)
        if not path.startswith(("/work/", "/tmp/")) or path == SENTINEL:
            raise PermissionError(f"{name}: Permission denied")
        self.files[path] = data

    # --- the seam

    def facts(self) -> BoxFacts:
        """A box without network."""
        self._alive()
        return BoxFacts(container=f"scripted-{self.spec.label}", image_digest=self.image_id, network="none")

    def put_skill(self, files: Sequence[PutFile], *, name: str) -> None:
        """As ``gate.protocols.Box.put_skill``."""
        self._put(files, f"/skills/{_safe(name)}")

    def put_workspace(self, files: Sequence[PutFile]) -> None:
        """As ``gate.protocols.Box.put_workspace``."""
        self._put(files, "/work")

    def _put(self, files: Sequence[PutFile], folder: str) -> None:
        self._alive()
        if len({item.path for item in files}) < len(files):
            raise SandboxError("Two of the files to put into the sandbox have one path.")
        for item in files:
            path = f"{folder}/{_safe(item.path)}"
            self.files[path] = item.data
            (self.executable.add if item.executable else self.executable.discard)(path)

    def exec(
        self, argv: Sequence[str], *, timeout_s: float, stdin: bytes = b"", output_cap_bytes: int = 262_144
    ) -> ExecResult:
        """As ``gate.protocols.Box.exec``; runs the program."""
        self._alive()
        command = Command(tuple(argv), stdin, timeout_s)
        self.calls.append(command)
        try:
            ran = run_program(self, command)
        except BoxDeadError as error:
            self.dead = error
            raise
        return ExecResult(
            exit_code=ran.exit_code,
            stdout=_cut(ran.stdout, output_cap_bytes),
            stderr=_cut(ran.stderr, output_cap_bytes),
            stdout_bytes=len(ran.stdout),
            stderr_bytes=len(ran.stderr),
            truncated=max(len(ran.stdout), len(ran.stderr)) > output_cap_bytes,
            timed_out=ran.timed_out,
            oom=ran.oom,
        )

    @contextmanager
    def connect(self, argv: Sequence[str]) -> Iterator[ProcessChannel]:
        """As ``gate.protocols.Box.connect``: a process of this machine, since pipes cannot be made of dictionaries."""
        self._alive()
        channel = ProcessChannel(argv)
        try:
            yield channel
        finally:
            channel.close()

    def collect(self, *, max_bytes: int = 20_000_000, max_files: int = 2_000) -> Collected:
        """As ``gate.protocols.Box.collect``."""
        self._alive()
        if self.files.get(SENTINEL) != b"sentinel":
            raise BoxDeadError("The file that proves the copy of the workspace is missing.", agent_caused=True)
        taken: list[CollectedBlob] = []
        kept = kept_files = 0
        for path, data in sorted(self.files.items()):
            if not path.startswith("/work/") or path == SENTINEL:
                continue
            fits = kept_files < max_files and kept + len(data) <= max_bytes
            kept, kept_files = (kept + len(data), kept_files + 1) if fits else (kept, kept_files)
            blob = CollectedBlob(
                path=path.removeprefix("/work/"),
                size_bytes=len(data),
                sha256=hashlib.sha256(data).hexdigest(),
                data=data if fits else None,
                executable=path in self.executable,
            )
            taken.append(blob)
        refused = [f"{path!r} is a link to {target!r}; links are not followed." for path, target in self.links.items()]
        if kept_files < len(taken):
            refused.append(f"{len(taken) - kept_files} files are recorded without their content.")
        return Collected(files=tuple(taken), refused=tuple(refused))

    def _alive(self) -> None:
        if self.closed:
            raise SandboxError("The sandbox was used after its end.")
        if self.dead is not None:
            raise self.dead


def run_program(box: ScriptedBox, command: Command) -> Ran:
    """Run the box's program as an operating system would: errors of files are the command's own failure."""
    try:
        ran = box.program(box, command)
    except (FileNotFoundError, PermissionError) as error:
        return Ran(stderr=f"{command.argv[0]}: {error}\n".encode(), exit_code=1)
    if isinstance(ran, Ran):
        return ran
    return Ran(stdout=ran.encode() if isinstance(ran, str) else ran)


class ScriptedSandbox:
    """``gate.protocols.Sandbox`` in memory: deterministic, no engine, commands are Python callables.

    Promises: everything in ``tests/contract/test_sandbox_contract.py`` that an engine promises, except what only a kernel can
    do (limits, isolation). A box that stays open is the test's failure: use it in a ``with`` block, or call ``check`` at the
    end.

        with ScriptedSandbox(lambda box, command: "hello") as sandbox: ...
    """

    def __init__(
        self,
        program: Program = command_not_found,
        *,
        once: Callable[[OneShotSpec], OneShotResult] | None = None,
        images: Mapping[str, str] | None = None,
    ) -> None:
        """``once`` answers ``run_once``; without it the program runs over the files of the spec. ``images``: name -> id."""
        self.program = program
        self.once = once
        self.images = dict(DEFAULT_IMAGES if images is None else images)
        self.boxes: list[ScriptedBox] = []
        """Every box ever opened, in order, closed ones too: tests read their files and calls."""
        self.one_shots: list[OneShotSpec] = []
        self.fail_open: list[SandboxError] = []
        """Errors for the next calls of ``open`` and ``run_once``, first in first out: an engine that fails in passing."""
        self.killed_sessions: set[str] = set()
        self.installed: list[tuple[str, tuple[ProgramFile, ...]]] = []

    def __enter__(self) -> Self:
        """Use as a block, so that open boxes are noticed."""
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Fails for open boxes unless the block itself failed."""
        if error is None:
            self.check()

    def check(self) -> None:
        """Raises AssertionError where a box is still open."""
        still_open = [box.spec.label for box in self.boxes if not box.closed]
        assert not still_open, f"sandboxes that were never closed: {still_open}"

    # --- the seam

    def facts(self) -> SandboxFacts:
        """Says that it is a script."""
        return SandboxFacts(kind="docker", description="scripted, in memory")

    def examine(self) -> tuple[Examined, ...]:
        """As ``gate.protocols.Sandbox.examine``."""
        return (Examined(name="engine", state="ok", text=self.facts().description),)

    def resolve_image(self, image: str) -> str:
        """As ``gate.protocols.Sandbox.resolve_image``; an id stands for itself."""
        if image in self.images.values():
            return image
        if image not in self.images:
            raise SandboxError(f"The sandbox image {image} is not there.", remedy="Name it in `images`.")
        return self.images[image]

    def install(self, image: str, session_id: str, files: Sequence[ProgramFile]) -> str:
        """As ``gate.protocols.Sandbox.install``; keeps what was asked."""
        self.resolve_image(image)
        self.installed.append((session_id, tuple(files)))
        return f"programs-{len(self.installed)}"

    @contextmanager
    def open(self, spec: BoxSpec) -> Iterator[ScriptedBox]:
        """As ``gate.protocols.Sandbox.open``."""
        box = self._make(spec)
        self.boxes.append(box)
        try:
            yield box
        finally:
            box.closed = True

    def _make(self, spec: BoxSpec) -> ScriptedBox:
        if spec.session_id in self.killed_sessions:
            raise SandboxError("The session was told to stop; no more sandboxes are made for it.")
        if self.fail_open:
            raise self.fail_open.pop(0)
        return ScriptedBox(spec, self.program, self.resolve_image(spec.image))

    def run_once(self, spec: OneShotSpec) -> OneShotResult:
        """As ``gate.protocols.Sandbox.run_once``."""
        self.one_shots.append(spec)
        box = self._make(BoxSpec(session_id=spec.session_id, label=spec.label, image=spec.image))
        if self.once is not None:
            return self.once(spec)
        box.files.clear()
        box.put_workspace(spec.files)
        box.files |= {f"/oracle/{_safe(item.path)}": item.data for item in spec.oracle_files}
        ran = run_program(box, Command(spec.argv, b"", spec.timeout_s))
        return OneShotResult(
            exit_code=None if ran.timed_out else ran.exit_code,
            stdout=_cut(ran.stdout, spec.output_cap_bytes),
            stderr=_cut(ran.stderr, spec.output_cap_bytes),
            truncated=max(len(ran.stdout), len(ran.stderr)) > spec.output_cap_bytes,
            timed_out=ran.timed_out,
            oom=ran.oom,
        )

    def reap(self, session_id: str | None = None) -> ReapReport:
        """Ends the session's open boxes. ``None`` finds nothing: no owner in memory can be dead."""
        left = [box for box in self.boxes if not box.closed and box.dead is None and box.spec.session_id == session_id]
        for box in left:
            box.dead = BoxDeadError("The sandbox was removed by something outside.")
        return ReapReport(removed_containers=len(left), removed_volumes=2 * len(left))

    def kill_all(self, session_id: str) -> None:
        """Ends the session's open boxes and lets no more be opened for it."""
        self.killed_sessions.add(session_id)
        for box in self.boxes:
            if box.spec.session_id == session_id and not box.closed:
                box.dead = box.dead or BoxDeadError("The sandbox was stopped because the session was told to stop.")


def _safe(path: str) -> str:
    if path.startswith("/") or any(part in ("", ".", "..") for part in path.split("/")) or "\0" in path:
        raise SandboxError(f"The file {path!r} cannot be put into the sandbox: its path leaves its folder.")
    return path


def _cut(data: bytes, cap: int) -> bytes:
    if len(data) <= cap:
        return data
    head, mark = data[: cap // 2], b"\n[... cut ...]\n"
    tail = data[len(data) - (cap - len(head)) :]
    return head + mark + tail[len(mark) :] if len(mark) < len(tail) else head + tail
