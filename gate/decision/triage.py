"""What the runs of one case say about each of its assertions. Looks at one case's records only (DESIGN.md 4).

Words used here: an *assertion* is a check or an expectation. A run is *usable* where it counts for or against its arm: it
completed, or the agent's doing ended it, and no check of it failed for infrastructure. In a usable run that did not
complete every assertion failed: agent-caused ends count against their arm. Assertions of severity ``info`` only inform:
they are triaged, and decide nothing.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Literal

from gate.decision.remembered import remembered, remembered_of_runs
from gate.domain.base import NotRun, Severity
from gate.domain.checks import Check, shown_parameters
from gate.domain.evidence import Outcome
from gate.domain.judgement import CheckResult, CheckStatus, ExpectationGrade, GradeStatus
from gate.domain.plan import Arm
from gate.domain.report import AssertionTriage, CaseRecord, JudgedRun, Share, TriageClass
from gate.domain.suite import Case, Expectation

CLEAR_DIFFERENCE = 0.85
"""Difference of two pass rates from which an assertion that is mixed in one arm still tells the arms apart. This and
``ALIKE`` are set by ``tests.bench.triage``: at .5, and with every pair of mixed arms called flaky, 7 to 9 % of what tells the
arms apart got a wrong name at five runs, and a sixth of what was called flaky was not."""
ALIKE = 0.35
"""Difference up to which two mixed arms are both called flaky; beyond it nobody can say."""


@dataclass(frozen=True)
class Assertion:
    """A check or an expectation of a case."""

    kind: Literal["check", "expectation"]
    id: str
    severity: Severity
    text: str
    """Untrusted."""
    rule_ref: str | None
    asked_of: frozenset[str] | None = None
    """The arms that it is asked of, where these are not all."""
    has_known_issue: bool = False
    """A failure may be excused: Layer 2a then marks its result ``info``."""

    @property
    def is_partial(self) -> bool:
        """Whether a usable run may have nothing to say about it, so that it can be left out of a decision."""
        return self.asked_of is not None or self.has_known_issue

    @property
    def label(self) -> str:
        """How sentences name it: kind, id and the rule that it tests."""
        rule = f" (rule {self.rule_ref})" if self.rule_ref else ""
        return f'{self.severity.value} {self.kind} {self.id}{rule} "{shorten(self.text, 100)}"'


@dataclass(frozen=True)
class Tally:
    """One assertion over the usable runs of an arm. ``unknown``: no verdict, which is neither a pass nor a failure."""

    passed: int
    failed: int
    unknown: int

    @property
    def total(self) -> int:
        """All usable runs: a missing verdict never shrinks a denominator."""
        return self.passed + self.failed + self.unknown

    @property
    def all_passed(self) -> bool:
        """Passed in every usable run, and there was one."""
        return self.total > 0 and self.passed == self.total

    @property
    def all_failed(self) -> bool:
        """Failed in every usable run, and there was one."""
        return self.total > 0 and self.failed == self.total

    @property
    def mixed(self) -> bool:
        """Passed in some and failed in others."""
        return self.passed > 0 and self.failed > 0

    @property
    def majority(self) -> bool | None:
        """Whether it passed in more than half of the runs; None where the missing verdicts could still turn that."""
        if 2 * self.passed > self.total:
            return True
        return False if self.total and 2 * self.failed >= self.total else None


def shorten(text: str, limit: int) -> str:
    """``text`` on one line, cut to ``limit`` characters with an ellipsis."""
    line = " ".join(text.split())
    return line if len(line) <= limit else line[: limit - 1].rstrip() + "…"


def describe_check(check: Check) -> str:
    """What a check looks for: the author's words, else its kind and parameters."""
    if check.description:
        return check.description
    values = shown_parameters(check.parameters, exclude_defaults=True)
    return f"{check.parameters.kind}: " + ", ".join(f"{name} {value!r}" for name, value in sorted(values.items()))


def assertions_of(case: CaseRecord) -> tuple[Assertion, ...]:
    """Every assertion of a case: checks, then expectations, each by id (an order that no file order changes)."""
    return _assertions(case.plan.case)


@remembered
def _assertions(case: Case) -> tuple[Assertion, ...]:

    def of_check(check: Check) -> Assertion:
        arms = frozenset(arm.value for arm in Arm if check.applies_to(arm.value))
        return Assertion(
            "check",
            check.id,
            check.severity,
            describe_check(check),
            check.rule_ref,
            asked_of=arms if len(arms) < len(Arm) else None,
            has_known_issue=check.known_issue is not None,
        )

    def of_expectation(expectation: Expectation) -> Assertion:
        return Assertion("expectation", expectation.id, expectation.severity, expectation.text, expectation.rule_ref)

    checks = sorted(case.checks, key=lambda item: natural(item.id))
    expectations = sorted(case.expectations, key=lambda item: natural(item.id))
    return (*map(of_check, checks), *map(of_expectation, expectations))


def natural(name: str) -> tuple[tuple[int, int, str, str], ...]:
    """Sort key that puts ``eval-2`` before ``eval-10``. Different names have different keys."""

    def key(part: str) -> tuple[int, int, str, str]:
        if part.isascii() and part.isdigit():
            value = part.lstrip("0")
            return (0, len(value), value, part)
        return (1, 0, part, part)

    return tuple(key(part) for part in re.split(r"([0-9]+)", name) if part)


def weighty(case: CaseRecord) -> tuple[Assertion, ...]:
    """The assertions of a case that are not ``info``."""
    return _weighty(_assertions(case.plan.case))


@remembered
def _weighty(assertions: tuple[Assertion, ...]) -> tuple[Assertion, ...]:
    return tuple(item for item in assertions if item.severity is not Severity.INFO)


def counting(case: CaseRecord) -> tuple[Assertion, ...]:
    """The assertions that decide whether a case passed (Decision 6): its exact checks that are not ``info``; where it has
    none, its expectations that are not ``info``. Empty: the case can say nothing."""
    return _counting(weighty(case))


@remembered
def _counting(counted: tuple[Assertion, ...]) -> tuple[Assertion, ...]:
    return tuple(item for item in counted if item.kind == "check") or counted


@remembered
def is_usable(run: JudgedRun) -> bool:
    """Whether a run counts. An infrastructure failure in one of its checks voids it (DESIGN.md 4, Layer 2a)."""
    if not run.record.scored:
        return False
    checks = run.judgement.checks
    return isinstance(checks, NotRun) or all(result.status is not CheckStatus.INFRA for result in checks)


@remembered_of_runs
def usable_runs(case: CaseRecord, arm: Arm, *, confirm: bool = True) -> tuple[JudgedRun, ...]:
    """The runs of an arm that count, by run number; without the confirm stage where ``confirm`` is False."""
    return tuple(run for run in case.of(arm) if is_usable(run) and (confirm or run.record.purpose != "confirm"))


@remembered_of_runs
def confirm_runs(case: CaseRecord, arm: Arm = Arm.WITH_SKILL) -> tuple[JudgedRun, ...]:
    """The usable runs that the confirm stage added to an arm."""
    return tuple(run for run in usable_runs(case, arm) if run.record.purpose == "confirm")


@remembered_of_runs
def paired_runs(
    case: CaseRecord, one: Arm, other: Arm, *, confirm: bool = True
) -> tuple[tuple[JudgedRun, ...], tuple[JudgedRun, ...]]:
    """The usable runs of two arms that are compared: a void run takes the run of the same number with it."""
    void = {run.record.key.run for arm in (one, other) for run in case.of(arm) if not is_usable(run)}

    def kept(arm: Arm) -> tuple[JudgedRun, ...]:
        return tuple(run for run in usable_runs(case, arm, confirm=confirm) if run.record.key.run not in void)

    return kept(one), kept(other)


@remembered
def check_result(run: JudgedRun, check_id: str) -> CheckResult | None:
    """What Layer 2a said about a check of a run; None where it said nothing, or said it twice."""
    if isinstance(run.judgement.checks, NotRun):
        return None
    found = [result for result in run.judgement.checks if result.check_id == check_id]
    return found[0] if len(found) == 1 else None


@remembered
def grade_row(run: JudgedRun, expectation_id: str) -> ExpectationGrade | None:
    """What Layer 2b said about an expectation of a run, by a judge or by code.

    None where it said nothing, said it twice, was voided, or only fell back to rules (K27: a degraded grade is no verdict).
    """
    grading = run.judgement.grading
    if isinstance(grading, NotRun) or grading.voided is not None:
        return None
    found = [row for row in grading.rows if row.expectation_id == expectation_id]
    return found[0] if len(found) == 1 and found[0].method != "rules_only" else None


def holds(run: JudgedRun, assertion: Assertion) -> bool | None:
    """Whether an assertion passed in a usable run; None where there is no verdict."""
    if run.record.outcome is not Outcome.COMPLETED:
        return False
    return _verdicts(run).get((assertion.kind, assertion.id))


@remembered
def _verdicts(run: JudgedRun) -> dict[tuple[str, str], bool | None]:
    """By kind and id: what ``check_result`` and ``grade_row`` find, as passed or not; None and absent alike: no verdict."""
    found: dict[tuple[str, str], bool | None] = {}
    if not isinstance(run.judgement.checks, NotRun):
        for result in run.judgement.checks:
            key = ("check", result.check_id)
            found[key] = None if key in found else result.status is CheckStatus.PASSED
    if not isinstance(run.judgement.grading, NotRun):
        for row in run.judgement.grading.rows:
            graded = grade_row(run, row.expectation_id)
            if graded is not None and graded.status is not GradeStatus.UNGRADED:
                found["expectation", row.expectation_id] = graded.status is GradeStatus.PASSED
    return found


def tally(runs: Iterable[JudgedRun], assertion: Assertion) -> Tally:
    """One assertion over usable runs: those of an arm that it is asked of, without failures that a known issue excuses."""
    listed = runs if isinstance(runs, tuple) else tuple(runs)
    if assertion.is_partial:
        listed = tuple(run for run in listed if _is_asked(run, assertion))
    counts, ended = _counts(listed)
    passed, failed = counts.get((assertion.kind, assertion.id), (0, 0))
    return _tally(passed, failed + ended, len(listed) - passed - failed - ended)


@lru_cache(maxsize=4096)
def _tally(passed: int, failed: int, unknown: int) -> Tally:
    return Tally(passed, failed, unknown)


def recorded_tally(case: CaseRecord, assertion: Assertion) -> Tally | None:
    """An assertion over the runs that the baseline recorded; None where the case has no baseline, or it knows nothing of it."""
    found = case.recorded.case.assertions.get(f"{assertion.kind} {assertion.id}") if case.recorded is not None else None
    return None if found is None else Tally(found.passed, found.failed, found.runs - found.passed - found.failed)


def _is_asked(run: JudgedRun, assertion: Assertion) -> bool:
    if assertion.asked_of is not None and run.record.key.arm.value not in assertion.asked_of:
        return False
    if not assertion.has_known_issue or assertion.severity is Severity.INFO or not run.record.completed:
        return True  # how a run ended is never excused
    result = check_result(run, assertion.id)
    return result is None or result.severity is not Severity.INFO


@remembered
def _counts(runs: tuple[JudgedRun, ...]) -> tuple[dict[tuple[str, str], tuple[int, int]], int]:
    """(by kind and id of an assertion: in how many of the completed runs it passed and failed; how many did not complete:
    there every assertion failed)."""
    counts: dict[tuple[str, str], tuple[int, int]] = {}
    ended = 0
    for run in runs:
        if run.record.outcome is not Outcome.COMPLETED:
            ended += 1
            continue
        for key, verdict in _verdicts(run).items():
            if verdict is not None:
                passed, failed = counts.get(key, (0, 0))
                counts[key] = (passed + verdict, failed + (not verdict))
    return counts, ended


@remembered_of_runs
def passed_over(case: CaseRecord, runs: Sequence[JudgedRun]) -> bool | None:
    """Whether a case passed over these usable runs of one arm; None where that cannot be said."""
    deciding = counting(case)
    if not deciding or not runs:
        return None
    tallies = [(assertion, tally(runs, assertion)) for assertion in deciding]
    verdicts = [counts.majority for assertion, counts in tallies if counts.total or not assertion.is_partial]
    if False in verdicts:
        return False
    return None if None in verdicts or not verdicts else True


@remembered_of_runs
def case_passed(case: CaseRecord, arm: Arm = Arm.WITH_SKILL, *, confirm: bool = True) -> bool | None:
    """Decision 6: every deciding assertion passed in more than half of the arm's usable runs.

    None without a usable run, without a deciding assertion, or where missing verdicts could still turn it.
    """
    return passed_over(case, usable_runs(case, arm, confirm=confirm))


def classify(with_skill: Share, without_skill: Share) -> TriageClass:
    """R4, judging.md 8.1. Shares count runs that have a verdict.

    Under two with-runs or without any without-run nothing can be told. Where one arm is mixed, only a difference of
    ``CLEAR_DIFFERENCE`` still tells the arms apart; where both are, at most ``ALIKE`` apart, the assertion is flaky.
    """
    with_rate, without_rate = with_skill.rate, without_skill.rate
    if with_rate is None or without_rate is None or with_skill.total < 2:
        return TriageClass.UNDER_POWERED
    if with_rate == without_rate == 1:
        return TriageClass.SATURATED
    if with_rate == without_rate == 0:
        return TriageClass.DEAD
    difference = with_rate - without_rate
    if 0 < with_rate < 1 and 0 < without_rate < 1:
        return TriageClass.FLAKY if abs(difference) <= ALIKE else TriageClass.UNDER_POWERED
    if difference >= CLEAR_DIFFERENCE:
        return TriageClass.DISCRIMINATING
    if difference <= -CLEAR_DIFFERENCE:
        return TriageClass.INVERTED
    return TriageClass.UNDER_POWERED


@remembered_of_runs
def triage_case(case: CaseRecord) -> tuple[AssertionTriage, ...]:
    """Each assertion of a case over its arms. Runs without a verdict are left out of the shares of every arm."""

    def share(assertion: Assertion, arm: Arm) -> Share:
        counts = tally(usable_runs(case, arm), assertion)
        return Share(passed=counts.passed, total=counts.passed + counts.failed)

    def one(assertion: Assertion) -> AssertionTriage:
        with_skill, without_skill = share(assertion, Arm.WITH_SKILL), share(assertion, Arm.WITHOUT_SKILL)
        return AssertionTriage(
            eval_id=case.plan.case.eval_id,
            assertion_id=assertion.id,
            kind=assertion.kind,
            severity=assertion.severity,
            text=assertion.text,
            rule_ref=assertion.rule_ref,
            with_skill=with_skill,
            without_skill=without_skill,
            base_skill=share(assertion, Arm.BASE_SKILL),
            triage=classify(with_skill, without_skill),
        )

    return tuple(one(assertion) for assertion in assertions_of(case))
