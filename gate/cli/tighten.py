"""What the inputs of a change may say: only what is stricter than the policy of the base branch (DESIGN.md 3, 5).

On a pull request the workflow file, and with it every input, is the change's own. Each key of the policy declares its
strict direction (``gate.settings``); an input that goes the other way is not followed, listed, and a finding. Inputs that
decide nothing (where files go, how many sandboxes run at a time, comment and status) are free.
"""

from __future__ import annotations

from collections.abc import Mapping

from gate.cli.inputs import INPUTS, ActionInputs, input_of
from gate.domain.findings import Finding, Level
from gate.intake.notes import short, storable
from gate.intake.policy import POLICY_PATH
from gate.settings import Policy, loosens

_POLICY_KEYS = {
    "mode": "mode",
    "enforce": "enforce",
    "model": "models",
    "judge_model": "models",
    "image": "image",
    "harness": "harness",
    "service_url": "service_url",
}
"""Input -> the key of the policy that it speaks about."""
_NOT_SAID_BY_A_CHANGE = {
    "paths": "every skill that a pull request changes is judged",
    "base": "a pull request is compared with its own base branch",
    "budget": "only the policy of the base branch says what may be spent",
}


def tighten(inputs: ActionInputs, policy: Policy, *, workflow: str) -> tuple[ActionInputs, tuple[Finding, ...]]:
    """The inputs without those that would loosen ``policy``, and a finding for each that was taken out.

    ``workflow``: path of the workflow file, where the findings stand. What equals the policy is no loosening. A key of
    which the policy says nothing has its default there.
    """
    dropped: dict[str, object] = {}
    findings: list[Finding] = []
    for key in (*_POLICY_KEYS, *_NOT_SAID_BY_A_CHANGE):
        given = getattr(inputs, key)
        if not given:
            continue
        policy_key = _POLICY_KEYS.get(key)
        why = loosens(policy, policy_key, given) if policy_key else _NOT_SAID_BY_A_CHANGE[key]
        if why is not None:
            dropped[key] = () if isinstance(given, tuple) else None
            findings.append(_finding(key.replace("_", "-"), given, why, workflow))
    return inputs.model_copy(update=dropped), tuple(findings)


def not_inputs(environ: Mapping[str, str], *, workflow: str) -> tuple[Finding, ...]:
    """A finding for each input that is named after a key of the policy and is none: somebody believes that it says something."""
    findings = []
    for key in Policy.model_fields:
        name = key.replace("_", "-")
        if name in INPUTS or not (given := input_of(environ, name)):
            continue
        message = (
            f'the input {name} "{short(given)}" was not followed: only the policy says this, there is no such input'
        )
        findings.append(
            Finding(
                rule="input/unknown",
                level=Level.WARNING,
                path=workflow,
                message=storable(message),
                remedy=f"Take it out of the workflow, and say {key} in {POLICY_PATH} on the base branch.",
            )
        )
    return tuple(findings)


def _finding(name: str, given: object, why: str, workflow: str) -> Finding:
    shown = " ".join(map(str, given)) if isinstance(given, tuple) else str(given)
    return Finding(
        rule="input/loosens",
        level=Level.WARNING,
        path=workflow,
        message=storable(f'the input {name} "{short(shown)}" was not followed: {short(why, 300)}'),
        remedy=f"Take it out of the workflow, or say it in {POLICY_PATH} on the base branch.",
    )
