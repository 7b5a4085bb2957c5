"""One turn with a model, in provider-neutral words."""

from __future__ import annotations

from enum import StrEnum
from typing import Any, Literal

from gate.domain.base import Value


class Role(StrEnum):
    """Who is asking (DESIGN.md 6). Each role is an own client object with an own history."""

    EXECUTOR = "executor"
    GENERATOR = "generator"
    REVIEWER = "reviewer"
    GRADER = "grader"
    SECOND_GRADER = "second_grader"
    EVALUATOR = "evaluator"
    DEFENDER = "defender"
    PROSECUTOR = "prosecutor"
    COMPARATOR = "comparator"
    SECOND_COMPARATOR = "second_comparator"
    ANALYZER = "analyzer"


class ToolSpec(Value):
    """A tool offered to a model."""

    name: str
    description: str
    input_schema: dict[str, Any]


class ToolUse(Value):
    """A tool call in a model's reply. ``arguments`` is None where the model's text was not a JSON object."""

    id: str
    name: str
    arguments: dict[str, Any] | None
    raw_arguments: str = ""
    """What the model wrote, where it was not a JSON object."""


class ToolResult(Value):
    """What the gate answers to a tool call."""

    id: str
    text: str
    is_error: bool = False


class Message(Value):
    """One message of a conversation: user text, an assistant reply, or the results of its tool calls."""

    role: Literal["user", "assistant", "tool"]
    text: str = ""
    tool_uses: tuple[ToolUse, ...] = ()
    tool_results: tuple[ToolResult, ...] = ()


class ReplySchema(Value):
    """A JSON schema that the reply must satisfy; used natively where the provider can."""

    name: str
    json_schema: dict[str, Any]


class ChatRequest(Value):
    """One question to a model."""

    label: str
    """Names this call within the session, e.g. ``skills-a-1f/eval-2/run-1/with_skill/turn-3``; unique."""
    system: str
    messages: tuple[Message, ...]
    tools: tuple[ToolSpec, ...] = ()
    reply_schema: ReplySchema | None = None
    max_output_tokens: int = 4096


class TokenUsage(Value):
    """Tokens of one call as the provider counted them."""

    input_tokens: int = 0
    output_tokens: int = 0
    cached_tokens: int = 0
    """Of the input: read from the provider's prompt cache."""
    cache_write_tokens: int = 0
    """Of the input: written into it, where the provider counts and charges that apart."""

    def plus(self, other: TokenUsage) -> TokenUsage:
        """Field-wise sum."""
        return TokenUsage(
            input_tokens=self.input_tokens + other.input_tokens,
            output_tokens=self.output_tokens + other.output_tokens,
            cached_tokens=self.cached_tokens + other.cached_tokens,
            cache_write_tokens=self.cache_write_tokens + other.cache_write_tokens,
        )


class Finish(StrEnum):
    """Why a model stopped."""

    STOP = "stop"
    TOOL_USE = "tool_use"
    LENGTH = "length"
    REFUSAL = "refusal"
    OTHER = "other"


class ChatReply(Value):
    """One reply."""

    text: str = ""
    tool_uses: tuple[ToolUse, ...] = ()
    finish: Finish
    usage: TokenUsage | None = None
    """None where the provider sent none: unknown is never zero."""
    model: str = ""
    """The provider's own name of the model that answered."""
    native_schema: bool = False
    """True where the provider was asked to enforce ``reply_schema``."""
    attempts: int = 1
    """Requests that were sent for this reply, itself included."""
    provider_retries: int = 0
    """Requests that failed and were sent again unchanged (refused parameters do not count here)."""
    rate_refusals: int = 0
    """Of these, requests that the provider refused because it was asked too often; they cost nothing."""
    unknown_attempts: int = 0
    """Of these, requests that may have been billed without saying what they used (time-outs, broken replies)."""
    dropped_parameters: tuple[str, ...] = ()
    """Parameters that the provider refused and the adapter left out."""
    remembered: bool = False
    """True where an earlier session paid for this reply (``gate.evidence.cache``): nothing was sent."""
    paid: bool = False
    """True where this session had this reply before it was killed (``gate.llm.journal``) and has counted it."""
