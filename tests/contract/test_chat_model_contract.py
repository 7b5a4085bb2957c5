"""What every ChatModel does, whichever protocol is behind it: the adapters over real HTTP, and the fake of the seam."""

from __future__ import annotations

import contextlib
import json
import socket
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, Protocol

import pytest
from pydantic import SecretStr

from gate.adapters import model_calls
from gate.adapters.anthropic_model import AnthropicModel
from gate.adapters.model_calls import Retry
from gate.adapters.openai_model import OpenAIModel
from gate.adapters.openai_responses_model import OpenAIResponsesModel
from gate.domain.chat import (
    ChatReply,
    ChatRequest,
    Finish,
    Message,
    ReplySchema,
    TokenUsage,
    ToolResult,
    ToolSpec,
    ToolUse,
)
from gate.errors import ModelError
from gate.protocols import ChatModel
from tests import scripted
from tests.fakes.chat import ScriptedChat
from tests.scripted import Reply, ScriptedServer, Step

KEY = "sk-canary-4f1b9c2e77"
BASH = ToolSpec(
    name="bash",
    description="Run a command.",
    input_schema={"type": "object", "properties": {"command": {"type": "string"}}, "required": ["command"]},
)
SCHEMA = ReplySchema(
    name="grade",
    json_schema={
        "title": "Grade",
        "type": "object",
        "properties": {
            "score": {"type": "integer", "minimum": 1, "maximum": 5},
            "rows": {"type": "array", "minItems": 1, "items": {"$ref": "#/$defs/Row"}},
            "note": {"anyOf": [{"type": "string", "maxLength": 80}, {"type": "null"}], "default": None},
        },
        "required": ["score", "rows"],
        "$defs": {"Row": {"type": "object", "properties": {"id": {"enum": ["e1", "e2"]}}, "required": ["id"]}},
    },
)


def request(*messages: Message, **more: Any) -> ChatRequest:
    conversation = messages or (Message(role="user", text="Say hello."),)
    return ChatRequest(
        label="skill-a/eval-1/run-1/with_skill/turn-1", system="You are tested.", messages=conversation, **more
    )


@dataclass
class Waits:
    """Takes the place of sleeping."""

    seconds: list[float] = field(default_factory=list)

    def __call__(self, seconds: float) -> None:
        self.seconds.append(seconds)


class Adapter(Protocol):
    """How a test makes the adapter of one provider."""

    def __call__(self, url: str, waits: Waits, **options: Any) -> ChatModel: ...


def openai_at(url: str, waits: Waits, **options: Any) -> ChatModel:
    return OpenAIModel(
        "openai@test:scripted-1",
        "scripted-1",
        api_key=SecretStr(KEY),
        base_url=f"{url}/v1",
        retry=Retry(sleep=waits, jitter=lambda: 0.0),
        **options,
    )


def anthropic_at(url: str, waits: Waits, **options: Any) -> ChatModel:
    return AnthropicModel(
        "anthropic@test:scripted-1",
        "scripted-1",
        api_key=SecretStr(KEY),
        base_url=url,
        retry=Retry(sleep=waits, jitter=lambda: 0.0),
        **options,
    )


def responses_at(url: str, waits: Waits, **options: Any) -> ChatModel:
    return OpenAIResponsesModel(
        "openai-responses@test:scripted-1",
        "scripted-1",
        api_key=SecretStr(KEY),
        base_url=f"{url}/v1",
        retry=Retry(sleep=waits, jitter=lambda: 0.0),
        **options,
    )


@pytest.fixture(params=[openai_at, responses_at, anthropic_at], ids=["openai", "responses", "anthropic"])
def adapter(request: pytest.FixtureRequest) -> Adapter:
    made: Adapter = request.param
    return made


@dataclass
class Talk:
    model: ChatModel
    server: ScriptedServer
    waits: Waits


@contextlib.contextmanager
def talk(adapter: Adapter, scenario: Step, **options: Any) -> Iterator[Talk]:
    waits = Waits()
    with ScriptedServer(scenario) as server:
        model = adapter(server.url, waits, **options)
        try:
            yield Talk(model, server, waits)
        finally:
            model.close()  # type: ignore[attr-defined]


def as_chat_reply(reply: Reply) -> ChatReply:
    """The same reply, as the fake of the seam gives it."""
    finish = {"stop": Finish.STOP, "tool_use": Finish.TOOL_USE, "length": Finish.LENGTH, "refusal": Finish.REFUSAL}
    uses = tuple(
        ToolUse(id=f"id-{number}", name=call.name, arguments=dict(call.arguments))  # type: ignore[arg-type]
        for number, call in enumerate(reply.tool_calls)
    )
    usage = None if reply.usage == "omitted" else TokenUsage(input_tokens=1, output_tokens=1)
    return ChatReply(text=reply.text, tool_uses=uses, finish=finish[reply.finish_word], usage=usage, model="scripted-1")


REPLIES: dict[str, tuple[Reply, Finish]] = {
    "plain text": (Reply("Hello 你好 🙂."), Finish.STOP),
    "an empty reply": (Reply(""), Finish.STOP),
    "a tool call": (Reply.calling("bash", {"command": "ls -l"}, text="I look."), Finish.TOOL_USE),
    "a refusal": (Reply("I cannot help with that.", finish="refusal"), Finish.REFUSAL),
    "a truncated reply": (Reply("It goes on and", finish="length"), Finish.LENGTH),
}


@pytest.mark.parametrize("fake", [False, True], ids=["adapter", "fake"])
@pytest.mark.parametrize(("reply", "finish"), REPLIES.values(), ids=REPLIES.keys())
def test_what_the_model_says_and_why_it_stopped_arrive(
    adapter: Adapter, reply: Reply, finish: Finish, fake: bool
) -> None:
    asked = request(tools=(BASH,))
    if fake:
        got = ScriptedChat([as_chat_reply(reply)]).complete(asked)
    else:
        with talk(adapter, reply) as its:
            got = its.model.complete(asked)
    assert (got.text, got.finish, got.model) == (reply.text, finish, "scripted-1")
    assert [(use.name, use.arguments) for use in got.tool_uses] == [
        (call.name, call.arguments) for call in reply.tool_calls
    ]
    assert all(use.id for use in got.tool_uses)
    assert got.usage is not None
    assert (got.attempts, got.provider_retries, got.unknown_attempts, got.dropped_parameters) == (1, 0, 0, ())


def test_the_provider_is_asked_exactly_what_the_request_says(adapter: Adapter) -> None:
    with talk(adapter, Reply("Hello.")) as its:
        its.model.complete(request(tools=(BASH,), max_output_tokens=321))
        sent = its.server.requests[0]
    assert (sent.model, sent.system, sent.max_tokens, sent.stream) == ("scripted-1", "You are tested.", 321, False)
    assert [(message.role, message.text) for message in sent.messages] == [("user", "Say hello.")]
    assert sent.tools["bash"] == BASH.input_schema
    assert not {"temperature", "top_p", "top_k", "seed"} & set(sent.body)
    assert not [name for name in sent.headers if name.startswith("x-skill-gate")]


def test_the_results_of_tool_calls_go_back_to_the_calls_they_belong_to(adapter: Adapter) -> None:
    with talk(adapter, Reply("There are two.")) as its:
        reply = its.model.complete(
            request(
                Message(role="user", text="Count."),
                Message(
                    role="assistant",
                    text="I look.",
                    tool_uses=(
                        ToolUse(id="one", name="bash", arguments={"command": "ls", "n": 3.14159265}),
                        ToolUse(id="two", name="no such tool!", arguments=None, raw_arguments="{broken"),
                    ),
                ),
                Message(
                    role="tool",
                    tool_results=(
                        ToolResult(id="one", text="a b"),
                        ToolResult(id="two", text="unknown tool", is_error=True),
                    ),
                ),
                Message(role="assistant", text=""),
                Message(role="user", text="Go on."),
                tools=(BASH,),
            )
        )
        sent = its.server.requests[0]
    assert reply.text == "There are two."
    said = sent.messages[1]
    assert said.tool_calls[0].arguments == {"command": "ls", "n": 3.14159265}
    assert said.tool_calls[1].arguments == {"not_a_json_object": "{broken"}
    assert [(result.id, result.text) for result in sent.messages[2].tool_results] == [
        ("one", "a b"),
        ("two", "unknown tool"),
    ]
    assert sent.last.text == "Go on."


def test_a_schema_is_asked_for_natively_as_far_as_providers_enforce_one(adapter: Adapter) -> None:
    with talk(adapter, Reply.of_json({"score": 3})) as its:
        reply = its.model.complete(request(reply_schema=SCHEMA))
        schema = its.server.requests[0].schema
    assert reply.native_schema
    assert json.loads(reply.text) == {"score": 3}
    assert schema == {
        "type": "object",
        "properties": {
            "score": {"type": "integer"},
            "rows": {"type": "array", "items": {"$ref": "#/$defs/Row"}},
            "note": {"anyOf": [{"type": "string"}, {"type": "null"}]},
        },
        "required": ["score", "rows", "note"],
        "additionalProperties": False,
        "$defs": {
            "Row": {
                "type": "object",
                "properties": {"id": {"enum": ["e1", "e2"]}},
                "required": ["id"],
                "additionalProperties": False,
            }
        },
    }


def test_a_schema_that_no_provider_enforces_is_not_called_native(adapter: Adapter) -> None:
    open_schema = ReplySchema(name="open", json_schema={"type": "object", "additionalProperties": {"type": "string"}})
    with talk(adapter, Reply("{}")) as its:
        reply = its.model.complete(request(Message(role="user", text="Answer in JSON."), reply_schema=open_schema))
    assert not reply.native_schema


@pytest.mark.parametrize(
    ("fault", "kind", "words"),
    [
        (scripted.unauthorized(), "auth", "key"),
        (scripted.forbidden(), "auth", "key"),
        (scripted.no_such_model(), "not_found", "model"),
        (scripted.context_too_long(), "context_length", "prompt is too long"),
        (scripted.too_large(), "context_length", "maximum size"),
        (scripted.HttpError(400, "the request exceeds the available context size"), "context_length", "context size"),
        (scripted.quota_exceeded(), "quota", "credit"),
        (scripted.HttpError(402, "No credit."), "quota", "credit"),
        (scripted.HttpError(451, "Not here."), "bad_request", "Not here"),
    ],
)
def test_an_error_that_no_retry_helps_is_raised_at_once_with_what_to_do(
    adapter: Adapter, fault: scripted.HttpError, kind: str, words: str
) -> None:
    with talk(adapter, fault) as its, pytest.raises(ModelError, match=words) as caught:
        its.model.complete(request())
    assert caught.value.kind == kind
    assert not caught.value.retryable
    assert caught.value.remedy
    assert (len(its.server.requests), caught.value.attempts, its.waits.seconds) == (1, 1, [])


@pytest.mark.parametrize(
    "fault",
    [
        scripted.rate_limited(2),
        scripted.server_error(),
        scripted.unavailable(),
        scripted.overloaded(),
        scripted.bad_gateway(),
        scripted.Dropped("before"),
        scripted.Dropped("middle"),
        scripted.Malformed(),
        scripted.Truncated(),
        scripted.Empty(),
    ],
    ids=lambda fault: type(fault).__name__ + str(getattr(fault, "status", getattr(fault, "at", ""))),
)
def test_what_passes_is_tried_again_and_counted(adapter: Adapter, fault: scripted.Fault) -> None:
    with talk(adapter, scripted.first(2, fault, then=Reply("At last."))) as its:
        reply = its.model.complete(request())
        assert len(its.server.requests) == 3
    assert reply.text == "At last."
    assert (reply.attempts, reply.provider_retries) == (3, 2)
    assert its.waits.seconds == (
        [2.0, 2.0] if isinstance(fault, scripted.HttpError) and fault.retry_after_s else [0.5, 1.0]
    )
    unbilled = isinstance(fault, scripted.HttpError)
    assert reply.unknown_attempts == (0 if unbilled else 2)


@pytest.mark.parametrize(
    ("fault", "kind"),
    [
        (scripted.server_error(), "overload"),
        (scripted.overloaded(), "overload"),
        (scripted.rate_limited(None), "overload"),
        (scripted.bad_gateway(), "overload"),
        (scripted.HttpError(504, "Too slow."), "timeout"),
        (scripted.Dropped("before"), "connection"),
        (scripted.Malformed(), "malformed"),
        (scripted.Empty(), "malformed"),
    ],
)
def test_what_does_not_pass_is_given_up_after_three_tries(adapter: Adapter, fault: scripted.Fault, kind: str) -> None:
    with talk(adapter, fault) as its, pytest.raises(ModelError) as caught:
        its.model.complete(request())
    assert caught.value.kind == kind
    assert caught.value.attempts == 3
    assert len(its.server.requests) == 3
    assert len(its.waits.seconds) == 2
    assert "<html" not in str(caught.value)


def test_a_provider_that_asks_for_a_long_wait_is_not_waited_for(adapter: Adapter) -> None:
    with talk(adapter, scripted.rate_limited(3600)) as its, pytest.raises(ModelError, match="3600 seconds"):
        its.model.complete(request())
    assert its.waits.seconds == []


def test_the_advice_not_to_retry_is_heard(adapter: Adapter) -> None:
    fault = scripted.HttpError(503, "Never.", should_retry=False)
    with talk(adapter, fault) as its, pytest.raises(ModelError):
        its.model.complete(request())
    assert len(its.server.requests) == 1


def test_usage_that_the_provider_does_not_send_is_unknown(adapter: Adapter) -> None:
    with talk(adapter, Reply("Hello.", usage="omitted")) as its:
        assert its.model.complete(request()).usage is None


def test_input_tokens_hold_the_cached_ones(adapter: Adapter) -> None:
    with talk(adapter, Reply("Hello.", usage=scripted.Usage(100, 7, cache_read_tokens=60))) as its:
        usage = its.model.complete(request()).usage
    assert usage == TokenUsage(input_tokens=100, output_tokens=7, cached_tokens=60)


def test_a_server_that_refuses_the_schema_is_asked_without_it_once_and_this_is_reported(adapter: Adapter) -> None:
    def old_server(asked: scripted.Request) -> scripted.Answer:
        for name in ("response_format", "output_config", "text"):
            if name in asked.body:
                return scripted.unsupported_parameter(name)
        return Reply("{}")

    with talk(adapter, old_server) as its:
        first = its.model.complete(request(reply_schema=SCHEMA))
        tried = len(its.server.requests)
        second = its.model.complete(request(reply_schema=SCHEMA))
        plain = its.model.complete(request())
        assert len(its.server.requests) == tried + 2
    assert not first.native_schema
    assert first.dropped_parameters
    assert second.dropped_parameters == first.dropped_parameters
    assert (first.attempts, second.attempts, first.provider_retries) == (tried, 1, 0)
    assert plain.dropped_parameters == ()


def test_a_refused_parameter_that_is_not_ours_is_one_clear_error(adapter: Adapter) -> None:
    with talk(adapter, scripted.unsupported_parameter("temperature")) as its:
        with pytest.raises(ModelError, match="'temperature' is not supported") as caught:
            its.model.complete(request(reply_schema=SCHEMA))
        assert len(its.server.requests) == 1
    assert caught.value.kind == "bad_request"


def test_a_reply_that_never_ends_is_ended(adapter: Adapter) -> None:
    drip = scripted.SlowDrip(Reply("Hello " * 200), pause_s=0.05, piece_bytes=1)
    with talk(adapter, drip, timeout_s=0.4) as its, pytest.raises(ModelError) as caught:
        its.model.complete(request())
    assert caught.value.kind == "timeout"
    assert caught.value.unknown_attempts == 3


def test_a_reply_without_bounds_is_not_kept_in_memory(adapter: Adapter, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(model_calls, "_MAX_BODY_BYTES", 20_000)
    with talk(adapter, Reply("x" * 30_000)) as its, pytest.raises(ModelError) as caught:
        its.model.complete(request())
    assert caught.value.kind == "connection"
    with talk(adapter, Reply("x" * 10_000)) as its:
        assert len(its.model.complete(request()).text) == 10_000


def test_an_address_where_nothing_answers_is_a_connection_error_that_cost_nothing(adapter: Adapter) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))  # bound and not listening: connections are refused
        model = adapter(f"http://127.0.0.1:{taken.getsockname()[1]}", Waits())
        with pytest.raises(ModelError, match="nothing answers") as caught:
            model.complete(request())
    assert (caught.value.kind, caught.value.attempts, caught.value.unknown_attempts) == ("connection", 3, 0)


def test_the_key_is_in_no_message_and_no_repr(adapter: Adapter) -> None:
    fault = scripted.HttpError(401, f"Incorrect API key provided: {KEY}.\x1b[31m\n::error::")
    with talk(adapter, fault) as its, pytest.raises(ModelError, match=r"\[key\]") as caught:
        its.model.complete(request())
    shown = f"{caught.value} {caught.value.args} {its.model!r} {vars(its.model)!r} {caught.value.__cause__!r}"
    assert KEY not in shown
    assert "\x1b" not in str(caught.value)
    assert "\n" not in str(caught.value)


def test_text_that_has_no_utf8_form_is_sent_with_replacements(adapter: Adapter) -> None:
    broken = "a\ud800b \ud83d\ude00"
    with talk(adapter, Reply.calling("bash", {"command": broken})) as its:
        reply = its.model.complete(
            request(
                Message(role="user", text=broken),
                Message(role="assistant", tool_uses=(ToolUse(id="1", name="bash", arguments={broken: broken}),)),
                Message(role="tool", tool_results=(ToolResult(id="1", text=broken),)),
                tools=(BASH.model_copy(update={"description": broken}),),
            )
        )
        sent = its.server.requests[0]
    fixed = "a\ufffdb 😀"
    assert sent.messages[0].text == fixed
    assert sent.last.tool_results[0].text == fixed
    assert reply.tool_uses[0].arguments == {"command": fixed}


def test_tool_names_that_providers_refuse_are_mapped_and_mapped_back(adapter: Adapter) -> None:
    odd = ToolSpec(name="docs.search/v2", description="Search.", input_schema={"type": "object", "properties": {}})
    long = odd.model_copy(update={"name": "mcp__" + "x" * 80})

    def call_the_first(asked: scripted.Request) -> scripted.Answer:
        return Reply.calling(next(iter(asked.tools)), {})

    with talk(adapter, call_the_first) as its:
        assert its.model.complete(request(tools=(odd, long))).tool_uses[0].name == "docs.search/v2"
        assert its.model.complete(request(tools=(long, odd))).tool_uses[0].name == long.name


def test_many_threads_may_ask_one_client(adapter: Adapter) -> None:
    from concurrent.futures import ThreadPoolExecutor

    def echo(asked: scripted.Request) -> scripted.Answer:
        return Reply(asked.last.text)

    with talk(adapter, echo) as its, ThreadPoolExecutor(8) as pool:
        texts = [f"message {number}" for number in range(40)]
        said = pool.map(lambda text: its.model.complete(request(Message(role="user", text=text))).text, texts)
        assert list(said) == texts


LONG = 20_000
"""Output tokens from which on a reply is asked for as a stream."""


@pytest.mark.parametrize(
    "reply",
    [
        Reply("Hello, Wörld. " * 9),
        Reply("", (scripted.ToolCall("bash", {"command": "ls -la"}, "id-1"), scripted.ToolCall("bash", {}, "id-2"))),
        Reply("First.", (scripted.ToolCall("bash", {"command": "x" * 100}, "id-1"),)),
        Reply("cut", finish="length"),
        Reply("I will not.", finish="refusal"),
        Reply("x", usage=scripted.Usage(50, 7, cache_read_tokens=20)),
        Reply("x", usage="omitted"),
    ],
)
def test_a_reply_is_the_same_whether_it_comes_as_a_stream_or_not(adapter: Adapter, reply: Reply) -> None:
    with talk(adapter, reply) as its:
        plain = its.model.complete(request(tools=(BASH,)))
        streamed = its.model.complete(request(tools=(BASH,), max_output_tokens=LONG))
        assert [asked.stream for asked in its.server.requests] == [False, True]
    if plain.usage is not None:  # a stand-in for a tokenizer: the question is longer by its parameters
        assert streamed.usage is not None
        plain = plain.model_copy(update={"usage": streamed.usage})
    assert streamed == plain


def test_a_request_that_was_lost_is_sent_again_as_a_stream(adapter: Adapter) -> None:
    with talk(adapter, scripted.first(1, scripted.Dropped("middle"), then=Reply("At last."))) as its:
        reply = its.model.complete(request())
        assert [asked.stream for asked in its.server.requests] == [False, True]
    assert (reply.text, reply.attempts, reply.provider_retries, reply.unknown_attempts) == ("At last.", 2, 1, 1)


@pytest.mark.parametrize(
    "fault",
    [scripted.Truncated(), scripted.Dropped("middle"), scripted.ErrorInStream(scripted.HttpError(529, "Overloaded."))],
)
def test_a_stream_that_breaks_off_is_no_reply(adapter: Adapter, fault: scripted.Fault) -> None:
    with talk(adapter, fault) as its, pytest.raises(ModelError) as caught:
        its.model.complete(request(max_output_tokens=LONG))
    assert caught.value.kind in ("connection", "overload", "malformed")
    assert caught.value.attempts == 3


def test_a_provider_that_answers_in_streams_only_is_asked_for_one(adapter: Adapter) -> None:
    def only_streams(asked: scripted.Request) -> scripted.Answer:
        return Reply("Fine.") if asked.stream else scripted.HttpError(400, "This model only supports streaming.")

    with talk(adapter, only_streams) as its:
        assert its.model.complete(request()).text == "Fine."
