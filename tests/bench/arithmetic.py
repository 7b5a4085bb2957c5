"""J15: every total, tie and mean of a comparison against exact fractions, over all scores that there are.

The naive variants: means of the two groups rounded to one decimal and then added, as the source's example has them; any
difference wins; the first order alone; more wins than losses.
"""

from __future__ import annotations

import argparse
import itertools
import sys
from collections.abc import Iterator, Sequence
from fractions import Fraction
from typing import Any, Literal

from gate.domain.judgement import CRITERIA, CriterionScores, OrderResult, PairComparison
from gate.judging.comparator import case_winner, order_winner, pair_winner, rubric
from tests.bench._figures import figure, last_line, table

GOLDEN = (("9.0", (5, 5, 4, 5, 4, 4), 9.0), ("5.33", (3, 3, 2, 3, 3, 2), 5.33333))
"""Origins 9: content 14 and structure 13 of 15 give 9.0; a sum of 16 gives 16/3, shown with six digits."""
Verdict = Literal["A", "B", "TIE"]


def scored(values: Sequence[int]) -> CriterionScores:
    """Six scores in the order of CRITERIA."""
    return CriterionScores(**dict(zip(CRITERIA, values, strict=True)))


def of_groups(content: int, structure: int) -> CriterionScores:
    """Scores with these two sums (3-15), as even as they can be."""
    return scored(
        [content // 3 + (content % 3 > at) for at in range(3)]
        + [structure // 3 + (structure % 3 > at) for at in range(3)]
    )


def exact(one: CriterionScores, other: CriterionScores) -> Verdict:
    """K3 and R48 in fractions: (content mean + structure mean) / 2 * 2 on each side, a tie under half a point."""
    one_overall, other_overall = _overall(one), _overall(other)
    if abs(one_overall - other_overall) < Fraction(1, 2):
        return "TIE"
    return "A" if one_overall > other_overall else "B"


def _overall(scores: CriterionScores) -> Fraction:
    values = [getattr(scores, name) for name in CRITERIA]
    return (Fraction(sum(values[:3]), 3) + Fraction(sum(values[3:]), 3)) / 2 * 2


def naive(one: CriterionScores, other: CriterionScores) -> Verdict:
    """Whoever has more wins, however little."""
    difference = _naive_overall(one) - _naive_overall(other)
    return "TIE" if difference == 0 else "A" if difference > 0 else "B"


def _naive_overall(scores: CriterionScores) -> float:
    values: list[int] = [getattr(scores, name) for name in CRITERIA]
    return round(sum(values[:3]) / 3, 1) + round(sum(values[3:]) / 3, 1)


def _ties() -> tuple[int, int, int]:
    """All pairs of group sums: every pair of the 5^12 scores has the groups of exactly one of them."""
    sides = [of_groups(content, structure) for content, structure in itertools.product(range(3, 16), repeat=2)]
    wrong = wrong_naive = 0
    for one, other in itertools.product(sides, repeat=2):
        right = exact(one, other)
        wrong += order_winner(one, other) != right
        wrong_naive += naive(one, other) != right
    return len(sides) ** 2, wrong, wrong_naive


def _totals(every: int) -> tuple[int, int, int]:
    """All 5^6 scores of one output (every ``every``-th): total, overall and the three means of the rubric."""
    count = wrong = wrong_naive = 0
    for values in itertools.islice(itertools.product(range(1, 6), repeat=6), 0, None, every):
        scores = scored(values)
        means = rubric([_pair(_order(scores, scores))])["A"]
        right = {
            "overall_score": _overall(scores),
            "content_score": Fraction(sum(values[:3]), 3),
            "structure_score": Fraction(sum(values[3:]), 3),
        }
        count += 1
        wrong += (
            scores.total != sum(values)
            or Fraction(scores.total, 3) != right["overall_score"]
            or any(means[name] != float(f"{float(value):.6g}") for name, value in right.items())
        )
        wrong_naive += abs(_naive_overall(scores) - float(right["overall_score"])) > 1e-9
    return count, wrong, wrong_naive


def _rules() -> tuple[int, int, int]:
    """All outcomes of two orders, and all lists of up to four pairs: who wins the pair and the case."""
    count = wrong = wrong_naive = 0
    sides: tuple[Verdict, ...] = ("A", "B", "TIE")
    samples = {
        "A": (scored([5] * 6), scored([1] * 6)),
        "B": (scored([1] * 6), scored([5] * 6)),
        "TIE": (scored([3] * 6), scored([3] * 6)),
    }
    for one, two in itertools.product(sides, repeat=2):
        found, unstable = pair_winner([_order(*samples[one]), _order(*samples[two])])
        count += 1
        wrong += (found, unstable) != ((one, False) if one == two else ("TIE", True))
        wrong_naive += one != (one if one == two else "TIE")  # the first order alone
    for length in range(1, 5):
        for winners in itertools.product(sides, repeat=length):
            pairs = [_pair(_order(*samples[side]), winner=side) for side in winners]
            a, b = winners.count("A"), winners.count("B")
            right: Verdict = "A" if a and not b else "B" if b and not a else "TIE"
            count += 1
            wrong += case_winner(pairs) != right
            wrong_naive += ("A" if a > b else "B" if b > a else "TIE") != right  # more wins than losses
    return count, wrong, wrong_naive


def _order(a: CriterionScores, b: CriterionScores) -> OrderResult:
    return OrderResult(first="A", a=a, b=b, reasoning="", winner=order_winner(a, b))


def _pair(order: OrderResult, winner: Verdict | None = None) -> PairComparison:
    return PairComparison(
        run_with=1, run_without=1, orders=(order,), winner=winner or order.winner, position_unstable=False
    )


def _golden() -> tuple[int, int, int]:
    right = [
        rubric([_pair(_order(scored(values), scored(values)))])["A"]["overall_score"] == wanted
        for _, values, wanted in GOLDEN
    ]
    off = [abs(_naive_overall(scored(values)) - wanted) > 0.001 for _, values, wanted in GOLDEN]
    return len(GOLDEN), right.count(False), sum(off)


def _rows(*, small: bool) -> Iterator[tuple[str, tuple[int, int, int]]]:
    yield "tie rule, all pairs of group sums", _ties()
    yield "totals and means, all scores of one output", _totals(97 if small else 1)
    yield "orders to pair, pairs to case", _rules()
    yield "golden values 9.0 and 5.33", _golden()


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--small", action="store_true", help="one score in 97, for the shape only")
    rows = list(_rows(small=parser.parse_args(arguments).small))
    print(table(["rule", "cases", "wrong", "wrong, naive"], [[name, *counts] for name, counts in rows]))
    figures: list[dict[str, Any]] = [
        figure("arithmetic", wrong, f"wrong results: {name}", n=count, goal="0", ok=wrong == 0, baseline=wrong_naive)
        for name, (count, wrong, wrong_naive) in rows
    ]
    print(last_line(figures))
    return 0


if __name__ == "__main__":
    sys.exit(main())
