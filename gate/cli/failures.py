"""Errors for people, and the exit code that each stands for (DESIGN.md 6)."""

from __future__ import annotations

import os
from collections.abc import Callable
from contextvars import ContextVar
from pathlib import Path
from typing import NamedTuple

from gate.cli.terminal import visible
from gate.errors import Cancelled, ConfigurationError, GateError, RepositoryError

EXIT_CONFIGURATION = 2
EXIT_INFRASTRUCTURE = 3
EXIT_CANCELLED = 130
DEBUG: ContextVar[bool] = ContextVar("debug", default=False)
"""Whether this command line said ``--debug``."""
_SAID = 300


class Failure(NamedTuple):
    """Why there is no report."""

    exit_code: int
    message: str
    """One line; may quote untrusted text."""
    remedy: str = ""
    crashed: bool = False


def explain(error: Exception, say: Callable[[str], None]) -> Failure:
    """Say an error to people. Never raises.

    What the gate did not foresee is its own fault, and nobody's who reads the log: it gets one line that names the place,
    and its traceback where somebody asks for it (``--debug``; on GitHub a job that is run with debug logging).
    """
    if isinstance(error, Cancelled):
        say(f"cancelled: {visible(error.message)}")
        say(f"  what to do: {visible(error.what_to_do)}")
        return Failure(EXIT_CANCELLED, error.message, error.what_to_do)
    if isinstance(error, GateError):
        say(f"error: {visible(error.message)}")
        say(f"  what to do: {visible(error.what_to_do)}")
        code = EXIT_CONFIGURATION if isinstance(error, ConfigurationError | RepositoryError) else EXIT_INFRASTRUCTURE
        return Failure(code, error.message, error.what_to_do)
    import traceback

    # Left alone, a crash would end with exit code 1, which means that the gate says no.
    message = "the gate itself failed; nothing was judged"
    remedy = "Run it again with --debug (on GitHub: with debug logging) and report what it prints."
    if debugging():
        say("".join(traceback.format_exception(error)).rstrip("\n"))
    say(f"error: {message} ({type(error).__name__} in {_place(error)}): {visible(str(error))[:_SAID]}")
    say(f"  what to do: {remedy}")
    return Failure(EXIT_INFRASTRUCTURE, message, remedy, crashed=True)


def debugging() -> bool:
    """Whether somebody asked for tracebacks."""
    return DEBUG.get() or os.environ.get("RUNNER_DEBUG") == "1"


def _place(error: Exception) -> str:
    """The last line of our own that an error passed: file and number."""
    import traceback

    frames = traceback.extract_tb(error.__traceback__)
    own = [frame for frame in frames if {"gate", "reporters"} & set(Path(frame.filename).parts)] or list(frames)
    return f"{Path(own[-1].filename).name}:{own[-1].lineno}" if own else "an unknown place"


def refuse_shard(folder: Path) -> None:
    """Raises ConfigurationError where a folder is one part of a plan: there is no verdict in it to check or to render."""
    from gate.evidence.merge import SHARD

    if (folder / SHARD).is_file() and not (folder / "report.json").exists():
        raise ConfigurationError(
            f"{folder} is a shard: merge it first.",
            remedy="Run `skill-gate merge DIR... --plan FILE` over all shards, then name its --out folder.",
        )
