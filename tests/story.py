"""Whole stories: real Git repositories, the real program in a process of its own."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

import docker

GATE = Path(sys.executable).with_name("skill-gate")
PROVIDER_VARIABLES = ("ANTHROPIC", "OPENAI", "HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY")


def gate_environment(**extra: str) -> dict[str, str]:
    """The machine's environment without anything that names a provider or a proxy."""
    kept = {name: value for name, value in os.environ.items() if not name.upper().startswith(PROVIDER_VARIABLES)}
    # No test makes, or uses, the key of the person at this machine (gate.cli.own_key).
    return {**kept, "XDG_STATE_HOME": "/nonexistent", **extra}


def run_gate(*arguments: object, cwd: Path | None = None, **extra: str) -> subprocess.CompletedProcess[str]:
    """Run ``skill-gate`` to its end."""
    return subprocess.run(
        [str(GATE), *map(str, arguments)],
        cwd=cwd,
        env=gate_environment(**extra),
        capture_output=True,
        text=True,
        timeout=280,
        check=False,
    )


def start_gate(*arguments: object, **extra: str) -> subprocess.Popen[str]:
    """Start ``skill-gate`` in a process group of its own."""
    return subprocess.Popen(
        [str(GATE), *map(str, arguments)],
        env=gate_environment(**extra),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )


def git(folder: Path, *arguments: str) -> str:
    """A git command in a repository, with a fixed author and no configuration of the machine."""
    fixed = {
        f"GIT_{who}_{what}": value
        for who in ("AUTHOR", "COMMITTER")
        for what, value in (("NAME", "Test"), ("EMAIL", "test@example.invalid"), ("DATE", "2026-01-05T09:00:00+0000"))
    }
    environment = {**os.environ, **fixed, "GIT_CONFIG_GLOBAL": os.devnull, "GIT_CONFIG_NOSYSTEM": "1"}
    done = subprocess.run(["git", *arguments], cwd=folder, env=environment, capture_output=True, text=True, check=True)
    return done.stdout.strip()


def make_repository(folder: Path, main: Mapping[str, str], branch: Mapping[str, str | None]) -> Path:
    """A repository with ``main`` and, on top, a branch ``feature`` that is checked out. None removes a file."""
    folder.mkdir(parents=True, exist_ok=True)
    git(folder, "init", "--quiet", "--initial-branch=main")
    for files, message in ((main, "main"), (branch, "feature")):
        if message == "feature":
            git(folder, "switch", "--quiet", "--create", "feature")
        for path, text in files.items():
            place = folder / path
            if text is None:
                place.unlink()
                continue
            place.parent.mkdir(parents=True, exist_ok=True)
            place.write_text(text, encoding="utf-8")
        git(folder, "add", "--all")
        git(folder, "commit", "--quiet", "--allow-empty", "--message", message)
    return folder


def labelled(client: docker.DockerClient, session_owner_prefix: str = "") -> list[str]:
    """Names of labelled containers and volumes on the engine."""
    found = client.api.containers(all=True, filters={"label": "gate.owner"})
    names = [entry["Names"][0] for entry in found if entry["Labels"]["gate.owner"].startswith(session_owner_prefix)]
    volumes = client.api.volumes(filters={"label": "gate.owner"})["Volumes"] or []
    return names + [volume["Name"] for volume in volumes]
