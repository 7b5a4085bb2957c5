"""Layer 1: every requested run in a sandbox of its own, recorded by the gate, sealed when it ends."""

from __future__ import annotations

import threading
from collections import Counter, deque
from collections.abc import Callable, Collection, Iterable, Sequence
from concurrent.futures import FIRST_EXCEPTION, Future, ThreadPoolExecutor, wait
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from gate.domain.base import FallbackCount
from gate.domain.chat import Role
from gate.domain.evidence import CollectedFile, Event, Metrics, Outcome, RunRecord, Timing, ToolCall
from gate.domain.plan import RunRequest
from gate.domain.sandbox import BoxSpec, Collected
from gate.domain.seeding import SessionSeed
from gate.domain.skill import Skill
from gate.errors import BoxDeadError, Cancelled, McpServerError, ModelError, SandboxError
from gate.evidence.bundle import Bundle
from gate.evidence.events import EventLog, tool_calls
from gate.evidence.redact import Redactor
from gate.execution.arms import (
    Workspace,
    assert_arm,
    contamination,
    search_image,
    skill_files,
    skill_folder,
    workspace_files,
)
from gate.execution.harnesses.run import AgentRun, Program
from gate.execution.looking import LookedInto
from gate.execution.loop import Loop, LoopEnd
from gate.execution.mcp import opened
from gate.llm.ledger import Ledger
from gate.llm.roles import Models
from gate.protocols import Box, ChatModel, Clock, McpReach, ModelGateway, Progress, Sandbox


class Agent(NamedTuple):
    """An agent program and its way to the model."""

    program: Program
    gateway: ModelGateway


ATTEMPTS = 2
"""A run that infrastructure stopped is tried once more, in a fresh sandbox."""
_POLL_S = 0.2


def execute(
    requests: Sequence[RunRequest],
    *,
    session_id: str,
    run_date: str,
    image: str,
    jobs: int,
    sandbox: Sandbox,
    models: Models,
    ledger: Ledger,
    bundle: Bundle,
    redactor: Redactor,
    seed: SessionSeed,
    clock: Clock,
    progress: Progress,
    cancelled: threading.Event,
    agent: Agent | None = None,
    mcp: McpReach | None = None,
    in_order: Collection[str] = (),
    sealed: Callable[[RunRequest, RunRecord], None] = lambda request, record: None,
) -> list[RunRecord]:
    """Run every request and return the records in the order of ``requests``, ``jobs`` sandboxes at a time.

    What takes longest begins first. Runs of the cases ``in_order`` (``case_label``) follow one another. ``sealed`` is called in a worker's thread for each run once its folder is sealed.

    ``agent``: the program that runs the cases instead of the built-in loop. ``mcp``: the way to the real MCP servers that
    cases name, for the loop only. The arms of a pair start one after the other, in an order drawn from the seed. Whatever becomes of a run, it ends as
    a sealed folder: a run that infrastructure stopped is tried once more and then recorded as ``infra_error`` with the
    reasons of both tries.

    Raises Cancelled after every sandbox is gone and every thread has ended; what was under way is recorded as
    ``cancelled``. Raises EvidenceError where a run is in the bundle already, InfrastructureError where the record cannot
    be written (disk): the runs under way are stopped first.
    """
    subjects = _subjects(requests)
    session = _Session(
        session_id=session_id,
        run_date=run_date,
        image=image,
        sandbox=sandbox,
        model=models.of(Role.EXECUTOR) if requests else None,
        ledger=ledger,
        bundle=bundle,
        redactor=redactor,
        clock=clock,
        progress=progress,
        cancelled=cancelled,
        subjects=subjects,
        agent=agent,
        mcp=mcp,
        seed=seed,
        sealed=sealed,
    )
    queue = deque(chains(requests, seed, in_order))
    records: dict[int, RunRecord] = {}
    with ThreadPoolExecutor(max_workers=max(1, min(jobs, len(requests))), thread_name_prefix="run") as pool:
        workers = [pool.submit(_work, session, requests, queue, records) for _ in range(min(jobs, len(requests)))]
        _watch(session, workers)
    for worker in workers:
        worker.result()
    if cancelled.is_set():
        raise Cancelled("The session was cancelled.")
    return [records[index] for index in range(len(requests))]


def start_order(requests: Sequence[RunRequest], seed: SessionSeed) -> list[int]:
    """Indexes of ``requests`` as they start: pair by pair in the order given, the arms of a pair in an order of the seed.

    A pair is what has one skill, case and run number: load and time of day then fall on all its arms alike.
    """
    pairs: dict[tuple[str, str, int], list[int]] = {}
    for index, request in enumerate(requests):
        pairs.setdefault((request.key.slug, request.key.eval_id, request.key.run), []).append(index)
    return [
        index
        for (slug, eval_id, run), indexes in pairs.items()
        for index in seed.shuffled(indexes, "arm-order", slug, eval_id, str(run))
    ]


def chains(requests: Sequence[RunRequest], seed: SessionSeed, in_order: Collection[str] = ()) -> list[list[int]]:
    """Indexes of ``requests`` as one worker takes them: alone, or all of a case that is ``in_order``; the longest first.

    How long a run may take is the number of its turns; the arms of a pair count as one and stay side by side.
    """
    found: dict[object, list[int]] = {}
    weights: Counter[object] = Counter()
    for index in start_order(requests, seed):
        request = requests[index]
        whose = request.key.case if request.key.case in in_order else (request.key.case, request.key.run)
        found.setdefault(whose, []).append(index)
        weights[whose] += request.limits.steps
    heaviest = sorted(found, key=lambda whose: -weights[whose])
    return [
        part
        for whose in heaviest
        for part in ([found[whose]] if whose in in_order else [[one] for one in found[whose]])
    ]


def _subjects(requests: Iterable[RunRequest]) -> dict[str, tuple[Skill, ...]]:
    """By slug, every version of the skill that is known."""
    found: dict[str, dict[str, Skill]] = {}
    for request in requests:
        # What stands in for the skill in an optional arm is no version of it: other arms may well know its text.
        own = (request.skill,) if request.skill and not request.is_bare else ()
        for skill in (*request.subjects, *own):
            found.setdefault(request.key.slug, {})[skill.tree_sha256] = skill
    return {slug: tuple(versions.values()) for slug, versions in found.items()}


@dataclass(frozen=True)
class _Session:
    """What every run of one call needs."""

    session_id: str
    run_date: str
    image: str
    sandbox: Sandbox
    model: ChatModel | None
    ledger: Ledger
    bundle: Bundle
    redactor: Redactor
    clock: Clock
    progress: Progress
    cancelled: threading.Event
    subjects: dict[str, tuple[Skill, ...]]
    seed: SessionSeed
    agent: Agent | None = None
    mcp: McpReach | None = None
    sealed: Callable[[RunRequest, RunRecord], None] = lambda request, record: None
    stopped: threading.Event = field(default_factory=threading.Event)
    """Set where a run failed in a way that ends the session: nothing new starts."""
    searched: dict[str, int] = field(default_factory=dict)
    """Slug -> how many lines of the skill the image was searched for."""
    lock: threading.Lock = field(default_factory=threading.Lock)

    def is_over(self) -> bool:
        return self.cancelled.is_set() or self.stopped.is_set()


def _how(record: RunRecord) -> str:
    """How a run ended, with the number of skills that were counted inside its sandbox."""
    seen = record.metrics.skills_seen
    if seen is None or not record.outcome.agent_caused:
        return record.outcome.value
    return f"{record.outcome.value}, {seen} skill{'s' if seen != 1 else ''} in its sandbox"


def _watch(session: _Session, workers: Sequence[Future[None]]) -> None:
    """Wait for the workers; where the session is told to stop, or one of them fails, kill what runs until all ended."""
    waiting: set[Future[None]] = set(workers)
    try:
        while waiting:
            _, waiting = wait(waiting, timeout=_POLL_S, return_when=FIRST_EXCEPTION)
            if waiting and session.is_over():
                # Again each time: a sandbox may have been in the making when the first call looked.
                session.sandbox.kill_all(session.session_id)
    except BaseException:  # such as KeyboardInterrupt: the pool would wait for runs that nobody stops
        session.stopped.set()
        session.sandbox.kill_all(session.session_id)
        raise


def _work(
    session: _Session, requests: Sequence[RunRequest], queue: deque[list[int]], records: dict[int, RunRecord]
) -> None:
    """One worker: take the next run, or the runs of a case, until there is none, or the session is over."""
    own: deque[int] = deque()
    while not session.is_over():
        if not own:
            try:
                own.extend(queue.popleft())
            except IndexError:
                return
        index = own.popleft()
        request = requests[index]
        try:
            record = _Run(session, request).record()
            session.sealed(request, record)
        except BaseException:
            session.stopped.set()
            raise
        records[index] = record
        with session.lock:
            session.progress.run_done(request.key.label, _how(record))


class _Stopped(NamedTuple):
    """Why an attempt gave no run."""

    outcome: Outcome
    reason: str
    again: bool
    """Whether trying again can help."""


_CANCELLED = _Stopped(Outcome.CANCELLED, "The session was cancelled.", again=False)


class _Ran(NamedTuple):
    """A run of the agent, whatever its outcome, with what could be taken out of its sandbox."""

    outcome: Outcome
    reason: str
    end: LoopEnd
    collected: Collected


class _Run:
    """One requested run: its attempts, and the record of the last one."""

    def __init__(self, session: _Session, request: RunRequest) -> None:
        self._session = session
        self._request = request
        self._subjects = session.subjects.get(request.key.slug, ())
        strips = session.agent.program.harness.strips if session.agent else ()
        self._workspace: Workspace = workspace_files(request.case, self._subjects, strips)
        self._folder = session.bundle.run(request.key)
        self._earlier: list[str] = []

    def record(self) -> RunRecord:
        """Try until there is a run, or no use in trying; what came of it is sealed."""
        while True:
            began, started_at = self._session.clock.monotonic_ms(), self._session.clock.now_iso()
            with self._folder.event_log(self._session.redactor.text, self._session.clock) as log:
                self._log_start(log)
                result = self._attempt(log)
                why = self._why_again(log, result)
                if why is not None and len(self._earlier) + 1 < ATTEMPTS:
                    self._earlier.append(self._session.redactor.text(why))
                    continue
                return self._finish(log, result, began, started_at)

    def _why_again(self, log: EventLog, result: _Ran | _Stopped) -> str | None:
        """Why this attempt is worth another one: infrastructure stopped it, or it saw what its arm must not see."""
        if isinstance(result, _Stopped):
            return result.reason if result.again else None
        return self._contaminated(log.events)

    def _log_start(self, log: EventLog) -> None:
        request, session = self._request, self._session
        log.append(
            "run_started",
            key=request.key.to_json(),
            skill_type=request.skill_type.value,
            skill_tree=request.skill.tree_sha256 if request.skill else None,
            model=self._model.name,
            image=session.image,
            limits=request.limits.to_json(),
            run_date=session.run_date,
            purpose=request.purpose,
            earlier=list(self._earlier),
            stripped=list(self._workspace.stripped),
            # Nothing in a sandbox ever sees it, so nothing there can write a block of the transcript that holds.
            block_key=session.seed.token("transcript-blocks", request.key.label, length=32),
            **({"agent": session.agent.program.facts()} if session.agent else {}),
        )

    @property
    def _model(self) -> ChatModel:
        if self._session.model is None:  # it is there wherever there is a request
            raise ValueError("a run needs a model")
        return self._session.model

    def _attempt(self, log: EventLog) -> _Ran | _Stopped:
        """One sandbox from its making to its end."""
        session = self._session
        spec = BoxSpec(
            session_id=session.session_id,
            label=self._request.key.label,
            image=session.image,
            programs=session.agent.program.volume if session.agent else "",
        )
        result: _Ran | None = None
        if session.is_over():
            return _CANCELLED
        try:
            with session.sandbox.open(spec) as box:
                result = self._inside(box, log)
        except Cancelled:
            return _CANCELLED
        except (SandboxError, ModelError, McpServerError) as error:
            if session.is_over():
                return _CANCELLED
            if result is None:
                again = error.retryable if isinstance(error, ModelError | McpServerError) else True
                return _Stopped(Outcome.INFRA_ERROR, str(error), again=again)
            # The run is over and its files are here; a sandbox that would not go is the reaper's affair.
            with session.lock:
                session.progress.say(f"the sandbox of {self._request.key.label} could not be removed yet")
        if session.is_over() and result.outcome in (Outcome.SANDBOX_DEAD, Outcome.OOM):
            return _CANCELLED  # it was the gate that killed it
        return result

    def _inside(self, box: Box, log: EventLog) -> _Ran:
        skill = self._request.skill
        if skill is not None:
            box.put_skill(skill_files(skill), name=skill_folder(skill))
        box.put_workspace(self._workspace.files)
        facts = box.facts()

        def look() -> dict[str, Any]:
            found = assert_arm(box, skill, self._workspace)
            if self._request.is_bare:
                found["image_lines"] = self._image_searched(box)
            return {**found, "network": facts.network, "runtime": facts.runtime}

        with LookedInto(box, look, lambda found: log.append("arm_checked", **found)) as looked:
            if self._session.agent:
                looked.settle()
                end = self._agent_run(box, log)
            else:
                # While the model thinks about its first answer; the first command waits for it.
                end = self._loop_run(looked, log)
                looked.settle()
        return _taken_out(box, end)

    def _image_searched(self, box: Box) -> int:
        """Once a session and skill: an image does not change between runs."""
        slug, searched = self._request.key.slug, self._session.searched
        if slug not in searched:
            searched[slug] = search_image(box, self._subjects)
        return searched[slug]

    def _loop_run(self, box: Box, log: EventLog) -> LoopEnd:
        with opened(self._request.case.mcp_servers, self._session.mcp, log) as mcp:
            return Loop(
                self._request,
                model=self._model,
                box=box,
                log=log,
                ledger=self._session.ledger,
                clock=self._session.clock,
                cancelled=self._session.is_over,
                mcp=mcp,
            ).run()

    def _agent_run(self, box: Box, log: EventLog) -> LoopEnd:
        session = self._session
        if session.agent is None:
            raise ValueError("there is no agent program")
        with self._folder.gateway_log(session.redactor.text, session.clock) as gateway_log:
            return AgentRun(
                self._request,
                program=session.agent.program,
                gateway=session.agent.gateway,
                box=box,
                log=log,
                gateway_log=gateway_log,
                clock=session.clock,
                cancelled=session.is_over,
            ).run()

    def _finish(self, log: EventLog, result: _Ran | _Stopped, began: int, started_at: str) -> RunRecord:
        """Write what is left, end the log, seal."""
        ran = result if isinstance(result, _Ran) else None
        files: tuple[CollectedFile, ...] = ()
        if ran is not None:
            files = self._keep(ran.collected)
            log.append(
                "collected",
                files=len(files),
                kept=sum(file.kept for file in files),
                refused=list(ran.collected.refused),
            )
        reason = self._reason(result)
        log.append("run_ended", outcome=result.outcome.value, reason=reason)
        log.close()
        events = log.events
        duration_ms = self._session.clock.monotonic_ms() - began
        metrics = _metrics(events, ran.end if ran else None, files, self._request)
        return self._folder.finish(
            purpose=self._request.purpose,
            skill_type=self._request.skill_type,
            outcome=result.outcome,
            reason=str(events[-1].data["reason"]),
            metrics=metrics,
            timing=Timing(
                started_at=started_at,
                duration_ms=duration_ms,
                total_duration_seconds=duration_ms / 1000,
                model_ms=ran.end.model_ms if ran else 0,
                sandbox_ms=ran.end.sandbox_ms if ran else 0,
                total_tokens=metrics.total_tokens,
            ),
            usage=ran.end.usage if ran else None,
            model=(ran.end.model if ran else "") or self._model.name,
            image=self._session.image,
            run_date=self._session.run_date,
            files=files,
            contaminated=self._contaminated(events),
            fallbacks=self._fallbacks(ran, files),
            mcp_expected=bool(self._request.case.mcp_servers),
        )

    def _keep(self, collected: Collected) -> tuple[CollectedFile, ...]:
        executable = {blob.path for blob in collected.files if blob.executable}
        return tuple(
            file.model_copy(update={"executable": file.path in executable})
            for file in self._folder.write_outputs(collected, self._workspace.contents)
        )

    def _reason(self, result: _Ran | _Stopped) -> str:
        """Why the run ended so. Where it is infrastructure, every try's reason is in it."""
        if result.outcome is not Outcome.INFRA_ERROR or not self._earlier:
            return result.reason
        reasons = [*self._earlier, result.reason]
        if len(set(reasons)) == 1:
            return f"{result.reason} (in each of {len(reasons)} tries)"
        return " ".join(f"Try {number}: {reason}" for number, reason in enumerate(reasons, 1))

    def _contaminated(self, events: Sequence[Event]) -> str | None:
        if not self._request.is_bare:
            return None
        return contamination(self._subjects, events, self._request.case, self._request.skill)

    def _fallbacks(self, ran: _Ran | None, files: Sequence[CollectedFile]) -> tuple[FallbackCount, ...]:
        counts = {
            "run_retried": len(self._earlier),
            "fixture_stripped": len(self._workspace.stripped),
            "files_dropped": sum(not file.kept for file in files),
            "files_refused": len(ran.collected.refused) if ran else 0,
            # A baseline whose skill nobody named could not be searched for it.
            "contamination_unchecked": int(self._request.is_bare and not self._subjects),
        }
        if self._session.sandbox.facts().kind != "docker":
            counts["sandbox_other"] = 1
        if self._session.agent is not None:
            counts[f"agent_program {self._session.agent.program.text}"] = 1
        own = [FallbackCount(kind=kind, count=count) for kind, count in counts.items() if count]
        return tuple(sorted((*own, *(ran.end.fallbacks if ran else ())), key=lambda item: (item.kind, item.role)))


_NOTHING = Collected(files=())


def _taken_out(box: Box, end: LoopEnd) -> _Ran:
    """The workspace of a run that ended. Raises SandboxError where the engine failed to give it and the run completed.

    A sandbox that what ran in it has broken is the agent's doing, also where the answer was given before. After any
    other end than a completed one the files are a supplement: the run stays what it is without them.
    """
    try:
        return _Ran(end.outcome, end.reason, end, box.collect())
    except SandboxError as error:
        if end.outcome is not Outcome.COMPLETED:
            return _Ran(end.outcome, f"{end.reason}; its files could not be taken out: {error.message}", end, _NOTHING)
        if isinstance(error, BoxDeadError) and error.agent_caused:
            outcome = Outcome.OOM if error.oom else Outcome.SANDBOX_DEAD
            return _Ran(outcome, f"its files could not be taken out: {error.message}", end, _NOTHING)
        raise


def _metrics(
    events: Sequence[Event], end: LoopEnd | None, files: Sequence[CollectedFile], request: RunRequest
) -> Metrics:
    """metrics.json; what a run without an end used is unknown, never zero."""
    skill = request.skill
    calls: tuple[ToolCall, ...] = tool_calls(events)
    by_tool: dict[str, int] = {}
    for call in calls:
        by_tool[call.tool] = by_tool.get(call.tool, 0) + 1
    steps = [int(event.data["step"]) for event in events if event.kind == "model_reply"]
    opened = tuple(sorted(str(event.data["path"]) for event in events if event.kind == "skill_opened"))
    at = [
        int(event.data["step"])
        for event in events
        if event.kind == "skill_opened" and skill is not None and event.data["path"] == skill.skill_md
    ]
    usage = end.usage if end else None
    return Metrics(
        tool_calls=dict(sorted(by_tool.items())),
        total_tool_calls=len(calls),
        total_steps=max(steps, default=0),
        errors_encountered=sum(call.status != "success" for call in calls),
        files_created=tuple(file.path for file in files if file.fixture == "new"),
        input_tokens=usage.input_tokens if usage else None,
        output_tokens=usage.output_tokens if usage else None,
        total_tokens=usage.input_tokens + usage.output_tokens if usage else None,
        cost_usd=end.cost_usd if end else None,
        activated=skill is not None and skill.skill_md in opened,
        opened=opened,
        exposure="none" if skill is None else request.case.mode,
        skills_seen=next((int(event.data["skills_seen"]) for event in events if event.kind == "arm_checked"), None),
        opened_at_step=next((step for step in at if step), None),
        scripts_run=tuple(sorted(str(event.data["path"]) for event in events if event.kind == "script_run")),
        attempts=sum(event.kind == "attempt" for event in events),
    )
