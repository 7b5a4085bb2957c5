"""``skill-gate merge``: the shards of a plan become one bundle and one verdict."""

from __future__ import annotations

from pathlib import Path

import click

from gate.cli.app import App


@click.command()
@click.argument("folders", nargs=-1, required=True, type=click.Path(path_type=Path), metavar="DIR...")
@click.option("--plan", required=True, type=click.Path(path_type=Path), metavar="FILE", help="The plan of the shards.")
@click.option("--out", default=".skill-gate", show_default=True, metavar="DIR", help="Where the bundle goes.")
@click.option("--json", "as_json", is_flag=True, help="Print report.json on standard output.")
@click.pass_obj
def merge(app: App, folders: tuple[Path, ...], plan: Path, out: str, as_json: bool) -> int:
    """Put the shards DIR of a plan together and decide.

    Every shard's seal is checked. A shard that is missing makes its skills `error`, one that was changed makes them
    `invalid`; neither is left out of a number.
    """
    from gate.cli.session import report_session
    from gate.cli.sharding import merge_parts

    report = merge_parts(app, plan, folders, Path(out))
    report_session(app, report, Path(out), as_json=as_json)
    return report.exit_code
