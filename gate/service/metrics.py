"""What Prometheus is told: counters of this process, and gauges read from the store when somebody asks.

Labels are words of ours from short lists (states, outcomes, roles, routes). No repository, login, token or model name is
one: whoever may read figures may not read who uses the service for what.
"""

from __future__ import annotations

import hmac
import threading
import time
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Iterable, MutableMapping
from typing import TYPE_CHECKING, Any

from gate.domain.chat import Role
from gate.domain.report import GateReport
from gate.service.store import Job, JobState, Store, Trigger

if TYPE_CHECKING:
    from prometheus_client import CollectorRegistry
    from prometheus_client.metrics_core import Metric
    from starlette.applications import Starlette
    from starlette.requests import Request
    from starlette.responses import Response
    from starlette.routing import BaseRoute

Scope = MutableMapping[str, Any]
Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]

WEBHOOK_OUTCOMES = ("queued", "duplicate", "stale", "full", "stopping", "ignored", "refused", "closed")
OTHER = "other"
LOOKED_THROUGH = 1000
_SECONDS = (0.5, 1, 2, 5, 10, 30, 60, 120, 300, 600, 1200, 1800, 3600, 7200, 14400)
_ROLES = frozenset(role.value for role in Role)


class Metrics:
    """The figures of a service. Thread-safe.

    Jobs that ended since this began are counted whenever somebody asks, whichever worker ended them; ``report_of`` has the
    report of one, for what its models used.
    """

    def __init__(
        self,
        store: Store,
        report_of: Callable[[Job], GateReport | None] = lambda job: None,
        *,
        now: Callable[[], float] = time.time,
    ) -> None:
        from prometheus_client import CollectorRegistry, Counter, Histogram

        self.registry: CollectorRegistry = CollectorRegistry()
        self._store = store
        self._report_of = report_of
        self._now = now
        self._began = now()
        self._counted: OrderedDict[str, None] = OrderedDict()
        self._lock = threading.Lock()

        def counter(name: str, text: str, *labels: str) -> Counter:
            return Counter(f"skill_gate_{name}", text, labels, registry=self.registry)

        def seconds(name: str, text: str, *labels: str) -> Histogram:
            return Histogram(f"skill_gate_{name}_seconds", text, labels, buckets=_SECONDS, registry=self.registry)

        self._webhooks = counter("webhooks", "Deliveries of GitHub's by what became of them", "outcome")
        self._answers = counter(
            "http_answers", "Answers by address and status code; 429 are those over a limit", "route", "code"
        )
        self._handovers = counter(
            "handovers", "Work handed over by keyless repositories, by the rule that decided", "rule"
        )
        self._ended = counter(
            "jobs_ended",
            "Jobs that ended, by trigger, state and the gate's own state",
            "trigger",
            "state",
            "gate_state",
        )
        self._wait = seconds("job_wait", "From the request to the first run", "trigger")
        self._duration = seconds("job_duration", "From the first run to the end", "trigger", "state")
        self._calls = counter("model_calls", "Model calls by role and whether they failed", "role", "failed")
        self._tokens = counter("model_tokens", "Tokens that are known of, by role and direction", "role", "direction")
        self._cost = counter("model_cost_usd", "Known cost in US dollars, by role", "role")
        self._retries = counter(
            "model_retries", "Requests that a provider refused for being busy or over its limit (429, 5xx)", "role"
        )
        for outcome in WEBHOOK_OUTCOMES:
            self._webhooks.labels(outcome)
        self.registry.register(_Gauges(self))

    def webhook(self, outcome: str) -> None:
        """A delivery was answered. ``outcome``: of ``WEBHOOK_OUTCOMES``."""
        self._webhooks.labels(outcome if outcome in WEBHOOK_OUTCOMES else OTHER).inc()

    def handover(self, rule: str) -> None:
        """A hand-over was answered: ``taken``, or the rule that turned it away."""
        self._handovers.labels(rule).inc()

    def answered(self, route: str, code: int) -> None:
        """An answer was sent. ``route``: the pattern of the address, never the address itself."""
        self._answers.labels(route, str(code)).inc()

    def job_ended(self, job: Job, report: GateReport | None = None) -> None:
        """A job ended, as it stands then."""
        self._ended.labels(job.trigger.value, job.state.value, job.gate_state or "none").inc()
        if job.started is not None:
            self._wait.labels(job.trigger.value).observe(max(0.0, job.started - job.created))
            if job.ended is not None:
                self._duration.labels(job.trigger.value, job.state.value).observe(max(0.0, job.ended - job.started))
        if report is None:
            return
        for use in report.usage:
            role = use.role if use.role in _ROLES else OTHER
            self._calls.labels(role, "false").inc(max(0, use.calls - use.failed_calls))
            self._calls.labels(role, "true").inc(use.failed_calls)
            self._tokens.labels(role, "input").inc(use.known_input_tokens)
            self._tokens.labels(role, "output").inc(use.known_output_tokens)
            self._cost.labels(role).inc(use.known_cost_usd)
        for fallback in report.fallbacks:
            if fallback.kind == "provider_retry":
                self._retries.labels(fallback.role if fallback.role in _ROLES else OTHER).inc(fallback.count)

    def text(self) -> bytes:
        """Everything in Prometheus' text format."""
        from prometheus_client import generate_latest

        self.catch_up()
        return generate_latest(self.registry)

    def catch_up(self) -> None:
        """Count the jobs that ended since the last time, of the ``LOOKED_THROUGH`` newest."""
        from sqlalchemy.exc import SQLAlchemyError

        ended = [state for state in JobState if state.ended]
        with self._lock:
            try:
                found = self._store.jobs(states=ended, limit=LOOKED_THROUGH)
            except SQLAlchemyError:
                return
            for job in found:
                if job.ended is None or job.ended < self._began or job.id in self._counted:
                    continue
                self._counted[job.id] = None
                self.job_ended(job, self._report_of(job) if job.state is JobState.DONE else None)
            while len(self._counted) > 2 * LOOKED_THROUGH:
                self._counted.popitem(last=False)

    def gauges(self) -> Iterable[Metric]:
        """What the store says now; without a database that answers, only that it does not."""
        from prometheus_client.core import GaugeMetricFamily
        from sqlalchemy.exc import SQLAlchemyError

        store = self._store
        up = GaugeMetricFamily("skill_gate_database_up", "Whether the database answers (1) or not (0)")
        try:
            counts = store.counts()
            waiting = store.jobs(states=[JobState.WAITING], limit=1000)
            workers = store.workers()
        except SQLAlchemyError:
            up.add_metric([], 0)
            yield up
            return
        up.add_metric([], 1)
        yield up
        jobs = GaugeMetricFamily("skill_gate_jobs", "Jobs that are remembered, by state", labels=["state"])
        for state, count in counts.items():
            jobs.add_metric([state.value], count)
        yield jobs
        queue = GaugeMetricFamily("skill_gate_queue_length", "Jobs that wait for a worker", labels=["trigger"])
        for trigger in Trigger:
            queue.add_metric([trigger.value], sum(1 for job in waiting if job.trigger is trigger))
        yield queue
        oldest = GaugeMetricFamily("skill_gate_queue_oldest_seconds", "How long the oldest of them has waited")
        oldest.add_metric([], max((self._now() - job.created for job in waiting), default=0.0))
        yield oldest
        alive = GaugeMetricFamily("skill_gate_workers", "Processes that do jobs", labels=["draining"])
        for draining in (False, True):
            alive.add_metric([str(draining).lower()], sum(1 for worker in workers if worker.draining is draining))
        yield alive


class _Gauges:
    """Read when they are asked for."""

    def __init__(self, metrics: Metrics) -> None:
        self._metrics = metrics

    def collect(self) -> Iterable[Metric]:
        """For the registry."""
        return self._metrics.gauges()

    def describe(self) -> Iterable[Metric]:
        """Nothing: asking the store while it is being registered would be too early."""
        return []


def metrics_routes(metrics: Metrics, token: str | None) -> list[BaseRoute]:
    """``GET /metrics``; with a token only for whoever brings it (``Authorization: Bearer``)."""
    from starlette.responses import PlainTextResponse, Response
    from starlette.routing import Route

    def show(request: Request) -> Response:
        if token is not None and not _is(request.headers.get("authorization", ""), token):
            return PlainTextResponse(
                "the token of /metrics was expected\n", status_code=401, headers={"WWW-Authenticate": "Bearer"}
            )
        return Response(metrics.text(), media_type="text/plain; version=0.0.4; charset=utf-8")

    return [Route("/metrics", show, methods=["GET"])]


def _is(header: str, token: str) -> bool:
    wanted = f"Bearer {token}".encode()
    return hmac.compare_digest(header.encode("utf-8", "surrogatepass"), wanted)


class CountAnswers:
    """A layer around the application that counts answers by the pattern of their address."""

    def __init__(self, app: Starlette, metrics: Metrics) -> None:
        self._app = app
        self._metrics = metrics
        self._paths: dict[object, str] = {}

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """As ASGI has it."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return

        async def counted(message: Message) -> None:
            if message["type"] == "http.response.start":
                self._metrics.answered(self._pattern(scope.get("endpoint")), int(message["status"]))
            await send(message)

        await self._app(scope, receive, counted)

    def _pattern(self, endpoint: object) -> str:
        """The address of an endpoint as it was declared; ``none`` where no address was met."""
        if endpoint is not None and endpoint not in self._paths:
            found = ((getattr(route, "endpoint", None), getattr(route, "path", "")) for route in self._app.routes)
            self._paths.update({one: path for one, path in found if one is not None})
        return self._paths.get(endpoint, "none")
