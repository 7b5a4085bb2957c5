from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.runner.commands import KNOWN, Commands, parse


def fed(*lines: str, secrets: tuple[str, ...] = ()) -> Commands:
    commands = Commands(secrets)
    for line in lines:
        commands.feed(line)
    return commands


def test_a_command_begins_its_line_after_blanks_and_unescapes_data_and_properties() -> None:
    commands = fed("  ::error file=a%2Cb.md,line=3,title=x%3Ay::100%25 %0Asure")
    assert [(one.level, one.message, one.properties) for one in commands.annotations] == [
        ("error", "100% \nsure", {"file": "a,b.md", "line": "3", "title": "x:y"})
    ]


def test_an_escaped_percent_sign_makes_no_other_escape() -> None:
    assert fed("::notice::%250A").annotations[0].message == "%0A"


def test_the_old_form_is_a_command_anywhere_in_a_line() -> None:
    commands = fed("a skill's file is called ##[error]forged")
    assert [one.message for one in commands.annotations] == ["forged"]


@pytest.mark.parametrize("line", ["x ::error::no", "::unknown::no", "::error no", "##[unknown]no", "## [error]no", ""])
def test_what_is_no_command_stays_text(line: str) -> None:
    commands = fed(line)
    assert commands.commands == []
    assert commands.log == line


def test_between_stop_and_its_token_nothing_is_a_command() -> None:
    commands = fed(
        "::stop-commands::a-random-token", "::error::forged", "##[error]forged", "::a-random-token::", "::error::ours"
    )
    assert [one.message for one in commands.annotations] == ["ours"]
    assert not commands.stopped
    assert "a-random-token" not in commands.log
    assert "a-random-token" in commands.raw


def test_the_token_ends_the_stop_in_the_old_form_too_and_in_any_case() -> None:
    assert not fed("::stop-commands::Abcdefgh", "text ##[aBCDEFGH]").stopped
    assert fed("::stop-commands::Abcdefgh", "::Abcdefg::").stopped


@pytest.mark.parametrize("token", ["", "pause-logging", "error", "Stop-Commands"])
def test_a_token_that_anybody_could_guess_is_refused(token: str) -> None:
    commands = fed(f"::stop-commands::{token}")
    assert commands.problems
    assert not commands.stopped


def test_secrets_are_blotted_out_of_the_log_and_of_annotations_but_not_of_the_raw_log() -> None:
    commands = fed("::add-mask::one%0Atwo", "one and two and three", "::error::two", secrets=("three",))
    assert commands.log == "*** and *** and ***\n##[error]***"
    assert commands.annotations[0].message == "***"
    assert "one and two and three" in commands.raw


def test_a_longer_secret_is_blotted_out_before_one_that_it_begins_with() -> None:
    assert fed("abcdef", secrets=("abc", "abcdef")).log == "***"


def test_a_step_makes_ten_annotations_of_a_level() -> None:
    commands = fed(*[f"::error::{number}" for number in range(12)], "::warning::w")
    assert [one.message for one in commands.annotations] == [str(number) for number in range(10)] + ["w"]


@pytest.mark.parametrize("line", ["::set-env name=A::b", "::add-path::/x", "::set-output::x"])
def test_commands_that_are_switched_off_or_incomplete_are_problems_of_the_step(line: str) -> None:
    assert fed(line).problems


def test_the_old_output_command_works_and_warns() -> None:
    commands = fed("::set-output name=a::b", "::save-state name=c::d")
    assert (commands.outputs, commands.state) == ({"a": "b"}, {"c": "d"})
    assert [one.level for one in commands.annotations] == ["warning", "warning"]


@given(st.text(st.characters(codec="utf-8", exclude_characters="\r\n"), max_size=80))
def test_no_line_is_understood_while_commands_are_stopped(line: str) -> None:
    commands = fed("::stop-commands::2f7c9b1e5d3a4860", line)
    assert len(commands.commands) == 1 or "2f7c9b1e5d3a4860" in line.lower()


@given(st.sampled_from(sorted(KNOWN)), st.text(st.characters(codec="utf-8"), max_size=40))
def test_escaped_data_comes_back_as_it_was(name: str, data: str) -> None:
    escaped = data.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")
    command = parse(f"::{name}::{escaped}", KNOWN)
    assert command is not None
    assert command.data == data
