from __future__ import annotations

import re

from hypothesis import example, given
from hypothesis import strategies as st

from gate.domain.checks import ToolCallOrder
from gate.judging.ground_truth.normalising import normalise
from gate.judging.ground_truth.wildcards import path_matches
from tests.property.test_check_laws import calls_of, record_of, statuses

NAMES = st.text(alphabet="ab/", max_size=8)
PATTERNS = st.text(alphabet="ab/*?", max_size=8)
TEXTS = st.text(alphabet="aA \t\r\n\ufeffé", max_size=20)
RULES = st.lists(
    st.sampled_from(("line_endings", "trailing_space", "blank_lines", "whitespace", "outer_space", "case", "bom")),
    unique=True,
)


@given(name=NAMES, pattern=PATTERNS)
def test_a_path_pattern_means_what_its_regular_expression_means(name: str, pattern: str) -> None:
    if not ("*" in pattern or "?" in pattern):
        assert path_matches(name, pattern) is (name == pattern)
        return
    one = "".join({"*": "[^/]*", "?": "[^/]"}.get(sign, re.escape(sign)) for sign in pattern)
    parts = ["(?:.*)" if part == "**" else part for part in pattern.split("/")]
    if "(?:.*)" not in parts:
        assert path_matches(name, pattern) is (re.fullmatch(one, name) is not None)
    elif set(parts) == {"(?:.*)"}:
        assert path_matches(name, pattern)


# A mark within the text is another character's business: what is white space beside it depends on the order.
@given(text=TEXTS.filter(lambda text: "\ufeff" not in text), rules=RULES)
@example(text=" \r ", rules=["trailing_space"])
@example(text="\x0c", rules=["whitespace", "trailing_space"])
def test_what_is_overlooked_is_overlooked_once_and_for_all_and_in_any_order(text: str, rules: list[str]) -> None:
    once = normalise(text, rules)
    assert normalise(once, rules) == once or "bom" in rules  # a second mark would be another character's business
    assert normalise(text, list(reversed(rules))) == once


@given(
    made=st.lists(st.sampled_from("abc"), max_size=8), order=st.lists(st.sampled_from("abc"), min_size=2, max_size=4)
)
def test_an_order_is_found_exactly_where_it_is_a_subsequence(made: list[str], order: list[str]) -> None:
    rest = iter(made)
    expected = all(tool in rest for tool in order)
    record = record_of(calls=calls_of(made))
    (found,) = statuses(record, ToolCallOrder(order=tuple(order)))
    assert (found.value == "passed") is expected
    (adjacent,) = statuses(record, ToolCallOrder(order=tuple(order), mode="adjacent"))
    assert (adjacent.value == "passed") is ("".join(order) in "".join(made))
