from __future__ import annotations

import math
from collections.abc import Callable
from itertools import pairwise

import pytest
from scipy import stats

from gate import statistics


def test_wilson_and_clopper_pearson_give_the_published_limits_of_nine_in_ten() -> None:
    wilson, exact = statistics.wilson(9, 10), statistics.clopper_pearson(9, 10)
    assert (round(wilson.low, 2), round(wilson.high, 2)) == (0.60, 0.98)
    assert (round(exact.low, 2), round(exact.high, 3)) == (0.55, 0.997)


@pytest.mark.parametrize(
    ("runs", "bound"), [(2, 0.22), (3, 0.37), (5, 0.55), (10, 0.74), (14, 0.81), (20, 0.86), (29, 0.90), (59, 0.95)]
)
def test_the_lower_bound_of_all_passes_is_that_of_the_research_table(runs: int, bound: float) -> None:
    assert round(statistics.clopper_pearson_lower(runs, runs), 2) == bound


@pytest.mark.parametrize("total", [1, 2, 5, 17, 60])
def test_intervals_agree_with_an_independent_implementation(total: int) -> None:
    for passed in range(total + 1):
        oracle = stats.binomtest(passed, total)
        score = oracle.proportion_ci(confidence_level=0.95, method="wilson")
        exact = oracle.proportion_ci(confidence_level=0.95, method="exact")
        assert statistics.wilson(passed, total) == pytest.approx((score.low, score.high), abs=1e-9)
        assert statistics.clopper_pearson(passed, total) == pytest.approx((exact.low, exact.high), abs=1e-9)
        upper = stats.binomtest(passed, total, alternative="less").proportion_ci(0.95, method="exact").high
        lower = stats.binomtest(passed, total, alternative="greater").proportion_ci(0.95, method="exact").low
        assert statistics.clopper_pearson_upper(passed, total) == pytest.approx(upper, abs=1e-9)
        assert statistics.clopper_pearson_lower(passed, total) == pytest.approx(lower, abs=1e-9)


def coverage(interval: Callable[[int, int], statistics.Interval], rate: float, total: int) -> float:
    """The exact chance that an interval holds the rate that the counts were drawn from."""
    chances = [math.comb(total, k) * rate**k * (1 - rate) ** (total - k) for k in range(total + 1)]
    limits = [interval(k, total) for k in range(total + 1)]
    return math.fsum(c for c, (low, high) in zip(chances, limits, strict=True) if low <= rate <= high)


@pytest.mark.parametrize("total", [2, 3, 5, 10, 30, 60])
def test_an_exact_interval_covers_at_every_rate_and_the_shown_one_on_average(total: int) -> None:
    rates = [0.5 + step / 100 for step in range(51)]
    assert min(coverage(statistics.clopper_pearson, rate, total) for rate in rates) >= 0.95 - 1e-12
    assert math.fsum(coverage(statistics.wilson, rate, total) for rate in rates) / len(rates) >= 0.94


def test_an_empty_total_has_no_interval() -> None:
    for interval in (statistics.wilson, statistics.clopper_pearson, statistics.clopper_pearson_upper):
        with pytest.raises(ValueError, match="total >= 1"):
            interval(0, 0)


def test_five_to_nothing_is_the_smallest_suite_that_reaches_five_percent() -> None:
    assert statistics.sign_test(5, 0) == 0.03125
    assert statistics.sign_test(4, 0) == 0.0625
    assert statistics.sign_test(0, 0) == 1
    assert statistics.sign_test(0, 5) == 1
    assert statistics.sign_test(7, 1) == 9 / 256


def test_the_sign_test_agrees_with_the_binomial_test() -> None:
    for won in range(12):
        for lost in range(12):
            if won + lost:
                oracle = stats.binomtest(won, won + lost, 0.5, alternative="greater").pvalue
                assert statistics.sign_test(won, lost) == pytest.approx(oracle, abs=1e-12)
                two_sided = stats.binomtest(won, won + lost, 0.5).pvalue
                assert statistics.mcnemar_exact(won, lost) == pytest.approx(two_sided, abs=1e-12)


def test_mcnemar_needs_six_discordant_cases_of_one_direction() -> None:
    assert statistics.mcnemar_exact(5, 0) == 0.0625
    assert statistics.mcnemar_exact(0, 6) == 0.03125
    assert statistics.mcnemar_exact(0, 0) == 1


def test_holm_adjusts_step_down_and_keeps_the_order_given() -> None:
    assert statistics.holm([0.01, 0.04, 0.03, 0.005]) == pytest.approx([0.03, 0.06, 0.06, 0.02])
    assert statistics.holm([0.6, 0.7]) == [1.0, 1.0]
    assert statistics.holm([0.04]) == [0.04]
    assert statistics.holm([]) == []
    with pytest.raises(ValueError, match="between 0 and 1"):
        statistics.holm([1.2])


@pytest.mark.requirements("R61", "R52")
def test_the_standard_deviation_is_that_of_a_sample_and_unknown_under_two_runs() -> None:
    assert statistics.sample_sd([0.5, 1.0, 0.75]) == pytest.approx(0.25)
    assert statistics.sample_sd([0.5]) is None
    assert statistics.sample_sd([]) is None
    assert statistics.mean([]) is None
    assert statistics.mean([0.2, 0.4]) == pytest.approx(0.3)
    population = math.sqrt(((0.5 - 0.75) ** 2 + (1.0 - 0.75) ** 2 + 0) / 3)
    assert statistics.sample_sd([0.5, 1.0, 0.75]) == pytest.approx(population * math.sqrt(3 / 2))


@pytest.mark.parametrize(("cases", "expected"), [(10, 0.31), (20, 0.22), (33, 0.17), (100, 0.10)])
def test_the_smallest_drop_that_would_be_seen_is_that_of_the_research_table(cases: int, expected: float) -> None:
    assert round(statistics.mde(cases), 2) == expected


def test_a_drop_is_never_over_one_and_shrinks_with_cases() -> None:
    assert statistics.mde(1, sd=1.0) == 1.0
    assert all(one > other for one, other in pairwise(statistics.mde(n) for n in range(1, 50)))
    with pytest.raises(ValueError, match="at least one case"):
        statistics.mde(0)


def test_pass_at_k_and_pass_hat_k_count_draws_without_replacement() -> None:
    assert statistics.pass_at_k(4, 1, 1) == statistics.pass_hat_k(4, 1, 1) == 0.25
    assert statistics.pass_at_k(4, 2, 2) == pytest.approx(5 / 6)
    assert statistics.pass_hat_k(4, 2, 2) == pytest.approx(1 / 6)
    assert statistics.pass_hat_k(3, 2, 3) == 0
    assert statistics.pass_at_k(3, 0, 3) == 0
    with pytest.raises(ValueError, match="k = 4"):
        statistics.pass_hat_k(3, 2, 4)


def test_all_pairs_passing_prove_a_drop_under_five_percent_at_52_and_under_15_percent_at_16() -> None:
    assert statistics.paired_difference(52, 0, 0, 0).low > -0.05 > statistics.paired_difference(51, 0, 0, 0).low
    assert statistics.paired_difference(16, 0, 0, 0).low > -0.15 > statistics.paired_difference(15, 0, 0, 0).low


def test_the_paired_interval_holds_the_difference_mirrors_and_rises_with_each_improved_pair() -> None:
    for total in range(1, 13):
        cells = [
            (a, b, c, total - a - b - c)
            for a in range(total + 1)
            for b in range(total + 1 - a)
            for c in range(total + 1 - a - b)
        ]
        for a, b, c, d in cells:
            low, high = statistics.paired_difference(a, b, c, d)
            assert low <= (b - c) / total <= high
            mirrored = statistics.paired_difference(a, c, b, d)
            assert mirrored == pytest.approx((-high, -low))
            if c:
                assert statistics.paired_difference(a + 1, b, c - 1, d).low >= low - 1e-12
            if d:
                assert statistics.paired_difference(a, b + 1, c, d - 1).low >= low - 1e-12


def test_pairs_that_are_not_there_have_no_difference() -> None:
    with pytest.raises(ValueError, match="at least one pair"):
        statistics.paired_difference(0, 0, 0, 0)


def test_a_rate_is_corrected_for_a_judge_that_passes_too_much() -> None:
    """judging.md 0.1: 80 % passed by a judge with TPR .96 and TNR .25 means about 24 %; such a judge is refused."""
    lenient = statistics.corrected_rate(80, 100, true_passed=96, true_asked=100, false_failed=25, false_asked=100)
    assert lenient is None
    fair = statistics.corrected_rate(80, 100, true_passed=96, true_asked=100, false_failed=60, false_asked=100)
    assert fair is not None
    assert fair.rate == pytest.approx((0.8 + 0.6 - 1) / (0.96 + 0.6 - 1))
    assert fair.low < fair.rate < fair.high
    perfect = statistics.corrected_rate(7, 10, true_passed=50, true_asked=50, false_failed=50, false_asked=50)
    assert perfect is not None
    assert perfect.rate == pytest.approx(0.7)


def test_a_corrected_rate_lies_in_its_interval_and_both_are_rates() -> None:
    for passed in range(11):
        for true_passed in range(6, 11):
            for false_failed in range(6, 11):
                found = statistics.corrected_rate(
                    passed, 10, true_passed=true_passed, true_asked=10, false_failed=false_failed, false_asked=10
                )
                if true_passed + false_failed < 13:
                    assert found is None
                    continue
                assert found is not None
                assert 0 <= found.low <= found.rate <= found.high <= 1


@pytest.mark.parametrize("wrong", [{"total": 0}, {"true_asked": 0}, {"false_failed": 11}])
def test_no_rate_is_corrected_by_nothing(wrong: dict[str, int]) -> None:
    counts = {"total": 10, "true_passed": 0, "true_asked": 10, "false_failed": 10, "false_asked": 10} | wrong
    with pytest.raises(ValueError, match="expected 0 <= passed"):
        statistics.corrected_rate(0, counts.pop("total"), **counts)
