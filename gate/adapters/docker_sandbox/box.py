"""One running sandbox."""

from __future__ import annotations

import contextlib
import secrets
import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from gate.adapters.docker_sandbox import archives, creation, streams
from gate.adapters.docker_sandbox.channel import DockerChannel
from gate.adapters.docker_sandbox.creation import SKILLS, TOOL_UID, WORK
from gate.adapters.docker_sandbox.engine import Engine, EngineRefusal, noted, reason, retried, speaking
from gate.domain.sandbox import BoxFacts, ExecResult
from gate.errors import BoxDeadError, SandboxError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from gate.domain.sandbox import BoxSpec, Collected, PutFile

# Says on stderr that it has started, then becomes the command. `timeout` is the first of three lines: it ends a whole
# process group even where the gate is gone; what left the group is swept, and what survives that ends with the box.
_START = 'printf %s "$0" >&2; exec "$@"'
_TIMED_OUT = 124
_WRAPPER_FAILED = 125
_KILLED = 137
_TERMINATED = 143
_KILL_AFTER_S = 2
_GRACE_S = _KILL_AFTER_S + 2
_EXIT_WAIT_S = 3

# As the tool uid: kill everything of that uid but the shell itself.
_SWEEP = "kill -9 -1 2>/dev/null; exit 0"
_SWEEP_TIMEOUT_S = 10
_SWEEPS = 3
_START_ATTEMPTS = 3

# Counted by the kernel: how often it ended a process here because memory ran out (cgroup v1, then v2).
_OOM_COUNT = (
    "cat /sys/fs/cgroup/memory/memory.oom_control /sys/fs/cgroup/memory.events 2>/dev/null | sed -n 's/^oom_kill //p'"
)

# Limits of Linux, with room for the words in front: the longest argument, and the arguments in all.
_MAX_ARGUMENT_BYTES = 131_000
_MAX_ARGUMENTS_BYTES = 1_000_000
_CANNOT_EXECUTE = 126
_NOT_FOUND = 127


@dataclass(frozen=True)
class _Ran:
    """One exec: whether its process started, why reading ended, and what it left."""

    demux: streams.Demux
    end: streams.End
    exit_code: int | None
    seconds: float
    refusal: str = ""


class DockerBox:
    """A Box on a Docker engine (``gate.protocols.Box``). One thread at a time; killing from another thread is safe."""

    def __init__(
        self, engine: Engine, spec: BoxSpec, *, container: str, image_id: str, is_cancelled: Callable[[], bool]
    ) -> None:
        """``container``: name of one that runs. ``is_cancelled``: whether the gate itself has killed it."""
        self._engine = engine
        self._spec = spec
        self._container = container
        self._image_id = image_id
        self._is_cancelled = is_cancelled
        self._sentinel = secrets.token_hex(16).encode()
        self._condemned: BoxDeadError | None = None
        self._seen: dict[str, Any] | None = None
        self._settled = False
        self._asleep = False
        self._closed = False
        self._used = False
        self._oom_kills = 0

    # --- facts

    def facts(self) -> BoxFacts:
        """What the engine says about it."""
        self._raise_if_closed()
        # None of it changes while it runs.
        seen = self._seen or self._inspect()
        host = seen.get("HostConfig", {})
        return BoxFacts(
            container=str(seen["Id"]),
            image_digest=str(seen["Image"]),
            network=str(host.get("NetworkMode", "")),
            runtime=str(host.get("Runtime", "")),
        )

    def _inspect(self) -> dict[str, Any]:
        self._raise_if_closed()
        with speaking("The Docker engine does not know the sandbox any more"):
            return dict(self._engine.api.inspect_container(self._container))

    def forget_use(self) -> None:
        """What ran so far was the gate's own: nothing in here is the agent's doing yet."""
        self._used = False

    def close(self) -> None:
        """Nothing more can be asked of it."""
        self._closed = True

    # --- files in

    def _settle(self) -> None:
        """Put the home folder and the sentinel, unless they came with the first files.

        After the start: what is put into a volume in memory before it is lost. Late, because every archive that an engine
        takes costs as much as a command.
        """
        if not self._settled:
            self.put_workspace(())

    def put_skill(self, files: Sequence[PutFile], *, name: str) -> None:
        """Put a skill at ``/skills/<name>``: root's, folders 0755, files 0644, or 0755 where executable."""
        if archives.check_relative(name) or "/" in name:
            raise SandboxError(
                f"A skill cannot be put into the sandbox under the name {name!r}: it must be one plain word."
            )
        self._put(archives.pack(files, owner=0, under=name), SKILLS)

    def put_workspace(self, files: Sequence[PutFile]) -> None:
        """Put files into ``/work``, owned by the tool uid."""
        if any(item.path.split("/")[0] == archives.SENTINEL_FOLDER for item in files):
            raise SandboxError(f"The name {archives.SENTINEL_FOLDER} in the workspace belongs to the gate.")
        if self._settled and not files:
            return
        sentinel = b"" if self._settled else self._sentinel
        self._put(archives.pack(files, owner=TOOL_UID, sentinel=sentinel), WORK)
        self._settled = True

    def _put(self, archive: bytes, folder: str) -> None:
        self._raise_if_condemned()
        self._wake()
        with speaking(f"Files could not be put into {folder} of the sandbox"):
            done = retried(lambda: self._engine.api.put_archive(self._container, folder, archive))
        # A container that has stopped takes the files too, into the layer under its volumes, and says nothing.
        self._raise_if_dead()
        if not done:
            raise SandboxError(f"The Docker engine did not take the files for {folder} of the sandbox.")

    # --- commands

    def exec(
        self, argv: Sequence[str], *, timeout_s: float, stdin: bytes = b"", output_cap_bytes: int = 262_144
    ) -> ExecResult:
        """Run a command as the tool uid in ``/work``. See ``gate.protocols.Box.exec``.

        ``output_cap_bytes`` holds for each stream. A command that prints over 64 MB is killed: exit code 137, truncated.
        After a time-out every process of the tool uid is killed, also those of earlier calls.
        """
        self._raise_if_condemned()
        why = impossible(argv)
        if why:
            return refused(why)
        self._settle()
        self._wake()
        self._used = True
        ran = self._start(argv, timeout_s, stdin, output_cap_bytes)
        timed_out = ran.end is streams.End.DEADLINE or (
            ran.exit_code in (_TIMED_OUT, _KILLED) and ran.seconds >= timeout_s and ran.end is not streams.End.FLOOD
        )
        if ran.exit_code in (None, _KILLED, _TERMINATED):
            self._raise_if_dead()
        if ran.exit_code == _WRAPPER_FAILED and ran.demux.stderr.content().startswith(b"timeout: fork"):
            self._raise_if_used_up("no process could be made for the command")
        exit_code = ran.exit_code
        if timed_out or ran.end is streams.End.FLOOD:
            self._sweep()
            exit_code = _KILLED if exit_code is None else exit_code
        if exit_code is None:
            raise SandboxError("The Docker engine did not say how a command in the sandbox ended.")
        out, err = ran.demux.stdout, ran.demux.stderr
        return ExecResult(
            exit_code=exit_code,
            stdout=out.content(),
            stderr=err.content(),
            stdout_bytes=out.total,
            stderr_bytes=err.total,
            truncated=out.truncated or err.truncated or ran.end is streams.End.FLOOD,
            timed_out=timed_out,
            oom=exit_code == _KILLED and not timed_out and ran.end is streams.End.CLOSED and self._memory_ran_out(),
            duration_ms=round(ran.seconds * 1000),
        )

    @contextlib.contextmanager
    def connect(self, argv: Sequence[str]) -> Iterator[DockerChannel]:
        """Run a program as the keeper and hold both its ends. See ``gate.protocols.Box.connect``."""
        self._raise_if_condemned()
        self._settle()
        self._wake()
        try:
            exec_id = self._create_exec(argv, creation.KEEPER_UID, with_stdin=True)
            sock, early = self._engine.hijack(f"/exec/{exec_id}/start", {"Detach": False, "Tty": False})
        except EngineRefusal as refusal:
            raise SandboxError(f"A program could not be started in the sandbox: {refusal.text}") from refusal
        channel = DockerChannel(sock, early)
        try:
            yield channel
        finally:
            channel.close()

    def _start(self, argv: Sequence[str], timeout_s: float, stdin: bytes, cap: int) -> _Ran:
        """Run it, again where its process did not start (which is known for sure: the start mark is missing)."""
        said = ""
        for attempt in range(_START_ATTEMPTS):
            if attempt:
                time.sleep(0.3)
            mark = secrets.token_hex(12)
            wrapped = ["/bin/sh", "-c", _START, mark, "timeout", "-k", str(_KILL_AFTER_S), f"{timeout_s:.3f}", *argv]
            ran = self._run(
                wrapped,
                uid=TOOL_UID,
                demux=streams.Demux(cap, mark.encode()),
                deadline=time.monotonic() + timeout_s + _GRACE_S,
                stdin=stdin,
            )
            if ran.demux.started:
                return ran
            self._raise_if_dead()
            said = ran.refusal or (ran.demux.stderr.content() + ran.demux.stdout.content()).decode("utf-8", "replace")
        raise self._cannot_start(" ".join(said.split())[:300])

    def _run(
        self, command: Sequence[str], *, uid: int, demux: streams.Demux, deadline: float, stdin: bytes = b""
    ) -> _Ran:
        began = time.monotonic()
        try:
            exec_id = self._create_exec(command, uid, with_stdin=bool(stdin))
            sock, early = self._engine.hijack(f"/exec/{exec_id}/start", {"Detach": False, "Tty": False})
        except EngineRefusal as refusal:
            return _Ran(demux, streams.End.CLOSED, None, time.monotonic() - began, refusal=refusal.text)
        with sock:
            end = streams.pump(
                sock,
                demux,
                early=early,
                stdin=stdin,
                close_stdin=bool(stdin),
                deadline=deadline,
                runs=lambda: self._exec_state(exec_id)[0],
            )
            demux.finish()
            exit_code = None
            if end is streams.End.CLOSED:
                # The stream can end long before the process (which may close its own output), but not the other way round.
                exit_code, over = self._exit_code(exec_id, deadline)
                end = streams.End.DEADLINE if over else end
        return _Ran(demux, end, exit_code, time.monotonic() - began)

    def _create_exec(self, command: Sequence[str], uid: int, *, with_stdin: bool) -> str:
        from docker.errors import APIError

        with speaking("A command could not be run in the sandbox"):
            try:
                # Made twice, run once: an exec that nobody starts is nothing.
                made = retried(
                    lambda: self._engine.api.exec_create(
                        self._container, list(command), user=f"{uid}:{uid}", workdir=WORK, stdin=with_stdin
                    )
                )
            except APIError as error:
                raise EngineRefusal(error.status_code or 500, reason(error)) from error
        return str(made["Id"])

    def _exec_state(self, exec_id: str) -> tuple[bool, int | None]:
        with speaking("The Docker engine lost sight of a command in the sandbox"):
            seen = self._engine.api.exec_inspect(exec_id)
        return bool(seen.get("Running")), seen.get("ExitCode")

    def _exit_code(self, exec_id: str, deadline: float) -> tuple[int | None, bool]:
        """(exit code or None where the engine does not say, whether the deadline passed while the process still ran)."""
        pause, unknown_since = 0.01, 0.0
        while True:
            running, code = self._exec_state(exec_id)
            now = time.monotonic()
            if not running:
                if code is not None:
                    return code, False
                unknown_since = unknown_since or now
                if now - unknown_since > _EXIT_WAIT_S:
                    return None, False
            elif now >= deadline or self._has_stopped():
                return None, now >= deadline
            time.sleep(pause)
            pause = min(pause * 2, 0.25)

    def _has_stopped(self) -> bool:
        return not self._inspect()["State"].get("Running")

    def _cannot_start(self, said: str) -> SandboxError:
        """Why no command starts in a box that lives: used up by what runs in it (raises BoxDeadError), or the engine."""
        said = said or "it gave no reason"
        self._raise_if_dead()
        self._raise_if_used_up(said)
        return SandboxError(f"The Docker engine could not start a command in the sandbox: {said}")

    def _raise_if_used_up(self, said: str) -> None:
        used_up, oom = self._used_up()
        if used_up:
            message = f"The sandbox can run no more commands: {used_up} ({said})."
            self._condemn(BoxDeadError(message, agent_caused=True, oom=oom))
            self._raise_if_condemned()

    def _used_up(self) -> tuple[str, bool]:
        """(what has been used up inside, or empty; whether it is memory)."""
        with speaking("The Docker engine does not say what the sandbox uses"):
            stats = self._engine.api.stats(self._container, stream=False, one_shot=True)
        pids = stats.get("pids_stats") or {}
        current, limit = int(pids.get("current") or 0), int(pids.get("limit") or self._spec.pids)
        # A start needs a few processes of the runtime's own at the same time.
        if current >= min(limit, self._spec.pids) - 8 and current > 8:
            return f"{current} of {self._spec.pids} processes are in use", False
        memory = stats.get("memory_stats") or {}
        usage, most = int(memory.get("usage") or 0), self._spec.memory_mb * 1024 * 1024
        if usage >= most * 0.95:
            return f"{usage // 1_048_576} of {self._spec.memory_mb} MiB of memory are in use", True
        return "", False

    # --- ends of processes and of the box

    def _sweep(self) -> None:
        """Kill every process of the tool uid. A box that cannot be cleared is frozen: it runs nothing more."""
        for attempt in range(_SWEEPS):
            if attempt:
                time.sleep(0.2)
            deadline = time.monotonic() + _SWEEP_TIMEOUT_S
            self._run(["/bin/sh", "-c", _SWEEP], uid=TOOL_UID, demux=streams.Demux(4096), deadline=deadline)
            if not self._strangers():
                return
            self._raise_if_dead()
        self._condemn(
            BoxDeadError("Processes in the sandbox could not be stopped after a time-out.", agent_caused=True)
        )

    def _strangers(self) -> int:
        """How many processes run here beside the keeper's, seen from outside, where nothing inside can hide."""
        with speaking("The Docker engine does not say what runs in the sandbox"):
            listed = self._engine.api.top(self._container, ps_args="-eo pid,ppid,uid,stat")
            first = int(self._inspect()["State"].get("Pid") or 0)
        titles = [str(title).upper() for title in listed["Titles"]]
        rows = [dict(zip(titles, row, strict=False)) for row in listed["Processes"]]
        # Compared with the first process, not with a number: an engine may map uids.
        keeper = next((row["UID"] for row in rows if row["PID"] == str(first)), str(creation.KEEPER_UID))
        return sum(1 for row in rows if row["UID"] != keeper and not row["STAT"].startswith("Z"))

    def _memory_ran_out(self) -> bool:
        """Whether the kernel has ended a process here for memory since this was last asked (the box itself lives)."""
        deadline = time.monotonic() + _SWEEP_TIMEOUT_S
        ran = self._run(
            ["/bin/sh", "-c", _OOM_COUNT], uid=creation.KEEPER_UID, demux=streams.Demux(4096), deadline=deadline
        )
        words = ran.demux.stdout.content().split()
        if ran.exit_code != 0:
            # Commands of a box that ends are told so a moment before the engine knows that the box has ended.
            self._wait_whether_dead()
        if words and all(word.isdigit() for word in words):
            before, self._oom_kills = self._oom_kills, max(int(word) for word in words)
            return self._oom_kills > before
        return "oom" in self._events()

    def _events(self) -> list[str]:
        return noted(self._engine, self._container, self._spec.fuse_s + 60)

    def _raise_if_closed(self) -> None:
        if self._closed:
            raise SandboxError("The sandbox was used after its end.")

    def _raise_if_condemned(self) -> None:
        self._raise_if_closed()
        if self._condemned is not None:
            raise self._condemned

    def _wait_whether_dead(self) -> None:
        deadline = time.monotonic() + _EXIT_WAIT_S
        while time.monotonic() < deadline:
            self._raise_if_dead()
            time.sleep(0.1)

    def _raise_if_dead(self) -> None:
        """Raises BoxDeadError where the container does not run any more, with whose doing it was."""
        from docker.errors import NotFound

        with speaking("The Docker engine does not say how the sandbox is"):
            try:
                self._seen = dict(self._engine.api.inspect_container(self._container))
                state = self._seen["State"]
            except NotFound:
                state = None
        if state is not None and state.get("Running"):
            return
        error = self._death(state)
        self._condemned = error
        raise error

    def _death(self, state: dict[str, Any] | None) -> BoxDeadError:
        if self._is_cancelled():
            return BoxDeadError("The sandbox was stopped because the session was told to stop.")
        if state is None:
            return BoxDeadError("The sandbox was removed by something outside.", remedy=_OUTSIDE)
        events = self._events()
        if state.get("OOMKilled") or "oom" in events:
            return BoxDeadError("The sandbox ended because its memory ran out.", agent_caused=True, oom=True)
        if state.get("Error"):
            return BoxDeadError(f"The Docker engine lost the sandbox: {state['Error']}")
        if "kill" in events or "stop" in events:
            return BoxDeadError("The sandbox was stopped by something outside.", remedy=_OUTSIDE)
        if state.get("ExitCode") == 0:
            return BoxDeadError(
                f"The sandbox reached its longest life of {self._spec.fuse_s} s.",
                remedy="Give runs less time than the sandbox's fuse.",
            )
        if state.get("ExitCode") == _TERMINATED:
            return BoxDeadError("The sandbox was told to end by something outside.", remedy=_OUTSIDE)
        if state.get("ExitCode") in (_CANNOT_EXECUTE, _NOT_FOUND):
            return BoxDeadError(
                f"The sandbox image cannot run `sleep`, which keeps a sandbox alive (exit code {state['ExitCode']}).",
                remedy="Use an image with sh, timeout, sleep, cat, sed, rm and mkdir.",
            )
        # Tools cannot signal the keeper; of all that they can cause, only the kernel's own SIGKILL reaches it.
        return BoxDeadError(
            f"The sandbox has ended with exit code {state.get('ExitCode')} and nobody outside asked for it.",
            agent_caused=self._used and state.get("ExitCode") == _KILLED,
        )

    def _condemn(self, error: BoxDeadError) -> None:
        """Nothing runs in it any more. Frozen rather than killed: its workspace, which dies with it, is still evidence."""
        self._condemned = error
        with contextlib.suppress(SandboxError), speaking("pause"):
            self._engine.api.pause(self._container)

    # --- files out

    def collect(self, *, max_bytes: int = 20_000_000, max_files: int = 2_000) -> Collected:
        """Take ``/work`` out. See ``gate.protocols.Box.collect``; what is taken is in ``archives.collect_members``.

        It stays paused afterwards, until something else is asked of it: most boxes have nothing more to do.
        """
        self._raise_if_closed()
        if self._condemned is None:
            self._settle()
        before = self._inspect()["State"]
        if not before.get("Running"):
            self._raise_if_condemned()
            self._raise_if_dead()
        if not before.get("Paused"):
            with speaking("The sandbox could not be paused"):
                self._engine.api.pause(self._container)
            self._asleep = True
        found, sentinel = self._read_workspace(max_bytes, max_files)
        after = self._inspect()["State"]
        if not after.get("Running") or after.get("StartedAt") != before.get("StartedAt"):
            raise SandboxError("The sandbox ended while its workspace was being copied; the copy cannot be trusted.")
        if sentinel != self._sentinel:
            # The container ran all the while, so its volume was there: it is the workspace that has been tampered with.
            raise BoxDeadError(
                "The file that proves the copy of the workspace is missing or was changed.",
                agent_caused=self._used,
                remedy=f"Commands in the sandbox must leave {WORK}/{archives.SENTINEL_FOLDER} alone.",
            )
        return found

    def _wake(self) -> None:
        if self._asleep:
            self._asleep = False
            with contextlib.suppress(SandboxError), speaking("unpause"):
                self._engine.api.unpause(self._container)

    def _read_workspace(self, max_bytes: int, max_files: int) -> tuple[Collected, bytes | None]:
        with speaking("The workspace could not be copied out of the sandbox"):
            pieces, _ = self._engine.api.get_archive(self._container, WORK)
            iterator: Iterator[bytes] = iter(pieces)
            try:
                return archives.collect_members(
                    iterator,
                    root=WORK.strip("/"),
                    max_bytes=max_bytes,
                    max_files=max_files,
                    quota_bytes=self._spec.workspace_mb * 1024 * 1024,
                )
            finally:
                # The engine goes on sending until somebody hangs up.
                close = getattr(pieces, "close", None)
                if close is not None:
                    close()


_OUTSIDE = "Look for other programs that remove containers on this engine, and run the gate again."


def impossible(argv: Sequence[str]) -> str:
    """Why no process can be made from these arguments, as a shell would say it, or empty."""
    if not argv or not argv[0]:
        return "no command"
    sizes = [len(word.encode("utf-8", "surrogatepass")) for word in argv]
    if any("\0" in word for word in argv):
        return "an argument holds a NUL character"
    if max(sizes) > _MAX_ARGUMENT_BYTES or sum(sizes) + 9 * len(sizes) > _MAX_ARGUMENTS_BYTES:
        return "argument list too long"
    return ""


def refused(why: str) -> ExecResult:
    """The result of a command that no process can be made for."""
    text = f"{why}\n".encode()
    return ExecResult(
        exit_code=_CANNOT_EXECUTE, stdout=b"", stderr=text, stdout_bytes=0, stderr_bytes=len(text), truncated=False
    )
