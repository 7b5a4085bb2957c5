"""docs/trust.md: what the benches found, each in a section of its own that only that bench rewrites.

Every section says at which commit and over which code it was measured. ``python -m tests.bench._trust`` names the sections
whose code has changed since, and ends with 1 where there are any. Comments, docstrings and blank lines are no code.

Above the sections stands the table of all figures (J1 to J22), made of what the benches print last: ``_run`` keeps that in
``docs/trust.json`` and writes the table anew.
"""

from __future__ import annotations

import ast
import functools
import hashlib
import io
import json
import re
import subprocess
import tokenize
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
DOCUMENT = ROOT / "docs" / "trust.md"
FIGURES = ROOT / "docs" / "trust.json"
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
        later = [
            found for found in re.finditer(r"<!-- begin: (\S+) -->", old) if found[1] > name and found[1] != "SUMMARY"
        ]
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
                data = path.read_bytes()
                whole.update(hashlib.sha256(code_of(data) if path.suffix == ".py" else data).digest())
    return whole.hexdigest()[:16]


@functools.lru_cache(maxsize=1000)
def code_of(source: bytes) -> bytes:
    """A Python source without comments, docstrings, blank lines and white space at line ends: what it does depends on none.

    By positions alone, so that every Python gives the same bytes.
    """
    lines = source.decode("utf-8").splitlines()
    tree = ast.parse(source)
    for node in ast.walk(tree):
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            # Also what stands behind a field: any text that is a statement of its own does nothing.
            for item in node.body:
                if (
                    isinstance(item, ast.Expr)
                    and isinstance(item.value, ast.Constant)
                    and isinstance(item.value.value, str)
                ):
                    last = item.end_lineno or item.lineno
                    lines[item.lineno - 1 : last] = [""] * (last - item.lineno + 1)
    for token in tokenize.generate_tokens(io.StringIO(source.decode("utf-8")).readline):
        row, column = token.start
        if token.type == tokenize.COMMENT and lines[row - 1]:
            lines[row - 1] = lines[row - 1][:column]
    return "\n".join(line.rstrip() for line in lines if line.strip()).encode()


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
    sections = [(name, text) for name, text in sections if name != "SUMMARY"]
    return [name for name, text in sections if (found := _MEASURED.search(text)) is None or found[2] != now]


GOALS: dict[str, tuple[str, ...]] = {
    "quotes": ("J1", "J21"),
    "gullible": ("J2", "J3", "J21"),
    "aa": ("J4", "J5"),
    "sabotage": ("J6", "J7"),
    "operating_characteristic": ("J8",),
    "intervals": ("J9",),
    "stopping": ("J10",),
    "many_skills": ("J11",),
    "llmbar": ("J12",),
    "replies": ("J13", "J21"),
    "debate": ("J14",),
    "arithmetic": ("J15",),
    "tamper": ("J16",),
    "triage": ("J17",),
    "null_agents": ("J18",),
    "health": ("J19",),
    "blinding": ("J20",),
    "peers": ("peers",),
}
"""Bench -> what it measures (judging.md 11). J22, honest words, is held by a linter over every report in the tests."""


def keep_figures(bench: str, figures: list[dict[str, Any]], *, kept: Path = FIGURES) -> None:
    """Keep what a bench printed last, with the commit and the code that it was measured over."""
    old = json.loads(kept.read_text("utf-8")) if kept.is_file() else {}
    found = _MEASURED.search(measured())
    commit, digest = (found[1], found[2]) if found else ("unknown", code_digest())
    old[bench] = {"commit": commit, "digest": digest, "figures": figures}
    kept.write_text(json.dumps(dict(sorted(old.items())), indent=1, ensure_ascii=False) + "\n", encoding="utf-8")


def write_summary(*, document: Path = DOCUMENT, kept: Path = FIGURES) -> None:
    """The table of all figures, under the preface."""
    begin, end = "<!-- begin: SUMMARY -->", "<!-- end: SUMMARY -->"
    section = f"{begin}\n## All figures\n\n{summary(kept=kept)}\n{end}\n"
    old = document.read_text(encoding="utf-8") if document.is_file() else PREFACE
    pattern = re.compile(f"{re.escape(begin)}.*?{re.escape(end)}\n", re.DOTALL)
    if pattern.search(old):
        new = pattern.sub(lambda _: section, old)
    else:
        head, mark, rest = old.partition("<!-- begin: ")
        new = f"{head.rstrip()}\n\n{section}\n{mark}{rest}" if mark else f"{head.rstrip()}\n\n{section}"
    document.write_text(new, encoding="utf-8")


def summary(*, kept: Path = FIGURES, root: Path = ROOT) -> str:
    """Every figure with its bound, number, baseline (the naive variant on the same corpus), goal, commit and digest."""
    found = json.loads(kept.read_text("utf-8")) if kept.is_file() else {}
    now, rows = code_digest(root), []
    for bench, goals in sorted(GOALS.items(), key=lambda item: (len(item[1][0]), item[1])):
        entry = found.get(bench)
        if entry is None:
            rows.append([", ".join(goals), bench, "not measured", *[""] * 7])
            continue
        code = f"`{entry['digest']}`" + ("" if entry["digest"] == now else " (changed since)")
        rows += [
            [", ".join(goals), f"{bench}: {item['unit']}", *_shown(item), entry["commit"], code]
            for item in entry["figures"]
        ]
    head = ["goal", "what", "figure", "95 % bound", "n", "naive", "goal is", "met", "commit", "digest of the code"]
    words = (
        "Naive: the same corpus and seeds with the plain way of doing it. Digest: of gate/judging, gate/decision and "
        "gate/evidence as they were measured.\n\n"
    )
    return words + markdown_table(head, [[cell.replace("|", "\\|") for cell in row] for row in rows])


def _shown(item: dict[str, Any]) -> list[str]:
    bound = item.get("bound")
    return [
        _number(item["figure"]),
        f"{_number(bound[0])} to {_number(bound[1])}" if bound else "",
        f"{item['n']:,}" if isinstance(item["n"], int) else str(item["n"]),
        "" if item.get("baseline") is None else _number(item["baseline"]),
        str(item["goal"]),
        "yes" if item["ok"] else "no",
    ]


def _number(value: Any) -> str:
    return f"{value:.4g}" if isinstance(value, int | float) else str(value)


def markdown_table(head: list[str], rows: list[list[str]]) -> str:
    """A Markdown table; columns after the first stand to the right."""
    lines = [head, ["---", *["---:"] * (len(head) - 1)], *rows]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)


if __name__ == "__main__":
    old = stale()
    print(f"stale in {DOCUMENT.name}: {', '.join(old)}; run: make bench" if old else f"{DOCUMENT.name} is current")
    raise SystemExit(1 if old else 0)
