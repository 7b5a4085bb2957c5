"""A collected file does not contain a text or match a pattern."""

from __future__ import annotations

import re

from gate.domain.checks import FileNotContains
from gate.domain.judgement import CheckStatus
from gate.judging.ground_truth.facts import Answer, Facts
from gate.judging.ground_truth.literal import find_literal, find_pattern, quoted
from gate.judging.ground_truth.values import clip, computed


def evaluate(parameters: FileNotContains, facts: Facts) -> Answer:
    """A missing file, and a search without an answer, are ``not_run``: neither shows that something is not there."""
    day = facts.record.run_date
    place = facts.file_text(computed(parameters.path, day))
    if parameters.text is not None:
        wanted = computed(parameters.text, day)
        expected = f"no {quoted(wanted)} in {clip(parameters.path)}"
        hit = find_literal(place, wanted, ignore_case=parameters.ignore_case)
    else:
        pattern = computed(parameters.pattern or "", day, quote=re.escape)
        expected = f"no match of /{clip(pattern)}/ in {clip(parameters.path)}"
        hit = find_pattern(facts, place, pattern, ignore_case=parameters.ignore_case)
    if hit is None:
        return Answer(CheckStatus.PASSED, expected, f"not in {place.name}", place.block)
    return Answer(CheckStatus.FAILED, expected, hit, place.block)
