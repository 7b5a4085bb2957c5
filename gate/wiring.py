"""The only place that binds adapters to seams. Secrets are taken out of the environment before anything is parsed."""

from __future__ import annotations

import os
import secrets
import signal
import sys
import threading
import time
from collections.abc import MutableMapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

from gate.cli.app import App, BoundModels
from gate.domain.seeding import SessionSeed
from gate.errors import ConfigurationError
from gate.settings import Settings

if TYPE_CHECKING:
    from gate.adapters.model_names import Keys
    from gate.domain.report import GateReport
    from gate.llm.ledger import Ledger
    from gate.protocols import Repository, Sandbox

SECRET_VARIABLES = {"ANTHROPIC_API_KEY": "anthropic", "OPENAI_API_KEY": "openai", "GITHUB_TOKEN": "github"}


class SystemClock:
    """The machine's clock; the run date may be a recording's."""

    def __init__(self, run_date: str | None = None) -> None:
        self._run_date = run_date or datetime.now(UTC).date().isoformat()

    def now_iso(self) -> str:
        """UTC to the second."""
        return datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")

    def today_iso(self) -> str:
        """The session's run date."""
        return self._run_date

    def monotonic_ms(self) -> int:
        """For durations."""
        return time.monotonic_ns() // 1_000_000


def take_secrets(environ: MutableMapping[str, str]) -> dict[str, str]:
    """Remove keys and tokens from the environment and return them by kind; empty ones count as absent.

    Programs that the gate starts inherit what is left, so none of them can see a key.
    """
    taken = {kind: environ.pop(name, "").strip() for name, kind in SECRET_VARIABLES.items()}
    return {kind: value for kind, value in taken.items() if value}


def stop_on_signals(cancelled: threading.Event) -> None:
    """INT and TERM ask the session to stop. Set up before anything else: process 1 of a container has no other default."""

    def stop(number: int, frame: object) -> None:
        del frame
        if not cancelled.is_set():
            cancelled.set()
            _say(f"stopping on {signal.Signals(number).name}: removing sandboxes")

    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, stop)


def bind(environ: MutableMapping[str, str], cancelled: threading.Event | None = None) -> App:
    """The world outside, bound."""
    keys = take_secrets(environ)
    stop = cancelled or threading.Event()

    def bind_models(settings: Settings, seed: SessionSeed, run_date: str) -> BoundModels:
        return _bind_models(settings, _keys(keys), seed, run_date, stop)

    return App(
        environ=dict(environ),
        secrets=keys,
        open_repository=_open_repository,
        make_sandbox=_make_sandbox,
        bind_models=bind_models,
        replay_settings=_replay_settings,
        make_ledger=_make_ledger,
        render=_render,
        make_clock=SystemClock,
        random_hex=secrets.token_hex,
        say=_say,
        cancelled=stop,
    )


def main(arguments: Sequence[str] | None = None) -> int:
    """The whole program: exit code out."""
    cancelled = threading.Event()
    stop_on_signals(cancelled)
    from gate.cli import main as run_command

    return run_command(bind(os.environ, cancelled), sys.argv[1:] if arguments is None else arguments)


def _say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)  # noqa: T201 - this is where people are told


def _wait(stop: threading.Event, seconds: float) -> None:
    """Wait between two tries of a provider; a signal ends the wait."""
    stop.wait(seconds)


def _open_repository(folder: str) -> Repository:
    from gate.adapters.git_repository import GitRepository

    return GitRepository(folder)


def _make_sandbox() -> Sandbox:
    from gate.adapters.docker_sandbox import DockerSandbox

    return DockerSandbox()


def _render(report: GateReport, kind: str) -> str:
    from reporters import render

    return render(report, kind)


def _make_ledger(settings: Settings, run_date: str) -> Ledger:
    from gate.adapters.prices import price_table
    from gate.llm.ledger import Ledger

    return Ledger(settings.policy.caps, price_table(run_date))


def _keys(secrets_by_kind: dict[str, str]) -> Keys:
    from pydantic import SecretStr

    from gate.adapters.model_names import Keys

    openai, anthropic = secrets_by_kind.get("openai"), secrets_by_kind.get("anthropic")
    return Keys(
        openai=SecretStr(openai) if openai else None,
        anthropic=SecretStr(anthropic) if anthropic else None,
    )


def _replay_settings(settings: Settings, folder: str) -> Settings:
    from gate.adapters.replay_model import read_recording

    recording = read_recording(Path(folder))
    if settings.seed and settings.seed != recording.seed:
        raise ConfigurationError("--seed cannot be changed in a replay.", remedy="Leave --seed out.")
    return settings.model_copy(
        update={"seed": recording.seed, "run_date": recording.run_date, "replay": folder, "record": None}
    )


def _bind_models(
    settings: Settings, keys: Keys, seed: SessionSeed, run_date: str, stop: threading.Event
) -> BoundModels:
    from gate.adapters.model_names import ModelFactory
    from gate.adapters.replay_model import write_recording
    from gate.domain.chat import Role
    from gate.llm.roles import Models, same_family

    if settings.models is None:
        raise ConfigurationError("No model is named.", remedy="Name one with --model.")
    record = Path(settings.record) if settings.record else None
    factory = ModelFactory(settings.models, keys, record=record, sleep=lambda seconds: _wait(stop, seconds))
    if record is not None:
        write_recording(record, factory.describe(seed=seed.hex, run_date=run_date))
    models = Models(factory)
    executor, judge = models.of(Role.EXECUTOR), models.of(Role.GRADER)
    live = f"{executor.name} ran the cases, {judge.name} judged"
    text = "scripted, no model was called" if settings.replay else live
    note = same_family(executor, judge)
    return BoundModels(models, text, (note,) if note else ())
