"""Removing: one sandbox's own parts, what a session left, what dead owners left. Everything bounded, everything verified."""

from __future__ import annotations

import time
from concurrent.futures import Future, ThreadPoolExecutor, wait
from functools import partial
from typing import TYPE_CHECKING, Any

from gate.adapters.docker_sandbox import creation
from gate.adapters.docker_sandbox.engine import Engine, reason, speaking
from gate.domain.sandbox import ReapReport
from gate.errors import SandboxError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from docker import APIClient

    from gate.adapters.docker_sandbox.creation import Names

REMOVAL_S = 30
REAP_S = 120
KILL_ALL_S = 10
_WORKERS = 8
_LOOKS = 4
_LOOK_AGAIN_S = 0.3


def discard(engine: Engine, names: Names) -> list[str]:
    """Kill and remove a sandbox's container, then its volumes, and look that they are gone. Returns what could not be done."""
    try:
        api = engine.hurried
    except SandboxError as error:
        return [f"container {names.container}: {error.message}"]
    deadline = time.monotonic() + REMOVAL_S
    problems = _remove_container(api, names.container, deadline)
    for volume in names.volumes:
        problems += _remove_volume(api, volume, deadline)
    return problems


def _remove_container(api: APIClient, name: str, deadline: float) -> list[str]:
    # Removing by force kills first, and a paused container too.
    return _gone(
        f"container {name}",
        lambda: api.remove_container(name, force=True, v=True),
        lambda: api.inspect_container(name),
        deadline,
    )


def _remove_volume(api: APIClient, name: str, deadline: float) -> list[str]:
    return _gone(
        f"volume {name}", lambda: api.remove_volume(name, force=True), lambda: api.inspect_volume(name), deadline
    )


def _gone(what: str, remove: Callable[[], object], look: Callable[[], object], deadline: float) -> list[str]:
    """Remove until a look says it is not there any more. A removal that already goes on, or a use that ends, is waited for."""
    from docker.errors import DockerException, NotFound
    from requests.exceptions import RequestException

    pause = 0.02
    said = ""
    while True:
        for call in (remove, look):
            try:
                call()
            except NotFound:
                if call is look:
                    return []
            except (DockerException, RequestException, OSError) as error:
                said = reason(error)
        if time.monotonic() >= deadline:
            return [f"{what}: {said or 'is still there after its removal'}"]
        time.sleep(pause)
        pause = min(pause * 2, 1.0)


def reap(engine: Engine, session_id: str | None) -> ReapReport:
    """Remove containers of all states, then volumes: a session's, or (None) those that nobody can need any more.

    Where something was found it looks again until nothing new comes: the last call of an owner that died may still be under
    way in the engine, which finishes it all the same.
    """
    label = creation.LABEL_OWNER if session_id is None else f"{creation.LABEL_SESSION}={session_id}"
    seen: set[str] = set()
    removed = [0, 0]
    failed: list[str] = []
    try:
        api = engine.hurried
        for _ in range(_LOOKS):
            containers, volumes = _unneeded(api, label, session_id)
            fresh = [set(containers) - seen, set(volumes) - seen]
            if not any(fresh):
                break
            seen.update(*fresh)
            for number, remove in enumerate((_remove_container, _remove_volume)):
                count, problems = _in_parallel(sorted(fresh[number]), partial(_within, remove, api))
                removed[number] += count
                failed += problems
            time.sleep(_LOOK_AGAIN_S)
    except SandboxError as error:
        failed.append(str(error))
    return ReapReport(removed_containers=removed[0], removed_volumes=removed[1], failed=tuple(failed))


def _within(remove: Callable[[APIClient, str, float], list[str]], api: APIClient, name: str) -> list[str]:
    return remove(api, name, time.monotonic() + REMOVAL_S)


def _unneeded(api: APIClient, label: str, session_id: str | None) -> tuple[list[str], list[str]]:
    """(containers, volumes) that are to go. Raises SandboxError."""
    now = time.time()

    def mine(entry: Mapping[str, Any]) -> bool:
        return session_id is not None or creation.is_abandoned(entry.get("Labels") or {}, now)

    with speaking("The Docker engine does not list what sandboxes have left"):
        containers = [str(entry["Id"]) for entry in api.containers(all=True, filters={"label": label}) if mine(entry)]
        listed = api.volumes(filters={"label": label}).get("Volumes") or []
        return containers, [str(entry["Name"]) for entry in listed if mine(entry)]


def kill_all(engine: Engine, session_id: str) -> None:
    """Kill a session's running containers at once. Whatever goes wrong, it comes back soon and says nothing."""
    try:
        api = engine.hurried
        with speaking("list"):
            found: list[dict[str, Any]] = api.containers(filters={"label": f"{creation.LABEL_SESSION}={session_id}"})
    except SandboxError:
        return

    def kill(name: str) -> list[str]:
        with speaking("kill"):
            api.kill(name)
        return []

    _in_parallel([str(entry["Id"]) for entry in found], kill, timeout_s=KILL_ALL_S)


def _in_parallel(
    names: Iterable[str], remove: Callable[[str], list[str]], *, timeout_s: float = REAP_S
) -> tuple[int, list[str]]:
    """(how many succeeded, what the others said)."""
    names = list(names)
    if not names:
        return 0, []
    pool = ThreadPoolExecutor(max_workers=min(_WORKERS, len(names)), thread_name_prefix="reap")
    tasks: dict[Future[list[str]], str] = {pool.submit(remove, name): name for name in names}
    done, late = wait(tasks, timeout=timeout_s)
    pool.shutdown(wait=False, cancel_futures=True)
    problems: list[str] = [f"{tasks[task]}: not removed within {timeout_s:.0f} s" for task in late]
    count = 0
    for task in done:
        error = task.exception()
        found = [f"{tasks[task]}: {error}"] if error is not None else task.result()
        count += not found
        problems += found
    return count, sorted(problems)
