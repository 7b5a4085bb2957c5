"""Who hands over work: the token that GitHub gave to one job, checked claim by claim (github-action.md 1.1, 1.13).

A token says which repository, which event and which workflow file a job runs. What it says is believed only after the
issuer's signature, and each claim by itself can turn a job away: a repository that is allowed is not enough, the steps that
run must be those of a reusable workflow that the operator named, at the branch that the operator named.
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol

from gate.errors import ConfigurationError, GateError, InfrastructureError
from gate.intake.notes import short

if TYPE_CHECKING:
    from jwt import PyJWK

GITHUB_ISSUER = "https://token.actions.githubusercontent.com"
MAX_LIFE_S = 600
"""A token that lives longer than ten minutes is none of a job's."""
LEEWAY_S = 30
"""By how much two clocks may differ."""
MAX_TOKEN_CHARACTERS = 16_384
ALGORITHMS = ("RS256",)
"""What GitHub signs with. Never taken from the token: it could say ``none``, or a secret that is the public key."""
EVENT = "pull_request"
"""The one event whose work can be handed over."""
_WORKFLOW = re.compile(r"[A-Za-z0-9._-]+/[A-Za-z0-9._-]+/\.github/workflows/[^/@\s]+\.ya?ml@refs/heads/[^\s@]+")
_REF = re.compile(r"refs/pull/([1-9][0-9]{0,8})/merge")
_ID = re.compile(r"[1-9][0-9]{0,18}")
_JTI = re.compile(r"[\x21-\x7e]{8,200}")
_REQUIRED = ("iss", "aud", "exp", "iat", "nbf", "jti")


class TokenError(GateError):
    """The token does not let this job in. ``rule`` names the claim (or ``signature``) that turned it away."""

    def __init__(self, rule: str, message: str, *, remedy: str = "") -> None:
        super().__init__(message, remedy=remedy)
        self.rule = rule


@dataclass(frozen=True)
class Caller:
    """Whose job it is, as GitHub's signature vouches for it."""

    repository_id: int
    owner_id: int
    repository: str
    """``owner/name`` at this moment; the ids are what was checked."""
    number: int
    """Of the pull request that the job runs for."""
    run_id: str
    jti: str
    expires: int
    """Seconds since 1970; after it no check lets this token in again."""


class UsedTokens(Protocol):
    """Remembers tokens. One place for all processes of a service, so that no two of them take the same token."""

    def once(self, key: str, expires: float) -> bool:
        """Whether this is its first use. ``expires`` (seconds since 1970): it may be forgotten afterwards."""


class Keys(Protocol):
    """The issuer's public keys."""

    def of(self, token: str) -> PyJWK:
        """The key that the token's header names. Raises TokenError where there is none, InfrastructureError where the
        issuer cannot be asked."""


@dataclass(frozen=True)
class Rules:
    """Who may hand over work. Whatever is not named here is turned away."""

    audience: str
    """The address of this service: a token that was made for another one is worth nothing here."""
    repositories: Mapping[int, int]
    """Repository id -> id of its owner. Names change hands, ids do not; both, so that a transfer ends the permission."""
    workflows: frozenset[str]
    """``owner/repo/.github/workflows/file.yml@refs/heads/main``: the reusable workflows whose steps may ask."""
    issuer: str = GITHUB_ISSUER

    def __post_init__(self) -> None:
        """Raises ConfigurationError for rules that would let in more than they say."""
        for name, address in (("issuer", self.issuer), ("audience", self.audience)):
            if not re.fullmatch(r"https?://[^\s?#]+", address):
                raise ConfigurationError(f'The {name} of tokens is "{short(address)}"; a web address was expected.')
        if not re.match(r"https://|http://(127\.0\.0\.1|localhost|\[::1\])(:[0-9]+)?(/|$)", self.issuer):
            raise ConfigurationError(
                f'The issuer of tokens is "{short(self.issuer)}": whoever is on the way could give us keys of their own.',
                remedy="Name its https address.",
            )
        for workflow in self.workflows:
            if not _WORKFLOW.fullmatch(workflow):
                raise ConfigurationError(
                    f'The workflow "{short(workflow, 120)}" is none that may hand over work.',
                    remedy="Name it as owner/repo/.github/workflows/file.yml@refs/heads/main, at a branch: a tag or a "
                    "pull request's own file could be anything.",
                )


@dataclass
class IssuerKeys:
    """Keys fetched from the issuer that the operator named, and kept. Thread-safe.

    Only that one address is asked, whatever a token says; an unknown key makes it ask again once in 30 seconds.
    """

    issuer: str
    timeout_s: float = 10.0
    _client: Any = field(default=None, init=False, repr=False)

    def __post_init__(self) -> None:
        """Nothing is asked yet."""
        from jwt import PyJWKClient

        self._client = PyJWKClient(f"{self.issuer.rstrip('/')}/.well-known/jwks", timeout=self.timeout_s)

    def of(self, token: str) -> PyJWK:
        """See Keys."""
        from jwt import PyJWKClientConnectionError, PyJWTError

        try:
            key: PyJWK = self._client.get_signing_key_from_jwt(token)
        except PyJWKClientConnectionError as error:
            raise InfrastructureError(f"The keys of {self.issuer} cannot be fetched: {short(error, 200)}.") from None
        except (PyJWTError, ValueError) as error:
            raise TokenError(
                "signature", f"The token is signed with no key of its issuer: {short(error, 200)}."
            ) from None
        return key


class Door:
    """Lets jobs in, or says which rule turned them away. Thread-safe as far as ``keys`` and ``used`` are."""

    def __init__(self, rules: Rules, keys: Keys, used: UsedTokens, *, now: Callable[[], float] = time.time) -> None:
        """``now``: seconds since 1970."""
        self._rules = rules
        self._keys = keys
        self._used = used
        self._now = now

    def glance(self, token: str) -> None:
        """Whether the issuer signed it for us and its time has not passed: for whoever is to be listened to at all. Uses
        nothing up. Raises as ``admit``."""
        self._in_time(self._signed(token))

    def admit(self, token: str) -> Caller:
        """Check everything, and use the token up. Raises TokenError, InfrastructureError (keys cannot be fetched).

        The token is used up last: one that is turned away for another reason can be shown again.
        """
        claims = self._signed(token)
        expires = self._in_time(claims)
        rules = self._rules
        repository_id, owner_id = _id(claims, "repository_id"), _id(claims, "repository_owner_id")
        if repository_id not in rules.repositories:
            raise TokenError(
                "repository_id",
                f"The repository with the id {repository_id} is none that this service judges.",
                remedy="Whoever runs the service names it.",
            )
        if rules.repositories[repository_id] != owner_id:
            raise TokenError("repository_owner_id", f"The repository {repository_id} now belongs to {owner_id}.")
        event = _text(claims, "event_name")
        if event != EVENT:
            raise TokenError("event_name", f'The job runs on "{short(event)}"; only {EVENT} can be handed over.')
        ref = _REF.fullmatch(_text(claims, "ref"))
        if ref is None:
            raise TokenError("ref", f'The ref is "{short(claims["ref"])}"; refs/pull/N/merge was expected.')
        workflow = _text(claims, "job_workflow_ref")
        if workflow not in rules.workflows:
            raise TokenError(
                "job_workflow_ref",
                f'The steps of the job are those of "{short(workflow, 200)}", which may not hand over work.',
                remedy="Let the job call the reusable workflow at the default branch that the service names.",
            )
        jti = _text(claims, "jti")
        if not _JTI.fullmatch(jti):
            raise TokenError("jti", "The token has an id that no issuer gives.")
        if not self._used.once(f"jti {self._rules.issuer} {jti}", expires + LEEWAY_S):
            raise TokenError("jti", "The token was shown before; a token serves once.")
        return Caller(
            repository_id=repository_id,
            owner_id=owner_id,
            repository=_text(claims, "repository"),
            number=int(ref[1]),
            run_id=str(claims.get("run_id", ""))[:40],
            jti=jti,
            expires=expires,
        )

    def _signed(self, token: str) -> Mapping[str, Any]:
        """The claims, by the issuer's signature, for us."""
        import jwt

        if not 0 < len(token) <= MAX_TOKEN_CHARACTERS:
            raise TokenError("signature", "There is no token, or it is longer than any token.")
        key = self._keys.of(token)
        try:
            claims: Mapping[str, Any] = jwt.decode(
                token,
                key,
                algorithms=list(ALGORITHMS),
                audience=self._rules.audience,
                issuer=self._rules.issuer,
                # Times are looked at below, by a clock that is an argument.
                options={
                    "require": list(_REQUIRED),
                    "verify_exp": False,
                    "verify_iat": False,
                    "verify_nbf": False,
                    "strict_aud": True,
                },
            )
        except jwt.InvalidIssuerError:
            raise TokenError("iss", f"The token was not issued by {self._rules.issuer}.") from None
        except jwt.InvalidAudienceError:
            raise TokenError(
                "aud", f"The token was not made for this service, whose audience is {self._rules.audience}."
            ) from None
        except jwt.MissingRequiredClaimError as error:
            raise TokenError(str(error.claim), f"The token has no {error.claim}.") from None
        except (jwt.PyJWTError, ValueError, TypeError) as error:
            raise TokenError("signature", f"The token is not valid: {short(error, 200)}.") from None
        return claims

    def _in_time(self, claims: Mapping[str, Any]) -> int:
        """When the token ends."""
        now = self._now()
        begins, issued, ends = (_time(claims, name) for name in ("nbf", "iat", "exp"))
        if ends <= now - LEEWAY_S:
            raise TokenError("exp", "The token has expired.")
        if issued > now + LEEWAY_S:
            raise TokenError("iat", "The token was issued in the future.")
        if begins > now + LEEWAY_S:
            raise TokenError("nbf", "The token is not valid yet.")
        # GitHub lets a token begin ten minutes before it was issued; how long it serves counts from then.
        if ends - issued > MAX_LIFE_S:
            raise TokenError("exp", f"The token lives longer than {MAX_LIFE_S} seconds.")
        return ends


def _time(claims: Mapping[str, Any], name: str) -> int:
    value = claims[name]
    if not isinstance(value, int) or isinstance(value, bool) or not 0 < value < 1 << 40:
        raise TokenError(name, f"The token's {name} is no time.")
    return value


def _text(claims: Mapping[str, Any], name: str) -> str:
    value = claims.get(name)
    if not isinstance(value, str) or not value:
        raise TokenError(name, f"The token has no {name}.")
    return value


def _id(claims: Mapping[str, Any], name: str) -> int:
    """GitHub writes ids as texts of digits."""
    value = _text(claims, name)
    if not _ID.fullmatch(value):
        raise TokenError(name, f"The token's {name} is no id.")
    return int(value)
