"""Which of the requests of a run are its one conversation; everything else is a side call, counted and not graded.

What a program sends is its own claim. The rule rests on what the gate itself sent before: a request belongs to the
conversation where it repeats exactly the tool calls that the model made so far and brings a result for each that waits.
Invented history repeats calls that nobody made, and goes nowhere.
"""

from __future__ import annotations

import queue
from collections.abc import Callable
from dataclasses import dataclass, field

from gate.domain.chat import ChatReply, ToolResult
from gate.domain.evidence import Outcome
from gate.domain.gateway import Asked, Ending, Exchange

REQUESTS_A_STEP = 4
REQUESTS_BESIDE = 40
"""A run may ask this often beside its steps: titles, counts, sub-agents."""


@dataclass(frozen=True)
class Turn:
    """A request of the conversation as it was admitted, and later its answer."""

    step: int
    asked: Asked
    results: tuple[ToolResult, ...] = ()
    """Of the calls that waited."""
    shown: str = ""
    """What stood beside the results: a program may hand over a skill's text there."""
    reply: ChatReply | None = None


@dataclass(frozen=True)
class Stop:
    """Why the run ends before its answer."""

    outcome: Outcome
    reason: str


@dataclass
class Conversation:
    """``gate.protocols.GatewayObserver`` of one run. Its two methods run in the gateway's thread, one at a time."""

    prompt: str
    steps: int
    check: Callable[[Asked], str | None]
    """Looks at the first request: why the program did not start as it must, or None."""
    turns: queue.SimpleQueue[Turn] = field(default_factory=queue.SimpleQueue)
    """For the thread that keeps the record."""
    stop: Stop | None = None
    unfit: str | None = None
    """The program was started wrongly: infrastructure."""
    failed: Exchange | None = None
    """The provider gave no answer, or half of one, within the conversation: infrastructure."""
    abandoned: bool = False
    side: int = 0
    side_failed: int = 0
    repeated: int = 0
    asked_in_all: int = 0
    replies: list[ChatReply] = field(default_factory=list)
    _histories: list[list[str]] = field(default_factory=lambda: [[]])
    """Ids of all tool calls up to each reply; the first is that of no reply."""
    _given: dict[int, dict[str, str]] = field(default_factory=dict)
    """Number of replies -> the results with which the conversation went on from there."""
    _under_way: int | None = None

    @property
    def is_over(self) -> bool:
        """Whether nothing that the program still does can matter."""
        return self.stop is not None or self.unfit is not None or self.failed is not None

    @property
    def pending(self) -> tuple[str, ...]:
        """Ids of the calls whose results the conversation waits for."""
        return tuple(use.id for use in self.replies[-1].tool_uses) if self.replies else ()

    def admit(self, asked: Asked) -> str | None:
        """None lets a request pass; a sentence refuses it."""
        self.asked_in_all += 1
        if self.is_over:
            return "this run is over"
        if self.asked_in_all > REQUESTS_A_STEP * self.steps + REQUESTS_BESIDE:
            self.stop = Stop(Outcome.AGENT_FAILED, f"it made more than {self.asked_in_all - 1} requests to the model")
            return self.stop.reason
        if not self._belongs(asked):
            self.side += 1
            return self.stop.reason if self.stop else None
        if not self.replies:
            self.unfit = self.check(asked)
            if self.unfit:
                return self.unfit
        if len(self.replies) >= self.steps:
            self.stop = Stop(Outcome.AGENT_FAILED, f"no answer within {self.steps} steps")
            return self.stop.reason
        self._under_way = asked.number
        results = self._results(asked, len(self.replies))
        self._given[len(self.replies)] = {name: item.text for name, item in results.items()}
        self.turns.put(
            Turn(step=len(self.replies) + 1, asked=asked, results=tuple(results.values()), shown=_shown(asked))
        )
        return None

    def ended(self, exchange: Exchange) -> None:
        """How a request ended."""
        if exchange.asked.number != self._under_way:
            self.side_failed += exchange.end in (Ending.FAILED, Ending.CUT)
            if exchange.end is Ending.REFUSED and exchange.kind == "budget" and self.stop is None:
                self.stop = Stop(Outcome.OVER_BUDGET, exchange.reason)
            return
        self._under_way = None
        if exchange.reply is not None:
            self.replies.append(exchange.reply)
            self._histories.append([*self._histories[-1], *(use.id for use in exchange.reply.tool_uses)])
            self.turns.put(Turn(step=len(self.replies), asked=exchange.asked, reply=exchange.reply))
        elif exchange.end is Ending.REFUSED:
            self.stop = Stop(Outcome.OVER_BUDGET, exchange.reason)
        elif exchange.end is Ending.ABANDONED:
            self.abandoned = True
        else:
            self.failed = exchange

    def _belongs(self, asked: Asked) -> bool:
        history = [use.id for message in asked.messages if message.role == "assistant" for use in message.tool_uses]
        if not self.replies:
            first = not history and bool(asked.tools) and self._asks_for_the_task(asked)
            return first and self._under_way is None
        # From which of its replies the request goes on; of several with equal calls the last, which waits for none.
        known = [place for place, ids in enumerate(self._histories) if place and ids == history]
        for place in known:
            waiting = {use.id for use in self.replies[place - 1].tool_uses}
            given = {name: item.text for name, item in self._results(asked, place).items()}
            if not waiting or given.keys() != waiting:
                continue
            before = self._given.get(place)
            if before is None:
                return place == len(self.replies)
            if before == given:
                self.repeated += 1
            elif self.stop is None:
                # Two stories of what its tools did: whichever is true, the record of this run cannot be trusted.
                self.stop = Stop(Outcome.AGENT_FAILED, "two requests told different results of the same tool calls")
        return False

    def _results(self, asked: Asked, place: int) -> dict[str, ToolResult]:
        """The results of the calls of a reply, by id; of several with one id the last, since ids may begin anew."""
        waiting = {use.id for use in self.replies[place - 1].tool_uses} if place else set()
        return {item.id: item for message in asked.messages for item in message.tool_results if item.id in waiting}

    def _asks_for_the_task(self, asked: Asked) -> bool:
        wanted = " ".join(self.prompt.split())
        said = " ".join(" ".join(message.text for message in asked.messages if message.role == "user").split())
        return wanted in said


def _shown(asked: Asked) -> str:
    """What the user says behind the last words of the assistant."""
    shown: list[str] = []
    for message in reversed(asked.messages):
        if message.role == "assistant":
            break
        if message.text:
            shown.insert(0, message.text)
    return "\n".join(shown)
