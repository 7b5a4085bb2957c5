"""A collected file contains a text or matches a pattern."""

from __future__ import annotations

import re

from gate.domain.checks import FileContains
from gate.domain.judgement import CheckStatus
from gate.judging.ground_truth.facts import Answer, Facts
from gate.judging.ground_truth.literal import find_literal, find_pattern, quoted
from gate.judging.ground_truth.values import clip, computed


def evaluate(parameters: FileContains, facts: Facts) -> Answer:
    """A missing file is ``not_run``. An unchanged fixture may be asked about (was it left alone?); ``found`` says so."""
    day = facts.record.run_date
    place = facts.file_text(computed(parameters.path, day))
    if parameters.text is not None:
        wanted = computed(parameters.text, day)
        expected = f"{quoted(wanted)} in {clip(parameters.path)}"
        hit = find_literal(place, wanted)
    else:
        pattern = computed(parameters.pattern or "", day, quote=re.escape)
        expected = f"a match of /{clip(pattern)}/ in {clip(parameters.path)}"
        hit = find_pattern(facts, place, pattern)
    if hit is None:
        return Answer(CheckStatus.FAILED, expected, f"not in {place.name}", place.block)
    return Answer(CheckStatus.PASSED, expected, hit, place.block)
