from __future__ import annotations

import pytest

from gate.decision.further import needs_confirm, undecided
from gate.decision.triage import (
    case_passed,
    classify,
    counting,
    is_usable,
    natural,
    paired_runs,
    triage_case,
    usable_runs,
)
from gate.domain.judgement import Grading
from gate.domain.plan import Arm
from gate.domain.report import CaseRecord, Share, TriageClass
from tests.builders_records import case_record, check, expectation, simple_case


def test_a_case_passes_where_every_exact_check_passes_in_more_than_half_of_the_runs() -> None:
    assert case_passed(simple_case(head="P P F")) is True
    assert case_passed(simple_case(head="P F")) is False
    assert case_passed(simple_case(head="P F F")) is False
    two = case_record(checks=[check("c1"), check("c2", "should")], head=["PF", "PF", "PP"])
    assert case_passed(two) is False


def test_an_info_check_decides_nothing() -> None:
    case = case_record(checks=[check("c1"), check("c2", "info")], head=["PF", "PF"])
    assert case_passed(case) is True
    assert undecided(case) is None
    assert needs_confirm(case) is None


def test_expectations_decide_only_where_there_is_no_exact_check() -> None:
    beside = case_record(checks=[check("c1")], expectations=[expectation("e1")], head=["PF", "PF"])
    alone = case_record(expectations=[expectation("e1"), expectation("e2", "info")], head=["FP", "FP"])
    assert case_passed(beside) is True
    assert case_passed(alone) is False
    info_only = case_record(checks=[check("c1", "info")], expectations=[expectation("e1")], head=["FP", "FP"])
    assert case_passed(info_only) is True


def test_a_case_that_can_say_nothing_has_no_verdict() -> None:
    assert case_passed(case_record(head=["", ""])) is None
    assert case_passed(simple_case(head="")) is None
    assert counting(case_record(checks=[check("c1", "info")], head=["P"])) == ()


@pytest.mark.parametrize("outcome", ["timeout", "oom", "agent_failed", "sandbox_dead"])
def test_a_run_that_the_agents_doing_ended_fails_every_check(outcome: str) -> None:
    assert case_passed(simple_case(head=f"P {outcome} {outcome}")) is False
    assert case_passed(simple_case(head=f"P P {outcome}")) is True


@pytest.mark.parametrize("outcome", ["infra_error", "cancelled", "blocked", "over_budget"])
def test_a_run_that_infrastructure_ended_counts_for_nothing(outcome: str) -> None:
    assert case_passed(simple_case(head=f"P {outcome} {outcome}")) is True
    assert case_passed(simple_case(head=f"F {outcome} {outcome}")) is False
    assert case_passed(simple_case(head=f"{outcome} {outcome}")) is None


def test_a_check_that_could_not_run_fails_and_one_that_infrastructure_stopped_voids_the_run() -> None:
    assert case_passed(simple_case(head="N N")) is False
    stopped = case_record(checks=[check("c1"), check("c2")], head=["FI", "PP"])
    assert [run.record.key.run for run in usable_runs(stopped, Arm.WITH_SKILL)] == [2]
    assert case_passed(stopped) is True


def test_a_void_run_takes_its_partner_out_of_a_comparison_and_no_other() -> None:
    case = case_record(checks=[check("c1")], head=["P", "F", "P"], base=["I", "P"])
    heads, bases = paired_runs(case, Arm.WITH_SKILL, Arm.BASE_SKILL)
    assert [run.record.key.run for run in heads] == [2, 3]
    assert [run.record.key.run for run in bases] == [2]
    assert len(usable_runs(case, Arm.WITH_SKILL)) == 3


def test_a_contaminated_run_and_one_below_its_types_minimum_are_not_usable() -> None:
    run = simple_case(head="P").runs[0]
    for field in ("contaminated", "invalid"):
        spoiled = run.model_copy(update={"record": run.record.model_copy(update={field: "why"})})
        assert not is_usable(spoiled)


def test_a_missing_verdict_neither_passes_nor_fails() -> None:
    assert case_passed(simple_case(head="P - -")) is None
    assert case_passed(simple_case(head="P P -")) is True
    assert case_passed(simple_case(head="P* P*")) is None
    graded = case_record(expectations=[expectation("e1")], head=["P", "U", "U"])
    assert case_passed(graded) is None
    assert case_passed(case_record(expectations=[expectation("e1")], head=["F", "F", "U"])) is False


@pytest.mark.requirements("R201")
def test_a_grade_by_rules_alone_is_no_verdict() -> None:
    assert case_passed(case_record(expectations=[expectation("e1")], head=["R", "R"])) is None


def test_a_voided_batch_is_no_verdict() -> None:
    case = case_record(expectations=[expectation("e1")], head=["P", "P"])
    spoiled = []
    for run in case.runs:
        grading = run.judgement.grading.model_copy(update={"voided": "a known-false control passed twice"})
        spoiled.append(run.model_copy(update={"judgement": run.judgement.model_copy(update={"grading": grading})}))
    assert case_passed(case.model_copy(update={"runs": tuple(spoiled)})) is None


@pytest.mark.parametrize(
    ("head", "base", "reason"),
    [
        ("P F", "", "check c1 passed in 1 of 2 with-runs"),
        ("F F", "", "check c1 failed in all 2 with-runs that have a verdict"),
        ("F F", "P", "check c1 passes on base and fails on head"),
        ("timeout timeout", "", None),
        ("P P", "F", None),
        ("P P", "P", None),
        ("", "P", None),
        ("- -", "P", None),
    ],
)
def test_a_case_is_undecided_where_an_assertion_is_mixed_fails_throughout_or_fell_from_base(
    head: str, base: str, reason: str | None
) -> None:
    assert undecided(simple_case(head=head, base=base)) == reason


@pytest.mark.parametrize(
    ("head", "asked"),
    [
        ("F F", True),
        ("F", True),
        ("F F F~", True),
        ("timeout F", True),
        ("F P", True),
        ("F F P~", True),
        ("F P P~", False),
        ("P P", False),
        ("F -", True),
        ("F F F+", False),
        ("F F P+", False),
        ("F F infra_error+", True),
        ("", False),
    ],
)
def test_the_confirm_stage_is_asked_for_what_failed_in_all_with_runs_until_it_has_run(head: str, asked: bool) -> None:
    assert (needs_confirm(simple_case(head=head, base="P")) is not None) is asked


def test_fill_and_confirm_look_at_expectations_too() -> None:
    case = case_record(checks=[check("c1")], expectations=[expectation("e1")], head=["PF", "PF"])
    assert needs_confirm(case) == "expectation e1 failed in all 2 with-runs"
    assert undecided(case) == "expectation e1 failed in all 2 with-runs that have a verdict"


@pytest.mark.requirements("R4")
@pytest.mark.parametrize(
    ("with_skill", "without", "expected"),
    [
        ((3, 3), (0, 3), TriageClass.DISCRIMINATING),
        ((3, 3), (3, 3), TriageClass.SATURATED),
        ((2, 2), (1, 1), TriageClass.SATURATED),
        ((0, 3), (0, 3), TriageClass.DEAD),
        ((0, 3), (3, 3), TriageClass.INVERTED),
        ((2, 3), (1, 3), TriageClass.FLAKY),
        ((2, 3), (0, 3), TriageClass.UNDER_POWERED),
        ((1, 3), (3, 3), TriageClass.UNDER_POWERED),
        ((2, 3), (3, 3), TriageClass.UNDER_POWERED),
        ((7, 7), (1, 7), TriageClass.DISCRIMINATING),
        ((4, 5), (1, 5), TriageClass.UNDER_POWERED),
        ((1, 1), (0, 1), TriageClass.UNDER_POWERED),
        ((3, 3), (0, 0), TriageClass.UNDER_POWERED),
        ((0, 0), (0, 0), TriageClass.UNDER_POWERED),
    ],
)
def test_an_assertion_has_the_class_that_its_shares_allow(
    with_skill: tuple[int, int], without: tuple[int, int], expected: TriageClass
) -> None:
    shares = [Share(passed=passed, total=total) for passed, total in (with_skill, without)]
    assert classify(*shares) is expected


def test_triage_counts_every_arm_and_leaves_out_what_has_no_verdict() -> None:
    case = case_record(
        checks=[check("c2", rule_ref="R7"), check("c1")],
        expectations=[expectation("e1", text="sorted")],
        head=["PPP", "PFU"],
        none=["FPF"],
        base=["PPU"],
    )
    rows = triage_case(case)
    assert [row.assertion_id for row in rows] == ["c1", "c2", "e1"]
    e1 = rows[2]
    assert (e1.with_skill, e1.without_skill, e1.base_skill) == (
        Share(passed=1, total=1),
        Share(passed=0, total=1),
        Share(passed=0, total=0),
    )
    assert (e1.text, e1.triage) == ("sorted", TriageClass.UNDER_POWERED)
    assert rows[1].rule_ref == "R7"


def test_an_expectation_graded_twice_in_one_run_has_no_verdict() -> None:
    case = case_record(expectations=[expectation("e1")], head=["P"])
    run = case.runs[0]
    assert isinstance(run.judgement.grading, Grading)
    doubled = run.judgement.grading.model_copy(update={"rows": run.judgement.grading.rows * 2})
    judgement = run.judgement.model_copy(update={"grading": doubled})
    twice = CaseRecord(plan=case.plan, runs=(run.model_copy(update={"judgement": judgement}),), layer3=case.layer3)
    assert case_passed(twice) is None


def test_ids_sort_as_people_count() -> None:
    names = ["eval-10", "eval-2", "eval-02", "10", "9", "a", "eval-" + "9" * 5000, "²"]
    assert sorted(names, key=natural)[:2] == ["9", "10"]
    assert sorted(["eval-10", "eval-2"], key=natural) == ["eval-2", "eval-10"]
    assert len({natural(name) for name in names}) == len(names)
