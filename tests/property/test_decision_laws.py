from __future__ import annotations

from dataclasses import dataclass, replace

from hypothesis import assume, given, settings
from hypothesis import strategies as st

from gate.decision.figures import DEGRADED, authoritative
from gate.decision.further import is_gross, needs_confirm, undecided
from gate.domain.base import NotRun
from gate.domain.evidence import Outcome
from gate.domain.judgement import Winner
from gate.domain.plan import Arm, Enforce, Mode
from gate.domain.report import CaseRecord, JudgedRun, SkillRecord, Verdict
from tests.builders_records import NO_LAYER_3, case_record, check, compared, decide, expectation, skill_record

SEVERITIES = ("must", "should", "info")
ORDER = (Verdict.FAIL, Verdict.INCONCLUSIVE, Verdict.CONDITIONAL, Verdict.PASS)
"""Worse to better. The other verdicts do not depend on what a check said."""


@dataclass(frozen=True)
class Sketch:
    """A case as it is drawn: what ``case_record`` needs."""

    checks: tuple[str, ...]
    expectations: tuple[str, ...]
    head: tuple[str, ...]
    base: tuple[str, ...]
    none: tuple[str, ...]
    origin: str
    won: Winner | None

    def record(self, eval_id: str) -> CaseRecord:
        return case_record(
            eval_id,
            checks=[check(f"c{n}", severity) for n, severity in enumerate(self.checks)],
            expectations=[expectation(f"e{n}", severity) for n, severity in enumerate(self.expectations)],
            head=self.head,
            base=self.base,
            none=self.none,
            origin=self.origin,  # type: ignore[arg-type]
            layer3=NO_LAYER_3 if self.won is None else compared(self.won),
        )


@st.composite
def sketches(draw: st.DrawFn, *, wild: bool = True) -> Sketch:
    checks = tuple(draw(st.lists(st.sampled_from(SEVERITIES), min_size=draw(st.integers(0, 1)), max_size=2)))
    expectations = tuple(draw(st.lists(st.sampled_from(SEVERITIES), max_size=2 if wild else 1)))
    # Most skills of real life are nearly good: without these a pass would hardly ever be drawn.
    quality = draw(st.sampled_from(["good", "good", "nearly", "mixed"]))
    check_letters = {"good": "P", "nearly": "PPPPPPPF", "mixed": "PPPPFFNI-" if wild else "PPPFFN"}[quality]
    grade_letters = {"good": "P", "nearly": "PPPPPPPF", "mixed": "PPPPFFUR-" if wild else "PPPFF"}[quality]
    endings = ["", "", "", "", "", "", *(item.value for item in Outcome if item is not Outcome.COMPLETED)]

    def word() -> str:
        ended = draw(st.sampled_from(endings)) if wild and quality == "mixed" else ""
        if ended:
            return ended
        letters = [draw(st.sampled_from(check_letters)) for _ in checks]
        letters += [draw(st.sampled_from(grade_letters)) for _ in expectations]
        strange = wild and quality == "mixed"
        return "".join(letters) + (draw(st.sampled_from(["", "", "", "", "!", "*"])) if strange else "")

    def arm(least: int, most: int, confirm: bool) -> tuple[str, ...]:
        words = [word() for _ in range(draw(st.integers(least, most)))]
        return tuple(words + ([word() + "+"] if confirm and words else []))

    confirm = draw(st.booleans())
    return Sketch(
        checks=checks,
        expectations=expectations,
        head=arm(0 if quality == "mixed" and wild else 1 if quality == "mixed" else 2, 3, confirm),
        base=arm(0, 3, confirm),
        none=arm(0, 2, False),
        origin=draw(st.sampled_from(["both", "both", "head", "base"])),
        won=draw(st.sampled_from([None, *Winner])),
    )


def skill_of(sketched: list[Sketch]) -> SkillRecord:
    return skill_record(*(item.record(f"{number}") for number, item in enumerate(sketched)))


skills = st.lists(sketches(), max_size=6)
tame_skills = st.lists(sketches(wild=False), min_size=1, max_size=8)
settings_of_a_session = st.fixed_dictionaries(
    {
        "mode": st.sampled_from([Mode.STANDARD, Mode.STANDARD, Mode.FULL, *Mode]),
        "enforce": st.sampled_from(Enforce),
        "require_layer3": st.booleans(),
    }
)


@given(skills, settings_of_a_session)
def test_no_record_whatever_is_missing_from_it_makes_the_decision_raise(
    sketched: list[Sketch], session: dict[str, object]
) -> None:
    report = decide(skill_of(sketched), **session)  # type: ignore[arg-type]
    assert report.reasons
    assert all(reason.strip() for reason in report.reasons)
    assert 0 <= report.authoritative.passed <= report.authoritative.total


@given(skills, settings_of_a_session)
def test_a_pass_rests_on_two_completed_runs_of_every_case_with_every_must_assertion_held(
    sketched: list[Sketch], session: dict[str, object]
) -> None:
    record = skill_of(sketched)
    report = decide(record, **session)  # type: ignore[arg-type]
    if report.verdict is not Verdict.PASS:
        return
    assert report.authoritative.total > 0
    assert report.mde is not None
    assert f"{report.mde:.2f}" in report.wording
    for case in record.cases:
        completed = [run for run in case.of(Arm.WITH_SKILL) if run.record.completed]
        assert len(completed) >= 2
        assert not any(isinstance(run.judgement.checks, NotRun) and case.plan.case.checks for run in completed)
    held = [row for row in report.triage if row.severity == "must" and row.with_skill.total]
    base_only = {case.plan.case.eval_id for case in record.cases if case.plan.origin == "base"}
    assert all(row.with_skill.passed == row.with_skill.total for row in held if row.eval_id not in base_only)


@settings(max_examples=200)
@given(tame_skills, settings_of_a_session, st.data())
def test_improving_one_assertion_of_head_never_worsens_the_verdict(
    sketched: list[Sketch], session: dict[str, object], data: st.DataObject
) -> None:
    spots = [
        (index, run, letter)
        for index, item in enumerate(sketched)
        for run, word in enumerate(item.head)
        for letter, char in enumerate(word)
        if char in "FN"
    ]
    assume(spots)
    index, run, letter = data.draw(st.sampled_from(spots))
    case = sketched[index]
    word = case.head[run]
    better_word = f"{word[:letter]}P{word[letter + 1 :]}"
    better_case = replace(case, head=(*case.head[:run], better_word, *case.head[run + 1 :]))
    better = [*sketched[:index], better_case, *sketched[index + 1 :]]
    before = decide(skill_of(sketched), **session).verdict  # type: ignore[arg-type]
    after = decide(skill_of(better), **session).verdict  # type: ignore[arg-type]
    if before in ORDER:
        assert ORDER.index(after) >= ORDER.index(before)
    else:
        assert after is before


@given(skills, settings_of_a_session, st.randoms(use_true_random=False))
def test_the_whole_report_is_the_same_in_every_order_of_cases_runs_and_assertions(
    sketched: list[Sketch], session: dict[str, object], random: object
) -> None:
    record = skill_of(sketched)
    assert decide(shuffled(record, random), **session) == decide(record, **session)  # type: ignore[arg-type]


def shuffled(record: SkillRecord, random: object) -> SkillRecord:
    def mixed(items: object) -> tuple[object, ...]:
        listed = list(items)  # type: ignore[call-overload]
        random.shuffle(listed)  # type: ignore[attr-defined]
        return tuple(listed)

    def run_of(run: JudgedRun) -> JudgedRun:
        parts: dict[str, object] = {}
        if not isinstance(run.judgement.checks, NotRun):
            parts["checks"] = mixed(run.judgement.checks)
        if not isinstance(run.judgement.grading, NotRun):
            grading = run.judgement.grading
            parts["grading"] = grading.model_copy(
                update={"rows": mixed(grading.rows), "controls": mixed(grading.controls)}
            )
        return run.model_copy(update={"judgement": run.judgement.model_copy(update=parts)})

    def case_of(case: CaseRecord) -> CaseRecord:
        inner = case.plan.case
        inner = inner.model_copy(update={"checks": mixed(inner.checks), "expectations": mixed(inner.expectations)})
        plan = case.plan.model_copy(update={"case": inner, "arms": mixed(case.plan.arms)})
        return case.model_copy(update={"plan": plan, "runs": mixed(map(run_of, case.runs))})

    cases = mixed(map(case_of, record.cases))
    suite = record.plan.suite
    assert suite is not None
    plan = record.plan.model_copy(
        update={
            "cases": mixed(case.plan for case in cases),  # type: ignore[attr-defined]
            "suite": suite.model_copy(update={"cases": mixed(suite.cases)}),
        }
    )
    return record.model_copy(update={"plan": plan, "cases": cases})


@given(tame_skills, settings_of_a_session, st.data())
def test_taking_away_the_layer_results_of_a_run_never_makes_a_pass(
    sketched: list[Sketch], session: dict[str, object], data: st.DataObject
) -> None:
    record = skill_of(sketched)
    before = decide(record, **session).verdict  # type: ignore[arg-type]
    index = data.draw(st.integers(0, len(record.cases) - 1))
    case = record.cases[index]
    assume(case.runs)
    number = data.draw(st.integers(0, len(case.runs) - 1))
    run = case.runs[number]
    nothing = NotRun(not_run="the layer did not run")
    judgement = run.judgement.model_copy(
        update=data.draw(
            st.sampled_from([{"checks": nothing}, {"grading": nothing}, {"checks": nothing, "grading": nothing}])
        )
    )
    runs = (*case.runs[:number], run.model_copy(update={"judgement": judgement}), *case.runs[number + 1 :])
    cases = (*record.cases[:index], case.model_copy(update={"runs": runs}), *record.cases[index + 1 :])
    after = decide(record.model_copy(update={"cases": cases}), **session).verdict  # type: ignore[arg-type]
    if after is Verdict.PASS:
        assert before is Verdict.PASS


@given(tame_skills, settings_of_a_session)
def test_a_skill_without_runs_without_cases_or_without_grades_never_passes(
    sketched: list[Sketch], session: dict[str, object]
) -> None:
    record = skill_of(sketched)
    silent = [case.model_copy(update={"runs": ()}) for case in record.cases]
    assert decide(record.model_copy(update={"cases": tuple(silent)}), **session).verdict is not Verdict.PASS  # type: ignore[arg-type]
    assert decide(record.model_copy(update={"cases": ()}), **session).verdict is not Verdict.PASS  # type: ignore[arg-type]
    assert decide(skill_record(), **session).verdict is not Verdict.PASS  # type: ignore[arg-type]
    ungraded = []
    for case in record.cases:
        runs = [
            run.model_copy(
                update={"judgement": run.judgement.model_copy(update={"grading": NotRun(not_run="no judge")})}
            )
            for run in case.runs
        ]
        ungraded.append(case.model_copy(update={"runs": tuple(runs)}))
    judged = any(case.plan.case.expectations for case in record.cases)
    if judged:
        report = decide(record.model_copy(update={"cases": tuple(ungraded)}), **session)  # type: ignore[arg-type]
        assert report.verdict is not Verdict.PASS


@given(sketches())
def test_fill_is_asked_for_whatever_confirm_is_asked_for_but_for_gross_failures(sketched: Sketch) -> None:
    case = sketched.record("1")
    if needs_confirm(case) is not None:
        assert (undecided(case) is None) is is_gross(case)


@given(skills)
def test_a_rate_never_counts_more_cases_than_the_head_suite_has(sketched: list[Sketch]) -> None:
    record = skill_of(sketched)
    rate = authoritative(record.cases)
    assert rate.total <= sum(case.plan.origin != "base" for case in record.cases)
    assert all(word in ("rules_only", "rules-only", "invalid") for word in DEGRADED)
