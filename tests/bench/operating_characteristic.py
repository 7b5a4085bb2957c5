"""J8: how often the production decision errs, over simulated changes and judges; the mean-threshold gate beside it.

``python -m tests.bench.operating_characteristic [--small] [--changes N] [--jobs N]``
"""

from __future__ import annotations

import argparse
import gc
from collections import Counter
from collections.abc import Iterable
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, field, replace
from typing import Any

from gate.audit.simulate import JUDGES, Change, Judge, World, simulate
from gate.domain.plan import Enforce
from gate.domain.report import State, Verdict
from tests.bench._figures import last_line, share, table
from tests.bench._trust import markdown_table, write_section

NAME = "operating_characteristic"
SIZES = (20, 4)
SEED = "operating characteristic 1"
WEAK = ("lenient .96/.25", "captured", "captured, spares controls and quotes")
"""Judges with a true fail rate under .6: no goal is set for rules that only they see."""
NOISES = (0.0, 0.0005, 0.002, 0.01)


@dataclass
class Cell:
    """What happened to the changes of one kind under one judge."""

    n: int = 0
    verdicts: Counter[Verdict] = field(default_factory=Counter)
    green: Counter[Enforce] = field(default_factory=Counter)
    mean: int = 0
    runs: int = 0

    def add(self, other: Cell) -> None:
        """Take another slice in."""
        self.n += other.n
        self.verdicts += other.verdicts
        self.green += other.green
        self.mean += other.mean
        self.runs += other.runs

    def rate(self, *verdicts: Verdict) -> float:
        """Share of these verdicts."""
        return sum(self.verdicts[item] for item in verdicts) / self.n


Job = tuple[Change, Judge, World, int, int]


def _slice(job: Job) -> tuple[Job, Cell]:
    change, judge, world, first, count = job
    cell = Cell()
    # Records hold no cycles; looking for some among a million shared values takes a third of the time.
    gc.disable()
    try:
        for result in simulate(change, judge, world, count=count, seed=SEED, first=first):
            cell.n += 1
            cell.verdicts[result.verdict] += 1
            cell.green += Counter({level: 1 for level, state in result.states.items() if state is State.SUCCESS})
            cell.mean += result.mean_passes
            cell.runs += result.runs
    finally:
        gc.enable()
    return job, cell


def measure(jobs: Iterable[Job], workers: int) -> dict[tuple[Change, str, World], Cell]:
    """Run slices, in as many processes as asked for."""
    cells: dict[tuple[Change, str, World], Cell] = {}
    listed = list(jobs)
    if workers == 1:
        results: Iterable[tuple[Job, Cell]] = map(_slice, listed)
    else:
        pool = ProcessPoolExecutor(workers)
        results = pool.map(_slice, listed)
    for (change, judge, world, _, _), cell in results:
        cells.setdefault((change, judge.name, world), Cell()).add(cell)
    return cells


def _slices(change: Change, judge: Judge, world: World, count: int) -> list[Job]:
    step = 500
    return [(change, judge, world, first, min(step, count - first)) for first in range(0, count, step)]


def percent(value: float) -> str:
    """A share for a table."""
    return f"{100 * value:.1f}"


HEAD = [
    "judge", "false PASS check", "false PASS sem.", "false FAIL", "INCONCL.", "COND.", "INVALID", "ERROR",
    "green check std", "green sem. std", "green sem. strict", "red clean std", "red clean strict", "mean: check", "mean: sem.", "runs/case",
]  # fmt: skip


def rows_of(cells: dict[tuple[Change, str, World], Cell], world: World) -> list[list[str]]:
    """One row a judge, per cent."""
    rows = []
    for judge in JUDGES:
        clean, checkable, semantic = (cells[change, judge.name, world] for change in Change)
        values = [
            checkable.rate(Verdict.PASS), semantic.rate(Verdict.PASS),
            *(clean.rate(v) for v in (Verdict.FAIL, Verdict.INCONCLUSIVE, Verdict.CONDITIONAL, Verdict.INVALID, Verdict.ERROR)),
            checkable.green[Enforce.STANDARD] / checkable.n,
            semantic.green[Enforce.STANDARD] / semantic.n, semantic.green[Enforce.STRICT] / semantic.n,
            1 - clean.green[Enforce.STANDARD] / clean.n, 1 - clean.green[Enforce.STRICT] / clean.n,
            checkable.mean / checkable.n, semantic.mean / semantic.n,
        ]  # fmt: skip
        rows.append([judge.name, *map(percent, values), f"{clean.runs / clean.n / world.cases:.1f}"])
    return rows


def figures(cells: dict[tuple[Change, str, World], Cell], world: World) -> list[dict[str, Any]]:
    """The four figures of J8 and the false green of the state, each for the worst judge that has a goal."""
    fair = [judge.name for judge in JUDGES if judge.name not in WEAK]
    everyone = [judge.name for judge in JUDGES]
    at = f"at {world.cases} cases"

    def worst(  # noqa: PLR0917 - one line a figure reads best below
        change: Change, names: list[str], count: Any, what: str, goal: str, at_most: float, mean: bool = False
    ) -> dict[str, Any]:
        name = max(names, key=lambda item: count(cells[change, item, world]) / cells[change, item, world].n)
        cell = cells[change, name, world]
        return share(
            NAME, count(cell), cell.n, f"{what} {at}, worst judge ({name})", goal=goal, at_most=at_most,
            baseline_hits=cell.mean if mean else None,
        )  # fmt: skip

    def verdict(value: Verdict) -> Any:
        return lambda cell: cell.verdicts[value]

    def green(level: Enforce) -> Any:
        return lambda cell: cell.green[level]

    said = "" if world.cases >= 20 else " (set for 20 cases; printed here as it is)"
    return [
        worst(Change.CHECKABLE, everyone, verdict(Verdict.PASS), "false PASS, checkable rule broken", f"<= 0.01{said}", 0.01, True),
        worst(Change.SEMANTIC, fair, verdict(Verdict.PASS), "false PASS, semantic rule broken, TNR >= .6", f"<= 0.05{said}", 0.05, True),
        worst(Change.CLEAN, everyone, verdict(Verdict.FAIL), "false FAIL", "<= 0.01", 0.01),
        worst(Change.CLEAN, everyone, verdict(Verdict.INCONCLUSIVE), "INCONCLUSIVE of clean changes", "<= 0.15", 0.15),
        worst(Change.CHECKABLE, everyone, green(Enforce.STANDARD), "green state, checkable rule broken, enforce standard", "printed", 1.0, True),
        worst(Change.CHECKABLE, everyone, green(Enforce.STRICT), "green state, checkable rule broken, enforce strict", "<= 0.01", 0.01, True),
        worst(Change.SEMANTIC, fair, green(Enforce.STANDARD), "green state, semantic rule broken, enforce standard", "printed", 1.0, True),
        worst(Change.SEMANTIC, fair, green(Enforce.STRICT), "green state, semantic rule broken, enforce strict", f"<= 0.05{said}", 0.05, True),
    ]  # fmt: skip


NOTES = """
Per cent of simulated changes, decided by the production code from per-run checks and grades (`gate/audit/simulate.py` says
what agents and judges are made up to be: 3 checks and 3 expectations a case, a broken rule touches 40 % of the cases and is
missed in 50 to 100 % of their runs, a good skill misses a rule in 0.05 % of its runs, half of a judge's errors repeat over
the runs of a case). "check": a rule that a check covers is broken; "sem.": one that only an expectation covers. The columns
false FAIL to ERROR are of clean changes. "green", "red": the state of the gate under `standard` and `strict`; `advisory` is
green always. "mean": the gate "mean pass rate >= .8" on the same with-runs lets this share of broken changes pass.

What it says: no judge, not even a captured one, turns a broken *check* green under `strict`; `standard` lets *inconclusive*
through by its own rule (DESIGN: text starts "inconclusive"). A captured judge that spares the controls and quotes real text
owns every rule that only it looks at: write checks for what must hold. A judge that wrongly fails 4 % of what holds makes
most clean changes of 20 cases *conditional*: `strict` is for suites whose expectations are few or checked.
"""


OTHER = """
"opened": an agent opens the skill in this share of its runs, else it works as without one. "brought along": this share of the
cases is in the head suite only, so that what base is held to are the others.
"""


def _suites(count: int, workers: int) -> tuple[list[str], list[list[str]]]:
    """The same decision where agents open the skill now and then only, and where a change brings cases along."""
    worlds = {
        "as above": World(),
        "opened in 90 %": World(opened=0.9),
        "opened in 60 %": World(opened=0.6),
        "half of the cases brought along": World(head_only=0.5),
        "all cases brought along": World(head_only=1.0),
        "half brought along, opened in 90 %": World(head_only=0.5, opened=0.9),
    }
    judge = JUDGES[1]
    cells = measure(
        [job for world in worlds.values() for change in Change for job in _slices(change, judge, world, count)], workers
    )
    head = [
        "20 cases, judge lenient .96/.90", "false PASS check", "false PASS sem.", "false FAIL", "INCONCL.", "COND.",
        "green check std", "red clean std", "runs/case",
    ]  # fmt: skip
    rows = []
    for name, world in worlds.items():
        clean, checkable, semantic = (cells[change, judge.name, world] for change in Change)
        values = [
            checkable.rate(Verdict.PASS), semantic.rate(Verdict.PASS),
            *(clean.rate(verdict) for verdict in (Verdict.FAIL, Verdict.INCONCLUSIVE, Verdict.CONDITIONAL)),
            checkable.green[Enforce.STANDARD] / checkable.n, 1 - clean.green[Enforce.STANDARD] / clean.n,
        ]  # fmt: skip
        rows.append([name, *map(percent, values), f"{clean.runs / clean.n / world.cases:.1f}"])
    return head, rows


def main(arguments: list[str] | None = None) -> int:
    """Run the bench."""
    parser = argparse.ArgumentParser(prog=f"python -m tests.bench.{NAME}", description=__doc__)
    parser.add_argument("--small", action="store_true", help="500 changes over all cells, nothing written")
    parser.add_argument("--changes", type=int, help="changes per judge over all cells (default 10,000)")
    parser.add_argument("--jobs", type=int, default=2)
    options = parser.parse_args(arguments)
    total = options.changes or (500 // len(JUDGES) if options.small else 10_000)
    per_cell = max(1, -(-total // (len(SIZES) * len(Change))))
    worlds = [World(cases=size) for size in SIZES]
    jobs = [
        job
        for world in worlds
        for change in Change
        for judge in JUDGES
        for job in _slices(change, judge, world, per_cell)
    ]
    cells = measure(jobs, 1 if options.small else options.jobs)
    document, found = [], []
    for world in worlds:
        rows = rows_of(cells, world)
        title = f"{world.cases} cases; {per_cell} changes of each kind under each judge; per cent"
        print(f"\n{title}\n{table(HEAD, rows)}")
        document.append(f"### {title}\n\n{markdown_table(HEAD, rows)}\n\n{_let_through(cells, world)}")
        found += figures(cells, world)
    noisy = _noise(per_cell, 1 if options.small else options.jobs)
    print(f"\nINCONCLUSIVE of clean changes by the agent's own misses, oracle judge; per cent\n{table(*noisy)}")
    document.append(
        "### An agent's own misses, oracle judge: INCONCLUSIVE of clean changes, per cent\n\n" + markdown_table(*noisy)
    )
    suites = _suites(max(1, per_cell // 4), 1 if options.small else options.jobs)
    print(f"\nOther suites, 20 cases; per cent\n{table(*suites)}")
    document.append(f"### Other suites and agents, 20 cases; per cent\n\n{OTHER}\n\n{markdown_table(*suites)}")
    if not options.small:
        write_section(NAME, "What the decision gets wrong (J8)", NOTES + "\n\n" + "\n\n".join(document))
    print(last_line(found))
    return 0


def _let_through(cells: dict[tuple[Change, str, World], Cell], world: World) -> str:
    """What stays green under ``standard`` although a check is broken, and why, in one sentence."""
    found = [cells[Change.CHECKABLE, judge.name, world] for judge in JUDGES if judge.name != "captured"]
    green = [cell.green[Enforce.STANDARD] / cell.n for cell in found]
    passed = [cell.rate(Verdict.PASS) for cell in found]
    unsure = [cell.rate(Verdict.INCONCLUSIVE) for cell in found]
    return (
        f"With {world.cases} cases, `standard` leaves {percent(min(green))} to {percent(max(green))} % of changes that broke a "
        f"*checked* rule green: {percent(min(unsure))} to {percent(max(unsure))} % are *inconclusive* (the rule held in some runs "
        f"and failed in others, also after filling up; the status says so in its first word), {percent(min(passed))} to "
        f"{percent(max(passed))} % a *pass* (it happened to hold in all of them). `strict` refuses what is inconclusive."
    )


def _noise(count: int, workers: int) -> tuple[list[str], list[list[str]]]:
    worlds = {(size, miss): replace(World(cases=size), miss=miss) for size in SIZES for miss in NOISES}
    cells = measure(
        [job for world in worlds.values() for job in _slices(Change.CLEAN, JUDGES[0], world, count)], workers
    )
    head = ["a good skill misses a rule in", *(f"{100 * miss:g} % of runs" for miss in NOISES)]
    rows = [
        [f"{size} cases", *(percent(cells[Change.CLEAN, JUDGES[0].name, worlds[size, miss]].rate(Verdict.INCONCLUSIVE)) for miss in NOISES)]
        for size in SIZES
    ]  # fmt: skip
    return head, rows


if __name__ == "__main__":
    raise SystemExit(main())
