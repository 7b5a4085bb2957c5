"""A condition on an argument in the calls of a tool."""

from __future__ import annotations

from gate.domain.checks import ArgsMatches
from gate.domain.judgement import CheckStatus
from gate.judging.ground_truth.conditions import met, said, seen
from gate.judging.ground_truth.facts import Answer, Facts
from gate.judging.ground_truth.values import NotCheckableError, clip
from gate.judging.ground_truth.wildcards import values_at, wild_steps


def evaluate(parameters: ArgsMatches, facts: Facts) -> Answer:
    """Any call, all calls, or the n-th. A tool that was never called fails; arguments that are no object hold nothing."""
    parts = wild_steps(parameters.field)
    which = parameters.which
    place = {"any": "any call", "all": "every call"}.get(str(which), f"call {which}")
    words = said(parameters, facts.record.run_date)
    expected = f"{clip(parameters.field)} {words} in {place} of {clip(parameters.tool)}"
    calls = facts.calls_of(parameters.tool)
    if isinstance(which, int):
        if which < 1:
            raise NotCheckableError(f"calls are counted from 1, not from {which}")
        if len(calls) < which:
            return Answer(CheckStatus.FAILED, expected, f"the tool was called {len(calls)} times")
        calls = [calls[which - 1]]
    if not calls:
        return Answer(CheckStatus.FAILED, expected, "the tool was never called")
    # Arguments that could not be read may hold anything: that a field is absent from them is not shown.
    held = met([values_at(call.args, parts) for call in calls], parameters, facts)
    answers = [call.args is not None and holds for call, holds in zip(calls, held, strict=True)]
    passed = all(answers) if which == "all" else any(answers)
    shown_call = calls[answers.index(passed)] if passed in answers else calls[0]
    if shown_call.args is None:
        found = f"the arguments in step {shown_call.step} are not a JSON object: {clip(shown_call.raw_args)}"
    else:
        found = f"{clip(parameters.field)}: {seen(values_at(shown_call.args, parts))} in step {shown_call.step}"
    if len(calls) > 1:
        found += f"; {sum(answers)} of {len(calls)} calls match"
    status = CheckStatus.PASSED if passed else CheckStatus.FAILED
    return Answer(status, expected, found, facts.call_blocks.get(shown_call.call_id))
