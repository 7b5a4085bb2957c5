from __future__ import annotations

import json
import threading
from collections.abc import Mapping
from typing import Any

import pytest
from pydantic import SecretStr, ValidationError

from gate.adapters.mcp_http import MAX_BYTES, MAX_DESCRIPTION, McpHttp
from gate.errors import McpServerError
from gate.settings import RealMcpServer
from tests.scripted.mcp_server import Answer, ScriptedMcpServer

ECHO = {"echo": lambda arguments: json.dumps(arguments, sort_keys=True)}


def _client(
    server: ScriptedMcpServer | str,
    *tools: str,
    token_env: str | None = None,
    tokens: Mapping[str, str] | None = None,
    seconds: float = 10,
) -> McpHttp:
    url = server if isinstance(server, str) else server.url
    place = RealMcpServer(url=url, tools=tools or ("echo",), token_env=token_env)
    return McpHttp({"crm": place}, {name: SecretStr(value) for name, value in (tokens or {}).items()}, seconds=seconds)


def _call(client: McpHttp, arguments: dict[str, Any], tool: str = "echo") -> tuple[str, bool]:
    with client.connect("crm") as line:
        result = line.call(tool, arguments)
    return result.text, result.is_error


@pytest.mark.parametrize("stream", [False, True], ids=["json", "events"])
@pytest.mark.parametrize("sessions", ["kept", "none"])
def test_a_tool_answers_over_every_form_of_the_transport(stream: bool, sessions: Any) -> None:
    with ScriptedMcpServer(ECHO, stream=stream, sessions=sessions) as server:
        assert _call(_client(server), {"name": "Zoë \ud83d\ude00 \ud800"}) == (
            '{"name": "Zo\\u00eb \\ud83d\\ude00 \\ud800"}',
            False,
        )
        assert [asked.method for asked in server.asked][-3:] == [
            "initialize",
            "notifications/initialized",
            "tools/call",
        ]
        assert server.open_sessions == 0, "a session was left to the server"


def test_only_the_allowed_tools_are_offered_and_the_others_are_named_and_never_called() -> None:
    tools = {**ECHO, "delete_all": lambda arguments: "gone", "count": lambda arguments: "3"}
    with ScriptedMcpServer(tools, page=1) as server:
        client = _client(server, "count", "echo", "not_there")
        listing = client.listing("crm")
        assert [tool.name for tool in listing.tools] == ["count", "echo"]
        assert listing.listed == ("count", "delete_all", "echo")
        assert (listing.software, listing.protocol, listing.url) == ("scripted 1", "2025-06-18", server.url)
        assert _call(client, {}, "delete_all") == ("there is no tool delete_all", True)
        assert server.calls() == []


def test_the_list_is_asked_for_once_and_every_run_has_a_session_of_its_own() -> None:
    with ScriptedMcpServer(ECHO) as server:
        client = _client(server)
        for number in range(3):
            _call(client, {"n": number})
        assert len(server.of("tools/list")) == 1
        seen = [asked.headers["mcp-session-id"] for asked in server.of("tools/call")]
        assert len(set(seen)) == 3


def test_a_list_that_could_not_be_had_is_asked_for_again() -> None:
    with ScriptedMcpServer(ECHO, faults={"tools/list": [Answer(status=503)]}) as server:
        client = _client(server)
        with pytest.raises(McpServerError) as failed:
            client.listing("crm")
        assert failed.value.retryable
        assert [tool.name for tool in client.listing("crm").tools] == ["echo"]


def test_a_server_that_gives_no_list_is_given_up_so_that_no_session_waits_for_it_run_by_run() -> None:
    with ScriptedMcpServer(ECHO, faults={"tools/list": [Answer(status=503)] * 9}) as server:
        client = _client(server)
        for again in (True, True, True, False, False):
            with pytest.raises(McpServerError, match="answered with status 503") as failed:
                client.listing("crm")
            assert failed.value.retryable is again
        assert len(server.of("tools/list")) == 3


def test_what_a_tool_itself_calls_an_error_is_an_answer() -> None:
    wrong = {"isError": True, "content": [{"type": "text", "text": "no such customer"}]}
    with ScriptedMcpServer({"echo": lambda arguments: wrong}) as server:
        assert _call(_client(server), {}) == ("no such customer", True)


@pytest.mark.parametrize("status", [200, 400])
def test_arguments_that_the_server_refuses_are_the_models_to_put_right(status: int) -> None:
    body = {"jsonrpc": "2.0", "id": 2, "error": {"code": -32602, "message": "q is missing"}}
    with ScriptedMcpServer(ECHO, faults={"tools/call": [Answer(status=status, body=json.dumps(body))]}) as server:
        assert _call(_client(server), {}) == ("invalid arguments: q is missing", True)


def test_an_answer_that_is_too_large_is_not_read_to_its_end_and_is_the_models_to_make_smaller() -> None:
    with ScriptedMcpServer({"echo": lambda arguments: "x" * (MAX_BYTES + 1)}) as server:
        assert _call(_client(server), {}) == (f"the answer is larger than {MAX_BYTES} bytes: ask for less", True)


INTERNAL = json.dumps({"jsonrpc": "2.0", "id": 2, "error": {"code": -32603, "message": "out\nof\nmemory"}})


@pytest.mark.parametrize(
    ("fault", "words", "again"),
    [
        (Answer(status=500), "answered with status 500", True),
        (Answer(status=503, body="busy", content_type="text/plain"), "answered with status 503", True),
        (Answer(status=429), "answered with status 429", True),
        (Answer(status=404), "has forgotten the session", True),
        (Answer(status=400), "answered with status 400", False),
        (Answer(status=401), "refuses the token (status 401)", False),
        (Answer(status=403), "refuses the token (status 403)", False),
        (Answer(status=307, location="http://127.0.0.1:1/mcp"), "redirects elsewhere (status 307)", False),
        (Answer(body="<html>", content_type="text/html"), "gave no answer to tools/call", True),
        (Answer(body="{"), "gave no answer to tools/call", True),
        (Answer(body='{"jsonrpc": "2.0", "id": 2, "result": {"n": NaN}}'), "gave no answer to tools/call", True),
        (Answer(body="[" * 100_000), "gave no answer to tools/call", True),
        (Answer(body='{"jsonrpc": "2.0", "id": 77, "result": {}}'), "gave no answer to tools/call", True),
        (Answer(body='{"jsonrpc": "2.0", "id": 2, "result": []}'), "neither a result nor an error", True),
        (Answer(body=INTERNAL), "answered with the error -32603: out of memory", True),
        (Answer(silent=True), "gave no answer within 3 s", True),
        (Answer(drip_s=0.1), "gave no answer within 3 s", True),
    ],
    ids=lambda item: repr(item)[:60],
)  # fmt: skip
def test_whatever_is_no_answer_is_infrastructure_with_its_kind_of_remedy(
    fault: Answer, words: str, again: bool
) -> None:
    with ScriptedMcpServer(ECHO, faults={"tools/call": [fault]}) as server:
        client = _client(server, seconds=3 if "3 s" in words else 10)
        client.listing("crm")
        with pytest.raises(McpServerError) as failed:
            _call(client, {})
    assert words in failed.value.message
    assert failed.value.message.startswith(f"The MCP server crm ({server.url}) ")
    assert failed.value.retryable is again
    assert bool(failed.value.remedy) is not again


def test_a_server_that_is_not_there_is_infrastructure() -> None:
    with ScriptedMcpServer(ECHO) as server:
        url = server.url
    with pytest.raises(McpServerError, match="was not reached: ConnectError") as failed:
        _client(url).listing("crm")
    assert failed.value.retryable


def test_the_token_goes_to_its_server_and_nowhere_else_and_into_no_message() -> None:
    tokens = {"SKILL_GATE_MCP_CRM": "s3cret-token"}
    with ScriptedMcpServer(ECHO, token="s3cret-token") as server:
        client = _client(server, token_env="SKILL_GATE_MCP_CRM", tokens=tokens)
        assert _call(client, {"a": 1}) == ('{"a": 1}', False)
        with ScriptedMcpServer(ECHO, faults={"initialize": [Answer(status=308, location=server.url)]}) as other:
            with pytest.raises(McpServerError) as failed:
                _client(other, token_env="SKILL_GATE_MCP_CRM", tokens=tokens).listing("crm")
            assert "s3cret" not in str(failed.value)
        heard = len(server.asked)
        with pytest.raises(McpServerError, match="refuses the token") as refused:
            _client(server, token_env="SKILL_GATE_MCP_CRM", tokens={"SKILL_GATE_MCP_CRM": "another"}).listing("crm")
        assert "Look at the secret behind SKILL_GATE_MCP_CRM." in str(refused.value)
        assert len(server.asked) == heard + 1, "a redirect was followed, or a refusal was not the end"


def test_a_token_that_is_not_set_is_said_before_anything_is_sent() -> None:
    with ScriptedMcpServer(ECHO) as server:
        with pytest.raises(McpServerError, match="SKILL_GATE_MCP_CRM is not set") as failed:
            _client(server, token_env="SKILL_GATE_MCP_CRM").listing("crm")
        assert not failed.value.retryable
        assert server.asked == []


def test_a_version_that_the_gate_does_not_know_is_refused() -> None:
    with (
        ScriptedMcpServer(ECHO, version="1999-01-01") as server,
        pytest.raises(McpServerError, match="1999-01-01") as bad,
    ):
        _client(server).listing("crm")
    assert not bad.value.retryable


def _deep(levels: int) -> dict[str, Any]:
    schema: dict[str, Any] = {"type": "object"}
    for _ in range(levels):
        schema = {"type": "object", "properties": {"a": schema}}
    return schema


@pytest.mark.parametrize(
    "schema", [None, [], {"type": "string"}, _deep(200), {"type": "object", "description": "x" * 70_000}], ids=lambda item: str(item)[:30]
)  # fmt: skip
def test_a_tool_whose_schema_no_model_can_be_given_is_refused(schema: Any) -> None:
    with (
        ScriptedMcpServer(ECHO, described={"echo": {"inputSchema": schema}}) as server,
        pytest.raises(McpServerError, match="gives its tool echo") as failed,
    ):
        _client(server).listing("crm")
    assert not failed.value.retryable


def test_a_description_is_cut_and_what_no_file_can_hold_is_replaced() -> None:
    long = {"description": "\ud800" + "x" * 9_000, "inputSchema": {"properties": {"q": {"description": "\udfff"}}}}
    with ScriptedMcpServer(ECHO, described={"echo": long}) as server:
        [tool] = _client(server).listing("crm").tools
    assert tool.description == f"?{'x' * (MAX_DESCRIPTION - 1)} [cut]"
    assert tool.input_schema == {"type": "object", "properties": {"q": {"description": "?"}}}


def test_what_is_no_text_is_named_and_left_out() -> None:
    result = {
        "content": [
            {"type": "text", "text": "one"},
            {"type": "image", "data": "AAAA", "mimeType": "image/png"},
            {"type": "resource", "resource": {"uri": "crm://7", "text": "two"}},
            {"type": "resource", "resource": {"uri": "crm://8", "blob": "AAAA"}},
            {"type": "resource_link", "uri": "crm://9"},
            "three",
        ]
    }
    with ScriptedMcpServer({"echo": lambda arguments: result}) as server:
        text, _ = _call(_client(server), {})
    assert text == (
        "one\n[image: no text, left out]\ntwo\n[resource crm://8: no text, left out]\n[resource crm://9]"
    )  # fmt: skip


def test_structured_content_alone_is_given_as_json() -> None:
    with ScriptedMcpServer({"echo": lambda arguments: {"structuredContent": {"b": 1, "a": "ä"}}}) as server:
        assert _call(_client(server), {}) == ('{"a": "ä", "b": 1}', False)


def test_runs_at_the_same_time_have_their_own_answers() -> None:
    with ScriptedMcpServer(ECHO) as server:
        client = _client(server)
        found: dict[int, str] = {}

        def work(number: int) -> None:
            found[number] = _call(client, {"n": number})[0]

        threads = [threading.Thread(target=work, args=(number,)) for number in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert found == {number: json.dumps({"n": number}) for number in range(8)}
        assert len(server.of("tools/list")) == 1


@pytest.mark.parametrize(
    "fields",
    [
        {"url": "http://mcp.example/x"},
        {"url": "https://user:pass@mcp.example/x"},
        {"url": "https://mcp.example/x#y"},
        {"url": "ftp://mcp.example"},
        {"url": "http://localhost.evil.example/mcp"},
        {"token_env": "ANTHROPIC_API_KEY"},
        {"token_env": "SKILL_GATE_CACHE_KEY"},
        {"tools": ()},
        {"tools": ("a b",)},
    ],
    ids=str,
)
def test_a_policy_names_an_address_that_is_sealed_and_a_token_that_is_nobody_elses(fields: dict[str, Any]) -> None:
    RealMcpServer(url="https://mcp.example/x?team=7", token_env="SKILL_GATE_MCP_CRM", tools=("find",))
    with pytest.raises(ValidationError):
        RealMcpServer(**{"url": "https://mcp.example/x", "tools": ("find",), **fields})
