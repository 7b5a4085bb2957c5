"""SIGKILL of the service and of workers in the middle of a job: it ends once, with the bytes of an undisturbed one."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from gate.service.store import Job, JobState
from tests.pipeline.action_stage import MAIN, Stage, stage
from tests.postgresql import cluster
from tests.scripted import generic
from tests.scripted.faults import Answer
from tests.scripted.values import Request
from tests.service_rig import Rig, Running, moments, rig

CASES = 3
IN_FLIGHT = 2
"""Answers that can be under way, or have come and not been written down, when a process dies: its sandboxes at a time."""
SUITE = {
    "skill_name": "sums",
    "evals": [
        {"id": number, "prompt": f"What is {number} and 2?", "expectations": ['The answer contains the word "Sums".']}
        for number in range(1, CASES + 1)
    ],
}


def slow(request: Request) -> Answer:
    """A model that takes a while, so that a kill finds it at work."""
    time.sleep(0.15)
    return generic.reader(request)


@contextmanager
def staged(folder: Path) -> Iterator[Stage]:
    main = {**MAIN, "skills/sums/evals/evals.json": json.dumps(SUITE)}
    with stage(folder, main=main, policy="mode: smoke\n", agent=slow) as here:
        yield here


@contextmanager
def undisturbed(here: Stage) -> Iterator[tuple[Job, dict[str, bytes], float, int]]:
    """(job, verdict files, seconds it took, requests to the model)."""
    with rig(here, "whole") as whole:
        service = whole.start()
        service.ready()
        began = time.monotonic()
        assert whole.send(service).value["result"] == "queued"
        (job,) = whole.until()
        length = time.monotonic() - began
        assert job.state is JobState.DONE, job
        yield job, whole.verdicts(job), length, len(here.server.requests)


def held_to(rig: Rig, job: Job, expected: tuple[Job, dict[str, bytes]], asked: int, allowed: int) -> None:
    """The same verdict, once, and nothing that had come paid for again."""
    first, files = expected
    assert (job.id, job.state, job.gate_state, job.verdicts) == (
        first.id,
        JobState.DONE,
        first.gate_state,
        first.verdicts,
    )
    assert rig.verdicts(job) == files
    assert asked <= allowed


@pytest.mark.timeout(280)
def test_a_service_that_is_killed_again_and_again_ends_its_job_once_with_the_same_bytes(tmp_path: Path) -> None:
    with staged(tmp_path) as here, undisturbed(here) as (first, files, length, asked):
        before = len(here.server.requests)
        with rig(here) as killed:
            service = killed.start()
            killed.send(service)
            kills = moments(2, length, seed=11)
            for moment in kills:
                time.sleep(moment / len(kills))
                service.kill()
                service = killed.start()
                assert killed.send(service, "d-1").value["result"] == "duplicate"
            (job,) = killed.until()
            held_to(killed, job, (first, files), len(here.server.requests) - before, asked + len(kills) * IN_FLIGHT)
            states = [state for state, _ in here.statuses()]
            assert states[-1] == "success"
            assert len(here.comments) == 1


@pytest.mark.timeout(280)
def test_on_postgresql_the_job_of_a_killed_worker_ends_elsewhere(tmp_path: Path) -> None:
    with cluster() as database, staged(tmp_path) as here, undisturbed(here) as (first, files, _, asked):
        before = len(here.server.requests)
        with rig(here, database=database) as shared:
            service = shared.start("serve", "--no-work")
            workers = [shared.start("worker"), shared.start("worker")]
            for worker in workers:
                worker.ready()
            assert shared.send(service).value["result"] == "queued"
            owner = _owner(shared, workers)
            _until_asked(here, before + asked // 3)
            owner.kill()
            (job,) = shared.until()
            held_to(shared, job, (first, files), len(here.server.requests) - before, asked + IN_FLIGHT)
            assert job.takeovers >= 1
            alive = next(worker for worker in workers if worker is not owner)
            assert any("took over" in line for line in [*alive.lines, *service.lines])


def _until_asked(here: Stage, requests: int) -> None:
    """Wait until the model has had so many requests: how fast a machine is decides nothing."""
    end = time.monotonic() + 120
    while len(here.server.requests) < requests:
        assert time.monotonic() < end, f"{len(here.server.requests)} of {requests} requests"
        time.sleep(0.02)


def _owner(shared: Rig, workers: list[Running]) -> Running:
    """The worker that has the job in hand."""
    end = time.monotonic() + 60
    while time.monotonic() < end:
        for job in shared.jobs():
            for worker in workers:
                if f":{worker.process.pid}:" in job.worker:
                    return worker
        time.sleep(0.05)
    raise AssertionError(shared.jobs())


def test_a_service_that_is_told_to_stop_puts_its_job_aside_and_goes_on_when_it_is_started_again(tmp_path: Path) -> None:
    with staged(tmp_path) as here, undisturbed(here) as (first, files, _, asked):
        before = len(here.server.requests)
        with rig(here) as stopped:
            service = stopped.start()
            stopped.send(service)
            _until_asked(here, before + asked // 3)
            assert service.stop() == 0, service.lines
            assert not stopped.jobs()[0].state.ended
            assert [state for state, _ in here.statuses()][-1] == "pending"
            again = stopped.start()
            again.ready()
            (job,) = stopped.until()
            # Whoever is told to stop waits for the answers under way and keeps them.
            held_to(stopped, job, (first, files), len(here.server.requests) - before, asked)
            assert os.listdir(stopped.data / "jobs") == []  # noqa: PTH208 - names only
