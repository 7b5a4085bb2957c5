"""R86: a Markdown heading in the final response."""

from __future__ import annotations

from gate.domain.checks import ResponseHasHeading
from gate.domain.judgement import CheckStatus
from gate.judging.ground_truth.facts import RESPONSE, Answer, Facts, normalised
from gate.judging.ground_truth.literal import quoted
from gate.judging.ground_truth.values import clip, computed


def headings(text: str) -> list[tuple[int, str, int]]:
    """(level, text without inline marks, 1-based line) of every CommonMark heading; fenced and indented code has none."""
    from markdown_it import MarkdownIt

    found = []
    tokens = MarkdownIt("commonmark").parse(text)
    for index, token in enumerate(tokens):
        if token.type == "heading_open":
            inline = tokens[index + 1]
            plain = "".join(child.content for child in inline.children or () if child.type in ("text", "code_inline"))
            line = token.map[0] + 1 if token.map else 1
            found.append((int(token.tag[1:]), " ".join(plain.split()), line))
    return found


def headings_of(facts: Facts, path: str) -> list[tuple[int, str, int]]:
    """The headings of the response or of a file, read once a run. Raises NotCheckableError."""
    return facts.remembered(("headings", path), lambda: headings(facts.text_of(path).text))


def evaluate(parameters: ResponseHasHeading, facts: Facts) -> Answer:
    """The text, where given, is compared whole and case by case, without inline marks such as ``**``."""
    wanted = None
    if parameters.text is not None:
        wanted = " ".join(normalised(computed(parameters.text, facts.record.run_date)).split())
    expected = f"a heading of level {parameters.level}" + (f" {quoted(wanted)}" if wanted is not None else "")
    place = facts.response
    there = headings_of(facts, RESPONSE)
    for level, text, line in there:
        if level == parameters.level and wanted in (None, text):
            return Answer(CheckStatus.PASSED, expected, f"line {line} of {place.name}: {quoted(text)}", place.block)
    names = ", ".join(f"{'#' * level} {text}" for level, text, _ in there)
    found = f"other headings: {clip(names, 300)}" if there else f"no heading in {place.name}"
    return Answer(CheckStatus.FAILED, expected, found, place.block)
