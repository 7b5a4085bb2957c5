"""The mock servers of a case as an agent program finds them: MCP over HTTP, one answer a request, nothing pushed."""

from __future__ import annotations

import asyncio
import json
from typing import TYPE_CHECKING, Any

from gate.domain.gateway import McpCall

if TYPE_CHECKING:
    from gate.protocols import McpTools

VERSION = "2025-06-18"
_PARSE_ERROR, _INVALID, _NO_METHOD, _BAD_PARAMETERS = -32700, -32600, -32601, -32602


class Servers:
    """The servers of one run; state per run is the tools' own."""

    def __init__(self, tools: McpTools) -> None:
        self._tools = tools
        self._specs: dict[str, dict[str, Any]] = {}
        for spec in tools.specs():
            server, _, name = spec.name.removeprefix("mcp__").partition("__")
            self._specs.setdefault(server, {})[name] = spec
        self._lock = asyncio.Lock()

    def __contains__(self, server: str) -> bool:
        return server in self._specs

    async def answer(self, server: str, raw: bytes) -> tuple[int, dict[str, Any] | None, McpCall | None]:
        """(status, body or None, the call that was made) for one message of JSON-RPC. Never raises for what was sent."""
        try:
            message = json.loads(raw)
        except (ValueError, RecursionError):
            return 400, _error(None, _PARSE_ERROR, "not JSON"), None
        if not isinstance(message, dict) or not isinstance(message.get("method"), str):
            return 400, _error(None, _INVALID, "one message with a method is taken at a time"), None
        number, method = message.get("id"), message["method"]
        if number is None:
            return 202, None, None  # a notification
        given = message.get("params")
        parameters = given if isinstance(given, dict) else {}
        if method == "tools/call":
            return await self._call(server, number, parameters)
        return 200, self._plain(server, number, method, parameters), None

    def _plain(self, server: str, number: Any, method: str, parameters: dict[str, Any]) -> dict[str, Any]:
        if method == "initialize":
            wanted = parameters.get("protocolVersion")
            result: dict[str, Any] = {
                "protocolVersion": wanted if isinstance(wanted, str) else VERSION,
                "capabilities": {"tools": {"listChanged": False}},
                "serverInfo": {"name": server, "version": "1"},
            }
        elif method == "ping":
            result = {}
        elif method == "tools/list":
            result = {
                "tools": [
                    {
                        "name": name,
                        "description": spec.description,
                        "inputSchema": {"type": "object", **spec.input_schema},
                    }
                    for name, spec in self._specs[server].items()
                ]
            }
        else:
            return _error(number, _NO_METHOD, f"there is no method {method[:60]}")
        return {"jsonrpc": "2.0", "id": number, "result": result}

    async def _call(
        self, server: str, number: Any, parameters: dict[str, Any]
    ) -> tuple[int, dict[str, Any], McpCall | None]:
        name, arguments = parameters.get("name"), parameters.get("arguments", {})
        if name not in self._specs[server]:
            return 200, _error(number, _BAD_PARAMETERS, f"there is no tool {str(name)[:60]}"), None
        if not isinstance(arguments, dict):
            return 200, _error(number, _BAD_PARAMETERS, "the arguments are no object"), None
        whole = f"mcp__{server}__{name}"
        async with self._lock:
            # It may look at patterns in a process of its own, which takes a while.
            text, is_error = await asyncio.get_running_loop().run_in_executor(
                None, self._tools.answer, whole, arguments
            )
        result = {"content": [{"type": "text", "text": text}], "isError": is_error}
        call = McpCall(tool=whole, arguments=arguments, text=text, is_error=is_error)
        return 200, {"jsonrpc": "2.0", "id": number, "result": result}, call


def _error(number: Any, code: int, message: str) -> dict[str, Any]:
    return {"jsonrpc": "2.0", "id": number, "error": {"code": code, "message": message}}
