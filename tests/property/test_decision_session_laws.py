from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from gate.decision.look import Look
from gate.decision.verdict import decide_skills
from gate.domain.base import NotRun, canonical_json
from gate.domain.evidence import Outcome
from gate.domain.judgement import Winner
from gate.domain.plan import Arm, Enforce, Mode
from gate.domain.report import CaseRecord, JudgedRun, SkillRecord, State, Verdict
from gate.settings import Thresholds
from tests.builders_records import RUN_DATE, case_record, check, compared, decide, skill_record

CASE = st.fixed_dictionaries(
    {
        "head": st.lists(st.sampled_from("PPPF"), min_size=2, max_size=3),
        "base": st.lists(st.sampled_from("PPPF"), min_size=1, max_size=3),
        "none": st.lists(st.sampled_from("PF"), min_size=1, max_size=3),
    }
)


def lost(run: JudgedRun) -> JudgedRun:
    """The same run, had the engine failed under it."""
    nothing = NotRun(not_run="the engine went away")
    return run.model_copy(
        update={
            "record": run.record.model_copy(update={"outcome": Outcome.INFRA_ERROR, "reason": "the engine went away"}),
            "judgement": run.judgement.model_copy(update={"checks": nothing, "grading": nothing}),
        }
    )


def without_runs(record: SkillRecord, numbers: set[tuple[str, int]]) -> SkillRecord:
    """The record with the runs of these (case, number) lost in every arm: pairs are void together."""

    def of(case: CaseRecord) -> CaseRecord:
        runs = tuple(lost(r) if (case.plan.case.eval_id, r.record.key.run) in numbers else r for r in case.runs)
        return case.model_copy(update={"runs": runs})

    return record.model_copy(update={"cases": tuple(of(case) for case in record.cases)})


def skill_with(cases: list[dict[str, list[str]]], path: str = "skills/a") -> SkillRecord:
    return skill_record(
        *(case_record(str(n), checks=[check("c1")], path=path, **words) for n, words in enumerate(cases)),  # type: ignore[arg-type]
        path=path,
    )


@settings(max_examples=120)
@given(st.lists(CASE, min_size=1, max_size=6), st.data())
def test_infrastructure_failures_never_turn_a_fail_into_a_pass_or_a_pass_into_a_fail(
    cases: list[dict[str, list[str]]], data: st.DataObject
) -> None:
    confirmed = [
        {arm: [*words, f"{words[-1]}+"] for arm, words in case.items()} if data.draw(st.booleans()) else case
        for case in cases
    ]
    record = skill_with(confirmed)
    places = [(c.plan.case.eval_id, r.record.key.run) for c in record.cases for r in c.of(Arm.WITH_SKILL)]
    gone = set(data.draw(st.lists(st.sampled_from(places), max_size=4)))
    before, after = decide(record).verdict, decide(without_runs(record, gone)).verdict
    assert {before, after} != {Verdict.FAIL, Verdict.PASS}


@settings(max_examples=80)
@given(st.lists(CASE, min_size=1, max_size=6), st.data())
def test_a_lost_pair_lowers_completion_and_no_rate_without_saying_so(
    cases: list[dict[str, list[str]]], data: st.DataObject
) -> None:
    record = skill_with(cases)
    place = data.draw(st.sampled_from([(c.plan.case.eval_id, 1) for c in record.cases]))
    before, after = decide(record), decide(without_runs(record, {place}))
    for one, other in zip(before.arms, after.arms, strict=True):
        assert other.planned == one.planned
        assert other.finished == one.finished - (1 if one.planned else 0)
    dropped = {item.kind: item.count for item in after.fallbacks}
    assert dropped["runs_dropped"] == 3
    assert after.authoritative.total >= before.authoritative.total - 1


@settings(max_examples=80)
@given(
    st.lists(st.lists(st.sampled_from("PPF"), min_size=2, max_size=3), min_size=1, max_size=8), st.sampled_from(Mode)
)
def test_equal_arms_everywhere_never_help(words: list[list[str]], mode: Mode) -> None:
    record = skill_record(
        *(
            case_record(str(n), checks=[check("c1")], head=word, base=word, none=word, layer3=compared(Winner.TIE))
            for n, word in enumerate(words)
        )
    )
    report = decide(record, mode=mode)
    assert "no lift shown" in report.lift
    assert "win" not in report.quadrant
    assert "release with confidence" not in report.quadrant


@settings(max_examples=40)
@given(st.lists(st.lists(CASE, min_size=1, max_size=4), min_size=2, max_size=4), st.randoms(use_true_random=False))
def test_the_order_of_skills_changes_no_byte(skills: list[list[dict[str, list[str]]]], random: object) -> None:
    looks = [
        Look(
            skill_with(cases, f"skills/{n}"), Mode.STANDARD, Enforce.STANDARD, Thresholds(), "warn", False, (), RUN_DATE
        )
        for n, cases in enumerate(skills)
    ]
    shuffled = list(looks)
    random.shuffle(shuffled)  # type: ignore[attr-defined]
    expected = {report.path: canonical_json(report) for report in decide_skills(looks)}
    assert {report.path: canonical_json(report) for report in decide_skills(shuffled)} == expected


@settings(max_examples=40)
@given(st.lists(CASE, min_size=1, max_size=4), st.lists(st.lists(CASE, min_size=1, max_size=4), max_size=3))
def test_company_never_makes_a_skill_fail_that_would_not_fail_alone(
    cases: list[dict[str, list[str]]], others: list[list[dict[str, list[str]]]]
) -> None:
    looks = [
        Look(
            skill_with(item, f"skills/{n}"), Mode.STANDARD, Enforce.STANDARD, Thresholds(), "warn", False, (), RUN_DATE
        )
        for n, item in enumerate([cases, *others])
    ]
    together = decide_skills(looks)[0]
    alone = decide_skills(looks[:1])[0]
    if alone.verdict is not Verdict.FAIL:
        assert together.verdict is alone.verdict
    if together.verdict is Verdict.PASS:
        assert alone.state is State.SUCCESS
