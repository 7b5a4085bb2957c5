from __future__ import annotations

import pytest

from tests.bench import quotes
from tests.bench._figures import last_figures


def test_the_bench_of_quotes_prints_its_figures_with_a_naive_variant_that_is_fooled(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert quotes.main(["--small"]) == 0
    figures = last_figures(capsys)
    assert [item["unit"].split(",")[0].split(" (")[0] for item in figures] == ["forged quotes accepted"] * 3 + [
        "honest quotes rejected"
    ] * 3
    assert figures[2]["figure"] == 0
    assert figures[2]["baseline"] > 0.3
    assert len(quotes.FORGERIES) >= 20
