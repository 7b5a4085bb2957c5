from __future__ import annotations

import re
import time
from collections.abc import Callable, Iterator
from typing import Any

import jwt
import pytest

from gate.errors import ConfigurationError, InfrastructureError
from gate.service.oidc import LEEWAY_S, MAX_LIFE_S, Caller, Door, IssuerKeys, Rules, TokenError
from tests.oidc_issuer import WORKFLOW, Issuer, claims_of, issuer, key

SERVICE = "https://gate.example.org"


class Used:
    def __init__(self) -> None:
        self.until: dict[str, float] = {}

    def once(self, key: str, expires: float) -> bool:
        if key in self.until:
            return False
        self.until[key] = expires
        return True


@pytest.fixture(scope="module")
def github() -> Iterator[Issuer]:
    with issuer() as found:
        yield found


@pytest.fixture
def door(github: Issuer) -> Door:
    return _door(github)


def _door(github: Issuer, used: Used | None = None, now: Callable[[], float] = time.time) -> Door:
    rules = Rules(SERVICE, {1: 900}, frozenset({WORKFLOW}), issuer=github.address)
    return Door(rules, IssuerKeys(github.address), used or Used(), now=now)


def test_a_job_of_an_allowed_repository_that_runs_the_allowed_workflow_is_let_in(github: Issuer, door: Door) -> None:
    caller = door.admit(github.token(SERVICE, jti="job-token-1"))
    assert caller == Caller(
        repository_id=1, owner_id=900, repository="acme/skills", number=7, run_id="31415", jti="job-token-1",
        expires=caller.expires,
    )  # fmt: skip


NOW = int(time.time())
BREAKS: list[tuple[str, dict[str, Any]]] = [
    ("iss", {"iss": "https://token.actions.githubusercontent.com"}),
    ("aud", {"aud": "https://elsewhere.example.org"}),
    ("aud", {"aud": f"{SERVICE}/"}),
    ("aud", {"aud": [SERVICE, "https://elsewhere.example.org"]}),
    ("aud", {"aud": None}),
    ("exp", {"exp": NOW - 3600, "iat": NOW - 3900, "nbf": NOW - 3900}),
    ("exp", {"exp": NOW + MAX_LIFE_S + 36_000}),
    ("exp", {"exp": None}),
    ("exp", {"exp": "9999999999"}),
    ("exp", {"exp": True}),
    ("iat", {"iat": NOW + 36_000, "exp": NOW + 36_300}),
    ("iat", {"iat": None}),
    ("nbf", {"nbf": NOW + 36_000}),
    ("nbf", {"nbf": None}),
    ("jti", {"jti": None}),
    ("jti", {"jti": "short"}),
    ("jti", {"jti": "two words in one"}),
    ("repository_id", {"repository_id": "2"}),
    ("repository_id", {"repository_id": None}),
    ("repository_id", {"repository_id": 1}),
    ("repository_id", {"repository_id": "01"}),
    ("repository_id", {"repository_id": "1 "}),
    ("repository_owner_id", {"repository_owner_id": "901"}),
    ("repository_owner_id", {"repository_owner_id": None}),
    ("event_name", {"event_name": "pull_request_target"}),
    ("event_name", {"event_name": "workflow_dispatch"}),
    ("event_name", {"event_name": None}),
    ("ref", {"ref": "refs/heads/main"}),
    ("ref", {"ref": "refs/pull/0/merge"}),
    ("ref", {"ref": "refs/pull/7/merge\n"}),
    ("ref", {"ref": "refs/pull/7/head"}),
    ("ref", {"ref": None}),
    ("job_workflow_ref", {"job_workflow_ref": WORKFLOW.replace("refs/heads/main", "refs/pull/7/merge")}),
    ("job_workflow_ref", {"job_workflow_ref": WORKFLOW.replace("skills.yml", "other.yml")}),
    ("job_workflow_ref", {"job_workflow_ref": WORKFLOW.replace("acme/gate", "mallory/gate")}),
    ("job_workflow_ref", {"job_workflow_ref": "acme/skills/.github/workflows/check.yml@refs/pull/7/merge"}),
    ("job_workflow_ref", {"job_workflow_ref": None}),
    ("repository", {"repository": None}),
]


def _name(value: object) -> str:
    """Without times: two processes that collect these tests must call them the same."""
    return re.sub(r"\d{10}", "time", str(value))[:60]


@pytest.mark.parametrize(("rule", "changes"), BREAKS, ids=_name)
def test_every_claim_by_itself_turns_a_job_away(github: Issuer, door: Door, rule: str, changes: dict[str, Any]) -> None:
    with pytest.raises(TokenError) as error:
        door.admit(github.token(SERVICE, **changes))
    assert error.value.rule == rule


def test_a_token_serves_once_and_is_remembered_until_it_has_ended(github: Issuer) -> None:
    used = Used()
    door = _door(github, used)
    token = github.token(SERVICE)
    caller = door.admit(token)
    with pytest.raises(TokenError, match="serves once") as error:
        door.admit(token)
    assert error.value.rule == "jti"
    assert list(used.until.values()) == [caller.expires + LEEWAY_S]


def test_a_token_that_is_turned_away_is_not_used_up(github: Issuer) -> None:
    used = Used()
    with pytest.raises(TokenError):
        _door(github, used).admit(github.token(SERVICE, repository_id="2"))
    assert not used.until


def test_time_is_looked_at_with_half_a_minute_for_clocks_that_differ(github: Issuer) -> None:
    made = int(time.time())
    changes: dict[str, Any] = {"iat": made, "nbf": made, "exp": made + MAX_LIFE_S}
    for at in (made - LEEWAY_S, made, made + MAX_LIFE_S + LEEWAY_S - 1):
        _door(github, now=lambda at=at: at).admit(github.token(SERVICE, **changes))  # type: ignore[misc]
    for at, rule in ((made - LEEWAY_S - 1, "iat"), (made + MAX_LIFE_S + LEEWAY_S, "exp")):
        with pytest.raises(TokenError) as error:
            _door(github, now=lambda at=at: at).admit(github.token(SERVICE, **changes))  # type: ignore[misc]
        assert error.value.rule == rule


def test_a_signature_by_another_key_is_none(github: Issuer, door: Door) -> None:
    with pytest.raises(TokenError) as error:
        door.admit(github.token(SERVICE, signed_with="mallory"))
    assert error.value.rule == "signature"


def test_a_key_that_the_issuer_does_not_publish_signs_nothing(github: Issuer, door: Door) -> None:
    with pytest.raises(TokenError) as error:
        door.admit(github.token(SERVICE, kid="unknown"))
    assert error.value.rule == "signature"


def test_no_other_algorithm_counts_not_even_one_that_the_token_names(github: Issuer, door: Door) -> None:
    claims = claims_of(github.address, SERVICE)
    for token in (
        jwt.encode(claims, "", algorithm="none", headers={"kid": "one"}),
        jwt.encode(claims, "s" * 64, algorithm="HS256", headers={"kid": "one"}),
        jwt.encode(claims, key(), algorithm="RS384", headers={"kid": "one"}),
        # Not even one for which the issuer publishes a key.
        jwt.encode(claims, key("rs384"), algorithm="RS384", headers={"kid": "rs384"}),
    ):
        with pytest.raises(TokenError) as error:
            door.admit(token)
        assert error.value.rule == "signature"


@pytest.mark.parametrize("token", ["", "x", "a.b.c", "é.é.é", "x" * 20_000, "..", "\x00"])
def test_what_is_no_token_is_turned_away(door: Door, token: str) -> None:
    with pytest.raises(TokenError) as error:
        door.admit(token)
    assert error.value.rule == "signature"


def test_a_token_that_names_the_address_of_its_own_key_is_not_followed(github: Issuer, door: Door) -> None:
    headers = {"kid": "one", "jku": "http://127.0.0.1:9/", "x5u": "http://127.0.0.1:9/"}
    token = jwt.encode(claims_of(github.address, SERVICE), key("mallory"), algorithm="RS256", headers=headers)
    with pytest.raises(TokenError):
        door.admit(token)


def test_keys_are_fetched_once_and_strangers_cannot_make_it_ask_again(github: Issuer, door: Door) -> None:
    before = github.asked
    for _ in range(3):
        door.admit(github.token(SERVICE))
        with pytest.raises(TokenError):
            door.admit(github.token(SERVICE, kid="unknown"))
    assert github.asked - before == 1


def test_an_issuer_that_cannot_be_asked_is_no_refusal() -> None:
    with issuer() as gone:
        token = gone.token(SERVICE)
        gone.broken = True
        door = _door(gone)
        with pytest.raises(InfrastructureError, match="cannot be fetched"):
            door.admit(token)


@pytest.mark.parametrize(
    "workflow",
    [
        WORKFLOW.replace("refs/heads/main", "refs/pull/7/merge"),
        WORKFLOW.replace("refs/heads/main", "refs/tags/v1"),
        WORKFLOW.partition("@")[0],
        "acme/gate/.github/workflows/../x.yml@refs/heads/main",
        "*",
        "",
    ],
)
def test_a_workflow_that_could_be_anything_cannot_be_allowed(workflow: str) -> None:
    with pytest.raises(ConfigurationError):
        Rules(SERVICE, {1: 900}, frozenset({workflow}))


@pytest.mark.parametrize("address", ["", "gate.example.org", "file:///etc/passwd", "https://x/?a=b"])
def test_an_audience_or_an_issuer_that_is_no_address_is_refused(address: str) -> None:
    with pytest.raises(ConfigurationError):
        Rules(address, {}, frozenset())
    with pytest.raises(ConfigurationError):
        Rules(SERVICE, {}, frozenset(), issuer=address)


def test_an_issuer_whose_keys_could_be_changed_on_the_way_is_refused() -> None:
    with pytest.raises(ConfigurationError, match="on the way"):
        Rules("https://gate.example.org", {}, frozenset(), issuer="http://tokens.example.org")
    Rules("https://gate.example.org", {}, frozenset(), issuer="http://127.0.0.1:8080")


def test_a_glance_uses_no_token_up_and_lets_no_stranger_by(github: Issuer, door: Door) -> None:
    token = github.token(SERVICE)
    door.glance(token)
    door.glance(token)
    door.admit(token)
    with pytest.raises(TokenError):
        door.glance("a.b.c")
