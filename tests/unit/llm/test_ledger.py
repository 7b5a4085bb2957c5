from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor

import pytest

from gate.domain.chat import ChatReply, ChatRequest, Finish, Message, Role, TokenUsage
from gate.errors import BudgetError, ModelError
from gate.llm.ledger import Ledger
from gate.settings import Caps
from tests.fakes.chat import ScriptedChat, say

CHEAP = TokenUsage(input_tokens=1000, output_tokens=100)


def cents(model: str, usage: TokenUsage) -> float | None:
    return 0.01 if model.startswith("priced:") else None


def request(label: str = "skill-a/eval-1/turn-1") -> ChatRequest:
    return ChatRequest(label=label, system="", messages=(Message(role="user", text="hi"),))


def test_every_role_and_model_has_an_account_of_its_own() -> None:
    ledger = Ledger(Caps(), cents)
    ledger.charge(Role.EXECUTOR, "skill-a", say("x", usage=CHEAP), "priced:one")
    ledger.charge(Role.EXECUTOR, "skill-b", say("x", usage=CHEAP), "priced:one")
    ledger.charge(Role.GRADER, "skill-a", say("x", usage=CHEAP), "priced:two")

    executor, grader = ledger.uses()
    assert (executor.role, executor.model, executor.calls, executor.input_tokens) == ("executor", "priced:one", 2, 2000)
    assert (grader.role, grader.calls, grader.output_tokens, grader.cost_usd) == ("grader", 1, 100, 0.01)
    assert [use.calls for use in ledger.uses("skill-a")] == [1, 1]
    assert ledger.skills() == ("skill-a", "skill-b")
    assert ledger.spent("skill-b").cost_usd == 0.01


def test_unknown_usage_is_never_zero() -> None:
    ledger = Ledger(Caps(), cents)
    ledger.charge(Role.GRADER, "s", say("x", usage=CHEAP), "priced:one")
    ledger.charge(Role.GRADER, "s", say("x", usage=None), "priced:one")

    spent = ledger.spent()
    assert (spent.calls, spent.input_tokens, spent.output_tokens, spent.cost_usd) == (2, None, None, None)
    assert (spent.known_input_tokens, spent.known_output_tokens, spent.known_cost_usd) == (1000, 100, 0.01)


def test_a_model_without_a_price_has_known_tokens_and_an_unknown_cost() -> None:
    ledger = Ledger(Caps(), cents)
    ledger.charge(Role.GRADER, "s", say("x", usage=CHEAP), "own:model")
    assert (ledger.spent().input_tokens, ledger.spent().cost_usd) == (1000, None)


@pytest.mark.parametrize(
    ("kind", "known"),
    [
        ("auth", True),
        ("quota", True),
        ("overload", True),
        ("timeout", False),
        ("connection", False),
        ("malformed", False),
    ],
)
def test_a_failed_call_counts_and_its_tokens_are_unknown_unless_the_provider_refused(kind: str, known: bool) -> None:
    ledger = Ledger(Caps(), cents)
    ledger.failed(Role.EXECUTOR, "s", "priced:one", ModelError("no", kind=kind, attempts=3))
    spent = ledger.spent("s")
    assert (spent.calls, spent.failed_calls) == (3, 3)
    assert spent.input_tokens == (0 if known else None)


def test_retries_behind_a_reply_count_as_failed_calls() -> None:
    ledger = Ledger(Caps(), cents)
    ledger.charge(Role.EXECUTOR, "s", say("x", usage=CHEAP, attempts=4, provider_retries=2), "priced:one")
    assert (ledger.spent().calls, ledger.spent().failed_calls, ledger.spent().input_tokens) == (4, 3, 1000)
    ledger.charge(Role.EXECUTOR, "s", say("x", attempts=2, provider_retries=1, unknown_attempts=1), "priced:one")
    assert ledger.spent().input_tokens is None


def test_a_call_is_written_down_whatever_happens() -> None:
    ledger = Ledger(Caps(), cents)
    chat = ScriptedChat([ModelError("no", kind="auth"), say("fine")], name="priced:one")
    with pytest.raises(ModelError):
        ledger.call(chat, request(), role=Role.EXECUTOR)
    assert ledger.call(chat, request(), role=Role.EXECUTOR).text == "fine"
    with pytest.raises(AssertionError):
        ledger.call(chat, request(), role=Role.EXECUTOR)
    assert (ledger.spent("skill-a").calls, ledger.spent("skill-a").failed_calls) == (3, 2)
    assert ledger.spent("skill-a").input_tokens is None


def test_the_cap_on_calls_stops_the_next_call_of_that_skill_only() -> None:
    ledger = Ledger(Caps(model_calls_per_skill=2), cents)
    chat = ScriptedChat(["1", "2", "other"])
    ledger.call(chat, request(), role=Role.EXECUTOR)
    ledger.call(chat, request(), role=Role.GRADER)
    with pytest.raises(BudgetError, match=r"skill-a has made 2 model calls.*caps.model_calls_per_skill"):
        ledger.call(chat, request(), role=Role.GRADER)
    ledger.call(chat, request("skill-b/x"), role=Role.GRADER)
    assert len(chat.requests) == 3


@pytest.mark.parametrize(
    ("caps", "word"), [(Caps(usd_per_skill=0.02), "usd_per_skill"), (Caps(usd_per_session=0.02), "usd_per_session")]
)
def test_the_caps_on_cost_stop_the_next_call(caps: Caps, word: str) -> None:
    ledger = Ledger(caps, cents)
    for _ in range(2):
        ledger.check("s")
        ledger.charge(Role.EXECUTOR, "s", say("x", usage=CHEAP), "priced:one")
    with pytest.raises(BudgetError, match=word):
        ledger.check("s")


def test_the_session_cap_counts_every_skill() -> None:
    ledger = Ledger(Caps(usd_per_session=0.02), cents)
    ledger.charge(Role.EXECUTOR, "a", say("x", usage=CHEAP), "priced:one")
    ledger.charge(Role.EXECUTOR, "b", say("x", usage=CHEAP), "priced:one")
    with pytest.raises(BudgetError, match="session"):
        ledger.check("c")


def test_calls_under_way_in_other_threads_count_against_the_cap() -> None:
    ledger = Ledger(Caps(model_calls_per_skill=3), cents)
    begun = threading.Barrier(4, timeout=30)
    over = threading.Event()

    def slow(asked: ChatRequest) -> ChatReply:
        begun.wait()
        over.wait(30)
        return ChatReply(finish=Finish.STOP)

    chat = ScriptedChat(slow)
    with ThreadPoolExecutor(3) as pool:
        calls = [pool.submit(ledger.call, chat, request(), role=Role.EXECUTOR) for _ in range(3)]
        begun.wait()
        with pytest.raises(BudgetError):
            ledger.call(chat, request(), role=Role.EXECUTOR)
        over.set()
        for call in calls:
            call.result()
    assert ledger.spent().calls == 3


def test_costs_add_up_exactly_in_any_order() -> None:
    prices = [0.1, 0.2, 0.3, 1e-9, 7.7, 1e-3] * 50
    sums = set()
    for order in (prices, list(reversed(prices)), sorted(prices)):
        given = iter(order)
        ledger = Ledger(Caps(), lambda model, usage, given=given: next(given))  # type: ignore[misc]
        for _ in order:
            ledger.charge(Role.EXECUTOR, "s", say("x", usage=CHEAP), "m")
        sums.add(ledger.spent().cost_usd)
    assert len(sums) == 1


def test_a_call_of_unknown_usage_counts_against_the_caps_like_the_dearest_known_one() -> None:
    ledger = Ledger(Caps(usd_per_skill=0.03), cents)
    ledger.charge(Role.EXECUTOR, "s", say("x", usage=CHEAP), "priced:one")
    ledger.check("s")
    ledger.failed(Role.EXECUTOR, "s", "priced:one")
    ledger.failed(Role.EXECUTOR, "s", "priced:one")
    with pytest.raises(
        BudgetError, match=r"has cost \$0.0100, with calls under way and of unknown usage up to \$0.0300,"
    ):
        ledger.check("s")
    assert ledger.spent("s").known_cost_usd == 0.01
    assert ledger.spent("s").cost_usd is None


def test_calls_under_way_count_against_the_money_too() -> None:
    ledger = Ledger(Caps(usd_per_skill=0.03), cents)
    ledger.charge(Role.EXECUTOR, "s", say("x", usage=CHEAP), "priced:one")
    with ledger.reserved(Role.EXECUTOR, "s", "priced:one"):
        ledger.check("s")
        with ledger.reserved(Role.EXECUTOR, "s", "priced:one"), pytest.raises(BudgetError, match="may cost"):
            ledger.check("s")
    ledger.check("s")


@pytest.mark.requirements("R139")
def test_every_case_has_an_account_over_all_roles_with_its_failures() -> None:
    ledger = Ledger(Caps(), cents)
    ledger.charge(Role.EXECUTOR, "skill-a/eval-1/run-1/with_skill/turn-1", say("x", usage=CHEAP), "priced:one")
    ledger.charge(Role.GRADER, "skill-a/eval-1/run-1/with_skill/grade-1", say("x", usage=CHEAP), "priced:two")
    ledger.failed(Role.GRADER, "skill-a/eval-2/run-1/with_skill/grade-1", "priced:two")

    one, other = ledger.cases()
    assert (one.case, one.calls, one.failed_calls, one.input_tokens, one.cost_usd) == (
        "skill-a/eval-1",
        2,
        0,
        2000,
        0.02,
    )
    # What a failed call generated is unknown, and unknown is never zero.
    assert (other.case, other.calls, other.failed_calls, other.input_tokens, other.cost_usd) == (
        "skill-a/eval-2", 1, 1, None, None,
    )  # fmt: skip
