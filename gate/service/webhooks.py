"""One delivery of GitHub's: is it GitHub's, and is there something to judge in it.

The signature is over the bytes as they came. Nothing of a body is parsed before it has been verified: parsers are for
strangers' bytes too, but a stranger should get no answer from them. (github-action.md 1.13.)
"""

from __future__ import annotations

import hashlib
import hmac
import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from gate.domain.event import PullRequestEvent
from gate.domain.report import OVERRIDE_LABEL
from gate.errors import ConfigurationError
from gate.intake.event import read_event

MAX_BODY_BYTES = 25 * 1024 * 1024
"""GitHub sends no larger payload."""
ACTIONS = ("opened", "synchronize", "reopened", "ready_for_review", "labeled")
"""What can change what there is to judge, or whether it may be run."""
_PREFIX = "sha256="


@dataclass(frozen=True)
class Delivery:
    """A pull request that is to be judged now."""

    id: str
    """X-GitHub-Delivery; the same again where somebody lets GitHub deliver it again. Empty where there was none."""
    event: PullRequestEvent
    body: bytes
    """The payload as it came."""

    @property
    def subject(self) -> tuple[int, int, str, bool, str]:
        """What two deliveries have in common that would be judged alike: a draft that becomes ready is another, and so is
        a commit that somebody put the break-glass label on."""
        event = self.event
        labeller = event.actor if event.action == "labeled" else ""
        return event.repository_id, event.number, event.head_sha, event.draft, labeller


@dataclass(frozen=True)
class Ignored:
    """GitHub's word, but nothing to judge, and why."""

    reason: str


def signature(secret: str, body: bytes) -> str:
    """The value of X-Hub-Signature-256 for a body."""
    return _PREFIX + hmac.new(secret.encode("utf-8"), body, hashlib.sha256).hexdigest()


def is_signed(secret: str, body: bytes, header: str) -> bool:
    """Whether ``header`` (X-Hub-Signature-256) is the signature of the body; takes the same time however wrong it is.

    Raises ValueError for an empty secret, with which anybody could sign.
    """
    if not secret:
        raise ValueError("an empty secret signs for everybody")
    # As bytes: of texts, only ASCII can be compared in constant time, and a header may hold other signs.
    return hmac.compare_digest(signature(secret, body).encode("ascii"), header.encode("utf-8", "surrogatepass"))


def read_delivery(headers: Mapping[str, str], body: bytes, repositories: frozenset[str]) -> Delivery | Ignored:
    """What a delivery whose signature is right asks for. ``headers``: keys in lower case. ``repositories``: those that
    are judged, ``owner/name`` in lower case.

    Raises ConfigurationError naming what is wrong with a payload, and the setting of the webhook where that is why.
    """
    name = headers.get("x-github-event", "")
    if name != "pull_request":
        return Ignored(f"the event {_short(name) or '(none)'} is none that is judged")
    kind = headers.get("content-type", "").partition(";")[0].strip().lower()
    if kind != "application/json":
        raise ConfigurationError(
            f'The payload is of the type "{_short(kind)}"; application/json was expected.',
            remedy="Choose application/json as the content type of the webhook.",
        )
    payload = _json(body)
    action = payload.get("action")
    if action not in ACTIONS:
        return Ignored(f"the action {_short(action)} changes nothing that is judged")
    try:
        event = read_event(name, payload, {})
    except ConfigurationError as error:  # its remedy is for people who run the Action
        raise ConfigurationError(error.message) from None
    if not isinstance(event, PullRequestEvent):  # pragma: no cover - read_event answers by the name
        return Ignored("the event is no pull request")
    if action == "labeled" and event.label.casefold() != OVERRIDE_LABEL:
        return Ignored(f"the action labeled changes nothing that is judged, but for the label {OVERRIDE_LABEL}")
    if event.repository.casefold() not in repositories:
        return Ignored(f"the repository {event.repository} is none that this service judges")
    return Delivery(headers.get("x-github-delivery", ""), event, body)


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
