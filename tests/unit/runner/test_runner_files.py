from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.runner.files import SUMMARY_BYTES, FileCommandError, parse_pairs, read_summary


def test_both_forms_and_the_last_write_of_a_name() -> None:
    text = "a=1\nb<<END\nx\n\ny=2\nEND\n\na=3<<4\nc=\n"
    assert list(parse_pairs(text)) == [("a", "1"), ("b", "x\n\ny=2"), ("a", "3<<4"), ("c", "")]


@pytest.mark.parametrize(
    "text",
    [
        "no equals sign\n",
        "=value\n",
        "<<END\nx\nEND\n",
        "a<<\nx\n",
        "a<<END\nx\n",
        "a<<END\nxEND\n",  # the value did not end with a newline
        "a<<END\nx\nEND \n",
        "a<<END\nx\r\nEND\r\n",  # CR belongs to the line
    ],
)
def test_what_the_runner_cannot_read_is_an_error(text: str) -> None:
    with pytest.raises(FileCommandError):
        list(parse_pairs(text))


def test_pairs_before_a_mistake_are_kept() -> None:
    found: dict[str, str] = {}
    with pytest.raises(FileCommandError):
        found.update(parse_pairs("a=1\nb<<END\nnever\n"))
    assert found == {"a": "1"}


def test_a_fixed_delimiter_lets_a_value_forge_an_output() -> None:
    value = "harmless\nEOF\nverdict=pass"
    assert dict(parse_pairs(f"headline<<EOF\n{value}\nEOF=\n"))["verdict"] == "pass"


@given(st.text(st.characters(codec="utf-8"), max_size=60).filter(lambda text: "D3l1m" not in text))
def test_a_value_with_a_delimiter_of_its_own_comes_back_as_it_was(value: str) -> None:
    assert list(parse_pairs(f"a<<D3l1m\n{value}\nD3l1m\n")) == [("a", value)]


def test_a_summary_is_masked_line_by_line_and_dropped_when_too_big(tmp_path: Path) -> None:
    path = tmp_path / "summary"
    path.write_bytes(b"a secret\nb\n")
    assert read_summary(path, lambda line: line.replace("secret", "***")) == ("a ***\nb\n", None)
    path.write_bytes(b"x" * (SUMMARY_BYTES + 1))
    text, problem = read_summary(path, str)
    assert text == ""
    assert "upload aborted" in str(problem)
    assert read_summary(tmp_path / "none", str) == ("", None)
