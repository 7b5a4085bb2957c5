"""R31: how often a tool was called."""

from __future__ import annotations

from gate.domain.checks import ToolCallCount
from gate.domain.judgement import CheckStatus
from gate.judging.ground_truth.facts import Answer, Facts
from gate.judging.ground_truth.values import REPORTED, NotCheckableError, clip


def evaluate(parameters: ToolCallCount, facts: Facts) -> Answer:
    """Counts every call of every step, by whole name; a call that never got its result is a call without a status."""
    calls = facts.calls_of(parameters.tool)
    if parameters.status is not None and any(call.reported for call in calls):
        raise NotCheckableError(REPORTED)
    counted = [call for call in calls if parameters.status in (None, call.status)]
    number = len(counted)
    right = (
        parameters.expected_count in (None, number)
        and (parameters.min is None or number >= parameters.min)
        and (parameters.max is None or number <= parameters.max)
    )
    ended = f" that ended with {parameters.status}" if parameters.status else ""
    found = f"{number} {'call' if number == 1 else 'calls'}{ended}"
    if len(calls) != number:
        found += f" (of {len(calls)} in all)"
    if counted:
        steps = ", ".join(str(call.step) for call in counted[:12]) + (" …" if number > 12 else "")
        found += f", in {'step' if number == 1 else 'steps'} {steps}"
    block = facts.call_blocks.get(counted[0].call_id) if counted else None
    expected = f"{_bounds(parameters)} of {clip(parameters.tool)}{ended}"
    return Answer(CheckStatus.PASSED if right else CheckStatus.FAILED, expected, found, block)


def _bounds(parameters: ToolCallCount) -> str:
    parts = []
    if parameters.expected_count is not None:
        parts.append(f"exactly {parameters.expected_count}")
    if parameters.min is not None:
        parts.append(f"at least {parameters.min}")
    if parameters.max is not None:
        parts.append(f"at most {parameters.max}")
    return " and ".join(parts) + " calls"
