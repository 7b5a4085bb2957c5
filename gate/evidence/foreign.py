"""Transcripts that somebody else wrote, read as evidence (origins 8.8): what they can show, and no more.

The gate did not record these runs. So the results of their calls are reported, never tier 1; what is malformed counts as
the agent's notes, which carry nothing (judging.md 3.3); and a transcript without structure cannot prove that anything was
called. Nothing here raises for what a file holds: every oddity is a sentence in ``problems``.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Literal

from gate.domain.base import Value
from gate.domain.evidence import Block, Event, ToolCall
from gate.errors import EvidenceError
from gate.evidence.events import ZERO_HASH, make_event, tool_calls
from gate.evidence.transcript import Section, make_blocks, parse_transcript

Dialect = Literal["own", "two_block", "claude_stream_json", "codex_jsonl", "unstructured"]
Entry = tuple[str, dict[str, Any]]

_HEADING = re.compile(r"##\s*\[(tool_calls|agent_notes|response|end)\]\s*(?:Step\s+(\d{1,6})\s*[:\uff1a]\s*(.*))?")
_FIELD = re.compile(r"(Tool|Args|Return|Status)\s*[:\uff1a]\s?(.*)")
_FENCE = re.compile(r"\s{0,3}(`{3,}|~{3,})")
_CLAUDE_TYPES = {"system", "assistant", "user", "result", "stream_event", "rate_limit_event"}
_CODEX_TYPES = ("thread.", "turn.", "item.", "error")
_STATUS: dict[str, str] = {"success": "success", "error": "error", "timeout": "timeout"}


class Foreign(Value):
    """A transcript of another program."""

    dialect: Dialect
    events: tuple[Event, ...]
    """Calls (their results ``reported``), notes and the response, in the order of the file."""
    side_calls: int = 0
    """Calls of sub-agents: counted, no evidence of what the main conversation did."""
    problems: tuple[str, ...] = ()

    @property
    def calls(self) -> tuple[ToolCall, ...]:
        """The calls, each with its result by call id."""
        return tool_calls(self.events)

    @property
    def proves_calls(self) -> bool:
        """Whether the format tells calls apart from words about calls; without it no process claim can be shown."""
        return self.dialect != "unstructured"

    def blocks(self) -> tuple[Block, ...]:
        """The numbered blocks that can be cited."""
        return make_blocks(self.events, {})


class _Reading:
    """What has been read so far."""

    def __init__(self) -> None:
        self.entries: list[Entry] = []
        self.problems: list[str] = []
        self.side_calls = 0
        self._step = 0
        self._open: dict[str, tuple[str, int]] = {}
        self._answered: int | None = None
        self._seen: set[str] = set()

    def note(self, text: str) -> None:
        if text.strip():
            self.entries.append(("note", {"step": self._step, "text": text}))

    def odd(self, problem: str, text: str) -> None:
        """What is malformed: a sentence, and its text among the notes."""
        self.problems.append(problem)
        self.note(text)

    def response(self, text: str) -> None:
        """The last one counts; an earlier one was on the way."""
        if self._answered is not None:
            said = self.entries[self._answered][1]["text"]
            self.entries[self._answered] = ("note", {"step": self._step, "text": said})
            self._answered = None
        if text.strip():
            self._answered = len(self.entries)
            self.entries.append(("response", {"text": text}))

    def call(self, call_id: str, tool: str, args: object) -> bool:
        """False where the id was used before: then nobody can tell whose result is whose."""
        if call_id in self._seen:
            return False
        self._seen.add(call_id)
        self._step += 1
        self._open[call_id] = (tool, self._step)
        data: dict[str, Any] = {"step": self._step, "call_id": call_id, "tool": tool, "raw_args": ""}
        data["args"] = args if isinstance(args, dict) else None
        if not isinstance(args, dict):
            data["raw_args"] = args if isinstance(args, str) else json.dumps(args, ensure_ascii=False)
        self.entries.append(("tool_call", data))
        return True

    def result(self, call_id: str, text: str, status: str, exit_code: int | None = None) -> bool:
        """False where there is no open call of this id."""
        opened = self._open.pop(call_id, None)
        if opened is None:
            return False
        tool, step = opened
        self.entries.append(
            (
                "tool_result",
                {
                    "step": step,
                    "call_id": call_id,
                    "tool": tool,
                    "status": status,
                    "text": text,
                    "total_bytes": len(text.encode("utf-8", "surrogatepass")),
                    "truncated": False,
                    "exit_code": exit_code,
                    "reported": True,
                },
            )
        )
        return True

    def done(self, dialect: Dialect) -> Foreign:
        events: list[Event] = []
        for seq, (kind, data) in enumerate(self.entries):
            events.append(make_event(seq, kind, 0, data, events[-1].hash if events else ZERO_HASH))
        return Foreign(dialect=dialect, events=tuple(events), side_calls=self.side_calls, problems=tuple(self.problems))


def read_foreign(text: str) -> Foreign:
    """A transcript in whichever known form it is: the gate's own, SkillSentry's two-block Markdown, Claude Code's
    ``stream-json``, ``codex exec --json``, else free text (``unstructured``: its text is the response, and no call).
    """
    text = text.replace("\r\n", "\n").lstrip("\ufeff")
    try:
        return _own(parse_transcript(text))
    except EvidenceError:
        pass
    found = [line for line in text.split("\n") if line.strip()]
    first = _object(found[0]) if found else None
    kind = str(first.get("type", "")) if first is not None else ""
    if kind in _CLAUDE_TYPES:
        return _lines(found, "claude_stream_json", _claude)
    if kind.startswith(_CODEX_TYPES):
        return _lines(found, "codex_jsonl", _codex)
    reading = _Reading()
    if _two_block(text, reading):
        return reading.done("two_block")
    reading = _Reading()
    reading.response(text)
    return reading.done("unstructured")


def _own(sections: tuple[Section, ...]) -> Foreign:
    reading = _Reading()
    for number, section in enumerate(sections):
        fields = section.fields
        if section.kind == "agent_notes":
            reading.note(fields.get("Text", ""))
        elif section.kind == "tool_calls":
            args = _object(fields["Args"]) if "Args" in fields else fields.get("Raw args", "")
            reading.call(str(number), fields.get("Tool", ""), args)
            if "Return" in fields:
                reading.result(str(number), fields["Return"], _STATUS.get(fields.get("Status", ""), "error"))
    return reading.done("own")


def _two_block(text: str, reading: _Reading) -> bool:
    """Read two-block Markdown; False where there is no heading of it."""
    sections = list(_sections(text))
    if not any(heading for heading, _ in sections):
        return False
    for number, (heading, body) in enumerate(sections):
        whole = "\n".join(body).strip("\n")
        if heading is None or heading[1] == "agent_notes":
            reading.note(whole)
        elif heading[1] == "response":
            reading.response(whole)
        elif heading[1] == "tool_calls":
            problem = _call_section(reading, str(number), (heading[3] or "").strip(), body)
            if problem:
                reading.odd(f"section {number} ({heading[0].strip()[:60]}) counts as a note: {problem}", whole)
    return True


def _sections(text: str) -> Iterator[tuple[re.Match[str] | None, list[str]]]:
    """(heading or None, its lines); a heading inside a code fence is data."""
    heading: re.Match[str] | None = None
    body: list[str] = []
    fence = ""
    for line in text.split("\n"):
        fence = _after(line, fence)
        found = None if fence else _HEADING.fullmatch(line.rstrip())
        if found is None:
            body.append(line)
            continue
        if heading is not None or any(item.strip() for item in body):
            yield heading, body
        heading, body = found, []
    yield heading, body


def _after(line: str, fence: str) -> str:
    """The fence that is open after a line."""
    found = _FENCE.match(line)
    if found is None:
        return fence
    if not fence:
        return found[1]
    closes = found[1][0] == fence[0] and len(found[1]) >= len(fence) and not line.strip().strip(fence[0])
    return "" if closes else fence


def _call_section(reading: _Reading, call_id: str, heading_tool: str, body: list[str]) -> str:
    """Add the call of a section, or say why it is none."""
    fields: dict[str, list[str]] = {}
    label = fence = ""
    for line in body:
        was_open, fence = fence, _after(line, fence)
        found = None if was_open or fence else _FIELD.fullmatch(line)
        if found:
            if found[1] in fields:
                return f"it has {found[1]} twice"
            label = found[1]
            fields[label] = [found[2]]
        elif label:
            fields[label].append(line)
        elif line.strip():
            return "it does not begin with a field"
    if fence:
        return "a code fence in it does not end"
    values = {name: _unfenced("\n".join(lines)) for name, lines in fields.items()}
    tool, status = values.get("Tool", "").strip(), values.get("Status", "").strip().lower()
    args = _object(values.get("Args", ""))
    if not tool or (heading_tool and heading_tool != tool):
        return "its tool is missing or not the one of the heading"
    if args is None:
        return "its Args are not a JSON object"
    if status not in _STATUS or "Return" not in values:
        return "Status is not success, error or timeout, or there is no Return"
    reading.call(call_id, tool, args)
    reading.result(call_id, values["Return"], status)
    return ""


def _unfenced(text: str) -> str:
    lines = text.strip("\n").split("\n")
    lines = lines[1:] if lines and not lines[0].strip() else lines
    if len(lines) >= 2 and _FENCE.match(lines[0]) and _FENCE.match(lines[-1]):
        lines = lines[1:-1]
    return "\n".join(lines)


def _lines(lines: list[str], dialect: Dialect, read: Callable[[dict[str, Any], _Reading], str]) -> Foreign:
    reading = _Reading()
    for number, line in enumerate(lines, 1):
        data = _object(line)
        try:
            problem = "it is not a JSON object" if data is None else read(data, reading)
        except (AttributeError, KeyError, TypeError) as error:
            problem = f"it has another shape than this format ({type(error).__name__})"
        if problem:
            reading.odd(f"line {number} counts as a note: {problem}", line)
    return reading.done(dialect)


def _claude(data: dict[str, Any], reading: _Reading) -> str:
    """One line of ``claude -p --output-format stream-json``."""
    kind = data.get("type")
    if kind == "result":
        reading.response(data["result"] if isinstance(data.get("result"), str) else "")
    if kind not in ("assistant", "user"):
        return "" if kind in _CLAUDE_TYPES else "its type is unknown"
    content = data["message"]["content"]
    parts = [{"type": "text", "text": content}] if isinstance(content, str) else list(content)
    if data.get("parent_tool_use_id"):
        reading.side_calls += sum(part["type"] == "tool_use" for part in parts)
        return ""
    problems = [_claude_part(kind, part, parts, reading) for part in parts]
    return "; ".join(problem for problem in problems if problem)


def _claude_part(kind: str, part: Mapping[str, Any], parts: list[Any], reading: _Reading) -> str:
    if part["type"] == "text" and kind == "assistant":
        # Beside a call it is talk; alone it may be the answer, which the result line says again.
        if any(other["type"] == "tool_use" for other in parts):
            reading.note(part["text"])
        else:
            reading.response(part["text"])
    elif part["type"] == "thinking":
        reading.note(str(part.get("thinking", "")))
    elif part["type"] == "tool_use" and kind == "assistant":
        if not reading.call(str(part["id"]), str(part["name"]), part["input"]):
            return f"call id {str(part['id'])[:60]} is used twice"
    elif part["type"] == "tool_result" and kind == "user":
        status = "error" if part.get("is_error") else "success"
        if not reading.result(str(part["tool_use_id"]), _text(part.get("content")), status):
            return "it is the result of no open call"
    return ""


def _text(content: object) -> str:
    if isinstance(content, str):
        return content
    parts = content if isinstance(content, list) else []
    return "\n".join(str(part.get("text", "")) for part in parts if isinstance(part, dict))


def _codex(data: dict[str, Any], reading: _Reading) -> str:
    """One line of ``codex exec --json``."""
    kind = str(data.get("type", ""))
    if not kind.startswith("item."):
        return "" if kind.startswith(_CODEX_TYPES) else "its type is unknown"
    item = data["item"]
    call_id, item_kind = str(item["id"]), item["type"]
    if item_kind in ("agent_message", "reasoning"):
        if kind == "item.completed":
            (reading.response if item_kind == "agent_message" else reading.note)(str(item["text"]))
        return ""
    if item_kind not in ("command_execution", "mcp_tool_call"):
        return ""
    command = item_kind == "command_execution"
    tool = "bash" if command else f"mcp__{item['server']}__{item['tool']}"
    args = {"command": item["command"]} if command else item.get("arguments")
    if kind == "item.started":
        return "" if reading.call(call_id, tool, args) else f"item id {call_id[:60]} is used twice"
    if kind != "item.completed":
        return ""
    reading.call(call_id, tool, args)  # where it was never said to have started
    output = item.get("aggregated_output") if command else _text((item.get("result") or {}).get("content"))
    exit_code = item.get("exit_code") if isinstance(item.get("exit_code"), int) else None
    good = item.get("status") == "completed" and exit_code in (0, None)
    return (
        ""
        if reading.result(call_id, str(output or ""), "success" if good else "error", exit_code)
        else "its item had ended"
    )


def _object(text: str) -> dict[str, Any] | None:
    """The JSON object that a text is; None where it is none, or one that two readers could read differently."""

    def unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        if len(dict(pairs)) != len(pairs):
            raise ValueError("a key stands twice")
        return dict(pairs)

    def constant(name: str) -> Any:
        raise ValueError(name)

    try:
        value = json.loads(text, object_pairs_hook=unique, parse_constant=constant)
    except (ValueError, RecursionError):
        return None
    return value if isinstance(value, dict) else None
