"""What the commands need of the outside world, bound by ``gate.wiring`` and handed in."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from gate.domain.report import GateReport
from gate.domain.seeding import SessionSeed
from gate.errors import ConfigurationError
from gate.llm.ledger import Ledger
from gate.llm.roles import Models
from gate.protocols import Clock, Repository, Sandbox
from gate.settings import ModelChoice, Settings


class BoundModels(NamedTuple):
    """The models of a session, ready to be asked."""

    models: Models
    text: str
    """For the report's footer: names by role, or that a recording was replayed."""
    notes: tuple[str, ...]
    """What every reader must know, such as a family that judges itself."""


@dataclass(frozen=True)
class App:
    """The outside world. ``secrets`` holds provider keys by kind; they were taken out of ``environ`` before."""

    environ: Mapping[str, str]
    secrets: Mapping[str, str] = field(repr=False)
    open_repository: Callable[[str], Repository]
    make_sandbox: Callable[[], Sandbox]
    bind_models: Callable[[Settings, SessionSeed, str], BoundModels]
    """Arguments: settings, seed and run date (both go into a recording)."""
    replay_settings: Callable[[Settings, str], Settings]
    """Settings with seed, run date and models of a recording folder. Raises ConfigurationError."""
    make_ledger: Callable[[Settings, str], Ledger]
    """Arguments: settings and run date: prices are those of that day."""
    render: Callable[[GateReport, str], str]
    make_clock: Callable[[str | None], Clock]
    """Argument: the run date of a recording, or None for today's."""
    random_hex: Callable[[int], str]
    say: Callable[[str], None]
    """One line for people, on standard error."""
    cancelled: threading.Event
    """Set by INT or TERM: no new run begins, sandboxes are removed, nothing more is judged."""


def choose_models(
    app: App, *, model: str | None, judge_model: str | None, policy_models: Mapping[str, str]
) -> ModelChoice | None:
    """Flags over policy over keys in the environment; None where there is nothing to ask (static layers only)."""
    executor = model or policy_models.get("executor")
    judge = judge_model or policy_models.get("grader")
    has_anthropic, has_openai = "anthropic" in app.secrets, "openai" in app.secrets
    if executor is None:
        executor = DEFAULT_ANTHROPIC if has_anthropic else DEFAULT_OPENAI if has_openai else None
    if judge is None:
        # Another family than the executor's where both keys are there: models favour their own (judging.md 1).
        other = DEFAULT_OPENAI if has_openai else None
        judge = other if executor and executor.startswith("anthropic") and other and model is None else executor
    if executor is None:
        if judge is not None:
            raise ConfigurationError(
                "A judge model is named but no model to run the cases with.", remedy="Name one with --model."
            )
        return None
    return ModelChoice(executor=executor, judge=judge or executor)


DEFAULT_ANTHROPIC = "anthropic:claude-sonnet-4-5"
DEFAULT_OPENAI = "openai:gpt-5-mini"
