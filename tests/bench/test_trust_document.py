from __future__ import annotations

import json
from pathlib import Path

from tests.bench._figures import share
from tests.bench._trust import (
    JUDGING_CODE,
    code_digest,
    code_of,
    keep_figures,
    measured,
    stale,
    write_section,
    write_summary,
)


def a_tree(folder: Path) -> Path:
    for name in JUDGING_CODE:
        (folder / name).mkdir(parents=True)
        (folder / name / "code.py").write_text("x = 1\n")
    return folder


def test_a_section_says_what_was_measured_and_only_its_own_bench_rewrites_it(tmp_path: Path) -> None:
    document = tmp_path / "trust.md"
    write_section("b", "B", "one", document=document)
    write_section("a", "A", "two", document=document)
    write_section("b", "B", "three", document=document)
    text = document.read_text()
    assert text.index("## A") < text.index("## B")
    assert "one" not in text.split("## A")[1]
    assert text.count("Measured at commit") == 2
    assert stale(document) == []


def test_a_section_is_stale_once_the_code_that_it_was_measured_over_has_changed(tmp_path: Path) -> None:
    root = a_tree(tmp_path / "tree")
    document = tmp_path / "trust.md"
    document.write_text(
        f"<!-- begin: a -->\n{measured(root)}\n<!-- end: a -->\n<!-- begin: b -->\nsaid nothing\n<!-- end: b -->\n"
    )
    assert stale(document, root) == ["b"]
    (root / JUDGING_CODE[1] / "code.py").write_text("x = 2\n")
    assert stale(document, root) == ["a", "b"]


def test_compiled_files_are_no_code_and_a_renamed_file_is_a_change(tmp_path: Path) -> None:
    root = a_tree(tmp_path)
    before = code_digest(root)
    (root / JUDGING_CODE[0] / "code.pyc").write_bytes(b"\0")
    assert code_digest(root) == before
    (root / JUDGING_CODE[0] / "code.py").rename(root / JUDGING_CODE[0] / "other.py")
    assert code_digest(root) != before


def test_comments_docstrings_and_blank_lines_are_no_code() -> None:
    plain = b'x = "# no comment"\ndef f():\n    y = 1\n    return y\n'
    said = b'"""What."""\n\nx = "# no comment"  # a comment\n"""Of x."""\ndef f():\n    """Why."""\n\n    y = 1\n    # because\n    return y\n'
    assert code_of(said) == code_of(plain)
    assert code_of(plain.replace(b"y = 1", b"y = 2")) != code_of(plain)
    assert code_of(plain.replace(b"# no", b"# a")) != code_of(plain)


def test_the_table_of_all_figures_stands_above_the_sections_and_names_what_is_missing(tmp_path: Path) -> None:
    document, kept = tmp_path / "trust.md", tmp_path / "trust.json"
    write_section("tamper", "Tamper", "one", document=document)
    figures = [share("tamper", 0, 300, "missed", goal="0", at_most=0.0, baseline_hits=30)]
    keep_figures("tamper", figures, kept=kept)
    for _ in range(2):
        write_summary(document=document, kept=kept)
    write_section("aa", "Equal arms", "two", document=document)
    text = document.read_text()
    assert text.count("## All figures") == 1
    assert text.index("## All figures") < text.index("## Equal arms") < text.index("## Tamper")
    (row,) = [line for line in text.splitlines() if line.startswith("| J16 ")]
    assert "| tamper: missed | 0 | 0 to 0.01222 | 300 | 0.1 | 0 | yes |" in row
    assert code_digest() in row
    assert "| J6, J7 | sabotage | not measured |" in text
    assert stale(document) == []
    kept.write_text(kept.read_text().replace(json.loads(kept.read_text())["tamper"]["digest"], "0" * 16))
    write_summary(document=document, kept=kept)
    assert "`0000000000000000` (changed since)" in document.read_text()


def test_docs_trust_was_measured_over_the_code_that_there_is() -> None:
    assert stale() == [], "run: make bench"
