"""From an event to what this job does: what is judged, against what, how freely, and where it is reported."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal

from gate.cli.inputs import ActionInputs
from gate.domain.event import DispatchEvent, Event, PullRequestEvent
from gate.domain.forge import PullRequest
from gate.domain.plan import NotMeasuredCause
from gate.errors import ConfigurationError, ForgeError, RepositoryError
from gate.protocols import Forge, Repository

UNSAFE_EVENTS = ("pull_request_target", "workflow_run")
FULL_CHECKOUT = "Check out the whole history: actions/checkout with fetch-depth: 0."
StaticCause = Literal[NotMeasuredCause.FORK, NotMeasuredCause.DEPENDABOT, NotMeasuredCause.DRAFT]


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
    paths: tuple[str, ...] = ()
    """What to judge where no input says; nothing named means what changed."""
    from_fork: bool = False


@dataclass(frozen=True)
class Commits:
    """The same in the checkout, as full commit ids."""

    head: str
    base: str
    """What to compare with: the merge base of it and head."""
    policy_at: str
    """Whose policy holds."""


@dataclass(frozen=True)
class Nothing:
    """Nothing is to be judged, and why."""

    headline: str
    lines: tuple[str, ...] = ()


def refuse_unsafe(event_name: str) -> None:
    """Raises ConfigurationError for events that run with secrets on behalf of strangers (github-action.md 1.2)."""
    if event_name in UNSAFE_EVENTS:
        raise ConfigurationError(
            f"Skill Gate runs nothing on {event_name}: that event has secrets and a token that writes, while the skills to "
            "run may be a stranger's.",
            remedy="Use on: pull_request. For a change from a fork, a maintainer starts a workflow_dispatch run with the "
            "input pull-request.",
        )


def target_of(event: Event, inputs: ActionInputs, forge: Forge | None, say: Callable[[str], None]) -> Target | Nothing:
    """What this job is about. ``forge`` None: there is no token, so the payload is all that is known.

    Raises ForgeError and ConfigurationError where a dispatched run's pull request cannot be read.
    """
    if isinstance(event, PullRequestEvent):
        return _pull_request(event, forge, say)
    if isinstance(event, DispatchEvent):
        return _dispatch(event, inputs, forge)
    return Nothing(
        f"nothing judged: the event {event.name} is not one that Skill Gate runs on",
        ("Use on: pull_request for a check, workflow_dispatch for an audit.",),
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
        static_only=static_only,
        from_fork=static_only is NotMeasuredCause.FORK,
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


def _dispatch(event: DispatchEvent, inputs: ActionInputs, forge: Forge | None) -> Target | Nothing:
    if inputs.pull_request is not None:
        return _maintainer_run(inputs.pull_request, forge)
    on_default = event.on_default_branch
    return Target(
        head=event.sha,
        head_name=event.ref,
        base_ref="" if on_default else event.default_branch,
        may_loosen=on_default,
        compare_with=inputs.base,
        paths=(".",) if on_default and not inputs.base else (),
    )


def _maintainer_run(number: int, forge: Forge | None) -> Target | Nothing:
    """A pull request that somebody with write access wants run, a fork's too.

    Its base branch's policy holds, and inputs may only tighten that: a workflow can be started on any branch.
    """
    if forge is None:
        raise ConfigurationError(
            f"Pull request {number} is to be judged, but there is no token to read it with.",
            remedy="Give the action its github-token input.",
        )
    live = forge.pull_request(number)
    if live.state != "open":
        return Nothing(f"nothing judged: pull request {number} is closed")
    return Target(
        head=live.head_sha,
        head_name=f"the head of pull request {number}",
        base_ref=live.base_ref,
        base_sha=live.base_sha,
        number=number,
        from_fork=live.from_fork,
    )


def locate(repo: Repository, target: Target) -> Commits:
    """Find everything in the checkout. Raises RepositoryError with a remedy where it is not there.

    The base branch is what was fetched of it, else the commit that GitHub names. By its full name: a tag of the same name
    must not stand in for it.
    """
    extra = ""
    if target.from_fork:
        extra = f" A fork's commits come with ref: refs/pull/{target.number}/head."
    head = _resolved(repo, (target.head,), target.head_name, extra)
    policy_at = head
    if target.base_ref:
        fetched = f"refs/remotes/origin/{target.base_ref}"
        candidates = (fetched, target.base_sha) if target.base_sha else (fetched,)
        policy_at = _resolved(repo, candidates, f"the tip of the base branch {target.base_ref}, whose policy holds")
    base = policy_at
    if target.compare_with:
        candidates = (f"refs/remotes/origin/{target.compare_with}", target.compare_with)
        base = _resolved(repo, candidates, "the input base")
    return Commits(head, base, policy_at)


def _resolved(repo: Repository, candidates: Sequence[str], what: str, extra: str = "") -> str:
    message = ""
    for revision in candidates:
        try:
            return repo.resolve(revision)
        except RepositoryError as error:
            message = error.message
    raise RepositoryError(f"{message} It is {what}.", remedy=f"{FULL_CHECKOUT}{extra}")
