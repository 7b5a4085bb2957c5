"""Codex, headless."""

from __future__ import annotations

import json
import re
import shlex

from gate.domain.chat import ToolUse
from gate.domain.gateway import Dialect
from gate.domain.skill import Skill
from gate.execution.harnesses.base import AGENT_HOME, TOKEN, Launch, lists_entry, on_path, start_script

_EXIT = re.compile(r"Process exited with code (\d+)|^Exit code: (\d+)", re.MULTILINE)


class Codex:
    """``codex exec``. Its own sandbox cannot work in ours and fails every command silently, so it is off."""

    name = "codex"
    program = "codex"
    dialects = frozenset({Dialect.RESPONSES})
    strips = (".codex", ".agents", "AGENTS.md", "AGENTS.override.md")

    def script(self, launch: Launch) -> str:
        """See ``Harness.script``."""
        quoted = json.dumps  # a JSON text is a TOML text
        lines = [
            f"model = {quoted(launch.model)}",
            'model_provider = "gate"',
            'web_search = "disabled"',
            "project_doc_max_bytes = 0",
            "[model_providers.gate]",
            'name = "gate"',
            f"base_url = {quoted(f'{launch.url}/v1')}",
            f"env_key = {quoted(TOKEN)}",
            'wire_api = "responses"',
            "request_max_retries = 0",
            "stream_max_retries = 0",
            # Each of these asks names on the network and waits for them at the end.
            "[analytics]",
            "enabled = false",
            "[features]",
            "plugins = false",
            # Only the skill under test, or none: the neighbours would be measured too.
            "[skills.bundled]",
            "enabled = false",
        ]
        for name in launch.servers:
            lines += [
                f"[mcp_servers.{quoted(name)}]",
                f"url = {quoted(f'{launch.url}/mcp/{name}')}",
                f"bearer_token_env_var = {quoted(TOKEN)}",
                "required = true",
                "startup_timeout_sec = 60",
            ]
        words = ["exec", "--json", "--skip-git-repo-check", "--dangerously-bypass-approvals-and-sandbox", "-"]
        start = start_script(
            launch,
            exports={"CODEX_HOME": f"{AGENT_HOME}/.codex"},
            files={".codex/config.toml": "\n".join(lines) + "\n"},
            links=(".agents/skills",),
        )
        return f"{start}\n{on_path(self.program)} {shlex.join(words)}"

    def offers(self, text: str, skill: Skill) -> bool:
        """Among the skills of its instructions."""
        return lists_entry(text, skill)

    def plain(self, use: ToolUse) -> ToolUse:
        """Its shell tools; what it applies as a patch stays what it is."""
        given = use.arguments or {}
        command = given.get("cmd", given.get("command"))
        if use.name in ("exec_command", "shell", "shell_command", "local_shell"):
            words = command if isinstance(command, list) else [command]
            text = str(words[-1]) if isinstance(command, list) and len(words) > 2 else " ".join(map(str, words))
            return use.model_copy(update={"name": "bash", "arguments": {"command": text}})
        return use

    def exit_code(self, use: ToolUse, text: str) -> int | None:
        """It says so of every command that ended."""
        found = _EXIT.search(text[:400]) if self.plain(use).name == "bash" else None
        return int(found[1] or found[2]) if found else None

    def mcp_name(self, name: str) -> str:
        """It uses the same names."""
        return name
