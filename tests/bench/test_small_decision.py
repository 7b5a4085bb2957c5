from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from gate.audit.simulate import JUDGES
from tests.bench import cost, intervals, many_skills, operating_characteristic, stopping, triage
from tests.bench._figures import last_figures

Main = Callable[[list[str]], int]


def figures(main: Main, capsys: pytest.CaptureFixture[str], *arguments: str) -> list[dict[str, Any]]:
    assert main(["--small", *arguments]) == 0
    found = last_figures(capsys)
    listed: list[dict[str, Any]] = found if isinstance(found, list) else [found]
    for item in listed:
        assert set(item) == {"bench", "figure", "unit", "baseline", "ratio", "bound", "n", "goal", "ok"}
        assert isinstance(item["ok"], bool)
        assert item["n"] > 0
    return listed


def test_the_operating_characteristic_lets_no_broken_check_pass_at_twenty_cases_where_the_mean_gate_does(
    capsys: pytest.CaptureFixture[str],
) -> None:
    found = figures(operating_characteristic.main, capsys, "--changes", "6")
    first = found[0]
    assert first["unit"].startswith("false PASS, checkable rule broken at 20 cases")
    assert first["figure"] == 0
    assert first["baseline"] == 1
    assert len(found) == 16
    assert len(JUDGES) >= 8


def test_exact_intervals_cover_at_every_rate_and_the_naive_ones_do_not(capsys: pytest.CaptureFixture[str]) -> None:
    exact, shown, _ = figures(intervals.main, capsys)
    assert exact["figure"] >= 0.95 > exact["baseline"]
    assert shown["figure"] >= 0.94 > shown["baseline"]


def test_looking_after_every_case_costs_the_e_process_nothing(capsys: pytest.CaptureFixture[str]) -> None:
    found = figures(stopping.main, capsys)
    assert found[0]["figure"] < found[0]["baseline"]
    assert next(item for item in found if item["unit"].startswith("runs of the sequential"))["ok"]


def test_twenty_skills_share_one_error(capsys: pytest.CaptureFixture[str]) -> None:
    found = figures(many_skills.main, capsys)
    assert found[0]["figure"] <= 0.125 < found[0]["baseline"]
    assert found[-1]["ok"]


def test_triage_is_right_where_it_gives_a_name(capsys: pytest.CaptureFixture[str]) -> None:
    found = figures(triage.main, capsys)
    assert min(item["figure"] for item in found) > 0.9
    assert min(item["baseline"] for item in found) < 0.5


def test_a_pull_request_costs_what_the_model_server_counted(capsys: pytest.CaptureFixture[str]) -> None:
    first, second = figures(cost.main, capsys)
    assert 0 < second["figure"] < first["figure"] == second["baseline"]
    assert first["ok"]
