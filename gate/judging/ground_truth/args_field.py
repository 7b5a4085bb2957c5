"""R32, R34: the value of an argument in the calls of a tool."""

from __future__ import annotations

from gate.domain.checks import ArgsField
from gate.domain.evidence import ToolCall
from gate.domain.judgement import CheckStatus
from gate.judging.ground_truth.facts import Answer, Facts
from gate.judging.ground_truth.values import NotCheckableError, at, clip, computed, path_steps, same, shown


def evaluate(parameters: ArgsField, facts: Facts) -> Answer:
    """Any call, all calls, or the n-th: a tool that was never called fails each of them."""
    steps = path_steps(parameters.field)
    wanted = computed(parameters.expected, facts.record.run_date)
    which = parameters.which
    calls = facts.calls_of(parameters.tool)
    place = {"any": "any call", "all": "every call"}.get(str(which), f"call {which}")
    expected = f"{clip(parameters.field)} = {shown(wanted)} in {place} of {clip(parameters.tool)}"
    if isinstance(which, int):
        if which < 1:
            raise NotCheckableError(f"calls are counted from 1, not from {which}")
        if len(calls) < which:
            return Answer(CheckStatus.FAILED, expected, f"the tool was called {len(calls)} times")
        calls = [calls[which - 1]]
    if not calls:
        return Answer(CheckStatus.FAILED, expected, "the tool was never called")

    def holds(call: ToolCall) -> bool:
        there, value = at(call.args, steps)
        return there and same(value, wanted)

    right = [call for call in calls if holds(call)]
    wrong = [call for call in calls if not holds(call)]
    passed = not wrong if which == "all" else bool(right)
    shown_call = (right if passed else wrong)[0]
    found = _found(shown_call, steps, parameters.field)
    if len(calls) > 1:
        found += f"; {len(right)} of {len(calls)} calls match"
    status = CheckStatus.PASSED if passed else CheckStatus.FAILED
    return Answer(status, expected, found, facts.call_blocks.get(shown_call.call_id))


def _found(call: ToolCall, steps: list[str | int], name: str) -> str:
    if call.args is None:
        return f"the arguments in step {call.step} are not a JSON object: {clip(call.raw_args)}"
    there, value = at(call.args, steps)
    if not there:
        return f"no {clip(name)} among the arguments in step {call.step}: {shown(call.args)}"
    return f"{clip(name)} = {shown(value)} in step {call.step}"
