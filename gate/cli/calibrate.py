"""``skill-gate calibrate``: how often a judge errs on known answers, or how often the gate does under simulated judges."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path

import click

from gate.cli.app import App


@click.command()
@click.option("--judge-model", metavar="NAME", help="Ask this judge about items whose answers are known.")
@click.option(
    "--rounds", type=click.IntRange(1, 20), default=1, show_default=True, help="How often it is asked each item."
)
@click.option(
    "--budget", type=click.FloatRange(min=0, min_open=True), default=2.0, show_default=True, help="US dollars at most."
)
@click.option(
    "--out", default="calibration.json", show_default=True, metavar="FILE", help="Where the figures of a judge go."
)
@click.option("--jobs", type=click.IntRange(1, 64), default=4, show_default=True, help="Questions at the same time.")
@click.option("--simulate", is_flag=True, help="Decide simulated changes under simulated judges; asks no model.")
@click.option(
    "--cases", type=click.IntRange(1, 200), default=20, show_default=True, help="Cases of the simulated suite."
)
@click.option(
    "--changes", type=click.IntRange(1, 100_000), default=100, show_default=True, help="Of each kind and judge."
)
@click.option(
    "--seed", default="calibrate", show_default=True, metavar="TEXT", help="The same seed, the same questions."
)
@click.option("--json", "as_json", is_flag=True, help="Print the counts as JSON.")
@click.pass_obj
def calibrate(
    app: App | None,
    /,
    *,
    judge_model: str | None,
    rounds: int,
    budget: float,
    out: str,
    jobs: int,
    simulate: bool,
    cases: int,
    changes: int,
    seed: str,
    as_json: bool,
) -> int:
    """Measure a judge on known answers (--judge-model), or the gate's decision under simulated ones (--simulate).

    A judge is asked as production asks it: 76 expectations over 12 records and 22 pairs of answers, English and Chinese.
    Gives TPR, TNR, how it bears injections, orders and padding, each with an exact 95 % interval; writes them to --out and
    prints the policy key `calibration` to be put into the base branch's policy. Simulated changes break nothing, a checked
    rule, or a rule that only a judge sees; the code that decides is that of every run.
    """
    if simulate == (judge_model is not None):
        raise click.UsageError("Give one of --judge-model NAME and --simulate.")
    if judge_model is None or app is None:
        return _simulated(cases=cases, changes=changes, seed=seed, as_json=as_json)
    return _asked(app, judge_model, rounds=rounds, budget=budget, out=Path(out), jobs=jobs, seed=seed, as_json=as_json)


def _asked(app: App, judge: str, *, rounds: int, budget: float, out: Path, jobs: int, seed: str, as_json: bool) -> int:
    from gate.audit.calibration import calibrate as asked
    from gate.audit.calibration import planned_calls
    from gate.cli.terminal import visible
    from gate.domain.base import pretty_json, sha256_hex
    from gate.domain.chat import Role
    from gate.domain.seeding import SessionSeed
    from gate.evidence.files import write_atomic
    from gate.settings import Caps, ModelChoice, Policy, Settings

    calls = 4 * planned_calls(rounds)  # re-asks for replies that cannot be read
    caps = Caps(model_calls_per_skill=calls, usd_per_skill=budget, usd_per_session=budget)
    settings = Settings(repository=".", models=ModelChoice(executor=judge, judge=judge), policy=Policy(caps=caps))
    clock = app.make_clock(None)
    drawn = SessionSeed(sha256_hex(seed.encode("utf-8", "surrogateescape")))
    models = app.bind_models(settings, drawn, clock.today_iso()).models
    found = asked(
        models,
        app.make_ledger(settings, clock.today_iso()),
        grader=models.of(Role.GRADER).name,
        comparator=models.of(Role.COMPARATOR).name,
        clock=clock,
        seed=drawn,
        rounds=rounds,
        jobs=jobs,
        say=app.say,
    )
    write_atomic(out, pretty_json(found))
    if as_json:
        click.echo(json.dumps(found.to_json(), ensure_ascii=True))
        return int(not found.is_known)
    for line in found.lines():
        click.echo(visible(line))
    click.echo(f"written to {visible(str(out))}; for the base branch's policy:\n")
    click.echo(found.snippet(), nl=False)
    return int(not found.is_known)


def _simulated(*, cases: int, changes: int, seed: str, as_json: bool) -> int:
    from gate.audit.simulate import JUDGES, Change, World
    from gate.audit.simulate import simulate as simulated

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
