"""OpenAI Chat Completions: what most other agent programs speak."""

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

_TEXTS = ("text", "refusal")
_FINISH = {
    "stop": Finish.STOP,
    "tool_calls": Finish.TOOL_USE,
    "function_call": Finish.TOOL_USE,
    "length": Finish.LENGTH,
    "content_filter": Finish.REFUSAL,
}


class ChatCompletions:
    """``POST /v1/chat/completions``, with one choice."""

    name = DialectName.CHAT
    path = "/v1/chat/completions"
    upstream = "/chat/completions"
    final_status = 400

    def prepare(self, body: dict[str, Any], model: str) -> Prepared:
        """Without tools that the provider runs and media that it fetches; a stream is asked to say its tokens."""
        require_model(body, model)
        if body.get("n") not in (None, 1):
            raise BadRequestError("n must be 1: a run has one conversation")
        out, stripped = dict(body), Counter[str]()
        for name in ("web_search_options", "store"):
            if out.pop(name, None):
                stripped[STRIPPED_FIELD] += 1
        given = out.get("tools")
        if isinstance(given, list):
            tools = [t for t in given if isinstance(t, dict) and t.get("type") in ("function", "custom")]
            stripped[STRIPPED_TOOL] += len(given) - len(tools)
            out["tools"] = tools
            if not tools:
                for name in ("tools", "tool_choice", "parallel_tool_calls"):
                    out.pop(name, None)
        if isinstance(out.get("messages"), list):
            out["messages"] = [_without_remote(message, stripped) for message in out["messages"]]
        for name in ("max_tokens", "max_completion_tokens"):
            most = out.get(name)
            if isinstance(most, int) and most > LARGEST_OUTPUT:
                out[name] = LARGEST_OUTPUT
        streamed = body.get("stream") is True
        if streamed:
            options = out.get("stream_options")
            out["stream_options"] = {**(options if isinstance(options, dict) else {}), "include_usage": True}
        return Prepared(out, streamed, +stripped)

    def talk(self, body: dict[str, Any]) -> Talk:
        """The conversation; developer and system messages belong to the system text."""
        found = Conversation()
        for message in body.get("messages") or []:
            if not isinstance(message, dict):
                raise BadRequestError("a message is no object")
            role, text = message.get("role"), texts_of(message.get("content"), _TEXTS)
            if role in ("system", "developer"):
                found.system.append(text)
            elif role == "assistant":
                found.said(text, [_use(call) for call in message.get("tool_calls") or [] if isinstance(call, dict)])
            elif role == "tool":
                found.results([ToolResult(id=str(message.get("tool_call_id", "")), text=text)])
            else:
                found.asked(text)
        names = [
            str((tool.get("function") or tool.get("custom") or {}).get("name"))
            for tool in body.get("tools") or []
            if isinstance(tool, dict)
        ]
        return found.talk(names)

    def collector(self, *, streamed: bool) -> CompletionCollector:
        """For one answer."""
        return CompletionCollector(streamed=streamed)

    def error(self, status: int, message: str) -> dict[str, Any]:
        """As the provider words it."""
        kind = "server_error" if status >= 500 else "invalid_request_error"
        return {"error": {"message": message, "type": kind, "param": None, "code": None}}


def _without_remote(message: Any, stripped: Counter[str]) -> Any:
    if not isinstance(message, dict) or not isinstance(message.get("content"), list):
        return message
    parts: list[Any] = []
    for part in message["content"]:
        kind = part.get("type") if isinstance(part, dict) else None
        image = part.get("image_url") if kind == "image_url" else None
        address = image.get("url") if isinstance(image, dict) else image
        file = part.get("file") if kind == "file" else None
        stored = isinstance(file, dict) and file.get("file_id") is not None
        if (kind == "image_url" and not str(address).startswith("data:")) or stored:
            stripped[STRIPPED_MEDIA] += 1
            parts.append({"type": "text", "text": f"[{kind} left out: only inline data is passed on]"})
        else:
            parts.append(part)
    return {**message, "content": parts}


def _use(call: dict[str, Any]) -> ToolUse:
    free = call.get("custom") if call.get("type") == "custom" else None
    if isinstance(free, dict):
        return ToolUse(
            id=str(call.get("id", "")), name=str(free.get("name", "")), arguments={"input": free.get("input", "")}
        )
    function = call.get("function")
    function = function if isinstance(function, dict) else {}
    arguments, raw = arguments_of(function.get("arguments"))
    return ToolUse(
        id=str(call.get("id", "")), name=str(function.get("name", "")), arguments=arguments, raw_arguments=raw
    )


class CompletionCollector:
    """One completion, streamed or whole."""

    def __init__(self, *, streamed: bool) -> None:
        self._events = Events() if streamed else None
        self._whole = bytearray()
        self._texts: list[str] = []
        self._calls: dict[int, dict[str, Any]] = {}
        self._finish: str | None = None
        self._refused = False
        self._usage: Any = None
        self._model = ""
        self.finished = False
        self.failure = ""

    def feed(self, data: bytes) -> None:
        """Take the next bytes."""
        if self._events is None:
            self._whole += data
            return
        for event in self._events.feed(data):
            if isinstance(event.get("error"), dict):
                self.failure = str(event["error"].get("message") or "it sent an error")
            else:
                self._take(event, "delta")
        self.finished = self.finished or self._events.done

    def end(self) -> None:
        """No more comes. A server that ends without the marker has at least said why the model stopped."""
        completion = parsed(bytes(self._whole)) if self._events is None else None
        if completion is not None and completion.get("choices"):
            self._take(completion, "message")
        self.finished = self.finished or self._finish is not None

    def _take(self, event: dict[str, Any], field: str) -> None:
        if isinstance(event.get("usage"), dict):
            self._usage = event["usage"]
        self._model = event["model"] if isinstance(event.get("model"), str) else self._model
        for choice in event.get("choices") or []:
            said = choice.get(field) if isinstance(choice, dict) else None
            if not isinstance(said, dict):
                continue
            self._finish = choice.get("finish_reason") or self._finish
            if isinstance(said.get("refusal"), str) and said["refusal"]:
                self._refused = True
                self._texts.append(said["refusal"])
            if isinstance(said.get("content"), str):
                self._texts.append(said["content"])
            for position, call in enumerate(said.get("tool_calls") or []):
                if isinstance(call, dict):
                    self._add_call(int(call.get("index", position)), call)

    def _add_call(self, index: int, call: dict[str, Any]) -> None:
        held = self._calls.setdefault(index, {"id": "", "type": "function", "function": {"name": "", "arguments": ""}})
        held["id"] = call.get("id") or held["id"]
        if call.get("type") == "custom":
            held.update({"type": "custom", "custom": call.get("custom")})
        function = call.get("function")
        if isinstance(function, dict):
            held["function"]["name"] += str(function.get("name") or "")
            held["function"]["arguments"] += str(function.get("arguments") or "")

    def reply(self) -> ChatReply | None:
        """The completion in the words of no provider."""
        if not self.finished or self.failure or self._finish is None:
            return None
        uses = tuple(_use(call) for _, call in sorted(self._calls.items()))
        finish = _FINISH.get(self._finish, Finish.OTHER)
        if self._refused:
            finish = Finish.REFUSAL
        elif uses and finish in (Finish.STOP, Finish.OTHER):
            finish = Finish.TOOL_USE
        elif finish is Finish.TOOL_USE and not uses:
            finish = Finish.STOP
        return ChatReply(
            text="".join(self._texts), tool_uses=uses, finish=finish, usage=_tokens(self._usage), model=self._model
        )


def _tokens(usage: Any) -> TokenUsage | None:
    if not isinstance(usage, dict):
        return None
    read, said = count_or_none(usage.get("prompt_tokens")), count_or_none(usage.get("completion_tokens"))
    if read is None or said is None:
        return None
    cached = count_or_none((usage.get("prompt_tokens_details") or {}).get("cached_tokens")) or 0
    return TokenUsage(input_tokens=read, output_tokens=said, cached_tokens=cached)
