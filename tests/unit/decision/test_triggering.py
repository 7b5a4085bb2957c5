from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gate.decision.triggering import trigger_figures, trigger_reasons, trigger_words
from gate.domain.base import FallbackCount
from gate.domain.checks import SkillOpened
from gate.domain.report import CaseRecord, Verdict
from gate.domain.suite import CaseType
from tests.builders_records import case_record, check, decide, simple_case, skill, skill_record

SKILL = skill().model_copy(update={"description": "Sorts tables of numbers by column."})


def a_query(number: int, should: bool, *opened: bool, prompt: str = "Please sort this.", base: str = "") -> CaseRecord:
    """A trigger query with one run for each of ``opened``."""
    words = [("P" if was is should else "F") + ("" if was else "!") for was in opened]
    record = case_record(
        f"trigger-{number}",
        checks=[check("opened", "should", parameters=SkillOpened(opened=should))],
        head=words,
        base=base.split(),
        case_type=CaseType.ATOMIC,
    )
    case = record.plan.case.model_copy(update={"trigger": should, "prompt": prompt})
    return record.model_copy(update={"plan": record.plan.model_copy(update={"case": case})})


QUERIES = st.lists(st.tuples(st.booleans(), st.lists(st.booleans(), max_size=4)), min_size=1, max_size=12)


@given(QUERIES)
def test_rates_are_counts_of_queries_and_nothing_is_counted_twice(drawn: list[tuple[bool, list[bool]]]) -> None:
    cases = [a_query(number, should, *opened) for number, (should, opened) in enumerate(drawn)]
    found = trigger_figures([*cases, simple_case(head="P P")], SKILL)
    assert found is not None
    assert found.harness_failure is None, "another run opened the skill"
    clear = [
        (should, sum(opened) * 2 > len(opened)) for should, opened in drawn if opened and sum(opened) * 2 != len(opened)
    ]
    assert (found.asked, found.answered) == (len(cases), len(clear))
    assert found.recall.total == sum(should for should, _ in clear)
    assert found.recall.passed == found.precision.passed == sum(should and was for should, was in clear)
    assert found.precision.total == sum(was for _, was in clear)
    assert len(found.missed) == found.recall.total - found.recall.passed
    assert len(found.false_alarms) == found.left_alone.total - found.left_alone.passed


def test_zero_everywhere_is_no_result_and_zero_beside_runs_that_opened_the_skill_is_one() -> None:
    silent = [a_query(1, True, False), a_query(2, True, False), a_query(3, False, False)]
    found = trigger_figures([*silent, simple_case(head="P! P!")], SKILL)
    assert found is not None
    assert found.harness_failure is not None
    assert (found.recall.total, found.precision.total, found.missed) == (0, 0, ())
    found = trigger_figures([*silent, simple_case(head="P P")], SKILL)
    assert found is not None
    assert (found.harness_failure, found.recall.passed, found.recall.total) == (None, 0, 2)


def test_a_near_miss_shares_words_with_the_listing_and_a_strange_query_does_not() -> None:
    cases = [
        a_query(1, True, True),
        a_query(2, False, False, prompt="Which numbers of these tables are prime?"),
        a_query(3, False, True, prompt="Plot the numbers of this column."),
        a_query(4, False, False, prompt="Write a poem about the sea."),
    ]
    found = trigger_figures(cases, SKILL)
    assert found is not None
    assert (found.near_misses.passed, found.near_misses.total) == (1, 2)
    assert "1 of 2 near misses left alone" in trigger_words(found)


@pytest.mark.parametrize(("threshold", "count"), [(0.5, 0), (0.8, 1), (1.0, 1)])
def test_a_rate_under_the_threshold_is_a_reason_with_the_queries(threshold: float, count: int) -> None:
    cases = [a_query(n, True, n < 3, prompt=f"Query {n}") for n in range(5)]
    reasons = trigger_reasons(trigger_figures(cases, SKILL), threshold)
    assert len(reasons) == count
    assert all('missed: "Query 3"; "Query 4"' in reason for reason in reasons)


def test_a_set_without_a_query_that_should_leave_the_skill_alone_says_what_it_does_not_show() -> None:
    found = trigger_figures([a_query(1, True, True)], SKILL)
    assert found is not None
    assert "nothing is known about being opened too often" in trigger_words(found)


def test_forty_queries_that_pass_hide_no_case_that_fails() -> None:
    queries = [a_query(number, True, True) for number in range(40)]
    cases = [simple_case("1", head="F F F F+", none="P P P P+"), simple_case("2", head="P P", none="P P")]
    report = decide(skill_record(*cases, *queries))
    assert (report.authoritative.passed, report.authoritative.total) == (1, 2)
    assert report.verdict is Verdict.FAIL
    alone = decide(skill_record(*cases))
    assert report.source_rate == alone.source_rate
    assert report.lift == alone.lift
    assert [(arm.finished, arm.assertions) for arm in report.arms] == [
        (arm.finished, arm.assertions) for arm in alone.arms
    ]


def test_a_query_that_opened_on_base_and_never_on_head_fails_once_it_is_repeated() -> None:
    case = a_query(1, True, False, False, False, base="P P P P+")
    again = case_record(
        "trigger-1", checks=case.plan.case.checks, head=["F!", "F!", "F!", "F!+"], base=["P", "P", "P", "P+"]
    )
    confirmed = again.model_copy(update={"plan": case.plan})
    report = decide(skill_record(simple_case(head="P P", none="P P"), confirmed))
    assert report.verdict is Verdict.FAIL
    assert "passed in all 4 base_skill runs" in report.reasons[0]


def test_runs_that_a_limit_ended_are_said_by_arm() -> None:
    limit = (FallbackCount(kind="step_limit", role="executor", count=1),)
    case = case_record("1", checks=[check("c1")], head=["P", "P"], none=["agent_failed", "P"], fallbacks=limit)
    notes = decide(skill_record(case)).notes
    assert (
        "runs that ended at a limit of steps, tokens or cost: with_skill 1 of 2, without_skill 1 of 2, base_skill 0 of 0"
        in notes
    )
    assert not any("limit of steps" in note for note in decide(skill_record(simple_case(head="P P"))).notes)
