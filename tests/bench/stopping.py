"""J10: looking after every run. The sequential tests under peeking, and the scheduler (2/1/1, filled to 3/3/3) against
fixed runs.

``python -m tests.bench.stopping [--small]``
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from random import Random
from typing import Any

from gate.audit.simulate import JUDGES, Change, World, simulate
from gate.domain.plan import Mode
from gate.domain.report import Verdict
from gate.planning.modes import RULES
from gate.statistics import Sprt, sign_test, wealth
from tests.bench._figures import figure, last_line, share, table
from tests.bench._trust import markdown_table, write_section

NAME = "stopping"
FIXED = 24
"""Runs of the fixed test of .7 against .95 at errors of .05 (judging.md 5.4)."""
GOOD, BAD, GROSS = 0.95, 0.7, 0.3


def peeking(repeats: int, rng: Random, most: int = 200) -> tuple[int, int]:
    """(false rejections by wealth >= 20, by the exact sign test at .05) where both sides are equal, looked at each case."""
    by_wealth = by_test = 0
    for _ in range(repeats):
        outcomes = [rng.choice((1, -1)) for _ in range(most)]
        by_wealth += any(value >= 20 for value in wealth(outcomes))
        won = 0
        for number, outcome in enumerate(outcomes[:30], start=1):
            won += outcome > 0
            if number >= 5 and sign_test(won, number - won) <= 0.05:
                by_test += 1
                break
    return by_wealth, by_test


def sprt(rate: float, repeats: int, rng: Random) -> tuple[dict[bool | None, int], list[int]]:
    """How the sequential test ended at a true rate, and after how many runs."""
    ends: dict[bool | None, int] = {True: 0, False: 0, None: 0}
    lengths = []
    for _ in range(repeats):
        said, used = Sprt(GOOD, BAD).decide([rng.random() < rate for _ in range(60)])
        ends[said] += 1
        lengths.append(used)
    return ends, sorted(lengths)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the bench."""
    parser = argparse.ArgumentParser(prog=f"python -m tests.bench.{NAME}", description=__doc__)
    parser.add_argument("--small", action="store_true")
    small = parser.parse_args(arguments).small
    repeats, rng = (300 if small else 20_000), Random(10)
    by_wealth, by_test = peeking(repeats, rng)
    rows, figures = [], [
        share(NAME, by_wealth, repeats, "type I error of the e-process, looked at after every case", goal="<= 0.05",
              at_most=0.05, baseline_hits=by_test),
    ]  # fmt: skip
    mean_runs = {}
    for name, rate in (("good", GOOD), ("bad", BAD), ("grossly broken", GROSS)):
        ends, lengths = sprt(rate, repeats, rng)
        mean_runs[name] = sum(lengths) / repeats
        rows.append([f"{name} (p = {rate:g})", f"{ends[True] / repeats:.3f}", f"{ends[False] / repeats:.3f}", f"{ends[None] / repeats:.3f}",
                     f"{mean_runs[name]:.1f}", str(lengths[len(lengths) // 2]), str(lengths[int(0.95 * len(lengths))])])  # fmt: skip
        if name == "good":
            figures.append(share(NAME, ends[False], repeats, "good skills that the sequential test calls bad", goal="<= 0.05 (Wald's bound: alpha / (1 - beta))", at_most=0.0527))  # fmt: skip
        if name == "grossly broken":
            late = sum(length > 4 for length in lengths)
            figures.append(share(NAME, late, repeats, "grossly broken skills not stopped by run 4", goal="<= 0.5 (the median stops)", at_most=0.5))  # fmt: skip
    saved = (mean_runs["good"] + mean_runs["bad"]) / 2 / FIXED
    figures.append(figure(NAME, saved, f"runs of the sequential test over a fixed {FIXED}", n=2 * repeats, goal="<= 0.6", ok=saved <= 0.6, baseline=1.0))  # fmt: skip
    count = 4 if small else 1000
    schedule: dict[Mode, dict[str, Any]] = {}
    for mode in (Mode.STANDARD, Mode.FULL):
        world = World(mode=mode)
        found = {change: list(simulate(change, JUDGES[1], world, count=count, seed=NAME)) for change in Change}
        schedule[mode] = {
            "runs": sum(item.runs for item in found[Change.CLEAN]) / count / world.cases,
            "false FAIL": sum(item.verdict is Verdict.FAIL for item in found[Change.CLEAN]),
            "false PASS": sum(item.verdict is Verdict.PASS for c in (Change.CHECKABLE, Change.SEMANTIC) for item in found[c]),
        }  # fmt: skip
    plan_rows = [
        [mode.value, f"{row['runs']:.2f}", f"{row['false FAIL'] / count:.4f}", f"{row['false PASS'] / 2 / count:.4f}"]
        for mode, row in schedule.items()
    ]
    part = schedule[Mode.STANDARD]["runs"] / schedule[Mode.FULL]["runs"]
    figures += [
        figure(NAME, part, "runs of standard (2/1/1, filled to 3/3/3) over full (3/3/3), clean changes", n=count, goal="<= 0.6", ok=part <= 0.6, baseline=1.0),
        share(NAME, schedule[Mode.STANDARD]["false FAIL"], count, "false FAIL of standard; baseline: full", goal="<= 0.01", at_most=0.01, baseline_hits=schedule[Mode.FULL]["false FAIL"]),
        share(NAME, schedule[Mode.STANDARD]["false PASS"], 2 * count, "false PASS of standard; baseline: full", goal="<= 0.01", at_most=0.01, baseline_hits=schedule[Mode.FULL]["false PASS"]),
    ]  # fmt: skip
    broken = World(gross=True, strength=(1.0, 1.0))
    gross = list(simulate(Change.CLEAN, JUDGES[0], broken, count=count // 4, seed=NAME))
    full_size = 3 * (RULES[Mode.STANDARD].fill or 0) + 3
    spent = sum(item.runs for item in gross) / len(gross) / broken.cases
    with_runs = sum(item.with_runs for item in gross) / len(gross) / broken.cases
    let_through = sum(item.verdict is Verdict.PASS for item in gross) / len(gross)
    plan_rows.append(["standard, grossly broken, oracle", f"{spent:.2f}", "-", f"{let_through:.4f}"])
    figures += [
        figure(NAME, spent / full_size, f"runs of standard on a grossly broken skill over the {full_size} of a case that is filled up and confirmed", n=len(gross), goal="<= 0.6", ok=spent / full_size <= 0.6, baseline=1.0),
        figure(NAME, with_runs, "runs with a grossly broken skill before its case is closed", n=len(gross), goal="<= 4", ok=with_runs <= 4, baseline=(RULES[Mode.STANDARD].fill or 0) + 1.0),
        share(NAME, sum(item.verdict is not Verdict.FAIL for item in gross), len(gross), "grossly broken skills that do not fail", goal="<= 0.01", at_most=0.01 if not small else 1.0),
    ]  # fmt: skip
    head = ["SPRT .95 against .7, cap 60", "called good", "called bad", "undecided", "mean runs", "median", "95 %"]
    plan_head = ["mode, judge lenient .96/.90", "runs a case", "false FAIL", "false PASS"]
    print(f"peeking: e-process {by_wealth / repeats:.4f}, sign test at every look {by_test / repeats:.4f}\n")
    print(f"{table(head, rows)}\n\n{table(plan_head, plan_rows)}")
    if not small:
        write_section(
            NAME,
            "Stopping early (J10)",
            f"Looking after every case, where nothing differs: the e-process rejects in {100 * by_wealth / repeats:.2f} %, a sign "
            f"test at every look in {100 * by_test / repeats:.1f} %. `full` also confirms.\n\n{markdown_table(head, rows)}\n\n"
            f"{markdown_table(plan_head, plan_rows)}",
        )
    print(last_line(figures))
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
