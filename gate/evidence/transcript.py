"""What people and judges read of a run: the two-block transcript (R24-R27) and the numbered blocks that can be cited.

Both are written by the gate from the events. Whatever an agent or a tool said is data in them: in the transcript it is
indented, so that no line of it can start a heading, a field or a fence; in a block it stands last, as it is.
"""

from __future__ import annotations

import hashlib
import hmac
import posixpath
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Literal

from gate.domain.base import Value, canonical_json
from gate.domain.evidence import Block, Event, Outcome, Tier, ToolCall
from gate.domain.skill import SkillType
from gate.errors import EvidenceError
from gate.evidence.events import response_of, tool_calls

_TITLE = "# Transcript"
_INDENT = "    "
_MAC = "Mac"
_MAC_PURPOSE = b"skill-gate transcript block 1\0"
_HEADING = re.compile(r"## \[(tool_calls|agent_notes|response|end)\](?: Step (\d+): (.*))?")
_FIELD = re.compile(r"([A-Z][a-z ]+):(?: (.*))?")
_PLAIN = re.compile(r"[\w.:/+-]{1,120}")
_NOT_PLAIN = re.compile(r"[^\w.:/+-]")

# What would end a line, hide text or be lost in UTF-8 stands as its code point. The bracket is escaped where it could
# be taken for such an escape, so the way back is exact.
_ESCAPED = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ufeff\ud800-\udfff\U000e0000-\U000e007f]"
    "|\u27e6(?=U\\+)"
)
_ESCAPE = re.compile("\u27e6U\\+([0-9A-F]{4,6})\u27e7")

SKILLS_ROOT = "/skills"
"""Where a skill lies in a sandbox (DESIGN.md 3)."""


class Section(Value):
    """One section of a transcript, with the exact data that went into it."""

    kind: Literal["tool_calls", "agent_notes", "response", "end"]
    step: int | None
    fields: dict[str, str]
    """Label -> data, in the order of the transcript; the text of a note has the label ``Text``."""


def render_transcript(events: Sequence[Event]) -> str:
    """The transcript as Markdown: a ``[tool_calls]`` block per call, an ``[agent_notes]`` block per note, in the order of
    the record; then where the response is and how the run ended.

    Holds no time, so two runs that did the same have the same transcript. ``parse_transcript`` gets all data back.
    Where the record has a ``block_key``, every section ends with a MAC of it and of all before it (``forged_blocks``).
    """
    calls = _calls_by_event(events)
    sections: list[list[str]] = []
    for event in events:
        if event.seq in calls:
            sections.append(_call_section(calls[event.seq]))
        elif event.kind in ("note", "answer"):
            head = f"## [agent_notes] Step {_step(event)}: note"
            sections.append(["", head, *_data(str(event.data.get("text", "")))])
        elif event.kind == "run_ended":
            outcome = _field("Outcome", str(event.data.get("outcome", "")))
            sections.append(["", "## [end]", *outcome, *_field("Reason", str(event.data.get("reason", "")))])
        elif event.kind == "response":
            sections.append(["", "## [response]", *_field("File", "outputs/response.md")])
    key = block_key(events)
    lines = [_TITLE]
    mac = ""
    for section in sections:
        lines += section
        if key:
            mac = _block_mac(key, mac, section)
            lines += _field(_MAC, mac)
    return "\n".join(lines) + "\n"


def block_key(events: Sequence[Event]) -> str:
    """The key of the MACs in a run's transcript; empty where the record has none."""
    found = events[0].data.get("block_key") if events and events[0].kind == "run_started" else None
    return found if isinstance(found, str) else ""


def forged_blocks(text: str, key: str) -> list[int]:
    """1-based numbers of the sections of a transcript whose MAC is not that of ``key``, from the first one on that is not:
    each MAC is over the one before it, so that a section can neither be put in, nor left out, nor moved. A transcript
    that ends before its ``[end]`` has one forged section more than it has sections.

    Raises EvidenceError for any line that ``render_transcript`` does not write.
    """
    parse_transcript(text)
    sections: list[list[str]] = []
    for line in text[:-1].split("\n")[1:]:
        if _HEADING.fullmatch(line):
            sections.append(["", line])
        elif sections:
            sections[-1].append(line)
    mac = ""
    for number, section in enumerate(sections, 1):
        # The empty line before a heading is the last of the section before it.
        lines = section[:-1] if number < len(sections) and section[-1] == "" else section
        mac = _block_mac(key, mac, lines[:-2])
        if lines[-2:] != _field(_MAC, mac):
            return list(range(number, len(sections) + 1))
    ended = bool(sections) and sections[-1][1] == "## [end]"
    return [] if ended else [len(sections) + 1]


def _block_mac(key: str, before: str, lines: Sequence[str]) -> str:
    message = "\n".join((before, *lines)).encode("utf-8", "surrogatepass")
    return hmac.new(key.encode(), _MAC_PURPOSE + message, hashlib.sha256).hexdigest()[:32]


def parse_transcript(text: str) -> tuple[Section, ...]:
    """The sections of a transcript with their exact data.

    Raises EvidenceError (with the line) for any line that ``render_transcript`` does not write.
    """
    if not text.startswith(f"{_TITLE}\n") or not text.endswith("\n"):
        raise EvidenceError("The transcript has no title line or is cut off.", path="outputs/transcript.md")
    sections: list[_Open] = []
    for number, line in enumerate(text[:-1].split("\n")[1:], 2):
        heading = _HEADING.fullmatch(line)
        field = _FIELD.fullmatch(line)
        if line == "":
            continue
        if heading:
            sections.append(_Open(heading))
        elif sections and line.startswith(_INDENT):
            sections[-1].add_line(line[len(_INDENT) :])
        elif sections and field:
            sections[-1].start(field[1], field[2])
        else:
            raise EvidenceError(
                f"outputs/transcript.md, line {number}: not a line of a transcript.", path="transcript.md"
            )
    return tuple(section.closed() for section in sections)


class _Open:
    """A section while its lines are read."""

    def __init__(self, heading: re.Match[str]) -> None:
        self._kind = heading[1]
        self._step = int(heading[2]) if heading[2] else None
        self._label = "Text"
        self._inline: dict[str, str] = {}
        self._lines: dict[str, list[str]] = {}

    def start(self, label: str, inline: str | None) -> None:
        self._label = label
        self._lines.setdefault(label, [])
        if inline is not None:
            self._inline[label] = inline

    def add_line(self, line: str) -> None:
        self._lines.setdefault(self._label, []).append(line)

    def closed(self) -> Section:
        fields = {label: self._inline.get(label, _unescape("\n".join(lines))) for label, lines in self._lines.items()}
        return Section.model_validate({"kind": self._kind, "step": self._step, "fields": fields})


def _call_section(call: ToolCall) -> list[str]:
    name = _NOT_PLAIN.sub("_", call.tool)[:80] or "_"
    lines = ["", f"## [tool_calls] Step {call.step}: {name}", *_field("Tool", call.tool)]
    if call.args is not None:
        lines += _field("Args", canonical_json(call.args).decode())
    else:
        lines += _field("Raw args", call.raw_args)
    if call.status != "no_result":
        lines += _field("Return", call.result, plain=False)
    lines += _field("Status", call.status)
    if call.exit_code is not None:
        lines += _field("Exit code", str(call.exit_code))
    if call.truncated:
        lines += _field("Truncated", "yes")
    if call.reported:
        lines += _field("Reported", "yes")
    return lines


def _field(label: str, text: str, *, plain: bool = True) -> list[str]:
    """A label with its data: on the same line where it is one plain word, else indented below it."""
    if plain and _PLAIN.fullmatch(text):
        return ["", f"{label}: {text}"]
    return ["", f"{label}:", *_data(text)]


def _data(text: str) -> list[str]:
    """Data as an indented code block: verbatim for a reader of Markdown, and no line of it is structure."""
    return ["", *(_INDENT + line for line in _escape(text).split("\n"))]


def _escape(text: str) -> str:
    return _ESCAPED.sub(lambda found: f"\u27e6U+{ord(found[0]):04X}\u27e7", text)


def _unescape(text: str) -> str:
    return _ESCAPE.sub(lambda found: chr(int(found[1], 16)), text)


def make_blocks(events: Sequence[Event], outputs: Mapping[str, bytes]) -> tuple[Block, ...]:
    """The numbered blocks ``B001`` ... of a run: calls (tier 1) and notes (tier 3) in the order of the record, then the
    response and the text outputs by path (tier 2). Same events and outputs, same blocks.

    A call's block holds Tool, Args (JSON), Status and, last, Return as it was: whatever a tool printed comes after the
    fields, so it cannot pass for one. Two exceptions: a result that a process in the sandbox only reported is a block
    of its own, of tier 2 (DESIGN.md 3); and what ``read_file`` returned of the skill's own folder is left out, since a
    skill's text says what ought to be done, never what was done (judging.md 3.2). Outputs that are no text, and empty
    texts, make no block.
    """
    calls = _calls_by_event(events)
    blocks: list[tuple[Tier, Literal["tool_calls", "response", "outputs", "agent_notes"], str, str]] = []
    for event in events:
        if event.seq in calls:
            call = calls[event.seq]
            title = f"Step {call.step}: {_one_line(call.tool)}"
            blocks.append((Tier.TOOL_CALLS, "tool_calls", title, _call_text(call)))
            if call.reported and call.result:
                blocks.append((Tier.OUTPUT, "tool_calls", f"{title} (reported result)", _without_skill(call)))
        elif event.kind == "answer":  # a final answer that the user read and went on from: what the response is, too
            title = f"answer to turn {event.data.get('turn')}"
            blocks.append((Tier.OUTPUT, "response", title, str(event.data.get("text", ""))))
        elif event.kind == "note":
            blocks.append((Tier.NOTES, "agent_notes", f"Step {_step(event)}: note", str(event.data.get("text", ""))))
    blocks.append((Tier.OUTPUT, "response", "response", response_of(events) or ""))
    for path, data in sorted(outputs.items()):
        blocks.append((Tier.OUTPUT, "outputs", path, _text(data)))
    kept = [block for block in blocks if block[3].strip()]
    return tuple(
        Block(id=f"B{number:03d}", tier=tier, kind=kind, title=title, text=text)
        for number, (tier, kind, title, text) in enumerate(kept, 1)
    )


def _call_text(call: ToolCall) -> str:
    args = f"Args: {canonical_json(call.args).decode()}" if call.args is not None else _raw_args(call)
    facts = [f"exit code {call.exit_code}"] if call.exit_code is not None else []
    facts += ["only part of the output is kept"] if call.truncated else []
    status = f"{call.status} ({', '.join(facts)})" if facts else call.status
    head = f"Tool: {_one_line(call.tool)}\n{args}\nStatus: {status}"
    if call.status == "no_result":
        return head
    if call.reported:
        return f"{head}\nReturn: (reported by a process in the sandbox; in the next block)"
    if _reads_skill(call):
        return f"{head}\nReturn: ({len(call.result)} characters of the skill's own files; no evidence of what was done)"
    return f"{head}\nReturn:\n{_without_skill(call)}"


def _without_skill(call: ToolCall) -> str:
    """The result without the lines of the skill that it shows, line for line, so that line ids stay valid.

    What a skill says is no evidence that it was done, and a judge could quote it as such (judging.md 3.2).
    """
    if not call.skill_lines:
        return call.result
    hidden = set(call.skill_lines)
    lines = call.result.split("\n")
    return "\n".join("(a line of the skill)" if number in hidden else line for number, line in enumerate(lines, 1))


def _raw_args(call: ToolCall) -> str:
    return f"Args (not a JSON object): {canonical_json(call.raw_args).decode()}"


def _reads_skill(call: ToolCall) -> bool:
    path = call.args.get("path") if call.tool == "read_file" and call.args else None
    if not isinstance(path, str):
        return False
    absolute = posixpath.normpath(posixpath.join("/work", path))
    return f"/{absolute.lstrip('/')}".startswith(f"{SKILLS_ROOT}/")


def _one_line(text: str) -> str:
    """A tool's name as the model wrote it, where it is a plain name; else as a JSON text, which is one line."""
    return text if _PLAIN.fullmatch(text) else _escape(canonical_json(text).decode())


def _text(data: bytes) -> str:
    if b"\0" in data:
        return ""
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError:
        return ""


def _step(event: Event) -> int:
    step = event.data.get("step")
    return step if isinstance(step, int) else 0


def _calls_by_event(events: Iterable[Event]) -> dict[int, ToolCall]:
    """``seq`` of each ``tool_call`` event -> the call with its result."""
    events = tuple(events)
    numbers = [event.seq for event in events if event.kind == "tool_call"]
    return dict(zip(numbers, tool_calls(events), strict=True))


def defect(skill_type: SkillType, events: Sequence[Event], mcp_expected: bool) -> str | None:
    """Why a record cannot be judged, as a sentence without a full stop; None where it can (R56).

    Only what is malformed or incomplete counts, because that is the gate's or the infrastructure's doing: no start,
    prompt or end; no reply of a model at all; a result without its call; a call that was asked for or made, but whose
    record is missing, in a run that is said to be completed; a completed run without a response. An agent that ran no
    command, called no MCP tool or did nothing at all has a perfectly good record of that, and is judged by it: calling
    it a defect would void the run and so turn a failing skill into an unmeasured one. For an MCP skill this means: at
    least one parsed call, or a reply that shows that no tool was asked for.

    A run that infrastructure ended early is only asked for its start and its end: it is not judged anyway.
    """
    problem = _frame_defect(skill_type, events) or _pairing_defect(events)
    if problem:
        return problem
    outcome = Outcome(events[-1].data["outcome"])
    if not outcome.agent_caused:
        return None
    return _content_defect(events, outcome, mcp_expected=mcp_expected and skill_type is SkillType.MCP_BASED)


def _frame_defect(skill_type: SkillType, events: Sequence[Event]) -> str | None:
    kinds = [event.kind for event in events]
    if not kinds:
        return "the record is empty"
    if kinds[0] != "run_started" or kinds.count("run_started") != 1:
        return "the record does not start with exactly one run_started"
    if kinds[-1] != "run_ended" or kinds.count("run_ended") != 1:
        return "the record does not end with exactly one run_ended"
    outcome = events[-1].data.get("outcome")
    if not isinstance(outcome, str) or outcome not in {item.value for item in Outcome}:
        return "the record does not say how the run ended"
    recorded = events[0].data.get("skill_type")
    if recorded is not None and recorded != skill_type.value:
        return f"the record is of a {_one_line(str(recorded))} run, not of a {skill_type.value} run"
    return None


def _pairing_defect(events: Sequence[Event]) -> str | None:
    waiting: list[tuple[Any, Any]] = []
    for event in events:
        name = (event.data.get("step"), event.data.get("call_id"))
        if event.kind == "tool_call":
            waiting.append(name)
        elif event.kind == "tool_result" and name not in waiting:
            return f"event {event.seq} is a tool result without its call"
        elif event.kind == "tool_result":
            waiting.remove(name)
    return None


def _content_defect(events: Sequence[Event], outcome: Outcome, *, mcp_expected: bool) -> str | None:
    replies = [event for event in events if event.kind == "model_reply"]
    calls = tool_calls(events)
    if not any(event.kind == "prompt" for event in events):
        return "the record does not hold the prompt"
    if not replies:
        return "the record holds no reply of the model"
    asked = sum(len(event.data.get("tool_uses") or ()) for event in replies)
    if mcp_expected and asked and not calls:
        return "the model asked for tools, but the record holds no call"
    if outcome is not Outcome.COMPLETED:
        return None
    if response_of(events) is None and not any(event.kind == "stopped" for event in events):
        return "the run is recorded as completed, but the record holds no response"
    if asked > len(calls):
        return f"the model asked for {asked} tool calls, but the record holds {len(calls)}"
    if any(call.status == "no_result" for call in calls):
        return "the run is recorded as completed, but a tool call has no result"
    return None
