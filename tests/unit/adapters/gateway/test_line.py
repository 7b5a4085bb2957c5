"""The relay and the gate's end of it: real processes and pipes, bytes cut anywhere, windows, hostile frames."""

from __future__ import annotations

import asyncio
import contextlib
import socket
import struct
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gate.adapters.gateway import relay
from gate.adapters.gateway.line import STREAMS, BrokenLineError, Frames, Line
from gate.adapters.gateway.relay import CREDIT, DATA, EOF, HEADER, LARGEST, OPEN, READY, WINDOW
from tests.fakes.sandbox import ProcessChannel


def frame(kind: int, number: int, data: bytes = b"") -> bytes:
    return HEADER.pack(kind, number, len(data)) + data


@given(
    st.lists(st.tuples(st.sampled_from([OPEN, DATA, EOF, CREDIT]), st.integers(0, 9), st.binary(max_size=40))),
    st.integers(1, 20),
)
def test_frames_are_the_same_however_the_bytes_are_cut(frames: list[tuple[int, int, bytes]], size: int) -> None:
    raw = b"".join(frame(*item) for item in frames)
    reader = Frames()
    assert [f for start in range(0, len(raw), size) for f in reader.feed(raw[start : start + size])] == frames


@pytest.mark.parametrize("raw", [HEADER.pack(99, 1, 0), HEADER.pack(DATA, 1, LARGEST + 1)])
def test_nonsense_breaks_the_line(raw: bytes) -> None:
    with pytest.raises(BrokenLineError):
        Frames().feed(raw)


class Echo(asyncio.Protocol):
    """Sends back what it gets; ``size`` bytes at once for a request ``get``."""

    size = 5_000_000
    lost: list[bool]

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self.transport = transport

    def data_received(self, data: bytes) -> None:
        if data.startswith(b"get"):
            self.transport.write(b"x" * self.size)
            self.transport.close()
        elif data.startswith(b"bye"):
            self.transport.abort()
        else:
            self.transport.write(data)


@contextlib.contextmanager
def a_loop() -> Iterator[asyncio.AbstractEventLoop]:
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever, daemon=True)
    thread.start()
    try:
        yield loop
    finally:
        loop.call_soon_threadsafe(loop.stop)
        thread.join(10)
        loop.close()


@contextlib.contextmanager
def a_line(make: Callable[[], asyncio.Protocol] = Echo) -> Iterator[tuple[Line, ProcessChannel]]:
    source = Path(relay.__file__).read_text(encoding="utf-8")
    channel = ProcessChannel([sys.executable, "-I", "-B", "-c", source, "0"])
    with a_loop() as loop:
        line = Line(loop, channel, make)
        line.start()
        try:
            assert line.wait_ready(20)
            yield line, channel
        finally:
            line.close()


def connected(line: Line) -> socket.socket:
    sock = socket.create_connection(("127.0.0.1", line.port), timeout=20)
    sock.settimeout(20)
    return sock


def exactly(sock: socket.socket, size: int) -> bytes:
    pieces = bytearray()
    while len(pieces) < size and (piece := sock.recv(size - len(pieces))):
        pieces += piece
    return bytes(pieces)


def read_all(sock: socket.socket) -> bytes:
    pieces = []
    while piece := sock.recv(65_536):
        pieces.append(piece)
    return b"".join(pieces)


def test_many_connections_share_one_pipe_and_keep_apart() -> None:
    with a_line() as (line, _):
        socks = [connected(line) for _ in range(20)]
        for number, sock in enumerate(socks):
            sock.sendall(b"hello %d;" % number)
        for number, sock in enumerate(socks):
            wanted = b"hello %d;" % number
            assert exactly(sock, len(wanted)) == wanted
            sock.close()


def test_an_answer_that_nobody_reads_does_not_block_the_others() -> None:
    with a_line() as (line, _):
        lazy, busy = connected(line), connected(line)
        lazy.sendall(b"get")
        for _ in range(50):
            busy.sendall(b"ping")
            assert exactly(busy, 4) == b"ping"
        assert len(read_all(lazy)) == Echo.size


def test_a_large_request_goes_through_whole() -> None:
    with a_line() as (line, _):
        sock = connected(line)
        sent = bytes(range(256)) * 8_000
        threading.Thread(target=sock.sendall, args=(sent,)).start()
        assert exactly(sock, len(sent)) == sent


def test_both_ends_learn_that_the_other_hung_up() -> None:
    lost = threading.Event()

    class Watching(Echo):
        def connection_lost(self, exc: Exception | None) -> None:
            lost.set()

    with a_line(Watching) as (line, _):
        sock = connected(line)
        sock.sendall(b"x")
        assert sock.recv(1) == b"x"
        sock.close()
        assert lost.wait(20)
        other = connected(line)
        other.sendall(b"bye")
        with contextlib.suppress(ConnectionError):  # an orderly end, or a reset
            assert other.recv(10) == b""


def test_a_relay_that_dies_breaks_the_line_and_every_connection_on_it() -> None:
    lost = threading.Event()

    class Watching(Echo):
        def connection_lost(self, exc: Exception | None) -> None:
            lost.set()

    with a_line(Watching) as (line, channel):
        sock = connected(line)
        sock.sendall(b"x")
        assert sock.recv(1) == b"x"
        assert line.broken is None
        channel._process.kill()
        assert lost.wait(20)
        assert line.broken == "the relay ended"


def test_the_relay_ends_when_the_gate_lets_go() -> None:
    with a_line() as (line, channel):
        process = channel._process
        assert process.stdin is not None
        process.stdin.close()
        process.wait(20)
        assert line.port > 0


class Scripted:
    """A Channel that gives what a test wrote and keeps what it is given."""

    def __init__(self, *pieces: bytes) -> None:
        self._pieces = list(pieces)
        self._closed = threading.Event()
        self.written: list[bytes] = []

    def read(self) -> bytes:
        if self._pieces:
            return self._pieces.pop(0)
        self._closed.wait(20)
        return b""

    def write(self, data: bytes) -> None:
        self.written.append(data)

    def close(self) -> None:
        self._closed.set()


@pytest.mark.parametrize(
    "hostile",
    [
        frame(OPEN, 1) + frame(OPEN, 1),
        frame(OPEN, 1) + b"".join(frame(DATA, 1, b"x" * LARGEST) for _ in range(WINDOW // LARGEST + 1)),
        frame(OPEN, 1) + frame(CREDIT, 1, b"x"),
        b"HTTP/1.1 200 OK\r\n\r\n",
    ],
)
def test_a_relay_that_breaks_the_rules_is_cut_off(hostile: bytes) -> None:
    class Deaf(asyncio.Protocol):
        def connection_made(self, transport: asyncio.BaseTransport) -> None:
            assert isinstance(transport, asyncio.Transport)
            transport.pause_reading()

    with a_loop() as loop:
        line = Line(loop, Scripted(frame(READY, 0, struct.pack(">I", 1)), hostile), Deaf)
        line.start()
        line._threads[0].join(20)
        assert line.broken is not None
        assert "nonsense" in line.broken
        line.close()


def test_connections_are_capped() -> None:
    pieces = [frame(OPEN, number) for number in range(1, STREAMS + 6)]
    with a_loop() as loop:
        line = Line(loop, Scripted(frame(READY, 0, struct.pack(">I", 1)), *pieces, frame(EOF, 1)), Echo)
        line.start()
        asyncio.run_coroutine_threadsafe(asyncio.sleep(0.2), loop).result(20)
        assert line.refused == 5
        line.close()
