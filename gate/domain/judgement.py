"""What the layers found. Code decides every field that a verdict rests on."""

from __future__ import annotations

from enum import StrEnum
from typing import Literal

from pydantic import Field

from gate.domain.base import FallbackCount, NotRun, Severity, Value


class CheckStatus(StrEnum):
    """``not_run`` fails a ``must``; ``infra`` voids the pair; neither is handed to a model."""

    PASSED = "passed"
    FAILED = "failed"
    NOT_RUN = "not_run"
    INFRA = "infra"


class CheckResult(Value):
    """One deterministic check over one run."""

    check_id: str
    kind: str
    severity: Severity
    rule_ref: str | None = None
    status: CheckStatus
    expected: str
    """What was looked for, in words. Untrusted text."""
    found: str
    """What was found, in words, with the place. Untrusted text, at most 500 characters."""
    block: str | None = None
    """Block id of the place, where there is one."""


class QuoteVerdict(StrEnum):
    """How a quote was found. Everything but T0-T3 is a rejection."""

    EXACT = "T0"
    NORMALISED = "T1"
    UNESCAPED = "T2"
    ELLIPSIS = "T3"
    NOT_FOUND = "not_found"
    WRONG_SOURCE = "wrong_source"
    TOO_SHORT = "too_short"
    AMBIGUOUS = "ambiguous"
    NOTES_ONLY = "notes_only"

    @property
    def accepted(self) -> bool:
        """True for T0 to T3."""
        return self.value.startswith("T")


class Quote(Value):
    """A quote that a judge gave, and what code made of it."""

    text: str
    source: str
    """Block id that the judge named."""
    verdict: QuoteVerdict
    tier: int | None = None
    """1-3 where accepted."""
    line: int | None = None
    """1-based line in the block where it starts."""
    start: int | None = None
    """Character offset in the block."""
    end: int | None = None
    expanded: str = ""
    """The whole lines around the quote, as they stand in the block."""
    invisible: int = 0
    """Zero-width, bidirectional and variation characters inside an accepted quote or the place where it was found:
    normalisation passes over them, so they are shown."""


class GradeStatus(StrEnum):
    """``ungraded`` never shrinks a denominator."""

    PASSED = "passed"
    FAILED = "failed"
    UNGRADED = "ungraded"


class ExpectationGrade(Value):
    """One expectation over one run."""

    expectation_id: str
    text: str
    severity: Severity
    precision: str
    rule_ref: str | None = None
    status: GradeStatus
    model_said: bool | None
    """What the grader claimed; kept, never counted."""
    unsure: bool = False
    """The grader said that it could not tell (``model_said`` is None): decided as FAILED, unlike a missing row."""
    quotes: tuple[Quote, ...] = ()
    reason: str
    """Why code decided so."""
    method: Literal["grader", "rules_only", "code"] = "grader"


class ControlGrade(Value):
    """A control made by code in a grading batch."""

    text: str
    known: bool
    """The true answer."""
    model_said: bool | None
    """None: unsure, or no row for it."""
    voided: bool = False
    """Of a batch that counts for nothing; health figures count it all the same."""


class SpotCheck(Value):
    """A second look at a row that passed (judging.md 1.1, 3.2). It can take a pass away, never give one."""

    kind: Literal["second_judge", "negation_twin", "delete_one"]
    expectation_id: str
    model_said: bool | None
    """Of ``negation_twin``: of the opposite of the expectation. Of ``delete_one``: without the lines that were cited."""
    unsure: bool = False
    voided: bool = False
    """The question's known-false control was passed: whoever answered passes anything."""
    quotes: tuple[Quote, ...] = ()
    """Of ``second_judge``, as looked up."""


class Claim(Value):
    """A claim that the agent made and the grader looked up (R42, R44)."""

    text: str
    type: Literal["factual", "process", "quality"]
    verified: Literal["true", "false", "unknown"]
    """``true`` only with an accepted quote."""
    actual: str = ""
    quote: Quote | None = None


class Grading(Value):
    """grading.json of one run: Layer 2b."""

    rows: tuple[ExpectationGrade, ...]
    controls: tuple[ControlGrade, ...] = ()
    voided: str | None = None
    """Why the batch counts for nothing (a known-false control passed twice); None where it counts."""
    spot_checks: tuple[SpotCheck, ...] = ()
    second_model: str = ""
    """Who gave the second opinions; empty where nobody was asked."""
    claims: tuple[Claim, ...] = ()
    eval_feedback: tuple[str, ...] = ()
    suspicious: tuple[str, ...] = ()
    """Text in the record that addresses a judge, by rule name and block."""
    fallbacks: tuple[FallbackCount, ...] = ()
    model: str = ""


class Winner(StrEnum):
    """Of a comparison, after unblinding."""

    SKILL = "skill_wins"
    BASELINE = "baseline_wins"
    TIE = "tie"


CRITERIA = ("correctness", "completeness", "accuracy", "organization", "formatting", "usability")
"""R47: three of content, three of structure, each a whole number 1-5."""


class CriterionScores(Value):
    """Six whole numbers 1-5 for one output in one order."""

    correctness: int = Field(ge=1, le=5)
    completeness: int = Field(ge=1, le=5)
    accuracy: int = Field(ge=1, le=5)
    organization: int = Field(ge=1, le=5)
    formatting: int = Field(ge=1, le=5)
    usability: int = Field(ge=1, le=5)

    @property
    def total(self) -> int:
        """Sum of the six: the integer that every rule is computed from."""
        return sum(getattr(self, name) for name in CRITERIA)

    @property
    def overall(self) -> float:
        """R48: (content mean + structure mean) / 2 * 2 = sum / 3; range 2-10."""
        return self.total / 3


class OrderResult(Value):
    """One asking of the comparator."""

    first: Literal["A", "B"]
    """Which label was shown first."""
    a: CriterionScores
    b: CriterionScores
    reasoning: str
    quotes: tuple[Quote, ...] = ()
    winner: Literal["A", "B", "TIE"]
    """By code: TIE iff the sums differ by at most 1 (K3, judging.md 5.5)."""


class PairComparison(Value):
    """One pair of runs, asked in both orders, before unblinding."""

    run_with: int
    run_without: int
    orders: tuple[OrderResult, ...]
    winner: Literal["A", "B", "TIE"]
    """Both orders must agree, else TIE."""
    position_unstable: bool
    leaks: tuple[str, ...] = ()
    """Blindness risks that scrubbing found, by rule name."""
    scrubbed: int = 0


class Comparison(Value):
    """comparison.json of one case: Layer 3, sealed before the assignment is opened."""

    eval_id: str
    pairs: tuple[PairComparison, ...]
    winner: Literal["A", "B", "TIE"]
    rubric: dict[str, dict[str, float]]
    """``{"A": {"overall_score": …, "content_score": …, "structure_score": …}, "B": …}``, means over orders and pairs."""
    reasoning: str = ""
    fallbacks: tuple[FallbackCount, ...] = ()
    model: str = ""
    sealed: str = ""
    """SHA-256 over this value without this field, taken before unblinding."""


class Unblinding(Value):
    """What the labels stood for, opened after ``Comparison.sealed`` was written."""

    comparison_sealed: str
    with_skill: Literal["A", "B"]
    outcome: Winner


class Suggestion(Value):
    """One improvement of the analyzer (R101-R104)."""

    priority: Literal["high", "medium", "low"]
    category: Literal["instructions", "tools", "examples", "error_handling", "structure", "references"]
    suggestion: str
    expected_impact: str
    skill_md_line: int | None = None
    """Line of SKILL.md that it is about, found by code from the rule that the analyzer quoted; None where not found."""


class FollowedInstructions(Value):
    """R105."""

    score: int = Field(ge=1, le=10)
    issues: tuple[str, ...] = ()


class Analysis(Value):
    """analysis.json of one case: unblinded, after the seal; advice, never a verdict."""

    eval_id: str
    outcome: Winner
    winner_strengths: tuple[str, ...] = ()
    loser_weaknesses: tuple[str, ...] = ()
    with_skill_following: FollowedInstructions | None = None
    suggestions: tuple[Suggestion, ...] = ()
    notes: tuple[str, ...] = ()
    """Sentences made by code, such as "no observable gain on this case"."""
    fallbacks: tuple[FallbackCount, ...] = ()
    model: str = ""


class RunJudgement(Value):
    """Layers 2a and 2b of one run."""

    checks: tuple[CheckResult, ...] | NotRun
    grading: Grading | NotRun


class CaseComparison(Value):
    """Layer 3 of one case."""

    comparison: Comparison | NotRun
    unblinding: Unblinding | None = None
    analysis: Analysis | NotRun
