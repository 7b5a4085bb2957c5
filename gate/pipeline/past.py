"""What a session knows of earlier ones, and what it leaves to later ones (``gate.decision.history`` says what it means)."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence

from gate.domain.chat import Role
from gate.domain.evidence import Timing
from gate.domain.history import HistoryEntry, Past
from gate.domain.plan import Arm, Plan, SkillPlan
from gate.domain.report import SkillRecord
from gate.errors import EvidenceError, InfrastructureError, RepositoryError
from gate.evidence.bundle import Bundle
from gate.evidence.cache import DEFAULT_SCOPE, Cache
from gate.evidence.history import LOCAL_SCOPE, add, history_file, past_file, recorded
from gate.pipeline.world import Session, World, write


def write_past(session: Session, skills: Sequence[SkillPlan]) -> None:
    """past.json of these skills: what their earlier sessions recorded, as far as the cache vouches for it."""
    on_default = _on_default(session.world, session.plan)
    for skill in skills:
        write(session, past_file(skill.slug), _past(session, skill, on_default))


def _past(session: Session, skill: SkillPlan, on_default: bool) -> Past:
    world = session.world
    default, own = recorded(world.cache, _paths(skill), world.session_id) if world.cache is not None else ((), ())
    return Past(
        model=session.models.of(Role.EXECUTOR).name,
        harness=session.harness,
        judge=session.models.of(Role.GRADER).name,
        on_default=on_default,
        kept=world.cache is not None,
        default=default,
        own=own,
    )


def _paths(skill: SkillPlan) -> list[str]:
    return [skill.change.path, *([skill.change.old_path] if skill.change.old_path else [])]


def _on_default(world: World, plan: Plan) -> bool:
    """Whether the default branch itself is judged: by what an Action's event says, else by the commit."""
    scope = world.cache.scope.name if world.cache is not None else LOCAL_SCOPE
    if scope != LOCAL_SCOPE:
        return scope == DEFAULT_SCOPE
    try:
        return plan.head_commit is not None and plan.head_commit == world.repository.default_branch()
    except RepositoryError:
        return False


def read_again(bundle: Bundle, skills: Sequence[SkillPlan], cache: Cache, session_id: str) -> None:
    """past.json of these skills of a merged session, by the cache of the machine that merges: one view for all shards.

    Shards run on machines of their own, whose caches may be empty. Where this one holds nothing of a skill, what they have
    read stays. Raises EvidenceError.
    """
    for skill in skills:
        past = read_past(bundle, skill.slug)
        if past is None:
            continue
        default, own = recorded(cache, _paths(skill), session_id)
        found = {"default": default, "own": own} if default or own else {}
        bundle.write(past_file(skill.slug), past.model_copy(update={"kept": True, **found}))


def read_past(bundle: Bundle, slug: str) -> Past | None:
    """past.json; None where the session wrote none. Raises EvidenceError."""
    return bundle.read(past_file(slug), Past) if bundle.exists(past_file(slug)) else None


def history_with(past: Past, entry: HistoryEntry | None) -> list[dict[str, object]]:
    """history.json: SkillSentry's array, oldest first, this session last."""
    earlier = sorted((*past.default, *past.own), key=lambda item: item.run_at)
    return [item.to_json() for item in (*earlier, *([entry] if entry is not None else []))]


def write_history(bundle: Bundle, entries: Mapping[str, HistoryEntry | None]) -> None:
    """history.json of every skill that has a past. ``entries``: slug -> what this session recorded."""
    for slug, entry in entries.items():
        past = read_past(bundle, slug)
        if past is not None:
            bundle.write(history_file(slug), history_with(past, entry))


def keep_history(
    cache: Cache | None,
    skills: Sequence[SkillPlan],
    entries: Mapping[str, HistoryEntry | None],
    say: Callable[[str], None],
) -> None:
    """Keep what this session recorded for later ones; what cannot be kept is said and changes nothing."""
    if cache is None:
        return
    for skill in skills:
        entry = entries.get(skill.slug)
        if entry is None:
            continue
        try:
            add(cache, skill.change.path, entry)
        except InfrastructureError as error:
            say(f"the history of {skill.change.path} could not be kept: {error}")


def p95_ms(bundle: Bundle, record: SkillRecord) -> int | None:
    """95th percentile (nearest rank) of the times of the finished runs with the skill, milliseconds; None: unknown."""
    times = []
    for case in record.cases:
        for run in case.of(Arm.WITH_SKILL):
            if run.record.scored:
                try:
                    times.append(bundle.read(f"{run.record.key.folder}/timing.json", Timing).duration_ms)
                except EvidenceError:
                    return None
    return sorted(times)[math.ceil(0.95 * len(times)) - 1] if times else None


def seconds(bundle: Bundle, folder: str) -> float | None:
    """How long a run took, by its folder; None: nobody knows."""
    try:
        return bundle.read(f"{folder}/timing.json", Timing).total_duration_seconds
    except EvidenceError:
        return None
