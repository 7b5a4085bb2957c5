"""What a run costs beside its model: wall time of an arm without the model, over the bare lifecycle of a container.

``python -m tests.bench.overhead [--small]``. Both have the same limits, files and commands, one after the other, in turns.
The model takes 0.2 s for each of its three answers, which are not counted. What the gate does beside the bare lifecycle is
the look from inside at what lies there (while the model thinks), the sentinel, the pause while the workspace is copied, and
the sealed record. One lifecycle without files and commands is measured beside it.
"""

from __future__ import annotations

import argparse
import statistics
import tempfile
import threading
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any
from uuid import uuid4

from gate.adapters.docker_sandbox import DockerSandbox
from gate.domain.chat import ChatReply, ChatRequest
from gate.domain.evidence import RunRecord
from gate.domain.plan import Arm, RunRequest
from gate.domain.seeding import SessionSeed
from gate.domain.suite import FixtureFile
from gate.evidence.bundle import Bundle
from gate.evidence.redact import Redactor
from gate.execution.arms import skill_files, skill_folder, workspace_files
from gate.execution.runner import execute
from gate.llm.roles import Models
from tests.bench._figures import figure, last_line, table
from tests.bench._lifecycle import IMAGE, PARTS, floor
from tests.bench._performance import write_table
from tests.builders_skill import a_case
from tests.fakes.chat import ScriptedChat, use
from tests.unit.execution.world import Lines, StillClock, a_ledger, a_request, sums_skill

NAME = "overhead"
GOAL = 1.15
LATENCY_S = 0.2
ABOUT = (__doc__ or "").split("``. ", 1)[1]
COMMANDS = ("cat data.csv", "echo 3 > sum.txt")
FILES = tuple(FixtureFile(path=path, data=b"1,2,3\n" * 200) for path in ("data.csv", "notes.md", "more/a.txt", "more/b.txt", "c"))  # fmt: skip


class WallClock(StillClock):
    """Real durations."""

    def monotonic_ms(self) -> int:
        return int(time.monotonic() * 1000)


def request(run: int = 1, arm: Arm = Arm.WITH_SKILL, eval_id: str = "one") -> RunRequest:
    """A run with five files and two commands."""
    return a_request(arm, run=run, case=a_case(eval_id, files=FILES))


def agent(latency_s: float = 0.0, turns: Sequence[str] = COMMANDS) -> Callable[[ChatRequest], str | ChatReply]:
    """A model that takes ``latency_s`` for every answer: the commands one by one, then the end."""

    def script(asked: ChatRequest) -> str | ChatReply:
        time.sleep(latency_s)
        number = int(asked.label.rpartition("-")[2]) - 1
        return use("bash", {"command": turns[number]}) if number < len(turns) else "The sum is 3."

    return script


def run_all(
    requests: Sequence[RunRequest],
    folder: Path,
    *,
    sandbox: DockerSandbox,
    jobs: int,
    latency_s: float = 0.0,
    turns: Sequence[str] = COMMANDS,
) -> tuple[float, list[RunRecord]]:
    """(wall seconds, records) of Layer 1."""
    began = time.perf_counter()
    records = execute(
        requests,
        session_id=f"bench-{uuid4().hex[:8]}",
        run_date="2026-01-31",
        image=sandbox.resolve_image(IMAGE),
        jobs=jobs,
        sandbox=sandbox,
        models=Models(lambda role: ScriptedChat(agent(latency_s, turns))),
        ledger=a_ledger(),
        bundle=Bundle(folder),
        redactor=Redactor({}),
        seed=SessionSeed("7" * 64),
        clock=WallClock(),
        progress=Lines(),
        cancelled=threading.Event(),
    )
    return time.perf_counter() - began, records


def bare_work() -> dict[str, Any]:
    """What the bare lifecycle gets: the same bytes and the same commands."""
    skill = sums_skill()
    folder = skill_folder(skill)
    files = [item.model_copy(update={"path": f"{folder}/{item.path}"}) for item in skill_files(skill)]
    return {
        "workspace": list(workspace_files(request().case, [skill]).files),
        "skill": files,
        "commands": [["bash", "-c", command] for command in COMMANDS],
    }


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the bench."""
    parser = argparse.ArgumentParser(prog=f"python -m tests.bench.{NAME}", description=__doc__)
    parser.add_argument("--small", action="store_true")
    count = 3 if parser.parse_args(arguments).small else 40
    sandbox = DockerSandbox()
    ours: list[float] = []
    theirs: list[dict[str, float]] = []
    with tempfile.TemporaryDirectory() as folder:
        run_all([request(run=1)], Path(folder) / "warm", sandbox=sandbox, jobs=1)
        for number in range(count):
            wall, [record] = run_all(
                [request(run=1)], Path(folder) / str(number), sandbox=sandbox, jobs=1, latency_s=LATENCY_S
            )
            if not record.completed:
                print(f"not measured: {record.reason}")
                return 2
            ours.append(wall - LATENCY_S * (len(COMMANDS) + 1))
            theirs += floor(1, 1, **bare_work())[1]
        empty = [sum(floor(1, 1, workspace=[], skill=[], commands=[])[1][0].values()) for _ in range(count)]
    sandbox.close()
    wholes = [sum(parts.values()) for parts in theirs]
    own, bare = statistics.median(ours), statistics.median(wholes)
    rows = [[part, f"{1000 * statistics.median(parts[part] for parts in theirs):.0f}"] for part in PARTS]
    rows += [
        ["bare lifecycle", f"{1000 * bare:.0f}"],
        ["bare, no files, no commands", f"{1000 * statistics.median(empty):.0f}"],
        ["run of the gate without model", f"{1000 * own:.0f}"],
    ]
    head = [f"part, median of {count}", "ms"]
    print(table(head, rows))
    ratio = own / bare
    if count > 3:
        text = f"{ABOUT}\n\nRatio to the bare lifecycle: {ratio:.2f} (goal: at most {GOAL})."
        write_table(NAME, "What a run costs beside its model", text, head, rows)
    print(last_line([figure(NAME, own, "s per run beside its model", n=count, goal=f"<= {GOAL} x the bare lifecycle", ok=ratio <= GOAL, baseline=bare)]))  # fmt: skip
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
