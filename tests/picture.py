"""The picture in README: the first screen of the demonstration's comment, as a browser shows it.

``python -m tests.picture BUNDLE`` writes docs/comment.png from the bundle that ``make demo`` leaves.
"""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

from tests.github_page import page
from tests.webdriver import browser

PICTURE = Path(__file__).resolve().parents[1] / "docs" / "comment.png"
WIDTH, HEIGHT = 960, 760


def main(bundle: Path) -> None:
    """Write the picture. Raises OSError without the bundle's report.md."""
    with tempfile.TemporaryDirectory() as folder, browser(Path(folder)) as window:
        file = Path(folder) / "comment.html"
        file.write_text(page((bundle / "report.md").read_text(encoding="utf-8")), encoding="utf-8")
        window.resize(WIDTH, HEIGHT)
        window.open(f"file://{file}")
        window.screenshot(PICTURE)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
