"""How well many runs are packed: wall time of Layer 1 over what no scheduler could beat on this machine.

``python -m tests.bench.makespan [--small]``. The model takes the same time for every answer. Two workloads:

- 200 runs, 8 at a time, whose model time is at least 90 % of a run. Bound: runs / 8 x (model time + one bare lifecycle of
  a container), the lifecycle measured in this very run.
- 60 trajectories (10 cases x 2 arms x 3 repeats), 3 calls of 200 ms, 8 at a time (research on peers, section 3): there the
  containers are what takes the time. Bound: the greater of the model's time and of as many bare lifecycles, 8 at a time.
  Memory is this process's peak above the imported program.

The naive variant beside them runs one after the other.
"""

from __future__ import annotations

import argparse
import json
import math
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from gate.adapters.docker_sandbox import DockerSandbox
from gate.domain.plan import Arm
from tests.bench._figures import figure, last_line, table
from tests.bench._lifecycle import PARTS, floor
from tests.bench._memory import peak_above
from tests.bench._performance import write_table
from tests.bench.overhead import bare_work, request, run_all

NAME = "makespan"
JOBS = 8
CALLS = 3
GOAL, GOAL_60, GOAL_MB = 1.05, 1.10, 100
SHARE = 0.9
ABOUT = (__doc__ or "").split("``. ", 1)[1]


def long_runs(count: int) -> dict[str, Any]:
    """The first workload: wall and bound in seconds."""
    sandbox = DockerSandbox(workers=JOBS)
    _, parts = floor(max(4, min(20, count // 2)), 1, both_arms=True, **bare_work())
    wholes = sorted(sum(item.values()) for item in parts)
    lifecycle = wholes[len(wholes) // 2]
    model = SHARE / (1 - SHARE) * lifecycle * 1.15
    requests = [request(run, arm, f"case-{run}") for run in range(1, count // 2 + 1) for arm in (Arm.WITH_SKILL, Arm.WITHOUT_SKILL)]  # fmt: skip
    with tempfile.TemporaryDirectory() as folder:
        wall, records = run_all(requests, Path(folder), sandbox=sandbox, jobs=JOBS, latency_s=model / CALLS)
    sandbox.close()
    unfinished = [record.reason for record in records if not record.completed]
    return {
        "wall": wall,
        "bound": math.ceil(count / JOBS) * (model + lifecycle),
        "serial": count * (model + lifecycle),
        "model": model,
        "lifecycle": lifecycle,
        "parts": {part: sum(item[part] for item in parts) / len(parts) for part in PARTS},
        "unfinished": unfinished,
    }


def short_runs(cases: int, repeats: int) -> dict[str, Any]:
    """The second workload. In a process of its own, so that memory is its own."""
    sandbox = DockerSandbox(workers=JOBS)
    requests = [
        request(run, arm, f"case-{case}")
        for case in range(1, cases + 1)
        for run in range(1, repeats + 1)
        for arm in (Arm.WITH_SKILL, Arm.WITHOUT_SKILL)
    ]
    with tempfile.TemporaryDirectory() as folder, peak_above() as memory:
        wall, records = run_all(requests, Path(folder), sandbox=sandbox, jobs=JOBS, latency_s=0.2)
    sandbox.close()
    model = math.ceil(len(requests) / JOBS) * CALLS * 0.2
    containers, _ = floor(len(requests), JOBS, both_arms=True, **bare_work())
    return {
        "runs": len(requests),
        "wall": wall,
        "model": model,
        "containers": containers,
        "bound": max(model, containers),
        "megabytes": memory.megabytes,
        "unfinished": [record.reason for record in records if not record.completed],
    }


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the bench."""
    parser = argparse.ArgumentParser(prog=f"python -m tests.bench.{NAME}", description=__doc__)
    parser.add_argument("--small", action="store_true")
    parser.add_argument("--short-runs", nargs=2, type=int, help=argparse.SUPPRESS)
    given = parser.parse_args(arguments)
    if given.short_runs:
        print(json.dumps(short_runs(*given.short_runs)))
        return 0
    count, cases, repeats = (8, 2, 1) if given.small else (200, 10, 3)
    command = [sys.executable, "-m", f"tests.bench.{NAME}", "--short-runs", str(cases), str(repeats)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        print(f"not measured: {done.stderr[-1000:]}")
        return 2
    short: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    long = long_runs(count)
    if long["unfinished"] or short["unfinished"]:
        print(f"not measured: {[*long['unfinished'], *short['unfinished']][0]}")
        return 2
    rows = [
        [f"{count} runs, model {long['model']:.1f} s each", f"{long['wall']:.1f}", f"{long['bound']:.1f}", f"{long['wall'] / long['bound']:.3f}", f"{long['serial']:.0f}"],
        [f"{short['runs']} trajectories, model 0.6 s each", f"{short['wall']:.1f}", f"{short['bound']:.1f}", f"{short['wall'] / short['bound']:.3f}", ""],
    ]  # fmt: skip
    head = ["workload, 8 at a time", "wall s", "bound s", "ratio", "one by one s"]
    print(table(head, rows))
    print("bare lifecycle, ms: " + ", ".join(f"{part} {1000 * value:.0f}" for part, value in long["parts"].items()))
    print(f"60 trajectories: model {short['model']:.1f} s, bare containers {short['containers']:.1f} s, {short['megabytes']:.0f} MB above the imported program")  # fmt: skip
    if not given.small:
        memory = f"The second one's process grew by {short['megabytes']:.0f} MB above the imported program."
        write_table(NAME, "How well many runs are packed", f"{ABOUT}\n\n{memory}", head, rows)
    ratio, ratio_60 = long["wall"] / long["bound"], short["wall"] / short["bound"]
    print(last_line([
        figure(NAME, long["wall"], f"s for {count} runs", n=count, goal=f"<= {GOAL} x the bound", ok=ratio <= GOAL, baseline=long["bound"]),
        figure(NAME, short["wall"], f"s for {short['runs']} trajectories", n=short["runs"], goal=f"<= {GOAL_60} x the bound", ok=ratio_60 <= GOAL_60, baseline=short["bound"]),
        figure(NAME, short["megabytes"], "MB above the imported program", n=short["runs"], goal=f"<= {GOAL_MB}", ok=short["megabytes"] <= GOAL_MB),
    ]))  # fmt: skip
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
