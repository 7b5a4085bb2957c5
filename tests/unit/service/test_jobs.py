from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from gate.service.jobs import Jobs, Taken
from gate.service.webhooks import Delivery, read_delivery
from tests.unit.service.deliveries import BASE, encoded, headers_for, payload


def delivery(identity: str, **pull: Any) -> Delivery:
    body = encoded(payload(**pull))
    found = read_delivery(headers_for(body, identity), body, frozenset({"acme/skills"}))
    assert isinstance(found, Delivery)
    return found


def head(sign: str) -> dict[str, Any]:
    return {"sha": sign * 40, "ref": "feature", "repo": {"id": 1, "full_name": "acme/skills"}}


class Judge:
    """Judges when it is let, and remembers what."""

    def __init__(self) -> None:
        self.seen: list[str] = []
        self.answers: list[bool | Exception] = []
        self.begun = threading.Semaphore(0)
        self.go = threading.Semaphore(0)
        self.at_a_time = 0
        self.most = 0

    def __call__(self, asked: Delivery) -> bool:
        self.at_a_time += 1
        self.most = max(self.most, self.at_a_time)
        self.begun.release()
        assert self.go.acquire(timeout=30)
        self.seen.append(asked.id)
        self.at_a_time -= 1
        answer = self.answers.pop(0) if self.answers else True
        if isinstance(answer, Exception):
            raise answer
        return answer

    def one_begins(self) -> None:
        assert self.begun.acquire(timeout=30)

    def one_ends(self) -> None:
        self.go.release()


Make = Callable[..., tuple[Jobs, Judge, list[str]]]


@pytest.fixture
def make() -> Iterator[Make]:
    made: list[tuple[Jobs, Judge]] = []

    def maker(**limits: int) -> tuple[Jobs, Judge, list[str]]:
        judge, said = Judge(), list[str]()
        jobs = Jobs(judge, said.append, **limits)
        jobs.start()
        made.append((jobs, judge))
        return jobs, judge, said

    yield maker
    for jobs, judge in made:
        judge.go.release(100)
        jobs.stop(30)


def test_deliveries_are_judged_one_at_a_time_in_their_order(make: Make) -> None:
    jobs, judge, _ = make()
    for sign in "123":
        assert jobs.take(delivery(sign, head=head(sign))) is Taken.QUEUED
    for _ in range(3):
        judge.one_begins()
        judge.one_ends()
    jobs.stop(30)
    assert (judge.seen, judge.most) == (["1", "2", "3"], 1)


def test_the_same_delivery_or_the_same_head_is_judged_once(make: Make) -> None:
    jobs, judge, _ = make()
    assert jobs.take(delivery("1")) is Taken.QUEUED
    judge.one_begins()
    assert jobs.take(delivery("1", head=head("c"))) is Taken.DUPLICATE
    assert jobs.take(delivery("2", base={"sha": BASE, "ref": "main", "repo": {"id": 1}})) is Taken.DUPLICATE
    judge.one_ends()
    assert jobs.take(delivery("3", head=head("d"))) is Taken.QUEUED
    judge.one_begins()
    assert jobs.take(delivery("4")) is Taken.DUPLICATE  # judged by now, and judged it stays


def test_a_draft_that_becomes_ready_is_judged_again(make: Make) -> None:
    jobs, _, _ = make()
    assert jobs.take(delivery("1", draft=True)) is Taken.QUEUED
    assert jobs.take(delivery("2", draft=False)) is Taken.QUEUED


@pytest.mark.parametrize("answer", [False, OSError("disk full")])
def test_what_led_to_no_result_is_judged_when_it_is_delivered_again(make: Make, answer: bool | Exception) -> None:
    jobs, judge, said = make()
    judge.answers = [answer]
    assert jobs.take(delivery("1")) is Taken.QUEUED
    judge.one_begins()
    judge.one_ends()
    other = delivery("2", head=head("c"))
    assert jobs.take(other) is Taken.QUEUED
    judge.one_begins()  # so the first one is over
    assert jobs.take(delivery("1")) is Taken.QUEUED
    assert said == ([] if answer is False else ["error: OSError while acme/skills was judged: disk full"])


def test_a_full_queue_takes_no_more_and_forgets_what_it_did_not_take(make: Make) -> None:
    jobs, judge, _ = make(length=1)
    assert jobs.take(delivery("1", head=head("1"))) is Taken.QUEUED
    judge.one_begins()
    assert jobs.take(delivery("2", head=head("2"))) is Taken.QUEUED
    assert jobs.take(delivery("3", head=head("3"))) is Taken.FULL
    assert jobs.state() == (True, 1, True)
    judge.one_ends()
    judge.one_begins()
    assert jobs.take(delivery("3", head=head("3"))) is Taken.QUEUED


def test_the_memory_of_deliveries_is_bounded(make: Make) -> None:
    jobs, judge, _ = make(remembered=2)
    judge.go.release(10)
    assert jobs.take(delivery("1", head=head("1"))) is Taken.QUEUED
    assert jobs.take(delivery("2", head=head("2"))) is Taken.QUEUED
    assert jobs.take(delivery("1", head=head("1"))) is Taken.QUEUED  # two newer keys have pushed its own out


def test_stopping_drops_what_waits_and_takes_no_more(make: Make) -> None:
    jobs, judge, _ = make()
    for sign in "123":
        jobs.take(delivery(sign, head=head(sign)))
    judge.one_begins()
    judge.one_ends()
    judge.one_begins()
    threading.Timer(0.05, judge.one_ends).start()
    assert jobs.stop(30) == 1
    assert judge.seen == ["1", "2"]
    assert jobs.take(delivery("4", head=head("4"))) is Taken.STOPPING
    assert jobs.state()[0] is False
