from __future__ import annotations

from enum import IntEnum
from pathlib import Path
from typing import Any

import pytest

from gate.domain.base import canonical_json, sha256_hex
from gate.domain.evidence import Event
from gate.errors import EvidenceError
from gate.evidence.events import (
    MAX_DEPTH,
    ZERO_HASH,
    EventLog,
    event_line,
    make_event,
    read_events,
    tool_calls,
)
from gate.evidence.redact import Redactor
from tests.builders import TickingClock, a_call, append_all, events_of, some_events


def keep(text: str) -> str:
    return text


def written(path: Path, *values: Any) -> tuple[Event, ...]:
    with EventLog(path, redact=keep, clock=TickingClock()) as log:
        append_all(log, [("thing", {"value": value}) for value in values])
    return log.events


def test_an_event_log_reads_back_as_it_was_appended(tmp_path: Path) -> None:
    events = written(tmp_path / "events.jsonl", "one", 2, {"three": [None, True]})
    assert read_events(tmp_path / "events.jsonl") == events
    assert [event.seq for event in events] == [0, 1, 2]
    assert events[0].prev == ZERO_HASH
    assert [event.prev for event in events[1:]] == [event.hash for event in events[:-1]]


def test_numbers_in_evidence_are_not_rounded(tmp_path: Path) -> None:
    written(tmp_path / "events.jsonl", 1234567.89, 0.1 + 0.2, 10**30)
    read = [event.data["value"] for event in read_events(tmp_path / "events.jsonl")]
    assert read == [1234567.89, 0.1 + 0.2, 10**30]


@pytest.mark.parametrize("value", ["\ud800", "a\0b", "\u2028\u0085\r\n", "x" * 3_000_000, "\ud83d\ude00", "⟦U+0000⟧"])
def test_every_text_survives_the_file(tmp_path: Path, value: str) -> None:
    events = written(tmp_path / "events.jsonl", value, {value[:1000]: 1})
    assert read_events(tmp_path / "events.jsonl") == events
    assert events[0].data["value"].encode("utf-16", "surrogatepass") == value.encode("utf-16", "surrogatepass")


def test_numbers_that_json_does_not_know_are_recorded_by_name(tmp_path: Path) -> None:
    class Level(IntEnum):
        HIGH = 3

    events = written(tmp_path / "events.jsonl", float("nan"), float("-inf"), Level.HIGH)
    assert [event.data["value"] for event in events] == ["NaN", "-Infinity", 3]
    assert read_events(tmp_path / "events.jsonl") == events


def test_what_is_nested_too_deeply_is_recorded_as_text(tmp_path: Path) -> None:
    value: Any = "the core"
    for _ in range(MAX_DEPTH + 200):
        value = [value]
    events = written(tmp_path / "events.jsonl", value)
    assert read_events(tmp_path / "events.jsonl") == events
    assert "the core" in repr(events[0].data)


def test_data_that_is_no_json_is_refused(tmp_path: Path) -> None:
    with (
        EventLog(tmp_path / "events.jsonl", redact=keep, clock=TickingClock()) as log,
        pytest.raises(TypeError, match="bytes"),
    ):
        log.append("thing", value=b"raw")


def test_a_secret_is_redacted_before_the_event_is_hashed(tmp_path: Path) -> None:
    redactor = Redactor({"key": "sk-very-secret", "pin": "12345678"})
    path = tmp_path / "events.jsonl"
    with EventLog(path, redact=redactor, clock=TickingClock()) as log:
        log.append("thing", text="Bearer sk-very-secret", deep=[{"sk-very-secret": 12345678}])
    raw = path.read_text()
    assert "sk-very-secret" not in raw
    assert "12345678" not in raw
    assert redactor.count == 3
    assert read_events(path) == log.events


def test_two_keys_that_redaction_makes_equal_both_stay(tmp_path: Path) -> None:
    redactor = Redactor({"a": "secret-one"})
    marker = redactor.text("secret-one")
    with EventLog(tmp_path / "events.jsonl", redact=redactor, clock=TickingClock()) as log:
        event = log.append("thing", args={marker: 1, "secret-one": 2})
    assert sorted(event.data["args"].values()) == [1, 2]


def test_a_record_is_written_once(tmp_path: Path) -> None:
    written(tmp_path / "events.jsonl", "first")
    with pytest.raises(EvidenceError, match="already there"):
        EventLog(tmp_path / "events.jsonl", redact=keep, clock=TickingClock())


def test_nothing_is_appended_after_closing(tmp_path: Path) -> None:
    log = EventLog(tmp_path / "events.jsonl", redact=keep, clock=TickingClock())
    log.close()
    log.close()
    with pytest.raises(EvidenceError, match="closed"):
        log.append("late")


def broken(path: Path, lines: list[bytes]) -> EvidenceError:
    path.write_bytes(b"".join(lines))
    with pytest.raises(EvidenceError) as caught:
        read_events(path, name="run/events.jsonl")
    assert caught.value.path == "run/events.jsonl"
    return caught.value


@pytest.mark.parametrize(
    ("change", "line", "why"),
    [
        (lambda lines: [*lines[:1], *lines[2:]], 2, "event 2 stands where event 1 should be"),
        (lambda lines: [lines[0], lines[0], *lines[1:]], 2, "event 0 stands where"),
        (lambda lines: [*lines, b"{}\n"], 4, "no event"),
        (lambda lines: [*lines, b"\n"], 4, "not JSON"),
        (lambda lines: [*lines[:2], lines[2].replace(b"three", b"throe")], 3, "does not have the hash"),
        (lambda lines: [*lines[:2], lines[2].replace(b":", b": ", 1)], 3, "not written as the gate writes it"),
        (lambda lines: [*lines[:2], lines[2][:-1]], 3, "cut off"),
        (lambda lines: [*lines[:2], lines[2].replace(b'"three"', b"NaN")], 3, "a number that JSON does not have"),
        (lambda lines: [*lines[:2], lines[2].replace(b'"seq":2', b'"seq":2.0')], 3, "wrong type"),
        (lambda lines: [*lines[:2], lines[2].replace(b'"at_ms":', b'"at_ms":true,"x":')], 3, "no event"),
        (lambda lines: [*lines[:2], b"[" * 100_000 + b"\n"], 3, "not JSON"),
    ],
)
def test_a_broken_record_is_refused_with_its_line(tmp_path: Path, change: Any, line: int, why: str) -> None:
    lines = [event_line(event) for event in written(tmp_path / "good.jsonl", "one", "two", "three")]
    error = broken(tmp_path / "events.jsonl", change(lines))
    assert f"line {line}: " in error.message
    assert why in error.message


def test_a_record_put_together_from_two_runs_is_refused(tmp_path: Path) -> None:
    one = written(tmp_path / "one.jsonl", "a", "b")
    other = written(tmp_path / "other.jsonl", "c", "d")
    error = broken(tmp_path / "events.jsonl", [event_line(one[0]), event_line(other[1])])
    assert "chain is broken" in error.message


def test_a_missing_record_is_refused(tmp_path: Path) -> None:
    with pytest.raises(EvidenceError, match=r"events\.jsonl cannot be read"):
        read_events(tmp_path / "events.jsonl")


def test_calls_are_paired_by_step_and_id_never_by_position() -> None:
    (call_a, result_a), (call_b, result_b) = (
        a_call(1, call_id="a", text="of a"),
        a_call(1, call_id="b", text="of b", status="error"),
    )
    calls = tool_calls(events_of(call_a, call_b, result_b, result_a))
    assert [(call.call_id, call.result, call.status) for call in calls] == [
        ("a", "of a", "success"),
        ("b", "of b", "error"),
    ]


def test_ids_that_start_anew_in_every_step_do_not_mix_up_results() -> None:
    first, second = a_call(1, call_id="0", text="one"), a_call(2, call_id="0", text="two")
    assert [call.result for call in tool_calls(events_of(*first, *second))] == ["one", "two"]


def test_a_call_without_a_result_says_so() -> None:
    call, _ = a_call()
    assert tool_calls(events_of(call))[0].status == "no_result"


def test_arguments_that_were_no_object_are_kept_as_text() -> None:
    (call,) = tool_calls(some_events(*a_call(args=None, raw_args="{oops")))
    assert (call.args, call.raw_args) == (None, "{oops")


def test_the_line_and_the_hash_of_an_event_are_canonical_json() -> None:
    event = make_event(3, "k\ud800", 7, {"b": [1.5, "é"], "a\0": None}, "f" * 64)
    content = [event.seq, event.kind, event.at_ms, event.data, event.prev]
    assert event.hash == sha256_hex(canonical_json(content))
    assert event_line(event) == canonical_json(dict(event)) + b"\n"


def test_equal_content_has_equal_hashes_whatever_the_order_of_keys() -> None:
    assert (
        make_event(0, "k", 1, {"a": 1, "b": 2}, ZERO_HASH).hash
        == make_event(0, "k", 1, {"b": 2, "a": 1}, ZERO_HASH).hash
    )
