"""Nothing was left to be filled in."""

from __future__ import annotations

import re
from functools import partial

from gate.domain.checks import ResponseNoPlaceholders
from gate.domain.judgement import CheckStatus
from gate.judging.ground_truth.facts import RESPONSE, Answer, Facts
from gate.judging.ground_truth.literal import quoted
from gate.judging.ground_truth.markdown import Prose, prose
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
    blocks = facts.remembered(("prose", path), lambda: prose(place.text)) if markdown else [Prose(place.text, 1)]
    hits = [
        hit
        for form in parameters.forms
        for hit in facts.remembered(("placeholders", path, form), partial(_hits, blocks, form))
        if hit[1] not in parameters.allow
    ]
    if hits:
        line, text = min(hits)
        return Answer(CheckStatus.FAILED, expected, f"line {line} of {place.name}: {quoted(text)}", place.block)
    return Answer(CheckStatus.PASSED, expected, f"none in {place.name}", place.block)


def _hits(blocks: list[Prose], form: str) -> list[tuple[int, str]]:
    """Line and text of every placeholder of a form."""
    return [
        (first + text.count("\n", 0, hit.start()), hit.group())
        for text, first in blocks
        for hit in _FORMS[form].finditer(text)
    ]
