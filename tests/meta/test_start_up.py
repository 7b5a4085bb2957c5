from __future__ import annotations

from pathlib import Path

from tests.bench.startup import heavy_modules


def test_nothing_to_evaluate_loads_no_heavy_library_and_no_room_that_only_runs_need(tmp_path: Path) -> None:
    assert heavy_modules(tmp_path) == []
