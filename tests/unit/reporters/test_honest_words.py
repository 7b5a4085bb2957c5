from __future__ import annotations

import re
from pathlib import Path

import pytest

from reporters.comment import render
from tests.builders_records import decide
from tests.builders_report import conditional, passing, report_of, sample_report, unsure
from tests.report_linter import NEEDED, SESSION, lint

GOLDEN = sorted((Path(__file__).parent / "__snapshots__/test_comment").glob("*.md"))


@pytest.mark.parametrize("golden", GOLDEN, ids=lambda path: path.stem)
def test_every_golden_comment_is_honest(golden: Path) -> None:
    assert lint(golden.read_text(encoding="utf-8")) == []


@pytest.mark.parametrize("record", [passing, conditional, unsure])
def test_a_comment_just_made_is_honest(record: object) -> None:
    assert lint(render(report_of([decide(record())]))) == []  # type: ignore[operator]


def test_there_are_golden_comments_of_measured_skills() -> None:
    assert len(GOLDEN) >= 5
    assert sum("(MDE)" in path.read_text(encoding="utf-8") for path in GOLDEN) >= 3


@pytest.mark.parametrize("what", [*NEEDED, *SESSION])
def test_a_comment_that_leaves_any_of_it_out_is_found(what: str) -> None:
    honest = render(report_of([decide(passing())]))
    pattern = {**NEEDED, **SESSION}[what]
    assert [problem for problem in lint(re.sub(pattern, "", honest, flags=re.MULTILINE)) if what in problem]


@pytest.mark.parametrize("claim", ["No regressions were found.", "It is guaranteed to work.", "Looks good!"])
def test_a_comment_that_claims_too_much_is_found(claim: str) -> None:
    assert lint(render(sample_report()) + claim)
    assert not lint(render(sample_report()) + "No regression larger than the MDE was seen.")
