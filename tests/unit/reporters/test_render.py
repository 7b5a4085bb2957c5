from __future__ import annotations

import json
import subprocess
import sys

import pytest

from gate.domain.report import GateReport
from gate.errors import ConfigurationError
from reporters import FORMATS, render
from tests.builders_report import sample_report


def test_each_format_has_its_renderer() -> None:
    report = sample_report()
    starts = {kind: render(report, kind)[:10] for kind in FORMATS}
    assert starts == {
        "md": "## Skill G",
        "html": "<!doctype ",
        "json": '{\n "base_c',
        "junit": "<?xml vers",
        "sarif": '{\n "$schem',
        "badge": '{\n "color"',
    }


def test_a_report_as_json_is_read_back_unchanged() -> None:
    report = sample_report()
    text = render(report, "json")
    again = GateReport.model_validate(json.loads(text))
    assert render(again, "json") == text
    assert again.model_copy(update={"skills": ()}) == report.model_copy(update={"skills": ()})


@pytest.mark.parametrize("kind", ["md", "html"])
def test_a_report_that_was_read_back_renders_the_same(kind: str) -> None:
    report = sample_report()
    assert render(GateReport.model_validate_json(render(report, "json")), kind) == render(report, kind)


def test_an_unknown_format_names_the_known_ones() -> None:
    with pytest.raises(ConfigurationError, match="Use one of md, html, json, junit, sarif, badge"):
        render(sample_report(), "pdf")


def test_a_comment_needs_no_template_engine_and_no_statistics() -> None:
    program = (
        "import sys; import reporters.comment; from gate.decision.state import summarise; "
        "print(sorted({'jinja2', 'scipy', 'markdown_it'} & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
