"""The JSON bodies that the fake GitHub sends: the facts by hand, whatever else GitHub's schema requires filled in."""

from __future__ import annotations

import base64
import copy
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from typing import Any
from urllib.parse import quote

from tests.github.openapi import Contract
from tests.github.world import (
    ACTIONS,
    LEGACY,
    START,
    ChangedFile,
    CheckRun,
    Comment,
    Commit,
    File,
    LabelEvent,
    Pull,
    Repository,
    Status,
    User,
    World,
    folder_ids,
)

Json = Any

FILES_IN_COMPARISON = 300
COMMITS_IN_COMPARISON = 250


class Bodies:
    """Renders the world for one server."""

    def __init__(self, world: World, contract: Contract, url: Callable[[], str]) -> None:
        """``url``: the address of the API, with the prefix of an Enterprise server."""
        self._world = world
        self._contract = contract
        self._url = url
        self._templates: dict[str, Json] = {}

    # --- accounts

    def user(self, user: User | None) -> Json:
        """An account in short; None (an account that is gone) is null."""
        if user is None:
            return None
        return self._fill("simple-user", id=user.id, login=user.login, type=user.kind, site_admin=False)

    def whole_user(self, user: User) -> Json:
        """An account as it sees itself."""
        return self._fill(
            "public-user", id=user.id, login=user.login, type=user.kind, site_admin=False, name=user.login
        )

    def app(self, slug: str | None) -> Json:
        """An App; None is null."""
        if slug is None:
            return None
        owner = self._world.user("github" if slug == ACTIONS else "app-owner")
        return self._fill(
            "integration", id=15368 if slug == ACTIONS else 4242, slug=slug, name=slug, owner=self.user(owner)
        )

    def permission(self, repository: Repository, user: User) -> Json:
        """What a user may do."""
        role = repository.role(user.login)
        name: str | None = role
        for login, (own_name, _) in repository.custom_roles.items():
            if login.casefold() == user.login.casefold():
                name = own_name
        if role is None and not repository.private:
            role = name = "read"  # anybody can read what is public
        if role is None or name is None:
            return {"permission": "none", "role_name": "", "user": None}
        rank = ("read", "triage", "write", "maintain", "admin").index(role)
        flags = dict(zip(("pull", "triage", "push", "maintain", "admin"), (rank >= i for i in range(5)), strict=True))
        who = self._fill(
            "nullable-collaborator", id=user.id, login=user.login, type=user.kind, role_name=name, permissions=flags
        )
        return {"permission": LEGACY[role], "role_name": name, "user": who}

    # --- repositories and Git

    def repository(self, repository: Repository, schema: str = "repository") -> Json:
        """A repository, by the schema that the place asks for."""
        return self._fill(
            schema,
            id=repository.id,
            name=repository.name,
            full_name=repository.full_name,
            private=repository.private,
            owner=self.user(repository.owner),
            fork=repository.fork_of is not None,
            archived=repository.archived,
            default_branch=repository.default_branch,
            url=self._of(repository),
            html_url=self._page(repository.full_name),
        )

    def commit(self, repository: Repository, commit: Commit) -> Json:
        """A commit without its files."""
        at = _time(commit.at)
        git_user = {"name": "Octo Cat", "email": "octocat@example.org", "date": at}
        root = folder_ids(commit.files)[""]
        author = self.user(self._world.user("octocat"))
        return self._fill(
            "commit",
            sha=commit.sha,
            url=f"{self._of(repository)}/commits/{commit.sha}",
            commit={
                "url": f"{self._of(repository)}/git/commits/{commit.sha}",
                "author": git_user,
                "committer": git_user,
                "message": commit.message,
                "comment_count": 0,
                "tree": {"sha": root, "url": f"{self._of(repository)}/git/trees/{root}"},
            },
            author=author,
            committer=author,
            parents=[
                {"sha": sha, "url": f"{self._of(repository)}/commits/{sha}", "html_url": self._page(sha)}
                for sha in commit.parents
            ],
        )

    def tree(self, repository: Repository, sha: str, files: Mapping[str, File], *, recursive: bool, limit: int) -> Json:
        """A folder; ``limit`` entries at most."""
        folders = {path: one for path, one in folder_ids(files).items() if path}
        rows = [
            {"path": path, "mode": file.mode, "type": "commit" if file.mode == "160000" else "blob", "sha": file.blob}
            | ({} if file.mode == "160000" else {"size": len(file.data)})
            for path, file in files.items()
        ]
        rows += [{"path": path, "mode": "040000", "type": "tree", "sha": one} for path, one in folders.items()]
        rows = sorted(
            (row for row in rows if recursive or "/" not in str(row["path"])), key=lambda row: str(row["path"])
        )
        return {
            "sha": sha,
            "url": f"{self._of(repository)}/git/trees/{sha}",
            "tree": rows[:limit],
            "truncated": len(rows) > limit,
        }

    def blob(self, repository: Repository, file: File) -> Json:
        """A file's content by id."""
        return self._fill(
            "blob",
            sha=file.blob,
            size=len(file.data),
            url=f"{self._of(repository)}/git/blobs/{file.blob}",
            encoding="base64",
            content=_base64(file.data),
        )

    def content(self, repository: Repository, path: str, file: File, ref: str) -> Json:
        """A file's content by path."""
        url = f"{self._of(repository)}/contents/{quote(path)}?ref={quote(ref)}"
        git = f"{self._of(repository)}/git/blobs/{file.blob}"
        page = self._page(f"{repository.full_name}/blob/{quote(ref)}/{quote(path)}")
        return {
            "type": "file",
            "name": path.rpartition("/")[2],
            "path": path,
            "sha": file.blob,
            "size": len(file.data),
            "encoding": "base64",
            "content": _base64(file.data),
            "url": url,
            "git_url": git,
            "html_url": page,
            "download_url": page,
            "_links": {"self": url, "git": git, "html": page},
        }

    def comparison(self, repository: Repository, base: Commit, head: Commit, common: Commit) -> Json:
        """What head has that base has not."""
        known = set(repository.ancestors(base.sha))
        ahead = [sha for sha in repository.ancestors(head.sha) if sha not in known]
        behind = len(known - set(repository.ancestors(head.sha)))
        files = repository.differences(common.sha, head.sha)[:FILES_IN_COMPARISON]
        states = {
            (False, False): "identical",
            (True, False): "ahead",
            (False, True): "behind",
            (True, True): "diverged",
        }
        page = self._page(f"{repository.full_name}/compare")
        return self._fill(
            "commit-comparison",
            url=f"{self._of(repository)}/compare/{base.sha}...{head.sha}",
            html_url=page,
            base_commit=self.commit(repository, base),
            merge_base_commit=self.commit(repository, common),
            status=states[(bool(ahead), bool(behind))],
            ahead_by=len(ahead),
            behind_by=behind,
            total_commits=len(ahead),
            commits=[
                self.commit(repository, repository.commits[sha]) for sha in reversed(ahead[-COMMITS_IN_COMPARISON:])
            ],
            files=[self.file(repository, one, head.sha) for one in files],
        )

    # --- pull requests

    def pull(self, repository: Repository, pull: Pull) -> Json:
        """A pull request, whole."""
        url = f"{self._of(repository)}/pulls/{pull.number}"
        issue = f"{self._of(repository)}/issues/{pull.number}"
        page = self._page(f"{repository.full_name}/pull/{pull.number}")
        at = _time(pull.created_at)
        links = {
            "self": url,
            "html": page,
            "issue": issue,
            "comments": f"{issue}/comments",
            "review_comments": f"{url}/comments",
            "review_comment": f"{self._of(repository)}/pulls/comments/1",
            "commits": f"{url}/commits",
            "statuses": f"{self._of(repository)}/statuses/{pull.head_sha}",
        }
        return self._fill(
            "pull-request",
            id=100_000 + pull.number,
            number=pull.number,
            url=url,
            html_url=page,
            issue_url=issue,
            comments_url=links["comments"],
            commits_url=links["commits"],
            statuses_url=links["statuses"],
            diff_url=f"{page}.diff",
            patch_url=f"{page}.patch",
            state=pull.state,
            locked=pull.locked,
            title=pull.title,
            user=self.user(pull.author),
            draft=pull.draft,
            author_association=pull.author_association,
            labels=[self._pull_label(repository, name) for name in pull.labels],
            head=self._end(repository, pull.head_repository, pull.head_ref, pull.head_sha),
            base=self._end(repository, repository, pull.base_ref, pull.base_sha),
            changed_files=len(pull.files),
            comments=len(repository.comments_of(pull.number)),
            commits=1,
            merge_commit_sha="e" * 40,
            mergeable=True,
            mergeable_state="clean",
            created_at=at,
            updated_at=at,
            _links={name: {"href": target} for name, target in links.items()},
        )

    def file(self, repository: Repository, file: ChangedFile, head: str) -> Json:
        """One changed file."""
        path = quote(file.path)
        made = {
            "sha": file.blob,
            "filename": file.path,
            "status": file.status,
            "additions": int(file.status != "removed"),
            "deletions": int(file.status == "removed"),
            "changes": 1,
            "blob_url": self._page(f"{repository.full_name}/blob/{head}/{path}"),
            "raw_url": self._page(f"{repository.full_name}/raw/{head}/{path}"),
            "contents_url": f"{self._of(repository)}/contents/{path}?ref={head}",
        }
        return made | ({"previous_filename": file.previous} if file.previous is not None else {})

    def label(self, repository: Repository, name: str) -> Json:
        """A label."""
        return self._fill("label", name=name, color="ededed", url=f"{self._of(repository)}/labels/{quote(name)}")

    def label_event(self, repository: Repository, event: LabelEvent) -> Json:
        """Somebody put a label on, or took it off."""
        return self._fill(
            "labeled-issue-event",
            id=event.id,
            url=f"{self._of(repository)}/issues/events/{event.id}",
            actor=self.user(event.actor or self._world.user("ghost")),
            event="labeled" if event.added else "unlabeled",
            created_at=_time(event.at),
            label={"name": event.label, "color": "ededed"},
            performed_via_github_app=self.app(event.app),
        )

    def comment(self, repository: Repository, comment: Comment) -> Json:
        """A comment."""
        return self._fill(
            "issue-comment",
            id=comment.id,
            body=comment.body,
            user=self.user(comment.author),
            url=f"{self._of(repository)}/issues/comments/{comment.id}",
            issue_url=f"{self._of(repository)}/issues/{comment.issue}",
            html_url=self._page(f"{repository.full_name}/pull/{comment.issue}#issuecomment-{comment.id}"),
            created_at=_time(comment.created_at),
            updated_at=_time(comment.updated_at),
            author_association="NONE",
            performed_via_github_app=self.app(comment.app),
        )

    # --- statuses and checks

    def status(self, repository: Repository, status: Status, schema: str = "status") -> Json:
        """A commit status."""
        more = {"creator": self.user(status.creator)} if schema == "status" else {}
        return self._fill(
            schema,
            id=status.id,
            url=f"{self._of(repository)}/statuses/{status.sha}",
            state=status.state,
            context=status.context,
            description=status.description,
            # One of the two schemas calls an absent address null, the other says text; GitHub sends null in both.
            target_url=status.target_url,
            created_at=_time(status.at),
            updated_at=_time(status.at),
            **more,
        )

    def combined(self, repository: Repository, sha: str, page: Sequence[Status]) -> Json:
        """The sum of a commit's statuses. ``page``: those to show."""
        newest = repository.newest_statuses(sha)
        states = {one.state for one in newest}
        state = "failure" if states & {"failure", "error"} else "success" if states == {"success"} else "pending"
        return {
            "state": state,
            "sha": sha,
            "total_count": len(newest),
            "statuses": [self.status(repository, one, "simple-commit-status") for one in page],
            "repository": self.repository(repository, "minimal-repository"),
            "commit_url": f"{self._of(repository)}/commits/{sha}",
            "url": f"{self._of(repository)}/commits/{sha}/status",
        }

    def check(self, repository: Repository, run: CheckRun) -> Json:
        """A check run."""
        url = f"{self._of(repository)}/check-runs/{run.id}"
        return self._fill(
            "check-run",
            id=run.id,
            head_sha=run.sha,
            name=run.name,
            url=url,
            html_url=self._page(f"{repository.full_name}/runs/{run.id}"),
            details_url=run.details_url,
            external_id=run.external_id,
            status=run.status,
            conclusion=run.conclusion,
            started_at=_time(run.started_at),
            completed_at=_time(run.completed_at) if run.completed_at else None,
            check_suite={"id": 1},
            app=self.app(run.app),
            output={
                "title": run.output.get("title"),
                "summary": run.output.get("summary"),
                "text": run.output.get("text"),
                "annotations_count": run.annotations,
                "annotations_url": f"{url}/annotations",
            },
        )

    def rate(self, limit: int, remaining: int, reset: int) -> Json:
        """The account of requests."""
        one = {"limit": limit, "remaining": remaining, "reset": reset, "used": limit - remaining}
        return {"resources": {"core": one, "search": dict(one)}, "rate": dict(one)}

    # --- pieces

    def _end(self, base: Repository, repository: Repository | None, ref: str, sha: str) -> Json:
        owner = repository.owner if repository else self._world.user("ghost")
        return {
            "label": f"{owner.login}:{ref}",
            "ref": ref,
            "sha": sha,
            "user": self.user(owner),
            "repo": self.repository(repository) if repository else None,
        }

    def _pull_label(self, repository: Repository, name: str) -> Json:
        return self.label(repository, name) | {"description": ""}

    def _of(self, repository: Repository) -> str:
        return f"{self._url()}/repos/{repository.full_name}"

    def _page(self, path: str) -> str:
        return f"{self._url()}/not-served/{path}"

    def _fill(self, schema: str, **facts: Json) -> Json:
        """What ``schema`` requires, harmless, under ``facts``. A fact that the schema does not know is a mistake here."""
        described = self._object(schema)
        template = self._templates.get(schema)
        if template is None:
            template = self._templates[schema] = self._harmless(described, schema)
        unknown = facts.keys() - described["properties"].keys()
        if unknown:
            raise ValueError(f"GitHub's schema {schema} has no {sorted(unknown)}")
        return copy.deepcopy(template) | facts

    def _object(self, schema: str) -> Json:
        """The schema of an object, without that it may be null."""
        described = self._contract.schemas[schema]
        if "anyOf" in described:
            described = next(one for one in described["anyOf"] if one != {"type": "null"})
        return described | {"type": "object"}

    def _harmless(self, schema: Json, name: str) -> Json:
        if "$ref" in schema:
            return self._harmless(self._contract.schemas[schema["$ref"].removeprefix("#/schemas/")], name)
        for keyword in ("anyOf", "oneOf", "allOf"):
            if keyword in schema:
                options = schema[keyword]
                return None if {"type": "null"} in options else self._harmless(options[0], name)
        kinds = schema.get("type")
        kinds = kinds if isinstance(kinds, list) else [kinds]
        if "null" in kinds:
            return None
        if "enum" in schema:
            return schema["enum"][0]
        if "object" in kinds or "properties" in schema:
            parts = schema.get("properties", {})
            return {part: self._harmless(parts.get(part, {}), part) for part in schema.get("required", [])}
        return self._harmless_scalar(kinds, schema.get("format"), name)

    def _harmless_scalar(self, kinds: Sequence[str], form: str | None, name: str) -> Json:
        if "array" in kinds:
            return []
        if "integer" in kinds or "number" in kinds:
            return 0
        if "boolean" in kinds:
            return False
        if form in ("uri", "uri-template") or name == "url" or name.endswith("_url"):
            return f"{self._url()}/not-served/{name}"  # whoever follows it asks for something that nobody knows
        if form == "date-time" or name.endswith("_at"):
            return _time(START)
        return ""


def _time(at: datetime) -> str:
    return at.strftime("%Y-%m-%dT%H:%M:%SZ")


def _base64(data: bytes) -> str:
    """As GitHub sends it: lines of 60 characters."""
    text = base64.b64encode(data).decode()
    return "".join(f"{text[start : start + 60]}\n" for start in range(0, len(text), 60))
