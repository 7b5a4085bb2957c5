"""What runs and is judged: sandboxes, models and judges, for the skills of a plan that have runs."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence

from gate.domain.numbers import counted
from gate.domain.plan import Plan, SkillPlan
from gate.domain.report import JudgedRun
from gate.errors import Cancelled, InfrastructureError
from gate.evidence.bundle import Bundle
from gate.pipeline.beginning import left_in_time
from gate.pipeline.layer3 import discuss, layer3
from gate.pipeline.opening import cleaned_up, open_session
from gate.pipeline.past import write_past
from gate.pipeline.runs import case_records, confirm, fill, run_and_judge, with_stand_ins
from gate.pipeline.world import Session, Trouble, World, each, runs_of
from gate.planning.past import PastCost, expected, expected_words, past_facts, past_of
from gate.planning.plan import planned_requests
from gate.planning.shares import most_calls_to_discuss, shares_of
from gate.settings import Settings

_WHY_FURTHER = {"fill": "of cases that are undecided", "confirm": "to see whether what failed fails again"}


def measure(
    settings: Settings, world: World, plan: Plan, bundle: Bundle, trouble: Trouble, measured: Sequence[SkillPlan]
) -> str:
    """Everything that runs: ``measured`` are the skills of the plan with runs. Returns what they ran in, in words.

    Raises Cancelled when told to stop; what fails otherwise is in ``trouble``.
    """
    with left_in_time(world):
        session, sandbox_text = open_session(settings, world, plan, bundle, trouble)
        if world.cancelled.is_set():
            raise Cancelled("The session was cancelled.")
        if session is not None:
            past = _past_costs(session, measured)
            write_past(session, measured)
            guess = expected(plan, past, settings)
            world.progress.say(expected_words(guess, plan))
            world.progress.expect(
                cases=sum(runs_of(case) > 0 for skill in measured for case in skill.cases),
                runs=sum(runs_of(case) for skill in measured for case in skill.cases),
                calls=guess.calls,
            )
            world.ledger.share(shares_of(plan))
            with cleaned_up(session):
                _measure(session, measured)
            _keep_costs(session, measured)
    return sandbox_text


def _past_costs(session: Session, skills: Sequence[SkillPlan]) -> dict[str, PastCost]:
    """By slug: what a skill needed in an earlier session, as far as one kept it."""
    cache = session.world.cache
    if cache is None:
        return {}
    found = {skill.slug: cache.take_value("cost", past_facts(skill, session.settings), PastCost) for skill in skills}
    return {slug: cost for slug, cost in found.items() if cost is not None}


def _keep_costs(session: Session, skills: Sequence[SkillPlan]) -> None:
    cache = session.world.cache
    if cache is None:
        return
    for skill in skills:
        made = sum(run.reused is None for case in case_records(session, skill) for run in case.runs)
        cost = past_of(session.world.ledger.uses(skill.slug), made)
        if cost is None:
            continue
        try:
            cache.keep_value("cost", past_facts(skill, session.settings), cost, skill.slug)
        except InfrastructureError as error:
            session.world.progress.say(f"the cost of {skill.change.path} could not be kept for later: {error}")


def _measure(session: Session, skills: Sequence[SkillPlan]) -> None:
    """Runs and layers: the planned runs, then at most two further rounds (fill, confirm), then Layer 3, then the discussion:
    what no verdict rests on comes last, so that a cap takes it first."""
    run_and_judge(session, with_stand_ins(session, skills, planned_requests(session.plan)))
    for further in (fill, confirm):
        requests = [request for skill in skills for request in further(session, skill)]
        if requests:
            session.world.progress.say(f"{counted(len(requests), 'further run')} {_WHY_FURTHER[requests[0].purpose]}")
            run_and_judge(session, requests)
    pairs = [(skill, case) for skill in skills for case in skill.cases]
    each(session, "comparing", pairs, lambda pair: layer3(session, *pair))
    judged = [(skill, run) for skill in skills for case in case_records(session, skill) for run in case.runs]
    chain = _chain_of_discussions(session, judged)
    each(session, "discussing", judged, lambda item: discuss(session, *item), chain=chain)


def _chain_of_discussions(
    session: Session, judged: Sequence[tuple[SkillPlan, JudgedRun]]
) -> Callable[[tuple[SkillPlan, JudgedRun]], str | None]:
    counts = Counter(run.record.key.case for _, run in judged)
    most = most_calls_to_discuss(session.settings)
    tight = {case for case, count in counts.items() if session.in_order(case, count * most)}
    return lambda item: item[1].record.key.case if item[1].record.key.case in tight else None
