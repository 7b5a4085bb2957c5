"""``verify``: every seal, check, quote, total and decision of a bundle derived again by the code that made it (R226)."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

from gate.domain.base import NotRun, pretty_json
from gate.domain.evidence import Verification
from gate.domain.judgement import Comparison
from gate.domain.plan import SkillPlan, case_folder
from gate.domain.report import CaseRecord, GateReport, JudgedRun
from gate.domain.seeding import SessionSeed
from gate.errors import EvidenceError
from gate.evidence.assemble import read_skill_record, read_value
from gate.evidence.bundle import Bundle, load_events
from gate.evidence.seal import check_bundle
from gate.evidence.shapes import checks_file, grading_file
from gate.evidence.transcript import render_transcript
from gate.judging.comparator import recheck_comparison, unblind
from gate.judging.grader import recheck_grading
from gate.judging.ground_truth import check_run
from gate.pipeline import decide


class VerifyResult(NamedTuple):
    """What was looked at, and what does not hold."""

    problems: tuple[str, ...]
    files: int
    runs: int
    quotes: int
    checks: int


class _Count:
    """Running totals."""

    def __init__(self) -> None:
        self.problems: list[str] = []
        self.runs = 0
        self.quotes = 0
        self.checks = 0


def verify_bundle(root: Path, render: Callable[[GateReport, str], str]) -> VerifyResult:
    """Check a bundle. Every problem names the file it is about; an unreadable bundle is a problem, not an exception."""
    count = _Count()
    files = sum(1 for path in root.rglob("*") if path.is_file())
    count.problems += check_bundle(root)
    if count.problems:
        # What follows reads these files: with a broken seal it would only repeat the same finding in other words.
        return VerifyResult(tuple(count.problems), files, 0, 0, 0)
    try:
        facts: Any = Bundle(root).read_json("usage.json")
        session: Any = Bundle(root).read_json("session.json")
        seed = SessionSeed(session["seed"])
        for slug in facts["slugs"]:
            record = read_skill_record(root, slug)
            count.problems += record.broken_seals
            for case in record.cases:
                for run in case.runs:
                    _run(root, case, run, count)
                _comparison(root, record.plan, case, seed, session["session_id"], count)
        _decision(root, render, count)
    except EvidenceError as error:
        count.problems.append(error.message)
    except (KeyError, TypeError, ValueError) as error:
        count.problems.append(f"session.json or usage.json is not what a session writes: {error}")
    return VerifyResult(tuple(count.problems), files, count.runs, count.quotes, count.checks)


def _run(root: Path, case: CaseRecord, run: JudgedRun, count: _Count) -> None:
    record, folder = run.record, run.record.key.folder
    count.runs += 1
    events = load_events(root, folder)
    _same(root, f"{folder}/outputs/transcript.md", render_transcript(events).encode("utf-8", "backslashreplace"), count)
    checks, grading = run.judgement.checks, run.judgement.grading
    if not isinstance(checks, NotRun):
        count.checks += len(checks)
        found = read_value(root, f"{folder}/verification.json", Verification)
        verification = None if isinstance(found, NotRun) else found
        if verification is not None and verification.run_seal != record.seal:
            count.problems.append(f"{folder}/verification.json belongs to another run")
        again = check_run(case.plan.case, record, root, verification)
        _same(root, f"{folder}/checks.json", pretty_json(checks_file(again)), count)
    if not isinstance(grading, NotRun):
        count.quotes += sum(len(row.quotes) for row in grading.rows)
        problems = recheck_grading(grading, case.plan.case, record, root)
        count.problems += [f"{folder}/grading.json: {problem}" for problem in problems]
    _same(root, f"{folder}/grading.json", pretty_json(grading_file(record, checks, grading)), count)


def _comparison(
    root: Path, skill: SkillPlan, case: CaseRecord, seed: SessionSeed, session_id: str, count: _Count
) -> None:
    folder = case_folder(skill.slug, case.plan.case.eval_id)
    comparison = case.layer3.comparison
    if not isinstance(comparison, Comparison):
        return
    count.problems += [f"{folder}/comparison.json: {problem}" for problem in recheck_comparison(comparison)]
    try:
        opened = unblind(comparison, seed, session_id)
    except EvidenceError as error:
        count.problems.append(f"{folder}/comparison.json: {error.message}")
        return
    if case.layer3.unblinding != opened:
        count.problems.append(f"{folder}/unblinding.json does not follow from the session's seed")


def _decision(root: Path, render: Callable[[GateReport, str], str], count: _Count) -> None:
    report = decide(root)
    _same(root, "report.json", pretty_json(report), count)
    for skill in report.skills:
        _same(root, f"skills/{skill.slug}/gate-result.json", pretty_json(skill), count)
    for name, kind in (("report.md", "md"), ("report.html", "html")):
        _same(root, name, render(report, kind).encode("utf-8", "replace"), count)


def _same(root: Path, relative: str, derived: bytes, count: _Count) -> None:
    try:
        stored = (root / relative).read_bytes()
    except FileNotFoundError:
        count.problems.append(f"{relative} is missing")
        return
    if stored != derived:
        count.problems.append(f"{relative} is not what its evidence gives")
