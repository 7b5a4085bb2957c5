"""What can fail a skill: vetoes that code found, at once; everything else once the confirm stage has repeated it."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from gate import statistics
from gate.decision import figures
from gate.decision.look import Look, Tests
from gate.decision.remembered import remembered, remembered_of_runs
from gate.decision.triage import (
    case_passed,
    confirm_runs,
    paired_runs,
    passed_over,
    tally,
    usable_runs,
)
from gate.decision.vetoes import found_by_code, open_reports
from gate.decision.wording import case_names, charge_sentence, run_numbers
from gate.domain.base import Severity, six_digits
from gate.domain.plan import Arm
from gate.domain.report import CaseRecord

BLOCKING_LEVEL = 0.05
"""Adjusted one-sided p at which head is worse (Decision 6)."""


@dataclass(frozen=True)
class Charge:
    """Something that fails a skill once the confirm stage has repeated it (Decision 6)."""

    sentence: str
    confirmed: bool
    veto: bool = False


@remembered
def charges_against(look: Look) -> tuple[Charge, ...]:
    """Every charge, confirmed or not: vetoes of judges, single assertions, then tests over cases, then the bound of the rate."""
    return (*_reported_charges(look), *_assertion_charges(look), *_test_charges(look), *_bound_charges(look))


def found_vetoes(look: Look) -> tuple[str, ...]:
    """Vetoes that code found: they fail at once."""
    return tuple(sentence for case in look.runnable for sentence in found_by_code(case))


def _reported_charges(look: Look) -> Iterable[Charge]:
    """Vetoes that a judge reported."""
    for case in look.runnable:
        for item in open_reports(case):
            again = f"; the same in {run_numbers(item.runs)}, the confirm stage among them" if item.repeated else ""
            yield Charge(f"{item.sentence}{again}", item.repeated, veto=True)


def _assertion_charges(look: Look) -> Iterable[Charge]:
    """A ``must`` assertion failing in all with-runs; any assertion passing in all base runs and failing in all of head."""
    for case in look.runnable:
        yield from _case_charges(case)


@remembered_of_runs
def _case_charges(case: CaseRecord) -> tuple[Charge, ...]:
    charges: list[Charge] = []
    runs = usable_runs(case, Arm.WITH_SKILL)
    heads, bases = paired_runs(case, Arm.WITH_SKILL, Arm.BASE_SKILL)
    crashed = runs and not any(run.record.completed for run in runs)
    for assertion in figures.owed(case):
        if not tally(runs, assertion).all_failed:
            continue
        base = tally(bases, assertion)
        flip = base.all_passed and bool(heads)
        must = assertion.severity is Severity.MUST
        if must or flip:
            repeated = bool(confirm_runs(case)) and (must or any(r.record.purpose == "confirm" for r in bases))
            charges.append(Charge(charge_sentence(case, assertion, runs, bases if flip else ()), repeated))
            if crashed:
                break  # every other assertion of the case failed for the same reason
    return tuple(charges)


@remembered
def lost_and_won(look: Look, arm: Arm, *, confirm: bool) -> tuple[list[CaseRecord], list[CaseRecord]]:
    """Cases that the other arm passes and head does not, and the other way round."""
    lost: list[CaseRecord] = []
    won: list[CaseRecord] = []
    for case in look.runnable:
        verdicts = _pair_verdicts(case, arm, confirm)
        if verdicts == (False, True):
            lost.append(case)
        elif verdicts == (True, False):
            won.append(case)
    return lost, won


@remembered_of_runs
def _pair_verdicts(case: CaseRecord, arm: Arm, confirm: bool) -> tuple[bool | None, bool | None]:
    """Whether head, and the arm that it is compared with, pass a case."""
    heads, others = paired_runs(case, Arm.WITH_SKILL, arm, confirm=confirm)
    return passed_over(case, heads), passed_over(case, others)


def tested_arms(look: Look) -> list[Arm]:
    """The arms that head is tested against: the family of Holm's correction, whatever the results are."""
    arms = (Arm.BASE_SKILL, Arm.WITHOUT_SKILL)
    return [arm for arm in arms if any(usable_runs(case, arm) for case in look.runnable)]


@remembered
def tests_of(look: Look) -> Tests:
    """The p values by which this skill could be blocked, whatever they are: its part in the session's families."""
    arms = tested_arms(look)

    def worse(*, confirm: bool) -> Iterable[tuple[float, float]]:
        """p of each arm, and the smallest one that it could have had."""
        for arm in arms:
            lost, won = lost_and_won(look, arm, confirm=confirm)
            yield statistics.sign_test(len(lost), len(won)), statistics.sign_test(len(lost) + len(won), 0)

    pairs = list(zip(worse(confirm=True), worse(confirm=False), strict=True))
    signs = tuple(max(after[0], before[0]) for after, before in pairs)
    least = tuple(max(after[1], before[1]) for after, before in pairs)
    failed, failed_first, total = _failed_cases(look)
    bound = None
    if total:
        threshold = look.thresholds.threshold
        bound = max(
            statistics.binomial_at_most(total - len(failed), total, threshold),
            statistics.binomial_at_most(total - len(failed_first), total, threshold),
        )
    base = signs[arms.index(Arm.BASE_SKILL)] if Arm.BASE_SKILL in arms else None
    bound_least = statistics.binomial_at_most(0, total, look.thresholds.threshold) if total else 1.0
    return Tests(signs, bound, base, least, bound_least)


def dashboard_p(look: Look) -> tuple[float | None, float | None]:
    """(p, its Benjamini-Hochberg value over the skills of the session) of head against base; None where not compared."""
    own = tests_of(look).base
    if own is None:
        return None, None
    all_p = [own, *(peer.base for peer in look.peers if peer.base is not None)]
    return six_digits(own), six_digits(statistics.benjamini_hochberg(all_p)[0])


def blocking_family(look: Look) -> int:
    """How many sign tests Holm's correction is over: those of this skill and of every other skill of the session."""
    return len(tested_arms(look)) + sum(len(peer.signs) for peer in look.peers)


def _over(look: Look) -> str:
    skills = len(look.peers) + 1
    return f" over {skills} skills" if skills > 1 else ""


def _test_charges(look: Look) -> Iterable[Charge]:
    """Head worse than base, or than no skill, over distinct cases: Holm over these tests of all skills of the session,
    with the larger p of before and after the confirm runs. Tests that could block nothing are none of the family: a change
    cannot thin out the error by adding skills without cases."""
    arms, own = tested_arms(look), tests_of(look)
    adjusted = statistics.holm_of_able(
        [*own.signs, *(p for peer in look.peers for p in peer.signs)],
        [*own.least, *(p for peer in look.peers for p in peer.least)],
        BLOCKING_LEVEL,
    )[: len(arms)]
    for arm, p in zip(arms, adjusted, strict=True):
        if p <= BLOCKING_LEVEL:
            lost, won = lost_and_won(look, arm, confirm=True)
            than = "base" if arm is Arm.BASE_SKILL else "no skill at all"
            sentence = (
                f"head is worse than {than}: {len(lost)} cases lost ({case_names(lost)}), {len(won)} won, one-sided exact "
                f"sign test p = {p:.3f} after Holm{_over(look)}"
            )
            yield Charge(sentence, any(confirm_runs(case) for case in lost))


def _failed_cases(look: Look) -> tuple[list[CaseRecord], list[CaseRecord], int]:
    """Cases that are known to fail, with and without the confirm runs, and how many there are. A missing verdict must
    not make a red."""
    cases = [case for case in look.head_cases if usable_runs(case, Arm.WITH_SKILL)]
    failed = [case for case in cases if case_passed(case) is False]
    failed_first = [case for case in cases if case_passed(case, confirm=False) is False]
    return failed, failed_first, len(cases)


def _bound_charges(look: Look) -> Iterable[Charge]:
    """The exact upper bound of the rate lies below the threshold, before and with confirm runs.

    That is the exact binomial test of "at least the threshold" at .05, and several skills share its error (Holm).
    """
    failed, failed_first, total = _failed_cases(look)
    own = tests_of(look)
    if not failed or not failed_first or own.bound is None:
        return
    family = [own, *(peer for peer in look.peers if peer.bound is not None)]
    p_values, least = [item.bound or 0.0 for item in family], [item.bound_least for item in family]
    if statistics.holm_of_able(p_values, least, BLOCKING_LEVEL)[0] < BLOCKING_LEVEL:
        upper, threshold = statistics.clopper_pearson_upper(total - len(failed), total), look.thresholds.threshold
        shared = f", also after Holm{_over(look)}" if look.peers else ""
        sentence = (
            f"{look.rate.passed} of {total} cases passed: the exact upper 95 % bound {upper:.2f} is below the threshold of "
            f"{threshold:.2f}{shared} (failed: {case_names(failed)})"
        )
        yield Charge(sentence, any(confirm_runs(case) for case in failed))
