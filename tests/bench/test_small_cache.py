from __future__ import annotations

import pytest

from tests.bench import cache, shards
from tests.bench._figures import last_figures


def test_a_second_push_costs_less_and_an_unchanged_skill_nothing(capsys: pytest.CaptureFixture[str]) -> None:
    assert cache.main(["--small"]) == 0
    changed, unchanged = last_figures(capsys)

    assert changed["bench"] == unchanged["bench"] == "cache"
    assert 0 < changed["figure"] < changed["baseline"], "the arm with the changed skill is paid for"
    assert (unchanged["figure"], unchanged["ok"]) == (0, True)
    assert unchanged["baseline"] > 0


def test_shards_are_measured_against_the_whole_and_none_is_lost_or_changed_unseen(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert shards.main(["--small"]) == 0
    efficiency, bytes_, unseen = last_figures(capsys)

    assert {item["bench"] for item in (efficiency, bytes_, unseen)} == {"shards"}
    assert 0 < efficiency["figure"] < 1.5
    assert (bytes_["figure"], bytes_["ok"]) == (0, True)
    assert (unseen["figure"], unseen["ok"]) == (0, True)
    assert unseen["baseline"] == 1, "a mean over what is there lets all of them pass"
