"""J12: the comparator's aggregation on recorded votes of real judges, against which output really was the better one.

Six models under four prompts chose between the two outputs of 203 pairs, in both orders (``tests/assets/llmbar``). Each vote
goes through the production code as an order with the scores that say what it says; a reply that named no output is no
comparison. Policies: one judge in both orders, and two families that must agree. The default policy is the one with the
fewest wrong decisions among those that decide at least half of the pairs, chosen on the half of the pairs whose digest is
even; the figure is of the other half. The naive variant: GPT-4 asked once, in one order, on the same pairs.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import sys
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import Literal, NamedTuple

from gate.domain.judgement import CRITERIA, CriterionScores, OrderResult, PairComparison
from gate.judging.comparator import case_winner, order_winner, pair_winner
from gate.statistics import clopper_pearson
from tests.bench._figures import figure, last_line, table
from tests.bench._trust import markdown_table, write_section

NAME = "llmbar"
VOTES = Path(__file__).resolve().parents[1] / "assets" / "llmbar" / "votes.jsonl"
PROMPTS = ("Vanilla", "Metrics", "Reference", "Metrics_Reference")
STRONG, OTHERS = "GPT-4", ("PaLM2", "ChatGPT-0301", "ChatGPT", "LLaMA2", "Falcon")
ONE_ORDER = "GPT-4/Vanilla"
COVERAGE = 0.5
"""A policy that decides fewer pairs is no candidate."""

Policy = tuple[str, ...]
POLICIES: tuple[Policy, ...] = (
    *((f"{STRONG}/{prompt}",) for prompt in PROMPTS),
    *((f"{STRONG}/{prompt}", f"{other}/{prompt}") for prompt in PROMPTS for other in OTHERS),
)


class Pair(NamedTuple):
    """Two outputs, which is better, and what every judge chose with output 1 and with output 2 shown first."""

    name: str
    gold: int
    votes: dict[str, tuple[int | None, int | None]]

    @property
    def held_out(self) -> bool:
        """Of the half that the figure is of."""
        return bool(hashlib.sha256(self.name.encode()).digest()[0] & 1)


class Score(NamedTuple):
    """A policy over some pairs."""

    pairs: int
    decided: int
    wrong: int
    one_order_wrong: int
    """GPT-4, asked once in one order, over the decided pairs."""

    @property
    def rate(self) -> float:
        """Wrong ones of the decided ones."""
        return self.wrong / self.decided if self.decided else 1.0


def pairs() -> list[Pair]:
    """The recorded votes."""
    head, *rows = (json.loads(line) for line in VOTES.read_text(encoding="utf-8").splitlines())
    found = []
    for row in rows:
        signs = [None if sign == "-" else int(sign) for sign in row["votes"]]
        votes = {judge: (signs[2 * at], signs[2 * at + 1]) for at, judge in enumerate(head["judges"])}
        found.append(Pair(f"{row['set']}/{row['item']}", row["gold"], votes))
    return found


@cache
def _scores(each: int) -> CriterionScores:
    return CriterionScores(**dict.fromkeys(CRITERIA, each))


def _order(vote: int, first: Literal["A", "B"], *, second_family: bool) -> OrderResult:
    a, b = (_scores(4), _scores(3)) if vote == 1 else (_scores(3), _scores(4))
    winner = order_winner(a, b)
    return OrderResult(first=first, a=a, b=b, reasoning="", winner=winner, second_family=second_family)


def decided(pair: Pair, policy: Policy) -> int | None:
    """The output that production would call the better one; None for a TIE and for no comparison."""
    orders = []
    for at, judge in enumerate(policy):
        one, other = pair.votes[judge]
        if one is None or other is None:
            return None
        orders += [_order(one, "A", second_family=at > 0), _order(other, "B", second_family=at > 0)]
    winner, unstable = pair_winner(orders)
    compared = PairComparison(
        run_with=1, run_without=1, orders=tuple(orders), winner=winner, position_unstable=unstable
    )
    return {"A": 1, "B": 2, "TIE": None}[case_winner([compared])]


def score(listed: Sequence[Pair], policy: Policy) -> Score:
    """How a policy does over some pairs."""
    said = [(pair, choice) for pair in listed if (choice := decided(pair, policy)) is not None]
    wrong = sum(choice != pair.gold for pair, choice in said)
    naive = sum(pair.votes[ONE_ORDER][0] != pair.gold for pair, _ in said)
    return Score(len(listed), len(said), wrong, naive)


def chosen(tuning: Sequence[Pair]) -> Policy:
    """The policy with the fewest wrong decisions of those that decide enough; then the one that decides more."""
    scored = [(policy, score(tuning, policy)) for policy in POLICIES]
    able = [(policy, found) for policy, found in scored if found.decided >= COVERAGE * found.pairs]
    return min(able, key=lambda item: (item[1].rate, -item[1].decided, item[0]))[0]


def _row(policy: Policy, found: Score) -> list[str]:
    low, high = clopper_pearson(found.wrong, found.decided) if found.decided else (0.0, 1.0)
    return [
        " and ".join(policy),
        f"{found.decided / found.pairs:.0%}",
        f"{found.wrong}/{found.decided}",
        f"{found.rate:.1%}",
        f"{low:.1%} to {high:.1%}",
        f"{found.one_order_wrong}/{found.decided}",
    ]


HEAD = ["policy, all in both orders", "decided", "wrong", "wrong of decided", "95 % interval", "GPT-4 once, same pairs"]


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog=f"python -m tests.bench.{NAME}", description=__doc__)
    parser.add_argument("--small", action="store_true", help="the same, nothing written")
    small = parser.parse_args(arguments).small
    listed = pairs()
    tuning = [pair for pair in listed if not pair.held_out]
    held_out = [pair for pair in listed if pair.held_out]
    policy = chosen(tuning)
    rows = [_row(item, score(held_out, item)) for item in POLICIES]
    once = sum(pair.votes[ONE_ORDER][0] != pair.gold for pair in held_out)
    title = (
        f"Chosen on {len(tuning)} pairs: {' and '.join(policy)}. On the {len(held_out)} others (GPT-4 once, in one order: "
        f"{once} wrong of {len(held_out)}):"
    )
    print(f"{title}\n\n{table(HEAD, rows)}")
    sets = {name: [pair for pair in held_out if pair.name.startswith(name)] for name in ("natural", "adversarial")}
    by_set = [_row((name,), score(part, policy)) for name, part in sets.items()]
    print(f"\nThe chosen policy by set, held out\n\n{table(['set', *HEAD[1:]], by_set)}")
    found, tuned = score(held_out, policy), score(tuning, policy)
    if not found.decided or len(listed) < 200:
        print("too few pairs to measure", file=sys.stderr)
        return 2
    print(
        f"\non the half that it was chosen on: {tuned.wrong} wrong of {tuned.decided}, GPT-4 once {tuned.one_order_wrong}"
    )
    if not small:
        text = f"{title}\n\n{markdown_table(HEAD, rows)}\n\n{markdown_table(['chosen policy', *HEAD[1:]], by_set)}"
        write_section(NAME, "Real judges, recorded: wrong and decided by policy (J12)", text)
    figures = [
        figure(
            NAME,
            found.rate,
            f"wrong of decided pairs, held-out half, {' and '.join(policy)}",
            n=found.decided,
            goal="below GPT-4 asked once in one order, on the same pairs",
            ok=found.wrong < found.one_order_wrong,
            baseline=found.one_order_wrong / found.decided,
            bound=clopper_pearson(found.wrong, found.decided),
        ),
        figure(
            NAME,
            found.decided / found.pairs,
            "coverage of that policy, held-out half",
            n=found.pairs,
            goal="printed",
            ok=True,
            baseline=1.0,
            bound=clopper_pearson(found.decided, found.pairs),
        ),
    ]
    print(last_line(figures))
    return 0


if __name__ == "__main__":
    sys.exit(main())
