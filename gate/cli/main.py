"""The command group: exit codes, errors for people, and nothing else (DESIGN.md 6)."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Sequence

import click

from gate import __version__
from gate.cli.app import App
from gate.cli.failures import DEBUG, EXIT_CANCELLED, EXIT_CONFIGURATION, explain

_MODULES = {
    "run": "run",
    "plan": "plan",
    "merge": "merge",
    "check": "check",
    "verify": "verify",
    "attest": "attest",
    "lock": "lock",
    "report": "report",
    "serve": "serve",
    "worker": "serve",
    "token": "serve",
    "action": "action",
    "calibrate": "calibrate",
    "mutate": "mutate",
    "cache": "cache",
    "doctor": "doctor",
    "init": "init",
}
"""Command -> the module beside this one that holds it under its own name."""


class _Commands(click.Group):
    """The commands, each imported when it is called: a start pays for one of them, and help for all."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return sorted(_MODULES)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        module = _MODULES.get(cmd_name)
        if module is None:
            return None
        command: click.Command = getattr(importlib.import_module(f"gate.cli.{module}"), cmd_name)
        return command

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        try:
            return super().resolve_command(ctx, args)
        except click.exceptions.NoSuchCommand as error:
            # click knows of no command that is not imported yet, so it could name none that is meant.
            raise click.exceptions.NoSuchCommand(error.command_name, possibilities=_MODULES, ctx=ctx) from None


@click.group(cls=_Commands, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, prog_name="skill-gate")
@click.option("--debug", is_flag=True, help="Print the traceback where the gate itself fails.")
def group(debug: bool) -> None:
    """Evidence, before a changed Agent Skill is merged.

    Exit codes: 0 success (or pending), 1 the gate says no, 2 configuration or usage, 3 infrastructure: nothing was
    judged.
    """
    DEBUG.set(debug)


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
