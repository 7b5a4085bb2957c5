"""The sentences of the decision. They quote the record and the suite: untrusted text, which reporters escape."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from gate import statistics
from gate.decision import figures
from gate.decision.advice import case_notes, place_name
from gate.decision.appeals import contract_notes, discussion_notes
from gate.decision.coverage import coverage_of
from gate.decision.figures import case_name
from gate.decision.look import Look
from gate.decision.remembered import remembered_of_runs
from gate.decision.triage import (
    Assertion,
    Tally,
    assertions_of,
    check_result,
    counting,
    grade_row,
    shorten,
    tally,
    triage_case,
    usable_runs,
)
from gate.decision.triggering import is_trigger, ordinary, trigger_words
from gate.domain.base import NotRun, Severity, six_digits
from gate.domain.evidence import Outcome
from gate.domain.findings import Finding
from gate.domain.numbers import plural
from gate.domain.plan import COMPARED_ARMS, Arm, Mode
from gate.domain.report import CaseRecord, JudgedRun, Share, TriageClass, Verdict
from gate.domain.skill import ChangeKind

LIFT_LEVEL = 0.05
NO_NULL_AGENT = "no null agent was run against the suite"


def failing_runs(runs: Sequence[JudgedRun], assertion: Assertion) -> list[JudgedRun]:
    return [run for run in runs if tally([run], assertion).failed]


def evidence(run: JudgedRun, assertion: Assertion) -> str:
    """What was expected and found in one run, and where. Quotes the record: untrusted."""
    where = f"run {run.record.key.run}"
    if run.record.outcome is not Outcome.COMPLETED:
        return f"{where} ended as {run.record.outcome.value} ({shorten(run.record.reason, 160)})"
    if assertion.kind == "check":
        result = check_result(run, assertion.id)
        if result is None:
            return f"{where} has no result"
        place = f" at {result.block}" if result.block else ""
        return f"expected {shorten(result.expected, 200)}; found {shorten(result.found, 240)}{place} in {where}"
    row = grade_row(run, assertion.id)
    if row is None:
        return f"{where} has no grade"
    quote = next((item for item in row.quotes if item.verdict.accepted), None)
    place = f' (quote at {quote.source}: "{shorten(quote.text, 160)}")' if quote is not None else ""
    return f"{shorten(row.reason, 240)}{place} in {where}"


def run_numbers(numbers: Iterable[int]) -> str:
    listed = sorted(set(numbers))
    return f"{plural(len(listed), 'run')} {', '.join(map(str, listed))}"


def case_names(cases: Sequence[CaseRecord], limit: int = 8) -> str:
    named = [case_name(case) for case in cases[:limit]]
    return ", ".join(named) + (f" and {len(cases) - limit} more" if len(cases) > limit else "")


def place_of(finding: Finding) -> str:
    place = finding.path
    if finding.line is not None:
        place += f":{finding.line}" + (f":{finding.column}" if finding.column is not None else "")
    return place


def interval_of(rate: Share) -> tuple[float, float] | None:
    if not rate.total:
        return None
    low, high = statistics.wilson(rate.passed, rate.total)
    return six_digits(low), six_digits(high)


def mde_of(look: Look) -> float | None:
    return six_digits(statistics.mde(look.rate.total)) if look.rate.total else None


def _runs_word(look: Look) -> str:
    counts = sorted({len(usable_runs(case, Arm.WITH_SKILL)) for case in look.head_cases})
    if not counts:
        return "0 runs"
    if len(counts) == 1:
        return f"{counts[0]} {plural(counts[0], 'run')}"
    return f"{counts[0]} to {counts[-1]} runs"


def _size(look: Look) -> str:
    return f"{look.rate.total} {plural(look.rate.total, 'case')} x {_runs_word(look)}"


def wording_of(look: Look, verdict: Verdict) -> str:
    if verdict not in (Verdict.FAIL, Verdict.INCONCLUSIVE, Verdict.CONDITIONAL, Verdict.PASS) or not look.rate.total:
        return ""
    mde = mde_of(look)
    low, high = interval_of(look.rate) or (0.0, 1.0)
    first = "smoke passed; " if verdict is Verdict.CONDITIONAL and look.mode is Mode.SMOKE else ""
    return (
        f"{first}{_size(look)}; a drop under {mde:.2f} (MDE) would not be seen; {look.rate.passed}/{look.rate.total} cases "
        f"passed, 95 % interval {low:.2f} to {high:.2f}"
    )


def pass_reason(look: Look) -> str:
    mde = mde_of(look)
    words = (
        f"{_size(look)}, {look.rate.passed} of {look.rate.total} cases passed; a drop under {mde:.2f} would not be seen"
    )
    return words if _shows_a_gain(look) else f"{words}; no assertion shows a gain over running without the skill"


def _shows_a_gain(look: Look) -> bool:
    """Whether any assertion passed more often with the skill than without. Lift is not asked for, but never left unsaid."""
    return any(_gains(case) for case in look.runnable)


@remembered_of_runs
def _gains(case: CaseRecord) -> bool:
    rows = triage_case(case)
    return any((row.with_skill.rate or 0) > (row.without_skill.rate or 0) for row in rows if row.without_skill.total)


def score(look: Look) -> str:
    return f"won {look.duel.won} : lost {look.duel.lost} : TIE {look.duel.tied}"


def quadrant(look: Look) -> str:
    """R124-R128. A tie takes the words of a loss (R125, R128)."""
    if look.rate.rate is None:
        return ""
    if look.duel.decided + look.duel.tied == 0:
        return "no blind comparison ran"
    if look.duel.open:
        return f"{score(look)}; too few cases to tell"
    high = look.rate.rate >= look.thresholds.threshold
    result = "win" if look.duel.wins else "loss" if look.duel.loses else "tie"
    words = {
        (True, True): "release with confidence",
        (True, False): "the rules may be redundant: the model does as well without them",
        (False, True): "the direction is right; the assertions may be too strict",
        (False, False): "the skill must be fixed",
    }[high, look.duel.wins]
    rate = f"{'high' if high else 'low'} pass rate ({look.rate.passed}/{look.rate.total}, bar {look.thresholds.threshold:.2f})"
    return f"{rate} and {result} ({score(look)}): {words}"


def lift_words(look: Look) -> str:
    lift = look.lift
    if lift is None:
        why = figures.arm_skipped(look.runnable, Arm.WITHOUT_SKILL)
        return f"not computed: {why or 'no case has finished runs with and without the skill'}"
    partial = f", {lift.left_out} left out" if lift.left_out else ""
    shown = (
        f"{float(lift.delta):+.2f} ({float(lift.with_rate):.2f} with, {float(lift.without_rate):.2f} without; mean rate of "
        f"{lift.kind} over {lift.cases} {plural(lift.cases, 'case')}{partial})"
    )
    if lift.delta <= 0:
        return f"{shown}; no lift shown"
    chance = "; may be chance" if lift.chance > LIFT_LEVEL else ""
    return f"{shown}; one-sided sign-flip p = {lift.chance:.3f}{chance}"


def cases_to_decide(rate: Share, threshold: float) -> str:
    if rate.rate is None:
        return ""
    for more in range(1, 1001):
        total = rate.total + more
        if statistics.clopper_pearson_upper(rate.passed * total // rate.total, total) < threshold:
            return f"about {more} more {plural(more, 'case')} at the same rate would decide"
    return "over 1000 more cases at the same rate would be needed to decide"


def losses_to_decide(lost: int, won: int, level: float) -> str:
    """How many more lost cases bring the sign test to ``level``."""
    more = next(n for n in range(1, 10_000) if statistics.sign_test(lost + n, won) <= level)
    return f"{more} more lost {plural(more, 'case')} would decide"


def _runs_to_tell(counts: Tally) -> int:
    """Runs after which an exact one-sided 95 % bound at the same rate leaves one half; at most 200."""
    for more in range(1, 200):
        total = counts.total + more
        passed = counts.passed * total // counts.total
        if (
            statistics.clopper_pearson_lower(passed, total) > 0.5
            or statistics.clopper_pearson_upper(passed, total) < 0.5
        ):
            return more
    return 200


def suggestions(look: Look) -> tuple[str, ...]:
    order = {"high": 0, "medium": 1, "low": 2}
    rows: list[tuple[int, str]] = []
    folder = look.record.plan.change.path
    for case in look.runnable:
        analysis = case.layer3.analysis
        rows += [(3, f"{note} [{case_name(case)}]") for note in case_notes(case)]
        if isinstance(analysis, NotRun):
            continue
        for item in analysis.improvement_suggestions:
            line = f" ({place})" if (place := place_name(item, folder)) else ""
            text = f"{item.priority}, {item.category}: {item.suggestion}{line}; expected: {item.expected_impact}"
            rows.append((order[item.priority], f"{text} [{case_name(case)}]"))
    evals = {text for grading in figures.gradings(look.cases) for text in grading.eval_feedback}
    rows += [(4, f"evals: {text}") for text in evals]
    return tuple(text for _, text in sorted(set(rows)))


def not_tested(look: Look, unguarded: Sequence[str] = ()) -> tuple[str, ...]:
    """``unguarded``: harms that nothing looked for, in words."""
    lines = [
        f"{case_name(case)} was blocked: {case.plan.blocked}" for case in look.cases if case.plan.blocked is not None
    ]
    silent: dict[str, list[CaseRecord]] = {}
    for case in look.runnable:
        comparison = case.layer3.comparison
        if isinstance(comparison, NotRun) and not is_trigger(case):
            silent.setdefault(comparison.not_run, []).append(case)
    lines += [f"no blind comparison for {case_names(cases)}: {why}" for why, cases in sorted(silent.items())]
    lines += [
        f"no {arm.value} runs: {why}"
        for arm in COMPARED_ARMS
        if (why := figures.arm_skipped(look.runnable, arm)) is not None
    ]
    work = ordinary(look.runnable)
    if work and look.triggers is None and all(case.plan.case.mode == "loaded" for case in work):
        lines.append("whether an agent opens the skill by itself: every case loads it, and there is no trigger query")
    empty = [case for case in look.runnable if not counting(case)]
    if empty:
        lines.append(f"{case_names(empty)}: no check and no expectation that counts")
    if unguarded:
        lines.append(f"no case guards against {', '.join(unguarded)}: nothing looked for that")
    return (*lines, NO_NULL_AGENT)


def notes_of(look: Look) -> tuple[str, ...]:
    notes: list[str] = []
    if look.record.plan.change.kind is ChangeKind.ADDED:
        notes.append("a new skill: there is no base version, and its suite comes from the same change")
    rows = [row for case in ordinary(look.runnable) for row in triage_case(case) if row.severity is not Severity.INFO]
    saturated = sum(row.triage is TriageClass.SATURATED for row in rows)
    if saturated:
        notes.append(
            f"{saturated} of {len(rows)} assertions pass with and without the skill: they guard against regressions and show "
            "no gain"
        )
    attempts = sum(run.record.metrics.attempts for case in look.cases for run in case.runs)
    if attempts:
        notes.append(f"{attempts} {plural(attempts, 'attempt')} to reach outside of the sandbox, all stopped")
    notes += _limit_notes(look)
    if look.triggers is not None:
        notes.append(trigger_words(look.triggers))
    notes += _coverage_notes(look)
    suspicious = sorted({text for grading in figures.gradings(look.cases) for text in grading.suspicious})
    notes += [f"the record holds text that addresses a judge: {text}" for text in suspicious]
    undated = [item for item in look.waivers if item.skill == look.record.plan.change.path]
    notes += [
        f"the waiver of {item.rule} by {item.owner} ended {item.expires} and counts for nothing"
        for item in sorted(undated, key=lambda item: (item.rule, item.owner))
        if not item.holds_on(look.run_date)
    ]
    notes += [*contract_notes(look), *discussion_notes(look)]
    return tuple(notes)


LIMITS = ("step_limit", "token_limit", "cost_limit", "context_exceeded")
"""Kinds of fallback with which a run ends by a limit."""


def _limit_notes(look: Look) -> list[str]:
    """Runs that a limit ended, by arm: where these are of one arm only, its figures are about the limit too."""
    counts = []
    for arm in COMPARED_ARMS:
        runs = [run.record for case in look.runnable for run in usable_runs(case, arm)]
        cut = sum(any(item.kind in LIMITS for item in record.fallbacks) for record in runs)
        counts.append((cut, f"{arm.value} {cut} of {len(runs)}"))
    if not any(cut for cut, _ in counts):
        return []
    return [f"runs that ended at a limit of steps, tokens or cost: {', '.join(words for _, words in counts)}"]


def _coverage_notes(look: Look) -> list[str]:
    """What no case names; nothing where that is unknown (it never blocks)."""
    head = look.record.plan.head
    if head is None:
        return []
    references = [item.rule_ref for case in look.head_cases for item in assertions_of(case)]
    references += [f"SKILL.md:{line}" for line in look.guarded]
    covered = coverage_of(head.body, references, head.body_line)
    if covered is None:
        return []
    total = len(covered.named) + len(covered.unnamed)
    note = f"{len(covered.named)} of {total} imperative rules of SKILL.md are named by a rule_ref of some case"
    if look.guarded:
        note += ", or a case noticed when they were changed"
    if covered.unnamed:
        shown = "; ".join(f'line {rule.line} ({rule.id}) "{shorten(rule.text, 80)}"' for rule in covered.unnamed[:3])
        more = len(covered.unnamed) - 3
        note += f"; tested by none that says so: {shown}" + (f" and {more} more" if more > 0 else "")
    return [note]


def mode_sentence(mode: Mode) -> str:
    if mode is Mode.SMOKE:
        return "smoke passed: one run a case shows that it works at all, and is no release decision"
    return "mode quick says at best conditional: two runs a case are no release decision"


def mixed_sentence(case: CaseRecord, assertion: Assertion, counts: Tally, runs: Sequence[JudgedRun]) -> str:
    failing = failing_runs(runs, assertion)
    more = _runs_to_tell(counts)
    return (
        f"{case_name(case)}: {assertion.label} passed in {counts.passed} of {counts.total} with-runs and failed in "
        f"{run_numbers([run.record.key.run for run in failing])}: {evidence(failing[-1], assertion)}; about {more} more "
        f"{plural(more, 'run')} of this case at the same rate would tell whether it holds in more than half"
    )


def charge_sentence(
    case: CaseRecord, assertion: Assertion, runs: Sequence[JudgedRun], bases: Sequence[JudgedRun]
) -> str:
    """An assertion that failed in all with-runs; ``bases``: the base runs in which it passed, where it passed in all."""
    numbers = run_numbers(run.record.key.run for run in runs)
    again = [run.record.key.run for run in runs if run.record.purpose == "confirm"]
    repeated = f", of which {run_numbers(again)} to confirm" if again else ""
    everywhere = f"all {len(runs)} with_skill runs" if len(runs) > 1 else "the only with_skill run"
    on_base = f" and passed in all {len(bases)} base_skill {plural(len(bases), 'run')}" if bases else ""
    return (
        f"{case_name(case)}: {assertion.label} failed in {everywhere} ({numbers}{repeated}){on_base}: "
        f"{evidence(runs[-1], assertion)}"
    )
