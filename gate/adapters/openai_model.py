"""OpenAI chat completions, and every server that speaks them, as a ChatModel."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Any

from pydantic import SecretStr

from gate.adapters.model_calls import (
    Failed,
    Learned,
    Retry,
    ToolNames,
    arguments_of,
    call,
    call_headers,
    clean,
    clean_json,
    count_or_none,
    enforceable,
    http_client,
    malformed,
    replayable_arguments,
    unique_ids,
)
from gate.adapters.streamed import STREAM_FROM, Streaming, completion
from gate.domain.chat import ChatReply, ChatRequest, Finish, Message, ReplySchema, TokenUsage, ToolUse

if TYPE_CHECKING:
    import httpx2

BASE_URL = "https://api.openai.com/v1"

_FINISH = {
    "stop": Finish.STOP,
    "tool_calls": Finish.TOOL_USE,
    "function_call": Finish.TOOL_USE,
    "length": Finish.LENGTH,
    "content_filter": Finish.REFUSAL,
}
# Each list is a ladder: where the provider refuses one way by name, the next is taken.
_SCHEMA_LADDER = ("response_format.json_schema", "response_format")
_TOKENS_LADDER = ("max_completion_tokens", "max_tokens")


class OpenAIModel:
    """A model behind ``POST <base_url>/chat/completions``, through the official SDK. Thread-safe.

    ``reply_schema`` is asked for natively (strict ``json_schema``), then as ``json_object``, then not at all, where the
    server refuses by name; the output limit as ``max_completion_tokens``, then ``max_tokens``, then not at all. No
    sampling parameter is ever sent. What was left out is in every reply's ``dropped_parameters``.
    """

    def __init__(
        self,
        name: str,
        model: str,
        *,
        api_key: SecretStr,
        base_url: str = BASE_URL,
        family: str = "openai",
        transport: httpx2.BaseTransport | None = None,
        timeout_s: float = 300.0,
        retry: Retry | None = None,
        label_calls: bool = False,
        proxies: bool = True,
    ) -> None:
        """``transport`` None is the network; ``label_calls`` adds the internal headers of recording and replaying."""
        from openai import OpenAI

        self.name = name
        self.family = family
        self._model = model
        self._key = api_key
        self._retry = retry or Retry()
        self._label_calls = label_calls
        self._learned = Learned(remember=not label_calls)
        self._client = OpenAI(
            api_key=api_key.get_secret_value(),
            base_url=base_url,
            max_retries=0,
            timeout=timeout_s,
            http_client=http_client(transport, timeout_s=timeout_s, proxies=proxies),
        )

    def __repr__(self) -> str:
        """Without the key."""
        return f"OpenAIModel({self.name!r})"

    def close(self) -> None:
        """Close the connections."""
        self._client.close()

    def complete(self, request: ChatRequest) -> ChatReply:
        """Ask once. Raises ModelError."""
        names = ToolNames(request.tools)
        options = _Options(request, self._learned)
        fixed = _body(self._model, request)

        streaming = Streaming(request.max_output_tokens >= STREAM_FROM, completion)

        def send(attempt: int) -> Any:
            wanted = {**fixed, **options.parameters()}
            if streaming.on:
                wanted |= {"stream": True, "stream_options": {"include_usage": True}}
            return self._client.chat.completions.with_raw_response.create(
                **wanted,
                extra_headers=call_headers(request.label, attempt) if self._label_calls else None,
            )

        reply = call(
            send,
            lambda body: _reply(body, names, len(request.messages)),
            name=self.name,
            key=self._key.get_secret_value(),
            drop=options.drop,
            dropped=options.dropped,
            retry=self._retry,
            streaming=streaming,
        )
        return reply.model_copy(update={"native_schema": options.native})


class _Options:
    """The parameters of one call that a server may refuse."""

    def __init__(self, request: ChatRequest, learned: Learned) -> None:
        self._learned = learned
        self._limit = request.max_output_tokens
        known = learned.known()
        self._schema_ladder: tuple[tuple[str, dict[str, Any]], ...] = ()
        if request.reply_schema is not None:
            self._schema_ladder = _response_formats(request, request.reply_schema)
        self._schema_step = sum(name in known for name, _ in self._schema_ladder)
        self._tokens_step = sum(name in known for name in _TOKENS_LADDER)
        self.dropped = [name for name, _ in self._schema_ladder[: self._schema_step]]
        self.dropped += _TOKENS_LADDER[: self._tokens_step]

    @property
    def native(self) -> bool:
        """Whether the server is asked to enforce the schema."""
        step = self._schema_ladder[self._schema_step : self._schema_step + 1]
        return bool(step) and step[0][0] == _SCHEMA_LADDER[0]

    def parameters(self) -> dict[str, Any]:
        parameters: dict[str, Any] = {}
        if self._schema_step < len(self._schema_ladder):
            parameters["response_format"] = self._schema_ladder[self._schema_step][1]
        if self._tokens_step < len(_TOKENS_LADDER):
            parameters[_TOKENS_LADDER[self._tokens_step]] = self._limit
        return parameters

    def drop(self, failed: Failed) -> str | None:
        for named in (failed.parameter, failed.detail):
            if self._tokens_step < len(_TOKENS_LADDER) and _mentions(named, r"max_(completion_)?tokens"):
                refused = _TOKENS_LADDER[self._tokens_step]
                self._tokens_step += 1
            elif self._schema_step < len(self._schema_ladder) and _mentions(
                named, r"response_format|json_(schema|object)"
            ):
                refused = self._schema_ladder[self._schema_step][0]
                self._schema_step += 1
            else:
                continue
            self._learned.add(refused)
            return refused
        return None


def _mentions(text: str, pattern: str) -> bool:
    return re.search(rf"(?<![A-Za-z0-9_])(?:{pattern})(?![A-Za-z0-9_])", text) is not None


def _response_formats(request: ChatRequest, schema: ReplySchema) -> tuple[tuple[str, dict[str, Any]], ...]:
    """The ways to ask for a schema, the best first, each with the name that it is reported by."""
    ladder: list[tuple[str, dict[str, Any]]] = []
    closed = enforceable(schema.json_schema)
    if closed is not None:
        name = re.sub(r"[^A-Za-z0-9_-]", "_", schema.name)[:64] or "reply"
        described = {"name": name, "schema": clean_json(closed), "strict": True}
        ladder.append((_SCHEMA_LADDER[0], {"type": "json_schema", "json_schema": described}))
    texts = [request.system, *(message.text for message in request.messages)]
    if any("json" in text.lower() for text in texts):  # without the word in it such a request is refused
        ladder.append((_SCHEMA_LADDER[1], {"type": "json_object"}))
    return tuple(ladder)


def _body(model: str, request: ChatRequest) -> dict[str, Any]:
    messages: list[dict[str, Any]] = []
    if request.system:
        messages.append({"role": "system", "content": clean(request.system)})
    for message in request.messages:
        messages += _messages(message)
    body: dict[str, Any] = {"model": model, "messages": messages}
    if request.tools:
        body["tools"] = [
            {
                "type": "function",
                "function": {
                    "name": ToolNames.wire(tool.name),
                    "description": clean(tool.description),
                    "parameters": clean_json(tool.input_schema),
                },
            }
            for tool in request.tools
        ]
    return body


def _messages(message: Message) -> list[dict[str, Any]]:
    if message.role == "tool":
        results: list[dict[str, Any]] = [
            {"role": "tool", "tool_call_id": result.id, "content": clean(result.text)}
            for result in message.tool_results
        ]
        return [*results, {"role": "user", "content": clean(message.text)}] if message.text else results
    if message.role == "user":
        return [{"role": "user", "content": clean(message.text)}]
    said: dict[str, Any] = {"role": "assistant", "content": clean(message.text)}
    if message.tool_uses:
        said["tool_calls"] = [
            {
                "id": use.id,
                "type": "function",
                "function": {
                    "name": ToolNames.wire(use.name),
                    "arguments": json.dumps(replayable_arguments(use), ensure_ascii=False),
                },
            }
            for use in message.tool_uses
        ]
    return [said]


def _reply(body: dict[str, Any], names: ToolNames, turn: int) -> ChatReply:
    """The reply in a completion. Raises Failed for what is none."""
    choices = body.get("choices")
    choice = choices[0] if isinstance(choices, list) and choices else None
    message = choice.get("message") if isinstance(choice, dict) else None
    if not isinstance(choice, dict) or not isinstance(message, dict):
        raise malformed("the reply has no choice with a message")
    finish = _FINISH.get(str(choice.get("finish_reason")), Finish.OTHER)
    uses = _tool_uses(message.get("tool_calls"), names, turn)
    text = _text(message.get("content"))
    refusal = message.get("refusal")
    if isinstance(refusal, str) and refusal:
        finish, text = Finish.REFUSAL, refusal
    elif uses and finish in (Finish.STOP, Finish.OTHER):
        finish = Finish.TOOL_USE  # several servers say "stop" beside tool calls
    elif finish is Finish.TOOL_USE and not uses:
        finish = Finish.STOP
    model = body.get("model")
    return ChatReply(
        text=clean(text),
        tool_uses=uses,
        finish=finish,
        usage=_usage(body.get("usage")),
        model=model if isinstance(model, str) else "",
    )


def _text(content: Any) -> str:
    """The text of a message: a text, or a list of parts of which the text ones count."""
    if content is None:
        return ""
    if isinstance(content, str):
        return content
    if isinstance(content, list):
        parts = [part.get("text") for part in content if isinstance(part, dict)]
        return "".join(part for part in parts if isinstance(part, str))
    raise malformed("the content of the reply is not text")


def _tool_uses(calls: Any, names: ToolNames, turn: int) -> tuple[ToolUse, ...]:
    if calls is None:
        return ()
    if not isinstance(calls, list) or not all(isinstance(item, dict) for item in calls):
        raise malformed("the tool calls of the reply are not a list of objects")
    functions = [item.get("function") for item in calls]
    ids = unique_ids([item["id"] if isinstance(item.get("id"), str) else "" for item in calls], turn)
    uses = []
    for own_id, function in zip(ids, functions, strict=True):
        if not isinstance(function, dict) or not isinstance(function.get("name"), str):
            raise malformed("a tool call of the reply names no function")
        arguments, raw = arguments_of(function.get("arguments"))
        uses.append(
            ToolUse(
                id=own_id,
                name=clean(names.own(function["name"])),
                arguments=None if arguments is None else clean_json(arguments),
                raw_arguments=clean(raw),
            )
        )
    return tuple(uses)


def _usage(usage: Any) -> TokenUsage | None:
    """Tokens as the provider counted them; None where it did not, or not in numbers."""
    if not isinstance(usage, dict):
        return None
    sent, said = count_or_none(usage.get("prompt_tokens")), count_or_none(usage.get("completion_tokens"))
    if sent is None or said is None:
        return None
    details = usage.get("prompt_tokens_details")
    cached = count_or_none(details.get("cached_tokens")) if isinstance(details, dict) else None
    return TokenUsage(input_tokens=sent, output_tokens=said, cached_tokens=cached or 0)
