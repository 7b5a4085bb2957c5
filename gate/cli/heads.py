"""Which pull request a commit is the head of, where the event does not say so that it could be relied on.

``check_run``, ``check_suite`` and ``workflow_run`` start the default branch's workflow with every secret, about a commit
that may be a stranger's. GitHub is asked whose head it is; more than one pull request, or none, is nothing to report to
(github-action.md 1.1, 1.2). A ``workflow_run`` is the second stage of a pull request whose own run may only read: the head
is read as data, nothing of it is executed, and no artifact of the first stage is looked at.
"""

from __future__ import annotations

from typing import NamedTuple

from gate.domain.event import DEPENDABOT, HeadEvent
from gate.domain.forge import PullRequest
from gate.domain.plan import NotMeasuredCause
from gate.errors import ConfigurationError
from gate.intake.notes import short
from gate.protocols import Forge


class Found(NamedTuple):
    """A pull request, and whether what runs of it is static."""

    pull: PullRequest
    cause: NotMeasuredCause | None


class Shared(NamedTuple):
    """Nothing to judge, as the head is that of pull requests into several branches: a status would count for each of them."""

    why: str


def pull_request_of(event: HeadEvent, forge: Forge | None, check: str) -> Found | Shared | str:
    """The one open pull request that the event is about, or why there is nothing to judge, without a full stop.

    ``check``: the name of our own check run. Raises ConfigurationError without a token, ForgeError.
    """
    at = event.head_sha[:12]
    if event.check and event.check.casefold() != check.casefold():
        return f"the check {short(event.check, 60)} is asked for again, which is not {check}"
    if forge is None:
        raise ConfigurationError(
            f"Nobody can be asked whose head {at} is: there is no token.",
            remedy="Give the action its github-token input.",
        )
    everyone = pulls = forge.pull_requests_at(event.head_sha)
    if event.second_stage:
        pulls = tuple(pull for pull in pulls if pull.head_repository_id == event.head_repository_id)
    if not pulls:
        return f"no open pull request has the head {at} now"
    more = f"{at} is the head of more than one open pull request ({', '.join(str(pull.number) for pull in everyone)})"
    if len({pull.base_ref for pull in everyone}) > 1:
        return Shared(f"{more}, into different branches")
    # A stranger who opens a copy of a member's commit must not take that one's status back.
    if len(pulls) > 1 or any(_static(event, pull) is None for pull in everyone if pull not in pulls):
        return more
    (pull,) = pulls
    cause = _static(event, pull)
    if event.second_stage and cause is None:
        return f"the run of pull request {pull.number} itself may write, and reports"
    return Found(pull, cause)


def _static(event: HeadEvent, pull: PullRequest) -> NotMeasuredCause | None:
    if pull.from_fork:
        return NotMeasuredCause.FORK
    if DEPENDABOT in (pull.author.casefold(), event.actor.casefold()):
        return NotMeasuredCause.DEPENDABOT
    return NotMeasuredCause.DRAFT if pull.draft and not event.second_stage else None
