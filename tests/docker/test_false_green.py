"""Every way in which a careless gate turns green, through the command line. None may end in ``pass``."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.docker.test_stories import EVALS, SKILL, a_repository, models
from tests.scripted import generic
from tests.scripted.faults import Malformed
from tests.scripted.scenarios import Step
from tests.scripted.server import ScriptedServer
from tests.scripted.values import Reply, Request
from tests.story import make_repository, run_gate

pytestmark = [pytest.mark.docker, pytest.mark.timeout(300)]

GIVEN = {"skills/sums/SKILL.md": SKILL.format(word="up")}
CHANGED = {"skills/sums/SKILL.md": SKILL.format(word="together")}


def judged(
    tmp_path: Path, *, agent: Step = generic.reader, judge: Step | None = None, mode: str = "quick"
) -> dict[str, Any]:
    """The one skill's report, after the whole way."""
    a_repository(tmp_path / "repository")
    scenario = generic.scenario(agent=agent, judge=judge) if judge is not None else generic.scenario(agent=agent)
    with ScriptedServer(scenario) as server:
        done = run_gate(
            "run", "--repository", tmp_path / "repository", "--base", "main", "--mode", mode, "--out", tmp_path / "out",
            *models(server),
        )  # fmt: skip
    report = json.loads((tmp_path / "out/report.json").read_text())
    skill: dict[str, Any] = report["skills"][0]
    assert skill["verdict"] != "pass", done.stderr
    return {**skill, "exit": done.returncode, "gate_state": report["state"]}


def by_rows(verdict: str, quote: str) -> Step:
    """A judge that says the same of every row, controls included, with the same quote."""

    def judge(request: Request) -> Reply:
        ids = _row_ids(request)
        rows = [
            {"id": row, "quotes": [{"source": "B001", "text": quote}], "reason": "So it is.", "verdict": verdict}
            for row in ids
        ]
        return Reply.of_json({"rows": rows, "claims": [], "eval_feedback": []})

    return judge


def _row_ids(request: Request) -> list[str]:
    from tests.scripted.judges import ROW

    return [row[0] for row in ROW.findall(request.messages[-1].text)] or [
        row[0] for row in ROW.findall(request.messages[0].text)
    ]


def test_a_judge_that_passes_everything_is_found_by_its_controls(tmp_path: Path) -> None:
    skill = judged(tmp_path, judge=by_rows("pass", "About: What is 1 and 2?"))
    assert skill["verdict"] == "invalid"
    assert "known to be false" in json.dumps(skill["reasons"])


def test_a_judge_whose_replies_are_no_json_grades_nothing(tmp_path: Path) -> None:
    skill = judged(tmp_path, judge=Reply("The work is fine. **Verdict - PASS**"))
    assert skill["verdict"] == "error"
    assert skill["exit"] == 3
    kinds = {item["kind"] for item in skill["fallbacks"]}
    assert "reply_invalid" in kinds


def test_a_judge_that_answers_with_broken_bytes_grades_nothing(tmp_path: Path) -> None:
    skill = judged(tmp_path, judge=Malformed())
    assert skill["verdict"] == "error"


def test_a_skill_that_no_run_opened_was_not_measured(tmp_path: Path) -> None:
    skill = judged(tmp_path, agent=Reply('Sums: the answer is "Sums".'))
    assert skill["verdict"] == "not_measured"
    assert skill["gate_state"] == "failure"
    assert "0" in json.dumps(skill["reasons"])


def test_agents_that_refuse_count_against_the_skill(tmp_path: Path) -> None:
    skill = judged(tmp_path, agent=Reply("I will not.", finish="refusal"))
    assert skill["verdict"] in ("fail", "inconclusive", "not_measured", "error")


@pytest.mark.parametrize("evals", ["[]", '{"skill_name": "sums", "evals": []}'])
def test_an_empty_suite_passes_nothing(tmp_path: Path, evals: str) -> None:
    files = {"skills/sums/evals/evals.json": evals}
    make_repository(tmp_path / "repository", {**GIVEN, **files}, {**CHANGED})
    done = run_gate(
        "run", "--repository", tmp_path / "repository", "--base", "main", "--out", tmp_path / "out",
        "--model", "openai@http://127.0.0.1:9/v1:agent",
    )  # fmt: skip
    report = json.loads((tmp_path / "out/report.json").read_text())
    assert report["skills"][0]["verdict"] in ("no_evals", "invalid"), done.stderr


def test_emptying_a_suite_that_was_there_is_not_a_way_around_it(tmp_path: Path) -> None:
    suite = "skills/sums/evals/evals.json"
    make_repository(tmp_path / "repository", {**GIVEN, suite: EVALS}, {**CHANGED, suite: "[]"})
    done = run_gate(
        "run", "--repository", tmp_path / "repository", "--base", "main", "--out", tmp_path / "out",
        "--model", "openai@http://127.0.0.1:9/v1:agent",
    )  # fmt: skip
    report = json.loads((tmp_path / "out/report.json").read_text())
    assert report["state"] == "failure"
    assert done.returncode == 1


def test_smoke_never_says_pass(tmp_path: Path) -> None:
    skill = judged(tmp_path, mode="smoke")
    assert skill["verdict"] == "conditional", skill["reasons"]
    assert "smoke" in json.dumps(skill["reasons"])
