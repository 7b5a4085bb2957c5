"""The Action as it runs on GitHub: the image, GitHub's runner imitated, a stateful GitHub, real sandboxes as siblings."""

from __future__ import annotations

import json
import random
import subprocess
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import docker
import pytest

from tests.github import READ, FakeGitHub, Pull, Repository, Token
from tests.runner import Forwarder, Runner, StepResult, bridge_address
from tests.runner.environment import JOB_TOKEN
from tests.runner.image import ACTION, gate_image
from tests.scripted import generic
from tests.scripted.faults import Answer
from tests.scripted.server import ScriptedServer
from tests.scripted.values import Reply, Request
from tests.story import git, make_repository

pytestmark = [pytest.mark.docker, pytest.mark.timeout(900)]

NUMBER = 7
KEY = "sk-ant-canary-5b1f8e0c2d7a4936"
SKILL = "---\nname: sums\ndescription: Adds numbers. Use when somebody asks for a sum.\n---\n# Sums\n\nAdd the numbers {word}.\n"
CASES = """version: 1
cases:
  - id: addition
    prompt: What is 1 and 2?
    checks:
      - kind: response_contains
        keyword: the part Sums
"""


class BridgedGitHub(FakeGitHub):
    """Names itself, in every address that it hands out, as containers reach it."""

    bridge = ""

    @property
    def url(self) -> str:
        """The address of the API."""
        return f"http://{self.bridge}" if self.bridge else super().url


@dataclass
class Scene:
    """A pull request on the fake GitHub, and a runner with its checkout."""

    runner: Runner
    github: BridgedGitHub
    repository: Repository
    pull: Pull
    head: str
    merge: str
    server: ScriptedServer

    def payload(self, **changes: Any) -> dict[str, Any]:
        """The event; ``changes`` to its pull request."""
        repository = {
            "id": self.repository.id,
            "name": self.repository.name,
            "full_name": self.repository.full_name,
            "default_branch": "main",
            "owner": {"login": "acme", "id": self.repository.owner.id},
        }
        pull: dict[str, Any] = {
            "number": NUMBER,
            "state": "open",
            "draft": False,
            "user": {"login": "octocat"},
            "merge_commit_sha": self.merge,
            "head": {"sha": self.head, "ref": "feature", "repo": repository},
            "base": {"sha": self.pull.base_sha, "ref": "main", "repo": repository},
            "labels": [],
        }
        return {
            "action": "synchronize",
            "number": NUMBER,
            "pull_request": {**pull, **changes},
            "repository": repository,
            "sender": {"login": "octocat"},
        }

    @property
    def environment(self) -> dict[str, str]:
        """Where GitHub is, for the job."""
        return {"GITHUB_API_URL": self.github.url, "GITHUB_GRAPHQL_URL": f"{self.github.url}/graphql"}

    def run(self, **inputs: str) -> StepResult:
        """The action for this pull request."""
        given = {name.replace("_", "-"): value for name, value in inputs.items()}
        return self.runner.run("pull_request", self.payload(), {"anthropic-api-key": KEY, **given}, self.environment)

    @property
    def bundle(self) -> Path:
        """Where it is on the runner."""
        return self.runner.paths.temp / "skill-gate"

    def statuses(self, sha: str) -> list[tuple[str, str]]:
        """(state, context), oldest first."""
        return [(one.state, one.context) for one in reversed(self.repository.statuses_of(sha))]


@contextmanager
def scene(
    folder: Path,
    engine: docker.DockerClient,
    *,
    token: str = "write",
    agent: Callable[[Request], Answer] | None = None,
    change: Mapping[str, str | None] | None = None,
    mode: str = "smoke",
) -> Iterator[Scene]:
    """Everything that a pull request needs, reachable from containers for as long as the block lasts."""
    address = bridge_address(engine)
    with (
        ScriptedServer(generic.scenario(agent=agent or generic.reader)) as server,
        BridgedGitHub() as github,
        Forwarder(address, int(server.url.rpartition(":")[2])) as models,
        Forwarder(address, int(github.url.rpartition(":")[2])) as api,
    ):
        github.bridge = api.host
        policy = (
            f"mode: {mode}\nmodels:\n  executor: anthropic@http://{models.host}:agent\n"
            f"  grader: openai@http://{models.host}/v1:judge\n"
        )
        files = {
            "skills/sums/SKILL.md": SKILL.format(word="up"),
            "skills/sums/evals/skill-gate.yaml": CASES,
            ".github/skill-gate.yml": policy,
        }
        changed = {"skills/sums/SKILL.md": SKILL.format(word="together")} if change is None else change
        source = make_repository(folder / "source", files, changed)
        base, head = git(source, "rev-parse", "main"), git(source, "rev-parse", "feature")
        git(source, "switch", "--quiet", "--detach", "main")
        git(source, "merge", "--quiet", "--no-ff", "--message", "merge", "feature")
        merge = git(source, "rev-parse", "HEAD")
        git(source, "update-ref", f"refs/pull/{NUMBER}/merge", merge)
        repository = github.add_repository("acme/skills", private=True)
        for sha, parents in ((base, []), (head, [base]), (merge, [base, head])):
            repository.add_commit({}, parents=parents, sha=sha, branch="main" if sha == base else None)
        repository.roles["octocat"] = "write"
        pull = repository.add_pull(head, base, number=NUMBER, head_ref="feature", files=["skills/sums/SKILL.md"])
        given: Token = getattr(github, token)
        with Runner(folder / "runner", gate_image(), ACTION, token=given.value, secrets=[KEY]) as runner:
            runner.checkout(source, merge)
            yield Scene(runner, github, repository, pull, head, merge, server)


def slow_reader(request: Request) -> Answer:
    """An agent whose command keeps its sandbox busy for a while."""
    if not request.turn:
        return Reply.calling("bash", {"command": "sleep 2; cat /skills/*/SKILL.md"})
    return generic.reader(request)


def test_a_pull_request_gets_one_comment_one_status_on_its_head_outputs_and_summary_and_nothing_is_left(
    engine: docker.DockerClient, tmp_path: Path
) -> None:
    with scene(tmp_path, engine) as stage:
        first = stage.run()
        assert first.exit_code == 0, first.log
        assert first.conclusion == "success"
        comments = stage.repository.comments_of(NUMBER)
        assert [one.author.login for one in comments if one.author] == ["github-actions[bot]"]
        assert comments[0].body.startswith("## Skill Gate: success")
        # The head, not the merge that the job was started on.
        assert stage.statuses(stage.head) == [("pending", "skill-gate"), ("success", "skill-gate")]
        assert stage.statuses(stage.merge) == []
        assert set(first.outputs) == set(stage.runner.action["outputs"])
        assert first.outputs["verdict"] == "conditional"
        assert first.outputs["exit-code"] == "0"
        assert json.loads(first.outputs["changed-skills"]) == ["skills/sums"]
        assert json.loads(first.outputs["skills"]) == {"skills/sums": "conditional"}
        assert str(NUMBER) in first.outputs["comment-url"]
        # Paths that a later step, which runs on the runner itself, can use.
        assert Path(first.outputs["bundle"]) == stage.bundle
        assert json.loads(Path(first.outputs["report"]).read_text())["state"] == "success"
        assert "skills/sums" in first.summary
        assert [one for one in first.annotations if one.level == "error"] == []
        assert first.environment == {}
        assert first.leftovers == ()
        assert first.foreign_files == ()
        assert all(path.stat().st_uid == stage.bundle.parent.stat().st_uid for path in stage.bundle.rglob("*"))
        verified = subprocess.run(
            ["docker", "run", "--rm", "-v", f"{stage.bundle}:/bundle:ro", gate_image(), "verify", "/bundle"],
            capture_output=True,
            text=True,
            check=False,
        )
        assert verified.returncode == 0, verified.stdout
        posted = stage.runner.post()
        assert posted.exit_code == 0, posted.log
        assert posted.leftovers == ()
        assert len(stage.statuses(stage.head)) == 2

        second = stage.run()
        assert second.exit_code == 0, second.log
        again = stage.repository.comments_of(NUMBER)
        assert [one.id for one in again] == [comments[0].id]
        assert again[0].updated_at > again[0].created_at
        assert second.leftovers == ()
        assert stage.statuses(stage.head)[2:] == [("pending", "skill-gate"), ("success", "skill-gate")]
        for done in (first, posted, second):
            for secret in (KEY, stage.github.write.value, JOB_TOKEN):
                shown = [line for _, line in done.commands.output if secret in line and "::add-mask::" not in line]
                assert shown == []
                assert secret not in done.log + done.summary
        for path in stage.bundle.rglob("*"):
            if path.is_file():
                assert KEY.encode() not in path.read_bytes(), path


def test_a_pull_request_without_skills_is_a_success_at_once_with_every_output(
    engine: docker.DockerClient, tmp_path: Path
) -> None:
    with scene(tmp_path, engine, change={"notes.txt": "text"}) as stage:
        done = stage.run()
        assert done.exit_code == 0, done.log
        assert set(done.outputs) == set(stage.runner.action["outputs"])
        assert done.outputs["verdict"] == "none"
        assert stage.statuses(stage.head)[-1] == ("success", "skill-gate")
        assert stage.server.requests == []


def test_a_token_that_only_reads_leaves_verdict_summary_and_bundle_and_one_notice(
    engine: docker.DockerClient, tmp_path: Path
) -> None:
    with scene(tmp_path, engine, token="read") as stage:
        assert stage.github.read.permissions == READ
        done = stage.run()
        assert done.exit_code == 0, done.log
        assert done.outputs["verdict"] == "conditional"
        assert [one.level for one in done.annotations] == ["notice"]
        assert "Traceback" not in done.raw_log
        assert "skills/sums" in done.summary
        assert (stage.bundle / "report.json").is_file()
        assert stage.repository.comments_of(NUMBER) == []
        assert done.leftovers == ()


def test_cancelled_at_random_moments_the_container_ends_by_itself_and_nothing_is_left(
    engine: docker.DockerClient, tmp_path: Path
) -> None:
    """Twenty jobs, each with the signals that GitHub's runner sends, and then its post step."""
    draw = random.Random(20260131)
    ends: list[str] = []
    gone: list[tuple[str, float]] = []
    swept = 0
    with scene(tmp_path, engine, agent=slow_reader, mode="quick") as stage:
        # How long a run takes depends on the machine; the moments are spread over that.
        started = time.monotonic()
        assert stage.run().exit_code == 0
        whole = time.monotonic() - started
        for number in range(20):
            stage.repository.statuses.clear()
            step = stage.runner.start("pull_request", stage.payload(), {"anthropic-api-key": KEY}, stage.environment)
            step.container()
            # An engine calls a container running a moment before its process can take a signal: one that is sent in between
            # reaches nobody, on GitHub's runner too.
            time.sleep(0.3 + 0.8 * whole * draw.random())
            done = step.cancel()
            moment = (number, done.ended_by, done.log)
            assert done.ended_by != "SIGKILL", moment
            assert "Traceback" not in done.raw_log or "KeyboardInterrupt" in done.raw_log, moment
            posted = stage.runner.post()
            assert posted.exit_code == 0, posted.log
            assert stage.runner.left_behind() == [], moment
            states = [state for state, _ in stage.statuses(stage.head)]
            assert states == [] or states[-1] != "pending", moment
            ends.append(f"{done.exit_code}:{states[-1] if states else 'none'}")
            gone.append((done.ended_by, round(done.gone_s or 0, 1)))
            swept += len(done.leftovers)
    print(
        f"exit codes and last statuses: {sorted(ends)}; last signal and seconds until gone: {sorted(gone)}; left to the post step: {swept}"
    )
    # The container is to be gone before the runner's second signal at 7.5 s; where a machine is short of processors one may
    # need the time up to the kill at 10 s. Most of the moments fell into a run, and its status was taken back every time.
    assert sum(ended_by == "SIGTERM" for ended_by, _ in gone) <= 5, gone
    assert sum(end == "130:error" for end in ends) >= 8, sorted(ends)
