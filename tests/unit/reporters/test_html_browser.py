"""The page in a browser: whoever reads it with a keyboard, a screen reader, a telephone or in the dark finds the same."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from gate.domain.report import GateReport
from reporters.html import render
from tests.axe import axe, violations
from tests.bench.report import large_report
from tests.builders_report import quiet_report, sample_report
from tests.webdriver import Browser, browser

pytestmark = [pytest.mark.browser, pytest.mark.timeout(180)]

# What is not on the screen is not laid out, and would be taken to lie over what is.
_OPEN = """
document.querySelectorAll('details').forEach(one => { one.open = true; });
document.querySelectorAll('body *').forEach(one => { one.style.contentVisibility = 'visible'; });
"""
_FACTS = """
return {
  requests: performance.getEntriesByType('resource').map(one => one.name),
  wide: document.documentElement.scrollWidth - document.documentElement.clientWidth,
  dark: matchMedia('(prefers-color-scheme: dark)').matches,
  closed: document.querySelectorAll('details:not([open])').length,
};
"""


def everything() -> GateReport:
    """Every kind of verdict, and a skill with answers side by side and cited lines."""
    report = sample_report()
    return report.model_copy(update={"skills": (*report.skills, *large_report(1, 1).skills)})


@pytest.fixture(scope="module")
def window(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Browser]:
    with browser(tmp_path_factory.mktemp("browser")) as found:
        yield found


def _show(window: Browser, folder: Path, text: str) -> None:
    page = folder / "report.html"
    page.write_text(text, encoding="utf-8")
    window.open(f"file://{page}")


@pytest.mark.parametrize("width", [1280, 390])
@pytest.mark.parametrize("report", [everything(), quiet_report()], ids=["everything", "nothing"])
def test_the_page_keeps_nobody_out_and_asks_for_nothing(
    window: Browser, tmp_path: Path, report: GateReport, width: int
) -> None:
    window.resize(width, 900)
    _show(window, tmp_path, render(report))
    window.run(_OPEN)
    for colours in ("light", "dark"):
        window.colours(colours)
        found: dict[str, Any] = window.run(_FACTS)
        assert found == {"requests": [], "wide": 0, "dark": colours == "dark", "closed": 0}
        assert violations(window, axe()) == [], colours


def test_axe_finds_a_page_that_keeps_people_out(window: Browser, tmp_path: Path) -> None:
    window.resize(1280, 900)
    text = (
        render(quiet_report()).replace('<html lang="en"', "<html").replace("<main", "<div").replace("</main", "</div")
    )
    _show(window, tmp_path, text)
    assert {"html-has-lang", "landmark-one-main"} <= {one["rule"] for one in violations(window, axe())}
