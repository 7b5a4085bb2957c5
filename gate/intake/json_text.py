"""Strict JSON: duplicate keys, NaN and half surrogates are problems, and entries of the outermost levels know their line."""

from __future__ import annotations

import json
import re
from bisect import bisect_left
from typing import NamedTuple

from gate.domain.base import Json
from gate.intake.notes import short
from gate.intake.yaml_text import Problem

_HALF_SURROGATE = re.compile(r"\\u[dD][89a-fA-F]")
_SPACE = re.compile(r"[ \t\n\r]*")
MAX_DEPTH = 64
"""Levels; real files have under ten."""


class ParsedJson(NamedTuple):
    """``value`` is meaningless where there are problems."""

    value: Json
    problems: tuple[Problem, ...]


class _RefusedError(ValueError):
    pass


def decoded(data: bytes) -> tuple[str, Problem | None]:
    """The text of a UTF-8 file, byte order mark removed, line ends normalised; or why it is none."""
    if data[:2] in (b"\xff\xfe", b"\xfe\xff"):
        return "", Problem("the file is UTF-16; UTF-8 was expected", 1, 1, "Save the file as UTF-8.")
    if b"\0" in data:
        line = data.count(b"\n", 0, data.index(b"\0")) + 1
        return "", Problem("the file holds a NUL byte; text was expected", line, None, "Save the file as UTF-8 text.")
    try:
        text = data.decode("utf-8")
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        column = error.start - (data.rfind(b"\n", 0, error.start) + 1) + 1
        return "", Problem(
            f"byte 0x{data[error.start]:02X} is not valid UTF-8", line, column, "Save the file as UTF-8."
        )
    return text.removeprefix("\ufeff").replace("\r\n", "\n").replace("\r", "\n"), None


def parse_json(text: str) -> ParsedJson:
    """A JSON text. Never raises."""
    try:
        value = json.loads(text, object_pairs_hook=_object, parse_constant=_constant)
    except json.JSONDecodeError as error:
        return ParsedJson(None, (Problem(f"this is not JSON: {error.msg}", error.lineno, error.colno),))
    except _RefusedError as error:
        return ParsedJson(None, (Problem(str(error.args[0]), _line_of_duplicate(text, error)),))
    except (ValueError, RecursionError) as error:
        return ParsedJson(None, (Problem(f"this is not readable JSON: {short(error)}", 1),))
    if text.count("[") + text.count("{") > MAX_DEPTH and _is_deep(value):
        return ParsedJson(None, (Problem(f"this is nested deeper than {MAX_DEPTH} levels", 1),))
    if _HALF_SURROGATE.search(text) and not _encodable(value):
        found = _HALF_SURROGATE.search(text)
        line = text.count("\n", 0, found.start()) + 1 if found else 1
        return ParsedJson(None, (Problem("a text holds a broken Unicode escape (half of a surrogate pair)", line),))
    return ParsedJson(value, ())


def _object(pairs: list[tuple[str, Json]]) -> dict[str, Json]:
    value = dict(pairs)
    if len(value) != len(pairs):
        seen: set[str] = set()
        twice = next(key for key, _ in pairs if key in seen or seen.add(key))  # type: ignore[func-returns-value] # set.add returns None
        raise _RefusedError(f'the key "{short(twice)}" is there twice in one object', twice)
    return value


def _is_deep(value: Json) -> bool:
    """Whether a value has more than ``MAX_DEPTH`` levels; without recursion, which is what it protects."""
    level = [value]
    for _ in range(MAX_DEPTH):
        level = [
            inner
            for item in level
            if isinstance(item, dict | list)
            for inner in (item.values() if isinstance(item, dict) else item)
        ]
        if not level:
            return False
    return any(isinstance(item, dict | list) for item in level)


def _constant(name: str) -> Json:
    raise _RefusedError(f"{name} is not a JSON number", name)


def _line_of_duplicate(text: str, error: _RefusedError) -> int | None:
    """The last line with the word that was refused: exact where the word stands once or twice in the file."""
    word = error.args[1] if len(error.args) > 1 else ""
    where = text.rfind(json.dumps(word, ensure_ascii=False)) if word else -1
    where = text.find(word) if where < 0 else where
    return text.count("\n", 0, where) + 1 if where >= 0 else None


def _encodable(value: Json) -> bool:
    try:
        json.dumps(value, ensure_ascii=False).encode("utf-8")
    except UnicodeEncodeError:
        return False
    return True


class Lines:
    """Where the entries of a JSON text stand. The text must be valid JSON."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._ends = [match.start() for match in re.finditer("\n", text)]
        self._decode = json.JSONDecoder().raw_decode

    def of_items(self, *keys: str) -> list[int]:
        """Line of each item of the outermost list, or of the list under the first of ``keys`` in the outermost object."""
        start = self._skip(0)
        if self._text[start] == "{":
            entries = self._entries(start)
            start = next((entries[key] for key in keys if key in entries), -1)
        if start < 0 or self._text[start] != "[":
            return []
        lines = []
        at = self._skip(start + 1)
        while self._text[at] != "]":
            lines.append(self._line(at))
            at = self._skip(self._decode(self._text, at)[1])
            if self._text[at] == ",":
                at = self._skip(at + 1)
        return lines

    def of_keys(self) -> dict[str, int]:
        """Line of each key of the outermost object; empty where it is none."""
        start = self._skip(0)
        if self._text[start] != "{":
            return {}
        return {key: self._line(at) for key, at in self._entries(start).items()}

    def _entries(self, start: int) -> dict[str, int]:
        """Key -> offset of its value."""
        entries: dict[str, int] = {}
        at = self._skip(start + 1)
        while self._text[at] != "}":
            key, at = self._decode(self._text, at)
            at = self._skip(self._skip(at) + 1)
            entries[key] = at
            at = self._skip(self._decode(self._text, at)[1])
            if self._text[at] == ",":
                at = self._skip(at + 1)
        return entries

    def _line(self, at: int) -> int:
        return bisect_left(self._ends, at) + 1

    def _skip(self, at: int) -> int:
        found = _SPACE.match(self._text, at)
        return found.end() if found else at
