from __future__ import annotations

import os
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from docker.errors import APIError, NotFound

from gate.adapters.docker_sandbox import DockerSandbox, creation, engine
from gate.errors import SandboxError

INFO: dict[str, Any] = {
    "ServerVersion": "20.10.24",
    "Driver": "overlay2",
    "CgroupVersion": "1",
    "OSType": "linux",
    "DefaultRuntime": "runc",
    "Runtimes": {"runc": {}},
    "MemoryLimit": True,
    "PidsLimit": True,
    "CpuCfsQuota": True,
    "SecurityOptions": ["name=seccomp,profile=default"],
}
VERSION: dict[str, Any] = {"ApiVersion": "1.41", "Components": [{"Name": "Engine"}]}


def test_the_adapter_does_not_load_the_client_library_until_it_is_used() -> None:
    code = "import sys, gate.adapters.docker_sandbox as d; d.DockerSandbox(); sys.exit('docker' in sys.modules)"

    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_an_engine_is_described_by_what_matters_to_a_sandbox() -> None:
    assert engine.judge_engine(INFO, VERSION).description == "docker 20.10.24, overlay2, cgroup v1, runc"
    with_runsc = {**INFO, "Runtimes": {"runc": {}, "runsc": {}}}
    assert engine.judge_engine(with_runsc, VERSION).description.endswith(", runsc")


@pytest.mark.parametrize(
    ("info", "version", "says"),
    [
        ({"SecurityOptions": ["name=seccomp,profile=default", "name=rootless"]}, {}, "rootless"),
        ({}, {"Components": [{"Name": "Podman Engine"}]}, "Podman"),
        ({"OSType": "windows"}, {}, "Linux"),
        ({}, {"ApiVersion": "1.24"}, "1.40"),
        ({"MemoryLimit": False}, {}, "memory"),
        ({"PidsLimit": False}, {}, "number of processes"),
        ({"CpuCfsQuota": False}, {}, "CPU"),
        ({"SecurityOptions": []}, {}, "seccomp"),
        ({"SecurityOptions": ["name=seccomp,profile=unconfined"]}, {}, "seccomp"),
    ],
)
def test_an_engine_that_cannot_hold_a_sandbox_is_refused_with_a_remedy(
    info: dict[str, Any], version: dict[str, Any], says: str
) -> None:
    with pytest.raises(SandboxError, match=says) as caught:
        engine.judge_engine({**INFO, **info}, {**VERSION, **version})

    assert caught.value.remedy


def test_a_missing_socket_is_said_in_plain_words(tmp_path: Path) -> None:
    with pytest.raises(SandboxError, match="does not exist") as caught:
        DockerSandbox(f"unix://{tmp_path}/none.sock").facts()

    assert "Start Docker" in caught.value.remedy


def test_a_folder_in_place_of_the_socket_is_explained(tmp_path: Path) -> None:
    with pytest.raises(SandboxError, match="is a folder") as caught:
        DockerSandbox(f"unix://{tmp_path}").facts()

    assert "mount" in caught.value.remedy


def test_a_file_in_place_of_the_socket_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").touch()

    with pytest.raises(SandboxError, match="is not a socket"):
        DockerSandbox(f"unix://{tmp_path}/file").facts()


def test_a_socket_of_somebody_else_is_named_with_the_group_to_join(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with socket.socket(socket.AF_UNIX) as listening:
        listening.bind(str(tmp_path / "s"))
        monkeypatch.setattr(os, "access", lambda *_: False)
        with pytest.raises(SandboxError, match="permission denied") as caught:
            DockerSandbox(f"unix://{tmp_path}/s").facts()

    assert "group `docker`" in caught.value.remedy


def test_a_socket_that_nobody_listens_on_is_no_engine(tmp_path: Path) -> None:
    with socket.socket(socket.AF_UNIX) as bound:
        bound.bind(str(tmp_path / "s"))
        with pytest.raises(SandboxError, match="No Docker engine answers"):
            DockerSandbox(f"unix://{tmp_path}/s").facts()


@pytest.mark.parametrize("address", ["ssh://user@host", "https://host:2376", "npipe:////./pipe/docker_engine"])
def test_an_address_that_is_not_supported_is_said_to_be_so(address: str) -> None:
    with pytest.raises(SandboxError, match="does not support"):
        DockerSandbox(address).facts()


def test_docker_host_names_the_engine(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DOCKER_HOST", "tcp://127.0.0.1:1")

    assert engine.Engine().address == "tcp://127.0.0.1:1"
    assert engine.Engine("unix:///given.sock").address == "unix:///given.sock"


class Answering:
    """An engine of one socket that answers every connection with the same bytes."""

    def __init__(self, folder: Path, answer: bytes) -> None:
        self._listening = socket.socket(socket.AF_UNIX)
        self._listening.bind(str(folder / "engine"))
        self._listening.listen()
        self.address = f"unix://{folder}/engine"
        self.requests: list[bytes] = []
        self._answer = answer
        self._thread = threading.Thread(target=self._serve)
        self._thread.start()

    def _serve(self) -> None:
        while True:
            try:
                connection, _ = self._listening.accept()
            except OSError:
                return
            with connection:
                request = connection.recv(65_536)
                if not request:
                    return
                self.requests.append(request)
                connection.sendall(self._answer)

    def close(self) -> None:
        with socket.socket(socket.AF_UNIX) as last:
            last.connect(self.address.removeprefix("unix://"))
        self._thread.join()
        self._listening.close()


@pytest.fixture
def answering(tmp_path: Path) -> Iterator[Callable[[bytes], tuple[engine.Engine, Answering]]]:
    servers: list[Answering] = []

    def make(answer: bytes) -> tuple[engine.Engine, Answering]:
        server = Answering(tmp_path, answer)
        servers.append(server)
        made = engine.Engine(server.address)
        made._clients[engine.TIMEOUT_S] = _Versioned()  # type: ignore[assignment]
        return made, server

    yield make
    for server in servers:
        server.close()


class _Versioned:
    api_version = "1.41"

    def close(self) -> None:
        pass


def test_output_in_the_packet_of_the_header_is_handed_over(
    answering: Callable[[bytes], tuple[engine.Engine, Answering]],
) -> None:
    made, server = answering(b"HTTP/1.1 101 UPGRADED\r\nConnection: Upgrade\r\nUpgrade: tcp\r\n\r\nearly bytes")

    sock, early = made.hijack("/exec/1/start", {"Tty": False})
    with sock:
        while not early.endswith(b"early bytes"):
            early += sock.recv(100)

    assert early == b"early bytes"
    assert server.requests[0].startswith(b"POST /v1.41/exec/1/start HTTP/1.1\r\n")


def test_a_refusal_of_the_engine_is_told_with_its_words(
    answering: Callable[[bytes], tuple[engine.Engine, Answering]],
) -> None:
    body = b'{"message":"Container abc is not running"}'
    made, _ = answering(b"HTTP/1.1 409 Conflict\r\nContent-Length: %d\r\n\r\n%s" % (len(body), body))

    with pytest.raises(engine.EngineRefusal, match=r"409.*Container abc is not running") as caught:
        made.hijack("/exec/1/start", {})
    assert caught.value.text == "Container abc is not running"


@pytest.mark.parametrize("answer", [b"", b"SSH-2.0-OpenSSH\r\n\r\n"])
def test_an_answer_that_is_none_is_an_error(
    answering: Callable[[bytes], tuple[engine.Engine, Answering]], answer: bytes
) -> None:
    made, _ = answering(answer)

    with pytest.raises(SandboxError):
        made.hijack("/exec/1/start", {})


def failing(status: int) -> APIError:
    class Response:
        status_code = status
        reason = "because"
        url = "/"

    return APIError("failed", response=Response())  # type: ignore[arg-type]


def test_passing_errors_are_retried_and_the_third_is_final(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(time, "sleep", lambda _: None)
    calls = []

    def call() -> str:
        calls.append(1)
        raise failing(500)

    with pytest.raises(APIError):
        engine.retried(call)
    assert len(calls) == 3


@pytest.mark.parametrize("error", [failing(400), failing(409), NotFound("gone")])
def test_lasting_errors_are_not_retried(error: APIError) -> None:
    calls = []

    def call() -> str:
        calls.append(1)
        raise error

    with pytest.raises(APIError):
        engine.retried(call)
    assert len(calls) == 1


def test_a_call_that_worked_after_all_is_not_repeated(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(time, "sleep", lambda _: None)

    def call() -> str:
        raise failing(409)

    assert engine.retried(call, before_retry=lambda: "found", after_conflict=True) == "found"


def test_errors_become_one_plain_line() -> None:
    with pytest.raises(SandboxError, match=r"^Made nothing: two lines$"), engine.speaking("Made nothing"):
        raise OSError("two\n   lines")


def test_names_are_readable_unique_and_fit_the_engine() -> None:
    names = creation.names_for("session/Ä 1", "skills/demo eval:1/run-1/with_skill" * 5)

    assert names.container != creation.names_for("session/Ä 1", "x").container
    assert names.container.startswith("skill-gate-session---1-")
    assert all(c.isascii() and (c.isalnum() or c in "_.-") for c in names.container)
    assert len(names.skills) < 128


@pytest.mark.parametrize(
    ("owner", "expires", "abandoned"),
    [
        ("me", "+600", False),
        ("me", "-1", True),
        ("dead", "+600", True),
        ("elsewhere:boot:1", "+600", False),
        ("elsewhere:boot:1", "-1", True),
        ("odd", "", False),
        ("odd", "soon", False),
    ],
)
def test_only_the_dead_and_the_expired_are_abandoned(owner: str, expires: str, abandoned: bool) -> None:
    with subprocess.Popen(["true"]) as ended:
        pass
    machine = creation.this_owner().rpartition(":")[0]
    owner = {"me": creation.this_owner(), "dead": f"{machine}:{ended.pid}"}.get(owner, owner)
    until = str(10_000 + int(expires)) if expires[:1] in ("+", "-") else expires

    assert creation.is_abandoned({"gate.owner": owner, "gate.expires": until}, now=10_000) is abandoned


def test_the_environment_never_takes_anything_from_the_gates_own(monkeypatch: pytest.MonkeyPatch) -> None:
    before = creation.environment_for([])
    monkeypatch.setenv("ANTHROPIC_API_KEY", "sk")
    monkeypatch.setenv("PATH", "/elsewhere")
    monkeypatch.setenv("HTTP_PROXY", "http://user:secret@proxy")

    assert creation.environment_for([]) == before
    assert creation.environment_for(["PATH=/opt/conda/bin", "OTHER=x"])[2] == "PATH=/opt/conda/bin"
