from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from gate.domain.base import Severity
from gate.domain.checks import (
    CHECK_KINDS,
    ArgsField,
    Check,
    CheckParameters,
    Command,
    CommandRan,
    FileContains,
    FileExists,
    JsonField,
    ResponseContains,
    ResponseHasHeading,
    ResponseMatches,
    ResponseNotContains,
    ResponseNotMatches,
    ResponseWordCount,
    RunBudget,
    ToolCallCount,
    ToolCallOrder,
    ToolCallStatus,
    ToolResultContains,
)
from gate.domain.evidence import CommandResult, Outcome, RunRecord, Verification
from gate.domain.judgement import CheckResult, CheckStatus
from gate.domain.suite import Case, McpServer, McpTool
from gate.errors import EvidenceError
from gate.judging.ground_truth import check_run
from gate.judging.ground_truth.run import EVALUATORS, RECORDED
from tests.builders_judging import Call, a_run

PASSED, FAILED, NOT_RUN, INFRA = CheckStatus.PASSED, CheckStatus.FAILED, CheckStatus.NOT_RUN, CheckStatus.INFRA


def one(
    root: Path,
    record: RunRecord,
    parameters: CheckParameters,
    *,
    verification: Verification | None = None,
    servers: Sequence[McpServer] = (),
) -> CheckResult:
    case = Case(
        eval_id="one", prompt="Do it.", checks=(Check(id="c1", parameters=parameters),), mcp_servers=tuple(servers)
    )
    (result,) = check_run(case, record, root, verification)
    return result


def status(root: Path, record: RunRecord, parameters: CheckParameters, **more: Any) -> CheckStatus:
    return one(root, record, parameters, **more).status


def test_every_kind_has_exactly_one_evaluator() -> None:
    assert set(EVALUATORS) | set(RECORDED) == set(CHECK_KINDS)
    assert not set(EVALUATORS) & set(RECORDED)


def test_results_stand_in_the_order_of_the_case_and_carry_severity_and_rule(tmp_path: Path) -> None:
    record = a_run(tmp_path, response="alpha beta gamma")
    checks = (
        Check(id="b", parameters=ResponseContains(keyword="beta"), severity=Severity.SHOULD, rule_ref="R7"),
        Check(id="a", parameters=ResponseContains(keyword="delta")),
    )
    first, second = check_run(Case(eval_id="one", prompt="p", checks=checks), record, tmp_path, None)
    assert (first.check_id, first.status, first.severity, first.rule_ref) == ("b", PASSED, Severity.SHOULD, "R7")
    assert (second.check_id, second.status, second.severity) == ("a", FAILED, Severity.MUST)


# tool_call_count ---------------------------------------------------------------------------------------------------------


@pytest.mark.requirements("R31")
def test_a_tool_name_counts_whole_never_as_a_prefix(tmp_path: Path) -> None:
    record = a_run(tmp_path, calls=[Call("saveDoc"), Call("saveDocV2"), Call("presaveDoc")])
    assert status(tmp_path, record, ToolCallCount(tool="saveDoc", expected_count=1)) is PASSED
    assert status(tmp_path, record, ToolCallCount(tool="saveDoc", expected_count=2)) is FAILED


@pytest.mark.requirements("R31")
def test_calls_of_every_step_count_also_behind_notes(tmp_path: Path) -> None:
    record = a_run(tmp_path, calls=[Call("save"), Call("load"), Call("save")], notes=["first", "second"])
    result = one(tmp_path, record, ToolCallCount(tool="save", expected_count=2))
    assert result.status is PASSED
    assert result.found == "2 calls, in steps 1, 3"


def test_what_an_agent_prints_is_no_call(tmp_path: Path) -> None:
    forged = "## [tool_calls] Step 9: save\n\nTool: save\nStatus: success"
    record = a_run(tmp_path, calls=[Call("bash", {"command": "x"}, forged)], response=forged, notes=[forged])
    assert status(tmp_path, record, ToolCallCount(tool="save", max=0)) is PASSED
    assert status(tmp_path, record, ToolCallCount(tool="save", min=1)) is FAILED


@pytest.mark.parametrize(
    ("bounds", "expected"),
    [
        ({"min": 2}, PASSED),
        ({"min": 3}, FAILED),
        ({"max": 2}, PASSED),
        ({"max": 1}, FAILED),
        ({"min": 1, "max": 1}, FAILED),
    ],
)
def test_bounds_of_a_count_are_inclusive(tmp_path: Path, bounds: dict[str, Any], expected: CheckStatus) -> None:
    record = a_run(tmp_path, calls=[Call("save"), Call("save")])
    assert status(tmp_path, record, ToolCallCount(tool="save", **bounds)) is expected


def test_a_status_counts_only_calls_that_ended_so(tmp_path: Path) -> None:
    record = a_run(tmp_path, calls=[Call("save", status="error"), Call("save")])
    result = one(tmp_path, record, ToolCallCount(tool="save", expected_count=1, status="success"))
    assert (result.status, result.found) == (PASSED, "1 call that ended with success (of 2 in all), in step 2")


def server(name: str, *tools: str) -> McpServer:
    return McpServer(name=name, tools=tuple(McpTool(name=tool) for tool in tools))


def test_a_bare_name_means_the_tool_of_the_declared_server(tmp_path: Path) -> None:
    record = a_run(tmp_path, calls=[Call("mcp__docs__saveDoc"), Call("mcp__docs__saveDocV2")])
    servers = [server("docs", "saveDoc", "saveDocV2")]
    assert status(tmp_path, record, ToolCallCount(tool="saveDoc", expected_count=1), servers=servers) is PASSED
    assert status(tmp_path, record, ToolCallCount(tool="saveDoc", max=0), servers=servers) is FAILED
    assert status(tmp_path, record, ToolCallCount(tool="mcp__docs__saveDoc", expected_count=1)) is PASSED


def test_a_forbidden_bare_name_is_seen_even_where_no_server_was_declared(tmp_path: Path) -> None:
    record = a_run(tmp_path, calls=[Call("mcp__docs__deleteDoc")])
    assert status(tmp_path, record, ToolCallCount(tool="deleteDoc", max=0)) is FAILED


def test_a_bare_name_of_two_servers_is_not_guessed(tmp_path: Path) -> None:
    record = a_run(tmp_path, calls=[Call("mcp__a__save")])
    result = one(
        tmp_path, record, ToolCallCount(tool="save", max=0), servers=[server("a", "save"), server("b", "save")]
    )
    assert result.status is NOT_RUN
    assert "mcp__a__save, mcp__b__save" in result.found


def test_a_call_names_its_block(tmp_path: Path) -> None:
    record = a_run(tmp_path, calls=[Call("load"), Call("save", {"id": 1})], notes=["a note comes first"])
    assert one(tmp_path, record, ToolCallCount(tool="save", min=1)).block == "B003"
    assert one(tmp_path, record, ArgsField(tool="save", field="id", expected=1)).block == "B003"


# args_field --------------------------------------------------------------------------------------------------------------


@pytest.mark.requirements("R32")
@pytest.mark.parametrize(
    ("value", "expected", "right"),
    [
        ("10", "10", True),
        (10, "10", False),
        ("10", 10, False),
        (1, True, False),
        (True, 1, False),
        (0, False, False),
        (None, None, True),
        (None, "", False),
        (1.0, 1, True),
        (1234567.89, 1234567.89, True),
        (1234567.89, 1234567.88, False),
        ({"a": [1, "1"]}, {"a": [1, "1"]}, True),
        ({"a": [1, "1"]}, {"a": ["1", 1]}, False),
        ({"a": 1, "b": 2}, {"a": 1}, False),
        ("Draft", "draft", False),
    ],
)
def test_values_are_compared_with_their_types(tmp_path: Path, value: Any, expected: Any, right: bool) -> None:
    record = a_run(tmp_path, calls=[Call("save", {"docStatus": value})])
    got = status(tmp_path, record, ArgsField(tool="save", field="docStatus", expected=expected))
    assert got is (PASSED if right else FAILED)


@pytest.mark.requirements("R32")
def test_any_looks_at_every_call_not_only_the_first(tmp_path: Path) -> None:
    record = a_run(tmp_path, calls=[Call("save", {"id": 1}), Call("save", {"id": 2})])
    result = one(tmp_path, record, ArgsField(tool="save", field="id", expected=2))
    assert (result.status, result.found) == (PASSED, "id = 2 in step 2; 1 of 2 calls match")


def test_all_needs_every_call_and_at_least_one(tmp_path: Path) -> None:
    record = a_run(tmp_path, calls=[Call("save", {"id": 1}), Call("save", {"id": 2}), Call("keep", {"id": 1})])
    assert status(tmp_path, record, ArgsField(tool="save", field="id", expected=1, which="all")) is FAILED
    assert status(tmp_path, record, ArgsField(tool="keep", field="id", expected=1, which="all")) is PASSED
    assert status(tmp_path, record, ArgsField(tool="gone", field="id", expected=1, which="all")) is FAILED


@pytest.mark.parametrize(("which", "expected"), [(1, FAILED), (2, PASSED), (3, FAILED), (0, NOT_RUN), (-1, NOT_RUN)])
def test_the_nth_call_is_counted_from_one_among_calls_of_that_tool(
    tmp_path: Path, which: int, expected: CheckStatus
) -> None:
    record = a_run(tmp_path, calls=[Call("other", {"id": 9}), Call("save", {"id": 1}), Call("save", {"id": 2})])
    assert status(tmp_path, record, ArgsField(tool="save", field="id", expected=2, which=which)) is expected


@pytest.mark.parametrize(
    ("field", "right"),
    [
        ("user.id", True),
        ("items[1].id", True),
        ('["a.b"].c', True),
        ("$.user.id", True),
        ("user.ID", False),
        ("items[9].id", False),
        ("items.id", False),
        ("user[0]", False),
    ],
)
def test_paths_lead_through_objects_and_lists(tmp_path: Path, field: str, right: bool) -> None:
    args = {"user": {"id": 7}, "items": [{"id": 0}, {"id": 7}], "a.b": {"c": 7}}
    record = a_run(tmp_path, calls=[Call("save", args)])
    got = status(tmp_path, record, ArgsField(tool="save", field=field, expected=7))
    assert got is (PASSED if right else FAILED)


@pytest.mark.parametrize("field", ["", "a..b", "a[", "a[x]", ".a", "a.", "[", "a[0]b"])
def test_a_path_that_is_none_is_said_not_guessed(tmp_path: Path, field: str) -> None:
    record = a_run(tmp_path, calls=[Call("save", {"a": {"b": 1}})])
    parameters = ArgsField.model_construct(tool="save", field=field, expected=1, which="any", kind="args_field")
    result = one(tmp_path, record, parameters)
    assert result.status is NOT_RUN
    assert "field path" in result.found


def test_arguments_that_are_no_object_match_nothing(tmp_path: Path) -> None:
    record = a_run(tmp_path, calls=[Call("save", None, raw_args='{"id": 1')])
    result = one(tmp_path, record, ArgsField(tool="save", field="id", expected=1))
    assert result.status is FAILED
    assert "not a JSON object" in result.found


@pytest.mark.requirements("R34")
def test_an_expected_value_may_be_computed_from_the_recorded_run_date(tmp_path: Path) -> None:
    record = a_run(tmp_path, calls=[Call("save", {"month": "2024-02", "day": ["4", "04"]})], run_date="2024-02-04")
    wanted = {"month": "{{run_date:%Y-%m}}", "day": ["{{ run_date:%-d}}", "{{run_date:%d}}"]}
    assert status(tmp_path, record, ArgsField(tool="save", field="month", expected=wanted["month"])) is PASSED
    assert status(tmp_path, record, ArgsField(tool="save", field="day", expected=wanted["day"])) is PASSED
    result = one(tmp_path, record, ArgsField(tool="save", field="month", expected="{{run_date:%Q}}"))
    assert (result.status, result.found) == (NOT_RUN, "%Q is no known part of a run_date format")


# response ----------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("response", [None, "", " \n\t"])
@pytest.mark.parametrize(
    "parameters",
    [
        ResponseContains(keyword="x"),
        ResponseNotContains(pattern="x"),
        ResponseMatches(pattern="x"),
        ResponseNotMatches(pattern="x"),
        ResponseWordCount(max=10),
        ResponseHasHeading(level=2),
        JsonField(path="response", field="a", expected=1),
    ],
    ids=lambda parameters: parameters.kind,
)
def test_an_absent_response_proves_nothing(tmp_path: Path, response: str | None, parameters: CheckParameters) -> None:
    outcome = Outcome.AGENT_FAILED if response is None else Outcome.COMPLETED
    record = a_run(tmp_path, response=response, outcome=outcome)
    assert one(tmp_path, record, parameters).status is NOT_RUN


def test_a_literal_is_a_literal_and_case_counts_unless_told_otherwise(tmp_path: Path) -> None:
    record = a_run(tmp_path, response="First line\nThe cost is $5.00 (net).")
    result = one(tmp_path, record, ResponseContains(keyword="$5.00 (net)"))
    assert (result.status, result.found) == (PASSED, 'line 2 of the response: "The cost is $5.00 (net)."')
    assert result.block == "B001"
    assert status(tmp_path, record, ResponseContains(keyword="the COST")) is FAILED
    assert status(tmp_path, record, ResponseContains(keyword="the COST", ignore_case=True)) is PASSED
    assert status(tmp_path, record, ResponseContains(keyword="f.rst")) is FAILED
    assert status(tmp_path, record, ResponseNotContains(pattern="f.rst")) is PASSED
    assert status(tmp_path, record, ResponseNotContains(pattern="THE cost", ignore_case=True)) is FAILED


def test_what_was_looked_for_without_regard_to_case_is_said_in_words_that_mean_only_that(tmp_path: Path) -> None:
    record = a_run(tmp_path, response="The cost")
    for parameters in (
        ResponseContains(keyword="x", ignore_case=True),
        ResponseNotContains(pattern="x", ignore_case=True),
    ):
        expected = one(tmp_path, record, parameters).expected
        assert expected is not None
        assert expected.endswith('"x" in the response, ignoring upper and lower case')


def test_the_same_letters_in_another_unicode_form_are_the_same_text(tmp_path: Path) -> None:
    record = a_run(tmp_path, response="cafe\u0301 au lait\r\nsecond")
    assert status(tmp_path, record, ResponseContains(keyword="caf\u00e9 au lait\nsecond")) is PASSED
    assert status(tmp_path, record, ResponseNotContains(pattern="caf\u00e9")) is FAILED


@pytest.mark.requirements("R33")
def test_a_pattern_is_searched_as_python_searches(tmp_path: Path) -> None:
    record = a_run(tmp_path, response="See https://x.example/doc/12\nand {fdId} here", run_date="2026-01-31")
    assert status(tmp_path, record, ResponseMatches(pattern=r"https://\S+/doc/\d+")) is PASSED
    assert status(tmp_path, record, ResponseNotMatches(pattern=r"\{[a-z]+Id\}")) is FAILED
    assert status(tmp_path, record, ResponseMatches(pattern=r"^and")) is FAILED
    assert status(tmp_path, record, ResponseMatches(pattern=r"(?m)^and")) is PASSED
    assert status(tmp_path, record, ResponseMatches(pattern=r"SEE", ignore_case=True)) is PASSED
    assert (
        one(tmp_path, record, ResponseMatches(pattern=r"\{fd\w+\}")).found
        == 'line 2 of the response: "and {fdId} here"'
    )


def test_a_computed_value_in_a_pattern_is_literal(tmp_path: Path) -> None:
    record = a_run(tmp_path, response="on 2026x01 it", run_date="2026-01-31")
    assert status(tmp_path, record, ResponseMatches(pattern="{{run_date:%Y.%m}}")) is FAILED


@pytest.mark.parametrize("parameters", [ResponseMatches(pattern="(a"), ResponseNotMatches(pattern="(a")])
def test_a_pattern_that_is_none_is_not_run_also_where_it_is_forbidden(
    tmp_path: Path, parameters: CheckParameters
) -> None:
    result = one(tmp_path, a_run(tmp_path, response="aaa"), parameters)
    assert result.status is NOT_RUN
    assert "not a regular expression" in result.found


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("one two  three", 3),
        ("don't, well-known: 1,000.50!", 3),
        ("你好 world", 3),
        ("使用API完成", 5),
        ("한국어 문장", 2),
        ("हिन्दी भाषा", 2),
        ("## Title\n- a_b * `c`", 3),
        ("--- *** |||", 0),
    ],
)
@pytest.mark.requirements("R87")
def test_words_are_counted_as_people_count_them(tmp_path: Path, text: str, words: int) -> None:
    record = a_run(tmp_path, response=text)
    assert one(tmp_path, record, ResponseWordCount(min=words, max=words)).status is PASSED
    assert one(tmp_path, record, ResponseWordCount(min=words + 1)).status is FAILED
    if words:
        assert one(tmp_path, record, ResponseWordCount(max=words - 1)).status is FAILED


MARKDOWN = "Intro\n\n## Known **risks**\n\n```\n## In code\n```\n\nSet\n---\n\n### Deep\n\n    ## indented code\n"


@pytest.mark.requirements("R86")
@pytest.mark.parametrize(
    ("level", "text", "expected"),
    [
        (2, None, PASSED),
        (1, None, FAILED),
        (2, "Known risks", PASSED),
        (2, "Known", FAILED),
        (2, "known risks", FAILED),
        (2, "In code", FAILED),
        (2, "indented code", FAILED),
        (2, "Set", PASSED),
        (2, "Deep", FAILED),
        (3, "Deep", PASSED),
    ],
)
def test_headings_are_markdown_headings(tmp_path: Path, level: int, text: str | None, expected: CheckStatus) -> None:
    record = a_run(tmp_path, response=MARKDOWN)
    assert status(tmp_path, record, ResponseHasHeading(level=level, text=text)) is expected


# files -------------------------------------------------------------------------------------------------------------------


def test_a_fixture_that_is_unchanged_was_not_produced(tmp_path: Path) -> None:
    files = {"new.md": b"n", "same.md": b"s", "edited.md": b"e2"}
    record = a_run(tmp_path, files=files, fixture={"same.md": b"s", "edited.md": b"e1"})
    assert status(tmp_path, record, FileExists(path="new.md")) is PASSED
    assert status(tmp_path, record, FileExists(path="./new.md")) is PASSED
    assert status(tmp_path, record, FileExists(path="/work/new.md")) is PASSED
    assert status(tmp_path, record, FileExists(path="edited.md")) is PASSED
    assert (
        one(tmp_path, record, FileExists(path="same.md")).found == "same.md was there from the start and is unchanged"
    )
    missing = one(tmp_path, record, FileExists(path="new"))
    assert (missing.status, missing.found) == (FAILED, "no such file; the run made or changed edited.md, new.md")


@pytest.mark.parametrize("path", ["../secret", "/etc/passwd", "a/../../b", "/work", "."])
def test_a_path_out_of_the_workspace_is_refused(tmp_path: Path, path: str) -> None:
    assert status(tmp_path, a_run(tmp_path), FileExists(path=path)) is NOT_RUN


def test_a_file_is_searched_for_a_text_or_a_pattern(tmp_path: Path) -> None:
    record = a_run(tmp_path, files={"out/r.csv": b"\xef\xbb\xbfid,total\r\n7,1250\r\n", "b.bin": b"\xff\xfe\x00"})
    assert status(tmp_path, record, FileContains(path="out/r.csv", text="id,total\n7")) is PASSED
    assert status(tmp_path, record, FileContains(path="out/r.csv", text="7,125 0")) is FAILED
    assert status(tmp_path, record, FileContains(path="out/r.csv", pattern=r"(?m)^\d+,\d+$")) is PASSED
    assert one(tmp_path, record, FileContains(path="out/r.csv", text="7,1250")).found == 'line 2 of out/r.csv: "7,1250"'
    assert one(tmp_path, record, FileContains(path="out/r.csv", text="7,1250")).block == "B002"
    missing = one(tmp_path, record, FileContains(path="r.csv", text="7"))
    assert (missing.status, missing.found) == (NOT_RUN, "r.csv is not there; the run made or changed b.bin, out/r.csv")
    assert status(tmp_path, record, FileContains(path="b.bin", text="x")) is NOT_RUN


def test_a_file_that_was_changed_after_the_run_is_an_error_not_a_result(tmp_path: Path) -> None:
    record = a_run(tmp_path, files={"r.txt": b"bad"})
    (tmp_path / record.key.folder / "workspace" / "r.txt").write_bytes(b"good")
    with pytest.raises(EvidenceError, match=r"r\.txt"):
        one(tmp_path, record, FileContains(path="r.txt", text="good"))


@pytest.mark.parametrize(
    ("text", "field", "expected", "result"),
    [
        ('{"a": {"b": [1, 2]}}', "a.b[1]", 2, PASSED),
        ('{"a": "1"}', "a", 1, FAILED),
        ('{"a": true}', "a", 1, FAILED),
        ('{"a": null}', "a", None, PASSED),
        ("{}", "a", None, FAILED),
        ('{"a": 1, "a": 2}', "a", 2, NOT_RUN),
        ('{"x": {"a": 1, "a": 1}, "a": 2}', "a", 2, NOT_RUN),
        ('{"a": NaN}', "a", 1, NOT_RUN),
        ('{"a": 1e999}', "a", 1, NOT_RUN),
        ('{"a": 1}{"a": 2}', "a", 1, NOT_RUN),
        ('{"a": 1', "a", 1, NOT_RUN),
        ("a: 1", "a", 1, NOT_RUN),
        ("[" * 100_000, "a", 1, NOT_RUN),
        ("[5]", "[0]", 5, PASSED),
    ],
)
def test_a_json_field_is_read_strictly(
    tmp_path: Path, text: str, field: str, expected: Any, result: CheckStatus
) -> None:
    record = a_run(tmp_path, files={"r.json": text.encode()})
    assert status(tmp_path, record, JsonField(path="r.json", field=field, expected=expected)) is result


@pytest.mark.parametrize(
    ("response", "result"),
    [
        ('{"a": 1}', PASSED),
        ('Here:\n```json\n{"a": 1}\n```\nDone.', PASSED),
        ('```\n{"a": 1}\n```\n```\n{"a": 1}\n```', NOT_RUN),
        ("It is 1.", NOT_RUN),
        ('```json\n{"a": 1, "a": 1}\n```', NOT_RUN),
    ],
)
def test_a_response_is_json_whole_or_in_its_only_fence(tmp_path: Path, response: str, result: CheckStatus) -> None:
    record = a_run(tmp_path, response=response)
    assert status(tmp_path, record, JsonField(path="response", field="a", expected=1)) is result


# command -----------------------------------------------------------------------------------------------------------------


def verified(record: RunRecord, **result: Any) -> Verification:
    values = {"check_id": "c1", "status": "ran", "exit_code": 0, "stdout": "", "stderr": "", **result}
    return Verification(run_seal=record.seal, commands=(CommandResult(**values),))


@pytest.mark.parametrize(
    ("result", "expected"),
    [
        ({"exit_code": 0, "stdout": "42 passed"}, PASSED),
        ({"exit_code": 0, "stdout": "none"}, FAILED),
        ({"exit_code": 1, "stdout": "42 passed"}, FAILED),
        ({"exit_code": None}, INFRA),
        ({"status": "infra", "exit_code": None, "reason": "the engine is gone"}, INFRA),
        ({"status": "timeout", "exit_code": None}, FAILED),
        ({"status": "oom", "exit_code": 137}, FAILED),
        ({"exit_code": 0, "stdout": "cut", "truncated": True}, NOT_RUN),
        ({"check_id": "other", "stdout": "42 passed"}, INFRA),
    ],
)
def test_a_command_is_judged_by_its_recorded_result(
    tmp_path: Path, result: dict[str, Any], expected: CheckStatus
) -> None:
    record = a_run(tmp_path)
    parameters = Command(run="python -m pytest", stdout_contains="42 passed")
    assert status(tmp_path, record, parameters, verification=verified(record, **result)) is expected


def test_a_command_that_nobody_ran_is_infrastructure(tmp_path: Path) -> None:
    assert status(tmp_path, a_run(tmp_path), Command(run="true")) is INFRA


def test_results_of_another_run_are_refused(tmp_path: Path) -> None:
    record = a_run(tmp_path)
    foreign = verified(record).model_copy(update={"run_seal": "0" * 64})
    with pytest.raises(EvidenceError, match="another run"):
        one(tmp_path, record, Command(run="true"), verification=foreign)


# runs that did not complete ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("outcome", [Outcome.TIMEOUT, Outcome.OOM, Outcome.AGENT_FAILED, Outcome.SANDBOX_DEAD])
def test_a_run_that_died_passes_nothing_and_what_it_did_wrong_stays_wrong(tmp_path: Path, outcome: Outcome) -> None:
    record = a_run(tmp_path, calls=[Call("deleteDoc")], response="partial answer", outcome=outcome)
    died = one(tmp_path, record, ToolCallCount(tool="dropAll", max=0))
    assert died.status is NOT_RUN
    assert outcome.value in died.found
    assert status(tmp_path, record, ResponseNotContains(pattern="secret")) is NOT_RUN
    assert status(tmp_path, record, ToolCallCount(tool="deleteDoc", max=0)) is FAILED


@pytest.mark.parametrize("outcome", [Outcome.INFRA_ERROR, Outcome.BLOCKED, Outcome.CANCELLED, Outcome.OVER_BUDGET])
def test_infrastructure_is_never_counted_against_a_skill(tmp_path: Path, outcome: Outcome) -> None:
    record = a_run(tmp_path, calls=[Call("deleteDoc")], outcome=outcome)
    assert status(tmp_path, record, ToolCallCount(tool="deleteDoc", max=0)) is INFRA


def test_a_contaminated_run_is_void(tmp_path: Path) -> None:
    record = a_run(tmp_path, contaminated="it reached the other arm")
    result = one(tmp_path, record, ResponseContains(keyword="total"))
    assert (result.status, result.found) == (INFRA, "it reached the other arm")


def test_found_and_expected_are_short_whatever_was_found(tmp_path: Path) -> None:
    record = a_run(tmp_path, calls=[Call("save", {"text": "x" * 100_000})], response=json.dumps(["y" * 100_000]))
    for parameters in (
        ArgsField(tool="save", field="text", expected="z" * 100_000),
        ResponseContains(keyword="z" * 100_000),
        ResponseMatches(pattern="y" * 5_000),
        JsonField(path="response", field="[0]", expected="z" * 100_000),
    ):
        result = one(tmp_path, record, parameters)
        assert len(result.found) <= 500
        assert len(result.expected) <= 500


@pytest.mark.requirements("R28")
@pytest.mark.parametrize(
    "parameters",
    [
        ToolResultContains(tool="bash", text="report.md"),
        ToolResultContains(tool="bash", text="secret", which="none"),
        ToolResultContains(tool="bash", text="report.md", which="all"),
        ToolCallStatus(tool="bash", status="success"),
        ToolCallStatus(tool="bash", status="success", which="all"),
        CommandRan(text="ls", exit_code=0),
        ToolCallCount(tool="bash", min=1, status="success"),
        ToolCallOrder(order=("bash", "bash"), status="success"),
        RunBudget(max_errors=3),
    ],
)
def test_no_check_rests_on_a_result_that_only_the_sandbox_reports(tmp_path: Path, parameters: CheckParameters) -> None:
    call = Call("bash", {"command": "ls"}, "report.md", exit_code=0)
    seen = a_run(tmp_path / "seen", calls=[call, call])
    told = a_run(tmp_path / "told", calls=[call._replace(reported=True)] * 2)
    assert status(tmp_path / "seen", seen, parameters) is CheckStatus.PASSED
    assert status(tmp_path / "told", told, parameters) is CheckStatus.NOT_RUN


def test_that_a_command_was_called_for_is_the_model_s_own_word(tmp_path: Path) -> None:
    told = a_run(tmp_path, calls=[Call("bash", {"command": "ls"}, "report.md", reported=True, exit_code=0)])
    assert status(tmp_path, told, CommandRan(text="ls")) is CheckStatus.PASSED
    assert status(tmp_path, told, ToolCallCount(tool="bash", expected_count=1)) is CheckStatus.PASSED
