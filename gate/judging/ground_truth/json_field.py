"""A field of a JSON file, or of a response that is JSON."""

from __future__ import annotations

import re
from typing import Any

from gate.domain.checks import JsonField
from gate.domain.judgement import CheckStatus
from gate.judging.ground_truth.facts import RESPONSE, Answer, Facts, Place
from gate.judging.ground_truth.values import NotCheckableError, at, clip, computed, path_steps, same, shown, strict_json

_FENCE = re.compile(r"^```[^\n`]*\n(.*?)^```[ \t]*$", re.MULTILINE | re.DOTALL)


def evaluate(parameters: JsonField, facts: Facts) -> Answer:
    """Compared with its type. A file that is missing or not exactly one JSON value without duplicate keys is ``not_run``.

    The path ``response`` means the final response: the whole text, or its only fenced block.
    """
    steps = path_steps(parameters.field)
    wanted = computed(parameters.expected, facts.record.run_date)
    path = computed(parameters.path, facts.record.run_date)
    place = facts.response if path == RESPONSE else facts.file_text(path)
    value = _value(place, whole=path != RESPONSE)
    expected = f"{clip(parameters.field)} = {shown(wanted)} in {clip(path)}"
    there, got = at(value, steps)
    if not there:
        return Answer(CheckStatus.FAILED, expected, f"no {clip(parameters.field)} in {place.name}", place.block)
    status = CheckStatus.PASSED if same(got, wanted) else CheckStatus.FAILED
    return Answer(status, expected, f"{clip(parameters.field)} = {shown(got)} in {place.name}", place.block)


def _value(place: Place, *, whole: bool) -> Any:
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
