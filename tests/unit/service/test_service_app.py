from __future__ import annotations

import socket
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from gate.errors import ConfigurationError, InfrastructureError
from gate.service import app as service_app
from gate.service.app import make_app
from gate.service.jobs import Control
from gate.service.logs import Log
from gate.service.run import opened, serve
from gate.service.store import Job, JobState, Store
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
from tests.unit.service.desks import StubDesk, listening


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    made = opened(tmp_path, None)
    yield made
    made.close()


@pytest.fixture
def port(store: Store) -> Iterator[int]:
    with listening(make_app(secret=SECRET, repositories=frozenset({"acme/skills"}), store=store)) as found:
        yield found


@contextmanager
def service(data: Path, desk: StubDesk | None, **more: Any) -> Iterator[tuple[int, Listening]]:
    """The whole process with a desk of stubs."""
    stop, log = threading.Event(), Listening()

    def target() -> None:
        serve(
            host="127.0.0.1", port=0, secret=SECRET, repositories=("Acme/Skills",), data=data, database=None,
            make_desk=(lambda keep: desk) if desk is not None else None, log=Log(log.say, str), stop=stop, **more,
        )  # fmt: skip

    with in_thread(target, stop):
        yield log.port, log


def until_ended(store: Store, jobs: int = 1) -> list[Job]:
    quiet = threading.Event()
    for _ in range(600):
        found = store.jobs()
        if len(found) >= jobs and all(job.state.ended for job in found):
            return found
        quiet.wait(0.05)
    raise AssertionError(store.jobs())


def test_a_signed_pull_request_is_taken_with_its_very_bytes(port: int, store: Store) -> None:
    answer = deliver(port, payload())
    assert (answer.code, answer.value["result"]) == (202, "queued")
    (job,) = store.jobs()
    assert (job.head_sha, job.repository, job.number, job.state) == (HEAD, "acme/skills", 7, JobState.WAITING)
    assert store.payload(job.id) == encoded(payload())


def test_the_same_delivery_and_the_same_head_are_one_job(port: int, store: Store) -> None:
    results = [deliver(port, payload(), delivery).value["result"] for delivery in ("d-1", "d-1", "d-2")]
    assert results == ["queued", "duplicate", "duplicate"]
    assert len(store.jobs()) == 1


def test_a_closed_pull_request_ends_its_jobs(port: int, store: Store) -> None:
    deliver(port, payload())
    assert deliver(port, payload("closed"), "d-2").value["result"] == "closed"
    assert [job.state for job in store.jobs()] == [JobState.SUPERSEDED]


def test_what_is_not_judged_is_answered_with_its_reason(port: int, store: Store) -> None:
    answer = deliver(port, {"zen": "Design for failure."}, x_github_event="ping")
    assert (answer.code, answer.value["result"]) == (202, "ignored")
    assert "ping" in answer.value["reason"]
    assert store.jobs() == []


@pytest.mark.parametrize("wrong", ["", "sha256=" + "0" * 64, "nonsense"])
def test_a_body_that_github_did_not_sign_is_refused_before_it_is_read(port: int, store: Store, wrong: str) -> None:
    for body in (encoded(payload()), b"{ no json"):
        answer = request(port, "POST", "/webhooks/github", body, headers_for(body, x_hub_signature_256=wrong))
        assert answer.code == 401
        assert "signature" in answer.value["reason"]
    assert store.jobs() == []


def test_a_signature_of_another_secret_or_of_other_bytes_is_refused(port: int, store: Store) -> None:
    body = encoded(payload())
    other = headers_for(body, secret="another")
    assert request(port, "POST", "/webhooks/github", body, other).code == 401
    assert request(port, "POST", "/webhooks/github", body + b" ", headers_for(body)).code == 401
    assert store.jobs() == []


def test_a_signed_payload_that_cannot_be_read_says_what_is_wrong(port: int) -> None:
    answer = deliver(port, payload(draft="yes"))
    assert answer.code == 400
    assert "pull_request.draft" in answer.value["reason"]


def test_a_body_over_25_megabytes_is_refused_whether_or_not_it_says_its_length(port: int, store: Store) -> None:
    headers = headers_for(b"")
    declared = {**headers, "content-length": str(MAX_BODY_BYTES + 1)}
    with socket.create_connection(("127.0.0.1", port), timeout=30) as connection:
        lines = "".join(f"{name}: {value}\r\n" for name, value in declared.items())
        connection.sendall(f"POST /webhooks/github HTTP/1.1\r\nhost: x\r\n{lines}\r\n".encode())
        assert connection.recv(4096).startswith(b"HTTP/1.1 413 ")
    assert store.jobs() == []


def test_a_body_without_a_length_is_refused_when_it_gets_too_large(
    port: int, store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(service_app, "MAX_BODY_BYTES", 2000)
    body = encoded(payload())
    assert len(body) < 2000
    pieces = iter([body, b" " * (2001 - len(body))])
    assert request(port, "POST", "/webhooks/github", pieces, headers_for(body)).code == 413
    whole = body + b" " * (2000 - len(body))
    assert request(port, "POST", "/webhooks/github", iter([whole]), headers_for(whole)).code == 202


def half(port: int, size: int, sent: int) -> socket.socket:
    """A stranger's delivery that says it has ``size`` bytes, of which ``sent`` are sent."""
    connection = socket.create_connection(("127.0.0.1", port), timeout=30)
    connection.sendall(
        f"POST /webhooks/github HTTP/1.1\r\nhost: x\r\ncontent-length: {size}\r\n\r\n".encode() + b"x" * sent
    )
    return connection


def test_large_bodies_are_held_within_one_limit_and_small_ones_always_find_room(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By the real server: strangers who begin large bodies cannot fill the memory, nor keep GitHub's deliveries out."""
    monkeypatch.setattr(service_app, "SMALL_BYTES", 10_000)
    monkeypatch.setattr(service_app, "LARGE_BYTES", 130_000)
    with listening(make_app(secret=SECRET, repositories=frozenset({"acme/skills"}), store=store)) as port:
        waiting = [half(port, 90_000, 55_000) for _ in range(2)]  # each beyond the 10,000 that anybody gets
        with half(port, 200_000, 150_000) as connection:
            answer = connection.recv(4096)
        assert answer.startswith(b"HTTP/1.1 503 ")
        assert f"retry-after: {service_app.RETRY_AFTER_S}\r\n".encode() in answer.lower()
        assert deliver(port, payload()).code == 202, "a small delivery waits for nobody"
        for connection in waiting:
            connection.sendall(b"x" * 35_000)
            assert connection.recv(4096).startswith(b"HTTP/1.1 401 ")
            connection.close()
        with half(port, 105_000, 105_000) as connection:
            assert connection.recv(4096).startswith(b"HTTP/1.1 401 "), "what was answered makes room again"


def test_who_leaves_in_the_middle_of_a_large_body_makes_room_again(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(service_app, "SMALL_BYTES", 1_000)
    monkeypatch.setattr(service_app, "LARGE_BYTES", 50_000)
    with listening(make_app(secret=SECRET, repositories=frozenset({"acme/skills"}), store=store)) as port:
        for _ in range(4):
            half(port, 60_000, 40_000).close()
        for _ in range(200):
            with half(port, 45_000, 45_000) as connection:
                if connection.recv(4096).startswith(b"HTTP/1.1 401 "):
                    break
            time.sleep(0.05)  # the server has not seen all of them leave
        else:
            pytest.fail("what was held for those who left is not free")


def test_a_body_that_does_not_arrive_is_not_waited_for(port: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(service_app, "BODY_SECONDS", 0.05)
    with socket.create_connection(("127.0.0.1", port), timeout=30) as connection:
        connection.sendall(b"POST /webhooks/github HTTP/1.1\r\nhost: x\r\ncontent-length: 10\r\n\r\n12345")
        assert connection.recv(4096).startswith(b"HTTP/1.1 408 ")


def test_it_says_that_it_is_well_and_what_waits(port: int, store: Store) -> None:
    assert request(port, "GET", "/healthz").value == {"status": "ok", "waiting": 0, "judging": 0}
    deliver(port, payload())
    assert request(port, "GET", "/healthz").value == {"status": "ok", "waiting": 1, "judging": 0}
    assert (request(port, "GET", "/readyz").code, request(port, "GET", "/readyz").value) == (200, {"status": "ready"})
    (job,) = store.jobs()
    store.begin(job.id, "somebody")
    assert request(port, "GET", "/healthz").value == {"status": "ok", "waiting": 0, "judging": 1}


def test_who_is_ending_or_has_no_database_is_not_ready(tmp_path: Path) -> None:
    store = opened(tmp_path, None)
    facts: dict[str, Any] = {"secret": SECRET, "repositories": frozenset({"*"}), "store": store}
    with listening(make_app(**facts, stopping=lambda: True)) as port:
        assert (request(port, "GET", "/readyz").code, request(port, "GET", "/healthz").code) == (503, 200)
        assert deliver(port, payload()).code == 503
    with listening(make_app(**facts, alive=lambda: False)) as port:
        assert request(port, "GET", "/healthz").code == 503
    store.close()


@pytest.mark.parametrize(
    ("method", "path", "code"), [("GET", "/webhooks/github", 405), ("POST", "/healthz", 405), ("GET", "/", 404)]
)
def test_there_is_nothing_else(port: int, method: str, path: str, code: int) -> None:
    assert request(port, method, path).code == code


def with_head(sign: str, **more: Any) -> dict[str, object]:
    repo = {"id": 1, "full_name": "acme/skills"}
    return {**payload(head={"sha": sign * 40, "ref": "x", "repo": repo}, number=int(sign, 16)), **more}


def test_a_full_queue_says_so_and_remembers_nothing(store: Store) -> None:
    app = make_app(secret=SECRET, repositories=frozenset({"*"}), store=store, queue_length=1)
    with listening(app) as port:
        assert deliver(port, with_head("1"), "1").code == 202
        assert deliver(port, with_head("2"), "2").code == 503
        (job,) = store.jobs()
        store.ask_to_cancel(job.id)
        assert deliver(port, with_head("2"), "2").value["result"] == "queued"


def test_a_job_goes_all_the_way_and_a_newer_head_ends_the_older_one(tmp_path: Path) -> None:
    begun = threading.Event()

    def held(job: Job, control: Control) -> None:
        if job.head_sha.startswith("1"):
            begun.set()
            assert control.cancelled.wait(30)

    desk = StubDesk(parts=2, on_part=held)
    with service(tmp_path, desk) as (port, log):
        assert deliver(port, with_head("1"), "1").value["result"] == "queued"
        assert begun.wait(30)
        newer = payload(head={"sha": "2" * 40, "ref": "x", "repo": {"id": 1, "full_name": "acme/skills"}}, number=1)
        assert deliver(port, newer, "2").value.get("result") == "queued", log.lines
        store = opened(tmp_path, None)
        second, first = until_ended(store, 2)
        assert (first.head_sha[0], first.state) == ("1", JobState.SUPERSEDED)
        assert (second.state, second.gate_state, second.verdicts) == (JobState.DONE, "success", {"skills/sums": "pass"})
        assert (second.shards, second.shards_done, second.cost_usd) == (2, 2, 0.5)
        assert store.budget(1).spent_usd == 10.5, "the one that was ended has spent something too"
        assert [what for what, job in desk.asked if job == second.id] == [
            "plan",
            "part 1/2",
            "part 2/2",
            "conclude",
            "tidy",
        ][: len([job for _, job in desk.asked if job == second.id])]  # it ends before its folder is tidied up
        assert [one.text for one in store.events(second.id) if one.kind == "state"] == ["running", "done"]
        store.close()


def test_a_step_that_breaks_is_a_failed_job_which_is_done_again_when_asked_for_again(tmp_path: Path) -> None:
    broken = [True]

    def once(job: Job, control: Control) -> None:
        del job, control
        if broken:
            broken.clear()
            raise InfrastructureError("The engine went away.")

    desk = StubDesk(on_part=once)
    with service(tmp_path, desk) as (port, _):
        deliver(port, payload())
        store = opened(tmp_path, None)
        (job,) = until_ended(store)
        assert (job.state, job.reason) == (JobState.FAILED, "The engine went away.")
        assert ("failed: The engine went away.", job.id) in desk.asked
        assert (job.calls, job.cost_usd, store.budget(1).spent_usd) == (1, 0.25, 10.0)  # as StubDesk.spent says
        assert deliver(port, payload()).value["result"] == "queued"
        again, _ = until_ended(store, 2)
        assert (again.state, again.attempt) == (JobState.DONE, 2)
        store.close()


def test_nobody_works_where_work_is_done_elsewhere(tmp_path: Path) -> None:
    with service(tmp_path, None) as (port, _):
        assert deliver(port, payload()).value["result"] == "queued"
        time.sleep(1.0)
        store = opened(tmp_path, None)
        assert [job.state for job in store.jobs()] == [JobState.WAITING]
        store.close()


def test_an_application_without_a_secret_is_not_made(store: Store) -> None:
    with pytest.raises(ConfigurationError, match="no secret"):
        make_app(secret="", repositories=frozenset(), store=store)


def test_an_address_that_is_taken_is_said(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken, pytest.raises(InfrastructureError, match="Cannot listen"):
        serve(
            host="127.0.0.1", port=taken.getsockname()[1], secret=SECRET, repositories=(), data=tmp_path, database=None,
            make_desk=None, log=Log(lambda text: None, str), stop=threading.Event(),
        )  # fmt: skip
