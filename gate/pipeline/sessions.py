"""Every stage in order, and the one loop: the table of contents of the program. Ends at a GateReport."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from gate.domain.base import NotRun, digest_of
from gate.domain.chat import Role
from gate.domain.contract import SkillContract
from gate.domain.findings import Finding
from gate.domain.history import HistoryEntry
from gate.domain.intake import Intake
from gate.domain.numbers import counted
from gate.domain.plan import (
    Plan,
    SessionPlan,
    SkillPlan,
)
from gate.domain.report import CaseUse, GateReport, JudgedRun, ModelUse
from gate.errors import Cancelled, InfrastructureError
from gate.evidence.assemble import (
    contract_file,
)
from gate.evidence.bundle import PLAN, SESSION, Bundle
from gate.evidence.cache import ReplyShelf, code_digest
from gate.evidence.merge import SHARD, ShardFacts, merge_shards, shard_errors, summed, summed_cases
from gate.evidence.redact import Redactor
from gate.intake.read import read_session
from gate.judging.ground_truth.trivial import idle_passes
from gate.llm.remembering import remembering
from gate.pipeline.deciding import decided
from gate.pipeline.facts import Told, cache_findings, plan_facts, session_facts, write_facts
from gate.pipeline.layer3 import discuss, layer3
from gate.pipeline.null_session import with_null_controls
from gate.pipeline.opening import cleaned_up, continue_or_begin, left_in_time, open_session
from gate.pipeline.past import keep_history, write_history, write_past
from gate.pipeline.runs import case_records, confirm, fill, run_and_judge, with_stand_ins
from gate.pipeline.world import (
    NO_SANDBOX,
    Session,
    Trouble,
    World,
    each,
    raise_if_cancelled,
    redacted,
    runs_of,
    write_raw,
)
from gate.planning.contract import Parties, contract_for, draft, wants_draft, with_plans
from gate.planning.past import PastCost, expected, expected_words, past_facts, past_of
from gate.planning.plan import plan_session, planned_requests
from gate.planning.shards import Shard, part_of, shards
from gate.planning.shares import Spent, most_calls_to_discuss, shares_of, with_shares
from gate.settings import Settings

_WHY_FURTHER = {"fill": "of cases that are undecided", "confirm": "to see whether what failed fails again"}


def run(settings: Settings, world: World) -> GateReport:
    """The main job: from a change in a repository to a report, everything written to the bundle.

    Raises ConfigurationError and RepositoryError where the job could not begin, Cancelled when told to stop. What fails
    later is in the report: a verdict ``error`` and the state that follows from it.
    """
    bundle = Bundle(Path(settings.out))
    planned = _prepared(settings, world, bundle)
    trouble = Trouble()
    sandbox_text = _measured(settings, planned.world, planned.plan, bundle, trouble)
    told = Told(
        planned.findings + tuple(cache_findings(world)),
        world.notes,
        world.ledger.uses(),
        sandbox_text,
        world.ledger.cases(),
    )
    write_facts(bundle, world.redactor, planned.plan, trouble, told)
    report, entries = _concluded(bundle)
    keep_history(world, planned.plan.skills, entries)
    return report


class _Planned(NamedTuple):
    """What is known before anything runs."""

    plan: Plan
    findings: tuple[Finding, ...]
    """Of the session as a whole."""
    session: dict[str, Any]
    """session.json."""
    world: World
    """With a journal on its models."""


def _prepared(settings: Settings, world: World, bundle: Bundle) -> _Planned:
    """Intake, plan and contract; writes session.json and plan.json."""
    # Suppressions end by the date that everything else of this session is counted from.
    intake = read_session(world.repository, settings.model_copy(update={"run_date": world.run_date}))
    # Before anything is paid for: what an agent that does no work passes says nothing about one that does.
    intake = with_null_controls(intake, settings, world)
    plan = plan_session(intake, settings, session_id=world.session_id, run_date=world.run_date)
    facts = {**session_facts(settings, world), "plan": digest_of(plan_facts(plan)), "code": code_digest()}
    session_file: dict[str, Any] = world.redactor.json(facts)
    world = continue_or_begin(bundle, session_file, world)
    bundle.write(PLAN, world.redactor.json({**plan_facts(plan), "harness": settings.harness}))
    if settings.policy.contract == "on" and world.models is not None and settings.static_only is None:
        with left_in_time(world):
            plan = _contracted(settings, world, intake, plan, bundle)
    plan = with_shares(plan, settings, _spent_on_contracts(world, plan))
    bundle.write(PLAN, world.redactor.json({**plan_facts(plan), "harness": settings.harness}))
    return _Planned(plan, intake.findings, session_file, world)


def _spent_on_contracts(world: World, plan: Plan) -> dict[str, Spent]:
    """By slug; a session that goes on has spent on its runs too, which are not meant."""
    found = {}
    for skill in plan.skills:
        uses = [use for use in world.ledger.uses(skill.slug) if use.role in (Role.GENERATOR, Role.REVIEWER)]
        found[skill.slug] = Spent(sum(use.calls for use in uses), math.fsum(use.known_cost_usd for use in uses))
    return found


def _measured(settings: Settings, world: World, plan: Plan, bundle: Bundle, trouble: Trouble) -> str:
    """Everything that runs; returns what it ran in, in words."""
    measured = [skill for skill in plan.skills if skill.not_measured is None and any(map(runs_of, skill.cases))]
    if not measured:
        return NO_SANDBOX
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


def _concluded(bundle: Bundle) -> tuple[GateReport, dict[str, HistoryEntry | None]]:
    """Decide on what the bundle's files say, and write it beside them. Returns too what later sessions may know of it."""
    report, entries, shapes = decided(bundle.root)
    for skill_report in report.skills:
        bundle.write(f"skills/{skill_report.slug}/gate-result.json", skill_report)
    for name, data in shapes.items():
        bundle.write_bytes(name, data)
    write_history(bundle, entries)
    bundle.write("report.json", report)
    return report, entries


def make_plan(settings: Settings, world: World) -> SessionPlan:
    """A plan to be cut into shards. Nothing is run; with a contract, generator and reviewer are asked once, here.

    Raises as ``run``.
    """
    bundle = Bundle(Path(settings.out))
    planned = _prepared(settings, world, bundle)
    agreed = sorted(bundle.root.glob("skills/*/contract.json"))
    names = [path.relative_to(bundle.root).as_posix() for path in agreed]
    return SessionPlan(
        settings=settings.model_copy(update={"out": "", "cache": None, "seed": world.seed.hex}).to_json(),
        session=planned.session,
        plan=planned.plan,
        findings=planned.findings,
        files={name: bundle.read_json(name) for name in names},
        usage=tuple(use.to_json() for use in planned.world.ledger.uses()),
        cases=tuple(use.to_json() for use in planned.world.ledger.cases()),
        contents={
            file.sha256: file.data
            for skill in planned.plan.skills
            for version in (skill.head, skill.base)
            if version is not None
            for file in version.files
        },
    )


def run_shard(settings: Settings, world: World, session: SessionPlan, shard: Shard, attempt: int = 1) -> ShardFacts:
    """Run the cases of one shard into the bundle folder: runs, fill, confirm, Layers 2 and 3; no decision.

    ``settings`` are the plan's, with an own ``out``. Raises ConfigurationError for a shard that the plan does not have,
    and as ``run``.
    """
    bundle = Bundle(Path(settings.out))
    part = part_of(session.whole(), shard)
    world = continue_or_begin(bundle, {**session.session, "shard": str(shard), "digest": session.digest}, world)
    for name, value in session.files.items():
        bundle.write(name, value)  # the discussion holds runs to their contract
    trouble = Trouble()
    sandbox_text = _measured(settings, world, part, bundle, trouble)
    facts = ShardFacts(
        plan=session.digest,
        number=shard.number,
        count=shard.of,
        attempt=attempt,
        usage=world.ledger.uses(),
        cases=world.ledger.cases(),
        sandbox=sandbox_text,
        notes=tuple(trouble.notes),
        findings=tuple(cache_findings(world)),
        errors={slug: tuple(sorted(texts)) for slug, texts in sorted(trouble.errors.items())},
        over_budget=dict(sorted(trouble.over_budget.items())),
    )
    write_raw(bundle, world.redactor, SHARD, facts)
    return facts


def merge(
    session: SessionPlan, folders: Sequence[Path], count: int, out: Path, mac_key: bytes | None = None
) -> GateReport:
    """The session of a plan from its shards: as if one machine had run it, or with what is missing or broken said.

    A shard that is missing makes its skills ``error``, one that was changed makes them ``invalid``. Raises
    ConfigurationError for folders that are no shards of this plan.
    """
    bundle = Bundle(out)
    bundle.clear()
    bundle.write(SESSION, session.session)  # first: a merge that is killed leaves a folder that the next one knows
    merged = merge_shards(folders, session.digest, count, bundle, mac_key)
    slugs = {number: {unit.slug for unit in own} for number, own in enumerate(shards(session.plan, count), 1)}
    trouble = Trouble()
    for slug, texts in shard_errors(merged, slugs).items():
        trouble.errors[slug] = set(texts)
    for number, text in sorted(merged.broken.items()):
        for slug in slugs[number]:
            trouble.broken.setdefault(slug, set()).add(f"shard {text}")
    for facts in merged.shards:
        trouble.notes += [note for note in facts.notes if note not in trouble.notes]
        for slug, text in facts.over_budget.items():
            trouble.budget(slug, text)
    used = sorted({facts.sandbox for facts in merged.shards} - {NO_SANDBOX}) or [NO_SANDBOX]
    findings = [finding for facts in merged.shards for finding in facts.findings]
    told = Told(
        (*session.findings, *sorted(set(findings), key=lambda finding: (finding.path, finding.rule))),
        tuple(session.session["notes"]),
        summed(
            [*map(ModelUse.model_validate, session.usage), *(use for facts in merged.shards for use in facts.usage)]
        ),
        "; ".join(used),
        summed_cases(
            [*map(CaseUse.model_validate, session.cases), *(use for facts in merged.shards for use in facts.cases)]
        ),
    )
    bundle.write(PLAN, {**plan_facts(session.plan), "harness": session.settings["harness"]})
    for name, value in session.files.items():
        bundle.write(name, value)
    write_facts(bundle, Redactor({}), session.whole(), trouble, told)
    return _concluded(bundle)[0]


def _contracted(settings: Settings, world: World, intake: Intake, plan: Plan, bundle: Bundle) -> Plan:
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
    room = settings.policy.caps.skills_per_session - sum(map(_is_measured, plan.skills))
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
        drafted = intake.model_copy(update={"skills": tuple(skills)})
        plan = plan_session(drafted, settings, session_id=world.session_id, run_date=world.run_date)
    for skill in filter(_is_measured, plan.skills):
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


def _is_measured(skill: SkillPlan) -> bool:
    return skill.not_measured is None and any(map(runs_of, skill.cases))


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
