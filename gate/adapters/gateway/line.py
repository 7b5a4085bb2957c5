"""The gate's end of a relay: connections of one sandbox, each handed to an HTTP server in this process, no socket between.

Which sandbox a connection belongs to is known from the pipe it came through, never read from its bytes.
"""

from __future__ import annotations

import asyncio
import contextlib
import queue
import struct
import threading
from typing import TYPE_CHECKING, Any

from gate.adapters.gateway.relay import CREDIT, DATA, EOF, HEADER, LARGEST, OPEN, READY, RESET, WINDOW

if TYPE_CHECKING:
    from collections.abc import Callable

    from gate.protocols import Channel

STREAMS = 64
"""Connections of one sandbox at the same time; more are refused."""
_KINDS = frozenset({OPEN, DATA, EOF, RESET, CREDIT, READY})


class BrokenLineError(Exception):
    """What came out of the relay is no frame, or breaks the rules of its windows."""


class Frames:
    """Takes apart a stream of frames that is cut anywhere."""

    def __init__(self) -> None:
        self._held = bytearray()

    def feed(self, data: bytes) -> list[tuple[int, int, bytes]]:
        """The frames that are complete now: (kind, stream, payload). Raises BrokenLineError."""
        self._held += data
        found = []
        start = 0
        while len(self._held) - start >= HEADER.size:
            kind, number, length = HEADER.unpack_from(self._held, start)
            if kind not in _KINDS or length > LARGEST:
                raise BrokenLineError(f"a frame of kind {kind} and {length} bytes")
            end = start + HEADER.size + length
            if end > len(self._held):
                break
            found.append((kind, number, bytes(self._held[start + HEADER.size : end])))
            start = end
        del self._held[:start]
        return found


class StreamTransport(asyncio.Transport):
    """One connection as asyncio sees it: what is written waits for credit, what is read gives credit back."""

    def __init__(self, line: Line, number: int) -> None:
        super().__init__()
        self._line = line
        self._number = number
        self._protocol: asyncio.Protocol | None = None
        self._credit = WINDOW
        self._outgoing = bytearray()
        self._unread = bytearray()
        self._granted_to_peer = WINDOW
        self._paused_reading = False
        self._told_to_pause = False
        self._closing = False
        self._lost = False

    # --- asyncio's side

    def attach(self, protocol: asyncio.Protocol) -> None:
        """Begin: the protocol is told of its connection."""
        self._protocol = protocol
        protocol.connection_made(self)

    def get_extra_info(self, name: str, default: Any = None) -> Any:
        """Nothing is known of it: it has no address."""
        del name
        return default

    def set_protocol(self, protocol: asyncio.BaseProtocol) -> None:
        """Hand over to another protocol."""
        self._protocol = protocol  # type: ignore[assignment]

    def get_protocol(self) -> asyncio.BaseProtocol:
        """The protocol in use."""
        if self._protocol is None:
            raise RuntimeError("no protocol is attached")
        return self._protocol

    def is_closing(self) -> bool:
        """Whether it was closed or is lost."""
        return self._closing or self._lost

    def is_reading(self) -> bool:
        """Whether what comes in is handed on."""
        return not self._paused_reading and not self.is_closing()

    def pause_reading(self) -> None:
        """Hold back what comes in: the peer then runs out of credit."""
        self._paused_reading = True

    def resume_reading(self) -> None:
        """Hand on what was held back."""
        self._paused_reading = False
        self._hand_on()

    def write(self, data: bytes | bytearray | memoryview) -> None:
        """Send, as far as there is credit; the rest waits."""
        if not self.is_closing():
            self._outgoing += data
            self._flush()

    def close(self) -> None:
        """Close when everything written has been sent."""
        if not self.is_closing():
            self._closing = True
            self._flush()

    def abort(self) -> None:
        """Close at once."""
        if not self._lost:
            self._line.send(RESET, self._number)
            self._lose(None)

    # --- the line's side

    def received(self, data: bytes) -> None:
        """Bytes of the program. Raises BrokenLineError for more than was granted."""
        self._granted_to_peer -= len(data)
        if self._granted_to_peer < 0:
            raise BrokenLineError("more bytes than were granted")
        self._unread += data
        self._hand_on()

    def granted(self, more: int) -> None:
        """The program has taken so many bytes more."""
        self._credit += more
        self._flush()

    def hung_up(self) -> None:
        """The program has ended its side, or the connection is gone: whatever it waited for is not wanted any more."""
        if not self._lost:
            self._line.send(RESET, self._number)
            self._lose(None)

    def broken(self, error: Exception | None) -> None:
        """The whole line is gone."""
        self._lose(error)

    def _hand_on(self) -> None:
        while self._unread and self.is_reading() and self._protocol is not None:
            data = bytes(self._unread)
            self._unread.clear()
            self._granted_to_peer += len(data)
            self._line.send(CREDIT, self._number, struct.pack(">I", len(data)))
            self._protocol.data_received(data)

    def _flush(self) -> None:
        while self._outgoing and self._credit > 0 and not self._lost:
            size = min(len(self._outgoing), self._credit, LARGEST)
            self._credit -= size
            self._line.send(DATA, self._number, bytes(self._outgoing[:size]))
            del self._outgoing[:size]
        if self._closing and not self._outgoing and not self._lost:
            self._line.send(EOF, self._number)
            self._lose(None)
        elif self._protocol is not None and not self._lost:
            waits = len(self._outgoing) > WINDOW
            if waits != self._told_to_pause:
                self._told_to_pause = waits
                (self._protocol.pause_writing if waits else self._protocol.resume_writing)()

    def _lose(self, error: Exception | None) -> None:
        if self._lost:
            return
        self._lost = True
        self._outgoing.clear()
        self._unread.clear()
        self._line.forget(self._number)
        if self._protocol is not None:
            if self._told_to_pause:
                self._told_to_pause = False
                self._protocol.resume_writing()
            self._protocol.connection_lost(error)


class Line:
    """One relay from its READY to its end. Frames are handled in the loop; two threads carry bytes to and from it."""

    def __init__(
        self, loop: asyncio.AbstractEventLoop, channel: Channel, make_protocol: Callable[[], asyncio.Protocol]
    ) -> None:
        """``make_protocol`` is called in the loop for every connection."""
        self._loop = loop
        self._channel = channel
        self._make_protocol = make_protocol
        self._frames = Frames()
        self._streams: dict[int, StreamTransport] = {}
        self._last = 0
        self._refused = 0
        self._out: queue.Queue[bytes | None] = queue.Queue()
        self._ready = threading.Event()
        self._ended = threading.Event()
        self._why = ""
        self._closed = False
        self.port = 0
        """Where the relay listens, once it is ready."""
        self._threads = [
            threading.Thread(target=self._read, name="relay-read", daemon=True),
            threading.Thread(target=self._write, name="relay-write", daemon=True),
        ]

    def start(self) -> None:
        """Begin to carry. Once only."""
        for thread in self._threads:
            thread.start()

    def wait_ready(self, seconds: float) -> bool:
        """Whether the relay listens, at the latest after ``seconds``."""
        self._ready.wait(seconds)
        return self._ready.is_set() and not self._ended.is_set()

    @property
    def broken(self) -> str | None:
        """Why the line ended although nobody closed it; None: it has not."""
        return (self._why or "it ended") if self._ended.is_set() and not self._closed else None

    @property
    def refused(self) -> int:
        """Connections that were one too many."""
        return self._refused

    def close(self) -> None:
        """End every connection and the relay, and wait until the threads have gone (bounded)."""
        self._closed = True
        self._out.put(None)
        self._channel.close()
        for thread in self._threads:
            thread.join(5)

    # --- in the loop

    def send(self, kind: int, number: int, data: bytes = b"") -> None:
        """Queue one frame. What waits is bounded by the credit of the streams."""
        self._out.put(HEADER.pack(kind, number, len(data)) + data)

    def forget(self, number: int) -> None:
        """A stream is gone."""
        self._streams.pop(number, None)

    def _take(self, data: bytes) -> None:
        for kind, number, payload in self._frames.feed(data):
            self._frame(kind, number, payload)

    def _frame(self, kind: int, number: int, payload: bytes) -> None:
        if kind == READY:
            self.port = struct.unpack(">I", payload)[0]
            self._ready.set()
            return
        if kind == OPEN:
            self._open(number)
            return
        stream = self._streams.get(number)
        if stream is None:
            return  # late frames of a stream that is gone
        if kind == DATA:
            stream.received(payload)
        elif kind == CREDIT:
            if len(payload) != 4:
                raise BrokenLineError("a credit of no number")
            stream.granted(struct.unpack(">I", payload)[0])
        elif kind in (EOF, RESET):
            stream.hung_up()

    def _open(self, number: int) -> None:
        if number <= self._last:
            raise BrokenLineError("a stream's number was used twice")
        self._last = number
        if len(self._streams) >= STREAMS:
            self._refused += 1
            self.send(RESET, number)
            return
        stream = StreamTransport(self, number)
        self._streams[number] = stream
        stream.attach(self._make_protocol())

    def _drop_all(self) -> None:
        for stream in list(self._streams.values()):
            stream.broken(None)

    # --- threads

    def _read(self) -> None:
        why = "the relay ended"
        try:
            while data := self._channel.read():
                # One piece at a time: a flood of frames cannot pile up in the loop.
                asyncio.run_coroutine_threadsafe(self._taken(data), self._loop).result()
        except BrokenLineError as error:
            why = f"the relay sent nonsense: {error}"
        except Exception as error:  # noqa: BLE001 - whatever it is, the line is over and says why
            why = f"the connection to the relay broke: {error}"
        self._why = why
        self._ended.set()
        self._ready.set()
        self._out.put(None)
        with contextlib.suppress(RuntimeError):  # the loop may be closed by now
            self._loop.call_soon_threadsafe(self._drop_all)

    async def _taken(self, data: bytes) -> None:
        self._take(data)

    def _write(self) -> None:
        while (data := self._out.get()) is not None:
            try:
                self._channel.write(data)
            except Exception:  # noqa: BLE001 - the reader sees the same end, and says why
                return
