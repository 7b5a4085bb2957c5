"""One self-contained page: no script, no request, readable in light and dark, the verdicts first.

Jinja escapes everything; the content security policy allows exactly the one style sheet, by its hash, and nothing else.
"""

from __future__ import annotations

import base64
import hashlib
from functools import cache
from importlib import resources
from typing import TYPE_CHECKING

from gate.domain.plan import COMPARED_ARMS
from gate.domain.report import GateReport
from reporters import words
from reporters.markdown import visible

if TYPE_CHECKING:
    from jinja2 import Template


def render(report: GateReport) -> str:
    """The page as HTML text. Untrusted text is escaped, and what would be invisible in it is shown."""
    style = _style()
    digest = base64.b64encode(hashlib.sha256(style.encode()).digest()).decode()
    policy = f"default-src 'none'; style-src 'sha256-{digest}'; base-uri 'none'; form-action 'none'"
    return _template().render(report=report, words=words, arms=COMPARED_ARMS, style=style, policy=policy)


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
def _style() -> str:
    return resources.files("reporters").joinpath("templates/report.css").read_text(encoding="utf-8")
