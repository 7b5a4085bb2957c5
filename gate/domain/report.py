"""What the gate says in the end, and everything that the decision was made from."""

from __future__ import annotations

from enum import StrEnum
from typing import Literal

from pydantic import Field

from gate.domain.base import FallbackCount, NotRun, Severity, Value
from gate.domain.contract import SkillContract
from gate.domain.discussion import Discussion, Grade
from gate.domain.evidence import RunRecord
from gate.domain.findings import Finding
from gate.domain.history import Baseline, SkillHistory
from gate.domain.judgement import CaseComparison, RunJudgement
from gate.domain.manifest import ManifestStatus
from gate.domain.plan import Arm, CasePlan, CaseShare, Enforce, Mode, NotMeasuredCause, SkillPlan


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


VERDICT_ORDER = (
    Verdict.FAIL,
    Verdict.INVALID,
    Verdict.ERROR,
    Verdict.INCONCLUSIVE,
    Verdict.NOT_MEASURED,
    Verdict.BLOCKED,
    Verdict.NO_EVALS,
    Verdict.CONDITIONAL,
    Verdict.PASS,
)
"""Worst first, as reports list them."""


class State(StrEnum):
    """Of the gate: what the status, the exit code and the comment's first line say."""

    SUCCESS = "success"
    FAILURE = "failure"
    ERROR = "error"
    PENDING = "pending"


STATE_ORDER = (State.FAILURE, State.ERROR, State.PENDING, State.SUCCESS)
"""The first one that a skill has is the gate's."""


class Language(StrEnum):
    """What reports are written in. Paths, numbers and quotations are the same in each."""

    EN = "en"
    ZH = "zh"


class JudgedRun(Value):
    """A run with what Layers 2a and 2b made of it."""

    record: RunRecord
    judgement: RunJudgement
    reused: str | None = None
    """The day an earlier session made this run on; None where this session did."""
    discussion: Discussion | NotRun = NotRun(not_run="this layer was not reached")
    """Of the run's six dimensions; no verdict looks at it."""


class CaseRecord(Value):
    """Everything about one case: the input of the decision."""

    plan: CasePlan
    runs: tuple[JudgedRun, ...]
    """All runs, retried infrastructure failures last seen, in the order (purpose, run, arm)."""
    layer3: CaseComparison
    missing: tuple[str, ...] = ()
    """Planned runs that never finished, as sentences with the reason."""
    recorded: Baseline | None = None
    """Mode ``regression``: what the default branch recorded of this case; it stands where base runs stand in other modes."""

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
    contract: SkillContract | NotRun | None = None
    """None: the policy asks for none."""


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
    assertions_interval: tuple[float, float] | None = None
    """95 % interval of the rate of ``assertions`` over cases, whose runs are alike; None under two cases."""
    pass_at_2: float | None = None
    """Chance that a case passes in at least one of two runs, mean over cases with two; None where there is none."""
    pass_hat_2: float | None = None
    """Chance that it passes in both."""
    mean_rate: float | None = None
    sd_rate: float | None = None
    """Sample standard deviation over runs; None under two runs."""
    mean_tokens: float | None = None
    mean_seconds: float | None = None
    cost_usd: float | None = None
    skipped: str | None = None


class TriggerFigures(Value):
    """How well agents tell when to open the skill, over its trigger queries (``gate.decision.triggering``)."""

    asked: int
    """Queries that were planned."""
    answered: int
    """Of these, with a clear answer: the skill was opened in more, or in less, than half of the completed runs."""
    recall: Share
    """Queries that opened the skill, of those that should."""
    precision: Share
    """Queries that should open the skill, of those that did."""
    left_alone: Share
    """Queries that did not open the skill, of those that should not."""
    near_misses: Share
    """The same of the ones that share two or more words with the skill's name and description."""
    missed: tuple[str, ...] = ()
    """Queries that should have opened the skill; untrusted text."""
    false_alarms: tuple[str, ...] = ()
    """Queries that should not have opened it; untrusted text."""
    harness_failure: str | None = None
    """Why there is no figure: nothing opened the skill anywhere."""


class Condition(Value):
    """One of the source's three conditions (R70): without a skill, with the curated one, with one that the model wrote."""

    name: str
    arm: Arm
    passed: Share
    """Assertions over the usable runs, pooled."""
    cases: int
    """Cases with a usable run of it."""
    runs: int
    rate: float | None = None
    """Mean over these cases of their rates; None where nothing ran."""
    lift: float | None = None
    """Mean over the cases that ran under both of the rate minus that without a skill."""
    lift_cases: int = 0
    absent: str | None = None
    """Why it has no rate."""


class ComparedOrder(Value):
    """One asking of the comparator in the report, as it was before unblinding."""

    first: Literal["A", "B"]
    a: dict[str, int]
    """Criterion -> 1 to 5, of the output that was called A."""
    b: dict[str, int]
    winner: Literal["A", "B", "TIE"]
    reasoning: str
    """The comparator's words, cut. Untrusted."""
    second_family: bool = False


class ComparedPair(Value):
    """One blind pair of runs in the report, and what its labels stood for."""

    run_with: int
    run_without: int
    winner: Literal["A", "B", "TIE"]
    position_unstable: bool
    with_skill: Literal["A", "B"] | None
    """Which label was the run with the skill; None where the assignment was not opened."""
    orders: tuple[ComparedOrder, ...]


class CaseUse(Value):
    """What the calls of one case cost over all roles, retries and failures included; None is unknown, never zero."""

    case: str
    """The beginning of its calls' labels (``case_label``)."""
    calls: int = Field(ge=0)
    failed_calls: int = Field(ge=0)
    input_tokens: int | None
    output_tokens: int | None
    cost_usd: float | None
    """US dollars."""
    known_input_tokens: int = 0
    """Sum over the calls whose usage is known: at least this much was spent."""
    known_output_tokens: int = 0
    known_cost_usd: float = 0.0
    remembered_calls: int = 0
    """Replies that an earlier session paid for; not among ``calls``."""


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
    comparison_detail: str = ""
    """Scores, counts and doubts of the comparison; empty where it did not run."""
    analysis: tuple[str, ...] = ()
    """What the analyzer found, as sentences; untrusted text."""
    folder: str
    with_skill: Share = Share(passed=0, total=0)
    """Checks and expectations over the usable runs of the arm; so the next two."""
    without_skill: Share = Share(passed=0, total=0)
    base_skill: Share = Share(passed=0, total=0)
    passed_runs: dict[Arm, Share] = Field(default_factory=dict)
    """Usable runs of the arm in which everything that decides the case passed, of those that have a verdict."""
    lift_interval: tuple[float, float] | None = None
    """95 % Newcombe interval of the rates of ``passed_runs``, with minus without; None where an arm has no run."""
    pairs: tuple[ComparedPair, ...] = ()
    """The blind comparisons; empty where none was made."""
    spent: CaseUse | None = None
    """None: no model was called for it."""
    share: CaseShare | None = None
    """What it might spend; None where it did not run."""


class CitedLine(Value):
    """One line of a block, as far as it is shown."""

    number: int
    """1-based line in the block."""
    text: str
    """Untrusted. A long line is cut around what is cited."""
    marks: tuple[tuple[int, int], ...] = ()
    """Spans of ``text`` that are cited, ascending, without overlaps; none where the line is there for its context."""
    cut_before: bool = False
    cut_after: bool = False


class CitedBlock(Value):
    """A block of a run's record, with the lines that graded rows rest on."""

    id: str
    tier: int
    kind: str
    title: str
    total_lines: int
    lines: tuple[CitedLine, ...]
    """Ascending; a gap in the numbers is text that is not shown."""


class Citation(Value):
    """Where a graded row's evidence stands."""

    block: str
    line: int
    """First line that is cited; it is among the block's ``lines``."""
    accepted_as: str = ""
    """T0-T3 of a quote; empty for the place of an exact check."""


class GradedRow(Value):
    """A check or an expectation over one run, as the report shows it."""

    number: int
    """0-based among all rows of the run: checks, then expectations."""
    kind: Literal["check", "expectation"]
    id: str
    severity: Severity
    text: str
    status: str
    """Of ``CheckStatus`` or ``GradeStatus``."""
    reason: str
    cites: tuple[Citation, ...] = ()
    rejected: tuple[str, ...] = ()
    """Why quotes of the grader were not accepted, one verdict each."""


class RunEvidence(Value):
    """The graded rows of one run and the lines of its record that they rest on."""

    eval_id: str
    arm: Arm
    run: int
    folder: str
    """Bundle-relative folder of the run: unique in a session, so anchors are made from it."""
    rows: tuple[GradedRow, ...]
    blocks: tuple[CitedBlock, ...] = ()
    left_out: int = 0
    """Rows of this run that are in its checks.json and grading.json only."""
    answer: str | None = None
    """The run's answer, as far as the page shows it; None where it is not shown. Untrusted."""
    answer_cut: int = 0
    """Characters of the answer that are in its response.md only."""


class DiscussionReport(Value):
    """The discussion of one run in the report. It moves nothing else."""

    eval_id: str
    run: int
    folder: str
    grade: Grade | None
    score_path: tuple[float | None, ...]
    """Overall: of the first report, then after each round."""
    scores: dict[str, float | None]
    by_rule: tuple[str, ...] = ()
    """Dimensions whose score is no opinion but a count, or that have none."""
    moved: tuple[str, ...] = ()
    """What an admitted point changed, as sentences. May quote untrusted text."""
    rounds: int
    accepted_rounds: int
    end_reason: str
    seed_end: str = ""
    """Where the source's rules would have ended it."""
    void_objections: int
    cave_index: int
    criteria: Share
    """Success criteria that are met: requirement alignment (R212)."""
    criteria_source: str
    degraded: str = ""


class SignedTask(Value):
    """One contract in the report."""

    eval_id: str
    score_path: tuple[float | None, ...]
    approved: bool
    forced: bool
    degraded: str = ""
    disagreements: int = 0
    """Reviews whose ``approved`` said something else than their score."""


class ContractReport(Value):
    """The contracts of one skill in the report."""

    not_made: str = ""
    """Why there is none; empty where there is one."""
    drafted: bool = False
    plan_given: str = "none"
    tasks: tuple[SignedTask, ...] = ()
    missing: tuple[str, ...] = ()
    refused: tuple[str, ...] = ()


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
    lift_delta: float | None = None
    """Mean over cases of the rate with the skill minus that without; None where it was not computed."""
    p_worse: float | None = None
    """One-sided exact p of head against base over cases, before any correction; None where they were not compared."""
    q_worse: float | None = None
    """The same after Benjamini and Hochberg over the skills of the session: for looking through many, never for blocking."""
    won: int = 0
    lost: int = 0
    tied: int = 0
    mde: float | None = None
    arms: tuple[ArmFigures, ...] = ()
    conditions: tuple[Condition, ...] = ()
    """Without a skill, curated, self-generated; empty where nothing ran."""
    cases: tuple[CaseReport, ...] = ()
    triage: tuple[AssertionTriage, ...] = ()
    findings: tuple[Finding, ...] = ()
    suggestions: tuple[str, ...] = ()
    judge_health: str = ""
    known_true: Share = Share(passed=0, total=0)
    """Known-true controls that the judge passed, of those that it answered."""
    known_false: Share = Share(passed=0, total=0)
    """Known-false controls that it did not pass, of those that it answered."""
    fallbacks: tuple[FallbackCount, ...] = ()
    state: State = State.ERROR
    authoritative_interval: tuple[float, float] | None = None
    """95 % Wilson interval of ``authoritative``; None where no case completed."""
    not_measured_cause: NotMeasuredCause | None = None
    """Set with the verdict ``not_measured`` only."""
    caused_by_change: bool = False
    """With ``no_evals`` and ``blocked``: the base could be run, and this change is why the head cannot."""
    triggers: TriggerFigures | None = None
    """None where the suite has no trigger query that was asked."""
    not_tested: tuple[str, ...] = ()
    """What this verdict does not rest on, as sentences: blocked cases, layers that did not run, vetoes nothing looks for."""
    notes: tuple[str, ...] = ()
    """Facts that a reader of this skill's figures must know."""
    evidence: tuple[RunEvidence, ...] = ()
    """What was graded of each run, and the lines of the record behind it; empty where no run was judged."""
    discussions: tuple[DiscussionReport, ...] = ()
    undiscussed: tuple[str, ...] = ()
    """Why runs with the skill were not discussed, with their number."""
    contract: ContractReport | None = None
    """None: the policy asks for no contract."""
    manifests: tuple[ManifestStatus, ...] = ()
    """One a manifest that ships the skill; one of kind ``signature`` where the skill has no signature."""
    history: SkillHistory | None = None
    """What earlier sessions said of this skill; None: none is known."""


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
    remembered_calls: int = 0
    """Replies that an earlier session paid for, used again; not among ``calls``."""


OVERRIDE_LABEL = "skill-gate-override"


class Override(Value):
    """Break-glass: somebody with the right to do so lets one head commit through. Checked before it becomes a value."""

    login: str
    permission: Literal["maintain", "admin"]
    head_commit: str
    """The one commit that it is for."""
    label: str = OVERRIDE_LABEL


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
    report_url: str = ""
    """Where report.html of this session can be read, by the policy's ``report_url``; empty: in the bundle only."""
    language: Language = Language.EN
    """What reporters tell it in; the sentences in here are English all the same."""
