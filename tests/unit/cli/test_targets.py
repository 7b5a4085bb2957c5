"""What a job is about, where no network and no checkout is needed to say it."""

from __future__ import annotations

import pytest

from gate.cli.inputs import ActionInputs
from gate.cli.job import Nothing, Target, target_of
from gate.domain.event import DispatchEvent, Event, PullRequestEvent


def target(event: Event, inputs: ActionInputs) -> Target:
    found = target_of(event, inputs, None, lambda text: None)
    assert not isinstance(found, Nothing)
    return found


@pytest.mark.parametrize(
    ("ref", "refused"),
    [
        ("main", False),
        ("v1.0", False),
        ("refs/tags/v1.0", False),
        ("dependabot/npm/x", True),
        ("refs/remotes/origin/dependabot/npm/x", True),
        ("refs/pull/7/head", True),
        ("a" * 40, True),
    ],
)
def test_an_audit_of_a_commit_that_may_be_a_strangers_reaches_no_real_server(ref: str, refused: bool) -> None:
    event = DispatchEvent(
        ref="refs/heads/main", sha="b" * 40, inputs={}, repository="acme/skills", default_branch="main"
    )
    assert bool(target(event, ActionInputs(ref=ref)).real_refused) is refused


@pytest.mark.parametrize(("author", "refused"), [("dependabot[bot]", True), ("octocat", False)])
def test_dependabots_change_reaches_no_real_server_also_where_github_cannot_be_asked(
    author: str, refused: bool
) -> None:
    event = PullRequestEvent(
        number=7, base_ref="main", base_sha="a" * 40, head_sha="b" * 40, head_repository="acme/skills",
        head_repository_id=1, repository="acme/skills", repository_id=1, draft=False, author=author, actor="octocat",
        action="reopened",
    )  # fmt: skip
    assert bool(target(event, ActionInputs()).real_refused) is refused
