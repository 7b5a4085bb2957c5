"""``skill-gate report``: render a bundle again."""

from __future__ import annotations

from pathlib import Path

import click

from gate.cli.app import App
from gate.cli.failures import refuse_shard


@click.command()
@click.argument("bundle", type=click.Path(path_type=Path))
@click.option(
    "--format",
    "kind",
    type=click.Choice(["md", "html", "json", "junit", "sarif", "badge"]),
    default="md",
    show_default=True,
)
@click.option("--language", type=click.Choice(["en", "zh"]), help="What md is written in.  [default: the report's own]")
@click.pass_obj
def report(app: App, bundle: Path, kind: str, language: str | None) -> int:
    """Render the report of a BUNDLE on standard output."""
    from gate.domain.report import GateReport, Language
    from gate.errors import ConfigurationError

    refuse_shard(bundle)
    try:
        value = GateReport.model_validate_json((bundle / "report.json").read_bytes())
    except FileNotFoundError:
        raise ConfigurationError(f"{bundle} has no report.json.", remedy="Name the --out folder of a run.") from None
    except ValueError as error:
        raise ConfigurationError(f"{bundle / 'report.json'} is not a report: {error}") from None
    if language and kind != "json":
        value = value.model_copy(update={"language": Language(language)})
    click.echo(app.render(value, kind), nl=False)
    return 0
