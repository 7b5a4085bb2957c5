"""How the calls of a tool ended."""

from __future__ import annotations

from gate.domain.checks import ToolCallStatus
from gate.domain.judgement import CheckStatus
from gate.judging.ground_truth.facts import Answer, Facts
from gate.judging.ground_truth.values import REPORTED, NotCheckableError, clip


def evaluate(parameters: ToolCallStatus, facts: Facts) -> Answer:
    """No call fails each of them. A call whose result never came ended in no way."""
    tool = f"of {clip(parameters.tool)}" if parameters.tool else "of any tool"
    which = parameters.which
    place = {"any": "any call", "all": "every call", "last": "the last call"}.get(str(which), f"call {which}")
    expected = f"{place} {tool} ends with {parameters.status}"
    calls = facts.calls_of(parameters.tool) if parameters.tool else list(facts.record.calls)
    number = len(calls)
    if which == "last":
        calls = calls[-1:]
    elif isinstance(which, int):
        if which < 1:
            raise NotCheckableError(f"calls are counted from 1, not from {which}")
        calls = calls[which - 1 : which]
    if not calls:
        return Answer(CheckStatus.FAILED, expected, f"there were {number} calls" if number else "there was no call")
    reported = any(call.reported for call in calls)
    calls = [call for call in calls if not call.reported]
    right = [call for call in calls if call.status == parameters.status]
    wrong = [call for call in calls if call.status != parameters.status]
    passed = bool(right) if which == "any" else not wrong
    if reported and passed is not (which == "any"):
        raise NotCheckableError(REPORTED)
    shown = (right if passed else wrong)[0]
    found = f"{clip(shown.tool)} ended with {shown.status} in step {shown.step}"
    if len(calls) > 1:
        found += f"; {len(right)} of {len(calls)} calls ended with {parameters.status}"
    status = CheckStatus.PASSED if passed else CheckStatus.FAILED
    return Answer(status, expected, found, facts.call_blocks.get(shown.call_id))
