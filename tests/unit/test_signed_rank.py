from __future__ import annotations

import itertools
from fractions import Fraction

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import rankdata, wilcoxon

from gate.statistics import signed_rank

SMALL = st.lists(st.integers(-6, 6), max_size=9)


def by_counting(differences: list[int]) -> float:
    """The same by its definition: every way to give signs to the ranks."""
    left = [item for item in differences if item]
    ranks: list[float] = [float(rank) for rank in rankdata([abs(item) for item in left])] if left else []
    reached = sum(rank for rank, item in zip(ranks, left, strict=True) if item > 0)
    ways = list(itertools.product((0, 1), repeat=len(left)))
    sums = [sum(rank for rank, on in zip(ranks, way, strict=True) if on) for way in ways]
    return sum(total >= reached - 1e-9 for total in sums) / len(ways)


@given(SMALL)
@settings(max_examples=200)
def test_it_is_the_share_of_all_signs_that_reach_this_sum_of_ranks(differences: list[int]) -> None:
    assert signed_rank(tuple(map(Fraction, differences))) == pytest.approx(by_counting(differences), abs=1e-12)


@given(st.lists(st.integers(1, 500), min_size=1, max_size=25, unique=True), st.data())
@settings(max_examples=60)
def test_without_ties_it_is_scipys_exact_test(sizes: list[int], data: st.DataObject) -> None:
    signs = data.draw(st.lists(st.sampled_from((1, -1)), min_size=len(sizes), max_size=len(sizes)))
    differences = [size * sign for size, sign in zip(sizes, signs, strict=True)]
    expected = wilcoxon(differences, alternative="greater", method="exact").pvalue
    assert signed_rank(tuple(map(Fraction, differences))) == pytest.approx(expected, abs=1e-12)


@given(SMALL.flatmap(st.permutations), st.integers(1, 7))
def test_neither_order_nor_scale_nor_zeros_change_it(differences: list[int], scale: int) -> None:
    plain = signed_rank(tuple(Fraction(item) for item in sorted(differences)))
    other = signed_rank(tuple(Fraction(item, scale) for item in (*differences, 0, 0)))
    assert plain == other


def test_eight_of_one_sign_are_one_in_256_and_nothing_says_nothing() -> None:
    assert signed_rank((Fraction(1),) * 8) == 1 / 256
    assert signed_rank((Fraction(-1),) * 8) == 1
    assert signed_rank(()) == signed_rank((Fraction(0),) * 3) == 1


def test_many_cases_take_no_time() -> None:
    assert signed_rank(tuple(Fraction(number) for number in range(1, 401))) < 1e-100
