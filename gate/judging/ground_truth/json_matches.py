"""A condition on a field of a JSON file, or of a response that is JSON."""

from __future__ import annotations

from gate.domain.checks import JsonMatches
from gate.domain.judgement import CheckStatus
from gate.judging.ground_truth.conditions import met, said, seen
from gate.judging.ground_truth.facts import Answer, Facts
from gate.judging.ground_truth.json_value import json_at
from gate.judging.ground_truth.values import clip, computed
from gate.judging.ground_truth.wildcards import values_at, wild_steps


def evaluate(parameters: JsonMatches, facts: Facts) -> Answer:
    """A file that is missing or not exactly one JSON value is ``not_run``, also for ``present: false``."""
    parts = wild_steps(parameters.field)
    path = computed(parameters.path, facts.record.run_date)
    expected = f"{clip(parameters.field)} {said(parameters, facts.record.run_date)} in {clip(path)}"
    value, place = json_at(facts, path)
    values = values_at(value, parts)
    status = CheckStatus.PASSED if met([values], parameters, facts)[0] else CheckStatus.FAILED
    return Answer(status, expected, f"{clip(parameters.field)}: {seen(values)} in {place.name}", place.block)
