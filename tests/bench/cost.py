"""What a default pull request costs: one existing skill of each type, five cases, mode standard, counted at the model server.

``python -m tests.bench.cost [--small]``. The agents are scripted, so the turns of a run are the shortest that read the skill,
do one thing and answer; real agents take more. The second push changes SKILL.md once more, with the cache of the first one.
"""

from __future__ import annotations

import argparse
import json
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tests.bench._figures import figure, last_line, table
from tests.bench._trust import markdown_table, write_section
from tests.in_process import Ran, gate
from tests.scripted.demo import LOCATION
from tests.scripted.faults import Answer
from tests.scripted.values import Reply, Request

if TYPE_CHECKING:
    from tests.bench.cache import Paid

NAME = "cost"
FIRST, SECOND = 250, 110
CASES = ("happy_path", "happy_path", "happy_path", "edge_case", "negative")
TYPES = ("text_generation", "code_execution", "mcp_based")


def _skill(kind: str, word: str) -> str:
    return (
        f"---\nname: {kind.replace('_', '-')}\ndescription: Sums. Use when somebody asks for a sum.\n---\n# Sums\n\n"
        f"Always show the steps {word}. Never round.\n"
    )


def repository(kind: str, cases: Sequence[str] = CASES) -> tuple[dict[str, str], dict[str, str | None]]:
    """(main, change) of a repository with one skill of a type and its suite."""
    folder = f"skills/{kind.replace('_', '-')}"
    evals: list[dict[str, Any]] = []
    for number, case_type in enumerate(cases, start=1):
        evals.append(
            {
                "id": f"{case_type}-{number}",
                "prompt": f"What is {number} and 2?",
                "type": case_type,
                "checks": [{"id": "words", "kind": "response_contains", "keyword": "Sums", "severity": "should"}],
                "expectations": [{"id": "steps", "text": 'The answer contains the word "Sums".'}],
                **({"mcp_servers": [{"name": "adder", "tools": [{"name": "add", "responses": [{"text": "3"}]}]}]} if kind == "mcp_based" else {}),
            }
        )  # fmt: skip
    main = {
        f"{folder}/SKILL.md": _skill(kind, "in order"),
        f"{folder}/evals/skill-gate.yaml": json.dumps({"version": 1, "cases": evals}),
    }
    if kind == "code_execution":
        main[f"{folder}/scripts/add.py"] = "print(1 + 2)\n"
    return main, {f"{folder}/SKILL.md": _skill(kind, "one by one")}


def agent(request: Request) -> Answer:
    """Read the skill where there is one, list the folder, answer: three turns with it, two without."""
    location = LOCATION.search(request.system)
    results = [result.text for message in request.messages for result in message.tool_results]
    if location and not results:
        return Reply.calling("bash", {"command": f"cat {location[1]}"}, text="I read the skill first.")
    if len(results) == (1 if location else 0):
        return Reply.calling("list_files", {"path": "."}, text="I look around.")
    return Reply("Sums: one and two are three, step by step." if location else "It is three, nothing else to say.")


def measure(kind: str, cases: Sequence[str] = CASES) -> Ran:
    """One first push."""
    main, change = repository(kind, cases)
    with tempfile.TemporaryDirectory() as folder:
        return gate(Path(folder), main, change, options=("--mode", "standard"), steps={"agent": agent})


def second_push(kind: str, cases: Sequence[str]) -> Paid:
    """A push after the first one in which only SKILL.md differs."""
    from tests.bench.cache import pushes  # which measures what the cache saves, over the repository from here

    return pushes(kind, cases, keep=True)[1]


def runs_of(ran: Ran) -> int:
    """Runs that finished, over all arms."""
    return sum(arm["finished"] for arm in ran.skill["arms"])


def tokens_of(ran: Ran) -> int:
    """Tokens of all roles, as the server reported them."""
    return sum(use["known_input_tokens"] + use["known_output_tokens"] for use in ran.report["usage"])


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the bench."""
    parser = argparse.ArgumentParser(prog=f"python -m tests.bench.{NAME}", description=__doc__)
    parser.add_argument("--small", action="store_true")
    small = parser.parse_args(arguments).small
    rows, figures = [], []
    for kind in TYPES[:1] if small else TYPES:
        ran = measure(kind, CASES[:2] if small else CASES)
        if ran.skill["type"] != kind or not runs_of(ran):
            print(f"{kind}: not measured: {ran.report['headline']}")
            return 2
        roles = {role: sum(use["calls"] for use in ran.report["usage"] if use["role"] == role) for role in ("executor", "grader", "comparator", "analyzer")}  # fmt: skip
        again = second_push(kind, CASES[:2] if small else CASES)
        fixed = 9 * len(ran.skill["cases"])
        rows.append(
            [
                kind,
                str(runs_of(ran)),
                str(ran.calls),
                *(str(count) for count in roles.values()),
                f"{tokens_of(ran):,}",
                str(again.calls),
                f"{again.tokens:,}",
            ]
        )
        figures.append(figure(NAME, ran.calls, f"model calls of a first push, {kind}", n=runs_of(ran), goal=f"<= {FIRST}", ok=ran.calls <= FIRST, baseline=float(ran.calls * fixed / runs_of(ran))))  # fmt: skip
        figures.append(figure(NAME, again.calls, f"model calls of a second push, {kind}", n=runs_of(ran), goal=f"<= {SECOND}", ok=again.calls <= SECOND, baseline=float(ran.calls)))  # fmt: skip
    head = [
        "skill type, 5 cases",
        "runs",
        "calls",
        "executor",
        "grader",
        "comparator",
        "analyzer",
        "tokens",
        "calls, 2nd push",
        "tokens, 2nd push",
    ]
    print(table(head, rows))
    if not small:
        write_section(
            NAME,
            "What a pull request costs",
            f"{(__doc__ or '').split(chr(10), 2)[2].split('. ', 1)[1].strip()}\n\n{markdown_table(head, rows)}",
        )
    print(last_line(figures))
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
