"""What ``skill-gate doctor`` asks outside of this machine: each model once, and GitHub what its token may do."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from gate.cli.app import App
from gate.domain.numbers import counted
from gate.domain.sandbox import Examined
from gate.errors import ForgeError, GateError
from gate.settings import CALLS_PER_SKILL, ModelChoice, Policy

if TYPE_CHECKING:
    from gate.protocols import Forge

_NOWHERE = "0" * 40
"""A commit that no repository has: whoever may set a status is told so, whoever may not is refused."""
_PERMISSIONS = "Give the job's token pull-requests: write and statuses: write, or give the action another github-token."


def ask_models(app: App, policy: Policy, choice: ModelChoice) -> Iterator[Examined]:
    """One question of a few tokens to each model that is named. Raises ConfigurationError where a name cannot be used."""
    from gate.domain.chat import Role
    from gate.domain.seeding import SessionSeed
    from gate.llm.roles import readiness
    from gate.settings import Settings

    if choice.executor.startswith("replay:"):
        yield Examined(name="models", state="note", text="a recording is replayed: no model is asked")
        return
    settings = Settings(repository=".", models=choice, policy=policy)
    bound = app.bind_models(settings, SessionSeed(app.random_hex(32)), app.make_clock(None).today_iso())
    for role, model in bound.models.distinct((Role.EXECUTOR, Role.GRADER, *choice.roles)):
        name = f"model {model.name}"
        try:
            reply = model.complete(readiness(f"doctor/{role.value}"))
        except GateError as error:
            yield Examined(name=name, state="failure", text=error.message, remedy=error.remedy)
            continue
        used = reply.usage
        tokens = (
            f"{used.input_tokens} tokens in, {used.output_tokens} out"
            if used
            else "it does not say with how many tokens"
        )
        yield Examined(name=name, state="ok", text=f"it answered ({tokens})")
    for note in bound.notes:
        yield Examined(name="models", state="note", text=note)


def ask_github(app: App) -> Iterator[Examined]:
    """Who the token is, and whether it may set a status. Nothing is written: the commit that is asked about does not exist."""
    if "github" not in app.secrets:
        if app.environ.get("GITHUB_ACTIONS") == "true":
            yield Examined(
                name="token",
                state="warning",
                text="there is no GitHub token: no comment and no status can be written.",
                remedy=f"Give the action its github-token input. {_PERMISSIONS}",
            )
        return
    if not app.environ.get("GITHUB_REPOSITORY"):
        text = "GITHUB_REPOSITORY names no repository, so what the GitHub token may do was not tried"
        yield Examined(name="token", state="note", text=text)
        return
    try:
        forge = app.make_forge(True)  # who waits for the answer is a person
        yield Examined(name="token", state="ok", text=f"GitHub knows it as {forge.who_am_i()}")
    except GateError as error:
        yield Examined(name="token", state="failure", text=error.message, remedy=error.remedy)
        return
    yield _may_set_a_status(forge)
    yield Examined(
        name="comment",
        state="note",
        text="whether it may write comments only the first pull request shows, for GitHub tells nobody before: that takes"
        " pull-requests: write",
    )


def _may_set_a_status(forge: Forge) -> Examined:
    from gate.domain.report import State

    try:
        forge.set_status(_NOWHERE, "skill-gate", State.PENDING, "skill-gate doctor")
    except ForgeError as error:
        if error.kind != "validation":
            return Examined(name="status", state="failure", text=error.message, remedy=error.remedy or _PERMISSIONS)
    return Examined(name="status", state="ok", text="it may set one (tried at a commit that does not exist)")


def limits(policy: Policy) -> Examined:
    """What a session may cost at most before it stops."""
    caps = policy.caps
    calls = caps.model_calls_per_skill
    of_calls = (
        f"{CALLS_PER_SKILL} model calls (more where many cases need them)"
        if calls is None
        else counted(calls, "model call")
    )
    text = f"at most {of_calls} and ${caps.usd_per_skill:g} a skill, and ${caps.usd_per_session:g} a session (policy, caps)"
    return Examined(name="limits", state="note", text=text)
