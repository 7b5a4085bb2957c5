"""Every kind of event as it runs on GitHub: the image, GitHub's runner imitated, a stateful GitHub, real sandboxes.

One pull request of a fork and one repository, one event after the other in the order in which they happen.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import docker
import pytest

from tests.docker.test_action_story import KEY, NUMBER, Scene, scene
from tests.pipeline.action_stage import files_at
from tests.runner import StepResult

pytestmark = [pytest.mark.docker, pytest.mark.timeout(600)]

CHECKS = "skill-gate report"


def step(here: Scene, event: str, payload: dict[str, Any], *, key: bool = True, **inputs: str) -> StepResult:
    """A job of an event, and its post step: neither leaves anything."""
    given = {name.replace("_", "-"): value for name, value in inputs.items()}
    if key:
        given["anthropic-api-key"] = KEY
    variables = dict(here.environment)
    if event in ("release", "workflow_dispatch", "workflow_run"):
        variables["GITHUB_SHA"] = here.pull.base_sha
    done = here.runner.run(event, payload, given, variables)
    posted = here.runner.post()
    assert posted.exit_code == 0, posted.log
    assert (done.leftovers, posted.leftovers, here.runner.left_behind()) == ((), (), [])
    assert done.foreign_files == ()
    assert set(done.outputs) == set(here.runner.action["outputs"]), done.log
    assert "Traceback" not in done.raw_log
    return done


def test_one_change_from_a_fork_to_the_release_and_nothing_is_left(engine: docker.DockerClient, tmp_path: Path) -> None:
    with scene(tmp_path, engine) as here:
        repository = here.payload()["repository"]
        sender = {"login": "octocat"}
        base = here.pull.base_sha
        source = tmp_path / "source"
        for sha, parents in ((base, []), (here.head, [base])):
            branch = "main" if sha == base else None
            here.repository.add_commit(files_at(source, sha), parents=parents, sha=sha, branch=branch)
        fork = here.github.world.add_repository("stranger/skills", fork_of=here.repository)
        here.pull.head_repository = fork
        theirs = {"id": fork.id, "full_name": "stranger/skills", "fork": True}

        # The fork's own job: a token that only reads, no key.
        fork_head = {"head": {"sha": here.head, "ref": "feature", "repo": theirs}}
        here.runner._token = here.github.read.value  # what GitHub gives to a fork's job
        first = step(here, "pull_request", here.payload(**fork_head), key=False)
        assert (first.exit_code, first.outputs["state"]) == (0, "pending"), first.log
        assert here.github.writes == [] or {one.status for one in here.github.writes} == {403}
        assert [one.level for one in first.annotations].count("notice") == 1

        # The second stage, on the default branch: it writes, and executes nothing.
        here.runner._token = here.github.write.value
        here.runner.checkout(source, base)
        run = {"event": "pull_request", "head_sha": here.head, "head_repository": theirs, "pull_requests": []}
        event = {"action": "completed", "workflow_run": run, "repository": repository, "sender": sender}
        second = step(here, "workflow_run", event)
        assert second.outputs["state"] == "pending", second.log
        assert here.server.requests == []
        assert here.statuses(here.head)[-1] == ("pending", "skill-gate")
        assert len(here.repository.comments_of(NUMBER)) == 1

        # A maintainer has read that commit.
        asked = {"ref": "refs/heads/main", "inputs": {"pr": str(NUMBER), "sha": here.head}}
        maintained = step(
            here, "workflow_dispatch", {**asked, "repository": repository, "sender": sender}, check="true"
        )
        assert maintained.outputs["verdict"] == "conditional", maintained.log
        assert here.statuses(here.head)[-1] == ("success", "skill-gate")
        assert len(here.repository.comments_of(NUMBER)) == 1
        assert [(one.name, one.conclusion) for one in here.repository.checks.values()] == [(CHECKS, "success")]

        # The queue, then an audit, then the release.
        here.runner.checkout(source, here.head)
        group = {"head_sha": here.head, "head_ref": "refs/heads/gh-readonly-queue/main/pr-7", "base_sha": base, "base_ref": "refs/heads/main"}  # fmt: skip
        queued = step(
            here, "merge_group", {"action": "checks_requested", "merge_group": group, "repository": repository}
        )
        assert queued.exit_code == 0, queued.log
        audit = {"ref": "refs/heads/main", "inputs": {"mode": "smoke"}, "repository": repository, "sender": sender}
        audited = step(here, "workflow_dispatch", audit)
        assert json.loads(audited.outputs["skills"]) == {"skills/sums": "conditional"}, audited.log
        writes = len(here.github.writes)
        tag = {
            "ref": "refs/tags/v1",
            "before": "0" * 40,
            "after": here.head,
            "repository": repository,
            "sender": sender,
        }
        tagged = step(here, "push", tag)
        # Strictly: what only a smoke run has seen is no release.
        assert (tagged.exit_code, tagged.outputs["state"]) == (1, "failure"), tagged.log
        assert here.statuses(here.head)[-1] == ("failure", "skill-gate/release")
        released = step(
            here, "release", {"action": "published", "release": {"tag_name": "v1"}, "repository": repository}
        )
        assert released.outputs["state"] == "failure", released.log
        assert here.statuses(base)[-1] == ("failure", "skill-gate/release")
        assert len(here.github.writes) == writes + 4
