"""The processes of the service: one that has the addresses (and may work beside that), and workers that only work."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from gate.errors import ConfigurationError, InfrastructureError
from gate.evidence.pack import pack
from gate.service.api import Api, api_routes
from gate.service.app import make_app
from gate.service.bundles import BundleStore, FolderBundles
from gate.service.impatient import impatient
from gate.service.jobs import Desk, Limits, Works
from gate.service.logs import Log
from gate.service.store import BundleRow, Store, database_url, open_store

if TYPE_CHECKING:
    import socket

    from starlette.applications import Starlette
    from starlette.routing import BaseRoute

CONNECTIONS = 128
"""At the same time; each may hold one body in memory."""
PRUNE_S = 3600.0
DAY_S = 86_400.0
Keep = Callable[[str, Path], None]


@dataclass(frozen=True)
class Rooms:
    """What the addresses beside webhook and API are built on."""

    store: Store
    bundles: BundleStore
    works: Works
    data: Path
    log: Log


@dataclass(frozen=True)
class Beside:
    """What is there beside webhook and API."""

    routes: Sequence[BaseRoute] = ()
    told: Callable[[str], None] = lambda result: None
    """Hears what became of each delivery."""
    around: Callable[[Starlette], Any] = lambda app: app
    """Layers around the application."""


def opened(data: Path, url: str | None) -> Store:
    """The service's database: ``DATABASE_URL``, or a file in the data folder. Raises ConfigurationError."""
    data.mkdir(
        mode=0o700, parents=True, exist_ok=True
    )  # clones and payloads of private repositories, and the signing key
    return open_store(database_url(url, data))


def serve(
    *,
    host: str,
    port: int,
    secret: str,
    repositories: Sequence[str],
    data: Path,
    database: str | None,
    make_desk: Callable[[Keep], Desk] | None,
    log: Log,
    stop: threading.Event,
    limits: Limits | None = None,
    lease_s: float | None = None,
    keep_days: float = 30.0,
    make_bundles: Callable[[Path], BundleStore] | None = None,
    more: Callable[[Rooms], Beside] | None = None,
    on_fenced: Callable[[], None] = lambda: None,
) -> None:
    """Serve until ``stop`` is set; what is under way is then put aside and goes on when somebody works again.

    ``make_desk`` None: jobs are done by workers elsewhere. ``more``: further addresses. Raises ConfigurationError for an
    empty secret, InfrastructureError where the address or the database cannot be had.
    """
    import uvicorn

    if not secret:
        raise ConfigurationError("The webhook has no secret.", remedy="Set SKILL_GATE_WEBHOOK_SECRET.")
    store = opened(data, database)
    bundles = make_bundles(data) if make_bundles is not None else FolderBundles(data / "bundles")
    desk = make_desk(_keeper(store, bundles)) if make_desk is not None else None
    works = _works(store, data, database, desk, log, limits=limits, lease_s=lease_s, on_fenced=on_fenced)
    known = frozenset(name.casefold() for name in repositories) or frozenset({"*"})
    api = Api(store, known, bundles.get, works.poke)
    beside = more(Rooms(store, bundles, works, data, log)) if more is not None else Beside()
    app = make_app(
        secret=secret,
        repositories=known,
        store=store,
        taken=works.poke,
        alive=lambda: works.alive or stop.is_set(),
        stopping=stop.is_set,
        more=[*api_routes(api), *beside.routes],
        told=beside.told,
        broke=lambda path, error: log("request failed", path=path, exc_info=error),
    )
    with _listening(host, port) as listening:
        # Not on this thread, where uvicorn would put its own handlers of signals over ours.
        server = uvicorn.Server(
            uvicorn.Config(
                beside.around(app),
                http=impatient(),
                lifespan="off",
                access_log=False,
                log_level="critical",
                limit_concurrency=CONNECTIONS,
                timeout_graceful_shutdown=5,
                server_header=False,
            )
        )
        thread = threading.Thread(target=server.run, kwargs={"sockets": [listening]}, name="http", daemon=True)
        # First who answers: what is taken is durable, and the engine may take seconds to start.
        thread.start()
        log(f"listening on {_address(listening, host)}")
        try:
            works.start()
            _until(stop, lambda: thread.is_alive() and works.alive, store, bundles, keep_days, log)
        finally:
            stop.set()
            _ended(works.stop(), log)
            server.should_exit = True
            thread.join(10)
            store.close()


def work(
    *,
    data: Path,
    database: str | None,
    make_desk: Callable[[Keep], Desk],
    log: Log,
    stop: threading.Event,
    limits: Limits | None = None,
    lease_s: float | None = None,
    make_bundles: Callable[[Path], BundleStore] | None = None,
    on_fenced: Callable[[], None] = lambda: None,
) -> None:
    """Do jobs until ``stop`` is set. Raises ConfigurationError where the database is one that only one machine has."""
    if database is None:
        raise ConfigurationError(
            "A worker shares a PostgreSQL database with the service.", remedy="Set DATABASE_URL to postgresql://…"
        )
    store = opened(data, database)
    bundles = make_bundles(data) if make_bundles is not None else FolderBundles(data / "bundles")
    desk = make_desk(_keeper(store, bundles))
    works = _works(store, data, database, desk, log, limits=limits, lease_s=lease_s, on_fenced=on_fenced)
    works.start()
    log("working", worker=works.name)
    try:
        _until(stop, lambda: works.alive, None, bundles, 0.0, log)
    finally:
        stop.set()
        _ended(works.stop(), log)
        store.close()


def _works(
    store: Store,
    data: Path,
    database: str | None,
    desk: Desk | None,
    log: Log,
    *,
    limits: Limits | None,
    lease_s: float | None,
    on_fenced: Callable[[], None],
) -> Works:
    # SQLite: a file of its own, so that its many small writes do not hold up who answers webhooks.
    own = f"sqlite:///{(data / 'engine.sqlite').resolve()}"
    url = own if store.kind == "sqlite" else database_url(database, data).replace("+psycopg", "", 1)
    more = {} if lease_s is None else {"lease_s": lease_s}
    return Works(store, url, desk, log, limits=limits, on_fenced=on_fenced, **more)


def _keeper(store: Store, bundles: BundleStore) -> Keep:
    def keep(job: str, folder: Path) -> None:
        kept = bundles.put(job, pack(folder))
        store.keep_bundle(BundleRow(job, job, kept.sha256, kept.size, time.time()))

    return keep


def _until(
    stop: threading.Event,
    alive: Callable[[], bool],
    store: Store | None,
    bundles: BundleStore,
    keep_days: float,
    log: Log,
) -> None:
    """Wait, and forget what is old. Raises InfrastructureError where a part of the process ended by itself."""
    due = time.monotonic()
    while not stop.wait(1.0):
        if not alive():
            raise InfrastructureError("A part of the service ended.", remedy="Its log says why; start it again.")
        if store is not None and keep_days > 0 and time.monotonic() >= due:
            due = time.monotonic() + PRUNE_S
            try:
                prune(store, bundles, keep_days, log)
            except Exception as error:  # noqa: BLE001 - what is too old today is so tomorrow
                log("pruning failed", error=type(error).__name__)


def prune(store: Store, bundles: BundleStore, keep_days: float, log: Log) -> int:
    """Forget what ended more than ``keep_days`` days ago; returns how many bundles went."""
    gone = store.prune(time.time() - keep_days * DAY_S)
    for row in gone:
        bundles.remove(row.key)
    if gone:
        log("pruned", bundles=len(gone))
    return len(gone)


def _ended(in_order: bool, log: Log) -> None:
    log("stopped" if in_order else "left with work under way; it goes on when somebody works again")


def _listening(host: str, port: int) -> socket.socket:
    import socket

    try:
        family = socket.AF_INET6 if ":" in host else socket.AF_INET
        return socket.create_server((host, port), family=family, backlog=256)
    except OSError as error:
        raise InfrastructureError(
            f"Cannot listen on {host} port {port}: {error}.", remedy="Choose another with --host and --port."
        ) from None


def _address(listening: socket.socket, host: str) -> str:
    name = f"[{host}]" if ":" in host else host
    return f"http://{name}:{listening.getsockname()[1]}"
