"""The null controls of a session: each changed skill's suite is tried on agents that do no work, once per suite."""

from __future__ import annotations

from dataclasses import replace
from functools import cache

from gate.domain.base import digest_of
from gate.domain.findings import Finding, Level
from gate.domain.intake import Intake, SkillIntake
from gate.domain.plan import Mode
from gate.domain.skill import ChangeKind
from gate.domain.suite import Suite
from gate.errors import InfrastructureError
from gate.evidence.cache import code_digest
from gate.execution.null_agents import NullStage
from gate.pipeline.null_controls import Engine, NullResult, NullResults, facts_of, null_findings, null_results
from gate.pipeline.world import World
from gate.planning.plan import is_golden
from gate.settings import Settings

UNKNOWN = "suite/null-agents-unknown"
"""Of the finding where only an engine could say whether a null agent passes, and there was none."""


def with_null_controls(intake: Intake, settings: Settings, world: World) -> Intake:
    """The intake with a blocking finding for every suite that a null agent passes. No model is asked, nothing is paid."""
    return replace(intake, skills=tuple(_controlled(item, settings, world) for item in intake.skills))


def _controlled(found: SkillIntake, settings: Settings, world: World) -> SkillIntake:
    suite = found.suite
    if (
        found.head is None
        or suite is None
        or suite.generated
        or found.change.kind is ChangeKind.DELETED
        or found.invalid
    ):
        return found
    stage = NullStage(_asked(suite, settings), found.head, found.base)
    thresholds = settings.policy.for_skill(found.change.path).thresholds
    results = null_results(stage, run_date=world.run_date, thresholds=thresholds)
    runs = settings.static_only is None and world.models is not None
    if any(item.verdict is None for item in results) and runs:
        results = _with_engine(stage, found, settings, world) or results
    findings = null_findings(stage, results, path=suite.path)
    unknown = _unknown(results, suite.path, runs=runs)
    return found.model_copy(update={"findings": (*found.findings, *findings, *unknown)})


def _asked(suite: Suite, settings: Settings) -> Suite:
    """What of a suite this session runs: a strong case that is left out stops nobody."""
    golden = tuple(case for case in suite.cases if settings.mode is Mode.REGRESSION and is_golden(case))
    return suite.model_copy(update={"cases": golden}) if golden else suite


def _with_engine(
    stage: NullStage, found: SkillIntake, settings: Settings, world: World
) -> tuple[NullResult, ...] | None:
    """The results with command checks executed, from the cache where an earlier session had them; None without an engine."""
    image = settings.policy.for_skill(found.change.path).image or settings.image
    thresholds = settings.policy.for_skill(found.change.path).thresholds
    facts = digest_of([facts_of(stage, image), code_digest(), thresholds.to_json(), world.run_date])
    if world.cache is not None and (kept := world.cache.take_value("nulls", facts, NullResults)) is not None:
        return kept.results

    @cache
    def engine() -> Engine:
        sandbox = world.sandbox()
        return Engine(sandbox, sandbox.resolve_image(image), world.session_id, world.clock)

    world.progress.say(f"{found.change.path}: running its command checks for agents that do no work")
    try:
        results = null_results(stage, run_date=world.run_date, thresholds=thresholds, engine=engine)
    except InfrastructureError:
        return None
    if world.cache is not None:
        try:
            world.cache.keep_value("nulls", facts, NullResults(results=results), found.slug)
        except InfrastructureError as error:
            world.progress.say(f"what null agents do to {found.change.path} could not be kept for later: {error}")
    return results


def _unknown(results: tuple[NullResult, ...], path: str, *, runs: bool) -> tuple[Finding, ...]:
    """``runs``: cases are going to be run, and what they give would say more than anybody knows: a warning that limits."""
    waiting = [item for item in results if item.verdict is None]
    if not waiting:
        return ()
    return (
        Finding(
            rule=UNKNOWN,
            level=Level.WARNING if runs else Level.NOTICE,
            path=path,
            message=(
                f"whether {', '.join(item.agent for item in waiting)} would pass is decided by "
                f"{'; '.join(waiting[0].waits_for[:3])}, which need an engine: not known"
            ),
            remedy="Run the gate where a Docker engine is.",
        ),
    )
