"""The command group: exit codes, errors for people, and nothing else (DESIGN.md 6)."""

from __future__ import annotations

import sys
from collections.abc import Sequence

import click

from gate import __version__
from gate.cli.action import action
from gate.cli.app import App
from gate.cli.attest import attest
from gate.cli.cache import cache
from gate.cli.calibrate import calibrate
from gate.cli.check import check
from gate.cli.doctor import doctor
from gate.cli.failures import DEBUG, EXIT_CANCELLED, EXIT_CONFIGURATION, explain
from gate.cli.init import init
from gate.cli.lock import lock
from gate.cli.merge import merge
from gate.cli.mutate import mutate
from gate.cli.plan import plan
from gate.cli.report import report
from gate.cli.run import run
from gate.cli.serve import serve, token, worker
from gate.cli.verify import verify


@click.group(context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, prog_name="skill-gate")
@click.option("--debug", is_flag=True, help="Print the traceback where the gate itself fails.")
def group(debug: bool) -> None:
    """Evidence, before a changed Agent Skill is merged.

    Exit codes: 0 success (or pending), 1 the gate says no, 2 configuration or usage, 3 infrastructure: nothing was
    judged.
    """
    DEBUG.set(debug)


for command in (
    run,
    plan,
    merge,
    check,
    verify,
    attest,
    lock,
    report,
    serve,
    worker,
    token,
    action,
    calibrate,
    mutate,
    cache,
    doctor,
    init,
):
    group.add_command(command)


def main(app: App, arguments: Sequence[str]) -> int:
    """Run one command line; returns the exit code. Never raises for anything a user can cause."""
    DEBUG.set(False)
    try:
        result = group.main(args=list(arguments), prog_name="skill-gate", obj=app, standalone_mode=False)
        return result if isinstance(result, int) else 0
    except click.exceptions.Exit as stop:
        return stop.exit_code
    except click.Abort:
        return EXIT_CANCELLED
    except click.ClickException as error:
        error.show(file=sys.stderr)
        return EXIT_CONFIGURATION
    except Exception as error:  # noqa: BLE001 - a crash left alone would exit with 1, which means that the gate says no
        return explain(error, app.say).exit_code
