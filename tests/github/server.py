"""The fake GitHub: real HTTP on 127.0.0.1, held to GitHub's own description in both directions."""

from __future__ import annotations

import contextlib
import json
import re
import socket
import threading
import traceback
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from email.utils import format_datetime
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import TracebackType
from typing import Any, Self
from urllib.parse import parse_qsl, urlsplit

from tests.github.bodies import Bodies
from tests.github.faults import Fault
from tests.github.openapi import Match, contract
from tests.github.routes import (
    BAD_CREDENTIALS,
    PATHS,
    ROUTES,
    VALIDATION_FAILED,
    Answer,
    Call,
    RefusedError,
    Service,
)
from tests.github.world import ACTIONS, Level, Repository, Token, World

Json = Any

WRITE: Mapping[str, Level] = {
    "metadata": "read",
    "contents": "read",
    "issues": "write",
    "pull_requests": "write",
    "statuses": "write",
    "checks": "write",
}
READ: Mapping[str, Level] = dict.fromkeys(WRITE, "read")

_VIEWER = "query{viewer{login}}"


@dataclass(frozen=True)
class Asked:
    """A request and how it was answered."""

    method: str
    path: str
    """Without the prefix of an Enterprise server, undecoded."""
    query: Mapping[str, str]
    headers: Mapping[str, str]
    """Names in lower case; without the credential."""
    body: Json
    token: Token | None
    operation: str
    """GitHub's name of it; empty where it has none."""
    status: int
    """0: the connection was dropped."""


class FakeGitHubError(AssertionError):
    """A client asked for what GitHub does not know, or in a way that its description forbids; or the fake itself did."""


class FakeGitHub:
    """One GitHub for one test. Use it as a context manager.

    Leaving the block stops the server and fails the test for every request that is not in GitHub's description or does
    not keep to it (it got 404 or 422), unless ``allow_problems``; and for every response of the fake's own that does
    not, always. An exception on its way out of the block stays what it is and gets these as notes.

    Four credentials are there from the start: ``write`` and ``read`` (GITHUB_TOKEN), ``app`` (an App's installation),
    ``pat`` (a classic one of ``octocat``; it can do what that user's role allows).

    Attributes:
        allow_problems: For tests about such requests. May be changed at any time before the block is left.
        world: What is on it; tests may change it while no request is under way.
    """

    def __init__(self, *, prefix: str = "", allow_problems: bool = False) -> None:
        """Bind a free port of 127.0.0.1. ``prefix`` ``/api/v3`` makes it look like an Enterprise server.

        Skips the test where GitHub's description cannot be had (fails it with CI=true).
        """
        self.allow_problems = allow_problems
        self.world = World()
        self._contract = contract(PATHS)
        self._prefix = prefix.rstrip("/")
        bodies = Bodies(self.world, self._contract, lambda: self.url)
        self.service = Service(self.world, bodies)
        self._lock = threading.RLock()
        self._faults: list[tuple[re.Pattern[str], Fault]] = []
        self._hooks: list[tuple[re.Pattern[str], Callable[[], object]]] = []
        self._asked: list[Asked] = []
        self._problems: list[str] = []
        self._failures: list[str] = []
        self._open: set[socket.socket] = set()
        self._stopping = threading.Event()
        self._listener = _Listener(self)
        self._thread = threading.Thread(
            target=self._listener.serve_forever, kwargs={"poll_interval": 0.02}, name="fake-github", daemon=True
        )
        add = self.world.add_token
        actions = f"{ACTIONS}[bot]"
        self.write = add(Token("ghs_fake_write", "actions", actions, WRITE))
        self.read = add(Token("ghs_fake_read", "actions", actions, READ))
        self.app = add(Token("ghs_fake_app", "app", "skill-gate-test[bot]", WRITE, 5000))
        self.pat = add(Token("ghp_fake_pat", "pat", "octocat", {}, 5000))

    def __enter__(self) -> Self:
        """Start to answer."""
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Stop and report.

        Raises:
            FakeGitHubError: See ``check``; only where no exception is on its way already.
        """
        self.stop()
        try:
            self.check()
        except FakeGitHubError as findings:
            if error is None:
                raise
            error.add_note(str(findings))

    @property
    def url(self) -> str:
        """The address of the API: what GITHUB_API_URL says."""
        return f"http://127.0.0.1:{self._listener.server_address[1]}{self._prefix}"

    @property
    def asked(self) -> list[Asked]:
        """A copy of all requests so far, in order."""
        with self._lock:
            return list(self._asked)

    @property
    def writes(self) -> list[Asked]:
        """The requests that were to change something."""
        return [one for one in self.asked if one.method != "GET" and one.path != "/graphql"]

    @property
    def problems(self) -> list[str]:
        """A copy of what clients did wrong so far."""
        with self._lock:
            return list(self._problems)

    def add_repository(self, full_name: str = "acme/skills", **more: Any) -> Repository:
        """A repository; see World.add_repository."""
        return self.world.add_repository(full_name, **more)

    def fail(self, *faults: Fault, on: str = "", repeat: bool = False) -> None:
        """Answer the next requests with these faults, one after the other.

        ``on`` picks requests by a regular expression that is searched in ``METHOD /path``; others pass. ``repeat``: the
        last fault never ends.
        """
        pattern = re.compile(on)
        with self._lock:
            self._faults += [(pattern, fault) for fault in faults]
            if repeat:
                self._faults += [(pattern, faults[-1])] * 1000

    def before(self, on: str, do: Callable[[], object]) -> None:
        """Do something just before the next request that ``on`` matches (as in ``fail``) is looked at, once.

        For what other people do on GitHub while a client is at work.
        """
        with self._lock:
            self._hooks.append((re.compile(on), do))

    def stop(self) -> None:
        """Hang up on everybody and free the port. Safe to call again."""
        self._stopping.set()
        if self._thread.is_alive():
            self._listener.shutdown()
            self._thread.join()
        self._listener.server_close()
        with self._lock:
            connections = list(self._open)
        for connection in connections:
            _hang_up(connection)

    def check(self) -> None:
        """Report what went wrong so far.

        Raises:
            FakeGitHubError: The fake failed; or a client did and that is not allowed here.
        """
        with self._lock:
            lines = [f"the fake itself: {failure}" for failure in self._failures]
            if not self.allow_problems:
                lines += self._problems
        if lines:
            raise FakeGitHubError("the fake GitHub saw:\n" + "\n".join(lines))

    # What follows is for the handler, in the threads of the connections.

    def _answer(self, method: str, target: str, headers: Mapping[str, str], raw: bytes) -> _Wire:
        with self._lock:
            try:
                return self._exchange(method, target, headers, raw)
            except Exception:  # noqa: BLE001 - whatever it is, the test must hear of it
                self._failures.append(f"{method} {target}: {traceback.format_exc()}")
                return _Wire(500, b'{"message": "the fake GitHub failed"}')

    def _exchange(self, method: str, target: str, headers: Mapping[str, str], raw: bytes) -> _Wire:
        url = urlsplit(target)
        path = url.path
        graphql = path == (self._prefix.removesuffix("/v3") + "/graphql")
        query = parse_qsl(url.query, keep_blank_values=True)
        body, broken = _parsed(raw)
        token, known = self._token(headers)
        match = None
        if not graphql and path.startswith(f"{self._prefix}/"):
            path = path.removeprefix(self._prefix)
            match = self._contract.match(method, path)
        self._run_hook(f"{method} {path}")
        fault = self._next_fault(f"{method} {path}")
        if fault is not None and not fault.applied and not fault.passed:
            answer = Answer(fault.status, fault.body, dict(fault.headers))
        elif not known:
            answer = RefusedError(401, BAD_CREDENTIALS).answer()
        elif graphql:
            answer = self._graphql(token, body)
        else:
            answer = self._rest(
                f"{method} {target}",
                match,
                headers,
                query,
                body,
                sent=bool(raw),
                broken=broken,
                token=token,
                path=url.path,
            )
        if fault is not None and fault.applied:
            answer = Answer(fault.status, fault.body, dict(fault.headers))
        elif fault is None and match is not None and match.operation in ROUTES:
            self._hold_to_contract(match, answer)
        status = 0 if fault is not None and fault.dropped else answer.status
        kept = {name: value for name, value in headers.items() if name != "authorization"}
        operation = match.operation if match else ""
        self._asked.append(Asked(method, path, dict(query), kept, body, token, operation, status))
        return self._wire(answer, token, fault)

    def _rest(
        self,
        line: str,
        match: Match | None,
        headers: Mapping[str, str],
        query: list[tuple[str, str]],
        body: Json,
        *,
        sent: bool,
        broken: bool,
        token: Token | None,
        path: str,
    ) -> Answer:
        if not headers.get("user-agent"):
            self._problems.append(f"{line}: no User-Agent, which GitHub insists on")
            return RefusedError(403, "Request forbidden by administrative rules.").answer()
        if match is None or match.operation not in ROUTES:
            what = "nothing that GitHub knows" if match is None else "not served by this fake"
            self._problems.append(f"{line}: {what}")
            return RefusedError(404, "Not Found").answer()
        if broken:
            self._problems.append(f"{line}: the body is not JSON in UTF-8")
            return RefusedError(400, "Problems parsing JSON").answer()
        limited = self._count(token)
        if limited is not None:
            return limited
        problems = self._contract.request_problems(match, query, body, sent=sent)
        if problems:
            self._problems += [f"{line}: {problem}" for problem in problems]
            return RefusedError(422, VALIDATION_FAILED).answer()
        host = self.url.removesuffix(self._prefix)
        call = Call(token, match.operation, match.path, dict(query), body, f"{host}{path}")
        try:
            return self.service.answer(call)
        except RefusedError as refused:
            return refused.answer()

    def _graphql(self, token: Token | None, body: Json) -> Answer:
        """The one question that is answered by GraphQL: who a token is. OpenAPI does not describe it."""
        asked = body.get("query") if isinstance(body, dict) else None
        if not isinstance(asked, str) or "".join(asked.split()) != _VIEWER:
            self._problems.append(f"POST /graphql: {body!r} is not served by this fake")
            return Answer(200, {"errors": [{"message": "not served"}]})
        try:
            return Answer(200, {"data": {"viewer": {"login": self.service.viewer(token)}}})
        except RefusedError as refused:
            return refused.answer()

    def _hold_to_contract(self, match: Match, answer: Answer) -> None:
        problems = self._contract.response_problems(
            match.operation, answer.status, answer.body, sent=answer.body is not None
        )
        self._failures += [f"response to {match.operation} ({answer.status}): {problem}" for problem in problems]

    def _token(self, headers: Mapping[str, str]) -> tuple[Token | None, bool]:
        """(the credential, whether it is none or a known one)."""
        given = headers.get("authorization", "")
        if not given:
            return None, True
        scheme, _, value = given.partition(" ")
        token = self.world.tokens.get(value) if scheme.lower() in ("token", "bearer") else None
        if token is None and scheme.lower() == "bearer" and value.count(".") == 2:
            token = self.world.app_of(value)
        return token, token is not None

    def _count(self, token: Token | None) -> Answer | None:
        """Count a request against the hour's limit; an answer where it is used up."""
        if token is None:
            return None
        if self.world.remaining[token.value] <= 0:
            message = f"API rate limit exceeded for {token.login}."
            return RefusedError(403, message).answer()
        self.world.remaining[token.value] -= 1
        return None

    def _run_hook(self, line: str) -> None:
        for index, (pattern, do) in enumerate(self._hooks):
            if pattern.search(line):
                del self._hooks[index]
                do()
                return

    def _next_fault(self, line: str) -> Fault | None:
        for index, (pattern, fault) in enumerate(self._faults):
            if pattern.search(line):
                del self._faults[index]
                return fault
        return None

    def _wire(self, answer: Answer, token: Token | None, fault: Fault | None) -> _Wire:
        now = self.world.now()
        limit = token.rate_limit if token else 60
        remaining = self.world.remaining[token.value] if token else limit
        headers = {
            "date": format_datetime(now, usegmt=True),
            "x-github-request-id": f"FAKE:{len(self._asked)}",
            "x-ratelimit-limit": str(limit),
            "x-ratelimit-remaining": str(remaining),
            "x-ratelimit-used": str(limit - remaining),
            "x-ratelimit-reset": str(int(now.timestamp()) + 1800),
            "x-ratelimit-resource": "core",
            "content-type": "application/json; charset=utf-8",
        } | dict(answer.headers)
        reset = headers.pop("x-reset-in", None)
        if reset is not None:
            headers["x-ratelimit-reset"] = str(int(now.timestamp()) + int(reset))
        data = b"" if answer.body is None else json.dumps(answer.body).encode()
        if fault is not None and fault.page is not None:
            data, headers["content-type"] = fault.page.encode(), "text/html"
        return _Wire(answer.status, data, headers, fault)

    def _record_failure(self, message: str) -> None:
        with self._lock:
            self._failures.append(message)


@dataclass(frozen=True)
class _Wire:
    status: int
    data: bytes
    headers: Mapping[str, str] | None = None
    fault: Fault | None = None


def _parsed(raw: bytes) -> tuple[Json, bool]:
    """(the body, whether it is none that GitHub could read). Lone surrogates, even escaped, are none."""
    if not raw:
        return None, False
    try:
        body = json.loads(raw)
        json.dumps(body, ensure_ascii=False).encode()
    except ValueError:
        return None, True
    return body, False


class _Listener(ThreadingHTTPServer):
    daemon_threads = True
    block_on_close = False
    request_queue_size = 128

    def __init__(self, github: FakeGitHub) -> None:
        self.github = github
        super().__init__(("127.0.0.1", 0), _Handler)

    def handle_error(self, request: Any, client_address: Any) -> None:
        self.github._record_failure(traceback.format_exc())


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True
    server: _Listener

    def handle(self) -> None:
        with self._known_connection(), contextlib.suppress(ConnectionError):  # either side may hang up
            super().handle()

    @contextlib.contextmanager
    def _known_connection(self) -> Iterator[None]:
        github = self.server.github
        with github._lock:
            github._open.add(self.connection)
        try:
            yield
        finally:
            with github._lock:
                github._open.discard(self.connection)

    def exchange(self) -> None:
        headers = {name.lower(): value for name, value in self.headers.items()}
        body = self.rfile.read(int(headers.get("content-length", "0")))
        self._send(self.server.github._answer(self.command, self.path, headers, body))

    do_GET = do_HEAD = do_POST = do_PUT = do_PATCH = do_DELETE = exchange  # noqa: N815 - fixed by the base

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the name is the base class's
        """Log nothing: the server keeps the account."""

    def _send(self, wire: _Wire) -> None:
        stopping, fault = self.server.github._stopping, wire.fault
        if fault is not None and ((fault.delay_s and stopping.wait(fault.delay_s)) or fault.dropped):
            self.close_connection = True
            _hang_up(self.connection)
            return
        lines = [f"HTTP/1.1 {wire.status} {HTTPStatus(wire.status).phrase}"]
        lines += [f"{name}: {value}" for name, value in (wire.headers or {}).items()]
        if wire.status != 204:
            lines.append(f"content-length: {len(wire.data)}")
        data = "\r\n".join([*lines, "", ""]).encode("latin-1") + wire.data
        if fault is None or not fault.drip_s:
            self.wfile.write(data)
            return
        for index in range(len(data)):
            self.wfile.write(data[index : index + 1])
            if stopping.wait(fault.drip_s):
                self.close_connection = True
                return


def _hang_up(connection: socket.socket) -> None:
    with contextlib.suppress(OSError):  # it may be closed already
        connection.shutdown(socket.SHUT_RDWR)
