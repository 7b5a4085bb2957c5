"""An issuer of tokens on loopback, as GitHub's: keys at one address, and a job's tokens at another (github-action.md 2.1)."""

from __future__ import annotations

import base64
import json
import threading
import time
import urllib.parse
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import jwt
from cryptography.hazmat.primitives.asymmetric import rsa

WORKFLOW = "acme/gate/.github/workflows/skills.yml@refs/heads/main"
REQUEST_TOKEN = "runner-request-token-of-this-job"


@cache
def key(name: str = "one") -> rsa.RSAPrivateKey:
    """A private key for each name; made once, which takes its time."""
    del name
    return rsa.generate_private_key(public_exponent=65537, key_size=2048)


def claims_of(issuer: str, audience: str, **changes: Any) -> dict[str, Any]:
    """What GitHub says of a job that runs for pull request 7. A change to None takes a claim out."""
    now = int(time.time())
    claims = {
        "iss": issuer,
        "aud": audience,
        "sub": "repo:acme/skills:pull_request",
        "jti": str(uuid.uuid4()),
        "iat": now,
        "nbf": now - 600,
        "exp": now + 300,
        "repository": "acme/skills",
        "repository_id": "1",
        "repository_owner": "acme",
        "repository_owner_id": "900",
        "event_name": "pull_request",
        "ref": "refs/pull/7/merge",
        "ref_type": "branch",
        "workflow_ref": "acme/skills/.github/workflows/check.yml@refs/pull/7/merge",
        "job_workflow_ref": WORKFLOW,
        "run_id": "31415",
        "actor": "octocat",
        **changes,
    }
    return {name: value for name, value in claims.items() if value is not None}


class Issuer:
    """Listens; ``asked`` counts how often its keys were fetched."""

    def __init__(self, address: str) -> None:
        self.address = address
        self.asked = 0
        self.requests: list[tuple[str, str]] = []
        """(audience, Authorization) of each token that a job asked for."""
        self.changes: dict[str, Any] = {}
        """To the claims of tokens that jobs ask for."""
        self.published = ["one", "rs384"]
        """The second is said to be for another algorithm than GitHub's."""
        self.broken = False

    def token(self, audience: str, *, kid: str = "one", signed_with: str | None = None, **changes: Any) -> str:
        """A signed token."""
        claims = claims_of(self.address, audience, **changes)
        return jwt.encode(claims, key(signed_with or kid), algorithm="RS256", headers={"kid": kid})

    def keys(self) -> dict[str, Any]:
        """The key set."""
        return {"keys": [_public(name) for name in self.published]}


def _public(name: str) -> dict[str, Any]:
    numbers = key(name).public_key().public_numbers()

    def text(value: int) -> str:
        return base64.urlsafe_b64encode(value.to_bytes((value.bit_length() + 7) // 8, "big")).rstrip(b"=").decode()

    algorithm = "RS384" if name == "rs384" else "RS256"
    return {"kty": "RSA", "use": "sig", "alg": algorithm, "kid": name, "n": text(numbers.n), "e": text(numbers.e)}


@contextmanager
def issuer() -> Iterator[Issuer]:
    """An issuer while the block lasts."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            path, _, query = self.path.partition("?")
            if path == "/.well-known/jwks" and not here.broken:
                here.asked += 1
                self._answer(200, here.keys())
            elif path == "/token":
                audience = urllib.parse.parse_qs(query).get("audience", [""])[0]
                said = self.headers.get("Authorization", "")
                here.requests.append((audience, said))
                if said != f"Bearer {REQUEST_TOKEN}":
                    self._answer(401, {})
                else:
                    self._answer(200, {"value": here.token(audience, **here.changes)})
            else:
                self._answer(404, {})

        def _answer(self, code: int, value: object) -> None:
            body = json.dumps(value).encode()
            self.send_response(code)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 - the base class calls it so
            del format, args

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    here = Issuer(f"http://127.0.0.1:{server.server_address[1]}")
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield here
    finally:
        server.shutdown()
        server.server_close()
        thread.join(10)
