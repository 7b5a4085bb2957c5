from __future__ import annotations

import json
import urllib.error
import urllib.parse
import urllib.request
import xml.etree.ElementTree as ET
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from starlette.applications import Starlette

from gate.service.api import _asked
from gate.service.badge import Badges, badge_routes
from gate.service.store import Asked, JobState, Store, Token, Trigger, open_store
from tests.asgi import served


class Clock:
    def __init__(self) -> None:
        self.at = 1000.0

    def __call__(self) -> float:
        self.at += 1
        return self.at


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    found = open_store(f"sqlite:///{tmp_path / 'x.sqlite'}", Clock())
    yield found
    found.close()


@pytest.fixture
def url(store: Store) -> Iterator[str]:
    with served(Starlette(routes=badge_routes(Badges(store, frozenset({"acme/skills"}))))) as found:
        yield found


def _judged(
    store: Store, name: str, verdicts: dict[str, str], state: str = "success", *, number: int | None = None, ref: str = "",
    repository: str = "acme/skills",
) -> None:  # fmt: skip
    inputs = {"ref": ref} if ref else {}
    asked = Asked(repository, 1, name, Trigger.API, "workflow_dispatch", number=number, inputs=inputs)
    job = store.take(asked).job
    assert job is not None
    store.begin(job, "w")
    store.finish(job, JobState.DONE, gate_state=state, verdicts=verdicts)


def _get(url: str, path: str) -> tuple[int, bytes]:
    try:
        with urllib.request.urlopen(f"{url}/badge/{urllib.parse.quote(path)}", timeout=30) as answer:
            return answer.status, answer.read()
    except urllib.error.HTTPError as error:
        return error.code, error.read()


def _message(url: str, path: str) -> tuple[str, str]:
    code, body = _get(url, path)
    assert code == 200
    value = json.loads(body)
    assert (value["schemaVersion"], value["label"]) == (1, "skill gate")
    return value["message"], value["color"]


def test_a_badge_says_what_the_default_branch_came_to_last(store: Store, url: str) -> None:
    assert _message(url, "acme/skills.json") == ("not judged yet", "lightgrey")
    _judged(store, "a", {"skills/x": "pass", "skills/y": "pass"})
    assert _message(url, "acme/skills.json") == ("2 pass", "brightgreen")
    _judged(store, "b", {"skills/x": "fail", "skills/y": "pass"}, "failure")
    assert _message(url, "Acme/Skills.json") == ("1 fail, 1 pass", "red")
    assert _message(url, "acme/skills/skills/x.json") == ("fail", "red")
    assert _message(url, "acme/skills/skills/y.json") == ("pass", "brightgreen")
    assert _message(url, "acme/skills/skills/z.json") == ("not judged yet", "lightgrey")


def test_neither_a_pull_request_nor_another_branch_changes_it(store: Store, url: str) -> None:
    _judged(store, "a", {"skills/x": "fail"}, "failure")
    _judged(store, "b", {"skills/x": "pass"}, number=7)
    _judged(store, "c", {"skills/x": "pass"}, ref="feature")
    assert _message(url, "acme/skills.json") == ("1 fail", "red")
    assert _message(url, "acme/skills/skills/x.json") == ("fail", "red")


@pytest.mark.parametrize(
    "asked", [{"ref": "refs/heads/feature"}, {"ref": "refs/tags/v1"}, {"mode": "smoke"}, {"paths": ["skills/x"]}]
)
def test_no_audit_that_the_api_starts_of_something_else_or_of_less_changes_it(
    store: Store, url: str, asked: dict[str, Any]
) -> None:
    _judged(store, "a", {"skills/x": "fail"}, "failure")
    token = Token(1, "ci", ("acme/skills",), may_write=True, created=0.0, expires=None, revoked=False)
    job = store.take(_asked(token, json.dumps({"repository": "acme/skills", **asked}).encode())).job
    assert job is not None
    store.begin(job, "w")
    store.finish(job, JobState.DONE, gate_state="success", verdicts={"skills/x": "pass"})
    assert _message(url, "acme/skills.json") == ("1 fail", "red")
    of_skill = ("pass", "brightgreen") if "paths" in asked else ("fail", "red")
    assert _message(url, "acme/skills/skills/x.json") == of_skill


def test_what_could_not_be_judged_is_not_green(store: Store, url: str) -> None:
    _judged(store, "a", {"skills/x": "not_measured", "skills/y": "error"}, "error")
    assert _message(url, "acme/skills.json") == ("1 error, 1 not measured", "lightgrey")
    assert _message(url, "acme/skills/skills/x.json") == ("not measured", "lightgrey")


def test_the_image_says_the_same_and_asks_for_nothing(store: Store, url: str) -> None:
    _judged(store, "a", {"skills/x": "conditional"})
    code, body = _get(url, "acme/skills.svg")
    assert code == 200
    root = ET.fromstring(body)
    assert root.get("aria-label") == "skill gate: 1 conditional"
    assert "1 conditional" in "".join(root.itertext())
    assert b"href" not in body


@pytest.mark.parametrize(
    "path",
    [
        "other/secret.json",
        "none/none.svg",
        "acme/skills.png",
        "acme/skills",
        "acme.json",
        "acme/.json",
        ".json",
        "a//b.svg",
    ],
)
def test_there_is_no_badge_of_a_repository_that_nobody_named(store: Store, url: str, path: str) -> None:
    _judged(store, "a", {"skills/x": "pass"}, repository="other/secret")
    assert _get(url, path) == (404, b"there is no such badge\n")
