"""What can fail a skill: vetoes that code found, at once; everything else once the confirm stage has repeated it."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from gate import statistics
from gate.decision import figures
from gate.decision.look import Look, Tests
from gate.decision.remembered import remembered, remembered_of_runs
from gate.decision.triage import (
    Assertion,
    case_passed,
    confirm_runs,
    paired_runs,
    passed_over,
    recorded_tally,
    tally,
    usable_runs,
)
from gate.decision.triggering import is_trigger
from gate.decision.vetoes import found_by_code, open_reports
from gate.decision.wording import case_names, charge_sentence, run_numbers
from gate.domain.base import NotRun, Severity, six_digits
from gate.domain.judgement import GradeStatus
from gate.domain.plan import Arm
from gate.domain.report import CaseRecord

LEAST_RECORDED = 2
"""Runs that a recorded baseline must have to be held against anything: one run is no measurement (DESIGN.md 4)."""
BLOCKING_LEVEL = 0.05
"""Adjusted one-sided p at which head is worse (Decision 6)."""


@dataclass(frozen=True)
class Charge:
    """Something that fails a skill once the confirm stage has repeated it (Decision 6)."""

    sentence: str
    confirmed: bool
    veto: bool = False
    why_open: str = "needs the confirm stage"
    """As a clause, of one that is not confirmed."""


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
        recorded = recorded_tally(case, assertion)
        base = recorded or tally(bases, assertion)
        # What is recorded was decided before this change was there, over two runs or more: nobody chose it for its luck.
        flip = base.all_passed and (bool(heads) if recorded is None else base.total >= LEAST_RECORDED)
        must = assertion.severity is Severity.MUST
        if must or flip:
            again = must or recorded is not None or any(r.record.purpose == "confirm" for r in bases)
            sentence = charge_sentence(case, assertion, runs, bases if flip and recorded is None else ())
            if flip and recorded is not None:
                sentence += f"; it passed in all {base.total} runs of the recorded baseline"
            repeated = bool(confirm_runs(case)) and again
            if repeated and _taken_back(case, assertion, flip=flip and recorded is None):
                why = "asked again about a confirming run, the grader said otherwise: its answer is no sign of a change"
                charges.append(Charge(sentence, confirmed=False, why_open=why))
            else:
                charges.append(Charge(sentence, repeated))
            if crashed:
                break  # every other assertion of the case failed for the same reason
    return tuple(charges)


def _taken_back(case: CaseRecord, assertion: Assertion, *, flip: bool) -> bool:
    """Whether the grader took its word about an assertion back when it was asked again about a confirming run of head or,
    for a flip, of base.

    A grader that is in two minds about an expectation fails it in all runs of head and passes it in all of base now and
    then; over the many expectations of a suite that was most of the false alarms (``tests.bench.stopping``). Asking it twice
    about one record tells its own dice from a change.
    """
    if assertion.kind != "expectation":
        return False
    asked = [(run, GradeStatus.FAILED) for run in confirm_runs(case)]
    asked += [(run, GradeStatus.PASSED) for run in confirm_runs(case, Arm.BASE_SKILL)] if flip else []
    for run, said in asked:
        grading = run.judgement.grading
        if isinstance(grading, NotRun):
            continue
        for check in grading.spot_checks:
            mine = check.kind == "again" and check.expectation_id == assertion.id
            if mine and check.status not in (None, GradeStatus.UNGRADED, said):
                return True
    return False


@remembered
def lost_and_won(
    cases: tuple[CaseRecord, ...], arm: Arm, *, confirm: bool
) -> tuple[tuple[CaseRecord, ...], tuple[CaseRecord, ...]]:
    """Cases that the other arm passes and head does not, and the other way round."""
    return _sorted_out(cases, [_pair_verdicts(case, arm, confirm) for case in cases])


@remembered
def shut_and_opened(
    cases: tuple[CaseRecord, ...], *, confirm: bool
) -> tuple[tuple[CaseRecord, ...], tuple[CaseRecord, ...]]:
    """Cases in which base is opened and head is not, and the other way round (for trigger queries: as they should be)."""
    return _sorted_out(cases, [_pair_openings(case, confirm) for case in cases])


def _sorted_out(
    cases: tuple[CaseRecord, ...], verdicts: Sequence[tuple[bool | None, bool | None]]
) -> tuple[tuple[CaseRecord, ...], tuple[CaseRecord, ...]]:
    pairs = list(zip(cases, verdicts, strict=True))
    lost = tuple(case for case, verdict in pairs if verdict == (False, True))
    return lost, tuple(case for case, verdict in pairs if verdict == (True, False))


@remembered_of_runs
def _pair_verdicts(case: CaseRecord, arm: Arm, confirm: bool) -> tuple[bool | None, bool | None]:
    """Whether head, and the arm that it is compared with, pass a case. A recorded baseline stands for the base version."""
    if arm is Arm.BASE_SKILL and case.recorded is not None:
        return passed_over(case, usable_runs(case, Arm.WITH_SKILL, confirm=confirm)), case.recorded.case.passed
    heads, others = paired_runs(case, Arm.WITH_SKILL, arm, confirm=confirm)
    return passed_over(case, heads), passed_over(case, others)


@remembered_of_runs
def _pair_openings(case: CaseRecord, confirm: bool) -> tuple[bool | None, bool | None]:
    """The same of whether the skill is opened, over as many completed runs of the one as of the other: with more runs on
    one side a skill that is opened now and then would seem to lose."""
    if is_trigger(case):
        return _pair_verdicts(case, Arm.BASE_SKILL, confirm)
    arms = paired_runs(case, Arm.WITH_SKILL, Arm.BASE_SKILL, confirm=confirm)
    heads, bases = ([run.record.metrics.activated for run in runs if run.record.completed] for runs in arms)
    both = min(len(heads), len(bases))
    if not both:
        return None, None
    head, base = sum(heads[:both]), sum(bases[:both])
    return head >= base, base >= head


@dataclass(frozen=True)
class _SignTest:
    """Head against another arm over distinct cases."""

    arm: Arm
    opening: bool
    lost: tuple[CaseRecord, ...]
    p: float
    """The larger one of before and after the confirm runs."""
    least: float
    """The smallest p that it could have had."""
    won: int
    known: bool
    """Whether it is over the cases of the base suite only."""


@remembered
def _sign_tests(look: Look) -> tuple[_SignTest, ...]:
    """Every sign test by which this skill could be blocked, whatever the results are.

    Each is over the cases of the base suite, so that no case which head brings along outweighs a lost one; where these have
    too few untied cases to show anything at all, it is over all. Which ones are untied says nothing about who is better, so
    this choice costs no error.
    """
    arms = (Arm.BASE_SKILL, Arm.WITHOUT_SKILL)
    tested = [
        arm
        for arm in arms
        if any(usable_runs(case, arm) or (arm is Arm.BASE_SKILL and case.recorded) for case in look.runnable)
    ]
    tests = [_sign_test(look, arm, opening=False) for arm in tested]
    opening = _sign_test(look, Arm.BASE_SKILL, opening=True)
    return (*tests, opening) if opening.least < 1 else tuple(tests)


def _sign_test(look: Look, arm: Arm, *, opening: bool) -> _SignTest:
    known, everything = (look.known_openings, look.openings) if opening else (look.known_work, look.work)
    test = _over_cases(known, arm, opening=opening, known=known is not everything)
    if known is everything or test.least <= BLOCKING_LEVEL:
        return test
    return _over_cases(everything, arm, opening=opening, known=False)


def _over_cases(cases: tuple[CaseRecord, ...], arm: Arm, *, opening: bool, known: bool) -> _SignTest:
    def counted(confirm: bool) -> tuple[tuple[CaseRecord, ...], tuple[CaseRecord, ...]]:
        return shut_and_opened(cases, confirm=confirm) if opening else lost_and_won(cases, arm, confirm=confirm)

    (lost, won), (lost_first, won_first) = counted(True), counted(False)
    return _SignTest(
        arm=arm,
        opening=opening,
        lost=lost,
        p=max(
            statistics.sign_test(len(lost), len(won)),
            statistics.sign_test(len(lost_first), len(won_first)),
        ),
        least=max(
            statistics.sign_test(len(lost) + len(won), 0),
            statistics.sign_test(len(lost_first) + len(won_first), 0),
        ),
        won=len(won),
        known=known,
    )


@dataclass(frozen=True)
class _RateTest:
    """That the rate over some cases is at least the threshold."""

    failed: tuple[CaseRecord, ...]
    passed: int
    total: int
    p: float
    least: float
    known: bool
    """Whether it is over the cases only that base has too."""


@remembered
def _rate_tests(look: Look) -> tuple[_RateTest, ...]:
    """The rate over the head suite, and over its cases that base has too, where head brings others along."""
    series = [(look.head_cases, False)]
    if look.known_cases is not look.head_cases:
        series.append((look.known_cases, True))
    tests = [_rate_test(cases, look.thresholds.threshold, known=known) for cases, known in series]
    return tuple(test for test in tests if test is not None)


def _rate_test(cases: tuple[CaseRecord, ...], threshold: float, *, known: bool) -> _RateTest | None:
    """Of cases that are known to fail, with and without the confirm runs. A missing verdict must not make a red."""
    measured = [case for case in cases if usable_runs(case, Arm.WITH_SKILL)]
    if not measured:
        return None
    total = len(measured)
    failed = tuple(case for case in measured if case_passed(case) is False)
    failed_first = sum(case_passed(case, confirm=False) is False for case in measured)
    return _RateTest(
        failed=failed,
        passed=sum(case_passed(case) is True for case in measured),
        total=total,
        p=max(
            statistics.binomial_at_most(total - len(failed), total, threshold),
            statistics.binomial_at_most(total - failed_first, total, threshold),
        ),
        least=statistics.binomial_at_most(0, total, threshold),
        known=known,
    )


def base_word(look: Look) -> str:
    """What head is compared with."""
    return "the recorded baseline" if any(case.recorded for case in look.runnable) else "base"


@remembered
def tests_of(look: Look) -> Tests:
    """The p values by which this skill could be blocked, whatever they are: its part in the session's families."""
    signs, rates = _sign_tests(look), _rate_tests(look)
    return Tests(
        signs=tuple(test.p for test in signs),
        bounds=tuple(test.p for test in rates),
        base=next((test.p for test in signs if test.arm is Arm.BASE_SKILL and not test.opening), None),
        least=tuple(test.least for test in signs),
        bounds_least=tuple(test.least for test in rates),
    )


def dashboard_p(look: Look) -> tuple[float | None, float | None]:
    """(p, its Benjamini-Hochberg value over the skills of the session) of head against base; None where not compared."""
    own = tests_of(look).base
    if own is None:
        return None, None
    all_p = [own, *(peer.base for peer in look.peers if peer.base is not None)]
    return six_digits(own), six_digits(statistics.benjamini_hochberg(all_p)[0])


def blocking_family(look: Look) -> int:
    """How many sign tests Holm's correction is over: those of this skill and of every other skill of the session."""
    return len(tests_of(look).signs) + sum(len(peer.signs) for peer in look.peers)


def _over(look: Look) -> str:
    skills = len(look.peers) + 1
    return f" over {skills} skills" if skills > 1 else ""


def _test_charges(look: Look) -> Iterable[Charge]:
    """Head worse than base, or than no skill, over distinct cases: Holm over these tests of all skills of the session,
    with the larger p of before and after the confirm runs. Tests that could block nothing are none of the family: a change
    cannot thin out the error by adding skills without cases."""
    tests, own = _sign_tests(look), tests_of(look)
    adjusted = statistics.holm_of_able(
        [*own.signs, *(p for peer in look.peers for p in peer.signs)],
        [*own.least, *(p for peer in look.peers for p in peer.least)],
        BLOCKING_LEVEL,
    )[: len(tests)]
    for test, p in zip(tests, adjusted, strict=True):
        if p <= BLOCKING_LEVEL:
            than = base_word(look) if test.arm is Arm.BASE_SKILL else "no skill at all"
            counted = f"{len(test.lost)} cases lost ({case_names(test.lost)}), {test.won} won"
            if test.opening:
                said = f"the skill is opened less often than on base: {counted}"
            else:
                said = f"head is worse than {than}: {counted}"
            where = " among the cases of the base suite" if test.known else ""
            sentence = f"{said}{where}, one-sided exact sign test p = {p:.3f} after Holm{_over(look)}"
            yield Charge(sentence, any(confirm_runs(case) for case in test.lost))


def _bound_charges(look: Look) -> Iterable[Charge]:
    """The exact upper bound of the rate lies below the threshold, before and with confirm runs: over the head suite, or over
    its cases that base has too.

    That is the exact binomial test of "at least the threshold" at .05, and these tests of all skills share its error (Holm).
    """
    tests, own = _rate_tests(look), tests_of(look)
    adjusted = statistics.holm_of_able(
        [*own.bounds, *(p for peer in look.peers for p in peer.bounds)],
        [*own.bounds_least, *(p for peer in look.peers for p in peer.bounds_least)],
        BLOCKING_LEVEL,
    )[: len(tests)]
    for test, p in zip(tests, adjusted, strict=True):
        if p < BLOCKING_LEVEL:
            upper, threshold = (
                statistics.clopper_pearson_upper(test.total - len(test.failed), test.total),
                look.thresholds.threshold,
            )
            shared = f", also after Holm{_over(look)}" if look.peers else ""
            cases = "cases that base has too" if test.known else "cases"
            sentence = (
                f"{test.passed} of {test.total} {cases} passed: the exact upper 95 % bound {upper:.2f} is below the threshold "
                f"of {threshold:.2f}{shared} (failed: {case_names(test.failed)})"
            )
            yield Charge(sentence, any(confirm_runs(case) for case in test.failed))
