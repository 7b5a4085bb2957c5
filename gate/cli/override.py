"""Break-glass: the label with which a maintainer lets one commit through although the gate says no (DESIGN.md 4).

What counts is the event of putting it on: it names the commit that was the head at that moment, so that the label of
yesterday's commit says nothing about today's. Who did it and with which right is asked of GitHub, never of the payload.
"""

from __future__ import annotations

from typing import Literal

from gate.domain.event import Event, PullRequestEvent
from gate.domain.findings import Finding, Level
from gate.domain.forge import Permission
from gate.domain.report import OVERRIDE_LABEL, Override
from gate.errors import ForgeError
from gate.intake.notes import short
from gate.protocols import Forge

_AGAIN = f"Take the label {OVERRIDE_LABEL} off and put it on again; the workflow must run on labeled events."


def override_of(
    event: Event, head: str, forge: Forge | None, *, workflow: str
) -> tuple[Override | None, Finding | None]:
    """What the label allows in this run, or why it allows nothing; neither where the label is not on.

    ``head``: the commit that is judged. ``workflow``: where the finding stands. Never raises for what GitHub answers: what
    cannot be checked does not count.
    """
    if not isinstance(event, PullRequestEvent):
        return None, None
    just_put_on = event.action == "labeled" and _is_it(event.label)
    if not just_put_on:
        if not any(map(_is_it, event.labels)):
            return None, None
        return None, _ignored(
            "it was put on before: it counts for one commit, in the run that putting it on starts", workflow
        )
    if event.head_sha != head:
        return None, _ignored(f"it is for commit {event.head_sha[:12]}", workflow)
    if forge is None:
        return None, _ignored("without a token nobody can be asked who put it on", workflow)
    try:
        login = forge.labelled_by(event.number, OVERRIDE_LABEL)
        if login is None:
            return None, _ignored("it is not on any more, or GitHub does not say who put it on", workflow)
        if login.casefold() != event.actor.casefold():
            return None, _ignored(f"it was put on again by {short(login, 40)} after this run began", workflow)
        permission = forge.permission_of(login)
    except ForgeError as error:
        return None, _ignored(f"GitHub could not be asked who put it on: {short(error.message, 200)}", workflow)
    if not permission.allows(Permission.MAINTAIN):
        why = f"{short(login, 40)} put it on and has the role {permission.value}; maintain or admin is needed"
        return None, _ignored(why, workflow)
    role: Literal["maintain", "admin"] = "admin" if permission is Permission.ADMIN else "maintain"
    return Override(login=login, permission=role, head_commit=head), None


def _is_it(label: str) -> bool:
    """GitHub compares labels without regard to case."""
    return label.casefold() == OVERRIDE_LABEL


def _ignored(why: str, workflow: str) -> Finding:
    return Finding(
        rule="override/ignored",
        level=Level.WARNING,
        path=workflow,
        message=f"the label {OVERRIDE_LABEL} counts for nothing here: {why}",
        remedy=_AGAIN,
    )
