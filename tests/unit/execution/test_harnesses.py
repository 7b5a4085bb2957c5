"""How each agent program is started: real shells, a stand-in for the program that says what it was given."""

from __future__ import annotations

import json
import os
import subprocess
import tomllib
from pathlib import Path
from typing import Any

import pytest

from gate.domain.chat import ToolUse
from gate.errors import ConfigurationError
from gate.execution.harnesses import Harness, base, claude_code, codex, command, harness_of
from gate.execution.harnesses.base import Launch, lists_entry
from gate.settings import AgentCommand
from tests.builders_skill import a_skill

NASTY = "m\"'$(touch pwned) `x` \\ ü"
LAUNCH = Launch(url="http://127.0.0.1:8099", model=NASTY, servers=("tickets", "odd name"))
STAND_IN = """#!/usr/bin/env python3
import json, os, sys
print(json.dumps({"argv": sys.argv[1:], "stdin": sys.stdin.read(), "env": dict(os.environ)}))
"""


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    for module in (base, claude_code, codex, command):
        monkeypatch.setattr(module, "AGENT_HOME", str(tmp_path / "home"))
    return tmp_path / "home"


def start(harness: Harness, tmp_path: Path) -> dict[str, Any]:
    stand_in = tmp_path / "bin" / harness.program
    stand_in.parent.mkdir()
    stand_in.write_text(STAND_IN)
    stand_in.chmod(0o755)
    done = subprocess.run(
        ["bash", "-c", harness.script(LAUNCH), "agent"],
        input="token-1234\nWhat is 1 and 2?\nPlease.",
        capture_output=True,
        text=True,
        cwd=tmp_path,
        env={"PATH": f"{stand_in.parent}:{os.environ['PATH']}"},
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert not (tmp_path / "pwned").exists()
    found: dict[str, Any] = json.loads(done.stdout)
    assert found["stdin"] == "What is 1 and 2?\nPlease."
    assert "token-1234" not in " ".join(found["argv"])
    assert found["env"]["GATE_TOKEN"] == "token-1234"
    return found


def test_claude_code_gets_every_variable_that_was_seen_to_matter(tmp_path: Path, home: Path) -> None:
    found = start(harness_of("claude-code", None), tmp_path)
    env, argv = found["env"], found["argv"]
    assert env["ANTHROPIC_AUTH_TOKEN"] == "token-1234"
    assert env["ANTHROPIC_BASE_URL"] == LAUNCH.url
    models = {name: value for name, value in env.items() if name.startswith("ANTHROPIC") and name.endswith("MODEL")}
    assert len(models) == 5
    assert {*models.values(), env["CLAUDE_CODE_SUBAGENT_MODEL"], argv[argv.index("--model") + 1]} == {NASTY}
    assert env["CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC"] == env["CLAUDE_CODE_MAX_RETRIES"] == "1"
    assert (home / ".claude/skills").readlink() == Path("/skills")
    servers = json.loads((home / "mcp.json").read_text())["mcpServers"]
    assert servers["tickets"]["url"] == f"{LAUNCH.url}/mcp/tickets"
    assert servers["tickets"]["headers"] == {"Authorization": "Bearer ${GATE_TOKEN}"}
    assert "token-1234" not in (home / "mcp.json").read_text()


def test_codex_gets_a_configuration_that_asks_nobody_else(tmp_path: Path, home: Path) -> None:
    found = start(harness_of("codex", None), tmp_path)
    text = (home / ".codex/config.toml").read_text()
    settings = tomllib.loads(text)
    assert settings["model"] == NASTY
    assert settings["model_providers"]["gate"]["base_url"] == f"{LAUNCH.url}/v1"
    assert settings["model_providers"]["gate"]["env_key"] == "GATE_TOKEN"
    assert (settings["web_search"], settings["analytics"], settings["features"]) == (
        "disabled", {"enabled": False}, {"plugins": False},
    )  # fmt: skip
    assert settings["skills"]["bundled"] == {"enabled": False}
    assert set(settings["mcp_servers"]) == {"tickets", "odd name"}
    assert "token-1234" not in text
    assert found["env"]["CODEX_HOME"] == str(home / ".codex")
    assert (home / ".agents/skills").readlink() == Path("/skills")
    assert found["argv"][-1] == "-"


def test_a_command_is_filled_in_word_by_word(tmp_path: Path, home: Path) -> None:
    words = AgentCommand(
        run=("my agent", "--model={model}", "{url}", "{skills}", "{mcp}", "$HOME"), skills=".mine/skills"
    )
    found = start(harness_of("command", words), tmp_path)
    assert found["argv"] == [
        f"--model={NASTY}", LAUNCH.url, str(home / ".mine/skills"), str(home / "mcp.json"), "$HOME",
    ]  # fmt: skip
    assert {found["env"][name] for name in ("OPENAI_API_KEY", "ANTHROPIC_AUTH_TOKEN", "ANTHROPIC_API_KEY")} == {
        "token-1234"
    }
    assert (home / ".mine/skills").readlink() == Path("/skills")


def test_a_command_needs_a_command() -> None:
    with pytest.raises(ConfigurationError, match="needs a command"):
        harness_of("command", None)


@pytest.mark.parametrize("place", ["/etc", "../outside", "a/../../b", "with space"])
def test_skills_lie_below_the_home_of_the_program(place: str) -> None:
    with pytest.raises(ValueError, match="skills"):
        AgentCommand(run=("x",), skills=place)


@pytest.mark.parametrize(
    ("text", "listed"),
    [
        ("- sums: Adds numbers.", True),
        ("  - plugin:sums: Adds numbers.", True),
        ("* sums", True),
        ("- sums-of-squares: other", False),
        ("- consumes: other", False),
        ("about sums: not a list", False),
        ("", False),
    ],
)
def test_a_listing_is_a_line_of_its_own(text: str, listed: bool) -> None:
    assert lists_entry(f"before\n{text}\nafter", a_skill()) is listed


@pytest.mark.parametrize(
    ("harness", "name", "arguments", "plain"),
    [
        ("claude-code", "Bash", {"command": "ls", "description": "d"}, ("bash", {"command": "ls"})),
        (
            "claude-code",
            "Read",
            {"file_path": "/tmp/agent/.claude/skills/s/SKILL.md"},
            ("read_file", {"path": "/skills/s/SKILL.md"}),
        ),
        ("claude-code", "Write", {"file_path": "/work/a", "content": "x"}, ("write_file", {"path": "/work/a"})),
        ("claude-code", "Skill", {"skill": "sums"}, ("read_file", {"path": "/skills/SKILL.md"})),
        ("claude-code", "Agent", {"prompt": "x"}, ("Agent", {"prompt": "x"})),
        ("codex", "exec_command", {"cmd": "ls"}, ("bash", {"command": "ls"})),
        ("codex", "shell", {"command": ["bash", "-lc", "ls -l"]}, ("bash", {"command": "ls -l"})),
        ("codex", "update_plan", {"plan": []}, ("update_plan", {"plan": []})),
    ],
)
def test_tools_that_mean_the_same_read_the_same(
    harness: str, name: str, arguments: dict[str, Any], plain: tuple[str, dict[str, Any]]
) -> None:
    found = harness_of(harness, None).plain(ToolUse(id="1", name=name, arguments=arguments))
    assert (found.name, found.arguments) == plain


@pytest.mark.parametrize(
    ("harness", "tool", "text", "code"),
    [
        ("codex", "exec_command", "Chunk ID: 1\nWall time: 0.0 seconds\nProcess exited with code 3\nOutput:\n", 3),
        ("codex", "exec_command", "Process running with session ID 5", None),
        ("codex", "view_image", "Process exited with code 0", None),
        ("claude-code", "Bash", "Exit code 2\nno such file", 2),
        ("claude-code", "Bash", "a.txt", None),
    ],
)
def test_exit_codes_are_what_the_program_says(harness: str, tool: str, text: str, code: int | None) -> None:
    use = ToolUse(id="1", name=tool, arguments={"cmd": "x", "command": "x"})
    assert harness_of(harness, None).exit_code(use, text) == code
