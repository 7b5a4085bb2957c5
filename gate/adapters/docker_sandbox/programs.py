"""The volume that holds an agent program: filled once a session, read-only in every sandbox, labelled like the rest."""

from __future__ import annotations

import contextlib
import secrets
import tarfile
import time
from typing import TYPE_CHECKING

from gate.adapters.docker_sandbox import creation
from gate.adapters.docker_sandbox.creation import PROGRAMS
from gate.adapters.docker_sandbox.engine import Engine, retried, speaking
from gate.errors import SandboxError

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from gate.domain.sandbox import ProgramFile

_CHUNK = 1 << 20
_BLOCK = 512
LIFE_S = 6 * 3600
"""A volume older than this belongs to no session that still runs."""


def install(engine: Engine, image_id: str, session_id: str, files: Sequence[ProgramFile]) -> str:
    """Make and fill a volume; returns its name. Raises SandboxError, after nothing of it is left."""
    from docker.errors import DockerException
    from requests.exceptions import RequestException

    token = secrets.token_hex(5)
    name = f"{creation.NAME_PREFIX}{session_id[:16]}-programs-{token}"
    labels = {
        creation.LABEL_SESSION: session_id,
        creation.LABEL_RUN: "programs",
        creation.LABEL_OWNER: creation.this_owner(),
        creation.LABEL_EXPIRES: str(int(time.time()) + LIFE_S),
        creation.LABEL_TOKEN: token,
    }
    api = engine.api
    done = False
    try:
        with speaking("The agent program could not be put into a volume"):
            retried(lambda: api.create_volume(name=name, driver="local", labels=labels))
            # Never started: the engine unpacks into the volume all the same, and nothing of the image runs.
            retried(
                lambda: api.create_container(
                    image=image_id,
                    name=name,
                    command=["true"],
                    entrypoint=[],
                    labels=labels,
                    use_config_proxy=False,
                    host_config=api.create_host_config(network_mode="none", mounts=[creation.programs_mount(name)]),
                ),
                after_conflict=True,
            )
            # Streamed: nobody holds the program in memory.
            if not api.put_archive(name, PROGRAMS, _archive(files)):
                raise SandboxError("The Docker engine did not take the files of the agent program.")
            api.remove_container(name, force=True)
            done = True
    finally:
        if not done:
            with contextlib.suppress(DockerException, RequestException, OSError):
                engine.hurried.remove_container(name, force=True)
            with contextlib.suppress(DockerException, RequestException, OSError):
                engine.hurried.remove_volume(name, force=True)
    return name


def _archive(files: Sequence[ProgramFile]) -> Iterator[bytes]:
    """A tar in pieces: programs have hundreds of megabytes, which nobody needs in memory."""
    for file in files:
        with file.source.open("rb") as source:
            info = tarfile.TarInfo(file.name)
            info.size = file.source.stat().st_size
            info.mode = 0o755
            yield info.tobuf(tarfile.PAX_FORMAT)
            left = info.size
            while left:
                piece = source.read(min(_CHUNK, left))
                if not piece:
                    raise SandboxError(f"{file.source} became shorter while it was read.")
                left -= len(piece)
                yield piece
            yield b"\0" * (-info.size % _BLOCK)
    yield b"\0" * (2 * _BLOCK)
