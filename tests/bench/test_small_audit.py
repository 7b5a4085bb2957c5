from __future__ import annotations

import pytest

from tests.bench import null_agents, tamper
from tests.bench._figures import last_figures


def test_the_bench_of_tampers_finds_every_byte_and_a_naive_variant_does_not(capsys: pytest.CaptureFixture[str]) -> None:
    assert tamper.main(["--small"]) == 0
    missed, seconds, processor, sealed_anew = last_figures(capsys)
    assert (missed["figure"], missed["n"]) == (0, 300)
    assert missed["baseline"] > 0.05
    assert seconds["unit"].startswith("s to verify")
    assert processor["figure"] > 0
    assert sealed_anew["n"] == 2


def test_the_bench_of_null_agents_catches_every_weak_suite(capsys: pytest.CaptureFixture[str]) -> None:
    assert null_agents.main(["--small"]) == 0
    sessions, invalid, missed = last_figures(capsys)
    assert sessions["figure"] == 0
    assert invalid["figure"] == 0, "the demo's suites are valid"
    assert (missed["figure"], missed["n"]) == (0, len(null_agents.WEAK))
    assert missed["baseline"] > 0.5
