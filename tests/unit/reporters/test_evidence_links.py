"""From a graded line to the line of the record that it rests on: in the page, in the comment, and in a real browser."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from gate.domain.plan import Arm
from gate.domain.report import AssertionTriage, GateReport, RunEvidence, Share, SkillReport, TriageClass
from gate.evidence.cited import cited_evidence
from reporters import comment, words
from reporters.html import render
from tests.builders_report import sample_report
from tests.unit.evidence.test_cited import judged
from tests.unit.reporters.test_html import Page
from tests.webdriver import Browser, browser

URL = "https://example.org/reports/abc/report.html"


def with_evidence(root: Path, *, report_url: str = "") -> GateReport:
    """A report whose first two skills were graded over the same recorded runs, as their folders tell them apart."""
    report = sample_report()
    cases = [judged(root, arm=arm, run=run) for arm in (Arm.WITH_SKILL, Arm.WITHOUT_SKILL) for run in (1, 2)]
    runs = cases[0].model_copy(update={"runs": tuple(run for case in cases for run in case.runs)})
    evidence = cited_evidence(root, [runs])
    skills = tuple(_graded(skill, evidence) if number < 2 else skill for number, skill in enumerate(report.skills))
    return report.model_copy(update={"skills": skills, "report_url": report_url})


def _graded(skill: SkillReport, evidence: tuple[RunEvidence, ...]) -> SkillReport:
    own = tuple(run.model_copy(update={"folder": run.folder.replace("skills-sums-1", skill.slug)}) for run in evidence)
    row = evidence[0].rows[2]
    none = Share(passed=0, total=0)
    assertion = AssertionTriage(
        eval_id=evidence[0].eval_id,
        assertion_id=row.id,
        kind="expectation",
        severity=row.severity,
        text=row.text,
        with_skill=none,
        without_skill=none,
        base_skill=none,
        triage=TriageClass.SATURATED,
    )
    return skill.model_copy(update={"evidence": own, "triage": (assertion,)})


@pytest.fixture
def report(tmp_path: Path) -> GateReport:
    return with_evidence(tmp_path)


def test_every_link_of_the_page_leads_to_one_place(report: GateReport) -> None:
    attributes = Page(render(report)).attributes
    ids = [value for _, name, value in attributes if name == "id"]
    links = [value.removeprefix("#") for tag, name, value in attributes if tag == "a" and name == "href"]
    assert len(ids) == len(set(ids)), "two skills with the same case, arm and run must not share an anchor"
    assert set(links) <= set(ids)
    cites = [value for value in links if re.search(r"/B\d{3}:\d+$", value)]
    assert len(cites) == 2 * 4 * 3, "three of four rows of each run cite a line"


def test_anchors_are_made_from_the_places_in_the_bundle_and_need_no_escape(report: GateReport) -> None:
    ids = [value for _, name, value in Page(render(report)).attributes if name == "id" and "/" in value]
    slug = report.skills[0].slug
    assert f"{slug}/eval-one/run-2/with_skill/B002:3" in ids
    assert all(re.fullmatch(r"[A-Za-z0-9._/:-]+", value) for value in ids)


def test_the_cited_part_of_a_line_is_marked_and_the_lines_beside_it_are_not(report: GateReport) -> None:
    text = render(report)
    assert "<mark>The total is 1250.</mark>" in text
    assert "<code>here is the sum.</code>" in text


def test_markup_in_a_cited_line_stays_text(tmp_path: Path) -> None:
    case = judged(tmp_path, response="<b>hi</b>\n<script>x</script>\nThe total is 1250.\n</div> Kind \u202eregards")
    (run,) = cited_evidence(tmp_path, [case])
    skill = sample_report().skills[0].model_copy(update={"evidence": (run,)})
    text = render(sample_report().model_copy(update={"skills": (skill,)}))
    page = Page(text)
    assert page.tags.count("script") == 1, "the page's own"
    assert "<script>x</script>" in page.text
    assert "\u202e" not in text


def test_the_comment_names_the_line_of_each_assertion_and_where_the_page_is(report: GateReport) -> None:
    slug = report.skills[0].slug
    text = comment.render(report, run_url="https://github.com/o/r/actions/runs/7")
    assert f"`report.html#{slug}/eval-one/run-1/with_skill/B002:3`" in text
    assert "an artifact of [this run](https://github.com/o/r/actions/runs/7#artifacts)" in text
    assert "[this run]" not in comment.render(report)


def test_the_comment_links_the_line_where_the_page_is_published(tmp_path: Path) -> None:
    report = with_evidence(tmp_path, report_url=URL)
    text = comment.render(report)
    assert f"[run 1, B002:3]({URL}#{report.skills[0].slug}/eval-one/run-1/with_skill/B002:3)" in text
    assert "`report.html#" not in text


def test_an_address_that_could_be_markdown_is_no_link(tmp_path: Path) -> None:
    report = with_evidence(tmp_path, report_url="https://example.org/a) [x](https://evil.example")
    assert "evil.example" not in comment.render(report).split("<sub>")[0]


def test_of_an_assertion_the_run_is_named_in_which_it_did_not_pass(report: GateReport) -> None:
    skill = report.skills[0]
    first, second, *rest = skill.evidence
    failed = tuple(
        row.model_copy(update={"status": "failed", "cites": ()}) if row.id == "e1" else row for row in second.rows
    )
    changed = skill.model_copy(update={"evidence": (first, second.model_copy(update={"rows": failed}), *rest)})
    what, anchor = words.telling_place(changed, skill.triage[0])
    assert (what, anchor) == ("run 2", f"{skill.slug}/eval-one/run-2/with_skill/row-2")


@pytest.mark.browser
@pytest.mark.parametrize(("width", "height"), [(1280, 900), (390, 844)], ids=["desk", "phone"])
def test_in_a_browser_a_click_shows_the_line_lit_and_nothing_is_wider_than_the_screen(
    report: GateReport, tmp_path: Path, width: int, height: int
) -> None:
    page = tmp_path / "report.html"
    page.write_text(render(report), encoding="utf-8")
    anchor = f"{report.skills[0].slug}/eval-one/run-2/with_skill/B002:3"
    with browser(tmp_path) as seen:
        seen.resize(width, height)
        seen.open(page.as_uri())
        link = f'a.cite[href="#{anchor}"]'
        before = seen.run(_COLOUR, anchor)
        for _ in range(3):  # parts of the page get their size when they come near
            seen.run("document.querySelector(arguments[0]).scrollIntoView({block: 'center'})", link)
        seen.click(link)
        assert seen.run("return document.querySelector(':target').id") == anchor
        assert seen.run(_VISIBLE, anchor)
        assert seen.run(_COLOUR, anchor) != before
        assert seen.run("return document.documentElement.scrollWidth <= window.innerWidth")
        _a_fragment_alone_finds_it(seen, page, anchor)


def _a_fragment_alone_finds_it(seen: Browser, page: Path, anchor: str) -> None:
    """As from a comment: the address with the line's name, in a page where the skill's own part is folded."""
    seen.open("about:blank")
    seen.open(f"{page.as_uri()}#{anchor}")
    assert seen.run(_VISIBLE, anchor)


_COLOUR = "return getComputedStyle(document.getElementById(arguments[0])).backgroundColor"
_VISIBLE = """const box = document.getElementById(arguments[0]).getBoundingClientRect();
return box.height > 0 && box.top >= 0 && box.bottom <= window.innerHeight"""
