"""What a change of a suite takes away, for cases without ids and for the newer check kinds."""

from __future__ import annotations

import json
from typing import Any

import pytest

from gate.domain.checks import CHECK_KINDS, Check
from gate.domain.suite import Suite
from gate.intake.suite import building, read_suite, suite_removals
from tests.builders_skill import a_case, a_file, a_skill, a_suite


def suite_of(*cases: dict[str, Any]) -> Suite:
    suite, findings = read_suite(a_skill(files=(a_file("evals/evals.json", json.dumps(cases)),)))
    assert suite is not None, findings
    return suite


def a_check(kind: str, **values: Any) -> Check:
    parameters, complaints = building.parameters(kind, values)
    assert not complaints, complaints
    return Check(id="c1", parameters=parameters)


def removals(old: Check, new: Check) -> tuple[str, ...]:
    return suite_removals(a_suite(a_case(checks=(old,))), a_suite(a_case(checks=(new,))))


def test_a_new_prompt_of_a_case_without_an_id_is_no_removal_while_it_asserts_the_same() -> None:
    old = suite_of({"prompt": "Add 1 and 2.", "expectations": ["names the sum", "is kind"]})
    assert suite_removals(old, suite_of({"prompt": "Add 1, 2.", "expectations": ["names the sum", "is kind"]})) == ()
    (said,) = suite_removals(old, suite_of({"prompt": "Add 1, 2.", "expectations": ["is kind"]}))
    assert said.endswith("is removed (0 checks, 2 expectations).")


def test_cases_without_ids_that_change_places_are_the_same_cases() -> None:
    one, two = ({"prompt": text, "expectations": [text]} for text in ("a", "b"))
    assert suite_removals(suite_of(one, two), suite_of(two, {"prompt": "c", "expectations": ["c"]}, one)) == ()


@pytest.mark.parametrize(
    ("kind", "old", "new"),
    [
        ("run_budget", {"max_tokens": 100}, {"max_tokens": 50, "max_steps": 3}),
        ("response_contains_all", {"texts": ["a"]}, {"texts": ["a", "b"]}),
        ("response_contains_none", {"texts": ["a"]}, {"texts": ["a", "b"], "ignore_case": True}),
        ("response_contains_any", {"texts": ["a", "b"]}, {"texts": ["a"]}),
        ("tool_call_forbidden", {"tools": ["a"]}, {"tools": ["a", "b"]}),
        ("files_changed_only", {"paths": ["a", "b"]}, {"paths": ["a"]}),
        ("tool_call_repeats", {"max": 3}, {"max": 2}),
        ("response_links", {"min": 1}, {"min": 2}),
        ("file_absent", {"path": "a"}, {"path": "a", "deleted": True}),
        ("args_matches", {"tool": "t", "field": "f", "min": 1}, {"tool": "t", "field": "f", "min": 2, "max": 3}),
    ],
)
def test_tightening_a_check_needs_no_waiver_and_loosening_it_does(
    kind: str, old: dict[str, Any], new: dict[str, Any]
) -> None:
    assert kind in CHECK_KINDS
    assert removals(a_check(kind, **old), a_check(kind, **new)) == ()
    assert removals(a_check(kind, **new), a_check(kind, **old)), "the way back takes something away"
