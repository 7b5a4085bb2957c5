"""A skill's evals."""

from __future__ import annotations

from enum import StrEnum
from typing import Any, Literal

from pydantic import Field

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


class McpTool(Value):
    """A mock tool."""

    name: str = Field(min_length=1)
    description: str = ""
    input_schema: dict[str, Any] = Field(default_factory=lambda: {"type": "object"})
    responses: tuple[McpResponse, ...] = ()
    on_unmatched: Literal["error", "empty", "fail_case"] = "error"


class McpServer(Value):
    """A mock MCP server (sandbox.md 4). The loop offers its tools as ``mcp__<server>__<tool>``."""

    name: str = Field(min_length=1)
    mode: Literal["mock"] = "mock"
    tools: tuple[McpTool, ...] = ()


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


class TriggerCase(Value):
    """A prompt that should, or should not, make an agent open the skill. Kept and counted; not run by this version."""

    id: str
    query: str = Field(min_length=1)
    should_trigger: bool
    path: str = ""
    """Repository-relative path of the file that holds it."""
    line: int | None = None


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
