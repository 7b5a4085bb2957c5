from __future__ import annotations

import socket
import threading
from pathlib import Path
from typing import Any

import pytest

from tests.runner.environment import (
    Paths,
    effective_inputs,
    event_context,
    input_variables,
    job_variables,
    read_action,
)
from tests.runner.forward import Forwarder

ACTION = {"inputs": {"fail-on": {}, "token": {"default": "${{ github.token }}"}}, "runs": {"using": "docker"}}


def test_only_values_that_begin_with_a_mounted_path_are_turned(tmp_path: Path) -> None:
    paths = Paths(tmp_path, "acme/skills")
    turned = {
        str(paths.workspace): "/github/workspace",
        f"{paths.workspace}/a": "/github/workspace/a",
        f"{paths.commands}/set_output_1": "/github/file_commands/set_output_1",
        str(paths.home): "/github/home",
        str(paths.temp): "/github/runner_temp",
        f"{paths.workspace}/bin:/usr/bin": "/github/workspace/bin:/usr/bin",
        f"/usr/bin:{paths.workspace}/bin": f"/usr/bin:{paths.workspace}/bin",
        f"{paths.workspace}-other": f"{paths.workspace}-other",
        str(paths.outer): str(paths.outer),
    }
    assert {value: paths.inside(value) for value in turned} == turned


def test_inputs_keep_their_dashes_and_those_left_out_are_empty() -> None:
    values = effective_inputs(ACTION, {"extra input": "x"}, "ghs_1")
    assert input_variables(values) == {"INPUT_FAIL-ON": "", "INPUT_TOKEN": "ghs_1", "INPUT_EXTRA_INPUT": "x"}


def test_a_default_that_is_another_expression_is_refused() -> None:
    action = {"inputs": {"a": {"default": "${{ github.actor }}"}}, "runs": {"using": "docker"}}
    with pytest.raises(NotImplementedError):
        effective_inputs(action, {}, "")


def test_only_docker_actions_are_run() -> None:
    with pytest.raises(ValueError, match="not the description of a Docker container action"):
        read_action({"runs": {"using": "composite"}})


def test_a_pull_request_job_is_at_the_test_merge_and_not_at_the_head(tmp_path: Path) -> None:
    pull = {
        "number": 7,
        "merge_commit_sha": "c" * 40,
        "head": {"ref": "feature", "sha": "a" * 40},
        "base": {"ref": "main", "sha": "b" * 40},
    }
    facts = event_context("pull_request", {"pull_request": pull})
    assert facts["GITHUB_SHA"] == "c" * 40
    assert facts["GITHUB_REF"] == "refs/pull/7/merge"
    assert facts["GITHUB_HEAD_REF"] == "feature"
    assert event_context("pull_request_target", {"pull_request": pull})["GITHUB_SHA"] == "b" * 40
    variables = job_variables(Paths(tmp_path, "acme/skills"), "pull_request", {"pull_request": pull}, "acme/skills")
    assert "GITHUB_TOKEN" not in variables
    assert variables["ACTIONS_RUNTIME_TOKEN"]


def test_a_forwarder_carries_both_directions_and_frees_its_port_at_the_end() -> None:
    server = socket.create_server(("127.0.0.1", 0))

    def echo() -> None:
        connection, _ = server.accept()
        with connection:
            data = b""
            while piece := connection.recv(65_536):
                data += piece
            connection.sendall(data[::-1])

    thread = threading.Thread(target=echo, daemon=True)
    thread.start()
    with server, Forwarder("127.0.0.1", server.getsockname()[1]) as forwarder:
        host, _, port = forwarder.host.partition(":")
        with socket.create_connection((host, int(port)), timeout=10) as client:
            client.sendall(b"abc" * 100_000)
            client.shutdown(socket.SHUT_WR)
            answer = b""
            while piece := client.recv(65_536):
                answer += piece
        thread.join(10)
    assert answer == b"cba" * 100_000
    with pytest.raises(OSError, match="refused"):
        socket.create_connection((host, int(port)), timeout=5)


def test_a_connection_to_nobody_is_closed_and_does_not_end_the_forwarder() -> None:
    spare = socket.create_server(("127.0.0.1", 0))
    port = spare.getsockname()[1]
    spare.close()
    with Forwarder("127.0.0.1", port) as forwarder:
        host, _, mine = forwarder.host.partition(":")
        for _ in range(2):
            with socket.create_connection((host, int(mine)), timeout=10) as client:
                assert client.recv(1) == b""


@pytest.mark.parametrize(
    ("name", "payload", "ref", "sha"),
    [
        ("push", {"ref": "refs/tags/v1", "after": "a" * 40}, "refs/tags/v1", "a" * 40),
        (
            "merge_group",
            {"merge_group": {"head_ref": "refs/heads/q/main/x", "head_sha": "b" * 40}},
            "refs/heads/q/main/x",
            "b" * 40,
        ),
        ("release", {"release": {"tag_name": "v2"}, "sha": "c" * 40}, "refs/tags/v2", "c" * 40),
        ("create", {"ref": "v3", "ref_type": "tag", "sha": "d" * 40}, "refs/tags/v3", "d" * 40),
        ("schedule", {"schedule": "0 3 * * *", "sha": "e" * 40}, "refs/heads/main", "e" * 40),
    ],
)
def test_each_event_has_its_own_commit_and_ref(name: str, payload: dict[str, Any], ref: str, sha: str) -> None:
    context = event_context(name, payload)
    assert (context["GITHUB_REF"], context["GITHUB_SHA"]) == (ref, sha)
