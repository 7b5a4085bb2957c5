"""Runs that reach a real MCP server: over the real client, a real socket and a server with faults at will."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from gate.adapters.mcp_http import McpHttp
from gate.domain.chat import ChatRequest
from gate.domain.evidence import Outcome, RunRecord
from gate.domain.plan import Arm
from gate.domain.suite import Case, McpResponse, McpServer, McpTool
from gate.evidence.bundle import Bundle, load_events
from gate.evidence.cache import Cache, CacheScope, derive_key
from gate.evidence.redact import Redactor
from gate.execution.mcp import MAX_CALLS, MockMcp, opened
from gate.execution.reuse import Around, Reuse
from gate.settings import RealMcpServer
from tests.builders_skill import a_case
from tests.fakes.chat import ScriptedChat, use
from tests.scripted.mcp_server import Answer, ScriptedMcpServer
from tests.unit.execution.world import Lines, MemoryLog, a_request, run_all

FIND = "mcp__crm__find"
SCHEMA = {"type": "object", "required": ["name"], "properties": {"name": {"type": "string"}}}


def _server(**changes: Any) -> ScriptedMcpServer:
    tools = {"find": lambda arguments: f"{arguments['name']} is customer 7", "delete": lambda arguments: "gone"}
    return ScriptedMcpServer(**{"tools": tools, "described": {"find": {"inputSchema": SCHEMA}}, **changes})


def _reach(server: ScriptedMcpServer, *tools: str, seconds: float = 10) -> McpHttp:
    return McpHttp({"crm": RealMcpServer(url=server.url, tools=tools or ("find",))}, {}, seconds=seconds)


def _case(*tools: str, others: tuple[McpServer, ...] = ()) -> Case:
    real = McpServer(name="crm", mode="real", tools=tuple(McpTool(name=name) for name in tools or ("find",)))
    return a_case(mcp_servers=(*others, real))


def _asking(arguments: dict[str, Any]) -> ScriptedChat:
    def model(request: ChatRequest) -> Any:
        return use(FIND, arguments) if request.label.endswith("turn-1") else "It is customer 7."

    return ScriptedChat(model)


def _events(folder: Path, record: RunRecord, kind: str) -> list[dict[str, Any]]:
    return [event.data for event in load_events(folder, record.key.folder) if event.kind == kind]


def test_both_arms_ask_the_same_server_and_every_call_is_on_the_record(tmp_path: Path) -> None:
    chat = _asking({"name": "Ada"})
    arms = (Arm.WITH_SKILL, Arm.WITHOUT_SKILL)
    with _server() as server:
        records = run_all([a_request(arm, case=_case()) for arm in arms], chat, tmp_path, mcp=_reach(server))
        assert server.calls() == [("find", {"name": "Ada"})] * 2
        assert server.open_sessions == 0
    assert [record.outcome for record in records] == [Outcome.COMPLETED] * 2
    for record in records:
        [call] = record.calls
        assert (call.tool, call.args, call.status, call.result) == (
            FIND,
            {"name": "Ada"},
            "success",
            "Ada is customer 7",
        )
        [said] = _events(tmp_path, record, "mcp_server")
        assert (said["server"], said["url"], said["listed"]) == ("crm", server.url, ["delete", "find"])
        assert said["tools"] == [{"name": "find", "description": "Does find.", "input_schema": SCHEMA}]
    offered = [tool for tool in chat.requests[0].tools if tool.name.startswith("mcp__")]
    assert [(tool.name, tool.description, tool.input_schema) for tool in offered] == [(FIND, "Does find.", SCHEMA)]


def test_arguments_that_the_schema_refuses_never_leave_the_gate(tmp_path: Path) -> None:
    with _server() as server:
        [record] = run_all([a_request(case=_case())], _asking({}), tmp_path, mcp=_reach(server))
        assert server.calls() == []
    assert record.outcome is Outcome.COMPLETED
    assert (record.calls[0].status, record.calls[0].result) == (
        "error",
        "invalid arguments: 'name' is a required property",
    )


def test_an_error_of_the_tool_is_the_runs_own(tmp_path: Path) -> None:
    wrong = {"isError": True, "content": [{"type": "text", "text": "no such customer"}]}
    with _server(tools={"find": lambda arguments: wrong}) as server:
        [record] = run_all([a_request(case=_case())], _asking({"name": "X"}), tmp_path, mcp=_reach(server))
    assert record.outcome is Outcome.COMPLETED
    assert record.scored
    assert (record.calls[0].status, record.calls[0].result) == ("error", "no such customer")
    assert record.metrics.errors_encountered == 1


@pytest.mark.requirements("R225")
@pytest.mark.parametrize("method", ["initialize", "tools/list", "tools/call"])
@pytest.mark.parametrize("fault", [Answer(status=503), Answer(silent=True)], ids=["5xx", "silent"])
def test_a_server_that_fails_once_costs_a_try_and_no_arm_a_point(tmp_path: Path, method: str, fault: Answer) -> None:
    with _server(faults={method: [fault]}) as server:
        reach = _reach(server, seconds=3 if fault.silent else 10)
        [record] = run_all([a_request(case=_case())], _asking({"name": "Ada"}), tmp_path, mcp=reach)
    assert record.outcome is Outcome.COMPLETED
    assert [(item.kind, item.count) for item in record.fallbacks] == [("run_retried", 1)]
    assert len(record.calls) == 1


@pytest.mark.requirements("R225", "R224")
def test_a_server_that_fails_every_time_is_infrastructure_and_never_scored(tmp_path: Path) -> None:
    with _server(faults={"tools/call": [Answer(status=500), Answer(status=500)]}) as server:
        [record] = run_all([a_request(case=_case())], _asking({"name": "Ada"}), tmp_path, mcp=_reach(server))
    assert record.outcome is Outcome.INFRA_ERROR
    assert not record.scored
    assert record.reason == f"The MCP server crm ({server.url}) answered with status 500. (in each of 2 tries)"


@pytest.mark.parametrize(
    ("tools", "faults", "words"),
    [
        (("find", "gone"), {}, "does not offer the tool gone, which the case names"),
        (("find",), {"initialize": [Answer(status=401)] * 9}, "refuses the token"),
    ],
)
def test_what_trying_again_cannot_help_is_recorded_at_once(
    tmp_path: Path, tools: tuple[str, ...], faults: dict[str, list[Answer]], words: str
) -> None:
    with _server(faults=faults) as server:
        chat = _asking({"name": "Ada"})
        [record] = run_all([a_request(case=_case(*tools))], chat, tmp_path, mcp=_reach(server, *tools))
        assert server.calls() == []
    assert record.outcome is Outcome.INFRA_ERROR
    assert words in record.reason
    assert (record.fallbacks, chat.requests) == ((), [])


def test_without_a_way_to_it_nothing_answers_in_a_real_servers_place(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="is not mocked"):
        MockMcp(_case().mcp_servers)
    chat = _asking({"name": "Ada"})
    [record] = run_all([a_request(case=_case())], chat, tmp_path)
    assert (record.outcome, chat.requests) == (Outcome.INFRA_ERROR, [])


def test_mocks_stand_beside_a_real_server_with_their_own_state() -> None:
    mock = McpServer(name="t", tools=(McpTool(name="take", responses=(McpResponse(times=1, text="ticket 7"),)),))
    with _server() as server:
        reach = _reach(server)
        for _ in range(2):
            with opened(_case(others=(mock,)).mcp_servers, reach, MemoryLog()) as mcp:
                assert [spec.name for spec in mcp.specs()] == ["mcp__t__take", FIND]
                assert "mcp__crm__delete" not in mcp
                assert mcp.call("mcp__t__take", {}).text == "ticket 7"
                assert mcp.call(FIND, {"name": "Bo"}).text == "Bo is customer 7"


def test_a_run_that_goes_round_in_circles_leaves_the_server_alone() -> None:
    with _server() as server, opened(_case().mcp_servers, _reach(server), MemoryLog()) as mcp:
        answers = [mcp.call(FIND, {"name": "Bo"}) for _ in range(MAX_CALLS + 2)]
        assert [answer.is_error for answer in answers] == [False] * MAX_CALLS + [True] * 2
        assert len(server.calls()) == MAX_CALLS


def test_a_schema_that_never_ends_or_leads_elsewhere_does_not_stop_the_gate() -> None:
    schema = {"type": "object", "properties": {"name": {"$ref": "https://elsewhere.example/schema.json"}}}
    with (
        _server(described={"find": {"inputSchema": schema}}) as server,
        opened(_case().mcp_servers, _reach(server), MemoryLog()) as mcp,
    ):
        assert mcp.call(FIND, {"name": "Bo"}).text == "Bo is customer 7"


def test_a_token_that_a_server_gives_away_is_in_no_record(tmp_path: Path) -> None:
    token = "tok-canary-0123456789"
    with _server(
        tools={"find": lambda arguments: f"your token is {token}"},
        described={"find": {"description": f"Use {token}."}},
    ) as server:
        redactor = Redactor({"mcp-SKILL_GATE_MCP_CRM": token})
        run_all([a_request(case=_case())], _asking({"name": "A"}), tmp_path, mcp=_reach(server), redactor=redactor)
    kept = b"".join(path.read_bytes() for path in tmp_path.rglob("*") if path.is_file())
    assert token.encode() not in kept
    assert b"[redacted:mcp-SKILL_GATE_MCP_CRM:" in kept


def test_no_run_of_another_session_stands_for_one_with_a_real_server(tmp_path: Path) -> None:
    around = Around(model="m", harness="loop 1", image="i", sandbox="docker")
    real, mocked = a_request(case=_case()), a_request(case=a_case())
    scope = CacheScope(repository="local", name="local")
    with _server() as server:
        bundle, cache = tmp_path / "one", Cache(tmp_path / "cache", derive_key("key"), scope, today="2026-01-31")
        kept = Reuse(cache, Bundle(bundle), Lines())
        for request in (real, mocked.model_copy(update={"key": mocked.key.model_copy(update={"run": 2})})):
            [record] = run_all([request], _asking({"name": "A"}), bundle, mcp=_reach(server))
            assert record.scored
            kept.keep(request, around, record)
            other = Reuse(cache, Bundle(tmp_path / "two"), Lines())
            assert other.has(request, around) is (request is not real)
            assert (other.take(request, around) is None) is (request is real)


def test_what_was_asked_reaches_the_server_byte_for_byte(tmp_path: Path) -> None:
    name = 'Zoë "\u2028" \\ \U0001d54f'
    with _server() as server:
        [record] = run_all([a_request(case=_case())], _asking({"name": name}), tmp_path, mcp=_reach(server))
        assert json.dumps(server.calls()) == json.dumps([("find", {"name": name})])
    assert record.calls[0].result == f"{name} is customer 7"
