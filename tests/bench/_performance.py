"""docs/performance.md: what the gate costs, each bench a section of its own, as in docs/trust.md."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from tests.bench._trust import ROOT, markdown_table, write_section

DOCUMENT = ROOT / "docs" / "performance.md"
PREFACE = """# What it costs

Every table here is written by a benchmark (`make bench`, or `python -m tests.bench.NAME`), none by hand. The baseline of each is
measured in the same run on the same machine; times on another machine differ, ratios less.
"""


def write_table(
    name: str, title: str, text: str, head: Sequence[str], rows: Sequence[Sequence[str]], *, document: Path = DOCUMENT
) -> None:
    """Replace the section of a bench: a text, then a table."""
    if not document.is_file():
        document.parent.mkdir(exist_ok=True)
        document.write_text(PREFACE, encoding="utf-8")
    table = markdown_table(list(head), [list(row) for row in rows])
    write_section(name, title, f"{text.strip()}\n\n{table}", document=document)
