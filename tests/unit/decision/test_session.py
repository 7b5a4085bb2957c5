"""What holds over several skills, and what stands beside the verdicts: cost, override, memory of one decision."""

from __future__ import annotations

from dataclasses import replace
from itertools import permutations

import pytest

from gate.decision.cost import cost_words
from gate.decision.look import Look
from gate.decision.remembered import remembered, remembering
from gate.decision.state import summarise
from gate.decision.verdict import decide_skills, verdict_of
from gate.domain.base import FallbackCount, canonical_json
from gate.domain.plan import Arm, Enforce, Mode, Plan
from gate.domain.report import ArmFigures, GateReport, ModelUse, Override, Share, SkillRecord, State, Verdict
from gate.settings import Thresholds
from tests.builders_records import RUN_DATE, case_record, check, decide, skill_record
from tests.builders_report import plan_of, report_of, sample_report

KEPT, MISSED = ["P", "P", "P", "P+"], ["F", "F", "P", "F+"]


def look(record: SkillRecord) -> Look:
    return Look(record, Mode.FULL, Enforce.STANDARD, Thresholds(), "warn", False, (), RUN_DATE)


def skill(path: str, lost: int, cases: int = 25) -> SkillRecord:
    """``lost`` cases pass on base and not on head, in most runs: nothing but a test over cases can block it."""
    return skill_record(
        *(
            case_record(str(n), checks=[check("c1", "should")], head=MISSED if n < lost else KEPT, base=KEPT, path=path)
            for n in range(cases)
        ),
        path=path,
    )


def moved(path: str, cases: int = 25) -> SkillRecord:
    """Six cases got better and one got worse: nothing to blame, and seven cases that say something."""
    words = {n: (MISSED, KEPT) if n == 0 else (KEPT, MISSED) if n < 7 else (KEPT, KEPT) for n in range(cases)}
    return skill_record(
        *(
            case_record(str(n), checks=[check("c1", "should")], head=head, base=base, path=path)
            for n, (head, base) in words.items()
        ),
        path=path,
    )


def test_five_lost_cases_block_a_skill_alone_and_not_one_of_twenty_that_could_all_be_blocked() -> None:
    alone = verdict_of(look(skill("skills/a", 5)))
    assert alone[0] is Verdict.FAIL
    assert "p = 0.031 after Holm" in alone[1][0]
    many = decide_skills([look(skill("skills/a", 5)), *(look(moved(f"skills/{n}")) for n in range(19))])
    assert Verdict.FAIL not in [report.verdict for report in many]
    assert many[0].verdict is Verdict.INCONCLUSIVE


def test_skills_in_which_no_case_moved_do_not_thin_out_the_error_of_one_that_got_worse() -> None:
    padding = [look(skill(f"skills/{n}", 0, cases)) for n, cases in enumerate([1, 1, 2, 25] * 5)]
    many = decide_skills([look(skill("skills/a", 5)), *padding])
    assert many[0].verdict is Verdict.FAIL
    assert {report.verdict for report in many[1:]} == {Verdict.PASS}


def test_a_skill_that_lost_ten_cases_is_blocked_among_twenty_and_the_report_says_over_how_many() -> None:
    many = decide_skills([look(skill("skills/a", 10)), *(look(skill(f"skills/{n}", 0)) for n in range(19))])
    assert many[0].verdict is Verdict.FAIL
    assert "after Holm over 20 skills" in " ".join(many[0].reasons)


def test_the_order_of_skills_changes_no_byte_of_any_report() -> None:
    records = [skill("skills/a", 5, 6), skill("skills/b", 0, 3), skill("skills/c", 9, 9)]
    expected = {report.path: canonical_json(report) for report in decide_skills([look(item) for item in records])}
    for order in permutations(records):
        found = {report.path: canonical_json(report) for report in decide_skills([look(item) for item in order])}
        assert found == expected


def test_a_session_decided_twenty_times_is_the_same_bytes_in_every_order() -> None:
    records = [skill("skills/a", 5, 6), skill("skills/b", 0, 4)]
    expected = canonical_json(report_of(decide_skills([look(item) for item in records])))
    for turn in range(20):
        turned = [
            item.model_copy(update={"cases": tuple(
                case.model_copy(update={"runs": case.runs[turn % 4 :] + case.runs[: turn % 4]})
                for case in (item.cases[turn % 3 :] + item.cases[: turn % 3])
            )})
            for item in (records if turn % 2 else records[::-1])
        ]  # fmt: skip
        assert canonical_json(report_of(decide_skills([look(item) for item in turned]))) == expected


def test_what_is_remembered_ends_with_the_block_and_is_told_apart_by_identity() -> None:
    asked = []

    @remembered
    def length(of: tuple[int, ...], *, twice: bool = False) -> int:
        asked.append(of)
        return len(of) * (2 if twice else 1)

    one, other = (1, 2), (*(1,), 2)
    with remembering():
        with remembering():
            assert [length(one), length(one), length(one, twice=True)] == [2, 2, 4]
        assert length(one) == 2
        assert len(asked) == 2
        assert length(other) == 2
        assert len(asked) == 3
    length(one)
    length(one)
    assert len(asked) == 5


def uses(*costs: float | None, tokens: int | None = 100) -> list[ModelUse]:
    return [
        ModelUse(role=f"r{n}", model="m", calls=3, failed_calls=n, input_tokens=tokens, output_tokens=tokens, cost_usd=cost,
                 known_input_tokens=tokens or 7, known_output_tokens=tokens or 3, known_cost_usd=cost or 0.01)
        for n, cost in enumerate(costs)
    ]  # fmt: skip


def test_the_first_line_says_what_was_spent_and_what_the_next_push_will_cost() -> None:
    plan = plan_of().model_copy(update={"worst_calls": 700})
    assert cost_words(plan, uses(0.5, 0.25)) == (
        "this run: 6 model calls (1 of them failed), 400 tokens, $0.75; the next push of this size costs about the same, as "
        "no run is kept (planned: 120 calls, at most 700)"
    )


def test_an_unknown_part_makes_a_sum_a_lower_bound_and_an_unknown_whole_no_number() -> None:
    plan = plan_of()
    assert "at least $0.51 (the price of some calls is unknown)" in cost_words(plan, uses(0.5, None))
    assert "at least 20 tokens" in cost_words(plan, uses(0.5, None, tokens=None))
    nothing_known = [
        use.model_copy(update={"known_cost_usd": 0.0, "known_input_tokens": 0, "known_output_tokens": 0})
        for use in uses(None, tokens=None)
    ]
    words = cost_words(plan, nothing_known)
    assert "price unknown" in words
    assert "token usage unknown" in words
    assert "$0" not in words
    assert cost_words(plan, []) == "no model was called: nothing spent"


def overridden(head: str, *, fails: bool = True, plan: Plan | None = None) -> GateReport:
    override = Override(login="octo\u202ecat", permission="maintain", head_commit=head)
    skills = sample_report().skills if fails else ()
    return summarise(plan or plan_of(), skills, gate_version="0", models="m", sandbox="s", override=override)


def test_a_break_glass_label_sets_the_state_aside_in_words_and_leaves_every_verdict() -> None:
    report = overridden(plan_of().head_commit or "")
    assert (report.state, report.exit_code) == (State.SUCCESS, 0)
    assert report.headline.startswith("overridden by octo?cat, was failure: ")
    assert report.override is not None
    assert any(skill.verdict is Verdict.FAIL for skill in report.skills)
    assert "sets failure aside" in " ".join(report.notes)


@pytest.mark.parametrize(("head", "fails"), [("0" * 40, True), (plan_of().head_commit or "", False)])
def test_a_label_for_another_commit_or_a_green_gate_changes_nothing_and_is_shown(head: str, fails: bool) -> None:
    report = overridden(head, fails=fails)
    assert report.override is None
    assert report.state is (State.FAILURE if fails else State.SUCCESS)
    assert ("counts for nothing" if fails else "changes nothing") in " ".join(report.notes)
    assert not report.headline.startswith("overridden")


def test_peers_are_sorted_so_that_a_look_is_the_same_value_in_every_session_order() -> None:
    with_one = replace(look(skill("skills/a", 5, 6)), peers=())
    assert verdict_of(with_one) == verdict_of(look(skill("skills/a", 5, 6)))


def arm_of_run(arm: Arm, finished: int) -> ArmFigures:
    return ArmFigures(
        arm=arm, planned=finished, finished=finished, completed=finished, activated=0, graded=0,
        assertions=Share(passed=0, total=0),
    )  # fmt: skip


def test_with_a_cache_the_next_push_pays_for_the_runs_with_the_skill() -> None:
    arms = (arm_of_run(Arm.WITH_SKILL, 10), arm_of_run(Arm.WITHOUT_SKILL, 5), arm_of_run(Arm.BASE_SKILL, 5))
    skill = decide(skill_record(case_record("1", checks=[check("c1")], head=["P", "P"]))).model_copy(
        update={"arms": arms}
    )
    spent = [
        use.model_copy(update={"role": role, "calls": calls})
        for use, role, calls in zip(uses(0.1, 0.1, 0.1), ("executor", "grader", "comparator"), (60, 20, 6), strict=True)
    ]
    words = cost_words(plan_of(), spent, [skill], kept=True)
    assert "a next push that changes only the skill makes 10 of these 20 runs again: about 46 calls" in words
    reused = skill.model_copy(update={"fallbacks": (FallbackCount(kind="run_reused", count=10),)})
    assert "costs about the same, with what is kept" in cost_words(plan_of(), spent, [reused], kept=True)
    assert "as no run is kept" in cost_words(plan_of(), spent, [skill])
