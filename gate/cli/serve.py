"""``skill-gate serve``: the same job as the Action's, asked for by GitHub's webhook."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path

import click

from gate.cli.app import App
from gate.cli.inputs import DEFAULT_CONTEXT
from gate.domain.event import PullRequestEvent
from gate.errors import ConfigurationError
from gate.protocols import Repository

SECRET_REMEDY = "Set SKILL_GATE_WEBHOOK_SECRET to the secret of the webhook on GitHub."
_REPOSITORY = re.compile(r"(?!\.{1,2}/)[A-Za-z0-9._-]+/(?!\.{1,2}$)[A-Za-z0-9._-]+")


@click.command()
@click.option(
    "--repository", "repositories", multiple=True, required=True, metavar="OWNER/NAME",
    help="A repository to judge; may be given several times. Deliveries of others are ignored.",
)  # fmt: skip
@click.option("--host", default="127.0.0.1", show_default=True, help="The address to listen on.")
@click.option("--port", type=click.IntRange(0, 65535), default=8080, show_default=True, help="0: any that is free.")
@click.option(
    "--data", default=".skill-gate-service", show_default=True, metavar="DIR", help="Where clones and bundles go."
)
@click.option(
    "--mirrors", metavar="DIR", help="Take commits from DIR/OWNER/NAME.git, which you keep up to date; default: https."
)
@click.option("--jobs", type=click.IntRange(1, 64), default=4, show_default=True, help="Sandboxes at the same time.")
@click.option("--status-context", default=DEFAULT_CONTEXT, show_default=True, help="Name of the commit status.")
@click.pass_obj
def serve(  # noqa: PLR0917 - click hands every parameter over by name
    app: App,
    repositories: tuple[str, ...],
    host: str,
    port: int,
    data: str,
    mirrors: str | None,
    jobs: int,
    status_context: str,
) -> int:
    """Be the webhook service: POST /webhooks/github, GET /healthz.

    A signed pull_request delivery is answered at once and judged in this process, one after the other, as the Action
    would: a comment and a status on GitHub. Needs SKILL_GATE_WEBHOOK_SECRET, GITHUB_TOKEN and a model's key.
    """
    secret = app.secrets.get("webhook", "")
    if not secret:
        raise ConfigurationError("There is no secret to know GitHub's deliveries by.", remedy=SECRET_REMEDY)
    if "github" not in app.secrets:
        raise ConfigurationError(
            "There is no token to report with.",
            remedy="Set GITHUB_TOKEN to one that may write pull requests and commit statuses of the repositories.",
        )
    wrong = [name for name in repositories if not _REPOSITORY.fullmatch(name)]
    if wrong:
        raise ConfigurationError(f'--repository is "{wrong[0]}"; OWNER/NAME was expected.')
    if mirrors is not None and not Path(mirrors).is_dir():
        raise ConfigurationError(f"--mirrors {mirrors} is not a folder.")
    inputs = {"INPUT_JOBS": str(jobs), "INPUT_STATUS-CONTEXT": status_context}
    desk = Desk(app, Path(data).resolve(), Path(mirrors).resolve() if mirrors else None, inputs)
    app.service.serve(
        host=host,
        port=port,
        secret=secret,
        repositories=repositories,
        judge=desk.judge,
        say=app.say,
        stop=app.cancelled,
    )
    return 0


@dataclass(frozen=True)
class Desk:
    """Where one delivery after the other is judged."""

    app: App
    data: Path
    mirrors: Path | None
    inputs: Mapping[str, str]
    """As a runner hands them over."""

    def judge(self, event: PullRequestEvent, body: bytes) -> bool:
        """Do the Action's job for one event; whether that led to a report. Never raises for what the job can meet.

        The job gets an environment that says what a runner's would, and nothing of this process's own.
        """
        from gate.cli.action import run_action

        owner, name = event.repository.split("/")
        folder = self.data / "bundles" / owner / name / str(event.number)
        folder /= f"{event.head_sha[:12]}-{self.app.random_hex(4)}"
        folder.mkdir(parents=True)
        payload = folder / "event.json"
        payload.write_bytes(body)
        clone = self.data / "repositories" / owner / f"{name}.git"
        around = self.app.environ
        environ = {
            **self.inputs,
            "GITHUB_API_URL": around.get("GITHUB_API_URL", "https://api.github.com"),
            "GITHUB_EVENT_NAME": "pull_request",
            "GITHUB_EVENT_PATH": str(payload),
            "GITHUB_REF": f"refs/pull/{event.number}/merge",
            "GITHUB_REPOSITORY": event.repository,
            "GITHUB_SERVER_URL": around.get("GITHUB_SERVER_URL", "https://github.com"),
            "GITHUB_SHA": event.head_sha,
            "GITHUB_WORKSPACE": str(clone),
            "RUNNER_TEMP": str(folder),
        }
        self.app.say(f"{event.repository}#{event.number}: judging {event.head_sha[:12]} ({event.action})")
        run_action(
            replace(
                self.app,
                environ=environ,
                open_repository=_Fetching(self, event, clone, environ["GITHUB_SERVER_URL"]),
                make_forge=lambda hurry: self.app.service.make_forge(environ, hurry),
            )
        )
        return (folder / "skill-gate/report.json").is_file()


class _Fetching:
    """``App.open_repository`` that fetches first, once: by then the status says that something is going on, so that a
    fetch that fails is reported like everything else, and nothing is fetched for a pull request that is closed."""

    def __init__(self, desk: Desk, event: PullRequestEvent, clone: Path, server: str) -> None:
        self._desk = desk
        self._event = event
        self._clone = clone
        self._server = server
        self._fetched = False

    def __call__(self, folder: str) -> Repository:
        """Raises RepositoryError."""
        if not self._fetched:
            self._desk.app.service.fetch(self._clone, self._event, self._server, self._desk.mirrors)
            self._fetched = True
        return self._desk.app.open_repository(folder)
