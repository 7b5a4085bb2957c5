from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from gate.domain.checks import SkillOpened
from gate.domain.suite import Suite, TriggerCase
from gate.planning.triggers import MOST_QUERIES, trigger_cases
from tests.builders_skill import a_case

QUERIES = st.lists(
    st.builds(
        TriggerCase, id=st.text("ab1", max_size=3), query=st.text("xyz ", min_size=1), should_trigger=st.booleans()
    ),
    max_size=60,
).map(lambda items: [item for item in items if item.query.strip()])


def a_suite(queries: list[TriggerCase], **values: object) -> Suite:
    return Suite(path="evals.json", dialect="x", cases=(), triggers=tuple(queries), **values)  # type: ignore[arg-type]


@given(QUERIES)
def test_every_query_becomes_one_case_with_an_id_of_its_own_or_is_counted_as_left_out(
    queries: list[TriggerCase],
) -> None:
    cases, left = trigger_cases(a_suite(queries), draw="s")
    assert len({case.eval_id for case in cases}) == len(cases) <= MOST_QUERIES
    assert len({case.digest for case in cases}) == len(cases)
    assert len(cases) + left == len({(item.query.strip(), item.should_trigger) for item in queries})
    for case in cases:
        [check] = case.checks
        assert isinstance(check.parameters, SkillOpened)
        assert check.parameters.opened is case.trigger


@given(QUERIES, st.randoms(use_true_random=False))
def test_which_queries_are_asked_does_not_depend_on_their_order(queries: list[TriggerCase], random: object) -> None:
    shuffled = list(queries)
    random.shuffle(shuffled)  # type: ignore[attr-defined]
    one, other = (trigger_cases(a_suite(items), draw="s")[0] for items in (queries, shuffled))
    assert {case.digest for case in one} == {case.digest for case in other}


def test_of_a_large_set_both_kinds_of_queries_are_asked() -> None:
    queries = [TriggerCase(id="", query=f"q{n}", should_trigger=n % 10 == 0) for n in range(200)]
    cases, left = trigger_cases(a_suite(queries), draw="s")
    assert (sum(bool(case.trigger) for case in cases), len(cases), left) == (20, 40, 160)
    few = [TriggerCase(id="", query=f"q{n}", should_trigger=n > 2) for n in range(100)]
    cases, _ = trigger_cases(a_suite(few), draw="s")
    assert (sum(not case.trigger for case in cases), len(cases)) == (3, 40)


def test_an_id_that_a_case_has_is_not_given_twice() -> None:
    suite = a_suite([TriggerCase(id="trigger-1", query="q", should_trigger=True)])
    cases, _ = trigger_cases(suite.model_copy(update={"cases": (a_case(eval_id="trigger-1"),)}), draw="s")
    assert [case.eval_id for case in cases] == ["trigger-1-2"]


def test_which_queries_of_a_large_set_are_asked_is_drawn_anew_in_every_session() -> None:
    queries = [TriggerCase(id="", query=f"q{n}", should_trigger=True) for n in range(80)]
    asked = [{case.digest for case in trigger_cases(a_suite(queries), draw=draw)[0]} for draw in "abcdefgh"]
    assert len(set.union(*asked)) > 70  # no query stays out of sight
    assert all(len(one) == MOST_QUERIES for one in asked)
