"""Every requirement has a test that names it, and every deliberate difference says which requirements it is about."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.requirements import MarkerError, differences, shown_by, titles

TESTS = Path(__file__).resolve().parents[1]


def test_no_requirement_is_without_a_test() -> None:
    assert list(titles()) == [f"R{number}" for number in range(1, 227)]
    shown = shown_by(TESTS)
    assert {number: title for number, title in titles().items() if number not in shown} == {}


def test_what_is_deliberately_different_is_listed_with_its_requirements_and_a_reason() -> None:
    assert list(differences()) == [f"K{number}" for number in range(1, 28)]
    for number, (about, text) in differences().items():
        assert about, number
        assert set(about) <= set(titles()), number
        odd, _, done = text.partition(": ")
        assert odd, number
        assert done, number


def test_a_marker_of_no_requirement_is_an_error_that_names_its_place(tmp_path: Path) -> None:
    marker = "requirements"
    text = f'import pytest\n\n\n@pytest.mark.{marker}("R227")\ndef test_a() -> None: ...\n'
    (tmp_path / "test_a.py").write_text(text)
    with pytest.raises(MarkerError, match=r"test_a\.py:4: no such requirement: 'R227'"):
        shown_by(tmp_path)
