from __future__ import annotations

import json
from typing import Any

import httpx2
import pytest
from pydantic import SecretStr

from gate.adapters.anthropic_model import LARGEST_OUTPUT, AnthropicModel
from gate.adapters.model_calls import Retry
from gate.domain.chat import ChatRequest, Finish, Message, TokenUsage, ToolResult, ToolSpec, ToolUse
from gate.errors import ModelError


class Wire:
    """Answers with bodies in turn (the last one again and again) and keeps what was sent."""

    def __init__(self, *bodies: Any) -> None:
        self.sent: list[dict[str, Any]] = []
        self.urls: list[str] = []
        self._bodies = list(bodies)
        self.model = AnthropicModel(
            "anthropic:m",
            "m",
            api_key=SecretStr("sk-none"),
            transport=httpx2.MockTransport(self._answer),
            retry=Retry(sleep=lambda seconds: None),
        )

    def _answer(self, request: httpx2.Request) -> httpx2.Response:
        self.sent.append(json.loads(request.content))
        self.urls.append(str(request.url))
        body = self._bodies[0] if len(self._bodies) == 1 else self._bodies.pop(0)
        return httpx2.Response(200, json=body)


def message(*content: Any, stop: Any = "end_turn", **more: Any) -> dict[str, Any]:
    return {
        "type": "message",
        "role": "assistant",
        "model": "m-1",
        "content": list(content),
        "stop_reason": stop,
        **more,
    }


TEXT = {"type": "text", "text": "x"}
TOOL = {"type": "tool_use", "id": "t1", "name": "bash", "input": {"command": "ls"}}


def request(*messages: Message, **more: Any) -> ChatRequest:
    return ChatRequest(label="s/x", system="", messages=messages or (Message(role="user", text="?"),), **more)


@pytest.mark.parametrize(
    ("stop", "content", "finish"),
    [
        ("end_turn", [TEXT], Finish.STOP),
        ("stop_sequence", [TEXT], Finish.STOP),
        ("max_tokens", [TEXT], Finish.LENGTH),
        ("model_context_window_exceeded", [TEXT], Finish.LENGTH),
        ("refusal", [TEXT], Finish.REFUSAL),
        ("pause_turn", [TEXT], Finish.OTHER),
        (None, [TEXT], Finish.OTHER),
        ("tool_use", [TEXT, TOOL], Finish.TOOL_USE),
        ("end_turn", [TEXT, TOOL], Finish.TOOL_USE),
        ("tool_use", [TEXT], Finish.STOP),
        ("max_tokens", [TEXT, TOOL], Finish.LENGTH),
    ],
)
def test_why_the_model_stopped_follows_from_what_the_reply_holds(stop: Any, content: Any, finish: Finish) -> None:
    assert Wire(message(*content, stop=stop)).model.complete(request()).finish is finish


@pytest.mark.parametrize(
    "body",
    [{}, {"content": None}, {"content": ["x"]}, {"content": [{"type": "text"}]}, {"content": [{"type": "tool_use"}]}, [], None],
)  # fmt: skip
def test_json_that_is_no_message_is_a_malformed_reply(body: Any) -> None:
    with pytest.raises(ModelError) as caught:
        Wire(body).model.complete(request())
    assert caught.value.kind == "malformed"


def test_input_that_is_no_object_is_kept_as_the_model_wrote_it() -> None:
    (use,) = Wire(message({**TOOL, "input": [1]}, stop="tool_use")).model.complete(request()).tool_uses
    assert (use.arguments, use.raw_arguments) == (None, "[1]")


def test_written_and_read_cache_tokens_are_input_tokens() -> None:
    usage = {
        "input_tokens": 5,
        "output_tokens": 7,
        "cache_creation_input_tokens": 11,
        "cache_read_input_tokens": 13,
    }
    reply = Wire(message(TEXT, usage=usage)).model.complete(request())
    assert reply.usage == TokenUsage(input_tokens=29, output_tokens=7, cached_tokens=13, cache_write_tokens=11)


def test_a_long_answer_is_asked_for_as_a_stream_and_without_one_no_more_than_the_sdk_allows() -> None:
    refused = {"error": {"type": "invalid_request_error", "message": "stream: not supported", "code": 400}}
    wire = Wire(refused, message(TEXT))
    reply = wire.model.complete(request(max_output_tokens=200_000))
    assert [(body.get("stream"), body["max_tokens"]) for body in wire.sent] == [(True, 200_000), (None, LARGEST_OUTPUT)]
    assert (reply.text, reply.dropped_parameters) == ("x", ("stream",))


def test_blank_texts_which_the_provider_refuses_are_not_sent() -> None:
    wire = Wire(message(TEXT))
    wire.model.complete(
        request(
            Message(role="user", text=" \n"),
            Message(role="assistant", text="", tool_uses=(ToolUse(id="1", name="bash", arguments={}),)),
            Message(role="tool", tool_results=(ToolResult(id="1", text=""),)),
            Message(role="user", text="Go on."),
        )
    )
    assert "system" not in wire.sent[0]
    assert wire.sent[0]["messages"] == [
        {"role": "user", "content": [{"type": "text", "text": "(no text)"}]},
        {"role": "assistant", "content": [{"type": "tool_use", "id": "1", "name": "bash", "input": {}}]},
        {
            "role": "user",
            "content": [{"type": "tool_result", "tool_use_id": "1"}, {"type": "text", "text": "Go on."}],
        },
    ]


def test_thinking_goes_back_to_the_model_unchanged_and_is_no_text() -> None:
    thinking = {"type": "thinking", "thinking": "Let me see.", "signature": "c2ln"}
    wire = Wire(message(thinking, TEXT, TOOL, stop="tool_use"), message(TEXT))
    reply = wire.model.complete(request())
    assert reply.text == "x"
    wire.model.complete(
        request(
            Message(role="user", text="?"),
            Message(role="assistant", text=reply.text, tool_uses=reply.tool_uses),
            Message(role="tool", tool_results=(ToolResult(id="t1", text="a"),)),
        )
    )
    assert wire.sent[1]["messages"][1]["content"] == [thinking, TEXT, TOOL]


def test_the_environment_does_not_move_the_address(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ANTHROPIC_BASE_URL", "http://elsewhere.invalid")
    wire = Wire(message(TEXT))
    wire.model.complete(request())
    assert wire.urls == ["https://api.anthropic.com/v1/messages"]


BASH = ToolSpec(name="bash", description="Run.", input_schema={"type": "object"})


def test_a_conversation_with_tools_is_marked_for_the_prompt_cache_and_a_single_question_is_not() -> None:
    wire = Wire(message(TEXT))
    wire.model.complete(request(tools=(BASH,)))
    wire.model.complete(request())
    assert [body.get("cache_control") for body in wire.sent] == [{"type": "ephemeral"}, None]


def test_a_server_that_knows_no_prompt_cache_is_asked_without_the_mark_from_then_on() -> None:
    refused = {
        "error": {
            "type": "invalid_request_error",
            "message": "cache_control: Extra inputs are not permitted",
            "code": 400,
        }
    }
    wire = Wire(refused, message(TEXT), message(TEXT))
    first, second = (wire.model.complete(request(tools=(BASH,))) for _ in range(2))
    assert [("cache_control" in body) for body in wire.sent] == [True, False, False]
    assert (first.dropped_parameters, second.dropped_parameters) == (("cache_control",), ("cache_control",))
