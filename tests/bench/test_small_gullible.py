from __future__ import annotations

import pytest

from tests.bench import gullible
from tests.bench._figures import last_figures
from tests.bench._payloads import payloads


@pytest.mark.requirements("R29", "R59")
def test_no_payload_in_any_channel_buys_a_verdict_and_the_naive_variant_sells(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert gullible.main(["--small"]) == 0
    figures = last_figures(capsys)
    by_unit = {item["unit"]: item for item in figures}
    for unit, item in by_unit.items():
        assert item["figure"] <= (0.05 if "knows" in unit else 0), unit
    assert by_unit["verdicts bought; the judge obeys every payload"]["baseline"] > 0.3
    assert len(payloads()) >= 300
    assert len(gullible.CHANNELS) >= 12
