"""What the page shows beside the report's own tables: plots of its figures, and two arms' answers side by side."""

from __future__ import annotations

import difflib
from collections.abc import Sequence
from typing import NamedTuple

from gate.domain.judgement import CRITERIA
from gate.domain.plan import COMPARED_ARMS, Arm
from gate.domain.report import CaseReport, GateReport, RunEvidence, Share, SkillReport, Verdict
from reporters import words
from reporters.plots import Bar, bars, dots

__all__ = ["CRITERIA", "case_plots", "difference", "overview_plots", "short", "sides", "worst_first"]

PLOTTED_SKILLS = 40
"""Rows of a plot over skills; the table beside it has all of them. Those that did not pass come first."""
PLOTTED_CASES = 30
CASE_PLOTS = 10
"""Skills with a plot of their own: drawing takes a tenth of a second each."""
DIFF_LINES = 400
REASON_CHARACTERS = 320


class Plot(NamedTuple):
    """A plot with its words. The figures of every plot stand in a table of the page too."""

    title: str
    svg: str
    """Markup of our own."""
    note: str


class Side(NamedTuple):
    """One arm's answer to a case."""

    run: RunEvidence
    title: str
    text: str


class DiffLine(NamedTuple):
    """A line of one answer or both: ``=`` stands in both, ``-`` in the first only, ``+`` in the second only."""

    mark: str
    text: str


def short(reason: str) -> str:
    """The beginning of a reason: the first table is there to be seen at once, and the whole text stands below it."""
    return reason if len(reason) <= REASON_CHARACTERS else f"{reason[:REASON_CHARACTERS].rstrip()} …"


def overview_plots(report: GateReport) -> list[Plot]:
    """Plots over all skills; those without a figure are left out."""
    skills = worst_first(report.skills)[:PLOTTED_SKILLS]
    left = len(report.skills) - len(skills)
    rest = f" {left} more skills are in the table only." if left else ""
    found = [_rates(skills, rest), _tokens(skills, rest), _roles(report), _health(skills, rest), _fallbacks(report)]
    return [plot for plot in found if plot is not None]


def worst_first(skills: Sequence[SkillReport]) -> list[SkillReport]:
    """Those that did not pass, then those that did, each in the order of the report."""
    return sorted(skills, key=lambda skill: skill.verdict is Verdict.PASS)


def case_plots(report: GateReport) -> dict[str, Plot]:
    """By slug: the lift of every case, of the first skills that have one."""
    found: dict[str, Plot] = {}
    for skill in worst_first(report.skills):
        if len(found) == CASE_PLOTS:
            break
        if (plot := _lifts(skill, f"lift-{len(found)}")) is not None:
            found[skill.slug] = plot
    return found


def sides(skill: SkillReport, case: CaseReport) -> list[Side]:
    """The answers of a case that the report holds: with the skill first, then what it is compared with."""
    return [
        Side(run, words.run_title(run), run.answer)
        for arm in COMPARED_ARMS
        for run in skill.evidence
        if run.arm is arm and run.eval_id == case.eval_id and run.answer is not None and _of(case, run)
    ][:3]


def _of(case: CaseReport, run: RunEvidence) -> bool:
    """Base and head may have cases of one id; their folders differ."""
    return run.folder.startswith(f"{case.folder}/")


def difference(first: str, second: str) -> list[DiffLine]:
    """Two answers line by line, as much as ``DIFF_LINES`` shows."""
    ours, theirs = first.splitlines(), second.splitlines()
    lines: list[DiffLine] = []
    for tag, a, b, c, d in difflib.SequenceMatcher(None, ours, theirs, autojunk=False).get_opcodes():
        if tag == "equal":
            lines += [DiffLine("=", text) for text in ours[a:b]]
        else:
            lines += [DiffLine("-", text) for text in ours[a:b]]
            lines += [DiffLine("+", text) for text in theirs[c:d]]
    return lines[:DIFF_LINES]


def _rates(skills: Sequence[SkillReport], rest: str) -> Plot | None:
    arms = [arm for arm in COMPARED_ARMS if any(_rate(skill, arm) is not None for skill in skills)]
    rows = [
        Bar(skill.path, tuple(_rate(skill, arm) for arm in arms), tuple(_interval(skill, arm) for arm in arms))
        for skill in skills
        if any(_rate(skill, arm) is not None for arm in arms)
    ]
    if not rows:
        return None
    svg = dots(
        "rates",
        rows,
        [words.ARM_NAMES[arm] for arm in arms],
        axis="share of checks and expectations passed",
        low=0,
        high=1,
    )
    note = f"Lines: 95 % interval over cases, where there are two or more.{rest}"
    return Plot("Passed, by skill and arm", svg, note)


def _rate(skill: SkillReport, arm: Arm) -> float | None:
    figures = words.arm_of(skill, arm)
    return None if figures is None else figures.assertions.rate


def _interval(skill: SkillReport, arm: Arm) -> tuple[float, float] | None:
    figures = words.arm_of(skill, arm)
    return None if figures is None else figures.assertions_interval


def _tokens(skills: Sequence[SkillReport], rest: str) -> Plot | None:
    arms = [Arm.WITH_SKILL, Arm.WITHOUT_SKILL]
    rows = []
    for skill in skills:
        figures = [words.arm_of(skill, arm) for arm in arms]
        values = tuple(None if item is None else item.mean_tokens for item in figures)
        if any(value is not None for value in values):
            rows.append(Bar(skill.path, values))
    if not rows:
        return None
    svg = bars("tokens", rows, [words.ARM_NAMES[arm] for arm in arms], axis="tokens per run, mean")
    return Plot("What a run costs", svg, f"An arm without a bar has no run whose tokens are known.{rest}")


def _roles(report: GateReport) -> Plot | None:
    rows = [
        Bar(f"{use.role} ({use.calls} calls)", (float(use.known_input_tokens), float(use.known_output_tokens)))
        for use in report.usage
        if use.known_input_tokens or use.known_output_tokens
    ]
    if not rows:
        return None
    svg = bars("roles", rows, ["tokens in", "tokens out"], axis="tokens of this session, as far as known")
    return Plot("Who used the models", svg, f"Cost: {words.total_cost(report)}.")


def _health(skills: Sequence[SkillReport], rest: str) -> Plot | None:
    rows = [
        Bar(
            f"{skill.path} ({skill.known_true.total}+{skill.known_false.total})",
            (skill.known_true.rate, skill.known_false.rate),
        )
        for skill in skills
        if skill.known_true.total or skill.known_false.total
    ]
    if not rows:
        return None
    svg = dots(
        "health",
        rows,
        ["known-true ones passed", "known-false ones refused"],
        axis="share of controls",
        low=0,
        high=1,
    )
    note = (
        f"Controls are sentences whose truth code knows; how many of each were answered stands behind the path.{rest}"
    )
    return Plot("Whether the judge can be believed", svg, note)


def _fallbacks(report: GateReport) -> Plot | None:
    counted = [item for item in report.fallbacks if words.fallback_total([item])]
    rows = [Bar(f"{item.role}: {item.kind}" if item.role else item.kind, (float(item.count),)) for item in counted]
    if not rows:
        return None
    rows.sort(key=lambda row: -(row.values[0] or 0))
    svg = bars("fallbacks", rows[:PLOTTED_CASES], ["times"], axis="times that something went another way than intended")
    return Plot("Fallbacks", svg, "Every other kind: 0.")


def _lifts(skill: SkillReport, name: str) -> Plot | None:
    cases = [case for case in skill.cases if case.lift_interval is not None]
    if not cases:
        return None
    rows = []
    for case in cases[:PLOTTED_CASES]:
        with_skill = case.passed_runs.get(Arm.WITH_SKILL, Share(passed=0, total=0))
        without = case.passed_runs.get(Arm.WITHOUT_SKILL, Share(passed=0, total=0))
        lift = (with_skill.rate or 0) - (without.rate or 0)
        label = f"{words.case_title(case)} ({words.share(with_skill)} : {words.share(without)})"
        rows.append(Bar(label, (lift,), (case.lift_interval,)))
    left = len(cases) - len(rows)
    more = f" {left} more cases are in the table only." if left else ""
    svg = dots(name, rows, ["lift"], axis="runs that passed: share with the skill minus share without", low=-1, high=1)
    note = (
        f"Behind each case: runs passed with : without. Lines: 95 % interval (Newcombe); few runs make it wide.{more}"
    )
    return Plot("Lift of each case", svg, note)
