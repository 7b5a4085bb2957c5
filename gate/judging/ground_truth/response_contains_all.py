"""Every one of several literal texts is in the final response."""

from __future__ import annotations

from gate.domain.checks import ResponseContainsAll
from gate.domain.judgement import CheckStatus
from gate.judging.ground_truth.facts import Answer, Facts
from gate.judging.ground_truth.literal import find_literal, listed
from gate.judging.ground_truth.values import clip, computed


def evaluate(parameters: ResponseContainsAll, facts: Facts) -> Answer:
    """One that is missing fails it, whichever it is."""
    wanted = computed(parameters.texts, facts.record.run_date)
    expected = f"all of {listed(wanted)} in the response"
    place = facts.response
    missing = [text for text in wanted if find_literal(place, text, ignore_case=parameters.ignore_case) is None]
    if missing:
        found = f"{len(missing)} of {len(wanted)} are not in {place.name}: {clip(listed(missing), 400)}"
        return Answer(CheckStatus.FAILED, expected, found, place.block)
    return Answer(CheckStatus.PASSED, expected, f"all {len(wanted)} are in {place.name}", place.block)
