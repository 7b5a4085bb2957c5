"""The service in processes of its own, to be killed: the fake GitHub, a scripted model, sandboxes in memory or real ones."""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from gate.evidence.pack import unpack
from gate.service.bundles import FolderBundles
from gate.service.run import opened
from gate.service.store import Job, Store
from tests.pipeline.action_stage import NUMBER, Stage
from tests.story import gate_environment, git
from tests.unit.service.deliveries import SECRET, Answered, deliver
from tests.verdicts import verdict_bytes

ROOT = Path(__file__).resolve().parents[1]
PROGRAM = """
import os, sys, threading
from dataclasses import replace
from gate.cli import main
from gate.wiring import bind, stop_on_signals
from tests.fakes.sandbox import DEFAULT_IMAGES, ScriptedSandbox
from tests.unit.execution.world import shell

stop = threading.Event()
stop_on_signals(stop)
with ScriptedSandbox(shell(), images={**DEFAULT_IMAGES, "@own": "sha256:" + "7b" * 32}) as sandbox:
    app = bind(os.environ, stop)
    if os.environ.get("TEST_SANDBOX") != "docker":
        app = replace(app, make_sandbox=lambda *kind: sandbox)
    code = main(app, sys.argv[1:])
sys.stderr.flush()
os._exit(code)
"""


_THERE = ("listening on ", "working")
"""How the lines begin that a process says once it is ready."""


@dataclass
class Running:
    """A process of the service, whose standard error is read from its beginning."""

    process: subprocess.Popen[str]
    lines: list[str] = field(default_factory=list)
    _there: threading.Event = field(default_factory=threading.Event)

    def __post_init__(self) -> None:
        threading.Thread(target=self._read, daemon=True).start()

    def _read(self) -> None:
        """Collect what it says, until it ends."""
        assert self.process.stderr is not None
        for line in self.process.stderr:
            self.lines.append(line.rstrip("\n"))
            if line.startswith(_THERE):
                self._there.set()
        self._there.set()

    def ready(self) -> None:
        """Wait until it works."""
        assert self._there.wait(90), self.lines
        assert any(line.startswith(_THERE) for line in self.lines), f"it ended before it worked: {self.lines}"

    @property
    def port(self) -> int:
        """Of a service."""
        self.ready()
        line = next(line for line in self.lines if line.startswith("listening on "))
        return int(line.rpartition(":")[2])

    def kill(self) -> None:
        """SIGKILL to the whole group."""
        os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait(30)

    def stop(self) -> int:
        """SIGTERM, and its exit code."""
        self.process.send_signal(signal.SIGTERM)
        return self.process.wait(60)


@dataclass
class Rig:
    """One service: its data, and the processes that were started for it."""

    here: Stage
    data: Path
    database: str | None = None
    docker: bool = False
    started: list[Running] = field(default_factory=list)

    def start(self, command: str = "serve", *arguments: str) -> Running:
        """A process; ``serve`` listens on a free port."""
        line = [command, "--data", str(self.data), "--mirrors", str(self.here.folder / "mirrors"), "--accept-runc"]
        line += ["--jobs", "2", "--lease", "30", "--parts", "4"]
        if command == "serve":
            line += ["--repository", "acme/skills", "--port", "0"]
        kept = {name: self.here.environ[name] for name in ("GITHUB_API_URL", "GITHUB_SERVER_URL", "ANTHROPIC_API_KEY")}
        assert self.here.token is not None
        process = subprocess.Popen(
            [sys.executable, "-c", PROGRAM, *line, *arguments],
            cwd=ROOT,
            env=gate_environment(
                SKILL_GATE_WEBHOOK_SECRET=SECRET,
                GITHUB_TOKEN=self.here.token.value,
                TEST_SANDBOX="docker" if self.docker else "",
                **({"DATABASE_URL": self.database} if self.database else {}),
                **kept,
            ),
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )
        running = Running(process)
        self.started.append(running)
        return running

    def send(self, running: Running, delivery: str = "d-1", payload: Mapping[str, Any] | None = None) -> Answered:
        """A delivery of the pull request."""
        return deliver(running.port, payload or self.here.payload(), delivery)

    def store(self) -> Store:
        """Its database, to look into; to be closed."""
        return opened(self.data, self.database)

    def jobs(self) -> list[Job]:
        """The newest first."""
        store = self.store()
        try:
            return store.jobs(limit=1000)
        finally:
            store.close()

    def until(self, wanted: int = 1, seconds: float = 120.0) -> list[Job]:
        """Wait until so many jobs have ended and none is under way."""
        store = self.store()
        try:
            end, jobs = time.monotonic() + seconds, list[Job]()
            while time.monotonic() < end:
                jobs = store.jobs(limit=1000)
                if len(jobs) >= wanted and all(job.state.ended for job in jobs):
                    return jobs
                time.sleep(0.05)
        finally:
            store.close()
        said = [line for one in self.started for line in one.lines[-15:]]
        raise AssertionError("\n".join([*map(str, jobs), *said]))

    def verdicts(self, job: Job) -> dict[str, bytes]:
        """The bytes of its verdict (``tests.verdicts``): a job that was killed with calls under way has spent more, and says so."""
        with tempfile.TemporaryDirectory() as name:
            root = Path(name) / "bundle"
            unpack(FolderBundles(self.data / "bundles").get(job.id), root)
            return verdict_bytes(root)

    def close(self) -> None:
        """End whatever still runs."""
        for one in self.started:
            if one.process.poll() is None:
                one.kill()


@contextmanager
def rig(here: Stage, name: str = "data", *, database: str | None = None, docker: bool = False) -> Iterator[Rig]:
    """A service for a stage, with a mirror of its repository."""
    mirrors = here.folder / "mirrors"
    if not mirrors.exists():
        place = mirrors / "acme/skills.git"
        place.parent.mkdir(parents=True)
        git(here.folder, "clone", "--quiet", "--bare", str(here.workspace), str(place))
        git(here.workspace, "push", "--quiet", str(place), f"{here.base}:refs/heads/main")
        git(here.workspace, "push", "--quiet", str(place), f"{here.head}:refs/pull/{NUMBER}/head")
    made = Rig(here, here.folder / name, database, docker)
    try:
        yield made
    finally:
        made.close()


def asked_again(requests: list[Any]) -> int:
    """How many requests to the model were asked before, word for word."""
    seen: set[str] = set()
    again = 0
    for request in requests:
        text = json.dumps(request.body, sort_keys=True) if hasattr(request, "body") else repr(request)
        again += text in seen
        seen.add(text)
    return again


def moments(count: int, length: float, seed: int) -> list[float]:
    """Moments of a job's life to kill at, one from each equal part of it."""
    draw = random.Random(seed)
    return [length * (number + draw.random()) / count for number in range(count)]
