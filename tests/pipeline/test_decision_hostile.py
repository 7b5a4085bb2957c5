"""A pull request that wants a green it has not earned, and one that gets a red for what it has not done: through the whole command."""

from __future__ import annotations

import json
import re
import threading
import unicodedata
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from gate.domain.plan import SUITE_REMOVAL
from tests.in_process import gate
from tests.pipeline.test_intake_complaints import Files, judged, md, skills
from tests.pipeline.test_intake_hostile import BASE, OURS, without
from tests.scripted.demo import LOCATION
from tests.scripted.faults import Answer
from tests.scripted.generic import reader
from tests.scripted.values import Reply, Request

SKILL, SUITE = "skills/sums/SKILL.md", "skills/sums/evals/skill-gate.yaml"
TEXT = "---\nname: sums\ndescription: {what}. Use when somebody asks for a sum.\n---\n# Sums\n\nAdd {word}.\n"


def text(word: str = "up", what: str = "Adds numbers") -> str:
    return TEXT.format(word=word, what=what)


def case(name: str, keyword: str = "the part Sums", prompt: str = "") -> dict[str, Any]:
    check = {"id": "named", "kind": "response_contains", "keyword": keyword}
    return {"id": name, "type": "edge_case", "prompt": prompt or f"What is {name} and 2?", "checks": [check]}


def suite(*cases: Mapping[str, Any]) -> str:
    return json.dumps({"version": 1, "cases": list(cases)})


class Worse:
    """An agent that with head answers old questions in one of three runs, and new ones always, which base never does."""

    def __init__(self, old: str = r"What is (c\d+) and 2") -> None:
        self.old = re.compile(old)
        self.lock = threading.Lock()
        self.counts: dict[str, int] = {}

    def __call__(self, request: Request) -> Answer:
        answer = reader(request)
        if not LOCATION.search(request.system) or not any(message.tool_results for message in request.messages):
            return answer
        words = str(request.messages)
        head = "Add them" in words
        found = self.old.search(words)
        if found is None:
            return Reply("magic") if head else answer
        if not head:
            return answer
        with self.lock:
            self.counts[found[1]] = self.counts.get(found[1], 0) + 1
            return answer if self.counts[found[1]] == 2 else Reply("I do not know.")


@pytest.mark.parametrize("brought", [0, 30])
def test_cases_that_head_brings_along_do_not_outweigh_the_ones_it_loses(tmp_path: Path, brought: int) -> None:
    old = [case(f"c{number}") for number in range(6)]
    new = [case(f"n{number}", "magic", f"Number n{number}") for number in range(brought)]
    change = {SKILL: text("them"), SUITE: suite(*old, *new)}
    main = {SKILL: text(), SUITE: suite(*old), ".github/skill-gate.yml": "caps: {model_calls_per_skill: 2000}\n"}
    ran = gate(tmp_path, main, change, options=("--jobs", "1"), steps={"agent": Worse()})
    assert (ran.skill["verdict"], ran.report["state"]) == ("fail", "failure"), ran.skill["reasons"]
    assert any("head is worse than base: 6 cases lost" in reason for reason in ran.skill["reasons"])
    assert any(("cases that base has too passed" in reason) == bool(brought) for reason in ran.skill["reasons"])


class Unopened:
    """An agent that opens the broken skill for some questions only."""

    def __init__(self, opened: str) -> None:
        self.opened = opened

    def __call__(self, request: Request) -> Answer:
        broken = "BROKEN" in request.system and not re.search(self.opened, str(request.messages))
        return Reply("About: it") if broken else reader(request)


@pytest.mark.parametrize(
    ("cases", "opened", "verdict"),
    [(6, "d0", "fail"), (4, "d0", "conditional"), (6, "d[0-4]", "pass"), (6, "never", "not_measured")],
    ids=["five of six lost", "three of four lost", "one of six lost", "none left"],
)
def test_a_skill_that_is_opened_less_often_than_on_base_is_no_pass_although_its_checks_pass(
    tmp_path: Path, cases: int, opened: str, verdict: str
) -> None:
    asked = suite(*(case(f"d{number}", "About", f"What is d{number}") for number in range(cases)))
    main = {SKILL: text(), SUITE: asked}
    ran = gate(tmp_path, main, {SKILL: text(what="BROKEN")}, steps={"agent": Unopened(opened)})
    assert ran.skill["verdict"] == verdict, ran.skill["reasons"]
    if verdict in ("fail", "conditional"):
        assert any("opened less often than on base" in reason for reason in ran.skill["reasons"])


def test_a_branch_that_left_before_the_suite_came_deleted_nothing_and_is_judged_by_it(tmp_path: Path) -> None:
    start = without(OURS)
    _, report, _ = judged(tmp_path, start, {**start, "skills/a/SKILL.md": md("a", "New steps.")}, newer=BASE)
    assert skills(report) == {"skills/a": "not_measured"}, "there is a suite, and no key to run it with"
    (found,) = [item for item in report["skills"][0]["findings"] if item["rule"] == "suite/came-since"]
    assert found["remedy"] == "Update your branch."
    code, report, _ = judged(tmp_path / "gone", start, {"README.md": "x"}, newer=BASE)
    assert (code, skills(report)) == (1, {"skills/a": "invalid"}), "who deletes the skill deletes what came meanwhile"


UNREADABLE: Files = {**BASE, "skills/a/SKILL.md": "---\nname: a\ndescription: x: y\n---\n"}


def test_whoever_mends_skill_md_cannot_take_the_suite_away_with_it(tmp_path: Path) -> None:
    mended: Files = {"skills/a/SKILL.md": md("a")}
    code, report, _ = judged(tmp_path, UNREADABLE, {**without(OURS), **mended})
    assert (code, skills(report)) == (1, {"skills/a": "invalid"})
    assert "whole suite is removed (1 case)" in report["skills"][0]["reasons"][0]
    loosened = str(BASE[OURS]).replace("      - {kind: response_not_contains, pattern: guess}\n", "")
    code, report, _ = judged(tmp_path / "loosened", UNREADABLE, {**BASE, OURS: loosened, **mended})
    assert (code, skills(report)) == (1, {"skills/a": "invalid"})
    _, report, _ = judged(tmp_path / "kept", UNREADABLE, {**BASE, **mended})
    assert skills(report) == {"skills/a": "not_measured"}, "who mends it alone takes nothing away"


def test_a_second_skill_of_a_live_name_is_said(tmp_path: Path) -> None:
    _, report, _ = judged(tmp_path, BASE, {**BASE, "skills/z/SKILL.md": md("a", "Evil.")})
    (found,) = [item for item in report["skills"][0]["findings"] if item["rule"] == "skill-md/same-name"]
    assert "skills/a" in found["message"]
    main: Files = {**BASE, "skills/b/SKILL.md": md("b")}
    _, report, _ = judged(tmp_path / "taken", main, {**main, "skills/b/SKILL.md": md("a")})
    (skill,) = report["skills"]
    assert "skill-md/same-name" in {item["rule"] for item in skill["findings"]}, "an old skill may take a name too"
    _, report, _ = judged(tmp_path / "other", BASE, {**BASE, "skills/z/SKILL.md": md("z")})
    assert "skill-md/same-name" not in {item["rule"] for item in report["skills"][0]["findings"]}


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("skills/a", "skills/A"),
        ("skills/a", "Skills/a"),
        (f"skills/{unicodedata.normalize('NFC', 'é')}", f"skills/{unicodedata.normalize('NFD', 'é')}"),
    ],
    ids=["case of the folder", "case of one around it", "form of a letter"],
)
def test_a_new_skill_whose_path_many_file_systems_take_for_another_s_is_refused(
    tmp_path: Path, old: str, new: str
) -> None:
    main: Files = {f"{old}/SKILL.md": md("a")}
    code, report, _ = judged(tmp_path, main, {**main, f"{new}/SKILL.md": md("a", "Evil.")})
    assert (code, skills(report)) == (1, {new: "invalid"})
    (found,) = [item for item in report["skills"][0]["findings"] if item["blocks"]]
    assert found["rule"] == "skill-md/same-path"
    assert old in found["message"]
    _, report, _ = judged(tmp_path / "moved", main, {f"{new}/SKILL.md": md("a")})
    assert set(skills(report).values()) == {"no_evals"}, "who renames it leaves only one"


def test_nothing_is_run_for_a_skill_that_is_invalid_whatever_a_run_shows(tmp_path: Path) -> None:
    cases = [case(f"c{number}") for number in range(3)]
    ran = gate(tmp_path, {SKILL: text(), SUITE: suite(*cases)}, {SKILL: text("them"), SUITE: suite(*cases[:2])})
    assert (ran.skill["verdict"], ran.calls) == ("invalid", 0)
    plan = json.loads((ran.bundle / "plan.json").read_text("utf-8"))
    (note,) = [note for note in plan["notes"] if "nothing is run" in note]
    assert 'Case "c2" is removed' in note
    assert SUITE_REMOVAL == "suite-removal", "policies name it in their waivers"


def test_a_skill_whose_finding_the_base_policy_accepts_is_run(tmp_path: Path) -> None:
    waiver = {"skill": "skills/SUMS", "rule": "skill-md/same-path", "owner": "mia", "expires": "2999-12-31"}
    policy = json.dumps({"waivers": [{**waiver, "reason": "no such file system here"}]})
    main = {SKILL: text(), ".github/skill-gate.yml": policy}
    change = {"skills/SUMS/SKILL.md": text("them"), "skills/SUMS/evals/skill-gate.yaml": suite(case("c0"))}
    ran = gate(tmp_path, main, change)
    assert ran.skill["verdict"] == "conditional", ran.skill["reasons"]
    assert any("skill-md/same-path is waived until 2999-12-31 by mia" in reason for reason in ran.skill["reasons"])
    assert ran.calls
