"""Layer 0: what type a skill is, and what follows from it (R6, R7; origins 1.3 and 1.8).

Declared facts come first, hints in the text last; the reason is recorded in the plan.
"""

from __future__ import annotations

import re

from gate.domain.plan import Arm, Limits
from gate.domain.skill import PROGRAM_SUFFIXES, Skill, SkillType, is_agent_visible
from gate.domain.suite import Case, CaseType, Suite

CODE_TOOLS = ("bash", "shell", "execute", "python")

_MCP_TOOL = re.compile(r"\bmcp__([A-Za-z0-9-]+(?:_[A-Za-z0-9-]+)*)__[A-Za-z0-9_-]+")
_SHELL_FENCE = re.compile(
    r"^[ \t]*(?:```|~~~)[ \t]*(bash|sh|shell|console|zsh|python3?|py)\b", re.MULTILINE | re.IGNORECASE
)


def mcp_servers_of(text: str) -> set[str]:
    """Server names in tool ids of the form ``mcp__<server>__<tool>``; the word MCP alone says nothing (cases A4)."""
    return {match.group(1) for match in _MCP_TOOL.finditer(text)}


def detect_type(skill: Skill, suite: Suite | None) -> tuple[SkillType, str]:
    """The type of a skill and why, in the order ``mcp_based`` > ``code_execution`` > ``text_generation``."""
    if skill.declared_type is not None:
        return skill.declared_type, "declared in the front matter"
    cases = suite.cases if suite else ()
    mocked = sorted({server.name for case in cases for server in case.mcp_servers})
    if mocked:
        return SkillType.MCP_BASED, f"its suite declares the MCP server {mocked[0]}"
    allowed = " ".join(skill.allowed_tools)
    named = sorted(mcp_servers_of(allowed))
    if named:
        return SkillType.MCP_BASED, f"allowed-tools names a tool of the MCP server {named[0]}"
    in_body = sorted(mcp_servers_of(skill.body))
    if in_body:
        return SkillType.MCP_BASED, f"SKILL.md names a tool id of the MCP server {in_body[0]}"
    for tool in skill.allowed_tools:
        if tool.split("(")[0].strip().lower() in CODE_TOOLS:
            return SkillType.CODE_EXECUTION, f"allowed-tools names {tool.split('(')[0].strip()}"
    programs = sorted(
        file.path
        for file in skill.files
        if file.is_regular and is_agent_visible(file.path) and file.path.lower().endswith(PROGRAM_SUFFIXES)
    )
    if programs:
        return SkillType.CODE_EXECUTION, f"the folder holds the program {programs[0]}"
    fence = _SHELL_FENCE.search(skill.body)
    if fence:
        return SkillType.CODE_EXECUTION, f"SKILL.md shows commands in a {fence.group(1).lower()} block"
    return SkillType.TEXT_GENERATION, "no tool, program or command was declared or shown"


_STEPS = {
    SkillType.MCP_BASED: (15, 8, 6),
    SkillType.CODE_EXECUTION: (10, 6, 5),
    SkillType.TEXT_GENERATION: (5, 5, None),
}


def limits_for(skill_type: SkillType, arm: Arm) -> Limits:
    """Step limits by type (origins 1.3). The early stop holds for the baseline only: it has no skill to work through."""
    with_steps, without_steps, early_stop = _STEPS[skill_type]
    if arm is Arm.WITHOUT_SKILL:
        return Limits(steps=without_steps, tool_calls=early_stop)
    return Limits(steps=with_steps)


def limits_reason(skill_type: SkillType, arm: Arm, limits: Limits) -> str:
    """Why an arm has its limits, as a clause for the plan."""
    side = "without" if arm is Arm.WITHOUT_SKILL else "with"
    reason = f"{skill_type.value}: {limits.steps} turns {side} a skill"
    if limits.tool_calls is not None:
        reason += f", told to answer after more than {limits.tool_calls} tool calls"
    return reason


_ABSENCE = frozenset({
    "response_not_contains", "response_contains_none", "response_not_matches", "file_absent", "file_not_contains",
    "tool_call_forbidden", "command_not_ran", "file_unchanged",
})  # fmt: skip
"""Kinds that hold where something is not there: an agent that does nothing passes them."""


def needs_no_baseline(case: Case) -> str | None:
    """Why the baseline of one case would show nothing (origins 1.8), as a clause; None where it has to run.

    Such cases have no part in the lift. Cases of the types that Layer 3 compares always have their baseline (R46).
    """
    if case.type is CaseType.NEGATIVE:
        return "a negative case: the skill has to stay out of the way, so there is nothing to gain by it"
    kinds = {check.parameters.kind for check in case.checks}
    loose = all(item.precision == "existence" for item in case.expectations)
    if case.type in (CaseType.HAPPY_PATH, CaseType.E2E) or not loose:
        return None
    if case.expectations and not kinds:
        return "it only asks whether something is there (precision existence)"
    if case.type is CaseType.ROBUSTNESS and kinds and kinds <= _ABSENCE:
        return "a robustness case that only asks whether something is absent"
    return None


def missing_servers(skill: Skill, case: Case, suite: Suite | None) -> list[str]:
    """MCP servers without which a case says nothing of a skill, and which it does not bring (cases B 9).

    Those that the case's own checks name; and those of the skill's allowed-tools that no case of the version's ``suite``
    brings. Where one does, a case that brings none is one that does without: allowed-tools grants tools, and a line of it
    must not take the other cases out of the way.
    """
    needed = mcp_servers_of(" ".join(skill.allowed_tools)) - _brought(suite)
    for check in case.checks:
        needed |= mcp_servers_of(getattr(check.parameters, "tool", ""))
    return sorted(needed - {server.name for server in case.mcp_servers})


def done_without(skill: Skill, case: Case) -> list[str]:
    """MCP servers of the skill's allowed-tools that the case does not bring."""
    return sorted(mcp_servers_of(" ".join(skill.allowed_tools)) - {server.name for server in case.mcp_servers})


def _brought(suite: Suite | None) -> set[str]:
    return {server.name for case in (suite.cases if suite else ()) for server in case.mcp_servers}


_NOT_IMPLICIT = re.compile(
    r"""^[^#\n]*\ballow_implicit_invocation["']?[ \t]*:[ \t]*["']?(?:false|no|off)\b""", re.MULTILINE | re.IGNORECASE
)


def not_offered(skill: Skill) -> str | None:
    """Why hosts do not offer a skill to the model, as a clause; None where they do.

    The gate's own loop offers every skill, so no run shows it. Claude Code reads the front matter, Codex the file.
    """
    value = skill.frontmatter.get("disable-model-invocation")
    if value is True or str(value).strip().casefold() in ("true", "yes", "on", "1"):
        return "the front matter says disable-model-invocation: true"
    file = skill.file("agents/openai.yaml")
    if file is not None and _NOT_IMPLICIT.search(file.data.decode("utf-8", "replace")):
        return "agents/openai.yaml says allow_implicit_invocation: false"
    return None
