"""Both ends of a program that the gate runs in a container, over one hijacked connection to the engine."""

from __future__ import annotations

import contextlib
import socket
from typing import TYPE_CHECKING

from gate.adapters.docker_sandbox.streams import Kept
from gate.errors import SandboxError

if TYPE_CHECKING:
    from collections.abc import Iterator

_CHUNK = 65_536
_HEADER_BYTES = 8
_STDOUT = 1
_SAID_BYTES = 4_096


class DockerChannel:
    """A Channel (``gate.protocols.Channel``). The engine's stream has frames of its own, cut anywhere."""

    def __init__(self, sock: socket.socket, early: bytes) -> None:
        """``early``: what came off the socket together with the response header."""
        sock.settimeout(None)
        self._sock = sock
        self._buffer = bytearray(early)
        self._header = bytearray()
        self._stream = 0
        self._missing = 0
        self._said = Kept(_SAID_BYTES)
        self._closed = False

    @property
    def complaint(self) -> str:
        """What the program, or the engine in its place, printed on stderr."""
        return " ".join(self._said.content().decode("utf-8", "replace").split())[-300:]

    def read(self) -> bytes:
        """The next bytes of standard output; empty at the end."""
        while True:
            found = b"".join(self._pieces())
            if found:
                return found
            try:
                data = self._sock.recv(_CHUNK)
            except OSError as error:
                if self._closed:
                    return b""
                raise SandboxError(f"The connection to a program in the sandbox broke: {error}") from error
            if not data:
                return b""
            self._buffer += data

    def _pieces(self) -> Iterator[bytes]:
        while self._buffer:
            if self._missing:
                piece = bytes(self._buffer[: self._missing])
                del self._buffer[: len(piece)]
                self._missing -= len(piece)
                if self._stream == _STDOUT:
                    yield piece
                else:
                    self._said.add(piece)
                continue
            wanted = _HEADER_BYTES - len(self._header)
            self._header += self._buffer[:wanted]
            del self._buffer[:wanted]
            if len(self._header) == _HEADER_BYTES:
                self._stream = self._header[0]
                self._missing = int.from_bytes(self._header[4:8], "big")
                self._header.clear()

    def write(self, data: bytes) -> None:
        """Give it all of ``data``."""
        try:
            self._sock.sendall(data)
        except OSError as error:
            raise SandboxError(f"A program in the sandbox takes nothing more: {error}") from error

    def close(self) -> None:
        """Let go; whoever waits on the socket in another thread is woken by the shutdown."""
        self._closed = True
        with contextlib.suppress(OSError):
            self._sock.shutdown(socket.SHUT_RDWR)
        self._sock.close()
