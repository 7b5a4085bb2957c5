"""What an agent can do to its sandbox, and what becomes of the run: the outcome, what is collected, what stays behind.

Each fault goes through Layer 1 as a real run does; ``tests/docker/test_sandbox_faults.py`` holds the same at the seam.
"""

from __future__ import annotations

import json
import os
import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING
from uuid import uuid4

import pytest

from gate.adapters.docker_sandbox import DockerSandbox
from gate.domain.chat import ChatReply, ChatRequest
from gate.domain.evidence import Outcome, RunRecord
from gate.domain.plan import RunRequest
from gate.domain.seeding import SessionSeed
from gate.evidence.bundle import Bundle
from gate.evidence.redact import Redactor
from gate.evidence.seal import check_folder
from gate.execution.runner import execute
from gate.llm.roles import Models
from tests.docker.conftest import IMAGE
from tests.docker.test_sandbox_faults import BOMB
from tests.fakes.chat import ScriptedChat, use
from tests.unit.execution.world import Lines, StillClock, a_ledger, a_request

if TYPE_CHECKING:
    from docker import DockerClient

pytestmark = [pytest.mark.docker, pytest.mark.timeout(180)]

MEBIBYTE = 1024 * 1024
ENGINE_IS_OURS = "SKILL_GATE_RESTART_ENGINE"
"""Set to 1 where nobody else uses the engine: then it is restarted in the middle of a run."""


class RealClock(StillClock):
    """Durations for real, so that limits hold."""

    def monotonic_ms(self) -> int:
        return int(time.monotonic() * 1000)


@dataclass(frozen=True)
class Fault:
    """What the agent does, command by command, and what the gate must make of it."""

    commands: tuple[str | ChatReply, ...]
    outcome: Outcome = Outcome.COMPLETED
    also: tuple[Outcome, ...] = ()
    """What it may be as well, where it depends on how busy the machine is."""
    check: Callable[[RunRecord], None] = lambda record: None
    seconds: float = 20
    """For one command."""


def _says(number: int, *words: str, status: str = "") -> Callable[[RunRecord], None]:
    def check(record: RunRecord) -> None:
        call = record.calls[number]
        assert any(word in call.result for word in words), call.result[-500:]
        assert status in ("", call.status)

    return check


def _all(*checks: Callable[[RunRecord], None]) -> Callable[[RunRecord], None]:
    def check(record: RunRecord) -> None:
        for one in checks:
            one(record)

    return check


def _kept(*paths: str, at_most: int = 256 * MEBIBYTE) -> Callable[[RunRecord], None]:
    def check(record: RunRecord) -> None:
        assert [file.path for file in record.files] == list(paths)
        assert sum(file.size_bytes for file in record.files) <= at_most

    return check


def _is_cut(record: RunRecord) -> None:
    assert record.calls[0].truncated


def _small(record: RunRecord) -> None:
    assert all(len(call.result) < MEBIBYTE for call in record.calls)


STILL_ALIVE = "echo still alive"
FAULTS: dict[str, Fault] = {
    "kill process 1": Fault(
        ("kill -9 1; kill -TERM 1; kill -9 -1", STILL_ALIVE), check=_says(1, "still alive", status="success")
    ),
    "remove the programs": Fault(
        ("rm -rf /bin /usr /sbin /lib /etc 2>&1 | tail -n 1; rm -rf /work/* /tmp/*", STILL_ALIVE),
        check=_all(_says(0, "Read-only file system"), _says(1, "still alive"), _kept()),
    ),
    "fork bomb that stays": Fault(
        ("echo before > made", f"python3 -c '{BOMB}' >/dev/null 2>&1", *["sleep 0.2; sleep 0.2; true"] * 10),
        Outcome.SANDBOX_DEAD,
        # The commands after it run where the bomb has not yet used up every process by then.
        (Outcome.COMPLETED,),
        check=_kept("made"),
        seconds=3,
    ),
    "fork bomb in front": Fault(
        ("f() { while :; do f; done & f & }; f 2>/dev/null; while :; do sleep 1; done", STILL_ALIVE),
        check=_all(_says(0, "[stopped after", status="timeout"), _says(1, "still alive")),
        seconds=2,
    ),
    "memory bomb": Fault(
        ("exec python3 -c 'x = bytearray(3 << 30)'", STILL_ALIVE),
        check=_all(_says(0, "more memory than there is", status="error"), _says(1, "still alive")),
    ),
    "memory bomb in a child": Fault(
        ("python3 -c 'x = bytearray(3 << 30)'; exit 0", STILL_ALIVE), check=_says(1, "still alive")
    ),
    "disk fill": Fault(
        ("head -c 2G /dev/zero > big; head -c 2G /dev/zero > /tmp/big; head -c 2G /dev/zero > /dev/shm/big", STILL_ALIVE),
        check=_all(_says(0, "No space left", "File too large"), _says(1, "still alive"), _kept("big")),
    ),
    "files without number": Fault(
        ("mkdir n && cd n && seq 100000 | xargs touch 2>&1 | tail -n 1; rm -rf /work/n; " + STILL_ALIVE,),
        check=_all(_says(0, "No space left"), _says(0, "still alive")),
        seconds=60,
    ),
    "flood": Fault(
        ("yes", STILL_ALIVE), check=_all(_says(0, "[exit code 137]"), _says(1, "still alive"), _small, _is_cut)
    ),
    "flood of errors": Fault(("yes >&2", STILL_ALIVE), check=_all(_says(1, "still alive"), _small)),
    "endless file read": Fault(
        (use("read_file", {"path": "/dev/zero"}), STILL_ALIVE), check=_all(_says(1, "still alive"), _small)
    ),
    "file that never answers": Fault(
        ("mkfifo pipe", use("read_file", {"path": "pipe"}), STILL_ALIVE),
        check=_all(_says(1, "[stopped after", status="timeout"), _says(2, "still alive")),
        seconds=1,
    ),
    "daemon that leaves its group": Fault(
        ("setsid sleep 4242 >/dev/null 2>&1 & setsid -f sleep 4343; sleep 30", "pgrep -c -f '[s]leep 4[23]4'; echo counted"),
        check=_all(_says(0, "[stopped after", status="timeout"), _says(1, "0\ncounted")),
        seconds=1,
    ),
    "ignores being asked to end": Fault(
        ("trap '' TERM INT HUP; while :; do sleep 1; done", STILL_ALIVE),
        check=_all(_says(0, "[stopped after", status="timeout"), _says(1, "still alive")),
        seconds=1,
    ),
    "stops everything, its watchman too": Fault(
        ("kill -STOP -1; sleep 60", STILL_ALIVE), check=_says(1, "still alive"), seconds=1
    ),
    "file of a terabyte": Fault(
        ("truncate -s 1T bomb; echo rest > rest", STILL_ALIVE),
        check=_all(_says(1, "still alive"), lambda record: _kept(*sorted({"rest", *_names(record)}), at_most=10)(record)),
    ),
    "many files with holes": Fault(
        ("for i in $(seq 300); do truncate -s 250M hole$i; done; echo first > a",),
        check=lambda record: _is_in("sparse", record),
    ),
    "clock games": Fault(
        ("date -s '2099-01-01' 2>&1; touch -d 2099-01-01 later; touch -d 1901-01-01 earlier; date +%Y",),
        check=_all(_says(0, "Operation not permitted"), _kept("earlier", "later")),
    ),
    "program that hides under a known name": Fault(
        ("mkdir bin; printf '#!/bin/sh\\necho forged\\n' > bin/cat; chmod +x bin/cat; export PATH=/work/bin:$PATH; cat /etc/hostname",
         use("read_file", {"path": "bin/cat"})),
        check=_says(1, "echo forged"),
    ),
    "sentinel taken away": Fault(("mv .skill-gate gone; mkdir .skill-gate",), Outcome.SANDBOX_DEAD),
}  # fmt: skip


def _names(record: RunRecord) -> set[str]:
    return {file.path for file in record.files if file.size_bytes == 0}


def _is_in(word: str, record: RunRecord) -> None:
    assert any(item.kind == "files_refused" for item in record.fallbacks), record.fallbacks
    assert len(record.files) < 301


@pytest.fixture
def sandbox() -> Iterator[DockerSandbox]:
    made = DockerSandbox(workers=4)
    yield made
    made.close()


def run_one(
    commands: tuple[str | ChatReply, ...], request: RunRequest, sandbox: DockerSandbox, root: Path, session_id: str,
    image: str = "",
) -> RunRecord:  # fmt: skip
    """One run of Layer 1 whose agent gives these commands and then answers."""
    turns = [use("bash", {"command": item}) if isinstance(item, str) else item for item in commands]

    def script(asked: ChatRequest) -> str | ChatReply:
        number = int(asked.label.rpartition("-")[2]) - 1
        return turns[number] if number < len(turns) else "Done."

    [record] = execute(
        [request],
        session_id=session_id,
        run_date="2026-01-31",
        image=image or sandbox.resolve_image(IMAGE),
        jobs=1,
        sandbox=sandbox,
        models=Models(lambda role: ScriptedChat(script)),
        ledger=a_ledger(),
        bundle=Bundle(root),
        redactor=Redactor({}),
        seed=SessionSeed("7" * 64),
        clock=RealClock(),
        progress=Lines(),
        cancelled=threading.Event(),
    )
    return record


def left(engine: DockerClient, session_id: str) -> list[str]:
    label = {"label": f"gate.session={session_id}"}
    containers = [entry["Names"][0] for entry in engine.api.containers(all=True, filters=label)]
    return containers + [entry["Name"] for entry in engine.api.volumes(filters=label)["Volumes"] or []]


@pytest.mark.requirements("R20", "R221", "R222")
@pytest.mark.parametrize("name", list(FAULTS))
def test_a_fault_in_the_sandbox_has_its_outcome_and_leaves_nothing(
    engine: DockerClient, sandbox: DockerSandbox, tmp_path: Path, name: str
) -> None:
    fault = FAULTS[name]
    session_id = f"fault-{uuid4().hex[:8]}"
    request = a_request(steps=len(fault.commands) + 2, command_seconds=fault.seconds)

    began = time.monotonic()
    record = run_one(fault.commands, request, sandbox, tmp_path, session_id)

    assert record.outcome in (fault.outcome, *fault.also), record.reason
    assert record.scored, "it is the agent's doing and counts against its arm"
    assert "run_retried" not in [item.kind for item in record.fallbacks], "breaking the sandbox buys no second try"
    fault.check(record)
    assert check_folder(tmp_path / record.key.folder) == []
    assert left(engine, session_id) == []
    timing = json.loads((tmp_path / record.key.folder / "timing.json").read_text())
    assert timing["duration_ms"] <= (time.monotonic() - began) * 1000 + 1, "time is the gate's own"


def test_an_image_that_vanishes_is_infrastructure_with_its_reason(
    engine: DockerClient, sandbox: DockerSandbox, tmp_path: Path
) -> None:
    session_id = f"fault-{uuid4().hex[:8]}"
    made = engine.api.import_image_from_data(b"\0" * 10_240, repository="skill-gate-test-vanishing", tag=session_id)
    assert made
    image = sandbox.resolve_image(f"skill-gate-test-vanishing:{session_id}")
    engine.api.remove_image(f"skill-gate-test-vanishing:{session_id}", force=True)

    record = run_one(("true",), a_request(), sandbox, tmp_path, session_id, image=image)

    assert record.outcome is Outcome.INFRA_ERROR
    assert "No such image" in record.reason
    assert "run_retried" in [item.kind for item in record.fallbacks]
    assert check_folder(tmp_path / record.key.folder) == []
    assert left(engine, session_id) == []


@pytest.mark.timeout(300)
def test_an_engine_that_restarts_in_the_middle_of_a_run_is_infrastructure(
    engine: DockerClient, sandbox: DockerSandbox, tmp_path: Path
) -> None:
    if os.environ.get(ENGINE_IS_OURS) != "1":
        pytest.skip(f"restarts the engine under everybody who uses it: {ENGINE_IS_OURS}=1 where nobody else does")
    session_id = f"fault-{uuid4().hex[:8]}"
    root = Path(__file__).resolve().parents[2]
    restarted = threading.Event()

    def restart() -> None:
        for step in ("stop", "start"):
            subprocess.run([str(root / ".ci/engine"), step], check=True, capture_output=True, timeout=120)
        restarted.set()

    timer = threading.Timer(2.0, restart)
    timer.start()
    record = run_one(("sleep 30", "true"), a_request(command_seconds=40), sandbox, tmp_path, session_id)
    timer.join()

    assert restarted.is_set()
    # The second try finds the engine again, or it does not: never the agent's fault, never a made-up result.
    assert record.outcome in (Outcome.COMPLETED, Outcome.INFRA_ERROR), record.reason
    assert "run_retried" in [item.kind for item in record.fallbacks]
    assert check_folder(tmp_path / record.key.folder) == []
    sandbox.reap(session_id)
    assert left(engine, session_id) == []


def test_the_commands_that_faults_are_made_of_are_in_the_image(sandbox: DockerSandbox, tmp_path: Path) -> None:
    """A fault whose program is missing would be harmless for the wrong reason."""
    programs = "yes truncate setsid mkfifo xargs pgrep seq head touch date python3"
    session_id = f"fault-{uuid4().hex[:8]}"
    record = run_one((f"command -v {programs}",), a_request(), sandbox, tmp_path, session_id)

    assert record.calls[0].status == "success"
    assert len(record.calls[0].result.split()) == len(programs.split())
