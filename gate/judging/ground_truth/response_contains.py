"""A literal text is in the final response."""

from __future__ import annotations

from gate.domain.checks import ResponseContains
from gate.domain.judgement import CheckStatus
from gate.judging.ground_truth.facts import Answer, Facts
from gate.judging.ground_truth.literal import find_literal, quoted
from gate.judging.ground_truth.values import computed


def evaluate(parameters: ResponseContains, facts: Facts) -> Answer:
    """Compared after NFC, case by case unless ``ignore_case``."""
    wanted = computed(parameters.keyword, facts.record.run_date)
    expected = f"{quoted(wanted)} in the response{', ignoring upper and lower case' if parameters.ignore_case else ''}"
    place = facts.response
    hit = find_literal(place, wanted, ignore_case=parameters.ignore_case)
    if hit is None:
        return Answer(CheckStatus.FAILED, expected, f"not in {place.name}", place.block)
    return Answer(CheckStatus.PASSED, expected, hit, place.block)
