"""Everything a session is told from outside, resolved once: flags and inputs over policy over defaults (DESIGN.md 5)."""

from __future__ import annotations

from typing import Literal

from pydantic import Field, model_validator

from gate.domain.base import Value
from gate.domain.chat import Role
from gate.domain.findings import Finding
from gate.domain.plan import Enforce, Mode, NotMeasuredCause

OWN_IMAGE = "@own"
"""As an image: the one of the container that the gate itself runs in, else ``DEFAULT_IMAGE``. No image can have this name."""
DEFAULT_IMAGE = "skill-gate-sandbox:dev"


class Thresholds(Value):
    """Numbers of the decision; the defaults are DESIGN.md 4's."""

    threshold: float = Field(default=0.80, gt=0, le=1)
    release_delta: float = Field(default=0.15, gt=0, lt=1)
    finished_share: float = Field(default=0.80, gt=0, le=1)
    graded_share: float = Field(default=0.90, gt=0, le=1)


class Caps(Value):
    """What a session may spend; all visible in the report."""

    model_calls_per_skill: int = Field(default=600, ge=1)
    usd_per_skill: float = Field(default=2.0, gt=0)
    usd_per_session: float = Field(default=10.0, gt=0)
    skills_per_session: int = Field(default=10, ge=1)


class Waiver(Value):
    """An accepted exception, with an owner and an end."""

    skill: str
    rule: str
    owner: str
    expires: str
    """ISO date; past it the waiver counts for nothing."""
    reason: str = ""


class Policy(Value):
    """``.github/skill-gate.yml`` of the base branch. Unknown keys are errors."""

    mode: Mode | None = None
    enforce: Enforce | None = None
    thresholds: Thresholds = Thresholds()
    caps: Caps = Caps()
    ignore: tuple[str, ...] = ()
    """Glob patterns of paths that are no live skills, beside the built-in list."""
    waivers: tuple[Waiver, ...] = ()
    models: dict[Role, str] = Field(default_factory=dict)
    image: str | None = None
    manifest_errors: Literal["warn", "block"] = "warn"
    require_layer3: bool = False


class ModelChoice(Value):
    """Which model each role uses."""

    executor: str
    judge: str
    roles: dict[Role, str] = Field(default_factory=dict)

    def of(self, role: Role) -> str:
        """The model name of a role: its own, else the executor's for execution, else the judge's."""
        named = self.roles.get(role)
        if named:
            return named
        return self.executor if role in (Role.EXECUTOR, Role.GENERATOR, Role.DEFENDER) else self.judge


class Settings(Value):
    """One session, resolved."""

    repository: str
    """Folder of the Git repository."""
    paths: tuple[str, ...] = ()
    """Skill folders asked for; empty: what changed."""
    base: str | None = None
    head: str = "HEAD"
    mode: Mode = Mode.STANDARD
    enforce: Enforce = Enforce.STANDARD
    out: str = ".skill-gate"
    models: ModelChoice | None = None
    """None: no key and no model, static layers only."""
    replay: str | None = None
    record: str | None = None
    image: str = DEFAULT_IMAGE
    sandbox: Literal["docker"] = "docker"
    jobs: int = Field(default=4, ge=1, le=64)
    """Sandboxes at the same time."""
    seed: str | None = None
    """64 hex digits; None: drawn by wiring."""
    run_date: str | None = None
    exit_conditional: Literal[0, 1] = 0
    policy: Policy = Policy()
    static_only: Literal[NotMeasuredCause.FORK, NotMeasuredCause.DEPENDABOT, NotMeasuredCause.DRAFT] | None = None
    """Why nothing is run, whatever models there are; None: runs as planned."""
    input_findings: tuple[Finding, ...] = ()
    """Inputs that were not followed, because they would loosen what the base policy says."""

    @model_validator(mode="after")
    def _replay_or_record(self) -> Settings:
        if self.replay and self.record:
            raise ValueError("--record cannot be used with a replay: model")
        return self
