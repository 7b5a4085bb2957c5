"""Runs inside a sandbox: a listener on the loopback whose connections travel over standard input and output.

Handed over as source text (``python3 -I -B -c SOURCE PORT``), so it uses the standard library alone, of Python 3.9 on.
It holds no secret and decides nothing. It ends when its standard input ends.

A frame is: type (1 byte), stream (4 bytes), length (4 bytes, both big-endian), then that many bytes, at most 65,536.
Either side may send as many bytes on a stream as the other has granted (``WINDOW`` at first, more by ``CREDIT``), so that
one answer that nobody reads cannot block the others.
"""

import asyncio
import os
import struct
import sys

OPEN, DATA, EOF, RESET, CREDIT, READY = 1, 2, 3, 4, 5, 6
HEADER = struct.Struct(">BII")
LARGEST = 65_536
WINDOW = 262_144
CONNECTIONS = 64
"""At the same time; a flood from a tool must not use up what the agent program needs."""


class Stream:
    """One connection of a program in the sandbox."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader, self.writer = reader, writer
        self.inbox: asyncio.Queue[bytes | None] = asyncio.Queue()
        self.credit = WINDOW
        self.granted = asyncio.Event()


class Relay:
    """Both ends of the pipe, and the connections by number. A number is never used twice."""

    def __init__(self, out: asyncio.StreamWriter) -> None:
        self.out = out
        self.lock = asyncio.Lock()
        self.streams: dict[int, Stream] = {}
        self.last = 0

    async def send(self, kind: int, number: int, data: bytes = b"") -> None:
        async with self.lock:
            self.out.write(HEADER.pack(kind, number, len(data)) + data)
            await self.out.drain()

    async def connected(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if len(self.streams) >= CONNECTIONS:
            writer.transport.abort()
            return
        self.last += 1
        number, stream = self.last, Stream(reader, writer)
        self.streams[number] = stream
        await self.send(OPEN, number)
        up = asyncio.ensure_future(self.forward(number, stream))
        down = asyncio.ensure_future(self.deliver(number, stream))
        try:
            await asyncio.wait({up, down}, return_when=asyncio.FIRST_COMPLETED)
            if not down.done():  # the program has said all: the gate may still answer, and closes
                await up
                await down
            await down
            writer.close()
        except OSError:  # the program hung up
            writer.transport.abort()
            if number in self.streams:
                await self.send(RESET, number)
        except asyncio.CancelledError:
            writer.transport.abort()
        finally:
            up.cancel()
            down.cancel()
            self.streams.pop(number, None)

    async def forward(self, number: int, stream: Stream) -> None:
        """From the program to the gate, until the program ends its side."""
        while True:
            data = await stream.reader.read(LARGEST)
            if not data:
                await self.send(EOF, number)
                return
            while data:
                if stream.credit <= 0:
                    stream.granted.clear()
                    await stream.granted.wait()
                    continue
                piece, data = data[: stream.credit], data[stream.credit :]
                stream.credit -= len(piece)
                await self.send(DATA, number, piece)

    async def deliver(self, number: int, stream: Stream) -> None:
        """From the gate to the program, until the gate closes."""
        while True:
            data = await stream.inbox.get()
            if data is None:
                return
            stream.writer.write(data)
            await stream.writer.drain()
            await self.send(CREDIT, number, struct.pack(">I", len(data)))

    def take(self, kind: int, number: int, data: bytes) -> None:
        """One frame of the gate. Frames of a stream that is gone are late, not wrong."""
        stream = self.streams.get(number)
        if stream is None:
            return
        if kind == DATA:
            stream.inbox.put_nowait(data)
        elif kind == EOF:
            stream.inbox.put_nowait(None)
        elif kind == CREDIT:
            stream.credit += struct.unpack(">I", data)[0]
            stream.granted.set()
        elif kind == RESET:
            del self.streams[number]
            stream.inbox.put_nowait(None)
            stream.writer.transport.abort()


async def serve(port: int) -> None:
    loop = asyncio.get_running_loop()
    into = asyncio.StreamReader(limit=2 * LARGEST)
    await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(into), sys.stdin)
    transport, protocol = await loop.connect_write_pipe(asyncio.streams.FlowControlMixin, sys.stdout)
    relay = Relay(asyncio.StreamWriter(transport, protocol, None, loop))
    server = await asyncio.start_server(relay.connected, "127.0.0.1", port)
    await relay.send(READY, 0, struct.pack(">I", server.sockets[0].getsockname()[1]))
    try:
        while True:
            kind, number, length = HEADER.unpack(await into.readexactly(HEADER.size))
            relay.take(kind, number, await into.readexactly(length) if length else b"")
    except (asyncio.IncompleteReadError, OSError):
        pass
    server.close()


def main() -> None:
    loop = asyncio.new_event_loop()
    try:
        loop.run_until_complete(serve(int(sys.argv[1])))
    finally:
        # Connections under way end with the process: there is nobody left to carry them.
        os._exit(0)


if __name__ == "__main__":
    main()
