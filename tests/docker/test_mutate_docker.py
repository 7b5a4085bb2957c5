"""``skill-gate mutate`` as people run it: a process of its own, boxes of the real engine, a scripted agent behind HTTP.

What a mutant changed reaches the agent only by the file that it reads inside its box.
"""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from tests.scripted.demo import LOCATION
from tests.scripted.faults import Answer
from tests.scripted.generic import scenario
from tests.scripted.server import ScriptedServer
from tests.scripted.values import Reply, Request
from tests.story import make_repository, run_gate

pytestmark = [pytest.mark.docker, pytest.mark.timeout(240)]

SKILL = """---
name: sums
description: Adds numbers. Use when somebody asks for a sum.
---
# Sums

- Begin with the line `Sum of your numbers`.
- End with the line `Checked twice`.
"""
TESTED, UNTESTED = 7, 8
"""Lines of the two rules."""
CASE = {
    "id": "one",
    "prompt": "What is 1 and 2?",
    "checks": [
        {"kind": "response_contains", "keyword": "Sum of your numbers"},
        {"kind": "response_matches", "pattern": r"The sum is \d"},
    ],
}


def follower(request: Request) -> Answer:
    """Read the skill, add up with a command, then say every literal of its bullets."""
    location = LOCATION.search(request.system)
    results = [result.text for message in request.messages for result in message.tool_results]
    if location and not results:
        return Reply.calling("bash", {"command": f"cat {location[1]}"})
    if len(results) < 2 and location:
        return Reply.calling("bash", {"command": "echo The sum is $((1 + 2))"})
    skill, answer = (results[0], results[1].strip()) if location else ("", "The sum is 3")
    words = [word for text in re.findall(r"^[-*] (.+)$", skill, re.MULTILINE) for word in re.findall("`([^`]+)`", text)]
    return Reply("\n".join([answer, *words]))


def test_in_real_boxes_a_tested_rule_is_guarded_an_untested_one_is_named_and_a_comment_changes_nothing(
    tmp_path: Path,
) -> None:
    repository = tmp_path / "repository"
    suite = json.dumps({"version": 1, "cases": [CASE]})
    make_repository(
        repository, {"skills/sums/SKILL.md": SKILL, "skills/sums/evals/skill-gate.yaml": suite}, {"README.md": "x\n"}
    )
    with ScriptedServer(scenario(agent=follower)) as server:
        done = run_gate(
            "mutate", repository / "skills/sums", "--repository", repository, "--out", tmp_path / "out", "--mode", "standard",
            "--operator", "delete-rule", "--operator", "comment", "--max-mutants", "3", "--no-cache", "--seed", "5" * 64,
            "--model", f"openai@{server.openai_url}:a", "--judge-model", f"openai@{server.openai_url}:j",
            OPENAI_API_KEY="key",
        )  # fmt: skip
    assert done.returncode == 0, done.stderr
    found = json.loads((tmp_path / "out" / "mutation.json").read_text("utf-8"))
    fates = {(item["operator"], item["line"]): item["fate"] for item in found["mutants"]}
    verdicts = {(item["operator"], item["line"]): item["verdict"] for item in found["mutants"]}
    neutral = [fate for (operator, _), fate in fates.items() if operator == "comment"]
    assert fates["delete-rule", TESTED] == "killed"
    assert verdicts["delete-rule", TESTED] == "fail"
    assert fates["delete-rule", UNTESTED] == "survived"
    assert neutral == ["survived"]
    assert found["calls"] >= 4
    (finding,) = [line for line in done.stdout.splitlines() if "[mutation/" in line]
    assert finding.startswith(f"skills/sums/SKILL.md:{UNTESTED}: ")
    assert "[mutation/survived]" in finding
    for name in ("unchanged", *(f"sessions/{item['id']}" for item in found["mutants"])):
        report = json.loads((tmp_path / "out" / name / "report.json").read_text("utf-8"))
        assert report["sandbox"].startswith("docker ")
