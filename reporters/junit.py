"""A report as JUnit XML, for the many places that show test results: a suite a skill, a test a case, and one for its verdict.

Everything that comes from a pull request or a model is text in attributes and elements; what XML 1.0 cannot hold at all is
written as ``<U+XXXX>``.
"""

from __future__ import annotations

import re
import xml.etree.ElementTree as ET
from collections.abc import Sequence

from gate.domain.report import CaseReport, GateReport, SkillReport, State

# XML 1.0 section 2.2: everything else is no character of a document.
_NO_CHARACTER = re.compile("[^\t\n\r\u0020-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
VERDICT = "verdict"
"""Name of the test that stands for a skill's verdict."""


def render(report: GateReport) -> str:
    """All skills. ``failures`` and ``errors`` count tests; a case that nobody could decide is skipped, never passed."""
    root = ET.Element("testsuites", {"name": "Skill Gate"})
    for skill in report.skills:
        _suite(root, skill)
    if not report.skills:
        suite = ET.SubElement(root, "testsuite", {"name": "Skill Gate"})
        test = ET.SubElement(suite, "testcase", {"classname": "skill-gate", "name": "session"})
        _outcome(test, report.state, report.headline, [finding.message for finding in report.session_findings])
        _count(suite)
    _count(root)
    ET.indent(root, " ")
    return '<?xml version="1.0" encoding="UTF-8"?>\n' + ET.tostring(root, encoding="unicode") + "\n"


def _suite(root: ET.Element, skill: SkillReport) -> None:
    suite = ET.SubElement(root, "testsuite", {"name": _text(skill.path)})
    verdict = ET.SubElement(suite, "testcase", {"classname": _text(skill.path), "name": VERDICT})
    _outcome(
        verdict, skill.state, f"{skill.verdict.value}: {'; '.join(skill.reasons[:1]) or skill.wording}", skill.reasons
    )
    for case in skill.cases:
        _case(suite, skill, case)
    _count(suite)


def _case(suite: ET.Element, skill: SkillReport, case: CaseReport) -> None:
    name = f"eval {case.eval_id}" + (f" {case.name}" if case.name and case.name != case.eval_id else "")
    test = ET.SubElement(suite, "testcase", {"classname": _text(skill.path), "name": _text(name)})
    if case.passed is None:
        ET.SubElement(test, "skipped", {"message": _text("; ".join(case.reasons) or "it could not be decided")})
    elif not case.passed:
        message = _text(case.reasons[0] if case.reasons else "not passed in more than half of its runs")
        ET.SubElement(test, "failure", {"message": message}).text = _text("\n".join(case.reasons))


def _outcome(test: ET.Element, state: State, message: str, lines: Sequence[str]) -> None:
    kinds = {State.FAILURE: "failure", State.ERROR: "error", State.PENDING: "skipped"}
    if state in kinds:
        ET.SubElement(test, kinds[state], {"message": _text(message)}).text = _text("\n".join(lines))


def _count(element: ET.Element) -> None:
    element.set("tests", str(len(element.findall(".//testcase"))))
    for name, found in (("failures", "failure"), ("errors", "error"), ("skipped", "skipped")):
        element.set(name, str(len(element.findall(f".//{found}"))))


def _text(text: str) -> str:
    return _NO_CHARACTER.sub(lambda match: f"<U+{ord(match[0]):04X}>", text)
