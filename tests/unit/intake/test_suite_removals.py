from __future__ import annotations

from typing import Any

import pytest

from gate.domain.base import Severity
from gate.domain.checks import (
    ArgsField,
    Check,
    Command,
    KnownIssue,
    ResponseContains,
    ResponseHasHeading,
    ResponseNotContains,
    ResponseWordCount,
    ToolCallCount,
)
from gate.domain.suite import Case, Expectation, Suite, TriggerCase
from gate.intake.suite import suite_removals
from tests.builders_skill import a_case, a_suite


def a_check(parameters: Any, *, severity: Severity = Severity.MUST, name: str = "c1") -> Check:
    return Check(id=name, severity=severity, parameters=parameters)


def an_expectation(text: str, *, name: str = "e1", **changes: Any) -> Expectation:
    return Expectation(id=name, text=text, **changes)


def between(old: Case, new: Case) -> tuple[str, ...]:
    return suite_removals(a_suite(old), a_suite(new))


def checks(*found: Check) -> Case:
    return a_case(checks=found)


def test_nothing_changed_nothing_is_removed() -> None:
    assert between(a_case(), a_case()) == ()


def test_adding_and_tightening_need_no_waiver() -> None:
    old = a_case(
        checks=(a_check(ToolCallCount(tool="t", min=1, max=5), severity=Severity.SHOULD),),
        expectations=(an_expectation("x", precision="existence"),),
    )
    new = a_case(
        checks=(a_check(ToolCallCount(tool="t", min=2, max=4)), a_check(ResponseContains(keyword="k"), name="c2")),
        expectations=(
            an_expectation("x", precision="exact_match", severity=Severity.MUST),
            an_expectation("y", name="e2"),
        ),
    )
    assert suite_removals(a_suite(old), a_suite(new, a_case("two"))) == ()


def test_a_removed_suite_and_a_removed_case_are_said() -> None:
    assert suite_removals(a_suite(a_case("a"), a_case("b")), None) == ("The whole suite is removed (2 cases).",)
    assert suite_removals(a_suite(a_case("a"), a_case("b", prompt="other")), a_suite(a_case("a"))) == (
        'Case "b" is removed (1 check, 1 expectation).',
    )


def test_a_case_that_only_moved_to_another_id_is_not_removed() -> None:
    def numbered(number: int, text: str) -> Case:
        return a_case(f"case-{number}", expectations=(an_expectation(text),))

    old = a_suite(numbered(1, "one"), numbered(2, "two"))
    new = a_suite(numbered(1, "new"), numbered(2, "one"), numbered(3, "two"))
    assert suite_removals(old, new) == ()


def test_another_prompt_alone_needs_no_waiver_since_the_base_case_runs_too() -> None:
    assert between(a_case(), a_case(prompt="What is two and two?")) == ()


@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        (ToolCallCount(tool="t", expected_count=1), ToolCallCount(tool="t", min=1), "widened from 1 to 1 to 1 or more"),
        (ToolCallCount(tool="t", max=0), ToolCallCount(tool="t", max=3), "widened from 0 to 0 to 0 to 3"),
        (ToolCallCount(tool="t", min=1), ToolCallCount(tool="t", min=1, status="error"), "status of the check"),
        (ResponseWordCount(max=50), ResponseWordCount(max=500), "0 to 50 to 0 to 500"),
        (
            ArgsField(tool="t", field="f", expected="10"),
            ArgsField(tool="t", field="f", expected="20"),
            "from '10' to '20'",
        ),
        (ArgsField(tool="t", field="f", expected=1, which="all"), ArgsField(tool="t", field="f", expected=1), "which"),
        (ResponseContains(keyword="a"), ResponseContains(keyword="b"), "keyword"),
        (ResponseContains(keyword="a"), ResponseContains(keyword="a", ignore_case=True), "ignore_case"),
        (ResponseNotContains(pattern="a", ignore_case=True), ResponseNotContains(pattern="a"), "ignore_case"),
        (ResponseHasHeading(level=2, text="Sum"), ResponseHasHeading(level=2), "text of the check"),
        (Command(run="x", stdout_contains="ok"), Command(run="x"), "stdout_contains"),
        (Command(run="pytest"), Command(run="true"), "from 'pytest' to 'true'"),
        (ToolCallCount(tool="saveDoc", min=1), ToolCallCount(tool="saveDocV2", min=1), "tool"),
    ],
)
def test_a_loosened_check_is_said_with_both_values(old: Any, new: Any, words: str) -> None:
    found = between(checks(a_check(old)), checks(a_check(new)))
    assert len(found) == 1
    assert words in found[0]
    assert found[0].startswith('Case "one": ')


@pytest.mark.parametrize(
    ("old", "new"),
    [
        (ArgsField(tool="t", field="f", expected=1), ArgsField(tool="t", field="f", expected=1, which="all")),
        (ResponseContains(keyword="a", ignore_case=True), ResponseContains(keyword="a")),
        (ResponseNotContains(pattern="a"), ResponseNotContains(pattern="a", ignore_case=True)),
        (ResponseHasHeading(level=2), ResponseHasHeading(level=2, text="Sum")),
        (Command(run="x"), Command(run="x", stdout_contains="ok", timeout_s=5)),
        (ToolCallCount(tool="t", min=1, max=3), ToolCallCount(tool="t", expected_count=2)),
    ],
)
def test_a_tightened_check_is_not_said(old: Any, new: Any) -> None:
    assert between(checks(a_check(old)), checks(a_check(new))) == ()


def test_lowered_severities_and_precisions_are_said() -> None:
    old = a_case(
        checks=(a_check(ResponseContains(keyword="a")),), expectations=(an_expectation("x", precision="exact_match"),)
    )
    new = a_case(
        checks=(a_check(ResponseContains(keyword="a"), severity=Severity.INFO),),
        expectations=(an_expectation("x", precision="existence", severity=Severity.INFO),),
    )
    assert between(old, new) == (
        'Case "one": the severity of the check c1 (response_contains) is lowered from must to info.',
        'Case "one": the severity of the expectation "x" is lowered from should to info.',
        'Case "one": the precision of the expectation "x" is lowered from exact_match to existence.',
    )


def test_a_removed_check_is_not_hidden_by_a_neighbour_that_moves_up() -> None:
    old = checks(a_check(ResponseContains(keyword="a")), a_check(ResponseContains(keyword="b"), name="c2"))
    new = checks(a_check(ResponseContains(keyword="b")))
    assert between(old, new) == ('Case "one": the check c1 (response_contains) is removed.',)


def test_a_removed_and_a_changed_expectation_are_told_apart() -> None:
    old = a_case(expectations=(an_expectation("a"), an_expectation("b", name="e2"), an_expectation("c", name="e3")))
    new = a_case(expectations=(an_expectation("b"), an_expectation("weaker c", name="e3")))
    assert between(old, new) == (
        'Case "one": the expectation "a" is removed.',
        'Case "one": the expectation "c" is changed to "weaker c".',
    )


def test_no_longer_running_the_baseline_is_said() -> None:
    assert "skip_without_skill" in between(a_case(), a_case(skip_without_skill=True))[0]


def test_asking_fewer_arms_and_excusing_a_failure_need_a_waiver_and_the_reverse_does_not() -> None:
    plain = a_check(ResponseContains(keyword="k"))
    scoped = plain.model_copy(update={"arms": ("with_skill", "base_skill")})
    narrow = plain.model_copy(update={"arms": ("without_skill",)})
    assert between(checks(plain), checks(narrow)) == (
        'Case "one": the check c1 (response_contains) is no longer asked of with_skill, base_skill.',
    )
    assert between(checks(scoped), checks(plain)) == ()
    short = plain.model_copy(update={"known_issue": KnownIssue(reason="r", expires="2026-03-01")})
    longer = plain.model_copy(update={"known_issue": KnownIssue(reason="r", expires="2026-03-02")})
    for old in (plain, short):
        assert between(checks(old), checks(longer)) == (
            'Case "one": a failure of the check c1 (response_contains) is excused as a known issue until 2026-03-02.',
        )
    assert between(checks(longer), checks(short)) == ()
    assert between(checks(longer), checks(plain)) == ()


def _asking(*queries: tuple[str, bool]) -> Suite:
    triggers = tuple(
        TriggerCase(id=str(n), query=query, should_trigger=should) for n, (query, should) in enumerate(queries)
    )
    return Suite(path="evals/trigger_eval.json", dialect="triggers", cases=(), triggers=triggers)


def test_a_trigger_query_that_is_gone_or_asks_for_the_opposite_is_named_and_more_of_them_are_not() -> None:
    base = _asking(("add up", True), ("write a poem", False), ("both", True), ("both", False))
    assert suite_removals(base, base) == ()
    assert suite_removals(base, _asking(("new", True), *((t.query, t.should_trigger) for t in base.triggers))) == ()
    assert suite_removals(base, _asking(("add up", True), ("both", False), ("both", True))) == (
        'The trigger query "write a poem" is removed.',
    )
    turned = _asking(("add up", False), ("write a poem", False), ("both", True), ("both", False))
    assert suite_removals(base, turned) == (
        'The trigger query "add up" now asks that the agent does not open the skill.',
    )
    assert suite_removals(base, None) == ("The whole suite is removed (4 trigger queries).",)
