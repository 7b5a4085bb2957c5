"""How many requests one account of a provider gets at the same time: as many as it takes.

Additive increase, multiplicative decrease (Chiu and Jain 1989), as congestion control has it. The number begins small and
grows by one with every answer until the provider refuses for its rate (429, 529). Then it is halved, grows by one a round
of answers, and stays below what was refused until a while has passed without another refusal. Where the provider says how
long to wait, nobody asks before that. A refusal costs nothing but time: it is no failure of whoever asked.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from dataclasses import dataclass

TOO_MANY = frozenset({429, 529})
"""Statuses by which a provider says that it is asked too often, by this account or by all."""
PATIENCE_S = 600.0
"""How long one call is put off at the longest, all waits together; and how long an account may answer nobody at all."""
_START = 4
_MOST = 256
_QUIET_S = 30.0
_LOOK_S = 0.2


@dataclass(frozen=True)
class Turn:
    """A request under way."""

    at: int
    """How many were under way when it began, itself included."""
    round: int
    """How often the number had been lowered by then."""


class Pace:
    """The pace of one account. Thread-safe."""

    def __init__(
        self, *, now: Callable[[], float] = time.monotonic, stopped: Callable[[], bool] = lambda: False
    ) -> None:
        """``now``: seconds of any clock that only goes forward. ``stopped``: whether the session is to end; nobody waits then."""
        self._now = now
        self._stopped = stopped
        self._free = threading.Condition()
        self._under_way = 0
        self._limit = _START
        self._ceiling = _MOST
        self._grown = 0
        """Answers since the number was raised last."""
        self._round = 0
        self._not_before = 0.0
        self._refused_at = 0.0
        self._silent_since: float | None = None
        """When it was refused for the first time since it gave an answer; None: it has not been."""

    @property
    def limit(self) -> int:
        """How many may be under way now."""
        with self._free:
            return self._limit

    def silent(self, seconds: float) -> bool:
        """Whether the account has refused everybody for so long: then there is no pace that it takes."""
        with self._free:
            return self._silent_since is not None and self._now() - self._silent_since >= seconds

    def begin(self) -> Turn:
        """Wait for a turn. Each must be given back by ``end``."""
        with self._free:
            while (turn := self.try_begin()) is None:
                self._free.wait(_LOOK_S)
            return turn

    def try_begin(self) -> Turn | None:
        """A turn where one is free now."""
        with self._free:
            if not self._stopped() and (self._under_way >= self._limit or self._now() < self._not_before):
                return None
            self._under_way += 1
            return Turn(self._under_way, self._round)

    def end(
        self, turn: Turn, *, answered: bool = False, refused: bool = False, retry_after_s: float | None = None
    ) -> None:
        """A request is over: the provider gave an ``answer``, ``refused`` it for its rate, or neither."""
        with self._free:
            if refused:
                self._silent_since = self._now() if self._silent_since is None else self._silent_since
                self._lower(turn, retry_after_s)
            elif answered:
                self._silent_since = None
                self._raise()
            self._under_way -= 1
            self._free.notify_all()

    def _lower(self, turn: Turn, retry_after_s: float | None) -> None:
        now = self._now()
        self._refused_at = now
        if retry_after_s is not None:
            self._not_before = max(self._not_before, now + retry_after_s)
        if turn.round < self._round:
            return  # it was sent before the last time
        self._round += 1
        seen = max(turn.at, self._under_way)  # what the provider saw at the most
        self._ceiling = max(1, min(self._ceiling, seen - 1))
        self._limit = max(1, min(self._limit, seen) // 2)
        self._grown = 0

    def _raise(self) -> None:
        now = self._now()
        if self._round and now - self._refused_at >= _QUIET_S:
            self._ceiling, self._refused_at = min(self._ceiling + 1, _MOST), now
        self._grown += 1
        if self._limit < self._ceiling and self._grown >= (self._limit if self._round else 1):
            self._limit += 1
            self._grown = 0
