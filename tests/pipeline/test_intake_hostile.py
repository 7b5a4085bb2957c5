"""A pull request that wants its skill not to be judged: every way out of reach ends in a failure, none in silence."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.fakes.repository import link, submodule
from tests.pipeline.test_intake_complaints import Files, judged, md, skills

SUITE = """\
version: 1
cases:
  - id: one
    prompt: What is 1 and 2?
    checks:
      - {kind: response_contains, keyword: "3"}
      - {kind: response_not_contains, pattern: guess}
"""
OURS = "skills/a/evals/skill-gate.yaml"
BASE: Files = {"skills/a/SKILL.md": md("a"), "skills/a/run.py": "print(1)\n", OURS: SUITE, "README.md": "x"}


def without(*paths: str) -> Files:
    return {path: content for path, content in BASE.items() if not path.startswith(paths)}


def moved(where: str) -> Files:
    kept = without("skills/a/")
    return {
        **kept,
        **{path.replace("skills/a/", f"{where}/", 1): text for path, text in BASE.items() if path not in kept},
    }


WAYS: dict[str, Files] = {
    "the suite is deleted": without(OURS),
    "the suite gets a name that nobody looks for": {**without(OURS), "skills/a/evals/suite.txt": SUITE},
    "the suite goes to a folder of data": {**without(OURS), "skills/a/evals/data/skill-gate.yaml": SUITE},
    "the suite leaves the skill": {**without(OURS), "old/skill-gate.yaml": SUITE},
    "the suite becomes a link to itself elsewhere": {**BASE, OURS: link("../../../old.yaml"), "old.yaml": SUITE},
    "the suite becomes a submodule": {**BASE, OURS: submodule()},
    "the suite becomes empty": {**BASE, OURS: ""},
    "the suite has no case": {**BASE, OURS: "version: 1\ncases: []\n"},
    "the suite becomes another tool's": {**without(OURS), "skills/a/evals/x.yaml": "prompts: [p]\nproviders: [q]\ntests: [{a: b}]\n"},
    "the case becomes a trigger query": {**BASE, OURS: "version: 1\ncases:\n  - {id: one, prompt: What is 1 and 2?, should_trigger: true}\n"},
    "a check is dropped": {**BASE, OURS: SUITE.replace('      - {kind: response_contains, keyword: "3"}\n', "")},
    "a check asks for less": {**BASE, OURS: SUITE.replace('keyword: "3"', 'keyword: "3", ignore_case: true')},
    "a check only advises": {**BASE, OURS: SUITE.replace('keyword: "3"}', 'keyword: "3", severity: info}')},
    "the case is skipped": {**BASE, OURS: SUITE.replace("    prompt:", "    skip_without_skill: true\n    prompt:")},
    "another suite takes over the id": {**BASE, "skills/a/evals/skill-gate.yml": SUITE.replace('"3"', '"e"'), OURS: SUITE.replace('"3"', '"e"')},
    "the skill moves under an ignored path": moved("templates/a"),
    "the skill moves there under another name": {**moved("templates/b"), "templates/b/SKILL.md": md("b")},
    "a skill around it takes it in": {**BASE, "skills/SKILL.md": md("skills")},
    "the skill becomes a submodule": {**without("skills/a/"), "skills/a": submodule()},
    "SKILL.md is renamed": {**without("skills/a/SKILL.md"), "skills/a/README.md": md("a")},
    "SKILL.md is no longer read": {**BASE, "skills/a/SKILL.md": "---\nname: a\ndescription: x: y\n---\n"},
    "SKILL.md gets bytes that are no text": {**BASE, "skills/a/SKILL.md": b"---\nname: a\ndescription: \xff\xfe\n---\nx\x00"},
    "the skill is renamed without its suite": {"README.md": "x", "skills/b/SKILL.md": md("a"), "skills/b/run.py": "print(1)\n"},
    "the skill is deleted": {"README.md": "x"},
}  # fmt: skip


@pytest.mark.parametrize("way", list(WAYS))
def test_no_way_out_of_reach_is_green(tmp_path: Path, way: str) -> None:
    code, report, _ = judged(tmp_path, BASE, WAYS[way])
    assert report["state"] == "failure", (skills(report), report["headline"])
    assert code == 1
    assert "invalid" in skills(report).values(), skills(report)
    (worst,) = [skill for skill in report["skills"] if skill["verdict"] == "invalid"]
    assert worst["reasons"][0]


HONEST: dict[str, Files] = {
    "the skill is renamed with its suite": moved("skills/b"),
    "a case gets another id": {**BASE, OURS: SUITE.replace("id: one", "id: two")},
    "the skill becomes a link to where it went": {**moved("templates/a"), "skills/a": link("../templates/a")},
    "a case is added": {**BASE, OURS: SUITE + SUITE.partition("cases:\n")[2].replace("id: one", "id: two")},
    "a check is added": {**BASE, OURS: SUITE + "      - {kind: response_contains, keyword: sum}\n"},
    "a line is written anew": {**BASE, "skills/a/SKILL.md": md("a", "New steps.")},
    "the suite is laid out anew": {**BASE, OURS: "# The suite.\n" + SUITE.replace('keyword: "3"', "keyword: '3'")},
    "the suite moves to the other spelling of its place": {**without(OURS), "skills/a/evals/skill-gate.yml": SUITE},
}


@pytest.mark.parametrize("way", list(HONEST))
def test_honest_work_on_a_skill_and_its_suite_is_not_held_up(tmp_path: Path, way: str) -> None:
    _, report, _ = judged(tmp_path, BASE, HONEST[way])
    assert set(skills(report).values()) == {"not_measured"}, (skills(report), report["skills"][0]["reasons"])


def test_a_suite_that_cannot_be_read_does_not_become_no_evals_by_being_deleted(tmp_path: Path) -> None:
    broken: Files = {**BASE, OURS: SUITE.replace("keyword:", "keywort:")}
    code, report, _ = judged(tmp_path, broken, without(OURS))
    assert (code, skills(report)) == (1, {"skills/a": "invalid"})
    assert "cannot be read" in report["skills"][0]["reasons"][0]
    code, report, _ = judged(tmp_path / "mended", broken, BASE)
    assert skills(report) == {"skills/a": "not_measured"}, "who mends it takes nothing away"
    code, report, _ = judged(tmp_path / "none", {**without(OURS), "skills/a/evals/notes.md": "x"}, without(OURS))
    assert skills(report) == {"skills/a": "no_evals"}, "what never was a suite is none that was removed"
    code, report, _ = judged(tmp_path / "both", broken, {**broken, "skills/a/run.py": "print(2)\n"})
    assert skills(report) == {"skills/a": "invalid"}
    assert not [reason for reason in report["skills"][0]["reasons"] if "removed" in reason]
