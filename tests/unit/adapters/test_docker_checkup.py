from __future__ import annotations

from typing import Any

import pytest

from gate.adapters.docker_sandbox.checkup import examine_engine
from gate.domain.sandbox import Examined, SandboxFacts

FACTS = SandboxFacts(kind="docker", description="docker 29.0, overlay2, cgroup v2, runc")
INFO: dict[str, Any] = {"MemTotal": 16 << 30, "NCPU": 4, "Runtimes": {"runc": {}}}
SOCKET = "unix:///var/run/docker.sock"


def examined(address: str = SOCKET, *, runc: str = "1.2.8", **info: Any) -> dict[str, Examined]:
    version = {"Components": [{"Name": "runc", "Version": runc}]}
    return {item.name: item for item in examine_engine(address, FACTS, {**INFO, **info}, version)}


def test_an_engine_on_this_machine_is_named_with_its_place() -> None:
    found = examined()

    assert found["engine"].text == f"{FACTS.description}, at {SOCKET}"
    assert "remote engine" not in found


def test_an_engine_elsewhere_works_and_its_connection_is_said_to_be_open() -> None:
    found = examined("tcp://10.0.0.7:2375")

    assert found["remote engine"].state == "note"
    assert "neither authenticated nor encrypted" in found["remote engine"].text


def test_gvisor_is_said_to_be_there_or_how_to_get_it() -> None:
    assert examined(Runtimes={"runc": {}, "runsc": {}})["runsc"].state == "ok"
    assert "install runsc" in examined()["runsc"].remedy


@pytest.mark.parametrize(
    ("version", "state"),
    [("1.1.5+ds1", "note"), ("1.2.7", "note"), ("1.2.8", "ok"), ("1.3.3-rc.1", "ok"), ("v2.0.0", "ok")],
)
def test_a_runc_with_known_ways_out_is_noted(version: str, state: str) -> None:
    assert examined(runc=version)["runc"].state == state


def test_a_runc_of_unknown_version_is_passed_over() -> None:
    assert "runc" not in examined(runc="unknown")


@pytest.mark.parametrize(("gigabytes", "room", "state"), [(16, 19, "ok"), (4, 3, "warning"), (1, 0, "warning")])
def test_how_many_sandboxes_have_room_is_counted(gigabytes: int, room: int, state: str) -> None:
    found = examined(MemTotal=gigabytes << 30)["room"]

    assert f"room for {room} sandboxes" in found.text
    assert found.state == state
    assert (f"--jobs {max(1, room)} " in found.remedy) == (state == "warning")
