"""The only place that binds adapters to seams. Secrets are taken out of the environment before anything is parsed."""

from __future__ import annotations

import os
import secrets
import signal
import sys
import threading
import time
from collections.abc import Callable, Mapping, MutableMapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from gate.cli.app import App, BoundModels, Service
from gate.domain.seeding import SessionSeed
from gate.errors import ConfigurationError
from gate.settings import Settings

if TYPE_CHECKING:
    from gate.adapters.model_names import Keys
    from gate.domain.event import PullRequestEvent
    from gate.domain.findings import Finding
    from gate.domain.report import GateReport
    from gate.execution.harnesses.install import AgentSource
    from gate.llm.ledger import Ledger
    from gate.protocols import Clock, Forge, McpReach, Repository, Sandbox

SECRET_VARIABLES = {
    "anthropic": ("INPUT_ANTHROPIC-API-KEY", "INPUT_ANTHROPIC_API_KEY", "ANTHROPIC_API_KEY"),
    "openai": ("INPUT_OPENAI-API-KEY", "INPUT_OPENAI_API_KEY", "OPENAI_API_KEY"),
    "github": ("INPUT_GITHUB-TOKEN", "INPUT_GITHUB_TOKEN", "GITHUB_TOKEN", "GH_TOKEN"),
    "webhook": ("SKILL_GATE_WEBHOOK_SECRET",),
    "cache-key": ("INPUT_CACHE-KEY", "INPUT_CACHE_KEY", "SKILL_GATE_CACHE_KEY"),
    "actions-runtime": ("ACTIONS_RUNTIME_TOKEN",),
    "actions-id": ("ACTIONS_ID_TOKEN_REQUEST_TOKEN",),
}
"""Kind of secret -> the variables that may hold it, what counts first. GitHub's runner keeps the dashes of an input's name."""


MCP_VARIABLES = "SKILL_GATE_MCP_"
"""What the variables begin with that hold tokens of real MCP servers; the policy names them (``mcp_real``)."""
_MCP_KIND = "mcp-"


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

    Where variables of one kind differ, the first counts and the others are returned as ``kind-2``, ``kind-3``: nobody uses
    them, but they are secrets and must be known to be kept out of every record. Programs that the gate starts inherit what
    is left, so none of them can see a key.
    """
    taken: dict[str, str] = {}
    for name in [name for name in environ if name.startswith(MCP_VARIABLES)]:
        if value := environ.pop(name).strip():
            taken[f"{_MCP_KIND}{name}"] = value
    for kind, names in SECRET_VARIABLES.items():
        values = dict.fromkeys(value for name in names if (value := environ.pop(name, "").strip()))
        for number, value in enumerate(values, 1):
            taken[kind if number == 1 else f"{kind}-{number}"] = value
    return taken


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
    around = dict(environ)
    stop = cancelled or threading.Event()

    def bind_models(settings: Settings, seed: SessionSeed, run_date: str) -> BoundModels:
        return _bind_models(settings, _keys(keys), seed, run_date, stop)

    return App(
        environ=around,
        secrets=keys,
        open_repository=_open_repository,
        with_forge=_with_forge,
        make_sandbox=_make_sandbox,
        bind_models=bind_models,
        replay_settings=_replay_settings,
        make_ledger=_make_ledger,
        make_agent=lambda settings, ledger, clock: _make_agent(settings, _keys(keys), ledger, clock),
        make_mcp=lambda settings: _make_mcp(settings, keys),
        render=_render,
        make_clock=SystemClock,
        random_hex=secrets.token_hex,
        say=_say,
        cancelled=stop,
        abort=_abort,
        make_forge=lambda hurry: _make_forge(around, keys.get("github"), stop, hurry=hurry),
        texts=_Texts(),
        render_findings=_render_findings,
        service=Service(
            serve=_serve,
            fetch=lambda *what: _fetch(*what, token=keys.get("github"), stop=stop),
            make_forge=lambda environment, hurry: _make_forge(environment, keys.get("github"), stop, hurry=hurry),
        ),
        interactive=sys.stderr.isatty() and "CI" not in around and around.get("TERM") not in (None, "dumb"),
    )


def main(arguments: Sequence[str] | None = None) -> int:
    """The whole program: exit code out."""
    cancelled = threading.Event()
    stop_on_signals(cancelled)
    from gate.cli import main as run_command

    given = list(sys.argv[1:] if arguments is None else arguments)
    if not given and os.environ.get("GITHUB_ACTIONS") == "true":
        given = ["action"]
    code = run_command(bind(os.environ, cancelled), given)
    if cancelled.is_set():
        # Taking the interpreter apart takes a second or two, which a cancelled job does not have.
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)
    return code


def _say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)  # noqa: T201 - this is where people are told


def _abort() -> None:
    """Leave without waiting for threads that wait for somebody else."""
    _say("cancelled: left without waiting for answers under way")
    os._exit(130)


def _wait(stop: threading.Event, seconds: float) -> None:
    """Wait between two tries of a provider; a signal ends the wait."""
    stop.wait(seconds)


def _open_repository(folder: str) -> Repository:
    from gate.adapters.git_repository import GitRepository

    return GitRepository(folder)


def _with_forge(repository: Repository, forge: Forge, number: int | None) -> Repository:
    from gate.adapters.git_repository import GitRepository
    from gate.adapters.git_with_forge import GitWithForge

    return GitWithForge(repository, forge, number=number) if isinstance(repository, GitRepository) else repository


def _make_sandbox(kind: str = "docker") -> Sandbox:
    if kind == "bubblewrap":
        from gate.adapters.bubblewrap_sandbox import BubblewrapSandbox

        return BubblewrapSandbox()
    from gate.adapters.docker_sandbox.own_image import OwnImageSandbox

    return OwnImageSandbox()


def _make_forge(environ: Mapping[str, str], token: str | None, stop: threading.Event, *, hurry: bool) -> Forge:
    """GitHub by the runner's environment. A signal ends every wait between two tries."""
    from pydantic import SecretStr

    from gate.adapters.github_forge import BRIEF, GitHubForge, Patience

    patience = BRIEF if hurry else Patience(sleep=lambda seconds: _wait(stop, seconds))
    return GitHubForge.from_environment(environ, SecretStr(token) if token else None, patience=patience)


def _serve(**how: Any) -> None:
    from gate.service.app import serve

    serve(**how)


def _fetch(
    folder: Path,
    event: PullRequestEvent,
    server: str,
    mirrors: Path | None,
    *,
    token: str | None,
    stop: threading.Event,
) -> None:
    from pydantic import SecretStr

    from gate.adapters.git_fetch import fetch_pull_request, mirror_of

    if mirrors is not None:
        source = mirror_of(mirrors, event.repository)
        fetch_pull_request(folder, source, event, protocols=("file",), cancelled=stop)
        return
    source = f"{server.rstrip('/')}/{event.repository}.git"
    fetch_pull_request(folder, source, event, token=SecretStr(token) if token else None, cancelled=stop)


class _Texts:
    """``gate.cli.app.ActionTexts`` by the reporters, each imported when it is needed."""

    def comment(self, report: GateReport, key: str, run_url: str = "") -> tuple[str, str]:
        from reporters import comment

        return comment.marker(key), comment.render(report, key=key, run_url=run_url)

    def summary(self, report: GateReport, notes: Sequence[str], limit: int) -> str:
        from reporters import summary

        return summary.render(report, notes, limit=limit)

    def summary_note(self, headline: str, lines: Sequence[str], notes: Sequence[str]) -> str:
        from reporters import summary

        return summary.render_note(headline, lines, notes)

    def status(self, report: GateReport) -> str:
        from reporters import status

        return status.describe(report)

    def status_failure(self, message: str) -> str:
        from reporters import status

        return status.describe_failure(message)

    def status_words(self, moment: Literal["running", "cancelled", "crashed"]) -> str:
        from reporters import status

        return {"running": status.RUNNING, "cancelled": status.CANCELLED, "crashed": status.CRASHED}[moment]

    def outputs(self, report: GateReport | None, **facts: Any) -> dict[str, str]:
        from reporters import outputs

        return outputs.outputs(report, **facts)

    def entries(self, values: Mapping[str, str], random_hex: Callable[[int], str]) -> str:
        from reporters import commands

        return commands.entries(values, random_hex)

    def annotation(self, level: Literal["notice", "warning", "error"], message: str) -> str:
        from reporters import commands

        return commands.annotation(level, message)

    def mask(self, secret: str) -> tuple[str, ...]:
        from reporters import commands

        return commands.mask(secret)

    def stop(self, token: str) -> str:
        from reporters import commands

        return commands.stop(token)

    def resume(self, token: str) -> str:
        from reporters import commands

        return commands.resume(token)

    def harmless(self, text: str) -> tuple[str, ...]:
        from reporters import commands

        return commands.harmless(text)


def _render(report: GateReport, kind: str) -> str:
    from reporters import render

    return render(report, kind)


def _render_findings(findings: Sequence[Finding]) -> str:
    from gate import __version__
    from reporters.sarif import render_findings

    return render_findings(findings, version=__version__)


def _make_ledger(settings: Settings, run_date: str) -> Ledger:
    from gate.adapters.prices import price_table
    from gate.llm.ledger import Ledger

    return Ledger(settings.policy.caps, price_table(run_date))


def _make_agent(settings: Settings, keys: Keys, ledger: Ledger, clock: Clock) -> AgentSource:
    """Nothing is started yet; what cannot go together is said before anything runs."""
    from gate.adapters.agent_programs import find_program
    from gate.adapters.gateway.gateway import Gateway
    from gate.adapters.model_names import parse_model_name
    from gate.execution.harnesses import harness_of
    from gate.execution.harnesses.install import AgentSource

    if settings.models is None:
        raise ConfigurationError("No model is named.", remedy="Name one with --model.")
    harness = harness_of(settings.harness, settings.policy.command)
    name = parse_model_name(settings.models.executor)
    if settings.record:
        raise ConfigurationError(
            "What an agent program asks cannot be recorded for replay:DIR.",
            remedy="Leave out --record, or use --harness loop.",
        )
    gateway = Gateway(name, keys.of(name), ledger=ledger, clock=clock)
    if harness.dialects.isdisjoint(gateway.dialects):
        other = "openai" if name.provider == "anthropic" else "anthropic"
        raise ConfigurationError(
            f"The harness {harness.name} cannot speak to {name.text}: their protocols differ.",
            remedy=f"Name a model of {other} with --model, or take another harness.",
        )
    return AgentSource(harness, find_program(harness.program, settings.agent), gateway)


def _make_mcp(settings: Settings, secrets_by_kind: Mapping[str, str]) -> McpReach:
    """Nothing is reached yet."""
    from pydantic import SecretStr

    from gate.adapters.mcp_http import McpHttp

    tokens = {
        kind.removeprefix(_MCP_KIND): SecretStr(secret)
        for kind, secret in secrets_by_kind.items()
        if kind.startswith(_MCP_KIND)
    }
    return McpHttp(settings.policy.mcp_real, tokens)


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
