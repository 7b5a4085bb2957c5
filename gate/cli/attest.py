"""``skill-gate attest``: what a bundle says, as an in-toto test result, signed where a key is given."""

from __future__ import annotations

from pathlib import Path

import click

from gate.cli.app import App
from gate.cli.failures import refuse_shard
from gate.cli.terminal import visible


@click.command()
@click.argument("bundle", type=click.Path(path_type=Path))
@click.option("--key", "key", type=click.Path(path_type=Path), help="Private key (PEM, Ed25519 or ECDSA) to sign with.")
@click.option("--predicate", is_flag=True, help="Print the predicate alone, for actions/attest.")
@click.option("--out", type=click.Path(path_type=Path), help="Write to a file instead of standard output.")
@click.pass_obj
def attest(app: App, bundle: Path, *, key: Path | None, predicate: bool, out: Path | None) -> int:
    """Verify a BUNDLE, then state what it shows: an in-toto statement with the test-result predicate.

    Its subjects are the skills by tree hash; policy, suites and the bundle itself are named by digest. With --key it is a
    signed DSSE envelope for `skill-gate verify --statement`. Exits 1, and states nothing, where the bundle does not hold.
    """
    from gate.audit.attest import bundle_facts, sign, statement
    from gate.audit.verify import verify_bundle
    from gate.domain.base import pretty_json
    from gate.errors import ConfigurationError
    from gate.evidence.files import write_atomic

    if predicate and key is not None:
        raise ConfigurationError("--predicate and --key do not go together.", remedy="actions/attest signs itself.")
    refuse_shard(bundle)
    problems = verify_bundle(bundle, app.render).problems
    for problem in problems:
        app.say(f"wrong: {visible(problem)}")
    if problems:
        return 1
    stated = statement(bundle_facts(bundle))
    value = stated["predicate"] if predicate else stated if key is None else sign(stated, read_key(key))
    if out is None:
        click.echo(pretty_json(value).decode(), nl=False)
    else:
        write_atomic(out, pretty_json(value))
    return 0


def read_key(path: Path) -> bytes:
    """A key file. Raises ConfigurationError where it cannot be read."""
    from gate.errors import ConfigurationError

    try:
        return path.read_bytes()
    except OSError as error:
        raise ConfigurationError(f"{path} cannot be read: {error.strerror}.") from None
