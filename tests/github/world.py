"""What is on the fake GitHub: accounts, repositories with real Git ids, pull requests, and what was written to them."""

from __future__ import annotations

import hashlib
import itertools
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any, Literal

Json = Any
Role = Literal["read", "triage", "write", "maintain", "admin"]
Level = Literal["read", "write"]

START = datetime(2026, 1, 31, 12, 0, 0, tzinfo=UTC)
ROLES: tuple[Role, ...] = ("read", "triage", "write", "maintain", "admin")
LEGACY = {"read": "read", "triage": "read", "write": "write", "maintain": "write", "admin": "admin"}
"""What the old field ``permission`` says of a role: it knows neither triage nor maintain."""
ACTIONS = "github-actions"


@dataclass(frozen=True)
class User:
    """An account. Apps have one too; its login ends in ``[bot]``, which no person's can."""

    id: int
    login: str
    kind: Literal["User", "Bot"] = "User"


@dataclass(frozen=True)
class Token:
    """A credential, and what it may do.

    ``actions`` is the GITHUB_TOKEN of a workflow, ``app`` an installation token of any other App, ``pat`` a classic
    personal access token, ``fine_grained`` one with permissions of its own, ``jwt`` an App's own word.
    """

    value: str
    kind: Literal["actions", "app", "pat", "fine_grained", "jwt"]
    login: str
    permissions: Mapping[str, Level] = field(default_factory=dict)
    """Of the token itself; a classic one has its user's role instead."""
    rate_limit: int = 1000

    @property
    def installation(self) -> bool:
        """Whether an App stands behind it, so that it has no user."""
        return self.kind in ("actions", "app")

    @property
    def app_slug(self) -> str:
        """The App's name in addresses."""
        return self.login.removesuffix("[bot]")


@dataclass(frozen=True)
class File:
    """A file in a commit."""

    data: bytes
    mode: str = "100644"

    @property
    def blob(self) -> str:
        """Its Git blob id; of a submodule the commit that it stands for."""
        return self.data.decode() if self.mode == "160000" else git_id("blob", self.data)


@dataclass(frozen=True)
class Commit:
    """A commit."""

    sha: str
    parents: tuple[str, ...]
    files: Mapping[str, File]
    message: str
    at: datetime


@dataclass
class Comment:
    """A comment on an issue or pull request."""

    id: int
    issue: int
    author: User | None
    body: str
    created_at: datetime
    updated_at: datetime
    app: str | None = None
    """Slug of the App through which it was written."""


@dataclass(frozen=True)
class Status:
    """A commit status; GitHub keeps every one."""

    id: int
    sha: str
    state: str
    context: str
    description: str | None
    target_url: str | None
    creator: User
    at: datetime


@dataclass
class CheckRun:
    """A check run."""

    id: int
    sha: str
    name: str
    app: str
    status: str
    conclusion: str | None
    details_url: str | None
    external_id: str
    started_at: datetime
    completed_at: datetime | None
    output: dict[str, Json]
    annotations: int = 0


@dataclass(frozen=True)
class ChangedFile:
    """A file of a pull request."""

    path: str
    status: Literal["added", "removed", "modified", "renamed", "copied", "changed", "unchanged"] = "modified"
    previous: str | None = None
    blob: str | None = "0" * 40


@dataclass(frozen=True)
class LabelEvent:
    """Somebody put a label on, or took it off."""

    id: int
    label: str
    actor: User | None
    added: bool
    at: datetime
    app: str | None = None


@dataclass
class Pull:
    """A pull request. Tests may change any field at any time."""

    number: int
    author: User
    title: str
    head_ref: str
    head_sha: str
    head_repository: Repository | None
    """None: the fork was deleted."""
    base_ref: str
    base_sha: str
    files: list[ChangedFile]
    author_association: str = "CONTRIBUTOR"
    draft: bool = False
    state: Literal["open", "closed"] = "open"
    labels: list[str] = field(default_factory=list)
    label_events: list[LabelEvent] = field(default_factory=list)
    created_at: datetime = START
    locked: bool = False


@dataclass
class Repository:
    """A repository. Forks share the commits of what they were forked from, as on GitHub."""

    world: World
    id: int
    owner: User
    name: str
    private: bool
    fork_of: Repository | None = None
    default_branch: str = "main"
    archived: bool = False
    branches: dict[str, str] = field(default_factory=dict)
    roles: dict[str, Role] = field(default_factory=dict)
    custom_roles: dict[str, tuple[str, Role]] = field(default_factory=dict)
    """login -> (name of an organisation's own role, the role that it is based on)."""
    commits: dict[str, Commit] = field(default_factory=dict)
    pulls: dict[int, Pull] = field(default_factory=dict)
    comments: dict[int, Comment] = field(default_factory=dict)
    statuses: list[Status] = field(default_factory=list)
    checks: dict[int, CheckRun] = field(default_factory=dict)
    moved_to: str | None = None
    """``owner/name`` after a renaming: the old name answers 301 for reads and 307 for writes."""

    @property
    def full_name(self) -> str:
        """``owner/name``."""
        return f"{self.owner.login}/{self.name}"

    def role(self, login: str) -> Role | None:
        """Somebody's role; None: no collaborator."""
        if login.casefold() == self.owner.login.casefold():
            return "admin"
        for name, (_, base) in self.custom_roles.items():
            if name.casefold() == login.casefold():
                return base
        return next((role for name, role in self.roles.items() if name.casefold() == login.casefold()), None)

    def add_commit(
        self,
        files: Mapping[str, bytes | str | File] | None = None,
        *,
        parents: Sequence[str] = (),
        branch: str | None = None,
        message: str = "a change",
        sha: str | None = None,
    ) -> str:
        """A commit that holds exactly ``files``. ``sha`` takes over the id of a real repository's commit."""
        held = {path: _as_file(data) for path, data in (files or {}).items()}
        if sha is None:
            lines = [f"tree {tree_id(held)}", *(f"parent {parent}" for parent in parents), "", message]
            sha = git_id("commit", f"{len(self.commits)}\n".join(lines).encode())
        self.commits[sha] = Commit(sha, tuple(parents), held, message, self.world.now())
        if branch is not None:
            self.branches[branch] = sha
        return sha

    def add_pull(
        self,
        head_sha: str,
        base_sha: str,
        *,
        number: int | None = None,
        author: User | None = None,
        head_ref: str = "topic",
        head_repository: Repository | Literal["deleted"] | None = None,
        files: Iterable[ChangedFile | str] | None = None,
        **more: Any,
    ) -> Pull:
        """A pull request; by default from a branch of this repository, with the files in which the commits differ."""
        pull = Pull(
            number=number or max(self.pulls, default=0) + 1,
            author=author or self.world.user("octocat"),
            title=more.pop("title", "Improve a skill"),
            head_ref=head_ref,
            head_sha=head_sha,
            head_repository=None if head_repository == "deleted" else head_repository or self,
            base_ref=more.pop("base_ref", self.default_branch),
            base_sha=base_sha,
            files=[],
            created_at=self.world.now(),
            **more,
        )
        if files is None:
            base = self.merge_base(base_sha, head_sha) or base_sha
            pull.files = self.differences(base, head_sha)
        else:
            pull.files = [ChangedFile(one) if isinstance(one, str) else one for one in files]
        self.pulls[pull.number] = pull
        return pull

    def add_comment(self, number: int, author: User | None, body: str, *, app: str | None = None) -> Comment:
        """A comment that is there already, or that a request makes."""
        now = self.world.now()
        made = Comment(self.world.next_id(), number, author, body, now, now, app)
        self.comments[made.id] = made
        return made

    def add_label(self, pull: Pull, label: str, by: User | None, *, app: str | None = None) -> None:
        """Somebody labels a pull request. ``by`` None: the account is gone by now."""
        pull.labels.append(label)
        pull.label_events.append(LabelEvent(self.world.next_id(), label, by, added=True, at=self.world.now(), app=app))

    def remove_label(self, pull: Pull, label: str, by: User | None) -> None:
        """Somebody takes a label off."""
        pull.labels.remove(label)
        pull.label_events.append(LabelEvent(self.world.next_id(), label, by, added=False, at=self.world.now()))

    def comments_of(self, number: int) -> list[Comment]:
        """Oldest first, as GitHub lists them."""
        return sorted((one for one in self.comments.values() if one.issue == number), key=lambda one: one.id)

    def statuses_of(self, sha: str) -> list[Status]:
        """Newest first, as GitHub lists them."""
        return [one for one in reversed(self.statuses) if one.sha == sha]

    def newest_statuses(self, sha: str) -> list[Status]:
        """The newest of each context; upper and lower case are one context."""
        seen: dict[str, Status] = {}
        for one in self.statuses_of(sha):
            seen.setdefault(one.context.casefold(), one)
        return list(seen.values())

    def resolve(self, ref: str) -> Commit | None:
        """A commit by id, unambiguous short id, branch or full ref name."""
        name = ref.removeprefix("refs/").removeprefix("heads/")
        sha = self.branches.get(name, name)
        if sha in self.commits:
            return self.commits[sha]
        short = [one for one in self.commits if len(sha) >= 7 and one.startswith(sha)]
        return self.commits[short[0]] if len(short) == 1 else None

    def ancestors(self, sha: str) -> Iterator[str]:
        """``sha`` and what came before it, nearest first."""
        queue, seen = [sha], {sha}
        while queue:
            one = queue.pop(0)
            if one not in self.commits:
                continue
            yield one
            for parent in self.commits[one].parents:
                if parent not in seen:
                    seen.add(parent)
                    queue.append(parent)

    def merge_base(self, one: str, other: str) -> str | None:
        """The nearest common ancestor; None: there is none."""
        known = set(self.ancestors(one))
        return next((sha for sha in self.ancestors(other) if sha in known), None)

    def differences(self, base: str, head: str) -> list[ChangedFile]:
        """The files in which two commits differ, sorted by path; equal content under another path is a renaming."""
        old = self.commits[base].files if base in self.commits else {}
        new = self.commits[head].files if head in self.commits else {}
        gone = {path: old[path].blob for path in sorted(old.keys() - new.keys())}
        found = []
        for path in sorted(new):
            blob = new[path].blob
            if path not in old:
                source = next((was for was, content in gone.items() if content == blob), None)
                gone.pop(source or "", None)
                found.append(ChangedFile(path, "renamed" if source else "added", source, blob))
            elif old[path].blob != blob:
                found.append(ChangedFile(path, "modified", None, blob))
            elif old[path].mode != new[path].mode:
                found.append(ChangedFile(path, "changed", None, blob))
        found += [ChangedFile(path, "removed", None, blob) for path, blob in gone.items()]
        return sorted(found, key=lambda one: one.path)


class World:
    """Everything that is on the fake GitHub. Its clock moves one second a question, so that no two things are equal."""

    def __init__(self) -> None:
        """An empty one, but for the account of the Actions App."""
        self._ids = itertools.count(1000)
        self._ticks = itertools.count()
        self.users: dict[str, User] = {}
        self.repositories: dict[str, Repository] = {}
        self.tokens: dict[str, Token] = {}
        self.remaining: dict[str, int] = {}
        self.apps: dict[str, str] = {}
        """Public keys (PEM) of Apps by their ids; each is installed wherever ``installations`` says."""
        self.installations: dict[str, int] = {}
        """By repository, in lower case."""
        self.user(f"{ACTIONS}[bot]")

    def now(self) -> datetime:
        """The next second."""
        return START + timedelta(seconds=next(self._ticks))

    def next_id(self) -> int:
        """An id that nothing else has; later things have greater ones."""
        return next(self._ids)

    def user(self, login: str) -> User:
        """An account, made if it is not there."""
        key = login.casefold()
        if key not in self.users:
            kind: Literal["User", "Bot"] = "Bot" if login.endswith("[bot]") else "User"
            self.users[key] = User(self.next_id(), login, kind)
        return self.users[key]

    def add_repository(self, full_name: str, *, private: bool = False, fork_of: Repository | None = None) -> Repository:
        """A repository."""
        owner, name = full_name.split("/")
        made = Repository(self, self.next_id(), self.user(owner), name, private, fork_of)
        if fork_of is not None:
            made.commits = fork_of.commits
        self.repositories[full_name.casefold()] = made
        return made

    def repository(self, full_name: str) -> Repository | None:
        """By name; upper and lower case are one."""
        return self.repositories.get(full_name.casefold())

    def app_of(self, word: str) -> Token | None:
        """The App that signed a JSON Web Token as GitHub wants it: RS256, its own, for ten minutes at most."""
        import jwt

        for app_id, key in self.apps.items():
            try:
                claims = jwt.decode(word, key, algorithms=["RS256"], issuer=app_id, options={"require": ["iat", "exp"]})
            except jwt.InvalidTokenError:
                continue
            if claims["exp"] - claims["iat"] <= 660:
                self.remaining.setdefault(word, 5000)
                return Token(word, "jwt", f"app-{app_id}[bot]")
        return None

    def add_token(self, token: Token) -> Token:
        """Make a credential known."""
        self.user(token.login)
        self.tokens[token.value] = token
        self.remaining[token.value] = token.rate_limit
        return token


def git_id(kind: str, data: bytes) -> str:
    """The id that Git gives to an object."""
    return hashlib.sha1(b"%s %d\x00%s" % (kind.encode(), len(data), data), usedforsecurity=False).hexdigest()


def tree_id(files: Mapping[str, File]) -> str:
    """The id that Git gives to a folder of files."""
    return folder_ids(files)[""]


def folder_ids(files: Mapping[str, File]) -> dict[str, str]:
    """folder -> its Git tree id, for every folder, the top one as ``""``."""
    entries: dict[str, dict[str, tuple[str, str]]] = {"": {}}
    for path, file in files.items():
        folder, _, name = path.rpartition("/")
        entries.setdefault(folder, {})[name] = (file.mode, file.blob)
        while folder:
            folder = folder.rpartition("/")[0]
            entries.setdefault(folder, {})
    ids: dict[str, str] = {}
    for folder in sorted(entries, key=lambda one: -one.count("/") if one else 1):
        listed = sorted(entries[folder].items(), key=lambda one: f"{one[0]}/" if one[1][0] == "40000" else one[0])
        data = b"".join(
            b"%s %s\x00%s" % (mode.encode(), name.encode(), bytes.fromhex(blob)) for name, (mode, blob) in listed
        )
        ids[folder] = git_id("tree", data)
        if folder:
            parent, _, name = folder.rpartition("/")
            entries[parent][name] = ("40000", ids[folder])
    return ids


def _as_file(data: bytes | str | File) -> File:
    return data if isinstance(data, File) else File(data.encode() if isinstance(data, str) else data)
