"""SIGKILL of the service and of its workers at random moments: what becomes of the job, of what was paid, of the sandboxes.

``python -m tests.bench.service_kill [--small]``. One job on PostgreSQL with two workers on one Docker engine, and on SQLite
with the service alone. Each round kills one process at a moment drawn from the length of an undisturbed job and starts it
anew. A round is right where the job ended once, with the verdict bytes of the undisturbed one. A reply is paid twice where a
request comes again word for word although its answer had been sent a second or more before the process died; what was under
way at that moment nobody can keep. In the end, one pass of the reaper later, no labelled container or volume may be left.
Naive variant beside it: the same kills of a job that keeps no journal, which pays everything again that came before.
"""

from __future__ import annotations

import argparse
import json
import random
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import docker

from gate.adapters.docker_sandbox import DockerSandbox
from gate.service.store import Job, JobState
from tests.bench._figures import figure, last_line, table
from tests.bench._performance import write_table
from tests.pipeline.action_stage import MAIN, Stage, stage
from tests.postgresql import cluster, fresh_database, programs
from tests.scripted.faults import Answer
from tests.scripted.generic import reader
from tests.scripted.judges import grader
from tests.scripted.values import Request
from tests.service_rig import Rig, Running, rig

NAME = "service_kill"
SEED = 20260202
CASES = 4
SURE_S = 1.0
"""After this long an answer that was sent has been written down."""
ABOUT = (__doc__ or "").split("``. ", 1)[1]


@dataclass
class Model:
    """A scripted model that takes its time, and knows when it answered what."""

    pace: float
    answered: list[tuple[float, float, str]] = field(default_factory=list)
    """When a request came, when it was answered, its digest."""
    asked: dict[str, str] = field(default_factory=dict)
    """What a request is about, by its digest."""

    def agent(self, request: Request) -> Answer:
        """The agent of a run."""
        return self._slowly(request, reader)

    def judge(self, request: Request) -> Answer:
        """The grader."""
        return self._slowly(request, grader)

    def _slowly(self, request: Request, step: Any) -> Answer:
        came = time.monotonic()
        time.sleep(self.pace)
        answer: Answer = step(request) if callable(step) else step
        self.asked[request.digest] = f"{request.system[:60]!r}, {request.last.text[:60]!r}"
        self.answered.append((came, time.monotonic(), request.digest))
        return answer

    def paid_twice(self, kills: Sequence[float], since: int) -> tuple[int, int, int]:
        """(answers, that came again, that came again although they were surely written down) from ``since`` on."""
        first: dict[str, tuple[float, float]] = {}
        again = sure = 0
        for came, answered, digest in self.answered[since:]:
            if digest not in first:
                first[digest] = (came, answered)
                continue
            again += 1
            began, ended = first[digest]
            # What was under way when the process died, or had come a moment before, nobody could keep.
            if not any(began <= kill <= ended + SURE_S for kill in kills):
                sure += 1
                late = ", ".join(f"{kill - ended:.1f} s" for kill in kills)
                print(
                    f"paid twice: {self.asked[digest]}, killed {late} after its answer, asked again {came - ended:.1f} s after it"
                )
        return len(self.answered) - since, again, sure


@dataclass
class Count:
    """What all rounds came to."""

    rounds: int = 0
    killed: int = 0
    wrong: list[str] = field(default_factory=list)
    again: int = 0
    twice: int = 0
    naive: int = 0
    left: int = 0


@contextmanager
def staged(folder: Path, model: Model) -> Iterator[Stage]:
    """A pull request with a skill of several cases."""
    evals = [
        {"id": number, "prompt": f"What is {number} and 2?", "expectations": ['The answer contains the word "Sums".']}
        for number in range(1, CASES + 1)
    ]
    main = {**MAIN, "skills/sums/evals/evals.json": json.dumps({"skill_name": "sums", "evals": evals})}
    with stage(folder, main=main, policy="mode: smoke\n", agent=model.agent, judge=model.judge) as here:
        yield here


def started(service: Rig) -> list[Running]:
    """The processes of a service: one alone, or one that only takes and two that only work."""
    if service.database is None:
        made = [service.start()]
    else:
        made = [service.start("serve", "--no-work"), service.start("worker"), service.start("worker")]
    for one in made:
        one.ready()
    return made


def again(service: Rig, running: Running) -> Running:
    """A process like this one in its place."""
    arguments = running.process.args
    assert isinstance(arguments, list)
    made = service.start("worker") if "worker" in arguments else service.start(*_serve(service))
    made.ready()
    return made


def _serve(service: Rig) -> tuple[str, ...]:
    return ("serve",) if service.database is None else ("serve", "--no-work")


def one_round(service: Rig, moment: float, draw: random.Random, count: Count) -> tuple[Job, float]:
    """One job with one kill; returns it and when the kill was."""
    processes = started(service)
    service.send(processes[0])
    time.sleep(moment)
    victim = draw.choice(processes[1:] or processes)
    victim.kill()
    killed = time.monotonic()
    count.killed += 1
    again(service, victim)
    (job,) = service.until(seconds=240)
    service.close()
    return job, killed


def leavings(client: docker.DockerClient) -> int:
    """Labelled containers in any state, and volumes."""
    label = {"label": "gate.owner"}
    volumes = client.api.volumes(filters=label)["Volumes"] or []
    return len(client.api.containers(all=True, filters=label)) + len(volumes)


def measure(rounds: int, pace: float, folder: Path, *, docker_engine: bool) -> Count:
    """All rounds, on both databases where PostgreSQL is installed."""
    draw, count, model = random.Random(SEED), Count(), Model(pace)
    with staged(folder, model) as here, cluster() if programs() else nullcontext("") as server:
        with rig(here, "whole", docker=docker_engine) as whole:
            (front,) = started(whole)
            began = time.monotonic()
            whole.send(front)
            (first,) = whole.until(seconds=240)
            if first.state is not JobState.DONE:
                raise RuntimeError(f"the undisturbed job ended as {first.state.value}: {first.reason}")
            length, files = time.monotonic() - began, whole.verdicts(first)
        for number in range(rounds):
            database = fresh_database(server, f"round_{number}") if server and number % 2 == 0 else None
            with rig(here, f"round-{number}", database=database, docker=docker_engine) as service:
                since = len(model.answered)
                # One moment from each equal part of a job's life, so that no part is spared.
                moment = length * (number + draw.random()) / rounds
                job, killed = one_round(service, moment, draw, count)
                _, repeated, twice = model.paid_twice([killed], since)
                count.rounds += 1
                count.again += repeated
                count.twice += twice
                count.naive += sum(at <= killed - SURE_S for _, at, _ in model.answered[since:])
                if (job.state, job.verdicts) != (JobState.DONE, first.verdicts) or service.verdicts(job) != files:
                    count.wrong.append(f"round {number}: {job.state} {job.reason}")
    return count


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the bench."""
    parser = argparse.ArgumentParser(prog=f"python -m tests.bench.{NAME}", description=__doc__)
    parser.add_argument("--small", action="store_true")
    small = parser.parse_args(sys.argv[1:] if arguments is None else arguments).small
    rounds = 2 if small else 20
    client = docker.from_env(timeout=60)
    before = leavings(client)
    with tempfile.TemporaryDirectory() as name:
        try:
            count = measure(rounds, 0.2 if small else 0.4, Path(name), docker_engine=True)
        except RuntimeError as error:
            print(f"not measured: {error}")
            return 2
    reaper = DockerSandbox()
    reaper.reap()
    reaper.close()
    count.left = max(0, leavings(client) - before)
    client.close()
    rows = [
        ["jobs with a kill", str(count.rounds)],
        ["of them not ended once with the same bytes", str(len(count.wrong))],
        ["requests that came again", str(count.again)],
        ["of them answered a second or more before the kill", str(count.twice)],
        ["answers that a job without a journal would pay again", str(count.naive)],
        ["labelled objects left after one pass of the reaper", str(count.left)],
    ]
    print(table(["", "count"], rows))
    for line in count.wrong:
        print(f"wrong: {line}")
    if not count.naive:
        print("not measured: no job was killed after it had paid for something")
        return 2
    if not small:
        write_table(NAME, "A service and its workers that are killed", ABOUT, [f"{rounds} kills", "count"], rows)
    print(last_line([
        figure(NAME, len(count.wrong), "jobs that did not end once with the verdict bytes of an undisturbed one", n=count.rounds, goal="0", ok=not count.wrong),
        figure(NAME, count.twice, "replies paid twice", n=count.killed, goal="0", ok=not count.twice, baseline=float(count.naive)),
        figure(NAME, count.left, "labelled objects left", n=count.killed, goal="0", ok=not count.left),
    ]))  # fmt: skip
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
