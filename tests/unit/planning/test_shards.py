from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gate.domain.plan import Plan
from gate.domain.suite import CaseType
from gate.errors import ConfigurationError
from gate.planning import plan_session
from gate.planning.shards import Shard, parse_shard, part_of, shards, units
from tests.builders_skill import a_case, a_skill_intake, a_suite, an_intake, some_settings

TYPES = list(CaseType)


def a_plan(cases: dict[str, list[int]]) -> Plan:
    """A plan; by skill folder, the type of each case as an index."""
    skills = []
    for path, types in cases.items():
        suite = a_suite(*(a_case(f"case-{number}", type=TYPES[kind]) for number, kind in enumerate(types)))
        skills.append(a_skill_intake(path, suite=suite, base_suite=suite))
    return plan_session(an_intake(*skills), some_settings(), session_id="s", run_date="2026-01-31")


PLANS = st.dictionaries(
    st.sampled_from(["skills/a", "skills/b", "b/c"]),
    st.lists(st.integers(0, len(TYPES) - 1), min_size=1, max_size=6),
    min_size=1,
).map(a_plan)


@given(PLANS, st.integers(1, 20))
def test_shards_hold_every_case_once_and_are_the_same_every_time(plan: Plan, count: int) -> None:
    count = min(count, len(units(plan)))
    cut = shards(plan, count)
    assert sorted(unit for part in cut for unit in part) == sorted(unit for _, unit in units(plan))
    assert all(cut)
    assert cut == shards(plan, count)
    parts = [part_of(plan, Shard(number, count)) for number in range(1, count + 1)]
    assert all([skill.slug for skill in part.skills] == [skill.slug for skill in plan.skills] for part in parts)
    planned = sum(len(skill.cases) for part in parts for skill in part.skills)
    assert planned == len(units(plan))


@given(PLANS, st.integers(1, 6))
def test_no_shard_has_more_than_its_share_and_one_case(plan: Plan, count: int) -> None:
    weights = {unit: weight for weight, unit in units(plan)}
    count = min(count, len(weights))
    loads = [sum(weights[unit] for unit in part) for part in shards(plan, count)]
    assert max(loads) <= sum(loads) / count + max(weights.values())


@pytest.mark.parametrize("text", ["0/2", "3/2", "1/257", "1", "a/b", "1/2/3", ""])
def test_what_is_no_shard_is_refused(text: str) -> None:
    with pytest.raises(ConfigurationError, match="no shard"):
        parse_shard(text)


def test_more_shards_than_cases_are_refused() -> None:
    with pytest.raises(ConfigurationError, match="cannot be cut into 3 shards"):
        shards(a_plan({"skills/a": [0, 1]}), 3)
