"""What lies in an output folder before a session starts: its own, somebody else's, or half of something."""

from __future__ import annotations

import json
import os
import shutil
import signal
import threading
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from gate.cli import main as run_command
from gate.cli.app import App
from gate.cli.session import alone_in
from gate.domain.seeding import SessionSeed
from gate.evidence.bundle import load_run
from gate.evidence.seal import SEAL, seal_folder
from gate.llm.journal import JOURNAL, Journal
from gate.wiring import bind
from tests.builders import write_run_folder
from tests.fakes.sandbox import ScriptedSandbox
from tests.pipeline.test_resume_story import CASES, PATH, SKILL, SUITE, session, verdict_files
from tests.scripted.faults import Answer
from tests.scripted.generic import scenario
from tests.scripted.server import ScriptedServer
from tests.scripted.values import Request
from tests.story import git, make_repository
from tests.unit.execution.world import shell
from tests.verdicts import verdict_bytes


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    return make_repository(
        tmp_path / "repository",
        {PATH: SKILL.format(word="up"), SUITE: json.dumps({"version": 1, "cases": CASES[:1]})},
        {PATH: SKILL.format(word="them up")},
    )


def facts(out: Path) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((out / "session.json").read_text())
    return found


def late(repository: Path, server: ScriptedServer, folder: Path) -> tuple[Path, int]:
    """An undisturbed session, and the number of one of its last writes."""
    whole = session(repository, server, folder / "whole")
    assert whole.returncode == 0, whole.stderr
    return folder / "whole", int(whole.stdout.split()[-1]) - 12


def stopped(repository: Path, server: ScriptedServer, out: Path, moment: int, **how: Any) -> None:
    assert session(repository, server, out, kill_at=moment, **how).returncode == -signal.SIGKILL
    assert list(out.glob(f"skills/*/*/*/*/{SEAL}"))


def test_a_folder_that_this_key_did_not_write_gives_neither_seed_nor_runs(tmp_path: Path, repository: Path) -> None:
    """A repository can hold an output folder: its seed would tell every fence, its runs would be whatever it says."""
    with ScriptedServer(scenario()) as server:
        _, moment = late(repository, server, tmp_path)
        out = tmp_path / "out"
        stopped(repository, server, out, moment, seed=None)
        seed = facts(out)["seed"]
        shutil.copytree(out, tmp_path / "copy")
        other = session(repository, server, out, seed=None, TEST_KEY="another")
        assert other.returncode == 0, other.stderr
        assert "continuing" not in other.stderr
        assert facts(out)["seed"] != seed
        # The same folder, by the key that wrote it.
        own = session(repository, server, tmp_path / "copy", seed=None)
        assert own.returncode == 0, own.stderr
        assert "continuing" in own.stderr
        assert facts(tmp_path / "copy")["seed"] == seed


def test_another_commit_is_not_judged_with_the_seed_that_was_drawn_for_an_earlier_one(
    tmp_path: Path, repository: Path
) -> None:
    """A bundle of a session that was stopped may have been shown to those who push next."""
    with ScriptedServer(scenario()) as server:
        _, moment = late(repository, server, tmp_path)
        out = tmp_path / "out"
        stopped(repository, server, out, moment, seed=None)
        seed = facts(out)["seed"]
        (repository / PATH).write_text(SKILL.format(word="all of them up"))
        git(repository, "commit", "--quiet", "--all", "--message", "another")
        again = session(repository, server, out, seed=None)
        assert again.returncode == 0, again.stderr
        assert "continuing" not in again.stderr
        assert facts(out)["seed"] != seed


def test_a_run_that_was_changed_and_sealed_anew_is_made_again(tmp_path: Path, repository: Path) -> None:
    with ScriptedServer(scenario()) as server:
        whole, moment = late(repository, server, tmp_path)
        out = tmp_path / "out"
        stopped(repository, server, out, moment)
        folder = next(out.glob("skills/*/*/*/with_skill"))
        seal = json.loads((folder / SEAL).read_text())
        (folder / SEAL).unlink()
        (folder / "outputs/response.md").write_text("Sums, and whatever else is wanted.")
        for name in ("checks.json", "grading.json", "verification.json", "discussion.json"):
            (folder / name).unlink(missing_ok=True)
        seal_folder(folder, {name: value for name, value in seal.items() if name != "files"})
        # And one that nobody asked for.
        shutil.copytree(folder, folder.parents[1] / "run-9/with_skill")
        resumed = session(repository, server, out)
        assert resumed.returncode == 0, resumed.stderr
        assert "continuing" in resumed.stderr
        assert verdict_bytes(out) == verdict_bytes(whole)
        assert not list(out.rglob("run-9"))


def test_runs_of_another_image_are_not_mixed_into_a_session_that_goes_on(tmp_path: Path, repository: Path) -> None:
    images = json.dumps({"skill-gate-sandbox:dev": "sha256:" + "1b" * 32})
    with ScriptedServer(scenario()) as server:
        _, moment = late(repository, server, tmp_path)
        out = tmp_path / "out"
        stopped(repository, server, out, moment)
        resumed = session(repository, server, out, TEST_IMAGES=images)
        assert resumed.returncode == 0, resumed.stderr
        found = {json.loads(path.read_text())["image"] for path in out.glob("skills/*/*/*/*/run.json")}
        assert found == {"sha256:" + "1b" * 32}


def test_killed_while_it_seals_a_session_pays_for_nothing_again(tmp_path: Path, repository: Path) -> None:
    with ScriptedServer(scenario()) as server:
        whole, moment = late(repository, server, tmp_path)
        out = tmp_path / "out"
        stopped(repository, server, out, moment + 12)
        assert not (out / "manifest.json").exists()
        asked = len(server.requests)
        resumed = session(repository, server, out)
        assert resumed.returncode == 0, resumed.stderr
        assert len(server.requests) == asked
        assert verdict_files(out) == verdict_files(whole)
        assert not (out / JOURNAL).exists()


def test_two_sessions_never_write_to_one_folder(tmp_path: Path, repository: Path) -> None:
    log: list[str] = []
    out = tmp_path / "out"
    app = bind({}, threading.Event())
    arguments = ["run", "--repository", str(repository), "--base", "main", "--out", str(out)]
    with alone_in(out):
        (out / "session.json").write_text("{}")
        assert run_command(_told(app, log), arguments) == 2
        assert (out / "session.json").read_text() == "{}"
    assert any("Another session is writing to" in line for line in log)
    assert run_command(_told(app, log), arguments) == 1, "not measured: there is no key"
    assert (out / "report.json").exists()


def _told(app: App, log: list[str]) -> App:
    return replace(app, say=log.append, abort=lambda: None)


@pytest.mark.parametrize("left", [".0123456789abcdef.1.2.tmp", f"{JOURNAL}/session.mac"])
def test_what_is_left_of_the_first_write_of_a_session_is_in_nobodys_way(
    tmp_path: Path, repository: Path, left: str
) -> None:
    out = tmp_path / "out"
    (out / left).parent.mkdir(parents=True)
    (out / left).write_text("x")
    log: list[str] = []
    arguments = ["run", "--repository", str(repository), "--base", "main", "--out", str(out)]
    run_command(_told(bind({}, threading.Event()), log), arguments)
    assert (out / "report.json").exists(), log
    assert not (out / left).exists()


def test_a_run_of_a_later_round_is_out_of_sight_until_the_session_asks_for_it(tmp_path: Path) -> None:
    """Else a case whose further runs are partly there would look as if it were decided already."""
    journal = Journal(tmp_path, SessionSeed("5" * 64), "2026-01-05", "key")
    record = write_run_folder(tmp_path)
    journal.made("ab" * 32, record.seal, record.key.label)
    (tmp_path / record.key.folder / "grading.json").write_text("{}")
    assert journal.put_aside() == 1
    assert not (tmp_path / record.key.folder).exists()
    again = Journal(tmp_path, SessionSeed("5" * 64), "2026-01-05", "key")
    assert not again.take_back("cd" * 32, "skills/other/eval-1/run-1/with_skill")
    assert again.take_back("ab" * 32, record.key.folder)
    assert load_run(tmp_path, record.key.folder) == record
    assert not (tmp_path / record.key.folder / "grading.json").exists()


@pytest.mark.parametrize(("seed", "key"), [("6" * 64, "key"), ("5" * 64, "other")])
def test_a_run_under_another_seed_or_key_goes(tmp_path: Path, seed: str, key: str) -> None:
    record = write_run_folder(tmp_path)
    journal = Journal(tmp_path, SessionSeed("5" * 64), "2026-01-05", "key")
    journal.made("ab" * 32, record.seal, record.key.label)
    journal.put_aside()
    assert not Journal(tmp_path, SessionSeed(seed), "2026-01-05", key).take_back("ab" * 32, record.key.folder)
    assert not list(tmp_path.rglob(SEAL))


def test_a_folder_that_cannot_be_written_is_said_and_not_a_crash(tmp_path: Path, repository: Path) -> None:
    if os.geteuid() == 0:
        (tmp_path / "file").write_text("")
        out = tmp_path / "file/out"
    else:
        (tmp_path / "closed").mkdir(mode=0o500)
        out = tmp_path / "closed/out"
    log: list[str] = []
    arguments = ["run", "--repository", str(repository), "--base", "main", "--out", str(out)]
    assert run_command(_told(bind({}, threading.Event()), log), arguments) == 2
    assert any("cannot be used" in line for line in log)


def test_a_session_that_was_told_to_stop_says_what_is_kept_and_goes_on(tmp_path: Path, repository: Path) -> None:
    stop, asked = threading.Event(), threading.Lock()
    answer, count = scenario(), [0]
    log: list[str] = []

    def stopping(request: Request) -> Answer:
        with asked:
            count[0] += 1
            if count[0] == 8:
                stop.set()
        return answer(request)

    with ScriptedServer(stopping) as server:

        def command(cancelled: threading.Event) -> int:
            with ScriptedSandbox(shell()) as sandbox:
                app = bind({"OPENAI_API_KEY": "key"}, cancelled)
                arguments = [
                    "run", "--repository", str(repository), "--base", "main", "--out", str(tmp_path / "out"), "--no-cache",
                    "--model", f"openai@{server.openai_url}:agent", "--judge-model", f"openai@{server.openai_url}:judge",
                ]  # fmt: skip
                return run_command(replace(_told(app, log), make_sandbox=lambda: sandbox), arguments)

        assert command(stop) == 130
        (kept,) = [line for line in log if line.startswith("Kept in ")]
        assert any(line.startswith("Give the same command again to go on") for line in log)
        replies = int(kept.split(" replies")[0].rpartition(" ")[2])
        assert 5 <= replies <= 8 + 4  # those under way in other threads were written down too
        log.clear()
        assert command(threading.Event()) == 0
        assert any(f"{replies} replies are here already" in line for line in log)


def test_without_a_key_a_session_that_was_told_to_stop_promises_nothing(tmp_path: Path, repository: Path) -> None:
    stop = threading.Event()
    log: list[str] = []
    answer = scenario()

    def stopping(request: Request) -> Answer:
        stop.set()
        return answer(request)

    with ScriptedServer(stopping) as server, ScriptedSandbox(shell()) as sandbox:
        arguments = ["run", "--repository", str(repository), "--base", "main", "--out", str(tmp_path / "out")]
        arguments += ["--model", f"openai@{server.openai_url}:agent"]
        assert run_command(replace(_told(bind({}, stop), log), make_sandbox=lambda: sandbox), arguments) == 130
    assert any(line.startswith("Nothing is kept") for line in log)
