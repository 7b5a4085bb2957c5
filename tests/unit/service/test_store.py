from __future__ import annotations

import itertools
import random
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import pytest

from gate.errors import ConfigurationError
from gate.service.store import Asked, BundleRow, JobState, Store, TakenAs, Trigger, database_url, open_store
from tests.postgresql import cluster, fresh_database

A, B = "a" * 40, "b" * 40
_numbers = itertools.count()


@pytest.fixture(scope="module")
def postgresql() -> Iterator[str]:
    with cluster() as url:
        yield url


@pytest.fixture(params=["sqlite", "postgresql"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Store]:
    if request.param == "sqlite":
        made = open_store(database_url(None, tmp_path), lambda: 1000.0)
    else:
        url = fresh_database(request.getfixturevalue("postgresql"), f"store_{next(_numbers)}")
        made = open_store(database_url(url, tmp_path), lambda: 1000.0)
    yield made
    made.close()


def asked(head: str = A, moved_at: float = 1.0, *, draft: bool = False, number: int = 7) -> Asked:
    subject = f"pull:1:{number}:{head}:{draft}"
    return Asked(
        "Acme/Skills",
        1,
        subject,
        Trigger.WEBHOOK,
        "pull_request",
        b"{}",
        head_sha=head,
        number=number,
        moved_at=moved_at,
    )


def state_of(store: Store, job: str | None) -> JobState:
    found = store.job(job or "")
    assert found is not None
    return found.state


def test_one_delivery_and_one_head_are_one_job(store: Store) -> None:
    first = store.take(asked(), "d-1")
    assert first.result is TakenAs.QUEUED
    for delivery in ("d-1", "d-2", ""):
        again = store.take(asked(), delivery)
        assert (again.result, again.job) == (TakenAs.DUPLICATE, first.job)
    assert len(store.jobs()) == 1


def test_a_newer_head_ends_the_job_of_the_older_one(store: Store) -> None:
    old = store.take(asked(A, 1.0), "d-1").job
    new = store.take(asked(B, 2.0), "d-2")
    assert (new.result, new.superseded) == (TakenAs.QUEUED, (old,))
    assert state_of(store, old) is JobState.SUPERSEDED
    running = new.job or ""
    assert store.begin(running, "w")
    third = store.take(asked("c" * 40, 3.0), "d-3")
    assert third.superseded == (running,)
    assert state_of(store, running) is JobState.RUNNING
    assert store.cancelling([running, "x"]) == {running}


def test_an_older_head_that_comes_late_is_a_job_that_has_ended(store: Store) -> None:
    new = store.take(asked(B, 2.0), "d-2").job
    late = store.take(asked(A, 1.0), "d-1")
    assert late.result is TakenAs.STALE
    assert state_of(store, late.job) is JobState.SUPERSEDED
    assert state_of(store, new) is JobState.WAITING
    assert store.take(asked(A, 1.0), "d-1").result is TakenAs.STALE
    assert store.take(asked(A, 1.0), "d-9").result is TakenAs.STALE
    assert len(store.jobs()) == 2


def test_a_head_that_comes_back_is_judged_again(store: Store) -> None:
    first = store.take(asked(A, 1.0), "d-1").job or ""
    store.finish(first, JobState.DONE)
    store.take(asked(B, 2.0), "d-2")
    back = store.take(asked(A, 3.0), "d-3")
    assert back.result is TakenAs.QUEUED
    assert back.job != first
    assert store.take(asked(A, 3.0), "d-3").result is TakenAs.DUPLICATE


def test_what_failed_is_done_again_when_it_is_delivered_again(store: Store) -> None:
    job = store.take(asked(), "d-1").job or ""
    store.finish(job, JobState.FAILED, reason="no engine")
    again = store.take(asked(), "d-1")
    assert again.result is TakenAs.QUEUED
    found = store.job(again.job or "")
    assert found is not None
    assert found.attempt == 2


def test_a_report_that_is_only_an_error_is_made_again_when_it_is_asked_for_again(store: Store) -> None:
    first = store.take(asked(), "d-1").job
    assert first is not None
    store.begin(first, "w")
    store.finish(first, JobState.DONE, gate_state="error", headline="the provider was away")
    again = store.take(asked(), "d-1")
    assert again.result is TakenAs.QUEUED
    assert again.job != first
    store.begin(again.job or "", "w")
    store.finish(again.job or "", JobState.DONE, gate_state="failure")
    assert store.take(asked(), "d-1").result is TakenAs.DUPLICATE


def test_signs_that_a_database_does_not_take_neither_break_a_job_nor_a_question(store: Store) -> None:
    job = store.take(asked(), "d-1").job
    assert job is not None
    store.begin(job, "w")
    store.say(job, "line", "a\0b\udcff")
    store.finish(job, JobState.DONE, gate_state="success", headline="\0\ud800", reason="\0")
    assert [event.text for event in store.events(job)] == ["a\N{REPLACEMENT CHARACTER}b?"]
    assert store.job(f"{job[:-1]}\0") is None
    assert store.jobs(repositories=["acme/\0"]) == []


def test_a_database_that_says_it_has_no_encoding_gives_texts(postgresql: str, tmp_path: Path) -> None:
    import psycopg

    with psycopg.connect(postgresql, autocommit=True) as connection:
        connection.execute("CREATE DATABASE ascii ENCODING 'SQL_ASCII' LOCALE 'C' TEMPLATE template0")
    made = open_store(database_url(postgresql.rpartition("/")[0] + "/ascii", tmp_path))
    try:
        job = made.take(asked(), "d-1").job
        assert job is not None
        made.say(job, "line", "größer")
        assert state_of(made, job) is JobState.WAITING
        assert made.events(job)[0].text == "größer"
    finally:
        made.close()


def test_a_draft_that_becomes_ready_is_another_job_which_ends_the_first(store: Store) -> None:
    draft = store.take(asked(draft=True), "d-1").job
    ready = store.take(asked(moved_at=2.0), "d-2")
    assert (ready.result, ready.superseded) == (TakenAs.QUEUED, (draft,))


def test_an_approved_run_of_this_head_stays_and_one_of_an_older_head_ends(store: Store) -> None:
    approval = replace(asked(), subject="approved", trigger=Trigger.APPROVAL)
    first = store.take(approval, "d-1").job
    store.take(asked(), "d-2")
    assert state_of(store, first) is JobState.WAITING
    store.take(asked(B, 2.0), "d-3")
    assert state_of(store, first) is JobState.SUPERSEDED


def test_a_closed_pull_request_ends_its_own_jobs_only(store: Store) -> None:
    seven, eight = (store.take(asked(number=number), "").job for number in (7, 8))
    assert store.close_pull_request(1, 7) == (seven,)
    assert (state_of(store, seven), state_of(store, eight)) == (JobState.SUPERSEDED, JobState.WAITING)


def test_a_full_queue_takes_nothing_and_remembers_nothing(store: Store) -> None:
    store.take(asked(number=1), "d-1", most_waiting=1)
    assert store.take(asked(number=2), "d-2", most_waiting=1).result is TakenAs.FULL
    assert store.take(asked(number=2), "d-2", most_waiting=2).result is TakenAs.QUEUED


def test_a_job_ends_once_and_its_cost_is_counted_once(store: Store) -> None:
    job = store.take(asked()).job or ""
    assert store.begin(job, "one")
    assert store.begin(job, "two")
    assert store.finish(job, JobState.DONE, gate_state="success", verdicts={"a": "pass"}, calls=3, cost_usd=0.25)
    assert not store.finish(job, JobState.FAILED, cost_usd=9.0)
    assert not store.begin(job, "three")
    found = store.job(job)
    assert found is not None
    assert (found.state, found.takeovers, found.verdicts, found.calls) == (JobState.DONE, 1, {"a": "pass"}, 3)
    assert (store.budget(1).spent_usd, store.budget(1).jobs) == (0.25, 1)
    assert not store.ask_to_cancel(job)


def test_a_part_has_one_result(store: Store) -> None:
    job = store.take(asked()).job or ""
    store.part_done(job, 1, {})
    store.part_done(job, 1, {"error": "late"})
    store.part_done(job, 2, {"error": "x"})
    assert store.parts(job) == {1: {}, 2: {"error": "x"}}
    found = store.job(job)
    assert found is not None
    assert found.shards_done == 2


def test_a_worker_that_was_buried_hears_of_it_and_one_that_lives_is_left_alone(tmp_path: Path) -> None:
    now = [1000.0]
    store = open_store(database_url(None, tmp_path), lambda: now[0])
    assert store.beat("old", host="h", pid=1)
    now[0] += 20
    assert store.beat("young", host="h", pid=2)
    now[0] += 20
    assert store.bury(30) == ["old"]
    assert not store.beat("old", host="h", pid=1)
    assert [one.id for one in store.workers()] == ["young"]
    assert store.bury(30) == ["old"]
    store.forget_worker("old")
    store.forget_worker("young")
    assert (store.bury(30), [one.id for one in store.workers()]) == ([], ["young"])
    store.close()


def test_a_sign_of_life_is_one_on_each_database(store: Store) -> None:
    assert store.beat("w", host="h", pid=1)
    assert store.beat("w", host="h", pid=1, draining=True)
    assert [one.draining for one in store.workers()] == [True]
    store.leave("w")
    assert not store.beat("w", host="h", pid=1)


def test_a_key_is_used_once(store: Store) -> None:
    assert store.once("jti", 2000.0)
    assert not store.once("jti", 2000.0)
    assert store.once("other\udcff", 2000.0)


def test_what_is_old_goes_and_what_is_young_or_under_way_stays(tmp_path: Path) -> None:
    now = [1000.0]
    store = open_store(database_url(None, tmp_path), lambda: now[0])
    jobs = []
    for number in (1, 2, 3):
        job = store.take(asked(number=number), f"d-{number}").job or ""
        store.keep_bundle(BundleRow(job, job, "0" * 64, 1, now[0]))
        store.say(job, "line", "words")
        jobs.append(job)
    store.finish(jobs[0], JobState.DONE)
    now[0] = 5000.0
    store.finish(jobs[1], JobState.DONE)
    assert [row.job for row in store.prune(3000.0)] == [jobs[0]]
    assert {job.id for job in store.jobs()} == set(jobs[1:])
    assert (store.bundle(jobs[0]), store.events(jobs[0])) == (None, [])
    assert store.bundle(jobs[1]) is not None
    store.close()


def test_many_at_once_make_one_job_a_head(store: Store) -> None:
    """The promise of the load bench, with threads in place of processes."""
    draw = random.Random(5)
    sends = [(number, f"d-{number}-{copy}") for number in range(12) for copy in range(6)]
    draw.shuffle(sends)
    start = threading.Barrier(8)

    def send(batch: list[tuple[int, str]]) -> list[TakenAs]:
        start.wait(30)
        return [store.take(asked(number=number), delivery).result for number, delivery in batch]

    with ThreadPoolExecutor(8) as pool:
        results = [one for batch in pool.map(send, [sends[index::8] for index in range(8)]) for one in batch]
    assert results.count(TakenAs.QUEUED) == 12
    assert results.count(TakenAs.DUPLICATE) == len(sends) - 12
    assert len(store.jobs(limit=100)) == 12


@pytest.mark.parametrize("url", ["mysql://x", "file.sqlite", "https://x"])
def test_another_database_is_refused_without_saying_its_password(url: str, tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match="postgresql://"):
        database_url(url, tmp_path)


def test_a_database_that_is_not_there_is_said_without_its_password(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match="cannot be used") as caught:
        open_store(database_url("postgresql://gate:hunter22@127.0.0.1:9/x", tmp_path))
    assert "hunter22" not in str(caught.value)


def test_processes_that_start_at_the_same_moment_make_the_tables_once(postgresql: str, tmp_path: Path) -> None:
    url = database_url(fresh_database(postgresql, f"store_{next(_numbers)}"), tmp_path)
    start = threading.Barrier(6)

    def make(number: int) -> bool:
        start.wait(30)
        store = open_store(url)
        alive = store.beat(f"w-{number}", host="h", pid=number)
        store.close()
        return alive

    with ThreadPoolExecutor(6) as pool:
        assert list(pool.map(make, range(6))) == [True] * 6
