"""Tools were called in an order."""

from __future__ import annotations

from gate.domain.checks import ToolCallOrder
from gate.domain.evidence import ToolCall
from gate.domain.judgement import CheckStatus
from gate.judging.ground_truth.facts import Answer, Facts
from gate.judging.ground_truth.values import REPORTED, NotCheckableError, clip

_WORDS = {"subsequence": "in this order", "exact": "exactly so", "adjacent": "right after each other"}


def evaluate(parameters: ToolCallOrder, facts: Facts) -> Answer:
    """Every call counts, not only the first of a tool: in calls A B A the order B, A is there.

    The search for a ``subsequence`` takes each earliest call, which finds one wherever there is one.
    """
    wanted = [facts.names_of(tool) for tool in parameters.order]
    named = frozenset().union(*wanted)
    if parameters.status is not None and any(call.reported for call in facts.record.calls):
        raise NotCheckableError(REPORTED)
    calls = [call for call in facts.record.calls if parameters.status in (None, call.status)]
    ended = f" with status {parameters.status}" if parameters.status else ""
    expected = f"calls {clip(' → '.join(parameters.order), 300)} {_WORDS[parameters.mode]}{ended}"
    ours = [call for call in calls if call.tool in named]
    hit = _found(wanted, ours if parameters.mode != "adjacent" else calls, parameters.mode)
    names = " → ".join(f"{call.tool} ({call.step})" for call in ours[:30]) or "none of them was called"
    more = f" and {len(ours) - 30} more" if len(ours) > 30 else ""
    found = f"calls by step: {clip(names, 400)}{more}"
    block = facts.call_blocks.get(hit[0].call_id) if hit else None
    return Answer(CheckStatus.PASSED if hit else CheckStatus.FAILED, expected, found, block)


def _found(wanted: list[frozenset[str]], calls: list[ToolCall], mode: str) -> list[ToolCall] | None:
    if mode == "exact":
        right = len(calls) == len(wanted) and all(call.tool in names for call, names in zip(calls, wanted, strict=True))
        return calls if right else None
    if mode == "adjacent":
        for start in range(len(calls) - len(wanted) + 1):
            window = calls[start : start + len(wanted)]
            if all(call.tool in names for call, names in zip(window, wanted, strict=True)):
                return window
        return None
    taken: list[ToolCall] = []
    for call in calls:
        if len(taken) < len(wanted) and call.tool in wanted[len(taken)]:
            taken.append(call)
    return taken if len(taken) == len(wanted) else None
