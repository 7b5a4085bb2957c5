from __future__ import annotations

import pytest
from pydantic import SecretStr

from gate.adapters.model_names import Keys, ModelFactory, build_model, parse_model_name
from gate.domain.chat import Role
from gate.errors import ConfigurationError
from gate.settings import ModelChoice

NO_KEYS = Keys()
BOTH = Keys(openai=SecretStr("sk-open-canary"), anthropic=SecretStr("sk-ant-canary"))


@pytest.mark.parametrize(
    ("text", "provider", "base_url", "model", "family"),
    [
        ("anthropic:claude-x", "anthropic", None, "claude-x", "anthropic"),
        ("openai:ft:gpt-4o:org::id", "openai", None, "ft:gpt-4o:org::id", "openai"),
        ("openai@http://127.0.0.1:8000/v1:llama3:8b", "openai", "http://127.0.0.1:8000/v1", "llama3:8b", "openai@127.0.0.1"),
        ("openai@https://api.example.org/v1:m", "openai", "https://api.example.org/v1", "m", "openai@api.example.org"),
        ("openai@http://[::1]:9/v1/:m", "openai", "http://[::1]:9/v1", "m", "openai@::1"),
        ("openai-responses:gpt-5", "openai-responses", None, "gpt-5", "openai"),
        ("openai-responses@http://h:9/v1:m", "openai-responses", "http://h:9/v1", "m", "openai@h"),
        ("anthropic@http://host:8080:org/m", "anthropic", "http://host:8080", "org/m", "anthropic@host"),
    ],
)  # fmt: skip
def test_a_model_name_has_a_provider_perhaps_an_address_and_a_model(
    text: str, provider: str, base_url: str | None, model: str, family: str
) -> None:
    name = parse_model_name(text)
    assert (name.text, name.provider, name.base_url, name.model, name.family) == (
        text,
        provider,
        base_url,
        model,
        family,
    )


def test_a_replay_names_a_folder() -> None:
    assert parse_model_name("replay:examples/rec:1").folder == "examples/rec:1"


@pytest.mark.parametrize(
    "text",
    [
        "", " ", "gpt-4o", "openai", "openai:", "foo:bar", "replay:", "openai@", "openai@localhost:80:m",
        "openai@http://localhost:8080", "openai@http://localhost/v1", "openai@http://h:99999/v1:m",
        "openai@ftp://h/v1:m", "openai@http://h/v1?key=1:m", "replay@http://h:m", " openai:x", "openai:a\nb",
        "openai://host:m",
    ],
)  # fmt: skip
def test_a_name_that_is_none_is_refused_with_the_ways_to_write_one(text: str) -> None:
    with pytest.raises(ConfigurationError) as caught:
        parse_model_name(text)
    assert "Write " in caught.value.remedy


def test_a_password_in_an_address_is_refused_and_not_repeated() -> None:
    with pytest.raises(ConfigurationError) as caught:
        parse_model_name("openai@https://user:hunter2@host/v1:m")
    assert "hunter2" not in str(caught.value)


@pytest.mark.parametrize(
    ("text", "key"),
    [
        ("openai:gpt", "sk-open-canary"),
        ("anthropic:claude", "sk-ant-canary"),
        ("openai@https://host/v1:m", "sk-open-canary"),
        ("anthropic@http://127.0.0.1:1:m", "sk-ant-canary"),
        ("openai@http://host/v1:m", "none"),
    ],
)
def test_a_key_goes_to_its_own_provider_and_never_unencrypted_off_this_machine(text: str, key: str) -> None:
    assert BOTH.of(parse_model_name(text)).get_secret_value() == key


@pytest.mark.parametrize(
    "text", ["openai@http://127.0.0.1:1/v1:m", "openai@http://localhost/v1:m", "anthropic@http://[::1]:2:m"]
)
def test_a_server_on_this_machine_needs_no_key(text: str) -> None:
    assert NO_KEYS.of(parse_model_name(text)).get_secret_value() == "none"
    assert build_model(text, NO_KEYS).name == text


@pytest.mark.parametrize("keys", [NO_KEYS, Keys(openai=SecretStr(" "), anthropic=SecretStr(""))])
@pytest.mark.parametrize(
    ("text", "variable"), [("openai:m", "OPENAI_API_KEY"), ("anthropic@https://h:m", "ANTHROPIC_API_KEY")]
)
def test_a_missing_key_is_said_before_anything_is_asked(text: str, variable: str, keys: Keys) -> None:
    with pytest.raises(ConfigurationError, match=variable):
        ModelFactory(ModelChoice(executor="openai@http://127.0.0.1:1/v1:m", judge=text), keys)


def test_keys_are_in_no_repr() -> None:
    factory = ModelFactory(ModelChoice(executor="openai:a", judge="anthropic:b"), BOTH)
    shown = f"{BOTH!r} {BOTH} {factory!r} {vars(factory)!r} {factory(Role.GRADER)!r}"
    assert "canary" not in shown


def test_every_role_gets_the_model_that_was_chosen_for_it() -> None:
    choice = ModelChoice(executor="openai:a", judge="anthropic:b", roles={Role.COMPARATOR: "openai:c"})
    factory = ModelFactory(choice, BOTH)
    assert factory(Role.EXECUTOR).name == "openai:a"
    assert factory(Role.GRADER).name == "anthropic:b"
    assert factory(Role.COMPARATOR).name == "openai:c"
    assert factory(Role.GRADER) is not factory(Role.GRADER)
    assert factory(Role.GRADER).family == "anthropic"
