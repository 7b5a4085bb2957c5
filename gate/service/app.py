"""The service's addresses: GitHub's webhook, health and readiness, and whatever else is mounted beside them."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from typing import TYPE_CHECKING

from sqlalchemy.exc import OperationalError

from gate.errors import ConfigurationError
from gate.service.store import JobState, Store, TakenAs
from gate.service.webhooks import MAX_BODY_BYTES, Closed, Ignored, Signing, read_delivery

if TYPE_CHECKING:
    from starlette.applications import Starlette
    from starlette.requests import Request
    from starlette.responses import JSONResponse
    from starlette.routing import BaseRoute

BODY_SECONDS = 20.0
"""For a whole body to arrive; GitHub itself gives up after ten seconds."""
SMALL_BYTES = 512 * 1024
"""Of each delivery there is always room for these: nearly all of GitHub's are smaller, and no stranger's can be in their way."""
LARGE_BYTES = 64 * 1024 * 1024
"""What all deliveries together may hold beyond that, from the first byte until each is answered. With 128 connections at a time
a stranger can make the service hold 128 MiB, whatever is sent."""
RETRY_AFTER_S = 30
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


class NoRoomError(Exception):
    """Other bodies are being held, and together they are as much as may be."""


class _RefusedError(Exception):
    """The answer to a delivery that is not GitHub's, or cannot be taken now."""

    def __init__(self, code: int, result: str, reason: str, headers: Mapping[str, str] | None = None) -> None:
        super().__init__(reason)
        self.code = code
        self.result = result
        self.reason = reason
        self.headers = headers


class Room:
    """The bytes of large bodies that are held at the same time. For one event loop: nothing in it waits."""

    def __init__(self, small: int, large: int) -> None:
        self._small = small
        self._left = large

    @contextmanager
    def of_one(self) -> Iterator[Callable[[int], None]]:
        """For one body: tell it the size of what has come so far. It raises NoRoomError where that cannot be held; what was
        held is free when the block ends."""
        held = 0

        def grown(size: int) -> None:
            nonlocal held
            more = max(0, size - self._small) - held
            if more > self._left:
                raise NoRoomError
            self._left -= more
            held += more

        try:
            yield grown
        finally:
            self._left += held


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
    from starlette.responses import JSONResponse
    from starlette.routing import Route

    if not secret:
        raise ConfigurationError("The webhook has no secret.", remedy="Set SKILL_GATE_WEBHOOK_SECRET.")

    room = Room(SMALL_BYTES, LARGE_BYTES)

    def said(code: int, result: str, reason: str, headers: Mapping[str, str] | None = None) -> JSONResponse:
        told(result)
        return JSONResponse({"result": result, "reason": reason}, status_code=code, headers=headers)

    def take(request: Request, body: bytes) -> JSONResponse:
        answer = _take(store, request.headers, body, repositories, queue_length)
        if answer[1] == "queued":
            taken()
        return said(*answer)

    async def webhook(request: Request) -> JSONResponse:
        with room.of_one() as grown:
            try:
                body = await _received(request, secret, grown)
            except _RefusedError as refused:
                return said(refused.code, refused.result, refused.reason, refused.headers)
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


async def _received(request: Request, secret: str, grown: Callable[[int], None]) -> bytes:
    """The body of a delivery, once its signature has come out right. Raises _RefusedError."""
    from starlette.requests import ClientDisconnect

    signing = Signing(secret)
    try:
        reading = read_body(request, MAX_BODY_BYTES, grown=grown, piece=signing.update)
        body = await asyncio.wait_for(reading, BODY_SECONDS)
    except TooLargeError:
        raise _RefusedError(413, "refused", f"a payload has at most {MAX_BODY_BYTES} bytes") from None
    except NoRoomError:
        why = "too many large deliveries at the same time; let GitHub deliver this one again later"
        raise _RefusedError(503, "full", why, {"Retry-After": str(RETRY_AFTER_S)}) from None
    except (TimeoutError, ClientDisconnect):
        raise _RefusedError(408, "refused", "the body did not arrive in time") from None
    if not signing.came_out_as(request.headers.get("x-hub-signature-256", "")):
        why = "X-Hub-Signature-256 is not the signature of this body with our secret"
        raise _RefusedError(401, "refused", why)
    return bytes(body)


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


async def read_body(
    request: Request,
    most: int,
    *,
    grown: Callable[[int], None] = lambda size: None,
    piece: Callable[[bytes], None] = lambda piece: None,
) -> bytearray:
    """The body. Raises TooLargeError as soon as that is known, whatever Content-Length says.

    ``grown``: told how large it is before more of it is kept; what it raises ends the reading. ``piece``: given each piece.
    """
    declared = request.headers.get("content-length", "")
    if declared.isascii() and declared.isdigit() and int(declared[:20]) > most:
        raise TooLargeError
    body = bytearray()
    async for chunk in request.stream():
        size = len(body) + len(chunk)
        if size > most:
            raise TooLargeError
        grown(size)
        body += chunk
        piece(chunk)
    return body
