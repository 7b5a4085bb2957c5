"""The REST API: start an audit, see how it goes, get its bundle, end it. ``gate.service.openapi`` is its description.

Whoever asks has a bearer token with a scope of repositories. What lies outside of it is not there (404), also where an id is
guessed right; to write, the token must say so.
"""

from __future__ import annotations

import asyncio
import json
import re
import secrets
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, NamedTuple

from gate.domain.refs import is_name
from gate.evidence.pack import MEDIA_TYPE
from gate.service.app import TooLargeError, read_body
from gate.service.openapi import DOCUMENT, MODES, REF, REPOSITORY, SHA
from gate.service.store import Asked, Job, JobState, Store, TakenAs, Token, Trigger

if TYPE_CHECKING:
    from starlette.requests import Request
    from starlette.responses import Response
    from starlette.routing import BaseRoute

MAX_BODY_BYTES = 64 * 1024
_BODY_SECONDS = 20.0
_MOST = 200
_ID = re.compile(r"[0-9a-f]{32}")


class _RefusedError(Exception):
    """An answer that is an error."""

    def __init__(self, status: int, message: str) -> None:
        super().__init__(message)
        self.status = status
        self.message = message


class Answer(NamedTuple):
    """An answer in JSON."""

    status: int
    value: Any


@dataclass(frozen=True)
class Api:
    """What the addresses need."""

    store: Store
    repositories: frozenset[str]
    """Those that are judged, in lower case; ``*``: all."""
    bundle: Callable[[str], Iterator[bytes]]
    """By the bundle's key. Raises LookupError."""
    taken: Callable[[], None] = lambda: None


def api_routes(api: Api) -> list[BaseRoute]:
    """The addresses, for the service's application."""
    from starlette.concurrency import run_in_threadpool
    from starlette.requests import ClientDisconnect
    from starlette.responses import JSONResponse, StreamingResponse
    from starlette.routing import Route

    def answered(act: Callable[..., Answer], *given: Any) -> Response:
        status, value, headers = _answered(act, *given)
        return JSONResponse(value, status_code=status, headers=headers)

    def plain(act: Callable[[Api, Request], Answer]) -> Callable[[Request], Response]:
        def answer(request: Request) -> Response:
            return answered(act, api, request)

        return answer

    async def start(request: Request) -> Response:
        # Who it is comes first: of a stranger no body is read.
        try:
            token = await run_in_threadpool(_token, api, request)
            body = bytes(await asyncio.wait_for(read_body(request, MAX_BODY_BYTES), _BODY_SECONDS))
        except _RefusedError as refused:
            error = refused
            return answered(lambda: _again(error))
        except TooLargeError:
            return JSONResponse({"error": f"at most {MAX_BODY_BYTES} bytes are taken"}, status_code=413)
        except (TimeoutError, ClientDisconnect):
            return JSONResponse({"error": "the body did not arrive in time"}, status_code=408)
        kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
        return await run_in_threadpool(answered, _start, api, token, kind, body)

    def bundle(request: Request) -> Response:
        found: list[Iterator[bytes]] = []
        answer = answered(_bundle, api, request, found)
        if not found:
            return answer
        headers = {"Cache-Control": "no-store", "Content-Disposition": "attachment; filename=bundle.skill-gate"}
        return StreamingResponse(found[0], media_type=MEDIA_TYPE, headers=headers)

    def document(request: Request) -> Response:
        del request
        return JSONResponse(DOCUMENT)

    return [
        Route("/api/v1/audits", start, methods=["POST"]),
        Route("/api/v1/audits", plain(_listed), methods=["GET"]),
        Route("/api/v1/audits/{id}", plain(_shown), methods=["GET"]),
        Route("/api/v1/audits/{id}", plain(_cancelled), methods=["DELETE"]),
        Route("/api/v1/audits/{id}/events", plain(_events), methods=["GET"]),
        Route("/api/v1/audits/{id}/bundle", bundle, methods=["GET"]),
        Route("/openapi.json", document, methods=["GET"]),
    ]


def _answered(act: Callable[..., Answer], *given: Any) -> tuple[int, Any, dict[str, str]]:
    """(status, value, headers) of an answer, or of why there is none."""
    try:
        status, value = act(*given)
    except _RefusedError as refused:
        headers = {"WWW-Authenticate": "Bearer"} if refused.status == 401 else {}
        return refused.status, {"error": refused.message}, headers
    return status, value, {"Cache-Control": "no-store"}


def _again(error: _RefusedError) -> Answer:
    raise error


def _token(api: Api, request: Request) -> Token:
    scheme, _, secret = request.headers.get("authorization", "").partition(" ")
    token = api.store.token_of(secret.strip()) if scheme.lower() == "bearer" else None
    if token is None:
        raise _RefusedError(401, "a bearer token of this service is needed, one that holds and is not over")
    return token


def _start(api: Api, token: Token, kind: str, body: bytes) -> Answer:
    if kind != "application/json":
        raise _RefusedError(415, "the body is to be application/json")
    asked = _asked(token, body)
    if not token.may_write:
        raise _RefusedError(403, "this token may only read")
    if not token.reaches(asked.repository):
        raise _RefusedError(403, "this repository is outside of the token's scope")
    if "*" not in api.repositories and asked.repository.casefold() not in api.repositories:
        raise _RefusedError(403, "this service does not judge that repository")
    taken = api.store.take(asked)
    if taken.result is TakenAs.FULL:
        raise _RefusedError(503, "too many jobs wait; ask again later")
    job = api.store.job(taken.job) if taken.job else None
    if job is None:
        raise _RefusedError(503, "the job could not be made; ask again")
    if taken.result is TakenAs.QUEUED:
        api.taken()
    return Answer(202, as_json(job))


def _asked(token: Token, body: bytes) -> Asked:
    """The job that a body describes. Raises _RefusedError naming the field."""
    try:
        value = json.loads(body)
    except (ValueError, RecursionError):
        raise _RefusedError(400, "the body is no JSON") from None
    if not isinstance(value, dict):
        raise _RefusedError(400, "the body is no JSON object")
    schema: Mapping[str, Any] = DOCUMENT["components"]["schemas"]["AuditRequest"]
    odd = sorted(set(value) - set(schema["properties"]))
    if odd:
        raise _RefusedError(422, f"unknown field {odd[0][:60]!r}")
    repository = _text(value, "repository", REPOSITORY)
    if repository is None:
        raise _RefusedError(422, "repository is missing: owner/name")
    sha, ref, mode = _text(value, "sha", SHA), _text(value, "ref", REF), _text(value, "mode", "|".join(MODES))
    if ref is not None and not is_name(ref):
        raise _RefusedError(422, "ref is not as the description of the API says")
    number = value.get("pull_request")
    if number is not None and (isinstance(number, bool) or not isinstance(number, int) or not 1 <= number <= 10**9):
        raise _RefusedError(422, "pull_request is to be its number")
    if (number is None) != (sha is None):
        raise _RefusedError(422, "pull_request and sha go together: the one head that may be run")
    if number is not None and ref is not None:
        raise _RefusedError(422, "ref cannot be given beside pull_request")
    paths = value.get("paths", [])
    if not isinstance(paths, list) or len(paths) > 100 or not all(_is_path(path) for path in paths):
        raise _RefusedError(422, "paths is to be a list of at most 100 folders of the repository")
    key = _text(value, "key", "[A-Za-z0-9._-]{1,100}")
    inputs = {
        "pull-request": str(number or ""),
        "sha": sha or "",
        "ref": ref or "",
        "mode": mode or "",
        "paths": "\n".join(paths),
    }
    inputs = {name: text for name, text in inputs.items() if text}
    return Asked(
        repository=repository,
        repository_id=0,
        subject=f"api:{token.id}:{repository.casefold()}:{key or secrets.token_hex(16)}",
        trigger=Trigger.API,
        event_name="workflow_dispatch",
        payload=json.dumps({"inputs": inputs}).encode(),
        head_sha=sha or "",
        number=number,
        asked_by=token.name,
    )


def _text(value: Mapping[str, Any], name: str, pattern: str) -> str | None:
    found = value.get(name)
    if found is None:
        return None
    if not isinstance(found, str) or not re.fullmatch(pattern, found):
        raise _RefusedError(422, f"{name} is not as the description of the API says")
    return found


def _is_path(path: object) -> bool:
    return isinstance(path, str) and 0 < len(path) <= 500 and path.isprintable() and not path.startswith(("/", "-"))


def _listed(api: Api, request: Request) -> Answer:
    token, query = _token(api, request), request.query_params
    repository = query.get("repository")
    if repository is not None and not token.reaches(repository):
        raise _RefusedError(404, "there is no such repository in the token's scope")
    reach = [repository] if repository is not None else None if "*" in token.repositories else list(token.repositories)
    try:
        limit = int(query.get("limit", "50"))
        before = float(query["before"]) if "before" in query else None
        states = [JobState(query["state"])] if "state" in query else None
    except ValueError:
        raise _RefusedError(422, "limit, before or state is not as the description of the API says") from None
    if not 1 <= limit <= _MOST or (before is not None and not 0 <= before <= 1e11):
        raise _RefusedError(422, f"limit is to be 1 to {_MOST}, before a time in seconds")
    jobs = api.store.jobs(repositories=reach, states=states, before=before, limit=limit)
    return Answer(200, {"audits": [as_json(job) for job in jobs]})


def _job(api: Api, request: Request) -> tuple[Token, Job]:
    token, name = _token(api, request), str(request.path_params["id"])
    job = api.store.job(name) if _ID.fullmatch(name) else None
    if job is None or not token.reaches(job.repository):
        raise _RefusedError(404, "there is no such audit in the token's scope")
    return token, job


def _shown(api: Api, request: Request) -> Answer:
    _, job = _job(api, request)
    return Answer(200, as_json(job))


def _cancelled(api: Api, request: Request) -> Answer:
    token, job = _job(api, request)
    if not token.may_write:
        raise _RefusedError(403, "this token may only read")
    if not api.store.ask_to_cancel(job.id):
        raise _RefusedError(409, "this audit has ended already")
    now = api.store.job(job.id)
    return Answer(202, as_json(now or job))


def _events(api: Api, request: Request) -> Answer:
    _, job = _job(api, request)
    try:
        after = int(request.query_params.get("after", "0"))
    except ValueError:
        raise _RefusedError(422, "after is to be the number of the last event that was seen") from None
    if not 0 <= after < 2**62:
        raise _RefusedError(422, "after is to be the number of the last event that was seen")
    found = api.store.events(job.id, after=after)
    return Answer(
        200,
        {"events": [{"number": one.number, "at": _time(one.at), "kind": one.kind, "text": one.text} for one in found]},
    )


def _bundle(api: Api, request: Request, found: list[Iterator[bytes]]) -> Answer:
    _, job = _job(api, request)
    row = api.store.bundle(job.id)
    try:
        if row is not None:
            found.append(api.bundle(row.key))
            return Answer(200, None)
    except LookupError:
        pass
    raise _RefusedError(
        404 if job.state.ended else 409, "there is no bundle of this audit" if job.state.ended else "not done"
    )


def as_json(job: Job) -> dict[str, Any]:
    """A job as the API shows it."""
    return {
        "id": job.id,
        "repository": job.repository,
        "state": job.state.value,
        "reason": job.reason,
        "trigger": job.trigger.value,
        "pull_request": job.number,
        "head_sha": job.head_sha or None,
        "created": _time(job.created),
        "started": _time(job.started),
        "ended": _time(job.ended),
        "parts": job.shards,
        "parts_done": job.shards_done,
        "result": job.gate_state or None,
        "headline": job.headline,
        "verdicts": dict(job.verdicts),
        "calls": job.calls,
        "cost_usd": job.cost_usd,
    }


def _time(seconds: float | None) -> str | None:
    return None if seconds is None else datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
