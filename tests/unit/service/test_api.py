"""The REST API over real HTTP: what its description says, who may do what, and that nobody sees another's repository."""

from __future__ import annotations

import itertools
import json
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import jsonschema
import pytest
import schemathesis
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from schemathesis.checks import not_a_server_error
from schemathesis.specs.openapi.checks import (
    content_type_conformance,
    response_schema_conformance,
    status_code_conformance,
)

from gate.service.api import Api, api_routes
from gate.service.app import make_app
from gate.service.openapi import DOCUMENT
from gate.service.run import opened
from gate.service.store import Asked, BundleRow, JobState, Store, Trigger
from tests.unit.service.deliveries import SECRET, Answered, request
from tests.unit.service.desks import listening

AUDITS = "/api/v1/audits"


@dataclass
class Stage:
    """A service that listens, with tokens."""

    store: Store
    port: int
    writer: str
    reader: str
    other: str
    """May write, to another repository."""
    numbers: Iterator[int] = field(default_factory=itertools.count, init=False)

    def ask(self, method: str, path: str, token: str | None = None, body: Any = None, **headers: str) -> Answered:
        given = {"content-type": "application/json", **headers}
        if token is not None:
            given["authorization"] = f"Bearer {token}"
        return request(self.port, method, path, b"" if body is None else json.dumps(body).encode(), given)

    def job(self, repository: str = "acme/skills") -> str:
        """A job that somebody else started."""
        asked = Asked(repository, 1, f"x:{repository}:{next(self.numbers)}", Trigger.WEBHOOK, "pull_request")
        taken = self.store.take(asked)
        assert taken.job is not None
        return taken.job


@pytest.fixture(scope="module")
def here(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stage]:
    store = opened(tmp_path_factory.mktemp("api"), None)
    api = Api(store, frozenset({"acme/skills", "acme/other", "acme/secret"}), lambda key: iter([b"packed"]))
    app = make_app(secret=SECRET, repositories=frozenset({"acme/skills"}), store=store, more=api_routes(api))
    secrets = [
        store.add_token("t", [name], may_write=write)[1]
        for name, write in (("Acme/Skills", True), ("acme/skills", False), ("acme/other", True))
    ]
    with listening(app) as port:
        yield Stage(store, port, *secrets)
    store.close()


def test_an_audit_is_started_seen_and_ended(here: Stage) -> None:
    made = here.ask("POST", AUDITS, here.writer, {"repository": "acme/skills", "mode": "quick", "paths": ["skills/a"]})
    assert (made.code, made.value["state"], made.value["trigger"]) == (202, "waiting", "api")
    path = f"{AUDITS}/{made.value['id']}"
    assert here.ask("GET", path, here.reader).value["id"] == made.value["id"]
    assert json.loads(here.store.payload(made.value["id"])) == {"inputs": {"mode": "quick", "paths": "skills/a"}}
    here.store.say(made.value["id"], "line", "<script>")
    (event,) = here.ask("GET", f"{path}/events", here.reader).value["events"]
    assert event["text"] == "<script>"
    assert here.ask("GET", f"{path}/events?after={event['number']}", here.reader).value == {"events": []}
    assert here.ask("GET", f"{path}/bundle", here.reader).code == 409
    assert here.ask("DELETE", path, here.reader).code == 403
    assert here.ask("DELETE", path, here.writer).value["state"] == "cancelled"
    assert here.ask("DELETE", path, here.writer).code == 409
    assert here.ask("GET", f"{path}/bundle", here.reader).code == 404


def test_the_bundle_of_a_job_that_is_done_comes_as_it_is_kept(here: Stage) -> None:
    job = here.job()
    here.store.finish(job, JobState.DONE, gate_state="success")
    here.store.keep_bundle(BundleRow(job, job, "0" * 64, 6, 0.0))
    assert here.ask("GET", f"{AUDITS}/{job}/bundle", here.reader).code == 200
    assert here.ask("GET", f"{AUDITS}/{job}/bundle", here.other).code == 404


def test_the_head_of_a_pull_request_is_started_with_its_commit_only(here: Stage) -> None:
    body = {"repository": "acme/skills", "pull_request": 7}
    assert here.ask("POST", AUDITS, here.writer, body).code == 422
    made = here.ask("POST", AUDITS, here.writer, {**body, "sha": "a" * 40})
    assert (made.code, made.value["head_sha"], made.value["pull_request"]) == (202, "a" * 40, 7)


def test_the_same_key_is_the_same_audit(here: Stage) -> None:
    body = {"repository": "acme/skills", "key": "nightly-7"}
    first, second = (here.ask("POST", AUDITS, here.writer, body).value["id"] for _ in range(2))
    assert first == second
    assert here.ask("POST", AUDITS, here.writer, {**body, "key": "nightly-8"}).value["id"] != first


@pytest.mark.parametrize("method", ["GET", "POST", "DELETE"])
@pytest.mark.parametrize("token", [None, "", "sgt_wrong", "nonsense"])
def test_nobody_without_a_token_reads_or_writes(here: Stage, method: str, token: str | None) -> None:
    job = here.job()
    paths = [AUDITS] if method == "POST" else [f"{AUDITS}/{job}"] if method == "DELETE" else [
        AUDITS, f"{AUDITS}/{job}", f"{AUDITS}/{job}/events", f"{AUDITS}/{job}/bundle"
    ]  # fmt: skip
    before = len(here.store.jobs(limit=1000))
    for path in paths:
        assert here.ask(method, path, token, {"repository": "acme/skills"} if method == "POST" else None).code == 401
    assert len(here.store.jobs(limit=1000)) == before
    job_now = here.store.job(job)
    assert job_now is not None
    assert job_now.state is JobState.WAITING


def test_a_token_that_was_revoked_or_is_over_holds_no_more(here: Stage) -> None:
    token, secret = here.store.add_token("short", ["*"], may_write=True)
    assert here.ask("GET", AUDITS, secret).code == 200
    assert here.store.revoke_token(token.id)
    assert here.ask("GET", AUDITS, secret).code == 401
    _, over = here.store.add_token("over", ["*"], may_write=True, expires=1.0)
    assert here.ask("GET", AUDITS, over).code == 401


def test_a_token_that_only_reads_starts_nothing(here: Stage) -> None:
    before = len(here.store.jobs(limit=1000))
    assert here.ask("POST", AUDITS, here.reader, {"repository": "acme/skills"}).code == 403
    assert here.ask("POST", AUDITS, here.other, {"repository": "acme/skills"}).code == 403
    _, everywhere = here.store.add_token("all", ["*"], may_write=True)
    assert here.ask("POST", AUDITS, everywhere, {"repository": "acme/unknown"}).code == 403
    assert len(here.store.jobs(limit=1000)) == before


def test_what_lies_outside_of_a_scope_is_not_there(here: Stage) -> None:
    hidden = here.job("acme/secret")
    here.job("acme/skills")
    for path in (f"{AUDITS}/{hidden}", f"{AUDITS}/{hidden}/events", f"{AUDITS}/{hidden}/bundle"):
        assert here.ask("GET", path, here.writer) == here.ask("GET", path.replace(hidden, "0" * 32), here.writer)
    assert here.ask("DELETE", f"{AUDITS}/{hidden}", here.writer).code == 404
    assert here.ask("GET", f"{AUDITS}?repository=acme/secret", here.writer).code == 404
    listed = here.ask("GET", f"{AUDITS}?limit=200", here.writer).value["audits"]
    assert {job["repository"].lower() for job in listed} == {"acme/skills"}


@pytest.mark.parametrize(
    ("body", "code"),
    [
        ({}, 422),
        ([], 400),
        ({"repository": "acme"}, 422),
        ({"repository": "../skills"}, 422),
        ({"repository": "acme/skills", "extra": 1}, 422),
        ({"repository": "acme/skills", "mode": "loose"}, 422),
        ({"repository": "acme/skills", "ref": "--upload-pack=x"}, 422),
        ({"repository": "acme/skills", "ref": "refs/heads/-x"}, 422),
        ({"repository": "acme/skills", "ref": "refs/heads/a..b"}, 422),
        ({"repository": "acme/skills", "ref": "refs/heads/a\ud800"}, 422),
        ({"repository": "acme/skills", "ref": "refs/heads/" + "a" * 250}, 422),
        ({"repository": "acme/skills", "ref": "refs/pull/1/head"}, 422),
        ({"repository": "acme/skills", "paths": ["-x"]}, 422),
        ({"repository": "acme/skills", "pull_request": True, "sha": "a" * 40}, 422),
        ({"repository": "acme/skills", "pull_request": 1, "sha": "abc"}, 422),
    ],
)
def test_a_body_that_is_not_as_described_is_refused(here: Stage, body: object, code: int) -> None:
    assert here.ask("POST", AUDITS, here.writer, body).code == code


@pytest.mark.parametrize("ref", ["refs/heads/release/1.2", "refs/tags/v1.2.3", "refs/heads/größe_1+x"])
def test_every_name_of_a_branch_or_a_tag_is_taken(here: Stage, ref: str) -> None:
    answer = here.ask("POST", AUDITS, here.writer, {"repository": "acme/skills", "ref": ref})
    assert answer.code == 202
    assert json.loads(here.store.payload(answer.value["id"])) == {"inputs": {"ref": ref}}


def test_a_body_is_json_and_small(here: Stage) -> None:
    assert (
        here.ask("POST", AUDITS, here.writer, {"repository": "acme/skills"}, **{"content-type": "text/plain"}).code
        == 415
    )
    assert here.ask("POST", AUDITS, here.writer, {"repository": "x" * 70_000}).code == 413


def test_the_description_is_served_and_is_one(here: Stage) -> None:
    served = request(here.port, "GET", "/openapi.json").value
    assert served == json.loads(json.dumps(DOCUMENT))
    for schema in served["components"]["schemas"].values():
        jsonschema.Draft202012Validator.check_schema(schema)


@pytest.mark.parametrize(
    "operation", ["startAudit", "listAudits", "showAudit", "cancelAudit", "auditEvents", "auditBundle"]
)
def test_whatever_the_description_allows_is_answered_as_described(here: Stage, operation: str) -> None:
    """0 server errors, and each answer is one that the description names, in its shape."""
    loaded = schemathesis.openapi.from_dict(json.loads(json.dumps(DOCUMENT)))
    loaded.config.update(base_url=f"http://127.0.0.1:{here.port}")
    found = loaded.find_operation_by_id(operation)
    modes = [schemathesis.GenerationMode.POSITIVE, schemathesis.GenerationMode.NEGATIVE]
    cases = st.one_of(*(found.as_strategy(generation_mode=mode) for mode in modes))
    answered: Counter[int] = Counter()

    @settings(
        max_examples=40, deadline=None, database=None, phases=[Phase.generate], suppress_health_check=list(HealthCheck)
    )
    @given(case=cases, real=st.booleans())
    def ask(case: Any, real: bool) -> None:
        if real and case.path_parameters:
            case.path_parameters["id"] = here.job()
        if real and isinstance(case.body, dict) and "repository" in case.body:
            case.body["repository"] = "acme/skills"
        answer = case.call(headers={"Authorization": f"Bearer {here.writer}"})
        answered[answer.status_code] += 1
        case.validate_response(
            answer,
            checks=[
                not_a_server_error,
                status_code_conformance,
                content_type_conformance,
                response_schema_conformance,
            ],
        )

    ask()
    assert sum(answered.values()) >= 40
    assert answered[200] + answered[202] + answered[409] > 0, answered


@settings(max_examples=60, deadline=None, suppress_health_check=list(HealthCheck))
@given(method=st.sampled_from(["GET", "POST", "PUT", "PATCH", "DELETE"]), tail=st.text("abc0/._%?=&-", max_size=20))
def test_no_odd_address_or_method_writes_without_a_token(here: Stage, method: str, tail: str) -> None:
    before = len(here.store.jobs(limit=5000))
    code = here.ask(method, f"{AUDITS}{tail}", None, {"repository": "acme/skills"}).code
    assert 300 <= code < 500
    assert len(here.store.jobs(limit=5000)) == before


def test_tokens_are_kept_as_hashes_only(here: Stage, tmp_path: Path) -> None:
    store = opened(tmp_path, None)
    _, secret = store.add_token("t", ["*"], may_write=True)
    store.close()
    kept = b"".join(path.read_bytes() for path in tmp_path.iterdir())
    assert secret.encode() not in kept
