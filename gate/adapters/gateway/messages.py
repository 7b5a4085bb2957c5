"""Anthropic Messages: what Claude Code speaks."""

from __future__ import annotations

from collections import Counter
from typing import Any

from gate.adapters.gateway.dialect import (
    LARGEST_OUTPUT,
    STRIPPED_FIELD,
    STRIPPED_MEDIA,
    STRIPPED_TOOL,
    BadRequestError,
    Conversation,
    Events,
    Prepared,
    Talk,
    arguments_of,
    parsed,
    require_model,
    texts_of,
)
from gate.adapters.model_calls import count_or_none
from gate.domain.chat import ChatReply, Finish, TokenUsage, ToolResult, ToolUse
from gate.domain.gateway import Dialect as DialectName

_OWN_TOOLS = ("custom", "bash_", "text_editor_", "computer_", "memory_")
"""Beginnings of the types of tools that the client runs; every other type is run by the provider."""
_REMOTE_FIELDS = ("mcp_servers", "container")
_FINISH = {
    "end_turn": Finish.STOP,
    "stop_sequence": Finish.STOP,
    "tool_use": Finish.TOOL_USE,
    "max_tokens": Finish.LENGTH,
    "model_context_window_exceeded": Finish.LENGTH,
    "refusal": Finish.REFUSAL,
}
_ERRORS = {
    400: "invalid_request_error",
    401: "authentication_error",
    403: "permission_error",
    404: "not_found_error",
    413: "request_too_large",
    429: "rate_limit_error",
}


class Messages:
    """``POST /v1/messages``."""

    name = DialectName.MESSAGES
    path = "/v1/messages"
    upstream = "/v1/messages"
    final_status = 403

    def prepare(self, body: dict[str, Any], model: str) -> Prepared:
        """Without tools that the provider runs and media that it fetches."""
        require_model(body, model)
        out, stripped = dict(body), Counter[str]()
        for name in _REMOTE_FIELDS:
            if out.pop(name, None) is not None:
                stripped[STRIPPED_FIELD] += 1
        given = out.get("tools")
        if isinstance(given, list):
            tools = [tool for tool in given if isinstance(tool, dict) and _is_own(tool)]
            stripped[STRIPPED_TOOL] += len(given) - len(tools)
            out["tools"] = tools
            choice = out.get("tool_choice")
            names = {tool.get("name") for tool in tools}
            if not tools:
                del out["tools"]
                out.pop("tool_choice", None)
            elif isinstance(choice, dict) and choice.get("type") == "tool" and choice.get("name") not in names:
                del out["tool_choice"]
        for name in ("messages", "system"):
            if isinstance(out.get(name), list):
                out[name] = _without_remote(out[name], stripped)
        most = out.get("max_tokens")
        if isinstance(most, int) and most > LARGEST_OUTPUT:
            out["max_tokens"] = LARGEST_OUTPUT
        return Prepared(out, body.get("stream") is True, +stripped)

    def talk(self, body: dict[str, Any]) -> Talk:
        """The conversation; messages with the role system belong to the system text."""
        found = Conversation()
        found.system.append(texts_of(body.get("system"), ("text",)))
        for message in body.get("messages") or []:
            if not isinstance(message, dict):
                raise BadRequestError("a message is no object")
            _add(found, message)
        tools = [str(tool.get("name")) for tool in body.get("tools") or [] if isinstance(tool, dict)]
        return found.talk(tools)

    def collector(self, *, streamed: bool) -> MessageCollector:
        """For one answer."""
        return MessageCollector(streamed=streamed)

    def error(self, status: int, message: str) -> dict[str, Any]:
        """As the provider words it."""
        kind = _ERRORS.get(status, "api_error" if status >= 500 else "invalid_request_error")
        return {"type": "error", "error": {"type": kind, "message": message}}


def _is_own(tool: dict[str, Any]) -> bool:
    kind = tool.get("type")
    return kind is None or (isinstance(kind, str) and kind.startswith(_OWN_TOOLS))


def _without_remote(value: Any, stripped: Counter[str]) -> Any:
    """The same content, with every image or document that the provider would fetch named in words instead."""
    if isinstance(value, list):
        return [_without_remote(item, stripped) for item in value]
    if not isinstance(value, dict):
        return value
    source = value.get("source")
    if (
        value.get("type") in ("image", "document")
        and isinstance(source, dict)
        and source.get("type") not in ("base64", "text", "content")
    ):
        stripped[STRIPPED_MEDIA] += 1
        return {"type": "text", "text": f"[{value['type']} left out: only inline data is passed on]"}
    if value.get("type") == "container_upload":
        stripped[STRIPPED_MEDIA] += 1
        return {"type": "text", "text": "[upload left out]"}
    # Only where content nests: the arguments of a tool call are the agent's own data.
    if "content" in value:
        return {**value, "content": _without_remote(value["content"], stripped)}
    if isinstance(source, dict) and "content" in source:
        return {**value, "source": _without_remote(source, stripped)}
    return value


def _add(found: Conversation, message: dict[str, Any]) -> None:
    role, content = message.get("role"), message.get("content")
    blocks = content if isinstance(content, list) else [{"type": "text", "text": content}]
    blocks = [block for block in blocks if isinstance(block, dict)]
    if role == "system":
        found.system.append(texts_of(blocks, ("text",)))
    elif role == "assistant":
        texts = [block for block in blocks if block.get("type") == "text"]
        found.said(texts_of(texts, ("text",)), [_use(block) for block in blocks if block.get("type") == "tool_use"])
    else:
        results = [block for block in blocks if block.get("type") == "tool_result"]
        rest = [block for block in blocks if block.get("type") != "tool_result"]
        if results:
            found.results(
                [
                    ToolResult(
                        id=str(block.get("tool_use_id", "")),
                        text=texts_of(block.get("content"), ("text",)),
                        is_error=block.get("is_error") is True,
                    )
                    for block in results
                ]
            )
        if rest:
            found.asked(texts_of(rest, ("text",)))


def _use(block: dict[str, Any]) -> ToolUse:
    arguments, raw = arguments_of(block.get("input"))
    return ToolUse(id=str(block.get("id", "")), name=str(block.get("name", "")), arguments=arguments, raw_arguments=raw)


class MessageCollector:
    """One message, streamed or whole."""

    def __init__(self, *, streamed: bool) -> None:
        self._events = Events() if streamed else None
        self._whole = bytearray()
        self._message: dict[str, Any] = {}
        self._usage: dict[str, Any] = {}
        self._blocks: dict[int, dict[str, Any]] = {}
        self._json: dict[int, list[str]] = {}
        self._texts: dict[int, list[str]] = {}
        self.finished = False
        self.failure = ""

    def feed(self, data: bytes) -> None:
        """Take the next bytes."""
        if self._events is None:
            self._whole += data
            return
        for event in self._events.feed(data):
            self._event(event)

    def end(self) -> None:
        """No more comes."""
        message = parsed(bytes(self._whole)) if self._events is None else None
        if message is not None and message.get("type") == "message":
            self._message, self._usage, self.finished = message, message.get("usage") or {}, True
            self._blocks = dict(enumerate(b for b in message.get("content") or [] if isinstance(b, dict)))

    def _event(self, event: dict[str, Any]) -> None:
        kind, index = event.get("type"), event.get("index")
        if kind == "message_start" and isinstance(event.get("message"), dict):
            self._message = dict(event["message"])
            self._usage.update(self._message.get("usage") or {})
        elif kind == "content_block_start" and isinstance(index, int) and isinstance(event.get("content_block"), dict):
            self._blocks[index] = dict(event["content_block"])
        elif kind == "content_block_delta" and isinstance(index, int) and isinstance(event.get("delta"), dict):
            delta = event["delta"]
            if delta.get("type") == "text_delta":
                self._texts.setdefault(index, []).append(str(delta.get("text", "")))
            elif delta.get("type") == "input_json_delta":
                self._json.setdefault(index, []).append(str(delta.get("partial_json", "")))
        elif kind == "message_delta":
            self._message.update(event.get("delta") or {})
            self._usage.update({name: value for name, value in (event.get("usage") or {}).items() if value is not None})
        elif kind == "message_stop":
            self.finished = True
        elif kind == "error":
            error = event.get("error")
            self.failure = str(error.get("message", "")) if isinstance(error, dict) else "it sent an error"
            self.failure = self.failure or "it sent an error"

    def reply(self) -> ChatReply | None:
        """The message in the words of no provider."""
        if not self.finished or self.failure:
            return None
        texts, uses = [], []
        for index, block in sorted(self._blocks.items()):
            if block.get("type") == "text":
                texts.append(str(block.get("text", "")) + "".join(self._texts.get(index, ())))
            elif block.get("type") == "tool_use":
                written: Any = block.get("input")
                if index in self._json and (joined := "".join(self._json[index])).strip():
                    written = joined
                uses.append(_use({**block, "input": written}))
        finish = _FINISH.get(str(self._message.get("stop_reason")), Finish.OTHER)
        if uses and finish in (Finish.STOP, Finish.OTHER):
            finish = Finish.TOOL_USE
        elif finish is Finish.TOOL_USE and not uses:
            finish = Finish.STOP
        model = self._message.get("model")
        return ChatReply(
            text="".join(texts),
            tool_uses=tuple(uses),
            finish=finish,
            usage=self._tokens(),
            model=model if isinstance(model, str) else "",
        )

    def _tokens(self) -> TokenUsage | None:
        fresh, said = count_or_none(self._usage.get("input_tokens")), count_or_none(self._usage.get("output_tokens"))
        if fresh is None or said is None:
            return None
        written = count_or_none(self._usage.get("cache_creation_input_tokens")) or 0
        cached = count_or_none(self._usage.get("cache_read_input_tokens")) or 0
        return TokenUsage(
            input_tokens=fresh + written + cached, output_tokens=said, cached_tokens=cached, cache_write_tokens=written
        )
