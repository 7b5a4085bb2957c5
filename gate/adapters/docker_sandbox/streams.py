"""Output of a process in a container: frames off a raw socket, bounded in memory, with a deadline that silence can't outlast."""

from __future__ import annotations

import selectors
import time
from enum import Enum
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import socket
    from collections.abc import Callable

HARD_CAP_BYTES = 64 * 1024 * 1024
"""Beyond this much output a process is stopped: it says nothing more that anybody will read."""
QUIET_CHECK_S = 0.3
"""After this long without output the engine is asked whether the process still runs."""
_CHUNK = 65_536
_STDERR = 2
_HEADER_BYTES = 8


class Kept:
    """The first and the last bytes of a stream, at most ``cap`` in all, and how many there really were."""

    def __init__(self, cap: int) -> None:
        """``cap``: bytes kept, at least 0."""
        self.total = 0
        self._cap = max(0, cap)
        self._head_cap = self._cap // 2
        self._tail_cap = self._cap - self._head_cap
        self._head = bytearray()
        self._tail = bytearray()

    def add(self, data: bytes | memoryview) -> None:
        """Take the next bytes."""
        self.total += len(data)
        room = self._head_cap - len(self._head)
        if room > 0:
            self._head += data[:room]
            data = data[room:]
        if len(data) >= self._tail_cap:
            self._tail[:] = data[len(data) - self._tail_cap :]
            return
        self._tail += data
        # Trimmed in big steps, so that a long stream of small pieces costs no more than its length.
        if len(self._tail) > 2 * self._tail_cap + _CHUNK:
            del self._tail[: len(self._tail) - self._tail_cap]

    @property
    def truncated(self) -> bool:
        """Whether bytes were left out."""
        return self.total > self._cap

    def content(self) -> bytes:
        """What was kept. Where bytes are missing a line says how many: head and tail must not read as neighbours."""
        if not self.truncated:
            return bytes(self._head + self._tail)
        tail = bytes(self._tail[len(self._tail) - self._tail_cap :])
        mark = b""
        for _ in range(2):  # the number is part of the line, whose length changes the number
            mark = b"\n[... %d bytes left out here ...]\n" % (self.total - self._cap + len(mark))
        if len(mark) > self._tail_cap:
            return bytes(self._head) + tail
        return bytes(self._head) + mark + tail[len(mark) :]


class Demux:
    """Takes apart the engine's multiplexed stream: 8 bytes of header (stream, 3 unused, length as u32 BE), then the data.

    Everything that begins with ``start_mark`` on stderr came from a process that did start; the mark itself is taken out.
    It is drawn for each call, and nothing in the container can write to a stream of a process that did not start.
    """

    def __init__(self, cap: int, start_mark: bytes = b"") -> None:
        """``cap``: bytes kept of each stream."""
        self.stdout = Kept(cap)
        self.stderr = Kept(cap)
        self.started = not start_mark
        self._mark = start_mark
        self._early = bytearray()
        self._header = bytearray()
        self._stream = 0
        self._missing = 0

    @property
    def total(self) -> int:
        """Bytes of both streams so far."""
        return self.stdout.total + self.stderr.total

    def feed(self, data: bytes) -> None:
        """Take what came off the socket, cut anywhere."""
        view = memoryview(data)
        while view:
            if self._missing:
                piece = view[: self._missing]
                self._missing -= len(piece)
                self._emit(piece)
                view = view[len(piece) :]
                continue
            piece = view[: _HEADER_BYTES - len(self._header)]
            self._header += piece
            view = view[len(piece) :]
            if len(self._header) == _HEADER_BYTES:
                self._stream = self._header[0]
                self._missing = int.from_bytes(self._header[4:8], "big")
                self._header.clear()

    def _emit(self, piece: memoryview) -> None:
        if self._stream != _STDERR:
            self.stdout.add(piece)
        elif self.started:
            self.stderr.add(piece)
        else:
            self._early += piece
            if len(self._early) >= len(self._mark):
                self.finish()

    def finish(self) -> None:
        """No more will come (or enough has): settle whether the mark was there."""
        if self._early and not self.started:
            early = bytes(self._early)
            self._early.clear()
            if early.startswith(self._mark):
                self.started = True
                early = early[len(self._mark) :]
            # Without the mark it is the engine that speaks; it is kept to be shown, and what follows it too.
            self.stderr.add(early)


class End(Enum):
    """Why a pump stopped."""

    CLOSED = "closed"
    DEADLINE = "deadline"
    FLOOD = "flood"


def pump(
    sock: socket.socket,
    demux: Demux,
    *,
    early: bytes = b"",
    stdin: bytes = b"",
    close_stdin: bool = False,
    deadline: float,
    runs: Callable[[], bool],
    hard_cap: int = HARD_CAP_BYTES,
) -> End:
    """Move stdin in and output out until the stream ends, ``deadline`` (time.monotonic) passes or too much was printed.

    ``early`` is what was read off the socket together with the response header. ``close_stdin``: half-close after stdin, so
    that the process sees its end. ``runs`` is asked in silence; False ends the wait (a process that was left running in the
    background can hold the stream open). The socket is non-blocking afterwards and stays open. Raises what ``runs`` raises.
    """
    demux.feed(early)
    sock.setblocking(False)
    pending = memoryview(stdin)
    quiet_since = time.monotonic()
    with selectors.DefaultSelector() as selector:
        writing = bool(pending) or close_stdin
        selector.register(sock, selectors.EVENT_READ | (selectors.EVENT_WRITE if writing else 0))
        while True:
            now = time.monotonic()
            if demux.total > hard_cap:
                return End.FLOOD
            if now >= deadline:
                return End.DEADLINE
            ready = selector.select(min(deadline - now, QUIET_CHECK_S))
            mask = ready[0][1] if ready else 0
            if mask & selectors.EVENT_WRITE:
                pending, writing = _send(sock, pending, close_stdin=close_stdin)
                if not writing:
                    selector.modify(sock, selectors.EVENT_READ)
            if mask & selectors.EVENT_READ:
                data = _receive(sock)
                if data == b"":
                    return End.CLOSED
                if data:
                    demux.feed(data)
                quiet_since = time.monotonic()
            elif time.monotonic() - quiet_since >= QUIET_CHECK_S:
                if not runs():
                    _drain(sock, demux)
                    return End.CLOSED
                quiet_since = time.monotonic()


def _send(sock: socket.socket, pending: memoryview, *, close_stdin: bool) -> tuple[memoryview, bool]:
    import socket as sockets

    try:
        if pending:
            pending = pending[sock.send(pending[:_CHUNK]) :]
        if not pending and close_stdin:
            sock.shutdown(sockets.SHUT_WR)
    except BlockingIOError:
        return pending, True
    except OSError:
        # The process has ended or closed its stdin; what it printed is still to be read.
        return pending[:0], False
    return pending, bool(pending)


def _receive(sock: socket.socket) -> bytes | None:
    """The next bytes, b"" at the end, None where there are none right now."""
    try:
        return sock.recv(_CHUNK)
    except BlockingIOError:
        return None
    except OSError:
        return b""


def _drain(sock: socket.socket, demux: Demux, limit: int = 1_048_576) -> None:
    """What is already there from a process that has ended."""
    taken = 0
    while taken < limit and (data := _receive(sock)):
        demux.feed(data)
        taken += len(data)
