"""A real MCP server over Streamable HTTP on this machine, with faults at will: what a gate's client meets outside."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Literal, Self

VERSION = "2025-06-18"
Tool = Callable[[dict[str, Any]], Any]
"""Takes the arguments; returns the text of its answer, or the whole result."""


@dataclass(frozen=True)
class Answer:
    """What is sent instead of an answer of the protocol."""

    status: int = 200
    body: str = ""
    content_type: str = "application/json"
    location: str = ""
    silent: bool = False
    """Nothing is sent until the server stops."""
    drip_s: float | None = None
    """Comments of a stream of events, one after each such pause, and no event ever."""


@dataclass(frozen=True)
class Asked:
    """One message that arrived."""

    method: str
    params: dict[str, Any]
    headers: Mapping[str, str]


@dataclass
class ScriptedMcpServer:
    """Serves ``tools`` (name -> what it does). Use it as a block."""

    tools: dict[str, Tool]
    described: dict[str, dict[str, Any]] = field(default_factory=dict)
    """Name -> fields of its entry in the list instead of the usual ones."""
    token: str | None = None
    stream: bool = False
    """Whether answers come as server-sent events, after a message of the server's own."""
    page: int = 100
    version: str = VERSION
    sessions: Literal["kept", "none"] = "kept"
    faults: dict[str, list[Answer]] = field(default_factory=dict)
    """Method -> what its next messages meet instead of an answer, in order."""

    def __post_init__(self) -> None:
        self.asked: list[Asked] = []
        self.ended: list[str] = []
        self._live: set[str] = set()
        self._lock = threading.Lock()
        self._stopping = threading.Event()
        handler = type("Handler", (_Handler,), {"scripted": self})
        self._http = ThreadingHTTPServer(("127.0.0.1", 0), handler)
        self._http.daemon_threads = True
        self._http.block_on_close = False

    def __enter__(self) -> Self:
        threading.Thread(target=self._http.serve_forever, args=(0.05,), name="scripted-mcp", daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stopping.set()
        self._http.shutdown()
        self._http.server_close()

    @property
    def url(self) -> str:
        """Its endpoint."""
        return f"http://127.0.0.1:{self._http.server_address[1]}/mcp"

    def of(self, method: str) -> list[Asked]:
        """The messages of one method."""
        with self._lock:
            return [asked for asked in self.asked if asked.method == method]

    def calls(self) -> list[tuple[str, dict[str, Any]]]:
        """Every tool that was called, with its arguments."""
        return [(asked.params["name"], asked.params["arguments"]) for asked in self.of("tools/call")]

    @property
    def open_sessions(self) -> int:
        """Sessions that nobody ended."""
        with self._lock:
            return len(self._live)

    def forget_sessions(self) -> None:
        """As after a restart."""
        with self._lock:
            self._live.clear()

    def _result(self, method: str, params: dict[str, Any]) -> dict[str, Any]:
        if method == "initialize":
            return {
                "protocolVersion": self.version,
                "capabilities": {"tools": {}},
                "serverInfo": {"name": "scripted", "version": "1"},
            }
        if method == "tools/list":
            names = list(self.tools)
            start = int(params.get("cursor", "0"))
            listed = [self._entry(name) for name in names[start : start + self.page]]
            more = {"nextCursor": str(start + self.page)} if start + self.page < len(names) else {}
            return {"tools": listed, **more}
        answer = self.tools[params["name"]](params["arguments"])
        return answer if isinstance(answer, dict) else {"content": [{"type": "text", "text": str(answer)}]}

    def _entry(self, name: str) -> dict[str, Any]:
        usual = {"name": name, "description": f"Does {name}.", "inputSchema": {"type": "object"}}
        return {**usual, **self.described.get(name, {})}


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    scripted: ScriptedMcpServer

    def do_DELETE(self) -> None:
        server, session = self.scripted, self.headers.get("mcp-session-id", "")
        with server._lock:
            server._live.discard(session)
            server.ended.append(session)
        self._send(Answer(status=204))

    def do_POST(self) -> None:
        server = self.scripted
        message = json.loads(self.rfile.read(int(self.headers["content-length"])))
        method, number = message["method"], message.get("id")
        headers = {name.lower(): value for name, value in self.headers.items()}
        with server._lock:
            server.asked.append(Asked(method, message.get("params", {}), headers))
            fault = server.faults[method].pop(0) if server.faults.get(method) else None
        refusal = fault or self._refusal(method, headers)
        if refusal is not None:
            self._send(refusal)
            return
        if number is None:
            self._send(Answer(status=202))
            return
        extra = {}
        if method == "initialize" and server.sessions == "kept":
            with server._lock:
                session = f"session-{len(server.ended) + len(server._live) + 1}"
                server._live.add(session)
            extra["mcp-session-id"] = session
        text = json.dumps({"jsonrpc": "2.0", "id": number, "result": server._result(method, message.get("params", {}))})
        if server.stream:
            own = json.dumps({"jsonrpc": "2.0", "method": "notifications/message", "params": {"data": "working"}})
            body = f": hello\n\nevent: message\ndata: {own}\n\nevent: message\r\ndata: {text}\r\n\r\n"
            self._send(Answer(body=body, content_type="text/event-stream"), extra)
        else:
            self._send(Answer(body=text), extra)

    def _refusal(self, method: str, headers: Mapping[str, str]) -> Answer | None:
        server = self.scripted
        if server.token is not None and headers.get("authorization") != f"Bearer {server.token}":
            return Answer(status=401)
        if method == "initialize":
            return None
        with server._lock:
            known = headers.get("mcp-session-id") in server._live
        if server.sessions == "kept" and not known:
            return Answer(status=404)
        return None if headers.get("mcp-protocol-version") == server.version else Answer(status=400)

    def _send(self, answer: Answer, extra: Mapping[str, str] | None = None) -> None:
        stopping = self.scripted._stopping
        if answer.silent:
            stopping.wait()
            self.close_connection = True
            return
        self.send_response(answer.status)
        for name, value in {**(extra or {}), **({"location": answer.location} if answer.location else {})}.items():
            self.send_header(name, value)
        if answer.drip_s is not None:
            self.send_header("content-type", "text/event-stream")
            self.send_header("connection", "close")
            self.end_headers()
            try:
                while not stopping.wait(answer.drip_s):
                    self.wfile.write(b": wait\n\n")
            except OSError:  # the client has had enough
                self.close_connection = True
            return
        data = answer.body.encode("utf-8", "surrogatepass")
        if data:
            self.send_header("content-type", answer.content_type)
        self.send_header("content-length", str(len(data)))
        self.end_headers()
        try:
            self.wfile.write(data)
        except OSError:
            self.close_connection = True

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the name is the base class's
        """Log nothing."""
