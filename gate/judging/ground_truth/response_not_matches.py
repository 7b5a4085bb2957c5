"""R33: a regular expression is not found in the final response."""

from __future__ import annotations

import re

from gate.domain.checks import ResponseNotMatches
from gate.domain.judgement import CheckStatus
from gate.judging.ground_truth.facts import Answer, Facts
from gate.judging.ground_truth.literal import find_pattern
from gate.judging.ground_truth.values import clip, computed


def evaluate(parameters: ResponseNotMatches, facts: Facts) -> Answer:
    """As ``response_matches``, reversed; an absent response and a search without an answer are ``not_run``."""
    pattern = computed(parameters.pattern, facts.record.run_date, quote=re.escape)
    place = facts.response
    hit = find_pattern(facts, place, pattern, ignore_case=parameters.ignore_case)
    expected = f"no match of /{clip(pattern)}/ in the response"
    if hit is None:
        return Answer(CheckStatus.PASSED, expected, f"no match in {place.name}", place.block)
    return Answer(CheckStatus.FAILED, expected, hit, place.block)
