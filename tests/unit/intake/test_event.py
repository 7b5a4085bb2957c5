from __future__ import annotations

import copy
from typing import Any

import pytest

from gate.domain.event import DispatchEvent, HeadEvent, OtherEvent, PullRequestEvent
from gate.errors import ConfigurationError
from gate.intake.event import read_event

BASE, HEAD, MERGE = "b" * 40, "a" * 40, "c" * 40
REPOSITORY = {"id": 1, "full_name": "acme/skills", "default_branch": "main"}
ENVIRON = {"GITHUB_SHA": MERGE, "GITHUB_REF": "refs/pull/7/merge", "GITHUB_ACTOR": "hubot"}


def payload() -> dict[str, Any]:
    return {
        "action": "opened",
        "pull_request": {
            "number": 7,
            "state": "open",
            "draft": False,
            "user": {"login": "octocat"},
            "labels": [{"name": "bug"}],
            "head": {"sha": HEAD, "ref": "topic", "repo": dict(REPOSITORY)},
            "base": {"sha": BASE, "ref": "main", "repo": dict(REPOSITORY)},
        },
        "repository": dict(REPOSITORY),
        "sender": {"login": "octocat"},
    }


def put(value: dict[str, Any], path: str, new: Any) -> dict[str, Any]:
    """A copy with one field replaced; ``...`` takes it out."""
    made = copy.deepcopy(value)
    *folders, name = path.split(".")
    place = made
    for folder in folders:
        place = place[folder]
    if new is ...:
        del place[name]
    else:
        place[name] = new
    return made


def pull(changes: dict[str, Any] | None = None) -> PullRequestEvent:
    value = payload()
    for path, new in (changes or {}).items():
        value = put(value, path, new)
    event = read_event("pull_request", value, ENVIRON)
    assert isinstance(event, PullRequestEvent)
    return event


def test_a_pull_request_is_about_its_head_and_never_about_the_test_merge() -> None:
    event = pull()
    assert (event.number, event.head_sha, event.base_sha, event.base_ref) == (7, HEAD, BASE, "main")
    assert MERGE not in event.model_dump_json()
    assert (event.labels, event.author, event.actor, event.draft) == (("bug",), "octocat", "octocat", False)
    assert not event.is_fork
    assert not event.is_dependabot


def test_a_head_in_another_repository_or_in_none_is_a_fork() -> None:
    assert pull({"pull_request.head.repo": {"id": 2, "full_name": "stranger/skills"}}).is_fork
    gone = pull({"pull_request.head.repo": None})
    assert gone.is_fork
    assert gone.head_repository is None


def test_whoever_causes_the_event_decides_whether_it_is_dependabots() -> None:
    assert pull({"sender": {"login": "dependabot[bot]"}}).is_dependabot
    by_a_member = pull({"pull_request.user": {"login": "dependabot[bot]"}})
    assert not by_a_member.is_dependabot


def test_an_account_that_is_gone_has_no_login() -> None:
    assert pull({"pull_request.user": None}).author == ""
    assert pull({"sender": ...}).actor == "hubot"


@pytest.mark.parametrize(
    ("path", "value", "said"),
    [
        ("pull_request", ..., "has no pull_request"),
        ("pull_request", [], "has a list at pull_request; an object was expected"),
        ("pull_request.number", "7", 'has "7" at pull_request.number; a whole number above zero was expected'),
        ("pull_request.number", True, "has true at pull_request.number"),
        ("pull_request.number", 0, "has 0 at pull_request.number"),
        ("pull_request.head", None, "has null at pull_request.head"),
        ("pull_request.head.sha", "main", 'has "main" at pull_request.head.sha; a commit id was expected'),
        ("pull_request.head.sha", HEAD + "\n", "pull_request.head.sha"),
        ("pull_request.head.repo", ..., "has no pull_request.head.repo"),
        ("pull_request.head.repo", {"full_name": "a/b"}, "has no pull_request.head.repo.id"),
        ("pull_request.base.sha", ..., "has no pull_request.base.sha"),
        ("pull_request.base.ref", "", "pull_request.base.ref; a text was expected"),
        ("pull_request.draft", "false", "pull_request.draft; true or false was expected"),
        ("pull_request.labels", {}, "pull_request.labels; a list was expected"),
        ("pull_request.labels", [1], "has 1 at pull_request.labels.0"),
        ("pull_request.labels", [{}], "has no pull_request.labels.0.name"),
        ("repository.full_name", "a/b/c", "repository.full_name; owner/name was expected"),
        ("repository.id", 1.5, "has 1.5 at repository.id"),
        ("action", ..., "has no action"),
    ],
)
def test_a_field_that_is_missing_or_wrong_is_named(path: str, value: Any, said: str) -> None:
    with pytest.raises(ConfigurationError) as caught:
        read_event("pull_request", put(payload(), path, value), ENVIRON)
    assert said in caught.value.message
    assert caught.value.remedy


def test_a_payload_that_is_no_object_is_said() -> None:
    with pytest.raises(ConfigurationError, match="has a list at its top"):
        read_event("pull_request", [], ENVIRON)  # type: ignore[arg-type]


def dispatched(**changes: Any) -> DispatchEvent:
    value = {"ref": "refs/heads/main", "inputs": {"mode": "full"}, "repository": REPOSITORY, "sender": {"login": "x"}}
    event = read_event("workflow_dispatch", {**value, **changes}, ENVIRON)
    assert isinstance(event, DispatchEvent)
    return event


def test_a_dispatch_has_its_ref_its_commit_and_its_inputs_as_text() -> None:
    event = dispatched(inputs={"mode": "full", "paths": None, "audit": True, "jobs": 3})
    assert event.inputs == {"mode": "full", "audit": "true", "jobs": "3"}
    assert (event.ref, event.sha) == ("refs/heads/main", MERGE)


def test_a_dispatch_without_inputs_has_none() -> None:
    assert dispatched(inputs=None).inputs == {}


@pytest.mark.parametrize(
    ("ref", "on_default"), [("refs/heads/main", True), ("refs/heads/main2", False), ("refs/tags/main", False)]
)
def test_only_the_default_branch_itself_is_the_default_branch(ref: str, on_default: bool) -> None:
    assert dispatched(ref=ref).on_default_branch is on_default


def test_a_dispatch_without_a_commit_is_said() -> None:
    with pytest.raises(ConfigurationError, match="GITHUB_SHA"):
        read_event("workflow_dispatch", {"ref": "r", "repository": REPOSITORY}, {})


@pytest.mark.parametrize("name", ["pull_request_target", "issue_comment", "strange\n"])
def test_any_other_event_is_only_named(name: str) -> None:
    assert read_event(name, {}, ENVIRON) == OtherEvent(name=name.strip())


def test_no_event_is_no_job() -> None:
    with pytest.raises(ConfigurationError, match="GITHUB_EVENT_NAME"):
        read_event("", {}, {})


ABOUT = {"head_sha": "a" * 40, "name": "skill-gate report"}


@pytest.mark.parametrize("name", ["check_run", "check_suite"])
def test_a_check_that_is_asked_for_again_names_its_head(name: str) -> None:
    event = read_event(name, {"action": "rerequested", name: ABOUT, "repository": REPOSITORY}, ENVIRON)
    assert isinstance(event, HeadEvent)
    assert (event.head_sha, event.second_stage) == ("a" * 40, False)
    assert event.check == ("skill-gate report" if name == "check_run" else "")
    other = read_event(name, {"action": "completed", name: ABOUT, "repository": REPOSITORY}, ENVIRON)
    assert isinstance(other, OtherEvent)
    assert "not asked for again" in other.because


@pytest.mark.parametrize(("owner", "known"), [({"id": 5}, 5), (None, None)])
def test_a_second_stage_takes_from_the_first_only_whose_commit_it_was(owner: object, known: int | None) -> None:
    run = {"event": "pull_request", "head_sha": "a" * 40, "head_repository": owner, "pull_requests": [{"number": 666}]}
    event = read_event("workflow_run", {"action": "completed", "workflow_run": run, "repository": REPOSITORY}, ENVIRON)
    assert isinstance(event, HeadEvent)
    assert event.second_stage
    assert event.head_repository_id == known
    assert "666" not in event.model_dump_json()


@pytest.mark.parametrize(("action", "cause"), [("requested", "pull_request"), ("completed", "push")])
def test_a_second_stage_after_anything_else_is_nothing(action: str, cause: str) -> None:
    run = {"event": cause, "head_sha": "a" * 40}
    event = read_event("workflow_run", {"action": action, "workflow_run": run, "repository": REPOSITORY}, ENVIRON)
    assert isinstance(event, OtherEvent)
    assert event.because


@pytest.mark.parametrize("name", ["check_run", "workflow_run"])
def test_a_head_that_is_no_commit_is_an_error_that_names_the_field(name: str) -> None:
    about = {**ABOUT, "head_sha": "main", "event": "pull_request"}
    action = "completed" if name == "workflow_run" else "rerequested"
    with pytest.raises(ConfigurationError, match=f"{name}.head_sha"):
        read_event(name, {"action": action, name: about, "repository": REPOSITORY}, ENVIRON)
