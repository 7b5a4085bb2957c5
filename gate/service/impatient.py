"""HTTP for whoever is quick enough: a connection that asks for nothing gives its place to somebody else.

uvicorn waits for ever for the first request of a connection, and for the end of one that has begun; with so many connections
at a time as a service takes, a stranger could hold them all with a byte now and then.
"""

from __future__ import annotations

import asyncio
from functools import cache
from typing import Any

HEAD_SECONDS = 15.0
"""For the head of a request to arrive, from the connection's beginning or the end of the answer before."""


@cache
def impatient() -> type[asyncio.Protocol]:
    """uvicorn's protocol with that limit, as ``http`` of its configuration."""
    from uvicorn.protocols.http.h11_impl import H11Protocol

    class Impatient(H11Protocol):
        def connection_made(self, transport: Any) -> None:
            super().connection_made(transport)
            self._await_request()

        def on_response_complete(self) -> None:
            super().on_response_complete()
            self._await_request()

        def _await_request(self) -> None:
            before = self.cycle
            self.loop.call_later(HEAD_SECONDS, lambda: self._too_late(before))

        def _too_late(self, before: Any) -> None:
            """Nothing was asked since ``before``, the request that was answered last."""
            now: Any = self.cycle  # None before the first
            if now is before and (now is None or now.response_complete) and not self.transport.is_closing():
                self.transport.close()

    return Impatient
