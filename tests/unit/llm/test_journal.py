from __future__ import annotations

from pathlib import Path

import pytest

from gate.domain.chat import ChatRequest, Message, Role, TokenUsage
from gate.domain.seeding import SessionSeed
from gate.errors import BudgetError, ModelError
from gate.llm.journal import Journal, JournalledModel
from gate.llm.ledger import Ledger
from gate.settings import Caps
from tests.fakes.chat import ScriptedChat, say

USAGE = TokenUsage(input_tokens=1000, output_tokens=100)


def cents(model: str, usage: TokenUsage) -> float:
    del model, usage
    return 0.01


def journal(folder: Path) -> Journal:
    return Journal(folder, SessionSeed("5" * 64), "2026-01-05", "key")


def request(label: str = "s/case/run-1/with_skill/turn-1") -> ChatRequest:
    return ChatRequest(label=label, system="", messages=(Message(role="user", text="hi"),))


def session(folder: Path, *answers: object, caps: Caps | None = None) -> tuple[Ledger, JournalledModel, ScriptedChat]:
    """A session in ``folder`` that goes on where the one before was killed, and the model that it would ask."""
    own, ledger = journal(folder), Ledger(caps or Caps(), cents)
    own.charge(ledger)
    ledger.book = own
    chat = ScriptedChat(list(answers), name="m")  # type: ignore[arg-type]
    return ledger, JournalledModel(chat, Role.EXECUTOR, own), chat


def test_a_reply_is_served_again_and_counted_once(tmp_path: Path) -> None:
    ledger, model, _ = session(tmp_path, say("one", usage=USAGE))
    ledger.call(model, request(), role=Role.EXECUTOR)
    before = ledger.spent()
    again, model, chat = session(tmp_path)
    assert again.call(model, request(), role=Role.EXECUTOR).text == "one"
    assert again.spent() == before
    assert not chat.requests


@pytest.mark.parametrize("kind", ["malformed", "timeout", "overload"])
def test_a_call_that_failed_is_asked_anew_and_stays_in_the_account(tmp_path: Path, kind: str) -> None:
    """A reply that came and could not be used was paid; whether the next one can, only asking tells."""
    ledger, model, _ = session(tmp_path, ModelError("no", kind=kind, attempts=3, unknown_attempts=1))
    with pytest.raises(ModelError):
        ledger.call(model, request(), role=Role.EXECUTOR)
    before = ledger.spent()
    again, model, _ = session(tmp_path, say("two", usage=USAGE))
    assert again.spent() == before
    assert again.call(model, request(), role=Role.EXECUTOR).text == "two"
    assert (again.spent().calls, again.spent().failed_calls) == (4, 3)
    assert again.spent().input_tokens is None, "what the failed one used nobody knows"


def test_a_failure_that_the_session_had_gone_on_from_happens_again_for_nothing(tmp_path: Path) -> None:
    """Else what came after it would be asked for at another place, and the session would go another way."""
    ledger, model, _ = session(tmp_path, ModelError("no", kind="malformed"), say("two", usage=USAGE))
    with pytest.raises(ModelError):
        ledger.call(model, request(), role=Role.EXECUTOR)
    ledger.call(model, request(), role=Role.EXECUTOR)
    before = ledger.spent()
    again, model, chat = session(tmp_path)
    with pytest.raises(ModelError, match="no"):
        again.call(model, request(), role=Role.EXECUTOR)
    assert again.call(model, request(), role=Role.EXECUTOR).text == "two"
    assert again.spent() == before
    assert not chat.requests


def test_a_call_that_was_under_way_counts_as_one_of_unknown_usage(tmp_path: Path) -> None:
    journal(tmp_path).asked(Role.GRADER, "m", request())
    ledger, model, _ = session(tmp_path, say("one", usage=USAGE))
    assert (ledger.spent().calls, ledger.spent().failed_calls, ledger.spent().cost_usd) == (1, 1, None)
    assert ledger.call(model, request(), role=Role.GRADER).text == "one"
    assert ledger.spent().calls == 2


def test_two_equal_calls_are_both_in_the_account(tmp_path: Path) -> None:
    """A run that is tried twice asks its first question twice."""
    ledger, model, _ = session(tmp_path, say("one", usage=USAGE), say("two", usage=USAGE))
    for _ in range(2):
        ledger.call(model, request(), role=Role.EXECUTOR)
    again, model, _ = session(tmp_path)
    assert again.spent().calls == 2
    assert [again.call(model, request(), role=Role.EXECUTOR).text for _ in range(2)] == ["one", "two"]


def test_what_was_spent_before_counts_for_the_cap_and_what_is_there_is_served_past_it(tmp_path: Path) -> None:
    caps = Caps(model_calls_per_skill=2)
    ledger, model, _ = session(tmp_path, say("one", usage=USAGE), say("two", usage=USAGE), caps=caps)
    for turn in (1, 2):
        ledger.call(model, request(f"s/case/run-1/with_skill/turn-{turn}"), role=Role.EXECUTOR)
    again, model, _ = session(tmp_path, say("three"), caps=caps)
    for turn, text in ((1, "one"), (2, "two")):
        label = f"s/case/run-1/with_skill/turn-{turn}"
        assert again.call(model, request(label), role=Role.EXECUTOR).text == text
    with pytest.raises(BudgetError):
        again.call(model, request("s/case/run-1/with_skill/turn-3"), role=Role.EXECUTOR)


def test_calls_of_an_agent_program_are_in_the_account_too(tmp_path: Path) -> None:
    ledger, _, _ = session(tmp_path)
    with ledger.reserved(Role.EXECUTOR, "s/case/run-1/with_skill", "m") as call:
        call.charge(say("one", usage=USAGE))
    with ledger.reserved(Role.EXECUTOR, "s/case/run-1/with_skill", "m") as call:
        call.failed(ModelError("no", kind="overload"))
    with ledger.reserved(Role.EXECUTOR, "s/case/run-1/with_skill", "m"):
        pass  # killed here
    again, _, _ = session(tmp_path)
    spent = again.spent("s")
    assert (spent.calls, spent.failed_calls, spent.known_cost_usd, spent.cost_usd) == (3, 2, 0.01, None)


def test_a_forged_entry_is_neither_served_nor_counted(tmp_path: Path) -> None:
    ledger, model, _ = session(tmp_path, say("one", usage=USAGE))
    ledger.call(model, request(), role=Role.EXECUTOR)
    (entry,) = tmp_path.rglob("values/*/*/*.json")
    entry.write_text(entry.read_text().replace('"one"', '"two"'))
    again, model, _ = session(tmp_path, say("asked", usage=USAGE))
    assert again.spent().calls == 0
    assert again.call(model, request(), role=Role.EXECUTOR).text == "asked"
