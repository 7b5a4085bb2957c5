from __future__ import annotations

import json

import pytest

from tests.bench import ground_truth


@pytest.mark.requirements("R9", "R10", "R30")
def test_every_check_over_a_long_run_has_the_answer_that_it_was_made_with_and_the_record_is_parsed_once(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert ground_truth.main(["--small"]) == 0
    out = capsys.readouterr().out
    assert "wrong:" not in out
    time, slope, parses = json.loads(out.splitlines()[-1])
    assert (parses["figure"], parses["baseline"], parses["ok"]) == (1, 120, True)
    assert {time["bench"], slope["bench"]} == {"ground_truth"}
