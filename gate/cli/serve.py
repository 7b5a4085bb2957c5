"""``skill-gate serve``, ``worker`` and ``token``: the gate as a service. The same job as the Action's, asked for over HTTP."""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from gate.cli.app import App, JobNeeds
from gate.cli.inputs import DEFAULT_CONTEXT
from gate.errors import ConfigurationError

if TYPE_CHECKING:
    from gate.cli.desk import Desk

SECRET_REMEDY = "Set SKILL_GATE_WEBHOOK_SECRET to the secret of the webhook on GitHub."
RATED = ("anthropic", "openai", "other")
_REPOSITORY = re.compile(r"(?!\.{1,2}/)[A-Za-z0-9._-]+/(?!\.{1,2}$)[A-Za-z0-9._-]+")
_RATE = re.compile(rf"({'|'.join(RATED)})=([1-9][0-9]{{0,5}})")
_DAY_S = 86_400.0
_IDS = re.compile(r"([1-9][0-9]{0,18}):([1-9][0-9]{0,18})")
GITHUB_ISSUER = "https://token.actions.githubusercontent.com"
F = TypeVar("F", bound=Callable[..., Any])


def _work_options(command: F) -> F:
    """What whoever does jobs can be told."""
    for option in reversed((
        click.option("--data", default=".skill-gate-service", show_default=True, metavar="DIR", help="Where clones, jobs and bundles are. Workers of one service share it."),
        click.option("--mirrors", metavar="DIR", help="Take commits from DIR/OWNER/NAME.git, which you keep up to date; default: https."),
        click.option("--jobs", type=click.IntRange(1, 64), default=4, show_default=True, help="Sandboxes at the same time, for each part of a job."),
        click.option("--parts", type=click.IntRange(1, 64), default=8, show_default=True, help="Parts that a job is cut into, at most."),
        click.option("--parts-at-once", type=click.IntRange(1, 64), default=1, show_default=True, help="Parts that this process runs at the same time."),
        click.option("--per-repository", type=click.IntRange(1, 256), default=4, show_default=True, help="Jobs, and parts of jobs, of one repository at the same time, over all workers."),
        click.option("--rate", "rates", multiple=True, metavar="PROVIDER=N", help="Parts that may begin in a minute, over all workers, by model provider (anthropic, openai, other); may be given several times."),
        click.option("--status-context", default=DEFAULT_CONTEXT, show_default=True, help="Name of the commit status."),
        click.option("--accept-runc", is_flag=True, help="Run strangers' code without gVisor (runsc): sandboxes then share this machine's kernel."),
        click.option("--log", "log_format", type=click.Choice(["text", "json"]), default="text", show_default=True, help="One event a line, on standard error."),
        click.option("--bundles", metavar="s3://BUCKET/PREFIX", help="Keep bundles in an S3-compatible store (needs the extra s3); default: in --data."),
        click.option("--lease", type=click.FloatRange(1, 3600), default=30.0, show_default=True, help="Seconds without a sign of life after which others take over a worker's jobs."),
    )):  # fmt: skip
        command = option(command)
    return command


@click.command()
@click.option(
    "--repository", "repositories", multiple=True, metavar="OWNER/NAME",
    help="A repository to judge; may be given several times. Deliveries of others are ignored. Default: all in which the App is installed.",
)  # fmt: skip
@click.option("--host", default="127.0.0.1", show_default=True, help="The address to listen on.")
@click.option("--port", type=click.IntRange(0, 65535), default=8080, show_default=True, help="0: any that is free.")
@click.option("--no-work", is_flag=True, help="Only take jobs; workers elsewhere do them (needs PostgreSQL).")
@click.option("--keep-days", type=click.FloatRange(0), default=30.0, show_default=True, help="Days that ended jobs and their bundles are kept; 0: for ever.")  # fmt: skip
@click.option(
    "--public-url", default="", metavar="URL", help="The address under which browsers and Actions reach the service."
)
@click.option(
    "--keyless",
    multiple=True,
    metavar="REPOSITORY:OWNER",
    help="Ids of a repository and of its owner that may hand over work (input service-url); may be given several times.",
)
@click.option(
    "--keyless-workflow",
    "workflows",
    multiple=True,
    metavar="REF",
    help="OWNER/REPO/.github/workflows/FILE@refs/heads/BRANCH: a reusable workflow whose steps may do so; may be given several times.",
)
@click.option(
    "--keyless-budget",
    type=click.FloatRange(0),
    default=50.0,
    show_default=True,
    metavar="USD",
    help="What such a repository may spend in a calendar month.",
)
@click.option(
    "--oidc-issuer",
    default=GITHUB_ISSUER,
    show_default=True,
    metavar="URL",
    help="Who issues the tokens of jobs; on Enterprise https://HOST/_services/token.",
)
@click.option("--badge", "badges", multiple=True, metavar="OWNER/NAME", help="A repository whose badge everybody may read; may be given several times; *: all.")  # fmt: skip
@_work_options
@click.pass_obj
def serve(
    app: App,
    /,
    *,
    repositories: tuple[str, ...],
    host: str,
    port: int,
    no_work: bool,
    keep_days: float,
    public_url: str,
    keyless: tuple[str, ...],
    workflows: tuple[str, ...],
    keyless_budget: float,
    oidc_issuer: str,
    badges: tuple[str, ...],
    **how: Any,
) -> int:
    """Be the service: webhooks, REST API, and (without --no-work) the work.

    A signed delivery is answered at once; its job is durable from then on, and is done as the Action would do it: a
    comment and a status on GitHub. Needs SKILL_GATE_WEBHOOK_SECRET, a model's key, and GITHUB_TOKEN or an App
    (SKILL_GATE_APP_ID with SKILL_GATE_APP_KEY or SKILL_GATE_APP_KEY_FILE). DATABASE_URL: a PostgreSQL database instead of
    the file in --data.
    """
    secret = app.secrets.get("webhook", "")
    if not secret:
        raise ConfigurationError("There is no secret to know GitHub's deliveries by.", remedy=SECRET_REMEDY)
    wrong = [name for name in repositories if not _REPOSITORY.fullmatch(name)]
    if wrong:
        raise ConfigurationError(f'--repository is "{wrong[0]}"; OWNER/NAME was expected.')
    if not repositories and "SKILL_GATE_APP_ID" not in app.environ:
        raise ConfigurationError(
            "Without an App there is no saying which repositories are meant.",
            remedy="Name them with --repository, or set SKILL_GATE_APP_ID and SKILL_GATE_APP_KEY.",
        )
    if no_work and "database" not in app.secrets:
        raise ConfigurationError(
            "With --no-work nobody could do the jobs.", remedy="Set DATABASE_URL to postgresql://…"
        )
    bound = _bound(app, how, works=not no_work)
    beside = {
        "public_url": public_url,
        "keyless": _ids(keyless),
        "workflows": frozenset(workflows),
        "issuer": oidc_issuer,
        "usd_per_month": keyless_budget,
        "badges": frozenset(name.casefold() for name in badges),
    }
    app.service.serve(
        **bound,
        beside=beside,
        host=host,
        port=port,
        secret=secret,
        repositories=repositories,
        keep_days=keep_days,
        work=not no_work,
    )
    return 0


@click.command()
@_work_options
@click.pass_obj
def worker(app: App, /, **how: Any) -> int:
    """Do jobs that a service takes, on another machine, with this machine's own engine.

    Needs DATABASE_URL (the service's PostgreSQL), the service's --data folder, and the same keys as the service.
    """
    app.service.work(**_bound(app, how, works=True))
    return 0


def _ids(pairs: tuple[str, ...]) -> dict[int, int]:
    """Repository id -> owner id."""
    found = {}
    for text in pairs:
        match = _IDS.fullmatch(text)
        if match is None:
            raise ConfigurationError(
                f'--keyless is "{text}"; two ids were expected: REPOSITORY:OWNER.',
                remedy="`gh api repos/OWNER/NAME --jq '\"\\(.id):\\(.owner.id)\"'` says them.",
            )
        found[int(match[1])] = int(match[2])
    return found


def _bound(app: App, how: Mapping[str, Any], *, works: bool) -> dict[str, Any]:
    from gate.cli import desk

    mirrors = how["mirrors"]
    if mirrors is not None and not Path(mirrors).is_dir():
        raise ConfigurationError(f"--mirrors {mirrors} is not a folder.")
    rates = {}
    for text in how["rates"]:
        match = _RATE.fullmatch(text)
        if match is None:
            raise ConfigurationError(f'--rate is "{text}"; one of {", ".join(RATED)} with =N was expected.')
        rates[match[1]] = int(match[2])
    app.service.make_tokens(app.environ.get("GITHUB_API_URL", "https://api.github.com"))  # or say what is missing
    if works:
        desk.refuse_shared_kernel(app, accept_runc=how["accept_runc"])
    data = Path(how["data"]).resolve()

    def make_desk(needs: JobNeeds) -> Desk:
        inputs = {"INPUT_STATUS-CONTEXT": how["status_context"]}
        place = Path(mirrors).resolve() if mirrors else None
        return desk.Desk(app, data, place, inputs, needs, jobs=how["jobs"], parts=how["parts"])

    return {
        "app": app,
        "data": data,
        "make_desk": make_desk,
        "limits": {
            "parts_at_once": how["parts_at_once"],
            "parts_per_repository": how["per_repository"],
            "jobs_per_repository": how["per_repository"],
            "starts_per_minute": rates,
        },
        "lease_s": how["lease"],
        "log_format": how["log_format"],
        "bundles": how["bundles"],
    }


def _of_data(command: F) -> F:
    """The database that a command is about."""
    return click.option("--data", default=".skill-gate-service", show_default=True, metavar="DIR", help="The service's data folder; DATABASE_URL comes before it.")(command)  # fmt: skip


@click.group()
def token() -> None:
    """Tokens of the REST API: each has a scope of repositories."""


@token.command("add")
@click.argument("name")
@click.option("--repository", "repositories", multiple=True, required=True, metavar="OWNER/NAME", help="In its scope; may be given several times; * for all.")  # fmt: skip
@click.option("--write", is_flag=True, help="It may start and end audits; without, only look.")
@click.option("--days", type=click.FloatRange(min=0, min_open=True), help="Days until it ends. Default: never.")
@_of_data
@click.pass_obj
def add(app: App, /, name: str, *, repositories: tuple[str, ...], write: bool, days: float | None, data: str) -> int:
    """Make a token and print its secret, this once."""
    wrong = [one for one in repositories if one != "*" and not _REPOSITORY.fullmatch(one)]
    if wrong:
        raise ConfigurationError(f'--repository is "{wrong[0]}"; OWNER/NAME or * was expected.')
    expires = time.time() + days * _DAY_S if days is not None else None
    store = app.service.open_store(Path(data).resolve(), app)
    _, secret = store.add_token(name[:100], repositories, may_write=write, expires=expires)
    click.echo(secret)
    return 0


@token.command("ls")
@_of_data
@click.pass_obj
def ls(app: App, /, *, data: str) -> int:
    """List tokens: id, name, scope, what it may; never a secret."""
    for one in app.service.open_store(Path(data).resolve(), app).tokens():
        ends = "revoked" if one.revoked else _day(one.expires) if one.expires else "no end"
        may = "write" if one.may_write else "read"
        click.echo(f"{one.id}\t{one.name!r}\t{','.join(one.repositories)}\t{may}\t{ends}")
    return 0


def _day(seconds: float) -> str:
    return time.strftime("until %Y-%m-%d", time.gmtime(seconds))


@token.command("revoke")
@click.argument("number", type=int)
@_of_data
@click.pass_obj
def revoke(app: App, /, number: int, *, data: str) -> int:
    """Take a token back, by its id."""
    if not app.service.open_store(Path(data).resolve(), app).revoke_token(number):
        raise ConfigurationError(f"There is no token {number}.", remedy="See skill-gate token ls.")
    return 0
