from __future__ import annotations

import json
import re
import unicodedata
from collections.abc import Callable
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from gate.domain.base import sha256_hex
from gate.domain.checks import (
    ArgsField,
    Check,
    CheckParameters,
    FileContains,
    FileExists,
    JsonField,
    ResponseContains,
    ResponseMatches,
    ResponseNotContains,
    ResponseNotMatches,
    ResponseWordCount,
    ToolCallCount,
)
from gate.domain.evidence import CollectedFile, Metrics, Outcome, RunRecord, ToolCall
from gate.domain.judgement import CheckStatus
from gate.domain.plan import Arm, RunKey
from gate.domain.skill import SkillType
from gate.domain.suite import Case
from gate.judging.ground_truth.facts import Facts
from gate.judging.ground_truth.regex import RegexSearch
from gate.judging.ground_truth.response_word_count import count_words
from gate.judging.ground_truth.run import check_facts
from gate.judging.ground_truth.values import at, path_steps, same, strict_json

TEXT = st.text(alphabet=st.characters(codec="utf-8"), max_size=60)
SHORT = st.text(alphabet="ab \n.(", min_size=1, max_size=4)
JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-3, 3) | st.floats(allow_nan=False, allow_infinity=False) | TEXT,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXT, inner, max_size=3),
    max_leaves=8,
)
TOOLS = st.lists(st.sampled_from(("save", "saveV2", "sav", "load")), max_size=8)


def record_of(
    response: str | None = "text",
    calls: tuple[ToolCall, ...] = (),
    files: tuple[CollectedFile, ...] = (),
    outcome: Outcome = Outcome.COMPLETED,
) -> RunRecord:
    return RunRecord(
        key=RunKey(skill_path="skills/a", slug="a", eval_id="one", run=1, arm=Arm.WITH_SKILL),
        purpose="planned",
        skill_type=SkillType.CODE_EXECUTION,
        outcome=outcome,
        reason="",
        calls=calls,
        response=response,
        files=files,
        metrics=Metrics(),
        usage=None,
        model="m",
        image="i",
        run_date="2026-01-31",
        chain_head="",
        seal="",
    )


def statuses(
    record: RunRecord, *given_: CheckParameters, load: Callable[[str], bytes | None] = lambda path: None
) -> list[CheckStatus]:
    checks = tuple(Check(id=f"c{number}", parameters=item) for number, item in enumerate(given_, 1))
    with RegexSearch() as regex:
        facts = Facts(
            case=Case(eval_id="one", prompt="p", checks=checks),
            record=record,
            verification=None,
            load_file=load,
            load_blocks=tuple,
            regex=regex,
        )
        return [result.status for result in check_facts(facts)]


def calls_of(tools: list[str], args: list[dict[str, Any]] | None = None) -> tuple[ToolCall, ...]:
    return tuple(
        ToolCall(
            step=number, call_id=str(number), tool=tool, args=(args or [{}] * len(tools))[number - 1], status="success"
        )
        for number, tool in enumerate(tools, 1)
    )


@given(response=st.text(alphabet="ab \n.(c", max_size=30), keyword=SHORT, ignore_case=st.booleans())
def test_exactly_one_of_contains_and_not_contains_passes_where_there_is_a_response(
    response: str, keyword: str, ignore_case: bool
) -> None:
    got = statuses(
        record_of(response),
        ResponseContains(keyword=keyword, ignore_case=ignore_case),
        ResponseNotContains(pattern=keyword, ignore_case=ignore_case),
    )
    if response.strip():
        assert sorted(got) == [CheckStatus.FAILED, CheckStatus.PASSED]
        assert (got[0] is CheckStatus.PASSED) is (keyword in response)
    else:
        assert got == [CheckStatus.NOT_RUN, CheckStatus.NOT_RUN]


@given(response=TEXT.filter(str.strip), keyword=TEXT.filter(bool))
def test_a_literal_found_by_search_is_a_literal_found_by_its_escaped_pattern(response: str, keyword: str) -> None:
    response, keyword = (unicodedata.normalize("NFC", text.replace("\r\n", "\n")) for text in (response, keyword))
    got = statuses(
        record_of(response),
        ResponseContains(keyword=keyword),
        ResponseMatches(pattern=re.escape(keyword)),
        ResponseNotMatches(pattern=re.escape(keyword)),
    )
    assert got[0] is got[1]
    assert got[2] is not got[1]


@given(tools=TOOLS, wanted=st.integers(0, 9))
def test_a_count_is_the_count_and_bounds_agree_with_it(tools: list[str], wanted: int) -> None:
    number = tools.count("save")
    exact, least, most = statuses(
        record_of(calls=calls_of(tools)),
        ToolCallCount(tool="save", expected_count=wanted),
        ToolCallCount(tool="save", min=wanted),
        ToolCallCount(tool="save", max=wanted),
    )
    assert (exact is CheckStatus.PASSED) is (number == wanted)
    assert (least is CheckStatus.PASSED) is (number >= wanted)
    assert (most is CheckStatus.PASSED) is (number <= wanted)


@given(tools=TOOLS, others=TOOLS, order=st.randoms(use_true_random=False))
def test_calls_of_other_tools_in_any_order_change_no_count(tools: list[str], others: list[str], order: Any) -> None:
    extra = [tool for tool in others if tool != "save"]
    mixed = [*tools, *extra]
    order.shuffle(mixed)
    check = ToolCallCount(tool="save", expected_count=2)
    assert statuses(record_of(calls=calls_of(tools)), check) == statuses(record_of(calls=calls_of(mixed)), check)


@given(values=st.lists(st.integers(0, 2), max_size=5), wanted=st.integers(0, 2))
def test_all_implies_any_and_any_is_some_nth(values: list[int], wanted: int) -> None:
    record = record_of(calls=calls_of(["save"] * len(values), [{"id": value} for value in values]))
    some, every, *nth = (
        status is CheckStatus.PASSED
        for status in statuses(
            record,
            ArgsField(tool="save", field="id", expected=wanted),
            ArgsField(tool="save", field="id", expected=wanted, which="all"),
            *(ArgsField(tool="save", field="id", expected=wanted, which=number) for number in range(1, 7)),
        )
    )
    assert some is (wanted in values)
    assert every is (bool(values) and set(values) == {wanted})
    assert some is any(nth)


@given(value=JSON)
def test_a_value_is_the_same_as_itself_read_back_and_never_as_its_text(value: Any) -> None:
    assert same(value, json.loads(json.dumps(value)))
    assert same(value, strict_json(json.dumps(value)))
    assert not same(value, json.dumps(value))
    if not isinstance(value, bool):
        assert not same(value, True)


@given(one=JSON, other=JSON)
def test_being_the_same_is_symmetric_and_agrees_with_canonical_text(one: Any, other: Any) -> None:
    assert same(one, other) is same(other, one)
    if json.dumps(one, sort_keys=True) == json.dumps(other, sort_keys=True):
        assert same(one, other)


@given(value=JSON, keys=st.lists(TEXT | st.integers(0, 3), min_size=1, max_size=4))
def test_a_quoted_path_leads_to_what_was_put_there(value: Any, keys: list[str | int]) -> None:
    whole = value
    for key in reversed(keys):
        whole = [None] * key + [whole] if isinstance(key, int) else {key: whole}
    path = "".join(f"[{key}]" if isinstance(key, int) else f"[{json.dumps(key)}]" for key in keys)
    assert path_steps(path) == keys
    assert at(whole, path_steps(path)) == (True, value)


@settings(max_examples=200)
@given(text=st.text(max_size=40))
def test_a_field_path_is_read_or_refused_and_json_is_read_or_refused(text: str) -> None:
    record = record_of(response=text or "x", calls=calls_of(["save"], [{"a": {"b": [1]}}]))
    got = statuses(
        record,
        ArgsField.model_construct(kind="args_field", tool="save", field=text, expected=1, which="any"),
        JsonField(path="response", field="a", expected=1),
        ToolCallCount(tool=text or "x", min=0),
        FileExists(path=text or "x"),
    )
    assert CheckStatus.INFRA not in got
    assert got[3] is not CheckStatus.PASSED


@given(parts=st.lists(st.text(alphabet="ab你 -'.1,", max_size=12), max_size=5))
def test_words_of_lines_add_up(parts: list[str]) -> None:
    assert count_words("\n".join(parts)) == sum(count_words(part) for part in parts)


@given(text=st.text(alphabet="ab你 ", max_size=30).filter(str.strip))
def test_a_word_count_is_between_its_own_bounds_and_no_others(text: str) -> None:
    words = len(re.findall(r"你|[ab]+", text))
    got = statuses(
        record_of(text),
        ResponseWordCount(min=words, max=words),
        ResponseWordCount(min=words + 1),
        ResponseWordCount(max=max(words - 1, 0)),
    )
    assert got == [CheckStatus.PASSED, CheckStatus.FAILED, CheckStatus.FAILED]


@given(data=st.binary(max_size=30), fixture=st.sampled_from(("new", "changed", "unchanged")), kept=st.booleans())
def test_a_file_counts_as_produced_exactly_where_it_is_not_the_unchanged_fixture(
    data: bytes, fixture: Any, kept: bool
) -> None:
    file = CollectedFile(path="a.txt", size_bytes=len(data), sha256=sha256_hex(data), kept=kept, fixture=fixture)
    exists, contains = statuses(
        record_of(files=(file,)), FileExists(path="a.txt"), FileContains(path="a.txt", text="a"), load=lambda path: data
    )
    assert (exists is CheckStatus.PASSED) is (fixture != "unchanged")
    if not kept:
        assert contains is CheckStatus.NOT_RUN


@given(outcome=st.sampled_from([item for item in Outcome if item is not Outcome.COMPLETED]), tools=TOOLS, response=TEXT)
def test_a_run_that_did_not_complete_passes_no_check_at_all(outcome: Outcome, tools: list[str], response: str) -> None:
    record = record_of(response or None, calls_of(tools), outcome=outcome)
    got = statuses(
        record,
        ToolCallCount(tool="save", min=0),
        ToolCallCount(tool="gone", max=0),
        ResponseNotContains(pattern="\x00never"),
        ResponseWordCount(min=0),
    )
    assert CheckStatus.PASSED not in got
    assert (CheckStatus.INFRA in got) is (not outcome.agent_caused)
