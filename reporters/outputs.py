"""What the Action hands to later steps: always the same keys, each a short plain value."""

from __future__ import annotations

import json
from collections.abc import Mapping

from gate.domain.report import GateReport, State, Verdict

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
)
"""Every one of them is written whatever happened: a later step can't tell an output that is missing from one that is empty."""
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
) -> dict[str, str]:
    """All outputs. ``report`` None: there is none (``state`` error), or nothing was judged.

    ``verdict`` is the worst verdict of a skill, ``none`` without skills, ``error`` or ``not_measured`` without a report.
    ``skills`` is a JSON object of path and verdict, ``changed-skills`` a JSON list of paths, both worst verdict first.
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
        "headline": " ".join(headline.split()),
        "skills": _object({skill.path: skill.verdict.value for skill in skills}),
        "changed-skills": _list(changed),
        "report": report_path,
        "bundle": bundle_path,
        "comment-url": comment_url,
    }
    return {key: values[key] for key in KEYS}


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
