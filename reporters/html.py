"""One self-contained page: no request, readable in light and dark and on paper, the verdicts first.

Jinja escapes everything; the content security policy allows exactly the one style sheet and the one script of the package,
by their hashes, and nothing else. The script only hides what a filter does not ask for and moves the focus; without it the
page shows everything.
"""

from __future__ import annotations

import base64
import hashlib
from functools import cache
from importlib import resources
from typing import TYPE_CHECKING

from markupsafe import Markup

from gate.domain.plan import COMPARED_ARMS
from gate.domain.report import GateReport
from reporters import glance, words
from reporters.markdown import visible

if TYPE_CHECKING:
    from jinja2 import Template


def render(report: GateReport) -> str:
    """The page as HTML text. Untrusted text is escaped, and what would be invisible in it is shown."""
    style, script = _packaged("report.css"), _packaged("report.js")
    policy = (
        f"default-src 'none'; style-src 'sha256-{_digest(style)}'; script-src 'sha256-{_digest(script)}'; "
        "base-uri 'none'; form-action 'none'"
    )
    return _template().render(
        report=report,
        words=words,
        glance=glance,
        arms=COMPARED_ARMS,
        style=Markup(style),  # noqa: S704 - these two are files of the package
        script=Markup(script),  # noqa: S704
        policy=policy,
        plots=glance.overview_plots(report),
        case_plots=glance.case_plots(report),
    )


def _digest(text: str) -> str:
    return base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()


@cache
def _template() -> Template:
    from jinja2 import Environment, PackageLoader, StrictUndefined

    environment = Environment(
        loader=PackageLoader("reporters", "templates"),
        autoescape=True,
        undefined=StrictUndefined,
        finalize=_shown,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    return environment.get_template("report.html.j2")


def _shown(value: object) -> object:
    """Every value that the template prints passes here before it is escaped; only markup of our own does not."""
    return visible(value) if isinstance(value, str) and not hasattr(value, "__html__") else value


@cache
def _packaged(name: str) -> str:
    return resources.files("reporters").joinpath("templates", name).read_text(encoding="utf-8")
