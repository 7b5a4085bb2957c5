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
from typing import Literal

from gate.domain.base import NotRun, Severity
from gate.domain.checks import Check
from gate.domain.evidence import Outcome
from gate.domain.judgement import CheckResult, CheckStatus, ExpectationGrade, GradeStatus
from gate.domain.plan import Arm
from gate.domain.report import AssertionTriage, CaseRecord, JudgedRun, Share, TriageClass
from gate.domain.suite import Expectation

CLEAR_DIFFERENCE = 0.5
"""Difference of two pass rates from which an assertion that is mixed in one arm still tells the arms apart."""


@dataclass(frozen=True)
class Assertion:
    """A check or an expectation of a case."""

    kind: Literal["check", "expectation"]
    id: str
    severity: Severity
    text: str
    """Untrusted."""
    rule_ref: str | None

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
    values = check.parameters.model_dump(mode="json", exclude_defaults=True, exclude={"kind"})
    return f"{check.parameters.kind}: " + ", ".join(f"{name} {value!r}" for name, value in sorted(values.items()))


def assertions_of(case: CaseRecord) -> tuple[Assertion, ...]:
    """Every assertion of a case: checks, then expectations, each by id (an order that no file order changes)."""

    def of_check(check: Check) -> Assertion:
        return Assertion("check", check.id, check.severity, describe_check(check), check.rule_ref)

    def of_expectation(expectation: Expectation) -> Assertion:
        return Assertion("expectation", expectation.id, expectation.severity, expectation.text, expectation.rule_ref)

    checks = sorted(case.plan.case.checks, key=lambda item: natural(item.id))
    expectations = sorted(case.plan.case.expectations, key=lambda item: natural(item.id))
    return (*map(of_check, checks), *map(of_expectation, expectations))


def natural(name: str) -> tuple[tuple[int, int, str, str], ...]:
    """Sort key that puts ``eval-2`` before ``eval-10``. Different names have different keys."""

    def key(part: str) -> tuple[int, int, str, str]:
        if part.isascii() and part.isdigit():
            value = part.lstrip("0")
            return (0, len(value), value, part)
        return (1, 0, part, part)

    return tuple(key(part) for part in re.split(r"([0-9]+)", name) if part)


def counting(case: CaseRecord) -> tuple[Assertion, ...]:
    """The assertions that decide whether a case passed (Decision 6): its exact checks that are not ``info``; where it has
    none, its expectations that are not ``info``. Empty: the case can say nothing."""
    weighty = [item for item in assertions_of(case) if item.severity is not Severity.INFO]
    checks = tuple(item for item in weighty if item.kind == "check")
    return checks or tuple(weighty)


def is_usable(run: JudgedRun) -> bool:
    """Whether a run counts. An infrastructure failure in one of its checks voids it (DESIGN.md 4, Layer 2a)."""
    if not run.record.scored:
        return False
    checks = run.judgement.checks
    return isinstance(checks, NotRun) or all(result.status is not CheckStatus.INFRA for result in checks)


def usable_runs(case: CaseRecord, arm: Arm, *, confirm: bool = True) -> tuple[JudgedRun, ...]:
    """The runs of an arm that count, by run number; without the confirm stage where ``confirm`` is False."""
    return tuple(run for run in case.of(arm) if is_usable(run) and (confirm or run.record.purpose != "confirm"))


def confirm_runs(case: CaseRecord, arm: Arm = Arm.WITH_SKILL) -> tuple[JudgedRun, ...]:
    """The usable runs that the confirm stage added to an arm."""
    return tuple(run for run in usable_runs(case, arm) if run.record.purpose == "confirm")


def paired_runs(
    case: CaseRecord, one: Arm, other: Arm, *, confirm: bool = True
) -> tuple[tuple[JudgedRun, ...], tuple[JudgedRun, ...]]:
    """The usable runs of two arms that are compared: a void run takes the run of the same number with it."""
    void = {run.record.key.run for arm in (one, other) for run in case.of(arm) if not is_usable(run)}

    def kept(arm: Arm) -> tuple[JudgedRun, ...]:
        return tuple(run for run in usable_runs(case, arm, confirm=confirm) if run.record.key.run not in void)

    return kept(one), kept(other)


def check_result(run: JudgedRun, check_id: str) -> CheckResult | None:
    """What Layer 2a said about a check of a run; None where it said nothing, or said it twice."""
    if isinstance(run.judgement.checks, NotRun):
        return None
    found = [result for result in run.judgement.checks if result.check_id == check_id]
    return found[0] if len(found) == 1 else None


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
    if assertion.kind == "check":
        result = check_result(run, assertion.id)
        return None if result is None else result.status is CheckStatus.PASSED
    row = grade_row(run, assertion.id)
    if row is None or row.status is GradeStatus.UNGRADED:
        return None
    return row.status is GradeStatus.PASSED


def tally(runs: Iterable[JudgedRun], assertion: Assertion) -> Tally:
    """One assertion over usable runs."""
    seen = [holds(run, assertion) for run in runs]
    return Tally(passed=seen.count(True), failed=seen.count(False), unknown=seen.count(None))


def passed_over(case: CaseRecord, runs: Sequence[JudgedRun]) -> bool | None:
    """Whether a case passed over these usable runs of one arm; None where that cannot be said."""
    deciding = counting(case)
    if not deciding or not runs:
        return None
    verdicts = [tally(runs, assertion).majority for assertion in deciding]
    if False in verdicts:
        return False
    return None if None in verdicts else True


def case_passed(case: CaseRecord, arm: Arm = Arm.WITH_SKILL, *, confirm: bool = True) -> bool | None:
    """Decision 6: every deciding assertion passed in more than half of the arm's usable runs.

    None without a usable run, without a deciding assertion, or where missing verdicts could still turn it.
    """
    return passed_over(case, usable_runs(case, arm, confirm=confirm))


def undecided(case: CaseRecord) -> str | None:
    """Why the fill stage should add runs to this case, as a sentence without a full stop; None where it need not.

    A check or expectation (not ``info``) is mixed over the with-runs, fails in all of them, or passes on base and fails
    on head (DESIGN.md 4, the way through).
    """
    with_runs = usable_runs(case, Arm.WITH_SKILL)
    base_runs = usable_runs(case, Arm.BASE_SKILL)
    for assertion in assertions_of(case):
        if assertion.severity is Severity.INFO:
            continue
        head = tally(with_runs, assertion)
        if head.mixed:
            return f"{assertion.kind} {assertion.id} passed in {head.passed} of {head.total} with-runs"
        if head.failed and tally(base_runs, assertion).passed:
            return f"{assertion.kind} {assertion.id} passes on base and fails on head"
        if head.failed:
            return f"{assertion.kind} {assertion.id} failed in all {head.failed} with-runs that have a verdict"
    return None


def needs_confirm(case: CaseRecord) -> str | None:
    """Why the confirm stage should run every compared arm of this case once more; None where it need not, or has.

    A check or expectation (not ``info``) failed in all with-runs, and no usable with-run of the confirm stage is there.
    """
    if confirm_runs(case):
        return None
    runs = usable_runs(case, Arm.WITH_SKILL)
    for assertion in assertions_of(case):
        if assertion.severity is not Severity.INFO and tally(runs, assertion).all_failed:
            return f"{assertion.kind} {assertion.id} failed in all {len(runs)} with-runs"
    return None


def classify(with_skill: Share, without_skill: Share) -> TriageClass:
    """R4, judging.md 8.1. Shares count runs that have a verdict.

    Under two with-runs or without any without-run nothing can be told. Where an arm is mixed, only a difference of
    ``CLEAR_DIFFERENCE`` still tells the arms apart.
    """
    with_rate, without_rate = with_skill.rate, without_skill.rate
    if with_rate is None or without_rate is None or with_skill.total < 2:
        return TriageClass.UNDER_POWERED
    if with_rate == without_rate == 1:
        return TriageClass.SATURATED
    if with_rate == without_rate == 0:
        return TriageClass.DEAD
    if 0 < with_rate < 1 and 0 < without_rate < 1:
        return TriageClass.FLAKY
    if with_rate - without_rate >= CLEAR_DIFFERENCE:
        return TriageClass.DISCRIMINATING
    if without_rate - with_rate >= CLEAR_DIFFERENCE:
        return TriageClass.INVERTED
    return TriageClass.UNDER_POWERED


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
