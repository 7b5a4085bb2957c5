from __future__ import annotations

import pytest

from tests.bench import flood, kill, makespan, overhead
from tests.bench._figures import last_figures

pytestmark = [pytest.mark.docker, pytest.mark.timeout(280)]


@pytest.mark.requirements("R8")
def test_a_flood_costs_little_memory_where_the_usual_way_costs_all_of_it(capsys: pytest.CaptureFixture[str]) -> None:
    assert flood.main(["--small"]) == 0
    figure = last_figures(capsys)

    assert (figure["bench"], figure["ok"]) == ("flood", True)
    assert figure["baseline"] > 90


@pytest.mark.timeout(600)
def test_a_session_that_is_killed_leaves_nothing_and_loses_nothing(capsys: pytest.CaptureFixture[str]) -> None:
    assert kill.main(["--small"]) == 0
    left, lost, other, unpaid = last_figures(capsys)

    assert [(item["figure"], item["ok"]) for item in (left, lost, other, unpaid)] == [(0, True)] * 4
    assert left["baseline"] > 0, "there was something to leave behind"
    assert unpaid["baseline"] > 0, "without a journal replies are paid for again"


def test_what_a_run_costs_beside_its_model_is_measured_against_the_bare_container(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert overhead.main(["--small"]) == 0
    figure = last_figures(capsys)

    assert figure["bench"] == "overhead"
    assert figure["figure"] > 0
    assert figure["baseline"] > 0


def test_many_runs_are_measured_against_what_no_scheduler_could_beat(capsys: pytest.CaptureFixture[str]) -> None:
    assert makespan.main(["--small"]) == 0
    long, short, memory = last_figures(capsys)

    assert {item["bench"] for item in (long, short, memory)} == {"makespan"}
    assert long["ratio"] > 0.9, "nobody beats the bound"
    assert memory["ok"]
