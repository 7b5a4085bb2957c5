"""Three lines that every measured skill has: who graded it, how far its runs spread, and what it gains or loses."""

from __future__ import annotations

from gate.domain.base import Severity
from gate.domain.plan import Arm
from gate.domain.report import GateReport, SkillReport
from reporters import words
from reporters.catalogue import Speech

_ONE_FAMILY = "are models of one family"
"""In the session's note about a family that judges itself (judging.md 1)."""
_LIVE = " ran the cases, "
"""In ``GateReport.models`` where models were asked."""


def fixed_lines(report: GateReport, skill: SkillReport, speech: Speech) -> tuple[str, ...]:
    """The three lines of a skill that has runs; none for another. May hold names of models and figures, nothing else."""
    if not any(item.planned for item in skill.arms):
        return ()
    return (
        speech.say("fixed.graded", who=_graded(report, skill, speech)),
        speech.say("fixed.spread", what=_spread(skill, speech)),
        speech.say("fixed.gain", none=_against_none(skill, speech), base=_against_base(skill, speech)),
    )


def _graded(report: GateReport, skill: SkillReport, speech: Speech) -> str:
    if not any(item.completed for item in skill.arms):
        return speech.say("fixed.nobody")
    rows = [item for item in skill.triage if item.severity is not Severity.INFO]
    exact = sum(item.kind == "check" for item in rows)
    if exact == len(rows):
        return speech.say("fixed.exact_only")
    model = speech.say(
        "fixed.model",
        model=_model(report, "grader") or speech.say("fixed.a_model"),
        n=len(rows) - exact,
        n_all=len(rows),
        independence=speech.say(f"fixed.{_independence(report)}"),
    )
    if not exact:
        return model
    return speech.say("fixed.and", one=speech.say("fixed.exact", n=exact, n_all=len(rows)), other=model)


def _model(report: GateReport, role: str) -> str:
    return next((use.model for use in report.usage if use.role == role), "")


def _independence(report: GateReport) -> str:
    if any(_ONE_FAMILY in note for note in report.notes):
        return "one_family"
    if report.models.startswith(words.REPLAYED):
        return "scripted"
    return "other_family" if _LIVE in report.models else "not_known"


def _spread(skill: SkillReport, speech: Speech) -> str:
    shown = []
    for item in skill.arms:
        if item.mean_rate is None:
            continue
        facts = {"arm": speech.say(f"arm.{item.arm.value}"), "mean": f"{item.mean_rate:.2f}"}
        if item.sd_rate is None:
            shown.append(speech.say("fixed.spread_one", **facts))
        else:
            shown.append(speech.say("fixed.spread_arm", **facts, sd=f"{item.sd_rate:.2f}", n=item.completed))
    return speech.say("headline.semicolon").join(shown) or speech.say("fixed.spread_unknown")


def _against_none(skill: SkillReport, speech: Speech) -> str:
    return speech.say("fixed.against_none", lift=speech.told(skill.lift))


def _against_base(skill: SkillReport, speech: Speech) -> str:
    head, base = words.arm_of(skill, Arm.WITH_SKILL), words.arm_of(skill, Arm.BASE_SKILL)
    if head is None or base is None or head.mean_rate is None or base.mean_rate is None:
        return speech.say("fixed.base_unknown")
    facts = {
        "delta": f"{head.mean_rate - base.mean_rate:+.2f}",
        "head": f"{head.mean_rate:.2f}",
        "base": f"{base.mean_rate:.2f}",
    }
    if skill.p_worse is None:
        return speech.say("fixed.against_base", **facts)
    return speech.say("fixed.against_base_p", **facts, p=f"{skill.p_worse:.3f}")
