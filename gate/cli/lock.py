"""``skill-gate lock``: note what was judged, so that ``check`` sees when it no longer is what it was."""

from __future__ import annotations

from pathlib import Path

import click

from gate.cli.app import App
from gate.cli.failures import refuse_shard
from gate.cli.terminal import visible


@click.command()
@click.argument("bundle", type=click.Path(path_type=Path))
@click.option("--repository", default=".", show_default=True, metavar="DIR", help="Where skill-gate.lock is kept.")
@click.pass_obj
def lock(app: App, bundle: Path, repository: str) -> int:
    """Write the skills of a BUNDLE into skill-gate.lock, to be committed.

    It holds tree hash, suite digest, models, images, verdict and the bundle's digest. `skill-gate check` then says what
    changed since. It is never evidence of a pass: anybody can write such a file, and no verdict looks at it. Exits 1 where
    the bundle does not hold.
    """
    from gate.audit.attest import bundle_facts
    from gate.audit.lock import NAME, write_lock
    from gate.audit.verify import verify_bundle
    from gate.domain.numbers import counted

    refuse_shard(bundle)
    problems = verify_bundle(bundle, app.render).problems
    for problem in problems:
        app.say(f"wrong: {visible(problem)}")
    if problems:
        return 1
    locked = write_lock(Path(repository), bundle_facts(bundle))
    click.echo(f"{NAME}: {counted(len(locked.skills), 'skill')}")
    return 0
