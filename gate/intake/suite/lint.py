"""What could be better about cases that were read: prose that a program could decide, tools that do not exist."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from gate.domain.base import Json
from gate.domain.checks import CHECK_KINDS
from gate.domain.findings import Finding
from gate.domain.suite import Case
from gate.intake.notes import Notes, short
from gate.intake.suite import building

MAX_LINTS = 25
"""``could-be-exact`` notices a suite; more are counted."""

BUILT_IN_TOOLS = ("bash", "read_file", "write_file", "list_files")

_NUMBERS = {
    "one": 1, "once": 1, "two": 2, "twice": 2, "three": 3, "four": 4, "five": 5, "six": 6, "seven": 7, "eight": 8, "nine": 9,
    "ten": 10,
}  # fmt: skip
_N = r"(\d{1,6}|one|two|three|four|five|six|seven|eight|nine|ten)"
_WHO = r"(?:the )?(?:final )?(?:answer|response|reply|output|result|summary|text|message|report|agent|assistant|it)"
_QUOTES = "\"'`\u201c\u201d\u2018\u2019\u00ab\u00bb\u300c\u300d"
_QUOTED = rf"[{_QUOTES}]([^{_QUOTES}]{{1,120}})[{_QUOTES}]"
_FILE = rf"[{_QUOTES}]?((?:[\w-]+/)*[\w-]+(?:\.[\w-]+)*\.[A-Za-z]\w{{0,7}})[{_QUOTES}]?"
_MAKES = r"(?:creates?|writes?|produces?|saves?|generates?|outputs?)"


def lint(cases: Iterable[Case], paths: Mapping[str, str]) -> list[Finding]:
    """Findings about cases. ``paths``: eval_id -> file that it is from."""
    found: list[Finding] = []
    more = 0
    for case in cases:
        notes = Notes(paths.get(case.eval_id, ""), "suite")
        for expectation in case.expectations:
            check = could_be_exact(expectation.text)
            if check is None:
                continue
            if len(found) >= MAX_LINTS:
                more += 1
                continue
            notes.notice(
                "could-be-exact",
                f'case "{short(case.eval_id, 60)}": a program could decide the expectation "{short(expectation.text, 100)}"',
                line=case.line,
                remedy=f"Put this under checks in evals/skill-gate.yaml: {as_yaml(check)}",
            )
            found += notes.items
            notes.items.clear()
    if more:
        notes = Notes(next(iter(paths.values()), ""), "suite")
        notes.notice("could-be-exact", f"a program could decide {more} more expectations of this suite")
        found += notes.items
    return found + _unknown_tools(cases, paths)


def could_be_exact(text: str) -> dict[str, Json] | None:
    """The check that decides a sentence, where the whole sentence says nothing else; None where a judge is needed."""
    clean = " ".join(text.split()).rstrip(".。 ")
    if len(clean) > _LONGEST or not _HINT.search(clean):
        return None
    for pattern, make in _RULES:
        found = pattern.fullmatch(clean)
        check = make(*found.groups()) if found else None
        if check is not None and check["kind"] in CHECK_KINDS:
            kind = str(check["kind"])
            if not building.parameters(kind, {key: value for key, value in check.items() if key != "kind"})[1]:
                return check
    return None


def as_yaml(check: Mapping[str, Json]) -> str:
    """A check as one line of YAML, ready to paste under ``checks``."""
    parts = []
    for key, value in check.items():
        plain = isinstance(value, int) or re.fullmatch(r"[A-Za-z_][\w./-]*", str(value))
        text = str(value).lower() if isinstance(value, bool) else str(value)
        parts.append(f"{key}: {text}" if plain else f"{key}: '" + text.replace("'", "''") + "'")
    return "- {" + ", ".join(parts) + "}"


def _number(text: str) -> int:
    return _NUMBERS[text.lower()] if text.lower() in _NUMBERS else int(text)


def _words(low: str | None, high: str | None) -> dict[str, Json]:
    bounds = {"min": _number(low) if low else None, "max": _number(high) if high else None}
    return {"kind": "response_word_count", **{key: value for key, value in bounds.items() if value is not None}}


def _fewer(number: str) -> dict[str, Json] | None:
    return _words(None, str(_number(number) - 1)) if _number(number) > 0 else None


def _contains(text: str) -> dict[str, Json]:
    return {"kind": "response_contains", "keyword": text}


def _lacks(text: str) -> dict[str, Json]:
    return {"kind": "response_not_contains", "pattern": text, "ignore_case": True}


def _heading(number: str, text: str | None) -> dict[str, Json] | None:
    level = _number(number)
    if not 1 <= level <= 6:
        return None
    return {"kind": "response_has_heading", "level": level, **({"text": text} if text else {})}


def _calls(tool: str, times: str | None) -> dict[str, Json]:
    if times is None:
        return {"kind": "tool_call_count", "tool": tool, "min": 1}
    return {"kind": "tool_call_count", "tool": tool, "expected_count": _number(times)}


def _rule(pattern: str) -> re.Pattern[str]:
    return re.compile(pattern, re.IGNORECASE)


_LENGTH = rf"(?:{_WHO} )?(?:is |has |contains |stays |uses |must be |should be )?(?:between )?"
_LONGEST = 300
_HINT = re.compile(rf"[{_QUOTES}\d]|words|字|heading|calls?|\.\w", re.IGNORECASE)
_RULES: tuple[tuple[re.Pattern[str], Callable[..., dict[str, Json] | None]], ...] = (
    (_rule(rf"{_LENGTH}(?:at most|no more than|not more than|up to|a maximum of|max(?:imum)?(?: of)?|not longer than) {_N} words"
           r"(?: long| in length)?"), lambda n: _words(None, n)),
    (_rule(rf"{_LENGTH}(?:under|below|fewer than|less than|shorter than) {_N} words(?: long| in length)?"), _fewer),
    (_rule(rf"{_LENGTH}{_N} words or (?:fewer|less)"), lambda n: _words(None, n)),
    (_rule(rf"{_LENGTH}(?:at least|no fewer than|a minimum of) {_N} words(?: long| in length)?"), lambda n: _words(n, None)),
    (_rule(rf"{_LENGTH}{_N}(?: and |-| to |\u2013){_N} words(?: long| in length)?"), _words),
    (_rule(r"(?:回复|回答|输出|正文|字数|内容)?(?:的)?(?:字数|长度)?(?:不超过|最多|少于等于)\s*(\d{1,6})\s*(?:个)?字"), lambda n: _words(None, n)),
    (_rule(rf"(?:{_WHO} )?(?:does not|doesn't|must not|should not|never) (?:contain|mention|include|use|say|say the word)s?"
           rf"(?: the)?(?: exact)?(?: literal)?(?: word| phrase| term| string| text)? ?{_QUOTED}"), _lacks),
    (_rule(rf"(?:回复|回答|输出)?(?:中)?(?:不包含|不出现|不得出现){_QUOTED}(?:字样)?"), _lacks),
    (_rule(rf"(?:{_WHO} )?(?:contains?|mentions?|includes?|says?)(?: the)?(?: exact)?(?: literal)?"
           rf"(?: word| phrase| term| string| text)? {_QUOTED}"), _contains),
    (_rule(rf"(?:最终)?(?:回复|回答|输出)?(?:中)?包含{_QUOTED}(?:字样)?"), _contains),
    (_rule(rf"(?:{_WHO} )?(?:has|contains|includes|starts with|begins with) an? (?:H|level[- ]|h)([1-6]) heading(?: {_QUOTED})?"), _heading),
    (_rule(rf"(?:(?:{_WHO}|the skill) )?{_MAKES} (?:a |the |an )?(?:new )?(?:output )?(?:file )?(?:named |called |to |at )?{_FILE}"),
     lambda path: {"kind": "file_exists", "path": path}),
    (_rule(rf"(?:a |the )?(?:file )?{_FILE} (?:is|was|gets|has been) (?:created|written|produced|saved|generated)"),
     lambda path: {"kind": "file_exists", "path": path}),
    (_rule(rf"(?:{_WHO} )?calls? (?:the )?(?:tool )?[`\"']?([A-Za-z]\w*(?:__?\w+)*)[`\"']?(?: tool)? exactly (once|twice|\d{{1,4}})(?: times?)?"),
     _calls),
    (_rule(rf"(?:{_WHO} )?(?:does not|doesn't|must not|never) calls? (?:the )?(?:tool )?[`\"']([A-Za-z]\w*)[`\"'](?: tool)?"),
     lambda tool: {"kind": "tool_call_count", "tool": tool, "max": 0}),
)  # fmt: skip


def _unknown_tools(cases: Iterable[Case], paths: Mapping[str, str]) -> list[Finding]:
    """A check that counts calls of a tool that no run can have: forbidden it always holds, required it never does."""
    found: list[Finding] = []
    for case in cases:
        servers = {server.name: {tool.name for tool in server.tools} for server in case.mcp_servers}
        offered = {*BUILT_IN_TOOLS, *(f"mcp__{name}__{tool}" for name, tools in servers.items() for tool in tools)}
        odd: dict[str, Any] = {}
        for check in case.checks:
            tool = getattr(check.parameters, "tool", None)
            if isinstance(tool, str) and tool not in offered and not tool.startswith("mcp__"):
                odd.setdefault(tool, check)
        if odd:
            notes = Notes(paths.get(case.eval_id, ""), "suite")
            names = ", ".join(f'"{short(tool, 40)}"' for tool in list(odd)[:5])
            notes.notice(
                "unknown-tool",
                f'case "{short(case.eval_id, 60)}": checks count calls of {names}, which the built-in executor does not offer '
                f"(it offers {', '.join(BUILT_IN_TOOLS)}, and mcp__<server>__<tool> of declared servers)",
                line=case.line,
                remedy="Name the tool as the executor does, or declare it under mcp_servers.",
            )
            found += notes.items
    return found
