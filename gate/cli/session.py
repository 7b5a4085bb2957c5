"""From a command line to a session: settings, the world, the pipeline, the files of the report."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from gate.cli.app import App
from gate.cli.terminal import visible
from gate.domain.plan import Enforce, Mode
from gate.domain.report import GateReport
from gate.domain.seeding import SessionSeed
from gate.errors import Cancelled, ConfigurationError
from gate.evidence.bundle import Bundle
from gate.evidence.redact import Redactor
from gate.evidence.seal import seal_bundle
from gate.pipeline import World, run, write_benchmarks
from gate.planning.plan import STATIC_REASONS
from gate.settings import ModelChoice, Policy, Settings


class TerminalProgress:
    """Plain lines on standard error; trusted text only."""

    def __init__(self, say: Callable[[str], None]) -> None:
        self._say = say
        self._lock = threading.Lock()
        self._done = 0

    def say(self, text: str) -> None:
        """One line."""
        with self._lock:
            self._say(text)

    def run_done(self, label: str, outcome: str) -> None:
        """One line for a finished run."""
        with self._lock:
            self._done += 1
            self._say(f"run {self._done}: {label}: {outcome}")


def session_policy(app: App, repository: str, base: str | None) -> Policy:
    """The policy of the base branch's tip (``base``, else the default branch). Raises ConfigurationError for mistakes in it."""
    from gate.intake.policy import read_policy

    repo = app.open_repository(repository)
    tip = repo.resolve(base) if base else repo.default_branch()
    policy, findings = read_policy(repo, tip)
    wrong = [f"{item.path}:{item.line or 1}: {item.message}" for item in findings if item.blocks]
    if wrong:
        raise ConfigurationError(f"The policy cannot be used. {'; '.join(wrong)}", remedy="Mend it on the base branch.")
    return policy


def session_settings(
    app: App,
    *,
    paths: tuple[str, ...],
    repository: str,
    base: str | None,
    mode: str | None,
    enforce: str | None,
    out: str,
    models: Callable[[Mapping[str, str]], ModelChoice | None],
    record: str | None,
    policy: Policy | None = None,
    **others: Any,
) -> Settings:
    """Flags over policy over defaults (DESIGN.md 5). Raises ConfigurationError with all that is wrong.

    ``policy``: where it has been read already.
    """
    if policy is None:
        policy = session_policy(app, repository, base)
    choice = models({role.value: name for role, name in policy.models.items()})
    values = {
        "repository": repository,
        "paths": tuple(_in_repository(app, repository, path) for path in paths),
        "base": base,
        "mode": mode or policy.mode or Mode.STANDARD,
        "enforce": enforce or policy.enforce or Enforce.STANDARD,
        "out": out,
        "models": choice,
        "record": record,
        "policy": policy,
        **others,
    }
    try:
        settings = Settings.model_validate({name: value for name, value in values.items() if value is not None})
    except ValidationError as error:
        wrong = [f"{'.'.join(map(str, item['loc'])) or 'options'}: {item['msg']}" for item in error.errors()]
        raise ConfigurationError("; ".join(wrong), remedy="See skill-gate run --help.") from None
    if choice is not None and choice.executor.startswith("replay:"):
        settings = app.replay_settings(settings, choice.executor.removeprefix("replay:"))
    _check_out(Path(settings.out))
    return settings


def _in_repository(app: App, repository: str, path: str) -> str:
    """A path as people write it, from the repository's folder or a folder inside it, as the repository knows it."""
    root = app.open_repository(repository).root
    place = os.path.normpath(Path(repository).resolve() / path)
    try:
        return Path(place).relative_to(root).as_posix()
    except ValueError:
        raise ConfigurationError(f"{path} lies outside the repository {root}.", remedy="Name a folder in it.") from None


def _check_out(out: Path) -> None:
    """An earlier bundle is replaced; anything else in the way is left alone."""
    if not out.exists():
        return
    if not out.is_dir():
        raise ConfigurationError(f"--out {out} is a file.", remedy="Name a folder that does not exist yet.")
    if any(out.iterdir()) and not (out / "session.json").exists():
        raise ConfigurationError(
            f"--out {out} is not empty and holds no earlier result.", remedy="Name an empty or a new folder."
        )


def session_id_of(seed: SessionSeed) -> str:
    """From the seed, so that a replayed session asks the same questions."""
    return seed.token("session", length=12)


def _no_models(settings: Settings) -> str:
    if settings.static_only is not None:
        return f"none: static layers only, {STATIC_REASONS[settings.static_only]}"
    return "none: no model key and no --model, static layers only"


def run_session(app: App, settings: Settings) -> GateReport:
    """Run the pipeline in a fresh bundle folder."""
    import shutil

    if app.cancelled.is_set():
        raise Cancelled("The session was stopped before it began.")
    out = Path(settings.out)
    if out.exists():
        shutil.rmtree(out)
    out.mkdir(parents=True)
    clock = app.make_clock(settings.run_date)
    seed = SessionSeed(settings.seed or app.random_hex(32))
    redactor = Redactor(dict(app.secrets))
    bound = app.bind_models(settings, seed, clock.today_iso()) if settings.models else None
    world = World(
        repository=app.open_repository(settings.repository),
        sandbox=app.make_sandbox,
        models=bound.models if bound else None,
        ledger=app.make_ledger(settings, clock.today_iso()),
        clock=clock,
        seed=seed,
        session_id=session_id_of(seed),
        run_date=clock.today_iso(),
        progress=TerminalProgress(app.say),
        redactor=redactor,
        models_text=bound.text if bound else _no_models(settings),
        notes=bound.notes if bound else (),
        cancelled=app.cancelled,
        abort=app.abort,
    )
    report = run(settings, world)
    bundle = Bundle(out)
    write_benchmarks(out, bundle, [skill.slug for skill in report.skills])
    for name, kind in (("report.md", "md"), ("report.html", "html")):
        bundle.write_bytes(name, app.render(report, kind).encode("utf-8", "replace"))
    seal_bundle(out, {"session_id": report.session_id, "state": report.state.value})
    return report


def report_session(app: App, report: GateReport, out: Path, *, as_json: bool) -> None:
    """Say the result: data on standard output, words on standard error."""
    import click

    if as_json:
        click.echo((out / "report.json").read_text(encoding="utf-8"), nl=False)
    app.say("")
    app.say(visible(report.headline))
    for finding in report.session_findings:
        app.say(f"  note: {visible(finding.message)}")
    for skill in report.skills:
        why = f": {visible(skill.reasons[0])[:400]}" if skill.reasons else ""
        app.say(f"  {visible(skill.path)}: {skill.verdict.value}{why}")
    for line in report.what_to_do:
        app.say(f"  {visible(line)}")
    app.say(f"bundle: {out}   comment: {out / 'report.md'}   page: {out / 'report.html'}")
