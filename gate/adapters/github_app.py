"""The service as a GitHub App: a signed word of the App's own becomes a token of one installation, for one repository.

PyGithub signs (RS256 by PyJWT) and speaks. A token is asked for with the least that a job needs and for the repository it
is about only, so that nothing which a job lets slip opens another one. (github-action.md 1.3.)
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any
from urllib.parse import quote

from pydantic import SecretStr

from gate.errors import ConfigurationError, ForgeError

PERMISSIONS = {
    "checks": "write",
    "contents": "read",
    "metadata": "read",
    "pull_requests": "write",
    "statuses": "write",
}
"""What the App must have, and what each token is asked for with: comments on pull requests come with ``pull_requests``."""
_MARGIN_S = 600
"""A token that ends within this time is not given out any more: a step of a job may take minutes."""
_REQUEST_S = 20


@dataclass(frozen=True)
class _Kept:
    token: SecretStr
    until: float


@dataclass
class GitHubApp:
    """An App's way to tokens. Thread-safe; a token is kept until it is about to end."""

    app_id: str
    key: SecretStr = field(repr=False)
    """Its private key, PEM."""
    api_url: str
    now: Callable[[], float] = time.time

    def __post_init__(self) -> None:
        """Raises ConfigurationError for a key that signs nothing."""
        from github.Auth import AppAuth

        self._lock = threading.Lock()
        self._tokens: dict[str, _Kept] = {}
        self._installations: dict[str, int] = {}
        try:
            self._auth = AppAuth(self.app_id, self.key.get_secret_value())
            self._auth.create_jwt()
        except Exception as error:  # noqa: BLE001 - whatever the libraries below make of a broken key
            raise ConfigurationError(
                f"The App's private key cannot be used ({type(error).__name__}).",
                remedy="Give SKILL_GATE_APP_KEY the whole PEM file that GitHub made, or its path in SKILL_GATE_APP_KEY_FILE.",
            ) from None

    def token(self, repository: str, installation: int | None = None) -> SecretStr:
        """A token for ``owner/name``, good for ten minutes at least. ``installation``: where a delivery named it.

        Raises ForgeError, of kind ``not_found`` where the App is not installed there.
        """
        with self._lock:
            kept = self._tokens.get(repository.casefold())
            if kept is not None and kept.until > self.now():
                return kept.token
            known = installation or self._installations.get(repository.casefold())
            found = known or self._installation_of(repository)
            try:
                answer = self._token_of(found, repository)
            except ForgeError as error:
                # The App may have been taken out and put in again: then it is another installation.
                found = self._installation_of(repository) if known and error.kind == "not_found" else 0
                if found in (0, known):
                    raise
                answer = self._token_of(found, repository)
            self._installations[repository.casefold()] = found
            try:
                ends = datetime.fromisoformat(answer["expires_at"]).timestamp()
                token = SecretStr(str(answer["token"]))
            except (KeyError, AttributeError, ValueError):
                raise ForgeError("GitHub answered without a token for the App.", kind="validation") from None
            self._tokens[repository.casefold()] = _Kept(token, ends - _MARGIN_S)
            return token

    def _token_of(self, installation: int, repository: str) -> dict[str, Any]:
        body = {"repositories": [repository.partition("/")[2]], "permissions": PERMISSIONS}
        return self._ask("POST", f"/app/installations/{installation}/access_tokens", repository, body)

    def _installation_of(self, repository: str) -> int:
        owner, _, name = repository.partition("/")
        answer = self._ask("GET", f"/repos/{quote(owner, safe='')}/{quote(name, safe='')}/installation", repository)
        found = answer.get("id")
        if not isinstance(found, int):
            raise ForgeError(f"GitHub does not say which installation {repository} has.", kind="validation")
        return found

    def _ask(self, method: str, path: str, repository: str, body: Any = None) -> dict[str, Any]:
        from github import GithubException, GithubIntegration

        app = GithubIntegration(
            auth=self._auth,
            base_url=self.api_url.rstrip("/"),
            timeout=_REQUEST_S,
            retry=None,
            seconds_between_requests=0,
        )
        try:
            _, answer = app.requester.requestJsonAndCheck(method, path, input=body)
        except GithubException as error:
            kind = {401: "permission", 403: "permission", 404: "not_found", 422: "validation"}.get(
                error.status, "network"
            )
            raise ForgeError(
                f"GitHub gave the App no token for {repository} ({error.status}).",
                kind=kind,
                status=error.status,
                remedy="Check that the App is installed there, with the permissions that the README lists, and its key.",
            ) from None
        except OSError as error:
            raise ForgeError(f"GitHub did not answer the App: {type(error).__name__}.") from None
        finally:
            app.close()
        if not isinstance(answer, dict):
            raise ForgeError("GitHub's answer to the App cannot be read.", kind="validation")
        return answer
