"""What has been asked for and not been done yet: a bounded queue, one worker, and a memory of what was asked before.

All of it is in this process and gone when it ends. GitHub shows deliveries that failed and delivers them again on request.
"""

from __future__ import annotations

import threading
from collections import OrderedDict, deque
from collections.abc import Callable, Hashable
from enum import StrEnum

from gate.service.webhooks import Delivery

QUEUE_LENGTH = 100
REMEMBERED = 10_000


class Taken(StrEnum):
    """What became of a delivery."""

    QUEUED = "queued"
    DUPLICATE = "duplicate"
    FULL = "full"
    STOPPING = "stopping"


class Jobs:
    """Judges one delivery after the other in a thread of its own. Thread-safe."""

    def __init__(
        self,
        judge: Callable[[Delivery], bool],
        say: Callable[[str], None],
        *,
        length: int = QUEUE_LENGTH,
        remembered: int = REMEMBERED,
    ) -> None:
        """``judge``: whether the delivery was judged; what was not (nor could be) is judged when it is asked for again.
        ``length``: deliveries that may wait. ``remembered``: delivery ids and heads of which no second one is taken.
        """
        self._judge = judge
        self._say = say
        self._length = length
        self._remembered = remembered
        self._waiting: deque[Delivery] = deque()
        self._seen: OrderedDict[Hashable, None] = OrderedDict()
        self._change = threading.Condition()
        self._running = False
        self._stopping = False
        self._thread = threading.Thread(target=self._work, name="judge", daemon=True)

    def start(self) -> None:
        """Begin to work."""
        self._thread.start()

    def take(self, delivery: Delivery) -> Taken:
        """Queue a delivery unless it, or the same head in the same condition, has been taken before."""
        keys = _keys(delivery)
        with self._change:
            if self._stopping:
                return Taken.STOPPING
            if any(key in self._seen for key in keys):
                return Taken.DUPLICATE
            if len(self._waiting) >= self._length:
                return Taken.FULL
            for key in keys:
                self._seen[key] = None
            while len(self._seen) > self._remembered:
                self._seen.popitem(last=False)
            self._waiting.append(delivery)
            self._change.notify_all()
            return Taken.QUEUED

    def state(self) -> tuple[bool, int, bool]:
        """(the worker lives, deliveries that wait, one is being judged)."""
        with self._change:
            return self._thread.is_alive(), len(self._waiting), self._running

    def stop(self, timeout_s: float | None = None) -> int:
        """Take no more, drop what waits, and wait for the one under way; returns how many were dropped."""
        with self._change:
            self._stopping = True
            dropped = len(self._waiting)
            self._waiting.clear()
            self._change.notify_all()
        if self._thread.is_alive():
            self._thread.join(timeout_s)
        return dropped

    def _work(self) -> None:
        while True:
            with self._change:
                while not self._waiting and not self._stopping:
                    self._change.wait()
                if self._stopping:
                    return
                delivery = self._waiting.popleft()
                self._running = True
            judged = False
            try:
                judged = self._judge(delivery)
            except Exception as error:  # noqa: BLE001 - one delivery must not end the service
                self._say(f"error: {type(error).__name__} while {delivery.event.repository} was judged: {error}")
            with self._change:
                self._running = False
                if not judged:
                    for key in _keys(delivery):
                        self._seen.pop(key, None)
                self._change.notify_all()


def _keys(delivery: Delivery) -> tuple[Hashable, ...]:
    return (delivery.id, delivery.subject) if delivery.id else (delivery.subject,)
