from __future__ import annotations

import pytest

from tests.bench import health
from tests.bench._figures import last_figures


def test_the_bench_of_judge_health_notices_a_lenient_judge_and_counts_nothing_that_it_said_when_fooled(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert health.main(["--small"]) == 0
    covered, english, chinese, fooled = last_figures(capsys)
    assert covered["figure"] > covered["baseline"]
    assert english["figure"] == chinese["figure"] == 1
    assert fooled["figure"] == 0
    assert fooled["baseline"] > 0
