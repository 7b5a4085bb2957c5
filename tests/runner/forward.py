"""A way from a container to a server of the test's process, which listens on loopback only."""

from __future__ import annotations

import contextlib
import ipaddress
import socket
import threading
from types import TracebackType
from typing import Self

import docker

_PIECE = 65_536


def bridge_address(client: docker.DockerClient) -> str:
    """The address of this machine on the engine's default bridge, as containers see it.

    Raises:
        LookupError: The engine has no such bridge here (its machine may be another one).
    """
    facts = client.api.inspect_network("bridge")
    for config in facts.get("IPAM", {}).get("Config") or ():
        if config.get("Gateway"):
            return str(config["Gateway"])
        if config.get("Subnet"):  # older engines name no gateway where nobody has chosen one: it is the first address
            return str(next(ipaddress.ip_network(config["Subnet"]).hosts()))
    raise LookupError("the engine's network `bridge` has no address")


class Forwarder:
    """Hands every connection to a port of the bridge's address on to a port of 127.0.0.1. Use it as a block.

    Only this listener is reachable from containers, and only while the block lasts. Tests need no permission for it: they
    may connect to loopback, and nothing else is connected to here.
    """

    def __init__(self, address: str, port: int) -> None:
        """``address``: where to listen (``bridge_address``); ``port``: of the server on loopback."""
        self._port = port
        self._listener = socket.create_server((address, 0), backlog=64)
        self._open: set[socket.socket] = set()
        self._lock = threading.Lock()
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._accept, name="forwarder", daemon=True)

    @property
    def host(self) -> str:
        """``address:port`` to give to a container."""
        address, port = self._listener.getsockname()[:2]
        return f"{address}:{port}"

    def __enter__(self) -> Self:
        """Start."""
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Hang up on everybody and free the port."""
        self._stopping.set()
        # Closing alone does not wake a thread that waits in accept.
        with contextlib.suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        self._thread.join(5)
        with self._lock:
            connections = list(self._open)
        for connection in connections:
            _hang_up(connection)

    def _accept(self) -> None:
        while not self._stopping.is_set():
            try:
                outside, _ = self._listener.accept()
            except OSError:
                return
            try:
                inside = socket.create_connection(("127.0.0.1", self._port), timeout=10)
            except OSError:
                outside.close()
                continue
            inside.settimeout(None)
            with self._lock:
                self._open |= {outside, inside}
            for source, target in ((outside, inside), (inside, outside)):
                threading.Thread(target=self._pump, args=(source, target), name="forwarder-pump", daemon=True).start()

    def _pump(self, source: socket.socket, target: socket.socket) -> None:
        with contextlib.suppress(OSError):
            while data := source.recv(_PIECE):
                target.sendall(data)
        # The other direction may still have something to say.
        with contextlib.suppress(OSError):
            target.shutdown(socket.SHUT_WR)
        with self._lock:
            if source in self._open:
                self._open.discard(source)
            both_done = target not in self._open
        if both_done:
            for one in (source, target):
                one.close()


def _hang_up(connection: socket.socket) -> None:
    with contextlib.suppress(OSError):
        connection.shutdown(socket.SHUT_RDWR)
    connection.close()
