"""The table of modes (DESIGN.md 4) as data."""

from __future__ import annotations

from typing import Literal, NamedTuple

from gate.domain.base import NotRun
from gate.domain.plan import OPTIONAL_ARMS, Arm, Mode
from gate.domain.skill import SkillType
from gate.domain.suite import CaseType

COMPARED_TYPES = (CaseType.HAPPY_PATH, CaseType.E2E)


class ModeRule(NamedTuple):
    """What a mode does."""

    runs: dict[Arm, int]
    """Runs of each arm to start with; an arm that is not named does not run."""
    fill: int | None
    """Runs of each arm for undecided cases; None: no fill."""
    confirm: bool
    layer3: bool
    all_pairs: bool
    analyzer: Literal["never", "not_won", "always"]
    triggers: bool = True
    """Whether trigger queries are asked beside other cases; a suite of nothing else is asked in every mode."""
    optional_arms: bool = False
    """Whether the arms run that the policy may ask for (``self_generated``, ``placebo``), as often as the others."""
    twins: bool = False
    """Whether every pass of the grader is asked the other way round as well, and one of them without its evidence."""
    discussion: Literal["never", "high_risk", "all"] = "never"
    """Which completed runs with the skill are discussed, where they are not simple."""


RULES: dict[Mode, ModeRule] = {
    Mode.SMOKE: ModeRule({Arm.WITH_SKILL: 1}, None, False, False, False, "never", triggers=False),
    Mode.QUICK: ModeRule({Arm.WITH_SKILL: 2, Arm.WITHOUT_SKILL: 2}, None, True, False, False, "never"),
    Mode.STANDARD: ModeRule(
        {Arm.WITH_SKILL: 2, Arm.WITHOUT_SKILL: 1, Arm.BASE_SKILL: 1},
        3,
        True,
        True,
        False,
        "not_won",
        discussion="high_risk",
    ),
    Mode.FULL: ModeRule(
        dict.fromkeys(Arm, 3), None, True, True, True, "always", optional_arms=True, twins=True, discussion="all"
    ),
    # Filled as ``standard`` is, so that its cases are decided by the rule that decided what it is held against.
    Mode.REGRESSION: ModeRule({Arm.WITH_SKILL: 2}, 3, True, False, False, "never", triggers=False),
}


LISTING_ARMS = (Arm.WITH_SKILL, Arm.BASE_SKILL)
"""The arms that have a listing of the author's to open."""


def runs_of(mode: Mode, arm: Arm, *, trigger: bool = False) -> int:
    """Runs of an arm to start with. A trigger query begins with one where the mode fills undecided cases."""
    rule = RULES[mode]
    own = rule.runs.get(arm, 0)
    if not trigger:
        return own
    if arm not in LISTING_ARMS:
        return 0
    return min(own, 1) if rule.fill is not None else own


def arms_of(mode: Mode, *, self_generated: bool, placebo: bool) -> tuple[Arm, ...]:
    """The arms of a session: the three that verdicts rest on, and the further ones that mode and policy both ask for."""
    asked = {Arm.SELF_GENERATED: self_generated, Arm.PLACEBO: placebo}
    return tuple(arm for arm in Arm if arm not in OPTIONAL_ARMS or (asked[arm] and RULES[mode].optional_arms))


def skips_baseline(mode: Mode, skill_type: SkillType) -> str | None:
    """Why a whole mode leaves the baseline out (origins 1.8), or None."""
    if Arm.WITHOUT_SKILL not in RULES[mode].runs:
        # In this mode a baseline is what the default branch recorded, and "no baseline" would say that there is none.
        return f"mode {mode.value} " + (
            "makes no runs without the skill" if mode is Mode.REGRESSION else "has no baseline"
        )
    if mode is Mode.QUICK and skill_type is SkillType.MCP_BASED:
        return "mode quick has no baseline for mcp_based skills"
    return None


def discussion_scope(mode: Mode, risk: str, arm: Arm) -> NotRun | None:
    """None where a completed run is discussed unless it is simple (R213-R216), otherwise why not."""
    which = RULES[mode].discussion
    if which == "never":
        return NotRun(not_run=f"mode {mode.value} has no discussion")
    if arm is not Arm.WITH_SKILL:
        return NotRun(not_run="only runs with the skill are discussed: they are the ones that it has to answer for")
    if which == "high_risk" and risk != "high":
        return NotRun(not_run=f"mode {mode.value} discusses cases with risk: high, this one is {risk}")
    return None


def layer3_scope(mode: Mode, case_type: CaseType) -> NotRun | None:
    """None where Layer 3 runs (R46, R107, R108, K6), otherwise why not."""
    if not RULES[mode].layer3:
        return NotRun(not_run=f"mode {mode.value} has no comparison")
    if case_type not in COMPARED_TYPES:
        return NotRun(not_run=f"only happy_path and e2e cases are compared, this one is {case_type.value}")
    return None
