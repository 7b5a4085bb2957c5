from __future__ import annotations

import pytest

from gate.domain.checks import Check, ToolCallCount
from gate.domain.plan import Arm
from gate.domain.skill import Skill, SkillType
from gate.domain.suite import McpServer
from gate.planning.dispatch import detect_type, limits_for, missing_servers
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
    assert missing_servers(skill, a_case(checks=(check,))) == ["github", "mail"]
    assert missing_servers(skill, a_case(mcp_servers=(McpServer(name="github"),))) == []
