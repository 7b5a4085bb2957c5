"""Everything a session is told from outside, resolved once: flags and inputs over policy over defaults (DESIGN.md 5)."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import date
from enum import StrEnum
from typing import Annotated, Any, Literal, NamedTuple

from pydantic import BaseModel, Field, field_validator, model_validator

from gate.domain.base import Value
from gate.domain.chat import Role
from gate.domain.discussion import HARD_ROUNDS, MAX_ROUNDS
from gate.domain.findings import Finding
from gate.domain.plan import Enforce, Mode, NotMeasuredCause
from gate.domain.report import Language, Override

OWN_IMAGE = "@own"
"""As an image: the one of the container that the gate itself runs in, else ``DEFAULT_IMAGE``. No image can have this name."""
DEFAULT_IMAGE = "skill-gate-sandbox:dev"
SANDBOXES = ("docker", "bubblewrap")
"""Kinds of sandbox; another than the first only where somebody asks for it by name, on a machine and for a change of their own."""

MODES = (Mode.SMOKE, Mode.QUICK, Mode.STANDARD, Mode.FULL)
"""Each does all that the ones before it do. ``regression`` compares with something else and is stricter than none."""
LEVELS = (Enforce.ADVISORY, Enforce.STANDARD, Enforce.STRICT)


class Way(StrEnum):
    """In which direction a value is stricter."""

    HIGHER = "higher"
    LOWER = "lower"
    LATER = "later"
    """Later in ``Strict.order``."""
    TRUE = "true"
    FEWER = "fewer"
    """A part of what the policy lists."""
    LISTED = "listed"
    """One of the values that the policy names."""
    NESTED = "nested"
    """A mapping whose keys have directions of their own."""
    FREE = "free"
    """It decides nothing: whoever says it, it counts."""
    POLICY_ONLY = "policy_only"
    """Nobody but the policy of the base branch says this."""


@dataclass(frozen=True)
class Strict:
    """The strict direction of a key of the policy (DESIGN.md 5): the one in which an input of a change may move it."""

    way: Way
    order: tuple[object, ...] = ()
    unsaid: object = None
    """What counts where the policy does not say it."""


class Loosening(NamedTuple):
    """An input that was not followed."""

    key: str
    given: object
    why: str
    """A clause: ``a change may only …``."""


class Thresholds(Value):
    """Numbers of the decision; the defaults are DESIGN.md 4's."""

    threshold: Annotated[float, Strict(Way.HIGHER)] = Field(default=0.80, gt=0, le=1)
    """Share of cases that must pass: under it a skill fails where the data exclude more, else it is inconclusive."""
    release_delta: Annotated[float, Strict(Way.LOWER)] = Field(default=0.15, gt=0, lt=1)
    """With `strict`: a drop of this size against the base version must be excluded."""
    finished_share: Annotated[float, Strict(Way.HIGHER)] = Field(default=0.80, gt=0, le=1)
    """Share of an arm's planned runs that must have finished, else the skill is `error`."""
    graded_share: Annotated[float, Strict(Way.HIGHER)] = Field(default=0.90, gt=0, le=1)
    """Share of expectations that must have been graded, else the skill is `error`."""


CALLS_PER_SKILL = 600
"""What a skill may ask of models at least, where the policy gives no number of its own."""


class Caps(Value):
    """What a session may spend; all visible in the report."""

    model_calls_per_skill: int | None = Field(default=None, ge=1)
    """Calls of all roles together, retries among them. Not said: 600, or, where that is more, what its cases may need
    (each filled and confirmed, every turn taken, every question to a judge asked twice)."""
    usd_per_skill: float = Field(default=2.0, gt=0)
    """US dollars, where prices are known."""
    usd_per_session: float = Field(default=10.0, gt=0)
    """The same of all skills of a session together."""
    skills_per_session: int = Field(default=10, ge=1)
    """The skills beyond are `not_measured`: over budget."""
    tokens_per_run: int = Field(default=1_000_000, ge=1)
    """Of one run, sent and received, the same in every arm: a run that goes over it has failed."""
    usd_per_run: float | None = Field(default=None, gt=0)
    """The same in US dollars, where prices are known."""


class Waiver(Value):
    """An accepted exception, with an owner and an end."""

    skill: str
    rule: str
    owner: str
    expires: str
    """ISO date; past it the waiver counts for nothing."""
    reason: str = ""

    def accepts(self, rule: str, skill: str, run_date: str) -> bool:
        """Whether it accepts this rule for this skill on an ISO date; False where it has ended or its end is no date."""
        return (self.rule, self.skill) == (rule, skill) and self.holds_on(run_date)

    def holds_on(self, run_date: str) -> bool:
        """Whether it has not ended by an ISO date."""
        try:
            return date.fromisoformat(self.expires) >= date.fromisoformat(run_date)
        except ValueError:
            return False


class Suppression(Value):
    """A finding of the static scan that somebody has looked at and accepts, with an end."""

    rule: str = Field(pattern=r"^scan/[a-z-]+$")
    path: str = Field(min_length=1)
    """Glob pattern of the files it is about, from the repository's root."""
    owner: str = Field(min_length=1)
    expires: str
    """ISO date; past it the suppression counts for nothing."""
    reason: str = Field(min_length=1)


class SigningTrust(Value):
    """Whose signatures count. PEM texts, given by the base policy; nothing is ever fetched."""

    public_keys: tuple[str, ...] = ()
    """Elliptic curve public keys (P-256, P-384, P-521)."""
    certificates: tuple[str, ...] = ()
    """Certificates that a signing certificate must lead to."""


class JudgeCalibration(Value):
    """How a judge did on items whose answer is known, counted before: a session in which no control was answered knows its
    judge by this. What it says of a model holds for that model's name only."""

    model: str = Field(min_length=1)
    """As gradings name the model that answered (``grading.json``): the provider's own name."""
    date: str = Field(pattern=r"^\d{4}-\d{2}-\d{2}$")
    true_asked: int = Field(ge=1)
    """Items that hold."""
    true_failed: int = Field(ge=0)
    false_asked: int = Field(ge=1)
    """Items that do not hold."""
    false_passed: int = Field(ge=0)

    @model_validator(mode="after")
    def _parts_of_their_whole(self) -> JudgeCalibration:
        for name, part, whole in (
            ("true_failed", self.true_failed, self.true_asked),
            ("false_passed", self.false_passed, self.false_asked),
        ):
            if part > whole:
                raise ValueError(f"{name} is {part}, more than the {whole} that were asked")
        return self


class SkillThresholds(Value):
    """Thresholds of one skill; what is not said is the repository's."""

    threshold: float | None = Field(default=None, gt=0, le=1)
    release_delta: float | None = Field(default=None, gt=0, lt=1)
    finished_share: float | None = Field(default=None, gt=0, le=1)
    graded_share: float | None = Field(default=None, gt=0, le=1)


class SkillPolicy(Value):
    """What holds for some skills only; what is not said is the repository's."""

    thresholds: SkillThresholds = SkillThresholds()
    manifest_errors: Literal["warn", "block"] | None = None
    require_layer3: bool | None = None
    require_signed: bool | None = None
    image: str | None = Field(default=None, pattern=r"@sha256:[0-9a-f]{64}$")
    """The sandbox image of these skills, by digest."""
    available: tuple[str, ...] = ()
    """Keys that these skills declare, or ``network``, and that their cases stand in for: then they do not block."""


HARNESSES = ("loop", "claude-code", "codex", "command")
HarnessName = Literal["loop", "claude-code", "codex", "command"]


class AgentCommand(Value):
    """An agent program that speaks to the model gateway, for the harness ``command``. The prompt is its standard input."""

    run: tuple[str, ...] = Field(min_length=1)
    """The words of the command; ``{model}``, ``{url}``, ``{skills}`` and ``{mcp}`` in them are filled in."""
    skills: str = Field(default="", pattern=r"^(\.?[A-Za-z0-9_-][A-Za-z0-9._-]*(/\.?[A-Za-z0-9_-][A-Za-z0-9._-]*)*)?$")
    """Where it looks for skills, below its home folder; empty: it is told with ``{skills}``."""


_MCP_URL = r"^(https://[^\s/@?#]{1,253}(/[^\s@#]{0,400})?|http://(127\.0\.0\.1|localhost|\[::1\])(:[0-9]{1,5})?(/[^\s@#]{0,400})?)$"
_MCP_TOKEN = r"^SKILL_GATE_MCP_[A-Z0-9_]{1,64}$"


class RealMcpServer(Value):
    """Where a real MCP server is that cases may name (``mode: real``), and what of it they may use."""

    url: str = Field(json_schema_extra={"pattern": _MCP_URL})
    """Its MCP endpoint (Streamable HTTP): https, or http on this machine; no credentials in it."""
    token_env: str | None = Field(default=None, json_schema_extra={"pattern": _MCP_TOKEN})
    """Environment variable with its bearer token. No other variable can be named: a provider's key must not travel."""
    tools: tuple[Annotated[str, Field(pattern=r"^[A-Za-z0-9_-]{1,64}$")], ...] = Field(min_length=1)
    """The tools that runs may be offered; the others stay out of their reach."""

    @field_validator("url")
    @classmethod
    def _sealed(cls, url: str) -> str:
        if re.fullmatch(_MCP_URL, url) is None:
            raise ValueError("must be an https address without credentials in it, or http on this machine (127.0.0.1)")
        return url

    @field_validator("token_env")
    @classmethod
    def _nobody_elses(cls, name: str | None) -> str | None:
        if name is not None and re.fullmatch(_MCP_TOKEN, name) is None:
            raise ValueError("must be a variable whose name begins with SKILL_GATE_MCP_: no other key may travel")
        return name


class Policy(Value):
    """``.github/skill-gate.yml`` of the base branch. Unknown keys are errors; every key says what is stricter."""

    mode: Annotated[Mode | None, Strict(Way.LATER, MODES, Mode.STANDARD)] = None
    """How much is run: `smoke`, `quick`, `standard`, `full`, `regression`."""
    enforce: Annotated[Enforce | None, Strict(Way.LATER, LEVELS, Enforce.STANDARD)] = None
    """How verdicts become a state: `advisory`, `standard`, `strict`."""
    thresholds: Annotated[Thresholds, Strict(Way.NESTED)] = Thresholds()
    """The numbers of the decision."""
    caps: Annotated[Caps, Strict(Way.POLICY_ONLY)] = Caps()
    """What may be spent."""
    ignore: Annotated[tuple[str, ...], Strict(Way.FEWER)] = ()
    """Glob patterns of paths that are no live skills, beside the built-in list."""
    waivers: Annotated[tuple[Waiver, ...], Strict(Way.POLICY_ONLY)] = ()
    """Exceptions that somebody has accepted until a day."""
    suppressions: Annotated[tuple[Suppression, ...], Strict(Way.POLICY_ONLY)] = ()
    """Findings of the static scan that somebody has looked at."""
    models: Annotated[dict[Role, str], Strict(Way.LISTED)] = Field(default_factory=dict)
    """Role -> model, such as `executor: anthropic:claude-sonnet-4-5`."""
    image: Annotated[str | None, Strict(Way.LISTED)] = None
    """The sandbox image; default: the Action's own."""
    manifest_errors: Annotated[Literal["warn", "block"], Strict(Way.LATER, ("warn", "block"))] = "warn"
    """Whether a manifest that does not hold makes the skill `invalid`."""
    require_layer3: Annotated[bool, Strict(Way.TRUE)] = False
    """With `strict`: a skill whose outputs were not compared does not pass."""
    second_judge: Annotated[Literal["off", "auto", "on"], Strict(Way.LATER, ("off", "auto", "on"))] = "auto"
    """Whether a second grader (``models: second_grader``, of another family) must agree to every pass. ``auto``: in runs
    whose record speaks to a judge, where there is such a model."""
    calibration: Annotated[tuple[JudgeCalibration, ...], Strict(Way.POLICY_ONLY)] = ()
    """What is known of judges from elsewhere; the last entry of a model counts."""
    require_signed: Annotated[bool, Strict(Way.TRUE)] = False
    """A skill without a signature by ``trust`` is a manifest error."""
    self_generated: Annotated[bool, Strict(Way.TRUE)] = False
    """Mode ``full`` also runs every case with a skill that the model wrote for itself. No verdict rests on it."""
    placebo: Annotated[bool, Strict(Way.TRUE)] = False
    """Mode ``full`` also runs every case with neutral text of the skill's length. No verdict rests on it."""
    contract: Annotated[Literal["off", "on"], Strict(Way.POLICY_ONLY)] = "off"
    """Whether two models agree on what each case has to deliver before it runs, and draft cases for a skill without evals.
    A suite that was drafted is ``conditional`` at best."""
    contract_plan: Annotated[Literal["none", "all_arms"], Strict(Way.POLICY_ONLY)] = "none"
    """Whether the plan of a contract is told to every arm alike, or to none."""
    harness: Annotated[HarnessName | None, Strict(Way.LISTED, unsaid="loop")] = None
    """Who runs the cases: the built-in loop, or a real agent program in the sandbox."""
    command: Annotated[AgentCommand | None, Strict(Way.POLICY_ONLY)] = None
    """The program of the harness ``command``."""
    discussion_rounds: Annotated[int, Strict(Way.POLICY_ONLY)] = Field(default=MAX_ROUNDS, ge=1, le=HARD_ROUNDS)
    """At most this many rounds of appeal after a run."""
    trust: Annotated[SigningTrust, Strict(Way.POLICY_ONLY)] = SigningTrust()
    report_url: Annotated[str | None, Strict(Way.POLICY_ONLY)] = Field(
        default=None, pattern=r"^https://[^\s()<>\[\]\\`|\"'#]{1,400}$"
    )
    """Where a workflow publishes report.html, with ``{head}`` and ``{session}`` in it; then the comment links its
    evidence lines."""
    language: Annotated[Language, Strict(Way.FREE)] = Language.EN
    """What comment, status, summary and check run are written in."""
    service_url: Annotated[str | None, Strict(Way.LISTED)] = Field(
        default=None,
        pattern=r"^(https://[A-Za-z0-9.-]{1,200}(:[0-9]{1,5})?|http://127\.0\.0\.1:[0-9]{1,5})(/[A-Za-z0-9._~/-]{0,100})?$",
    )
    """The gate service that the input service-url may hand work over to."""
    service_keys: Annotated[
        tuple[Annotated[str, Field(pattern=r"^[A-Za-z0-9_-]{43}$")], ...], Strict(Way.POLICY_ONLY)
    ] = ()
    """Public keys (Ed25519, base64url) of that service: only what one of them signed counts. Empty: those that the service
    publishes at the time."""
    mcp_real: Annotated[dict[str, RealMcpServer], Strict(Way.POLICY_ONLY)] = Field(default_factory=dict)
    """Name of a server -> where it is. A case whose server is not named here is blocked; runs for people without write
    access never reach one."""
    skills: Annotated[dict[str, SkillPolicy], Strict(Way.POLICY_ONLY)] = Field(default_factory=dict)
    """Glob pattern of skill folders -> what holds for them instead."""

    def for_skill(self, path: str) -> Policy:
        """The policy of one skill folder. Of several patterns that match, the longer one decides (then the alphabet),
        and the path itself above all: no order of keys in a file matters."""
        found = self
        matching = [pattern for pattern in self.skills if matches(pattern, path)]
        for pattern in sorted(matching, key=lambda item: (item.strip("/") == path, len(item), item)):
            own = self.skills[pattern].model_dump(exclude_none=True, exclude={"available"})
            own["thresholds"] = {**found.thresholds.model_dump(), **own["thresholds"]}
            found = Policy.model_validate({**found.model_dump(), **own})
        return found

    def available_to(self, path: str) -> tuple[str, ...]:
        """What the cases of a skill folder stand in for, by every pattern that matches it; sorted."""
        return tuple(sorted({name for key, own in self.skills.items() if matches(key, path) for name in own.available}))


def matches(pattern: str, path: str) -> bool:
    """Whether a glob pattern matches a path from the root: ``*`` and ``?`` within a name, ``**`` over names."""
    signs = {"**/": "(?:.*/)?", "**": ".*", "*": "[^/]*", "?": "[^/]"}
    pieces = re.split(r"(\*\*/?|\*|\?)", pattern.strip("/"))
    return re.fullmatch("".join(signs.get(piece, re.escape(piece)) for piece in pieces), path, re.DOTALL) is not None


def strict_direction(model: type[BaseModel], key: str) -> Strict:
    """The strict direction of a key. Raises KeyError for an unknown key and for one that declares none."""
    for item in model.model_fields[key].metadata:
        if isinstance(item, Strict):
            return item
    raise KeyError(f"{model.__name__}.{key} declares no strict direction")


def loosens(policy: BaseModel, key: str, given: Any) -> str | None:
    """Why ``given`` would loosen a key of the base policy, as a clause; None: it is as strict, or stricter.

    Raises KeyError for a key that is unknown.
    """
    strict = strict_direction(type(policy), key)
    base: Any = getattr(policy, key)
    if strict.way is Way.POLICY_ONLY:
        return "only the policy of the base branch says this"
    base = strict.unsaid if base is None and strict.unsaid is not None else base
    if given == base or strict.way is Way.FREE:
        return None
    if strict.way is Way.NESTED:
        whys = [f"{name}: {why}" for name, value in dict(given).items() if (why := loosens(base, name, value))]
        return "; ".join(whys) or None
    if strict.way is Way.LISTED:
        named = sorted(base.values()) if isinstance(base, dict) else [base] if base is not None else []
        asked = given.values() if isinstance(given, Mapping) else [given]
        if all(item in named for item in asked):
            return None
        return f"a change may only pick what the policy names, and it names {', '.join(named) or 'none'}"
    return None if _stricter(strict, given, base) else f"a change may only tighten this, which is {_said(base)}"


def _stricter(strict: Strict, given: Any, base: Any) -> bool:
    if strict.way is Way.HIGHER:
        return bool(given >= base)
    if strict.way is Way.LOWER:
        return bool(given <= base)
    if strict.way is Way.TRUE:
        return bool(given)
    if strict.way is Way.FEWER:
        # A pattern with ``!`` takes folders back in, wherever it stands: those of the base stay, more of them may come.
        # The others may only go, and what stays keeps its order: the last pattern that matches decides.
        rest = iter(base)
        kept = all(item in rest for item in given if item in base or not item.startswith("!"))
        return kept and all(item in given for item in base if item.startswith("!"))
    order = strict.order
    return given in order and base in order and order.index(given) > order.index(base)


def _said(value: object) -> str:
    if isinstance(value, tuple | list):
        return ", ".join(map(str, value)) or "empty"
    return str(value.value if isinstance(value, StrEnum) else value)


def tightened(policy: Policy, asked: Mapping[str, Any]) -> tuple[Policy, tuple[Loosening, ...]]:
    """The base policy with every value of ``asked`` that is as strict or stricter, and the ones that are not.

    Nothing that a pull request says can make the result looser than ``policy`` in any key. Raises KeyError for an
    unknown key and ValidationError for a value that the key cannot have.
    """
    dropped: list[Loosening] = []
    values = policy.model_dump()
    for key, given in asked.items():
        if strict_direction(Policy, key).way is Way.NESTED:
            own = getattr(policy, key)
            for name, value in dict(given).items():
                why = loosens(own, name, value)
                if why is None:
                    values[key][name] = value
                else:
                    dropped.append(Loosening(f"{key}.{name}", value, why))
            continue
        why = loosens(policy, key, given)
        if why is None:
            values[key] = {**values[key], **given} if isinstance(given, Mapping) else given
        else:
            dropped.append(Loosening(key, given, why))
    return Policy.model_validate(values), tuple(dropped)


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


class CacheSettings(Value):
    """Where earlier runs and replies are kept, and whose they are."""

    folder: str
    repository: str = "local"
    """An id that a rename does not change."""
    scope: str = "local"
    """``default`` for the default branch, ``pull/N``, or ``local``."""


class HandOver(Value):
    """A gate service that does this session's work."""

    url: str
    keys: tuple[str, ...] = ()
    """Public keys of which one must have signed the answer; empty: those that the service publishes."""
    inputs: dict[str, str] = Field(default_factory=dict)
    """Inputs of the Action that go with it, by name."""


class Settings(Value):
    """One session, resolved."""

    repository: str
    """Folder of the Git repository."""
    paths: tuple[str, ...] = ()
    """Skill folders asked for; empty: what changed."""
    base: str | None = None
    exact_base: bool = False
    """Whether ``base`` itself is the older side, and not where it and head parted."""
    head: str = "HEAD"
    mode: Mode = Mode.STANDARD
    enforce: Enforce = Enforce.STANDARD
    out: str = ".skill-gate"
    models: ModelChoice | None = None
    """None: no key and no model, static layers only."""
    replay: str | None = None
    record: str | None = None
    cache: CacheSettings | None = None
    """None: nothing that an earlier session made is used, nothing is kept."""
    image: str = DEFAULT_IMAGE
    harness: HarnessName = "loop"
    agent: str | None = None
    """File or folder of this machine with the agent program; None: what the machine's PATH finds, else the image's own."""
    sandbox: Literal["docker", "bubblewrap"] = "docker"
    jobs: int = Field(default=4, ge=1, le=64)
    """Sandboxes at the same time."""
    seed: str | None = Field(default=None, pattern=r"^[0-9a-fA-F]{64}$")
    """64 hex digits; None: drawn by wiring."""
    run_date: str | None = None
    exit_conditional: Literal[0, 1] = 0
    policy: Policy = Policy()
    static_only: Literal[NotMeasuredCause.FORK, NotMeasuredCause.DEPENDABOT, NotMeasuredCause.DRAFT] | None = None
    """Why nothing is run, whatever models there are; None: runs as planned."""
    real_refused: str = ""
    """Why no run of this session may reach a real MCP server, as a clause; empty: the policy decides."""
    override: Override | None = None
    """Break-glass, as checked with GitHub by whoever starts the session."""
    input_findings: tuple[Finding, ...] = ()
    """Inputs that were not followed, because they would loosen what the base policy says; and what was found before."""
    guarded_lines: dict[str, tuple[int, ...]] = Field(default_factory=dict)
    """Skill folder -> lines of SKILL.md of which ``skill-gate mutate`` killed a mutant: some case guards them."""
    hand_over: HandOver | None = None
    """Who does the work; None: this program."""

    @model_validator(mode="after")
    def _replay_or_record(self) -> Settings:
        if self.replay and self.record:
            raise ValueError("--record cannot be used with a replay: model")
        return self
