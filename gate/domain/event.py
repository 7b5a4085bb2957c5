"""What started a job on GitHub, as values. A payload shows how things were; the Forge says how they are now."""

from __future__ import annotations

from enum import StrEnum

from gate.domain.base import Value

DEPENDABOT = "dependabot[bot]"


class PullRequestEvent(Value):
    """``pull_request``: somebody opened, pushed to, labelled … a pull request."""

    number: int
    base_ref: str
    """Branch that it is to be merged into, without ``refs/heads/``."""
    base_sha: str
    """Tip of that branch as the payload knows it; not the merge base."""
    head_sha: str
    """What is judged and where the status goes. Never GITHUB_SHA, which is the test merge."""
    head_repository: str | None
    """``owner/name``; None: the fork was deleted."""
    head_repository_id: int | None
    repository: str
    repository_id: int
    draft: bool
    author: str
    """Login; empty where the account is gone."""
    actor: str
    """Login of whoever caused this event."""
    labels: tuple[str, ...] = ()
    action: str
    """``opened``, ``synchronize``, ``closed`` …"""
    label: str = ""
    """Of ``labeled`` and ``unlabeled``: which one. Untrusted text."""
    state: str = "open"

    @property
    def is_fork(self) -> bool:
        """Whether the head is in another repository, or in one that is gone (head.repo null)."""
        return self.head_repository_id is None or self.head_repository_id != self.repository_id

    @property
    def is_dependabot(self) -> bool:
        """Whether Dependabot caused this event: GitHub then gives a token that reads and no secret, as to a fork."""
        return self.actor.casefold() == DEPENDABOT


class DispatchEvent(Value):
    """``workflow_dispatch``: somebody with write access asked for a run."""

    ref: str
    """``refs/heads/main``, ``refs/tags/v1``."""
    sha: str
    inputs: dict[str, str]
    repository: str
    default_branch: str
    """Of the repository, without ``refs/heads/``."""
    actor: str = ""

    @property
    def on_default_branch(self) -> bool:
        """Whether the workflow file that runs is the default branch's own."""
        return bool(self.default_branch) and self.ref == f"refs/heads/{self.default_branch}"


class How(StrEnum):
    """What of two commits is judged."""

    PARTED = "parted"
    """What changed since ``base`` and ``head`` parted: the merge base is the older side."""
    EXACT = "exact"
    """Everything in which ``base`` and ``head`` differ: a forced push drops commits too."""
    AUDIT = "audit"
    """Every skill of ``head``."""


class CommitsEvent(Value):
    """``push``, ``merge_group``, ``create``, ``release``, ``schedule``, ``repository_dispatch``: commits, no pull request."""

    name: str
    ref: str
    """``refs/heads/main``, ``refs/tags/v1``, for messages."""
    how: How
    head: str
    """Commit id, or a full tag name (``refs/tags/v1``) where nothing says which commit it is."""
    base: str | None = None
    """The older side. None: the default branch, where something is compared at all."""
    branch: str = ""
    """Whose tip's policy holds, without ``refs/heads/``. Empty: ``head`` is on the default branch."""
    release: bool = False
    """A tag or a release: the last word before others get it."""
    queued: bool = False
    """A merge queue waits for the status of ``head``."""
    because: str = ""
    """What is judged, in words, without a full stop."""


class HeadEvent(Value):
    """``check_run``, ``check_suite``, ``workflow_run``: about a commit of which only GitHub knows whose head it is.

    The default branch's workflow runs, with every secret; the payload names no pull request that could be relied on.
    """

    name: str
    head_sha: str
    repository: str
    repository_id: int
    head_repository_id: int | None = None
    """``workflow_run``: where the head is. None: the fork was deleted."""
    check: str = ""
    """``check_run``: the name of the check that is to run again. Untrusted text."""
    actor: str = ""
    """``workflow_run``: login of whoever caused the run that this one follows."""

    @property
    def second_stage(self) -> bool:
        """Whether this run only reports on what another was not allowed to write: it executes nothing."""
        return self.name == "workflow_run"


class OtherEvent(Value):
    """Any other event. Nothing is run for it."""

    name: str
    because: str = ""
    """Why nothing is, where the event is one that Skill Gate runs on; a sentence without a full stop."""


Event = PullRequestEvent | DispatchEvent | CommitsEvent | HeadEvent | OtherEvent
