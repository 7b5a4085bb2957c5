"""A realistic report: one skill of each kind that a reader meets, decided by the real decision from records."""

from __future__ import annotations

from collections.abc import Sequence

from gate.decision.state import summarise
from gate.domain.base import FallbackCount, NotRun
from gate.domain.checks import FileExists, ResponseHasHeading, ResponseNotContains, ToolCallCount
from gate.domain.findings import Finding, Level
from gate.domain.judgement import Analysis, SkillLine, Suggestion, Winner
from gate.domain.plan import Enforce, Mode, Plan
from gate.domain.report import GateReport, ModelUse, SkillRecord, SkillReport
from gate.domain.skill import ChangeKind, SkillType
from gate.domain.suite import CaseType, Suite
from tests.builders_records import RUN_DATE, case_record, check, compared, decide, expectation, skill_record

SESSION = "20260301-7f3a9c2e"


def passing() -> SkillRecord:
    """Improved by the change: three cases, all passed, two won."""
    path = "skills/weekly-report"
    heading = check("c1", parameters=ResponseHasHeading(level=2, text="Risks"), description="a level 2 heading Risks")
    secret = check(
        "c2", parameters=ResponseNotContains(pattern="internal use"), rule_ref="SKILL.md: never quote margins"
    )
    style = expectation("e1", text="Every risk names an owner and a date", rule_ref="SKILL.md: owners")
    won = compared(Winner.SKILL)
    return skill_record(
        case_record("1", name="plain week", checks=[heading, secret], expectations=[style], head=["PPP", "PPP"],
                    base=["PPP"], none=["FPF"], layer3=won, path=path),
        case_record("2", name="no risks this week", checks=[heading], head=["P", "P"], base=["P"], none=["F"],
                    layer3=won, path=path),
        case_record("3", name="conflicting numbers", checks=[secret], expectations=[style], head=["PP", "PP"],
                    base=["PP"], none=["PP"], layer3=compared(Winner.TIE), path=path),
        path=path, name="weekly-report",
    )  # fmt: skip


def failing() -> SkillRecord:
    """Broken by the change: a check that passed on base fails everywhere, also in the confirm runs."""
    path = "skills/csv-cleaner"
    written = check("c1", parameters=FileExists(path="out/clean.csv"), description="out/clean.csv is written",
                    rule_ref="SKILL.md: always write out/clean.csv")  # fmt: skip
    asked = check("c2", parameters=ToolCallCount(tool="bash", min=1))
    rows = expectation("e1", text="Duplicate rows are removed and their number is stated")
    analysis = Analysis(
        eval_id="2",
        outcome=Winner.BASELINE,
        improvement_suggestions=(
            Suggestion(
                priority="high",
                category="instructions",
                suggestion="Say again that the result goes to out/clean.csv; the new text only says \"save the result\"",
                expected_impact="the file is written",
                citation=SkillLine(path=f"{path}/SKILL.md", line=18, text="Save the result."),
            ),
        ),
        notes=("read but not followed: SKILL.md unclear",),
    )  # fmt: skip
    return skill_record(
        case_record("1", name="duplicates", checks=[written, asked], expectations=[rows],
                    head=["FPP", "FPP", "FPP~", "FPP+"], base=["PPP", "PPP~", "PPP~", "PPP+"],
                    none=["FPF", "FPF~", "FPF~", "FPF+"], layer3=compared(Winner.TIE), path=path),
        case_record("2", name="mixed encodings", checks=[asked], expectations=[rows], head=["PP", "PP"],
                    base=["PP"], none=["PF"], layer3=compared(Winner.BASELINE, analysis=analysis), path=path,
                    fallbacks=(FallbackCount(kind="reply_fenced", role="grader", count=2),)),
        path=path, name="csv-cleaner", skill_type=SkillType.CODE_EXECUTION,
        manifest_findings=(
            Finding(rule="manifest/plugin-json/path-missing", level=Level.WARNING, path=".claude-plugin/plugin.json",
                    message="skills[0] names ./skills/csv-clean, which does not exist", line=7, column=5,
                    remedy="Write ./skills/csv-cleaner."),
        ),
    )  # fmt: skip


def unsure() -> SkillRecord:
    """A must check holds in two of three runs."""
    path = "skills/tone-guide"
    tone = check("c1", parameters=ResponseNotContains(pattern="!"), description="no exclamation mark")
    return skill_record(
        case_record("1", name="angry customer", checks=[tone], head=["P", "F", "P~"], base=["P", "P~", "P~"],
                    none=["F", "P~", "F~"], layer3=compared(Winner.SKILL), path=path),
        case_record("2", name="refund", checks=[tone], head=["P", "P"], base=["P"], none=["P"],
                    layer3=compared(Winner.TIE), path=path),
        path=path, name="tone-guide",
    )  # fmt: skip


def without_evals() -> SkillRecord:
    """A new skill without a suite, with a name that tries to be Markdown."""
    return skill_record(path="skills/报告-`x`|<b>@octocat", name="notes", change=ChangeKind.ADDED, suite=None)


def blocked() -> SkillRecord:
    """Its cases need an MCP server that is not there."""
    path = "skills/issue-triage"
    return skill_record(
        case_record("1", checks=[check("c1")], planned=(0, 0, 0), blocked="MCP server github is not available", path=path),
        path=path, name="issue-triage", skill_type=SkillType.MCP_BASED,
    )  # fmt: skip


def erring() -> SkillRecord:
    """The model server was down."""
    path = "skills/translate"
    nothing = NotRun(not_run="the run did not finish")
    return skill_record(
        case_record("1", checks=[check("c1")], head=["infra_error", "infra_error"], base=["infra_error"],
                    none=["infra_error"], path=path, missing=("run 1 with_skill: connection refused after 3 tries",),
                    layer3=compared(Winner.TIE).model_copy(update={"comparison": nothing, "unblinding": None})),
        path=path, name="translate",
        errors=("The model server at 127.0.0.1:8080 does not answer. Start it, or name another with --model.",),
    )  # fmt: skip


def conditional() -> SkillRecord:
    """Everything exact passes, a should expectation does not."""
    path = "skills/changelog"
    exact = check("c1", description="a level 2 heading for the version", parameters=ResponseHasHeading(level=2))
    soft = expectation("e1", text="Breaking changes come first")
    return skill_record(
        case_record("1", name="minor release", checks=[exact], expectations=[soft], head=["PF", "PF", "PP~"],
                    base=["PP", "PF~", "PP~"], none=["PF", "PF~", "PF~"], case_type=CaseType.HAPPY_PATH,
                    layer3=compared(Winner.TIE), path=path),
        path=path, name="changelog",
        suite=Suite(path=f"{path}/evals/evals.json", dialect="skill-creator",
                    cases=(case_record("1", checks=[exact], expectations=[soft]).plan.case,)),
    )  # fmt: skip


def plan_of(*, mode: Mode = Mode.STANDARD, enforce: Enforce = Enforce.STANDARD) -> Plan:
    """The session's facts; a report needs no more of a plan."""
    return Plan(
        session_id=SESSION, mode=mode, enforce=enforce, run_date=RUN_DATE,
        base_commit="4b825dc642cb6eb9a060e54bf8d69288fbee4904", head_commit="9fceb02d0ae598e95dc970b74767f19372d61af8",
        skills=(), estimated_calls=120, estimated_tokens=240_000,
    )  # fmt: skip


def report_of(
    skills: Sequence[SkillReport], *, mode: Mode = Mode.STANDARD, enforce: Enforce = Enforce.STANDARD
) -> GateReport:
    """A report over these skills with a session's usual facts."""
    return summarise(
        plan_of(mode=mode, enforce=enforce),
        skills,
        gate_version="0.1.0",
        models="scripted, no model was called",
        sandbox="docker 27.3, network none, uid 10002",
        usage=[
            ModelUse(role="executor", model="replay:demo", calls=96, failed_calls=0, input_tokens=182_400,
                     output_tokens=21_050, cost_usd=0.0),
            ModelUse(role="grader", model="replay:demo", calls=31, failed_calls=1, input_tokens=90_210,
                     output_tokens=8_400, cost_usd=None),
        ],
        notes=["executor and judge are models of one family"],
    )  # fmt: skip


def sample_report(*, enforce: Enforce = Enforce.STANDARD) -> GateReport:
    """One skill of each kind."""
    records = (passing(), failing(), unsure(), without_evals(), blocked(), erring(), conditional())
    return report_of([decide(record, enforce=enforce) for record in records], enforce=enforce)


def quiet_report() -> GateReport:
    """Nothing to evaluate."""
    return report_of([])
