"""What a skill says it needs, and what its text hints at: facts before any container starts (cases A4, B 9).

Only the front matter declares. One skill in six speaks of installing something and one in nine of a key (cases A4); most of
those sentences are about somebody else's machine, so a hint never blocks.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

from gate.domain.preflight import Need, PreflightFact
from gate.domain.skill import Skill
from gate.evidence.suspicious import lines_with
from gate.intake.notes import short

MAX_HINTS = 8
"""Of each kind."""
_ENV_KEYS = ("env", "environment", "environment_variables", "required_environment_variables", "secrets")
_PROGRAM_KEYS = ("bins", "anybins", "programs", "commands")
_NETWORK_KEYS = ("network", "internet")
_SERVER_KEYS = ("mcp", "mcpservers", "mcp_servers")
_VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]{1,80}")
_MCP_TOOL = re.compile(r"\bmcp__([A-Za-z0-9-]+(?:_[A-Za-z0-9-]+)*)__[A-Za-z0-9_*-]+")
_KEY_IN_TEXT = re.compile(
    r"(?<![A-Za-z0-9_])[A-Z][A-Z0-9]{1,30}(?:_[A-Z0-9]{1,30}){0,4}_(?:API_KEY|TOKEN|SECRET|SECRET_KEY|ACCESS_KEY|PASSWORD)(?![A-Z0-9_])"
)
_INSTALL = re.compile(
    r"\b(?:pip3?|uv pip|uv tool|pipx|npm|pnpm|yarn|brew|apt|apt-get|cargo|gem|conda) (?:install|add|i|global add)\s+"
    r"(?:-{1,2}[\w-]+\s+)*([@A-Za-z0-9][\w./@-]{1,60})"
)
_CALL = re.compile(
    r"\b(?:curl|wget|gh api|aws|gcloud|az|kubectl)\s+[^\n]{0,120}?https?://(?!localhost|127\.0\.0\.1)|\b(?:gh api|kubectl|gcloud|aws) [a-z]"
)
_WEB_TOOLS = ("WebFetch", "WebSearch")


def preflight_facts(skill: Skill) -> tuple[PreflightFact, ...]:
    """Every need once, declared ones first. Never raises for any front matter or text."""
    found: dict[tuple[Need, str], PreflightFact] = {}
    for fact in (*_declared(skill), *_hinted(skill)):
        found.setdefault((fact.need, fact.name), fact)
    return tuple(sorted(found.values(), key=lambda fact: (not fact.declared, list(Need).index(fact.need))))


def _declared(skill: Skill) -> Iterator[PreflightFact]:
    for name in sorted({match[1] for tool in skill.allowed_tools for match in _MCP_TOOL.finditer(tool)}):
        yield PreflightFact(need=Need.MCP_SERVER, name=name, declared=True, source="front matter: allowed-tools")
    for place, requires in _requires(skill.frontmatter, "", 0):
        yield from _of_requires(requires, place)


def _requires(value: Mapping[str, Any], place: str, depth: int) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """Every mapping under a key ``requires``: at the top, in ``metadata``, or in a host's own part of it."""
    for key, item in value.items():
        label = f"{place}{short(key, 40)}"
        if not isinstance(item, dict):
            continue
        if str(key).lower() in ("requires", "requirements"):
            yield label, item
        elif depth < 2 and (depth > 0 or key == "metadata"):
            yield from _requires(item, f"{label}.", depth + 1)


def _of_requires(requires: Mapping[str, Any], place: str) -> Iterator[PreflightFact]:
    for key, value in requires.items():
        plain = str(key).lower().replace("-", "_")
        source = f"front matter: {place}.{short(key, 40)}"
        if plain in _NETWORK_KEYS and (value is True or (isinstance(value, str | list) and value)):
            yield PreflightFact(need=Need.NETWORK, declared=True, source=source)
        for keys, need in ((_ENV_KEYS, Need.KEY), (_PROGRAM_KEYS, Need.PROGRAM), (_SERVER_KEYS, Need.MCP_SERVER)):
            if plain in keys:
                for name in _names(value):
                    if need is not Need.KEY or _VARIABLE.fullmatch(name):
                        yield PreflightFact(need=need, name=short(name, 80), declared=True, source=source)


def _names(value: Any) -> list[str]:
    if isinstance(value, str):
        return [item for item in re.split(r"[,\s]+", value) if item]
    if isinstance(value, dict):
        return [str(key) for key in value]
    return [item for item in value if isinstance(item, str) and item] if isinstance(value, list) else []


def _hinted(skill: Skill) -> Iterator[PreflightFact]:
    for tool in skill.allowed_tools:
        if tool.split("(")[0] in _WEB_TOOLS:
            yield PreflightFact(
                need=Need.NETWORK, declared=False, source=f"front matter: allowed-tools names {tool[:40]}"
            )
    body, start = skill.body, skill.body_line

    def line(at: int) -> str:
        return f"{short(skill.skill_md, 40)}:{start + body.count(chr(10), 0, at)}"

    lower = body.lower()
    for need, pattern, words in (
        (Need.KEY, _KEY_IN_TEXT, ("_key", "_token", "_secret", "_password")),
        (Need.PROGRAM, _INSTALL, (" install ", " add ", " i ")),
        (Need.NETWORK, _CALL, ("http://", "https://", "gh api", "kubectl ", "gcloud ", "aws ")),
    ):
        names: set[str] = set()
        for begin, end in lines_with(lower, words) if len(lower) == len(body) else ((0, len(body)),):
            for match in pattern.finditer(body, begin, end):
                name = "" if need is Need.NETWORK else match[match.lastindex or 0].rstrip(".,;:")
                if name not in names and len(names) < MAX_HINTS:
                    names.add(name)
                    yield PreflightFact(need=need, name=name, declared=False, source=line(match.start()))
