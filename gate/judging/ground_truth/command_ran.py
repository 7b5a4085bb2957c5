"""The agent ran a command."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator

from gate.domain.checks import CommandRan
from gate.domain.judgement import CheckStatus
from gate.judging.ground_truth.command_lines import Lines, command_lines, commands_of
from gate.judging.ground_truth.facts import Answer, Facts
from gate.judging.ground_truth.literal import first_pattern, quoted
from gate.judging.ground_truth.shell import begins_with
from gate.judging.ground_truth.values import REPORTED, NotCheckableError, clip, computed


def evaluate(parameters: CommandRan, facts: Facts) -> Answer:
    """Words are compared whole and at the beginning of a command, so neither ``npm test-all`` nor ``echo npm test`` counts.

    A call that never got its result may not have run: it does not count.
    """
    day = facts.record.run_date
    ending = "" if parameters.exit_code is None else f" with exit code {parameters.exit_code}"
    lines = command_lines(facts, parameters.tool, parameters.field)
    if parameters.text is not None:
        wanted = computed(parameters.text, day)
        expected = f"a command {quoted(wanted)} in a call of {clip(parameters.tool)}{ending}"
        hits = _by_words(parameters, facts, lines, _words(wanted))
    else:
        pattern = computed(parameters.pattern or "", day, quote=re.escape)
        expected = f"a command that matches /{clip(pattern)}/ in a call of {clip(parameters.tool)}{ending}"
        hits = _by_pattern(facts, lines, pattern)
    otherwise = ""
    reported = False
    for index in hits:
        call = lines.calls[index]
        if call.status == "no_result":
            otherwise = f"; whether the one in step {call.step} ran is not known"
        elif parameters.exit_code is not None and call.reported:
            reported = True
        elif parameters.exit_code not in (None, call.exit_code):
            otherwise = f"; it ended with exit code {call.exit_code} in step {call.step}"
        else:
            found = f"step {call.step}: {quoted(lines.texts[index])} ({call.status})"
            return Answer(CheckStatus.PASSED, expected, found, facts.call_blocks.get(call.call_id))
    if reported:
        raise NotCheckableError(REPORTED)
    return Answer(CheckStatus.FAILED, expected, f"not among {len(lines.texts)} command lines{otherwise}")


def _words(wanted: str) -> list[str]:
    try:
        words = shlex.split(wanted)
    except ValueError:
        raise NotCheckableError(f"{quoted(wanted)} is no command: a quote does not close") from None
    if not words:
        raise NotCheckableError(f"{quoted(wanted)} holds no word")
    return words


def _by_words(parameters: CommandRan, facts: Facts, lines: Lines, words: list[str]) -> Iterator[int]:
    for index, commands in enumerate(commands_of(facts, lines, parameters.tool, parameters.field)):
        if any(begins_with(command, words) for command in commands):
            yield index


def _by_pattern(facts: Facts, lines: Lines, pattern: str) -> Iterator[int]:
    start = 0
    while start < len(lines.texts):
        index, _ = first_pattern(facts, pattern, lines.texts[start:])
        if index is None:
            return
        yield start + index
        start += index + 1
