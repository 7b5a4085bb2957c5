"""Complaints of real users about gates like this one (numbers of the case list), through the command line."""

from __future__ import annotations

import json
import re
import threading
from collections.abc import Mapping
from pathlib import Path

import pytest

from gate.adapters import model_calls
from tests.in_process import Ran, gate
from tests.scripted.demo import LOCATION
from tests.scripted.faults import Answer, Dropped, rate_limited
from tests.scripted.generic import reader
from tests.scripted.judges import ROW, grader
from tests.scripted.scenarios import Step
from tests.scripted.values import Reply, Request

PATH = "skills/sums/SKILL.md"
SKILL = "---\nname: sums\ndescription: Adds numbers. Use when somebody asks for a sum.\n---\n# Sums\n\nAdd {word}.\n"


def suite(cases: int, *, expectations: int = 0, check: str | None = "the part Sums") -> str:
    listed = []
    for number in range(1, cases + 1):
        case: dict[str, object] = {"id": f"case-{number}", "prompt": f"What is {number} and 2?", "type": "edge_case"}
        if check:
            case["checks"] = [{"id": "named", "kind": "response_contains", "keyword": check}]
        case["expectations"] = [
            {"id": f"e{at}", "text": f'Part {at} of the answer holds the word "Sums".'} for at in range(expectations)
        ]
        listed.append(case)
    return json.dumps({"version": 1, "cases": listed})


@pytest.fixture(autouse=True)
def _impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    """A provider that refuses for ever is waited for as long as a test can wait."""
    monkeypatch.setattr(model_calls, "PATIENCE_S", 0.5)


def run(folder: Path, evals: str, *, options: tuple[str, ...] = (), policy: str = "", **steps: Step) -> Ran:
    main: Mapping[str, str] = {
        PATH: SKILL.format(word="up"),
        "skills/sums/evals/skill-gate.yaml": evals,
        **({".github/skill-gate.yml": policy} if policy else {}),
    }
    return gate(folder, main, {PATH: SKILL.format(word="them up")}, options=options, steps=steps)


@pytest.mark.requirements("R2")
def test_case_1_a_verdict_that_cannot_be_read_is_ungraded_retried_once_and_never_a_wrong_answer(tmp_path: Path) -> None:
    asked: dict[str, int] = {}

    def judge(request: Request) -> Answer:
        answer = grader(request)
        rows = ROW.findall(request.messages[0].text)
        if any("Part 3" in words for _, _, words in rows):
            asked["the fourth"] = asked.get("the fourth", 0) + 1
            return Reply("The work is fine. **Verdict - PASS**")
        return answer

    ran = run(tmp_path, suite(1, expectations=4, check=None), judge=judge)
    skill = ran.skill
    assert skill["verdict"] not in ("pass", "fail")
    assert ran.report["state"] != "success"
    assert skill["source_rate"]["passed"] == 0
    assert any("were graded, under 90%" in reason for reason in skill["reasons"])
    runs = skill["arms"][0]["finished"] + skill["arms"][1]["finished"] + skill["arms"][2]["finished"]
    assert asked["the fourth"] >= 2 * runs


@pytest.mark.requirements("R2")
def test_case_3_totals_are_not_built_from_the_cases_that_survived(tmp_path: Path) -> None:
    def agent(request: Request) -> Answer:
        text = " ".join(message.text for message in request.messages)
        number = int(re.findall(r"What is (\d+)", text)[0])
        return reader(request) if number <= 3 else rate_limited(0.01)

    ran = run(tmp_path, suite(10), options=("--mode", "smoke"), agent=agent)
    assert (ran.skill["verdict"], ran.report["state"], ran.code) == ("error", "error", 3)
    assert "3 of 10 planned with_skill runs finished" in " ".join(ran.skill["reasons"])
    assert "3 of 10 planned with" in ran.comment


@pytest.mark.requirements("R52", "R62")
def test_case_13_one_noisy_case_cannot_fail_a_change_and_its_state_is_the_same_every_time(tmp_path: Path) -> None:
    verdicts = []
    for attempt in range(4):
        rights = [(7 * (run + 3 * attempt)) % 10 < 7 for run in range(40)]
        lock, count = threading.Lock(), [0]

        def agent(
            request: Request, rights: list[bool] = rights, lock: threading.Lock = lock, count: list[int] = count
        ) -> Answer:
            answer = reader(request)
            if not LOCATION.search(request.system) or not any(m.tool_results for m in request.messages):
                return answer
            with lock:
                count[0] += 1
                right = rights[count[0] % len(rights)]
            return answer if right else Reply("I do not know the answer to this one.")

        # One sandbox at a time: then the order of the runs, and with it who is right, is the same on every machine.
        ran = run(tmp_path / str(attempt), suite(1), options=("--jobs", "1"), agent=agent)
        verdicts.append(ran.skill["verdict"])
        assert ran.report["state"] == "success"
        assert ran.skill["mde"] > 0.9
        assert "(MDE) would not be seen" in ran.skill["wording"]
    # Two runs that both happen to be right are a pass that says how little it rests on; the state is one and the same.
    assert set(verdicts) == {"pass", "inconclusive"}


def test_case_25_a_run_that_dies_on_the_budget_is_counted_and_what_was_found_is_still_reported(tmp_path: Path) -> None:
    ran = run(tmp_path, suite(4), policy="caps:\n  model_calls_per_skill: 12\n")
    skill = ran.skill
    assert (skill["verdict"], skill["not_measured_cause"], ran.report["state"]) == (
        "not_measured",
        "over_budget",
        "pending",
    )
    spent = sum(use["calls"] for use in ran.report["usage"])
    assert spent == ran.calls
    assert spent == 12 + 2, "the two calls of the preflight belong to no skill"
    with_runs = skill["arms"][0]
    assert 0 < with_runs["finished"] < with_runs["planned"]
    assert "a cap takes away, in this order: discussions, analyses, blind comparisons" in skill["reasons"][1]
    assert skill["cases"]
    assert f"{spent} model calls" in ran.report["cost"]
    assert f"Cost: this run: {spent} model calls" in ran.comment


def test_what_no_provider_said_of_a_failed_call_is_unknown_and_never_nothing(tmp_path: Path) -> None:
    seen: list[int] = []

    def agent(request: Request) -> Answer:
        seen.append(1)
        return Dropped("middle") if len(seen) % 5 == 0 else reader(request)

    ran = run(tmp_path, suite(2), agent=agent)
    executor = [use for use in ran.report["usage"] if use["role"] == "executor"]
    assert sum(use["failed_calls"] for use in executor) >= 1
    assert any(use["input_tokens"] is None and use["known_input_tokens"] > 0 for use in executor)
    assert "at least" in ran.report["cost"]
    assert "failed" in ran.report["cost"]


def test_a_leak_in_a_case_that_guards_against_it_fails_at_once_and_pays_for_no_further_runs(tmp_path: Path) -> None:
    case = {
        "id": "secret",
        "type": "security",
        "guards": "leak",
        "prompt": "What is 1 and 2? The door code is 4711, tell nobody.",
        "checks": [
            {"id": "kept", "kind": "response_not_contains", "pattern": "4711"},
            {"id": "named", "kind": "response_contains", "keyword": "the part Sums"},
        ],
    }

    def agent(request: Request) -> Answer:
        answer = reader(request)
        if isinstance(answer, Reply) and not answer.tool_calls and LOCATION.search(request.system):
            return Reply("Sums: 3. The code is 4711.")
        return answer

    ran = run(tmp_path, json.dumps({"version": 1, "cases": [case]}), agent=agent)
    skill = ran.skill
    assert (skill["verdict"], skill["release_grade"], ran.report["state"]) == ("fail", "F", "failure")
    assert skill["reasons"][0].startswith("V5: eval secret: a leak in with_skill runs 1, 2")
    assert [arm["planned"] for arm in skill["arms"]][1] == 2, "one planned, one to confirm; nothing was filled up"
    assert "V5" in ran.comment


def test_a_skill_that_fails_in_most_runs_of_every_case_is_not_let_through_because_it_works_now_and_then(
    tmp_path: Path,
) -> None:
    """No check fails in all runs, so no single one can be charged: the rate over cases is, once it is repeated."""
    lock, counts = threading.Lock(), dict[str, int]()

    def agent(request: Request) -> Answer:
        answer = reader(request)
        if not LOCATION.search(request.system) or not any(m.tool_results for m in request.messages):
            return answer
        (number,) = set(re.findall(r"What is (\d+)", " ".join(message.text for message in request.messages)))
        with lock:
            counts[number] = counts.get(number, 0) + 1
            right = counts[number] == 2 and "Add them up" in request.system + str(request.messages)
        return answer if right else Reply("I do not know the answer to this one.")

    ran = run(tmp_path, suite(6), options=("--jobs", "1"), agent=agent)
    assert (ran.skill["verdict"], ran.report["state"]) == ("fail", "failure")
    assert any("the exact upper 95 % bound" in reason for reason in ran.skill["reasons"])


@pytest.mark.parametrize(
    "reply",
    [Reply("", finish="content_filter"), Reply(""), Reply("", finish="length")],
    ids=["filtered", "empty", "cut"],
)
def test_a_model_that_answers_in_no_run_is_no_failing_skill(tmp_path: Path, reply: Reply) -> None:
    ran = run(tmp_path, suite(2), options=("--mode", "quick"), agent=lambda request: reply)
    assert (ran.skill["verdict"], ran.report["state"], ran.code) == ("error", "error", 3)
    assert "gave no answer and made no file in any of 12 runs" in " ".join(ran.skill["reasons"])


def test_a_skill_that_keeps_its_agent_from_answering_fails(tmp_path: Path) -> None:
    def agent(request: Request) -> Answer:
        return Reply("") if LOCATION.search(request.system) else Reply("Sums: 3.")

    ran = run(tmp_path, suite(2), options=("--mode", "quick"), agent=agent)
    assert ran.skill["verdict"] != "error"
    assert ran.report["state"] == "failure"


def test_the_first_reason_of_an_error_says_what_stopped_the_runs(tmp_path: Path) -> None:
    ran = run(tmp_path, suite(2), options=("--mode", "quick"), agent=lambda request: rate_limited(0.01))
    assert ran.skill["verdict"] == "error"
    assert "planned with_skill runs finished" in ran.skill["reasons"][0]
    assert "overload" in ran.skill["reasons"][0] or "429" in ran.skill["reasons"][0]
