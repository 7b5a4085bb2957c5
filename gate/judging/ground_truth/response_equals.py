"""The final response is a text."""

from __future__ import annotations

from gate.domain.checks import ResponseEquals
from gate.domain.judgement import CheckStatus
from gate.judging.ground_truth.facts import Answer, Facts
from gate.judging.ground_truth.literal import quoted
from gate.judging.ground_truth.normalising import difference, normalise
from gate.judging.ground_truth.values import computed


def evaluate(parameters: ResponseEquals, facts: Facts) -> Answer:
    """Compared whole, NFC on both sides: a response that holds the text and more is another text."""
    wanted = normalise(facts.nfc(computed(parameters.text, facts.record.run_date)), parameters.normalise)
    left_out = f" (without regard to {', '.join(parameters.normalise)})" if parameters.normalise else ""
    expected = f"the response {quoted(wanted)}{left_out}"
    block = facts.response.block  # no response: not_run
    got = normalise(facts.nfc(facts.record.response or ""), parameters.normalise)
    if got == wanted:
        return Answer(CheckStatus.PASSED, expected, "the same text", block)
    return Answer(CheckStatus.FAILED, expected, difference(wanted, got), block)
