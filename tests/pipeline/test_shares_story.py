"""Caps that bite: it is the same call that is stopped, in one piece or in shards, with one job or with many."""

from __future__ import annotations

import json
import threading
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import gate.llm.ledger
import gate.planning.shares
from gate.audit.verify import verify_bundle
from gate.cli import main as run_command
from gate.domain.chat import TokenUsage
from gate.llm.ledger import Ledger
from gate.settings import Settings
from gate.wiring import bind
from reporters import render
from tests.fakes.sandbox import ScriptedSandbox
from tests.pipeline.test_shards_story import CASES, SKILL
from tests.scripted.generic import scenario
from tests.scripted.server import ScriptedServer
from tests.story import make_repository
from tests.unit.execution.world import shell
from tests.verdicts import verdict_bytes

PRICE = 1e-6


def priced(settings: Settings, run_date: str) -> Ledger:
    """A model whose price is known."""
    del run_date

    def price(model: str, usage: TokenUsage) -> float:
        del model
        return PRICE * (usage.input_tokens + 5 * usage.output_tokens)

    return Ledger(settings.policy.caps, price)


class Stage:
    """A repository whose policy has caps, and the command."""

    def __init__(self, folder: Path, server: ScriptedServer, caps: dict[str, Any]) -> None:
        self.folder = folder
        self.server = server
        main = {
            ".github/skill-gate.yml": json.dumps({"caps": caps} if caps else {}),
            "skills/sums/SKILL.md": SKILL.format(name="sums", word="up"),
            "skills/sums/evals/skill-gate.yaml": json.dumps({"version": 1, "cases": CASES}),
        }
        change: dict[str, str | None] = {"skills/sums/SKILL.md": SKILL.format(name="sums", word="them up")}
        repository = make_repository(folder / "repository", main, change)
        self.session = (
            "--repository", str(repository), "--base", "main", "--seed", "7" * 64,
            "--model", f"openai@{server.openai_url}:agent", "--judge-model", f"openai@{server.openai_url}:judge",
        )  # fmt: skip
        self.log: list[str] = []

    def command(self, *arguments: str) -> int:
        with ScriptedSandbox(shell()) as sandbox:
            app = bind({"OPENAI_API_KEY": "key"}, threading.Event())
            app = replace(
                app, make_sandbox=lambda: sandbox, make_ledger=priced, say=self.log.append, abort=lambda: None
            )
            return run_command(app, list(arguments))

    def whole(self, jobs: int) -> Path:
        out = self.folder / f"whole-{jobs}"
        self.command("run", *self.session, "--jobs", str(jobs), "--out", str(out), "--no-cache")
        assert (out / "report.json").exists(), self.log
        return out

    def merged(self, count: int) -> Path:
        plan = str(self.folder / "plan.json")
        assert self.command("plan", *self.session, "--out", plan, "--shards", str(count)) == 0, self.log
        parts = [self.folder / f"shard-{number}" for number in range(1, count + 1)]
        for number, part in enumerate(parts, 1):
            arguments = ("--plan", plan, "--shard", f"{number}/{count}", "--out", str(part), "--no-cache")
            assert self.command("run", *arguments) == 0, self.log
        self.command("merge", *map(str, parts), "--plan", plan, "--out", str(self.folder / "merged"))
        return self.folder / "merged"


# Calls of one case here: seven of agents, four of graders, two or three of Layer 3.
@pytest.mark.parametrize(
    ("caps", "where"),
    [
        ({"model_calls_per_skill": 11}, "while its agents work"),
        ({"model_calls_per_skill": 26}, "while it is graded"),
        ({"usd_per_skill": 0.004}, "money"),
    ],
)
def test_where_a_cap_bites_the_verdict_has_the_same_bytes(tmp_path: Path, caps: dict[str, Any], where: str) -> None:
    del where
    with ScriptedServer(scenario()) as server:
        stage = Stage(tmp_path, server, caps)
        one = stage.whole(1)
        asked = len(server.requests)
        assert json.loads((one / "report.json").read_text())["skills"][0]["verdict"] == "not_measured"
        many = stage.whole(4)
        assert len(server.requests) == 2 * asked, "the same number of calls"
        assert verdict_bytes(many) == verdict_bytes(one)
        merged = stage.merged(3)
        assert verdict_bytes(merged) == verdict_bytes(one)
        assert verify_bundle(merged, render).problems == ()


def test_shards_together_spend_no_more_than_the_cap(tmp_path: Path) -> None:
    """Each of them has a ledger of its own."""
    with ScriptedServer(scenario()) as server:
        stage = Stage(tmp_path, server, {"model_calls_per_skill": 20})
        merged = stage.merged(3)
        used = json.loads((merged / "report.json").read_text())["usage"]
        of_cases = sum(use["calls"] for use in used)
        preflights = 2 * 3
        assert of_cases - preflights <= 20
        reasons = json.loads((merged / "report.json").read_text())["skills"][0]["reasons"]
        assert any("its share of the 20 of its skill" in reason or "a cap was reached" in reason for reason in reasons)


def test_where_no_number_is_said_a_large_suite_is_measured_whole_or_cut(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As many cases for 600 calls as three are for 20 would take long."""
    for place in (gate.planning.shares, gate.llm.ledger):
        monkeypatch.setattr(place, "CALLS_PER_SKILL", 20)
    with ScriptedServer(scenario()) as server:
        stage = Stage(tmp_path, server, {})
        whole = stage.whole(4)
        (skill,) = json.loads((whole / "report.json").read_text())["skills"]
        assert skill["verdict"] == "pass", skill["reasons"]
        assert sum(case["spent"]["calls"] for case in skill["cases"]) > 20
        merged = stage.merged(3)
        assert verdict_bytes(merged) == verdict_bytes(whole)
        assert not any("caps." in line for line in stage.log)


def test_a_cap_that_will_hardly_do_is_named_before_anything_is_spent(tmp_path: Path) -> None:
    with ScriptedServer(scenario()) as server:
        stage = Stage(tmp_path, server, {"model_calls_per_skill": 30, "usd_per_skill": 0.001})
        stage.command("plan", *stage.session, "--out", str(tmp_path / "plan.json"))
        assert server.requests == []
    said = "\n".join(stage.log)
    assert "caps.model_calls_per_skill: 30 calls for 3 cases of skills-sums-" in said
    assert "caps.usd_per_skill: $0.001 for 3 cases of skills-sums-" in said


def test_a_cap_that_does_not_bite_changes_nothing(tmp_path: Path) -> None:
    with ScriptedServer(scenario()) as server:
        (tmp_path / "wide").mkdir()
        (tmp_path / "narrow").mkdir()
        wide = Stage(tmp_path / "wide", server, {}).whole(4)
        narrow = Stage(tmp_path / "narrow", server, {"model_calls_per_skill": 60}).whole(4)
    found = [json.loads((bundle / "report.json").read_text())["skills"][0] for bundle in (wide, narrow)]
    assert found[0]["verdict"] == found[1]["verdict"] == "pass"
    assert found[0]["authoritative"] == found[1]["authoritative"]
