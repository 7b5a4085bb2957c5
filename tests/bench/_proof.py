"""Another tool itself on the same changes: skillproof, whose own agent loop asks any OpenAI-compatible server.

It gets the same skill text, the same tables and the same assertions as far as it has them: ``contains``, ``not_contains``,
``file_exists``; what a judge decides for the gate is a literal for it, which is in its favour; an order of tool calls it
cannot check. The server's scripted agent is the one of the whole bench.
"""

from __future__ import annotations

import json
import re
import subprocess
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from tests.bench._follower import Chance, listing_of, plan, task_of
from tests.bench._judged import literal_judge, whole_session
from tests.bench._peers import peer_python
from tests.bench._sabotage import MISS, SEED, Picked
from tests.bench._taught import TaughtCase, taught
from tests.scripted.faults import Answer
from tests.scripted.scenarios import Scenario
from tests.scripted.server import ScriptedServer
from tests.scripted.values import Reply, Request, ToolCall
from tests.story import gate_environment

TOOL = "skillproof==0.1.0"
RUNS = 2
_SKILL = re.compile(r"<skill name=[^>]*>\n(.*)\n</skill>", re.DOTALL)


def versions_and_rows(corpus: Sequence[Picked]) -> tuple[list[str], list[list[str]]]:
    """(what to know, rows) of the tool and of the gate on the same changes; no rows where it cannot be installed."""
    python = peer_python("skillproof", TOOL)
    if isinstance(python, str):
        return [f"{python}; only policies are compared."], []
    rows = []
    for item in _some(corpus):
        rows += _both(python, item)
    return [
        (
            f"skillproof is {TOOL.partition('==')[2]}, its `openai-compatible` runner with {RUNS} trials of each arm; its gate is "
            "`--min-lift 0`, as in the workflow of its README; what stands in quotes is what its report says besides. What only a judge "
            "decides for the gate is a literal for it, and an order of calls it cannot check. The gate ran whole sessions with boxes in memory; wall times are "
            "of programs with different duties: the gate also runs the base version, fills, confirms, compares blind and seals."
        )
    ], rows


def _some(corpus: Sequence[Picked]) -> list[Picked]:
    """Some sabotages and neutral changes of skills without a script, which would have another path there."""
    fit = [
        item
        for item in corpus
        if "count.py" not in item.text and item.path == "SKILL.md" and item.operator != "corrupt-front-matter"
    ]
    sabotages = {item.operator: item for item in fit if item.kind in ("check", "expectation")}
    neutral = {item.operator: item for item in fit if item.kind == "neutral"}
    return [*list(sabotages.values())[:5], *list(neutral.values())[:2]]


def _both(python: Path, item: Picked) -> list[list[str]]:
    skill = taught(SEED, item.skill)
    name = f"{item.operator} ({'neutral' if item.kind == 'neutral' else 'sabotage'})"
    begin = time.monotonic()
    own = whole_session(skill, item.path, item.text, seed=f"{SEED}/tools", miss=MISS, judge=literal_judge)
    rows = [["Skill Gate", name, own.verdict.value, f"{time.monotonic() - begin:.1f}", str(own.calls)]]
    with tempfile.TemporaryDirectory(prefix="proof-") as folder, ScriptedServer(_scenario()) as server:
        place = Path(folder) / skill.name
        _write(place, item.text, skill.cases, server.openai_url)
        begin = time.monotonic()
        done = subprocess.run(
            [
                str(python), "-m", "skillproof", "run", str(place), "--trials", str(RUNS), "--yes", "--format", "json",
                "--output", f"{folder}/found.json", "--out", f"{folder}/out", "--min-lift", "0",
            ],
            cwd=folder, env=gate_environment(OPENAI_API_KEY="scripted"), capture_output=True, text=True, timeout=280, check=False,
        )  # fmt: skip
        took = time.monotonic() - begin
        rows.append(
            ["skillproof", name, _said(Path(folder) / "found.json", done), f"{took:.1f}", str(len(server.requests))]
        )
    return rows


def _said(file: Path, done: subprocess.CompletedProcess[str]) -> str:
    says = {0: "passes", 1: "says no"}.get(done.returncode, f"exit {done.returncode}")
    try:
        found: Any = json.loads(file.read_text("utf-8"))
        lift, verdict = found.get("lift"), found.get("verdict")
        return f'{says}, lift {lift:+.0%}, "{verdict}"' if isinstance(lift, float) else says
    except (OSError, ValueError, AttributeError):
        return says


def _write(place: Path, text: str, cases: Sequence[TaughtCase], url: str) -> None:
    place.mkdir(parents=True)
    (place / "SKILL.md").write_text(text, "utf-8")
    listed = []
    for case in cases:
        fixture = place / "fixtures" / case.eval_id
        fixture.mkdir(parents=True)
        (fixture / "input.csv").write_text(listing_of(case.task.rows), "utf-8")
        (fixture / "notes.txt").write_text("Nothing special this week.\n", "utf-8")
        asserted = [known for item in case.assertions if (known := _assertion(item.value)) is not None]
        listed.append(
            {"name": case.eval_id, "prompt": case.prompt, "fixtures": f"fixtures/{case.eval_id}", "assert": asserted}
        )
    config = {
        "skill": ".", "runner": "openai-compatible", "model": "scripted", "runner_options": {"base_url": url}, "trials": RUNS,
        "cases": listed,
    }  # fmt: skip
    (place / "evals.yaml").write_text(json.dumps(config), "utf-8")


def _assertion(value: dict[str, Any]) -> dict[str, Any] | None:
    if "text" in value and "kind" not in value:
        return {
            "type": "contains",
            "value": value["text"].removeprefix('The answer holds "').removesuffix('".'),
            "case_sensitive": True,
        }
    if value["kind"] == "response_contains":
        return {"type": "contains", "value": value["keyword"], "case_sensitive": True}
    if value["kind"] == "response_not_contains":
        return {"type": "not_contains", "value": value["pattern"], "case_sensitive": True}
    return {"type": "file_exists", "path": value["path"]} if value["kind"] == "file_exists" else None


def _scenario() -> Scenario:
    """The follower for the tools of skillproof: the skill's text stands in its system prompt."""

    def agent(request: Request) -> Answer:
        found = _SKILL.search(request.system)
        task = next(message.text for message in request.messages if message.role == "user")
        results = [item.text for message in request.messages for item in message.tool_results]
        if not results:
            return Reply("", (ToolCall("read_file", {"path": "input.csv"}),))
        # Its trials send equal requests, so they get equal luck: there is nothing in them that tells one from another.
        work = plan(found[1] if found else "", task_of(task, results[0]), Chance(f"{SEED}/{task}/{results[0]}", MISS))
        answer = work.answer({})
        if len(results) - 1 < len(work.calls):
            kind, what, _ = work.calls[len(results) - 1]
            tool = {
                "read": ToolCall("read_file", {"path": what}),
                "run": ToolCall("run_command", {"command": what}),
                "write": ToolCall("write_file", {"path": what, "content": answer}),
            }[kind]
            return Reply("", (tool,))
        return Reply(answer)

    return agent
