"""Real MCP servers over Streamable HTTP (revisions 2025-03-26 to 2025-11-25). The gate is the client; no sandbox is.

Written on the transport that the model SDKs bring: of the protocol a gate needs initialize, tools/list and tools/call, and
the protocol's own SDK is an asynchronous client and server in one whose major versions differ.
"""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any, NoReturn

from gate import __version__
from gate.adapters.model_calls import http_client
from gate.domain.chat import ToolSpec
from gate.domain.mcp import McpListing, McpResult
from gate.errors import McpServerError

if TYPE_CHECKING:
    import httpx2
    from pydantic import SecretStr

    from gate.settings import RealMcpServer

VERSIONS = ("2025-06-18", "2025-03-26", "2025-11-25")
"""The first is asked for; a server may answer with another one that it speaks."""
CALL_SECONDS = 60.0
"""For one answer, whole: one that comes in drips is no answer either."""
MAX_BYTES = 4_000_000
"""Of one answer."""
TRIES = 3
"""How often a session tries to have a server's list of tools."""
MAX_PAGES = 50
MAX_DESCRIPTION = 4_000
"""Characters of a tool's description that go to a model."""
MAX_SCHEMA = 64_000
"""Characters of a tool's input schema."""
MAX_DEPTH = 60
"""Levels of it."""
_INVALID_PARAMETERS = -32602


class McpHttp:
    """``gate.protocols.McpReach`` over HTTP."""

    def __init__(
        self, servers: Mapping[str, RealMcpServer], tokens: Mapping[str, SecretStr], *, seconds: float = CALL_SECONDS
    ) -> None:
        """``tokens``: name of the environment variable -> what it held."""
        self._servers = dict(servers)
        self._tokens = dict(tokens)
        self._seconds = seconds
        self._listings: dict[str, McpListing] = {}
        self._failures: dict[str, list[McpServerError]] = {}
        self._lock = threading.Lock()

    def listing(self, server: str) -> McpListing:
        """What a server offers. After TRIES failures the server is given up: every run would wait for it again."""
        with self._lock:
            failures = self._failures.setdefault(server, [])
            if len(failures) >= TRIES:
                raise McpServerError(
                    f"{failures[-1].message} It was given up after {TRIES} tries.",
                    remedy=failures[-1].remedy or "Start the session again when the server answers.",
                    retryable=False,
                )
            if server not in self._listings:
                try:
                    with self._open(server) as line:
                        self._listings[server] = line.listing()
                except McpServerError as error:
                    failures.append(error)
                    raise
            return self._listings[server]

    @contextmanager
    def connect(self, server: str) -> Iterator[_Line]:
        """A fresh session, for the tools of ``listing``."""
        allowed = {tool.name for tool in self.listing(server).tools}
        with self._open(server) as line:
            line.allowed = frozenset(allowed)
            yield line

    @contextmanager
    def _open(self, name: str) -> Iterator[_Line]:
        server = self._servers.get(name)
        if server is None:
            raise McpServerError(
                f"The base policy does not name the real MCP server {name}.",
                remedy="Name it under mcp_real.",
                retryable=False,
            )
        token = self._tokens.get(server.token_env) if server.token_env else None
        if server.token_env and token is None:
            raise McpServerError(
                f"The token of the MCP server {name} is missing: {server.token_env} is not set.",
                remedy="Give the job this variable, from a secret of the repository.",
                retryable=False,
            )
        line = _Line(name, server, token, self._seconds)
        try:
            line.begin()
            yield line
        finally:
            line.end()


class _TooLarge(Exception):  # noqa: N818 - what came of an answer, and no error of the gate
    """An answer was larger than MAX_BYTES."""


class _Refused(Exception):  # noqa: N818 - likewise
    """The server answered with an error of JSON-RPC."""

    def __init__(self, code: Any, message: str) -> None:
        super().__init__(message)
        self.code = code


class _Line:
    """One session with one server."""

    def __init__(self, name: str, server: RealMcpServer, token: SecretStr | None, seconds: float) -> None:
        self._name = name
        self._server = server
        self._token = token
        self._seconds = seconds
        # A server on this machine is asked directly, whatever the proxies of the environment are.
        self._http = http_client(None, timeout_s=seconds, proxies=server.url.startswith("https://"))
        self._session = ""
        self._number = 0
        self._protocol = ""
        self._software = ""
        self.allowed: frozenset[str] = frozenset()

    def begin(self) -> None:
        """Agree on a version."""
        result = self._ask(
            "initialize",
            {
                "protocolVersion": VERSIONS[0],
                "capabilities": {},
                "clientInfo": {"name": "skill-gate", "version": __version__},
            },
        )
        version, info = result.get("protocolVersion"), result.get("serverInfo")
        if version not in VERSIONS:
            self._fail(f"speaks version {_clip(version)} of the protocol; the gate knows {', '.join(VERSIONS)}")
        self._protocol = str(version)
        if isinstance(info, dict):
            self._software = _clip(f"{info.get('name', '')} {info.get('version', '')}".strip())
        with self._sent({"jsonrpc": "2.0", "method": "notifications/initialized"}, self._deadline()) as response:
            self._raise_for(response, response.status_code)

    def end(self) -> None:
        """Let the server forget the session, as far as it listens."""
        import httpx2

        with suppress(httpx2.HTTPError):
            if self._session:
                self._http.delete(self._server.url, headers=self._headers(), timeout=min(5.0, self._seconds))
        self._http.close()

    def listing(self) -> McpListing:
        """``tools/list``, all pages."""
        tools: dict[str, Any] = {}
        cursor: Any = None
        for _ in range(MAX_PAGES):
            page = self._ask("tools/list", {"cursor": cursor} if cursor else {})
            listed = page.get("tools")
            if not isinstance(listed, list):
                self._fail("gave no list of its tools")
            tools.update(
                (item["name"], item) for item in listed if isinstance(item, dict) and _is_name(item.get("name"))
            )
            cursor = page.get("nextCursor")
            if not cursor:
                break
        else:
            self._fail(f"lists its tools on more than {MAX_PAGES} pages")
        return McpListing(
            server=self._name,
            url=self._server.url,
            protocol=self._protocol,
            software=self._software,
            listed=tuple(sorted(_clip(name, 128) for name in tools)),
            tools=tuple(self._spec(tools[name]) for name in self._server.tools if name in tools),
        )

    def call(self, tool: str, arguments: dict[str, Any]) -> McpResult:
        """``tools/call``. Arguments that the server refuses and an answer that is too large are the caller's to put right."""
        if tool not in self.allowed:
            return McpResult(text=f"there is no tool {_clip(tool)}", is_error=True)
        try:
            result = self._asked("tools/call", {"name": tool, "arguments": arguments})
        except _TooLarge:
            return McpResult(text=f"the answer is larger than {MAX_BYTES} bytes: ask for less", is_error=True)
        except _Refused as refused:
            if refused.code != _INVALID_PARAMETERS:
                self._fail(f"answered with the error {_clip(refused.code)}: {refused}", retryable=True)
            return McpResult(text=f"invalid arguments: {refused}", is_error=True)
        return McpResult(text=_text_of(result), is_error=result.get("isError") is True)

    def _spec(self, tool: dict[str, Any]) -> ToolSpec:
        name, schema, description = tool["name"], tool.get("inputSchema"), tool.get("description")
        if not isinstance(schema, dict) or schema.get("type", "object") != "object":
            self._fail(f"gives its tool {name} no input schema of an object")
        if _is_deep(schema) or len(json.dumps(schema)) > MAX_SCHEMA:
            self._fail(
                f"gives its tool {name} an input schema of more than {MAX_SCHEMA} characters or {MAX_DEPTH} levels"
            )
        text = _plain(description) if isinstance(description, str) else ""
        return ToolSpec(
            name=name,
            description=text if len(text) <= MAX_DESCRIPTION else f"{text[:MAX_DESCRIPTION]} [cut]",
            input_schema={"type": "object", **json.loads(_plain(json.dumps(schema, ensure_ascii=False)))},
        )

    def _ask(self, method: str, parameters: dict[str, Any]) -> dict[str, Any]:
        """The result of a request that is the gate's own: whatever goes wrong with it is infrastructure."""
        try:
            return self._asked(method, parameters)
        except _TooLarge:
            self._fail(f"answered {method} with more than {MAX_BYTES} bytes")
        except _Refused as refused:
            self._fail(f"answered {method} with the error {_clip(refused.code)}: {refused}")

    def _asked(self, method: str, parameters: dict[str, Any]) -> dict[str, Any]:
        self._number += 1
        number = self._number
        message = {"jsonrpc": "2.0", "id": number, "method": method, "params": parameters}
        deadline = self._deadline()
        with self._sent(message, deadline) as response:
            answer = self._answer(response, number, deadline)
            self._raise_for(response, response.status_code, answer)
            if method == "initialize":
                self._session = response.headers.get("mcp-session-id", "")
                if not all("!" <= sign <= "~" for sign in self._session) or len(self._session) > 1_000:
                    self._session = ""
                    self._fail("gave a session id that the protocol does not allow")
        if answer is None:
            self._fail(f"gave no answer to {method}", retryable=True)
        error = answer.get("error")
        if error is not None:
            code, words = (error.get("code"), error.get("message")) if isinstance(error, dict) else (None, None)
            raise _Refused(code, _clip(words if isinstance(words, str) else "no message"))
        result = answer.get("result")
        if not isinstance(result, dict):
            self._fail(f"answered {method} with neither a result nor an error", retryable=True)
        return result

    def _deadline(self) -> float:
        return time.monotonic() + self._seconds

    @contextmanager
    def _sent(self, message: dict[str, Any], deadline: float) -> Iterator[httpx2.Response]:
        import httpx2

        body = json.dumps(message).encode("ascii")  # lone surrogates stay escapes
        try:
            with self._http.stream("POST", self._server.url, content=body, headers=self._headers()) as response:
                yield response
        except httpx2.TimeoutException:
            self._fail(f"gave no answer within {self._seconds:g} s", retryable=True)
        except (httpx2.HTTPError, httpx2.InvalidURL) as error:
            late = time.monotonic() > deadline
            why = f"gave no answer within {self._seconds:g} s" if late else f"was not reached: {type(error).__name__}"
            self._fail(why, retryable=True)

    def _headers(self) -> dict[str, str]:
        headers = {
            "accept": "application/json, text/event-stream",
            "accept-encoding": "identity",  # a small body must not become a large one
            "content-type": "application/json",
        }
        if self._protocol:
            headers["mcp-protocol-version"] = self._protocol
        if self._session:
            headers["mcp-session-id"] = self._session
        if self._token is not None:
            headers["authorization"] = f"Bearer {self._token.get_secret_value()}"
        return headers

    def _answer(self, response: httpx2.Response, number: int, deadline: float) -> dict[str, Any] | None:
        """The message that answers a request, from a body or from a stream of events; None where there is none."""
        kind = response.headers.get("content-type", "").partition(";")[0].strip().lower()
        pieces = self._pieces(response, deadline)
        if kind == "text/event-stream":
            texts: Iterator[str] = _events(pieces)
        elif kind == "application/json":
            texts = iter([b"".join(pieces).decode("utf-8", "replace")])
        else:
            return None
        for text in texts:
            message = _json(text)
            if isinstance(message, dict) and message.get("id") == number and "method" not in message:
                return message
            if isinstance(message, dict) and response.status_code >= 400 and "error" in message:
                return message  # an error about a message that was not read has no id
        return None

    def _pieces(self, response: httpx2.Response, deadline: float) -> Iterator[bytes]:
        size = 0
        for piece in response.iter_bytes():
            size += len(piece)
            if size > MAX_BYTES:
                raise _TooLarge
            if time.monotonic() > deadline:
                self._fail(f"gave no answer within {self._seconds:g} s", retryable=True)
            yield piece

    def _raise_for(self, response: httpx2.Response, status: int, answer: dict[str, Any] | None = None) -> None:
        """Raises McpServerError for a status that is none of an answer; a body that says which parameters are wrong is one."""
        if status < 300:
            return
        error = answer.get("error") if answer is not None else None
        if status == 400 and isinstance(error, dict) and error.get("code") == _INVALID_PARAMETERS:
            return
        if status in (401, 403):
            self._fail(f"refuses the token (status {status})", remedy=self._token_remedy())
        if status < 400:
            self._fail(
                f"redirects elsewhere (status {status}), where no token may follow",
                remedy="Write its final address into the policy.",
            )
        if status == 404 and self._session:
            self._fail("has forgotten the session (status 404)", retryable=True)
        self._fail(f"answered with status {status}", retryable=status >= 500 or status in (408, 429))

    def _token_remedy(self) -> str:
        if self._server.token_env:
            return f"Look at the secret behind {self._server.token_env}."
        return "Name a variable with its token (token_env) in the policy."

    def _fail(self, why: str, *, retryable: bool = False, remedy: str = "") -> NoReturn:
        raise McpServerError(
            f"The MCP server {self._name} ({self._server.url}) {why}.",
            remedy=remedy or ("" if retryable else "Look at the server and at mcp_real of the base policy."),
            retryable=retryable,
        )


def _json(text: str) -> Any:
    try:
        return json.loads(text, parse_constant=_no_constant)
    except (ValueError, RecursionError):
        return None


def _no_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is not JSON")


def _events(pieces: Iterator[bytes]) -> Iterator[str]:
    """The data of every server-sent event."""
    rest, data = b"", []
    for piece in pieces:
        *lines, rest = (rest + piece).split(b"\n")
        for line in lines:
            text = line.rstrip(b"\r").decode("utf-8", "replace")
            if text.startswith("data:"):
                data.append(text[5:].removeprefix(" "))
            elif not text and data:
                yield "\n".join(data)
                data = []
    if data:
        yield "\n".join(data)


def _text_of(result: dict[str, Any]) -> str:
    """What a tool answered, as a model reads it. What is no text is named and left out."""
    content = result.get("content")
    parts = [_block(item) for item in content if isinstance(item, dict)] if isinstance(content, list) else []
    if not any(parts) and result.get("structuredContent") is not None:
        parts = [json.dumps(result["structuredContent"], ensure_ascii=False, sort_keys=True)]
    return _plain("\n".join(part for part in parts if part))


def _block(item: dict[str, Any]) -> str:
    kind, resource = item.get("type"), item.get("resource")
    if kind == "text":
        return str(item.get("text", ""))
    if kind == "resource_link":
        return f"[resource {item.get('uri', '')}]"
    if kind == "resource" and isinstance(resource, dict):
        if isinstance(resource.get("text"), str):
            return str(resource["text"])
        return f"[resource {resource.get('uri', '')}: no text, left out]"
    return f"[{_clip(kind, 40)}: no text, left out]"


def _plain(text: str) -> str:
    """Without lone surrogates, which no file can hold."""
    return text.encode("utf-8", "replace").decode()


def _is_deep(value: Any) -> bool:
    level = [value]
    for _ in range(MAX_DEPTH):
        level = [
            inner
            for item in level
            if isinstance(item, dict | list)
            for inner in (item.values() if isinstance(item, dict) else item)
        ]
        if not level:
            return False
    return True


def _is_name(value: Any) -> bool:
    return isinstance(value, str) and 0 < len(value) <= 1_000


def _clip(value: Any, length: int = 200) -> str:
    """A word of the server's in a sentence of ours: one line, not too long."""
    text = _plain(" ".join(str(value).split()))
    return text if len(text) <= length else f"{text[:length]}…"
