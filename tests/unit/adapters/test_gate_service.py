from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest
from pydantic import SecretStr

from gate.adapters.gate_service import TRIES, GateServiceHttp
from gate.domain.handover import Handed, Refused
from gate.errors import ConfigurationError, InfrastructureError

Answer = tuple[int, Any]
HANDED = Handed(job="a1", ticket="the-ticket", poll_s=1)


class Said:
    """What came in: (method, path, authorization)."""

    def __init__(self) -> None:
        self.url = ""
        self.requests: list[tuple[str, str, str]] = []


@contextmanager
def speaking(answer: Callable[[str, int], Answer]) -> Iterator[Said]:
    """A server that answers by path and by how often that path was asked for."""
    said = Said()

    class Handler(BaseHTTPRequestHandler):
        def _reply(self) -> None:
            self.rfile.read(int(self.headers.get("Content-Length") or 0))
            path = self.path.partition("?")[0]
            count = sum(1 for _, before, _ in said.requests if before.partition("?")[0] == path)
            said.requests.append((self.command, self.path, self.headers.get("Authorization", "")))
            code, value = answer(path, count)
            body = value if isinstance(value, bytes) else json.dumps(value).encode()
            self.send_response(code)
            if code in (301, 302, 307):
                self.send_header("Location", "/elsewhere")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        do_GET = do_POST = do_DELETE = _reply  # noqa: N815 - the base class calls them so

        def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 - the base class calls it so
            del format, args

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    said.url = f"http://127.0.0.1:{server.server_address[1]}"
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield said
    finally:
        server.shutdown()
        server.server_close()
        thread.join(10)


def line(said: Said, waits: list[float] | None = None) -> GateServiceHttp:
    return GateServiceHttp(
        said.url,
        id_url=f"{said.url}/id?x=1",
        id_token=SecretStr("request-token"),
        sleep=(waits if waits is not None else []).append,
    )


TAKEN = {"job": "a1", "ticket": "t", "poll_seconds": 5}


def test_every_try_has_a_token_of_its_own_made_for_this_service() -> None:
    def answer(path: str, count: int) -> Answer:
        if path == "/id":
            return 200, {"value": f"job-token-{count}"}
        return (503, {}) if count < 2 else (202, TAKEN)

    waits: list[float] = []
    with speaking(answer) as said:
        handed = line(said, waits).hand_over({"number": 7}, "n" * 32, {})
        assert handed == Handed(job="a1", ticket="t", poll_s=5)
        posts = [auth for method, _, auth in said.requests if method == "POST"]
        assert posts == [f"Bearer job-token-{number}" for number in range(3)]
        asked = [path for _, path, auth in said.requests if auth == "Bearer request-token"]
        assert asked == [f"/id?x=1&audience=http%3A%2F%2F127.0.0.1%3A{said.url.rpartition(':')[2]}"] * 3
    assert waits == [1.0, 2.0]


def test_a_refusal_is_said_and_not_tried_again() -> None:
    def answer(path: str, count: int) -> Answer:
        del count
        return (200, {"value": "x"}) if path == "/id" else (403, {"rule": "ref\n::error::", "reason": "no\x1b[31m"})

    with speaking(answer) as said:
        with pytest.raises(Refused) as error:
            line(said).hand_over({}, "n" * 32, {})
        assert "refused (ref ::error::): no [31m" in str(error.value)
        assert len([1 for method, _, _ in said.requests if method == "POST"]) == 1


def test_patience_ends() -> None:
    with speaking(lambda path, count: (503, {"reason": "busy"})) as said:
        with pytest.raises(InfrastructureError, match="busy"):
            line(said).progress(HANDED)
        assert len(said.requests) == TRIES


@pytest.mark.parametrize("code", [301, 302, 307])
def test_a_token_never_travels_on_to_where_an_answer_points(code: int) -> None:
    with speaking(lambda path, count: (code, {})) as said:
        with pytest.raises((InfrastructureError, Refused)):
            line(said).progress(HANDED)
        with pytest.raises((InfrastructureError, Refused)), line(said).bundle(HANDED):
            pass
        with pytest.raises(InfrastructureError):
            line(said).hand_over({}, "n" * 32, {})
        assert not [path for _, path, _ in said.requests if path == "/elsewhere"]


@pytest.mark.parametrize(
    "value", [b"", b"[]", b"{", {}, {**TAKEN, "job": "../x"}, {**TAKEN, "ticket": 7}, {**TAKEN, "poll_seconds": "5"}]
)
def test_an_answer_that_is_none_is_infrastructure(value: Any) -> None:
    def answer(path: str, count: int) -> Answer:
        del count
        return (200, {"value": "x"}) if path == "/id" else (202, value)

    with speaking(answer) as said, pytest.raises(InfrastructureError, match="no job"):
        line(said).hand_over({}, "n" * 32, {})
    with speaking(lambda path, count: (200, value)) as said:
        with pytest.raises(InfrastructureError, match="how far"):
            line(said).progress(HANDED)
        with pytest.raises(InfrastructureError, match="publishes no key"):
            line(said).keys()


def test_leaving_never_fails() -> None:
    with speaking(lambda path, count: (500, {})) as said:
        line(said).cancel(HANDED)
        assert said.requests == [("DELETE", "/handover/a1", "Bearer the-ticket")]
    line(said).cancel(HANDED)


@pytest.mark.parametrize(
    "url", ["http://gate.example.org", "ftp://x", "https://user:pw@x", "https://", "", "http://127.0.0.1.evil.example"]
)
def test_an_address_that_anybody_could_read_along_is_refused(url: str) -> None:
    for service, id_url in ((url, "https://id.example"), ("https://gate.example.org", url or "http://x")):
        with pytest.raises(ConfigurationError):
            GateServiceHttp(service, id_url=id_url, id_token=SecretStr("x"))


def test_a_job_without_the_permission_is_told_which() -> None:
    for id_url, token in (("", SecretStr("x")), ("https://id.example", None)):
        with pytest.raises(ConfigurationError, match="no OIDC token") as error:
            GateServiceHttp("https://gate.example.org", id_url=id_url, id_token=token)
        assert "id-token: write" in error.value.remedy
