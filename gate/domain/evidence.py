"""What the gate itself recorded of a run."""

from __future__ import annotations

from enum import IntEnum, StrEnum
from typing import Any, Literal

from pydantic import Field

from gate.domain.base import FallbackCount, Value
from gate.domain.chat import TokenUsage
from gate.domain.plan import RunKey
from gate.domain.skill import SkillType


class Outcome(StrEnum):
    """How a run ended. Agent-caused ends count against their arm; infrastructure voids the pair."""

    COMPLETED = "completed"
    AGENT_FAILED = "agent_failed"
    """Refused, ran out of steps or of its own tokens, or gave no response."""
    TIMEOUT = "timeout"
    OOM = "oom"
    SANDBOX_DEAD = "sandbox_dead"
    """What ran in the sandbox broke it."""
    BLOCKED = "blocked"
    INFRA_ERROR = "infra_error"
    CANCELLED = "cancelled"
    OVER_BUDGET = "over_budget"

    @property
    def agent_caused(self) -> bool:
        """True where the outcome is scored: the run happened, and how it ended is the agent's doing."""
        return self in (Outcome.COMPLETED, Outcome.AGENT_FAILED, Outcome.TIMEOUT, Outcome.OOM, Outcome.SANDBOX_DEAD)


class Event(Value):
    """One line of ``events.jsonl``.

    Kinds and their ``data`` (all text already redacted):

    - ``run_started``: key (RunKey JSON), skill_type, skill_tree (sha256 or null), model, image, limits, run_date,
      purpose, earlier (why earlier attempts of this run were infrastructure failures), stripped (fixture files that
      were left out, with the reason), block_key (of the MACs in the transcript; nothing in a sandbox sees it)
    - ``arm_checked``: what was seen from inside the sandbox (``gate.execution.arms.assert_arm``), network, runtime
    - ``agent_started``: tools, skill_offered, as the first request of an agent program has them; not with the built-in loop
    - ``mcp_server``: server, url, protocol, software, listed (names of all its tools), tools [{name, description,
      input_schema}] that the run got: what a real MCP server said of itself, untrusted; one for each such server
    - ``prompt``: system, user (exactly what the model got)
    - ``early_stop``: step, text (what the model was told beside the tool results)
    - ``model_reply``: step, text, tool_uses [{id, name, arguments}], finish, usage or null, model
    - ``tool_call``: step, call_id, tool, args (object, or null with raw_args text where it was not an object)
    - ``tool_result``: step, call_id, tool, status (success|error|timeout), text, total_bytes, truncated,
      exit_code (int or null), reported (bool), skill_lines (line numbers; where there are any)
    - ``note``: step, text (what the agent said beside a tool call)
    - ``response``: text (the final answer)
    - ``answer``: step, turn, text (a final answer after which the user goes on), and ``user_turn``: step, turn, text (what
      the user says next); where the case has several turns
    - ``stopped``: step, text (why the gate ended the run before an answer; trigger queries only)
    - ``skill_opened``: step, path, and ``script_run``: step, path (a program of the skill that a command names)
    - ``attempt``: step, what, detail (an attempt to reach outside)
    - ``collected``: files, kept (counts), refused (sentences)
    - ``run_ended``: outcome, reason
    """

    seq: int
    """0-based, without gaps."""
    kind: str
    at_ms: int
    """Milliseconds since the run began: with timing.json the only clock-dependent field."""
    data: dict[str, Any]
    prev: str
    """``hash`` of the event before; 64 zeros for the first."""
    hash: str
    """SHA-256 over canonical JSON of [seq, kind, at_ms, data, prev]."""


class ToolCall(Value):
    """A tool call paired with its result by call id (never by position)."""

    step: int
    call_id: str
    tool: str
    args: dict[str, Any] | None
    raw_args: str = ""
    status: Literal["success", "error", "timeout", "no_result"]
    """``no_result``: the run ended before the result."""
    result: str = ""
    truncated: bool = False
    exit_code: int | None = None
    reported: bool = False
    skill_lines: tuple[int, ...] = ()
    """1-based lines of ``result`` that are lines of the skill's own files: shown to the agent, no evidence of its work."""


class Tier(IntEnum):
    """R28. The order of evidence."""

    TOOL_CALLS = 1
    OUTPUT = 2
    NOTES = 3


class Block(Value):
    """A numbered piece of the record that a judge can cite."""

    id: str
    """``B001`` …, in the order of the record."""
    tier: Tier
    kind: Literal["tool_calls", "response", "outputs", "agent_notes"]
    title: str
    """Such as ``Step 2: bash`` or ``outputs/report.md``."""
    text: str
    """Untrusted. Line ids are ``<block id>:<1-based line>``."""


class CollectedFile(Value):
    """A file taken out of the sandbox after the run."""

    path: str
    """Relative to the workspace."""
    size_bytes: int
    sha256: str
    kept: bool
    """False where only name, size and digest were kept (over a cap)."""
    fixture: Literal["new", "changed", "unchanged"] = "new"
    """Against what the gate had put there."""
    executable: bool = False


class Metrics(Value):
    """metrics.json. skill-creator's names; None is unknown, never zero."""

    tool_calls: dict[str, int] = Field(default_factory=dict)
    total_tool_calls: int = 0
    total_steps: int = 0
    errors_encountered: int = 0
    output_chars: int = 0
    transcript_chars: int = 0
    files_created: tuple[str, ...] = ()
    input_tokens: int | None = None
    output_tokens: int | None = None
    total_tokens: int | None = None
    cost_usd: float | None = None
    activated: bool = False
    """The agent opened SKILL.md (or it was given)."""
    opened: tuple[str, ...] = ()
    """Files of the skill folder that the agent opened, sorted."""
    exposure: Literal["none", "offered", "loaded"] = "none"
    """What the agent was shown of a skill before it began: nothing, name and description, or SKILL.md."""
    skills_seen: int | None = None
    """Skills that were counted inside the sandbox before the run began; None where it did not come to that."""
    opened_at_step: int | None = None
    """The model turn in which SKILL.md was opened; None: it was not, or it was given."""
    scripts_run: tuple[str, ...] = ()
    """Programs of the skill that a command of the agent named, sorted."""
    attempts: int = 0
    """Attempts to reach outside, all stopped."""


class Timing(Value):
    """timing.json: the clock-dependent figures of a run."""

    started_at: str
    duration_ms: int
    total_duration_seconds: float
    model_ms: int
    sandbox_ms: int
    total_tokens: int | None = None


class RunRecord(Value):
    """A finished run, as read back from its sealed folder."""

    key: RunKey
    purpose: Literal["planned", "fill", "confirm"]
    skill_type: SkillType
    outcome: Outcome
    reason: str
    calls: tuple[ToolCall, ...]
    response: str | None
    files: tuple[CollectedFile, ...]
    metrics: Metrics
    usage: TokenUsage | None
    model: str
    image: str
    contaminated: str | None = None
    """Why the pair is void (R23); None where it is not."""
    invalid: str | None = None
    """Why the record does not meet its type's minimum (R56); None where it does."""
    fallbacks: tuple[FallbackCount, ...] = ()
    run_date: str
    chain_head: str
    """Hash of the last event."""
    seal: str
    """SHA-256 of seal.json."""

    @property
    def scored(self) -> bool:
        """True where the run counts for or against its arm."""
        return self.outcome.agent_caused and self.contaminated is None and self.invalid is None

    @property
    def completed(self) -> bool:
        """True where the run finished and its record can be judged."""
        return self.outcome is Outcome.COMPLETED and self.scored


class CommandResult(Value):
    """A command check, run in its own container."""

    check_id: str
    status: Literal["ran", "timeout", "oom", "infra"]
    exit_code: int | None
    stdout: str
    stderr: str
    truncated: bool = False
    reason: str = ""


class ProducedCode(Value):
    """Real execution of a produced file (R182-R190). Not part of a verdict by itself."""

    entry_point: str | None
    priority: int | None
    outcome: str
    """ok, nonzero, signal, timeout, oom, output_flood, missing_runtime, missing_dependency, no_entrypoint, html_ok,
    html_broken, long_running (it did not end and opened a port: a server, no crash), service_ok, service_failed, infra."""
    exit_code: int | None = None
    stdout: str = ""
    stderr: str = ""
    timed_out: bool = False
    ports: tuple[int, ...] = ()
    """That it opened, where that was looked at."""


class Verification(Value):
    """verification.json: what ran over a copy of the collected workspace, after the run was sealed."""

    run_seal: str
    commands: tuple[CommandResult, ...] = ()
    produced: ProducedCode | None = None
    chain_head: str = ""
    """Last link of its own hash chain, which starts from ``run_seal`` (``gate.execution.verification.chain_head``)."""
