from __future__ import annotations

import os
import uuid
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import pytest

from gate.adapters.docker_sandbox import DockerSandbox
from gate.domain.sandbox import BoxSpec, OneShotSpec, PutFile
from gate.protocols import Box
from tests.docker.conftest import IMAGE

if TYPE_CHECKING:
    from docker import DockerClient

pytestmark = pytest.mark.docker

CANARY_NAME = "ANTHROPIC_API_KEY"
CANARY = f"sk-canary-{uuid.uuid4().hex}"
ENVIRONMENT = [
    "HOME=/work/home",
    "LANG=C.UTF-8",
    "PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
    "PYTHONDONTWRITEBYTECODE=1",
    "PYTHONHASHSEED=0",
    "TZ=UTC",
]
# Prints what became of a connection: the name of the errno, or CONNECTED.
PROBE = """
import errno, socket, sys
for host in sys.argv[1:]:
    s = socket.socket()
    s.settimeout(3)
    try:
        s.connect((host, 9))
        print(host, "CONNECTED")
    except OSError as error:
        print(host, errno.errorcode.get(error.errno, type(error).__name__))
"""


@pytest.fixture(scope="module")
def running(engine: DockerClient, real_sandbox: DockerSandbox) -> Iterator[Box]:
    """One box for all tests that only look; made while the gate's own environment holds a key."""
    spec = BoxSpec(
        session_id=f"hard-{uuid.uuid4().hex[:8]}", label="a/b c", image=IMAGE, memory_mb=300, pids=64, cpus=0.5
    )
    before = os.environ.get(CANARY_NAME)
    os.environ[CANARY_NAME] = CANARY
    try:
        with real_sandbox.open(spec) as box:
            box.put_workspace([PutFile(path="probe.py", data=PROBE.encode())])
            box.put_skill([PutFile(path="SKILL.md", data=b"# Skill")], name="demo")
            yield box
    finally:
        del os.environ[CANARY_NAME]
        if before is not None:
            os.environ[CANARY_NAME] = before


@pytest.fixture(scope="module")
def inspected(engine: DockerClient, running: Box) -> dict[str, Any]:
    return dict(engine.api.inspect_container(running.facts().container))


def shell(box: Box, script: str) -> str:
    """Stdout and stderr of a script that has to run in the box: what it prints proves where it ran."""
    result = box.exec(["bash", "-c", f"hostname; {script}"], timeout_s=30)
    where, _, rest = result.stdout.decode().partition("\n")
    assert where == "sandbox"
    return rest + result.stderr.decode()


def test_the_engine_holds_a_box_the_way_the_contract_says(inspected: dict[str, Any]) -> None:
    host = inspected["HostConfig"]

    assert host["NetworkMode"] == "none"
    assert host["CapDrop"] == ["ALL"]
    assert not host["CapAdd"]
    assert host["SecurityOpt"] == ["no-new-privileges:true"], (
        "no seccomp or AppArmor profile is named, so the defaults hold"
    )
    assert host["Privileged"] is False
    assert host["ReadonlyRootfs"] is True
    assert host["Init"] is True
    assert host["IpcMode"] == "private"
    assert host["PidMode"] == ""
    assert host["PidsLimit"] == 64
    assert host["Memory"] == host["MemorySwap"] == 300 * 1024 * 1024
    assert host["NanoCpus"] == 500_000_000
    assert not host["PortBindings"]
    assert not host["Devices"]
    assert {item["Name"]: item["Hard"] for item in host["Ulimits"]}.keys() == {"nofile", "core", "fsize"}
    assert host["LogConfig"]["Config"] == {"max-file": "1", "max-size": "1m"}
    assert inspected["Config"]["User"] == "64000:64000"
    assert inspected["Config"]["Image"].startswith("sha256:")


def test_a_box_mounts_nothing_but_its_own_two_volumes(engine: DockerClient, inspected: dict[str, Any]) -> None:
    assert not inspected["HostConfig"]["Binds"]
    assert {(mount["Type"], mount["Destination"]) for mount in inspected["Mounts"]} == {
        ("volume", "/work"),
        ("volume", "/skills"),
    }
    for mount in inspected["Mounts"]:
        volume = engine.api.inspect_volume(mount["Name"])
        assert volume["Options"]["type"] == "tmpfs"
        assert "size=" in volume["Options"]["o"]
        assert volume["Labels"]["gate.owner"]
        assert volume["Labels"].items() <= inspected["Config"]["Labels"].items(), "it is reaped like its container"


def test_containers_and_volumes_say_whose_they_are(inspected: dict[str, Any]) -> None:
    labels = inspected["Config"]["Labels"]

    assert labels["gate.session"].startswith("hard-")
    assert labels["gate.run"] == "a/b c"
    assert labels["gate.owner"].endswith(f":{os.getpid()}")
    assert labels["gate.expires"].isdigit()


def test_the_environment_is_the_allow_list_and_holds_no_key(inspected: dict[str, Any], running: Box) -> None:
    assert os.environ[CANARY_NAME] == CANARY, "the gate has a key that could leak"
    assert sorted(inspected["Config"]["Env"]) == ENVIRONMENT
    assert CANARY not in str(inspected)

    seen = shell(
        running,
        "env; cat /proc/*/environ /proc/*/cmdline 2>/dev/null | tr '\\0' '\\n'; grep -rs 'sk-[c]anary' /etc /work /tmp",
    )

    assert "HOME=/work/home" in seen
    assert "sk-canary" not in seen


def test_there_is_no_network_but_the_loopback(running: Box) -> None:
    assert shell(running, "ls /sys/class/net").split() == ["lo"]


def test_no_address_outside_can_be_reached(engine: DockerClient, running: Box) -> None:
    bridge = engine.api.inspect_network("bridge")["IPAM"]["Config"][0]
    host = bridge.get("Gateway") or bridge["Subnet"].rpartition(".")[0] + ".1"

    outcome = shell(running, f"python3 probe.py 169.254.169.254 8.8.8.8 {host}").split()

    assert outcome == ["169.254.169.254", "ENETUNREACH", "8.8.8.8", "ENETUNREACH", host, "ENETUNREACH"]
    # The same probe where there is a network gets another answer, so it can tell the difference.
    control = engine.containers.run(IMAGE, ["python3", "-c", PROBE, host], network_mode="bridge", remove=True)
    assert control.decode().split()[1] in ("ECONNREFUSED", "CONNECTED")


@pytest.mark.parametrize("path", ["/x", "/etc/passwd", "/usr/bin/x", "/skills/x", "/skills/demo/SKILL.md", "/run/x"])
def test_commands_cannot_write_outside_their_workspace(running: Box, path: str) -> None:
    assert "ok" not in shell(running, f"echo forged > {path} && echo ok")


@pytest.mark.parametrize("path", ["/work/x", "/tmp/x", "/dev/shm/x"])
def test_commands_can_write_where_they_work(running: Box, path: str) -> None:
    assert shell(running, f"echo mine > {path} && cat {path}") == "mine\n"


def test_commands_run_without_any_privilege(running: Box) -> None:
    status = dict(
        line.split(":\t", 1) for line in shell(running, "cat /proc/self/status").splitlines() if ":\t" in line
    )

    assert status["Uid"].split() == ["65534"] * 4
    assert status["Groups"].strip() in ("", "65534")
    for kind in ("CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb"):
        assert int(status[kind], 16) == 0
    assert status["NoNewPrivs"] == "1"
    assert status["Seccomp"] == "2"
    assert "ok" not in shell(running, "unshare -Ur true && echo ok")


def test_the_keeper_cannot_be_read_or_ended_by_commands(running: Box) -> None:
    assert "Permission denied" in shell(running, "cat /proc/1/environ")
    assert "ok" not in shell(running, "kill -9 1 && echo ok")


def test_the_keeper_cannot_list_the_workspace(engine: DockerClient, running: Box) -> None:
    made = engine.api.exec_create(running.facts().container, ["ls", "/work"], user="64000:64000")

    assert b"Permission denied" in engine.api.exec_start(made["Id"])


def test_the_workspace_has_a_quota_of_bytes_and_of_files(running: Box) -> None:
    assert shell(running, "stat -f -c '%c' /work; df -B1 --output=size /work | tail -n 1").split() == [
        "20000",
        "268435456",
    ]


def test_a_proxy_of_the_users_docker_configuration_stays_outside(
    tmp_path: Any, monkeypatch: pytest.MonkeyPatch, session_id: str, engine: DockerClient
) -> None:
    (tmp_path / "config.json").write_text('{"proxies": {"default": {"httpProxy": "http://user:canary@proxy:3128"}}}')
    monkeypatch.setenv("DOCKER_CONFIG", str(tmp_path))
    sandbox = DockerSandbox()

    with sandbox.open(BoxSpec(session_id=session_id, label="proxy", image=IMAGE)) as box:
        seen = engine.api.inspect_container(box.facts().container)["Config"]["Env"]
    sandbox.close()

    assert sorted(seen) == ENVIRONMENT


def test_one_command_of_its_own_is_held_in_the_same_way(real_sandbox: DockerSandbox, session_id: str) -> None:
    script = "id -u; ls /sys/class/net; cat /proc/self/status | grep CapBnd; env; echo x > /x; ls -A /work /skills"
    result = real_sandbox.run_once(
        OneShotSpec(session_id=session_id, label="v", image=IMAGE, argv=("bash", "-c", script), files=())
    )

    lines = result.stdout.decode().splitlines()
    assert lines[:3] == ["65534", "lo", "CapBnd:\t0000000000000000"]
    assert lines[-3:] == ["/skills:", "", "/work:"], "nothing is in the workspace but the files of the spec"
    assert b"Read-only file system" in result.stderr
