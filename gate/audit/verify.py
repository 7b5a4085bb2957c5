"""``verify``: every seal, check, quote, total and decision of a bundle derived again by the code that made it (R226)."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from gate.domain.base import NotRun, pretty_json
from gate.domain.contract import SkillContract
from gate.domain.discussion import MAX_ROUNDS, Discussion
from gate.domain.evidence import Event, Verification
from gate.domain.judgement import Analysis, Comparison
from gate.domain.plan import Arm, SkillPlan, case_folder
from gate.domain.report import CaseRecord, GateReport, JudgedRun, SkillRecord
from gate.domain.seeding import JudgingSeeds, SessionSeed
from gate.errors import EvidenceError
from gate.evidence.assemble import contract_file, read_skill_record, read_value
from gate.evidence.bundle import RENDERED, Bundle, load_events
from gate.evidence.history import history_file
from gate.evidence.seal import check_bundle
from gate.evidence.shapes import checks_file, grading_file
from gate.evidence.transcript import block_key, forged_blocks, render_transcript
from gate.judging.analyzer import recheck_analysis
from gate.judging.comparator import recheck_comparison, recheck_outputs, unblind
from gate.judging.discussion_rules import Ground, recheck_discussion
from gate.judging.grader import recheck_grading
from gate.judging.ground_truth import check_run
from gate.pipeline import decided, history_with, read_past
from gate.planning.contract import recheck_contract


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
        seeds = JudgingSeeds(SessionSeed(session["seed"]), session["session_id"], session.get("judging_seed"))
        records: dict[str, SkillRecord] = {}
        for slug in facts["slugs"]:
            record = records[slug] = read_skill_record(root, slug)
            count.problems += record.broken_seals
            if isinstance(record.contract, SkillContract):
                path = contract_file(slug)
                count.problems += [
                    f"{path}: {problem}" for problem in recheck_contract(record.contract, record.plan.suite)
                ]
                _same(root, path, pretty_json(record.contract), count)
            for case in record.cases:
                for run in case.runs:
                    _run(root, case, run, session["policy"], count)
                    _discussion(root, record, case, run, session["policy"], count)
                _comparison(root, record.plan, case, seeds, count)
        _decision(root, records, render, count)
    except EvidenceError as error:
        count.problems.append(error.message)
    except (KeyError, TypeError, ValueError) as error:
        count.problems.append(f"session.json or usage.json is not what a session writes: {error}")
    return VerifyResult(tuple(count.problems), files, count.runs, count.quotes, count.checks)


def _run(root: Path, case: CaseRecord, run: JudgedRun, policy: Mapping[str, Any], count: _Count) -> None:
    record, folder = run.record, run.record.key.folder
    count.runs += 1
    events = load_events(root, folder)
    _transcript(root, folder, events, count)
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
        two = policy.get("second_judge") == "on"
        problems = recheck_grading(grading, case.plan.case, record, root, second_judge=two)
        count.problems += [f"{folder}/grading.json: {problem}" for problem in problems]
    _same(root, f"{folder}/grading.json", pretty_json(grading_file(record, checks, grading)), count)


def _discussion(
    root: Path, skill: SkillRecord, case: CaseRecord, run: JudgedRun, policy: Mapping[str, Any], count: _Count
) -> None:
    discussion, path = run.discussion, f"{run.record.key.folder}/discussion.json"
    if not isinstance(discussion, Discussion):
        return
    ground = Ground.of(
        root,
        case.plan.case,
        run,
        max_rounds=policy.get("discussion_rounds", MAX_ROUNDS),
        contract=skill.contract,
    )
    count.quotes += sum(len(row.quotes) for row in discussion.initial)
    count.quotes += sum(len(point.quotes) for item in discussion.rounds for point in item.objections)
    count.problems += [f"{path}: {problem}" for problem in recheck_discussion(discussion, ground)]
    _same(root, path, pretty_json(discussion), count)


def _comparison(root: Path, skill: SkillPlan, case: CaseRecord, seeds: JudgingSeeds, count: _Count) -> None:
    folder = case_folder(skill.slug, case.plan.case.eval_id)
    comparison = case.layer3.comparison
    if not isinstance(comparison, Comparison):
        return
    count.problems += [f"{folder}/comparison.json: {problem}" for problem in recheck_comparison(comparison)]
    try:
        opened = unblind(comparison, *seeds.of(*_seals(case, comparison)))
    except EvidenceError as error:
        count.problems.append(f"{folder}/comparison.json: {error.message}")
        return
    if case.layer3.unblinding != opened:
        count.problems.append(f"{folder}/unblinding.json does not follow from the session's seed")
    if skill.head is None:
        count.problems.append(f"{folder}/comparison.json: there is no skill that it could be about")
        return
    count.quotes += sum(len(order.quotes) for pair in comparison.pairs for order in pair.orders)
    problems = recheck_outputs(
        comparison,
        opened,
        case.plan.case,
        skill.head,
        skill_type=skill.type,
        records=[run.record for run in case.runs],
        root=root,
    )
    count.problems += [f"{folder}/comparison.json: {problem}" for problem in problems]
    if isinstance(case.layer3.analysis, Analysis):
        count.problems += [
            f"{folder}/analysis.json: {problem}" for problem in recheck_analysis(case.layer3.analysis, skill.head)
        ]


def _seals(case: CaseRecord, comparison: Comparison) -> list[str]:
    """Seals of the compared runs, pair by pair, as the labels were drawn from them."""
    seals = {(run.record.key.arm, run.record.key.run): run.record.seal for run in case.runs}
    return [
        seals.get(key, "")
        for pair in comparison.pairs
        for key in ((Arm.WITH_SKILL, pair.run_with), (Arm.WITHOUT_SKILL, pair.run_without))
    ]


def _decision(
    root: Path, records: Mapping[str, SkillRecord], render: Callable[[GateReport, str], str], count: _Count
) -> None:
    report, entries, shapes = decided(root, records)
    for slug, entry in entries.items():
        past = read_past(Bundle(root), slug)
        if past is not None:
            _same(root, history_file(slug), pretty_json(history_with(past, entry)), count)
    _same(root, "report.json", pretty_json(report), count)
    for skill in report.skills:
        _same(root, f"skills/{skill.slug}/gate-result.json", pretty_json(skill), count)
    for name, data in shapes.items():
        _same(root, name, data, count)
    for name, kind in RENDERED.items():
        _same(root, name, render(report, kind).encode("utf-8", "replace"), count)


def _transcript(root: Path, folder: str, events: Sequence[Event], count: _Count) -> None:
    """The transcript derived again; where it differs, the MACs of its sections say from which one on."""
    name = f"{folder}/outputs/transcript.md"
    before = len(count.problems)
    _same(root, name, render_transcript(events).encode("utf-8", "backslashreplace"), count)
    key = block_key(events)
    if len(count.problems) == before or not key or not (root / name).is_file():
        return
    try:
        forged = forged_blocks((root / name).read_text(encoding="utf-8", errors="replace"), key)
    except EvidenceError as error:
        count.problems.append(error.message)
    else:
        count.problems += [f"{name}: section {number} is not the gate's" for number in forged[:1]]


def _same(root: Path, relative: str, derived: bytes, count: _Count) -> None:
    try:
        stored = (root / relative).read_bytes()
    except FileNotFoundError:
        count.problems.append(f"{relative} is missing")
        return
    if stored != derived:
        count.problems.append(f"{relative} is not what its evidence gives")
