"""How other tools decide, as policies only, over the runs that the gate made: same answers, same judge, as many runs.

Named after what they do; ``WHO`` says in which tools that part was seen, and in which version (read in the published
packages). What these tools do well beside their policy (formats, harnesses, reports) is not what is compared here.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Sequence
from functools import lru_cache
from random import Random

from gate.domain.plan import Arm
from tests.bench._judged import Judged, Row, Seen
from tests.bench._naive import Fuzzy

THRESHOLD = 0.8
LIKENESS = 90
"""Per cent from which a quote is taken for found by ``_fuzzy_evidence``."""
Taken = Callable[[Row, Seen], bool]
Policy = Callable[[Judged, str], bool]


def _at_its_word(row: Row, run: Seen) -> bool:
    del run
    return row.said


def _some_evidence(row: Row, run: Seen) -> bool:
    del run
    return row.said and (row.exact or any(quote.strip() for quote in row.quotes))


def _fuzzy_evidence(row: Row, run: Seen) -> bool:
    if row.exact or not row.said:
        return row.said
    return any(quote in run.record or _likeness(run.record, quote) >= LIKENESS for quote in row.quotes if quote.strip())


@lru_cache(maxsize=4096)
def _likeness(text: str, quote: str) -> float:
    return Fuzzy(text).likeness(quote)


def _with(judged: Judged) -> list[Seen]:
    return [run for run in judged.runs if run.arm is Arm.WITH_SKILL and run.rows]


def _by_case(runs: Sequence[Seen]) -> dict[str, list[Seen]]:
    found: dict[str, list[Seen]] = defaultdict(list)
    for run in runs:
        found[run.rows[0].case].append(run)
    return found


def _mean(runs: Sequence[Seen], taken: Taken = _at_its_word) -> float:
    """Over runs, of the share of assertions that a run meets."""
    rates = [sum(taken(row, run) for row in run.rows) / len(run.rows) for run in runs]
    return sum(rates) / len(rates) if rates else 0.0


def _clean(runs: Sequence[Seen]) -> float:
    """The share of runs that meet every assertion."""
    return sum(all(row.said for row in run.rows) for run in runs) / len(runs) if runs else 0.0


def _mean_of_all(taken: Taken) -> Policy:
    """The mean over all runs with the skill, at least the threshold."""
    return lambda judged, seed: _mean(_with(judged), taken) >= THRESHOLD


def _mean_of_each(judged: Judged, seed: str) -> bool:
    """The mean over the runs of each case, at least the threshold in every case."""
    del seed
    cases = _by_case(_with(judged))
    return bool(cases) and all(_mean(runs) >= THRESHOLD for runs in cases.values())


def _lift(judged: Judged, seed: str) -> bool:
    """Runs that meet everything are not rarer with the skill than without it: the difference of two shares, no interval."""
    del seed
    without = [run for run in judged.runs if run.arm is Arm.WITHOUT_SKILL and run.rows]
    own = _with(judged)
    return bool(own) and _clean(own) >= _clean(without)


def _first_runs(judged: Judged) -> list[Seen]:
    return [run for run in _with(judged) if run.run == 1]


def _most_cases(judged: Judged, seed: str) -> bool:
    """One run a case: four in five cases meet all of their assertions."""
    del seed
    own = _first_runs(judged)
    return bool(own) and _clean(own) >= THRESHOLD


def _all_once(judged: Judged, seed: str) -> bool:
    """One run a case: every assertion holds."""
    del seed
    own = _first_runs(judged)
    return bool(own) and _clean(own) == 1


def _all_always(judged: Judged, seed: str) -> bool:
    """Every assertion holds in every run."""
    del seed
    own = _with(judged)
    return bool(own) and _clean(own) == 1


def _each_assertion(judged: Judged, seed: str) -> bool:
    """Every assertion of every case holds in four of five of the case's runs."""
    del seed
    said: dict[tuple[str, str], list[bool]] = defaultdict(list)
    for run in _with(judged):
        for row in run.rows:
            said[row.case, row.id].append(row.said)
    return bool(said) and all(sum(rows) >= THRESHOLD * len(rows) for rows in said.values())


def _single_order(judged: Judged, seed: str) -> bool:
    """The output with the skill is compared once, in one order, with the one without; it must not lose more than it wins.

    The comparator's scores are those of the simulator: six criteria led by the share of what is met, noise, and a point
    for the first seat.
    """
    rng = Random(f"{seed}/order")
    first = [run for run in judged.runs if run.run == 1 and run.rows]
    ours = {run.rows[0].case: _mean([run]) for run in first if run.arm is Arm.WITH_SKILL}
    theirs = {run.rows[0].case: _mean([run]) for run in first if run.arm is Arm.WITHOUT_SKILL}
    won = 0
    for case in sorted(ours):
        lead = 6 * (ours[case] - theirs.get(case, 0.0)) + rng.gauss(0, 1.7) + rng.choice((1, -1))
        won += (lead > 1) - (lead < -1)
    return bool(ours) and won >= 0


POLICIES: dict[str, Policy] = {
    "mean >= .8": _mean_of_all(_at_its_word),
    "mean >= .8, some evidence": _mean_of_all(_some_evidence),
    "mean >= .8, fuzzy quotes": _mean_of_all(_fuzzy_evidence),
    "mean >= .8 in every case": _mean_of_each,
    "no fewer clean runs than without": _lift,
    "single order": _single_order,
    "one run, .8 of cases": _most_cases,
    "one run, all holds": _all_once,
    "each assertion in .8 of runs": _each_assertion,
    "all holds in every run": _all_always,
}
STRICT = ("one run, all holds", "each assertion in .8 of runs", "all holds in every run")
"""These stop almost every change that breaks something, and many that break nothing: to be read with the last column."""
WHO = {
    "mean >= .8": "agent-skill-eval 0.7.0 (`run-all --min-pass-rate`: the mean over runs of the share of assertions; the number is the user's)",
    "mean >= .8, some evidence": "skill-lens 0.25.0 and skillroll 0.2.0 want evidence that is not blank (of these two only that rule; mean and number are those of the row above)",
    "mean >= .8, fuzzy quotes": f"no tool that was looked at: none looks quotes up. It is what is done with a library of likeness and {LIKENESS} per cent",
    "mean >= .8 in every case": "skillgrade 0.3.0 (`--ci`: the mean reward of a task's trials, .8 unless told otherwise)",
    "no fewer clean runs than without": "skillproof 0.1.0 (`--min-lift 0`), skill-lens 0.25.0 (`--min-delta 0`): the difference itself, whatever interval is shown",
    "single order": "skill-creator (its comparator is asked once a pair; it has no gate), promptfoo 0.121.20 (`select-best` asks once, without a swap). That more wins than losses pass is ours",
    "one run, .8 of cases": "skill-lens 0.25.0 (`--min-pass-rate .8`; one run of each case is its default)",
    "one run, all holds": "skill-lens 0.25.0 as it comes (every case passes, one run of each)",
    "each assertion in .8 of runs": "skill-evals 0.1.2 (`--min-pass .8`: each scorer of each case)",
    "all holds in every run": "agent-exam 0.3.0 (every attempt of every task passes)",
}
