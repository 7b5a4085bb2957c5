"""What Layer 3 found, for people: three conditions side by side, who won a case and why, advice at lines of the skill.

Nothing here moves a verdict.
"""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction

from gate.decision import figures
from gate.decision.figures import case_name
from gate.decision.triage import usable_runs
from gate.domain.base import NotRun, six_digits
from gate.domain.findings import Finding, Level
from gate.domain.judgement import NO_GAIN, Analysis, Cause, Comparison, Suggestion, Winner
from gate.domain.numbers import plural
from gate.domain.plan import Arm
from gate.domain.report import CaseRecord, Condition

CONDITIONS = (
    (Arm.WITHOUT_SKILL, "without a skill"),
    (Arm.WITH_SKILL, "curated skill"),
    (Arm.SELF_GENERATED, "self-generated skill"),
)
"""The source's three conditions (R70): A, B and C."""


def conditions_of(cases: Sequence[CaseRecord]) -> tuple[Condition, ...]:
    """Pass rates of the three conditions over the cases of a suite, and the lift of each over running without a skill.

    Rates are means over cases of the rates over runs, of the same assertions as the lift (``figures.lift_of``). A
    condition that did not run says so. Empty where nothing ran.
    """
    found = tuple(_condition(cases, arm, name) for arm, name in CONDITIONS)
    return found if any(item.runs for item in found) else ()


def _condition(cases: Sequence[CaseRecord], arm: Arm, name: str) -> Condition:
    rates = [rate for case in cases if (rate := figures.rate_of(cases, case, arm)) is not None]
    lift = figures.lift_of(cases, arm) if arm is not Arm.WITHOUT_SKILL else None
    runs = sum(len(usable_runs(case, arm)) for case in cases)
    absent = None if rates else figures.arm_skipped(cases, arm) or "no run of it finished"
    return Condition(
        name=name,
        arm=arm,
        passed=figures.add(figures.share_of(cases, case, arm) for case in cases),
        cases=len(rates),
        runs=runs,
        rate=_rounded(sum(rates, Fraction(0)) / len(rates)) if rates else None,
        lift=_rounded(lift.delta) if lift is not None else None,
        lift_cases=lift.cases if lift is not None else 0,
        absent=absent,
    )


def _rounded(value: Fraction) -> float:
    return six_digits(float(value))


def comparison_detail(case: CaseRecord) -> str:
    """Scores, counts and doubts of a comparison whose labels were opened, in one line; empty where there is none."""
    comparison, opened = case.layer3.comparison, case.layer3.unblinding
    if figures.outcome_of(case) is None or not isinstance(comparison, Comparison) or opened is None:
        return ""
    other = "B" if opened.with_skill == "A" else "A"
    pairs = comparison.pairs
    scores = [comparison.rubric.get(label, {}).get("overall_score") for label in (opened.with_skill, other)]
    words = [f"{scores[0]:.1f} with, {scores[1]:.1f} without, of 10"] if None not in scores else []
    judges = "two judges, " if any(order.second_family for pair in pairs for order in pair.orders) else ""
    words.append(f"{len(pairs)} {plural(len(pairs), 'pair')} of runs, {judges}both orders")
    words += [f"{text} in {count}" for text, count in _doubts(comparison) if count]
    leaks = sorted({rule for pair in pairs for rule in pair.leaks})
    if leaks:
        words.append(f"blindness risk: {', '.join(leaks)} taken out")
    return "; ".join(words)


def _doubts(comparison: Comparison) -> list[tuple[str, int]]:
    pairs = comparison.pairs
    return [
        ("position_unstable", sum(pair.position_unstable for pair in pairs)),
        ("judges of two families split", sum(pair.split for pair in pairs)),
        ("an output addresses a judge and cannot win", sum(bool(pair.speaks_to_a_judge) for pair in pairs)),
        (
            "differences without a found quote, counted as 1,",
            sum(bool(o.unquoted) for pair in pairs for o in pair.orders),
        ),
    ]


def analysis_lines(case: CaseRecord, folder: str) -> tuple[str, ...]:
    """The analysis of a case in sentences, most telling first; empty where there is none."""
    analysis = case.layer3.analysis
    if not isinstance(analysis, Analysis):
        return ()
    strong, weak = {
        Winner.SKILL: ("better with the skill", "worse without"),
        Winner.BASELINE: ("better without the skill", "worse with it"),
        Winner.TIE: ("both did well", "both missed"),
    }[analysis.outcome]
    lines = [f"{strong}: {_cause(item, folder)}" for item in analysis.winner_strengths]
    lines += [f"{weak}: {_cause(item, folder)}" for item in analysis.loser_weaknesses]
    following = analysis.instruction_following
    if following is not None:
        for name, item in (("with the skill", following.with_skill), ("without", following.without_skill)):
            issues = f": {'; '.join(item.issues)}" if item.issues else ""
            lines.append(f"instruction following {name} {item.score} of 10{issues}")
    insights = analysis.transcript_insights
    for name, text in (
        ("with the skill", insights.with_skill_execution_pattern),
        ("without", insights.without_skill_execution_pattern),
    ):
        if text:
            lines.append(f"how the agent worked {name}: {text}")
    return tuple(lines)


def _cause(item: Cause, folder: str) -> str:
    return item.text + (f" ({place_name(item, folder)})" if item.citation is not None else "")


def place_name(item: Cause | Suggestion, folder: str) -> str:
    """``SKILL.md line 12``: the line that something is about, from the skill's own folder; empty where there is none."""
    if item.citation is None:
        return ""
    return f"{item.citation.path.removeprefix(f'{folder}/')} line {item.citation.line}"


def case_notes(case: CaseRecord) -> tuple[str, ...]:
    """The sentences that code makes of an outcome, with those of the analysis where there is one."""
    analysis = case.layer3.analysis
    notes = () if isinstance(analysis, NotRun) else analysis.notes
    tie = (NO_GAIN,) if figures.outcome_of(case) is Winner.TIE else ()
    return tuple(dict.fromkeys((*tie, *notes)))


def advice_findings(cases: Sequence[CaseRecord]) -> tuple[Finding, ...]:
    """Suggestions that are about a line of the skill, as findings at that line: notices, which decide nothing."""
    found: dict[tuple[str, int, str, str], list[str]] = {}
    texts: dict[tuple[str, int, str, str], Suggestion] = {}
    for case in cases:
        analysis = case.layer3.analysis
        if isinstance(analysis, NotRun):
            continue
        for item in analysis.improvement_suggestions:
            if item.citation is not None:
                key = (item.citation.path, item.citation.line, item.category, item.suggestion)
                found.setdefault(key, []).append(case_name(case))
                texts.setdefault(key, item)
    return tuple(
        Finding(
            rule=f"analyzer/{category.replace('_', '-')}",
            level=Level.NOTICE,
            path=path,
            line=line,
            message=(
                f"a suggestion of the analyzer ({texts[key].priority}): {suggestion.rstrip(' .')}; expected: "
                f"{texts[key].expected_impact.rstrip(' .')} [{', '.join(dict.fromkeys(found[key]))}]"
            ),
        )
        for key in sorted(found, key=lambda key: (key[0], key[1], key[2], key[3]))
        for path, line, category, suggestion in (key,)
    )
