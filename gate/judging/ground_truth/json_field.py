"""A field of a JSON file, or of a response that is JSON."""

from __future__ import annotations

from gate.domain.checks import JsonField
from gate.domain.judgement import CheckStatus
from gate.judging.ground_truth.facts import Answer, Facts
from gate.judging.ground_truth.json_value import json_at
from gate.judging.ground_truth.values import at, clip, computed, path_steps, same, shown


def evaluate(parameters: JsonField, facts: Facts) -> Answer:
    """Compared with its type. A file that is missing or not exactly one JSON value without duplicate keys is ``not_run``.

    The path ``response`` means the final response: the whole text, or its only fenced block.
    """
    steps = path_steps(parameters.field)
    wanted = computed(parameters.expected, facts.record.run_date)
    path = computed(parameters.path, facts.record.run_date)
    value, place = json_at(facts, path)
    expected = f"{clip(parameters.field)} = {shown(wanted)} in {clip(path)}"
    there, got = at(value, steps)
    if not there:
        return Answer(CheckStatus.FAILED, expected, f"no {clip(parameters.field)} in {place.name}", place.block)
    status = CheckStatus.PASSED if same(got, wanted) else CheckStatus.FAILED
    return Answer(status, expected, f"{clip(parameters.field)} = {shown(got)} in {place.name}", place.block)
