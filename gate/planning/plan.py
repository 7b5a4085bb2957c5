"""Intake and settings become a Plan: cases x arms x runs x layers, with the reason of each decision."""

from __future__ import annotations

from typing import Literal

from gate.domain.base import NotRun
from gate.domain.chat import Role
from gate.domain.contract import MAX_REVIEW_ROUNDS
from gate.domain.findings import Finding, Level
from gate.domain.intake import Intake, SkillIntake
from gate.domain.numbers import counted
from gate.domain.plan import (
    OPTIONAL_ARMS,
    SUITE_REMOVAL,
    Arm,
    ArmPlan,
    CasePlan,
    Mode,
    NotMeasuredCause,
    Plan,
    RunKey,
    RunRequest,
    SkillPlan,
    case_folder,
)
from gate.domain.preflight import blocked_reason
from gate.domain.report import CaseRecord
from gate.domain.skill import ChangeKind, Skill, SkillType, is_agent_visible
from gate.domain.suite import Case, CaseType, Suite
from gate.planning import triggers
from gate.planning.dispatch import (
    detect_type,
    done_without,
    limits_for,
    limits_reason,
    missing_servers,
    needs_no_baseline,
    not_offered,
)
from gate.planning.modes import (
    LISTING_ARMS,
    RULES,
    ModeRule,
    arms_of,
    discussion_scope,
    layer3_scope,
    runs_of,
    skips_baseline,
)
from gate.planning.real_servers import real_notes, real_refused
from gate.settings import Settings

_GRADED_TOGETHER = 15
"""``gate.judging.grader.ROWS_PER_QUESTION``, which planning must not import; a test holds them equal."""
# Per call, for the estimate only: R137, R138 give the comparator's and the analyzer's, the others are measured medians.
_TOKENS_TURN, _TOKENS_GRADE, _TOKENS_COMPARE, _TOKENS_ANALYSE = 2500, 4000, 3000, 5000
_TOKENS_CONTRACT, _TOKENS_DISCUSS = 1500, 5000

NOT_OFFERED = "plan/not-offered"
"""``gate.decision.availability.NOT_OFFERED``, which planning must not import; a test holds them equal."""
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
        doomed = _doomed(found, settings, run_date)
        skill = _plan_skill(found, settings, session_id, doomed=doomed is not None)
        if skill.cases and skill.not_measured is None:
            measured += 1
            if measured > settings.policy.caps.skills_per_session:
                cap = settings.policy.caps.skills_per_session
                reason = f"over budget: only {counted(cap, 'skill')} a session"
                skill = _static_only(skill, NotMeasuredCause.OVER_BUDGET, reason).model_copy(update={"cases": ()})
        skills.append(skill)
    notes = [note for found in intake.skills if (note := _left_out(found, settings.mode, session_id)) is not None]
    notes += [note for found in intake.skills if (note := _not_golden(found, settings.mode)) is not None]
    notes += real_notes(skills, settings)
    notes += [
        f"{found.change.path}: nothing is run, as it is invalid whatever a run shows: {why}"
        for found in intake.skills
        if (why := _doomed(found, settings, run_date)) is not None
    ]
    calls, tokens = estimate(skills, settings)
    worst_calls, worst_tokens = estimate(skills, settings, worst=True)
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
        notes=tuple(notes),
    )


def _left_out(found: SkillIntake, mode: Mode, draw: str) -> str | None:
    """What is said where not all trigger queries of a suite are asked."""
    suite = found.suite
    if suite is None or not suite.triggers:
        return None
    if not _asks_triggers(suite, mode):
        count = len(suite.triggers)
        return f"{found.change.path}: mode {mode.value} does not ask its {counted(count, 'trigger query', 'trigger queries')}"
    every = {triggers.digest_of_query(item) for item in suite.triggers}
    asked = {case.digest for case, _ in _trigger_union(suite, found.base_suite, draw)} & every
    if asked == every:
        return None
    return f"{found.change.path}: {len(asked)} of {counted(len(every), 'trigger query', 'trigger queries')} are asked"


GOLDEN = "golden"
"""The tag of the cases that mode ``regression`` runs (origins 1.2)."""


def is_golden(case: Case) -> bool:
    """Whether the author marked a case as one that must never get worse (``tag: golden``)."""
    return (case.tag or "").strip().casefold() == GOLDEN


def _of_mode(
    pairs: list[tuple[Case, Literal["both", "base", "head"]]], mode: Mode
) -> tuple[list[tuple[Case, Literal["both", "base", "head"]]], str | None]:
    """The cases that the mode runs; where it finds none, all of them and why they cannot run."""
    if mode is not Mode.REGRESSION:
        return pairs, None
    golden = [(case, origin) for case, origin in pairs if is_golden(case)]
    if golden or not pairs:
        return golden, None
    return pairs, f"mode regression runs the cases with tag: {GOLDEN}, and no case of this suite has it"


def _not_golden(found: SkillIntake, mode: Mode) -> str | None:
    """What is said where mode ``regression`` leaves cases out."""
    if mode is not Mode.REGRESSION or found.suite is None:
        return None
    golden, total = sum(map(is_golden, found.suite.cases)), len(found.suite.cases)
    if not golden or golden == total:
        return None
    return f"{found.change.path}: mode regression runs {golden} of {counted(total, 'case')}, those with tag: {GOLDEN}"


def _asks_triggers(suite: Suite, mode: Mode) -> bool:
    return RULES[mode].triggers or not suite.cases


def _doomed(found: SkillIntake, settings: Settings, run_date: str) -> str | None:
    """Why the skill is ``invalid`` before anything ran (Decision 1), by what no waiver of the base policy accepts; None where
    it is not. Runs would cost money and could not change that."""
    policy = settings.policy.for_skill(found.change.path)

    def waived(rule: str) -> bool:
        return any(item.accepts(rule, found.change.path, run_date) for item in settings.policy.waivers)

    if found.suite_removals and found.head is not None and not waived(SUITE_REMOVAL):
        return found.suite_removals[0].removesuffix(".")
    blocking = [item for item in found.findings if item.blocks]
    blocking += [
        item
        for item in found.manifest_findings
        if item.blocks or (item.level is Level.ERROR and policy.manifest_errors == "block")
    ]
    return next((f"{item.rule}: {item.message}" for item in blocking if not waived(item.rule)), None)


def _plan_skill(found: SkillIntake, settings: Settings, draw: str, *, doomed: bool = False) -> SkillPlan:
    available = settings.policy.available_to(found.change.path)
    before = _runnable(found.base, found.base_suite, blocked_reason(found.base_preflight, available), settings)
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
        base_runnable=bool(before),
    )
    if found.change.kind is ChangeKind.DELETED:
        return _static_only(plan, NotMeasuredCause.DELETED, "the skill was deleted")
    if found.head is None:
        return plan
    skill_type, reason = detect_type(found.head, found.suite)
    plan = plan.model_copy(update={"type": skill_type, "type_reason": reason})
    if found.suite is None or doomed:
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
    pairs, ungolden = _of_mode(_union(found.suite, found.base_suite), settings.mode)
    if _asks_triggers(found.suite, settings.mode):
        pairs += _trigger_union(found.suite, found.base_suite, draw)
    pairs = _apart(pairs)
    own = settings.policy.for_skill(found.change.path)
    arms = arms_of(settings.mode, self_generated=own.self_generated, placebo=own.placebo)
    cases = [
        _plan_case(
            case,
            origin,
            found.head,
            found.base,
            skill_type,
            settings.mode,
            arms=arms,
            blocked_by=ungolden or _missing(found.head, case, found.suite) or blocked or real_refused(case, settings),
            ran_before=case.digest in before or (case.trigger is None and case.eval_id in before),
        )
        for case, origin in pairs
    ]
    caps = settings.policy.caps
    capped = [_with_run_caps(case, caps.tokens_per_run, caps.usd_per_run) for case in cases]
    unoffered = not_offered(found.head) if any(_needs_an_offer(case) for case, _ in pairs) else None
    return plan.model_copy(
        update={
            "cases": tuple(capped),
            "findings": (*plan.findings, *_found(found.head, capped, unoffered)),
            "not_offered": unoffered or "",
            "base_offered": found.base is not None and not_offered(found.base) is None,
        }
    )


def _needs_an_offer(case: Case) -> bool:
    """Whether an agent is to open the skill by itself."""
    return case.mode == "offered" and case.trigger is not False and case.type is not CaseType.NEGATIVE


def _found(head: Skill, cases: list[CasePlan], unoffered: str | None) -> list[Finding]:
    """What planning has to say to the author."""
    path = head.skill_md if head.path == "." else f"{head.path}/{head.skill_md}"
    findings = []
    if unoffered is not None:
        findings.append(
            Finding(
                rule=NOT_OFFERED,
                level=Level.WARNING,
                path=path,
                message=f"{unoffered}, so hosts do not offer this skill to the model; its cases were run as if they did",
                remedy="Take it out, or write cases with mode: loaded, which begin as a user's own call of the skill does.",
            )
        )
    lacking = [(case.case.eval_id, done_without(head, case.case)) for case in cases if case.blocked is None]
    without = [(eval_id, servers) for eval_id, servers in lacking if servers]
    ordinary = {case.case.eval_id for case in cases if case.case.trigger is None}
    without = [item for item in without if item[0] in ordinary]
    if without:
        names = sorted({server for _, servers in without for server in servers})
        message = (
            f"allowed-tools names tools of the MCP server{'s' if len(names) > 1 else ''} {', '.join(names)}, which "
            f"{len(without)} of {len(ordinary)} cases do not bring ({_some([eval_id for eval_id, _ in without])}): they "
            "were run without"
        )
        remedy = "Where such a case needs the server, give it a mock under mcp_servers."
        findings.append(
            Finding(rule="plan/server-not-brought", level=Level.NOTICE, path=path, message=message, remedy=remedy)
        )
    return findings


def _some(names: list[str], limit: int = 3) -> str:
    more = len(names) - limit
    return ", ".join(names[:limit]) + (f" and {more} more" if more > 0 else "")


def _with_run_caps(case: CasePlan, tokens: int, usd: float | None) -> CasePlan:
    """The same limits of tokens and money in every arm."""
    arms = tuple(
        arm.model_copy(update={"limits": arm.limits.model_copy(update={"tokens": tokens, "usd": usd})})
        for arm in case.arms
    )
    return case.model_copy(update={"arms": arms})


def _static_only(plan: SkillPlan, cause: NotMeasuredCause, reason: str) -> SkillPlan:
    return plan.model_copy(update={"not_measured": reason, "not_measured_cause": cause})


def _runnable(skill: Skill | None, suite: Suite | None, blocked: str | None, settings: Settings) -> frozenset[str]:
    """Ids and digests of the cases, and digests of the trigger queries, that a version could be run with.

    Where head cannot, that is the change's doing (DESIGN.md 4, state table).
    """
    if skill is None or suite is None or blocked is not None:
        return frozenset()
    cases = [
        case
        for case in suite.cases
        if (settings.mode is not Mode.REGRESSION or is_golden(case))
        and _missing(skill, case, suite) is None
        and real_refused(case, settings) is None
    ]
    names = {case.eval_id for case in cases} | {case.digest for case in cases if case.digest}
    if _asks_triggers(suite, settings.mode):
        queries, _ = triggers.trigger_cases(suite, draw="", most=len(suite.triggers))
        names |= {case.digest for case in queries if _missing(skill, case, suite) is None}
    return frozenset(names)


def _missing(skill: Skill, case: Case, suite: Suite | None) -> str | None:
    missing = missing_servers(skill, case, suite)
    return f"MCP server {missing[0]} is not available to this case" if missing else None


def _apart(
    pairs: list[tuple[Case, Literal["both", "base", "head"]]],
) -> list[tuple[Case, Literal["both", "base", "head"]]]:
    """The cases with ids by which no two are kept in one folder. Who writes ids can write any: ``x``, ``x@base``, ``eval-x``."""
    taken: set[str] = set()
    apart = []
    for case, origin in pairs:
        eval_id, number = case.eval_id, 2
        while case_folder("", eval_id) in taken:
            eval_id, number = f"{case.eval_id}~{number}", number + 1
        taken.add(case_folder("", eval_id))
        apart.append((case if eval_id == case.eval_id else case.model_copy(update={"eval_id": eval_id}), origin))
    return apart


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


def _trigger_union(head: Suite, base: Suite | None, draw: str) -> list[tuple[Case, Literal["both", "base", "head"]]]:
    """Trigger queries of both suites: those of the base first, so that none that head adds takes the place of one.

    One that head takes away, or turns, is asked as the base has it. Of head's own, as many as there is room for, and half
    of ``MOST_QUERIES`` at least.
    """
    theirs, _ = triggers.trigger_cases(base, draw=draw)
    known = {triggers.digest_of_query(item) for item in (base.triggers if base else ())}
    in_head = {triggers.digest_of_query(item) for item in head.triggers}
    kept = [case for case in theirs if case.digest in in_head]
    room = max(triggers.MOST_QUERIES - len(kept), triggers.MOST_QUERIES // 2)
    own, _ = triggers.trigger_cases(head, draw=draw, most=room, but=frozenset(known))
    ids = {case.eval_id for case in (*head.cases, *own)}
    cases: list[tuple[Case, Literal["both", "base", "head"]]] = [(case, "head") for case in own]
    for case in theirs:
        origin: Literal["both", "base"] = "both" if case.digest in in_head else "base"
        clashes = case.eval_id in ids
        cases.append((case.model_copy(update={"eval_id": f"{case.eval_id}@base"}) if clashes else case, origin))
    return cases


def _plan_case(
    case: Case,
    origin: Literal["both", "base", "head"],
    head: Skill,
    base: Skill | None,
    skill_type: SkillType,
    mode: Mode,
    *,
    arms: tuple[Arm, ...],
    blocked_by: str | None,
    ran_before: bool,
) -> CasePlan:
    blocked = blocked_by
    planned = []
    for arm in arms:
        skipped = _skip(arm, case, head, base, skill_type, mode)
        runs = 0 if skipped or blocked else runs_of(mode, arm, trigger=case.trigger is not None)
        limits = triggers.LIMITS if case.trigger is not None else limits_for(skill_type, arm)
        planned.append(
            ArmPlan(
                arm=arm,
                runs=runs,
                skipped=skipped,
                limits=limits,
                reason=_arm_reason(case, skill_type, ArmPlan(arm=arm, runs=runs, limits=limits), mode),
            )
        )
    compare = layer3_scope(mode, case.type)
    if case.trigger is not None:
        compare = NotRun(not_run="a trigger query has no work to compare")
    baseline = next(item for item in planned if item.arm is Arm.WITHOUT_SKILL)
    if compare is None and baseline.skipped:
        compare = NotRun(not_run=f"no baseline to compare with: {baseline.skipped}")
    if blocked:
        compare = NotRun(not_run=blocked)
    return CasePlan(
        case=case,
        arms=tuple(planned),
        compare=compare,
        blocked=blocked,
        blocked_by_change=blocked is not None and ran_before,
        origin=origin,
    )


def _arm_reason(case: Case, skill_type: SkillType, arm: ArmPlan, mode: Mode) -> str:
    if case.trigger is not None:
        limits = f"a trigger query: at most {arm.limits.steps} turns, over as soon as the skill is opened"
    else:
        limits = limits_reason(skill_type, arm.arm, arm.limits)
    return f"{limits}; {arm.runs} runs to start with in mode {mode.value}"


def _skip(arm: Arm, case: Case, head: Skill, base: Skill | None, skill_type: SkillType, mode: Mode) -> str | None:
    if case.trigger is not None and arm not in LISTING_ARMS:
        return "a trigger query is about the skill's own name and description"
    if arm is Arm.WITHOUT_SKILL:
        whole_mode = skips_baseline(mode, skill_type)
        if whole_mode:
            return whole_mode
        if case.skip_without_skill:
            return case.skip_reason or "the case says skip_without_skill"
        return needs_no_baseline(case)
    if arm is Arm.BASE_SKILL:
        if Arm.BASE_SKILL not in RULES[mode].runs:
            return f"mode {mode.value} has no base arm"
        if base is None:
            return "there is no readable version of the skill at the merge base"
        if case.trigger is not None and triggers.same_listing(base, head):
            return "name and description are the same at the merge base"
        if _agent_tree(base) == _agent_tree(head):
            return "what the agent reads is the same at the merge base"
    return None


def _agent_tree(skill: Skill) -> set[tuple[str, str, str]]:
    return {(file.path, file.mode, file.sha256) for file in skill.files if is_agent_visible(file.path)}


def _comparators(settings: Settings) -> int:
    """How many comparators are asked: two where one of a second family is named and may be."""
    second = settings.models is not None and Role.SECOND_COMPARATOR in settings.models.roles
    return 2 if second and settings.policy.second_judge != "off" else 1


def estimate(skills: list[SkillPlan], settings: Settings, *, worst: bool = False) -> tuple[int, int]:
    """(calls, tokens) of a session: typical, or at worst: every case filled and confirmed, every step and re-ask used."""
    calls = tokens = 0
    rule = RULES[settings.mode]
    for skill in skills:
        for case in skill.cases:
            arms = [(_worst_runs(arm.runs, rule) if worst else arm.runs, arm.limits.steps) for arm in case.arms]
            runs = sum(count for count, _ in arms)
            turns = sum(count * (steps if worst else max(2, steps // 2)) for count, steps in arms)
            again = 2 if worst else 1
            graded = runs * _grading_calls(len(case.case.expectations), settings, worst=worst)
            if worst and rule.confirm and runs:
                # The rows that a charge may rest on, asked again in the confirming run of head and of base.
                graded += 2 * 2 * -(-len(case.case.expectations) // _GRADED_TOGETHER)
            pairs = max((count for count, _ in arms), default=0) if rule.all_pairs else 1
            compared = 2 * pairs * again * _comparators(settings) if case.compare is None and runs else 0
            analysed = again if compared and rule.analyzer != "never" else 0
            signed = (2 * MAX_REVIEW_ROUNDS * again if worst else 2) if settings.policy.contract == "on" and runs else 0
            discussed = _discussion_calls(case, settings, worst=worst)
            calls += turns + graded + compared + analysed + signed + discussed
            tokens += turns * _TOKENS_TURN + graded * _TOKENS_GRADE
            tokens += signed * _TOKENS_CONTRACT + discussed * _TOKENS_DISCUSS
            tokens += compared * _TOKENS_COMPARE + analysed * _TOKENS_ANALYSE
    return calls, tokens


def room_for(case: CasePlan, settings: Settings) -> int:
    """Model calls of one case that takes everything it may without anything going wrong more than once: filled and confirmed,
    every turn of every run taken, every question to a judge asked twice. 0 where it does not run."""
    rule = RULES[settings.mode]
    arms = [(_worst_runs(arm.runs, rule), arm.limits.steps) for arm in case.arms]
    runs = sum(count for count, _ in arms)
    if not runs:
        return 0
    asked = runs * _grading_calls(len(case.case.expectations), settings, worst=False)
    if rule.confirm:
        asked += 2 * -(-len(case.case.expectations) // _GRADED_TOGETHER)  # the rows that a charge may rest on
    if case.compare is None:
        pairs = max(count for count, _ in arms) if rule.all_pairs else 1
        asked += 2 * pairs * _comparators(settings) + (rule.analyzer != "never")
    turns = sum(count * steps for count, steps in arms)
    return turns + 2 * asked + _discussion_calls(case, settings, worst=True)


def _grading_calls(expectations: int, settings: Settings, *, worst: bool) -> int:
    """Questions to the graders about one run (``gate.judging.grader``): one a batch and the second looks of the mode; at worst
    a batch that is voided and rows that are asked for again, every second look, and every reply asked for twice."""
    batches = -(-expectations // _GRADED_TOGETHER)
    spot_checks = 2 if RULES[settings.mode].twins else 0
    second = settings.policy.second_judge
    if not worst:
        return batches * (1 + spot_checks + (second == "on"))
    # Where a record speaks to a judge: the opposite, the question without what speaks, and the second judge's.
    return batches * 2 * (4 + max(spot_checks, 1) + (second != "off"))


def _discussion_calls(case: CasePlan, settings: Settings, *, worst: bool) -> int:
    """R214: a report, both sides, mostly no new evaluation; at worst every round with one, and every reply asked for twice."""
    arm = case.arm(Arm.WITH_SKILL)
    if arm is None or discussion_scope(settings.mode, case.case.risk, Arm.WITH_SKILL) is not None:
        return 0
    if not worst:
        return arm.runs * 3
    return _worst_runs(arm.runs, RULES[settings.mode]) * 2 * (2 + 3 * settings.policy.discussion_rounds)


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
        arm.arm: (_next_number(record, arm.arm), target) for arm in record.plan.arms if arm.runs and _is_compared(arm)
    }
    return _requests(skill, record.plan, spans, "fill")


def confirm_requests(skill: SkillPlan, record: CaseRecord, mode: Mode) -> list[RunRequest]:
    """One more run of each compared arm of a case (DESIGN.md 4, confirm)."""
    if not RULES[mode].confirm:
        return []
    spans = {}
    for arm in record.plan.arms:
        if arm.runs and _is_compared(arm):
            number = _next_number(record, arm.arm)
            spans[arm.arm] = (number, number)
    return _requests(skill, record.plan, spans, "confirm")


def _is_compared(arm: ArmPlan) -> bool:
    return arm.skipped is None and arm.arm not in OPTIONAL_ARMS


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
                # What an optional arm gets instead of the skill is made when its runs begin (gate.execution.stand_ins).
                given = {Arm.WITH_SKILL: skill.head, Arm.BASE_SKILL: skill.base}.get(arm.arm)
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
