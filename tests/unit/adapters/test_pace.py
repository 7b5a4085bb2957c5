from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field

import pytest
from pydantic import SecretStr

from gate.adapters.model_calls import Retry
from gate.adapters.model_names import Keys, ModelFactory
from gate.adapters.openai_model import OpenAIModel
from gate.adapters.pace import Pace
from gate.domain.chat import ChatReply, ChatRequest, Message, Role, TokenUsage
from gate.errors import BudgetError, ModelError
from gate.llm.ledger import Ledger
from gate.settings import Caps, ModelChoice
from tests.scripted import faults
from tests.scripted.faults import Answer
from tests.scripted.server import ScriptedServer
from tests.scripted.values import Reply, Request


class Hand:
    """A clock that is moved by hand."""

    def __init__(self) -> None:
        self.seconds = 0.0

    def __call__(self) -> float:
        return self.seconds


def refuse(pace: Pace, under_way: int, retry_after_s: float | None = None) -> None:
    """So many requests, of which the last one is refused."""
    turns = [turn for _ in range(under_way) if (turn := pace.try_begin()) is not None]
    assert len(turns) == under_way
    pace.end(turns.pop(), refused=True, retry_after_s=retry_after_s)
    for turn in turns:
        pace.end(turn)


def answer(pace: Pace, count: int) -> None:
    for _ in range(count):
        turn = pace.try_begin()
        assert turn is not None
        pace.end(turn, answered=True)


def test_it_grows_with_every_answer_until_it_is_refused() -> None:
    pace = Pace(now=Hand())
    before = pace.limit
    answer(pace, 20)
    assert pace.limit == before + 20


def test_a_refusal_halves_it_and_it_grows_back_to_below_what_was_refused() -> None:
    pace = Pace(now=Hand())
    answer(pace, 4)
    refuse(pace, 8)
    assert pace.limit == 4
    answer(pace, 4)
    assert pace.limit == 5, "one more a round of answers"
    answer(pace, 100)
    assert pace.limit == 7, "eight were one too many"


def test_what_was_refused_is_tried_again_after_a_quiet_while() -> None:
    clock = Hand()
    pace = Pace(now=clock)
    refuse(pace, 4)
    answer(pace, 100)
    assert pace.limit == 3
    clock.seconds += 31
    answer(pace, 4)
    assert pace.limit == 4


def test_refusals_of_one_round_count_once() -> None:
    pace = Pace(now=Hand())
    turns = [turn for _ in range(4) if (turn := pace.try_begin()) is not None]
    for turn in turns:
        pace.end(turn, refused=True)
    assert pace.limit == 2


def test_it_never_falls_below_one() -> None:
    pace = Pace(now=Hand())
    for _ in range(5):
        refuse(pace, 1)
    assert pace.limit == 1


def test_nobody_asks_before_the_provider_said() -> None:
    clock = Hand()
    pace = Pace(now=clock)
    refuse(pace, 1, retry_after_s=12)
    clock.seconds = 11.9
    assert pace.try_begin() is None
    clock.seconds = 12.0
    assert pace.try_begin() is not None


def test_a_session_that_is_to_end_waits_for_no_turn() -> None:
    pace = Pace(now=Hand(), stopped=lambda: True)
    refuse(pace, 4, retry_after_s=1000)
    turns = [pace.begin() for _ in range(20)]
    assert len(turns) == 20


@dataclass
class Narrow:
    """A model that takes ``room`` requests at a time and refuses the others."""

    room: int
    retry_after_s: float | None = None
    lock: threading.Lock = field(default_factory=threading.Lock)
    under_way: int = 0
    refused: int = 0
    answered: int = 0

    def __call__(self, request: Request) -> Answer:
        del request
        with self.lock:
            if self.under_way >= self.room:
                self.refused += 1
                return faults.rate_limited(self.retry_after_s)
            self.under_way += 1
        time.sleep(0.01)
        with self.lock:
            self.under_way -= 1
            self.answered += 1
        return Reply("Yes.")


WORKERS, EACH = 16, 10


@contextmanager
def asked_by_many(narrow: Narrow, *, paced: bool) -> Iterator[tuple[list[ChatReply], list[ModelError]]]:
    """What sixteen workers get for ten questions each, with and without a pace."""
    replies: list[ChatReply] = []
    errors: list[ModelError] = []
    with ScriptedServer(narrow) as server:
        name = f"openai@{server.openai_url}:m"
        sleeping = {"sleep": lambda seconds: time.sleep(seconds / 20)}
        factory = ModelFactory(ModelChoice(executor=name, judge=name), Keys(), **sleeping)  # type: ignore[arg-type]
        fixed = OpenAIModel(
            name,
            "m",
            api_key=SecretStr("none"),
            base_url=server.openai_url,
            retry=Retry(**sleeping),  # type: ignore[arg-type]
        )

        def work(number: int) -> None:
            # Executor and judge are clients of their own, and one account.
            model = factory((Role.EXECUTOR, Role.GRADER)[number % 2]) if paced else fixed
            for question in range(EACH):
                request = ChatRequest(
                    label=f"s/c/{number}-{question}", system="", messages=(Message(role="user", text="Is it?"),)
                )
                try:
                    replies.append(model.complete(request))
                except ModelError as error:
                    errors.append(error)

        with ThreadPoolExecutor(WORKERS) as pool:
            list(pool.map(work, range(WORKERS)))
        yield replies, errors


@pytest.mark.parametrize("room", [1, 3])
def test_the_number_settles_on_what_the_provider_takes_and_nothing_is_lost(room: int) -> None:
    narrow = Narrow(room=room)
    with asked_by_many(narrow, paced=True) as (replies, errors):
        assert not errors
        assert len(replies) == narrow.answered == WORKERS * EACH
        assert narrow.refused < WORKERS, "a few, while it finds out"
        assert sum(reply.rate_refusals for reply in replies) == narrow.refused


def test_a_fixed_number_loses_answers_where_the_pace_loses_none() -> None:
    narrow = Narrow(room=1)
    with asked_by_many(narrow, paced=False) as (_, errors):
        assert errors, "three tries, and sixteen that all come back at once"
        assert narrow.refused > 40


def test_an_account_without_credit_is_given_up_at_once() -> None:
    broke = faults.HttpError(429, "You exceeded your current quota.", code="insufficient_quota")
    with ScriptedServer(broke) as server:
        name = f"openai@{server.openai_url}:m"
        model = ModelFactory(ModelChoice(executor=name, judge=name), Keys(), sleep=lambda seconds: None)(Role.EXECUTOR)
        with pytest.raises(ModelError) as caught:
            model.complete(ChatRequest(label="s/c", system="", messages=(Message(role="user", text="?"),)))
        assert caught.value.kind == "quota"
        assert len(server.requests) == 1


def test_a_provider_that_refuses_for_ever_is_given_up() -> None:
    waits: list[float] = []
    with ScriptedServer(faults.rate_limited(50)) as server:
        name = f"openai@{server.openai_url}:m"
        retry = Retry(sleep=waits.append, pace=Pace(now=lambda: float(sum(waits))))
        model = OpenAIModel(name, "m", api_key=SecretStr("none"), base_url=server.openai_url, retry=retry)
        with pytest.raises(ModelError) as caught:
            model.complete(ChatRequest(label="s/c", system="", messages=(Message(role="user", text="?"),)))
    assert caught.value.kind == "overload"
    assert sum(waits) == 600


def test_a_signal_ends_the_waiting() -> None:
    with ScriptedServer(faults.rate_limited(50)) as server:
        name = f"openai@{server.openai_url}:m"
        factory = ModelFactory(
            ModelChoice(executor=name, judge=name), Keys(), sleep=lambda seconds: True, stopped=lambda: True
        )
        with pytest.raises(ModelError):
            factory(Role.EXECUTOR).complete(
                ChatRequest(label="s/c", system="", messages=(Message(role="user", text="?"),))
            )
        assert len(server.requests) == 1


def test_refusals_of_a_rate_do_not_use_up_a_cap_on_calls() -> None:
    ledger = Ledger(Caps(model_calls_per_skill=2), lambda model, usage: 0.0)
    usage = TokenUsage(input_tokens=1, output_tokens=1)
    reply = ChatReply(finish="stop", usage=usage, attempts=30, provider_retries=29, rate_refusals=29)  # type: ignore[arg-type]
    ledger.charge(Role.EXECUTOR, "s/c/run-1", reply, "m")
    ledger.check("s/c/run-1")
    assert (ledger.spent("s").calls, ledger.spent("s").failed_calls) == (30, 29)
    ledger.charge(Role.EXECUTOR, "s/c/run-1", reply, "m")
    with pytest.raises(BudgetError):
        ledger.check("s/c/run-1")


def test_an_account_that_refuses_everybody_is_given_up_by_all_together() -> None:
    clock = Hand()
    pace = Pace(now=clock)
    refuse(pace, 1)
    clock.seconds = 599
    assert not pace.silent(600)
    clock.seconds = 600
    assert pace.silent(600)
    answer(pace, 1)
    assert not pace.silent(0), "it has answered somebody"


def test_a_provider_that_asks_for_no_time_at_all_is_not_asked_for_ever_without_a_pause() -> None:
    from gate.adapters.model_calls import Failed
    from gate.adapters.pace import PATIENCE_S

    retry = Retry(jitter=lambda: 0.0, pace=Pace(now=Hand()))
    refused = Failed("overload", "busy", status=429, retryable=True, retry_after_s=0.0)
    waits: list[float] = []
    while (wait := retry.waits(refused, counted=0, refused=len(waits) + 1, waited_s=sum(waits))) is not None:
        waits.append(wait)
    assert waits[:4] == [0.0] * 4, "it is taken at its word at first"
    assert len(waits) < 100
    assert sum(waits) <= PATIENCE_S
