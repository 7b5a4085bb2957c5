"""docs/trust.md: what the benches found, each in a section of its own that only that bench rewrites."""

from __future__ import annotations

import re
from pathlib import Path

DOCUMENT = Path(__file__).resolve().parents[2] / "docs" / "trust.md"
PREFACE = """# How far a verdict can be trusted

Every table here is written by a benchmark (`make bench`, or `python -m tests.bench.NAME`), none by hand.
"""


def write_section(name: str, title: str, text: str, *, document: Path = DOCUMENT) -> None:
    """Replace the section of a bench, or add it; sections stand in the order of their names, the rest is not touched."""
    begin, end = f"<!-- begin: {name} -->", f"<!-- end: {name} -->"
    section = f"{begin}\n## {title}\n\n{text.strip()}\n{end}\n"
    old = document.read_text(encoding="utf-8") if document.is_file() else PREFACE
    pattern = re.compile(f"{re.escape(begin)}.*?{re.escape(end)}\n", re.DOTALL)
    if pattern.search(old):
        new = pattern.sub(lambda _: section, old)
    else:
        later = [found for found in re.finditer(r"<!-- begin: (\S+) -->", old) if found[1] > name]
        at = later[0].start() if later else len(old)
        new = old[:at].rstrip("\n") + "\n\n" + section + ("\n" + old[at:] if later else "")
    document.parent.mkdir(exist_ok=True)
    document.write_text(new, encoding="utf-8")


def markdown_table(head: list[str], rows: list[list[str]]) -> str:
    """A Markdown table; columns after the first stand to the right."""
    lines = [head, ["---", *["---:"] * (len(head) - 1)], *rows]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)
