"""Null controls (judging.md 8.3): a suite that an agent passes which does no work is ``invalid``, before anything is paid for.

The built-in executors of ``gate.execution.null_agents`` do every case of the head suite; what they leave is judged by the
exact checks of Layer 2a and decided on by the rules of every session. An expectation counts as not shown: a grader would have
to find a quote for work that nobody did. Command checks need an engine; without one it is said that they are unknown.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import NamedTuple

from gate.decision.look import Look
from gate.decision.verdict import verdict_of
from gate.domain.base import Json, NotRun, Severity, Value, digest_of, sha256_hex
from gate.domain.chat import TokenUsage
from gate.domain.evidence import Metrics, Outcome, RunRecord
from gate.domain.findings import Finding, Level
from gate.domain.judgement import (
    CaseComparison,
    CheckResult,
    CheckStatus,
    ControlGrade,
    ExpectationGrade,
    GradeStatus,
    Grading,
    RunJudgement,
)
from gate.domain.numbers import plural
from gate.domain.plan import Arm, ArmPlan, CasePlan, Enforce, Limits, Mode, RunKey, SkillPlan
from gate.domain.report import CaseRecord, JudgedRun, SkillRecord, Verdict
from gate.domain.skill import ChangeKind, Skill, SkillChange, SkillType, slug_of
from gate.domain.suite import Case, Suite
from gate.errors import InfrastructureError
from gate.evidence.bundle import Bundle
from gate.execution.made_run import made_run
from gate.execution.null_agents import NULL_AGENTS, NullAct, NullAgent, NullStage
from gate.execution.verification import verify_run
from gate.judging.ground_truth import check_run
from gate.judging.ground_truth.trivial import without_a_run
from gate.protocols import Clock, Sandbox
from gate.settings import Thresholds

RULE = "suite/null-agent-passes"
"""Of the finding that makes a suite invalid; a waiver of the base policy can accept it."""
EXECUTED = frozenset({"command", "oracle_command", "produced_code"})
"""Kinds whose answer an engine gives."""
_ANY_SKILL = Skill(
    path=".", slug="null", skill_md="SKILL.md", name="null", description="", body="", files=(), tree_sha256="0" * 64
)
"""Where a suite is looked at without its skill."""
_RUNS = 2
"""A pass needs two completed runs of a case."""


class NullResult(Value):
    """What became of one null agent over a suite."""

    agent: str
    verdict: Verdict | None
    """What the decision says of it; None: not known without an engine (``waits_for``)."""
    stopped_by: str = ""
    """The first thing that it did not get past, as ``case "x": c1 (kind)``; empty where nothing stopped it."""
    let_through: tuple[str, ...] = ()
    """Where it passes: every check that counts and let it through."""
    waits_for: tuple[str, ...] = ()
    """Checks that only an engine can decide, where there was none."""

    @property
    def passes(self) -> bool:
        """Whether the suite is invalid for it."""
        return self.verdict is Verdict.PASS


class Engine(NamedTuple):
    """Where command checks are run."""

    sandbox: Sandbox
    image: str
    session_id: str
    clock: Clock


class NullResults(Value):
    """All agents over one suite, as they are kept by its digest."""

    results: tuple[NullResult, ...]


def null_results(
    stage: NullStage, *, run_date: str, thresholds: Thresholds | None = None, engine: Callable[[], Engine] | None = None
) -> tuple[NullResult, ...]:
    """Every null agent over the suite of a skill. ``engine`` is asked for only where a command check is all that is left.

    Raises InfrastructureError where the engine fails.
    """
    if not _counts(stage.suite.cases):
        return ()
    own = thresholds or Thresholds()
    executed = None if engine is None else _Executed(engine, run_date)
    return tuple(_result(agent, stage, run_date, own, executed) for agent in NULL_AGENTS)


def facts_of(stage: NullStage, image: str = "") -> str:
    """The digest of everything that the results depend on, but for the gate's own code and the date."""
    versions = [skill.tree_sha256 if skill else None for skill in (stage.skill, stage.base)]
    return digest_of(["null agents", [case.to_json() for case in stage.suite.cases], *versions, image])


def only_judged(stage: NullStage) -> bool:
    """Whether nothing of a suite is an exact check: then only a grader stops a null agent, and code cannot say whether."""
    return bool(stage.suite.cases) and not _counts(stage.suite.cases)


def null_findings(stage: NullStage, results: Iterable[NullResult], *, path: str) -> tuple[Finding, ...]:
    """The finding that makes a suite invalid; ``path``: of the file that holds it."""
    through = [item for item in results if item.passes]
    if not through:
        return ()
    does = {agent.name: agent.does for agent in NULL_AGENTS}
    names = ", ".join(item.agent for item in through)
    checks = through[0].let_through
    shown = "; ".join(checks[:3]) + (f" and {len(checks) - 3} more" if len(checks) > 3 else "")
    return (
        Finding(
            rule=RULE,
            level=Level.ERROR,
            path=path,
            line=next((case.line for case in stage.suite.cases if case.line), None),
            message=(
                f"null agent {plural(len(through), 'passes', 'pass')} the whole suite ({names}): one that "
                f"{does[through[0].agent]} is let through by {shown}"
            ),
            remedy="Add to a case a check, or an expectation, that only finished work can hold; see skill-gate check --null.",
            blocks=True,
        ),
    )


class CheckedNull(NamedTuple):
    """What ``skill-gate check`` says of one suite."""

    results: tuple[NullResult, ...]
    findings: tuple[Finding, ...]
    only_judged: bool


def checked_null(suite: Suite, skill: Skill | None, *, run_date: str, below: str = ".") -> CheckedNull:
    """The null agents over a suite as it was read from the folder ``below``; no engine, no model."""
    stage = NullStage(suite, skill)
    results = null_results(stage, run_date=run_date)
    start = "" if below == "." else f"{below.rstrip('/')}/"
    return CheckedNull(results, null_findings(stage, results, path=start + suite.path), only_judged(stage))


def null_json(checked: CheckedNull | None) -> dict[str, Json]:
    """The field of ``skill-gate check --null --json``; nothing where nobody asked."""
    return {"null_agents": [item.to_json() for item in checked.results]} if checked else {}


def null_lines(path: str, checked: CheckedNull | None) -> list[str]:
    """For people: of each agent what stopped it, what let it through, or what is not known. None: nobody asked."""
    if checked is None:
        return []
    if checked.only_judged:
        return [f"{path}: null agents: no exact check counts; whether a grader would let one pass is not known here"]
    lines = []
    for item in checked.results:
        if item.verdict is None:
            said = f"not known without an engine: {'; '.join(item.waits_for)}"
        elif item.passes:
            said = f"PASSES, let through by {'; '.join(item.let_through)}"
        else:
            said = f"stopped by {item.stopped_by}"
        lines.append(f"{path}: null agent {item.agent}: {said}")
    return lines


def _counts(cases: Iterable[Case]) -> bool:
    return any(check.severity is not Severity.INFO for case in cases for check in case.checks)


def _result(
    agent: NullAgent,
    stage: NullStage,
    run_date: str,
    thresholds: Thresholds,
    executed: _Executed | None,
) -> NullResult:
    judged: list[tuple[Case, NullAct, tuple[CheckResult, ...]]] = []
    waits: list[str] = []
    passed: list[str] = []
    for case in stage.suite.cases:
        asked = next((item.id for item in case.expectations if item.severity is not Severity.INFO), None)
        if asked is not None:
            # No model is asked: whoever grades needs a quote of work, and there is none.
            return _stopped(agent, case, f"{asked} (expectation)")
        act = agent.act(case, stage)
        results = without_a_run(case, run_date=run_date, response=act.response, files=act.files, opened=True)
        for item in results:
            if item.severity is Severity.INFO:
                continue
            if item.status is CheckStatus.INFRA and item.kind in EXECUTED:
                waits.append(_named(case, item))
            elif item.status is not CheckStatus.PASSED:
                return _stopped(agent, case, f"{item.check_id} ({item.kind})")
            else:
                passed.append(_named(case, item))
        judged.append((case, act, results))
    if waits:
        if executed is None:
            return NullResult(agent=agent.name, verdict=None, let_through=tuple(passed), waits_for=tuple(waits))
        judged = [(case, act, executed.over(case, act, results)) for case, act, results in judged]
        for case, _, results in judged:
            for item in results:
                if item.severity is not Severity.INFO and item.status is not CheckStatus.PASSED:
                    return _stopped(agent, case, f"{item.check_id} ({item.kind})")
    verdict, reasons = verdict_of(_look(stage, judged, thresholds, run_date))
    stopped = "" if verdict is Verdict.PASS else reasons[0]
    return NullResult(agent=agent.name, verdict=verdict, stopped_by=stopped, let_through=(*passed, *waits))


def _stopped(agent: NullAgent, case: Case, by: str) -> NullResult:
    return NullResult(agent=agent.name, verdict=Verdict.FAIL, stopped_by=f'case "{case.eval_id}": {by}')


def _named(case: Case, item: CheckResult) -> str:
    return f'case "{case.eval_id}": {item.check_id} ({item.kind})'


class _Executed:
    """Results of command checks. Agents that leave the same files get the same ones: most leave none."""

    def __init__(self, engine: Callable[[], Engine], run_date: str) -> None:
        self._engine = engine
        self._run_date = run_date
        self._known: dict[str, dict[str, CheckResult]] = {}

    def over(self, case: Case, act: NullAct, results: tuple[CheckResult, ...]) -> tuple[CheckResult, ...]:
        """The results of an act with those that an engine gives. Raises InfrastructureError where it gave none."""
        if not any(item.kind in EXECUTED for item in results):
            return results
        # What is started of a made program may be named by the response.
        said = act.response if any(item.kind == "produced_code" for item in results) else ""
        key = digest_of([case.eval_id, sorted((path, sha256_hex(data)) for path, data in act.files.items()), said])
        if key not in self._known:
            found = _executed(case, act, self._run_date, self._engine())
            self._known[key] = {item.check_id: item for item in found if item.kind in EXECUTED}
        return tuple(self._known[key].get(item.check_id, item) for item in results)


def _executed(case: Case, act: NullAct, run_date: str, engine: Engine) -> tuple[CheckResult, ...]:
    """The case over a record of the act, as every run is recorded, with its command checks executed in the sandbox.

    Raises InfrastructureError where the engine gave no result: what is not known stops nobody.
    """
    with tempfile.TemporaryDirectory(prefix="skill-gate-null-") as folder:
        bundle = Bundle(Path(folder))
        record = made_run(
            bundle,
            _key(case, 1),
            clock=engine.clock,
            prompt=case.request,
            response=act.response,
            run_date=run_date,
            files=act.files,
            fixture={item.path: item.data for item in case.files},
        )
        verification = verify_run(
            record, case, bundle=bundle, sandbox=engine.sandbox, image=engine.image, session_id=engine.session_id
        )
        results = check_run(case, record, bundle.root, verification)
    lost = next((item for item in results if item.status is CheckStatus.INFRA), None)
    if lost is not None:
        raise InfrastructureError(f"A null agent's check could not be run: {_named(case, lost)}: {lost.found}.")
    return results


def _key(case: Case, run: int) -> RunKey:
    return RunKey(skill_path=".", slug="null", eval_id=case.eval_id, run=run, arm=Arm.WITH_SKILL)


def _look(
    stage: NullStage,
    judged: Iterable[tuple[Case, NullAct, tuple[CheckResult, ...]]],
    thresholds: Thresholds,
    run_date: str,
) -> Look:
    """One skill, whose runs with it the null agent did, for the rules that decide on every skill."""
    cases = tuple(_case(case, act, results, run_date) for case, act, results in judged)
    plan = SkillPlan(
        change=SkillChange(path=stage.skill.path if stage.skill else ".", kind=ChangeKind.ADDED),
        slug=slug_of(stage.skill.path if stage.skill else "."),
        head=stage.skill or _ANY_SKILL,
        base=None,
        suite=stage.suite,
        cases=tuple(case.plan for case in cases),
    )
    return Look(
        record=SkillRecord(plan=plan, cases=cases),
        mode=Mode.STANDARD,
        enforce=Enforce.STANDARD,
        thresholds=thresholds,
        manifest_errors="warn",
        require_layer3=False,
        waivers=(),
        run_date=run_date,
    )


def _case(case: Case, act: NullAct, results: tuple[CheckResult, ...], run_date: str) -> CaseRecord:
    grading = Grading(
        rows=tuple(
            ExpectationGrade(
                expectation_id=item.id,
                text=item.text,
                severity=item.severity,
                precision=item.precision,
                status=GradeStatus.FAILED,
                model_said=False,
                reason="a null agent shows nothing",
                method="code",
            )
            for item in case.expectations
        ),
        controls=(
            ControlGrade(text="known false", known=False, model_said=False),
            ControlGrade(text="known true", known=True, model_said=True),
        ),
    )
    judgement = RunJudgement(checks=results, grading=grading)
    nothing = NotRun(not_run="null agents are not compared")
    arm = ArmPlan(arm=Arm.WITH_SKILL, runs=_RUNS, limits=Limits(steps=1))
    return CaseRecord(
        plan=CasePlan(case=case, arms=(arm,), compare=nothing),
        runs=tuple(JudgedRun(record=_record(case, act, run_date, number), judgement=judgement) for number in (1, 2)),
        layer3=CaseComparison(comparison=nothing, unblinding=None, analysis=nothing),
    )


def _record(case: Case, act: NullAct, run_date: str, number: int) -> RunRecord:
    return RunRecord(
        key=_key(case, number),
        purpose="planned",
        skill_type=SkillType.TEXT_GENERATION,
        outcome=Outcome.COMPLETED,
        reason="",
        calls=(),
        response=act.response,
        files=(),
        metrics=Metrics(activated=True, input_tokens=0, output_tokens=0, total_tokens=0, cost_usd=0),
        usage=TokenUsage(),
        model="null",
        image="",
        run_date=run_date,
        chain_head="",
        seal="",
    )
