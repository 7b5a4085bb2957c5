from __future__ import annotations

import json
import xml.etree.ElementTree as ET
from typing import Any

import pytest

from gate.domain.report import CaseReport, GateReport, SkillReport, State, Verdict
from reporters import render
from tests.builders_report import sample_report

REPORT = sample_report()
SKILL = REPORT.skills[0]


def a_case_report(**changes: Any) -> CaseReport:
    return SKILL.cases[0].model_copy(update={"reasons": (), **changes})


def a_skill_report(**changes: Any) -> SkillReport:
    return SKILL.model_copy(update=changes)


def a_report(**changes: Any) -> GateReport:
    return REPORT.model_copy(update=changes)


def suites(report_xml: str) -> ET.Element:
    return ET.fromstring(report_xml)


def test_a_suite_a_skill_a_test_a_case_and_one_for_the_verdict() -> None:
    cases = (
        a_case_report(eval_id="1", passed=True),
        a_case_report(eval_id="2", passed=False, reasons=("must check c1 failed",)),
        a_case_report(eval_id="3", passed=None, reasons=("no run completed",)),
    )
    skill = a_skill_report(verdict=Verdict.FAIL, state=State.FAILURE, reasons=("c1 failed",), cases=cases)
    root = suites(render(a_report(skills=(skill,), state=State.FAILURE), "junit"))
    (suite,) = root.findall("testsuite")
    assert (suite.get("tests"), suite.get("failures"), suite.get("errors"), suite.get("skipped")) == (
        "4",
        "2",
        "0",
        "1",
    )
    names = [test.get("name") for test in suite.findall("testcase")]
    assert names[0] == "verdict"
    assert all(name and name.startswith("eval ") for name in names[1:])
    assert [child.tag for test in suite.findall("testcase")[1:] for child in test] == ["failure", "skipped"]


@pytest.mark.parametrize(
    ("state", "tag"),
    [(State.SUCCESS, None), (State.FAILURE, "failure"), (State.ERROR, "error"), (State.PENDING, "skipped")],
)
def test_the_verdict_s_test_ends_as_the_state_says(state: State, tag: str | None) -> None:
    skill = a_skill_report(state=state, cases=())
    (test,) = suites(render(a_report(skills=(skill,), state=state), "junit")).iter("testcase")
    assert [child.tag for child in test] == ([tag] if tag else [])


def test_hostile_text_is_text_and_what_xml_cannot_hold_is_named() -> None:
    case = a_case_report(eval_id='"><failure/>', passed=False, reasons=("]]> &amp; <x> \x00\x1b[31m \ud800 \ufffe 💥",))
    skill = a_skill_report(state=State.FAILURE, cases=(case,))
    root = suites(render(a_report(skills=(skill,)), "junit"))
    failure = root.findall(".//testcase")[1].find("failure")
    assert failure is not None
    assert failure.text == "]]> &amp; <x> <U+0000><U+001B>[31m <U+D800> <U+FFFE> 💥"
    assert len(root.findall(".//testcase")) == 2


def test_a_badge_counts_verdicts_and_has_the_colour_of_the_state() -> None:
    skills = (a_skill_report(verdict=Verdict.PASS), a_skill_report(path="b", verdict=Verdict.NOT_MEASURED))
    badge = json.loads(render(a_report(skills=skills, state=State.PENDING), "badge"))
    assert badge == {
        "schemaVersion": 1, "label": "skill gate", "message": "1 not measured, 1 pass", "color": "yellow", "isError": False,
    }  # fmt: skip
    assert json.loads(render(a_report(skills=(), state=State.SUCCESS), "badge"))["message"] == "nothing to judge"
