"""Untrusted text as Markdown, and a budget to keep.

Two ways to show text that somebody else wrote: ``code`` for names, paths and ids, ``escape`` for sentences. Both first make
everything invisible visible. In what ``escape`` returns nothing is Markdown or HTML: not in a paragraph, a list item, a
table cell, and not in the raw HTML of a ``<summary>``. GitHub also works on the rendered text (mentions, issue numbers,
links, emoji shortcodes): there a zero-width space after the first character of such a thing stops it.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable, Sequence

COMMENT_LIMIT = 65_536
"""GitHub refuses a longer comment. Counted in UTF-8 bytes here, which no other way of counting exceeds."""

_LINE_ENDS = re.compile(r"\s*(?:\r\n|[\n\r\v\f\x1c-\x1e\x85\u2028\u2029])\s*")
_INVISIBLE_CATEGORIES = frozenset({"Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp"})
_INVISIBLE = frozenset("\u034f\u115f\u1160\u17b4\u17b5\u2800\u3164\uffa0") | {chr(c) for c in range(0xFE00, 0xFE0F)}
_BREAK = "\u200b"
_BREAKS = tuple(
    re.compile(pattern)
    for pattern in (
        r"@",  # a mention, an e-mail address
        r":(?=//)|(?i:mailto|xmpp):",  # a link
        r"(?i:\bwww)(?=\.)",  # a link without a scheme
        r"#(?=[0-9])|(?i:\bgh-)(?=[0-9])",  # an issue
        r":(?=[\w+-]+(?::|$))",  # an emoji shortcode, also one that the text after would close
    )
)
_COMMIT = re.compile(r"\b[0-9a-f]{7,}\b")
"""GitHub links a commit by seven digits or more; a break after six leaves no seven, wherever the text begins."""
_ENTITIES = str.maketrans(
    {
        "&": "&amp;",
        "<": "&lt;",
        ">": "&gt;",
        '"': "&quot;",
        "'": "&#39;",
        "`": "&#96;",
        "*": "&#42;",
        "_": "&#95;",
        "[": "&#91;",
        "]": "&#93;",
        "|": "&#124;",
        "\\": "&#92;",
        "~": "&#126;",
        "$": "&#36;",
        _BREAK: "&#8203;",
    }
)
_IN_WORD = re.compile(r"(?<=[0-9A-Za-z])_(?=[0-9A-Za-z])")
_BLOCK_START = re.compile(r"(?:[#+=/:-]|[0-9]{1,9}(?=[.)]))")
_BACKTICKS = re.compile(r"`+")


def visible(text: str) -> str:
    """One line in which nothing hides: line ends become ``⏎``, tabs spaces, every control, bidirectional, zero-width and
    unassigned character its code point in brackets. Idempotent."""
    if text.isprintable() and text.isascii():
        return text.strip()
    return _LINE_ENDS.sub(" ⏎ ", text).translate(_SHOWN).strip()


class _Shown(dict[int, int | str]):
    """A translation table that decides on each character the first time it is met."""

    def __missing__(self, point: int) -> int | str:
        char = chr(point)
        hides = not char.isprintable() if char.isascii() else _hides(char)
        self[point] = " " if char == "\t" else f"⟨U+{point:04X}⟩" if hides else point
        return self[point]


def _hides(char: str) -> bool:
    return char in _INVISIBLE or 0xE0100 <= ord(char) <= 0xE01EF or unicodedata.category(char) in _INVISIBLE_CATEGORIES


_SHOWN = _Shown()


def escape(text: str) -> str:
    """Untrusted text as text: rendered, it reads as ``visible(text)`` and does nothing else."""
    text = visible(text)
    for pattern in _BREAKS:
        text = pattern.sub(lambda match: match[0] + _BREAK, text)
    text = _COMMIT.sub(lambda match: _BREAK.join(re.findall("..?.?.?.?.?", match[0])), text)
    # A tab can't be in visible text, so it can stand for an underscore that needs no escape.
    escaped = _IN_WORD.sub("\t", text).translate(_ENTITIES).replace("\t", "_")
    start = _BLOCK_START.match(escaped)
    if start is None:
        return escaped
    # At the start of a line these would open a heading, a list, a rule, or look like a command to a bot.
    at = start.end() if start[0].isdigit() else start.end() - 1
    return f"{escaped[:at]}&#{ord(escaped[at])};{escaped[at + 1 :]}"


def code(text: str, *, in_table: bool = False) -> str:
    """Untrusted text as a code span. In a table cell a pipe must be escaped even there, elsewhere it must not."""
    text = visible(text) or "(empty)"
    fence = "`" * (1 + max((len(run) for run in _BACKTICKS.findall(text)), default=0))
    pad = " " if text.startswith("`") or text.endswith("`") else ""
    shown = text.replace("|", "\\|") if in_table else text
    return f"{fence}{pad}{shown}{pad}{fence}"


def cut(text: str, limit: int) -> str:
    """The first ``limit`` characters of ``text`` on one visible line, with an ellipsis where something was left out.

    A base character keeps its combining marks: both stay or both go.
    """
    looked_at = 4 * limit + 200  # of a text of megabytes only its beginning is read
    line = visible(text[:looked_at])
    if len(line) <= limit and len(text) <= looked_at:
        return line
    end = min(len(line), max(limit - 1, 0))
    while 0 < end < len(line) and (unicodedata.combining(line[end]) or line[end] == "\ufe0f"):
        end -= 1
    return line[:end].rstrip() + "…"


def size(text: str) -> int:
    """What a text takes of a budget: its UTF-8 bytes. Never less than its characters or its UTF-16 units."""
    return len(text.encode("utf-8", "surrogatepass"))


def fit(lines: Sequence[str], room: int, *, more: str = "{count} more in report.html") -> tuple[list[str], int]:
    """As many lines as fit into ``room`` bytes (line ends counted), and what they take.

    Where some are left out, the last line says how many (``more``, with ``{count}``).
    """
    total = sum(size(line) + 1 for line in lines)
    if total <= room:
        return list(lines), total
    kept: list[str] = []
    taken = 0
    for line in lines:
        note = more.format(count=len(lines) - len(kept) - 1)
        if taken + size(line) + 1 + size(note) + 1 > room:
            break
        kept.append(line)
        taken += size(line) + 1
    note = more.format(count=len(lines) - len(kept))
    if taken + size(note) + 1 <= room:
        kept.append(note)
        taken += size(note) + 1
    return kept, taken


def row(cells: Iterable[str]) -> str:
    """A table row. The cells are Markdown already."""
    return "| " + " | ".join(cell or " " for cell in cells) + " |"


def table_head(names: Sequence[str]) -> list[str]:
    """The two head lines of a table."""
    return [row(names), row(["---"] * len(names))]
