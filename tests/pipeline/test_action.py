"""The whole Action in one process, from an event's payload to what stands on GitHub and in the runner's files."""

from __future__ import annotations

import json
import re
import threading
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import docker
import pytest
from markdown_it import MarkdownIt

from gate.adapters.github_forge import GitHubForge, Patience
from gate.cli import App
from gate.domain.sandbox import BoxSpec
from gate.wiring import bind
from reporters import status
from reporters.outputs import KEYS
from tests.github import refused, server_error
from tests.pipeline.action_stage import (
    EVALS,
    KEY,
    MAIN,
    NO_SKILL_CHANGES,
    NUMBER,
    SKILL,
    Done,
    Stage,
    commands_in,
    entries_in,
    shallow_checkout,
    stage,
)
from tests.scripted import Answer, Reply, Request
from tests.scripted.generic import reader
from tests.story import git

SMOKE = "mode: smoke\n"
MARKER = "<!-- skill-gate:report -->"


def wrong_answer(request: Request) -> Answer:
    """An agent that reads the skill and then answers something else."""
    reply = reader(request)
    return reply if isinstance(reply, Reply) and reply.tool_calls else Reply("Nothing.")


def strict_evals() -> dict[str, str]:
    """A case whose exact check fails unless the agent says what the skill says."""
    case = "version: 1\ncases:\n  - id: one\n    prompt: What is 1 and 2?\n    checks:\n"
    checks = "      - kind: response_contains\n        keyword: the part Sums\n"
    return {"skills/sums/SKILL.md": SKILL.format(word="up"), "skills/sums/evals/skill-gate.yaml": case + checks}


def impatient(here: Stage) -> Callable[[App], App]:
    """The same, with tries that follow one another at once."""

    def change(app: App) -> App:
        def forge(hurry: bool) -> GitHubForge:
            del hurry
            from pydantic import SecretStr

            token = SecretStr(here.token.value) if here.token else None
            return GitHubForge.from_environment(app.environ, token, patience=Patience(sleep=lambda seconds: None))

        return replace(app, make_forge=forge)

    return change


def all_outputs_are_there(done: Done) -> None:
    assert tuple(done.outputs) == KEYS
    assert done.outputs["exit-code"] == str(done.code)


# --- a pull request


def test_a_pull_request_gets_one_comment_one_status_on_its_head_a_summary_and_every_output(tmp_path: Path) -> None:
    with stage(tmp_path, main=strict_evals(), policy=SMOKE) as here:
        done = here.run()
        assert done.code == 0, done.text
        assert here.statuses() == [
            ("pending", status.RUNNING),
            ("success", "success: 1 is conditional (skills/sums)"),
        ]
        assert here.statuses(here.merge) == []
        assert {one.target_url for one in here.repository.statuses} == {
            "https://github.example/acme/skills/actions/runs/4711/attempts/1"
        }
        (comment,) = here.comments
        assert comment.splitlines()[1] == MARKER
        assert f"`{here.base[:12]}..{here.head[:12]}`" in comment
        all_outputs_are_there(done)
        assert done.outputs["verdict"] == "conditional"
        assert json.loads(done.outputs["skills"]) == {"skills/sums": "conditional"}
        assert json.loads(done.outputs["changed-skills"]) == ["skills/sums"]
        assert done.outputs["comment-url"].endswith(f"#issuecomment-{max(here.repository.comments)}")
        assert Path(done.outputs["report"]).read_bytes() == (here.bundle / "report.json").read_bytes()
        assert done.summary.startswith("## Skill Gate: success: 1 is conditional (skills/sums)\n")
        assert done.outputs["comment-url"] in done.summary.replace("&#8203;", "")
        assert {box.image_id for box in here.sandbox.boxes} == {"sha256:" + "7b" * 32}  # the action's own image


def test_what_fails_is_said_everywhere_and_ends_with_1(tmp_path: Path) -> None:
    with stage(tmp_path, main=strict_evals(), policy="mode: quick\n", agent=wrong_answer) as here:
        done = here.run()
        assert done.code == 1, done.text
        assert here.statuses()[-1] == ("failure", "failure: 1 fails (skills/sums)")
        assert done.outputs["verdict"] == "fail"
        assert done.outputs["state"] == "failure"
        (error,) = done.annotations("error")
        assert error.startswith("failure: 1 fails (skills/sums)")


def test_a_second_run_updates_the_comment_and_never_writes_another(tmp_path: Path) -> None:
    with stage(tmp_path, main=strict_evals(), policy=SMOKE) as here:
        first = here.run()
        here.environ["GITHUB_RUN_ATTEMPT"] = "2"
        second = here.run()
        assert len(here.comments) == 1
        assert first.outputs["comment-url"] == second.outputs["comment-url"]
        assert [state for state, _ in here.statuses()] == ["pending", "success", "pending", "success"]


@pytest.mark.parametrize("token", ["write", "pat", "app"])
def test_our_comment_is_found_on_the_third_page_whoever_the_token_is(tmp_path: Path, token: Any) -> None:
    with stage(tmp_path, change=NO_SKILL_CHANGES, token=token) as here:
        somebody = here.github.world.user("hubot")
        planted = here.repository.add_comment(NUMBER, somebody, f"## Skill Gate: fine\n{MARKER}\n")
        for number in range(220):
            here.repository.add_comment(NUMBER, somebody, f"Comment {number}")
        here.run()
        mine = [one for one in here.repository.comments_of(NUMBER) if MARKER in one.body and one.id != planted.id]
        assert len(mine) == 1
        before = len(here.comments)
        done = here.run()
        assert len(here.comments) == before
        assert done.outputs["comment-url"].endswith(str(mine[0].id))
        assert planted.body == f"## Skill Gate: fine\n{MARKER}\n"


def test_nothing_to_evaluate_is_success_without_models_engine_or_empty_outputs(tmp_path: Path) -> None:
    with stage(tmp_path, change=NO_SKILL_CHANGES) as here:
        done = here.run()
        assert done.code == 0
        all_outputs_are_there(done)
        expected = {
            "verdict": "none",
            "state": "success",
            "exit-code": "0",
            "headline": "success: nothing to evaluate, no skill changed",
            "skills": "{}",
            "changed-skills": "[]",
            "status": "pass",
            "release_status": "PASS",
            "exit_code": "0",
            "diagnostic_categories": "[]",
            "timing_hints": "{}",
            "authoritative_pass_rate": "",
            "grade": "",
            "exact_pass_rate": "",
            "delta": "",
            "eval_count": "0",
        }
        places = ("report", "bundle", "comment-url", "report_html", "session_report_html")
        assert {name: value for name, value in done.outputs.items() if name not in places} == expected
        assert all(done.outputs[name] for name in places)
        assert here.server.requests == []
        assert "sandboxes" not in here.state
        assert here.statuses()[-1] == ("success", "success: nothing to evaluate, no skill changed")


def test_on_an_enterprise_server_everything_goes_to_its_own_address(tmp_path: Path) -> None:
    with stage(tmp_path, change=NO_SKILL_CHANGES, prefix="/api/v3") as here:
        assert here.run().code == 0
        assert len(here.comments) == 1


def test_several_gates_of_one_repository_keep_a_comment_and_a_status_each(tmp_path: Path) -> None:
    with stage(tmp_path, change=NO_SKILL_CHANGES) as here:
        here.run()
        here.run(status_context="nightly")
        here.run(status_context="nightly")
        assert len(here.comments) == 2
        assert {one.context for one in here.repository.statuses} == {"skill-gate", "nightly"}


def test_comment_and_status_can_be_switched_off(tmp_path: Path) -> None:
    with stage(tmp_path, change=NO_SKILL_CHANGES) as here:
        done = here.run(comment="never", status="false")
        assert done.code == 0
        assert here.github.writes == []
        all_outputs_are_there(done)


def test_comment_on_failure_waits_for_one_and_is_kept_up_to_date_afterwards(tmp_path: Path) -> None:
    wrong = False

    def agent(request: Request) -> Answer:
        return wrong_answer(request) if wrong else reader(request)

    with stage(tmp_path, main=strict_evals(), policy="mode: quick\n", agent=agent) as here:
        here.run(comment="failure")
        assert here.comments == []
        wrong = True
        here.run(comment="failure")
        assert "failure: 1 fails" in here.comments[0]
        wrong = False
        here.run(comment="failure")
        assert len(here.comments) == 1
        assert "failure: 1 fails" not in here.comments[0]


# --- tokens


def test_a_token_that_only_reads_leaves_the_verdict_to_the_exit_code_with_one_notice(tmp_path: Path) -> None:
    with stage(tmp_path, main=strict_evals(), policy="mode: quick\n", agent=wrong_answer, token="read") as here:
        done = here.run()
        assert done.code == 1
        (notice,) = done.annotations("notice")
        assert "may not write" in notice
        assert "pull-requests: write" in notice
        assert "Traceback" not in done.text
        assert here.comments == []
        assert here.statuses() == []
        all_outputs_are_there(done)
        assert done.outputs["verdict"] == "fail"
        assert "may not write" in done.summary
        assert (here.bundle / "manifest.json").is_file()


def test_without_a_token_nothing_is_asked_of_github(tmp_path: Path) -> None:
    with stage(tmp_path, change=NO_SKILL_CHANGES, token=None) as here:
        done = here.run()
        assert done.code == 0
        assert here.github.asked == []
        assert len(done.annotations("notice")) == 1
        all_outputs_are_there(done)


def test_a_github_that_fails_is_a_warning_and_the_verdict_stands(tmp_path: Path) -> None:
    with stage(tmp_path, main=strict_evals(), policy="mode: quick\n", agent=wrong_answer) as here:
        here.github.fail(server_error(), on="POST", repeat=True)
        done = here.run(app=impatient(here))
        assert done.code == 1
        assert done.annotations("warning")
        assert "Traceback" not in done.text
        assert done.outputs["verdict"] == "fail"


def test_no_key_and_no_token_is_printed_kept_or_left_in_the_environment(tmp_path: Path) -> None:
    with stage(tmp_path, main=strict_evals(), policy=SMOKE) as here:
        done = here.run(anthropic_api_key=KEY, openai_api_key="sk-openai-canary-99")
        assert here.token is not None
        masks = [one.text for one in done.commands if one.name == "add-mask"]
        assert masks == [KEY, "sk-openai-canary-99"]
        rest = [line for line in done.log if not line.startswith("::add-mask::")]
        for secret in (KEY, "sk-openai-canary-99", here.token.value):
            assert secret not in "\n".join(rest)
            for path in here.folder.rglob("*"):
                if path.is_file():
                    assert secret.encode() not in path.read_bytes(), path


# --- who the change is from


def test_a_fork_gets_the_static_layers_and_waits_for_a_maintainer(tmp_path: Path) -> None:
    with stage(tmp_path, token="read") as here:
        theirs = {"id": 999_999, "full_name": "stranger/skills", "default_branch": "main"}
        done = here.run(payload=here.payload(head={"sha": here.head, "ref": "feature", "repo": theirs}))
        assert done.code == 0
        assert done.outputs["state"] == "pending"
        assert done.outputs["verdict"] == "not_measured"
        assert here.server.requests == []
        assert "a change from a fork gets no key" in done.summary
        assert len(done.annotations("notice")) == 1


@pytest.mark.parametrize(
    ("who", "waits_for"),
    [
        ("fork", "a run started by a maintainer"),
        ("deleted fork", "a run started by a maintainer"),
        ("dependabot", "a run started by a maintainer"),
        ("draft", "ready for review"),
    ],
)
def test_whoever_is_not_measured_is_pending_and_the_comment_says_what_it_waits_for(
    tmp_path: Path, who: str, waits_for: str
) -> None:
    with stage(tmp_path) as here:
        payload = here.payload()
        if who == "fork":
            payload["pull_request"]["head"]["repo"] = {"id": 999_999, "full_name": "stranger/skills"}
        elif who == "deleted fork":
            payload["pull_request"]["head"]["repo"] = None
            here.pull.head_repository = None
        elif who == "dependabot":
            payload["sender"] = {"login": "dependabot[bot]"}
        else:
            payload["pull_request"]["draft"] = here.pull.draft = True
        done = here.run(payload=payload)
        assert done.code == 0
        assert done.outputs["state"] == "pending"
        assert here.statuses()[-1] == ("pending", "pending: 1 was not measured (skills/sums)")
        assert waits_for in here.comments[0]
        assert here.server.requests == []
        assert here.sandbox.boxes == []
        assert here.report["models"].startswith("none: static layers only, ")
        # The post step must not take this for a run that was killed, not even where the last word was not saved.
        state = here.state
        for saved in (state, {name: value for name, value in state.items() if name != "gate_resolved"}):
            assert here.run("post", state=saved).code == 0
            assert here.statuses()[-1][0] == "pending"


def test_a_fork_whose_skill_cannot_be_read_fails_all_the_same(tmp_path: Path) -> None:
    with stage(tmp_path, change={"skills/sums/SKILL.md": "no front matter"}) as here:
        payload = here.payload()
        payload["pull_request"]["head"]["repo"] = None
        done = here.run(payload=payload)
        assert done.code == 1
        assert done.outputs["verdict"] == "invalid"


def test_a_run_that_is_started_again_looks_at_the_draft_as_it_is_now(tmp_path: Path) -> None:
    with stage(tmp_path, main=strict_evals(), policy=SMOKE) as here:
        done = here.run(payload=here.payload(draft=True))
        assert done.outputs["verdict"] == "conditional"


def test_a_member_without_a_key_is_told_loudly(tmp_path: Path) -> None:
    with stage(tmp_path, with_models=False) as here:
        del here.environ["ANTHROPIC_API_KEY"]
        done = here.run()
        assert done.code == 1
        assert done.outputs["verdict"] == "not_measured"


# --- inputs


def test_what_would_loosen_the_base_policy_is_not_followed_and_listed(tmp_path: Path) -> None:
    with stage(tmp_path, main=strict_evals(), policy="mode: quick\nenforce: strict\n") as here:
        done = here.run(
            mode="smoke",
            enforce="advisory",
            model=f"openai@{here.server.openai_url}:other",
            judge_model="openai:other",
            image="evil:latest",
            paths="skills/other",
            base="HEAD~1",
        )
        report = here.report
        assert (report["mode"], report["enforce"]) == ("quick", "strict")
        assert done.code == 1  # conditional is not enough for strict
        findings = [one for one in report["session_findings"] if one["rule"] == "input/loosens"]
        told = " ".join(one["message"] for one in findings)
        for name in ("mode", "enforce", "model", "judge-model", "image", "paths", "base"):
            assert f"the input {name} " in told
        assert {one["path"] for one in findings} == {".github/workflows/gate.yml"}
        for where in (here.comments[0], done.summary):
            assert where.count("input/loosens") == 7
        assert "the input mode" in done.text
        assert {request.model for request in here.server.requests} == {"agent", "judge"}
        assert "evil:latest" not in {box.spec.image for box in here.sandbox.boxes}
        assert [skill["path"] for skill in report["skills"]] == ["skills/sums"]


def test_what_tightens_is_followed(tmp_path: Path) -> None:
    with stage(tmp_path, main=strict_evals(), policy="mode: smoke\nenforce: advisory\n") as here:
        done = here.run(mode="quick", enforce="strict")
        assert (here.report["mode"], here.report["enforce"]) == ("quick", "strict")
        assert done.code == 1
        assert here.report["session_findings"] == []


def test_a_policy_of_the_pull_request_itself_decides_nothing(tmp_path: Path) -> None:
    change = {"skills/sums/SKILL.md": SKILL.format(word="more"), ".github/skill-gate.yml": "enforce: advisory\n"}
    with stage(tmp_path, main=strict_evals(), policy=SMOKE, agent=wrong_answer, change=change) as here:
        done = here.run()
        assert here.report["enforce"] == "standard"
        assert "takes effect after merge" in done.summary


def test_a_tag_that_is_called_like_the_base_branch_does_not_stand_in_for_it(tmp_path: Path) -> None:
    change = {"skills/sums/SKILL.md": SKILL.format(word="more"), ".github/skill-gate.yml": "enforce: advisory\n"}
    with stage(tmp_path, main=strict_evals(), policy=SMOKE, change=change) as here:
        for tag in ("main", "origin/main"):
            git(here.workspace, "tag", tag, here.head)
        done = here.run()
        assert (here.report["enforce"], here.report["base_commit"]) == ("standard", here.base)
        assert done.outputs["verdict"] == "conditional"


def test_a_base_branch_that_moved_on_decides_with_its_newest_policy(tmp_path: Path) -> None:
    with stage(tmp_path, main=strict_evals(), policy=SMOKE) as here:
        git(here.workspace, "switch", "--quiet", "--create", "newer", here.base)
        policy = here.workspace / ".github/skill-gate.yml"
        policy.write_text(policy.read_text() + "enforce: strict\n")
        git(here.workspace, "commit", "--all", "--quiet", "--message", "Stricter")
        git(here.workspace, "update-ref", "refs/remotes/origin/main", "newer")
        here.run()
        assert (here.report["enforce"], here.report["base_commit"]) == ("strict", here.base)


def test_a_tip_of_the_base_branch_that_an_earlier_job_left_behind_does_not_decide(tmp_path: Path) -> None:
    with stage(tmp_path, main=strict_evals(), policy="mode: smoke\nenforce: strict\n") as here:
        git(here.workspace, "switch", "--quiet", "--create", "old", here.base)
        git(here.workspace, "reset", "--quiet", "--hard", here.base)
        policy = here.workspace / ".github/skill-gate.yml"
        policy.write_text(policy.read_text().replace("strict", "standard"))
        git(here.workspace, "commit", "--all", "--quiet", "--message", "newer on main")
        newer = git(here.workspace, "rev-parse", "HEAD")
        here.pull.base_sha = newer
        here.repository.add_commit({}, parents=[here.base], sha=newer)
        done = here.run()
        assert here.report["enforce"] == "standard", done.text


@pytest.mark.parametrize(
    ("inputs", "said"),
    [
        ({"mode": "fast"}, 'input mode is "fast"; one of smoke, quick, standard, full, regression was expected'),
        ({"jobs": "0"}, "a whole number from 1 to 64 was expected"),
        ({"comment": "sometimes"}, "one of always, never, failure was expected"),
        ({"out": "../elsewhere"}, "leaves the workspace"),
        ({"status_context": "a\nb::"}, "status-context"),
    ],
)
def test_an_input_that_is_none_ends_with_2_and_says_what_was_expected(
    tmp_path: Path, inputs: Mapping[str, str], said: str
) -> None:
    with stage(tmp_path, change=NO_SKILL_CHANGES) as here:
        done = here.run(given=inputs)
        assert done.code == 2
        assert said in done.text
        all_outputs_are_there(done)
        assert done.outputs["verdict"] == "error"
        assert "Skill Gate: error" in done.summary


def test_a_policy_with_a_mistake_is_an_error_on_the_status_too(tmp_path: Path) -> None:
    with stage(tmp_path, policy="enforced: strict\n") as here:
        done = here.run()
        assert done.code == 2
        state, description = here.statuses()[-1]
        assert state == "error"
        assert "policy cannot be used" in description


# --- moments


def test_a_newer_head_is_not_written_over(tmp_path: Path) -> None:
    moved: list[str] = []

    def agent(request: Request) -> Answer:
        if not moved:
            moved.append(here.push())
            here.repository.add_comment(NUMBER, here.github.world.user("github-actions[bot]"), f"## New\n{MARKER}\n")
        return reader(request)

    with stage(tmp_path, main=strict_evals(), policy=SMOKE, agent=agent) as here:
        done = here.run()
        assert here.comments == [f"## New\n{MARKER}\n"]
        assert here.statuses(moved[0]) == []
        assert here.statuses()[-1][0] == "success"  # its own commit's pending is taken back all the same
        assert "newer head" in done.summary
        assert done.outputs["comment-url"] == ""


def test_a_run_about_an_older_head_pays_nothing_and_writes_nothing(tmp_path: Path) -> None:
    with stage(tmp_path) as here:
        here.push()
        done = here.run()
        assert done.code == 0
        assert here.github.writes == []
        assert here.server.requests == []
        all_outputs_are_there(done)
        assert done.outputs["verdict"] == "not_measured"
        assert done.outputs["state"] == "pending"


def test_a_pull_request_that_is_closed_meanwhile_gets_no_comment(tmp_path: Path) -> None:
    def agent(request: Request) -> Answer:
        here.pull.state = "closed"
        return reader(request)

    with stage(tmp_path, main=strict_evals(), policy=SMOKE, agent=agent) as here:
        here.run()
        assert here.comments == []
        assert here.statuses()[-1][0] == "success"


def test_a_job_that_is_cancelled_in_the_middle_resolves_its_status_to_error(tmp_path: Path) -> None:
    def agent(request: Request) -> Answer:
        here.cancelled.set()
        return reader(request)

    with stage(tmp_path, main=strict_evals(), policy="mode: quick\n", agent=agent) as here:
        done = here.run()
        assert done.code == 130
        assert here.statuses() == [("pending", status.RUNNING), ("error", status.CANCELLED)]
        assert here.comments == []
        all_outputs_are_there(done)
        assert done.outputs["state"] == "error"
        assert here.state["gate_resolved"] == "error"
        assert not [box for box in here.sandbox.boxes if not box.closed]


def test_a_cancelled_job_that_waits_for_a_model_reports_before_it_leaves(tmp_path: Path) -> None:
    released = threading.Event()

    def agent(request: Request) -> Answer:
        here.cancelled.set()
        released.wait(30)
        return reader(request)

    def leave() -> None:
        left.append(list(here.statuses()))
        released.set()

    left: list[list[tuple[str, str]]] = []
    with stage(tmp_path, main=strict_evals(), policy="mode: quick\n", agent=agent) as here:
        done = here.run(app=lambda app: replace(app, abort=leave))
        assert left == [[("pending", status.RUNNING), ("error", status.CANCELLED)]]
        assert done.code == 130
        assert len(here.statuses()) == 2  # the thread that comes late reports nothing again
        all_outputs_are_there(done)


def test_a_job_that_is_cancelled_when_all_is_done_says_its_verdict_in_the_status_alone(tmp_path: Path) -> None:
    def cancelling(app: App) -> App:
        def render(report: Any, kind: str) -> str:
            here.cancelled.set()
            return app.render(report, kind)

        return replace(app, render=render)

    with stage(tmp_path, main=strict_evals(), policy=SMOKE) as here:
        here.run(app=cancelling)
        assert here.statuses()[-1] == ("success", "success: 1 is conditional (skills/sums)")
        assert here.comments == []  # there may be no time left for it


def test_a_crash_resolves_the_status_and_says_that_nothing_was_judged(tmp_path: Path) -> None:
    def broken(*arguments: object) -> Any:
        raise RuntimeError("::error::boom")

    with stage(tmp_path) as here:
        done = here.run(app=lambda app: replace(app, bind_models=broken))
        assert done.code == 3
        assert here.statuses()[-1] == ("error", status.CRASHED)
        assert "Traceback" not in done.text
        assert "the gate itself failed; nothing was judged (RuntimeError in " in done.text
        assert "debug logging" in done.text
        all_outputs_are_there(done)
        assert [one.text for one in done.commands if one.name == "error" and "boom" in one.text] == []


def test_an_engine_that_is_not_there_is_an_error_that_says_what_to_do(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    socket = tmp_path / "docker.sock"
    socket.mkdir()
    monkeypatch.setenv("DOCKER_HOST", f"unix://{socket}")
    with stage(tmp_path, main=strict_evals(), policy=SMOKE) as here:
        done = here.run(app=lambda app: replace(app, make_sandbox=bind({}).make_sandbox))
        assert done.code == 3
        assert here.statuses()[-1][0] == "error"
        assert "is a folder, not the socket of a Docker engine" in here.comments[0]
        assert "mount /var/run/docker.sock" in here.comments[0]


@pytest.mark.parametrize("reason", ["no token", "no permission"])
def test_a_checkout_without_history_that_github_cannot_help_out_says_fetch_depth_0(tmp_path: Path, reason: str) -> None:
    with stage(tmp_path, token=None if reason == "no token" else "write") as here:
        here.github.fail(refused(403, "Resource not accessible by integration"), on="GET .*/git/trees", repeat=True)
        shallow_checkout(here)
        done = here.run()
        assert done.code == 2
        assert "fetch-depth: 0" in done.text
        assert "fetch-depth: 0" in done.summary
        assert reason == "no token" or here.statuses()[-1][0] == "error"


def test_a_workspace_without_a_checkout_says_so(tmp_path: Path) -> None:
    with stage(tmp_path) as here:
        here.environ["GITHUB_WORKSPACE"] = str(tmp_path / "temp")
        done = here.run()
        assert done.code == 2
        assert "actions/checkout" in done.text


@pytest.mark.docker
def test_with_a_real_engine_the_action_leaves_its_verdict_and_no_sandbox(
    engine: docker.DockerClient, tmp_path: Path
) -> None:
    with stage(tmp_path, main=strict_evals(), policy=SMOKE) as here:
        done = here.run(app=lambda app: replace(app, make_sandbox=bind({}).make_sandbox))
        assert done.outputs["verdict"] == "conditional", done.text
        assert here.report["sandbox"].startswith("docker ")
        session = here.state["gate_session"]
        assert here.state["gate_sandboxes"] == "1"
        assert engine.api.containers(all=True, filters={"label": f"gate.session={session}"}) == []
        assert not engine.api.volumes(filters={"label": f"gate.session={session}"})["Volumes"]


# --- other events


def dispatch(here: Stage, ref: str = "refs/heads/main", **inputs: str) -> dict[str, Any]:
    repository = {"id": here.repository.id, "full_name": "acme/skills", "default_branch": "main"}
    return {"ref": ref, "inputs": inputs or None, "repository": repository, "sender": {"login": "octocat"}}


def test_a_dispatched_run_on_the_default_branch_audits_everything_and_writes_no_comment(tmp_path: Path) -> None:
    with stage(tmp_path, main=strict_evals(), policy="mode: full\nenforce: strict\n") as here:
        git(here.workspace, "checkout", "--quiet", here.base)
        here.environ["GITHUB_SHA"] = here.base
        done = here.run(event="workflow_dispatch", payload=dispatch(here, mode="smoke"), enforce="advisory")
        assert done.code == 0, done.text
        report = here.report
        assert (report["mode"], report["enforce"]) == ("smoke", "advisory")  # whoever may start it may loosen
        assert [skill["path"] for skill in report["skills"]] == ["skills/sums"]
        assert report["session_findings"] == []
        assert here.github.writes == []
        assert json.loads(done.outputs["changed-skills"]) == []
        all_outputs_are_there(done)


def test_a_dispatched_run_on_another_branch_may_only_tighten_and_look_at_a_part(tmp_path: Path) -> None:
    with stage(tmp_path, main=strict_evals(), policy="mode: quick\n") as here:
        here.environ["GITHUB_SHA"] = here.head
        payload = dispatch(here, "refs/heads/feature", paths="skills/sums")
        done = here.run(event="workflow_dispatch", payload=payload, mode="smoke")
        assert here.report["mode"] == "quick"
        (finding,) = [one for one in here.report["session_findings"] if one["rule"] == "input/loosens"]
        assert "the input mode" in finding["message"]
        assert json.loads(done.outputs["changed-skills"]) == ["skills/sums"]
        assert here.github.writes == []


def test_what_a_dispatched_run_is_compared_with_does_not_choose_the_policy(tmp_path: Path) -> None:
    with stage(tmp_path, main=strict_evals(), policy="mode: smoke\nenforce: strict\n") as here:
        git(here.workspace, "switch", "--quiet", "--create", "loose", here.base)
        (here.workspace / ".github/skill-gate.yml").write_text("enforce: advisory\n")
        git(here.workspace, "commit", "--all", "--quiet", "--message", "Looser")
        here.environ["GITHUB_SHA"] = here.head
        done = here.run(event="workflow_dispatch", payload=dispatch(here, "refs/heads/feature"), base="loose")
        assert (here.report["enforce"], here.report["mode"]) == ("strict", "smoke"), done.text
        assert json.loads(done.outputs["skills"]) == {"skills/sums": "conditional"}


def test_a_maintainer_run_measures_a_fork_and_reports_to_its_pull_request(tmp_path: Path) -> None:
    with stage(tmp_path, main=strict_evals(), policy=SMOKE) as here:
        here.pull.head_repository = None
        here.environ["GITHUB_SHA"] = here.base
        done = here.run(event="workflow_dispatch", payload=dispatch(here), pull_request=str(NUMBER), sha=here.head)
        assert done.outputs["verdict"] == "conditional", done.text
        assert len(here.comments) == 1
        assert here.statuses()[-1][0] == "success"


def test_a_maintainer_run_without_the_forks_commits_says_how_to_get_them(tmp_path: Path) -> None:
    with stage(tmp_path) as here:
        here.pull.head_repository = None
        here.push()
        here.environ["GITHUB_SHA"] = here.base
        here.github.fail(refused(404, "Not Found"), on="GET .*/git/trees", repeat=True)
        payload = dispatch(here, pr=str(NUMBER), sha=here.pull.head_sha)
        done = here.run(event="workflow_dispatch", payload=payload)
        assert done.code == 2
        assert f"ref: refs/pull/{NUMBER}/head" in done.text


@pytest.mark.parametrize("event", ["issue_comment", "workflow_call", "deployment"])
def test_any_other_event_judges_nothing_and_says_so(tmp_path: Path, event: str) -> None:
    with stage(tmp_path) as here:
        done = here.run(event=event, payload={"repository": {"id": 1, "full_name": "acme/skills"}})
        assert done.code == 0
        all_outputs_are_there(done)
        assert done.outputs["verdict"] == "not_measured"
        assert done.outputs["state"] == "pending"
        assert f"the event {event} is not one" in done.outputs["headline"]
        assert "Traceback" not in done.text
        assert here.github.writes == []


def test_an_event_with_secrets_for_strangers_runs_nothing(tmp_path: Path) -> None:
    with stage(tmp_path) as here:
        done = here.run(event="pull_request_target")
        assert done.code == 2
        assert "runs nothing on pull_request_target" in done.text
        assert here.github.asked == []
        assert here.server.requests == []
        assert not here.bundle.exists()
        all_outputs_are_there(done)


def test_a_closed_pull_request_is_left_alone(tmp_path: Path) -> None:
    with stage(tmp_path) as here:
        here.pull.state = "closed"
        done = here.run(payload={**here.payload(state="closed"), "action": "closed"})
        assert done.code == 0
        assert here.github.writes == []


@pytest.mark.parametrize("label", ["documentation", "::error::pwned\n##[error]pwned"])
def test_labels_change_nothing(tmp_path: Path, label: str) -> None:
    with stage(tmp_path, change=NO_SKILL_CHANGES) as here:
        done = here.run(payload={**here.payload(labels=[{"name": label}]), "action": "labeled"})
        assert done.code == 0
        assert {one.name for one in done.commands} == {"add-mask"}


# --- hostile text

HOSTILE = "::error::pwned ##[error]pwned @octocat <img src=x> `x` |"


def test_hostile_names_and_model_words_run_no_command_forge_no_output_and_ping_nobody(tmp_path: Path) -> None:
    folder = "skills/x\n::error::pwned\n##[error]pwned @octocat"
    text = (
        f"{HOSTILE}\n::set-output name=verdict::pass\n::stop-commands::pwnedpwned\n::add-mask::pass\n"
        "verdict<<EOF\npass\nEOF\n## Skill Gate: success\n"
    )
    files = {
        f"{folder}/SKILL.md": SKILL.replace("name: sums", "name: '@octocat ::error::pwned'").format(word="up"),
        f"{folder}/evals/evals.json": EVALS.replace('\\"Sums\\"', '\\"absent ::error::pwned @octocat\\"'),
    }
    change: dict[str, str | None] = {f"{folder}/SKILL.md": files[f"{folder}/SKILL.md"].replace("up", text)}

    def agent(request: Request) -> Reply:
        del request
        return Reply(text)

    with stage(tmp_path, main={**MAIN, **files}, change=change, policy="mode: quick\n", agent=agent) as here:
        done = here.run()
        assert here.report["skills"], done.text
        for one in done.commands:
            assert one.name in ("add-mask", "error", "warning", "notice"), one
            assert one.properties in ("", "title=Skill Gate")
        assert [one.text for one in done.commands if one.name == "add-mask"] == [KEY]
        # Even a runner that did not stop commands would find none in what was said.
        said = [
            line for line in done.log if not re.match(r"::(add-mask|stop-commands|error|warning|[0-9a-f]{32})", line)
        ]
        assert commands_in(said) == []
        all_outputs_are_there(done)
        assert done.outputs["verdict"] != "pass"
        assert all("\n" not in value for value in done.outputs.values())
        for shown in (here.comments[0], done.summary):
            html = MarkdownIt("gfm-like", {"html": True, "linkify": False}).render(shown)
            outside = re.sub(r"<code>.*?</code>", "", html, flags=re.DOTALL)
            assert not re.search(r"@octocat", outside)
            assert "<img" not in outside
            assert len(re.findall(r"<h2", html)) == 1
        state, description = here.statuses()[-1]
        assert state == done.outputs["state"]
        assert len(description) <= 140
        assert description.isprintable()


def test_a_key_that_is_also_an_input_of_another_kind_is_no_secret_of_the_log(tmp_path: Path) -> None:
    """Both spellings of an input, and the plain variable, are taken out; the first one counts."""
    with stage(tmp_path, change=NO_SKILL_CHANGES) as here:
        here.environ["INPUT_ANTHROPIC_API_KEY"] = "sk-ant-second-spelling-1234"
        done = here.run(anthropic_api_key=KEY)
        assert "sk-ant-second-spelling-1234" not in done.text.replace("::add-mask::sk-ant-second-spelling-1234", "")


# --- the post step


def killed(here: Stage) -> dict[str, str]:
    """The state of a step that was killed while it ran: no final status, a sandbox left."""
    state: dict[str, str] = {}

    def agent(app: App) -> App:
        def run(*arguments: object) -> Any:
            state.update(here.state)
            raise SystemExit(137)  # nothing of ours runs after it

        return replace(app, bind_models=run)

    with pytest.raises(SystemExit):
        here.run(app=agent)
    return state


def no_engine() -> Any:
    raise AssertionError("no engine")


def test_the_post_step_takes_back_what_a_killed_run_left(tmp_path: Path) -> None:
    with stage(tmp_path) as here:
        state = killed(here)
        assert here.statuses() == [("pending", status.RUNNING)]
        state["gate_sandboxes"] = "1"
        with here.sandbox.open(BoxSpec(session_id=state["gate_session"], label="l", image="@own")) as box:
            done = here.run("post", state=state)
            assert box.dead is not None
        assert done.code == 0
        assert here.statuses()[-1] == ("error", status.CANCELLED)
        assert "removed 1 containers and 2 volumes" in done.text
        assert here.comments == []


def test_the_post_step_leaves_a_run_that_ended_alone(tmp_path: Path) -> None:
    with stage(tmp_path, change=NO_SKILL_CHANGES) as here:
        here.run()
        before, asked = here.statuses(), len(here.github.asked)
        done = here.run("post", state=here.state, app=lambda app: replace(app, make_sandbox=no_engine))
        assert done.code == 0
        assert "no engine" not in done.text  # there may be none where nothing was to be run
        assert here.statuses() == before
        assert len(here.github.asked) == asked


def test_the_post_step_leaves_the_pending_status_of_a_newer_attempt_alone(tmp_path: Path) -> None:
    with stage(tmp_path) as here:
        state = killed(here)
        here.environ["GITHUB_RUN_ATTEMPT"] = "2"
        killed(here)
        here.run("post", state=state)
        assert [one for one, _ in here.statuses()] == ["pending", "pending"]


@pytest.mark.parametrize("state", [{}, {"gate_sha": "0" * 40, "gate_context": "skill-gate", "gate_sandboxes": "1"}])
def test_the_post_step_exits_0_whatever_it_finds(tmp_path: Path, state: dict[str, str]) -> None:
    with stage(tmp_path) as here:
        here.github.allow_problems = True
        done = here.run("post", state=state)
        assert done.code == 0
        assert "Traceback" not in done.text


def test_outside_of_a_job_the_action_says_how_to_run_by_hand(tmp_path: Path) -> None:
    with stage(tmp_path) as here:
        here.environ["GITHUB_EVENT_PATH"] = ""
        done = here.run(event="")
        assert done.code == 2
        assert "skill-gate run" in done.text


def test_state_and_outputs_are_read_by_the_runner_as_they_were_meant(tmp_path: Path) -> None:
    with stage(tmp_path) as here:
        here.run(payload=here.payload(draft=True))
        assert set(entries_in(here.folder / "state")) >= {"gate_sha", "gate_context", "gate_url", "gate_session"}
        assert here.state["gate_sha"] == here.head
