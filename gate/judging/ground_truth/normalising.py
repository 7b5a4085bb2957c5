"""What a comparison of whole texts may overlook, each by name; and where two texts differ."""

from __future__ import annotations

import difflib
import re
import unicodedata
from collections.abc import Sequence

from gate.judging.ground_truth.values import clip

DIFF_LINES = 400
"""Longer texts are compared line by line in place: a diff of them takes too long and is not read."""


def normalise(text: str, names: Sequence[str]) -> str:
    """``text`` without what ``names`` allow to differ (``gate.domain.checks.Normalisation``).

    ``bom``: a byte order mark in front. ``line_endings``: CRLF and CR. ``trailing_space``: blanks at the end of a line.
    ``blank_lines``: empty lines, a line feed at the very end among them. ``whitespace``: how much white space separates
    words (line feeds too). ``outer_space``: white space before and after the text. ``case``: upper and lower case. The order in which they are named is nothing.
    """
    wanted = set(names)
    if "bom" in wanted:
        text = text.removeprefix("\ufeff")
    if "line_endings" in wanted:
        text = text.replace("\r\n", "\n").replace("\r", "\n")
    if "trailing_space" in wanted:
        text = "\n".join(_right_stripped(line) for line in text.split("\n"))
    if "blank_lines" in wanted:
        text = "\n".join(line for line in text.split("\n") if line.strip())
    if "whitespace" in wanted:
        text = re.sub(r"\s+", " ", text)
        if "trailing_space" in wanted:
            text = text.rstrip(" ")  # what was another kind of white space until now
    if "outer_space" in wanted:
        text = text.strip()
    if "case" in wanted:
        text = unicodedata.normalize("NFC", text.casefold())
    return text


def _right_stripped(line: str) -> str:
    # A carriage return that may not be overlooked is no blank, whatever blanks stand around it.
    kept = line.rstrip(" \t\r")
    return kept + "\r" * line.count("\r", len(kept))


def difference(expected: str, found: str) -> str:
    """Where two different texts differ, as a clause: lines taken away (-) and added (+), by number of ``found``'s line."""
    before, after = expected.split("\n"), found.split("\n")
    first = next(
        (number for number, (one, two) in enumerate(zip(before, after, strict=False), 1) if one != two),
        min(len(before), len(after)) + 1,
    )
    if len(before) <= DIFF_LINES and len(after) <= DIFF_LINES:
        lines = list(difflib.unified_diff(before, after, lineterm="", n=0))[2:]
        changed = [line for line in lines if not line.startswith("@@")]
        shown = " ¶ ".join(_visible(line) for line in changed[:6])
        more = f" and {len(changed) - 6} more lines" if len(changed) > 6 else ""
        return f"it differs from line {first} on: {shown}{more}"
    wanted = _visible(before[first - 1]) if first <= len(before) else "the end"
    got = _visible(after[first - 1]) if first <= len(after) else "the end"
    return f"it differs from line {first} on: {got} instead of {wanted} ({len(after)} lines instead of {len(before)})"


def _visible(line: str) -> str:
    shown = line.replace("\r", "␍").replace("\t", "⇥").replace("\ufeff", "<BOM>")
    kept = shown.rstrip(" ")
    return clip(kept + "·" * (len(shown) - len(kept)), 100)
