"""Finding a literal text or a pattern, and saying where."""

from __future__ import annotations

from gate.judging.ground_truth.facts import Facts, Place, normalised
from gate.judging.ground_truth.regex import RegexError
from gate.judging.ground_truth.values import NotCheckableError, clip


def quoted(text: str) -> str:
    """A text for people, cut and in quotes."""
    return f'"{clip(text)}"'


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
