"""Work that the Action of a repository without keys hands over to a gate service."""

from __future__ import annotations

from gate.domain.base import Value
from gate.errors import ConfigurationError


class Refused(ConfigurationError):  # noqa: N818 - what the service said, and no fault of the gate's
    """The service does not take this work."""


class Handed(Value):
    """Work that a service took."""

    job: str
    ticket: str
    """Opens this job's answer and nothing else; not printed."""
    poll_s: int
    """Seconds between two questions how far it is."""


class Progressed(Value):
    """How far it is."""

    state: str
    """The service's word: waiting, running, done …"""
    ended: bool
    reason: str = ""
