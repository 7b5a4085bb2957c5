"""What a skill needs that a sealed sandbox may not have, found before any container starts."""

from __future__ import annotations

from enum import StrEnum

from gate.domain.base import Value


class Need(StrEnum):
    """A kind of need."""

    MCP_SERVER = "mcp_server"
    KEY = "key"
    NETWORK = "network"
    PROGRAM = "program"


class PreflightFact(Value):
    """One need of a skill."""

    need: Need
    name: str = ""
    """Of the server, the variable or the program; empty for the network. From the skill: untrusted text."""
    declared: bool
    """True where the front matter says so. Only then may a case be ``blocked``; a hint in the text is a notice."""
    source: str
    """Where it was found: ``front matter: metadata.openclaw.requires.env``, ``SKILL.md:12``."""

    @property
    def blocks(self) -> bool:
        """Whether no sandbox can have it: keys and the network stay outside; programs depend on the image."""
        return self.declared and self.need in (Need.KEY, Need.NETWORK)

    @property
    def sentence(self) -> str:
        """For people, without a full stop."""
        what = {
            Need.MCP_SERVER: f"the MCP server {self.name}",
            Need.KEY: f"the key {self.name}, and no key enters a sandbox",
            Need.NETWORK: "the network, and a sandbox has none",
            Need.PROGRAM: f"the program {self.name}",
        }[self.need]
        return f"the skill {'declares that it needs' if self.declared else 'seems to need'} {what} ({self.source})"


def blocked_reason(facts: tuple[PreflightFact, ...], available: tuple[str, ...] = ()) -> str | None:
    """Why no case of the skill can be run in a sandbox; None where nothing that was declared forbids it.

    ``available``: names of keys, or ``network``, that the cases stand in for, as the base policy says.
    """
    return next(
        (
            fact.sentence
            for fact in facts
            if fact.blocks and (fact.name if fact.need is Need.KEY else "network") not in available
        ),
        None,
    )
