"""How far a session is: lines where nobody watches, a few lines that renew themselves on a terminal, nothing with --quiet."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from gate.cli.terminal import fitted
from gate.domain.plan import Arm
from gate.llm.ledger import Spend

if TYPE_CHECKING:
    from rich.console import Console, RenderableType

COMPLETED, CANCELLED = "completed", "cancelled"
_SECONDS, _CALLS = 10, 5
"""Before so much has been seen, nobody can say how long the rest takes."""


class QuietProgress:
    """Says nothing."""

    def say(self, text: str) -> None:
        """Nothing."""

    def run_done(self, label: str, outcome: str) -> None:
        """Nothing."""

    def expect(self, *, cases: int, runs: int, calls: int) -> None:
        """Nothing."""

    def step(self, what: str, total: int) -> None:
        """Nothing."""

    def step_done(self) -> None:
        """Nothing."""

    def close(self) -> None:
        """Nothing."""


class PlainProgress(QuietProgress):
    """Plain lines; trusted text only. Thread-safe."""

    def __init__(self, say: Callable[[str], None]) -> None:
        self._say = say
        self._lock = threading.RLock()
        self._done = 0
        self._runs = 0

    def say(self, text: str) -> None:
        """One line."""
        with self._lock:
            self._say(text)

    def run_done(self, label: str, outcome: str) -> None:
        """One line for a finished run."""
        with self._lock:
            self._done += 1
            self._say(f"run {self._done}: {label}: {outcome}")

    def expect(self, *, cases: int, runs: int, calls: int) -> None:
        """One line with what is planned."""
        del calls  # the estimate has a line of its own
        self.say(f"planned: {_many(cases, 'case')}, {_many(runs, 'run')}")

    def step(self, what: str, total: int) -> None:
        """One line for a step after the runs, which have lines of their own."""
        if total and what != RUNS:
            self.say(f"{what}: {total}")


RUNS = "running"


class LiveProgress(PlainProgress):
    """Three lines at the bottom of a terminal; what went wrong and what is said scrolls above them.

    ``spent`` is asked what the session has cost so far, ``now`` for seconds of any clock that only goes forward.
    """

    def __init__(
        self, say: Callable[[str], None], spent: Callable[[], Spend], now: Callable[[], float], console: Console
    ) -> None:
        super().__init__(say)
        self._spent = spent
        self._now = now
        self._console = console
        self._live: Any = None
        self._began = 0.0
        self._cases = self._calls = self._planned = 0
        self._what, self._total, self._step = "", 0, 0
        self._arms: Counter[str] = Counter()
        self._unusual = 0

    def say(self, text: str) -> None:
        """As many lines as it takes."""
        with self._lock:
            for line in fitted(text, self._console.width):
                self._say(line)

    def run_done(self, label: str, outcome: str) -> None:
        """Counts a run; only one that did not simply complete gets a line, and none that somebody has just stopped."""
        with self._lock:
            self._done += 1
            self._arms[label.rpartition("/")[2]] += 1
            if not outcome.startswith(COMPLETED):
                self._unusual += 1
                if not outcome.startswith(CANCELLED):
                    self._say(f"{label}: {outcome}")
            if self._what == RUNS:
                self._step += 1

    def expect(self, *, cases: int, runs: int, calls: int) -> None:
        """Begin to show."""
        from rich.live import Live

        with self._lock:
            self._cases, self._planned, self._calls, self._began = cases, runs, calls, self._now()
            if self._live is None:
                self._live = Live(
                    get_renderable=self.lines,
                    console=self._console,
                    refresh_per_second=4,
                    transient=True,
                    redirect_stdout=False,
                )
                self._live.start()

    def step(self, what: str, total: int) -> None:
        """A new step begins."""
        with self._lock:
            self._what, self._total, self._step = what, total, 0
            if what == RUNS:
                self._planned = max(self._planned, self._done + total)

    def step_done(self) -> None:
        """One thing of the step is done."""
        with self._lock:
            self._step += 1

    def close(self) -> None:
        """Leave the terminal as it was."""
        with self._lock:
            live, self._live = self._live, None
        if live is not None:
            live.stop()

    def lines(self) -> RenderableType:
        """What is shown now."""
        from rich.console import Group
        from rich.progress_bar import ProgressBar
        from rich.table import Table
        from rich.text import Text

        with self._lock:
            bar = Table.grid(padding=(0, 1), expand=True)
            bar.add_column(width=11, no_wrap=True)
            bar.add_column(ratio=1)
            bar.add_column(justify="right", no_wrap=True)
            bar.add_row(
                Text(self._what or "starting"),
                ProgressBar(total=max(1, self._total), completed=min(self._step, self._total)),
                Text(f"{min(self._step, self._total)}/{self._total}"),
            )
            counts = [(self._arms[arm.value], arm.value.removesuffix("_skill")) for arm in Arm]
            arms = ", ".join(f"{count} {name}" for count, name in counts if count)
            unusual = [f"{self._unusual} not completed"] if self._unusual else []
            runs = f"{self._done} of {_many(self._planned, 'run')}{': ' if arms else ''}{arms}"
            rows = [" · ".join([_many(self._cases, "case"), runs, *unusual]), " · ".join(self._cost())]
        return Group(bar, *(Text(row, overflow="ellipsis", no_wrap=True) for row in rows))

    def _cost(self) -> list[str]:
        spend, gone = self._spent(), self._now() - self._began
        unknown = "" if spend.input_tokens is not None and spend.output_tokens is not None else "≥ "
        tokens = spend.known_input_tokens + spend.known_output_tokens
        price = f"{'' if spend.cost_usd is not None else '≥ '}${spend.known_cost_usd:.2f}"
        if spend.cost_usd is None and not spend.known_cost_usd:
            price = "cost unknown"
        words = [_many(spend.calls, "call"), f"{unknown}{tokens:,} tokens", price, f"{_clock(gone)} gone"]
        left = self._calls - spend.calls
        if spend.calls >= _CALLS and gone >= _SECONDS and left > 0:
            words.append(f"about {_clock(gone * left / spend.calls)} left")
        return words


def _many(count: int, noun: str) -> str:
    return f"{count:,} {noun}{'' if count == 1 else 's'}"


def _clock(seconds: float) -> str:
    minutes, rest = divmod(max(0, int(seconds)), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{rest:02}" if hours else f"{minutes}:{rest:02}"


def progress_of(
    say: Callable[[str], None],
    *,
    interactive: bool,
    quiet: bool,
    spent: Callable[[], Spend],
    now: Callable[[], float],
) -> QuietProgress:
    """The progress of a session: see LiveProgress for ``spent`` and ``now``."""
    if quiet:
        return QuietProgress()
    if not interactive:
        return PlainProgress(say)
    from rich.console import Console

    return LiveProgress(say, spent, now, Console(stderr=True))
