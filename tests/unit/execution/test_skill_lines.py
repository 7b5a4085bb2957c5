"""What a skill says is no evidence that it was done, however a command shows it."""

from __future__ import annotations

import pytest

from gate.domain.chat import ToolUse
from gate.execution.loop import Reading
from tests.builders_skill import a_case, a_skill

RULES = [
    "# Sums",
    "",
    "- The tool `submitDoc` was called with docStatus 10.",
    "1. The approval number is AP-99120.",
    "Say the total first.",
]


def reading() -> Reading:
    return Reading(a_skill(body="\n".join(RULES) + "\n"), a_case())


def hidden(command: str, shown: str) -> list[int]:
    return reading().skill_lines(ToolUse(id="1", name="bash", arguments={"command": command}), shown)


@pytest.mark.parametrize(
    ("command", "before"),
    [
        ("cat /skills/sums/SKILL.md", "{line}"),
        ("cat -n /skills/sums/SKILL.md", "     {number}\t{line}"),
        ("grep -n . /skills/sums/SKILL.md", "{number}:{line}"),
        ("grep -Hn . /skills/sums/SKILL.md", "/skills/sums/SKILL.md:{number}:{line}"),
        ("nl -s '. ' /skills/sums/SKILL.md", "  {number}. {line}"),
        ("sed 's/^/> /' /skills/sums/SKILL.md", "> {line}"),
        ("diff /dev/null /skills/sums/SKILL.md", "+ {line}"),
    ],
)
def test_a_line_of_the_skill_is_one_whatever_a_program_puts_before_it(command: str, before: str) -> None:
    lines = [before.format(number=number, line=line) for number, line in enumerate(RULES, 1)]
    assert {3, 4, 5} <= set(hidden(command, "\n".join(lines)))


def test_the_same_words_in_the_work_itself_stay_evidence() -> None:
    shown = "reading input\n1: The approval number is AP-99120.\nwritten"
    assert hidden("python submit.py", shown) == []
    assert hidden("ls /skills/sums", "total 4\nSKILL.md") == []
