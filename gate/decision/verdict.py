"""The verdict of a skill: DESIGN.md 4, Decision. Nine rules, the first that has a reason decides.

Of the vetoes V1 to V3 and V5 to V7 fail a skill (``vetoes``); V4 (more than 5 % of the runs crashed) and V8 (negative lift)
make it conditional. What nothing looked for, because no case guards against it, is said in every report.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Literal

from gate import statistics
from gate.decision import figures
from gate.decision.advice import advice_findings, analysis_lines, comparison_detail, conditions_of
from gate.decision.appeals import contract_of, contract_reasons, discussions_of, no_draft, undiscussed
from gate.decision.availability import never_there, no_longer_run, taken_away
from gate.decision.charges import (
    BLOCKING_LEVEL,
    base_word,
    blocking_family,
    charges_against,
    dashboard_p,
    found_vetoes,
    lost_and_won,
    shut_and_opened,
    tests_of,
)
from gate.decision.figures import case_name
from gate.decision.further import turned
from gate.decision.history import compared_words, history_of, no_baseline, partial_baseline
from gate.decision.look import Look, Tests
from gate.decision.remembered import remembered_of_runs, remembering
from gate.decision.state import skill_state
from gate.decision.triage import check_result, paired_runs, passed_over, tally, triage_case, usable_runs
from gate.decision.triggering import is_trigger, ordinary, trigger_reasons
from gate.decision.vetoes import HARMS, VETOES, looked_for, refuted_claims
from gate.decision.wording import (
    case_names,
    cases_to_decide,
    evidence,
    failing_runs,
    interval_of,
    lift_words,
    losses_to_decide,
    mde_of,
    mixed_sentence,
    mode_sentence,
    not_tested,
    notes_of,
    pass_reason,
    place_of,
    quadrant,
    run_numbers,
    score,
    suggestions,
    wording_of,
)
from gate.domain.base import NotRun, Severity
from gate.domain.evidence import Outcome, RunRecord
from gate.domain.findings import Finding, Level, limits
from gate.domain.numbers import plural
from gate.domain.plan import COMPARED_ARMS, SUITE_REMOVAL, Arm, Enforce, Mode, NotMeasuredCause
from gate.domain.report import CaseRecord, CaseReport, JudgedRun, Share, SkillRecord, SkillReport, Verdict
from gate.domain.skill import ChangeKind
from gate.domain.suite import CaseType
from gate.settings import Thresholds, Waiver

DOUBT_LEVEL = 0.20
"""One-sided p at which head below base is inconclusive (Decision 7)."""
CRASH_LEVEL = 0.05
"""V4."""
LAYER3_TYPES = (CaseType.HAPPY_PATH, CaseType.E2E)


def decide_skill(
    record: SkillRecord,
    *,
    plan_mode: Mode,
    enforce: Enforce,
    thresholds: Thresholds,
    manifest_errors: Literal["warn", "block"],
    require_layer3: bool,
    waivers: Sequence[Waiver],
    run_date: str,
) -> SkillReport:
    """Decide on one skill, as if it were the only one of its session (see ``decide_skills``).

    ``run_date`` is the session's ISO date; waivers end by it. Never raises for what a record lacks: what is missing
    ends in one of the verdicts that are no pass.
    """
    look = Look(record, plan_mode, enforce, thresholds, manifest_errors, require_layer3, tuple(waivers), run_date)
    return decide_skills([look])[0]


def decide_skills(looks: Sequence[Look]) -> list[SkillReport]:
    """Decide on the skills of one session, in the order given.

    Same records and settings, same reports: whatever the order of skills, cases, runs and assertions. The blocking tests
    of all skills share one error (``Tests``): with twenty skills a false alarm somewhere is no likelier than with one.
    """
    with remembering():
        return [_report(look) for look in with_peers(looks)]


def with_peers(looks: Sequence[Look]) -> list[Look]:
    """Each look with the tests of the others. A skill that is not measured has none."""
    if len(looks) < 2:
        return list(looks)
    tests = [tests_of(look) if look.runnable else Tests((), ()) for look in looks]
    return [
        replace(look, peers=tuple(sorted((*tests[:at], *tests[at + 1 :]), key=repr))) for at, look in enumerate(looks)
    ]


def verdict_of(look: Look) -> tuple[Verdict, tuple[str, ...]]:
    """The first of the nine rules that has a reason, and its reasons, most important first."""
    with remembering():
        verdict, reasons = _first_match(look)
        return verdict, tuple(reasons)


def _report(look: Look) -> SkillReport:
    record = look.record
    verdict, reasons = _first_match(look)
    measured = verdict in (Verdict.FAIL, Verdict.INCONCLUSIVE, Verdict.CONDITIONAL, Verdict.PASS)
    fallbacks = figures.fallback_sums(record)
    degraded = figures.degraded_replies(fallbacks)
    if measured and degraded:
        reasons = [*reasons, f"model replies without a verdict, which count for nothing: {degraded}"]
    plan = record.plan
    p_worse, q_worse = dashboard_p(look) if measured else (None, None)
    report = SkillReport(
        path=plan.change.path,
        slug=plan.slug,
        name=_name(record),
        change=plan.change.kind.value,
        type=plan.type.value,
        type_reason=plan.type_reason,
        verdict=verdict,
        reasons=tuple(reasons),
        wording=wording_of(look, verdict),
        release_grade=figures.letter(look.source_rate, vetoed=_vetoed(look)) if measured else None,
        authoritative=look.rate,
        authoritative_interval=interval_of(look.rate),
        source_rate=look.source_rate,
        quadrant=quadrant(look) if measured else "",
        lift=lift_words(look),
        lift_delta=float(look.lift.delta) if look.lift is not None else None,
        p_worse=p_worse,
        q_worse=q_worse,
        won=look.duel.won,
        lost=look.duel.lost,
        tied=look.duel.tied,
        mde=mde_of(look),
        arms=figures.all_arms(look.cases),
        conditions=conditions_of(look.head_cases),
        cases=tuple(_case_report(case, plan.slug, plan.change.path) for case in look.cases),
        triage=tuple(row for case in ordinary(look.runnable) for row in triage_case(case)),
        findings=(*_findings(record), *advice_findings(look.runnable)),
        suggestions=suggestions(look),
        judge_health=look.judge_sentence,
        known_true=Share(passed=look.health.true_asked - look.health.true_failed, total=look.health.true_asked),
        known_false=Share(passed=look.health.false_asked - look.health.false_passed, total=look.health.false_asked),
        fallbacks=fallbacks,
        not_measured_cause=_cause(look) if verdict is Verdict.NOT_MEASURED else None,
        caused_by_change=verdict in (Verdict.NO_EVALS, Verdict.BLOCKED) and plan.base_runnable,
        triggers=look.triggers,
        not_tested=not_tested(look, _unguarded(look)),
        notes=(*notes_of(look), *_refuted(look)),
        manifests=plan.manifests,
        discussions=discussions_of(look),
        undiscussed=undiscussed(look),
        contract=contract_of(look),
        history=history_of(look, verdict),
    )
    return report.model_copy(update={"state": skill_state(report, look.enforce)})


def _case_report(case: CaseRecord, slug: str, folder: str) -> CaseReport:
    return figures.case_report(case, slug).model_copy(
        update={"comparison_detail": comparison_detail(case), "analysis": analysis_lines(case, folder)}
    )


def _first_match(look: Look) -> tuple[Verdict, list[str]]:
    for verdict, rule in RULES:
        reasons = rule(look)
        if reasons:
            return verdict, reasons
    held = compared_words(look)
    return Verdict.PASS, [f"{pass_reason(look)}; {held}" if held else pass_reason(look)]


def _invalid(look: Look) -> list[str]:
    """1."""
    plan, record = look.record.plan, look.record
    reasons = [f"the seal of the evidence is broken: {problem}" for problem in sorted(record.broken_seals)]
    for finding in _findings(record):
        blocks = finding.blocks or (
            finding in plan.manifest_findings and finding.level is Level.ERROR and look.manifest_errors == "block"
        )
        if blocks and look.waived(finding.rule) is None:
            reasons.append(f"{finding.rule}: {place_of(finding)}: {finding.message}")
    if plan.head is None and plan.change.kind is not ChangeKind.DELETED and not reasons:
        reasons.append("SKILL.md could not be read")
    if look.waived(SUITE_REMOVAL) is None:
        reasons += [
            f"{removal.removesuffix('.')}; needs a waiver of {SUITE_REMOVAL} in the base policy"
            for removal in _removals(record)
        ]
    return [*reasons, *(reason for case in look.cases for reason in _void_runs(case))]


@remembered_of_runs
def _void_runs(case: CaseRecord) -> tuple[str, ...]:
    reasons: list[str] = []
    for run in sorted(case.runs, key=_run_order):
        if run.record.key.arm not in COMPARED_ARMS:
            continue  # no verdict rests on it
        grading = run.judgement.grading
        voided = None if isinstance(grading, NotRun) else grading.voided
        if run.record.contaminated is None and voided is None:
            continue
        where = f"{case_name(case)}, run {run.record.key.run} {run.record.key.arm.value}"
        if run.record.contaminated is not None:
            reasons.append(f"{where}: the pair is contaminated: {run.record.contaminated}")
        if voided is not None:
            reasons.append(f"{where}: the judge's batch is void: {voided}")
    return tuple(reasons)


def _removals(record: SkillRecord) -> list[str]:
    plan = record.plan
    removals = sorted(plan.suite_removals)
    had = plan.base_suite is not None and bool(plan.base_suite.cases)
    unreadable = any(finding.blocks for finding in plan.findings)
    # Of a skill that is still there, intake has said what is gone: only it knows what the branch had when it left.
    if not removals and not unreadable and had and plan.suite is None:
        what = (
            "the skill and its suite were deleted"
            if plan.change.kind is ChangeKind.DELETED
            else "the suite was deleted"
        )
        removals.append(f"{what} ({len(plan.base_suite.cases) if plan.base_suite else 0} cases on base)")
    return removals


def _no_evals(look: Look) -> list[str]:
    """2."""
    plan = look.record.plan
    if plan.change.kind is ChangeKind.DELETED:
        return []
    if plan.suite is None or not (plan.suite.cases or plan.suite.triggers):
        return ["the skill has no evals: nothing was run", *no_draft(look)]
    if not plan.suite.cases:
        return []  # trigger queries alone say something, and never enough for a pass
    severities = [item.severity for case in plan.suite.cases for item in case.checks]
    severities += [item.severity for case in plan.suite.cases for item in case.expectations]
    if set(severities) <= {Severity.INFO}:
        count = len(plan.suite.cases)
        return [f"{count} {plural(count, 'case')} in {plan.suite.path}, and not one check or expectation that counts"]
    return []


def _blocked(look: Look) -> list[str]:
    """3."""
    planned = look.record.plan.cases
    if not planned or look.record.plan.not_measured is not None:
        return []
    if any(case.blocked is None for case in planned):
        return no_longer_run(look)
    reasons = sorted({case.blocked for case in planned if case.blocked is not None})
    return [f"no case can run: {reason}" for reason in reasons]


def _not_measured(look: Look) -> list[str]:
    """4."""
    cause = _cause(look)
    if cause is None:
        return []
    if look.record.plan.not_measured is not None:
        return [look.record.plan.not_measured]
    if cause is NotMeasuredCause.DELETED:
        return ["the skill was deleted: there is nothing to run"]
    if cause is NotMeasuredCause.OVER_BUDGET:
        why = look.record.over_budget or "a cap was reached before the planned runs were done"
        return [f"over budget: {why}", *_partial(look)]
    opened = look.activation
    return [
        (
            f"the skill was offered and opened in {opened.passed} of {opened.total} completed with-runs: both arms did the "
            "same work, so no figure says anything about it; say in the description when to use the skill"
        )
    ]


TRIMMED = (
    "discussions",
    "analyses",
    "blind comparisons",
    "confirming runs",
    "filling runs",
    "planned runs and their grades",
)
"""What a cap takes away, first to last: the order of the pipeline backwards, so that money goes to verdicts first."""


def _partial(look: Look) -> list[str]:
    counts = [figures.planned_runs(look.cases, arm) for arm in COMPARED_ARMS]
    planned, finished = sum(count[0] for count in counts), sum(count[1] for count in counts)
    return [
        (
            f"{finished} of {planned} runs finished before; their figures stand below and are no verdict; a cap takes away, "
            f"in this order: {', '.join(TRIMMED)}"
        )
    ]


def _cause(look: Look) -> NotMeasuredCause | None:
    plan = look.record.plan
    if plan.not_measured is not None:
        # A reason of unknown kind is read as the strictest one: it must not become a green by omission.
        return plan.not_measured_cause or NotMeasuredCause.NO_KEY
    if plan.change.kind is ChangeKind.DELETED:
        return NotMeasuredCause.DELETED
    if look.record.over_budget is not None or any(
        run.record.outcome is Outcome.OVER_BUDGET and run.record.key.arm in COMPARED_ARMS
        for case in look.cases
        for run in case.runs
    ):
        return NotMeasuredCause.OVER_BUDGET
    opened = look.activation
    return NotMeasuredCause.NOT_OPENED if opened.total >= 2 and opened.passed == 0 else None


def _error(look: Look) -> list[str]:
    """5. A case whose with-runs all ended by the agent's doing is measured: that counts against the skill, here not."""
    reasons = sorted(look.record.errors)
    share = look.thresholds.finished_share
    for arm in COMPARED_ARMS:
        planned, finished = figures.planned_runs(look.cases, arm)
        if planned and finished < share * planned:
            reasons.append(
                f"{finished} of {planned} planned {arm.value} runs finished, under {share:.0%}{_why_lost(look, arm)}"
            )
    known = {figures.plan_key(case.plan) for case in look.cases}
    lost = [plan for plan in look.record.plan.cases if plan.blocked is None and figures.plan_key(plan) not in known]
    reasons += [f"eval {plan.case.eval_id} was planned and has no record" for plan in lost]
    for case in look.runnable:
        if not usable_runs(case, Arm.WITH_SKILL):
            why = f": {'; '.join(sorted(case.missing))}" if case.missing else ""
            reasons.append(f"{case_name(case)} has no finished with-run{why}")
    if not look.runnable and not lost:
        reasons.append("no case was planned, so nothing was measured")
    reasons += _nobody_answered(look)
    reasons += _missing_layers(look)
    if not reasons and not look.rate.total and look.triggers is None:
        reasons.append("no case of the head suite was measured")
    return reasons


def _why_lost(look: Look, arm: Arm) -> str:
    """What most runs of an arm that did not finish were stopped by."""
    start = f"{arm.value} run "
    causes = [text.split(": ", 1)[-1] for case in look.cases for text in case.missing if text.startswith(start)]
    if not causes:
        return ""
    cause, count = Counter(sorted(causes)).most_common(1)[0]
    return f": {cause}" if count == len(causes) else f"; most often ({count} of {len(causes)}): {cause}"


def _nobody_answered(look: Look) -> list[str]:
    """No run of any arm gave an answer or a file: that is the model or its provider, whatever the skill says.

    Asked only where there is an arm without the change to compare with: a skill may well keep an agent from answering.
    """
    runs = {arm: [run for case in look.runnable for run in usable_runs(case, arm)] for arm in COMPARED_ARMS}
    if not runs[Arm.WITH_SKILL] or not any(found for arm, found in runs.items() if arm is not Arm.WITH_SKILL):
        return []
    if any(_gave_something(run.record) for found in runs.values() for run in found):
        return []
    total = sum(map(len, runs.values()))
    return [f"the model gave no answer and made no file in any of {total} runs, with or without the skill"]


def _gave_something(record: RunRecord) -> bool:
    """Whether a run has an answer, a file of its own, or opened the skill: the model was at work."""
    made = any(file.fixture != "unchanged" for file in record.files)
    return made or bool((record.response or "").strip()) or record.metrics.activated


def _missing_layers(look: Look) -> list[str]:
    reasons = [reason for case in look.runnable for reason in _silent_checks(case)]
    for arm in COMPARED_ARMS:
        graded = figures.graded_share(look.runnable, arm)
        if graded.total and graded.passed < look.thresholds.graded_share * graded.total:
            reasons.append(
                f"{graded.passed} of {graded.total} expectations of the {arm.value} runs were graded, under "
                f"{look.thresholds.graded_share:.0%}{_why_ungraded(look, arm)}"
            )
    return reasons


@remembered_of_runs
def _silent_checks(case: CaseRecord) -> tuple[str, ...]:
    reasons: list[str] = []
    for arm in COMPARED_ARMS:
        asked = [check.id for check in case.plan.case.checks if check.applies_to(arm.value)]
        silent = [
            run.record.key.run
            for run in usable_runs(case, arm)
            if run.record.completed and any(check_result(run, check_id) is None for check_id in asked)
        ]
        if silent:
            reasons.append(f"{case_name(case)}: checks without a result in {arm.value} {run_numbers(silent)}")
    return tuple(reasons)


def _why_ungraded(look: Look, arm: Arm) -> str:
    reasons = {
        run.judgement.grading.not_run
        for case in look.runnable
        for run in usable_runs(case, arm)
        if isinstance(run.judgement.grading, NotRun) and run.record.completed and case.plan.case.expectations
    }
    return f": {'; '.join(sorted(reasons))}" if reasons else ""


def _fail(look: Look) -> list[str]:
    """6."""
    charges, vetoes = charges_against(look), (*found_vetoes(look), *taken_away(look))
    confirmed = [charge.sentence for charge in charges if charge.confirmed]
    if not confirmed and not vetoes:
        return []
    open_charges = [f"{charge.sentence}; {charge.why_open}" for charge in charges if not charge.confirmed]
    return [*vetoes, *confirmed, *open_charges]


def _refuted(look: Look) -> list[str]:
    """What the agent claimed in runs with the skill and its own record refutes, as one note."""
    said = [
        (case, clause)
        for case in look.runnable
        for run in usable_runs(case, Arm.WITH_SKILL)
        for _, clause in refuted_claims(run)
    ]
    if not said:
        return []
    count, (case, clause) = len(said), said[0]
    named = case_names([item for item in look.runnable if item in [one for one, _ in said]])
    return [
        f"{count} {plural(count, 'claim')} of the agent refuted by its own record ({named}); {case_name(case)}: {clause}"
    ]


def _unguarded(look: Look) -> list[str]:
    found = looked_for(look.runnable)
    return [f"{HARMS[guard]} ({veto})" for guard, veto in VETOES.items() if guard not in found]


def _vetoed(look: Look) -> bool:
    return bool(found_vetoes(look)) or any(charge.veto and charge.confirmed for charge in charges_against(look))


def _inconclusive(look: Look) -> list[str]:
    """7."""
    reasons = [f"{charge.sentence}; {charge.why_open}" for charge in charges_against(look)]
    reasons += no_baseline(look)
    reasons += [reason for case in look.runnable for reason in _mixed(case)]
    threshold = look.thresholds.threshold
    # What head brings along must not hide what became of the cases that base has too: each is looked at without the other.
    rates = [(look.rate, "cases")]
    if look.known_cases is not look.head_cases:
        rates.append((figures.authoritative(look.known_cases), "cases that base has too"))
    for rate, cases in rates:
        if rate.rate is not None and rate.rate < threshold:
            upper = statistics.clopper_pearson_upper(rate.passed, rate.total)
            reasons.append(
                f"{rate.passed} of {rate.total} {cases} passed, below the threshold of {threshold:.2f}, but the exact upper "
                f"95 % bound is {upper:.2f}; {cases_to_decide(rate, threshold)}"
            )
    for compared in (look.work,) if look.known_work is look.work else (look.work, look.known_work):
        lost, won = lost_and_won(compared, Arm.BASE_SKILL, confirm=True)
        p = statistics.sign_test(len(lost), len(won))
        if len(lost) > len(won) and p <= DOUBT_LEVEL:
            where = "" if compared is look.work else " of the base suite"
            reasons.append(
                f"head passes fewer cases{where} than {base_word(look)}: {len(lost)} lost ({case_names(lost)}), {len(won)} won, one-sided "
                f"exact p = {p:.3f}; {losses_to_decide(len(lost), len(won), BLOCKING_LEVEL / blocking_family(look))}"
            )
    return list(dict.fromkeys(reasons))


@remembered_of_runs
def _mixed(case: CaseRecord) -> tuple[str, ...]:
    """``must`` assertions that passed in some with-runs and failed in others."""
    runs = usable_runs(case, Arm.WITH_SKILL)
    tallies = [(item, tally(runs, item)) for item in figures.owed(case) if item.severity is Severity.MUST]
    return tuple(mixed_sentence(case, item, counts, runs) for item, counts in tallies if counts.mixed)


def _conditional(look: Look) -> list[str]:
    """8."""
    reasons = [mode_sentence(look.mode)] if look.mode in (Mode.SMOKE, Mode.QUICK) else []
    reasons += [reason for case in look.runnable for reason in _case_conditions(case)]
    reasons += trigger_reasons(look.triggers, look.thresholds.threshold)
    reasons += partial_baseline(look)
    reasons += never_there(look)
    reasons += _shut(look)
    if look.runnable and not ordinary(look.runnable):
        reasons.append("only trigger queries were asked: no case says what the skill does once it is opened")
    reasons += _grade_reasons(look)
    if (look.rate.rate or 0) >= look.thresholds.threshold and look.duel.p_lost <= figures.WIN_LEVEL:
        lost = "the blind comparison is lost" if look.duel.loses else "more comparisons are lost than chance would give"
        reasons.append(f"the cases pass, yet {lost}: {score(look)}, one-sided exact p = {look.duel.p_lost:.3f}")
    plan = look.record.plan
    if plan.suite is not None and plan.suite.generated:
        reasons.append("the suite was generated, not written by its author")
    reasons += contract_reasons(look)
    reasons += [
        f"{item.rule}: {place_of(item)}: {item.message}"
        for item in _findings(look.record)
        if limits(item) and look.waived(item.rule) is None
    ]
    reasons += _waiver_reasons(look)
    blocked = [case for case in look.cases if case.plan.blocked is not None]
    if blocked:
        reasons.append(f"{len(blocked)} of {len(look.cases)} cases could not run ({case_names(blocked)})")
    if look.needs_judge and not look.health.answered and look.stored is None:
        reasons.append(look.health.sentence)
    reasons += [
        f"{figures.stored_sentence(item)}: its verdicts mean little"
        for item in look.stored or ()
        if figures.is_weak(item)
    ]
    return [*reasons, *_strict_reasons(look)]


def _shut(look: Look) -> list[str]:
    """Opened less often than on base: what its cases say then says less of it, however many of them pass.

    Few cases are enough where head is opened in none of the runs of a case and base in all of them.
    """
    for cases in (look.known_openings, look.openings):
        asked = ordinary(cases)
        clear = tuple(tuple(case for case in asked if turned(case) is way) for way in (False, True))
        counted = shut_and_opened(cases, confirm=True)
        for level, (shut, opened) in ((BLOCKING_LEVEL, counted), (DOUBT_LEVEL, clear)):
            p = statistics.sign_test(len(shut), len(opened))
            if len(shut) <= len(opened) or p > level:
                continue
            return [
                (
                    f"the skill is opened less often than on base: in {len(shut)} {plural(len(shut), 'case')} "
                    f"({case_names(shut)}), more often in {len(opened)}, one-sided exact p = {p:.3f}; say in the description "
                    "when to use it"
                )
            ]
    return []


@remembered_of_runs
def _case_conditions(case: CaseRecord) -> tuple[str, ...]:
    """Too few completed with-runs, a ``should`` failing in most of them, missing verdicts that could still turn one."""
    reasons: list[str] = []
    if is_trigger(case):
        return ()  # judged together, by their rates
    runs = usable_runs(case, Arm.WITH_SKILL)
    completed = sum(run.record.completed for run in runs)
    if completed < 2:
        reasons.append(f"{case_name(case)} has {completed} completed with-{plural(completed, 'run')}; a pass needs 2")
    for assertion in figures.owed(case):
        counts = tally(runs, assertion)
        if assertion.severity is Severity.SHOULD and 2 * counts.failed > counts.total:
            failing = failing_runs(runs, assertion)
            reasons.append(
                f"{case_name(case)}: {assertion.label} failed in {counts.failed} of {counts.total} with-runs "
                f"({run_numbers([run.record.key.run for run in failing])}): {evidence(failing[-1], assertion)}"
            )
        elif counts.majority is None and counts.total:
            reasons.append(
                f"{case_name(case)}: {assertion.label} has no verdict in {counts.unknown} of {counts.total} with-runs"
            )
    return tuple(reasons)


def _grade_reasons(look: Look) -> list[str]:
    reasons: list[str] = []
    crashed = figures.crashes(look.runnable)
    if crashed.total and crashed.passed > CRASH_LEVEL * crashed.total:
        reasons.append(
            f"V4: {crashed.passed} of {crashed.total} with-runs crashed or gave no answer, over {CRASH_LEVEL:.0%}"
        )
    if look.lift is not None and look.lift.delta < 0:
        reasons.append(f"V8: negative lift: {lift_words(look)}")
    grade = figures.letter(look.source_rate, vetoed=False)
    if grade in ("C", "D"):
        reasons.append(
            f"release grade {grade}: {look.source_rate.passed} of {look.source_rate.total} single assertions passed"
        )
    return reasons


def _waiver_reasons(look: Look) -> list[str]:
    plan = look.record.plan
    rules = [SUITE_REMOVAL] if _removals(look.record) else []
    rules += [
        item.rule for item in _findings(look.record) if item.blocks or limits(item) or item in plan.manifest_findings
    ]
    used = {waiver for rule in rules if (waiver := look.waived(rule)) is not None}
    return [
        f"{waiver.rule} is waived until {waiver.expires} by {waiver.owner}"
        + (f": {waiver.reason}" if waiver.reason else "")
        for waiver in sorted(used, key=lambda item: (item.rule, item.owner, item.expires))
    ]


def _strict_reasons(look: Look) -> list[str]:
    reasons: list[str] = []
    strict = look.enforce is Enforce.STRICT
    if strict or look.require_layer3:
        offered = [case for case in look.head_cases if case.plan.case.type in LAYER3_TYPES]
        silent = [case for case in offered if figures.outcome_of(case) is None]
        if not offered:
            reasons.append("Layer 3 is required, and no case is of a type that it compares (happy_path, e2e)")
        elif silent:
            reasons.append(f"Layer 3 is required and did not run for {case_names(silent)}")
    if strict and look.record.plan.base is not None:
        reasons += _paired_bound_reasons(look)
    return reasons


def _paired_bound_reasons(look: Look) -> list[str]:
    delta = look.thresholds.release_delta
    cells = {(True, True): 0, (True, False): 0, (False, True): 0, (False, False): 0}
    for case in look.runnable:
        if case.recorded is not None:
            heads, base = usable_runs(case, Arm.WITH_SKILL), case.recorded.case.passed
        else:
            heads, bases = paired_runs(case, Arm.WITH_SKILL, Arm.BASE_SKILL)
            base = passed_over(case, bases)
        head = passed_over(case, heads)
        if base is not None and heads:
            cells[head is True, base] += 1
    pairs = sum(cells.values())
    if not pairs:
        return ["strict asks for a bound on the drop against base, and no case ran on both"]
    low = statistics.paired_difference(
        cells[True, True], cells[True, False], cells[False, True], cells[False, False]
    ).low
    if low > -delta:
        return []
    needed = next(n for n in range(1, 10_000) if statistics.paired_difference(n, 0, 0, 0).low > -delta)
    return [
        (
            f"a drop of up to {-low:.2f} against base cannot be excluded with {pairs} {plural(pairs, 'case')} (strict asks for "
            f"under {delta:.2f}); {needed} cases that pass on both prove it, or set release_delta in the base policy"
        )
    ]


def _run_order(run: JudgedRun) -> tuple[object, ...]:
    return (run.record.key.run, run.record.key.arm.value, run.record.purpose, run.record.seal)


def _name(record: SkillRecord) -> str:
    skill = record.plan.head or record.plan.base
    return skill.name if skill is not None and skill.name else record.plan.change.path


def _findings(record: SkillRecord) -> tuple[Finding, ...]:
    order = {Level.ERROR: 0, Level.WARNING: 1, Level.NOTICE: 2}
    return tuple(
        sorted(
            (*record.plan.findings, *record.plan.manifest_findings),
            key=lambda item: (not item.blocks, order[item.level], item.path, item.line or 0, item.rule, item.message),
        )
    )


RULES: tuple[tuple[Verdict, Callable[[Look], list[str]]], ...] = (
    (Verdict.INVALID, _invalid),
    (Verdict.NO_EVALS, _no_evals),
    (Verdict.BLOCKED, _blocked),
    (Verdict.NOT_MEASURED, _not_measured),
    (Verdict.ERROR, _error),
    (Verdict.FAIL, _fail),
    (Verdict.INCONCLUSIVE, _inconclusive),
    (Verdict.CONDITIONAL, _conditional),
)
