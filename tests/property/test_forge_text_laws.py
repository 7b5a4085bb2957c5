"""Laws of the texts that go to a forge."""

from __future__ import annotations

import unicodedata

from hypothesis import given
from hypothesis import strategies as st

from gate.domain.forge import DESCRIPTION_CHARACTERS, MARKER_LINES, Permission, carries_marker, status_description

_PIECES = ["a", " ", "é", "e\u0301", "\u200d", "👩", "\ufe0f", "\n", "\x00", "\ud800", "日", "\u0300", "word "]
TEXT = st.text(st.characters(codec=None), max_size=400) | st.lists(st.sampled_from(_PIECES), max_size=300).map("".join)


@given(TEXT)
def test_a_description_always_fits_and_is_one_plain_line(text: str) -> None:
    made = status_description(text)
    assert len(made) <= DESCRIPTION_CHARACTERS
    assert all(ord(one) <= 0xFFFF and not 0xD800 <= ord(one) <= 0xDFFF for one in made)
    assert not any(unicodedata.category(one) == "Cc" for one in made)
    assert made == made.strip()


@given(TEXT)
def test_a_description_that_was_cut_is_not_cut_again(text: str) -> None:
    made = status_description(text)
    assert status_description(made) == made


@given(st.text(st.sampled_from("abc é"), max_size=DESCRIPTION_CHARACTERS))
def test_a_description_that_fits_keeps_every_word(text: str) -> None:
    assert status_description(text).split() == text.split()


@given(st.text(st.sampled_from(["a", "\u0301", "b"]), min_size=141, max_size=400))
def test_a_cut_never_parts_a_letter_from_its_marks(text: str) -> None:
    made = status_description(text)
    assert made.endswith("…")
    if set(made[DESCRIPTION_CHARACTERS // 2 : -1]) - {"\u0301"}:  # else nothing but marks is left to cut between
        assert not unicodedata.combining(text[len(made) - 1])


@given(st.lists(st.sampled_from(["", "text", "<!-- m -->", "  <!-- m -->\t", "a <!-- m -->"]), max_size=6))
def test_a_marker_counts_alone_on_one_of_the_first_lines_only(lines: list[str]) -> None:
    expected = any(line.strip() == "<!-- m -->" for line in lines[:MARKER_LINES])
    for ending in ("\n", "\r\n"):
        assert carries_marker(ending.join(lines), "<!-- m -->") is expected


@given(st.text())
def test_an_empty_marker_is_in_no_comment(body: str) -> None:
    assert not carries_marker(body, "")


@given(st.sampled_from(list(Permission)), st.sampled_from(list(Permission)))
def test_of_two_roles_one_includes_the_other(one: Permission, other: Permission) -> None:
    assert one.allows(other) or other.allows(one)
    assert (one.allows(other) and other.allows(one)) is (one == other)
