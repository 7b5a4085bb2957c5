"""Collecting findings about one file, and the few words that every reader of foreign text needs."""

from __future__ import annotations

import difflib
from collections.abc import Iterable

from gate.domain.findings import Finding, Level


def shown(path: str) -> str:
    """A path as text that can be stored: bytes that are no UTF-8 (surrogates from ``surrogateescape``) as ``\\xff``."""
    return path.encode("utf-8", "surrogateescape").decode("utf-8", "backslashreplace")


def joined(folder: str, name: str) -> str:
    """A path below a repository-relative folder (``.`` is the root)."""
    return name if folder in ("", ".") else f"{folder}/{name}"


def short(value: object, limit: int = 80) -> str:
    """A foreign value for a message, on one line and cut."""
    text = " ".join(str(value).split())
    return text if len(text) <= limit else text[: limit - 1] + "…"


def nearest(word: str, known: Iterable[str]) -> str | None:
    """The known word that somebody probably meant: equal but for case, ``-`` and ``_``, else similar by at least 0.8."""
    options = list(known)
    plain = {_plain(option): option for option in options}
    if _plain(word) in plain:
        return plain[_plain(word)]
    close = difflib.get_close_matches(word.lower(), options, n=1, cutoff=0.8)
    return close[0] if close else None


def _plain(word: str) -> str:
    return word.lower().replace("-", "").replace("_", "").replace(" ", "")


class Notes:
    """Findings about one file, in the order they were made. ``family`` is the first part of every rule id."""

    def __init__(self, path: str, family: str) -> None:
        self.path = shown(path)
        self.family = family
        self.items: list[Finding] = []

    @property
    def blocked(self) -> bool:
        """True where a finding alone makes the skill invalid."""
        return any(item.blocks for item in self.items)

    def add(
        self,
        level: Level,
        rule: str,
        message: str,
        *,
        line: int | None = None,
        column: int | None = None,
        remedy: str = "",
        blocks: bool = False,
        path: str | None = None,
    ) -> None:
        """One finding; ``path`` where it is about another file."""
        self.items.append(
            Finding(
                rule=f"{self.family}/{rule}",
                level=level,
                path=self.path if path is None else shown(path),
                message=storable(message),
                line=line,
                column=column,
                remedy=storable(remedy),
                blocks=blocks,
            )
        )

    def block(
        self, rule: str, message: str, *, line: int | None = None, column: int | None = None, remedy: str = ""
    ) -> None:
        """An error that makes the skill invalid."""
        self.add(Level.ERROR, rule, message, line=line, column=column, remedy=remedy, blocks=True)

    def error(self, rule: str, message: str, *, line: int | None = None, remedy: str = "") -> None:
        """An error that leaves the rest usable."""
        self.add(Level.ERROR, rule, message, line=line, remedy=remedy)

    def warn(self, rule: str, message: str, *, line: int | None = None, remedy: str = "") -> None:
        """A warning."""
        self.add(Level.WARNING, rule, message, line=line, remedy=remedy)

    def notice(self, rule: str, message: str, *, line: int | None = None, remedy: str = "") -> None:
        """A notice."""
        self.add(Level.NOTICE, rule, message, line=line, remedy=remedy)

    def all(self) -> tuple[Finding, ...]:
        """Every finding so far."""
        return tuple(self.items)


def storable(text: str) -> str:
    """Text with lone surrogates made visible: they have no UTF-8 form and would break every writer."""
    return text.encode("utf-8", "backslashreplace").decode("utf-8") if not text.isascii() else text
