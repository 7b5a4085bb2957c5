"""The bare lifecycle of a container, by the client library alone: what a run cannot be cheaper than.

Held in like a sandbox (the same create arguments), with the same files and the same commands, and nothing of the gate: no
look from inside, no sentinel, no pause, no deadline, no record, no check that what was removed is gone.
"""

from __future__ import annotations

import io
import secrets
import tarfile
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import docker
from docker.models.containers import Container

from gate.adapters.docker_sandbox import creation
from gate.domain.sandbox import PutFile

IMAGE = "skill-gate-sandbox:dev"
LIMITS = creation.Limits(memory_mb=768, cpus=1.0, pids=256, workspace_mb=256, workspace_inodes=20_000)
PARTS = ("create", "start", "put", "exec", "get", "remove")


def bare(
    client: docker.DockerClient,
    image: str,
    *,
    workspace: Sequence[PutFile],
    skill: Sequence[PutFile],
    commands: Sequence[Sequence[str]],
) -> dict[str, float]:
    """One lifecycle; seconds of each of PARTS. ``image``: its id."""
    spent = dict.fromkeys(PARTS, 0.0)
    began = time.perf_counter()

    def took(part: str) -> None:
        nonlocal began
        now = time.perf_counter()
        spent[part] += now - began
        began = now

    session = f"bare-{secrets.token_hex(4)}"
    names = creation.names_for(session, "lifecycle")
    labels = creation.labels_for(session, "lifecycle", names, int(time.time()) + 600)
    api = client.api
    container: Container | None = None
    try:
        api.create_volume(names.work, driver="local", driver_opts=creation.work_volume(LIMITS), labels=labels)
        api.create_volume(names.skills, driver="local", driver_opts=creation.skills_volume(LIMITS), labels=labels)
        arguments = creation.container_arguments(
            image, [], ["sleep", "600"], uid=creation.KEEPER_UID, home=creation.HOME, labels=labels
        )
        host = api.create_host_config(**creation.host_arguments(names, LIMITS, runtime=None, keep_log=True))
        container = client.containers.get(
            api.create_container(name=names.container, host_config=host, **arguments)["Id"]
        )
        took("create")
        container.start()
        took("start")
        container.put_archive(creation.WORK, _tar(workspace, creation.TOOL_UID))
        if skill:
            container.put_archive(creation.SKILLS, _tar(skill, 0))
        took("put")
        for command in commands:
            container.exec_run(list(command), user=f"{creation.TOOL_UID}:{creation.TOOL_UID}", workdir=creation.WORK)
        took("exec")
        pieces, _ = container.get_archive(creation.WORK)
        with tarfile.open(fileobj=io.BytesIO(b"".join(pieces))) as tar:
            tar.getmembers()
        took("get")
    finally:
        if container is not None:
            container.remove(force=True)
        for volume in names.volumes:
            api.remove_volume(volume)
        took("remove")
    return spent


def _tar(files: Sequence[PutFile], owner: int) -> bytes:
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w") as tar:
        for item in files:
            info = tarfile.TarInfo(item.path)
            info.size, info.uid, info.gid, info.mode = len(item.data), owner, owner, 0o644
            tar.addfile(info, io.BytesIO(item.data))
    return buffer.getvalue()


def floor(
    count: int, threads: int, *, skill: Sequence[PutFile], both_arms: bool = False, **what: Any
) -> tuple[float, list[dict[str, float]]]:
    """(wall seconds, parts of each) of ``count`` lifecycles, ``threads`` at a time. ``both_arms``: every other one without
    the skill."""
    client = docker.from_env(timeout=120, max_pool_size=2 * threads + 8)
    try:
        image = str(client.images.get(IMAGE).id)
        began = time.perf_counter()
        with ThreadPoolExecutor(threads) as pool:
            parts = list(
                pool.map(
                    lambda number: bare(client, image, skill=() if both_arms and number % 2 else skill, **what),
                    range(count),
                )
            )
        return time.perf_counter() - began, parts
    finally:
        client.close()
