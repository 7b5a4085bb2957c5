from __future__ import annotations

import pytest

from tests.bench import service_kill, service_load, workers
from tests.bench._figures import last_figures
from tests.postgresql import needed

pytestmark = pytest.mark.timeout(280)


def test_deliveries_are_answered_and_none_is_lost_over_a_kill_in_their_middle(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert service_load.main(["--small"]) == 0
    answer, lost = last_figures(capsys)

    assert {item["bench"] for item in (answer, lost)} == {"service_load"}
    assert answer["figure"] > 0
    assert (lost["figure"], lost["ok"]) == (0, True)
    assert lost["baseline"] > 0, "what knows delivery ids only makes two jobs of some head"


@pytest.mark.docker
def test_jobs_whose_process_was_killed_end_once_unpaid_twice_and_leave_nothing(
    capsys: pytest.CaptureFixture[str],
) -> None:
    needed()
    assert service_kill.main(["--small"]) == 0
    wrong, twice, left = last_figures(capsys)

    assert (wrong["figure"], wrong["ok"]) == (0, True)
    assert (twice["figure"], twice["ok"]) == (0, True)
    assert twice["baseline"] > 0, "something had been paid for when the process died"
    assert (left["figure"], left["ok"]) == (0, True)


def test_two_workers_are_measured_against_one(capsys: pytest.CaptureFixture[str]) -> None:
    needed()
    assert workers.main(["--small"]) == 0
    efficiency = last_figures(capsys)

    assert efficiency["bench"] == "workers"
    assert 0 < efficiency["figure"] < 1.5
