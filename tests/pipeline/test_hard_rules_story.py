"""A rule that a program can check is judged, decided and derived again without any judge."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from gate.audit.verify import verify_bundle
from reporters import render
from tests.in_process import Ran, gate
from tests.scripted.demo import LOCATION
from tests.scripted.faults import Answer
from tests.scripted.values import Reply, Request

PATH = "skills/sums"
TEXT = "---\nname: sums\ndescription: Adds numbers. Use when somebody asks for a sum.\n---\n# Sums\n\n{rule}\n"
RULE = "Begin with the line SUM."
CHECK = {"kind": "response_matches", "pattern": r"\ASUM\n", "rule_ref": RULE}
SUITE = {"version": 1, "cases": [{"id": "one", "prompt": "What is 1 and 2?", "checks": [CHECK]}]}


def agent(request: Request) -> Answer:
    """Follows the rule where the SKILL.md that it reads has it."""
    location = LOCATION.search(request.system)
    results = [result.text for message in request.messages for result in message.tool_results]
    if location and not results:
        return Reply.calling("bash", {"command": f"cat {location[1]}"})
    return Reply("SUM\n3" if results and RULE in results[0] else "3")


def nobody(request: Request) -> Answer:
    """The scripted server reports the call, and the test fails."""
    raise AssertionError(f"a judge was asked: {request.system[:80]}")


def judged(folder: Path, before: str, after: str) -> Ran:
    files = {f"{PATH}/SKILL.md": TEXT.format(rule=before), f"{PATH}/evals/skill-gate.yaml": json.dumps(SUITE)}
    change = {f"{PATH}/SKILL.md": TEXT.format(rule=after)}
    steps: dict[str, Any] = {"agent": agent, "judge": nobody, "compare": nobody}
    return gate(folder, files, change, options=("--mode", "quick"), steps=steps)


@pytest.mark.requirements("R10", "R141")
@pytest.mark.parametrize(("after", "holds"), [(f"{RULE} Keep it short.", True), ("Keep it short.", False)])
def test_a_hard_rule_needs_no_judge_from_the_run_to_the_proof(tmp_path: Path, after: str, holds: bool) -> None:
    ran = judged(tmp_path, RULE, after)
    authoritative = ran.skill["authoritative"]
    assert (authoritative["passed"], authoritative["total"]) == (int(holds), 1)  # one case
    assert ran.skill["verdict"] == ("conditional" if holds else "fail"), ran.skill["reasons"]
    assert (RULE in str(ran.skill["reasons"])) is not holds
    asked = {use["role"]: use["calls"] for use in ran.report["usage"]}
    assert asked.pop("executor") > 4
    assert asked == {"grader": 1}, "beside whether it answers"
    proof = verify_bundle(ran.bundle, render)
    assert proof.problems == ()
    assert proof.checks == proof.runs >= 4  # the one rule, looked up again in the record of each run
