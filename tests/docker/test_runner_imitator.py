"""The imitated runner itself, on containers that show what it gives them and how it ends them."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import pytest

from tests.runner import Runner

pytestmark = pytest.mark.docker

IMAGE = "skill-gate-sandbox:dev"
TOKEN = "ghs_of_the_job_1234567890"


def shell(script: str) -> dict[str, Any]:
    """An action whose container runs a script."""
    inputs = {"fail-on": {"default": "high"}, "with space": {}, "token": {"default": "${{ github.token }}"}}
    runs = {"using": "docker", "image": "Dockerfile", "entrypoint": "/bin/sh", "args": ["-c", script]}
    return {"inputs": inputs, "runs": {**runs, "post-entrypoint": "/usr/bin/printenv"}}


def test_a_container_gets_the_runners_folder_home_mounts_and_variables_and_no_token(tmp_path: Path) -> None:
    script = (
        "pwd; echo HOME=$HOME; stat -c %u . ; tr '\\0' '\\n' < /proc/1/environ; cat /proc/self/mountinfo | cut -d' ' -f5 | grep -E '^/(github|run|var)'; "
        "id -u; cat $GITHUB_EVENT_PATH"
    )
    with Runner(tmp_path, IMAGE, shell(script), token=TOKEN) as runner:
        done = runner.run("workflow_dispatch", {"ref": "refs/heads/main"}, {"with space": "a b"}, {"EXTRA": "1"})
    lines = done.raw_log.splitlines()
    assert lines[:2] == ["/github/workspace", "HOME=/github/home"]
    assert lines[2] != "0"
    for line in (
        "INPUT_FAIL-ON=high",
        "INPUT_WITH_SPACE=a b",
        f"INPUT_TOKEN={TOKEN}",
        "GITHUB_ACTIONS=true",
        "CI=true",
        "EXTRA=1",
        "GITHUB_WORKSPACE=/github/workspace",
        "GITHUB_EVENT_PATH=/github/workflow/event.json",
        "RUNNER_TEMP=/github/runner_temp",
        f"RUNNER_WORKSPACE={runner.paths.outer}",
        f"RUNNER_TOOL_CACHE={runner.paths.tools}",
        "/github/home",
        "/github/workflow",
        "/github/file_commands",
        "/github/runner_temp",
        "0",
        '{"ref": "refs/heads/main"}',
    ):
        assert line in lines, line
    assert any(line.endswith("/docker.sock") for line in lines)
    assert not any(line.startswith("GITHUB_TOKEN=") for line in lines)
    assert next(line for line in lines if line.startswith("GITHUB_OUTPUT=")).startswith(
        "GITHUB_OUTPUT=/github/file_commands/set_output_"
    )
    assert TOKEN not in done.log


def test_what_a_step_writes_is_read_and_its_post_step_gets_the_state(tmp_path: Path) -> None:
    script = (
        'printf "a=1\\nb<<X\\ntwo\\nlines\\nX\\n" >> $GITHUB_OUTPUT; echo gate_sha=abc >> $GITHUB_STATE; '
        'echo "hidden-word shown" >> $GITHUB_STEP_SUMMARY; echo "::add-mask::hidden-word"; echo "hidden-word"; '
        'echo "::warning file=a.md::careful" >&2; touch left; exit 5'
    )
    with Runner(tmp_path, IMAGE, shell(script)) as runner:
        done = runner.run("push")
        runner.action["runs"]["args"] = ["STATE_gate_sha"]
        posted = runner.post()
    assert (done.exit_code, done.conclusion) == (5, "failure")
    assert done.outputs == {"a": "1", "b": "two\nlines"}
    assert done.summary == "*** shown\n"
    # Both streams are heard, in no order between them.
    assert sorted(done.log.splitlines()) == ["##[warning]careful", "***"]
    assert [(one.level, one.message, one.properties) for one in done.annotations] == [
        ("warning", "careful", {"file": "a.md"})
    ]
    assert done.foreign_files == ("left",)
    assert posted.log == "abc"


def test_an_output_file_that_cannot_be_read_fails_a_step_that_ended_well(tmp_path: Path) -> None:
    with Runner(tmp_path, IMAGE, shell("printf 'a<<X\\nvalueX\\n' >> $GITHUB_OUTPUT")) as runner:
        done = runner.run("push")
    assert (done.exit_code, done.conclusion) == (0, "failure")
    assert "GITHUB_OUTPUT" in done.annotations[0].message


def test_a_carriage_return_begins_a_line_and_so_a_command(tmp_path: Path) -> None:
    with Runner(tmp_path, IMAGE, shell(r"printf 'a file called\r::error::forged\n'")) as runner:
        assert [one.message for one in runner.run("push").annotations] == ["forged"]


@pytest.mark.parametrize(
    ("script", "ended_by", "leaves_its_container"),
    [
        ("exec python3 -c 'import time; time.sleep(60)'", "SIGINT", False),
        ("trap '' INT; trap 'exit 3' TERM; while :; do sleep 0.1; done", "SIGTERM", False),
        ("sleep 60; true", "SIGKILL", True),  # a shell as process 1 hands no signal on
    ],
)
def test_a_cancelled_step_is_asked_twice_and_then_killed_and_its_container_may_outlive_it(
    tmp_path: Path, script: str, ended_by: str, *, leaves_its_container: bool
) -> None:
    with Runner(tmp_path, IMAGE, shell(f"echo ready; {script}")) as runner:
        step = runner.start("push")
        while "ready" not in step.commands.raw and step.is_running:
            time.sleep(0.02)
        done = step.cancel((2.0, 1.0))
    assert done.conclusion == "cancelled"
    assert done.ended_by == ended_by
    assert bool(done.leftovers) is leaves_its_container
    assert (done.gone_s is None) is leaves_its_container
