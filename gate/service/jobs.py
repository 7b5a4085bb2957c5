"""Jobs as DBOS workflows: planned, cut into parts, run, put together, reported; each a step that can be done again.

DBOS keeps which step of a job is done and hands work to whoever has room (PostgreSQL: any worker). A step that a kill cut
short is begun again and goes on in its folder, by the session's own journal: what was paid is not paid again. Open-source
DBOS recovers only what its own executor left, at its next start under the same name; here every process has a name of its
own, says each few seconds that it lives (``Store.beat``), and whoever lives takes over from whoever does not.

Workflows get plain ids; what they need beside is in a configured instance (DESIGN.md 7).
"""

from __future__ import annotations

import contextlib
import logging
import os
import secrets
import socket
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from gate.errors import Cancelled, GateError
from gate.service.store import CANCELLED, LEASE_S, Job, JobState, Store

if TYPE_CHECKING:
    from dbos import DBOSConfig

APPLICATION = "skill-gate"
VERSION = "skill-gate-1"
"""Of the workflows' shape. Workers of one version take over each other's jobs; change it where steps change."""
JOBS = "jobs"
PROVIDERS = ("anthropic", "openai", "other")
POLL_S = 0.25
LONGEST_DRAIN_S = 25.0


class PutAside(BaseException):
    """Ends a step without a result, so that it is done again by whoever comes next. No ``Exception``: DBOS would record it."""


@dataclass
class Control:
    """One step's line to the outside."""

    say: Callable[[str], None]
    """One line for people; may hold untrusted text."""
    cancelled: threading.Event = field(default_factory=threading.Event)
    """The job is to end, or the process is."""
    stopping: threading.Event = field(default_factory=threading.Event)
    """The process is to end: what was begun is put aside."""


@dataclass(frozen=True)
class Planned:
    """What planning came to."""

    parts: int = 0
    """0: there is no session to run; the job is over."""
    provider: str = "other"
    """Of the executor's model: whose limit the parts count against."""
    reason: str = ""
    """Why there are no parts."""
    failed: bool = False


@dataclass(frozen=True)
class Concluded:
    """A report, and what it cost."""

    gate_state: str
    headline: str
    verdicts: Mapping[str, str]
    calls: int
    cost_usd: float
    """As far as it is known."""
    counted_usd: float | None = None
    """What counts against the repository's budget; None: the same."""


class Desk(Protocol):
    """Who does the work of each step. Every method may be called again for the same job, after a kill in its middle too."""

    def plan(self, job: Job, payload: bytes, control: Control) -> Planned:
        """Fetch, decide what is judged, and cut it into parts. Raises GateError."""

    def part(self, job: Job, number: int, of: int, control: Control) -> None:
        """Run one part into its folder. Raises GateError."""

    def conclude(self, job: Job, of: int, control: Control) -> Concluded | str:
        """Put the parts together, report, keep the bundle; a text says why nothing is reported. Raises GateError."""

    def failed(self, job: Job, payload: bytes, error: GateError | None, control: Control) -> None:
        """Say on GitHub that there is no report; None: the program itself broke. Never raises."""

    def spent(self, job: Job, control: Control) -> tuple[int, float, float]:
        """Of a job that ends without a report: calls of models, US dollars that are known to be spent, and those that count
        against the repository's budget (more, where not all is known). Waits a while for parts that were told to stop.
        Never raises."""

    def tidy(self, job: Job) -> None:
        """Remove the job's working files. Never raises."""


@dataclass(frozen=True)
class Limits:
    """How much is done at a time."""

    parts_at_once: int = 1
    """By one worker."""
    parts_per_repository: int = 4
    """By all workers, so that one repository cannot take them all."""
    jobs_per_repository: int = 4
    jobs_at_once: int = 16
    """By one worker; a job whose parts run elsewhere only waits."""
    starts_per_minute: Mapping[str, int] = field(default_factory=dict)
    """Parts that may begin in a minute, by provider, over all workers."""


class Works:
    """The engine of one process: hands jobs to DBOS and, with a desk, does them. One a process (DBOS has one instance)."""

    def __init__(
        self,
        store: Store,
        database: str,
        desk: Desk | None,
        log: Callable[..., None],
        *,
        limits: Limits | None = None,
        lease_s: float = LEASE_S,
        on_fenced: Callable[[], None] = lambda: None,
    ) -> None:
        """``database``: DBOS's own, as ``gate.service.store.database_url``; never the file of a SQLite store.

        ``desk`` None: jobs are only handed over. ``log(event, **facts)``. ``on_fenced``: called when the others took this
        process for dead; it must end the process at once.
        """
        self._store = store
        self._database = database
        self._desk = desk
        self._log = log
        self._limits = limits or Limits()
        self._lease_s = lease_s
        self._on_fenced = on_fenced
        self.name = f"{_host()}:{os.getpid()}:{secrets.token_hex(4)}"
        self._stop = threading.Event()
        self._poke = threading.Event()
        self._lock = threading.Lock()
        self._running: dict[str, list[Control]] = {}
        self._slots = threading.BoundedSemaphore(self._limits.parts_at_once)
        self._threads: list[threading.Thread] = []
        self._judging: Any = None

    # --- life

    def start(self) -> None:
        """Begin to hand over and, with a desk, to work. Raises InfrastructureError where the database cannot be had."""
        self._beat()
        self._begin("pulse", self._pulse)  # first: making the tables of a new database may take longer than a lease
        self._launch()
        self._begin("dispatch", self._dispatch)
        self._begin("watch", self._watch)

    def _begin(self, name: str, target: Callable[[], None]) -> None:
        thread = threading.Thread(target=target, name=name, daemon=True)
        thread.start()
        self._threads.append(thread)

    def poke(self) -> None:
        """Something was taken: hand it over now."""
        self._poke.set()

    @property
    def alive(self) -> bool:
        """Whether jobs go on from here."""
        return all(thread.is_alive() for thread in self._threads) and not self._stop.is_set()

    def running(self) -> list[str]:
        """Jobs that this process has in hand."""
        with self._lock:
            return sorted(self._running)

    def stop(self, drain_s: float = LONGEST_DRAIN_S) -> bool:
        """Put everything aside and leave; whether every step was left in good order (else the process has to be ended).

        Sessions stop as on a signal: no new run begins, an answer that is under way is waited for and kept. Whoever lives,
        or this service when it is started again, goes on from there.
        """
        from dbos import DBOS

        self._stop.set()
        self._poke.set()
        self._beat(draining=True)
        with self._lock:
            for control in [one for all_of in self._running.values() for one in all_of]:
                control.stopping.set()
                control.cancelled.set()
        until = time.monotonic() + drain_s
        while self.running() and time.monotonic() < until:
            time.sleep(0.05)
        left = self.running()
        for thread in self._threads:
            thread.join(5)
        if not left:
            DBOS.destroy(destroy_registry=True)
        self._store.leave(self.name)
        return not left

    def _launch(self) -> None:
        from dbos import DBOS

        config: DBOSConfig = {
            "name": APPLICATION,
            "system_database_url": self._database,
            "application_version": VERSION,
            "executor_id": self.name,
            "log_level": "ERROR",
            "enable_otlp": False,
            "use_listen_notify": False,
            "notification_listener_polling_interval_sec": 1.0,
        }
        DBOS(config=config)
        _forward(self._log)
        self._judging = _workflows(self)
        if self._desk is None:
            DBOS.listen_queues([])
        DBOS.launch()
        limits = self._limits
        DBOS.register_queue(
            JOBS,
            worker_concurrency=limits.jobs_at_once,
            partition_concurrency=limits.jobs_per_repository,
            polling_interval_sec=POLL_S,
            on_conflict="always_update",
        )
        for provider in PROVIDERS:
            rate = limits.starts_per_minute.get(provider)
            DBOS.register_queue(
                parts_queue(provider),
                worker_concurrency=limits.parts_at_once,
                partition_concurrency=limits.parts_per_repository,
                limiter={"limit": rate, "period": 60.0} if rate else None,
                polling_interval_sec=POLL_S,
                on_conflict="always_update",
            )

    # --- handing over, and watching over others

    def _dispatch(self) -> None:
        """Hand over what waits; also what a process took and could not hand over any more."""
        while not self._stop.is_set():
            self._poke.clear()
            try:
                for job in self._store.not_handed():
                    self._hand_over(job)
            except Exception as error:  # noqa: BLE001 - the database may be away for a while; jobs stay where they are
                self._log("dispatch failed", error=type(error).__name__)
                self._stop.wait(1.0)
            self._poke.wait(1.0)

    def _hand_over(self, job: Job) -> None:
        from dbos import DBOS, SetEnqueueOptions, SetWorkflowID

        with SetWorkflowID(job.id), SetEnqueueOptions(queue_partition_key=_partition(job)):
            DBOS.enqueue_workflow(JOBS, self._judging.job, job.id)
        self._store.handed(job.id)

    def _pulse(self) -> None:
        """Say that this process lives; end it where it could not say so in time, for others have its jobs by then."""
        heard = time.monotonic()
        while not self._stop.wait(min(5.0, self._lease_s / 6)):
            asked = time.monotonic()
            try:
                if not self._beat():
                    break
                heard = asked
            except Exception as error:  # noqa: BLE001 - the database may be away for a while
                self._log("no sign of life", error=type(error).__name__)
                if time.monotonic() - heard > self._lease_s:
                    break
        if not self._stop.is_set():
            self._log("fenced", worker=self.name)
            self._on_fenced()

    def _watch(self) -> None:
        """Pass on what jobs were told, and take over from the dead."""
        while not self._stop.wait(min(1.0, self._lease_s / 6)):
            try:
                self._pass_on()
                self._take_over()
            except Exception as error:  # noqa: BLE001 - as in _dispatch
                self._log("watch failed", error=type(error).__name__)

    def _beat(self, *, draining: bool = False) -> bool:
        return self._store.beat(self.name, host=_host(), pid=os.getpid(), draining=draining)

    def _pass_on(self) -> None:
        running = self.running()
        told = self._store.cancelling(running) if running else set()
        with self._lock:
            for job in told:
                for control in self._running.get(job, ()):
                    control.cancelled.set()

    def _take_over(self) -> None:
        from dbos import DBOS

        for worker in self._store.workers():
            if worker.host == _host() and worker.pid != os.getpid() and not _is_alive(worker.pid):
                self._store.leave(worker.id)  # no need to wait for its lease
        for dead in self._store.bury(self._lease_s):
            if dead == self.name:
                continue
            # Atomic in the database: of two that try, one gets each workflow; what somebody runs already stays with them.
            found = DBOS._recover_pending_workflows([dead])  # noqa: SLF001 - what its admin server calls; there is no other name
            if found:
                self._log("took over", worker=dead, workflows=len(found))
            self._store.forget_worker(dead)

    # --- steps

    def _facts(self, job: str) -> Job | None:
        found = self._store.job(job)
        return found if found is not None and not found.state.ended else None

    @contextlib.contextmanager
    def _in_hand(self, job: Job) -> Iterator[Control]:
        """A step of a job that this process does now. Raises PutAside where the process is to end."""

        def say(text: str) -> None:
            self._log("session", job=job.id, repository=job.repository, text=text)
            self._store.say(job.id, "line", text)

        control = Control(say)
        with self._lock:
            if self._stop.is_set():
                raise PutAside
            self._running.setdefault(job.id, []).append(control)
        try:
            if job.cancelling:
                control.cancelled.set()
            yield control
        finally:
            control.cancelled.set()  # whoever still waits for that may go
            with self._lock:
                self._running[job.id].remove(control)
                if not self._running[job.id]:
                    del self._running[job.id]

    def _attempt(self, job: Job, what: str, act: Callable[[Control], dict[str, Any]]) -> dict[str, Any]:
        """The result of a step as plain data; an error is one too. Raises PutAside."""
        self._store.say(job.id, "step", what)
        with self._in_hand(job) as control:
            try:
                return act(control)
            except Exception as error:  # noqa: BLE001 - see above
                if control.stopping.is_set():
                    raise PutAside from None
                return self._as_data(job, what, error)

    def _as_data(self, job: Job, what: str, error: Exception) -> dict[str, Any]:
        if isinstance(error, Cancelled):
            return {"error": error.message, "kind": "cancelled"}
        if isinstance(error, GateError):
            self._log("step failed", job=job.id, step=what, error=error.message)
            return {"error": error.message, "remedy": error.remedy, "kind": type(error).__name__}
        self._log("step broke", job=job.id, step=what, error=repr(error)[:500], exc_info=error)
        return {"error": "the gate itself failed; nothing was judged", "kind": "crash"}

    def plan(self, name: str) -> dict[str, Any]:
        """The first step."""
        job, desk = self._facts(name), self._at_desk()
        if job is None or not self._store.begin(name, self.name):
            return {"parts": 0, "over": True}
        self._store.say(name, "state", "running")
        self._log("job begins", job=name, repository=job.repository, head=job.head_sha, trigger=job.trigger.value)

        def act(control: Control) -> dict[str, Any]:
            planned = desk.plan(job, self._store.payload(name), control)
            if control.cancelled.is_set() and not control.stopping.is_set():
                raise Cancelled("The job was told to end.")
            if planned.parts:
                self._store.note(name, shards=planned.parts)
            return vars(planned)

        return self._attempt(job, "planning", act)

    def part(self, name: str, number: int, of: int) -> None:
        """One part; its result goes to the store."""
        job, desk = self._facts(name), self._at_desk()
        if job is None:
            return

        def act(control: Control) -> dict[str, Any]:
            if control.cancelled.is_set():
                raise Cancelled("The job was told to end.")
            desk.part(job, number, of, control)
            return {}

        while not self._slots.acquire(timeout=0.2):
            if self._stop.is_set():
                raise PutAside
        try:
            result = self._attempt(job, f"part {number}/{of}", act)
        finally:
            self._slots.release()
        self._store.part_done(name, number, result)

    def wait(self, name: str, of: int) -> dict[str, Any]:
        """Until all parts are done, or one failed: its error, else nothing."""
        while True:
            job = self._facts(name)
            if job is None:
                return {"error": "the job has ended", "kind": "cancelled"}
            done = self._store.parts(name)
            wrong = [result for _, result in sorted(done.items()) if "error" in result]
            if wrong:
                return dict(wrong[0])
            if len(done) >= of:
                return {}
            if job.cancelling:
                return {"error": "The job was told to end.", "kind": "cancelled"}
            if self._stop.wait(POLL_S):
                raise PutAside

    def conclude(self, name: str, of: int) -> dict[str, Any]:
        """Merge and report."""
        job, desk = self._facts(name), self._at_desk()
        if job is None:
            return {"error": "the job has ended", "kind": "cancelled"}
        self._store.begin(name, self.name)

        def act(control: Control) -> dict[str, Any]:
            found = desk.conclude(job, of, control)
            if isinstance(found, str):
                return {"reason": found}
            return {**vars(found), "verdicts": dict(found.verdicts)}

        return self._attempt(job, "merging and reporting", act)

    def end(self, name: str, result: Mapping[str, Any]) -> str:
        """The last step: the job's end is written once, whatever it is."""
        job, desk = self._facts(name), self._at_desk()
        if job is None:
            found = self._store.job(name)
            return found.state.value if found is not None else ""
        state, facts = _end_of(job, result)
        if state is not JobState.DONE:
            facts |= self._spent(job, desk, tell=state is JobState.FAILED)
        if state is JobState.FAILED or (state is JobState.CANCELLED and job.started is not None):
            with self._in_hand(job) as control:
                control.cancelled.clear()  # also of a job that was told to end: this is its end
                desk.failed(job, self._store.payload(name), _error_of(result), control)
                if control.stopping.is_set():
                    raise PutAside
        self._store.finish(name, state, **facts)
        self._store.say(name, "state", state.value)
        took = round(time.time() - job.started, 3) if job.started else None
        self._log("job ends", job=name, repository=job.repository, state=state.value, seconds=took)
        desk.tidy(job)
        return state.value

    def _spent(self, job: Job, desk: Desk, *, tell: bool) -> dict[str, Any]:
        """What a job without a report has cost. ``tell``: its other parts do not know yet that they are to stop. Raises
        PutAside."""
        if tell:
            self._store.note(job.id, cancelling=True)
        with self._in_hand(job) as control:
            spent = desk.spent(job, control)
            if control.stopping.is_set():
                raise PutAside
        if tell:
            self._store.note(job.id, cancelling=False)  # its end is still to be reported
        return dict(zip(("calls", "cost_usd", "counted_usd"), spent, strict=True))

    def _at_desk(self) -> Desk:
        if self._desk is None:  # pragma: no cover - such a process listens to no queue
            raise PutAside
        return self._desk


def parts_queue(provider: str) -> str:
    """The queue of the parts that ask this provider's models."""
    return f"parts-{provider}"


def provider_of(model: str) -> str:
    """Which queue the parts of a session with this executor go to."""
    name = model.partition(":")[0]
    return name if name in PROVIDERS else "other"


def _partition(job: Job) -> str:
    return str(job.repository_id or job.repository.casefold())


def _end_of(job: Job, result: Mapping[str, Any]) -> tuple[JobState, dict[str, Any]]:
    if "error" in result:
        if result.get("kind") == "cancelled":
            # Why was written when it was told to end.
            asked = job.reason in ("", CANCELLED)
            return JobState.CANCELLED if asked else JobState.SUPERSEDED, {"reason": job.reason}
        return JobState.FAILED, {"reason": str(result["error"])}
    if "gate_state" in result:
        return JobState.DONE, dict(result)
    return (JobState.FAILED if result.get("failed") else JobState.NOTHING), {"reason": str(result.get("reason", ""))}


def _error_of(result: Mapping[str, Any]) -> GateError | None:
    if result.get("kind") == "crash":
        return None
    if result.get("kind") == "cancelled":
        return Cancelled(str(result["error"]))
    return GateError(str(result.get("error", "")), remedy=str(result.get("remedy", "")))


def _workflows(works: Works) -> Any:
    """DBOS's registry is made anew with each instance, so the class is too; its name and steps are always the same."""
    from dbos import DBOS, DBOSConfiguredInstance, SetEnqueueOptions, SetWorkflowID

    @DBOS.dbos_class("Judging")
    class Judging(DBOSConfiguredInstance):
        def __init__(self) -> None:
            super().__init__(config_name="gate")

        @DBOS.workflow(name="job")
        def job(self, name: str) -> str:
            planned = self.plan(name)
            if planned.get("over"):
                return "over"
            of = int(planned.get("parts", 0))
            if "error" in planned or not of:
                return self.end(name, planned)
            queue = parts_queue(planned["provider"])
            for number in range(1, of + 1):
                with (
                    SetWorkflowID(f"{name}-{number}-{of}"),
                    SetEnqueueOptions(queue_partition_key=planned["partition"]),
                ):
                    DBOS.enqueue_workflow(queue, self.part, name, number, of)
            waited = self.wait(name, of)
            return self.end(name, waited or self.conclude(name, of))

        @DBOS.workflow(name="part")
        def part(self, name: str, number: int, of: int) -> None:
            self.run_part(name, number, of)

        @DBOS.step(name="plan")
        def plan(self, name: str) -> dict[str, Any]:
            made = works.plan(name)
            facts = works._facts(name)  # noqa: SLF001 - this class is part of that one
            return {**made, "partition": _partition(facts) if facts else ""}

        @DBOS.step(name="run_part")
        def run_part(self, name: str, number: int, of: int) -> None:
            works.part(name, number, of)

        @DBOS.step(name="wait")
        def wait(self, name: str, of: int) -> dict[str, Any]:
            return works.wait(name, of)

        @DBOS.step(name="conclude")
        def conclude(self, name: str, of: int) -> dict[str, Any]:
            return works.conclude(name, of)

        @DBOS.step(name="end")
        def end(self, name: str, result: dict[str, Any]) -> str:
            return works.end(name, result)

    return Judging()


def _host() -> str:
    """This machine, and the space in which its process ids hold. A name alone may be two machines': each would take the
    other's processes for dead. So the kernel's own id goes with it, which is another after each start."""
    space = kernel = ""
    with contextlib.suppress(OSError):
        space = Path("/proc/self/ns/pid").readlink().name
    with contextlib.suppress(OSError):
        kernel = Path("/proc/sys/kernel/random/boot_id").read_text(encoding="ascii").strip()
    return f"{socket.gethostname()}/{kernel}/{space}"[:160]


def _is_alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except OSError:
        return True
    try:  # a child of somebody who does not look after it
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except (OSError, IndexError):
        return True


def _forward(log: Callable[..., None]) -> None:
    """What DBOS finds wrong goes the way of everything else."""

    class Forward(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            log("dbos", level=record.levelname.lower(), text=record.getMessage()[:500])

    logger = logging.getLogger("dbos")
    logger.handlers = [Forward(logging.ERROR)]
    logger.propagate = False
