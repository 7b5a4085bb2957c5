"""The dialect ``responses``: OpenAI Responses with function tools, the whole conversation in every request."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence

from tests.scripted.dialect import (
    BadRequestError,
    Parsed,
    a_count,
    a_flag,
    a_list,
    a_name,
    a_text,
    an_object,
    check_strict_schema,
    event,
    pieces,
)
from tests.scripted.faults import HttpError
from tests.scripted.openai_chat import OpenAIChat
from tests.scripted.values import DialectName, Json, Message, Reply, Request, ToolCall, ToolResult, Usage

_FIRST_SECOND = 1_700_000_000
_TEXTS = frozenset({"input_text", "output_text", "text", "refusal"})
_OUTPUT_KINDS = frozenset({"function_call_output", "custom_tool_call_output"})


class OpenAIResponses:
    """Reads and writes ``POST /v1/responses``. State at the provider (``previous_response_id``) is not spoken."""

    name: DialectName = "responses"
    request_id_header = "x-request-id"

    def parse(self, body: Mapping[str, Json], headers: Mapping[str, str], *, counting: bool = False) -> Parsed:
        """Read a body; ``headers`` and ``counting`` play no part.

        Raises:
            BadRequestError: The provider would refuse it.
        """
        for name in ("previous_response_id", "conversation", "prompt", "messages"):
            if body.get(name) is not None:
                raise BadRequestError(f"{name}: not spoken by this server", name)
        system, messages = _conversation(body)
        limit = body.get("max_output_tokens")
        return Parsed(
            model=a_text(body.get("model"), "model"),
            system=system,
            messages=messages,
            tools=_tools(body.get("tools") or [], "tools"),
            schema=_schema(body),
            stream=a_flag(body.get("stream"), "stream"),
            max_tokens=None if limit is None else a_count(limit, "max_output_tokens", least=16),
        )

    def reply(self, request: Request, reply: Reply) -> Json:
        """Return the response."""
        return _response(request, reply, _items(request, reply))

    def events(self, request: Request, reply: Reply) -> list[bytes]:
        """Return the events from ``response.created`` to the one that ends it."""
        numbered = _Numbered()
        items = _items(request, reply)
        begun = {**_response(request, reply, []), "status": "in_progress", "usage": None, "incomplete_details": None}
        events = [numbered("response.created", response=begun), numbered("response.in_progress", response=begun)]
        for index, item in enumerate(items):
            empty = {**item, "status": "in_progress"}
            if item["type"] == "message":
                empty["content"] = []
            else:
                empty["arguments"] = ""
            events.append(numbered("response.output_item.added", output_index=index, item=empty))
            events += _deltas(numbered, index, item)
            events.append(numbered("response.output_item.done", output_index=index, item=item))
        ending = "response.incomplete" if _incomplete(reply) else "response.completed"
        events.append(numbered(ending, response=_response(request, reply, items)))
        return events

    def endless_events(self, request: Request, text: str) -> Iterator[bytes]:
        """Yield the beginning of a message and then deltas of ``text``."""
        yield from self.events(request, Reply("begin"))[:4]
        number = 4
        while True:
            fields = {"item_id": _message_id(request), "output_index": 0, "content_index": 0, "delta": text}
            yield event(
                {"type": "response.output_text.delta", **fields, "sequence_number": number},
                "response.output_text.delta",
            )
            number += 1

    def error(self, request_id: str, error: HttpError) -> Json:
        """Return the error body, which is that of the other OpenAI protocol."""
        return OpenAIChat().error(request_id, error)

    def error_event(self, request_id: str, error: HttpError) -> bytes:
        """Return the event ``error``."""
        fields = self.error(request_id, error)["error"]
        return event({"type": "error", **fields, "sequence_number": 0}, "error")

    def models(self, ids: Sequence[str]) -> Json:
        """Return the list of models."""
        return OpenAIChat().models(ids)

    def model(self, name: str) -> Json:
        """Return one model."""
        return OpenAIChat().model(name)


class _Numbered:
    """Makes events that carry their number."""

    def __init__(self) -> None:
        self._next = 0

    def __call__(self, kind: str, **fields: Json) -> bytes:
        number, self._next = self._next, self._next + 1
        return event({"type": kind, "sequence_number": number, **fields}, kind)


def _deltas(numbered: _Numbered, index: int, item: Mapping[str, Json]) -> list[bytes]:
    if item["type"] == "function_call":
        fields = {"item_id": item["id"], "output_index": index}
        found = [
            numbered("response.function_call_arguments.delta", **fields, delta=piece)
            for piece in pieces(item["arguments"])
        ]
        return [*found, numbered("response.function_call_arguments.done", **fields, arguments=item["arguments"])]
    (part,) = item["content"]
    kind, text = ("refusal", part["refusal"]) if part["type"] == "refusal" else ("output_text", part["text"])
    fields = {"item_id": item["id"], "output_index": index, "content_index": 0}
    empty = {**part, kind if kind == "refusal" else "text": ""}
    return [
        numbered("response.content_part.added", **fields, part=empty),
        *(numbered(f"response.{kind}.delta", **fields, delta=piece) for piece in pieces(text)),
        numbered(f"response.{kind}.done", **fields, **{"refusal" if kind == "refusal" else "text": text}),
        numbered("response.content_part.done", **fields, part=part),
    ]


def _incomplete(reply: Reply) -> str | None:
    return {"length": "max_output_tokens", "content_filter": "content_filter"}.get(reply.finish_word)


def _message_id(request: Request) -> str:
    return f"msg_{request.derive('message')}"


def _items(request: Request, reply: Reply) -> list[dict[str, Json]]:
    items: list[dict[str, Json]] = []
    if reply.text or not reply.tool_calls:
        refused = reply.finish_word == "refusal"
        text: Json = {"type": "output_text", "text": reply.text, "annotations": [], "logprobs": []}
        part = {"type": "refusal", "refusal": reply.text} if refused else text
        head = {"id": _message_id(request), "type": "message", "role": "assistant"}
        items.append({**head, "status": "completed", "content": [part]})
    for number, call in enumerate(reply.tool_calls):
        items.append(
            {
                "id": f"fc_{request.derive(f'item {number}')}",
                "type": "function_call",
                "status": "completed",
                "call_id": call.id or f"call_{request.derive(f'call {number}')}",
                **_named(request, call.name),
                "arguments": call.arguments_text,
            }
        )
    return items


def _named(request: Request, name: str) -> dict[str, Json]:
    """The name of a tool, and its namespace where the request offers it in one."""
    for tool in request.body.get("tools") or []:
        space = tool.get("name")
        if tool.get("type") == "namespace" and name.startswith(f"{space}__"):
            return {"namespace": space, "name": name.removeprefix(f"{space}__")}
    return {"name": name}


def _response(request: Request, reply: Reply, items: list[dict[str, Json]]) -> dict[str, Json]:
    why = _incomplete(reply)
    usage = reply.usage_for(request)
    return {
        "id": f"resp_{request.derive('response')}",
        "object": "response",
        "created_at": _FIRST_SECOND + int(request.derive("created", 6), 16),
        "status": "incomplete" if why else "completed",
        "error": None,
        "incomplete_details": {"reason": why} if why else None,
        "instructions": request.body.get("instructions"),
        "model": reply.model or request.model,
        "output": items,
        "parallel_tool_calls": True,
        "tool_choice": request.body.get("tool_choice", "auto"),
        "tools": request.body.get("tools") or [],
        "usage": None if usage is None else _usage(usage),
    }


def _usage(usage: Usage) -> Json:
    return {
        "input_tokens": usage.input_tokens,
        "input_tokens_details": {"cached_tokens": usage.cache_read_tokens},
        "output_tokens": usage.output_tokens,
        "output_tokens_details": {"reasoning_tokens": 0},
        "total_tokens": usage.input_tokens + usage.output_tokens,
    }


def _tools(given: Json, where: str) -> dict[str, Mapping[str, Json]]:
    """Name -> schema. The tools of a namespace count by its name and theirs; tools without a schema have an empty one."""
    tools: dict[str, Mapping[str, Json]] = {}
    if not isinstance(given, list):
        raise BadRequestError(f"{where}: expected a list", where)
    for number, item in enumerate(given):
        place = f"{where}.{number}"
        tool = an_object(item, place)
        kind = a_text(tool.get("type"), f"{place}.type")
        if kind == "namespace":
            name = a_name(tool.get("name"), f"{place}.name", longest=128)
            tools |= {
                f"{name}__{inner}": schema for inner, schema in _tools(tool.get("tools"), f"{place}.tools").items()
            }
            continue
        if kind not in ("function", "custom"):
            tools[kind] = {}
            continue
        name = a_name(tool.get("name"), f"{place}.name", longest=128)
        if name in tools:
            raise BadRequestError(f"{place}.name: {name!r} is there twice", place)
        schema = an_object(tool.get("parameters") or {}, f"{place}.parameters")
        if schema and schema.get("type") != "object":
            raise BadRequestError(f"{place}.parameters: the schema's type must be 'object'", place)
        if a_flag(tool.get("strict"), f"{place}.strict"):
            check_strict_schema(schema, f"{place}.parameters", all_required=True)
        tools[name] = schema
    return tools


def _schema(body: Mapping[str, Json]) -> Mapping[str, Json] | None:
    asked = an_object(body.get("text") or {}, "text").get("format")
    if asked is None or an_object(asked, "text.format").get("type") == "text":
        return None
    if asked.get("type") == "json_object":
        return {"type": "object"}
    if asked.get("type") != "json_schema":
        raise BadRequestError(f"text.format.type: {asked.get('type')!r} is not known", "text.format.type")
    a_name(asked.get("name"), "text.format.name", longest=64)
    schema = an_object(asked.get("schema"), "text.format.schema")
    if a_flag(asked.get("strict"), "text.format.strict"):
        check_strict_schema(schema, "text.format.schema", all_required=True)
    return schema


def _conversation(body: Mapping[str, Json]) -> tuple[str, tuple[Message, ...]]:
    given = body.get("input")
    system = [a_text(body["instructions"], "instructions", empty=True)] if body.get("instructions") is not None else []
    items = [{"role": "user", "content": given}] if isinstance(given, str) else a_list(given, "input")
    messages: list[Message] = []
    awaited: dict[str, None] = {}
    results: list[ToolResult] = []
    for number, value in enumerate(items):
        where = f"input.{number}"
        item = an_object(value, where)
        kind = item.get("type", "message")
        if kind in _OUTPUT_KINDS:
            call_id = a_text(item.get("call_id"), f"{where}.call_id")
            if call_id not in awaited:
                raise BadRequestError(f"{where}: no tool call {call_id!r} before waits for it", where)
            del awaited[call_id]
            results.append(ToolResult(call_id, _text(item.get("output"), f"{where}.output")))
            if not awaited:
                messages.append(Message("tool", tool_results=tuple(results)))
                results = []
        elif kind in ("function_call", "custom_tool_call"):
            call = _call(item, where)
            awaited[call.id] = None
            _say(messages, "", (call,))
        elif kind == "message":
            _message(item, where, system, messages)
        elif kind != "reasoning":
            raise BadRequestError(f"{where}.type: {kind!r} is not spoken by this server", where)
    if awaited:
        raise BadRequestError(f"input: no tool output found for the calls {sorted(awaited)}", "input")
    if not messages:
        raise BadRequestError("input: this server asks for a message that is not the developer's", "input")
    return "\n\n".join(system), tuple(messages)


def _message(item: Mapping[str, Json], where: str, system: list[str], messages: list[Message]) -> None:
    role, text = item.get("role"), _text(item.get("content"), f"{where}.content")
    if role in ("system", "developer"):
        system.append(text)
    elif role == "assistant":
        _say(messages, text, ())
    elif role == "user":
        messages.append(Message("user", text))
    else:
        raise BadRequestError(f"{where}.role: {role!r} is not known", where)


def _say(messages: list[Message], text: str, calls: tuple[ToolCall, ...]) -> None:
    """Neighbouring items of the assistant are one message."""
    last = messages[-1] if messages else None
    if last is not None and last.role == "assistant":
        joined = "\n".join(part for part in (last.text, text) if part)
        messages[-1] = Message("assistant", joined, (*last.tool_calls, *calls))
    else:
        messages.append(Message("assistant", text, calls))


def _call(item: Mapping[str, Json], where: str) -> ToolCall:
    name = a_text(item.get("name"), f"{where}.name")
    space = item.get("namespace")
    name = f"{space}__{name}" if isinstance(space, str) else name
    call_id = a_text(item.get("call_id"), f"{where}.call_id")
    if item.get("type") == "custom_tool_call":
        return ToolCall(name, a_text(item.get("input"), f"{where}.input", empty=True), call_id)
    written = a_text(item.get("arguments"), f"{where}.arguments", empty=True)
    try:
        arguments = json.loads(written)
    except (ValueError, RecursionError):
        return ToolCall(name, written, call_id)
    return ToolCall(name, arguments if isinstance(arguments, dict) else written, call_id)


def _text(content: Json, where: str) -> str:
    if isinstance(content, str):
        return content
    texts = []
    for number, item in enumerate(a_list(content, where)):
        part = an_object(item, f"{where}.{number}")
        kind = a_text(part.get("type"), f"{where}.{number}.type")
        value = part.get("refusal") if kind == "refusal" else part.get("text")
        texts.append(a_text(value, f"{where}.{number}", empty=True) if kind in _TEXTS else f"[{kind}]")
    return "\n".join(texts)
