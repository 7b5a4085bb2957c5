from __future__ import annotations

import urllib.error
import urllib.request
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from prometheus_client.parser import text_string_to_metric_families
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response
from starlette.routing import Route

from gate.domain.base import FallbackCount
from gate.domain.report import ModelUse
from gate.service.metrics import CountAnswers, Metrics, metrics_routes
from gate.service.store import Asked, JobState, Store, Trigger, open_store
from tests.asgi import served
from tests.builders_report import sample_report as report

SECRET_WORDS = ("acme", "octocat", "claude", "run 31415", "skills/")


class Clock:
    def __init__(self) -> None:
        self.at = 1000.0

    def __call__(self) -> float:
        return self.at


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def store(tmp_path: Path, clock: Clock) -> Iterator[Store]:
    found = open_store(f"sqlite:///{tmp_path / 'x.sqlite'}", clock)
    yield found
    found.close()


@pytest.fixture
def metrics(store: Store, clock: Clock) -> Metrics:
    return Metrics(store, now=clock)


def _take(store: Store, name: str, trigger: Trigger = Trigger.WEBHOOK) -> str:
    asked = Asked("acme/skills", 1, name, trigger, "pull_request", head_sha=name, asked_by="run 31415")
    job = store.take(asked).job
    assert job is not None
    return job


def values(text: bytes) -> dict[str, float]:
    """Every sample as ``name{label=value}``."""
    found = {}
    for family in text_string_to_metric_families(text.decode()):
        for sample in family.samples:
            labels = ",".join(f"{key}={value}" for key, value in sorted(sample.labels.items()))
            found[f"{sample.name}{{{labels}}}"] = sample.value
    return found


def test_gauges_are_what_the_store_says_now(store: Store, metrics: Metrics, clock: Clock) -> None:
    first = _take(store, "a")
    clock.at += 20
    _take(store, "b", Trigger.ACTION)
    store.begin(first, "w")
    store.beat("w", host="h", pid=1)
    clock.at += 5
    found = values(metrics.text())
    assert found["skill_gate_database_up{}"] == 1
    assert found["skill_gate_jobs{state=running}"] == 1
    assert found["skill_gate_jobs{state=waiting}"] == 1
    assert found["skill_gate_jobs{state=done}"] == 0
    assert found["skill_gate_queue_length{trigger=action}"] == 1
    assert found["skill_gate_queue_length{trigger=webhook}"] == 0
    assert found["skill_gate_queue_oldest_seconds{}"] == 5
    assert found["skill_gate_workers{draining=false}"] == 1


def test_a_job_that_ended_is_counted_with_what_it_took(store: Store, clock: Clock) -> None:
    metrics = Metrics(store, lambda job: found, now=clock)
    name = _take(store, "a")
    clock.at += 7
    store.begin(name, "w")
    clock.at += 100
    store.finish(name, JobState.DONE, gate_state="success")
    job = store.job(name)
    assert job is not None
    use = ModelUse(
        role="grader", model="anthropic:claude-sonnet-4-5", calls=10, failed_calls=3, input_tokens=None,
        output_tokens=None, cost_usd=None, known_input_tokens=500, known_output_tokens=50, known_cost_usd=0.25,
    )  # fmt: skip
    found = report().model_copy(
        update={
            "usage": (use, use.model_copy(update={"role": "a role of nobody's"})),
            "fallbacks": (FallbackCount(kind="provider_retry", role="grader", count=3),),
        }
    )
    metrics.job_ended(replace(job, state=JobState.FAILED, started=None, gate_state=""))
    read = values(metrics.text())
    assert read["skill_gate_jobs_ended_total{gate_state=success,state=done,trigger=webhook}"] == 1
    assert read["skill_gate_jobs_ended_total{gate_state=none,state=failed,trigger=webhook}"] == 1
    assert read["skill_gate_job_wait_seconds_sum{trigger=webhook}"] == 7
    assert read["skill_gate_job_duration_seconds_sum{state=done,trigger=webhook}"] == 100
    assert read["skill_gate_job_duration_seconds_count{state=done,trigger=webhook}"] == 1
    assert read["skill_gate_model_calls_total{failed=false,role=grader}"] == 7
    assert read["skill_gate_model_calls_total{failed=true,role=grader}"] == 3
    assert read["skill_gate_model_tokens_total{direction=input,role=grader}"] == 500
    assert read["skill_gate_model_cost_usd_total{role=other}"] == 0.25
    assert read["skill_gate_model_retries_total{role=grader}"] == 3


def test_no_label_says_who_uses_the_service_for_what(store: Store, metrics: Metrics) -> None:
    job = store.job(_take(store, "a"))
    assert job is not None
    metrics.job_ended(job, report())
    metrics.webhook("a made up outcome of acme")
    metrics.answered("/badge/{owner}/{name}.svg", 200)
    text = metrics.text().decode()
    assert not [word for word in SECRET_WORDS if word in text]
    assert values(metrics.text())["skill_gate_webhooks_total{outcome=other}"] == 1


def test_a_database_that_is_gone_is_a_figure_and_no_error(
    metrics: Metrics, store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    from sqlalchemy.exc import OperationalError

    def gone() -> None:
        raise OperationalError("SELECT", {}, Exception("gone"))

    monkeypatch.setattr(store, "counts", gone)
    found = values(metrics.text())
    assert found["skill_gate_database_up{}"] == 0
    assert "skill_gate_queue_oldest_seconds{}" not in found


def _get(url: str, token: str = "") -> tuple[int, bytes]:
    request = urllib.request.Request(url, headers={"Authorization": f"Bearer {token}"} if token else {})
    try:
        with urllib.request.urlopen(request, timeout=30) as answer:
            return answer.status, answer.read()
    except urllib.error.HTTPError as error:
        return error.code, error.read()


def test_answers_are_counted_by_pattern_and_metrics_can_be_kept_from_strangers(metrics: Metrics) -> None:
    def busy(request: Request) -> Response:
        return PlainTextResponse(f"slowly, {request.path_params['who']}", status_code=429)

    app = Starlette(routes=[*metrics_routes(metrics, "a-token"), Route("/of/{who}", busy)])
    counted = CountAnswers(app, metrics)
    with served(counted) as url:
        assert _get(f"{url}/of/acme")[0] == 429
        assert _get(f"{url}/of/octocat")[0] == 429
        assert _get(f"{url}/acme")[0] == 404
        for wrong in ("", "another", "a-token2"):
            assert _get(f"{url}/metrics", wrong)[0] == 401
        code, text = _get(f"{url}/metrics", "a-token")
    assert code == 200
    found = values(text)
    assert found["skill_gate_http_answers_total{code=429,route=/of/{who}}"] == 2
    assert found["skill_gate_http_answers_total{code=404,route=none}"] == 1
    assert found["skill_gate_http_answers_total{code=401,route=/metrics}"] == 3
    assert not [word for word in SECRET_WORDS if word.encode() in text]


def test_without_a_token_everybody_may_read(metrics: Metrics) -> None:
    with served(Starlette(routes=metrics_routes(metrics, None))) as url:
        assert _get(f"{url}/metrics")[0] == 200


def test_jobs_are_counted_once_whoever_ended_them(store: Store, clock: Clock) -> None:
    before = _take(store, "before")
    store.finish(before, JobState.CANCELLED)
    clock.at += 1
    asked: list[str] = []
    metrics = Metrics(store, lambda job: asked.append(job.id), now=clock)
    done, failed = _take(store, "a"), _take(store, "b")
    store.begin(done, "another machine")
    store.finish(done, JobState.DONE, gate_state="success")
    metrics.text()
    found = values(metrics.text())
    assert found["skill_gate_jobs_ended_total{gate_state=success,state=done,trigger=webhook}"] == 1
    assert not any("cancelled" in name and "_total{" in name for name in found)
    store.finish(failed, JobState.FAILED)
    found = values(metrics.text())
    assert found["skill_gate_jobs_ended_total{gate_state=none,state=failed,trigger=webhook}"] == 1
    assert found["skill_gate_webhooks_total{outcome=queued}"] == 0
    assert asked == [done]
