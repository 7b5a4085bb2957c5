"""A model that is asked only what no earlier session asked in exactly the same words: a judge, and an agent for its first words."""

from __future__ import annotations

import re

from gate.domain.chat import ChatReply, ChatRequest, Finish, Role
from gate.evidence.cache import ReplyShelf
from gate.llm.ledger import is_at_hand
from gate.llm.roles import Models
from gate.protocols import ChatModel

JUDGES = frozenset(Role) - {Role.EXECUTOR}
"""Whose replies may be used again."""
_FIRST_WORDS = re.compile(r".+/run-\d+/(?:with_skill|base_skill)/turn-1")
"""Of an agent, before it has seen anything of its skill but name and description: where only the skill's text changed, the
question is the same, letter by letter, and nobody gets another draw of it by pushing again. What it then does it does in a
sandbox of now, and everything after is asked anew. A run without a skill is kept as a whole or not at all: of one that must
be made again because of what it saw, the first words may be the reason.
"""


class RememberingModel:
    """A ChatModel over another one; every other property is the other's."""

    def __init__(self, model: ChatModel, shelf: ReplyShelf, *, only: re.Pattern[str] | None = None) -> None:
        """``only``: labels of the calls that are looked for and kept; None: all."""
        self._model = model
        self._shelf = shelf
        self._only = only

    @property
    def name(self) -> str:
        """As ChatModel.name."""
        return self._model.name

    @property
    def family(self) -> str:
        """As ChatModel.family."""
        return self._model.family

    def at_hand(self, request: ChatRequest) -> bool:
        """As ``gate.llm.ledger.AtHand``."""
        return self._kept(request) is not None or is_at_hand(self._model, request)

    def _is_meant(self, request: ChatRequest) -> bool:
        return self._only is None or self._only.fullmatch(request.label) is not None

    def _kept(self, request: ChatRequest) -> ChatReply | None:
        return self._shelf.take(self.name, request) if self._is_meant(request) else None

    def complete(self, request: ChatRequest) -> ChatReply:
        """The kept reply, marked ``remembered``, else the model's. Raises ModelError."""
        kept = self._kept(request)
        if kept is not None:
            return kept
        reply = self._model.complete(request)
        whole = reply.finish is Finish.STOP or (reply.finish is Finish.TOOL_USE and bool(request.tools))
        if self._is_meant(request) and whole:
            self._shelf.put(self.name, request, reply)
        return reply


def remembering(models: Models, shelf: ReplyShelf) -> Models:
    """The same models with a shelf. Clients stay one a role."""

    def make(role: Role) -> ChatModel:
        model = models.of(role)
        return RememberingModel(model, shelf, only=None if role in JUDGES else _FIRST_WORDS)

    return Models(make)
