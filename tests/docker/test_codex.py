"""The real Codex, from its registry package, in sandboxes without a network."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import docker
import pytest

from tests.docker.agents import (
    CANARY,
    LOOK_AROUND,
    MCP_SUITE,
    MOUNTS,
    Session,
    assert_faithful,
    boxes_with_programs,
    installed,
    session,
)
from tests.scripted.scenarios import Scenario
from tests.scripted.values import Reply, Request, ToolCall
from tests.story import run_gate

pytestmark = [pytest.mark.docker, pytest.mark.timeout(300)]

ROLE = "You are a coding agent running in the Codex CLI"


@pytest.fixture(scope="session")
def codex() -> Path:
    return installed("@openai/codex", "0.171.0", "codex")


def run(tmp_path: Path, codex: Path, agent: Scenario, **how: Any) -> Session:
    return session(tmp_path, harness="codex", launcher=codex, agent=agent, role=ROLE, **how)


def shell(command: str) -> Reply:
    return Reply("I look.", (ToolCall("exec_command", {"cmd": command}),))


@pytest.mark.requirements("R8", "R220", "R222", "R223")
def test_a_case_runs_with_and_without_the_skill_and_the_record_is_what_the_model_said(
    engine: docker.DockerClient, tmp_path: Path, codex: Path
) -> None:
    seen: list[dict[str, Any]] = []

    def agent(request: Request) -> Reply:
        seen.extend(boxes_with_programs(engine))
        offered = "\n- sums: Adds numbers." in request.system
        if offered and request.turn == 0:
            return shell("cat /skills/sums/SKILL.md")
        if request.turn == (1 if offered else 0):
            return shell(LOOK_AROUND)
        return Reply("Sums: 3.")

    found = run(tmp_path, codex, agent)
    assert_faithful(found)
    record, _ = found.run("with_skill")
    assert (record.metrics.activated, record.metrics.opened_at_step) == (True, 1)
    assert [call.exit_code for call in record.calls] == [0, 0]
    assert all(call.reported for call in record.calls)
    assert record.calls[0].skill_lines
    assert [(file.path, file.fixture) for file in record.files] == [("out.txt", "new")]
    baseline, _ = found.run("without_skill")
    assert (baseline.metrics.activated, baseline.metrics.opened, baseline.contaminated) == (False, (), None)
    assert any(item.kind.startswith("agent_program codex 0.") for item in baseline.fallbacks)

    first = [request for request, _ in found.conversation if request.turn == 0]
    assert all(request.body["tools"] == first[0].body["tools"] for request in first)

    looked = [call.result for item in (record, baseline) for call in item.calls if "looked" in call.result]
    assert len(looked) == 2
    for text in looked:
        assert "/tmp/control" in text, "the search finds what is there"
        assert CANARY not in text
        assert "eth0" not in text
    assert seen
    for facts in seen:
        assert facts["HostConfig"]["NetworkMode"] == "none"
        assert {mount["Destination"]: mount["RW"] for mount in facts["Mounts"]} == MOUNTS
        assert CANARY not in json.dumps(facts)
    assert found.holds(CANARY) == []
    assert CANARY not in found.stderr
    keys = {request.headers.get("authorization") for request, _ in found.conversation}
    assert keys == {f"Bearer {CANARY}"}, "the gate alone adds the key"
    verified = run_gate("verify", tmp_path / "out")
    assert verified.returncode == 0, verified.stderr


@pytest.mark.requirements("R222")
def test_mock_tools_reach_it_over_the_relay_and_their_log_confirms_what_it_reports(tmp_path: Path, codex: Path) -> None:
    def agent(request: Request) -> Reply:
        if request.turn == 0:
            (name,) = [name for name in request.tools if name.endswith("search") and "tickets" in name]
            return Reply("", (ToolCall(name, {"q": "refund"}),))
        return Reply("Sums: 2 tickets.")

    found = run(tmp_path, codex, agent, suite={"skills/sums/evals/skill-gate.yaml": MCP_SUITE})
    assert_faithful(found)
    record, _ = found.run("with_skill")
    (call,) = record.calls
    assert (call.reported, call.status) == (False, "success")
    assert call.result == "tickets 7 and 9 speak of it"
