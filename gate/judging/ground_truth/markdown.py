"""Markdown read once: prose without code and addresses, links, and the anchors of headings."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from markdown_it.token import Token


class Link(NamedTuple):
    """A link or image."""

    target: str
    line: int
    """1-based line of the block that it stands in."""


class Prose(NamedTuple):
    """The words of one block, without inline code, addresses and HTML."""

    text: str
    line: int


_ADDRESS = re.compile(r"(?:https?://|www\.)[^\s<>]+|[\w.+-]+@[\w-]+\.[\w.]+")
_BARE = re.compile(r"https?://[^\s<>()\[\]\"'`]+")


def _inlines(text: str) -> Iterator[tuple[Token, int]]:
    from markdown_it import MarkdownIt

    for token in MarkdownIt("commonmark").enable("table").parse(text):
        if token.type == "inline":
            yield token, token.map[0] + 1 if token.map else 1


def prose(text: str) -> list[Prose]:
    """Every block of prose; fenced and indented code, inline code, HTML and addresses are left out."""
    found = []
    for token, line in _inlines(text):
        words = "".join(_words(child) for child in token.children or ())
        found.append(Prose(_ADDRESS.sub(" ", words), line))
    return found


def _words(child: Token) -> str:
    if child.type.endswith("break"):
        return "\n"
    # A space keeps the words around code apart; an image has its alternative text.
    return child.content if child.type in ("text", "image") else " " if child.type == "code_inline" else ""


def links(text: str) -> list[Link]:
    """Every link, image, autolink and bare web address, in order; code has none."""
    found = []
    for token, line in _inlines(text):
        inside = 0
        for child in token.children or ():
            inside += child.nesting if child.type in ("link_open", "link_close") else 0
            if child.type == "link_open":
                found.append(Link(str(child.attrGet("href") or ""), line))
            elif child.type == "image":
                found.append(Link(str(child.attrGet("src") or ""), line))
            elif child.type == "text" and not inside:
                # CommonMark makes no link of a bare address; people and renderers do.
                found += [Link(hit.rstrip(".,;:!?"), line) for hit in _BARE.findall(child.content)]
    return found


def anchors(headings: list[tuple[int, str, int]]) -> set[str]:
    """The anchors that renderers give to headings: lower case, spaces as dashes, a number behind a repeated one."""
    seen: dict[str, int] = {}
    found: set[str] = set()
    for _, text, _ in headings:
        kept = "".join(c for c in text.lower() if c in " -_" or unicodedata.category(c)[0] in "LNM")
        name = kept.replace(" ", "-")
        number = seen.get(name, 0)
        seen[name] = number + 1
        found.add(f"{name}-{number}" if number else name)
    return found
