"""One delivery of GitHub's: is it GitHub's, and is there something to judge in it.

The signature is over the bytes as they came. Nothing of a body is parsed before it has been verified: parsers are for
strangers' bytes too, but a stranger should get no answer from them. (github-action.md 1.13.)
"""

from __future__ import annotations

import hashlib
import hmac
import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from gate.domain.event import PullRequestEvent
from gate.domain.report import OVERRIDE_LABEL
from gate.errors import ConfigurationError
from gate.intake.event import read_event
from gate.service.store import Asked, Trigger

MAX_BODY_BYTES = 25 * 1024 * 1024
"""GitHub sends no larger payload."""
ACTIONS = ("opened", "synchronize", "reopened", "ready_for_review", "labeled", "edited")
"""What can change what there is to judge, or whether it may be run; of the edits only another base branch does."""
_PREFIX = "sha256="
_APPROVE = re.compile(r"/skill-gate\s+approve\s+([0-9a-fA-F]{40})")


@dataclass(frozen=True)
class Delivery:
    """A pull request that is to be judged now."""

    id: str
    """X-GitHub-Delivery; the same again where somebody lets GitHub deliver it again. Empty where there was none."""
    event: PullRequestEvent
    body: bytes
    """The payload as it came."""
    moved_at: float = 0.0
    """When the pull request last changed, by GitHub's clock; 0: it does not say."""
    installation: int | None = None
    """Of the App, where one gets these deliveries."""

    def asked(self) -> Asked:
        """The job that it stands for."""
        event = self.event
        return Asked(
            repository=event.repository,
            repository_id=event.repository_id,
            subject="pull:" + ":".join(map(str, self.subject)),
            trigger=Trigger.WEBHOOK,
            event_name="pull_request",
            payload=self.body,
            head_sha=event.head_sha,
            number=event.number,
            moved_at=self.moved_at,
            installation=self.installation,
            asked_by=event.actor,
        )

    @property
    def subject(self) -> tuple[int, int, str, bool, str]:
        """What two deliveries have in common that would be judged alike: a draft that becomes ready is another, and so is
        a commit that somebody put the break-glass label on, and each move to another base branch: a status is a commit's, so
        what was judged by a milder branch's policy must not stay behind."""
        event = self.event
        again = event.actor if event.action == "labeled" else ""
        if event.action == "edited":
            again = f"{event.base_ref} since {self.moved_at}"
        return event.repository_id, event.number, event.head_sha, event.draft, again


@dataclass(frozen=True)
class Approval:
    """Somebody says that one head may be run, a fork's too. Whether they may say so is asked of GitHub later."""

    id: str
    repository: str
    repository_id: int
    number: int
    head_sha: str
    login: str
    installation: int | None = None

    def asked(self) -> Asked:
        """The job that it stands for: what a maintainer starts by hand for that head."""
        inputs = {"pull-request": str(self.number), "sha": self.head_sha}
        return Asked(
            repository=self.repository,
            repository_id=self.repository_id,
            subject=f"approved:{self.repository_id}:{self.number}:{self.head_sha}:{self.login}",
            trigger=Trigger.APPROVAL,
            event_name="workflow_dispatch",
            payload=json.dumps({"inputs": inputs, "sender": {"login": self.login}}).encode(),
            head_sha=self.head_sha,
            number=self.number,
            installation=self.installation,
            approved_by=self.login,
            asked_by=self.login,
        )


@dataclass(frozen=True)
class Closed:
    """A pull request that is no more: what is judged of it may end."""

    repository_id: int
    number: int


@dataclass(frozen=True)
class Ignored:
    """GitHub's word, but nothing to judge, and why."""

    reason: str


class Signing:
    """The signature of a body while it arrives, piece by piece."""

    def __init__(self, secret: str) -> None:
        """Raises ValueError for an empty secret, with which anybody could sign."""
        if not secret:
            raise ValueError("an empty secret signs for everybody")
        self._mac = hmac.new(secret.encode("utf-8"), digestmod=hashlib.sha256)

    def update(self, piece: bytes) -> None:
        """The next piece of the body."""
        self._mac.update(piece)

    def came_out_as(self, header: str) -> bool:
        """Whether ``header`` (X-Hub-Signature-256) is the signature of the whole; takes the same time however wrong it is."""
        # As bytes: of texts, only ASCII can be compared in constant time, and a header may hold other signs.
        own = (_PREFIX + self._mac.hexdigest()).encode("ascii")
        return hmac.compare_digest(own, header.encode("utf-8", "surrogatepass"))


def read_delivery(
    headers: Mapping[str, str], body: bytes, repositories: frozenset[str]
) -> Delivery | Approval | Closed | Ignored:
    """What a delivery whose signature is right asks for. ``headers``: keys in lower case. ``repositories``: those that
    are judged, ``owner/name`` in lower case, or ``*`` for every one that the App was installed in.

    Raises ConfigurationError naming what is wrong with a payload, and the setting of the webhook where that is why.
    """
    name = headers.get("x-github-event", "")
    if name not in ("pull_request", "issue_comment"):
        return Ignored(f"the event {_short(name) or '(none)'} is none that is judged")
    kind = headers.get("content-type", "").partition(";")[0].strip().lower()
    if kind != "application/json":
        raise ConfigurationError(
            f'The payload is of the type "{_short(kind)}"; application/json was expected.',
            remedy="Choose application/json as the content type of the webhook.",
        )
    payload = _json(body)
    action = payload.get("action")
    if name == "issue_comment":
        return _comment(headers, payload, repositories)
    if action not in (*ACTIONS, "closed"):
        return Ignored(f"the action {_short(action)} changes nothing that is judged")
    changes = payload.get("changes")
    if action == "edited" and not (isinstance(changes, dict) and changes.get("base")):
        return Ignored("the action edited changes nothing that is judged, but for another base branch")
    try:
        event = read_event(name, payload, {})
    except ConfigurationError as error:  # its remedy is for people who run the Action
        raise ConfigurationError(error.message) from None
    if not isinstance(event, PullRequestEvent):  # pragma: no cover - read_event answers by the name
        return Ignored("the event is no pull request")
    if action == "labeled" and event.label.casefold() != OVERRIDE_LABEL:
        return Ignored(f"the action labeled changes nothing that is judged, but for the label {OVERRIDE_LABEL}")
    if not _is_ours(event.repository, repositories):
        return Ignored(f"the repository {event.repository} is none that this service judges")
    if action == "closed":
        return Closed(event.repository_id, event.number)
    pull: Any = payload["pull_request"]  # read_event has seen that it is an object
    return Delivery(
        headers.get("x-github-delivery", ""), event, body, _time(pull.get("updated_at")), _installation(payload)
    )


def _comment(
    headers: Mapping[str, str], payload: Mapping[str, Any], repositories: frozenset[str]
) -> Approval | Ignored:
    """A comment that says ``/skill-gate approve SHA``; anything else is none of ours."""
    issue, comment, repository, sender = (
        value if isinstance(value, dict) else {}
        for value in (payload.get(key) for key in ("issue", "comment", "repository", "sender"))
    )
    said = _APPROVE.fullmatch(str(comment.get("body", "")).strip()[:200])
    if payload.get("action") != "created" or said is None or not issue.get("pull_request"):
        return Ignored("a comment that is no new /skill-gate approve SHA on a pull request")
    number, repository_id, full_name = issue.get("number"), repository.get("id"), repository.get("full_name")
    login = sender.get("login")
    if not (isinstance(number, int) and isinstance(repository_id, int) and isinstance(login, str)):
        raise ConfigurationError("The payload of the comment lacks issue.number, repository.id or sender.login.")
    if not isinstance(full_name, str) or not _is_ours(full_name, repositories):
        return Ignored(f"the repository {_short(full_name)} is none that this service judges")
    if comment.get("author_association") not in ("OWNER", "MEMBER", "COLLABORATOR"):
        return Ignored("who wrote this comment has no part in the repository")
    delivery = headers.get("x-github-delivery", "")
    return Approval(delivery, full_name, repository_id, number, said[1].lower(), login, _installation(payload))


def _is_ours(repository: str, repositories: frozenset[str]) -> bool:
    return "*" in repositories or repository.casefold() in repositories


def _time(value: object) -> float:
    try:
        return datetime.fromisoformat(str(value)).timestamp()
    except (ValueError, OverflowError):
        return 0.0


def _installation(payload: Mapping[str, Any]) -> int | None:
    found = payload.get("installation")
    number = found.get("id") if isinstance(found, dict) else None
    return number if isinstance(number, int) else None


def _json(body: bytes) -> Mapping[str, Any]:
    try:
        value = json.loads(body)
    except (ValueError, RecursionError):
        raise ConfigurationError("The payload is no JSON.") from None
    if not isinstance(value, dict):
        raise ConfigurationError("The payload is no JSON object.")
    return value


def _short(value: object) -> str:
    text = "".join(char if char.isprintable() else "?" for char in str(value))
    return text if len(text) <= 60 else f"{text[:59]}…"
