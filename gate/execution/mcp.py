"""MCP servers of a case: scripted, recorded or real answers, every call on the record (sandbox.md 4).

What is scripted or recorded has a state per run. A real server has its own, which nobody separates: it is reached by the
gate, never from a sandbox, and only where the base policy names it.
"""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any, NamedTuple, Protocol

from gate.domain.chat import ToolSpec
from gate.domain.mcp import McpListing
from gate.domain.suite import McpCall, McpResponse, McpServer, McpTool, McpWhen
from gate.errors import McpServerError
from gate.execution import mcp_worker
from gate.protocols import McpLine, McpReach, Recorder

MAX_CALLS = 200
"""Calls of one run that are answered; an agent that makes more is going round in circles."""
OVERSIZED = 2_000_000
"""Characters of an answer with the fault ``oversized``."""
DEADLINE_S = 20.0
"""For one look at an author's pattern or schema."""

_WORKER = Path(mcp_worker.__file__)
_BRANCHES = re.compile(r"[*+?{|]")
_ENDLESS = ("pattern", "patternProperties", "propertyNames", "$ref", "$dynamicRef", "$recursiveRef")
"""Keywords of a schema whose evaluation can take for ever: expressions, and references that multiply."""


class McpAnswer(NamedTuple):
    """What a mock tool answered."""

    text: str
    is_error: bool
    gap: str | None = None
    """The fixture has no answer for such a call (or cannot be used): nobody's fault but its own."""
    fails: str | None = None
    """The fixture says that such a call fails the case."""
    timed_out: bool = False
    """The server gave no answer in time (a fault of the fixture)."""


class _Unusable(Exception):  # noqa: N818 - a state of the fixture, not an error of the gate
    """A pattern or a schema of the fixture cannot be used; the message is a clause."""


class RunMcp(Protocol):
    """The servers of one run, whatever they are."""

    def specs(self) -> tuple[ToolSpec, ...]:
        """The tools as the model sees them, named ``mcp__<server>__<tool>``."""

    def __contains__(self, name: str) -> bool: ...

    def call(self, name: str, arguments: dict[str, Any]) -> McpAnswer:
        """Answer one call. Raises McpServerError where a real server did not."""


class MockMcp:
    """The servers of one run. Never shared between runs: an id given out in one arm is unknown in the other."""

    def __init__(self, servers: Sequence[McpServer]) -> None:
        """Raises ValueError for a real server: nothing may answer in its place."""
        if any(server.mode == "real" for server in servers):
            raise ValueError("a real MCP server is not mocked")
        self._tools = {f"mcp__{server.name}__{tool.name}": tool for server in servers for tool in server.tools}
        self._servers = {f"mcp__{server.name}__{tool.name}": server for server in servers for tool in server.tools}
        self._used: dict[tuple[str, int], int] = {}
        self._replayed: set[tuple[str, int]] = set()
        self._gone: set[str] = set()
        self._done: set[tuple[str, str]] = set()
        self._calls = 0

    def specs(self) -> tuple[ToolSpec, ...]:
        """The tools as the model sees them, named ``mcp__<server>__<tool>``."""
        return tuple(
            ToolSpec(name=name, description=tool.description, input_schema=tool.input_schema)
            for name, tool in self._tools.items()
        )

    def __contains__(self, name: str) -> bool:
        return name in self._tools

    def call(self, name: str, arguments: dict[str, Any]) -> McpAnswer:
        """Answer one call: arguments are validated first, then the first response that fits and is not used up."""
        self._calls += 1
        if self._calls > MAX_CALLS:
            return McpAnswer(f"too many calls: a run may make {MAX_CALLS}", is_error=True)
        tool, server = self._tools[name], self._servers[name]
        if server.name in self._gone:
            return McpAnswer("the server is not connected", is_error=True)
        try:
            problem = _invalid(arguments, tool.input_schema)
            if problem:
                return McpAnswer(f"invalid arguments: {problem}", is_error=True)
            if server.mode == "replay":
                return self._replay(server, tool, name, arguments)
            for index, response in enumerate(tool.responses):
                used = self._used.get((name, index), 0)
                left = response.times is None or used < response.times
                known = response.after is None or (server.name, response.after) in self._done
                if left and known and _fits(response, arguments):
                    self._used[name, index] = used + 1
                    answer = self._respond(server, response)
                    if not answer.is_error:
                        self._done.add((server.name, tool.name))
                    return answer
        except _Unusable as error:
            return McpAnswer(_NO_ANSWER, is_error=True, gap=f"fixture gap: {name}: {error}")
        return _unmatched(name, tool, arguments)

    def _respond(self, server: McpServer, response: McpResponse) -> McpAnswer:
        if response.fault is None:
            return McpAnswer(_text(response), is_error=response.is_error)
        if response.fault == "timeout":
            return McpAnswer("the server gave no answer in time", is_error=True, timed_out=True)
        if response.fault == "oversized":
            return McpAnswer("x" * OVERSIZED, is_error=False)
        if response.fault == "disconnect":
            self._gone.add(server.name)
            return McpAnswer("the connection to the server was lost", is_error=True)
        return McpAnswer("the server answered with a protocol error (-32603: internal error)", is_error=True)

    def _replay(self, server: McpServer, tool: McpTool, name: str, arguments: dict[str, Any]) -> McpAnswer:
        """The first recorded call with these arguments that was not given back yet; none is a gap of the cassette."""
        for index, call in enumerate(server.cassette):
            key = (server.name, index)
            if call.tool == tool.name and key not in self._replayed and _equal(call.arguments, arguments):
                self._replayed.add(key)
                return McpAnswer(_text(call), is_error=call.is_error)
        return _unmatched(name, tool, arguments, "the cassette holds no such call that was not given back")


class _Real(NamedTuple):
    """A tool of a real server in one run."""

    line: McpLine
    own_name: str
    spec: ToolSpec


class MixedMcp:
    """The servers of one run of which at least one is real."""

    def __init__(self, mocks: MockMcp, real: Mapping[str, _Real]) -> None:
        self._mocks = mocks
        self._real = dict(real)
        self._calls = 0

    def specs(self) -> tuple[ToolSpec, ...]:
        """The tools as the model sees them, the real ones last."""
        return (*self._mocks.specs(), *(tool.spec for tool in self._real.values()))

    def __contains__(self, name: str) -> bool:
        return name in self._mocks or name in self._real

    def call(self, name: str, arguments: dict[str, Any]) -> McpAnswer:
        """Answer one call; arguments that the tool's own schema refuses never leave the gate."""
        tool = self._real.get(name)
        if tool is None:
            return self._mocks.call(name, arguments)
        self._calls += 1
        if self._calls > MAX_CALLS:
            return McpAnswer(f"too many calls: a run may make {MAX_CALLS}", is_error=True)
        try:
            problem = _invalid(arguments, tool.spec.input_schema)
        except _Unusable:
            problem = None  # the server gave this schema, and looks at the arguments itself
        if problem:
            return McpAnswer(f"invalid arguments: {problem}", is_error=True)
        result = tool.line.call(tool.own_name, arguments)
        return McpAnswer(result.text or "(no output)", is_error=result.is_error)


@contextmanager
def opened(servers: Sequence[McpServer], reach: McpReach | None, log: Recorder) -> Iterator[RunMcp]:
    """The servers of one run, each real one in a session of its own; what those offer is written down first.

    Raises McpServerError where a real one cannot be had, or lacks a tool that the case names.
    """
    mocks = MockMcp([server for server in servers if server.mode != "real"])
    wanted = [server for server in servers if server.mode == "real"]
    if not wanted:
        yield mocks
        return
    if reach is None:
        raise McpServerError("There is no way to a real MCP server here.", retryable=False)
    with ExitStack() as lines:
        real: dict[str, _Real] = {}
        for server in wanted:
            listing = reach.listing(server.name)
            specs = _asked_for(server, listing)
            log.append(
                "mcp_server",
                server=server.name,
                url=listing.url,
                protocol=listing.protocol,
                software=listing.software,
                listed=list(listing.listed),
                tools=[spec.to_json() for spec in specs.values()],
            )
            line = lines.enter_context(reach.connect(server.name))
            for name, spec in specs.items():
                whole = f"mcp__{server.name}__{name}"
                real[whole] = _Real(line, name, spec.model_copy(update={"name": whole}))
        yield MixedMcp(mocks, real)


def _asked_for(server: McpServer, listing: McpListing) -> dict[str, ToolSpec]:
    offered = {spec.name: spec for spec in listing.tools}
    lost = [tool.name for tool in server.tools if tool.name not in offered]
    if lost:
        raise McpServerError(
            f"The MCP server {server.name} ({listing.url}) does not offer the tool {lost[0]}, which the case names.",
            remedy="Mend the case, or the server.",
            retryable=False,
        )
    return {tool.name: offered[tool.name] for tool in server.tools}


_NO_ANSWER = "the server has no answer for this call"


def _unmatched(
    name: str, tool: McpTool, arguments: dict[str, Any], why: str = "no response of the fixture fits"
) -> McpAnswer:
    """A call that the fixture does not know. It is never answered with invented data."""
    if tool.on_unmatched == "empty":
        return McpAnswer("", is_error=False)
    given = json.dumps(arguments, sort_keys=True, ensure_ascii=False)[:200]
    said = f"{name} was called with {given}"
    if tool.on_unmatched == "fail_case":
        return McpAnswer(_NO_ANSWER, is_error=True, fails=f"{said}, which fails this case")
    return McpAnswer(_NO_ANSWER, is_error=True, gap=f"fixture gap: {said} and {why}")


def _text(response: McpResponse | McpCall) -> str:
    if response.text is not None:
        return response.text
    return json.dumps(response.structured, ensure_ascii=False, sort_keys=True)


def _fits(response: McpResponse, arguments: dict[str, Any]) -> bool:
    return all(_holds(condition, arguments, name) for name, condition in response.when.items())


def _holds(condition: McpWhen, arguments: dict[str, Any], name: str) -> bool:
    value: Any = arguments
    present = True
    for part in name.split("."):
        if not isinstance(value, dict) or part not in value:
            present = False
            break
        value = value[part]
    if condition.absent:
        return not present
    if not present:
        return False
    if condition.any:
        return True
    if condition.regex is not None:
        return isinstance(value, str) and _found(condition.regex, value)
    if condition.contains is not None:
        return condition.contains in value if isinstance(value, str | list) else False
    return _equal(value, condition.equals)


def _equal(one: Any, other: Any) -> bool:
    """Equality of JSON values: true is not 1, but 1 is 1.0."""
    if isinstance(one, bool) or isinstance(other, bool):
        return one is other
    if isinstance(one, dict) and isinstance(other, dict):
        return one.keys() == other.keys() and all(_equal(value, other[key]) for key, value in one.items())
    if isinstance(one, list) and isinstance(other, list):
        return len(one) == len(other) and all(map(_equal, one, other))
    return bool(one == other)


def _found(pattern: str, text: str) -> bool:
    job = {"pattern": pattern, "text": text}
    answer = _in_child(job) if _BRANCHES.search(pattern) else mcp_worker.answer(job)
    if "error" in answer:
        raise _Unusable(f"the pattern {pattern[:80]!r} cannot be used: {answer['error']}")
    return bool(answer["found"])


def _invalid(arguments: dict[str, Any], schema: dict[str, Any]) -> str | None:
    job = {"schema": schema, "arguments": arguments}
    answer = _in_child(job) if _may_be_endless(schema) else mcp_worker.answer(job)
    if "error" in answer:
        raise _Unusable(f"its input schema cannot be used: {answer['error']}")
    words = answer["invalid"]
    return None if words is None else str(words)


def _may_be_endless(schema: Any) -> bool:
    if isinstance(schema, dict):
        return any(key in _ENDLESS or _may_be_endless(value) for key, value in schema.items())
    return isinstance(schema, list) and any(map(_may_be_endless, schema))


def _in_child(job: dict[str, Any]) -> dict[str, Any]:
    """The answer of a process that is killed at a deadline: Python cannot stop an expression that never ends."""
    try:
        done = subprocess.run(
            [sys.executable, "-I", str(_WORKER)],
            input=json.dumps(job),
            capture_output=True,
            encoding="utf-8",
            env={},
            timeout=DEADLINE_S,
            check=True,
        )
        answer: dict[str, Any] = json.loads(done.stdout)
    except subprocess.TimeoutExpired:
        return {"error": f"it was not done within {DEADLINE_S:g} s"}
    except (subprocess.CalledProcessError, ValueError):
        return {"error": "the process that looked at it ended"}
    return answer
