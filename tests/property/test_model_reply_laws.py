"""Whatever a model writes: a value comes from exactly one well-formed JSON object, or there is none (J13)."""

from __future__ import annotations

import json
import math
from typing import Any

from hypothesis import example, given, settings
from hypothesis import strategies as st

from gate.domain.chat import ChatRequest, Finish, Message, Role
from gate.domain.evidence import Block, Tier
from gate.llm.ledger import Ledger
from gate.llm.prompting import Fence
from gate.llm.replies import Asked, ReplyProblem, ask, find_object
from gate.settings import Caps
from tests.fakes.chat import ScriptedChat, say

PIECES = st.sampled_from(
    [
        "{", "}", "[", "]", ",", ":", '"', "\\", "\n", " ", "```", "```json\n", "\n```", "~~~", "<think>", "</think>",
        '{"passed": true}', '{"passed": false}', '{"passed": true, "passed": false}', '{"passed": NaN}', '"passed"',
        "true", "false", "null", "1e999", "NaN", "PASS", "not passed", '{"rows": [', '{"a": {"b": "}"}}', "\ufeff", "\x00",
    ]
)  # fmt: skip
TEXTS = st.one_of(st.text(), st.lists(PIECES, max_size=12).map("".join))
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=12,
)
OBJECTS = st.dictionaries(st.text(), JSON, max_size=4)


def strict(text: str) -> list[dict[str, Any]]:
    """Every complete JSON object that begins anywhere in ``text``, outermost first, by the standard library alone."""
    found, position = [], 0
    decoder = json.JSONDecoder()
    while (position := text.find("{", position)) >= 0:
        try:
            value, end = decoder.raw_decode(text, position)
        except (ValueError, RecursionError):
            position += 1
            continue
        found.append(value)
        position = end
    return found


def has_bad_number(value: Any) -> bool:
    if isinstance(value, float):
        return not math.isfinite(value)
    if isinstance(value, dict):
        return any(has_bad_number(item) for item in value.values())
    return isinstance(value, list) and any(has_bad_number(item) for item in value)


def asked_with(*texts: str, finish: Finish = Finish.STOP) -> Asked[bool]:
    def parse(value: dict[str, Any]) -> bool:
        if set(value) != {"passed"} or not isinstance(value["passed"], bool):
            raise ReplyProblem("not as asked for")
        return value["passed"]

    request = ChatRequest(label="s/x", system="", messages=(Message(role="user", text="?"),))
    chat = ScriptedChat([say(text, finish=finish) for text in texts])
    return ask(chat, request, parse, role=Role.GRADER, ledger=Ledger(Caps(), lambda *_: None))


@settings(max_examples=1500)
@given(TEXTS)
@example('{"rows": [{"passed": true}, {"pas')
@example('{"passed": true} {"passed"')
def test_an_object_that_is_found_is_the_only_one_in_the_text(text: str) -> None:
    try:
        found = find_object(text)
    except ReplyProblem:
        return
    rest = text.partition("</think>")[2] if text.lstrip().lstrip("\ufeff").lstrip().startswith("<think>") else text
    assert strict(rest) == [found.value]
    assert not has_bad_number(found.value)
    assert rest.count("{") - json.dumps(found.value, ensure_ascii=False).count("{") == 0


@settings(max_examples=800)
@given(
    st.lists(TEXTS, min_size=2, max_size=2), st.sampled_from([Finish.STOP, Finish.OTHER, Finish.LENGTH, Finish.REFUSAL])
)
def test_an_answer_is_a_real_boolean_from_one_object_or_there_is_none(texts: list[str], finish: Finish) -> None:
    asked = asked_with(*texts, finish=finish)
    tiers = [item.kind for item in asked.fallbacks if item.kind.startswith("reply_")]
    assert len(tiers) == 1
    if asked.value is None:
        assert asked.tier in ("invalid", "refused", "truncated")
        assert tiers == ["reply_invalid"]
    else:
        assert finish in (Finish.STOP, Finish.OTHER)
        assert asked.text in texts
        assert any(value == {"passed": asked.value} for value in strict(asked.text))


@settings(max_examples=300)
@given(OBJECTS, st.sampled_from(["{}", "```json\n{}\n```", "Verdict follows.\n\n{}\n", "<think>hm</think>{}"]))
def test_any_single_object_is_found_whole(value: dict[str, Any], around: str) -> None:
    text = around.replace("{}", json.dumps(value))
    if around.startswith("<think>") and "think>" in json.dumps(value):
        return
    assert find_object(text).value == value


@settings(max_examples=300)
@given(OBJECTS, st.integers(min_value=1))
def test_a_cut_off_object_is_never_found(value: dict[str, Any], cut: int) -> None:
    text = json.dumps(value)
    cut_text = text[: max(1, len(text) - 1 - cut % len(text))]
    try:
        find_object(cut_text)
    except ReplyProblem:
        return
    raise AssertionError(cut_text)


@settings(max_examples=300)
@given(OBJECTS, OBJECTS, st.sampled_from(["", "\n", " and ", ", ", "```\n```"]))
def test_of_two_objects_none_is_taken(one: dict[str, Any], two: dict[str, Any], between: str) -> None:
    try:
        find_object(json.dumps(one) + between + json.dumps(two))
    except ReplyProblem:
        return
    raise AssertionError("one of two objects was taken")


FENCE = Fence("00ff00ff00ff00ff")
HOSTILE = st.one_of(
    st.text(),
    st.lists(
        st.sampled_from(
            ["⟦", "⟧", "begin ", "end ", "00ff00ff00ff00ff", "00FF", "00ff", "\u200b", "\r", "\n", "\r\n", "\u2028",
             "\x85", "<|", "<", "|", "\uff5c", "[INST]", "[", "/INST]", "B001:1|", "\ud800", "\U000e0041", "x"]
        ),
        max_size=20,
    ).map("".join),
)  # fmt: skip


@settings(max_examples=600)
@given(HOSTILE)
def test_escaping_twice_is_escaping_once(text: str) -> None:
    once = FENCE.escape(text)
    assert FENCE.escape(once) == once


@settings(max_examples=600)
@given(HOSTILE, HOSTILE)
def test_a_fence_is_closed_by_its_own_end_only_and_lines_keep_their_ids(title: str, text: str) -> None:
    block = Block(id="B007", tier=Tier.OUTPUT, kind="response", title=title, text=text)
    shown = FENCE.numbered(block)
    lines = shown.splitlines()
    assert shown.count("⟦") == shown.count("⟧") == 2
    assert shown.lower().count(FENCE.nonce) == 2
    assert lines == shown.split("\n")
    assert [line.partition("|")[0] for line in lines[1:-1]] == [
        f"B007:{number}" for number in range(1, text.count("\n") + 2)
    ]
    shown.encode("utf-8")
