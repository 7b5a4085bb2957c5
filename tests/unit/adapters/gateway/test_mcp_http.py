"""The mock servers of a case over HTTP: the part of MCP that agent programs need, and plain errors for the rest."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gate.adapters.gateway.mcp_http import VERSION, Servers
from gate.domain.chat import ToolSpec


class Tools:
    """Two servers with one tool each."""

    def specs(self) -> tuple[ToolSpec, ...]:
        return tuple(ToolSpec(name=f"mcp__{name}__search", description="d", input_schema={}) for name in ("one", "two"))

    def answer(self, name: str, arguments: dict[str, Any]) -> tuple[str, bool]:
        return f"{name} {arguments}", "bad" in arguments


def ask(raw: object, server: str = "one") -> tuple[int, Any, Any]:
    data = raw if isinstance(raw, bytes) else json.dumps(raw).encode()

    async def go() -> tuple[int, Any, Any]:
        return await Servers(Tools()).answer(server, data)

    return asyncio.run(go())


def call(method: str, **parameters: Any) -> dict[str, Any]:
    return {"jsonrpc": "2.0", "id": 7, "method": method, "params": parameters}


def test_it_agrees_to_the_version_that_it_is_asked_for() -> None:
    status, answer, _ = ask(call("initialize", protocolVersion="2025-03-26"))
    assert (status, answer["id"], answer["result"]["protocolVersion"]) == (200, 7, "2025-03-26")
    assert ask(call("initialize"))[1]["result"]["protocolVersion"] == VERSION
    assert ask(call("initialize"))[1]["result"]["capabilities"] == {"tools": {"listChanged": False}}


def test_each_server_has_its_own_tools() -> None:
    (tool,) = ask(call("tools/list"))[1]["result"]["tools"]
    assert (tool["name"], tool["inputSchema"]) == ("search", {"type": "object"})
    assert "three" not in Servers(Tools())


@pytest.mark.parametrize(("arguments", "is_error"), [({"q": 1}, False), ({"bad": 1}, True)])
def test_a_call_is_answered_and_handed_over_for_the_record(arguments: dict[str, Any], is_error: bool) -> None:
    status, answer, made = ask(call("tools/call", name="search", arguments=arguments), "two")
    assert status == 200
    assert answer["result"] == {
        "content": [{"type": "text", "text": f"mcp__two__search {arguments}"}],
        "isError": is_error,
    }
    assert (made.tool, made.arguments, made.is_error) == ("mcp__two__search", arguments, is_error)


def test_notifications_have_no_answer() -> None:
    assert ask({"jsonrpc": "2.0", "method": "notifications/initialized"}) == (202, None, None)
    assert ask(call("ping"))[1]["result"] == {}


@pytest.mark.parametrize(
    ("raw", "code"),
    [
        (b"{", -32700),
        ([], -32600),
        ({"id": 1}, -32600),
        (call("resources/list"), -32601),
        (call("tools/call", name="other"), -32602),
        (call("tools/call", name="search", arguments=[]), -32602),
    ],
)
def test_what_it_does_not_know_is_an_error_and_no_call(raw: object, code: int) -> None:
    _, answer, made = ask(raw)
    assert answer["error"]["code"] == code
    assert made is None


@given(st.recursive(st.none() | st.text() | st.integers(), lambda inner: st.lists(inner) | st.dictionaries(
    st.sampled_from(["id", "method", "params", "name", "arguments", "jsonrpc"]), inner), max_leaves=10))  # fmt: skip
def test_nothing_that_is_sent_makes_it_fail(raw: Any) -> None:
    status, _, _ = ask(raw)
    assert status in (200, 202, 400)
