from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gate.domain.plan import Arm, ArmPlan, CasePlan, Limits, SkillPlan
from gate.domain.skill import ChangeKind, SkillChange
from gate.execution.arms import contamination, prose_lines
from gate.execution.loop import Reading
from gate.execution.stand_ins import neutral_text, own_skill_request, placebo
from tests.builders_skill import a_case, a_skill
from tests.fakes.chat import ScriptedChat, use
from tests.unit.execution.world import a_request, run_loop, sums_skill


@given(st.integers(0, 5000))
def test_neutral_text_has_exactly_the_length_that_was_asked_for(characters: int) -> None:
    assert len(neutral_text(characters)) == characters


def test_a_placebo_is_listed_like_the_skill_is_as_long_and_holds_nothing_of_it() -> None:
    skill = sums_skill()
    stand_in = placebo(skill)
    assert (stand_in.name, stand_in.description, len(stand_in.body)) == (
        skill.name, skill.description, len(skill.body),
    )  # fmt: skip
    assert [file.path for file in stand_in.files] == ["SKILL.md"]
    assert not any(line in stand_in.text for line in prose_lines(skill.body))
    assert stand_in.tree_sha256 != skill.tree_sha256


def test_reading_the_placebo_opens_it_and_does_not_void_the_run_while_the_skills_own_text_does() -> None:
    skill = a_skill(description="A description that is long enough to be taken for a telling line of the skill.")
    stand_in = placebo(skill)
    request = a_request(Arm.PLACEBO, skill=skill).model_copy(update={"skill": stand_in})
    assert request.is_bare
    end, log = run_loop(ScriptedChat([use("read_file", {"path": f"/skills/{skill.name}/SKILL.md"}), "Done."]), request)
    assert end.opened == ("SKILL.md",)
    assert contamination((skill,), log.events, request.case, stand_in) is None
    assert contamination((skill,), log.events, request.case) is not None, "only its own text is excused"
    assert Reading(stand_in, request.case).given() == ["SKILL.md"]


def a_plan(*prompts: str, runs: int = 3) -> SkillPlan:
    limits = Limits(steps=3)
    arms = tuple(ArmPlan(arm=arm, runs=runs, limits=limits) for arm in (Arm.WITH_SKILL, Arm.SELF_GENERATED))
    return SkillPlan(
        change=SkillChange(path="skills/sums", kind=ChangeKind.MODIFIED),
        slug="sums",
        head=sums_skill(),
        base=None,
        suite=None,
        cases=tuple(
            CasePlan(case=a_case(eval_id=f"c{n}", prompt=prompt), arms=arms) for n, prompt in enumerate(prompts)
        ),
    )


@pytest.mark.requirements("R16")
def test_who_writes_its_own_skill_sees_the_prompts_and_nothing_else_of_the_cases_or_the_skill() -> None:
    request = own_skill_request(a_plan("First task.", "Second task.", "First task."))
    assert request is not None
    assert (request.skill, request.case.files, request.case.checks, request.case.expectations) == (None, (), (), ())
    assert request.case.prompt.count("First task.") == 1
    assert "Second task." in request.case.prompt
    assert not any(line in request.case.prompt for line in prose_lines(sums_skill().text))
    assert request.is_bare


def test_a_plan_without_the_arm_asks_for_no_skill() -> None:
    assert own_skill_request(a_plan("Task.", runs=0)) is None
