"""The only place that binds adapters to seams. Secrets are taken out of the environment before anything is parsed."""

from __future__ import annotations

import os
import secrets
import signal
import sys
import threading
import time
from collections.abc import Callable, Collection, Mapping, MutableMapping, Sequence
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
    from gate.domain.forge import CheckOutput, Conclusion, PullRequest
    from gate.domain.report import GateReport, Language, State
    from gate.execution.harnesses.install import AgentSource
    from gate.llm.ledger import Ledger
    from gate.protocols import Clock, Forge, GateService, McpReach, Repository, Sandbox

SECRET_VARIABLES = {
    "anthropic": ("INPUT_ANTHROPIC-API-KEY", "INPUT_ANTHROPIC_API_KEY", "ANTHROPIC_API_KEY"),
    "openai": ("INPUT_OPENAI-API-KEY", "INPUT_OPENAI_API_KEY", "OPENAI_API_KEY"),
    "github": ("INPUT_GITHUB-TOKEN", "INPUT_GITHUB_TOKEN", "GITHUB_TOKEN", "GH_TOKEN"),
    "webhook": ("SKILL_GATE_WEBHOOK_SECRET",),
    "app-key": ("SKILL_GATE_APP_KEY",),
    "database": ("DATABASE_URL",),
    "metrics": ("SKILL_GATE_METRICS_TOKEN",),
    "signing-key": ("SKILL_GATE_SIGNING_KEY",),
    "s3-access": ("SKILL_GATE_S3_ACCESS_KEY",),
    "s3-secret": ("SKILL_GATE_S3_SECRET_KEY",),
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
            work=_work,
            open_store=lambda data, app: _open_store(data, app.secrets.get("database")),
            fetch=_fetch,
            tip_of=_tip_of,
            make_forge=lambda environment, hurry, token: _make_forge(environment, token, stop, hurry=hurry),
            make_tokens=lambda api_url: _make_tokens(around, keys, api_url),
        ),
        connect_service=lambda url: _connect_service(url, around, keys.get("actions-id"), stop),
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


def _connect_service(url: str, environ: Mapping[str, str], token: str | None, stop: threading.Event) -> GateService:
    from pydantic import SecretStr

    from gate.adapters.gate_service import GateServiceHttp

    return GateServiceHttp(
        url,
        id_url=environ.get("ACTIONS_ID_TOKEN_REQUEST_URL", ""),
        id_token=SecretStr(token) if token else None,
        sleep=lambda seconds: _wait(stop, seconds),
    )


def _serve(*, app: App, work: bool, log_format: str, beside: Mapping[str, Any], **how: Any) -> None:
    from gate.service.run import serve

    if not work:
        how["make_desk"] = None
    serve(**_for_service(app, log_format, how), more=lambda rooms: _beside(app, rooms, beside))


def _beside(app: App, rooms: Any, asked: Mapping[str, Any]) -> Any:
    from gate.service.beside import Wishes, beside
    from reporters.plots import trend

    tokens = app.service.make_tokens(app.environ.get("GITHUB_API_URL", "https://api.github.com"))

    def look(event: PullRequestEvent) -> PullRequest:
        environ = {**app.environ, "GITHUB_REPOSITORY": event.repository}
        forge = app.service.make_forge(environ, True, tokens(event.repository, None))
        return forge.pull_request(event.number)

    wishes = Wishes(
        plot=trend,
        look=look,
        metrics_token=app.secrets.get("metrics"),
        signing_key=app.secrets.get("signing-key"),
        **asked,
    )
    return beside(rooms, wishes)


def _make_bundles(app: App, address: str) -> Any:
    from pydantic import SecretStr

    from gate.adapters.object_store import S3Objects
    from gate.service.object_bundles import ObjectBundles

    access, secret = app.secrets.get("s3-access"), app.secrets.get("s3-secret")
    return ObjectBundles(
        S3Objects(
            address,
            endpoint=app.environ.get("SKILL_GATE_S3_ENDPOINT") or None,
            region=app.environ.get("SKILL_GATE_S3_REGION") or None,
            access_key=SecretStr(access) if access else None,
            secret_key=SecretStr(secret) if secret else None,
        )
    )


def _work(*, app: App, log_format: str, **how: Any) -> None:
    from gate.service.run import work

    work(**_for_service(app, log_format, how))


def _for_service(app: App, log_format: str, how: dict[str, Any]) -> dict[str, Any]:
    """What the service's processes need of everything else."""
    from gate.cli.app import JobNeeds
    from gate.evidence.redact import Redactor
    from gate.service.jobs import Concluded, Limits, Planned, provider_of
    from gate.service.logs import Log

    tokens = app.service.make_tokens(app.environ.get("GITHUB_API_URL", "https://api.github.com"))
    make_desk = how["make_desk"]
    address = how.pop("bundles")
    kept = _make_bundles(app, address) if address else None

    def at_desk(keep: Callable[[str, Path], None]) -> Any:
        needs = JobNeeds(planned=Planned, concluded=Concluded, provider_of=provider_of, keep=keep, token=tokens)
        return make_desk(needs)

    return {
        **how,
        "make_desk": at_desk if make_desk is not None else None,
        "make_bundles": (lambda data: kept) if kept is not None else None,
        "limits": Limits(**how["limits"]),
        "database": app.secrets.get("database"),
        "log": Log(app.say, Redactor(dict(app.secrets)), log_format),
        "stop": app.cancelled,
        "on_fenced": app.abort,
    }


def _open_store(data: Path, database: str | None) -> Any:
    from gate.service.run import opened

    return opened(data, database)


def _make_tokens(
    environ: Mapping[str, str], secrets_by_kind: Mapping[str, str], api_url: str
) -> Callable[[str, int | None], str]:
    """Tokens of the App where there is one, else the one that was given. Raises ConfigurationError where there is neither."""
    from pydantic import SecretStr

    from gate.adapters.github_app import GitHubApp

    app_id, key = environ.get("SKILL_GATE_APP_ID", "").strip(), secrets_by_kind.get("app-key", "")
    file = environ.get("SKILL_GATE_APP_KEY_FILE", "").strip()
    if app_id and not key and file:
        try:
            key = Path(file).read_text(encoding="ascii").strip()
        except (OSError, UnicodeDecodeError) as error:
            raise ConfigurationError(f"SKILL_GATE_APP_KEY_FILE cannot be read: {error}.") from None
    if app_id and key:
        app = GitHubApp(app_id, SecretStr(key), api_url)
        return lambda repository, installation: app.token(repository, installation).get_secret_value()
    if app_id or key:
        raise ConfigurationError(
            "Of the App there is only a half: its id and its private key go together.",
            remedy="Set SKILL_GATE_APP_ID, and SKILL_GATE_APP_KEY or SKILL_GATE_APP_KEY_FILE.",
        )
    token = secrets_by_kind.get("github")
    if token is None:
        raise ConfigurationError(
            "There is no token to report with.",
            remedy="Set SKILL_GATE_APP_ID and SKILL_GATE_APP_KEY, or GITHUB_TOKEN to a token that may write pull requests and"
            " commit statuses of the repositories.",
        )
    return lambda repository, installation: token


def _fetch(  # noqa: PLR0917 - the seam's arguments have no names
    folder: Path,
    repository: str,
    server: str,
    mirrors: Path | None,
    branch: str,
    commits: Mapping[str, str],
    token: str,
    stop: threading.Event,
) -> None:
    from gate.adapters.git_fetch import fetch_commits

    source, how = _source(repository, server, mirrors, token)
    fetch_commits(folder, source, branch, commits, cancelled=stop, **how)


def _tip_of(
    repository: str, server: str, mirrors: Path | None, name: str, token: str, stop: threading.Event
) -> tuple[str, str]:
    from gate.adapters.git_fetch import tip_of

    source, how = _source(repository, server, mirrors, token)
    return tip_of(source, name, cancelled=stop, **how)


def _source(repository: str, server: str, mirrors: Path | None, token: str) -> tuple[str, dict[str, Any]]:
    from pydantic import SecretStr

    from gate.adapters.git_fetch import mirror_of

    if mirrors is not None:
        return mirror_of(mirrors, repository), {"protocols": ("file",)}
    return f"{server.rstrip('/')}/{repository}.git", {"token": SecretStr(token) if token else None}


class _Texts:
    """``gate.cli.app.ActionTexts`` by the reporters, each imported when it is needed."""

    def __init__(self) -> None:
        self._language = "en"

    def comment(self, report: GateReport, key: str, run_url: str = "") -> tuple[str, str]:
        from reporters import comment

        return comment.marker(key), comment.render(report, key=key, run_url=run_url)

    def summary(self, report: GateReport, notes: Sequence[str], limit: int) -> str:
        from reporters import summary

        return summary.render(report, notes, limit=limit)

    def summary_note(self, headline: str, lines: Sequence[str], notes: Sequence[str]) -> str:
        from reporters import summary

        return summary.render_note(headline, lines, notes, language=self._language)

    def status(self, report: GateReport) -> str:
        from reporters import status

        return status.describe(report)

    def status_failure(self, message: str) -> str:
        from reporters import status

        return status.describe_failure(message, self._language)

    def check(self, report: GateReport) -> CheckOutput:
        from reporters import check

        return check.render(report)

    def check_note(self, headline: str, lines: Sequence[str] = ()) -> CheckOutput:
        from reporters import check

        return check.render_note(headline, lines)

    def conclusion(self, state: State) -> Conclusion:
        from reporters import check

        return check.conclusion_of(state)

    def status_words(self, moment: Literal["running", "cancelled", "crashed"]) -> str:
        from reporters import status

        return status.moment(moment, self._language)

    def running_words(self) -> Collection[str]:
        from reporters import status

        return status.running_words()

    def speak(self, language: Language) -> None:
        self._language = language.value

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
    from gate.adapters.model_calls import Retry
    from gate.adapters.model_names import parse_model_name
    from gate.adapters.pace import Pace
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
    gateway = Gateway(name, keys.of(name), ledger=ledger, clock=clock, retry=Retry(pace=Pace()))
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
    factory = ModelFactory(settings.models, keys, record=record, sleep=stop.wait, stopped=stop.is_set)
    if record is not None:
        write_recording(record, factory.describe(seed=seed.hex, run_date=run_date))
    models = Models(factory)
    executor, judge = models.of(Role.EXECUTOR), models.of(Role.GRADER)
    live = f"{executor.name} ran the cases, {judge.name} judged"
    text = "scripted, no model was called" if settings.replay else live
    note = same_family(executor, judge)
    return BoundModels(models, text, (note,) if note else ())
