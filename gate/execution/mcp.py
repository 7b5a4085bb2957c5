"""Mock MCP servers for the built-in loop: scripted answers, state per run, every call on the record (sandbox.md 4)."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

from gate.domain.chat import ToolSpec
from gate.domain.suite import McpResponse, McpServer, McpTool, McpWhen
from gate.execution import mcp_worker

MAX_CALLS = 200
"""Calls of one run that are answered; an agent that makes more is going round in circles."""
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


class _Unusable(Exception):  # noqa: N818 - a state of the fixture, not an error of the gate
    """A pattern or a schema of the fixture cannot be used; the message is a clause."""


class MockMcp:
    """The servers of one run. Never shared between runs: an id given out in one arm is unknown in the other."""

    def __init__(self, servers: Sequence[McpServer]) -> None:
        self._tools = {f"mcp__{server.name}__{tool.name}": tool for server in servers for tool in server.tools}
        self._used: dict[tuple[str, int], int] = {}
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
        tool = self._tools[name]
        try:
            problem = _invalid(arguments, tool.input_schema)
            if problem:
                return McpAnswer(f"invalid arguments: {problem}", is_error=True)
            for index, response in enumerate(tool.responses):
                used = self._used.get((name, index), 0)
                if (response.times is None or used < response.times) and _fits(response, arguments):
                    self._used[name, index] = used + 1
                    return McpAnswer(_text(response), is_error=response.is_error)
        except _Unusable as error:
            return McpAnswer(_NO_ANSWER, is_error=True, gap=f"fixture gap: {name}: {error}")
        return _unmatched(name, tool, arguments)


_NO_ANSWER = "the mock server has no answer for this call"


def _unmatched(name: str, tool: McpTool, arguments: dict[str, Any]) -> McpAnswer:
    """A call that the fixture does not know. It is never answered with invented data."""
    if tool.on_unmatched == "empty":
        return McpAnswer("", is_error=False)
    given = json.dumps(arguments, sort_keys=True, ensure_ascii=False)[:200]
    said = f"{name} was called with {given}"
    if tool.on_unmatched == "fail_case":
        return McpAnswer(_NO_ANSWER, is_error=True, fails=f"{said}, which fails this case")
    return McpAnswer(_NO_ANSWER, is_error=True, gap=f"fixture gap: {said} and no response of the fixture fits")


def _text(response: McpResponse) -> str:
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
