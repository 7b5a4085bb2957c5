"""Conditions on JSON values: one meaning for arguments and for files."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

from gate.domain.checks import Condition
from gate.judging.ground_truth.facts import Facts, normalised
from gate.judging.ground_truth.literal import quoted
from gate.judging.ground_truth.regex import RegexError
from gate.judging.ground_truth.values import NotCheckableError, clip, computed, same, shown


def said(condition: Condition, day: str) -> str:
    """A condition in words. Raises NotCheckableError for a computed value that is none."""
    parts = []
    if condition.present is not None:
        parts.append("is there" if condition.present else "is not there")
    if condition.contains is not None:
        parts.append(f"contains {quoted(computed(condition.contains, day))}")
    if condition.pattern is not None:
        parts.append(f"matches /{clip(condition.pattern)}/")
    if condition.one_of is not None:
        parts.append(f"is one of {shown(computed(condition.one_of, day))}")
    if condition.min is not None:
        parts.append(f"is at least {condition.min:g}")
    if condition.max is not None:
        parts.append(f"is at most {condition.max:g}")
    return " and ".join(parts)


def met(holders: Sequence[Sequence[Any]], condition: Condition, facts: Facts) -> list[bool]:
    """For each holder whether the values at its path meet a condition. No value meets only ``present: false``.

    Raises NotCheckableError for a pattern without an answer.
    """
    if condition.present is False:
        return [not values for values in holders]
    day = facts.record.run_date
    contains, one_of = computed(condition.contains, day), computed(condition.one_of, day)
    matching = _matching(holders, condition, facts)

    def answered(values: Sequence[Any]) -> bool:
        answers = [_holds(value, condition, contains, one_of, matching) for value in values]
        return any(answers) if condition.values == "any" else bool(answers) and all(answers)

    return [answered(values) for values in holders]


def _matching(holders: Sequence[Sequence[Any]], condition: Condition, facts: Facts) -> frozenset[str] | None:
    """The texts among the values in which the pattern is found, asked for all at once; None: there is no pattern."""
    if condition.pattern is None:
        return None
    pattern = computed(condition.pattern, facts.record.run_date, quote=re.escape)
    # A text that stands in many calls is searched once, and in the same order whatever it hashes to.
    texts = list(dict.fromkeys(value for values in holders for value in values if isinstance(value, str)))
    try:
        found = facts.regex.matches(pattern, [normalised(text) for text in texts])
    except RegexError as error:
        raise NotCheckableError(str(error)) from None
    return frozenset(text for text, hit in zip(texts, found, strict=True) if hit)


def _holds(
    value: Any, condition: Condition, contains: str | None, one_of: list[Any] | None, matching: frozenset[str] | None
) -> bool:
    if contains is not None and not _contains(value, contains):
        return False
    if one_of is not None and not any(same(value, item) for item in one_of):
        return False
    if condition.min is not None or condition.max is not None:
        # A number written as text is a text: whoever wants it as a number has another check.
        if isinstance(value, bool) or not isinstance(value, int | float):
            return False
        if condition.min is not None and value < condition.min:
            return False
        if condition.max is not None and value > condition.max:
            return False
    return matching is None or (isinstance(value, str) and value in matching)


def _contains(value: Any, wanted: str) -> bool:
    if isinstance(value, str):
        return normalised(wanted) in normalised(value)
    return isinstance(value, list | tuple) and any(same(item, wanted) for item in value)


def seen(values: Sequence[Any]) -> str:
    """The values at a path for people."""
    if not values:
        return "nothing there"
    return shown(values[0]) if len(values) == 1 else f"{len(values)} values: {shown(list(values[:20]))}"
