"""What is left of a session that is killed, and what the same command makes of it: SIGKILL at random moments of ``run`` and ``merge``.

``python -m tests.bench.kill [--small]``. A whole process is killed at a moment drawn from the length of its session, one moment
from each equal part, so that no part is spared. Then the same command is given again. Counted are: labelled containers and
volumes after one pass of the reaper; runs that the program had said were done and that are not there with a seal that holds;
sessions whose verdict has other bytes than that of an undisturbed one; replies that were recorded and asked for again, by the
model server's own log; requests in that log that the report of the session does not count. Compared are report.json and every
gate-result.json, every byte but those of ``mean_seconds`` (a clock's) and of ``usage`` and ``cost``: a session that was killed
while calls were under way has spent more than an undisturbed one, and says so.

Some sessions run on the Docker engine, the others, and every merge, with sandboxes in memory and everything else as it is.
Naive variants beside them: no reaper pass, records that are written at the end, a program without a journal, and a merge
whose folder is taken as the killed process left it.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import multiprocessing
import os
import random
import re
import shutil
import signal
import tempfile
import threading
import time
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

import docker

from gate.adapters.docker_sandbox import DockerSandbox
from gate.evidence.seal import check_bundle, check_folder
from gate.llm.journal import JOURNAL
from tests.bench._figures import figure, going, last_line, table
from tests.bench._forked import KEY, Forks
from tests.bench._performance import write_table
from tests.docker.test_stories import a_repository, models
from tests.scripted import generic
from tests.scripted.faults import Answer
from tests.scripted.scenarios import Scenario
from tests.scripted.server import ScriptedServer
from tests.scripted.values import Reply, Request
from tests.story import run_gate, start_gate
from tests.verdicts import calls_said, verdict_bytes

NAME = "kill"
SEED = 20260131
SESSION_SEED = "5" * 64
DONE = re.compile(r"^run \d+: (?P<label>.+?): completed(,.*)?$")
LATENCY_S = 0.02
"""Of the scripted model: long enough that calls are under way when a session is killed."""
JOBS = 2
NAIVE_EVERY = 3
"""One killed folder in so many is given to the program without a journal too."""


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
    merges: int = 0
    """Killed ones."""
    half_merged: int = 0
    """Folders of killed merges that were no whole bundle as they stood."""
    other: list[str] = field(default_factory=list)
    """Sessions and merges that were given again and did not end as an undisturbed one."""
    recorded: int = 0
    """Replies that were recorded when a session was killed."""
    twice: int = 0
    """Of them, asked for again."""
    recorded_naive: int = 0
    """Of them, in the folders that a program without a journal was given too."""
    twice_naive: int = 0
    under_way: int = 0
    """Calls whose answer a kill has lost."""
    forgotten: int = 0
    """Requests that reached the model and that no report counts."""


# --- what was recorded and what was asked


def recorded(out: Path) -> tuple[int, int]:
    """(replies, calls without one) in the journal of a session that was killed."""
    calls = [json.loads(path.read_bytes())["value"] for path in out.glob(f"{JOURNAL}/values/*/*/*.json")]
    calls = [call for call in calls if "reply" in call]
    return sum(call["reply"] is not None for call in calls), sum(call["reply"] is None for call in calls)


class Asked:
    """How many requests reached the model since the last look."""

    def __init__(self, server: ScriptedServer) -> None:
        self._server = server
        self._before = 0

    def since(self) -> int:
        """And from now on anew."""
        before, self._before = self._before, len(self._server.requests)
        return self._before - before


def judge_resumed(
    whole: Path, out: Path, *, asked: Asked, needed: int, kept: tuple[int, int], first: int, count: Count
) -> None:
    """Hold a session that was killed and given again against an undisturbed one.

    ``needed``: requests of the undisturbed one, ``first``: of the killed one, ``kept``: what it had recorded.
    """
    replies, lost = kept
    again = asked.since()
    if verdict_bytes(out) != verdict_bytes(whole):
        count.other.append(f"{out}: another verdict")
    count.recorded += replies
    count.under_way += lost
    count.twice += max(0, again - (needed - replies))
    count.forgotten += max(0, first + again - calls_said(out))


# --- real containers


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


def docker_session(folder: Path, out: Path, server: ScriptedServer) -> list[object]:
    """The command of every session of this part."""
    return [
        "run", "--repository", folder / "repository", "--base", "main", "--mode", "smoke", "--jobs", "1", "--no-cache",
        "--seed", SESSION_SEED, "--out", out, *models(server),
    ]  # fmt: skip


def kill_on_docker(times: int, draw: random.Random, count: Count, *, by_requests: bool) -> None:
    """Sessions with real sandboxes. ``by_requests``: a kill waits for a share of a session's model requests instead of its
    time, so that a few kills find it at work on any machine."""
    client = docker.from_env(timeout=60)
    with tempfile.TemporaryDirectory() as name, ScriptedServer(generic.scenario(agent=agent)) as server:
        folder, asked = Path(name), Asked(server)
        a_repository(folder / "repository")
        began = time.monotonic()
        run_gate(*docker_session(folder, folder / "whole", server), ANTHROPIC_API_KEY=KEY)
        length, needed = time.monotonic() - began, asked.since()
        for number in range(times):
            going(NAME, f"session {number + 1} of {times} on the engine")
            out = folder / "out"
            shutil.rmtree(out, ignore_errors=True)
            moment = 0.4 + length * (number + draw.random()) / times
            until = len(server.requests) + needed * (number + 1) // (times + 1)
            wait = partial(_until, server, until) if by_requests else partial(time.sleep, moment)
            if not _kill_docker(wait, docker_session(folder, out, server), out, client, count):
                asked.since()
                continue
            first, kept = asked.since(), recorded(out)
            run_gate(*docker_session(folder, out, server), ANTHROPIC_API_KEY=KEY)
            judge_resumed(folder / "whole", out, asked=asked, needed=needed, kept=kept, first=first, count=count)
        reaper = DockerSandbox()
        count.left_after += reaper.reap().failed
        reaper.close()
    client.close()


def _until(server: ScriptedServer, requests: int) -> None:
    end = time.monotonic() + 120
    while len(server.requests) < requests and time.monotonic() < end:
        time.sleep(0.01)


def _kill_docker(
    wait: Callable[[], None], command: Sequence[object], out: Path, client: docker.DockerClient, count: Count
) -> bool:
    """One session, killed after ``wait``; False where it had ended before."""
    process = start_gate(*command, ANTHROPIC_API_KEY=KEY)
    done: list[str] = []

    def listen() -> None:
        assert process.stderr is not None
        for line in process.stderr:
            match = DONE.match(line.strip())
            if match:
                done.append(match["label"])

    reader = threading.Thread(target=listen, daemon=True)
    reader.start()
    wait()
    alive = process.poll() is None
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait(30)
    reader.join(10)
    count.killed += alive
    count.ended_before += not alive
    count.left_before += len(owned_by(client, process.pid))
    reaper = DockerSandbox()
    report = reaper.reap()
    reaper.close()
    count.left_after += [*owned_by(client, process.pid), *report.failed]
    look_at_records(out, done, count)
    return alive


def look_at_records(out: Path, done: Sequence[str], count: Count) -> None:
    """Every run that was said to be done is there, and every sealed one is whole."""
    count.said += len(done)
    for label in done:
        _, _, tail = label.partition("/")
        found = [
            seal.parent for seal in out.glob("skills/*/eval-*/run-*/*/seal.json") if str(seal.parent).endswith(tail)
        ]
        if not found or any(check_folder(folder) for folder in found):
            count.lost.append(label)
    for events in out.glob("skills/*/eval-*/run-*/*/events.jsonl"):
        count.unsealed += not (events.parent / "seal.json").exists()
    for seal in out.glob("skills/*/eval-*/run-*/*/seal.json"):
        if check_folder(seal.parent):
            count.lost.append(f"{seal.parent}: sealed and not whole")


# --- sandboxes in memory


def slowly(answer: Scenario) -> Scenario:
    """The same model, which takes its time."""

    def slow(request: Request) -> Answer:
        time.sleep(LATENCY_S)
        return answer(request)

    return slow


class Stage:
    """A repository, a scripted model, and the command in forks."""

    def __init__(self, folder: Path, server: ScriptedServer, forks: Forks) -> None:
        self.folder, self.forks = folder, forks
        self.log = folder / "log"
        a_repository(folder / "repository")
        self.models = (
            "--model",
            f"openai@{server.openai_url}:agent",
            "--judge-model",
            f"openai@{server.openai_url}:judge",
        )
        self.of_session = (
            "--repository", str(folder / "repository"), "--base", "main", "--seed", SESSION_SEED, "--jobs", str(JOBS), *self.models,
        )  # fmt: skip

    def run(self, out: Path, kill_after: float | None = None) -> bool:
        """A session; whether it came to its end. Raises RuntimeError where it fails."""
        return self._command(("run", *self.of_session, "--no-cache", "--out", str(out)), kill_after)

    def shards(self) -> list[Path]:
        """The session in two shards."""
        self._command(("plan", *self.of_session, "--shards", "2", "--out", str(self.folder / "plan.json")))
        folders = []
        for number in (1, 2):
            folders.append(self.folder / f"shard-{number}")
            plan = ("--plan", str(self.folder / "plan.json"), "--shard", f"{number}/2", "--no-cache")
            self._command(("run", *plan, "--out", str(folders[-1])))
        return folders

    def merge(self, folders: Sequence[Path], out: Path, kill_after: float | None = None) -> bool:
        """A merge, as ``run``."""
        plan = ("--plan", str(self.folder / "plan.json"), "--out", str(out))
        return self._command(("merge", *map(str, folders), *plan, "--no-cache"), kill_after)

    def _command(self, arguments: Sequence[str], kill_after: float | None = None) -> bool:
        code = self.forks.run(arguments, self.log, kill_after=kill_after)
        if code not in (0, -signal.SIGKILL):
            raise RuntimeError(self.log.read_text(encoding="utf-8")[-1500:])
        return code == 0


def kill_in_memory(runs: int, merges: int, draw: random.Random, count: Count) -> None:
    """Sessions and merges whose sandboxes are in memory."""
    answer = slowly(generic.scenario())
    with tempfile.TemporaryDirectory() as name, ScriptedServer(answer) as server, Forks() as forks:
        stage, asked = Stage(Path(name), server, forks), Asked(server)
        _kill_runs(stage, runs, asked, draw, count)
        _kill_merges(stage, merges, draw, count)


def _length(step: object, *arguments: object) -> float:
    began = time.monotonic()
    step(*arguments)  # type: ignore[operator]
    return time.monotonic() - began


def _kill_runs(stage: Stage, times: int, asked: Asked, draw: random.Random, count: Count) -> None:
    whole = stage.folder / "whole"
    _length(stage.run, whole)
    needed = asked.since()
    length = _length(stage.run, stage.folder / "again")  # the first one was slower: everything was new to it
    asked.since()
    every = NAIVE_EVERY if times >= NAIVE_EVERY * 10 else 1
    for number in range(times):
        going(NAME, f"session {number + 1} of {times} in memory")
        out = stage.folder / f"out-{number}"
        if stage.run(out, kill_after=length * (number + draw.random()) / times):
            count.ended_before += 1
            asked.since()
            continue
        count.killed += 1
        first, kept = asked.since(), recorded(out)
        naive = stage.folder / f"naive-{number}"
        if beside := number % every == every - 1 and out.exists():
            shutil.copytree(out, naive)
            shutil.rmtree(naive / JOURNAL, ignore_errors=True)
        stage.run(out)
        judge_resumed(whole, out, asked=asked, needed=needed, kept=kept, first=first, count=count)
        if beside:
            stage.run(naive)
            count.recorded_naive += kept[0]
            count.twice_naive += max(0, asked.since() - (needed - kept[0]))
            shutil.rmtree(naive)
        shutil.rmtree(out)


def _kill_merges(stage: Stage, times: int, draw: random.Random, count: Count) -> None:
    folders, whole = stage.shards(), stage.folder / "merged"
    length = _length(stage.merge, folders, whole)
    for number in range(times):
        going(NAME, f"merge {number + 1} of {times}")
        out = stage.folder / f"merged-{number}"
        if stage.merge(folders, out, kill_after=length * (number + draw.random()) / times):
            count.ended_before += 1
            continue
        count.merges += 1
        count.half_merged += not out.exists() or bool(check_bundle(out))
        stage.merge(folders, out)
        if check_bundle(out) or verdict_bytes(out) != verdict_bytes(whole):
            count.other.append(f"{out}: another merge")
        shutil.rmtree(out)
    if verdict_bytes(whole) != verdict_bytes(stage.folder / "whole"):
        count.other.append("the merge of the shards is not the session in one piece")


def _on_docker(times: int, by_requests: bool) -> Count:
    count = Count()
    kill_on_docker(times, random.Random(SEED), count, by_requests=by_requests)
    return count


def _in_memory(sessions: int, merges: int) -> Count:
    count = Count()
    kill_in_memory(sessions, merges, random.Random(SEED + 1), count)
    return count


def _sum(parts: Iterable[Count]) -> Count:
    """Numbers are added, lists joined."""
    whole = Count()
    for part in parts:
        for name, value in vars(part).items():
            setattr(whole, name, getattr(whole, name) + value)
    return whole


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the bench."""
    parser = argparse.ArgumentParser(prog=f"python -m tests.bench.{NAME}", description=__doc__)
    parser.add_argument("--small", action="store_true")
    small = parser.parse_args(arguments).small
    on_docker, in_memory, merges = (2, 7, 10) if small else (40, 60, 100)
    # Both mostly wait, and share nothing: side by side they take little longer than one of them.
    with ProcessPoolExecutor(2, multiprocessing.get_context("spawn")) as pool:
        parts = [pool.submit(_on_docker, on_docker, small), pool.submit(_in_memory, in_memory, merges)]
        count = _sum(part.result() for part in parts)
    rows = [
        ["sessions killed", str(count.killed)],
        ["merges killed", str(count.merges)],
        ["sessions and merges that had ended before", str(count.ended_before)],
        ["of those killed, ended otherwise than an undisturbed one", str(len(count.other))],
        ["folders of killed merges that were no whole bundle", str(count.half_merged)],
        ["replies recorded before the kill", str(count.recorded)],
        ["of them asked for again", str(count.twice)],
        ["of the same, asked for again without a journal", f"{count.twice_naive} of {count.recorded_naive}"],
        ["calls under way when killed, counted as of unknown usage", str(count.under_way)],
        ["requests that reached the model and are in no account", str(count.forgotten)],
        ["labelled objects left before the reaper", str(count.left_before)],
        ["labelled objects left after one pass", str(len(count.left_after))],
        ["runs that were said to be done", str(count.said)],
        ["of them lost or with a broken seal", str(len(count.lost))],
        ["runs under way, recorded and never sealed", str(count.unsealed)],
    ]  # fmt: skip
    print(table(["", "count"], rows))
    if not small:
        about = (__doc__ or "").split("``. ", 1)[1].split("]``. ")[-1]
        write_table(
            NAME, "What is left of a session that is killed", about, ["100 kills of run, 100 of merge", "count"], rows
        )
    for line in [*count.left_after, *count.lost, *count.other]:
        print(f"wrong: {line}")
    if not (count.killed and count.merges and count.left_before and count.said and count.recorded):
        print("not measured: nothing was killed while it had sandboxes, finished runs and recorded replies")
        return 2
    kills, unpaid = count.killed + count.merges, count.twice + count.forgotten
    print(last_line([
        figure(NAME, len(count.left_after), "labelled objects left after one reaper pass", n=on_docker, goal="0", ok=not count.left_after, baseline=float(count.left_before)),
        figure(NAME, len(count.lost), "sealed runs lost", n=count.said, goal="0", ok=not count.lost, baseline=float(count.said)),
        figure(NAME, len(count.other), "resumed sessions and merges with other verdict bytes", n=kills, goal="0", ok=not count.other, baseline=float(count.half_merged)),
        figure(NAME, unpaid, "recorded replies asked for again, and requests that no account has", n=count.recorded, goal="0", ok=not unpaid, baseline=float(count.twice_naive)),
    ]))  # fmt: skip
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
