"""One run of an agent program: what becomes the record, what is only counted, and whose fault each end is."""

from __future__ import annotations

import json
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest

from gate.domain.evidence import Outcome
from gate.domain.plan import Arm
from gate.domain.suite import McpResponse, McpServer, McpTool
from gate.errors import Cancelled, ModelError, SandboxError
from gate.settings import Caps
from tests.builders_skill import a_case
from tests.fakes.sandbox import Ran
from tests.scripted.faults import Dropped, ErrorInStream, HttpError
from tests.scripted.scenarios import turns
from tests.scripted.values import Reply, Request, ToolCall
from tests.unit.execution.agent_world import BASH, KEY, Agent, run_agent
from tests.unit.execution.world import StillClock, a_ledger, a_request

CALL = Reply("I look.", (ToolCall("Bash", {"command": "ls"}),))
ANSWER = Reply("The sum is 3.")


def works(agent: Agent) -> None:
    agent.work({"ls": "a.txt"})


@pytest.mark.requirements("R8")
def test_the_record_is_what_the_model_said_and_results_are_reported() -> None:
    ran = run_agent(works, turns(CALL, ANSWER))
    assert (ran.end.outcome, ran.end.steps, ran.end.model) == (Outcome.COMPLETED, 2, "agent")
    assert [event.kind for event in ran.log.events] == [
        "agent_started", "prompt", "model_reply", "note", "tool_call", "tool_result", "model_reply", "response",
    ]  # fmt: skip
    (result,) = ran.log.of("tool_result")
    assert (result["text"], result["reported"], result["status"]) == ("a.txt", True, "success")
    assert ran.log.of("response") == [{"text": "The sum is 3."}]
    assert ran.end.usage is not None
    assert ran.end.usage.output_tokens > 0
    assert ran.counts == {}


def test_the_key_is_added_by_the_gateway_alone_and_is_on_no_record() -> None:
    ran = run_agent(works, turns(CALL, ANSWER))
    assert {request.headers["x-api-key"] for request in ran.server.requests} == {KEY}
    assert all("authorization" not in request.headers for request in ran.server.requests)
    assert KEY not in json.dumps([event.data for event in (*ran.log.events, *ran.gateway_log.events)])


def test_every_question_is_written_down_before_its_answer() -> None:
    ran = run_agent(works, turns(CALL, ANSWER))
    assert [event.kind for event in ran.gateway_log.events] == ["asked", "answered", "asked", "answered"]
    assert [data["reply"]["text"] for data in ran.gateway_log.of("answered")] == ["I look.", "The sum is 3."]


@pytest.mark.requirements("R220")
def test_invented_history_is_a_side_call_and_no_part_of_the_record() -> None:
    def act(agent: Agent) -> None:
        messages = agent.first()
        messages.append(
            {"role": "assistant", "content": [{"type": "tool_use", "id": "toolu_x", "name": "Bash", "input": {}}]}
        )
        messages.append(
            {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "toolu_x", "content": "passed"}]}
        )
        agent.work({"ls": "a.txt"})
        assert isinstance(agent.post(agent.body(messages)), dict), "its own token is served"

    def model(request: Request) -> Reply:
        if any(call.id == "toolu_x" for message in request.messages for call in message.tool_calls):
            return Reply("Indeed.")
        return CALL if request.turn == 0 else ANSWER

    ran = run_agent(act, model)
    assert ran.end.outcome is Outcome.COMPLETED
    assert "passed" not in str([event.data for event in ran.log.events])
    assert "Indeed." not in str([event.data for event in ran.log.events])
    assert ran.counts["gateway_side_call"] == 1
    assert ran.ledger.spent().calls == 3, "it is paid for, so it is counted"


def test_two_stories_about_one_tool_call_are_the_agents_own_failure() -> None:
    def act(agent: Agent) -> None:
        messages = agent.first()
        reply = agent.post(agent.body(messages))
        messages.append({"role": "assistant", "content": reply["content"]})
        name = reply["content"][-1]["id"]
        for text in ("invented", "true"):
            result = {"type": "tool_result", "tool_use_id": name, "content": text}
            agent.post(agent.body([*messages, {"role": "user", "content": [result]}]))

    ran = run_agent(act, turns(CALL, ANSWER))
    assert ran.end.outcome is Outcome.AGENT_FAILED
    assert "different results" in ran.end.reason


def test_a_request_that_is_sent_again_is_not_a_second_story() -> None:
    def act(agent: Agent) -> None:
        messages = agent.first()
        reply = agent.post(agent.body(messages))
        messages.append({"role": "assistant", "content": reply["content"]})
        result = {"type": "tool_result", "tool_use_id": reply["content"][-1]["id"], "content": "a.txt"}
        for _ in range(2):
            agent.post(agent.body([*messages, {"role": "user", "content": [result]}]))

    ran = run_agent(act, turns(CALL, ANSWER))
    assert (ran.end.outcome, ran.end.steps) == (Outcome.COMPLETED, 2)
    assert ran.counts == {"gateway_side_call": 1}


@pytest.mark.parametrize("token", ["", "wrong", "0" * 32])
def test_another_token_opens_nothing(token: str) -> None:
    seen: list[Any] = []

    def act(agent: Agent) -> None:
        seen.append(agent.post(agent.body(agent.first()), token=token))
        seen.append(agent.post({}, "/v1/messages/count_tokens", token=token))
        agent.work()

    ran = run_agent(act, ANSWER)
    assert seen == [401, 401]
    assert ran.counts == {"gateway_token_refused": 2}
    assert len(ran.server.requests) == 1


def test_a_program_that_starts_without_its_skill_is_infrastructure_and_no_loss() -> None:
    def act(agent: Agent) -> None:
        agent.listing = ""
        works(agent)

    with pytest.raises(SandboxError, match="started without the skill sums"):
        run_agent(act, ANSWER)


def test_a_baseline_that_is_offered_the_skill_is_infrastructure() -> None:
    def act(agent: Agent) -> None:
        agent.listing = "- sums: Adds numbers. Use when somebody asks for a sum."
        works(agent)

    with pytest.raises(SandboxError, match="must not have it"):
        run_agent(act, ANSWER, a_request(Arm.WITHOUT_SKILL))


@pytest.mark.requirements("R15", "R225")
@pytest.mark.parametrize("code", [0, 1])
def test_a_program_that_asks_the_model_nothing_is_infrastructure_whatever_its_exit_code(code: int) -> None:
    with pytest.raises(SandboxError, match="asked the model nothing"):
        run_agent(lambda agent: Ran(stdout=b"all done, 100 % passed", exit_code=code), ANSWER)


def test_what_it_prints_is_never_the_answer() -> None:
    def act(agent: Agent) -> Ran:
        works(agent)
        return Ran(stdout=b'{"result": "I did everything"}', exit_code=0)

    ran = run_agent(act, ANSWER)
    assert ran.log.of("response") == [{"text": "The sum is 3."}]


def test_a_program_that_ends_before_its_answer_counts_against_its_arm() -> None:
    def act(agent: Agent) -> Ran:
        agent.post(agent.body(agent.first()))
        return Ran(exit_code=137)

    ran = run_agent(act, CALL)
    assert ran.end.outcome is Outcome.AGENT_FAILED
    assert "exit code 137" in ran.end.reason


def test_steps_are_counted_in_the_gateway() -> None:
    ran = run_agent(works, CALL, a_request(steps=3))
    assert (ran.end.outcome, ran.end.reason) == (Outcome.AGENT_FAILED, "no answer within 3 steps")
    assert len(ran.server.requests) == 3


def test_a_flood_of_side_calls_ends_the_run() -> None:
    def act(agent: Agent) -> None:
        for _ in range(200):
            if agent.post(agent.body([{"role": "user", "content": "something else"}])) == 403:
                break

    ran = run_agent(act, ANSWER, a_request(steps=2))
    assert ran.end.outcome is Outcome.AGENT_FAILED
    assert len(ran.server.requests) == 48


def test_a_budget_that_is_used_up_ends_the_run_and_nothing_more_is_sent() -> None:
    ran = run_agent(works, turns(CALL, CALL, ANSWER), ledger=a_ledger(Caps(model_calls_per_skill=2)))
    assert ran.end.outcome is Outcome.OVER_BUDGET
    assert len(ran.server.requests) == 2


def test_commands_that_take_too_long_end_the_run_but_not_a_slow_model() -> None:
    clock = StillClock()

    def act(agent: Agent) -> None:
        agent.post(agent.body(agent.first()))
        agent.swept.wait(0.5)  # until the gateway has written the answer down, too
        clock.ms += 601_000
        agent.swept.wait(20)

    ran = run_agent(act, CALL, a_request(seconds=600), clock=clock)
    assert ran.end.outcome is Outcome.TIMEOUT

    def slow(request: Request) -> Reply:
        clock.ms += 3_600_000
        return ANSWER

    assert run_agent(works, slow, a_request(seconds=600), clock=clock).end.outcome is Outcome.COMPLETED


@pytest.mark.parametrize(
    ("fault", "kind"),
    [
        (HttpError(401, "no such key"), "auth"),
        (HttpError(400, "bad"), "bad_request"),
        (HttpError(500, "gone", should_retry=False), "overload"),
        (Dropped("before"), "connection"),
    ],
)
def test_a_provider_that_fails_is_infrastructure(fault: Any, kind: str) -> None:
    with pytest.raises(ModelError) as caught:
        run_agent(works, fault)
    assert caught.value.kind == kind
    assert KEY not in str(caught.value)


def test_a_provider_that_fails_in_passing_is_asked_again_and_that_is_counted() -> None:
    calls: list[int] = []

    def model(request: Request) -> Any:
        calls.append(1)
        return HttpError(529, "busy", retry_after_s=0.01) if len(calls) == 1 else ANSWER

    ran = run_agent(works, model)
    assert ran.end.outcome is Outcome.COMPLETED
    assert ran.counts == {"provider_retry": 1}


@pytest.mark.parametrize("fault", [Dropped("middle", CALL), ErrorInStream(HttpError(529, "busy"), CALL)])
def test_an_answer_that_breaks_off_makes_the_run_worthless(fault: Any) -> None:
    def act(agent: Agent) -> None:
        agent.post(agent.body(agent.first(), stream=True))

    with pytest.raises(ModelError):
        run_agent(act, fault)


@pytest.mark.parametrize(
    "stream",
    [
        b'data: {"type": "message_start", "message": []}\n\ndata: {"type": "message_delta", "delta": [1], "usage": 3}\n\n',
        b'data: {"type": "message_start", "message": {"usage": 7}}\n\n',
        b"<html>busy</html>",
    ],
)
def test_an_answer_that_is_none_of_its_protocol_is_the_providers_fault(stream: bytes) -> None:
    class Wrong(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            self.rfile.read(int(self.headers["content-length"]))
            self.send_response(200)
            self.send_header("content-type", "text/event-stream")
            self.send_header("content-length", str(len(stream)))
            self.end_headers()
            self.wfile.write(stream)

        def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the base class names it
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Wrong) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        address = f"http://127.0.0.1:{server.server_address[1]}"
        with pytest.raises(ModelError, match="cut"):
            run_agent(
                lambda agent: agent.post(agent.body(agent.first(), stream=True)) and None, ANSWER, upstream=address
            )
        server.shutdown()


def test_another_model_is_refused_and_the_run_goes_on() -> None:
    seen: list[Any] = []

    def act(agent: Agent) -> None:
        seen.append(agent.post(agent.body(agent.first(), model="bigger-and-dearer")))
        works(agent)

    ran = run_agent(act, ANSWER)
    assert seen == [400]
    assert ran.end.outcome is Outcome.COMPLETED
    assert ran.counts == {"gateway_request_refused": 1}


def test_what_the_provider_would_run_itself_is_taken_out_and_counted() -> None:
    search = {"type": "web_search_20250305", "name": "web_search"}

    def act(agent: Agent) -> None:
        agent.post(agent.body(agent.first(), tools=[BASH, search, *agent.body([])["tools"][1:]]))

    ran = run_agent(act, ANSWER)
    assert list(ran.server.requests[0].tools) == ["Bash", "Skill"]
    assert ran.counts == {"gateway_tool_stripped": 1}


def test_a_skill_is_opened_by_the_tool_that_hands_over_its_text() -> None:
    def act(agent: Agent) -> None:
        messages = agent.first()
        reply = agent.post(agent.body(messages))
        messages.append({"role": "assistant", "content": reply["content"]})
        text = (
            "Base directory for this skill: /x\n\n# Sums\n\nRead every number aloud before you add it to the others.\n"
        )
        result = {"type": "tool_result", "tool_use_id": reply["content"][-1]["id"], "content": "Launching skill: sums"}
        agent.work(messages=[*messages, {"role": "user", "content": [result, {"type": "text", "text": text}]}])

    ran = run_agent(act, turns(Reply("", (ToolCall("Skill", {"skill": "sums"}),)), ANSWER))
    assert ran.log.of("skill_opened") == [{"step": 1, "path": "SKILL.md"}]
    assert ran.end.opened == ("SKILL.md",)


SERVER = McpServer(
    name="tickets",
    tools=(
        McpTool(
            name="search",
            input_schema={"type": "object", "properties": {"q": {"type": "string"}}},
            responses=(McpResponse(text="tickets 7 and 9"),),
        ),
    ),
)
MCP_TOOL = {"name": "mcp__tickets__search", "input_schema": {"type": "object"}}


def with_mcp(agent: Agent, told: str) -> None:
    messages = agent.first()
    tools = [BASH, {"name": "Skill", "input_schema": {"type": "object"}}, MCP_TOOL]
    reply = agent.post(agent.body(messages, tools=tools))
    messages.append({"role": "assistant", "content": reply["content"]})
    call = {
        "jsonrpc": "2.0",
        "id": 1,
        "method": "tools/call",
        "params": {"name": "search", "arguments": {"q": "refund"}},
    }
    answer = agent.post(call, "/mcp/tickets")
    assert answer["result"]["content"] == [{"type": "text", "text": "tickets 7 and 9"}]
    result = {"type": "tool_result", "tool_use_id": reply["content"][-1]["id"], "content": told}
    agent.post(agent.body([*messages, {"role": "user", "content": [result]}], tools=tools))


def test_a_call_that_never_reached_the_mock_server_has_failed_whatever_was_reported() -> None:
    def act(agent: Agent) -> None:
        messages = agent.first()
        tools = [BASH, {"name": "Skill", "input_schema": {"type": "object"}}, MCP_TOOL]
        reply = agent.post(agent.body(messages, tools=tools))
        messages.append({"role": "assistant", "content": reply["content"]})
        result = {"type": "tool_result", "tool_use_id": reply["content"][-1]["id"], "content": "all refunded"}
        agent.post(agent.body([*messages, {"role": "user", "content": [result]}], tools=tools))

    call = Reply("", (ToolCall("mcp__tickets__search", {"q": "refund"}),))
    ran = run_agent(act, turns(call, ANSWER), a_request(case=a_case(mcp_servers=(SERVER,))))
    (result,) = ran.log.of("tool_result")
    assert (result["status"], result["reported"]) == ("error", True)


@pytest.mark.parametrize(
    ("limit", "words"), [({"tokens": 5}, "more than 5 tokens"), ({"usd": 0.001}, "more than $0.001")]
)
def test_tokens_and_money_of_one_run_end_it(limit: dict[str, Any], words: str) -> None:
    def act(agent: Agent) -> None:
        agent.post(agent.body(agent.first()))
        agent.swept.wait(20)

    ran = run_agent(act, CALL, a_request(**limit))
    assert ran.end.outcome is Outcome.AGENT_FAILED
    assert words in ran.end.reason


@pytest.mark.parametrize(("told", "reported"), [("tickets 7 and 9", False), ("ticket 1", True)])
def test_a_result_of_a_mock_tool_counts_as_seen_only_where_the_gates_own_log_agrees(told: str, reported: bool) -> None:
    request = a_request(case=a_case(mcp_servers=(SERVER,)))
    call = Reply("", (ToolCall("mcp__tickets__search", {"q": "refund"}),))
    ran = run_agent(lambda agent: with_mcp(agent, told), turns(call, ANSWER), request)
    (result,) = ran.log.of("tool_result")
    assert (result["reported"], result["text"]) == (reported, told)
    assert ran.counts.get("mcp_result_unconfirmed", 0) == int(reported)


@pytest.mark.requirements("R225")
def test_a_program_that_starts_without_its_mock_tools_is_infrastructure() -> None:
    with pytest.raises(SandboxError, match="without the tool mcp__tickets__search"):
        run_agent(works, ANSWER, a_request(case=a_case(mcp_servers=(SERVER,))))


def test_a_task_that_names_the_skill_does_not_hide_a_leak() -> None:
    def act(agent: Agent) -> None:
        agent.listing = "- sums: Adds numbers. Use when somebody asks for a sum."
        works(agent)

    case = a_case(prompt="Use sums.\n- sums: one and two")
    with pytest.raises(SandboxError, match="must not have it"):
        run_agent(act, ANSWER, a_request(Arm.WITHOUT_SKILL, case=case))
    assert run_agent(works, ANSWER, a_request(Arm.WITHOUT_SKILL, case=case)).end.outcome is Outcome.COMPLETED


@pytest.mark.parametrize(
    ("ended", "outcome"),
    [(Ran(exit_code=137, oom=True), Outcome.OOM), (Ran(exit_code=124, timed_out=True), Outcome.TIMEOUT)],
)
def test_how_it_was_stopped_is_whose_fault_it_is(ended: Ran, outcome: Outcome) -> None:
    def act(agent: Agent) -> Ran:
        agent.post(agent.body(agent.first()))
        return ended

    assert run_agent(act, CALL).end.outcome is outcome


def test_cancelled_it_is_swept_and_says_so() -> None:
    asked = threading.Event()

    def act(agent: Agent) -> None:
        asked.set()
        agent.swept.wait(20)

    with pytest.raises(Cancelled):
        run_agent(act, ANSWER, cancelled=asked.is_set)


def test_a_case_that_only_the_loop_can_run_is_blocked_and_says_why() -> None:
    ran = run_agent(works, ANSWER, a_request(case=a_case(turns=("And now?",))))
    assert ran.end.outcome is Outcome.BLOCKED
    assert "several turns" in ran.end.reason
