from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from gate.cli.terminal import fitted, visible


def test_a_name_cannot_start_a_line_a_colour_or_a_runner_command() -> None:
    assert visible("a\nb\x1b[31m") == "a\\nb\\x1b[31m"
    assert visible("::error::no") == ":\\x3aerror::no"
    assert visible("  ::stop-commands::x") == "  :\\x3astop-commands::x"
    assert visible("x ##[error]no") == "x #\\x23[error]no"
    assert visible("\u202egnp.exe \u2028") == "\\u202egnp.exe \\u2028"


def test_plain_text_of_any_script_stays_as_it_is() -> None:
    for text in ("skills/报告: 3 cases", "a::b", "über & co", "C:\\dir"):
        assert visible(text) == text


@given(st.text())
def test_whatever_goes_in_one_harmless_line_comes_out(text: str) -> None:
    shown = visible(text)
    assert shown.isprintable()
    assert not shown.lstrip().startswith("::")
    assert "##[" not in shown


@given(st.lists(st.text("abc:/-", min_size=1), max_size=30), st.integers(20, 200), st.sampled_from(["", "  "]))
def test_a_line_is_broken_between_words_only_and_nothing_is_lost(words: list[str], width: int, indent: str) -> None:
    lines = fitted(indent + " ".join(words), width)
    assert " ".join(lines).split() == words
    assert all(len(line) <= width or len(line.split()) == 1 for line in lines)
    assert lines[0].startswith(indent if words else "")
