"""``skill-gate check``: what can be said without a model and without an engine."""

from __future__ import annotations

import json

import click

from gate.cli.app import App
from gate.cli.terminal import visible


@click.command()
@click.argument("paths", nargs=-1, metavar="[PATH]...")
@click.option("--json", "as_json", is_flag=True, help="Print the findings as JSON on standard output.")
@click.pass_obj
def check(app: App, paths: tuple[str, ...], as_json: bool) -> int:
    """Read every skill below PATH (default: the current folder): SKILL.md, evals, manifests.

    Exits 1 where a skill or its evals cannot be used, 0 otherwise.
    """
    from gate.domain.findings import Level
    from gate.intake import FolderTree, check_tree

    del app
    skills = [skill for path in paths or (".",) for skill in check_tree(FolderTree(path))]
    findings = [finding for skill in skills for finding in skill.findings]
    # A manifest that several skills share is said once.
    findings = list({finding.model_dump_json(): finding for finding in findings}.values())
    unusable = [skill for skill in skills if any(finding.blocks for finding in skill.findings)]
    if as_json:
        click.echo(json.dumps([skill.to_json() for skill in skills], indent=1, ensure_ascii=True))
    else:
        for finding in sorted(findings, key=lambda item: (list(Level).index(item.level), item.path, item.line or 0)):
            place = f"{finding.path}:{finding.line}" if finding.line else finding.path
            click.echo(f"{visible(place)}: {finding.level.value}: {visible(finding.message)} [{finding.rule}]")
            if finding.remedy:
                click.echo(f"  what to do: {visible(finding.remedy)}")
        cases = sum(len(skill.suite.cases) for skill in skills if skill.suite)
        click.echo(f"{len(skills)} skills, {cases} eval cases, {len(unusable)} unusable")
    return 1 if unusable else 0
