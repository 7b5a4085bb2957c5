"""The world outside as arguments, what a session that measures has open, and how its steps are taken."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, TypeVar

from gate import __version__
from gate.domain.base import NotRun, Value
from gate.domain.chat import Role, TokenUsage
from gate.domain.plan import (
    CasePlan,
    Plan,
    RunRequest,
    SkillPlan,
)
from gate.domain.seeding import JudgingSeeds, SessionSeed
from gate.errors import BudgetError, Cancelled, EvidenceError, InfrastructureError
from gate.evidence.bundle import Bundle
from gate.evidence.cache import Cache, ReplyShelf
from gate.evidence.redact import Redactor
from gate.llm.journal import Journal
from gate.llm.ledger import Ledger
from gate.llm.roles import Models
from gate.protocols import Clock, McpReach, Progress, Repository, Sandbox
from gate.settings import Settings

if TYPE_CHECKING:
    from gate.execution.harnesses.install import AgentSource
    from gate.execution.reuse import Around, Reuse
    from gate.execution.runner import Agent

T = TypeVar("T")
R = TypeVar("R")

NO_SANDBOX = "none: nothing had to be run"
_LONG_CALL = TokenUsage(input_tokens=5_000, output_tokens=500)
"""Twice what the estimate of a plan takes for a usual one."""
CANCEL_SECONDS = 3.0
"""After a signal: how long runs may take to write down that they were cancelled."""


@dataclass(frozen=True)
class World:
    """The world outside, as arguments."""

    repository: Repository
    sandbox: Callable[[], Sandbox]
    """Made when the first run needs it: a session with nothing to run needs no engine."""
    models: Models | None
    ledger: Ledger
    clock: Clock
    seed: SessionSeed
    session_id: str
    run_date: str
    progress: Progress
    redactor: Redactor
    models_text: str
    """For the report's footer."""
    notes: tuple[str, ...] = ()
    cancelled: threading.Event = field(default_factory=threading.Event)
    abort: Callable[[], None] = lambda: None
    """Ends the program at once; called when a session that was told to stop does not end by itself."""
    cache: Cache | None = None
    """What earlier sessions left to be used again; None: nothing is taken and nothing kept."""
    journal: Journal | None = None
    """The replies of this session, for when it is killed; None: they are not written down."""
    agent: Callable[[], AgentSource] | None = None
    """The agent program that runs the cases instead of the built-in loop, made when there is something to run."""
    mcp: McpReach | None = None
    """The way to the real MCP servers that the base policy names; None: it names none."""

    @property
    def judging_seeds(self) -> JudgingSeeds:
        """From which the judges of a record get their fences, controls and labels."""
        return JudgingSeeds(self.seed, self.session_id, self.cache.judging_seed if self.cache else None)


@dataclass
class Trouble:
    """What stopped a skill, by slug: filled while the session runs, read by the decision from skill.json."""

    errors: dict[str, set[str]] = field(default_factory=dict)
    over_budget: dict[str, str] = field(default_factory=dict)
    broken: dict[str, set[str]] = field(default_factory=dict)
    """Evidence that a merge refused."""
    notes: list[str] = field(default_factory=list)
    """Facts for the report that are nobody's failure."""
    lock: threading.Lock = field(default_factory=threading.Lock)

    def note(self, text: str) -> None:
        """A fact for the report."""
        with self.lock:
            self.notes.append(text)

    def error(self, slug: str, text: str) -> None:
        """An infrastructure error of one skill."""
        with self.lock:
            self.errors.setdefault(slug, set()).add(text)

    def budget(self, slug: str, text: str) -> None:
        """A cap that one skill ran into; of several the first by its text is kept, whichever came first."""
        with self.lock:
            self.over_budget[slug] = min(text, self.over_budget.get(slug, text))


@dataclass(frozen=True)
class Session:
    """What every step of a session that measures needs: an engine that answered, models that answered."""

    settings: Settings
    world: World
    plan: Plan
    bundle: Bundle
    sandbox: Sandbox
    models: Models
    images: dict[str, str]
    """Skill path -> id of the image that its runs and its verification containers get."""
    trouble: Trouble
    reuse: Reuse | None
    shelf: ReplyShelf | None
    agent: Agent | None = None
    """The agent program that runs the cases; None: the built-in loop."""

    @property
    def harness(self) -> str:
        """Who runs the cases, with its version."""
        return self.agent.program.text if self.agent else f"loop {__version__}"

    def around(self, request: RunRequest) -> Around:
        """What a run depends on beside its request."""
        from gate.execution.reuse import Around

        return Around(
            model=self.models.of(Role.EXECUTOR).name,
            harness=self.harness,
            image=self.images[request.key.skill_path],
            sandbox=self.settings.sandbox,
        )

    def in_order(self, case: str, calls: int) -> bool:
        """Whether so many further calls of a case (``case_label``) could reach the end of its share.

        Then they are made one after the other in the plan's order: so that it is always the same call that is stopped,
        however many jobs and shards there are. What a call costs is a guess on the high side, the number of calls is none.
        """
        ledger = self.world.ledger
        left = ledger.left(case)
        if left is None:
            return False
        price = ledger.price_of(self.models.of(Role.EXECUTOR).name, _LONG_CALL) or 0.0
        return calls > left.calls or calls * price > left.usd

    def settle(self, prefix: str, *, keep: bool) -> None:
        """Keep the judges' replies to calls of this label for later sessions, or forget them. What cannot be kept is said."""
        if self.shelf is None:
            return
        try:
            self.shelf.settle(prefix, keep=keep)
        except InfrastructureError as error:
            self.world.progress.say(f"replies about {prefix} could not be kept for later: {error}")


def raise_if_cancelled(world: World) -> None:
    if world.cancelled.is_set():
        raise Cancelled("The session was cancelled.")


def runs_of(case: CasePlan) -> int:
    return sum(arm.runs for arm in case.arms)


def is_measured(skill: SkillPlan) -> bool:
    """Whether something of it is run."""
    return skill.not_measured is None and any(map(runs_of, skill.cases))


def guarded(session: Session, slug: str, step: Callable[[], R]) -> R | NotRun:
    """Run a judging step; what stops it is a value with the reason."""
    try:
        return step()
    except BudgetError as error:
        session.trouble.budget(slug, error.message)
        return NotRun(not_run=f"over budget: {error.message}")
    except InfrastructureError as error:
        # Not an error of the whole skill: the decision asks how much of the evidence is left (DESIGN.md 4, 5).
        return NotRun(not_run=str(error))
    except EvidenceError as error:
        # The record was changed under our hands: the decision finds the broken seal and calls the skill invalid.
        return NotRun(not_run=error.message)


def each(
    session: Session,
    what: str,
    items: Sequence[T],
    step: Callable[[T], None],
    *,
    chain: Callable[[T], str | None] = lambda item: None,
) -> None:
    """Do a step for every item, ``jobs`` at a time; the first error stops the rest and is raised.

    Items with one ``chain`` are done one after the other, in their order; None: with no other.
    """
    session.world.progress.step(what, len(items))
    chains: dict[object, list[T]] = {}
    for item in items:
        chains.setdefault(chain(item) or object(), []).append(item)

    def work(own: list[T]) -> None:
        for item in own:
            _unless_cancelled(session, step, item)

    with ThreadPoolExecutor(max_workers=session.settings.jobs) as pool:
        futures = [pool.submit(work, own) for own in chains.values()]
        try:
            for future in futures:
                future.result()
        except BaseException:
            for future in futures:
                future.cancel()
            raise


def _unless_cancelled(session: Session, step: Callable[[T], None], item: T) -> None:
    if session.world.cancelled.is_set():
        raise Cancelled("The session was cancelled.")
    step(item)
    session.world.progress.step_done()


def write(session: Session, relative: str, value: Any) -> None:
    session.bundle.write(relative, redacted(session.world.redactor, value))


def write_raw(bundle: Bundle, redactor: Redactor, relative: str, value: Value) -> None:
    bundle.write(relative, redacted(redactor, value))


def redacted(redactor: Redactor, value: Any) -> Any:
    return redactor.json(value.to_json() if isinstance(value, Value) else value)
