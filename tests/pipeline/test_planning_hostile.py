"""Changes that would take cases, queries or the skill itself out of the way of the gate, through the whole command."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from gate.decision import availability
from gate.domain.suite import TriggerCase
from gate.pipeline.runs import run_and_judge
from gate.planning import plan
from gate.planning.triggers import MOST_QUERIES, digest_of_query
from tests.in_process import Ran, gate
from tests.scripted.faults import Answer
from tests.scripted.generic import reader
from tests.scripted.values import Reply, Request

FILE, SUITE = "skills/sums/SKILL.md", "skills/sums/evals/skill-gate.yaml"
OWN_TOOLS = "allowed-tools: mcp__x__y\n"
SILENT = "disable-model-invocation: true\n"


def skill(head: str = "Sums", word: str = "up", more: str = "") -> str:
    return f"---\nname: sums\ndescription: Adds numbers. Use when somebody asks for a sum.\n{more}---\n# {head}\n\nAdd {word}.\n"


def case(name: str, **more: Any) -> dict[str, Any]:
    check = {"id": "named", "kind": "response_contains", "keyword": "the part Sums"}
    return {"id": name, "type": "edge_case", "prompt": f"What is {name} and 2?", "checks": [check], **more}


def suite(*cases: dict[str, Any], **more: Any) -> str:
    return json.dumps({"version": 1, "cases": list(cases), **more})


OLD = [case(f"c{number}") for number in range(3)]
MAIN = {FILE: skill(), SUITE: suite(*OLD)}
SERVER = {"name": "x", "tools": [{"name": "y"}]}
EASY = case("easy", checks=[{"kind": "response_contains", "keyword": "About"}], mcp_servers=[SERVER])


def cases_of(ran: Ran) -> dict[str, Any]:
    """eval_id -> the case as plan.json has it."""
    plan_json = json.loads((ran.bundle / "plan.json").read_text(encoding="utf-8"))
    return {item["eval_id"]: item for item in plan_json["skills"][0]["cases"]}


def rules(ran: Ran) -> set[str]:
    return {finding["rule"] for finding in ran.skill["findings"]}


def test_a_tool_that_head_allows_itself_blocks_none_of_the_cases_that_would_fail(tmp_path: Path) -> None:
    ran = gate(tmp_path, MAIN, {FILE: skill("Nothing", more=OWN_TOOLS), SUITE: suite(*OLD, EASY)})
    assert (ran.skill["verdict"], ran.report["state"]) == ("fail", "failure")


def test_a_new_tool_with_a_case_of_its_own_leaves_the_others_running_without_it(tmp_path: Path) -> None:
    ran = gate(tmp_path, MAIN, {FILE: skill(word="them", more=OWN_TOOLS), SUITE: suite(*OLD, EASY)})
    assert ran.skill["verdict"] == "pass", ran.skill["reasons"]
    [said] = [item for item in ran.skill["findings"] if item["rule"] == "plan/server-not-brought"]
    assert "3 of 4 cases do not bring (c0, c1, c2)" in said["message"]


def test_a_tool_that_head_allows_itself_and_merged_first_blocks_nothing_in_the_next_change(tmp_path: Path) -> None:
    main = {FILE: skill(more=OWN_TOOLS), SUITE: suite(*OLD, EASY)}
    ran = gate(tmp_path, main, {FILE: skill("Nothing", more=OWN_TOOLS)})
    assert (ran.skill["verdict"], ran.report["state"]) == ("fail", "failure")


def test_a_server_that_head_takes_out_of_the_suite_is_a_failure_where_it_leaves_cases_blocked(tmp_path: Path) -> None:
    main = {FILE: skill(more=OWN_TOOLS), SUITE: suite(*OLD, EASY)}
    bare = {key: value for key, value in EASY.items() if key != "mcp_servers"}
    ran = gate(tmp_path, main, {FILE: skill("Nothing", more=OWN_TOOLS), SUITE: suite(*OLD, bare)})
    assert cases_of(ran)["easy@base"]["blocked"] is None  # so that not all are
    assert (ran.skill["verdict"], ran.report["state"]) == ("blocked", "failure")
    assert "4 of 5 cases ran with the base version and cannot run with this one" in ran.skill["reasons"][0]


def test_a_tool_without_any_case_that_brings_its_server_is_a_failure_where_base_could_run(tmp_path: Path) -> None:
    ran = gate(tmp_path, MAIN, {FILE: skill(word="them", more=OWN_TOOLS)})
    assert (ran.skill["verdict"], ran.report["state"]) == ("blocked", "failure")


def test_a_case_whose_own_check_needs_a_server_that_head_takes_away_is_a_failure(tmp_path: Path) -> None:
    check = {"kind": "tool_call_count", "tool": "mcp__x__y", "max": 9}
    named = case("one", checks=[*OLD[0]["checks"], check], mcp_servers=[SERVER])
    bare = {key: value for key, value in named.items() if key != "mcp_servers"}
    ran = gate(
        tmp_path, {FILE: skill(), SUITE: suite(*OLD, named)}, {SUITE: suite(*OLD, bare), FILE: skill(word="them")}
    )
    assert (ran.skill["verdict"], ran.report["state"]) == ("blocked", "failure")
    assert "1 of 5 cases ran with the base version and cannot run with this one (eval one)" in ran.skill["reasons"][0]


def query(words: str) -> dict[str, Any]:
    return {"query": words, "should_trigger": True}


def lucky(old: list[str], count: int) -> list[str]:
    """Queries whose digests are all smaller than those of the old ones."""

    def digest(words: str) -> str:
        return digest_of_query(TriggerCase(id="x", query=words, should_trigger=True))

    low, number = min(map(digest, old)), 0
    found: list[str] = []
    while len(found) < count:
        number += 1
        if digest(f"do sums please {number}") < low:
            found.append(f"do sums please {number}")
    return found


QUERIES = [f"sum up list {number}" for number in range(8)]


def deaf(request: Request) -> Answer:
    """Opens the broken skill for the new queries only."""
    if "BROKEN" in request.system and "sum up list" in str(request.messages):
        return Reply("no idea")
    return reader(request)


def test_queries_of_the_base_are_asked_however_many_head_adds(tmp_path: Path) -> None:
    main = {FILE: skill(), SUITE: suite(*OLD, triggers=[*map(query, QUERIES)])}
    more = [*QUERIES, *lucky(QUERIES, MOST_QUERIES)]
    broken = {FILE: skill().replace("Adds numbers.", "BROKEN."), SUITE: suite(*OLD, triggers=[*map(query, more)])}
    ran = gate(tmp_path, main, broken, steps={"agent": deaf})
    assert ran.report["state"] == "failure", ran.skill["reasons"]
    origins = [item["origin"] for name, item in cases_of(ran).items() if name.startswith("trigger")]
    assert (origins.count("both"), origins.count("head")) == (len(QUERIES), MOST_QUERIES - len(QUERIES))


def test_an_id_that_ends_in_base_does_not_end_the_session(tmp_path: Path) -> None:
    head = suite(case("one", prompt="Say Sums"), case("one@base"))
    ran = gate(tmp_path, {FILE: skill(), SUITE: suite(case("one"))}, {FILE: skill(word="them"), SUITE: head})
    assert ran.skill["verdict"] == "pass"
    assert {name: item["origin"] for name, item in cases_of(ran).items()} == {
        "one": "head",
        "one@base": "head",
        "one@base~2": "base",
    }


def test_two_ids_that_make_one_folder_name_are_two_cases(tmp_path: Path) -> None:
    both = suite(case("one"), case("eval-one", prompt="Say Sums"))
    ran = gate(tmp_path, {FILE: skill(), SUITE: both}, {FILE: skill(word="them")})
    assert (ran.skill["verdict"], sorted(cases_of(ran))) == ("pass", ["eval-one~2", "one"])


def test_a_run_that_has_no_place_of_its_own_costs_its_skill_a_verdict_and_not_the_session(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def twice(session: Any, requests: Any) -> None:
        run_and_judge(session, [*requests, requests[0]])

    monkeypatch.setattr("gate.pipeline.measuring.run_and_judge", twice)
    ran = gate(tmp_path, MAIN, {FILE: skill(word="them")})
    assert (ran.skill["verdict"], ran.report["state"]) == ("error", "error")
    assert "two runs would be kept as" in ran.skill["reasons"][0]


def test_a_skill_that_models_may_no_longer_open_fails(tmp_path: Path) -> None:
    ran = gate(tmp_path, MAIN, {FILE: skill(word="them", more=SILENT)})
    assert (ran.skill["verdict"], availability.NOT_OFFERED in rules(ran)) == ("fail", True)
    assert "models can no longer open the skill" in ran.skill["reasons"][0]


def test_a_skill_that_codex_may_no_longer_open_fails(tmp_path: Path) -> None:
    quiet = {"skills/sums/agents/openai.yaml": "policy:\n  allow_implicit_invocation: false\n"}
    assert gate(tmp_path, MAIN, {FILE: skill(word="them"), **quiet}).skill["verdict"] == "fail"


def test_a_waiver_accepts_that_a_skill_is_for_users_only_and_it_is_still_no_pass(tmp_path: Path) -> None:
    waiver = {
        "skill": "skills/sums",
        "rule": availability.NOT_OFFERED,
        "owner": "me",
        "expires": "2999-01-01",
        "reason": "r",
    }
    policy = {".github/skill-gate.yml": json.dumps({"waivers": [waiver]})}
    ran = gate(tmp_path, {**MAIN, **policy}, {FILE: skill(word="them", more=SILENT)})
    assert ran.skill["verdict"] == "conditional", ran.skill["reasons"]


def test_a_new_skill_that_models_may_not_open_is_no_pass(tmp_path: Path) -> None:
    ran = gate(tmp_path, {"README.md": "words"}, {FILE: skill(more=SILENT), SUITE: MAIN[SUITE]})
    assert ran.skill["verdict"] == "conditional"


def test_a_skill_that_models_never_could_open_is_judged_by_its_cases(tmp_path: Path) -> None:
    main = {FILE: skill(more=SILENT), SUITE: MAIN[SUITE]}
    ran = gate(tmp_path, main, {FILE: skill(word="them", more=SILENT)})
    assert (ran.skill["verdict"], availability.NOT_OFFERED in rules(ran)) == ("pass", True)


def test_cases_that_begin_with_a_users_own_call_need_no_offer(tmp_path: Path) -> None:
    loaded = suite(*({**item, "mode": "loaded"} for item in OLD))
    ran = gate(tmp_path, {FILE: skill(), SUITE: loaded}, {FILE: skill(word="them", more=SILENT)})
    assert (ran.skill["verdict"], rules(ran) & {availability.NOT_OFFERED}) == ("pass", set())


def test_planning_and_decision_mean_the_same_rule() -> None:
    assert plan.NOT_OFFERED == availability.NOT_OFFERED
