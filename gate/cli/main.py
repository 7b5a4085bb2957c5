"""The command group: exit codes, errors for people, and nothing else (DESIGN.md 6)."""

from __future__ import annotations

import sys
from collections.abc import Sequence

import click

from gate import __version__
from gate.cli.app import App
from gate.cli.check import check
from gate.cli.report import report
from gate.cli.run import run
from gate.cli.verify import verify
from gate.errors import Cancelled, ConfigurationError, GateError

EXIT_CONFIGURATION = 2
EXIT_INFRASTRUCTURE = 3
EXIT_CANCELLED = 130


@click.group(context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, prog_name="skill-gate")
def group() -> None:
    """Evidence, before a changed Agent Skill is merged.

    Exit codes: 0 success (or pending), 1 the gate says no, 2 configuration or usage, 3 infrastructure: nothing was
    judged.
    """


for command in (run, check, verify, report):
    group.add_command(command)


def main(app: App, arguments: Sequence[str]) -> int:
    """Run one command line; returns the exit code. Never raises for anything a user can cause."""
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
    except Cancelled as error:
        app.say(f"cancelled: {error.message}")
        return EXIT_CANCELLED
    except ConfigurationError as error:
        _tell(app, error)
        return EXIT_CONFIGURATION
    except GateError as error:
        _tell(app, error)
        return EXIT_INFRASTRUCTURE
    except Exception:  # noqa: BLE001 - a crash left alone would exit with 1, which means that the gate says no
        import traceback

        app.say(traceback.format_exc())
        app.say("error: the gate itself failed; nothing was judged. Please report the lines above.")
        return EXIT_INFRASTRUCTURE


def _tell(app: App, error: GateError) -> None:
    app.say(f"error: {error.message}")
    if error.remedy:
        app.say(f"  what to do: {error.remedy}")
