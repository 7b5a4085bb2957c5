"""The options that say what is judged and how: the same for a session in one piece and for a plan of one."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeVar

import click

from gate.cli.app import App, choose_models
from gate.domain.plan import Enforce, Mode
from gate.domain.report import Language
from gate.settings import HARNESSES, SANDBOXES

if TYPE_CHECKING:
    from gate.settings import Settings

F = TypeVar("F", bound=Callable[..., Any])

_OPTIONS = (
    click.argument("paths", nargs=-1, metavar="[PATH]..."),
    click.option("--repository", default=".", show_default=True, metavar="DIR", help="The Git repository."),
    click.option(
        "--base", metavar="REF", help="What to compare with; default: the merge base with the default branch."
    ),
    click.option("--head", default="HEAD", show_default=True, metavar="REF", help="The commit to judge."),
    click.option(
        "--mode", type=click.Choice([mode.value for mode in Mode]), help="How much to run.  [default: standard]"
    ),
    click.option(
        "--enforce",
        type=click.Choice([level.value for level in Enforce]),
        help="How verdicts become a state.  [default: standard]",
    ),
    click.option("--model", metavar="NAME", help="Runs the cases: provider:model, openai@URL:model or replay:DIR."),
    click.option(
        "--judge-model", metavar="NAME", help="Grades, compares and analyses; default: a key of another family."
    ),
    click.option("--harness", type=click.Choice(HARNESSES), help="Who runs the cases.  [default: loop]"),
    click.option(
        "--agent", metavar="PATH", help="The agent program of the harness; default: what PATH finds, or the image has."
    ),
    click.option("--image", metavar="IMAGE", help="The sandbox image.  [default: skill-gate-sandbox:dev]"),
    click.option(
        "--sandbox",
        type=click.Choice(SANDBOXES),
        default=SANDBOXES[0],
        show_default=True,
        help="Where commands run; bubblewrap is weaker, for one's own skills on a machine without Docker.",
    ),
    click.option(
        "--jobs", type=click.IntRange(1, 64), default=4, show_default=True, help="Sandboxes at the same time."
    ),
    click.option("--seed", metavar="HEX", help="64 hex digits from which all randomness comes; default: drawn."),
    click.option(
        "--language",
        type=click.Choice([item.value for item in Language]),
        help="What reports are written in.  [default: en]",
    ),
    click.option(
        "--exit-conditional",
        type=click.Choice(["0", "1"]),
        default="0",
        show_default=True,
        help="Exit code of conditional.",
    ),
)


def session_options(command: F) -> F:
    """Give a command the options of a session; ``asked_settings`` reads them."""
    for option in reversed(_OPTIONS):
        command = option(command)
    return command


def asked_settings(
    app: App, *, out: str, model: str | None, judge_model: str | None, exit_conditional: str, **given: Any
) -> Settings:
    """Settings of a session from its options; ``given`` may hold further settings. Raises ConfigurationError."""
    from gate.cli.session import session_settings

    return session_settings(
        app,
        out=out,
        models=lambda policy: choose_models(app, model=model, judge_model=judge_model, policy_models=policy),
        exit_conditional=int(exit_conditional),
        **{"record": None, **given},
    )
