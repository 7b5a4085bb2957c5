from __future__ import annotations

import pytest

from gate.domain.base import NotRun
from gate.domain.chat import Role
from gate.domain.findings import Finding, Level
from gate.domain.plan import Arm, Mode, NotMeasuredCause, Plan, SkillPlan
from gate.domain.skill import ChangeKind
from gate.domain.suite import CaseType, McpServer, TriggerCase
from gate.planning import plan_session, planned_requests
from gate.planning.plan import STATIC_REASONS
from gate.settings import Caps, ModelChoice, Policy, Settings
from tests.builders_skill import a_case, a_skill, a_skill_intake, a_suite, an_intake, some_settings


def planned(*skills: object, **settings: object) -> Plan:
    chosen: Settings = some_settings(**settings)
    return plan_session(an_intake(*skills), chosen, session_id="s", run_date="2026-01-31")  # type: ignore[arg-type]


def the_skill(plan: Plan) -> SkillPlan:
    assert len(plan.skills) == 1
    return plan.skills[0]


def runs(plan: Plan) -> dict[str, int]:
    return {arm.arm.value: arm.runs for arm in the_skill(plan).cases[0].arms}


@pytest.mark.requirements("R51", "R107", "R108", "R111")
@pytest.mark.parametrize(
    ("mode", "expected", "compared"),
    [
        (Mode.SMOKE, {"with_skill": 1, "without_skill": 0, "base_skill": 0}, False),
        (Mode.QUICK, {"with_skill": 2, "without_skill": 2, "base_skill": 0}, False),
        (Mode.STANDARD, {"with_skill": 2, "without_skill": 1, "base_skill": 1}, True),
        (Mode.FULL, {"with_skill": 3, "without_skill": 3, "base_skill": 3}, True),
    ],
)
def test_each_mode_plans_its_runs_and_its_layers(mode: Mode, expected: dict[str, int], compared: bool) -> None:
    plan = planned(mode=mode)
    assert runs(plan) == expected
    assert (the_skill(plan).cases[0].compare is None) is compared
    assert len(planned_requests(plan)) == sum(expected.values())


@pytest.mark.requirements("R46")
def test_happy_path_and_e2e_cases_are_compared_and_no_other_type() -> None:
    for case_type in CaseType:
        suite = a_suite(a_case(type=case_type))
        case = the_skill(planned(a_skill_intake(suite=suite, base_suite=suite))).cases[0]
        assert (case.compare is None) is (case_type in (CaseType.HAPPY_PATH, CaseType.E2E))


@pytest.mark.requirements("R112")
def test_quick_leaves_the_baseline_of_an_mcp_skill_out_and_says_why() -> None:
    suite = a_suite(a_case(mcp_servers=(McpServer(name="tickets"),)))
    plan = planned(a_skill_intake(suite=suite, base_suite=suite), mode=Mode.QUICK)
    arm = the_skill(plan).cases[0].arm(Arm.WITHOUT_SKILL)
    assert arm is not None
    assert arm.runs == 0
    assert arm.skipped == "mode quick has no baseline for mcp_based skills"


def test_a_case_may_skip_its_baseline_and_is_then_not_compared() -> None:
    suite = a_suite(a_case(skip_without_skill=True, skip_reason="needs the skill's own data"))
    case = the_skill(planned(a_skill_intake(suite=suite, base_suite=suite))).cases[0]
    assert isinstance(case.compare, NotRun)
    assert "needs the skill's own data" in case.compare.not_run


def test_a_new_skill_has_no_base_arm_and_an_unchanged_one_neither() -> None:
    new = a_skill_intake(kind=ChangeKind.ADDED, base=None, base_suite=None)
    same = a_skill_intake(kind=ChangeKind.UNCHANGED, base=a_skill())
    for intake, reason in ((new, "no readable version"), (same, "is the same at the merge base")):
        arm = the_skill(planned(intake)).cases[0].arm(Arm.BASE_SKILL)
        assert arm is not None
        assert arm.runs == 0
        assert reason in str(arm.skipped)


def test_a_base_case_that_head_changed_or_dropped_still_runs() -> None:
    base = a_suite(a_case("one"), a_case("two"))
    head = a_suite(a_case("one", prompt="Another question"))
    cases = the_skill(planned(a_skill_intake(suite=head, base_suite=base))).cases
    assert [(case.case.eval_id, case.origin) for case in cases] == [
        ("one", "head"),
        ("one@base", "base"),
        ("two", "base"),
    ]


def test_a_case_that_lacks_its_server_is_blocked_and_gets_no_runs() -> None:
    skill = a_skill(allowed_tools=("mcp__github__get_issue",))
    plan = planned(a_skill_intake(head=skill))
    case = the_skill(plan).cases[0]
    assert case.blocked == "MCP server github is not available to this case"
    assert planned_requests(plan) == []


def test_without_a_model_or_a_file_that_agents_read_only_static_layers_run() -> None:
    assert "no model key" in str(the_skill(planned(models=None)).not_measured)
    quiet = planned(a_skill_intake(agent_visible=False))
    assert the_skill(quiet).not_measured == "no file changed that an agent reads"
    assert planned_requests(quiet) == []


def test_an_unreadable_skill_or_suite_gets_no_cases() -> None:
    finding = Finding(rule="suite/json", level=Level.ERROR, path="evals.json", message="no JSON", blocks=True)
    assert the_skill(planned(a_skill_intake(findings=(finding,)))).cases == ()
    assert the_skill(planned(a_skill_intake(head=None))).cases == ()
    assert the_skill(planned(a_skill_intake(suite=None))).cases == ()


def test_skills_over_the_session_cap_are_named_not_dropped() -> None:
    skills = [a_skill_intake(f"skills/s{number}") for number in range(4)]
    plan = planned(*skills, policy=Policy(caps=Caps(skills_per_session=2)))
    assert [skill.not_measured is None for skill in plan.skills] == [True, True, False, False]
    assert "over budget" in str(plan.skills[3].not_measured)


@pytest.mark.requirements("R139")
def test_an_estimate_is_made_before_anything_is_spent() -> None:
    small, large = planned(mode=Mode.SMOKE), planned(mode=Mode.FULL)
    assert 0 < small.estimated_calls < large.estimated_calls
    assert 0 < small.estimated_tokens < large.estimated_tokens


@pytest.mark.requirements("R137", "R138", "R139")
@pytest.mark.parametrize("cases", [1, 33])
def test_what_is_compared_adds_the_sources_figures_for_a_comparison_and_for_an_analysis(cases: int) -> None:
    def estimated(case_type: CaseType) -> Plan:
        suite = a_suite(*(a_case(f"c{number}", type=case_type) for number in range(cases)))
        return planned(a_skill_intake(suite=suite, base_suite=suite), mode=Mode.STANDARD)

    compared, alone = estimated(CaseType.HAPPY_PATH), estimated(CaseType.EDGE_CASE)
    # Both orders are asked; the analyzer once a case: 5,000 tokens each.
    assert compared.estimated_calls - alone.estimated_calls == cases * (2 + 1)
    assert compared.estimated_tokens - alone.estimated_tokens == cases * (2 * 3_000 + 5_000)


@pytest.mark.requirements("R137")
def test_a_second_comparator_is_counted_where_one_is_named_and_may_be_asked() -> None:
    two = ModelChoice(executor="a:b", judge="c:d", roles={Role.SECOND_COMPARATOR: "e:f"})
    alone, both = planned(mode=Mode.STANDARD), planned(mode=Mode.STANDARD, models=two)
    assert both.estimated_calls - alone.estimated_calls == 2
    assert both.worst_calls - alone.worst_calls == 4
    # The source's figure for one comparison, per asking.
    assert both.estimated_tokens - alone.estimated_tokens == 2 * 3_000
    off = planned(mode=Mode.STANDARD, models=two, policy=Policy(second_judge="off"))
    assert off.estimated_calls == alone.estimated_calls


def test_requests_of_a_pair_stand_side_by_side_and_are_unique() -> None:
    keys = [request.key for request in planned_requests(planned(mode=Mode.FULL))]
    assert [(key.run, key.arm.value) for key in keys][:3] == [
        (1, "with_skill"),
        (1, "without_skill"),
        (1, "base_skill"),
    ]
    assert len({key.folder for key in keys}) == len(keys) == 9


@pytest.mark.parametrize("cause", [NotMeasuredCause.FORK, NotMeasuredCause.DEPENDABOT, NotMeasuredCause.DRAFT])
def test_a_session_that_may_run_nothing_says_why_whatever_models_there_are(cause: NotMeasuredCause) -> None:
    for models in ({}, {"models": None}):
        skill = the_skill(planned(static_only=cause, **models))
        assert skill.cases == ()
        assert skill.not_measured_cause is cause
        assert skill.not_measured == STATIC_REASONS[cause]


@pytest.mark.parametrize("settings", [{"models": None}, {"static_only": NotMeasuredCause.DRAFT}])
def test_where_no_file_changed_that_an_agent_reads_nobody_has_to_be_waited_for(settings: dict[str, object]) -> None:
    skill = the_skill(planned(a_skill_intake(agent_visible=False), **settings))
    assert skill.not_measured_cause is NotMeasuredCause.NO_AGENT_FILE


def test_every_arm_of_a_run_has_the_policys_limits_of_tokens_and_money() -> None:
    plan = planned(mode=Mode.FULL, policy=Policy(caps=Caps(tokens_per_run=5000, usd_per_run=0.25), placebo=True))
    limits = [arm.limits for arm in the_skill(plan).cases[0].arms]
    assert len(limits) == 4
    assert {(item.tokens, item.usd) for item in limits} == {(5000, 0.25)}


@pytest.mark.requirements("R7")
def test_each_arm_says_why_it_runs_as_it_does_or_not() -> None:
    case = the_skill(planned(a_skill_intake(suite=a_suite(a_case(type=CaseType.NEGATIVE))))).cases[0]
    by_arm = {arm.arm: arm for arm in case.arms}
    assert "nothing to gain" in (by_arm[Arm.WITHOUT_SKILL].skipped or "")
    assert by_arm[Arm.WITH_SKILL].reason.endswith("2 runs to start with in mode standard")


def test_trigger_queries_are_planned_with_one_run_and_none_without_the_skill() -> None:
    queries = (
        TriggerCase(id="a", query="q", should_trigger=True),
        TriggerCase(id="b", query="r", should_trigger=False),
    )
    suite = a_suite().model_copy(update={"triggers": queries})
    counts = {}
    for mode in Mode:
        skill = the_skill(planned(a_skill_intake(suite=suite), mode=mode))
        counts[mode] = [
            {arm.arm.value: arm.runs for arm in case.arms if arm.runs}
            for case in skill.cases
            if case.case.trigger is not None
        ]
    assert counts[Mode.SMOKE] == counts[Mode.REGRESSION] == []
    assert counts[Mode.STANDARD] == [{"with_skill": 1}] * 2, "the listing is the same at the base"
    assert counts[Mode.FULL] == [{"with_skill": 3}] * 2
    alone = the_skill(planned(a_skill_intake(suite=suite.model_copy(update={"cases": ()})), mode=Mode.SMOKE))
    asked = [case for case in alone.cases if case.case.trigger is not None]
    assert [case.arm(Arm.WITH_SKILL).runs for case in asked] == [1, 1]  # type: ignore[union-attr]


def test_regression_runs_the_golden_cases_of_both_suites_and_no_other() -> None:
    golden, plain = a_case("one", tag="Golden "), a_case("two")
    base = a_suite(golden, plain)
    head = a_suite(golden.model_copy(update={"tag": None, "digest": "changed"}), plain)
    plan = planned(a_skill_intake(suite=head, base_suite=base), mode=Mode.REGRESSION)
    cases = the_skill(plan).cases
    # Who takes the tag away does not take the case away: the base suite has it still.
    runs = [arm.runs for case in cases if (arm := case.arm(Arm.WITH_SKILL)) is not None]
    assert [(case.case.eval_id, case.origin) for case in cases] == [("one@base", "base")]
    assert runs == [2]
    plan = planned(a_skill_intake(suite=base, base_suite=base), mode=Mode.REGRESSION)
    assert plan.notes == ("skills/sums: mode regression runs 1 of 2 cases, those with tag: golden",)


def test_regression_without_a_golden_case_is_blocked_and_that_is_not_the_change_s_doing() -> None:
    suite = a_suite(a_case("one"))
    plan = planned(a_skill_intake(suite=suite, base_suite=suite), mode=Mode.REGRESSION)
    skill = the_skill(plan)
    assert "no case of this suite has it" in str(skill.cases[0].blocked)
    assert not skill.cases[0].blocked_by_change
    assert not skill.base_runnable
    assert planned_requests(plan) == []
