from __future__ import annotations

import math
from fractions import Fraction
from itertools import product

import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from gate import statistics


def test_five_wins_without_a_loss_are_the_smallest_suite_that_reaches_five_per_cent() -> None:
    assert statistics.sign_test(5, 0) == 0.03125
    assert statistics.sign_test(4, 0) == 0.0625
    assert statistics.sign_flip_test([Fraction(1)] * 5) == 0.03125


def test_the_sign_flip_test_is_the_count_over_every_flip() -> None:
    deltas = [Fraction(1, 3), Fraction(-1, 3), Fraction(2, 3), Fraction(1), Fraction(0), Fraction(1, 2)]
    flips = [sum(s * d for s, d in zip(signs, deltas, strict=True)) for signs in product((1, -1), repeat=len(deltas))]
    expected = sum(total >= sum(deltas) for total in flips) / len(flips)
    assert statistics.sign_flip_test(deltas) == pytest.approx(expected, abs=1e-12)


def test_the_sign_flip_test_agrees_with_an_independent_implementation() -> None:
    deltas = [0.25, 0.5, -0.25, 0.75, 0.5, 0.25, -0.5, 1.0]
    oracle = stats.permutation_test(
        (deltas,), math.fsum, permutation_type="samples", alternative="greater", n_resamples=10_000
    )
    assert statistics.sign_flip_test([Fraction(d) for d in deltas]) == pytest.approx(oracle.pvalue, abs=1e-9)


def test_without_any_difference_the_sign_flip_test_says_nothing() -> None:
    assert statistics.sign_flip_test([]) == 1
    assert statistics.sign_flip_test([Fraction(0)] * 9) == 1


def test_a_sign_flip_test_that_cannot_be_counted_is_refused() -> None:
    with pytest.raises(ValueError, match="too many"):
        statistics.sign_flip_test([Fraction(1, prime) for prime in (101, 103, 107, 109, 113)])


@pytest.mark.parametrize("total", [1, 3, 10, 60])
def test_jeffreys_is_the_beta_interval_with_closed_ends(total: int) -> None:
    for passed in range(total + 1):
        low, high = statistics.jeffreys(passed, total)
        oracle = stats.beta(passed + 0.5, total - passed + 0.5)
        assert low == (0 if passed == 0 else pytest.approx(oracle.ppf(0.025), abs=1e-9))
        assert high == (1 if passed == total else pytest.approx(oracle.ppf(0.975), abs=1e-9))


def test_jeffreys_gives_the_published_limits_of_nine_in_ten() -> None:
    low, high = statistics.jeffreys(9, 10)
    assert (round(low, 2), round(high, 2)) == (0.62, 0.99)


@given(st.integers(1, 80), st.integers(0, 80), st.sampled_from([0.5, 0.8, 0.95]))
def test_the_exact_bound_is_below_a_rate_exactly_where_the_binomial_test_rejects_it(
    total: int, passed: int, rate: float
) -> None:
    passed = min(passed, total)
    p = statistics.binomial_at_most(passed, total, rate)
    assert p == pytest.approx(stats.binom.cdf(passed, total, rate), abs=1e-9)
    if abs(p - 0.05) > 1e-9:
        assert (statistics.clopper_pearson_upper(passed, total) < rate) == (p < 0.05)


@given(st.lists(st.floats(0, 1), min_size=1, max_size=40))
def test_benjamini_hochberg_agrees_with_an_independent_implementation(values: list[float]) -> None:
    assert statistics.benjamini_hochberg(values) == pytest.approx(list(stats.false_discovery_control(values)), abs=1e-9)


@given(st.lists(st.floats(0, 1), max_size=20))
def test_holm_is_never_under_benjamini_hochberg_nor_over_bonferroni(values: list[float]) -> None:
    for raw, loose, tight in zip(values, statistics.benjamini_hochberg(values), statistics.holm(values), strict=True):
        assert raw <= loose + 1e-12
        assert loose <= tight + 1e-12
        assert tight <= min(1, raw * len(values)) + 1e-12


def test_holm_gives_the_textbook_values() -> None:
    assert statistics.holm([0.01, 0.04, 0.03, 0.005]) == pytest.approx([0.03, 0.06, 0.06, 0.02])
    assert statistics.benjamini_hochberg([0.01, 0.04, 0.03, 0.005]) == pytest.approx([0.02, 0.04, 0.04, 0.02])


def test_the_interval_over_cases_is_the_t_interval_of_their_rates_where_that_is_wider() -> None:
    groups = [(5, 5)] * 10 + [(0, 5)] * 10
    interval = statistics.clustered(groups)
    assert interval is not None
    rates = [passed / runs for passed, runs in groups]
    low, high = stats.t.interval(0.95, 19, loc=0.5, scale=stats.sem(rates))
    assert interval.low <= low + 1e-9
    assert interval.high >= high - 1e-9


def test_cases_that_are_all_alike_do_not_make_an_interval_of_no_width() -> None:
    assert statistics.clustered([(3, 3)] * 4) == pytest.approx((statistics.clopper_pearson(4, 4).low, 1.0))


def test_one_case_has_no_interval_over_cases() -> None:
    assert statistics.clustered([(3, 3)]) is None
    assert statistics.clustered([(3, 3), (0, 0)]) is None


def test_the_sequential_test_stops_a_grossly_broken_skill_after_two_failures() -> None:
    assert statistics.Sprt(0.95, 0.7).decide([False, False, True]) == (False, 2)


def test_the_sequential_test_needs_ten_passes_in_a_row_and_is_undecided_at_its_cap() -> None:
    assert statistics.Sprt(0.95, 0.7).decide([True] * 20) == (True, 10)
    assert statistics.Sprt(0.95, 0.7, cap=6).decide([True] * 20) == (None, 6)
    with pytest.raises(ValueError, match="bad < good"):
        statistics.Sprt(0.7, 0.95).decide([True])


def test_five_straight_wins_bring_the_wealth_over_twenty_and_a_loss_nearly_all_of_it_away() -> None:
    path = statistics.wealth([1, 1, 1, 1, 1])
    assert path[3] < 20 <= path[4]
    assert statistics.wealth([1, -1])[-1] == pytest.approx(0.19)
    assert statistics.wealth([0, 0]) == [1, 1]


def test_pass_at_k_is_averaged_per_case_and_never_pooled() -> None:
    groups = [(4, 4), (4, 0)]
    assert statistics.mean_pass_hat_k(groups, 2) == 0.5
    assert statistics.mean_pass_at_k(groups, 2) == 0.5
    assert statistics.mean_pass_hat_k([(4, 2)], 2) == pytest.approx(1 / 6)
    assert statistics.mean_pass_hat_k([(1, 1)], 2) is None


@pytest.mark.parametrize(
    ("least", "able"),
    [
        ([], []),
        ([0.03125], [0]),
        ([1.0, 0.03125, 1.0], [1]),
        ([0.03125, 0.03125], []),
        ([0.015625, 0.015625], [0, 1]),
        ([0.03125, 0.0009765625], [1]),
        ([0.06], []),
    ],
)
def test_only_tests_that_can_be_significant_after_correction_are_corrected_for(
    least: list[float], able: list[int]
) -> None:
    assert statistics.able_to_reject(least) == able


@given(st.lists(st.tuples(st.integers(0, 12), st.floats(0, 1)), max_size=30))
def test_a_correction_over_those_tests_never_makes_a_p_smaller_and_leaves_the_others_at_one(
    tests: list[tuple[int, float]],
) -> None:
    least = [2.0**-untied for untied, _ in tests]
    p_values = [max(p, low) for (_, p), low in zip(tests, least, strict=True)]
    able = statistics.able_to_reject(least)
    for index, p in enumerate(statistics.holm_of_able(p_values, least)):
        assert p >= p_values[index]
        assert index in able or p == 1


@given(st.lists(st.integers(0, 12), max_size=30))
def test_the_chance_of_any_false_block_stays_within_the_error_whatever_cases_there_are(untied: list[int]) -> None:
    """Exact: sign tests of these many untied cases, nothing got worse anywhere, and their number is not paid for in full."""
    least = [2.0**-count for count in untied]
    none = 1.0
    for index in range(len(untied)):
        blocked = 0.0
        for lost in range(untied[index] + 1):
            p_values = [1.0] * len(untied)
            p_values[index] = statistics.sign_test(lost, untied[index] - lost)
            if statistics.holm_of_able(p_values, least)[index] <= 0.05:
                blocked += math.comb(untied[index], lost) / 2 ** untied[index]
        none *= 1 - blocked
    assert 1 - none <= 0.05


@pytest.mark.parametrize(
    ("first", "second", "low", "high"),
    [((56, 70), (48, 80), 0.0524, 0.3339), ((9, 10), (3, 10), 0.1705, 0.8090), ((10, 10), (0, 10), 0.6075, 1.0)],
)
def test_the_difference_of_two_rates_as_newcombe_printed_it_in_1998(
    first: tuple[int, int], second: tuple[int, int], low: float, high: float
) -> None:
    assert statistics.difference(first, second) == pytest.approx((low, high), abs=5e-5)
    assert statistics.difference(second, first) == pytest.approx((-high, -low), abs=5e-5)
