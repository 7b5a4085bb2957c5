"""A suite file as one tree of values that know their lines, whatever it is written in: YAML, JSON, JSON lines, CSV, Markdown."""

from __future__ import annotations

import csv
import io
import posixpath

from gate.domain.skill import SkillFile
from gate.intake.json_text import Lines, decoded, parse_json
from gate.intake.suite import cases_md
from gate.intake.suite_places import CASES_END
from gate.intake.yaml_text import Node, Problem, parse_yaml, wrapped

MAX_VALUES = 200_000
_KEYS = 200
"""Keys of an outermost JSON object that get their own line; no suite has more."""
_LINED = 12
"""Outermost lists of a JSON object whose items get their own line."""


def parse_document(file: SkillFile) -> tuple[Node | None, str, tuple[Problem, ...]]:
    """(root, text, problems). No root where there is a problem, or where the file is empty. Never raises."""
    text, problem = decoded(file.data)
    if problem is not None:
        return None, text, (problem,)
    if file.path.lower().endswith(CASES_END):
        return cases_md.document(text), text, ()
    end = posixpath.splitext(file.path)[1].lower()
    if end == ".json":
        return _json(text)
    if end in (".jsonl", ".ndjson"):
        return _json_lines(text)
    if end == ".csv":
        return _csv(text)
    parsed = parse_yaml(text, max_values=MAX_VALUES)
    return (None if parsed.problems else parsed.root), text, parsed.problems


def _json(text: str) -> tuple[Node | None, str, tuple[Problem, ...]]:
    parsed = parse_json(text)
    if parsed.problems:
        return None, text, parsed.problems
    value = parsed.value
    root = wrapped(value, 1)
    lines = Lines(text)
    if isinstance(value, list):
        _put_lines(root, lines.of_items())
    elif isinstance(value, dict) and len(value) <= _KEYS:
        starts = lines.of_keys()
        for key, node in root.value.items():
            node.line = starts.get(key, 1)
        for key in [key for key, item in value.items() if isinstance(item, list)][:_LINED]:
            _put_lines(root.value[key], lines.of_items(key))
    return root, text, ()


def _put_lines(items: Node, lines: list[int]) -> None:
    for item, line in zip(items.value, lines, strict=False):
        _settle(item, line)


def _settle(node: Node, line: int) -> None:
    """Every value of an item stands on the item's line: JSON is read without places further in."""
    node.line = line
    for inner in node.value.values() if node.is_map else node.value if node.is_list else ():
        _settle(inner, line)


def _json_lines(text: str) -> tuple[Node | None, str, tuple[Problem, ...]]:
    items = []
    for number, line in enumerate(text.split("\n"), 1):
        if not line.strip():
            continue
        parsed = parse_json(line)
        if parsed.problems:
            return None, text, tuple(item._replace(line=number) for item in parsed.problems)
        items.append(wrapped(parsed.value, number))
        if len(items) > MAX_VALUES:
            return None, text, (Problem(f"this holds more than {MAX_VALUES} lines", number),)
    return Node(1, 1, items), text, ()


def _csv(text: str) -> tuple[Node | None, str, tuple[Problem, ...]]:
    """Rows as mappings by the first row. RFC 4180 quoting; a row longer than the first is a problem, a shorter one is not."""
    reader = csv.reader(io.StringIO(text), strict=True)
    rows: list[Node] = []
    head: list[str] = []
    try:
        start = 1
        for row in reader:
            line, start = start, reader.line_num + 1
            if not any(cell.strip() for cell in row):
                continue
            if not head:
                head = [cell.strip() for cell in row]
                if len(set(head)) != len(head):
                    return None, text, (Problem("two columns have the same name", line),)
                continue
            if len(row) > len(head):
                return None, text, (Problem(f"this row has {len(row)} cells; at most {len(head)} were expected", line),)
            rows.append(Node(line, 1, {key: _cell(cell, line) for key, cell in zip(head, row, strict=False)}))
            if len(rows) > MAX_VALUES:
                return None, text, (Problem(f"this holds more than {MAX_VALUES} rows", line),)
    except csv.Error as error:
        return None, text, (Problem(f"this is not CSV: {error}", reader.line_num),)
    return Node(1, 1, rows), text, ()


def _cell(text: str, line: int) -> Node:
    word = text.strip().lower()
    if word in ("true", "false"):
        return Node(line, 1, word == "true", text)
    return Node(line, 1, text if text.strip() else None, text)
