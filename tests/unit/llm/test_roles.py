from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import pytest

from gate.domain.chat import Role
from gate.errors import ConfigurationError
from gate.llm.roles import Models, same_family
from gate.protocols import ChatModel
from tests.fakes.chat import ScriptedChat


@pytest.mark.requirements("R45")
def test_each_role_gets_a_client_of_its_own_and_keeps_it() -> None:
    models = Models(lambda role: ScriptedChat(name=f"scripted:{role.value}"))
    assert models.of(Role.GRADER) is models.of(Role.GRADER)
    assert models.of(Role.GRADER) is not models.of(Role.COMPARATOR)
    assert models.names() == {Role.GRADER: "scripted:grader", Role.COMPARATOR: "scripted:comparator"}


def test_a_client_is_made_once_although_many_threads_ask() -> None:
    made: list[Role] = []

    def make(role: Role) -> ChatModel:
        made.append(role)
        return ScriptedChat()

    models = Models(make)
    with ThreadPoolExecutor(8) as pool:
        clients = set(pool.map(lambda _: id(models.of(Role.EXECUTOR)), range(64)))
    assert len(clients) == 1
    assert made == [Role.EXECUTOR]


def test_a_role_whose_client_could_not_be_made_is_asked_for_again() -> None:
    def broken(role: Role) -> ChatModel:
        raise ConfigurationError("no key")

    models = Models(broken)
    for _ in range(2):
        with pytest.raises(ConfigurationError):
            models.of(Role.GRADER)
    assert models.names() == {}


def test_a_family_that_judges_itself_is_named() -> None:
    executor = ScriptedChat(name="openai:gpt-a", family="openai")
    judge = ScriptedChat(name="openai:gpt-b", family="openai")
    other = ScriptedChat(name="anthropic:claude", family="anthropic")
    note = same_family(executor, judge)
    assert note is not None
    assert "openai:gpt-a" in note
    assert "openai:gpt-b" in note
    assert same_family(executor, other) is None
