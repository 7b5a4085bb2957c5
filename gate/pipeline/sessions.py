"""Every stage in order: the table of contents of the program. Ends at a GateReport.

What runs, with the one loop, is ``measuring``; it is imported once there is something to run, and most changes touch no skill.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from gate.domain.base import digest_of
from gate.domain.chat import Role, TokenUsage
from gate.domain.findings import Finding
from gate.domain.history import HistoryEntry
from gate.domain.plan import Plan, SessionPlan
from gate.domain.report import CaseUse, GateReport, ModelUse
from gate.evidence.bundle import PLAN, SESSION, Bundle
from gate.evidence.cache import Cache, code_digest
from gate.evidence.merge import SHARD, ShardFacts, merge_shards, shard_errors, summed, summed_cases
from gate.evidence.redact import Redactor
from gate.intake.read import read_session
from gate.pipeline.beginning import continue_or_begin, left_in_time
from gate.pipeline.deciding import decided
from gate.pipeline.facts import Told, cache_findings, plan_facts, session_facts, write_facts
from gate.pipeline.past import keep_history, read_again, write_history
from gate.pipeline.world import NO_SANDBOX, Trouble, World, is_measured, write_raw
from gate.planning.plan import plan_session
from gate.planning.shards import Shard, part_of, shards
from gate.planning.shares import Spent, shortfalls, with_shares
from gate.settings import Settings


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
        planned.findings + tuple(cache_findings(world.cache)),
        world.notes,
        world.ledger.uses(),
        sandbox_text,
        world.ledger.cases(),
    )
    write_facts(bundle, world.redactor, planned.plan, trouble, told)
    report, entries = _concluded(bundle)
    keep_history(world.cache, planned.plan.skills, entries, world.progress.say)
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
    if intake.skills:
        from gate.pipeline.null_session import with_null_controls

        # Before anything is paid for: what an agent that does no work passes says nothing about one that does.
        intake = with_null_controls(intake, settings, world)
    plan = plan_session(intake, settings, session_id=world.session_id, run_date=world.run_date)
    facts = {**session_facts(settings, world), "plan": digest_of(plan_facts(plan)), "code": code_digest()}
    session_file: dict[str, Any] = world.redactor.json(facts)
    world = continue_or_begin(bundle, session_file, world)
    bundle.write(PLAN, world.redactor.json({**plan_facts(plan), "harness": settings.harness}))
    if settings.policy.contract == "on" and world.models is not None and settings.static_only is None:
        from gate.pipeline.contracting import contracted

        with left_in_time(world):
            plan = contracted(settings, world, intake, plan, bundle)
    plan = with_shares(plan, settings, _spent_on_contracts(world, plan))
    bundle.write(PLAN, world.redactor.json({**plan_facts(plan), "harness": settings.harness}))
    for line in shortfalls(plan, settings, lambda tokens: _price(world, tokens)):
        world.progress.say(line)
    return _Planned(plan, intake.findings, session_file, world)


def _price(world: World, tokens: int) -> float | None:
    """About what so many tokens cost, US dollars: by the executor's price, ten of them read for one that is written."""
    if world.models is None:
        return None
    usage = TokenUsage(input_tokens=tokens - tokens // 11, output_tokens=tokens // 11)
    return world.ledger.price_of(world.models.of(Role.EXECUTOR).name, usage)


def _spent_on_contracts(world: World, plan: Plan) -> dict[str, Spent]:
    """By slug; a session that goes on has spent on its runs too, which are not meant."""
    found = {}
    for skill in plan.skills:
        uses = [use for use in world.ledger.uses(skill.slug) if use.role in (Role.GENERATOR, Role.REVIEWER)]
        found[skill.slug] = Spent(sum(use.calls for use in uses), math.fsum(use.known_cost_usd for use in uses))
    return found


def _measured(settings: Settings, world: World, plan: Plan, bundle: Bundle, trouble: Trouble) -> str:
    """Everything that runs; returns what it ran in, in words."""
    skills = [skill for skill in plan.skills if is_measured(skill)]
    if not skills:
        return NO_SANDBOX
    from gate.pipeline.measuring import measure  # sandboxes and judges: most changes touch no skill

    return measure(settings, world, plan, bundle, trouble, skills)


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
        findings=tuple(cache_findings(world.cache)),
        errors={slug: tuple(sorted(texts)) for slug, texts in sorted(trouble.errors.items())},
        over_budget=dict(sorted(trouble.over_budget.items())),
    )
    write_raw(bundle, world.redactor, SHARD, facts)
    return facts


def merge(
    session: SessionPlan,
    folders: Sequence[Path],
    count: int,
    out: Path,
    mac_key: bytes | None = None,
    *,
    cache: Cache | None = None,
    say: Callable[[str], None] = lambda text: None,
) -> GateReport:
    """The session of a plan from its shards: as if one machine had run it, or with what is missing or broken said.

    A shard that is missing makes its skills ``error``, one that was changed makes them ``invalid``. ``cache``: where the
    session's history is read and kept, under the key that the shards were sealed with. Raises ConfigurationError for
    folders that are no shards of this plan.
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
    if cache is not None:
        read_again(bundle, session.plan.skills, cache, session.plan.session_id)
        findings += cache_findings(cache)
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
    report, entries = _concluded(bundle)
    keep_history(cache, session.plan.skills, entries, say)
    return report
