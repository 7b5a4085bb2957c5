from __future__ import annotations

import json
import threading
import time
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gate.domain.chat import ChatRequest
from gate.domain.evidence import Outcome
from gate.domain.plan import Arm, RunRequest
from gate.domain.seeding import SessionSeed
from gate.domain.suite import FixtureFile, McpResponse, McpServer, McpTool
from gate.errors import BoxDeadError, Cancelled, EvidenceError, ModelError, SandboxError
from gate.evidence.bundle import load_events, load_run
from gate.evidence.redact import Redactor
from gate.evidence.seal import check_folder
from gate.evidence.transcript import parse_transcript
from gate.execution.arms import SURVEY_COMMAND
from gate.execution.runner import execute, start_order
from gate.llm.roles import Models
from gate.settings import Caps
from tests.builders_skill import a_case, a_skill
from tests.fakes.chat import ScriptedChat, say, use
from tests.fakes.sandbox import SENTINEL, Command, Ran, ScriptedBox, ScriptedSandbox
from tests.unit.execution.world import Lines, a_ledger, a_request, answering, run_all, shell, sums_skill

ARMS = (Arm.WITH_SKILL, Arm.WITHOUT_SKILL, Arm.BASE_SKILL)
READ_SKILL = use("read_file", {"path": "/skills/sums/SKILL.md"})
OVERLOADED = ModelError("The model is overloaded.", kind="overload", retryable=True, remedy="Try again later.")


def _events(folder: Path, request: RunRequest) -> list[dict[str, Any]]:
    lines = (folder / request.key.folder / "events.jsonl").read_text().splitlines()
    return [json.loads(line) for line in lines]


def _of(folder: Path, request: RunRequest, kind: str) -> dict[str, Any]:
    found = [event["data"] for event in _events(folder, request) if event["kind"] == kind]
    assert len(found) == 1, kind
    return dict(found[0])


@pytest.mark.requirements("R8", "R17")
def test_a_run_leaves_a_sealed_folder_with_everything_that_later_layers_read(tmp_path: Path) -> None:
    chat = ScriptedChat([READ_SKILL, use("write_file", {"path": "out/sum.txt", "content": "3"}), "The sum is 3."])
    request = a_request()
    [record] = run_all([request], chat, tmp_path)
    folder = tmp_path / request.key.folder
    assert sorted(path.relative_to(folder).as_posix() for path in folder.rglob("*") if path.is_file()) == [
        "events.jsonl", "metrics.json", "outputs/response.md", "outputs/transcript.md", "run.json", "seal.json",
        "timing.json", "workspace/out/sum.txt",
    ]  # fmt: skip
    assert check_folder(folder) == []
    assert load_run(tmp_path, request.key.folder) == record
    assert (folder / "outputs/response.md").read_text() == "The sum is 3."
    assert record.completed
    assert record.metrics.activated
    assert record.metrics.tool_calls == {"read_file": 1, "write_file": 1}
    assert (record.metrics.total_tool_calls, record.metrics.total_steps, record.metrics.errors_encountered) == (2, 3, 0)
    assert record.metrics.files_created == ("out/sum.txt",)
    assert record.metrics.total_tokens == 330
    assert record.metrics.cost_usd == pytest.approx(0.003)
    assert record.metrics.transcript_chars == len((folder / "outputs/transcript.md").read_text())
    assert record.fallbacks == ()
    assert record.model == "scripted-1"


@pytest.mark.requirements("R223", "R22")
def test_the_record_says_what_was_seen_inside_each_arm(tmp_path: Path) -> None:
    requests = [a_request(arm) for arm in ARMS]
    run_all(requests, answering(), tmp_path)
    seen = {request.key.arm: _of(tmp_path, request, "arm_checked") for request in requests}
    assert {arm: facts["skills_seen"] for arm, facts in seen.items()} == {
        Arm.WITH_SKILL: 1, Arm.WITHOUT_SKILL: 0, Arm.BASE_SKILL: 1,
    }  # fmt: skip
    assert seen[Arm.WITH_SKILL]["skill_md_sha256"] == sums_skill().files[0].sha256
    assert seen[Arm.WITHOUT_SKILL]["skill_md_sha256"] is None
    assert {facts["network"] for facts in seen.values()} == {"none"}
    started = _of(tmp_path, requests[0], "run_started")
    assert started["skill_tree"] == sums_skill().tree_sha256
    assert started["run_date"] == "2026-01-31"
    assert started["model"] == "scripted:scripted-1"


@pytest.mark.requirements("R16", "R22")
def test_a_baseline_gets_the_ban_in_words_and_not_a_byte_of_the_skill(tmp_path: Path) -> None:
    sandbox = ScriptedSandbox(shell())
    request = a_request(Arm.WITHOUT_SKILL, case=a_case(files=(FixtureFile(path="data.csv", data=b"1,2"),)))
    run_all([request], answering(), tmp_path, sandbox=sandbox)
    assert sorted(sandbox.boxes[0].files) == [SENTINEL, "/work/data.csv"]
    everything = "".join(
        path.read_text()
        for path in (tmp_path / request.key.folder).rglob("*")
        if path.is_file() and path.name != "seal.json"
    )
    assert "You must not look for skills" in everything
    for trace in ("Read every number aloud", "Adds numbers", "references/units.md"):
        assert trace not in everything


@pytest.mark.requirements("R20", "R21")
def test_records_come_in_the_order_of_the_requests_whatever_order_they_ended_in(tmp_path: Path) -> None:
    requests = [a_request(arm, case=a_case(name), run=run) for name in ("one", "two") for run in (1, 2) for arm in ARMS]
    records = run_all(requests, answering(), tmp_path, jobs=4)
    assert [record.key for record in records] == [request.key for request in requests]


def test_nothing_to_run_needs_no_model(tmp_path: Path) -> None:
    def no_model(role: object) -> Any:
        raise AssertionError("asked for a model")

    records = execute(
        [],
        session_id="s",
        run_date="2026-01-31",
        image="i",
        jobs=2,
        sandbox=ScriptedSandbox(),
        models=Models(no_model),
        ledger=a_ledger(),
        bundle=Any,  # type: ignore[arg-type] # never touched
        redactor=Redactor({}),
        seed=SessionSeed("5" * 64),
        clock=Any,  # type: ignore[arg-type] # never touched
        progress=Lines(),
        cancelled=threading.Event(),
    )
    assert records == []


@given(st.integers(0, 2**64), st.integers(1, 4), st.integers(1, 3))
def test_arms_of_a_pair_start_one_after_the_other_and_pairs_in_their_order(number: int, cases: int, runs: int) -> None:
    requests = [
        a_request(arm, case=a_case(f"c{case}"), run=run)
        for case in range(cases)
        for run in range(1, runs + 1)
        for arm in ARMS
    ]
    order = start_order(requests, SessionSeed(f"{number:064x}"))
    assert sorted(order) == list(range(len(requests)))
    starts = [order[at : at + 3] for at in range(0, len(order), 3)]
    assert [sorted(start) for start in starts] == [list(range(at, at + 3)) for at in range(0, len(order), 3)]


def test_the_order_of_arms_is_drawn_from_the_seed_for_each_pair() -> None:
    requests = [a_request(arm, run=run) for run in range(1, 30) for arm in ARMS]
    orders = [start_order(requests, SessionSeed(digit * 64)) for digit in "112"]
    assert orders[0] == orders[1]
    assert orders[0] != orders[2]
    first = {requests[index].key.arm for index in orders[0][::3]}
    assert first == set(ARMS)


def test_no_more_sandboxes_are_open_than_jobs(tmp_path: Path) -> None:
    lock = threading.Lock()
    open_now, most = 0, 0
    full = threading.Barrier(3, timeout=30)

    def model(request: ChatRequest) -> str:
        nonlocal open_now, most
        with lock:
            open_now += 1
            most = max(most, open_now)
        full.wait()  # passes only where three runs are under way at the same time
        with lock:
            open_now -= 1
        return "3"

    run_all([a_request(run=run) for run in range(1, 7)], ScriptedChat(model), tmp_path, jobs=3)
    assert most == 3


def test_the_same_case_twice_gives_the_same_bytes_but_for_the_clock(tmp_path: Path) -> None:
    def model(request: ChatRequest) -> Any:
        turn = int(request.label.rpartition("-")[2])
        return [READ_SKILL, use("bash", {"command": "ls"}), "The sum is 3."][turn - 1]

    texts = []
    for name in ("a", "b"):
        requests = [a_request(arm) for arm in ARMS]
        run_all(requests, ScriptedChat(model), tmp_path / name, jobs=3, sandbox=ScriptedSandbox(shell({"ls": "x\n"})))
        root = tmp_path / name
        files = sorted(path for path in root.rglob("*") if path.is_file())
        texts.append({path.relative_to(root).as_posix(): path.read_bytes() for path in files})
    assert texts[0] == texts[1]


def test_two_runs_of_one_case_have_the_same_transcript_but_for_the_macs_of_their_blocks(tmp_path: Path) -> None:
    requests = [a_request(run=1), a_request(run=2)]
    turns: list[Any] = [READ_SKILL, "The sum is 3."]
    run_all(requests, ScriptedChat(lambda request: turns[int(request.label[-1]) - 1]), tmp_path)
    one, two = ((tmp_path / request.key.folder / "outputs/transcript.md").read_text("utf-8") for request in requests)
    assert one.startswith("# Transcript\n")
    sections = [
        [(part.kind, part.step, {name: text for name, text in part.fields.items() if name != "Mac"}) for part in parts]
        for parts in map(parse_transcript, (one, two))
    ]
    assert len(sections[0]) == 3
    assert sections[0] == sections[1]


@pytest.mark.requirements("R23")
def test_a_baseline_that_was_shown_the_skill_is_void_and_says_why(tmp_path: Path) -> None:
    line = "Read every number aloud before you add it to the others."
    chat = ScriptedChat([use("bash", {"command": "leak"}), "3", use("bash", {"command": "leak"}), "3"])
    request = a_request(Arm.WITHOUT_SKILL)
    [record] = run_all([request], chat, tmp_path, sandbox=ScriptedSandbox(shell({"leak": line})))
    assert record.outcome is Outcome.COMPLETED
    assert record.contaminated == f"the baseline read a line of the skill: {line}"
    assert not record.scored
    assert [(item.kind, item.count) for item in record.fallbacks] == [("run_retried", 1)]


def test_a_contaminated_run_is_made_once_more_in_a_fresh_sandbox_and_the_first_try_stays_known(tmp_path: Path) -> None:
    line = "Read every number aloud before you add it to the others."
    chat = ScriptedChat([use("bash", {"command": "leak"}), "3", "The sum is 3."])
    sandbox = ScriptedSandbox(shell({"leak": line}))
    [record] = run_all([a_request(Arm.WITHOUT_SKILL)], chat, tmp_path, sandbox=sandbox)
    assert (record.contaminated, record.response, len(sandbox.boxes)) == (None, "The sum is 3.", 2)
    [started] = [event for event in load_events(tmp_path, record.key.folder) if event.kind == "run_started"]
    assert started.data["earlier"] == [f"the baseline read a line of the skill: {line}"]


def test_the_skills_in_each_sandbox_are_counted_inside_and_said_for_every_run(tmp_path: Path) -> None:
    progress = Lines()
    records = run_all([a_request(arm) for arm in ARMS], answering(), tmp_path, progress=progress)
    seen = {record.key.arm: record.metrics.skills_seen for record in records}
    assert seen == {Arm.WITH_SKILL: 1, Arm.WITHOUT_SKILL: 0, Arm.BASE_SKILL: 1}
    assert {words.rpartition(", ")[2] for _, words in progress.done} == {
        "1 skill in its sandbox", "0 skills in its sandbox",
    }  # fmt: skip


def test_the_skill_of_the_other_arm_is_known_from_its_request_too(tmp_path: Path) -> None:
    line = "Read every number aloud before you add it to the others."

    def model(request: ChatRequest) -> Any:
        return use("bash", {"command": "leak"}) if request.label.endswith("turn-1") else "3"

    requests = [a_request(arm).model_copy(update={"subjects": ()}) for arm in (Arm.WITH_SKILL, Arm.WITHOUT_SKILL)]
    records = run_all(requests, ScriptedChat(model), tmp_path, sandbox=ScriptedSandbox(shell({"leak": line})))
    assert [bool(record.contaminated) for record in records] == [False, True]


def test_a_baseline_that_could_not_be_searched_for_the_skill_is_counted(tmp_path: Path) -> None:
    request = a_request(Arm.WITHOUT_SKILL).model_copy(update={"subjects": ()})
    [record] = run_all([request], answering(), tmp_path)
    assert [(item.kind, item.count) for item in record.fallbacks] == [("contamination_unchecked", 1)]


def test_a_fixture_that_was_stripped_is_counted_and_named_in_every_arm(tmp_path: Path) -> None:
    case = a_case(files=(FixtureFile(path=".claude/skills/sums/SKILL.md", data=b"x"), FixtureFile(path="a", data=b"")))
    requests = [a_request(arm, case=case) for arm in (Arm.WITH_SKILL, Arm.WITHOUT_SKILL)]
    for request, record in zip(requests, run_all(requests, answering(), tmp_path), strict=True):
        assert [(item.kind, item.count) for item in record.fallbacks] == [("fixture_stripped", 1)]
        [reason] = _of(tmp_path, request, "run_started")["stripped"]
        assert reason.startswith(".claude/skills/sums/SKILL.md: ")
        assert [(file.path, file.fixture) for file in record.files] == [("a", "unchanged")]


@pytest.mark.requirements("R225")
def test_a_run_that_infrastructure_stopped_is_tried_again_in_a_fresh_sandbox(tmp_path: Path) -> None:
    chat = ScriptedChat([READ_SKILL, OVERLOADED, READ_SKILL, "The sum is 3."])
    sandbox = ScriptedSandbox(shell())
    request = a_request()
    [record] = run_all([request], chat, tmp_path, sandbox=sandbox)
    assert record.completed
    assert record.reason == ""
    assert [(item.kind, item.count) for item in record.fallbacks] == [("run_retried", 1)]
    assert len(sandbox.boxes) == 2
    assert _of(tmp_path, request, "run_started")["earlier"] == ["The model is overloaded. Try again later."]
    assert record.metrics.total_tool_calls == 1
    assert [event["seq"] for event in _events(tmp_path, request)] == list(range(len(_events(tmp_path, request))))


@pytest.mark.requirements("R225", "R224")
def test_infrastructure_that_fails_twice_is_recorded_with_both_reasons_and_never_scored(tmp_path: Path) -> None:
    sandbox = ScriptedSandbox(shell())
    sandbox.fail_open = [SandboxError("The engine does not answer.", remedy="Start it.")]
    request, progress = a_request(), Lines()
    [record] = run_all([request], ScriptedChat([OVERLOADED]), tmp_path, sandbox=sandbox, progress=progress)
    assert record.outcome is Outcome.INFRA_ERROR
    assert record.reason == (
        "Try 1: The engine does not answer. Start it. Try 2: The model is overloaded. Try again later."
    )
    assert not record.scored
    assert record.response is None
    assert (record.usage, record.metrics.total_tokens, record.metrics.cost_usd) == (None, None, None)
    assert [(item.kind, item.count) for item in record.fallbacks] == [("run_retried", 1)]
    assert check_folder(tmp_path / request.key.folder) == []
    assert progress.done == [(request.key.label, "infra_error")]


def test_one_reason_in_both_tries_is_said_once(tmp_path: Path) -> None:
    [record] = run_all([a_request()], ScriptedChat([OVERLOADED, OVERLOADED]), tmp_path)
    assert record.reason == "The model is overloaded. Try again later. (in each of 2 tries)"


@pytest.mark.parametrize("kind", ["auth", "not_found", "bad_request", "replay_miss"])
def test_an_error_that_trying_again_cannot_help_is_recorded_at_once(tmp_path: Path, kind: str) -> None:
    chat = ScriptedChat([ModelError("No.", kind=kind, remedy="Set the key.")])
    [record] = run_all([a_request()], chat, tmp_path)
    assert (record.outcome, record.reason) == (Outcome.INFRA_ERROR, "No. Set the key.")
    assert record.fallbacks == ()
    assert len(chat.requests) == 1


@pytest.mark.parametrize("reply", [use("bash", {"command": "ls"}), "The sum is 3."])
def test_an_arm_that_does_not_hold_what_it_must_is_infrastructure_and_nothing_is_run_in_it(
    tmp_path: Path, reply: Any
) -> None:
    class Leaky(ScriptedSandbox):
        def _make(self, spec: Any) -> ScriptedBox:
            box = super()._make(spec)
            box.files["/skills/sums/SKILL.md"] = b"left behind"
            return box

    sandbox = Leaky(shell())
    chat = ScriptedChat(lambda request: reply)
    [record] = run_all([a_request(Arm.WITHOUT_SKILL)], chat, tmp_path, sandbox=sandbox)
    assert record.outcome is Outcome.INFRA_ERROR
    assert "The sandbox holds /skills/sums/SKILL.md, which its arm must not have." in record.reason
    assert [command.argv for box in sandbox.boxes for command in box.calls] == [SURVEY_COMMAND] * 2
    assert len(chat.requests) <= 2, "one answer a try, asked for while the sandbox was looked into"


def _dies(*, agent_caused: bool, oom: bool = False) -> Any:
    def bomb(box: ScriptedBox, command: Command) -> str:
        box.write("half.txt", b"half")
        raise BoxDeadError("The sandbox ended.", agent_caused=agent_caused, oom=oom)

    return bomb


@pytest.mark.parametrize(("oom", "outcome"), [(False, Outcome.SANDBOX_DEAD), (True, Outcome.OOM)])
def test_a_sandbox_that_the_agent_broke_is_scored_and_not_tried_again(
    tmp_path: Path, oom: bool, outcome: Outcome
) -> None:
    sandbox = ScriptedSandbox(shell({"bomb": _dies(agent_caused=True, oom=oom)}))
    [record] = run_all([a_request()], ScriptedChat([use("bash", {"command": "bomb"})]), tmp_path, sandbox=sandbox)
    assert record.outcome is outcome
    assert record.scored
    assert record.invalid is None
    assert record.reason.startswith("The sandbox ended.; its files could not be taken out")
    assert len(sandbox.boxes) == 1
    assert record.metrics.total_tokens == 110


def test_a_sandbox_that_the_engine_lost_is_tried_again(tmp_path: Path) -> None:
    sandbox = ScriptedSandbox(shell({"x": _dies(agent_caused=False)}))
    chat = ScriptedChat([use("bash", {"command": "x"}), "3"])
    [record] = run_all([a_request()], chat, tmp_path, sandbox=sandbox)
    assert record.completed
    assert len(sandbox.boxes) == 2


def test_what_an_agent_left_behind_is_collected_also_where_it_failed(tmp_path: Path) -> None:
    write = use("write_file", {"path": "draft.md", "content": "draft"})
    [record] = run_all([a_request(steps=1)], ScriptedChat([write]), tmp_path)
    assert record.outcome is Outcome.AGENT_FAILED
    assert [(file.path, file.kept) for file in record.files] == [("draft.md", True)]
    assert record.scored


def test_an_answer_whose_files_the_agent_put_out_of_reach_counts_against_it(tmp_path: Path) -> None:
    def spoil(box: ScriptedBox, command: Command) -> str:
        box.files.pop(SENTINEL)
        return ""

    chat = ScriptedChat([use("bash", {"command": "rm"}), "3"])
    [record] = run_all([a_request()], chat, tmp_path, sandbox=ScriptedSandbox(shell({"rm": spoil})))
    assert record.outcome is Outcome.SANDBOX_DEAD
    assert record.reason.startswith("its files could not be taken out: ")
    assert record.scored


def test_an_answer_whose_files_the_engine_lost_is_tried_again(tmp_path: Path) -> None:
    class Forgetful(ScriptedSandbox):
        def _make(self, spec: Any) -> ScriptedBox:
            box = super()._make(spec)
            if not self.boxes:
                box.collect = self._lost  # type: ignore[method-assign]
            return box

        @staticmethod
        def _lost(**_: Any) -> Any:
            raise SandboxError("The engine lost the workspace.")

    [record] = run_all([a_request()], answering(), tmp_path, sandbox=Forgetful(shell()))
    assert record.completed
    assert [item.kind for item in record.fallbacks] == ["run_retried"]


def test_a_sandbox_that_cannot_be_removed_does_not_undo_its_run(tmp_path: Path) -> None:
    import contextlib
    from collections.abc import Iterator

    class Sticky(ScriptedSandbox):
        @contextlib.contextmanager
        def open(self, spec: Any) -> Iterator[ScriptedBox]:
            with super().open(spec) as box:
                yield box
            raise SandboxError("The sandbox could not be removed.")

    progress, request = Lines(), a_request()
    [record] = run_all([request], answering(), tmp_path, sandbox=Sticky(shell()), progress=progress)
    assert record.completed
    assert progress.said == [f"the sandbox of {request.key.label} could not be removed yet"]


def test_files_over_a_cap_are_counted_and_named(tmp_path: Path) -> None:
    def fill(box: ScriptedBox, command: Command) -> str:
        box.write("big.bin", b"x" * 20_000_001)
        box.write("small.txt", b"x")
        box.links["/work/link"] = "/etc/passwd"
        return ""

    request = a_request()
    chat = ScriptedChat([use("bash", {"command": "fill"}), "3"])
    [record] = run_all([request], chat, tmp_path, sandbox=ScriptedSandbox(shell({"fill": fill})))
    assert {file.path: file.kept for file in record.files} == {"big.bin": False, "small.txt": True}
    assert [(item.kind, item.count) for item in record.fallbacks] == [("files_dropped", 1), ("files_refused", 2)]
    collected = _of(tmp_path, request, "collected")
    assert (collected["files"], collected["kept"]) == (2, 1)
    assert any("/etc/passwd" in sentence for sentence in collected["refused"])


def test_fallbacks_of_the_model_are_in_the_record(tmp_path: Path) -> None:
    big = Ran(stdout=b"x" * 400_000)
    chat = ScriptedChat(
        [use("bash", {"command": "big"}), say("3", provider_retries=2, dropped_parameters=("temperature",))]
    )
    [record] = run_all([a_request()], chat, tmp_path, sandbox=ScriptedSandbox(shell({"big": big})))
    assert [(item.kind, item.role, item.count) for item in record.fallbacks] == [
        ("output_truncated", "executor", 1), ("parameter_dropped", "executor", 1), ("provider_retry", "executor", 2),
    ]  # fmt: skip


def test_an_exec_bit_that_the_agent_set_is_in_the_record(tmp_path: Path) -> None:
    def make(box: ScriptedBox, command: Command) -> str:
        box.write("run.sh", b"#!/bin/sh\n")
        box.write("notes.sh", b"#!/bin/sh\n")
        box.executable.add("/work/run.sh")
        return ""

    chat = ScriptedChat([use("bash", {"command": "make"}), "3"])
    [record] = run_all([a_request()], chat, tmp_path, sandbox=ScriptedSandbox(shell({"make": make})))
    assert {file.path: file.executable for file in record.files} == {"run.sh": True, "notes.sh": False}


def test_a_budget_that_is_used_up_leaves_what_was_done_and_what_it_used(tmp_path: Path) -> None:
    ledger = a_ledger(Caps(model_calls_per_skill=2))
    requests = [a_request(run=run) for run in (1, 2)]
    chat = ScriptedChat([READ_SKILL, "3"])
    records = run_all(requests, chat, tmp_path, ledger=ledger, jobs=1)
    assert [record.outcome for record in records] == [Outcome.COMPLETED, Outcome.OVER_BUDGET]
    assert "may make 2" in records[1].reason
    assert records[1].metrics.total_tokens == 0
    assert not records[1].scored


def test_unknown_usage_stays_unknown(tmp_path: Path) -> None:
    [record] = run_all([a_request()], ScriptedChat([say("3", usage=None)]), tmp_path)
    assert record.usage is None
    assert (record.metrics.input_tokens, record.metrics.total_tokens, record.metrics.cost_usd) == (None, None, None)


def test_mcp_state_is_of_one_run(tmp_path: Path) -> None:
    server = McpServer(
        name="t",
        tools=(McpTool(name="take", responses=(McpResponse(times=1, text="ticket 7"), McpResponse(text="none left"))),),
    )
    take = use("mcp__t__take", {})

    def model(request: ChatRequest) -> Any:
        return take if request.label.endswith("turn-1") else "3"

    requests = [a_request(arm, case=a_case(mcp_servers=(server,)), run=run) for run in (1, 2) for arm in ARMS]
    records = run_all(requests, ScriptedChat(model), tmp_path)
    assert [record.calls[0].result for record in records] == ["ticket 7"] * 6


def test_a_gap_in_a_fixture_is_blocked_and_counts_in_neither_direction(tmp_path: Path) -> None:
    case = a_case(mcp_servers=(McpServer(name="t", tools=(McpTool(name="take"),)),))
    [record] = run_all([a_request(case=case)], ScriptedChat([use("mcp__t__take", {})]), tmp_path)
    assert record.outcome is Outcome.BLOCKED
    assert not record.scored


def test_a_secret_is_found_nowhere_in_what_a_run_leaves(tmp_path: Path) -> None:
    secret = "sk-canary-0123456789abcdef"
    chat = ScriptedChat(
        [
            use("bash", {"command": f"echo {secret}"}, text=f"I found {secret}"),
            say(f"The key is {secret}."),
        ]
    )
    sandbox = ScriptedSandbox(shell({f"echo {secret}": f"{secret}\n"}))
    requests = [a_request(), a_request(run=2)]
    replies = iter([*chat._queue, ModelError(f"401 for {secret}", kind="auth", remedy="Look at the key.")])
    redactor = Redactor({"provider-key": secret})
    [record, failed] = run_all(
        requests, ScriptedChat(lambda _: next(replies)), tmp_path, sandbox=sandbox, redactor=redactor, jobs=1
    )
    assert record.response is not None
    assert record.response.startswith("The key is [redacted:provider-key:")
    assert secret not in failed.reason
    for path in tmp_path.rglob("*"):
        if path.is_file():
            assert secret.encode() not in path.read_bytes(), path


def test_a_finished_run_is_never_written_over(tmp_path: Path) -> None:
    run_all([a_request()], answering("first"), tmp_path)
    with pytest.raises(EvidenceError, match="holds a finished run already"):
        run_all([a_request()], answering("second"), tmp_path)
    assert load_run(tmp_path, a_request().key.folder).response == "first"


def test_what_an_interrupted_run_left_is_removed(tmp_path: Path) -> None:
    request = a_request()
    left = tmp_path / request.key.folder / "workspace" / "old.txt"
    left.parent.mkdir(parents=True)
    left.write_text("old")
    [record] = run_all([request], answering(), tmp_path)
    assert record.files == ()
    assert not left.exists()


def _threads() -> set[str]:
    return {thread.name for thread in threading.enumerate() if thread.name.startswith("run")}


def test_a_cancelled_session_stops_what_runs_starts_nothing_and_leaves_no_thread(tmp_path: Path) -> None:
    cancelled = threading.Event()
    started = threading.Event()

    def endless(box: ScriptedBox, command: Command) -> str:
        started.set()
        while box.dead is None:  # until somebody kills it
            time.sleep(0.005)
        raise box.dead

    sandbox = ScriptedSandbox(shell({"endless": endless}))
    chat = ScriptedChat(lambda request: use("bash", {"command": "endless"}))
    requests = [a_request(run=run) for run in range(1, 9)]

    def cancel() -> None:
        started.wait(30)
        cancelled.set()

    canceller = threading.Thread(target=cancel)
    canceller.start()
    progress = Lines()
    with pytest.raises(Cancelled):
        run_all(requests, chat, tmp_path, sandbox=sandbox, cancelled=cancelled, progress=progress, jobs=2)
    canceller.join()
    assert _threads() == set()
    assert sandbox.killed_sessions == {"session-1"}
    assert 1 <= len(sandbox.boxes) <= 2
    assert {outcome for _, outcome in progress.done} == {"cancelled"}
    for request in requests[:1]:
        record = load_run(tmp_path, request.key.folder)
        assert record.outcome is Outcome.CANCELLED
        assert not record.scored
        assert record.fallbacks == ()


def test_a_session_that_was_cancelled_before_it_began_opens_nothing(tmp_path: Path) -> None:
    cancelled = threading.Event()
    cancelled.set()
    sandbox = ScriptedSandbox(shell())
    with pytest.raises(Cancelled):
        run_all([a_request()], answering(), tmp_path, sandbox=sandbox, cancelled=cancelled)
    assert sandbox.boxes == []
    assert list(tmp_path.rglob("*")) == []


def test_a_sandbox_that_died_because_the_gate_killed_it_is_no_failure_of_the_agent(tmp_path: Path) -> None:
    cancelled = threading.Event()

    def killed(box: ScriptedBox, command: Command) -> str:
        cancelled.set()
        raise BoxDeadError("The sandbox has ended with exit code 137.", agent_caused=True)

    request = a_request()
    with pytest.raises(Cancelled):
        run_all(
            [request],
            ScriptedChat([use("bash", {"command": "x"})]),
            tmp_path,
            sandbox=ScriptedSandbox(shell({"x": killed})),
            cancelled=cancelled,
        )
    assert load_run(tmp_path, request.key.folder).outcome is Outcome.CANCELLED


def test_a_fault_of_the_gate_itself_ends_the_session_and_is_raised(tmp_path: Path) -> None:
    def model(request: ChatRequest) -> str:
        if "/run-3/" in request.label:
            raise ZeroDivisionError
        return "3"

    sandbox = ScriptedSandbox(shell())
    with pytest.raises(ZeroDivisionError):
        run_all([a_request(run=run) for run in range(1, 60)], ScriptedChat(model), tmp_path, sandbox=sandbox, jobs=2)
    assert _threads() == set()
    assert len(sandbox.boxes) < 30  # the other worker may have begun a few more before it saw the fault
    assert all(box.closed for box in sandbox.boxes)


def test_an_older_version_of_the_skill_is_what_the_base_arm_gets(tmp_path: Path) -> None:
    base = a_skill(body="# Sums\n\nCount on your fingers until nothing is left.\n")
    sandbox = ScriptedSandbox(shell())
    run_all([a_request(Arm.BASE_SKILL, skill=base)], answering(), tmp_path, sandbox=sandbox)
    assert b"Count on your fingers" in sandbox.boxes[0].files["/skills/sums/SKILL.md"]
