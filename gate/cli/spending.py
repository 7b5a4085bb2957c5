"""What a job of the service has spent when it ends without a report: by its plan, its finished parts, and the journals of
those that were stopped. What nobody can know any more counts as the session's cap: unknown is never zero.
"""

from __future__ import annotations

import fcntl
import json
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from pydantic import ValidationError

from gate.cli.app import App
from gate.cli.session import cache_secret
from gate.domain.plan import SessionPlan
from gate.domain.report import ModelUse
from gate.domain.seeding import SessionSeed
from gate.errors import GateError
from gate.evidence.bundle import SESSION, parse_value
from gate.evidence.merge import SHARD, ShardFacts
from gate.llm.journal import Journal, vouched
from gate.settings import Caps, Policy, Settings

_BROKEN = (OSError, ValueError, KeyError, TypeError, ValidationError, GateError)


class Spending(NamedTuple):
    """What was spent on a job."""

    calls: int
    known_usd: float
    """US dollars of the calls whose price and usage are known: at least this much was spent."""
    counted_usd: float
    """What is to count against a budget: the same, or the session's cap where something is not known."""


def spending_of(app: App, plan: Path, planning: Path, parts: Sequence[Path]) -> Spending:
    """What is in a job's folder: the file of its ``plan``, the folder that it was ``planning`` in, and those of its ``parts``.

    Never raises: a file that is not there, or cannot be read or believed, was either never needed, or makes what was spent
    unknown.
    """
    uses: list[ModelUse] = []
    caps = [Caps().usd_per_session]
    unknown = False
    for found in (_of_plan(plan) if plan.exists() else _of_stopped(app, planning), *_of_parts(app, parts)):
        uses += found.uses
        unknown |= found.unknown
        caps += found.caps
    known = sum(use.known_cost_usd for use in uses)
    unknown |= any(use.cost_usd is None for use in uses)
    return Spending(sum(use.calls for use in uses), known, max(known, caps[-1]) if unknown else known)


def counted(uses: Iterable[ModelUse], cap: float) -> float:
    """US dollars that count against a budget for a session with a report: what is known, or its cap where answers of a model
    came at no known price at all."""
    uses = tuple(uses)
    free = any(use.cost_usd is None and not use.known_cost_usd and use.calls > use.failed_calls for use in uses)
    known = sum(use.known_cost_usd for use in uses)
    return max(known, cap) if free else known


def is_busy(part: Path) -> bool:
    """Whether a process is at work on a part of a job (``part-1-8`` has its lock beside it, ``part-1-8.lock``)."""
    try:
        with part.with_name(f"{part.name}.lock").open() as file:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    except OSError:
        return False  # nobody ever began, or a file system without locks
    return False


class _Found(NamedTuple):
    uses: tuple[ModelUse, ...] = ()
    unknown: bool = False
    caps: tuple[float, ...] = ()
    """Of the session, where it is said."""


def _of_plan(file: Path) -> _Found:
    try:
        plan = parse_value(file.read_bytes(), SessionPlan)
        return _Found(tuple(map(ModelUse.model_validate, plan.usage)), caps=(cap_of(plan.settings),))
    except _BROKEN:
        return _Found(unknown=True)


def _of_parts(app: App, parts: Sequence[Path]) -> Iterator[_Found]:
    for folder in parts:
        found = _of_finished(folder) if (folder / "manifest.json").is_file() else _of_stopped(app, folder)
        # What one at work spends from now on, nobody counts.
        yield found._replace(unknown=True) if is_busy(folder) else found


def _of_finished(folder: Path) -> _Found:
    try:
        return _Found(parse_value((folder / SHARD).read_bytes(), ShardFacts).usage)
    except _BROKEN:
        return _Found(unknown=True)


def _of_stopped(app: App, folder: Path) -> _Found:
    """By its journal. Before session.json is written no model is asked."""
    if not (folder / SESSION).exists():
        return _Found()
    try:
        facts: Any = json.loads((folder / SESSION).read_bytes())
        caps = (cap_of(facts),)
        secret = cache_secret(app)
        if secret is None or not vouched(folder, secret):
            return _Found(unknown=True, caps=caps)
        journal = Journal(folder, SessionSeed(facts["seed"]), facts["run_date"], secret)
        ledger = app.make_ledger(Settings(repository=".", policy=Policy()), facts["run_date"])
        journal.charge(ledger)
        return _Found(ledger.uses(), caps=caps)
    except _BROKEN:
        return _Found(unknown=True)


def cap_of(facts: Any) -> float:
    """US dollars that a session may spend by its policy. ``facts``: session.json, or the settings of a plan. Raises what
    ``_BROKEN`` names."""
    return Caps.model_validate(facts["policy"]["caps"]).usd_per_session
