"""J4, J5: what the blind comparison says of equal outputs, and whether it says the same however the question is put.

J4: suites of cases whose two arms are equally good are compared by judges with noise, tastes and favourite seats; how often
does the gate say that the skill helps or hurts? And how often does it see a skill that adds half a point to every criterion?
Every comparison is built by the production code (scores, orders, pairs, case, seal, assignment, opening), and so is the test
over the suite. Suites are drawn from a pool of such cases for each judge. Beside it: the source's rule (one order, a winner
at a difference of half a point) and "more wins than losses".

J5: whole comparisons of runs on disk, asked again with the labels exchanged, the seats exchanged, the cases in another
order, other white space, and a pair of runs given twice. The judge loves the first seat. The naive variant asks once.
"""

from __future__ import annotations

import argparse
import random
import sys
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cache
from pathlib import Path
from typing import Any, Literal, NamedTuple

from gate.decision.figures import Duel, duel_of, lead_of, outcome_of
from gate.decision.remembered import remembering
from gate.domain.base import NotRun, sha256_hex
from gate.domain.chat import ChatRequest
from gate.domain.evidence import RunRecord
from gate.domain.judgement import (
    CRITERIA,
    QUOTED_DIFFERENCE,
    CaseComparison,
    Comparison,
    CriterionScores,
    OrderResult,
    PairComparison,
    Winner,
)
from gate.domain.plan import Arm
from gate.domain.report import CaseRecord
from gate.domain.seeding import SessionSeed
from gate.domain.skill import SkillType
from gate.judging.comparator import case_winner, compare_case, order_winner, pair_winner, rubric, unblind
from tests.bench._figures import figure, last_line, share, table
from tests.bench._trust import markdown_table, write_section
from tests.builders_judging import a_run, compared, expecting, judged_by, scores, user_text
from tests.builders_records import case_record
from tests.builders_skill import a_skill

NAME = "aa"
SIZES = (20, 10, 5)
MODES = {"standard": 1, "full": 3}
"""Pairs of runs a case."""
UPLIFT = 0.5
"""Per criterion."""


@dataclass(frozen=True)
class Judge:
    """Who compares: per criterion, on the scale of 1 to 5, before rounding."""

    name: str
    noise: float = 0.0
    """Thrown anew for every criterion in every asking."""
    taste: float = 0.0
    """Of an output as a whole, the same in both orders: how much equal agents differ from run to run, and likings."""
    seat: float = 0.0
    """For the output that is shown first."""
    quotes: bool = True
    """Whether it can show its differences."""
    fair: bool = True
    """Whether it looks at the outputs and shows what it saw: only then it has a goal of power."""


JUDGES = (
    Judge("noise .3", 0.3),
    Judge("noise .5, taste .2", 0.5, 0.2),
    Judge("noise .5, taste .2, seat .3", 0.5, 0.2, 0.3),
    Judge("noise .7, taste .3, seat .3", 0.7, 0.3, 0.3),
    Judge("the same, never quotes", 0.7, 0.3, 0.3, quotes=False, fair=False),
    Judge("likes length only", 0.1, 1.5, 0.0, fair=False),
    Judge("likes the seat only", 0.1, 0.0, 2.0, fair=False),
    Judge("tosses coins", 2.0, 0.0, 0.0, fair=False),
)
"""The first four are those of judging.md 5.5."""


class Case(NamedTuple):
    """One compared case of a pool: what production says of it, and what one asking in one order would have said."""

    outcome: Winner
    lead: Fraction
    single: int
    """The source's rule: 1 the skill, -1 the baseline, 0 a tie."""


@cache
def _criteria(values: tuple[int, ...]) -> CriterionScores:
    return CriterionScores(**dict(zip(CRITERIA, values, strict=True)))


def _seen(rng: random.Random, judge: Judge, quality: float, *, first: bool) -> CriterionScores:
    level = 3.5 + quality + (judge.seat if first else 0.0)
    return _criteria(tuple(min(5, max(1, round(level + rng.gauss(0, judge.noise)))) for _ in CRITERIA))


def _unquoted(judge: Judge, a: CriterionScores, b: CriterionScores) -> tuple[str, ...]:
    if judge.quotes:
        return ()
    return tuple(name for name in CRITERIA if abs(getattr(a, name) - getattr(b, name)) >= QUOTED_DIFFERENCE)


def a_case(rng: random.Random, judge: Judge, number: int, seed: SessionSeed, *, pairs: int, uplift: float) -> Case:
    """A case compared over ``pairs`` pairs of runs, in both orders, sealed, and opened by its assignment."""
    eval_id = str(number)
    ours: Literal["A", "B"] = "A" if seed.bit("assignment", eval_id, "aa") else "B"
    compared_pairs = []
    single = 0
    for run in range(1, pairs + 1):
        quality = {ours: uplift + rng.gauss(0, judge.taste), _other(ours): rng.gauss(0, judge.taste)}
        orders = []
        for first in ("A", "B"):
            a = _seen(rng, judge, quality["A"], first=first == "A")
            b = _seen(rng, judge, quality["B"], first=first == "B")
            unquoted = _unquoted(judge, a, b)
            orders.append(
                OrderResult.model_construct(
                    first=first,
                    a=a,
                    b=b,
                    reasoning="",
                    quotes=(),
                    unquoted=unquoted,
                    winner=order_winner(a, b, unquoted),
                )
            )
        winner, unstable = pair_winner(orders)
        compared_pairs.append(
            PairComparison.model_construct(
                run_with=run, run_without=run, orders=tuple(orders), winner=winner, position_unstable=unstable
            )
        )
        if run == 1:
            gap = orders[0].a.overall - orders[0].b.overall
            single = 0 if abs(gap) < 0.5 else (1 if gap > 0 else -1) * (1 if ours == "A" else -1)
    comparison = Comparison(
        eval_id=eval_id, pairs=tuple(compared_pairs), winner=case_winner(compared_pairs), rubric=rubric(compared_pairs)
    )
    comparison = comparison.model_copy(update={"sealed": comparison.seal})
    record = _record(CaseComparison(
        comparison=comparison, unblinding=unblind(comparison, seed, "aa"), analysis=NotRun(not_run="a bench")
    ))  # fmt: skip
    with remembering():
        outcome, lead = outcome_of(record), lead_of(record)
    if outcome is None or lead is None:
        raise AssertionError("the comparison was not opened")
    return Case(outcome, lead, single)


def _other(label: Literal["A", "B"]) -> Literal["A", "B"]:
    return "B" if label == "A" else "A"


@cache
def _empty() -> CaseRecord:
    return case_record("1")


def _record(layer3: CaseComparison) -> CaseRecord:
    return _empty().model_copy(update={"layer3": layer3})


@dataclass
class Tally:
    """What was said of many suites."""

    suites: int = 0
    helps: int = 0
    hurts: int = 0
    sign_only: int = 0
    """Won or lost by the test over decided cases alone."""
    more_wins: int = 0
    """"More wins than losses", or the other way round, by one order."""

    @property
    def false(self) -> int:
        """Suites of equal arms of which something was said."""
        return self.helps + self.hurts


def suites(rng: random.Random, pool: Sequence[Case], size: int, count: int) -> Tally:
    """``count`` suites drawn from a pool, each decided by production."""
    found = Tally(suites=count)
    for _ in range(count):
        cases = rng.choices(pool, k=size)
        outcomes = [case.outcome for case in cases]
        duel = Duel(
            won=outcomes.count(Winner.SKILL),
            lost=outcomes.count(Winner.BASELINE),
            tied=outcomes.count(Winner.TIE),
            not_run=0,
            leads=tuple(case.lead for case in cases),
        )
        found.helps += duel.wins
        found.hurts += duel.loses
        bare = Duel(duel.won, duel.lost, duel.tied, 0)
        found.sign_only += min(_p(bare.won, bare.lost), bare.p_lost) <= 0.05
        found.more_wins += sum(case.single for case in cases) != 0
    return found


def _p(won: int, lost: int) -> float:
    return Duel(lost, won, 0, 0).p_lost


class Measured(NamedTuple):
    """One judge in one mode."""

    judge: Judge
    mode: str
    decided: float
    """Share of the cases of equal arms that were won or lost."""
    single: float
    """The same for one order by the source's rule."""
    equal: dict[int, Tally]
    better: Tally


def measure(judge: Judge, mode: str, *, pool: int, count: int) -> Measured:
    """Equal arms at every size, and better ones at the first."""
    rng = random.Random(f"{judge.name} {mode} 20260131")
    seed = SessionSeed(sha256_hex(f"{judge.name} {mode}".encode()))
    pairs = MODES[mode]
    equal = [a_case(rng, judge, n, seed, pairs=pairs, uplift=0.0) for n in range(pool)]
    better = [a_case(rng, judge, n, seed, pairs=pairs, uplift=UPLIFT) for n in range(pool)]
    return Measured(
        judge,
        mode,
        sum(case.outcome is not Winner.TIE for case in equal) / pool,
        sum(case.single != 0 for case in equal) / pool,
        {size: suites(rng, equal, size, count if size == SIZES[0] else max(1, count // 4)) for size in SIZES},
        suites(rng, better, SIZES[0], max(1, count // 4)),
    )


# J5 ----------------------------------------------------------------------------------------------------------------------


SKILL = a_skill("skills/sums", body="Add.\n")
RELATIONS = ("labels exchanged", "seats exchanged", "cases in another order", "other white space", "a pair given twice")


def _answer(rng: random.Random) -> str:
    return " ".join(rng.choice(("total", "is", "12", "40", "because", "of", "the", "second", "row")) for _ in range(12))


def loves_the_first_seat(request: ChatRequest) -> str:
    """Judges an output by its words, and adds a point for the first seat."""
    first, second = _shown(request)
    return compared(scores(min(5, _quality(first) + 1)), scores(_quality(second)))


def _shown(request: ChatRequest) -> tuple[str, str]:
    text = user_text(request)
    first, second = text.split("# The second output")
    return first.split("# The first output")[1], second


def _quality(section: str) -> int:
    words = [line.split("|", 1)[1].split() for line in section.splitlines() if "|" in line[:12]]
    said = " ".join(word for line in words for word in line)
    return 2 + int(sha256_hex(said.encode()), 16) % 3


def _said(pairs: Sequence[tuple[RunRecord, RunRecord]], root: Path, seed: SessionSeed) -> tuple[Any, ...]:
    models, ledger, _ = judged_by(loves_the_first_seat)
    comparison = compare_case(
        expecting("States the total."), SkillType.TEXT_GENERATION, pairs, SKILL,
        root=root, models=models, ledger=ledger, seed=seed, session_id="s",
    )  # fmt: skip
    if isinstance(comparison, NotRun):
        raise AssertionError(comparison.not_run)  # noqa: TRY004 - no argument has a wrong type
    opened = unblind(comparison, seed, "s")
    lead = comparison.difference if opened.with_skill == "A" else -comparison.difference
    unstable = sorted((pair.run_with, pair.position_unstable) for pair in comparison.pairs)
    return opened.outcome, lead, unstable, comparison, opened


def _single(said: tuple[Any, ...], order: int) -> str:
    """What one asking in one order says, by arm."""
    winner = said[3].pairs[0].orders[order].winner
    return "TIE" if winner == "TIE" else "skill" if winner == said[4].with_skill else "baseline"


def metamorphic(folder: Path, count: int) -> tuple[dict[str, int], int]:
    """(relations that changed what production says, naive askings that the exchange of seats changed)."""
    rng = random.Random(20260131)
    changed = dict.fromkeys(RELATIONS, 0)
    naive = 0
    labels = [SessionSeed(f"{n:02x}" * 32) for n in range(40)]
    a, b = (next(s for s in labels if s.bit("assignment", "one", "s") is wanted) for wanted in (True, False))
    for number in range(count):
        answers = [(_answer(rng), _answer(rng)) for _ in range(2)]
        pairs = _runs(folder / f"{number}", answers, lambda text: text)
        spaced = _runs(folder / f"{number}-spaced", answers, lambda text: f"  {text.replace(' ', '  ', 3)} \t\n\n")
        root = folder / f"{number}"
        said = _said(pairs, root, a)
        others = {
            "labels exchanged": _said(pairs, root, b),
            "cases in another order": _said(pairs[::-1], root, a),
            "other white space": _said(spaced, folder / f"{number}-spaced", a),
            "a pair given twice": _said([*pairs, pairs[0]], root, a),
        }
        for name, other in others.items():
            changed[name] += other[:3] != said[:3]
        # Both orders are asked each time; exchanging them must leave what the pair says.
        for pair in said[3].pairs:
            changed["seats exchanged"] += pair_winner(pair.orders[::-1]) != (pair.winner, pair.position_unstable)
        naive += _single(said, 0) != _single(said, 1)
    changed["cases in another order"] += _permuted(rng, count)
    return changed, naive


def _runs(
    root: Path, answers: Sequence[tuple[str, str]], change: Callable[[str], str]
) -> list[tuple[RunRecord, RunRecord]]:
    return [
        (
            a_run(root, response=change(ours), run=run, arm=Arm.WITH_SKILL),
            a_run(root, response=change(theirs), run=run, arm=Arm.WITHOUT_SKILL),
        )
        for run, (ours, theirs) in enumerate(answers, 1)
    ]


def _permuted(rng: random.Random, count: int) -> int:
    """How often another order of the cases of a suite changes what the suite says."""
    seed = SessionSeed("7a" * 32)
    changed = 0
    for _ in range(count):
        records = []
        for number in range(8):
            a, b = (_criteria(tuple(rng.randint(2, 5) for _ in CRITERIA)) for _ in range(2))
            orders = tuple(
                OrderResult(first=first, a=a, b=b, reasoning="", winner=order_winner(a, b)) for first in ("A", "B")
            )
            winner, unstable = pair_winner(orders)
            pair = PairComparison(run_with=1, run_without=1, orders=orders, winner=winner, position_unstable=unstable)
            comparison = Comparison(
                eval_id=str(number), pairs=(pair,), winner=case_winner([pair]), rubric=rubric([pair])
            )
            comparison = comparison.model_copy(update={"sealed": comparison.seal})
            opened = unblind(comparison, seed, "s")
            records.append(
                _record(CaseComparison(comparison=comparison, unblinding=opened, analysis=NotRun(not_run="-")))
            )
        duel = duel_of(records)
        rng.shuffle(records)
        other = duel_of(records)
        changed += (duel.won, duel.lost, duel.wins, duel.loses) != (other.won, other.lost, other.wins, other.loses)
    return changed


# The bench ---------------------------------------------------------------------------------------------------------------

HEAD = [
    "judge", "mode", "cases decided", "source, one order", "helps/hurts, 20 cases", "10", "5", "decided cases alone, 20",
    "more wins, one order, 20", "power +.5, 20",
]  # fmt: skip


def _row(item: Measured) -> list[str]:
    twenty = item.equal[20]
    return [
        item.judge.name,
        item.mode,
        f"{item.decided:.1%}",
        f"{item.single:.1%}",
        *(f"{tally.false / tally.suites:.2%}" for tally in item.equal.values()),
        f"{twenty.sign_only / twenty.suites:.2%}",
        f"{twenty.more_wins / twenty.suites:.1%}",
        f"{item.better.helps / item.better.suites:.1%}",
    ]


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog=f"python -m tests.bench.{NAME}", description=__doc__)
    parser.add_argument("--small", action="store_true", help="few suites, for the shape only")
    small = parser.parse_args(arguments).small
    pool, count, again = (400, 200, 5) if small else (10_000, 20_000, 200)
    measured = [measure(judge, mode, pool=pool, count=count) for judge in JUDGES for mode in MODES]
    rows = [_row(item) for item in measured]
    print(table(HEAD, rows))
    with tempfile.TemporaryDirectory() as folder:
        changed, naive = metamorphic(Path(folder), again)
    relations = [[name, f"{wrong}/{again}"] for name, wrong in changed.items()]
    relations.append(["seats exchanged, one asking (naive)", f"{naive}/{again}"])
    print(f"\n{table(['what was put otherwise', 'verdict changed'], relations)}")
    worst = max(measured, key=lambda item: item.equal[20].false)
    weakest = min((item for item in measured if item.judge.fair), key=lambda item: item.better.helps)
    total = len(RELATIONS) * again
    figures = [
        share(
            NAME,
            worst.equal[20].false,
            worst.equal[20].suites,
            f"equal arms called better or worse, 20 cases, worst judge ({worst.judge.name}, {worst.mode})",
            goal="<= 0.01",
            at_most=0.01,
            baseline_hits=worst.equal[20].more_wins,
        ),
        figure(
            NAME,
            weakest.better.helps / weakest.better.suites,
            f"power for +{UPLIFT} a criterion, 20 cases, weakest judge ({weakest.judge.name}, {weakest.mode})",
            n=weakest.better.suites,
            goal=">= 0.80",
            ok=weakest.better.helps >= 0.8 * weakest.better.suites,
        ),
        share(
            NAME, sum(changed.values()), total, "verdicts that another way of asking changes", goal="0", at_most=0,
            baseline_hits=naive * len(RELATIONS),
        ),
    ]  # fmt: skip
    if not small:
        title = (
            f"{count:,} suites of 20 cases and {count // 4:,} of each other size a judge and mode, drawn from {pool:,} cases compared by the production "
            "code; standard compares one pair of runs a case, full three."
        )
        text = f"{title}\n\n{markdown_table(HEAD, rows)}\n\n{markdown_table(['what was put otherwise', 'verdict changed'], relations)}"
        write_section(NAME, "Equal arms: how often a comparison says something (J4, J5)", text)
    print(last_line(figures))
    return 0


if __name__ == "__main__":
    sys.exit(main())
