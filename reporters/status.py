"""The commit status: one line of at most 140 characters, plain text, nothing beyond the Basic Multilingual Plane."""

from __future__ import annotations

from gate.domain.forge import status_description
from gate.domain.report import GateReport

RUNNING = "running: skills are being judged"
CANCELLED = "error: the run was cancelled before it had a result"
CRASHED = "error: the gate itself failed; nothing was judged"


def describe(report: GateReport) -> str:
    """What the status says of a report: its headline, which names the state, the counts and the worst skills."""
    return status_description(report.headline)


def describe_failure(message: str) -> str:
    """What the status says where there is no report. ``message`` may quote untrusted text."""
    return status_description(f"error: {message}")
