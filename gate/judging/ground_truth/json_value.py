"""The one JSON value of a file, or of a response that is JSON or holds one fenced block of it."""

from __future__ import annotations

import re
from typing import Any

from gate.judging.ground_truth.facts import RESPONSE, Facts, Place
from gate.judging.ground_truth.values import NotCheckableError, strict_json

_FENCE = re.compile(r"^```[^\n`]*\n(.*?)^```[ \t]*$", re.MULTILINE | re.DOTALL)


def json_at(facts: Facts, path: str) -> tuple[Any, Place]:
    """The value and where it is from. Raises NotCheckableError where it is missing or not exactly one JSON value."""
    place = facts.text_of(path)
    return facts.remembered(("json", path), lambda: json_of(place, whole=path != RESPONSE)), place


def json_of(place: Place, *, whole: bool) -> Any:
    """The value of a text; not ``whole``: its only fenced block will do. Raises NotCheckableError."""
    try:
        return strict_json(place.text)
    except ValueError as error:
        fenced = [] if whole else _FENCE.findall(place.text)
        if len(fenced) != 1:
            raise NotCheckableError(f"{place.name} cannot be read: {error}") from None
    try:
        return strict_json(fenced[0])
    except ValueError as error:
        raise NotCheckableError(f"the fenced block of {place.name} cannot be read: {error}") from None
