from __future__ import annotations

import base64
import hashlib
import re
from html.parser import HTMLParser

import pytest
from syrupy.assertion import SnapshotAssertion
from syrupy.extensions.single_file import SingleFileSnapshotExtension, WriteMode

from gate.domain.report import GateReport
from reporters.html import render
from tests.builders_report import quiet_report, sample_report

VOID = {"meta", "br", "hr", "img", "input", "link"}


class PageFile(SingleFileSnapshotExtension):
    file_extension = "html"
    _file_extension = "html"
    _write_mode = WriteMode.TEXT


class Page(HTMLParser):
    """Tags, attributes and text of a page; raises AssertionError for tags that do not nest."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.tags: list[str] = []
        self.attributes: list[tuple[str, str, str]] = []
        self.text = ""
        self.feed(text)
        self.close()
        assert self.open == []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.attributes += [(tag, name, value or "") for name, value in attrs]
        if tag not in VOID:
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        if not {"style", "script"} & set(self.open):
            self.text += data


def hostile() -> GateReport:
    """Every text of the sample replaced by markup."""
    attack = "<script>alert(1)</script>\"'><img src=x onerror=alert(1)>{{ 7*7 }}\u202e"

    def poison(value: object) -> object:
        if isinstance(value, dict):
            return {key: poison(item) if key not in KEPT else item for key, item in value.items()}
        if isinstance(value, list):
            return [poison(item) for item in value]
        return attack if isinstance(value, str) else value

    return GateReport.model_validate(poison(sample_report().to_json()))


KEPT = {
    "mode", "enforce", "state", "verdict", "arm", "severity", "kind", "triage", "level", "not_measured_cause",
    "schema_version", "language", "winner", "with_skill", "first",
}  # fmt: skip


def test_the_page_of_one_skill_of_each_kind(snapshot: SnapshotAssertion) -> None:
    assert render(sample_report()) == snapshot.use_extension(PageFile)


def test_the_page_where_nothing_is_to_evaluate(snapshot: SnapshotAssertion) -> None:
    assert render(quiet_report()) == snapshot.use_extension(PageFile)


@pytest.mark.parametrize("report", [sample_report(), quiet_report(), hostile()])
def test_a_page_nests_loads_nothing_and_runs_nothing(report: GateReport) -> None:
    text = render(report)
    page = Page(text)
    assert text.startswith("<!doctype html>")
    assert not {"img", "iframe", "object", "embed", "link", "form", "image", "foreignobject"} & set(page.tags)
    assert page.tags.count("script") == 1
    assert not [item for item in page.attributes if item[1].startswith("on") or item[1] in ("src", "style", "action")]
    assert all(value.startswith("#") for _, name, value in page.attributes if name == "href")
    assert set(re.findall(r"url\((.)", text)) <= {"#"}
    assert "@import" not in text
    assert "xlink" not in text


def test_the_policy_allows_this_style_sheet_and_this_script_and_nothing_else() -> None:
    text = render(sample_report())
    policy = next(value for tag, name, value in Page(text).attributes if name == "content" and "default-src" in value)
    found = {tag: re.findall(rf"<{tag}>(.*?)</{tag}>", text, re.DOTALL) for tag in ("style", "script")}
    assert {tag: len(items) for tag, items in found.items()} == {"style": 1, "script": 1}
    style, script = (base64.b64encode(hashlib.sha256(found[tag][0].encode()).digest()).decode() for tag in found)
    assert policy == (
        f"default-src 'none'; style-src 'sha256-{style}'; script-src 'sha256-{script}'; base-uri 'none'; form-action 'none'"
    )
    assert "prefers-color-scheme: dark" in found["style"][0]


def test_the_script_and_the_style_sheet_are_files_of_the_package_whatever_the_report_says() -> None:
    scripts = [re.findall(r"<script>.*?</script>", render(item), re.DOTALL) for item in (sample_report(), hostile())]
    assert scripts[0] == scripts[1]


def test_every_plot_has_names_of_its_own_and_the_same_report_draws_the_same_bytes() -> None:
    text = render(sample_report())
    plots = re.findall(r"<svg .*?</svg>", text, re.DOTALL)
    assert len(plots) == 8
    ids = re.findall(r' id="([^"]+)"', text)
    assert len(ids) == len(set(ids))
    asked = {match for plot in plots for match in re.findall(r'(?:url\(#|href="#)([^)"]+)', plot)}
    assert asked <= set(ids)
    assert all('style="' not in plot for plot in plots), "the page's policy would drop inline style"
    assert render(sample_report()) == text


def test_markup_in_a_report_stays_text_and_hidden_characters_are_shown() -> None:
    text = render(hostile())
    assert text.count("<script>") == 1, "the page's own"
    assert "\u202e" not in text
    assert "⟨U+202E⟩" in text
    assert "{{ 7*7 }}" in text
    assert "<script>alert(1)</script>" in Page(text).text


def test_the_verdicts_come_before_any_detail_and_link_to_it() -> None:
    text = render(sample_report())
    assert text.index('id="overview"') < text.index("What to do") < text.index('<section class="skill"')
    attributes = Page(text).attributes
    ids = {value for _, name, value in attributes if name == "id"}
    links = [value.removeprefix("#") for tag, name, value in attributes if tag == "a" and name == "href"]
    assert len(links) == 8
    assert set(links) <= ids
