"""OpenAI Responses: what Codex speaks."""

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

_OWN_TOOLS = frozenset({"function", "custom", "local_shell", "apply_patch", "namespace"})
"""Types of tools that the client runs."""
_IN = "__"
"""Between a namespace and the tool in it, as the one name that the record has."""
_ELSEWHERE = ("previous_response_id", "conversation", "prompt")
"""Fields that name a history which lies at the provider: the record would not hold what the model read."""
_TEXTS = ("input_text", "output_text", "text", "refusal", "summary_text")
_CALLS = {"function_call": "arguments", "custom_tool_call": "input", "local_shell_call": "action"}
_OUTPUTS = ("function_call_output", "custom_tool_call_output", "local_shell_call_output")


class Responses:
    """``POST /v1/responses``."""

    name = DialectName.RESPONSES
    path = "/v1/responses"
    upstream = "/responses"
    final_status = 400

    def prepare(self, body: dict[str, Any], model: str) -> Prepared:
        """Without tools that the provider runs, media that it fetches, and anything that it would keep."""
        require_model(body, model)
        for name in _ELSEWHERE:
            if body.get(name) is not None:
                raise BadRequestError(f"{name} is not allowed here: every request must hold its whole conversation")
        out, stripped = dict(body), Counter[str]()
        out["store"] = False
        if out.pop("background", None):
            stripped[STRIPPED_FIELD] += 1
        given = out.get("tools")
        if isinstance(given, list):
            out["tools"] = _own_tools(given, stripped)
            choice = out.get("tool_choice")
            if isinstance(choice, dict) and choice.get("type") not in _OWN_TOOLS:
                del out["tool_choice"]
        if isinstance(out.get("input"), list):
            out["input"] = [_without_remote(item, stripped) for item in out["input"]]
        most = out.get("max_output_tokens")
        if isinstance(most, int) and most > LARGEST_OUTPUT:
            out["max_output_tokens"] = LARGEST_OUTPUT
        return Prepared(out, body.get("stream") is True, +stripped)

    def talk(self, body: dict[str, Any]) -> Talk:
        """The conversation; developer and system messages belong to the system text."""
        found = Conversation()
        if isinstance(body.get("instructions"), str):
            found.system.append(body["instructions"])
        given = body.get("input")
        for item in [{"role": "user", "content": given}] if isinstance(given, str) else given or []:
            if not isinstance(item, dict):
                raise BadRequestError("an input item is no object")
            _add(found, item)
        return found.talk(list(_names(body.get("tools") or [])))

    def collector(self, *, streamed: bool) -> ResponseCollector:
        """For one answer."""
        return ResponseCollector(streamed=streamed)

    def error(self, status: int, message: str) -> dict[str, Any]:
        """As the provider words it."""
        kind = "server_error" if status >= 500 else "invalid_request_error"
        return {"error": {"message": message, "type": kind, "param": None, "code": None}}


def _own_tools(given: list[Any], stripped: Counter[str]) -> list[Any]:
    kept = []
    for tool in given:
        if not isinstance(tool, dict) or tool.get("type") not in _OWN_TOOLS:
            stripped[STRIPPED_TOOL] += 1
        elif tool.get("type") == "namespace" and isinstance(tool.get("tools"), list):
            kept.append({**tool, "tools": _own_tools(tool["tools"], stripped)})
        else:
            kept.append(tool)
    return kept


def _names(tools: list[Any], before: str = "") -> list[str]:
    names = []
    for tool in tools:
        if not isinstance(tool, dict):
            continue
        name = f"{before}{tool.get('name') or tool.get('type')}"
        names.append(name)
        if tool.get("type") == "namespace" and isinstance(tool.get("tools"), list):
            names += _names(tool["tools"], f"{name}{_IN}")
    return names


def _without_remote(value: Any, stripped: Counter[str]) -> Any:
    """The same item, with what the provider would fetch, or has in store, named in words instead."""
    if isinstance(value, list):
        return [_without_remote(item, stripped) for item in value]
    if not isinstance(value, dict):
        return value
    kind = value.get("type")
    if kind == "item_reference":
        raise BadRequestError("an input item is only referred to: every request must hold its whole conversation")
    address = value.get("image_url") if kind in ("input_image", "computer_screenshot") else value.get("file_url")
    remote = isinstance(address, str) and not address.startswith("data:")
    if kind in ("input_image", "input_file", "computer_screenshot") and (remote or value.get("file_id")):
        stripped[STRIPPED_MEDIA] += 1
        return {"type": "input_text", "text": f"[{kind} left out: only inline data is passed on]"}
    return {
        name: _without_remote(item, stripped) if name in ("content", "output") else item for name, item in value.items()
    }


def _add(found: Conversation, item: dict[str, Any]) -> None:
    kind, role = item.get("type", "message"), item.get("role")
    if kind in _CALLS:
        found.said("", [_use(item)])
    elif kind in _OUTPUTS:
        text = texts_of(item.get("output"), _TEXTS)
        found.results([ToolResult(id=str(item.get("call_id", item.get("id", ""))), text=text)])
    elif kind == "message" and role in ("developer", "system"):
        found.system.append(texts_of(item.get("content"), _TEXTS))
    elif kind == "message" and role == "assistant":
        found.said(texts_of(item.get("content"), _TEXTS))
    elif kind == "message":
        found.asked(texts_of(item.get("content"), _TEXTS))


def _use(item: dict[str, Any]) -> ToolUse:
    kind = str(item.get("type"))
    written = item.get(_CALLS[kind])
    if kind == "custom_tool_call":  # free text by its nature
        arguments: dict[str, Any] | None = {"input": written}
        raw = ""
    else:
        arguments, raw = arguments_of(written)
    name = str(item.get("name") or kind.removesuffix("_call"))
    space = item.get("namespace")
    return ToolUse(
        id=str(item.get("call_id", item.get("id", ""))),
        name=f"{space}{_IN}{name}" if isinstance(space, str) and space else name,
        arguments=arguments,
        raw_arguments=raw,
    )


class ResponseCollector:
    """One response, streamed or whole."""

    def __init__(self, *, streamed: bool) -> None:
        self._events = Events() if streamed else None
        self._whole = bytearray()
        self._items: list[dict[str, Any]] = []
        self._response: dict[str, Any] = {}
        self.finished = False
        self.failure = ""

    def feed(self, data: bytes) -> None:
        """Take the next bytes."""
        if self._events is None:
            self._whole += data
            return
        for event in self._events.feed(data):
            kind = event.get("type")
            if kind == "response.output_item.done" and isinstance(event.get("item"), dict):
                self._items.append(event["item"])
            elif kind in ("response.completed", "response.incomplete", "response.failed"):
                self._end(event.get("response") if isinstance(event.get("response"), dict) else {})
                if kind == "response.failed":
                    self.failure = self.failure or "it sent an error"
            elif kind == "error":
                self.failure = str(event.get("message") or "it sent an error")

    def end(self) -> None:
        """No more comes."""
        response = parsed(bytes(self._whole)) if self._events is None else None
        if response is not None and "output" in response:
            self._end(response)

    def _end(self, response: dict[str, Any] | None) -> None:
        self._response = response or {}
        self.finished = True
        error = self._response.get("error")
        if isinstance(error, dict):
            self.failure = str(error.get("message") or "it sent an error")

    def reply(self) -> ChatReply | None:
        """The response in the words of no provider."""
        if not self.finished or self.failure:
            return None
        given = self._items or [item for item in self._response.get("output") or [] if isinstance(item, dict)]
        texts, uses, refused = [], [], False
        for item in given:
            if item.get("type") in _CALLS:
                uses.append(_use(item))
            elif item.get("type") == "message":
                parts = [part for part in item.get("content") or [] if isinstance(part, dict)]
                refused = refused or any(part.get("type") == "refusal" for part in parts)
                texts.append("".join(str(part.get("text", part.get("refusal", ""))) for part in parts))
        why = (self._response.get("incomplete_details") or {}).get("reason")
        if refused or why == "content_filter":
            finish = Finish.REFUSAL
        elif self._response.get("status") == "incomplete":
            finish = Finish.LENGTH
        else:
            finish = Finish.TOOL_USE if uses else Finish.STOP
        model = self._response.get("model")
        return ChatReply(
            text="\n\n".join(text for text in texts if text),
            tool_uses=tuple(uses),
            finish=finish,
            usage=_tokens(self._response.get("usage")),
            model=model if isinstance(model, str) else "",
        )


def _tokens(usage: Any) -> TokenUsage | None:
    if not isinstance(usage, dict):
        return None
    read, said = count_or_none(usage.get("input_tokens")), count_or_none(usage.get("output_tokens"))
    if read is None or said is None:
        return None
    cached = count_or_none((usage.get("input_tokens_details") or {}).get("cached_tokens")) or 0
    return TokenUsage(input_tokens=read, output_tokens=said, cached_tokens=cached)
