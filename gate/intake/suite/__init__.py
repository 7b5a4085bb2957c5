"""A skill's evals: found in its folder, read in every dialect, united into one Suite."""

from __future__ import annotations

import posixpath

from gate.domain.findings import Finding, Level
from gate.domain.skill import Skill, SkillFile
from gate.domain.suite import Case, Suite
from gate.intake.notes import Notes, joined, short
from gate.intake.suite import evals_json, skill_gate_yaml
from gate.intake.suite.removals import suite_removals
from gate.intake.suite.skill_gate_yaml import Read

__all__ = ["is_suite_file", "read_suite", "suite_removals"]

MAX_SUITE_BYTES = 8 * 1024 * 1024

_PLACES = (*(f"evals/{name}" for name in skill_gate_yaml.FILE_NAMES), "evals/evals.json", evals_json.FILE_NAME)
"""In the order of precedence, compared without case."""
_FOLDERS = ("evals", "eval", "evaluations")
_EVAL_ENDS = (".json", ".jsonl", ".yaml", ".yml", ".csv", ".cases.md")
_EVAL_NAMES = (
    "eval.yaml", "eval.yml", "evals.yaml", "evals.yml", "evals.jsonl", "eval_set.json", "eval_queries.json",
    "trigger_eval.json", "trigger-eval.json", "skill-gate.yaml", "skill-gate.yml",
)  # fmt: skip


def is_suite_file(path: str) -> bool:
    """Whether a path in a skill folder is of its evals: a suite, or anything in an evals folder that a case may name."""
    return path.split("/", maxsplit=1)[0].lower() in _FOLDERS or path.lower() in _PLACES or _looks_like_evals(path)


def read_suite(skill: Skill) -> tuple[Suite | None, tuple[Finding, ...]]:
    """The suite of a skill, or None where it has no case that can be run. Never raises.

    Looked for: ``evals/skill-gate.yaml`` (or ``.yml``), ``evals/evals.json``, ``evals.json``; cases of all are united,
    and the file named first wins an id that two files use. A finding that blocks means that the suite cannot be judged
    by as its author wrote it. Files that look like evals and are not read are named, never passed over.
    """
    found = {file.path.lower(): file for file in skill.files if file.path.lower() in _PLACES}
    findings: list[Finding] = []
    read: list[tuple[SkillFile, Read]] = []
    for place in _PLACES:
        if place in found:
            notes = Notes(joined(skill.path, found[place].path), "suite")
            read.append((found[place], _read(found[place], skill, notes)))
            findings += notes.items
    others = Notes(joined(skill.path, "evals"), "suite")
    fixtures = {fixture.data for _, item in read for case in item.cases for fixture in case.files}
    _unread(skill, {file.path for file in found.values()}, fixtures, others)
    findings += others.items
    if not read:
        return None, tuple(findings)
    notes = Notes(joined(skill.path, read[0][0].path), "suite")
    cases = _united(read, notes)
    if not cases and not any(item.level is Level.ERROR for item in findings):
        notes.warn(
            "no-case",
            "the suite holds no case that can be run, so it is no evidence",
            remedy="Add a case with a prompt and a check or an expectation.",
        )
    findings += notes.items
    if not cases:
        return None, tuple(findings)
    first_file, first = next((file, item) for file, item in read if item.cases)
    return Suite(path=joined(skill.path, first_file.path), dialect=first.dialect, cases=cases), tuple(findings)


def _read(file: SkillFile, skill: Skill, notes: Notes) -> Read:
    nothing = Read("agentskills", (), frozenset())
    if not file.is_regular:
        notes.block("link", "the suite is a link; links are never followed", remedy="Commit a plain file.")
        return nothing
    if file.size_bytes > MAX_SUITE_BYTES or file.size_bytes != len(file.data):
        notes.block("too-large", f"the suite has {file.size_bytes} bytes; at most {MAX_SUITE_BYTES} are read")
        return nothing
    name = posixpath.basename(file.path).lower()
    if name in skill_gate_yaml.FILE_NAMES:
        return skill_gate_yaml.read(file, skill, notes)
    return evals_json.read(file, skill, notes)


def _united(read: list[tuple[SkillFile, Read]], notes: Notes) -> tuple[Case, ...]:
    """All cases. An id that nobody chose gives way, so that no case is lost by it."""
    cases: dict[str, Case] = {}
    winners: dict[str, str] = {}
    for file, item in read:
        twice = []
        for case in item.cases:
            if case.eval_id not in cases:
                cases[case.eval_id], winners[case.eval_id] = case, file.path
            elif case.eval_id in item.without_id:
                name = f"{case.eval_id}-of-{posixpath.basename(file.path).lower().replace('.', '-')}"
                cases[name] = case.model_copy(update={"eval_id": name})
                winners[name] = file.path
            else:
                twice.append(case.eval_id)
        if twice:
            ids = ", ".join(f'"{short(eval_id, 40)}"' for eval_id in twice[:10])
            notes.notice(
                "same-id",
                f"{len(twice)} cases of {file.path} have ids that {winners[twice[0]]} uses too, which wins: {ids}",
                remedy="Use different ids to keep both.",
            )
    return tuple(cases.values())


def _looks_like_evals(path: str) -> bool:
    lower = path.lower()
    name = posixpath.basename(lower)
    in_folder = lower.split("/")[0] in _FOLDERS and lower.count("/") == 1
    return (
        name.endswith(".cases.md")
        or ("/" not in lower and name in _EVAL_NAMES)
        or (in_folder and name.endswith(_EVAL_ENDS))
    )


def _unread(skill: Skill, read: set[str], fixtures: set[bytes], notes: Notes) -> None:
    unread = sorted(
        file.path
        for file in skill.files
        if file.path not in read and file.data not in fixtures and _looks_like_evals(file.path)
    )
    if unread:
        names = ", ".join(short(path, 60) for path in unread[:10]) + (" …" if len(unread) > 10 else "")
        notes.notice(
            "not-read",
            f"{len(unread)} files look like evals in a format or place that this version does not read: {names}",
            remedy="Move the cases into evals/skill-gate.yaml or evals/evals.json.",
        )
