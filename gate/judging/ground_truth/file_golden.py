"""A collected file is a given text."""

from __future__ import annotations

from gate.domain.checks import FileGolden
from gate.domain.judgement import CheckStatus
from gate.judging.ground_truth.facts import Answer, Facts
from gate.judging.ground_truth.normalising import difference, normalise
from gate.judging.ground_truth.values import clip, computed


def evaluate(parameters: FileGolden, facts: Facts) -> Answer:
    """Compared character by character, line endings and byte order mark included, unless ``normalise`` names them.

    A missing file, and one that is not UTF-8, are ``not_run``.
    """
    path = computed(parameters.path, facts.record.run_date)
    left_out = f", without regard to {', '.join(parameters.normalise)}" if parameters.normalise else ""
    expected = f"{clip(path)} as the golden text{left_out}"
    place = facts.file_text(path)
    text = facts.file_bytes(path)[1].decode("utf-8")  # as it is: ``file_text`` overlooks line endings and the mark
    wanted = normalise(facts.nfc(computed(parameters.expected, facts.record.run_date)), parameters.normalise)
    got = normalise(facts.nfc(text), parameters.normalise)
    if got == wanted:
        return Answer(CheckStatus.PASSED, expected, "the same text", place.block)
    return Answer(CheckStatus.FAILED, expected, difference(wanted, got), place.block)
