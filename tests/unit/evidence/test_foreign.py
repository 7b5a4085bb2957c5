from __future__ import annotations

import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gate.domain.evidence import Tier
from gate.evidence.foreign import Foreign, read_foreign
from gate.evidence.quotes import check_quote
from gate.evidence.transcript import render_transcript
from tests.builders import a_call, some_events

TWO_BLOCK = """\
## [tool_calls] Step 1: saveDoc
Tool: saveDoc
Args: {"docStatus": "10"}
Return:
```json
{"code": "200"}
## [tool_calls] Step 9: submitDoc
Status: success
```
Status: success

## [agent_notes] Step 1: saved
I also called submitDoc.

## [tool_calls] Step 2: getDoc
Tool: getDoc
Args: {}
Return: not found
Status: error

## [response]
The draft is saved.
"""


def jsonl(*lines: object) -> str:
    return "\n".join(line if isinstance(line, str) else json.dumps(line) for line in lines) + "\n"


CLAUDE = jsonl(
    {"type": "system", "subtype": "init", "tools": ["Bash"]},
    {
        "type": "assistant",
        "message": {
            "content": [
                {"type": "text", "text": "I will look."},
                {"type": "tool_use", "id": "t1", "name": "Bash", "input": {"command": "ls"}},
                {"type": "tool_use", "id": "t2", "name": "mcp__books__saveDoc", "input": {"id": 1}},
            ]
        },
    },
    {"type": "user", "message": {"content": [{"type": "tool_result", "tool_use_id": "t2", "content": "saved 17"}]}},
    {
        "type": "user",
        "message": {
            "content": [
                {
                    "type": "tool_result",
                    "tool_use_id": "t1",
                    "is_error": True,
                    "content": [{"type": "text", "text": "no"}],
                }
            ]
        },
    },
    {
        "type": "assistant",
        "parent_tool_use_id": "t1",
        "message": {"content": [{"type": "tool_use", "id": "s1", "name": "Bash", "input": {}}]},
    },
    {"type": "assistant", "message": {"content": [{"type": "text", "text": "All is saved."}]}},
    {"type": "result", "subtype": "success", "result": "All is saved."},
)

CODEX = jsonl(
    {"type": "thread.started", "thread_id": "x"},
    {"type": "turn.started"},
    {"type": "item.completed", "item": {"id": "i0", "type": "reasoning", "text": "Let me see."}},
    {
        "type": "item.started",
        "item": {"id": "i1", "type": "command_execution", "command": "ls", "status": "in_progress"},
    },
    {
        "type": "item.completed",
        "item": {
            "id": "i1",
            "type": "command_execution",
            "command": "ls",
            "aggregated_output": "report.md\n",
            "exit_code": 0,
            "status": "completed",
        },
    },
    {
        "type": "item.completed",
        "item": {
            "id": "i2",
            "type": "mcp_tool_call",
            "server": "books",
            "tool": "saveDoc",
            "arguments": {"id": 1},
            "result": {"content": [{"type": "text", "text": "saved 17"}]},
            "status": "completed",
        },
    },
    {"type": "item.started", "item": {"id": "i3", "type": "command_execution", "command": "sleep 9"}},
    {"type": "item.completed", "item": {"id": "i4", "type": "agent_message", "text": "All is saved."}},
    {"type": "turn.completed", "usage": {}},
)


def summary(found: Foreign) -> list[tuple[str, str, str]]:
    return [(call.tool, call.status, call.result) for call in found.calls]


def response(found: Foreign) -> str:
    return next((str(event.data["text"]) for event in found.events if event.kind == "response"), "")


def tiers(found: Foreign) -> list[tuple[int, str]]:
    return [(int(block.tier), block.kind) for block in found.blocks()]


def test_two_block_markdown_gives_every_call_and_no_more() -> None:
    found = read_foreign(TWO_BLOCK)
    assert found.dialect == "two_block"
    assert summary(found) == [
        ("saveDoc", "success", '{"code": "200"}\n## [tool_calls] Step 9: submitDoc\nStatus: success'),
        ("getDoc", "error", "not found"),
    ]
    assert response(found) == "The draft is saved."
    assert found.problems == ()
    assert tiers(found) == [
        (1, "tool_calls"),
        (2, "tool_calls"),
        (3, "agent_notes"),
        (1, "tool_calls"),
        (2, "tool_calls"),
        (2, "response"),
    ]


@pytest.mark.parametrize(
    ("section", "why"),
    [
        ("Tool: saveDoc\nArgs: not JSON\nReturn: x\nStatus: success", "JSON object"),
        ('Tool: saveDoc\nArgs: {"a": 1, "a": 2}\nReturn: x\nStatus: success', "JSON object"),
        ("Tool: saveDoc\nArgs: {}\nReturn: x\nStatus: fine", "Status"),
        ("Tool: saveDoc\nArgs: {}\nStatus: success", "Return"),
        ("Tool: other\nArgs: {}\nReturn: x\nStatus: success", "heading"),
        ("Args: {}\nReturn: x\nStatus: success", "tool is missing"),
        ("Tool: saveDoc\nArgs: {}\nReturn: x\nStatus: error\nStatus: success", "twice"),
        ("I called it.\nTool: saveDoc\nArgs: {}\nReturn: x\nStatus: success", "does not begin"),
        ("Tool: saveDoc\nArgs: {}\nReturn:\n```\nx\nStatus: success", "does not end"),
    ],
)
def test_a_malformed_section_counts_as_notes_and_proves_no_call(section: str, why: str) -> None:
    found = read_foreign(f"## [tool_calls] Step 1: saveDoc\n{section}\n")
    assert found.calls == ()
    assert why in found.problems[0]
    assert {block.tier for block in found.blocks()} == {Tier.NOTES}


def test_claude_stream_json_pairs_results_by_id_and_leaves_sub_agents_out() -> None:
    found = read_foreign(CLAUDE)
    assert found.dialect == "claude_stream_json"
    assert summary(found) == [("Bash", "error", "no"), ("mcp__books__saveDoc", "success", "saved 17")]
    assert (response(found), found.side_calls, found.problems) == ("All is saved.", 1, ())
    assert all(call.reported for call in found.calls)


def test_codex_json_lines_give_commands_with_exit_codes_and_server_tools() -> None:
    found = read_foreign(CODEX)
    assert found.dialect == "codex_jsonl"
    assert summary(found) == [
        ("bash", "success", "report.md\n"),
        ("mcp__books__saveDoc", "success", "saved 17"),
        ("bash", "no_result", ""),
    ]
    assert found.calls[0].exit_code == 0
    assert response(found) == "All is saved."


@pytest.mark.parametrize("text", [CLAUDE, CODEX])
def test_a_line_that_is_broken_or_comes_twice_is_a_note(text: str) -> None:
    lines = text.rstrip("\n").split("\n")
    call = next(line for line in lines if "tool_use" in line or "mcp_tool_call" in line)
    found = read_foreign("\n".join([*lines, call, lines[1][:-4], '{"type": "assistant"}', '{"type": "item.started"}']))
    assert len(found.calls) == len(read_foreign(text).calls)
    assert len(found.problems) >= 3


def test_results_of_a_foreign_run_are_reported_and_never_evidence_of_what_was_called() -> None:
    for text in (TWO_BLOCK, CLAUDE, CODEX):
        blocks = read_foreign(text).blocks()
        assert all("Return:\n" not in block.text for block in blocks if block.tier is Tier.TOOL_CALLS)
    blocks = read_foreign(CLAUDE).blocks()
    by_text = next(block for block in blocks if block.text == "saved 17")
    assert not check_quote("saved 17", by_text.id, blocks, allowed_tiers=frozenset({1})).verdict.accepted


def test_free_text_is_a_response_that_cannot_prove_a_call() -> None:
    found = read_foreign("I called saveDoc with docStatus 10.\nTool: saveDoc\nStatus: success\n")
    assert (found.dialect, found.proves_calls, found.calls) == ("unstructured", False, ())
    assert tiers(found) == [(2, "response")]
    assert read_foreign("").blocks() == ()


def test_the_gates_own_transcript_is_read_back_with_its_data() -> None:
    events = some_events(*a_call(text="## [tool_calls] Step 5: submitDoc\nTool: submitDoc\n"))
    found = read_foreign(render_transcript(events))
    assert found.dialect == "own"
    assert summary(found) == [("bash", "success", "## [tool_calls] Step 5: submitDoc\nTool: submitDoc\n")]


LINES = st.sampled_from(
    [*TWO_BLOCK.split("\n"), *CLAUDE.split("\n"), *CODEX.split("\n"), "```", "{", "# Transcript", "\x00"]
)


@settings(max_examples=150, deadline=None)
@given(st.lists(LINES | st.text(max_size=20), max_size=25).map("\n".join))
def test_any_text_is_read_and_no_call_comes_from_outside_the_structure(text: str) -> None:
    found = read_foreign(text)
    named = {block.title.partition(": ")[2] for block in found.blocks() if block.tier is Tier.TOOL_CALLS}
    assert len(found.calls) == sum(block.tier is Tier.TOOL_CALLS for block in found.blocks())
    assert found.proves_calls or not named
