from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import pytest

from gate.adapters.docker_sandbox import DockerSandbox, leavings
from gate.domain.sandbox import BoxSpec, OneShotSpec
from gate.errors import SandboxError
from tests.docker.conftest import IMAGE, OpenBox

if TYPE_CHECKING:
    from docker import DockerClient

pytestmark = pytest.mark.docker

ORPHAN = """
import sys, time
from gate.adapters.docker_sandbox import DockerSandbox
from gate.domain.sandbox import BoxSpec
with DockerSandbox().open(BoxSpec(session_id=sys.argv[1], label="orphan", image=sys.argv[2])) as box:
    print("open", flush=True)
    time.sleep(600)
"""


def left(engine: DockerClient, session_id: str) -> list[str]:
    """Names of what carries the session's label, in any state."""
    label = {"label": f"gate.session={session_id}"}
    containers = [entry["Names"][0] for entry in engine.api.containers(all=True, filters=label)]
    return containers + [entry["Name"] for entry in engine.api.volumes(filters=label)["Volumes"] or []]


@contextlib.contextmanager
def volume(engine: DockerClient, name: str, labels: dict[str, str]) -> Iterator[str]:
    engine.api.create_volume(name=name, labels=labels)
    try:
        yield name
    finally:
        with contextlib.suppress(Exception):
            engine.api.remove_volume(name)


def test_nothing_is_left_of_a_box_however_its_block_ends(
    engine: DockerClient, open_box: OpenBox, session_id: str
) -> None:
    with open_box():
        assert len(left(engine, session_id)) == 3, "there was something to leave behind"
    assert left(engine, session_id) == []

    with pytest.raises(KeyboardInterrupt), open_box():
        raise KeyboardInterrupt
    assert left(engine, session_id) == []


def test_nothing_is_left_of_one_command_of_its_own(
    engine: DockerClient, real_sandbox: DockerSandbox, session_id: str
) -> None:
    real_sandbox.run_once(
        OneShotSpec(session_id=session_id, label="v", image=IMAGE, argv=("sleep", "99"), timeout_s=0.2)
    )

    assert left(engine, session_id) == []


def test_nothing_is_left_of_a_box_that_could_not_be_started(
    engine: DockerClient, open_box: OpenBox, session_id: str
) -> None:
    with pytest.raises(SandboxError, match="could not be"), open_box(memory_mb=1):
        pass

    assert left(engine, session_id) == []


def test_the_reaper_removes_what_a_killed_gate_left_and_spares_the_living(
    engine: DockerClient, real_sandbox: DockerSandbox, open_box: OpenBox, session_id: str
) -> None:
    orphans = f"{session_id}-orphans"
    with subprocess.Popen([sys.executable, "-c", ORPHAN, orphans, IMAGE], stdout=subprocess.PIPE, text=True) as gate:
        assert gate.stdout is not None
        assert gate.stdout.readline() == "open\n"
        assert real_sandbox.reap().failed == ()
        assert len(left(engine, orphans)) == 3, "its owner lives"
        os.kill(gate.pid, signal.SIGKILL)

    with open_box() as box:
        report = real_sandbox.reap()

        assert report.removed_containers >= 1
        assert report.removed_volumes >= 2
        assert report.failed == ()
        assert left(engine, orphans) == []
        assert box.exec(["true"], timeout_s=30).exit_code == 0, "our own box is alive and ours"


def test_of_owners_that_cannot_be_looked_at_only_the_expired_are_reaped(
    engine: DockerClient, real_sandbox: DockerSandbox, session_id: str
) -> None:
    now = int(time.time())
    foreign = {"gate.session": session_id, "gate.owner": "elsewhere:boot:1"}
    with (
        volume(engine, f"{session_id}-old", {**foreign, "gate.expires": str(now - 1)}) as old,
        volume(engine, f"{session_id}-new", {**foreign, "gate.expires": str(now + 600)}) as new,
        volume(engine, f"{session_id}-odd", {"gate.session": session_id, "gate.owner": "odd"}) as odd,
    ):
        real_sandbox.reap()

        assert old not in left(engine, session_id)
        assert {new, odd} <= set(left(engine, session_id))
        assert real_sandbox.reap(session_id).removed_volumes == 2


@pytest.mark.parametrize("state", ["created", "running", "paused", "exited"])
def test_the_reaper_removes_containers_in_every_state(
    engine: DockerClient, real_sandbox: DockerSandbox, session_id: str, state: str
) -> None:
    labels = {"gate.session": session_id, "gate.owner": "elsewhere:boot:1"}
    made = engine.containers.create(IMAGE, ["sleep", "600"], labels=labels, network_mode="none")
    if state != "created":
        made.start()
    if state == "paused":
        made.pause()
    if state == "exited":
        made.kill()
        made.wait()
    made.reload()
    assert made.status == state

    report = real_sandbox.reap(session_id)

    assert (report.removed_containers, report.failed) == (1, ())
    assert left(engine, session_id) == []


def test_a_container_that_appears_after_its_creation_was_given_up_is_taken_over(
    engine: DockerClient, session_id: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    import requests

    sandbox = DockerSandbox()
    api = sandbox._engine.api
    real = api.create_container
    delayed: list[dict[str, Any]] = []

    def slow(*args: Any, **kwargs: Any) -> Any:
        if not delayed:
            delayed.append(kwargs)
            raise requests.exceptions.ReadTimeout("no answer within 120 s")
        if len(delayed) == 1:
            delayed.append(kwargs)
            real(*args, **delayed[0])  # only now the first call is carried out, and the second finds its name taken
        return real(*args, **kwargs)

    monkeypatch.setattr(api, "create_container", slow)
    with sandbox.open(BoxSpec(session_id=session_id, label="late", image=IMAGE)) as box:
        assert box.exec(["true"], timeout_s=30).exit_code == 0
    sandbox.close()

    assert left(engine, session_id) == []


def test_what_the_engine_makes_for_an_owner_that_has_died_in_the_meantime_is_found_too(
    engine: DockerClient, real_sandbox: DockerSandbox, session_id: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The last call of a gate that was killed may still be under way in the engine while the reaper looks."""
    labels = {"gate.session": session_id, "gate.owner": "elsewhere:boot:1", "gate.expires": "1"}
    real = leavings._remove_volume
    late: list[str] = []

    def remove(*arguments: Any) -> list[str]:
        if not late:
            made = engine.containers.create(IMAGE, ["sleep", "600"], labels=labels, network_mode="none")
            late.append(str(made.id))
        return real(*arguments)

    monkeypatch.setattr(leavings, "_remove_volume", remove)
    with volume(engine, f"{session_id}-first", labels):
        report = real_sandbox.reap()

    assert late
    assert report.failed == ()
    assert left(engine, session_id) == []


def test_the_reaper_says_what_it_could_not_remove(
    engine: DockerClient, real_sandbox: DockerSandbox, session_id: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(leavings, "REMOVAL_S", 0.3)
    with volume(engine, f"{session_id}-used", {"gate.session": session_id, "gate.owner": "x"}) as used:
        user = engine.containers.create(IMAGE, volumes=[f"{used}:/x"])
        try:
            report = real_sandbox.reap(session_id)
        finally:
            user.remove()

    assert report.removed_volumes == 0
    assert len(report.failed) == 1
    assert used in report.failed[0]


def test_what_cannot_be_removed_is_told_and_never_hides_the_blocks_own_error(
    engine: DockerClient,
    real_sandbox: DockerSandbox,
    open_box: OpenBox,
    session_id: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(leavings, "discard", lambda *_: ["container c: the engine is stuck"])

    with pytest.raises(SandboxError, match="the engine is stuck"), open_box():
        pass
    with pytest.raises(ZeroDivisionError) as caught, open_box():
        _ = 1 / 0
    assert caught.value.__notes__ == ["Left behind on the Docker engine: container c: the engine is stuck"]

    report = real_sandbox.reap(session_id)
    assert (report.removed_containers, report.removed_volumes) == (2, 4)
    assert report.failed == ("container c: the engine is stuck",) * 2
    assert real_sandbox.reap(session_id).failed == (), "told once"
    assert left(engine, session_id) == []


@pytest.mark.parametrize("call", ["create_container", "start", "create_volume"])
def test_a_call_whose_answer_is_lost_is_not_made_twice(
    engine: DockerClient, session_id: str, monkeypatch: pytest.MonkeyPatch, call: str
) -> None:
    import requests

    sandbox = DockerSandbox()
    api = sandbox._engine.api
    real = getattr(api, call)
    lost: list[Any] = []

    def unheard(*args: Any, **kwargs: Any) -> Any:
        answer = real(*args, **kwargs)
        if not lost:
            lost.append(answer)
            raise requests.exceptions.ReadTimeout("no answer within 120 s")
        return answer

    monkeypatch.setattr(api, call, unheard)
    with sandbox.open(BoxSpec(session_id=session_id, label="lost", image=IMAGE)) as box:
        assert len(lost) == 1
        assert len(left(engine, session_id)) == 3
        assert box.exec(["true"], timeout_s=30).exit_code == 0
    sandbox.close()
    assert left(engine, session_id) == []


def test_only_so_many_boxes_are_made_at_a_time_and_apart_from_these_removed(
    engine: DockerClient, session_id: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """sandbox.md 6: however many runs a session has at the same time, an engine is not flooded with calls that are slow on it."""
    monkeypatch.setattr("gate.adapters.docker_sandbox.sandbox.LANES", 2)
    sandbox = DockerSandbox()
    lock, under_way, most = threading.Lock(), Counter[str](), Counter[str]()

    def counted(api: Any, call: str) -> None:
        real = getattr(api, call)

        def slowly(*args: Any, **kwargs: Any) -> Any:
            with lock:
                under_way[call] += 1
                most[call] = max(most[call], under_way[call])
            try:
                time.sleep(0.2)
                return real(*args, **kwargs)
            finally:
                with lock:
                    under_way[call] -= 1

        monkeypatch.setattr(api, call, slowly)

    counted(sandbox._engine.api, "create_container")
    counted(sandbox._engine.hurried, "remove_container")
    together, codes = threading.Barrier(4), []

    def run() -> None:
        together.wait(60)
        with sandbox.open(BoxSpec(session_id=session_id, label="many", image=IMAGE)) as box:
            together.wait(120)  # all four are open at the same time
            codes.append(box.exec(["true"], timeout_s=60).exit_code)
            together.wait(120)

    threads = [threading.Thread(target=run) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert codes == [0] * 4
    assert most == {"create_container": 2, "remove_container": 2}
    assert left(engine, session_id) == []
    sandbox.close()


def test_killing_a_session_ends_a_command_that_runs(
    real_sandbox: DockerSandbox, open_box: OpenBox, session_id: str
) -> None:
    import threading

    from gate.errors import BoxDeadError

    with open_box() as box:
        timer = threading.Timer(0.5, real_sandbox.kill_all, [session_id])
        timer.start()
        with pytest.raises(BoxDeadError) as caught:
            box.exec(["sleep", "600"], timeout_s=600)
        timer.join()

    assert not caught.value.agent_caused


def test_killing_without_an_engine_is_silent_and_reaping_says_so() -> None:
    sandbox = DockerSandbox("unix:///nowhere/docker.sock")

    sandbox.kill_all("any")
    report = sandbox.reap("any")

    assert report.removed_containers == 0
    assert "does not exist" in report.failed[0]
