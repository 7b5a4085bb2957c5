"""Anthropic messages, and every server that speaks them, as a ChatModel."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pydantic import SecretStr

from gate.adapters import streamed
from gate.adapters.model_calls import (
    Failed,
    Learned,
    Retry,
    Thoughts,
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
from gate.domain.chat import ChatReply, ChatRequest, Finish, Message, TokenUsage, ToolUse

if TYPE_CHECKING:
    import httpx2

BASE_URL = "https://api.anthropic.com"
LARGEST_OUTPUT = 21_333
"""More output tokens than these the SDK allows in streams only (ten minutes at the rate it assumes)."""

_FINISH = {
    "end_turn": Finish.STOP,
    "stop_sequence": Finish.STOP,
    "tool_use": Finish.TOOL_USE,
    "max_tokens": Finish.LENGTH,
    "model_context_window_exceeded": Finish.LENGTH,
    "refusal": Finish.REFUSAL,
}
_SCHEMA = "output_config.format"
_CACHE = "cache_control"


class AnthropicModel:
    """A model behind ``POST <base_url>/v1/messages``, through the official SDK. Thread-safe.

    ``reply_schema`` is asked for natively (``output_config.format``) unless the server refuses it by name, which is in
    every reply's ``dropped_parameters`` from then on. A conversation with tools, which goes on turn after turn with the same
    beginning, is marked for the provider's prompt cache (``cache_control``), droppable in the same way. No sampling and no
    thinking parameter is ever sent; where a model
    thinks by itself, its thinking blocks are given back to it unchanged in the turns that follow, as it requires.
    """

    def __init__(
        self,
        name: str,
        model: str,
        *,
        api_key: SecretStr,
        base_url: str = BASE_URL,
        family: str = "anthropic",
        transport: httpx2.BaseTransport | None = None,
        timeout_s: float = 300.0,
        retry: Retry | None = None,
        label_calls: bool = False,
        proxies: bool = True,
    ) -> None:
        """``transport`` None is the network; ``label_calls`` adds the internal headers of recording and replaying."""
        from anthropic import Anthropic

        self.name = name
        self.family = family
        self._model = model
        self._key = api_key
        self._retry = retry or Retry()
        self._label_calls = label_calls
        self._learned = Learned(remember=not label_calls)
        self._thoughts = Thoughts()
        self._client = Anthropic(
            api_key=api_key.get_secret_value(),
            base_url=base_url,
            max_retries=0,
            timeout=timeout_s,
            open_telemetry=False,
            http_client=http_client(transport, timeout_s=timeout_s, proxies=proxies),
        )

    def __repr__(self) -> str:
        """Without the key."""
        return f"AnthropicModel({self.name!r})"

    def close(self) -> None:
        """Close the connections."""
        self._client.close()

    def complete(self, request: ChatRequest) -> ChatReply:
        """Ask once. Raises ModelError."""
        names = ToolNames(request.tools)
        fixed = _body(self._model, request, self._thoughts)
        schema = enforceable(request.reply_schema.json_schema) if request.reply_schema else None
        optional: dict[str, Any] = {}
        dropped: list[str] = []
        if schema is not None and _SCHEMA in self._learned.known():
            dropped.append(_SCHEMA)
        elif schema is not None:
            optional["output_config"] = {"format": {"type": "json_schema", "schema": clean_json(schema)}}
        if request.tools and _CACHE in self._learned.known():
            dropped.append(_CACHE)
        elif request.tools:
            optional[_CACHE] = {"type": "ephemeral"}

        streaming = streamed.Streaming(request.max_output_tokens >= streamed.STREAM_FROM, streamed.message)

        def send(attempt: int) -> Any:
            wanted = {**fixed, **optional}
            if streaming.on:
                wanted["stream"] = True
            else:
                wanted["max_tokens"] = min(wanted["max_tokens"], LARGEST_OUTPUT)
            return self._client.messages.with_raw_response.create(
                **wanted,
                extra_headers=call_headers(request.label, attempt) if self._label_calls else None,
            )

        def drop(failed: Failed) -> str | None:
            for sent, refused in (("output_config", _SCHEMA), (_CACHE, _CACHE)):
                if sent in optional and sent in f"{failed.parameter} {failed.detail}":
                    del optional[sent]
                    self._learned.add(refused)
                    return refused
            return None

        def read(body: dict[str, Any]) -> ChatReply:
            return _reply(body, names, len(request.messages), self._thoughts)

        reply = call(
            send,
            read,
            name=self.name,
            key=self._key.get_secret_value(),
            drop=drop,
            dropped=dropped,
            retry=self._retry,
            streaming=streaming,
        )
        return reply.model_copy(update={"native_schema": "output_config" in optional})


def _body(model: str, request: ChatRequest, thoughts: Thoughts) -> dict[str, Any]:
    messages: list[dict[str, Any]] = []
    for message in request.messages:
        role = "assistant" if message.role == "assistant" else "user"
        blocks = _blocks(message, thoughts)
        if messages and messages[-1]["role"] == role:  # neighbours of one role are one message
            messages[-1]["content"] += blocks
        else:
            messages.append({"role": role, "content": blocks})
    body: dict[str, Any] = {
        "model": model,
        "messages": messages,
        "max_tokens": request.max_output_tokens,
    }
    if request.system.strip():
        body["system"] = clean(request.system)
    if request.tools:
        body["tools"] = [
            {
                "name": ToolNames.wire(tool.name),
                "description": clean(tool.description),
                "input_schema": clean_json({"type": "object", **tool.input_schema}),
            }
            for tool in request.tools
        ]
    return body


def _blocks(message: Message, thoughts: Thoughts) -> list[Any]:
    if message.role == "assistant":
        kept = thoughts.of(message)
        if kept is not None:
            return list(kept)
    blocks: list[Any] = []
    for result in message.tool_results:
        block: dict[str, Any] = {"type": "tool_result", "tool_use_id": result.id}
        if result.text.strip():  # blank texts are refused
            block["content"] = clean(result.text)
        if result.is_error:
            block["is_error"] = True
        blocks.append(block)
    if message.text.strip():
        blocks.append({"type": "text", "text": clean(message.text)})
    blocks += [
        {"type": "tool_use", "id": use.id, "name": ToolNames.wire(use.name), "input": replayable_arguments(use)}
        for use in message.tool_uses
    ]
    return blocks or [{"type": "text", "text": "(no text)"}]


def _reply(body: dict[str, Any], names: ToolNames, turn: int, thoughts: Thoughts) -> ChatReply:
    """The reply in a message. Raises Failed for what is none."""
    content = body.get("content")
    if not isinstance(content, list) or not all(isinstance(block, dict) for block in content):
        raise malformed("the reply has no list of content blocks")
    texts = [block.get("text") for block in content if block.get("type") == "text"]
    if not all(isinstance(text, str) for text in texts):
        raise malformed("a text block of the reply holds no text")
    text = clean("".join(texts))
    uses = _tool_uses([block for block in content if block.get("type") == "tool_use"], names, turn)
    finish = _FINISH.get(str(body.get("stop_reason")), Finish.OTHER)
    if uses and finish in (Finish.STOP, Finish.OTHER):
        finish = Finish.TOOL_USE
    elif finish is Finish.TOOL_USE and not uses:
        finish = Finish.STOP
    calls = [block.get("id") for block in content if block.get("type") == "tool_use"]
    thought = any(block.get("type") in ("thinking", "redacted_thinking") for block in content)
    if thought and calls == [use.id for use in uses]:
        thoughts.keep(text, uses, clean_json(content))
    model = body.get("model")
    return ChatReply(
        text=text,
        tool_uses=uses,
        finish=finish,
        usage=_usage(body.get("usage")),
        model=model if isinstance(model, str) else "",
    )


def _tool_uses(blocks: list[dict[str, Any]], names: ToolNames, turn: int) -> tuple[ToolUse, ...]:
    ids = unique_ids([block["id"] if isinstance(block.get("id"), str) else "" for block in blocks], turn)
    uses = []
    for own_id, block in zip(ids, blocks, strict=True):
        if not isinstance(block.get("name"), str):
            raise malformed("a tool call of the reply names no tool")
        arguments, raw = arguments_of(block.get("input"))
        uses.append(
            ToolUse(
                id=own_id,
                name=clean(names.own(block["name"])),
                arguments=None if arguments is None else clean_json(arguments),
                raw_arguments=clean(raw),
            )
        )
    return tuple(uses)


def _usage(usage: Any) -> TokenUsage | None:
    """Tokens as the provider counted them, with cached ones in the input (the provider counts them apart)."""
    if not isinstance(usage, dict):
        return None
    fresh, said = count_or_none(usage.get("input_tokens")), count_or_none(usage.get("output_tokens"))
    if fresh is None or said is None:
        return None
    written = count_or_none(usage.get("cache_creation_input_tokens")) or 0
    cached = count_or_none(usage.get("cache_read_input_tokens")) or 0
    return TokenUsage(
        input_tokens=fresh + written + cached, output_tokens=said, cached_tokens=cached, cache_write_tokens=written
    )
