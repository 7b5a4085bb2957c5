"""OpenAI Responses, and every server that speaks them, as a ChatModel."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Any

from pydantic import SecretStr

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
from gate.adapters.streamed import STREAM_FROM, Streaming, response
from gate.domain.chat import ChatReply, ChatRequest, Finish, Message, TokenUsage, ToolUse

if TYPE_CHECKING:
    import httpx2

BASE_URL = "https://api.openai.com/v1"

_SCHEMA = "text.format"
_REASONING = "include"
_TOKENS = "max_output_tokens"
_SENT = {_SCHEMA: "text", _REASONING: "include", _TOKENS: "max_output_tokens"}
"""Name that a dropped parameter is reported by -> the field of the request that goes."""
_NAMED = {
    _SCHEMA: r"text\.format(?:\.\w+)*|json_schema|'text'",  # the bare word stands in many a message
    _REASONING: r"include(?:\[\d+\])?|reasoning\.encrypted_content",
    _TOKENS: r"max_output_tokens",
}
"""How providers name it when they refuse it."""


class OpenAIResponsesModel:
    """A model behind ``POST <base_url>/responses``, through the official SDK. Thread-safe.

    Nothing is kept at the provider (``store: false``): every request holds its whole conversation. Where a model reasons, its
    reasoning items come encrypted and are given back unchanged in the turns that follow. ``reply_schema`` is asked for
    natively; it, the reasoning and the output limit are left out where the server refuses them by name, which is in every
    reply's ``dropped_parameters`` from then on. No sampling parameter is ever sent.
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
        self._thoughts = Thoughts()
        self._client = OpenAI(
            api_key=api_key.get_secret_value(),
            base_url=base_url,
            max_retries=0,
            timeout=timeout_s,
            http_client=http_client(transport, timeout_s=timeout_s, proxies=proxies),
        )

    def __repr__(self) -> str:
        """Without the key."""
        return f"OpenAIResponsesModel({self.name!r})"

    def close(self) -> None:
        """Close the connections."""
        self._client.close()

    def complete(self, request: ChatRequest) -> ChatReply:
        """Ask once. Raises ModelError."""
        names = ToolNames(request.tools)
        fixed = _body(self._model, request, self._thoughts)
        wanted = _optional(request)
        known = self._learned.known()
        dropped = [name for name in wanted if name in known]
        optional = {name: value for name, value in wanted.items() if name not in known}

        streaming = Streaming(request.max_output_tokens >= STREAM_FROM, response)

        def send(attempt: int) -> Any:
            wanted = {**fixed, **{_SENT[name]: value for name, value in optional.items()}}
            if streaming.on:
                wanted["stream"] = True
            return self._client.responses.with_raw_response.create(
                **wanted,
                extra_headers=call_headers(request.label, attempt) if self._label_calls else None,
            )

        def drop(failed: Failed) -> str | None:
            for name in optional:
                if _refuses(failed, name):
                    del optional[name]
                    self._learned.add(name)
                    return name
            return None

        reply = call(
            send,
            lambda body: _reply(body, names, len(request.messages), self._thoughts),
            name=self.name,
            key=self._key.get_secret_value(),
            drop=drop,
            dropped=dropped,
            retry=self._retry,
            streaming=streaming,
        )
        return reply.model_copy(update={"native_schema": _SCHEMA in optional})


def _refuses(failed: Failed, name: str) -> bool:
    if failed.parameter == _SENT[name]:
        return True
    pattern = rf"(?<![A-Za-z0-9_.])(?:{_NAMED[name]})(?![A-Za-z0-9_])"
    return any(re.search(pattern, text) for text in (failed.parameter, failed.detail))


def _optional(request: ChatRequest) -> dict[str, Any]:
    """What a server may refuse, by the name that it is reported by."""
    wanted: dict[str, Any] = {_TOKENS: request.max_output_tokens}
    if request.tools:
        wanted[_REASONING] = ["reasoning.encrypted_content"]
    schema = enforceable(request.reply_schema.json_schema) if request.reply_schema else None
    if schema is not None and request.reply_schema is not None:
        name = re.sub(r"[^A-Za-z0-9_-]", "_", request.reply_schema.name)[:64] or "reply"
        wanted[_SCHEMA] = {
            "format": {"type": "json_schema", "name": name, "schema": clean_json(schema), "strict": True}
        }
    return wanted


def _body(model: str, request: ChatRequest, thoughts: Thoughts) -> dict[str, Any]:
    items: list[Any] = []
    for message in request.messages:
        items += _items(message, thoughts)
    body: dict[str, Any] = {"model": model, "input": items, "store": False}
    if request.system.strip():
        body["instructions"] = clean(request.system)
    if request.tools:
        body["tools"] = [
            {
                "type": "function",
                "name": ToolNames.wire(tool.name),
                "description": clean(tool.description),
                "parameters": clean_json({"type": "object", **tool.input_schema}),
                "strict": False,
            }
            for tool in request.tools
        ]
    return body


def _items(message: Message, thoughts: Thoughts) -> list[Any]:
    if message.role == "assistant":
        kept = thoughts.of(message)
        if kept is not None:
            return list(kept)
        said: list[Any] = [{"role": "assistant", "content": clean(message.text)}] if message.text.strip() else []
        return said + [
            {
                "type": "function_call",
                "call_id": use.id,
                "name": ToolNames.wire(use.name),
                "arguments": json.dumps(replayable_arguments(use), ensure_ascii=False),
            }
            for use in message.tool_uses
        ]
    items: list[Any] = [
        {"type": "function_call_output", "call_id": result.id, "output": clean(result.text)}
        for result in message.tool_results
    ]
    if message.text or not items:
        items.append({"role": "user", "content": clean(message.text)})
    return items


def _reply(body: dict[str, Any], names: ToolNames, turn: int, thoughts: Thoughts) -> ChatReply:
    """The reply in a response. Raises Failed for what is none."""
    output = body.get("output")
    if not isinstance(output, list) or not all(isinstance(item, dict) for item in output):
        raise malformed("the reply has no list of output items")
    parts = [part for item in output if item.get("type") == "message" for part in _parts(item)]
    refusals = _texts(parts, "refusal", "refusal")
    text = clean("".join(refusals or _texts(parts, "output_text", "text")))
    calls = [item for item in output if item.get("type") == "function_call"]
    uses = _tool_uses(calls, names, turn)
    if any(item.get("type") == "reasoning" for item in output) and [use.id for use in uses] == [
        item.get("call_id") for item in calls
    ]:
        thoughts.keep(text, uses, clean_json(output))
    model = body.get("model")
    return ChatReply(
        text=text,
        tool_uses=uses,
        finish=Finish.REFUSAL if refusals else _finish(body, has_calls=bool(uses)),
        usage=_usage(body.get("usage")),
        model=model if isinstance(model, str) else "",
    )


def _texts(parts: list[dict[str, Any]], kind: str, field: str) -> list[str]:
    found = [part.get(field) for part in parts if part.get("type") == kind]
    texts = [text for text in found if isinstance(text, str)]
    if len(texts) < len(found):
        raise malformed("a text of the reply is none")
    return texts


def _parts(item: dict[str, Any]) -> list[dict[str, Any]]:
    content = item.get("content")
    if not isinstance(content, list) or not all(isinstance(part, dict) for part in content):
        raise malformed("a message of the reply has no list of parts")
    return content


def _finish(body: dict[str, Any], *, has_calls: bool) -> Finish:
    status, details = body.get("status"), body.get("incomplete_details")
    if status == "incomplete":
        reason = details.get("reason") if isinstance(details, dict) else None
        return {"max_output_tokens": Finish.LENGTH, "content_filter": Finish.REFUSAL}.get(str(reason), Finish.OTHER)
    if has_calls:
        return Finish.TOOL_USE
    return Finish.STOP if status == "completed" else Finish.OTHER


def _tool_uses(calls: list[dict[str, Any]], names: ToolNames, turn: int) -> tuple[ToolUse, ...]:
    ids = unique_ids([item["call_id"] if isinstance(item.get("call_id"), str) else "" for item in calls], turn)
    uses = []
    for own_id, item in zip(ids, calls, strict=True):
        if not isinstance(item.get("name"), str):
            raise malformed("a tool call of the reply names no function")
        arguments, raw = arguments_of(item.get("arguments"))
        uses.append(
            ToolUse(
                id=own_id,
                name=clean(names.own(item["name"])),
                arguments=None if arguments is None else clean_json(arguments),
                raw_arguments=clean(raw),
            )
        )
    return tuple(uses)


def _usage(usage: Any) -> TokenUsage | None:
    """Tokens as the provider counted them; None where it did not, or not in numbers."""
    if not isinstance(usage, dict):
        return None
    sent, said = count_or_none(usage.get("input_tokens")), count_or_none(usage.get("output_tokens"))
    if sent is None or said is None:
        return None
    details = usage.get("input_tokens_details")
    cached = count_or_none(details.get("cached_tokens")) if isinstance(details, dict) else None
    return TokenUsage(input_tokens=sent, output_tokens=said, cached_tokens=cached or 0)
