"""Whether a skill can still be used as its cases say: what a run cannot show, because the gate's own loop offers every skill."""

from __future__ import annotations

from gate.decision.look import Look

NOT_OFFERED = "plan/not-offered"
"""Rule name of the finding, and of the waiver with which the base policy accepts that a skill is no longer offered."""


def taken_away(look: Look) -> list[str]:
    """Why head fails: hosts offered the base version to the model and do not offer this one, and cases need that they do.

    Every such case goes from opened to never opened, whatever the figures of runs that were offered it.
    """
    plan = look.record.plan
    if not plan.not_offered or not plan.base_offered or look.waived(NOT_OFFERED) is not None:
        return []
    words = (
        f"models can no longer open the skill: {plan.not_offered}, and the version at the merge base was offered to them; "
        f"its cases expect that (mode: offered); take it out, or accept it with a waiver of {NOT_OFFERED} in the base policy"
    )
    return [words]


def never_there(look: Look) -> list[str]:
    """What keeps a skill from a pass where nobody took it away, or where that was accepted."""
    plan = look.record.plan
    if not plan.not_offered or (plan.base is not None and not plan.base_offered):
        return []  # the base was no better
    waiver = look.waived(NOT_OFFERED)
    accepted = f" ({waiver.rule} is waived until {waiver.expires} by {waiver.owner})" if waiver is not None else ""
    return [f"{plan.not_offered}: its cases were run as if hosts offered it to the model, and they do not{accepted}"]


def no_longer_run(look: Look) -> list[str]:
    """Cases that the base version could run and head cannot, where others can: a change takes no case out of the way."""
    planned = look.record.plan.cases
    lost = [case for case in planned if case.blocked_by_change]
    if not lost:
        return []
    named = ", ".join(f"eval {case.case.eval_id}" for case in lost[:8])
    more = f" and {len(lost) - 8} more" if len(lost) > 8 else ""
    reasons = "; ".join(sorted({case.blocked for case in lost if case.blocked is not None}))
    return [
        f"{len(lost)} of {len(planned)} cases ran with the base version and cannot run with this one ({named}{more}): {reasons}"
    ]
