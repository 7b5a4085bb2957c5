"""What Layer 1 makes of a suite, through the command line: trigger queries, optional arms, modes and turns of a case."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

from gate.domain.evidence import RunRecord
from gate.evidence.bundle import load_run
from tests.in_process import Ran, gate
from tests.scripted.demo import LOCATION
from tests.scripted.faults import Answer
from tests.scripted.generic import reader
from tests.scripted.judges import grader
from tests.scripted.values import Reply, Request, ToolCall

PATH = "skills/sums/SKILL.md"
SUITE = "skills/sums/evals/skill-gate.yaml"
DESCRIPTION = "Adds numbers of a table. Use when somebody asks for a sum."
BODY = "# Sums\n\nRead every number of the table aloud, and then add {word} from the left to the right.\n"
SKILL = f"---\nname: sums\ndescription: {DESCRIPTION}\n---\n{BODY}"
CASE: dict[str, Any] = {
    "id": "one",
    "prompt": "What is 1 and 2?",
    "type": "edge_case",
    "checks": [{"kind": "response_contains", "keyword": "About"}],
}
QUERIES = [
    *({"query": f"Please sum up table {number}", "should_trigger": True} for number in range(4)),
    {"query": "Which numbers of the table are prime?", "should_trigger": False},
    {"query": "Write a poem", "should_trigger": False},
]


def suite(*cases: dict[str, Any], triggers: list[dict[str, Any]] | None = None) -> str:
    return json.dumps({"version": 1, "cases": list(cases), **({"triggers": triggers} if triggers else {})})


def run(folder: Path, evals: str, *options: str, agent: Any = reader, policy: str = "", **more: str) -> Ran:
    main = {
        PATH: SKILL.format(word="them"),
        SUITE: evals,
        **({".github/skill-gate.yml": policy} if policy else {}),
        **more,
    }
    return gate(folder, main, {PATH: SKILL.format(word="all of them")}, options=options, steps={"agent": agent})


def task_of(request: Request) -> str:
    return next(message.text for message in request.messages if message.role == "user")


def records(ran: Ran, case: str, arm: str) -> list[RunRecord]:
    folders = sorted(ran.bundle.glob(f"skills/*/eval-{case}/run-*/{arm}"))
    return [load_run(ran.bundle, str(folder.relative_to(ran.bundle))) for folder in folders]


class Opener:
    """Opens the skill for tasks that match; answers every other one at once."""

    def __init__(self, pattern: str) -> None:
        self._pattern = re.compile(pattern)
        self.calls: dict[str, int] = {}

    def __call__(self, request: Request) -> Answer:
        task = task_of(request)
        self.calls[task] = self.calls.get(task, 0) + 1
        return reader(request) if self._pattern.search(task) else Reply(f"About: {task}")


def test_trigger_queries_are_run_with_one_call_each_and_their_rates_are_shown_with_counts(tmp_path: Path) -> None:
    agent = Opener("sum|What")
    ran = run(tmp_path, suite(CASE, triggers=QUERIES), agent=agent)
    found = ran.skill["triggers"]
    assert (found["recall"], found["precision"]) == ({"passed": 4, "total": 4}, {"passed": 4, "total": 4})
    assert (found["left_alone"], found["near_misses"]) == ({"passed": 2, "total": 2}, {"passed": 1, "total": 1})
    assert "trigger queries: recall 4/4, precision 4/4, 1 of 1 near misses left alone" in ran.comment
    assert {task: count for task, count in agent.calls.items() if task != CASE["prompt"]} == {
        query["query"]: 1 for query in QUERIES
    }
    assert ran.skill["authoritative"] == {"passed": 1, "total": 1}, "a query is no case of work"
    assert ran.skill["verdict"] == "pass"


def test_a_skill_that_agents_do_not_open_when_they_should_is_conditional_and_says_for_which_queries(
    tmp_path: Path,
) -> None:
    ran = run(tmp_path, suite(CASE, triggers=QUERIES), agent=Opener("table [01]|What|poem"))
    found = ran.skill["triggers"]
    assert (found["recall"], found["precision"]) == ({"passed": 2, "total": 4}, {"passed": 2, "total": 3})
    assert (found["false_alarms"], len(found["missed"])) == (["Write a poem"], 2)
    assert ran.skill["verdict"] == "conditional"
    reasons = " ".join(ran.skill["reasons"])
    assert "not opened when it should be: recall 2/4, under 0.80" in reasons
    assert 'precision 2/3, under 0.80; opened for: "Write a poem"' in reasons


def test_a_query_that_fails_is_asked_again_and_counts_once(tmp_path: Path) -> None:
    ran = run(tmp_path, suite(CASE, triggers=QUERIES), agent=Opener("table [012]|What"))
    missed = [path for path in ran.bundle.glob("skills/*/eval-trigger-*") if len(list(path.glob("run-*"))) > 1]
    assert len(missed) == 1
    assert ran.skill["triggers"]["recall"] == {"passed": 3, "total": 4}


def test_nothing_that_opens_anywhere_is_a_failure_of_the_harness_and_no_recall_of_zero(tmp_path: Path) -> None:
    ran = run(tmp_path, suite(CASE, triggers=QUERIES), agent=Opener("never"))
    found = ran.skill["triggers"]
    assert "no figure of the skill" in found["harness_failure"]
    assert {found[name]["total"] for name in ("recall", "precision", "left_alone", "near_misses")} == {0}
    assert (ran.skill["verdict"], ran.skill["not_measured_cause"]) == ("not_measured", "not_opened")


def test_trigger_queries_alone_are_measured_and_never_a_pass(tmp_path: Path) -> None:
    ran = run(tmp_path, suite(triggers=QUERIES), agent=Opener("sum"))
    assert ran.skill["verdict"] == "conditional"
    assert any("no case says what the skill does once it is opened" in reason for reason in ran.skill["reasons"])
    assert ran.skill["triggers"]["recall"] == {"passed": 4, "total": 4}
    shut = run(tmp_path / "shut", suite(triggers=QUERIES), agent=Opener("never"))
    assert (shut.skill["verdict"], shut.skill["not_measured_cause"]) == ("not_measured", "not_opened")


def test_a_trigger_query_that_head_takes_away_needs_a_waiver_and_with_it_is_still_asked(tmp_path: Path) -> None:
    main = {PATH: SKILL.format(word="them"), SUITE: suite(CASE, triggers=QUERIES)}
    change = {PATH: SKILL.format(word="all"), SUITE: suite(CASE, triggers=QUERIES[1:])}
    ran = gate(tmp_path / "one", main, change, steps={"agent": Opener("table [123]|What")})
    assert ran.skill["verdict"] == "invalid"
    assert any('trigger query "Please sum up table 0" is removed' in reason for reason in ran.skill["reasons"])
    waiver = (
        "waivers: [{skill: skills/sums, rule: suite-removal, owner: ana, expires: 2099-01-01, reason: asked for}]\n"
    )
    main[".github/skill-gate.yml"] = waiver
    ran = gate(tmp_path / "two", main, change, steps={"agent": Opener("table [123]|What")})
    assert ran.skill["triggers"]["missed"] == ["Please sum up table 0"]


def test_a_description_that_no_longer_triggers_is_compared_with_the_base_version(tmp_path: Path) -> None:
    def agent(request: Request) -> Answer:
        return reader(request) if "asks for a sum" in request.system or "What" in task_of(request) else Reply("no")

    main = {PATH: SKILL.format(word="them"), SUITE: suite(CASE, triggers=QUERIES[:1])}
    change = {PATH: SKILL.format(word="them").replace(DESCRIPTION, "Helps with tables.")}
    ran = gate(tmp_path, main, change, steps={"agent": agent})
    assert ran.skill["verdict"] == "fail"
    assert any("passed in all 4 base_skill runs" in reason for reason in ran.skill["reasons"])


@pytest.mark.requirements("R16")
def test_optional_arms_run_in_mode_full_where_the_policy_asks_and_no_verdict_rests_on_them(tmp_path: Path) -> None:
    seen: list[str] = []

    def agent(request: Request) -> Answer:
        task = task_of(request)
        if "Write one skill for tasks of this family" in task:
            seen.append(task)
            if not any(message.tool_results for message in request.messages):
                text = "---\nname: my-sums\ndescription: My own way to add.\n---\n# Mine\n\nCount on fingers, one by one.\n"
                return Reply.calling("write_file", {"path": "skill/SKILL.md", "content": text})
            return Reply("It teaches sums.")
        return reader(request)

    evals = suite(
        {**CASE, "checks": [{"kind": "response_contains", "keyword": "the part Sums"}], "expected_output": "SECRET 3"}
    )
    ran = run(tmp_path, evals, "--mode", "full", agent=agent, policy="self_generated: true\nplacebo: true\n")
    arms = {arm["arm"]: arm for arm in ran.skill["arms"]}
    assert {name: (arm["finished"], arm["activated"]) for name, arm in arms.items()} == {
        "with_skill": (3, 3),
        "without_skill": (3, 0),
        "base_skill": (3, 3),
        "self_generated": (3, 3),
        "placebo": (3, 3),
    }
    assert [arms[name]["assertions"]["passed"] for name in ("with_skill", "self_generated", "placebo")] == [3, 0, 0]
    assert len(seen) == 2
    assert CASE["prompt"] in seen[0]
    assert "SECRET" not in seen[0]
    assert "keyword" not in seen[0]
    assert ran.skill["verdict"] == "pass"
    own = records(ran, "one", "self_generated")[0]
    assert own.contaminated is None
    assert "without" in ran.comment


def test_optional_arms_do_not_run_in_other_modes_or_without_the_policy(tmp_path: Path) -> None:
    ran = run(tmp_path, suite(CASE), policy="self_generated: true\nplacebo: true\n")
    assert {arm["arm"] for arm in ran.skill["arms"]} == {"with_skill", "without_skill", "base_skill"}


def test_a_model_that_writes_no_skill_of_its_own_leaves_the_arm_out_and_the_verdict_alone(tmp_path: Path) -> None:
    ran = run(tmp_path, suite(CASE), "--mode", "full", policy="self_generated: true\n")
    arms = {arm["arm"]: arm for arm in ran.skill["arms"]}
    assert (arms["self_generated"]["planned"], arms["self_generated"]["finished"]) == (3, 0)
    assert any("no self_generated runs: the model gave no skill of its own" in note for note in ran.report["notes"])
    assert ran.skill["verdict"] == "pass"


def test_a_loaded_skill_is_in_the_prompt_and_says_nothing_about_activation(tmp_path: Path) -> None:
    prompts: list[str] = []

    def agent(request: Request) -> Answer:
        prompts.append(request.system)
        return Reply(f"About: {task_of(request)}")

    ran = run(tmp_path, suite({**CASE, "mode": "loaded"}), agent=agent)
    with_runs = records(ran, "one", "with_skill")
    assert {(run.metrics.exposure, run.metrics.activated, run.metrics.opened_at_step) for run in with_runs} == {
        ("loaded", True, None)
    }
    assert any("every case loads it" in line for line in ran.skill["not_tested"])
    assert sum("Read every number of the table aloud" in prompt for prompt in prompts) == 3
    assert not any("Read every number" in prompt for prompt in prompts if "No skill is installed" in prompt)
    assert ran.skill["verdict"] == "pass"


def test_a_case_of_several_turns_goes_on_after_each_answer_and_the_last_one_is_judged(tmp_path: Path) -> None:
    def agent(request: Request) -> Answer:
        said = [message.text for message in request.messages if message.role == "user"]
        if LOCATION.search(request.system) and not any(m.tool_results for m in request.messages):
            return reader(request)
        return Reply(f"About turn {len(said)}: {said[-1]}")

    asked: list[str] = []

    def judge(request: Request) -> Answer:
        asked.append(request.messages[0].text)
        return grader(request)

    checks = [{"kind": "response_contains", "keyword": "About turn 3: And 5?"}]
    case = {**CASE, "checks": checks, "turns": ["And 4?", "And 5?"], "expectations": ['The answer holds "turn 3".']}
    main = {PATH: SKILL.format(word="them"), SUITE: suite(case)}
    ran = gate(tmp_path, main, {PATH: SKILL.format(word="all")}, steps={"agent": agent, "judge": judge})
    assert asked
    assert all("[then, after an answer, turn 3] And 5?" in text and "About turn 2: And 4?" in text for text in asked)
    assert ran.skill["authoritative"] == {"passed": 1, "total": 1}
    folder = next(ran.bundle.glob("skills/*/eval-one/run-1/with_skill"))
    transcript = (folder / "outputs/transcript.md").read_text("utf-8")
    assert "About turn 2: And 4?" in transcript
    assert (folder / "outputs/response.md").read_text("utf-8") == "About turn 3: And 5?"
    events = [json.loads(line) for line in (folder / "events.jsonl").read_text("utf-8").splitlines()]
    assert [event["data"]["text"] for event in events if event["kind"] == "user_turn"] == ["And 4?", "And 5?"]


def test_what_is_disclosed_of_a_skill_is_measured_step_by_step(tmp_path: Path) -> None:
    def agent(request: Request) -> Answer:
        location = LOCATION.search(request.system)
        if not location:
            return Reply("About it")
        folder = location[1].rsplit("/", 1)[0]
        commands = ["echo", f"cat {location[1]}", f"cat {folder}/scripts/add.py", f"python3 {folder}/scripts/add.py"]
        done = sum(message.role == "assistant" for message in request.messages)
        if done < len(commands):
            return Reply.calling("bash", {"command": commands[done]})
        return Reply("About it")

    from tests.unit.execution.world import shell

    main = {PATH: SKILL.format(word="them"), SUITE: suite(CASE), "skills/sums/scripts/add.py": "print('added up')\n"}
    ran = gate(
        tmp_path,
        main,
        {PATH: SKILL.format(word="all")},
        steps={"agent": agent},
        program=shell({"python3 /skills/sums/scripts/add.py": "added up\n", "echo": "\n"}),
    )
    metrics = records(ran, "one", "with_skill")[0].metrics
    assert (metrics.exposure, metrics.opened_at_step) == ("offered", 2)
    assert metrics.opened == ("SKILL.md", "scripts/add.py")
    assert metrics.scripts_run == ("scripts/add.py",)
    assert records(ran, "one", "without_skill")[0].metrics.exposure == "none"


CLOCK_FIELDS = ("at_ms", "hash", "prev")
"""Of an event: the time, and the chain that the time goes into."""


@pytest.mark.requirements("R8", "R26")
def test_the_same_case_twice_gives_byte_identical_transcripts_apart_from_the_declared_clock_fields(
    tmp_path: Path,
) -> None:
    def agent(request: Request) -> Answer:
        done = sum(message.role == "assistant" for message in request.messages)
        if done == 0:
            return reader(request)
        if done == 1:
            calls: tuple[tuple[str, dict[str, str]], ...] = (
                ("bash", {"command": "ls"}),
                ("list_files", {}),
                ("write_file", {"path": "a.txt", "content": "é"}),
            )
            return Reply("Three at once.", tuple(ToolCall(name, arguments) for name, arguments in calls))
        return Reply(f"About: {task_of(request)}")

    evals = suite(CASE, triggers=QUERIES[:2])
    ones, others = (run(tmp_path / name, evals, agent=agent) for name in ("one", "two"))

    def files(ran: Ran, pattern: str) -> dict[str, bytes]:
        return {str(path.relative_to(ran.bundle)): path.read_bytes() for path in ran.bundle.glob(pattern)}

    transcripts = files(ones, "skills/*/*/*/*/outputs/*")
    assert len(transcripts) >= 8
    assert transcripts == files(others, "skills/*/*/*/*/outputs/*")
    # The scripted server has another port each time, which is in the model's name.
    logs = [
        {
            name: re.sub(rb"127\.0\.0\.1:\d+", b"SERVER", data)
            for name, data in files(ran, "skills/*/*/*/*/events.jsonl").items()
        }
        for ran in (ones, others)
    ]
    assert logs[0].keys() == logs[1].keys()
    for name, log in logs[0].items():
        plain = [
            [
                {key: value for key, value in json.loads(line).items() if key not in CLOCK_FIELDS}
                for line in data.splitlines()
            ]
            for data in (log, logs[1][name])
        ]
        assert plain[0] == plain[1], name
    assert any(b"Step 2: write_file" in text for text in transcripts.values()), "parallel calls are in the record"
