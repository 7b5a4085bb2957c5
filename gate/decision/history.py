"""What earlier sessions recorded of a skill: the trend that is shown, and the baseline of mode ``regression``.

A baseline is what the last ``standard`` or ``full`` session on the default branch recorded of the same case, by the same
model and harness (DESIGN.md 4, table of modes). It takes the place of the base version's runs in the rules of the decision:
the flip of an assertion, and the exact sign test over cases. Both sides are decided by the same rule over runs, so that
neither has more chances than the other: two runs, a third where these two do not say it, and never the confirming ones.
Where nothing is recorded nothing is compared, which is said and is no pass.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Sequence

from gate.decision import figures
from gate.decision.charges import LEAST_RECORDED
from gate.decision.figures import case_name
from gate.decision.look import Look
from gate.decision.triage import Assertion, assertions_of, case_passed, counting, tally, usable_runs, weighty
from gate.decision.wording import case_names
from gate.domain.base import digest_of, six_digits
from gate.domain.history import (
    Baseline,
    HistoryEntry,
    HistoryFacts,
    HistoryPoint,
    Letter,
    Past,
    RecordedCase,
    SkillHistory,
    Tallied,
)
from gate.domain.numbers import counted, plural
from gate.domain.plan import Arm, Mode
from gate.domain.report import CaseRecord, SkillRecord, SkillReport, Verdict
from gate.domain.suite import Case

BASELINE_MODES = (Mode.STANDARD, Mode.FULL)
BASELINE_DAYS = 30
"""How long a baseline serves: models change behind their names. The same as of a kept run (``gate.evidence.cache``)."""
MEASURED = (Verdict.FAIL, Verdict.INCONCLUSIVE, Verdict.CONDITIONAL, Verdict.PASS)
SHOWN_DEFAULT, SHOWN_OWN = 5, 3
"""Sessions in the report's line."""


def case_key(case: Case) -> str:
    """What tells a case from all others whose runs could not be compared with its own; empty: it has no digest."""
    if not case.digest or not case.plan:
        return case.digest
    return f"{case.digest}+{digest_of(list(case.plan))}"


def with_baseline(record: SkillRecord, past: Past | None, *, mode: Mode, run_date: str) -> SkillRecord:
    """The record with what its cases are held against, in mode ``regression``; as it is in any other."""
    if mode is not Mode.REGRESSION or past is None:
        return record
    cases = tuple(case.model_copy(update={"recorded": _baseline(case, past, run_date)}) for case in record.cases)
    return record.model_copy(update={"cases": cases})


def _baseline(case: CaseRecord, past: Past, run_date: str) -> Baseline | None:
    key = case_key(case.plan.case)
    if not key or case.plan.case.trigger is not None:
        return None
    for entry in reversed(past.default):
        if not _serves(entry, past, run_date):
            continue
        for found in entry.skill_gate.cases or ():
            if found.key == key:
                kept = found if entry.skill_gate.judge == past.judge else _without_opinions(found, case)
                if kept.passed is None or kept.runs < LEAST_RECORDED:
                    return None
                return Baseline(date=entry.run_at, commit=entry.git_sha, mode=entry.mode, case=kept)
    return None


def _serves(entry: HistoryEntry, past: Past, run_date: str) -> bool:
    facts = entry.skill_gate
    return (
        entry.mode in BASELINE_MODES
        and facts.verdict in MEASURED
        and (facts.model, facts.harness) == (past.model, past.harness)
        and 0 <= _days(entry.run_at, run_date) <= BASELINE_DAYS
    )


def _days(earlier: str, later: str) -> int:
    return (dt.date.fromisoformat(later) - dt.date.fromisoformat(earlier)).days


def _without_opinions(found: RecordedCase, case: CaseRecord) -> RecordedCase:
    """What another judge recorded: the exact checks alone count, and the case where these decide it."""
    exact = any(item.kind == "check" for item in counting(case))
    checks = {name: item for name, item in found.assertions.items() if name.startswith("check ")}
    return found.model_copy(update={"assertions": checks, "passed": found.passed if exact else None})


def compared_cases(look: Look) -> tuple[CaseRecord, ...]:
    """The cases that a baseline is asked of: work, not trigger queries."""
    return tuple(case for case in look.runnable if case.plan.case.trigger is None)


def no_baseline(look: Look) -> list[str]:
    """Decision 7 in mode ``regression``: nothing at all to compare with. The absence of evidence is no pass."""
    if look.mode is not Mode.REGRESSION or any(case.recorded for case in look.runnable):
        return []
    cases = compared_cases(look)
    what = (
        f"any of the {len(cases)} golden cases" if len(cases) > 1 else "the only golden case" if cases else "any case"
    )
    return [f"there is no recorded baseline for {what}: {_why(look)}; {what_to_run(look)}"]


def partial_baseline(look: Look) -> list[str]:
    """Decision 8 in mode ``regression``: cases that were compared with nothing."""
    if look.mode is not Mode.REGRESSION:
        return []
    without = [case for case in compared_cases(look) if case.recorded is None]
    if not without or len(without) == len(compared_cases(look)):
        return []
    return [
        (
            f"{len(without)} of {len(compared_cases(look))} golden cases have no recorded baseline ({case_names(without)}): "
            f"they are compared with nothing; {what_to_run(look)}"
        )
    ]


def what_to_run(look: Look) -> str:
    """How a baseline comes to be, as a clause."""
    path = look.record.plan.change.path
    return (
        f"run skill-gate run {path} --mode full on the default branch, with the same model, harness and cache (in the Action: "
        "on schedule or workflow_dispatch, with cache-dir and a key), then run this again"
    )


def _why(look: Look) -> str:
    past = look.past
    if past is None or not past.kept:
        return "this session could read no history (it needs the cache, and the key that authenticates it)"
    if not past.default:
        return "no session on the default branch was recorded"
    able = [entry for entry in past.default if entry.mode in BASELINE_MODES and entry.skill_gate.verdict in MEASURED]
    if not able:
        return "no standard or full session on the default branch has measured the skill"
    last = able[-1]
    facts = last.skill_gate
    if (facts.model, facts.harness) != (past.model, past.harness):
        return f"the last one ({last.run_at}) is of {facts.model} with {facts.harness}, this session of {past.model} with {past.harness}"
    if _days(last.run_at, look.run_date) > BASELINE_DAYS:
        return f"the last one ({last.run_at}) is older than {BASELINE_DAYS} days"
    return f"the last one ({last.run_at}) did not record these cases as they are now, with {LEAST_RECORDED} runs each"


def compared_words(look: Look) -> str:
    """For a pass in mode ``regression``: what it was compared with, as a clause; empty in any other mode."""
    held = [case for case in look.runnable if case.recorded]
    if look.mode is not Mode.REGRESSION or not held:
        return ""
    dates = sorted({case.recorded.date for case in held if case.recorded})
    when = dates[0] if len(dates) == 1 else f"{dates[0]} to {dates[-1]}"
    return f"held against the baseline of {when} in {counted(len(held), 'case')}"


def history_of(look: Look, verdict: Verdict) -> SkillHistory | None:
    """What the report says of earlier sessions; None where there is nothing to say."""
    past = look.past
    if past is None:
        return None
    default = [_point(entry) for entry in past.default[-SHOWN_DEFAULT:]]
    own = [_point(entry) for entry in past.own[-SHOWN_OWN:]]
    if not default and not own:
        return None
    parts = [
        f"{name}, last {len(points)} of {total}: {', '.join(map(_words, points))}"
        for name, points, total in (
            ("default branch", default, len(past.default)),
            ("other sessions here", own, len(past.own)),
        )
        if points
    ]
    now = f"now {verdict.value}" + (f" {look.rate.passed}/{look.rate.total}" if look.rate.total else "")
    return SkillHistory(
        points=(*default, *own),
        words="; ".join([*parts, now]),
        baseline=tuple(_baseline_words(case) for case in look.runnable if case.recorded is not None),
    )


def _point(entry: HistoryEntry) -> HistoryPoint:
    facts = entry.skill_gate
    return HistoryPoint(
        date=entry.run_at,
        commit=entry.git_sha,
        mode=entry.mode,
        verdict=facts.verdict,
        passed=facts.passed,
        total=facts.total,
        on_default=facts.on_default,
    )


def _words(point: HistoryPoint) -> str:
    rate = f" {point.passed}/{point.total}" if point.total else ""
    return f"{point.verdict}{rate} ({point.date}, {point.mode.value})"


def _baseline_words(case: CaseRecord) -> str:
    found = case.recorded
    if found is None:
        return ""
    said = "passed" if found.case.passed else "failed"
    at = f" at {found.commit}" if found.commit else ""
    runs = f"{found.case.runs} {plural(found.case.runs, 'run')}"
    return f"{case_name(case)} {said} over {runs} on {found.date}{at}, mode {found.mode.value}"


def entry_of(
    look: Look,
    report: SkillReport,
    past: Past,
    *,
    session_id: str,
    commit: str | None,
    p95_ms: int | None,
) -> HistoryEntry | None:
    """What this session says of a skill to later ones; None where nothing ran. ``p95_ms``: of the run times, milliseconds."""
    cases = [case for case in look.runnable if usable_runs(case, Arm.WITH_SKILL)]
    if not cases:
        return None
    head = look.record.plan.head
    return HistoryEntry(
        run_at=look.run_date,
        session=session_id,
        mode=look.mode,
        skill_hash=head.tree_sha256[:8] if head is not None else None,
        eval_count=len(cases),
        exact_pass_rate=_rate(look.head_cases, ("check",)),
        semantic_pass_rate=_rate(look.head_cases, ("expectation",)),
        overall_pass_rate=_rate(look.head_cases, ("check", "expectation")),
        avg_delta=six_digits(float(look.lift.delta)) if look.lift is not None else None,
        p95_ms=p95_ms,
        verdict=_letter(report),
        git_sha=commit[:8] if commit else None,
        skill_gate=HistoryFacts(
            path=report.path,
            verdict=report.verdict.value,
            passed=report.authoritative.passed,
            total=report.authoritative.total,
            enforce=look.enforce,
            on_default=past.on_default,
            model=past.model,
            harness=past.harness,
            judge=past.judge,
            cases=tuple(_recorded(case) for case in compared_cases(look) if case.plan.origin != "base"),
        ),
    )


def _rate(cases: Sequence[CaseRecord], kinds: tuple[str, ...]) -> float | None:
    shares = [
        figures.share_over(usable_runs(case, Arm.WITH_SKILL), [item for item in weighty(case) if item.kind in kinds])
        for case in cases
    ]
    rate = figures.add(shares).rate if shares else None
    return None if rate is None else six_digits(rate)


def _letter(report: SkillReport) -> Letter:
    """SkillSentry's word. Its letters say how many single assertions hold; FAIL and ERROR are the gate's own verdict."""
    if report.verdict in (Verdict.FAIL, Verdict.INVALID) or report.release_grade == "F":
        return "FAIL"
    found: dict[str | None, Letter] = {"S": "S", "A": "A", "B": "B", "C": "C", "D": "D"}
    return found.get(report.release_grade if report.verdict in MEASURED else None, "ERROR")


def _recorded(case: CaseRecord) -> RecordedCase:
    runs = usable_runs(case, Arm.WITH_SKILL, confirm=False)
    return RecordedCase(
        eval_id=case.plan.case.eval_id,
        key=case_key(case.plan.case),
        passed=case_passed(case, confirm=False),
        runs=len(runs),
        assertions={f"{item.kind} {item.id}": _tallied(case, item) for item in assertions_of(case)},
    )


def _tallied(case: CaseRecord, assertion: Assertion) -> Tallied:
    counts = tally(usable_runs(case, Arm.WITH_SKILL, confirm=False), assertion)
    return Tallied(passed=counts.passed, failed=counts.failed, runs=counts.total)
