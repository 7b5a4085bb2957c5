"""Before anything runs: engine, images, models that answer; and whatever happens, cleaning up."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager

from gate.domain.chat import Role
from gate.domain.plan import (
    Plan,
)
from gate.errors import BudgetError, ConfigurationError, InfrastructureError
from gate.evidence.bundle import Bundle
from gate.evidence.cache import ReplyShelf
from gate.execution.harnesses.install import install
from gate.execution.reuse import Reuse
from gate.execution.runner import Agent
from gate.judging.grader import other_family
from gate.llm.remembering import remembering
from gate.llm.roles import Models, readiness
from gate.pipeline.world import CANCEL_SECONDS, Session, Trouble, World, runs_of
from gate.planning.plan import planned_requests
from gate.protocols import Sandbox
from gate.settings import Settings


@contextmanager
def cleaned_up(session: Session) -> Iterator[None]:
    """Whatever happens, nothing of this session stays on the engine; when told to stop, containers are killed at once.

    What a slow engine still holds when the program has to leave is the next session's to remove.
    """
    world, sandbox = session.world, session.sandbox
    ended = threading.Event()

    def watch() -> None:
        while not ended.is_set():
            if world.cancelled.wait(0.2):
                sandbox.kill_all(world.session_id)
                if not ended.wait(CANCEL_SECONDS / 2):
                    sandbox.reap(world.session_id)
                return

    threading.Thread(target=watch, name="sweep", daemon=True).start()
    try:
        yield
    finally:
        for failure in sandbox.reap(world.session_id).failed:
            world.progress.say(f"could not remove: {failure}")
        if session.agent is not None:
            session.agent.gateway.close()
        ended.set()


def open_session(
    settings: Settings, world: World, plan: Plan, bundle: Bundle, trouble: Trouble
) -> tuple[Session | None, str]:
    """Preflight: an engine, the image and one cheap answer of each model, before any container starts (cases B 21)."""
    if world.models is None:
        raise ConfigurationError("Runs are planned, but no model is named.", remedy="Name one with --model.")
    sandbox: Sandbox | None = None
    try:
        sandbox = world.sandbox()
        description = sandbox.facts().description
        # What a session that was killed has left, on a laptop too, where no later step cleans up.
        for failure in sandbox.reap(None).failed:
            world.progress.say(f"could not remove what an earlier session left: {failure}")
        images = _images(settings, sandbox, plan)
        agent = _agent(world, sandbox, images)
        session = _session(settings, world, plan, bundle, sandbox=sandbox, images=images, trouble=trouble, agent=agent)
        if not _all_kept(session):
            _preflight_models(world, world.models, second=settings.policy.second_judge == "on")
    except (InfrastructureError, BudgetError) as error:
        for skill in plan.skills:
            if skill.not_measured is None and skill.cases:
                trouble.error(skill.slug, str(error))
        if world.agent is not None and sandbox is not None:
            sandbox.reap(world.session_id)  # the volume of the program
        return None, "none could be used"
    if agent is not None:
        description += f"; the cases were run by {agent.program.text}"
    world.progress.say(f"sandbox: {description}")
    return session, description


def _agent(world: World, sandbox: Sandbox, images: dict[str, str]) -> Agent | None:
    """The session's agent program, in its volume and seen to run. Raises InfrastructureError, ConfigurationError."""
    if world.agent is None or not images:
        return None
    source = world.agent()
    image = images[min(images)]
    return Agent(install(source, sandbox, image=image, session_id=world.session_id), source.gateway)


def _session(
    settings: Settings,
    world: World,
    plan: Plan,
    bundle: Bundle,
    *,
    sandbox: Sandbox,
    images: dict[str, str],
    trouble: Trouble,
    agent: Agent | None = None,
) -> Session:
    models, reuse, shelf = world.models, None, None
    if models is None:
        raise ConfigurationError("Runs are planned, but no model is named.", remedy="Name one with --model.")
    if world.cache is not None:
        reuse, shelf = Reuse(world.cache, bundle, world.progress), ReplyShelf(world.cache)
        models = remembering(models, shelf)
    return Session(
        settings=settings,
        world=world,
        plan=plan,
        bundle=bundle,
        sandbox=sandbox,
        models=models,
        images=images,
        trouble=trouble,
        reuse=reuse,
        shelf=shelf,
        agent=agent,
    )


def _all_kept(session: Session) -> bool:
    """Whether an earlier session made every planned run: then no model has to answer before anything starts."""
    reuse = session.reuse
    return reuse is not None and all(
        reuse.has(request, session.around(request)) for request in planned_requests(session.plan)
    )


def _images(settings: Settings, sandbox: Sandbox, plan: Plan) -> dict[str, str]:
    """The image of every skill that is run: its own of the policy, the policy's, or the session's. Each is asked for once."""
    ids: dict[str, str] = {}
    found = {}
    for skill in plan.skills:
        if not any(map(runs_of, skill.cases)):
            continue
        image = settings.policy.for_skill(skill.change.path).image or settings.image
        if image not in ids:
            ids[image] = sandbox.resolve_image(image)
        found[skill.change.path] = ids[image]
    return found


def _preflight_models(world: World, models: Models, *, second: bool) -> None:
    """One cheap answer of every model that the session cannot do without.

    Raises ModelError, BudgetError, and ConfigurationError where the policy wants a second judge and there is none.
    """
    if second and not other_family(models):
        raise ConfigurationError(
            "The policy says second_judge: on, but there is no grader of a second family.",
            remedy="Name one under models: second_grader, of another provider than the grader.",
        )
    for role, model in models.distinct((Role.EXECUTOR, Role.GRADER, *((Role.SECOND_GRADER,) if second else ()))):
        world.progress.say(f"asking {model.name} whether it answers")
        world.ledger.call(model, readiness(f"preflight/{role.value}"), role=role)
