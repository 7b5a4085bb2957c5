"""``skill-gate run``: the main job."""

from __future__ import annotations

from pathlib import Path

import click

from gate.cli.app import App, choose_models
from gate.domain.plan import Enforce, Mode


@click.command()
@click.argument("paths", nargs=-1, metavar="[PATH]...")
@click.option("--repository", default=".", show_default=True, metavar="DIR", help="The Git repository.")
@click.option("--base", metavar="REF", help="What to compare with; default: the merge base with the default branch.")
@click.option("--head", default="HEAD", show_default=True, metavar="REF", help="The commit to judge.")
@click.option("--mode", type=click.Choice([mode.value for mode in Mode]), help="How much to run.  [default: standard]")
@click.option(
    "--enforce",
    type=click.Choice([level.value for level in Enforce]),
    help="How verdicts become a state.  [default: standard]",
)
@click.option("--out", default=".skill-gate", show_default=True, metavar="DIR", help="Where the bundle goes.")
@click.option("--model", metavar="NAME", help="Runs the cases: provider:model, openai@URL:model or replay:DIR.")
@click.option("--judge-model", metavar="NAME", help="Grades, compares and analyses; default: a key of another family.")
@click.option("--image", metavar="IMAGE", help="The sandbox image.  [default: skill-gate-sandbox:dev]")
@click.option("--jobs", type=click.IntRange(1, 64), default=4, show_default=True, help="Sandboxes at the same time.")
@click.option("--seed", metavar="HEX", help="64 hex digits from which all randomness comes; default: drawn.")
@click.option("--record", metavar="DIR", help="Write every exchange with a model to DIR, for replay:DIR.")
@click.option(
    "--exit-conditional",
    type=click.Choice(["0", "1"]),
    default="0",
    show_default=True,
    help="Exit code of conditional.",
)
@click.option("--json", "as_json", is_flag=True, help="Print report.json on standard output.")
@click.pass_obj
def run(  # noqa: PLR0917 - click hands every parameter over by name
    app: App,
    paths: tuple[str, ...],
    repository: str,
    base: str | None,
    head: str,
    mode: str | None,
    enforce: str | None,
    out: str,
    model: str | None,
    judge_model: str | None,
    image: str | None,
    jobs: int,
    seed: str | None,
    record: str | None,
    exit_conditional: str,
    as_json: bool,
) -> int:
    """Judge the skills that changed (or the skill folders PATH), with evidence.

    Compares HEAD with the merge base, runs every eval case with and without the skill in sandboxes, checks the record,
    grades, compares blind, decides. Leaves a bundle with report.md and report.html in --out.
    """
    from gate.cli.session import report_session, run_session, session_settings

    settings = session_settings(
        app,
        paths=paths,
        repository=repository,
        base=base,
        head=head,
        mode=mode,
        enforce=enforce,
        out=out,
        models=lambda policy: choose_models(app, model=model, judge_model=judge_model, policy_models=policy),
        image=image,
        jobs=jobs,
        seed=seed,
        record=record,
        exit_conditional=int(exit_conditional),
    )
    report = run_session(app, settings)
    report_session(app, report, Path(settings.out), as_json=as_json)
    return report.exit_code
