"""The service's addresses: GitHub's webhook, health and readiness, and whatever else is mounted beside them."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING

from sqlalchemy.exc import OperationalError

from gate.errors import ConfigurationError
from gate.service.store import JobState, Store, TakenAs
from gate.service.webhooks import MAX_BODY_BYTES, Closed, Ignored, is_signed, read_delivery

if TYPE_CHECKING:
    from starlette.applications import Starlette
    from starlette.requests import Request
    from starlette.responses import JSONResponse
    from starlette.routing import BaseRoute

BODY_SECONDS = 20.0
"""For a whole body to arrive; GitHub itself gives up after ten seconds."""
QUEUE_LENGTH = 10_000
"""Jobs that may wait."""
_TRIES, _PAUSE_S = 3, 0.3
_SAID = {
    TakenAs.QUEUED: (202, "queued", "will be judged"),
    TakenAs.DUPLICATE: (202, "duplicate", "this delivery, or this head, has been taken before"),
    TakenAs.STALE: (202, "stale", "the pull request has a newer head"),
    TakenAs.FULL: (503, "full", "too many deliveries wait; let GitHub deliver this one again later"),
}


class TooLargeError(Exception):
    """A body beyond what is taken."""


def make_app(
    *,
    secret: str,
    repositories: frozenset[str],
    store: Store,
    taken: Callable[[], None] = lambda: None,
    alive: Callable[[], bool] = lambda: True,
    stopping: Callable[[], bool] = lambda: False,
    more: Sequence[BaseRoute] = (),
    queue_length: int = QUEUE_LENGTH,
    told: Callable[[str], None] = lambda result: None,
    broke: Callable[[str, Exception], None] = lambda path, error: None,
) -> Starlette:
    """The application: ``POST /webhooks/github``, ``GET /healthz``, ``GET /readyz`` and ``more``.

    ``told``: hears what became of each delivery. ``repositories``: in lower case; ``*``: all. ``taken``: told when there is
    a new job. ``alive``: whether jobs go on. ``broke``: hears of an address that failed unforeseen, and why. Raises ConfigurationError for an empty secret.
    """
    from starlette.applications import Starlette
    from starlette.concurrency import run_in_threadpool
    from starlette.requests import ClientDisconnect
    from starlette.responses import JSONResponse
    from starlette.routing import Route

    if not secret:
        raise ConfigurationError("The webhook has no secret.", remedy="Set SKILL_GATE_WEBHOOK_SECRET.")

    def said(code: int, result: str, reason: str) -> JSONResponse:
        told(result)
        return JSONResponse({"result": result, "reason": reason}, status_code=code)

    def take(request: Request, body: bytes) -> JSONResponse:
        answer = _take(store, request.headers, body, repositories, queue_length)
        if answer[1] == "queued":
            taken()
        return said(*answer)

    async def webhook(request: Request) -> JSONResponse:
        try:
            body = await asyncio.wait_for(read_body(request, MAX_BODY_BYTES), BODY_SECONDS)
        except TooLargeError:
            return said(413, "refused", f"a payload has at most {MAX_BODY_BYTES} bytes")
        except (TimeoutError, ClientDisconnect):
            return said(408, "refused", "the body did not arrive in time")
        if not is_signed(secret, body, request.headers.get("x-hub-signature-256", "")):
            return said(401, "refused", "X-Hub-Signature-256 is not the signature of this body with our secret")
        if stopping():
            return said(503, "stopping", "the service is stopping; let GitHub deliver this one again later")
        return await run_in_threadpool(take, request, body)

    def healthz(request: Request) -> JSONResponse:
        """Whether this process works: what a supervisor restarts it by."""
        del request
        facts = _health(store, alive=alive())
        return JSONResponse(facts, status_code=200 if facts["status"] == "ok" else 503)

    def readyz(request: Request) -> JSONResponse:
        """Whether requests should be sent here: the database answers and nothing is being shut down."""
        del request
        why = "stopping" if stopping() else "" if store.ready() else "the database does not answer"
        return JSONResponse({"status": why or "ready"}, status_code=503 if why else 200)

    return Starlette(
        exception_handlers={Exception: partial(_failed, broke)},
        routes=[
            Route("/webhooks/github", webhook, methods=["POST"]),
            Route("/healthz", healthz, methods=["GET"]),
            Route("/readyz", readyz, methods=["GET"]),
            *more,
        ],
    )


def _take(
    store: Store, headers: Mapping[str, str], body: bytes, repositories: frozenset[str], most_waiting: int
) -> tuple[int, str, str]:
    """(HTTP status, result, reason) of a delivery whose signature is right."""
    try:
        found = read_delivery(headers, body, repositories)
    except ConfigurationError as error:
        return 400, "refused", str(error)
    if isinstance(found, Ignored):
        return 202, "ignored", found.reason
    for _ in range(_TRIES):
        try:
            if isinstance(found, Closed):
                ended = store.close_pull_request(found.repository_id, found.number)
                return 202, "closed", f"{len(ended)} jobs of this pull request end"
            return _SAID[store.take(found.asked(), found.id, most_waiting=most_waiting).result]
        except OperationalError:  # the database is busy, or away for a moment
            time.sleep(_PAUSE_S)
    return 503, "busy", "the database does not answer; let GitHub deliver this one again later"


def _failed(broke: Callable[[str, Exception], None], request: Request, error: Exception) -> JSONResponse:
    from starlette.responses import JSONResponse

    broke(request.url.path, error)
    return JSONResponse({"error": "the service itself failed; its log says more"}, status_code=500)


def _health(store: Store, *, alive: bool) -> dict[str, str | int]:
    counts = store.counts() if alive else {}
    return {
        "status": "ok" if alive else "the worker has ended",
        "waiting": counts.get(JobState.WAITING, 0),
        "judging": counts.get(JobState.RUNNING, 0),
    }


async def read_body(request: Request, most: int) -> bytes:
    """The body. Raises TooLargeError as soon as that is known, whatever Content-Length says."""
    declared = request.headers.get("content-length", "")
    if declared.isascii() and declared.isdigit() and int(declared[:20]) > most:
        raise TooLargeError
    body = bytearray()
    async for chunk in request.stream():
        body += chunk
        if len(body) > most:
            raise TooLargeError
    return bytes(body)
