"""A thousand webhook deliveries in a minute, and a SIGKILL in their middle: how fast each is answered, and what is lost.

``python -m tests.bench.service_load [--small]``. The service is the real one on SQLite, in a process of its own; what it does
with a job is a stub that only says that it is done. GitHub's side is a schedule: fresh heads, the same delivery again, the
same head under another delivery id, an older head after the newer one, and bodies with wrong signatures, evenly over a
minute. In the middle the service is killed and started again at once; a delivery that got no answer is delivered again a
second later, as GitHub does on request. In the end each (repository, head) that was signed must have exactly one job, and
each job must have ended. Naive variant beside it: what knows delivery ids only, and keeps its queue in memory.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from gate.service.logs import Log, to_stderr
from gate.service.run import opened, serve
from gate.service.store import JobState
from tests.bench._figures import figure, last_line, table
from tests.bench._performance import write_table
from tests.unit.service.deliveries import SECRET, encoded, headers_for, payload, request
from tests.unit.service.desks import StubDesk

NAME = "service_load"
GOAL_MS = 200.0
SEED = 20260201
PULLS = 40
"""Pull requests, in four repositories."""
CLIENTS = 16
PATIENCE_S = 60.0
ABOUT = (__doc__ or "").split("``. ", 1)[1]


@dataclass(frozen=True)
class Planned:
    """One delivery."""

    at: float
    """Seconds after the start."""
    kind: str
    id: str
    body: bytes
    head: tuple[int, str]
    """(repository, head)."""


@dataclass
class Sent:
    """What became of the deliveries."""

    millis: list[float] = field(default_factory=list)
    codes: Counter[int] = field(default_factory=Counter)
    results: Counter[str] = field(default_factory=Counter)
    again: int = 0
    slow: list[str] = field(default_factory=list)
    lock: threading.Lock = field(default_factory=threading.Lock)


def schedule(count: int, seconds: float, draw: random.Random) -> list[Planned]:
    """Deliveries over a time: about 60 of 100 are fresh heads, ten of each other kind."""
    made: list[Planned] = []
    moved = [0] * PULLS
    held: list[tuple[int, Planned]] = []
    for index in range(count):
        at = seconds * index / count
        kind = draw.choices(("fresh", "duplicate", "replay", "unsigned", "reordered"), (60, 10, 10, 10, 10))[0]
        fresh = [one for one in made if one.kind in ("fresh", "late")]
        if kind in ("duplicate", "replay") and fresh:
            chosen = draw.choice(fresh)
            name = chosen.id if kind == "duplicate" else f"r-{index}"
            made.append(Planned(at, kind, name, chosen.body, chosen.head))
            continue
        pull = draw.randrange(PULLS)
        moved[pull] += 1
        one = delivery(f"d-{index}", pull, moved[pull], at, "unsigned" if kind == "unsigned" else "fresh")
        if kind == "reordered":
            held.append((pull, one))  # comes after the next head of its pull request
            continue
        made.append(one)
        for late in [item for item in held if item[0] == pull and kind == "fresh"]:
            held.remove(late)
            made.append(Planned(at, "late", late[1].id, late[1].body, late[1].head))
    made += [Planned(seconds, "late", one.id, one.body, one.head) for _, one in held]
    return made


def delivery(name: str, pull: int, move: int, at: float, kind: str) -> Planned:
    """The ``move``-th head of a pull request."""
    repository = pull % 4 + 1
    head = f"{pull:08x}{move:032x}"
    repo = {"id": repository, "full_name": f"acme/skills-{repository}", "default_branch": "main"}
    stamp = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(1_780_000_000 + move))
    value = payload(
        "synchronize",
        repository=f"acme/skills-{repository}",
        number=pull + 1,
        head={"sha": head, "ref": "feature", "repo": repo},
        base={"sha": "b" * 40, "ref": "main", "repo": repo},
        updated_at=stamp,
        body="x" * 6000,  # real payloads have 20 to 30 KB
    )
    value["repository"] = repo
    return Planned(at, kind, name, encoded(value), (repository, head))


class Service:
    """The process, to be killed."""

    def __init__(self, data: Path) -> None:
        self.data = data
        self.port = 0
        self._process: subprocess.Popen[str] | None = None

    def start(self) -> None:
        """Listen, on the same port as before."""
        self._process = subprocess.Popen(
            [sys.executable, "-m", f"tests.bench.{NAME}", "--service", str(self.data), str(self.port)],
            stderr=subprocess.PIPE,
            text=True,
        )
        assert self._process.stderr is not None
        for line in self._process.stderr:
            if line.startswith("listening on "):
                self.port = int(line.rpartition(":")[2])
                threading.Thread(target=self._process.stderr.read, daemon=True).start()
                return
        raise RuntimeError("the service did not start")

    def kill(self) -> None:
        """SIGKILL."""
        assert self._process is not None
        os.kill(self._process.pid, signal.SIGKILL)
        self._process.wait(30)


def send(service: Service, one: Planned, sent: Sent) -> None:
    """Deliver, again a second later where nobody answered."""
    secret = "wrong" if one.kind == "unsigned" else SECRET
    headers = headers_for(one.body, one.id, secret=secret)
    end = time.monotonic() + PATIENCE_S
    while True:
        began = time.monotonic()
        try:
            answer = request(service.port, "POST", "/webhooks/github", one.body, headers)
        except (OSError, ValueError):
            answer = None
        if answer is not None and answer.code != 503:
            with sent.lock:
                sent.millis.append(1000 * (time.monotonic() - began))
                sent.codes[answer.code] += 1
                sent.results[str(answer.value.get("result"))] += 1
            return
        if time.monotonic() > end:
            with sent.lock:
                sent.codes[0] += 1
            return
        with sent.lock:
            sent.again += 1
        time.sleep(1.0)


def measure(count: int, seconds: float, folder: Path) -> tuple[Sent, list[Planned], dict[str, Any]]:
    """Send everything, kill in the middle, wait for the end."""
    planned = schedule(count, seconds, random.Random(SEED))
    service, sent = Service(folder / "data"), Sent()
    service.start()
    # Warm: the first request imports what it needs.
    request(service.port, "GET", "/healthz")
    began = time.monotonic()
    killer = threading.Timer(seconds / 2, lambda: (service.kill(), service.start()))  # type: ignore[func-returns-value]
    killer.start()
    with ThreadPoolExecutor(CLIENTS) as pool:
        for one in planned:
            time.sleep(max(0.0, began + one.at - time.monotonic()))
            pool.submit(send, service, one, sent)
    took = time.monotonic() - began
    killer.join()
    store = opened(folder / "data", None)
    end = time.monotonic() + PATIENCE_S * 2
    while time.monotonic() < end and any(not state.ended and number for state, number in store.counts().items()):
        time.sleep(0.2)
    jobs = store.jobs(limit=count * 2)
    store.close()
    service.kill()
    heads = Counter((job.repository_id, job.head_sha) for job in jobs)
    wanted = {one.head for one in planned if one.kind != "unsigned"}
    wrong = [head for head in wanted | set(heads) if heads.get(head, 0) != 1 or head not in wanted]
    return sent, planned, {
        "took": took,
        "jobs": len(jobs),
        "wanted": len(wanted),
        "wrong": len(wrong),
        "unfinished": sum(not job.state.ended for job in jobs),
        "done": sum(job.state is JobState.DONE for job in jobs),
        "superseded": sum(job.state is JobState.SUPERSEDED for job in jobs),
    }  # fmt: skip


def naive_wrong(planned: Sequence[Planned], seconds: float) -> int:
    """Heads with none or several jobs of what knows delivery ids only and forgets them, and its queue, when it is killed."""
    seen: set[str] = set()
    jobs: Counter[tuple[int, str]] = Counter()
    for one in planned:
        if one.at >= seconds / 2 and "killed" not in seen:
            seen = {"killed"}
        if one.kind != "unsigned" and one.id not in seen:
            seen.add(one.id)
            jobs[one.head] += 1
    return sum(number != 1 for number in jobs.values())


def percentile(values: Sequence[float], share: float) -> float:
    """Of the values in order, the one at this share."""
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(share * len(ordered)))]


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the bench."""
    given = list(sys.argv[1:] if arguments is None else arguments)
    if given[:1] == ["--service"]:
        return _service(Path(given[1]), int(given[2]))
    parser = argparse.ArgumentParser(prog=f"python -m tests.bench.{NAME}", description=__doc__)
    parser.add_argument("--small", action="store_true")
    small = parser.parse_args(given).small
    count, seconds = (60, 6.0) if small else (1000, 60.0)
    with tempfile.TemporaryDirectory() as name:
        try:
            sent, planned, found = measure(count, seconds, Path(name))
        except RuntimeError as error:
            print(f"not measured: {error}")
            return 2
    p95, p50, worst = percentile(sent.millis, 0.95), percentile(sent.millis, 0.5), max(sent.millis)
    lost, naive = found["wrong"] + found["unfinished"] + sent.codes[0], naive_wrong(planned, seconds)
    kinds = Counter(one.kind for one in planned)
    rows = [
        ["deliveries in s", f"{len(planned)} in {found['took']:.0f}"],
        ["of them", json.dumps(dict(kinds))],
        ["delivered again for want of an answer", str(sent.again)],
        ["answers", json.dumps({str(code): number for code, number in sorted(sent.codes.items())})],
        ["results", json.dumps(dict(sorted(sent.results.items())))],
        ["answer ms, median / p95 / worst", f"{p50:.0f} / {p95:.0f} / {worst:.0f}"],
        ["(repository, head) signed / jobs", f"{found['wanted']} / {found['jobs']}"],
        ["jobs done / superseded / unfinished", f"{found['done']} / {found['superseded']} / {found['unfinished']}"],
        ["heads without exactly one job, naive", f"{found['wrong']}, {naive}"],
    ]
    print(table(["", "count"], rows))
    if not small:
        write_table(NAME, "Webhook deliveries, with a kill in the middle", ABOUT, ["a minute", "count"], rows)
    print(last_line([
        figure(NAME, round(p95, 1), "ms until an answer, p95", n=len(sent.millis), goal=f"< {GOAL_MS:g}", ok=p95 < GOAL_MS),
        figure(NAME, lost, "heads with none or several jobs, jobs that did not end, deliveries without an answer", n=found["wanted"], goal="0", ok=lost == 0, baseline=float(naive)),
    ]))  # fmt: skip
    return 0


def _service(data: Path, port: int) -> int:
    stop = threading.Event()
    signal.signal(signal.SIGTERM, lambda number, frame: stop.set())
    desk = StubDesk()
    serve(
        host="127.0.0.1", port=port, secret=SECRET, repositories=(), data=data, database=None,
        make_desk=lambda keep: desk, log=Log(to_stderr, str), stop=stop, keep_days=0,
    )  # fmt: skip
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
