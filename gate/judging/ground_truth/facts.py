"""What an evaluator may look at, and what it answers."""

from __future__ import annotations

import ast
import re
import unicodedata
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, NamedTuple, TypeVar

from gate.domain.evidence import Block, CollectedFile, Event, RunRecord, Tier, Timing, ToolCall, Verification
from gate.domain.judgement import CheckStatus
from gate.domain.suite import Case
from gate.judging.ground_truth.regex import RegexSearch
from gate.judging.ground_truth.schemas import SchemaValidator
from gate.judging.ground_truth.values import NotCheckableError, clip

T = TypeVar("T")

RESPONSE = "response"
"""The path by which ``json_field`` names the final response instead of a file."""


class Answer(NamedTuple):
    """What an evaluator found. ``expected`` and ``found`` are sentences without a full stop."""

    status: CheckStatus
    expected: str
    found: str
    block: str | None = None


class Place(NamedTuple):
    """A text to look into, and how to name it."""

    text: str
    """NFC, line feeds only."""
    name: str
    block: str | None

    def line_of(self, offset: int) -> int:
        """The 1-based line of a character offset."""
        return self.text.count("\n", 0, offset) + 1

    def around(self, start: int, end: int) -> str:
        """The line that holds a hit, cut for showing."""
        first = self.text.rfind("\n", 0, start) + 1
        last = self.text.find("\n", max(end, start))
        return clip(self.text[max(first, start - 80) : len(self.text) if last < 0 else min(last, end + 80)], 200)


class Uncollected(NamedTuple):
    """Entries of a workspace that are no collected files: links, devices, and what was not read at all."""

    named: dict[str, str]
    """Path -> why, as a sentence."""
    unknown: tuple[str, ...]
    """Sentences that name no single entry: something else may have been there too."""


# The collector names an entry by its repr at the beginning of a sentence.
_REFUSED = re.compile(r"""(?:The path )?('(?:[^'\\]|\\.)*'|"(?:[^"\\]|\\.)*") """)


def _unquoted(text: str) -> str:
    return str(ast.literal_eval(text))


@dataclass(frozen=True)
class Facts:
    """One run's sealed evidence, each part read at most once."""

    case: Case
    record: RunRecord
    verification: Verification | None
    load_file: Callable[[str], bytes | None]
    """Bytes of a collected file by its path; None where only its name, size and digest were kept.

    Raises EvidenceError where the bytes are not the recorded ones.
    """
    load_blocks: Callable[[], tuple[Block, ...]]
    regex: RegexSearch
    load_events: Callable[[], tuple[Event, ...]] = tuple
    load_timing: Callable[[], Timing | None] = lambda: None
    schemas: SchemaValidator = field(default_factory=SchemaValidator)
    _texts: dict[str, Place] = field(default_factory=dict)
    _memory: dict[tuple[str, ...], Any] = field(default_factory=dict)

    def remembered(self, key: tuple[str, ...], make: Callable[[], T]) -> T:
        """What ``make`` returned the first time: a reading of the record that many checks share."""
        if key not in self._memory:
            self._memory[key] = make()
        found: T = self._memory[key]
        return found

    @cached_property
    def blocks(self) -> tuple[Block, ...]:
        """The numbered blocks of the record."""
        return self.load_blocks()

    @cached_property
    def call_blocks(self) -> dict[str, str]:
        """Call id -> block id. Empty where the blocks of tool calls are not one a call, so that no place is wrong."""
        blocks = [block.id for block in self.blocks if block.tier is Tier.TOOL_CALLS]
        calls = [call.call_id for call in self.record.calls]
        if len(blocks) != len(calls) or len(set(calls)) != len(calls):
            return {}
        return dict(zip(calls, blocks, strict=True))

    @cached_property
    def response(self) -> Place:
        """The final response. Raises NotCheckableError where there is none or it is blank: absence proves nothing."""
        text = self.record.response
        if text is None or not text.strip():
            raise NotCheckableError("the run gave no response")
        block = next((block.id for block in self.blocks if block.kind == "response"), None)
        return Place(normalised(text), "the response", block)

    def calls_of(self, tool: str) -> list[ToolCall]:
        """The calls of a tool in the order of the record, by whole name.

        A name without a server also means the MCP tool ``mcp__<server>__<name>``; raises NotCheckableError where two
        servers offer or got it, since either count would be a guess.
        """
        called = self._calls_by_tool
        wanted = self.names_of(tool)
        if len(wanted) == 1:
            return called.get(next(iter(wanted)), [])
        return [call for call in self.record.calls if call.tool in wanted]

    def names_of(self, tool: str) -> frozenset[str]:
        """The recorded names that a tool's name means. Raises NotCheckableError as ``calls_of`` does."""
        called = self._calls_by_tool
        if tool.startswith("mcp__"):
            wanted = {tool}
        else:
            offered = {
                f"mcp__{server.name}__{item.name}"
                for server in self.case.mcp_servers
                for item in server.tools
                if item.name == tool
            }
            got = {name for name in called if name.startswith("mcp__") and name.split("__", 2)[-1] == tool}
            qualified = offered | got
            if len(qualified) + (tool in called) > 1:
                names = ", ".join(sorted(qualified | ({tool} if tool in called else set())))
                raise NotCheckableError(
                    f"the tool name {clip(tool)} is ambiguous here: write one of {clip(names, 300)}"
                )
            wanted = {tool} | qualified
        return frozenset(wanted)

    @cached_property
    def _calls_by_tool(self) -> dict[str, list[ToolCall]]:
        calls: dict[str, list[ToolCall]] = {}
        for call in self.record.calls:
            calls.setdefault(call.tool, []).append(call)
        return calls

    def file(self, path: str) -> CollectedFile | None:
        """A collected file by its path relative to the workspace, or None.

        Raises NotCheckableError for a path that leads out of the workspace.
        """
        return self._files_by_path.get(workspace_path(path))

    @cached_property
    def _files_by_path(self) -> dict[str, CollectedFile]:
        # The first of two with one path, as a search from the start would find it.
        return {item.path: item for item in reversed(self.record.files)}

    def file_bytes(self, path: str) -> tuple[CollectedFile, bytes]:
        """A collected file and its bytes, which the loader has compared with the record.

        Raises NotCheckableError where there is none or it was not kept.
        """
        found = self.file(path)
        if found is None:
            raise NotCheckableError(f"{clip(path)} is not there; {self.produced()}")
        data = self.load_file(found.path) if found.kept else None
        if data is None:
            raise NotCheckableError(
                f"{clip(path)} has {found.size_bytes} bytes, over the cap: only its name, size and digest were kept"
            )
        return found, data

    def file_text(self, path: str) -> Place:
        """A collected file as text. Raises NotCheckableError where it is missing, was not kept, or is not UTF-8."""
        wanted = workspace_path(path)
        if wanted not in self._texts:
            found, data = self.file_bytes(path)
            try:
                text = data.decode("utf-8-sig")
            except UnicodeDecodeError as error:
                raise NotCheckableError(f"{clip(path)} is not UTF-8 text (byte {error.start})") from None
            same = ", unchanged since the run began" if found.fixture == "unchanged" else ""
            block = next((b.id for b in self.blocks if b.kind == "outputs" and b.title == found.path), None)
            self._texts[wanted] = Place(normalised(text), f"{clip(found.path)}{same}", block)
        return self._texts[wanted]

    def text_of(self, path: str) -> Place:
        """The final response where ``path`` is ``response``, else a collected file as text. Raises NotCheckableError."""
        return self.response if path == RESPONSE else self.file_text(path)

    @staticmethod
    def nfc(text: str) -> str:
        """Text in the form NFC; line endings stay as they are."""
        return unicodedata.normalize("NFC", text)

    @cached_property
    def events(self) -> tuple[Event, ...]:
        """The events of the run."""
        return self.load_events()

    @cached_property
    def fixture(self) -> frozenset[str]:
        """Paths of the fixture files that were put into the workspace: what the gate left out was never there."""
        stripped = [
            str(sentence)
            for event in self.events
            if event.kind == "run_started"
            for sentence in event.data.get("stripped") or ()
        ]
        return frozenset(
            item.path for item in self.case.files if not any(line.startswith(f"{item.path}: ") for line in stripped)
        )

    @cached_property
    def uncollected(self) -> Uncollected:
        """What was in the workspace and could not be taken out of it."""
        named: dict[str, str] = {}
        unknown: list[str] = []
        for event in self.events:
            for sentence in map(str, event.data.get("refused") or () if event.kind == "collected" else ()):
                quoted = _REFUSED.match(sentence)
                if quoted:
                    named[_unquoted(quoted[1])] = sentence
                elif not sentence.startswith("Recorded without their content"):
                    unknown.append(sentence)
        return Uncollected(named, tuple(unknown))

    def produced(self) -> str:
        """Which files the run made or changed, as a clause."""
        names = [item.path for item in self.record.files if item.fixture != "unchanged"]
        if not names:
            return "the run made or changed no file"
        more = f" and {len(names) - 8} more" if len(names) > 8 else ""
        return f"the run made or changed {clip(', '.join(names[:8]), 200)}{more}"


def normalised(text: str) -> str:
    """NFC, and CRLF as a line feed: the same text typed on another machine is the same text."""
    return unicodedata.normalize("NFC", text.replace("\r\n", "\n"))


def workspace_path(path: str) -> str:
    """A path relative to the workspace; ``./x`` and ``/work/x`` mean ``x``.

    Raises NotCheckableError for a path that leads elsewhere.
    """
    parts = [part for part in path.removeprefix("/work/").split("/") if part not in ("", ".")]
    if not parts or ".." in parts or (path.startswith("/") and not path.startswith("/work/")):
        raise NotCheckableError(f"{clip(path)} is not a path inside the workspace")
    return "/".join(parts)
