"""What the report says of contracts and discussions. None of it decides: a contract that was forced is named (K27), and a
discussion moves nothing but its own grade.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence

from gate.decision.look import Look
from gate.domain.base import NotRun
from gate.domain.contract import APPROVAL_THRESHOLD, SkillContract, TaskContract
from gate.domain.discussion import Discussion
from gate.domain.numbers import plural
from gate.domain.plan import Arm
from gate.domain.report import (
    CaseRecord,
    ContractReport,
    DiscussionReport,
    JudgedRun,
    ModelUse,
    Share,
    SignedTask,
)

NOT_REACHED = JudgedRun.model_fields["discussion"].default.not_run
DISCUSSING = ("evaluator", "defender", "prosecutor")


def discussions_of(look: Look) -> tuple[DiscussionReport, ...]:
    """One line a discussion, by case and run."""
    return tuple(
        _line(case, run, run.discussion)
        for case in look.cases
        for run in case.of(Arm.WITH_SKILL)
        if isinstance(run.discussion, Discussion)
    )


def _line(case: CaseRecord, run: JudgedRun, found: Discussion) -> DiscussionReport:
    return DiscussionReport(
        eval_id=case.plan.case.eval_id,
        run=run.record.key.run,
        folder=run.record.key.folder,
        grade=found.discussion_grade,
        score_path=found.score_path,
        scores={dimension.value: score for dimension, score in found.scores.items()},
        by_rule=tuple(row.dimension.value for row in found.initial if row.method != "evaluator"),
        moved=_moved(found),
        rounds=len(found.rounds),
        accepted_rounds=found.accepted_rounds,
        end_reason=found.end_reason,
        seed_end=f"{found.seed_end_reason} in round {found.seed_end_round}" if found.seed_end_reason else "",
        void_objections=found.void_objections,
        cave_index=found.cave_index,
        criteria=Share(passed=found.criteria_met, total=len(found.alignment)),
        criteria_source=found.alignment_source,
        degraded=found.degraded,
    )


def _moved(found: Discussion) -> tuple[str, ...]:
    """Each change of a score with the points that counted for it. Quotes untrusted text."""
    lines = []
    before = {row.dimension: row.score for row in found.initial}
    for item in found.rounds:
        for dimension, score in item.scores.items():
            old = before.get(dimension)
            if score is None or old is None or score == old:
                continue
            side = "defender" if score > old else "prosecutor"
            said = [
                point.text
                for point in item.objections
                if point.admitted and point.dimension is dimension and point.side == side
            ]
            lines.append(f"{dimension.value} {old:g} to {score:g} in round {item.number}, {side}: {'; '.join(said)}")
        before = dict(item.scores)
    return tuple(lines)


def undiscussed(look: Look) -> tuple[str, ...]:
    """Why runs with the skill were not discussed, with their number; the skip of a simple one is no pass (K27). That the mode
    asks for none is no news."""
    reasons: Counter[str] = Counter()
    for case in look.cases:
        for run in case.of(Arm.WITH_SKILL):
            if isinstance(run.discussion, NotRun):
                why = run.discussion.not_run
                if why.startswith("mode ") or why == NOT_REACHED:
                    continue
                reasons["simple (R215), so not discussed; that is no pass" if why.startswith("simple ") else why] += 1
    return tuple(f"{count} {plural(count, 'run')}: {reason}" for reason, count in sorted(reasons.items()))


def contract_of(look: Look) -> ContractReport | None:
    """The contract of a skill for the report; None where the policy asks for none."""
    contract = look.record.contract
    if contract is None:
        return None
    if isinstance(contract, NotRun):
        return ContractReport(not_made=contract.not_run)
    return ContractReport(
        drafted=contract.drafted,
        plan_given=contract.plan_given,
        tasks=tuple(
            SignedTask(
                eval_id=task.eval_id,
                score_path=task.score_path,
                approved=task.approved,
                forced=task.forced,
                degraded=task.degraded,
                disagreements=sum(item.disagrees for item in task.rounds),
            )
            for task in contract.tasks
        ),
        missing=contract.missing,
        refused=contract.refused,
    )


def contract_reasons(look: Look) -> list[str]:
    """Why a drafted suite is conditional beside that it is drafted: what its contracts lack. A forced contract of a suite
    that an author wrote changes nothing about that suite, so it is a note only."""
    contract = look.record.contract
    if not isinstance(contract, SkillContract) or not contract.drafted:
        return []
    return [_forced(task) for task in contract.tasks if task.forced]


def no_draft(look: Look) -> list[str]:
    """Why a skill without evals got no drafted ones, where the policy asks for some."""
    contract = look.record.contract
    if isinstance(contract, NotRun):
        return [contract.not_run]
    if contract is None or not contract.drafted:
        return []
    return [f"no suite could be drafted: {'; '.join(contract.refused) or 'there was no usable task'}"]


def contract_notes(look: Look) -> list[str]:
    """What a reader must know of contracts."""
    contract = look.record.contract
    if contract is None:
        return []
    if isinstance(contract, NotRun):
        return [f"no contract was made: {contract.not_run}"]
    notes = [_forced(task) for task in contract.tasks if task.forced]
    if contract.plan_given == "all_arms":
        notes.append("every arm was told the plan of the contract, so figures are about work with a plan")
    notes += contract.missing
    if contract.refused:
        notes.append(f"drafted and thrown away by code: {'; '.join(contract.refused)}")
    return notes


def _forced(task: TaskContract) -> str:
    last = task.rounds[-1]
    if last.score is None:
        return f"the contract of {task.eval_id} counts without a review: {task.degraded}"
    path = " then ".join("none" if score is None else f"{score:.2f}" for score in task.score_path)
    return (
        f"the contract of {task.eval_id} was forced: review scores {path}, under {APPROVAL_THRESHOLD:.2f} after "
        f"{len(task.rounds)} rounds" + (f" ({task.degraded})" if task.degraded else "")
    )


def discussion_notes(look: Look) -> list[str]:
    """Discussions that did not go as intended (K27)."""
    return [
        f"discussion of {case.plan.case.eval_id} run {run.record.key.run}: {run.discussion.degraded}"
        for case in look.cases
        for run in case.of(Arm.WITH_SKILL)
        if isinstance(run.discussion, Discussion) and run.discussion.degraded
    ]


def token_share(usage: Iterable[ModelUse]) -> str | None:
    """R208: what the discussion took of all tokens, as a sentence; None where there was none."""
    uses = list(usage)
    taken = _tokens([use for use in uses if use.role in DISCUSSING])
    whole = _tokens(uses)
    if not taken or not whole:
        return None
    return f"the discussion took {taken:,} of {whole:,} known tokens ({taken / whole:.0%})"


def _tokens(uses: Sequence[ModelUse]) -> int:
    return sum(use.known_input_tokens + use.known_output_tokens for use in uses)
