"""What a tool returned."""

from __future__ import annotations

import re
from collections.abc import Sequence

from gate.domain.checks import ToolResultContains
from gate.domain.evidence import ToolCall
from gate.domain.judgement import CheckStatus
from gate.judging.ground_truth.facts import Answer, Facts, Place, normalised
from gate.judging.ground_truth.literal import first_pattern, quoted
from gate.judging.ground_truth.values import REPORTED, NotCheckableError, clip, computed


def evaluate(parameters: ToolResultContains, facts: Facts) -> Answer:
    """Looks at results alone, never at arguments or at what the agent said.

    Lines that a tool showed of the skill's own files count for nothing (judging.md 3.2). Where a result was cut or never
    came, that a text is not in it is not shown.
    """
    day, which = facts.record.run_date, parameters.which
    text = None if parameters.text is None else computed(parameters.text, day)
    pattern = computed(parameters.pattern or "", day, quote=re.escape)
    what = quoted(text) if text is not None else f"a match of /{clip(pattern)}/"
    place = {"any": "any result", "all": "every result", "none": "no result"}.get(str(which), f"result {which}")
    expected = f"{what} in {place} of {clip(parameters.tool)}"
    calls: Sequence[ToolCall] = facts.calls_of(parameters.tool)
    texts = facts.remembered(("results", parameters.tool), lambda: tuple(map(_result, calls)))
    if isinstance(which, int):
        if which < 1:
            raise NotCheckableError(f"calls are counted from 1, not from {which}")
        if len(calls) < which:
            return Answer(CheckStatus.FAILED, expected, f"the tool was called {len(calls)} times")
        calls, texts = [calls[which - 1]], (texts[which - 1],)
    if not calls:
        status = CheckStatus.PASSED if which == "none" else CheckStatus.FAILED
        return Answer(status, expected, "the tool was never called")
    reported = any(call.reported for call in calls)
    shown = [(call, one) for call, one in zip(calls, texts, strict=True) if not call.reported]
    calls, texts = [call for call, _ in shown], tuple(one for _, one in shown)
    # The one result that decides: the first without the text where all must have it, else the first with it.
    matching = which != "all"
    if text is not None:
        wanted = normalised(text)
        index = next((number for number, one in enumerate(texts) if (wanted in one) is matching), None)
        start = texts[index].find(wanted) if index is not None and matching else 0
        span = (start, start + len(wanted))
    else:
        index, span = first_pattern(facts, pattern, texts, matching=matching)
    if index is None and reported:
        raise NotCheckableError(REPORTED)
    if index is None:
        found = f"in all {len(calls)} results" if which == "all" else f"not in {len(calls)} results"
        cut = next((call for call in calls if call.truncated or call.status == "no_result"), None)
        if which != "all" and cut is not None:
            raise NotCheckableError(f"{found}, but only part of the result in step {cut.step} is there")
        passed = which in ("all", "none")
        block = facts.call_blocks.get(calls[0].call_id)
        return Answer(CheckStatus.PASSED if passed else CheckStatus.FAILED, expected, found, block)
    call = calls[index]
    name = f"the result in step {call.step}"
    if not matching:
        if call.truncated or call.status == "no_result":
            raise NotCheckableError(f"not in the part of {name} that is there")
        return Answer(CheckStatus.FAILED, expected, f"not in {name}", facts.call_blocks.get(call.call_id))
    within = Place(texts[index], name, None)
    found = f'line {within.line_of(span[0])} of {name}: "{within.around(*span)}"'
    status = CheckStatus.FAILED if which == "none" else CheckStatus.PASSED
    return Answer(status, expected, found, facts.call_blocks.get(call.call_id))


def _result(call: ToolCall) -> str:
    text = normalised(call.result)
    if call.skill_lines:
        hidden = set(call.skill_lines)
        text = "\n".join("" if number in hidden else line for number, line in enumerate(text.split("\n"), 1))
    return text
