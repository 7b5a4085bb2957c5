"""What can go wrong between a client and GitHub, to be scripted by a test."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

Json = Any

SECONDARY = (
    "You have exceeded a secondary rate limit. Please wait a few minutes before you try again. "
    "If you reach out to GitHub Support for help, please include the request ID."
)
PRIMARY = "API rate limit exceeded for installation ID 4242."
_DOCUMENTATION = "https://docs.github.com/rest"


@dataclass(frozen=True)
class Fault:
    """An answer in place of GitHub's own. ``applied``: the request takes effect all the same, and nobody learns of it."""

    status: int
    body: Json = None
    headers: Mapping[str, str] = field(default_factory=dict)
    page: str | None = None
    """An HTML page in place of a JSON body, as a proxy or an overloaded GitHub sends it."""
    applied: bool = False
    delay_s: float = 0.0
    """Waits before it answers; stopping the server ends the wait."""
    dropped: bool = False
    """Hangs up without an answer."""
    drip_s: float = 0.0
    """Sends the answer byte by byte with such pauses, so that no single read ever times out."""
    passed: bool = False
    """Not a fault but GitHub's own answer, only late."""


def secondary_limit(retry_after_s: int | None = None, status: Literal[403, 429] = 403) -> Fault:
    """Too much at once. GitHub often leaves out how long to wait."""
    headers = {} if retry_after_s is None else {"retry-after": str(retry_after_s)}
    return Fault(status, _error(status, SECONDARY), headers)


def primary_limit(reset_in_s: int, status: Literal[403, 429] = 403) -> Fault:
    """The hour's requests are used up. The server fills in the time of the reset."""
    return Fault(status, _error(status, PRIMARY), {"x-ratelimit-remaining": "0", "x-reset-in": str(reset_in_s)})


def server_error(status: int = 502, *, applied: bool = False, page: str | None = None) -> Fault:
    """GitHub's own failure."""
    return Fault(status, None if page else _error(status, "Server Error"), page=page, applied=applied)


def refused(status: int, message: str) -> Fault:
    """Any error with a message."""
    return Fault(status, _error(status, message))


def dropped(*, applied: bool = False) -> Fault:
    """The connection ends without an answer."""
    return Fault(0, dropped=True, applied=applied)


def silent(seconds: float = 3600.0, *, applied: bool = False) -> Fault:
    """No answer for so long."""
    return Fault(0, delay_s=seconds, dropped=True, applied=applied)


def dripping(pause_s: float) -> Fault:
    """GitHub's own answer, byte by byte."""
    return Fault(0, drip_s=pause_s, passed=True)


def _error(status: int, message: str) -> Json:
    return {"message": message, "documentation_url": _DOCUMENTATION, "status": str(status)}
