"""``skill-gate action post``: what a run that was killed could not do itself. The runner starts it whatever happened."""

from __future__ import annotations

from gate.cli.app import App
from gate.cli.failures import explain
from gate.cli.runner import Runner
from gate.domain.report import State


def clean_up(app: App) -> int:
    """Take back a status that still says that a run goes on, and remove the sandboxes that it left. Always exits 0."""
    runner = Runner(app)
    with runner:
        for step in (_status, _check, _sandboxes):
            try:
                step(app, runner)
            except Exception as error:  # noqa: BLE001 - the result of the job stands; this step only tidies up
                explain(error, runner.say)
    return 0


def _status(app: App, runner: Runner) -> None:
    """Only a pending status that this very attempt has set: a deliberate one and those of other runs stay."""
    sha, context = runner.saved("sha"), runner.saved("context")
    if not sha or not context or runner.saved("resolved") or "github" not in app.secrets:
        return
    forge = app.make_forge(False)
    now = forge.status_of(sha, context)
    running = app.texts.running_words()
    if now is None or now.state is not State.PENDING or now.description not in running:
        return
    if now.target_url != runner.saved("url"):
        return
    forge.set_status(sha, context, State.ERROR, app.texts.status_words("cancelled"), now.target_url)
    runner.say(f"the status {context} of {sha[:12]} was still pending; it says now that the run was cancelled")


def _check(app: App, runner: Runner) -> None:
    """Only the check run that this very attempt has opened, where it is still open."""
    check = runner.saved("check")
    if not check.isdigit() or runner.saved("checked") or "github" not in app.secrets:
        return
    forge = app.make_forge(False)
    if forge.check(int(check)).completed:
        return
    words = app.texts.status_words("cancelled")
    forge.end_check(int(check), "cancelled", app.texts.check_note(words))
    runner.say(f"the check {check} was still in progress; it says now that the run was cancelled")


def _sandboxes(app: App, runner: Runner) -> None:
    session = runner.saved("session")
    if not session or not runner.saved("sandboxes"):
        return  # no sandbox was ever asked for, so no engine is needed either
    report = app.make_sandbox().reap(session)
    if report.removed_containers or report.removed_volumes:
        runner.say(
            f"removed {report.removed_containers} containers and {report.removed_volumes} volumes that were left"
        )
    for failure in report.failed:
        runner.say(f"could not remove: {failure}")
