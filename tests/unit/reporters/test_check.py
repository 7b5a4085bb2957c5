from __future__ import annotations

import pytest

from gate.domain.findings import Finding, Level
from gate.domain.report import State
from reporters.check import (
    MESSAGE_CHARACTERS,
    MOST_ANNOTATIONS,
    SUMMARY_CHARACTERS,
    TITLE_CHARACTERS,
    annotations_of,
    conclusion_of,
    render,
    render_note,
)
from tests.builders_report import sample_report


def finding(path: str = "skills/a/SKILL.md", *, message: str = "a text", level: Level = Level.WARNING, line: int | None = 3, blocks: bool = False) -> Finding:  # fmt: skip
    return Finding(
        rule="skill/name", level=level, path=path, line=line, message=message, remedy="Mend it.", blocks=blocks
    )


@pytest.mark.parametrize("state", State)
def test_only_a_success_is_one_that_branch_protection_lets_through(state: State) -> None:
    passing = ("success", "neutral", "skipped")
    assert (conclusion_of(state) in passing) == (state is State.SUCCESS)


def test_findings_stand_at_their_lines_the_worst_first_and_each_once() -> None:
    found = annotations_of(
        [
            finding(level=Level.NOTICE),
            finding(level=Level.ERROR, line=9),
            finding(blocks=True, line=None),
            finding(level=Level.NOTICE),
        ]
    )
    assert [(one.line, one.level) for one in found] == [(1, "warning"), (9, "failure"), (3, "notice")]
    assert found[0].message == "a text. Mend it."


@pytest.mark.parametrize("path", [".", "", "/etc/passwd"])
def test_what_is_about_no_file_of_the_commit_has_no_annotation(path: str) -> None:
    assert annotations_of([finding(path)]) == ()


def test_texts_keep_githubs_limits_and_hide_nothing() -> None:
    nasty = "\u202e::error::x\n" + "😀" * 30_000
    (one,) = annotations_of([finding(message=nasty)])
    assert len(one.title) <= TITLE_CHARACTERS
    assert len(one.message) <= MESSAGE_CHARACTERS
    assert len(one.message.encode()) < 65_536
    assert "\u202e" not in one.message
    assert "\n" not in one.message
    assert len(annotations_of(finding(message=f"no. {number}") for number in range(500))) == MOST_ANNOTATIONS


def test_a_report_fits_and_counts_what_has_no_annotation() -> None:
    report = sample_report()
    many = tuple(finding(message=f"no. {number}") for number in range(300))
    output = render(report.model_copy(update={"session_findings": (*report.session_findings, *many)}))
    assert output.title == report.headline
    assert len(output.summary) <= SUMMARY_CHARACTERS
    assert len(output.annotations) == MOST_ANNOTATIONS
    assert "more findings have no annotation here" in output.summary


def test_without_a_report_it_says_why_and_shows_nothing_of_others_as_markup() -> None:
    output = render_note("error: <img src=x> @octocat", ["Do that."])
    assert "<img" not in output.summary
    assert "@octocat" not in output.summary
    assert "- Do that." in output.summary
    assert output.annotations == ()
