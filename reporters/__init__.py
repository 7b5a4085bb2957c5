"""Reports for people and programs, made from a GateReport and nothing else."""

from __future__ import annotations

from gate.domain.base import pretty_json
from gate.domain.report import GateReport
from gate.errors import ConfigurationError

FORMATS = ("md", "html", "json", "junit", "sarif", "badge")


def render(report: GateReport, format: str) -> str:  # noqa: A002 - the name of the command's option
    """A report as ``md`` (the pull request comment), ``html`` (one self-contained page), ``json`` (report.json),
    ``junit`` (JUnit XML), ``sarif`` (its findings as SARIF 2.1.0) or ``badge`` (JSON for a badge service).

    Raises ConfigurationError for any other format.
    """
    if format == "md":
        from reporters.comment import render as render_comment

        return render_comment(report)
    if format == "html":
        from reporters.html import render as render_page

        return render_page(report)
    if format == "json":
        return pretty_json(report).decode("utf-8")
    if format == "sarif":
        from reporters.sarif import render as render_sarif

        return render_sarif(report)
    if format == "junit":
        from reporters.junit import render as render_junit

        return render_junit(report)
    if format == "badge":
        from reporters.badge import render as render_badge

        return render_badge(report)
    raise ConfigurationError(f"There is no report format {format!r}.", remedy=f"Use one of {', '.join(FORMATS)}.")
