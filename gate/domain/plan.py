"""What a session will do, decided before any model is asked."""

from __future__ import annotations

from enum import StrEnum
from typing import Literal

from pydantic import Field

from gate.domain.base import NotRun, Value
from gate.domain.findings import Finding
from gate.domain.manifest import ManifestStatus
from gate.domain.preflight import PreflightFact
from gate.domain.skill import Skill, SkillChange, SkillType
from gate.domain.suite import Case, Suite


class Mode(StrEnum):
    """DESIGN.md 4, table of modes."""

    SMOKE = "smoke"
    QUICK = "quick"
    STANDARD = "standard"
    FULL = "full"
    REGRESSION = "regression"


class Enforce(StrEnum):
    """How strictly verdicts become a state."""

    ADVISORY = "advisory"
    STANDARD = "standard"
    STRICT = "strict"


class NotMeasuredCause(StrEnum):
    """Why only the static layers ran; the state of the gate depends on it (DESIGN.md 4, state table)."""

    NO_KEY = "no_key"
    """A member's change without a key or model: somebody's set-up is wrong."""
    FORK = "fork"
    DEPENDABOT = "dependabot"
    DRAFT = "draft"
    OVER_BUDGET = "over_budget"
    NO_AGENT_FILE = "no_agent_file"
    """No file changed that an agent reads."""
    DELETED = "deleted"
    NOT_OPENED = "not_opened"
    """Offered, and opened in no run."""


class Arm(StrEnum):
    """One side of a case."""

    WITH_SKILL = "with_skill"
    WITHOUT_SKILL = "without_skill"
    BASE_SKILL = "base_skill"


class Limits(Value):
    """What one run may use."""

    steps: int
    """Model turns."""
    tool_calls: int | None = None
    """Early stop of the baseline (origins 1.3); None: no early stop."""
    seconds: float = 600
    command_seconds: float = 60
    output_tokens: int = 4096
    """Per turn."""


class RunKey(Value):
    """Identifies a run within a session."""

    skill_path: str
    slug: str
    eval_id: str
    run: int = Field(ge=1)
    arm: Arm

    @property
    def folder(self) -> str:
        """Bundle-relative folder of the run (DESIGN.md 5)."""
        return f"{case_folder(self.slug, self.eval_id)}/run-{self.run}/{self.arm.value}"

    @property
    def label(self) -> str:
        """Unique name for model calls and containers."""
        return f"{self.slug}/{safe_id(self.eval_id)}/run-{self.run}/{self.arm.value}"


def safe_id(eval_id: str) -> str:
    """An eval id as a file name: kept where it is short and plain, else a readable stem with a digest."""
    from gate.domain.base import sha256_hex

    plain = eval_id.isascii() and all(c.isalnum() or c in "-_." for c in eval_id)
    # Upper case is not kept: two ids that differ by case only would share a folder on some file systems.
    if plain and eval_id.strip(".") and len(eval_id) <= 60 and eval_id == eval_id.lower():
        return eval_id
    stem = "".join(c if c.isascii() and c.isalnum() else "-" for c in eval_id.lower())[:40].strip("-") or "case"
    return f"{stem}-{sha256_hex(eval_id.encode('utf-8', 'surrogateescape'))[:8]}"


def case_folder(slug: str, eval_id: str) -> str:
    """Bundle-relative folder of a case."""
    name = safe_id(eval_id)
    return f"skills/{slug}/{name if name.startswith('eval-') else 'eval-' + name}"


class ArmPlan(Value):
    """How many runs an arm of a case gets, or why none."""

    arm: Arm
    runs: int = Field(ge=0)
    skipped: str | None = None
    """Why the arm does not run; None where it does."""
    limits: Limits


class CasePlan(Value):
    """One case as planned."""

    case: Case
    arms: tuple[ArmPlan, ...]
    compare: NotRun | None = None
    """None: Layer 3 runs. Otherwise why it does not."""
    blocked: str | None = None
    """Why the case cannot run at all (a missing MCP server, a missing key); None where it can."""
    origin: Literal["both", "base", "head"] = "head"
    """Whose suite the case is from (DESIGN.md 3: the union by eval_id and digest)."""

    def arm(self, arm: Arm) -> ArmPlan | None:
        """The plan of one arm."""
        return next((item for item in self.arms if item.arm is arm), None)


class SkillPlan(Value):
    """One skill as planned."""

    change: SkillChange
    slug: str
    head: Skill | None
    base: Skill | None
    suite: Suite | None
    base_suite: Suite | None = None
    type: SkillType = SkillType.TEXT_GENERATION
    type_reason: str = ""
    findings: tuple[Finding, ...] = ()
    """About SKILL.md, the suite and the change."""
    manifest_findings: tuple[Finding, ...] = ()
    manifests: tuple[ManifestStatus, ...] = ()
    """As in ``SkillIntake``."""
    preflight: tuple[PreflightFact, ...] = ()
    """As in ``SkillIntake``."""
    suite_removals: tuple[str, ...] = ()
    """Checks that head removes or loosens against the base suite, as sentences; each needs a waiver."""
    cases: tuple[CasePlan, ...] = ()
    not_measured: str | None = None
    """Why only the static layers run; None where runs are planned."""
    not_measured_cause: NotMeasuredCause | None = None
    """The kind of ``not_measured``. None beside a text is read as ``no_key``, the one that fails a change."""
    base_runnable: bool = False
    """True where the base version could be run with its suite: a head that cannot is then this change's doing."""


class Plan(Value):
    """One session as planned."""

    session_id: str
    mode: Mode
    enforce: Enforce
    run_date: str
    """ISO date that computed expected values use (K26)."""
    base_commit: str | None
    head_commit: str | None
    skills: tuple[SkillPlan, ...]
    estimated_calls: int
    estimated_tokens: int
    worst_calls: int = 0
    """With every case undecided, every step and every re-ask used; 0: not estimated."""
    worst_tokens: int = 0
    notes: tuple[str, ...] = ()


class RunRequest(Value):
    """One run to execute: the unit of work of Layer 1."""

    key: RunKey
    case: Case
    skill: Skill | None
    """The skill the arm gets; None for the baseline."""
    skill_type: SkillType
    limits: Limits
    purpose: Literal["planned", "fill", "confirm"] = "planned"
    subjects: tuple[Skill, ...] = ()
    """Every version of the skill that some arm of this case gets: what a baseline must have no trace of."""
