"""A skill's evals."""

from __future__ import annotations

from enum import StrEnum
from typing import Any, Literal

from pydantic import Field, SerializerFunctionWrapHandler, model_serializer

from gate.domain.base import Severity, Value
from gate.domain.checks import Check


class CaseType(StrEnum):
    """Origins 1.4. A case without one counts as happy_path."""

    HAPPY_PATH = "happy_path"
    EDGE_CASE = "edge_case"
    NEGATIVE = "negative"
    ROBUSTNESS = "robustness"
    SECURITY = "security"
    ATOMIC = "atomic"
    E2E = "e2e"
    VARIANT = "variant"
    REGRESSION = "regression"


class Guard(StrEnum):
    """What a case guards against: there a failed ``must`` check is a veto, and so is what a judge quotes (origins 1.9)."""

    OVERREACH = "overreach"
    FABRICATION = "fabrication"
    LEAK = "leak"
    PERMISSION_BYPASS = "permission_bypass"
    INJECTION = "injection"


class Expectation(Value):
    """One semantic assertion, judged by Layer 2b."""

    id: str
    """Unique in its case (``e1`` … where the file gives none)."""
    text: str = Field(min_length=1)
    severity: Severity = Severity.SHOULD
    precision: Literal["exact_match", "semantic", "existence"] = "semantic"
    rule_ref: str | None = None


class FixtureFile(Value):
    """A file put into the workspace before the run."""

    path: str
    """Relative to the workspace."""
    data: bytes = Field(repr=False)
    executable: bool = False


class McpWhen(Value):
    """A condition on one argument of a mock call: exactly one of the fields is given."""

    equals: Any = None
    regex: str | None = None
    contains: str | None = None
    any: bool = False
    absent: bool = False


class McpResponse(Value):
    """One scripted answer of a mock tool; the first whose conditions hold and whose ``times`` is not used up answers."""

    when: dict[str, McpWhen] = Field(default_factory=dict)
    """Argument name -> condition; empty matches every call."""
    times: int | None = Field(default=None, ge=1)
    structured: Any = None
    text: str | None = None
    is_error: bool = False
    fault: Literal["protocol_error", "timeout", "disconnect", "oversized"] | None = None
    """What goes wrong instead of an answer. After ``disconnect`` the server answers nothing more in this run."""
    after: str | None = None
    """A tool of the same server that must have been answered in this run before, without an error: what was never made
    cannot be found."""

    @model_serializer(mode="wrap")
    def _without_unused(self, handler: SerializerFunctionWrapHandler) -> dict[str, Any]:
        return without_unused(self, handler(self), ("fault", "after"))


def without_unused(value: Value, data: dict[str, Any], names: tuple[str, ...]) -> dict[str, Any]:
    """``data`` without those of the named fields that hold nothing.

    Cases are matched and cached by digests over this form: one that does not use a field keeps the form it always had.
    """
    unused = {name for name in names if getattr(value, name) in (None, "", (), "offered")}
    return {name: item for name, item in data.items() if name not in unused}


class McpTool(Value):
    """A mock tool."""

    name: str = Field(min_length=1)
    description: str = ""
    input_schema: dict[str, Any] = Field(default_factory=lambda: {"type": "object"})
    responses: tuple[McpResponse, ...] = ()
    on_unmatched: Literal["error", "empty", "fail_case"] = "error"


class McpCall(Value):
    """One recorded call of a cassette."""

    tool: str = Field(min_length=1)
    arguments: dict[str, Any] = Field(default_factory=dict)
    structured: Any = None
    text: str | None = None
    is_error: bool = False


class McpServer(Value):
    """An MCP server of a case (sandbox.md 4). The loop offers its tools as ``mcp__<server>__<tool>``.

    ``mock`` answers from the tools' responses; ``replay`` gives back the calls of a cassette, each once and those with equal
    arguments in the order in which they were recorded; ``real`` is asked itself, where the base policy says so, and its tools
    have names only: the rest is the server's to say.
    """

    name: str = Field(min_length=1)
    mode: Literal["mock", "replay", "real"] = "mock"
    tools: tuple[McpTool, ...] = ()
    cassette: tuple[McpCall, ...] = ()

    @model_serializer(mode="wrap")
    def _without_unused(self, handler: SerializerFunctionWrapHandler) -> dict[str, Any]:
        return without_unused(self, handler(self), ("cassette",))


class ServiceProbe(Value):
    """A case says that what it produces is a server: it is started, asked once, and stopped."""

    port: int = Field(ge=1, le=65535)
    path: str = "/"
    status: int = Field(default=200, ge=100, le=599)
    contains: str = ""
    """Text that the answer must hold; empty: any."""
    seconds: float = Field(default=15, gt=0, le=25)
    """How long it may take to answer."""


class Case(Value):
    """One eval case."""

    eval_id: str
    """From the file, as text. Where it gives none: a slug of the case's name, else ``case-`` and the first 8 hex digits of
    the prompt's SHA-256, so that no case changes its id when another one is put before it."""
    name: str = ""
    prompt: str = Field(min_length=1)
    type: CaseType = CaseType.HAPPY_PATH
    risk: Literal["low", "normal", "high"] = "normal"
    tag: str | None = None
    source: str | None = None
    files: tuple[FixtureFile, ...] = ()
    checks: tuple[Check, ...] = ()
    expectations: tuple[Expectation, ...] = ()
    mcp_servers: tuple[McpServer, ...] = ()
    skip_without_skill: bool = False
    skip_reason: str | None = None
    expected_output: str | None = None
    """Never shown to an executor or a judge in this version; kept for the report."""
    line: int | None = None
    digest: str = ""
    """SHA-256 over the case without this field: cases of base and head are matched by (eval_id, digest)."""
    mode: Literal["offered", "loaded"] = "offered"
    """``offered``: the agent sees name and description and decides whether to open the skill. ``loaded``: it has SKILL.md
    before it begins, as with an explicit call of the skill, so nothing is learnt about its activation."""
    turns: tuple[str, ...] = ()
    """What the user says next, one after each final answer; the last answer is the response that is judged."""
    trigger: bool | None = None
    """A trigger query as a case: whether the skill should be opened. None: an ordinary case."""
    service: ServiceProbe | None = None
    """What the produced program has to answer, where it is a server (K18)."""
    guards: Guard | None = None
    """The author says that whatever fails here is this harm."""
    plan: tuple[str, ...] = ()
    """Steps that a contract agreed on and that every arm is told alike (``contract_plan: all_arms``). Untrusted text."""

    @property
    def real_servers(self) -> tuple[McpServer, ...]:
        """The servers that are asked themselves: runs with one of them may go another way each time."""
        return tuple(server for server in self.mcp_servers if server.mode == "real")

    @property
    def asked(self) -> str:
        """Everything that the user says, for whoever judges the answer; the prompt alone where there are no turns."""
        later = [f"[then, after an answer, turn {number}] {text}" for number, text in enumerate(self.turns, 2)]
        return "\n\n".join([self.prompt, *later])

    @property
    def request(self) -> str:
        """What an agent is asked: the prompt, and the plan where there is one."""
        if not self.plan:
            return self.prompt
        steps = "\n".join(f"{number}. {step}" for number, step in enumerate(self.plan, 1))
        return f"{self.prompt}\n\nA plan for this task was agreed on before. Follow it where it fits:\n{steps}"

    @model_serializer(mode="wrap")
    def _without_unused(self, handler: SerializerFunctionWrapHandler) -> dict[str, Any]:
        return without_unused(self, handler(self), ("mode", "turns", "trigger", "service", "guards", "plan"))


class TriggerCase(Value):
    """A prompt that should, or should not, make an agent open the skill (``gate.planning.triggers`` makes a case of it)."""

    id: str
    query: str = Field(min_length=1)
    should_trigger: bool
    path: str = ""
    """Repository-relative path of the file that holds it."""
    line: int | None = None


UNWRITTEN_PROMPT = "TODO: ask as somebody would who has not heard of the skill."
"""How the prompt of a skeleton begins that ``skill-gate init`` wrote: a case with it is not written yet."""


class SuiteSource(Value):
    """One file that gave something to a suite."""

    path: str
    """Repository-relative."""
    dialect: str
    cases: tuple[str, ...] = ()
    """``eval_id`` of each case that came from it, in its order."""
    triggers: int = Field(default=0, ge=0)


class Suite(Value):
    """All cases of a skill and where they came from."""

    path: str
    """Repository-relative path of the file that was read."""
    dialect: str
    """Of that file: ``skill-gate``, ``skill-creator``, ``agentskills``, ``skillsentry``, ``nvidia``, or the name of another
    reader in ``gate.intake.suite``."""
    cases: tuple[Case, ...]
    generated: bool = False
    triggers: tuple[TriggerCase, ...] = ()
    sources: tuple[SuiteSource, ...] = ()
    """Every file that was read, in the order of precedence. Empty for a suite that was made by a program."""
