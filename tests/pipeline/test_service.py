"""The whole service in one process: GitHub's webhook over HTTP, a mirror to fetch from, and what then stands on GitHub."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from gate.cli import main as run_command
from gate.wiring import bind
from reporters import status
from tests.pipeline.action_stage import NUMBER, Stage, stage
from tests.story import git, start_gate
from tests.unit.service.deliveries import SECRET, Answered, Listening, deliver, in_thread, request

SMOKE = "mode: smoke\n"
MIRROR = "acme/skills.git"


class Service:
    """A service that listens, for one stage."""

    def __init__(self, here: Stage, port: int, log: Listening, code: list[int]) -> None:
        self.here = here
        self.port = port
        self.log = log
        self.code = code

    def send(self, payload: Mapping[str, Any], delivery: str = "d-1", **changes: str) -> Answered:
        return deliver(self.port, payload, delivery, **changes)

    def until_idle(self) -> None:
        """Nothing waits and nothing is being judged."""
        quiet = threading.Event()
        for _ in range(1200):
            health = request(self.port, "GET", "/healthz").value
            if not health["waiting"] and not health["judging"]:
                return
            quiet.wait(0.05)
        raise AssertionError(self.log.lines)

    @property
    def bundles(self) -> list[Path]:
        return sorted((self.here.folder / "data/bundles/acme/skills" / str(NUMBER)).glob("*/skill-gate/report.json"))


@contextmanager
def service(here: Stage, *arguments: str, with_mirror: bool = True) -> Iterator[Service]:
    """``skill-gate serve`` in a thread, on a free port."""
    mirrors = here.folder / "mirrors"
    mirrors.mkdir()
    if with_mirror:
        mirror(here)
    # Nothing of a runner is around a service.
    environ = {name: here.environ[name] for name in ("GITHUB_API_URL", "GITHUB_SERVER_URL", "ANTHROPIC_API_KEY")}
    environ |= {"SKILL_GATE_WEBHOOK_SECRET": SECRET, "GITHUB_TOKEN": here.token.value if here.token else ""}
    log, code = Listening(), list[int]()
    bound = bind(environ, here.cancelled)
    assert SECRET not in environ.values()
    app = replace(bound, make_sandbox=lambda: here.sandbox, say=log.say, abort=lambda: log.say("left at once"))
    line = ["serve", "--repository", "acme/skills", "--port", "0", "--data", str(here.folder / "data")]
    line += ["--mirrors", str(mirrors), *arguments]
    with in_thread(lambda: code.append(run_command(app, line)), here.cancelled):
        yield Service(here, log.port, log, code)
    assert code == [0], log.lines


def mirror(here: Stage) -> None:
    """A bare mirror as an operator keeps it, with the base branch and what GitHub calls the head of the pull request."""
    place = here.folder / "mirrors" / MIRROR
    git(here.folder, "clone", "--quiet", "--bare", str(here.workspace), str(place))
    git(here.workspace, "push", "--quiet", str(place), f"{here.base}:refs/heads/main")
    git(here.workspace, "push", "--quiet", str(place), f"{here.head}:refs/pull/{NUMBER}/head")


def test_a_signed_delivery_is_answered_at_once_and_ends_as_a_comment_and_a_status(tmp_path: Path) -> None:
    with stage(tmp_path, policy=SMOKE) as here, service(here) as there:
        answer = there.send(here.payload())
        assert (answer.code, answer.value["result"]) == (202, "queued")
        there.until_idle()
        assert here.statuses() == [("pending", status.RUNNING), ("success", "success: 1 is conditional (skills/sums)")]
        assert here.statuses(here.merge) == []
        (comment,) = here.comments
        assert f"`{here.base[:12]}..{here.head[:12]}`" in comment
        assert len(there.bundles) == 1
        assert here.sandbox.boxes


def test_the_same_head_is_judged_once_and_a_newer_one_updates_the_comment(tmp_path: Path) -> None:
    with stage(tmp_path, policy=SMOKE) as here, service(here) as there:
        assert there.send(here.payload()).value["result"] == "queued"
        assert there.send(here.payload()).value["result"] == "duplicate"
        there.until_idle()
        assert there.send(here.payload(), "d-2").value["result"] == "duplicate"
        assert len(here.statuses()) == 2
        newer = commit(here)
        assert there.send(here.payload(head=head_of(here, newer)), "d-3").value["result"] == "queued"
        there.until_idle()
        (comment,) = here.comments
        assert newer[:12] in comment
        assert [state for state, _ in here.statuses(newer)] == ["pending", "success"]
        assert len(there.bundles) == 2


def head_of(here: Stage, sha: str) -> dict[str, Any]:
    return {**here.payload()["pull_request"]["head"], "sha": sha}


def commit(here: Stage) -> str:
    """Somebody pushes, to GitHub and so to the mirror."""
    git(here.workspace, "switch", "--quiet", "--detach", here.head)
    skill = here.workspace / "skills/sums/SKILL.md"
    skill.write_text(skill.read_text() + "\nMind the sign.\n", encoding="utf-8")
    git(here.workspace, "commit", "--quiet", "--all", "--message", "more")
    sha = here.push(git(here.workspace, "rev-parse", "HEAD"))
    git(here.workspace, "push", "--quiet", str(here.folder / "mirrors" / MIRROR), f"{sha}:refs/pull/{NUMBER}/head")
    return sha


def test_a_forks_head_is_read_and_not_run(tmp_path: Path) -> None:
    with stage(tmp_path, policy=SMOKE) as here, service(here) as there:
        repo = {"id": 99, "full_name": "stranger/skills", "default_branch": "main"}
        there.send(here.payload(head={"sha": here.head, "ref": "feature", "repo": repo}))
        there.until_idle()
        (pending, last) = here.statuses()
        assert (pending[0], last[0]) == ("pending", "pending")
        (comment,) = here.comments
        assert "fork" in comment
        assert here.sandbox.boxes == []
        assert here.server.requests == []


def test_nobody_without_the_secret_gets_anything_done(tmp_path: Path) -> None:
    with stage(tmp_path, policy=SMOKE) as here, service(here) as there:
        assert there.send(here.payload(), x_hub_signature_256="sha256=" + "0" * 64).code == 401
        assert there.send(here.payload(), x_hub_signature_256="").code == 401
        there.until_idle()
        assert here.statuses() == []
        assert not (here.folder / "data/bundles").exists()


def test_commits_that_cannot_be_fetched_are_an_error_on_the_head_and_are_tried_again_when_asked(tmp_path: Path) -> None:
    with stage(tmp_path, policy=SMOKE) as here, service(here, with_mirror=False) as there:
        there.send(here.payload())
        there.until_idle()
        assert [state for state, _ in here.statuses()] == ["pending", "error"]
        assert "no mirror of acme/skills" in here.statuses()[1][1]
        assert here.comments == []
        mirror(here)
        assert there.send(here.payload()).value["result"] == "queued"  # the same delivery, delivered again
        there.until_idle()
        assert [state for state, _ in here.statuses()][2:] == ["pending", "success"]


def test_the_key_the_token_and_the_secret_are_in_nothing_that_is_kept_or_said(tmp_path: Path) -> None:
    with stage(tmp_path, policy=SMOKE) as here, service(here) as there:
        there.send(here.payload())
        there.until_idle()
        assert there.bundles
        kept = [path.read_bytes() for path in (here.folder / "data").rglob("*") if path.is_file()]
        kept += [line.encode() for line in there.log.lines] + [body.encode() for body in here.comments]
        assert here.token is not None
        for secret in (SECRET, here.token.value, here.environ["ANTHROPIC_API_KEY"]):
            assert not any(secret.encode() in one for one in kept)


def test_a_service_that_is_stopped_resolves_the_status_of_what_it_was_judging(tmp_path: Path) -> None:
    started, go = threading.Event(), threading.Event()

    def held(box: Any, command: Any) -> str:
        del box, command
        started.set()
        assert go.wait(30)
        return ""

    with stage(tmp_path, policy=SMOKE, program=held) as here:
        with service(here) as there:
            there.send(here.payload())
            assert started.wait(60), there.log.lines
            here.cancelled.set()
            go.set()
        assert [state for state, _ in here.statuses()] == ["pending", "error"]
        assert "cancelled" in here.statuses()[1][1]
        assert here.comments == []


def test_the_program_listens_and_ends_well_when_it_is_told_to_stop(tmp_path: Path) -> None:
    process = start_gate(
        *("serve", "--repository", "acme/skills", "--port", "0", "--data", tmp_path),
        SKILL_GATE_WEBHOOK_SECRET=SECRET,
        GITHUB_TOKEN="ghp_x",
    )
    try:
        assert process.stderr is not None
        first = process.stderr.readline()
        assert first.startswith("listening on http://127.0.0.1:"), first
        port = int(first.rpartition(":")[2])
        assert request(port, "GET", "/healthz").code == 200
        assert deliver(port, {}, x_github_event="ping").value["result"] == "ignored"
        process.send_signal(signal.SIGTERM)
        _, rest = process.communicate(timeout=60)
        assert (process.returncode, rest) == (0, "stopping on SIGTERM: removing sandboxes\n")
    finally:
        process.kill()
        process.communicate()


@pytest.mark.parametrize(
    ("missing", "words"),
    [("SKILL_GATE_WEBHOOK_SECRET", "SKILL_GATE_WEBHOOK_SECRET"), ("GITHUB_TOKEN", "no token to report with")],
)
@pytest.mark.parametrize("empty", [None, "", "  "])
def test_it_does_not_start_without_a_secret_or_a_token(missing: str, words: str, empty: str | None) -> None:
    environ = {"SKILL_GATE_WEBHOOK_SECRET": SECRET, "GITHUB_TOKEN": "ghp_x"}
    del environ[missing]
    if empty is not None:
        environ[missing] = empty
    said: list[str] = []
    app = replace(bind(environ), say=said.append)
    assert run_command(app, ["serve", "--repository", "acme/skills", "--port", "0"]) == 2
    assert words in "\n".join(said)


@pytest.mark.parametrize("name", ["acme", "acme/skills/x", "../skills", "acme/..", "ac me/x", ""])
def test_a_repository_is_an_owner_and_a_name(name: str) -> None:
    said: list[str] = []
    app = replace(bind({"SKILL_GATE_WEBHOOK_SECRET": SECRET, "GITHUB_TOKEN": "ghp_x"}), say=said.append)
    assert run_command(app, ["serve", "--repository", name, "--port", "0"]) == 2
    assert "OWNER/NAME was expected" in said[0]
