"""Laws of the event log and the transcript, over any text whatsoever."""

from __future__ import annotations

import json
import tempfile
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from markdown_it import MarkdownIt

from gate.errors import EvidenceError
from gate.evidence.events import EventLog, read_events, tool_calls
from gate.evidence.redact import Redactor
from gate.evidence.transcript import make_blocks, parse_transcript, render_transcript
from tests.builders import TickingClock, a_call, append_all, events_of, run_entries

any_text = st.text(st.characters(codec=None))
"""Lone surrogates and NUL included."""
structure = st.sampled_from(
    [
        "## [tool_calls] Step 1: bash",
        "## [agent_notes] Step 2: note",
        "## [response]",
        "## [end]",
        "# Transcript",
        "Tool: bash",
        "Return:",
        "Status: success",
        "```",
        "~~~",
        "<!--",
        "-->",
        "---",
        "===",
        "    ",
        "\t",
        "\n",
        "\r",
        "\r\n",
        "\u2028",
        "\u0085",
        "\x0c",
        "\0",
        "\u27e6U+000A\u27e7",
        "\u27e6",
        "U+",
        "B001:1|",
        "\ud800",
        "\udfff",
    ]
)
hostile = st.lists(structure | any_text, max_size=8).map("".join)
json_value = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | any_text,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(any_text, inner, max_size=4),
    max_leaves=12,
)


def joined(value: Any) -> Any:
    """What every JSON reader makes of two surrogates that belong together."""
    return json.loads(json.dumps(value))


@settings(max_examples=120)
@given(
    st.lists(
        st.tuples(
            any_text,
            st.dictionaries(any_text.filter(lambda name: name not in ("self", "kind")), json_value, max_size=4),
        ),
        max_size=6,
    )
)
def test_every_event_survives_the_file(entries: list[tuple[str, dict[str, Any]]]) -> None:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "events.jsonl"
        with EventLog(path, redact=lambda text: text, clock=TickingClock()) as log:
            append_all(log, entries)
        events = read_events(path)
    assert events == log.events
    if all(len(joined(data)) == len(data) for _, data in entries):
        assert [event.data for event in events] == [joined(data) for _, data in entries]


@settings(max_examples=120)
@given(st.data())
def test_no_byte_of_a_record_can_change_unnoticed(data: st.DataObject) -> None:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "events.jsonl"
        with EventLog(path, redact=lambda text: text, clock=TickingClock()) as log:
            append_all(log, run_entries(*a_call(text="总计 1250 \ud800")))
        raw = bytearray(path.read_bytes())
        position = data.draw(st.integers(0, len(raw) - 1))
        raw[position] ^= data.draw(st.integers(1, 255))
        path.write_bytes(bytes(raw))
        with pytest.raises(EvidenceError):
            read_events(path)


@settings(max_examples=120)
@given(
    secret=st.text(min_size=6).filter(lambda text: len(text.strip()) >= 6),
    around=st.lists(any_text, min_size=2, max_size=2),
)
def test_no_secret_is_left_in_a_record(secret: str, around: list[str]) -> None:
    redactor = Redactor({"key": secret})
    marker = redactor.text(secret.strip())
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "events.jsonl"
        text = secret.strip().join(around)
        with EventLog(path, redact=redactor, clock=TickingClock()) as log:
            log.append("thing", a=text, b={text: [text, json.dumps(text)]})
        (event,) = read_events(path)
    left = json.dumps(event.data, ensure_ascii=False).replace(json.dumps(marker, ensure_ascii=False)[1:-1], "")
    assert redactor.count >= 4
    # A secret that is part of the marker itself ("redacted") or of the field names around it cannot vanish.
    if secret.strip() not in marker and secret.strip() not in '{"a": "", "b": {"": ["", ""]}}':
        assert secret.strip() not in left


@settings(max_examples=200)
@given(
    note=hostile,
    tool=hostile,
    args=st.dictionaries(hostile, hostile, max_size=2),
    result=hostile,
    raw=hostile,
    reason=hostile,
)
def test_a_transcript_gives_back_all_data_and_its_structure_is_the_gates(
    note: str, tool: str, args: dict[str, str], result: str, raw: str, reason: str
) -> None:
    entries = run_entries(
        ("note", {"step": 1, "text": note}),
        *a_call(1, tool, args=args, text=result),
        *a_call(2, tool, args=None, raw_args=raw, text=result),
    )
    entries[-1] = ("run_ended", {"outcome": "completed", "reason": reason})
    text = render_transcript(events_of(*entries))
    text.encode()  # no lone surrogate is left, so the file holds exactly this
    sections = parse_transcript(text)
    assert [section.kind for section in sections] == ["agent_notes", "tool_calls", "tool_calls", "response", "end"]
    assert sections[0].fields == {"Text": note}
    first, second = sections[1].fields, sections[2].fields
    assert (first["Tool"], first["Return"], first["Status"]) == (tool, result, "success")
    assert json.loads(first["Args"]) == joined(args)
    assert second["Raw args"] == raw
    assert sections[4].fields["Reason"] == reason
    tokens = MarkdownIt("commonmark").parse(text)
    assert sum(token.type == "heading_open" for token in tokens) == 1 + len(sections)
    assert {token.type for token in tokens if token.level == 0} <= {
        "heading_open", "inline", "heading_close", "paragraph_open", "paragraph_close", "code_block",
    }  # fmt: skip


@given(any_text)
def test_any_text_is_a_transcript_or_an_evidence_error(text: str) -> None:
    for candidate in (text, f"# Transcript\n{text}\n"):
        try:
            parse_transcript(candidate)
        except EvidenceError:
            continue


@settings(max_examples=120)
@given(note=hostile, tool=hostile, result=hostile, response=hostile, output=st.binary(max_size=40))
def test_nothing_that_is_said_moves_into_a_better_tier(
    note: str, tool: str, result: str, response: str, output: bytes
) -> None:
    """R28, R29: a block's tier follows from who wrote the event, whatever the text says."""
    entries = run_entries(("note", {"step": 1, "text": note}), *a_call(1, tool, text=result), response=response)
    blocks = make_blocks(events_of(*entries), {"out.bin": output})
    assert [block.id for block in blocks] == [f"B{number:03d}" for number in range(1, len(blocks) + 1)]
    assert sum(block.tier == 1 for block in blocks) == 1
    assert next(block for block in blocks if block.tier == 1).text.endswith(f"\nReturn:\n{result}")
    assert [block.text for block in blocks if block.tier == 3] == ([note] if note.strip() else [])
    assert [block.text for block in blocks if block.kind == "response"] == ([response] if response.strip() else [])


@given(st.lists(st.tuples(st.integers(1, 3), st.sampled_from("abc")), max_size=8), st.randoms())
def test_results_find_their_calls_in_any_order(ids: list[tuple[int, str]], random: Any) -> None:
    calls, results = [], []
    for number, (step, call_id) in enumerate(dict.fromkeys(ids)):
        call, result = a_call(step, call_id=call_id, text=f"result {number}")
        calls.append((f"result {number}", call))
        results.append(result)
    random.shuffle(results)
    found = tool_calls(events_of(*(call for _, call in calls), *results))
    assert [call.result for call in found] == [expected for expected, _ in calls]
