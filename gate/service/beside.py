"""What the service has beside webhook and API: pages, badges, figures, and work handed over by keyless repositories."""

from __future__ import annotations

import os
import secrets
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from gate.domain.report import GateReport
from gate.errors import ConfigurationError, EvidenceError, InfrastructureError
from gate.evidence.origin import Signer, new_key
from gate.evidence.pack import digest_of_stream, read_one
from gate.service.badge import Badges, badge_routes
from gate.service.evidence_view import REPORT_BYTES, Shelf
from gate.service.handover import Desk, PackedBundle, handover_routes
from gate.service.metrics import CountAnswers, Metrics, metrics_routes
from gate.service.oidc import GITHUB_ISSUER, Door, IssuerKeys, Rules
from gate.service.pages import Pages, Point, page_routes
from gate.service.run import Beside, Rooms
from gate.service.store import Job

if TYPE_CHECKING:
    from starlette.routing import BaseRoute

    from gate.domain.event import PullRequestEvent
    from gate.domain.forge import PullRequest

KEY_FILE = "signing-key.pem"


@dataclass(frozen=True)
class Wishes:
    """What whoever runs the service asked for."""

    plot: Callable[[Sequence[Point]], str]
    """Draws a skill's history."""
    look: Callable[[PullRequestEvent], PullRequest | None] = lambda event: None
    """A pull request as GitHub shows it now."""
    public_url: str = ""
    """The address that browsers and Actions use; empty: nothing can be handed over."""
    keyless: Mapping[int, int] = field(default_factory=dict)
    """Repository id -> owner id."""
    workflows: frozenset[str] = frozenset()
    issuer: str = GITHUB_ISSUER
    usd_per_month: float = 50.0
    badges: frozenset[str] = frozenset()
    metrics_token: str | None = None
    signing_key: str | None = None
    """PEM text; None: a key that is made once and kept in the data folder."""


def beside(rooms: Rooms, wishes: Wishes) -> Beside:
    """Everything, on the rooms that a service has. Raises ConfigurationError."""
    store = rooms.store

    def report_of(job: Job) -> GateReport | None:
        row = store.bundle(job.id)
        try:
            raw = read_one(rooms.bundles.get(row.key), "report.json", max_bytes=REPORT_BYTES) if row else None
            return GateReport.model_validate_json(raw) if raw is not None else None
        except (LookupError, EvidenceError, InfrastructureError, ValueError):
            return None

    metrics = Metrics(store, report_of)
    pages = Pages(
        store,
        rooms.bundles.get,
        Shelf(rooms.data / "opened"),
        wishes.plot,
        secrets.token_hex,
        secure=wishes.public_url.startswith("https://"),
    )
    routes = [
        *page_routes(pages),
        *badge_routes(Badges(store, wishes.badges)),
        *metrics_routes(metrics, wishes.metrics_token),
        *_keyless(rooms, wishes, metrics),
    ]
    return Beside(routes, metrics.webhook, lambda app: CountAnswers(app, metrics))


def _keyless(rooms: Rooms, wishes: Wishes, metrics: Metrics) -> list[BaseRoute]:
    if not wishes.keyless:
        return []
    if not wishes.public_url or not wishes.workflows:
        raise ConfigurationError(
            "Repositories may hand over work, but it is not said by which address and by which workflow.",
            remedy="Give --public-url and --keyless-workflow beside --keyless.",
        )
    store = rooms.store

    def bundle_of(job: Job) -> PackedBundle | None:
        row = store.bundle(job.id)
        if row is None:
            return None
        try:
            digest = digest_of_stream(rooms.bundles.get(row.key))
            return PackedBundle(digest, rooms.bundles.get(row.key))
        except LookupError:
            return None

    rules = Rules(wishes.public_url.rstrip("/"), wishes.keyless, wishes.workflows, issuer=wishes.issuer)
    return handover_routes(
        Desk(
            door=Door(rules, IssuerKeys(wishes.issuer), store),
            store=store,
            signer=Signer(signing_key(rooms.data, wishes.signing_key)),
            look=wishes.look,
            bundle_of=bundle_of,
            usd_per_month=wishes.usd_per_month,
            taken=rooms.works.poke,
            answered=metrics.handover,
        )
    )


def signing_key(data: Path, given: str | None) -> bytes:
    """The key that was given, else the one in the data folder, made where there is none: readable by its owner only."""
    if given:
        return given.encode()
    place = data / KEY_FILE
    data.mkdir(mode=0o700, parents=True, exist_ok=True)
    try:
        handle = os.open(place, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    except FileExistsError:
        return place.read_bytes()
    with os.fdopen(handle, "wb") as file:
        key = new_key()
        file.write(key)
        file.flush()
        os.fsync(file.fileno())
    return key
