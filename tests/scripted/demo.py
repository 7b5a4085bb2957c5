"""The scripted models of the demonstration: an agent that takes its rules from the SKILL.md it reads, and its judges.

Nothing here knows which version of a skill is under test: the text of SKILL.md is the only difference between arms,
and the judges see only what a judge is shown.
"""

from __future__ import annotations

import json
import re
from decimal import Decimal

from tests.scripted.debaters import roles
from tests.scripted.faults import Answer
from tests.scripted.judges import analyzer, comparator, grader
from tests.scripted.scenarios import Scenario, by_role
from tests.scripted.values import Reply, Request, ToolCall

LOCATION = re.compile(r"location: (/skills/\S+)")


def scenario() -> Scenario:
    """Everything the demonstration asks, by who asks."""
    return by_role(
        {
            "You are an agent that works alone": agent,
            "Answer with the word ready": Reply("ready"),
            "You check whether expectations": grader,
            "You compare two pieces of work": comparator,
            "You explain why two runs": analyzer,
            **roles(),
        }
    )


def agent(request: Request) -> Answer:
    """Do the task of the first message: read the skill if there is one, then work by its rules."""
    task = next(message.text for message in request.messages if message.role == "user")
    results = [result.text for message in request.messages for result in message.tool_results]
    location = LOCATION.search(request.system)
    skill = ""
    if location:
        if not results:
            return Reply.calling("bash", {"command": f"cat {location[1]}"}, text="I read the skill first.")
        skill, results = results[0], results[1:]
    if ".csv" in task:
        return _csv(task, skill, results)
    if "elease notes" in task:
        return _notes(task, skill)
    return _ticket(task, skill, results)


def _csv(task: str, skill: str, results: list[str]) -> Answer:
    found = re.search(r"(\w+\.csv) by (\w+)", task)
    if found is None:
        return Reply("I need a CSV file and a column.")
    file, group = found.groups()
    if not skill:
        if not results:
            return Reply.calling("read_file", {"path": file})
        totals: dict[str, Decimal] = {}
        for line in results[0].splitlines()[1:]:
            cells = line.split(",")
            if cells[-1]:
                totals[cells[-2]] = totals.get(cells[-2], Decimal(0)) + Decimal(cells[-1])
        return Reply("\n".join(f"{name}: {value.normalize():f}" for name, value in totals.items()))
    script = re.search(r"python3 (\S+\.py)", skill)
    if not results and script:
        command = f"python3 {script[1]} {file} {group} amount > totals.json && cat totals.json"
        return Reply.calling("bash", {"command": command}, text="The skill brings a script for this.")
    done = json.loads(results[0])
    lines = [f"Totals of amount by {group}:", ""]
    lines += [f"- {name}: {value}" for name, value in done["totals"].items()]
    lines += ["", "I wrote them to totals.json."]
    if "left out: N rows" in skill:
        lines.append(f"left out: {done['left_out']} rows")
    return Reply("\n".join(lines))


def _notes(task: str, skill: str) -> Answer:
    items = re.findall(r"([^,;:.][^,;()]*?) \((\w+)\)", task.split("Merged:", 1)[-1])
    if not skill:
        return Reply("This version brings the following:\n\n" + "\n".join(f"- {text.strip()}" for text, _ in items))
    parts: dict[str, list[str]] = {name: [] for name in re.findall(r"^\d+\. `## ([^`]+)`", skill, re.MULTILINE)}
    by = " (@{})" if "@name" in skill else ""
    for text, person in items:
        kind = "Breaking changes" if "is now" in text else "Fixed" if "repaired" in text else "New"
        line = f"- {text.strip()}{by.format(person)}"
        if kind == "Breaking changes" and kind in parts:
            new = re.search(r"is now `(\w+)`", text)
            line += f': rename the key to "{new[1]}" in your settings' if new else ""
        parts.get(kind, parts["New"]).append(line)
    empty = "None."
    return Reply("\n\n".join(f"## {name}\n\n" + ("\n".join(lines) or empty) for name, lines in parts.items()))


def _ticket(task: str, skill: str, results: list[str]) -> Answer:
    number = int(re.search(r"\d{4}", task)[0])  # type: ignore[index]  # every task of the demonstration names one
    if not results:
        return Reply.calling("mcp__tickets__get", {"id": number})
    title = json.loads(results[0])["title"]
    if not skill:
        priority, team = "high", "payments" if "payment" in title else "front desk"
    else:
        rules = dict(re.findall(r"`(P\d)` (?:when|for) ([^,.]+)", skill))
        priority = next(
            (
                name
                for name, when in rules.items()
                if ("pay" in title and "pay" in when) or ("?" in title and "question" in when)
            ),
            "P2",
        )
        team = "billing" if "payment" in title else "support"
    if len(results) == 1:
        return Reply("", (ToolCall("mcp__tickets__update", {"id": number, "priority": priority, "team": team}),))
    return Reply(f'Ticket {number}: priority "{priority}", team "{team}". Reason: {title.rstrip("?.")}.')
