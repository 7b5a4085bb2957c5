from __future__ import annotations

import pytest

from tests.bench import replies
from tests.bench._figures import last_figures


def test_the_bench_of_malformed_replies_prints_no_wrong_verdict_and_a_naive_reader_that_makes_some(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert replies.main(["--small"]) == 0
    figures = last_figures(capsys)
    assert [item["figure"] for item in figures] == [0, 0, 0]
    assert all(item["baseline"] > 0.3 for item in figures)
    assert figures[-1]["n"] == sum(figures[-1]["tiers"].values())
