"""What the commands need of the outside world, bound by ``gate.wiring`` and handed in."""

from __future__ import annotations

import threading
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, Protocol

from gate.domain.chat import Role
from gate.errors import ConfigurationError
from gate.settings import ModelChoice

if TYPE_CHECKING:
    from gate.domain.findings import Finding
    from gate.domain.forge import CheckOutput, Conclusion
    from gate.domain.report import GateReport, Language, State
    from gate.domain.seeding import SessionSeed
    from gate.execution.harnesses.install import AgentSource
    from gate.llm.ledger import Ledger
    from gate.llm.roles import Models
    from gate.protocols import Clock, Forge, GateService, McpReach, Repository, Sandbox
    from gate.settings import Settings


class BoundModels(NamedTuple):
    """The models of a session, ready to be asked."""

    models: Models
    text: str
    """For the report's footer: names by role, or that a recording was replayed."""
    notes: tuple[str, ...]
    """What every reader must know, such as a family that judges itself."""


class ActionTexts(Protocol):
    """All that the Action writes for people and for the runner, by the reporters; they hold every rule of escaping."""

    def comment(self, report: GateReport, key: str, run_url: str = "") -> tuple[str, str]:
        """(marker, body) of the pull request comment; ``key`` keeps several gates of one repository apart, ``run_url`` is
        the workflow run that keeps the bundle."""

    def summary(self, report: GateReport, notes: Sequence[str], limit: int) -> str:
        """The job's summary page in at most ``limit`` bytes."""

    def summary_note(self, headline: str, lines: Sequence[str], notes: Sequence[str]) -> str:
        """The summary of a job that judged nothing."""

    def status(self, report: GateReport) -> str:
        """The status of a report."""

    def status_failure(self, message: str) -> str:
        """The status where there is no report."""

    def check(self, report: GateReport) -> CheckOutput:
        """What the check run says of a report, with annotations."""

    def check_note(self, headline: str, lines: Sequence[str] = ()) -> CheckOutput:
        """The check run of a job that has no report."""

    def conclusion(self, state: State) -> Conclusion:
        """What the check run ends with. Never neutral."""

    def status_words(self, moment: Literal["running", "cancelled", "crashed"]) -> str:
        """The status at moments that have no report."""

    def running_words(self) -> Collection[str]:
        """The status of a job at work, in every language."""

    def speak(self, language: Language) -> None:
        """Say all that is about no report in this language from now on."""

    def outputs(self, report: GateReport | None, **facts: Any) -> dict[str, str]:
        """Every output, whatever happened (``reporters.outputs.outputs``)."""

    def entries(self, values: Mapping[str, str], random_hex: Callable[[int], str]) -> str:
        """Lines for GITHUB_OUTPUT or GITHUB_STATE that no value can break."""

    def annotation(self, level: Literal["notice", "warning", "error"], message: str) -> str:
        """The command that shows a message beside the job."""

    def mask(self, secret: str) -> tuple[str, ...]:
        """The commands that blot a secret out of the log."""

    def stop(self, token: str) -> str:
        """The command after which the runner takes none until ``resume``."""

    def resume(self, token: str) -> str:
        """The command that ends ``stop``."""

    def harmless(self, text: str) -> tuple[str, ...]:
        """Untrusted text as lines of which none can be a command."""


@dataclass(frozen=True)
class Service:
    """What ``skill-gate serve`` needs beside that."""

    serve: Callable[..., None]
    """``gate.service.run.serve``: the addresses and, unless ``work`` is False, the work."""
    work: Callable[..., None]
    """``gate.service.run.work``: the work alone."""
    open_store: Callable[[Path, App], Any]
    """The service's database, for commands about it. Raises ConfigurationError."""
    fetch: Callable[[Path, str, str, Path | None, str, Mapping[str, str], str, threading.Event], None]
    """Arguments: bare repository, ``owner/name``, GitHub's web address, folder of mirrors, branch, commits by the name they
    are kept under, token, what ends it. Afterwards they are in the repository. Raises RepositoryError."""
    tip_of: Callable[[str, str, Path | None, str, str, threading.Event], tuple[str, str]]
    """Arguments: ``owner/name``, GitHub's web address, folder of mirrors, name, token, what ends it. Full name and commit
    of what the repository calls so. Raises RepositoryError."""
    make_forge: Callable[[Mapping[str, str], bool, str], Forge]
    """As ``App.make_forge``, by another environment and with another token."""
    make_tokens: Callable[[str], Callable[[str, int | None], str]]
    """Argument: GitHub's API address. Afterwards: ``owner/name`` and the App's installation, where it is known → a token.
    Raises ConfigurationError where there is neither an App nor a token, later ForgeError."""


class ServiceJob(Protocol):
    """What a desk reads of a job (``gate.service.store.Job``)."""

    @property
    def id(self) -> str:
        """Of the job."""

    @property
    def repository(self) -> str:
        """``owner/name``."""

    @property
    def repository_id(self) -> int:
        """0: unknown."""

    @property
    def event_name(self) -> str:
        """As GitHub calls it."""

    @property
    def head_sha(self) -> str:
        """Empty: not known yet."""

    @property
    def number(self) -> int | None:
        """Of the pull request."""

    @property
    def installation(self) -> int | None:
        """Of the App."""

    @property
    def approved_by(self) -> str:
        """Login of whoever let a fork's head be run; to be checked."""

    @property
    def inputs(self) -> Mapping[str, str]:
        """Of the Action."""


class ServiceLine(Protocol):
    """A step's line to the outside (``gate.service.jobs.Control``)."""

    say: Callable[[str], None]
    cancelled: threading.Event
    stopping: threading.Event


@dataclass(frozen=True)
class JobNeeds:
    """What a desk needs of the service."""

    planned: Callable[..., Any]
    """``gate.service.jobs.Planned``."""
    concluded: Callable[..., Any]
    """``gate.service.jobs.Concluded``."""
    provider_of: Callable[[str], str]
    """The queue that a model's parts go to."""
    keep: Callable[[str, Path], None]
    """Job and bundle folder: the bundle goes to its store."""
    token: Callable[[str, int | None], str]
    """As ``Service.make_tokens`` makes it."""


@dataclass(frozen=True)
class App:
    """The outside world. ``secrets`` holds provider keys by kind; they were taken out of ``environ`` before."""

    environ: Mapping[str, str]
    secrets: Mapping[str, str] = field(repr=False)
    open_repository: Callable[[str], Repository]
    with_forge: Callable[[Repository, Forge, int | None], Repository]
    """A checkout whose missing commits are read from GitHub; the number is that of the pull request, if there is one."""
    make_sandbox: Callable[..., Sandbox]
    """Without an argument the usual kind; with one, a kind of ``gate.settings.SANDBOXES``."""
    bind_models: Callable[[Settings, SessionSeed, str], BoundModels]
    """Arguments: settings, seed and run date (both go into a recording)."""
    replay_settings: Callable[[Settings, str], Settings]
    """Settings with seed, run date and models of a recording folder. Raises ConfigurationError."""
    make_ledger: Callable[[Settings, str], Ledger]
    """Arguments: settings and run date: prices are those of that day."""
    make_agent: Callable[[Settings, Ledger, Clock], AgentSource]
    """The agent program of a harness other than ``loop``, with its way to the model. Raises ConfigurationError."""
    make_mcp: Callable[[Settings], McpReach]
    """The way to the real MCP servers of the policy, with their tokens."""
    render: Callable[[GateReport, str], str]
    make_clock: Callable[[str | None], Clock]
    """Argument: the run date of a recording, or None for today's."""
    random_hex: Callable[[int], str]
    say: Callable[[str], None]
    """One line for people, on standard error."""
    cancelled: threading.Event
    """Set by INT or TERM: no new run begins, sandboxes are removed, nothing more is judged."""
    abort: Callable[[], None]
    """Ends the program at once."""
    make_forge: Callable[[bool], Forge]
    """GitHub by the runner's environment. True: with little patience, for the end of a cancelled job. Raises
    ConfigurationError."""
    texts: ActionTexts
    render_findings: Callable[[Sequence[Finding]], str]
    """Findings of ``skill-gate check`` as SARIF."""
    service: Service
    connect_service: Callable[[str], GateService]
    """The gate service at an address, for the input service-url. Raises ConfigurationError where this job cannot say who it
    is."""
    interactive: bool = False
    """Whether a person watches standard error: then progress may renew lines."""
    quiet: bool = False
    """Whether only the result and errors are said."""


def choose_models(
    app: App, *, model: str | None, judge_model: str | None, policy_models: Mapping[Role, str]
) -> ModelChoice | None:
    """Flags over policy over keys in the environment; None where there is nothing to ask (static layers only).

    ``--judge-model``, else the policy's grader, is everybody's who is not named by the policy for a role of its own.
    """
    executor = model or policy_models.get(Role.EXECUTOR)
    judge = judge_model or policy_models.get(Role.GRADER)
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
    roles = dict(policy_models)
    for named in (Role.EXECUTOR, Role.GRADER):
        roles.pop(named, None)
    return ModelChoice(executor=executor, judge=judge or executor, roles=roles)


DEFAULT_ANTHROPIC = "anthropic:claude-sonnet-4-5"
DEFAULT_OPENAI = "openai:gpt-5-mini"
