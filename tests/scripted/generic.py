"""A scripted agent for any skill: it reads the skill that it is offered and answers with what it read."""

from __future__ import annotations

import re
from collections.abc import Mapping

from tests.scripted.debaters import roles
from tests.scripted.demo import LOCATION
from tests.scripted.faults import Answer
from tests.scripted.judges import analyzer, comparator, grader
from tests.scripted.scenarios import Predicate, Scenario, Step, by_role
from tests.scripted.values import Reply, Request


def reader(request: Request) -> Answer:
    """Read SKILL.md where there is one; answer with its headings, or with the task."""
    location = LOCATION.search(request.system)
    results = [result.text for message in request.messages for result in message.tool_results]
    task = next(message.text for message in request.messages if message.role == "user")
    if location and not results:
        return Reply.calling("bash", {"command": f"cat {location[1]}"}, text="I read the skill first.")
    headings = re.findall(r"^#+ .+$", results[0], re.MULTILINE) if results else []
    return Reply(
        "\n".join([f"About: {task[:200]}", *(f"It has the part {heading.lstrip('# ')}." for heading in headings[:20])])
    )


def scenario(
    agent: Step = reader,
    judge: Step = grader,
    compare: Step = comparator,
    others: Mapping[str | Predicate, Step] | None = None,
) -> Scenario:
    """All roles of a session; each can be replaced. ``others``: of contract and discussion, by their system text."""
    return by_role(
        {
            "You are an agent that works alone": agent,
            "Answer with the word ready": Reply("ready"),
            "You check whether expectations": judge,
            "You compare two pieces of work": compare,
            "You explain why two runs": analyzer,
            **roles(),
            **(others or {}),
        }
    )
