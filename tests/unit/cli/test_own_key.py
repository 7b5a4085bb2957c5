from __future__ import annotations

import os
import secrets
import threading
from dataclasses import replace
from pathlib import Path

import pytest

from gate.cli import main as run_command
from gate.cli.own_key import own_key
from gate.wiring import bind
from tests.fakes.sandbox import ScriptedSandbox
from tests.pipeline.test_resume_story import CASES, PATH, SKILL, SUITE
from tests.scripted.generic import scenario
from tests.scripted.server import ScriptedServer
from tests.story import make_repository
from tests.unit.execution.world import shell


def key_in(home: Path, repository: Path, **environ: str) -> tuple[str | None, str | None]:
    return own_key({"HOME": str(home), **environ}, repository, secrets.token_hex)


def test_a_key_is_made_once_and_only_its_owner_can_read_it(tmp_path: Path) -> None:
    first, why = key_in(tmp_path / "home", tmp_path / "repository")
    assert first is not None
    assert why is None
    path = tmp_path / "home/.local/state/skill-gate/key"
    assert path.stat().st_mode & 0o777 == 0o600
    assert path.parent.stat().st_mode & 0o077 == 0
    assert key_in(tmp_path / "home", tmp_path / "repository") == (first, None)
    assert [item.name for item in path.parent.iterdir()] == ["key"]


def test_the_state_folder_of_the_desktop_counts_before_the_home(tmp_path: Path) -> None:
    own, _ = key_in(tmp_path / "home", tmp_path / "repository", XDG_STATE_HOME=str(tmp_path / "state"))
    assert (tmp_path / "state/skill-gate/key").read_text().strip() == own
    assert not (tmp_path / "home").exists()


@pytest.mark.parametrize("name", ["CI", "GITHUB_ACTIONS"])
def test_a_ci_system_gets_none(tmp_path: Path, name: str) -> None:
    assert key_in(tmp_path / "home", tmp_path / "repository", **{name: "true"}) == (None, None)
    assert not (tmp_path / "home").exists()


def test_a_key_in_the_repository_is_nobodys(tmp_path: Path) -> None:
    """A home folder can be a repository, and a repository can hold a key that everybody knows."""
    place = tmp_path / ".local/state/skill-gate"
    place.mkdir(parents=True)
    (place / "key").write_text("ab" * 32)
    (place / "key").chmod(0o600)
    key, why = key_in(tmp_path, tmp_path)
    assert key is None
    assert why is not None
    assert "lies in the repository" in why


def test_a_link_out_of_the_home_into_the_repository_does_not_help(tmp_path: Path) -> None:
    (tmp_path / "repository/state/skill-gate").mkdir(parents=True)
    (tmp_path / "home/.local").mkdir(parents=True)
    (tmp_path / "home/.local/state").symlink_to(tmp_path / "repository/state")
    key, why = key_in(tmp_path / "home", tmp_path / "repository")
    assert key is None
    assert why is not None
    assert "lies in the repository" in why


@pytest.mark.parametrize(
    ("text", "mode", "why"),
    [("ab" * 32, 0o644, "others may read"), ("ab" * 32, 0o620, "others may read"), ("short", 0o600, "64 hex digits")],
)
def test_a_key_that_others_may_know_is_not_used_and_not_replaced(
    tmp_path: Path, text: str, mode: int, why: str
) -> None:
    path = tmp_path / "home/.local/state/skill-gate/key"
    path.parent.mkdir(parents=True)
    path.write_text(text)
    path.chmod(mode)
    key, said = key_in(tmp_path / "home", tmp_path / "repository")
    assert key is None
    assert said is not None
    assert why in said
    assert path.read_text() == text


@pytest.mark.parametrize("kind", ["link", "folder", "pipe"])
def test_what_is_no_plain_file_is_no_key(tmp_path: Path, kind: str) -> None:
    path = tmp_path / "home/.local/state/skill-gate/key"
    path.parent.mkdir(parents=True)
    if kind == "link":
        (tmp_path / "elsewhere").write_text("ab" * 32)
        path.symlink_to(tmp_path / "elsewhere")
    elif kind == "folder":
        path.mkdir()
    else:
        os.mkfifo(path, 0o600)
    key, said = key_in(tmp_path / "home", tmp_path / "repository")
    assert key is None
    assert said


def test_sessions_that_begin_together_get_one_key(tmp_path: Path) -> None:
    found: list[str | None] = []
    start = threading.Barrier(8)

    def ask() -> None:
        start.wait(10)
        found.append(key_in(tmp_path / "home", tmp_path / "repository")[0])

    threads = [threading.Thread(target=ask) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(found) == 8
    assert len(set(found)) == 1


def test_a_local_model_without_a_provider_key_pays_once(tmp_path: Path) -> None:
    import json

    repository = make_repository(
        tmp_path / "repository",
        {PATH: SKILL.format(word="up"), SUITE: json.dumps({"version": 1, "cases": CASES[:1]})},
        {PATH: SKILL.format(word="them up")},
    )
    log: list[str] = []
    with ScriptedServer(scenario()) as server, ScriptedSandbox(shell()) as sandbox:

        def session(number: int, **environ: str) -> int:
            before = len(server.requests)
            app = bind({"HOME": str(tmp_path / "home"), **environ}, threading.Event())
            arguments = [
                "run", "--repository", str(repository), "--base", "main", "--out", str(tmp_path / f"out-{number}"),
                "--model", f"openai@{server.openai_url}:agent", "--judge-model", f"openai@{server.openai_url}:judge",
            ]  # fmt: skip
            app = replace(app, make_sandbox=lambda: sandbox, say=log.append, abort=lambda: None)
            assert run_command(app, arguments) == 0, log
            return len(server.requests) - before

        assert session(1) > 5
        assert session(2) == 0
        assert session(3, CI="true") > 5, "a key file is nothing for a CI system"
        report = json.loads((tmp_path / "out-3/report.json").read_text())
        assert any("the cache needs a provider's key or a cache key" in note for note in report["notes"])
        key = (tmp_path / "home/.local/state/skill-gate/key").read_text().strip()
        texts = [path.read_bytes() for path in (tmp_path / "out-1").rglob("*") if path.is_file()]
        assert not any(key.encode() in text for text in texts)
