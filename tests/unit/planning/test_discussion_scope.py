from __future__ import annotations

import pytest

from gate.domain.base import NotRun
from gate.domain.plan import Arm, Mode
from gate.planning.modes import discussion_scope
from gate.planning.plan import plan_session
from gate.settings import Policy
from tests.builders_skill import a_case, a_skill_intake, a_suite, an_intake, some_settings


@pytest.mark.requirements("R214", "R216")
@pytest.mark.parametrize(
    ("mode", "risk", "arm", "discussed"),
    [
        (Mode.FULL, "low", Arm.WITH_SKILL, True),
        (Mode.FULL, "high", Arm.WITHOUT_SKILL, False),
        (Mode.FULL, "high", Arm.BASE_SKILL, False),
        (Mode.STANDARD, "high", Arm.WITH_SKILL, True),
        (Mode.STANDARD, "normal", Arm.WITH_SKILL, False),
        (Mode.QUICK, "high", Arm.WITH_SKILL, False),
        (Mode.SMOKE, "high", Arm.WITH_SKILL, False),
        (Mode.REGRESSION, "high", Arm.WITH_SKILL, False),
    ],
)
def test_which_runs_are_discussed(mode: Mode, risk: str, arm: Arm, *, discussed: bool) -> None:
    found = discussion_scope(mode, risk, arm)
    assert (found is None) is discussed
    if found is not None:
        assert isinstance(found, NotRun)
        assert found.not_run


def estimated(risk: str = "normal", **settings: object) -> tuple[int, int]:
    """(calls, worst calls) of a session with one case."""
    suite = a_suite(a_case(risk=risk))
    skill = a_skill_intake(suite=suite, base_suite=suite)
    plan = plan_session(an_intake(skill), some_settings(**settings), session_id="s", run_date="2026-01-31")
    return plan.estimated_calls, plan.worst_calls


@pytest.mark.requirements("R139", "R208")
def test_contract_and_discussion_are_in_the_estimate() -> None:
    plain, worst = estimated(mode=Mode.STANDARD)
    risky, worst_risky = estimated("high", mode=Mode.STANDARD)
    assert risky - plain == 2 * 3  # a report and both sides, for each of two runs
    assert worst_risky - worst == 4 * 2 * (
        2 + 3 * 3
    )  # filled and confirmed runs, every round, every reply asked for twice
    signed, worst_signed = estimated(mode=Mode.STANDARD, policy=Policy(contract="on"))
    assert signed - plain == 2
    assert worst_signed - worst == 12
    _, patient = estimated("high", mode=Mode.STANDARD, policy=Policy(discussion_rounds=20))
    assert patient > worst_risky


@pytest.mark.requirements("R170")
@pytest.mark.parametrize("rounds", [0, 21])
def test_nobody_can_ask_for_more_than_twenty_rounds(rounds: int) -> None:
    with pytest.raises(ValueError, match="discussion_rounds"):
        Policy(discussion_rounds=rounds)
