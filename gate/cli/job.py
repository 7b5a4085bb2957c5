"""From an event to what this job does: what is judged, against what, how freely, and where it is reported."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal

from gate.cli.heads import Shared, pull_request_of
from gate.cli.inputs import CHECK_SUFFIX, RELEASE_STATUS, ActionInputs
from gate.domain.event import DEPENDABOT, CommitsEvent, DispatchEvent, Event, HeadEvent, How, PullRequestEvent
from gate.domain.findings import Finding, Level
from gate.domain.forge import PullRequest
from gate.domain.plan import Enforce, Mode, NotMeasuredCause
from gate.errors import ConfigurationError, ForgeError, NoCommonHistoryError, RepositoryError
from gate.intake.notes import short
from gate.protocols import Forge, Repository

UNSAFE_EVENTS = ("pull_request_target",)
FULL_CHECKOUT = "Check out the whole history: actions/checkout with fetch-depth: 0."
EVENTS = (
    "Use on: pull_request and merge_group for a check, release or push for a gate before a release, schedule or "
    "workflow_dispatch for an audit."
)
_REAL_REFUSED = {
    NotMeasuredCause.FORK: "the change comes from a fork",
    NotMeasuredCause.DEPENDABOT: "the change comes from Dependabot",
    NotMeasuredCause.DRAFT: "the pull request is a draft",
}
StaticCause = Literal[NotMeasuredCause.FORK, NotMeasuredCause.DEPENDABOT, NotMeasuredCause.DRAFT]
_STATIC: dict[NotMeasuredCause, StaticCause] = {
    NotMeasuredCause.FORK: NotMeasuredCause.FORK,
    NotMeasuredCause.DEPENDABOT: NotMeasuredCause.DEPENDABOT,
    NotMeasuredCause.DRAFT: NotMeasuredCause.DRAFT,
}


@dataclass(frozen=True)
class Target:
    """What is to be judged, as far as GitHub says; nothing has been looked for in the checkout yet."""

    head: str
    """The commit that is judged; the status goes there."""
    head_name: str
    """In words."""
    base_ref: str
    """The branch whose policy holds, without ``refs/heads/``. Empty: ``head`` is its tip."""
    base_sha: str | None = None
    """Its tip, where GitHub says so."""
    number: int | None = None
    """The pull request that is reported to."""
    may_loosen: bool = False
    """Whether inputs may say less than the policy."""
    static_only: StaticCause | None = None
    compare_with: str | None = None
    """Another branch or commit to compare with."""
    how: How = How.PARTED
    older: str | None = None
    """The older side that the event names; None: the tip of the base branch."""
    older_may_be_gone: bool = False
    """Whether a clone may do without ``older``: a forced push leaves the old commits to nobody."""
    policy_sha: str | None = None
    """Without a base branch: the commit whose policy holds; None: the head's own."""
    paths: tuple[str, ...] = ()
    """What to judge where no input says; nothing named means what changed."""
    own_inputs: tuple[str, ...] = ()
    """Inputs about what is judged (``paths``, ``base``) that are followed though none may loosen."""
    mode: Mode | None = None
    """Where neither an input nor the policy says one; None: the default of every session."""
    enforce: Enforce | None = None
    """Likewise."""
    status: str | None = None
    """Appended to the status's name; None: no status is written."""
    from_fork: bool = False
    pinned: bool = False
    """Whether somebody allowed this very head to run: the result is void once the pull request has another."""
    real_refused: str = ""
    """Why no run may reach a real MCP server, as a clause; empty: the policy decides."""

    @property
    def is_default(self) -> bool:
        """Whether the default branch itself is judged, in an audit or after a push: what others are held against later."""
        return self.number is None and not self.base_ref


@dataclass(frozen=True)
class Commits:
    """The same in the checkout, as full commit ids."""

    head: str
    base: str
    """What to compare with: the merge base of it and head, or itself where ``exact``."""
    policy_at: str
    """Whose policy holds."""
    exact: bool = False
    paths: tuple[str, ...] = ()
    """What to judge where no input says; nothing named means what changed."""
    findings: tuple[Finding, ...] = ()
    """What had to be done in another way than the event says."""


@dataclass(frozen=True)
class Nothing:
    """Nothing is to be judged, and why."""

    headline: str
    lines: tuple[str, ...] = ()
    undecided: str | None = None
    """The commit of which nothing can be said: what an earlier run said of it is taken back, its status is pending."""


def refuse_unsafe(event_name: str) -> None:
    """Raises ConfigurationError for events that run with secrets on behalf of strangers (github-action.md 1.2)."""
    if event_name in UNSAFE_EVENTS:
        raise ConfigurationError(
            f"Skill Gate runs nothing on {event_name}: that event has secrets and a token that writes, while the skills to "
            "run may be a stranger's.",
            remedy="Use on: pull_request. For a change from a fork, a maintainer starts a workflow_dispatch run with the "
            "inputs pull-request and sha.",
        )


def target_of(event: Event, inputs: ActionInputs, forge: Forge | None, say: Callable[[str], None]) -> Target | Nothing:
    """What this job is about. ``forge`` None: there is no token, so the payload is all that is known.

    Raises ForgeError and ConfigurationError where a dispatched run's pull request cannot be read.
    """
    if isinstance(event, PullRequestEvent):
        return _pull_request(event, forge, say)
    if isinstance(event, DispatchEvent):
        return _dispatch(event, inputs, forge)
    if isinstance(event, CommitsEvent):
        return _commits(event, inputs)
    if isinstance(event, HeadEvent):
        found = pull_request_of(event, forge, f"{inputs.status_context}{CHECK_SUFFIX}")
        if isinstance(found, Shared):
            return Nothing(
                f"nothing judged: {found.why}",
                ("A status counts for all of them: close all but one, then start this run again.",),
                undecided=event.head_sha,
            )
        if isinstance(found, str):
            return Nothing(f"nothing judged: {found}")
        return _of_pull(found.pull, _STATIC[found.cause] if found.cause else None)
    if event.because:
        return Nothing(f"nothing judged: {event.because}")
    return Nothing(
        f"nothing judged: the event {event.name} is not one that Skill Gate runs on",
        (EVENTS,),
    )


def _pull_request(event: PullRequestEvent, forge: Forge | None, say: Callable[[str], None]) -> Target | Nothing:
    live = _live(event, forge, say)
    if (live.state if live else event.state) != "open" or event.action == "closed":
        return Nothing("nothing judged: the pull request is closed")
    if live is not None and live.head_sha != event.head_sha:
        return Nothing(
            f"nothing judged: the pull request has a newer head than {event.head_sha[:12]}",
            ("The run of the newer head reports on it.",),
        )
    static_only: StaticCause | None = None
    if event.is_fork or (live is not None and live.from_fork):
        static_only = NotMeasuredCause.FORK
    elif event.is_dependabot:
        static_only = NotMeasuredCause.DEPENDABOT
    elif live.draft if live else event.draft:
        static_only = NotMeasuredCause.DRAFT
    return Target(
        head=event.head_sha,
        head_name=f"the head of pull request {event.number}",
        base_ref=live.base_ref if live else event.base_ref,
        base_sha=live.base_sha if live else event.base_sha,
        number=event.number,
        status="",
        static_only=static_only,
        from_fork=static_only is NotMeasuredCause.FORK,
        real_refused=_REAL_REFUSED[static_only] if static_only else _theirs(live) if live else _theirs_then(event),
    )


def _live(event: PullRequestEvent, forge: Forge | None, say: Callable[[str], None]) -> PullRequest | None:
    """The pull request as it is now: a run that is started again has the old payload. None: nobody can say."""
    if forge is None:
        return None
    try:
        return forge.pull_request(event.number)
    except ForgeError as error:
        say(f"{error.message} The event's own facts are used.")
        return None


def _of_pull(live: PullRequest, static_only: StaticCause | None, *, pinned: bool = False) -> Target:
    """The head of a pull request as GitHub knows it now."""
    return Target(
        head=live.head_sha,
        head_name=f"the head of pull request {live.number}",
        base_ref=live.base_ref,
        base_sha=live.base_sha,
        number=live.number,
        status="",
        static_only=static_only,
        from_fork=live.from_fork,
        pinned=pinned,
        own_inputs=("budget",) if pinned else (),
        real_refused=_theirs(live),
    )


def _dispatch(event: DispatchEvent, inputs: ActionInputs, forge: Forge | None) -> Target | Nothing:
    if inputs.pull_request is not None:
        return _maintainer_run(inputs.pull_request, event, inputs.sha, forge)
    on_default = event.on_default_branch
    if inputs.ref is not None:
        return _audit_of(inputs.ref, event)
    return Target(
        head=event.sha,
        head_name=event.ref,
        base_ref="" if on_default else event.default_branch,
        may_loosen=on_default,
        compare_with=inputs.base,
        how=How.AUDIT if on_default and not inputs.base else How.PARTED,
        paths=(".",) if on_default and not inputs.base else (),
        # An audit of a branch says nothing about a pull request: it may look at a part.
        own_inputs=("paths", "base", "budget"),
        mode=Mode.FULL if on_default and not inputs.base else None,
        real_refused=_of_dependabot(event.ref),
    )


def _audit_of(ref: str, event: DispatchEvent) -> Target:
    """Every skill of another branch, tag or commit, by the default branch's policy."""
    return Target(
        head=ref,
        head_name=f"what the input ref names, {short(ref, 80)}",
        base_ref=event.default_branch,
        may_loosen=event.on_default_branch,
        how=How.AUDIT,
        paths=(".",),
        own_inputs=("paths", "budget"),
        mode=Mode.FULL,
        real_refused=_of_whoever(ref),
    )


def _maintainer_run(number: int, event: DispatchEvent, sha: str | None, forge: Forge | None) -> Target | Nothing:
    """A pull request that somebody with write access wants run, a fork's too: the one head that they have looked at.

    Its base branch's policy holds, and inputs may only tighten that. Raises ConfigurationError on another branch than the
    default one, whose workflow file could say anything, and without the commit: between the look and the start the author
    can push (github-action.md section 3, 40).
    """
    if forge is None:
        raise ConfigurationError(
            f"Pull request {number} is to be judged, but there is no token to read it with.",
            remedy="Give the action its github-token input.",
        )
    if not event.on_default_branch:
        raise ConfigurationError(
            f"Pull request {number} is to be judged by the workflow of {short(event.ref, 80)}.",
            remedy=f"Start it on the default branch, {short(event.default_branch, 80)}: its workflow file is reviewed.",
        )
    if sha is None:
        raise ConfigurationError(
            f"Pull request {number} is to be judged, but not which commit of it.",
            remedy="Give the input sha: the whole id of the head that you have looked at.",
        )
    live = forge.pull_request(number)
    if live.state != "open":
        return Nothing(f"nothing judged: pull request {number} is closed")
    if live.head_sha != sha:
        raise ConfigurationError(
            f"The head of pull request {number} is {live.head_sha[:12]} now, not {sha[:12]}: nothing was run.",
            remedy="Look at the new commits, then start the run with the new head.",
        )
    # The status is the commit's: it would count for a pull request into another branch too, which brings other changes.
    others = [one.number for one in forge.pull_requests_at(sha) if one.base_ref != live.base_ref]
    if others:
        raise ConfigurationError(
            f"{sha[:12]} is also the head of pull request {', '.join(map(str, others))}, into another branch.",
            remedy="Close all but one of them, then start the run again: a status counts for all of them.",
        )
    return _of_pull(live, None, pinned=True)


def _of_dependabot(ref: str) -> str:
    return _REAL_REFUSED[NotMeasuredCause.DEPENDABOT] if ref.startswith("refs/heads/dependabot/") else ""


def _of_whoever(ref: str) -> str:
    """Of a branch or a tag by its name it is known whose it is; a commit's id or a full name may be a fork's."""
    if is_commit(ref) or (ref.startswith("refs/") and not ref.startswith("refs/tags/")):
        return "nobody can say whose the commit is that the input ref names"
    return _of_dependabot(f"refs/heads/{ref}")


def _theirs(live: PullRequest) -> str:
    """Why a pull request reaches no real server, whoever started the run: what runs is still the author's, and it can harm
    or rob such a server."""
    if live.from_fork:
        return _REAL_REFUSED[NotMeasuredCause.FORK]
    if live.author.casefold() == DEPENDABOT:
        return _REAL_REFUSED[NotMeasuredCause.DEPENDABOT]
    return _REAL_REFUSED[NotMeasuredCause.DRAFT] if live.draft else ""


def _theirs_then(event: PullRequestEvent) -> str:
    """Likewise, of what the event says."""
    return _REAL_REFUSED[NotMeasuredCause.DEPENDABOT] if event.author.casefold() == DEPENDABOT else ""


def _commits(event: CommitsEvent, inputs: ActionInputs) -> Target:
    """Commits that no pull request stands for.

    A merge queue waits for a status on the group's own commit. A tag gets one under a name of its own: on a commit that a
    pull request has too, it must not stand in for that one's. Any other push gets none, for the same reason.
    """
    own, audit = not event.branch, event.how is How.AUDIT
    return Target(
        head=event.head,
        head_name=f"what is judged: {event.because}",
        base_ref=event.branch,
        policy_sha=event.base if own else None,
        may_loosen=own,
        compare_with=inputs.base if own else None,
        how=event.how,
        older=event.base,
        older_may_be_gone=event.how is How.EXACT,
        paths=(".",) if audit and not (own and inputs.base) else (),
        own_inputs=("paths",) if event.release else (),
        mode=Mode.FULL if audit else None,
        enforce=Enforce.STRICT if event.release else None,
        status="" if event.queued else RELEASE_STATUS if event.release else None,
        real_refused="a merge queue may hold changes from forks" if event.queued else _of_dependabot(event.ref),
    )


def locate(repo: Repository, target: Target, forge: Forge | None = None) -> Commits:
    """Find everything in the checkout. Raises RepositoryError with a remedy where it is not there.

    The base branch is what was fetched of it, else the commit that GitHub names (``forge`` is asked where the event does
    not say). By its full name: a tag of the same name must not stand in for it.
    """
    extra = ""
    if target.from_fork:
        extra = f" A fork's commits come with ref: refs/pull/{target.number}/head."
    head = _resolved(repo, _names(target.head), target.head_name, extra)
    findings: list[Finding] = []
    paths = target.paths
    policy_at = head
    if target.base_ref:
        policy_at = _tip(repo, target, forge)
    elif target.policy_sha:
        policy_at = _older(repo, target, target.policy_sha, findings) or head
    base, exact = policy_at, False
    if target.compare_with:
        candidates = (f"refs/remotes/origin/{target.compare_with}", target.compare_with)
        base = _resolved(repo, candidates, "the input base")
    elif target.older:
        # The commit before a push may be gone. What left the default branch is then what changed; of that branch itself
        # nobody can say, and everything is looked at.
        older = _older(repo, target, target.older, findings)
        base, exact = (older or policy_at), older is not None and target.how is How.EXACT
        if older is None and not target.base_ref:
            paths = (".",)
    elif target.how is How.AUDIT and base != head:
        try:
            repo.merge_base(base, head)
        except NoCommonHistoryError as error:
            findings.append(
                _said(
                    Level.WARNING, "no-common-history", f"{error.message} Nothing is compared, also not the eval suites"
                )
            )
            base = head
    return Commits(head, base, policy_at, exact, paths, tuple(dict.fromkeys(findings)))


def is_commit(text: str) -> bool:
    """Whether this is a commit's whole id."""
    return len(text) in (40, 64) and all(char in "0123456789abcdef" for char in text)


def _names(head: str) -> tuple[str, ...]:
    """Full names that a short one may stand for: a branch as it was fetched, then a tag."""
    if head.startswith("refs/") or is_commit(head):
        return (head,)
    return (f"refs/remotes/origin/{head}", f"refs/tags/{head}")


def _tip(repo: Repository, target: Target, forge: Forge | None) -> str:
    what = f"the tip of the base branch {short(target.base_ref, 80)}, whose policy holds"
    fetched = f"refs/remotes/origin/{target.base_ref}"
    if target.base_sha:
        return _newer(repo, _resolved(repo, (fetched, target.base_sha), what), target.base_sha)
    if forge is None:
        return _resolved(repo, (fetched,), what)
    try:
        return repo.resolve(fetched)
    except RepositoryError as error:
        try:
            tip = forge.merge_base(target.base_ref, target.base_ref)
        except ForgeError as failed:
            raise RepositoryError(f"{error.message} {failed.message} It is {what}.", remedy=FULL_CHECKOUT) from None
        return _resolved(repo, (tip,), what)


def _newer(repo: Repository, fetched: str, named: str) -> str:
    """The newer of two tips of a branch: a checkout that is kept from job to job may hold one of an earlier job."""
    try:
        return named if repo.merge_base(fetched, named) == fetched else fetched
    except RepositoryError:
        return fetched


def _older(repo: Repository, target: Target, revision: str, findings: list[Finding]) -> str | None:
    """The older side of the event; None, and a finding, where it may be gone and is."""
    try:
        return _resolved(repo, (revision,), "what the event compares with")
    except RepositoryError as error:
        if not target.older_may_be_gone:
            raise
        instead = (
            f"what changed since {short(target.base_ref, 80)} is judged"
            if target.base_ref
            else "every skill is judged, by the policy of the head itself"
        )
        findings.append(_said(Level.WARNING, "before-gone", f"{error.message} Instead {instead}"))
        return None


def part_of_a_release(paths: Sequence[str]) -> Finding:
    """Said where the workflow of a tag names what is looked at: the rest of the release is not judged."""
    names = ", ".join(short(path, 60) for path in paths[:10])
    return Finding(
        rule="event/part",
        level=Level.NOTICE,
        path=".",
        message=f"this release was looked at in part only, as the workflow asks: {names}",
        remedy="Leave the input paths out to judge every skill of a release.",
    )


def _said(level: Level, rule: str, message: str) -> Finding:
    return Finding(rule=f"event/{rule}", level=level, path=".", message=message, remedy=FULL_CHECKOUT)


def _resolved(repo: Repository, candidates: Sequence[str], what: str, extra: str = "") -> str:
    message = ""
    for revision in candidates:
        try:
            return repo.resolve(revision)
        except RepositoryError as error:
            message = error.message
    raise RepositoryError(f"{message} It is {what}.", remedy=f"{FULL_CHECKOUT}{extra}")
