from __future__ import annotations

import pytest

from tests.bench import arithmetic
from tests.bench._figures import last_figures


@pytest.mark.requirements("R48", "R80", "R84")
def test_every_total_tie_and_mean_of_a_comparison_is_exact_and_rounding_first_is_not(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert arithmetic.main(["--small"]) == 0
    figures = last_figures(capsys)
    assert [item["figure"] for item in figures] == [0, 0, 0, 0]
    assert figures[0]["n"] == (13 * 13) ** 2
    assert figures[0]["baseline"] > 0
