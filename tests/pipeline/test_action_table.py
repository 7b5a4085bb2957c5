"""Every event of GitHub's own examples, with every kind of token and every outcome: what was written where.

The payloads are those of ``@octokit/webhooks-examples``, put into the repository of the stage; variants that the package
lacks (forks, a deleted fork, Dependabot) are derived. Every request is held to GitHub's OpenAPI description by the fake.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Literal

import pytest

from tests.github import webhooks
from tests.github.webhooks import example, from_deleted_fork, from_dependabot, from_fork
from tests.pipeline.action_stage import EVALS, NUMBER, SKILL, Done, Stage, stage

Json = Any
Token = Literal["write", "read", "none"]
Outcome = Literal["success", "failure", "error", "pending"]
OUTCOMES: tuple[Outcome, ...] = ("success", "failure", "error", "pending")
TOKENS: tuple[Token, ...] = ("write", "read", "none")

PULL = ("status", "comment")
STATUS = ("status",)
RELEASE = ("release",)


@dataclass(frozen=True)
class Row:
    """An event and where its result is to be found."""

    event: str
    make: Callable[[], Json]
    channels: tuple[str, ...] = ()
    static: bool = False
    """Whether no case is run whoever pays: a skill is then not measured, and the state is pending."""
    idle: bool = False
    """Nothing is judged."""
    asks: bool = False
    """GitHub must be asked whose commit it is: without a token that is an error."""


def pull(action: str, change: Callable[[Json], Json] = lambda payload: payload) -> Callable[[], Json]:
    return lambda: change(example("pull_request", action))


def draft(payload: Json) -> Json:
    payload["pull_request"]["draft"] = True
    return payload


def pushed(ref: str, *, new: bool = False, forced: bool = False, gone: bool = False) -> Callable[[], Json]:
    def make() -> Json:
        payload = example("push")
        return payload | {"ref": ref, "before": "0" * 40 if new else "BASE", "after": "0" * 40 if gone else "HEAD", "forced": forced}  # fmt: skip

    return make


def followed(cause: str, change: Callable[[Json], Json] = lambda payload: payload) -> Callable[[], Json]:
    def make() -> Json:
        payload = example("workflow_run", "completed")
        payload["workflow_run"] |= {"event": cause, "head_sha": "HEAD", "pull_requests": []}
        return change(payload)

    return make


def of_fork(payload: Json) -> Json:
    payload["workflow_run"]["head_repository"] = {"id": 999_999, "full_name": "stranger/skills"}
    return payload


ROWS: Mapping[str, Row] = {
    "opened": Row("pull_request", pull("opened"), PULL),
    "synchronize": Row("pull_request", pull("synchronize"), PULL),
    "reopened": Row("pull_request", pull("reopened"), PULL),
    "ready for review": Row("pull_request", pull("ready_for_review"), PULL),
    "labeled": Row("pull_request", pull("labeled"), PULL),
    "assigned": Row("pull_request", pull("assigned"), PULL),
    "converted to draft": Row("pull_request", pull("converted_to_draft", draft), PULL, static=True),
    "closed": Row("pull_request", pull("closed"), idle=True),
    "fork": Row("pull_request", pull("opened", from_fork), PULL, static=True),
    "fork of an organisation pushes": Row("pull_request", pull("synchronize", from_fork), PULL, static=True),
    "deleted fork": Row("pull_request", pull("synchronize", from_deleted_fork), PULL, static=True),
    "dependabot": Row("pull_request", pull("opened", from_dependabot), PULL, static=True),
    "merge group": Row("merge_group", lambda: example("merge_group", "checks_requested"), STATUS),
    "push to main": Row("push", pushed("refs/heads/main")),
    "forced push": Row("push", pushed("refs/heads/feature", forced=True)),
    "new branch": Row("push", pushed("refs/heads/feature", new=True)),
    "branch deleted": Row("push", pushed("refs/heads/feature", gone=True), idle=True),
    "tag pushed": Row("push", pushed("refs/tags/v1", new=True), RELEASE),
    "tag deleted": Row("push", pushed("refs/tags/v1", gone=True), idle=True),
    "tag created": Row("create", lambda: example("create"), RELEASE),
    "released": Row("release", lambda: example("release", "released"), RELEASE),
    "release published": Row("release", lambda: example("release", "published"), RELEASE),
    "release deleted": Row("release", lambda: example("release", "deleted"), idle=True),
    "schedule": Row("schedule", lambda: {"schedule": "23 4 * * 1"}),
    "repository dispatch": Row("repository_dispatch", lambda: example("repository_dispatch")),
    "workflow dispatch": Row("workflow_dispatch", lambda: example("workflow_dispatch")),
    "check asked for again": Row("check_run", lambda: example("check_run", "rerequested"), PULL, asks=True),
    "suite asked for again": Row("check_suite", lambda: example("check_suite", "rerequested"), PULL, asks=True),
    "check created": Row("check_run", lambda: example("check_run", "created"), idle=True),
    "second stage of a fork": Row("workflow_run", followed("pull_request", of_fork), PULL, static=True, asks=True),
    "after a push": Row("workflow_run", followed("push"), idle=True),
    "a comment": Row("issue_comment", lambda: example("issue_comment", "created"), idle=True),
}


def placed(here: Stage, row: Row) -> Json:
    """The example in the repository of the stage, and GitHub as it would be then."""
    payload = row.make()
    repository = payload.setdefault("repository", {})
    repository |= {"id": here.repository.id, "full_name": "acme/skills", "default_branch": "main"}
    payload.setdefault("sender", {"login": "octocat"})
    here.pull.state, here.pull.draft, here.pull.head_repository = "open", False, here.repository
    if found := payload.get("pull_request"):
        head = found["head"]
        payload["number"] = found["number"] = NUMBER
        head |= {"sha": here.head, "ref": "feature"}
        found["base"] |= {"sha": here.base, "ref": "main"}
        if head["repo"] is None or head["repo"].get("fork"):
            here.pull.head_repository = None
        else:
            head["repo"] |= {"id": here.repository.id, "full_name": "acme/skills"}
        here.pull.state, here.pull.draft = found["state"], found["draft"]
        return payload
    for part in ("check_run", "check_suite"):
        if part in payload:
            payload[part]["head_sha"] = here.head
    if "check_run" in payload:
        payload["check_run"]["name"] = "skill-gate report"
    if run := payload.get("workflow_run"):
        run["head_sha"] = here.head
        here.pull.head_repository = here.github.world.add_repository("stranger/skills")
        run["head_repository"] = {"id": here.pull.head_repository.id, "full_name": "stranger/skills"}
    if group := payload.get("merge_group"):
        group |= {"head_sha": here.head, "base_sha": here.base, "base_ref": "refs/heads/main"}
    for name, sha in (("before", here.base), ("after", here.head)):
        if payload.get(name) in ("BASE", "HEAD"):
            payload[name] = sha
    if row.event == "workflow_dispatch":
        payload |= {"ref": "refs/heads/main", "inputs": {}}
    return payload


SUMS = {"skills/sums/SKILL.md": SKILL.format(word="up"), "skills/sums/evals/evals.json": EVALS}
BROKEN: Mapping[str, str | None] = {"skills/broken/SKILL.md": "no front matter"}
STAGES: Mapping[Outcome, dict[str, Any]] = {
    # A skill without cases, for the events that look at every skill.
    "success": {
        "main": {"skills/plain/SKILL.md": SKILL.format(word="up")},
        "change": {"README.md": "Words."},
        "policy": "enforce: advisory\n",
    },
    "failure": {"main": {"notes.txt": "text"}, "change": BROKEN},
    "error": {"main": {"notes.txt": "text"}, "policy": "no_such_key: 1\n", "change": {"README.md": "Words."}},
    # Two calls are enough to see that the models answer, and for no run: the skill is over budget.
    "pending": {"main": {"notes.txt": "text"}, "change": SUMS, "policy": "caps: {model_calls_per_skill: 2}\n"},
}


ONCE = {name for name, row in ROWS.items() if row.idle} | {"assigned", "reopened", "release published"}
"""Events that say what another one says, or after which nothing is judged: with one token and one outcome."""
CASES = [
    pytest.param(outcome, name, token, id=f"{outcome}, {name}, {token}")
    for outcome in OUTCOMES
    for name in ROWS
    for token in TOKENS
    if name not in ONCE or (outcome, token) == ("failure", "write")
]


@pytest.fixture(scope="module")
def ready(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Outcome, Stage]]:
    """One stage an outcome: its events follow one another."""
    webhooks.payloads()
    with stage(tmp_path_factory.mktemp("stage"), **STAGES[request.param]) as here:
        yield request.param, here


def run(here: Stage, row: Row, token: Token) -> Done:
    here.repository.statuses.clear()
    here.repository.comments.clear()
    here.sandbox.boxes.clear()
    here.token = None if token == "none" else getattr(here.github, token)
    here.environ |= {"GITHUB_SHA": here.head, "GITHUB_REF": "refs/heads/main"}
    return here.run(event=row.event, payload=placed(here, row))


def expected_state(row: Row, outcome: Outcome, token: Token) -> str:
    if row.idle:
        return "pending"
    if row.asks and token == "none":
        return "error"
    if outcome == "pending" and row.channels == RELEASE:
        return "failure"  # strict: what was not measured is not let through
    return outcome


@pytest.mark.parametrize(("ready", "name", "token"), CASES, indirect=["ready"], scope="module")
def test_what_is_written_where_for_every_event_token_and_outcome(
    ready: tuple[Outcome, Stage], name: str, token: Token
) -> None:
    """R218; github-action.md 1.1, 1.7, 1.8, 1.9."""
    outcome, here = ready
    row = ROWS[name]
    done = run(here, row, token)
    state = expected_state(row, outcome, token)
    assert done.outputs["state"] == state, done.text
    assert done.code == {"success": 0, "pending": 0, "failure": 1, "error": 2}[state], done.text
    assert "Traceback" not in done.text
    assert done.summary
    written = {(one.sha, one.context): one.state for one in here.repository.statuses}
    comments = here.repository.comments_of(NUMBER)
    writes = token == "write" and not row.idle
    wanted: dict[tuple[str, str], str] = {}
    if writes and "status" in row.channels:
        wanted = {(here.head, "skill-gate"): state}
    elif writes and "release" in row.channels:
        wanted = {(here.head, "skill-gate/release"): state}
    assert written == wanted
    assert len(comments) == (writes and "comment" in row.channels and state != "error")
    assert here.repository.checks == {}
    notices = [text for text in done.annotations("notice") if "token" in text]
    silent = token != "write" and bool(row.channels) and not row.idle and not (row.asks and token == "none")
    assert len(notices) == silent, notices
    if token == "none":
        assert (done.outputs["comment-url"], comments) == ("", [])
    if row.static or row.idle or outcome != "pending":
        assert here.sandbox.boxes == []


def test_the_table_has_enough_events() -> None:
    assert len(set(ROWS) - ONCE) >= 20
    assert len({row.event for row in ROWS.values()}) >= 10
