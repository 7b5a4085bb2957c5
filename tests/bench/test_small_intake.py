from __future__ import annotations

import pytest

from tests.bench import changes, fuzz_intake, intake
from tests.bench._figures import last_figures


def figures(capsys: pytest.CaptureFixture[str]) -> list[dict[str, object]]:
    found = last_figures(capsys)
    return found if isinstance(found, list) else [found]


def test_the_bench_of_changes_finds_every_change_that_a_naive_reading_misses(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert changes.main(["--small"]) == 0
    found = figures(capsys)
    assert [item["bench"] for item in found] == ["changes"] * 3
    assert found[2]["figure"] == 0
    assert isinstance(found[2]["baseline"], int)
    assert found[2]["baseline"] >= 3


def test_the_bench_of_intake_loses_no_skill_where_a_naive_reader_loses_some(capsys: pytest.CaptureFixture[str]) -> None:
    assert intake.main(["--small"]) == 0
    found = figures(capsys)
    assert [str(item["unit"]).split()[0] for item in found] == ["ms", "ms", "MB", "skills"]
    assert found[3]["figure"] == 0
    assert isinstance(found[3]["baseline"], int)
    assert found[3]["baseline"] > 3


def test_500_sets_of_files_that_nobody_meant_raise_nothing(capsys: pytest.CaptureFixture[str]) -> None:
    assert fuzz_intake.main(["--small"]) == 0
    found = figures(capsys)[0]
    assert found["figure"] == 0
    assert found["n"] == 500
    assert isinstance(found["baseline"], int)
    assert found["baseline"] > 100
