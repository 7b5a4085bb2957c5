"""What the layers found. Code decides every field that a verdict rests on."""

from __future__ import annotations

from collections.abc import Collection
from enum import StrEnum
from fractions import Fraction
from typing import Literal

from pydantic import Field

from gate.domain.base import FallbackCount, NotRun, Severity, Value, digest_of


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
    """A second look at a row (judging.md 1.1, 3.2). It can take a pass away, never give one."""

    kind: Literal["second_judge", "negation_twin", "delete_one", "unsaid", "again"]
    """``unsaid``: without the lines that speak to a judge. ``again``: the same question anew, about a row of a confirming run
    that a charge may rest on; it changes no row."""
    expectation_id: str
    model_said: bool | None
    """Of ``negation_twin``: of the opposite of the expectation. Of ``delete_one``: without the lines that were cited."""
    unsure: bool = False
    voided: bool = False
    """The question's known-false control was passed: whoever answered passes anything."""
    quotes: tuple[Quote, ...] = ()
    """Of ``second_judge``, ``unsaid`` and ``again``, as looked up."""
    error: str = ""
    """Why a look that the pass depends on could not be taken; empty where it was."""
    status: GradeStatus | None = None
    """Of ``again``: what code makes of the answer."""


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


NO_GAIN = "no observable gain on this case"
"""What a TIE says (R85, R131)."""


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


QUOTED_DIFFERENCE = 2
"""A criterion that differs by this or more needs a quote from each output, or counts as differing by one less than this."""


def counted_difference(a: CriterionScores, b: CriterionScores, unquoted: Collection[str] = ()) -> int:
    """Sum of A's scores minus sum of B's; criteria that are ``unquoted`` differ by QUOTED_DIFFERENCE - 1 at most."""
    most = QUOTED_DIFFERENCE - 1
    difference = a.total - b.total
    for name in unquoted:
        said = getattr(a, name) - getattr(b, name)
        difference -= said - max(-most, min(most, said))
    return difference


class Passage(Quote):
    """A place of one output that a comparator quoted for a criterion, and what code made of it. ``source`` says where it
    stands in words about labels (``A response:3``)."""

    criterion: Literal["correctness", "completeness", "accuracy", "organization", "formatting", "usability"]
    output: Literal["A", "B"]
    cited: str
    """The line id that the comparator named; it speaks of positions."""


class OrderResult(Value):
    """One asking of the comparator."""

    first: Literal["A", "B"]
    """Which label was shown first."""
    a: CriterionScores
    b: CriterionScores
    reasoning: str
    quotes: tuple[Passage, ...] = ()
    unquoted: tuple[str, ...] = ()
    """Criteria that differ by 2 or more without a quote from each output that code found: they count as differing by 1."""
    winner: Literal["A", "B", "TIE"]
    """By code: TIE iff the sums differ by at most 1 (K3, judging.md 5.5)."""
    second_family: bool = False
    """Asked of the comparator of the second family."""


class PairComparison(Value):
    """One pair of runs, asked in both orders, before unblinding."""

    run_with: int
    run_without: int
    orders: tuple[OrderResult, ...]
    winner: Literal["A", "B", "TIE"]
    """All orders must agree, else TIE."""
    position_unstable: bool
    """A judge said something else when the order was reversed."""
    split: bool = False
    """Each judge kept to its word in both orders, and the two families do not agree: a TIE."""
    leaks: tuple[str, ...] = ()
    """Blindness risks that scrubbing found, by rule name."""
    scrubbed: int = 0
    speaks_to_a_judge: tuple[Literal["A", "B"], ...] = ()
    """Outputs with text that addresses a judge: such an output cannot win."""

    @property
    def difference(self) -> Fraction:
        """Mean over orders of A's sum minus B's, so that no seat counts for more; never for a side that cannot win."""
        found = sum(counted_difference(item.a, item.b, item.unquoted) for item in self.orders)
        if "A" in self.speaks_to_a_judge:
            found = min(0, found)
        if "B" in self.speaks_to_a_judge:
            found = max(0, found)
        return Fraction(found, len(self.orders))


class Comparison(Value):
    """comparison.json of one case: Layer 3, sealed before the assignment is opened."""

    eval_id: str
    checklist: tuple[str, ...] = ()
    """What the comparator was told that a good output meets, as it was shown."""
    pairs: tuple[PairComparison, ...]
    winner: Literal["A", "B", "TIE"]
    rubric: dict[str, dict[str, float]]
    """``{"A": {"overall_score": …, "content_score": …, "structure_score": …}, "B": …}``, means over orders and pairs."""
    reasoning: str = ""
    fallbacks: tuple[FallbackCount, ...] = ()
    model: str = ""
    second_model: str = ""
    """Of the second family, where it was asked."""
    sealed: str = ""
    """SHA-256 over this value without this field, taken before unblinding."""

    @property
    def difference(self) -> Fraction:
        """Mean over pairs of A's sum of scores minus B's; zero without pairs."""
        return sum((pair.difference for pair in self.pairs), Fraction(0)) / max(1, len(self.pairs))

    @property
    def seal(self) -> str:
        """What ``sealed`` must be."""
        return digest_of(self.model_copy(update={"sealed": ""}))

    @property
    def intact(self) -> bool:
        """Whether this is what was sealed."""
        return bool(self.sealed) and self.sealed == self.seal


class Unblinding(Value):
    """What the labels stood for, opened after ``Comparison.sealed`` was written."""

    comparison_sealed: str
    with_skill: Literal["A", "B"]
    outcome: Winner
    winner_is_with_skill: bool | None = None
    """None on a TIE (K9)."""

    def fits(self, comparison: Comparison) -> bool:
        """Whether this opens that comparison, which is as it was sealed, and says what its winner is."""
        won = None if comparison.winner == "TIE" else comparison.winner == self.with_skill
        outcome = {None: Winner.TIE, True: Winner.SKILL, False: Winner.BASELINE}[won]
        opened = comparison.intact and self.comparison_sealed == comparison.sealed
        return opened and self.outcome is outcome and self.winner_is_with_skill is won


class SkillLine(Value):
    """A line of the skill that code found from the words that an analyzer copied."""

    path: str
    """Of the file, from the repository's root."""
    line: int = Field(ge=1)
    text: str
    """The line as it stands there, at most 300 characters. Untrusted."""


class Suggestion(Value):
    """One improvement of the analyzer (R101-R104)."""

    priority: Literal["high", "medium", "low"]
    category: Literal["instructions", "tools", "examples", "error_handling", "structure", "references"]
    suggestion: str
    expected_impact: str
    harmful_rule: bool = False
    """It is about a rule that made the work worse, the analyzer says."""
    citation: SkillLine | None = None
    """The line that it is about; None where it is about something missing, or its words stand nowhere."""


class Cause(Value):
    """Why an output was better or worse, with the line of the skill that it comes from (R122)."""

    text: str
    citation: SkillLine | None = None


class FollowedInstructions(Value):
    """R105: how well one run did what SKILL.md says, 1 (not at all) to 10, and what it did not do."""

    score: int = Field(ge=1, le=10)
    issues: tuple[str, ...] = ()


class InstructionFollowing(Value):
    """R105 for both arms, under SkillSentry's names too (K9)."""

    with_skill: FollowedInstructions
    without_skill: FollowedInstructions
    winner: FollowedInstructions | None = None
    """None on a TIE; so the next."""
    loser: FollowedInstructions | None = None


class ComparisonSummary(Value):
    """The opened verdict that an analysis is about."""

    winner: Literal["A", "B", "TIE"]
    winner_is_with_skill: bool | None
    evaluated_skill: str
    """Path of the skill folder."""
    comparator_reasoning: str
    run_with: int
    run_without: int


class TranscriptInsights(Value):
    """How the two agents worked, in the analyzer's words (R98)."""

    with_skill_execution_pattern: str = ""
    without_skill_execution_pattern: str = ""


class Analysis(Value):
    """analysis.json of one case: unblinded, after the seal; advice, never a verdict."""

    eval_id: str
    outcome: Winner
    comparison_summary: ComparisonSummary | None = None
    winner_strengths: tuple[Cause, ...] = ()
    """On a TIE: what both did well; the next: what both missed."""
    loser_weaknesses: tuple[Cause, ...] = ()
    instruction_following: InstructionFollowing | None = None
    improvement_suggestions: tuple[Suggestion, ...] = ()
    transcript_insights: TranscriptInsights = TranscriptInsights()
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
