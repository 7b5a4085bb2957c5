"""``skill-gate verify``: anybody can check a bundle, offline."""

from __future__ import annotations

import re
from pathlib import Path

import click

from gate.cli.app import App
from gate.cli.failures import refuse_shard
from gate.cli.terminal import visible

_HASH = re.compile("[0-9a-f]{64}")
TRANSCRIPT_BYTES = 100_000_000
"""A larger file is no transcript of one run."""


@click.command()
@click.argument("bundle", type=click.Path(path_type=Path))
@click.option(
    "--tree",
    "trees",
    multiple=True,
    metavar="HASH|DIR",
    help="Ask that this skill passed (repeatable): hash or folder.",
)
@click.option("--policy", metavar="FILE|DIGEST", help="Ask that this policy decided.")
@click.option("--accept-conditional", is_flag=True, help="With --tree: conditional will do.")
@click.option(
    "--statement",
    type=click.Path(path_type=Path),
    help="Ask that this signed statement (`attest --key`) is of the bundle.",
)
@click.option(
    "--key", "keys", type=click.Path(path_type=Path), multiple=True, help="Public key (PEM) that vouches (repeatable)."
)
@click.option("--unauthenticated", is_flag=True, help="With --tree or --policy: ask nobody to vouch for the bundle.")
@click.pass_obj
def verify(
    app: App,
    bundle: Path,
    *,
    trees: tuple[str, ...],
    policy: str | None,
    accept_conditional: bool,
    statement: Path | None,
    keys: tuple[Path, ...],
    unauthenticated: bool,
) -> int:
    """Check a BUNDLE: seals, quotes, arithmetic, decision, each derived again from the files.

    Before a release: --tree HASH --policy FILE --statement FILE --key FILE asks that exactly this skill passed under exactly
    this policy, and that somebody who is trusted says so: a seal shows that nothing was changed, not who made it.

    Exits 0 where everything holds, 1 where anything differs (each difference names its file), 2 where there is no bundle.
    Of a single file, a transcript that some program wrote, it says what that can show and which lines of it count for
    nothing (1 where there are such lines).
    """
    asks = bool(trees or policy)
    if bool(statement) != bool(keys):
        raise click.UsageError("--statement and --key go together.")
    if asks and not statement and not unauthenticated:
        raise click.UsageError("Who vouches for the bundle? Give --statement and --key, or --unauthenticated.")
    if bundle.is_file():
        if asks or statement:
            raise click.UsageError("A transcript is no bundle: nothing can be asked of it.")
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
    if not result.problems and (asks or statement):
        verdicts = ("pass", "conditional") if accept_conditional else ("pass",)
        asked = _asked(bundle, trees, policy, verdicts, statement, keys)
        result = result._replace(problems=asked)
    for problem in result.problems:
        click.echo(f"wrong: {visible(problem)}")
    click.echo(
        f"{counted(result.files, 'file')}, {counted(result.runs, 'run')}, {counted(result.quotes, 'quote')}, "
        f"{counted(result.checks, 'check')}: "
        + ("everything holds" if not result.problems else counted(len(result.problems), "difference"))
    )
    return 1 if result.problems else 0


def _asked(
    bundle: Path,
    trees: tuple[str, ...],
    policy: str | None,
    verdicts: tuple[str, ...],
    signed: Path | None,
    keys: tuple[Path, ...],
) -> tuple[str, ...]:
    """What of the demands a bundle that holds does not meet."""
    from gate.audit.attest import bundle_facts, demands, signed_statement, statement
    from gate.cli.attest import read_key
    from gate.domain.base import digest_of
    from gate.domain.report import Verdict
    from gate.errors import EvidenceError
    from gate.intake.policy import parse_policy

    facts = bundle_facts(bundle)
    wanted = policy
    problems: list[str] = []
    if policy is not None and not _HASH.fullmatch(policy):
        parsed, findings = parse_policy(read_key(Path(policy)), policy)
        wanted = digest_of(parsed.to_json())
        problems += [f"{policy}: {item.message}" for item in findings if item.blocks]
    hashes = [tree for name in trees for tree in _trees(name)]
    problems += demands(facts, trees=hashes, policy=wanted, accepted=[Verdict(name) for name in verdicts])
    if signed is not None:
        try:
            said = signed_statement(read_key(signed), [read_key(path) for path in keys])
        except EvidenceError as error:
            return (*problems, f"{signed}: {error.message}")
        if said != statement(facts):
            problems.append(f"{signed}: it is signed, and is about another bundle")
    return tuple(problems)


def _trees(name: str) -> list[str]:
    """Tree hashes: the one that is named, or those of the skills in a folder. Raises ConfigurationError."""
    from gate.errors import ConfigurationError
    from gate.intake.tree import each_in_folder

    if _HASH.fullmatch(name):
        return [name]
    found = [item.skill.tree_sha256 for item in each_in_folder(name) if item.skill is not None]
    if not found:
        raise ConfigurationError(
            f"{name} is no tree hash and holds no skill.", remedy="Give 64 hex digits or a folder."
        )
    return found


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
