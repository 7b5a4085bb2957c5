"""Every provider protocol that the gateway speaks: what is taken out, what the conversation is, what an answer was."""

from __future__ import annotations

import contextlib
import copy
import json
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gate.adapters.gateway.chat import ChatCompletions
from gate.adapters.gateway.delta import Delta, grown
from gate.adapters.gateway.dialect import (
    STRIPPED_FIELD,
    STRIPPED_MEDIA,
    STRIPPED_TOOL,
    BadRequestError,
    Dialect,
    Events,
)
from gate.adapters.gateway.messages import Messages
from gate.adapters.gateway.responses import Responses
from gate.domain.chat import Finish
from tests.scripted.anthropic_messages import AnthropicMessages
from tests.scripted.openai_chat import OpenAIChat
from tests.scripted.openai_responses import OpenAIResponses
from tests.scripted.values import Reply, Request, ToolCall, wire_json

PROVIDERS: dict[str, tuple[Dialect, Any, dict[str, Any]]] = {
    "messages": (
        Messages(),
        AnthropicMessages(),
        {"model": "m", "max_tokens": 9, "messages": [{"role": "user", "content": "go"}]},
    ),
    "responses": (Responses(), OpenAIResponses(), {"model": "m", "input": "go"}),
    "chat": (ChatCompletions(), OpenAIChat(), {"model": "m", "messages": [{"role": "user", "content": "go"}]}),
}


def a_request(name: str, *, stream: bool) -> tuple[Dialect, Any, Request]:
    """A request as the scripted provider would see it."""
    dialect, provider, body = PROVIDERS[name]
    body = {
        **body,
        "stream": stream,
        **({"stream_options": {"include_usage": True}} if stream and name == "chat" else {}),
    }
    parsed = provider.parse(body, {"anthropic-version": "2023-06-01"})
    request = Request(
        index=0, dialect=provider.name, path=dialect.path, query="", model="m", system=parsed.system, messages=parsed.messages,
        tools=parsed.tools, schema=None, stream=stream, max_tokens=None, headers={}, body=body, raw=b"",
    )  # fmt: skip
    return dialect, provider, request


REPLIES = [
    (Reply("The sum is 3."), Finish.STOP),
    (Reply("I look.", (ToolCall("bash", {"command": "ls ü"}, "id_1"), ToolCall("bash", {}, "id_2"))), Finish.TOOL_USE),
    (Reply("half of", finish="length"), Finish.LENGTH),
    (Reply("No.", finish="refusal"), Finish.REFUSAL),
]


@pytest.mark.parametrize("name", PROVIDERS)
@pytest.mark.parametrize("stream", [True, False])
@pytest.mark.parametrize(("reply", "finish"), REPLIES)
@pytest.mark.parametrize("size", [1, 7, 100_000])
def test_an_answer_is_read_as_the_provider_meant_it_however_it_is_cut(
    name: str, stream: bool, reply: Reply, finish: Finish, size: int
) -> None:
    dialect, provider, request = a_request(name, stream=stream)
    raw = b"".join(provider.events(request, reply)) if stream else wire_json(provider.reply(request, reply))
    collector = dialect.collector(streamed=stream)
    for start in range(0, len(raw), size):
        collector.feed(raw[start : start + size])
    collector.end()
    found = collector.reply()
    assert found is not None
    assert (found.text, found.finish, found.model) == (reply.text, finish, "m")
    assert [(use.id, use.name, use.arguments) for use in found.tool_uses] == [
        (call.id, call.name, dict(call.arguments)) for call in reply.tool_calls if not isinstance(call.arguments, str)
    ]
    usage = reply.usage_for(request)
    assert usage is not None
    assert found.usage is not None
    assert (found.usage.input_tokens, found.usage.output_tokens) == (usage.input_tokens, usage.output_tokens)


@pytest.mark.parametrize("name", PROVIDERS)
def test_no_part_of_an_answer_is_an_answer(name: str) -> None:
    dialect, provider, request = a_request(name, stream=True)
    events = provider.events(request, REPLIES[1][0])
    # The last event of one protocol says nothing any more that the ones before it had not said.
    for count in range(len(events) - (3 if name == "chat" else 1)):
        collector = dialect.collector(streamed=True)
        collector.feed(b"".join(events[:count]))
        collector.end()
        assert (collector.finished, collector.reply()) == (False, None), count


@pytest.mark.parametrize("name", PROVIDERS)
def test_another_model_is_refused(name: str) -> None:
    dialect, _, body = PROVIDERS[name]
    for other in ("other", "", None, ["m"]):
        with pytest.raises(BadRequestError, match="not allowed"):
            dialect.prepare({**body, "model": other}, "m")


FUNCTION = {"type": "function", "name": "f", "parameters": {}}
STRIPPED: list[tuple[str, dict[str, Any], str, Callable[[dict[str, Any]], bool]]] = [
    ("messages", {"tools": [{"type": "web_search_20250305", "name": "web_search"}]}, STRIPPED_TOOL, lambda b: "tools" not in b),
    ("messages", {"tools": [{"type": "code_execution_20250825", "name": "x"}, {"name": "f"}]}, STRIPPED_TOOL,
     lambda b: b["tools"] == [{"name": "f"}]),
    ("messages", {"mcp_servers": [{"url": "https://evil.example"}]}, STRIPPED_FIELD, lambda b: "mcp_servers" not in b),
    ("messages", {"container": "c1"}, STRIPPED_FIELD, lambda b: "container" not in b),
    ("messages", {"messages": [{"role": "user", "content": [
        {"type": "image", "source": {"type": "url", "url": "https://evil.example/?q=secret"}}]}]}, STRIPPED_MEDIA,
     lambda b: "evil" not in json.dumps(b)),
    ("messages", {"messages": [{"role": "user", "content": [{"type": "tool_result", "tool_use_id": "t", "content": [
        {"type": "document", "source": {"type": "file", "file_id": "evil"}}]}]}]}, STRIPPED_MEDIA,
     lambda b: "evil" not in json.dumps(b)),
    ("responses", {"tools": [{"type": "web_search"}, FUNCTION]}, STRIPPED_TOOL, lambda b: b["tools"] == [FUNCTION]),
    ("responses", {"tools": [{"type": "mcp", "server_url": "https://evil.example"}]}, STRIPPED_TOOL, lambda b: b["tools"] == []),
    ("responses", {"tools": [{"type": "namespace", "name": "n", "tools": [{"type": "web_search"}, FUNCTION]}]}, STRIPPED_TOOL,
     lambda b: b["tools"][0]["tools"] == [FUNCTION]),
    ("responses", {"background": True}, STRIPPED_FIELD, lambda b: "background" not in b),
    ("responses", {"input": [{"role": "user", "content": [{"type": "input_image", "image_url": "https://evil.example"}]}]},
     STRIPPED_MEDIA, lambda b: "evil" not in json.dumps(b)),
    ("responses", {"input": [{"type": "function_call_output", "call_id": "c", "output": [
        {"type": "input_file", "file_url": "https://evil.example"}]}]}, STRIPPED_MEDIA, lambda b: "evil" not in json.dumps(b)),
    ("chat", {"tools": [{"type": "web_search"}]}, STRIPPED_TOOL, lambda b: "tools" not in b),
    ("chat", {"web_search_options": {"x": 1}}, STRIPPED_FIELD, lambda b: "web_search_options" not in b),
    ("chat", {"messages": [{"role": "user", "content": [{"type": "image_url", "image_url": {"url": "http://evil.example"}}]}]},
     STRIPPED_MEDIA, lambda b: "evil" not in json.dumps(b)),
]  # fmt: skip


@pytest.mark.requirements("R220")
@pytest.mark.parametrize(("name", "more", "kind", "is_clean"), STRIPPED)
def test_what_the_provider_would_run_or_fetch_is_taken_out_and_counted(
    name: str, more: dict[str, Any], kind: str, is_clean: Callable[[dict[str, Any]], bool]
) -> None:
    dialect, _, body = PROVIDERS[name]
    given = {**copy.deepcopy(body), **copy.deepcopy(more)}
    before = copy.deepcopy(given)
    prepared = dialect.prepare(given, "m")
    assert is_clean(prepared.body)
    assert prepared.stripped == {kind: 1}
    assert given == before, "what was received stays as it was"


INLINE = [
    ("messages", {"messages": [{"role": "user", "content": [
        {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "AA=="}}]}]}),
    ("messages", {"tools": [{"name": "f", "input_schema": {}}, {"type": "bash_20250124", "name": "bash"}]}),
    ("responses", {"input": [{"role": "user", "content": [{"type": "input_image", "image_url": "data:image/png;base64,AA=="}]}]}),
    ("responses", {"tools": [FUNCTION, {"type": "custom", "name": "apply_patch"}]}),
    ("chat", {"messages": [{"role": "user", "content": [{"type": "image_url", "image_url": {"url": "data:image/png;base64,AA=="}}]}]}),
]  # fmt: skip


@pytest.mark.parametrize(("name", "more"), INLINE)
def test_what_the_program_itself_runs_or_brings_stays(name: str, more: dict[str, Any]) -> None:
    dialect, _, body = PROVIDERS[name]
    prepared = dialect.prepare({**body, **more}, "m")
    assert not prepared.stripped
    assert {key: prepared.body[key] for key in more} == more


@pytest.mark.parametrize("field", ["previous_response_id", "conversation", "prompt"])
def test_a_history_that_lies_at_the_provider_is_refused(field: str) -> None:
    with pytest.raises(BadRequestError, match="whole conversation"):
        Responses().prepare({"model": "m", "input": "go", field: "x"}, "m")
    with pytest.raises(BadRequestError, match="whole conversation"):
        Responses().prepare({"model": "m", "input": [{"type": "item_reference", "id": "x"}]}, "m")


def test_nothing_is_kept_at_the_provider() -> None:
    assert Responses().prepare({"model": "m", "input": "go", "store": True}, "m").body["store"] is False


CONVERSATIONS: dict[str, dict[str, Any]] = {
    "messages": {"system": [{"type": "text", "text": "be brief"}], "messages": [
        {"role": "user", "content": "go"},
        {"role": "system", "content": "- sums: adds"},
        {"role": "assistant", "content": [{"type": "thinking", "thinking": "hm"}, {"type": "text", "text": "I look."},
                                          {"type": "tool_use", "id": "a", "name": "bash", "input": {"command": "ls"}}]},
        {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "a", "content": [{"type": "text", "text": "x.txt"}],
                                      "is_error": True}, {"type": "text", "text": "hurry"}]}],
        "tools": [{"name": "bash"}]},
    "responses": {"instructions": "be brief", "input": [
        {"role": "user", "content": "go"},
        {"type": "message", "role": "developer", "content": [{"type": "input_text", "text": "- sums: adds"}]},
        {"type": "reasoning", "summary": []},
        {"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": "I look."}]},
        {"type": "function_call", "call_id": "a", "name": "bash", "arguments": '{"command": "ls"}'},
        {"type": "function_call_output", "call_id": "a", "output": "x.txt"},
        {"role": "user", "content": "hurry"}], "tools": [{"type": "function", "name": "bash"}]},
    "chat": {"messages": [
        {"role": "system", "content": "be brief"}, {"role": "user", "content": "go"},
        {"role": "developer", "content": "- sums: adds"},
        {"role": "assistant", "content": "I look.", "tool_calls": [
            {"id": "a", "type": "function", "function": {"name": "bash", "arguments": '{"command": "ls"}'}}]},
        {"role": "tool", "tool_call_id": "a", "content": "x.txt"}, {"role": "user", "content": "hurry"}],
        "tools": [{"type": "function", "function": {"name": "bash"}}]},
}  # fmt: skip


@pytest.mark.parametrize("name", CONVERSATIONS)
def test_the_same_conversation_is_the_same_whatever_protocol_it_came_in(name: str) -> None:
    talk = PROVIDERS[name][0].talk(CONVERSATIONS[name])
    assert talk.system == "be brief\n\n- sums: adds"
    assert talk.tools == ("bash",)
    assert [message.role for message in talk.messages] == ["user", "assistant", "tool", "user"]
    go, look, result, hurry = talk.messages
    assert (go.text, look.text, hurry.text) == ("go", "I look.", "hurry")
    assert [(use.id, use.name, use.arguments) for use in look.tool_uses] == [("a", "bash", {"command": "ls"})]
    assert [(item.id, item.text) for item in result.tool_results] == [("a", "x.txt")]


@pytest.mark.parametrize("name", PROVIDERS)
def test_an_error_is_worded_as_the_provider_does(name: str) -> None:
    error = PROVIDERS[name][0].error(403, "the budget is used up")
    assert error["error"]["message"] == "the budget is used up"


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(
        ["role", "content", "type", "text", "tool_use_id", "input", "tools", "name", "id", "source", "output", "call_id", "arguments"]
    ), inner, max_size=4),
    max_leaves=12,
)  # fmt: skip


@pytest.mark.parametrize("name", PROVIDERS)
@given(messages=JSON, tools=JSON, system=JSON)
def test_no_body_makes_it_fail_in_a_way_of_its_own(name: str, messages: Any, tools: Any, system: Any) -> None:
    """The gateway answers such bodies with 400; any other exception would be a hole."""
    dialect = PROVIDERS[name][0]
    body = {
        "model": "m",
        "messages": messages,
        "input": messages,
        "tools": tools,
        "system": system,
        "instructions": system,
    }
    with contextlib.suppress(BadRequestError, TypeError, ValueError, AttributeError, KeyError):
        dialect.talk(dialect.prepare(body, "m").body)


@given(st.binary(max_size=200), st.integers(1, 50))
def test_events_are_the_same_however_the_bytes_are_cut(noise: bytes, size: int) -> None:
    raw = noise.replace(b"\r", b"") + b'\n\ndata: {"a": 1}\n\ndata: [DONE]\n\n'
    whole, cut = Events(), Events()
    expected = list(whole.feed(raw))
    found = [event for start in range(0, len(raw), size) for event in cut.feed(raw[start : start + size])]
    assert found == expected
    assert {"a": 1} in found
    assert cut.done


@given(
    st.lists(
        st.fixed_dictionaries({"messages": st.lists(st.integers(0, 3), max_size=6), "x": st.integers(0, 2)}), max_size=8
    )
)
def test_the_record_of_growing_bodies_loses_nothing(bodies: list[dict[str, Any]]) -> None:
    delta = Delta()
    whole: dict[int, dict[str, Any]] = {}
    for number, body in enumerate(bodies):
        whole[number] = grown(whole, json.loads(json.dumps(delta.shrink(number, body))))
        assert whole[number] == body
