"""What other tools check exactly, as our checks of exactly the same meaning.

Each function gives candidates in the order of preference: (kind, parameters). The first whose kind this version knows and
whose parameters are valid is taken; an empty list means that nothing here means the same. Where no kind of its own says
it, a ``command`` does, which runs in a fresh container over a copy of the workspace as the agent left it.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Collection, Sequence

from gate.domain.base import Json

Spec = tuple[str, dict[str, Json]]

_GLOB = re.compile(r"[*?\[]")
_TAME_GLOB = re.compile(r"[\w./*?-]+")


def contains(text: str, *, ignore_case: bool = False) -> list[Spec]:
    """The final response contains a literal text."""
    return [("response_contains", {"keyword": text, "ignore_case": ignore_case})]


def not_contains(text: str, *, ignore_case: bool = False) -> list[Spec]:
    """The final response does not contain a literal text."""
    return [("response_not_contains", {"pattern": text, "ignore_case": ignore_case})]


def matches(pattern: str, *, ignore_case: bool = False) -> list[Spec]:
    """A regular expression is found in the final response."""
    return [("response_matches", {"pattern": pattern, "ignore_case": ignore_case})]


def not_matches(pattern: str, *, ignore_case: bool = False) -> list[Spec]:
    """A regular expression is not found in the final response."""
    return [("response_not_matches", {"pattern": pattern, "ignore_case": ignore_case})]


def not_empty() -> list[Spec]:
    """There is a final response with at least one character."""
    return [("response_matches", {"pattern": r"(?s)\A."})]


def tool_used(tool: str, *, at_least: int | None = 1, at_most: int | None = None) -> list[Spec]:
    """A tool was called so often."""
    bounds = {"min": at_least, "max": at_most}
    return [("tool_call_count", {"tool": tool, **{key: value for key, value in bounds.items() if value is not None}})]


def tool_not_used(tool: str) -> list[Spec]:
    """A tool was never called."""
    return [("tool_call_count", {"tool": tool, "max": 0})]


def file_exists(path: str, fixtures: Collection[str] = ()) -> list[Spec]:
    """A file (or one that matches a glob) is in the workspace at the end, whoever put it there.

    Our ``file_exists`` asks for a file that the run made or changed: the same thing only where the case does not bring it.
    """
    if _GLOB.search(path):
        return _glob(path, "compgen -G {} > /dev/null")
    same: list[Spec] = [] if path in fixtures else [("file_exists", {"path": path})]
    return [*same, ("command", {"run": f"test -e {shlex.quote(path)}"})]


def file_absent(path: str) -> list[Spec]:
    """No file of this path (or glob) is in the workspace at the end."""
    if "**" in path or set("?[") & set(path):
        return _glob(path, "! compgen -G {} > /dev/null")
    return [("file_absent", {"path": path})]


def file_contains(path: str, text: str) -> list[Spec]:
    """A file (or any that matches a glob) contains a literal text."""
    if not _GLOB.search(path):
        return [("file_contains", {"path": path, "text": text})]
    if "\n" in text or not _TAME_GLOB.fullmatch(path):
        return []
    return [("command", {"run": f"shopt -s globstar nullglob; grep -qsF -e {shlex.quote(text)} -- {path} /dev/null"})]


def file_not_contains(path: str, text: str) -> list[Spec]:
    """A file is there and does not contain a literal text."""
    return [] if _GLOB.search(path) else [("file_not_contains", {"path": path, "text": text})]


def file_matches(path: str, pattern: str, *, ignore_case: bool = False) -> list[Spec]:
    """A regular expression is found in a file."""
    if _GLOB.search(path):
        return []
    return [("file_contains", {"path": path, "pattern": f"(?i){pattern}" if ignore_case else pattern})]


def file_not_matches(path: str, pattern: str, *, ignore_case: bool = False) -> list[Spec]:
    """A file is there and a regular expression is not found in it."""
    if _GLOB.search(path):
        return []
    return [("file_not_contains", {"path": path, "pattern": pattern, "ignore_case": ignore_case})]


def unchanged(path: str) -> list[Spec]:
    """A file that the case brings is byte for byte what it was."""
    return [("file_unchanged", {"path": path})]


def any_of(texts: Sequence[str], *, ignore_case: bool = False) -> list[Spec]:
    """At least one of some literal texts is in the final response."""
    return [("response_contains_any", {"texts": list(texts), "ignore_case": ignore_case})]


def equals(text: str) -> list[Spec]:
    """The final response is this text; white space around it aside."""
    return [("response_equals", {"text": text})]


def skill_opened(*, opened: bool = True) -> list[Spec]:
    """The agent opened the skill, or left it alone."""
    return [("skill_opened", {"opened": opened})]


def command_ran(pattern: str, *, ran: bool = True) -> list[Spec]:
    """A regular expression is found in a command line of the agent, or in none."""
    return [("command_ran" if ran else "command_not_ran", {"pattern": pattern})]


_BUDGETS = {
    "max_turns": "max_steps", "max_steps": "max_steps", "max_iterations": "max_steps", "max_tokens": "max_tokens",
    "max_tool_calls": "max_tool_calls", "max_errors": "max_errors", "max_cost_usd": "max_cost_usd",
}  # fmt: skip


def budget(what: str, limit: float) -> list[Spec]:
    """A limit that the other tool judges by: turns, tokens, tool calls, errors, cost, time in milliseconds."""
    if what in ("max_duration_ms", "max_latency_ms"):
        return [("run_budget", {"max_seconds": limit / 1000})]
    return [("run_budget", {_BUDGETS[what]: limit})] if what in _BUDGETS else []


def command(
    run: str, *, exit_code: int = 0, stdout_contains: str | None = None, timeout_s: int | None = None
) -> list[Spec]:
    """A command over the workspace as the agent left it."""
    values: dict[str, Json] = {"run": run, "expect_exit": exit_code}
    if stdout_contains is not None:
        values["stdout_contains"] = stdout_contains
    if timeout_s is not None:
        values["timeout_s"] = timeout_s
    return [("command", values)]


def program(command_and_arguments: Sequence[str]) -> str:
    """A command with its arguments as one line for the shell."""
    return shlex.join(command_and_arguments)


def _glob(path: str, line: str) -> list[Spec]:
    if not _TAME_GLOB.fullmatch(path):
        return []
    return [("command", {"run": "shopt -s globstar; " + line.format(shlex.quote(path))})]
