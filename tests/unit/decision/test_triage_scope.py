"""Checks that are asked of some arms only, and failures that a known issue excuses."""

from __future__ import annotations

from gate.decision.further import needs_confirm, undecided
from gate.decision.triage import case_passed, describe_check, triage_case
from gate.domain.base import Severity
from gate.domain.checks import Check, KnownIssue, OracleCommand, SkillOpened, ToolCallCount, ToolCallForbidden
from gate.domain.judgement import CheckResult
from gate.domain.plan import Arm
from gate.domain.report import CaseRecord, JudgedRun, Share
from tests.builders_records import case_record, check, decide, skill_record

ISSUE = KnownIssue(reason="ticket 12", expires="2026-12-31")


def excused(case: CaseRecord, check_id: str) -> CaseRecord:
    """As Layer 2a hands a case on: failures of a check with a known issue only inform."""

    def one(run: JudgedRun) -> JudgedRun:
        checks = run.judgement.checks
        assert isinstance(checks, tuple)
        rows: tuple[CheckResult, ...] = tuple(
            row.model_copy(update={"severity": Severity.INFO})
            if row.check_id == check_id and row.status.value == "failed"
            else row
            for row in checks
        )
        return run.model_copy(update={"judgement": run.judgement.model_copy(update={"checks": rows})})

    return case.model_copy(update={"runs": tuple(map(one, case.runs))})


def test_a_check_that_is_not_asked_of_an_arm_is_no_missing_verdict_there() -> None:
    scoped = check("c2").model_copy(update={"arms": ("with_skill",)})
    case = case_record(checks=[check("c1"), scoped], head=["PP", "PP"], none=["P-", "P-"], base=["F-", "F-"])
    assert case_passed(case) is True
    assert case_passed(case, Arm.WITHOUT_SKILL) is True
    assert case_passed(case, Arm.BASE_SKILL) is False
    row = next(item for item in triage_case(case) if item.assertion_id == "c2")
    assert (row.with_skill, row.without_skill) == (Share(passed=2, total=2), Share(passed=0, total=0))


def test_a_case_that_is_asked_of_one_arm_only_says_nothing_of_the_others() -> None:
    opened = check("c1", parameters=SkillOpened())
    case = case_record(checks=[opened], head=["P", "P"], none=["-", "-"])
    assert case_passed(case) is True
    assert case_passed(case, Arm.WITHOUT_SKILL) is None


def test_without_a_scope_a_missing_verdict_stays_one() -> None:
    case = case_record(checks=[check("c1"), check("c2")], head=["PP"], none=["P-", "P-"])
    assert case_passed(case, Arm.WITHOUT_SKILL) is None


def test_an_excused_failure_decides_nothing_and_a_pass_beside_it_still_counts() -> None:
    known = check("c2").model_copy(update={"known_issue": ISSUE})
    failing = case_record(checks=[check("c1"), known], head=["PF", "PF"])
    assert case_passed(failing) is False
    assert case_passed(excused(failing, "c2")) is True
    assert undecided(excused(failing, "c2")) is None
    assert needs_confirm(excused(failing, "c2")) is None
    only = case_record(checks=[known.model_copy(update={"id": "c1"})], head=["F", "F"])
    assert case_passed(excused(only, "c1")) is None, "nothing is left that could decide"


def test_a_known_issue_excuses_no_other_check_and_no_crash() -> None:
    known = check("c2").model_copy(update={"known_issue": ISSUE})
    other = case_record(checks=[check("c1"), known], head=["FF", "FF"])
    assert case_passed(excused(other, "c2")) is False
    crashed = case_record(checks=[known.model_copy(update={"id": "c1"})], head=["timeout", "timeout"])
    assert case_passed(crashed) is False


def test_a_check_is_described_without_the_contents_of_its_files() -> None:
    oracle = Check(id="c1", parameters=OracleCommand(files={"a.py": "print('the answer')"}, script="a.py"))
    assert describe_check(oracle) == "oracle_command: script 'a.py'"
    assert describe_check(Check(id="c1", parameters=ToolCallCount(tool="t", max=0))) == (
        "tool_call_count: max 0, tool 't'"
    )


def test_a_tool_that_a_must_check_forbids_fails_the_skill_at_once_unless_a_known_issue_excuses_it() -> None:
    forbidden = check("c1", parameters=ToolCallForbidden(tools=("send_mail", "mcp__mail__*")))
    called = case_record(checks=[forbidden], head=["F", "P", "P"])
    (reason, *_) = decide(skill_record(called)).reasons
    assert reason.startswith("V2: eval 1: forbidden tool send_mail or mcp__mail__* was called in with_skill run 1: ")

    known = forbidden.model_copy(update={"known_issue": ISSUE})
    excused_case = excused(case_record(checks=[known], head=["F", "P", "P"]), "c1")
    assert not [reason for reason in decide(skill_record(excused_case)).reasons if reason.startswith("V2")]
