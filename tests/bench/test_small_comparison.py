from __future__ import annotations

import pytest

from tests.bench import aa, blinding, llmbar
from tests.bench._figures import last_figures


def test_the_bench_of_equal_arms_finds_less_than_the_source_s_rule_and_sees_a_better_skill(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert aa.main(["--small"]) == 0
    equal, power, relations = last_figures(capsys)
    assert equal["figure"] <= 0.05
    assert equal["baseline"] > 0.5
    assert power["figure"] > 0.5
    assert relations["figure"] == 0
    assert relations["baseline"] > 0


def test_the_bench_of_recorded_judges_reports_the_half_that_the_policy_was_not_chosen_on(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert llmbar.main(["--small"]) == 0
    wrong, coverage = last_figures(capsys)
    assert wrong["figure"] < wrong["baseline"]
    assert coverage["figure"] >= llmbar.COVERAGE
    listed = llmbar.pairs()
    assert len(listed) == 203
    assert 90 <= sum(pair.held_out for pair in listed) <= 113
    # A vote that is missing is no comparison, and one judge that turns with the order decides nothing.
    pair = listed[0]._replace(votes={"GPT-4/Metrics": (1, None), "GPT-4/Vanilla": (1, 2), "PaLM2/Vanilla": (1, 1)})
    assert llmbar.decided(pair, ("GPT-4/Metrics",)) is None
    assert llmbar.decided(pair, ("GPT-4/Vanilla",)) is None
    assert llmbar.decided(pair, ("PaLM2/Vanilla",)) == 1
    assert llmbar.decided(pair, ("PaLM2/Vanilla", "GPT-4/Vanilla")) is None


def test_the_bench_of_blindness_lets_no_leak_through_where_a_careless_scrubber_lets_most(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert blinding.main(["--small"]) == 0
    through, guessed, relabelled = last_figures(capsys)
    assert through["figure"] == 0
    assert through["baseline"] > 0.5
    assert 0 <= guessed["figure"] <= 1
    assert relabelled["figure"] == 0
