from __future__ import annotations

import json

import pytest

from tests.bench import startup


def test_a_change_without_a_skill_is_timed_beside_the_same_with_everything_imported(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert startup.main(["--small"]) == 0
    out = capsys.readouterr().out
    measured = json.loads(out.splitlines()[-1])
    assert measured["bench"] == "startup"
    assert 0 < measured["figure"] < measured["baseline"]
    assert "must not load: nothing" in out
