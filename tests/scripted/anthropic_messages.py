"""The dialect ``anthropic``: messages, with client tools."""

from __future__ import annotations

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
from tests.scripted.scenarios import ScenarioError
from tests.scripted.values import DialectName, Json, Message, Reply, Request, ToolCall, ToolResult, Usage

_STOP = {
    "stop": "end_turn",
    "tool_use": "tool_use",
    "length": "max_tokens",
    "refusal": "refusal",
    "content_filter": "refusal",
}
_ERRORS = {
    400: "invalid_request_error",
    401: "authentication_error",
    402: "billing_error",
    403: "permission_error",
    404: "not_found_error",
    413: "request_too_large",
    429: "rate_limit_error",
    504: "timeout_error",
    529: "overloaded_error",
}
_WITHOUT_SAMPLING = "2026-10-21"
"""From this API version on, the sampling parameters are refused, and so are documents in assistant messages."""
_THINKING = frozenset({"thinking", "redacted_thinking"})


class AnthropicMessages:
    """Reads and writes ``POST /v1/messages`` and ``/v1/messages/count_tokens``.

    Stricter than the provider in one point: it joins neighbouring messages of one role, and this refuses them, because
    clients of ours are not to rely on it. ``strict_turns=False`` is for command-line agents, which do. Messages with
    the role ``system`` may stand between turns and do not count as one.
    """

    name: DialectName = "anthropic"
    request_id_header = "request-id"

    def __init__(self, *, strict_turns: bool = True) -> None:
        """Choose whether the roles must alternate."""
        self._strict_turns = strict_turns

    def parse(self, body: Mapping[str, Json], headers: Mapping[str, str], *, counting: bool = False) -> Parsed:
        """Read a body; ``max_tokens`` may be absent when it only asks for a count.

        Raises:
            BadRequestError: The provider would refuse it.
        """
        version = headers.get("anthropic-version")
        if not version:
            raise BadRequestError("anthropic-version: header is required")
        if version >= _WITHOUT_SAMPLING:
            for name in ("temperature", "top_p", "top_k"):
                if name in body:
                    raise BadRequestError(f"{name}: not part of API version {version}")
        model = a_text(body.get("model"), "model")
        if counting:
            max_tokens = None
        elif "max_tokens" in body:
            max_tokens = a_count(body["max_tokens"], "max_tokens", least=0)
        else:
            raise BadRequestError("max_tokens: field required")
        tools = _tools(body)
        more_system, messages = self._conversation(a_list(body.get("messages"), "messages"), version)
        return Parsed(
            model=model,
            system="\n\n".join([*_system(body), *more_system]),
            messages=messages,
            tools=tools,
            schema=_schema(body),
            stream=a_flag(body.get("stream"), "stream"),
            max_tokens=max_tokens,
        )

    def reply(self, request: Request, reply: Reply) -> Json:
        """Return the message.

        Raises:
            ScenarioError: The reply calls a tool with arguments that are not an object: this shape cannot say that.
        """
        content: list[Json] = [{"type": "text", "text": reply.text}] if reply.text else []
        for number, call in enumerate(reply.tool_calls):
            if isinstance(call.arguments, str):
                raise ScenarioError(
                    f"the reply calls {call.name!r} with text for arguments; anthropic can say that in a stream only"
                )
            content.append(
                {"type": "tool_use", "id": _call_id(request, number, call), "name": call.name, "input": call.arguments}
            )
        usage = reply.usage_for(request)
        return {
            **_envelope(request, reply),
            "content": content,
            **_ending(reply),
            **({} if usage is None else {"usage": _usage(usage, usage.output_tokens)}),
        }

    def events(self, request: Request, reply: Reply) -> list[bytes]:
        """Return the events from ``message_start`` to ``message_stop``."""
        usage = reply.usage_for(request)
        start = {
            **_envelope(request, reply),
            "content": [],
            "stop_reason": None,
            "stop_sequence": None,
            **({} if usage is None else {"usage": _usage(usage, 1)}),
        }
        events = [_event("message_start", message=start), _event("ping")]
        blocks: list[tuple[Json, list[Json]]] = []
        if reply.text:
            deltas: list[Json] = [{"type": "text_delta", "text": piece} for piece in pieces(reply.text)]
            blocks.append(({"type": "text", "text": ""}, deltas))
        for number, call in enumerate(reply.tool_calls):
            head = {"type": "tool_use", "id": _call_id(request, number, call), "name": call.name, "input": {}}
            written = ["", *pieces(call.arguments_text)]
            blocks.append((head, [{"type": "input_json_delta", "partial_json": piece} for piece in written]))
        for index, (head, deltas) in enumerate(blocks):
            events.append(_event("content_block_start", index=index, content_block=head))
            events += [_event("content_block_delta", index=index, delta=delta) for delta in deltas]
            events.append(_event("content_block_stop", index=index))
        final = {} if usage is None else {"usage": _usage(usage, usage.output_tokens)}
        events.append(_event("message_delta", delta=_ending(reply), **final))
        events.append(_event("message_stop"))
        return events

    def endless_events(self, request: Request, text: str) -> Iterator[bytes]:
        """Yield the start of a message with one text block and then deltas of ``text``."""
        yield from self.events(request, Reply("begin"))[:3]
        delta = _event("content_block_delta", index=0, delta={"type": "text_delta", "text": text})
        while True:
            yield delta

    def error(self, request_id: str, error: HttpError) -> Json:
        """Return the error body."""
        kind = _ERRORS.get(error.status, "api_error" if error.status >= 500 else "invalid_request_error")
        return {
            "type": "error",
            "error": {"type": error.type or kind, "message": error.message},
            "request_id": request_id,
        }

    def error_event(self, request_id: str, error: HttpError) -> bytes:
        """Return the event ``error``."""
        return event(self.error(request_id, error), "error")

    def models(self, ids: Sequence[str]) -> Json:
        """Return the list of models, all on one page."""
        return {
            "data": [self.model(name) for name in ids],
            "has_more": False,
            "first_id": ids[0] if ids else None,
            "last_id": ids[-1] if ids else None,
        }

    def model(self, name: str) -> Json:
        """Return one model."""
        return {
            "type": "model",
            "id": name,
            "display_name": name,
            "created_at": "2023-11-14T22:13:20Z",
            "lifecycle": "active",
        }

    def _conversation(self, raw: Sequence[Json], version: str) -> tuple[list[str], tuple[Message, ...]]:
        system: list[str] = []
        messages: list[Message] = []
        awaited: set[str] = set()
        used: set[str] = set()
        before: str | None = None
        for number, item in enumerate(raw):
            where = f"messages.{number}"
            message = an_object(item, where)
            role = message.get("role")
            blocks = _blocks(message.get("content"), where, may_be_empty=role == "assistant" and number == len(raw) - 1)
            if role == "system":
                if before != "user":
                    raise BadRequestError(f"{where}: a system message may only follow a user message")
                system += [_text_of(block, f"{where}.content") for block in blocks]
                continue
            if role not in ("user", "assistant"):
                raise BadRequestError(f"{where}.role: {role!r} is none of user, assistant, system")
            if before is None and role != "user":
                raise BadRequestError(f"{where}: the first message must have the role user")
            if self._strict_turns and role == before:
                raise BadRequestError(f"{where}: roles must alternate, and this is the second {role} message in a row")
            if role == "assistant":
                if awaited:
                    raise BadRequestError(f"{where}: tool_result blocks for {sorted(awaited)} must come before")
                reply = _assistant(blocks, where, version)
                repeated = used & {call.id for call in reply.tool_calls}
                if repeated:
                    raise BadRequestError(f"{where}: the tool_use ids {sorted(repeated)} are there twice")
                awaited = {call.id for call in reply.tool_calls}
                used |= awaited
                messages.append(reply)
            else:
                messages += _user(blocks, where, awaited)
                awaited = set()
            before = role
        if awaited:
            raise BadRequestError(f"messages: tool_use ids {sorted(awaited)} have no tool_result block after them")
        if before == "assistant" and messages[-1].text != messages[-1].text.rstrip():
            raise BadRequestError("messages: the final assistant message must not end with white space")
        return system, tuple(messages)


def _event(kind: str, **fields: Json) -> bytes:
    return event({"type": kind, **fields}, kind)


def _envelope(request: Request, reply: Reply) -> dict[str, Json]:
    return {
        "id": f"msg_{request.derive('message')}",
        "type": "message",
        "role": "assistant",
        "model": reply.model or request.model,
    }


def _ending(reply: Reply) -> dict[str, Json]:
    reason = _STOP[reply.finish_word]
    details = {"type": "refusal", "category": None, "explanation": None} if reason == "refusal" else None
    return {"stop_reason": reason, "stop_sequence": None, "stop_details": details}


def _call_id(request: Request, number: int, call: ToolCall) -> str:
    return call.id or f"toolu_{request.derive(f'call {number}')}"


def _usage(usage: Usage, output_tokens: int) -> Json:
    return {
        "input_tokens": usage.input_tokens - usage.cache_read_tokens - usage.cache_write_tokens,
        "cache_creation_input_tokens": usage.cache_write_tokens,
        "cache_read_input_tokens": usage.cache_read_tokens,
        "output_tokens": output_tokens,
    }


def _system(body: Mapping[str, Json]) -> list[str]:
    given = body.get("system")
    if given is None or given == "":
        return []
    if isinstance(given, str):
        return [given]
    return [_text_of(an_object(block, "system"), "system") for block in a_list(given, "system")]


def _schema(body: Mapping[str, Json]) -> Mapping[str, Json] | None:
    config = an_object(body.get("output_config") or {}, "output_config")
    asked, where = config.get("format"), "output_config.format"
    if asked is None:
        asked, where = body.get("output_format"), "output_format"
    if asked is None:
        return None
    if an_object(asked, where).get("type") != "json_schema":
        raise BadRequestError(f"{where}.type: only json_schema is known")
    schema = an_object(asked.get("schema"), f"{where}.schema")
    check_strict_schema(schema, f"{where}.schema", all_required=False)
    return schema


def _tools(body: Mapping[str, Json]) -> dict[str, Mapping[str, Json]]:
    tools: dict[str, Mapping[str, Json]] = {}
    given = body.get("tools", [])
    if not isinstance(given, list):
        raise BadRequestError("tools: expected a list")
    if not given and body.get("tool_choice") is not None:
        raise BadRequestError("tool_choice: only allowed when 'tools' are given")
    for number, item in enumerate(given):
        where = f"tools.{number}"
        tool = an_object(item, where)
        name = a_name(tool.get("name"), f"{where}.name", longest=128)
        if name in tools:
            raise BadRequestError(f"{where}.name: {name!r} is there twice")
        tools[name] = {}
        if tool.get("type", "custom") == "custom":
            schema = an_object(tool.get("input_schema"), f"{where}.input_schema")
            if schema.get("type") != "object":
                raise BadRequestError(f"{where}.input_schema: the schema's type must be 'object'")
            if a_flag(tool.get("strict"), f"{where}.strict"):
                check_strict_schema(schema, f"{where}.input_schema", all_required=False)
            tools[name] = schema
    return tools


def _blocks(content: Json, where: str, *, may_be_empty: bool) -> list[Mapping[str, Json]]:
    if content in ("", []):
        if may_be_empty:
            return []
        raise BadRequestError(f"{where}: only the last message, if it is the assistant's, may have no content")
    if isinstance(content, str):
        return [{"type": "text", "text": content}]
    return [an_object(block, f"{where}.content.{n}") for n, block in enumerate(a_list(content, f"{where}.content"))]


def _assistant(blocks: Sequence[Mapping[str, Json]], where: str, version: str) -> Message:
    texts: list[str] = []
    calls: list[ToolCall] = []
    for number, block in enumerate(blocks):
        place = f"{where}.content.{number}"
        kind = a_text(block.get("type"), f"{place}.type")
        if kind == "tool_result":
            raise BadRequestError(f"{place}: tool_result blocks belong into user messages")
        if kind == "document" and version >= _WITHOUT_SAMPLING:
            raise BadRequestError(f"{place}: not allowed in an assistant message in API version {version}")
        if kind == "tool_use":
            call_id = a_text(block.get("id"), f"{place}.id")
            if any(call_id == call.id for call in calls):
                raise BadRequestError(f"{place}.id: {call_id!r} is there twice")
            arguments = an_object(block.get("input"), f"{place}.input")
            calls.append(ToolCall(a_text(block.get("name"), f"{place}.name"), arguments, call_id))
        elif kind not in _THINKING:
            texts.append(_text_of(block, place))
    return Message("assistant", "\n".join(texts), tuple(calls))


def _user(blocks: Sequence[Mapping[str, Json]], where: str, awaited: set[str]) -> list[Message]:
    texts: list[str] = []
    results: list[ToolResult] = []
    missing = set(awaited)
    for number, block in enumerate(blocks):
        place = f"{where}.content.{number}"
        kind = a_text(block.get("type"), f"{place}.type")
        if kind == "tool_use":
            raise BadRequestError(f"{place}: tool_use blocks belong into assistant messages")
        if kind != "tool_result":
            texts.append(_text_of(block, place))
            continue
        call_id = a_text(block.get("tool_use_id"), f"{place}.tool_use_id")
        if call_id not in missing:
            raise BadRequestError(f"{place}: no tool_use {call_id!r} in the message before waits for it")
        if texts:
            raise BadRequestError(f"{place}: tool_result blocks come before everything else in a message")
        missing.remove(call_id)
        results.append(ToolResult(call_id, _result(block, place), a_flag(block.get("is_error"), f"{place}.is_error")))
    if missing:
        raise BadRequestError(f"{where}: tool_use ids {sorted(missing)} have no tool_result block in this message")
    messages = [Message("tool", tool_results=tuple(results))] if results else []
    return [*messages, Message("user", "\n".join(texts))] if texts else messages


def _result(block: Mapping[str, Json], where: str) -> str:
    content = block.get("content") or ""
    if isinstance(content, str):
        return content
    parts = a_list(content, f"{where}.content")
    return "\n".join(_text_of(an_object(part, f"{where}.content"), f"{where}.content") for part in parts)


def _text_of(block: Mapping[str, Json], where: str) -> str:
    kind = block.get("type")
    return a_text(block.get("text"), f"{where}.text") if kind == "text" else f"[{kind}]"
