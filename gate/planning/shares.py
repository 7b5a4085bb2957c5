"""The caps of a skill and a session, divided among their cases before anything runs.

Shards cannot see each other's spending. So no case lives on what another one leaves: each has a share of its own, in one piece or
cut into shards, and whether a call is stopped never depends on where other cases ran, or how fast (DESIGN.md 4, caps).

A case that has to be filled and confirmed needs several times what one needs that decides at once, and cannot borrow it. So
every case gets what it may need first (``gate.planning.plan.room_for``), where the cap has that much, and the rest by weight.
Where the policy says no number of calls there is always that much: a large suite is measured like a small one. Money is what
somebody said or the default, however many the cases; ``shortfalls`` says before anything is spent where it will hardly do.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from fractions import Fraction
from typing import NamedTuple

from gate.domain.numbers import counted
from gate.domain.plan import Arm, CasePlan, CaseShare, Plan, RunRequest, SkillPlan, case_label
from gate.domain.suite import Case
from gate.planning.plan import estimate, room_for
from gate.settings import CALLS_PER_SKILL, Caps, Settings

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
    """The plan with a share for every case that runs. ``spent``: by slug, on contracts."""
    caps = settings.policy.caps
    weights = {
        (skill.slug, case.case.eval_id): _Weight(_worst(skill, case, settings), room_for(case, settings))
        for skill in plan.skills
        if skill.not_measured is None
        for case in skill.cases
        if any(arm.runs for arm in case.arms)
    }
    whole = sum(weight.worst for weight in weights.values())
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


class _Weight(NamedTuple):
    """Model calls of one case."""

    worst: int
    """Where everything goes wrong that can; by it is divided what is left."""
    room: int
    """What it gets first."""


def _worst(skill: SkillPlan, case: CasePlan, settings: Settings) -> int:
    calls, _ = estimate([skill.model_copy(update={"cases": (case,)})], settings, worst=True)
    return max(1, calls)


def _writes_its_own(skill: SkillPlan) -> bool:
    return any(arm.runs for case in skill.cases if (arm := case.arm(Arm.SELF_GENERATED)) is not None)


def _shares(
    weights: Mapping[tuple[str, str], _Weight],
    whole: int,
    caps: Caps,
    before: Spent,
    session_usd: Fraction,
    *,
    own_skill: bool,
) -> dict[tuple[str, str], CaseShare]:
    apart = before.calls + (_OWN_SKILL_CALLS if own_skill else 0)
    rooms = sum(weight.room for weight in weights.values())
    most = caps.model_calls_per_skill
    calls = max(0, (max(CALLS_PER_SKILL, apart + rooms) if most is None else most) - apart)
    has_room = calls >= rooms
    rest = calls - rooms if has_room else calls
    usd = max(Fraction(0), Fraction(caps.usd_per_skill) - Fraction(before.usd))
    total, reached, given = sum(weight.worst for weight in weights.values()), 0, 0
    shares = {}
    for key, weight in weights.items():
        reached += weight.worst
        up_to = rest * reached // total  # whole numbers that add up to the cap
        share = min(usd * weight.worst / total, session_usd * weight.worst / whole)
        first = weight.room if has_room else 0
        shares[key] = CaseShare(model_calls=first + up_to - given, usd=round(float(share), 6))
        given = up_to
    return shares


def shortfalls(plan: Plan, settings: Settings, price: Callable[[int], float | None]) -> list[str]:
    """One line for each cap that the plan will hardly do with, naming it: for people, before anything is spent.

    ``plan`` has its shares. ``price``: what so many tokens cost in US dollars, roughly; None: nobody knows.
    """
    caps, lines, expected = settings.policy.caps, [], 0.0
    for skill in plan.skills:
        cases = [case for case in skill.cases if case.share is not None]
        rooms = sum(room_for(case, settings) for case in cases)
        calls = sum(case.share.model_calls for case in cases if case.share is not None)
        if calls < rooms:
            most = max(room_for(case, settings) for case in cases)
            lines.append(
                f"caps.model_calls_per_skill: {calls:,} calls for {counted(len(cases), 'case')} of {skill.slug}, of which one that "
                f"is not decided at once may need {most:,}: where a case reaches its share, the skill is not measured. Leave "
                f"it out or raise it to {rooms:,}, or take a smaller mode."
            )
        _, tokens = estimate([skill.model_copy(update={"cases": tuple(cases)})], settings)
        dollars = price(tokens) or 0.0
        expected += dollars
        if dollars > caps.usd_per_skill:
            lines.append(
                f"caps.usd_per_skill: ${caps.usd_per_skill:g} for {counted(len(cases), 'case')} of {skill.slug}, whose runs will cost "
                f"about ${dollars:.2f} where nothing is kept from before: {_RAISE}"
            )
    if expected > caps.usd_per_session:
        lines.append(
            f"caps.usd_per_session: ${caps.usd_per_session:g}, and about ${expected:.2f} will be needed where nothing is kept "
            f"from before: {_RAISE}"
        )
    return lines


_RAISE = (
    "where a case reaches its share, its skill is not measured. Raise it to twice that, or take a cheaper model or a smaller "
    "mode."
)


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
