"""The two addresses of the service, and the process around them."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from gate.domain.event import PullRequestEvent
from gate.errors import ConfigurationError, InfrastructureError
from gate.service.jobs import QUEUE_LENGTH, Jobs, Taken
from gate.service.webhooks import MAX_BODY_BYTES, Delivery, Ignored, is_signed, read_delivery

if TYPE_CHECKING:
    import socket

    from starlette.applications import Starlette
    from starlette.requests import Request
    from starlette.responses import JSONResponse

BODY_SECONDS = 20.0
"""For a whole body to arrive; GitHub itself gives up after ten seconds."""
CONNECTIONS = 32
"""At the same time; each may hold one body in memory."""
_SAID = {
    Taken.QUEUED: (202, "will be judged"),
    Taken.DUPLICATE: (202, "this delivery, or this head, has been taken before"),
    Taken.FULL: (503, "too many deliveries wait; let GitHub deliver this one again later"),
    Taken.STOPPING: (503, "the service is stopping; let GitHub deliver this one again later"),
}


class TooLargeError(Exception):
    """A body beyond ``MAX_BODY_BYTES``."""


def make_app(*, secret: str, repositories: frozenset[str], jobs: Jobs) -> Starlette:
    """The application: ``POST /webhooks/github`` and ``GET /healthz``. Raises ConfigurationError for an empty secret."""
    from starlette.applications import Starlette
    from starlette.requests import ClientDisconnect
    from starlette.responses import JSONResponse
    from starlette.routing import Route

    if not secret:
        raise ConfigurationError("The webhook has no secret.", remedy="Set SKILL_GATE_WEBHOOK_SECRET.")

    def said(code: int, result: str, reason: str) -> JSONResponse:
        return JSONResponse({"result": result, "reason": reason}, status_code=code)

    async def webhook(request: Request) -> JSONResponse:
        try:
            body = await asyncio.wait_for(_body(request), BODY_SECONDS)
        except TooLargeError:
            return said(413, "refused", f"a payload has at most {MAX_BODY_BYTES} bytes")
        except (TimeoutError, ClientDisconnect):
            return said(408, "refused", "the body did not arrive in time")
        if not is_signed(secret, body, request.headers.get("x-hub-signature-256", "")):
            return said(401, "refused", "X-Hub-Signature-256 is not the signature of this body with our secret")
        try:
            found = read_delivery(request.headers, body, repositories)
        except ConfigurationError as error:
            return said(400, "refused", str(error))
        if isinstance(found, Ignored):
            return said(202, "ignored", found.reason)
        taken = jobs.take(found)
        code, reason = _SAID[taken]
        return said(code, taken.value, reason)

    async def healthz(request: Request) -> JSONResponse:
        del request
        alive, waiting, running = jobs.state()
        facts = {"status": "ok" if alive else "the worker has ended", "waiting": waiting, "judging": running}
        return JSONResponse(facts, status_code=200 if alive else 503)

    return Starlette(
        routes=[
            Route("/webhooks/github", webhook, methods=["POST"]),
            Route("/healthz", healthz, methods=["GET"]),
        ]
    )


async def _body(request: Request) -> bytes:
    """The body. Raises TooLargeError as soon as that is known, whatever Content-Length says."""
    declared = request.headers.get("content-length", "")
    if declared.isascii() and declared.isdigit() and int(declared[:20]) > MAX_BODY_BYTES:
        raise TooLargeError
    body = bytearray()
    async for chunk in request.stream():
        body += chunk
        if len(body) > MAX_BODY_BYTES:
            raise TooLargeError
    return bytes(body)


def serve(
    *,
    host: str,
    port: int,
    secret: str,
    repositories: Sequence[str],
    judge: Callable[[PullRequestEvent, bytes], bool],
    say: Callable[[str], None],
    stop: threading.Event,
    queue_length: int = QUEUE_LENGTH,
) -> None:
    """Serve until ``stop`` is set; then the delivery under way ends as its own way of stopping has it.

    ``judge``: an event and its payload; whether it was judged. Never called twice at a time. Raises ConfigurationError
    for an empty secret, InfrastructureError where the address cannot be had.
    """
    import socket

    import uvicorn

    def judged(delivery: Delivery) -> bool:
        return judge(delivery.event, delivery.body)

    jobs = Jobs(judged, say, length=queue_length)
    app = make_app(secret=secret, repositories=frozenset(name.casefold() for name in repositories), jobs=jobs)
    try:
        family = socket.AF_INET6 if ":" in host else socket.AF_INET
        listening = socket.create_server((host, port), family=family, backlog=128)
    except OSError as error:
        raise InfrastructureError(
            f"Cannot listen on {host} port {port}: {error}.", remedy="Choose another with --host and --port."
        ) from None
    with listening:
        # Not on this thread, where uvicorn would put its own handlers of signals over ours.
        server = uvicorn.Server(
            uvicorn.Config(
                app,
                lifespan="off",
                access_log=False,
                log_level="warning",
                limit_concurrency=CONNECTIONS,
                timeout_graceful_shutdown=5,
                server_header=False,
            )
        )
        thread = threading.Thread(target=server.run, kwargs={"sockets": [listening]}, name="http", daemon=True)
        jobs.start()
        thread.start()
        say(f"listening on {_address(listening, host)}")
        try:
            while not stop.wait(1.0):
                if not thread.is_alive():
                    raise InfrastructureError("The web server ended.")
        finally:
            server.should_exit = True
            thread.join(10)
            dropped = jobs.stop()
            if dropped:
                say(f"{dropped} deliveries were not judged; let GitHub deliver them again")


def _address(listening: socket.socket, host: str) -> str:
    name = f"[{host}]" if ":" in host else host
    return f"http://{name}:{listening.getsockname()[1]}"
