"""Which cases get further runs: fill where they are undecided, confirm where something must be repeated to count.

Both look at one case's records only, so that a shard takes them itself (DESIGN.md 4, the way through).
"""

from __future__ import annotations

from gate.decision.remembered import remembered_of_runs
from gate.decision.triage import assertions_of, case_passed, confirm_runs, tally, usable_runs, weighty
from gate.decision.vetoes import found_by_code, reported
from gate.domain.base import Severity
from gate.domain.plan import Arm
from gate.domain.report import CaseRecord

GROSS_RUNS = 2
"""With-runs in which everything must have failed."""


@remembered_of_runs
def is_gross(case: CaseRecord) -> bool:
    """Whether a case failed so clearly that filling it up tells nothing: code found a veto, or in each of at least two
    with-runs every one of several assertions failed (a run that did not complete fails all of them).

    A single assertion that failed twice is no gross failure: a flaky one does that in a quarter of all cases.
    """
    if found_by_code(case):
        return True
    runs = usable_runs(case, Arm.WITH_SKILL)
    counted = weighty(case)
    several = len(counted) > 1 or not any(run.record.completed for run in runs)
    return (
        len(runs) >= GROSS_RUNS and several and bool(counted) and all(tally(runs, item).all_failed for item in counted)
    )


@remembered_of_runs
def turned(case: CaseRecord) -> bool | None:
    """False where base was opened in all of its completed runs and head in none, True the other way round, else None."""
    heads, bases = (
        {run.record.metrics.activated for run in usable_runs(case, arm) if run.record.completed}
        for arm in (Arm.WITH_SKILL, Arm.BASE_SKILL)
    )
    if heads == bases or len(heads) != 1 or len(bases) != 1:
        return None
    return True in heads


def undecided(case: CaseRecord) -> str | None:
    """Why the fill stage should add runs to this case, as a sentence without a full stop; None where it need not.

    A check or expectation (not ``info``) is mixed over the with-runs, fails in all of them, or passes on base and fails
    on head (DESIGN.md 4, the way through). Nothing is added to a gross failure: the confirm stage decides it.
    """
    if is_gross(case):
        return None
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

    A check or expectation (not ``info``) failed in all with-runs, the case as a whole failed in most of them (tests over
    cases, which such cases make, count only once they are repeated), base was opened in all of its runs and head in none, or
    a judge reported a veto; and no usable with-run of the confirm stage is there.
    """
    if confirm_runs(case):
        return None
    runs = usable_runs(case, Arm.WITH_SKILL)
    for assertion in weighty(case):
        if tally(runs, assertion).all_failed:
            return f"{assertion.kind} {assertion.id} failed in all {len(runs)} with-runs"
    if case_passed(case) is False:
        return f"the case failed in most of its {len(runs)} with-runs"
    if case.plan.case.mode == "offered" and turned(case) is False:
        return "the skill was opened in every base run and in no with-run"
    return next((item.sentence for item in reported(case)), None)
