"""The pages: runs, a run under way, a skill's history, and the evidence behind a verdict. Rendered here, readable without
scripts; nothing is fetched from anywhere else, and a browser is told to refuse whatever would be.

Whoever looks has signed in with an API token and sees what that token reaches; the rest is not there. All texts may be a
stranger's: every value is escaped, and what would be invisible in it is shown.
"""

from __future__ import annotations

import asyncio
import unicodedata
from collections import OrderedDict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import cache
from importlib import resources
from typing import TYPE_CHECKING, Any, NamedTuple
from urllib.parse import parse_qs, urlencode, urlsplit

from markupsafe import Markup

from gate.errors import EvidenceError, InfrastructureError
from gate.service.evidence_view import Figures, Opened, Shelf, figures_in
from gate.service.store import Job, JobState, Store, Token

if TYPE_CHECKING:
    from jinja2 import Environment
    from starlette.requests import Request
    from starlette.responses import Response
    from starlette.routing import BaseRoute

SESSION_S = 12 * 3600
PAGE = 50
HISTORY = 30
"""Runs of a skill that are shown; as many bundles are looked into."""
LOOKED_THROUGH = 300
FORM_BYTES = 10_000
FORM_SECONDS = 20.0
_REMEMBERED = 1000
_POLICY = (
    "default-src 'none'; style-src 'self'; script-src {script}; connect-src 'self'; img-src data:; form-action 'self'; "
    "base-uri 'none'; frame-ancestors 'none'"
)
_REPORT_POLICY = (
    # The bundle's own page allows its one style sheet and its one script by their hashes. Here it is a stranger besides: it
    # has no origin, so that nothing in it could act for whoever is signed in.
    "sandbox allow-scripts; default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'; img-src data:; "
    "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)
_HEADERS = {
    "Cache-Control": "no-store",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Permissions-Policy": "camera=(), geolocation=(), microphone=()",
    "Referrer-Policy": "same-origin",
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
}
_ASSETS = {"pages.css": "text/css; charset=utf-8", "live.js": "text/javascript; charset=utf-8"}


class Point(NamedTuple):
    """One run in the plot of a skill's history."""

    label: str
    rate: float | None
    interval: tuple[float, float] | None


class Past(NamedTuple):
    """One run in a skill's history."""

    job: Job
    verdict: str
    figures: Figures | None
    """None: its bundle is not kept any more."""


class Skill(NamedTuple):
    """One skill in the list of skills."""

    repository: str
    path: str
    verdict: str
    at: float
    runs: int


@dataclass(frozen=True)
class Pages:
    """What the pages need."""

    store: Store
    bundle: Callable[[str], Iterator[bytes]]
    """By the bundle's key. Raises LookupError."""
    shelf: Shelf
    plot: Callable[[Sequence[Point]], str]
    """Markup of our own."""
    random_hex: Callable[[int], str]
    secure: bool = False
    """Whether browsers come over https: the cookie then never travels otherwise."""
    figures: OrderedDict[str, Mapping[str, Figures] | None] = field(default_factory=OrderedDict)

    @property
    def cookie(self) -> str:
        """Name of the cookie."""
        return "__Host-skill-gate" if self.secure else "skill-gate"


class _GoneError(Exception):
    """There is no such page, or not for this token."""


class _StrangerError(Exception):
    """Nobody is signed in."""


def page_routes(pages: Pages) -> list[BaseRoute]:
    """The addresses, for the service's application."""
    from starlette.concurrency import run_in_threadpool
    from starlette.requests import ClientDisconnect
    from starlette.responses import RedirectResponse
    from starlette.routing import Route

    def shown(make: Callable[[Pages, Request, Token], Response]) -> Callable[[Request], Response]:
        def answer(request: Request) -> Response:
            try:
                return make(pages, request, _signed_in(pages, request))
            except _StrangerError:
                return RedirectResponse("/login", status_code=303, headers=_HEADERS)
            except (_GoneError, LookupError):
                return _problem(
                    pages, request, 404, "There is no such page", "It is not there, or not in the scope of this token."
                )
            except (EvidenceError, InfrastructureError) as error:
                return _problem(pages, request, 502, "The evidence cannot be shown", error.message)

        answer.__name__ = make.__name__
        return answer

    def login_form(request: Request) -> Response:
        return _page(pages, request, "login.html.j2", None, wrong=False)

    async def login(request: Request) -> Response:
        try:
            form = await asyncio.wait_for(_form(request), FORM_SECONDS)
        except (TimeoutError, ClientDisconnect):
            form = {}
        return await run_in_threadpool(_login, pages, request, form)

    def logout(request: Request) -> Response:
        if not _is_ours(request):
            return _problem(pages, request, 404, "There is no such page", "Another site sent this form.")
        answer = RedirectResponse("/login", status_code=303, headers=_HEADERS)
        answer.delete_cookie(pages.cookie, path="/", secure=pages.secure, httponly=True, samesite="strict")
        return answer

    def home(request: Request) -> Response:
        del request
        return RedirectResponse("/runs", status_code=303, headers=_HEADERS)

    return [
        Route("/", home, methods=["GET"]),
        Route("/login", login_form, methods=["GET"]),
        Route("/login", login, methods=["POST"]),
        Route("/logout", logout, methods=["POST"]),
        Route("/runs", shown(_runs), methods=["GET"]),
        Route("/runs/{job}", shown(_run), methods=["GET"]),
        Route("/runs/{job}/cancel", shown(_cancel), methods=["POST"]),
        Route("/runs/{job}/events", _events(pages), methods=["GET"]),
        Route("/runs/{job}/evidence", shown(_evidence), methods=["GET"]),
        Route("/runs/{job}/evidence/run", shown(_record), methods=["GET"]),
        Route("/runs/{job}/evidence/file", shown(_file), methods=["GET"]),
        Route("/runs/{job}/report", shown(_report), methods=["GET"]),
        Route("/skills", shown(_skills), methods=["GET"]),
        Route("/history", shown(_history), methods=["GET"]),
        Route("/assets/{name}", _asset, methods=["GET"]),
    ]


# --- who looks


def _signed_in(pages: Pages, request: Request) -> Token:
    """By the cookie, or by a bearer token. Raises _StrangerError."""
    kind, _, secret = request.headers.get("authorization", "").partition(" ")
    held = secret.strip() if kind.casefold() == "bearer" else request.cookies.get(pages.cookie, "")
    token = pages.store.token_of(held) if held else None
    if token is None:
        raise _StrangerError
    return token


def _login(pages: Pages, request: Request, form: Mapping[str, str]) -> Response:
    from starlette.responses import RedirectResponse

    secret = form.get("token", "").strip()
    if not _is_ours(request) or pages.store.token_of(secret) is None:
        return _page(pages, request, "login.html.j2", None, status=401, wrong=True)
    answer = RedirectResponse("/runs", status_code=303, headers=_HEADERS)
    answer.set_cookie(
        pages.cookie, secret, max_age=SESSION_S, path="/", secure=pages.secure, httponly=True, samesite="strict"
    )
    return answer


def _is_ours(request: Request) -> bool:
    """Whether a form was sent by a page of ours. The cookie is for this site only; this holds where that does not."""
    said = request.headers.get("sec-fetch-site")
    if said is not None:
        return said in ("same-origin", "none")
    origin = request.headers.get("origin")
    return origin is None or urlsplit(origin).netloc == request.headers.get("host", "")


def _ours(request: Request) -> None:
    if not _is_ours(request):
        raise _GoneError


async def _form(request: Request) -> dict[str, str]:
    body = bytearray()
    async for chunk in request.stream():
        body += chunk
        if len(body) > FORM_BYTES:
            return {}
    values = parse_qs(body.decode("utf-8", "replace"), max_num_fields=20) if body else {}
    return {name: found[0] for name, found in values.items()}


def _job(pages: Pages, request: Request, token: Token) -> Job:
    job = pages.store.job(str(request.path_params["job"]))
    if job is None or not token.reaches(job.repository):
        raise _GoneError
    return job


def _reach(token: Token) -> list[str] | None:
    return None if "*" in token.repositories else list(token.repositories)


# --- the pages


def _runs(pages: Pages, request: Request, token: Token) -> Response:
    query = request.query_params
    repository, state = query.get("repository", ""), query.get("state", "")
    if repository and not token.reaches(repository):
        raise _GoneError
    try:
        before = float(query["before"]) if query.get("before") else None
        states = [JobState(state)] if state else None
    except ValueError:
        raise _GoneError from None
    reach = [repository] if repository else _reach(token)
    jobs = pages.store.jobs(repositories=reach, states=states, before=before, limit=PAGE + 1)
    older = ""
    if len(jobs) > PAGE:
        jobs = jobs[:PAGE]
        kept = {"repository": repository, "state": state, "before": repr(jobs[-1].created)}
        older = _url("/runs", **{name: value for name, value in kept.items() if value})
    names = [name for name in pages.store.repositories() if token.reaches(name)]
    return _page(
        pages, request, "runs.html.j2", token, here="runs", jobs=jobs, repositories=names, repository=repository,
        states=[one.value for one in JobState], state=state, older=older,
    )  # fmt: skip


def _run(pages: Pages, request: Request, token: Token) -> Response:
    job = _job(pages, request, token)
    events = pages.store.events(job.id, limit=2000)
    return _page(
        pages, request, "run.html.j2", token, here="runs", job=job, events=events, bundle=pages.store.bundle(job.id)
    )


def _events(pages: Pages) -> Callable[[Request], Response]:
    """What the page of a run asks for."""
    from starlette.responses import JSONResponse

    def events(request: Request) -> Response:
        try:
            job = _job(pages, request, _signed_in(pages, request))
            after = int(request.query_params.get("after", "0"))
            if not 0 <= after < 1 << 62:
                raise ValueError  # noqa: TRY301 - one answer for both
        except _StrangerError:
            return JSONResponse({}, status_code=401, headers=_HEADERS)
        except (_GoneError, ValueError):
            return JSONResponse({}, status_code=404, headers=_HEADERS)
        found = pages.store.events(job.id, after=after)
        value = {
            "state": job.state.value,
            "ended": job.state.ended,
            "parts": job.shards,
            "parts_done": job.shards_done,
            "events": [
                {"number": one.number, "at": _iso(one.at), "clock": _short_clock(one.at), "kind": one.kind, "text": visible(one.text)}
                for one in found
            ],
        }  # fmt: skip
        return JSONResponse(value, headers=_HEADERS)

    return events


def _cancel(pages: Pages, request: Request, token: Token) -> Response:
    from starlette.responses import RedirectResponse

    _ours(request)
    job = _job(pages, request, token)
    if not token.may_write:
        return _problem(
            pages, request, 403, "This token may only read", "To end a run, sign in with one that may write."
        )
    pages.store.ask_to_cancel(job.id)
    return RedirectResponse(f"/runs/{job.id}", status_code=303, headers=_HEADERS)


def _skills(pages: Pages, request: Request, token: Token) -> Response:
    found: dict[tuple[str, str], Skill] = {}
    for job in pages.store.jobs(repositories=_reach(token), states=[JobState.DONE], limit=LOOKED_THROUGH):
        for path, verdict in job.verdicts.items():
            key = (job.repository, path)
            before = found.get(key)
            found[key] = (
                before._replace(runs=before.runs + 1)
                if before
                else Skill(job.repository, path, verdict, job.created, 1)
            )
    return _page(pages, request, "skills.html.j2", token, here="skills", skills=[found[key] for key in sorted(found)])


def _history(pages: Pages, request: Request, token: Token) -> Response:
    repository, skill = request.query_params.get("repository", ""), request.query_params.get("skill", "")
    if not repository or not token.reaches(repository):
        raise _GoneError
    jobs = pages.store.jobs(repositories=[repository], states=[JobState.DONE], limit=LOOKED_THROUGH)
    with_it = [job for job in jobs if skill in job.verdicts][:HISTORY]
    if not with_it:
        raise _GoneError
    past = [Past(job, job.verdicts[skill], (_figures(pages, job) or {}).get(skill)) for job in with_it]
    points = [
        Point(_label(one.job), one.figures.passed / one.figures.total, one.figures.interval)
        for one in past
        if one.figures is not None and one.figures.total
    ]
    return _page(
        pages, request, "history.html.j2", token, here="skills", repository=repository, skill=skill, points=past,
        plot=Markup(pages.plot(points)) if points else "",  # noqa: S704 - drawn by our own code, which escapes every text
    )  # fmt: skip


def _label(job: Job) -> str:
    what = f"#{job.number}" if job.number else job.event_name
    return f"{datetime.fromtimestamp(job.created, UTC):%Y-%m-%d} {what} {job.head_sha[:7]}"


def _figures(pages: Pages, job: Job) -> Mapping[str, Figures] | None:
    """By path of the skill, out of the bundle's report; remembered, since a bundle does not change."""
    known = pages.figures
    if job.id not in known:
        row = pages.store.bundle(job.id)
        try:
            found = figures_in(pages.bundle(row.key)) if row is not None else None
        except (LookupError, EvidenceError):
            found = None
        known[job.id] = found
        while len(known) > _REMEMBERED:
            known.popitem(last=False)
    return known[job.id]


def _opened(pages: Pages, job: Job) -> Opened:
    row = pages.store.bundle(job.id)
    if row is None:
        raise _GoneError
    return pages.shelf.open(row.key, lambda: pages.bundle(row.key))


def _evidence(pages: Pages, request: Request, token: Token) -> Response:
    job = _job(pages, request, token)
    opened = _opened(pages, job)
    return _page(
        pages, request, "evidence.html.j2", token, here="runs", job=job, digest=opened.digest, skills=opened.skills(),
        files=opened.files(),
    )  # fmt: skip


def _record(pages: Pages, request: Request, token: Token) -> Response:
    job = _job(pages, request, token)
    folder = request.query_params.get("folder", "")
    seen = _opened(pages, job).run(folder)
    return _page(
        pages, request, "record.html.j2", token, here="runs", job=job, folder=folder, record=seen.record, rows=seen.rows,
        blocks=seen.blocks, cited=seen.cited,
    )  # fmt: skip


def _file(pages: Pages, request: Request, token: Token) -> Response:
    job = _job(pages, request, token)
    seen = _opened(pages, job).file(request.query_params.get("path", ""))
    return _page(pages, request, "file.html.j2", token, here="runs", job=job, **seen._asdict())


def _report(pages: Pages, request: Request, token: Token) -> Response:
    from starlette.responses import Response

    page = _opened(pages, _job(pages, request, token)).bytes_of("report.html")
    headers = {**_HEADERS, "Content-Security-Policy": _REPORT_POLICY}
    return Response(page, media_type="text/html; charset=utf-8", headers=headers)


def _asset(request: Request) -> Response:
    from starlette.responses import PlainTextResponse, Response

    name = str(request.path_params["name"])
    if name not in _ASSETS:
        return PlainTextResponse("there is no such file\n", status_code=404, headers=_HEADERS)
    headers = {**_HEADERS, "Cache-Control": "public, max-age=300"}
    return Response(_packaged(name), media_type=_ASSETS[name], headers=headers)


# --- how they are written


def _page(
    pages: Pages, request: Request, name: str, token: Token | None, *, status: int = 200, **values: Any
) -> Response:
    from starlette.responses import HTMLResponse

    del request
    nonce = pages.random_hex(16)
    text = _environment().get_template(name).render(**{"here": "", "token": token, "nonce": nonce, **values})
    policy = _POLICY.format(script=f"'nonce-{nonce}'" if nonce in text else "'none'")
    return HTMLResponse(text, status_code=status, headers={**_HEADERS, "Content-Security-Policy": policy})


def _problem(pages: Pages, request: Request, status: int, headline: str, text: str) -> Response:
    try:
        token: Token | None = _signed_in(pages, request)
    except _StrangerError:
        token = None
    return _page(pages, request, "problem.html.j2", token, status=status, headline=headline, text=text)


@cache
def _environment() -> Environment:
    from jinja2 import Environment, PackageLoader, StrictUndefined

    found = Environment(
        loader=PackageLoader("gate.service", "templates"),
        autoescape=True,
        undefined=StrictUndefined,
        finalize=_shown,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    found.filters |= {"iso": _iso, "clock": _clock, "short_clock": _short_clock, "took": _took}
    found.globals["url"] = _url
    return found


def _shown(value: object) -> object:
    """Every value that a template prints passes here before it is escaped."""
    return visible(value) if isinstance(value, str) and not hasattr(value, "__html__") else value


def visible(text: str) -> str:
    """Text in which every character is seen: controls, invisible ones and those that turn the direction by their code."""
    if text.isascii() and text.isprintable():
        return text
    return "".join(
        char
        if char in "\n\t" or unicodedata.category(char) not in ("Cc", "Cf", "Co", "Cs", "Zl", "Zp")
        else f"<U+{ord(char):04X}>"
        for char in text
    )


def _url(path: str, /, **query: str) -> str:
    return f"{path}?{urlencode(query, errors='surrogatepass')}"


def _iso(seconds: float) -> str:
    return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def _clock(seconds: float) -> str:
    return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%d %H:%M UTC")


def _short_clock(seconds: float) -> str:
    return datetime.fromtimestamp(seconds, UTC).strftime("%H:%M:%S")


def _took(job: Job) -> str:
    if job.started is None or job.ended is None:
        return "not yet"
    seconds = max(0, round(job.ended - job.started))
    return f"{seconds} s" if seconds < 120 else f"{seconds // 60} min {seconds % 60:02d} s"


@cache
def _packaged(name: str) -> bytes:
    return resources.files("gate.service").joinpath("templates", name).read_bytes()
