"""The agent did not run a command."""

from __future__ import annotations

import re

from gate.domain.checks import CommandNotRan
from gate.domain.judgement import CheckStatus
from gate.judging.ground_truth.command_lines import command_lines, words_of
from gate.judging.ground_truth.facts import Answer, Facts
from gate.judging.ground_truth.literal import first_pattern, quoted
from gate.judging.ground_truth.shell import plain_words
from gate.judging.ground_truth.values import NotCheckableError, clip, computed


def evaluate(parameters: CommandNotRan, facts: Facts) -> Answer:
    """Stricter than ``command_ran`` is generous: the words are looked for anywhere in a line, since quotes can be executed.

    Words are still compared whole: ``rm -rf`` is not in ``rm -rfv``. A call without a line is ``not_run``.
    """
    day = facts.record.run_date
    lines = command_lines(facts, parameters.tool, parameters.field)
    if parameters.text is not None:
        text = computed(parameters.text, day)
        expected = f"no command {quoted(text)} in the calls of {clip(parameters.tool)}"
        words = plain_words(text)
        if not words:
            raise NotCheckableError(f"{quoted(text)} holds no word")
        there = words_of(facts, lines, parameters.tool, parameters.field)
        hit = next((index for index, line in enumerate(there) if _stands_in(words, line)), None)
    else:
        pattern = computed(parameters.pattern or "", day, quote=re.escape)
        expected = f"no command /{clip(pattern)}/ in the calls of {clip(parameters.tool)}"
        hit, _ = first_pattern(facts, pattern, lines.texts)
    if hit is not None:
        call = lines.calls[hit]
        found = f"step {call.step}: {quoted(lines.texts[hit])}"
        return Answer(CheckStatus.FAILED, expected, found, facts.call_blocks.get(call.call_id))
    if lines.unread is not None:
        raise NotCheckableError(
            f"the call in step {lines.unread.step} has no text {clip(parameters.field)} to look into"
        )
    return Answer(CheckStatus.PASSED, expected, f"not in {len(lines.texts)} command lines")


def _stands_in(words: list[str], line: list[str]) -> bool:
    """Whether the words stand in a line one after the other; the first also with a folder in front."""
    first = words[0]
    for start in range(len(line) - len(words) + 1):
        head = line[start]
        named = head == first or ("/" not in first and head.rsplit("/", 1)[-1] == first)
        if named and line[start + 1 : start + len(words)] == words[1:]:
            return True
    return False
