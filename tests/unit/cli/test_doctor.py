from __future__ import annotations

import contextlib
import io
import json
import threading
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from gate.adapters.docker_sandbox import DockerSandbox
from gate.cli import main
from gate.protocols import Sandbox
from gate.wiring import bind
from tests.fakes.sandbox import Command, Ran, ScriptedBox, ScriptedSandbox
from tests.story import make_repository

HELD = {
    "interfaces": "lo", "routes": "", "Uid": "65534 65534 65534 65534", "CapEff": "0000000000000000",
    "CapBnd": "0000000000000000", "NoNewPrivs": "1", "Seccomp": "2", "etc": "no", "root": "no", "usr": "no",
    "skills": "no", "work": "yes", "keeper": "no", "names": "HOME LANG PATH", "socket": "", "memory": "805306368",
    "pids": "256", "room": "tmpfs 262144 0 262144 0% /work", "disk": "overlay 99999999 0 99999999 0% /",
}  # fmt: skip


def inside(**changes: str) -> Callable[[ScriptedBox, Command], Ran | bytes | str]:
    """What the commands of the self-check answer in a sandbox that holds, but for ``changes``."""
    seen = {**HELD, **changes}

    def program(box: ScriptedBox, command: Command) -> Ran | bytes | str:
        script = command.argv[2]
        if "say marker" in script:
            lines = {"marker": box.read("marker").decode(), **seen}
            return "".join(f"{name}\t{value}\n" for name, value in lines.items())
        if "sleep 60" in script:
            return Ran(exit_code=137, timed_out=True)
        if script.startswith("echo made"):
            box.write("made", b"made\n")
        return b""

    return program


def doctor(
    sandbox: Sandbox, *arguments: str, environ: dict[str, str] | None = None
) -> tuple[int, dict[str, dict[str, str]], list[str]]:
    """(exit code, what was found by name, lines for people)."""
    log: list[str] = []
    app = bind(dict(environ or {}), threading.Event())
    with contextlib.redirect_stdout(io.StringIO()) as printed:
        code = main(replace(app, make_sandbox=lambda *kind: sandbox, say=log.append), ["doctor", "--json", *arguments])
    data: dict[str, Any] = json.loads(printed.getvalue())
    assert data["exit_code"] == code
    return code, {item["name"]: item for item in data["found"]}, log


def test_a_sandbox_that_holds_and_a_key_are_all_that_is_needed() -> None:
    with ScriptedSandbox(inside()) as sandbox:
        code, found, log = doctor(sandbox, "--offline", environ={"ANTHROPIC_API_KEY": "sk-secret"})

    assert code == 0
    assert {item["state"] for item in found.values()} <= {"ok", "note", "skipped"}
    assert found["keys"]["text"] == "there is a key for anthropic"
    assert "sk-secret" not in "\n".join(log)


def test_without_a_key_it_says_what_still_works() -> None:
    with ScriptedSandbox(inside()) as sandbox:
        code, found, log = doctor(sandbox)

    assert code == 0
    assert found["keys"]["state"] == "warning"
    assert any("ANTHROPIC_API_KEY" in line for line in log)


@pytest.mark.requirements("R222")
@pytest.mark.parametrize(
    ("change", "name"),
    [
        ({"interfaces": "eth0 lo"}, "no network"),
        ({"routes": "eth0 00000000"}, "no network"),
        ({"CapBnd": "00000000a80425fb"}, "no privilege"),
        ({"CapBnd": ""}, "no privilege"),
        ({"NoNewPrivs": "0"}, "no privilege"),
        ({"Seccomp": "0"}, "system calls filtered"),
        ({"etc": "yes"}, "system read-only"),
        ({"usr": ""}, "system read-only"),
        ({"skills": "yes"}, "skill read-only"),
        ({"work": "no"}, "workspace writable"),
        ({"keeper": "yes"}, "keeper out of reach"),
        ({"names": "HOME OPENAI_API_KEY"}, "no key inside"),
        ({"names": ""}, "no key inside"),
        ({"socket": "/var/run/docker.sock"}, "no way to the engine"),
        ({"memory": "max"}, "memory limited"),
        ({"pids": "max"}, "processes limited"),
        ({"room": "/dev/sda1 99999999 0 99999999 0% /work"}, "workspace limited"),
    ],
)
def test_whatever_does_not_hold_is_named_and_nothing_should_run(change: dict[str, str], name: str) -> None:
    with ScriptedSandbox(inside(**change)) as sandbox:
        code, found, log = doctor(sandbox)

    assert code == 3
    assert found[name]["state"] == "failure"
    assert found[name]["remedy"]
    assert [item["name"] for item in found.values() if item["state"] == "failure"] == [name]
    assert any(line.startswith(f"FAILED  {name}") for line in log)


def test_a_variable_that_an_image_sets_itself_is_no_key() -> None:
    with ScriptedSandbox(inside(names="HOME GPG_KEY NODE_VERSION")) as sandbox:
        assert doctor(sandbox)[0] == 0


def test_an_answer_from_elsewhere_is_no_answer() -> None:
    with ScriptedSandbox(lambda box, command: "marker\tforged\n") as sandbox:
        code, found, _ = doctor(sandbox)

    assert code == 3
    assert "not answered from there" in found["sandbox"]["text"]


def test_little_disk_is_a_warning() -> None:
    with ScriptedSandbox(inside(disk="overlay 100 0 1000000 0% /")) as sandbox:
        code, found, _ = doctor(sandbox)

    assert (code, found["disk"]["state"]) == (0, "warning")


def test_no_engine_is_infrastructure_with_a_remedy() -> None:
    code, found, log = doctor(DockerSandbox("unix:///nowhere/docker.sock"))

    assert code == 3
    assert found["engine"]["remedy"]
    assert found["image"]["state"] == "skipped"
    assert any("what to do: Start Docker" in line for line in log)


def test_an_image_that_is_missing_is_named() -> None:
    with ScriptedSandbox(inside()) as sandbox:
        code, found, _ = doctor(sandbox, "--image", "no-such-image:1")

    assert code == 3
    assert "no-such-image:1" in found["image"]["text"]


def test_the_images_that_the_policy_gives_to_skills_are_looked_at_too(tmp_path: Path) -> None:
    image = "tools@sha256:" + "1" * 64
    policy = f'skills:\n  "skills/sums":\n    image: "{image}"\n'
    repository = make_repository(tmp_path / "repository", {".github/skill-gate.yml": policy}, {})
    with ScriptedSandbox(inside(), images={"skill-gate-sandbox:dev": "sha256:" + "5" * 64}) as sandbox:
        code, found, _ = doctor(sandbox, "--repository", str(repository))

    assert code == 3
    assert image in found["policy, skills skills/sums"]["text"]


def test_a_policy_with_a_mistake_is_a_configuration_error_and_the_rest_is_looked_at(tmp_path: Path) -> None:
    repository = make_repository(tmp_path / "repository", {".github/skill-gate.yml": "modes: full\n"}, {})
    with ScriptedSandbox(inside()) as sandbox:
        code, found, _ = doctor(sandbox, "--repository", str(repository))

    assert code == 2
    assert found["policy"]["state"] == "failure"
    assert found["no network"]["state"] == "ok"


def test_a_folder_without_a_repository_has_no_policy_and_that_is_no_failure(tmp_path: Path) -> None:
    with ScriptedSandbox(inside()) as sandbox:
        code, found, _ = doctor(sandbox, "--repository", str(tmp_path))

    assert (code, found["policy"]["state"]) == (0, "note")


def test_in_a_job_without_a_token_it_says_that_nothing_can_be_written() -> None:
    images = {"@own": "sha256:" + "5" * 64}
    with ScriptedSandbox(inside(), images=images) as sandbox:
        code, found, _ = doctor(sandbox, environ={"GITHUB_ACTIONS": "true"})

    assert code == 0
    assert found["token"]["state"] == "warning"


@pytest.mark.docker
def test_on_this_machine_everything_holds() -> None:
    sandbox = DockerSandbox()
    code, found, _ = doctor(sandbox)
    sandbox.close()

    assert code == 0, found
    held = {name for name, item in found.items() if item["state"] == "ok"}
    assert held >= {"engine", "image", "no network", "no privilege", "time-out ends everything", "files come out"}
