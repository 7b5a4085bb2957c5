"""The connection to a Docker engine: one client, made when first needed, and plain words for everything that goes wrong."""

from __future__ import annotations

import contextlib
import json
import os
import secrets
import socket
import stat
import threading
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar
from urllib.parse import urlsplit

from gate.domain.sandbox import SandboxFacts
from gate.errors import SandboxError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from docker import APIClient

T = TypeVar("T")

DEFAULT_ADDRESS = "unix:///var/run/docker.sock"
OLDEST_API = (1, 40)
TIMEOUT_S = 120
HURRIED_TIMEOUT_S = 15
ATTEMPTS = 3
_PAUSES_S = ((0.1, 0.4), (2.0, 4.0))
"""Before the second and the third try: a hiccup is over at once, an engine that restarts is back after seconds."""
_CONFLICT = 409
_START_ENGINE = "Start Docker, or set DOCKER_HOST to the address of an engine, and check with: docker info"
_random = secrets.SystemRandom()


class Engine:
    """One engine. Thread-safe. Clients are made on first use and kept."""

    def __init__(self, address: str | None = None, *, pool_size: int = 32) -> None:
        """``address``: ``unix:///…`` or ``tcp://host:port``; None: DOCKER_HOST, else the CLI's context, else the usual socket."""
        self._given = address
        self._pool_size = pool_size
        self._lock = threading.RLock()
        self._clients: dict[int, APIClient] = {}
        self._address: str | None = None

    @property
    def address(self) -> str:
        """Where the engine is. Raises SandboxError for a kind of address that is not supported."""
        if self._address is None:
            self._address = check_address(self._given or find_address())
        return self._address

    @property
    def api(self) -> APIClient:
        """The client. Raises SandboxError with a remedy where no engine answers."""
        return self._client(TIMEOUT_S)

    @property
    def hurried(self) -> APIClient:
        """A client for leaving: it gives up early, so that a stuck engine cannot keep the gate from ending."""
        return self._client(HURRIED_TIMEOUT_S)

    def _client(self, timeout: int) -> APIClient:
        with self._lock:
            if timeout not in self._clients:
                from docker import APIClient

                check_socket(self.address)
                with speaking(f"No Docker engine answers at {self.address}", remedy=_START_ENGINE):
                    self._clients[timeout] = APIClient(
                        base_url=self.address, version="auto", timeout=timeout, max_pool_size=self._pool_size
                    )
            return self._clients[timeout]

    def close(self) -> None:
        """Close the connections; they come back on the next use."""
        with self._lock:
            for client in self._clients.values():
                client.close()
            self._clients.clear()

    def hijack(self, path: str, body: Mapping[str, object]) -> tuple[socket.socket, bytes]:
        """POST and take over the connection: (the raw socket, what came off it behind the response header).

        A fast process can print before the header has been read, and those bytes share its packet; a client library that
        reads headers through a buffer and then hands out the socket beneath it loses them. The caller closes the socket.
        Raises SandboxError, EngineRefusal where the engine answered no.
        """
        payload = json.dumps(body).encode()
        head = (
            f"POST /v{self.api.api_version}{path} HTTP/1.1\r\nHost: docker\r\nContent-Type: application/json\r\n"
            f"Content-Length: {len(payload)}\r\nConnection: Upgrade\r\nUpgrade: tcp\r\n\r\n"
        ).encode("ascii")
        sock: socket.socket | None = None
        try:
            sock = self._connect()
            sock.sendall(head + payload)
            status, rest = _read_head(sock)
            if status not in (101, 200):
                raise EngineRefusal(status, _read_refusal(sock, rest))
        except OSError as error:
            _close(sock)
            raise SandboxError(f"The connection to the Docker engine broke: {error}") from error
        except SandboxError:
            _close(sock)
            raise
        return sock, rest

    def _connect(self) -> socket.socket:
        where = urlsplit(self.address)
        if where.scheme == "unix":
            sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
            try:
                sock.settimeout(TIMEOUT_S)
                sock.connect(where.path)
            except OSError:
                sock.close()
                raise
            return sock
        return socket.create_connection((where.hostname or "127.0.0.1", where.port or 2375), timeout=TIMEOUT_S)


class EngineRefusal(SandboxError):  # noqa: N818 - an answer, not a fault of the connection
    """The engine answered with an error status."""

    def __init__(self, status: int, text: str) -> None:
        super().__init__(f"The Docker engine refused ({status}): {text}")
        self.status = status
        self.text = text


def _close(sock: socket.socket | None) -> None:
    if sock is not None:
        sock.close()


def _read_head(sock: socket.socket) -> tuple[int, bytes]:
    data = b""
    while b"\r\n\r\n" not in data:
        piece = sock.recv(65_536)
        if not piece or len(data) > 1_048_576:
            raise SandboxError("The Docker engine closed the connection without an answer.")
        data += piece
    head, _, rest = data.partition(b"\r\n\r\n")
    words = head.split(None, 2)
    if len(words) < 2 or not words[1].isdigit():
        raise SandboxError("The Docker engine answered with something that is not HTTP.")
    return int(words[1]), rest


def _read_refusal(sock: socket.socket, data: bytes) -> str:
    sock.settimeout(1)
    with contextlib.suppress(OSError):
        while len(data) < 65_536 and b"}" not in data and (piece := sock.recv(65_536)):
            data += piece
    start, end = data.find(b"{"), data.rfind(b"}")
    try:
        return str(json.loads(data[start : end + 1])["message"])
    except (ValueError, KeyError, TypeError):
        return data.decode("utf-8", "replace").strip()[:500]


def find_address() -> str:
    """DOCKER_HOST, else what the Docker CLI's current context says, else the usual socket."""
    named = os.environ.get("DOCKER_HOST", "").strip()
    if named:
        return named
    from docker.context import ContextAPI
    from docker.errors import DockerException

    try:
        found = ContextAPI.kwargs_from_context().get("base_url")
    except (DockerException, OSError, ValueError):
        found = None
    return str(found or DEFAULT_ADDRESS).removeprefix("http+")


def check_address(address: str) -> str:
    """The address, normalised. Raises SandboxError where sandboxes cannot be driven over this kind of connection."""
    if address.startswith("/"):
        address = f"unix://{address}"
    scheme = urlsplit(address).scheme
    if scheme not in ("unix", "tcp") or (os.environ.get("DOCKER_TLS_VERIFY") and scheme == "tcp"):
        raise SandboxError(
            f"The Docker engine at {address} is reached in a way that Skill Gate does not support.",
            remedy="Use a local socket (unix:///var/run/docker.sock) or plain tcp://host:port to an engine on a trusted network.",
        )
    return address


def check_socket(address: str) -> None:
    """Raises SandboxError in plain words where a unix socket cannot work: missing, a folder, not a socket, not ours to use."""
    if not address.startswith("unix://"):
        return
    path = Path(address.removeprefix("unix://"))
    try:
        mode = path.stat().st_mode
    except FileNotFoundError:
        raise SandboxError(
            f"There is no Docker engine: the socket {path} does not exist.", remedy=_START_ENGINE
        ) from None
    except PermissionError:
        raise SandboxError(
            f"The Docker socket {path} cannot be looked at: permission denied.", remedy=_JOIN_GROUP
        ) from None
    except OSError as error:
        raise SandboxError(f"The Docker socket {path} cannot be used: {error}", remedy=_START_ENGINE) from error
    if stat.S_ISDIR(mode):
        raise SandboxError(
            f"{path} is a folder, not the socket of a Docker engine.",
            remedy="An engine makes such a folder when a socket is mounted that is not there: remove it, start Docker, and"
            " mount /var/run/docker.sock.",
        )
    if not stat.S_ISSOCK(mode):
        raise SandboxError(f"{path} is not a socket.", remedy=_START_ENGINE)
    if not os.access(path, os.R_OK | os.W_OK):
        raise SandboxError(f"This user may not use the Docker socket {path}: permission denied.", remedy=_JOIN_GROUP)


_JOIN_GROUP = "Run as root or as a member of the group `docker` (sudo usermod -aG docker $USER, then log in again)."


@contextlib.contextmanager
def speaking(what: str, *, remedy: str = "") -> Iterator[None]:
    """Turn every error of the client library and of the connection into a SandboxError that begins with ``what``."""
    from docker.errors import DockerException
    from requests.exceptions import RequestException

    try:
        yield
    except (DockerException, RequestException, OSError) as error:
        text = reason(error)
        if "no space left" in text.lower() and not remedy:
            remedy = "Free disk space for the Docker engine (docker system df shows what uses it)."
        raise SandboxError(f"{what}: {text}", remedy=remedy) from error


def reason(error: Exception) -> str:
    """What the engine or the connection said, in one line."""
    text = str(getattr(error, "explanation", None) or error) or type(error).__name__
    return " ".join(text.split())[:500]


def is_passing(error: Exception) -> bool:
    """Whether the same call may succeed a moment later: the engine was busy, or the connection broke."""
    from docker.errors import APIError
    from requests.exceptions import RequestException

    if isinstance(error, APIError):
        return error.status_code is not None and error.status_code >= 500
    return isinstance(error, RequestException | OSError)


def retried(
    call: Callable[[], T], *, before_retry: Callable[[], T | None] = lambda: None, after_conflict: bool = False
) -> T:
    """``call()``, again after a short random wait where the engine failed in passing; at most three times.

    ``before_retry`` looks whether the failed call did its work after all and then returns its result. ``after_conflict``:
    a name that is taken counts as passing too (an earlier call may have been carried out after it was given up). Raises
    what the last call raised.
    """
    from docker.errors import APIError, DockerException
    from requests.exceptions import RequestException

    for attempt in range(1, ATTEMPTS + 1):
        try:
            return call()
        except (DockerException, RequestException, OSError) as error:
            taken = after_conflict and isinstance(error, APIError) and error.status_code == _CONFLICT
            if attempt == ATTEMPTS or not (taken or is_passing(error)):
                raise
        time.sleep(_random.uniform(*_PAUSES_S[attempt - 1]))
        done = before_retry()
        if done is not None:
            return done
    raise AssertionError("unreachable")


def noted(engine: Engine, container: str, seconds: int) -> list[str]:
    """What the engine noted about a container in the last ``seconds``: ``oom``, ``kill``, ``stop``, ``die``.

    Empty where it does not say. An engine keeps its last few hundred events of all containers: ask soon.
    """
    now = time.time()
    with contextlib.suppress(SandboxError), speaking("The Docker engine does not tell its events"):
        found = engine.hurried.events(
            since=int(now) - seconds,
            # To the moment, since the engine waits for a later one. The stubs know whole seconds only.
            until=f"{now:.6f}",  # type: ignore[call-overload]
            filters={"container": [container], "event": ["oom", "kill", "stop", "die", "destroy"]},
            decode=True,
        )
        return [str(event.get("Action") or event.get("status")) for event in found]
    return []


def judge_engine(info: Mapping[str, Any], version: Mapping[str, Any]) -> SandboxFacts:
    """Say what an engine is, from its ``/info`` and ``/version``.

    Raises SandboxError with a remedy for an engine that cannot hold a sandbox the way it must be held: a wrong engine refused
    costs a setting, a limit that silently does not hold costs the machine.
    """
    components = " ".join(str(item.get("Name", "")) for item in version.get("Components") or ())
    security = [str(item) for item in info.get("SecurityOptions") or ()]
    remedy = "Use a Docker engine of its own, 19.03 or newer, on Linux, run by root (Docker Desktop counts)."
    if "podman" in components.lower():
        raise SandboxError("The engine is Podman, whose sandboxes have not been proven to hold.", remedy=remedy)
    if any("name=rootless" in item for item in security):
        raise SandboxError(
            "The engine runs rootless; limits of memory and processes may silently not hold there.", remedy=remedy
        )
    if info.get("OSType", "linux") != "linux":
        raise SandboxError(f"The engine runs {info.get('OSType')} containers; Linux ones are needed.", remedy=remedy)
    api = tuple(int(part) for part in str(version.get("ApiVersion", "0")).split(".") if part.isdigit())
    if api < OLDEST_API:
        raise SandboxError(
            f"The engine {info.get('ServerVersion', '')} speaks API {version.get('ApiVersion')}; 1.40 is needed.",
            remedy=remedy,
        )
    for key, what in (("MemoryLimit", "memory"), ("PidsLimit", "the number of processes"), ("CpuCfsQuota", "CPU time")):
        if info.get(key) is False:
            raise SandboxError(
                f"The engine cannot limit {what} (its kernel lacks the control group).",
                remedy="Enable the control group in the kernel of the engine's machine and restart Docker.",
            )
    seccomp = [item for item in security if "name=seccomp" in item]
    if not seccomp or any("unconfined" in item for item in seccomp):
        raise SandboxError(
            "The engine runs containers without a seccomp filter.", remedy="Enable Docker's default seccomp profile."
        )
    parts = [
        f"docker {info.get('ServerVersion', 'of unknown version')}",
        str(info.get("Driver", "")),
        f"cgroup v{info.get('CgroupVersion') or '1'}",
        runtime_of(info) or str(info.get("DefaultRuntime", "")),
    ]
    return SandboxFacts(kind="docker", description=", ".join(part for part in parts if part))


def runtime_of(info: Mapping[str, Any]) -> str | None:
    """``runsc`` where the engine has it: a kernel of its own for each sandbox. None: the engine's default."""
    return "runsc" if "runsc" in (info.get("Runtimes") or {}) else None
