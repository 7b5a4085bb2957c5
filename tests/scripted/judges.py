"""Scripted judges that read what they are shown and decide by simple rules of text: honest, literal, never lenient.

They see what a real judge sees (numbered lines between fences) and answer in the reply format of the prompts.
"""

from __future__ import annotations

import re
from typing import Any

from tests.scripted.faults import Answer
from tests.scripted.values import Reply, Request

LINE = re.compile(r"^((?:B|S)\d*:\d+)\|(.*)$", re.MULTILINE)
ROW = re.compile(r"^(\S+) \| ([^|]+) \| (.+)$", re.MULTILINE)
LITERAL = re.compile(r"[\"`]([^\"`]+)[\"`]")


def grader(request: Request) -> Answer:
    """Pass a row where every quoted word of it stands in the record, and quote the lines where they do."""
    text = request.messages[0].text if len(request.messages) == 1 else request.messages[-1].text
    lines = LINE.findall(text)
    rows = [_grade(row_id, kind, words, lines) for row_id, kind, words in ROW.findall(text)]
    return Reply.of_json({"rows": rows, "claims": [], "eval_feedback": []})


OPPOSITE = "It is not the case in this run that the following holds: "


def _grade(row_id: str, kind: str, words: str, lines: list[tuple[str, str]]) -> dict[str, Any]:
    if words.startswith(OPPOSITE):
        itself = _grade(row_id, kind, words.removeprefix(OPPOSITE), lines)
        if itself["verdict"] == "pass":
            return {**itself, "quotes": [], "reason": "The record shows that it holds.", "verdict": "fail"}
        return itself
    wanted = LITERAL.findall(words)
    quotes = []
    for literal in wanted:
        found = [(place, line) for place, line in lines if literal in line]
        if "tool" in kind:
            found = [(place, line) for place, line in found if place.startswith("B")]
        if not found:
            return {"id": row_id, "quotes": [], "reason": f"{literal} does not occur.", "verdict": "fail"}
        # A quote must tell something: a line that is too short to is no evidence.
        place, line = next((item for item in found if len(item[1].strip()) >= 8), found[0])
        quotes.append({"source": place, "text": line if len(line.strip()) >= 8 else literal})
    if not wanted:
        return {"id": row_id, "quotes": [], "reason": "It names nothing to look for.", "verdict": "unsure"}
    return {"id": row_id, "quotes": quotes, "reason": "All that it names stands in the record.", "verdict": "pass"}


def comparator(request: Request) -> Answer:
    """Score both outputs by the same rules of text, whatever their order."""
    text = request.messages[0].text
    first, second = (_section(text, name) for name in ("first", "second"))
    checklist = text.partition("# Checklist")[2].partition("# The first output")[0]
    wanted = LITERAL.findall(checklist)
    one, two = _scores(first, wanted), _scores(second, wanted)
    quotes = [
        {"criterion": name, "output": side, "source": lines[0][0], "text": lines[0][1]}
        for name in one
        if abs(one[name] - two[name]) >= 2
        for side, lines in (("first", first), ("second", second))
        if lines
    ]
    reasoning = f"The first output meets {one['completeness']} of 5, the second {two['completeness']} of 5."
    return Reply.of_json({"reasoning": reasoning, "quotes": quotes, "first": one, "second": two})


def _section(text: str, name: str) -> list[tuple[str, str]]:
    section = text.partition(f"# The {name} output")[2].partition("# The second output")[0].partition("\nFacts\n")[0]
    return [(place, line) for place, line in LINE.findall(section) if len(line.strip()) >= 8]


def _scores(lines: list[tuple[str, str]], wanted: list[str]) -> dict[str, int]:
    whole = "\n".join(line for _, line in lines)
    met = sum(literal in whole for literal in wanted)
    content = 1 + (4 * met) // len(wanted) if wanted else 3
    form = 4 if re.search(r"^(?:## |- )", whole, re.MULTILINE) else 3
    names = ("correctness", "completeness", "accuracy")
    return dict.fromkeys(names, content) | {
        "organization": form,
        "formatting": form,
        "usability": min(5, (content + form + 1) // 2),
    }


def analyzer(request: Request) -> Answer:
    """Name the first rule of SKILL.md as what to look at; say what a tie or a loss asks for."""
    text = request.messages[0].text
    rules = [line for place, line in LINE.findall(text) if place.startswith("S") and line.startswith("- ")]
    rule = rules[0] if rules else ""
    won, lost = "outcome: skill_wins" in text, "outcome: baseline_wins" in text
    with_steps = text.partition("# Record with the skill")[2].partition("# Record without the skill")[0].count("⟦begin")
    without_steps = text.partition("# Record without the skill")[2].count("⟦begin")
    causes = [{"text": "It keeps to the rule.", "rule_quote": rule}] if won and rule else []
    return Reply.of_json(
        {
            "execution_patterns": {
                "with_skill": f"The record with the skill has {with_steps} blocks.",
                "without_skill": f"The record without the skill has {without_steps} blocks.",
            },
            "winner_strengths": causes,
            "loser_weaknesses": [{"text": "A rule led astray.", "rule_quote": rule}] if lost and rule else [],
            "instruction_following": {
                "with_skill": {"score": 8, "issues": []},
                "without_skill": {"score": 5, "issues": ["It could not know the rules."]},
            },
            "improvement_suggestions": [
                {
                    "priority": "medium",
                    "category": "instructions",
                    "suggestion": "Say in one line what an answer must never leave out.",
                    "expected_impact": "Both agents did well here; a stricter rule would show the difference.",
                    "rule_quote": rule,
                    "harmful_rule": lost,
                }
            ],
        }
    )
