from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from gate.domain.forge import status_description
from reporters.status import CANCELLED, CRASHED, RUNNING, describe, describe_failure
from tests.builders_report import quiet_report, sample_report


def test_a_report_says_its_headline() -> None:
    assert describe(sample_report()) == sample_report().headline
    assert describe(quiet_report()) == "success: nothing to evaluate, no skill changed"


@given(st.text())
def test_any_text_fits_into_a_status(text: str) -> None:
    report = sample_report().model_copy(update={"headline": text})
    for words in (describe(report), describe_failure(text)):
        assert len(words) <= 140
        assert all(ord(char) <= 0xFFFF and char not in "\r\n\0" for char in words)


def test_fixed_words_come_back_from_github_as_they_were_sent() -> None:
    """The post step knows a run's own pending status by them."""
    for words in (RUNNING, CANCELLED, CRASHED):
        assert status_description(words) == words
