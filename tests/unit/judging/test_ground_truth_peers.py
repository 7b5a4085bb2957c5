"""Defects seen in other tools' checks: the smallest input on which each is wrong, and what is right.

Each row has a few lines that decide as the tool was seen to decide; they must be wrong, or the row shows nothing.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from pydantic import TypeAdapter, ValidationError

from gate.domain.checks import Check, CheckParameters
from gate.domain.evidence import Event, Outcome, RunRecord
from gate.domain.judgement import CheckStatus
from gate.domain.suite import Case, FixtureFile
from gate.evidence.events import ZERO_HASH, make_event, tool_calls
from gate.evidence.transcript import render_transcript
from gate.judging.ground_truth import check_run
from gate.judging.ground_truth.trivial import trivia
from tests.builders_judging import Call, a_run

PASSED, FAILED, NOT_RUN = CheckStatus.PASSED, CheckStatus.FAILED, CheckStatus.NOT_RUN
_PARAMETERS: TypeAdapter[CheckParameters] = TypeAdapter(CheckParameters)


class Defect(NamedTuple):
    """One row."""

    who: str
    what: str
    run: dict[str, Any]
    check: dict[str, Any]
    right: CheckStatus
    seen: Callable[[Path, RunRecord], bool]
    """Whether the other tool says that it passed."""
    fixture: Mapping[str, bytes] = {}


def transcript(root: Path, record: RunRecord) -> str:
    return (root / record.key.folder / "outputs" / "transcript.md").read_text()


def first_section(record: RunRecord) -> str:
    """As far as a pattern reads that ends at the first block of notes, with a note after each call."""
    sections = (f"## [tool_calls] Step {call.step}\nTool: {call.tool}\n## [agent_notes]\n" for call in record.calls)
    return "".join(sections).split("## [agent_notes]")[0]


def response(record: RunRecord) -> str:
    return record.response or ""


TODO = {"response": "Results\n\nTODO: fill in the totals"}
DEFECTS = [
    Defect(
        "SkillSentry", "a count takes every name that begins so",
        {"calls": [Call("saveDocV2")]},
        {"kind": "tool_call_count", "tool": "saveDoc", "expected_count": 1}, FAILED,
        lambda root, record: len(re.findall(r"Tool: saveDoc", transcript(root, record))) == 1,
    ),
    Defect(
        "SkillSentry", "only the calls before the first note are counted",
        {"calls": [Call("save"), Call("save")], "notes": ["now the second"]},
        {"kind": "tool_call_count", "tool": "save", "expected_count": 2}, PASSED,
        lambda root, record: first_section(record).count("Tool: save") == 2,
    ),
    Defect(
        "SkillSentry", "an argument is looked for in the first call only",
        {"calls": [Call("save", {"state": "20"}), Call("save", {"state": "10"})]},
        {"kind": "args_field", "tool": "save", "field": "state", "expected": "10"}, PASSED,
        lambda root, record: (record.calls[0].args or {}).get("state") == "10",
    ),
    Defect(
        "SkillSentry", "and so a later call with the wrong argument goes unseen",
        {"calls": [Call("save", {"state": "10"}), Call("save", {"state": "20"})]},
        {"kind": "args_field", "tool": "save", "field": "state", "expected": "10", "which": "all"}, FAILED,
        lambda root, record: (record.calls[0].args or {}).get("state") == "10",
    ),
    Defect(
        "SkillSentry", "a result that is no JSON counts as made up",
        {"calls": [Call("bash", {"command": "python -m pytest"}, "3 passed in 0.1s")]},
        {"kind": "tool_result_contains", "tool": "bash", "text": "3 passed"}, PASSED,
        lambda root, record: record.calls[0].result.startswith("{") and "3 passed" in record.calls[0].result,
    ),
    Defect(
        "agent-skill-eval", "'contains no TODO' is read as 'contains TODO'",
        TODO, {"kind": "response_contains_none", "texts": ["TODO"]}, FAILED,
        lambda root, record: "TODO" in response(record),
    ),
    Defect(
        "agent-skill-eval", "of 'contains alpha and beta' one is enough",
        {"response": "only alpha"}, {"kind": "response_contains_all", "texts": ["alpha", "beta"]}, FAILED,
        lambda root, record: any(word in response(record) for word in ("alpha", "beta")),
    ),
    Defect(
        "agent-skill-eval", "'no file ERRORS.md exists' is read as 'ERRORS.md exists'",
        {"files": {"ERRORS.md": b"boom"}}, {"kind": "file_absent", "path": "ERRORS.md"}, FAILED,
        lambda root, record: any(item.path == "ERRORS.md" for item in record.files),
    ),
    Defect(
        "agent-skill-eval", "'the answer is valid JSON' holds because some file is",
        {"response": "It is {a: 1}", "files": {"package.json": b"{}"}},
        {"kind": "json_schema", "path": "response", "definition": True}, NOT_RUN,
        lambda root, record: any(item.path.endswith(".json") for item in record.files),
    ),
    Defect(
        "several", "a file that was there before counts as produced",
        {"files": {"report.md": b"old"}, "fixture": {"report.md": b"old"}},
        {"kind": "file_exists", "path": "report.md"}, FAILED,
        lambda root, record: any(item.path == "report.md" for item in record.files),
        {"report.md": b"old"},
    ),
    Defect(
        "several", "a file that was only asked to be kept may be gone",
        {"files": {}, "fixture": {"keep.md": b"k"}},
        {"kind": "files_changed_only", "paths": ["out.md"]}, FAILED,
        lambda root, record: all(item.fixture == "unchanged" or item.path == "out.md" for item in record.files),
        {"keep.md": b"k"},
    ),
    Defect(
        "several", "a command that is printed counts as run",
        {"calls": [Call("bash", {"command": "echo 'next: npm test'"})]},
        {"kind": "command_ran", "text": "npm test"}, FAILED,
        lambda root, record: any("npm test" in str(call.args) for call in record.calls),
    ),
    Defect(
        "several", "a command counts that only begins so",
        {"calls": [Call("bash", {"command": "npm test-docs"})]},
        {"kind": "command_ran", "text": "npm test"}, FAILED,
        lambda root, record: any(str((call.args or {}).get("command")).startswith("npm test") for call in record.calls),
    ),
    Defect(
        "several", "order is compared by the first call of each tool",
        {"calls": [Call("write"), Call("read"), Call("write")]},
        {"kind": "tool_call_order", "order": ["read", "write"]}, PASSED,
        lambda root, record: [call.tool for call in record.calls].index("read")
        < [call.tool for call in record.calls].index("write"),
    ),
    Defect(
        "several", "what the agent says of a tool counts as the tool's result",
        {"calls": [Call("bash", {}, "2 failed")], "response": "bash says: 0 failed"},
        {"kind": "tool_result_contains", "tool": "bash", "text": "0 failed"}, FAILED,
        lambda root, record: "0 failed" in transcript(root, record) + response(record),
    ),
    Defect(
        "several", "a run that died early did nothing forbidden, so it passes",
        {"outcome": Outcome.TIMEOUT, "calls": [Call("read")]},
        {"kind": "tool_call_forbidden", "tools": ["drop"]}, NOT_RUN,
        lambda root, record: all(call.tool != "drop" for call in record.calls),
    ),
    Defect(
        "several", "no response holds no forbidden word",
        {"response": " "}, {"kind": "response_contains_none", "texts": ["sorry"]}, NOT_RUN,
        lambda root, record: "sorry" not in response(record),
    ),
    Defect(
        "several", "a figure that nobody recorded is zero, and zero is within every budget",
        {}, {"kind": "run_budget", "max_tokens": 100}, NOT_RUN,
        lambda root, record: (record.metrics.total_tokens or 0) <= 100,
    ),
    Defect(
        "several", "numbers are compared as texts, or texts as numbers",
        {"calls": [Call("save", {"n": "10"})]},
        {"kind": "args_field", "tool": "save", "field": "n", "expected": 10}, FAILED,
        lambda root, record: str((record.calls[0].args or {}).get("n")) == str(10),
    ),
    Defect(
        "several", "of two keys with one name the last wins unseen",
        {"files": {"r.json": b'{"ok": false, "ok": true}'}},
        {"kind": "json_field", "path": "r.json", "field": "ok", "expected": True}, NOT_RUN,
        lambda root, record: json.loads(b'{"ok": false, "ok": true}')["ok"] is True,
    ),
    Defect(
        "SkillSentry", "a heading in a code block is a heading",
        {"response": "```\n## Risks\n```"}, {"kind": "response_headings", "headings": ["## Risks"]}, FAILED,
        lambda root, record: re.search(r"(?m)^## Risks$", response(record)) is not None,
    ),
]  # fmt: skip


@pytest.mark.parametrize("defect", DEFECTS, ids=lambda item: f"{item.who}: {item.what}")
def test_where_another_tool_was_seen_to_be_wrong_this_one_is_right(tmp_path: Path, defect: Defect) -> None:
    record = a_run(tmp_path, **defect.run)
    parameters = _PARAMETERS.validate_json(json.dumps(defect.check), strict=True)
    files = tuple(FixtureFile(path=path, data=data) for path, data in defect.fixture.items())
    case = Case(eval_id="one", prompt="p", files=files, checks=(Check(id="c1", parameters=parameters),))

    (result,) = check_run(case, record, tmp_path, None)

    assert result.status is defect.right, result.found
    assert defect.seen(tmp_path, record) is not (defect.right is PASSED), "the row must show the other tool's mistake"


@pytest.mark.parametrize(
    "empty",
    [
        {"kind": "response_contains", "keyword": ""},
        {"kind": "response_contains_all", "texts": []},
        {"kind": "response_contains_any", "texts": ["", "x"]},
        {"kind": "response_not_contains", "pattern": ""},
        {"kind": "response_equals", "text": ""},
        {"kind": "tool_call_forbidden", "tools": []},
        {"kind": "tool_call_count", "tool": "save"},
        {"kind": "run_budget"},
        {"kind": "file_not_contains", "path": "a", "text": ""},
    ],
)
def test_a_check_that_expects_nothing_is_refused_where_upskill_lets_it_pass(empty: dict[str, Any]) -> None:
    with pytest.raises(ValidationError):
        _PARAMETERS.validate_json(json.dumps(empty), strict=True)


def test_a_case_without_an_assertion_has_no_results_where_skill_lens_reports_all_passed(tmp_path: Path) -> None:
    case = Case(eval_id="one", prompt="p")
    assert check_run(case, a_run(tmp_path), tmp_path, None) == ()
    assert trivia(case, run_date="2026-01-31").null_agent is None


def test_no_check_is_left_out_of_the_results_where_others_skip_what_they_cannot_answer(tmp_path: Path) -> None:
    unanswerable = (
        {"kind": "file_contains", "path": "none.md", "text": "x"},
        {"kind": "response_matches", "pattern": "(a+)+$"},
        {"kind": "json_matches", "path": "response", "field": "a", "present": True},
        {"kind": "csv_cell", "path": "none.csv", "column": "a", "row": 1, "expected": 1},
    )
    checks = tuple(
        Check(id=f"c{number}", parameters=_PARAMETERS.validate_python(item)) for number, item in enumerate(unanswerable)
    )
    record = a_run(tmp_path, response="no JSON here")
    results = check_run(Case(eval_id="one", prompt="p", checks=checks), record, tmp_path, None)
    assert [result.check_id for result in results] == ["c0", "c1", "c2", "c3"]
    assert PASSED not in {result.status for result in results}


def test_calls_are_paired_with_their_results_by_id_where_others_pair_by_position() -> None:
    data: list[tuple[str, dict[str, Any]]] = [
        ("tool_call", {"step": 1, "call_id": "a", "tool": "read", "args": {}}),
        ("tool_call", {"step": 1, "call_id": "b", "tool": "drop", "args": {}}),
        ("tool_result", {"step": 1, "call_id": "b", "tool": "drop", "status": "error", "text": "refused"}),
        ("tool_result", {"step": 1, "call_id": "a", "tool": "read", "status": "success", "text": "fine"}),
    ]
    events: list[Event] = []
    for seq, (kind, values) in enumerate(data):
        events.append(make_event(seq, kind, 0, values, events[-1].hash if events else ZERO_HASH))
    assert [(call.tool, call.status, call.result) for call in tool_calls(events)] == [
        ("read", "success", "fine"),
        ("drop", "error", "refused"),
    ]
    assert render_transcript(events).index("refused") > render_transcript(events).index("fine")
