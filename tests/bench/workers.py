"""One job on one worker and on two: how much of the second one's time is of use.

``python -m tests.bench.workers [--small]``. A service on PostgreSQL that only takes jobs, and one or two workers on one
machine with one Docker engine; each runs one part of a job at a time. The model takes the same time for every answer, at
least 90 % of a run. The time is from the delivery to the end of the job, planning, merging and reporting included, with the
workers started before. Efficiency = (one worker) / (2 x two workers).
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

from gate.service.store import Job, JobState
from tests.bench._figures import figure, last_line, table
from tests.bench._performance import write_table
from tests.pipeline.action_stage import MAIN, stage
from tests.postgresql import cluster, fresh_database, programs
from tests.scripted.faults import Answer
from tests.scripted.generic import reader
from tests.scripted.judges import grader
from tests.scripted.values import Request
from tests.service_rig import rig

NAME = "workers"
GOAL = 0.9
ABOUT = (__doc__ or "").split("``. ", 1)[1]


def measure(cases: int, latency: float, folder: Path, *, docker_engine: bool) -> dict[int, tuple[float, Job]]:
    """Seconds and the job, by the number of workers."""

    def agent(request: Request) -> Answer:
        time.sleep(latency)
        return reader(request)

    def judge(request: Request) -> Answer:
        time.sleep(latency)
        return grader(request)

    evals = [
        {"id": number, "prompt": f"What is {number} and 2?", "expectations": ['The answer contains the word "Sums".']}
        for number in range(1, cases + 1)
    ]
    main = {**MAIN, "skills/sums/evals/evals.json": json.dumps({"skill_name": "sums", "evals": evals})}
    found: dict[int, tuple[float, Job]] = {}
    with cluster() as server, stage(folder, main=main, policy="mode: smoke\n", agent=agent, judge=judge) as here:
        for workers in (1, 2):
            database = fresh_database(server, f"workers_{workers}")
            with rig(here, f"data-{workers}", database=database, docker=docker_engine) as service:
                front = service.start("serve", "--no-work")
                for one in [service.start("worker") for _ in range(workers)]:
                    one.ready()
                front.ready()
                began = time.monotonic()
                service.send(front)
                (job,) = service.until(seconds=900)
                found[workers] = (time.monotonic() - began, job)
    return found


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the bench."""
    parser = argparse.ArgumentParser(prog=f"python -m tests.bench.{NAME}", description=__doc__)
    parser.add_argument("--small", action="store_true")
    small = parser.parse_args(sys.argv[1:] if arguments is None else arguments).small
    if programs() is None:
        print("not measured: PostgreSQL is not installed")
        return 2
    cases, latency = (4, 0.1) if small else (int(os.environ.get("GATE_BENCH_CASES", "32")), 3.0)
    with tempfile.TemporaryDirectory() as name:
        found = measure(cases, latency, Path(name), docker_engine=not small)
    if any(job.state is not JobState.DONE or job.gate_state != "success" for _, job in found.values()):
        print(f"not measured: {[(job.state.value, job.reason, job.headline) for _, job in found.values()]}")
        return 2
    (one, first), (two, second) = found[1], found[2]
    efficiency = one / (2 * two)
    rows = [[str(count), f"{seconds:.1f}", job.headline] for count, (seconds, job) in found.items()]
    print(table(["workers", "s", "result"], rows))
    if not small:
        write_table(NAME, "One worker and two", ABOUT, ["workers", "s", "result"], rows)
    same = first.verdicts == second.verdicts
    print(last_line([
        figure(NAME, round(efficiency, 3), "efficiency of 2 workers", n=cases, goal=f">= {GOAL}", ok=efficiency >= GOAL and same, baseline=0.5),
    ]))  # fmt: skip
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
