"""How well a session is cut for a job matrix: wall time of one shard over that of two and four, and what the merge lets pass.

``python -m tests.bench.shards [--small]``. Each shard is a process of its own, one after the other, since a matrix gives each
a machine of its own; what counts is the longest one plus the merge. Efficiency = (one shard + merge) / (n x (longest of n +
merge)). Sandboxes are in memory, so that the engine's floor is not reached, and the model takes the same time for every
answer: at least 90 % of a run.

Then each shard of four is once left out and once changed by one byte. The naive variant takes the mean over what is there.
"""

from __future__ import annotations

import argparse
import contextlib
import io
import json
import os
import shutil
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterable, MutableMapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

from gate.cli import main as run_command
from gate.wiring import bind
from tests.bench._figures import figure, going, last_line, share, table
from tests.bench._performance import write_table
from tests.bench.cost import agent, repository
from tests.fakes.sandbox import ScriptedSandbox
from tests.scripted.faults import Answer
from tests.scripted.generic import scenario
from tests.scripted.server import ScriptedServer
from tests.scripted.values import Request
from tests.story import gate_environment, make_repository
from tests.unit.execution.world import shell

NAME = "shards"
GOAL, SHARE = 0.9, 0.9
COUNTS = (1, 2, 4)
JOBS = 4
SEED = "7" * 64
LATENCY_S = 2.0
"""About what a model takes for a short answer. A session asks each model once whether it is there before it runs anything."""
ABOUT = (__doc__ or "").split("``. ", 1)[1]


class Cut(NamedTuple):
    """A session in one number of shards."""

    longest: float
    merge: float
    folders: tuple[Path, ...]
    merged: Path
    state: str

    @property
    def path(self) -> float:
        """Seconds that nobody can save: the longest shard, then the merge."""
        return self.longest + self.merge


class Stage:
    """A repository, a model that takes its time, and the command; ``own_process``: as a machine of its own would run it."""

    def __init__(self, folder: Path, server: ScriptedServer, cases: int, *, own_process: bool) -> None:
        self.own_process = own_process
        self.folder = folder
        self.repository = make_repository(
            folder / "repository", *repository("text_generation", ("happy_path",) * cases)
        )
        self.session = (
            "--repository", str(self.repository), "--base", "main", "--seed", SEED, "--jobs", str(JOBS),
            "--model", f"openai@{server.openai_url}:agent", "--judge-model", f"openai@{server.openai_url}:judge",
        )  # fmt: skip
        self.plan = folder / "plan.json"

    def command(self, *arguments: str, may_fail: bool = False) -> float:
        """One command; its wall time in seconds. Raises RuntimeError where it fails."""
        began = time.monotonic()
        if self.own_process:
            done = subprocess.run(
                [sys.executable, "-m", f"tests.bench.{NAME}", "--command", *arguments],
                env=gate_environment(OPENAI_API_KEY="key"),
                capture_output=True,
                text=True,
                check=False,
            )
            code, said = done.returncode, done.stderr
        else:
            log: list[str] = []
            with contextlib.redirect_stdout(io.StringIO()):  # the matrix of a plan
                code = _command(arguments, {"OPENAI_API_KEY": "key"}, log.append)
            said = "\n".join(log)
        if code and not may_fail:
            raise RuntimeError(said[-1000:])
        return time.monotonic() - began

    def whole(self) -> Path:
        """The session in one piece."""
        going(NAME, "the session in one piece")
        out = self.folder / "whole"
        self.command("run", *self.session, "--out", str(out), "--no-cache")
        return out

    def cut(self, count: int) -> Cut:
        """The session in ``count`` shards, merged."""
        longest, folders = 0.0, []
        for number in range(1, count + 1):
            going(NAME, f"shard {number} of {count}")
            out = self.folder / f"shard-{number}-of-{count}"
            arguments = ("--plan", str(self.plan), "--shard", f"{number}/{count}", "--out", str(out))
            longest = max(longest, self.command("run", *arguments, "--jobs", str(JOBS), "--no-cache"))
            folders.append(out)
        merged = self.folder / f"merged-{count}"
        seconds = self.merge(folders, merged)
        return Cut(longest, seconds, tuple(folders), merged, state(merged))

    def merge(self, folders: Iterable[Path], out: Path) -> float:
        """Merge; wall time in seconds."""
        parts = tuple(map(str, folders))
        return self.command("merge", *parts, "--plan", str(self.plan), "--out", str(out), "--no-cache", may_fail=True)


def state(bundle: Path) -> str:
    """What the merged session says."""
    found: str = json.loads((bundle / "report.json").read_text(encoding="utf-8"))["state"]
    return found


def verdict_bytes(bundle: Path) -> dict[str, bytes]:
    """gate-result.json of every skill."""
    return {path.parent.name: path.read_bytes() for path in bundle.glob("skills/*/gate-result.json")}


def model_share(bundle: Path) -> float:
    """How much of its runs' time the model took, at the median run."""
    shares: list[float] = []
    for path in bundle.glob("skills/*/*/run-*/*/timing.json"):
        timing = json.loads(path.read_text(encoding="utf-8"))
        shares.append(timing["model_ms"] / max(1, timing["duration_ms"]))
    return sorted(shares)[len(shares) // 2]


def mean_says_yes(folders: Iterable[Path]) -> bool:
    """The naive merge: the share of passed checks over whatever folders are there, seals unread."""
    passed = total = 0
    for folder in folders:
        for path in folder.glob("skills/*/*/run-*/with_skill/checks.json"):
            summary = json.loads(path.read_text(encoding="utf-8"))["summary"]
            passed, total = passed + summary["passed"], total + summary["total"]
    return total > 0 and passed / total >= 0.8


def spoiled(stage: Stage, cut: Cut) -> tuple[list[str], int]:
    """States of merges with one shard lost or one byte changed, and how many of them the naive merge lets pass."""
    states, naive = [], 0
    for index, folder in enumerate(cut.folders):
        going(NAME, f"shard {index + 1} of {len(cut.folders)} left out, then changed")
        left = [other for other in cut.folders if other != folder]
        changed = stage.folder / f"changed-{index}"
        shutil.copytree(folder, changed)
        response = next(changed.glob("skills/*/*/*/*/outputs/response.md"))
        data = bytearray(response.read_bytes())
        data[0] ^= 1
        response.write_bytes(bytes(data))
        for what, folders in (("lost", left), ("changed", [*left, changed])):
            out = stage.folder / f"{what}-{index}-merged"
            stage.merge(folders, out)
            (skill,) = json.loads((out / "report.json").read_text(encoding="utf-8"))["skills"]
            states.append(f"{what}: {skill['verdict']}, {state(out)}")
            naive += mean_says_yes(folders)
    return states, naive


def measure(cases: int, latency: float, counts: Sequence[int], *, own_process: bool) -> dict[str, Any]:
    """Everything, as rows and figures. Raises RuntimeError where a command fails."""

    def slow(request: Request) -> Answer:
        time.sleep(pace[0])
        return answer(request)

    answer, pace = scenario(agent=agent), [0.0]
    with tempfile.TemporaryDirectory() as name, ScriptedServer(slow) as server:
        stage = Stage(Path(name), server, cases, own_process=own_process)
        whole = stage.whole()  # for its verdict, which no model's pace changes
        pace[0] = latency
        planning = stage.command("plan", *stage.session, "--out", str(stage.plan), "--shards", str(max(counts)))
        cuts = {count: stage.cut(count) for count in counts}
        equal = all(verdict_bytes(cut.merged) == verdict_bytes(whole) for cut in cuts.values())
        states, naive = spoiled(stage, cuts[max(counts)])
        return {
            "whole": state(whole),
            "planning": planning,
            "cuts": cuts,
            "equal": equal,
            "model_share": model_share(cuts[1].folders[0]),
            "states": states,
            "naive": naive,
        }


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the bench."""
    given = list(sys.argv[1:] if arguments is None else arguments)
    if given[:1] == ["--command"]:
        return _command(given[1:], os.environ, lambda text: print(text, file=sys.stderr))
    parser = argparse.ArgumentParser(prog=f"python -m tests.bench.{NAME}", description=__doc__)
    parser.add_argument("--small", action="store_true")
    small = parser.parse_args(given).small
    cases, latency, counts = (2, 0.1, (1, 2)) if small else (32, LATENCY_S, COUNTS)
    try:
        found = measure(cases, latency, counts, own_process=not small)
    except RuntimeError as error:
        print(f"not measured: {error}")
        return 2
    if found["whole"] != "success":
        print(f"not measured: the session in one piece ended as {found['whole']}")
        return 2
    cuts: dict[int, Cut] = found["cuts"]
    one = cuts[counts[0]].path
    efficiency = {count: one / (count * cut.path) for count, cut in cuts.items()}
    rows = [
        [str(count), f"{cut.longest:.1f}", f"{cut.merge:.1f}", f"{cut.path:.1f}", f"{efficiency[count]:.3f}", cut.state]
        for count, cut in cuts.items()
    ]
    head = ["shards", "longest s", "merge s", "together s", "efficiency", "state"]
    more = (
        f"{cases} cases; the model took {100 * found['model_share']:.0f} % of a run. Planning, which comes before, took"
        f" {found['planning']:.1f} s."
    )
    print(table(head, rows))
    print(more)
    print("; ".join(found["states"]))
    if not small:
        write_table(NAME, "How well a session is cut for a job matrix", f"{ABOUT}\n\n{more}", head, rows)
    last = efficiency[max(counts)]
    wrong = sum(text not in ("lost: error, error", "changed: invalid, failure") for text in found["states"])
    measured = found["model_share"] >= SHARE
    print(last_line([
        figure(NAME, last, f"efficiency of {max(counts)} shards", n=cases, goal=f">= {GOAL}, model >= {SHARE} of a run", ok=last >= GOAL and measured),
        figure(NAME, int(not found["equal"]), "numbers of shards with other verdict bytes than the whole", n=len(counts), goal="0", ok=found["equal"]),
        share(NAME, wrong, len(found["states"]), "lost or changed shards that are not named as such", goal="0", at_most=0, baseline_hits=found["naive"]),
    ]))  # fmt: skip
    return 0


def _command(arguments: Sequence[str], environ: MutableMapping[str, str], say: Callable[[str], None]) -> int:
    """The command line with sandboxes in memory."""
    with ScriptedSandbox(shell()) as sandbox:
        app = bind(environ, threading.Event())
        return run_command(replace(app, make_sandbox=lambda: sandbox, say=say), list(arguments))


if __name__ == "__main__":
    raise SystemExit(main())
