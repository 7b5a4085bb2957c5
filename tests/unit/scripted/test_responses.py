"""The scripted provider speaks OpenAI Responses as the official client and a real agent program understand it."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import openai
import pytest

from tests.scripted.scenarios import turns
from tests.scripted.server import ScriptedServer
from tests.scripted.values import Reply, ToolCall

TOOL: Any = {"type": "function", "name": "bash", "parameters": {"type": "object"}, "strict": False}
CALL = Reply("I look.", (ToolCall("bash", {"command": "ls ü"}),))


@pytest.fixture
def server() -> Iterator[ScriptedServer]:
    with ScriptedServer(turns(CALL, Reply("Two files."))) as running:
        yield running


def client(server: ScriptedServer) -> openai.OpenAI:
    return openai.OpenAI(base_url=server.openai_url, api_key="none", max_retries=0)


def test_a_tool_loop_with_the_official_client(server: ScriptedServer) -> None:
    items: list[Any] = [{"role": "developer", "content": "be brief"}, {"role": "user", "content": "go"}]
    first = client(server).responses.create(model="m", input=items, tools=[TOOL])
    (call,) = [item for item in first.output if item.type == "function_call"]
    assert (call.name, json.loads(call.arguments), first.output_text) == ("bash", {"command": "ls ü"}, "I look.")
    items += [item.model_dump(exclude_none=True) for item in first.output]
    items.append({"type": "function_call_output", "call_id": call.call_id, "output": "a b"})
    second = client(server).responses.create(model="m", input=items, tools=[TOOL])
    assert (second.output_text, second.status) == ("Two files.", "completed")
    seen = server.requests[1]
    assert (seen.dialect, seen.system, seen.turn) == ("responses", "be brief", 1)
    assert [(item.id, item.text) for item in seen.last.tool_results] == [(call.call_id, "a b")]


def test_a_stream_adds_up_to_the_whole_response(server: ScriptedServer) -> None:
    with client(server).responses.stream(model="m", input="go", tools=[TOOL]) as stream:
        kinds = [event.type for event in stream]
        final = stream.get_final_response()
    assert (kinds[0], kinds[-1]) == ("response.created", "response.completed")
    whole = client(server).responses.create(model="m", input="go", tools=[TOOL])
    assert final.output_text == whole.output_text == "I look."
    assert final.usage == whole.usage


@pytest.mark.parametrize(
    "wrong",
    [
        {"input": []},
        {"input": [{"type": "function_call_output", "call_id": "x", "output": "y"}]},
        {"input": [{"type": "function_call", "call_id": "x", "name": "bash", "arguments": "{}"}]},
        {"input": "go", "previous_response_id": "resp_1"},
        {"input": "go", "tools": [TOOL, TOOL]},
    ],
)
def test_what_the_provider_would_refuse_is_refused(wrong: dict[str, Any]) -> None:
    with ScriptedServer(Reply("ok"), allow_protocol_errors=True) as server:
        with pytest.raises(openai.BadRequestError):
            client(server).responses.create(model="m", **wrong)
        assert len(server.protocol_errors) == 1


def test_an_answer_that_was_cut_says_why() -> None:
    with ScriptedServer(Reply("half of", finish="length")) as server:
        found = client(server).responses.create(model="m", input="go")
    assert found.status == "incomplete"
    assert found.incomplete_details is not None
    assert found.incomplete_details.reason == "max_output_tokens"
