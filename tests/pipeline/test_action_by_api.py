"""What the checkout does not hold is read from GitHub; where GitHub cuts its lists, nothing is green."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.github import ChangedFile
from tests.github.faults import Fault
from tests.pipeline.action_stage import EVALS, MAIN, SKILL, Stage, files_at, shallow_checkout, stage
from tests.pipeline.test_action import SMOKE, strict_evals, wrong_answer
from tests.story import git


def rules(here: Stage) -> dict[str, str]:
    return {one["rule"]: one["message"] for one in here.report["session_findings"]}


def test_a_checkout_without_history_is_judged_by_what_github_has_and_that_is_said(tmp_path: Path) -> None:
    with stage(tmp_path, main=strict_evals(), policy="mode: quick\n", agent=wrong_answer) as here:
        full = here.run()
        expected = {key: here.report[key] for key in ("base_commit", "head_commit", "state", "headline")}
        shallow_checkout(here)
        done = here.run()
        assert {key: here.report[key] for key in expected} == expected
        assert done.outputs["skills"] == full.outputs["skills"] == json.dumps({"skills/sums": "fail"})
        assert "GitHub was asked for the rest" in rules(here)["changes/by-api"]
        assert "changes/by-api" in here.comments[0]
        assert here.report["skills"][0]["change"] == "modified"


def test_the_base_policy_is_read_from_github_too(tmp_path: Path) -> None:
    change = {"skills/sums/SKILL.md": SKILL.format(word="more"), ".github/skill-gate.yml": "enforce: advisory\n"}
    with stage(tmp_path, main=strict_evals(), policy="mode: quick\n", agent=wrong_answer, change=change) as here:
        shallow_checkout(here)
        done = here.run()
        assert here.report["enforce"] == "standard"
        assert done.code == 1


@pytest.mark.parametrize("cut", ["both trees", "the list too"])
def test_a_change_that_github_does_not_list_in_full_is_never_green(tmp_path: Path, cut: str) -> None:
    readme = {"README.md": "x", **{f"docs/{number}.md": "x" for number in range(8)}}
    with stage(tmp_path, main=MAIN, change=readme) as here:
        assert here.run().code == 0
        shallow_checkout(here)
        here.github.service.tree_limit = 3
        here.pull.files = [ChangedFile(f"docs/{number}.md", "added") for number in range(9)]
        if cut == "the list too":
            # GitHub says that 3,001 files changed, and lists 3,000: the one with the skill is not among them.
            here.pull.files = [ChangedFile(f"docs/{number}.md", "added") for number in range(3001)]
        done = here.run()
        assert done.outputs["state"] == "error", done.text
        assert done.code == 3
        assert "changes/cut-tree" in rules(here)
        assert ("changes/incomplete" in rules(here)) == (cut == "the list too")
        assert here.statuses()[-1][0] == "error"
        assert "GitHub does not list every file" in here.statuses()[-1][1]
        assert "does not list every file" in here.comments[-1]


def test_advisory_says_too_that_it_did_not_see_everything(tmp_path: Path) -> None:
    docs = {f"z/{number}.md": "x" for number in range(30)}
    with stage(tmp_path, main={**MAIN, **docs}, change={"README.md": "x"}, policy="enforce: advisory\n") as here:
        shallow_checkout(here)
        here.github.service.tree_limit = 20
        done = here.run()
        assert done.outputs["state"] == "success"
        assert "does not list every file" in done.outputs["headline"]


def test_a_head_of_a_fork_that_was_not_fetched_is_read_from_github(tmp_path: Path) -> None:
    with stage(tmp_path, main=strict_evals(), policy=SMOKE) as here:
        here.pull.head_repository = None
        git(here.workspace, "checkout", "--quiet", "--detach", here.head)
        git(here.workspace, "mv", "skills/sums", "skills/additions")
        git(here.workspace, "commit", "--quiet", "--message", "moved")
        head = git(here.workspace, "rev-parse", "HEAD")
        here.repository.add_commit(files_at(here.workspace, head), parents=[here.head], sha=head)
        here.pull.head_sha = head
        here.pull.files = [ChangedFile("skills/additions/SKILL.md", "renamed", previous="skills/sums/SKILL.md")]
        here.environ["GITHUB_SHA"] = here.base
        clone = tmp_path / "clone"
        git(here.workspace, "branch", "--force", "main", here.base)
        git(tmp_path, "clone", "--quiet", "--branch", "main", "--single-branch", f"file://{here.workspace}", str(clone))
        here.environ["GITHUB_WORKSPACE"] = str(clone)
        payload = {"ref": "refs/heads/main", "inputs": None, "sender": {"login": "octocat"},
                   "repository": {"id": 1, "full_name": "acme/skills", "default_branch": "main"}}  # fmt: skip
        done = here.run(event="workflow_dispatch", payload=payload, pull_request="7", sha=head)
        assert json.loads(done.outputs["skills"]) == {"skills/additions": "conditional"}, done.text
        (skill,) = here.report["skills"]
        assert skill["change"] == "renamed"


def test_a_file_that_github_gives_in_place_of_another_is_refused(tmp_path: Path) -> None:
    with stage(tmp_path, main=strict_evals(), policy=SMOKE) as here:
        shallow_checkout(here)
        other = {"sha": "0" * 40, "size": 1, "encoding": "base64", "content": "eA==", "url": "u", "node_id": "n"}
        here.github.fail(Fault(200, other), on="GET .*/git/blobs", repeat=True)
        done = here.run()
        assert done.code == 2
        assert "gave another file" in done.text


def test_a_push_event_without_a_pull_request_compares_two_trees_of_github(tmp_path: Path) -> None:
    with stage(tmp_path, main={**strict_evals(), "skills/b/SKILL.md": SKILL.format(word="b"), "skills/b/evals/evals.json": EVALS},
               policy=SMOKE) as here:  # fmt: skip
        shallow_checkout(here)
        payload = {"ref": "refs/heads/feature", "before": here.base, "after": here.head,
                   "repository": {"id": 1, "full_name": "acme/skills", "default_branch": "main"}}  # fmt: skip
        done = here.run(event="push", payload=payload)
        assert json.loads(done.outputs["skills"]) == {"skills/sums": "conditional"}, done.text
