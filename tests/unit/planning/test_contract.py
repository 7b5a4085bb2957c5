from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from typing import Any

import pytest

from gate.domain.base import NotRun
from gate.domain.chat import ChatRequest, Role
from gate.domain.contract import SkillContract, TaskContract
from gate.domain.plan import Arm, ArmPlan, CasePlan, Limits, Plan, SkillPlan
from gate.domain.skill import ChangeKind, Skill, SkillChange, SkillFile
from gate.domain.suite import Case
from gate.errors import ModelError
from gate.intake.skill import parse_skill
from gate.judging.ground_truth.trivial import idle_passes
from gate.llm.ledger import Ledger
from gate.llm.replies import ReplyProblem
from gate.llm.roles import Models
from gate.planning.contract import (
    Drafted,
    Parties,
    contract_for,
    draft,
    recheck_contract,
    rule_line,
    says_nothing,
    sign,
    with_plans,
)
from gate.settings import Caps
from tests.builders_judging import SEED, user_text
from tests.fakes.chat import ScriptedChat, Step

LOST = ModelError("The connection broke.", kind="connection")
CASE = Case(eval_id="login", prompt="Make a login page.")
SIX = {
    "requirement_summary": "A login page.",
    "key_deliverables": ["login.html"],
    "success_criteria": ['The page holds the button "Sign in".', "The file login.html has a password field."],
    "technical_approach": "Plain HTML.",
    "risk_areas": ["form validation"],
    "plan": ["[SEARCH] look at the files", "[CREATE] write login.html", "[VERIFY] open it"],
}


def document(**changes: Any) -> str:
    return json.dumps({**SIX, **changes})


def review(
    score: float, *, approved: bool | None = None, findings: Sequence[str] = ("Add the remember-me box.",)
) -> str:
    said = score >= 0.8 if approved is None else approved
    return json.dumps({"score": score, "approved": said, "findings": list(findings)})


class Meeting:
    """Two scripted clients."""

    def __init__(
        self,
        generator: Callable[[ChatRequest], Step] | Sequence[Step],
        reviewer: Callable[[ChatRequest], Step] | Sequence[Step],
        caps: Caps | None = None,
    ) -> None:
        self.clients = {Role.GENERATOR: ScriptedChat(generator), Role.REVIEWER: ScriptedChat(reviewer)}
        self.parties = Parties(
            Models(self.clients.__getitem__), Ledger(caps or Caps(), lambda model, usage: 0.0), lambda digest: SEED
        )

    def signed(self) -> TaskContract:
        task = sign(CASE, self.parties, label="page/login/contract")
        whole = SkillContract(drafted=False, tasks=(task,))
        assert recheck_contract(whole) == []
        assert SkillContract.model_validate_json(whole.model_dump_json()) == whole
        return task


@pytest.mark.requirements("R160", "R161", "R162", "R163", "R204")
@pytest.mark.parametrize(
    ("scores", "forced"),
    [
        pytest.param((0.85,), False, id="responsive landing page"),
        pytest.param((0.90,), False, id="data analysis script"),
        pytest.param((0.70, 0.88), False, id="technical blog, 0.70 then 0.88"),
        pytest.param((0.88,), False, id="REST API"),
        pytest.param((0.60, 0.72, 0.78), True, id="Vue dashboard, forced"),
    ],
)
def test_the_five_reviews_of_the_source(scores: tuple[float, ...], forced: bool) -> None:
    versions = [document(requirement_summary=f"version {number}") for number, _ in enumerate(scores, 1)]
    meeting = Meeting(versions, [review(score) for score in scores])
    task = meeting.signed()
    assert task.score_path == scores
    assert (task.forced, task.approved) == (forced, not forced)
    assert task.document.requirement_summary == f"version {len(scores)}"  # R163: the generator's last version
    assert ("contract_forced" in {item.kind for item in task.fallbacks}) is forced
    assert all(client.remaining == 0 for client in meeting.clients.values())


@pytest.mark.requirements("R164", "R165", "R209", "R218")
@pytest.mark.parametrize(
    ("score", "approved", "agreed"), [(0.8, False, True), (0.79, True, False), (0.8, True, True), (0.1, False, False)]
)
def test_the_number_alone_decides_and_an_approved_that_disagrees_is_recorded(
    score: float, approved: bool, agreed: bool
) -> None:
    meeting = Meeting([document()] * 3, [review(score, approved=approved)] * 3)
    task = meeting.signed()
    assert task.approved is agreed
    assert len(task.rounds) == (1 if agreed else 3)
    assert all(item.approved_said is approved for item in task.rounds)
    assert task.rounds[0].disagrees is (approved is not agreed)
    disagreed = {item.kind: item.count for item in task.fallbacks}.get("contract_approved_disagrees", 0)
    assert disagreed == (len(task.rounds) if approved is not agreed else 0)


@pytest.mark.requirements("R148", "R151", "R159")
def test_each_has_a_client_of_its_own_and_no_history_and_the_generator_is_told_what_to_change() -> None:
    meeting = Meeting([document(), document()], [review(0.5), review(0.9)])
    meeting.signed()
    generator, reviewer = (meeting.clients[role].requests for role in (Role.GENERATOR, Role.REVIEWER))
    assert all(len(request.messages) == 1 for request in (*generator, *reviewer))
    assert "Add the remember-me box." not in user_text(generator[0])
    assert "Add the remember-me box." in user_text(generator[1])
    assert "login.html" in user_text(generator[1])  # the version before
    assert "0.5" not in user_text(reviewer[1])
    assert "Add the remember-me box." not in user_text(reviewer[1])
    assert len({request.label for request in (*generator, *reviewer)}) == 4


@pytest.mark.requirements("R153", "R154", "R155", "R156", "R157", "R158")
@pytest.mark.parametrize(
    "bad",
    [
        {"requirement_summary": "  "},
        {"key_deliverables": []},
        {"success_criteria": [""]},
        {"technical_approach": ""},
        {"risk_areas": []},
        {"plan": []},
        {"plan": ["look at it", "[VERIFY] it"]},
        {"plan": ["[SEARCH] it", "[CREATE] it"]},
        {"plan": ["[EDIT] it", "[VERIFY] it"]},
        {"extra": "field"},
    ],
    ids=json.dumps,
)
def test_a_document_without_its_six_fields_and_tags_is_asked_for_again_and_then_refused(bad: dict[str, Any]) -> None:
    assert Meeting([document(**bad), document()], [review(0.9)]).signed().approved
    with pytest.raises(ReplyProblem):
        Meeting([document(**bad), document(**bad)], []).signed()


@pytest.mark.requirements("R211", "R217")
@pytest.mark.parametrize(
    ("generator", "reviewer", "path"),
    [
        ([document()], [LOST], (None,)),
        ([document()], ["nothing", "nothing"], (None,)),
        ([document(), LOST], [review(0.5)], (0.5,)),
        ([document(), document()], [review(0.5), LOST], (0.5, None)),
    ],
)
def test_a_lost_voice_is_never_a_score_and_never_an_agreement(
    generator: list[Step], reviewer: list[Step], path: tuple[float | None, ...]
) -> None:
    task = Meeting(generator, reviewer).signed()
    assert task.score_path == path
    assert (task.approved, task.forced) == (False, True)
    assert task.degraded


@pytest.mark.parametrize("score", ["0.9", True, 1.5, -1])
def test_a_review_without_a_number_is_asked_for_again(score: Any) -> None:
    bad = json.dumps({"score": score, "approved": True, "findings": []})
    assert Meeting([document()], [bad, review(0.9)]).signed().score_path == (0.9,)


@pytest.mark.parametrize(
    "change",
    [{"approved": True, "forced": False}, {"forced": False}, {"degraded": "", "rounds": 1}],
    ids=["approved", "not forced", "shortened"],
)
def test_a_forced_contract_cannot_pass_for_an_agreed_one(change: dict[str, Any]) -> None:
    task = Meeting([document()] * 3, [review(0.5)] * 3).signed()
    if "rounds" in change:
        change = {"rounds": task.rounds[:1]}
    assert recheck_contract(SkillContract(drafted=False, tasks=(task.model_copy(update=change),)))


# Plans for all arms or for none ------------------------------------------------------------------------------------------


def planned(*cases: Case) -> SkillPlan:
    arms = tuple(ArmPlan(arm=arm, runs=1, limits=Limits(steps=5)) for arm in (Arm.WITH_SKILL, Arm.WITHOUT_SKILL))
    return SkillPlan(
        change=SkillChange(path="page", kind=ChangeKind.MODIFIED),
        slug="page-1",
        head=None,
        base=None,
        suite=None,
        cases=tuple(CasePlan(case=case, arms=arms) for case in cases),
    )


@pytest.mark.requirements("R152", "R166")
@pytest.mark.parametrize(("given", "told"), [("none", False), ("all_arms", True)])
def test_the_plan_goes_to_every_arm_alike_or_to_none(given: Any, told: bool) -> None:
    skill = planned(CASE)
    contract = contract_for(skill, Meeting([document()], [review(0.9)]).parties, plan_given=given)
    session = Plan.model_validate(
        {"session_id": "s", "mode": "full", "enforce": "standard", "run_date": "2026-01-31", "base_commit": None,
         "head_commit": None, "skills": (skill,), "estimated_calls": 0, "estimated_tokens": 0}
    )  # fmt: skip
    case = with_plans(session, {"page-1": contract}).skills[0].cases[0].case
    assert (case.plan == tuple(SIX["plan"])) is told
    assert ("[CREATE] write login.html" in case.request) is told
    assert case.prompt == CASE.prompt  # judges see the task alone
    assert ("plan" in case.to_json()) is told


def test_a_case_without_a_contract_runs_and_is_named() -> None:
    other = CASE.model_copy(update={"eval_id": "other", "prompt": "Something else."})

    def generator(request: ChatRequest) -> Step:
        return LOST if "Something else." in user_text(request) else document()

    contract = contract_for(planned(CASE, other), Meeting(generator, lambda request: review(0.9)).parties)
    assert isinstance(contract, SkillContract)
    assert [task.eval_id for task in contract.tasks] == ["login"]
    assert contract.missing == ("other: no contract: The connection broke.",)
    nothing = contract_for(planned(other), Meeting(generator, []).parties)
    assert isinstance(nothing, NotRun)


# Drafting a suite ------------------------------------------------------------------------------------------------------------

TEXT = """---
name: release-notes
description: Writes release notes. Use when somebody asks for them.
---
# Release notes

- Breaking changes come first, under a heading of their own.
- At most 120 words in all.
"""


def a_skill() -> Skill:
    data = TEXT.encode()
    file = SkillFile(path="SKILL.md", mode="100644", sha256="0" * 64, size_bytes=len(data), data=data)
    skill, _ = parse_skill("skills/release-notes", (file,))
    assert skill is not None
    return skill


def task(**changes: Any) -> dict[str, Any]:
    return {
        "name": "Two changes",
        "type": "happy_path",
        "prompt": "Write the release notes: the key colour is now theme.",
        "files": [],
        "rules": ["Breaking changes come first, under a heading of their own."],
        "checks": [{"kind": "response_contains", "value": "## Breaking changes"}],
        **changes,
    }


def drafted(
    tasks: Sequence[dict[str, Any]], *documents: str, score: float = 0.9, reviewer: Any = None
) -> Drafted | NotRun:
    replies = iter(documents or [document()] * len(tasks) * 3)

    def generator(request: ChatRequest) -> Step:
        return json.dumps({"tasks": list(tasks)}) if "/draft" in request.label else next(replies)

    meeting = Meeting(generator, reviewer or (lambda request: review(score)))
    return draft(a_skill(), meeting.parties, trivial=lambda case: idle_passes(case, run_date="2026-01-31"))


def test_a_drafted_suite_is_marked_and_each_case_names_the_rule_that_it_tests() -> None:
    made = drafted([task()])
    assert isinstance(made, Drafted)
    assert made.suite is not None
    assert made.suite.generated
    (case,) = made.suite.cases
    assert [item.text for item in case.expectations] == SIX["success_criteria"]
    assert {item.severity.value for item in case.expectations} == {"should"}
    assert {item.severity.value for item in case.checks} == {"should"}
    assert {item.rule_ref for item in case.expectations} == {task()["rules"][0]}
    assert case.digest
    assert made.contract.drafted
    assert made.contract.refused == ()
    assert recheck_contract(made.contract, made.suite) == []
    unmarked = made.suite.model_copy(update={"generated": False})
    assert recheck_contract(made.contract, unmarked) == ["the suite was drafted and is not marked as generated"]
    easier = case.expectations[0].model_copy(update={"text": 'The answer says "hello".'})
    changed = made.suite.model_copy(update={"cases": (case.model_copy(update={"expectations": (easier,)}),)})
    assert "does not say" in recheck_contract(made.contract, changed)[0]


TRIVIAL = [
    "The response exists.",
    "The agent answers the user's request completely and correctly.",
    "The output is not empty.",
    "The task is done well.",
    "回答存在",
]


@pytest.mark.parametrize("text", TRIVIAL)
def test_a_criterion_that_any_answer_meets_says_nothing(text: str) -> None:
    assert says_nothing(text)


@pytest.mark.parametrize(
    "text",
    [
        'The answer contains "14.75".',
        "The notes start with the breaking changes.",
        "The file totals.json exists.",
        "Each entry names its author.",
        "说明里首先列出不兼容的改动",
    ],
)
def test_a_criterion_of_its_own_says_something(text: str) -> None:
    assert not says_nothing(text)


@pytest.mark.parametrize(
    ("bad", "why"),
    [
        ({"rules": []}, "no line of SKILL.md"),
        ({"rules": ["Always write in green ink, please."]}, "no line of SKILL.md"),
        ({"rules": ["Writes release notes."]}, "no line of SKILL.md"),  # the description is no rule
        ({"prompt": "  "}, "there is no prompt"),
        ({"prompt": "Write notes; breaking changes come first, under a heading of their own."}, "gives away the rule"),
    ],
)
def test_a_task_that_tests_no_rule_is_thrown_away(bad: dict[str, Any], why: str) -> None:
    made = drafted([task(**bad)])
    assert isinstance(made, Drafted)
    assert made.suite is None
    assert why in made.contract.refused[0]


def test_a_generator_that_writes_a_trivial_suite_gets_none() -> None:
    made = drafted([task(checks=[])], document(success_criteria=TRIVIAL[:4]))
    assert isinstance(made, Drafted)
    assert made.suite is None
    assert sum("any answer meets" in text for text in made.contract.refused) == 4
    assert "0 criteria that say something; 2 are needed" in made.contract.refused[-1]


def test_a_check_that_an_idle_agent_passes_is_dropped() -> None:
    idle = [{"kind": "response_not_contains", "value": "lorem ipsum"}, {"kind": "response_contains", "value": "Done"}]
    made = drafted([task(checks=idle, files=[{"path": "data.csv", "text": "a,b\n"}])])
    assert isinstance(made, Drafted)
    assert made.suite is not None
    assert [item.parameters.kind for item in made.suite.cases[0].checks] == ["response_not_contains"]
    assert made.contract.refused == ("Two changes: checks that an agent passes that does nothing: c2",)


@pytest.mark.parametrize("path", ["../x", "/etc/passwd", "a/../../b", "", "~/x", "a\\b", "a\0b"])
def test_a_file_cannot_leave_the_workspace(path: str) -> None:
    made = drafted([task(files=[{"path": path, "text": "x"}], checks=[{"kind": "file_exists", "value": path}])])
    assert isinstance(made, Drafted)
    assert made.suite is not None
    assert made.suite.cases[0].files == ()
    assert made.suite.cases[0].checks == ()


def test_a_contract_that_nobody_reviewed_makes_no_suite_and_a_forced_one_is_marked() -> None:
    made = drafted([task()], reviewer=lambda request: LOST)
    assert isinstance(made, Drafted)
    assert made.suite is None
    assert "nobody reviewed" in made.contract.refused[0]
    forced = drafted([task()], score=0.5)
    assert isinstance(forced, Drafted)
    assert forced.suite is not None
    assert forced.contract.tasks[0].forced


def test_nothing_drafted_is_a_reason() -> None:
    assert isinstance(drafted([]), NotRun)


def test_a_rule_is_found_in_the_body_only() -> None:
    skill = a_skill()
    assert rule_line(skill, "- At most 120 words in all.") == 8
    assert rule_line(skill, "Writes release notes. Use when somebody asks for them.") is None
    assert rule_line(skill, "At most") is None
