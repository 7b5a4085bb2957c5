"""A gate service as the Action of a repository without keys sees it: hand work over, ask how far it is, take the bundle.

Also the one request to GitHub's runner that this needs: a token that says which job asks. The request token that it is
asked with never leaves for any other address.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from gate.adapters.model_calls import plain
from gate.domain.handover import Handed, Progressed, Refused
from gate.errors import ConfigurationError, InfrastructureError
from gate.evidence.origin import keys_of
from gate.evidence.pack import MAX_BYTES

if TYPE_CHECKING:
    import httpx2
    from pydantic import SecretStr

REQUEST_S = 60.0
"""For one answer but a bundle's."""
BUNDLE_S = 1800.0
MAX_ANSWER_BYTES = 1_000_000
TRIES = 5
"""Of a request that an overloaded or restarting service did not answer."""
SIGNATURE_HEADER = "X-Skill-Gate-Signature"
_AGAIN = frozenset({408, 429, 500, 502, 503, 504})
_LOOPBACK = ("127.0.0.1", "localhost", "::1")


class GateServiceHttp:
    """``gate.protocols.GateService`` over HTTPS (or HTTP on this machine)."""

    def __init__(
        self,
        url: str,
        *,
        id_url: str,
        id_token: SecretStr | None,
        sleep: Callable[[float], None] = time.sleep,
        first_wait_s: float = 1.0,
    ) -> None:
        """Nothing is asked yet.

        ``id_url``, ``id_token``: where and with what the runner is asked for a job's token (ACTIONS_ID_TOKEN_REQUEST_URL,
        ACTIONS_ID_TOKEN_REQUEST_TOKEN). Raises ConfigurationError for addresses that a token must not be sent to, and
        where the job may not have tokens.
        """
        self._url = _sealed(url, "service-url").rstrip("/")
        if not id_url or id_token is None:
            raise ConfigurationError(
                "This job cannot say who it is: GitHub's runner offers it no OIDC token.",
                remedy="Give the job permissions: id-token: write. Jobs of forks never have it.",
            )
        self._id_url = _sealed(id_url, "ACTIONS_ID_TOKEN_REQUEST_URL")
        self._id_token = id_token
        self._sleep = sleep
        self._first_wait_s = first_wait_s

    def keys(self) -> tuple[str, ...]:
        """The public keys that the service publishes now. Raises InfrastructureError."""
        answer = self._ask("GET", f"{self._url}/.well-known/jwks.json")
        found = keys_of(answer.value) if answer.code == 200 else ()
        if not found:
            raise InfrastructureError(f"The service at {self._url} publishes no key (HTTP {answer.code}).")
        return found

    def hand_over(self, event: Mapping[str, Any], nonce: str, inputs: Mapping[str, str]) -> Handed:
        """See GateService. A token serves once, so every try has one of its own."""
        body = json.dumps({"event": event, "nonce": nonce, "inputs": dict(inputs)}).encode()
        answer = self._ask("POST", f"{self._url}/handover", body=body, bearer=self._job_token)
        if answer.code != 202:
            raise self._refusal(answer)
        job, ticket, poll = (answer.value.get(name) for name in ("job", "ticket", "poll_seconds"))
        if not isinstance(job, str) or not job.isalnum() or not isinstance(ticket, str) or not isinstance(poll, int):
            raise InfrastructureError(f"The service at {self._url} answered with no job.")
        return Handed(job=job, ticket=ticket, poll_s=min(max(poll, 1), 60))

    def progress(self, handed: Handed) -> Progressed:
        """See GateService."""
        answer = self._ask("GET", f"{self._url}/handover/{handed.job}", bearer=lambda: handed.ticket)
        if answer.code != 200:
            raise self._refusal(answer)
        state, ended, reason = (answer.value.get(name) for name in ("state", "ended", "reason"))
        if not isinstance(state, str) or not isinstance(ended, bool):
            raise InfrastructureError(f"The service at {self._url} does not say how far the job is.")
        return Progressed(state=plain(state), ended=ended, reason=plain(str(reason or "")))

    def cancel(self, handed: Handed) -> None:
        """See GateService. Never raises: whoever leaves cannot do anything about it."""
        try:
            self._once("DELETE", f"{self._url}/handover/{handed.job}", b"", handed.ticket, 3.0)
        except (InfrastructureError, OSError):
            return

    @contextmanager
    def bundle(self, handed: Handed) -> Iterator[tuple[str, Iterator[bytes]]]:
        """See GateService."""
        import httpx2

        with _client(REQUEST_S) as client:
            try:
                with client.stream(
                    "GET",
                    f"{self._url}/handover/{handed.job}/bundle",
                    headers={"Authorization": f"Bearer {handed.ticket}"},
                ) as response:
                    if response.status_code != 200:
                        raise self._refusal(_Answer(response.status_code, _object(_first(response))))
                    yield response.headers.get(SIGNATURE_HEADER, ""), _capped(response, time.monotonic() + BUNDLE_S)
            except httpx2.HTTPError as error:
                raise InfrastructureError(f"The bundle did not arrive: {plain(str(error))}.") from None

    # --- requests

    def _job_token(self) -> str:
        """A fresh token of this job for this service, from the runner."""
        from urllib.parse import quote

        joint = "&" if "?" in self._id_url else "?"
        address = f"{self._id_url}{joint}audience={quote(self._url, safe='')}"
        answer = self._ask("GET", address, bearer=self._id_token.get_secret_value)
        token = answer.value.get("value")
        if answer.code != 200 or not isinstance(token, str) or not token:
            raise InfrastructureError(f"GitHub's runner gave no OIDC token (HTTP {answer.code}).")
        return token

    def _ask(self, method: str, address: str, *, body: bytes = b"", bearer: Callable[[], str] = lambda: "") -> _Answer:
        """With patience for a service that is busy or starts again. Raises InfrastructureError."""
        wait = self._first_wait_s
        for left in reversed(range(TRIES)):
            try:
                answer = self._once(method, address, body, bearer(), REQUEST_S)
            except InfrastructureError:
                if not left:
                    raise
            else:
                if answer.code not in _AGAIN or not left:
                    return answer
            self._sleep(wait)
            wait *= 2
        raise AssertionError("unreachable")  # pragma: no cover - the last try returns or raises

    def _once(self, method: str, address: str, body: bytes, bearer: str, timeout_s: float) -> _Answer:
        import httpx2

        headers = {"Accept": "application/json"}
        if bearer:
            headers["Authorization"] = f"Bearer {bearer}"
        if body:
            headers["Content-Type"] = "application/json"
        host = urlsplit(address).hostname
        try:
            with (
                _client(timeout_s) as client,
                client.stream(method, address, headers=headers, content=body or None) as response,
            ):
                return _Answer(response.status_code, _object(_first(response)))
        except httpx2.HTTPError as error:
            raise InfrastructureError(f"{host} was not reached: {plain(str(error)) or type(error).__name__}.") from None

    def _refusal(self, answer: _Answer) -> Exception:
        reason = plain(str(answer.value.get("reason") or f"HTTP {answer.code}"))
        rule = plain(str(answer.value.get("rule") or ""))
        if answer.code in _AGAIN:
            return InfrastructureError(f"The service at {self._url} could not take the work: {reason}")
        return Refused(
            f"The service at {self._url} refused ({rule or answer.code}): {reason}",
            remedy="Compare the workflow with what the service allows; whoever runs it can say.",
        )


class _Answer:
    """A reply."""

    def __init__(self, code: int, value: dict[str, Any]) -> None:
        self.code = code
        self.value = value


def _client(timeout_s: float) -> httpx2.Client:
    import httpx2

    # No redirects: a token must not travel on to whoever a reply names.
    return httpx2.Client(timeout=httpx2.Timeout(timeout_s, connect=10.0), follow_redirects=False)


def _first(response: httpx2.Response) -> bytes:
    """The body of a small answer; what is too long is cut, and is then no JSON."""
    body = bytearray()
    for piece in response.iter_bytes():
        body += piece
        if len(body) > MAX_ANSWER_BYTES:
            break
    return bytes(body)


def _capped(response: httpx2.Response, deadline: float) -> Iterator[bytes]:
    taken = 0
    for piece in response.iter_bytes():
        taken += len(piece)
        if taken > MAX_BYTES * 2 or time.monotonic() > deadline:
            raise InfrastructureError("The bundle is too large, or took too long to arrive.")
        yield piece


def _object(body: bytes) -> dict[str, Any]:
    try:
        value = json.loads(body)
    except (ValueError, RecursionError):
        return {}
    return value if isinstance(value, dict) else {}


def _sealed(address: str, name: str) -> str:
    parts = urlsplit(address)
    if parts.scheme == "https" and parts.hostname and not parts.username:
        return address
    if parts.scheme == "http" and parts.hostname in _LOOPBACK:
        return address
    raise ConfigurationError(f"{name} is {plain(address)!r}; an https address was expected.")
