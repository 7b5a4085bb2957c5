"""How other tools decide, as policies only, over the runs that the gate made: same answers, same judge, as many runs.

Named after what they do; ``WHO`` says which tools were seen to do it (their versions are in docs/trust.md). What these
tools do well beside their policy (formats, harnesses, reports) is not what is compared here.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable
from random import Random

from gate.domain.plan import Arm
from tests.bench._judged import Judged, Row, Seen
from tests.bench._naive import Fuzzy

THRESHOLD = 0.8
Taken = Callable[[Row, Seen], bool]


def _at_its_word(row: Row, run: Seen) -> bool:
    del run
    return row.said


def _some_evidence(row: Row, run: Seen) -> bool:
    del run
    return row.said and (row.exact or any(quote.strip() for quote in row.quotes))


def _fuzzy_evidence(row: Row, run: Seen) -> bool:
    if row.exact or not row.said:
        return row.said
    text = Fuzzy(run.text)
    return any(quote.strip() in run.text or text.likeness(quote) >= 90 for quote in row.quotes if quote.strip())


def _share(runs: Iterable[Seen], taken: Taken) -> float:
    rows = [taken(row, run) for run in runs for row in run.rows]
    return sum(rows) / len(rows) if rows else 0.0


def _with(judged: Judged) -> list[Seen]:
    return [run for run in judged.runs if run.arm is Arm.WITH_SKILL]


def _mean(taken: Taken) -> Callable[[Judged, str], bool]:
    """Mean of all assertions of all runs with the skill, at least the threshold."""
    return lambda judged, seed: _share(_with(judged), taken) >= THRESHOLD


def _lift(judged: Judged, seed: str) -> bool:
    """The mean with the skill is not below the mean without it."""
    del seed
    without = [run for run in judged.runs if run.arm is Arm.WITHOUT_SKILL]
    own = _with(judged)
    return bool(own) and _share(own, _at_its_word) >= _share(without, _at_its_word)


def _one_run(judged: Judged, seed: str) -> bool:
    """One run a case, one judge at its word: a case passes with all its assertions, the skill with four in five cases."""
    del seed
    passed: dict[str, bool] = {}
    for run in _with(judged):
        if run.run == 1:
            for row in run.rows:
                passed[row.case] = passed.get(row.case, True) and row.said
    return bool(passed) and sum(passed.values()) >= THRESHOLD * len(passed)


def _single_order(judged: Judged, seed: str) -> bool:
    """The output with the skill is compared once, in one order, with the one without; it must not lose more than it wins.

    The comparator's scores are those of the simulator: six criteria led by the share of what is met, noise, and a point
    for the first seat.
    """
    rng = Random(f"{seed}/order")
    met: dict[tuple[str, Arm], list[bool]] = defaultdict(list)
    for run in judged.runs:
        if run.run == 1:
            for row in run.rows:
                met[row.case, run.arm].append(row.said)
    won = 0
    cases = sorted({case for case, arm in met if arm is Arm.WITH_SKILL})
    for case in cases:
        ours, theirs = met[case, Arm.WITH_SKILL], met.get((case, Arm.WITHOUT_SKILL), [False])
        lead = 6 * (sum(ours) / len(ours) - sum(theirs) / len(theirs)) + rng.gauss(0, 1.7) + rng.choice((1, -1))
        won += (lead > 1) - (lead < -1)
    return bool(cases) and won >= 0


POLICIES: dict[str, Callable[[Judged, str], bool]] = {
    "mean >= .8": _mean(_at_its_word),
    "mean not below none": _lift,
    "single judge, one run": _one_run,
    "single order": _single_order,
    "mean, fuzzy quotes": _mean(_fuzzy_evidence),
    "mean, some evidence": _mean(_some_evidence),
}
WHO = {
    "mean >= .8": "skillgrade 0.3.0 (mean reward against a threshold), skill-evals 0.1.2 (--min-pass)",
    "mean not below none": "skill-creator, skillproof (with minus without, no interval)",
    "single judge, one run": "agent-exam 0.3.0, agent-skill-eval 0.7.0 (one judge's word a criterion)",
    "single order": "skill-creator (one order), promptfoo select-best (no swap)",
    "mean, fuzzy quotes": "tools that match quotes by likeness",
    "mean, some evidence": "skillroll 0.2.0 (evidence that is not empty)",
}
