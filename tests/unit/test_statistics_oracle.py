"""Our exact tests and intervals against what statsmodels gave, to 1e-9 (J11). Its figures are kept, it is no dependency."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from gate import statistics

ORACLE: dict[str, Any] = json.loads(
    (Path(__file__).parents[1] / "assets/statistics_oracle.json").read_text(encoding="utf-8")
)
CLOSE = 1e-9


@pytest.mark.parametrize("row", ORACLE["adjusted"], ids=lambda row: f"{len(row['p'])} tests")
def test_holm_and_benjamini_hochberg(row: dict[str, list[float]]) -> None:
    assert statistics.holm(row["p"]) == pytest.approx(row["holm"], abs=CLOSE)
    assert statistics.benjamini_hochberg(row["p"]) == pytest.approx(row["bh"], abs=CLOSE)


@pytest.mark.parametrize("row", ORACLE["intervals"], ids=lambda row: f"{row['passed']} of {row['total']}")
def test_exact_and_shown_intervals(row: dict[str, Any]) -> None:
    passed, total = row["passed"], row["total"]
    assert statistics.clopper_pearson(passed, total) == pytest.approx(row["exact"], abs=CLOSE)
    assert statistics.wilson(passed, total) == pytest.approx(row["wilson"], abs=CLOSE)
    # Ours keeps 0 and 1 at the ends (Brown, Cai and DasGupta 2001), where statsmodels takes the bare quantile.
    low, high = row["jeffreys"]
    expected = (0.0 if passed == 0 else low, 1.0 if passed == total else high)
    assert statistics.jeffreys(passed, total) == pytest.approx(expected, abs=CLOSE)


@pytest.mark.parametrize("row", ORACLE["mcnemar"], ids=lambda row: f"{row['one']} to {row['other']}")
def test_exact_mcnemar(row: dict[str, Any]) -> None:
    assert statistics.mcnemar_exact(row["one"], row["other"]) == pytest.approx(row["p"], abs=CLOSE)


def test_the_bound_that_blocks_is_the_upper_end_of_the_two_sided_interval_at_twice_the_error() -> None:
    for passed, total in ((0, 4), (3, 10), (15, 20), (19, 20)):
        assert statistics.clopper_pearson_upper(passed, total) == pytest.approx(
            statistics.clopper_pearson(passed, total, confidence=0.90).high, abs=CLOSE
        )
