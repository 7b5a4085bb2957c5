"""Finding a literal text or a pattern, and saying where."""

from __future__ import annotations

from collections.abc import Sequence

from gate.judging.ground_truth.facts import Facts, Place, normalised
from gate.judging.ground_truth.regex import RegexError
from gate.judging.ground_truth.values import NotCheckableError, clip


def quoted(text: str) -> str:
    """A text for people, cut and in quotes."""
    return f'"{clip(text)}"'


def listed(texts: Sequence[str]) -> str:
    """Several texts for people, each cut and in quotes."""
    more = f" and {len(texts) - 12} more" if len(texts) > 12 else ""
    return ", ".join(f'"{clip(text, 60)}"' for text in texts[:12]) + more


def find_literal(place: Place, text: str, *, ignore_case: bool = False) -> str | None:
    """Where a literal text first stands, as a clause, or None."""
    wanted = normalised(text)
    start = place.text.find(wanted)
    if start >= 0:
        return f'line {place.line_of(start)} of {place.name}: "{place.around(start, start + len(wanted))}"'
    if not ignore_case:
        return None
    # Case folding can change lengths, so offsets hold for the folded text only: the line is counted there.
    folded = place.text.casefold()
    start = folded.find(wanted.casefold())
    if start < 0:
        return None
    line = folded.count("\n", 0, start)
    return f'line {line + 1} of {place.name}: "{clip(place.text.split(chr(10))[line], 200)}"'


def find_pattern(facts: Facts, place: Place, pattern: str, *, ignore_case: bool = False) -> str | None:
    """Where a regular expression first matches, as a clause, or None. Raises NotCheckableError for no answer."""
    try:
        span = facts.regex.search(pattern, place.text, ignore_case=ignore_case)
    except RegexError as error:
        raise NotCheckableError(str(error)) from None
    if span is None:
        return None
    return f'line {place.line_of(span[0])} of {place.name}: "{place.around(*span)}"'


def first_pattern(
    facts: Facts, pattern: str, texts: Sequence[str], *, matching: bool = True
) -> tuple[int | None, tuple[int, int]]:
    """The index of the first text that a pattern is found in (not ``matching``: is not found in), and where.

    (None, (0, 0)) where there is no such text. Raises NotCheckableError for no answer.
    """
    try:
        found = facts.regex.first(pattern, texts, matching=matching)
    except RegexError as error:
        raise NotCheckableError(str(error)) from None
    return (None, (0, 0)) if found is None else (found[0], found[1] or (0, 0))
