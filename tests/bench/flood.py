"""What output costs: the gate's memory above idle while a sandbox prints 1 GB at it.

``python -m tests.bench.flood [--small]``. An agent runs commands that print without end, one after the other, until 1 GB
has gone through Layer 1 (a command is stopped at 64 MB; 17 of them are read, cut, recorded and sealed). Each variant runs
in a process of its own. The naive one asks the client library for the whole output of one command, as its examples do.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
import uuid
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from gate.adapters.docker_sandbox import DockerSandbox
from gate.domain.sandbox import BoxSpec
from tests.bench._figures import figure, last_line, table
from tests.bench._lifecycle import IMAGE
from tests.bench._memory import peak_above
from tests.bench._performance import write_table

NAME = "flood"
GOAL_MB = 64
GIGABYTE = 1_000_000_000


def gate(wanted: int) -> dict[str, Any]:
    """Layer 1 under flood."""
    from gate.adapters.docker_sandbox.streams import HARD_CAP_BYTES
    from tests.bench.overhead import run_all
    from tests.unit.execution.world import a_request

    count = -(-wanted // HARD_CAP_BYTES) + 1
    sandbox = DockerSandbox()
    with tempfile.TemporaryDirectory() as folder:
        run_all([a_request()], Path(folder) / "idle", sandbox=sandbox, jobs=1, turns=("true",))
        printed = 0
        flooding = DockerSandbox()
        with flooding.open(BoxSpec(session_id=f"flood-{uuid.uuid4().hex[:8]}", label="count", image=IMAGE)) as box:
            printed = box.exec(["yes"], timeout_s=60).stdout_bytes * count
        flooding.close()
        with peak_above() as memory:
            _, [record] = run_all(
                [a_request(steps=count + 2)], Path(folder) / "flood", sandbox=sandbox, jobs=1, turns=("yes",) * count
            )
    sandbox.close()
    return {"printed": printed, "megabytes": memory.megabytes, "completed": record.completed, "why": record.reason}


def naive(wanted: int) -> dict[str, Any]:
    """The client library's own way: everything in memory."""
    import docker

    client = docker.from_env(timeout=600)
    sandbox = DockerSandbox()
    with sandbox.open(BoxSpec(session_id=f"flood-{uuid.uuid4().hex[:8]}", label="naive", image=IMAGE)) as box:
        container = client.containers.get(box.facts().container)
        with peak_above() as memory:
            output: Any = container.exec_run(["head", "-c", str(wanted), "/dev/zero"]).output
    sandbox.close()
    client.close()
    return {"printed": len(output), "megabytes": memory.megabytes, "completed": True, "why": ""}


VARIANTS = {"gate": gate, "naive": naive}


def measure(variant: str, wanted: int) -> dict[str, Any] | None:
    """A variant in a process of its own; None where it failed (said)."""
    command = [sys.executable, "-m", f"tests.bench.{NAME}", "--variant", variant, str(wanted)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode == 0:
        found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
        if found["completed"] and found["printed"] >= wanted:
            return found
        print(f"not measured: {found}")
        return None
    print(f"not measured: {done.stderr[-1000:]}")
    return None


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the bench."""
    parser = argparse.ArgumentParser(prog=f"python -m tests.bench.{NAME}", description=__doc__)
    parser.add_argument("--small", action="store_true")
    parser.add_argument("--variant", nargs=2, help=argparse.SUPPRESS)
    given = parser.parse_args(arguments)
    if given.variant:
        print(json.dumps(VARIANTS[given.variant[0]](int(given.variant[1]))))
        return 0
    wanted = GIGABYTE // 10 if given.small else GIGABYTE
    ours, theirs = measure("gate", wanted), measure("naive", wanted)
    if ours is None or theirs is None:
        return 2
    rows = [[name, f"{found['printed'] / 1e6:,.0f}", f"{found['megabytes']:.1f}"] for name, found in (("gate", ours), ("naive", theirs))]  # fmt: skip
    head = ["variant", "MB printed", "MB above idle"]
    print(table(head, rows))
    if not given.small:
        write_table(NAME, "What output costs", (__doc__ or "").split("``. ", 1)[1], head, rows)
    print(last_line([figure(NAME, ours["megabytes"], "MB above idle", n=1, goal=f"<= {GOAL_MB}", ok=ours["megabytes"] <= GOAL_MB, baseline=theirs["megabytes"])]))  # fmt: skip
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
