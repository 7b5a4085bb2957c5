"""Runs and Layers 2a and 2b: planned ones, then fill and confirm, each judged as soon as it is recorded."""

from __future__ import annotations

import shutil
from collections import Counter
from collections.abc import Sequence
from functools import partial
from typing import Any

from gate.decision.further import needs_confirm, undecided
from gate.domain.base import NotRun
from gate.domain.evidence import RunRecord, Verification
from gate.domain.judgement import GradeStatus, Grading
from gate.domain.plan import (
    OPTIONAL_ARMS,
    Arm,
    RunRequest,
    SkillPlan,
)
from gate.domain.report import CaseRecord
from gate.domain.skill import Skill
from gate.errors import EvidenceError
from gate.evidence.assemble import (
    read_case_record,
)
from gate.evidence.bundle import load_run
from gate.evidence.seal import SEAL
from gate.evidence.shapes import checks_file, grading_file
from gate.execution.reuse import run_facts
from gate.execution.runner import execute
from gate.execution.stand_ins import own_skill_files, own_skill_request, placebo
from gate.execution.verification import verify_run
from gate.intake.skill import parse_skill
from gate.judging.grader import grade_run
from gate.judging.ground_truth import check_run
from gate.pipeline.world import Session, each, guarded, write
from gate.planning.modes import RULES
from gate.planning.plan import confirm_requests, fill_requests
from gate.planning.shares import most_calls, most_calls_to_judge


def fill(session: Session, skill: SkillPlan) -> list[RunRequest]:
    if RULES[session.plan.mode].fill is None:
        return []
    requests = []
    for case in case_records(session, skill):
        if undecided(case):
            requests += fill_requests(skill, case, session.plan.mode)
    return requests


def confirm(session: Session, skill: SkillPlan) -> list[RunRequest]:
    requests = []
    for case in case_records(session, skill):
        if needs_confirm(case):
            requests += confirm_requests(skill, case, session.plan.mode)
    return requests


def case_records(session: Session, skill: SkillPlan) -> list[CaseRecord]:
    broken: list[str] = []
    return [read_case_record(session.bundle.root, skill, case, broken) for case in skill.cases if case.blocked is None]


def with_stand_ins(session: Session, skills: Sequence[SkillPlan], requests: Sequence[RunRequest]) -> list[RunRequest]:
    """The requests, with what the optional arms get in place of the author's skill. An arm without it does not run."""
    made: dict[tuple[str, Arm], Skill] = {}
    for plan in skills:
        if plan.head is not None:
            made[plan.slug, Arm.PLACEBO] = placebo(plan.head)
        request = own_skill_request(plan)
        own = _own_skill(session, request) if request is not None else None
        if own is not None:
            made[plan.slug, Arm.SELF_GENERATED] = own
    ready: list[RunRequest] = []
    for request in requests:
        if request.key.arm not in OPTIONAL_ARMS:
            ready.append(request)
        elif (skill := made.get((request.key.slug, request.key.arm))) is not None:
            ready.append(request.model_copy(update={"skill": skill}))
    return ready


def _own_skill(session: Session, request: RunRequest) -> Skill | None:
    """The skill that the model writes for itself; None where it gave none, which the report then says."""
    records = _records(session, [request])
    if not records:
        return None  # it could not be kept, which is said
    record, skill = records[0], None
    if record.completed:
        skill, _ = parse_skill(request.key.skill_path, own_skill_files(session.bundle.root, record))
    if skill is None:
        why = record.contaminated or record.reason or "it wrote no readable skill/SKILL.md"
        session.trouble.note(
            f"{request.key.skill_path}: no self_generated runs: the model gave no skill of its own: {why}"
        )
    return skill


def run_and_judge(session: Session, requests: Sequence[RunRequest]) -> None:
    session.world.progress.step("running", len(requests))
    records = _records(session, requests)
    by_key = {request.key.folder: request for request in reversed(requests)}
    jobs = [(record, by_key[record.key.folder]) for record in records]
    if session.reuse is not None:
        for record, request in jobs:
            session.reuse.keep(request, session.around(request), record)
    counts = Counter(record.key.case for record, _ in jobs)
    most = {request.key.case: most_calls_to_judge(request.case) for _, request in jobs}
    tight = {case for case, count in counts.items() if session.in_order(case, count * most[case])}
    each(
        session,
        "judging",
        jobs,
        lambda job: _judge_run(session, *job),
        chain=lambda job: job[0].key.case if job[0].key.case in tight else None,
    )


def _tight(session: Session, requests: Sequence[RunRequest]) -> frozenset[str]:
    """Cases whose runs could reach the end of their share."""
    calls: Counter[str] = Counter()
    for request in requests:
        calls[request.key.case] += most_calls(request)
    return frozenset(case for case, count in calls.items() if session.in_order(case, count))


def _records(session: Session, requests: Sequence[RunRequest]) -> list[RunRecord]:
    """A record of each request: one that an earlier session made, else a run.

    A run whose place in the bundle another one has is not made: it costs its skill a verdict, not the session.
    """
    world = session.world
    tight = _tight(session, requests)
    places: set[str] = set()
    by_image: dict[str, list[RunRequest]] = {}
    records: list[RunRecord] = []
    for request in requests:
        if request.key.folder in places:
            session.trouble.error(request.key.slug, f"two runs would be kept as {request.key.folder}; one was made")
            continue
        places.add(request.key.folder)
        kept = _of_before(session, request)
        if kept is None and session.reuse is not None:
            kept = session.reuse.take(request, session.around(request))
        if kept is not None:
            records.append(kept)
        elif (session.bundle.path(request.key.folder) / SEAL).exists():
            session.trouble.error(request.key.slug, f"{request.key.folder} holds a finished run already")
        else:
            by_image.setdefault(session.images[request.key.skill_path], []).append(request)
    records += [
        record
        for image, group in by_image.items()
        for record in execute(
            group,
            session_id=world.session_id,
            run_date=world.run_date,
            image=image,
            jobs=session.settings.jobs,
            sandbox=session.sandbox,
            models=session.models,
            ledger=world.ledger,
            bundle=session.bundle,
            redactor=world.redactor,
            seed=world.seed,
            clock=world.clock,
            progress=world.progress,
            cancelled=world.cancelled,
            agent=session.agent,
            mcp=world.mcp,
            in_order=tight,
            sealed=partial(_write_down, session),
        )
    ]
    return records


def _of_before(session: Session, request: RunRequest) -> RunRecord | None:
    """The run where this session made it before it was killed; what infrastructure or the kill itself stopped goes."""
    folder, journal = request.key.folder, session.world.journal
    if journal is None or not journal.take_back(run_facts(request, session.around(request)), folder):
        return None
    try:
        record = load_run(session.bundle.root, folder)
    except EvidenceError as error:
        session.world.progress.say(f"{request.key.label} is made again: {error.message}")
    else:
        if record.outcome.agent_caused:
            session.world.progress.run_done(request.key.label, f"{record.outcome.value}, made before the stop")
            return record
    shutil.rmtree(session.bundle.path(folder))
    return None


def _write_down(session: Session, request: RunRequest, record: RunRecord) -> None:
    session.settle(f"{record.key.label}/turn-", keep=record.scored)
    if session.world.journal is not None and record.outcome.agent_caused:
        session.world.journal.made(run_facts(request, session.around(request)), record.seal, request.key.label)


def _judge_run(session: Session, record: RunRecord, request: RunRequest) -> None:
    """Verification containers, Layer 2a, Layer 2b of one run; each result is a file."""
    root = session.bundle.root
    verification: Verification | None = None
    if record.completed:
        verified = guarded(
            session,
            record.key.slug,
            lambda: _verified(session, record, request),
        )
        verification = None if isinstance(verified, NotRun) else verified
    if not record.scored:
        checks: Any = NotRun(
            not_run=f"the run is {record.outcome.value}: {record.reason or record.contaminated or record.invalid}"
        )
        grading: Grading | NotRun = checks
    else:
        checks = guarded(session, record.key.slug, lambda: check_run(request.case, record, root, verification))
        grading = guarded(
            session,
            record.key.slug,
            lambda: grade_run(
                request.case,
                record,
                request.skill,
                root=root,
                models=session.models,
                ledger=session.world.ledger,
                seed=session.world.judging_seeds.of(record.seal)[0],
                second_judge=session.settings.policy.second_judge,
                spot_checks=RULES[session.plan.mode].twins,
            ),
        )
    complete = isinstance(grading, Grading) and all(row.status is not GradeStatus.UNGRADED for row in grading.rows)
    session.settle(f"{record.key.label}/", keep=complete)
    write(session, f"{record.key.folder}/checks.json", checks_file(checks))
    write(session, f"{record.key.folder}/grading.json", grading_file(record, checks, grading))


def _verified(session: Session, record: RunRecord, request: RunRequest) -> Verification:
    """What ran over a copy of the run's workspace; from an earlier session where it ran there over the same bytes."""
    found = None
    if session.reuse is not None:
        found = session.reuse.take_verification(record, request.case, session.around(request))
    if found is not None:
        session.bundle.write(f"{record.key.folder}/verification.json", found)
        return found
    made = verify_run(
        record,
        request.case,
        bundle=session.bundle,
        sandbox=session.sandbox,
        image=session.images[record.key.skill_path],
        session_id=session.world.session_id,
        redactor=session.world.redactor,
    )
    if session.reuse is not None:
        session.reuse.keep_verification(record, request.case, session.around(request), made)
    return made
