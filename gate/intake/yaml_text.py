"""YAML as JSON values that remember their lines.

Built from the parser's flat event stream, not by a loader: no recursion, duplicate keys are seen, aliases are counted
before they are expanded, and every value knows where it stands. YAML 1.1 scalars as PyYAML resolves them; dates become
ISO text, ``.nan`` and ``.inf`` stay text, keys are the text that was written (``on`` stays ``on``).
"""

from __future__ import annotations

import datetime as dt
import math
import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import yaml
from yaml.constructor import SafeConstructor

from gate.domain.base import Json
from gate.intake.notes import short

_LOADER: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
_TAG = "tag:yaml.org,2002:"
_PLAIN_TAGS = {None, "!", f"{_TAG}map", f"{_TAG}seq"}
# The printable set of YAML 1.1, section 4.1.1: what the reader refuses is looked for again, to name its line.
_UNPRINTABLE = re.compile("[^\t\n\r\x20-\x7e\x85\xa0-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
_SURROGATE = re.compile("[\ud800-\udfff]")
_ENTRY = re.compile(r"^\s*(?:-\s+)?(?P<key>[^\s:#'\"\[{][^:]*):\s+(?P<value>\S.*?)\s*$")
_SCALARS: dict[str, Any] = {
    "str": None,
    "value": None,
    "merge": None,
    "null": SafeConstructor.construct_yaml_null,
    "bool": SafeConstructor.construct_yaml_bool,
    "int": SafeConstructor.construct_yaml_int,
    "float": SafeConstructor.construct_yaml_float,
    "timestamp": SafeConstructor.construct_yaml_timestamp,
}


@dataclass(slots=True)
class Node:
    """A value with its place (1-based). ``value``: dict of nodes, list of nodes, or a JSON scalar."""

    line: int
    column: int
    value: Any
    source: str = ""
    """A scalar as written."""
    size: int = 1
    """Values in it, each alias counted as often as it is used."""
    depth: int = 1
    """Levels in it, through aliases too."""
    is_merge: bool = False
    """The key ``<<`` as written without quotes."""

    @property
    def is_map(self) -> bool:
        """A mapping."""
        return isinstance(self.value, dict)

    @property
    def is_list(self) -> bool:
        """A sequence."""
        return isinstance(self.value, list)

    @property
    def kind(self) -> str:
        """What it is, for messages."""
        if self.is_map:
            return "a mapping"
        if self.is_list:
            return "a list"
        if self.value is None:
            return "nothing"
        if isinstance(self.value, bool):
            return f"the truth value {self.source}"
        return "text" if isinstance(self.value, str) else f"the number {short(self.source, 30)}"


class Problem(NamedTuple):
    """Why a text is not usable, with its place."""

    message: str
    line: int | None = None
    column: int | None = None
    remedy: str = ""


class Parsed(NamedTuple):
    """``root`` is None where the text is empty or unusable; duplicate keys leave a root and a problem."""

    root: Node | None
    problems: tuple[Problem, ...]


@dataclass(slots=True)
class _Frame:
    node: Node
    key: Node | None = None
    merges: list[Node] = field(default_factory=list)
    anchor: str | None = None


class _RefusedError(Exception):
    """Internal: the text is refused for this problem."""

    def __init__(self, problem: Problem) -> None:
        super().__init__(problem.message)
        self.problem = problem


def parse_yaml(text: str, *, first_line: int = 1, max_values: int = 20_000, max_depth: int = 64) -> Parsed:
    """One YAML document. Never raises: what is wrong is in ``problems``. Lines count from ``first_line``."""
    builder = _Builder(first_line, max_values, max_depth)
    try:
        for event in yaml.parse(text, Loader=_LOADER):
            builder.take(event)
    except _RefusedError as refused:
        return Parsed(None, (*builder.problems, refused.problem))
    except yaml.YAMLError as error:
        return Parsed(None, (*builder.problems, _problem_of(error, text, first_line)))
    except (ValueError, RecursionError) as error:  # lone surrogates, and what else a parser may think of
        return Parsed(
            None, (*builder.problems, Problem(f"this is not readable as YAML: {short(error)}", first_line, 1))
        )
    return Parsed(builder.root, tuple(builder.problems))


def plain(node: Node) -> Json:
    """The JSON value of a node, aliases expanded (their size was checked when they were read)."""
    if isinstance(node.value, dict):
        return {key: plain(item) for key, item in node.value.items()}
    if isinstance(node.value, list):
        return [plain(item) for item in node.value]
    return node.value


def at(node: Node, place: Sequence[str | int]) -> Node:
    """The deepest node that exists on a path of keys and positions; parts that lead nowhere are skipped."""
    for part in place:
        if isinstance(node.value, dict) and str(part) in node.value:
            node = node.value[str(part)]
        elif isinstance(node.value, list) and isinstance(part, int) and part < len(node.value):
            node = node.value[part]
    return node


def wrapped(value: Json, line: int) -> Node:
    """A plain JSON value as nodes that all stand on one line: for formats whose parser knows no places."""
    if isinstance(value, dict):
        return Node(line, 1, {str(key): wrapped(item, line) for key, item in value.items()})
    if isinstance(value, list):
        return Node(line, 1, [wrapped(item, line) for item in value])
    return Node(line, 1, value, source="" if value is None else str(value))


class _Builder:
    def __init__(self, first_line: int, max_values: int, max_depth: int) -> None:
        self.root: Node | None = None
        self.problems: list[Problem] = []
        self._offset = first_line
        self._max_values = max_values
        self._max_depth = max_depth
        self._stack: list[_Frame] = []
        self._anchors: dict[str, Node] = {}
        self._open: set[str] = set()

    def take(self, event: Any) -> None:
        """The next event of the parser."""
        if isinstance(event, yaml.ScalarEvent):
            node = self._scalar(event)
            if event.anchor is not None:
                self._anchors[event.anchor] = node
            self._add(node)
        elif isinstance(event, yaml.MappingStartEvent | yaml.SequenceStartEvent):
            self._start(event)
        elif isinstance(event, yaml.MappingEndEvent | yaml.SequenceEndEvent):
            self._end()
        elif isinstance(event, yaml.AliasEvent):
            self._add(self._alias(event))
        elif isinstance(event, yaml.DocumentStartEvent) and self.root is not None:
            line, column = self._place(event)
            raise _RefusedError(Problem("a second YAML document starts here; one was expected", line, column))

    def _place(self, event: Any) -> tuple[int, int]:
        mark = event.start_mark
        return mark.line + self._offset, mark.column + 1

    def _too_deep(self, line: int, column: int) -> Problem:
        return Problem(f"this is nested deeper than {self._max_depth} levels", line, column)

    def _start(self, event: Any) -> None:
        line, column = self._place(event)
        if event.tag not in _PLAIN_TAGS:
            raise _RefusedError(_bad_tag(event.tag, line, column))
        if len(self._stack) >= self._max_depth:
            raise _RefusedError(self._too_deep(line, column))
        node = Node(line, column, {} if isinstance(event, yaml.MappingStartEvent) else [])
        if event.anchor is not None:
            self._anchors[event.anchor] = node
            self._open.add(event.anchor)
        self._stack.append(_Frame(node, anchor=event.anchor))

    def _end(self) -> None:
        frame = self._stack.pop()
        for source in frame.merges:
            for key, item in source.value.items():
                if key not in frame.node.value:
                    frame.node.value[key] = item
        if frame.anchor is not None:
            self._open.discard(frame.anchor)
        self._add(frame.node)

    def _alias(self, event: Any) -> Node:
        line, column = self._place(event)
        name = event.anchor
        if name in self._open:
            raise _RefusedError(
                Problem(f"the alias *{short(name)} refers to the value that it stands in", line, column)
            )
        if name not in self._anchors:
            raise _RefusedError(
                Problem(
                    f"the alias *{short(name)} refers to no anchor",
                    line,
                    column,
                    "Put text that starts with * in quotes.",
                )
            )
        node = self._anchors[name]
        return Node(line, column, node.value, node.source, node.size, node.depth)

    def _add(self, node: Node) -> None:
        if not self._stack:
            self.root = node
            return
        frame = self._stack[-1]
        parent = frame.node
        parent.size += node.size
        parent.depth = max(parent.depth, node.depth + 1)
        if parent.depth > self._max_depth:
            raise _RefusedError(self._too_deep(node.line, node.column))
        if parent.size > self._max_values:
            raise _RefusedError(
                Problem(
                    f"this holds more than {self._max_values} values (aliases counted as often as they are used)",
                    node.line,
                    node.column,
                )
            )
        if isinstance(parent.value, list):
            parent.value.append(node)
        elif frame.key is None:
            frame.key = self._key(node)
        else:
            self._entry(frame, frame.key, node)
            frame.key = None

    def _key(self, node: Node) -> Node:
        if node.is_map or node.is_list:
            raise _RefusedError(
                Problem(f"{node.kind} cannot be a key", node.line, node.column, "Put the key in quotes.")
            )
        return node

    def _entry(self, frame: _Frame, key: Node, node: Node) -> None:
        name = key.source
        if key.is_merge and (node.is_map or (node.is_list and all(item.is_map for item in node.value))):
            frame.merges.extend([node] if node.is_map else node.value)
        elif name in frame.node.value:
            first = frame.node.value[name].line
            self.problems.append(
                Problem(
                    f'the key "{short(name)}" is there twice (first at line {first}): readers disagree which one counts',
                    key.line,
                    key.column,
                    "Keep one of them.",
                )
            )
        else:
            frame.node.value[name] = node

    def _scalar(self, event: Any) -> Node:
        line, column = self._place(event)
        text: str = event.value
        if _SURROGATE.search(text):
            raise _RefusedError(Problem("a broken Unicode escape (half of a surrogate pair)", line, column))
        tag = event.tag
        if tag is None or tag == "!":
            tag = _resolved(text) if event.implicit[0] else f"{_TAG}str"
        if tag.removeprefix(_TAG) not in _SCALARS:
            raise _RefusedError(_bad_tag(tag, line, column))
        try:
            value = _constructed(tag, text)
        except (ValueError, LookupError, AttributeError, OverflowError) as error:  # what PyYAML raises where a tag lies
            raise _RefusedError(
                Problem(
                    f'"{short(text)}" looks like a {tag.removeprefix(_TAG)} but is none: {short(error)}',
                    line,
                    column,
                    f'Put the value in quotes: "{short(text, 40)}".',
                )
            ) from error
        return Node(line, column, value, text, is_merge=tag == f"{_TAG}merge")


def _bad_tag(tag: str, line: int, column: int) -> Problem:
    return Problem(
        f"the YAML tag {short(tag)} is not supported", line, column, "Remove the tag, or put the text in quotes."
    )


def _resolved(text: str) -> str:
    resolvers: Any = yaml.SafeLoader.yaml_implicit_resolvers
    for tag, pattern in [*resolvers.get(text[:1], []), *resolvers.get(None, [])]:
        if pattern.match(text):
            return str(tag)
    return f"{_TAG}str"


def _constructed(tag: str, text: str) -> Json:
    """A scalar as JSON. Raises what PyYAML raises for text that does not fit a tag of ``_SCALARS``."""
    construct = _SCALARS[tag.removeprefix(_TAG)]
    if construct is None:
        return text
    value = construct(SafeConstructor(), yaml.ScalarNode(tag, text))
    if isinstance(value, dt.date):  # a datetime is a date too
        return value.isoformat()
    if isinstance(value, float) and not math.isfinite(value):
        return text
    return value


def _problem_of(error: yaml.YAMLError, text: str, first_line: int) -> Problem:
    mark = getattr(error, "problem_mark", None) or getattr(error, "context_mark", None)
    message = ", ".join(
        short(part) for part in (getattr(error, "context", None), getattr(error, "problem", None)) if part
    )
    if mark is not None:
        lines = text.split("\n")
        line = lines[mark.line] if mark.line < len(lines) else ""
        return Problem(message or "this is not YAML", mark.line + first_line, mark.column + 1, quoting_hint(line))
    bad = _UNPRINTABLE.search(text)
    if bad:
        before = text[: bad.start()]
        return Problem(
            f"the character U+{ord(bad.group()):04X} is not allowed in YAML",
            before.count("\n") + first_line,
            bad.start() - (before.rfind("\n") + 1) + 1,
            "Remove the character.",
        )
    return Problem(f"this is not YAML: {short(error)}", first_line, 1)


def quoting_hint(line: str) -> str:
    """What to write instead of a line whose value YAML took for something else; empty where that is not the trouble."""
    found = _ENTRY.match(line)
    if not found:
        return "Put values that hold : # [ ] { } * & ! % @ ` in quotes."
    value = found["value"].replace("\\", "\\\\").replace('"', '\\"')
    return f'Put the value of "{short(found["key"], 40)}" in quotes: {short(found["key"], 40)}: "{short(value, 60)}"'
