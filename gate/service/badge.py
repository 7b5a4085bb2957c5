"""Badges: the last result of a repository's default branch, or of one skill in it, for a README.

    GET /badge/OWNER/NAME.svg              GET /badge/OWNER/NAME.json           (Shields' endpoint badge, schema version 1)
    GET /badge/OWNER/NAME/skills/x.svg     GET /badge/OWNER/NAME/skills/x.json

A badge can be read by everybody, so there is one only for repositories that the operator named. Of all others, and of those
that do not exist, the answer is the same.
"""

from __future__ import annotations

import contextlib
import json
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from html import escape
from typing import TYPE_CHECKING, NamedTuple

from gate.domain.plan import Mode
from gate.domain.report import State, Verdict
from gate.service.store import Job, JobState, Store

if TYPE_CHECKING:
    from starlette.requests import Request
    from starlette.responses import Response
    from starlette.routing import BaseRoute

LABEL = "skill gate"
LOOKED_THROUGH = 200
_COLOURS = {State.SUCCESS: "brightgreen", State.FAILURE: "red", State.ERROR: "lightgrey", State.PENDING: "yellow"}
_OF_VERDICT = {
    Verdict.PASS: "brightgreen",
    Verdict.CONDITIONAL: "yellow",
    Verdict.INCONCLUSIVE: "yellow",
    Verdict.FAIL: "red",
    Verdict.INVALID: "red",
}
_HEX = {"brightgreen": "#1a7f37", "red": "#b42318", "yellow": "#8a5a00", "lightgrey": "#57606a"}
"""Dark enough for white letters."""
_HEADERS = {
    "Cache-Control": "public, max-age=300",
    "Content-Security-Policy": "default-src 'none'",
    "X-Content-Type-Options": "nosniff",
}
_SVG = (
    '<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="20" role="img" aria-label="{text}"><title>{text}</title>'
    '<rect width="{width}" height="20" rx="3" fill="#3b434b"/><rect x="{left}" width="{right}" height="20" rx="3" fill="{fill}"/>'
    '<rect x="{left}" width="4" height="20" fill="{fill}"/>'
    '<g fill="#fff" text-anchor="middle" font-family="Verdana,DejaVu Sans,sans-serif" font-size="11">'
    '<text x="{at_left}" y="14">{label}</text><text x="{at_right}" y="14">{message}</text></g></svg>\n'
)


class Badge(NamedTuple):
    """What a badge says."""

    message: str
    colour: str
    is_error: bool = False


@dataclass(frozen=True)
class Badges:
    """What the addresses need."""

    store: Store
    repositories: frozenset[str]
    """Whose badges everybody may read, in lower case; ``*``: all."""


def badge_routes(badges: Badges) -> list[BaseRoute]:
    """The addresses, for the service's application."""
    from starlette.responses import JSONResponse, PlainTextResponse, Response
    from starlette.routing import Route

    def show(request: Request) -> Response:
        path, _, kind = str(request.path_params["of"]).rpartition(".")
        found = _badge(badges, path) if kind in ("svg", "json") else None
        if found is None:
            return PlainTextResponse("there is no such badge\n", status_code=404, headers=_HEADERS)
        if kind == "json":
            value = {"schemaVersion": 1, "label": LABEL, "message": found.message, "color": found.colour}
            return JSONResponse({**value, "isError": found.is_error}, headers=_HEADERS)
        return Response(svg(found), media_type="image/svg+xml", headers=_HEADERS)

    return [Route("/badge/{of:path}", show, methods=["GET"])]


def _badge(badges: Badges, path: str) -> Badge | None:
    """What there is to say of ``owner/name`` or ``owner/name/path/of/skill``; None: there is no such badge."""
    owner, _, rest = path.partition("/")
    name, _, skill = rest.partition("/")
    repository = f"{owner}/{name}"
    if not owner or not name or not badges.repositories & {"*", repository.casefold()}:
        return None
    found = badges.store.jobs(repositories=[repository], states=[JobState.DONE], limit=LOOKED_THROUGH)
    # A pull request's result, and that of an audit of another branch, is none of the repository's.
    own = (job for job in found if job.number is None and _is_own(badges.store, job, part=bool(skill)))
    if not skill:
        newest = next(own, None)
        return _of_repository(newest) if newest else Badge("not judged yet", "lightgrey")
    verdict = next((job.verdicts[skill] for job in own if skill in job.verdicts), None)
    return _of_skill(verdict) if verdict is not None else Badge("not judged yet", "lightgrey")


def _is_own(store: Store, job: Job, *, part: bool) -> bool:
    """Whether a job is about the default branch as it is audited by itself: not another ref, not milder than an audit is,
    and not about some of its skills, unless a ``part`` is asked about."""
    asked = dict(job.inputs)
    if job.event_name == "workflow_dispatch":  # who asks by the API says it there
        with contextlib.suppress(LookupError, ValueError, AttributeError, TypeError):
            asked |= json.loads(store.payload(job.id)).get("inputs") or {}
    milder = asked.get("mode") not in (None, "", Mode.FULL)
    return not (asked.get("ref") or milder or (asked.get("paths") and not part))


def _of_repository(job: Job) -> Badge:
    state = State(job.gate_state) if job.gate_state in set(State) else State.ERROR
    return Badge(_counts(job.verdicts), _COLOURS[state], state is State.ERROR)


def _counts(verdicts: Mapping[str, str]) -> str:
    """The worst first, as in the bundle's own badge."""
    counts = Counter(verdicts.values())
    order = sorted(counts, key=lambda verdict: (verdict in (Verdict.PASS, Verdict.CONDITIONAL), verdict))
    return ", ".join(f"{counts[verdict]} {_words(verdict)}" for verdict in order) or "nothing to judge"


def _of_skill(verdict: str) -> Badge:
    known = Verdict(verdict) if verdict in set(Verdict) else None
    colour = _OF_VERDICT.get(known, "lightgrey") if known else "lightgrey"
    return Badge(_words(verdict), colour, known is Verdict.ERROR)


def _words(verdict: str) -> str:
    return verdict.replace("_", " ")


def svg(badge: Badge) -> str:
    """A badge as an image that asks for nothing. Holds no text of a pull request."""
    left, right = _width(LABEL), _width(badge.message)
    return _SVG.format(
        width=left + right,
        left=left,
        right=right,
        at_left=left // 2,
        at_right=left + right // 2,
        fill=_HEX[badge.colour],
        label=escape(LABEL),
        message=escape(badge.message),
        text=escape(json.dumps(f"{LABEL}: {badge.message}", ensure_ascii=False)[1:-1]),
    )


def _width(text: str) -> int:
    """Pixels with a margin, by the width of a middling letter."""
    return 7 * len(text) + 12
