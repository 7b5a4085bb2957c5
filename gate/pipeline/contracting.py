"""What generator and reviewer agree on before anything runs: contracts of cases, and cases for skills without evals."""

from __future__ import annotations

from dataclasses import replace

from gate.domain.base import NotRun
from gate.domain.contract import SkillContract
from gate.domain.intake import Intake
from gate.domain.plan import Plan
from gate.evidence.assemble import contract_file
from gate.evidence.bundle import Bundle
from gate.evidence.cache import ReplyShelf
from gate.judging.ground_truth.trivial import idle_passes
from gate.llm.remembering import remembering
from gate.pipeline.world import World, is_measured, raise_if_cancelled, redacted
from gate.planning.contract import Parties, contract_for, draft, wants_draft, with_plans
from gate.planning.plan import plan_session
from gate.settings import Settings


def contracted(settings: Settings, world: World, intake: Intake, plan: Plan, bundle: Bundle) -> Plan:
    """The plan with what generator and reviewer agreed on: contracts of its cases, and cases for skills without evals."""
    if world.models is None:
        return plan
    models, shelf = world.models, None
    if world.cache is not None:
        shelf = ReplyShelf(world.cache)
        models = remembering(models, shelf)
    parties = Parties(models, world.ledger, lambda digest: world.judging_seeds.of(digest)[0])
    contracts: dict[str, SkillContract | NotRun] = {}
    skills = []
    room = settings.policy.caps.skills_per_session - sum(map(is_measured, plan.skills))
    for found in intake.skills:
        raise_if_cancelled(world)
        if not wants_draft(found) or found.head is None or len(contracts) >= room:
            skills.append(found)
            continue
        made = draft(found.head, parties, trivial=lambda case: idle_passes(case, run_date=world.run_date))
        contracts[found.slug] = made if isinstance(made, NotRun) else made.contract
        suite = found.suite if isinstance(made, NotRun) else made.suite
        skills.append(found.model_copy(update={"suite": suite}))
    if contracts:
        drafted = replace(intake, skills=tuple(skills))
        plan = plan_session(drafted, settings, session_id=world.session_id, run_date=world.run_date)
    for skill in filter(is_measured, plan.skills):
        raise_if_cancelled(world)
        if skill.slug not in contracts:
            contracts[skill.slug] = contract_for(
                skill, parties, plan_given=settings.policy.contract_plan, jobs=settings.jobs
            )
    for slug, contract in contracts.items():
        if shelf is not None:
            shelf.settle(f"{slug}/", keep=isinstance(contract, SkillContract) and contract.whole)
        bundle.write(contract_file(slug), redacted(world.redactor, contract))
    return with_plans(plan, contracts)
