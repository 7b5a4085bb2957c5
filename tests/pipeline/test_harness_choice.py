"""What cannot go together is said before anything runs, and what a session's agent program was is on its record."""

from __future__ import annotations

import json
import threading
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pytest

from gate.cli import main as run_command
from gate.wiring import bind
from tests.fakes.sandbox import Command, Ran, ScriptedBox, ScriptedSandbox
from tests.scripted.generic import scenario
from tests.scripted.server import ScriptedServer
from tests.story import make_repository
from tests.unit.execution.world import shell

SKILL = "---\nname: sums\ndescription: Adds numbers. Use when somebody asks for a sum.\n---\n# Sums\n\nAdd {word}.\n"
EVALS = json.dumps(
    {"skill_name": "sums", "evals": [{"id": 1, "prompt": "What is 1 and 2?", "expectations": ["It names 3."]}]}
)


def run(
    folder: Path, *options: str, policy: str = "", said: str = "/opt/agent/codex\ncodex-cli 9.9.9\n"
) -> tuple[int, str, ScriptedSandbox]:
    """(exit code, what was said, the sandbox) of ``skill-gate run`` with an agent program that only knows its version."""
    files = {
        "skills/sums/SKILL.md": SKILL.format(word="up"),
        "skills/sums/evals/evals.json": EVALS,
        **({".github/skill-gate.yml": policy} if policy else {}),
    }
    repository = make_repository(folder / "repository", files, {"skills/sums/SKILL.md": SKILL.format(word="together")})
    log: list[str] = []
    inner = shell()

    def program(box: ScriptedBox, command: Command) -> Ran | bytes | str:
        if command.argv[:2] == ("bash", "-c") and "--version" in command.argv[2]:
            return said
        return inner(box, command)

    with ScriptedServer(scenario()) as server, ScriptedSandbox(program) as sandbox:
        app = bind({"ANTHROPIC_API_KEY": "key", "OPENAI_API_KEY": "key"}, threading.Event())
        code = run_command(
            replace(app, make_sandbox=lambda: sandbox, say=log.append, abort=lambda: None),
            [
                "run", "--repository", str(repository), "--base", "main", "--out", str(folder / "out"), "--mode", "smoke",
                "--model", f"openai@{server.openai_url}:agent", *options,
            ],
        )  # fmt: skip
    return code, "\n".join(log), sandbox


@pytest.fixture
def codex(tmp_path: Path) -> Path:
    path = tmp_path / "codex"
    path.write_bytes(b"\x7fELF")
    return path


def test_a_program_that_cannot_speak_to_the_model_is_a_usage_error(tmp_path: Path, codex: Path) -> None:
    code, said, sandbox = run(tmp_path, "--harness", "claude-code", "--agent", str(codex))
    assert code == 2
    assert "cannot speak to openai@" in said
    assert "Name a model of anthropic" in said
    assert sandbox.boxes == []


def test_a_recording_of_an_agent_program_is_a_usage_error(tmp_path: Path, codex: Path) -> None:
    code, said, _ = run(tmp_path, "--harness", "codex", "--agent", str(codex), "--record", str(tmp_path / "recording"))
    assert (code, "cannot be recorded" in said) == (2, True)


def test_the_harness_command_without_a_command_is_a_usage_error(tmp_path: Path) -> None:
    code, said, _ = run(tmp_path, policy="harness: command\n")
    assert (code, "needs a command" in said) == (2, True)


def test_a_program_that_is_nowhere_is_infrastructure_that_says_what_to_do(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("gate.adapters.agent_programs.shutil", SimpleNamespace(which=lambda name, path=None: None))
    code, _, sandbox = run(tmp_path, "--harness", "codex", said="")
    report = json.loads((tmp_path / "out/report.json").read_text())
    assert code == 3
    assert "There is no codex" in str(report["skills"][0]["reasons"])
    assert all(box.spec.label == "preflight/agent" for box in sandbox.boxes), "no case was run"


@pytest.mark.requirements("R225")
def test_a_program_that_never_asks_the_model_is_an_error_and_no_verdict_on_the_skill(
    tmp_path: Path, codex: Path
) -> None:
    """The sandbox of this test answers every start of the program with nothing and exit code 127."""
    code, _, sandbox = run(tmp_path, "--harness", "codex", "--agent", str(codex))
    report = json.loads((tmp_path / "out/report.json").read_text())
    assert (code, report["skills"][0]["verdict"]) == (3, "error")
    assert "codex 9.9.9" in report["sandbox"]
    ((_, files),) = sandbox.installed
    assert [file.name for file in files] == ["codex"]
    assert {box.spec.programs for box in sandbox.boxes} == {"programs-1"}
    plan = json.loads((tmp_path / "out/plan.json").read_text())
    session = json.loads((tmp_path / "out/session.json").read_text())
    assert (plan["harness"], session["harness"]) == ("codex", "codex")
