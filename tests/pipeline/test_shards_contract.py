"""A session with contracts, drafted cases and discussions, whole and cut into shards."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from gate.audit.verify import verify_bundle
from reporters import render
from tests.pipeline.test_shards_story import CASES, SKILL, Stage, report, verdicts
from tests.scripted.generic import scenario
from tests.scripted.server import ScriptedServer
from tests.story import make_repository


class Signed(Stage):
    """One skill with evals of high risk, one without any; contracts for both."""

    def __init__(self, folder: Path, server: ScriptedServer) -> None:
        risky = [{**case, "risk": "high"} for case in CASES]
        body = SKILL + "\n- Always name both numbers before the sum.\n"
        main = {
            ".github/skill-gate.yml": "contract: 'on'\n",
            "skills/sums/SKILL.md": body.format(name="sums", word="up"),
            "skills/sums/evals/skill-gate.yaml": json.dumps({"version": 1, "cases": risky}),
            "skills/totals/SKILL.md": body.format(name="totals", word="up"),
        }
        change = {f"skills/{name}/SKILL.md": body.format(name=name, word="them up") for name in ("sums", "totals")}
        self.folder = folder
        self.repository = make_repository(folder / "repository", main, change)
        self.models = [
            "--model", f"openai@{server.openai_url}:agent", "--judge-model", f"openai@{server.openai_url}:judge",
        ]  # fmt: skip
        self.log: list[str] = []


def test_contracts_are_signed_once_with_the_plan_and_every_shard_holds_its_runs_to_them(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with ScriptedServer(scenario()) as server:
        here = Signed(tmp_path, server)
        whole = here.whole()
        capsys.readouterr()
        shards = here.plan(capsys, 2)
        asked = len(server.requests)
        parts = [here.shard(text) for text in shards]
        later = [request.system for request in server.requests[asked:]]
        _, merged = here.merge(*parts)
    assert not any(system.startswith(("You write down", "You review", "You draft")) for system in later)
    assert verdicts(merged) == verdicts(whole)
    assert {skill["verdict"] for skill in report(merged)["skills"]} == {"pass", "conditional"}
    assert verify_bundle(merged, render).problems == ()
    for name in ("contract.json", "discussion.json"):
        found = {path.relative_to(merged): path.read_bytes() for path in merged.rglob(name)}
        assert found == {path.relative_to(whole): path.read_bytes() for path in whole.rglob(name)}
        assert found
    roles = {use["role"]: use["calls"] for use in report(merged)["usage"]}
    assert roles == {use["role"]: use["calls"] for use in report(whole)["usage"]} | {
        role: calls
        for role, calls in roles.items()
        if role in ("executor", "grader")  # each shard asks once whether they are there
    }
    assert roles["generator"] > 0


def test_what_was_agreed_once_is_not_paid_for_again(tmp_path: Path) -> None:
    with ScriptedServer(scenario()) as server:
        here = Signed(tmp_path, server)
        for name in ("first", "second"):
            code = here.command(
                "run", "--repository", str(here.repository), "--base", "main", *here.models, "--out", str(tmp_path / name),
                "--cache", str(tmp_path / "cache"),
            )  # fmt: skip
            assert code == 0, here.log
    asked = [{use["role"]: use["calls"] for use in report(tmp_path / name)["usage"]} for name in ("first", "second")]
    for role in ("generator", "reviewer", "evaluator", "defender", "prosecutor"):
        assert asked[0][role] > 0
        assert asked[1].get(role, 0) == 0, role
    assert verdicts(tmp_path / "first").keys() == verdicts(tmp_path / "second").keys()
    assert verify_bundle(tmp_path / "second", render).problems == ()
    for name in ("contract.json", "discussion.json"):
        first = {path.relative_to(tmp_path / "first"): path.read_bytes() for path in (tmp_path / "first").rglob(name)}
        assert first == {
            path.relative_to(tmp_path / "second"): path.read_bytes() for path in (tmp_path / "second").rglob(name)
        }
