from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from gate.domain.base import Severity
from gate.domain.checks import ArgsField, Command, ResponseContains, ResponseMatches, ResponseNotMatches, ToolCallCount
from gate.domain.findings import Finding, Level
from gate.domain.skill import Skill, SkillFile
from gate.domain.suite import Case, CaseType, Suite
from gate.intake.suite import read_suite
from tests.builders_skill import a_file, a_skill


def a_suite_file(content: Any, path: str = "evals/evals.json") -> SkillFile:
    return a_file(path, content if isinstance(content, str) else json.dumps(content))


def read(content: Any, *files: SkillFile) -> tuple[Suite | None, tuple[Finding, ...]]:
    return read_suite(a_skill(files=(a_suite_file(content), *files)))


def good(content: Any, *files: SkillFile) -> Suite:
    suite, findings = read(content, *files)
    assert not [item for item in findings if item.level is Level.ERROR], findings
    assert suite is not None, findings
    return suite


def one(case: dict[str, Any]) -> Case:
    return good([{"prompt": "Do it.", **case}]).cases[0]


def errors(content: Any, *files: SkillFile) -> list[Finding]:
    return [item for item in read(content, *files)[1] if item.blocks]


def test_the_skill_creator_form_is_read() -> None:
    content = {
        "skill_name": "sums",
        "evals": [
            {"id": 1, "prompt": "Add 1 and 2.", "expected_output": "3", "files": ["evals/files/in.csv"],
             "expectations": ["The answer is 3.", "It is short."]},
        ],
    }  # fmt: skip
    suite = good(content, a_file("evals/files/in.csv", "1,2"))
    assert (suite.path, suite.dialect) == ("skills/sums/evals/evals.json", "skill-creator")
    case = suite.cases[0]
    assert (case.eval_id, case.prompt, case.type, case.expected_output) == (
        "1",
        "Add 1 and 2.",
        CaseType.HAPPY_PATH,
        "3",
    )
    assert [(item.id, item.text, item.severity) for item in case.expectations] == [
        ("e1", "The answer is 3.", Severity.SHOULD),
        ("e2", "It is short.", Severity.SHOULD),
    ]
    assert [(item.path, item.data) for item in case.files] == [("in.csv", b"1,2")]
    assert len(case.digest) == 64


def test_the_agentskills_form_is_read_with_texts_and_objects() -> None:
    content = {
        "evals": [
            {
                "id": "a",
                "prompt": "p",
                "assertions": [
                    "plain text",
                    {"name": "short-name", "description": "A described one."},
                    {"name": "Output", "text": "holds a table"},
                    {"id": "x", "text": "with an id"},
                    {"check": "tests pass", "cmd": "pytest -q", "expect_exit": 1},
                    {"text": "Mentions refunds", "type": "contains", "pattern": "refund"},
                    {"text": "No placeholder", "type": "not_contains", "pattern": r"\{\w+\}"},
                    {"type": "response_word_count", "max": 50, "severity": "should"},
                ],
            }
        ]
    }
    suite = good(content)
    case = suite.cases[0]
    assert suite.dialect == "agentskills"
    assert [(item.id, item.text) for item in case.expectations] == [
        ("e1", "plain text"),
        ("e2", "A described one."),
        ("e3", "holds a table"),
        ("x", "with an id"),
    ]
    command, contains, not_matches, words = case.checks
    assert command.parameters == Command(run="pytest -q", expect_exit=1)
    assert command.description == "tests pass"
    assert contains.parameters == ResponseContains(keyword="refund")
    assert not_matches.parameters == ResponseNotMatches(pattern=r"\{\w+\}"), "literally it could never fail"
    assert words.severity is Severity.SHOULD


def test_names_that_other_tools_give_to_exact_checks_are_understood() -> None:
    case = one({"assertions": [
        {"type": "file_not_exists", "path": "tmp.txt"}, {"type": "equals", "value": "3"}, {"type": "excludes", "value": "x"},
    ]})  # fmt: skip
    assert [check.parameters.kind for check in case.checks] == [
        "file_absent",
        "response_equals",
        "response_not_contains",
    ]


def test_the_skillsentry_list_is_read_with_its_exact_assertions() -> None:
    content = [
        {
            "id": "eval-1", "display_name": "Create", "type": "e2e", "source": "external", "tag": "golden", "prompt": "p",
            "skip_without_skill": True, "skip_reason": "needs the tool",
            "expectations": [{"text": "names the link", "precision": "existence", "rule_ref": "R3"}],
            "assertions": [
                {"name": "once", "type": "tool_call_count", "tool": "saveDoc", "expected_count": 1, "rule_ref": "R1"},
                {"type": "args_field", "tool": "saveDoc", "field": "docStatus", "expected": "10"},
                {"type": "response_not_contains", "pattern": "{fdId}"},
                {"name": "Status is right", "type": "exact_match", "expected": "draft"},
            ],
            "tools_required": ["saveDoc"], "tools_forbidden": ["deleteDoc"], "critical_params": {"saveDoc.kind.id": 7},
            "reply_contains": ["done"], "reply_not_contains": ["sorry"], "min_reply_length": 20,
        }
    ]  # fmt: skip
    suite = good(content)
    case = suite.cases[0]
    assert suite.dialect == "skillsentry"
    assert (case.eval_id, case.name, case.type, case.source, case.tag) == (
        "eval-1",
        "Create",
        CaseType.E2E,
        "external",
        "golden",
    )
    assert (case.skip_without_skill, case.skip_reason) == (True, "needs the tool")
    assert [(item.text, item.precision, item.rule_ref) for item in case.expectations] == [
        ("names the link", "existence", "R3"),
        ("Status is right (expected: draft)", "exact_match", None),
    ]
    assert [check.parameters for check in case.checks][3:] == [
        ToolCallCount(tool="saveDoc", min=1),
        ToolCallCount(tool="deleteDoc", max=0),
        ResponseContains(keyword="done"),
        case.checks[6].parameters,
        ArgsField(tool="saveDoc", field="kind.id", expected=7),
        ResponseMatches(pattern=r"(?s)\A.{20,}"),
    ]
    assert case.checks[1].parameters == ArgsField(tool="saveDoc", field="docStatus", expected="10")
    assert [check.id for check in case.checks] == [f"c{number}" for number in range(1, 10)]


def test_the_nvidia_list_is_read() -> None:
    suite = good(
        [
            {"id": "t1", "question": "q", "expected_skill": "sums", "expected_script": None, "ground_truth": "g",
             "expected_behavior": ["does this", "says that"]},
            {"id": "t2", "question": "q", "should_trigger": False, "expected_behavior": ["declines"]},
        ]
    )  # fmt: skip
    assert suite.dialect == "nvidia"
    assert [item.text for item in suite.cases[0].expectations] == ["does this", "says that"]
    assert suite.cases[0].expected_output == "g"
    assert [case.type for case in suite.cases] == [CaseType.HAPPY_PATH, CaseType.NEGATIVE]


def test_a_byte_order_mark_the_key_cases_and_a_bare_list_are_read() -> None:
    case = {"prompt": "p", "expectations": ["e"]}
    assert len(good("\ufeff" + json.dumps({"cases": [case]})).cases) == 1
    assert len(good([case, case]).cases) == 2
    suite, findings = read(case)
    assert suite is not None
    assert [item.rule for item in findings] == ["suite/single-case"]


def test_ids_are_text_and_a_missing_one_is_made_from_the_name_or_the_prompt() -> None:
    case = {"prompt": "p", "expectations": ["e"]}
    suite = good([{**case, "id": 7}, case, {**case, "id": " x "}, {**case, "id": None}, {**case, "name": "Adds two!"}])
    assert [item.eval_id for item in suite.cases] == ["7", "case-148de9c5", "x", "case-148de9c5-2", "adds-two"]


def test_a_made_id_does_not_change_when_a_case_is_put_before_it_and_never_takes_a_chosen_one() -> None:
    case = {"prompt": "Add 1 and 2.", "expectations": ["e"]}
    alone = good([case]).cases[0]
    moved = good([{"prompt": "New.", "expectations": ["e"]}, {**case, "prompt": "Add 1  and 2.\n"}]).cases[1]
    assert alone.eval_id == moved.eval_id
    chosen = good([{**case, "name": "sum"}, {**case, "id": "sum"}])
    assert [item.eval_id.split("-")[0] for item in chosen.cases] == ["sum", "sum"]
    assert chosen.cases[1].eval_id == "sum"


def test_both_names_work_in_one_case_and_the_same_sentence_counts_once() -> None:
    case = one({"expectations": ["a", "b"], "assertions": ["b", "c"], "expected_behavior": "d"})
    assert [item.text for item in case.expectations] == ["a", "b", "c", "d"]


@pytest.mark.parametrize("typo", ["assertion", "Expectation", "expected-behavior", "asertions", "expectatons"])
def test_a_typo_in_a_check_key_is_an_error_with_file_and_case(typo: str) -> None:
    cases = [
        {"prompt": "one", "assertions": ["x"]},
        {"prompt": "two", "expectations": ["x"]},
        {"prompt": "three", typo: ["x"]},
    ]
    suite, findings = read({"evals": cases})
    assert suite is not None
    found = [item for item in findings if item.blocks]
    assert len(found) == 1
    assert found[0].path == "skills/sums/evals/evals.json"
    assert found[0].message.startswith("case 3: ")
    assert f'"{typo}"' in found[0].message
    assert "did you mean" in found[0].message
    assert [case.prompt for case in suite.cases] == ["one", "two"]


def test_findings_about_cases_name_their_line() -> None:
    text = '{\n "evals": [\n  {"prompt": "p", "expectations": ["e"]},\n  {"prompt": "p",\n   "assertion": ["e"]}\n ]\n}'
    assert [item.line for item in errors(text)] == [4]
    assert good(text.replace('"assertion"', '"assertions"')).cases[1].line == 4


@pytest.mark.parametrize(
    ("case", "words"),
    [
        ({"assertions": [{"type": "magic", "x": 1}]}, '"magic" is not known'),
        ({"assertions": [{"type": "response_contain", "keyword": "x"}]}, "did you mean response_contains?"),
        ({"assertions": [{"type": "tool_call_count", "tool": "x"}]}, "give expected_count, min or max"),
        ({"assertions": [{"type": "tool_call_count", "tool": "x", "min": "1"}]}, "min: "),
        ({"assertions": [{"type": "response_matches", "pattern": "("}]}, "no regular expression"),
        ({"assertions": [{"type": "file_exists"}]}, "has no path"),
        ({"assertions": [{"text": "x", "threshold": 3}]}, "threshold"),
        ({"assertions": [{}]}, "no text"),
        ({"assertions": [7]}, '"7"'),
        ({"assertions": [" "]}, "empty"),
        ({"assertions": 7}, "not a list"),
        ({"expectations": [{"text": "x", "severity": "urgent"}]}, '"urgent"'),
        ({"expectations": [{"text": "x", "precision": "vague"}]}, '"vague"'),
        ({"expectations": [{"id": "a", "text": "x"}, {"id": "a", "text": "y"}]}, "same id"),
        ({"deterministic": [{"x": 1}], "expectations": ["x"]}, "deterministic"),
        ({"expectations": ["x"], "critical_params": {"tool": 1}}, "names no parameter"),
        ({"expectations": ["x"], "tools_required": 7}, "tools_required"),
        ({"expectations": ["x"], "min_reply_length": "long"}, "min_reply_length"),
        ({"expectations": ["x"], "files": "in.csv"}, "files is text"),
        ({"expectations": ["x"], "prompt": " "}, "no prompt"),
        ({"expectations": ["x"], "mcp_servers": [{"name": "t"}]}, "has no tools"),
    ],
)
def test_what_is_not_understood_blocks_and_names_the_case(case: dict[str, Any], words: str) -> None:
    found = errors([{"id": "zero", "prompt": "p", "expectations": ["fine"]}, {"prompt": "p", **case}])
    assert len(found) == 1
    assert words in found[0].message
    assert found[0].message.startswith("case 2: ")


@pytest.mark.parametrize("content", ["[]", '{"evals": []}', '{"cases": []}'])
def test_an_empty_suite_is_no_evidence_and_says_so(content: str) -> None:
    suite, findings = read(content)
    assert suite is None
    assert [(item.rule, item.blocks) for item in findings] == [("suite/no-case", False)]


@pytest.mark.parametrize("case", [{}, {"expected_output": "x"}, {"ground_truth": "x", "expected_behavior": []}])
def test_a_case_that_measures_nothing_is_left_out_and_named(case: dict[str, Any]) -> None:
    suite, findings = read(
        [{"id": "full", "prompt": "p", "expectations": ["e"]}, {"id": "empty", "prompt": "p", **case}]
    )
    assert suite is not None
    assert [item.eval_id for item in suite.cases] == ["full"]
    assert [item.rule for item in findings] == ["suite/case-measures-nothing"]
    assert '"empty"' in findings[0].message


def test_a_set_of_trigger_queries_alone_is_a_suite_without_cases() -> None:
    suite, findings = read([{"query": "q", "should_trigger": True}, {"prompt": "r", "should_trigger": False}])
    assert suite is not None
    assert (suite.cases, [item.should_trigger for item in suite.triggers]) == ((), [True, False])
    assert "2 trigger queries (1 should open the skill, 1 should not)" in findings[0].message


@pytest.mark.parametrize(
    ("text", "line", "words"),
    [
        ("{", 1, "not JSON"),
        ('[\n{"prompt": "p",}\n]', 2, "not JSON"),
        ('{"evals": [],\n "evals": []}', 2, '"evals" is there twice'),
        ("[NaN]", 1, "NaN"),
        ("7", 1, "not understood"),
        ("{}", 1, "not understood"),
        ('{"skills": [], "policies": []}', 1, "skills, policies"),
        ('{"evals": {"a": 1}}', 1, "evals is an object"),
        ("[1]", 1, "a number"),
        ('[{"prompt": "\\ud800", "expectations": ["x"]}]', 1, "surrogate"),
        ("[" * 100_000, 1, "JSON"),
        ("[" * 65 + "]" * 65, 1, "nested deeper than 64"),
        ('{"evals": [{"prompt": "p", "mcp_servers": ' + "[" * 900 + "]" * 900 + "}]}", 1, "nested deeper"),
    ],
)
def test_a_file_that_is_not_understood_is_named_with_the_reason(text: str, line: int, words: str) -> None:
    found = errors(text)
    assert len(found) == 1
    assert found[0].line == line
    assert words in found[0].message
    assert found[0].path == "skills/sums/evals/evals.json"


def test_a_link_that_was_checked_out_as_text_is_recognised() -> None:
    assert "looks like a link" in errors("../../shared/evals.json")[0].remedy


def test_a_case_whose_fixtures_are_missing_or_escape_is_left_out_and_is_no_evidence() -> None:
    case = {"prompt": "p", "expectations": ["e"]}
    suite, findings = read(
        [
            {**case, "id": "whole", "files": ["a.csv"]},
            {**case, "id": "torn", "files": ["a.csv", "gone.csv", "../../secret", "/etc/passwd"]},
        ],
        a_file("evals/a.csv"),
    )
    assert suite is not None
    assert [item.eval_id for item in suite.cases] == ["whole"]
    assert [item.path for item in suite.cases[0].files] == ["a.csv"]
    assert [(item.rule, item.level, item.blocks) for item in findings] == [
        ("suite/case-not-run", Level.ERROR, False)
    ] * 3
    assert 'case "torn"' in findings[0].message
    assert "gone.csv" in findings[0].message


def test_files_are_looked_for_below_the_evals_and_the_skill_folder_and_folders_bring_all() -> None:
    suite = good(
        [{"prompt": "p", "expectations": ["e"], "files": ["files/data", "assets/x.txt"]}],
        a_file("evals/files/data/a.csv"),
        a_file("evals/files/data/sub/run.sh", mode="100755"),
        a_file("assets/x.txt"),
    )
    assert [(item.path, item.executable) for item in suite.cases[0].files] == [
        ("data/a.csv", False),
        ("data/sub/run.sh", True),
        ("assets/x.txt", False),
    ]


def test_a_linked_file_is_not_followed() -> None:
    suite, findings = read(
        [{"prompt": "p", "expectations": ["e"], "files": ["x"]}], a_file("evals/x", "/etc/passwd", "120000")
    )
    assert suite is None
    assert "links are not followed" in findings[0].message


def test_a_linked_suite_blocks() -> None:
    _, findings = read_suite(a_skill(files=(a_file("evals/evals.json", "../x.json", "120000"),)))
    assert [item.rule for item in findings if item.blocks] == ["suite/link"]


def test_two_cases_with_one_id_are_an_error() -> None:
    case = {"id": "a", "prompt": "p", "expectations": ["e"]}
    assert "twice" in errors([case, case])[0].message


def test_an_id_that_is_no_name_is_an_error() -> None:
    found = errors([{"id": True, "prompt": "p", "expectations": ["e"]}])
    assert [item.message for item in found] == ["case 1: id is true or false; text or a number was expected"]


def test_another_skill_name_and_unknown_keys_are_said() -> None:
    _, findings = read({"skill_name": "other", "evals": [{"prompt": "p", "expectations": ["e"], "colour": 1}]})
    assert [item.rule for item in findings] == ["suite/skill-name", "suite/unknown-keys"]


def test_a_skill_without_evals_has_no_suite_and_no_finding() -> None:
    assert read_suite(a_skill()) == (None, ())


def test_files_that_look_like_evals_and_are_not_understood_are_named() -> None:
    files = (
        a_file("eval.yaml", "colour: red"),
        a_file("evals/palette.json", '{"red": 1}'),
        a_file("evals/files/data.json", '{"prompt": 1}'),
        a_file("evals/notes.txt"),
    )
    suite, findings = read_suite(a_skill(files=files))
    assert suite is None
    assert [(item.rule, item.blocks) for item in findings] == [("suite/not-read", False)]
    assert "2 files" in findings[0].message
    assert "eval.yaml (keys colour), evals/palette.json (keys red)" in findings[0].message


@pytest.mark.parametrize("path", ["eval.yaml", "evals/trigger_eval.json", "evals/x.eval.yaml", "evals/one/case.yaml"])
def test_a_file_whose_name_says_that_it_is_a_suite_must_be_readable(path: str) -> None:
    _, findings = read_suite(a_skill(files=(a_file(path, "{ a: [ "),)))
    assert [item.blocks for item in findings] == [True]
    assert findings[0].path == f"skills/sums/{path}"
    _, findings = read_suite(a_skill(files=(a_file("evals/broken.yaml", "{ a: [ "),)))
    assert [(item.blocks, "not read" in item.message) for item in findings] == [(False, True)]


def test_the_digest_changes_with_what_a_case_says_and_not_with_where_it_stands() -> None:
    text = json.dumps([{"id": "a", "prompt": "p", "expectations": ["e"]}])
    first = good(text).cases[0]
    moved = good("\n\n" + text).cases[0]
    assert first.line != moved.line
    assert first.digest == moved.digest
    assert first.digest != good(text.replace('"e"', '"f"')).cases[0].digest
    assert first.digest != one({"id": "a", "prompt": "p", "expectations": ["e"], "skip_without_skill": True}).digest


def test_real_suites_are_read_whole(shared_dir: Path) -> None:
    found: dict[str, tuple[str, int, int]] = {}
    for path in sorted((shared_dir / "corpus").rglob("evals.json")):
        data = path.read_bytes()
        file = a_file("evals/evals.json").model_copy(update={"data": data, "size_bytes": len(data)})
        skill: Skill = a_skill(f"skills/{path.parent.parent.name}", files=(file,))
        suite, findings = read_suite(skill)
        assert not [item for item in findings if item.level is Level.ERROR], (path, findings)
        if suite is None:
            assert json.loads(data) == [], path
        else:
            items = json.loads(data)
            items = items["evals"] if isinstance(items, dict) else items
            texts = sum(len(item.get("assertions", item.get("expected_behavior", []))) for item in items)
            assert (len(suite.cases), sum(len(case.expectations) for case in suite.cases)) == (len(items), texts), path
            found[skill.name] = (suite.dialect, len(suite.cases), texts)
    assert {dialect for dialect, _, _ in found.values()} == {"agentskills", "nvidia"}
    assert len(found) >= 12
