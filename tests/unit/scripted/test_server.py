"""The scripted model server, driven by the official SDKs and, where they are too polite, by bare sockets."""

from __future__ import annotations

import asyncio
import http.client
import json
import os
import re
import select
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any

import anthropic
import httpx2
import openai
import pydantic
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.scripted import (
    Delayed,
    Dropped,
    Empty,
    Endless,
    ErrorInStream,
    Fault,
    HttpError,
    Malformed,
    Message,
    Reply,
    Request,
    Script,
    ScriptedServer,
    ScriptedServerError,
    SlowDrip,
    Step,
    ToolCall,
    ToolResult,
    Truncated,
    Usage,
    after,
    bad_gateway,
    by_role,
    context_too_long,
    first,
    forbidden,
    no_such_model,
    overloaded,
    quota_exceeded,
    rate_limited,
    server_error,
    too_large,
    turns,
    unauthorized,
    unavailable,
    unsupported_parameter,
)
from tests.scripted.anthropic_messages import AnthropicMessages
from tests.scripted.openai_chat import OpenAIChat

REPOSITORY = Path(__file__).resolve().parents[3]
DIALECTS = ("openai", "anthropic")
HARD_TEXT = 'Grüße 🦊 a\u2028b\u2029c "quoted" \\ \r\n\ttab data: [DONE]\n\nevent: error\n'
LS = {"type": "object", "properties": {"path": {"type": "string"}}}
VERDICT = {
    "type": "object",
    "properties": {"passed": {"type": "boolean"}},
    "required": ["passed"],
    "additionalProperties": False,
}

both_dialects = pytest.mark.parametrize("dialect", DIALECTS)
both_ways = pytest.mark.parametrize("stream", [False, True], ids=["whole", "stream"])


@pytest.fixture(autouse=True)
def _plain_surroundings(monkeypatch: pytest.MonkeyPatch) -> None:
    """Keeps proxies and the settings of the SDKs on this machine out of the tests."""
    for name in os.environ:
        if name.startswith(("OPENAI_", "ANTHROPIC_")) or name.lower().endswith("_proxy"):
            monkeypatch.delenv(name)


@dataclass(frozen=True)
class Heard:
    """What a client understood of a reply."""

    text: str
    calls: tuple[tuple[str, str, Any], ...]
    finish: str | None
    usage: tuple[int, int] | None
    model: str
    id: str


def openai_client(server: ScriptedServer, **options: Any) -> openai.OpenAI:
    settings = {"api_key": "key-o", "max_retries": 0, "timeout": 30, "_strict_response_validation": True, **options}
    return openai.OpenAI(base_url=server.openai_url, **settings)


def anthropic_client(server: ScriptedServer, **options: Any) -> anthropic.Anthropic:
    settings = {"api_key": "key-a", "max_retries": 0, "timeout": 30, "_strict_response_validation": True, **options}
    return anthropic.Anthropic(base_url=server.url, **settings)


def conversation(dialect: str, *messages: Message, system: str = "", tools: tuple[str, ...] = ()) -> dict[str, Any]:
    """The body, without the stream flag, in which a client of this dialect would send a conversation."""
    body: dict[str, Any] = {"model": "scripted-1", "messages": []}
    sent = body["messages"]
    if dialect == "openai":
        if system:
            sent.append({"role": "system", "content": system})
        if tools:
            body["tools"] = [{"type": "function", "function": {"name": name, "parameters": LS}} for name in tools]
        for message in messages:
            if message.role == "tool":
                sent += [{"role": "tool", "tool_call_id": r.id, "content": r.text} for r in message.tool_results]
                continue
            sent.append({"role": message.role, "content": message.text or None})
            if message.tool_calls:
                sent[-1]["tool_calls"] = [
                    {"id": c.id, "type": "function", "function": {"name": c.name, "arguments": c.arguments_text}}
                    for c in message.tool_calls
                ]
        return body
    body["max_tokens"] = 100
    if system:
        body["system"] = system
    if tools:
        body["tools"] = [{"name": name, "input_schema": LS} for name in tools]
    for message in messages:
        blocks: list[dict[str, Any]] = [
            {"type": "tool_result", "tool_use_id": r.id, "content": r.text, "is_error": r.is_error}
            for r in message.tool_results
        ]
        blocks += [{"type": "text", "text": message.text}] if message.text else []
        blocks += [{"type": "tool_use", "id": c.id, "name": c.name, "input": c.arguments} for c in message.tool_calls]
        sent.append({"role": "assistant" if message.role == "assistant" else "user", "content": blocks})
    return body


def hear(
    dialect: str,
    server: ScriptedServer,
    *messages: Message,
    stream: bool = False,
    options: Mapping[str, Any] | None = None,
    extra: Mapping[str, Any] | None = None,
    **more: Any,
) -> Heard:
    """Send a conversation with the official SDK and return what came of it."""
    body = {**conversation(dialect, *(messages or (Message("user", "hello"),)), **more), **(extra or {})}
    if dialect == "openai":
        with openai_client(server, **(options or {})) as client:
            if not stream:
                return _whole_completion(client.chat.completions.create(**body))
            return _streamed_completion(
                client.chat.completions.create(**body, stream=True, stream_options={"include_usage": True})
            )
    with anthropic_client(server, **(options or {})) as client:
        if not stream:
            return _message(client.messages.create(**body))
        with client.messages.stream(**body) as events:
            return _message(events.get_final_message())


def _whole_completion(completion: Any) -> Heard:
    choice = completion.choices[0]
    calls = tuple((c.id, c.function.name, json.loads(c.function.arguments)) for c in choice.message.tool_calls or ())
    usage = completion.usage and (completion.usage.prompt_tokens, completion.usage.completion_tokens)
    text = choice.message.content or choice.message.refusal or ""
    return Heard(text, calls, choice.finish_reason, usage, completion.model, completion.id)


def _streamed_completion(chunks: Any) -> Heard:
    text, calls, finish, usage, model, name = "", {}, None, None, "", ""
    for chunk in chunks:
        model, name = chunk.model, chunk.id
        if chunk.usage:
            usage = (chunk.usage.prompt_tokens, chunk.usage.completion_tokens)
        for choice in chunk.choices:
            text += choice.delta.content or choice.delta.refusal or ""
            finish = choice.finish_reason or finish
            for delta in choice.delta.tool_calls or ():
                if delta.id:
                    calls[delta.index] = [delta.id, delta.function.name, ""]
                calls[delta.index][2] += delta.function.arguments
    heard = tuple((call_id, called, json.loads(written)) for call_id, called, written in calls.values())
    return Heard(text, heard, finish, usage, model, name)


def _message(message: Any) -> Heard:
    text = "".join(block.text for block in message.content if block.type == "text")
    calls = tuple((b.id, b.name, b.input) for b in message.content if b.type == "tool_use")
    usage = getattr(message, "usage", None) and (message.usage.input_tokens, message.usage.output_tokens)
    return Heard(text, calls, message.stop_reason, usage, message.model, message.id)


HEADERS = {
    "openai": {"content-type": "application/json"},
    "anthropic": {"content-type": "application/json", "anthropic-version": "2026-10-21"},
}
PATHS = {"openai": "/v1/chat/completions", "anthropic": "/v1/messages"}


@contextmanager
def connection(server: ScriptedServer) -> Iterator[http.client.HTTPConnection]:
    link = http.client.HTTPConnection("127.0.0.1", server.port, timeout=30)
    try:
        yield link
    finally:
        link.close()


def post(server: ScriptedServer, dialect: str, body: Any, path: str | None = None, **headers: str) -> tuple[int, Any]:
    """Send a body as it is and return status and JSON of the answer."""
    content = body if isinstance(body, bytes) else json.dumps(body).encode()
    with connection(server) as link:
        link.request("POST", path or PATHS[dialect], content, {**HEADERS[dialect], **headers})
        response = link.getresponse()
        return response.status, json.loads(response.read())


def open_socket(server: ScriptedServer) -> socket.socket:
    return socket.create_connection(("127.0.0.1", server.port), timeout=60)


@contextmanager
def a_failing_server(scenario: Step, words: str) -> Iterator[ScriptedServer]:
    """A server whose block must end with a report that holds these words."""
    with pytest.raises(ScriptedServerError, match=re.escape(words)), ScriptedServer(scenario) as server:
        yield server


def raw_exchange(server: ScriptedServer, message: bytes) -> bytes:
    """Send bytes, hang up for writing, and return all that comes back."""
    with open_socket(server) as link:
        link.sendall(message)
        link.shutdown(socket.SHUT_WR)
        return b"".join(iter(lambda: link.recv(65536), b""))


def raw_post(dialect: str, body: Any, *, version: str = "HTTP/1.1") -> bytes:
    content = json.dumps(body).encode()
    lines = [f"POST {PATHS[dialect]} {version}", "host: x", f"content-length: {len(content)}"]
    lines += [f"{name}: {value}" for name, value in HEADERS[dialect].items()]
    return "\r\n".join([*lines, "", ""]).encode() + content


# Replies


@both_dialects
@both_ways
def test_a_reply_arrives_as_it_was_written(dialect: str, stream: bool) -> None:
    with ScriptedServer(Reply(HARD_TEXT)) as server:
        heard = hear(dialect, server, stream=stream)
    assert heard.text == HARD_TEXT
    assert heard.finish == {"openai": "stop", "anthropic": "end_turn"}[dialect]
    assert heard.model == "scripted-1"
    assert heard.id.startswith({"openai": "chatcmpl-", "anthropic": "msg_"}[dialect])
    assert heard.usage is not None
    assert min(heard.usage) > 0


@both_dialects
@both_ways
def test_tool_calls_arrive_with_their_arguments(dialect: str, stream: bool) -> None:
    arguments = {"path": HARD_TEXT, "deep": [{"n": 1.5, "none": None}, []]}
    reply = Reply("Let me look.", (ToolCall("ls", arguments), ToolCall("pwd"), ToolCall("ls", {"path": "/"}, id="own")))
    with ScriptedServer(reply) as server:
        heard = hear(dialect, server, stream=stream, tools=("ls", "pwd"))
    assert heard.text == "Let me look."
    assert [(name, found) for _, name, found in heard.calls] == [("ls", arguments), ("pwd", {}), ("ls", {"path": "/"})]
    assert len({call_id for call_id, _, _ in heard.calls}) == 3
    assert heard.calls[2][0] == "own"
    assert heard.finish == {"openai": "tool_calls", "anthropic": "tool_use"}[dialect]


@both_dialects
def test_a_stream_says_what_the_whole_reply_says(dialect: str) -> None:
    reply = Reply("Two calls.", (ToolCall("ls", {"path": "a"}), ToolCall("ls", {"path": "b"})))
    with ScriptedServer(reply) as server:
        whole = hear(dialect, server, tools=("ls",))
        streamed = hear(dialect, server, tools=("ls",), stream=True)
    assert (whole.text, whole.finish, whole.usage) == (streamed.text, streamed.finish, streamed.usage)
    assert [call[1:] for call in whole.calls] == [call[1:] for call in streamed.calls]


@both_dialects
@both_ways
@pytest.mark.parametrize(
    ("finish", "openai_word", "anthropic_word"),
    [
        ("stop", "stop", "end_turn"),
        ("length", "length", "max_tokens"),
        ("refusal", "stop", "refusal"),
        ("content_filter", "content_filter", "refusal"),
    ],
)
def test_each_reason_to_stop_has_the_provider_s_word(
    dialect: str, stream: bool, finish: Any, openai_word: str, anthropic_word: str
) -> None:
    with ScriptedServer(Reply("No.", finish=finish)) as server:
        heard = hear(dialect, server, stream=stream)
    assert (heard.text, heard.finish) == ("No.", openai_word if dialect == "openai" else anthropic_word)


def test_a_refusal_stands_in_the_field_for_refusals() -> None:
    with ScriptedServer(Reply("I can't help with that.", finish="refusal")) as server:
        with openai_client(server) as client:
            completion = client.chat.completions.create(**conversation("openai", Message("user", "x")))
        with anthropic_client(server) as other:
            message = other.messages.create(**conversation("anthropic", Message("user", "x")))
    assert completion.choices[0].message.content is None
    assert completion.choices[0].message.refusal == "I can't help with that."
    assert message.stop_details is not None
    assert message.stop_details.type == "refusal"


@both_dialects
@both_ways
def test_an_empty_reply_is_a_reply(dialect: str, stream: bool) -> None:
    with ScriptedServer(Reply()) as server:
        heard = hear(dialect, server, stream=stream)
    assert (heard.text, heard.calls) == ("", ())


def test_cached_tokens_are_counted_as_each_provider_counts_them() -> None:
    usage = Usage(100, 7, cache_read_tokens=60, cache_write_tokens=30)
    with ScriptedServer(Reply("x", usage=usage)) as server:
        with openai_client(server) as client:
            completion = client.chat.completions.create(**conversation("openai", Message("user", "x")))
        with anthropic_client(server) as other:
            message = other.messages.create(**conversation("anthropic", Message("user", "x")))
    assert completion.usage is not None
    assert completion.usage.prompt_tokens_details is not None
    assert (completion.usage.prompt_tokens, completion.usage.total_tokens) == (100, 107)
    assert completion.usage.prompt_tokens_details.cached_tokens == 60
    assert (message.usage.input_tokens, message.usage.output_tokens) == (10, 7)
    assert (message.usage.cache_read_input_tokens, message.usage.cache_creation_input_tokens) == (60, 30)


@both_dialects
@both_ways
def test_a_server_may_send_no_usage(dialect: str, stream: bool) -> None:
    with ScriptedServer(Reply("x", usage="omitted")) as server:
        body = {**conversation(dialect, Message("user", "x")), "stream": stream}
        answer = raw_exchange(server, raw_post(dialect, body, version="HTTP/1.0"))
    assert b"usage" not in answer


def test_a_stream_of_openai_holds_usage_only_when_asked() -> None:
    with ScriptedServer(Reply("x")) as server, openai_client(server) as client:
        body = conversation("openai", Message("user", "x"))
        silent = list(client.chat.completions.create(**body, stream=True))
        asked = list(client.chat.completions.create(**body, stream=True, stream_options={"include_usage": True}))
    assert all(chunk.usage is None for chunk in silent)
    assert [chunk.usage is not None for chunk in asked] == [False] * (len(asked) - 1) + [True]
    assert asked[-1].choices == []


@both_dialects
@both_ways
def test_a_reply_may_come_from_a_model_of_another_name(dialect: str, stream: bool) -> None:
    with ScriptedServer(Reply("x", model="scripted-1-2026")) as server:
        assert hear(dialect, server, stream=stream).model == "scripted-1-2026"


@both_ways
def test_arguments_that_are_no_object_reach_an_openai_client_as_written(stream: bool) -> None:
    with ScriptedServer(Reply.calling("ls", '{"path": ')) as server, openai_client(server) as client:
        body = conversation("openai", Message("user", "x"), tools=("ls",))
        if stream:
            chunks = client.chat.completions.create(**body, stream=True)
            deltas = [d for chunk in chunks for c in chunk.choices for d in c.delta.tool_calls or ()]
            written = "".join(d.function.arguments or "" for d in deltas if d.function)
        else:
            call = client.chat.completions.create(**body).choices[0].message.tool_calls
            assert call is not None
            assert call[0].type == "function"
            written = call[0].function.arguments
    assert written == '{"path": '


def test_anthropic_can_say_arguments_that_are_no_object_in_a_stream_only() -> None:
    reply = Reply.calling("ls", '{"path": }')
    with ScriptedServer(reply) as server, anthropic_client(server) as client:
        body = conversation("anthropic", Message("user", "x"), tools=("ls",))
        events = client.messages.create(**body, stream=True)
        deltas = [e.delta for e in events if e.type == "content_block_delta"]
    assert "".join(d.partial_json for d in deltas if d.type == "input_json_delta") == '{"path": }'
    with a_failing_server(reply, "in a stream only") as server, pytest.raises(anthropic.BadRequestError):
        hear("anthropic", server, tools=("ls",))


@pytest.mark.parametrize(
    "mistake",
    [
        lambda: Reply("x", finish="tool_use"),
        lambda: Usage(-1, 0),
        lambda: Usage(5, 0, cache_read_tokens=6),
        lambda: HttpError(200, "fine"),
        lambda: SlowDrip(piece_bytes=0),
    ],
)
def test_answers_that_no_provider_could_give_are_refused_when_made(mistake: Callable[[], object]) -> None:
    with pytest.raises(ValueError, match=r"."):
        mistake()


def test_the_helpers_of_the_sdks_understand_the_replies() -> None:
    class Verdict(pydantic.BaseModel):
        passed: bool

    with ScriptedServer(Reply.of_json({"passed": True})) as server:
        with openai_client(server) as client:
            parsed = client.chat.completions.parse(
                model="m", messages=[{"role": "user", "content": "x"}], response_format=Verdict
            )
            with client.chat.completions.stream(
                model="m", messages=[{"role": "user", "content": "x"}], response_format=Verdict
            ) as events:
                streamed = events.get_final_completion()
        with anthropic_client(server) as other:
            message = other.messages.parse(
                model="m", max_tokens=9, messages=[{"role": "user", "content": "x"}], output_format=Verdict
            )
    assert parsed.choices[0].message.parsed == Verdict(passed=True)
    assert streamed.choices[0].message.parsed == Verdict(passed=True)
    assert message.parsed_output == Verdict(passed=True)
    assert [request.schema and set(request.schema["properties"]) for request in server.requests] == [{"passed"}] * 3


# What a scenario sees


@both_dialects
@both_ways
def test_a_tool_loop_runs_to_its_end(dialect: str, stream: bool) -> None:
    scenario = turns(
        Reply.calling("ls", {"path": "."}, text="Looking."),
        Reply("", (ToolCall("ls", {"path": "a"}), ToolCall("ls", {"path": "b"}))),
        lambda request: Reply(f"Found {' and '.join(result.text for result in request.last.tool_results)}."),
    )
    said = [Message("user", "What is there?")]
    with ScriptedServer(scenario) as server:
        for _ in range(3):
            heard = hear(dialect, server, *said, stream=stream, system="Be brief.", tools=("ls",))
            calls = tuple(ToolCall(name, arguments, call_id) for call_id, name, arguments in heard.calls)
            said.append(Message("assistant", heard.text, calls))
            if calls:
                results = tuple(ToolResult(call.id, f"<{call.arguments['path']}>") for call in calls)  # type: ignore[index]
                said.append(Message("tool", tool_results=results))
    assert said[-1].text == "Found <a> and <b>."
    assert [request.turn for request in server.requests] == [0, 1, 2]
    final = server.requests[-1]
    assert final.messages == tuple(said[:-1])
    assert (final.index, final.dialect, final.system, final.stream) == (2, dialect, "Be brief.", stream)
    assert final.tools == {"ls": LS}


def test_one_conversation_is_the_same_request_in_both_dialects() -> None:
    said = (
        Message("user", "Tidy up."),
        Message("assistant", "First a look.", (ToolCall("ls", {"path": "."}, "c1"), ToolCall("ls", {}, "c2"))),
        Message("tool", tool_results=(ToolResult("c1", "a b"), ToolResult("c2", ""))),
        Message("assistant", "Done."),
        Message("user", "Thanks."),
    )
    with ScriptedServer(Reply("ok")) as server:
        heard = [hear(dialect, server, *said, system="S", tools=("ls",)) for dialect in DIALECTS]
        with anthropic_client(server) as client:
            body = conversation("anthropic", *said, system="S", tools=("ls",))
            del body["max_tokens"]
            counted = client.messages.count_tokens(**body)
    left, right = server.requests
    assert left.messages == right.messages == said
    assert (left.system, left.tools, left.schema) == (right.system, right.tools, right.schema)
    assert heard[0].usage == heard[1].usage
    assert counted.input_tokens == left.input_tokens == server.counted[0].input_tokens
    assert heard[0].usage is not None
    assert heard[0].usage[0] == left.input_tokens


def test_the_requested_schema_is_found_wherever_the_dialect_puts_it() -> None:
    openai_format = {"type": "json_schema", "json_schema": {"name": "v", "strict": True, "schema": VERDICT}}
    with ScriptedServer(Reply("{}")) as server:
        hear("openai", server, extra={"response_format": openai_format})
        hear("openai", server, Message("user", "as JSON"), extra={"response_format": {"type": "json_object"}})
        hear("openai", server, extra={"response_format": {"type": "text"}})
        hear("anthropic", server, extra={"output_config": {"format": {"type": "json_schema", "schema": VERDICT}}})
        hear("anthropic", server)
    assert [request.schema for request in server.requests] == [VERDICT, {"type": "object"}, None, VERDICT, None]


def test_parts_that_are_not_text_are_named_and_thinking_is_left_out() -> None:
    image = {"type": "image_url", "image_url": {"url": "data:image/png;base64,AA=="}}
    block = {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "AA=="}}
    thinking = {"type": "thinking", "thinking": "hm", "signature": "s"}
    with ScriptedServer(Reply("ok")) as server:
        post(server, "openai", {"model": "m", "messages": [{"role": "user", "content": [image, _text("what?")]}]})
        messages = [
            {"role": "user", "content": [block, _text("what?")]},
            {"role": "assistant", "content": [thinking, _text("A fox.")]},
            {"role": "user", "content": "why?"},
        ]
        post(server, "anthropic", {"model": "m", "max_tokens": 1, "messages": messages})
    assert server.requests[0].last.text == "[image_url]\nwhat?"
    assert [message.text for message in server.requests[1].messages] == ["[image]\nwhat?", "A fox.", "why?"]


def _text(text: str) -> dict[str, Any]:
    return {"type": "text", "text": text}


def test_results_and_a_text_behind_them_are_two_messages() -> None:
    messages = [
        {"role": "user", "content": "go"},
        {"role": "assistant", "content": [{"type": "tool_use", "id": "t", "name": "ls", "input": {}}]},
        {
            "role": "user",
            "content": [
                {"type": "tool_result", "tool_use_id": "t", "is_error": True, "content": [_text("no"), _text("such")]},
                _text("try again"),
            ],
        },
    ]
    with ScriptedServer(Reply("ok")) as server:
        post(server, "anthropic", {"model": "m", "max_tokens": 1, "messages": messages})
    assert server.requests[0].messages[2:] == (
        Message("tool", tool_results=(ToolResult("t", "no\nsuch", is_error=True),)),
        Message("user", "try again"),
    )


def test_system_texts_are_joined_wherever_they_stand() -> None:
    with ScriptedServer(Reply("ok")) as server:
        sent = [
            {"role": "system", "content": "one"},
            {"role": "user", "content": "hi"},
            {"role": "developer", "content": [_text("two")]},
        ]
        post(server, "openai", {"model": "m", "messages": sent})
        sent = [{"role": "user", "content": "hi"}, {"role": "system", "content": "two"}]
        post(server, "anthropic", {"model": "m", "max_tokens": 1, "system": [_text("one")], "messages": sent})
    assert [request.system for request in server.requests] == ["one\n\ntwo", "one\n\ntwo"]
    assert [request.messages for request in server.requests] == [(Message("user", "hi"),)] * 2


def test_headers_query_and_bytes_are_kept() -> None:
    body = conversation("anthropic", Message("user", "hi"))
    content = json.dumps(body, indent=3).encode()
    with ScriptedServer(Reply("ok")) as server:
        post(server, "anthropic", content, "/v1/messages?beta=true", **{"Anthropic-Beta": "a,b"})
    (request,) = server.requests
    assert (request.path, request.query, request.raw, request.body) == ("/v1/messages", "beta=true", content, body)
    assert request.headers["anthropic-beta"] == "a,b"
    assert (request.model, request.max_tokens) == ("scripted-1", 100)


def test_a_body_may_come_in_chunks() -> None:
    content = json.dumps(conversation("openai", Message("user", "hi"))).encode()
    with ScriptedServer(Reply("ok")) as server, connection(server) as link:
        parts = iter([content[:7], content[7:]])
        link.request("POST", PATHS["openai"], parts, HEADERS["openai"], encode_chunked=True)
        assert link.getresponse().status == 200
    assert server.requests[0].raw == content


# Determinism


@both_dialects
@both_ways
@pytest.mark.parametrize("answer", [Reply(HARD_TEXT), Reply.calling("ls", {"path": "x"}), overloaded(), Malformed()])
def test_equal_requests_get_equal_bytes_from_any_server(dialect: str, stream: bool, answer: Step) -> None:
    body = {**conversation(dialect, Message("user", "hi"), tools=("ls",)), "stream": stream}
    reordered = dict(reversed(body.items()))
    seen = set()
    for sent in (body, reordered):
        with ScriptedServer(answer) as server:
            seen.add(raw_exchange(server, raw_post(dialect, sent)))
    (answer_bytes,) = seen
    head = answer_bytes.partition(b"\r\n\r\n")[0].lower()
    assert b"\r\ndate:" not in head
    assert b"\r\nserver:" not in head


@both_dialects
def test_other_requests_get_other_ids(dialect: str) -> None:
    with ScriptedServer(Reply.calling("ls")) as server:
        heard = [hear(dialect, server, Message("user", text), tools=("ls",)) for text in ("a", "b")]
    assert heard[0].id != heard[1].id
    assert heard[0].calls[0][0] != heard[1].calls[0][0]


def test_what_is_saved_is_equal_for_equal_calls_and_holds_no_key(tmp_path: Path) -> None:
    saved = []
    for key in ("secret-1", "secret-2"):
        with ScriptedServer(Reply("ok")) as server:
            for dialect in DIALECTS:
                hear(dialect, server, options={"api_key": key})
            server.save(tmp_path / key)
        saved.append((tmp_path / key).read_bytes())
    assert saved[0] == saved[1]
    assert b"secret" not in saved[0]
    first_record, second_record = map(json.loads, saved[0].splitlines())
    assert (first_record["index"], first_record["dialect"], first_record["path"]) == (0, "openai", PATHS["openai"])
    assert second_record["body"] == conversation("anthropic", Message("user", "hello"))
    assert second_record["headers"]["anthropic-version"] == "2026-10-21"


def test_a_lone_surrogate_survives_the_way_there_and_back(tmp_path: Path) -> None:
    with ScriptedServer(lambda request: Reply(request.last.text)) as server:
        status, completion = post(server, "openai", conversation("openai", Message("user", "\ud800 alone")))
        server.save(tmp_path / "requests")
    assert (status, completion["choices"][0]["message"]["content"]) == (200, "\ud800 alone")


# Transport


@both_dialects
def test_a_connection_is_kept_for_the_next_request(dialect: str) -> None:
    body = json.dumps(conversation(dialect, Message("user", "hi")))
    with ScriptedServer(Script([Reply("a"), rate_limited(), Reply("b")])) as server, connection(server) as link:
        ports = set()
        for status in (200, 429, 200):
            link.request("POST", PATHS[dialect], body, HEADERS[dialect])
            response = link.getresponse()
            assert (response.status, bool(response.read())) == (status, True)
            ports.add(link.sock.getsockname())
    assert len(ports) == 1


@both_dialects
@both_ways
def test_sixteen_clients_are_served_at_once(dialect: str, stream: bool) -> None:
    everybody_is_here = threading.Barrier(16, timeout=60)

    def scenario(request: Request) -> Reply:
        everybody_is_here.wait()
        return Reply(f"you said {request.last.text}")

    with ScriptedServer(scenario) as server, ThreadPoolExecutor(16) as pool:
        heard = list(pool.map(lambda n: hear(dialect, server, Message("user", f"{n}"), stream=stream), range(16)))
    assert [reply.text for reply in heard] == [f"you said {n}" for n in range(16)]
    assert sorted(request.index for request in server.requests) == list(range(16))


def test_asynchronous_clients_are_served_too() -> None:
    async def ask(server: ScriptedServer) -> list[str | None]:
        async with (
            openai.AsyncOpenAI(api_key="k", base_url=server.openai_url, max_retries=0) as client,
            anthropic.AsyncAnthropic(api_key="k", base_url=server.url, max_retries=0) as other,
        ):
            chunks = await client.chat.completions.create(**conversation("openai", Message("user", "x")), stream=True)
            texts = [chunk.choices[0].delta.content async for chunk in chunks]
            async with other.messages.stream(**conversation("anthropic", Message("user", "x"))) as stream:
                texts.append(await stream.get_final_text())
        return texts

    with ScriptedServer(Reply("async")) as server:
        assert asyncio.run(ask(server)) == ["", "async", None, "async"]


def test_an_old_client_gets_a_stream_without_chunks() -> None:
    body = {**conversation("openai", Message("user", "x")), "stream": True}
    with ScriptedServer(Reply("x")) as server:
        answer = raw_exchange(server, raw_post("openai", body, version="HTTP/1.0"))
    assert answer.endswith(b"\n\ndata: [DONE]\n\n")
    assert b"transfer-encoding" not in answer


def test_stopping_frees_the_port_and_may_be_repeated() -> None:
    with ScriptedServer(Reply("one")) as server:
        port = server.port
    server.stop()
    with ScriptedServer(Reply("two"), port=port) as other:
        assert hear("openai", other).text == "two"


def test_models_are_listed_and_described_in_both_shapes() -> None:
    with ScriptedServer(Reply("x"), models=("m-1", "m-2")) as server:
        with openai_client(server) as client:
            assert [model.id for model in client.models.list()] == ["m-1", "m-2"]
            assert client.models.retrieve("m-2").owned_by == "scripted"
            with pytest.raises(openai.NotFoundError):
                client.models.retrieve("m-3")
        with anthropic_client(server) as other:
            assert [model.id for model in other.models.list()] == ["m-1", "m-2"]
            assert other.models.retrieve("m-1").display_name == "m-1"


def test_a_probe_of_the_root_is_answered() -> None:
    with ScriptedServer(Reply("x")) as server, connection(server) as link:
        link.request("HEAD", "/")
        assert link.getresponse().status == 200
    assert server.requests == []


# Faults


@both_ways
@pytest.mark.parametrize(
    ("fault", "by_openai", "by_anthropic"),
    [
        (
            unsupported_parameter("temperature"),
            (openai.BadRequestError, "invalid_request_error", "unsupported_parameter"),
            (anthropic.BadRequestError, "invalid_request_error"),
        ),
        (
            context_too_long(),
            (openai.BadRequestError, "invalid_request_error", "context_length_exceeded"),
            (anthropic.BadRequestError, "invalid_request_error"),
        ),
        (
            unauthorized(),
            (openai.AuthenticationError, "invalid_request_error", "invalid_api_key"),
            (anthropic.AuthenticationError, "authentication_error"),
        ),
        (
            forbidden(),
            (openai.PermissionDeniedError, "invalid_request_error", "insufficient_permissions"),
            (anthropic.PermissionDeniedError, "permission_error"),
        ),
        (
            no_such_model(),
            (openai.NotFoundError, "invalid_request_error", "model_not_found"),
            (anthropic.NotFoundError, "not_found_error"),
        ),
        (
            too_large(),
            (openai.APIStatusError, "invalid_request_error", "request_too_large"),
            (anthropic.ContentTooLargeError, "request_too_large"),
        ),
        (
            rate_limited(),
            (openai.RateLimitError, "requests", "rate_limit_exceeded"),
            (anthropic.RateLimitError, "rate_limit_error"),
        ),
        (
            server_error(),
            (openai.InternalServerError, "server_error", None),
            (anthropic.InternalServerError, "api_error"),
        ),
        (
            unavailable(),
            (openai.InternalServerError, "server_error", None),
            (anthropic.ServiceUnavailableError, "api_error"),
        ),
        (
            overloaded(),
            (openai.InternalServerError, "server_error", None),
            (anthropic.OverloadedError, "overloaded_error"),
        ),
    ],
    ids=lambda value: f"{value.status}" if isinstance(value, HttpError) else "",
)
def test_an_error_status_is_the_provider_s_error(
    stream: bool,
    fault: HttpError,
    by_openai: tuple[type[openai.APIStatusError], str, str | None],
    by_anthropic: tuple[type[anthropic.APIStatusError], str],
) -> None:
    with ScriptedServer(fault) as server:
        with pytest.raises(by_openai[0]) as left:
            hear("openai", server, stream=stream)
        with pytest.raises(by_anthropic[0]) as right:
            hear("anthropic", server, stream=stream)
    assert (left.value.status_code, left.value.type, left.value.code) == (fault.status, *by_openai[1:])
    assert left.value.param == fault.param
    assert (right.value.status_code, right.value.type) == (fault.status, by_anthropic[1])
    assert right.value.api_message == fault.message
    assert str(left.value.request_id).startswith("req_")
    assert str(right.value.request_id).startswith("req_")


def test_an_exhausted_quota_is_told_from_a_rate_limit_by_its_code() -> None:
    with ScriptedServer(quota_exceeded()) as server, pytest.raises(openai.RateLimitError) as caught:
        hear("openai", server)
    assert (caught.value.code, caught.value.type) == ("insufficient_quota", "insufficient_quota")
    with ScriptedServer(HttpError(402, "no credit")) as server, pytest.raises(anthropic.PaymentRequiredError) as other:
        hear("anthropic", server)
    assert other.value.type == "billing_error"


@both_dialects
def test_a_proxy_answers_with_a_page(dialect: str) -> None:
    errors = (openai.InternalServerError, anthropic.InternalServerError)
    with ScriptedServer(bad_gateway()) as server, pytest.raises(errors) as caught:
        hear(dialect, server)
    assert isinstance(caught.value, errors)
    assert caught.value.body == "<html><body><h1>502 Bad Gateway</h1></body></html>"
    assert caught.value.request_id is None


@both_dialects
@both_ways
def test_the_sdk_tries_again_and_says_so(dialect: str, stream: bool) -> None:
    scenario = first(2, rate_limited(retry_after_s=0.001), then=Reply("at last"))
    with ScriptedServer(scenario) as server:
        heard = hear(dialect, server, stream=stream, options={"max_retries": 2})
    assert heard.text == "at last"
    assert [request.headers["x-stainless-retry-count"] for request in server.requests] == ["0", "1", "2"]
    assert len({request.digest for request in server.requests}) == 1


@both_dialects
@pytest.mark.parametrize(
    ("fault", "calls"),
    [
        (HttpError(500, "no", should_retry=False), 1),
        (HttpError(400, "yes", should_retry=True, retry_after_s=0.001), 2),
        (HttpError(404, "no"), 1),
    ],
)
def test_the_server_decides_whether_the_sdk_tries_again(dialect: str, fault: HttpError, calls: int) -> None:
    with ScriptedServer(fault) as server, pytest.raises((openai.APIStatusError, anthropic.APIStatusError)):
        hear(dialect, server, options={"max_retries": 1})
    assert len(server.requests) == calls


@both_dialects
@both_ways
@pytest.mark.parametrize("fault", [Delayed(3600), Delayed(1, Delayed(3600))])
def test_an_answer_that_is_late_is_a_timeout(dialect: str, stream: bool, fault: Fault) -> None:
    patience = httpx2.Timeout(60, read=0.1)
    with ScriptedServer(fault) as server, pytest.raises((openai.APITimeoutError, anthropic.APITimeoutError)):
        hear(dialect, server, stream=stream, options={"timeout": patience})


@both_dialects
def test_a_delayed_answer_comes(dialect: str) -> None:
    with ScriptedServer(Delayed(0.001, Reply("late"))) as server:
        assert hear(dialect, server).text == "late"


@both_dialects
@both_ways
@pytest.mark.parametrize("where", ["before", "middle"])
def test_a_dropped_connection_is_a_connection_error(dialect: str, stream: bool, where: Any) -> None:
    # The stream of anthropic lets the error of the HTTP library through when it breaks off in the middle.
    errors = (openai.APIConnectionError, anthropic.APIConnectionError, httpx2.RemoteProtocolError)
    with ScriptedServer(Dropped(where)) as server, pytest.raises(errors):
        hear(dialect, server, stream=stream)


@both_dialects
@pytest.mark.parametrize("fault", [Truncated(), Malformed(), Empty()])
def test_a_body_that_is_not_json_is_a_decoding_error(dialect: str, fault: Fault) -> None:
    with ScriptedServer(fault) as server, pytest.raises(json.JSONDecodeError):
        hear(dialect, server)


@both_dialects
def test_a_stream_with_an_event_that_is_not_json_is_a_decoding_error(dialect: str) -> None:
    with ScriptedServer(Malformed()) as server, pytest.raises(json.JSONDecodeError):
        hear(dialect, server, stream=True)


@both_dialects
@pytest.mark.parametrize("fault", [Truncated(Reply("word " * 50)), Empty()])
def test_a_stream_that_ends_early_ends_without_a_reason(dialect: str, fault: Fault) -> None:
    """Neither SDK raises: whoever reads a stream has to look for its end."""
    body = conversation(dialect, Message("user", "x"))
    with ScriptedServer(fault) as server:
        if dialect == "openai":
            with openai_client(server) as client:
                chunks = list(client.chat.completions.create(**body, stream=True))
            ends = [choice.finish_reason for chunk in chunks for choice in chunk.choices]
            assert not any(ends)
            seen: int = len(chunks)
        else:
            with anthropic_client(server) as other:
                events = list(other.messages.create(**body, stream=True))
            assert not {event.type for event in events} & {"message_delta", "message_stop"}
            seen = len(events)
    assert bool(seen) == isinstance(fault, Truncated)


@both_dialects
@both_ways
def test_a_slow_drip_is_whole_in_the_end(dialect: str, stream: bool) -> None:
    with ScriptedServer(SlowDrip(Reply(HARD_TEXT), pause_s=0, piece_bytes=1)) as server:
        assert hear(dialect, server, stream=stream).text == HARD_TEXT


@both_dialects
def test_an_endless_stream_ends_when_the_client_hangs_up(dialect: str) -> None:
    body = conversation(dialect, Message("user", "x"))
    with ScriptedServer(Endless("more ", pause_s=0)) as server:
        if dialect == "openai":
            with openai_client(server) as client, client.chat.completions.create(**body, stream=True) as chunks:
                texts = [chunk.choices[0].delta.content for chunk in islice(chunks, 500)]
            assert texts[1:] == ["more "] * 499
        else:
            with anthropic_client(server) as other, other.messages.create(**body, stream=True) as events:
                deltas = [event.delta for event in islice(events, 500) if event.type == "content_block_delta"]
            assert len(deltas) > 400


@both_dialects
@both_ways
def test_an_endless_body_ends_when_the_server_stops(dialect: str, stream: bool) -> None:
    body = {**conversation(dialect, Message("user", "x")), "stream": stream}
    with ScriptedServer(Endless(pause_s=0)) as server:
        link = open_socket(server)
        link.sendall(raw_post(dialect, body))
        parts = [link.recv(65536) for _ in range(100)]
    with link:
        assert all(parts)
        while link.recv(65536):
            pass  # what was on its way when the server stopped; then comes the end


@both_dialects
@both_ways
def test_an_error_in_a_stream_comes_after_status_200(dialect: str, stream: bool) -> None:
    fault = ErrorInStream(overloaded(), Reply("word " * 50))
    errors = (openai.APIError, anthropic.APIStatusError)
    with ScriptedServer(fault) as server, pytest.raises(errors, match="Overloaded") as caught:
        hear(dialect, server, stream=stream)
    status = getattr(caught.value, "status_code", None)
    assert status == (529 if not stream else {"openai": None, "anthropic": 200}[dialect])


@both_dialects
def test_a_client_that_hangs_up_is_no_failure(dialect: str) -> None:
    answering, gone = threading.Event(), threading.Event()

    def scenario(request: Request) -> Reply:
        answering.set()
        gone.wait(60)
        return Reply("x" * 10_000_000)

    with ScriptedServer(scenario) as server:
        with open_socket(server) as link:
            link.sendall(raw_post(dialect, conversation(dialect, Message("user", "x"))))
            assert answering.wait(60)
        gone.set()
    assert server.failures == []


def test_half_a_request_is_no_request() -> None:
    chunked = b"POST /v1/messages HTTP/1.1\r\ntransfer-encoding: chunked\r\n\r\n"
    with ScriptedServer(Reply("x")) as server:
        assert raw_exchange(server, chunked) == b""
        assert raw_exchange(server, chunked + b"5\r\n{") == b""
        message = raw_post("openai", conversation("openai", Message("user", "x")))
        assert raw_exchange(server, message[:-5]) == b""
        assert raw_exchange(server, b"") == b""
    assert (server.requests, server.protocol_errors) == ([], [])


# Scenarios


def test_a_script_gives_its_steps_in_order() -> None:
    script = Script([Reply("a"), lambda request: Reply(request.model), Reply("c")])
    with ScriptedServer(script) as server:
        assert [hear("openai", server).text, hear("anthropic", server).text] == ["a", "scripted-1"]
        assert script.remaining == 1


@both_dialects
@both_ways
def test_a_script_that_runs_out_names_the_test_and_is_not_asked_again(dialect: str, stream: bool) -> None:
    with a_failing_server(Script([Reply("only")]), "test_a_script_that_runs_out_names_the_test") as server:
        hear(dialect, server)
        with pytest.raises((openai.BadRequestError, anthropic.BadRequestError), match="has no answer"):
            hear(dialect, server, Message("user", "more please"), stream=stream, options={"max_retries": 3})
        assert len(server.requests) == 2
    assert len(server.failures) == 1
    assert "more please" in server.failures[0]


def test_roles_are_told_apart_by_system_text_or_predicate() -> None:
    scenario = by_role(
        {
            "You are the grader": Reply("graded"),
            "You are the comparator": Script([Reply("A"), Reply("B")]),
            lambda request: bool(request.tools): turns(Reply.calling("ls")),
        },
        default=Reply("otherwise"),
    )
    with ScriptedServer(scenario) as server:
        assert hear("openai", server, system="You are the comparator.").text == "A"
        assert hear("anthropic", server, system="You are the grader.").text == "graded"
        assert hear("anthropic", server, system="You are the comparator.").text == "B"
        assert hear("openai", server, tools=("ls",)).calls[0][1] == "ls"
        assert hear("openai", server).text == "otherwise"


@pytest.mark.parametrize(
    ("system", "words"), [("You are nobody.", "belongs to no route"), ("grader and judge", "more than one route")]
)
def test_a_call_of_no_role_or_of_two_is_a_failure(system: str, words: str) -> None:
    scenario = by_role({"grader": Reply("g"), "judge": Reply("j")})
    with a_failing_server(scenario, words) as server, pytest.raises(openai.BadRequestError):
        hear("openai", server, system=system)


def test_turns_keep_no_count() -> None:
    with ScriptedServer(turns(Reply("first"), Reply("second"))) as server:
        later = (Message("user", "a"), Message("assistant", "first"), Message("user", "b"))
        assert hear("openai", server, *later).text == "second"
        assert hear("openai", server).text == "first"
        assert hear("anthropic", server, *later).text == "second"


def test_a_turn_too_many_is_a_failure() -> None:
    said = (Message("user", "a"), Message("assistant", "first"), Message("user", "b"))
    scenario = turns(Reply("first"))
    with a_failing_server(scenario, "steps for 1") as server, pytest.raises(anthropic.BadRequestError):
        hear("anthropic", server, *said)


def test_first_and_after_count_calls() -> None:
    with ScriptedServer(first(1, unavailable(), then=after(1, server_error(), before=Reply("up")))) as server:
        statuses = [post(server, "openai", conversation("openai", Message("user", "x")))[0] for _ in range(4)]
    assert statuses == [503, 200, 500, 500]


def test_an_assertion_in_a_scenario_fails_the_test() -> None:
    def scenario(request: Request) -> Reply:
        assert request.system == "expected", "wrong system text"
        return Reply("fine")

    with a_failing_server(scenario, "wrong system text") as server, pytest.raises(openai.BadRequestError):
        hear("openai", server)


def test_a_scenario_may_not_outlive_the_server(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tests.scripted.server._JOIN_S", 0.01)
    asked, release = threading.Event(), threading.Event()

    def scenario(request: Request) -> Reply:
        asked.set()
        release.wait(60)
        return Reply("too late")

    with a_failing_server(scenario, "has not returned") as server, open_socket(server) as link:
        link.sendall(raw_post("openai", conversation("openai", Message("user", "x"))))
        assert asked.wait(60)
    release.set()


# The providers' own protocols

USER = {"role": "user", "content": "hi"}
OPENAI_CALL = {"id": "c1", "type": "function", "function": {"name": "ls", "arguments": "{}"}}
OPENAI_CALLING = {"role": "assistant", "content": None, "tool_calls": [OPENAI_CALL]}
OPENAI_RESULT = {"role": "tool", "tool_call_id": "c1", "content": "x"}
OPENAI_TOOL = {"type": "function", "function": {"name": "ls", "parameters": LS}}
ANTHROPIC_CALLING = {"role": "assistant", "content": [{"type": "tool_use", "id": "t1", "name": "ls", "input": {}}]}
ANTHROPIC_RESULT = {"type": "tool_result", "tool_use_id": "t1", "content": "x"}
ANTHROPIC_TOOL = {"name": "ls", "input_schema": LS}
OPEN_SCHEMA = {"type": "object", "properties": {"a": {"type": "object", "properties": {}}}, "required": ["a"]}


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"model": None}, "model: expected a string"),
        ({"model": ""}, "model: the string is empty"),
        ({"messages": []}, "messages: the list is empty"),
        ({"messages": "hi"}, "messages: expected a list"),
        ({"messages": ["hi"]}, "messages.0: expected an object"),
        ({"messages": [{"role": "system", "content": "x"}]}, "not a system message"),
        ({"messages": [{"role": "robot", "content": "x"}]}, "'robot' is not known"),
        ({"messages": [{"role": "user", "content": []}]}, "messages.0.content: the list is empty"),
        ({"messages": [{"role": "user"}]}, "messages.0.content: expected a list"),
        ({"messages": [USER, {"role": "assistant", "content": None}]}, "required without tool calls"),
        ({"messages": [USER, {"role": "assistant", "tool_calls": []}]}, "tool_calls: the list is empty"),
        ({"messages": [USER, OPENAI_RESULT]}, "no tool call 'c1' right before"),
        ({"messages": [USER, OPENAI_CALLING, {**OPENAI_RESULT, "tool_call_id": "c2"}]}, "no tool call 'c2'"),
        ({"messages": [USER, OPENAI_CALLING, OPENAI_RESULT, OPENAI_RESULT]}, "no tool call 'c1'"),
        ({"messages": [USER, OPENAI_CALLING, USER]}, "tool messages for ['c1'] must come first"),
        ({"messages": [USER, OPENAI_CALLING]}, "['c1'] have no tool message"),
        ({"messages": [USER, {**OPENAI_CALLING, "tool_calls": [OPENAI_CALL, OPENAI_CALL]}]}, "there twice"),
        (
            {"messages": [USER, {"role": "assistant", "tool_calls": [{**OPENAI_CALL, "function": {"name": "ls"}}]}]},
            "arguments: expected a string",
        ),
        ({"messages": [USER, {"role": "assistant", "tool_calls": [{**OPENAI_CALL, "type": "x"}]}]}, "function calls"),
        ({"tools": []}, "tools: the list is empty"),
        ({"tools": [{"type": "custom", "custom": {"name": "x"}}]}, "function tools only"),
        ({"tools": [{"type": "function", "function": {"name": "bad name"}}]}, "does not match"),
        ({"tools": [OPENAI_TOOL, OPENAI_TOOL]}, "there twice"),
        ({"tools": [{"type": "function", "function": {"name": "x", "parameters": {"type": "array"}}}]}, "'object'"),
        (
            {"tools": [{"type": "function", "function": {"name": "x", "parameters": LS, "strict": True}}]},
            "'additionalProperties': false",
        ),
        ({"tool_choice": "auto"}, "only allowed when 'tools' are given"),
        ({"stream_options": {"include_usage": True}}, "only allowed when 'stream' is true"),
        ({"stream": "yes"}, "stream: expected a boolean"),
        ({"n": 2}, "one choice"),
        ({"functions": []}, "use 'tools'"),
        ({"max_tokens": 0}, "at least 1"),
        ({"max_tokens": 5, "max_completion_tokens": 5}, "not together"),
        ({"response_format": {"type": "yaml"}}, "'yaml' is not known"),
        ({"response_format": {"type": "json_object"}}, "the word 'json'"),
        ({"response_format": {"type": "json_schema", "json_schema": {"schema": VERDICT}}}, "name: expected a string"),
        (
            {"response_format": {"type": "json_schema", "json_schema": {"name": "v", "strict": True, "schema": LS}}},
            "'additionalProperties': false",
        ),
        (
            {
                "response_format": {
                    "type": "json_schema",
                    "json_schema": {"name": "v", "strict": True, "schema": {**VERDICT, "required": []}},
                }
            },
            "missing ['passed']",
        ),
        (
            {
                "response_format": {
                    "type": "json_schema",
                    "json_schema": {"name": "v", "strict": True, "schema": {"anyOf": [VERDICT]}},
                }
            },
            "type must be 'object'",
        ),
        (
            {
                "tools": [
                    {
                        "type": "function",
                        "function": {
                            "name": "x",
                            "strict": True,
                            "parameters": {
                                "type": "object",
                                "properties": {"a": {"anyOf": [{"type": "null"}, LS]}},
                                "required": ["a"],
                                "additionalProperties": False,
                            },
                        },
                    }
                ]
            },
            "properties.a.anyOf.1",
        ),
    ],
)
def test_openai_refuses(change: dict[str, Any], words: str) -> None:
    body = {**conversation("openai", Message("user", "hi")), **change}
    with ScriptedServer(Reply("x"), allow_protocol_errors=True) as server:
        status, answer = post(server, "openai", body)
    assert status == 400
    assert words in answer["error"]["message"]
    assert answer["error"]["type"] == "invalid_request_error"
    assert server.requests == []
    (error,) = server.protocol_errors
    assert (error.dialect, error.method, error.path) == ("openai", "POST", PATHS["openai"])
    assert words in str(error)
    assert json.loads(error.body) == body


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"model": None}, "model: expected a string"),
        ({"max_tokens": ...}, "max_tokens: field required"),
        ({"max_tokens": -1}, "at least 0"),
        ({"max_tokens": True}, "expected an integer"),
        ({"messages": []}, "messages: the list is empty"),
        ({"messages": [{"role": "tool", "content": "x"}]}, "none of user, assistant, system"),
        ({"messages": [{"role": "assistant", "content": "x"}]}, "the first message must have the role user"),
        ({"messages": [{"role": "system", "content": "x"}, USER]}, "may only follow a user message"),
        ({"messages": [USER, USER]}, "roles must alternate"),
        ({"messages": [{"role": "user", "content": ""}]}, "may have no content"),
        ({"messages": [USER, {"role": "assistant", "content": []}, USER]}, "may have no content"),
        ({"messages": [{"role": "user", "content": [{"type": "text", "text": ""}]}]}, "the string is empty"),
        ({"messages": [USER, {"role": "assistant", "content": "well "}]}, "must not end with white space"),
        ({"messages": [{"role": "user", "content": [ANTHROPIC_RESULT]}]}, "no tool_use 't1'"),
        ({"messages": [USER, ANTHROPIC_CALLING]}, "['t1'] have no tool_result block after them"),
        ({"messages": [USER, ANTHROPIC_CALLING, USER]}, "['t1'] have no tool_result block in this message"),
        (
            {"messages": [USER, ANTHROPIC_CALLING, {"role": "user", "content": [_text("x"), ANTHROPIC_RESULT]}]},
            "come before everything else",
        ),
        (
            {"messages": [USER, ANTHROPIC_CALLING, {"role": "user", "content": [ANTHROPIC_RESULT, ANTHROPIC_RESULT]}]},
            "no tool_use 't1'",
        ),
        (
            {"messages": [USER, ANTHROPIC_CALLING, {"role": "user", "content": [ANTHROPIC_RESULT]}, ANTHROPIC_CALLING]},
            "['t1'] are there twice",
        ),
        ({"messages": [{**ANTHROPIC_CALLING, "role": "user"}]}, "belong into assistant messages"),
        ({"messages": [USER, {"role": "assistant", "content": [ANTHROPIC_RESULT]}]}, "belong into user messages"),
        (
            {"messages": [USER, {"role": "assistant", "content": [{"type": "document"}]}]},
            "not allowed in an assistant message",
        ),
        (
            {"messages": [USER, {"role": "assistant", "content": ANTHROPIC_CALLING["content"] * 2}]},  # type: ignore[operator]
            "'t1' is there twice",
        ),
        ({"temperature": 1.0}, "temperature: not part of API version 2026-10-21"),
        ({"tool_choice": {"type": "auto"}}, "only allowed when 'tools' are given"),
        ({"tools": {}}, "tools: expected a list"),
        ({"tools": [{"name": "ls"}]}, "input_schema: expected an object"),
        ({"tools": [{"name": "ls", "input_schema": {}}]}, "type must be 'object'"),
        ({"tools": [ANTHROPIC_TOOL, ANTHROPIC_TOOL]}, "there twice"),
        ({"tools": [{**ANTHROPIC_TOOL, "strict": True}]}, "'additionalProperties': false"),
        ({"output_config": {"format": {"type": "json"}}}, "only json_schema"),
        (
            {
                "output_config": {
                    "format": {"type": "json_schema", "schema": {**OPEN_SCHEMA, "additionalProperties": False}}
                }
            },
            "schema.properties.a",
        ),
    ],
)
def test_anthropic_refuses(change: dict[str, Any], words: str) -> None:
    body = {**conversation("anthropic", Message("user", "hi")), **change}
    body = {name: value for name, value in body.items() if value is not ...}
    with ScriptedServer(Reply("x"), allow_protocol_errors=True) as server:
        status, answer = post(server, "anthropic", body)
    assert (status, answer["type"], answer["error"]["type"]) == (400, "error", "invalid_request_error")
    assert words in answer["error"]["message"]
    assert answer["request_id"].startswith("req_")
    assert (len(server.requests), len(server.protocol_errors)) == (0, 1)


def test_an_older_version_of_anthropic_takes_sampling_parameters() -> None:
    body = {**conversation("anthropic", Message("user", "hi")), "temperature": 0.2}
    with ScriptedServer(Reply("x"), allow_protocol_errors=True) as server:
        assert post(server, "anthropic", body, **{"anthropic-version": "2023-06-01"})[0] == 200
        assert post(server, "anthropic", body, **{"anthropic-version": ""})[0] == 400


def test_agents_may_send_one_role_twice_where_the_test_says_so() -> None:
    body = {"model": "m", "max_tokens": 1, "messages": [USER, {"role": "system", "content": "s"}, USER, USER]}
    unanswered = {**body, "messages": [USER, ANTHROPIC_CALLING, {"role": "assistant", "content": "x"}]}
    with ScriptedServer(Reply("x"), strict_turns=False, allow_protocol_errors=True) as server:
        assert post(server, "anthropic", body)[0] == 200
        assert post(server, "anthropic", unanswered)[0] == 400
    assert len(server.requests[0].messages) == 3
    assert "must come before" in server.protocol_errors[0].message


def test_arguments_that_a_model_got_wrong_are_kept_as_text() -> None:
    def calling(written: str) -> dict[str, Any]:
        call = {"id": "c1", "type": "function", "function": {"name": "ls", "arguments": written}}
        return {"model": "m", "messages": [USER, {"role": "assistant", "tool_calls": [call]}, OPENAI_RESULT]}

    with ScriptedServer(Reply("x")) as server:
        for written in ('{"path": ', "[1]", ""):
            post(server, "openai", calling(written))
    arguments = [request.messages[1].tool_calls[0].arguments for request in server.requests]
    assert arguments == ['{"path": ', "[1]", ""]


@pytest.mark.parametrize(
    ("dialect", "method", "path"),
    [
        ("openai", "POST", "/v1/embeddings"),
        ("openai", "GET", "/v1/chat/completions"),
        ("openai", "GET", "/"),
        ("openai", "DELETE", "/v1/models/m"),
        ("anthropic", "POST", "/v1/messages/batches"),
        ("anthropic", "PUT", "/v1/files"),
    ],
)
def test_an_unknown_endpoint_is_a_protocol_error(dialect: str, method: str, path: str) -> None:
    with ScriptedServer(Reply("x"), allow_protocol_errors=True) as server, connection(server) as link:
        link.request(method, path, headers=HEADERS[dialect])
        response = link.getresponse()
        answer = json.loads(response.read())
    assert response.status == 400
    assert ("type" in answer) == (dialect == "anthropic")
    assert [(e.dialect, e.method, e.path) for e in server.protocol_errors] == [(dialect, method, path)]


@both_dialects
@pytest.mark.parametrize(
    "content",
    [b"", b"{", b"[]", b'{"model": NaN}', b"\xff", b"[" * 100_000],
    ids=["empty", "cut", "list", "nan", "bytes", "deep"],
)
def test_a_body_that_is_no_json_object_is_a_protocol_error(dialect: str, content: bytes) -> None:
    with ScriptedServer(Reply("x"), allow_protocol_errors=True) as server:
        assert post(server, dialect, content)[0] == 400
    assert server.protocol_errors[0].body == content


def test_another_content_type_is_a_protocol_error() -> None:
    body = conversation("openai", Message("user", "x"))
    with ScriptedServer(Reply("x"), allow_protocol_errors=True) as server:
        assert post(server, "openai", body, **{"content-type": "text/plain"})[0] == 400
        assert post(server, "openai", body, **{"content-type": "Application/JSON; charset=utf-8"})[0] == 200


@pytest.mark.parametrize(
    "message",
    [
        b"nonsense\r\n\r\n",
        b"BREW / HTTP/1.1\r\n\r\n",
        b"POST / HTTP/1.1\r\ncontent-length: many\r\n\r\n",
        b"POST / HTTP/1.1\r\ncontent-length: -1\r\n\r\n",
        b"POST / HTTP/1.1\r\ntransfer-encoding: chunked\r\n\r\nzz\r\n",
        b"POST / HTTP/1.1\r\ntransfer-encoding: chunked\r\n\r\n-5\r\n",
        b"GET /" + b"x" * 70_000 + b" HTTP/1.1\r\n\r\n",
    ],
    ids=["nonsense", "method", "length", "negative", "chunk", "less", "long"],
)
def test_what_is_not_http_is_a_protocol_error_and_ends_the_connection(message: bytes) -> None:
    with ScriptedServer(Reply("x"), allow_protocol_errors=True) as server, open_socket(server) as link:
        link.sendall(message)
        answer = b"".join(iter(lambda: link.recv(65536), b""))
    assert b'"invalid_request_error"' in answer
    assert b"Date:" not in answer
    assert len(server.protocol_errors) == 1


def test_a_protocol_error_fails_the_test_at_the_end_of_the_block() -> None:
    words = "protocol: POST /v1/messages (anthropic): max_tokens: field required"
    with a_failing_server(Reply("x"), words) as server:
        post(server, "anthropic", {"model": "m", "messages": [USER]})


def test_an_exception_on_its_way_stays_and_gets_a_note() -> None:
    def a_test() -> None:
        with ScriptedServer(Reply("x")) as server:
            post(server, "openai", {})
            raise KeyError("the reason that matters")

    with pytest.raises(KeyError, match="the reason that matters") as caught:
        a_test()
    assert "protocol: POST" in caught.value.__notes__[0]


# Laws

json_objects = st.dictionaries(
    st.text(max_size=8),
    st.recursive(
        st.none()
        | st.booleans()
        | st.integers(-(2**53), 2**53)
        | st.floats(allow_nan=False, allow_infinity=False)
        | st.text(max_size=20),
        lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
        max_leaves=6,
    ),
    max_size=3,
)


def _request(dialect: Any, text: str) -> Request:
    return Request(
        index=0,
        dialect=dialect,
        path=PATHS[dialect],
        query="",
        model="m",
        system="",
        messages=(Message("user", text),),
        tools={},
        schema=None,
        stream=True,
        max_tokens=None,
        headers={},
        body={"text": text},
        raw=b"",
    )


def _data(events: list[bytes]) -> list[Any]:
    lines = b"".join(events).decode().split("\n")
    texts = [line.removeprefix("data: ") for line in lines if line.startswith("data: ")]
    return [json.loads(text) for text in texts if text != "[DONE]"]


@given(text=st.text(), arguments=json_objects)
def test_any_text_and_any_arguments_come_out_of_a_stream_of_openai(text: str, arguments: dict[str, Any]) -> None:
    reply = Reply(text, (ToolCall("f", arguments),))
    chunks = _data(OpenAIChat().events(_request("openai", text), reply))
    deltas = [choice["delta"] for chunk in chunks for choice in chunk["choices"]]
    assert "".join(delta.get("content") or "" for delta in deltas) == text
    written = "".join(call["function"]["arguments"] for delta in deltas for call in delta.get("tool_calls", ()))
    assert json.loads(written) == arguments


@given(text=st.text(), arguments=json_objects)
def test_any_text_and_any_arguments_come_out_of_a_stream_of_anthropic(text: str, arguments: dict[str, Any]) -> None:
    reply = Reply(text, (ToolCall("f", arguments),))
    deltas = [
        e["delta"]
        for e in _data(AnthropicMessages().events(_request("anthropic", text), reply))
        if "index" in e and "delta" in e
    ]
    assert "".join(delta.get("text", "") for delta in deltas) == text
    assert json.loads("".join(delta.get("partial_json", "") for delta in deltas)) == arguments


# A process of its own


@contextmanager
def serving(tmp_path: Path, source: str, *options: str) -> Iterator[tuple[subprocess.Popen[str], str]]:
    (tmp_path / "played.py").write_text(source, encoding="utf-8")
    environment = {**os.environ, "PYTHONPATH": f"{REPOSITORY}{os.pathsep}{tmp_path}"}
    command = [sys.executable, "-m", "tests.scripted", "--port", "0", *options]
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, cwd=REPOSITORY, env=environment
    ) as process:
        try:
            assert process.stdout is not None
            assert select.select([process.stdout], [], [], 60)[0]
            yield process, process.stdout.readline().strip()
        finally:
            process.kill()


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_the_command_serves_until_told_to_stop(tmp_path: Path, number: signal.Signals) -> None:
    source = "from tests.scripted import *\nclass Plays:\n    hello = turns(Reply('hello from afar'))\n"
    saved = tmp_path / "saved"
    with serving(tmp_path, source, "--scenario", "played:Plays.hello", "--save", str(saved)) as (process, url):
        with openai.OpenAI(api_key="k", base_url=f"{url}/v1", max_retries=0) as client:
            completion = client.chat.completions.create(**conversation("openai", Message("user", "x")))
        process.send_signal(number)
        _, errors = process.communicate(timeout=60)
    assert completion.choices[0].message.content == "hello from afar"
    assert (process.returncode, errors) == (0, "")
    assert json.loads(saved.read_text())["body"]["messages"] == [{"role": "user", "content": "x"}]


def test_the_command_ends_with_1_after_a_protocol_error(tmp_path: Path) -> None:
    source = "from tests.scripted import *\nhello = Reply('x')\n"
    with serving(tmp_path, source, "--scenario", "played:hello") as (process, url):
        assert httpx2.post(f"{url}/v1/chat/completions", json={}, trust_env=False).status_code == 400
        process.send_signal(signal.SIGTERM)
        _, errors = process.communicate(timeout=60)
    assert process.returncode == 1
    assert "protocol: POST /v1/chat/completions" in errors


@pytest.mark.parametrize("spec", ["played", "played:missing", "no_such_module:hello"])
def test_the_command_refuses_a_scenario_that_is_not_there(tmp_path: Path, spec: str) -> None:
    with serving(tmp_path, "", "--scenario", spec) as (process, line):
        _, errors = process.communicate(timeout=60)
    assert (process.returncode, line) == (2, "")
    assert spec in errors
