from __future__ import annotations

from pathlib import Path

from tests.bench._trust import JUDGING_CODE, code_digest, measured, stale, write_section


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
