"""One client object a role: executor, grader, comparator and the rest never share a client or a history."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING

from gate.domain.chat import ChatRequest, Message, Role

if TYPE_CHECKING:
    from gate.protocols import ChatModel


class Models:
    """The models of a session by role. Thread-safe; a role's client is made when it is first asked for, once."""

    def __init__(self, make: Callable[[Role], ChatModel]) -> None:
        """``make`` builds a fresh client for a role; it may raise ConfigurationError."""
        self._make = make
        self._lock = threading.Lock()
        self._made: dict[Role, ChatModel] = {}

    def of(self, role: Role) -> ChatModel:
        """The one client of a role. Raises what ``make`` raises, and tries again when asked again."""
        with self._lock:
            model = self._made.get(role)
            if model is None:
                model = self._made[role] = self._make(role)
            return model

    def distinct(self, roles: Iterable[Role]) -> Iterator[tuple[Role, ChatModel]]:
        """Every model of these roles once, with the first role that has it. Raises as ``of``."""
        seen: set[str] = set()
        for role in roles:
            model = self.of(role)
            if model.name not in seen:
                seen.add(model.name)
                yield role, model

    def names(self) -> dict[Role, str]:
        """``provider:model`` of every role that was asked for so far, in the order of ``Role``."""
        with self._lock:
            return {role: self._made[role].name for role in Role if role in self._made}


def same_family(executor: ChatModel, judge: ChatModel) -> str | None:
    """A note for the report where a model family judges its own work (allowed, warned, recorded); else None.

    Judges favour text that they find likely, most of all where they are wrong themselves (judging.md 1, self-preference).
    """
    if executor.family != judge.family:
        return None
    return (
        f"The agent ({executor.name}) and its judge ({judge.name}) are models of one family ({judge.family}); "
        "judges tend to favour their own family, so read pass rates as an upper bound"
    )


def readiness(label: str) -> ChatRequest:
    """The cheapest question that a working model answers: asked before anything is paid for. ``label``: as in ChatRequest."""
    return ChatRequest(
        label=label,
        system="Answer with the word ready.",
        messages=(Message(role="user", text="Are you ready?"),),
        max_output_tokens=64,
    )
