"""The gateway of a session: one loop in one thread, a door for every sandbox."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import secrets
import threading
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

from gate.adapters.gateway import relay
from gate.adapters.gateway.app import Door, House
from gate.adapters.gateway.chat import ChatCompletions
from gate.adapters.gateway.line import Line
from gate.adapters.gateway.messages import Messages
from gate.adapters.gateway.responses import Responses
from gate.adapters.model_calls import Retry
from gate.errors import ConfigurationError, SandboxError

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from pydantic import SecretStr

    from gate.adapters.gateway.dialect import Dialect
    from gate.adapters.model_names import ModelName
    from gate.domain.chat import TokenUsage
    from gate.domain.gateway import Dialect as DialectName
    from gate.domain.gateway import McpCall
    from gate.llm.ledger import Ledger
    from gate.protocols import Box, Channel, Clock, GatewayObserver, McpTools, Recorder

PORT = 8099
"""Inside a sandbox, whose network is its own."""
READY_S = 30.0
FINISH_S = 10.0
SILENCE_S = 300.0
"""The longest time without a byte from the provider."""
_quiet = logging.getLogger("skill-gate.gateway")
_quiet.addHandler(logging.NullHandler())
_quiet.propagate = False


class Gateway:
    """``gate.protocols.ModelGateway`` for one model. Thread-safe."""

    def __init__(
        self,
        name: ModelName,
        key: SecretStr,
        *,
        ledger: Ledger,
        clock: Clock,
        retry: Retry | None = None,
        silence_s: float = SILENCE_S,
        port: int = PORT,
    ) -> None:
        """``name``: of a live model; the only place that requests are ever sent to. ``port``: of the relays, each of which
        has a loopback of its own; 0 takes a free one. Raises ConfigurationError for a replay.
        """
        if name.provider == "replay":
            raise ConfigurationError(
                "A replay cannot stand behind an agent program.", remedy="Name a live model, or use the harness loop."
            )
        self._name = name
        self._key = key
        self._ledger = ledger
        self._clock = clock
        self._retry = retry or Retry()
        self._silence_s = silence_s
        self._port = port
        self._served: tuple[Dialect, ...] = (
            (Messages(),) if name.provider == "anthropic" else (Responses(), ChatCompletions())
        )
        self._lock = threading.Lock()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._house: House | None = None

    def __repr__(self) -> str:
        """Without the key."""
        return f"Gateway({self._name.text!r})"

    @property
    def model(self) -> str:
        """The only model that may be asked for."""
        return self._name.model

    @property
    def dialects(self) -> frozenset[DialectName]:
        """What the provider of the model speaks."""
        return frozenset(dialect.name for dialect in self._served)

    def close(self) -> None:
        """End the loop; it comes back on the next use."""
        with self._lock:
            loop, self._loop, house, self._house = self._loop, None, self._house, None
        if loop is None:
            return
        if house is not None:
            with contextlib.suppress(TimeoutError):
                asyncio.run_coroutine_threadsafe(house.client.aclose(), loop).result(5)
        loop.call_soon_threadsafe(loop.stop)

    @contextlib.contextmanager
    def serve(
        self, box: Box, *, label: str, observer: GatewayObserver, log: Recorder, mcp: McpTools | None = None
    ) -> Iterator[Way]:
        """Open the way from one box. See ``gate.protocols.ModelGateway.serve``."""
        loop, house = self._running()
        token = secrets.token_hex(16)
        door = _in(loop, _made(lambda: Door(house, token=token, label=label, observer=observer, log=log, mcp=mcp)))
        source = Path(relay.__file__).read_text(encoding="utf-8")
        with box.connect(["python3", "-I", "-B", "-c", source, str(self._port)]) as channel:
            line = Line(loop, channel, _connections(door, loop))
            line.start()
            try:
                if not line.wait_ready(READY_S):
                    raise SandboxError(
                        f"The relay in the sandbox did not come up: {_why(line, channel)}.",
                        remedy="Use a sandbox image that holds python3, of version 3.9 or newer.",
                    )
                yield Way(door, line, token)
            finally:
                line.close()
                with contextlib.suppress(TimeoutError):
                    _in(loop, door.finish())
        if door.failure is not None:
            raise door.failure

    def _running(self) -> tuple[asyncio.AbstractEventLoop, House]:
        with self._lock:
            if self._loop is None or self._house is None:
                self._loop = asyncio.new_event_loop()
                threading.Thread(target=_run, args=(self._loop,), name="gateway", daemon=True).start()
                self._house = _in(self._loop, _made(self._make_house))
            return self._loop, self._house

    def _make_house(self) -> House:
        import httpx2

        from gate.adapters import anthropic_model, openai_model

        own = anthropic_model.BASE_URL if self._name.provider == "anthropic" else openai_model.BASE_URL
        client = httpx2.AsyncClient(
            timeout=httpx2.Timeout(self._silence_s, connect=10.0),
            follow_redirects=False,  # a key must not travel on
            trust_env=not self._name.is_local,
            limits=httpx2.Limits(max_connections=None, max_keepalive_connections=20),
        )
        return House(
            name=self._name.text,
            model=self._name.model,
            base_url=self._name.base_url or own,
            key=self._key,
            dialects=self._served,
            client=client,
            ledger=self._ledger,
            clock=self._clock,
            retry=self._retry,
        )


class Way:
    """``gate.protocols.GatewayLine``."""

    def __init__(self, door: Door, line: Line, token: str) -> None:
        self._door = door
        self._line = line
        self.token = token
        self.url = f"http://127.0.0.1:{line.port}"

    @property
    def broken(self) -> str | None:
        """Why the way is gone although nobody closed it."""
        return self._line.broken

    @property
    def model_ms(self) -> int:
        """For how long at least one answer was waited for."""
        return self._door.model_ms

    @property
    def mcp_calls(self) -> tuple[McpCall, ...]:
        """What the mock servers were asked and answered."""
        return tuple(self._door.calls)

    @property
    def counts(self) -> Mapping[str, int]:
        """Kind of fallback -> how often."""
        refused = {"gateway_connection_refused": self._line.refused} if self._line.refused else {}
        return {**{kind: count for kind, count in self._door.counts.items() if count}, **refused}

    def wait_idle(self, seconds: float) -> None:
        """Wait until no answer is under way."""
        deadline = time.monotonic() + seconds
        while self._door.is_busy and time.monotonic() < deadline:
            time.sleep(0.01)

    def spending(self) -> tuple[TokenUsage | None, float | None]:
        """Tokens and dollars of this run."""
        return self._door.spending()


def _run(loop: asyncio.AbstractEventLoop) -> None:
    asyncio.set_event_loop(loop)
    try:
        loop.run_forever()
    finally:
        loop.close()


def _in(loop: asyncio.AbstractEventLoop, coroutine: Any) -> Any:
    return asyncio.run_coroutine_threadsafe(coroutine, loop).result(FINISH_S)


async def _made(make: Any) -> Any:
    """What belongs to a loop is made in it."""
    return make()


def _why(line: Line, channel: Channel) -> str:
    said = str(getattr(channel, "complaint", ""))
    return f"{line.broken or f'it was not ready within {READY_S:g} s'}{f' ({said})' if said else ''}"


def _connections(door: Door, loop: asyncio.AbstractEventLoop) -> Any:
    """Makes the HTTP server of one connection."""
    from uvicorn import Config
    from uvicorn.protocols.http.h11_impl import H11Protocol
    from uvicorn.server import ServerState

    config = Config(
        door,
        lifespan="off",
        log_config=None,
        access_log=False,
        http="h11",
        ws="none",
        server_header=False,
        # A connection that is closed in the moment of its next use would look like a cut answer.
        timeout_keep_alive=24 * 3600,
    )
    config.load()
    state = ServerState()

    class Connection(H11Protocol):
        def __init__(self) -> None:
            super().__init__(config, state, {}, loop)
            # What a program in a sandbox sends wrong is on the record; it is nobody's business on this terminal.
            self.logger = self.access_logger = _quiet
            self.access_log = False

    return Connection
