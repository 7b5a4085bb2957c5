from __future__ import annotations

import pytest

from gate.domain.plan import CaseShare
from gate.domain.report import CaseReport, CaseUse
from reporters.words import spent_words

KNOWN = CaseUse(
    case="a/1", calls=12, failed_calls=0, input_tokens=8000, output_tokens=123, cost_usd=0.01, known_input_tokens=8000,
    known_output_tokens=123, known_cost_usd=0.01,
)  # fmt: skip
UNKNOWN = KNOWN.model_copy(update={"failed_calls": 1, "input_tokens": None, "cost_usd": None})
NOTHING_KNOWN = UNKNOWN.model_copy(update={"known_input_tokens": 0, "known_output_tokens": 0, "known_cost_usd": 0.0})


@pytest.mark.requirements("R139")
@pytest.mark.parametrize(
    ("spent", "share", "words"),
    [
        (None, None, "–"),  # noqa: RUF001 - a dash in a table cell
        (KNOWN, None, "12 calls, 8,123 tokens, $0.0100"),
        (KNOWN, CaseShare(model_calls=60, usd=0.2), "12 of 60 calls, 8,123 tokens, $0.0100 of $0.2000"),
        (UNKNOWN, None, "12 calls (1 failed), at least 8,123 tokens, at least $0.0100"),
        (NOTHING_KNOWN, CaseShare(model_calls=60, usd=0.2), "12 of 60 calls (1 failed), tokens unknown, price unknown"),
    ],
)
def test_what_a_case_cost_is_said_beside_what_it_might_and_unknown_is_never_zero(
    spent: CaseUse | None, share: CaseShare | None, words: str
) -> None:
    case = CaseReport(
        eval_id="1", name="", type="happy_path", passed=True, comparison="tie", folder="f", spent=spent, share=share
    )
    assert spent_words(case) == words
