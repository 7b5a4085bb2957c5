"""What static reading of a pull request found. A finding is for people: where, what, what was expected, what to do."""

from __future__ import annotations

from enum import StrEnum

from gate.domain.base import Value


class Level(StrEnum):
    """How bad a finding is. Only ``error`` can make a skill ``invalid``."""

    ERROR = "error"
    WARNING = "warning"
    NOTICE = "notice"


class Finding(Value):
    """One finding about one file."""

    rule: str
    """Stable id such as ``skill-md/yaml`` or ``manifest/plugin-json/path-missing``."""
    level: Level
    path: str
    """Repository-relative path of the file it is about."""
    message: str
    """What was found and what was expected. May quote the file: untrusted text, escape before showing."""
    line: int | None = None
    """1-based, where known."""
    column: int | None = None
    """1-based, where known."""
    remedy: str = ""
    """What to do, one sentence."""
    blocks: bool = False
    """True where this alone makes the skill ``invalid`` (unreadable SKILL.md or suite)."""


LIMITING_RULES = frozenset({"changes/linked", "scan/withheld", "scan/not-read", "suite/null-agents-unknown"})
"""What no run could see, and a suite of which nobody knows what it lets through. As a warning, such a finding keeps a skill from ``pass``: it is at most ``conditional``."""


def limits(finding: Finding) -> bool:
    """Whether a finding says that something of a skill was neither run nor read."""
    return finding.level is Level.WARNING and finding.rule in LIMITING_RULES
