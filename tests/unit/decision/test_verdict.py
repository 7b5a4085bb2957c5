from __future__ import annotations

from typing import Literal

import pytest

from gate.domain.base import FallbackCount, NotRun
from gate.domain.checks import ToolCallCount
from gate.domain.findings import Finding, Level
from gate.domain.judgement import Analysis, GradeStatus, Grading, SkillLine, SpotCheck, Suggestion, Winner
from gate.domain.plan import Arm, Enforce, Mode, NotMeasuredCause
from gate.domain.report import CaseRecord, JudgedRun, Share, SkillRecord, State, Verdict
from gate.domain.skill import ChangeKind
from gate.domain.suite import Case, CaseType, Suite
from gate.settings import Thresholds, Waiver
from tests.builders_records import (
    PATH,
    case_record,
    check,
    compared,
    decide,
    expectation,
    simple_case,
    skill_record,
)


def verdict(record: SkillRecord, **settings: object) -> Verdict:
    return decide(record, **settings).verdict  # type: ignore[arg-type]


def good(count: int = 3, *, head: str = "P P", base: str = "P", none: str = "F") -> list[CaseRecord]:
    return [simple_case(f"good-{number}", head=head, base=base, none=none) for number in range(count)]


def suite(*cases: Case) -> Suite:
    return Suite(path="evals/evals.json", dialect="skill-gate", cases=cases)


def with_grading(case: CaseRecord, **changes: object) -> CaseRecord:
    """The case with its gradings changed."""
    runs: list[JudgedRun] = []
    for run in case.runs:
        grading = run.judgement.grading
        if isinstance(grading, Grading):
            judgement = run.judgement.model_copy(update={"grading": grading.model_copy(update=changes)})
            runs.append(run.model_copy(update={"judgement": judgement}))
        else:
            runs.append(run)
    return case.model_copy(update={"runs": tuple(runs)})


# --- 9 pass ---------------------------------------------------------------------------------------------------------


@pytest.mark.requirements("R52", "R62")
def test_a_skill_passes_with_its_cases_runs_and_the_drop_that_would_not_be_seen() -> None:
    report = decide(skill_record(*good(3)))
    assert report.verdict is Verdict.PASS
    assert report.state is State.SUCCESS
    assert report.reasons == ("3 cases x 2 runs, 3 of 3 cases passed; a drop under 0.57 would not be seen",)
    assert report.wording == (
        "3 cases x 2 runs; a drop under 0.57 (MDE) would not be seen; 3/3 cases passed, 95 % interval 0.44 to 1.00"
    )
    assert (report.authoritative, report.source_rate) == (Share(passed=3, total=3), Share(passed=6, total=6))
    assert report.release_grade == "S"
    assert report.mde == 0.574227
    assert report.lift == (
        "+1.00 (1.00 with, 0.00 without; mean rate of checks over 3 cases); one-sided sign-flip p = 0.125; may be chance"
    )


def test_lift_is_not_needed_for_a_pass_and_its_absence_is_printed() -> None:
    report = decide(skill_record(*good(3, none="P")))
    assert report.verdict is Verdict.PASS
    assert report.lift == "+0.00 (1.00 with, 1.00 without; mean rate of checks over 3 cases); no lift shown"
    assert any("pass with and without the skill" in note for note in report.notes)


def test_a_pass_says_what_nothing_looks_for() -> None:
    report = decide(skill_record(*good()))
    assert any("V1" in line and "V7" in line for line in report.not_tested)
    assert "no null agent was run against the suite" in report.not_tested


def test_a_new_skill_passes_on_its_own_suite_and_the_report_says_so() -> None:
    report = decide(skill_record(*good(base=""), change=ChangeKind.ADDED))
    assert report.verdict is Verdict.PASS
    assert "a new skill: there is no base version, and its suite comes from the same change" in report.notes
    assert "no base_skill runs: a new skill has no base (3 cases)" in report.not_tested


# --- 1 invalid ------------------------------------------------------------------------------------------------------


def test_a_broken_seal_makes_a_skill_invalid_before_anything_else() -> None:
    report = decide(skill_record(*good(), broken_seals=("run-1/with_skill: events.jsonl was changed",), suite=None))
    assert report.verdict is Verdict.INVALID
    assert report.reasons[0] == "the seal of the evidence is broken: run-1/with_skill: events.jsonl was changed"


def test_an_unreadable_skill_or_suite_is_invalid_with_the_place() -> None:
    finding = Finding(
        rule="skill-md/yaml", level=Level.ERROR, path=f"{PATH}/SKILL.md", message="': ' in a value", line=3, column=14,
        blocks=True,
    )  # fmt: skip
    report = decide(skill_record(findings=(finding,), suite=None, base_suite=suite(good()[0].plan.case)))
    assert report.verdict is Verdict.INVALID
    assert report.reasons == (f"skill-md/yaml: {PATH}/SKILL.md:3:14: ': ' in a value",)


@pytest.mark.requirements("R219")
def test_a_manifest_error_blocks_only_where_the_policy_says_so() -> None:
    finding = Finding(rule="manifest/x", level=Level.ERROR, path="plugin.json", message="no such path")
    record = skill_record(*good(), manifest_findings=(finding,))
    assert verdict(record) is Verdict.PASS
    assert verdict(record, manifest_errors="block") is Verdict.INVALID
    waiver = Waiver(skill=PATH, rule="manifest/x", owner="ana", expires="2026-03-01", reason="moves next week")
    waived = decide(record, manifest_errors="block", waivers=[waiver])
    assert waived.verdict is Verdict.CONDITIONAL
    assert waived.reasons == ("manifest/x is waived until 2026-03-01 by ana: moves next week",)


def test_removed_checks_and_a_deleted_suite_need_a_waiver_that_has_not_ended() -> None:
    record = skill_record(*good(), removals=("check c9 of eval 1 was removed",))
    invalid = decide(record)
    assert invalid.verdict is Verdict.INVALID
    assert invalid.reasons == ("check c9 of eval 1 was removed; needs a waiver of suite-removal in the base policy",)
    current = Waiver(skill=PATH, rule="suite-removal", owner="ana", expires="2026-03-01")
    assert verdict(record, waivers=[current]) is Verdict.CONDITIONAL
    ended = current.model_copy(update={"expires": "2026-02-28"})
    report = decide(record, waivers=[ended])
    assert report.verdict is Verdict.INVALID
    assert "the waiver of suite-removal by ana ended 2026-02-28 and counts for nothing" in report.notes
    for useless in (
        current.model_copy(update={"skill": "skills/other"}),
        current.model_copy(update={"rule": "*"}),
        current.model_copy(update={"expires": "never"}),
    ):
        assert verdict(record, waivers=[useless]) is Verdict.INVALID


def test_deleting_the_suite_is_invalid_even_where_nobody_listed_it() -> None:
    gone = skill_record(suite=None, base_suite=suite(good()[0].plan.case))
    assert verdict(gone) is Verdict.INVALID
    deleted = skill_record(change=ChangeKind.DELETED, suite=None, base_suite=suite(good()[0].plan.case))
    assert "the skill and its suite were deleted (1 cases on base)" in decide(deleted).reasons[0]


def test_a_contaminated_pair_and_a_voided_batch_are_invalid() -> None:
    case = case_record("1", expectations=[expectation("e1")], head=["P", "P"], base=["P"])
    assert verdict(skill_record(case)) is Verdict.PASS
    voided = decide(skill_record(with_grading(case, voided="a known-false control passed twice")))
    assert voided.verdict is Verdict.INVALID
    assert "the judge's batch is void: a known-false control passed twice" in voided.reasons[0]
    run = case.runs[0]
    spoiled = run.model_copy(update={"record": run.record.model_copy(update={"contaminated": "read the other arm"})})
    report = decide(skill_record(case.model_copy(update={"runs": (spoiled, *case.runs[1:])})))
    assert report.verdict is Verdict.INVALID
    assert report.reasons == ("eval 1, run 1 with_skill: the pair is contaminated: read the other arm",)


# --- 2 no_evals, 3 blocked, 4 not_measured --------------------------------------------------------------------------


def test_no_suite_an_empty_one_and_one_that_checks_nothing_are_no_evals() -> None:
    assert verdict(skill_record(suite=None)) is Verdict.NO_EVALS
    assert verdict(skill_record(suite=suite())) is Verdict.NO_EVALS
    bare = case_record("1", head=["", ""])
    assert decide(skill_record(bare)).reasons == (
        "1 case in skills/tidy-tables/evals/evals.json, and not one check or expectation that counts",
    )
    info = case_record("1", checks=[check("c1", "info")], head=["P", "P"])
    assert verdict(skill_record(info)) is Verdict.NO_EVALS


def test_a_skill_of_which_no_case_can_run_is_blocked_with_the_reason() -> None:
    case = case_record("1", checks=[check("c1")], blocked="MCP server github is not available")
    report = decide(skill_record(case))
    assert (report.verdict, report.state) == (Verdict.BLOCKED, State.SUCCESS)
    assert report.reasons == ("no case can run: MCP server github is not available",)
    caused = decide(skill_record(case, base_runnable=True))
    assert (caused.caused_by_change, caused.state) == (True, State.FAILURE)


@pytest.mark.parametrize("cause", list(NotMeasuredCause))
def test_static_layers_alone_are_not_measured_with_their_cause(cause: NotMeasuredCause) -> None:
    report = decide(skill_record(suite=suite(good()[0].plan.case), not_measured="a draft", cause=cause))
    assert (report.verdict, report.not_measured_cause, report.reasons) == (Verdict.NOT_MEASURED, cause, ("a draft",))


def test_a_reason_of_unknown_cause_is_read_as_the_strictest() -> None:
    report = decide(skill_record(suite=suite(good()[0].plan.case), not_measured="somehow"))
    assert (report.not_measured_cause, report.state) == (NotMeasuredCause.NO_KEY, State.FAILURE)


def test_a_deleted_skill_without_a_suite_has_nothing_to_run() -> None:
    report = decide(skill_record(change=ChangeKind.DELETED, suite=None))
    assert (report.verdict, report.state) == (Verdict.NOT_MEASURED, State.SUCCESS)


def test_over_budget_is_not_measured_whoever_noticed_it() -> None:
    told = decide(skill_record(*good(), over_budget="600 model calls"))
    assert (told.verdict, told.state, told.reasons[0]) == (
        Verdict.NOT_MEASURED,
        State.PENDING,
        "over budget: 600 model calls",
    )
    assert told.reasons[1].startswith("12 of 12 runs finished before; their figures stand below and are no verdict")
    assert "analyses, blind comparisons, confirming runs, filling runs, planned runs" in told.reasons[1]
    assert verdict(skill_record(simple_case(head="P over_budget"))) is Verdict.NOT_MEASURED


def test_a_skill_that_no_run_opened_is_not_measured_and_not_useless() -> None:
    report = decide(skill_record(*good(head="P! P!")))
    assert (report.verdict, report.not_measured_cause) == (Verdict.NOT_MEASURED, NotMeasuredCause.NOT_OPENED)
    assert "opened in 0 of 6 completed with-runs" in report.reasons[0]
    assert verdict(skill_record(*good(head="P! P"))) is Verdict.PASS
    assert verdict(skill_record(simple_case(head="P!"))) is Verdict.CONDITIONAL


# --- 5 error --------------------------------------------------------------------------------------------------------


@pytest.mark.requirements("R2")
def test_three_of_ten_cases_completed_is_an_error_and_never_a_rate() -> None:
    cases = [*good(3), *[simple_case(f"dead-{n}", head="infra_error infra_error", base="P") for n in range(7)]]
    report = decide(skill_record(*cases))
    assert (report.verdict, report.state) == (Verdict.ERROR, State.ERROR)
    assert report.reasons[0] == "6 of 20 planned with_skill runs finished, under 80%"


def test_under_four_fifths_of_any_arm_is_an_error() -> None:
    def record(finished: int) -> SkillRecord:
        base = " ".join(["P"] * finished + ["infra_error"] * (5 - finished))
        return skill_record(simple_case(head="P P P P P", base=base))

    assert verdict(record(4)) is Verdict.PASS
    report = decide(record(3))
    assert report.verdict is Verdict.ERROR
    assert report.reasons == ("3 of 5 planned base_skill runs finished, under 80%",)


def test_a_planned_run_without_a_record_is_not_finished() -> None:
    case = case_record("1", checks=[check("c1")], head=["P", "P"], planned=(3, 0, 0), missing=("run 3: cancelled",))
    assert decide(skill_record(case)).reasons == ("2 of 3 planned with_skill runs finished, under 80%",)


def test_a_planned_case_without_a_finished_with_run_is_an_error_even_among_many() -> None:
    report = decide(skill_record(*good(9), simple_case("lost", head="infra_error")))
    assert report.verdict is Verdict.ERROR
    assert report.reasons == ("eval lost has no finished with-run",)


def test_a_planned_case_without_any_record_is_an_error() -> None:
    record = skill_record(*good(3))
    report = decide(record.model_copy(update={"cases": record.cases[:2]}))
    assert report.reasons == ("eval good-2 was planned and has no record",)


def test_nothing_planned_is_an_error() -> None:
    assert verdict(skill_record(suite=suite(good()[0].plan.case))) is Verdict.ERROR


@pytest.mark.requirements("R15")
def test_a_layer_that_did_not_run_is_an_error_and_no_pass() -> None:
    report = decide(skill_record(simple_case("1", head="P* P*"), *good(5)))
    assert report.verdict is Verdict.ERROR
    assert report.reasons == ("eval 1: checks without a result in with_skill runs 1, 2",)
    graded = case_record("1", expectations=[expectation("e1")], head=["P*", "P*"])
    ungraded = decide(skill_record(graded))
    assert ungraded.verdict is Verdict.ERROR
    assert ungraded.reasons == (
        "0 of 2 expectations of the with_skill runs were graded, under 90%: Layer 2 did not run",
    )


def test_under_nine_tenths_of_the_expectations_graded_is_an_error() -> None:
    def record(graded: int) -> SkillRecord:
        head = ["P"] * graded + ["U"] * (20 - graded)
        return skill_record(case_record("1", expectations=[expectation("e1")], head=head))

    assert verdict(record(18)) is Verdict.PASS
    assert verdict(record(17)) is Verdict.ERROR


def test_a_case_whose_runs_all_timed_out_is_the_skills_failure_and_no_error() -> None:
    report = decide(skill_record(simple_case("1", head="timeout timeout timeout+", base="P P P+"), *good(5)))
    assert report.verdict is Verdict.FAIL
    assert "run 3 ended as timeout" in report.reasons[0]


def test_the_model_server_being_down_is_an_error_with_its_remedy() -> None:
    report = decide(skill_record(*good(), errors=("No answer. Start the server.",)))
    assert (report.verdict, report.reasons[0]) == (Verdict.ERROR, "No answer. Start the server.")


# --- 6 fail ---------------------------------------------------------------------------------------------------------


def test_a_must_check_that_fails_in_every_run_fails_the_skill_only_once_confirmed() -> None:
    waiting = decide(skill_record(simple_case("1", head="F F F", base="F"), *good(5)))
    assert waiting.verdict is Verdict.INCONCLUSIVE
    assert waiting.reasons[0].endswith("in run 3; needs the confirm stage")
    repeated = decide(skill_record(simple_case("1", head="F F F F+", base="F F+"), *good(5)))
    assert repeated.verdict is Verdict.FAIL
    assert repeated.reasons[0] == (
        "eval 1: must check c1 \"response_contains: keyword 'total'\" failed in all 4 with_skill runs (runs 1, 2, 3, 4, "
        "of which run 4 to confirm): expected the word total in the response; found not found in 213 characters at B004 "
        "in run 4"
    )
    not_repeated = decide(skill_record(simple_case("1", head="F F F P+", base="F F+"), *good(5)))
    assert not_repeated.verdict is Verdict.INCONCLUSIVE
    assert "passed in 1 of 4 with-runs" in not_repeated.reasons[0]


def test_a_confirm_run_that_infrastructure_stopped_confirms_nothing() -> None:
    cases = [simple_case("1", head="F F F infra_error+", base="F"), *good(5)]
    assert verdict(skill_record(*cases)) is Verdict.INCONCLUSIVE


@pytest.mark.parametrize("kind", ["check", "expectation"])
def test_a_should_assertion_fails_the_skill_only_as_a_flip_from_base(kind: str) -> None:
    def record(head: list[str], base: list[str]) -> SkillRecord:
        extra = [check("c2", "should")] if kind == "check" else []
        soft = [] if kind == "check" else [expectation("e1")]
        case = case_record("1", checks=[check("c1"), *extra], expectations=soft, head=head, base=base)
        return skill_record(case, *good(5))

    flipped = decide(record(["PF", "PF", "PF", "PF+"], ["PP", "PP", "PP", "PP+"]))
    assert flipped.verdict is Verdict.FAIL
    assert "and passed in all 4 base_skill runs" in flipped.reasons[0]
    assert verdict(record(["PF", "PF", "PF"], ["PP", "PP", "PP"])) is Verdict.INCONCLUSIVE
    assert verdict(record(["PF", "PF", "PF", "PF+"], ["PP", "PP", "PP"])) is Verdict.INCONCLUSIVE
    assert verdict(record(["PF", "PF", "PF", "PF+"], ["PP", "PF", "PP", "PP+"])) is Verdict.CONDITIONAL


def test_a_must_expectation_counts_as_its_author_wrote_it() -> None:
    case = case_record("1", expectations=[expectation("e1", "must")], head=["F", "F", "F+"], base=["F", "F+"])
    assert verdict(skill_record(case, *good(5))) is Verdict.FAIL


def test_a_case_that_only_base_has_must_not_regress_and_need_not_pass() -> None:
    regressed = simple_case("old", head="F F F F+", base="P P P P+", origin="base")
    never = simple_case("old", head="F F F F+", base="F F F F+", origin="base")
    unknown = simple_case("old", head="F F F F+", origin="base")
    assert verdict(skill_record(regressed, *good(3))) is Verdict.FAIL
    assert verdict(skill_record(never, *good(3))) is Verdict.PASS
    assert verdict(skill_record(unknown, *good(3))) is Verdict.FAIL
    assert decide(skill_record(never, *good(3))).authoritative == Share(passed=3, total=3)
    better_than_base = simple_case("old", head="F P F", base="F F F", origin="base")
    worse_than_base = simple_case("old", head="F P F", base="P P P", origin="base")
    assert verdict(skill_record(better_than_base, *good(3))) is Verdict.PASS
    assert verdict(skill_record(worse_than_base, *good(3))) is Verdict.INCONCLUSIVE


@pytest.mark.parametrize(("none", "needed", "p"), [("", 5, "0.031"), ("F", 6, "0.031")])
def test_lost_cases_fail_a_skill_by_the_exact_test_after_holm_and_one_less_does_not(
    none: str, needed: int, p: str
) -> None:
    def record(lost: int, mark: str = "+") -> SkillRecord:
        soft = [check("c1", "should")]
        cases = [
            case_record(f"l{n}", checks=soft, head=["P", "F", f"F{mark}"], base=["P", "P", f"P{mark}"])
            for n in range(lost)
        ]
        return skill_record(*cases, *good(30, none=none))

    failed = decide(record(needed))
    assert failed.verdict is Verdict.FAIL
    names = ", ".join(f"eval l{n}" for n in range(needed))
    assert failed.reasons[0] == (
        f"head is worse than base: {needed} cases lost ({names}), 0 won, one-sided exact sign test p = {p} after Holm"
    )
    assert verdict(record(needed - 1)) is Verdict.INCONCLUSIVE
    assert verdict(record(needed, mark="~")) is Verdict.INCONCLUSIVE


def test_cases_lost_in_the_confirm_runs_alone_do_not_fail_a_skill() -> None:
    soft = [check("c1", "should")]
    cases = [
        case_record(f"l{n}", checks=soft, head=["P", "P", "F+", "F+", "F+"], base=["P", "P", "P+"]) for n in range(8)
    ]
    assert verdict(skill_record(*cases, *good(40, none=""))) is Verdict.INCONCLUSIVE


def test_head_worse_than_no_skill_fails_a_skill_too() -> None:
    soft = [check("c1", "should")]
    cases = [
        case_record(f"l{n}", checks=soft, head=["P", "F", "F+"], base=["P", "F", "F+"], none=["P", "P", "P+"])
        for n in range(6)
    ]
    failed = decide(skill_record(*cases, *good(40, none="P")))
    assert failed.verdict is Verdict.FAIL
    assert failed.reasons[0].startswith("head is worse than no skill at all: 6 cases lost")


def test_an_authoritative_rate_that_cannot_reach_the_threshold_fails_once_confirmed() -> None:
    soft = [check("c1", "should")]

    def record(confirm: bool) -> SkillRecord:
        mark = "+" if confirm else "~"
        cases = [
            case_record(f"{n}", checks=soft, head=["F", "F", f"P{mark}"], base=["F", "F", f"P{mark}"]) for n in range(4)
        ]
        return skill_record(*cases)

    failed = decide(record(confirm=True))
    assert failed.verdict is Verdict.FAIL
    assert "0 of 4 cases passed: the exact upper 95 % bound 0.53 is below the threshold of 0.80" in failed.reasons[0]
    assert verdict(record(confirm=False)) is Verdict.INCONCLUSIVE
    assert verdict(record(confirm=True), thresholds=Thresholds(threshold=0.5)) is Verdict.INCONCLUSIVE


@pytest.mark.requirements("R31")
def test_a_forbidden_tool_call_fails_at_once_with_the_worst_letter() -> None:
    def record(parameters: ToolCallCount, severity: str = "must", head: str = "F P") -> SkillRecord:
        case = case_record("1", checks=[check("c1", severity, parameters=parameters)], head=head.split())
        return skill_record(case, *good(20))

    report = decide(record(ToolCallCount(tool="send_mail", max=0)))
    assert (report.verdict, report.release_grade) == (Verdict.FAIL, "F")
    assert report.reasons[0].startswith("V2: eval 1: forbidden tool send_mail was called in with_skill run 1: ")
    assert verdict(record(ToolCallCount(tool="send_mail", expected_count=0))) is Verdict.FAIL
    for harmless in (
        record(ToolCallCount(tool="send_mail", max=0), severity="should"),
        record(ToolCallCount(tool="send_mail", max=1)),
        record(ToolCallCount(tool="send_mail", max=0, status="error")),
        record(ToolCallCount(tool="send_mail", max=0), head="timeout P"),
    ):
        assert verdict(harmless) in (Verdict.INCONCLUSIVE, Verdict.CONDITIONAL, Verdict.PASS)


# --- 7 inconclusive, 8 conditional ----------------------------------------------------------------------------------


def test_a_must_check_that_is_mixed_is_inconclusive_and_says_how_many_more_runs_would_tell() -> None:
    report = decide(skill_record(simple_case("1", head="P F P", base="P"), *good(5)))
    assert report.verdict is Verdict.INCONCLUSIVE
    assert "failed in run 2" in report.reasons[0]
    assert "about 27 more runs of this case at the same rate would tell" in report.reasons[0]


def test_a_rate_below_the_threshold_without_its_bound_is_inconclusive_with_the_cases_needed() -> None:
    soft = [check("c1", "should")]
    cases = [case_record("1", checks=soft, head=["F", "P"], base=["F"]), *good(3)]
    report = decide(skill_record(*cases))
    assert report.verdict is Verdict.INCONCLUSIVE
    assert report.reasons == (
        (
            "3 of 4 cases passed, below the threshold of 0.80, but the exact upper 95 % bound is 0.99; about 169 more cases "
            "at the same rate would decide"
        ),
    )


def test_three_lost_cases_leave_a_doubt_that_two_do_not() -> None:
    def record(lost: int) -> SkillRecord:
        soft = [check("c1", "should")]
        cases = [case_record(f"l{n}", checks=soft, head=["P", "F"], base=["P", "P"]) for n in range(lost)]
        return skill_record(*cases, *good(30))

    report = decide(record(3))
    assert report.verdict is Verdict.INCONCLUSIVE
    assert report.reasons == (
        (
            "head passes fewer cases than base: 3 lost (eval l0, eval l1, eval l2), 0 won, one-sided exact p = 0.125; 3 more "
            "lost cases would decide"
        ),
    )
    assert verdict(record(2)) is Verdict.PASS


@pytest.mark.requirements("R51", "R62")
@pytest.mark.parametrize("mode", [Mode.SMOKE, Mode.QUICK])
def test_smoke_and_quick_say_at_best_conditional(mode: Mode) -> None:
    report = decide(skill_record(*good()), mode=mode)
    assert report.verdict is Verdict.CONDITIONAL
    assert report.wording.startswith("smoke passed; ") is (mode is Mode.SMOKE)


@pytest.mark.requirements("R62")
def test_one_completed_run_of_a_case_is_no_pass() -> None:
    report = decide(skill_record(simple_case("1", head="P", base="P"), *good()))
    assert report.verdict is Verdict.CONDITIONAL
    assert report.reasons == ("eval 1 has 1 completed with-run; a pass needs 2",)


def test_a_should_assertion_failing_in_most_runs_is_conditional_and_in_half_of_them_is_not() -> None:
    def record(*head: str) -> SkillRecord:
        return skill_record(case_record("1", checks=[check("c1")], expectations=[expectation("e1")], head=head))

    report = decide(record("PF", "PF", "PP"))
    assert report.verdict is Verdict.CONDITIONAL
    assert report.reasons == (
        (
            'eval 1: should expectation e1 "The table is sorted" failed in 2 of 3 with-runs (runs 1, 2): no quote supports it '
            "in run 2"
        ),
    )
    assert verdict(record("PF", "PP")) is Verdict.PASS


def test_an_expectation_without_a_verdict_in_most_runs_is_named_and_is_no_pass() -> None:
    many = [expectation(f"e{n}") for n in range(12)]
    case = case_record("1", expectations=many, head=["U" + "P" * 11] * 2)
    beside = case_record("1", checks=[check("c1")], expectations=many, head=["PU" + "P" * 11] * 2)
    assert verdict(skill_record(case)) is Verdict.INCONCLUSIVE
    report = decide(skill_record(beside))
    assert report.verdict is Verdict.CONDITIONAL
    assert report.reasons == ('eval 1: should expectation e0 "The table is sorted" has no verdict in 2 of 2 with-runs',)


def test_a_judge_of_unknown_health_is_conditional_and_exact_checks_need_none() -> None:
    silent = case_record("1", expectations=[expectation("e1")], head=["P", "P"], controls=(None, None))
    report = decide(skill_record(silent))
    assert report.verdict is Verdict.CONDITIONAL
    assert report.reasons == ("judge health unknown: no control was answered in this session",)
    exact = decide(skill_record(*good()))
    assert exact.judge_health == "no judge needed: every counted assertion is an exact check"
    answered = decide(skill_record(case_record("1", expectations=[expectation("e1")], head=["P", "P"])))
    assert answered.judge_health == (
        "4 of 4 controls answered; known-false ones passed: 0 of 2; known-true ones failed: 0 of 2; TPR 100% (34% to "
        "100%), TNR 100% (34% to 100%), at best; it passed 2 of 2 expectations, corrected for its errors 100% (4% to 100%)"
    )


def test_crashes_negative_lift_and_a_low_letter_are_conditional_without_their_bound() -> None:
    crashed = decide(skill_record(simple_case("1", head="P P timeout"), *good(5)), thresholds=Thresholds(threshold=0.1))
    assert crashed.verdict is Verdict.INCONCLUSIVE
    soft = [check("c1", "should")]
    slow = case_record("1", checks=soft, head=["P", "P", "timeout"], none=["P"])
    report = decide(skill_record(slow, *good(3)))
    assert report.verdict is Verdict.CONDITIONAL
    assert report.reasons == ("V4: 1 of 9 with-runs crashed or gave no answer, over 5%",)
    worse = case_record("1", checks=soft, head=["P", "P", "F"], none=["P"])
    negative = decide(skill_record(worse, *good(3, none="P")))
    assert negative.verdict is Verdict.CONDITIONAL
    assert negative.reasons[0].startswith("V8: negative lift: -0.08 (0.92 with, 1.00 without;")
    low = decide(skill_record(case_record("1", checks=soft, head=["P", "P", "F"])))
    assert low.reasons == ("release grade D: 2 of 3 single assertions passed",)


@pytest.mark.requirements("R124", "R125", "R126", "R127", "R128")
@pytest.mark.parametrize(
    ("won", "lost", "tied", "low", "words"),
    [
        (9, 0, 1, False, "high pass rate (10/10, bar 0.80) and win (won 9 : lost 0 : TIE 1): release with confidence"),
        (
            0,
            9,
            1,
            False,
            "high pass rate (10/10, bar 0.80) and loss (won 0 : lost 9 : TIE 1): the rules may be redundant",
        ),
        (3, 2, 1, False, "high pass rate (6/6, bar 0.80) and tie (won 3 : lost 2 : TIE 1): the rules may be redundant"),
        (9, 0, 1, True, "low pass rate (7/10, bar 0.80) and win (won 9 : lost 0 : TIE 1): the direction is right"),
        (0, 9, 1, True, "low pass rate (7/10, bar 0.80) and loss (won 0 : lost 9 : TIE 1): the skill must be fixed"),
        (3, 2, 1, True, "low pass rate (3/6, bar 0.80) and tie (won 3 : lost 2 : TIE 1): the skill must be fixed"),
        (4, 0, 2, False, "won 4 : lost 0 : TIE 2; too few cases to tell"),
        (5, 0, 1, False, "won 5 : lost 0 : TIE 1; too few cases to tell"),
        (0, 0, 0, False, "no blind comparison ran"),
    ],
)
def test_the_four_quadrants_have_their_words(won: int, lost: int, tied: int, low: bool, words: str) -> None:
    outcomes = [Winner.SKILL] * won + [Winner.BASELINE] * lost + [Winner.TIE] * tied
    cases = [
        case_record(
            f"{number}",
            checks=[check("c1", "should")],
            head=["F", "P"] if low and number < 3 else ["P", "P"],
            layer3=compared(outcome),
        )
        for number, outcome in enumerate(outcomes)
    ] or [simple_case(head="P P")]
    report = decide(skill_record(*cases))
    assert report.quadrant.startswith(words)
    assert (report.won, report.lost, report.tied) == (won, lost, tied)


def test_a_lost_comparison_is_conditional_where_the_rate_is_high_and_a_tie_is_not() -> None:
    def lost(count: int) -> list[CaseRecord]:
        return [
            case_record(f"{n}", checks=[check("c1")], head=["P", "P"], layer3=compared(Winner.BASELINE))
            for n in range(count)
        ]

    tied = [case_record(f"{n}", checks=[check("c1")], head=["P", "P"], layer3=compared(Winner.TIE)) for n in range(5)]
    assert decide(skill_record(*lost(8))).reasons == (
        "the cases pass, yet the blind comparison is lost: won 0 : lost 8 : TIE 0, one-sided exact p = 0.004",
    )
    # Not enough to call the suite lost, and enough for a doubt.
    few = decide(skill_record(*lost(5)))
    assert few.reasons == (
        (
            "the cases pass, yet more comparisons are lost than chance would give: won 0 : lost 5 : TIE 0, one-sided "
            "exact p = 0.031"
        ),
    )
    assert few.quadrant == "won 0 : lost 5 : TIE 0; too few cases to tell"
    assert verdict(skill_record(*lost(4))) is Verdict.PASS
    assert verdict(skill_record(*tied)) is Verdict.PASS


def test_a_comparison_whose_opened_assignment_belongs_to_another_seal_did_not_run() -> None:
    layer3 = compared(Winner.SKILL)
    assert layer3.unblinding is not None
    other = layer3.model_copy(
        update={"unblinding": layer3.unblinding.model_copy(update={"comparison_sealed": "9" * 64})}
    )
    report = decide(skill_record(case_record("1", checks=[check("c1")], head=["P", "P"], layer3=other)))
    assert (report.won, report.quadrant) == (0, "no blind comparison ran")


def test_a_generated_suite_and_blocked_cases_are_conditional() -> None:
    assert decide(skill_record(*good(), generated=True)).reasons == (
        "the suite was generated, not written by its author",
    )
    blocked = case_record("x", checks=[check("c1")], blocked="no key for the weather service")
    report = decide(skill_record(*good(), blocked))
    assert report.verdict is Verdict.CONDITIONAL
    assert report.reasons == ("1 of 4 cases could not run (eval x)",)
    assert report.not_tested[0] == "eval x was blocked: no key for the weather service"
    assert report.authoritative == Share(passed=3, total=3)


def test_strict_asks_for_a_bound_on_the_drop_and_for_layer_3() -> None:
    def record(count: int, case_type: CaseType = CaseType.HAPPY_PATH) -> SkillRecord:
        cases = [
            case_record(f"{n}", checks=[check("c1")], head=["P", "P"], base=["P", "P"], case_type=case_type,
                        layer3=compared(Winner.TIE))
            for n in range(count)
        ]  # fmt: skip
        return skill_record(*cases)

    few = decide(record(15), enforce=Enforce.STRICT)
    assert (few.verdict, few.state) == (Verdict.CONDITIONAL, State.FAILURE)
    assert few.reasons == (
        (
            "a drop of up to 0.15 against base cannot be excluded with 15 cases (strict asks for under 0.15); 16 cases that "
            "pass on both prove it, or set release_delta in the base policy"
        ),
    )
    assert verdict(record(16), enforce=Enforce.STRICT) is Verdict.PASS
    assert verdict(record(4), enforce=Enforce.STRICT, thresholds=Thresholds(release_delta=0.5)) is Verdict.PASS
    atomic = decide(record(16, CaseType.ATOMIC), enforce=Enforce.STRICT)
    assert atomic.reasons == ("Layer 3 is required, and no case is of a type that it compares (happy_path, e2e)",)
    silent = decide(skill_record(*good(1)), require_layer3=True)
    assert silent.reasons == ("Layer 3 is required and did not run for eval good-0",)


# --- figures and words ----------------------------------------------------------------------------------------------


def test_every_arm_carries_planned_finished_completed_activated_and_graded() -> None:
    case = case_record(
        "1",
        checks=[check("c1"), check("c2", "info")],
        expectations=[expectation("e1")],
        head=["PPP", "PPU!", "timeout", "infra_error"],
        none=["FPF"],
    )
    figures = {item.arm: item for item in decide(skill_record(case)).arms}
    head = figures[Arm.WITH_SKILL]
    assert (head.planned, head.finished, head.completed, head.activated, head.graded) == (4, 3, 2, 1, 1)
    assert head.assertions == Share(passed=3, total=6)
    assert head.mean_rate == pytest.approx(0.5)
    assert head.sd_rate == pytest.approx(0.5)
    none = figures[Arm.WITHOUT_SKILL]
    assert (none.mean_rate, none.sd_rate) == (0.0, None)
    assert figures[Arm.BASE_SKILL].skipped == "a new skill has no base (1 case)"


def test_an_unknown_cost_is_never_a_zero() -> None:
    case = simple_case("1", head="P P")
    run = case.runs[0]
    metrics = run.record.metrics.model_copy(update={"cost_usd": None, "total_tokens": None})
    unknown = run.model_copy(update={"record": run.record.model_copy(update={"metrics": metrics})})
    figures = decide(skill_record(case.model_copy(update={"runs": (unknown, case.runs[1])}))).arms[0]
    assert (figures.cost_usd, figures.mean_tokens) == (None, None)
    assert decide(skill_record(case)).arms[0].cost_usd == pytest.approx(0.02)


@pytest.mark.requirements("R4")
def test_lift_is_averaged_over_cases_so_that_filled_ones_do_not_weigh_more() -> None:
    filled = simple_case("1", head="P P P~", none="F F~ F~")
    plain = simple_case("2", head="P P", none="P")
    report = decide(skill_record(filled, plain, simple_case("3", head="P P")))
    assert report.lift == (
        "+0.50 (1.00 with, 0.50 without; mean rate of checks over 2 cases, 1 left out); one-sided sign-flip p = 0.500; "
        "may be chance"
    )


def test_fallbacks_are_summed_over_runs_and_name_dropped_runs_and_skipped_arms() -> None:
    fenced = (FallbackCount(kind="reply_fenced", role="executor", count=2),)
    case = case_record(
        "1", checks=[check("c1")], head=["P", "P", "P", "P", "infra_error"], base=["P"], fallbacks=fenced
    )
    report = decide(skill_record(case))
    assert report.fallbacks == (
        FallbackCount(kind="arm_skipped:without_skill: skipped in this mode", count=1),
        FallbackCount(kind="reply_fenced", role="executor", count=4),
        FallbackCount(kind="runs_dropped", role="executor", count=1),
    )


def test_replies_without_a_verdict_are_named_in_the_verdict() -> None:
    invalid = (FallbackCount(kind="reply_invalid", role="grader", count=2),)
    report = decide(skill_record(case_record("1", checks=[check("c1")], head=["P", "P"], fallbacks=invalid)))
    assert report.verdict is Verdict.PASS
    assert report.reasons[-1] == "model replies without a verdict, which count for nothing: 2"


@pytest.mark.requirements("R101", "R102", "R103", "R104")
def test_suggestions_come_by_priority_with_the_line_that_they_are_about() -> None:
    def advice(priority: Literal["high", "low"], line: int | None) -> Suggestion:
        place = SkillLine(path=f"{PATH}/SKILL.md", line=line, text="Do it.") if line else None
        return Suggestion(priority=priority, category="tools", suggestion=f"do {priority}", expected_impact="better",
                          citation=place)  # fmt: skip

    analysis = Analysis(eval_id="1", outcome=Winner.TIE, improvement_suggestions=(advice("low", None), advice("high", 12)),
                        notes=("no observable gain on this case",))  # fmt: skip
    case = case_record("1", checks=[check("c1")], head=["P", "P"], layer3=compared(Winner.TIE, analysis=analysis))
    assert decide(skill_record(case)).suggestions == (
        "high, tools: do high (SKILL.md line 12); expected: better [eval 1]",
        "low, tools: do low; expected: better [eval 1]",
        "no observable gain on this case [eval 1]",
    )


def test_text_that_addresses_a_judge_is_noted() -> None:
    case = case_record("1", expectations=[expectation("e1")], head=["P", "P"])
    report = decide(skill_record(with_grading(case, suspicious=("verdict-like text at B003",))))
    assert "the record holds text that addresses a judge: verdict-like text at B003" in report.notes


def test_a_case_report_says_why_and_where() -> None:
    nothing = compared(Winner.TIE).model_copy(update={"comparison": NotRun(not_run="mode quick"), "unblinding": None})
    case = case_record("7", name="seven", checks=[check("c1")], head=["P", "F", "timeout"], layer3=nothing)
    shown = decide(skill_record(case)).cases[0]
    assert (shown.passed, shown.comparison) == (False, "not run: mode quick")
    assert shown.folder == "skills/skills-tidy-tables-fa95f488/eval-7"
    assert shown.reasons == (
        "must check c1 \"response_contains: keyword 'total'\" passed in 1 of 3 with-runs",
        "run 3 with_skill: timeout: the run ended as timeout",
    )


@pytest.mark.parametrize(
    ("arm", "again", "verdict"),
    [
        (Arm.WITH_SKILL, GradeStatus.FAILED, Verdict.FAIL),
        (Arm.WITH_SKILL, GradeStatus.UNGRADED, Verdict.FAIL),
        (Arm.WITH_SKILL, GradeStatus.PASSED, Verdict.INCONCLUSIVE),
        (Arm.BASE_SKILL, GradeStatus.PASSED, Verdict.FAIL),
        (Arm.BASE_SKILL, GradeStatus.FAILED, Verdict.INCONCLUSIVE),
    ],
)
def test_a_flip_of_an_opinion_that_its_grader_takes_back_fails_nothing(
    arm: Arm, again: GradeStatus, verdict: Verdict
) -> None:
    case = case_record(
        "1", checks=[check("c1")], expectations=[expectation("e1")],
        head=["PF", "PF", "PF", "PF+"], base=["PP", "PP", "PP", "PP+"],
    )  # fmt: skip

    def asked(run: JudgedRun) -> JudgedRun:
        if run.record.purpose != "confirm" or run.record.key.arm is not arm:
            return run
        grading = run.judgement.grading
        assert not isinstance(grading, NotRun)
        check = SpotCheck(kind="again", expectation_id="e1", model_said=None, status=again)
        judgement = run.judgement.model_copy(update={"grading": grading.model_copy(update={"spot_checks": (check,)})})
        return run.model_copy(update={"judgement": judgement})

    report = decide(skill_record(case.model_copy(update={"runs": tuple(map(asked, case.runs))})))
    assert report.verdict is verdict
    if verdict is Verdict.INCONCLUSIVE:
        assert "the grader said otherwise" in report.reasons[0]
