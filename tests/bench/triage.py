"""J17: does the triage of assertions call them what they are? 10 cases x 5 runs of each arm.

``python -m tests.bench.triage [--small]``
"""

from __future__ import annotations

import argparse
from collections import Counter
from collections.abc import Sequence
from random import Random

from gate.decision.triage import classify
from gate.domain.report import Share, TriageClass
from tests.bench._figures import figure, last_line, table
from tests.bench._trust import markdown_table, write_section

NAME = "triage"
RUNS = 5
KINDS = {
    TriageClass.DISCRIMINATING: ((0.9, 1.0), (0.0, 0.15)),
    TriageClass.INVERTED: ((0.0, 0.15), (0.9, 1.0)),
    TriageClass.SATURATED: ((0.98, 1.0), (0.98, 1.0)),
    TriageClass.DEAD: ((0.0, 0.02), (0.0, 0.02)),
    TriageClass.FLAKY: ((0.35, 0.65), (0.35, 0.65)),
}
"""True pass rates with and without the skill, drawn evenly."""


def naive(with_skill: Share, without_skill: Share) -> TriageClass:
    """What a comparison of two rates says: better is discriminating, worse is inverted, equal is saturated, dead or flaky."""
    difference = (with_skill.rate or 0) - (without_skill.rate or 0)
    if difference:
        return TriageClass.DISCRIMINATING if difference > 0 else TriageClass.INVERTED
    rates = {1.0: TriageClass.SATURATED, 0.0: TriageClass.DEAD}
    return rates.get(with_skill.rate or 0.0, TriageClass.FLAKY)


def measure(
    suites: int, rng: Random
) -> tuple[Counter[tuple[TriageClass, TriageClass]], Counter[tuple[TriageClass, TriageClass]]]:
    """(true class, label) of every assertion: by the production code, by the naive rule."""
    found: Counter[tuple[TriageClass, TriageClass]] = Counter()
    naively: Counter[tuple[TriageClass, TriageClass]] = Counter()
    for _ in range(suites):
        for _case in range(10):
            for truth, (with_range, without_range) in KINDS.items():
                shares = [
                    Share(passed=sum(rng.random() < rate for _ in range(RUNS)), total=RUNS)
                    for rate in (rng.uniform(*with_range), rng.uniform(*without_range))
                ]
                found[truth, classify(*shares)] += 1
                naively[truth, naive(*shares)] += 1
    return found, naively


def scores(counts: Counter[tuple[TriageClass, TriageClass]], kind: TriageClass) -> tuple[float, float, float]:
    """(precision, recall among those that got a label, share called under-powered) of a class."""
    right = counts[kind, kind]
    labelled = sum(count for (_, label), count in counts.items() if label is kind)
    true = sum(count for (truth, _), count in counts.items() if truth is kind)
    unsaid = counts[kind, TriageClass.UNDER_POWERED]
    return right / labelled if labelled else 0.0, right / (true - unsaid) if true > unsaid else 0.0, unsaid / true


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the bench."""
    parser = argparse.ArgumentParser(prog=f"python -m tests.bench.{NAME}", description=__doc__)
    parser.add_argument("--small", action="store_true")
    small = parser.parse_args(arguments).small
    suites = 20 if small else 2000
    found, naively = measure(suites, Random(17))
    rows, figures = [], []
    for kind in KINDS:
        precision, recall, unsaid = scores(found, kind)
        other_precision, other_recall, _ = scores(naively, kind)
        rows.append(
            [
                kind.value,
                f"{precision:.3f}",
                f"{recall:.3f}",
                f"{unsaid:.3f}",
                f"{other_precision:.3f}",
                f"{other_recall:.3f}",
            ]
        )
        for name, value, baseline in (("precision", precision, other_precision), ("recall", recall, other_recall)):
            figures.append(
                figure(NAME, value, f"{name} of {kind.value}", n=suites * 10, goal=">= 0.95 of what gets a label", ok=value >= 0.95, baseline=baseline)
            )  # fmt: skip
    head = ["class", "precision", "recall of labelled", "called under-powered", "naive precision", "naive recall"]
    print(table(head, rows))
    if not small:
        write_section(
            NAME,
            "Triage of assertions (J17)",
            f"{suites} suites of 10 cases x {RUNS} runs.\n\n{markdown_table(head, rows)}",
        )
    print(last_line(figures))
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
