"""What a session cost and what the next one will, in words for the first screen (cases B 25: unknown is never zero)."""

from __future__ import annotations

import math
from collections.abc import Sequence

from gate.domain.plan import Arm, Plan
from gate.domain.report import ModelUse, SkillReport

BY_RUN = ("executor", "grader", "second_grader", "generator", "evaluator", "defender", "prosecutor")
"""Roles whose calls belong to one run."""


def cost_words(plan: Plan, usage: Sequence[ModelUse], skills: Sequence[SkillReport] = (), *, kept: bool = False) -> str:
    """One line: calls, tokens and money of this session over all roles, retries and failures included, and what the next
    push costs by what this one needed. ``kept``: a cache keeps runs. An unknown part makes a sum a lower bound, and the
    line says so. Nothing called: says that it cost nothing.
    """
    calls = sum(use.calls for use in usage)
    if not calls:
        return "no model was called: nothing spent"
    failed = sum(use.failed_calls for use in usage)
    spent = f"{calls} model calls" + (f" ({failed} of them failed)" if failed else "")
    next_push = _next_push(usage, skills, kept=kept)
    if plan.estimated_calls:
        worst = f", at most {plan.worst_calls}" if plan.worst_calls else ""
        next_push += f" (planned: {plan.estimated_calls} calls{worst})"
    return f"this run: {spent}, {_tokens(usage)}, {_money(usage)}; {next_push}"


def _next_push(usage: Sequence[ModelUse], skills: Sequence[SkillReport], *, kept: bool) -> str:
    """What the next push costs, as a clause: where runs are kept, those without the skill and on base are not made again."""
    if not kept:
        return "the next push of this size costs about the same, as no run is kept"
    finished = {arm: sum(item.finished for skill in skills for item in skill.arms if item.arm is arm) for arm in Arm}
    total, again = sum(finished.values()), finished[Arm.WITH_SKILL]
    if any(count.kind == "run_reused" for skill in skills for count in skill.fallbacks) or not again:
        return "the next push of this size costs about the same, with what is kept"
    of_runs = sum(use.calls for use in usage if use.role in BY_RUN)
    rest = sum(use.calls for use in usage) - of_runs
    about = rest + -(-of_runs * again // total)
    return f"a next push that changes only the skill makes {again} of these {total} runs again: about {about} calls"


def _tokens(usage: Sequence[ModelUse]) -> str:
    known = sum(use.known_input_tokens + use.known_output_tokens for use in usage)
    whole = [(use.input_tokens, use.output_tokens) for use in usage]
    if all(given is not None and made is not None for given, made in whole):
        return f"{sum((given or 0) + (made or 0) for given, made in whole):,} tokens"
    return f"at least {known:,} tokens (the usage of some calls is unknown)" if known else "token usage unknown"


def _money(usage: Sequence[ModelUse]) -> str:
    if all(use.cost_usd is not None for use in usage):
        return f"${math.fsum(use.cost_usd or 0.0 for use in usage):.2f}"
    known = math.fsum(use.known_cost_usd for use in usage)
    # "At least nothing" would read as nothing.
    return f"at least ${known:.2f} (the price of some calls is unknown)" if known else "price unknown"
