from __future__ import annotations

import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import pytest

from gate.domain.event import PullRequestEvent
from gate.errors import ConfigurationError, InfrastructureError
from gate.service import app as service_app
from gate.service.app import make_app, serve
from gate.service.jobs import Jobs
from gate.service.webhooks import MAX_BODY_BYTES
from tests.unit.service.deliveries import (
    HEAD,
    SECRET,
    Listening,
    deliver,
    encoded,
    headers_for,
    in_thread,
    payload,
    request,
)

Judge = Callable[[PullRequestEvent, bytes], bool]


class Judged:
    """Remembers what it was given."""

    def __init__(self) -> None:
        self.given: list[tuple[str, bytes]] = []
        self.one = threading.Event()

    def __call__(self, event: PullRequestEvent, body: bytes) -> bool:
        self.given.append((event.head_sha, body))
        self.one.set()
        return True


@contextmanager
def service(judge: Judge, **more: int) -> Iterator[tuple[int, Listening]]:
    stop, log = threading.Event(), Listening()

    def target() -> None:
        serve(
            host="127.0.0.1", port=0, secret=SECRET, repositories=("Acme/Skills",), judge=judge, say=log.say, stop=stop,
            **more,
        )  # fmt: skip

    with in_thread(target, stop):
        yield log.port, log


@pytest.fixture
def judge() -> Judged:
    return Judged()


@pytest.fixture
def port(judge: Judged) -> Iterator[int]:
    with service(judge) as (found, _):
        yield found


def test_a_signed_pull_request_is_taken_and_judged_with_its_very_bytes(port: int, judge: Judged) -> None:
    answer = deliver(port, payload())
    assert (answer.code, answer.value["result"]) == (202, "queued")
    assert judge.one.wait(30)
    assert judge.given == [(HEAD, encoded(payload()))]


def test_what_is_not_judged_is_answered_with_its_reason(port: int, judge: Judged) -> None:
    answer = deliver(port, {"zen": "Design for failure."}, x_github_event="ping")
    assert (answer.code, answer.value["result"]) == (202, "ignored")
    assert "ping" in answer.value["reason"]
    assert judge.given == []


@pytest.mark.parametrize("wrong", ["", "sha256=" + "0" * 64, "nonsense"])
def test_a_body_that_github_did_not_sign_is_refused_before_it_is_read(port: int, judge: Judged, wrong: str) -> None:
    for body in (encoded(payload()), b"{ no json"):
        answer = request(port, "POST", "/webhooks/github", body, headers_for(body, x_hub_signature_256=wrong))
        assert answer.code == 401
        assert "signature" in answer.value["reason"]
    assert judge.given == []


def test_a_signature_of_another_secret_or_of_other_bytes_is_refused(port: int, judge: Judged) -> None:
    body = encoded(payload())
    other = headers_for(body, secret="another")
    assert request(port, "POST", "/webhooks/github", body, other).code == 401
    assert request(port, "POST", "/webhooks/github", body + b" ", headers_for(body)).code == 401
    assert judge.given == []


def test_a_signed_payload_that_cannot_be_read_says_what_is_wrong(port: int) -> None:
    answer = deliver(port, payload(draft="yes"))
    assert answer.code == 400
    assert "pull_request.draft" in answer.value["reason"]


def test_a_body_over_25_megabytes_is_refused_whether_or_not_it_says_its_length(port: int, judge: Judged) -> None:
    headers = headers_for(b"")
    declared = {**headers, "content-length": str(MAX_BODY_BYTES + 1)}
    with socket.create_connection(("127.0.0.1", port), timeout=30) as connection:
        lines = "".join(f"{name}: {value}\r\n" for name, value in declared.items())
        connection.sendall(f"POST /webhooks/github HTTP/1.1\r\nhost: x\r\n{lines}\r\n".encode())
        assert connection.recv(4096).startswith(b"HTTP/1.1 413 ")
    assert judge.given == []


def test_a_body_without_a_length_is_refused_when_it_gets_too_large(
    port: int, judge: Judged, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(service_app, "MAX_BODY_BYTES", 2000)
    body = encoded(payload())
    assert len(body) < 2000
    pieces = iter([body, b" " * (2001 - len(body))])
    assert request(port, "POST", "/webhooks/github", pieces, headers_for(body)).code == 413
    whole = body + b" " * (2000 - len(body))
    assert request(port, "POST", "/webhooks/github", iter([whole]), headers_for(whole)).code == 202


def test_a_body_that_does_not_arrive_is_not_waited_for(port: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(service_app, "BODY_SECONDS", 0.05)
    with socket.create_connection(("127.0.0.1", port), timeout=30) as connection:
        connection.sendall(b"POST /webhooks/github HTTP/1.1\r\nhost: x\r\ncontent-length: 10\r\n\r\n12345")
        assert connection.recv(4096).startswith(b"HTTP/1.1 408 ")


def test_it_says_that_it_is_well_and_what_waits(port: int) -> None:
    answer = request(port, "GET", "/healthz")
    assert (answer.code, answer.value) == (200, {"status": "ok", "waiting": 0, "judging": False})


@pytest.mark.parametrize(
    ("method", "path", "code"), [("GET", "/webhooks/github", 405), ("POST", "/healthz", 405), ("GET", "/", 404)]
)
def test_there_is_nothing_else(port: int, method: str, path: str, code: int) -> None:
    assert request(port, method, path).code == code


def test_an_answer_does_not_wait_for_the_judging_and_a_full_queue_says_so() -> None:
    begun, go = threading.Event(), threading.Event()

    def slow(event: PullRequestEvent, body: bytes) -> bool:
        del event, body
        begun.set()
        assert go.wait(30)
        return True

    def with_head(sign: str) -> dict[str, object]:
        return payload(head={"sha": sign * 40, "ref": "x", "repo": {"id": 1, "full_name": "acme/skills"}})

    with service(slow, queue_length=1) as (port, log):
        assert deliver(port, with_head("1"), "1").code == 202
        assert begun.wait(30)
        assert deliver(port, with_head("2"), "2").code == 202
        assert deliver(port, with_head("3"), "3").code == 503
        assert request(port, "GET", "/healthz").value == {"status": "ok", "waiting": 1, "judging": True}
        threading.Timer(0.1, go.set).start()
    # Stopped meanwhile: either the second had begun by then, or it was dropped, and that was said.
    assert len(log.lines) in (1, 2)


def test_an_application_without_a_secret_is_not_made() -> None:
    with pytest.raises(ConfigurationError, match="no secret"):
        make_app(secret="", repositories=frozenset(), jobs=Jobs(lambda delivery: True, lambda text: None))


def test_an_address_that_is_taken_is_said(judge: Judged) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken, pytest.raises(InfrastructureError, match="Cannot listen"):
        serve(
            host="127.0.0.1", port=taken.getsockname()[1], secret=SECRET, repositories=(), judge=judge,
            say=lambda text: None, stop=threading.Event(),
        )  # fmt: skip
