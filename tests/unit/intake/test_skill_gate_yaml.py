from __future__ import annotations

import re
from typing import Any

import pytest
import yaml
from syrupy.assertion import SnapshotAssertion

from gate.domain.base import Severity
from gate.domain.checks import CHECK_KINDS, Command, JsonField, ToolCallCount
from gate.domain.findings import Finding, Level
from gate.domain.skill import SkillFile
from gate.domain.suite import Case, CaseType, McpWhen, Suite
from gate.intake.suite import building, read_suite, skill_gate_yaml
from tests.builders_skill import a_file, a_skill

FULL = """\
# A suite with every key.
version: 1
cases:
  - id: adds
    name: Adds two numbers
    prompt: |
      Add the numbers in data/in.csv.
    type: e2e
    risk: high
    tag: golden
    source: external
    skip_without_skill: true
    skip_reason: needs the tool
    expected_output: "3"
    files:
      data/in.csv: "1,2\\n"
      run.sh: {text: "echo hi", executable: true}
      big.csv: {from: files/big.csv}
      tree: {from: ../assets}
    checks:
      - {kind: tool_call_count, tool: bash, min: 1, max: 3, severity: should, rule_ref: R1}
      - {kind: json_field, path: out.json, field: "items[0].sum", expected: 3}
      - id: tests
        kind: command
        run: python test.py
        description: the tests pass
    expectations:
      - The answer names the sum.
      - {id: short, text: It is short., severity: must, precision: exact_match, rule_ref: R2}
    mcp_servers:
      - name: tickets
        tools:
          - name: search
            description: Search
            input_schema: {type: object, properties: {q: {type: string}}}
            on_unmatched: fail_case
            responses:
              - {when: {q: {regex: "ref.*"}, n: 3}, times: 2, structured: {ids: [7]}}
              - {when: {q: {absent: true}}, text: nothing, is_error: true}
              - {when: any, result: {text: fallback}}
  - id: 007
    prompt: p
    expectations: [e]
"""


def read(text: str, *files: SkillFile, path: str = "evals/skill-gate.yaml") -> tuple[Suite | None, tuple[Finding, ...]]:
    return read_suite(a_skill(files=(a_file(path, text), *files)))


def case_of(text: str) -> Case:
    suite, findings = read(f"version: 1\ncases:\n  - prompt: p\n{text}")
    assert not [item for item in findings if item.level is Level.ERROR], findings
    assert suite is not None
    return suite.cases[0]


def complaints(text: str) -> list[tuple[int | None, str]]:
    _, findings = read(f"version: 1\ncases:\n  - prompt: p\n{text}")
    return [(item.line, item.message) for item in findings if item.blocks]


def test_every_key_is_read() -> None:
    files = (a_file("evals/files/big.csv", "big"), a_file("assets/a.txt", "a"), a_file("assets/sub/b.txt", "b"))
    text = FULL.replace("../assets", "assets")
    suite, findings = read(text, *files)
    assert findings == ()
    assert suite is not None
    assert (suite.dialect, suite.path) == ("skill-gate", "skills/sums/evals/skill-gate.yaml")
    case = suite.cases[0]
    assert (case.eval_id, case.name, case.prompt, case.line) == (
        "adds", "Adds two numbers", "Add the numbers in data/in.csv.\n", 4,
    )  # fmt: skip
    assert (case.type, case.risk, case.tag, case.source) == (CaseType.E2E, "high", "golden", "external")
    assert (case.skip_without_skill, case.skip_reason, case.expected_output) == (True, "needs the tool", "3")
    assert [(item.path, item.data, item.executable) for item in case.files] == [
        ("data/in.csv", b"1,2\n", False),
        ("run.sh", b"echo hi", True),
        ("big.csv", b"big", False),
        ("tree/a.txt", b"a", False),
        ("tree/sub/b.txt", b"b", False),
    ]
    assert [(item.id, item.severity, item.rule_ref) for item in case.checks] == [
        ("c1", Severity.SHOULD, "R1"), ("c2", Severity.MUST, None), ("tests", Severity.MUST, None),
    ]  # fmt: skip
    assert [item.parameters for item in case.checks] == [
        ToolCallCount(tool="bash", min=1, max=3),
        JsonField(path="out.json", field="items[0].sum", expected=3),
        Command(run="python test.py"),
    ]
    assert [(item.id, item.severity, item.precision) for item in case.expectations] == [
        ("e1", Severity.SHOULD, "semantic"), ("short", Severity.MUST, "exact_match"),
    ]  # fmt: skip
    tool = case.mcp_servers[0].tools[0]
    assert (case.mcp_servers[0].name, tool.name, tool.on_unmatched) == ("tickets", "search", "fail_case")
    first, second, last = tool.responses
    assert first.when == {"q": McpWhen(regex="ref.*"), "n": McpWhen(equals=3)}
    assert (first.times, first.structured) == (2, {"ids": [7]})
    assert (second.when, second.text, second.is_error) == ({"q": McpWhen(absent=True)}, "nothing", True)
    assert (last.when, last.text) == ({}, "fallback")
    assert suite.cases[1].eval_id == "007", "an id is what was written, not a number"


def test_a_path_out_of_the_skill_is_refused() -> None:
    _, findings = read(FULL, a_file("evals/files/big.csv"))
    assert [(item.line, "is refused" in item.message) for item in findings if item.blocks] == [(19, True)]


@pytest.mark.parametrize(
    ("text", "line", "words"),
    [
        ("    expectation: [e]\n", 4, "did you mean expectations?"),
        ("    colour: red\n    expectations: [e]\n", 4, '"colour" is an unknown key of a case; known are'),
        ("    type: happy\n    expectations: [e]\n", 4, "one of happy_path"),
        ("    risk: 3\n    expectations: [e]\n", 4, "low, normal, high"),
        ("    name: 3\n    expectations: [e]\n", 4, "name is the number 3; text was expected"),
        ("    skip_without_skill: maybe\n    expectations: [e]\n", 4, "true or false was expected"),
        ("    expectations: e\n", 4, "expectations is text; a list was expected"),
        ("    expectations:\n      - 3\n", 5, "text was expected"),
        ("    expectations:\n      - {text: e, precison: semantic}\n", 5, "did you mean precision?"),
        ("    expectations:\n      - {id: a, text: e}\n      - {id: a, text: f}\n", 6, "two expectations"),
        ("    checks:\n      - response_contains\n", 5, "kind and parameters"),
        ("    checks:\n      - {keyword: x}\n", 5, "has no kind"),
        ("    checks:\n      - {kind: response_contain, keyword: x}\n", 5, "did you mean response_contains?"),
        ("    checks:\n      - {kind: response_contains}\n", 5, "keyword is missing"),
        ("    checks:\n      - kind: response_contains\n        keyword: 3\n", 6, "keyword: "),
        ("    checks:\n      - kind: response_contains\n        keyword: x\n        ignore-case: true\n", 7, "ignore_case?"),
        ("    checks:\n      - kind: tool_call_count\n        tool: x\n        min: true\n", 7, "min: "),
        ("    checks:\n      - kind: response_word_count\n", 5, "give min or max"),
        ("    checks:\n      - kind: response_matches\n        pattern: '('\n", 6, "no regular expression"),
        ("    checks:\n      - {kind: file_contains, path: x, text: a, pattern: b}\n", 5, "either text or pattern"),
        ("    checks:\n      - {kind: file_exists, path: x, severity: fatal}\n", 5, "must, should, info"),
        ("    checks:\n      - {id: a, kind: file_exists, path: x}\n      - {id: a, kind: file_exists, path: y}\n", 5, "two checks"),
        ("    files: [a]\n    expectations: [e]\n", 4, "workspace paths with contents"),
        ("    files: {../a: x}\n    expectations: [e]\n", 4, "is refused"),
        ("    files: {a: {from: gone}}\n    expectations: [e]\n", 4, "does not exist"),
        ("    files: {a: {text: x, from: y}}\n    expectations: [e]\n", 4, "either text or from"),
        ("    files: {a: 3}\n    expectations: [e]\n", 4, "the number 3"),
        ("    mcp_servers: {a: 1}\n    expectations: [e]\n", 4, "a list was expected"),
        ("    mcp_servers:\n      - {name: a b, tools: [{name: t}]}\n    expectations: [e]\n", 5, "letters, digits"),
        ("    mcp_servers:\n      - {name: a, mode: live, tools: [{name: t}]}\n    expectations: [e]\n", 5, "mock, replay, real was expected"),
        ("    mcp_servers:\n      - {name: a, mode: real, tools: [{name: t, responses: [{text: x}]}]}\n    expectations: [e]\n", 5,
         "a tool of a real server has a name only"),
        ("    mcp_servers:\n      - {name: a, mode: real, tools: [{name: t}], cassette: [{tool: t, text: x}]}\n    expectations: [e]\n", 5,
         "a cassette needs mode: replay"),
        ("    mcp_servers:\n      - {name: a, tools: [{name: t, responses: [{}]}]}\n    expectations: [e]\n", 5, "structured or text"),
        ("    mcp_servers:\n      - {name: a, tools: [{name: t, responses: [{text: x, when: {q: {a: 1, b: 2}}}]}]}\n    expectations: [e]\n",
         5, "exactly one of"),
        ("    mcp_servers:\n      - {name: a, tools: [{name: t, input_schema: {type: 3}}]}\n    expectations: [e]\n", 5, "no JSON Schema"),
        ("    mcp_servers:\n      - {name: a, tools: [{name: t}, {name: t}]}\n    expectations: [e]\n", 5, "two MCP tools"),
    ],
)  # fmt: skip
def test_each_mistake_names_its_line_and_what_was_expected(text: str, line: int, words: str) -> None:
    found = complaints(text)
    assert [place for place, _ in found] == [line], found
    assert words in found[0][1]
    assert found[0][1].startswith("case 1: ")


def test_all_mistakes_of_a_file_are_said_at_once(snapshot: SnapshotAssertion) -> None:
    text = """\
version: 2
case: []
cases:
  - id: a
    type: nonsense
  - id: a
    prompt: p
    expectations: [e]
  - prompt: p
    checks:
      - {kind: tool_call_count, tool: t}
      - {kind: nonsense}
      - {kind: command, run: x, timeout_s: 9000}
    expectations:
      - text: ""
  - just text
"""
    suite, findings = read(text)
    assert suite is None
    assert "\n".join(f"{item.line}:{item.column} {item.message} -> {item.remedy}" for item in findings) == snapshot


@pytest.mark.parametrize(
    ("text", "rule"),
    [
        ("", "suite/not-understood"),
        ("- a", "suite/not-understood"),
        ("version: 1", "suite/invalid"),
        ("version: 1\ncases: 3", "suite/invalid"),
        ("cases: []", "suite/invalid"),
        ("version: true\ncases: []", "suite/invalid"),
        ("version: 1\nversion: 1\ncases: []", "suite/yaml"),
        ("version: 1\ncases:\n - prompt: a: b", "suite/yaml"),
        ("version: 1\n---\nversion: 1", "suite/yaml"),
    ],
)
def test_a_file_that_is_no_suite_blocks(text: str, rule: str) -> None:
    _, findings = read(text)
    assert rule in [item.rule for item in findings if item.blocks]


def test_an_empty_list_of_cases_is_no_evidence() -> None:
    suite, findings = read("version: 1\ncases: []\n")
    assert suite is None
    assert [item.rule for item in findings] == ["suite/no-case"]


def test_a_case_that_measures_nothing_is_left_out_and_said() -> None:
    suite, findings = read("version: 1\ncases:\n  - {id: a, prompt: p}\n  - {id: b, prompt: p, expectations: [e]}\n")
    assert suite is not None
    assert [case.eval_id for case in suite.cases] == ["b"]
    assert [(item.rule, item.line) for item in findings] == [("suite/case-measures-nothing", 3)]


def test_both_files_are_united_and_the_first_wins_an_id() -> None:
    ours = (
        "version: 1\ncases:\n  - {id: a, prompt: ours, expectations: [e]}\n  - {prompt: unnamed, expectations: [e]}\n"
    )
    theirs = '[{"id": "a", "prompt": "theirs", "expectations": ["e"]}, {"prompt": "unnamed", "expectations": ["f"]}]'
    suite, findings = read(ours, a_file("evals/evals.json", theirs))
    assert suite is not None
    assert {case.eval_id: case.prompt for case in suite.cases} == {
        "a": "ours",
        "case-e882bcaa": "unnamed",
        "case-e882bcaa-of-evals-json": "unnamed",
    }
    assert [(item.rule, item.level) for item in findings] == [("suite/same-id", Level.NOTICE)]
    assert suite.dialect == "skill-gate"


def test_file_names_are_found_in_any_case() -> None:
    suite, _ = read("version: 1\ncases:\n  - {prompt: p, expectations: [e]}\n", path="Evals/Skill-Gate.YML")
    assert suite is not None
    assert suite.path == "skills/sums/Evals/Skill-Gate.YML"


def test_the_documented_kinds_and_keys_are_those_that_are_read() -> None:
    words = set(re.findall(r"`([a-z_]+)`", skill_gate_yaml.__doc__ or ""))
    assert set(CHECK_KINDS) <= words
    for key in skill_gate_yaml._CASE_KEYS + skill_gate_yaml._CHECK_KEYS + skill_gate_yaml._EXPECTATION_KEYS:
        assert key in words, key
    for kind in CHECK_KINDS:
        model: Any = building._MODELS[kind]
        assert set(model.model_fields) - {"kind"} <= words, kind


def test_numbers_keep_their_type_in_expected_values() -> None:
    case = case_of("    checks:\n      - {kind: args_field, tool: t, field: f, expected: '10'}\n"
                   "      - {kind: args_field, tool: t, field: f, expected: 10}\n")  # fmt: skip
    assert [getattr(item.parameters, "expected", None) for item in case.checks] == ["10", 10]


def test_the_example_is_yaml_for_others_too() -> None:
    assert yaml.safe_load(FULL)["cases"][0]["id"] == "adds"
