"""Nothing was left to be filled in."""

from __future__ import annotations

import re

from gate.domain.checks import ResponseNoPlaceholders
from gate.domain.judgement import CheckStatus
from gate.judging.ground_truth.facts import RESPONSE, Answer, Facts
from gate.judging.ground_truth.literal import quoted
from gate.judging.ground_truth.markdown import prose
from gate.judging.ground_truth.values import clip, computed

# Each form is linear: no two repetitions can take the same character.
_FORMS = {
    "braces": re.compile(r"\$?\{\{?[ \t]*[^\W\d][\w.\-]{0,60}(?: [\w.\-]{1,60}){0,4}[ \t]*\}\}?"),
    "marks": re.compile(r"(?<![\w-])(?:TODO|TBD|FIXME|XXX)(?![\w-])"),
    "lorem": re.compile(r"(?i)\blorem ipsum\b"),
    "brackets": re.compile(r"\[(?i:(?:your|insert|enter|add|fill in|replace|placeholder)\b)[^\]\[\n]{0,80}\](?!\()"),
}
_MARKDOWN = (".md", ".markdown")


def evaluate(parameters: ResponseNoPlaceholders, facts: Facts) -> Answer:
    """In Markdown only prose counts: a template in a code block is what the block is about. Other files count whole."""
    path = computed(parameters.path, facts.record.run_date)
    forms = ", ".join(parameters.forms)
    expected = f"no placeholder ({forms}) in {'the response' if path == RESPONSE else clip(path)}"
    place = facts.text_of(path)
    markdown = path == RESPONSE or path.lower().endswith(_MARKDOWN)
    blocks = prose(place.text) if markdown else [(place.text, 1)]
    for text, first in blocks:
        for form in parameters.forms:
            for hit in _FORMS[form].finditer(text):
                if hit.group() not in parameters.allow:
                    line = first + text.count("\n", 0, hit.start())
                    found = f"line {line} of {place.name}: {quoted(hit.group())}"
                    return Answer(CheckStatus.FAILED, expected, found, place.block)
    return Answer(CheckStatus.PASSED, expected, f"none in {place.name}", place.block)
