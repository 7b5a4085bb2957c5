from __future__ import annotations

import pytest

from tests.bench import debate
from tests.bench._figures import last_figures


def test_the_bench_of_the_debate_lifts_nothing_without_evidence_and_something_with_it(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert debate.main(["--small"]) == 0
    lifted, largest, rounds, unmoved, caved = last_figures(capsys)
    assert lifted["figure"] == caved["figure"] == unmoved["figure"] == 0
    assert lifted["baseline"] > 0
    assert 0 < largest["figure"] <= 0.1 < largest["baseline"]
    assert rounds["figure"] == 3
