"""Which requests are a run's conversation: laws over what a hostile program may send beside it."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gate.domain.chat import ChatReply, Finish, Message, ToolResult, ToolUse
from gate.domain.evidence import Outcome
from gate.domain.gateway import Asked, Dialect, Ending, Exchange
from gate.execution.harnesses.conversation import Conversation

PROMPT = "What is one and two?"


def asked(number: int, messages: tuple[Message, ...], tools: tuple[str, ...] = ("Bash",)) -> Asked:
    return Asked(number=number, dialect=Dialect.MESSAGES, system="s", messages=messages, tools=tools)


def user(text: str = PROMPT) -> Message:
    return Message(role="user", text=text)


def calling(*ids: str) -> ChatReply:
    return ChatReply(
        text="t", tool_uses=tuple(ToolUse(id=i, name="Bash", arguments={}) for i in ids), finish=Finish.TOOL_USE
    )


def said(*ids: str) -> Message:
    return Message(role="assistant", tool_uses=calling(*ids).tool_uses)


def told(**results: str) -> Message:
    return Message(role="tool", tool_results=tuple(ToolResult(id=i, text=text) for i, text in results.items()))


def conversation(steps: int = 10) -> Conversation:
    return Conversation(prompt=PROMPT, steps=steps, check=lambda request: None)


def answer(talk: Conversation, request: Asked, reply: ChatReply) -> None:
    assert talk.admit(request) is None
    talk.ended(Exchange(asked=request, end=Ending.ANSWERED, reply=reply))


def two_steps() -> Conversation:
    """Call a, result; then call b and c at once, whose results are still awaited."""
    talk = conversation()
    answer(talk, asked(0, (user(),)), calling("a"))
    answer(talk, asked(1, (user(), said("a"), told(a="1"))), calling("b", "c"))
    return talk


def test_it_goes_on_where_every_call_is_repeated_and_every_result_is_there() -> None:
    talk = two_steps()
    answer(
        talk,
        asked(2, (user(), said("a"), told(a="1"), said("b", "c"), told(b="2", c="3"))),
        ChatReply(text="3", finish=Finish.STOP),
    )
    assert [len(reply.tool_uses) for reply in talk.replies] == [1, 2, 0]
    assert (talk.side, talk.stop) == (0, None)


def test_results_between_the_calls_of_one_reply_are_found() -> None:
    talk = two_steps()
    messages = (user(), said("a"), told(a="1"), said("b"), told(b="2"), said("c"), told(c="3"))
    answer(talk, asked(2, messages), ChatReply(text="3", finish=Finish.STOP))
    assert len(talk.replies) == 3


@pytest.mark.parametrize(
    "messages",
    [
        (user("Name this conversation."),),
        (user(), said("a"), told(a="1"), said("b", "c"), told(b="2")),
        (user(), said("a"), told(a="1")),
        (user(), said("x"), told(x="all passed")),
        (user(), said("a", "b", "c"), told(x="1")),
        (user(),),
    ],
)
def test_everything_else_is_a_side_call(messages: tuple[Message, ...]) -> None:
    talk = two_steps()
    answer(talk, asked(2, messages), ChatReply(text="no part of it", finish=Finish.STOP))
    assert (talk.side, len(talk.replies), talk.stop) == (1, 2, None)


def test_a_first_request_without_tools_is_a_side_call() -> None:
    talk = conversation()
    answer(talk, asked(0, (user(),), tools=()), ChatReply(text="A title", finish=Finish.STOP))
    assert (talk.side, talk.replies) == (1, [])


@pytest.mark.parametrize("place", ["waiting", "earlier", "after the answer"])
def test_another_story_of_the_same_calls_ends_the_run_wherever_it_is_told(place: str) -> None:
    talk = two_steps()
    whole = (user(), said("a"), told(a="1"), said("b", "c"))
    if place != "earlier":
        answer(talk, asked(2, (*whole, told(b="2", c="3"))), ChatReply(text="3", finish=Finish.STOP))
    other = (user(), said("a"), told(a="other")) if place == "earlier" else (*whole, told(b="2", c="other"))
    assert talk.admit(asked(3, other)) is not None
    assert talk.stop is not None
    assert talk.stop.outcome is Outcome.AGENT_FAILED


def test_ids_that_begin_anew_with_every_reply_are_told_apart() -> None:
    talk = conversation()
    answer(talk, asked(0, (user(),)), calling("call_0"))
    answer(talk, asked(1, (user(), said("call_0"), told(call_0="1"))), calling("call_0"))
    messages = (user(), said("call_0"), told(call_0="1"), said("call_0"), told(call_0="2"))
    answer(talk, asked(2, messages), ChatReply(text="3", finish=Finish.STOP))
    assert (len(talk.replies), talk.stop) == (3, None)


IDS = st.sampled_from(["a", "b", "c", "x", "y"])
INVENTED = st.lists(
    st.one_of(
        st.builds(lambda ids: said(*ids), st.lists(IDS, max_size=3)),
        st.builds(lambda results: told(**results), st.dictionaries(IDS, st.text(max_size=5), max_size=3)),
        st.builds(user, st.sampled_from([PROMPT, "go on"])),
    ),
    max_size=6,
)


@given(INVENTED)
@settings(max_examples=300)
def test_no_request_enters_that_does_not_repeat_exactly_the_calls_that_were_made(messages: list[Message]) -> None:
    talk = two_steps()
    while not talk.turns.empty():
        talk.turns.get()
    talk.admit(asked(2, (user(), *messages)))
    made = [use.id for message in messages if message.role == "assistant" for use in message.tool_uses]
    results = {item.id for message in messages for item in message.tool_results}
    if not talk.turns.empty():
        assert made == ["a", "b", "c"]
        assert {"b", "c"} <= results
