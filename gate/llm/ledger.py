"""What models were asked and what it cost: every call counts, also one that failed; unknown is never zero.

B 25 of the case list: agent, judge, comparator, retries and failures all count, and the budget stops the next call.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, NamedTuple, Protocol, runtime_checkable

from gate.domain.base import Value
from gate.domain.chat import ChatReply, ChatRequest, Role, TokenUsage
from gate.domain.plan import CaseShare
from gate.domain.report import CaseUse, ModelUse
from gate.errors import BudgetError, ModelError
from gate.protocols import ChatModel
from gate.settings import CALLS_PER_SKILL, Caps

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
    refused: int = 0
    """Of the failed calls, those that a provider refused for its rate: no cap is there to stop them."""
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
            self.refused + other.refused,
            max(self.dearest, other.dearest),
        )

    @property
    def counted(self) -> int:
        """Calls that count for a cap."""
        return self.calls - self.refused

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


@runtime_checkable
class AtHand(Protocol):
    """A ChatModel that can have a reply without sending anything."""

    def at_hand(self, request: ChatRequest) -> bool:
        """Whether ``complete`` gives this request's reply for nothing: it was paid for before."""
        ...


def is_at_hand(model: object, request: ChatRequest) -> bool:
    """As ``AtHand.at_hand``; False for a model that knows of none."""
    return isinstance(model, AtHand) and model.at_hand(request)


class Book(Protocol):
    """Where a call is written down before it is sent, and what came of it (``gate.llm.journal``)."""

    def asked_elsewhere(self, role: Role, model: str, skill: str) -> Any:
        """A call is going to be sent; returns what ``answered`` and ``failed`` take."""
        ...

    def answered(self, call: Any, reply: ChatReply) -> None:
        """What it gave."""
        ...

    def failed(self, call: Any, error: ModelError) -> None:
        """It gave nothing."""
        ...


def skill_of(label: str) -> str:
    """The skill that a call belongs to: the first segment of its label."""
    return label.partition("/")[0]


def case_of(label: str) -> str:
    """The case that a call belongs to: the first two segments of its label (``gate.domain.plan.case_label``)."""
    return "/".join(label.split("/", 2)[:2])


class Left(NamedTuple):
    """What of a case's share is left."""

    calls: int
    usd: float


class Place:
    """The place of one call under the caps, given back when it is written down, or when the block that holds it ends."""

    def __init__(self, label: str) -> None:
        self.case = case_of(label)
        self.held = True


class CallElsewhere:
    """A call that is made outside of the ledger: exactly one of the two methods says what came of it."""

    def __init__(self, ledger: Ledger, place: Place, role: Role, label: str, model_name: str) -> None:
        self._ledger = ledger
        self._place = place
        self._who = (role, label, model_name)
        self._book = ledger.book
        self._entry = self._book.asked_elsewhere(role, model_name, label) if self._book else None

    def charge(self, reply: ChatReply) -> None:
        """As ``Ledger.charge``."""
        if self._book:
            self._book.answered(self._entry, reply.model_copy(update={"text": "", "tool_uses": ()}))
        role, label, model_name = self._who
        self._ledger.charge(role, label, reply, model_name, self._place)

    def failed(self, error: ModelError | None = None) -> None:
        """As ``Ledger.failed``."""
        if self._book and error is not None:
            self._book.failed(self._entry, error)
        role, label, model_name = self._who
        self._ledger.failed(role, label, model_name, error, self._place)


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
        """By (case, role, model); ``case_of`` says what a case is here."""
        self._reserved: dict[str, int] = {}
        self._shares: dict[str, CaseShare] = {}
        self.book: Book | None = None
        """Where calls that are made elsewhere are written down too; None: nowhere."""

    def share(self, shares: Mapping[str, CaseShare]) -> None:
        """From now on each of these cases (``case_label``) may spend its share and no more."""
        with self._lock:
            self._shares.update(shares)

    def left(self, case: str) -> Left | None:
        """What a case may still spend; None where it has no share of its own."""
        with self._lock:
            share = self._shares.get(case)
            if share is None:
                return None
            spent = self._sum(case)
            return Left(max(0, share.model_calls - spent.counted), max(0.0, share.usd - float(spent.feared)))

    def call(self, model: ChatModel, request: ChatRequest, *, role: Role) -> ChatReply:
        """Ask ``model`` once and write it down, whatever happens.

        Raises BudgetError, before anything is sent, where a cap is reached (calls under way in other threads count; a
        reply that is at hand costs nothing and is taken also then); ModelError as the model raised it, after it was counted.
        """
        if is_at_hand(model, request):
            return self._settled(model, request, role, None)
        with self._place(request.label) as place:
            return self._settled(model, request, role, place)

    def _settled(self, model: ChatModel, request: ChatRequest, role: Role, place: Place | None) -> ChatReply:
        try:
            reply = model.complete(request)
        except ModelError as error:
            self.failed(role, request.label, model.name, error, place)
            raise
        except BaseException:
            # A cancelled call may have been billed: count it as one whose tokens nobody knows.
            self.failed(role, request.label, model.name, None, place)
            raise
        self.charge(role, request.label, reply, model.name, place)
        return reply

    def charge(self, role: Role, label: str, reply: ChatReply, model_name: str, place: Place | None = None) -> None:
        """Write down a reply. Its provider retries count as failed calls of their own. ``label``: of the call, or what labels
        of the one that it belongs to begin with. ``place``: is given back."""
        self._settle(role, label, model_name, self._success(reply, model_name), place)

    def failed(
        self, role: Role, label: str, model_name: str, error: ModelError | None = None, place: Place | None = None
    ) -> None:
        """Write down a call that gave no reply. Tokens become unknown unless ``error`` says that none were generated."""
        self._settle(role, label, model_name, _failure(error), place)

    def check(self, label: str) -> None:
        """Raise BudgetError where the next call of this label would go over a cap; the message says which one."""
        with self._lock:
            self._check(label)

    @contextmanager
    def reserved(self, role: Role, label: str, model_name: str) -> Iterator[CallElsewhere]:
        """Hold the place of a call that is made elsewhere, until it was written down by what this yields.

        Raises BudgetError where a cap is reached (calls under way in other threads count), InfrastructureError where the
        call cannot be written down.
        """
        with self._place(label) as place:
            yield CallElsewhere(self, place, role, label, model_name)

    @contextmanager
    def _place(self, label: str) -> Iterator[Place]:
        place = Place(label)
        with self._lock:
            self._check(label)
            self._reserved[place.case] = self._reserved.get(place.case, 0) + 1
        try:
            yield place
        finally:
            with self._lock:
                self._give_back(place)

    def _give_back(self, place: Place) -> None:
        self._reserved[place.case] -= place.held
        place.held = False

    def price_of(self, model_name: str, usage: TokenUsage) -> float | None:
        """What one call cost in US dollars; None where the price is not known."""
        return self._price(model_name, usage)

    def uses(self, skill: str | None = None) -> tuple[ModelUse, ...]:
        """What each (role, model) spent, of one skill or of the session; sorted by role, then model."""
        with self._lock:
            accounts = [(key, account) for key, account in self._accounts.items() if skill in (None, skill_of(key[0]))]
        sums: dict[tuple[str, str], _Account] = {}
        for (_, role, model), account in accounts:
            sums[role, model] = sums.get((role, model), _Account()).plus(account)
        return tuple(
            ModelUse(role=role, model=model, **sums[role, model].spend().model_dump()) for role, model in sorted(sums)
        )

    def cases(self) -> tuple[CaseUse, ...]:
        """What each case (``case_of`` its calls' labels) has cost so far over all roles, by its name."""
        with self._lock:
            sums: dict[str, _Account] = {}
            for (case, _, _), account in self._accounts.items():
                sums[case] = sums.get(case, _Account()).plus(account)
        return tuple(CaseUse(case=case, **sums[case].spend().model_dump()) for case in sorted(sums))

    def spent(self, skill: str | None = None) -> Spend:
        """What one skill, or the whole session, has spent so far."""
        with self._lock:
            return self._sum(skill).spend()

    def skills(self) -> tuple[str, ...]:
        """Everything that calls were made for (first label segments), sorted."""
        with self._lock:
            return tuple(sorted({skill_of(key[0]) for key in self._accounts}))

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
            refused=reply.rate_refusals,
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

    def _settle(self, role: Role, label: str, model_name: str, account: _Account, place: Place | None) -> None:
        key = (case_of(label), role.value, model_name)
        with self._lock:
            self._accounts[key] = self._accounts.get(key, _Account()).plus(account)
            if place is not None:
                self._give_back(place)

    def _sum(self, whose: str | None) -> _Account:
        """Of a case, a skill or (None) the session."""
        return _total(account for key, account in self._accounts.items() if _is_of(key[0], whose))

    def _reserved_of(self, whose: str | None) -> int:
        return sum(count for case, count in self._reserved.items() if _is_of(case, whose))

    def _feared(self, whose: str | None) -> Fraction:
        """What a case, a skill or the session may have cost when the calls under way are over."""
        spent = sum((account.feared for key, account in self._accounts.items() if _is_of(key[0], whose)), Fraction(0))
        for case, count in self._reserved.items():
            if count and _is_of(case, whose):
                spent += count * self._sum(skill_of(case)).dearest
        return spent

    def _check(self, label: str) -> None:
        caps, skill, case = self._caps, skill_of(label), case_of(label)
        if (share := self._shares.get(case)) is not None:
            self._check_share(case, share)
        calls, said = self._sum(skill).counted + self._reserved_of(skill), caps.model_calls_per_skill
        most = CALLS_PER_SKILL if said is None else said
        # Where no number is said, a skill whose cases have shares may make as many as these are, be it more.
        if calls >= most and (share is None or said is not None):
            raise BudgetError(
                f"{skill} has made {calls} model calls and may make {most}; the next call was not made.",
                remedy="Raise caps.model_calls_per_skill in the policy, or run fewer cases or a smaller mode.",
            )
        feared = self._feared(skill)
        if feared >= Fraction(caps.usd_per_skill):
            raise BudgetError(
                f"{skill} has cost {_dollars(self._sum(skill).cost, feared)} and may cost ${caps.usd_per_skill:g}; "
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

    def _check_share(self, case: str, share: CaseShare) -> None:
        """Before the caps of skill and session, which the shares add up to: so that it is always the same call that is stopped."""
        caps, spent = self._caps, self._sum(case)
        calls = spent.counted + self._reserved.get(case, 0)
        if calls >= share.model_calls:
            said = caps.model_calls_per_skill
            whole = "those" if said is None else f"the {said}"  # no sum: a shard sees the shares of its own cases only
            raise BudgetError(
                f"{case} has made {calls} model calls, its share of {whole} of its skill; the next call was not made.",
                remedy="Raise caps.model_calls_per_skill in the policy, or run fewer cases or a smaller mode.",
            )
        # The next call may well cost as much as the dearest: shares of many cases must not each be overdrawn by one.
        feared = self._feared(case)
        if feared + spent.dearest > Fraction(share.usd):
            raise BudgetError(
                f"{case} has cost {_dollars(spent.cost, feared)} of ${share.usd:.4f}, its share of the caps "
                f"(${caps.usd_per_skill:g} a skill, ${caps.usd_per_session:g} a session); the next call was not made.",
                remedy="Raise caps.usd_per_skill and caps.usd_per_session in the policy, or take a cheaper model or a smaller "
                "mode.",
            )


def _is_of(case: str, whose: str | None) -> bool:
    return whose in (None, case, skill_of(case))


def _dollars(cost: Fraction, feared: Fraction) -> str:
    more = f", with calls under way and of unknown usage up to ${float(feared):.4f}," if feared > cost else ""
    return f"${float(cost):.4f}{more}"


def _failure(error: ModelError | None) -> _Account:
    if error is not None and error.paid:
        return _Account()
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
