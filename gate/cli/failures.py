"""Errors for people, and the exit code that each stands for (DESIGN.md 6)."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

from gate.cli.terminal import visible
from gate.errors import Cancelled, ConfigurationError, GateError, RepositoryError

EXIT_CONFIGURATION = 2
EXIT_INFRASTRUCTURE = 3
EXIT_CANCELLED = 130


class Failure(NamedTuple):
    """Why there is no report."""

    exit_code: int
    message: str
    """One line; may quote untrusted text."""
    remedy: str = ""
    crashed: bool = False


def explain(error: Exception, say: Callable[[str], None]) -> Failure:
    """Say an error to people; what the gate did not foresee with its traceback. Never raises."""
    if isinstance(error, Cancelled):
        say(f"cancelled: {visible(error.message)}")
        return Failure(EXIT_CANCELLED, error.message)
    if isinstance(error, GateError):
        say(f"error: {visible(error.message)}")
        if error.remedy:
            say(f"  what to do: {visible(error.remedy)}")
        code = EXIT_CONFIGURATION if isinstance(error, ConfigurationError | RepositoryError) else EXIT_INFRASTRUCTURE
        return Failure(code, error.message, error.remedy)
    import traceback

    # Left alone, a crash would end with exit code 1, which means that the gate says no.
    message = "the gate itself failed; nothing was judged"
    say("".join(traceback.format_exception(error)).rstrip("\n"))
    say(f"error: {message}. Please report the lines above.")
    return Failure(EXIT_INFRASTRUCTURE, message, "Please report the traceback in the job's log.", crashed=True)


def refuse_shard(folder: Path) -> None:
    """Raises ConfigurationError where a folder is one part of a plan: there is no verdict in it to check or to render."""
    from gate.evidence.merge import SHARD

    if (folder / SHARD).is_file() and not (folder / "report.json").exists():
        raise ConfigurationError(
            f"{folder} is a shard: merge it first.",
            remedy="Run `skill-gate merge DIR... --plan FILE` over all shards, then name its --out folder.",
        )
