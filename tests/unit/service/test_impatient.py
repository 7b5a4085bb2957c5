from __future__ import annotations

import socket
import threading
import time
from collections.abc import Iterator

import pytest
import uvicorn
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import PlainTextResponse
from starlette.routing import Route

from gate.service import impatient as module
from gate.service.impatient import impatient

LIMIT_S = 0.2


@pytest.fixture
def port(monkeypatch: pytest.MonkeyPatch) -> Iterator[int]:
    def slow(request: Request) -> PlainTextResponse:
        del request
        time.sleep(3 * LIMIT_S)
        return PlainTextResponse("done")

    monkeypatch.setattr(module, "HEAD_SECONDS", LIMIT_S)
    app = Starlette(routes=[Route("/slow", slow)])
    config = uvicorn.Config(app, lifespan="off", log_level="error", http=impatient(), timeout_keep_alive=600)
    with socket.create_server(("127.0.0.1", 0)) as listening:
        server = uvicorn.Server(config)
        thread = threading.Thread(target=server.run, kwargs={"sockets": [listening]}, daemon=True)
        thread.start()
        yield listening.getsockname()[1]
        server.should_exit = True
        thread.join(10)


@pytest.mark.parametrize("said", [b"", b"GET /slow HTTP/1.1\r\nhost: x\r\nx-one: "])
def test_who_asks_for_nothing_loses_the_connection(port: int, said: bytes) -> None:
    with socket.create_connection(("127.0.0.1", port), timeout=30) as connection:
        connection.sendall(said)
        assert connection.recv(100) == b""


def test_who_has_asked_gets_the_answer_however_long_it_takes_and_then_loses_it_too(port: int) -> None:
    with socket.create_connection(("127.0.0.1", port), timeout=30) as connection:
        connection.sendall(b"GET /slow HTTP/1.1\r\nhost: x\r\n\r\n")
        answer = b""
        while not answer.endswith(b"done"):
            piece = connection.recv(4096)
            assert piece
            answer += piece
        assert answer.startswith(b"HTTP/1.1 200")
        connection.sendall(b"GET ")
        assert connection.recv(100) == b""
