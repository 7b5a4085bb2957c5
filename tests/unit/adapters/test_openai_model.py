from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from typing import Any

import httpx2
import pytest
from pydantic import SecretStr

from gate.adapters.model_calls import Retry
from gate.adapters.openai_model import OpenAIModel
from gate.domain.chat import ChatReply, ChatRequest, Finish, Message, ReplySchema, ToolUse
from gate.errors import ModelError

Answer = Callable[[dict[str, Any]], httpx2.Response]
SCHEMA = ReplySchema(
    name="a grade!", json_schema={"type": "object", "properties": {"ok": {"type": "boolean"}}, "required": ["ok"]}
)


def model(answer: Answer) -> OpenAIModel:
    return OpenAIModel(
        "openai:m",
        "m",
        api_key=SecretStr("sk-none"),
        transport=httpx2.MockTransport(lambda sent: answer(json.loads(sent.content))),
        retry=Retry(sleep=lambda seconds: None),
    )


def ask(body: Any, *, text: str = "Answer in JSON.", schema: ReplySchema | None = None) -> ChatReply:
    request = ChatRequest(label="s/x", system="", messages=(Message(role="user", text=text),), reply_schema=schema)
    return model(lambda sent: httpx2.Response(200, json=body)).complete(request)


def completion(message: Any, finish: Any = "stop", **more: Any) -> dict[str, Any]:
    return {"choices": [{"index": 0, "message": message, "finish_reason": finish}], "model": "m-1", **more}


def call(arguments: Any, **more: Any) -> dict[str, Any]:
    return {"id": "c1", "type": "function", "function": {"name": "bash", "arguments": arguments}, **more}


@pytest.mark.parametrize(
    ("raw", "arguments", "kept"),
    [
        ('{"a": 1}', {"a": 1}, ""),
        ("", {}, ""),
        (None, {}, ""),
        ({"a": 1}, {"a": 1}, ""),
        ('{"a": ', None, '{"a": '),
        ("[1]", None, "[1]"),
        ('"text"', None, '"text"'),
        ('{"a": NaN}', None, '{"a": NaN}'),
        ([1], None, "[1]"),
    ],
)
def test_arguments_are_an_object_or_what_the_model_wrote(raw: Any, arguments: Any, kept: str) -> None:
    (use,) = ask(completion({"content": None, "tool_calls": [call(raw)]}, "tool_calls")).tool_uses
    assert use == ToolUse(id="c1", name="bash", arguments=arguments, raw_arguments=kept)


def test_calls_without_an_id_or_with_the_same_one_get_different_ids() -> None:
    calls = [call("{}", id=None), call("{}"), call("{}"), call("{}", id="")]
    ids = [use.id for use in ask(completion({"tool_calls": calls}, "tool_calls")).tool_uses]
    assert ids == ["call-1-0", "c1", "call-1-2", "call-1-3"]


@pytest.mark.parametrize(
    ("message", "said", "finish"),
    [
        ({"content": "x", "tool_calls": [call("{}")]}, "stop", Finish.TOOL_USE),
        ({"content": "x"}, "tool_calls", Finish.STOP),
        ({"content": "x"}, "content_filter", Finish.REFUSAL),
        ({"content": None, "refusal": "No."}, "stop", Finish.REFUSAL),
        ({"content": "x", "tool_calls": [call('{"a"')]}, "length", Finish.LENGTH),
        ({"content": "x"}, "eos", Finish.OTHER),
        ({"content": "x"}, None, Finish.OTHER),
        ({"content": [{"type": "text", "text": "x"}, {"type": "image"}]}, "stop", Finish.STOP),
    ],
)
def test_why_the_model_stopped_follows_from_what_the_reply_holds(message: Any, said: Any, finish: Finish) -> None:
    reply = ask(completion(message, said))
    assert reply.finish is finish
    assert reply.text == ("No." if message.get("refusal") else "x")


@pytest.mark.parametrize(
    "body",
    [
        {},
        {"choices": []},
        {"choices": None},
        {"choices": ["x"]},
        completion(None),
        completion({"content": 5}),
        completion({"content": "x", "tool_calls": "bash"}),
        completion({"content": "x", "tool_calls": [{"id": "1", "function": {"arguments": "{}"}}]}),
        [],
        "text",
        None,
    ],
)
def test_json_that_is_no_completion_is_a_malformed_reply(body: Any) -> None:
    with pytest.raises(ModelError) as caught:
        ask(body)
    assert caught.value.kind == "malformed"
    assert caught.value.unknown_attempts >= 1


@pytest.mark.parametrize(
    "usage",
    [None, {}, "12", {"prompt_tokens": "12", "completion_tokens": 3}, {"prompt_tokens": 1}, {"prompt_tokens": -1, "completion_tokens": True}],
)  # fmt: skip
def test_usage_that_is_not_in_numbers_is_unknown(usage: Any) -> None:
    assert ask(completion({"content": "x"}, usage=usage)).usage is None


def test_an_error_inside_a_success_is_an_error() -> None:
    with pytest.raises(ModelError, match="upstream is gone") as caught:
        ask({"error": {"code": 401, "message": "upstream is gone"}})
    assert caught.value.kind == "auth"


def test_an_old_server_is_asked_with_the_parameters_it_knows_and_it_is_remembered() -> None:
    seen: list[dict[str, Any]] = []

    def old(body: dict[str, Any]) -> httpx2.Response:
        seen.append(body)
        for name in ("max_completion_tokens", "response_format"):
            if name in body and body[name] != {"type": "json_object"}:
                return httpx2.Response(
                    422, json={"detail": [{"loc": ["body", name], "msg": "extra fields not permitted"}]}
                )
        return httpx2.Response(200, json=completion({"content": "{}"}))

    client = model(old)
    request = ChatRequest(
        label="s/x",
        system="Answer in JSON.",
        messages=(Message(role="user", text="?"),),
        reply_schema=SCHEMA,
        max_output_tokens=77,
    )
    first, second = client.complete(request), client.complete(request)
    assert first.attempts == 3
    assert second.attempts == 1
    assert (
        set(first.dropped_parameters)
        == set(second.dropped_parameters)
        == {
            "max_completion_tokens",
            "response_format.json_schema",
        }
    )
    assert not first.native_schema
    assert seen[-1]["max_tokens"] == 77
    assert seen[-1]["response_format"] == {"type": "json_object"}


def test_a_server_that_takes_no_limit_at_all_is_asked_without_one() -> None:
    def strange(body: dict[str, Any]) -> httpx2.Response:
        if {"max_tokens", "max_completion_tokens"} & set(body):
            return httpx2.Response(400, json={"error": {"message": "max_tokens is not for you", "param": None}})
        return httpx2.Response(200, json=completion({"content": "x"}))

    request = ChatRequest(label="s/x", system="", messages=(Message(role="user", text="?"),))
    assert model(strange).complete(request).dropped_parameters == ("max_completion_tokens", "max_tokens")


def test_a_redirect_is_not_followed_because_the_key_would_travel_on() -> None:
    seen: list[str] = []

    def elsewhere(sent: httpx2.Request) -> httpx2.Response:
        seen.append(sent.url.host)
        return httpx2.Response(307, headers={"location": "http://elsewhere.invalid/v1/chat/completions"})

    client = OpenAIModel(
        "openai:m", "m", api_key=SecretStr("sk-none"), transport=httpx2.MockTransport(elsewhere), retry=Retry(tries=1)
    )
    with pytest.raises(ModelError):
        client.complete(ChatRequest(label="s/x", system="", messages=(Message(role="user", text="?"),)))
    assert seen == ["api.openai.com"]


def test_the_environment_does_not_move_the_address(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_BASE_URL", "http://elsewhere.invalid/v1")
    seen: list[str] = []

    def answer(sent: httpx2.Request) -> httpx2.Response:
        seen.append(sent.url.host)
        return httpx2.Response(200, json=completion({"content": "x"}))

    client = OpenAIModel("openai:m", "m", api_key=SecretStr("sk-none"), transport=httpx2.MockTransport(answer))
    client.complete(ChatRequest(label="s/x", system="", messages=(Message(role="user", text="?"),)))
    assert seen == ["api.openai.com"]


class _BreaksOff(httpx2.SyncByteStream):
    def __iter__(self) -> Iterator[bytes]:
        yield b'{"choices": ['
        raise httpx2.RemoteProtocolError("peer closed the connection")


class _NoGzip(httpx2.SyncByteStream):
    def __iter__(self) -> Iterator[bytes]:
        yield b"no gzip at all"


@pytest.mark.parametrize(
    ("headers", "stream", "kind"),
    [({}, _BreaksOff(), "connection"), ({"content-encoding": "gzip"}, _NoGzip(), "malformed")],
)
@pytest.mark.parametrize("tokens", [64, 20_000])
def test_a_server_that_does_not_stream_and_breaks_off_is_a_broken_reply(
    headers: dict[str, str], stream: httpx2.SyncByteStream, kind: str, tokens: int
) -> None:
    reply = {"content-type": "application/json", **headers}
    client = OpenAIModel(
        "openai:m",
        "m",
        api_key=SecretStr("sk-none"),
        transport=httpx2.MockTransport(lambda sent: httpx2.Response(200, headers=reply, stream=stream)),
        retry=Retry(tries=2, sleep=lambda seconds: None),
    )
    with pytest.raises(ModelError) as raised:
        client.complete(
            ChatRequest(label="s/x", system="", messages=(Message(role="user", text="x"),), max_output_tokens=tokens)
        )
    assert raised.value.kind in (kind, "connection")
