"""Any other agent program, by a command of the base policy; and what becomes of the volume that programs lie in."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import docker
import pytest

from gate.adapters.docker_sandbox import DockerSandbox
from gate.domain.sandbox import BoxSpec, ProgramFile
from gate.errors import SandboxError
from tests.docker.agents import CASE, SKILL
from tests.docker.conftest import IMAGE
from tests.scripted.judges import comparator, grader
from tests.scripted.scenarios import Step, by_role
from tests.scripted.server import ScriptedServer
from tests.scripted.values import Reply, Request, ToolCall
from tests.story import labelled, make_repository, run_gate

pytestmark = [pytest.mark.docker, pytest.mark.timeout(300)]

# A whole agent: chat completions, one tool, skills by their front matter.
AGENT = """#!/usr/bin/env python3
import json, os, pathlib, subprocess, sys, urllib.request
skills = "".join(f"- {p.parent.name}: {p.read_text().split('description: ')[1].splitlines()[0]} ({p})\\n"
                 for p in sorted(pathlib.Path(sys.argv[1]).glob("*/SKILL.md")))
messages = [{"role": "system", "content": "You are a small agent.\\n" + skills},
            {"role": "user", "content": sys.stdin.read()}]
tool = {"type": "function", "function": {"name": "shell", "parameters": {
    "type": "object", "properties": {"command": {"type": "string"}}}}}
while True:
    body = {"model": os.environ["GATE_MODEL"], "messages": messages, "tools": [tool]}
    request = urllib.request.Request(os.environ["OPENAI_BASE_URL"] + "/chat/completions", json.dumps(body).encode(),
        {"content-type": "application/json", "authorization": "Bearer " + os.environ["OPENAI_API_KEY"]})
    message = json.load(urllib.request.urlopen(request))["choices"][0]["message"]
    messages.append({k: v for k, v in message.items() if v is not None and k != "annotations"})
    if not message.get("tool_calls"):
        break
    for call in message["tool_calls"]:
        command = json.loads(call["function"]["arguments"])["command"]
        done = subprocess.run(["bash", "-c", command], capture_output=True, text=True)
        messages.append({"role": "tool", "tool_call_id": call["id"], "content": done.stdout + done.stderr})
"""
POLICY = """\
harness: command
command:
  run: [my-agent, "{skills}"]
  skills: .my-agent/skills
"""


@pytest.mark.requirements("R8")
def test_a_command_of_the_policy_runs_the_cases(tmp_path: Path) -> None:
    make_repository(
        tmp_path / "repository",
        {
            "skills/sums/SKILL.md": SKILL.format(word="up"),
            "skills/sums/evals/evals.json": json.dumps({"skill_name": "sums", "evals": [CASE]}),
            ".github/skill-gate.yml": POLICY,
        },
        {"skills/sums/SKILL.md": SKILL.format(word="together")},
    )
    program = tmp_path / "my-agent"
    program.write_text(AGENT)
    offered: list[bool] = []

    def agent(request: Request) -> Reply:
        if request.turn:
            return Reply("Sums: 3.")
        offered.append("- sums: Adds numbers." in request.system)
        command = "cat ~/.my-agent/skills/sums/SKILL.md" if offered[-1] else "echo none"
        return Reply("", (ToolCall("shell", {"command": command}),))

    steps: dict[Any, Step] = {
        "You are a small agent": agent,
        "Answer with the word ready": Reply("ready"),
        "You check whether expectations": grader,
        "You compare two pieces of work": comparator,
    }
    with ScriptedServer(by_role(steps)) as server:
        done = run_gate(
            "run", "--repository", tmp_path / "repository", "--base", "main", "--mode", "quick", "--out", tmp_path / "out",
            "--model", f"openai@{server.openai_url}:agent", "--agent", program,
        )  # fmt: skip
    report = json.loads((tmp_path / "out/report.json").read_text())
    arms = {arm["arm"]: arm for arm in report["skills"][0]["arms"]}
    assert (arms["with_skill"]["completed"], arms["with_skill"]["activated"]) == (2, 2), done.stderr
    assert (arms["without_skill"]["completed"], arms["without_skill"]["activated"]) == (2, 0)
    assert sorted(offered) == [False, False, True, True]
    assert "command unknown" in report["sandbox"]
    assert run_gate("verify", tmp_path / "out").returncode == 0


@pytest.mark.requirements("R20", "R225")
def test_a_tool_that_kills_its_own_agent_loses_the_run_and_its_files_are_still_evidence(tmp_path: Path) -> None:
    make_repository(
        tmp_path / "repository",
        {
            "skills/sums/SKILL.md": SKILL.format(word="up"),
            "skills/sums/evals/evals.json": json.dumps({"skill_name": "sums", "evals": [CASE]}),
            ".github/skill-gate.yml": POLICY,
        },
        {"skills/sums/SKILL.md": SKILL.format(word="together")},
    )
    program = tmp_path / "my-agent"
    program.write_text(AGENT)
    kill = Reply("", (ToolCall("shell", {"command": "echo before > out.txt; kill -9 -1"}),))
    steps: dict[Any, Step] = {"You are a small agent": kill, "Answer with the word ready": Reply("ready")}
    with ScriptedServer(by_role(steps)) as server:
        run_gate(
            "run", "--repository", tmp_path / "repository", "--base", "main", "--mode", "smoke", "--out", tmp_path / "out",
            "--model", f"openai@{server.openai_url}:agent", "--agent", program,
        )  # fmt: skip
    (path,) = (tmp_path / "out").glob("skills/*/*/run-1/with_skill/run.json")
    run = json.loads(path.read_text())
    assert run["outcome"] == "agent_failed", run["reason"]
    assert "ended before its answer" in run["reason"]
    assert [file["path"] for file in run["files"]] == ["out.txt"]
    assert run_gate("verify", tmp_path / "out").returncode == 0


def test_programs_are_read_only_in_a_box_and_go_with_their_session(
    engine: docker.DockerClient, real_sandbox: DockerSandbox, session_id: str, tmp_path: Path
) -> None:
    source = tmp_path / "tool"
    source.write_bytes(b"#!/bin/sh\necho it runs\n" + b"#" * 3_000_000)
    volume = real_sandbox.install(IMAGE, session_id, [ProgramFile(name="tool", source=source)])
    try:
        for arm in ("with_skill", "without_skill"):
            with real_sandbox.open(BoxSpec(session_id=session_id, label=arm, image=IMAGE, programs=volume)) as box:
                assert box.exec(["/opt/agent/tool"], timeout_s=30).stdout == b"it runs\n"
                assert box.exec(["sh", "-c", "echo x >> /opt/agent/tool"], timeout_s=30).exit_code != 0
                assert box.exec(["sh", "-c", "rm -f /opt/agent/tool; touch /opt/agent/x"], timeout_s=30).exit_code != 0
        assert volume in labelled(engine)
    finally:
        real_sandbox.reap(session_id)
    assert volume not in labelled(engine)


def test_a_program_that_cannot_be_read_leaves_nothing_behind(
    engine: docker.DockerClient, real_sandbox: DockerSandbox, session_id: str, tmp_path: Path
) -> None:
    with pytest.raises(SandboxError, match="could not be put"):
        real_sandbox.install(IMAGE, session_id, [ProgramFile(name="tool", source=tmp_path / "missing")])
    left = [name for name in labelled(engine) if session_id[:16] in name]
    assert left == []
