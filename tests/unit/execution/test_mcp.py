from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gate.domain.suite import McpCall, McpResponse, McpServer, McpTool, McpWhen
from gate.execution import mcp
from gate.execution.mcp import MAX_CALLS, MockMcp

NAME = "mcp__tickets__search"
SCHEMA = {"type": "object", "required": ["q"], "properties": {"q": {"type": "string"}}, "additionalProperties": False}


def _mock(*responses: McpResponse, **tool: Any) -> MockMcp:
    return MockMcp([McpServer(name="tickets", tools=(McpTool(name="search", responses=responses, **tool),))])


def _answer(condition: McpWhen, value: Any, *, name: str = "q") -> bool:
    """Whether a response with this condition answers a call with this value."""
    answer = _mock(McpResponse(when={name: condition}, text="yes"), on_unmatched="empty").call(NAME, {"q": value})
    return answer.text == "yes"


def test_tools_are_offered_under_the_name_of_their_server() -> None:
    mock = _mock(input_schema=SCHEMA, description="Search tickets")
    assert [(tool.name, tool.description) for tool in mock.specs()] == [(NAME, "Search tickets")]
    assert NAME in mock
    assert "search" not in mock


def test_the_first_response_that_fits_answers_and_falls_through_when_used_up() -> None:
    mock = _mock(
        McpResponse(when={"q": McpWhen(contains="refund")}, times=2, structured={"ids": [7, 9]}),
        McpResponse(text="nothing more"),
    )
    answers = [mock.call(NAME, {"q": "a refund"}).text for _ in range(3)]
    assert answers == ['{"ids": [7, 9]}', '{"ids": [7, 9]}', "nothing more"]


def test_the_state_of_one_run_is_unknown_to_the_next() -> None:
    server = McpServer(
        name="tickets",
        tools=(
            McpTool(name="search", responses=(McpResponse(times=1, text="first"), McpResponse(text="no such item"))),
        ),
    )
    one, other = MockMcp([server]), MockMcp([server])
    assert [one.call(NAME, {}).text, one.call(NAME, {}).text] == ["first", "no such item"]
    assert other.call(NAME, {}).text == "first"


@pytest.mark.parametrize(
    ("condition", "value", "fits"),
    [
        (McpWhen(equals="7"), "7", True),
        (McpWhen(equals="7"), 7, False),
        (McpWhen(equals=1), True, False),
        (McpWhen(equals=True), True, True),
        (McpWhen(equals=7), 7.0, True),
        (McpWhen(equals={"a": [1, True]}), {"a": [1, True]}, True),
        (McpWhen(equals={"a": [1, True]}), {"a": [1, 1]}, False),
        (McpWhen(equals=None), None, True),
        (McpWhen(equals=None), "None", False),
        (McpWhen(contains="b"), "abc", True),
        (McpWhen(contains="b"), ["a", "b"], True),
        (McpWhen(contains="b"), 5, False),
        (McpWhen(regex="^a.c$"), "abc", True),
        (McpWhen(regex="^a.c$"), "abcd", False),
        (McpWhen(regex="7"), 7, False),
        (McpWhen(regex="a+"), "caaat", True),
        (McpWhen(any=True), None, True),
        (McpWhen(absent=True), 5, False),
    ],
)
def test_a_condition_holds_for_exactly_what_it_says(condition: McpWhen, value: Any, fits: bool) -> None:
    assert _answer(condition, value) is fits


def test_conditions_reach_into_nested_arguments_and_see_what_is_absent() -> None:
    assert _answer(McpWhen(equals="x"), {"user": {"id": "x"}}, name="q.user.id")
    assert not _answer(McpWhen(any=True), {"user": {}}, name="q.user.id")
    assert _answer(McpWhen(absent=True), {"user": {}}, name="q.user.id")


def test_arguments_are_checked_before_anything_is_matched_and_use_nothing_up() -> None:
    mock = _mock(McpResponse(times=1, text="found"), input_schema=SCHEMA)
    wrong = mock.call(NAME, {"query": "x"})
    assert wrong.is_error
    assert wrong.gap is None
    assert "'q' is a required property" in wrong.text
    assert mock.call(NAME, {"q": "x"}).text == "found"


def test_a_call_that_the_fixture_does_not_know_is_a_gap_and_is_never_answered_with_data() -> None:
    answer = _mock(McpResponse(when={"q": McpWhen(equals="a")}, text="secret")).call(NAME, {"q": "b"})
    assert answer.is_error
    assert "secret" not in answer.text
    assert answer.gap == f'fixture gap: {NAME} was called with {{"q": "b"}} and no response of the fixture fits'


def test_a_fixture_may_say_that_an_unknown_call_fails_the_case_or_finds_nothing() -> None:
    failed = _mock(on_unmatched="fail_case").call(NAME, {})
    assert failed.gap is None
    assert failed.fails == f"{NAME} was called with {{}}, which fails this case"
    empty = _mock(on_unmatched="empty").call(NAME, {})
    assert (empty.text, empty.is_error, empty.gap, empty.fails) == ("", False, None, None)


def test_an_agent_that_goes_round_in_circles_gets_no_more_answers() -> None:
    mock = _mock(McpResponse(text="again"))
    answers = [mock.call(NAME, {}) for _ in range(MAX_CALLS + 1)]
    assert not answers[-2].is_error
    assert answers[-1].is_error
    assert "too many calls" in answers[-1].text


@pytest.fixture
def _short_deadline(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(mcp, "DEADLINE_S", 1.5)


@pytest.mark.usefixtures("_short_deadline")
def test_a_pattern_that_never_ends_is_a_gap_of_the_fixture() -> None:
    answer = _mock(McpResponse(when={"q": McpWhen(regex="(a+)+$")}, text="x")).call(NAME, {"q": "a" * 40 + "b"})
    assert answer.gap is not None
    assert "was not done within" in answer.gap


@pytest.mark.usefixtures("_short_deadline")
def test_a_schema_that_never_ends_is_a_gap_of_the_fixture() -> None:
    step = {f"s{n}": {"allOf": [{"$ref": f"#/$defs/s{n + 1}"}] * 2} for n in range(40)}
    schema = {"type": "object", "$ref": "#/$defs/s0", "$defs": {**step, "s40": {}}}
    answer = _mock(McpResponse(text="x"), input_schema=schema).call(NAME, {})
    assert answer.gap is not None
    assert "its input schema cannot be used" in answer.gap


@pytest.mark.parametrize(
    "schema",
    [
        {"type": "objekt"},
        {"properties": {"q": {"$ref": "http://127.0.0.1:9/schema.json"}}},
        {"properties": {"q": {"$ref": "file:///etc/passwd"}}},
        {"properties": {"q": {"pattern": "("}}},
        {"$ref": "#"},
    ],
)
def test_a_schema_that_is_none_or_points_elsewhere_is_a_gap_and_nothing_is_fetched(schema: dict[str, Any]) -> None:
    answer = _mock(McpResponse(text="x"), input_schema=schema).call(NAME, {"q": "y"})
    assert answer.is_error
    assert answer.gap is not None
    assert "its input schema cannot be used" in answer.gap


def test_a_schema_that_points_to_a_file_of_this_machine_is_not_followed(tmp_path: Path) -> None:
    (tmp_path / "any.json").write_text("{}")
    schema = {"properties": {"q": {"$ref": (tmp_path / "any.json").as_uri()}}}
    answer = _mock(McpResponse(text="x"), input_schema=schema).call(NAME, {"q": "y"})
    assert answer.gap is not None
    assert "its input schema cannot be used" in answer.gap


def test_a_pattern_in_a_schema_is_kept_to() -> None:
    mock = _mock(McpResponse(text="x"), input_schema={"type": "object", "properties": {"q": {"pattern": "^[a-z]+$"}}})
    assert mock.call(NAME, {"q": "abc"}).text == "x"
    assert mock.call(NAME, {"q": "ABC"}).is_error


_JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    max_leaves=8,
)


@given(_JSON)
def test_every_json_value_equals_what_it_reads_back_as(value: Any) -> None:
    assert mcp._equal(value, json.loads(json.dumps(value)))


def test_what_was_not_made_in_this_run_is_unknown_in_it() -> None:
    made = McpResponse(structured={"id": 7})
    found = McpResponse(when={"id": McpWhen(equals=7)}, after="create", text="ticket 7")
    tools = (
        McpTool(name="create", responses=(made,)),
        McpTool(name="get", responses=(found, McpResponse(text="no such ticket", is_error=True))),
    )
    server = McpServer(name="tickets", tools=tools)
    one, other = MockMcp([server]), MockMcp([server])
    one.call("mcp__tickets__create", {})
    assert one.call("mcp__tickets__get", {"id": 7}).text == "ticket 7"
    assert other.call("mcp__tickets__get", {"id": 7}) == mcp.McpAnswer("no such ticket", is_error=True)


def test_a_replay_gives_each_recorded_call_back_once_and_a_further_one_is_a_gap() -> None:
    calls = (
        McpCall(tool="search", arguments={"q": "a"}, text="first"),
        McpCall(tool="search", arguments={"q": "b"}, structured=[1]),
        McpCall(tool="search", arguments={"q": "a"}, text="then", is_error=True),
    )
    server = McpServer(name="tickets", mode="replay", tools=(McpTool(name="search"),), cassette=calls)
    replay, other = MockMcp([server]), MockMcp([server])
    answers = [replay.call(NAME, {"q": query}) for query in ("a", "a", "b")]
    assert [(answer.text, answer.is_error) for answer in answers] == [("first", False), ("then", True), ("[1]", False)]
    again = replay.call(NAME, {"q": "a"})
    assert again.gap is not None
    assert "the cassette holds no such call" in again.gap
    assert other.call(NAME, {"q": "a"}).text == "first"


@pytest.mark.parametrize(
    ("fault", "words", "is_error"),
    [
        ("protocol_error", "-32603", True),
        ("timeout", "no answer in time", True),
        ("disconnect", "connection to the server was lost", True),
    ],
)
def test_a_fault_of_the_fixture_is_an_answer_of_the_server_and_no_gap(fault: Any, words: str, is_error: bool) -> None:
    mock = _mock(McpResponse(fault=fault, times=1), McpResponse(text="fine"))
    answer = mock.call(NAME, {"q": "x"})
    assert (words in answer.text, answer.is_error, answer.gap) == (True, is_error, None)
    assert answer.timed_out is (fault == "timeout")
    later = mock.call(NAME, {"q": "x"})
    assert later.text == ("the server is not connected" if fault == "disconnect" else "fine")


def test_an_oversized_answer_is_cut_on_its_way_to_the_model_and_its_true_size_is_recorded() -> None:
    from tests.builders_skill import a_case
    from tests.fakes.chat import ScriptedChat, use
    from tests.unit.execution.world import a_request, run_loop

    tools = (McpTool(name="search", responses=(McpResponse(fault="oversized"),)),)
    request = a_request(case=a_case(mcp_servers=(McpServer(name="tickets", tools=tools),)))
    _, log = run_loop(ScriptedChat([use(NAME, {}), "Done."]), request)
    [result] = log.of("tool_result")
    assert (result["total_bytes"], result["truncated"]) == (mcp.OVERSIZED, True)
    assert len(result["text"]) < 31_000
