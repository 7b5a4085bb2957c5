"""R33: a regular expression is found in the final response."""

from __future__ import annotations

import re

from gate.domain.checks import ResponseMatches
from gate.domain.judgement import CheckStatus
from gate.judging.ground_truth.facts import Answer, Facts
from gate.judging.ground_truth.literal import find_pattern
from gate.judging.ground_truth.values import clip, computed


def evaluate(parameters: ResponseMatches, facts: Facts) -> Answer:
    """Python's ``re.search`` without flags: ``(?m)`` makes ``^`` and ``$`` mean lines. No answer is ``not_run``."""
    pattern = computed(parameters.pattern, facts.record.run_date, quote=re.escape)
    place = facts.response
    hit = find_pattern(facts, place, pattern, ignore_case=parameters.ignore_case)
    expected = f"a match of /{clip(pattern)}/ in the response"
    if hit is None:
        return Answer(CheckStatus.FAILED, expected, f"no match in {place.name}", place.block)
    return Answer(CheckStatus.PASSED, expected, hit, place.block)
