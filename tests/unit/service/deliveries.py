"""Deliveries as GitHub sends them."""

from __future__ import annotations

import hashlib
import hmac
import http.client
import json
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

SECRET = "It's a Secret to Everybody"
HEAD, BASE = "a" * 40, "b" * 40


def payload(action: str = "opened", *, repository: str = "acme/skills", **pull: Any) -> dict[str, Any]:
    """A pull_request event."""
    repo = {"id": 1, "full_name": repository, "default_branch": "main"}
    return {
        "action": action,
        "number": 7,
        "pull_request": {
            "number": 7,
            "state": "open",
            "draft": False,
            "user": {"login": "octocat"},
            "head": {"sha": HEAD, "ref": "feature", "repo": repo},
            "base": {"sha": BASE, "ref": "main", "repo": repo},
            "labels": [],
            **pull,
        },
        "repository": repo,
        "sender": {"login": "octocat"},
    }


def signature(secret: str, body: bytes) -> str:
    """The value of X-Hub-Signature-256 for a body, by GitHub's own description."""
    return "sha256=" + hmac.new(secret.encode("utf-8"), body, hashlib.sha256).hexdigest()


def encoded(value: object) -> bytes:
    """As GitHub writes JSON."""
    return json.dumps(value, separators=(",", ":")).encode()


def headers_for(body: bytes, delivery: str = "d-1", *, secret: str = SECRET, **changes: str) -> dict[str, str]:
    """What GitHub sends with a body. ``changes``: with underscores for dashes."""
    return {
        "content-type": "application/json",
        "x-github-event": "pull_request",
        "x-github-delivery": delivery,
        "x-hub-signature-256": signature(secret, body),
        **{name.replace("_", "-"): value for name, value in changes.items()},
    }


@dataclass
class Answered:
    """A reply."""

    code: int
    value: dict[str, Any]


def request(
    port: int, method: str, path: str, body: bytes | Iterator[bytes] = b"", headers: Mapping[str, str] | None = None
) -> Answered:
    """One request on loopback. An iterator is sent in chunks, without a length."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=30)
    try:
        connection.request(method, path, body, dict(headers or {}), encode_chunked=not isinstance(body, bytes))
        reply = connection.getresponse()
        text = reply.read()
        return Answered(reply.status, json.loads(text) if text.startswith(b"{") else {})
    finally:
        connection.close()


def deliver(port: int, value: object, delivery: str = "d-1", **changes: str) -> Answered:
    """Send an event with its signature."""
    body = encoded(value)
    return request(port, "POST", "/webhooks/github", body, headers_for(body, delivery, **changes))


class Listening:
    """Catches the line that says where a service listens."""

    def __init__(self) -> None:
        self.lines: list[str] = []
        self._there = threading.Event()
        self._port = 0

    def say(self, text: str) -> None:
        """To be given as ``say``."""
        self.lines.append(text)
        if text.startswith("listening on "):
            self._port = int(text.rpartition(":")[2])
            self._there.set()

    @property
    def port(self) -> int:
        """Waits for it."""
        assert self._there.wait(30), self.lines
        return self._port


@contextmanager
def in_thread(target: Any, stop: threading.Event) -> Iterator[threading.Thread]:
    """Run a service beside the test; it must end when it is told to."""
    thread = threading.Thread(target=target, daemon=True)
    thread.start()
    try:
        yield thread
    finally:
        stop.set()
        thread.join(30)
    assert not thread.is_alive()
