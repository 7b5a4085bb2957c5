"""Exact tests, intervals and the other arithmetic that a verdict rests on. Pure functions; no figure is rounded here.

Sources are named per function; ``judging.md`` is the research note on judging. The unit of every test over cases is the
case, never the run: runs of one case are correlated (judging.md 5.2).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from fractions import Fraction
from functools import lru_cache
from itertools import groupby
from typing import NamedTuple


class Interval(NamedTuple):
    """A confidence interval of a proportion or of a difference of two."""

    low: float
    high: float


def _check_counts(passed: int, total: int) -> None:
    if total < 1 or not 0 <= passed <= total:
        raise ValueError(f"expected 0 <= passed <= total and total >= 1, found {passed} of {total}")


def _check_confidence(confidence: float) -> None:
    if not 0 < confidence < 1:
        raise ValueError(f"a confidence lies between 0 and 1, found {confidence}")


@lru_cache(maxsize=4096)
def _normal_quantile(p: float) -> float:
    from scipy.special import ndtri

    return float(ndtri(p))


def _wilson(passed: int, total: int, z: float) -> Interval:
    p = passed / total
    denominator = 1 + z * z / total
    middle = (p + z * z / (2 * total)) / denominator
    half = z * math.sqrt(p * (1 - p) / total + z * z / (4 * total * total)) / denominator
    low = 0.0 if passed == 0 else max(0.0, middle - half)
    high = 1.0 if passed == total else min(1.0, middle + half)
    return Interval(low, high)


@lru_cache(maxsize=4096)
def wilson(passed: int, total: int, confidence: float = 0.95) -> Interval:
    """Two-sided score interval of a proportion (Wilson 1927): what reports show (judging.md 5.1).

    Raises ValueError for an empty total: nothing tried has no rate.
    """
    _check_counts(passed, total)
    _check_confidence(confidence)
    return _wilson(passed, total, _normal_quantile(1 - (1 - confidence) / 2))


@lru_cache(maxsize=4096)
def clopper_pearson_lower(passed: int, total: int, confidence: float = 0.95) -> float:
    """One-sided exact lower bound of a proportion (Clopper and Pearson 1934). Raises ValueError for an empty total."""
    from scipy.special import betaincinv

    _check_counts(passed, total)
    _check_confidence(confidence)
    return 0.0 if passed == 0 else float(betaincinv(passed, total - passed + 1, 1 - confidence))


@lru_cache(maxsize=4096)
def clopper_pearson_upper(passed: int, total: int, confidence: float = 0.95) -> float:
    """One-sided exact upper bound of a proportion: the bound that may block (DESIGN.md 4, Decision 6)."""
    from scipy.special import betaincinv

    _check_counts(passed, total)
    _check_confidence(confidence)
    return 1.0 if passed == total else float(betaincinv(passed + 1, total - passed, confidence))


def clopper_pearson(passed: int, total: int, confidence: float = 0.95) -> Interval:
    """Two-sided exact interval of a proportion: two one-sided bounds, each with half of the error."""
    _check_confidence(confidence)
    one_sided = 1 - (1 - confidence) / 2
    return Interval(
        clopper_pearson_lower(passed, total, one_sided),
        clopper_pearson_upper(passed, total, one_sided),
    )


@lru_cache(maxsize=4096)
def binomial_at_most(passed: int, total: int, chance: float) -> float:
    """Chance of at most ``passed`` of ``total`` where each passes with ``chance``: the exact one-sided test of a rate.

    It is under ``1 - confidence`` exactly where ``clopper_pearson_upper`` is under ``chance`` (Clopper and Pearson 1934).
    Raises ValueError for an empty total.
    """
    from scipy.special import bdtr

    _check_counts(passed, total)
    return float(bdtr(passed, total, chance))


@lru_cache(maxsize=4096)
def sign_test(for_it: int, against: int) -> float:
    """One-sided exact sign test: the chance of at least ``for_it`` of all untied cases where both sides are equal.

    Ties carry no information and are left out by the caller. No untied case gives 1. Exact integer arithmetic;
    5 to 0 gives 1/32 = .03125, the smallest suite that can reach .05 (judging.md 5.2). Raises ValueError for a negative.
    """
    if for_it < 0 or against < 0:
        raise ValueError("counts are not negative")
    untied = for_it + against
    return sum(math.comb(untied, k) for k in range(for_it, untied + 1)) / (1 << untied)


@lru_cache(maxsize=4096)
def signed_rank(differences: tuple[Fraction, ...]) -> float:
    """One-sided exact signed-rank test (Wilcoxon 1945, with mid-ranks): the chance that the positive differences have at
    least this sum of ranks where either sign is as likely for each.

    It holds for differences of any distribution that is symmetric about zero, as those of two equal arms are. Zeros are
    left out; nothing left gives 1. Eight of one sign give 1/256.
    """
    # Whole numbers in the same order: ranks know no scale.
    scale = math.lcm(*(item.denominator for item in differences))
    left = sorted((item.numerator * (scale // item.denominator) for item in differences if item), key=abs)
    # Twice the mid-rank of every difference, so that all are whole numbers.
    ranks: list[int] = []
    for _, group in groupby(left, key=abs):
        size = sum(1 for _ in group)
        ranks += [2 * len(ranks) + size + 1] * size
    # Coefficients of the product of (1 + x^rank), each in a slot of one long number that is wide enough for their sum.
    width = len(ranks) + 1
    counts = 1
    for rank in ranks:
        counts += counts << (rank * width)
    reached = sum(rank for rank, item in zip(ranks, left, strict=True) if item > 0)
    # The sum of the digits of a number in base b is its remainder by b - 1.
    tail = (counts >> (reached * width)) % ((1 << width) - 1) if ranks else 1
    return tail / (1 << len(ranks))


def mcnemar_exact(one_way: int, other_way: int) -> float:
    """Two-sided exact McNemar test on the two discordant counts (McNemar 1947, binomial form); none gives 1."""
    return min(1.0, 2 * sign_test(max(one_way, other_way), min(one_way, other_way)))


def holm(p_values: Sequence[float]) -> list[float]:
    """Holm's adjusted p values (1979), in the order given: at most the error rate they are compared with, in any mix.

    Raises ValueError where one is no probability.
    """
    if any(not 0 <= p <= 1 for p in p_values):
        raise ValueError("a p value lies between 0 and 1")
    adjusted = [0.0] * len(p_values)
    highest = 0.0
    for rank, index in enumerate(sorted(range(len(p_values)), key=lambda i: p_values[i])):
        highest = max(highest, min(1.0, (len(p_values) - rank) * p_values[index]))
        adjusted[index] = highest
    return adjusted


def able_to_reject(least: Sequence[float], level: float = 0.05) -> list[int]:
    """Indices of the tests that can be significant at all when their number is corrected for (Tarone 1990, Biometrics 46).

    ``least``: the smallest p that each discrete test could give with the margins that it has, whatever it found: a sign
    test of three untied cases never goes under .125, so it can block nothing and need not be paid for. Let K be the
    smallest whole number for which at most K tests have a smallest p of at most ``level / K``; these are returned, in
    order. They are picked without looking at any result, so a correction over them alone keeps the error of all.
    """
    if any(not 0 <= p <= 1 for p in least):
        raise ValueError("a p value lies between 0 and 1")
    for k in range(1, len(least) + 1):
        able = [index for index, p in enumerate(least) if p * k <= level]
        if len(able) <= k:
            return able
    return []


def holm_of_able(p_values: Sequence[float], least: Sequence[float], level: float = 0.05) -> list[float]:
    """Holm's adjusted p values over the tests that ``able_to_reject`` picks; 1 for the others, which can never block."""
    able = able_to_reject(least, level)
    adjusted = [1.0] * len(p_values)
    for index, p in zip(able, holm([p_values[index] for index in able]), strict=True):
        adjusted[index] = p
    return adjusted


def mean(values: Sequence[float]) -> float | None:
    """Arithmetic mean, None for no values. The order of the values does not matter, not even in the last digit."""
    return math.fsum(values) / len(values) if values else None


def sample_sd(values: Sequence[float]) -> float | None:
    """Sample standard deviation (n - 1; R61, K13). None under two values: one run says nothing about spread."""
    if len(values) < 2:
        return None
    middle = math.fsum(values) / len(values)
    return math.sqrt(math.fsum((value - middle) ** 2 for value in values) / (len(values) - 1))


@lru_cache(maxsize=4096)
def mde(cases: int, *, sd: float = 0.4, power: float = 0.8, alpha: float = 0.05) -> float:
    """Smallest drop of the mean over cases that would be seen: (z(1-alpha) + z(power)) * sd / sqrt(cases), one-sided.

    ``sd`` is that of the difference per case; judging.md 5.2 takes .4, which gives .31 for 10 cases, .22 for 20, .17 for
    33, .10 for 100. A drop is at most 1. Raises ValueError under one case.
    """
    if cases < 1:
        raise ValueError("at least one case is needed")
    return min(1.0, (_normal_quantile(1 - alpha) + _normal_quantile(power)) * sd / math.sqrt(cases))


def _check_runs(runs: int, passed: int, k: int) -> None:
    if not (0 <= passed <= runs and 1 <= k <= runs):
        raise ValueError(f"expected 0 <= passed <= runs and 1 <= k <= runs, found {passed} of {runs}, k = {k}")


def pass_at_k(runs: int, passed: int, k: int) -> float:
    """Chance that at least one of ``k`` runs passes: 1 - C(n-c, k) / C(n, k), unbiased, for one case (judging.md 5.2)."""
    _check_runs(runs, passed, k)
    return 1 - math.comb(runs - passed, k) / math.comb(runs, k)


def pass_hat_k(runs: int, passed: int, k: int) -> float:
    """Chance that all of ``k`` runs pass: C(c, k) / C(n, k), unbiased, for one case (tau-bench; judging.md 5.2)."""
    _check_runs(runs, passed, k)
    return math.comb(passed, k) / math.comb(runs, k)


@lru_cache(maxsize=4096)
def paired_difference(both: int, only_first: int, only_second: int, neither: int, confidence: float = 0.90) -> Interval:
    """Interval of first minus second rate over pairs (Newcombe 1998, paired score interval with phi corrected).

    The default gives one-sided 95 % bounds. Wilson limits are squared and added; their correlation phi is shrunk by half
    of the pairs where it is positive. With every pair passing on both sides the low end is ``-z**2 / (n + z**2)``:
    it passes -.05 at 52 pairs and -.15 at 16 (DESIGN.md 4, Decision 9). Raises ValueError without pairs.
    """
    cells = (both, only_first, only_second, neither)
    pairs = sum(cells)
    if min(cells) < 0 or pairs < 1:
        raise ValueError("expected four counts, none negative, at least one pair")
    _check_confidence(confidence)
    z = _normal_quantile(1 - (1 - confidence) / 2)
    first, second = both + only_first, both + only_second
    one, two = _wilson(first, pairs, z), _wilson(second, pairs, z)
    p_one, p_two = first / pairs, second / pairs
    phi = _corrected_phi(both, only_first, only_second, neither)
    difference = (only_first - only_second) / pairs

    def width(near: float, far: float) -> float:
        return math.sqrt(max(0.0, near * near - 2 * phi * near * far + far * far))

    return Interval(
        max(-1.0, difference - width(p_one - one.low, two.high - p_two)),
        min(1.0, difference + width(one.high - p_one, p_two - two.low)),
    )


def difference(first: tuple[int, int], second: tuple[int, int], confidence: float = 0.95) -> Interval:
    """Interval for the first rate minus the second, of two independent samples given as (passed, total).

    Newcombe 1998 (Interval estimation for the difference between independent proportions), method 10: from the Wilson
    intervals of both. Raises ValueError for totals below 1, counts outside them, or a confidence outside (0, 1).
    """
    (passed_1, total_1), (passed_2, total_2) = first, second
    low_1, high_1 = wilson(passed_1, total_1, confidence)
    low_2, high_2 = wilson(passed_2, total_2, confidence)
    rate_1, rate_2 = passed_1 / total_1, passed_2 / total_2
    found = rate_1 - rate_2
    return Interval(
        found - math.hypot(rate_1 - low_1, high_2 - rate_2), found + math.hypot(high_1 - rate_1, rate_2 - low_2)
    )


def _corrected_phi(both: int, only_first: int, only_second: int, neither: int) -> float:
    margins = (both + only_first) * (only_second + neither) * (both + only_second) * (only_first + neither)
    if margins == 0:
        return 0.0
    product: float = both * neither - only_first * only_second
    if product > 0:
        product = max(0.0, product - (both + only_first + only_second + neither) / 2)
    return product / math.sqrt(margins)


@lru_cache(maxsize=4096)
def jeffreys(passed: int, total: int, confidence: float = 0.95) -> Interval:
    """Two-sided interval of a proportion from the Beta(1/2, 1/2) prior, 0 and 1 kept at the ends (Brown, Cai and DasGupta
    2001): for display, never for blocking (judging.md 5.1). Raises ValueError for an empty total.
    """
    from scipy.special import betaincinv

    _check_counts(passed, total)
    _check_confidence(confidence)
    tail = (1 - confidence) / 2
    low = 0.0 if passed == 0 else float(betaincinv(passed + 0.5, total - passed + 0.5, tail))
    high = 1.0 if passed == total else float(betaincinv(passed + 0.5, total - passed + 0.5, 1 - tail))
    return Interval(low, high)


def benjamini_hochberg(p_values: Sequence[float]) -> list[float]:
    """Adjusted p values that bound the share of false finds among the finds (Benjamini and Hochberg 1995), in the order
    given. For lists that people look through, never for blocking. Raises ValueError where one is no probability.
    """
    if any(not 0 <= p <= 1 for p in p_values):
        raise ValueError("a p value lies between 0 and 1")
    adjusted = [0.0] * len(p_values)
    lowest = 1.0
    ranked = sorted(range(len(p_values)), key=lambda i: p_values[i], reverse=True)
    for position, index in enumerate(ranked):
        lowest = min(lowest, p_values[index] * len(p_values) / (len(p_values) - position))
        adjusted[index] = lowest
    return adjusted


def _whole(deltas: Sequence[Fraction]) -> list[int]:
    scale = math.lcm(*(delta.denominator for delta in deltas)) if deltas else 1
    return [int(delta * scale) for delta in deltas]


def sign_flip_test(deltas: Sequence[Fraction]) -> float:
    """One-sided exact permutation test of "the mean is not above 0": the share of all 2**n sign flips of the per-case
    deltas with a sum at least as high (Fisher 1935; judging.md 5.2).

    Zeros change nothing. The smallest p of ``n`` deltas that are not 0 is 2**-n, so under 5 nothing reaches .05. Counted
    exactly over the sums that there are, in whole numbers: no sampling. Raises ValueError for more than 2,000 deltas or
    sums beyond counting (over a million different ones).
    """
    if len(deltas) > 2_000:
        raise ValueError("at most 2,000 deltas")
    whole = [value for value in _whole(deltas) if value]
    if sum(map(abs, whole)) > 1_000_000:
        raise ValueError("the deltas have too many different sums to be counted")
    counts = {0: 1}
    for value in whole:
        after: dict[int, int] = {}
        for total, ways in counts.items():
            for flipped in (total + value, total - value):
                after[flipped] = after.get(flipped, 0) + ways
        counts = after
    seen = sum(whole)
    return float(Fraction(sum(ways for total, ways in counts.items() if total >= seen), 1 << len(whole)))


def clustered(groups: Sequence[tuple[int, int]], confidence: float = 0.95) -> Interval | None:
    """Interval of a rate over runs that are alike within their case: t interval over the rates of the cases, each
    (passed, runs) one value (judging.md 5.2: naive intervals of 10 cases x 5 runs cover 72 % instead of 95 %).

    Where every case has the same rate, the spread says nothing: then the exact interval over cases is given, at the
    counts of whole cases at or beyond that rate. None under two cases with runs.
    """
    from scipy.special import stdtrit

    _check_confidence(confidence)
    rates = [passed / runs for passed, runs in groups if runs]
    if len(rates) < 2:
        return None
    middle = math.fsum(rates) / len(rates)
    spread = sample_sd(rates) or 0.0
    # Cases that are all alike have a spread of 0 although the next one may differ: at least what whole cases would give.
    exact = Interval(
        clopper_pearson(math.floor(middle * len(rates) + 1e-9), len(rates), confidence).low,
        clopper_pearson(math.ceil(middle * len(rates) - 1e-9), len(rates), confidence).high,
    )
    if spread == 0:
        return exact
    half = float(stdtrit(len(rates) - 1, 1 - (1 - confidence) / 2)) * spread / math.sqrt(len(rates))
    # Near an end of the scale the t interval forgets what was not seen: a case that fails is at most one away.
    return Interval(max(0.0, min(middle - half, exact.low)), min(1.0, max(middle + half, exact.high)))


class Sprt(NamedTuple):
    """Wald's sequential test (1945) of a pass rate of ``bad`` against ``good``, capped: ``cap`` runs without an end are
    undecided. Errors of both kinds stay at about ``alpha`` and ``beta``, at whatever run one looks."""

    good: float
    bad: float
    alpha: float = 0.05
    beta: float = 0.05
    cap: int = 60

    def decide(self, outcomes: Sequence[bool]) -> tuple[bool | None, int]:
        """(True: good, False: bad, None: undecided; runs that were looked at). Raises ValueError unless bad < good."""
        if not 0 < self.bad < self.good < 1:
            raise ValueError("expected 0 < bad < good < 1")
        up, down = math.log(self.good / self.bad), math.log((1 - self.good) / (1 - self.bad))
        accept, reject = math.log((1 - self.alpha) / self.beta), math.log(self.alpha / (1 - self.beta))
        weight = 0.0
        for number, passed in enumerate(outcomes[: self.cap], start=1):
            weight += up if passed else down
            if weight >= accept:
                return True, number
            if weight <= reject:
                return False, number
        return None, min(len(outcomes), self.cap)


def wealth(outcomes: Sequence[int], stake: float = 0.9) -> list[float]:
    """An e-process of "neither side is better": a gambler who bets ``stake`` of what he has on the next case being won
    (+1), lost (-1) or tied (0). Under equality his wealth reaches 20 with a chance of at most .05, whenever one looks (Ville
    1939); wealths of several judges may be averaged (judging.md 5.4). With .9, five wins in a row pass 20.
    """
    if not 0 < stake < 1:
        raise ValueError("a stake lies between 0 and 1")
    have, path = 1.0, []
    for outcome in outcomes:
        have *= 1 + stake * outcome
        path.append(have)
    return path


def mean_pass_at_k(groups: Sequence[tuple[int, int]], k: int) -> float | None:
    """Mean of ``pass_at_k`` over cases given as (runs, passed) with at least ``k`` runs; None where there is none."""
    return mean([pass_at_k(runs, passed, k) for runs, passed in groups if runs >= k])


def mean_pass_hat_k(groups: Sequence[tuple[int, int]], k: int) -> float | None:
    """Mean of ``pass_hat_k`` over cases; never a pooled rate to the power of k, which cases of unlike difficulty bias."""
    return mean([pass_hat_k(runs, passed, k) for runs, passed in groups if runs >= k])


WEAK_JUDGE = 0.3
"""Under this TPR + TNR - 1 a judge says too little to correct a rate for it (judging.md 5.7)."""


class Corrected(NamedTuple):
    """A pass rate corrected for the judge's own errors, with its two-sided interval."""

    rate: float
    low: float
    high: float


def corrected_rate(
    passed: int,
    total: int,
    *,
    true_passed: int,
    true_asked: int,
    false_failed: int,
    false_asked: int,
    confidence: float = 0.95,
) -> Corrected | None:
    """The true rate behind a judge's ``passed`` of ``total``: (p + TNR - 1) / (TPR + TNR - 1) (Rogan and Gladen 1978).

    TPR = ``true_passed / true_asked`` and TNR = ``false_failed / false_asked`` over items whose answer is known; the
    interval carries their noise and that of the rate (Lang and Reiczigel 2014), the point lies in it. None where
    TPR + TNR - 1 is under WEAK_JUDGE: then no rate may be reported. Raises ValueError where a total is empty.
    """
    for hits, asked in ((passed, total), (true_passed, true_asked), (false_failed, false_asked)):
        _check_counts(hits, asked)
    _check_confidence(confidence)
    tpr, tnr = true_passed / true_asked, false_failed / false_asked
    # In whole numbers: .6 + .7 - 1 is under .3 for a computer.
    over_chance = Fraction(true_passed, true_asked) + Fraction(false_failed, false_asked) - 1
    if over_chance < Fraction(WEAK_JUDGE).limit_denominator(1000):
        return None
    rate = min(1.0, max(0.0, (passed / total + tnr - 1) / (tpr + tnr - 1)))
    z = _normal_quantile(1 - (1 - confidence) / 2)
    # Each proportion is drawn to the middle a little, so that 20 of 20 is not taken for certain.
    p, n = (passed + z * z / 2) / (total + z * z), total + z * z
    se, n_se = (true_passed + 1) / (true_asked + 2), true_asked + 2
    sp, n_sp = (false_failed + 1) / (false_asked + 2), false_asked + 2
    scale = se + sp - 1
    if scale <= 0:
        return None
    middle = (p + sp - 1) / scale
    se_part, sp_part = se * (1 - se) / n_se, sp * (1 - sp) / n_sp
    shift = 2 * z * z * (middle * se_part - (1 - middle) * sp_part)
    variance = p * (1 - p) / n + middle**2 * se_part + (1 - middle) ** 2 * sp_part
    half = z * math.sqrt(variance) / scale
    return Corrected(rate, max(0.0, min(rate, middle + shift - half)), min(1.0, max(rate, middle + shift + half)))
