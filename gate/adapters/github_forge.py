"""GitHub behind the Forge seam, over PyGithub.

PyGithub brings authentication, sessions, Enterprise addresses and the classes of errors. Its requester is used and not its
object layer: that one asks again behind the caller's back for whatever a reply leaves out, and follows the addresses that
replies name. Every request here is one that this file names, waits no longer than it says, and its reply is read field by
field; a reply without them (a redirection that PyGithub takes for success) is an error and never a written status.
"""

from __future__ import annotations

import base64
import binascii
import email.utils
import queue
import random
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, TypeVar
from urllib.parse import quote, urlsplit

from pydantic import SecretStr

from gate.adapters.model_calls import clean, plain
from gate.domain.forge import (
    ANNOTATIONS_PER_REQUEST,
    CHANGED_FILES_CAP,
    COMMENT_CHARACTERS,
    Annotation,
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
from gate.errors import ConfigurationError, ForgeError

if TYPE_CHECKING:
    from github import Github

PUBLIC_API = "https://api.github.com"
WORKFLOW_LOGIN = "github-actions[bot]"
"""Whom the token of a workflow writes as, on Enterprise servers too."""
API_VERSION = "2022-11-28"
PAGE = 100
_MOST_PAGES = 500
_SECONDARY_WAIT_S = 60.0
"""GitHub's own advice for a secondary limit that does not say how long."""
_ACCEPT = "application/vnd.github+json"
_GRAPHQL = "graphql"
_VIEWER = "query { viewer { login } }"


T = TypeVar("T")


@dataclass(frozen=True)
class Patience:
    """How long one call of a method may take, requests and waits together, and how many failures it takes."""

    tries: int = 4
    """The last failure that is taken; each page of a list is a request, not a try."""
    total_s: float = 120.0
    request_s: float = 20.0
    """For one request, from looking up the name to the last byte."""
    first_wait_s: float = 1.0
    sleep: Callable[[float], None] = time.sleep
    jitter: Callable[[], float] = random.random
    """Between 0 and 1; half of each wait that GitHub does not prescribe is multiplied by it."""
    monotonic: Callable[[], float] = time.monotonic


BRIEF = Patience(tries=2, total_s=6.0, request_s=4.0)
"""For the end of a cancelled job: the runner kills the container after some 7 seconds."""


class GitHubForge:
    """A Forge. Thread-safe: calls from several threads are made one after the other."""

    def __init__(
        self,
        repository: str,
        token: SecretStr | None,
        *,
        api_url: str = PUBLIC_API,
        login: str | None = None,
        patience: Patience | None = None,
    ) -> None:
        """Nothing is asked yet.

        ``repository``: ``owner/name``. ``token`` None: only what is public can be read. ``api_url``: of an Enterprise
        server ``https://HOST/api/v3``. ``login``: the token's own, where the caller knows it; else GitHub is asked.
        Raises ConfigurationError for a repository or an address that is none.
        """
        owner, _, name = repository.partition("/")
        if not owner or not name or "/" in name:
            raise ConfigurationError(
                f"The repository is called {plain(repository)!r}, which is not owner/name.",
                remedy="Set GITHUB_REPOSITORY to owner/name, as the runner does.",
            )
        address = urlsplit(api_url)
        if address.scheme not in ("http", "https") or not address.hostname:
            raise ConfigurationError(
                f"The address of GitHub's API is {plain(api_url)!r}, which is no web address.",
                remedy=f"Set GITHUB_API_URL as the runner does: {PUBLIC_API}, or https://HOST/api/v3.",
            )
        self._repository = repository
        self._repo = f"/repos/{quote(owner, safe='')}/{quote(name, safe='')}"
        self._api_url = api_url.rstrip("/")
        self._token = token.get_secret_value().strip() if token is not None else ""
        self._login = login
        self._patience = patience or Patience()
        self._github: Github | None = None
        self._lock = threading.RLock()

    @classmethod
    def from_environment(
        cls, environment: Mapping[str, str], token: SecretStr | None, *, patience: Patience | None = None
    ) -> GitHubForge:
        """By GITHUB_REPOSITORY and GITHUB_API_URL, which the runner sets, on Enterprise servers too.

        Raises ConfigurationError.
        """
        return cls(
            environment.get("GITHUB_REPOSITORY", ""),
            token,
            api_url=environment.get("GITHUB_API_URL") or PUBLIC_API,
            patience=patience,
        )

    def __repr__(self) -> str:
        """Without the token."""
        return f"GitHubForge({self._repository!r}, api_url={self._api_url!r})"

    # --- the seam

    def who_am_i(self) -> str:
        """See Forge.

        A token with a user answers ``/user``; an installation's gets 403 there and is asked by GraphQL. Where that is
        closed too it is taken for the workflow's own, and the first comment that it creates corrects that.
        """
        return self._who(self._begin("find out whose token this is"))

    def pull_request(self, number: int) -> PullRequest:
        """See Forge."""
        return self._pull(self._begin(f"read pull request {number}"), number)

    def head_is(self, number: int, sha: str) -> bool:
        """See Forge."""
        return self.pull_request(number).head_sha == sha

    def pull_requests_at(self, sha: str) -> tuple[PullRequest, ...]:
        """See Forge. By the list of all open ones: asked for a commit, GitHub leaves out those from forks."""
        call = self._begin(f"find the pull request of {sha[:12]}")
        rows = self._pages(call, f"{self._repo}/pulls", key="number", more={"state": "open"})
        numbers = sorted(row["number"] for row in rows if _field(_field(row, "head"), "sha") == sha)
        found = (self._pull(call, number) for number in numbers)
        return tuple(one for one in found if one.head_sha == sha and one.state == "open")

    def changed_files(self, number: int) -> ChangedFiles:
        """See Forge. The pull request is read before and after, so that files of two heads are never taken for one."""
        call = self._begin(f"list the files of pull request {number}")
        before = self._pull(call, number)
        rows = self._pages(call, f"{self._repo}/pulls/{number}/files", key="filename", most=CHANGED_FILES_CAP)
        after = self._pull(call, number)
        files = tuple(_read(_changed_file, row) for row in rows)
        unmoved = before.head_sha == after.head_sha and before.base_sha == after.base_sha
        return ChangedFiles(
            head_sha=after.head_sha, files=files, complete=unmoved and len(files) == after.changed_files
        )

    def find_comment(self, number: int, marker: str) -> Comment | None:
        """See Forge."""
        call = self._begin(f"look for our comment on pull request {number}")
        return next(iter(self._own_comments(call, number, marker)), None)

    def upsert_comment(self, number: int, marker: str, body: str, *, head_sha: str | None = None) -> CommentWrite:
        """See Forge. A creation whose reply was lost is looked for before it is tried again."""
        text = clean(body).replace("\x00", "\ufffd")
        check_body(text, marker)
        call = self._begin(f"write our comment on pull request {number}")
        created: int | None = None
        while True:
            if head_sha is not None and self._pull(call, number).head_sha != head_sha:
                return CommentWrite(action="stale")
            own = self._own_comments(call, number, marker)
            try:
                if not own:
                    made = self._create_comment(call, number, text)
                    created = made.id
                    own = self._with_rivals(call, number, marker, made)
                return self._settle(call, own, text, created)
            except _FailedError as failed:
                # 404 on an update: somebody deleted the comment in between, so the next round creates it.
                call.wait_or_raise(failed, also=failed.status == 404 and bool(own))

    def set_status(self, sha: str, context: str, state: State, description: str, target_url: str = "") -> CommitStatus:
        """See Forge. Setting it twice says the same, so a lost reply is asked for again."""
        call = self._begin(f"set the status {context!r} of {sha[:12]}")
        body = {"state": state.value, "context": context, "description": status_description(clean(description))}
        if target_url:
            body["target_url"] = target_url
        made = _read(_status, self._ask(call, "POST", f"{self._repo}/statuses/{quote(sha, safe='')}", body))
        if made.state != state or made.context.casefold() != context.casefold():
            raise _unreadable(f"the status {made.context!r}, {made.state.value}, in place of the one that was set")
        return made

    def status_of(self, sha: str, context: str) -> CommitStatus | None:
        """See Forge."""
        call = self._begin(f"read the status {context!r} of {sha[:12]}")
        path = f"{self._repo}/commits/{quote(sha, safe='')}/status"  # holds the newest of each context
        found = [_read(_status, row) for row in self._pages(call, path, key="id", inside="statuses")]
        return next((one for one in found if one.context.casefold() == context.casefold()), None)

    def start_check(self, sha: str, name: str, details_url: str = "") -> CheckRun:
        """See Forge. Where a reply is lost a second one of the name may be made: the newest is the one that counts."""
        call = self._begin(f"begin the check {name!r} of {sha[:12]}")
        body = {"name": name, "head_sha": sha, "status": "in_progress"}
        if details_url:
            body["details_url"] = details_url
        return _read(_check_run, self._ask(call, "POST", f"{self._repo}/check-runs", body))

    def end_check(self, check_id: int, conclusion: Conclusion, output: CheckOutput) -> CheckRun:
        """See Forge. After a reply that was lost the check is asked how many annotations it has."""
        call = self._begin(f"complete the check {check_id}")
        path = f"{self._repo}/check-runs/{check_id}"
        text: dict[str, Any] = {"title": clean(output.title), "summary": clean(output.summary)}
        sent, body = 0, {"status": "completed", "conclusion": conclusion}
        while True:
            part = output.annotations[sent : sent + ANNOTATIONS_PER_REQUEST]
            try:
                made = self._once(call, "PATCH", path, {**body, "output": text | {"annotations": _annotations(part)}})
            except _FailedError as failed:
                call.wait_or_raise(failed)
                made = self._ask(call, "GET", path)
                if _read(_check_run, made).annotations < sent + len(part) or made.get("status") != "completed":
                    continue
            sent, body = sent + len(part), {}
            if sent >= len(output.annotations):
                return _read(_check_run, made)

    def check(self, check_id: int) -> CheckRun:
        """See Forge."""
        call = self._begin(f"read the check {check_id}")
        return _read(_check_run, self._ask(call, "GET", f"{self._repo}/check-runs/{check_id}"))

    def permission_of(self, user: str) -> Permission:
        """See Forge. The old field ``permission`` calls maintain write, so roles and their flags are read as well."""
        call = self._begin(f"look up the role of {user}")
        try:
            row = self._ask(call, "GET", f"{self._repo}/collaborators/{quote(user, safe='')}/permission")
        except ForgeError as error:
            if error.status == 404 and "not a user" in error.message:
                return Permission.NONE
            raise
        return _read(_permission, row)

    def labelled_by(self, number: int, label: str) -> str | None:
        """See Forge. GitHub compares labels without regard to case."""
        call = self._begin(f"find out who labelled pull request {number}")
        wanted = label.casefold()
        if wanted not in (one.casefold() for one in self._pull(call, number).labels):
            return None
        actor = None
        for row in self._pages(call, f"{self._repo}/issues/{number}/events", key="id"):
            named = row.get("label")
            if isinstance(named, dict) and str(named.get("name", "")).casefold() == wanted:
                actor = row.get("actor") if row.get("event") == "labeled" else None
        return str(actor["login"]) if isinstance(actor, dict) and actor.get("login") else None

    def merge_base(self, base: str, head: str) -> str:
        """See Forge."""
        call = self._begin(f"compare {plain(base)[:60]} with {plain(head)[:60]}")
        ends = f"{quote(base, safe='')}...{quote(head, safe='')}"
        row = self._ask(call, "GET", f"{self._repo}/compare/{ends}", query={"per_page": 1})
        return str(_field(_field(row, "merge_base_commit"), "sha"))

    def tree(self, commit: str) -> Tree:
        """See Forge."""
        call = self._begin(f"list the files of {commit[:12]}")
        row = self._ask(call, "GET", f"{self._repo}/git/trees/{quote(commit, safe='')}", query={"recursive": "1"})
        entries = [
            TreeEntry(path=str(_field(one, "path")), mode=str(_field(one, "mode")), blob=str(_field(one, "sha")))
            for one in _list(_field(row, "tree"))
            if one.get("type") != "tree"
        ]
        entries.sort(key=lambda one: one.path)
        return Tree(entries=tuple(entries), complete=_field(row, "truncated") is False)

    def blob(self, blob_id: str) -> bytes:
        """See Forge."""
        call = self._begin(f"read the file {blob_id[:12]}")
        row = self._ask(call, "GET", f"{self._repo}/git/blobs/{quote(blob_id, safe='')}")
        if _field(row, "encoding") != "base64":
            raise _unreadable("a file that is not in base64")
        try:
            data = base64.b64decode("".join(str(_field(row, "content")).split()), validate=True)
        except binascii.Error:
            raise _unreadable("a file whose base64 is damaged") from None
        if len(data) != _field(row, "size"):
            raise _unreadable("a file that is not as long as it says")
        return data

    # --- pieces of the above

    def _who(self, call: _Call) -> str:
        with self._lock:
            if self._login is None:
                self._login = self._ask_login(call)
            return self._login

    def _ask_login(self, call: _Call) -> str:
        if not self._token:
            raise ForgeError(
                "There is no GitHub token, so nothing can be written.",
                kind="permission",
                remedy="Give the action its github-token input (by default it is the workflow's own token).",
            )
        try:
            return str(_field(self._ask(call, "GET", "/user"), "login"))
        except ForgeError as error:
            if error.status != 403 or error.kind != "permission":
                raise
        try:
            data = self._ask(call, "POST", _GRAPHQL, {"query": _VIEWER}).get("data")
        except ForgeError as error:
            if error.kind not in ("permission", "not_found"):
                raise
            data = None
        viewer = data.get("viewer") if isinstance(data, dict) else None
        return _login(viewer) or WORKFLOW_LOGIN

    def _pull(self, call: _Call, number: int) -> PullRequest:
        return _read(_pull_request, self._ask(call, "GET", f"{self._repo}/pulls/{number}"))

    def _own_comments(self, call: _Call, number: int, marker: str) -> list[Comment]:
        """Ours with the marker, oldest first."""
        login = self._who(call).casefold()
        rows = self._pages(call, f"{self._repo}/issues/{number}/comments", key="id")
        found = [_read(_comment, row) for row in rows]
        return sorted(
            (one for one in found if one.author.casefold() == login and carries_marker(one.body, marker)),
            key=lambda one: one.id,
        )

    def _create_comment(self, call: _Call, number: int, text: str) -> Comment:
        made = _read(_comment, self._once(call, "POST", f"{self._repo}/issues/{number}/comments", {"body": text}))
        if made.author:
            with self._lock:
                self._login = made.author  # nothing knows better who we are
        return made

    def _with_rivals(self, call: _Call, number: int, marker: str, made: Comment) -> list[Comment]:
        """What we just created with what another job created at the same moment: both look again, and keep the oldest."""
        try:
            listed = self._own_comments(call, number, marker)
        except ForgeError:
            return [made]  # it is written; the next run clears up
        # A list may lag behind what was just written.
        return sorted({one.id: one for one in [*listed, made]}.values(), key=lambda one: one.id)

    def _settle(self, call: _Call, own: list[Comment], text: str, created: int | None) -> CommentWrite:
        """Make the oldest of our comments say ``text`` and remove the others. Raises _FailedError."""
        kept = own[0]
        for extra in own[1:]:
            self._delete_comment(call, extra.id)
        if kept.id == created:
            return CommentWrite(action="created", comment=kept)
        if kept.body == text:
            return CommentWrite(action="unchanged", comment=kept)
        row = self._once(call, "PATCH", f"{self._repo}/issues/comments/{kept.id}", {"body": text})
        return CommentWrite(action="updated", comment=_read(_comment, row))

    def _delete_comment(self, call: _Call, comment_id: int) -> None:
        """Away with one of ours that a race left; that it is gone already is as good."""
        try:
            self._ask(call, "DELETE", f"{self._repo}/issues/comments/{comment_id}")
        except ForgeError as error:
            if error.kind != "not_found":
                raise

    def _pages(
        self,
        call: _Call,
        path: str,
        *,
        key: str,
        inside: str = "",
        most: int | None = None,
        more: Mapping[str, Any] | None = None,
    ) -> list[dict[str, Any]]:
        """All rows of a list, in its order.

        The list ends where GitHub names no next page. Rows that were seen before (``key``) mean that pages are ignored
        on the way, as a redirection does it; the list would then be taken for whole, so that is an error. ``inside``:
        the field that holds the list, where the page is an object. ``more``: of the query.
        """
        rows: list[dict[str, Any]] = []
        seen: set[Any] = set()
        for page in range(1, _MOST_PAGES + 1):
            headers, data = self._reply(call, "GET", path, query={**(more or {}), "per_page": PAGE, "page": page})
            found = _list(_field(data, inside) if inside else data)
            keys = [_field(row, key) for row in found]
            if page > 1 and found and seen.issuperset(keys):
                raise _unreadable("the same page again")
            rows += [row for row, one in zip(found, keys, strict=True) if one not in seen]
            seen.update(keys)
            goes_on = 'rel="next"' in str(headers.get("link", ""))
            if not goes_on or not found or (most is not None and len(rows) >= most):
                return rows
        raise _unreadable(f"a list of more than {_MOST_PAGES} pages")

    # --- requests

    def _begin(self, doing: str) -> _Call:
        return _Call(plain(doing), self._patience, self._explain)

    def _ask(
        self, call: _Call, verb: str, path: str, body: Any = None, *, query: Mapping[str, Any] | None = None
    ) -> dict[str, Any]:
        """One object, asked for until it comes or patience ends. Raises ForgeError."""
        row = self._reply(call, verb, path, body, query=query)[1]
        if verb == "DELETE":
            return {}
        if not isinstance(row, dict):
            raise _unreadable("something else than a JSON object")
        return row

    def _once(self, call: _Call, verb: str, path: str, body: Any) -> dict[str, Any]:
        """One object, asked for once. Raises _FailedError."""
        row = self._send(call, verb, path, body, None)[1]
        if not isinstance(row, dict):
            raise _unreadable("something else than a JSON object")
        return row

    def _reply(
        self, call: _Call, verb: str, path: str, body: Any = None, *, query: Mapping[str, Any] | None = None
    ) -> tuple[Mapping[str, Any], Any]:
        while True:
            try:
                return self._send(call, verb, path, body, query)
            except _FailedError as failed:
                call.wait_or_raise(failed)

    def _send(
        self, call: _Call, verb: str, path: str, body: Any, query: Mapping[str, Any] | None
    ) -> tuple[Mapping[str, Any], Any]:
        """One request. Raises _FailedError; ForgeError where no time is left for it."""
        seconds = call.seconds_for_a_request()
        with self._lock:
            github = self._client()
            requester = github.requester
            target = requester.graphql_url if path == _GRAPHQL else path

            def ask() -> tuple[Mapping[str, Any], Any]:
                return requester.requestJsonAndCheck(
                    verb, target, parameters=dict(query or {}), headers={"Accept": _ACCEPT}, input=body
                )

            try:
                headers, data = _within(seconds, ask)
            except TimeoutError:
                self._github = None  # its connection still waits for that reply
                raise _FailedError("network", f"no complete reply in {seconds:.0f} s", again=True) from None
            except Exception as error:
                failed = _classify(error)
                if failed is None:
                    raise
                raise failed from None
            except BaseException:
                self._github = None  # a signal: what comes now to say goodbye gets a connection of its own
                raise
        if isinstance(data, dict) and set(data) <= {"message", "url", "documentation_url"} and "message" in data:
            raise _moved(data)
        return headers, data

    def _client(self) -> Github:
        if self._github is None:
            from github import Auth, Github

            self._github = Github(
                auth=Auth.Token(self._token) if self._token else None,
                base_url=self._api_url,
                timeout=max(1, int(self._patience.request_s)),
                user_agent="skill-gate",
                retry=None,
                seconds_between_requests=None,
                seconds_between_writes=None,
                api_version=API_VERSION,
            )
        return self._github

    def _explain(self, doing: str, failed: _FailedError, attempts: int) -> ForgeError:
        detail = plain(failed.detail.replace(self._token, "[token]") if self._token else failed.detail).rstrip(".")
        status = f"status {failed.status}: " if failed.status else ""
        tried = f" after {attempts} requests" if attempts > 1 else ""
        remedy = failed.remedy or _REMEDIES[failed.kind]
        return ForgeError(
            f"GitHub did not let us {doing}{tried} ({status}{detail})."
            if failed.kind in ("permission", "validation")
            else f"Could not {doing}{tried} ({status}{detail}).",
            kind=failed.kind,
            remedy=remedy,
            status=failed.status,
        )


def check_body(body: str, marker: str) -> None:
    """Refuse a comment that GitHub would refuse, or that could not be found again. Raises ForgeError (validation)."""
    if not carries_marker(body, marker):
        raise ForgeError(
            "The comment does not carry its marker on one of its first lines, so it could not be found again.",
            kind="validation",
            remedy="This is a fault of the gate: please report it.",
        )
    if len(body) > COMMENT_CHARACTERS:
        raise ForgeError(
            f"The comment has {len(body)} characters; GitHub takes {COMMENT_CHARACTERS}.",
            kind="validation",
            remedy="Read the whole report in the bundle (report.md, report.html).",
        )


# --- failures


class _FailedError(Exception):
    """One request that did not get what it asked for."""

    def __init__(
        self,
        kind: str,
        detail: str,
        *,
        status: int | None = None,
        again: bool = False,
        wait_s: float | None = None,
        remedy: str = "",
    ) -> None:
        super().__init__(detail)
        self.kind = kind
        self.detail = detail
        self.status = status
        self.again = again
        """Whether asking once more can help."""
        self.wait_s = wait_s
        """How long GitHub wants us to wait before; None: it does not say."""
        self.remedy = remedy


@dataclass
class _Call:
    """One call of a method: what it is about, and how much patience is left."""

    doing: str
    patience: Patience
    explain: Callable[[str, _FailedError, int], ForgeError]
    failures: int = 0
    started: float = field(init=False)

    def __post_init__(self) -> None:
        self.started = self.patience.monotonic()

    def left_s(self) -> float:
        """Of the whole."""
        return self.patience.total_s - (self.patience.monotonic() - self.started)

    def seconds_for_a_request(self) -> float:
        """Raises ForgeError where none are left."""
        left = self.left_s()
        if left <= 0:
            detail = f"{self.patience.total_s:.0f} s were not enough"
            raise self.explain(self.doing, _FailedError("network", detail), self.failures)
        return min(self.patience.request_s, left)

    def wait_or_raise(self, failed: _FailedError, *, also: bool = False) -> None:
        """Wait before the next try. Raises ForgeError where there is none. ``also``: a reason of the caller's own."""
        self.failures += 1
        if not (failed.again or also) or self.failures >= self.patience.tries:
            raise self.explain(self.doing, failed, self.failures)
        wait = failed.wait_s
        if wait is None:
            full = self.patience.first_wait_s * 2 ** (self.failures - 1)
            wait = full / 2 + full / 2 * self.patience.jitter()
        else:
            wait += self.patience.jitter()  # not all jobs of a workflow at the same moment
        if wait >= self.left_s():
            if failed.kind == "rate_limit":
                failed.remedy = f"GitHub asks to wait {wait:.0f} seconds: run this job again after that."
            raise self.explain(self.doing, failed, self.failures)
        self.patience.sleep(wait)


def _within(seconds: float, ask: Callable[[], Any]) -> Any:
    """The result of ``ask``; TimeoutError past the time, whatever it waits for (a name server, a byte at a time).

    The thread that still waits then is left to itself; it ends with its own time-out or with the process.
    """
    box: queue.SimpleQueue[tuple[Any, BaseException | None]] = queue.SimpleQueue()

    def work() -> None:
        try:
            box.put((ask(), None))
        except BaseException as error:  # noqa: BLE001 - handed to the caller, whatever it is
            box.put((None, error))

    threading.Thread(target=work, name="github-request", daemon=True).start()
    try:
        result, error = box.get(timeout=seconds)
    except queue.Empty:
        raise TimeoutError from None
    if error is not None:
        raise error
    return result


_REMEDIES = {
    "permission": "Check the token and the job's permissions: pull-requests: write for the comment, statuses: write for "
    "the status, checks: write for the check. Pull requests from forks and from Dependabot only get a token that reads.",
    "not_found": "Check the repository's name, and that the token may see it: GitHub calls hidden what it does not show.",
    "rate_limit": "Run this job again in some minutes.",
    "validation": "This is a fault of the gate or a limit of GitHub: please report it with this message.",
    "network": "Run this job again; if it happens always, check the address of GitHub's API and the proxy settings.",
}


def _classify(error: Exception) -> _FailedError | None:
    """PyGithub's and requests' exceptions; None for what is neither (a mistake of ours)."""
    from github.GithubException import GithubException
    from requests import exceptions

    if isinstance(error, GithubException):
        headers = {str(name).lower(): str(value) for name, value in (error.headers or {}).items()}
        return _of_status(error.status, error.data, headers)
    if isinstance(error, exceptions.SSLError):
        remedy = "Make the server's certificate known to the container (REQUESTS_CA_BUNDLE)."
        return _FailedError("network", f"its certificate is not accepted: {error}", remedy=remedy)
    if isinstance(error, exceptions.Timeout):
        return _FailedError("network", "no reply in time", again=True)
    if isinstance(error, exceptions.RequestException):
        return _FailedError("network", "the connection failed or broke", again=True)
    if isinstance(error, RuntimeError) and "redirected" in str(error):
        remedy = "Set GITHUB_API_URL to the server's present address."
        return _FailedError("network", "its address redirects elsewhere", remedy=remedy)
    if isinstance(error, ValueError):
        # A reply that begins like JSON and is none.
        return _FailedError("network", "the reply is not JSON", again=True)
    return None


def _of_status(status: int, data: Any, headers: Mapping[str, str]) -> _FailedError:
    message = data.get("message") if isinstance(data, dict) else None
    text = message if isinstance(message, str) and message else "no explanation"
    errors = data.get("errors") if isinstance(data, dict) else None
    if isinstance(errors, list) and errors:
        text += ": " + "; ".join(_error_text(one) for one in errors[:3])
    limited = status in (403, 429) and _is_rate_limit(status, text, headers)
    if limited:
        return _FailedError("rate_limit", text, status=status, again=True, wait_s=_rate_wait_s(text, headers))
    if status >= 500:
        return _FailedError("network", text, status=status, again=status != 501, wait_s=_retry_after_s(headers))
    if status in (401, 403):
        remedy = "The token is wrong, expired or withdrawn: give the action a valid one." if status == 401 else ""
        return _FailedError("permission", text, status=status, remedy=remedy)
    if status in (404, 410):
        return _FailedError("not_found", text, status=status)
    return _FailedError("validation", text, status=status)


def _error_text(error: Any) -> str:
    if isinstance(error, dict):
        named = " ".join(str(error[name]) for name in ("field", "message") if error.get(name))
        return named or str(error.get("code", ""))
    return str(error)


def _is_rate_limit(status: int, text: str, headers: Mapping[str, str]) -> bool:
    lower = text.lower()
    return (
        status == 429
        or "retry-after" in headers
        or "rate limit" in lower
        or "abuse detection" in lower
        or "wait a few minutes" in lower
    )


def _rate_wait_s(text: str, headers: Mapping[str, str]) -> float:
    """Seconds to wait: what GitHub says, else until the hour's requests are back, else a minute."""
    asked = _retry_after_s(headers)
    if asked is not None:
        return asked
    if headers.get("x-ratelimit-remaining") == "0" or text.lower().startswith("api rate limit exceeded"):
        try:
            reset = float(headers["x-ratelimit-reset"])
            # GitHub's clock against GitHub's clock: ours may be wrong.
            now = email.utils.parsedate_to_datetime(headers["date"]).timestamp() if "date" in headers else time.time()
        except (KeyError, TypeError, ValueError):
            return _SECONDARY_WAIT_S
        return max(reset - now, 0.0) + 1.0
    return _SECONDARY_WAIT_S


def _retry_after_s(headers: Mapping[str, str]) -> float | None:
    text = headers.get("retry-after")
    if not text:
        return None
    try:
        return max(float(int(text)), 0.0)
    except ValueError:
        pass
    try:
        at = email.utils.parsedate_to_datetime(text)
        return max((at - datetime.now(UTC)).total_seconds(), 0.0)
    except (TypeError, ValueError):
        return None


def _moved(data: Any) -> _FailedError:
    said = data.get("message") if isinstance(data, dict) else None
    remedy = "If the repository was renamed or moved, run the job again under its present name."
    return _FailedError("not_found", f"GitHub answered {said or 'something else'!r} instead", remedy=remedy)


def _unreadable(what: str) -> ForgeError:
    return ForgeError(
        f"GitHub sent {what}.",
        kind="network",
        remedy="Check that GITHUB_API_URL is GitHub's API and not a proxy's page; if the repository was renamed, use its "
        "present name.",
    )


# --- reading replies


def _field(row: Any, name: str) -> Any:
    if not isinstance(row, dict) or name not in row:
        raise _unreadable(f"a reply without {name!r}")
    return row[name]


def _list(data: Any) -> list[dict[str, Any]]:
    if not isinstance(data, list) or not all(isinstance(row, dict) for row in data):
        raise _unreadable("something else than a list of JSON objects")
    return data


def _read(make: Callable[[dict[str, Any]], T], row: dict[str, Any]) -> T:
    """A value from a row; ForgeError where a field is missing or is not what it should be."""
    try:
        return make(row)
    except ValueError as error:  # pydantic's own is one
        raise _unreadable(f"a reply that cannot be read ({plain(str(error))[:200]})") from None


def _login(account: Any) -> str:
    """Empty where the account is gone."""
    return str(account.get("login") or "") if isinstance(account, dict) else ""


def _pull_request(row: dict[str, Any]) -> PullRequest:
    head, base = _field(row, "head"), _field(row, "base")
    head_repository = _field(head, "repo")  # None: the fork was deleted
    return PullRequest(
        number=_field(row, "number"),
        state=_field(row, "state"),
        draft=bool(row.get("draft")),
        author=_login(row.get("user")),
        author_association=str(row.get("author_association") or "NONE"),
        head_sha=_field(head, "sha"),
        head_ref=_field(head, "ref"),
        head_repository_id=_field(head_repository, "id") if head_repository is not None else None,
        base_sha=_field(base, "sha"),
        base_ref=_field(base, "ref"),
        base_repository_id=_field(_field(base, "repo"), "id"),
        labels=tuple(str(_field(one, "name")) for one in _list(_field(row, "labels"))),
        changed_files=_field(row, "changed_files"),
    )


def _changed_file(row: dict[str, Any]) -> ChangedFile:
    return ChangedFile(
        path=_field(row, "filename"),
        status=_field(row, "status"),
        previous_path=row.get("previous_filename"),
        blob=row.get("sha"),
    )


def _comment(row: dict[str, Any]) -> Comment:
    return Comment(
        id=_field(row, "id"),
        author=_login(row.get("user")),
        body=row.get("body") or "",
        url=str(row.get("html_url") or ""),
    )


def _status(row: dict[str, Any]) -> CommitStatus:
    return CommitStatus(
        context=_field(row, "context"),
        state=State(_field(row, "state")),
        description=row.get("description") or "",
        target_url=row.get("target_url") or "",
    )


def _annotations(found: Sequence[Annotation]) -> list[dict[str, Any]]:
    return [
        {
            "path": clean(one.path),
            "start_line": one.line,
            "end_line": one.line,
            "annotation_level": one.level,
            "title": clean(one.title),
            "message": clean(one.message),
        }
        for one in found
    ]


def _check_run(row: dict[str, Any]) -> CheckRun:
    output = row.get("output")
    return CheckRun(
        id=_field(row, "id"),
        name=_field(row, "name"),
        completed=_field(row, "status") == "completed",
        conclusion=row.get("conclusion") or "",
        annotations=(output.get("annotations_count") or 0) if isinstance(output, dict) else 0,
    )


def _permission(row: dict[str, Any]) -> Permission:
    level, role = _field(row, "permission"), row.get("role_name")
    user = row.get("user")
    flags = user.get("permissions") if isinstance(user, dict) else None
    flags = flags if isinstance(flags, dict) else {}
    if level == "write" and (role == "maintain" or flags.get("maintain") is True):
        return Permission.MAINTAIN
    if level == "read" and (role == "triage" or flags.get("triage") is True):
        return Permission.TRIAGE
    return Permission(level) if level in ("admin", "write", "read") else Permission.NONE
