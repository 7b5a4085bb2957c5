"""What a scenario is asked and what it replies, in the words of no provider."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Literal

Json = Any
"""A JSON value: None, bool, int, float, str, list or dict with text keys."""

DialectName = Literal["openai", "anthropic", "responses"]
Role = Literal["user", "assistant", "tool"]
Finish = Literal["stop", "tool_use", "length", "refusal", "content_filter"]

VOLATILE_HEADERS = frozenset(
    {
        "accept-encoding",
        "connection",
        "content-length",
        "host",
        "traceparent",
        "tracestate",
        "transfer-encoding",
        "user-agent",
    }
)
"""Request headers that depend on the machine, the process or the call. Every ``x-stainless-…`` header counts too."""

SECRET_HEADERS = frozenset({"authorization", "x-api-key", "api-key", "cookie", "proxy-authorization"})
"""Request headers that carry credentials: never saved."""


def canonical(value: Json) -> str:
    """Return the one JSON text of ``value``: sorted keys, no spaces, so that equal values are equal texts."""
    return json.dumps(value, sort_keys=True, ensure_ascii=False, separators=(",", ":"))


def wire_json(value: Json) -> bytes:
    """Return compact UTF-8 JSON. A lone surrogate, which UTF-8 cannot hold, makes the whole text ASCII escapes."""
    try:
        return json.dumps(value, ensure_ascii=False, separators=(",", ":")).encode()
    except UnicodeEncodeError:
        return json.dumps(value, separators=(",", ":")).encode()


def token_count(text: str) -> int:
    """Return a stand-in for a tokenizer: a token for every four bytes, and never none."""
    return max(1, -(-len(text.encode("utf-8", "surrogatepass")) // 4))


@dataclass(frozen=True)
class ToolCall:
    """A tool call: one that the conversation holds, or one that a reply makes."""

    name: str
    arguments: Mapping[str, Json] | str = field(default_factory=dict)
    """Text stands for arguments that are not a JSON object: sent, or to be sent, exactly so."""
    id: str = ""
    """Left empty in a reply, it is derived from the request."""

    @property
    def arguments_text(self) -> str:
        """The arguments as they stand on the wire."""
        return self.arguments if isinstance(self.arguments, str) else wire_json(self.arguments).decode()


@dataclass(frozen=True)
class ToolResult:
    """What the client answered to a tool call."""

    id: str
    text: str
    is_error: bool = False
    """Always False from ``openai``, which has no such field."""


@dataclass(frozen=True)
class Message:
    """One message. The same conversation gives the same messages, whichever dialect it came in.

    Results of tool calls are a message of their own with the role ``tool``; a text that an ``anthropic`` client put
    behind them in the same message follows as a ``user`` message. Thinking is left out. A part that is not text is
    named in brackets, as in ``[image]``.
    """

    role: Role
    text: str = ""
    tool_calls: tuple[ToolCall, ...] = ()
    tool_results: tuple[ToolResult, ...] = ()


@dataclass(frozen=True)
class Request:
    """One model call, as a scenario sees it. Mappings are the server's own: read them, never write."""

    index: int
    """Position among the calls this server put to its scenario, from 0, in order of arrival."""
    dialect: DialectName
    path: str
    query: str
    """Everything after the question mark, or nothing."""
    model: str
    system: str
    """Every system and developer text of the request, in order, with a blank line between."""
    messages: tuple[Message, ...]
    tools: Mapping[str, Mapping[str, Json]]
    """Name of each tool → JSON schema of its arguments; an empty one for a tool that the provider runs."""
    schema: Mapping[str, Json] | None
    """Schema the reply is asked to satisfy: ``{"type": "object"}`` where any JSON object will do, None if not asked."""
    stream: bool
    max_tokens: int | None
    headers: Mapping[str, str]
    """Lower-case names; the last value of a repeated one."""
    body: Mapping[str, Json]
    """The parsed body."""
    raw: bytes
    """The body as it was sent."""

    @property
    def turn(self) -> int:
        """How many replies the conversation already holds: 0 at its start."""
        return sum(message.role == "assistant" for message in self.messages)

    @property
    def last(self) -> Message:
        """The newest message."""
        return self.messages[-1]

    @cached_property
    def digest(self) -> str:
        """SHA-256 over dialect, path and body. Key order, white space, headers and arrival do not enter it."""
        text = canonical([self.dialect, self.path, self.body])
        return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()

    def derive(self, purpose: str, length: int = 24) -> str:
        """Return ``length`` (at most 64) hex digits that only ``digest`` and ``purpose`` decide: an id for a reply."""
        return hashlib.sha256(f"{purpose}:{self.digest}".encode()).hexdigest()[:length]

    @cached_property
    def input_tokens(self) -> int:
        """The computed size of the prompt: the same in both dialects, streamed or not."""
        messages = [
            [m.role, m.text, [[c.name, c.arguments] for c in m.tool_calls], [r.text for r in m.tool_results]]
            for m in self.messages
        ]
        return token_count(canonical([self.system, messages, self.tools, self.schema]))


@dataclass(frozen=True)
class Usage:
    """Tokens as the provider counts them."""

    input_tokens: int
    """All of the prompt, cached parts included; what ``anthropic`` reports as ``input_tokens`` is computed from it."""
    output_tokens: int
    cache_read_tokens: int = 0
    cache_write_tokens: int = 0
    """Spoken by ``anthropic`` only."""

    def __post_init__(self) -> None:
        """Refuse counts that no provider would send.

        Raises:
            ValueError: A count is negative, or more of the prompt was cached than it has.
        """
        counts = (self.input_tokens, self.output_tokens, self.cache_read_tokens, self.cache_write_tokens)
        if min(counts) < 0 or self.cache_read_tokens + self.cache_write_tokens > self.input_tokens:
            raise ValueError(f"no provider would count {self}")


@dataclass(frozen=True)
class Reply:
    """What the model says. ``Reply()`` is an empty reply, which providers do give.

    Raises:
        ValueError: ``finish`` is ``tool_use`` but nothing is called.
    """

    text: str = ""
    tool_calls: tuple[ToolCall, ...] = ()
    finish: Finish | None = None
    """None: ``tool_use`` when something is called, else ``stop``. ``refusal`` with ``openai`` puts the text into the
    refusal field and stops; ``content_filter`` with ``anthropic`` is a refusal, which has no other word for it."""
    usage: Usage | Literal["computed", "omitted"] = "computed"
    """``computed`` derives it from the lengths of prompt and reply; ``omitted`` sends none, as some servers do."""
    model: str = ""
    """The name the provider gives to the model that answered; empty: the one that was asked for."""

    def __post_init__(self) -> None:
        """Refuse a reply that contradicts itself."""
        if self.finish == "tool_use" and not self.tool_calls:
            raise ValueError("a reply that finishes with tool_use calls a tool")

    @classmethod
    def of_json(cls, value: Json) -> Reply:
        """Return a reply whose text is ``value`` as compact JSON."""
        return cls(wire_json(value).decode())

    @classmethod
    def calling(cls, name: str, arguments: Mapping[str, Json] | str | None = None, *, text: str = "") -> Reply:
        """Return a reply that calls one tool, after saying ``text``."""
        return cls(text, (ToolCall(name, {} if arguments is None else arguments),))

    @property
    def finish_word(self) -> Finish:
        """Why the model stopped, spelled out."""
        return self.finish or ("tool_use" if self.tool_calls else "stop")

    def usage_for(self, request: Request) -> Usage | None:
        """Return the tokens to report for this reply to ``request``; None where none are to be reported."""
        if self.usage == "omitted":
            return None
        if isinstance(self.usage, Usage):
            return self.usage
        said = self.text + "".join(call.name + call.arguments_text for call in self.tool_calls)
        return Usage(request.input_tokens, token_count(said))
