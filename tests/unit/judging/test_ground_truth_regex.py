from __future__ import annotations

from pathlib import Path

import pytest

from gate.domain.checks import Check, ResponseMatches, ResponseNotMatches
from gate.domain.judgement import CheckStatus
from gate.domain.suite import Case
from gate.judging.ground_truth import regex
from gate.judging.ground_truth.facts import Facts
from gate.judging.ground_truth.regex import RegexError, RegexSearch
from gate.judging.ground_truth.run import check_facts
from tests.builders_judging import a_run

BOMB = r"(a+)+$"
VICTIM = "a" * 40 + "!"


def test_a_search_finds_the_first_place_or_nothing() -> None:
    with RegexSearch() as search:
        assert search.search(r"\d+", "ab 12 34") == (3, 5)
        assert search.search(r"\d+", "ab") is None
        assert search.search("b", "abc") == (1, 2)
        assert search.search("é+", "caf\u00e9é \ud800 😀") == (3, 5)


def test_a_pattern_that_never_ends_is_stopped_and_the_next_one_still_answers() -> None:
    with RegexSearch(deadline_s=0.5) as search:
        with pytest.raises(RegexError, match=r"did not end within 0\.5 s"):
            search.search(BOMB, VICTIM)
        assert search.search(r"a+!", VICTIM) == (0, 41)


def test_alternatives_without_repetition_can_be_bombs_too_and_are_stopped() -> None:
    with RegexSearch(deadline_s=0.5) as search, pytest.raises(RegexError, match="did not end"):
        search.search("(?:a|aa)" * 40 + "$", "a" * 70 + "!")


@pytest.mark.parametrize("pattern", ["(", "*a", r"(?P<x>a)(?P<x>b)", "[z-a]", "a{4294967296}"])
def test_a_pattern_that_is_none_is_said(pattern: str) -> None:
    with RegexSearch() as search, pytest.raises(RegexError, match="not a regular expression"):
        search.search(pattern, "text")


def test_a_text_over_the_limit_is_not_searched(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(regex, "TEXT_LIMIT", 10)
    with RegexSearch() as search, pytest.raises(RegexError, match="11 characters"):
        search.search("a+", "a" * 11)


def test_the_child_process_ends_with_the_search() -> None:
    with RegexSearch() as search:
        search.search("a+", "aaa")
        child = search._child
        assert child is not None
    assert child.poll() is not None


def test_a_bomb_is_not_run_in_either_direction_never_a_pass(tmp_path: Path) -> None:
    record = a_run(tmp_path, response=VICTIM)
    checks = (
        Check(id="c1", parameters=ResponseMatches(pattern=BOMB)),
        Check(id="c2", parameters=ResponseNotMatches(pattern=BOMB)),
        Check(id="c3", parameters=ResponseMatches(pattern="a+!")),
    )
    with RegexSearch(deadline_s=0.5) as search:
        facts = Facts(
            case=Case(eval_id="one", prompt="p", checks=checks),
            record=record,
            verification=None,
            load_file=lambda path: None,
            load_blocks=tuple,
            regex=search,
        )
        results = check_facts(facts)
    assert [result.status for result in results] == [CheckStatus.NOT_RUN, CheckStatus.NOT_RUN, CheckStatus.PASSED]
