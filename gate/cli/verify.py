"""``skill-gate verify``: anybody can check a bundle, offline."""

from __future__ import annotations

from pathlib import Path

import click

from gate.cli.app import App
from gate.cli.failures import refuse_shard
from gate.cli.terminal import visible

TRANSCRIPT_BYTES = 100_000_000
"""A larger file is no transcript of one run."""


@click.command()
@click.argument("bundle", type=click.Path(path_type=Path))
@click.pass_obj
def verify(app: App, bundle: Path) -> int:
    """Check a BUNDLE: seals, quotes, arithmetic, decision, each derived again from the files.

    Exits 0 where everything holds, 1 where anything differs (each difference names its file), 2 where there is no bundle.
    Of a single file, a transcript that some program wrote, it says what that can show and which lines of it count for
    nothing (1 where there are such lines).
    """
    if bundle.is_file():
        return _transcript(bundle)
    from gate.audit.verify import verify_bundle
    from gate.domain.numbers import counted
    from gate.errors import ConfigurationError

    refuse_shard(bundle)
    if not (bundle / "manifest.json").is_file():
        raise ConfigurationError(
            f"{bundle} is no bundle: it has no manifest.json.", remedy="Name the --out folder of a run."
        )
    result = verify_bundle(bundle, app.render)
    for problem in result.problems:
        click.echo(f"wrong: {visible(problem)}")
    click.echo(
        f"{counted(result.files, 'file')}, {counted(result.runs, 'run')}, {counted(result.quotes, 'quote')}, "
        f"{counted(result.checks, 'check')}: "
        + ("everything holds" if not result.problems else counted(len(result.problems), "difference"))
    )
    return 1 if result.problems else 0


def _transcript(path: Path) -> int:
    """What a supplied transcript can show."""
    from collections import Counter

    from gate.errors import ConfigurationError
    from gate.evidence.events import response_of
    from gate.evidence.foreign import read_foreign

    if path.stat().st_size > TRANSCRIPT_BYTES:
        raise ConfigurationError(
            f"{path} is larger than {TRANSCRIPT_BYTES // 1_000_000} MB.", remedy="Name the transcript of one run."
        )
    found = read_foreign(path.read_bytes().decode("utf-8", "replace"))
    statuses = Counter(call.status for call in found.calls)
    calls = ", ".join(f"{count} {status}" for status, count in sorted(statuses.items())) or "none"
    response = response_of(found.events)
    click.echo(f"format: {found.dialect}")
    if found.proves_calls:
        click.echo(f"calls: {calls}; of sub-agents: {found.side_calls}")
        click.echo("their results are what that program reported: tier 2, the gate did not record them")
    else:
        click.echo("calls: this format cannot show that anything was called")
    click.echo(f"response: {len(response)} characters" if response else "response: none")
    for problem in found.problems:
        click.echo(f"counts as a note: {visible(problem)}")
    return 1 if found.problems else 0
