from __future__ import annotations

import pytest

from gate.domain.evidence import Block, Tier
from gate.domain.judgement import GradeStatus
from gate.domain.suite import Expectation
from gate.evidence.quotes import check_quote
from gate.judging.expectations import CALLS_AND_OUTPUT, TOOL_CALLS_ONLY, Evidence, Literal, allowed_tiers, literals
from gate.judging.rows import RowRules, Said

TOOLS = ("bash", "read_file", "list_files", "mcp__docs__saveDoc")


@pytest.mark.requirements("R28", "R29")
@pytest.mark.parametrize(
    "text",
    [
        "The agent runs the validation script before answering.",
        "Calls get_issue exactly once",
        "Uses the bash tool to count the lines",
        "Uses saveDoc to store the draft",
        "Executes `make test`",
        "`make test` passes",
        "The script runs without errors",
        "The tool `list_files` was called.",
        "Invoked the search API with the right query",
        "Re-runs the tests after the fix",
        "调用 saveDoc 保存文档",
        "执行了校验脚本",
    ],
)
def test_what_was_called_or_run_needs_a_tool_call(text: str) -> None:
    assert allowed_tiers(text, TOOLS) == TOOL_CALLS_ONLY


@pytest.mark.parametrize(
    "text",
    [
        "Explains how to run the tests",
        "The response includes a command to execute",
        "Suggests running `npm test`",
        "The report calls out the API risk",
        "States the total of 1,250.00 EUR",
        "The report runs to two pages",
        "The summary is called 'Weekly notes'",
        "Uses a polite tone",
        "说明如何运行测试",
        "包含三个部分",
        "Never calls `saveDoc`",
        "Does not run any command",
        "没有调用 deleteDoc",
    ],
)
def test_content_and_what_was_not_called_may_rest_on_output(text: str) -> None:
    assert allowed_tiers(text, TOOLS) == CALLS_AND_OUTPUT


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("Total is 1,250.00 on 2024-05-01", [("1,250.00",), ("2024-05-01",)]),
        ("docStatus is set to “10”", [("docStatus",), ("10",)]),
        ("Writes `out/a.csv` with user_id", [("out/a.csv",), ("user_id",)]),
        ('Has a section titled "Known risks"', [("Known risks",)]),
        ("Uses `a.py` or `b.py`", [("a.py", "b.py")]),
        ("one of `alpha`, `beta`, `gamma`", [("alpha", "beta", "gamma")]),
        ("Names `alpha`, `beta` and `gamma`", [("alpha",), ("beta",), ("gamma",)]),
        ("Without using `eval`, computes 42", [("42",)]),
        ("Reports total 1250, not 1200", [("1250",)]),
        ("不包含“草稿”\uff0c总额为 1250 元", [("1250",)]),
        ("Year 2025 stands in the title", [("2025",)]),
    ],
)
def test_literals_must_stand_in_the_evidence(text: str, expected: list[tuple[str, ...]]) -> None:
    assert [item.options for item in literals(Expectation(id="e", text=text))] == expected


@pytest.mark.parametrize(
    "text",
    [
        'Does not mention `foo`, `bar` or "Baz qux"',
        "Must never print the key `sk-12345`",
        'Explains the "why" behind each choice',
        "Has at most 200 words and 12 bullet points",
        "Between 10 and 20 items, no more than 500 characters",
        "Names tools such as `ruff`, `mypy`",
        "No literal `{fdId}` remains",
        "Headings look like `## [version]` or `<name>.md`",
        "Is about 5 % cheaper in 3 steps",
        "至少 12 个要点\uff0c不超过 300 字",
        "GitHub, JavaScript and macOS are spelled right",
        "Lists exactly 10-15 short bullet points",
    ],
)
def test_what_stands_in_no_text_is_not_asked_for(text: str) -> None:
    assert literals(Expectation(id="e", text=text)) == ()


def test_a_plain_quoted_word_is_a_literal_where_the_match_is_to_be_exact() -> None:
    assert literals(Expectation(id="e", text='Says "why".', precision="exact_match")) == (Literal(("why",)),)


@pytest.mark.parametrize(
    ("evidence", "literal", "holds"),
    [
        ("Sum: 1,250.00 EUR", "1250", True),
        ("Sum: 1.250,00 EUR", "1250", True),
        ("Sum: 1 250", "1250", False),
        ("Sum: 91250", "1250", False),
        ("Sum: 1250.5", "1250", False),
        ("Sum: \uff11\uff12\uff15\uff10", "1250", True),
        ('{"docStatus":"10"}', "docstatus", True),
        (r'{"text":"say \"Ready to go\""}', 'say "Ready to go"', True),
        ("Known\n  Risks", "known risks", True),
        ("known-risks", "known risks", False),
        ("it\u2019s \u201cfine\u201d", 'it\'s "fine"', True),
        ("kn\u200bown risks", "known risks", True),
        ("10\u00b2 things", "102", False),
    ],
)
def test_evidence_is_searched_without_regard_to_typography_but_never_loosely(
    evidence: str, literal: str, holds: bool
) -> None:
    assert Evidence([evidence]).holds(Literal((literal,))) is holds


def blocks() -> tuple[Block, ...]:
    return (
        Block(
            id="B001",
            tier=Tier.TOOL_CALLS,
            kind="tool_calls",
            title="Step 1: bash",
            text="Tool: bash\nReturn:\n3 passed",
        ),
        Block(id="B002", tier=Tier.NOTES, kind="agent_notes", title="note", text="I am sure that it works"),
        Block(id="B003", tier=Tier.OUTPUT, kind="response", title="response", text="All tests pass, 17 of 17."),
    )


def decide(text: str, said: Said, *quotes: tuple[str, str], cut: bool = False) -> GradeStatus:
    rules = RowRules(blocks(), TOOLS, cut=cut)
    expectation = Expectation(id="e", text=text)
    tiers = rules.tiers(expectation)
    looked_up = [check_quote(quote, source, blocks(), allowed_tiers=tiers) for source, quote in quotes]
    return rules.decide(expectation, said, looked_up).status


@pytest.mark.parametrize(
    ("said", "cut", "status"),
    [
        (Said(None), False, GradeStatus.UNGRADED),
        (Said(None, unsure=True), False, GradeStatus.FAILED),
        (Said(False), False, GradeStatus.FAILED),
        (Said(None, unsure=True), True, GradeStatus.UNGRADED),
        (Said(False), True, GradeStatus.UNGRADED),
        (Said(True), False, GradeStatus.PASSED),
        (Said(True), True, GradeStatus.PASSED),
    ],
)
def test_only_a_pass_can_pass(said: Said, cut: bool, status: GradeStatus) -> None:
    assert decide("Says that the tests pass", said, ("B003:1", "All tests pass"), cut=cut) is status


def test_a_good_quote_carries_bad_ones_but_not_the_other_way_round() -> None:
    good, bad = ("B003:1", "All tests pass"), ("B003:1", "All tests fail")
    assert decide("Says that the tests pass", Said(True), bad, good) is GradeStatus.PASSED
    assert decide("Says that the tests pass", Said(True), bad) is GradeStatus.FAILED


def test_the_literal_must_stand_in_a_quote_that_may_carry() -> None:
    call, answer = ("B001:3", "3 passed"), ("B003:1", "17 of 17")
    assert decide("Runs the tests, 17 of them pass", Said(True), call, answer) is not GradeStatus.PASSED
