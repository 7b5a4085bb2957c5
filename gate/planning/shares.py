"""The caps of a skill and a session, divided among their cases before anything runs.

Shards cannot see each other's spending. So no case lives on what another one leaves: each has a share of its own, in one piece or
cut into shards, and whether a call is stopped never depends on where other cases ran, or how fast (DESIGN.md 4, caps).
"""

from __future__ import annotations

from collections.abc import Mapping
from fractions import Fraction
from typing import NamedTuple

from gate.domain.plan import Arm, CasePlan, CaseShare, Plan, RunRequest, SkillPlan, case_label
from gate.domain.suite import Case
from gate.planning.plan import estimate
from gate.settings import Caps, Settings

_OWN_SKILL_CALLS = 12
"""``gate.execution.stand_ins.OWN_SKILL_LIMITS.steps``, which planning must not import; a test holds them equal."""
_GRADED_TOGETHER = 15
_CALLS_A_BATCH = 16
"""More than a grader, its second looks and all that is asked again take for one question about one run."""
_CALLS_A_ROUND = 6


class Spent(NamedTuple):
    """What was spent on a skill before its cases run."""

    calls: int
    usd: float


def with_shares(plan: Plan, settings: Settings, spent: Mapping[str, Spent]) -> Plan:
    """The plan with a share for every case that runs: by the calls that it takes at worst. ``spent``: by slug, on contracts."""
    caps = settings.policy.caps
    weights = {
        (skill.slug, case.case.eval_id): _weight(skill, case, settings)
        for skill in plan.skills
        if skill.not_measured is None
        for case in skill.cases
        if any(arm.runs for arm in case.arms)
    }
    whole = sum(weights.values())
    session_usd = max(Fraction(0), Fraction(caps.usd_per_session) - sum(Fraction(item.usd) for item in spent.values()))
    skills = []
    for skill in plan.skills:
        own = {key: weight for key, weight in weights.items() if key[0] == skill.slug}
        before = spent.get(skill.slug, Spent(0, 0.0))
        shares = _shares(own, whole, caps, before, session_usd, own_skill=_writes_its_own(skill))
        cases = tuple(
            case.model_copy(update={"share": shares.get((skill.slug, case.case.eval_id))}) for case in skill.cases
        )
        skills.append(skill.model_copy(update={"cases": cases}))
    return plan.model_copy(update={"skills": tuple(skills)})


def _weight(skill: SkillPlan, case: CasePlan, settings: Settings) -> int:
    calls, _ = estimate([skill.model_copy(update={"cases": (case,)})], settings, worst=True)
    return max(1, calls)


def _writes_its_own(skill: SkillPlan) -> bool:
    return any(arm.runs for case in skill.cases if (arm := case.arm(Arm.SELF_GENERATED)) is not None)


def _shares(
    weights: Mapping[tuple[str, str], int],
    whole: int,
    caps: Caps,
    before: Spent,
    session_usd: Fraction,
    *,
    own_skill: bool,
) -> dict[tuple[str, str], CaseShare]:
    calls = max(0, caps.model_calls_per_skill - before.calls - (_OWN_SKILL_CALLS if own_skill else 0))
    usd = max(Fraction(0), Fraction(caps.usd_per_skill) - Fraction(before.usd))
    total, reached, given = sum(weights.values()), 0, 0
    shares = {}
    for key, weight in weights.items():
        reached += weight
        up_to = calls * reached // total  # whole numbers that add up to the cap
        share = min(usd * weight / total, session_usd * weight / whole)
        shares[key] = CaseShare(model_calls=up_to - given, usd=round(float(share), 6))
        given = up_to
    return shares


def shares_of(plan: Plan) -> dict[str, CaseShare]:
    """By ``case_label``, as the ledger takes them."""
    return {
        case_label(skill.slug, case.case.eval_id): case.share
        for skill in plan.skills
        for case in skill.cases
        if case.share is not None
    }


def most_calls(request: RunRequest) -> int:
    """Of the agent in one run."""
    return request.limits.steps


def most_calls_to_judge(case: Case) -> int:
    """Of all graders about one run."""
    return _CALLS_A_BATCH * -(-len(case.expectations) // _GRADED_TOGETHER)


def most_calls_to_discuss(settings: Settings) -> int:
    """Of both sides about one run."""
    return 4 + _CALLS_A_ROUND * settings.policy.discussion_rounds
