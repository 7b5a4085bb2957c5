"""The record of one run, ``events.jsonl``: append only, each event carrying the hash of the one before (DESIGN.md 3).

Redaction happens before an event is hashed, never after: what was hashed is what anybody can read.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, Literal, Self

from pydantic import BaseModel

from gate.domain.base import Json, canonical_json, sha256_hex
from gate.domain.evidence import Event, ToolCall
from gate.errors import EvidenceError, InfrastructureError
from gate.protocols import Clock

ZERO_HASH = "0" * 64
"""``prev`` of the first event."""

MAX_DEPTH = 100
"""Levels of nesting that the record keeps as structure."""

_FIELDS = {"seq", "kind", "at_ms", "data", "prev", "hash"}
_SURROGATE_PAIR = re.compile("[\ud800-\udbff][\udc00-\udfff]")


def make_event(seq: int, kind: str, at_ms: int, data: dict[str, Any], prev: str) -> Event:
    """An event whose ``hash`` is SHA-256 over the canonical JSON of [seq, kind, at_ms, data, prev].

    ``data`` must be plain JSON. Raises ValueError for NaN.
    """
    digest = _digest(seq, kind, at_ms, canonical_json(data), prev)
    return Event(seq=seq, kind=kind, at_ms=at_ms, data=data, prev=prev, hash=digest)


def _digest(seq: int, kind: str, at_ms: int, data: bytes, prev: str) -> str:
    """The hash of an event whose ``data`` is rendered already: rendering is what takes the time in a long record."""
    return sha256_hex(b"[%d,%b,%d,%b,%b]" % (seq, canonical_json(kind), at_ms, data, canonical_json(prev)))


def event_line(event: Event) -> bytes:
    """The one line of ``events.jsonl`` that an event is, with its line feed."""
    # Not ``to_json``: pydantic cannot write a key that holds a lone surrogate.
    return _line(event, canonical_json(event.data))


def _line(event: Event, data: bytes) -> bytes:
    rest = (canonical_json(event.hash), canonical_json(event.kind), canonical_json(event.prev))
    return b'{"at_ms":%d,"data":%b,"hash":%b,"kind":%b,"prev":%b,"seq":%d}\n' % (event.at_ms, data, *rest, event.seq)


class EventLog:
    """Writes one run's ``events.jsonl``. For one thread.

    Every text in an event's data (keys too, and numbers that spell a secret) goes through ``redact`` before hashing.
    Numbers that JSON does not know are recorded by name; what is nested deeper than MAX_DEPTH is recorded as JSON text.
    """

    def __init__(self, path: Path, *, redact: Callable[[str], str], clock: Clock) -> None:
        """Makes the file. Raises EvidenceError where there is one already, InfrastructureError where it cannot be made."""
        self._redact = redact
        self._clock = clock
        self._began = clock.monotonic_ms()
        self._events: list[Event] = []
        self._path = path
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            self._file = path.open("xb")
        except FileExistsError:
            raise EvidenceError(
                f"{path.name} is already there; a record is written once.",
                path=path.name,
                remedy="Use an empty output folder.",
            ) from None
        except OSError as error:
            raise _disk_error(path, error) from error

    def append(self, kind: str, **data: Any) -> Event:
        """Append one event and flush it.

        Raises EvidenceError after ``close``, TypeError for data that is no JSON, InfrastructureError for a full disk.
        """
        if self._file.closed:
            raise EvidenceError(f"{self._path.name} is closed; nothing can be appended.", path=self._path.name)
        event = make_event(
            seq=len(self._events),
            kind=kind,
            at_ms=max(0, self._clock.monotonic_ms() - self._began),
            data=_recorded(data, self._redact),
            prev=self._events[-1].hash if self._events else ZERO_HASH,
        )
        try:
            self._file.write(event_line(event))
            self._file.flush()
        except OSError as error:
            raise _disk_error(self._path, error) from error
        self._events.append(event)
        return event

    @property
    def events(self) -> tuple[Event, ...]:
        """What was appended so far."""
        return tuple(self._events)

    def close(self) -> None:
        """Close the file; closing twice does nothing."""
        self._file.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def read_events(path: Path, *, name: str = "") -> tuple[Event, ...]:
    """The events of a file, every link of the chain checked; ``name`` is how messages call the file.

    Raises EvidenceError (with path and line) for a missing file, a line that is no event, a line whose bytes are not
    the one rendering of its event, a gap in ``seq``, a broken chain, a wrong hash and a last line that was cut off.
    """
    name = name or path.name
    try:
        raw = path.read_bytes()
    except OSError as error:
        raise EvidenceError(f"{name} cannot be read: {error.strerror}.", path=name) from None
    lines = raw.split(b"\n")
    if lines.pop():
        raise _broken(name, len(lines) + 1, "the last line is cut off")
    events: list[Event] = []
    for number, line in enumerate(lines, 1):
        event = _parsed(line, name, number)
        expected_prev = events[-1].hash if events else ZERO_HASH
        if event.seq != len(events):
            raise _broken(name, number, f"event {event.seq} stands where event {len(events)} should be")
        if event.prev != expected_prev:
            raise _broken(name, number, "it does not follow the line before it (the chain is broken)")
        events.append(event)
    return tuple(events)


def tool_calls(events: Iterable[Event]) -> tuple[ToolCall, ...]:
    """Every tool call with its result, in the order of the calls.

    Paired by step and call id, never by position: parallel calls may end in any order, and some model servers count
    their ids from zero again in every step. A result without a call is no call; ``defect`` reports it.
    """
    events = tuple(events)
    results: dict[tuple[Any, Any], list[Mapping[str, Any]]] = {}
    for event in events:
        if event.kind == "tool_result":
            results.setdefault((event.data.get("step"), event.data.get("call_id")), []).append(event.data)
    calls = []
    for event in events:
        if event.kind == "tool_call":
            waiting = results.get((event.data.get("step"), event.data.get("call_id")))
            calls.append(_tool_call(event.data, waiting.pop(0) if waiting else None))
    return tuple(calls)


def response_of(events: Sequence[Event]) -> str | None:
    """The final answer, or None where the run has none."""
    return next((str(event.data.get("text", "")) for event in reversed(events) if event.kind == "response"), None)


def _tool_call(call: Mapping[str, Any], result: Mapping[str, Any] | None) -> ToolCall:
    args = call.get("args")
    exit_code = result.get("exit_code") if result else None
    return ToolCall(
        step=int(call.get("step") or 0),
        call_id=str(call.get("call_id", "")),
        tool=str(call.get("tool", "")),
        args=args if isinstance(args, dict) else None,
        raw_args=str(call.get("raw_args") or ""),
        status=_status(result),
        result=str(result.get("text", "")) if result else "",
        truncated=bool(result.get("truncated")) if result else False,
        exit_code=exit_code if isinstance(exit_code, int) else None,
        reported=bool(result.get("reported")) if result else False,
        skill_lines=tuple(result.get("skill_lines") or ()) if result else (),
    )


def _status(result: Mapping[str, Any] | None) -> Literal["success", "error", "timeout", "no_result"]:
    if result is None:
        return "no_result"
    if result.get("status") == "success":
        return "success"
    return "timeout" if result.get("status") == "timeout" else "error"


def _parsed(line: bytes, name: str, number: int) -> Event:
    try:
        data = json.loads(line.decode("utf-8"))
    except (ValueError, RecursionError):
        raise _broken(name, number, "it is not JSON") from None
    if not isinstance(data, dict) or set(data) != _FIELDS:
        raise _broken(name, number, f"it is no event (an event has exactly the fields {', '.join(sorted(_FIELDS))})")
    if not _well_typed(data):
        raise _broken(name, number, "a field of the event has the wrong type")
    try:
        rendered = canonical_json(data["data"])
    except ValueError:
        raise _broken(name, number, "it holds a number that JSON does not have") from None
    event = Event.model_construct(**data)
    if event.hash != _digest(event.seq, event.kind, event.at_ms, rendered, event.prev):
        raise _broken(name, number, "its content does not have the hash that it carries")
    if _line(event, rendered)[:-1] != line:
        # Same content in other bytes (white space, key order, a doubled key): nobody but an editor writes that.
        raise _broken(name, number, "it is not written as the gate writes it")
    return event


def _well_typed(data: dict[str, Any]) -> bool:
    wanted = {"seq": int, "kind": str, "at_ms": int, "data": dict, "prev": str, "hash": str}
    return all(type(data[name]) is kind for name, kind in wanted.items())


def _broken(name: str, line: int, why: str) -> EvidenceError:
    return EvidenceError(
        f"{name}, line {line}: {why}.", path=name, remedy="The record was changed or damaged; run the session again."
    )


def _disk_error(path: Path, error: OSError) -> InfrastructureError:
    return InfrastructureError(
        f"{path.name} could not be written: {error.strerror}.",
        remedy="Free disk space or choose another output folder.",
    )


def _recorded(data: Mapping[str, Any], redact: Callable[[str], str]) -> dict[str, Any]:
    cleaned = _clean(data, redact, 0)
    assert isinstance(cleaned, dict)  # noqa: S101 - a mapping is cleaned to a dict
    return cleaned


def _clean(value: Any, redact: Callable[[str], str], depth: int) -> Json:
    """``value`` as plain JSON, redacted. Raises TypeError for what JSON cannot hold."""
    if isinstance(value, str):
        return redact(_joined(str(value)))
    if value is None or isinstance(value, bool):
        return value
    if isinstance(value, int | float):
        return _clean_number(value, redact)
    if isinstance(value, BaseModel):
        value = value.model_dump(mode="json")
    if not isinstance(value, Mapping | list | tuple):
        raise TypeError(f"an event cannot hold a {type(value).__name__}")
    if depth >= MAX_DEPTH:
        return redact(_joined(_flat(value)))
    if isinstance(value, Mapping):
        return _clean_keys(value, redact, depth)
    return [_clean(item, redact, depth + 1) for item in value]


def _clean_keys(value: Mapping[Any, Any], redact: Callable[[str], str], depth: int) -> dict[str, Json]:
    cleaned: dict[str, Json] = {}
    for key, item in value.items():
        name = redact(_joined(str(key)))
        while name in cleaned:  # two keys that became one by redaction: both stay on the record
            name += "'"
        cleaned[name] = _clean(item, redact, depth + 1)
    return cleaned


def _clean_number(value: Any, redact: Callable[[str], str]) -> Json:
    if isinstance(value, float) and not math.isfinite(value):
        return "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"
    # An IntEnum becomes the plain number that the file will give back.
    plain = int(value) if isinstance(value, int) else value
    spelled = repr(plain)
    hidden = redact(spelled)
    return plain if hidden == spelled else hidden


def _flat(value: Any) -> str:
    try:
        return json.dumps(value, sort_keys=True, ensure_ascii=False, default=str)
    except (RecursionError, ValueError):
        return "(nested too deeply to be recorded)"


def _joined(text: str) -> str:
    """Two surrogates that make a character become that character, as every JSON reader would read them."""
    if not _SURROGATE_PAIR.search(text):
        return text
    return _SURROGATE_PAIR.sub(lambda found: found[0].encode("utf-16-le", "surrogatepass").decode("utf-16-le"), text)
