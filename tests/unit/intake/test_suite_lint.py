from __future__ import annotations

import json
from typing import Any

import pytest
import yaml

from gate.domain.findings import Level
from gate.intake.suite import building, read_suite
from gate.intake.suite.lint import MAX_LINTS, as_yaml, could_be_exact
from tests.builders_skill import a_file, a_skill


@pytest.mark.parametrize(
    ("text", "check"),
    [
        ("The answer is at most 20 words.", {"kind": "response_word_count", "max": 20}),
        ("Response stays under 150 words", {"kind": "response_word_count", "max": 149}),
        ("At least ten words", {"kind": "response_word_count", "min": 10}),
        ("The summary is between 50 and 80 words long", {"kind": "response_word_count", "min": 50, "max": 80}),
        ("回复不超过 200 字", {"kind": "response_word_count", "max": 200}),
        ('The response contains the phrase "net income"', {"kind": "response_contains", "keyword": "net income"}),
        ("包含“人工审批”字样", {"kind": "response_contains", "keyword": "人工审批"}),
        ("The answer does not mention the word `TODO`.", {"kind": "response_not_contains", "pattern": "TODO", "ignore_case": True}),
        ("回复中不出现「错误」字样", {"kind": "response_not_contains", "pattern": "错误", "ignore_case": True}),
        ("The agent creates a file named `out/report.md`", {"kind": "file_exists", "path": "out/report.md"}),
        ("sum.txt is created", {"kind": "file_exists", "path": "sum.txt"}),
        ("Has a level-2 heading", {"kind": "response_has_heading", "level": 2}),
        ('Starts with an H1 heading "Total"', {"kind": "response_has_heading", "level": 1, "text": "Total"}),
        ("Calls saveDoc exactly once", {"kind": "tool_call_count", "tool": "saveDoc", "expected_count": 1}),
        ("The agent never calls `deleteDoc`", {"kind": "tool_call_count", "tool": "deleteDoc", "max": 0}),
    ],
)  # fmt: skip
def test_a_sentence_that_says_only_what_a_program_can_decide_gets_the_check_to_paste(
    text: str, check: dict[str, Any]
) -> None:
    assert could_be_exact(text) == check
    pasted = yaml.load(as_yaml(check), Loader=yaml.CSafeLoader)[0]
    assert pasted == check
    kind = pasted.pop("kind")
    assert building.parameters(kind, pasted)[1] == []


@pytest.mark.requirements("R35", "R36", "R57", "R64")
@pytest.mark.parametrize(
    "text",
    [
        "The answer is at most 20 words and polite.",
        "Explains in under 20 words why the sum is right",
        "Mentions that the 'sum' is an estimate",
        "The answer contains no `TODO` markers",
        'Contains "alpha" and "beta"',
        "No file `ERRORS.md` exists unless something failed",
        "Creates a file that describes the sum",
        "Runs scripts/add.py",
        "The report under 3 headings is complete",
        "Does not call the user rude names",
        "Reads about 20 words",
        "Has an H9 heading",
        "",
    ],
)
def test_prose_that_says_more_stays_with_the_grader(text: str) -> None:
    assert could_be_exact(text) is None


def test_the_lint_names_file_case_and_line_and_leaves_the_expectation_in_place() -> None:
    text = '{"evals": [\n{"id": "a", "prompt": "p", "expectations": ["At most 5 words", "Is kind"]}]}'
    suite, findings = read_suite(a_skill(files=(a_file("evals/evals.json", text),)))
    assert suite is not None
    assert [item.text for item in suite.cases[0].expectations] == ["At most 5 words", "Is kind"]
    (found,) = findings
    assert (found.rule, found.level, found.path, found.line) == (
        "suite/could-be-exact", Level.NOTICE, "skills/sums/evals/evals.json", 2,
    )  # fmt: skip
    assert found.remedy.endswith("- {kind: response_word_count, max: 5}")


def test_many_lints_of_one_suite_are_cut_and_counted() -> None:
    cases = [{"id": str(n), "prompt": "p", "expectations": [f"At most {n + 1} words"]} for n in range(MAX_LINTS + 7)]
    _, findings = read_suite(a_skill(files=(a_file("evals/evals.json", json.dumps(cases)),)))
    found = [item for item in findings if item.rule == "suite/could-be-exact"]
    assert len(found) == MAX_LINTS + 1
    assert "7 more" in found[-1].message


def test_a_check_on_a_tool_that_no_run_offers_is_said() -> None:
    def rules(checks: list[dict[str, Any]], **case: Any) -> list[str]:
        document = {"version": 1, "cases": [{"id": "a", "prompt": "p", "checks": checks, **case}]}
        _, findings = read_suite(a_skill(files=(a_file("evals/skill-gate.yaml", yaml.safe_dump(document)),)))
        return [item.rule for item in findings]

    never = {"kind": "tool_call_count", "tool": "deleteDoc", "max": 0}
    assert rules([never]) == ["suite/unknown-tool"], "it could never fail"
    assert rules([{**never, "tool": "bash"}, {**never, "tool": "mcp__docs__deleteDoc"}]) == []


def test_no_sentence_takes_long() -> None:
    for piece in ("a" * 20_000, "at most " * 5_000, "/a" * 10_000 + ".b", "`" * 10_000, "creates " + "x-" * 20_000):
        assert could_be_exact(piece) is None
