from __future__ import annotations

from collections import Counter
from dataclasses import replace

import pytest

from gate.audit.simulate import JUDGES, Change, Judge, Result, World, simulate
from gate.domain.plan import Enforce, Mode
from gate.domain.report import State, Verdict

ORACLE = JUDGES[0]
BY_NAME = {judge.name: judge for judge in JUDGES}
QUIET = World(cases=6, miss=0.0, lost_run=0.0)


def verdicts(change: Change, judge: Judge, world: World = QUIET, count: int = 12) -> Counter[Verdict]:
    return Counter(result.verdict for result in simulate(change, judge, world, count=count, seed="s"))


def results(count: int, first: int = 0) -> list[Result]:
    return list(simulate(Change.SEMANTIC, BY_NAME["lenient .96/.60"], QUIET, count=count, seed="s", first=first))


def test_the_same_arguments_give_the_same_results_in_any_slices() -> None:
    whole = results(6)
    assert whole == [*results(2), *results(4, first=2)]
    assert len({result.runs for result in whole}) > 1


def test_a_clean_change_under_an_oracle_passes_with_the_fewest_runs() -> None:
    found = list(simulate(Change.CLEAN, ORACLE, QUIET, count=5, seed="s"))
    assert {result.verdict for result in found} == {Verdict.PASS}
    assert {result.runs for result in found} == {4 * QUIET.cases}
    assert {result.states[Enforce.STANDARD] for result in found} == {State.SUCCESS}
    assert {result.states[Enforce.STRICT] for result in found} == {State.FAILURE}, "6 cases prove no bound of .15"


def test_a_rule_that_is_always_broken_fails_with_confirming_runs() -> None:
    world = replace(QUIET, strength=(1.0, 1.0))
    for change in (Change.CHECKABLE, Change.SEMANTIC):
        assert set(verdicts(change, ORACLE, world)) == {Verdict.FAIL}


def test_a_captured_judge_owns_only_what_no_check_covers_and_controls_find_it_out() -> None:
    world = replace(QUIET, strength=(1.0, 1.0))
    careful = BY_NAME["captured, spares controls and quotes"]
    assert set(verdicts(Change.SEMANTIC, careful, world)) == {Verdict.PASS}
    assert set(verdicts(Change.CHECKABLE, careful, world)) == {Verdict.FAIL}
    assert set(verdicts(Change.SEMANTIC, BY_NAME["captured"], world)) == {Verdict.INVALID}


def test_a_judge_that_seldom_answers_makes_errors_and_no_passes_and_no_failures() -> None:
    assert set(verdicts(Change.CLEAN, replace(BY_NAME["slow"], no_answer=0.5))) == {Verdict.ERROR}


@pytest.mark.parametrize("mode", [Mode.STANDARD, Mode.FULL])
def test_the_mean_gate_passes_what_is_broken_in_four_cases_of_ten(mode: Mode) -> None:
    world = replace(QUIET, mode=mode)
    found = list(simulate(Change.CHECKABLE, ORACLE, world, count=10, seed="s"))
    assert all(result.mean_passes for result in found)
    assert not any(
        result.verdict is Verdict.PASS and result.states[Enforce.STRICT] is State.SUCCESS for result in found
    )
