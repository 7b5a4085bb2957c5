"""The parameters of every deterministic check kind (Layer 2a). Intake validates by them, ground truth evaluates them."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import Field, model_validator

from gate.domain.base import Severity, Value


class ToolCallCount(Value):
    """R31. How often a tool was called. The tool name is compared whole: ``saveDoc`` does not count ``saveDocV2``."""

    kind: Literal["tool_call_count"] = "tool_call_count"
    tool: str = Field(min_length=1)
    expected_count: int | None = Field(default=None, ge=0)
    min: int | None = Field(default=None, ge=0)
    max: int | None = Field(default=None, ge=0)
    status: Literal["success", "error", "timeout"] | None = None
    """Count only calls that ended so."""

    @model_validator(mode="after")
    def _bounded(self) -> ToolCallCount:
        if self.expected_count is None and self.min is None and self.max is None:
            raise ValueError("give expected_count, min or max")
        return self


class ArgsField(Value):
    """R32, R34. The value of an argument, by dotted path (``user.id``, ``items[0].id``), in the calls of a tool."""

    kind: Literal["args_field"] = "args_field"
    tool: str = Field(min_length=1)
    field: str = Field(min_length=1)
    expected: Any
    """JSON value, compared with its type (``"10"`` is not ``10``). Text may hold ``{{run_date:%Y-%m}}`` (K26)."""
    which: Literal["any", "all"] | int = "any"
    """Any call, all calls (at least one), or the n-th call (1-based)."""


class ResponseContains(Value):
    """The final response contains a literal text."""

    kind: Literal["response_contains"] = "response_contains"
    keyword: str = Field(min_length=1)
    ignore_case: bool = False


class ResponseNotContains(Value):
    """The final response does not contain a literal text. An absent response is ``not_run``, never a pass."""

    kind: Literal["response_not_contains"] = "response_not_contains"
    pattern: str = Field(min_length=1)
    ignore_case: bool = False


class ResponseMatches(Value):
    """R33. A regular expression is found in the final response."""

    kind: Literal["response_matches"] = "response_matches"
    pattern: str = Field(min_length=1)
    ignore_case: bool = False


class ResponseNotMatches(Value):
    """R33. A regular expression is not found in the final response."""

    kind: Literal["response_not_matches"] = "response_not_matches"
    pattern: str = Field(min_length=1)
    ignore_case: bool = False


class ResponseWordCount(Value):
    """Length in words: each CJK character counts one, each run of other word characters counts one."""

    kind: Literal["response_word_count"] = "response_word_count"
    min: int | None = Field(default=None, ge=0)
    max: int | None = Field(default=None, ge=0)

    @model_validator(mode="after")
    def _bounded(self) -> ResponseWordCount:
        if self.min is None and self.max is None:
            raise ValueError("give min or max")
        return self


class ResponseHasHeading(Value):
    """R86. A Markdown heading of this level (and text, if given) is in the final response; fenced code does not count."""

    kind: Literal["response_has_heading"] = "response_has_heading"
    level: int = Field(ge=1, le=6)
    text: str | None = None


class FileExists(Value):
    """A file was produced or changed by the run: one that the fixture brought unchanged does not count."""

    kind: Literal["file_exists"] = "file_exists"
    path: str = Field(min_length=1)


class FileContains(Value):
    """A collected file contains a literal text (or a regular expression)."""

    kind: Literal["file_contains"] = "file_contains"
    path: str = Field(min_length=1)
    text: str | None = None
    pattern: str | None = None

    @model_validator(mode="after")
    def _one(self) -> FileContains:
        if (self.text is None) == (self.pattern is None):
            raise ValueError("give either text or pattern")
        return self


class JsonField(Value):
    """A field of a collected JSON file, or of the response where ``path`` is ``response``."""

    kind: Literal["json_field"] = "json_field"
    path: str = Field(min_length=1)
    field: str = Field(min_length=1)
    expected: Any


class Command(Value):
    """A command run in a fresh one-shot container over a copy of the collected workspace (its folder: ``/work``)."""

    kind: Literal["command"] = "command"
    run: str = Field(min_length=1)
    """A line for ``bash -c``."""
    expect_exit: int = 0
    stdout_contains: str | None = None
    timeout_s: int = Field(default=30, ge=1, le=300)


CheckParameters = Annotated[
    ToolCallCount
    | ArgsField
    | ResponseContains
    | ResponseNotContains
    | ResponseMatches
    | ResponseNotMatches
    | ResponseWordCount
    | ResponseHasHeading
    | FileExists
    | FileContains
    | JsonField
    | Command,
    Field(discriminator="kind"),
]

CHECK_KINDS: tuple[str, ...] = (
    "tool_call_count",
    "args_field",
    "response_contains",
    "response_not_contains",
    "response_matches",
    "response_not_matches",
    "response_word_count",
    "response_has_heading",
    "file_exists",
    "file_contains",
    "json_field",
    "command",
)


class Check(Value):
    """One deterministic assertion of a case."""

    id: str
    """Unique in its case (``c1`` … where the file gives none)."""
    severity: Severity = Severity.MUST
    rule_ref: str | None = None
    """The SKILL.md rule that it tests, as the author names it."""
    description: str = ""
    parameters: CheckParameters
