"""R207: a judge that shares its client with whoever it judges sees its own words and likes them; ours cannot (judging.md 1)."""

from __future__ import annotations

import json
import re
import threading
from pathlib import Path

import pytest

from gate.domain.chat import ChatReply, ChatRequest, Finish, Message, Role, TokenUsage
from gate.domain.discussion import Discussion
from gate.judging.discussion import discuss_run
from gate.llm.ledger import Ledger
from gate.llm.roles import Models
from gate.protocols import ChatModel
from gate.settings import Caps, ModelChoice, Settings
from gate.wiring import bind
from tests.builders_judging import SEED
from tests.unit.judging.test_discussion import ACCEPTS, NAMES, RESPONSE, ground, report

BIAS = 0.12
"""What the source measured for a client that executor and evaluator share."""
FAIR = dict.fromkeys(NAMES, 0.7)
WORK = "I add up the orders by region now."


class Recogniser:
    """A model that gives BIAS more to everything when its own earlier words stand in the conversation."""

    name = "scripted:recogniser"
    family = "scripted"

    def __init__(self) -> None:
        self.seen: list[ChatRequest] = []

    def complete(self, request: ChatRequest) -> ChatReply:
        self.seen.append(request)
        if request.label.startswith("work"):
            return self._say(WORK)
        if request.label.endswith(("/defender", "/prosecutor")):
            return self._say(ACCEPTS)
        mine = any(message.role == "assistant" and WORK in message.text for message in request.messages)
        more = BIAS if mine else 0.0
        return self._say(report({name: round(score + more, 2) for name, score in FAIR.items()}))

    def _say(self, text: str) -> ChatReply:
        usage = TokenUsage(input_tokens=1, output_tokens=1)
        return ChatReply(text=text, finish=Finish.STOP, usage=usage, model=self.name)


class OneConversation:
    """A client as chat libraries offer it: whatever is asked continues the one conversation that it holds."""

    def __init__(self, model: ChatModel) -> None:
        self.name, self.family = model.name, model.family
        self._model = model
        self._history: tuple[Message, ...] = ()
        self._lock = threading.Lock()

    def complete(self, request: ChatRequest) -> ChatReply:
        with self._lock:
            reply = self._model.complete(request.model_copy(update={"messages": (*self._history, *request.messages)}))
            self._history += (*request.messages, Message(role="assistant", text=reply.text))
            return reply


def overall(root: Path, models: Models) -> float:
    """Let the executor work, then evaluate its run with the production code."""
    request = ChatRequest(label="work/turn-1", system="Work.", messages=(Message(role="user", text="Add up."),))
    assert models.of(Role.EXECUTOR).complete(request).text == WORK
    ledger = Ledger(Caps(), lambda model, usage: 0.0)
    found = discuss_run(ground(root), models=models, ledger=ledger, seed=SEED)
    assert isinstance(found, Discussion)
    assert found.overall is not None
    return found.overall


@pytest.mark.requirements("R5", "R65", "R151", "R207")
def test_a_shared_client_shows_the_bias_and_clients_of_their_own_show_none(tmp_path: Path) -> None:
    model = Recogniser()
    shared_client = OneConversation(model)
    shared = overall(tmp_path / "shared", Models(lambda role: shared_client))
    ours = overall(tmp_path / "ours", Models(lambda role: OneConversation(Recogniser())))
    assert ours == 0.7
    assert shared == 0.82


def test_even_one_model_object_for_all_roles_gets_no_history_from_the_gate(tmp_path: Path) -> None:
    """Models may be given a client without memory for every role: no request of a judge holds what another role said."""
    model = Recogniser()
    assert overall(tmp_path, Models(lambda role: model)) == 0.7
    judged = [request for request in model.seen if not request.label.startswith("work")]
    assert len(judged) == 3
    for request in judged:
        assert [message.role for message in request.messages] == ["user"]
        assert WORK not in json.dumps(request.to_json())


def test_every_role_gets_a_client_object_of_its_own_even_of_one_model() -> None:
    """As bound for a session, by the real factory."""
    settings = Settings(repository=".", models=ModelChoice(executor="openai:one", judge="openai:one"))
    models = bind({"OPENAI_API_KEY": "key"}).bind_models(settings, SEED, "2026-01-31").models
    clients = [models.of(role) for role in Role]
    assert len({id(client) for client in clients}) == len(Role)
    assert all(models.of(role) is client for role, client in zip(Role, clients, strict=True))


def test_the_record_is_what_the_judges_see_of_the_work(tmp_path: Path) -> None:
    model = Recogniser()
    overall(tmp_path, Models(lambda role: model))
    (evaluation,) = [request for request in model.seen if request.label.endswith("/discuss/evaluate")]
    assert RESPONSE in evaluation.messages[0].text
    assert re.search(r"B001:2\|", evaluation.messages[0].text)
