from __future__ import annotations

import threading
from dataclasses import replace
from pathlib import Path

import pytest

from gate.cli.app import App
from gate.cli.runner import SUMMARY_BYTES, Runner
from gate.wiring import bind
from tests.pipeline.action_stage import commands_in, entries_in


def app(log: list[str], **environ: str) -> App:
    return replace(bind({"GITHUB_ACTIONS": "true", **environ}), say=log.append)


def test_nothing_that_is_said_in_the_block_is_a_command_but_what_is_annotated_is() -> None:
    log: list[str] = []
    with Runner(app(log)) as runner:
        runner.say("::error::one\n ::set-output name=x::y\nword ##[error]two")
        log.append("::error::printed by a library")
        runner.annotate("warning", "50 % of\n::error::it")
        log.append("::error::printed by a library")
    log.append("::notice::after")
    assert [(one.name, one.text) for one in commands_in(log)] == [
        ("warning", "50 % of\n::error::it"),
        ("notice", "after"),
    ]


def test_the_token_is_new_each_time_and_can_be_guessed_by_nobody() -> None:
    log: list[str] = []
    with Runner(app(log)) as runner:
        for _ in range(5):
            runner.annotate("notice", "x")
    tokens = [line.removeprefix("::stop-commands::") for line in log if line.startswith("::stop-commands::")]
    assert len(set(tokens)) == 6
    assert all(len(token) == 32 for token in tokens)


def test_lines_of_several_threads_never_fall_between_resuming_and_stopping() -> None:
    log: list[str] = []
    with Runner(app(log)) as runner:

        def talk() -> None:
            for _ in range(200):
                runner.say("words")

        threads = [threading.Thread(target=talk) for _ in range(4)]
        for thread in threads:
            thread.start()
        for _ in range(50):
            runner.annotate("notice", "x")
        for thread in threads:
            thread.join()
    token, outside = None, []
    for line in log:
        if token is None:
            outside.append(line)
            token = line.removeprefix("::stop-commands::") if line.startswith("::stop-commands::") else None
        elif line == f"::{token}::":
            token = None
    assert "words" not in outside


def test_keys_are_blotted_out_and_tokens_are_never_printed_at_all() -> None:
    log: list[str] = []
    secrets = {
        "INPUT_ANTHROPIC-API-KEY": "sk-first\nsecond-line",
        "OPENAI_API_KEY": "sk-other",
        "INPUT_GITHUB-TOKEN": "ghs_token",
        "ACTIONS_RUNTIME_TOKEN": "runtime-token",
    }
    with Runner(app(log, **secrets)):
        pass
    assert [one.text for one in commands_in(log)] == ["sk-first", "second-line", "sk-other"]
    assert "ghs_token" not in "".join(log)
    assert "runtime-token" not in "".join(log)


def test_outside_of_a_job_it_speaks_to_people_only(tmp_path: Path) -> None:
    log: list[str] = []
    with Runner(replace(bind({"ANTHROPIC_API_KEY": "sk-secret"}), say=log.append)) as runner:
        runner.annotate("error", "words")
        runner.outputs({"verdict": "pass"})
        runner.summary("text")
        runner.save(sha="x")
    assert log == ["error: words"]


def test_files_hold_what_was_written_and_the_last_state_counts(tmp_path: Path) -> None:
    names = {"GITHUB_OUTPUT": "output", "GITHUB_STATE": "state", "GITHUB_STEP_SUMMARY": "summary"}
    runner = Runner(app([], **{variable: str(tmp_path / name) for variable, name in names.items()}))
    runner.outputs({"headline": "a=b<<EOF", "skills": "{}"})
    runner.save(sha="one")
    runner.save(sha="two", url="https://example.org/?a=b")
    runner.summary("# Words\n")
    assert entries_in(tmp_path / "output") == {"headline": "a=b<<EOF", "skills": "{}"}
    state = entries_in(tmp_path / "state")
    assert state == {"gate_sha": "two", "gate_url": "https://example.org/?a=b"}
    assert (tmp_path / "summary").read_text() == "# Words\n"
    after = Runner(app([], **{f"STATE_{name}": value for name, value in state.items()}))
    assert (after.saved("sha"), after.saved("resolved")) == ("two", "")


def test_a_file_that_cannot_be_written_is_said_and_nothing_breaks(tmp_path: Path) -> None:
    log: list[str] = []
    runner = Runner(app(log, GITHUB_OUTPUT=str(tmp_path / "gone/output")))
    runner.outputs({"verdict": "pass"})
    assert any("GITHUB_OUTPUT cannot be written" in line for line in log)


def test_a_page_that_is_full_gets_no_more(tmp_path: Path) -> None:
    page = tmp_path / "summary"
    page.write_bytes(b"x" * (SUMMARY_BYTES - 10))
    log: list[str] = []
    runner = Runner(app(log, GITHUB_STEP_SUMMARY=str(page)))
    runner.summary("é" * 6)
    assert page.stat().st_size == SUMMARY_BYTES - 10
    assert any("no room" in line for line in log)
    runner.summary("é" * 5)
    assert page.stat().st_size == SUMMARY_BYTES


@pytest.mark.parametrize(
    ("environ", "url"),
    [
        ({}, "https://ghe.example/acme/skills/actions/runs/5"),
        ({"GITHUB_RUN_ATTEMPT": "3"}, "https://ghe.example/acme/skills/actions/runs/5/attempts/3"),
        ({"GITHUB_RUN_ID": "x"}, ""),
        ({"GITHUB_SERVER_URL": "javascript:alert(1)"}, ""),
    ],
)
def test_the_run_is_linked_where_it_is_known(environ: dict[str, str], url: str) -> None:
    known = {"GITHUB_SERVER_URL": "https://ghe.example", "GITHUB_REPOSITORY": "acme/skills", "GITHUB_RUN_ID": "5"}
    assert Runner(app([], **{**known, **environ})).run_url == url


def test_the_workflow_is_named_where_it_is_known() -> None:
    assert Runner(app([], GITHUB_WORKFLOW_REF="a/b/.github/workflows/x.yml@refs/heads/m")).workflow_path == (
        ".github/workflows/x.yml"
    )
    assert Runner(app([])).workflow_path == ".github/workflows"


def test_paths_are_said_as_a_later_step_can_use_them(tmp_path: Path) -> None:
    outside = {"RUNNER_TEMP": "/github/runner_temp", "RUNNER_WORKSPACE": "/home/runner/work/skills"}
    runner = Runner(app([], GITHUB_WORKSPACE=str(tmp_path), **outside))
    assert runner.for_later_steps(tmp_path / "out/report.json") == "out/report.json"
    assert runner.for_later_steps(Path("/github/runner_temp/skill-gate")) == "/home/runner/work/_temp/skill-gate"
    plain = Runner(app([], GITHUB_WORKSPACE=str(tmp_path), RUNNER_TEMP="/tmp/here", RUNNER_WORKSPACE="/tmp"))
    assert plain.for_later_steps(Path("/tmp/here/skill-gate")) == "/tmp/here/skill-gate"
