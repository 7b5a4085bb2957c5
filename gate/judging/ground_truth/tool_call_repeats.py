"""The same call made again and again."""

from __future__ import annotations

from gate.domain.base import canonical_json
from gate.domain.checks import ToolCallRepeats
from gate.domain.evidence import ToolCall
from gate.domain.judgement import CheckStatus
from gate.judging.ground_truth.facts import Answer, Facts
from gate.judging.ground_truth.values import clip, shown


def evaluate(parameters: ToolCallRepeats, facts: Facts) -> Answer:
    """Two calls are the same where tool and arguments are, whatever stands between them and however keys are ordered."""
    tool = f" of {clip(parameters.tool)}" if parameters.tool else ""
    expected = f"no call{tool} made more than {parameters.max} times with the same arguments"
    most = facts.remembered(("repeats", parameters.tool or ""), lambda: _most_repeated(parameters.tool, facts))
    if not most:
        return Answer(CheckStatus.PASSED, expected, "there was no call")
    steps = ", ".join(str(call.step) for call in most[:12]) + (" …" if len(most) > 12 else "")
    found = f"{clip(most[0].tool)} {shown(most[0].args)}: {len(most)} times, in steps {steps}"
    status = CheckStatus.FAILED if len(most) > parameters.max else CheckStatus.PASSED
    return Answer(status, expected, found, facts.call_blocks.get(most[0].call_id))


def _most_repeated(tool: str | None, facts: Facts) -> list[ToolCall]:
    calls = facts.calls_of(tool) if tool else list(facts.record.calls)
    same: dict[tuple[str, bytes], list[ToolCall]] = {}
    for call in calls:
        said = canonical_json(call.args) if call.args is not None else call.raw_args.encode("utf-8", "replace")
        same.setdefault((call.tool, said), []).append(call)
    return max(same.values(), key=len, default=[])
