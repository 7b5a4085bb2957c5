"""One command in namespaces of its own: how bubblewrap is called, and how what it runs is read and ended."""

from __future__ import annotations

import contextlib
import os
import re
import selectors
import signal
import subprocess
import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from gate.adapters.docker_sandbox.creation import ENVIRONMENT, HOME, ORACLE, SKILLS, TMP, TOOL_UID, WORK
from gate.adapters.docker_sandbox.streams import HARD_CAP_BYTES, End, Kept
from gate.errors import SandboxError

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

SYSTEM = ("/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32")
"""The machine's own programs, read-only: bubblewrap has no images."""
SETTINGS = ("/etc/alternatives", "/etc/ld.so.cache", "/etc/ld.so.conf", "/etc/ld.so.conf.d", "/etc/mime.types")
"""All of /etc that programs need to start. Who else uses this machine is nobody's business in there."""

# Says on stderr that it has started, then becomes the command: everything before that is bubblewrap's own complaint.
_START = 'printf %s "$0" >&2; exec "$@"'
# Limits of every process: file length in blocks of 512 bytes, data in KiB; each stays as it is where it is lower already.
_LIMITS = 'for what in "-c 0" "-n 1024" "-f $1" "-d $2"; do ulimit $what 2>/dev/null; done; shift 2; exec "$@"'
_CHUNK = 65_536
_WATCH_S = 0.5
_END_WAIT_S = 5
MEBIBYTE = 1_048_576


@dataclass(frozen=True)
class Room:
    """The folders of one sandbox, and what its processes may use."""

    folder: Path
    memory_mb: int
    workspace_mb: int
    oracle: bool = False

    @property
    def work(self) -> Path:
        """/work."""
        return self.folder / "work"

    @property
    def skills(self) -> Path:
        """/skills, or /oracle of a one-shot."""
        return self.folder / "skills"

    @property
    def tmp(self) -> Path:
        """The temporary folder."""
        return self.folder / "tmp"


@dataclass(frozen=True)
class Ran:
    """How one command ended."""

    started: bool
    end: End
    exit_code: int | None
    stdout: Kept
    stderr: Kept
    seconds: float
    full: bool = False
    """It was ended because it filled the workspace."""


def command_line(program: str, room: Room, argv: Sequence[str], *, mark: str, home: str = HOME) -> list[str]:
    """bubblewrap's arguments: new namespaces of every kind (network: a loopback and nothing else), no capability, an
    environment of constants, and of this machine nothing but its programs."""
    arguments = [program, "--unshare-all", "--unshare-user", "--die-with-parent", "--new-session"]
    arguments += [
        "--uid",
        str(TOOL_UID),
        "--gid",
        str(TOOL_UID),
        "--hostname",
        "sandbox",
        "--cap-drop",
        "ALL",
        "--clearenv",
    ]
    for name, value in sorted({**ENVIRONMENT, "HOME": home}.items()):
        arguments += ["--setenv", name, value]
    for path in SYSTEM:
        place = Path(path)
        if place.is_symlink():
            arguments += ["--symlink", str(place.readlink()), path]
        elif place.is_dir():
            arguments += ["--ro-bind", path, path]
    for path in SETTINGS:
        arguments += ["--ro-bind-try", path, path]
    arguments += ["--proc", "/proc", "--dev", "/dev"]
    for name in ("passwd", "group"):
        arguments += ["--ro-bind", str(room.folder / name), f"/etc/{name}"]
    arguments += ["--bind", str(room.tmp), TMP, "--bind", str(room.work), WORK]
    arguments += ["--ro-bind", str(room.skills), ORACLE if room.oracle else SKILLS]
    return [*arguments, "--remount-ro", "/", "--chdir", WORK, "--", "/bin/sh", "-c", _START, mark, *argv]


def run(
    command: Sequence[str],
    room: Room,
    *,
    mark: bytes,
    timeout_s: float,
    stdin: bytes,
    cap: int,
    note: Callable[[subprocess.Popen[bytes] | None], None],
) -> Ran:
    """Run it to its end. ``note`` is told the process while it runs, so that somebody else can end it."""
    began = time.monotonic()

    size = room.workspace_mb * MEBIBYTE
    told, tells = os.pipe()
    program, *arguments = command
    limited = [
        "/bin/sh", "-c", _LIMITS, "sh", str(size // 512), str(room.memory_mb * 1024),
        program, "--info-fd", str(tells), *arguments,
    ]  # fmt: skip
    try:
        process = subprocess.Popen(
            limited, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, env={}, start_new_session=True,
            pass_fds=(tells,),
        )  # fmt: skip
    except (OSError, ValueError) as error:
        os.close(told)
        raise SandboxError(f"bubblewrap could not be started: {error}") from error
    finally:
        os.close(tells)
    note(process)
    try:
        reader = _Reader(process, room, mark, stdin, cap)
        end = reader.read(began + timeout_s)
    finally:
        try:
            finish(process)
            _wait_for_the_last(told)
        finally:
            os.close(told)
            note(None)
            for pipe in (process.stdin, process.stdout, process.stderr):
                if pipe is not None:
                    with contextlib.suppress(OSError):
                        pipe.close()
    started, stderr = reader.settled()
    code = process.returncode
    return Ran(
        started=started,
        end=end,
        exit_code=None if code is None else code if code >= 0 else 128 - code,
        stdout=reader.stdout,
        stderr=stderr,
        seconds=time.monotonic() - began,
        full=reader.full,
    )


def finish(process: subprocess.Popen[bytes]) -> None:
    """End it with everything in its namespaces: those die with their process 1, and that with bubblewrap."""
    if process.poll() is None:
        with contextlib.suppress(OSError):
            os.killpg(process.pid, signal.SIGKILL)
    try:
        process.wait(_END_WAIT_S)
    except subprocess.TimeoutExpired:
        raise SandboxError("A sandbox process does not end although it was killed.") from None


def _wait_for_the_last(told: int) -> None:
    """Wait until the namespaces' own process 1 is gone: the kernel ends it after everything else in them.

    bubblewrap itself does not wait for that: it ends as soon as it knows the exit code, or is killed. Raises SandboxError.
    """
    said = os.read(told, _CHUNK)
    found = re.search(rb'"child-pid"\s*:\s*(\d+)', said)
    if not found:
        return  # it never got so far
    place = Path(f"/proc/{int(found[1])}/stat")
    deadline, pause = time.monotonic() + _END_WAIT_S, 0.001
    while time.monotonic() < deadline:
        try:
            state = place.read_text(encoding="utf-8", errors="replace").rpartition(")")[2].split()[0]
        except (OSError, IndexError):
            return
        if state in "ZX":
            return
        time.sleep(pause)
        pause = min(2 * pause, 0.1)
    raise SandboxError("Processes of a sandbox do not end although they were killed.")


class _Reader:
    """Moves stdin in and output out, bounded in memory; silence cannot outlast the deadline."""

    def __init__(self, process: subprocess.Popen[bytes], room: Room, mark: bytes, stdin: bytes, cap: int) -> None:
        self._process = process
        self._room = room
        self._mark = mark
        self._pending = memoryview(stdin)
        self._early = bytearray()
        self._started = False
        self.stdout = Kept(cap)
        self.stderr = Kept(cap)
        self.full = False

    def settled(self) -> tuple[bool, Kept]:
        """(whether the command itself started, its standard error)."""
        if not self._started:
            self._begin(at_end=True)
        return self._started, self.stderr

    def _begin(self, *, at_end: bool) -> None:
        if len(self._early) < len(self._mark) and not at_end:
            return
        early = bytes(self._early)
        self._early.clear()
        if early.startswith(self._mark):
            self._started = True
            early = early[len(self._mark) :]
        self.stderr.add(early)

    def _take(self, data: bytes, *, is_error: bool) -> None:
        if not is_error:
            self.stdout.add(data)
        elif self._started:
            self.stderr.add(data)
        else:
            self._early += data
            self._begin(at_end=False)

    def read(self, deadline: float) -> End:
        """Until the output ends, too much of it came, the workspace is full, or time is up."""
        stdin, stdout, stderr = self._process.stdin, self._process.stdout, self._process.stderr
        if stdin is None or stdout is None or stderr is None:
            raise SandboxError("bubblewrap was started without pipes.")
        watch_at = time.monotonic() + _WATCH_S
        with selectors.DefaultSelector() as selector:
            for pipe, events in ((stdout, selectors.EVENT_READ), (stderr, selectors.EVENT_READ)):
                os.set_blocking(pipe.fileno(), False)
                selector.register(pipe, events, pipe is stderr)
            os.set_blocking(stdin.fileno(), False)
            if self._pending:
                selector.register(stdin, selectors.EVENT_WRITE)
            else:
                stdin.close()
            while selector.get_map():
                now = time.monotonic()
                if now >= deadline:
                    return End.DEADLINE
                if now >= watch_at:
                    watch_at = now + _WATCH_S
                    self.full = used_bytes(self._room) > self._room.workspace_mb * MEBIBYTE
                if self.full or self.stdout.total + self.stderr.total > HARD_CAP_BYTES:
                    return End.FLOOD
                for key, events in selector.select(min(deadline, watch_at) - now):
                    more = self._write(key.fd) if events & selectors.EVENT_WRITE else self._receive(key)
                    if not more:
                        selector.unregister(key.fileobj)
                        key.fileobj.close()  # type: ignore[union-attr] # pipes, never bare numbers
            return self._wait(deadline)

    def _receive(self, key: selectors.SelectorKey) -> bool:
        """Whether more may come."""
        data = os.read(key.fd, _CHUNK)
        self._take(data, is_error=bool(key.data))
        return bool(data)

    def _wait(self, deadline: float) -> End:
        """A command may close its own output long before it ends."""
        try:
            self._process.wait(max(0.0, deadline - time.monotonic()))
        except subprocess.TimeoutExpired:
            return End.DEADLINE
        return End.CLOSED

    def _write(self, descriptor: int) -> bool:
        """Whether more is to be written."""
        try:
            self._pending = self._pending[os.write(descriptor, self._pending[:_CHUNK]) :]
        except BlockingIOError:
            return True
        except OSError:
            return False
        return bool(self._pending)


def used_bytes(room: Room) -> int:
    """What the sandbox has on the disk: its workspace and its temporary folder."""
    total = 0
    for root in (room.work, room.tmp):
        for folder, _, names in os.walk(root):
            for name in names:
                with contextlib.suppress(OSError):
                    total += Path(folder, name).lstat().st_blocks * 512
    return total
