"""What the gateway saw of an agent program: who asked what, and what the model said, in the words of no provider.

Its record of a run, ``gateway.jsonl``, has the form of ``events.jsonl``. Kinds and their ``data``:

- ``asked``: number, dialect, agent (what the program calls itself), received_sha256 (of the body as it came), stripped (kind ->
  count), body (what was sent on: ``gate.adapters.gateway.delta`` says how each part stands there once); always before it is sent
- ``answered``: number, end, reason, bytes and sha256 (of the provider's body), reply (the model's words) or null
- ``refused``: number, why; ``turned_away``: why (no token of this run, no request of a protocol)
- ``counted``: status, tokens; ``mcp``: a call of a mock server with its answer
"""

from __future__ import annotations

from enum import StrEnum

from gate.domain.base import Value
from gate.domain.chat import ChatReply, Message


class Dialect(StrEnum):
    """A provider protocol that the gateway speaks."""

    MESSAGES = "anthropic-messages"
    RESPONSES = "openai-responses"
    CHAT = "openai-chat"


class Asked(Value):
    """One request for an answer, as a program in a sandbox sent it. Everything in it is that program's claim."""

    number: int
    """0-based, in the order of arrival within the run."""
    dialect: Dialect
    system: str
    """Every system and developer text, wherever it stood."""
    messages: tuple[Message, ...]
    """The rest of the conversation. Neighbours of one role are one message; thinking is left out."""
    tools: tuple[str, ...]
    """Names of the tools that the program itself runs."""


class Ending(StrEnum):
    """How a request ended."""

    ANSWERED = "answered"
    """The model's whole answer went to the program."""
    REFUSED = "refused"
    """The gate did not pass it on."""
    FAILED = "failed"
    """The provider gave no answer."""
    CUT = "cut"
    """The provider's answer broke off in the middle."""
    ABANDONED = "abandoned"
    """The program hung up before the answer was there."""


class Exchange(Value):
    """A request and its end."""

    asked: Asked
    end: Ending
    reply: ChatReply | None = None
    """The model's own words; None unless answered."""
    reason: str = ""
    """Why there is no reply, as a sentence without a full stop."""
    kind: str = ""
    """Where the provider failed: the kind of ``ModelError``; ``budget`` where a cap was reached."""
    retryable: bool = False
    """Whether a new run can help where the provider failed."""


class McpCall(Value):
    """One call of a tool that the gate's own mock server answered."""

    tool: str
    """``mcp__<server>__<tool>``."""
    arguments: dict[str, object]
    text: str
    is_error: bool
