"""What is left of a session that is killed: SIGKILL at random moments, then one pass of the reaper.

``python -m tests.bench.kill [--small]``. Each time the real program judges a small repository with a scripted model, and
its whole process group is killed at a moment drawn from the length of a session. Then one reaper pass of another process
must leave no labelled object of the killed one, and every run that the program had said was done must be on disk with a
seal that holds. Naive variants beside it: no reaper pass, and a program that keeps its records in memory until the end.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import random
import re
import shutil
import signal
import tempfile
import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

import docker

from gate.adapters.docker_sandbox import DockerSandbox
from gate.evidence.seal import check_folder
from tests.bench._figures import figure, last_line, table
from tests.bench._performance import write_table
from tests.docker.test_stories import a_repository, models
from tests.scripted import generic
from tests.scripted.server import ScriptedServer
from tests.scripted.values import Reply, Request
from tests.story import start_gate

NAME = "kill"
SEED = 20260131
DONE = re.compile(r"^run \d+: (?P<label>.+?): completed(,.*)?$")


@dataclass
class Count:
    """What all the kills came to."""

    killed: int = 0
    ended_before: int = 0
    left_before: int = 0
    left_after: list[str] = field(default_factory=list)
    said: int = 0
    lost: list[str] = field(default_factory=list)
    unsealed: int = 0


def owned_by(client: docker.DockerClient, pid: int) -> list[str]:
    """Labelled containers, in any state, and volumes of a process."""
    label = {"label": "gate.owner"}
    containers = client.api.containers(all=True, filters=label)
    volumes = client.api.volumes(filters=label)["Volumes"] or []
    named = [(entry["Names"][0], entry["Labels"]) for entry in containers] + [(v["Name"], v["Labels"]) for v in volumes]
    return [name for name, labels in named if labels["gate.owner"].endswith(f":{pid}")]


def agent(request: Request) -> Reply:
    """Long enough in its sandbox to be killed there."""
    results = [result.text for message in request.messages for result in message.tool_results]
    if len(results) < 2:
        return Reply.calling("bash", {"command": "sleep 0.2; echo Sums > sums.txt"}, text="I work.")
    return Reply("Sums: one and two are three.")


def session_seconds(server: ScriptedServer, folder: Path) -> float:
    """How long a session takes on this machine when nobody kills it."""
    began = time.monotonic()
    process = start_gate(
        "run", "--repository", folder / "repository", "--base", "main", "--mode", "smoke", "--jobs", "1", "--no-cache",
        "--out", folder / "whole", *models(server),
    )  # fmt: skip
    process.communicate(timeout=300)
    return time.monotonic() - began


def kill_once(moment: float, server: ScriptedServer, folder: Path, client: docker.DockerClient, count: Count) -> None:
    """One session, killed after ``moment`` seconds."""
    out = folder / "out"
    shutil.rmtree(out, ignore_errors=True)
    process = start_gate(
        "run", "--repository", folder / "repository", "--base", "main", "--mode", "smoke", "--jobs", "1", "--no-cache",
        "--out", out, *models(server),
    )  # fmt: skip
    done: list[str] = []

    def listen() -> None:
        assert process.stderr is not None
        for line in process.stderr:
            match = DONE.match(line.strip())
            if match:
                done.append(match["label"])

    reader = threading.Thread(target=listen, daemon=True)
    reader.start()
    time.sleep(moment)
    count.ended_before += process.poll() is not None
    count.killed += process.poll() is None
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait(30)
    reader.join(10)
    count.left_before += len(owned_by(client, process.pid))
    reaper = DockerSandbox()
    report = reaper.reap()
    reaper.close()
    count.left_after += [*owned_by(client, process.pid), *report.failed]
    _look_at_records(out, done, count)


def _look_at_records(out: Path, done: Sequence[str], count: Count) -> None:
    count.said += len(done)
    for label in done:
        _, _, tail = label.partition("/")
        found = [seal.parent for seal in out.glob("skills/*/eval-*/run-*/*/seal.json") if _is(seal.parent, tail)]
        if not found or any(check_folder(folder) for folder in found):
            count.lost.append(label)
    for events in out.glob("skills/*/eval-*/run-*/*/events.jsonl"):
        count.unsealed += not (events.parent / "seal.json").exists()
    for seal in out.glob("skills/*/eval-*/run-*/*/seal.json"):
        if check_folder(seal.parent):
            count.lost.append(f"{seal.parent}: sealed and not whole")


def _is(folder: Path, tail: str) -> bool:
    return str(folder).endswith(tail)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the bench."""
    parser = argparse.ArgumentParser(prog=f"python -m tests.bench.{NAME}", description=__doc__)
    parser.add_argument("--small", action="store_true")
    times = 10 if parser.parse_args(arguments).small else 100
    draw, count = random.Random(SEED), Count()
    client = docker.from_env(timeout=60)
    with tempfile.TemporaryDirectory() as name, ScriptedServer(generic.scenario(agent=agent)) as server:
        folder = Path(name)
        a_repository(folder / "repository")
        length = session_seconds(server, folder)
        for number in range(times):
            # One moment drawn from each equal part of a session, so that no part is spared.
            moment = 0.4 + length * (number + draw.random()) / times
            kill_once(moment, server, folder, client, count)
    client.close()
    rows = [
        ["sessions killed / ended before", f"{count.killed} / {count.ended_before}"],
        ["labelled objects left before the reaper", str(count.left_before)],
        ["labelled objects left after one pass", str(len(count.left_after))],
        ["runs that were said to be done", str(count.said)],
        ["of them lost or with a broken seal", str(len(count.lost))],
        ["runs under way, recorded and never sealed", str(count.unsealed)],
    ]
    print(table(["", "count"], rows))
    if times == 100:
        about = (__doc__ or "").split("``. ", 1)[1]
        write_table(NAME, "What is left of a session that is killed", about, ["100 kills", "count"], rows)
    for line in [*count.left_after, *count.lost]:
        print(f"wrong: {line}")
    if not count.killed or not count.left_before or not count.said:
        print("not measured: no session was killed while it had sandboxes and finished runs")
        return 2
    print(last_line([
        figure(NAME, len(count.left_after), "labelled objects left after one reaper pass", n=times, goal="0", ok=not count.left_after, baseline=float(count.left_before)),
        figure(NAME, len(count.lost), "sealed runs lost", n=count.said, goal="0", ok=not count.lost, baseline=float(count.said)),
    ]))  # fmt: skip
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
