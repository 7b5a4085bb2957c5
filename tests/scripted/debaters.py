"""Scripted roles of the contract and of the discussion: literal, fair, and with something to say where the record has it."""

from __future__ import annotations

import re
from typing import Any

from tests.scripted.faults import Answer
from tests.scripted.judges import LINE, LITERAL
from tests.scripted.scenarios import Predicate, Step
from tests.scripted.values import Reply, Request

BLOCK = re.compile(r"^⟦begin \w+ (B\d+) (\w+): [^\n]*⟧\n(.*?)\n⟦end", re.MULTILINE | re.DOTALL)
FENCED = r"⟦begin \w+ {}⟧\n(.*?)\n⟦end"
PROCESS = ("tool_accuracy", "error_recovery", "efficiency")
DIMENSIONS = ("task_completion", "truthfulness", "tool_accuracy", "output_quality", "error_recovery", "efficiency")


def roles() -> dict[str | Predicate, Step]:
    """Who answers, by what the system text says."""
    return {
        "You evaluate one run of an AI agent": evaluator,
        "You evaluate single dimensions": evaluator_again,
        "You speak for the side of the work": defender,
        "You speak for the people who have to rely": prosecutor,
        "You write down what a task asks for": generator,
        "You review a document that says": reviewer,
        "You draft test tasks for a skill": drafter,
    }


def _lines(text: str, *kinds: str) -> list[tuple[str, str]]:
    """(line id, text) of the record's blocks of some kinds that tell enough to be quoted."""
    found = []
    for _, kind, body in BLOCK.findall(text):
        if kind in kinds:
            found += [(place, line) for place, line in LINE.findall(body) if len(line.strip()) >= 12]
    return found


def _asked(text: str) -> list[str]:
    last: str = re.findall(r"^Give the dimensions (.*)\.$", text, re.MULTILINE)[-1]
    return last.split(", ")


def _part(text: str, title: str) -> str:
    found = re.search(FENCED.format(title), text, re.DOTALL)
    return found[1] if found else ""


def evaluator(request: Request) -> Answer:
    """Strict: 0.8 where nothing is to be blamed, half marks for efficiency where more than one tool was called."""
    text = request.messages[0].text
    calls, work = _lines(text, "tool_calls"), _lines(text, "response", "outputs")
    rows = []
    for name in _asked(text):
        lines = (calls or work) if name in PROCESS else (work or calls)
        score = 0.5 if name == "efficiency" and len(BLOCK.findall(text)) > 2 else 0.9 if name == "truthfulness" else 0.8
        quotes = [{"source": lines[0][0], "text": lines[0][1]}] if lines else []
        rows.append({"dimension": name, "score": score, "quotes": quotes, "reason": "What the quoted line shows."})
    asked = re.findall(r"^(k\d+) \| (.+)$", text, re.MULTILINE)
    criteria = [_criterion(name, words, [*work, *calls]) for name, words in asked]
    return Reply.of_json({"dimensions": rows, "criteria": criteria, "note": "Read line by line."})


def _criterion(name: str, words: str, lines: list[tuple[str, str]]) -> dict[str, Any]:
    quotes = []
    for literal in LITERAL.findall(words):
        found = next(((place, line) for place, line in lines if literal in line), None)
        if found is None:
            return {"id": name, "met": "no", "quotes": []}
        quotes.append({"source": found[0], "text": found[1]})
    return {"id": name, "met": "yes" if quotes else "unsure", "quotes": quotes}


def evaluator_again(request: Request) -> Answer:
    """A little better than the first look: the points are fair."""
    rows = [
        {"dimension": name, "score": 0.6, "reason": "The point holds."} for name in _asked(request.messages[0].text)
    ]
    return Reply.of_json({"dimensions": rows})


def defender(request: Request) -> Answer:
    """Object to half marks for efficiency with a passage that nobody cited, and accept everything else."""
    text = request.messages[0].text
    cited = _part(text, "cited")
    fresh = [
        (place, line) for place, line in _lines(text, "tool_calls") if place not in cited and line[:40] not in cited
    ]
    if "efficiency: 0.5:" not in _part(text, "report") or not fresh:
        return Reply.of_json({"accepts": True, "objections": []})
    place, line = fresh[-1]
    point = {
        "dimension": "efficiency",
        "text": "The further call was needed: what it shows was not known before.",
        "quotes": [{"source": place, "text": line}],
    }
    return Reply.of_json({"accepts": False, "objections": [point]})


def prosecutor(request: Request) -> Answer:
    """Nothing to add."""
    del request
    return Reply.of_json({"accepts": True, "objections": []})


def generator(request: Request) -> Answer:
    """A document with one criterion; with a second one where a reviewer asked for it."""
    text = request.messages[0].text
    task = _part(text, "task")
    words = re.findall(r"\b[A-Za-z]+\.[a-z]{2,4}\b|\b\d[\d.]*\b|\b[A-Z][a-z]{3,}\b", task) or task.split()[:1]
    # What a task puts into backquotes is what an answer about it must name.
    words = re.findall(r"`(\w+)`", task) or words
    criteria = [f'The answer names "{words[-1]}".']
    if "# Findings" in text:
        criteria.append(f'The answer or a file speaks of "{words[0]}".')
    return Reply.of_json(
        {
            "requirement_summary": " ".join(task.split())[:200],
            "key_deliverables": ["An answer that stands on its own."],
            "success_criteria": criteria,
            "technical_approach": "Read what is there, work it out, check it.",
            "risk_areas": ["Something that the task names is left out."],
            "plan": [
                "[SEARCH] Read what the task names.",
                "[CREATE] Work it out.",
                "[VERIFY] Compare it with the task.",
            ],
        }
    )


def reviewer(request: Request) -> Answer:
    """0.70 for one criterion, 0.88 for more, and never content with a ticket. Its ``approved`` is too strict by a little."""
    text = request.messages[0].text
    document = _part(text, "document")
    criteria = document.partition("success_criteria:")[2].partition("technical_approach:")[0].count("\n- ")
    score = 0.78 if "icket" in _part(text, "task") else 0.88 if criteria > 1 else 0.70
    findings = ["One criterion is not enough: name everything that the task names."] if score < 0.8 else ["Complete."]
    return Reply.of_json({"score": score, "approved": score > 0.88, "findings": findings})


def drafter(request: Request) -> Answer:
    """One task from the first listed rule of SKILL.md."""
    lines = [line for _, line in LINE.findall(request.messages[0].text)]
    rules = [line for line in lines if re.match(r"[-*] |\d+\. ", line) and len(line) > 20] or [
        line for line in lines if len(line) > 30 and not line.startswith(("#", "-", "name", "description"))
    ]
    return Reply.of_json(
        {
            "tasks": [
                {
                    "name": "The plain case",
                    "type": "happy_path",
                    "prompt": "Please do what you do best with Quarterly figures 2025.",
                    "files": [],
                    "rules": rules[:1],
                    "checks": [],
                }
            ]
        }
    )
