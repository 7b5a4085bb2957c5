"""docs/trust.md: what the benches found, each in a section of its own that only that bench rewrites.

Every section says at which commit and over which code it was measured. ``python -m tests.bench._trust`` names the sections
whose code has changed since, and ends with 1 where there are any.
"""

from __future__ import annotations

import hashlib
import re
import subprocess
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
DOCUMENT = ROOT / "docs" / "trust.md"
JUDGING_CODE = ("gate/judging", "gate/decision", "gate/evidence")
"""What a verdict rests on: a table that was measured over other code is stale."""
_MEASURED = re.compile(r"<!-- measured: commit=(\S+) digest=([0-9a-f]{16}) -->")
_SECTION = re.compile(r"<!-- begin: (\S+) -->\n(.*?)<!-- end: \1 -->", re.DOTALL)
PREFACE = """# How far a verdict can be trusted

Every table here is written by a benchmark (`make bench`, or `python -m tests.bench.NAME`), none by hand.
"""


def write_section(name: str, title: str, text: str, *, document: Path = DOCUMENT) -> None:
    """Replace the section of a bench, or add it; sections stand in the order of their names, the rest is not touched."""
    begin, end = f"<!-- begin: {name} -->", f"<!-- end: {name} -->"
    section = f"{begin}\n## {title}\n\n{text.strip()}\n\n{measured()}\n{end}\n"
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


def code_digest(root: Path = ROOT) -> str:
    """The first 16 hex digits of the SHA-256 over the paths and contents of all files of ``JUDGING_CODE``."""
    whole = hashlib.sha256()
    for folder in JUDGING_CODE:
        for path in sorted((root / folder).rglob("*")):
            if path.is_file() and path.suffix != ".pyc":
                whole.update(path.relative_to(root).as_posix().encode() + b"\0")
                whole.update(hashlib.sha256(path.read_bytes()).digest())
    return whole.hexdigest()[:16]


_AT_START = code_digest()
"""A bench measures the code that it began with, whatever is written meanwhile."""


def measured(root: Path = ROOT) -> str:
    """The last lines of a section: commit and digest of the code that was measured, for people and for ``stale``."""
    git = ["git", "-C", str(root)]
    try:
        commit = subprocess.run(
            [*git, "rev-parse", "--short=12", "HEAD"], capture_output=True, text=True, check=True
        ).stdout.strip()
        changed = subprocess.run(
            [*git, "status", "--porcelain", "--", *JUDGING_CODE], capture_output=True, text=True, check=True
        ).stdout
    except (OSError, subprocess.CalledProcessError):
        commit, changed = "unknown", ""
    digest = _AT_START if root == ROOT else code_digest(root)
    then = f"{commit} with changes" if changed else commit
    return f"Measured at commit {then}; digest of {', '.join(JUDGING_CODE)}: `{digest}`.\n<!-- measured: commit={commit} digest={digest} -->"


def stale(document: Path = DOCUMENT, root: Path = ROOT) -> list[str]:
    """Names of the sections that were measured over other code than there is now, or do not say over which."""
    now = code_digest(root)
    sections = _SECTION.findall(document.read_text(encoding="utf-8")) if document.is_file() else []
    return [name for name, text in sections if (found := _MEASURED.search(text)) is None or found[2] != now]


def markdown_table(head: list[str], rows: list[list[str]]) -> str:
    """A Markdown table; columns after the first stand to the right."""
    lines = [head, ["---", *["---:"] * (len(head) - 1)], *rows]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)


if __name__ == "__main__":
    old = stale()
    print(f"stale in {DOCUMENT.name}: {', '.join(old)}; run: make bench" if old else f"{DOCUMENT.name} is current")
    raise SystemExit(1 if old else 0)
