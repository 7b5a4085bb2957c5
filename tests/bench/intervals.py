"""J9: how often the intervals that the gate prints or blocks on hold the truth.

``python -m tests.bench.intervals [--small]``. Coverage of one proportion is computed exactly, that of clustered runs is
simulated.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Sequence
from random import Random
from typing import Any

from scipy import stats

from gate import statistics
from tests.bench._figures import figure, last_line, table
from tests.bench._trust import markdown_table, write_section

NAME = "intervals"
Interval = Callable[[int, int], tuple[float, float]]
EPSILON = 1e-12


def wald(passed: int, total: int) -> tuple[float, float]:
    """The naive variant: estimate plus and minus 1.96 standard errors."""
    p = passed / total
    half = 1.96 * (p * (1 - p) / total) ** 0.5
    return p - half, p + half


KINDS: dict[str, Interval] = {
    "exact (blocks)": statistics.clopper_pearson,
    "Wilson (shown)": statistics.wilson,
    "Jeffreys": statistics.jeffreys,
    "Wald (naive)": wald,
}


def coverage(interval: Interval, rate: float, total: int) -> float:
    """Exact chance that the interval of ``total`` draws holds ``rate``."""
    held = 0.0
    for passed in range(total + 1):
        low, high = interval(passed, total)
        if low - EPSILON <= rate <= high + EPSILON:
            held += float(stats.binom.pmf(passed, total, rate))
    return held


def clustered_coverage(icc: float, cases: int, runs: int, rate: float, repeats: int, rng: Random) -> tuple[int, int]:
    """(held by the cluster interval, held by Wilson over pooled runs) of ``repeats`` suites; case rates are Beta."""
    held = naive = 0
    for _ in range(repeats):
        groups = []
        for _case in range(cases):
            chance = rate if icc == 0 else rng.betavariate(rate * (1 / icc - 1), (1 - rate) * (1 / icc - 1))
            groups.append((sum(rng.random() < chance for _ in range(runs)), runs))
        interval = statistics.clustered(groups)
        held += interval is not None and interval.low - EPSILON <= rate <= interval.high + EPSILON
        low, high = statistics.wilson(sum(passed for passed, _ in groups), cases * runs)
        naive += low <= rate <= high
    return held, naive


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the bench."""
    parser = argparse.ArgumentParser(prog=f"python -m tests.bench.{NAME}", description=__doc__)
    parser.add_argument("--small", action="store_true")
    small = parser.parse_args(arguments).small
    rates = [0.5 + 0.05 * step for step in range(11)] if small else [0.5 + 0.005 * step for step in range(101)]
    sizes = (2, 4, 10, 20) if small else (*range(2, 21), 25, 30, 40, 50, 60)
    grid = {name: {n: [coverage(kind, rate, n) for rate in rates] for n in sizes} for name, kind in KINDS.items()}
    rows = [
        [name, f"{min(min(line) for line in lines.values()):.3f}",
         f"{min(sum(line) / len(line) for line in lines.values()):.3f}",
         f"{sum(sum(line) for line in lines.values()) / sum(map(len, lines.values())):.3f}"]
        for name, lines in grid.items()
    ]  # fmt: skip
    head = ["interval, 95 %", "least at any p, n", "least mean over p at any n", "mean over p and n"]
    print(f"p from .5 to 1, n from {sizes[0]} to {sizes[-1]}\n{table(head, rows)}")
    repeats, rng, lines, clusters = (100 if small else 4000), Random(9), [], []
    for icc in (0.0, 0.3, 0.6):
        for cases in (4, 10, 20, 33):
            for rate in (0.5, 0.8, 0.95):
                held, naive = clustered_coverage(icc, cases, 3, rate, repeats, rng)
                lines.append((held / repeats, naive / repeats))
                clusters.append(
                    [
                        f"ICC {icc:g}, {cases} cases x 3 runs, p = {rate:g}",
                        f"{held / repeats:.3f}",
                        f"{naive / repeats:.3f}",
                    ]
                )
    cluster_head = ["clustered runs", "cluster interval", "Wilson over pooled runs (naive)"]
    print(f"\n{table(cluster_head, clusters)}")
    exact = min(min(line) for line in grid["exact (blocks)"].values())
    shown_mean = min(sum(line) / len(line) for line in grid["Wilson (shown)"].values())
    n = len(rates) * len(sizes)
    figures: list[dict[str, Any]] = [
        figure(NAME, exact, "coverage of exact intervals, least at any p and n", n=n, goal=">= 0.95 at every p",
               ok=exact >= 0.95 - 1e-9, baseline=min(min(line) for line in grid["Wald (naive)"].values())),
        figure(NAME, shown_mean, "coverage of shown intervals, mean over p, least n", n=n, goal=">= 0.94 on average over p",
               ok=shown_mean >= 0.94, baseline=min(sum(line) / len(line) for line in grid["Wald (naive)"].values()),
               bound=(min(min(line) for line in grid["Wilson (shown)"].values()), 1.0)),
        figure(NAME, sum(a for a, _ in lines) / len(lines), "coverage of cluster intervals, mean over the grid",
               n=repeats * len(lines), goal=">= 0.94 on average", ok=sum(a for a, _ in lines) / len(lines) >= 0.94,
               baseline=sum(b for _, b in lines) / len(lines), bound=(min(a for a, _ in lines), max(a for a, _ in lines))),
    ]  # fmt: skip
    if not small:
        write_section(
            NAME,
            "What the intervals hold (J9)",
            f"p from .5 to 1, n from {sizes[0]} to {sizes[-1]}, computed exactly.\n\n{markdown_table(head, rows)}\n\n"
            f"Runs of one case are alike (ICC); {repeats} simulated suites a row.\n\n{markdown_table(cluster_head, clusters)}",
        )
    print(last_line(figures))
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
