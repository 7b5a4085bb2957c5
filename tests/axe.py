"""axe-core: what keeps people from using a page. Fetched once with npm into .cache, and run in the page by the browser."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest

from tests.webdriver import Browser

PACKAGE = "axe-core@4.14.1"
FOLDER = Path(__file__).resolve().parents[1] / ".cache/axe"
_SOURCE = FOLDER / "node_modules/axe-core/axe.min.js"
_RUN = """
return axe.run(document, {resultTypes: ["violations"], preload: false}).then(found => found.violations.map(one => ({
  rule: one.id, impact: one.impact, help: one.help, at: one.nodes.slice(0, 5).map(node => node.html.slice(0, 300)),
})));
"""


def axe() -> str:
    """The script. Skips the test where npm cannot be had, fails in CI."""
    if not _SOURCE.is_file():
        if shutil.which("npm") is None:
            if os.environ.get("CI") == "true":
                pytest.fail("no npm on this machine; .ci/openapi installs it", pytrace=False)
            pytest.skip("no npm on this machine to fetch axe-core with")
        FOLDER.mkdir(parents=True, exist_ok=True)
        subprocess.run(
            [
                "npm",
                "install",
                "--silent",
                "--no-fund",
                "--no-audit",
                "--ignore-scripts",
                "--prefix",
                str(FOLDER),
                PACKAGE,
            ],
            check=True,
            timeout=120,
            stdin=subprocess.DEVNULL,
        )
    return _SOURCE.read_text(encoding="utf-8")


def violations(window: Browser, script: str) -> list[dict[str, Any]]:
    """What is wrong with the page that the window shows; every rule of axe's, the advisory ones too."""
    found: list[dict[str, Any]] = window.run(f"{script}\n{_RUN}")
    return found
