"""A literal text is not in the final response."""

from __future__ import annotations

from gate.domain.checks import ResponseNotContains
from gate.domain.judgement import CheckStatus
from gate.judging.ground_truth.facts import Answer, Facts
from gate.judging.ground_truth.literal import find_literal, quoted
from gate.judging.ground_truth.values import computed


def evaluate(parameters: ResponseNotContains, facts: Facts) -> Answer:
    """An absent response is ``not_run``: silence is no proof of obedience."""
    banned = computed(parameters.pattern, facts.record.run_date)
    expected = (
        f"no {quoted(banned)} in the response{', ignoring upper and lower case' if parameters.ignore_case else ''}"
    )
    place = facts.response
    hit = find_literal(place, banned, ignore_case=parameters.ignore_case)
    if hit is None:
        return Answer(CheckStatus.PASSED, expected, f"not in {place.name}", place.block)
    return Answer(CheckStatus.FAILED, expected, hit, place.block)
