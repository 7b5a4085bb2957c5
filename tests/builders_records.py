"""Records of skills in a few words, for tests of the decision and of the reporters.

A run is written as one character per assertion, checks first: ``P`` passed, ``F`` failed, ``N`` not_run, ``I`` infra,
``U`` ungraded, ``R`` graded by rules only, ``-`` no row at all. A run that did not complete is written as its outcome
(``timeout``). Marks after it: ``+`` of the confirm stage, ``~`` of the fill stage, ``!`` the skill was not opened,
``*`` no layer ran on it.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Literal

from gate.audit.simulate import compared_by
from gate.decision.verdict import decide_skill
from gate.domain.base import FallbackCount, NotRun, Severity
from gate.domain.checks import Check, CheckParameters, ResponseContains
from gate.domain.evidence import Metrics, Outcome, RunRecord
from gate.domain.findings import Finding
from gate.domain.judgement import (
    Analysis,
    CaseComparison,
    CheckResult,
    CheckStatus,
    ControlGrade,
    ExpectationGrade,
    GradeStatus,
    Grading,
    RunJudgement,
    Winner,
)
from gate.domain.plan import (
    COMPARED_ARMS,
    Arm,
    ArmPlan,
    CasePlan,
    Enforce,
    Limits,
    Mode,
    NotMeasuredCause,
    RunKey,
    SkillPlan,
)
from gate.domain.report import CaseRecord, JudgedRun, SkillRecord, SkillReport
from gate.domain.skill import ChangeKind, Skill, SkillChange, SkillType, slug_of
from gate.domain.suite import Case, CaseType, Expectation, Suite
from gate.settings import Thresholds, Waiver

RUN_DATE = "2026-03-01"
PATH = "skills/tidy-tables"
STATUS = {"P": CheckStatus.PASSED, "F": CheckStatus.FAILED, "N": CheckStatus.NOT_RUN, "I": CheckStatus.INFRA}
GRADE = {"P": GradeStatus.PASSED, "F": GradeStatus.FAILED, "U": GradeStatus.UNGRADED, "R": GradeStatus.PASSED}
NO_LAYER_3 = CaseComparison(
    comparison=NotRun(not_run="the case is atomic"), analysis=NotRun(not_run="nothing to analyse")
)


def check(
    check_id: str,
    severity: str = "must",
    *,
    parameters: CheckParameters | None = None,
    description: str = "",
    rule_ref: str | None = None,
) -> Check:
    """A deterministic check; by default one that looks for a word in the response."""
    return Check(
        id=check_id,
        severity=Severity(severity),
        parameters=parameters or ResponseContains(keyword="total"),
        description=description,
        rule_ref=rule_ref,
    )


def expectation(
    expectation_id: str, severity: str = "should", text: str = "The table is sorted", *, rule_ref: str | None = None
) -> Expectation:
    """A semantic expectation."""
    return Expectation(id=expectation_id, text=text, severity=Severity(severity), rule_ref=rule_ref)


def run(
    word: str,
    *,
    case: Case,
    number: int,
    arm: Arm,
    path: str = PATH,
    controls: Sequence[bool | None] = (False, True),
    fallbacks: tuple[FallbackCount, ...] = (),
) -> JudgedRun:
    """One run from its word. ``controls``: what the judge answered to a known-false and a known-true control."""
    marks = set()
    while word and word[-1] in "+~!*":
        marks.add(word[-1])
        word = word[:-1]
    outcome = Outcome(word) if word in list(Outcome) else Outcome.COMPLETED
    record = RunRecord(
        key=RunKey(skill_path=path, slug=slug_of(path), eval_id=case.eval_id, run=number, arm=arm),
        purpose="confirm" if "+" in marks else "fill" if "~" in marks else "planned",
        skill_type=SkillType.TEXT_GENERATION,
        outcome=outcome,
        reason="" if outcome is Outcome.COMPLETED else f"the run ended as {outcome.value}",
        calls=(),
        response="done" if outcome is Outcome.COMPLETED else None,
        files=(),
        metrics=Metrics(activated=arm is not Arm.WITHOUT_SKILL and "!" not in marks, total_tokens=1200, cost_usd=0.01),
        usage=None,
        model="scripted:executor",
        image="sha256:0000",
        run_date=RUN_DATE,
        chain_head="0" * 64,
        seal="1" * 64,
        fallbacks=fallbacks,
    )
    if outcome is not Outcome.COMPLETED or "*" in marks:
        nothing = NotRun(
            not_run="the run did not complete" if outcome is not Outcome.COMPLETED else "Layer 2 did not run"
        )
        return JudgedRun(record=record, judgement=RunJudgement(checks=nothing, grading=nothing))
    letters = dict(zip([*(c.id for c in case.checks), *(e.id for e in case.expectations)], word, strict=True))
    checks = tuple(
        CheckResult(
            check_id=item.id,
            kind=item.parameters.kind,
            severity=item.severity,
            rule_ref=item.rule_ref,
            status=STATUS[letters[item.id]],
            expected=item.description or "the word total in the response",
            found="found it" if letters[item.id] == "P" else "not found in 213 characters",
            block="B004",
        )
        for item in case.checks
        if letters[item.id] != "-"
    )
    rows = tuple(
        ExpectationGrade(
            expectation_id=item.id,
            text=item.text,
            severity=item.severity,
            precision=item.precision,
            status=GRADE[letters[item.id]],
            model_said=letters[item.id] != "F",
            reason="no quote supports it" if letters[item.id] == "F" else "quoted",
            method="rules_only" if letters[item.id] == "R" else "grader",
        )
        for item in case.expectations
        if letters[item.id] != "-"
    )
    answers = tuple(
        ControlGrade(text=f"control {index}", known=bool(index), model_said=said) for index, said in enumerate(controls)
    )
    grading: Grading | NotRun = Grading(rows=rows, controls=answers if case.expectations else ())
    if not case.expectations:
        grading = NotRun(not_run="the case has no expectation")
    return JudgedRun(record=record, judgement=RunJudgement(checks=checks, grading=grading))


def compared(outcome: Winner, *, analysis: Analysis | None = None) -> CaseComparison:
    """Layer 3 of a case with this outcome, sealed; the output with the skill is A."""
    sums = {Winner.SKILL: (27, 21), Winner.BASELINE: (21, 27), Winner.TIE: (24, 24)}[outcome]
    layer3 = compared_by(*sums, *sums)
    return layer3.model_copy(update={"analysis": analysis or NotRun(not_run="the skill won")})


def case_record(
    eval_id: str = "1",
    *,
    checks: Sequence[Check] = (),
    expectations: Sequence[Expectation] = (),
    head: Iterable[str] = (),
    base: Iterable[str] = (),
    none: Iterable[str] = (),
    planned: tuple[int, int, int] | None = None,
    layer3: CaseComparison = NO_LAYER_3,
    case_type: CaseType = CaseType.HAPPY_PATH,
    origin: Literal["both", "base", "head"] = "both",
    blocked: str | None = None,
    missing: tuple[str, ...] = (),
    name: str = "",
    path: str = PATH,
    controls: Sequence[bool | None] = (False, True),
    fallbacks: tuple[FallbackCount, ...] = (),
) -> CaseRecord:
    """One case. ``head``, ``base``, ``none``: the words of the runs with the skill, with its base version, without it.

    ``planned``: with, without, base runs as planned; by default what there is of the planned stage.
    """
    case = Case(
        eval_id=eval_id,
        name=name,
        prompt="Tidy the table",
        type=case_type,
        checks=tuple(checks),
        expectations=tuple(expectations),
        digest=f"digest-{eval_id}",
    )
    words = {Arm.WITH_SKILL: list(head), Arm.WITHOUT_SKILL: list(none), Arm.BASE_SKILL: list(base)}
    counts = planned or tuple(sum(not set(w) & {"+", "~"} for w in words[arm]) for arm in COMPARED_ARMS)
    skipped = {Arm.WITHOUT_SKILL: "skipped in this mode", Arm.BASE_SKILL: "a new skill has no base"}
    arms = tuple(
        ArmPlan(
            arm=arm,
            runs=count,
            skipped=None if count or arm is Arm.WITH_SKILL else skipped[arm],
            limits=Limits(steps=10),
        )
        for arm, count in zip(COMPARED_ARMS, counts, strict=True)
    )
    runs = tuple(
        run(
            word,
            case=case,
            number=index,
            arm=arm,
            path=path,
            controls=controls,
            fallbacks=fallbacks if index == 1 else (),
        )
        for arm in COMPARED_ARMS
        for index, word in enumerate(words[arm], start=1)
    )
    plan = CasePlan(case=case, arms=arms, blocked=blocked, origin=origin)
    return CaseRecord(plan=plan, runs=runs, layer3=layer3, missing=missing)


def simple_case(eval_id: str = "1", *, head: str, base: str = "", none: str = "", origin: str = "both") -> CaseRecord:
    """A case of one ``must`` check; runs separated by spaces."""
    return case_record(
        eval_id,
        checks=[check("c1")],
        head=head.split(),
        base=base.split(),
        none=none.split(),
        origin=origin,  # type: ignore[arg-type]
    )


def skill(path: str = PATH, name: str = "tidy-tables") -> Skill:
    """A head or base skill; its files are of no interest to a decision."""
    return Skill(
        path=path,
        slug=slug_of(path),
        skill_md="SKILL.md",
        name=name,
        description="d",
        body="b",
        files=(),
        tree_sha256="3" * 64,
    )


def skill_record(
    *cases: CaseRecord,
    path: str = PATH,
    name: str = "tidy-tables",
    change: ChangeKind = ChangeKind.MODIFIED,
    skill_type: SkillType = SkillType.TEXT_GENERATION,
    suite: Suite | Literal["of the cases"] | None = "of the cases",
    base_suite: Suite | None = None,
    generated: bool = False,
    findings: tuple[Finding, ...] = (),
    manifest_findings: tuple[Finding, ...] = (),
    removals: tuple[str, ...] = (),
    not_measured: str | None = None,
    cause: NotMeasuredCause | None = None,
    over_budget: str | None = None,
    errors: tuple[str, ...] = (),
    broken_seals: tuple[str, ...] = (),
    base_runnable: bool = False,
) -> SkillRecord:
    """A skill with these cases; its suite holds those of head unless told otherwise."""
    if suite == "of the cases":
        own = tuple(item.plan.case for item in cases if item.plan.origin != "base")
        suite = Suite(path=f"{path}/evals/evals.json", dialect="skill-gate", cases=own, generated=generated)
    plan = SkillPlan(
        change=SkillChange(path=path, kind=change),
        slug=slug_of(path),
        head=None if change is ChangeKind.DELETED else skill(path, name),
        base=None if change is ChangeKind.ADDED else skill(path, name),
        suite=suite,
        base_suite=base_suite,
        type=skill_type,
        type_reason="no tool and no program file",
        findings=findings,
        manifest_findings=manifest_findings,
        suite_removals=removals,
        cases=tuple(item.plan for item in cases),
        not_measured=not_measured,
        not_measured_cause=cause,
        base_runnable=base_runnable,
    )
    return SkillRecord(plan=plan, cases=cases, over_budget=over_budget, errors=errors, broken_seals=broken_seals)


def decide(
    record: SkillRecord,
    *,
    mode: Mode = Mode.STANDARD,
    enforce: Enforce = Enforce.STANDARD,
    thresholds: Thresholds | None = None,
    manifest_errors: Literal["warn", "block"] = "warn",
    require_layer3: bool = False,
    waivers: Sequence[Waiver] = (),
) -> SkillReport:
    """decide_skill with the defaults of a pull request."""
    return decide_skill(
        record,
        plan_mode=mode,
        enforce=enforce,
        thresholds=thresholds or Thresholds(),
        manifest_errors=manifest_errors,
        require_layer3=require_layer3,
        waivers=waivers,
        run_date=RUN_DATE,
    )
