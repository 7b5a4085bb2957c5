"""Whether a case may reach the real MCP servers that it names: only where the base policy says so, and never for strangers."""

from __future__ import annotations

from collections.abc import Iterable

from gate.domain.plan import CasePlan, SkillPlan
from gate.domain.suite import Case
from gate.settings import Settings

_INSTEAD = "record its answers and use mode: replay"


def real_refused(case: Case, settings: Settings) -> str | None:
    """Why a case with real servers cannot run, as a clause with what to do; None where it can, or names none."""
    for server in case.real_servers:
        named = f"the real MCP server {server.name}"
        place = settings.policy.mcp_real.get(server.name)
        if settings.real_refused:
            return f"{named} is not reached: {settings.real_refused}; {_INSTEAD}"
        if settings.replay or settings.record:
            return f"{named} is not reached in a recording, where it would answer otherwise each time; {_INSTEAD}"
        if settings.harness != "loop":
            return f"{named} is reached by the built-in loop only, not by {settings.harness}; use harness loop, or {_INSTEAD}"
        if place is None:
            return f"{named} is not named by the base policy: name it there under mcp_real, or {_INSTEAD}"
        lost = sorted({tool.name for tool in server.tools} - set(place.tools))
        if lost:
            return (
                f"the base policy does not allow the tool {lost[0]} of {named}: add it to mcp_real.{server.name}.tools"
            )
    return None


def real_notes(skills: Iterable[SkillPlan], settings: Settings) -> list[str]:
    """What every reader must know where cases reach a real server; one sentence a server."""
    used: dict[str, int] = {}
    for skill in skills:
        for case in skill.cases if skill.not_measured is None else ():
            for server in case.case.real_servers if _runs(case) else ():
                used[server.name] = used.get(server.name, 0) + 1
    return [
        f"{count} case{'s' if count != 1 else ''} used the real MCP server {name} ({settings.policy.mcp_real[name].url}): "
        "all runs and both arms share what it holds, and it may answer otherwise the next time. None of these runs is "
        "kept for another session."
        for name, count in sorted(used.items())
    ]


def _runs(case: CasePlan) -> bool:
    return case.blocked is None and any(arm.runs for arm in case.arms)
