"""Layer 1 on a real engine: what an agent finds in its sandbox, arm by arm."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest

from gate.adapters.docker_sandbox import DockerSandbox
from gate.domain.chat import ChatReply, ChatRequest
from gate.domain.checks import Check, Command
from gate.domain.evidence import Outcome, RunRecord
from gate.domain.plan import Arm, RunRequest
from gate.domain.seeding import SessionSeed
from gate.domain.suite import Case, FixtureFile, ServiceProbe
from gate.errors import Cancelled
from gate.evidence.bundle import Bundle
from gate.evidence.redact import Redactor
from gate.execution.runner import execute
from gate.execution.verification import verify_run
from gate.llm.roles import Models
from tests.builders_skill import a_case
from tests.fakes.chat import ScriptedChat, use
from tests.unit.execution.world import Lines, StillClock, a_ledger, a_request, sums_skill

pytestmark = pytest.mark.docker

IMAGE = "skill-gate-sandbox:dev"
CANARY = "sk-canary-5f0c1d2e3b4a59687"
# What an agent could do to find what it must not have: skills, evals, keys, other processes' environments, the network.
SEARCH = """
find / \\( -path /proc -o -path /sys \\) -prune -o \\( -iname 'skill.md' -o -iname 'evals*' -o -name '.git' \\) -print 2>/dev/null
cat /proc/[0-9]*/environ 2>/dev/null | tr '\\0' '\\n' | sort -u
ls /sys/class/net
ls -l /skills/*/scripts 2>/dev/null | awk '{print $1, $NF}'
touch /skills/x 2>&1
true
"""


@pytest.fixture
def sandbox() -> Iterator[DockerSandbox]:
    """The real one."""
    made = DockerSandbox(workers=4)
    yield made
    made.close()


@pytest.fixture(autouse=True)
def _canary(monkeypatch: pytest.MonkeyPatch) -> None:
    """A key in the gate's own environment."""
    monkeypatch.setenv("ANTHROPIC_API_KEY", CANARY)


class SystemClock(StillClock):
    """Durations for real, so that limits hold."""

    def monotonic_ms(self) -> int:
        import time

        return int(time.monotonic() * 1000)


def _execute(
    requests: list[RunRequest],
    script: Any,
    sandbox: DockerSandbox,
    root: Path,
    *,
    cancelled: threading.Event | None = None,
    session_id: str = "",
    image: str = IMAGE,
) -> list[RunRecord]:
    session_id = session_id or f"test-{uuid4().hex[:8]}"
    return execute(
        requests,
        session_id=session_id,
        run_date="2026-01-31",
        image=sandbox.resolve_image(image),
        jobs=2,
        sandbox=sandbox,
        models=Models(lambda role: ScriptedChat(script)),
        ledger=a_ledger(),
        bundle=Bundle(root),
        redactor=Redactor({}),
        seed=SessionSeed("7" * 64),
        clock=SystemClock(),
        progress=Lines(),
        cancelled=cancelled or threading.Event(),
    )


def _turns(*replies: Any) -> Any:
    """Every run gets the same replies, turn by turn."""

    def script(request: ChatRequest) -> str | ChatReply:
        reply: str | ChatReply = replies[int(request.label.rpartition("-")[2]) - 1]
        return reply

    return script


def _events(root: Path, record: RunRecord, kind: str) -> list[dict[str, Any]]:
    lines = (root / record.key.folder / "events.jsonl").read_text().splitlines()
    return [event["data"] for event in map(json.loads, lines) if event["kind"] == kind]


@pytest.fixture
def case() -> Case:
    """A case with a program among its fixture files."""
    return a_case(
        files=(
            FixtureFile(path="data/numbers.csv", data=b"1\n2\n"),
            FixtureFile(path="tool.sh", data=b"#!/bin/sh\necho ran\n", executable=True),
        )
    )


@pytest.mark.requirements("R8", "R16", "R18", "R19", "R221", "R222", "R223")
def test_one_case_with_and_without_the_skill_on_a_real_engine(
    sandbox: DockerSandbox, tmp_path: Path, case: Case
) -> None:
    requests = [a_request(arm, case=case) for arm in (Arm.WITH_SKILL, Arm.WITHOUT_SKILL)]
    script = _turns(
        use("list_files"),
        use("bash", {"command": f"cat /skills/*/SKILL.md; ./tool.sh; {SEARCH}"}),
        use("write_file", {"path": "out/sum.txt", "content": "3\n"}),
        use("bash", {"command": "printf '#!/bin/sh\\n' > out/run.sh; chmod +x out/run.sh; ln -s /etc/passwd out/link"}),
        "The sum is 3.",
    )
    with_skill, without = _execute(requests, script, sandbox, tmp_path)

    for record in (with_skill, without):
        assert record.completed, record.reason
        assert record.calls[0].result == "d data\nf data/numbers.csv\nf tool.sh\n"
        assert {(file.path, file.fixture, file.executable) for file in record.files} == {
            ("data/numbers.csv", "unchanged", False),
            ("tool.sh", "unchanged", True),
            ("out/sum.txt", "new", False),
            ("out/run.sh", "new", True),
        }
        assert [item.kind for item in record.fallbacks] == ["files_refused"]
        assert (tmp_path / record.key.folder / "workspace/out/sum.txt").read_text() == "3\n"
        [seen] = _events(tmp_path, record, "arm_checked")
        assert seen["network"] == "none"
        assert "ANTHROPIC_API_KEY" not in seen["environment"]

    [seen] = _events(tmp_path, with_skill, "arm_checked")
    assert (seen["skills_seen"], seen["skill_files"]) == (1, 3)
    assert seen["skill_md_sha256"] == sums_skill().files[0].sha256
    assert with_skill.metrics.activated
    found = with_skill.calls[1].result
    assert "Read every number aloud" in found
    assert "-rwxr-xr-x add.py" in found
    assert "\nran\n" in found
    assert "touch: cannot touch '/skills/x'" in found
    assert [line for line in found.splitlines() if line.startswith("/")] == ["/skills/sums/SKILL.md"]

    [seen] = _events(tmp_path, without, "arm_checked")
    assert (seen["skills_seen"], seen["skill_files"], seen["skill_md_sha256"]) == (0, 0, None)
    assert not without.metrics.activated
    found = without.calls[1].result
    assert "Read every number aloud" not in found
    assert [line for line in found.splitlines() if line.startswith("/")] == []
    assert without.contaminated is None
    assert without.metrics.attempts > 0

    written = [path for path in tmp_path.rglob("*") if path.is_file()]
    assert written
    for path in written:
        assert CANARY.encode() not in path.read_bytes(), path


def test_a_command_that_never_ends_is_stopped_and_the_agent_goes_on(sandbox: DockerSandbox, tmp_path: Path) -> None:
    script = _turns(use("bash", {"command": "echo begun; sleep 300"}), use("bash", {"command": "echo on"}), "Done.")
    [record] = _execute([a_request(command_seconds=1)], script, sandbox, tmp_path)
    assert record.completed, record.reason
    assert (record.calls[0].status, record.calls[0].result) == ("timeout", "begun\n[stopped after 1 s]")
    assert record.calls[1].result == "on\n"
    assert [(item.kind, item.count) for item in record.fallbacks] == [("tool_timeout", 1)]


def test_an_agent_that_takes_all_processes_is_scored_for_it(sandbox: DockerSandbox, tmp_path: Path) -> None:
    bomb = "for i in $(seq 400); do setsid sleep 600 & done; wait"
    script = _turns(use("bash", {"command": bomb}), use("bash", {"command": "echo alive"}), "Done.")
    [record] = _execute([a_request(command_seconds=2)], script, sandbox, tmp_path)
    # A box that the engine could clear goes on; one that it could not is the agent's doing. Never infrastructure.
    assert record.outcome in (Outcome.COMPLETED, Outcome.SANDBOX_DEAD, Outcome.OOM), record.reason
    assert record.scored
    assert "run_retried" not in [item.kind for item in record.fallbacks]


def test_checks_and_produced_code_run_in_fresh_containers_over_a_copy(sandbox: DockerSandbox, tmp_path: Path) -> None:
    commands = [
        "test -x run.sh && ./run.sh",
        "test ! -x plain.sh && test ! -e /skills/sums && echo $HOME",
        "rm -f main.py; echo gone",
        "test -e main.py && python3 main.py",
    ]
    case = a_case(
        checks=tuple(Check(id=f"c{number}", parameters=Command(run=run)) for number, run in enumerate(commands, 1))
    )
    write = "printf '#!/bin/sh\\necho hello\\n' | tee run.sh > plain.sh; chmod +x run.sh; echo 'import helper; print(helper.x)' > main.py; echo 'x = 5' > helper.py"
    script = _turns(use("bash", {"command": write}), "Done.")
    [record] = _execute([a_request(case=case)], script, sandbox, tmp_path)
    found = verify_run(
        record, case, bundle=Bundle(tmp_path), sandbox=sandbox, image=record.image, session_id="test-verification"
    )
    assert [(result.status, result.exit_code) for result in found.commands] == [("ran", 0)] * 4, found.commands
    assert [result.stdout for result in found.commands] == ["hello\n", "/tmp\n", "gone\n", "5\n"]
    assert found.produced is not None
    assert (found.produced.entry_point, found.produced.outcome, found.produced.stdout) == ("main.py", "ok", "5\n")


def test_a_cancelled_session_leaves_nothing_on_the_engine(sandbox: DockerSandbox, tmp_path: Path, engine: Any) -> None:
    cancelled = threading.Event()
    session_id = f"test-{uuid4().hex[:8]}"

    def cancelling(request: ChatRequest) -> ChatReply:
        threading.Timer(1.0, cancelled.set).start()
        return use("bash", {"command": "sleep 300"})

    with pytest.raises(Cancelled):
        _execute(
            [a_request(run=run) for run in range(1, 5)],
            cancelling,
            sandbox,
            tmp_path,
            cancelled=cancelled,
            session_id=session_id,
        )
    label = {"label": f"gate.session={session_id}"}
    assert engine.api.containers(all=True, filters=label) == []
    assert not engine.api.volumes(filters=label)["Volumes"]


SERVER = b"""import http.server
class Hello(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        self.send_response(200)
        self.end_headers()
        self.wfile.write(b"hello")
print("up", flush=True)
http.server.HTTPServer(("127.0.0.1", 8123), Hello).serve_forever()
"""


@pytest.mark.requirements("R190")
@pytest.mark.parametrize(
    ("service", "program", "outcome"),
    [
        (ServiceProbe(port=8123, contains="hello"), SERVER, "service_ok"),
        (ServiceProbe(port=8123, path="/", status=404), SERVER, "service_failed"),
        (ServiceProbe(port=8124, seconds=2), SERVER, "service_failed"),
        (ServiceProbe(port=8123, seconds=10), b"import os, signal\nos.kill(-1, signal.SIGKILL)\n", "service_failed"),
    ],
)
def test_a_produced_server_is_asked_once_in_a_container_of_its_own_and_is_gone_afterwards(
    sandbox: DockerSandbox, tmp_path: Path, service: ServiceProbe, program: bytes, outcome: str
) -> None:
    case = a_case(service=service)
    write = use("write_file", {"path": "server.py", "content": program.decode()})
    [record] = _execute([a_request(case=case)], [write, "Done."], sandbox, tmp_path)
    session_id = f"verify-{uuid4().hex[:8]}"
    found = verify_run(
        record,
        case,
        bundle=Bundle(tmp_path),
        sandbox=sandbox,
        image=sandbox.resolve_image(IMAGE),
        session_id=session_id,
    )
    assert found.produced is not None
    assert found.produced.outcome == outcome, found.produced
    assert sandbox.reap(session_id).removed_containers == 0


@pytest.mark.requirements("R8", "R26")
def test_the_same_run_twice_in_real_sandboxes_gives_the_same_bytes_apart_from_the_clock(
    sandbox: DockerSandbox, tmp_path: Path
) -> None:
    def agent(request: ChatRequest) -> ChatReply | str:
        done = sum(message.role == "assistant" for message in request.messages)
        commands = [
            "ls -R /skills/sums; id; env | sort",
            "cat /skills/sums/SKILL.md",
            "echo $RANDOM > /dev/null; ps ax | wc -l",
        ]
        return use("bash", {"command": commands[done]}) if done < len(commands) else "The sum is 3."

    texts = []
    for name in ("one", "two"):
        requests = [a_request(arm) for arm in (Arm.WITH_SKILL, Arm.WITHOUT_SKILL)]
        records = _execute(requests, agent, sandbox, tmp_path / name)
        assert [record.outcome for record in records] == [Outcome.COMPLETED] * 2
        texts.append(
            [(tmp_path / name / record.key.folder / "outputs/transcript.md").read_bytes() for record in records]
        )
    assert texts[0] == texts[1]


@pytest.mark.requirements("R16", "R23")
def test_an_image_with_the_skill_built_in_gives_no_baseline_and_says_where_it_lies(
    sandbox: DockerSandbox, tmp_path: Path, engine: Any
) -> None:
    text = sums_skill().text.replace("'", "")
    made = engine.containers.run(
        IMAGE, ["sh", "-c", f"mkdir -p /opt/baked && printf '%s' '{text}' > /opt/baked/README"], detach=True
    )
    made.wait()
    tag = uuid4().hex[:8]
    made.commit(repository="skill-gate-test-baked", tag=tag)
    made.remove()
    try:
        requests = [a_request(arm) for arm in (Arm.WITH_SKILL, Arm.WITHOUT_SKILL)]
        with_skill, without = _execute(
            requests, _turns("The sum is 3."), sandbox, tmp_path, image=f"skill-gate-test-baked:{tag}"
        )
    finally:
        engine.api.remove_image(f"skill-gate-test-baked:{tag}", force=True)

    assert with_skill.completed, with_skill.reason
    assert without.outcome is Outcome.INFRA_ERROR
    assert "itself holds the skill under test: /opt/baked/README" in without.reason
