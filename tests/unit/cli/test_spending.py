from __future__ import annotations

import fcntl
import json
from pathlib import Path

import pytest

from gate.cli.app import App
from gate.cli.spending import counted, spending_of
from gate.domain.chat import ChatRequest, Message, Role, TokenUsage
from gate.domain.report import ModelUse
from gate.domain.seeding import SessionSeed
from gate.errors import ModelError
from gate.evidence.merge import ShardFacts
from gate.llm.journal import Journal, JournalledModel
from gate.settings import Policy
from gate.wiring import bind
from tests.fakes.chat import ScriptedChat, say

SEED, DAY, CAP = "5" * 64, "2026-01-05", 4.0
MODEL = "anthropic:claude-sonnet-4-5"
USAGE = TokenUsage(input_tokens=100_000, output_tokens=0)
COST = 0.3
"""Of one reply: 3 $ a million tokens, as the provider's price list of that day says."""


@pytest.fixture
def app() -> App:
    return bind({"SKILL_GATE_CACHE_KEY": "key"})


def begun(folder: Path, *, key: str = "key") -> Journal:
    """A session's folder as it is when the first model is asked."""
    folder.mkdir()
    policy = Policy.model_validate({"caps": {"usd_per_session": CAP}})
    data = json.dumps({"seed": SEED, "run_date": DAY, "policy": policy.to_json()}).encode()
    (folder / "session.json").write_bytes(data)
    journal = Journal(folder, SessionSeed(SEED), DAY, key)
    journal.vouch(data)
    return journal


def asked(journal: Journal, *answers: object, model: str = MODEL) -> None:
    chat = JournalledModel(ScriptedChat(list(answers), name=model), Role.EXECUTOR, journal)  # type: ignore[arg-type]
    for number, answer in enumerate(answers):
        request = ChatRequest(
            label=f"s/case/run-{number}/with_skill", system="", messages=(Message(role="user", text=str(number)),)
        )
        if isinstance(answer, Exception):
            with pytest.raises(type(answer)):
                chat.complete(request)
        else:
            chat.complete(request)


def finished(folder: Path, *uses: ModelUse) -> None:
    folder.mkdir()
    facts = ShardFacts(plan="0" * 64, number=2, count=2, usage=uses)
    (folder / "shard.json").write_text(facts.model_dump_json())
    (folder / "manifest.json").write_text("{}")


def use(cost: float | None = 0.5, known: float = 0.5, calls: int = 3, failed: int = 0) -> ModelUse:
    return ModelUse(
        role="grader", model="m", calls=calls, failed_calls=failed, input_tokens=1, output_tokens=1, cost_usd=cost,
        known_cost_usd=known,
    )  # fmt: skip


def test_a_part_that_was_stopped_has_spent_what_its_journal_says_and_a_finished_one_what_it_says_itself(
    tmp_path: Path, app: App
) -> None:
    parts = [tmp_path / "part-1-2", tmp_path / "part-2-2"]
    asked(begun(parts[0]), say("one", usage=USAGE), say("two", usage=USAGE))
    finished(parts[1], use())
    found = spending_of(app, tmp_path / "plan.json", tmp_path / "skill-gate", parts)
    assert found.calls == 5
    assert found.known_usd == pytest.approx(0.5 + 2 * COST)
    assert found.counted_usd == found.known_usd


def test_a_planning_that_failed_has_spent_what_its_journal_says(tmp_path: Path, app: App) -> None:
    asked(begun(tmp_path / "skill-gate"), say("a contract", usage=USAGE))
    found = spending_of(app, tmp_path / "plan.json", tmp_path / "skill-gate", [])
    assert found == pytest.approx((1, COST, COST))


def test_a_job_that_ended_before_anything_was_asked_has_spent_nothing(tmp_path: Path, app: App) -> None:
    (tmp_path / "part-1-2").mkdir()
    found = spending_of(app, tmp_path / "plan.json", tmp_path / "skill-gate", [tmp_path / "part-1-2"])
    assert found == (0, 0.0, 0.0)


def test_a_model_of_unknown_price_or_usage_counts_as_the_cap(tmp_path: Path, app: App) -> None:
    asked(begun(tmp_path / "part-1-1"), say("one", usage=USAGE), say("two", usage=None))
    found = spending_of(app, tmp_path / "plan.json", tmp_path / "skill-gate", [tmp_path / "part-1-1"])
    assert found[1:] == pytest.approx((COST, CAP))


def test_a_call_that_was_sent_and_of_which_nobody_heard_again_counts_as_the_cap(tmp_path: Path, app: App) -> None:
    journal = begun(tmp_path / "part-1-1")
    asked(journal, ModelError("no answer in time", kind="timeout", unknown_attempts=1))
    found = spending_of(app, tmp_path / "plan.json", tmp_path / "skill-gate", [tmp_path / "part-1-1"])
    assert (found.known_usd, found.counted_usd) == (0.0, CAP)


def no_journal(part: Path) -> None:
    begun(part).end()


def another_key(part: Path) -> None:
    asked(begun(part, key="another"), say("one", usage=USAGE))


def another_session(part: Path) -> None:
    asked(begun(part), say("one", usage=USAGE))
    facts = json.loads((part / "session.json").read_bytes())
    (part / "session.json").write_text(json.dumps({**facts, "run_date": "2026-01-06"}))


def broken_seal(part: Path) -> None:
    finished(part, use())
    (part / "shard.json").write_text("{")


@pytest.mark.parametrize("spoil", [no_journal, another_key, another_session])
def test_a_record_that_is_gone_or_cannot_be_believed_counts_as_the_cap(tmp_path: Path, app: App, spoil: object) -> None:
    assert callable(spoil)
    spoil(tmp_path / "part-1-1")
    found = spending_of(app, tmp_path / "plan.json", tmp_path / "skill-gate", [tmp_path / "part-1-1"])
    assert (found.known_usd, found.counted_usd) == (0.0, CAP)


def test_a_finished_part_that_cannot_be_read_counts_as_the_usual_cap(tmp_path: Path, app: App) -> None:
    broken_seal(tmp_path / "part-1-1")
    found = spending_of(app, tmp_path / "plan.json", tmp_path / "skill-gate", [tmp_path / "part-1-1"])
    assert found.counted_usd == Policy().caps.usd_per_session


def test_a_part_that_is_still_at_work_counts_as_the_cap(tmp_path: Path, app: App) -> None:
    part = tmp_path / "part-1-1"
    asked(begun(part), say("one", usage=USAGE))
    with (tmp_path / "part-1-1.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        found = spending_of(app, tmp_path / "plan.json", tmp_path / "skill-gate", [part])
    assert found.counted_usd == CAP
    assert spending_of(app, tmp_path / "plan.json", tmp_path / "skill-gate", [part]).counted_usd == pytest.approx(COST)


@pytest.mark.parametrize(
    ("uses", "usd"),
    [
        ([], 0.0),
        ([use(), use(cost=None, known=0.2)], 0.7),
        ([use(), use(cost=None, known=0.0)], CAP),
        ([use(), use(cost=None, known=0.0, failed=3)], 0.5),
        ([use(cost=5.0, known=5.0), use(cost=None, known=0.0)], 5.0),
    ],
)
def test_a_session_with_a_report_counts_what_is_known_or_the_cap_where_answers_have_no_price(
    uses: list[ModelUse], usd: float
) -> None:
    assert counted(uses, CAP) == pytest.approx(usd)
