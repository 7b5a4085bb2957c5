from __future__ import annotations

import re

import pytest
from syrupy.assertion import SnapshotAssertion
from syrupy.extensions.single_file import SingleFileSnapshotExtension, WriteMode

from gate.domain.plan import Enforce
from gate.domain.report import GateReport, Language, SkillReport, Verdict
from reporters import check as check_run
from reporters import status, summary
from reporters.comment import marker, render
from reporters.markdown import COMMENT_LIMIT
from tests.builders_records import case_record, check, decide, expectation, skill_record
from tests.builders_report import erring, failing, passing, quiet_report, report_of, sample_report


class MarkdownFile(SingleFileSnapshotExtension):
    file_extension = "md"
    _file_extension = "md"
    _write_mode = WriteMode.TEXT


@pytest.fixture
def as_markdown(snapshot: SnapshotAssertion) -> SnapshotAssertion:
    return snapshot.use_extension(MarkdownFile)


def test_the_comment_of_one_skill_of_each_kind(as_markdown: SnapshotAssertion) -> None:
    assert render(sample_report()) == as_markdown


def test_the_comment_of_a_passing_skill(as_markdown: SnapshotAssertion) -> None:
    assert render(report_of([decide(passing())])) == as_markdown


def test_the_comment_of_a_failing_skill(as_markdown: SnapshotAssertion) -> None:
    assert render(report_of([decide(failing())])) == as_markdown


def test_the_comment_where_the_model_server_is_down(as_markdown: SnapshotAssertion) -> None:
    assert render(report_of([decide(erring())])) == as_markdown


def test_the_comment_where_nothing_is_to_evaluate(as_markdown: SnapshotAssertion) -> None:
    assert render(quiet_report()) == as_markdown


def test_the_first_line_is_the_state_and_the_marker_stands_right_below() -> None:
    lines = render(sample_report(), key="nightly").split("\n")
    assert lines[0].startswith("## Skill Gate: failure: 1 fails (skills/csv-cleaner), ")
    assert lines[1] == "<!-- skill-gate:report nightly -->"
    assert render(sample_report(enforce=Enforce.ADVISORY)).startswith("## Skill Gate: advisory: ")


def test_a_marker_holds_any_key_without_ending_the_hidden_line() -> None:
    assert marker() == "<!-- skill-gate:report -->"
    assert marker("team/a") == "<!-- skill-gate:report team/a -->"
    strange = marker("--> <b>@octocat")
    assert re.fullmatch(r"<!-- skill-gate:report [0-9a-f]{16} -->", strange)
    assert strange != marker("other -->")


@pytest.mark.requirements("R53")
def test_a_report_says_how_much_it_rests_on() -> None:
    """Every measured skill: cases, runs, interval, smallest visible drop, judge, fallbacks, what was not tested."""
    report = sample_report()
    text = render(report)
    for skill in report.skills:
        if skill.verdict in (Verdict.PASS, Verdict.CONDITIONAL, Verdict.INCONCLUSIVE, Verdict.FAIL):
            part = text[text.index(f"<summary>{skill.verdict.name}: {skill.path}") :].split("</details>")[0]
            assert re.search(r"\d+ cases? x \d+.* runs?; a drop under \d\.\d\d \(MDE\) would not be seen", part)
            assert re.search(r"95 % interval \d\.\d\d to \d\.\d\d", part)
            assert re.search(r"controls answered|no judge needed", part)
            assert "**Not tested**" in part
            assert "**Fallbacks**" in part
            assert re.search(r"won \d : lost \d : TIE \d|no blind comparison", part)
    assert "no regression" not in text
    assert "scripted, no model was called" in text
    assert "`skill-gate verify DIR`" in text


def test_unknown_cost_is_said_and_never_shown_as_nothing() -> None:
    live = sample_report().model_copy(update={"models": "executor openai@http://localhost:1/v1:own"})
    assert "cost unknown" in render(live)
    assert "price unknown" in render(live)


def test_of_a_replay_it_says_that_nothing_was_paid() -> None:
    text = render(sample_report())
    assert "price unknown" not in text
    assert "cost unknown" not in text
    assert len(re.findall(r"nothing was paid|paid \(a replay\)", text)) == 3


EVIDENCE = ("证据 😀 | `x` <b> @octocat https://example.org #1 " * 80)[:4096]


def large_report(skills: int, cases: int) -> GateReport:
    """Skills that fail for long reasons, half of them; the rest pass."""

    def one(number: int) -> SkillReport:
        path = f"skills/报告-{number:04}"
        soft = expectation("e1", text=EVIDENCE)
        letters = ["PF", "PF", "PF+"] if number % 2 else ["PP", "PP", "PP+"]
        listed = [
            case_record(f"{n}", name=EVIDENCE[:200], checks=[check("c1", description=EVIDENCE)], expectations=[soft],
                        head=letters, base=["PP", "PP", "PP+"], none=["FF"], path=path)
            for n in range(cases)
        ]  # fmt: skip
        report = decide(skill_record(*listed, path=path))
        return report.model_copy(update={"reasons": tuple(f"{reason} {EVIDENCE}" for reason in report.reasons)})

    return report_of([one(number) for number in range(skills)])


@pytest.mark.parametrize(("skills", "cases"), [(1, 200), (60, 20)])
def test_a_large_report_stays_under_the_limit_and_keeps_every_skills_verdict(skills: int, cases: int) -> None:
    report = large_report(skills, cases)
    chinese = report.model_copy(update={"language": Language.ZH})
    told = render(chinese)
    assert len(told.encode()) <= COMMENT_LIMIT
    assert len(re.findall(r"^- \*\*(?:通过|不通过)\*\* `skills/", told, re.MULTILINE)) == skills
    for shown in (report, chinese):
        assert len(summary.render(shown, [EVIDENCE]).encode()) <= summary.SUMMARY_LIMIT
        assert len(status.describe(shown)) <= 140
        output = check_run.render(shown)
        assert len(output.summary) <= check_run.SUMMARY_CHARACTERS
        assert len(output.title) <= check_run.TITLE_CHARACTERS
        assert len(output.annotations) <= check_run.MOST_ANNOTATIONS
    text = render(report)
    assert len(text.encode()) <= COMMENT_LIMIT
    assert len(text) <= COMMENT_LIMIT
    assert len(text) > COMMENT_LIMIT * 0.4
    for skill in report.skills:
        assert re.search(rf"^- \*\*{skill.verdict.name}\*\* `{skill.path}`", text, re.MULTILINE)
    assert "more in report.html" in text
    assert text.count("<details>") == text.count("</details>")
    assert text.rstrip().endswith("</sub>")


def test_more_skills_than_any_comment_holds_are_counted() -> None:
    sample = decide(passing())
    report = report_of([sample.model_copy(update={"path": f"skills/{'x' * 80}{n}"}) for n in range(2000)])
    text = render(report)
    assert len(text.encode()) <= COMMENT_LIMIT
    kept = len(re.findall(r"^- \*\*PASS\*\* `skills/x", text, re.MULTILINE))
    assert f"{2000 - kept} more skills in report.html" in text


@pytest.mark.parametrize("limit", [4_000, 8_000, 20_000])
def test_a_smaller_limit_is_kept_too(limit: int) -> None:
    text = render(sample_report(), limit=limit)
    assert len(text.encode()) <= limit
    assert text.count("<details>") == text.count("</details>")
    assert "- **FAIL** `skills/csv-cleaner`" in text
