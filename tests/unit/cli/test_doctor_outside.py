"""What doctor asks outside of the machine: scripted models and a GitHub of our own, both over HTTP."""

from __future__ import annotations

import pytest

from tests.fakes.sandbox import DEFAULT_IMAGES, ScriptedSandbox
from tests.github import FakeGitHub
from tests.scripted.faults import HttpError
from tests.scripted.server import ScriptedServer
from tests.scripted.values import Reply
from tests.unit.cli.test_doctor import doctor, inside


def models(server: ScriptedServer) -> list[str]:
    return ["--model", f"anthropic@{server.url}:agent", "--judge-model", f"openai@{server.openai_url}:judge"]


def test_each_model_is_asked_once_with_a_few_tokens() -> None:
    with ScriptedSandbox(inside()) as sandbox, ScriptedServer(Reply("OK")) as server:
        code, found, _ = doctor(sandbox, *models(server), environ={"ANTHROPIC_API_KEY": "sk-secret"})
        asked = server.requests

    assert code == 0
    answered = [item for name, item in found.items() if name.startswith("model ")]
    assert [item["state"] for item in answered] == ["ok", "ok"]
    assert len(asked) == 2
    assert "tokens in" in answered[0]["text"]


def test_a_model_that_refuses_is_infrastructure_and_says_why() -> None:
    with (
        ScriptedSandbox(inside()) as sandbox,
        ScriptedServer(HttpError(401, "invalid x-api-key"), allow_protocol_errors=True) as server,
    ):
        code, found, _ = doctor(sandbox, *models(server), environ={"ANTHROPIC_API_KEY": "sk-secret"})

    assert code == 3
    (agent,) = (item for name, item in found.items() if name.startswith("model anthropic@"))
    assert agent["state"] == "failure"
    assert agent["remedy"]
    assert "sk-secret" not in str(found)


def test_a_name_that_is_no_models_name_is_a_configuration_error() -> None:
    with ScriptedSandbox(inside()) as sandbox:
        code, found, _ = doctor(sandbox, "--model", "nobody:knows")

    assert (code, found["models"]["state"]) == (2, "failure")


def test_offline_asks_nobody() -> None:
    with ScriptedSandbox(inside()) as sandbox, ScriptedServer(Reply("OK")) as server:
        code, found, _ = doctor(sandbox, "--offline", *models(server))
        asked = server.requests

    assert (code, found["models"]["state"], list(asked)) == (0, "skipped", [])


IMAGES = {**DEFAULT_IMAGES, "@own": "sha256:" + "7b" * 32}


def in_a_job(url: str, token: str) -> dict[str, str]:
    return {
        "GITHUB_ACTIONS": "true",
        "GITHUB_API_URL": url,
        "GITHUB_REPOSITORY": "acme/skills",
        "GITHUB_TOKEN": token,
    }


@pytest.mark.parametrize(("which", "state", "expected"), [("write", "ok", 0), ("read", "failure", 3)])
def test_whether_a_status_may_be_set_is_tried_where_none_can_come_of_it(which: str, state: str, expected: int) -> None:
    with ScriptedSandbox(inside(), images=IMAGES) as sandbox, FakeGitHub() as github:
        repository = github.add_repository("acme/skills", private=True)
        token = str(getattr(github, which).value)
        code, found, log = doctor(sandbox, environ=in_a_job(github.url, token))

    assert (code, found["status"]["state"]) == (expected, state)
    assert found["token"]["state"] == "ok"
    assert found["comment"]["state"] == "note"
    assert not repository.statuses
    assert token not in "\n".join(log)


@pytest.mark.parametrize("here", [True, False])
def test_a_github_that_refuses_or_is_not_there_is_said_with_a_remedy(here: bool) -> None:
    with ScriptedSandbox(inside(), images=IMAGES) as sandbox, FakeGitHub(allow_problems=True) as github:
        environ = in_a_job(github.url if here else "http://127.0.0.1:9", "ghs_nobody")
        code, found, _ = doctor(sandbox, environ=environ)

    assert (code, found["token"]["state"]) == (3, "failure")
    assert found["token"]["remedy"]


def test_without_a_repository_to_ask_about_nothing_is_tried() -> None:
    with ScriptedSandbox(inside()) as sandbox:
        code, found, _ = doctor(sandbox, environ={"GITHUB_TOKEN": "ghp_secret"})

    assert (code, found["token"]["state"]) == (0, "note")
