from __future__ import annotations

from pathlib import Path

from tests.bench.startup import heavy_modules


def test_nothing_to_evaluate_loads_no_heavy_library(tmp_path: Path) -> None:
    assert heavy_modules(tmp_path) == []
