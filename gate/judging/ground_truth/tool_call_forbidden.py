"""Tools that must not be called."""

from __future__ import annotations

from gate.domain.checks import ToolCallForbidden
from gate.domain.judgement import CheckStatus
from gate.judging.ground_truth.facts import Answer, Facts
from gate.judging.ground_truth.values import clip


def evaluate(parameters: ToolCallForbidden, facts: Facts) -> Answer:
    """A call that failed, or that never got its result, was made all the same."""
    expected = f"no call of {clip(', '.join(parameters.tools), 300)}"
    # A bare name means the tool of any server here: a forbidden tool is not let off because its name is ambiguous.
    calls = [call for call in facts.record.calls if any(_named(call.tool, tool) for tool in parameters.tools)]
    if not calls:
        return Answer(CheckStatus.PASSED, expected, f"none of {len(facts.record.calls)} calls")
    listed = ", ".join(f"{call.tool} in step {call.step} ({call.status})" for call in calls[:12])
    more = f" and {len(calls) - 12} more" if len(calls) > 12 else ""
    return Answer(CheckStatus.FAILED, expected, f"{clip(listed, 400)}{more}", facts.call_blocks.get(calls[0].call_id))


def _named(called: str, tool: str) -> bool:
    bare = called.split("__", 2)[-1] if called.startswith("mcp__") else called
    if tool.endswith("*"):
        return called.startswith(tool[:-1]) or bare.startswith(tool[:-1])
    return tool in (called, bare)
