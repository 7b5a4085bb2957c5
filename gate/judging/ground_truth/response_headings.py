"""R86: Markdown headings of the final response, in order."""

from __future__ import annotations

from gate.domain.checks import ResponseHeadings
from gate.domain.judgement import CheckStatus
from gate.judging.ground_truth.facts import RESPONSE, Answer, Facts, normalised
from gate.judging.ground_truth.response_has_heading import headings_of
from gate.judging.ground_truth.values import clip, computed


def evaluate(parameters: ResponseHeadings, facts: Facts) -> Answer:
    """Found one after the other, each behind the one before; with ``only`` there are no others."""
    wanted = [_wanted(computed(item, facts.record.run_date)) for item in parameters.headings]
    said = ", ".join(parameters.headings)
    expected = f"{'only the' if parameters.only else 'the'} headings {clip(said, 300)}, in this order"
    place = facts.response
    there = headings_of(facts, RESPONSE)
    position = 0
    for level, text, _ in there:
        if position < len(wanted) and _is(wanted[position], level, text):
            position += 1
    names = ", ".join(f"{'#' * level} {text}" for level, text, _ in there)
    found = f"headings: {clip(names, 300)}" if there else f"no heading in {place.name}"
    if position < len(wanted):
        found = f"{clip(parameters.headings[position], 80)} is missing or stands elsewhere; {found}"
        return Answer(CheckStatus.FAILED, expected, found, place.block)
    if parameters.only and len(there) > len(wanted):
        return Answer(CheckStatus.FAILED, expected, f"{len(there) - len(wanted)} more; {found}", place.block)
    return Answer(CheckStatus.PASSED, expected, found, place.block)


def _wanted(heading: str) -> tuple[int | None, str]:
    text = normalised(heading).strip()
    level = len(text) - len(text.lstrip("#"))
    return level or None, " ".join(text[level:].split())


def _is(wanted: tuple[int | None, str], level: int, text: str) -> bool:
    return wanted[0] in (None, level) and wanted[1] == text
