"""The seam's implementation: opens boxes, runs one-shots, cleans up."""

from __future__ import annotations

import contextlib
import os
import threading
import time
from typing import TYPE_CHECKING, Any

from gate.adapters.docker_sandbox import archives, creation, leavings, streams
from gate.adapters.docker_sandbox.box import DockerBox
from gate.adapters.docker_sandbox.checkup import examine_engine
from gate.adapters.docker_sandbox.creation import HOME, KEEPER_UID, ORACLE, SKILLS, TMP, TOOL_UID, WORK, Limits, Names
from gate.adapters.docker_sandbox.engine import Engine, judge_engine, noted, retried, runtime_of, speaking
from gate.adapters.docker_sandbox.images import pull
from gate.adapters.docker_sandbox.programs import install as install_programs
from gate.domain.sandbox import REQUIRED_PROGRAMS, Examined, OneShotResult, PutFile, SandboxFacts
from gate.errors import SandboxError

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from docker import APIClient

    from gate.domain.sandbox import BoxSpec, OneShotSpec, ProgramFile, ReapReport

_GO = ".skill-gate-go"
# Process 1 is the command; until its files are there a shell holds its place. What is put into a volume in memory before the
# start would be lost, and a volume on disk would have no quota. The file that says go is gone before the command begins.
_WAIT_FOR_GO = f'cd {WORK} && while [ ! -e {_GO} ]; do sleep 0.02; done; rm -f {_GO}; exec "$@"'
_STARTED_WITHIN_S = 60
_ENDED_WITHIN_S = 20
_ONE_SHOT_PIDS = 256
_ONE_SHOT_WORKSPACE_MB = 256
_ONE_SHOT_INODES = 20_000
_KILLED = 137
_NOT_FOUND = 127
# The programs that are missing, and how many KiB the engine's disk has left, as far as the image can say.
_LOOK_AROUND = (
    'for name in "$@"; do command -v "$name" >/dev/null || echo "$name"; done;'
    " df -P -k / 2>/dev/null | sed -n '2s/^[^ ]* *[0-9]* *[0-9]* *\\([0-9]*\\) .*/\\1/p'"
)
_LEAST_DISK = 256 * 1_048_576
LANES = max(8, 2 * (os.cpu_count() or 1))
"""Sandboxes that are made at the same time, and apart from these, that are removed: an engine on two cores does most with about
eight (sandbox.md 6). Apart, so that what waits to be made never keeps the engine's room from being freed."""


class DockerSandbox:
    """``gate.protocols.Sandbox`` on a Docker engine. Thread-safe; connects when first used."""

    def __init__(self, address: str | None = None, *, workers: int = 8) -> None:
        """``address``: None finds the engine as the Docker CLI does. ``workers``: sandboxes at the same time."""
        self._engine = Engine(address, pool_size=2 * workers + 8)
        self._lock = threading.Lock()
        self._info: dict[str, Any] | None = None
        self._facts: SandboxFacts | None = None
        self._images: dict[str, tuple[str, tuple[str, ...]]] = {}
        self._proven: set[str] = set()
        self._unfit: dict[str, SandboxError] = {}
        self._cancelled: set[str] = set()
        self._left_behind: list[str] = []
        self._making, self._leaving = threading.BoundedSemaphore(LANES), threading.BoundedSemaphore(LANES)

    def close(self) -> None:
        """Close the connections."""
        self._engine.close()

    # --- what it is

    def facts(self) -> SandboxFacts:
        """What the engine is. Raises SandboxError with a remedy where there is none, or one that cannot hold a sandbox."""
        if self._facts is None:
            api = self._engine.api
            with speaking("The Docker engine does not say what it is"):
                info, version = dict(api.info()), dict(api.version())
            self._facts = judge_engine(info, version)
            self._info = info
        return self._facts

    def examine(self) -> tuple[Examined, ...]:
        """What is worth knowing about the engine. See ``gate.protocols.Sandbox.examine``."""
        try:
            facts = self.facts()
            with speaking("The Docker engine does not say what it is"):
                version = dict(self._engine.api.version())
        except SandboxError as error:
            return (Examined(name="engine", state="failure", text=error.message, remedy=error.remedy),)
        return examine_engine(self._engine.address, facts, self._info or {}, version)

    def resolve_image(self, image: str) -> str:
        """The id of an image. One that is named by its digest is pulled where the engine lacks it; nothing else ever is."""
        return self._image(image)[0]

    def _image(self, image: str) -> tuple[str, tuple[str, ...]]:
        from docker.errors import ImageNotFound, NotFound

        self.facts()
        with self._lock:
            known = self._images.get(image)
        if known is None:
            with speaking(f"The sandbox image {image} cannot be used"):
                try:
                    seen: dict[str, Any] = self._engine.api.inspect_image(image)  # type: ignore[no-untyped-call]
                except (ImageNotFound, NotFound):
                    if "@sha256:" not in image:
                        raise SandboxError(
                            f"The sandbox image {image} is not on the Docker engine.",
                            remedy=f"Make it first: .ci/image builds skill-gate-sandbox:dev, any other: docker pull {image}",
                        ) from None
                    pull(self._engine, image)
                    seen = self._engine.api.inspect_image(image)  # type: ignore[no-untyped-call]
            if seen.get("Os", "linux") != "linux":
                raise SandboxError(f"The sandbox image {image} is made for {seen['Os']}, not for Linux.")
            known = str(seen["Id"]), tuple((seen.get("Config") or {}).get("Env") or ())
            with self._lock:
                # An id never changes what it means; a name can, and is looked up again by the next session.
                self._images[image] = self._images[known[0]] = known
        return known

    def install(self, image: str, session_id: str, files: Sequence[ProgramFile]) -> str:
        """Fill a volume with programs. See ``gate.protocols.Sandbox.install``."""
        self._raise_if_cancelled(session_id)
        return install_programs(self._engine, self._image(image)[0], session_id, files)

    # --- boxes

    @contextlib.contextmanager
    def open(self, spec: BoxSpec) -> Iterator[DockerBox]:
        """A fresh box. See ``gate.protocols.Sandbox.open``.

        What cannot be removed afterwards is an error of its own where the block ended well, a note on the block's exception
        where it did not, and part of the next ``reap`` report in both.
        """
        limits = Limits(
            memory_mb=spec.memory_mb,
            cpus=spec.cpus,
            pids=spec.pids,
            workspace_mb=spec.workspace_mb,
            workspace_inodes=spec.workspace_inodes,
        )
        names = creation.names_for(spec.session_id, spec.label)
        expires = int(time.time()) + spec.fuse_s + creation.EXPIRY_SLACK_S
        labels = creation.labels_for(spec.session_id, spec.label, names, expires)
        with self._lock:
            unfit = self._unfit.get(self._images.get(spec.image, ("",))[0])
        if unfit is not None:
            raise SandboxError(unfit.message, remedy=unfit.remedy)
        with self._removing(names):
            with self._making:
                image_id = self._create(
                    names,
                    spec.image,
                    ["sleep", str(spec.fuse_s)],
                    uid=KEEPER_UID,
                    home=HOME,
                    limits=limits,
                    labels=labels,
                    keep_log=True,
                    programs=spec.programs,
                )
                self._start(names, spec.session_id)
            box = DockerBox(
                self._engine,
                spec,
                container=names.container,
                image_id=image_id,
                is_cancelled=lambda: self._is_cancelled(spec.session_id),
            )
            self._prove(box, image_id)
            try:
                yield box
            finally:
                box.close()

    @contextlib.contextmanager
    def _removing(self, names: Names) -> Iterator[None]:
        try:
            yield
        except BaseException as error:
            for problem in self._discard(names):
                error.add_note(f"Left behind on the Docker engine: {problem}")
            raise
        problems = self._discard(names)
        if problems:
            raise SandboxError(
                f"A sandbox could not be removed: {'; '.join(problems)}",
                remedy=f"Remove it by hand: docker rm -f {names.container}; docker volume rm {' '.join(names.volumes)}",
            )

    def _discard(self, names: Names) -> list[str]:
        with self._leaving:
            problems = leavings.discard(self._engine, names)
        with self._lock:
            self._left_behind += problems
        return problems

    def _prove(self, box: DockerBox, image_id: str) -> None:
        """Once an image: the programs that the gate itself needs inside are there. Raises SandboxError naming what is missing."""
        with self._lock:
            if image_id in self._proven:
                return
        found = box.exec(["sh", "-c", _LOOK_AROUND, "sh", *REQUIRED_PROGRAMS], timeout_s=30)
        words = found.stdout.decode("utf-8", "replace").split()
        missing = [word for word in words if not word.isdigit()]
        free = [int(word) * 1024 for word in words if word.isdigit()]
        if free and free[0] < _LEAST_DISK:
            raise SandboxError(
                f"Only {free[0] // 1_048_576} MiB are free where the Docker engine keeps its data.",
                remedy="Free some: docker system df shows what uses it, docker image prune removes what no container needs.",
            )
        if found.exit_code != 0 and not missing:
            missing = (
                ["timeout"] if found.exit_code == _NOT_FOUND else [f"a shell that works (exit code {found.exit_code})"]
            )
        if missing:
            error = SandboxError(
                f"The sandbox image {image_id[:19]} lacks {', '.join(missing)}, which the gate needs in it.",
                remedy=f"Use an image with {', '.join(REQUIRED_PROGRAMS)} (GNU coreutils and findutils, bash).",
            )
            with self._lock:
                self._unfit[image_id] = error
            raise error
        box.forget_use()
        with self._lock:
            self._proven.add(image_id)

    # --- creating and starting

    def _create(
        self,
        names: Names,
        image: str,
        command: Sequence[str],
        *,
        uid: int,
        home: str,
        limits: Limits,
        labels: dict[str, str],
        keep_log: bool,
        second: str = SKILLS,
        programs: str = "",
    ) -> str:
        """Make the volumes and the container; returns the image's id. Raises SandboxError."""
        self._raise_if_cancelled(labels[creation.LABEL_SESSION])
        image_id, image_environment = self._image(image)
        api = self._engine.api
        host = creation.host_arguments(
            names, limits, runtime=runtime_of(self._info or {}), keep_log=keep_log, second=second, programs=programs
        )
        arguments = creation.container_arguments(
            image_id, image_environment, command, uid=uid, home=home, labels=labels
        )
        with speaking("A sandbox could not be made"):
            # A volume of that name with these options that is there already is simply returned: retrying is harmless.
            retried(lambda: self._volume(names.work, creation.work_volume(limits), labels))
            retried(lambda: self._volume(names.skills, creation.skills_volume(limits), labels))
            retried(
                lambda: api.create_container(
                    name=names.container, host_config=api.create_host_config(**host), **arguments
                ),
                before_retry=lambda: self._adopt(api, names),
                after_conflict=True,
            )
        return image_id

    def _volume(self, name: str, options: dict[str, str], labels: dict[str, str]) -> object:
        return self._engine.api.create_volume(name=name, driver="local", driver_opts=options, labels=labels)

    @staticmethod
    def _adopt(api: APIClient, names: Names) -> dict[str, Any] | None:
        """The container that a failed create call has made after all, if it is ours; one that is not finished is removed."""
        from docker.errors import DockerException, NotFound

        try:
            seen = api.inspect_container(names.container)
        except NotFound:
            return None
        if (seen["Config"].get("Labels") or {}).get(creation.LABEL_TOKEN) != names.token:
            raise DockerException(f"the name {names.container} is taken by a container of somebody else")
        if seen["State"].get("Status") == "created":
            return dict(seen)
        api.remove_container(names.container, force=True)
        return None

    def _start(self, names: Names, session_id: str) -> None:
        api = self._engine.api

        def running() -> bool | None:
            return True if api.inspect_container(names.container)["State"].get("Running") else None

        with speaking("A sandbox could not be started"):
            retried(lambda: api.start(names.container), before_retry=running)
        # Whoever cancelled in between has seen a container that could not be killed yet.
        self._raise_if_cancelled(session_id)

    def _is_cancelled(self, session_id: str) -> bool:
        with self._lock:
            return session_id in self._cancelled

    def _raise_if_cancelled(self, session_id: str) -> None:
        if self._is_cancelled(session_id):
            raise SandboxError("The session was told to stop; no more sandboxes are made for it.")

    # --- one command in a container of its own

    def run_once(self, spec: OneShotSpec) -> OneShotResult:
        """Run one command as process 1 of a fresh container. See ``gate.protocols.Sandbox.run_once``.

        The command runs as the tool uid in ``/work``, without input; its time begins when its files are there. Files that
        judge (``oracle_files``) lie in ``/oracle``, root's. A command that prints over 64 MB is killed. An exit code of None means that the engine did not say.
        """
        limits = Limits(
            memory_mb=spec.memory_mb,
            cpus=1.0,
            pids=_ONE_SHOT_PIDS,
            workspace_mb=_ONE_SHOT_WORKSPACE_MB,
            workspace_inodes=_ONE_SHOT_INODES,
        )
        names = creation.names_for(spec.session_id, spec.label)
        expires = int(time.time() + spec.timeout_s) + creation.EXPIRY_SLACK_S
        labels = creation.labels_for(spec.session_id, spec.label, names, expires)
        command = ["/bin/sh", "-c", _WAIT_FOR_GO, "sh", *spec.argv]
        with self._removing(names):
            with self._making:
                self._create(
                    names,
                    spec.image,
                    command,
                    uid=TOOL_UID,
                    home=TMP,
                    limits=limits,
                    labels=labels,
                    keep_log=False,
                    second=ORACLE if spec.oracle_files else SKILLS,
                )
            demux = streams.Demux(spec.output_cap_bytes)
            query = "stream=1&stdout=1&stderr=1"
            sock, early = self._engine.hijack(f"/containers/{names.container}/attach?{query}", {})
            with sock:
                with self._making:
                    self._start(names, spec.session_id)
                self._put_once(names, spec)
                end = streams.pump(
                    sock,
                    demux,
                    early=early,
                    deadline=time.monotonic() + spec.timeout_s,
                    runs=lambda: bool(self._state(names).get("Running")),
                )
            return self._once_result(names, spec, demux, end)

    def _put_once(self, names: Names, spec: OneShotSpec) -> None:
        go = PutFile(path=_GO, data=b"")
        with speaking("Files could not be put into a sandbox"):
            # First: a workspace may hold a file that says go, and would start its command without them.
            if spec.oracle_files:
                self._engine.api.put_archive(names.container, ORACLE, archives.pack(spec.oracle_files, owner=0))
            if spec.files:
                self._engine.api.put_archive(names.container, WORK, archives.pack(spec.files, owner=TOOL_UID))
            if not self._state(names).get("Running"):
                raise SandboxError("A sandbox ended before its command could begin.", remedy="Check the sandbox image.")
            self._engine.api.put_archive(names.container, WORK, archives.pack([go], owner=TOOL_UID))

    def _state(self, names: Names) -> dict[str, Any]:
        with speaking("The Docker engine does not say how a sandbox is"):
            return dict(self._engine.api.inspect_container(names.container)["State"])

    def _once_result(self, names: Names, spec: OneShotSpec, demux: streams.Demux, end: streams.End) -> OneShotResult:
        cut = end is not streams.End.CLOSED
        state = self._ended(names, kill=cut)
        if self._is_cancelled(spec.session_id):
            raise SandboxError("The session was told to stop while a command ran in its own sandbox.")
        if state.get("Error"):
            raise SandboxError(f"The Docker engine lost a sandbox: {state['Error']}")
        code = state.get("ExitCode")
        out, err = demux.stdout, demux.stderr
        return OneShotResult(
            exit_code=None if end is streams.End.DEADLINE or code is None else int(code),
            stdout=out.content(),
            stderr=err.content(),
            truncated=out.truncated or err.truncated or end is streams.End.FLOOD,
            timed_out=end is streams.End.DEADLINE,
            # The state alone is not reliable with every kernel (an exit code of 137 alone is any kill).
            oom=bool(state.get("OOMKilled")) or (bool(code) and not cut and "oom" in self._noted(names, spec)),
        )

    def _noted(self, names: Names, spec: OneShotSpec) -> list[str]:
        return noted(self._engine, names.container, int(spec.timeout_s) + _STARTED_WITHIN_S)

    def _ended(self, names: Names, *, kill: bool) -> dict[str, Any]:
        """The state of a container that has ended. Raises SandboxError where it does not end."""
        from docker.errors import APIError

        deadline = time.monotonic() + _ENDED_WITHIN_S
        if kill:
            with speaking("A command in its own sandbox could not be stopped"), contextlib.suppress(APIError):
                self._engine.api.kill(names.container)
        pause = 0.01
        while (state := self._state(names)).get("Running"):
            if time.monotonic() > deadline:
                raise SandboxError(
                    f"The Docker engine still says after {_ENDED_WITHIN_S} s that an ended sandbox runs."
                )
            time.sleep(pause)
            pause = min(2 * pause, 0.5)
        return state

    # --- leaving

    def reap(self, session_id: str | None = None) -> ReapReport:
        """Remove what a session left; None: what dead owners left or whose time is over. See ``gate.protocols.Sandbox.reap``."""
        report = leavings.reap(self._engine, session_id)
        with self._lock:
            earlier, self._left_behind = tuple(self._left_behind), []
        return report.model_copy(update={"failed": (*report.failed, *earlier)}) if earlier else report

    def kill_all(self, session_id: str) -> None:
        """Kill this session's containers at once, and make no more for it. See ``gate.protocols.Sandbox.kill_all``."""
        with self._lock:
            self._cancelled.add(session_id)
        leavings.kill_all(self._engine, session_id)
