from __future__ import annotations

from typing import Any

import pytest

from gate.domain.plan import Mode, NotMeasuredCause, Plan
from gate.domain.suite import Case, McpServer, McpTool
from gate.planning import plan_session, planned_requests
from gate.settings import Policy, RealMcpServer
from tests.builders_skill import a_case, a_skill_intake, a_suite, an_intake, some_settings

HERE = {"crm": RealMcpServer(url="https://mcp.example/crm", tools=("find",))}


def _case(eval_id: str = "one", tool: str = "find") -> Case:
    server = McpServer(name="crm", mode="real", tools=(McpTool(name=tool),))
    return a_case(eval_id, mcp_servers=(server,))


def _plan(*cases: Case, named: bool = True, base: tuple[Case, ...] | None = None, **settings: Any) -> Plan:
    suite, base_suite = a_suite(*cases), a_suite(*(cases if base is None else base))
    policy = Policy(mcp_real=HERE if named else {})
    intake = an_intake(a_skill_intake(suite=suite, base_suite=base_suite))
    return plan_session(intake, some_settings(policy=policy, **settings), session_id="s", run_date="2026-01-31")


def test_a_server_that_the_base_policy_names_is_asked_and_every_reader_is_told() -> None:
    plan = _plan(_case(), _case("two"), a_case("three"))
    assert [case.blocked for case in plan.skills[0].cases] == [None, None, None]
    [note] = plan.notes
    assert note == (
        "2 cases used the real MCP server crm (https://mcp.example/crm): all runs and both arms share what it holds, and it "
        "may answer otherwise the next time. None of these runs is kept for another session."
    )


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"named": False}, "is not named by the base policy: name it there under mcp_real"),
        ({"real_refused": "the change comes from a fork"}, "is not reached: the change comes from a fork"),
        ({"harness": "claude-code"}, "is reached by the built-in loop only, not by claude-code"),
        ({"replay": "folder"}, "is not reached in a recording"),
        ({"record": "folder"}, "is not reached in a recording"),
    ],
    ids=str,
)
def test_where_it_may_not_be_reached_the_case_is_blocked_with_what_to_do_and_never_run(
    settings: dict[str, Any], words: str
) -> None:
    plan = _plan(_case(), a_case("two"), **settings)
    [real, other] = plan.skills[0].cases
    assert real.blocked is not None
    assert real.blocked.startswith("the real MCP server crm ")
    assert words in real.blocked
    assert real.blocked.endswith("record its answers and use mode: replay")
    assert other.blocked is None
    assert {request.case.eval_id for request in planned_requests(plan)} == {"two"}
    assert plan.notes == ()


def test_a_tool_that_the_policy_does_not_allow_blocks_the_case() -> None:
    [case] = _plan(_case(tool="delete")).skills[0].cases
    assert case.blocked == (
        "the base policy does not allow the tool delete of the real MCP server crm: add it to mcp_real.crm.tools"
    )


def test_what_is_not_run_at_all_reaches_nothing() -> None:
    plan = _plan(_case(), static_only=NotMeasuredCause.FORK)
    assert (plan.skills[0].cases, planned_requests(plan), plan.notes) == ((), [], ())


@pytest.mark.parametrize(("named", "could"), [(True, True), (False, False)])
def test_a_base_that_could_not_be_run_either_is_not_this_changes_doing(named: bool, could: bool) -> None:
    assert _plan(_case(), named=named).skills[0].base_runnable is could


def test_a_change_that_makes_a_mock_real_does_not_escape_the_case_as_it_was() -> None:
    mock = a_case("one", mcp_servers=(McpServer(name="crm", tools=(McpTool(name="find"),)),))
    mock = mock.model_copy(update={"digest": "a" * 64})
    plan = _plan(_case().model_copy(update={"digest": "b" * 64}), base=(mock,), named=False, mode=Mode.STANDARD)
    assert [(case.case.eval_id, case.origin, case.blocked is None) for case in plan.skills[0].cases] == [
        ("one", "head", False), ("one@base", "base", True),
    ]  # fmt: skip
    assert plan.skills[0].base_runnable
