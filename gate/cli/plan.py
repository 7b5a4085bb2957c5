"""``skill-gate plan``: what a session will do, as a file that a job matrix can share."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from gate.cli.app import App
from gate.cli.options import asked_settings, session_options


@click.command()
@session_options
@click.option("--out", "file", default="plan.json", show_default=True, metavar="FILE", help="Where the plan goes.")
@click.option(
    "--shards",
    type=click.IntRange(1, 256),
    default=4,
    show_default=True,
    metavar="N",
    help="Into how many parts it is cut; never more than there are cases.",
)
@click.pass_obj
def plan(app: App, /, *, file: str, shards: int, **given: Any) -> int:
    """Plan a session and print the matrix of its shards.

    Prints one line of JSON, ``{"shard": ["1/4", …]}``, for ``fromJSON`` in a workflow. Nothing is run.
    """
    import tempfile

    from gate.cli.sharding import write_plan

    with tempfile.TemporaryDirectory() as folder:
        settings = asked_settings(app, out=str(Path(folder) / "plan"), **given)
        click.echo(write_plan(app, settings, Path(file), shards))
    return 0
