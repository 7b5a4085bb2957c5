"""What a real MCP server offers and answers. Every text here is the server's: untrusted."""

from __future__ import annotations

from gate.domain.base import Value
from gate.domain.chat import ToolSpec


class McpListing(Value):
    """The answer of ``tools/list``, as far as the base policy allows it to be used."""

    server: str
    url: str
    """As the policy names it; holds no secret."""
    protocol: str
    """The version that both sides agreed on."""
    software: str
    """What the server calls itself, with its version."""
    listed: tuple[str, ...]
    """Every tool that it offers, also those that no run gets; sorted."""
    tools: tuple[ToolSpec, ...]
    """The allowed ones under their own names, in the order of the policy."""


class McpResult(Value):
    """What a real tool answered."""

    text: str
    is_error: bool
