from __future__ import annotations

import json

import pytest

from tests.bench import debate


def test_the_bench_of_the_debate_lifts_nothing_without_evidence_and_something_with_it(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert debate.main(["--small"]) == 0
    lifted, largest, rounds, unmoved, caved = json.loads(capsys.readouterr().out.splitlines()[-1])
    assert lifted["figure"] == caved["figure"] == unmoved["figure"] == 0
    assert lifted["baseline"] > 0
    assert 0 < largest["figure"] <= 0.1 < largest["baseline"]
    assert rounds["figure"] == 3
