"""A desk that does no work, and an application that listens: for tests of what is around the work."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import uvicorn
from starlette.applications import Starlette

from gate.errors import GateError
from gate.service.jobs import Concluded, Control, Planned
from gate.service.store import Job


class StubDesk:
    """Says that everything went well, and remembers what it was asked."""

    def __init__(self, parts: int = 1, on_part: Callable[[Job, Control], None] = lambda job, control: None) -> None:
        self.parts = parts
        self.on_part = on_part
        self.asked: list[tuple[str, str]] = []
        self.concluded = threading.Event()

    def plan(self, job: Job, payload: bytes, control: Control) -> Planned:
        """See ``gate.service.jobs.Desk``."""
        del payload, control
        self.asked.append(("plan", job.id))
        return Planned(parts=self.parts)

    def part(self, job: Job, number: int, of: int, control: Control) -> None:
        """See ``gate.service.jobs.Desk``."""
        self.asked.append((f"part {number}/{of}", job.id))
        self.on_part(job, control)

    def conclude(self, job: Job, of: int, control: Control) -> Concluded | str:
        """See ``gate.service.jobs.Desk``."""
        del of, control
        self.asked.append(("conclude", job.id))
        self.concluded.set()
        return Concluded("success", "success: it is a stub", {"skills/sums": "pass"}, calls=2, cost_usd=0.5)

    def failed(self, job: Job, payload: bytes, error: GateError | None, control: Control) -> None:
        """See ``gate.service.jobs.Desk``."""
        del payload, control
        self.asked.append((f"failed: {error.message if error else 'broken'}", job.id))

    def spent(self, job: Job, control: Control) -> tuple[int, float, float]:
        """See ``gate.service.jobs.Desk``."""
        del control
        self.asked.append(("spent", job.id))
        return 1, 0.25, 10.0

    def tidy(self, job: Job) -> None:
        """See ``gate.service.jobs.Desk``."""
        self.asked.append(("tidy", job.id))


@contextmanager
def listening(app: Starlette) -> Iterator[int]:
    """The application on a free port of loopback."""
    server = uvicorn.Server(uvicorn.Config(app, port=0, lifespan="off", log_level="critical", access_log=False))
    thread = threading.Thread(target=server.run, daemon=True)
    thread.start()
    quiet = threading.Event()
    for _ in range(600):
        if server.started:
            break
        quiet.wait(0.05)
    try:
        port: int = server.servers[0].sockets[0].getsockname()[1]
        yield port
    finally:
        server.should_exit = True
        thread.join(10)
