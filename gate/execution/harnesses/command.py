"""Any other agent program that speaks to the gateway, started by a command of the base policy."""

from __future__ import annotations

import json
import shlex

from gate.domain.chat import ToolUse
from gate.domain.gateway import Dialect
from gate.domain.skill import Skill
from gate.execution.harnesses.base import AGENT_HOME, PROGRAMS, TOKEN, Launch, lists_entry, start_script
from gate.settings import AgentCommand


class Command:
    """A command with its prompt on standard input and everything else in variables.

    ``OPENAI_BASE_URL``, ``OPENAI_API_KEY``, ``ANTHROPIC_BASE_URL``, ``ANTHROPIC_AUTH_TOKEN``, ``ANTHROPIC_API_KEY`` hold
    the gateway and its token; ``GATE_MODEL`` the model; ``GATE_SKILLS`` the folder of skills; ``GATE_MCP`` the path of a
    file of MCP servers. In the words of the command ``{model}``, ``{url}``, ``{skills}`` and ``{mcp}`` stand for these.
    """

    name = "command"
    dialects = frozenset(Dialect)
    strips = (".claude", ".codex", ".agents", ".mcp.json", "AGENTS.md", "CLAUDE.md", "GEMINI.md")

    def __init__(self, command: AgentCommand) -> None:
        """``command``: of the base policy."""
        self._command = command
        self.program = command.run[0]

    def script(self, launch: Launch) -> str:
        """See ``Harness.script``."""
        place = "/skills" if not self._command.skills else f"{AGENT_HOME}/{self._command.skills}"
        meant = {"{model}": launch.model, "{url}": launch.url, "{skills}": place, "{mcp}": f"{AGENT_HOME}/mcp.json"}
        words = []
        for word in self._command.run:
            for sign, value in meant.items():
                word = word.replace(sign, value)  # noqa: PLW2901
            words.append(word)
        servers = {
            name: {
                "type": "http",
                "url": f"{launch.url}/mcp/{name}",
                "headers": {"Authorization": f"Bearer ${{{TOKEN}}}"},
            }
            for name in launch.servers
        }
        start = start_script(
            launch,
            exports={
                "OPENAI_BASE_URL": f"{launch.url}/v1",
                "ANTHROPIC_BASE_URL": launch.url,
                "GATE_MODEL": launch.model,
                "GATE_SKILLS": place,
                "GATE_MCP": meant["{mcp}"],
            },
            files={"mcp.json": json.dumps({"mcpServers": servers})},
            links=(self._command.skills,) if self._command.skills else (),
        )
        names = ("OPENAI_API_KEY", "ANTHROPIC_AUTH_TOKEN", "ANTHROPIC_API_KEY")
        own = "\n".join(f'export {name}="${TOKEN}"' for name in names)
        return f'{start}\n{own}\nexport PATH="{PROGRAMS}:$PATH"\nexec {shlex.join(words)}'

    def offers(self, text: str, skill: Skill) -> bool:
        """Its line, or its description, is somewhere in what the model is shown."""
        described = " ".join(skill.description.split())
        return lists_entry(text, skill) or (bool(described) and described[:200] in " ".join(text.split()))

    def plain(self, use: ToolUse) -> ToolUse:
        """By the names that most programs give to such tools."""
        given = use.arguments or {}
        command, path = given.get("command", given.get("cmd")), given.get("path", given.get("file_path"))
        if isinstance(command, str):
            return use.model_copy(update={"name": "bash", "arguments": {"command": command}})
        if isinstance(path, str) and "read" in use.name.lower():
            return use.model_copy(update={"name": "read_file", "arguments": {"path": path}})
        return use

    def exit_code(self, use: ToolUse, text: str) -> int | None:
        """Unknown."""
        del use, text
        return None

    def mcp_name(self, name: str) -> str:
        """It has to use the names of the gate."""
        return name
