"""``skill-gate verify``: anybody can check a bundle, offline."""

from __future__ import annotations

from pathlib import Path

import click

from gate.cli.app import App
from gate.cli.terminal import visible


@click.command()
@click.argument("bundle", type=click.Path(path_type=Path))
@click.pass_obj
def verify(app: App, bundle: Path) -> int:
    """Check a BUNDLE: seals, quotes, arithmetic, decision, each derived again from the files.

    Exits 0 where everything holds, 1 where anything differs (each difference names its file), 2 where there is no bundle.
    """
    from gate.audit.verify import verify_bundle
    from gate.errors import ConfigurationError

    if not (bundle / "manifest.json").is_file():
        raise ConfigurationError(
            f"{bundle} is no bundle: it has no manifest.json.", remedy="Name the --out folder of a run."
        )
    result = verify_bundle(bundle, app.render)
    for problem in result.problems:
        click.echo(f"wrong: {visible(problem)}")
    click.echo(
        f"{result.files} files, {result.runs} runs, {result.quotes} quotes, {result.checks} checks: "
        + ("everything holds" if not result.problems else f"{len(result.problems)} differences")
    )
    return 1 if result.problems else 0
