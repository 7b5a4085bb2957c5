"""A case with a real MCP server, from the policy to the report: through the command line and through the Action."""

from __future__ import annotations

import json
import threading
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from gate.audit.verify import verify_bundle
from gate.cli import main as run_command
from gate.wiring import bind
from reporters import render
from tests.fakes.sandbox import ScriptedSandbox
from tests.in_process import Ran, gate
from tests.pipeline.action_stage import NUMBER, stage
from tests.pipeline.test_action import dispatch
from tests.pipeline.test_action_events import event, group
from tests.scripted import Reply, Request
from tests.scripted.demo import LOCATION
from tests.scripted.generic import scenario
from tests.scripted.mcp_server import Answer, ScriptedMcpServer
from tests.scripted.server import ScriptedServer
from tests.story import git, make_repository
from tests.unit.execution.world import shell

TOKEN = "crm-canary-7f3e9a1b5c2d8e4f"
TOKEN_ENV = "SKILL_GATE_MCP_CRM"
FIND = "mcp__crm__find_customer"
SKILL = "---\nname: customers\ndescription: Finds customers. Use when somebody asks for one.\n---\n# Customers\n\nAsk the CRM {how}.\n"
SUITE = f"""version: 1
cases:
  - id: lookup
    prompt: Which number has the customer Ada?
    mcp_servers:
      - {{name: crm, mode: real, tools: [{{name: find_customer}}]}}
    checks:
      - {{kind: tool_call_count, tool: find_customer, min: 1}}
      - {{kind: tool_result_contains, tool: {FIND}, text: customer 7}}
      - {{kind: response_contains, keyword: customer 7}}
"""
MAIN = {"skills/customers/SKILL.md": SKILL.format(how="once"), "skills/customers/evals/skill-gate.yaml": SUITE}
CHANGE = {"skills/customers/SKILL.md": SKILL.format(how="first")}


def agent(request: Request) -> Reply:
    """Reads the skill where there is one, asks the CRM, says what it said."""
    location = LOCATION.search(request.system)
    results = [result.text for message in request.messages for result in message.tool_results]
    if location and not results:
        return Reply.calling("bash", {"command": f"cat {location[1]}"})
    if len(results) < (2 if location else 1):
        return Reply.calling(FIND, {"name": "Ada"})
    return Reply(f"The CRM says: {results[-1]}.")


def crm(**changes: Any) -> ScriptedMcpServer:
    """A server with a tool that nobody allowed, too."""
    tools = {"find_customer": lambda arguments: f"{arguments['name']} is customer 7", "drop_all": lambda arguments: ""}
    return ScriptedMcpServer(**{"tools": tools, "token": TOKEN, **changes})


def policy_of(server: ScriptedMcpServer, mode: str = "standard") -> str:
    """A base policy that opts in."""
    place = f"{{url: '{server.url}', token_env: {TOKEN_ENV}, tools: [find_customer]}}"
    return f"mode: {mode}\nmcp_real:\n  crm: {place}\n"


def session(
    folder: Path,
    server: ScriptedMcpServer,
    main: Mapping[str, str],
    *options: str,
    environ: Mapping[str, str] | None = None,
) -> Ran:
    """The command with the token in its environment."""
    environ = {TOKEN_ENV: TOKEN, **(environ or {})}
    return gate(folder, main, CHANGE, environ=environ, steps={"agent": agent}, options=options)


def test_a_case_asks_a_real_server_and_the_record_holds_the_calls_and_no_token(tmp_path: Path) -> None:
    with crm() as server:
        ran = session(tmp_path, server, {**MAIN, ".github/skill-gate.yml": policy_of(server)})
        assert ran.skill["verdict"] == "pass", ran.report
        assert ran.code == 0
        runs = [path.parent for path in ran.bundle.glob("skills/*/eval-*/run-*/*/events.jsonl")]
        assert {folder.name for folder in runs} == {"with_skill", "without_skill", "base_skill"}
        assert server.calls() == [("find_customer", {"name": "Ada"})] * len(runs)
        assert len(server.of("tools/list")) == 1
    for folder in runs:
        events = [json.loads(line) for line in (folder / "events.jsonl").read_text().splitlines()]
        said = [item["data"] for item in events if item["kind"] == "mcp_server"]
        assert [(item["server"], item["listed"]) for item in said] == [("crm", ["drop_all", "find_customer"])]
        assert FIND in (folder / "outputs/transcript.md").read_text()
    assert "all runs and both arms share what it holds" in ran.comment
    kept = b"".join(path.read_bytes() for path in ran.bundle.rglob("*") if path.is_file())
    assert TOKEN.encode() not in kept
    assert TOKEN not in "\n".join(ran.log)
    assert verify_bundle(ran.bundle, render).problems == ()


def test_without_an_entry_in_the_base_policy_the_case_is_blocked_also_where_the_change_brings_one(
    tmp_path: Path,
) -> None:
    with crm() as server:
        change = {**CHANGE, ".github/skill-gate.yml": policy_of(server)}
        ran = gate(tmp_path, MAIN, change, environ={TOKEN_ENV: TOKEN}, steps={"agent": agent})
        assert ran.skill["verdict"] == "blocked"
        assert "name it there under mcp_real" in json.dumps(ran.skill)
        assert server.asked == []


def test_a_server_that_is_down_is_an_error_and_no_failure_of_the_skill(tmp_path: Path) -> None:
    with crm(faults={"tools/call": [Answer(status=502)] * 99}) as server:
        ran = session(tmp_path, server, {**MAIN, ".github/skill-gate.yml": policy_of(server)})
    assert (ran.code, ran.skill["verdict"]) == (3, "error")
    assert "answered with status 502" in json.dumps(ran.report)


def test_a_token_that_is_not_set_is_an_error_that_says_which(tmp_path: Path) -> None:
    with crm() as server:
        main = {**MAIN, ".github/skill-gate.yml": policy_of(server)}
        ran = session(tmp_path, server, main, environ={TOKEN_ENV: ""})
        assert server.asked == []
    assert (ran.code, ran.skill["verdict"]) == (3, "error")
    assert f"{TOKEN_ENV} is not set" in json.dumps(ran.report)


def test_no_run_with_a_real_server_is_used_again(tmp_path: Path) -> None:
    with crm() as server:
        main = {**MAIN, ".github/skill-gate.yml": policy_of(server, "smoke")}
        for number in (1, 2):
            session(tmp_path / str(number), server, main, "--cache", str(tmp_path / "cache"))
            assert len(server.calls()) == number


@pytest.mark.parametrize("environ", [{"CI": "true"}, {"GITHUB_ACTIONS": "true"}], ids=str)
def test_a_job_of_a_ci_system_that_does_not_say_whose_change_it_is_reaches_nothing(
    tmp_path: Path, environ: dict[str, str]
) -> None:
    with crm() as server:
        ran = session(tmp_path, server, {**MAIN, ".github/skill-gate.yml": policy_of(server)}, environ=environ)
        assert (ran.skill["verdict"], server.asked) == ("blocked", [])
    assert "which runs what others push" in json.dumps(ran.skill)


def test_on_a_pull_request_of_the_repository_itself_the_action_asks_the_server(tmp_path: Path) -> None:
    with (
        crm() as server,
        stage(tmp_path, main=MAIN, change=CHANGE, policy=policy_of(server, "smoke"), agent=agent) as here,
    ):
        here.environ[TOKEN_ENV] = TOKEN
        done = here.run()
        assert json.loads(done.outputs["skills"]) == {"skills/customers": "conditional"}, done.text
        assert server.calls() == [("find_customer", {"name": "Ada"})]
        assert TOKEN in [command.text for command in done.commands if command.name == "add-mask"]


@pytest.mark.parametrize("who", ["fork", "dependabot", "draft"])
def test_not_even_a_maintainer_makes_a_strangers_change_reach_the_server(tmp_path: Path, who: str) -> None:
    with (
        crm() as server,
        stage(tmp_path, main=MAIN, change=CHANGE, policy=policy_of(server, "smoke"), agent=agent) as here,
    ):
        here.environ |= {TOKEN_ENV: TOKEN, "GITHUB_SHA": here.base}
        if who == "fork":
            here.pull.head_repository = None
        elif who == "dependabot":
            here.pull.author = replace(here.pull.author, login="dependabot[bot]")
        else:
            here.pull.draft = True
        done = here.run(event="workflow_dispatch", payload=dispatch(here), pull_request=str(NUMBER), sha=here.head)
        assert json.loads(done.outputs["skills"]) == {"skills/customers": "blocked"}, done.text
        assert server.asked == []


def test_a_pull_request_by_dependabot_reaches_nothing_also_where_a_member_pushed_to_it(tmp_path: Path) -> None:
    with (
        crm() as server,
        stage(tmp_path, main=MAIN, change=CHANGE, policy=policy_of(server, "smoke"), agent=agent) as here,
    ):
        here.environ[TOKEN_ENV] = TOKEN
        here.pull.author = replace(here.pull.author, login="dependabot[bot]")
        done = here.run()
        assert json.loads(done.outputs["skills"]) == {"skills/customers": "blocked"}, done.text
        event(here, "push", ref="refs/heads/dependabot/pip/x", before=here.base, after=here.head)
        assert (here.report["skills"][0]["verdict"], server.asked) == ("blocked", [])


def test_a_merge_queue_may_hold_a_forks_change_and_reaches_nothing(tmp_path: Path) -> None:
    with (
        crm() as server,
        stage(tmp_path, main=MAIN, change=CHANGE, policy=policy_of(server, "smoke"), agent=agent) as here,
    ):
        here.environ[TOKEN_ENV] = TOKEN
        event(here, "merge_group", **group(here, here.base, here.merge))
        assert (here.report["skills"][0]["verdict"], server.asked) == ("blocked", [])


def test_a_branch_that_was_checked_out_from_a_pull_request_reaches_nothing(tmp_path: Path) -> None:
    with crm() as server, ScriptedServer(scenario(agent=agent)) as models, ScriptedSandbox(shell()) as sandbox:
        main = {**MAIN, ".github/skill-gate.yml": policy_of(server, "smoke")}
        repository = make_repository(tmp_path / "repository", main, CHANGE)
        app = replace(
            bind({"OPENAI_API_KEY": "key", TOKEN_ENV: TOKEN}, threading.Event()),
            make_sandbox=lambda: sandbox,
            say=lambda text: None,
            abort=lambda: None,
        )
        name = f"openai@{models.openai_url}:agent"
        words = ["run", "--repository", str(repository), "--base", "main", "--model", name, "--judge-model", name]
        verdicts = []
        for number in (1, 2):
            out = tmp_path / f"bundle-{number}"
            run_command(app, [*words, "--out", str(out)])
            verdicts.append(json.loads((out / "report.json").read_text())["skills"][0]["verdict"])
            git(repository, "config", "branch.feature.remote", "origin")
            git(repository, "config", "branch.feature.merge", "refs/pull/7/head")
        assert verdicts == ["conditional", "blocked"]
        assert len(server.calls()) == 1
