"""``skill-gate run``: the main job, whole or one shard of it."""

from __future__ import annotations

import functools
from dataclasses import replace
from pathlib import Path
from typing import Any

import click

from gate.cli.app import App
from gate.cli.options import asked_settings, session_options

_OF_THIS_MACHINE = frozenset({"out", "jobs", "agent", "cache_folder", "no_cache", "plan", "shard", "quiet", "as_json"})


def _said_by_plan(context: click.Context) -> list[str]:
    """Options on the command line that a plan has decided already."""
    line = click.core.ParameterSource.COMMANDLINE
    return [
        parameter.opts[0] if parameter.opts[0].startswith("-") else parameter.human_readable_name
        for parameter in context.command.params
        if parameter.name not in _OF_THIS_MACHINE and context.get_parameter_source(str(parameter.name)) is line
    ]


@click.command()
@session_options
@click.option("--out", default=".skill-gate", show_default=True, metavar="DIR", help="Where the bundle goes.")
@click.option("--record", metavar="DIR", help="Write every exchange with a model to DIR, for replay:DIR.")
@click.option(
    "--cache", "cache_folder", metavar="DIR", help="Where runs are kept for later.  [default: the user's cache folder]"
)
@click.option("--no-cache", is_flag=True, help="Use and keep nothing of earlier sessions.")
@click.option(
    "--plan", metavar="FILE", help="A plan that `skill-gate plan` wrote: it says all but what this machine has."
)
@click.option("--shard", metavar="I/N", help="The part of the plan to run; `skill-gate merge` puts the parts together.")
@click.option(
    "--mutation",
    "mutation_file",
    metavar="FILE",
    help="Say in the report what `skill-gate mutate` found (mutation.json).",
)
@click.option("--quiet", is_flag=True, help="Say only the result and what went wrong.")
@click.option("--json", "as_json", is_flag=True, help="Print report.json on standard output; with --shard: shard.json.")
@click.pass_obj
def run(
    app: App,
    /,
    *,
    out: str,
    cache_folder: str | None,
    no_cache: bool,
    plan: str | None,
    shard: str | None,
    mutation_file: str | None,
    quiet: bool,
    as_json: bool,
    **given: Any,
) -> int:
    """Judge the skills that changed (or the skill folders PATH), with evidence.

    Compares HEAD with the merge base, runs every eval case with and without the skill in sandboxes, checks the record,
    grades, compares blind, decides. Leaves a bundle with report.md and report.html in --out. A session that was stopped
    goes on where it was when the same command is given again.
    """
    from gate.cli.session import cache_settings, report_session, run_session
    from gate.cli.sharding import run_part
    from gate.errors import ConfigurationError

    # One command, one look at each repository: what git said of a commit is not asked again.
    app = replace(app, quiet=quiet, open_repository=functools.cache(app.open_repository))
    cache = cache_settings(app, folder=cache_folder, no_cache=no_cache)
    if (plan is None) != (shard is None):
        raise ConfigurationError("--plan and --shard go together.", remedy="Give both, or neither.")
    if plan is not None and shard is not None:
        if said := _said_by_plan(click.get_current_context()):
            raise ConfigurationError(
                f"The plan says what is judged and how; {', '.join(said)} cannot be given beside it.",
                remedy="Give it to `skill-gate plan`.",
            )
        return run_part(
            app,
            Path(plan),
            shard,
            Path(out),
            cache=cache,
            jobs=given["jobs"],
            agent=given["agent"],
            as_json=as_json,
        )
    settings = asked_settings(app, out=out, cache=cache, **given)
    if mutation_file is not None:
        from gate.cli.mutate import with_mutation

        settings = with_mutation(app, settings, Path(mutation_file))
    report = run_session(app, settings)
    report_session(app, report, Path(settings.out), as_json=as_json)
    return report.exit_code
