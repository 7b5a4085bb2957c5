"""What a run used."""

from __future__ import annotations

from gate.domain.checks import RunBudget
from gate.domain.judgement import CheckStatus
from gate.judging.ground_truth.facts import Answer, Facts
from gate.judging.ground_truth.values import NotCheckableError


def evaluate(parameters: RunBudget, facts: Facts) -> Answer:
    """Every given bound holds; one that is broken fails it. One that nobody measured is ``not_run``."""
    metrics = facts.record.metrics
    timing = facts.load_timing() if parameters.max_seconds is not None else None
    bounds: list[tuple[str, float | None, float | None]] = [
        ("steps", parameters.max_steps, metrics.total_steps),
        ("tool calls", parameters.max_tool_calls, len(facts.record.calls)),
        ("errors", parameters.max_errors, _errors(facts)),
        ("tokens", parameters.max_tokens, metrics.total_tokens),
        ("$", parameters.max_cost_usd, metrics.cost_usd),
        ("seconds", parameters.max_seconds, timing.total_duration_seconds if timing else None),
    ]
    asked = [(name, most, used) for name, most, used in bounds if most is not None]
    expected = "at most " + ", ".join(f"{most:g} {name}" for name, most, _ in asked)
    found = ", ".join(f"{'unknown' if used is None else f'{used:g}'} {name}" for name, _, used in asked)
    if any(used is not None and used > most for _, most, used in asked):
        return Answer(CheckStatus.FAILED, expected, found)
    if any(used is None for _, _, used in asked):
        raise NotCheckableError(f"not every figure was recorded: {found}")
    return Answer(CheckStatus.PASSED, expected, found)


def _errors(facts: Facts) -> int | None:
    """Calls that failed; None where only a program in the sandbox says how they ended."""
    if any(call.reported for call in facts.record.calls):
        return None
    return sum(call.status in ("error", "timeout") for call in facts.record.calls)
