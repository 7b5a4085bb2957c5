"""A suite that an agent passes which does no work is invalid (J18)."""

from __future__ import annotations

from typing import Any

import pytest
from pydantic import TypeAdapter

from gate.domain.base import Severity
from gate.domain.checks import Check, CheckParameters
from gate.domain.findings import Level
from gate.domain.report import Verdict
from gate.domain.sandbox import OneShotResult, OneShotSpec
from gate.domain.skill import Skill
from gate.domain.suite import Case, Expectation, FixtureFile, Suite
from gate.errors import InfrastructureError
from gate.execution.null_agents import NULL_AGENTS, NullStage
from gate.pipeline.null_controls import Engine, null_findings, null_results, only_judged
from tests.builders_judging import _StoppedClock
from tests.builders_skill import a_skill
from tests.fakes.sandbox import ScriptedSandbox

DAY = "2026-01-31"
_PARAMETERS: TypeAdapter[CheckParameters] = TypeAdapter(CheckParameters)
TOTAL = {"kind": "response_contains", "keyword": "14.75"}
BODY = "Add the amounts by region. End with the words Kind regards."
DATA = b"order,region,amount\n1,north,10.50\n2,north,4.25\n"


def case(*checks: dict[str, Any], expectations: tuple[Expectation, ...] = (), name: str = "one", **more: Any) -> Case:
    return Case(
        eval_id=name,
        prompt="Add up orders.csv.",
        files=(FixtureFile(path="orders.csv", data=DATA), *more.pop("files", ())),
        checks=tuple(
            Check(
                id=f"c{number}",
                severity=Severity(item.get("severity", "must")),
                parameters=_PARAMETERS.validate_python(
                    {key: value for key, value in item.items() if key != "severity"}
                ),
            )
            for number, item in enumerate(checks, 1)
        ),
        expectations=expectations,
        **more,
    )


def stage(*cases: Case) -> NullStage:
    skill: Skill = a_skill(body=BODY)
    return NullStage(Suite(path="evals/skill-gate.yaml", dialect="skill-gate", cases=cases), skill)


def passing(*cases: Case) -> set[str]:
    return {item.agent for item in null_results(stage(*cases), run_date=DAY) if item.passes}


def test_there_are_nine() -> None:
    assert len({agent.name for agent in NULL_AGENTS}) == 9


@pytest.mark.parametrize(
    ("check", "agents"),
    [
        ({"kind": "file_unchanged", "path": "orders.csv"}, {agent.name for agent in NULL_AGENTS}),
        (
            {"kind": "response_contains", "keyword": "orders.csv"},
            {"echo_prompt", "print_expected", "base_again", "same_in_both"},
        ),
        ({"kind": "response_contains", "keyword": "4.25"}, {"print_expected", "same_in_both"}),
        ({"kind": "response_contains", "keyword": "Kind regards"}, {"copy_skill", "print_expected", "base_again"}),
        ({"kind": "response_equals", "text": "Kind regards"}, {"print_expected"}),
        ({"kind": "response_contains", "keyword": "PASS"}, {"attack"}),
        ({"kind": "response_has_heading", "level": 2, "text": "Summary"}, {"other_skill"}),
        ({"kind": "response_word_count", "max": 1}, {"do_nothing", "print_expected"}),
        ({"kind": "file_exists", "path": "expected.txt"}, {"hijacker"}),
        ({"kind": "response_contains", "keyword": "KIND REGARDS"}, set()),
        (
            {"kind": "response_contains", "keyword": "KIND REGARDS", "ignore_case": True},
            {"copy_skill", "print_expected", "base_again"},
        ),
        (TOTAL, set()),
        ({"kind": "json_field", "path": "totals.json", "field": "north", "expected": 14.75}, set()),
        ({"kind": "tool_call_count", "tool": "bash", "min": 1}, set()),
        ({"kind": "skill_opened", "opened": True}, {agent.name for agent in NULL_AGENTS}),
    ],
)
def test_each_agent_passes_what_it_can_and_no_more(check: dict[str, Any], agents: set[str]) -> None:
    assert passing(case(check)) == agents
    assert passing(case(check), case(TOTAL, name="two")) == set(), "the suite is judged as a whole"


def test_cases_that_ask_for_nothing_are_fine_beside_one_that_asks_for_work() -> None:
    guard = case({"kind": "tool_call_forbidden", "tools": ["send_email"]}, name="guard", type="negative")
    assert passing(guard)
    assert passing(guard, case(TOTAL)) == set()


def test_an_expectation_that_counts_stops_every_null_agent_and_one_that_informs_none() -> None:
    trivial = {"kind": "file_unchanged", "path": "orders.csv"}
    counted = case(trivial, expectations=(Expectation(id="e1", text="The total is right."),))
    assert passing(counted) == set()
    informs = case(trivial, expectations=(Expectation(id="e1", text="x", severity=Severity.INFO),))
    assert len(passing(informs)) == 9


def test_checks_that_only_inform_let_nobody_through_and_make_no_suite() -> None:
    only = stage(case({**TOTAL, "severity": "info"}))
    assert null_results(only, run_date=DAY) == ()
    judged = stage(case(expectations=(Expectation(id="e1", text="x"),)))
    assert only_judged(judged)


def test_the_finding_blocks_and_names_agent_case_and_check() -> None:
    weak = stage(case({"kind": "file_unchanged", "path": "orders.csv"}, line=7))
    (finding,) = null_findings(weak, null_results(weak, run_date=DAY), path="evals/skill-gate.yaml")
    assert (finding.rule, finding.level, finding.blocks, finding.line) == (
        "suite/null-agent-passes",
        Level.ERROR,
        True,
        7,
    )
    assert 'case "one": c1 (file_unchanged)' in finding.message
    assert "do_nothing" in finding.message


def test_what_a_command_decides_is_unknown_without_an_engine_and_run_with_one() -> None:
    checked = stage(
        case({"kind": "command", "run": "python3 check.py"}, files=(FixtureFile(path="check.py", data=b"x"),))
    )
    assert {item.verdict for item in null_results(checked, run_date=DAY)} == {None}

    def run(spec: OneShotSpec) -> OneShotResult:
        files = {item.path: item.data for item in spec.files}
        code = 0 if b"_exit(0)" in files["check.py"] else 1
        return OneShotResult(exit_code=code, stdout=b"", stderr=b"", truncated=False, timed_out=False, oom=False)

    with ScriptedSandbox(once=run) as sandbox:
        made = Engine(sandbox, "sha256:" + "5a" * 32, "s", _StoppedClock())
        results = null_results(checked, run_date=DAY, engine=lambda: made)
    assert {item.agent for item in results if item.passes} == {"hijacker"}
    assert {item.verdict for item in results if not item.passes} == {Verdict.FAIL}
    assert sum("/check-c1" in spec.label for spec in sandbox.one_shots) == 2, "one a workspace"


def test_no_engine_is_asked_for_where_something_else_stops_them() -> None:
    def never() -> Engine:
        raise AssertionError("asked")

    checked = stage(case({"kind": "command", "run": "true"}, TOTAL))
    assert {item.verdict for item in null_results(checked, run_date=DAY, engine=never)} == {Verdict.FAIL}


def test_an_engine_that_fails_says_nothing_about_the_suite() -> None:
    def broken() -> Engine:
        raise InfrastructureError("no engine")

    with pytest.raises(InfrastructureError):
        null_results(stage(case({"kind": "command", "run": "true"})), run_date=DAY, engine=broken)


def test_a_suite_without_its_skill_is_judged_all_the_same() -> None:
    alone = stage(case({"kind": "file_unchanged", "path": "orders.csv"}))._replace(skill=None)
    assert "do_nothing" in {item.agent for item in null_results(alone, run_date=DAY) if item.passes}
