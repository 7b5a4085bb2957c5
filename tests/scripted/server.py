"""The server: real HTTP on 127.0.0.1, a thread for each connection, and an account of all that was sent to it."""

from __future__ import annotations

import contextlib
import hashlib
import json
import socket
import socketserver
import threading
import traceback
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from types import TracebackType
from typing import Any, Self
from urllib.parse import unquote, urlsplit

from tests.scripted import wire
from tests.scripted.anthropic_messages import AnthropicMessages
from tests.scripted.dialect import BadRequestError, Dialect
from tests.scripted.faults import HttpError
from tests.scripted.openai_chat import OpenAIChat
from tests.scripted.openai_responses import OpenAIResponses
from tests.scripted.scenarios import ScenarioError, Step, as_scenario
from tests.scripted.values import (
    SECRET_HEADERS,
    VOLATILE_HEADERS,
    DialectName,
    Json,
    Request,
    canonical,
)

_JOIN_S = 5.0


@dataclass(frozen=True)
class ProtocolError:
    """Something a client sent that the provider would not have understood."""

    dialect: DialectName
    method: str
    path: str
    message: str
    body: bytes

    def __str__(self) -> str:
        """Return the line that a report shows."""
        return f"{self.method} {self.path} ({self.dialect}): {self.message}"


@dataclass(frozen=True)
class _Call:
    """A request before anybody has looked into its body."""

    dialect: Dialect
    path: str
    query: str
    headers: Mapping[str, str]
    raw: bytes


class ScriptedServerError(AssertionError):
    """The test asked something of the scripted model that it did not expect, or broke a provider's protocol."""


class ScriptedServer:
    """A scripted model, served to any number of clients.

    Use it as a context manager. Leaving the block stops the server and fails the test if a scenario failed, or if a
    client broke the protocol it spoke, unless ``allow_protocol_errors``. An exception that is already on its way out
    of the block stays what it is and gets these as notes.

    A scenario runs in the thread of the connection that asked. It may wait (for a barrier, an event); several calls
    may run it at once. One that raises is recorded in ``failures``; its client gets status 400 in the provider's shape
    and the advice not to try again.

    Attributes:
        allow_protocol_errors: May be changed at any time before the block is left.
    """

    def __init__(
        self,
        scenario: Step,
        *,
        port: int = 0,
        models: Sequence[str] = ("scripted-1",),
        strict_turns: bool = True,
        allow_protocol_errors: bool = False,
    ) -> None:
        """Bind the port; nothing is answered before ``start``.

        Args:
            scenario: Decides every reply; an answer alone is given to every call.
            port: 0 takes a free one.
            models: What the list of models names. Calls may name any other.
            strict_turns: False lets ``anthropic`` clients send messages of one role in a row, as agents do.
            allow_protocol_errors: For tests about protocol errors themselves.

        Raises:
            OSError: The port is taken.
        """
        self.allow_protocol_errors = allow_protocol_errors
        self._scenario = as_scenario(scenario)
        self._models = tuple(models)
        self._openai = OpenAIChat()
        self._responses = OpenAIResponses()
        self._anthropic = AnthropicMessages(strict_turns=strict_turns)
        self._lock = threading.Lock()
        self._requests: list[Request] = []
        self._counted: list[Request] = []
        self._protocol_errors: list[ProtocolError] = []
        self._failures: list[str] = []
        self._stopping = threading.Event()
        self._listener = _Listener(self, port)
        self._thread: threading.Thread | None = None

    def __enter__(self) -> Self:
        """Start."""
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Stop and report.

        Raises:
            ScriptedServerError: See ``check``; only where no exception is on its way already.
        """
        self.stop()
        try:
            self.check()
        except ScriptedServerError as findings:
            if error is None:
                raise
            error.add_note(str(findings))

    @property
    def port(self) -> int:
        """The port in use."""
        return int(self._listener.server_address[1])

    @property
    def url(self) -> str:
        """The base address without a path: what an ``anthropic`` client takes."""
        return f"http://127.0.0.1:{self.port}"

    @property
    def openai_url(self) -> str:
        """The base address that an ``openai`` client takes."""
        return f"{self.url}/v1"

    @property
    def requests(self) -> list[Request]:
        """A copy of the calls that were put to the scenario so far, in order of arrival."""
        with self._lock:
            return list(self._requests)

    @property
    def counted(self) -> list[Request]:
        """A copy of the calls that only asked for the number of tokens. No scenario sees these."""
        with self._lock:
            return list(self._counted)

    @property
    def protocol_errors(self) -> list[ProtocolError]:
        """A copy of what clients did wrong so far; each was answered with status 400."""
        with self._lock:
            return list(self._protocol_errors)

    @property
    def failures(self) -> list[str]:
        """A copy of what the scenario, or the server itself, failed at so far."""
        with self._lock:
            return list(self._failures)

    def start(self) -> None:
        """Begin to answer. Once only."""
        self._thread = threading.Thread(
            target=self._listener.serve_forever, kwargs={"poll_interval": 0.02}, name="scripted-server", daemon=True
        )
        self._thread.start()

    def stop(self) -> None:
        """Close every connection, whatever it waits for, and free the port. Safe to call again."""
        self._stopping.set()
        if self._thread is not None:
            self._listener.shutdown()
            self._thread.join()
            self._thread = None
        self._listener.server_close()
        if self._listener.close_connections(_JOIN_S):
            self._record_failure("a scenario has not returned although the server stopped")

    def check(self) -> None:
        """Report what went wrong so far.

        Raises:
            ScriptedServerError: A scenario failed; or a client broke a protocol and that is not allowed here.
        """
        lines = [f"scenario: {failure}" for failure in self.failures]
        if not self.allow_protocol_errors:
            lines += [f"protocol: {error}" for error in self.protocol_errors]
        if lines:
            raise ScriptedServerError("the scripted server saw:\n" + "\n".join(lines))

    def save(self, path: Path | str) -> None:
        """Write ``requests`` to a file: a line of canonical JSON for each, equal bytes for equal calls.

        Header values that depend on machine, process or call, and those that carry keys, are left out.

        Raises:
            OSError: The file cannot be written.
        """
        with Path(path).open("w", encoding="utf-8", errors="surrogatepass", newline="\n") as file:
            for request in self.requests:
                headers = {
                    name: value
                    for name, value in request.headers.items()
                    if name not in VOLATILE_HEADERS | SECRET_HEADERS and not name.startswith("x-stainless-")
                }
                record = {
                    "index": request.index,
                    "dialect": request.dialect,
                    "path": request.path,
                    "query": request.query,
                    "headers": headers,
                    "body": request.body,
                }
                file.write(canonical(record) + "\n")

    # What follows is for the handler, in the threads of the connections.

    def _answer(self, method: str, target: str, headers: Mapping[str, str], body: bytes) -> wire.Wire:
        url = urlsplit(target)
        call = _Call(self._dialect(url.path, headers), url.path, url.query, headers, body)
        try:
            return self._route(method, call)
        except BadRequestError as error:
            self._record_protocol_error(ProtocolError(call.dialect.name, method, target, error.message, body))
            refusal = HttpError(400, error.message, param=error.param)
            return wire.of_error(call.dialect, _request_id(body), refusal)

    def _route(self, method: str, call: _Call) -> wire.Wire:
        if method == "HEAD" and call.path == "/":
            return wire.Wire(200, (("content-type", "text/plain"),), (), 0)
        if method == "GET" and (call.path == "/v1/models" or call.path.startswith("/v1/models/")):
            return self._describe(call.dialect, unquote(call.path.removeprefix("/v1/models").removeprefix("/")))
        if method == "POST" and call.path in ("/v1/chat/completions", "/v1/messages", "/v1/responses"):
            return self._converse(call)
        if method == "POST" and call.path == "/v1/messages/count_tokens":
            return self._count(call)
        raise BadRequestError(f"no such endpoint: {method} {call.path}")

    def _dialect(self, path: str, headers: Mapping[str, str]) -> Dialect:
        if path == "/v1/chat/completions":
            return self._openai
        if path == "/v1/responses":
            return self._responses
        if path == "/v1/messages" or path.startswith("/v1/messages/"):
            return self._anthropic
        return self._anthropic if "anthropic-version" in headers else self._openai

    def _describe(self, dialect: Dialect, name: str) -> wire.Wire:
        request_id = _request_id(name.encode("utf-8", "surrogatepass"))
        if not name:
            return wire.of_json(dialect, request_id, dialect.models(self._models))
        if name in self._models:
            return wire.of_json(dialect, request_id, dialect.model(name))
        return wire.of_error(dialect, request_id, HttpError(404, f"The model '{name}' does not exist."))

    def _converse(self, call: _Call) -> wire.Wire:
        request = self._keep(call, self._requests, counting=False)
        try:
            return wire.of_answer(call.dialect, request, self._scenario(request))
        except Exception as error:  # noqa: BLE001 - whatever a scenario raises is to reach the test
            trace = "" if isinstance(error, ScenarioError) else "\n" + traceback.format_exc()
            self._record_failure(f"{type(error).__name__}: {error}{trace}")
            refusal = HttpError(400, f"the scripted model has no answer: {error}", should_retry=False)
            return wire.of_error(call.dialect, _request_id(call.raw), refusal)

    def _count(self, call: _Call) -> wire.Wire:
        request = self._keep(call, self._counted, counting=True)
        request_id = f"req_{request.derive('request')}"
        return wire.of_json(call.dialect, request_id, {"input_tokens": request.input_tokens})

    def _keep(self, call: _Call, shelf: list[Request], *, counting: bool) -> Request:
        body = _parse_body(call.headers, call.raw)
        parsed = call.dialect.parse(body, call.headers, counting=counting)
        with self._lock:
            request = Request(
                index=len(shelf),
                dialect=call.dialect.name,
                path=call.path,
                query=call.query,
                model=parsed.model,
                system=parsed.system,
                messages=parsed.messages,
                tools=parsed.tools,
                schema=parsed.schema,
                stream=parsed.stream,
                max_tokens=parsed.max_tokens,
                headers=call.headers,
                body=body,
                raw=call.raw,
            )
            shelf.append(request)
        return request

    def _record_protocol_error(self, error: ProtocolError) -> None:
        with self._lock:
            self._protocol_errors.append(error)

    def _record_failure(self, message: str) -> None:
        with self._lock:
            self._failures.append(message)


def _request_id(body: bytes) -> str:
    return f"req_{hashlib.sha256(body).hexdigest()[:24]}"


def _parse_body(headers: Mapping[str, str], raw: bytes) -> dict[str, Json]:
    if headers.get("content-type", "").split(";")[0].strip().lower() != "application/json":
        raise BadRequestError("content-type: expected application/json")
    try:
        body = json.loads(raw, parse_constant=_refuse_constant)
    except (ValueError, RecursionError) as error:
        raise BadRequestError(f"the body is not JSON: {error}") from error
    if not isinstance(body, dict):
        raise BadRequestError("the body is not a JSON object")
    return body


def _refuse_constant(name: str) -> Json:
    raise ValueError(f"{name} is not JSON")


class _Listener(socketserver.ThreadingTCPServer):
    """Accepts, and knows its open connections so that it can end them."""

    allow_reuse_address = True
    daemon_threads = True
    block_on_close = False
    request_queue_size = 128

    def __init__(self, scripted: ScriptedServer, port: int) -> None:
        self.scripted = scripted
        self._lock = threading.Lock()
        self._open: dict[threading.Thread, socket.socket] = {}
        super().__init__(("127.0.0.1", port), _Handler)

    def process_request(self, request: Any, client_address: Any) -> None:
        thread = threading.Thread(
            target=self.process_request_thread, args=(request, client_address), name="scripted-connection", daemon=True
        )
        with self._lock:
            self._open[thread] = request
        thread.start()

    def process_request_thread(self, request: Any, client_address: Any) -> None:
        try:
            super().process_request_thread(request, client_address)
        finally:
            with self._lock:
                del self._open[threading.current_thread()]

    def close_connections(self, patience_s: float) -> int:
        """Hang up on every client; return how many threads did not end."""
        with self._lock:
            connections = dict(self._open)
        for connection in connections.values():
            _hang_up(connection)
        for thread in connections:
            thread.join(patience_s)
        return sum(thread.is_alive() for thread in connections)

    def handle_error(self, request: Any, client_address: Any) -> None:
        self.scripted._record_failure(f"the server itself: {traceback.format_exc()}")


class _Handler(BaseHTTPRequestHandler):
    """Reads one request after the other from a connection and sends what the server makes of it."""

    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True
    server: _Listener

    def handle(self) -> None:
        try:
            super().handle()
        except ConnectionError:
            # The client hung up, or the server does: both are ordinary ends of a connection.
            self.close_connection = True

    def exchange(self) -> None:
        headers = {name.lower(): value for name, value in self.headers.items()}
        try:
            body = self._read_body(headers)
        except ValueError as error:
            self.send_error(400, str(error))
            return
        if body is None:
            self.close_connection = True
            return
        self._send(self.server.scripted._answer(self.command, self.path, headers, body))

    do_GET = do_HEAD = do_POST = do_PUT = do_PATCH = do_DELETE = do_OPTIONS = exchange  # noqa: N815 - fixed by the base

    def send_error(self, code: int, message: str | None = None, explain: str | None = None) -> None:
        """Take what the base class could not read for what it is: a protocol error. It ends the connection."""
        target = getattr(self, "path", "") or "/"
        scripted = self.server.scripted
        method = getattr(self, "command", None) or "?"
        scripted._record_protocol_error(ProtocolError("openai", method, target, f"HTTP: {message}", b""))
        self.close_connection = True
        refusal = HttpError(400, f"HTTP: {message}")
        self._send(wire.of_error(scripted._openai, _request_id(b""), refusal))

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the name is the base class's
        """Log nothing: the server keeps the account."""

    def _read_body(self, headers: Mapping[str, str]) -> bytes | None:
        """Return the body, or None if the client hung up before its end."""
        if headers.get("transfer-encoding", "").lower() == "chunked":
            return self._read_chunks()
        length = int(headers.get("content-length", "0"))
        if length < 0:
            raise ValueError("content-length is negative")
        body = self.rfile.read(length)
        return body if len(body) == length else None

    def _read_chunks(self) -> bytes | None:
        chunks: list[bytes] = []
        while True:
            line = self.rfile.readline(1024)
            if not line:
                return None
            size = int(line.split(b";")[0], 16)
            if size < 0:
                raise ValueError("the size of a chunk is negative")
            chunks.append(self.rfile.read(size))
            if len(chunks[-1]) < size:
                return None
            ending = self.rfile.readline(1024)
            while size == 0 and ending not in (b"\r\n", b"\n", b""):
                ending = self.rfile.readline(1024)
            if size == 0:
                return b"".join(chunks)

    def _send(self, response: wire.Wire) -> None:
        stopping = self.server.scripted._stopping
        if stopping.wait(response.delay_s) or response.cut == "before":
            self._hang_up()
            return
        chunked = response.length is None and self.request_version != "HTTP/1.0"
        framing = ("transfer-encoding", "chunked") if chunked else ("content-length", str(response.length))
        lines = [f"HTTP/1.1 {response.status} {_reason(response.status)}"]
        lines += [f"{name}: {value}" for name, value in (*response.headers, framing)]
        if self.close_connection:
            lines.append("connection: close")
        pending = "\r\n".join([*lines, "", ""]).encode("latin-1")
        for part in response.parts:
            self.wfile.write(pending + (b"%x\r\n%b\r\n" % (len(part), part) if chunked else part))
            pending = b""
            if stopping.wait(response.pause_s):
                self._hang_up()
                return
        if response.cut == "after":
            self.wfile.write(pending)
            self._hang_up()
            return
        self.wfile.write(pending + (b"0\r\n\r\n" if chunked else b""))

    def _hang_up(self) -> None:
        self.close_connection = True
        _hang_up(self.connection)


def _reason(status: int) -> str:
    try:
        return HTTPStatus(status).phrase
    except ValueError:
        return "Overloaded"  # 529, which is in no registry


def _hang_up(connection: socket.socket) -> None:
    with contextlib.suppress(OSError):  # it may be closed already
        connection.shutdown(socket.SHUT_RDWR)
