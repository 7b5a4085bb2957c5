from __future__ import annotations

import json
from typing import Any

import httpx2
import pytest
from pydantic import SecretStr

from gate.adapters.model_calls import Retry
from gate.adapters.openai_responses_model import OpenAIResponsesModel
from gate.domain.chat import ChatRequest, Finish, Message, ToolResult, ToolSpec
from gate.errors import ModelError

BASH = ToolSpec(name="bash", description="Run.", input_schema={"type": "object"})


class Wire:
    """Answers with bodies in turn (the last one again and again) and keeps what was sent."""

    def __init__(self, *bodies: Any) -> None:
        self.sent: list[dict[str, Any]] = []
        self._bodies = list(bodies)
        self.model = OpenAIResponsesModel(
            "openai-responses:m",
            "m",
            api_key=SecretStr("sk-none"),
            transport=httpx2.MockTransport(self._answer),
            retry=Retry(sleep=lambda seconds: None),
        )

    def _answer(self, request: httpx2.Request) -> httpx2.Response:
        self.sent.append(json.loads(request.content))
        return httpx2.Response(200, json=self._bodies[0] if len(self._bodies) == 1 else self._bodies.pop(0))


def response(*output: Any, status: str = "completed", **more: Any) -> dict[str, Any]:
    return {"object": "response", "status": status, "model": "m-1", "output": list(output), "error": None, **more}


def said(*parts: Any) -> dict[str, Any]:
    return {"type": "message", "role": "assistant", "content": list(parts)}


TEXT = said({"type": "output_text", "text": "x", "annotations": []})
CALL = {"type": "function_call", "id": "fc_1", "call_id": "call_1", "name": "bash", "arguments": '{"command": "ls"}'}
THOUGHT = {"type": "reasoning", "id": "rs_1", "summary": [], "encrypted_content": "gAAA"}


def request(*messages: Message, **more: Any) -> ChatRequest:
    return ChatRequest(label="s/x", system="", messages=messages or (Message(role="user", text="?"),), **more)


@pytest.mark.parametrize(
    ("body", "finish", "text"),
    [
        (response(TEXT), Finish.STOP, "x"),
        (response(TEXT, CALL), Finish.TOOL_USE, "x"),
        (response(said({"type": "refusal", "refusal": "no"})), Finish.REFUSAL, "no"),
        (response(TEXT, status="incomplete", incomplete_details={"reason": "max_output_tokens"}), Finish.LENGTH, "x"),
        (response(TEXT, status="incomplete", incomplete_details={"reason": "content_filter"}), Finish.REFUSAL, "x"),
        (response(TEXT, status="incomplete"), Finish.OTHER, "x"),
        (response(CALL, status="incomplete", incomplete_details={"reason": "max_output_tokens"}), Finish.LENGTH, ""),
        (response(), Finish.STOP, ""),
    ],
)
def test_why_the_model_stopped_is_read_from_status_and_parts(body: dict[str, Any], finish: Finish, text: str) -> None:
    reply = Wire(body).model.complete(request())
    assert (reply.finish, reply.text) == (finish, text)


def test_a_conversation_lies_in_the_request_and_never_at_the_provider() -> None:
    wire = Wire(response(TEXT))
    wire.model.complete(request(tools=(BASH,)))
    assert wire.sent[0]["store"] is False
    assert not {"previous_response_id", "conversation", "temperature", "top_p"} & wire.sent[0].keys()


def test_reasoning_items_go_back_unchanged_with_the_call_that_they_led_to() -> None:
    wire = Wire(response(THOUGHT, CALL), response(TEXT))
    first = wire.model.complete(request(tools=(BASH,)))
    messages = (
        Message(role="user", text="?"),
        Message(role="assistant", text=first.text, tool_uses=first.tool_uses),
        Message(role="tool", tool_results=(ToolResult(id="call_1", text="a.txt"),)),
    )
    wire.model.complete(request(*messages, tools=(BASH,)))
    assert wire.sent[1]["input"][1:3] == [THOUGHT, CALL]
    assert wire.sent[1]["input"][3] == {"type": "function_call_output", "call_id": "call_1", "output": "a.txt"}


@pytest.mark.parametrize(
    "body",
    [
        {"status": "completed"},
        response("text"),
        response({"type": "message", "content": "text"}),
        response(said({"type": "output_text", "text": 7})),
        response({"type": "function_call", "call_id": "c"}),
    ],
)
def test_a_reply_of_another_shape_is_malformed_and_never_a_verdict(body: dict[str, Any]) -> None:
    with pytest.raises(ModelError) as caught:
        Wire(body).model.complete(request())
    assert caught.value.kind == "malformed"


def test_a_failed_response_inside_a_success_is_an_error_of_the_provider() -> None:
    body = {
        "object": "response",
        "status": "failed",
        "output": [],
        "error": {"code": "server_error", "message": "sorry"},
    }
    with pytest.raises(ModelError) as caught:
        Wire(body).model.complete(request())
    assert caught.value.kind == "overload"
