"""From a command line to a session: settings, the world, the pipeline, the files of the report."""

from __future__ import annotations

import contextlib
import os
import shutil
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from gate.cli.app import App
from gate.cli.own_key import own_key
from gate.cli.progress import progress_of
from gate.cli.terminal import fitted, visible
from gate.domain.chat import Role
from gate.domain.numbers import counted
from gate.domain.plan import Enforce, Mode
from gate.domain.report import GateReport, Language
from gate.domain.seeding import SessionSeed
from gate.errors import Cancelled, ConfigurationError, EvidenceError
from gate.evidence.bundle import PLAN, RENDERED, SESSION, Bundle
from gate.evidence.cache import Cache, CacheScope, derive_key
from gate.evidence.files import is_unfinished
from gate.evidence.redact import Redactor
from gate.evidence.seal import seal_bundle
from gate.llm.journal import JOURNAL, Journal, vouched
from gate.pipeline import World, run
from gate.planning.plan import STATIC_REASONS
from gate.settings import SANDBOXES, CacheSettings, ModelChoice, Policy, Settings


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
    models: Callable[[Mapping[Role, str]], ModelChoice | None],
    record: str | None,
    harness: str | None = None,
    language: str | None = None,
    policy: Policy | None = None,
    **others: Any,
) -> Settings:
    """Flags over policy over defaults (DESIGN.md 5). Raises ConfigurationError with all that is wrong.

    ``policy``: where it has been read already.
    """
    if policy is None:
        policy = session_policy(app, repository, base)
    if language:
        policy = policy.model_copy(update={"language": Language(language)})
    choice = models(policy.models)
    if policy.mcp_real and "real_refused" not in others:
        others["real_refused"] = _strangers(app, repository, str(others.get("head", "HEAD")))
    values = {
        "repository": repository,
        "paths": tuple(in_repository(app, repository, path) for path in paths),
        "base": base,
        "mode": mode or policy.mode or Mode.STANDARD,
        "enforce": enforce or policy.enforce or Enforce.STANDARD,
        "harness": harness or policy.harness,
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
    if settings.sandbox != SANDBOXES[0]:
        _refuse_strangers(app, settings)
    check_out(Path(settings.out))
    return settings


def _refuse_strangers(app: App, settings: Settings) -> None:
    """A sandbox that holds less is for what one has written oneself. Raises ConfigurationError for anything else."""
    if what := _strangers(app, settings.repository, settings.head):
        raise ConfigurationError(
            f"--sandbox {settings.sandbox} is only for a change of one's own: {what}.",
            remedy="Use Docker (leave out --sandbox): it holds what strangers write.",
        )


def _strangers(app: App, repository: str, head: str) -> str:
    """Why what is judged may be a stranger's, as a clause; empty: it is one's own, as far as can be seen."""
    if app.environ.get("GITHUB_ACTIONS") or app.environ.get("CI"):
        return "this is a job of a CI system, which runs what others push"
    if head != "HEAD":
        return f"--head names {head}"
    if origin := app.open_repository(repository).checked_out_from():
        return f"the checked-out branch comes from {origin}"
    return ""


def _sandbox_notes(settings: Settings) -> tuple[str, ...]:
    if settings.sandbox == SANDBOXES[0]:
        return ()
    note = (
        f"The sandbox was {settings.sandbox}: weaker isolation than a container. Commands shared the kernel and the programs"
        " of the machine, and what they started in the background ended with them."
    )
    return (note,)


def in_repository(app: App, repository: str, path: str) -> str:
    """A path as people write it, from the repository's folder or a folder inside it, as the repository knows it."""
    root = app.open_repository(repository).root
    place = os.path.normpath(Path(repository).resolve() / path)
    try:
        return Path(place).relative_to(root).as_posix()
    except ValueError:
        raise ConfigurationError(f"{path} lies outside the repository {root}.", remedy="Name a folder in it.") from None


def check_out(out: Path) -> None:
    """An earlier bundle is replaced; anything else in the way is left alone. Raises ConfigurationError."""
    if not out.exists():
        return
    if not out.is_dir():
        raise ConfigurationError(f"--out {out} is a file.", remedy="Name a folder that does not exist yet.")
    ours = (SESSION, JOURNAL)  # and what was being written when a session was killed
    names = [path.name for path in out.iterdir() if path.name not in ours and not is_unfinished(path.name)]
    if names and not (out / SESSION).exists():
        raise ConfigurationError(
            f"--out {out} is not empty and holds no earlier result.", remedy="Name an empty or a new folder."
        )


@contextlib.contextmanager
def alone_in(out: Path) -> Iterator[None]:
    """Make a session's folder and keep every other session out of it until the block ends, or the program is killed.

    Raises ConfigurationError where another one is at work there.
    """
    import fcntl

    try:
        out.mkdir(parents=True, exist_ok=True)
        folder = os.open(out, os.O_RDONLY | os.O_DIRECTORY)
    except OSError as error:
        raise ConfigurationError(
            f"--out {out} cannot be used: {error.strerror}.", remedy="Name a folder that you may write to."
        ) from None
    try:
        fcntl.flock(folder, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(folder)
        raise ConfigurationError(
            f"Another session is writing to {out}.", remedy="Wait until it ends, or name another folder with --out."
        ) from None
    except OSError:
        pass  # a file system without locks
    try:
        yield
    finally:
        os.close(folder)


CACHE_VARIABLE = "SKILL_GATE_CACHE"


def cache_settings(app: App, *, folder: str | None, no_cache: bool) -> CacheSettings | None:
    """Where runs are kept on a laptop: ``--cache``, ``SKILL_GATE_CACHE``, else the user's cache folder; None: nowhere.

    An empty SKILL_GATE_CACHE means the same as ``--no-cache``. Raises ConfigurationError where both flags are given.
    """
    if no_cache and folder is not None:
        raise ConfigurationError("--cache and --no-cache are both given.", remedy="Leave one of them out.")
    if no_cache or folder == "":
        return None
    if folder is None:
        folder = app.environ.get(CACHE_VARIABLE)
    if folder is None:
        home, xdg = app.environ.get("HOME"), app.environ.get("XDG_CACHE_HOME")
        root = Path(xdg) if xdg else Path(home) / ".cache" if home else None
        folder = str(root / "skill-gate") if root else None
    return CacheSettings(folder=folder) if folder else None


def cache_secret(app: App) -> str | None:
    """What people hold and forks do not: what kept runs, plans and shards are authenticated by."""
    return next((app.secrets[kind] for kind in ("cache-key", "anthropic", "openai") if kind in app.secrets), None)


def _session_secret(app: App, settings: Settings) -> tuple[str | None, str | None]:
    """(what this session's cache and journal are authenticated by, why there is none, as a clause).

    A secret that was given, else the key of the person at this machine: for what never leaves it, unlike plans and shards.
    """
    secret = cache_secret(app)
    if secret is not None or settings.models is None or settings.replay is not None:
        return secret, None
    return own_key(app.environ, app.open_repository(settings.repository).root, app.random_hex)


def _known_secrets(app: App, secret: str | None) -> dict[str, str]:
    own = {"own-key": secret} if secret and secret not in app.secrets.values() else {}
    return {**app.secrets, **own}


def open_cache(
    settings: Settings, today: str, secret: str | None, why: str | None
) -> tuple[Cache | None, tuple[str, ...]]:
    """The session's cache, and a note where one is wanted that cannot be had: no key, no MAC, no reuse (DESIGN.md 3)."""
    if settings.cache is None or settings.models is None or settings.replay is not None or settings.record is not None:
        return None, ()
    if secret is None:
        needs = "no run of an earlier session was looked for: the cache needs a provider's key or a cache key"
        return None, (f"{needs} ({why})" if why else needs,)
    scope = CacheScope(repository=settings.cache.repository, name=settings.cache.scope)
    return Cache(Path(settings.cache.folder), derive_key(secret), scope, today=today), ()


def session_id_of(seed: SessionSeed) -> str:
    """From the seed, so that a replayed session asks the same questions."""
    return seed.token("session", length=12)


def _no_models(settings: Settings) -> str:
    if settings.static_only is not None:
        return f"none: static layers only, {STATIC_REASONS[settings.static_only]}"
    return "none: no model key and no --model, static layers only"


def _continued(app: App, settings: Settings, out: Path, secret: str | None) -> Settings:
    """Settings with seed and run date of the session that was stopped in ``out``; else as they are, and ``out`` is emptied.

    Whether it really is the same session is asked once the plan is made. A folder that was not written with this secret
    says nothing: whoever chose the seed would know every fence and every control.
    """
    bundle = Bundle(out)
    if secret is not None and vouched(out, secret):
        with contextlib.suppress(EvidenceError, KeyError, TypeError, ValidationError):
            facts: Any = bundle.read_json(SESSION)
            same = {"seed": facts["seed"], "run_date": facts["run_date"]}
            found = Settings.model_validate({**settings.model_dump(), **same})
            wanted = settings.seed in (None, found.seed) and settings.run_date in (None, found.run_date)
            if wanted and (settings.seed is not None or _planned_for(app, settings, bundle)):
                return found
    bundle.clear()
    return settings


def _planned_for(app: App, settings: Settings, bundle: Bundle) -> bool:
    """Whether the session that was stopped judged this commit: whoever pushes another one may have seen its drawn seed."""
    plan: Any = bundle.read_json(PLAN)
    return bool(plan["head_commit"] == app.open_repository(settings.repository).resolve(settings.head))


@contextlib.contextmanager
def open_world(
    app: App, settings: Settings, session: Mapping[str, Any] | None = None
) -> Iterator[tuple[Settings, World]]:
    """The world of a session and its settings; a session that was stopped in the same folder goes on.

    ``session``: session.json of the plan that this is a part of. The journal goes when the block ends without an error.
    """
    if app.cancelled.is_set():
        raise Cancelled("The session was stopped before it began.")
    out, (secret, why) = Path(settings.out), _session_secret(app, settings)
    with alone_in(out):
        yield from _world_in(app, settings, session, out, secret, why)


def _world_in(
    app: App, settings: Settings, session: Mapping[str, Any] | None, out: Path, secret: str | None, why: str | None
) -> Iterator[tuple[Settings, World]]:
    settings = _continued(app, settings, out, secret)
    clock = app.make_clock(settings.run_date if session is None else session["run_date"])
    seed = SessionSeed(settings.seed or app.random_hex(32))
    journal = Journal(out, seed, clock.today_iso(), secret) if settings.models and secret is not None else None
    bound = app.bind_models(settings, seed, clock.today_iso()) if settings.models else None
    cache, notes = open_cache(settings, clock.today_iso(), secret, why)
    if session is not None and cache is not None and session["judging_seed"] not in (None, cache.judging_seed):
        cache = None
    ledger = app.make_ledger(settings, clock.today_iso())
    progress = progress_of(
        app.say,
        interactive=app.interactive,
        quiet=app.quiet,
        spent=ledger.spent,
        now=lambda: clock.monotonic_ms() / 1000,
    )

    def abort() -> None:
        progress.close()
        _say_kept(app, journal, out)
        app.abort()

    try:
        yield (
            settings,
            World(
                repository=app.open_repository(settings.repository),
                sandbox=app.make_sandbox
                if settings.sandbox == SANDBOXES[0]
                else partial(app.make_sandbox, settings.sandbox),
                models=bound.models if bound else None,
                ledger=ledger,
                clock=clock,
                seed=seed,
                session_id=session_id_of(seed),
                run_date=clock.today_iso(),
                progress=progress,
                redactor=Redactor(_known_secrets(app, secret)),
                models_text=bound.text if bound else _no_models(settings),
                notes=(*(bound.notes if bound else ()), *notes, *_sandbox_notes(settings)),
                cancelled=app.cancelled,
                abort=abort,
                cache=cache,
                journal=journal,
                agent=(lambda: app.make_agent(settings, ledger, clock)) if settings.harness != "loop" else None,
                mcp=app.make_mcp(settings) if settings.policy.mcp_real and not settings.real_refused else None,
            ),
        )
    except Cancelled:
        progress.close()
        _say_kept(app, journal, out)
        raise
    finally:
        progress.close()
    if journal is not None:
        journal.end()


def _say_kept(app: App, journal: Journal | None, out: Path) -> None:
    """After a signal: what is there for a session that goes on, and how to have it."""
    if app.environ.get("GITHUB_ACTIONS"):
        return  # the machine goes away with the job
    if journal is None:
        app.say(f"Nothing is kept: without a key nobody could say who wrote what lies in {out}.")
        return
    runs, replies = journal.kept
    app.say(f"Kept in {out}: {counted(runs, 'finished run')} and {counted(replies, 'reply', 'replies')} of models.")
    app.say("Give the same command again to go on; nothing of this is paid for twice.")


def run_session(app: App, settings: Settings) -> GateReport:
    """Run the pipeline in a bundle folder of its own."""
    with open_world(app, settings) as (own, world):
        report = run(own, world)
        finish_session(app, report, Path(own.out))
    return report


def finish_session(app: App, report: GateReport, out: Path) -> None:
    """Write the pages that a decided bundle holds beside its evidence, and seal it."""
    bundle = Bundle(out)
    for name, kind in RENDERED.items():
        bundle.write_bytes(name, app.render(report, kind).encode("utf-8", "replace"))
    seal_bundle(out, {"session_id": report.session_id, "state": report.state.value}, apart=(JOURNAL,))


def report_session(app: App, report: GateReport, out: Path, *, as_json: bool) -> None:
    """Say the result: data on standard output, words on standard error."""
    import click

    if as_json:
        click.echo((out / "report.json").read_text(encoding="utf-8"), nl=False)

    def say(text: str) -> None:
        for line in fitted(text, shutil.get_terminal_size().columns) if app.interactive else [text]:
            app.say(line)

    app.say("")
    say(visible(report.headline))
    for finding in report.session_findings:
        say(f"  note: {visible(finding.message)}")
    for skill in report.skills:
        why = f": {visible(skill.reasons[0])[:400]}" if skill.reasons else ""
        say(f"  {visible(skill.path)}: {skill.verdict.value}{why}")
    for line in report.what_to_do:
        say(f"  {visible(line)}")
    say(f"bundle: {out}   comment: {out / 'report.md'}   page: {out / 'report.html'}")
