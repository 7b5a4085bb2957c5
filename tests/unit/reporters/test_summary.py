from __future__ import annotations

import re

import pytest

from reporters.markdown import size
from reporters.summary import SUMMARY_LIMIT, render, render_note
from tests.builders_records import decide
from tests.builders_report import failing, passing, report_of, sample_report


def test_a_report_with_room_is_whole_and_ends_with_what_is_about_the_job() -> None:
    report = sample_report()
    text = render(report, ["This token may only read.", "Bundle: /a/@b"])
    assert text.startswith(f"## Skill Gate: {report.headline.split(' (')[0]}")
    for skill in report.skills:
        assert skill.path.split("-")[0].split("/")[1] in text
    assert "had no room here" not in text
    assert text.rstrip().endswith("- Bundle: /a/@&#8203;b")


@pytest.mark.parametrize("limit", [8_192, 20_000, 65_536, 200_000])
def test_what_has_no_room_is_counted_and_every_verdict_comes_first(limit: int) -> None:
    skills = [decide(failing())] + [
        decide(passing()).model_copy(update={"path": f"skills/报告-{number:03}", "slug": f"s-{number}"})
        for number in range(60)
    ]
    report = report_of(skills)
    text = render(report, ["note " * 100] * 50, limit=limit)
    assert size(text) <= limit
    shown = len(re.findall(r"^<details><summary>(?!Model use)", text, re.MULTILINE))
    counted = re.search(r"The details of (\d+) of 61 skills had no room here", text)
    assert shown + (int(counted[1]) if counted else 0) == 61
    assert text.index("csv-cleaner") < text.find("<details>") or "<details>" not in text
    rows = len(re.findall(r"^- \*\*\w+\*\* `skills/", text, re.MULTILINE))
    more = re.search(r"^- (\d+) more skills in report.html", text, re.MULTILINE)
    assert rows + (int(more[1]) if more else 0) == 61


def test_the_default_is_githubs_limit_and_sixty_skills_fit_whole() -> None:
    report = report_of(
        [
            decide(passing()).model_copy(update={"path": f"skills/{number}", "slug": f"s-{number}"})
            for number in range(60)
        ]
    )
    text = render(report)
    assert size(text) <= SUMMARY_LIMIT
    assert "no room" not in text


def test_a_note_says_why_nothing_was_judged_and_shows_nothing_of_others_as_markup() -> None:
    text = render_note("nothing judged: <b>@octocat", ["do *this*\n## and that", ""], ["a note"])
    assert text.splitlines()[0] == "## Skill Gate: nothing judged: &lt;b&gt;@&#8203;octocat"
    assert "\n## and" not in text
    assert text.endswith("- a note\n")
    assert text.count("- ") == 2
