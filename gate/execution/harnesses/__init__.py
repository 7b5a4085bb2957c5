"""Agent programs that run a case instead of the built-in loop; one a file."""

from __future__ import annotations

from gate.errors import ConfigurationError
from gate.execution.harnesses.base import Harness
from gate.execution.harnesses.claude_code import ClaudeCode
from gate.execution.harnesses.codex import Codex
from gate.execution.harnesses.command import Command
from gate.settings import AgentCommand

__all__ = ["Harness", "harness_of"]


def harness_of(name: str, command: AgentCommand | None) -> Harness:
    """The adapter of an agent program. Raises ConfigurationError for ``command`` without a command."""
    if name == "claude-code":
        return ClaudeCode()
    if name == "codex":
        return Codex()
    if command is None:
        raise ConfigurationError(
            "The harness command needs a command.", remedy="Say which under command: in the policy of the base branch."
        )
    return Command(command)
