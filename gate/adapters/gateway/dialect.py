"""What a provider protocol is to the gateway, and what the protocols share: server-sent events, and taking things out."""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol

from gate.domain.chat import ChatReply, Message, ToolResult, ToolUse

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from gate.domain.gateway import Dialect as DialectName

LARGEST_OUTPUT = 64_000
"""Output tokens of one answer; a request for more is lowered to this."""
LARGEST_ANSWER = 64 * 1024 * 1024
"""Bytes of one answer; a longer one counts as cut."""

STRIPPED_TOOL = "gateway_tool_stripped"
STRIPPED_MEDIA = "gateway_media_stripped"
STRIPPED_FIELD = "gateway_field_stripped"


class BadRequestError(Exception):
    """A request that this gateway does not pass on; the message is a sentence without a full stop."""


@dataclass
class Prepared:
    """A request as it is sent on."""

    body: dict[str, Any]
    streamed: bool
    stripped: Counter[str] = field(default_factory=Counter)
    """Kind -> how many things that the provider itself would have run or fetched were taken out."""


@dataclass(frozen=True)
class Talk:
    """The conversation in a request."""

    system: str
    messages: tuple[Message, ...]
    tools: tuple[str, ...]


class Collector(Protocol):
    """Puts an answer together while its bytes go by."""

    def feed(self, data: bytes) -> None:
        """Take the next bytes of the body, cut anywhere. May raise what a wrong shape raises (TypeError and its like)."""

    def end(self) -> None:
        """No more comes."""

    @property
    def finished(self) -> bool:
        """Whether the provider has said that the answer is complete. Of an answer in one piece: only after ``end``."""

    @property
    def failure(self) -> str:
        """What the provider said where it broke the answer off; empty where it did not."""

    def reply(self) -> ChatReply | None:
        """The answer; None where it is not complete, or is none."""


class Dialect(Protocol):
    """One provider protocol. Holds no state."""

    name: DialectName
    path: str
    """Below the address that programs are given."""
    upstream: str
    """Below the provider's base address."""
    final_status: int
    """The status after which clients of this protocol do not try again."""

    def prepare(self, body: dict[str, Any], model: str) -> Prepared:
        """What is sent on. Raises BadRequestError for another model and for what would hide from the record."""

    def talk(self, body: dict[str, Any]) -> Talk:
        """The conversation in a body. Raises BadRequestError where there is none."""

    def collector(self, *, streamed: bool) -> Collector:
        """For the answer to one request."""

    def error(self, status: int, message: str) -> dict[str, Any]:
        """The body of an error in this protocol."""


class Events:
    """Server-sent events out of bytes that are cut anywhere: the JSON objects of their data lines."""

    def __init__(self) -> None:
        self._rest = bytearray()
        self._data: list[bytes] = []
        self.done = False
        """Whether the data ``[DONE]`` came, which ends the streams of one protocol."""

    def feed(self, data: bytes) -> Iterator[dict[str, Any]]:
        """The events that are complete now. What is no JSON object is skipped: it goes to the program as it is."""
        self._rest += data
        while (end := self._rest.find(b"\n")) >= 0:
            line = bytes(self._rest[:end]).rstrip(b"\r")
            del self._rest[: end + 1]
            if line.startswith(b"data:"):
                self._data.append(line[5:].lstrip(b" "))
            elif not line and self._data:
                raw, self._data = b"\n".join(self._data), []
                if raw == b"[DONE]":
                    self.done = True
                    continue
                value = parsed(raw)
                if value is not None:
                    yield value


def parsed(raw: bytes) -> dict[str, Any] | None:
    """A JSON object, or None."""
    try:
        value = json.loads(raw)
    except (ValueError, RecursionError):
        return None
    return value if isinstance(value, dict) else None


def texts_of(content: Any, kinds: Sequence[str]) -> str:
    """The text of a content that is a text or a list of blocks; what is no text is named in brackets."""
    if isinstance(content, str):
        return content
    found = []
    for block in content if isinstance(content, list) else []:
        if isinstance(block, str):
            found.append(block)
        elif isinstance(block, dict):
            kind = str(block.get("type", ""))
            text = block.get("text", block.get("refusal"))
            found.append(text if kind in kinds and isinstance(text, str) else f"[{kind}]")
    return "\n".join(found)


def arguments_of(written: Any) -> tuple[dict[str, Any] | None, str]:
    """(arguments, "") or (None, what was written), for arguments that travel as text."""
    if isinstance(written, dict):
        return written, ""
    text = written if isinstance(written, str) else ""
    value = parsed(text.encode("utf-8", "surrogatepass")) if text.strip() else {}
    return (value, "") if value is not None else (None, text)


def require_model(body: Mapping[str, Any], model: str) -> None:
    """Raises BadRequestError where another model is asked for."""
    asked = body.get("model")
    if asked != model:
        raise BadRequestError(f"the model {str(asked)[:80]!r} is not allowed here; this run has {model!r}")


class Conversation:
    """Collects messages; neighbours of one role become one."""

    def __init__(self) -> None:
        self.system: list[str] = []
        self._messages: list[Message] = []

    def said(self, text: str, uses: Sequence[ToolUse] = ()) -> None:
        """The assistant."""
        last = self._messages[-1] if self._messages else None
        if last is not None and last.role == "assistant":
            joined = "\n".join(part for part in (last.text, text) if part)
            self._messages[-1] = last.model_copy(update={"text": joined, "tool_uses": (*last.tool_uses, *uses)})
        else:
            self._messages.append(Message(role="assistant", text=text, tool_uses=tuple(uses)))

    def results(self, results: Sequence[ToolResult]) -> None:
        """Results of tools."""
        last = self._messages[-1] if self._messages else None
        if last is not None and last.role == "tool":
            self._messages[-1] = last.model_copy(update={"tool_results": (*last.tool_results, *results)})
        else:
            self._messages.append(Message(role="tool", tool_results=tuple(results)))

    def asked(self, text: str) -> None:
        """The user."""
        last = self._messages[-1] if self._messages else None
        if last is not None and last.role == "user":
            self._messages[-1] = last.model_copy(update={"text": f"{last.text}\n{text}"})
        else:
            self._messages.append(Message(role="user", text=text))

    def talk(self, tools: Sequence[str]) -> Talk:
        """All of it. Raises BadRequestError where nothing was said."""
        if not self._messages:
            raise BadRequestError("the request holds no message")
        return Talk("\n\n".join(text for text in self.system if text), tuple(self._messages), tuple(tools))
