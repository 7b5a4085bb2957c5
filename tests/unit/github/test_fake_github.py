"""The fake GitHub itself: that it knows what GitHub knows, refuses what GitHub refuses, and hides no mistake of anybody."""

from __future__ import annotations

import base64
import contextlib
import hashlib
import io
import json
import socket
import tarfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import github as pygithub
import pytest
import requests

from tests.github import (
    ChangedFile,
    FakeGitHub,
    FakeGitHubError,
    File,
    Pull,
    Repository,
    Token,
    dropped,
    openapi,
    primary_limit,
    secondary_limit,
)
from tests.github.routes import PATHS, ROUTES, Answer
from tests.github.world import git_id, tree_id

R = "/repos/acme/skills"


@dataclass
class Stage:
    github: FakeGitHub
    repository: Repository
    pull: Pull
    base: str
    head: str

    def ask(
        self, method: str, path: str, body: Any = None, *, token: Token | str | None = "write", **query: Any
    ) -> requests.Response:
        given = getattr(self.github, token) if isinstance(token, str) else token
        headers = {"authorization": f"token {given.value}"} if given else {}
        return requests.request(
            method,
            f"{self.github.url}{path}",
            json=body,
            params=query,
            headers=headers,
            timeout=10,
            allow_redirects=False,
        )


@pytest.fixture
def stage() -> Iterator[Stage]:
    with FakeGitHub() as github:
        yield staged(github)


@pytest.fixture
def lenient() -> Iterator[Stage]:
    """For requests that GitHub does not know."""
    with FakeGitHub(allow_problems=True) as github:
        yield staged(github)


def staged(github: FakeGitHub, *, private: bool = True) -> Stage:
    repository = github.add_repository("acme/skills", private=private)
    base = repository.add_commit({"skills/a/SKILL.md": "old", "LICENSE": "mit"}, branch="main")
    files: Mapping[str, bytes | str | File] = {
        "skills/a/SKILL.md": "new",
        "skills/a/run.sh": File(b"true\n", "100755"),
        "docs/LICENSE": "mit",
    }
    head = repository.add_commit(files, parents=[base], branch="topic")
    pull = repository.add_pull(head, base, number=7)
    return Stage(github, repository, pull, base, head)


@contextlib.contextmanager
def found_out(told: str, *, allow_problems: bool = False) -> Iterator[Stage]:
    """A stage whose end must report this."""
    github = FakeGitHub(allow_problems=allow_problems)
    github.__enter__()
    try:
        yield staged(github)
    finally:
        github.stop()
    with pytest.raises(FakeGitHubError, match=told):
        github.check()


# --- what must not go unnoticed


def test_a_request_that_github_does_not_know_fails_the_test() -> None:
    with found_out("nothing that GitHub knows") as stage:
        assert stage.ask("GET", f"{R}/no/such/thing").status_code == 404


def test_a_request_that_github_knows_and_the_fake_does_not_serve_fails_the_test() -> None:
    with found_out("not served by this fake") as stage:
        stage.ask("DELETE", R)


@pytest.mark.parametrize(
    ("method", "path", "body", "query", "told"),
    [
        ("POST", "/statuses/HEAD", {"state": "passed"}, {}, "'passed' is not one of"),
        ("POST", "/statuses/HEAD", {"description": "x"}, {}, "'state' is a required property"),
        ("POST", "/statuses/HEAD", {"state": "success", "descripton": "x"}, {}, "no property 'descripton'"),
        ("POST", "/statuses/HEAD", None, {}, "the body is missing"),
        ("POST", "/issues/7/comments", {"body": 7}, {}, "is not of type 'string'"),
        ("GET", "/pulls/seven", None, {}, "is not of type 'integer'"),
        ("GET", "/pulls/7/files", None, {"per-page": 100}, "per-page: GitHub has none"),
        ("GET", "/pulls", None, {"state": "merged"}, "'merged' is not one of"),
        ("GET", "/pulls/7", {"x": 1}, {}, "GitHub takes none here"),
        ("POST", "/check-runs", {"name": "n", "head_sha": "h", "conclusion": "good"}, {}, "'good' is not one of"),
        (
            "POST",
            "/check-runs",
            {"name": "n", "head_sha": "h", "output": {"title": "t", "summary": "s" * 65_536}},
            {},
            "is too long",
        ),
        ("POST", "/check-runs", {"name": "n", "head_sha": "h", "started_at": "today"}, {}, "is not a 'date-time'"),
    ],
)
def test_a_request_that_githubs_description_forbids_fails_the_test(
    method: str, path: str, body: Any, query: Mapping[str, Any], told: str
) -> None:
    with found_out(told) as stage:
        answer = stage.ask(method, f"{R}{path.replace('HEAD', stage.head)}", body, **query)
        assert answer.status_code == 422
        assert not stage.repository.statuses
        assert not stage.repository.comments


def test_fifty_annotations_are_taken_and_fifty_one_are_not() -> None:
    note = {"path": "a", "start_line": 1, "end_line": 1, "annotation_level": "notice", "message": "m"}
    with found_out("is too long") as stage:
        for count, status in ((50, 201), (51, 422)):
            output = {"title": "t", "summary": "s", "annotations": [note] * count}
            body = {"name": "n", "head_sha": stage.head, "output": output}
            assert stage.ask("POST", f"{R}/check-runs", body).status_code == status


def test_a_request_without_an_agent_fails_the_test() -> None:
    with found_out("User-Agent") as stage:
        answer = requests.get(f"{stage.github.url}/user", headers={"user-agent": ""}, timeout=10)
        assert answer.status_code == 403


def test_a_body_that_is_not_json_fails_the_test() -> None:
    with found_out("not JSON") as stage:
        headers = {"authorization": f"token {stage.github.write.value}"}
        for raw in (b"{", b'{"body": "\\ud83d"}'):
            answer = requests.post(f"{stage.github.url}{R}/issues/7/comments", data=raw, headers=headers, timeout=10)
            assert answer.status_code == 400


def test_a_response_that_is_not_like_githubs_fails_the_test_whatever_is_allowed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setitem(
        ROUTES,
        "GET /repos/{owner}/{repo}/pulls/{pull_number}",
        lambda service, call: Answer(body={"number": "seven"}),
    )
    with found_out("'head' is a required property", allow_problems=True) as stage:
        stage.ask("GET", f"{R}/pulls/7")


def test_a_mistake_in_the_fake_fails_the_test(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(
        ROUTES,
        "GET /user",
        lambda service, call: 1 / 0,
    )
    with found_out("ZeroDivisionError") as stage:
        assert stage.ask("GET", "/user").status_code == 500


def test_an_exception_on_its_way_out_stays_what_it_is_and_gets_the_findings_as_a_note() -> None:
    def wrong() -> None:
        with FakeGitHub() as github:
            staged(github).ask("GET", "/nowhere")
            raise KeyError("mine")

    with pytest.raises(KeyError) as caught:
        wrong()
    assert "nothing that GitHub knows" in caught.value.__notes__[0]


def test_it_listens_on_loopback_only(stage: Stage) -> None:
    assert stage.github._listener.socket.getsockname()[0] == "127.0.0.1"
    assert stage.github.url.startswith("http://127.0.0.1:")


def test_leaving_the_block_frees_the_port_and_hangs_up() -> None:
    with FakeGitHub() as github:
        port = int(github.url.rpartition(":")[2])
        waiting = socket.create_connection(("127.0.0.1", port), timeout=10)
    with contextlib.suppress(ConnectionResetError):  # in place of an orderly end
        assert waiting.recv(1) == b""
    waiting.close()
    with pytest.raises(OSError, match="refused"):
        socket.create_connection(("127.0.0.1", port), timeout=10)


def test_every_request_is_kept_without_its_credential(stage: Stage) -> None:
    stage.ask("GET", f"{R}/pulls/7/files", per_page=5)
    (asked,) = stage.github.asked
    assert (asked.method, asked.path, asked.query, asked.status) == (
        "GET",
        f"{R}/pulls/7/files",
        {"per_page": "5"},
        200,
    )
    assert asked.operation == "GET /repos/{owner}/{repo}/pulls/{pull_number}/files"
    assert asked.token is stage.github.write
    assert "authorization" not in asked.headers


# --- GitHub's own client takes it for GitHub


def test_pygithubs_own_objects_work_on_it(stage: Stage) -> None:
    stage.repository.roles["octocat"] = "admin"
    client = pygithub.Github(
        auth=pygithub.Auth.Token(stage.github.app.value),
        base_url=stage.github.url,
        seconds_between_requests=None,
        seconds_between_writes=None,
    )
    repository = client.get_repo("acme/skills")
    assert (repository.full_name, repository.private, repository.default_branch) == ("acme/skills", True, "main")
    pull = repository.get_pull(7)
    assert (pull.head.sha, pull.base.ref, pull.user.login) == (stage.head, "main", "octocat")
    assert [(one.filename, one.status, one.previous_filename) for one in pull.get_files()] == [
        ("docs/LICENSE", "renamed", "LICENSE"),
        ("skills/a/SKILL.md", "modified", None),
        ("skills/a/run.sh", "added", None),
    ]
    comment = pull.create_issue_comment("hello")
    comment.edit("hello again")
    assert [one.body for one in pull.get_issue_comments()] == ["hello again"]
    comment.delete()
    assert pull.get_issue_comments().totalCount == 0
    commit = repository.get_commit(stage.head)
    commit.create_status("pending", description="running", context="c")
    commit.create_status("success", context="c")
    commit.create_status("failure", context="d")
    combined = commit.get_combined_status()
    assert (combined.state, combined.total_count) == ("failure", 2)
    run = repository.create_check_run("gate", stage.head, status="in_progress")
    run.edit(conclusion="success", output={"title": "t", "summary": "s"})
    (found,) = commit.get_check_runs()
    assert (found.status, found.conclusion, found.output.title) == ("completed", "success", "t")
    content = repository.get_contents("skills/a/SKILL.md", ref="topic")
    assert not isinstance(content, list)
    assert content.decoded_content == b"new"
    assert repository.compare("main", "topic").merge_base_commit.sha == stage.base
    stage.ask("POST", f"{R}/issues/7/labels", {"labels": ["bug"]})
    assert [one.name for one in pull.get_labels()] == ["bug"]
    assert [one["event"] for one in stage.ask("GET", f"{R}/issues/7/events").json()] == ["labeled"]
    assert repository.get_collaborator_permission("octocat") == "admin"
    assert [one.path for one in repository.get_git_tree(stage.head, recursive=True).tree if one.type == "blob"] == [
        "docs/LICENSE",
        "skills/a/SKILL.md",
        "skills/a/run.sh",
    ]
    assert [one.number for one in repository.get_pulls()] == [7]
    assert [one.number for one in commit.get_pulls()] == [7]


# --- limits that GitHub's description does not tell


def test_a_comment_may_have_65536_characters(stage: Stage) -> None:
    path = f"{R}/issues/7/comments"
    assert stage.ask("POST", path, {"body": "😀" * 65_536}).status_code == 201
    refused = stage.ask("POST", path, {"body": "x" * 65_537})
    assert (refused.status_code, refused.json()["message"]) == (422, "Validation Failed")
    assert "65536" in refused.json()["errors"][0]["message"]
    assert stage.ask("POST", path, {"body": " \n"}).status_code == 422
    own = next(iter(stage.repository.comments))
    assert stage.ask("PATCH", f"{R}/issues/comments/{own}", {"body": "x" * 65_537}).status_code == 422


@pytest.mark.parametrize(
    ("body", "status"),
    [
        ({"description": "ü" * 140}, 201),
        ({"description": "ü" * 141}, 422),
        ({"description": "done 🎉"}, 422),
        ({"target_url": "ftp://example.org"}, 422),
        ({"target_url": None, "description": None}, 201),
    ],
)
def test_a_status_has_the_limits_of_githubs_database(stage: Stage, body: Any, status: int) -> None:
    assert stage.ask("POST", f"{R}/statuses/{stage.head}", {"state": "success"} | body).status_code == status


def test_a_commit_takes_a_thousand_statuses_of_a_context(stage: Stage) -> None:
    stage.ask("POST", f"{R}/statuses/{stage.head}", {"state": "success", "context": "Mine"})
    stage.repository.statuses *= 1000
    assert stage.ask("POST", f"{R}/statuses/{stage.head}", {"state": "success", "context": "mine"}).status_code == 422
    assert stage.ask("POST", f"{R}/statuses/{stage.head}", {"state": "success", "context": "other"}).status_code == 201


def test_a_status_needs_a_commit_that_is_there(stage: Stage) -> None:
    assert stage.ask("POST", f"{R}/statuses/{'9' * 40}", {"state": "success"}).status_code == 422


def test_lists_come_thirty_at_a_time_and_a_hundred_at_most(stage: Stage) -> None:
    user = stage.github.world.user("octocat")
    for index in range(250):
        stage.repository.add_comment(7, user, str(index))
    path = f"{R}/issues/7/comments"
    first = stage.ask("GET", path)
    assert [one["body"] for one in first.json()] == [str(index) for index in range(30)]
    assert first.links["last"]["url"].endswith("page=9")
    whole = stage.ask("GET", path, per_page=500, page=3)
    assert len(whole.json()) == 50
    assert set(whole.links) == {"first", "prev"}
    assert stage.ask("GET", path, page=10).json() == []
    bodies, url = [], f"{path}?per_page=100"
    while url:
        answer = stage.ask("GET", url)
        bodies += [one["body"] for one in answer.json()]
        url = answer.links.get("next", {}).get("url", "").removeprefix(stage.github.url)
    assert bodies == [str(index) for index in range(250)]


def test_no_more_than_three_thousand_files_are_listed_and_nobody_says_so(stage: Stage) -> None:
    stage.pull.files = [ChangedFile(f"f/{index}") for index in range(3100)]
    last = stage.ask("GET", f"{R}/pulls/7/files", per_page=100, page=30)
    assert len(last.json()) == 100
    assert "next" not in last.links
    assert stage.ask("GET", f"{R}/pulls/7/files", per_page=100, page=31).json() == []
    assert stage.ask("GET", f"{R}/pulls/7").json()["changed_files"] == 3100


def test_a_completed_check_is_not_opened_again_and_needs_a_conclusion(stage: Stage) -> None:
    body = {"name": "gate", "head_sha": stage.head}
    assert stage.ask("POST", f"{R}/check-runs", body | {"status": "completed"}).status_code == 422
    made = stage.ask("POST", f"{R}/check-runs", body | {"conclusion": "success"}).json()
    assert (made["status"], made["conclusion"]) == ("completed", "success")
    path = f"{R}/check-runs/{made['id']}"
    assert stage.ask("PATCH", path, {"status": "in_progress"}).status_code == 422
    assert stage.ask("PATCH", path, {"conclusion": "failure"}).json()["conclusion"] == "failure"
    assert stage.ask("PATCH", path, {"conclusion": "failure"}, token="app").status_code == 403


@pytest.mark.parametrize(
    ("states", "expected"),
    [
        ([], "pending"),
        (["success", "success"], "success"),
        (["success", "pending"], "pending"),
        (["pending", "error"], "failure"),
        (["success", "failure"], "failure"),
    ],
)
def test_statuses_are_summed_up_as_github_does(stage: Stage, states: list[str], expected: str) -> None:
    for index, state in enumerate(states):
        stage.ask("POST", f"{R}/statuses/{stage.head}", {"state": "failure", "context": f"c{index}"})
        stage.ask("POST", f"{R}/statuses/{stage.head}", {"state": state, "context": f"C{index}"})
    every = stage.ask("GET", f"{R}/commits/topic/statuses").json()
    assert [one["state"] for one in every[::2]] == states[::-1]  # newest first
    combined = stage.ask("GET", f"{R}/commits/{stage.head}/status").json()
    assert (combined["state"], combined["total_count"]) == (expected, len(states))


# --- tokens

COMMENT = ("POST", f"{R}/issues/7/comments", {"body": "b"})
STATUS = ("POST", f"{R}/statuses/HEAD", {"state": "success"})
CHECK = ("POST", f"{R}/check-runs", {"name": "n", "head_sha": "HEAD"})
LABEL = ("POST", f"{R}/issues/7/labels", {"labels": ["x"]})
PULL = ("GET", f"{R}/pulls/7", None)
USER = ("GET", "/user", None)


@pytest.mark.parametrize(
    ("token", "private", "request_", "status", "message"),
    [
        ("write", True, PULL, 200, None),
        ("write", True, COMMENT, 201, None),
        ("write", True, STATUS, 201, None),
        ("write", True, CHECK, 201, None),
        ("write", True, LABEL, 200, None),
        ("write", True, USER, 403, "Resource not accessible by integration"),
        ("read", True, PULL, 200, None),
        ("read", True, COMMENT, 403, "Resource not accessible by integration"),
        ("read", False, COMMENT, 403, "Resource not accessible by integration"),
        ("read", True, STATUS, 403, "Resource not accessible by integration"),
        ("read", True, CHECK, 403, "Resource not accessible by integration"),
        ("app", True, CHECK, 201, None),
        ("app", True, USER, 403, "Resource not accessible by integration"),
        ("pat", True, USER, 200, None),
        ("pat", True, PULL, 404, "Not Found"),
        ("pat", False, PULL, 200, None),
        ("pat-write", True, COMMENT, 201, None),
        ("pat-write", True, STATUS, 201, None),
        ("pat-write", True, CHECK, 403, "You must authenticate via a GitHub App."),
        ("pat-read", True, COMMENT, 201, None),
        ("pat-read", True, STATUS, 404, "Not Found"),
        ("pat-read", True, LABEL, 404, "Not Found"),
        ("fine-grained", True, STATUS, 201, None),
        ("fine-grained", True, COMMENT, 403, "Resource not accessible by personal access token"),
        ("none", True, PULL, 404, "Not Found"),
        ("none", True, COMMENT, 404, "Not Found"),
        ("none", False, PULL, 200, None),
        ("none", False, COMMENT, 401, "Requires authentication"),
        ("none", False, STATUS, 401, "Requires authentication"),
        ("none", False, USER, 401, "Requires authentication"),
        ("wrong", False, PULL, 401, "Bad credentials"),
    ],
)
def test_each_kind_of_token_may_what_it_may_on_github(
    token: str, private: bool, request_: tuple[str, str, Any], status: int, message: str | None
) -> None:
    with FakeGitHub() as github:
        stage = staged(github, private=private)
        name, _, role = token.partition("-")
        given: Token | str | None = name
        if token == "fine-grained":
            stage.repository.roles["octocat"] = "write"
            given = github.world.add_token(Token("github_pat_fake", "fine_grained", "octocat", {"statuses": "write"}))
        elif token == "wrong":
            given = Token("ghs_unknown", "actions", "github-actions[bot]")
        elif token == "none":
            given = None
        elif role:
            stage.repository.roles["octocat"] = "write" if role == "write" else "read"
        method, path, body = request_
        body = json.loads(json.dumps(body).replace("HEAD", stage.head))
        answer = stage.ask(method, path.replace("HEAD", stage.head), body, token=given)
        assert answer.status_code == status, answer.text
        if message is not None:
            assert answer.json()["message"] == message


def test_a_comment_belongs_to_whoever_wrote_it(stage: Stage) -> None:
    stage.repository.roles["octocat"] = "read"
    for token, login, app in (("write", "github-actions[bot]", "github-actions"), ("pat", "octocat", None)):
        made = stage.ask("POST", f"{R}/issues/7/comments", {"body": "b"}, token=token).json()
        assert made["user"]["login"] == login
        assert (made["performed_via_github_app"] or {}).get("slug") == app
    first = next(iter(stage.repository.comments))
    assert stage.ask("PATCH", f"{R}/issues/comments/{first}", {"body": "mine now"}, token="pat").status_code == 403


def test_the_account_of_requests_is_kept_and_runs_out(stage: Stage) -> None:
    first = stage.ask("GET", f"{R}/pulls/7")
    assert (first.headers["x-ratelimit-limit"], first.headers["x-ratelimit-remaining"]) == ("1000", "999")
    stage.github.world.remaining[stage.github.write.value] = 1
    assert stage.ask("GET", f"{R}/pulls/7").status_code == 200
    empty = stage.ask("GET", f"{R}/pulls/7")
    assert empty.status_code == 403
    assert empty.json()["message"].startswith("API rate limit exceeded")
    assert empty.headers["x-ratelimit-remaining"] == "0"
    assert stage.ask("GET", f"{R}/pulls/7", token="app").status_code == 200


def test_the_old_field_of_a_permission_knows_no_maintainers(stage: Stage) -> None:
    stage.github.world.user("hubot")
    stage.repository.roles["hubot"] = "maintain"
    found = stage.ask("GET", f"{R}/collaborators/hubot/permission").json()
    assert (found["permission"], found["role_name"]) == ("write", "maintain")
    assert found["user"]["permissions"]["maintain"] is True
    assert found["user"]["permissions"]["admin"] is False


# --- faults


def test_faults_come_in_order_on_the_requests_that_they_are_for(stage: Stage) -> None:
    stage.github.fail(secondary_limit(5), primary_limit(100), on="GET .*/pulls/7$")
    assert stage.ask("GET", f"{R}/pulls/7/files").status_code == 200
    first, second = stage.ask("GET", f"{R}/pulls/7"), stage.ask("GET", f"{R}/pulls/7")
    assert (first.status_code, first.headers["retry-after"]) == (403, "5")
    assert second.headers["x-ratelimit-remaining"] == "0"
    assert "retry-after" not in second.headers
    assert stage.ask("GET", f"{R}/pulls/7").status_code == 200


@pytest.mark.parametrize("applied", [False, True])
def test_a_dropped_connection_leaves_the_change_only_where_it_is_said(stage: Stage, applied: bool) -> None:
    stage.github.fail(dropped(applied=applied))
    with pytest.raises(requests.ConnectionError):
        stage.ask("POST", f"{R}/issues/7/comments", {"body": "b"})
    assert len(stage.repository.comments) == int(applied)


# --- Git


def test_ids_are_those_that_git_gives() -> None:
    assert git_id("blob", b"hello\n") == "ce013625030ba8dba906f756967f9e9ca394464a"
    assert tree_id({}) == "4b825dc642cb6eb9a060e54bf8d69288fbee4904"
    assert tree_id({"a.txt": File(b"hello\n"), "a/b.sh": File(b"hello\n", "100755")}) == (
        "4dd1f0d65756e81f144a1e79cf2f7b4147845765"
    )


# --- GitHub's description


def test_the_description_covers_exactly_what_is_served() -> None:
    operations = openapi.contract(PATHS)._operations
    assert ROUTES.keys() <= operations.keys()


def test_what_may_be_null_in_openapi_may_be_null_in_the_schema() -> None:
    whole = {
        "components": {
            "schemas": {
                "basic-error": {"type": "object"},
                "color": {"type": "string", "enum": ["red"], "nullable": True, "description": "gone"},
                "owner": {"nullable": True, "allOf": [{"$ref": "#/components/schemas/color"}]},
            },
            "parameters": {"n": {"name": "n", "in": "path", "required": True, "schema": {"type": "integer"}}},
        },
        "paths": {
            "/x/{n}": {
                "get": {
                    "parameters": [{"$ref": "#/components/parameters/n"}],
                    "responses": {
                        "200": {
                            "content": {
                                "application/json": {
                                    "schema": {
                                        "type": "object",
                                        "required": ["color"],
                                        "properties": {
                                            "color": {"$ref": "#/components/schemas/color"},
                                            "owner": {"$ref": "#/components/schemas/owner"},
                                            "nullable": {"type": "string"},
                                        },
                                    }
                                }
                            }
                        },
                        "204": {"description": "nothing"},
                    },
                }
            }
        },
    }
    contract = openapi.Contract(openapi.slim(whole, ["/x/{n}"]))
    match = contract.match("GET", "/x/12")
    assert match is not None
    assert match.path == {"n": "12"}

    def problems(body: Any, status: int = 200, *, sent: bool = True) -> list[str]:
        return contract.response_problems("GET /x/{n}", status, body, sent=sent)

    assert problems({"color": None, "owner": None}) == []
    assert problems({"color": "red", "nullable": "text"}) == []
    assert problems({"color": "blue"})
    assert problems({"color": None, "nullable": None})
    assert problems({})
    assert problems(None, 204, sent=False) == []
    assert problems({}, 204)
    assert problems({}, 202) == ["GitHub does not answer GET /x/{n} with status 202"]
    assert problems({"message": "m"}, 500) == []
    assert problems({}, 500) == ["an error without a message"]
    assert contract.match("POST", "/x/12") is None
    assert contract.match("GET", "/x/12/y") is None


def test_a_path_that_github_does_not_have_cannot_be_selected() -> None:
    with pytest.raises(ValueError, match="no path /nowhere"):
        openapi.slim({"paths": {}, "components": {"schemas": {}}}, ["/nowhere"])


@pytest.fixture
def empty_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(openapi, "CACHE", tmp_path / "cache")
    monkeypatch.setenv("PATH", str(tmp_path / "bin"))
    (tmp_path / "bin").mkdir()
    return tmp_path


def make_npm(folder: Path, archive: bytes) -> None:
    """An npm that "fetches" this archive and counts how often it was asked."""
    (folder / "archive").write_bytes(archive)
    npm = folder / "bin" / "npm"
    npm.write_text(f'#!/bin/sh\necho x >>{folder}/asked\n/bin/cp {folder}/archive "$5/fetched.tgz"\n')
    npm.chmod(0o755)


def archive_of(description: Any) -> bytes:
    data, buffer = json.dumps(description).encode(), io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w:gz") as archive:
        member = tarfile.TarInfo(openapi.MEMBER)
        member.size = len(data)
        archive.addfile(member, io.BytesIO(data))
    return buffer.getvalue()


def test_the_description_is_fetched_once_and_then_found(empty_cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    archive = archive_of({"paths": {"/x": {}}, "components": {"schemas": {"basic-error": {"type": "object"}}}})
    monkeypatch.setattr(openapi, "SHA512", base64.b64encode(hashlib.sha512(archive).digest()).decode())
    make_npm(empty_cache, archive)
    first = openapi.slim_file(["/x"])
    assert json.loads(first.read_bytes())["schemas"] == {"basic-error": {"type": "object"}}
    assert openapi.slim_file(["/x"]) == first
    assert openapi.slim_file([]) != first
    assert (empty_cache / "asked").read_text().count("x") == 1


def test_another_archive_than_the_pinned_one_is_not_opened(empty_cache: Path) -> None:
    make_npm(empty_cache, archive_of({"paths": {}}))
    with pytest.raises(openapi.ContractUnavailableError, match="another @octokit/openapi"):
        openapi.slim_file(["/x"])
    assert not list((empty_cache / "cache").glob("*.json"))


@pytest.mark.parametrize(("ci", "outcome"), [("", pytest.skip.Exception), ("true", pytest.fail.Exception)])
def test_without_npm_a_test_is_skipped_with_the_reason_and_fails_in_ci(
    empty_cache: Path, monkeypatch: pytest.MonkeyPatch, ci: str, outcome: type[BaseException]
) -> None:
    del empty_cache
    monkeypatch.setenv("CI", ci)
    with pytest.raises(outcome, match=r"npm is not installed.*\.ci/openapi"):
        openapi.contract(["/not/cached"])


def test_an_npm_that_fails_is_quoted(empty_cache: Path) -> None:
    npm = empty_cache / "bin" / "npm"
    npm.write_text("#!/bin/sh\necho 'no route to host' >&2\nexit 1\n")
    npm.chmod(0o755)
    with pytest.raises(openapi.ContractUnavailableError, match="no route to host"):
        openapi.slim_file(["/x"])
