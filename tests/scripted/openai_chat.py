"""The dialect ``openai``: chat completions, with one choice and function tools."""

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
from tests.scripted.values import DialectName, Json, Message, Reply, Request, ToolCall, ToolResult, Usage

_FINISH = {
    "stop": "stop",
    "tool_use": "tool_calls",
    "length": "length",
    "refusal": "stop",
    "content_filter": "content_filter",
}
_ERRORS = {
    401: ("invalid_request_error", "invalid_api_key"),
    403: ("invalid_request_error", "insufficient_permissions"),
    404: ("invalid_request_error", "model_not_found"),
    413: ("invalid_request_error", "request_too_large"),
    429: ("requests", "rate_limit_exceeded"),
}
_NOT_SPOKEN = {
    "functions": "use 'tools'",
    "function_call": "use 'tool_choice'",
    "audio": "this server speaks text",
}
_FIRST_SECOND = 1_700_000_000
_DONE = b"data: [DONE]\n\n"


class OpenAIChat:
    """Reads and writes ``POST /v1/chat/completions``, as strictly as the provider itself, not as compatible servers."""

    name: DialectName = "openai"
    request_id_header = "x-request-id"

    def parse(self, body: Mapping[str, Json], headers: Mapping[str, str], *, counting: bool = False) -> Parsed:
        """Read a body; ``headers`` and ``counting`` play no part.

        Raises:
            BadRequestError: The provider would refuse it.
        """
        for name, advice in _NOT_SPOKEN.items():
            if name in body:
                raise BadRequestError(f"{name}: not spoken by this server; {advice}", name)
        if body.get("n", 1) not in (None, 1):
            raise BadRequestError("n: this server gives one choice", "n")
        stream = a_flag(body.get("stream"), "stream")
        options = body.get("stream_options")
        if options is not None:
            if not stream:
                raise BadRequestError("stream_options: only allowed when 'stream' is true", "stream_options")
            a_flag(an_object(options, "stream_options").get("include_usage"), "stream_options.include_usage")
        system, messages = _conversation(a_list(body.get("messages"), "messages"))
        tools = _tools(body)
        return Parsed(
            model=a_text(body.get("model"), "model"),
            system=system,
            messages=messages,
            tools=tools,
            schema=_schema(body),
            stream=stream,
            max_tokens=_max_tokens(body),
        )

    def reply(self, request: Request, reply: Reply) -> Json:
        """Return the completion."""
        refused = reply.finish_word == "refusal"
        message: dict[str, Json] = {
            "role": "assistant",
            "content": None if refused or (reply.tool_calls and not reply.text) else reply.text,
            "refusal": reply.text if refused else None,
            "annotations": [],
        }
        if reply.tool_calls:
            message["tool_calls"] = [
                {
                    "id": _call_id(request, number, call),
                    "type": "function",
                    "function": {"name": call.name, "arguments": call.arguments_text},
                }
                for number, call in enumerate(reply.tool_calls)
            ]
        choice = {"index": 0, "message": message, "logprobs": None, "finish_reason": _FINISH[reply.finish_word]}
        usage = reply.usage_for(request)
        return {
            **_envelope(request, reply, "chat.completion"),
            "choices": [choice],
            **({} if usage is None else {"usage": _usage(usage)}),
        }

    def events(self, request: Request, reply: Reply) -> list[bytes]:
        """Return the chunks, the one with the usage if it was asked for, and the end mark."""
        field = "refusal" if reply.finish_word == "refusal" else "content"
        deltas: list[dict[str, Json]] = [
            {"role": "assistant", "content": None if reply.tool_calls and not reply.text else "", "refusal": None}
        ]
        deltas += [{field: piece} for piece in pieces(reply.text)]
        for number, call in enumerate(reply.tool_calls):
            head = {"name": call.name, "arguments": ""}
            start = {"index": number, "id": _call_id(request, number, call), "type": "function", "function": head}
            deltas.append({"tool_calls": [start]})
            deltas += [
                {"tool_calls": [{"index": number, "function": {"arguments": piece}}]}
                for piece in pieces(call.arguments_text)
            ]
        choices = [_choice(delta, None) for delta in deltas]
        choices.append(_choice({}, _FINISH[reply.finish_word]))
        usage = reply.usage_for(request) if _wants_usage(request) else None
        between = {} if usage is None else {"usage": None}
        envelope = _envelope(request, reply, "chat.completion.chunk")
        chunks = [event({**envelope, "choices": [choice], **between}) for choice in choices]
        if usage is not None:
            chunks.append(event({**envelope, "choices": [], "usage": _usage(usage)}))
        return [*chunks, _DONE]

    def endless_events(self, request: Request, text: str) -> Iterator[bytes]:
        """Yield a first chunk and then chunks of ``text``."""
        envelope = _envelope(request, Reply(), "chat.completion.chunk")
        yield event({**envelope, "choices": [_choice({"role": "assistant", "content": ""}, None)]})
        chunk = event({**envelope, "choices": [_choice({"content": text}, None)]})
        while True:
            yield chunk

    def error(self, request_id: str, error: HttpError) -> Json:
        """Return the error body; the request id travels in its header only."""
        otherwise = ("server_error" if error.status >= 500 else "invalid_request_error", None)
        kind, code = _ERRORS.get(error.status, otherwise)
        return {
            "error": {
                "message": error.message,
                "type": error.type or kind,
                "param": error.param,
                "code": error.code or code,
            }
        }

    def error_event(self, request_id: str, error: HttpError) -> bytes:
        """Return the error as a chunk."""
        return event(self.error(request_id, error))

    def models(self, ids: Sequence[str]) -> Json:
        """Return the list of models."""
        return {"object": "list", "data": [self.model(name) for name in ids]}

    def model(self, name: str) -> Json:
        """Return one model."""
        return {"id": name, "object": "model", "created": _FIRST_SECOND, "owned_by": "scripted"}


def _envelope(request: Request, reply: Reply, kind: str) -> dict[str, Json]:
    return {
        "id": f"chatcmpl-{request.derive('completion')}",
        "object": kind,
        "created": _FIRST_SECOND + int(request.derive("created", 6), 16),
        "model": reply.model or request.model,
        "service_tier": "default",
        "system_fingerprint": "fp_scripted",
    }


def _choice(delta: Mapping[str, Json], finish: str | None) -> Json:
    return {"index": 0, "delta": delta, "logprobs": None, "finish_reason": finish}


def _call_id(request: Request, number: int, call: ToolCall) -> str:
    return call.id or f"call_{request.derive(f'call {number}')}"


def _usage(usage: Usage) -> Json:
    return {
        "prompt_tokens": usage.input_tokens,
        "completion_tokens": usage.output_tokens,
        "total_tokens": usage.input_tokens + usage.output_tokens,
        "prompt_tokens_details": {"cached_tokens": usage.cache_read_tokens},
        "completion_tokens_details": {"reasoning_tokens": 0},
    }


def _wants_usage(request: Request) -> bool:
    return bool((request.body.get("stream_options") or {}).get("include_usage"))


def _max_tokens(body: Mapping[str, Json]) -> int | None:
    given = [name for name in ("max_completion_tokens", "max_tokens") if body.get(name) is not None]
    if len(given) == 2:
        raise BadRequestError("max_tokens: not together with 'max_completion_tokens'", "max_tokens")
    return a_count(body[given[0]], given[0], least=1) if given else None


def _tools(body: Mapping[str, Json]) -> dict[str, Mapping[str, Json]]:
    tools: dict[str, Mapping[str, Json]] = {}
    if "tools" not in body:
        for name in ("tool_choice", "parallel_tool_calls"):
            if name in body:
                raise BadRequestError(f"{name}: only allowed when 'tools' are given", name)
        return tools
    for number, item in enumerate(a_list(body["tools"], "tools")):
        where = f"tools.{number}"
        tool = an_object(item, where)
        if tool.get("type") != "function":
            raise BadRequestError(f"{where}.type: this server speaks function tools only", f"{where}.type")
        function = an_object(tool.get("function"), f"{where}.function")
        name = a_name(function.get("name"), f"{where}.function.name", longest=64)
        if name in tools:
            raise BadRequestError(f"{where}.function.name: {name!r} is there twice", f"{where}.function.name")
        schema = an_object(function.get("parameters", {}), f"{where}.function.parameters")
        if schema and schema.get("type") != "object":
            raise BadRequestError(f"{where}.function.parameters: the schema's type must be 'object'", "tools")
        if a_flag(function.get("strict"), f"{where}.function.strict"):
            check_strict_schema(schema, f"{where}.function.parameters", all_required=True)
        tools[name] = schema
    return tools


def _schema(body: Mapping[str, Json]) -> Mapping[str, Json] | None:
    asked = body.get("response_format")
    if asked is None:
        return None
    kind = an_object(asked, "response_format").get("type")
    if kind == "text":
        return None
    if kind == "json_object":
        if "json" not in json.dumps(body["messages"], ensure_ascii=False).lower():
            raise BadRequestError(
                "messages: a response_format of json_object asks for the word 'json' in them", "messages"
            )
        return {"type": "object"}
    if kind == "json_schema":
        where = "response_format.json_schema"
        described = an_object(asked.get("json_schema"), where)
        a_name(described.get("name"), f"{where}.name", longest=64)
        schema = an_object(described.get("schema"), f"{where}.schema")
        if a_flag(described.get("strict"), f"{where}.strict"):
            if schema.get("type") != "object":
                raise BadRequestError(f"{where}.schema: an enforced schema's type must be 'object'", "response_format")
            check_strict_schema(schema, f"{where}.schema", all_required=True)
        return schema
    raise BadRequestError(f"response_format.type: {kind!r} is not known", "response_format.type")


def _conversation(raw: Sequence[Json]) -> tuple[str, tuple[Message, ...]]:
    system: list[str] = []
    messages: list[Message] = []
    results: list[ToolResult] = []
    awaited: set[str] = set()
    for number, item in enumerate(raw):
        where = f"messages.{number}"
        message = an_object(item, where)
        role = message.get("role")
        if role == "tool":
            results.append(_result(message, where, awaited))
            awaited.remove(results[-1].id)
            if not awaited:
                messages.append(Message("tool", tool_results=tuple(results)))
                results = []
            continue
        if awaited:
            raise BadRequestError(f"{where}: tool messages for {sorted(awaited)} must come first", where)
        if role in ("system", "developer"):
            system.append(_text(message.get("content"), f"{where}.content"))
        elif role == "user":
            messages.append(Message("user", _text(message.get("content"), f"{where}.content")))
        elif role == "assistant":
            messages.append(_assistant(message, where))
            awaited = {call.id for call in messages[-1].tool_calls}
        else:
            raise BadRequestError(f"{where}.role: {role!r} is not known", f"{where}.role")
    if awaited:
        raise BadRequestError(f"messages: the tool calls {sorted(awaited)} have no tool message", "messages")
    if not messages:
        raise BadRequestError("messages: this server asks for one that is not a system message", "messages")
    return "\n\n".join(system), tuple(messages)


def _result(message: Mapping[str, Json], where: str, awaited: set[str]) -> ToolResult:
    call_id = a_text(message.get("tool_call_id"), f"{where}.tool_call_id")
    if call_id not in awaited:
        raise BadRequestError(f"{where}: no tool call {call_id!r} right before waits for it", where)
    return ToolResult(call_id, _text(message.get("content"), f"{where}.content"))


def _assistant(message: Mapping[str, Json], where: str) -> Message:
    calls = _calls(message["tool_calls"], f"{where}.tool_calls") if "tool_calls" in message else ()
    content = message.get("content")
    if content is None:
        if not calls and message.get("refusal") is None:
            raise BadRequestError(f"{where}.content: required without tool calls", f"{where}.content")
        content = message.get("refusal") or ""
    return Message("assistant", _text(content, f"{where}.content"), calls)


def _calls(raw: Json, where: str) -> tuple[ToolCall, ...]:
    calls: list[ToolCall] = []
    for number, item in enumerate(a_list(raw, where)):
        place = f"{where}.{number}"
        call = an_object(item, place)
        if call.get("type") != "function":
            raise BadRequestError(f"{place}.type: this server speaks function calls only", f"{place}.type")
        function = an_object(call.get("function"), f"{place}.function")
        name = a_text(function.get("name"), f"{place}.function.name")
        written = a_text(function.get("arguments"), f"{place}.function.arguments", empty=True)
        call_id = a_text(call.get("id"), f"{place}.id")
        if any(call_id == other.id for other in calls):
            raise BadRequestError(f"{place}.id: {call_id!r} is there twice", f"{place}.id")
        calls.append(ToolCall(name, _arguments(written), call_id))
    return tuple(calls)


def _arguments(written: str) -> Mapping[str, Json] | str:
    try:
        arguments = json.loads(written)
    except (ValueError, RecursionError):
        return written
    return arguments if isinstance(arguments, dict) else written


def _text(content: Json, where: str) -> str:
    if isinstance(content, str):
        return content
    texts: list[str] = []
    for number, item in enumerate(a_list(content, where)):
        part = an_object(item, f"{where}.{number}")
        kind = a_text(part.get("type"), f"{where}.{number}.type")
        if kind in ("text", "refusal"):
            texts.append(a_text(part.get(kind), f"{where}.{number}.{kind}", empty=True))
        else:
            texts.append(f"[{kind}]")
    return "\n".join(texts)
