"""The seam's implementation on bubblewrap: folders of this machine, and namespaces for each command.

Weaker than a container: the kernel and the machine's programs are shared, memory is limited for each process and not for
all together, no system call is filtered, and what runs in the background ends with the command that started it. What it
holds as a container does: no network, no key, no file of this machine but its programs, nothing of another arm.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import secrets
import shutil
import subprocess
import tarfile
import tempfile
import threading
import time
from pathlib import Path
from typing import TYPE_CHECKING

from gate.adapters.bubblewrap_sandbox.process import MEBIBYTE, Ran, Room, command_line, finish, run, used_bytes
from gate.adapters.docker_sandbox import archives
from gate.adapters.docker_sandbox.box import impossible, refused
from gate.adapters.docker_sandbox.creation import HOME, LABEL_EXPIRES, LABEL_OWNER, TMP, is_abandoned, this_owner
from gate.adapters.docker_sandbox.streams import End
from gate.domain.sandbox import (
    REQUIRED_PROGRAMS,
    BoxFacts,
    BoxSpec,
    Collected,
    Examined,
    ExecResult,
    OneShotResult,
    ReapReport,
    SandboxFacts,
)
from gate.errors import BoxDeadError, SandboxError
from gate.settings import DEFAULT_IMAGE, OWN_IMAGE

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from contextlib import AbstractContextManager

    from gate.domain.sandbox import OneShotSpec, ProgramFile, PutFile
    from gate.protocols import Channel

_KILLED = 137
_EXPIRY_SLACK_S = 300
_ONE_SHOT_WORKSPACE_MB = 256
_OWNER = "owner.json"
_INSTALL = "Install it (Debian, Ubuntu: apt install bubblewrap; Fedora: dnf install bubblewrap), or use Docker."
_WEAKER = "weaker isolation than a container"
_CHUNK = 1 << 20


def default_root() -> Path:
    """Where sandboxes lie: a folder that only this user can look into."""
    return Path(os.environ.get("XDG_RUNTIME_DIR") or tempfile.gettempdir()) / f"skill-gate-sandboxes-{os.getuid()}"


class BubblewrapBox:
    """A Box (``gate.protocols.Box``). One thread at a time; ending it from another thread is safe."""

    def __init__(self, program: str, room: Room, image_id: str, *, home: str = HOME) -> None:
        self._program = program
        self._room = room
        self._image_id = image_id
        self._home = home
        self._sentinel = secrets.token_hex(16).encode()
        self._lock = threading.Lock()
        self._process: subprocess.Popen[bytes] | None = None
        self._dead: BoxDeadError | None = None
        self._closed = False
        self._used = False

    def settle(self) -> None:
        """The home folder and the file that proves a collection."""
        (self._room.work / "home").mkdir(mode=0o700)
        place = self._room.work / archives.SENTINEL
        place.parent.mkdir(mode=0o755)
        place.write_bytes(self._sentinel)

    # --- ends

    def end(self, why: BoxDeadError) -> None:
        """Nothing runs in it any more, and what runs is killed."""
        with self._lock:
            self._dead = self._dead or why
            if self._process is not None:
                with contextlib.suppress(SandboxError):
                    finish(self._process)

    def close(self) -> None:
        """Nothing more can be asked of it."""
        self._closed = True

    def _note(self, process: subprocess.Popen[bytes] | None) -> None:
        with self._lock:
            self._process = process
            if process is not None and self._dead is not None:
                with contextlib.suppress(SandboxError):
                    finish(process)

    def _raise_if_over(self) -> None:
        if self._closed:
            raise SandboxError("The sandbox was used after its end.")
        if self._dead is not None:
            raise self._dead
        if not self._room.work.is_dir():
            raise BoxDeadError("The sandbox was removed by something outside.")

    # --- the seam

    def facts(self) -> BoxFacts:
        """See ``gate.protocols.Box.facts``."""
        self._raise_if_over()
        name = self._room.folder.name
        return BoxFacts(container=name, image_digest=self._image_id, network="none", runtime="bubblewrap")

    def put_skill(self, files: Sequence[PutFile], *, name: str) -> None:
        """See ``gate.protocols.Box.put_skill``: a folder that commands see read-only."""
        if archives.check_relative(name) or "/" in name:
            raise SandboxError(
                f"A skill cannot be put into the sandbox under the name {name!r}: it must be one plain word."
            )
        self._raise_if_over()
        put(files, self._room.skills / name)

    def put_workspace(self, files: Sequence[PutFile]) -> None:
        """See ``gate.protocols.Box.put_workspace``."""
        if any(item.path.split("/")[0] == archives.SENTINEL_FOLDER for item in files):
            raise SandboxError(f"The name {archives.SENTINEL_FOLDER} in the workspace belongs to the gate.")
        self._raise_if_over()
        put(files, self._room.work)

    def exec(
        self, argv: Sequence[str], *, timeout_s: float, stdin: bytes = b"", output_cap_bytes: int = 262_144
    ) -> ExecResult:
        """Run a command. See ``gate.protocols.Box.exec``; whatever it started in the background ends with it."""
        self._raise_if_over()
        why = impossible(argv)
        if why:
            return refused(why)
        self._used = True
        ran = self.run(argv, timeout_s, stdin, output_cap_bytes)
        if self._dead is not None:
            raise self._dead
        if used_bytes(self._room) > self._room.workspace_mb * MEBIBYTE:
            error = BoxDeadError(f"The workspace holds more than {self._room.workspace_mb} MiB.", agent_caused=True)
            self.end(error)
            raise error
        timed_out = ran.end is End.DEADLINE
        code = _KILLED if ran.end is not End.CLOSED else ran.exit_code
        if code is None:
            raise SandboxError("bubblewrap did not say how a command ended.")
        return ExecResult(
            exit_code=code,
            stdout=ran.stdout.content(),
            stderr=ran.stderr.content(),
            stdout_bytes=ran.stdout.total,
            stderr_bytes=ran.stderr.total,
            truncated=ran.stdout.truncated or ran.stderr.truncated or ran.end is End.FLOOD,
            timed_out=timed_out,
            duration_ms=round(ran.seconds * 1000),
        )

    def run(self, argv: Sequence[str], timeout_s: float, stdin: bytes, cap: int) -> Ran:
        """Run it. Raises SandboxError where bubblewrap could not start it."""
        mark = secrets.token_hex(12)
        command = command_line(self._program, self._room, argv, mark=mark, home=self._home)
        ran = run(command, self._room, mark=mark.encode(), timeout_s=timeout_s, stdin=stdin, cap=cap, note=self._note)
        if not ran.started and self._dead is None:
            said = " ".join(ran.stderr.content().decode("utf-8", "replace").split())[:300]
            raise SandboxError(f"bubblewrap could not start a command: {said or 'it gave no reason'}", remedy=_ALLOW)
        return ran

    def connect(self, argv: Sequence[str]) -> AbstractContextManager[Channel]:
        """Not here: every command has a network of its own, so a relay beside it could not be reached."""
        del argv
        raise SandboxError("Agent programs need sandboxes of Docker.", remedy="Leave out --sandbox bubblewrap.")

    def collect(self, *, max_bytes: int = 20_000_000, max_files: int = 2_000) -> Collected:
        """Take ``/work`` out. Nothing runs in between commands, so nothing changes what is being read."""
        self._raise_if_closed_or_gone()
        with tempfile.TemporaryFile(dir=self._room.folder) as packed:
            _pack(self._room.work, packed)
            packed.seek(0)
            found, sentinel = archives.collect_members(
                iter(lambda: packed.read(_CHUNK), b""),
                root="work",
                max_bytes=max_bytes,
                max_files=max_files,
                quota_bytes=self._room.workspace_mb * MEBIBYTE,
            )
        if sentinel != self._sentinel:
            raise BoxDeadError(
                "The file that proves the copy of the workspace is missing or was changed.",
                agent_caused=self._used,
                remedy=f"Commands in the sandbox must leave /work/{archives.SENTINEL_FOLDER} alone.",
            )
        return found

    def _raise_if_closed_or_gone(self) -> None:
        if self._dead is not None and self._dead.agent_caused and not self._closed:
            return  # its workspace is still evidence
        self._raise_if_over()


_ALLOW = (
    "Unprivileged user namespaces must be allowed (on Ubuntu: an AppArmor profile for bwrap, or"
    " sysctl kernel.apparmor_restrict_unprivileged_userns=0)."
)


def put(files: Sequence[PutFile], folder: Path) -> None:
    """Write files below a folder. Raises SandboxError for a path that leaves it, and for two files of one path."""
    archives.pack(files, owner=0)  # for its checks of the paths
    for item in files:
        place = folder / item.path
        # Commands may have made links here; nothing may be written through one.
        for parent in reversed(place.relative_to(folder).parents):
            step = folder / parent
            if step.is_symlink():
                raise SandboxError(f"The file {item.path!r} cannot be put into the sandbox: {parent} is a link there.")
            step.mkdir(mode=0o755, exist_ok=True)
        if place.is_symlink():
            place.unlink()
        place.write_bytes(item.data)
        place.chmod(0o755 if item.executable else 0o644)
    folder.mkdir(mode=0o755, exist_ok=True)


def _pack(work: Path, target: object) -> None:
    """A tar of the workspace as an engine would send it. Links are members and are not followed."""
    for folder, below, names in os.walk(work):
        with contextlib.suppress(OSError):
            Path(folder).chmod(0o755)  # a user who is not root cannot read what the command has locked
        for name in names:
            place = Path(folder, name)
            if not place.is_symlink() and place.is_file():
                with contextlib.suppress(OSError):
                    place.chmod(place.stat().st_mode | 0o400)
        del below
    try:
        with tarfile.open(fileobj=target, mode="w", format=tarfile.PAX_FORMAT) as tar:  # type: ignore[call-overload] # any binary file
            tar.add(work, arcname="work")
    except (OSError, ValueError, tarfile.TarError) as error:
        raise SandboxError(f"The workspace could not be copied out of the sandbox: {error}") from error


class BubblewrapSandbox:
    """``gate.protocols.Sandbox`` by bubblewrap. Thread-safe. Only for one's own skills on one's own machine."""

    def __init__(self, root: Path | None = None) -> None:
        """``root``: where sandboxes lie."""
        self._root = root or default_root()
        self._lock = threading.Lock()
        self._facts: SandboxFacts | None = None
        self._program = ""
        self._boxes: dict[str, dict[str, BubblewrapBox]] = {}
        self._cancelled: set[str] = set()

    def facts(self) -> SandboxFacts:
        """What it is. Raises SandboxError with a remedy where bubblewrap is missing or may not make namespaces."""
        if self._facts is None:
            program = shutil.which("bwrap")
            if program is None:
                raise SandboxError("bubblewrap (bwrap) is not on this machine.", remedy=_INSTALL)
            try:
                said = subprocess.run(
                    [program, "--version"], capture_output=True, text=True, timeout=20, check=True
                ).stdout
            except (OSError, subprocess.SubprocessError) as error:
                raise SandboxError(f"bubblewrap does not run: {error}", remedy=_INSTALL) from error
            self._program = program
            self._facts = SandboxFacts(
                kind="bubblewrap",
                description=f"{said.strip() or 'bubblewrap'}, {_WEAKER}: kernel and programs are this machine's own",
                weaker=True,
            )
        return self._facts

    def examine(self) -> tuple[Examined, ...]:
        """See ``gate.protocols.Sandbox.examine``."""
        try:
            facts = self.facts()
        except SandboxError as error:
            return (Examined(name="bubblewrap", state="failure", text=error.message, remedy=error.remedy),)
        missing = [name for name in REQUIRED_PROGRAMS if not _in_system(name)]
        if missing:
            text = f"This machine lacks {', '.join(missing)}."
            return (Examined(name="bubblewrap", state="failure", text=text, remedy="Install what is missing in /usr."),)
        return (
            Examined(name="bubblewrap", state="ok", text=facts.description),
            Examined(
                name="isolation",
                state="warning",
                text=f"{_WEAKER}: no limit of memory for all processes together, no filter of system calls.",
                remedy="Use it for your own skills only; for those of others, use Docker.",
            ),
        )

    def resolve_image(self, image: str) -> str:
        """There is one image, this machine; its id changes with the system's release. Raises SandboxError for any other."""
        self.facts()
        identity = self._identity()
        if image in (DEFAULT_IMAGE, OWN_IMAGE, identity):
            return identity
        raise SandboxError(
            f"bubblewrap has no images, so {image} cannot be used: commands see this machine's own programs.",
            remedy="Use Docker where an image matters.",
        )

    def _identity(self) -> str:
        try:
            release = Path("/etc/os-release").read_bytes()
        except OSError:
            release = b""
        return "sha256:" + hashlib.sha256(b"bubblewrap\0" + release).hexdigest()

    def install(self, image: str, session_id: str, files: Sequence[ProgramFile]) -> str:
        """Not here. Raises SandboxError."""
        del image, session_id, files
        raise SandboxError("Agent programs need sandboxes of Docker.", remedy="Leave out --sandbox bubblewrap.")

    # --- boxes

    @contextlib.contextmanager
    def open(self, spec: BoxSpec) -> Iterator[BubblewrapBox]:
        """A fresh box. See ``gate.protocols.Sandbox.open``."""
        expires = int(time.time()) + spec.fuse_s + _EXPIRY_SLACK_S
        with self._room(
            spec.session_id, spec.image, expires, memory_mb=spec.memory_mb, workspace_mb=spec.workspace_mb
        ) as (room, image_id):
            box = BubblewrapBox(self._program, room, image_id)
            box.settle()
            with self._registered(spec.session_id, box):
                yield box

    @contextlib.contextmanager
    def _room(
        self, session_id: str, image: str, expires: int, *, memory_mb: int, workspace_mb: int, oracle: bool = False
    ) -> Iterator[tuple[Room, str]]:
        image_id = self.resolve_image(image)
        if session_id in self._cancelled:
            raise SandboxError("The session was told to stop; no more sandboxes are made for it.")
        folder = self._root / archives_name(session_id) / secrets.token_hex(8)
        room = Room(folder, memory_mb, workspace_mb, oracle)
        try:
            self._root.mkdir(mode=0o700, parents=True, exist_ok=True)
            folder.mkdir(mode=0o700, parents=True)
            labels = {LABEL_OWNER: this_owner(), LABEL_EXPIRES: str(expires)}
            (folder / _OWNER).write_text(json.dumps(labels), encoding="utf-8")
            (folder / "passwd").write_text("nobody:x:65534:65534:nobody:/work/home:/bin/sh\n", encoding="ascii")
            (folder / "group").write_text("nogroup:x:65534:\n", encoding="ascii")
            for place in (room.work, room.skills, room.tmp):
                place.mkdir(mode=0o755)
        except OSError as error:
            raise SandboxError(f"A sandbox could not be made below {self._root}: {error}") from error
        try:
            yield room, image_id
        finally:
            problem = _remove(folder)
            with contextlib.suppress(OSError):
                folder.parent.rmdir()
        if problem:
            raise SandboxError(f"A sandbox could not be removed: {problem}", remedy=f"Remove {folder} by hand.")

    @contextlib.contextmanager
    def _registered(self, session_id: str, box: BubblewrapBox) -> Iterator[None]:
        token = secrets.token_hex(8)
        with self._lock:
            self._boxes.setdefault(session_id, {})[token] = box
            late = session_id in self._cancelled
        if late:
            box.end(_stopped())
        try:
            yield
        finally:
            box.close()
            with self._lock:
                self._boxes.get(session_id, {}).pop(token, None)

    def run_once(self, spec: OneShotSpec) -> OneShotResult:
        """See ``gate.protocols.Sandbox.run_once``."""
        expires = int(time.time() + spec.timeout_s) + _EXPIRY_SLACK_S
        with self._room(
            spec.session_id, spec.image, expires,
            memory_mb=spec.memory_mb, workspace_mb=_ONE_SHOT_WORKSPACE_MB, oracle=bool(spec.oracle_files),
        ) as (room, image_id):  # fmt: skip
            put(spec.files, room.work)
            put(spec.oracle_files, room.skills)
            box = BubblewrapBox(self._program, room, image_id, home=TMP)
            with self._registered(spec.session_id, box):
                ran = box.run(spec.argv, spec.timeout_s, b"", spec.output_cap_bytes)
        if spec.session_id in self._cancelled:
            raise SandboxError("The session was told to stop while a command ran in its own sandbox.")
        timed_out = ran.end is End.DEADLINE
        return OneShotResult(
            exit_code=None if timed_out else _KILLED if ran.end is End.FLOOD else ran.exit_code,
            stdout=ran.stdout.content(),
            stderr=ran.stderr.content(),
            truncated=ran.stdout.truncated or ran.stderr.truncated or ran.end is End.FLOOD,
            timed_out=timed_out,
            oom=False,
        )

    # --- leaving

    def reap(self, session_id: str | None = None) -> ReapReport:
        """Remove what a session left, or what dead owners left. See ``gate.protocols.Sandbox.reap``."""
        if session_id is not None:
            with self._lock:
                boxes = list(self._boxes.get(session_id, {}).values())
            for box in boxes:
                box.end(BoxDeadError("The sandbox was removed by something outside."))
        removed, failed = 0, []
        pattern = "*" if session_id is None else archives_name(session_id)
        for folder in sorted(self._root.glob(f"{pattern}/*")):
            if session_id is None and not _abandoned(folder):
                continue
            problem = _remove(folder)
            removed += not problem
            failed += [problem] if problem else []
            with contextlib.suppress(OSError):
                folder.parent.rmdir()
        return ReapReport(removed_containers=removed, removed_volumes=2 * removed, failed=tuple(failed))

    def kill_all(self, session_id: str) -> None:
        """See ``gate.protocols.Sandbox.kill_all``."""
        with self._lock:
            self._cancelled.add(session_id)
            boxes = list(self._boxes.get(session_id, {}).values())
        for box in boxes:
            box.end(_stopped())

    def close(self) -> None:
        """Nothing is held open."""


def archives_name(session_id: str) -> str:
    """The folder of a session; a name that comes from nobody's text."""
    return hashlib.sha256(session_id.encode("utf-8", "replace")).hexdigest()[:24]


def _stopped() -> BoxDeadError:
    return BoxDeadError("The sandbox was stopped because the session was told to stop.")


def _abandoned(folder: Path) -> bool:
    try:
        labels = json.loads((folder / _OWNER).read_text(encoding="utf-8"))
        return is_abandoned(labels, time.time())
    except (OSError, ValueError, AttributeError):
        return False


def _remove(folder: Path) -> str:
    """Remove a folder that commands may have locked. Empty where it is gone."""

    def unlock(function: object, path: str, error: object) -> None:
        del function, error
        with contextlib.suppress(OSError):
            Path(path).parent.chmod(0o700)
            Path(path).chmod(0o700)
        with contextlib.suppress(OSError):
            Path(path).unlink()

    for _ in range(3):
        shutil.rmtree(folder, onerror=unlock)
        if not folder.exists():
            return ""
    return f"{folder} is still there after its removal"


def _in_system(name: str) -> bool:
    return shutil.which(name, path="/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin") is not None
