"""Real agent programs from their registry packages, and whole sessions in which they run the cases."""

from __future__ import annotations

import fcntl
import json
import os
import shutil
import subprocess
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import docker
import pytest

from gate.domain.evidence import Event, RunRecord
from gate.evidence.bundle import load_events, load_run
from tests.conftest import IN_CI
from tests.scripted.judges import analyzer, comparator, grader
from tests.scripted.scenarios import Scenario, Step, by_role
from tests.scripted.server import ScriptedServer
from tests.scripted.values import Reply, Request
from tests.story import make_repository, run_gate

CANARY = "sk-canary-7f3e9a1b5c2d8e4f6071"
SKILL = (
    "---\nname: sums\ndescription: Adds numbers. Use when somebody asks for a sum.\n---\n"
    "# Sums\n\nAdd the numbers {word}, and always with great care.\n"
)
CASE: Mapping[str, Any] = {
    "id": 1,
    "prompt": "What is 1 and 2?",
    "expectations": ['The answer contains the word "Sums".'],
}
MCP_SUITE = """\
version: 1
cases:
  - id: 1
    prompt: How many tickets speak of refunds?
    mcp_servers:
      - name: tickets
        tools:
          - name: search
            description: Search tickets
            input_schema: {type: object, required: [q], properties: {q: {type: string}}}
            responses:
              - {when: {q: {equals: refund}}, text: "tickets 7 and 9 speak of it"}
    expectations: ['The answer contains the word "Sums".']
"""

# Prints the environment of everything that the tool uid can see, then looks for the key in every file but those of the image
# and of the program, which are read-only. The key is put
# together here so that this command does not find itself, and a file that holds it shows that the search works.
LOOK_AROUND = (
    "echo made > out.txt; env | sort; cat /proc/*/environ /proc/*/cmdline 2>/dev/null | tr '\\0' '\\n'; "
    "key=$(printf 'sk-%s' canary-7f3e9a1b5c2d8e4f6071 | tr x x); printf %s \"$key\" > /tmp/control; "
    'grep -rlF "$key" / --exclude-dir={proc,sys,usr,opt,.claude,.codex} 2>/dev/null; '
    "rm /tmp/control; ls /sys/class/net; echo looked"
)


def installed(package: str, version: str, program: str) -> Path:
    """The launcher of a program, installed by its package manager; kept for later test sessions of this machine."""
    if shutil.which("npm") is None:
        reason = "npm is not on this machine, so no agent program can be installed: apt-get install nodejs npm"
        (pytest.fail if IN_CI else pytest.skip)(reason)
    folder = Path(tempfile.gettempdir()) / f"skill-gate-agents-{os.getuid()}" / f"{program}-{version}"
    folder.mkdir(parents=True, exist_ok=True)
    launcher = folder / "node_modules/.bin" / program
    with (folder.parent / f"{program}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not (folder / "complete").exists():
            done = subprocess.run(
                ["npm", "install", "--no-audit", "--no-fund", "--prefix", str(folder), f"{package}@{version}"],
                capture_output=True,
                text=True,
                timeout=250,
                check=False,
            )
            assert done.returncode == 0, done.stderr[-2000:]
            (folder / "complete").touch()
    return launcher


MOUNTS = {"/work": True, "/skills": True, "/opt/agent": False}
"""Place -> whether root could write there; the agent's uid can in the first only."""


def boxes_with_programs(engine: docker.DockerClient) -> list[dict[str, Any]]:
    """What the engine says of the sandboxes that run now and hold an agent program."""
    running = [found.attrs for found in engine.containers.list(filters={"label": "gate.owner"})]
    return [facts for facts in running if any(mount["Destination"] == "/opt/agent" for mount in facts["Mounts"])]


@dataclass(frozen=True)
class Session:
    """What a session left behind."""

    out: Path
    stderr: str
    server: ScriptedServer
    conversation: list[tuple[Request, Reply]]
    """What the agent's model was asked and said, in order."""

    @property
    def report(self) -> dict[str, Any]:
        found: dict[str, Any] = json.loads((self.out / "report.json").read_text())
        return found

    def folders(self, arm: str) -> list[str]:
        """Of the runs of an arm, relative to the bundle."""
        return sorted(str(path.parent.relative_to(self.out)) for path in self.out.glob(f"skills/*/*/*/{arm}/seal.json"))

    def run(self, arm: str) -> tuple[RunRecord, tuple[Event, ...]]:
        """The first run of an arm, as later layers read it."""
        (folder, *_) = self.folders(arm)
        return load_run(self.out, folder), load_events(self.out, folder)

    def holds(self, needle: str) -> list[str]:
        """Files of the bundle that hold a text."""
        return [
            str(path.relative_to(self.out))
            for path in self.out.rglob("*")
            if path.is_file() and needle.encode() in path.read_bytes()
        ]


def session(
    tmp_path: Path,
    *,
    harness: str,
    launcher: Path,
    agent: Scenario,
    role: str,
    suite: Mapping[str, str] | None = None,
    options: tuple[str, ...] = (),
    allow_protocol_errors: bool = False,
) -> Session:
    """``skill-gate run --harness …`` over a repository with one skill. ``role``: words of the agent's system text."""
    files = dict(suite or {"skills/sums/evals/evals.json": json.dumps({"skill_name": "sums", "evals": [CASE]})})
    make_repository(
        tmp_path / "repository",
        {"skills/sums/SKILL.md": SKILL.format(word="up"), **files},
        {"skills/sums/SKILL.md": SKILL.format(word="together")},
    )
    said: list[tuple[Request, Reply]] = []

    def recorded(request: Request) -> Any:
        answer = agent(request)
        if isinstance(answer, Reply):
            said.append((request, answer))
        return answer

    steps: dict[Any, Step] = {
        role: recorded,
        "Answer with the word ready": Reply("ready"),
        "You check whether expectations": grader,
        "You compare two pieces of work": comparator,
        "You explain why two runs": analyzer,
    }
    with ScriptedServer(by_role(steps), strict_turns=False, allow_protocol_errors=allow_protocol_errors) as server:
        model = f"anthropic@{server.url}:agent" if harness == "claude-code" else f"openai@{server.openai_url}:agent"
        done = run_gate(
            "run", "--repository", tmp_path / "repository", "--base", "main", "--mode", "quick", "--jobs", "1",
            "--out", tmp_path / "out", "--model", model, "--judge-model", f"openai@{server.openai_url}:judge",
            "--harness", harness, "--agent", launcher, *options,
            ANTHROPIC_API_KEY=CANARY, OPENAI_API_KEY=CANARY,
        )  # fmt: skip
    assert (tmp_path / "out/report.json").exists(), done.stderr
    return Session(tmp_path / "out", done.stderr, server, said)


def assert_faithful(found: Session) -> None:
    """Every run's calls, results and answer are exactly what the model's server said and was told, arm by arm."""
    by_run: list[list[tuple[Request, Reply]]] = []
    for request, reply in found.conversation:
        if request.turn == 0:
            by_run.append([])
        by_run[-1].append((request, reply))
    records = [(load_run(found.out, f), load_events(found.out, f)) for arm in ARMS for f in found.folders(arm)]
    assert len(records) == len(by_run) > 0
    for record, events in records:
        assert record.outcome.value == "completed", record.reason
        calls = [(call.tool, call.args, call.call_id) for call in record.calls]
        matching = [turns for turns in by_run if _calls(turns) == calls]
        assert matching, (record.key.folder, calls, [_calls(turns) for turns in by_run])
        turns = matching[0]
        by_run.remove(turns)
        told = {r.id: r.text for request, _ in turns for message in request.messages for r in message.tool_results}
        assert {call.call_id for call in record.calls} == told.keys()
        for call in record.calls:
            # What the gate's own mock server answered stands as it answered it; programs put words around it.
            assert call.result == told[call.call_id] or (not call.reported and call.result in told[call.call_id])
        replies = [event.data["text"] for event in events if event.kind == "model_reply"]
        assert replies == [reply.text for _, reply in turns]
        assert record.response == turns[-1][1].text
        assert record.metrics.total_steps == len(turns)


ARMS = ("with_skill", "without_skill")


def _calls(turns: list[tuple[Request, Reply]]) -> list[tuple[str, Any, str]]:
    """The tool calls of a conversation as its last request repeats them: there they have their ids."""
    return [(call.name, call.arguments, call.id) for message in turns[-1][0].messages for call in message.tool_calls]
