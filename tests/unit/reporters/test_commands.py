from __future__ import annotations

import itertools
import secrets
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reporters.commands import (
    ANNOTATION_CHARACTERS,
    annotation,
    entries,
    file_entry,
    harmless,
    mask,
    resume,
    stop,
)
from tests.pipeline.action_stage import commands_in, entries_in

nasty = st.text() | st.lists(
    st.sampled_from(
        [
            "::error::",
            "##[error]",
            "\n",
            "\r",
            "\r\n",
            "\u2028",
            "\x85",
            " ",
            "%0A",
            "%",
            ":",
            ",",
            "\x1b[2K",
            "a",
            "<<",
        ]
    )
).map("".join)


@given(nasty)
def test_an_annotation_is_one_command_with_all_of_its_text(text: str) -> None:
    line = annotation("error", text)
    assert len(line.splitlines()) == 1
    (command,) = commands_in([line])
    assert command.name == "error"
    assert command.properties == "title=Skill Gate"


def test_an_annotation_keeps_percent_signs_and_line_ends() -> None:
    assert annotation("notice", "50 %0A\r\nnext") == "::notice title=Skill Gate::50 %250A%0Anext"
    assert annotation("notice", "x", title="a:b,c\n") == "::notice title=a%3Ab%2Cc%0A::x"


def test_an_annotation_that_is_too_long_is_cut() -> None:
    (command,) = commands_in([annotation("error", "x" * 10_000)])
    assert len(command.text) == ANNOTATION_CHARACTERS
    assert command.text.endswith("…")


@given(nasty)
def test_what_was_made_harmless_is_no_command_anywhere(text: str) -> None:
    lines = harmless(text)
    assert commands_in(list(lines)) == []
    assert all(line.isprintable() or "\t" in line for line in lines)
    assert all(len(line.splitlines()) <= 1 for line in lines)


def test_harmless_text_stays_as_it_is() -> None:
    assert harmless("Ünïcode 报告: a::b [x] # y") == ("Ünïcode 报告: a::b [x] # y",)
    assert harmless("") == ("",)


@given(nasty)
def test_no_text_ends_the_stop(text: str) -> None:
    token = secrets.token_hex(16)
    found = commands_in([stop(token), *text.split("\n"), resume(token), "::notice::end"])
    assert [one.text for one in found] == ["end"]


@pytest.mark.parametrize("token", ["", "short", "pause-logging", "g" * 32, "a" * 15])
def test_a_token_that_could_be_guessed_is_refused(token: str) -> None:
    with pytest.raises(ValueError, match="random hex digits"):
        stop(token)


def test_a_secret_of_several_lines_is_masked_line_by_line() -> None:
    assert mask("one\n\n50%\n") == ("::add-mask::one", "::add-mask::50%25")
    assert mask("") == ()


@given(st.dictionaries(st.sampled_from(["verdict", "headline", "exit-code"]), nasty, min_size=1))
def test_no_value_forges_or_breaks_an_entry(values: dict[str, str]) -> None:
    import tempfile

    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "output"
        path.write_bytes(entries(values, secrets.token_hex).encode())
        read = entries_in(path)
    assert list(read) == list(values)
    for name, value in values.items():
        assert read[name] == value.replace("\x00", "\ufffd").encode("utf-8", "replace").decode()


def test_a_delimiter_that_is_in_the_value_is_drawn_again() -> None:
    draws = itertools.chain(["a" * 32, "a" * 32, "b" * 32])
    entry = file_entry("verdict", f"skill_gate_{'a' * 32}\nevil<<x", lambda count: next(draws))
    assert entry == f"verdict<<skill_gate_{'b' * 32}\nskill_gate_{'a' * 32}\nevil<<x\nskill_gate_{'b' * 32}\n"


@pytest.mark.parametrize("name", ["", "a=b", "a\nb", "A", "a<<b", "-a"])
def test_a_name_that_is_no_plain_word_is_refused(name: str) -> None:
    with pytest.raises(ValueError, match="no name of an output"):
        file_entry(name, "x", secrets.token_hex)
