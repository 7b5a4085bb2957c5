from __future__ import annotations

import json

from click.testing import CliRunner

from gate.audit.simulate import JUDGES
from gate.cli.calibrate import calibrate


def test_calibrate_counts_every_simulated_change_once_and_says_the_same_twice() -> None:
    arguments = ["--simulate", "--cases", "3", "--changes", "2", "--json"]
    first, second = (CliRunner().invoke(calibrate, arguments, standalone_mode=False) for _ in range(2))
    rows = json.loads(first.output)
    assert first.output == second.output
    assert len(rows) == 3 * len(JUDGES)
    assert {sum(row["verdicts"].values()) for row in rows} == {2}


def test_calibrate_asks_what_to_do() -> None:
    assert CliRunner().invoke(calibrate, []).exit_code == 2
