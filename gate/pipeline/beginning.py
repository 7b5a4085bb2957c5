"""A session's folder is begun or gone on with, and is left in time: what a session needs that runs nothing, too."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

from gate.domain.base import pretty_json
from gate.evidence.bundle import PLAN, SESSION, Bundle
from gate.llm.journal import JOURNAL, journalled
from gate.pipeline.world import CANCEL_SECONDS, World


def continue_or_begin(bundle: Bundle, session_file: Any, world: World) -> World:
    """Write session.json; what lies in the folder is used where it is of exactly this session, else it goes.

    The same session: equal settings, policy, seed, plan and code. Returns the world with a journal on its models.
    """
    data, journal = pretty_json(session_file), world.journal
    if journal is not None and journal.continues(data):
        runs, replies = journal.put_aside(), journal.charge(world.ledger)
        bundle.clear(keep=frozenset({SESSION, PLAN, JOURNAL}))
        world.progress.say(
            f"continuing the session that was stopped: {runs} runs and {replies} replies are here already"
        )
    else:
        bundle.clear()
        if journal is not None:
            journal.forget()
            journal.vouch(data)
        bundle.write_bytes(SESSION, data)
    world.ledger.book = journal
    if journal is None or world.models is None:
        return world
    return replace(world, models=journalled(world.models, journal))


@contextmanager
def left_in_time(world: World) -> Iterator[None]:
    """When told to stop, leave within a few seconds, whatever is waited for.

    A model's answer under way can take minutes, the first one of the preflight too, and an engine can be slow to open;
    a runner kills the program 10 s after its first signal.
    """
    ended = threading.Event()

    def watch() -> None:
        while not ended.is_set():
            if world.cancelled.wait(0.2):
                if not ended.wait(CANCEL_SECONDS * 1.5):
                    world.abort()
                return

    threading.Thread(target=watch, name="cancel", daemon=True).start()
    try:
        yield
    finally:
        ended.set()
