"""Words in the number that a count asks for, for everything that people read."""

from __future__ import annotations


def plural(count: int, word: str, words: str = "") -> str:
    """``word`` for one, else ``words``: the plural, where it is not ``word`` with an s."""
    return word if count == 1 else words or f"{word}s"


def counted(count: int, word: str, words: str = "") -> str:
    """``1 case``, ``2 cases``."""
    return f"{count} {plural(count, word, words)}"
