"""Break-glass through the whole Action: the label of a maintainer lets one commit through, and nothing else does."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.pipeline.action_stage import NUMBER, Done, Stage, stage
from tests.pipeline.test_action import strict_evals, wrong_answer

LABEL = "skill-gate-override"


def labelled(here: Stage, by: str, role: Any, *, label: str = LABEL, **changes: Any) -> dict[str, Any]:
    """Somebody with a role puts a label on; the event that this gives."""
    here.repository.roles[by] = role
    here.repository.add_label(here.pull, label, here.github.world.user(by))
    pull = {"labels": [{"name": one} for one in here.pull.labels], **changes}
    return {**here.payload(**pull), "action": "labeled", "label": {"name": label}, "sender": {"login": by}}


def ignored(here: Stage) -> list[str]:
    return [one["message"] for one in here.report["session_findings"] if one["rule"] == "override/ignored"]


def refused(here: Stage, done: Done) -> None:
    assert done.code == 1, done.text
    assert here.report["override"] is None
    assert here.statuses()[-1] == ("failure", "failure: 1 fails (skills/sums)")


@pytest.mark.parametrize("role", ["maintain", "admin"])
def test_a_maintainers_label_lets_the_commit_through_and_everything_says_so(tmp_path: Path, role: str) -> None:
    with stage(tmp_path, main=strict_evals(), policy="mode: quick\n", agent=wrong_answer) as here:
        done = here.run(payload=labelled(here, "hubot", role))
        assert done.code == 0, done.text
        assert here.report["override"] == {
            "login": "hubot",
            "permission": role,
            "head_commit": here.head,
            "label": LABEL,
        }
        words = "overridden by hubot, was failure: 1 fails (skills/sums)"
        assert here.statuses()[-1] == ("success", words)
        assert here.report["skills"][0]["verdict"] == "fail"
        assert here.report["skills"][0]["state"] == "failure"
        (comment,) = here.comments
        assert words in comment.replace("&#8203;", "")
        assert f"sets failure aside for commit {here.head[:12]}" in " ".join(here.report["notes"])
        assert done.outputs["verdict"] == "fail"
        assert json.loads((here.bundle / "session.json").read_text())["override"]["login"] == "hubot"


@pytest.mark.parametrize("role", ["write", "triage", "read"])
def test_a_label_of_somebody_without_the_right_changes_nothing(tmp_path: Path, role: str) -> None:
    with stage(tmp_path, main=strict_evals(), policy="mode: quick\n", agent=wrong_answer) as here:
        refused(here, here.run(payload=labelled(here, "mallory", role)))
        (why,) = ignored(here)
        assert f"mallory put it on and has the role {role}; maintain or admin is needed" in why


def test_the_label_of_an_earlier_commit_says_nothing_about_the_next(tmp_path: Path) -> None:
    with stage(tmp_path, main=strict_evals(), policy="mode: quick\n", agent=wrong_answer) as here:
        labelled(here, "hubot", "admin")
        refused(here, here.run(payload=here.payload(labels=[{"name": LABEL}])))
        assert "it counts for one commit" in ignored(here)[0]


def test_a_payload_that_claims_a_label_is_not_believed(tmp_path: Path) -> None:
    with stage(tmp_path, main=strict_evals(), policy="mode: quick\n", agent=wrong_answer) as here:
        here.repository.roles["hubot"] = "admin"
        claim = {"action": "labeled", "label": {"name": LABEL}, "sender": {"login": "hubot"}}
        refused(here, here.run(payload={**here.payload(labels=[{"name": LABEL}]), **claim}))
        assert "it is not on any more" in ignored(here)[0]


def test_a_payload_that_names_another_labeller_is_not_believed(tmp_path: Path) -> None:
    with stage(tmp_path, main=strict_evals(), policy="mode: quick\n", agent=wrong_answer) as here:
        event = labelled(here, "hubot", "admin")
        refused(here, here.run(payload={**event, "sender": {"login": "octocat"}}))
        assert "put on again by hubot" in ignored(here)[0]


def test_a_label_that_was_taken_off_before_the_run_began_counts_for_nothing(tmp_path: Path) -> None:
    with stage(tmp_path, main=strict_evals(), policy="mode: quick\n", agent=wrong_answer) as here:
        event = labelled(here, "hubot", "admin")
        here.repository.remove_label(here.pull, LABEL, here.github.world.user("hubot"))
        refused(here, here.run(payload=event))


def test_without_a_token_nobody_vouches_for_the_label(tmp_path: Path) -> None:
    with stage(tmp_path, main=strict_evals(), policy="mode: quick\n", agent=wrong_answer) as here:
        event = labelled(here, "hubot", "admin")
        here.token = None
        done = here.run(payload=event)
        assert done.code == 1
        assert "without a token" in ignored(here)[0]


def test_another_label_is_no_override_and_is_not_spoken_of(tmp_path: Path) -> None:
    with stage(tmp_path, main=strict_evals(), policy="mode: quick\n", agent=wrong_answer) as here:
        refused(here, here.run(payload=labelled(here, "hubot", "admin", label="bug")))
        assert ignored(here) == []


def test_a_change_that_passes_by_itself_needs_no_override_and_is_not_called_overridden(tmp_path: Path) -> None:
    with stage(tmp_path, main=strict_evals(), policy="mode: smoke\n") as here:
        done = here.run(payload=labelled(here, "hubot", "admin"))
        assert done.code == 0
        assert here.report["override"] is None
        assert here.statuses()[-1][1].startswith("success")
        assert "changes nothing" in " ".join(here.report["notes"])
        assert here.pull.number == NUMBER
