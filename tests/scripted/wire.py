"""From an answer to bytes: what goes over the connection, before any connection is there."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from itertools import repeat
from typing import Literal

from tests.scripted.dialect import Dialect
from tests.scripted.faults import (
    Answer,
    Delayed,
    Dropped,
    Empty,
    Endless,
    ErrorInStream,
    HttpError,
    Malformed,
    SlowDrip,
    Truncated,
)
from tests.scripted.values import Json, Reply, Request, wire_json

Headers = tuple[tuple[str, str], ...]


@dataclass(frozen=True)
class Wire:
    """One response. It holds no date, no server name and nothing else that two runs would not share."""

    status: int
    headers: Headers
    parts: Iterable[bytes]
    """The body in the pieces it is sent in; read once."""
    length: int | None
    """The length that the head promises; None: the body is sent in chunks, one a part."""
    cut: Literal["before", "after"] | None = None
    """The connection closes before the head, or after the parts without the promised rest."""
    delay_s: float = 0
    pause_s: float = 0
    """Waited between two parts."""


def of_json(dialect: Dialect, request_id: str, body: Json, status: int = 200) -> Wire:
    """Return a complete JSON response."""
    content = wire_json(body)
    return Wire(status, _headers(dialect, request_id, "application/json"), (content,), len(content))


def of_error(dialect: Dialect, request_id: str, error: HttpError) -> Wire:
    """Return an error response."""
    if error.page is None:
        wire = of_json(dialect, request_id, dialect.error(request_id, error), error.status)
    else:
        page = error.page.encode()
        wire = Wire(error.status, (("content-type", "text/html; charset=utf-8"),), (page,), len(page))
    extra: Headers = ()
    if error.retry_after_s is not None:
        extra += (("retry-after", f"{error.retry_after_s:g}"),)
    if error.should_retry is not None:
        extra += (("x-should-retry", "true" if error.should_retry else "false"),)
    return replace(wire, headers=wire.headers + extra)


def of_answer(dialect: Dialect, request: Request, answer: Answer) -> Wire:
    """Return the response that speaks ``answer``; all randomness and time kept out of it.

    Raises:
        ScenarioError: The dialect has no words for the reply.
    """
    request_id = f"req_{request.derive('request')}"
    kind = "text/event-stream; charset=utf-8" if request.stream else "application/json"
    headers = _headers(dialect, request_id, kind)
    if isinstance(answer, Delayed):
        wire = of_answer(dialect, request, answer.then)
        return replace(wire, delay_s=wire.delay_s + answer.seconds)
    if isinstance(answer, HttpError):
        return of_error(dialect, request_id, answer)
    if isinstance(answer, ErrorInStream) and not request.stream:
        return of_error(dialect, request_id, answer.error)
    if isinstance(answer, Empty):
        return Wire(200, headers, (), 0)
    if isinstance(answer, Endless):
        return Wire(200, headers, _endless(dialect, request, answer), None, pause_s=answer.pause_s)
    reply = answer if isinstance(answer, Reply) else answer.reply
    parts = dialect.events(request, reply) if request.stream else [wire_json(dialect.reply(request, reply))]
    promised = None if request.stream else len(parts[0])
    if isinstance(answer, Reply):
        return Wire(200, headers, parts, promised)
    half = len(parts) // 2
    if isinstance(answer, Dropped):
        sent = parts[:half] if request.stream else [parts[0][: len(parts[0]) // 2]]
        return Wire(200, headers, sent, promised, cut="before" if answer.at == "before" else "after")
    if isinstance(answer, SlowDrip):
        return Wire(200, headers, _drip(b"".join(parts), answer.piece_bytes), promised, pause_s=answer.pause_s)
    if isinstance(answer, Truncated):
        parts = [*parts[:half], parts[half][: len(parts[half]) // 2]]
    elif isinstance(answer, Malformed):
        parts[half] = parts[half].replace(b"{", b"{{", 1)
    else:
        parts = [*parts[:half], dialect.error_event(request_id, answer.error)]
    return Wire(200, headers, parts, None if request.stream else sum(map(len, parts)))


def _headers(dialect: Dialect, request_id: str, content_type: str) -> Headers:
    return (("content-type", content_type), (dialect.request_id_header, request_id))


def _endless(dialect: Dialect, request: Request, answer: Endless) -> Iterator[bytes]:
    if request.stream:
        return dialect.endless_events(request, answer.text)
    return repeat(b" " * 16)


def _drip(body: bytes, size: int) -> Iterator[bytes]:
    return (body[start : start + size] for start in range(0, len(body), size))
