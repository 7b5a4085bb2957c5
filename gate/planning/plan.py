"""Intake and settings become a Plan: cases x arms x runs x layers, with the reason of each decision."""

from __future__ import annotations

from typing import Literal

from gate.domain.base import NotRun
from gate.domain.intake import Intake, SkillIntake
from gate.domain.plan import Arm, ArmPlan, CasePlan, Mode, NotMeasuredCause, Plan, RunKey, RunRequest, SkillPlan
from gate.domain.preflight import blocked_reason
from gate.domain.report import CaseRecord
from gate.domain.skill import ChangeKind, Skill, SkillType, is_agent_visible
from gate.domain.suite import Case, Suite
from gate.planning.dispatch import detect_type, limits_for, missing_servers
from gate.planning.modes import RULES, ModeRule, layer3_scope, skips_baseline
from gate.settings import Settings

# Per call, for the estimate only: R137, R138 give the comparator's and the analyzer's, the others are measured medians.
_TOKENS_TURN, _TOKENS_GRADE, _TOKENS_COMPARE, _TOKENS_ANALYSE = 2500, 4000, 3000, 5000

STATIC_REASONS = {
    NotMeasuredCause.FORK: "the change comes from a fork, whose runs get no key",
    NotMeasuredCause.DEPENDABOT: "the change comes from Dependabot, whose runs get no key",
    NotMeasuredCause.DRAFT: "the pull request is a draft",
}
"""Why ``Settings.static_only`` leaves everything but the static layers out."""


def plan_session(intake: Intake, settings: Settings, *, session_id: str, run_date: str) -> Plan:
    """Plan one session. Nothing is run and no model is asked."""
    skills = []
    measured = 0
    for found in intake.skills:
        skill = _plan_skill(found, settings)
        if skill.cases and skill.not_measured is None:
            measured += 1
            if measured > settings.policy.caps.skills_per_session:
                cap = settings.policy.caps.skills_per_session
                reason = f"over budget: only {cap} skills a session"
                skill = _static_only(skill, NotMeasuredCause.OVER_BUDGET, reason).model_copy(update={"cases": ()})
        skills.append(skill)
    calls, tokens = _estimate(skills, settings.mode)
    worst_calls, worst_tokens = _estimate(skills, settings.mode, worst=True)
    return Plan(
        session_id=session_id,
        mode=settings.mode,
        enforce=settings.enforce,
        run_date=run_date,
        base_commit=intake.base_commit,
        head_commit=intake.head_commit,
        skills=tuple(skills),
        estimated_calls=calls,
        estimated_tokens=tokens,
        worst_calls=worst_calls,
        worst_tokens=worst_tokens,
    )


def _plan_skill(found: SkillIntake, settings: Settings) -> SkillPlan:
    available = settings.policy.available_to(found.change.path)
    plan = SkillPlan(
        change=found.change,
        slug=found.slug,
        head=found.head,
        base=found.base,
        suite=found.suite,
        base_suite=found.base_suite,
        findings=found.findings,
        manifest_findings=found.manifest_findings,
        manifests=found.manifests,
        preflight=found.preflight,
        suite_removals=found.suite_removals,
        base_runnable=_runnable(found.base, found.base_suite, blocked_reason(found.base_preflight, available)),
    )
    if found.change.kind is ChangeKind.DELETED:
        return _static_only(plan, NotMeasuredCause.DELETED, "the skill was deleted")
    if found.head is None:
        return plan
    skill_type, reason = detect_type(found.head, found.suite)
    plan = plan.model_copy(update={"type": skill_type, "type_reason": reason})
    if found.suite is None or found.invalid:
        return plan
    # Before everything that waits for somebody: a run that nothing is to be learnt from need not be waited for.
    if not found.change.agent_visible:
        return _static_only(plan, NotMeasuredCause.NO_AGENT_FILE, "no file changed that an agent reads")
    if settings.static_only is not None:
        return _static_only(plan, settings.static_only, STATIC_REASONS[settings.static_only])
    if settings.models is None:
        reason = "no model key: set ANTHROPIC_API_KEY or OPENAI_API_KEY, or name a model with --model"
        return _static_only(plan, NotMeasuredCause.NO_KEY, reason)
    blocked = blocked_reason(found.preflight, available)
    cases = [
        _plan_case(case, origin, found.head, found.base, skill_type, settings.mode, blocked_skill=blocked)
        for case, origin in _union(found.suite, found.base_suite)
    ]
    return plan.model_copy(update={"cases": tuple(cases)})


def _static_only(plan: SkillPlan, cause: NotMeasuredCause, reason: str) -> SkillPlan:
    return plan.model_copy(update={"not_measured": reason, "not_measured_cause": cause})


def _runnable(skill: Skill | None, suite: Suite | None, blocked: str | None) -> bool:
    """Whether a version could be run: then a head that cannot is the change's doing (DESIGN.md 4, state table)."""
    if skill is None or suite is None or blocked is not None:
        return False
    return any(not missing_servers(skill, case) for case in suite.cases)


def _union(head: Suite, base: Suite | None) -> list[tuple[Case, Literal["both", "base", "head"]]]:
    """Cases of both suites by (eval_id, digest). A base case that head changed keeps running as ``<id>@base``."""
    in_base = {(case.eval_id, case.digest) for case in base.cases} if base else set()
    in_head = {(case.eval_id, case.digest) for case in head.cases}
    ids = {case.eval_id for case in head.cases}
    cases: list[tuple[Case, Literal["both", "base", "head"]]] = [
        (case, "both" if (case.eval_id, case.digest) in in_base else "head") for case in head.cases
    ]
    for case in base.cases if base else ():
        if (case.eval_id, case.digest) not in in_head:
            clashes = case.eval_id in ids
            cases.append((case.model_copy(update={"eval_id": f"{case.eval_id}@base"}) if clashes else case, "base"))
    return cases


def _plan_case(
    case: Case,
    origin: Literal["both", "base", "head"],
    head: Skill,
    base: Skill | None,
    skill_type: SkillType,
    mode: Mode,
    *,
    blocked_skill: str | None,
) -> CasePlan:
    rule = RULES[mode]
    missing = missing_servers(head, case)
    blocked = f"MCP server {missing[0]} is not available to this case" if missing else blocked_skill
    arms = []
    for arm in Arm:
        skipped = _skip(arm, case, head, base, skill_type, mode)
        arms.append(
            ArmPlan(
                arm=arm,
                runs=0 if skipped or blocked else rule.runs.get(arm, 0),
                skipped=skipped,
                limits=limits_for(skill_type, arm),
            )
        )
    compare = layer3_scope(mode, case.type)
    baseline = next(item for item in arms if item.arm is Arm.WITHOUT_SKILL)
    if compare is None and baseline.skipped:
        compare = NotRun(not_run=f"no baseline to compare with: {baseline.skipped}")
    if blocked:
        compare = NotRun(not_run=blocked)
    return CasePlan(case=case, arms=tuple(arms), compare=compare, blocked=blocked, origin=origin)


def _skip(arm: Arm, case: Case, head: Skill, base: Skill | None, skill_type: SkillType, mode: Mode) -> str | None:
    if arm is Arm.WITHOUT_SKILL:
        whole_mode = skips_baseline(mode, skill_type)
        if whole_mode:
            return whole_mode
        if case.skip_without_skill:
            return case.skip_reason or "the case says skip_without_skill"
    if arm is Arm.BASE_SKILL:
        if Arm.BASE_SKILL not in RULES[mode].runs:
            return f"mode {mode.value} has no base arm"
        if base is None:
            return "there is no readable version of the skill at the merge base"
        if _agent_tree(base) == _agent_tree(head):
            return "what the agent reads is the same at the merge base"
    return None


def _agent_tree(skill: Skill) -> set[tuple[str, str, str]]:
    return {(file.path, file.mode, file.sha256) for file in skill.files if is_agent_visible(file.path)}


def _estimate(skills: list[SkillPlan], mode: Mode, *, worst: bool = False) -> tuple[int, int]:
    """(calls, tokens) of a session: typical, or at worst: every case filled and confirmed, every step and re-ask used."""
    calls = tokens = 0
    rule = RULES[mode]
    for skill in skills:
        for case in skill.cases:
            arms = [(_worst_runs(arm.runs, rule) if worst else arm.runs, arm.limits.steps) for arm in case.arms]
            runs = sum(count for count, _ in arms)
            turns = sum(count * (steps if worst else max(2, steps // 2)) for count, steps in arms)
            again = 2 if worst else 1
            graded = again * runs if case.case.expectations else 0
            pairs = max((count for count, _ in arms), default=0) if rule.all_pairs else 1
            compared = 2 * pairs * again if case.compare is None and runs else 0
            analysed = again if compared and rule.analyzer != "never" else 0
            calls += turns + graded + compared + analysed
            tokens += turns * _TOKENS_TURN + graded * _TOKENS_GRADE
            tokens += compared * _TOKENS_COMPARE + analysed * _TOKENS_ANALYSE
    return calls, tokens


def _worst_runs(planned: int, rule: ModeRule) -> int:
    return (max(planned, rule.fill or 0) + rule.confirm) if planned else 0


def planned_requests(plan: Plan) -> list[RunRequest]:
    """The runs to begin with, arms of a pair side by side."""
    requests = []
    for skill in plan.skills:
        if skill.not_measured is None:
            for case in skill.cases:
                requests += _requests(skill, case, {arm.arm: (1, arm.runs) for arm in case.arms}, "planned")
    return requests


def fill_requests(skill: SkillPlan, record: CaseRecord, mode: Mode) -> list[RunRequest]:
    """Further runs up to the mode's fill for one undecided case."""
    target = RULES[mode].fill
    if target is None:
        return []
    spans = {
        arm.arm: (_next_number(record, arm.arm), target) for arm in record.plan.arms if arm.runs and arm.skipped is None
    }
    return _requests(skill, record.plan, spans, "fill")


def confirm_requests(skill: SkillPlan, record: CaseRecord, mode: Mode) -> list[RunRequest]:
    """One more run of each compared arm of a case (DESIGN.md 4, confirm)."""
    if not RULES[mode].confirm:
        return []
    spans = {}
    for arm in record.plan.arms:
        if arm.runs and arm.skipped is None:
            number = _next_number(record, arm.arm)
            spans[arm.arm] = (number, number)
    return _requests(skill, record.plan, spans, "confirm")


def _next_number(record: CaseRecord, arm: Arm) -> int:
    """One past the highest: a run whose seal is broken is missing from the record, and its number must not be reused."""
    return max((run.record.key.run for run in record.of(arm)), default=0) + 1


def _requests(
    skill: SkillPlan,
    case: CasePlan,
    spans: dict[Arm, tuple[int, int]],
    purpose: Literal["planned", "fill", "confirm"],
) -> list[RunRequest]:
    requests = []
    for number in range(1, max((last for _, last in spans.values()), default=0) + 1):
        for arm in case.arms:
            first, last = spans.get(arm.arm, (1, 0))
            if first <= number <= last:
                given = {Arm.WITH_SKILL: skill.head, Arm.BASE_SKILL: skill.base, Arm.WITHOUT_SKILL: None}[arm.arm]
                key = RunKey(
                    skill_path=skill.change.path,
                    slug=skill.slug,
                    eval_id=case.case.eval_id,
                    run=number,
                    arm=arm.arm,
                )
                requests.append(
                    RunRequest(
                        key=key,
                        case=case.case,
                        skill=given,
                        skill_type=skill.type,
                        limits=arm.limits,
                        purpose=purpose,
                        subjects=tuple(version for version in (skill.head, skill.base) if version is not None),
                    )
                )
    return requests
