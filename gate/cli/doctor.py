"""``skill-gate doctor``: what works here, what does not, and what to do about it."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator

import click

from gate.cli.app import App, choose_models
from gate.cli.failures import EXIT_CONFIGURATION, EXIT_INFRASTRUCTURE
from gate.cli.reach import ask_github, ask_models, limits
from gate.cli.terminal import visible
from gate.domain.sandbox import Examined
from gate.errors import ConfigurationError, GateError
from gate.settings import DEFAULT_IMAGE, OWN_IMAGE, SANDBOXES, Policy

MARKS = {"ok": "ok     ", "note": "note   ", "warning": "WARNING", "failure": "FAILED ", "skipped": "skipped"}
_REQUIRE = "Require the status skill-gate, never the job: a job also ends well where the status is pending."
_AUTHORS = (
    "The Action alone protects against authors without write access. Against authors with it, bind the required check to"
    " the App (skill-gate serve) or use a required-workflow ruleset."
)


@click.command()
@click.option("--repository", default=".", show_default=True, metavar="DIR", help="The Git repository.")
@click.option(
    "--image", metavar="IMAGE", help="The sandbox image.  [default: the policy's, else skill-gate-sandbox:dev]"
)
@click.option(
    "--sandbox", type=click.Choice(SANDBOXES), default=SANDBOXES[0], show_default=True, help="Where commands run."
)
@click.option("--model", metavar="NAME", help="Ask this model.  [default: the policy's, else by the keys]")
@click.option("--judge-model", metavar="NAME", help="And this one.  [default: as with run]")
@click.option("--offline", is_flag=True, help="Ask no model and not GitHub.")
@click.option("--json", "as_json", is_flag=True, help="Print what was found as JSON on standard output.")
@click.pass_obj
def doctor(
    app: App,
    /,
    *,
    repository: str,
    image: str | None,
    sandbox: str,
    model: str | None,
    judge_model: str | None,
    offline: bool,
    as_json: bool,
) -> int:
    """Look at engine, image, sandbox, policy, keys, models and GitHub.

    Runs one sandbox for real and tries from inside what must not work there, asks each model one question of a few tokens,
    and GitHub whether a status may be set. Changes nothing. Exit code 0 where a session can run, 2 where the policy or a
    model's name is wrong, 3 where no sandbox can be had, one does not hold, or a model or GitHub refuses.
    """
    found: list[Examined] = []
    policy, wrong = _policy(app, repository)
    found += wrong
    found += _sandbox(app, policy, sandbox, image)
    found += _keys(app, named=bool(model or policy.models))
    unusable, outside = _outside(app, policy, model, judge_model, offline=offline)
    wrong += unusable
    found += [*unusable, *outside, limits(policy)]
    found += [Examined(name="boundary", state="note", text=text) for text in (_REQUIRE, _AUTHORS)]
    infrastructure = any(item.state == "failure" and item not in wrong for item in found)
    configuration = any(item.state == "failure" for item in wrong)
    code = EXIT_INFRASTRUCTURE if infrastructure else EXIT_CONFIGURATION if configuration else 0
    if as_json:
        click.echo(
            json.dumps({"exit_code": code, "found": [item.to_json() for item in found]}, ensure_ascii=False, indent=2)
        )
    for line in _lines(found):
        app.say(line)
    return code


def _lines(found: Iterable[Examined]) -> Iterator[str]:
    for item in found:
        yield f"{MARKS[item.state]} {item.name}: {visible(item.text)}"
        if item.remedy and item.state != "ok":
            yield f"        what to do: {visible(item.remedy)}"


def _policy(app: App, repository: str) -> tuple[Policy, list[Examined]]:
    from gate.cli.session import session_policy

    try:
        policy = session_policy(app, repository, None)
    except ConfigurationError as error:
        return Policy(), [Examined(name="policy", state="failure", text=error.message, remedy=error.remedy)]
    except GateError as error:
        text = f"No policy was read: {error.message}"
        return Policy(), [Examined(name="policy", state="note", text=text, remedy=error.remedy)]
    return policy, [Examined(name="policy", state="ok", text="the policy of the default branch can be read")]


def _sandbox(app: App, policy: Policy, kind: str, image: str | None) -> Iterator[Examined]:
    from gate.execution.self_check import examine_sandbox

    sandbox = app.make_sandbox(kind) if kind != SANDBOXES[0] else app.make_sandbox()
    of_engine = sandbox.examine()
    yield from of_engine
    if any(item.state == "failure" for item in of_engine):
        yield Examined(name="image", state="skipped", text="there is no engine to ask")
        return
    own = [(f"policy, skills {pattern}", skill.image) for pattern, skill in policy.skills.items() if skill.image]
    default = image or policy.image or (OWN_IMAGE if app.environ.get("GITHUB_ACTIONS") == "true" else DEFAULT_IMAGE)
    for whose, name in [("image", default), *own]:
        try:
            image_id = sandbox.resolve_image(name)
        except GateError as error:
            yield Examined(name=whose, state="failure", text=error.message, remedy=error.remedy)
            continue
        yield Examined(name=whose, state="ok", text=f"{name}, {image_id[:19]}")
        prefix = "" if whose == "image" else f"{whose}: "
        for item in examine_sandbox(sandbox, image_id, session_id=f"doctor-{app.random_hex(4)}"):
            yield item.model_copy(update={"name": f"{prefix}{item.name}"})


def _keys(app: App, *, named: bool) -> Iterator[Examined]:
    providers = [kind for kind in ("anthropic", "openai") if kind in app.secrets]
    if providers:
        yield Examined(name="keys", state="ok", text=f"there is a key for {' and '.join(providers)}")
    elif named:
        yield Examined(name="keys", state="note", text="no key is in the environment; a model is named all the same")
    else:
        yield Examined(
            name="keys",
            state="warning",
            text="no key of a model provider is in the environment: only the static layers run.",
            remedy="Set ANTHROPIC_API_KEY or OPENAI_API_KEY, or name a model that needs none (--model openai@URL:name).",
        )


def _outside(
    app: App, policy: Policy, model: str | None, judge_model: str | None, *, offline: bool
) -> tuple[list[Examined], list[Examined]]:
    """(names of models that cannot be used, everything else that was asked outside of this machine)."""
    if offline:
        return [], [Examined(name="models", state="skipped", text="neither a model nor GitHub was asked (--offline)")]
    unusable: list[Examined] = []
    outside: list[Examined] = []
    try:
        choice = choose_models(app, model=model, judge_model=judge_model, policy_models=policy.models)
        outside += ask_models(app, policy, choice) if choice else ()
    except ConfigurationError as error:
        unusable.append(Examined(name="models", state="failure", text=error.message, remedy=error.remedy))
    return unusable, [*outside, *ask_github(app)]
