"""``skill-gate run --sandbox bubblewrap``: the whole way, and for whose changes it is refused."""

from __future__ import annotations

import json
import threading
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from gate.cli import main
from gate.wiring import bind
from tests.conftest import require_bubblewrap
from tests.scripted.generic import scenario
from tests.scripted.server import ScriptedServer
from tests.story import git, make_repository

SKILL = "---\nname: sums\ndescription: Adds numbers. Use when somebody asks for a sum.\n---\n# Sums\n\nAdd the numbers {word}.\n"
EVALS = json.dumps(
    {
        "skill_name": "sums",
        "evals": [{"id": 1, "prompt": "What is 1 and 2?", "expectations": ['The answer contains the word "Sums".']}],
    }
)


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    return make_repository(
        tmp_path / "repository",
        {"skills/sums/SKILL.md": SKILL.format(word="up"), "skills/sums/evals/evals.json": EVALS},
        {"skills/sums/SKILL.md": SKILL.format(word="together")},
    )


def run(
    repository: Path, out: Path, options: Sequence[str] = (), environ: dict[str, str] | None = None
) -> tuple[int, list[str]]:
    """(exit code, lines for people)."""
    log: list[str] = []
    with ScriptedServer(scenario()) as server:
        app = bind({"OPENAI_API_KEY": "key", **(environ or {})}, threading.Event())
        code = main(
            replace(app, say=log.append, abort=lambda: None),
            [
                "run", "--repository", str(repository), "--base", "main", "--out", str(out), "--mode", "smoke",
                "--no-cache", "--sandbox", "bubblewrap", "--model", f"openai@{server.openai_url}:agent",
                "--judge-model", f"openai@{server.openai_url}:judge", *options,
            ],
        )  # fmt: skip
    return code, log


def test_the_whole_way_in_bubblewrap_says_everywhere_that_it_holds_less(repository: Path, tmp_path: Path) -> None:
    require_bubblewrap()
    code, log = run(repository, tmp_path / "out")

    assert code == 0, log
    report = json.loads((tmp_path / "out/report.json").read_text())
    assert report["skills"][0]["verdict"] == "conditional"
    assert report["sandbox"].startswith("bubblewrap ")
    assert [item["count"] for item in report["fallbacks"] if item["kind"] == "sandbox_other"] == [1]
    comment = (tmp_path / "out/report.md").read_text()
    assert "weaker isolation than a container" in comment
    assert "sandbox_other" in comment
    assert main(bind({}, threading.Event()), ["verify", str(tmp_path / "out")]) == 0


@pytest.mark.requirements("R23")
@pytest.mark.parametrize("variable", ["CI", "GITHUB_ACTIONS"])
def test_it_is_refused_where_others_push(repository: Path, tmp_path: Path, variable: str) -> None:
    code, log = run(repository, tmp_path / "out", environ={variable: "true"})

    assert code == 2
    assert any("only for a change of one's own" in line and "CI system" in line for line in log)
    assert not (tmp_path / "out").exists()


def test_it_is_refused_for_a_head_that_is_not_checked_out(repository: Path, tmp_path: Path) -> None:
    code, log = run(repository, tmp_path / "out", ["--head", "feature"])

    assert code == 2
    assert any("--head names feature" in line for line in log)


@pytest.mark.parametrize(
    ("key", "value"), [("merge", "refs/pull/7/head"), ("remote", "https://github.com/stranger/skills.git")]
)
def test_it_is_refused_for_a_branch_that_was_checked_out_from_somebody_else(
    repository: Path, tmp_path: Path, key: str, value: str
) -> None:
    git(repository, "config", f"branch.feature.{key}", value)
    code, log = run(repository, tmp_path / "out")

    assert code == 2
    assert any(f"comes from {value}" in line for line in log)


def test_a_branch_of_ones_own_remote_is_ones_own(repository: Path) -> None:
    from gate.adapters.git_repository import GitRepository

    git(repository, "config", "branch.feature.remote", "origin")
    git(repository, "config", "branch.feature.merge", "refs/heads/feature")
    assert GitRepository(str(repository)).checked_out_from() == ""
    git(repository, "checkout", "--quiet", "--detach")
    assert GitRepository(str(repository)).checked_out_from() == ""
