"""What a session will do, decided before any model is asked."""

from __future__ import annotations

from enum import StrEnum
from typing import Any, Literal

from pydantic import Field

from gate.domain.base import NotRun, Value
from gate.domain.findings import Finding
from gate.domain.manifest import ManifestStatus
from gate.domain.preflight import PreflightFact
from gate.domain.skill import Skill, SkillChange, SkillType
from gate.domain.suite import Case, Suite

SUITE_REMOVAL = "suite-removal"
"""Rule name with which a waiver accepts that checks were removed or loosened, or a suite deleted."""


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
    SELF_GENERATED = "self_generated"
    """A skill that the model wrote for itself, from the prompts alone. Shown beside the others; no verdict rests on it."""
    PLACEBO = "placebo"
    """Neutral text of the skill's own length. Shown beside the others; no verdict rests on it."""


COMPARED_ARMS = (Arm.WITH_SKILL, Arm.WITHOUT_SKILL, Arm.BASE_SKILL)
"""The arms that a verdict may rest on."""
OPTIONAL_ARMS = (Arm.SELF_GENERATED, Arm.PLACEBO)
"""Further conditions for people to compare with."""


class Limits(Value):
    """What one run may use."""

    steps: int
    """Model turns. The last one is announced to the agent as its last, in every arm alike."""
    tool_calls: int | None = None
    """Early stop of the baseline (origins 1.3); None: no early stop."""
    tokens: int | None = None
    """Tokens of the whole run, sent and received; None: only the session's budget bounds them."""
    usd: float | None = None
    """US dollars of the whole run, where prices are known; None: as above."""
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
    def case(self) -> str:
        """``case_label`` of its case."""
        return case_label(self.slug, self.eval_id)

    @property
    def label(self) -> str:
        """Unique name for model calls and containers."""
        return f"{self.case}/run-{self.run}/{self.arm.value}"


def safe_id(eval_id: str) -> str:
    """An eval id as a file name: kept where it is short and plain, else a readable stem with a digest."""
    from gate.domain.base import sha256_hex

    plain = eval_id.isascii() and all(c.isalnum() or c in "-_." for c in eval_id)
    # Upper case is not kept: two ids that differ by case only would share a folder on some file systems.
    if plain and eval_id.strip(".") and len(eval_id) <= 60 and eval_id == eval_id.lower():
        return eval_id
    stem = "".join(c if c.isascii() and c.isalnum() else "-" for c in eval_id.lower())[:40].strip("-") or "case"
    return f"{stem}-{sha256_hex(eval_id.encode('utf-8', 'surrogateescape'))[:8]}"


def case_label(slug: str, eval_id: str) -> str:
    """What the labels of all calls of a case begin with."""
    return f"{slug}/{safe_id(eval_id)}"


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
    reason: str = ""
    """Why it has these limits and this number of runs (Layer 0), as a clause."""


class CaseShare(Value):
    """What one case may spend of the caps of its skill and its session: the same whether a plan is cut into shards or not."""

    model_calls: int = Field(ge=0)
    usd: float = Field(ge=0)


class CasePlan(Value):
    """One case as planned."""

    case: Case
    arms: tuple[ArmPlan, ...]
    compare: NotRun | None = None
    """None: Layer 3 runs. Otherwise why it does not."""
    blocked: str | None = None
    """Why the case cannot run at all (a missing MCP server, a missing key); None where it can."""
    blocked_by_change: bool = False
    """True where it is blocked and the base version could run it, or what it had under this id."""
    origin: Literal["both", "base", "head"] = "head"
    """Whose suite the case is from (DESIGN.md 3: the union by eval_id and digest)."""
    share: CaseShare | None = None
    """None where the case does not run."""

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
    not_offered: str = ""
    """Why hosts do not offer the head version to a model, as a clause, where cases need that they do; empty: they offer it."""
    base_offered: bool = False
    """True where hosts offer the base version to a model."""


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

    @property
    def is_bare(self) -> bool:
        """Whether the arm must not see the author's skill: the baseline, and what stands in for the skill."""
        return self.key.arm in (Arm.WITHOUT_SKILL, *OPTIONAL_ARMS)


class SessionPlan(Value):
    """A plan as a file, for sessions that are cut into shards: everything that a shard needs but keys, engine and folder.

    Its shards and the merge go by ``digest``; what a shard does is decided here and nowhere else.
    """

    schema_version: Literal[1] = 1
    settings: dict[str, Any]
    """Of the session, as JSON; no secret is in it."""
    session: dict[str, Any]
    """session.json."""
    plan: Plan
    findings: tuple[Finding, ...] = ()
    """Of the session as a whole."""
    files: dict[str, Any] = Field(default_factory=dict)
    """Bundle-relative path -> JSON, of what was agreed before anything runs (contract.json)."""
    usage: tuple[dict[str, Any], ...] = ()
    """What that cost: ``ModelUse`` as JSON."""
    cases: tuple[dict[str, Any], ...] = ()
    """The same by case: ``CaseUse`` as JSON."""
    contents: dict[str, bytes] = Field(default_factory=dict, repr=False)
    """SHA-256 -> content of every file of the planned skills, which ``plan`` itself does not hold as JSON."""
    mac: str = ""
    """HMAC-SHA256 by the cache's key, where the planner had one."""

    def whole(self) -> Plan:
        """The plan with the contents of its skills' files. Raises ValueError where one is not there or is another."""
        return self.plan.model_copy(update={"skills": tuple(map(self._whole, self.plan.skills))})

    def _whole(self, skill: SkillPlan) -> SkillPlan:
        versions = {
            name: self._filled(found) for name in ("head", "base") if (found := getattr(skill, name)) is not None
        }
        return skill.model_copy(update=versions)

    def _filled(self, skill: Skill) -> Skill:
        from gate.domain.base import sha256_hex

        files = []
        for file in skill.files:
            data = self.contents.get(file.sha256)
            if data is None or sha256_hex(data) != file.sha256:
                raise ValueError(f"the content of {file.path} is missing from the plan")
            files.append(file.model_copy(update={"data": data}))
        return skill.model_copy(update={"files": tuple(files)})

    @property
    def digest(self) -> str:
        """SHA-256 over the canonical JSON of everything but the MAC."""
        from gate.domain.base import digest_of

        return digest_of(self.model_dump(mode="json", exclude={"mac"}))
