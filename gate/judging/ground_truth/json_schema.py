"""A JSON file, or a response that is JSON, is valid under a JSON Schema."""

from __future__ import annotations

from gate.domain.checks import JsonSchema
from gate.domain.judgement import CheckStatus
from gate.judging.ground_truth.facts import Answer, Facts
from gate.judging.ground_truth.json_value import json_at
from gate.judging.ground_truth.schemas import SchemaError
from gate.judging.ground_truth.values import NotCheckableError, clip, computed


def evaluate(parameters: JsonSchema, facts: Facts) -> Answer:
    """No JSON, a schema that is none, and a validation without an answer are ``not_run``."""
    path = computed(parameters.path, facts.record.run_date)
    expected = f"{clip(path)} valid under the schema"
    value, place = json_at(facts, path)
    try:
        problems = facts.schemas.problems(value, parameters.definition)
    except SchemaError as error:
        raise NotCheckableError(str(error)) from None
    if problems:
        return Answer(CheckStatus.FAILED, expected, "; ".join(clip(item, 160) for item in problems), place.block)
    return Answer(CheckStatus.PASSED, expected, f"{place.name} is valid", place.block)
