"""Every check kind that came after the first twelve: what passes, what fails, and what cannot be told."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest
from pydantic import TypeAdapter, ValidationError

from gate.domain.base import Severity
from gate.domain.checks import CHECK_KINDS, Check, CheckParameters, KnownIssue, OracleCommand, shown_parameters
from gate.domain.evidence import Outcome, ProducedCode, RunRecord, Verification
from gate.domain.judgement import CheckResult, CheckStatus
from gate.domain.plan import Arm
from gate.domain.suite import Case, FixtureFile
from gate.judging.ground_truth import check_run
from tests.builders_judging import Call, a_run

PASSED, FAILED, NOT_RUN, INFRA = CheckStatus.PASSED, CheckStatus.FAILED, CheckStatus.NOT_RUN, CheckStatus.INFRA
_PARAMETERS: TypeAdapter[CheckParameters] = TypeAdapter(CheckParameters)


def parameters(kind: str, **values: Any) -> CheckParameters:
    """Read as a suite is: from JSON, strictly."""
    return _PARAMETERS.validate_json(json.dumps({"kind": kind, **values}), strict=True)


def judged(
    root: Path,
    record: RunRecord,
    kind: str,
    *,
    fixture: Mapping[str, bytes] | None = None,
    verification: Verification | None = None,
    **values: Any,
) -> CheckResult:
    case = Case(
        eval_id="one",
        prompt="Do it.",
        files=tuple(FixtureFile(path=path, data=data) for path, data in (fixture or {}).items()),
        checks=(Check(id="c1", parameters=parameters(kind, **values)),),
    )
    (result,) = check_run(case, record, root, verification)
    return result


def calls(*names: str) -> list[Call]:
    return [Call(name) for name in names]


# Calls -------------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("made", "order", "mode", "expected"),
    [
        ("a x b", "a b", "subsequence", PASSED),
        ("b a", "a b", "subsequence", FAILED),
        ("a b a", "b a", "subsequence", PASSED),
        ("a b", "a a", "subsequence", FAILED),
        ("a a b", "a a b", "subsequence", PASSED),
        ("aV2 b", "a b", "subsequence", FAILED),
        ("a x b", "a b", "exact", PASSED),
        ("a b b", "a b", "exact", FAILED),
        ("a b", "a b", "exact", PASSED),
        ("a x b", "a b", "adjacent", FAILED),
        ("x a b x", "a b", "adjacent", PASSED),
        ("a a b", "a b", "adjacent", PASSED),
        ("", "a b", "subsequence", FAILED),
        ("", "a b", "exact", FAILED),
        ("", "a b", "adjacent", FAILED),
    ],
)
def test_order_is_that_of_all_calls_not_of_the_first_of_each_tool(
    tmp_path: Path, made: str, order: str, mode: str, expected: CheckStatus
) -> None:
    record = a_run(tmp_path, calls=calls(*made.split()))
    assert judged(tmp_path, record, "tool_call_order", order=order.split(), mode=mode).status is expected


def test_order_can_be_asked_of_calls_that_went_well(tmp_path: Path) -> None:
    record = a_run(tmp_path, calls=[Call("save", status="error"), Call("read"), Call("save")])
    assert judged(tmp_path, record, "tool_call_order", order=["save", "read"]).status is PASSED
    assert judged(tmp_path, record, "tool_call_order", order=["save", "read"], status="success").status is FAILED
    found = judged(tmp_path, record, "tool_call_order", order=["read", "save"])
    assert (found.found, found.block) == ("calls by step: save (1) → read (2) → save (3)", "B002")


@pytest.mark.parametrize(
    ("tools", "expected"),
    [
        (["delete"], PASSED),
        (["deleteAll"], FAILED),
        (["mcp__db__deleteAll"], FAILED),
        (["delete*"], FAILED),
        (["mcp__db__*"], FAILED),
        (["mcp__mail__*", "drop"], PASSED),
        (["drop", "read"], FAILED),
    ],
)
def test_a_forbidden_tool_is_one_by_its_whole_name_or_by_its_beginning_with_a_star(
    tmp_path: Path, tools: list[str], expected: CheckStatus
) -> None:
    record = a_run(tmp_path, calls=[Call("mcp__db__deleteAll", status="error"), Call("read")])
    assert judged(tmp_path, record, "tool_call_forbidden", tools=tools).status is expected


@pytest.mark.parametrize("tool", ["*", "a*b", "", "**"])
def test_a_forbidden_tool_that_would_mean_everything_is_refused(tool: str) -> None:
    with pytest.raises(ValidationError):
        parameters("tool_call_forbidden", tools=[tool])


@pytest.mark.parametrize(
    ("statuses", "asked", "expected"),
    [
        ("success error", {"which": "all"}, FAILED),
        ("success error", {"which": "any"}, PASSED),
        ("success error", {"which": "last"}, FAILED),
        ("error success", {"which": "last"}, PASSED),
        ("error success", {"which": 2}, PASSED),
        ("error success", {"which": 3}, FAILED),
        ("error success", {"which": 0}, NOT_RUN),
        ("timeout", {"status": "timeout"}, PASSED),
        ("", {}, FAILED),
        ("", {"which": "any"}, FAILED),
    ],
)
def test_how_calls_ended_is_asked_of_any_all_the_last_or_the_nth(
    tmp_path: Path, statuses: str, asked: dict[str, Any], expected: CheckStatus
) -> None:
    record = a_run(tmp_path, calls=[Call("save", status=status) for status in statuses.split()])
    assert judged(tmp_path, record, "tool_call_status", tool="save", **asked).status is expected
    assert judged(tmp_path, record, "tool_call_status", **asked).status is expected


def test_the_same_call_is_the_same_whatever_the_order_of_its_keys_and_what_lies_between(tmp_path: Path) -> None:
    made = [Call("q", {"a": 1, "b": 2}), Call("x"), Call("q", {"b": 2, "a": 1}), Call("q", {"a": 1, "b": "2"})]
    record = a_run(tmp_path, calls=made)
    assert judged(tmp_path, record, "tool_call_repeats", max=1).status is FAILED
    assert judged(tmp_path, record, "tool_call_repeats", max=2).status is PASSED
    assert judged(tmp_path, record, "tool_call_repeats", max=1, tool="x").status is PASSED
    assert "2 times, in steps 1, 3" in judged(tmp_path, record, "tool_call_repeats", max=1).found


ARGS = {"user": {"id": 7, "tags": ["a", "b"]}, "items": [{"n": 1}, {"n": 20}], "note": "Total: 12 EUR", "none": None}


@pytest.mark.parametrize(
    ("field", "asked", "expected"),
    [
        ("note", {"contains": "12 EUR"}, PASSED),
        ("note", {"contains": "12 eur"}, FAILED),
        ("note", {"pattern": r"\d+ EUR$"}, PASSED),
        ("note", {"pattern": "(x"}, NOT_RUN),
        ("user.tags", {"contains": "b"}, PASSED),
        ("user.tags", {"contains": "B"}, FAILED),
        ("user.id", {"min": 7, "max": 7}, PASSED),
        ("user.id", {"one_of": ["7", 8]}, FAILED),
        ("user.id", {"one_of": [7.0, 8]}, PASSED),
        ("note", {"min": 1}, FAILED),
        ("items[*].n", {"min": 1}, PASSED),
        ("items[*].n", {"min": 10}, FAILED),
        ("items[*].n", {"min": 10, "values": "any"}, PASSED),
        ("items[*].m", {"present": True}, FAILED),
        ("items[*].m", {"present": False}, PASSED),
        ("items[*].m", {"min": 0}, FAILED),
        ("none", {"present": True}, PASSED),
        ("none", {"present": False}, FAILED),
        ("user[*]", {"present": True}, FAILED),
        ("items[*]x", {"present": True}, NOT_RUN),
        ("", {"present": True}, None),
    ],
)
@pytest.mark.requirements("R32")
def test_a_condition_on_an_argument_and_on_a_json_field_mean_the_same(
    tmp_path: Path, field: str, asked: dict[str, Any], expected: CheckStatus | None
) -> None:
    record = a_run(tmp_path, calls=[Call("save", ARGS)], files={"r.json": json.dumps(ARGS).encode()})
    if expected is None:
        with pytest.raises(ValidationError):
            parameters("args_matches", tool="save", field=field, **asked)
        return
    assert judged(tmp_path, record, "args_matches", tool="save", field=field, **asked).status is expected
    assert judged(tmp_path, record, "json_matches", path="r.json", field=field, **asked).status is expected


@pytest.mark.parametrize(
    ("which", "expected"), [("any", PASSED), ("all", FAILED), (1, FAILED), (2, PASSED), (3, FAILED), (4, FAILED)]
)
def test_a_condition_is_asked_of_any_all_or_the_nth_call(tmp_path: Path, which: Any, expected: CheckStatus) -> None:
    made = [Call("save", {"n": 1}), Call("save", {"n": 5}), Call("save", None, raw_args="[5]")]
    record = a_run(tmp_path, calls=made)
    assert judged(tmp_path, record, "args_matches", tool="save", field="n", min=5, which=which).status is expected


def test_arguments_that_cannot_be_read_show_no_absence(tmp_path: Path) -> None:
    record = a_run(tmp_path, calls=[Call("save", None, raw_args='{"secret": 1')])
    assert judged(tmp_path, record, "args_matches", tool="save", field="secret", present=False).status is FAILED


@pytest.mark.parametrize("empty", [{}, {"present": False, "min": 1}, {"one_of": []}, {"contains": ""}])
def test_a_condition_that_says_nothing_is_refused(empty: dict[str, Any]) -> None:
    with pytest.raises(ValidationError):
        parameters("args_matches", tool="t", field="f", **empty)


@pytest.mark.parametrize(
    ("asked", "expected"),
    [
        ({"text": "3 passed"}, PASSED),
        ({"text": "3 passed", "which": 1}, FAILED),
        ({"text": "3 passed", "which": 2}, PASSED),
        ({"text": "3 passed", "which": "all"}, FAILED),
        ({"text": "passed", "which": "all"}, PASSED),
        ({"text": "3 passed", "which": "none"}, FAILED),
        ({"text": "error", "which": "none"}, PASSED),
        ({"pattern": r"\d+ passed", "which": "all"}, PASSED),
        ({"pattern": r"^3 ", "which": "any"}, PASSED),
        ({"pattern": r"^4 ", "which": "none"}, PASSED),
        ({"text": "I say 9 passed"}, FAILED),
    ],
)
def test_what_a_tool_returned_is_neither_what_it_was_asked_nor_what_the_agent_said(
    tmp_path: Path, asked: dict[str, Any], expected: CheckStatus
) -> None:
    made = [Call("bash", {"command": "I say 9 passed"}, "2 passed"), Call("bash", {}, "3 passed")]
    record = a_run(tmp_path, calls=made, response="I say 9 passed", notes=["I say 9 passed"])
    assert judged(tmp_path, record, "tool_result_contains", tool="bash", **asked).status is expected


def test_what_is_missing_from_a_result_may_be_anything(tmp_path: Path) -> None:
    record = a_run(tmp_path, calls=[Call("bash", {}, "ok", status="success")])
    cut = record.model_copy(update={"calls": (record.calls[0].model_copy(update={"truncated": True}),)})
    assert judged(tmp_path, cut, "tool_result_contains", tool="bash", text="error", which="none").status is NOT_RUN
    assert judged(tmp_path, cut, "tool_result_contains", tool="bash", text="error", which="all").status is NOT_RUN
    assert judged(tmp_path, cut, "tool_result_contains", tool="bash", text="ok").status is PASSED


def test_lines_of_the_skill_that_a_tool_showed_are_no_result_of_work(tmp_path: Path) -> None:
    record = a_run(tmp_path, calls=[Call("bash", {}, "print 7391\nreal 12")])
    shown = record.model_copy(update={"calls": (record.calls[0].model_copy(update={"skill_lines": (1,)}),)})
    assert judged(tmp_path, shown, "tool_result_contains", tool="bash", text="7391").status is FAILED
    hit = judged(tmp_path, shown, "tool_result_contains", tool="bash", text="real")
    assert hit.found == 'line 2 of the result in step 1: "real 12"'


RAN = [
    ("npm test", "npm test", True, True),
    ("npm test-all", "npm test", False, False),
    ("npm tests", "npm test", False, False),
    ("npm test -- --watch=false", "npm test", True, True),
    ("cd app && npm test", "npm test", True, True),
    ("CI=1 npm test", "npm test", True, True),
    ("timeout 60 npm test", "npm test", True, True),
    ("sudo -E npm test", "npm test", True, True),
    ("(npm test)", "npm test", True, True),
    ("npm install; npm test | tee log", "npm test", True, True),
    ("npm test > log.txt 2>&1", "npm test", True, True),
    ("/usr/bin/npm test", "npm test", True, True),
    ("if true; then npm test; fi", "npm test", True, True),
    ("bash -lc 'npm test'", "npm test", True, True),
    ("echo npm test", "npm test", False, True),
    ("echo 'run npm test'", "npm test", False, True),
    ("# npm test", "npm test", False, True),
    ("ls # npm test", "npm test", False, True),
    ("cat > x <<'EOF'\nnpm test\nEOF\n", "npm test", False, True),
    ("cat > x <<'EOF'\nhello\nEOF\nnpm test", "npm test", True, True),
    ("xnpm test", "npm test", False, False),
    ("npm 'test'", "npm test", True, True),
    ("npm   test", "npm test", True, True),
    ("eval \"npm test\"", "npm test", False, True),
    ("echo 'unclosed && npm test", "npm test", False, True),
    ("rm -rfv x", "rm -rf", False, False),
    ("rm -rf x", "rm -rf", True, True),
]  # fmt: skip


@pytest.mark.parametrize(("line", "text", "ran", "mentioned"), RAN)
def test_a_command_that_was_run_is_told_from_one_that_was_only_written(
    tmp_path: Path, line: str, text: str, ran: bool, mentioned: bool
) -> None:
    record = a_run(tmp_path, calls=[Call("bash", {"command": line})])
    assert (judged(tmp_path, record, "command_ran", text=text).status is PASSED) is ran
    assert (judged(tmp_path, record, "command_not_ran", text=text).status is FAILED) is mentioned


def test_a_command_by_pattern_by_exit_code_and_in_another_tool(tmp_path: Path) -> None:
    record = a_run(tmp_path, calls=[Call("Shell", {"cmd": "pytest -q tests"}), Call("bash", {"command": "ls"})])
    exits = [call.model_copy(update={"exit_code": code}) for call, code in zip(record.calls, (1, 0), strict=True)]
    record = record.model_copy(update={"calls": tuple(exits)})
    where: dict[str, Any] = {"tool": "Shell", "field": "cmd"}
    assert judged(tmp_path, record, "command_ran", pattern=r"pytest\s+-q", **where).status is PASSED
    assert judged(tmp_path, record, "command_ran", pattern=r"pytest\s+-q").status is FAILED
    failed = judged(tmp_path, record, "command_ran", text="pytest", exit_code=0, **where)
    assert (failed.status, failed.found) == (
        FAILED,
        "not among 1 command lines; it ended with exit code 1 in step 1",
    )
    assert judged(tmp_path, record, "command_not_ran", pattern=r"pytest\b", **where).status is FAILED
    assert judged(tmp_path, record, "command_not_ran", pattern="pytest").status is PASSED


def test_a_call_whose_line_cannot_be_read_shows_nothing_was_left_undone(tmp_path: Path) -> None:
    record = a_run(tmp_path, calls=[Call("bash", {"command": ["rm", "-rf"]})])
    assert judged(tmp_path, record, "command_not_ran", text="rm").status is NOT_RUN
    assert judged(tmp_path, record, "command_ran", text="rm").status is FAILED


def test_whether_the_skill_was_opened_is_what_the_gate_recorded(tmp_path: Path) -> None:
    record = a_run(tmp_path, response="I opened the skill.", activated=False)
    opened = record.model_copy(
        update={"metrics": record.metrics.model_copy(update={"activated": True, "opened": ("SKILL.md",)})}
    )
    assert judged(tmp_path, record, "skill_opened").status is FAILED
    assert judged(tmp_path, record, "skill_opened", opened=False).status is PASSED
    assert judged(tmp_path, opened, "skill_opened").status is PASSED
    assert judged(tmp_path, opened, "skill_opened", file="references/a.md").status is FAILED


def test_whether_the_skill_was_opened_is_not_asked_where_there_is_none(tmp_path: Path) -> None:
    record = a_run(tmp_path, arm=Arm.WITHOUT_SKILL)
    case = Case(eval_id="one", prompt="p", checks=(Check(id="c1", parameters=parameters("skill_opened")),))
    assert check_run(case, record, tmp_path, None) == ()


# The response --------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("kind", "texts", "expected"),
    [
        ("response_contains_all", ["alpha", "beta"], PASSED),
        ("response_contains_all", ["alpha", "gamma"], FAILED),
        ("response_contains_any", ["gamma", "beta"], PASSED),
        ("response_contains_any", ["gamma", "Beta"], FAILED),
        ("response_contains_none", ["gamma", "delta"], PASSED),
        ("response_contains_none", ["gamma", "beta"], FAILED),
    ],
)
def test_lists_of_texts(tmp_path: Path, kind: str, texts: list[str], expected: CheckStatus) -> None:
    record = a_run(tmp_path, response="alpha and beta")
    assert judged(tmp_path, record, kind, texts=texts).status is expected
    assert judged(tmp_path, record, kind, texts=[text.upper() for text in texts], ignore_case=True).status in (
        expected,
        PASSED,  # "Beta" is there where case is nothing
    )
    assert judged(tmp_path, a_run(tmp_path, run=2, response=" "), kind, texts=texts).status is NOT_RUN


@pytest.mark.parametrize(
    ("response", "normalise", "expected"),
    [
        ("42", None, PASSED),
        ("42\n", None, PASSED),
        ("42.", None, FAILED),
        ("The answer is 42", None, FAILED),
        ("42\n", [], FAILED),
        ("4 2", None, FAILED),
    ],
)
def test_a_response_that_holds_the_text_and_more_is_another_text(
    tmp_path: Path, response: str, normalise: list[str] | None, expected: CheckStatus
) -> None:
    values: dict[str, Any] = {} if normalise is None else {"normalise": normalise}
    assert judged(tmp_path, a_run(tmp_path, response=response), "response_equals", text="42", **values).status is (
        expected
    )


DOCUMENT = "# Report\n\n## Known **risks**\n\n```\n## In code\n```\n\n## Costs\n\nText\n\n### Deep\n"


@pytest.mark.parametrize(
    ("headings", "only", "expected"),
    [
        (["# Report", "## Known risks", "## Costs"], False, PASSED),
        (["Report", "Deep"], False, PASSED),
        (["## Costs", "## Known risks"], False, FAILED),
        (["## Deep"], False, FAILED),
        (["## In code"], False, FAILED),
        (["## Cost"], False, FAILED),
        (["# Report", "## Known risks", "## Costs"], True, FAILED),
        (["# Report", "## Known risks", "## Costs", "### Deep"], True, PASSED),
        (["Costs", "Costs"], False, FAILED),
    ],
)
@pytest.mark.requirements("R86")
def test_headings_stand_in_order(tmp_path: Path, headings: list[str], only: bool, expected: CheckStatus) -> None:
    record = a_run(tmp_path, response=DOCUMENT)
    assert judged(tmp_path, record, "response_headings", headings=headings, only=only).status is expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("All done, no gaps.", PASSED),
        ("Dear {name},", FAILED),
        ("Dear {{ first_name }},", FAILED),
        ("Cost: ${PRICE}", FAILED),
        ("TODO: write this", FAILED),
        ("Todos los días", PASSED),
        ("METODO", PASSED),
        ("Lorem ipsum dolor", FAILED),
        ("Use `{name}` in the template.", PASSED),
        ("```\nDear {name}\n```", PASSED),
        ("The set {1, 2, 3}", PASSED),
        ('Keys: {"a": 1}', PASSED),
        ("{" * 5000, PASSED),
        ("See [your name](https://x.example)", PASSED),
    ],
)
@pytest.mark.requirements("R33")
def test_placeholders_that_were_left(tmp_path: Path, text: str, expected: CheckStatus) -> None:
    assert judged(tmp_path, a_run(tmp_path, response=text), "response_no_placeholders").status is expected


def test_placeholders_in_brackets_in_files_and_allowed_ones(tmp_path: Path) -> None:
    record = a_run(tmp_path, response="Dear [Your Name], see [1].", files={"a.py": b'f"{name}"\n', "m.md": b"{x}\n"})
    assert judged(tmp_path, record, "response_no_placeholders").status is PASSED
    assert judged(tmp_path, record, "response_no_placeholders", forms=["brackets"]).status is FAILED
    assert judged(tmp_path, record, "response_no_placeholders", path="a.py").status is FAILED
    assert judged(tmp_path, record, "response_no_placeholders", path="m.md", allow=["{x}"]).status is PASSED
    assert judged(tmp_path, record, "response_no_placeholders", path="no.md").status is NOT_RUN


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("See [doc](https://x.example/doc/12).", PASSED),
        ("See https://x.example/doc/12, please.", PASSED),
        ("See <https://x.example>", PASSED),
        ("See [doc](https://x.example/doc/{fdId})", FAILED),
        ("See [doc](https://x.example/doc/%7BfdId%7D)", FAILED),
        ("See [doc](https:///doc)", FAILED),
        ("See [doc](https://nohost/doc)", FAILED),
        ("See [doc](http://localhost:8000/)", PASSED),
        ("See [doc]()", FAILED),
        ("See [doc](javascript:alert)", FAILED),
        ("See [doc](ftp://x.example)", FAILED),
        ("Write to [me](mailto:a@b.example)", PASSED),
        ("Write to [me](mailto:a)", FAILED),
        ("See [file](out/r.md)", PASSED),
        ("See [file](out/none.md)", FAILED),
        ("See [file](../../etc/passwd)", FAILED),
        ("# Big Risks!\n\nSee [there](#big-risks)", PASSED),
        ("# Big Risks!\n\nSee [there](#small-risks)", FAILED),
        ("No link at all", FAILED),
        ("`https://x.example`", FAILED),
        ("See [doc](https://x.example:99999/)", FAILED),
    ],
)
@pytest.mark.requirements("R33")
def test_links_have_a_form_that_resolves(tmp_path: Path, text: str, expected: CheckStatus) -> None:
    record = a_run(tmp_path, response=text, files={"out/r.md": b"# R\n"})
    assert judged(tmp_path, record, "response_links").status is expected


def test_links_lead_to_the_named_hosts_and_those_below(tmp_path: Path) -> None:
    record = a_run(tmp_path, response="https://docs.x.example/a and https://x.example/b")
    assert judged(tmp_path, record, "response_links", hosts=["x.example"], min=2).status is PASSED
    assert judged(tmp_path, record, "response_links", hosts=["x.example"], min=3).status is FAILED
    evil = a_run(tmp_path, run=2, response="https://evilx.example/a")
    assert judged(tmp_path, evil, "response_links", hosts=["x.example"]).status is FAILED


LANGUAGES = {
    "en": "The report is in the folder, and the totals for each of the regions are right.",
    "de": "Der Bericht liegt im Ordner, und die Summen sind für jede Region richtig berechnet, nicht nur eine.",
    "fr": "Le rapport est dans le dossier, et les totaux de chaque région sont justes pour cette année.",
    "es": "El informe está en la carpeta y los totales por cada región son correctos para el año.",
    "pt": "O relatório não está na pasta, mas os totais são corretos e foi tudo verificado para você.",
    "it": "Il rapporto è nella cartella e gli importi che sono stati chiesti non sono più di questo.",
    "zh": "报告在文件夹里。每个地区的总数都是正确的。",
    "ja": "報告書はフォルダにあり、それぞれの地域の合計は正しいです。",
    "ko": "보고서는 폴더에 있으며 각 지역의 합계는 모두 맞습니다 확인했습니다.",
    "ru": "Отчёт лежит в папке, и суммы по каждому региону верны.",
    "el": "Αυτή η αναφορά είναι στον φάκελο και τα σύνολα είναι σωστά.",
}


@pytest.mark.parametrize("language", LANGUAGES)
def test_a_response_is_in_its_own_language_and_in_no_other(tmp_path: Path, language: str) -> None:
    record = a_run(tmp_path, response=LANGUAGES[language] + "\n\n```python\nprint('the and of to is')\n```\n")
    answers = {other: judged(tmp_path, record, "response_language", language=other).status for other in LANGUAGES}
    assert [other for other, status in answers.items() if status is PASSED] == [language]
    assert answers[language] is PASSED


@pytest.mark.parametrize("text", ["Done.", "1250", "```\nthe and of to is that\n```", "x1 y2 z3 q4"])
def test_too_little_text_tells_no_language(tmp_path: Path, text: str) -> None:
    assert judged(tmp_path, a_run(tmp_path, response=text), "response_language", language="en").status is NOT_RUN


# Files ---------------------------------------------------------------------------------------------------------------------

FIXTURE = {"keep.md": b"k\n", "edit.md": b"1\n", "gone.md": b"g\n"}
LEFT = {"keep.md": b"k\n", "edit.md": b"2\n", "new/a.txt": b"a\n", "home/.cache/x": b"c"}


@pytest.mark.parametrize(
    ("path", "more", "expected"),
    [
        ("gone.md", {}, PASSED),
        ("gone.md", {"deleted": True}, PASSED),
        ("never.md", {}, PASSED),
        ("never.md", {"deleted": True}, FAILED),
        ("keep.md", {}, FAILED),
        ("./keep.md", {}, FAILED),
        ("/work/keep.md", {}, FAILED),
        ("new", {}, FAILED),
        ("new/*.txt", {}, FAILED),
        ("new/*.tx", {}, PASSED),
        ("*.txt", {}, PASSED),
        ("**/*.txt", {}, FAILED),
        ("ew/a.txt", {}, PASSED),
        ("../x", {}, NOT_RUN),
    ],
)
def test_a_file_is_absent(tmp_path: Path, path: str, more: dict[str, Any], expected: CheckStatus) -> None:
    record = a_run(tmp_path, files=LEFT, fixture=FIXTURE)
    assert judged(tmp_path, record, "file_absent", fixture=FIXTURE, path=path, **more).status is expected


@pytest.mark.parametrize(
    ("path", "expected"),
    [("keep.md", PASSED), ("edit.md", FAILED), ("gone.md", FAILED), ("new/a.txt", NOT_RUN), ("never", NOT_RUN)],
)
def test_a_fixture_file_is_unchanged(tmp_path: Path, path: str, expected: CheckStatus) -> None:
    record = a_run(tmp_path, files=LEFT, fixture=FIXTURE)
    assert judged(tmp_path, record, "file_unchanged", fixture=FIXTURE, path=path).status is expected


@pytest.mark.parametrize(
    ("paths", "expected"),
    [
        (["edit.md", "gone.md", "new/a.txt"], PASSED),
        (["*.md", "new/**"], PASSED),
        (["**"], PASSED),
        (["edit.md", "new/a.txt"], FAILED),
        (["edit.md", "gone.md"], FAILED),
        (["edit.md", "gone.md", "new"], FAILED),
        ([], FAILED),
    ],
)
def test_only_named_files_may_change_and_removing_one_is_a_change(
    tmp_path: Path, paths: list[str], expected: CheckStatus
) -> None:
    record = a_run(tmp_path, files=LEFT, fixture=FIXTURE)
    assert judged(tmp_path, record, "files_changed_only", fixture=FIXTURE, paths=paths).status is expected


def test_nothing_changed_where_nothing_may(tmp_path: Path) -> None:
    record = a_run(tmp_path, files=FIXTURE, fixture=FIXTURE)
    assert judged(tmp_path, record, "files_changed_only", fixture=FIXTURE, paths=[]).status is PASSED


def test_a_file_holds_no_text(tmp_path: Path) -> None:
    record = a_run(tmp_path, files={"r.md": b"All TODO done\n", "b.bin": b"\xff"})
    assert judged(tmp_path, record, "file_not_contains", path="r.md", text="FIXME").status is PASSED
    assert judged(tmp_path, record, "file_not_contains", path="r.md", text="TODO").status is FAILED
    assert judged(tmp_path, record, "file_not_contains", path="r.md", text="todo").status is PASSED
    assert judged(tmp_path, record, "file_not_contains", path="r.md", text="todo", ignore_case=True).status is FAILED
    assert judged(tmp_path, record, "file_not_contains", path="r.md", pattern=r"TO\w+").status is FAILED
    assert judged(tmp_path, record, "file_not_contains", path="none.md", text="x").status is NOT_RUN
    assert judged(tmp_path, record, "file_not_contains", path="b.bin", text="x").status is NOT_RUN


@pytest.mark.parametrize(
    ("data", "normalise", "expected"),
    [
        (b"a\nb\n", [], PASSED),
        (b"a\r\nb\r\n", [], FAILED),
        (b"a\r\nb\r\n", ["line_endings"], PASSED),
        (b"a  \nb\t\n", ["line_endings"], FAILED),
        (b"a  \nb\t\n", ["trailing_space"], PASSED),
        (b"a  \r\nb\r\n", ["trailing_space"], FAILED),
        (b"a\n\nb\n", [], FAILED),
        (b"a\n\nb\n", ["blank_lines"], PASSED),
        (b"a\nb", [], FAILED),
        (b"a\nb", ["outer_space"], PASSED),
        (b"\xef\xbb\xbfa\nb\n", [], FAILED),
        (b"\xef\xbb\xbfa\nb\n", ["bom"], PASSED),
        (b"A\nb\n", [], FAILED),
        (b"A\nb\n", ["case"], PASSED),
        (b"a b ", ["whitespace"], PASSED),
        (b"ab\n", ["whitespace", "case", "outer_space", "blank_lines", "bom"], FAILED),
        (b"\xff", [], NOT_RUN),
    ],
)
def test_a_golden_file_overlooks_what_is_named_and_nothing_else(
    tmp_path: Path, data: bytes, normalise: list[str], expected: CheckStatus
) -> None:
    record = a_run(tmp_path, files={"out.txt": data})
    result = judged(tmp_path, record, "file_golden", path="out.txt", expected="a\nb\n", normalise=normalise)
    assert result.status is expected


def test_a_golden_file_shows_where_it_differs(tmp_path: Path) -> None:
    record = a_run(tmp_path, files={"out.txt": b"a\nx \nc\n"})
    result = judged(tmp_path, record, "file_golden", path="out.txt", expected="a\nb\nc\n")
    assert result.found == "it differs from line 2 on: -b ¶ +x·"
    assert judged(tmp_path, record, "file_golden", path="none.txt", expected="").status is NOT_RUN
    long = a_run(tmp_path, run=2, files={"out.txt": b"a\n" * 1000 + b"z\n"})
    found = judged(tmp_path, long, "file_golden", path="out.txt", expected="a\n" * 1001).found
    assert found == "it differs from line 1001 on: z instead of a (1002 lines instead of 1002)"


SCHEMA = {
    "type": "object",
    "required": ["n"],
    "properties": {"n": {"$ref": "#/$defs/n"}},
    "$defs": {"n": {"minimum": 1}},
}


@pytest.mark.parametrize(
    ("text", "definition", "expected"),
    [
        ('{"n": 1}', SCHEMA, PASSED),
        ('{"n": 0}', SCHEMA, FAILED),
        ("{}", SCHEMA, FAILED),
        ("[]", SCHEMA, FAILED),
        ('{"n": 1, "n": 0}', SCHEMA, NOT_RUN),
        ("none", SCHEMA, NOT_RUN),
        ("{}", True, PASSED),
        ("{}", False, FAILED),
        ("{}", {"type": "nothing"}, NOT_RUN),
        ("{}", {"$ref": "#/$defs/none"}, NOT_RUN),
        ('{"$ref": "x"}', {"const": {"$ref": "x"}}, PASSED),
    ],
)
def test_json_is_valid_under_a_schema(tmp_path: Path, text: str, definition: Any, expected: CheckStatus) -> None:
    record = a_run(tmp_path, response=text, files={"r.json": text.encode()})
    assert judged(tmp_path, record, "json_schema", path="r.json", definition=definition).status is expected
    assert judged(tmp_path, record, "json_schema", path="response", definition=definition).status is expected


@pytest.mark.parametrize(
    "definition",
    [
        {"$ref": "https://x.example/s.json"},
        {"$ref": "file:///etc/passwd"},
        {"properties": {"a": {"items": [{"$dynamicRef": "other.json#x"}]}}},
    ],
)
def test_a_schema_that_leads_elsewhere_is_refused_when_the_suite_is_read(definition: Any) -> None:
    with pytest.raises(ValidationError, match="leads out of the schema"):
        parameters("json_schema", path="r.json", definition=definition)


CSV = b'region,amount,"note, long"\r\nnorth,0.30,x\r\nsouth,"1,000",y\r\nsouth-east,12.5 EUR,z\r\nempty,,\r\n'


@pytest.mark.parametrize(
    ("asked", "expected"),
    [
        ({"column": "amount", "row": 1, "expected": 0.3}, PASSED),
        ({"column": "amount", "row": 1, "expected": "0.3"}, FAILED),
        ({"column": "amount", "row": 1, "expected": "0.30"}, PASSED),
        ({"column": "amount", "row": 1, "expected": 0.31, "tolerance": 0.01}, PASSED),
        ({"column": "amount", "row": 1, "expected": 0.32, "tolerance": 0.01}, FAILED),
        ({"column": "amount", "where": {"region": "south"}, "expected": 1000}, FAILED),
        ({"column": "amount", "where": {"region": "south"}, "expected": "1,000"}, PASSED),
        ({"column": "amount", "where": {"region": "south-east"}, "expected": 12.5}, FAILED),
        ({"column": "amount", "where": {"region": "empty"}, "expected": 0}, FAILED),
        ({"column": "note, long", "row": 2, "expected": "y"}, PASSED),
        ({"column": 1, "row": 2, "expected": "south"}, PASSED),
        ({"column": 1, "row": 1, "expected": "region", "header": False}, PASSED),
        ({"column": "Amount", "row": 1, "expected": 0.3}, NOT_RUN),
        ({"column": "amount", "row": 9, "expected": 0.3}, NOT_RUN),
        ({"column": "amount", "where": {"region": "west"}, "expected": 0.3}, NOT_RUN),
        ({"column": 4, "row": 1, "expected": 0.3}, NOT_RUN),
    ],
)
def test_a_cell_of_a_csv_file(tmp_path: Path, asked: dict[str, Any], expected: CheckStatus) -> None:
    record = a_run(tmp_path, files={"r.csv": CSV, "broken.csv": b'a,b\n"1,2\n'})
    assert judged(tmp_path, record, "csv_cell", path="r.csv", **asked).status is expected


def test_a_csv_file_that_is_none_and_one_row_too_many(tmp_path: Path) -> None:
    record = a_run(tmp_path, files={"broken.csv": b'a,b\n"1,2\n', "twice.csv": b"k,v\nx,1\nx,2\n", "e.csv": b"\n"})
    for path, asked in (("broken.csv", {"row": 1}), ("twice.csv", {"where": {"k": "x"}}), ("e.csv", {"row": 1})):
        column = "v" if path == "twice.csv" else "a"
        assert judged(tmp_path, record, "csv_cell", path=path, column=column, expected=1, **asked).status is NOT_RUN


@pytest.mark.parametrize("wrong", [{}, {"row": 1, "where": {"a": "b"}}, {"row": 0}, {"row": 1, "header": False}])
def test_a_csv_check_names_exactly_one_row(wrong: dict[str, Any]) -> None:
    with pytest.raises(ValidationError):
        parameters("csv_cell", path="r.csv", column="a", expected=1, **wrong)


# What was executed, and what was spent ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("produced", "asked", "expected"),
    [
        ({"outcome": "ok", "exit_code": 0, "stdout": "3\n"}, {}, PASSED),
        ({"outcome": "ok", "exit_code": 0, "stdout": "3\n"}, {"stdout_contains": "3"}, PASSED),
        ({"outcome": "ok", "exit_code": 0, "stdout": "3\n"}, {"stdout_contains": "4"}, FAILED),
        ({"outcome": "ok", "exit_code": 0, "stdout": "a\n[...]\nb"}, {"stdout_contains": "4"}, NOT_RUN),
        ({"outcome": "ok", "exit_code": 0}, {"entry_point": "main.py"}, PASSED),
        ({"outcome": "ok", "exit_code": 0}, {"entry_point": "other.py"}, FAILED),
        ({"outcome": "html_ok"}, {}, PASSED),
        ({"outcome": "html_broken", "stderr": "missing: body"}, {}, FAILED),
        ({"outcome": "nonzero", "exit_code": 1, "stderr": "boom"}, {}, FAILED),
        ({"outcome": "timeout", "timed_out": True}, {}, FAILED),
        ({"outcome": "signal", "exit_code": 139}, {}, FAILED),
        ({"outcome": "infra", "stderr": "no engine"}, {}, INFRA),
        ({"outcome": "missing_runtime", "exit_code": 127}, {}, NOT_RUN),
        ({"outcome": "no_entrypoint", "entry_point": None}, {}, NOT_RUN),
        (None, {}, NOT_RUN),
    ],
)
@pytest.mark.requirements("R182")
def test_produced_code_is_judged_by_its_recorded_execution(
    tmp_path: Path, produced: dict[str, Any] | None, asked: dict[str, Any], expected: CheckStatus
) -> None:
    record = a_run(tmp_path)
    code = None if produced is None else ProducedCode(**{"entry_point": "main.py", "priority": 2, **produced})
    verification = Verification(run_seal=record.seal, produced=code)
    assert judged(tmp_path, record, "produced_code", verification=verification, **asked).status is expected


def test_what_nobody_executed_is_infrastructure_only_where_the_run_completed(tmp_path: Path) -> None:
    oracle = {"files": {"check.py": "x"}, "script": "check.py"}
    done, dead = a_run(tmp_path), a_run(tmp_path, run=2, outcome=Outcome.TIMEOUT)
    for kind, values in (("produced_code", {}), ("oracle_command", oracle), ("command", {"run": "true"})):
        assert judged(tmp_path, done, kind, **values).status is INFRA
        assert judged(tmp_path, dead, kind, **values).status is NOT_RUN


@pytest.mark.parametrize(
    ("asked", "expected"),
    [
        ({"max_tool_calls": 2}, PASSED),
        ({"max_tool_calls": 1}, FAILED),
        ({"max_errors": 0}, FAILED),
        ({"max_errors": 1}, PASSED),
        ({"max_tokens": 10}, NOT_RUN),
        ({"max_tokens": 10, "max_tool_calls": 1}, FAILED),
        ({"max_steps": 0}, PASSED),
        ({"max_cost_usd": 1}, NOT_RUN),
        ({"max_seconds": 1}, PASSED),
    ],
)
def test_a_budget_is_what_was_recorded_and_unknown_is_not_zero(
    tmp_path: Path, asked: dict[str, Any], expected: CheckStatus
) -> None:
    record = a_run(tmp_path, calls=[Call("a"), Call("b", status="error")])
    assert judged(tmp_path, record, "run_budget", **asked).status is expected


# Oracles, scope, known issues -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "wrong",
    [
        {"files": {}, "script": "a.py"},
        {"files": {"a.py": ""}, "script": "b.py"},
        {"files": {"a.rb": ""}, "script": "a.rb"},
        {"files": {"../a.py": ""}, "script": "../a.py"},
        {"files": {"/a.py": ""}, "script": "/a.py"},
    ],
)
def test_an_oracle_has_a_script_among_its_files(wrong: dict[str, Any]) -> None:
    with pytest.raises(ValidationError):
        parameters("oracle_command", **wrong)


def test_contents_of_whole_files_are_not_shown_as_parameters() -> None:
    oracle = OracleCommand(files={"a.py": "secret"}, script="a.py")
    assert shown_parameters(oracle, exclude_defaults=True) == {"script": "a.py"}


def checked(root: Path, record: RunRecord, checks: Sequence[Check]) -> list[CheckResult]:
    return list(check_run(Case(eval_id="one", prompt="p", checks=tuple(checks)), record, root, None))


def test_a_check_is_asked_of_its_arms_only(tmp_path: Path) -> None:
    wanted = parameters("response_contains", keyword="total")
    checks = [Check(id="a", parameters=wanted, arms=("with_skill",)), Check(id="b", parameters=wanted)]
    for arm, expected in ((Arm.WITH_SKILL, ["a", "b"]), (Arm.WITHOUT_SKILL, ["b"]), (Arm.BASE_SKILL, ["b"])):
        record = a_run(tmp_path, arm=arm)
        assert [result.check_id for result in checked(tmp_path, record, checks)] == expected


@pytest.mark.parametrize(
    ("expires", "severity", "words"),
    [
        ("2026-01-31", Severity.INFO, "known issue until 2026-01-31 (ticket 12): "),
        ("2026-01-30", Severity.MUST, "(the known issue expired on 2026-01-30)"),
    ],
)
def test_a_known_issue_makes_a_failure_inform_until_it_expires(
    tmp_path: Path, expires: str, severity: Severity, words: str
) -> None:
    issue = KnownIssue(reason="ticket 12", expires=expires)
    check = Check(id="a", parameters=parameters("response_contains", keyword="absent"), known_issue=issue)
    (result,) = checked(tmp_path, a_run(tmp_path, run_date="2026-01-31"), [check])
    assert (result.status, result.severity) == (FAILED, severity)
    assert words in result.found


def test_a_known_issue_changes_nothing_where_the_check_passes(tmp_path: Path) -> None:
    issue = KnownIssue(reason="r", expires="2027-01-01")
    check = Check(id="a", parameters=parameters("response_contains", keyword="total"), known_issue=issue)
    plain = check.model_copy(update={"known_issue": None})
    record = a_run(tmp_path)
    assert checked(tmp_path, record, [check]) == checked(tmp_path, record, [plain])


@pytest.mark.parametrize("expires", ["", "soon", "2026-13-01", "20261231", "2026-1-1"])
def test_a_known_issue_needs_a_real_date(expires: str) -> None:
    with pytest.raises(ValidationError):
        KnownIssue(reason="r", expires=expires)


def test_a_check_without_scope_and_issue_keeps_the_form_that_digests_are_made_of() -> None:
    check = Check(id="a", parameters=parameters("file_exists", path="x"))
    assert set(check.to_json()) == {"id", "severity", "rule_ref", "description", "parameters"}
    scoped = check.model_copy(update={"arms": ("with_skill",)})
    assert Check.model_validate(scoped.to_json()) == scoped


def test_every_kind_is_spelled_so_that_tables_can_list_it() -> None:
    assert len(set(CHECK_KINDS)) == len(CHECK_KINDS) == 40
