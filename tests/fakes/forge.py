"""An in-memory forge for tests of whatever reports to one."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from gate.domain.forge import (
    CHANGED_FILES_CAP,
    COMMENT_CHARACTERS,
    ChangedFile,
    ChangedFiles,
    CheckOutput,
    CheckRun,
    Comment,
    CommentWrite,
    CommitStatus,
    Conclusion,
    Permission,
    PullRequest,
    Tree,
    TreeEntry,
    carries_marker,
    status_description,
)
from gate.domain.report import State
from gate.errors import ForgeError


@dataclass
class InMemoryForge:
    """A Forge of dictionaries. Tests read and change its fields; ``broken`` makes every call fail, ``reads_only`` writes."""

    login: str = "github-actions[bot]"
    pulls: dict[int, PullRequest] = field(default_factory=dict)
    files: dict[int, list[ChangedFile]] = field(default_factory=dict)
    comments: dict[int, list[Comment]] = field(default_factory=dict)
    statuses: list[tuple[str, CommitStatus]] = field(default_factory=list)
    """(commit, status), oldest first; every one is kept."""
    checks: dict[int, CheckRun] = field(default_factory=dict)
    commits: dict[str, tuple[TreeEntry, ...]] = field(default_factory=dict)
    parents: dict[str, tuple[str, ...]] = field(default_factory=dict)
    blobs: dict[str, bytes] = field(default_factory=dict)
    roles: Mapping[str, Permission] = field(default_factory=dict)
    labellers: dict[tuple[int, str], str] = field(default_factory=dict)
    reads_only: bool = False
    broken: ForgeError | None = None
    writes: int = 0
    """Things that were changed, a status that says the same again included."""
    _last_id: int = 1000

    def who_am_i(self) -> str:
        """See Forge."""
        self._check()
        return self.login

    def pull_request(self, number: int) -> PullRequest:
        """See Forge."""
        self._check()
        if number not in self.pulls:
            raise ForgeError(f"There is no pull request {number}.", kind="not_found", remedy="Check it.", status=404)
        return self.pulls[number]

    def head_is(self, number: int, sha: str) -> bool:
        """See Forge."""
        return self.pull_request(number).head_sha == sha

    def pull_requests_at(self, sha: str) -> tuple[PullRequest, ...]:
        """See Forge."""
        self._check()
        found = (self.pulls[number] for number in sorted(self.pulls))
        return tuple(one for one in found if one.head_sha == sha and one.state == "open")

    def changed_files(self, number: int) -> ChangedFiles:
        """See Forge."""
        pull = self.pull_request(number)
        listed = tuple(self.files.get(number, ())[:CHANGED_FILES_CAP])
        return ChangedFiles(head_sha=pull.head_sha, files=listed, complete=len(listed) == pull.changed_files)

    def add_comment(self, number: int, author: str, body: str) -> Comment:
        """A comment that is there already."""
        self._last_id += 1
        made = Comment(id=self._last_id, author=author, body=body, url=f"https://example.org/{self._last_id}")
        self.comments.setdefault(number, []).append(made)
        return made

    def find_comment(self, number: int, marker: str) -> Comment | None:
        """See Forge."""
        self.pull_request(number)
        return next(iter(self._own(number, marker)), None)

    def upsert_comment(self, number: int, marker: str, body: str, *, head_sha: str | None = None) -> CommentWrite:
        """See Forge."""
        if not carries_marker(body, marker) or len(body) > COMMENT_CHARACTERS:
            raise ForgeError("The comment is too long or has no marker.", kind="validation", remedy="Report it.")
        if head_sha is not None and not self.head_is(number, head_sha):
            return CommentWrite(action="stale")
        self.pull_request(number)
        own = self._own(number, marker)
        if own and own[0].body == body and len(own) == 1:
            return CommentWrite(action="unchanged", comment=own[0])
        self._check(writing=True)
        if not own:
            return CommentWrite(action="created", comment=self.add_comment(number, self.login, body))
        changed = own[0].model_copy(update={"body": body})
        kept = [one for one in self.comments[number] if one not in own[1:]]
        self.comments[number] = [changed if one.id == changed.id else one for one in kept]
        return CommentWrite(action="unchanged" if own[0].body == body else "updated", comment=changed)

    def set_status(self, sha: str, context: str, state: State, description: str, target_url: str = "") -> CommitStatus:
        """See Forge."""
        self._check(writing=True)
        if sha not in self.commits:
            raise ForgeError(f"There is no commit {sha}.", kind="validation", remedy="Check it.", status=422)
        if target_url and not target_url.startswith(("http://", "https://")):
            raise ForgeError("The address is no web address.", kind="validation", remedy="Check it.", status=422)
        made = CommitStatus(
            context=context, state=state, description=status_description(description), target_url=target_url
        )
        self.statuses.append((sha, made))
        return made

    def status_of(self, sha: str, context: str) -> CommitStatus | None:
        """See Forge."""
        self._check()
        if sha not in self.commits:
            raise ForgeError(f"There is no commit {sha}.", kind="not_found", remedy="Check it.", status=404)
        wanted = context.casefold()
        found = [one for at, one in self.statuses if at == sha and one.context.casefold() == wanted]
        return found[-1] if found else None

    def start_check(self, sha: str, name: str, details_url: str = "") -> CheckRun:
        """See Forge."""
        del details_url
        self._check(writing=True)
        if sha not in self.commits:
            raise ForgeError(f"There is no commit {sha}.", kind="validation", remedy="Check it.", status=422)
        self._last_id += 1
        self.checks[self._last_id] = CheckRun(id=self._last_id, name=name, completed=False)
        return self.checks[self._last_id]

    def end_check(self, check_id: int, conclusion: Conclusion, output: CheckOutput) -> CheckRun:
        """See Forge."""
        now = self.check(check_id)
        self._check(writing=True)
        more = {"completed": True, "conclusion": conclusion, "annotations": now.annotations + len(output.annotations)}
        self.checks[check_id] = now.model_copy(update=more)
        return self.checks[check_id]

    def check(self, check_id: int) -> CheckRun:
        """See Forge."""
        self._check()
        if check_id not in self.checks:
            raise ForgeError(f"There is no check {check_id}.", kind="not_found", remedy="Check it.", status=404)
        return self.checks[check_id]

    def permission_of(self, user: str) -> Permission:
        """See Forge."""
        self._check()
        return next((role for name, role in self.roles.items() if name.casefold() == user.casefold()), Permission.NONE)

    def labelled_by(self, number: int, label: str) -> str | None:
        """See Forge."""
        on = {one.casefold() for one in self.pull_request(number).labels}
        return self.labellers.get((number, label.casefold())) if label.casefold() in on else None

    def merge_base(self, base: str, head: str) -> str:
        """See Forge."""
        self._check()
        known = set(self._ancestors(base))
        common = next((one for one in self._ancestors(head) if one in known), None)
        if common is None:
            raise ForgeError("The commits have none in common.", kind="not_found", remedy="Check them.", status=404)
        return common

    def tree(self, commit: str) -> Tree:
        """See Forge."""
        self._check()
        if commit not in self.commits:
            raise ForgeError(f"There is no commit {commit}.", kind="not_found", remedy="Check it.", status=404)
        return Tree(entries=tuple(sorted(self.commits[commit], key=lambda one: one.path)), complete=True)

    def blob(self, blob_id: str) -> bytes:
        """See Forge."""
        self._check()
        if blob_id not in self.blobs:
            raise ForgeError(f"There is no file {blob_id}.", kind="not_found", remedy="Check it.", status=404)
        return self.blobs[blob_id]

    def _own(self, number: int, marker: str) -> list[Comment]:
        return [
            one
            for one in self.comments.get(number, ())
            if one.author.casefold() == self.login.casefold() and carries_marker(one.body, marker)
        ]

    def _ancestors(self, sha: str) -> list[str]:
        """Nearest first."""
        found: list[str] = []
        queue = [sha]
        while queue:
            one = queue.pop(0)
            if one in self.commits and one not in found:
                found.append(one)
                queue += self.parents.get(one, ())
        return found

    def _check(self, *, writing: bool = False) -> None:
        if self.broken is not None:
            raise self.broken
        if writing and self.reads_only:
            raise ForgeError(
                "Resource not accessible by integration.", kind="permission", remedy="Check the token.", status=403
            )
        self.writes += writing
