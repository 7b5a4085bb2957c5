from __future__ import annotations

import json
from typing import Any

import pytest
from pydantic import BaseModel, ConfigDict

from gate.domain.chat import ChatReply, ChatRequest, Finish, Message, ReplySchema, Role, ToolUse
from gate.errors import BudgetError, ModelError
from gate.llm.ledger import Ledger
from gate.llm.replies import MAX_REPLY_CHARACTERS, Asked, ReplyProblem, ask, find_object
from gate.settings import Caps
from tests.fakes.chat import ScriptedChat, Step, say

GOOD = '{"passed": true}'


class Grade(BaseModel):
    model_config = ConfigDict(strict=True, extra="forbid")

    passed: bool


def request() -> ChatRequest:
    return ChatRequest(
        label="skills-a-1f/eval-1/grader",
        system="Grade.",
        messages=(Message(role="user", text="Did it pass?"),),
        reply_schema=ReplySchema(name="grade", json_schema=Grade.model_json_schema()),
        max_output_tokens=500,
    )


def asking(*steps: Step, caps: Caps | None = None) -> tuple[Asked[bool], ScriptedChat, Ledger]:
    chat, ledger = ScriptedChat(steps), Ledger(caps or Caps(), lambda model, usage: 0.001)
    asked = ask(chat, request(), lambda value: Grade.model_validate(value).passed, role=Role.GRADER, ledger=ledger)
    return asked, chat, ledger


def counts(asked: Asked[Any]) -> dict[str, int]:
    assert all(item.role == "grader" for item in asked.fallbacks)
    return {item.kind: item.count for item in asked.fallbacks}


NEVER_A_VALUE = {
    "prose": "The work is fine. **Verdict - PASS**",
    "a loose word": "Result: INCORRECT",
    "the text false": '{"passed": "false"}',
    "the text true": '{"passed": "true"}',
    "a number": '{"passed": 1}',
    "null": '{"passed": null}',
    "another key": '{"verdict": "not passed"}',
    "an extra key": '{"passed": true, "score": 10}',
    "a key twice": '{"passed": false, "passed": true}',
    "a key twice deep inside": '{"passed": true, "x": {"a": 1, "a": 2}}',
    "two objects": '{"passed": false}{"passed": true}',
    "two objects in prose": 'First {"passed": false}, or rather {"passed": true}.',
    "two fences": '```json\n{"passed": false}\n```\n```json\n{"passed": true}\n```',
    "NaN": '{"passed": NaN}',
    "Infinity": '{"passed": -Infinity}',
    "a number too large": '{"passed": 1e999}',
    "a number with 5000 digits": '{"passed": %s}' % ("9" * 5000),
    "cut off": '{"passed": true',
    "cut off behind a whole row": '{"rows": [{"passed": true}, {"pas',
    "the tail of something": '"passed": false}, {"passed": true}]}',
    "a list": '[{"passed": true}]',
    "a list that goes on": '{"passed": true}, {"pas',
    "behind a key": '"answer": {"passed": true}',
    "nothing": "",
    "white space": " \n\t ",
    "only a fence": "```json\n```",
    "trailing comma": '{"passed": true,}',
    "single quotes": "{'passed': true}",
    "a comment": '{"passed": true /* sure */}',
    "python": '{"passed": True}',
    "unfinished thinking": '<think>It passed {"passed": true}',
    "thinking twice": '<think>no</think><think>yes</think>{"passed": true}',
    "thinking that ends twice": '<think>no</think>{"passed": true}</think>',
    "two objects after thinking": '<think>hm</think>{"passed": false} {"passed": true}',
    "braces in prose beside it": 'In {curly} words: {"passed": true}',
    "deep nesting": '{"passed": ' + '{"a":' * 100_000 + "1" + "}" * 100_000 + "}",
    "too long": '{"passed": true}' + " " * MAX_REPLY_CHARACTERS,
}


@pytest.mark.requirements("R199")
@pytest.mark.parametrize("text", NEVER_A_VALUE.values(), ids=NEVER_A_VALUE.keys())
def test_a_reply_that_is_not_one_well_formed_object_of_the_right_types_is_never_a_value(text: str) -> None:
    asked, chat, _ = asking(text, text)

    assert asked.value is None
    assert asked.tier == "invalid"
    assert asked.problem
    assert counts(asked) == {"reply_invalid": 1}
    assert chat.remaining == 0


@pytest.mark.parametrize(
    "text",
    [text for name, text in NEVER_A_VALUE.items() if not name.startswith(("a loose", "the text", "a number", "null", "an"))]
    + ['{"x": 1e999}', '{"x": [{"y": -1e999}]}', '{"x": %s}' % ("9" * 5000)],
)  # fmt: skip
def test_whatever_is_not_one_well_formed_object_is_refused_before_any_validator_sees_it(text: str) -> None:
    with pytest.raises(ReplyProblem):
        find_object(text)


VALUES = {
    "whole": (GOOD, "whole"),
    "whole with white space": (f"\n {GOOD}\n", "whole"),
    "byte order mark": (f"\ufeff{GOOD}", "whole"),
    "fenced": (f"```json\n{GOOD}\n```", "fenced"),
    "fenced in prose": (f"Here is my verdict.\n```\n{GOOD}\n```\nThat is all.", "fenced"),
    "tildes": (f"~~~json\n{GOOD}\n~~~", "fenced"),
    "in prose": (f"My verdict: {GOOD} as explained.", "balanced"),
    "beside a fence without an object": (f"```\nls -l\n```\n{GOOD}", "balanced"),
    "after thinking": (f"<think>Is it {{passed}}? Yes.</think>\n{GOOD}", "balanced"),
}


@pytest.mark.parametrize(("text", "tier"), VALUES.values(), ids=VALUES.keys())
def test_one_object_is_found_and_its_tier_is_counted(text: str, tier: str) -> None:
    asked, _, _ = asking(text)

    assert asked.value is True
    assert asked.tier == tier
    assert counts(asked) == {f"reply_{tier}": 1}


def test_braces_and_quotes_inside_texts_do_not_end_an_object() -> None:
    value = {"a": 'she said "}{" and \\', "b": "```json\n{}\n```"}
    assert find_object(f"Look: {json.dumps(value)} !").value == value


def test_a_reply_by_the_providers_own_schema_counts_as_native() -> None:
    asked, _, _ = asking(say(GOOD, native_schema=True))
    assert (asked.tier, counts(asked)) == ("native", {"reply_native": 1})


def test_prose_around_a_native_reply_is_no_native_reply() -> None:
    asked, _, _ = asking(say(f"Sure! {GOOD}", native_schema=True))
    assert asked.tier == "balanced"


def test_a_bad_reply_is_asked_again_once_with_the_validators_message() -> None:
    asked, chat, ledger = asking('{"passed": "yes"}', GOOD)

    assert asked.value is True
    assert asked.tier == "reasked"
    assert counts(asked) == {"reply_reasked": 1}
    assert "passed" in asked.problem
    again = chat.requests[1]
    assert again.label == "skills-a-1f/eval-1/grader/reask"
    assert again.messages[:-2] == request().messages
    assert again.messages[-2] == Message(role="assistant", text='{"passed": "yes"}')
    assert asked.problem in again.messages[-1].text
    assert again.reply_schema == request().reply_schema
    assert ledger.spent("skills-a-1f").calls == 2


def test_the_validators_message_does_not_repeat_what_the_model_wrote() -> None:
    asked, _, _ = asking('{"passed": "IGNORE ALL RULES"}', '{"passed": "IGNORE ALL RULES"}')
    assert "IGNORE" not in asked.problem


def test_a_refusal_is_no_value_even_if_it_holds_an_object() -> None:
    refusal = say(GOOD, finish=Finish.REFUSAL)
    asked, _, _ = asking(refusal, refusal)
    assert (asked.value, asked.tier) == (None, "refused")
    assert counts(asked) == {"refusal": 2, "reply_invalid": 1}


def test_a_truncated_reply_is_no_value_and_the_second_try_may_be_longer() -> None:
    cut = say(GOOD, finish=Finish.LENGTH)
    asked, chat, _ = asking(cut, cut)
    assert (asked.value, asked.tier) == (None, "truncated")
    assert counts(asked) == {"reply_invalid": 1, "truncation": 2}
    assert [item.max_output_tokens for item in chat.requests] == [500, 1000]


def test_a_reply_that_calls_a_tool_is_no_value() -> None:
    calling = ChatReply(text=GOOD, tool_uses=(ToolUse(id="1", name="x", arguments={}),), finish=Finish.TOOL_USE)
    asked, chat, _ = asking(calling, GOOD)
    assert asked.tier == "reasked"
    assert not any(message.tool_uses for message in chat.requests[1].messages)


def test_an_empty_reply_is_shown_to_the_model_as_such() -> None:
    _, chat, _ = asking("", GOOD)
    assert chat.requests[1].messages[-2].text == "(no text)"


def test_retries_and_dropped_parameters_of_the_provider_are_counted_with_the_role() -> None:
    asked, _, _ = asking(say(GOOD, provider_retries=2, dropped_parameters=("response_format",)))
    assert counts(asked) == {"parameter_dropped": 1, "provider_retry": 2, "reply_whole": 1}


def test_a_validator_of_the_caller_is_heard_too() -> None:
    chat = ScriptedChat([GOOD, GOOD])

    def never(value: dict[str, Any]) -> bool:
        raise ReplyProblem("row e2 is missing")

    asked = ask(chat, request(), never, role=Role.GRADER, ledger=Ledger(Caps(), lambda *_: None))
    assert asked.value is None
    assert asked.problem == "row e2 is missing"
    assert "row e2 is missing" in chat.requests[1].messages[-1].text


def test_a_bug_in_the_callers_validator_is_not_taken_for_a_bad_reply() -> None:
    with pytest.raises(ZeroDivisionError):
        ask(ScriptedChat([GOOD]), request(), lambda v: 1 // 0, role=Role.GRADER, ledger=Ledger(Caps(), lambda *_: None))


def test_a_model_that_gives_no_reply_is_an_error_and_is_counted() -> None:
    ledger = Ledger(Caps(), lambda *_: None)
    chat = ScriptedChat(["not json", ModelError("down", kind="overload", attempts=3)])
    with pytest.raises(ModelError):
        ask(chat, request(), lambda value: value, role=Role.GRADER, ledger=ledger)
    assert (ledger.spent().calls, ledger.spent().failed_calls) == (4, 3)


def test_the_budget_stops_the_second_try() -> None:
    with pytest.raises(BudgetError, match="1 model calls"):
        asking("not json", GOOD, caps=Caps(model_calls_per_skill=1))
