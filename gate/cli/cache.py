"""``skill-gate cache``: what is kept for reuse."""

from __future__ import annotations

import datetime as dt
from pathlib import Path

import click

from gate.cli.app import App
from gate.cli.terminal import visible


@click.group()
def cache() -> None:
    """What earlier sessions left to be used again: sealed runs, judges' replies, results of verification containers."""


@cache.command("ls")
@click.option("--cache", "folder", metavar="DIR", help="The cache's folder.  [default: the user's cache folder]")
@click.option("--json", "as_json", is_flag=True, help="Print a JSON list on standard output.")
@click.pass_obj
def list_entries(app: App, folder: str | None, as_json: bool) -> int:
    """List the entries: kind, scope, day, size, label."""
    from gate.domain.base import pretty_json
    from gate.domain.numbers import counted
    from gate.evidence.cache import list_kept

    kept = list_kept(_folder(app, folder))
    if as_json:
        fields = ("kind", "label", "scope", "kept_on", "size_bytes")
        click.echo(pretty_json([{name: getattr(item, name) for name in fields} for item in kept]), nl=False)
        return 0
    for item in kept:
        click.echo(
            f"{item.kind:<12} {visible(item.scope):<10} {visible(item.kept_on):<10} "
            f"{item.size_bytes:>10,} B  {visible(item.label)}"
        )
    app.say(
        f"{counted(len(kept), 'entry', 'entries')}, {sum(item.size_bytes for item in kept):,} bytes in {_folder(app, folder)}"
    )
    return 0


@cache.command("prune")
@click.option("--cache", "folder", metavar="DIR", help="The cache's folder.  [default: the user's cache folder]")
@click.option(
    "--older-than",
    "days",
    type=click.IntRange(0),
    metavar="DAYS",
    help="Remove what is older than this; 0: everything.  [default: what no session would use any more, 30 days]",
)
@click.pass_obj
def prune_entries(app: App, folder: str | None, days: int | None) -> int:
    """Remove old entries and those that cannot be read."""
    from gate.domain.numbers import counted
    from gate.evidence.cache import MAX_AGE_DAYS, Kept, prune

    oldest = dt.date.fromisoformat(app.make_clock(None).today_iso()) - dt.timedelta(
        days=MAX_AGE_DAYS if days is None else days
    )

    def is_old(item: Kept) -> bool:
        try:
            return days == 0 or item.kind == "unreadable" or dt.date.fromisoformat(item.kept_on) < oldest
        except ValueError:
            return True

    removed = prune(_folder(app, folder), is_old)
    app.say(f"removed {counted(len(removed), 'entry', 'entries')}, {sum(item.size_bytes for item in removed):,} bytes")
    return 0


def _folder(app: App, folder: str | None) -> Path:
    from gate.cli.session import cache_settings
    from gate.errors import ConfigurationError

    found = cache_settings(app, folder=folder, no_cache=False)
    if found is None:
        raise ConfigurationError("There is no cache folder.", remedy="Name one with --cache DIR.")
    return Path(found.folder)
