"""What a skill needed the last time, from which the next session's cost is told before anything is spent.

For people only: no verdict and no file of the bundle depends on it, so two sessions with another past say the same.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from pydantic import Field

from gate.domain.base import Value, digest_of
from gate.domain.plan import Plan, SkillPlan
from gate.domain.report import ModelUse
from gate.planning.plan import estimate
from gate.settings import Settings


class PastCost(Value):
    """What one session spent on one skill."""

    runs: int = Field(ge=1)
    """Runs that were made, not those that were reused."""
    calls: int = Field(ge=0)
    tokens: int | None = Field(default=None, ge=0)
    """None: the usage of some calls is unknown."""


class Expected(NamedTuple):
    """What a session will probably need."""

    calls: int
    tokens: int
    by_past: int
    """Skills that are told by their own past, the others by rule."""


def past_facts(skill: SkillPlan, settings: Settings) -> str:
    """Digest of what a past cost depends on: the skill's path, the mode, the harness and the models."""
    models = settings.models.to_json() if settings.models is not None else None
    return digest_of(["cost", skill.change.path, settings.mode.value, settings.harness, models])


def past_of(uses: Sequence[ModelUse], runs: int) -> PastCost | None:
    """What a skill needed, from its own account; None where it made no run or no call."""
    calls = sum(use.calls for use in uses)
    if runs < 1 or not calls:
        return None
    tokens = [
        None if use.input_tokens is None or use.output_tokens is None else use.input_tokens + use.output_tokens
        for use in uses
    ]
    known = [count for count in tokens if count is not None]
    return PastCost(runs=runs, calls=calls, tokens=sum(known) if len(known) == len(tokens) else None)


def expected(plan: Plan, past: Mapping[str, PastCost], settings: Settings) -> Expected:
    """What the planned runs will need. ``past``: slug -> what the skill needed; it grows with the number of runs."""
    calls = tokens = by_past = 0
    for skill in plan.skills:
        known = past.get(skill.slug)
        runs = sum(arm.runs for case in skill.cases for arm in case.arms) if skill.not_measured is None else 0
        if not runs:
            continue
        by_rule = estimate([skill], settings)
        if known is None:
            calls, tokens = calls + by_rule[0], tokens + by_rule[1]
            continue
        by_past += 1
        calls += -(-known.calls * runs // known.runs)
        tokens += -(-known.tokens * runs // known.runs) if known.tokens is not None else by_rule[1]
    return Expected(calls, tokens, by_past)


def expected_words(found: Expected, plan: Plan) -> str:
    """One line before anything is spent."""
    by = f", {found.by_past} of the skills by what they needed the last time" if found.by_past else ""
    worst = f"; at most {plan.worst_calls:,} calls" if plan.worst_calls else ""
    return f"estimate: about {found.calls} model calls and {found.tokens:,} tokens{by}{worst}"
