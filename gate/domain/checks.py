"""The parameters of every deterministic check kind (Layer 2a). Intake validates by them, ground truth evaluates them."""

from __future__ import annotations

import datetime as dt
import re
from typing import Annotated, Any, ClassVar, Literal, TypeVar

from pydantic import (
    Field,
    SerializerFunctionWrapHandler,
    field_validator,
    model_serializer,
    model_validator,
)

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


# Calls of tools ----------------------------------------------------------------------------------------------------------

EndedAs = Literal["success", "error", "timeout"]


class ToolCallOrder(Value):
    """Tools were called in this order. Names are compared whole; a name may stand in the list more than once.

    ``subsequence``: the list is found in the calls, whatever lies between. ``exact``: the calls of the named tools are this
    list, other tools left aside. ``adjacent``: the list is found with no other call between.
    """

    kind: Literal["tool_call_order"] = "tool_call_order"
    order: tuple[str, ...] = Field(min_length=2)
    mode: Literal["subsequence", "exact", "adjacent"] = "subsequence"
    status: EndedAs | None = None
    """Look only at calls that ended so."""


class ToolCallForbidden(Value):
    """None of these tools was called, whatever became of the call. ``mcp__mail__*`` means every tool of that server."""

    kind: Literal["tool_call_forbidden"] = "tool_call_forbidden"
    tools: tuple[str, ...] = Field(min_length=1)
    """Whole names; a ``*`` at the end stands for the rest of the name."""

    @field_validator("tools")
    @classmethod
    def _star_last(cls, tools: tuple[str, ...]) -> tuple[str, ...]:
        for tool in tools:
            if not tool or "*" in tool[:-1] or tool == "*":
                raise ValueError(f"{tool!r} is no tool name; a * may only stand at the end of a name")
        return tools


class ToolCallStatus(Value):
    """How the calls of a tool ended. A tool that was never called fails."""

    kind: Literal["tool_call_status"] = "tool_call_status"
    tool: str | None = Field(default=None, min_length=1)
    """None: every tool."""
    status: EndedAs = "success"
    which: Literal["any", "all", "last"] | int = "all"
    """Any call, all calls, the last, or the n-th (1-based)."""


class ToolCallRepeats(Value):
    """No call with the same tool and the same arguments was made more than ``max`` times."""

    kind: Literal["tool_call_repeats"] = "tool_call_repeats"
    max: int = Field(ge=1)
    tool: str | None = Field(default=None, min_length=1)
    """None: every tool."""


class Condition(Value):
    """What a JSON value must be; every given part must hold. Text, numbers and booleans are never taken for each other."""

    contains: str | None = Field(default=None, min_length=1)
    """A text that holds this text, or a list that has it as an item."""
    pattern: str | None = Field(default=None, min_length=1)
    """A regular expression that is found in a text."""
    one_of: tuple[Any, ...] | None = Field(default=None, min_length=1)
    min: float | None = Field(default=None, allow_inf_nan=False)
    max: float | None = Field(default=None, allow_inf_nan=False)
    present: bool | None = None
    """Whether there is a value at the path at all (``null`` is one)."""
    values: Literal["any", "all"] = "all"
    """Where the path has ``[*]``: whether any value must be so, or all (at least one)."""

    @model_validator(mode="after")
    def _says_something(self) -> Condition:
        parts = (
            self.contains,
            self.pattern,
            self.one_of,
            self.min,
            self.max,
            self.present,
        )
        if all(part is None for part in parts):
            raise ValueError("give contains, pattern, one_of, min, max or present")
        if self.present is False and any(part is not None for part in parts[:-1]):
            raise ValueError("present: false goes with no other condition")
        return self


class ArgsMatches(Condition):
    """A condition on an argument, by path (``items[*].id`` means every item), in the calls of a tool."""

    kind: Literal["args_matches"] = "args_matches"
    tool: str = Field(min_length=1)
    field: str = Field(min_length=1)
    which: Literal["any", "all"] | int = "any"
    """Any call, all calls (at least one), or the n-th call (1-based)."""


class ToolResultContains(Value):
    """What a tool returned holds a text or matches a pattern. A result that was cut proves no absence."""

    kind: Literal["tool_result_contains"] = "tool_result_contains"
    tool: str = Field(min_length=1)
    text: str | None = Field(default=None, min_length=1)
    pattern: str | None = Field(default=None, min_length=1)
    which: Literal["any", "all", "none"] | int = "any"

    @model_validator(mode="after")
    def _one(self) -> ToolResultContains:
        return _text_or_pattern(self)


class _CommandText(Value):
    text: str | None = Field(default=None, min_length=1)
    """Words of a command line, such as ``git push``."""
    pattern: str | None = Field(default=None, min_length=1)
    """A regular expression, searched in the whole line."""
    tool: str = Field(default="bash", min_length=1)
    field: str = Field(default="command", min_length=1)
    """The argument that holds the line."""

    @model_validator(mode="after")
    def _one(self) -> _CommandText:
        return _text_or_pattern(self)


class CommandRan(_CommandText):
    """The agent ran a command that begins with these words: a text that is only printed or quoted is no command."""

    kind: Literal["command_ran"] = "command_ran"
    exit_code: int | None = None
    """Of the whole call, where it must have been this one."""


class CommandNotRan(_CommandText):
    """These words stand in no command line of the agent, not even in quotes: quotes may be executed."""

    kind: Literal["command_not_ran"] = "command_not_ran"


class SkillOpened(Value):
    """The agent opened the skill (or, ``opened: false``, left it alone). Never asked of the arm without a skill."""

    kind: Literal["skill_opened"] = "skill_opened"
    opened: bool = True
    file: str | None = Field(default=None, min_length=1)
    """A file of the skill folder; None: SKILL.md."""


# The response -------------------------------------------------------------------------------------------------------------


class _Texts(Value):
    texts: tuple[Annotated[str, Field(min_length=1)], ...] = Field(min_length=1)
    ignore_case: bool = False


class ResponseContainsAll(_Texts):
    """The final response contains every one of these literal texts."""

    kind: Literal["response_contains_all"] = "response_contains_all"


class ResponseContainsAny(_Texts):
    """The final response contains at least one of these literal texts."""

    kind: Literal["response_contains_any"] = "response_contains_any"


class ResponseContainsNone(_Texts):
    """The final response contains none of these literal texts. An absent response is ``not_run``, never a pass."""

    kind: Literal["response_contains_none"] = "response_contains_none"


Normalisation = Literal[
    "line_endings",
    "trailing_space",
    "blank_lines",
    "whitespace",
    "outer_space",
    "case",
    "bom",
]


class ResponseEquals(Value):
    """The final response is this text. Nothing is overlooked but what ``normalise`` names."""

    kind: Literal["response_equals"] = "response_equals"
    text: str = Field(min_length=1)
    normalise: tuple[Normalisation, ...] = ("line_endings", "outer_space")


class ResponseHeadings(Value):
    """These Markdown headings stand in the response in this order (R86); headings in code do not count."""

    kind: Literal["response_headings"] = "response_headings"
    headings: tuple[str, ...] = Field(min_length=1)
    """``## Risks`` (level and text) or ``Risks`` (any level); compared whole, without inline marks."""
    only: bool = False
    """No other heading may stand between, before or after them."""

    @field_validator("headings")
    @classmethod
    def _named(cls, headings: tuple[str, ...]) -> tuple[str, ...]:
        for heading in headings:
            if not re.fullmatch(r"(?:#{1,6} +)?[^#\s].*", heading.strip()):
                raise ValueError(f"{heading!r} is no heading; write '## Risks' or 'Risks'")
        return headings


class ResponseNoPlaceholders(Value):
    """Nothing was left to be filled in: no ``{name}``, no TODO, no lorem ipsum. Code in Markdown is left out."""

    kind: Literal["response_no_placeholders"] = "response_no_placeholders"
    forms: tuple[Literal["braces", "marks", "lorem", "brackets"], ...] = Field(
        default=("braces", "marks", "lorem"), min_length=1
    )
    """``braces`` {x} {{x}} ${x}; ``marks`` TODO TBD FIXME XXX; ``lorem``; ``brackets`` [Your name], [INSERT …]."""
    path: str = Field(default="response", min_length=1)
    """A collected file instead of the response."""
    allow: tuple[str, ...] = ()
    """Texts that are no placeholders here."""


class ResponseLinks(Value):
    """Every link has a form that can resolve. Nothing is fetched.

    ``http(s)`` with a host, ``mailto:`` with an address, ``#heading`` of the same text, or a file that was collected.
    """

    kind: Literal["response_links"] = "response_links"
    path: str = Field(default="response", min_length=1)
    """A collected Markdown file instead of the response."""
    min: int = Field(default=1, ge=0)
    """At least as many links."""
    hosts: tuple[str, ...] = ()
    """Where given: web links lead to one of these hosts or below it."""


Language = Literal[
    "en",
    "de",
    "fr",
    "es",
    "pt",
    "it",
    "zh",
    "ja",
    "ko",
    "ru",
    "ar",
    "he",
    "el",
    "th",
    "hi",
]


class ResponseLanguage(Value):
    """The response is written in this language. Code and addresses are left out; too little text is ``not_run``."""

    kind: Literal["response_language"] = "response_language"
    language: Language


# Files --------------------------------------------------------------------------------------------------------------------


class FileAbsent(Value):
    """No such file is there at the end."""

    kind: Literal["file_absent"] = "file_absent"
    path: str = Field(min_length=1)
    """``*`` stands for anything within a folder, ``**`` for anything at all."""
    deleted: bool = False
    """It must have been there at the start, so that its absence is the run's doing."""


class FileNotContains(Value):
    """A collected file does not contain a literal text (or match a pattern). A missing file is ``not_run``."""

    kind: Literal["file_not_contains"] = "file_not_contains"
    path: str = Field(min_length=1)
    text: str | None = Field(default=None, min_length=1)
    pattern: str | None = Field(default=None, min_length=1)
    ignore_case: bool = False

    @model_validator(mode="after")
    def _one(self) -> FileNotContains:
        return _text_or_pattern(self)


class FileUnchanged(Value):
    """A file of the fixture is there at the end, byte for byte."""

    kind: Literal["file_unchanged"] = "file_unchanged"
    path: str = Field(min_length=1)


class FilesChangedOnly(Value):
    """The run made, changed and removed no other files than these. ``home/`` (caches of tools) is left out."""

    kind: Literal["files_changed_only"] = "files_changed_only"
    paths: tuple[Annotated[str, Field(min_length=1)], ...]
    """Paths, or patterns as in ``file_absent``; empty: nothing may change."""


class FileGolden(Value):
    """A collected file is this text. Nothing is overlooked but what ``normalise`` names."""

    kind: Literal["file_golden"] = "file_golden"
    HIDDEN: ClassVar[frozenset[str]] = frozenset({"expected"})
    path: str = Field(min_length=1)
    expected: str
    normalise: tuple[Normalisation, ...] = ()


class JsonMatches(Condition):
    """A condition on a field (``items[*].id``: every item) of a collected JSON file, or of the response."""

    kind: Literal["json_matches"] = "json_matches"
    path: str = Field(min_length=1)
    """``response`` means the final response."""
    field: str = Field(min_length=1)


class JsonSchema(Value):
    """A collected JSON file (or the response) is valid under a JSON Schema. References lead into the schema itself only."""

    kind: Literal["json_schema"] = "json_schema"
    HIDDEN: ClassVar[frozenset[str]] = frozenset({"definition"})
    path: str = Field(min_length=1)
    definition: dict[str, Any] | bool
    """Draft 2020-12 unless ``$schema`` says otherwise."""

    @field_validator("definition")
    @classmethod
    def _local(cls, definition: dict[str, Any] | bool) -> dict[str, Any] | bool:
        foreign = foreign_reference(definition)
        if foreign is not None:
            raise ValueError(f"the reference {foreign!r} leads out of the schema; only #/… is followed")
        return definition


class CsvCell(Value):
    """A cell of a collected CSV file."""

    kind: Literal["csv_cell"] = "csv_cell"
    path: str = Field(min_length=1)
    column: str | int
    """Name in the first line, or number from 1 (a file without a header: ``header: false``)."""
    row: int | None = Field(default=None, ge=1)
    """Number of the data row from 1."""
    where: dict[str, str] = Field(default_factory=dict)
    """Column -> text: the one row in which these cells are so. Instead of ``row``."""
    expected: str | int | float
    """A number is compared as a number, a text as it stands (outer spaces aside)."""
    tolerance: float = Field(default=0, ge=0, allow_inf_nan=False)
    """Largest difference of a number, in its own unit."""
    delimiter: str = Field(default=",", min_length=1, max_length=1)
    header: bool = True

    @model_validator(mode="after")
    def _one_row(self) -> CsvCell:
        if (self.row is None) == (not self.where):
            raise ValueError("give either row or where")
        if not self.header and (self.where or isinstance(self.column, str)):
            raise ValueError("without a header line give column and row as numbers")
        if isinstance(self.column, int) and self.column < 1:
            raise ValueError("columns are counted from 1")
        if self.tolerance and isinstance(self.expected, str):
            raise ValueError("a tolerance goes with a number")
        return self


# What was executed, and what was spent ------------------------------------------------------------------------------------


class ProducedCodeOk(Value):
    """Real execution of what the run produced ended well (R182-R190): exit code 0, or a page with all its parts."""

    kind: Literal["produced_code"] = "produced_code"
    entry_point: str | None = Field(default=None, min_length=1)
    """The file that must have been the one that was run."""
    stdout_contains: str | None = Field(default=None, min_length=1)


class OracleCommand(Value):
    """A program of the suite that looks at a copy of the workspace, in a fresh container (DESIGN.md 4, Layer 2a).

    Its files lie in ``/oracle``, root's and read-only; the workspace lies in ``/work``. It runs in an empty folder with a
    fixed environment, by an absolute interpreter in isolated mode, so nothing in the workspace is run or imported unless the
    program itself does it. A program that imports what it judges gives it its own process: run it as a child instead.
    """

    kind: Literal["oracle_command"] = "oracle_command"
    HIDDEN: ClassVar[frozenset[str]] = frozenset({"files"})
    files: dict[str, str] = Field(min_length=1)
    """Path below ``/oracle`` -> text."""
    script: str = Field(min_length=1)
    """The file to run: ``.py`` or ``.sh``."""
    args: tuple[str, ...] = ()
    expect_exit: int = 0
    stdout_contains: str | None = Field(default=None, min_length=1)
    timeout_s: int = Field(default=30, ge=1, le=300)

    @model_validator(mode="after")
    def _runnable(self) -> OracleCommand:
        for path in self.files:
            parts = path.split("/")
            if any(part in ("", ".", "..") for part in parts) or any(ord(c) < 32 for c in path):
                raise ValueError(f"{path!r} is no path below the oracle's folder")
        if self.script not in self.files:
            raise ValueError(f"the script {self.script!r} is none of the files")
        if not self.script.endswith((".py", ".sh")):
            raise ValueError("the script must end in .py or .sh")
        return self


class RunBudget(Value):
    """What the run used, as recorded. A figure that nobody recorded is ``not_run``, never zero."""

    kind: Literal["run_budget"] = "run_budget"
    max_steps: int | None = Field(default=None, ge=0)
    max_tool_calls: int | None = Field(default=None, ge=0)
    max_errors: int | None = Field(default=None, ge=0)
    max_tokens: int | None = Field(default=None, ge=0)
    max_cost_usd: float | None = Field(default=None, ge=0, allow_inf_nan=False)
    max_seconds: float | None = Field(default=None, ge=0, allow_inf_nan=False)
    """Wall time of the run: depends on the machine, so better ``should`` or ``info``."""

    @model_validator(mode="after")
    def _bounded(self) -> RunBudget:
        if not self.model_dump(exclude={"kind"}, exclude_none=True):
            raise ValueError("give max_steps, max_tool_calls, max_errors, max_tokens, max_cost_usd or max_seconds")
        return self


_Either = TypeVar("_Either", ToolResultContains, _CommandText, FileNotContains)


def _text_or_pattern(model: _Either) -> _Either:
    if (model.text is None) == (model.pattern is None):
        raise ValueError("give either text or pattern")
    return model


# Below these keys of a schema stand data, not schemas.
_SCHEMA_DATA = frozenset({"const", "enum", "default", "examples"})


def foreign_reference(schema: Any) -> str | None:
    """The first reference of a JSON Schema that leads elsewhere than into itself, or None."""
    waiting = [schema]
    while waiting:
        item = waiting.pop()
        if isinstance(item, list | tuple):
            waiting += item
        elif isinstance(item, dict):
            for key, value in item.items():
                if key in ("$ref", "$dynamicRef", "$recursiveRef") and isinstance(value, str):
                    if not value.startswith("#"):
                        return value
                elif key not in _SCHEMA_DATA:
                    waiting.append(value)
    return None


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
    | Command
    | ToolCallOrder
    | ToolCallForbidden
    | ToolCallStatus
    | ToolCallRepeats
    | ArgsMatches
    | ToolResultContains
    | CommandRan
    | CommandNotRan
    | SkillOpened
    | ResponseContainsAll
    | ResponseContainsAny
    | ResponseContainsNone
    | ResponseEquals
    | ResponseHeadings
    | ResponseNoPlaceholders
    | ResponseLinks
    | ResponseLanguage
    | FileAbsent
    | FileNotContains
    | FileUnchanged
    | FilesChangedOnly
    | FileGolden
    | JsonMatches
    | JsonSchema
    | CsvCell
    | ProducedCodeOk
    | OracleCommand
    | RunBudget,
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
    "tool_call_order",
    "tool_call_forbidden",
    "tool_call_status",
    "tool_call_repeats",
    "args_matches",
    "tool_result_contains",
    "command_ran",
    "command_not_ran",
    "skill_opened",
    "response_contains_all",
    "response_contains_any",
    "response_contains_none",
    "response_equals",
    "response_headings",
    "response_no_placeholders",
    "response_links",
    "response_language",
    "file_absent",
    "file_not_contains",
    "file_unchanged",
    "files_changed_only",
    "file_golden",
    "json_matches",
    "json_schema",
    "csv_cell",
    "produced_code",
    "oracle_command",
    "run_budget",
)

OFF_OUTPUT_KINDS = frozenset(
    {
        "tool_call_count", "args_field", "command",
        "tool_call_order", "tool_call_forbidden", "tool_call_status", "tool_call_repeats", "args_matches",
        "tool_result_contains", "command_ran", "command_not_ran", "skill_opened", "produced_code", "oracle_command",
        "run_budget",
    }
)  # fmt: skip
"""Kinds that look at something else than the response and the files: nobody who sees only these can judge them."""

ArmName = Literal["with_skill", "without_skill", "base_skill"]


def shown_parameters(parameters: CheckParameters, **choice: Any) -> dict[str, Any]:
    """The parameters of a check for people: JSON, without the kind and without contents of whole files.

    ``choice``: further arguments of ``model_dump``, such as ``exclude_defaults``.
    """
    hidden: frozenset[str] = getattr(parameters, "HIDDEN", frozenset())
    return parameters.model_dump(mode="json", exclude={"kind", *hidden}, **choice)


class KnownIssue(Value):
    """Why a check may fail for now. Past ``expires`` it counts for nothing."""

    reason: str = Field(min_length=1)
    expires: str
    """ISO date: the last day on which it holds."""
    owner: str = ""

    @field_validator("expires")
    @classmethod
    def _date(cls, expires: str) -> str:
        if dt.date.fromisoformat(expires).isoformat() != expires:
            raise ValueError("expires must be a date such as 2026-12-31")
        return expires


class Check(Value):
    """One deterministic assertion of a case."""

    id: str
    """Unique in its case (``c1`` … where the file gives none)."""
    severity: Severity = Severity.MUST
    rule_ref: str | None = None
    """The SKILL.md rule that it tests, as the author names it."""
    description: str = ""
    parameters: CheckParameters
    arms: tuple[ArmName, ...] = ()
    """The arms that it is asked of; empty: every arm."""
    known_issue: KnownIssue | None = None
    """While it holds, a failure is shown and only informs."""

    def applies_to(self, arm: str) -> bool:
        """Whether it is asked of this arm. Whether the skill was opened cannot be asked where there is none."""
        if self.arms and arm not in self.arms:
            return False
        return not (self.parameters.kind == "skill_opened" and arm == "without_skill")

    @model_serializer(mode="wrap")
    def _without_unused(self, handler: SerializerFunctionWrapHandler) -> dict[str, Any]:
        # Cases are compared by digests over this form: a check that uses neither field keeps the form it always had.
        unused = {name for name in ("arms", "known_issue") if not getattr(self, name)}
        return {name: value for name, value in handler(self).items() if name not in unused}
