from __future__ import annotations

from typing import Any

import pytest

from gate.domain.checks import Check, ResponseContains, ResponseNotContains, ToolCallCount
from gate.domain.plan import Arm
from gate.domain.skill import Skill, SkillType
from gate.domain.suite import CaseType, Expectation, McpServer
from gate.planning.dispatch import (
    detect_type,
    limits_for,
    limits_reason,
    missing_servers,
    needs_no_baseline,
    not_offered,
)
from tests.builders_skill import a_case, a_file, a_skill, a_suite


@pytest.mark.requirements("R6", "R7")
@pytest.mark.parametrize(
    ("skill", "expected", "reason"),
    [
        (a_skill(declared_type=SkillType.TEXT_GENERATION, files=(a_file("run.py"),)), "text_generation", "declared"),
        (a_skill(allowed_tools=("Bash", "mcp__github__get_issue")), "mcp_based", "MCP server github"),
        (a_skill(body="Call `mcp__my_tracker__find` first.\n"), "mcp_based", "MCP server my_tracker"),
        (a_skill(allowed_tools=("Bash(git:*)",)), "code_execution", "Bash"),
        (a_skill(files=(a_file("scripts/run.py"),)), "code_execution", "scripts/run.py"),
        (a_skill(body="Do this:\n\n```bash\nls\n```\n"), "code_execution", "bash"),
        (a_skill(body="This skill talks about MCP, Python and the shell.\n"), "text_generation", "no tool"),
        (a_skill(files=(a_file("evals/helper.py"),)), "text_generation", "no tool"),
    ],
)
def test_declared_facts_come_before_hints_and_the_reason_is_named(skill: Skill, expected: str, reason: str) -> None:
    found, why = detect_type(skill, None)
    assert found.value == expected
    assert reason in why


def test_a_suite_with_a_mock_server_makes_a_skill_mcp_based() -> None:
    suite = a_suite(a_case(mcp_servers=(McpServer(name="tickets"),)))
    assert detect_type(a_skill(), suite)[0] is SkillType.MCP_BASED


def test_the_baseline_has_fewer_steps_and_an_early_stop() -> None:
    assert limits_for(SkillType.MCP_BASED, Arm.WITH_SKILL).steps == 15
    assert limits_for(SkillType.MCP_BASED, Arm.WITHOUT_SKILL).steps == 8
    assert limits_for(SkillType.MCP_BASED, Arm.WITHOUT_SKILL).tool_calls == 6
    assert limits_for(SkillType.TEXT_GENERATION, Arm.WITHOUT_SKILL).tool_calls is None
    assert limits_for(SkillType.CODE_EXECUTION, Arm.BASE_SKILL) == limits_for(SkillType.CODE_EXECUTION, Arm.WITH_SKILL)


def test_a_server_that_skill_or_check_need_and_the_case_lacks_is_named() -> None:
    skill = a_skill(allowed_tools=("mcp__github__get_issue",))
    check = Check(id="c1", parameters=ToolCallCount(tool="mcp__mail__send", max=0))
    assert missing_servers(skill, a_case(checks=(check,)), None) == ["github", "mail"]
    bringing = a_case(mcp_servers=(McpServer(name="github"),))
    assert missing_servers(skill, bringing, None) == []
    # Another case of the suite brings it: this one does without, but not without what its own check names.
    assert missing_servers(skill, a_case(checks=(check,)), a_suite(bringing)) == ["mail"]


@pytest.mark.parametrize(
    ("value", "silent"), [(True, True), ("true", True), ("Yes", True), (False, False), ("false", False), (None, False)]
)
def test_a_skill_that_no_host_offers_is_known_by_its_front_matter(value: object, silent: bool) -> None:
    skill = a_skill(frontmatter={} if value is None else {"disable-model-invocation": value})
    assert (not_offered(skill) is not None) is silent


def _expecting(*precisions: str) -> tuple[Expectation, ...]:
    return tuple(Expectation(id=f"e{n}", text="x", precision=item) for n, item in enumerate(precisions))  # type: ignore[arg-type]


ABSENT = Check(id="c1", parameters=ResponseNotContains(pattern="x"))
PRESENT = Check(id="c2", parameters=ResponseContains(keyword="x"))


@pytest.mark.requirements("R7")
@pytest.mark.parametrize(
    ("values", "needless"),
    [
        ({"type": CaseType.NEGATIVE, "checks": (PRESENT,)}, True),
        ({"type": CaseType.EDGE_CASE, "expectations": _expecting("existence", "existence")}, True),
        ({"type": CaseType.EDGE_CASE, "expectations": _expecting("existence", "semantic")}, False),
        ({"type": CaseType.EDGE_CASE, "expectations": _expecting("existence"), "checks": (PRESENT,)}, False),
        ({"type": CaseType.HAPPY_PATH, "expectations": _expecting("existence")}, False),
        ({"type": CaseType.ROBUSTNESS, "checks": (ABSENT,)}, True),
        ({"type": CaseType.ROBUSTNESS, "checks": (ABSENT, PRESENT)}, False),
        ({"type": CaseType.SECURITY, "checks": (ABSENT,)}, False),
    ],
)
def test_the_baseline_of_a_case_is_left_out_only_where_it_could_show_nothing(
    values: dict[str, Any], needless: bool
) -> None:
    assert (needs_no_baseline(a_case(**{"checks": (), "expectations": (), **values})) is not None) is needless


def test_the_plan_says_why_an_arm_has_its_limits() -> None:
    reasons = {
        arm: limits_reason(SkillType.CODE_EXECUTION, arm, limits_for(SkillType.CODE_EXECUTION, arm))
        for arm in (Arm.WITH_SKILL, Arm.WITHOUT_SKILL)
    }
    assert reasons[Arm.WITH_SKILL] == "code_execution: 10 turns with a skill"
    assert reasons[Arm.WITHOUT_SKILL].endswith("6 turns without a skill, told to answer after more than 5 tool calls")
