"""Claude Code, headless."""

from __future__ import annotations

import json
import re
import shlex

from gate.domain.chat import ToolUse
from gate.domain.gateway import Dialect
from gate.domain.skill import Skill
from gate.execution.arms import SKILLS_ROOT
from gate.execution.harnesses.base import AGENT_HOME, TOKEN, Launch, lists_entry, on_path, start_script

_PATHS = {"Read": "read_file", "Write": "write_file", "Edit": "write_file", "NotebookEdit": "write_file"}
_EXIT = re.compile(r"Exit code (\d+)")


class ClaudeCode:
    """``claude -p``. Non-root, so that it needs no sandbox of its own; every variable is one that was seen to matter."""

    name = "claude-code"
    program = "claude"
    dialects = frozenset({Dialect.MESSAGES})
    strips = (".claude", ".mcp.json", "CLAUDE.md", "CLAUDE.local.md")

    def script(self, launch: Launch) -> str:
        """See ``Harness.script``."""
        servers = {
            name: {
                "type": "http",
                "url": f"{launch.url}/mcp/{name}",
                "headers": {"Authorization": f"Bearer ${{{TOKEN}}}"},
            }
            for name in launch.servers
        }
        model = launch.model
        exports = {
            "CLAUDE_CONFIG_DIR": f"{AGENT_HOME}/.claude",
            "ANTHROPIC_BASE_URL": launch.url,
            # Every name under which it may ask for a model means the one that is measured.
            "ANTHROPIC_MODEL": model,
            "ANTHROPIC_SMALL_FAST_MODEL": model,
            "ANTHROPIC_DEFAULT_OPUS_MODEL": model,
            "ANTHROPIC_DEFAULT_SONNET_MODEL": model,
            "ANTHROPIC_DEFAULT_HAIKU_MODEL": model,
            "CLAUDE_CODE_SUBAGENT_MODEL": model,
            "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
            "CLAUDE_CODE_DISABLE_EXPERIMENTAL_BETAS": "1",
            "CLAUDE_CODE_DISABLE_AUTO_MEMORY": "1",
            "CLAUDE_CODE_MAX_RETRIES": "1",
            # The record is one conversation from its beginning; tools are listed whole, not searched for.
            "DISABLE_AUTO_COMPACT": "1",
            "ENABLE_TOOL_SEARCH": "false",
            # It would start before its servers answer, and lose without its tools.
            "MCP_CONNECTION_NONBLOCKING": "false",
            "MCP_TIMEOUT": "60000",
            "MCP_CONNECT_TIMEOUT_MS": "60000",
        }
        words = [
            "-p", "--output-format", "stream-json", "--verbose", "--dangerously-skip-permissions", "--model", model,
            "--setting-sources", "user", "--strict-mcp-config", "--mcp-config", f"{AGENT_HOME}/mcp.json",
        ]  # fmt: skip
        start = start_script(
            launch,
            exports=exports,
            files={"mcp.json": json.dumps({"mcpServers": servers})},
            links=(".claude/skills",),
        )
        own = f'export ANTHROPIC_AUTH_TOKEN="${TOKEN}"'
        return f"{start}\n{own}\n{on_path(self.program)} {shlex.join(words)}"

    def offers(self, text: str, skill: Skill) -> bool:
        """Among the skills for its tool Skill."""
        return lists_entry(text, skill)

    def plain(self, use: ToolUse) -> ToolUse:
        """Bash, Read, Write and Edit; the tool Skill reads SKILL.md."""
        given = use.arguments or {}
        if use.name == "Bash":
            return use.model_copy(update={"name": "bash", "arguments": {"command": str(given.get("command", ""))}})
        if use.name in _PATHS:
            path = str(given.get("file_path", given.get("notebook_path", "")))
            return use.model_copy(update={"name": _PATHS[use.name], "arguments": {"path": _at_skills(path)}})
        if use.name == "Skill":
            return use.model_copy(update={"name": "read_file", "arguments": {"path": f"{SKILLS_ROOT}/SKILL.md"}})
        return use

    def exit_code(self, use: ToolUse, text: str) -> int | None:
        """It says so of commands that failed."""
        found = _EXIT.match(text) if use.name == "Bash" else None
        return int(found[1]) if found else None

    def mcp_name(self, name: str) -> str:
        """It uses the same names."""
        return name


def _at_skills(path: str) -> str:
    """The skill by its own place, where it is named by the program's link to it."""
    return re.sub(r"^(?:~|/tmp/agent)/\.claude/skills(?=/|$)", SKILLS_ROOT, path)
