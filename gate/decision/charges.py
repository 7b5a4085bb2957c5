"""What can fail a skill: vetoes that code found, at once; everything else once the confirm stage has repeated it."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from gate import statistics
from gate.decision import figures
from gate.decision.figures import case_name
from gate.decision.look import Look, Tests
from gate.decision.remembered import remembered
from gate.decision.triage import (
    Assertion,
    case_passed,
    check_result,
    confirm_runs,
    describe_check,
    natural,
    paired_runs,
    passed_over,
    tally,
    usable_runs,
)
from gate.decision.wording import case_names, charge_sentence, evidence, run_numbers
from gate.domain.base import Severity
from gate.domain.checks import Check, ToolCallCount, ToolCallForbidden
from gate.domain.judgement import CheckStatus
from gate.domain.plan import Arm
from gate.domain.report import CaseRecord

BLOCKING_LEVEL = 0.05
"""Adjusted one-sided p at which head is worse (Decision 6)."""


@dataclass(frozen=True)
class Charge:
    """Something that fails a skill once the confirm stage has repeated it (Decision 6)."""

    sentence: str
    confirmed: bool


@remembered
def charges_against(look: Look) -> tuple[Charge, ...]:
    """Every charge, confirmed or not: single assertions, then tests over cases, then the bound of the rate."""
    return (*_assertion_charges(look), *_test_charges(look), *_bound_charges(look))


def forbidden_tools(look: Look) -> Iterable[str]:
    """V2, found by code: fails at once."""
    for case in look.runnable:
        for check in sorted(case.plan.case.checks, key=lambda item: natural(item.id)):
            forbidden = _forbidden(check)
            if forbidden is None or check.severity is not Severity.MUST:
                continue
            assertion = Assertion("check", check.id, check.severity, describe_check(check), check.rule_ref)
            called = [
                run
                for run in usable_runs(case, Arm.WITH_SKILL)
                if (result := check_result(run, check.id)) is not None
                and result.status is CheckStatus.FAILED
                and result.severity is Severity.MUST  # not excused by a known issue
            ]
            if called:
                yield (
                    f"V2: {case_name(case)}: forbidden tool {forbidden} was called in with_skill "
                    f"{run_numbers([run.record.key.run for run in called])}: {assertion.label}: "
                    f"{evidence(called[0], assertion)}"
                )


def _forbidden(check: Check) -> str | None:
    """The tools that a check forbids, or None for one that forbids no tool."""
    parameters = check.parameters
    if isinstance(parameters, ToolCallForbidden):
        return " or ".join(parameters.tools)
    if isinstance(parameters, ToolCallCount) and parameters.status is None:
        return parameters.tool if 0 in (parameters.max, parameters.expected_count) else None
    return None


def _assertion_charges(look: Look) -> Iterable[Charge]:
    """A ``must`` assertion failing in all with-runs; any assertion passing in all base runs and failing in all of head."""
    for case in look.runnable:
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
                yield Charge(charge_sentence(case, assertion, runs, bases if flip else ()), repeated)
                if crashed:
                    break  # every other assertion of the case failed for the same reason


@remembered
def lost_and_won(look: Look, arm: Arm, *, confirm: bool) -> tuple[list[CaseRecord], list[CaseRecord]]:
    """Cases that the other arm passes and head does not, and the other way round."""
    lost: list[CaseRecord] = []
    won: list[CaseRecord] = []
    for case in look.runnable:
        heads, others = paired_runs(case, Arm.WITH_SKILL, arm, confirm=confirm)
        verdicts = passed_over(case, heads), passed_over(case, others)
        if verdicts == (False, True):
            lost.append(case)
        elif verdicts == (True, False):
            won.append(case)
    return lost, won


def tested_arms(look: Look) -> list[Arm]:
    """The arms that head is tested against: the family of Holm's correction, whatever the results are."""
    arms = (Arm.BASE_SKILL, Arm.WITHOUT_SKILL)
    return [arm for arm in arms if any(usable_runs(case, arm) for case in look.runnable)]


@remembered
def tests_of(look: Look) -> Tests:
    """The p values by which this skill could be blocked, whatever they are: its part in the session's families."""
    arms = tested_arms(look)

    def worse(*, confirm: bool) -> Iterable[float]:
        for arm in arms:
            lost, won = lost_and_won(look, arm, confirm=confirm)
            yield statistics.sign_test(len(lost), len(won))

    signs = tuple(max(pair) for pair in zip(worse(confirm=True), worse(confirm=False), strict=True))
    failed, failed_first, total = _failed_cases(look)
    bound = None
    if total:
        threshold = look.thresholds.threshold
        bound = max(
            statistics.binomial_at_most(total - len(failed), total, threshold),
            statistics.binomial_at_most(total - len(failed_first), total, threshold),
        )
    return Tests(signs, bound)


def blocking_family(look: Look) -> int:
    """How many sign tests Holm's correction is over: those of this skill and of every other skill of the session."""
    return len(tested_arms(look)) + sum(len(peer.signs) for peer in look.peers)


def _over(look: Look) -> str:
    skills = len(look.peers) + 1
    return f" over {skills} skills" if skills > 1 else ""


def _test_charges(look: Look) -> Iterable[Charge]:
    """Head worse than base, or than no skill, over distinct cases: Holm over these tests of all skills of the session,
    with the larger p of before and after the confirm runs."""
    arms, own = tested_arms(look), tests_of(look).signs
    adjusted = statistics.holm([*own, *(p for peer in look.peers for p in peer.signs)])[: len(own)]
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
    own = tests_of(look).bound
    if not failed or not failed_first or own is None:
        return
    peers = [peer.bound for peer in look.peers if peer.bound is not None]
    if statistics.holm([own, *peers])[0] < BLOCKING_LEVEL:
        upper, threshold = statistics.clopper_pearson_upper(total - len(failed), total), look.thresholds.threshold
        shared = f", also after Holm{_over(look)}" if look.peers else ""
        sentence = (
            f"{look.rate.passed} of {total} cases passed: the exact upper 95 % bound {upper:.2f} is below the threshold of "
            f"{threshold:.2f}{shared} (failed: {case_names(failed)})"
        )
        yield Charge(sentence, any(confirm_runs(case) for case in failed))
