"""``skill-gate merge``: the shards of a plan become one bundle and one verdict."""

from __future__ import annotations

from pathlib import Path

import click

from gate.cli.app import App


@click.command()
@click.argument("folders", nargs=-1, required=True, type=click.Path(path_type=Path), metavar="DIR...")
@click.option("--plan", required=True, type=click.Path(path_type=Path), metavar="FILE", help="The plan of the shards.")
@click.option("--out", default=".skill-gate", show_default=True, metavar="DIR", help="Where the bundle goes.")
@click.option(
    "--cache",
    "cache_folder",
    metavar="DIR",
    help="Where the history is read and kept, as of run.  [default: the user's cache folder]",
)
@click.option("--no-cache", is_flag=True, help="Read and keep no history.")
@click.option("--json", "as_json", is_flag=True, help="Print report.json on standard output.")
@click.pass_obj
def merge(
    app: App,
    /,
    *,
    folders: tuple[Path, ...],
    plan: Path,
    out: str,
    cache_folder: str | None,
    no_cache: bool,
    as_json: bool,
) -> int:
    """Put the shards DIR of a plan together and decide.

    Every shard's seal is checked. A shard that is missing makes its skills `error`, one that was changed makes them
    `invalid`; neither is left out of a number. What was said of each skill goes into its history, as `run` does it.
    """
    from gate.cli.session import cache_settings, report_session
    from gate.cli.sharding import merge_parts

    cache = cache_settings(app, folder=cache_folder, no_cache=no_cache)
    report = merge_parts(app, plan, folders, Path(out), cache=cache)
    report_session(app, report, Path(out), as_json=as_json)
    return report.exit_code
