"""Searching with an author's regular expression, with a bound on time and input.

Python's ``re`` has no time limit and holds the interpreter while it backtracks, so a pattern such as ``(a+)+$`` from a
pull request could stop the gate. Refusing patterns by their shape would refuse harmless ones too (a wrong red), so every
search with a repetition happens in a child process that is killed at a deadline. The deadline is far above what any
ordinary search needs; a search that reaches it is ``not_run``, never a pass. One child serves a whole run, and each text
is handed to it once, however many patterns are searched in it.
"""

from __future__ import annotations

import re
import warnings
from collections.abc import Sequence
from functools import lru_cache
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from gate.judging.ground_truth.child import Child, ChildEndedError

DEADLINE_S = 5.0
"""For one search."""
LOST_S = 60.0
"""For all searches of a run that reach their deadline: a suite of such patterns must not hold the gate up for hours."""
TEXT_LIMIT = 20_000_000
"""Characters of a text that is searched: the cap on everything that a run may leave behind."""
GROUP_LIMIT = 200_000_000
"""Characters of all texts that one search looks into."""
CHARACTERS_PER_S = 10_000_000
"""A search of several texts gets a second more for each so many: ordinary patterns are ten times as fast."""
_WORKER = Path(__file__).with_name("regex_worker.py")
_BRANCHES = re.compile(r"[*+?{|]")


class RegexError(Exception):
    """A search that gave no answer. The message is a clause: invalid pattern, text too long, or deadline."""


class RegexSearch:
    """Searches texts; a context manager, so that its child process ends with it. Not for several threads at once."""

    def __init__(self, deadline_s: float = DEADLINE_S) -> None:
        self._deadline_s = deadline_s
        # -S: no site packages either.
        self._child = Child(_WORKER, ("-I", "-S"))
        self._sent: dict[tuple[str, ...], str] = {}
        self._lost_s = 0.0

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._child.stop()
        self._sent = {}

    def search(self, pattern: str, text: str, *, ignore_case: bool = False) -> tuple[int, int] | None:
        """Where a pattern is first found (``re.search``, no flags but IGNORECASE if asked), or None.

        Raises RegexError for an invalid pattern, a text over TEXT_LIMIT, and a search that did not end in time.
        """
        found = self.first(pattern, (text,), ignore_case=ignore_case)
        return found[1] if found else None

    def first(
        self, pattern: str, texts: Sequence[str], *, matching: bool = True, ignore_case: bool = False
    ) -> tuple[int, tuple[int, int] | None] | None:
        """(index, span) of the first text in which a pattern is found; not ``matching``: (index, None) of the first in
        which it is not. None where there is no such text. Raises RegexError as ``search`` does.
        """
        flags = re.IGNORECASE if ignore_case else 0
        compiled = _compiled(pattern, int(flags))
        texts, size = _within_limits(texts)
        if not _BRANCHES.search(pattern):  # one way to match at each place: linear
            for index, text in enumerate(texts):
                found = compiled.search(text)
                if (found is not None) is matching:
                    return index, found.span() if found else None
            return None
        return self._ask(pattern, int(flags), texts, matching, size)

    def matches(self, pattern: str, texts: Sequence[str]) -> list[bool]:
        """For each text whether a pattern is found in it. Raises RegexError as ``search`` does."""
        compiled = _compiled(pattern, 0)
        texts, size = _within_limits(texts)
        if not _BRANCHES.search(pattern):
            return [compiled.search(text) is not None for text in texts]
        return [
            bool(found) for found in self._answer({"search": pattern, "flags": 0, "each": True}, texts, size)["each"]
        ]

    def _ask(
        self, pattern: str, flags: int, texts: tuple[str, ...], matching: bool, size: int
    ) -> tuple[int, tuple[int, int] | None] | None:
        answer = self._answer({"search": pattern, "flags": flags, "matching": matching}, texts, size)
        if answer["index"] is None:
            return None
        span = answer["span"]
        return int(answer["index"]), (int(span[0]), int(span[1])) if span else None

    def _answer(self, question: dict[str, Any], texts: tuple[str, ...], size: int) -> dict[str, Any]:
        if self._lost_s >= LOST_S:
            raise RegexError(f"earlier patterns used up the {LOST_S:g} s for searches that do not end")
        name = self._sent.get(texts)
        if name is None:
            name = str(len(self._sent))
            # A text may be long: its way to the child must not eat the time of the search, nor be unbounded.
            self._exchange({"texts": name, "values": texts}, self._deadline_s + 60)
            self._sent[texts] = name
        extra = size / CHARACTERS_PER_S if len(texts) > 1 else 0.0
        answer = self._exchange({**question, "in": name}, self._deadline_s + extra)
        if "error" in answer:
            raise RegexError(f"the search failed: {answer['error']}")
        return answer

    def _exchange(self, question: dict[str, Any], deadline_s: float) -> dict[str, Any]:
        try:
            return self._child.ask(question, deadline_s)
        except ChildEndedError:
            self._sent = {}
            self._lost_s += deadline_s
            raise RegexError(f"the search did not end within {deadline_s:g} s: simplify the pattern") from None


def _within_limits(texts: Sequence[str]) -> tuple[tuple[str, ...], int]:
    """The texts and how many characters they have together. Raises RegexError for too many."""
    texts = tuple(texts)
    longest, size = max(map(len, texts), default=0), sum(map(len, texts))
    if longest > TEXT_LIMIT:
        raise RegexError(f"the text has {longest} characters, more than the {TEXT_LIMIT} that are searched")
    if size > GROUP_LIMIT:
        raise RegexError(f"the texts have {size} characters, more than the {GROUP_LIMIT} that are searched")
    return texts, size


@lru_cache(maxsize=512)
def _compiled(pattern: str, flags: int) -> re.Pattern[str]:
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # a FutureWarning about set syntax is the author's concern, not ours
            return re.compile(pattern, flags)
    except (re.error, RecursionError, OverflowError) as error:
        raise RegexError(f"the pattern is not a regular expression: {error}") from None
