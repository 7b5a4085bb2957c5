"""Work of repositories without keys: their Action hands it over, waits, and gets the authenticated bundle.

    POST   /handover                 the job's OIDC token, the event, a nonce → the job's id and a ticket
    GET    /handover/{job}           with the ticket → how far it is
    GET    /handover/{job}/bundle    with the ticket → the packed bundle and the service's signature over it
    DELETE /handover/{job}           with the ticket → the job ends
    GET    /.well-known/jwks.json    the public key that such signatures are checked with

The service judges and says nothing on GitHub: the Action that asked checks the answer and reports with its own token.
"""

from __future__ import annotations

import asyncio
import json
import re
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from gate.domain.event import PullRequestEvent
from gate.domain.plan import Enforce, Mode
from gate.errors import ConfigurationError, EvidenceError, ForgeError, GateError, InfrastructureError
from gate.evidence.origin import Answer, Signer
from gate.evidence.pack import MEDIA_TYPE
from gate.intake.event import read_event
from gate.intake.notes import short
from gate.service.app import TooLargeError, read_body
from gate.service.oidc import EVENT, Caller, Door, TokenError
from gate.service.store import Asked, Job, JobState, Store, TakenAs, Trigger

if TYPE_CHECKING:
    from starlette.requests import Request
    from starlette.responses import Response
    from starlette.routing import BaseRoute

    from gate.domain.forge import PullRequest

MAX_BODY_BYTES = 26 * 1024 * 1024
"""GitHub's largest payload, and what comes around it."""
BODY_SECONDS = 60.0
TICKET = "skill-gate-ticket"
TICKET_S = 24 * 3600
"""For how long one job of GitHub's may wait for an answer."""
POLL_S = 5
SIGNATURE_HEADER = "X-Skill-Gate-Signature"
_NONCE = re.compile(r"[0-9a-f]{32,64}")
_NAME = r"[\x21-\x7e]{1,200}"
_INPUTS = {
    "mode": "|".join(Mode),
    "enforce": "|".join(Enforce),
    "exit-conditional": "0|1",
    "model": _NAME,
    "judge-model": _NAME,
    "harness": _NAME,
    "image": _NAME,
}
"""Inputs that are handed over, and what they look like; what they may say the policy of the base branch decides here too."""
_SILENT = {"comment": "never", "status": "false"}
"""Whoever asked reports, with a token of the repository's own."""
_NOT_LET_IN = {
    "repository_id",
    "repository_owner_id",
    "event_name",
    "ref",
    "job_workflow_ref",
    "fork",
    "budget",
    "head",
}


@dataclass(frozen=True)
class PackedBundle:
    """A job's bundle on its way out."""

    digest: str
    """Of its manifest."""
    content: Iterator[bytes]
    """As ``gate.evidence.pack.pack`` makes it."""


@dataclass(frozen=True)
class Desk:
    """What the addresses need."""

    door: Door
    store: Store
    signer: Signer
    look: Callable[[PullRequestEvent], PullRequest | None]
    """The pull request as GitHub shows it now; None where nobody can be asked. Raises ForgeError."""
    bundle_of: Callable[[Job], PackedBundle | None]
    """The bundle of a job that is done; None: it is not kept any more."""
    usd_per_month: float
    """What a repository may spend in a calendar month where nothing else was said of it."""
    taken: Callable[[], None] = lambda: None
    """Told when a job was taken."""
    answered: Callable[[str], None] = lambda rule: None
    """Told what became of work that was handed over: ``taken``, or the rule that turned it away."""
    now: Callable[[], float] = time.time


def handover_routes(desk: Desk) -> list[BaseRoute]:
    """The addresses, for the service's application."""
    from starlette.concurrency import run_in_threadpool
    from starlette.requests import ClientDisconnect
    from starlette.responses import JSONResponse, StreamingResponse
    from starlette.routing import Route

    async def hand_over(request: Request) -> Response:
        # Who it is comes first: of a stranger no body is read.
        code, value = await run_in_threadpool(_answered, _glance, desk, _bearer(request))
        if code != 200:
            desk.answered(value["rule"])
            return JSONResponse(value, status_code=code)
        try:
            body = bytes(await asyncio.wait_for(read_body(request, MAX_BODY_BYTES), BODY_SECONDS))
        except (TimeoutError, ClientDisconnect):
            return _said(408, "body", "the body did not arrive in time")
        except TooLargeError:
            return _said(413, "body", f"at most {MAX_BODY_BYTES} bytes are taken")
        code, value = await run_in_threadpool(_answered, _take, desk, _bearer(request), body)
        desk.answered(value.get("rule", "taken"))
        return JSONResponse(value, status_code=code)

    def state(request: Request) -> Response:
        code, value = _answered(_state, desk, request)
        return JSONResponse(value, status_code=code, headers={"Cache-Control": "no-store"})

    def cancel(request: Request) -> Response:
        code, value = _answered(_cancel, desk, request)
        return JSONResponse(value, status_code=code)

    def bundle(request: Request) -> Response:
        found: list[tuple[PackedBundle, str]] = []
        code, value = _answered(_bundle, desk, request, found)
        if not found:
            return JSONResponse(value, status_code=code)
        packed, signature = found[0]
        headers = {SIGNATURE_HEADER: signature, "Cache-Control": "no-store"}
        return StreamingResponse(packed.content, media_type=MEDIA_TYPE, headers=headers)

    def keys(request: Request) -> Response:
        del request
        return JSONResponse(desk.signer.published(), headers={"Cache-Control": "max-age=300"})

    return [
        Route("/handover", hand_over, methods=["POST"]),
        Route("/handover/{job}", state, methods=["GET"]),
        Route("/handover/{job}", cancel, methods=["DELETE"]),
        Route("/handover/{job}/bundle", bundle, methods=["GET"]),
        Route("/.well-known/jwks.json", keys, methods=["GET"]),
    ]


Said = tuple[int, dict[str, Any]]


def _answered(what: Callable[..., Said], *given: Any) -> Said:
    """The answer, or the error as one."""
    try:
        return what(*given)
    except TokenError as error:
        return _words(403 if error.rule in _NOT_LET_IN else 401, error.rule, str(error))
    except ConfigurationError as error:
        return _words(400, "request", error.message)
    except (InfrastructureError, EvidenceError) as error:
        return _words(503, "service", error.message)
    except GateError as error:
        return _words(500, "service", error.message)


def _glance(desk: Desk, token: str) -> Said:
    desk.door.glance(token)
    return 200, {}


def _take(desk: Desk, token: str, body: bytes) -> Said:
    caller = desk.door.admit(token)
    payload, nonce, inputs = _work(body)
    event = _event(payload, caller)
    live = _now_on_github(desk, event)
    if live is not None:  # whose policy holds is for GitHub to say
        payload = _by_base(payload, live)
    _within_budget(desk, caller)
    base = live.base_sha if live is not None else event.base_sha
    said = json.dumps(inputs, sort_keys=True, separators=(",", ":"))
    draft = live.draft if live is not None else event.draft
    taken = desk.store.take(
        Asked(
            repository=event.repository,
            repository_id=caller.repository_id,
            # The base's tip too: a job that is run again after the policy changed is judged by the new one.
            subject=f"action:{caller.repository_id}:{event.number}:{event.head_sha}:{base}:{int(draft)}:{said}",
            trigger=Trigger.ACTION,
            event_name=EVENT,
            payload=json.dumps(payload, separators=(",", ":")).encode(),
            head_sha=event.head_sha,
            number=event.number,
            inputs={**inputs, **_SILENT},
            asked_by=f"run {caller.run_id}",
        )
    )
    if taken.job is None:
        reason = "too much work waits" if taken.result is TakenAs.FULL else "the pull request has a newer head"
        return _words(503 if taken.result is TakenAs.FULL else 409, "queue", f"{reason}; ask again later")
    desk.taken()
    ticket = desk.signer.stamp(
        {
            "sub": taken.job,
            "repository_id": caller.repository_id,
            "number": event.number,
            "head_sha": event.head_sha,
            "nonce": nonce,
            "exp": int(desk.now()) + TICKET_S,
        },
        TICKET,
    )
    return 202, {"job": taken.job, "ticket": ticket, "poll_seconds": POLL_S}


def _work(body: bytes) -> tuple[dict[str, Any], str, dict[str, str]]:
    """(payload, nonce, inputs). Raises ConfigurationError."""
    try:
        value = json.loads(body)
    except (ValueError, RecursionError):
        value = None
    if not isinstance(value, dict) or not isinstance(value.get("event"), dict):
        raise ConfigurationError("The body is no JSON object with an event in it.")
    nonce, asked = value.get("nonce"), value.get("inputs", {})
    if not isinstance(nonce, str) or not _NONCE.fullmatch(nonce):
        raise ConfigurationError("The nonce is missing; 32 to 64 hex digits were expected.")
    if not isinstance(asked, dict):
        raise ConfigurationError("The inputs are no object.")
    for name, text in asked.items():
        if name not in _INPUTS or not isinstance(text, str) or not re.fullmatch(_INPUTS[name], text):
            raise ConfigurationError(f'The input {short(name, 40)} "{short(text, 40)}" cannot be handed over.')
    return value["event"], nonce, asked


def _event(payload: Mapping[str, Any], caller: Caller) -> PullRequestEvent:
    """The event, where it is the one that the job runs for. Raises TokenError and ConfigurationError.

    GitHub signs the token and not the payload: what both say must be the same.
    """
    try:
        event = read_event(EVENT, payload, {})
    except ConfigurationError as error:
        raise ConfigurationError(error.message) from None  # its remedy is for people who run the Action
    if not isinstance(event, PullRequestEvent):  # pragma: no cover - read_event answers by the name
        raise ConfigurationError("The event is no pull request.")
    if event.repository_id != caller.repository_id or event.repository.casefold() != caller.repository.casefold():
        raise TokenError("repository_id", "The event is one of another repository than the token.")
    if event.number != caller.number:
        raise TokenError("ref", f"The event is about pull request {event.number}, the token about {caller.number}.")
    if event.is_fork:
        raise TokenError("fork", "The change comes from a fork; its work cannot be handed over.")
    return event


def _now_on_github(desk: Desk, event: PullRequestEvent) -> PullRequest | None:
    """The pull request as it is now: of a payload nobody knows who wrote it. Raises TokenError, InfrastructureError."""
    try:
        live = desk.look(event)
    except ForgeError as error:
        raise InfrastructureError(f"GitHub could not be asked about the pull request: {error.message}") from None
    if live is None:
        return None
    if live.from_fork:
        raise TokenError("fork", "The change comes from a fork; its work cannot be handed over.")
    if live.state != "open":
        raise TokenError("head", "The pull request is closed.")
    if live.head_sha != event.head_sha:
        raise TokenError("head", f"The head of the pull request is not {event.head_sha[:12]} any more.")
    return live


def _by_base(payload: dict[str, Any], live: PullRequest) -> dict[str, Any]:
    """The payload with the base branch that the pull request has now."""
    pull = payload["pull_request"]  # read_event has seen both
    base = {**pull["base"], "ref": live.base_ref, "sha": live.base_sha}
    return {**payload, "pull_request": {**pull, "base": base}}


def _within_budget(desk: Desk, caller: Caller) -> None:
    budget = desk.store.budget(caller.repository_id)
    limit = desk.usd_per_month if budget.limit_usd is None else budget.limit_usd
    if budget.spent_usd >= limit:
        raise TokenError(
            "budget",
            f"The repository has spent its budget of {limit:g} $ in {budget.month}.",
            remedy="Whoever runs the service can raise it.",
        )


def _ticketed(desk: Desk, request: Request) -> tuple[Job, dict[str, Any]]:
    """The job that the ticket is for. Raises TokenError: the same words for a job that is another's and for none."""
    name = str(request.path_params["job"])
    try:
        claims = desk.signer.opened(_bearer(request), TICKET)
    except EvidenceError:
        raise TokenError("ticket", "The ticket is none of this service's, or its time is over.") from None
    job = desk.store.job(name) if claims.get("sub") == name else None
    if job is None:
        raise TokenError("ticket", "The ticket is not for this job.")
    return job, claims


def _state(desk: Desk, request: Request) -> Said:
    job, _ = _ticketed(desk, request)
    return 200, {
        "job": job.id,
        "state": job.state.value,
        "ended": job.state.ended,
        "reason": job.reason,
        "headline": job.headline,
        "parts": job.shards,
        "parts_done": job.shards_done,
    }


def _cancel(desk: Desk, request: Request) -> Said:
    job, _ = _ticketed(desk, request)
    desk.store.ask_to_cancel(job.id, "the Action that asked was cancelled")
    return 202, {"job": job.id}


def _bundle(desk: Desk, request: Request, found: list[tuple[PackedBundle, str]]) -> Said:
    job, claims = _ticketed(desk, request)
    if job.state is not JobState.DONE:
        return _words(409, "state", f"there is no bundle: the job is {job.state.value}")
    packed = desk.bundle_of(job)
    if packed is None:
        return _words(410, "state", "the bundle is not kept any more")
    answer = Answer(
        repository_id=claims["repository_id"],
        number=claims["number"],
        head_sha=claims["head_sha"],
        nonce=claims["nonce"],
        digest=packed.digest,
    )
    found.append((packed, desk.signer.sign(answer)))
    return 200, {}


def _bearer(request: Request) -> str:
    kind, _, token = request.headers.get("authorization", "").partition(" ")
    return token.strip() if kind.casefold() == "bearer" else ""


def _words(code: int, rule: str, reason: str) -> Said:
    return code, {"result": "refused", "rule": rule, "reason": reason}


def _said(code: int, rule: str, reason: str) -> Response:
    from starlette.responses import JSONResponse

    return JSONResponse(_words(code, rule, reason)[1], status_code=code)
