"""What both provider adapters share: the HTTP client, retries, error classes in plain words, text that fits a wire."""

from __future__ import annotations

import email.utils
import json
import math
import random
import re
import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Protocol
from urllib.parse import quote

from gate.adapters.pace import PATIENCE_S, TOO_MANY, Pace
from gate.domain.base import digest_of, sha256_hex
from gate.domain.chat import ChatReply, Message, ToolSpec, ToolUse
from gate.errors import GateError, ModelError

if TYPE_CHECKING:
    import httpx2

CALL_HEADER = "x-skill-gate-call"
"""Carries the label of a call to a recording or replaying transport, which takes it off; never sent to a provider."""
ATTEMPT_HEADER = "x-skill-gate-attempt"
"""Carries the number of the request within its call, from 1; as above."""
LIMIT = "skill_gate_limit"
"""Request extension: puts the deadline and the size limit of a request around a response stream."""

TRIES = 3
_LONGEST_WAIT_S = 60.0
_MAX_BODY_BYTES = 64_000_000
_KEPT_TURNS = 2_000
_TOO_LONG = re.compile(
    r"context_length_exceeded|request_too_large|prompt is too long|maximum context length|context (?:window|length|size)"
    r"[^.]{0,60}(?:exceed|too (?:long|large))|exceeds?[^.]{0,60}context (?:window|length|size)",
    re.IGNORECASE,
)
"""How providers and compatible servers say that a conversation is longer than the model takes."""
_DETAIL_CHARACTERS = 300
_UNCLEAN = re.compile("[\x00-\x1f\x7f-\x9f\u2028\u2029\u200b-\u200f\u202a-\u202e\u2060-\u206f\ufeff]+")


class Failed(Exception):  # noqa: N818 - internal: becomes a ModelError, a retry, or a dropped parameter
    """One request that gave no usable response."""

    def __init__(
        self,
        kind: str,
        detail: str,
        *,
        status: int | None = None,
        retryable: bool = False,
        retry_after_s: float | None = None,
        parameter: str = "",
        maybe_billed: bool = False,
    ) -> None:
        super().__init__(detail)
        self.kind = kind
        self.detail = detail
        self.status = status
        self.retryable = retryable
        self.retry_after_s = retry_after_s
        self.parameter = parameter
        """The parameter that a 400 or 422 names, where the provider has a field for it."""
        self.maybe_billed = maybe_billed

    @property
    def too_many(self) -> bool:
        """Whether it was refused for its rate; an account without credit is another matter."""
        return self.status in TOO_MANY and self.kind == "overload"


_TAKEN_AT_ITS_WORD = 4
"""So often a provider is believed that it is enough to wait as short as it says."""


@dataclass
class Retry:
    """How long to wait between tries. ``sleep`` and ``jitter`` are arguments so that tests and replays need no time."""

    tries: int = TRIES
    sleep: Callable[[float], object] = time.sleep
    """Returns True where the session is to end: then nothing is tried again."""
    jitter: Callable[[], float] = random.random  # of a waiting time; decides nothing else
    pace: Pace | None = None
    """Of the account; with it a request that was refused for its rate is put off, and is no try that counts."""

    def waits(self, failed: Failed, *, counted: int, refused: int, waited_s: float) -> float | None:
        """Seconds before the next try; None: none is made.

        ``counted``: tries so far that count, ``refused``: refusals of a rate that do not, ``waited_s``: all waits so far.
        """
        if failed.retry_after_s is not None and failed.retry_after_s > _LONGEST_WAIT_S:
            return None
        wait = self.wait_s(max(1, counted + refused), failed)
        if self.pace is not None and failed.too_many:
            if refused > _TAKEN_AT_ITS_WORD:
                wait = max(wait, self._backoff(refused - _TAKEN_AT_ITS_WORD))
            patient = waited_s + wait <= PATIENCE_S and not self.pace.silent(PATIENCE_S)
            return wait if patient else None
        return wait if failed.retryable and counted < self.tries else None

    def wait_s(self, tried: int, failed: Failed) -> float:
        """Seconds before the next try: what the provider asks for, else 0.5 s doubling to 8 s, plus up to a quarter."""
        if failed.retry_after_s is not None:
            return failed.retry_after_s
        return self._backoff(tried)

    def _backoff(self, tried: int) -> float:
        return float(min(0.5 * 2.0 ** (min(tried, 9) - 1), 8.0) * (1 + 0.25 * self.jitter()))


class Streams(Protocol):
    """``gate.adapters.streamed.Streaming``, as far as ``call`` needs it."""

    on: bool
    refused: bool

    def body(self, content: bytes) -> dict[str, Any]:
        """The body of a reply from the bytes of its stream. Raises Failed."""


@dataclass
class Learned:
    """Parameters that a provider refused, kept for the client's later calls. Thread-safe.

    Recording and replaying clients do not remember: which of two parallel calls comes first must not show in a request.
    """

    remember: bool = True
    _names: set[str] = field(default_factory=set)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def known(self) -> frozenset[str]:
        """What was refused so far."""
        with self._lock:
            return frozenset(self._names)

    def add(self, name: str) -> None:
        """Remember one."""
        if self.remember:
            with self._lock:
                self._names.add(name)


class Thoughts:
    """The parts of recent replies that held thinking, found again by what the rest of the reply was. Thread-safe."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._kept: OrderedDict[str, list[Any]] = OrderedDict()

    def keep(self, text: str, uses: tuple[ToolUse, ...], content: list[Any]) -> None:
        """Keep the parts of a reply."""
        with self._lock:
            self._kept[_turn(text, uses)] = content
            while len(self._kept) > _KEPT_TURNS:
                self._kept.popitem(last=False)

    def of(self, message: Message) -> list[Any] | None:
        """The parts of the reply that this message is, or None."""
        with self._lock:
            return self._kept.get(_turn(message.text, message.tool_uses))


def _turn(text: str, uses: tuple[ToolUse, ...]) -> str:
    return digest_of([text, [use.to_json() for use in uses]])


def call(
    send: Callable[[int], Any],
    read: Callable[[dict[str, Any]], ChatReply],
    *,
    name: str,
    key: str,
    drop: Callable[[Failed], str | None],
    dropped: list[str],
    retry: Retry,
    streaming: Streams | None = None,
) -> ChatReply:
    """Send until there is a reply: retry what a retry can help, leave out what the provider refuses by name.

    ``send`` takes the number of the request, from 1, and returns the SDK's raw response; ``read`` makes a reply of its
    JSON object or raises Failed; ``drop`` names the refused parameter that it has taken out of the next ``send``, or
    None. ``dropped`` collects them. ``streaming``: turned on where a request was lost on its way, and off for good where the
    provider has no streams. Raises ModelError (of the last failure) in words for people, without ``key`` in it.
    """
    attempts = retries = refusals = unknown = 0
    waited_s = 0.0
    while True:
        attempts += 1
        try:
            reply = _at_its_turn(lambda number=attempts: read(_body(send(number), streaming)), retry.pace)  # type: ignore[misc]
        except GateError as own:  # a replay miss, a recording that cannot be written
            if isinstance(own, ModelError):
                own.attempts = attempts
            raise
        except Failed as error:
            failed = error
        else:
            return reply.model_copy(
                update={
                    "attempts": attempts,
                    "provider_retries": retries,
                    "rate_refusals": refusals,
                    "unknown_attempts": unknown,
                    "dropped_parameters": tuple(dropped),
                }
            )
        unknown += failed.maybe_billed
        refused = drop(failed) if failed.kind == "bad_request" and failed.status in (400, 422) else None
        if refused:
            dropped.append(refused)
            continue
        if streaming is not None and _other_way(failed, streaming, dropped):
            continue
        retries += 1
        refusals += failed.too_many
        free = refusals if retry.pace is not None else 0
        wait = retry.waits(failed, counted=retries - free, refused=free, waited_s=waited_s)
        if wait is None or retry.sleep(wait) is True:
            raise _for_people(failed, name=name, key=key, attempts=attempts, unknown=unknown)
        waited_s += wait


def _at_its_turn(once: Callable[[], ChatReply], pace: Pace | None) -> ChatReply:
    """One request. Raises Failed for whatever the provider or its SDK did, GateErrors and everything else as they are."""
    turn = pace.begin() if pace is not None else None
    failed, answered = None, False
    try:
        reply = once()
        answered = True
        return reply
    except Exception as error:
        own = _own_error(error)
        if own is not None:
            raise own from None
        failed = error if isinstance(error, Failed) else classify(error)
        if failed is None:
            raise
        raise failed from None
    finally:
        if pace is not None and turn is not None:
            refused = failed is not None and failed.too_many
            pace.end(turn, answered=answered, refused=refused, retry_after_s=failed.retry_after_s if failed else None)


def _other_way(failed: Failed, streaming: Streams, dropped: list[str]) -> bool:
    """Whether the request is to be sent at once the other way round: as a stream, or as none; at most once each."""
    lost = failed.kind in ("timeout", "connection") and failed.maybe_billed
    named = re.search(r"\bstream", f"{failed.parameter} {failed.detail}", re.IGNORECASE) is not None
    speaks_of_it = failed.kind == "bad_request" and named
    if streaming.refused or not (lost or speaks_of_it):
        return False
    if not streaming.on:
        streaming.on = True
        return speaks_of_it  # what was lost is a try that counts, with its waiting time
    if speaks_of_it:
        streaming.on, streaming.refused = False, True
        dropped.append("stream")
        return True
    return False


def classify(error: BaseException) -> Failed | None:
    """An SDK's exception as a failure; None where it is none of the SDK's (a bug, a signal).

    Both SDKs are generated from one template: the same class names, ``status_code``, ``response`` and ``body``.
    """
    names = {cls.__name__ for cls in type(error).__mro__}
    if "APITimeoutError" in names:
        return Failed("timeout", "no reply in time", retryable=True, maybe_billed=not _never_sent(error))
    if "APIConnectionError" in names:
        sent = not _never_sent(error)
        what = "the connection broke before the reply was complete" if sent else "nothing answers at its address"
        return Failed("connection", what, retryable=True, maybe_billed=sent)
    response = getattr(error, "response", None)
    if "APIStatusError" in names and response is not None:
        return of_status(int(getattr(error, "status_code", 0)), response.headers, response.content)
    if names & {"OpenAIError", "AnthropicError"}:
        return Failed("malformed", "the reply is not what the provider's own library understands", maybe_billed=True)
    return None


def _own_error(error: BaseException) -> GateError | None:
    """The gate's own error that a transport raised, also where an SDK wrapped it into a connection error."""
    cause: BaseException | None = error
    while cause is not None and not isinstance(cause, GateError):
        cause = cause.__cause__
    return cause


def _never_sent(error: BaseException) -> bool:
    return type(error.__cause__).__name__ in ("ConnectError", "ConnectTimeout", "PoolTimeout", "UnsupportedProtocol")


def of_status(status: int, headers: Mapping[str, str], content: bytes) -> Failed:
    try:
        body = json.loads(content)
    except (ValueError, RecursionError):
        body = None
    fields = body.get("error") if isinstance(body, dict) else None
    fields = fields if isinstance(fields, dict) else {"message": fields} if isinstance(fields, str) else {}
    if not fields and isinstance(body, dict):
        fields = body  # some servers put the fields at the top
    message = fields.get("message") or fields.get("detail")
    text = message if isinstance(message, str) else json.dumps(message) if message else ""
    if not text:
        text = "no explanation" if body is not None or not content else "a page that is not the provider's"
    code = " ".join(str(fields.get(name, "")) for name in ("code", "type"))
    kind, retryable = _kind_of(status, code)
    if status in (400, 413, 422) and _TOO_LONG.search(f"{code} {text}"):
        kind = "context_length"
    should = headers.get("x-should-retry")
    if should in ("true", "false"):
        retryable = should == "true"
    parameter = fields.get("param")
    return Failed(
        kind,
        text,
        status=status,
        retryable=retryable,
        retry_after_s=_retry_after(headers),
        parameter=parameter if isinstance(parameter, str) else "",
    )


def _kind_of(status: int, code: str) -> tuple[str, bool]:
    """(kind of ModelError, whether a retry can help)."""
    if status in (401, 403):
        return "auth", False
    if status == 402 or (status == 429 and ("quota" in code or "billing" in code)):
        return "quota", False
    if status == 404:
        return "not_found", False
    if status in (408, 504):
        return "timeout", True
    if status in (409, 425, 429) or status >= 500:
        return "overload", status != 501
    return "bad_request", False


def _retry_after(headers: Mapping[str, str]) -> float | None:
    """Seconds that the provider asks to wait (milliseconds header, seconds or HTTP date); None: does not say."""
    for name, scale in (("retry-after-ms", 0.001), ("retry-after", 1.0)):
        text = headers.get(name)
        if not text:
            continue
        try:
            seconds = float(text) * scale
        except ValueError:
            try:
                seconds = (email.utils.parsedate_to_datetime(text) - datetime.now(UTC)).total_seconds()
            except (TypeError, ValueError):
                continue
        if math.isfinite(seconds):
            return max(seconds, 0.0)
    return None


def _whole(response: Any) -> bytes:
    """The body of an open response. Raises Failed where it does not come, breaks off or is not encoded as it says."""
    import httpx2

    try:
        data: bytes = response.read()
    except httpx2.TimeoutException:
        raise Failed("timeout", "no reply in time", retryable=True, maybe_billed=True) from None
    except httpx2.DecodingError:
        what = "the reply is not encoded as its headers say"
        raise Failed("malformed", what, status=response.status_code, retryable=True, maybe_billed=True) from None
    except httpx2.RequestError:
        what = "the connection broke before the reply was complete"
        raise Failed("connection", what, retryable=True, maybe_billed=True) from None
    finally:
        response.close()
    return data


def _body(raw: Any, streaming: Streams | None = None) -> dict[str, Any]:
    """The JSON object in an SDK's raw response. Raises Failed for anything else, also for an error inside a 200."""
    response = raw.http_response
    if streaming is not None and streaming.on:
        if response.headers.get("content-type", "").startswith("text/event-stream"):
            return streaming.body(_whole(response))
        _whole(response)  # a server that does not know the parameter answers as ever
    try:
        body = json.loads(response.content, parse_constant=_no_constant)
    except (ValueError, RecursionError):
        body = None
    if not isinstance(body, dict):
        kind = response.headers.get("content-type", "no content type").split(";")[0]
        what = f"the reply is not a JSON object ({kind}, {len(response.content)} bytes)"
        raise Failed("malformed", what, status=response.status_code, retryable=True, maybe_billed=True)
    error = body.get("error")
    if isinstance(error, dict) and "choices" not in body and "content" not in body:
        code = error.get("code")
        status = code if isinstance(code, int) and 400 <= code <= 599 else 502
        raise of_status(status, response.headers, json.dumps(body).encode("utf-8", "replace"))
    return body


def malformed(what: str) -> Failed:
    """A JSON reply that is not the shape of the provider's protocol."""
    return Failed("malformed", what, retryable=False, maybe_billed=True)


_REMEDIES = {
    "auth": "Check that the key in the environment is valid and may use this model.",
    "quota": "The account has no credit or quota left: add some, or take another key or model.",
    "overload": "The provider is busy or down: run the gate again later, or with fewer jobs.",
    "bad_request": "The provider does not take such a request: check the model's name and what it supports.",
    "context_length": "Take a model with a longer context, or a smaller skill, suite or fixture.",
    "not_found": "Check the model's name and address; the model may be retired or closed to this key.",
    "timeout": "Run the gate again; if it happens always, take a faster model or fewer jobs.",
    "connection": "Check the address, the network and the proxy settings.",
    "malformed": "Check that the address is the provider's API and not a proxy's or a web site's page.",
}


def _for_people(failed: Failed, *, name: str, key: str, attempts: int, unknown: int) -> ModelError:
    status = f"status {failed.status}: " if failed.status else ""
    detail = plain(failed.detail.replace(key, "[key]") if key else failed.detail)
    tried = f" after {attempts} requests" if attempts > 1 else ""
    remedy = _REMEDIES[failed.kind]
    if failed.retry_after_s is not None and failed.retry_after_s > _LONGEST_WAIT_S:
        remedy = f"The provider asks to wait {failed.retry_after_s:.0f} seconds: run the gate again after that."
    return ModelError(
        f"{name} gave no reply{tried} ({failed.kind.replace('_', ' ')}; {status}{detail.rstrip('.')}).",
        kind=failed.kind,
        remedy=remedy,
        retryable=failed.retryable,
        attempts=attempts,
        unknown_attempts=unknown,
    )


def plain(text: str) -> str:
    """Untrusted text on one line, without control or invisible characters, at most 300 characters."""
    line = " ".join(_UNCLEAN.sub(" ", clean(text)).split())
    return line if len(line) <= _DETAIL_CHARACTERS else line[: _DETAIL_CHARACTERS - 1] + "…"


def clean(text: str) -> str:
    """``text`` as UTF-8 can hold it: surrogate pairs become their character, lone surrogates U+FFFD."""
    if text.isascii():
        return text
    return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")


def clean_json(value: Any) -> Any:
    """A JSON value with every text in it cleaned."""
    if isinstance(value, str):
        return clean(value)
    if isinstance(value, dict):
        return {clean(str(name)): clean_json(item) for name, item in value.items()}
    if isinstance(value, list | tuple):
        return [clean_json(item) for item in value]
    return value


def call_headers(label: str, attempt: int) -> dict[str, str]:
    """The internal headers of a recorded or replayed request."""
    return {CALL_HEADER: quote(clean(label), safe="/-_.~"), ATTEMPT_HEADER: str(attempt)}


_UNENFORCED = frozenset({
    "default", "examples", "exclusiveMaximum", "exclusiveMinimum", "format", "maxItems", "maxLength", "maxProperties",
    "maximum", "minItems", "minLength", "minProperties", "minimum", "multipleOf", "pattern", "title", "uniqueItems",
})  # fmt: skip
"""Keywords that providers do not enforce or refuse; the caller checks them on the reply."""
_TOO_MUCH = frozenset({
    "allOf", "dependentRequired", "dependentSchemas", "else", "if", "not", "patternProperties", "then",
})  # fmt: skip


def enforceable(schema: dict[str, Any]) -> dict[str, Any] | None:
    """The part of a JSON schema that both providers enforce: closed objects, every property required, no ranges.

    None where the schema says something that cannot be put so (open objects, ``allOf``, conditions). Own code, and not
    the SDK's, so that a request stays the same bytes when the SDK changes.
    """
    try:
        return _closed(schema)
    except ValueError:
        return None


def _closed(schema: Any) -> dict[str, Any]:
    if not isinstance(schema, dict) or _TOO_MUCH & set(schema):
        raise ValueError("cannot be enforced")
    if "$ref" in schema and "$defs" not in schema:
        return {"$ref": schema["$ref"]}  # no keyword may stand beside it
    result: dict[str, Any] = {}
    for keyword, value in schema.items():
        if keyword in _UNENFORCED or keyword in ("additionalProperties", "required"):
            continue
        if keyword in ("properties", "$defs"):
            result[keyword] = {name: _closed(part) for name, part in value.items()}
        elif keyword in ("anyOf", "oneOf"):
            result["anyOf"] = [_closed(part) for part in value]
        else:
            result[keyword] = _closed(value) if keyword == "items" else value
    if schema.get("type") == "object" or "properties" in schema:
        if "properties" not in schema or schema.get("additionalProperties", False) is not False:
            raise ValueError("an open object cannot be enforced")
        result["required"] = list(result["properties"])
        result["additionalProperties"] = False
    return result


class ToolNames:
    """Names as providers take them (letters, digits, ``_``, ``-``, at most 64) and back. Equal names map equally."""

    def __init__(self, tools: Sequence[ToolSpec]) -> None:
        """``tools``: what is offered in this request."""
        self._own = {self.wire(tool.name): tool.name for tool in tools}

    @staticmethod
    def wire(name: str) -> str:
        """The name on the wire; one that had to be changed carries a digest, so that two never meet."""
        if re.fullmatch(r"[A-Za-z0-9_-]{1,64}", name):
            return name
        plain_name = re.sub(r"[^A-Za-z0-9_-]", "_", name)[:55] or "tool"
        return f"{plain_name}_{sha256_hex(name.encode('utf-8', 'surrogatepass'))[:8]}"

    def own(self, wire: str) -> str:
        """The tool that the model means; a name that was not offered stays as it is."""
        return self._own.get(wire, wire)


def arguments_of(value: Any) -> tuple[dict[str, Any] | None, str]:
    """(arguments, "") of a tool call, or (None, what the model wrote) where that is not a JSON object.

    Blank text means no arguments: several servers send it for a tool without parameters.
    """
    if isinstance(value, str):
        if not value.strip():
            return {}, ""
        try:
            parsed = json.loads(value, parse_constant=_no_constant)
        except (ValueError, RecursionError):
            return None, value
        return (parsed, "") if isinstance(parsed, dict) else (None, value)
    if isinstance(value, dict):
        return value, ""
    return ({}, "") if value is None else (None, json.dumps(value))


def _no_constant(name: str) -> Any:
    raise ValueError(f"{name} is not JSON")


def replayable_arguments(use: ToolUse) -> dict[str, Any]:
    """Arguments to show a model its own earlier call with: what was no object is wrapped, since servers refuse it."""
    arguments = {"not_a_json_object": use.raw_arguments} if use.arguments is None else use.arguments
    value = clean_json(arguments)
    assert isinstance(value, dict)  # noqa: S101 - narrows the type; clean_json keeps objects
    return value


def unique_ids(ids: Sequence[str], turn: int) -> list[str]:
    """One id a tool call: what the provider sent, where it sent one and not twice; else one made from the position."""
    seen: set[str] = set()
    result = []
    for index, sent in enumerate(ids):
        own = sent if sent and sent not in seen else f"call-{turn}-{index}"
        seen.add(own)
        result.append(own)
    return result


def count_or_none(value: Any) -> int | None:
    """A token count, or None for anything that is no whole number of at least zero."""
    return value if isinstance(value, int) and not isinstance(value, bool) and value >= 0 else None


def http_client(transport: httpx2.BaseTransport | None, *, timeout_s: float, proxies: bool) -> httpx2.Client:
    """A client for an SDK: whole-reply deadline, reply size limit, no redirects (a key must not travel on).

    ``transport`` None is the real network; then, with ``proxies``, the environment's proxy settings hold.
    """
    import httpx2  # the transport of both SDKs; not needed on the "nothing to evaluate" path

    def begin(request: httpx2.Request) -> None:
        deadline = time.monotonic() + timeout_s
        request.extensions[LIMIT] = lambda stream: _limited(stream, request, deadline)

    def limit(response: httpx2.Response) -> None:
        response.stream = response.request.extensions[LIMIT](response.stream)

    return httpx2.Client(
        transport=transport,
        timeout=httpx2.Timeout(timeout_s, connect=min(timeout_s, 10.0)),
        follow_redirects=False,
        trust_env=proxies,
        event_hooks={"request": [begin], "response": [limit]},
    )


def _limited(stream: httpx2.SyncByteStream, request: httpx2.Request, deadline: float) -> httpx2.SyncByteStream:
    """``stream`` that ends with an error past the deadline or the size limit; read time-outs alone never see a drip."""
    import httpx2

    class Limited(httpx2.SyncByteStream):
        def __iter__(self) -> Iterator[bytes]:
            size = 0
            for piece in stream:
                size += len(piece)
                if time.monotonic() > deadline:
                    raise httpx2.ReadTimeout("the reply took too long", request=request)
                if size > _MAX_BODY_BYTES:
                    raise httpx2.ReadError("the reply is too large", request=request)
                yield piece

        def close(self) -> None:
            stream.close()

    return Limited()
