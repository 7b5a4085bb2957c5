"""The same session whole and cut into shards, through the command line: one verdict, and nothing that can get lost."""

from __future__ import annotations

import json
import shutil
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from gate.audit.verify import verify_bundle
from gate.cli import main as run_command
from gate.wiring import bind
from reporters import render
from tests.fakes.sandbox import ScriptedSandbox
from tests.scripted.generic import scenario
from tests.scripted.server import ScriptedServer
from tests.story import make_repository
from tests.unit.execution.world import shell

SKILL = "---\nname: {name}\ndescription: Adds numbers. Use when somebody asks for a sum.\n---\n# Sums\n\nAdd {word}.\n"
CASES = [
    {
        "id": f"case-{number}",
        "prompt": f"What is {number} and 2?",
        "checks": [{"id": "named", "kind": "response_contains", "keyword": "the part Sums"}],
        "expectations": [{"id": "e0", "text": 'The answer holds the word "Sums".'}],
    }
    for number in range(1, 4)
]


class Stage:
    """A repository with two skills and a model server."""

    def __init__(self, folder: Path, server: ScriptedServer) -> None:
        self.folder = folder
        main, change = {}, {}
        for name in ("sums", "totals"):
            main[f"skills/{name}/SKILL.md"] = SKILL.format(name=name, word="up")
            main[f"skills/{name}/evals/skill-gate.yaml"] = json.dumps({"version": 1, "cases": CASES})
            change[f"skills/{name}/SKILL.md"] = SKILL.format(name=name, word="them up")
        self.repository = make_repository(folder / "repository", main, change)
        self.models = [
            "--model", f"openai@{server.openai_url}:agent", "--judge-model", f"openai@{server.openai_url}:judge",
        ]  # fmt: skip
        self.log: list[str] = []

    def command(self, *arguments: str, key: str = "key") -> int:
        with ScriptedSandbox(shell()) as sandbox:
            app = bind({"OPENAI_API_KEY": key}, threading.Event())
            return run_command(
                replace(app, make_sandbox=lambda: sandbox, say=self.log.append, abort=lambda: None), list(arguments)
            )

    def plan(self, capsys: pytest.CaptureFixture[str], count: int) -> list[str]:
        code = self.command(
            "plan", "--repository", str(self.repository), "--base", "main", "--seed", "7" * 64, *self.models,
            "--out", str(self.folder / "plan.json"), "--shards", str(count),
        )  # fmt: skip
        assert code == 0, self.log
        found: list[str] = json.loads(capsys.readouterr().out)["shard"]
        return found

    def shard(self, text: str) -> Path:
        out = self.folder / f"shard-{text.replace('/', '-of-')}"
        arguments = ("run", "--plan", str(self.folder / "plan.json"), "--shard", text, "--out", str(out), "--no-cache")
        assert self.command(*arguments) == 0, self.log
        return out

    def merge(self, *folders: Path, out: str = "merged") -> tuple[int, Path]:
        target = self.folder / out
        code = self.command("merge", *map(str, folders), "--plan", str(self.folder / "plan.json"), "--out", str(target))
        return code, target

    def whole(self) -> Path:
        out = self.folder / "whole"
        code = self.command(
            "run", "--repository", str(self.repository), "--base", "main", "--seed", "7" * 64, *self.models,
            "--out", str(out), "--no-cache",
        )  # fmt: skip
        assert code == 0, self.log
        return out


@contextmanager
def stage(folder: Path) -> Iterator[Stage]:
    with ScriptedServer(scenario()) as server:
        yield Stage(folder, server)


def verdicts(bundle: Path) -> dict[str, bytes]:
    return {path.parent.name: path.read_bytes() for path in bundle.glob("skills/*/gate-result.json")}


def report(bundle: Path) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((bundle / "report.json").read_text())
    return found


def test_two_shards_give_the_verdict_bytes_of_the_whole_session(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with stage(tmp_path) as here:
        whole = here.whole()
        capsys.readouterr()
        parts = [here.shard(text) for text in here.plan(capsys, 2)]
        code, merged = here.merge(*reversed(parts))
        assert (code, verdicts(merged)) == (0, verdicts(whole))
        assert report(merged)["state"] == report(whole)["state"]
        assert verify_bundle(merged, render).problems == ()
        # A second merge of the same parts changes nothing.
        _, again = here.merge(*parts, out="again")
        assert (again / "report.json").read_bytes() == (merged / "report.json").read_bytes()


def test_a_lost_shard_is_an_error_and_never_an_average(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with stage(tmp_path) as here:
        parts = [here.shard(text) for text in here.plan(capsys, 3)]
        code, merged = here.merge(*parts[:2])
        assert code == 3
        found = report(merged)
        assert found["state"] == "error"
        (missing,) = {skill["verdict"] for skill in found["skills"] if "shard 3" in " ".join(skill["reasons"])}
        assert missing == "error"


def test_a_shard_with_one_changed_byte_makes_its_skills_invalid_and_is_named(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with stage(tmp_path) as here:
        parts = [here.shard(text) for text in here.plan(capsys, 2)]
        response = next(parts[1].glob("skills/*/*/*/*/outputs/response.md"))
        data = bytearray(response.read_bytes())
        data[0] ^= 1
        response.write_bytes(bytes(data))
        code, merged = here.merge(*parts)
        assert code == 1
        spoiled = [skill for skill in report(merged)["skills"] if skill["verdict"] == "invalid"]
        assert spoiled
        assert "response.md" in " ".join(spoiled[0]["reasons"])


@pytest.mark.parametrize("name", ["shard.json", "manifest.json"])
def test_a_changed_shard_whose_own_name_cannot_be_read_is_no_missing_one(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], name: str
) -> None:
    with stage(tmp_path) as here:
        parts = [here.shard(text) for text in here.plan(capsys, 2)]
        (parts[1] / name).write_bytes((parts[1] / name).read_bytes()[:-4])
        code, merged = here.merge(*parts)
        assert code == 1
        assert "invalid" in {skill["verdict"] for skill in report(merged)["skills"]}


def test_the_later_attempt_of_a_shard_counts(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with stage(tmp_path) as here:
        parts = [here.shard(text) for text in here.plan(capsys, 2)]
        twice = tmp_path / "again-1-of-2"
        shutil.copytree(parts[0], twice)
        code, merged = here.merge(*parts, twice)
        assert code == 0
        assert len(verdicts(merged)) == 2


def test_of_a_shard_only_this_machine_can_be_chosen_and_json_is_its_own_facts(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with stage(tmp_path) as here:
        (text, *_) = here.plan(capsys, 2)
        out = tmp_path / "part"
        arguments = ["run", "--plan", str(tmp_path / "plan.json"), "--shard", text, "--out", str(out), "--no-cache"]
        assert here.command(*arguments, "--mode", "full") == 2
        assert any("--mode cannot be given beside it" in line for line in here.log)
        assert not out.exists()
        assert here.command(*arguments, "--json") == 0
        printed = capsys.readouterr().out
        assert printed == (out / "shard.json").read_text()
        assert json.loads(printed)["number"] == 1


@pytest.mark.parametrize("command", [("verify",), ("report",), ("report", "--format", "html")])
def test_a_shard_is_neither_verified_nor_rendered_but_merged_first(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], command: tuple[str, ...]
) -> None:
    with stage(tmp_path) as here:
        part = here.shard(here.plan(capsys, 2)[0])
        assert here.command(*command, str(part)) == 2
        assert any(f"{part} is a shard: merge it first." in line for line in here.log)
        assert capsys.readouterr().out == ""


def test_shards_of_another_plan_are_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with stage(tmp_path) as here:
        part = here.shard(here.plan(capsys, 2)[0])
        plan = json.loads((tmp_path / "plan.json").read_text())
        plan["session"]["notes"] = ["another"]
        (tmp_path / "plan.json").write_text(json.dumps(plan))
        code, _ = here.merge(part)
        assert code == 2
        assert any("was not made with the key of this session, or was changed" in line for line in here.log)


def test_a_plan_of_another_key_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with stage(tmp_path) as here:
        (text, *_) = here.plan(capsys, 2)
        code = here.command(
            "run", "--plan", str(tmp_path / "plan.json"), "--shard", text, "--out", str(tmp_path / "x"), key="other"
        )
        assert code == 2
