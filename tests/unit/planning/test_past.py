from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from gate.domain.plan import Mode
from gate.domain.report import ModelUse
from gate.planning.past import PastCost, expected, expected_words, past_facts, past_of
from gate.planning.plan import estimate
from tests.builders_skill import a_skill_intake, some_settings
from tests.unit.planning.test_plan import planned


def use(role: str, calls: int, tokens: int | None) -> ModelUse:
    return ModelUse(
        role=role,
        model="m",
        calls=calls,
        failed_calls=0,
        input_tokens=tokens,
        output_tokens=tokens and 0,
        cost_usd=None,
    )


def test_what_a_skill_needed_is_its_own_account_and_unknown_tokens_stay_unknown() -> None:
    assert past_of([use("executor", 12, 900), use("grader", 4, 100)], 4) == PastCost(runs=4, calls=16, tokens=1000)
    assert past_of([use("executor", 12, 900), use("grader", 4, None)], 4) == PastCost(runs=4, calls=16, tokens=None)


def test_a_session_without_a_run_or_a_call_is_no_past() -> None:
    assert past_of([use("executor", 12, 900)], 0) is None
    assert past_of([], 3) is None


@given(st.integers(1, 50), st.integers(1, 400), st.integers(1, 10**6))
def test_the_past_grows_with_the_runs_that_are_planned_and_never_shrinks_by_rounding(
    runs: int, calls: int, tokens: int
) -> None:
    plan = planned()
    (skill,) = plan.skills
    now = sum(arm.runs for case in skill.cases for arm in case.arms)
    found = expected(plan, {skill.slug: PastCost(runs=runs, calls=calls, tokens=tokens)}, some_settings())
    assert 0 <= found.calls * runs - calls * now < runs
    assert 0 <= found.tokens * runs - tokens * now < runs
    assert found.by_past == 1


def test_a_skill_without_a_past_is_told_by_rule() -> None:
    plan = planned(a_skill_intake("skills/a"), a_skill_intake("skills/b"))
    by_rule = [estimate([skill], some_settings()) for skill in plan.skills]
    assert expected(plan, {}, some_settings())[:2] == tuple(map(sum, zip(*by_rule, strict=True)))
    known = {plan.skills[0].slug: PastCost(runs=1000, calls=1000, tokens=None)}
    found = expected(plan, known, some_settings())
    runs = sum(arm.runs for case in plan.skills[0].cases for arm in case.arms)
    assert found == (runs + by_rule[1][0], by_rule[0][1] + by_rule[1][1], 1)
    assert "1 of the skills by what they needed the last time" in expected_words(found, plan)


def test_a_past_is_of_one_skill_one_mode_and_its_models() -> None:
    (one,) = planned(a_skill_intake("skills/a")).skills
    (other,) = planned(a_skill_intake("skills/b")).skills
    facts = {
        past_facts(one, some_settings()),
        past_facts(other, some_settings()),
        past_facts(one, some_settings(mode=Mode.SMOKE)),
        past_facts(one, some_settings(models=None)),
    }
    assert len(facts) == 4
