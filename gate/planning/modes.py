"""The table of modes (DESIGN.md 4) as data."""

from __future__ import annotations

from typing import Literal, NamedTuple

from gate.domain.base import NotRun
from gate.domain.plan import Arm, Mode
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
    twins: bool = False
    """Whether every pass of the grader is asked the other way round as well, and one of them without its evidence."""


RULES: dict[Mode, ModeRule] = {
    Mode.SMOKE: ModeRule({Arm.WITH_SKILL: 1}, None, False, False, False, "never"),
    Mode.QUICK: ModeRule({Arm.WITH_SKILL: 2, Arm.WITHOUT_SKILL: 2}, None, True, False, False, "never"),
    Mode.STANDARD: ModeRule(
        {Arm.WITH_SKILL: 2, Arm.WITHOUT_SKILL: 1, Arm.BASE_SKILL: 1}, 3, True, True, False, "not_won"
    ),
    Mode.FULL: ModeRule(
        {Arm.WITH_SKILL: 3, Arm.WITHOUT_SKILL: 3, Arm.BASE_SKILL: 3}, None, True, True, True, "always", twins=True
    ),
    Mode.REGRESSION: ModeRule({Arm.WITH_SKILL: 2}, None, True, False, False, "never"),
}


def skips_baseline(mode: Mode, skill_type: SkillType) -> str | None:
    """Why a whole mode leaves the baseline out (origins 1.8), or None."""
    if Arm.WITHOUT_SKILL not in RULES[mode].runs:
        return f"mode {mode.value} has no baseline"
    if mode is Mode.QUICK and skill_type is SkillType.MCP_BASED:
        return "mode quick has no baseline for mcp_based skills"
    return None


def layer3_scope(mode: Mode, case_type: CaseType) -> NotRun | None:
    """None where Layer 3 runs (R46, R107, R108, K6), otherwise why not."""
    if not RULES[mode].layer3:
        return NotRun(not_run=f"mode {mode.value} has no comparison")
    if case_type not in COMPARED_TYPES:
        return NotRun(not_run=f"only happy_path and e2e cases are compared, this one is {case_type.value}")
    return None
