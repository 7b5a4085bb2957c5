"""Second stages, maintainers' runs, checks that are asked for again, check runs, audits: the whole Action in one process."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from gate.cli import App
from gate.cli.inputs import CHECK_SUFFIX, DEFAULT_CONTEXT
from reporters.check import MOST_ANNOTATIONS
from tests.github import refused, server_error
from tests.github.world import CheckRun
from tests.pipeline.action_stage import (
    CHANGE,
    KEY,
    MAIN,
    NO_SKILL_CHANGES,
    NUMBER,
    SKILL,
    Stage,
    files_at,
    stage,
)
from tests.pipeline.test_action import SMOKE, dispatch, killed, strict_evals
from tests.story import git

NAME = f"{DEFAULT_CONTEXT}{CHECK_SUFFIX}"
BROKEN: dict[str, str | None] = {"skills/broken/SKILL.md": "no front matter"}


def repository(here: Stage) -> dict[str, Any]:
    return {"id": here.repository.id, "full_name": "acme/skills", "default_branch": "main"}


def second_stage(here: Stage, *, head_repository: int | None, cause: str = "pull_request") -> dict[str, Any]:
    """The event of a workflow that follows the fork's; GitHub names no pull request in it."""
    owner = None if head_repository is None else {"id": head_repository, "full_name": "stranger/skills"}
    run: dict[str, Any] = {
        "event": cause,
        "head_sha": here.head,
        "head_repository": owner,
        "pull_requests": [],
        "head_branch": "patch-1",
    }
    return {"action": "completed", "workflow_run": run, "repository": repository(here), "sender": {"login": "stranger"}}


def again(here: Stage, name: str = NAME) -> dict[str, Any]:
    about = {"name": name, "head_sha": here.head, "pull_requests": []}
    return {"action": "rerequested", "check_run": about, "repository": repository(here), "sender": {"login": "octocat"}}


def only_the_default_branch(here: Stage) -> None:
    """The checkout of a workflow of the default branch: nothing of the head is in it."""
    clone = here.folder / "clone"
    git(here.workspace, "branch", "--force", "main", here.base)
    git(here.folder, "clone", "--quiet", "--branch", "main", "--single-branch", f"file://{here.workspace}", str(clone))
    here.environ |= {"GITHUB_WORKSPACE": str(clone), "GITHUB_SHA": here.base, "GITHUB_REF": "refs/heads/main"}


def checks(here: Stage) -> list[CheckRun]:
    return list(here.repository.checks.values())


# --- the second stage of a fork


@pytest.mark.parametrize("gone", [False, True])
def test_the_second_stage_reads_a_forks_head_as_data_and_reports_pending(tmp_path: Path, gone: bool) -> None:
    with stage(tmp_path, policy=SMOKE) as here:
        fork = None if gone else here.github.world.add_repository("stranger/skills", fork_of=here.repository)
        here.pull.head_repository = fork
        only_the_default_branch(here)
        payload = second_stage(here, head_repository=fork.id if fork else None)
        done = here.run(event="workflow_run", payload=payload, anthropic_api_key=KEY)
        assert done.code == 0, done.text
        assert done.outputs["state"] == "pending"
        assert json.loads(done.outputs["skills"]) == {"skills/sums": "not_measured"}
        assert [state for state, _ in here.statuses()] == ["pending", "pending"]
        assert "a run started by a maintainer" in here.comments[0]
        # Nothing was executed and nobody was paid, although the key is there.
        assert here.server.requests == []
        assert here.sandbox.boxes == []
        assert not [one for one in here.github.asked if "artifacts" in one.path]


def test_the_second_stage_finds_what_is_wrong_by_itself(tmp_path: Path) -> None:
    with stage(tmp_path, change=BROKEN) as here:
        here.pull.head_repository = None
        only_the_default_branch(here)
        done = here.run(event="workflow_run", payload=second_stage(here, head_repository=None))
        assert done.outputs["verdict"] == "invalid", done.text
        assert here.statuses()[-1][0] == "failure"


def test_two_pull_requests_of_one_head_are_never_mixed_up(tmp_path: Path) -> None:
    """Row 1: a branch with two pull requests; the report of one must not land on the other."""
    with stage(tmp_path) as here:
        here.pull.head_repository = None
        other = here.repository.add_pull(here.head, here.base, number=8, head_ref="feature", files=[])
        other.head_repository = None
        done = here.run(event="workflow_run", payload=second_stage(here, head_repository=None))
        assert "more than one open pull request" in done.outputs["headline"]
        assert here.github.writes == []
        other.state = "closed"
        assert (
            here.run(event="workflow_run", payload=second_stage(here, head_repository=None)).outputs["state"]
            == "pending"
        )
        assert len(here.comments) == 1


def test_a_head_with_pull_requests_into_two_branches_is_pending_whatever_was_said_of_it_before(tmp_path: Path) -> None:
    """A status is the commit's: one of a harmless pull request into an unmerged branch would count for main too."""
    with stage(tmp_path, change=NO_SKILL_CHANGES) as here:
        here.pull.head_repository = None
        assert here.run(event="workflow_run", payload=second_stage(here, head_repository=None)).code == 0
        assert here.statuses()[-1][0] == "success"
        other = here.repository.add_pull(here.head, here.base, number=8, head_ref="x", base_ref="unmerged", files=[])
        other.head_repository = None
        done = here.run(event="workflow_run", payload=second_stage(here, head_repository=None))
        assert "into different branches" in done.outputs["headline"]
        assert (done.outputs["state"], here.statuses()[-1][0]) == ("pending", "pending")
        assert len(here.comments) == 1


def test_a_strangers_copy_of_a_members_commit_takes_nothing_back(tmp_path: Path) -> None:
    with stage(tmp_path) as here:
        fork = here.github.world.add_repository("stranger/skills", fork_of=here.repository)
        here.repository.add_pull(here.head, here.base, number=8, head_ref="x", head_repository=fork, files=[])
        done = here.run(event="workflow_run", payload=second_stage(here, head_repository=fork.id))
        assert "more than one open pull request" in done.outputs["headline"]
        assert here.github.writes == []


def test_a_head_of_the_same_id_in_another_repository_is_another_pull_request(tmp_path: Path) -> None:
    with stage(tmp_path) as here:
        here.pull.head_repository = here.github.world.add_repository("stranger/skills", fork_of=here.repository)
        done = here.run(event="workflow_run", payload=second_stage(here, head_repository=424_242))
        assert "no open pull request has the head" in done.outputs["headline"]
        assert here.github.writes == []


def test_the_second_stage_leaves_a_head_that_has_moved_alone(tmp_path: Path) -> None:
    with stage(tmp_path) as here:
        here.pull.head_repository = None
        payload = second_stage(here, head_repository=None)
        here.push()
        assert here.run(event="workflow_run", payload=payload).code == 0
        assert here.github.writes == []


def test_the_second_stage_leaves_a_members_pull_request_to_its_own_run(tmp_path: Path) -> None:
    with stage(tmp_path) as here:
        done = here.run(event="workflow_run", payload=second_stage(here, head_repository=here.repository.id))
        assert "itself may write" in done.outputs["headline"]
        assert here.github.writes == []
        assert here.server.requests == []


def test_dependabots_pull_request_gets_its_report_from_the_second_stage(tmp_path: Path) -> None:
    """Row 2, case 41: no fork, but a token that only reads and no secret all the same."""
    with stage(tmp_path) as here:
        here.pull.author = here.github.world.user("dependabot[bot]")
        done = here.run(event="workflow_run", payload=second_stage(here, head_repository=here.repository.id))
        assert done.outputs["state"] == "pending", done.text
        assert len(here.comments) == 1
        assert here.server.requests == []


@pytest.mark.parametrize("cause", ["push", "workflow_dispatch"])
def test_after_any_other_run_the_second_stage_judges_nothing(tmp_path: Path, cause: str) -> None:
    with stage(tmp_path) as here:
        done = here.run(event="workflow_run", payload=second_stage(here, head_repository=None, cause=cause))
        assert done.code == 0
        assert here.github.asked == []


# --- a maintainer's run


def maintained(here: Stage, **more: str) -> dict[str, Any]:
    return dispatch(here, pr=str(NUMBER), **{"sha": here.head, **more})


@pytest.mark.parametrize(
    ("more", "ref", "told"),
    [
        ({"sha": "e" * 40}, "refs/heads/main", "not eeeeeeeeeeee"),
        ({"sha": ""}, "refs/heads/main", "not which commit"),
        ({"sha": "feature"}, "refs/heads/main", "whole commit id"),
        ({}, "refs/heads/feature", "Start it on the default branch"),
    ],
)
def test_a_maintainer_run_of_another_commit_or_branch_is_refused_before_anything_runs(
    tmp_path: Path, more: dict[str, str], ref: str, told: str
) -> None:
    with stage(tmp_path) as here:
        here.environ["GITHUB_SHA"] = here.base
        payload = {**maintained(here, **more), "ref": ref}
        done = here.run(event="workflow_dispatch", payload=payload)
        assert done.code == 2
        assert told in done.text
        assert here.github.writes == []
        assert here.server.requests == []


def meanwhile(act: Callable[[], object]) -> Callable[[App], App]:
    """A program in whose session something happens when its models are bound: after the first look at the head."""

    def changed(app: App) -> App:
        def bind(*arguments: Any) -> Any:
            act()
            return app.bind_models(*arguments)

        return replace(app, bind_models=bind)

    return changed


def test_a_push_while_a_maintainers_run_goes_on_voids_its_result(tmp_path: Path) -> None:
    """Row 40: what was looked at is what runs, and what is reported."""
    with stage(tmp_path, main=strict_evals(), policy=SMOKE) as here:
        here.environ["GITHUB_SHA"] = here.base
        done = here.run(event="workflow_dispatch", payload=maintained(here), app=meanwhile(here.push))
        assert done.code == 2
        assert done.outputs["state"] == "error"
        assert "is void" in done.text
        assert here.comments == []
        assert here.statuses()[-1][0] == "error"
        assert here.statuses("f" * 40) == []


def test_a_maintainers_run_of_a_head_that_goes_into_two_branches_is_refused(tmp_path: Path) -> None:
    with stage(tmp_path) as here:
        here.environ["GITHUB_SHA"] = here.base
        here.repository.add_pull(here.head, here.base, number=8, head_ref="x", base_ref="unmerged", files=[])
        done = here.run(event="workflow_dispatch", payload=maintained(here))
        assert done.code == 2
        assert "also the head of pull request 8" in done.text
        assert here.github.writes == []
        assert here.server.requests == []


def test_another_base_branch_while_a_maintainers_run_goes_on_voids_its_result(tmp_path: Path) -> None:
    """Its author can change that without writing to the repository, and with it whose policy holds."""
    with stage(tmp_path, main=strict_evals(), policy=SMOKE) as here:
        here.environ["GITHUB_SHA"] = here.base

        def move() -> None:
            here.pull.base_ref = "unmerged"

        done = here.run(event="workflow_dispatch", payload=maintained(here), app=meanwhile(move))
        assert done.code == 2
        assert "into another branch than when this run began" in done.text
        assert here.comments == []
        assert here.statuses()[-1][0] == "error"


def test_a_label_that_says_ready_starts_nothing_for_a_fork(tmp_path: Path) -> None:
    with stage(tmp_path) as here:
        here.pull.head_repository = None
        payload = here.payload(labels=[{"name": "safe to test"}])
        payload["pull_request"]["head"]["repo"] = None
        done = here.run(payload={**payload, "action": "labeled", "label": {"name": "safe to test"}})
        assert done.outputs["state"] == "pending"
        assert here.server.requests == []


# --- a check that is asked for again


def test_a_check_that_is_asked_for_again_judges_the_pull_request_of_its_head(tmp_path: Path) -> None:
    with stage(tmp_path, main=strict_evals(), policy=SMOKE) as here:
        done = here.run(event="check_run", payload=again(here), check="true")
        assert done.outputs["verdict"] == "conditional", done.text
        assert [(one.name, one.conclusion) for one in checks(here)] == [(NAME, "success")]
        assert here.statuses()[-1][0] == "success"
        other = here.run(event="check_run", payload=again(here, "lint"))
        assert "which is not skill-gate report" in other.outputs["headline"]
        here.pull.head_repository = None
        paid = len(here.server.requests)
        assert here.run(event="check_run", payload=again(here)).outputs["state"] == "pending"
        assert len(here.server.requests) == paid


# --- the check run


def test_a_check_run_has_a_name_of_its_own_and_annotations_at_the_lines_of_the_findings(tmp_path: Path) -> None:
    with stage(tmp_path, change=BROKEN) as here:
        done = here.run(check="true")
        assert done.code == 1, done.text
        (check,) = checks(here)
        assert (check.name, check.status, check.conclusion) == (NAME, "completed", "failure")
        assert check.name not in {one.context for one in here.repository.statuses}
        assert check.annotations >= 1
        sent = [one.body for one in here.github.asked if one.method == "PATCH" and "check-runs" in one.path]
        assert sent[0]["output"]["annotations"][0]["path"] == "skills/broken/SKILL.md"
        assert sent[0]["output"]["annotations"][0]["annotation_level"] == "failure"
        assert sent[0]["output"]["title"].startswith("failure: ")


def test_a_second_attempt_opens_a_check_of_its_own(tmp_path: Path) -> None:
    """Row 32: one that is completed cannot be opened again."""
    with stage(tmp_path, change=NO_SKILL_CHANGES) as here:
        here.run(check="true")
        here.environ["GITHUB_RUN_ATTEMPT"] = "2"
        here.run(check="true")
        assert [one.conclusion for one in checks(here)] == ["success", "success"]


def test_hundreds_of_findings_are_sent_fifty_at_a_time_up_to_what_a_page_bears(tmp_path: Path) -> None:
    """Rows 13 and 14."""
    many: dict[str, str | None] = {f"skills/s{number:03}/SKILL.md": "no front matter" for number in range(230)}
    with stage(tmp_path, change=many, policy="caps: {skills_per_session: 300}\n") as here:
        here.run(check="true")
        (check,) = checks(here)
        assert check.annotations == MOST_ANNOTATIONS
        sizes = [len(one.body["output"]["annotations"]) for one in here.github.asked if one.method == "PATCH" and "check-runs" in one.path]  # fmt: skip
        assert sizes == [50, 50, 50, 50]
        assert "more findings have no annotation" in check.output["summary"]


def test_a_lost_reply_sends_no_annotation_twice(tmp_path: Path) -> None:
    with stage(tmp_path, change=BROKEN) as here:
        here.github.fail(server_error(applied=True), on="PATCH .*check-runs")
        assert here.run(check="true").code == 1
        (check,) = checks(here)
        sent = [one for one in here.github.asked if one.method == "PATCH" and "check-runs" in one.path]
        assert len(sent) == 1
        assert check.conclusion == "failure"


@pytest.mark.parametrize("end", ["crash", "error"])
def test_a_crash_is_a_check_that_failed_and_never_neutral(tmp_path: Path, end: str) -> None:
    """Row 8."""

    def crash(app: App) -> App:
        def broken(*arguments: object) -> Any:
            raise RuntimeError("a fault of ours")

        return replace(app, bind_models=broken)

    unchanged: Callable[[App], App] = lambda app: app  # noqa: E731 - beside the other one
    with stage(tmp_path, policy="" if end == "crash" else "no_such_key: 1\n") as here:
        done = here.run(check="true", app=crash if end == "crash" else unchanged)
        assert done.outputs["state"] == "error"
        assert [(one.status, one.conclusion) for one in checks(here)] == [("completed", "failure")]


def test_a_check_that_a_killed_run_left_is_completed_by_the_post_step(tmp_path: Path) -> None:
    """Row 33."""
    with stage(tmp_path) as here:
        here.environ["INPUT_CHECK"] = "true"
        state = killed(here)
        assert [one.status for one in checks(here)] == ["in_progress"]
        here.run("post", state=state)
        assert [(one.status, one.conclusion) for one in checks(here)] == [("completed", "cancelled")]
        before = len(here.github.writes)
        here.run("post", state={**state, "gate_checked": "success", "gate_resolved": "success"})
        assert len(here.github.writes) == before


def test_without_the_permission_for_checks_the_rest_is_written_with_one_notice(tmp_path: Path) -> None:
    with stage(tmp_path, change=NO_SKILL_CHANGES) as here:
        here.github.fail(refused(403, "Resource not accessible by integration"), on="POST .*check-runs")
        done = here.run(check="true")
        (notice,) = done.annotations("notice")
        assert "checks: write" in notice
        assert here.statuses()[-1][0] == "success"
        assert len(here.comments) == 1


@pytest.mark.parametrize("name", ["skill-gate report", "a Report", "skill-gate/release", "Skill-Gate/Release"])
def test_a_status_that_would_be_called_like_a_check_or_that_of_a_release_is_refused(tmp_path: Path, name: str) -> None:
    with stage(tmp_path) as here:
        assert here.run(status_context=name).code == 2
        assert here.github.writes == []


# --- newer runs, audits, releases


def test_a_slow_run_does_not_write_over_one_that_began_after_it(tmp_path: Path) -> None:
    """A draft's run that ends after the one that ready for review started."""
    with stage(tmp_path) as here:
        here.pull.draft = True
        url = "https://github.example/acme/skills/actions/runs/9999/attempts/1"

        def meanwhile() -> None:
            sets: dict[str, Any] = {
                "state": "success",
                "context": "skill-gate",
                "description": "by the newer run",
                "target_url": url,
            }
            newest = here.repository.statuses[-1]
            here.repository.statuses.append(replace(newest, **sets))

        here.github.before("GET .*/commits/.*/status", meanwhile)
        done = here.run(payload=here.payload(draft=True))
        assert here.statuses()[-1] == ("success", "by the newer run")
        assert here.comments == []
        assert "another run about the same commit" in done.summary


def test_an_audit_of_a_named_tag_looks_at_every_skill_of_it_within_its_budget(tmp_path: Path) -> None:
    with stage(tmp_path, main=strict_evals(), policy=SMOKE) as here:
        git(here.workspace, "tag", "v1", here.head)
        here.environ["GITHUB_SHA"] = here.base
        done = here.run(event="workflow_dispatch", payload=dispatch(here, ref="refs/heads/main") | {"inputs": {"ref": "v1", "budget": "0.5"}})  # fmt: skip
        assert done.code == 0, done.text
        assert here.report["head_commit"] == here.head
        settings = json.loads((here.bundle / "session.json").read_text())
        assert '"usd_per_session": 0.5' in json.dumps(settings), settings
        assert here.github.writes == []


def test_a_budget_is_nothing_that_a_pull_request_says(tmp_path: Path) -> None:
    with stage(tmp_path, main=strict_evals(), policy=SMOKE) as here:
        here.run(budget="900")
        (finding,) = [one for one in here.report["session_findings"] if one["rule"] == "input/loosens"]
        assert "the input budget" in finding["message"]


@pytest.mark.parametrize(("name", "value"), [("ref", "a..b"), ("ref", "--upload-pack=x"), ("budget", "-1"), ("budget", "1e9"), ("sha", "abc")])  # fmt: skip
def test_inputs_that_could_be_something_else_are_refused(tmp_path: Path, name: str, value: str) -> None:
    with stage(tmp_path) as here:
        done = here.run(given={name: value})
        assert done.code == 2
        assert f"input {name} is" in done.text


def test_what_an_audit_of_the_default_branch_has_kept_is_not_paid_for_again_by_a_release(tmp_path: Path) -> None:
    """The release gate: runs and replies under the key's MAC count, whatever folder they come in."""
    with stage(tmp_path, main=strict_evals(), policy="mode: smoke\n") as here:
        git(here.workspace, "checkout", "--quiet", here.base)
        here.environ |= {"GITHUB_SHA": here.base, "GITHUB_REF": "refs/heads/main", "GITHUB_REPOSITORY_ID": "77"}
        first = here.run(event="schedule", payload={"schedule": "x"}, cache_dir="kept", anthropic_api_key=KEY)
        assert first.code == 0, first.text
        paid = len(here.server.requests)
        assert paid > 0
        tag = {"ref": "refs/tags/v1", "before": "0" * 40, "after": here.base, "repository": repository(here)}
        here.environ["GITHUB_REF"] = "refs/tags/v1"
        second = here.run(event="push", payload=tag, cache_dir="kept", anthropic_api_key=KEY)
        assert second.outputs["skills"] == first.outputs["skills"], second.text
        # What is not asked of a model again: only whether both models answer, before anything else.
        assert len(here.server.requests) - paid <= 2
        assert here.report["enforce"] == "strict"


def test_files_of_a_head_are_those_of_its_commit(tmp_path: Path) -> None:
    """What the stage gives to GitHub is what Git holds: the tests above would say nothing otherwise."""
    with stage(tmp_path, change=CHANGE) as here:
        held = files_at(here.workspace, here.head)
        assert held["skills/sums/SKILL.md"].data == SKILL.format(word="together").encode()
        assert set(held) >= set(MAIN)
