"""A session that was killed goes on where it was: the same verdict bytes, no recorded reply asked for again."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import textwrap
from pathlib import Path
from typing import Any

import pytest

from tests.scripted.generic import scenario
from tests.scripted.server import ScriptedServer
from tests.story import gate_environment, make_repository
from tests.verdicts import calls_said, verdict_bytes

SKILL = "---\nname: sums\ndescription: Adds numbers. Use when somebody asks for a sum.\n---\n# Sums\n\nAdd {word}.\n"
PATH = "skills/sums/SKILL.md"
SUITE = "skills/sums/evals/skill-gate.yaml"
CASES = [
    {
        "id": f"case-{number}",
        "prompt": f"What is {number} and 2?",
        "checks": [{"id": "named", "kind": "response_contains", "keyword": "the part Sums"}],
        "expectations": [{"id": "e0", "text": 'The answer holds the word "Sums".'}],
    }
    for number in (1, 2)
]

# The command with a sandbox in memory; killed by its own hand at the moment it is told.
PROGRAM = textwrap.dedent(
    """
    import json, os, signal, sys, threading
    from dataclasses import replace
    import gate.evidence.files as files
    from gate.cli import main
    from gate.wiring import bind
    from tests.fakes.sandbox import ScriptedSandbox
    from tests.unit.execution.world import shell

    kill_at, arguments = int(sys.argv[1]), sys.argv[2:]
    count, lock, write = [0], threading.Lock(), files.write_atomic

    def counted(path, data):
        with lock:
            count[0] += 1
            if count[0] == kill_at:
                os.kill(os.getpid(), signal.SIGKILL)
        write(path, data)

    for module in list(sys.modules.values()):
        if getattr(module, "write_atomic", None) is write:
            module.write_atomic = counted
    import gate.evidence.bundle, gate.evidence.cache, gate.evidence.seal
    for module in (gate.evidence.bundle, gate.evidence.cache, gate.evidence.seal, files):
        module.write_atomic = counted
    images = json.loads(os.environ.get("TEST_IMAGES", "null"))
    with ScriptedSandbox(shell(), images=images) as sandbox:
        app = bind({"OPENAI_API_KEY": os.environ.get("TEST_KEY", "key")}, threading.Event())
        code = main(replace(app, make_sandbox=lambda: sandbox), arguments)
    print(count[0])
    sys.exit(code)
    """
)


def session(
    repository: Path,
    server: ScriptedServer,
    out: Path,
    kill_at: int = 0,
    *,
    seed: str | None = "5" * 64,
    **environ: str,
) -> subprocess.CompletedProcess[str]:
    """The command; ``kill_at``: the number of the write in place of which it kills itself, 0 for none."""
    return subprocess.run(
        [
            sys.executable, "-c", PROGRAM, str(kill_at), "run", "--repository", str(repository), "--base", "main",
            "--out", str(out), "--jobs", "2", "--no-cache", *(("--seed", seed) if seed else ()),
            "--model", f"openai@{server.openai_url}:agent", "--judge-model", f"openai@{server.openai_url}:judge",
        ],
        cwd=Path(__file__).resolve().parents[2],
        env=gate_environment(**environ),
        capture_output=True,
        text=True,
        timeout=200,
        check=False,
    )  # fmt: skip


def verdict_files(out: Path) -> dict[str, bytes]:
    found = [*out.glob("skills/*/gate-result.json"), out / "report.json", out / "report.md"]
    return {path.relative_to(out).as_posix(): path.read_bytes() for path in found}


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    return make_repository(
        tmp_path / "repository",
        {PATH: SKILL.format(word="up"), SUITE: json.dumps({"version": 1, "cases": CASES})},
        {PATH: SKILL.format(word="them up")},
    )


def test_a_session_killed_at_any_write_ends_with_the_bytes_of_an_undisturbed_one(
    tmp_path: Path, repository: Path
) -> None:
    with ScriptedServer(scenario()) as server:
        whole = session(repository, server, tmp_path / "whole")
        assert whole.returncode == 0, whole.stderr
        writes, asked = int(whole.stdout.split()[-1]), len(server.requests)
        expected = verdict_bytes(tmp_path / "whole")
        assert writes > 40
        for moment in (*range(5, writes, max(1, writes // 4)), writes):
            before = len(server.requests)
            out = tmp_path / f"killed-{moment}"
            killed = session(repository, server, out, kill_at=moment)
            assert killed.returncode == -signal.SIGKILL, killed.stderr
            resumed = session(repository, server, out)
            assert resumed.returncode == 0, resumed.stderr
            assert "continuing the session" in resumed.stderr
            assert verdict_bytes(out) == expected
            assert not (out / ".journal").exists()
            # Every request that reached the model is in the account, those under way when it was killed as well.
            assert calls_said(out) >= len(server.requests) - before
            # Two workers can have asked and not yet written when the process died; nothing else is asked twice.
            assert len(server.requests) - before <= asked + 2


def test_another_plan_in_the_same_folder_begins_anew(tmp_path: Path, repository: Path) -> None:
    with ScriptedServer(scenario()) as server:
        out = tmp_path / "out"
        assert session(repository, server, out, kill_at=60).returncode == -signal.SIGKILL
        text = (repository / PATH).read_text()
        (repository / PATH).write_text(text + "\nAlways.\n")
        environment: dict[str, Any] = {**os.environ, "GIT_AUTHOR_NAME": "t", "GIT_AUTHOR_EMAIL": "t@example.invalid"}
        environment |= {"GIT_COMMITTER_NAME": "t", "GIT_COMMITTER_EMAIL": "t@example.invalid"}
        subprocess.run(["git", "commit", "-qam", "x"], cwd=repository, env=environment, check=True)
        again = session(repository, server, out)
        assert again.returncode == 0, again.stderr
        assert "continuing the session" not in again.stderr
        report = json.loads((out / "report.json").read_text())
        assert report["skills"][0]["verdict"] in ("pass", "conditional")
