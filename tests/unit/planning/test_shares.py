"""How the caps are divided: a case gets what it may need first, where the cap has that much."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import pytest

from gate.domain.plan import CaseShare, Mode, Plan
from gate.domain.suite import Expectation
from gate.planning import plan_session
from gate.planning.plan import estimate, room_for
from gate.planning.shares import Spent, shortfalls, with_shares
from gate.settings import CALLS_PER_SKILL, Caps, Policy, Settings
from tests.builders_skill import a_case, a_skill_intake, a_suite, an_intake, some_settings

LARGE = (5, 20, 36, 60)


def settings(mode: Mode = Mode.STANDARD, **caps: Any) -> Settings:
    return some_settings(mode=mode, policy=Policy(caps=Caps(**caps)))


def planned(count: int, given: Settings, spent: int = 0) -> Plan:
    suite = a_suite(
        *(
            a_case(
                f"case-{number}",
                tag="golden",
                expectations=tuple(Expectation(id=f"e{index}", text="It is so.") for index in range(number % 3)),
            )
            for number in range(count)
        )
    )
    intake = an_intake(a_skill_intake("skills/a", suite=suite, base_suite=suite))
    plan = plan_session(intake, given, session_id="s", run_date="2026-01-31")
    return with_shares(plan, given, {plan.skills[0].slug: Spent(spent, 0.0)})


def shares(plan: Plan) -> list[CaseShare]:
    (skill,) = plan.skills
    found = [case.share for case in skill.cases if case.share is not None]
    assert len(found) == len(skill.cases)
    return found


def rooms(plan: Plan, given: Settings) -> list[int]:
    return [room_for(case, given) for case in plan.skills[0].cases]


@pytest.mark.parametrize("mode", [Mode.QUICK, Mode.STANDARD, Mode.FULL, Mode.REGRESSION])
@pytest.mark.parametrize("count", LARGE)
def test_with_no_number_in_the_policy_no_case_of_a_large_suite_is_starved(mode: Mode, count: int) -> None:
    given = settings(mode)
    plan = planned(count, given)
    needed = rooms(plan, given)
    assert all(share.model_calls >= room for share, room in zip(shares(plan), needed, strict=True))
    assert sum(share.model_calls for share in shares(plan)) == max(CALLS_PER_SKILL, sum(needed))
    assert shortfalls(plan, given, lambda tokens: 0.0) == []
    # What a case usually takes would not fit into an equal part of 600 calls, nor does what it may take.
    assert max(needed) > CALLS_PER_SKILL // 60


def test_a_case_may_need_more_than_it_usually_takes_and_never_more_than_the_worst() -> None:
    given = settings()
    skill = planned(3, given).skills[0]
    for case in skill.cases:
        alone = skill.model_copy(update={"cases": (case,)})
        usual, worst = (estimate([alone], given, worst=worst)[0] for worst in (False, True))
        assert usual < room_for(case, given) <= worst


@pytest.mark.parametrize("spare", [0, 1, 7, 1000])
def test_a_number_that_is_enough_gives_every_case_its_room_and_adds_up(spare: int) -> None:
    wide = settings()
    needed = rooms(planned(7, wide), wide)
    given = settings(model_calls_per_skill=sum(needed) + spare)
    found = shares(planned(7, given))
    assert all(share.model_calls >= room for share, room in zip(found, needed, strict=True))
    assert sum(share.model_calls for share in found) == sum(needed) + spare


@pytest.mark.parametrize("most", [1, 7, 50])
def test_a_number_that_is_said_holds_however_little_it_is(most: int) -> None:
    given = settings(model_calls_per_skill=most)
    plan = planned(9, given)
    assert sum(share.model_calls for share in shares(plan)) == most
    (line,) = shortfalls(plan, given, lambda tokens: 0.0)
    assert line.startswith(f"caps.model_calls_per_skill: {most} calls for 9 cases of ")
    assert f"raise it to {sum(rooms(plan, given)):,}" in line


def test_what_a_contract_has_cost_comes_off_a_number_that_is_said_and_not_off_what_cases_need() -> None:
    given = settings(model_calls_per_skill=100)
    assert sum(share.model_calls for share in shares(planned(3, given, spent=40))) == 60
    free = settings()
    assert sum(share.model_calls for share in shares(planned(60, free, spent=40))) == sum(
        rooms(planned(60, free), free)
    )


def test_money_is_no_more_for_many_cases_and_where_it_will_not_do_that_is_said_before() -> None:
    given = settings()
    for few, many in pairwise(LARGE):
        totals = [sum(share.usd for share in shares(planned(count, given))) for count in (few, many)]
        assert totals == pytest.approx([given.policy.caps.usd_per_skill] * 2, abs=1e-3)
    plan = planned(36, given)
    _, tokens = estimate(list(plan.skills), given)
    assert shortfalls(plan, given, lambda count: 2.0 * count / tokens) == []
    (one,) = shortfalls(plan, given, lambda count: 3.0 * count / tokens)
    assert one.startswith("caps.usd_per_skill: $2 for 36 cases of ")
    assert "about $3.00" in one
    both = shortfalls(plan, given, lambda count: 12.0 * count / tokens)
    assert [line.partition(":")[0] for line in both] == ["caps.usd_per_skill", "caps.usd_per_session"]
