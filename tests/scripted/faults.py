"""Everything that goes wrong between a client and a model: what a scenario answers when it does not reply.

A fault that carries a reply damages the transport of just that reply, so that a test can say what was lost. Each
works for streams and for plain replies; its docstring says where the two differ.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from tests.scripted.values import Reply

_SOME_REPLY = Reply("This reply is here only to be damaged on its way to the client.")


@dataclass(frozen=True)
class HttpError:
    """An error status with a body in the shape of the provider that was asked.

    ``type``, ``code`` and ``param`` replace what the provider would say for that status; ``anthropic`` has no ``code``
    and no ``param``. The functions below make the usual ones.

    Raises:
        ValueError: The status is not an error status.
    """

    status: int
    message: str
    type: str | None = None
    code: str | None = None
    param: str | None = None
    retry_after_s: float | None = None
    """Sent as ``retry-after``. Real providers send whole seconds; the official SDKs take fractions too."""
    should_retry: bool | None = None
    """Sent as ``x-should-retry``, which the official SDKs obey before they look at the status."""
    page: str | None = None
    """An HTML page sent in place of the provider's body, and without its request id, as a proxy before it would."""

    def __post_init__(self) -> None:
        """Refuse statuses that are no errors."""
        if not 400 <= self.status <= 599:
            raise ValueError(f"{self.status} is not an error status")


@dataclass(frozen=True)
class Delayed:
    """The answer ``then``, begun ``seconds`` later. Stopping the server ends the wait: an hour costs no test time."""

    seconds: float
    then: Answer = _SOME_REPLY


@dataclass(frozen=True)
class Dropped:
    """The connection closes without a byte (``before``), or in the middle of a reply that promised more."""

    at: Literal["before", "middle"]
    reply: Reply = _SOME_REPLY


@dataclass(frozen=True)
class Truncated:
    """A complete HTTP response whose JSON is cut in half; a stream ends properly, but inside an event."""

    reply: Reply = _SOME_REPLY


@dataclass(frozen=True)
class Malformed:
    """A complete HTTP response that is not JSON; in a stream one event in the middle is not."""

    reply: Reply = _SOME_REPLY


@dataclass(frozen=True)
class Empty:
    """Status 200 and no body at all; a stream without an event."""


@dataclass(frozen=True)
class SlowDrip:
    """The whole reply, correct, ``piece_bytes`` at a time with ``pause_s`` between. No single read need ever time out.

    Raises:
        ValueError: A piece has no bytes.
    """

    reply: Reply = _SOME_REPLY
    pause_s: float = 0.01
    piece_bytes: int = 16

    def __post_init__(self) -> None:
        """Refuse pieces of nothing."""
        if self.piece_bytes < 1:
            raise ValueError("a piece has at least one byte")


@dataclass(frozen=True)
class Endless:
    """A reply that goes on with ``text`` until the client hangs up or the server stops. Not streamed: white space."""

    text: str = "and so on "
    pause_s: float = 0.001


@dataclass(frozen=True)
class ErrorInStream:
    """The first half of the reply's events, then ``error`` as an event: status 200 is long gone.

    Where nothing is streamed it is ``error`` alone.
    """

    error: HttpError
    reply: Reply = _SOME_REPLY


Fault = HttpError | Delayed | Dropped | Truncated | Malformed | Empty | SlowDrip | Endless | ErrorInStream
Answer = Reply | Fault


def unsupported_parameter(name: str) -> HttpError:
    """Return the 400 for a parameter that this model does not take."""
    message = f"Unsupported parameter: '{name}' is not supported with this model."
    return HttpError(400, message, code="unsupported_parameter", param=name)


def context_too_long(limit: int = 200_000) -> HttpError:
    """Return the 400 for a prompt that does not fit the model's context."""
    message = f"prompt is too long: the maximum context length of this model is {limit} tokens"
    return HttpError(400, message, code="context_length_exceeded", param="messages")


def unauthorized() -> HttpError:
    """Return the 401 for a wrong key."""
    return HttpError(401, "The API key is not valid.")


def forbidden() -> HttpError:
    """Return the 403 for a key without permission."""
    return HttpError(403, "This API key may not use this resource.")


def no_such_model(name: str = "no-such-model") -> HttpError:
    """Return the 404 for a model that does not exist or is not open to this key."""
    return HttpError(404, f"The model '{name}' does not exist or you have no access to it.", param="model")


def too_large() -> HttpError:
    """Return the 413 for a body above the provider's limit."""
    return HttpError(413, "Request exceeds the maximum size.")


def rate_limited(retry_after_s: float | None = 1) -> HttpError:
    """Return the 429 for too many requests."""
    return HttpError(429, "Rate limit reached.", retry_after_s=retry_after_s)


def quota_exceeded() -> HttpError:
    """Return the 429 that no retry helps: the account has no credit, as ``openai`` says it, in ``code`` and ``type``.

    With ``anthropic`` that is status 402.
    """
    return HttpError(429, "You exceeded your current quota.", type="insufficient_quota", code="insufficient_quota")


def server_error() -> HttpError:
    """Return the 500 of a provider that fails."""
    return HttpError(500, "The server had an error while processing your request.")


def unavailable(retry_after_s: float | None = None) -> HttpError:
    """Return the 503 of a provider that is down."""
    return HttpError(503, "The service is unavailable.", retry_after_s=retry_after_s)


def overloaded(retry_after_s: float | None = None) -> HttpError:
    """Return the 529 of a provider that has no capacity left."""
    return HttpError(529, "Overloaded", retry_after_s=retry_after_s)


def bad_gateway() -> HttpError:
    """Return the 502 of a proxy: an HTML page and no JSON."""
    return HttpError(502, "Bad Gateway", page="<html><body><h1>502 Bad Gateway</h1></body></html>\n")
