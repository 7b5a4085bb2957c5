"""The files that a step writes for the runner: GITHUB_OUTPUT, GITHUB_STATE, GITHUB_ENV, GITHUB_STEP_SUMMARY."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

SUMMARY_BYTES = 1024 * 1024


class FileCommandError(ValueError):
    """A file that the runner cannot read: the step fails."""


def parse_pairs(text: str) -> Iterator[tuple[str, str]]:
    """(name, value) in order: ``name=value`` or ``name<<DELIMITER``, the value's lines, a line with nothing else in it.

    Pairs before a mistake are given, as the runner keeps them. Only LF ends a line.

    Raises:
        FileCommandError: A line that is neither, no name, no delimiter, or a delimiter that never comes on a line of its
            own (as where the value before it does not end with a newline).
    """
    lines = text.split("\n")
    number = 0
    while number < len(lines):
        line = lines[number]
        number += 1
        if not line:
            continue
        equals, heredoc = line.find("="), line.find("<<")
        if equals >= 0 and (heredoc < 0 or equals < heredoc):
            name, _, value = line.partition("=")
            if not name:
                raise FileCommandError(f"Invalid format '{line}': a name must not be empty")
            yield name, value
            continue
        if heredoc < 0:
            raise FileCommandError(f"Invalid format '{line}'")
        name, _, delimiter = line.partition("<<")
        if not name or not delimiter:
            raise FileCommandError(f"Invalid format '{line}': neither name nor delimiter may be empty")
        start = number
        while number < len(lines) and lines[number] != delimiter:
            number += 1
        if number == len(lines):
            raise FileCommandError(f"Invalid value. Matching delimiter not found '{delimiter}'")
        yield name, "\n".join(lines[start:number])
        number += 1


def read_summary(path: Path, mask: Callable[[str], str]) -> tuple[str, str | None]:
    """(the summary with secrets blotted out line by line, what is wrong with it). One that is too big is dropped."""
    try:
        data = path.read_bytes()
    except OSError:
        return "", None
    if len(data) > SUMMARY_BYTES:
        return "", f"$GITHUB_STEP_SUMMARY upload aborted, supports content up to 1024k, got {len(data) // 1024}k"
    return "".join(mask(line) for line in data.decode("utf-8", "replace").splitlines(keepends=True)), None
