from __future__ import annotations

import json
from typing import Any

import pytest
from pydantic import TypeAdapter

from gate.domain.base import Severity
from gate.domain.checks import Check, CheckParameters
from gate.domain.findings import Level
from gate.domain.judgement import CheckStatus
from gate.domain.suite import Case, Expectation, FixtureFile, Suite
from gate.judging.ground_truth.trivial import CaseTrivia, suite_trivia, trivia, without_a_run

DAY = "2026-01-31"
_PARAMETERS: TypeAdapter[CheckParameters] = TypeAdapter(CheckParameters)


def a_case(*checks: dict[str, Any], expectations: tuple[Expectation, ...] = ()) -> Case:
    return Case(
        eval_id="one",
        prompt="p",
        files=(FixtureFile(path="in.csv", data=b"a,b\n1,2\n"), FixtureFile(path="old.json", data=b'{"n": 1}')),
        checks=tuple(
            Check(
                id=f"c{number}",
                severity=item.pop("severity", Severity.MUST),
                parameters=_PARAMETERS.validate_json(json.dumps(item)),
            )
            for number, item in enumerate(checks, 1)
        ),
        expectations=expectations,
        line=7,
    )


@pytest.mark.parametrize(
    ("check", "is_trivial"),
    [
        ({"kind": "file_exists", "path": "in.csv"}, False),
        ({"kind": "file_contains", "path": "in.csv", "text": "1,2"}, True),
        ({"kind": "json_field", "path": "old.json", "field": "n", "expected": 1}, True),
        ({"kind": "csv_cell", "path": "in.csv", "column": "b", "row": 1, "expected": 2}, True),
        ({"kind": "file_unchanged", "path": "in.csv"}, True),
        ({"kind": "file_absent", "path": "x"}, True),
        ({"kind": "file_absent", "path": "x", "deleted": True}, False),
        ({"kind": "files_changed_only", "paths": []}, True),
        ({"kind": "tool_call_count", "tool": "t", "max": 0}, True),
        ({"kind": "tool_call_count", "tool": "t", "min": 1}, False),
        ({"kind": "tool_call_forbidden", "tools": ["t"]}, True),
        ({"kind": "run_budget", "max_tokens": 5}, True),
        ({"kind": "skill_opened", "opened": False}, True),
        ({"kind": "response_not_contains", "pattern": "x"}, False),
        ({"kind": "response_contains_none", "texts": ["x"]}, False),
        ({"kind": "response_word_count", "max": 100}, False),
        ({"kind": "json_schema", "path": "old.json", "definition": {"required": ["n"]}}, True),
        ({"kind": "command", "run": "true"}, False),
        ({"kind": "produced_code"}, False),
    ],
)
def test_a_check_that_passes_before_anybody_did_anything_is_trivial(check: dict[str, Any], is_trivial: bool) -> None:
    assert trivia(a_case(check), run_date=DAY).trivial == (("c1",) if is_trivial else ())


def test_a_case_is_passed_by_a_null_agent_where_every_check_that_counts_is() -> None:
    guard = {"kind": "response_not_contains", "pattern": "sorry"}
    work = {"kind": "response_contains", "keyword": "1250"}
    assert trivia(a_case(dict(guard)), run_date=DAY) == CaseTrivia("one", (), "Done.")
    assert trivia(a_case(dict(guard), dict(work)), run_date=DAY).null_agent is None
    assert trivia(a_case(dict(guard), {**work, "severity": "info"}), run_date=DAY).null_agent == "Done."
    assert trivia(a_case({"kind": "file_absent", "path": "x"}), run_date=DAY).null_agent == ""


def test_an_expectation_that_counts_stops_a_null_agent_since_it_needs_a_quote() -> None:
    guard = {"kind": "response_not_contains", "pattern": "sorry"}
    expectation = Expectation(id="e1", text="It names the total.")
    case = a_case(guard, expectations=(expectation,))
    assert trivia(case, run_date=DAY).null_agent is None
    informing = expectation.model_copy(update={"severity": Severity.INFO})
    assert trivia(case.model_copy(update={"expectations": (informing,)}), run_date=DAY).null_agent == "Done."


def test_a_case_without_checks_is_not_said_to_be_passed() -> None:
    assert trivia(a_case(), run_date=DAY) == CaseTrivia("one", (), None)
    assert trivia(a_case({"kind": "file_absent", "path": "x", "severity": "info"}), run_date=DAY).null_agent is None


def test_a_check_that_needs_an_engine_leaves_the_case_open() -> None:
    assert trivia(a_case({"kind": "command", "run": "true"}), run_date=DAY) == CaseTrivia("one", (), None)


def test_a_reference_solution_shows_which_check_is_wrong() -> None:
    case = a_case(
        {"kind": "file_golden", "path": "out.txt", "expected": "2\n"},
        {"kind": "response_equals", "text": "It is 2"},
        {"kind": "file_unchanged", "path": "in.csv"},
    )
    results = without_a_run(case, run_date=DAY, response="It is 2.", files={"out.txt": b"2\n"})
    assert [item.status for item in results] == [CheckStatus.PASSED, CheckStatus.FAILED, CheckStatus.PASSED]


def test_findings_name_the_case_its_checks_and_its_line() -> None:
    work = {"kind": "response_contains", "keyword": "1250"}
    guard = {"kind": "file_absent", "path": "x"}
    suite = Suite(
        path="skills/a/evals/skill-gate.yaml",
        dialect="skill-gate",
        cases=(
            a_case(dict(guard), dict(work)),
            a_case(dict(guard)).model_copy(update={"eval_id": "two"}),
            a_case(dict(work)).model_copy(update={"eval_id": "three"}),
        ),
    )
    notice, warning = suite_trivia(suite, run_date=DAY)
    assert (notice.rule, notice.level, notice.line) == ("suite/trivial-check", Level.NOTICE, 7)
    assert 'case "one": trivial on the untouched fixture, without a response: c1 (file_absent)' in notice.message
    assert (warning.rule, warning.level) == ("suite/idle-agent-passes", Level.WARNING)
    assert 'case "two": an agent that does nothing and answers nothing passes every check of it' in warning.message
