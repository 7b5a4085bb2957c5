"""Words and figures that the comment and the page share. Plain text; nothing here is escaped."""

from __future__ import annotations

from collections.abc import Iterable

from gate.domain.base import FallbackCount, Severity
from gate.domain.findings import Finding
from gate.domain.plan import Arm
from gate.domain.report import (
    ArmFigures,
    AssertionTriage,
    CaseReport,
    GateReport,
    ModelUse,
    Share,
    SkillReport,
    Verdict,
)

ARM_NAMES = {Arm.WITH_SKILL: "with skill", Arm.WITHOUT_SKILL: "without", Arm.BASE_SKILL: "base version"}
VERDICT_NAMES = {
    Verdict.PASS: "PASS",
    Verdict.CONDITIONAL: "CONDITIONAL",
    Verdict.INCONCLUSIVE: "INCONCLUSIVE",
    Verdict.FAIL: "FAIL",
    Verdict.INVALID: "INVALID",
    Verdict.ERROR: "ERROR",
    Verdict.BLOCKED: "BLOCKED",
    Verdict.NO_EVALS: "NO EVALS",
    Verdict.NOT_MEASURED: "NOT MEASURED",
}
FIGURES_LEGEND = "Figures: checks and expectations passed of all, over the finished of the planned runs."
VERIFY_HINT = "skill-gate verify DIR"
NO_FALLBACKS = "None: reply tiers, rejected quotes, retries, dropped runs, skipped arms, voided batches are all 0."


def share(value: Share) -> str:
    """``5/6``, or a dash where nothing was tried."""
    return f"{value.passed}/{value.total}" if value.total else "–"  # noqa: RUF001 - a dash in a table cell


def things(skill: SkillReport) -> str:
    """What the assertions of a skill are, in one word."""
    kinds = sorted({item.kind for item in skill.triage if item.severity is not Severity.INFO})
    return f"{kinds[0]}s" if len(kinds) == 1 else "assertions"


def arm_of(skill: SkillReport, arm: Arm) -> ArmFigures | None:
    """The figures of one arm."""
    return next((item for item in skill.arms if item.arm is arm), None)


def arm_cell(skill: SkillReport, arm: Arm) -> str:
    """``5/6 checks in 2/2 runs`` (finished of planned); ``not run`` where no run of the arm was planned."""
    figures = arm_of(skill, arm)
    if figures is None or not figures.planned:
        return "not run"
    runs = f"{figures.finished}/{figures.planned} runs"
    if not figures.assertions.total:
        return f"{runs} finished"
    return f"{share(figures.assertions)} {things(skill)} in {runs}"


def lift_cell(skill: SkillReport) -> str:
    """The difference alone; the sentence with its rates is in the details."""
    first = skill.lift.split(" ", 1)[0]
    return first if first[:1] in ("+", "-") else "not computed"


def change_words(skill: SkillReport) -> str:
    """``modified, code_execution``."""
    return f"{skill.change}, {skill.type}"


def rate(value: float | None, digits: int = 2) -> str:
    """A number, or a dash where it is unknown."""
    return "–" if value is None else f"{value:.{digits}f}"  # noqa: RUF001 - a dash in a table cell


def spread(figures: ArmFigures) -> str:
    """Mean and sample standard deviation of the rate over runs."""
    if figures.mean_rate is None:
        return "–"  # noqa: RUF001 - a dash in a table cell
    sd = "" if figures.sd_rate is None else f" ± {figures.sd_rate:.2f}"
    return f"{figures.mean_rate:.2f}{sd}"


def tokens(value: float | None) -> str:
    """Thousands separated, or ``unknown``."""
    return "unknown" if value is None else f"{value:,.0f}"


def dollars(value: float | None) -> str:
    """``$0.0123``, or ``unknown``: never a zero for what is not known."""
    if value is None:
        return "unknown"
    return f"${value:.2f}" if value >= 1 or value == 0 else f"${value:.4f}"


def place(finding: Finding) -> str:
    """``path:line:column`` as far as known."""
    text = finding.path
    if finding.line is not None:
        text += f":{finding.line}" + (f":{finding.column}" if finding.column is not None else "")
    return text


def finding_text(finding: Finding) -> str:
    """What was found, then what to do."""
    if not finding.remedy:
        return finding.message
    return f"{finding.message.rstrip(' .')}. {finding.remedy}"


def case_title(case: CaseReport) -> str:
    """Id and name of a case."""
    return f"{case.eval_id} {case.name}".strip()


def passed_word(case: CaseReport) -> str:
    """``passed``, ``not passed``, or that it could not be said."""
    return {True: "passed", False: "not passed", None: "no verdict"}[case.passed]


def comparison_word(case: CaseReport) -> str:
    """The winner of Layer 3 in words."""
    words = {"skill_wins": "skill wins", "baseline_wins": "baseline wins", "tie": "TIE"}
    return words.get(case.comparison, case.comparison)


def assertion_title(item: AssertionTriage) -> str:
    """Severity, kind and id."""
    return f"{item.severity.value} {item.kind} {item.assertion_id}"


def fallback_words(count: FallbackCount) -> str:
    """``grader: reply_fenced: 2``."""
    role = f"{count.role}: " if count.role else ""
    return f"{role}{count.kind}: {count.count}"


INTENDED = ("reply_native", "reply_whole")
"""Kinds that are counted with the fallbacks (DESIGN.md 9, the tier of every reply) and are none themselves."""


def fallback_total(counts: Iterable[FallbackCount]) -> int:
    """How often something went another way than intended."""
    return sum(item.count for item in counts if item.kind not in INTENDED)


def usage_cells(use: ModelUse) -> tuple[str, ...]:
    """role, model, calls, failed calls, tokens in, tokens out, cost."""
    return (
        use.role,
        use.model,
        str(use.calls),
        str(use.failed_calls),
        tokens(use.input_tokens),
        tokens(use.output_tokens),
        dollars(use.cost_usd),
    )


def total_cost(report: GateReport) -> str:
    """Sum over roles; ``unknown`` as soon as one is."""
    costs = [use.cost_usd for use in report.usage]
    known = [cost for cost in costs if cost is not None]
    if not costs:
        return "$0.00"
    if len(known) == len(costs):
        return dollars(sum(known))
    least = sum(use.known_cost_usd for use in report.usage)
    return f"at least {dollars(least)}, part of it unknown" if least else "unknown"


def commits(report: GateReport) -> str:
    """``base..head``, shortened; what is not known is said."""
    base = report.base_commit[:12] if report.base_commit else "no base"
    head = report.head_commit[:12] if report.head_commit else "no head"
    return f"{base}..{head}"


def verdict_counts(report: GateReport) -> str:
    """``1 FAIL, 2 PASS``, in the order of the report."""
    seen: dict[Verdict, int] = {}
    for skill in report.skills:
        seen[skill.verdict] = seen.get(skill.verdict, 0) + 1
    return ", ".join(f"{count} {VERDICT_NAMES[verdict]}" for verdict, count in seen.items())
