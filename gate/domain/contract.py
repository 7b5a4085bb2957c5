"""The contract that two models sign before a case runs (R148, R152-R166): what is to be delivered and how it is checked."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from gate.domain.base import FallbackCount, Value

APPROVAL_THRESHOLD = 0.8
"""R160."""
MAX_REVIEW_ROUNDS = 3
"""R162."""
PLAN_TAGS = ("[SEARCH]", "[CREATE]", "[VERIFY]")
"""R158."""


class ContractDocument(Value):
    """The six fields (R153-R158). All text is a model's: untrusted."""

    requirement_summary: str
    key_deliverables: tuple[str, ...]
    success_criteria: tuple[str, ...]
    technical_approach: str
    risk_areas: tuple[str, ...]
    plan: tuple[str, ...]
    """Steps, each with a tag of PLAN_TAGS before it."""


class ReviewRound(Value):
    """A version of the document, and what the reviewer said of it."""

    number: int = Field(ge=1)
    document: ContractDocument
    score: float | None = Field(ge=0, le=1)
    """None: the reviewer gave no valid reply, so nothing was approved."""
    approved_said: bool | None = None
    """What the reviewer's ``approved`` said: recorded, and ignored (R164)."""
    disagrees: bool = False
    """``approved_said`` is not what the score says (R165)."""
    findings: tuple[str, ...] = ()
    """What to change (R161), or what was found good (R204)."""


class TaskContract(Value):
    """The contract of one case."""

    eval_id: str
    rounds: tuple[ReviewRound, ...]
    approved: bool
    """The score of the last round is at least APPROVAL_THRESHOLD."""
    forced: bool
    """It ended without an agreement, after MAX_REVIEW_ROUNDS or where somebody could not be asked any more: the generator's
    last version counts (R163, K27)."""
    degraded: str = ""
    """Why a reply is missing; empty where none is. A contract without a review is neither approved nor agreed."""
    fallbacks: tuple[FallbackCount, ...] = ()

    @property
    def document(self) -> ContractDocument:
        """What counts: the last version."""
        return self.rounds[-1].document

    @property
    def score_path(self) -> tuple[float | None, ...]:
        """R204: 0.70 -> 0.88."""
        return tuple(item.score for item in self.rounds)


class SkillContract(Value):
    """contract.json of one skill."""

    drafted: bool
    """The tasks were drafted, too: the skill has no evals, and the suite made from this is ``generated``."""
    plan_given: Literal["none", "all_arms"] = "none"
    """Who is told the plan: every arm alike, or nobody."""
    tasks: tuple[TaskContract, ...]
    missing: tuple[str, ...] = ()
    """Cases without a contract, as sentences with the reason."""
    refused: tuple[str, ...] = ()
    """Drafted tasks and criteria that code threw away, as sentences."""
    fallbacks: tuple[FallbackCount, ...] = ()
    """Of the draft; the others stand with their task."""
    models: dict[str, str] = Field(default_factory=dict)

    @property
    def whole(self) -> bool:
        """Whether nothing was lost on the way; that nobody agreed is no loss."""
        return not self.missing and not any(task.degraded for task in self.tasks)

    def task(self, eval_id: str) -> TaskContract | None:
        """The contract of one case, or None."""
        return next((item for item in self.tasks if item.eval_id == eval_id), None)
