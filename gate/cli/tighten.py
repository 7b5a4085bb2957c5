"""What the inputs of a change may say: only what is stricter than the policy of the base branch (DESIGN.md 3, 5).

On a pull request the workflow file, and with it every input, is the change's own. Each key has its strict direction here;
an input that goes the other way is not followed, listed, and a finding. Keys that decide nothing (where files go, how many
sandboxes run at a time, comment and status) are free.
"""

from __future__ import annotations

from gate.cli.inputs import ActionInputs
from gate.domain.findings import Finding, Level
from gate.domain.plan import Enforce, Mode
from gate.intake.notes import short, storable
from gate.intake.policy import POLICY_PATH
from gate.settings import Policy

MODES = (Mode.SMOKE, Mode.QUICK, Mode.STANDARD, Mode.FULL)
"""Each does all that the ones before it do. ``regression`` compares with something else and is stricter than none."""
LEVELS = (Enforce.ADVISORY, Enforce.STANDARD, Enforce.STRICT)


def tighten(inputs: ActionInputs, policy: Policy, *, workflow: str) -> tuple[ActionInputs, tuple[Finding, ...]]:
    """The inputs without those that would loosen ``policy``, and a finding for each that was taken out.

    ``workflow``: path of the workflow file, where the findings stand. What equals the policy is no loosening. A key of
    which the policy says nothing has its default there.
    """
    dropped: dict[str, object] = {}
    findings: list[Finding] = []

    def drop(key: str, empty: object, given: str, why: str) -> None:
        dropped[key] = empty
        name = key.replace("_", "-")
        findings.append(
            Finding(
                rule="input/loosens",
                level=Level.WARNING,
                path=workflow,
                message=storable(f'the input {name} "{short(given)}" was not followed: {why}'),
                remedy=f"Take it out of the workflow, or say it in {POLICY_PATH} on the base branch.",
            )
        )

    mode = policy.mode or Mode.STANDARD
    if inputs.mode is not None and not _at_least(MODES, inputs.mode, mode):
        drop("mode", None, inputs.mode, f"a change may only tighten the mode, which is {mode.value}")
    level = policy.enforce or Enforce.STANDARD
    if inputs.enforce is not None and not _at_least(LEVELS, inputs.enforce, level):
        drop("enforce", None, inputs.enforce, f"a change may only tighten the enforcement, which is {level.value}")
    listed = sorted(set(policy.models.values()))
    for key in ("model", "judge_model"):
        given = getattr(inputs, key)
        if given is not None and given not in listed:
            why = f"it names {', '.join(map(short, listed))}" if listed else "it names none"
            drop(key, None, given, f"a change may only pick a model that the policy names, and {why}")
    if inputs.image is not None and inputs.image != policy.image:
        why = f"it names {short(policy.image)}" if policy.image else "it names none"
        drop("image", None, inputs.image, f"a change may only pick the image that the policy names, and {why}")
    if inputs.paths:
        drop("paths", (), " ".join(inputs.paths), "every skill that a pull request changes is judged")
    if inputs.base is not None:
        drop("base", None, inputs.base, "a pull request is compared with its own base branch")
    return inputs.model_copy(update=dropped), tuple(findings)


def _at_least(order: tuple[object, ...], given: object, needed: object) -> bool:
    if given == needed:
        return True
    return given in order and needed in order and order.index(given) > order.index(needed)
