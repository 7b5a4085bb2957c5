"""A SKILL.md with one instruction changed, as a patch that a person can review (judging.md 8.2).

Where a statement begins and ends is what a Markdown parser says. Front matter is touched by the one operator that is about
it. ``gate.audit.operators`` says what is changed.
"""

from __future__ import annotations

import difflib
import functools
import re
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, NamedTuple

from gate.domain.base import sha256_hex
from gate.domain.skill import Skill

if TYPE_CHECKING:
    from markdown_it import MarkdownIt

MARKER = re.compile(r"^(\s*)([-*+]|\d{1,9}[.)])(\s+)")
"""Indent, marker and space at the start of a list item."""


class Block(NamedTuple):
    """A statement, heading or fence of the body; lines are 0-based indexes of the file, ``end`` exclusive."""

    kind: str
    """``step`` (item of a numbered list), ``bullet``, ``paragraph``, ``heading``, ``fence``."""
    start: int
    end: int
    group: int
    """The list that an item belongs to; -1 outside of lists."""


class Mutant(NamedTuple):
    """One changed file of a skill."""

    id: str
    """Operator, line and six hex digits of the SHA-256 of the new text: the same for the same skill."""
    operator: str
    harmful: bool
    """False: the change should make no difference to anybody."""
    path: str
    """Of the changed file, in the skill folder."""
    line: int
    """1-based line of SKILL.md that the mutant is about."""
    rule: str
    """The instruction as it stood, on one line; untrusted."""
    before: str
    after: str

    def patch(self, folder: str) -> str:
        """A unified diff that ``git apply`` takes, from the repository's root."""
        name = self.path if folder in ("", ".") else f"{folder}/{self.path}"
        old, new = split_lines(self.before), split_lines(self.after)
        pieces = [f"diff --git a/{name} b/{name}\n"]
        pieces += [
            line if line.endswith("\n") else f"{line}\n\\ No newline at end of file\n"
            for line in difflib.unified_diff(old, new, f"a/{name}", f"b/{name}", n=3)
        ]
        return "".join(pieces)


class Page(NamedTuple):
    """SKILL.md as operators see it."""

    skill: Skill
    lines: tuple[str, ...]
    """With their ends."""
    body: int
    """0-based index of the first line after the front matter."""
    blocks: tuple[Block, ...]

    def text(self, block: Block) -> str:
        """The words of a block on one line, without its marker."""
        lines = self.lines[block.start : block.end]
        return " ".join(MARKER.sub("", line).strip() if not at else line.strip() for at, line in enumerate(lines))

    def of(self, *kinds: str) -> list[Block]:
        """Blocks of these kinds, as they stand."""
        return [block for block in self.blocks if block.kind in kinds]

    def replaced(self, start: int, end: int, new: Sequence[str]) -> str:
        """The file with the lines from ``start`` to ``end`` replaced."""
        return "".join((*self.lines[:start], *new, *self.lines[end:]))

    def rewritten(self, block: Block, words: str) -> str:
        """The file with the words of a block replaced; what began on the block's first line is on one line now."""
        first = self.lines[block.start]
        lead = MARKER.match(first)
        indent = lead[0] if lead else re.match(r"\s*", first)[0]  # type: ignore[index] # always matches
        ending = self.lines[block.end - 1][len(self.lines[block.end - 1].rstrip("\r\n")) :]
        return self.replaced(block.start, block.end, [f"{indent}{words}{ending}"])

    def mutant(self, operator: str, block: Block, after: str, *, harmful: bool) -> Mutant:
        """A mutant of SKILL.md."""
        before = "".join(self.lines)
        return Mutant(
            id=mutant_id(operator, block.start + 1, after),
            operator=operator,
            harmful=harmful,
            path=self.skill.skill_md,
            line=block.start + 1,
            rule=self.text(block),
            before=before,
            after=after,
        )


def mutant_id(operator: str, line: int, after: str) -> str:
    """``delete-step-L12-1a2b3c``."""
    return f"{operator}-L{line}-{sha256_hex(after.encode('utf-8', 'surrogatepass'))[:6]}"


def page_of(skill: Skill) -> Page:
    """SKILL.md cut into blocks; a byte order mark is left out of the text."""
    lines = tuple(split_lines(skill.text))
    body = min(skill.body_line - 1, len(lines))
    return Page(skill, lines, body, tuple(_blocks(lines, body)))


def split_lines(text: str) -> list[str]:
    """Lines with their ends, as Markdown and Git count them: only CR and LF end one."""
    return re.findall(r"[^\r\n]*(?:\r\n|\r|\n)|[^\r\n]+", text)


def _blocks(lines: Sequence[str], body: int) -> Iterator[Block]:
    """Statements are the paragraphs outside of and in list items; nested lists are their own groups."""
    kinds: list[tuple[str, int]] = []
    groups = 0
    plain = "".join(line.rstrip("\r\n") + "\n" for line in lines[body:])
    for token in _parser().parse(plain):
        if token.type in ("bullet_list_open", "ordered_list_open"):
            kinds.append(("step" if token.type.startswith("ordered") else "bullet", groups))
            groups += 1
        elif token.type in ("bullet_list_close", "ordered_list_close"):
            kinds.pop()
        elif token.map is not None:
            start, end = token.map[0] + body, token.map[1] + body
            if token.type == "paragraph_open":
                kind, group = kinds[-1] if kinds and MARKER.match(lines[start]) else ("paragraph", -1)
                yield Block(kind, start, end, group)
            elif token.type == "heading_open" and end == start + 1:
                yield Block("heading", start, end, -1)
            elif token.type == "fence":
                yield Block("fence", start, end, -1)


@functools.cache
def _parser() -> MarkdownIt:
    from markdown_it import MarkdownIt

    return MarkdownIt("commonmark").disable("inline")
