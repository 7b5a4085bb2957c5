"""``skill-gate check``: what can be said without a model and without an engine."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import click

from gate.cli.app import App
from gate.cli.terminal import visible

if TYPE_CHECKING:
    from gate.intake.tree import CheckedSkill
    from gate.pipeline.null_controls import CheckedNull

PROFILES = ("spec", "skills-ref", "claude-code")


@click.command()
@click.argument("paths", nargs=-1, metavar="[PATH]...")
@click.option("--json", "as_json", is_flag=True, help="Print skills, facts and findings as JSON on standard output.")
@click.option("--sarif", "as_sarif", is_flag=True, help="Print the findings as SARIF 2.1.0 on standard output.")
@click.option(
    "--profile",
    "profiles",
    type=click.Choice(PROFILES),
    multiple=True,
    help="Say too whether this validator would take the skill (repeatable); where it would not, exit with 1.",
)
@click.option("--explain-suite", is_flag=True, help="Print what each eval case became: checks, expectations, files.")
@click.option(
    "--null", "null", is_flag=True, help="Say of each agent that does no work which check stops it, or lets it through."
)
@click.pass_obj
def check(
    app: App,
    paths: tuple[str, ...],
    *,
    as_json: bool,
    as_sarif: bool,
    profiles: tuple[str, ...],
    explain_suite: bool,
    null: bool,
) -> int:
    """Read every skill below PATH (default: the current folder): SKILL.md, evals, manifests.

    Tries every suite on agents that do no work: one that such an agent passes cannot be used.

    Exits 1 where a skill or its evals cannot be used, or a validator named with --profile refuses one; 0 otherwise.
    """
    from gate.audit.lock import Locks
    from gate.domain.findings import Finding, Level
    from gate.domain.manifest import ManifestState, ManifestStatus
    from gate.errors import ConfigurationError
    from gate.intake.profiles import Profile
    from gate.intake.suite.explain import explain
    from gate.intake.summary import Summary
    from gate.intake.tree import each_in_folder
    from gate.pipeline.null_controls import null_json, null_lines

    if as_json and as_sarif:
        raise ConfigurationError("--json and --sarif cannot be used together.", remedy="Choose one of them.")
    wanted = [Profile(name) for name in dict.fromkeys(profiles)]
    # One skill in memory at a time: a repository may hold thousands. A manifest that several share is said once.
    found: dict[Finding, None] = {}
    values: list[Any] = []
    explained: list[str] = []
    lines: list[str] = []
    summary = Summary()
    locks = Locks(paths or (".",))
    shipped: dict[ManifestStatus, None] = {}
    count = cases = unusable = 0
    today = app.make_clock(None).today_iso()
    read_skills = (
        (path, skill) for path in paths or (".",) for skill in each_in_folder(path, profiles=wanted, orphans=True)
    )
    for path, read in read_skills:
        skill, nulls = _with_suite_findings(read, path, today)
        locks.see(path, read)
        count += not skill.orphan
        cases += skill.cases
        unusable += any(finding.blocks for finding in skill.findings)
        found.update(dict.fromkeys(skill.findings))
        summary.add(skill)
        shipped.update(dict.fromkeys(item for item in skill.manifests if item.state is not ManifestState.UNSIGNED))
        shown = nulls if null else None
        if as_json:
            values.append({**skill.to_json(), **null_json(shown)})
        lines += null_lines(skill.path, shown)
        if explain_suite and skill.sources:
            explained += explain(skill.path, skill.suite, skill.triggers, skill.sources)
    found.update(dict.fromkeys(locks.findings()))
    refused = [item for item in found if item.rule.startswith("profile/") and item.level is Level.ERROR]
    if as_sarif or as_json:
        text = app.render_findings(list(found)) if as_sarif else f"{json.dumps(values, indent=1, ensure_ascii=True)}\n"
        click.echo(text, nl=False)
        for line in (*summary.lines(), _totals(count, cases, unusable)):
            app.say(line)
    else:
        for finding in sorted(found, key=lambda item: (list(Level).index(item.level), item.path, item.line or 0)):
            place = f"{finding.path}:{finding.line}" if finding.line else finding.path
            click.echo(f"{visible(place)}: {finding.level.value}: {visible(finding.message)} [{finding.rule}]")
            if finding.remedy:
                click.echo(f"  what to do: {visible(finding.remedy)}")
        for line in (*explained, *lines):
            click.echo(visible(line))
        for item in sorted(shipped, key=lambda one: (one.path, one.kind)):
            words = [item.state.value, *([item.words] if item.words != item.state.value else []), item.reason]
            click.echo(f"{visible(item.path)}: {item.kind}: {visible(', '.join(filter(None, words)))}")
        for line in summary.lines():
            click.echo(line)
        click.echo(_totals(count, cases, unusable))
    return 1 if unusable or refused else 0


def _with_suite_findings(read: CheckedSkill, below: str, today: str) -> tuple[CheckedSkill, CheckedNull | None]:
    """A skill with what its suite lets through: checks that prove nothing, agents that do no work."""
    from gate.judging.ground_truth.trivial import suite_trivia
    from gate.pipeline.null_controls import checked_null

    if read.suite is None:
        return read, None
    nulls = checked_null(read.suite, read.skill, run_date=today, below=below)
    trivial = suite_trivia(read.suite, run_date=today, below=below)
    return read.model_copy(update={"findings": (*read.findings, *trivial, *nulls.findings)}), nulls


def _totals(skills: int, cases: int, unusable: int) -> str:
    from gate.domain.numbers import counted

    return f"{counted(skills, 'skill')}, {counted(cases, 'eval case')}, {unusable} unusable"
