"""``skill-gate mutate``: mutants are judged by whole sessions, and what survives names a line of SKILL.md."""

from __future__ import annotations

import json
import re
import subprocess
import threading
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from gate.audit.verify import verify_bundle
from gate.cli import main as run_command
from gate.domain.base import sha256_hex
from gate.wiring import bind
from reporters import render
from tests.fakes.sandbox import ScriptedSandbox
from tests.in_process import gate
from tests.scripted.demo import LOCATION
from tests.scripted.faults import Answer
from tests.scripted.generic import scenario
from tests.scripted.server import ScriptedServer
from tests.scripted.values import Reply, Request
from tests.story import git, make_repository
from tests.unit.execution.world import shell

SKILL = """---
name: sums
description: Adds numbers. Use when somebody asks for a sum.
---
# Sums

- Begin with the line `Sum of your numbers`.
- End with the line `Checked twice`.
"""
SUITE = json.dumps(
    {
        "version": 1,
        "cases": [
            {
                "id": f"case-{number}",
                "prompt": f"What is {number} and 2?",
                "checks": [
                    {"kind": "response_contains", "keyword": "Sum of your numbers"},
                    {"kind": "response_matches", "pattern": r"The sum is \d"},
                ],
            }
            for number in (1, 2)
        ],
    }
)


def follower(request: Request) -> Answer:
    """Read the skill, then say every literal of the bullets that tell to."""
    location = LOCATION.search(request.system)
    results = [result.text for message in request.messages for result in message.tool_results]
    if location and not results:
        return Reply.calling("bash", {"command": f"cat {location[1]}"})
    bullets = re.findall(r"^[-*] (?!Do not|If you like)(.+)$", results[0] if results else "", re.MULTILINE)
    return Reply("\n".join(["The sum is 3.", *(word for text in bullets for word in re.findall("`([^`]+)`", text))]))


def mutate(folder: Path, *options: str) -> tuple[int, list[str]]:
    repository = folder / "repository"
    if not repository.exists():
        make_repository(
            repository,
            {"skills/sums/SKILL.md": SKILL, "skills/sums/evals/skill-gate.yaml": SUITE},
            {"README.md": "x\n"},
        )
    log: list[str] = []
    model: Sequence[str] = ()
    with ScriptedServer(scenario(agent=follower)) as server, ScriptedSandbox(shell()) as sandbox:
        app = bind({"OPENAI_API_KEY": "key"}, threading.Event())
        if not any(option.startswith("replay:") for option in options):
            model = ("--model", f"openai@{server.openai_url}:a", "--judge-model", f"openai@{server.openai_url}:j")
        code = run_command(
            replace(app, make_sandbox=lambda: sandbox, say=log.append, abort=lambda: None),
            [
                "mutate", str(repository / "skills/sums"), "--repository", str(repository), "--out", str(folder / "out"),
                "--seed", "5" * 64, "--jobs", "2", "--no-cache", *model, *options,
            ],
        )  # fmt: skip
    return code, log


def report(folder: Path) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((folder / "out" / "mutation.json").read_text("utf-8"))
    return found


def test_a_rule_that_no_case_tests_survives_and_a_tested_one_does_not(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    code, log = mutate(tmp_path, "--operator", "delete-rule", "--operator", "emphasis", "--sarif", "--min-score", "0.9")
    assert (tmp_path / "out" / "mutation.json").is_file(), log
    found = report(tmp_path)
    fates = {(item["operator"], item["line"]): item["fate"] for item in found["mutants"]}
    assert fates["delete-rule", 7] == "killed"
    assert fates["delete-rule", 8] == "survived"
    assert found["unchanged"] in ("pass", "conditional")
    assert all(fate == "survived" for (operator, _), fate in fates.items() if operator == "emphasis")
    assert code == 1, log
    sarif = json.loads(capsys.readouterr().out)
    (survivor,) = sarif["runs"][0]["results"]
    assert survivor["ruleId"] == "mutation/survived"
    assert survivor["locations"][0]["physicalLocation"]["region"]["startLine"] == 8
    patches = sorted((tmp_path / "out" / "patches").iterdir())
    assert len(patches) == len(found["mutants"])
    git(tmp_path / "repository", "apply", "--check", *map(str, patches[:1]))
    assert (
        subprocess.run(
            ["git", "status", "--porcelain"], cwd=tmp_path / "repository", capture_output=True, check=True
        ).stdout
        == b""
    )


def test_the_list_runs_nothing_and_its_patches_apply(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code, _ = mutate(tmp_path, "--list", "--json")
    listed = json.loads(capsys.readouterr().out)
    assert code == 0
    assert {item["operator"] for item in listed} >= {
        "delete-rule",
        "negate",
        "weaken",
        "change-literal",
        "reorder-bullets",
    }
    assert not (tmp_path / "out").exists()
    for item in listed:
        done = subprocess.run(
            ["git", "apply", "--check", "-"], cwd=tmp_path / "repository", input=item["patch"], text=True, check=False
        )
        assert done.returncode == 0, item["patch"]


def test_a_recorded_audit_is_replayed_without_a_model_and_says_the_same(tmp_path: Path) -> None:
    chosen = ("--operator", "delete-rule", "--max-mutants", "1", "--mode", "smoke")
    mutate(tmp_path, *chosen, "--record", str(tmp_path / "recorded"))
    first = report(tmp_path)
    (tmp_path / "out").rename(tmp_path / "first")
    mutate(
        tmp_path,
        "--operator",
        "delete-rule",
        "--model",
        f"replay:{tmp_path / 'recorded'}",
        "--max-mutants",
        "2",
        "--mode",
        "smoke",
    )
    replayed = report(tmp_path)
    known = [item for item in replayed["mutants"] if item["fate"] != "unknown"]
    assert known == first["mutants"]
    assert [item["reason"] for item in replayed["mutants"] if item["fate"] == "unknown"] == [
        "the recording holds no session of this mutant"
    ]


def test_the_budget_ends_it_and_says_how_much_was_left_out(tmp_path: Path) -> None:
    _, log = mutate(tmp_path, "--max-calls", "1", "--mode", "smoke")
    found = report(tmp_path)
    assert found["mutants"] == []
    assert found["not_run"] > 0
    assert any("over budget" in line for line in log)


def test_a_suite_that_does_not_pass_the_skill_as_it_is_kills_nothing(tmp_path: Path) -> None:
    broken = SUITE.replace("Sum of your numbers", "Sum of nothing")
    make_repository(
        tmp_path / "repository",
        {"skills/sums/SKILL.md": SKILL, "skills/sums/evals/skill-gate.yaml": broken},
        {"R.md": "x"},
    )
    code, log = mutate(tmp_path, "--mode", "smoke")
    assert code == 2
    assert any("The unchanged skill is" in line for line in log)


def test_the_report_of_a_session_says_what_survived_and_counts_kills_as_coverage(tmp_path: Path) -> None:
    skill = SKILL.replace("- Begin", "- Always begin").replace("- End", "- You must end")
    mutants = [
        {
            "id": f"delete-rule-L{line}", "operator": "delete-rule", "harmful": True, "file": "SKILL.md", "line": line,
            "rule": f"rule of line {line}", "fate": fate, "verdict": "fail",
        }
        for line, fate in ((7, "killed"), (8, "survived"))
    ]  # fmt: skip
    told = {
        "skill": "skills/sums", "skill_md": "SKILL.md", "skill_md_sha256": sha256_hex(skill.encode()), "commit": "0" * 40,
        "unchanged": "pass", "mutants": mutants, "scores": [],
    }  # fmt: skip
    file = tmp_path / "mutation.json"
    file.write_text(json.dumps(told), "utf-8")
    ran = gate(
        tmp_path,
        {"skills/sums/SKILL.md": SKILL, "skills/sums/evals/skill-gate.yaml": SUITE},
        {"skills/sums/SKILL.md": skill},
        options=("--mutation", str(file), "--mode", "smoke"),
        steps={"agent": follower},
    )
    (finding,) = [item for item in ran.report["session_findings"] if item["rule"].startswith("mutation/")]
    assert (finding["rule"], finding["path"], finding["line"]) == ("mutation/survived", "skills/sums/SKILL.md", 8)
    assert "mutation/survived" in ran.comment
    assert any(
        "1 of 2 imperative rules" in note and "noticed when they were changed" in note for note in ran.skill["notes"]
    )
    assert verify_bundle(ran.bundle, render).problems == ()
