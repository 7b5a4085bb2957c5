from __future__ import annotations

import pytest

from gate.wiring import SECRET_VARIABLES, bind, take_secrets


def test_every_spelling_is_removed_whether_or_not_it_is_used() -> None:
    names = [name for names in SECRET_VARIABLES.values() for name in names]
    assert {"INPUT_ANTHROPIC-API-KEY", "INPUT_OPENAI_API_KEY", "INPUT_GITHUB-TOKEN", "GITHUB_TOKEN"} <= set(names)
    assert {"ACTIONS_RUNTIME_TOKEN", "ACTIONS_ID_TOKEN_REQUEST_TOKEN"} <= set(names)
    environ = {"PATH": "/bin", **{name: f"secret of {name}" for name in names}}
    taken = take_secrets(environ)
    assert environ == {"PATH": "/bin"}
    assert set(taken.values()) == {f"secret of {name}" for name in names}


def test_an_input_counts_before_a_variable_and_the_other_one_stays_known() -> None:
    environ = {"INPUT_GITHUB-TOKEN": "of the input", "GITHUB_TOKEN": "of the job"}
    assert take_secrets(environ) == {"github": "of the input", "github-2": "of the job"}


@pytest.mark.parametrize("empty", ["", "  ", "\n"])
def test_an_empty_secret_is_none(empty: str) -> None:
    environ = {"ANTHROPIC_API_KEY": empty, "INPUT_ANTHROPIC-API-KEY": "key"}
    assert take_secrets(environ) == {"anthropic": "key"}
    assert environ == {}


def test_every_token_of_a_real_mcp_server_is_taken_out_whatever_its_name_is() -> None:
    environ = {
        "SKILL_GATE_MCP_CRM": "token",
        "SKILL_GATE_MCP_": "rest",
        "SKILL_GATE_MCP_NONE": " ",
        "SKILL_GATE_CACHE": "x",
    }
    assert take_secrets(environ) == {"mcp-SKILL_GATE_MCP_CRM": "token", "mcp-SKILL_GATE_MCP_": "rest"}
    assert environ == {"SKILL_GATE_CACHE": "x"}


def test_an_app_shows_no_secret_and_its_environment_holds_none() -> None:
    environ = {"OPENAI_API_KEY": "sk-canary-1234"}
    app = bind(environ)
    assert "sk-canary-1234" not in repr(app)
    assert "OPENAI_API_KEY" not in app.environ
