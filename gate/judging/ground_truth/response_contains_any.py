"""At least one of several literal texts is in the final response."""

from __future__ import annotations

from gate.domain.checks import ResponseContainsAny
from gate.domain.judgement import CheckStatus
from gate.judging.ground_truth.facts import Answer, Facts
from gate.judging.ground_truth.literal import find_literal, listed
from gate.judging.ground_truth.values import computed


def evaluate(parameters: ResponseContainsAny, facts: Facts) -> Answer:
    """The first of the list that is there is shown with its place."""
    wanted = computed(parameters.texts, facts.record.run_date)
    expected = f"one of {listed(wanted)} in the response"
    place = facts.response
    for text in wanted:
        hit = find_literal(place, text, ignore_case=parameters.ignore_case)
        if hit is not None:
            return Answer(CheckStatus.PASSED, expected, hit, place.block)
    return Answer(CheckStatus.FAILED, expected, f"none of {len(wanted)} is in {place.name}", place.block)
