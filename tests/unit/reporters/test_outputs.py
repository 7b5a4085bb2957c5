from __future__ import annotations

import json

import pytest

from gate.domain.plan import Enforce
from gate.domain.report import Override, State, Verdict
from reporters.outputs import KEYS, LIST_BYTES, outputs
from tests.builders_records import decide
from tests.builders_report import failing, passing, quiet_report, report_of, sample_report


def test_a_report_gives_the_worst_verdict_and_each_skills_own() -> None:
    report = sample_report()
    values = outputs(report, state=report.state, exit_code=report.exit_code, headline=report.headline)
    assert tuple(values) == KEYS
    assert (values["verdict"], values["state"], values["exit-code"]) == ("fail", "failure", "1")
    skills = json.loads(values["skills"])
    assert skills == {skill.path: skill.verdict.value for skill in report.skills}
    assert next(iter(skills.values())) == "fail"
    assert all("\n" not in value for value in values.values())


def test_nothing_to_evaluate_has_a_value_of_its_own() -> None:
    report = quiet_report()
    values = outputs(report, state=report.state, exit_code=0, headline=report.headline)
    assert (values["verdict"], values["skills"], values["changed-skills"]) == ("none", "{}", "[]")


@pytest.mark.parametrize(
    ("state", "code", "verdict"), [(State.ERROR, 3, Verdict.ERROR), (State.PENDING, 0, Verdict.NOT_MEASURED)]
)
def test_without_a_report_every_output_is_there(state: State, code: int, verdict: Verdict) -> None:
    values = outputs(None, state=state, exit_code=code, headline="two\nlines")
    assert tuple(values) == KEYS
    assert values["verdict"] == verdict.value
    assert values["headline"] == "two lines"
    assert (values["report"], values["bundle"], values["comment-url"]) == ("", "", "")


def test_a_skill_that_did_not_change_is_no_changed_skill() -> None:
    one, other = decide(passing()), decide(failing())
    report = report_of([one.model_copy(update={"change": "unchanged"}), other])
    values = outputs(report, state=report.state, exit_code=1, headline="")
    assert json.loads(values["changed-skills"]) == [other.path]
    assert set(json.loads(values["skills"])) == {one.path, other.path}


def test_very_many_skills_stay_valid_json_within_their_room_worst_first() -> None:
    bad, good = decide(failing()), decide(passing())
    many = [good.model_copy(update={"path": f"skills/{'é' * 50}{number:04}"}) for number in range(2000)]
    report = report_of([*many, bad])
    values = outputs(report, state=report.state, exit_code=1, headline="")
    for name in ("skills", "changed-skills"):
        assert len(values[name].encode()) <= LIST_BYTES
        assert next(iter(json.loads(values[name]))) == bad.path


def test_what_advice_lets_through_is_no_pass_of_any_kind_for_workflows_of_the_earlier_action() -> None:
    report = sample_report().model_copy(update={"enforce": Enforce.ADVISORY, "state": State.SUCCESS})
    assert {Verdict.FAIL, Verdict.ERROR} & {skill.verdict for skill in report.skills}
    values = outputs(report, state=State.SUCCESS, exit_code=0, headline="")
    assert values["release_status"] in ("FAIL", "ERROR")
    by_name = Override(login="octocat", permission="admin", head_commit="a" * 40)
    let_through = report.model_copy(update={"override": by_name})
    assert outputs(let_through, state=State.SUCCESS, exit_code=0, headline="")["status"] == "conditional"


def test_workflows_of_the_earlier_action_find_their_outputs_in_every_state() -> None:
    """origins-and-formats.md 1.9: both generations."""
    report = sample_report()
    values = outputs(report, state=report.state, exit_code=1, headline="", page_path="skill-gate/report.html")
    assert (values["status"], values["release_status"], values["exit_code"]) == ("fail", "FAIL", "1")
    assert values["report_html"] == values["session_report_html"] == "skill-gate/report.html"
    passed, total = (sum(getattr(one.authoritative, name) for one in report.skills) for name in ("passed", "total"))
    assert values["authoritative_pass_rate"] == f"{passed / total:.4f}"
    assert int(values["eval_count"]) == sum(len(one.cases) for one in report.skills)
    assert values["grade"] in ("", *"SABCDF")
    nothing = outputs(quiet_report(), state=State.SUCCESS, exit_code=0, headline="")
    assert (nothing["status"], nothing["release_status"], nothing["delta"]) == ("pass", "PASS", "")
    for state, word in ((State.ERROR, "error"), (State.PENDING, "pending")):
        assert outputs(None, state=state, exit_code=0, headline="")["status"] == word
