"""An engine that is reached over TCP: nothing of a sandbox needs the engine to be on this machine."""

from __future__ import annotations

import contextlib
import socket
import threading
from collections.abc import Iterator

import pytest

from gate.adapters.docker_sandbox import DockerSandbox
from gate.domain.sandbox import BoxSpec, OneShotSpec, PutFile
from tests.docker.conftest import IMAGE

pytestmark = pytest.mark.docker

ENGINE = "/var/run/docker.sock"


def forward(source: socket.socket, target: socket.socket) -> None:
    with contextlib.suppress(OSError):
        while data := source.recv(65_536):
            target.sendall(data)
    with contextlib.suppress(OSError):
        target.shutdown(socket.SHUT_WR)


@pytest.fixture
def address() -> Iterator[str]:
    """The engine's socket behind a port, half-closes passed on."""
    listener = socket.create_server(("127.0.0.1", 0))
    opened: list[socket.socket] = []

    def serve() -> None:
        while True:
            try:
                client, _ = listener.accept()
            except OSError:
                return
            engine = socket.socket(socket.AF_UNIX)
            engine.connect(ENGINE)
            opened.extend((client, engine))
            for pair in ((client, engine), (engine, client)):
                threading.Thread(target=forward, args=pair, daemon=True).start()

    threading.Thread(target=serve, daemon=True).start()
    yield f"tcp://127.0.0.1:{listener.getsockname()[1]}"
    listener.close()
    for sock in opened:
        sock.close()


def test_a_sandbox_on_an_engine_elsewhere_works_the_whole_way(address: str, session_id: str) -> None:
    sandbox = DockerSandbox(address)
    with sandbox.open(BoxSpec(session_id=session_id, label="remote", image=IMAGE)) as box:
        box.put_skill([PutFile(path="SKILL.md", data=b"# Skill")], name="demo")
        box.put_workspace([PutFile(path="in.txt", data=b"text")])
        assert box.exec(["cat", "/skills/demo/SKILL.md", "in.txt"], timeout_s=30).stdout == b"# Skilltext"
        assert box.exec(["cat"], timeout_s=30, stdin=b"through stdin").stdout == b"through stdin"
        assert box.exec(["sleep", "600"], timeout_s=0.5).timed_out
        assert [item.path for item in box.collect().files] == ["in.txt"]
    once = sandbox.run_once(
        OneShotSpec(session_id=session_id, label="v", image=IMAGE, argv=("sh", "-c", "echo out; exit 3"))
    )
    examined = {item.name: item.state for item in sandbox.examine()}
    report = sandbox.reap(session_id)
    sandbox.close()

    assert (once.exit_code, once.stdout) == (3, b"out\n")
    assert examined["remote engine"] == "note"
    assert (report.removed_containers, report.failed) == (0, ())
