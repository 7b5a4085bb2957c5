"""The command lines of a run: the calls of a shell tool whose argument is a text."""

from __future__ import annotations

from typing import NamedTuple

from gate.domain.evidence import ToolCall
from gate.judging.ground_truth.facts import Facts, normalised
from gate.judging.ground_truth.shell import plain_words, simple_commands
from gate.judging.ground_truth.values import at, path_steps


class Lines(NamedTuple):
    """The calls that have a line, in the order of the record."""

    calls: tuple[ToolCall, ...]
    texts: tuple[str, ...]
    """Their lines, normalised."""
    unread: ToolCall | None
    """The first call whose argument is not there or is no text."""


def command_lines(facts: Facts, tool: str, field: str) -> Lines:
    """Read once a run, whatever the number of checks. Raises NotCheckableError for a path that is none."""
    steps = path_steps(field)

    def read() -> Lines:
        calls, texts, unread = [], [], None
        for call in facts.calls_of(tool):
            there, value = at(call.args, steps)
            if there and isinstance(value, str):
                calls.append(call)
                texts.append(normalised(value))
            else:
                unread = unread or call
        return Lines(tuple(calls), tuple(texts), unread)

    return facts.remembered(("command lines", tool, field), read)


def commands_of(facts: Facts, lines: Lines, tool: str, field: str) -> list[list[list[str]]]:
    """The simple commands of each line; none of a line that cannot be read."""
    return facts.remembered(
        ("simple commands", tool, field), lambda: [simple_commands(line) or [] for line in lines.texts]
    )


def words_of(facts: Facts, lines: Lines, tool: str, field: str) -> list[list[str]]:
    """The plain words of each line."""
    return facts.remembered(("plain words", tool, field), lambda: [plain_words(line) for line in lines.texts])
