"""What the gate says in the end, and everything that the decision was made from."""

from __future__ import annotations

from enum import StrEnum
from typing import Literal

from pydantic import Field

from gate.domain.base import FallbackCount, Severity, Value
from gate.domain.evidence import RunRecord
from gate.domain.findings import Finding
from gate.domain.judgement import CaseComparison, RunJudgement
from gate.domain.plan import Arm, CasePlan, Enforce, Mode, NotMeasuredCause, SkillPlan


class Verdict(StrEnum):
    """Of a skill; first match wins (DESIGN.md 4, Decision)."""

    INVALID = "invalid"
    NO_EVALS = "no_evals"
    BLOCKED = "blocked"
    NOT_MEASURED = "not_measured"
    ERROR = "error"
    FAIL = "fail"
    INCONCLUSIVE = "inconclusive"
    CONDITIONAL = "conditional"
    PASS = "pass"


class State(StrEnum):
    """Of the gate: what the status, the exit code and the comment's first line say."""

    SUCCESS = "success"
    FAILURE = "failure"
    ERROR = "error"
    PENDING = "pending"


class JudgedRun(Value):
    """A run with what Layers 2a and 2b made of it."""

    record: RunRecord
    judgement: RunJudgement


class CaseRecord(Value):
    """Everything about one case: the input of the decision."""

    plan: CasePlan
    runs: tuple[JudgedRun, ...]
    """All runs, retried infrastructure failures last seen, in the order (purpose, run, arm)."""
    layer3: CaseComparison
    missing: tuple[str, ...] = ()
    """Planned runs that never finished, as sentences with the reason."""

    def of(self, arm: Arm) -> tuple[JudgedRun, ...]:
        """The runs of one arm, by run number."""
        return tuple(sorted((r for r in self.runs if r.record.key.arm is arm), key=lambda r: r.record.key.run))


class SkillRecord(Value):
    """Everything about one skill: the input of the decision. Written so that ``verify`` can decide again."""

    plan: SkillPlan
    cases: tuple[CaseRecord, ...]
    over_budget: str | None = None
    errors: tuple[str, ...] = ()
    """Infrastructure errors that stopped this skill, as sentences with a remedy."""
    broken_seals: tuple[str, ...] = ()


class TriageClass(StrEnum):
    """R4, judging.md 8.1: an assertion over arms and runs."""

    DISCRIMINATING = "discriminating"
    SATURATED = "saturated"
    DEAD = "dead"
    INVERTED = "inverted"
    FLAKY = "flaky"
    UNDER_POWERED = "under-powered"


class Share(Value):
    """A count of a count. ``total`` 0 has no rate: nothing tried is not success."""

    passed: int = Field(ge=0)
    total: int = Field(ge=0)

    @property
    def rate(self) -> float | None:
        """passed / total, None for an empty total."""
        return self.passed / self.total if self.total else None


class AssertionTriage(Value):
    """One check or expectation of a case over its arms."""

    eval_id: str
    assertion_id: str
    kind: Literal["check", "expectation"]
    severity: Severity
    text: str
    rule_ref: str | None = None
    with_skill: Share
    without_skill: Share
    base_skill: Share
    triage: TriageClass


class ArmFigures(Value):
    """The figures of one arm, each with its counts."""

    arm: Arm
    planned: int
    finished: int
    """Scored runs (completed or ended by the agent's doing)."""
    completed: int
    activated: int
    graded: int
    """Completed runs whose expectations were all graded."""
    assertions: Share
    """Checks and graded expectations over completed runs: the source's rate, for the letter only."""
    mean_rate: float | None = None
    sd_rate: float | None = None
    """Sample standard deviation over runs; None under two runs."""
    mean_tokens: float | None = None
    mean_seconds: float | None = None
    cost_usd: float | None = None
    skipped: str | None = None


class CaseReport(Value):
    """One case in the report."""

    eval_id: str
    name: str
    type: str
    passed: bool | None
    """None where it could not be said."""
    reasons: tuple[str, ...] = ()
    comparison: str
    """skill_wins, baseline_wins, tie, or ``not run: <why>``."""
    folder: str
    with_skill: Share = Share(passed=0, total=0)
    """Checks and expectations over the usable runs of the arm; so the next two."""
    without_skill: Share = Share(passed=0, total=0)
    base_skill: Share = Share(passed=0, total=0)


class SkillReport(Value):
    """One skill in the report."""

    path: str
    slug: str
    name: str
    change: str
    type: str
    type_reason: str
    verdict: Verdict
    reasons: tuple[str, ...]
    """Most important first; each a sentence with its figures. May quote untrusted text."""
    wording: str
    """For a pass: "n cases x R runs; a drop under MDE m would not be seen"."""
    release_grade: str | None = None
    authoritative: Share
    """Cases passed of cases that completed (DESIGN.md 4, Decision 6)."""
    source_rate: Share
    """The source's rate over single exact checks; letter only."""
    quadrant: str = ""
    """R124-R128 in words."""
    lift: str = ""
    won: int = 0
    lost: int = 0
    tied: int = 0
    mde: float | None = None
    arms: tuple[ArmFigures, ...] = ()
    cases: tuple[CaseReport, ...] = ()
    triage: tuple[AssertionTriage, ...] = ()
    findings: tuple[Finding, ...] = ()
    suggestions: tuple[str, ...] = ()
    judge_health: str = ""
    fallbacks: tuple[FallbackCount, ...] = ()
    state: State = State.ERROR
    authoritative_interval: tuple[float, float] | None = None
    """95 % Wilson interval of ``authoritative``; None where no case completed."""
    not_measured_cause: NotMeasuredCause | None = None
    """Set with the verdict ``not_measured`` only."""
    caused_by_change: bool = False
    """With ``no_evals`` and ``blocked``: the base could be run, and this change is why the head cannot."""
    not_tested: tuple[str, ...] = ()
    """What this verdict does not rest on, as sentences: blocked cases, layers that did not run, vetoes nothing looks for."""
    notes: tuple[str, ...] = ()
    """Facts that a reader of this skill's figures must know."""


class ModelUse(Value):
    """What one role spent; None is unknown."""

    role: str
    model: str
    calls: int
    failed_calls: int
    input_tokens: int | None
    output_tokens: int | None
    cost_usd: float | None
    known_input_tokens: int = 0
    """Sum over the calls whose usage is known: at least this much was spent."""
    known_output_tokens: int = 0
    known_cost_usd: float = 0.0


class Override(Value):
    """Break-glass: somebody with the right to do so lets one head commit through. Checked before it becomes a value."""

    login: str
    permission: Literal["maintain", "admin"]
    head_commit: str
    """The one commit that it is for."""
    label: str = "skill-gate-override"


class GateReport(Value):
    """report.json: the whole result."""

    schema_version: Literal[1] = 1
    gate_version: str
    session_id: str
    mode: Mode
    enforce: Enforce
    state: State
    exit_code: int
    headline: str
    """One line: the comment's first line and the status description (at most 140 characters)."""
    what_to_do: tuple[str, ...] = ()
    base_commit: str | None
    head_commit: str | None
    skills: tuple[SkillReport, ...]
    session_findings: tuple[Finding, ...] = ()
    fallbacks: tuple[FallbackCount, ...] = ()
    usage: tuple[ModelUse, ...] = ()
    notes: tuple[str, ...] = ()
    """Facts every reader must know (same model family judged, weaker sandbox, policy takes effect after merge …)."""
    cost: str = ""
    """What this session cost and what the next push will, in one line for the first screen."""
    override: Override | None = None
    """The break-glass label where it changed the state; the verdicts are what they are."""
    models: str
    """``scripted, no model was called`` for a replay, else the model names by role."""
    sandbox: str
    run_date: str
