"""What models were asked and what it cost: every call counts, also one that failed; unknown is never zero.

B 25 of the case list: agent, judge, comparator, retries and failures all count, and the budget stops the next call.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from fractions import Fraction

from gate.domain.base import Value
from gate.domain.chat import ChatReply, ChatRequest, Role, TokenUsage
from gate.domain.report import ModelUse
from gate.errors import BudgetError, ModelError
from gate.protocols import ChatModel
from gate.settings import Caps

Price = Callable[[str, TokenUsage], float | None]
"""Model name (``provider:model``) and tokens -> US dollars, or None where the price is not known."""

UNBILLED_KINDS = frozenset({
    "auth", "quota", "overload", "bad_request", "context_length", "not_found", "replay_miss",
})  # fmt: skip
"""Kinds of ModelError with which a provider says that it generated nothing. After any other, tokens are unknown."""


class Spend(Value):
    """What was spent on something; None is unknown, never zero."""

    calls: int
    """Requests sent, provider retries and failures included."""
    failed_calls: int
    """Of these, requests without a usable reply."""
    input_tokens: int | None
    output_tokens: int | None
    cost_usd: float | None
    known_input_tokens: int
    """Sum over the calls whose usage is known: at least this much was spent."""
    known_output_tokens: int
    known_cost_usd: float
    remembered_calls: int = 0
    """Replies that an earlier session paid for; not among ``calls``."""


@dataclass
class _Account:
    """One running sum. Costs are exact rationals, so that the order of calls in threads cannot change a report."""

    calls: int = 0
    failed_calls: int = 0
    input_tokens: int = 0
    output_tokens: int = 0
    cost: Fraction = Fraction(0)
    unknown_usage: int = 0
    unknown_cost: int = 0
    remembered: int = 0
    dearest: Fraction = Fraction(0)
    """What the most expensive call of known cost has cost."""

    def plus(self, other: _Account) -> _Account:
        return _Account(
            self.calls + other.calls,
            self.failed_calls + other.failed_calls,
            self.input_tokens + other.input_tokens,
            self.output_tokens + other.output_tokens,
            self.cost + other.cost,
            self.unknown_usage + other.unknown_usage,
            self.unknown_cost + other.unknown_cost,
            self.remembered + other.remembered,
            max(self.dearest, other.dearest),
        )

    @property
    def feared(self) -> Fraction:
        """What may have been spent: a call of unknown usage is taken for the most expensive one, never for nothing."""
        return self.cost + self.unknown_usage * self.dearest

    def spend(self) -> Spend:
        cost = float(self.cost)
        return Spend(
            calls=self.calls,
            failed_calls=self.failed_calls,
            input_tokens=None if self.unknown_usage else self.input_tokens,
            output_tokens=None if self.unknown_usage else self.output_tokens,
            cost_usd=None if self.unknown_cost else cost,
            known_input_tokens=self.input_tokens,
            known_output_tokens=self.output_tokens,
            known_cost_usd=cost,
            remembered_calls=self.remembered,
        )


def skill_of(label: str) -> str:
    """The skill that a call belongs to: the first segment of its label."""
    return label.partition("/")[0]


class Ledger:
    """The account of one session. Thread-safe.

    Callers either take ``call``, which does everything in the right order, or ``check``, ``charge`` and ``failed``.
    """

    def __init__(self, caps: Caps, price: Price) -> None:
        """``caps`` are the limits that ``check`` enforces; ``price`` says what a call cost."""
        self._caps = caps
        self._price = price
        self._lock = threading.Lock()
        self._accounts: dict[tuple[str, str, str], _Account] = {}
        self._reserved: dict[str, int] = {}

    def call(self, model: ChatModel, request: ChatRequest, *, role: Role) -> ChatReply:
        """Ask ``model`` once and write it down, whatever happens.

        Raises BudgetError, before anything is sent, where a cap is reached (calls under way in other threads count);
        ModelError as the model raised it, after it was counted.
        """
        skill = skill_of(request.label)
        with self._lock:
            self._check(skill)
            self._reserved[skill] = self._reserved.get(skill, 0) + 1
        try:
            reply = model.complete(request)
        except ModelError as error:
            self._settle(role, skill, model.name, _failure(error), reserved=1)
            raise
        except BaseException:
            # A cancelled call may have been billed: count it as one whose tokens nobody knows.
            self._settle(role, skill, model.name, _failure(None), reserved=1)
            raise
        self._settle(role, skill, model.name, self._success(reply, model.name), reserved=1)
        return reply

    def charge(self, role: Role, skill: str, reply: ChatReply, model_name: str) -> None:
        """Write down a reply. Its provider retries count as failed calls of their own."""
        self._settle(role, skill, model_name, self._success(reply, model_name))

    def failed(self, role: Role, skill: str, model_name: str, error: ModelError | None = None) -> None:
        """Write down a call that gave no reply. Tokens become unknown unless ``error`` says that none were generated."""
        self._settle(role, skill, model_name, _failure(error))

    def check(self, skill: str) -> None:
        """Raise BudgetError where the next call of a skill would go over a cap; the message says which one."""
        with self._lock:
            self._check(skill)

    @contextmanager
    def reserved(self, skill: str) -> Iterator[None]:
        """Hold the place of a call that is made elsewhere, until it was written down by ``charge`` or ``failed``.

        Raises BudgetError where a cap is reached (calls under way in other threads count).
        """
        with self._lock:
            self._check(skill)
            self._reserved[skill] = self._reserved.get(skill, 0) + 1
        try:
            yield
        finally:
            with self._lock:
                self._reserved[skill] -= 1

    def price_of(self, model_name: str, usage: TokenUsage) -> float | None:
        """What one call cost in US dollars; None where the price is not known."""
        return self._price(model_name, usage)

    def uses(self, skill: str | None = None) -> tuple[ModelUse, ...]:
        """What each (role, model) spent, of one skill or of the session; sorted by role, then model."""
        with self._lock:
            accounts = [(key, account) for key, account in self._accounts.items() if skill in (None, key[0])]
        sums: dict[tuple[str, str], _Account] = {}
        for (_, role, model), account in accounts:
            sums[role, model] = sums.get((role, model), _Account()).plus(account)
        return tuple(
            ModelUse(role=role, model=model, **sums[role, model].spend().model_dump()) for role, model in sorted(sums)
        )

    def spent(self, skill: str | None = None) -> Spend:
        """What one skill, or the whole session, has spent so far."""
        with self._lock:
            return self._sum(skill).spend()

    def skills(self) -> tuple[str, ...]:
        """Everything that calls were made for (first label segments), sorted."""
        with self._lock:
            return tuple(sorted({key[0] for key in self._accounts}))

    def _success(self, reply: ChatReply, model_name: str) -> _Account:
        if reply.paid:
            return _Account()
        if reply.remembered:
            return _Account(remembered=1)
        lost = reply.unknown_attempts
        calls = max(reply.attempts, 1 + reply.provider_retries)
        account = _Account(
            calls=calls,
            failed_calls=calls - 1,
            unknown_usage=lost,
            unknown_cost=lost,
        )
        if reply.usage is None:
            return account.plus(_Account(unknown_usage=1, unknown_cost=1))
        price = self._price(model_name, reply.usage)
        return account.plus(
            _Account(
                input_tokens=reply.usage.input_tokens,
                output_tokens=reply.usage.output_tokens,
                cost=Fraction(0) if price is None else Fraction(price),
                dearest=Fraction(0) if price is None else Fraction(price),
                unknown_cost=int(price is None),
            )
        )

    def _settle(self, role: Role, skill: str, model_name: str, account: _Account, *, reserved: int = 0) -> None:
        key = (skill, role.value, model_name)
        with self._lock:
            self._accounts[key] = self._accounts.get(key, _Account()).plus(account)
            if reserved:
                self._reserved[skill] -= reserved

    def _sum(self, skill: str | None) -> _Account:
        return _total(account for key, account in self._accounts.items() if skill in (None, key[0]))

    def _feared(self, skill: str | None) -> Fraction:
        """What a skill, or the session, may have cost when the calls under way are over."""
        spent = sum((account.feared for key, account in self._accounts.items() if skill in (None, key[0])), Fraction(0))
        for name, count in self._reserved.items():
            if skill in (None, name):
                spent += count * self._sum(name).dearest
        return spent

    def _check(self, skill: str) -> None:
        caps, own = self._caps, self._sum(skill)
        calls = own.calls + self._reserved.get(skill, 0)
        if calls >= caps.model_calls_per_skill:
            raise BudgetError(
                f"{skill} has made {calls} model calls and may make {caps.model_calls_per_skill}; "
                "the next call was not made.",
                remedy="Raise caps.model_calls_per_skill in the policy, or run fewer cases or a smaller mode.",
            )
        feared = self._feared(skill)
        if feared >= Fraction(caps.usd_per_skill):
            raise BudgetError(
                f"{skill} has cost {_dollars(own.cost, feared)} and may cost ${caps.usd_per_skill:g}; "
                "the next call was not made.",
                remedy="Raise caps.usd_per_skill in the policy, or take a cheaper model or a smaller mode.",
            )
        feared = self._feared(None)
        if feared >= Fraction(caps.usd_per_session):
            raise BudgetError(
                f"The session has cost {_dollars(self._sum(None).cost, feared)} and may cost ${caps.usd_per_session:g}; "
                "the next call was not made.",
                remedy="Raise caps.usd_per_session in the policy, or judge fewer skills at once.",
            )


def _dollars(cost: Fraction, feared: Fraction) -> str:
    more = f", with calls under way and of unknown usage up to ${float(feared):.4f}," if feared > cost else ""
    return f"${float(cost):.4f}{more}"


def _failure(error: ModelError | None) -> _Account:
    attempts = error.attempts if error else 1
    unknown = error.unknown_attempts if error else 1
    if error and error.kind not in UNBILLED_KINDS:
        unknown = max(unknown, 1)
    return _Account(calls=attempts, failed_calls=attempts, unknown_usage=unknown, unknown_cost=unknown)


def _total(accounts: Iterable[_Account]) -> _Account:
    total = _Account()
    for account in accounts:
        total = total.plus(account)
    return total
