from __future__ import annotations

from gate.domain.manifest import ManifestState, ManifestStatus
from gate.domain.plan import SkillPlan
from gate.domain.preflight import Need, PreflightFact
from gate.planning import plan_session, planned_requests
from gate.settings import Policy, SkillPolicy
from tests.builders_skill import a_skill_intake, an_intake, some_settings

KEY = PreflightFact(need=Need.KEY, name="A_KEY", declared=True, source="front matter: requires.env")
HINT = KEY.model_copy(update={"declared": False})


def the_plan(head: tuple[PreflightFact, ...], base: tuple[PreflightFact, ...] = (), **settings: object) -> SkillPlan:
    found = a_skill_intake(preflight=head, base_preflight=base)
    plan = plan_session(an_intake(found), some_settings(**settings), session_id="s", run_date="2026-01-31")
    assert bool(planned_requests(plan)) is not any(case.blocked for case in plan.skills[0].cases)
    return plan.skills[0]


def test_a_declared_key_blocks_every_case_and_a_base_that_could_be_run_is_remembered() -> None:
    plan = the_plan((KEY,))
    assert {case.blocked for case in plan.cases} == {KEY.sentence}
    assert plan.base_runnable
    assert plan.preflight == (KEY,)
    assert not the_plan((KEY,), (KEY,)).base_runnable


def test_a_hint_in_the_text_never_blocks() -> None:
    assert {case.blocked for case in the_plan((HINT,)).cases} == {None}


def test_what_the_base_policy_says_the_cases_stand_in_for_does_not_block() -> None:
    path = a_skill_intake().change.path
    policy = Policy(skills={path: SkillPolicy(available=("A_KEY",))})
    assert {case.blocked for case in the_plan((KEY,), policy=policy).cases} == {None}


def test_the_statuses_of_manifests_are_handed_on() -> None:
    status = ManifestStatus(kind="oms-sig", path="a/skill.oms.sig", state=ManifestState.STALE, reason="changed")
    plan = plan_session(
        an_intake(a_skill_intake(manifests=(status,))), some_settings(), session_id="s", run_date="2026-01-31"
    )
    assert plan.skills[0].manifests == (status,)
