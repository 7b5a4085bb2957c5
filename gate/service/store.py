"""What the service remembers: one table a kind of thing, frozen values in and out. SQLite, or PostgreSQL for several machines.

Everything that another process must know of after a crash is here; DBOS's own tables (``gate.service.engine``) only say
which step of a job was done. Times are seconds since 1970 (UTC, float). All methods are thread-safe; each is one
transaction. Texts that came from GitHub or a model are kept as they came: whoever shows them escapes them.
"""

from __future__ import annotations

import hashlib
import hmac
import json
import secrets
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path
from typing import Any

import sqlalchemy as sa
import sqlalchemy.orm  # DBOS loads it; half loaded by another thread it breaks a request that comes meanwhile
from sqlalchemy.dialects import postgresql, sqlite
from sqlalchemy.engine import Connection, RowMapping

from gate.domain.report import State
from gate.errors import ConfigurationError

TOKEN_PREFIX = "sgt_"
LEASE_S = 30.0
"""A worker that was not heard of for so long is dead: others take its jobs over."""


class JobState(StrEnum):
    """Where a job is. The last five are ends: nothing changes any more."""

    WAITING = "waiting"
    """Taken; in no worker's hands yet."""
    RUNNING = "running"
    DONE = "done"
    """There is a report: ``gate_state``, ``headline``, ``verdicts`` say what it came to."""
    NOTHING = "nothing"
    """There was nothing to judge; ``reason`` says why."""
    SUPERSEDED = "superseded"
    """The pull request has a newer head, or was closed."""
    CANCELLED = "cancelled"
    """Somebody asked for that."""
    FAILED = "failed"
    """It ended without a report; ``reason`` says why. It is done again when it is asked for again."""

    @property
    def ended(self) -> bool:
        """Whether nothing changes any more."""
        return self not in (JobState.WAITING, JobState.RUNNING)


AGAIN = (JobState.NOTHING, JobState.SUPERSEDED, JobState.CANCELLED, JobState.FAILED)
"""Ends after which the same thing is done again when it is asked for again; so is one whose report is only an error."""


class Trigger(StrEnum):
    """Who asked for a job."""

    WEBHOOK = "webhook"
    APPROVAL = "approval"
    """A writer of the repository said that this head of a fork may be run."""
    API = "api"
    ACTION = "action"
    """The Action of a repository without keys (``service-url``)."""


@dataclass(frozen=True)
class Asked:
    """A job as it is asked for."""

    repository: str
    """``owner/name`` as GitHub writes it."""
    repository_id: int
    """0 where it is not known (an audit by name)."""
    subject: str
    """Equal for two requests that would be judged alike: repository, head and condition. At most 2,000 characters."""
    trigger: Trigger
    event_name: str
    """As GitHub calls it: ``pull_request``, ``workflow_dispatch``, ``push`` …"""
    payload: bytes = b""
    """The event as it came."""
    head_sha: str = ""
    """Empty until it is known: an audit of a branch."""
    number: int | None = None
    """Of the pull request."""
    moved_at: float = 0.0
    """When the pull request last changed, by GitHub's clock; of two heads the later is the newer."""
    inputs: Mapping[str, str] = field(default_factory=dict)
    """Action inputs by their names in action.yml (``mode``, ``paths`` …)."""
    installation: int | None = None
    """Of the App in this repository."""
    approved_by: str = ""
    """Login of whoever let a fork's head be run."""
    asked_by: str = ""
    """Name of the API token, login, or ``job_workflow_ref``; untrusted text."""


@dataclass(frozen=True)
class Job:
    """A job as it stands."""

    id: str
    """Also the id of its DBOS workflow."""
    repository: str
    repository_id: int
    subject: str
    attempt: int
    """1, or more where the same thing was asked for again after it had ended without a report."""
    trigger: Trigger
    event_name: str
    state: JobState
    reason: str
    """A sentence without a full stop; empty where the state says all."""
    head_sha: str
    number: int | None
    installation: int | None
    approved_by: str
    asked_by: str
    inputs: Mapping[str, str]
    created: float
    started: float | None
    ended: float | None
    worker: str
    """Whoever has it, or had it last."""
    takeovers: int
    """How often another worker had to take it over."""
    cancelling: bool
    """Somebody asked for it to end."""
    shards: int
    """Parts that it was cut into; 0 before it is planned."""
    shards_done: int
    session_id: str
    gate_state: str
    """``gate.domain.report.State`` where there is a report, else empty."""
    headline: str
    verdicts: Mapping[str, str]
    """Verdict by path of the skill."""
    calls: int
    """Model calls that were paid."""
    cost_usd: float
    """Known cost; what has no price is not in it."""


class TakenAs(StrEnum):
    """What became of a request."""

    QUEUED = "queued"
    DUPLICATE = "duplicate"
    STALE = "stale"
    """The pull request has a newer head already."""
    FULL = "full"


@dataclass(frozen=True)
class Taken:
    """The answer to a request; ``job``: the one that was made or was there, None where there is none."""

    result: TakenAs
    job: str | None = None
    superseded: tuple[str, ...] = ()
    """Jobs of older heads that were told to end."""


@dataclass(frozen=True)
class LiveEvent:
    """One line of a job that is under way. ``number`` counts up over all jobs: ask for those after the last one seen."""

    number: int
    job: str
    at: float
    kind: str
    """``step`` (planning, shard 1/4, merging, reporting), ``line`` (what the session says) or ``state``."""
    text: str
    """Untrusted."""


@dataclass(frozen=True)
class BundleRow:
    """Where a job's bundle is."""

    job: str
    key: str
    """In the bundle store (``gate.service.bundles``)."""
    sha256: str
    """Of the archive's bytes."""
    size: int
    created: float


@dataclass(frozen=True)
class Token:
    """An API token; its secret is kept as a hash only."""

    id: int
    name: str
    repositories: tuple[str, ...]
    """``owner/name`` in lower case; ``*`` for all."""
    may_write: bool
    """Start and cancel; without: read."""
    created: float
    expires: float | None
    revoked: bool

    def reaches(self, repository: str) -> bool:
        """Whether this repository is in its scope."""
        return "*" in self.repositories or repository.casefold() in self.repositories


@dataclass(frozen=True)
class Worker:
    """A process that does jobs."""

    id: str
    """Also its DBOS executor id."""
    host: str
    pid: int
    started: float
    beat: float
    """When it was last heard of."""
    alive: bool
    draining: bool
    """It ends what it has and takes nothing new."""


@dataclass(frozen=True)
class Budget:
    """What a repository may spend in a calendar month (UTC)."""

    repository_id: int
    month: str
    """``2026-01``."""
    limit_usd: float | None
    """None: the service's default holds."""
    spent_usd: float
    jobs: int


_TABLES_LOCK = 0x5347_4154  # any number that nobody else takes
CANCELLED = "cancelled on request"
_NEWER = "something newer about this pull request came"
_meta = sa.MetaData()
_jobs = sa.Table(
    "gate_jobs",
    _meta,
    sa.Column("id", sa.String(64), primary_key=True),
    sa.Column("repository", sa.String(300), nullable=False),
    sa.Column("repository_id", sa.BigInteger, nullable=False),
    sa.Column("subject", sa.Text, nullable=False),
    sa.Column("attempt", sa.Integer, nullable=False),
    sa.Column("trigger", sa.String(20), nullable=False),
    sa.Column("event_name", sa.String(40), nullable=False),
    sa.Column("state", sa.String(20), nullable=False),
    sa.Column("reason", sa.Text, nullable=False, default=""),
    sa.Column("head_sha", sa.String(64), nullable=False),
    sa.Column("number", sa.BigInteger),
    sa.Column("installation", sa.BigInteger),
    sa.Column("approved_by", sa.String(100), nullable=False, default=""),
    sa.Column("asked_by", sa.Text, nullable=False, default=""),
    sa.Column("inputs", sa.Text, nullable=False, default="{}"),
    sa.Column("payload", sa.LargeBinary, nullable=False),
    sa.Column("created", sa.Double, nullable=False),
    sa.Column("started", sa.Double),
    sa.Column("ended", sa.Double),
    sa.Column("worker", sa.String(200), nullable=False, default=""),
    sa.Column("takeovers", sa.Integer, nullable=False, default=0),
    sa.Column("handed", sa.Boolean, nullable=False, default=False),
    sa.Column("cancelling", sa.Boolean, nullable=False, default=False),
    sa.Column("shards", sa.Integer, nullable=False, default=0),
    sa.Column("shards_done", sa.Integer, nullable=False, default=0),
    sa.Column("session_id", sa.String(64), nullable=False, default=""),
    sa.Column("gate_state", sa.String(20), nullable=False, default=""),
    sa.Column("headline", sa.Text, nullable=False, default=""),
    sa.Column("verdicts", sa.Text, nullable=False, default="{}"),
    sa.Column("calls", sa.BigInteger, nullable=False, default=0),
    sa.Column("cost_usd", sa.Double, nullable=False, default=0.0),
    sa.UniqueConstraint("subject", "attempt"),
    sa.Index("gate_jobs_by_state", "state", "handed"),
    sa.Index("gate_jobs_by_repository", "repository_id", "number", "created"),
    sa.Index("gate_jobs_by_time", "created"),
)
_deliveries = sa.Table(
    "gate_deliveries",
    _meta,
    sa.Column("id", sa.String(100), primary_key=True),
    sa.Column("at", sa.Double, nullable=False),
    sa.Column("job", sa.String(64)),
    sa.Column("result", sa.String(20), nullable=False),
)
_heads = sa.Table(
    "gate_heads",
    _meta,
    sa.Column("repository_id", sa.BigInteger, primary_key=True),
    sa.Column("number", sa.BigInteger, primary_key=True),
    sa.Column("head_sha", sa.String(64), nullable=False),
    sa.Column("moved_at", sa.Double, nullable=False),
)
_events = sa.Table(
    "gate_events",
    _meta,
    sa.Column("number", sa.BigInteger().with_variant(sa.Integer, "sqlite"), primary_key=True, autoincrement=True),
    sa.Column("job", sa.String(64), nullable=False, index=True),
    sa.Column("at", sa.Double, nullable=False),
    sa.Column("kind", sa.String(20), nullable=False),
    sa.Column("text", sa.Text, nullable=False),
    sqlite_autoincrement=True,
)
_bundles = sa.Table(
    "gate_bundles",
    _meta,
    sa.Column("job", sa.String(64), primary_key=True),
    sa.Column("key", sa.Text, nullable=False),
    sa.Column("sha256", sa.String(64), nullable=False),
    sa.Column("size", sa.BigInteger, nullable=False),
    sa.Column("created", sa.Double, nullable=False),
)
_tokens = sa.Table(
    "gate_tokens",
    _meta,
    sa.Column("id", sa.Integer, primary_key=True, autoincrement=True),
    sa.Column("name", sa.String(100), nullable=False),
    sa.Column("hash", sa.String(64), nullable=False, unique=True),
    sa.Column("repositories", sa.Text, nullable=False),
    sa.Column("may_write", sa.Boolean, nullable=False),
    sa.Column("created", sa.Double, nullable=False),
    sa.Column("expires", sa.Double),
    sa.Column("revoked", sa.Boolean, nullable=False, default=False),
)
_parts = sa.Table(
    "gate_parts",
    _meta,
    sa.Column("job", sa.String(64), primary_key=True),
    sa.Column("part", sa.Integer, primary_key=True),
    sa.Column("result", sa.Text, nullable=False),
)
_workers = sa.Table(
    "gate_workers",
    _meta,
    sa.Column("id", sa.String(200), primary_key=True),
    sa.Column("host", sa.String(200), nullable=False),
    sa.Column("pid", sa.Integer, nullable=False),
    sa.Column("started", sa.Double, nullable=False),
    sa.Column("beat", sa.Double, nullable=False),
    sa.Column("alive", sa.Boolean, nullable=False),
    sa.Column("draining", sa.Boolean, nullable=False, default=False),
)
_limits = sa.Table(
    "gate_budget_limits",
    _meta,
    sa.Column("repository_id", sa.BigInteger, primary_key=True),
    sa.Column("limit_usd", sa.Double, nullable=False),
)
_spent = sa.Table(
    "gate_budget_spent",
    _meta,
    sa.Column("repository_id", sa.BigInteger, primary_key=True),
    sa.Column("month", sa.String(7), primary_key=True),
    sa.Column("spent_usd", sa.Double, nullable=False),
    sa.Column("jobs", sa.Integer, nullable=False),
)
_once = sa.Table(
    "gate_once",
    _meta,
    sa.Column("key", sa.String(300), primary_key=True),
    sa.Column("expires", sa.Double, nullable=False),
)


class Store:
    """The tables behind methods. Made by ``open_store``."""

    def __init__(self, engine: sa.Engine, now: Callable[[], float] = time.time) -> None:
        self._engine = engine
        self._writing = engine.execution_options(writes=True, preserve_rowcount=True)
        self._now = now
        self._insert = postgresql.insert if engine.dialect.name == "postgresql" else sqlite.insert

    @property
    def kind(self) -> str:
        """``sqlite`` or ``postgresql``."""
        return self._engine.dialect.name

    def close(self) -> None:
        """Give every connection back."""
        self._engine.dispose()

    def ready(self) -> bool:
        """Whether the database answers."""
        try:
            with self._engine.connect() as db:
                db.execute(sa.select(sa.literal(1)))
        except sa.exc.SQLAlchemyError:
            return False
        return True

    # --- jobs: taking

    def take(self, asked: Asked, delivery: str = "", *, most_waiting: int = 10_000) -> Taken:
        """Make a job of a request, once.

        ``delivery``: GitHub's id of the delivery; the same one is never taken twice unless the job that it led to ended
        without a report. Of two heads of a pull request the one that moved later counts: the other's jobs are told to end,
        and a request for it is ``STALE``. ``most_waiting``: jobs that may wait at a time; beyond that the answer is
        ``FULL`` and nothing is remembered, so that GitHub can deliver it again.
        """
        with self._writing.begin() as db:
            before = self._delivered(db, delivery)
            latest = self._latest(db, asked.subject)
            if latest is not None and (_holds(latest) or (before is not None and before != latest.id)):
                returned = asked.trigger is Trigger.WEBHOOK and before is None and self._came_back(db, asked, latest)
                if not returned:
                    self._note(db, delivery, latest.id, TakenAs.DUPLICATE)
                    return Taken(TakenAs.DUPLICATE, latest.id)
            replayed = before is not None and latest is not None and latest.state is JobState.SUPERSEDED
            if replayed or not self._is_newest(db, asked, replay=before is not None):
                stale = latest.id if latest is not None else self._make_stale(db, asked)
                self._note(db, delivery, stale, TakenAs.STALE)
                return Taken(TakenAs.STALE, stale)
            waiting = db.scalar(sa.select(sa.func.count()).where(_jobs.c.state == JobState.WAITING))
            if (waiting or 0) >= most_waiting:
                # What was said of the head above is no harm: it is the newest.
                return Taken(TakenAs.FULL)
            job = self._make(db, asked, latest.attempt + 1 if latest else 1)
            if job is None:  # another process was faster
                again = self._latest(db, asked.subject)
                return Taken(TakenAs.DUPLICATE, again.id if again else None)
            self._note(db, delivery, job, TakenAs.QUEUED)
            return Taken(TakenAs.QUEUED, job, self._supersede(db, asked, job))

    def _make(self, db: Connection, asked: Asked, attempt: int) -> str | None:
        name = job_id(asked.subject, attempt)
        done = db.execute(
            self._insert(_jobs)
            .values(
                id=name,
                repository=asked.repository,
                repository_id=asked.repository_id,
                subject=asked.subject,
                attempt=attempt,
                trigger=asked.trigger,
                event_name=asked.event_name,
                state=JobState.WAITING,
                head_sha=asked.head_sha,
                number=asked.number,
                installation=asked.installation,
                approved_by=asked.approved_by,
                asked_by=asked.asked_by,
                inputs=json.dumps(dict(asked.inputs)),
                payload=asked.payload,
                created=self._now(),
            )
            .on_conflict_do_nothing()
        )
        return name if done.rowcount == 1 else None

    def _make_stale(self, db: Connection, asked: Asked) -> str | None:
        """The job of a head that was old when it came to be known: it is there to be seen, and has ended."""
        job = self._make(db, asked, 1)
        values = {"state": JobState.SUPERSEDED, "reason": _NEWER, "ended": self._now()}
        db.execute(sa.update(_jobs).where(_jobs.c.id == job).values(values))
        return job

    def _delivered(self, db: Connection, delivery: str) -> str | None:
        """The job that a delivery led to; empty where it led to none, None where it is new."""
        if not delivery:
            return None
        row = db.execute(sa.select(_deliveries.c.job).where(_deliveries.c.id == delivery[:100])).first()
        return None if row is None else row.job or ""

    def _note(self, db: Connection, delivery: str, job: str | None, result: TakenAs) -> None:
        if delivery:
            values = {"id": delivery[:100], "at": self._now(), "job": job, "result": result}
            db.execute(
                self._insert(_deliveries)
                .values(values)
                .on_conflict_do_update(index_elements=["id"], set_={"job": job, "result": result})
            )

    def _latest(self, db: Connection, subject: str) -> Job | None:
        query = _columns().where(_jobs.c.subject == subject).order_by(_jobs.c.attempt.desc()).limit(1)
        row = db.execute(query).mappings().first()
        return _job(row) if row is not None else None

    def _is_newest(self, db: Connection, asked: Asked, *, replay: bool) -> bool:
        """Whether nothing later of this pull request is known; afterwards this is the latest.

        ``replay``: the same delivery again, of a head that is still the latest, counts.
        """
        if asked.number is None or asked.trigger is not Trigger.WEBHOOK:
            return True
        values = {
            "repository_id": asked.repository_id,
            "number": asked.number,
            "head_sha": asked.head_sha,
            "moved_at": asked.moved_at,
        }
        insert = self._insert(_heads).values(values)
        done = db.execute(
            insert.on_conflict_do_update(
                index_elements=["repository_id", "number"],
                set_={"head_sha": insert.excluded.head_sha, "moved_at": insert.excluded.moved_at},
                where=_heads.c.moved_at <= insert.excluded.moved_at,
            )
        )
        if done.rowcount == 1 or not replay:
            return done.rowcount == 1
        known = db.scalar(
            sa.select(_heads.c.head_sha).where(
                _heads.c.repository_id == asked.repository_id, _heads.c.number == asked.number
            )
        )
        return known == asked.head_sha

    def _came_back(self, db: Connection, asked: Asked, latest: Job) -> bool:
        """Whether the pull request had another head since this one was judged, and now has this one again."""
        if latest.state is not JobState.DONE:
            return False
        row = db.execute(
            sa.select(_heads.c.head_sha, _heads.c.moved_at).where(
                _heads.c.repository_id == asked.repository_id, _heads.c.number == asked.number
            )
        ).first()
        return row is not None and row.head_sha != asked.head_sha and row.moved_at < asked.moved_at

    def _supersede(self, db: Connection, asked: Asked, job: str) -> tuple[str, ...]:
        """End the other jobs of the same pull request: what waits at once, what runs by its worker.

        Of the same head too, which was judged under another condition (a draft, another label). An approved run of this
        head stays; an approval ends only what is about its own head.
        """
        if asked.number is None or asked.trigger not in (Trigger.WEBHOOK, Trigger.APPROVAL):
            return ()
        others = (_jobs.c.repository_id == asked.repository_id) & (_jobs.c.number == asked.number) & (_jobs.c.id != job)
        same = _jobs.c.head_sha == asked.head_sha
        if asked.trigger is Trigger.APPROVAL:
            others &= same
        else:
            others &= sa.not_(same & (_jobs.c.trigger == Trigger.APPROVAL))
        return self._end_all(db, others, JobState.SUPERSEDED, _NEWER)

    def _end_all(self, db: Connection, which: sa.ColumnElement[bool], state: JobState, why: str) -> tuple[str, ...]:
        live = which & _jobs.c.state.in_([JobState.WAITING, JobState.RUNNING])
        found = tuple(db.scalars(sa.select(_jobs.c.id).where(live)))
        if found:
            db.execute(
                sa.update(_jobs)
                .where(_jobs.c.id.in_(found), _jobs.c.state == JobState.WAITING)
                .values(state=state, reason=why, ended=self._now())
            )
            db.execute(
                sa.update(_jobs)
                .where(_jobs.c.id.in_(found), _jobs.c.state == JobState.RUNNING)
                .values(cancelling=True, reason=why)
            )
        return found

    def close_pull_request(self, repository_id: int, number: int) -> tuple[str, ...]:
        """End the jobs of a pull request that was closed; returns their ids."""
        with self._writing.begin() as db:
            which = (_jobs.c.repository_id == repository_id) & (_jobs.c.number == number)
            return self._end_all(db, which, JobState.SUPERSEDED, "the pull request was closed")

    def ask_to_cancel(self, job: str, why: str = CANCELLED) -> bool:
        """End one job; whether it had not ended before."""
        with self._writing.begin() as db:
            return bool(self._end_all(db, _jobs.c.id == job, JobState.CANCELLED, why))

    # --- jobs: reading

    def job(self, job: str) -> Job | None:
        """One job."""
        if "\0" in job:  # no id has one, and PostgreSQL would not be asked about it
            return None
        with self._engine.connect() as db:
            row = db.execute(_columns().where(_jobs.c.id == job)).mappings().first()
            return _job(row) if row is not None else None

    def payload(self, job: str) -> bytes:
        """The event that a job was made of. Raises LookupError."""
        with self._engine.connect() as db:
            found = db.scalar(sa.select(_jobs.c.payload).where(_jobs.c.id == job))
        if found is None:
            raise LookupError(job)
        return bytes(found)

    def jobs(
        self,
        *,
        repositories: Iterable[str] | None = None,
        number: int | None = None,
        head_sha: str | None = None,
        states: Iterable[JobState] | None = None,
        before: float | None = None,
        limit: int = 50,
    ) -> list[Job]:
        """The newest first. ``repositories``: ``owner/name`` in any case; None: all. ``before``: made before this time."""
        query = _columns().order_by(_jobs.c.created.desc(), _jobs.c.id).limit(limit)
        if repositories is not None:
            query = query.where(
                sa.func.lower(_jobs.c.repository).in_([name.lower() for name in repositories if "\0" not in name])
            )
        if number is not None:
            query = query.where(_jobs.c.number == number)
        if head_sha is not None:
            query = query.where(_jobs.c.head_sha == head_sha)
        if states is not None:
            query = query.where(_jobs.c.state.in_(list(states)))
        if before is not None:
            query = query.where(_jobs.c.created < before)
        with self._engine.connect() as db:
            return [_job(row) for row in db.execute(query).mappings()]

    def repositories(self) -> list[str]:
        """Every repository that has a job, by name."""
        with self._engine.connect() as db:
            return sorted(db.scalars(sa.select(_jobs.c.repository).distinct()))

    def counts(self) -> dict[JobState, int]:
        """How many jobs are in each state."""
        query = sa.select(_jobs.c.state, sa.func.count()).group_by(_jobs.c.state)
        with self._engine.connect() as db:
            found = {JobState(state): int(count) for state, count in db.execute(query)}
        return {state: found.get(state, 0) for state in JobState}

    # --- jobs: what workers write

    def not_handed(self, limit: int = 500) -> list[Job]:
        """Jobs that wait and were not handed to the engine yet, the oldest first."""
        query = (
            _columns()
            .where(_jobs.c.state == JobState.WAITING, _jobs.c.handed.is_(False))
            .order_by(_jobs.c.created)
            .limit(limit)
        )
        with self._engine.connect() as db:
            return [_job(row) for row in db.execute(query).mappings()]

    def handed(self, job: str) -> None:
        """The engine has it now."""
        with self._writing.begin() as db:
            db.execute(sa.update(_jobs).where(_jobs.c.id == job).values(handed=True))

    def begin(self, job: str, worker: str) -> bool:
        """A worker takes a job in hand, a first time or after another one died. False: it has ended meanwhile."""
        with self._writing.begin() as db:
            changed = db.execute(
                sa.update(_jobs)
                .where(_jobs.c.id == job, _jobs.c.state.in_([JobState.WAITING, JobState.RUNNING]))
                .values(
                    state=JobState.RUNNING,
                    worker=worker,
                    started=sa.func.coalesce(_jobs.c.started, self._now()),
                    takeovers=_jobs.c.takeovers
                    + sa.case((sa.and_(_jobs.c.worker != "", _jobs.c.worker != worker), 1), else_=0),
                )
            )
            return changed.rowcount == 1

    def note(self, job: str, **values: Any) -> None:
        """Facts that a running job found: ``head_sha``, ``shards``, ``session_id``, ``repository_id``, ``number``; and whether
        what of it is at work is to stop (``cancelling``)."""
        allowed = {"head_sha", "shards", "session_id", "repository_id", "number", "cancelling"}
        if not values.keys() <= allowed:
            raise ValueError(f"not to be set here: {sorted(values.keys() - allowed)}")
        with self._writing.begin() as db:
            db.execute(sa.update(_jobs).where(_jobs.c.id == job).values(**values))

    def part_done(self, job: str, part: int, result: Mapping[str, Any]) -> None:
        """One part of a job has ended, once: a second result of the same part is left out."""
        with self._writing.begin() as db:
            done = db.execute(
                self._insert(_parts)
                .values(job=job, part=part, result=json.dumps(dict(result)))
                .on_conflict_do_nothing()
            )
            if done.rowcount == 1:
                db.execute(sa.update(_jobs).where(_jobs.c.id == job).values(shards_done=_jobs.c.shards_done + 1))

    def parts(self, job: str) -> dict[int, Mapping[str, Any]]:
        """Results of the parts that have ended, by their number."""
        query = sa.select(_parts.c.part, _parts.c.result).where(_parts.c.job == job)
        with self._engine.connect() as db:
            return {part: json.loads(result) for part, result in db.execute(query)}

    def finish(
        self,
        job: str,
        state: JobState,
        *,
        reason: str = "",
        gate_state: str = "",
        headline: str = "",
        verdicts: Mapping[str, str] | None = None,
        calls: int = 0,
        cost_usd: float = 0.0,
        counted_usd: float | None = None,
    ) -> bool:
        """A job ends, once. False: it had ended before, and nothing is changed (also no money is counted again).

        ``cost_usd``: what it is known to have cost; ``counted_usd``: what counts against the repository's budget, None: the
        same.
        """
        with self._writing.begin() as db:
            row = db.execute(_columns().where(_jobs.c.id == job)).mappings().first()
            changed = db.execute(
                sa.update(_jobs)
                .where(_jobs.c.id == job, _jobs.c.state.in_([JobState.WAITING, JobState.RUNNING]))
                .values(
                    state=state,
                    reason=_kept(reason) or _jobs.c.reason,
                    ended=self._now(),
                    gate_state=gate_state,
                    headline=_kept(headline),
                    verdicts=json.dumps(dict(verdicts or {})),
                    calls=calls,
                    cost_usd=cost_usd,
                )
            )
            if changed.rowcount != 1 or row is None:
                return False
            self._spend(db, _job(row).repository_id, cost_usd if counted_usd is None else counted_usd)
            return True

    def cancelling(self, jobs: Iterable[str]) -> set[str]:
        """Those of ``jobs`` that were told to end."""
        query = sa.select(_jobs.c.id).where(_jobs.c.id.in_(list(jobs)), _jobs.c.cancelling.is_(True))
        with self._engine.connect() as db:
            return set(db.scalars(query))

    # --- events of a run that is under way

    def say(self, job: str, kind: str, text: str) -> None:
        """Add a line to what can be watched; at most 2,000 characters are kept."""
        with self._writing.begin() as db:
            db.execute(sa.insert(_events).values(job=job, at=self._now(), kind=kind, text=_kept(text[:2000])))

    def events(self, job: str, *, after: int = 0, limit: int = 500) -> list[LiveEvent]:
        """Lines of a job with a number above ``after``, in order."""
        query = (
            sa.select(_events)
            .where(_events.c.job == job, _events.c.number > after)
            .order_by(_events.c.number)
            .limit(limit)
        )
        with self._engine.connect() as db:
            return [LiveEvent(**row) for row in db.execute(query).mappings()]

    # --- bundles

    def keep_bundle(self, bundle: BundleRow) -> None:
        """Remember where a job's bundle is; a later one of the same job takes its place."""
        values = vars(bundle)
        with self._writing.begin() as db:
            db.execute(
                self._insert(_bundles)
                .values(values)
                .on_conflict_do_update(index_elements=["job"], set_={k: v for k, v in values.items() if k != "job"})
            )

    def bundle(self, job: str) -> BundleRow | None:
        """Where a job's bundle is; None: there is none, or it was pruned."""
        with self._engine.connect() as db:
            row = db.execute(sa.select(_bundles).where(_bundles.c.job == job)).mappings().first()
            return BundleRow(**row) if row is not None else None

    # --- API tokens

    def add_token(
        self, name: str, repositories: Sequence[str], *, may_write: bool, expires: float | None = None
    ) -> tuple[Token, str]:
        """Make a token; its secret is returned this once and kept as a SHA-256 only."""
        secret = TOKEN_PREFIX + secrets.token_urlsafe(32)
        with self._writing.begin() as db:
            made = db.execute(
                sa.insert(_tokens).values(
                    name=name,
                    hash=_hashed(secret),
                    repositories=json.dumps(sorted({item.casefold() for item in repositories})),
                    may_write=may_write,
                    created=self._now(),
                    expires=expires,
                )
            )
            key = made.inserted_primary_key
            row = db.execute(sa.select(_tokens).where(_tokens.c.id == (key[0] if key else 0))).mappings().one()
            return _token(row), secret

    def token_of(self, secret: str) -> Token | None:
        """The token with this secret; None where there is none, it was revoked, or its time is over."""
        if not secret.startswith(TOKEN_PREFIX) or len(secret) > 200:
            return None
        digest = _hashed(secret)
        with self._engine.connect() as db:
            row = db.execute(sa.select(_tokens).where(_tokens.c.hash == digest)).mappings().first()
        if row is None or not hmac.compare_digest(row["hash"], digest):
            return None
        token = _token(row)
        over = token.expires is not None and token.expires <= self._now()
        return None if token.revoked or over else token

    def tokens(self) -> list[Token]:
        """All of them, the revoked ones too."""
        with self._engine.connect() as db:
            return [_token(row) for row in db.execute(sa.select(_tokens).order_by(_tokens.c.id)).mappings()]

    def revoke_token(self, token: int) -> bool:
        """Take a token back; whether there was one."""
        with self._writing.begin() as db:
            return db.execute(sa.update(_tokens).where(_tokens.c.id == token).values(revoked=True)).rowcount == 1

    # --- budgets, and what may happen once only

    def budget(self, repository_id: int) -> Budget:
        """What a repository may spend and has spent this month."""
        month = self._month()
        with self._engine.connect() as db:
            limit = db.scalar(sa.select(_limits.c.limit_usd).where(_limits.c.repository_id == repository_id))
            row = db.execute(
                sa.select(_spent.c.spent_usd, _spent.c.jobs).where(
                    _spent.c.repository_id == repository_id, _spent.c.month == month
                )
            ).first()
        return Budget(repository_id, month, limit, row.spent_usd if row else 0.0, row.jobs if row else 0)

    def set_budget(self, repository_id: int, limit_usd: float) -> None:
        """Set what a repository may spend in a month, in US dollars."""
        values = {"repository_id": repository_id, "limit_usd": limit_usd}
        with self._writing.begin() as db:
            db.execute(
                self._insert(_limits)
                .values(values)
                .on_conflict_do_update(index_elements=["repository_id"], set_={"limit_usd": limit_usd})
            )

    def _spend(self, db: Connection, repository_id: int, cost_usd: float) -> None:
        insert = self._insert(_spent).values(
            repository_id=repository_id, month=self._month(), spent_usd=cost_usd, jobs=1
        )
        db.execute(
            insert.on_conflict_do_update(
                index_elements=["repository_id", "month"],
                set_={
                    "spent_usd": _spent.c.spent_usd + insert.excluded.spent_usd,
                    "jobs": _spent.c.jobs + insert.excluded.jobs,
                },
            )
        )

    def _month(self) -> str:
        return time.strftime("%Y-%m", time.gmtime(self._now()))

    def once(self, key: str, expires: float) -> bool:
        """Whether this key (such as the ``jti`` of an OIDC token) is used for the first time.

        Keys are forgotten after ``expires``: whoever gives one must refuse by itself what is older.
        """
        digest = hashlib.sha256(key.encode("utf-8", "surrogatepass")).hexdigest()
        with self._writing.begin() as db:
            done = db.execute(self._insert(_once).values(key=digest, expires=expires).on_conflict_do_nothing())
            return done.rowcount == 1

    # --- workers

    def beat(self, worker: str, *, host: str, pid: int, draining: bool = False) -> bool:
        """A worker lives. False: the others took it for dead and have its jobs; it must stop at once."""
        now = self._now()
        insert = self._insert(_workers).values(
            id=worker, host=host, pid=pid, started=now, beat=now, alive=True, draining=draining
        )
        with self._writing.begin() as db:
            done = db.execute(
                insert.on_conflict_do_update(
                    index_elements=["id"], set_={"beat": now, "draining": draining}, where=_workers.c.alive.is_(True)
                )
            )
            return done.rowcount == 1

    def leave(self, worker: str) -> None:
        """A worker ends in good order."""
        with self._writing.begin() as db:
            db.execute(sa.update(_workers).where(_workers.c.id == worker).values(alive=False))

    def bury(self, lease_s: float = LEASE_S) -> list[str]:
        """Declare dead whoever was not heard of for ``lease_s`` seconds; returns everybody who is dead by now.

        Also those who were dead before: whoever buried them may have died before it took their jobs over.
        """
        with self._writing.begin() as db:
            db.execute(
                sa.update(_workers)
                .where(_workers.c.alive.is_(True), _workers.c.beat < self._now() - lease_s)
                .values(alive=False)
            )
            return list(db.scalars(sa.select(_workers.c.id).where(_workers.c.alive.is_(False))))

    def forget_worker(self, worker: str) -> None:
        """A dead worker has nothing left that somebody would have to take over."""
        with self._writing.begin() as db:
            db.execute(sa.delete(_workers).where(_workers.c.id == worker, _workers.c.alive.is_(False)))

    def workers(self) -> list[Worker]:
        """Who lives, by id."""
        query = sa.select(_workers).where(_workers.c.alive.is_(True)).order_by(_workers.c.id)
        with self._engine.connect() as db:
            return [Worker(**row) for row in db.execute(query).mappings()]

    # --- retention

    def prune(self, older_than: float) -> list[BundleRow]:
        """Forget jobs that ended before this time, their events and bundles, and deliveries and single-use keys as old.

        Returns the bundles whose bytes are now nobody's: the caller removes them from the bundle store.
        """
        with self._writing.begin() as db:
            old = sa.select(_jobs.c.id).where(_jobs.c.ended.is_not(None), _jobs.c.ended < older_than).scalar_subquery()
            rows = [
                BundleRow(**row) for row in db.execute(sa.select(_bundles).where(_bundles.c.job.in_(old))).mappings()
            ]
            db.execute(sa.delete(_events).where(_events.c.job.in_(old)))
            db.execute(sa.delete(_parts).where(_parts.c.job.in_(old)))
            db.execute(sa.delete(_bundles).where(_bundles.c.job.in_(old)))
            db.execute(sa.delete(_jobs).where(_jobs.c.ended.is_not(None), _jobs.c.ended < older_than))
            db.execute(sa.delete(_deliveries).where(_deliveries.c.at < older_than))
            db.execute(sa.delete(_once).where(_once.c.expires < min(older_than, self._now())))
            return rows


def open_store(url: str, now: Callable[[], float] = time.time) -> Store:
    """The store of a database, its tables made where they are missing.

    ``url``: ``sqlite:///FILE`` or ``postgresql://…`` (``DATABASE_URL``). Raises ConfigurationError where that is neither, or
    the database cannot be reached.
    """
    engine = _engine(url)
    try:
        with engine.execution_options(writes=True).begin() as db:
            if engine.dialect.name == "postgresql":  # service and workers may start at the same moment
                db.execute(sa.select(sa.func.pg_advisory_xact_lock(_TABLES_LOCK)))
            _meta.create_all(db)
    except sa.exc.SQLAlchemyError as error:
        cause = getattr(error, "orig", None) or error
        raise ConfigurationError(
            f"The database cannot be used: {str(cause).splitlines()[0] if str(cause) else type(cause).__name__}.",
            remedy="Check DATABASE_URL, and that the database is there.",
        ) from None
    return Store(engine, now)


def database_url(url: str | None, data: Path) -> str:
    """``DATABASE_URL`` as SQLAlchemy takes it; without one, a SQLite file in the data folder. Raises ConfigurationError."""
    if not url:
        return f"sqlite:///{(data / 'service.sqlite').resolve()}"
    for scheme in ("postgresql://", "postgres://", "postgresql+psycopg://"):
        if url.startswith(scheme):
            return "postgresql+psycopg://" + _as_text(url.removeprefix(scheme))
    if url.startswith("sqlite:///"):
        return url
    raise ConfigurationError(
        f'DATABASE_URL begins with "{url.partition(":")[0][:20]}"; postgresql:// or sqlite:/// was expected.'
    )


def _as_text(rest: str) -> str:
    """The rest of an address with the encoding that we speak: of a database that says it has none (SQL_ASCII, as initdb makes
    in the locale C) psycopg would hand over bytes."""
    if "client_encoding=" in rest:
        return rest
    return f"{rest}{'&' if '?' in rest else '?'}client_encoding=utf8"


def _engine(url: str) -> sa.Engine:
    if not url.startswith("sqlite"):
        return sa.create_engine(database_url(url, Path()), pool_pre_ping=True, pool_size=10, max_overflow=20)
    engine = sa.create_engine(url, connect_args={"timeout": 30, "check_same_thread": False})

    @sa.event.listens_for(engine, "connect")
    def settle(connection: Any, record: object) -> None:
        del record
        connection.execute("PRAGMA journal_mode=WAL")
        connection.execute("PRAGMA synchronous=FULL")  # what was answered with 202 outlives the machine's power
        connection.execute("PRAGMA busy_timeout=30000")
        connection.isolation_level = None  # transactions begin below

    @sa.event.listens_for(engine, "begin")
    def begin(connection: Connection) -> None:
        # Writers wait for each other from their first statement on: a read that becomes a write could not.
        writes = connection.get_execution_options().get("writes", False)
        connection.exec_driver_sql("BEGIN IMMEDIATE" if writes else "BEGIN")

    return engine


def job_id(subject: str, attempt: int) -> str:
    """The id of a job, the same for the same request in every process."""
    return hashlib.sha256(f"{subject}\n{attempt}".encode("utf-8", "surrogatepass")).hexdigest()[:32]


def _holds(job: Job) -> bool:
    """Whether a job is the answer to whoever asks for the same again: it goes on, or it came to something. A report that is
    only an error (a provider that was away) is none: it would stay red for ever."""
    return job.state not in AGAIN and not (job.state is JobState.DONE and job.gate_state == State.ERROR)


def _kept(text: str) -> str:
    """Text as every database takes it: PostgreSQL has no NUL, and neither has half a character (a file's name can)."""
    return text.replace("\0", "\N{REPLACEMENT CHARACTER}").encode("utf-8", "replace").decode("utf-8")


def _hashed(secret: str) -> str:
    return hashlib.sha256(secret.encode("utf-8", "surrogatepass")).hexdigest()


_WITHOUT = ("payload", "handed")


def _columns() -> sa.Select[Any]:
    return sa.select(*(column for column in _jobs.c if column.name not in _WITHOUT))


def _job(row: RowMapping) -> Job:
    values = dict(row)
    values["trigger"], values["state"] = Trigger(values["trigger"]), JobState(values["state"])
    values["inputs"], values["verdicts"] = json.loads(values["inputs"]), json.loads(values["verdicts"])
    return Job(**values)


def _token(row: RowMapping) -> Token:
    values = {key: value for key, value in row.items() if key != "hash"}
    return Token(**{**values, "repositories": tuple(json.loads(values["repositories"]))})
