"""The commit status: one line of at most 140 characters, plain text, nothing beyond the Basic Multilingual Plane."""

from __future__ import annotations

from collections.abc import Collection
from typing import Literal

from gate.domain.forge import status_description
from gate.domain.report import GateReport, Language
from reporters.catalogue import ENGLISH, Speech
from reporters.headline import headline

RUNNING = ENGLISH.say("status.running")
CANCELLED = ENGLISH.say("status.cancelled")
CRASHED = ENGLISH.say("status.crashed")


def moment(name: Literal["running", "cancelled", "crashed"], language: str = "en") -> str:
    """What the status says at a moment that has no report."""
    return Speech(Language(language)).say(f"status.{name}")


def running_words() -> Collection[str]:
    """What the status of a job at work says, in every language."""
    return tuple(Speech(language).say("status.running") for language in Language)


def describe(report: GateReport) -> str:
    """What the status says of a report: its headline, which names the state, the counts and the worst skills."""
    return status_description(headline(report, Speech(report.language)))


def describe_failure(message: str, language: str = "en") -> str:
    """What the status says where there is no report. ``message`` may quote untrusted text."""
    speech = Speech(Language(language))
    return status_description(speech.say("status.failure", message=speech.known(message)))
