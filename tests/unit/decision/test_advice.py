"""What Layer 3 says to people: three conditions, scores and doubts, advice at lines, and comparisons that do not hold."""

from __future__ import annotations

from typing import Any

import pytest

from gate.audit.simulate import compared_by
from gate.decision.advice import conditions_of
from gate.domain.base import NotRun
from gate.domain.findings import Level
from gate.domain.judgement import (
    Analysis,
    CaseComparison,
    Cause,
    FollowedInstructions,
    InstructionFollowing,
    SkillLine,
    Suggestion,
    TranscriptInsights,
    Winner,
)
from gate.domain.plan import Arm, ArmPlan, Enforce, Limits, Mode
from gate.domain.report import CaseRecord, Share, Verdict
from gate.domain.suite import CaseType
from gate.evidence.assemble import broken_comparison
from tests.builders_records import PATH, case_record, check, compared, decide, run, skill_record

LINE = SkillLine(path=f"{PATH}/SKILL.md", line=12, text="Always sort.")


def suggestion(text: str = "Sort by date.", line: SkillLine | None = LINE, **more: Any) -> Suggestion:
    values = {"priority": "medium", "category": "error_handling", "suggestion": text, "expected_impact": "Fewer slips."}
    return Suggestion(**{**values, "citation": line, **more})


def an_analysis(outcome: Winner, *suggestions: Suggestion, notes: tuple[str, ...] = ()) -> Analysis:
    ours, theirs = FollowedInstructions(score=8, issues=("No date.",)), FollowedInstructions(score=3)
    return Analysis(
        eval_id="1",
        outcome=outcome,
        winner_strengths=(Cause(text="It sorts.", citation=LINE),),
        loser_weaknesses=(Cause(text="It does not."),),
        instruction_following=InstructionFollowing(with_skill=ours, without_skill=theirs),
        improvement_suggestions=suggestions,
        transcript_insights=TranscriptInsights(with_skill_execution_pattern="It reads first."),
        notes=notes,
    )


def one(layer3: CaseComparison, eval_id: str = "1", **more: Any) -> CaseRecord:
    return case_record(eval_id, checks=[check("c1")], head=["P", "P"], none=["F"], layer3=layer3, **more)


def with_generated(case: CaseRecord, *words: str) -> CaseRecord:
    """The case with runs of a skill that the model wrote for itself."""
    plan = case.plan.model_copy(
        update={"arms": (*case.plan.arms, ArmPlan(arm=Arm.SELF_GENERATED, runs=len(words), limits=Limits(steps=10)))}
    )
    runs = tuple(
        run(word, case=case.plan.case, number=number, arm=Arm.SELF_GENERATED) for number, word in enumerate(words, 1)
    )
    return case.model_copy(update={"plan": plan, "runs": (*case.runs, *runs)})


@pytest.mark.requirements("R69", "R70", "R71")
def test_three_conditions_stand_side_by_side_with_their_counts_and_lifts() -> None:
    cases = [
        with_generated(
            case_record("1", checks=[check("c1"), check("c2")], head=["PP", "PF"], none=["PF", "FF"]), "PF", "PP"
        ),
        case_record("2", checks=[check("c1")], head=["P"], none=["F"]),
    ]
    without, curated, generated = conditions_of(cases)
    assert (without.name, without.passed, without.cases, without.runs) == (
        "without a skill",
        Share(passed=1, total=5),
        2,
        3,
    )
    assert (without.rate, without.lift) == (0.125, None)
    assert (curated.name, curated.passed, curated.rate, curated.lift) == (
        "curated skill",
        Share(passed=4, total=5),
        0.875,
        0.75,
    )
    # Only over the case that ran under both: its rate there is .75 against .25.
    assert (generated.cases, generated.runs, generated.rate) == (1, 2, 0.75)
    assert (generated.lift, generated.lift_cases) == (0.5, 1)
    assert generated.absent is None


def test_a_condition_that_did_not_run_says_so_and_moves_nothing() -> None:
    report = decide(skill_record(one(compared(Winner.TIE)), one(compared(Winner.TIE), "2")))
    without, curated, generated = report.conditions
    assert (curated.rate, curated.lift, curated.lift_cases) == (1.0, 1.0, 2)
    assert without.absent is None
    assert (generated.rate, generated.lift, generated.absent) == (None, None, "not planned (2 cases)")
    assert conditions_of([]) == ()


@pytest.mark.requirements("R101", "R102", "R103", "R104", "R122")
def test_suggestions_about_lines_are_notices_at_these_lines_and_move_no_verdict() -> None:
    analysis = an_analysis(Winner.TIE, suggestion(), suggestion("Say more.", None), suggestion(priority="high"))
    plain = decide(skill_record(one(compared(Winner.TIE)), one(compared(Winner.TIE), "2")))
    report = decide(skill_record(*(one(compared(Winner.TIE, analysis=analysis), name) for name in ("1", "2"))))
    (finding,) = report.findings
    assert (finding.rule, finding.level, finding.path, finding.line) == (
        "analyzer/error-handling",
        Level.NOTICE,
        f"{PATH}/SKILL.md",
        12,
    )
    assert finding.message.endswith("Sort by date; expected: Fewer slips [eval 1, eval 2]")
    assert not finding.blocks
    assert (report.verdict, report.reasons, report.state) == (plain.verdict, plain.reasons, plain.state)


@pytest.mark.requirements("R85", "R131")
def test_a_tie_reads_no_observable_gain_even_where_nothing_was_analysed() -> None:
    report = decide(skill_record(one(compared(Winner.TIE)), one(compared(Winner.SKILL), "2")))
    assert report.suggestions == ("no observable gain on this case [eval 1]",)
    noted = an_analysis(Winner.TIE, notes=("no observable gain on this case",))
    assert decide(skill_record(one(compared(Winner.TIE, analysis=noted)))).suggestions == (
        "no observable gain on this case [eval 1]",
    )


@pytest.mark.requirements("R99", "R100", "R105")
def test_the_case_shows_scores_counts_and_why() -> None:
    layer3 = compared(Winner.BASELINE, analysis=an_analysis(Winner.BASELINE))
    (case,) = decide(skill_record(one(layer3))).cases
    assert case.comparison == "baseline_wins"
    assert case.comparison_detail == "7.0 with, 9.0 without, of 10; 1 pair of runs, both orders"
    assert case.analysis == (
        "better without the skill: It sorts. (SKILL.md line 12)",
        "worse with it: It does not.",
        "instruction following with the skill 8 of 10: No date.",
        "instruction following without 3 of 10",
        "how the agent worked with the skill: It reads first.",
    )


def test_what_makes_a_comparison_doubtful_is_said_beside_its_scores() -> None:
    unstable = compared_by(27, 21, 21, 27)
    (case,) = decide(skill_record(one(unstable))).cases
    assert "position_unstable in 1" in case.comparison_detail
    (pair,) = unstable.comparison.pairs if not isinstance(unstable.comparison, NotRun) else ()
    leaky = pair.model_copy(update={"leaks": ("skill_name",), "scrubbed": 1, "speaks_to_a_judge": ("A",)})
    (case,) = decide(skill_record(one(_with_pair(unstable, leaky)))).cases
    assert "an output addresses a judge and cannot win in 1" in case.comparison_detail
    assert "blindness risk: skill_name taken out" in case.comparison_detail


def _with_pair(layer3: CaseComparison, pair: Any) -> CaseComparison:
    assert not isinstance(layer3.comparison, NotRun)
    assert layer3.unblinding is not None
    changed = layer3.comparison.model_copy(update={"pairs": (pair,)})
    sealed = changed.model_copy(update={"sealed": changed.seal})
    return layer3.model_copy(
        update={
            "comparison": sealed,
            "unblinding": layer3.unblinding.model_copy(update={"comparison_sealed": sealed.sealed}),
        }
    )


# Comparisons that do not hold --------------------------------------------------------------------------------------------


def test_a_comparison_that_was_changed_copied_or_opened_otherwise_is_broken() -> None:
    layer3 = compared(Winner.SKILL)
    assert not isinstance(layer3.comparison, NotRun)
    assert layer3.unblinding is not None
    assert broken_comparison(layer3, "") is None
    assert broken_comparison(CaseComparison(comparison=NotRun(not_run="x"), analysis=NotRun(not_run="x")), "") is None
    changed = layer3.comparison.model_copy(update={"reasoning": "A is better."})
    turned = layer3.unblinding.model_copy(update={"outcome": Winner.BASELINE, "winner_is_with_skill": False})
    for update, eval_id, words in (
        ({"comparison": changed}, "", "changed after it was sealed"),
        ({}, "other", "it is of the case"),
        ({"unblinding": turned}, "", "what was opened is not what was sealed"),
        ({"comparison": NotRun(not_run="x")}, "", "opened without a comparison"),
    ):
        assert words in str(broken_comparison(layer3.model_copy(update=update), eval_id))
    # The decision counts none of them.
    for update in ({"comparison": changed}, {"unblinding": turned}):
        report = decide(skill_record(one(layer3.model_copy(update=update))))
        assert (report.won, report.lost) == (0, 0)


@pytest.mark.requirements("R46", "R107", "R108")
@pytest.mark.parametrize(
    ("layer3", "mode", "words"),
    [
        ("mode smoke has no comparison", Mode.SMOKE, "did not run for eval 1"),
        ("mode quick has no comparison", Mode.QUICK, "did not run for eval 1"),
        ("over budget: 600 calls", Mode.STANDARD, "did not run for eval 1"),
        ("the comparator gave no valid reply with A shown first", Mode.FULL, "did not run for eval 1"),
    ],
)
def test_a_comparison_that_did_not_run_is_no_evidence_for_a_release(layer3: str, mode: Mode, words: str) -> None:
    skipped = CaseComparison(comparison=NotRun(not_run=layer3), analysis=NotRun(not_run=layer3))
    report = decide(
        skill_record(one(skipped), one(compared(Winner.SKILL), "2")),
        mode=mode,
        enforce=Enforce.STRICT,
        require_layer3=True,
    )
    assert report.verdict is Verdict.CONDITIONAL
    assert report.state.value == "failure"
    assert any(f"Layer 3 is required and {words}" in reason for reason in report.reasons)
    assert any(layer3 in line for line in report.not_tested)


def test_required_layer_3_is_not_met_by_cases_that_it_never_compares() -> None:
    skipped = CaseComparison(comparison=NotRun(not_run="edge"), analysis=NotRun(not_run="edge"))
    report = decide(skill_record(one(skipped, case_type=CaseType.EDGE_CASE)), require_layer3=True)
    assert report.verdict is Verdict.CONDITIONAL
    assert any("no case is of a type that it compares" in reason for reason in report.reasons)
