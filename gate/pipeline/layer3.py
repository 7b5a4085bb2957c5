"""Layer 3 and the discussion of one case, from the files that Layers 1 and 2 left."""

from __future__ import annotations

from gate.domain.base import NotRun
from gate.domain.contract import SkillContract
from gate.domain.discussion import Discussion
from gate.domain.evidence import RunRecord
from gate.domain.judgement import Comparison, Winner
from gate.domain.plan import (
    Arm,
    CasePlan,
    SkillPlan,
    case_folder,
    safe_id,
)
from gate.domain.report import CaseRecord, JudgedRun
from gate.domain.suite import Case
from gate.errors import BudgetError, EvidenceError, InfrastructureError
from gate.evidence.assemble import (
    contract_file,
    read_case_record,
    read_value,
)
from gate.judging.analyzer import analyse_case
from gate.judging.comparator import compare_case, deciding_pair, second_family, unblind
from gate.judging.discussion import discuss_run
from gate.judging.discussion_rules import Ground
from gate.pipeline.world import Session, guarded, write
from gate.planning.modes import RULES, discussion_scope


def layer3(session: Session, skill: SkillPlan, case: CasePlan) -> None:
    """Layer 3 of one case; replies that led to a comparison are kept for later sessions."""
    _compared(session, skill, case)
    folder = case_folder(skill.slug, case.case.eval_id)
    compared = read_value(session.bundle.root, f"{folder}/comparison.json", Comparison)
    session.settle(f"{skill.slug}/{safe_id(case.case.eval_id)}/", keep=isinstance(compared, Comparison))


def _compared(session: Session, skill: SkillPlan, case: CasePlan) -> None:
    """Compare blind, seal, unblind, analyse; what does not run is a file that says why."""
    folder = case_folder(skill.slug, case.case.eval_id)
    root = session.bundle.root
    pairs = _pairs(session, read_case_record(root, skill, case, []))
    head = skill.head
    skipped = case.compare
    if skipped is None and not pairs:
        skipped = NotRun(not_run="no pair of runs completed on both sides")
    if skipped is not None or head is None:
        write(session, f"{folder}/comparison.json", skipped)
        write(session, f"{folder}/analysis.json", skipped)
        return
    world = session.world
    seed, assignment = world.judging_seeds.of(*(record.seal for pair in pairs for record in pair))
    comparison = guarded(
        session,
        skill.slug,
        lambda: compare_case(
            case.case,
            skill.type,
            pairs,
            head,
            root=root,
            models=session.models,
            ledger=world.ledger,
            seed=seed,
            session_id=assignment,
            both_families=session.settings.policy.second_judge != "off" and second_family(session.models),
            redact=world.redactor.json,
        ),
    )
    write(session, f"{folder}/comparison.json", comparison)
    if isinstance(comparison, NotRun):
        write(session, f"{folder}/analysis.json", NotRun(not_run=f"no comparison: {comparison.not_run}"))
        return
    # Only now, with the sealed comparison on disk, is the assignment opened (R130).
    sealed = session.bundle.read(f"{folder}/comparison.json", Comparison)
    opened = guarded(session, skill.slug, lambda: unblind(sealed, seed, assignment))
    write(session, f"{folder}/unblinding.json", opened)
    if isinstance(opened, NotRun):
        write(session, f"{folder}/analysis.json", opened)
        return
    policy = RULES[session.plan.mode].analyzer
    if policy == "never" or (policy == "not_won" and opened.outcome is Winner.SKILL):
        write(session, f"{folder}/analysis.json", NotRun(not_run="the skill won; this mode analyses losses and ties"))
        return
    looked_into = deciding_pair(sealed)
    with_run, without_run = next(pair for pair in pairs if (pair[0].key.run, pair[1].key.run) == looked_into)
    analysis = guarded(
        session,
        skill.slug,
        lambda: analyse_case(
            case.case,
            sealed,
            opened,
            head,
            with_run,
            without_run,
            root=root,
            models=session.models,
            ledger=world.ledger,
            seed=seed,
        ),
    )
    write(session, f"{folder}/analysis.json", analysis)


def discuss(session: Session, skill: SkillPlan, run: JudgedRun) -> None:
    """The discussion of one run; where there is none, a file that says why."""
    key = run.record.key
    case = next(item.case for item in skill.cases if item.case.eval_id == key.eval_id)
    skipped = discussion_scope(session.plan.mode, case.risk, key.arm)
    if skipped is None and not run.record.completed:
        skipped = NotRun(not_run="the run did not complete, so there is no work to discuss")
    result: Discussion | NotRun = skipped or _discussed(session, case, run)
    session.settle(f"{key.label}/discuss", keep=isinstance(result, Discussion) and not result.degraded)
    write(session, f"{key.folder}/discussion.json", result)


def _discussed(session: Session, case: Case, run: JudgedRun) -> Discussion | NotRun:
    world, root = session.world, session.bundle.root
    try:
        ground = Ground.of(
            root,
            case,
            run,
            max_rounds=session.settings.policy.discussion_rounds,
            contract=read_value(root, contract_file(run.record.key.slug), SkillContract),
        )
        seed = world.judging_seeds.of(run.record.seal)[0]
        return discuss_run(ground, models=session.models, ledger=world.ledger, seed=seed)
    except BudgetError as error:
        # Unlike a grade that is missing, this takes nothing from a verdict: it is said, and the skill stays measured.
        return NotRun(not_run=f"over budget: {error.message}")
    except InfrastructureError as error:
        return NotRun(not_run=f"the evaluator could not be asked: {error}")
    except EvidenceError as error:
        return NotRun(not_run=error.message)


def _pairs(session: Session, record: CaseRecord) -> list[tuple[RunRecord, RunRecord]]:
    """Run pairs to compare: all completed ones of equal number, or one drawn by the seed (K10).

    Where no two of equal number completed, any two that did are a pair, and one is drawn.
    """
    ours = [run.record for run in record.of(Arm.WITH_SKILL) if run.record.completed]
    theirs = [run.record for run in record.of(Arm.WITHOUT_SKILL) if run.record.completed]
    both = [(one, other) for one in ours for other in theirs]
    pairs = [pair for pair in both if pair[0].key.run == pair[1].key.run]
    if both and (not pairs or not RULES[session.plan.mode].all_pairs):
        pairs = pairs or both
        drawn = session.world.seed.below(len(pairs), "pair", record.plan.case.eval_id, session.world.session_id)
        pairs = [pairs[drawn]]
    return pairs
