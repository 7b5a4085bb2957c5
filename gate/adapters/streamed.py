"""Replies that come as a stream of events, put together to the body that the same reply has without a stream.

The adapters read one shape only. A stream is asked for where a reply may be long, and after a request was lost on its way:
what keeps a connection busy is not cut for being silent.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from gate.adapters.model_calls import Failed, of_status

STREAM_FROM = 16_384
"""Output tokens from which on a reply is asked for as a stream."""


@dataclass
class Streaming:
    """Whether the next request of a call asks for a stream, and how that becomes a body."""

    on: bool
    assemble: Callable[[Iterator[dict[str, Any]]], dict[str, Any]]
    refused: bool = False
    """The provider has no streams."""

    def body(self, content: bytes) -> dict[str, Any]:
        """The body of a reply from the bytes of its stream. Raises Failed."""
        return self.assemble(events(content))


def events(content: bytes) -> Iterator[dict[str, Any]]:
    """The JSON objects of a stream of server-sent events. Raises Failed for an event that is none."""
    for part in content.replace(b"\r\n", b"\n").split(b"\n\n"):
        lines = [line[5:].strip() for line in part.split(b"\n") if line.startswith(b"data:")]
        data = b"\n".join(lines)
        if not data or data == b"[DONE]":
            continue
        try:
            found = json.loads(data)
        except (ValueError, RecursionError):
            found = None
        if not isinstance(found, dict):
            raise _cut("an event of the stream is not a JSON object")
        if isinstance(found.get("error"), dict) and found.get("object") != "response":
            raise of_status(502, {}, json.dumps({"error": found["error"]}).encode("utf-8", "replace"))
        yield found


def _cut(what: str = "the stream broke off before the reply was complete") -> Failed:
    return Failed("connection", what, retryable=True, maybe_billed=True)


def message(found: Iterator[dict[str, Any]]) -> dict[str, Any]:
    """Of Anthropic messages."""
    body: dict[str, Any] = {}
    blocks: dict[int, dict[str, Any]] = {}
    inputs: dict[int, str] = {}
    ended = False
    for event in found:
        kind, index = event.get("type"), event.get("index", 0)
        if kind == "message_start":
            body = dict(event.get("message") or {})
        elif kind == "content_block_start":
            blocks[index] = dict(event.get("content_block") or {})
        elif kind == "content_block_delta":
            _grow(blocks.setdefault(index, {}), inputs, index, event.get("delta") or {})
        elif kind == "message_delta":
            body |= event.get("delta") or {}
            counted = {name: count for name, count in (event.get("usage") or {}).items() if count is not None}
            if counted or body.get("usage"):
                body["usage"] = {**(body.get("usage") or {}), **counted}
        elif kind == "message_stop":
            ended = True
    if not ended:
        raise _cut()
    for index, text in inputs.items():
        try:
            blocks[index]["input"] = json.loads(text) if text.strip() else {}
        except (ValueError, RecursionError):
            blocks[index]["input"] = text
    return {**body, "content": [blocks[index] for index in sorted(blocks)]}


_GROWING = {"text_delta": "text", "thinking_delta": "thinking", "signature_delta": "signature"}


def _grow(block: dict[str, Any], inputs: dict[int, str], index: int, delta: dict[str, Any]) -> None:
    if delta.get("type") == "input_json_delta":
        inputs[index] = inputs.get(index, "") + str(delta.get("partial_json", ""))
        return
    name = _GROWING.get(str(delta.get("type")))
    if name is not None:
        block[name] = str(block.get(name) or "") + str(delta.get(name, ""))


def completion(found: Iterator[dict[str, Any]]) -> dict[str, Any]:
    """Of OpenAI chat completions, the first choice."""
    body: dict[str, Any] = {}
    said: dict[str, Any] = {"role": "assistant", "content": None}
    calls: dict[int, dict[str, Any]] = {}
    finish: Any = None
    for chunk in found:
        body.setdefault("model", chunk.get("model"))
        if chunk.get("usage") is not None:
            body["usage"] = chunk["usage"]
        for choice in chunk.get("choices") or ():
            if choice.get("index", 0) != 0:
                continue
            delta = choice.get("delta") or {}
            for name in ("content", "refusal"):
                if delta.get(name) is not None:
                    said[name] = (said.get(name) or "") + delta[name]
            for part in delta.get("tool_calls") or ():
                _grow_call(calls, part)
            finish = choice.get("finish_reason") or finish
    if finish is None:
        raise _cut()
    if calls:
        said["tool_calls"] = [calls[index] for index in sorted(calls)]
    return {**body, "choices": [{"index": 0, "message": said, "finish_reason": finish}]}


def _grow_call(calls: dict[int, dict[str, Any]], part: dict[str, Any]) -> None:
    call = calls.setdefault(
        part.get("index", len(calls)), {"type": "function", "function": {"name": "", "arguments": ""}}
    )
    if part.get("id"):
        call["id"] = part["id"]
    function = part.get("function") or {}
    for name in ("name", "arguments"):
        call["function"][name] += function.get(name) or ""


def response(found: Iterator[dict[str, Any]]) -> dict[str, Any]:
    """Of OpenAI Responses: its last event holds the whole."""
    for event in found:
        if event.get("type") == "error":
            raise of_status(502, {}, json.dumps({"error": event}).encode("utf-8", "replace"))
        if event.get("type") in ("response.completed", "response.incomplete", "response.failed"):
            body = event.get("response")
            if isinstance(body, dict):
                return body
    raise _cut()
