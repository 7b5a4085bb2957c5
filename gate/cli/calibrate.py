"""``skill-gate calibrate``: how often the gate errs, without a model and without an engine."""

from __future__ import annotations

import json
from collections import Counter

import click


@click.command()
@click.option("--simulate", is_flag=True, required=True, help="Decide simulated changes under simulated judges.")
@click.option(
    "--cases", type=click.IntRange(1, 200), default=20, show_default=True, help="Cases of the simulated suite."
)
@click.option(
    "--changes", type=click.IntRange(1, 100_000), default=100, show_default=True, help="Of each kind and judge."
)
@click.option("--seed", default="calibrate", show_default=True, metavar="TEXT", help="The same seed, the same table.")
@click.option("--json", "as_json", is_flag=True, help="Print the counts as JSON.")
def calibrate(simulate: bool, cases: int, changes: int, seed: str, as_json: bool) -> int:
    """Count the verdicts of simulated changes that break nothing, a checked rule, or a rule that only a judge sees.

    The code that decides is that of every run; only agents and judges are made up, and each profile of a judge has its
    own row. Gives per kind of change how many got which verdict.
    """
    from gate.audit.simulate import JUDGES, Change, World
    from gate.audit.simulate import simulate as simulated

    del simulate  # the only way there is so far; required, so that a later one can be the default
    world = World(cases=cases)
    rows = []
    for judge in JUDGES:
        for change in Change:
            found = Counter(item.verdict.value for item in simulated(change, judge, world, count=changes, seed=seed))
            rows.append(
                {
                    "judge": judge.name,
                    "change": change.value,
                    "changes": changes,
                    "verdicts": dict(sorted(found.items())),
                }
            )
            if not as_json:
                counts = ", ".join(f"{count} {name}" for name, count in found.most_common())
                click.echo(f"{judge.name}: {change.value}: {counts}")
    if as_json:
        click.echo(json.dumps(rows, ensure_ascii=False))
    return 0
