"""The discussion of a run: six weighted dimensions, an appeal by both sides, what code made of it (R145-R181, R191-R206).

It moves dimension scores and the discussion grade, never a check, an expectation or a verdict (DESIGN.md 4). Every derived
field follows from what the three roles said and from the record, so ``verify`` derives it again.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from fractions import Fraction
from typing import Literal

from pydantic import Field

from gate.domain.base import FallbackCount, Value, six_digits
from gate.domain.judgement import Quote

MAX_ROUNDS = 3
HARD_ROUNDS = 20
"""R170: no policy can ask for more."""
CAP = Fraction(1, 10)
"""The most that a dimension's score can rise over the first report, by however many rounds. It can fall to any depth."""
OBJECTION_CHARACTERS = 200
"""R173."""
CONVERGED = Fraction(1, 20)
"""R177."""


class Dimension(StrEnum):
    """R191-R196. The order is the report's."""

    TASK_COMPLETION = "task_completion"
    TRUTHFULNESS = "truthfulness"
    TOOL_ACCURACY = "tool_accuracy"
    OUTPUT_QUALITY = "output_quality"
    ERROR_RECOVERY = "error_recovery"
    EFFICIENCY = "efficiency"


WEIGHTS = {
    Dimension.TASK_COMPLETION: Fraction(30, 100),
    Dimension.TRUTHFULNESS: Fraction(20, 100),
    Dimension.TOOL_ACCURACY: Fraction(15, 100),
    Dimension.OUTPUT_QUALITY: Fraction(15, 100),
    Dimension.ERROR_RECOVERY: Fraction(10, 100),
    Dimension.EFFICIENCY: Fraction(10, 100),
}
"""Sum 1."""
Grade = Literal["A", "B", "C", "D", "F"]
GRADES: tuple[tuple[Grade, Fraction], ...] = (
    ("A", Fraction(9, 10)),
    ("B", Fraction(8, 10)),
    ("C", Fraction(7, 10)),
    ("D", Fraction(6, 10)),
)
"""R203; below the last it is F."""


def exact(score: float) -> Fraction:
    """A score as the decimal number that it was written as: 0.9 is nine tenths."""
    return Fraction(repr(score))


def overall_of(scores: Mapping[Dimension, float | None]) -> float | None:
    """R201: the weighted sum in exact arithmetic; None as soon as one dimension has no score."""
    total = Fraction(0)
    for dimension, weight in WEIGHTS.items():
        score = scores.get(dimension)
        if score is None:
            return None
        total += exact(score) * weight
    return six_digits(float(total))


def grade_of(overall: float | None) -> Grade | None:
    """R203: A to F, no plus and no minus (K15); None without an overall score."""
    if overall is None:
        return None
    return next((grade for grade, least in GRADES if exact(overall) >= least), "F")


class DimensionScore(Value):
    """One dimension as it stands in the first report."""

    dimension: Dimension
    score: float | None = Field(ge=0, le=1)
    """None: neither evidence for a score nor anything that the rule could count."""
    method: Literal["evaluator", "rule", "none"]
    """``rule``: the evaluator gave no score with an accepted quote, twice; counted from the record."""
    said: float | None = None
    """The evaluator's number; kept, and never counted without an accepted quote."""
    reason: str = ""
    quotes: tuple[Quote, ...] = ()


class Objection(Value):
    """One point of a side."""

    side: Literal["defender", "prosecutor"]
    dimension: Dimension
    text: str
    """At most OBJECTION_CHARACTERS are kept. Untrusted text."""
    quotes: tuple[Quote, ...] = ()
    admitted: bool
    """It brings at least one accepted quote that nobody cited before."""
    refused: str = ""
    """Why it does not count; empty exactly where it is admitted."""


class DiscussionRound(Value):
    """One round: both sides heard on the same report, then judged anew by somebody who knows no earlier score."""

    number: int = Field(ge=1)
    defender_accepts: bool
    """R172, R176: what the defender said; it ends nothing while the prosecutor has evidence."""
    objections: tuple[Objection, ...] = ()
    left_out: int = 0
    """Objections over the limit of a side, unread."""
    proposed: dict[Dimension, float] = Field(default_factory=dict)
    """What the fresh evaluation said of the dimensions with an admitted objection."""
    scores: dict[Dimension, float | None]
    """After the round, by code: a rise needs an admitted point of the defender and ends at CAP, a fall needs one of the
    prosecutor."""
    overall: float | None
    largest_change: float
    """Of one dimension in this round, without sign (K16)."""
    lost: str = ""
    """Why the round counts for nothing: one of its three voices is missing."""


class Criterion(Value):
    """One success criterion (R212)."""

    id: str
    text: str
    met: bool | None
    """None: it could not be said."""
    by: Literal["check", "grader", "evaluator"]
    quotes: tuple[Quote, ...] = ()
    """Of ``evaluator``; a grader's stand in grading.json."""


END_REASONS = ("no_new_evidence", "round_cap", "lost", "degraded")


class Discussion(Value):
    """discussion.json of one run."""

    initial: tuple[DimensionScore, ...]
    """The first report, six rows in the order of ``Dimension``: frozen before anybody objects."""
    initial_digest: str
    """SHA-256 over ``initial``."""
    rounds: tuple[DiscussionRound, ...] = ()
    scores: dict[Dimension, float | None]
    overall: float | None
    discussion_grade: Grade | None
    """Never a release grade (K22)."""
    score_path: tuple[float | None, ...]
    """Overall of the first report and after each round."""
    end_reason: Literal["no_new_evidence", "round_cap", "lost", "degraded"]
    """``degraded``: the evaluator gave no valid report, so everything is by rule and nobody was heard."""
    seed_end_reason: Literal["defender_accepts", "score_converged", "round_cap"] | None
    """Which of R176, R177, R178 would have ended it first; None where none would have by then."""
    seed_end_round: int | None
    accepted_rounds: int
    """Rounds in which the defender accepted the report, of ``len(rounds)``."""
    void_objections: int
    """Objections without new verified evidence: each was read by code only."""
    cave_index: int
    """Changes of a score in favour of a side that brought no new verified evidence in that round: 0 by construction."""
    degraded: str = ""
    """What was not as intended, in words; empty where nothing was."""
    alignment: tuple[Criterion, ...] = ()
    alignment_source: Literal["contract", "suite"] = "suite"
    cut: tuple[str, ...] = ()
    """Ids of blocks that were shown in part (files after 3,000 characters)."""
    max_rounds: int
    fallbacks: tuple[FallbackCount, ...] = ()
    models: dict[str, str] = Field(default_factory=dict)
    """Role -> the provider's own name of the model that answered last."""

    @property
    def criteria_met(self) -> int:
        """Criteria that are shown to be met, of ``len(alignment)``."""
        return sum(item.met is True for item in self.alignment)
