"""What the Action judges on each event that has no pull request, and against what: no commit may slip through."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from tests.pipeline.action_stage import EVALS, SKILL, Done, Stage, stage
from tests.pipeline.test_action import SMOKE, strict_evals, wrong_answer
from tests.story import git

ZERO, GONE = "0" * 40, "d" * 40
TWO = {"skills/other/SKILL.md": SKILL.format(word="x").replace("sums", "other"), "skills/other/evals/evals.json": EVALS}


def event(here: Stage, name: str, **fields: Any) -> Done:
    """One job; the payload's repository is the stage's."""
    repository = {"id": here.repository.id, "full_name": "acme/skills", "default_branch": "main"}
    inputs = fields.pop("inputs", {})
    return here.run(
        event=name, payload={"repository": repository, "sender": {"login": "octocat"}, **fields}, given=inputs
    )


def commit(here: Stage, parent: str, change: Mapping[str, str | None]) -> str:
    """A commit on top of another one, in the checkout and on GitHub."""
    git(here.workspace, "checkout", "--quiet", "--detach", parent)
    for path, text in change.items():
        place = here.workspace / path
        if text is None:
            git(here.workspace, "rm", "--quiet", "-r", path)
            continue
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_text(text, encoding="utf-8")
        git(here.workspace, "add", path)
    git(here.workspace, "commit", "--quiet", "--message", "more")
    made = git(here.workspace, "rev-parse", "HEAD")
    here.repository.add_commit({}, parents=[parent], sha=made)
    return made


def judged(done: Done) -> set[str]:
    return set(json.loads(done.outputs["skills"]))


def rules(here: Stage) -> set[str]:
    return {one["rule"] for one in here.report["session_findings"]}


# --- push


def test_a_push_is_judged_from_the_commit_before_it_and_writes_nothing_on_github(tmp_path: Path) -> None:
    with stage(tmp_path, main={**strict_evals(), **TWO}, policy="mode: quick\n", agent=wrong_answer) as here:
        newer = commit(here, here.head, {"skills/other/SKILL.md": TWO["skills/other/SKILL.md"] + "More.\n"})
        done = event(here, "push", ref="refs/heads/feature", before=here.head, after=newer, inputs={"mode": "smoke"})
        assert judged(done) == {"skills/other"}
        said = f"a push to refs/heads/feature: {here.head[:12]}..{newer[:12]}, by the policy of {here.base[:12]}"
        assert said in done.text
        assert (here.report["base_commit"], here.report["head_commit"]) == (here.head, newer)
        assert here.github.writes == []
        assert here.report["mode"] == "quick"
        assert "input/loosens" in rules(here)


def test_the_first_push_of_a_branch_is_judged_from_where_it_left_the_default_branch(tmp_path: Path) -> None:
    with stage(tmp_path, main=strict_evals(), policy="mode: quick\n", agent=wrong_answer) as here:
        done = event(here, "push", ref="refs/heads/feature", before=ZERO, after=here.head)
        assert done.code == 1, done.text
        assert json.loads(done.outputs["skills"]) == {"skills/sums": "fail"}
        assert here.report["base_commit"] == here.base


def test_a_push_to_the_default_branch_does_not_bring_the_policy_that_it_is_judged_by(tmp_path: Path) -> None:
    change = {"skills/sums/SKILL.md": SKILL.format(word="more"), ".github/skill-gate.yml": "enforce: advisory\n"}
    with stage(tmp_path, main=strict_evals(), policy="mode: quick\n", agent=wrong_answer, change=change) as here:
        git(here.workspace, "update-ref", "refs/remotes/origin/main", here.head)
        done = event(here, "push", ref="refs/heads/main", before=here.base, after=here.head)
        assert done.code == 1, done.text
        assert here.report["enforce"] == "standard"
        assert judged(done) == {"skills/sums"}


@pytest.mark.parametrize("branch", ["main", "feature"])
def test_a_forced_push_that_drops_a_commit_is_a_change_too(tmp_path: Path, branch: str) -> None:
    with stage(tmp_path, main=strict_evals(), policy=SMOKE) as here:
        payload = {"ref": f"refs/heads/{branch}", "before": here.head, "after": here.base, "forced": True}
        done = event(here, "push", **payload)
        assert judged(done) == {"skills/sums"}, (
            done.text
        )  # their merge base is the head itself: nothing between the two
        assert here.report["base_commit"] == here.head


def test_a_forced_push_that_drops_a_skill_with_its_suite_needs_a_waiver(tmp_path: Path) -> None:
    with stage(tmp_path, main=strict_evals(), policy=SMOKE) as here:
        more = commit(here, here.base, TWO)
        done = event(here, "push", ref="refs/heads/main", before=more, after=here.base, forced=True)
        assert json.loads(done.outputs["skills"]) == {"skills/other": "invalid"}, done.text
        assert done.code == 1


def test_where_the_commit_before_a_forced_push_is_gone_what_left_the_default_branch_is_judged(tmp_path: Path) -> None:
    with stage(tmp_path, main=strict_evals(), policy=SMOKE) as here:
        done = event(here, "push", ref="refs/heads/feature", before=GONE, after=here.head, forced=True)
        assert judged(done) == {"skills/sums"}
        assert here.report["base_commit"] == here.base
        assert "event/before-gone" in rules(here)


def test_where_it_is_gone_from_the_default_branch_itself_every_skill_is_judged(tmp_path: Path) -> None:
    with stage(tmp_path, main={**strict_evals(), **TWO}, policy=SMOKE) as here:
        done = event(here, "push", ref="refs/heads/main", before=GONE, after=here.base, forced=True)
        assert judged(done) == {"skills/sums", "skills/other"}, done.text
        assert "event/before-gone" in rules(here)


def test_a_plain_push_whose_older_commit_was_not_fetched_is_an_error_and_never_green(tmp_path: Path) -> None:
    with stage(tmp_path, main=strict_evals(), policy=SMOKE) as here:
        for branch in ("main", "feature"):
            done = event(here, "push", ref=f"refs/heads/{branch}", before=GONE, after=here.head)
            assert done.code == 2
            assert done.outputs["state"] == "error"
            assert "fetch-depth: 0" in done.summary


def test_a_first_push_of_the_default_branch_is_an_audit(tmp_path: Path) -> None:
    with stage(tmp_path, main={**strict_evals(), **TWO}, policy=SMOKE) as here:
        done = event(here, "push", ref="refs/heads/main", before=ZERO, after=here.base)
        assert judged(done) == {"skills/sums", "skills/other"}, done.text


def test_a_branch_that_is_deleted_is_nothing_to_judge(tmp_path: Path) -> None:
    with stage(tmp_path) as here:
        done = event(here, "push", ref="refs/heads/feature", before=here.head, after=ZERO)
        assert done.code == 0
        assert "refs/heads/feature was deleted" in done.outputs["headline"]
        assert done.outputs["state"] == "pending"


# --- merge queue


def group(here: Stage, base: str, head: str) -> dict[str, Any]:
    """``merge_group`` as GitHub sends it."""
    found = {
        "head_sha": head,
        "base_sha": base,
        "base_ref": "refs/heads/main",
        "head_ref": "refs/heads/gh-readonly-queue/main/x",
    }
    return {"action": "checks_requested", "merge_group": found}


def test_a_merge_group_gets_its_status_on_its_own_head_and_no_comment(tmp_path: Path) -> None:
    with stage(tmp_path, main=strict_evals(), policy="mode: quick\n", agent=wrong_answer) as here:
        done = event(here, "merge_group", **group(here, here.base, here.merge), inputs={"paths": "skills/nothing"})
        assert done.code == 1, done.text
        assert [state for state, _ in here.statuses(here.merge)] == ["pending", "failure"]
        assert {one.context for one in here.repository.statuses} == {"skill-gate"}
        assert here.statuses() == []
        assert here.comments == []
        assert judged(done) == {"skills/sums"}
        assert "input/loosens" in rules(here)


def test_a_group_behind_another_is_judged_by_the_branchs_policy_and_not_by_the_one_that_waits(tmp_path: Path) -> None:
    with stage(tmp_path, main=strict_evals(), policy="mode: quick\n", agent=wrong_answer) as here:
        waits = commit(here, here.base, {".github/skill-gate.yml": "enforce: advisory\n"})
        mine = commit(here, waits, {"skills/sums/SKILL.md": SKILL.format(word="twice")})
        done = event(here, "merge_group", **group(here, waits, mine))
        assert here.report["enforce"] == "standard"
        assert done.code == 1
        assert here.report["base_commit"] == waits


def test_a_group_whose_commits_are_not_there_resolves_its_status_to_error(tmp_path: Path) -> None:
    with stage(tmp_path, main=strict_evals(), policy=SMOKE) as here:
        done = event(here, "merge_group", **group(here, GONE, here.merge))
        assert done.code == 2
        assert [state for state, _ in here.statuses(here.merge)] == ["pending", "error"]
        assert "fetch-depth: 0" in done.text


# --- tags and releases


def release(here: Stage, tag: str = "v1") -> dict[str, Any]:
    return {"action": "published", "release": {"tag_name": tag}}


@pytest.mark.parametrize("name", ["push", "release", "create"])
def test_a_tag_is_an_audit_of_every_skill_strictly_and_in_full(tmp_path: Path, name: str) -> None:
    with stage(tmp_path, main={**strict_evals(), **TWO}) as here:
        git(here.workspace, "tag", "--annotate", "--message", "v1", "v1", here.head)
        here.environ |= {"GITHUB_SHA": here.head, "GITHUB_REF": "refs/tags/v1"}
        tag = git(here.workspace, "rev-parse", "v1")  # of an annotated tag: the tag object, no commit
        fields = {
            "push": {"ref": "refs/tags/v1", "before": ZERO, "after": tag},
            "release": release(here),
            "create": {"ref": "v1", "ref_type": "tag"},
        }[name]
        done = event(here, name, **fields, inputs={"mode": "smoke", "enforce": "advisory"})
        assert judged(done) == {"skills/sums", "skills/other"}, done.text
        assert (here.report["mode"], here.report["enforce"]) == ("full", "strict")
        assert here.report["head_commit"] == here.head
        contexts = {(one.context, one.sha) for one in here.repository.statuses}
        assert contexts == {("skill-gate/release", here.head)}  # a pull request with this head keeps its own
        assert here.comments == []
        assert sum(one["rule"] == "input/loosens" for one in here.report["session_findings"]) == 2


def test_a_release_whose_branch_dropped_its_checks_is_held_to_the_default_branchs_suite(tmp_path: Path) -> None:
    empty = strict_evals()["skills/sums/evals/skill-gate.yaml"].replace("keyword: the part Sums", "keyword: e")
    with stage(
        tmp_path, main=strict_evals(), policy=SMOKE, change={"skills/sums/evals/skill-gate.yaml": empty}
    ) as here:
        here.environ["GITHUB_SHA"] = here.head
        done = event(here, "release", **release(here))
        assert json.loads(done.outputs["skills"]) == {"skills/sums": "invalid"}, done.text
        assert done.code == 1


def test_the_policy_of_a_tag_itself_decides_nothing(tmp_path: Path) -> None:
    with stage(tmp_path, main=strict_evals(), policy="mode: quick\n", agent=wrong_answer) as here:
        made = commit(here, here.head, {".github/skill-gate.yml": "enforce: advisory\n"})
        here.environ["GITHUB_SHA"] = made
        done = event(here, "release", **release(here))
        assert (here.report["mode"], here.report["enforce"]) == ("quick", "strict")
        assert done.code == 1


def test_a_release_of_one_skill_says_that_the_rest_was_not_looked_at(tmp_path: Path) -> None:
    with stage(tmp_path, main={**strict_evals(), **TWO}, policy=SMOKE) as here:
        here.environ["GITHUB_SHA"] = here.base
        done = event(here, "release", **release(here), inputs={"paths": "skills/sums", "base": "feature"})
        assert judged(done) == {"skills/sums"}
        assert rules(here) == {"event/part", "input/loosens"}  # what it is compared with is not the tag's to say


def test_a_tag_that_shares_no_history_with_the_default_branch_is_audited_and_said(tmp_path: Path) -> None:
    with stage(tmp_path, main=strict_evals(), policy=SMOKE) as here:
        git(here.workspace, "checkout", "--quiet", "--orphan", "alone", here.base)
        git(here.workspace, "commit", "--quiet", "--message", "alone")
        here.environ["GITHUB_SHA"] = git(here.workspace, "rev-parse", "HEAD")
        done = event(here, "release", **release(here))
        assert judged(done) == {"skills/sums"}, done.text
        assert "event/no-common-history" in rules(here)


def test_a_draft_release_is_found_by_its_tag(tmp_path: Path) -> None:
    with stage(tmp_path, main=strict_evals(), policy=SMOKE) as here:
        del here.environ["GITHUB_SHA"]
        git(here.workspace, "tag", "v1", here.head)
        done = event(here, "release", **release(here))
        assert here.report["head_commit"] == here.head, done.text
        assert {one.sha for one in here.repository.statuses} == {here.head}


# --- what others are held against later


GOLDEN = {
    "id": "one",
    "tag": "golden",
    "prompt": "What is 1 and 2?",
    "checks": [
        {"id": "named", "kind": "response_contains", "keyword": "the part Sums"},
        {"id": "read", "kind": "tool_call_count", "tool": "bash", "min": 1},
    ],
}


def test_where_the_policy_says_regression_a_push_to_main_makes_what_pull_requests_are_held_against(
    tmp_path: Path,
) -> None:
    suite = json.dumps({"version": 1, "cases": [GOLDEN]})
    before = {"skills/sums/SKILL.md": SKILL.format(word="up"), "skills/sums/evals/skill-gate.yaml": suite}
    with stage(tmp_path, main=before, policy="mode: regression\n") as here:
        kept, older = {"cache_dir": "kept"}, here.base
        # A pull request that comes first finds nothing, and leaves nothing that the default branch would be believed by.
        assert json.loads(here.run(given=kept).outputs["skills"]) == {"skills/sums": "inconclusive"}
        assert here.report["mode"] == "regression"
        pull = here.environ.copy()
        merged = commit(here, older, {"skills/sums/SKILL.md": SKILL.format(word="up and down")})
        git(here.workspace, "update-ref", "refs/remotes/origin/main", merged)
        here.environ |= {"GITHUB_SHA": merged, "GITHUB_REF": "refs/heads/main"}
        done = event(here, "push", ref="refs/heads/main", before=older, after=merged, inputs=kept)
        assert here.report["mode"] == "standard", done.text
        assert "mode standard in place of the policy's regression" in done.text
        here.environ.clear()
        here.environ.update(pull)
        second = here.run(given=kept)
        assert json.loads(second.outputs["skills"]) == {"skills/sums": "pass"}, second.text
        (skill,) = here.report["skills"]
        assert "held against the baseline of" in skill["reasons"][0]
        assert "other sessions here, last 1 of 1: inconclusive" in skill["history"]["words"]


@pytest.mark.parametrize(("inputs", "mode"), [({}, "full"), ({"mode": "regression"}, "regression")])
def test_where_the_policy_says_regression_an_audit_is_in_full_unless_somebody_asks_for_it_by_name(
    tmp_path: Path, inputs: dict[str, str], mode: str
) -> None:
    with stage(tmp_path, main={"skills/sums/SKILL.md": SKILL.format(word="up")}, policy="mode: regression\n") as here:
        here.environ |= {"GITHUB_SHA": here.base, "GITHUB_REF": "refs/heads/main"}
        done = event(here, "schedule", inputs=inputs)
        assert judged(done) == {"skills/sums"}, done.text
        assert here.report["mode"] == mode


# --- by the clock


def test_a_schedule_audits_every_skill_of_the_default_branch_and_writes_nothing(tmp_path: Path) -> None:
    with stage(tmp_path, main={**strict_evals(), **TWO}) as here:
        here.environ |= {"GITHUB_SHA": here.base, "GITHUB_REF": "refs/heads/main"}
        done = event(here, "schedule", schedule="0 3 * * *")
        assert judged(done) == {"skills/sums", "skills/other"}, done.text
        assert (here.report["mode"], here.report["enforce"]) == ("full", "standard")
        assert here.github.writes == []


def test_a_dispatched_audit_is_in_full_too_unless_the_policy_says_otherwise(tmp_path: Path) -> None:
    with stage(tmp_path, main=strict_evals()) as here:
        here.environ |= {"GITHUB_SHA": here.base, "GITHUB_REF": "refs/heads/main"}
        event(here, "workflow_dispatch", ref="refs/heads/main", inputs={"paths": "skills/sums"})
        assert (here.report["mode"], here.report["enforce"]) == ("full", "standard")


def test_a_schedule_can_look_at_given_paths_in_another_mode(tmp_path: Path) -> None:
    with stage(tmp_path, main={**strict_evals(), **TWO}) as here:
        here.environ |= {"GITHUB_SHA": here.base, "GITHUB_REF": "refs/heads/main"}
        done = event(here, "schedule", inputs={"paths": "skills/other", "mode": "smoke"})
        assert judged(done) == {"skills/other"}
        assert here.report["mode"] == "smoke"
        assert "input/loosens" not in rules(here)
