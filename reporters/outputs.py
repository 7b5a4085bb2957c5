"""What the Action hands to later steps: always the same keys, each a short plain value."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping

from gate.domain.findings import Level
from gate.domain.plan import Arm
from gate.domain.report import GateReport, Share, SkillReport, State, Verdict
from reporters.catalogue import Speech
from reporters.headline import headline as told_headline

KEYS = (
    "verdict",
    "state",
    "exit-code",
    "headline",
    "skills",
    "changed-skills",
    "report",
    "bundle",
    "comment-url",
    "status",
    "release_status",
    "exit_code",
    "report_html",
    "session_report_html",
    "diagnostic_categories",
    "timing_hints",
    "authoritative_pass_rate",
    "grade",
    "exact_pass_rate",
    "delta",
    "eval_count",
)
"""Every one of them is written whatever happened: a later step can't tell an output that is missing from one that is empty.

From ``status`` on they are those of both generations of SkillSentry's action (origins-and-formats.md 1.9), so that workflows
that read them go on; ``verdict`` is the one name that both have.
"""
GRADES = "SABCDF"
"""Best first."""
NO_SKILLS = "none"
"""The verdict where there is nothing to evaluate."""
LIST_BYTES = 60_000
"""Longest JSON text of an output; GitHub takes 1 MiB for all of a job. Skills beyond it are left out, the best ones first."""


def outputs(
    report: GateReport | None,
    *,
    state: State,
    exit_code: int,
    headline: str,
    report_path: str = "",
    bundle_path: str = "",
    comment_url: str = "",
    page_path: str = "",
) -> dict[str, str]:
    """All outputs. ``report`` None: there is none (``state`` error), or nothing was judged.

    ``verdict`` is the worst verdict of a skill, ``none`` without skills, ``error`` or ``not_measured`` without a report.
    ``skills`` is a JSON object of path and verdict, ``changed-skills`` a JSON list of paths, both worst verdict first.
    ``page_path``: of report.html. Rates are shares from 0 to 1 over all skills, empty where nothing was counted.
    """
    skills = report.skills if report else ()
    if report is not None:
        verdict = skills[0].verdict.value if skills else NO_SKILLS
    else:
        verdict = Verdict.ERROR.value if state is State.ERROR else Verdict.NOT_MEASURED.value
    changed = [skill.path for skill in skills if skill.change != "unchanged"]
    values = {
        "verdict": verdict,
        "state": state.value,
        "exit-code": str(exit_code),
        "headline": " ".join(_told(report, headline).split()),
        "skills": _object({skill.path: skill.verdict.value for skill in skills}),
        "changed-skills": _list(changed),
        "report": report_path,
        "bundle": bundle_path,
        "comment-url": comment_url,
        **_as_before(report, state, str(exit_code), page_path),
    }
    return {key: values[key] for key in KEYS}


def _told(report: GateReport | None, headline: str) -> str:
    """The line in the report's language, where it is the report's."""
    own = report is not None and headline == report.headline
    return told_headline(report, Speech(report.language)) if own and report is not None else headline


def _as_before(report: GateReport | None, state: State, exit_code: str, page: str) -> dict[str, str]:
    """The outputs that workflows of the earlier action read."""
    skills = report.skills if report else ()
    word = _word(report, state)
    grades = [skill.release_grade for skill in skills if skill.release_grade]
    findings = [*(report.session_findings if report else ()), *(item for skill in skills for item in skill.findings)]
    kinds = sorted({item.rule.partition("/")[0] for item in findings if item.level is not Level.NOTICE})
    seconds = {skill.path: str(round(_seconds(skill))) for skill in skills if skill.arms}
    with_skill = _pooled(arm.assertions for skill in skills for arm in skill.arms if arm.arm is Arm.WITH_SKILL)
    without = _pooled(arm.assertions for skill in skills for arm in skill.arms if arm.arm is Arm.WITHOUT_SKILL)
    delta = None if with_skill is None or without is None else with_skill - without
    return {
        "status": word.lower().removesuffix(" pass"),
        "release_status": word,
        "exit_code": exit_code,
        "report_html": page,
        "session_report_html": page,
        "diagnostic_categories": _list(kinds),
        "timing_hints": _object(seconds),
        "authoritative_pass_rate": _number(_pooled(skill.authoritative for skill in skills)),
        "grade": max(grades, key=GRADES.index) if grades else "",
        "exact_pass_rate": _number(_pooled(skill.source_rate for skill in skills)),
        "delta": _number(delta),
        "eval_count": str(sum(len(skill.cases) for skill in skills)),
    }


def _word(report: GateReport | None, state: State) -> str:
    """Advice lets a change through, and so the state; what is called a pass here is one, or was let through by name."""
    verdicts = {skill.verdict for skill in report.skills} if report is not None and report.override is None else set()
    if state is State.ERROR:
        return "ERROR"
    if state is State.FAILURE or verdicts & {Verdict.FAIL, Verdict.INVALID}:
        return "FAIL"
    if Verdict.ERROR in verdicts:
        return "ERROR"
    if state is State.PENDING:
        return "PENDING"
    passed = report is not None and all(skill.verdict is Verdict.PASS for skill in report.skills)
    return "PASS" if passed else "CONDITIONAL PASS"


def _pooled(shares: Iterable[Share]) -> float | None:
    listed = list(shares)
    return Share(passed=sum(one.passed for one in listed), total=sum(one.total for one in listed)).rate


def _seconds(skill: SkillReport) -> float:
    """Of all finished runs of a skill together."""
    return sum((arm.mean_seconds or 0.0) * arm.finished for arm in skill.arms)


def _number(value: float | None) -> str:
    return "" if value is None else f"{value:.4f}"


def _object(pairs: Mapping[str, str]) -> str:
    kept: dict[str, str] = {}
    room = LIST_BYTES
    for key, value in pairs.items():
        room -= len(json.dumps(key)) + len(json.dumps(value)) + 4
        if room < 0:
            break
        kept[key] = value
    return json.dumps(kept)


def _list(items: list[str]) -> str:
    kept: list[str] = []
    room = LIST_BYTES
    for item in items:
        room -= len(json.dumps(item)) + 2
        if room < 0:
            break
        kept.append(item)
    return json.dumps(kept)
