"""What the fake GitHub does with each request that it knows: access, limits, paging, and the change to the world."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any, NoReturn, TypeVar
from urllib.parse import urlencode

from tests.github.bodies import Bodies
from tests.github.world import (
    ACTIONS,
    CheckRun,
    Comment,
    Commit,
    File,
    Pull,
    Repository,
    Role,
    Status,
    Token,
    User,
    World,
    folder_ids,
)

Json = Any
T = TypeVar("T")

COMMENT_CHARACTERS = 65_536
DESCRIPTION_CHARACTERS = 140
STATUSES_PER_CONTEXT = 1000
FILES_CAP = 3000
LARGEST_PAGE = 100
DEFAULT_PAGE = 30
TREE_LIMIT = 100_000

BY_INTEGRATION = "Resource not accessible by integration"
BY_PERSONAL = "Resource not accessible by personal access token"
NEEDS_AUTHENTICATION = "Requires authentication"
BAD_CREDENTIALS = "Bad credentials"
NOT_FOUND = "Not Found"
VALIDATION_FAILED = "Validation Failed"
DOCUMENTATION = "https://docs.github.com/rest"


@dataclass(frozen=True)
class Answer:
    """A response. ``body`` None: there is none."""

    status: int = 200
    body: Json = None
    headers: Mapping[str, str] = field(default_factory=dict)


class RefusedError(Exception):
    """An error status, in GitHub's shape."""

    def __init__(self, status: int, message: str, *, errors: Sequence[Json] = ()) -> None:
        """``errors``: what was wrong, field by field."""
        super().__init__(message)
        self.status = status
        self.message = message
        self.errors = list(errors)

    def answer(self) -> Answer:
        """The response."""
        body: dict[str, Json] = {
            "message": self.message,
            "documentation_url": DOCUMENTATION,
            "status": str(self.status),
        }
        return Answer(self.status, body | ({"errors": self.errors} if self.errors else {}))


def invalid(resource: str, name: str, message: str) -> RefusedError:
    """A 422 about one field."""
    error = {"resource": resource, "code": "custom", "field": name, "message": message}
    return RefusedError(422, VALIDATION_FAILED, errors=[error])


@dataclass(frozen=True)
class Call:
    """A request, understood."""

    token: Token | None
    operation: str
    path: Mapping[str, str]
    query: Mapping[str, str]
    body: Json
    url: str
    """Without the query, for links to other pages."""


class Service:
    """Answers calls. Not thread-safe: the server lets one in at a time."""

    def __init__(self, world: World, bodies: Bodies) -> None:
        """``world`` is changed by what is asked."""
        self._world = world
        self._bodies = bodies
        self.tree_limit = TREE_LIMIT

    def answer(self, call: Call) -> Answer:
        """What GitHub would say. Raises RefusedError."""
        return ROUTES[call.operation](self, call)

    def viewer(self, token: Token | None) -> str:
        """The login that a token acts as, by GraphQL: it knows installations too."""
        if token is None:
            raise RefusedError(401, NEEDS_AUTHENTICATION)
        return token.login

    # --- who may

    def _repository(self, call: Call, area: str, level: str = "read", *, least: Role = "read") -> Repository:
        """The repository of a call, if its token may do that.

        ``area`` and ``level``: permission of an installation or fine-grained token. ``least``: role that a classic
        token's user needs. Whoever cannot see a private repository is told that there is none.
        """
        repository = self._world.repository(f"{call.path['owner']}/{call.path['repo']}")
        if repository is not None and repository.moved_to is not None:
            target = self._world.repository(repository.moved_to)
            assert target is not None, "a repository moved to one that is not there"
            raise _MovedError(call, target)
        token = call.token
        if repository is None or not self._visible(repository, token):
            raise RefusedError(404, NOT_FOUND)
        if level == "read" and not repository.private:
            return repository
        if token is None:
            raise RefusedError(401, NEEDS_AUTHENTICATION)
        if repository.archived and level == "write":
            raise RefusedError(403, "Repository was archived so is read-only.")
        if token.kind == "pat":
            if not _reaches(repository.role(token.login), least):
                raise RefusedError(404, NOT_FOUND)
            return repository
        areas = area.split("|")
        if not any(token.permissions.get(one) in ("write", level) for one in areas):
            raise RefusedError(403, BY_INTEGRATION if token.installation else BY_PERSONAL)
        return repository

    def _visible(self, repository: Repository, token: Token | None) -> bool:
        if not repository.private:
            return True
        if token is None:
            return False
        return bool(token.permissions) if token.installation else repository.role(token.login) is not None

    def _author(self, call: Call) -> User:
        assert call.token is not None
        return self._world.user(call.token.login)

    def _app(self, call: Call) -> str | None:
        return call.token.app_slug if call.token is not None and call.token.installation else None

    # --- accounts

    def rate_limit(self, call: Call) -> Answer:
        token = call.token
        limit = token.rate_limit if token else 60
        remaining = self._world.remaining.get(token.value, limit) if token else limit
        return Answer(body=self._bodies.rate(limit, remaining, int(self._world.now().timestamp()) + 3600))

    def own_user(self, call: Call) -> Answer:
        if call.token is None:
            raise RefusedError(401, NEEDS_AUTHENTICATION)
        if call.token.installation:
            raise RefusedError(403, BY_INTEGRATION)
        return Answer(body=self._bodies.whole_user(self._author(call)))

    def user(self, call: Call) -> Answer:
        user = self._world.users.get(call.path["username"].casefold())
        if user is None:
            raise RefusedError(404, NOT_FOUND)
        return Answer(body=self._bodies.whole_user(user))

    def permission(self, call: Call) -> Answer:
        repository = self._repository(call, "metadata", "read")
        token = call.token
        if token is None:
            raise RefusedError(401, NEEDS_AUTHENTICATION)
        if not token.installation and not _reaches(repository.role(token.login), "write"):
            raise RefusedError(403, "Must have push access to view collaborator permission.")
        user = self._world.users.get(call.path["username"].casefold())
        if user is None:
            raise RefusedError(404, f"{call.path['username']} is not a user")
        return Answer(body=self._bodies.permission(repository, user))

    # --- Apps

    def installation(self, call: Call) -> Answer:
        app = self._signed(call)
        name = f"{call.path['owner']}/{call.path['repo']}".casefold()
        if name not in self._world.installations:
            raise RefusedError(404, NOT_FOUND)
        number, now = self._world.installations[name], "2026-01-05T09:00:00Z"
        return Answer(
            body={
                "id": number,
                "account": None,
                "app_id": int(app.login.removeprefix("app-").removesuffix("[bot]")),
                "app_slug": app.app_slug,
                "target_id": 1,
                "target_type": "Organization",
                "single_file_name": None,
                "repository_selection": "selected",
                "access_tokens_url": f"https://api.github.com/app/installations/{number}/access_tokens",
                "html_url": f"https://github.com/organizations/acme/settings/installations/{number}",
                "repositories_url": "https://api.github.com/installation/repositories",
                "events": ["pull_request"],
                "permissions": {"statuses": "write"},
                "created_at": now,
                "updated_at": now,
                "suspended_by": None,
                "suspended_at": None,
            }
        )

    def installation_token(self, call: Call) -> Answer:
        """A token with the permissions that were asked for, good for an hour."""
        app = self._signed(call)
        if int(call.path["installation_id"]) not in self._world.installations.values():
            raise RefusedError(404, NOT_FOUND)
        asked = call.body if isinstance(call.body, dict) else {}
        # The issue endpoints take pull_requests for comments on pull requests (github-action.md 1.3).
        permissions = {**asked.get("permissions", {})}
        if "pull_requests" in permissions:
            permissions["issues"] = permissions["pull_requests"]
        value = f"ghs_app_{self._world.next_id()}"
        self._world.add_token(Token(value, "app", app.login, permissions, 5000))
        ends = (datetime.now(UTC) + timedelta(hours=1)).strftime("%Y-%m-%dT%H:%M:%SZ")
        return Answer(201, {"token": value, "expires_at": ends, "permissions": asked.get("permissions", {})})

    def _signed(self, call: Call) -> Token:
        if call.token is None or call.token.kind != "jwt":
            raise RefusedError(401, "A JSON web token could not be decoded")
        return call.token

    # --- repository and Git

    def repository(self, call: Call) -> Answer:
        return Answer(body=self._bodies.repository(self._repository(call, "metadata"), "full-repository"))

    def commit(self, call: Call) -> Answer:
        repository = self._repository(call, "contents")
        return Answer(body=self._bodies.commit(repository, _commit(repository, call.path["ref"])))

    def tree(self, call: Call) -> Answer:
        repository = self._repository(call, "contents")
        sha = call.path["tree_sha"]
        commit = repository.resolve(sha)
        files: Mapping[str, File] | None = commit.files if commit else _folder(repository, sha)
        if files is None:
            raise RefusedError(404, NOT_FOUND)
        return Answer(
            body=self._bodies.tree(repository, sha, files, recursive="recursive" in call.query, limit=self.tree_limit)
        )

    def blob(self, call: Call) -> Answer:
        repository = self._repository(call, "contents")
        for commit in repository.commits.values():
            for file in commit.files.values():
                if file.blob == call.path["file_sha"] and file.mode != "160000":
                    return Answer(body=self._bodies.blob(repository, file))
        raise RefusedError(404, NOT_FOUND)

    def content(self, call: Call) -> Answer:
        repository = self._repository(call, "contents")
        ref = call.query.get("ref", repository.default_branch)
        file = _commit(repository, ref, missing=404).files.get(call.path["path"])
        if file is None or file.mode not in ("100644", "100755"):
            raise RefusedError(404, NOT_FOUND)
        return Answer(body=self._bodies.content(repository, call.path["path"], file, ref))

    def compare(self, call: Call) -> Answer:
        repository = self._repository(call, "contents")
        base_name, dots, head_name = call.path["basehead"].partition("...")
        if not dots:
            raise RefusedError(404, NOT_FOUND)
        base, head = (_commit(repository, name, missing=404) for name in (base_name, head_name))
        common = repository.merge_base(base.sha, head.sha)
        if common is None:
            raise RefusedError(404, f"No common ancestor between {base_name} and {head_name}.")
        return Answer(body=self._bodies.comparison(repository, base, head, repository.commits[common]))

    # --- pull requests

    def pulls(self, call: Call) -> Answer:
        repository = self._repository(call, "pull_requests")
        wanted = call.query.get("state", "open")
        shown = [one for one in repository.pulls.values() if wanted in ("all", one.state)]
        # The list's schema is another than that of one pull request; what differs is only how much is in it.
        return self._page(call, shown, lambda one: self._bodies.pull(repository, one))

    def pull(self, call: Call) -> Answer:
        repository, pull = self._pull(call, "pull_number", "pull_requests")
        return Answer(body=self._bodies.pull(repository, pull))

    def files(self, call: Call) -> Answer:
        repository, pull = self._pull(call, "pull_number", "pull_requests")
        shown = pull.files[:FILES_CAP]
        return self._page(call, shown, lambda one: self._bodies.file(repository, one, pull.head_sha))

    def pulls_of_commit(self, call: Call) -> Answer:
        repository = self._repository(call, "pull_requests")
        sha = call.path["commit_sha"]
        shown = [one for one in repository.pulls.values() if one.head_sha == sha]
        return self._page(call, shown, lambda one: self._bodies.pull(repository, one))

    def labels(self, call: Call) -> Answer:
        repository, pull = self._pull(call, "issue_number", "issues|pull_requests")
        return self._page(call, pull.labels, lambda one: self._bodies.label(repository, one))

    def add_labels(self, call: Call) -> Answer:
        repository, pull = self._pull(call, "issue_number", "issues|pull_requests", "write", least="triage")
        given = call.body.get("labels", []) if isinstance(call.body, dict) else call.body
        for one in given or []:
            name = one["name"] if isinstance(one, dict) else one
            if name not in pull.labels:
                repository.add_label(pull, name, self._author(call), app=self._app(call))
        return Answer(body=[self._bodies.label(repository, one) for one in pull.labels])

    def events(self, call: Call) -> Answer:
        repository, pull = self._pull(call, "issue_number", "issues|pull_requests")
        return self._page(call, pull.label_events, lambda one: self._bodies.label_event(repository, one))

    # --- comments

    def comments(self, call: Call) -> Answer:
        repository, pull = self._pull(call, "issue_number", "issues|pull_requests")
        return self._page(call, repository.comments_of(pull.number), lambda one: self._bodies.comment(repository, one))

    def create_comment(self, call: Call) -> Answer:
        repository, pull = self._pull(call, "issue_number", "issues|pull_requests", "write")
        if pull.locked and not _reaches(repository.role(self._author(call).login), "write"):
            raise RefusedError(403, "Unable to create comment because issue is locked.")
        body = _comment_body(call.body["body"])
        made = repository.add_comment(pull.number, self._author(call), body, app=self._app(call))
        return Answer(201, self._bodies.comment(repository, made))

    def comment(self, call: Call) -> Answer:
        repository = self._repository(call, "issues|pull_requests")
        return Answer(body=self._bodies.comment(repository, self._comment(repository, call)))

    def update_comment(self, call: Call) -> Answer:
        repository = self._repository(call, "issues|pull_requests", "write")
        comment = self._comment(repository, call)
        self._own_or_maintained(repository, comment, call)
        comment.body = _comment_body(call.body["body"])
        comment.updated_at = self._world.now()
        return Answer(body=self._bodies.comment(repository, comment))

    def delete_comment(self, call: Call) -> Answer:
        repository = self._repository(call, "issues|pull_requests", "write")
        comment = self._comment(repository, call)
        self._own_or_maintained(repository, comment, call)
        del repository.comments[comment.id]
        return Answer(204)

    def _own_or_maintained(self, repository: Repository, comment: Comment, call: Call) -> None:
        own = comment.author is not None and comment.author.login == self._author(call).login
        token = call.token
        assert token is not None
        if not own and not token.installation and not _reaches(repository.role(token.login), "write"):
            raise RefusedError(403, "Must have admin rights to Repository.")

    @staticmethod
    def _comment(repository: Repository, call: Call) -> Comment:
        comment = repository.comments.get(int(call.path["comment_id"]))
        if comment is None:
            raise RefusedError(404, NOT_FOUND)
        return comment

    # --- statuses

    def create_status(self, call: Call) -> Answer:
        repository = self._repository(call, "statuses", "write", least="write")
        sha, body = call.path["sha"], call.body
        if sha not in repository.commits:
            raise RefusedError(422, f"No commit found for SHA: {sha}")
        context = body.get("context", "default")
        description = body.get("description")
        target = body.get("target_url") or None
        if description is not None and len(description) > DESCRIPTION_CHARACTERS:
            message = f"description is too long (maximum is {DESCRIPTION_CHARACTERS} characters)"
            raise invalid("Status", "description", message)
        if description is not None and any(ord(one) > 0xFFFF for one in description):
            raise invalid("Status", "description", "description contains unicode characters above 0xffff")
        if target is not None and not target.startswith(("http://", "https://")):
            raise invalid("Status", "target_url", "target_url must use http(s) scheme")
        before = [one for one in repository.statuses_of(sha) if one.context.casefold() == context.casefold()]
        if len(before) >= STATUSES_PER_CONTEXT:
            message = "This SHA and context has reached the maximum number of statuses."
            raise invalid("Status", "base", message)
        made = Status(
            self._world.next_id(),
            sha,
            body["state"],
            context,
            description,
            target,
            self._author(call),
            self._world.now(),
        )
        repository.statuses.append(made)
        return Answer(201, self._bodies.status(repository, made))

    def statuses(self, call: Call) -> Answer:
        repository = self._repository(call, "statuses")
        sha = _commit(repository, call.path["ref"]).sha
        return self._page(call, repository.statuses_of(sha), lambda one: self._bodies.status(repository, one))

    def combined(self, call: Call) -> Answer:
        repository = self._repository(call, "statuses")
        sha = _commit(repository, call.path["ref"], missing=404).sha
        newest = repository.newest_statuses(sha)
        shown, headers = _cut(call, newest)
        return Answer(200, self._bodies.combined(repository, sha, shown), headers)

    # --- checks

    def create_check(self, call: Call) -> Answer:
        repository = self._checks(call)
        body = call.body
        if body["head_sha"] not in repository.commits:
            raise RefusedError(422, f"No commit found for SHA: {body['head_sha']}")
        run = CheckRun(
            id=self._world.next_id(),
            sha=body["head_sha"],
            name=body["name"],
            app=self._app(call) or ACTIONS,
            status="queued",
            conclusion=None,
            details_url=body.get("details_url"),
            external_id=body.get("external_id", ""),
            started_at=self._world.now(),
            completed_at=None,
            output={},
        )
        self._change(run, body)
        repository.checks[run.id] = run
        return Answer(201, self._bodies.check(repository, run))

    def update_check(self, call: Call) -> Answer:
        repository = self._checks(call)
        run = repository.checks.get(int(call.path["check_run_id"]))
        if run is None:
            raise RefusedError(404, NOT_FOUND)
        if run.app != self._app(call):
            raise RefusedError(
                403, "Invalid app_id `0` - check run can only be modified by the GitHub App that created it."
            )
        if run.status == "completed" and call.body.get("status", "completed") != "completed":
            raise invalid("CheckRun", "status", "a completed check run cannot be reopened")
        self._change(run, call.body)
        return Answer(body=self._bodies.check(repository, run))

    def check(self, call: Call) -> Answer:
        repository = self._repository(call, "checks")
        run = repository.checks.get(int(call.path["check_run_id"]))
        if run is None:
            raise RefusedError(404, NOT_FOUND)
        return Answer(body=self._bodies.check(repository, run))

    def checks(self, call: Call) -> Answer:
        repository = self._repository(call, "checks")
        sha = _commit(repository, call.path["ref"]).sha
        runs = [one for one in reversed(repository.checks.values()) if one.sha == sha]
        name = call.query.get("check_name")
        runs = [one for one in runs if name in (None, one.name)]
        shown, headers = _cut(call, runs)
        listed = [self._bodies.check(repository, one) for one in shown]
        return Answer(200, {"total_count": len(runs), "check_runs": listed}, headers)

    def _checks(self, call: Call) -> Repository:
        repository = self._repository(call, "checks", "write", least="write")
        if call.token is None or not call.token.installation:
            raise RefusedError(403, "You must authenticate via a GitHub App.")
        return repository

    def _change(self, run: CheckRun, body: Mapping[str, Json]) -> None:
        status = body.get("status", "completed" if "conclusion" in body else run.status)
        conclusion = body.get("conclusion", run.conclusion)
        if status == "completed" and conclusion is None:
            raise invalid("CheckRun", "conclusion", "conclusion is required when status is completed")
        run.status, run.conclusion = status, conclusion if status == "completed" else None
        run.name = body.get("name", run.name)
        run.details_url = body.get("details_url", run.details_url)
        if status == "completed":
            given = body.get("completed_at")
            run.completed_at = datetime.fromisoformat(given) if given else self._world.now()
        if "output" in body:
            run.output = {**run.output, **body["output"]}
            run.annotations += len(body["output"].get("annotations", []))  # later requests add to earlier ones

    # --- pieces

    def _pull(
        self, call: Call, name: str, area: str, level: str = "read", *, least: Role = "read"
    ) -> tuple[Repository, Pull]:
        repository = self._repository(call, area, level, least=least)
        pull = repository.pulls.get(int(call.path[name]))
        if pull is None:
            raise RefusedError(404, NOT_FOUND)
        return repository, pull

    @staticmethod
    def _page(call: Call, items: Sequence[T], render: Callable[[T], Json]) -> Answer:
        shown, headers = _cut(call, items)
        return Answer(200, [render(one) for one in shown], headers)


class _MovedError(RefusedError):
    """A repository that has another name now: GitHub redirects reads, and leaves writes to the client."""

    def __init__(self, call: Call, target: Repository) -> None:
        method = call.operation.partition(" ")[0]
        super().__init__(301 if method == "GET" else 307, "Moved Permanently")
        old = f"/repos/{call.path['owner']}/{call.path['repo']}"
        self.location = call.url.replace(old, f"/repos/{target.full_name}", 1)

    def answer(self) -> Answer:
        body = {"message": self.message, "url": self.location, "documentation_url": DOCUMENTATION}
        return Answer(self.status, body, {"location": self.location})


def _cut(call: Call, items: Sequence[T]) -> tuple[Sequence[T], dict[str, str]]:
    """One page and the link header that leads to the others."""
    size = max(1, min(int(call.query.get("per_page", DEFAULT_PAGE)), LARGEST_PAGE))
    page = max(1, int(call.query.get("page", 1)))
    last = max(1, -(-len(items) // size))
    targets = {"prev": page - 1, "next": page + 1, "last": last, "first": 1}
    if page >= last:
        targets = {name: number for name, number in targets.items() if name in ("prev", "first")}
    if page == 1:
        targets = {name: number for name, number in targets.items() if name in ("next", "last")}
    links = [
        f'<{call.url}?{urlencode({**call.query, "page": number})}>; rel="{name}"' for name, number in targets.items()
    ]
    return items[(page - 1) * size : page * size], {"link": ", ".join(links)} if links else {}


def _commit(repository: Repository, ref: str, *, missing: int = 422) -> Commit:
    found = repository.resolve(ref)
    if found is None:
        _no_commit(ref, missing)
    return found


def _no_commit(ref: str, status: int) -> NoReturn:
    raise RefusedError(status, f"No commit found for SHA: {ref}" if status == 422 else NOT_FOUND)


def _folder(repository: Repository, sha: str) -> dict[str, File] | None:
    """The files below the folder with this tree id."""
    for commit in repository.commits.values():
        for folder, one in folder_ids(commit.files).items():
            if one == sha:
                prefix = f"{folder}/" if folder else ""
                return {
                    path.removeprefix(prefix): file for path, file in commit.files.items() if path.startswith(prefix)
                }
    return None


def _comment_body(body: str) -> str:
    if not body.strip():
        raise invalid("IssueComment", "body", "body cannot be blank")
    if len(body) > COMMENT_CHARACTERS:
        raise invalid("IssueComment", "body", f"body is too long (maximum is {COMMENT_CHARACTERS} characters)")
    return body


def _reaches(role: Role | None, least: Role) -> bool:
    ranks: tuple[Role, ...] = ("read", "triage", "write", "maintain", "admin")
    return role is not None and ranks.index(role) >= ranks.index(least)


_R = "/repos/{owner}/{repo}"

ROUTES: Mapping[str, Callable[[Service, Call], Answer]] = {
    "GET /rate_limit": Service.rate_limit,
    "GET /user": Service.own_user,
    "GET /users/{username}": Service.user,
    f"GET {_R}": Service.repository,
    f"GET {_R}/collaborators/{{username}}/permission": Service.permission,
    f"GET {_R}/installation": Service.installation,
    "POST /app/installations/{installation_id}/access_tokens": Service.installation_token,
    f"GET {_R}/commits/{{ref}}": Service.commit,
    f"GET {_R}/git/trees/{{tree_sha}}": Service.tree,
    f"GET {_R}/git/blobs/{{file_sha}}": Service.blob,
    f"GET {_R}/contents/{{path}}": Service.content,
    f"GET {_R}/compare/{{basehead}}": Service.compare,
    f"GET {_R}/pulls": Service.pulls,
    f"GET {_R}/pulls/{{pull_number}}": Service.pull,
    f"GET {_R}/pulls/{{pull_number}}/files": Service.files,
    f"GET {_R}/commits/{{commit_sha}}/pulls": Service.pulls_of_commit,
    f"GET {_R}/issues/{{issue_number}}/labels": Service.labels,
    f"POST {_R}/issues/{{issue_number}}/labels": Service.add_labels,
    f"GET {_R}/issues/{{issue_number}}/events": Service.events,
    f"GET {_R}/issues/{{issue_number}}/comments": Service.comments,
    f"POST {_R}/issues/{{issue_number}}/comments": Service.create_comment,
    f"GET {_R}/issues/comments/{{comment_id}}": Service.comment,
    f"PATCH {_R}/issues/comments/{{comment_id}}": Service.update_comment,
    f"DELETE {_R}/issues/comments/{{comment_id}}": Service.delete_comment,
    f"POST {_R}/statuses/{{sha}}": Service.create_status,
    f"GET {_R}/commits/{{ref}}/statuses": Service.statuses,
    f"GET {_R}/commits/{{ref}}/status": Service.combined,
    f"POST {_R}/check-runs": Service.create_check,
    f"GET {_R}/check-runs/{{check_run_id}}": Service.check,
    f"PATCH {_R}/check-runs/{{check_run_id}}": Service.update_check,
    f"GET {_R}/commits/{{ref}}/check-runs": Service.checks,
}
"""What is served: GitHub's own names of its operations."""

PATHS = frozenset(name.partition(" ")[2] for name in ROUTES)
"""The paths whose description is needed."""
