"""A judge that asks its provider only what no earlier session asked in exactly the same words."""

from __future__ import annotations

from gate.domain.chat import ChatReply, ChatRequest, Finish, Role
from gate.evidence.cache import ReplyShelf
from gate.llm.roles import Models
from gate.protocols import ChatModel

JUDGES = frozenset(Role) - {Role.EXECUTOR}
"""Whose replies may be used again. A run is kept as a whole, never reply by reply: its tools must have been used."""


class RememberingModel:
    """A ChatModel over another one; every other property is the other's."""

    def __init__(self, model: ChatModel, shelf: ReplyShelf) -> None:
        self._model = model
        self._shelf = shelf

    @property
    def name(self) -> str:
        """As ChatModel.name."""
        return self._model.name

    @property
    def family(self) -> str:
        """As ChatModel.family."""
        return self._model.family

    def complete(self, request: ChatRequest) -> ChatReply:
        """The kept reply, marked ``remembered``, else the model's. Raises ModelError."""
        kept = self._shelf.take(self.name, request)
        if kept is not None:
            return kept
        reply = self._model.complete(request)
        if reply.finish is Finish.STOP:
            self._shelf.put(self.name, request, reply)
        return reply


def remembering(models: Models, shelf: ReplyShelf) -> Models:
    """The same models, the judges' with a shelf. Clients stay one a role."""

    def make(role: Role) -> ChatModel:
        model = models.of(role)
        return RememberingModel(model, shelf) if role in JUDGES else model

    return Models(make)
