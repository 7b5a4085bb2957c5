"""The image under the conditions of GitHub's runner: mounts, owner, environment, and what the tool user sees of it."""

from __future__ import annotations

import hashlib
import json
import subprocess
import time
from pathlib import Path
from typing import Any

import docker
import pytest

from examples.demo.run_demo import SKILLS, arguments
from examples.demo.run_demo import make_repository as make_demo
from tests.runner import Forwarder, Runner, StepResult, bridge_address
from tests.runner.image import action_running, build, gate_image
from tests.scripted import generic
from tests.scripted.server import ScriptedServer
from tests.scripted.values import Reply, Request
from tests.story import git, make_repository, run_gate

pytestmark = [pytest.mark.docker, pytest.mark.timeout(900)]

SKILL = "---\nname: sums\ndescription: Adds numbers. Use when somebody asks for a sum.\n---\n# Sums\n\nAdd the numbers {word}.\n"
EVALS = json.dumps(
    {"skill_name": "sums", "evals": [{"id": 1, "prompt": "What is 1 and 2?", "expectations": ["A sum."]}]}
)
GIT_OF_THE_PULL_REQUEST = "#!/bin/sh\n: > /github/workspace/ran\nexit 1\n"


@pytest.fixture(scope="module")
def image() -> str:
    return gate_image()


def in_image(image: str, command: str, *options: str) -> subprocess.CompletedProcess[str]:
    """A shell command in a fresh container of the image."""
    line = ["docker", "run", "--rm", *options, "--entrypoint", "/bin/sh", image, "-c", command]
    return subprocess.run(line, capture_output=True, text=True, timeout=120, check=False)


def a_repository(folder: Path, **more: str) -> Path:
    """One skill with one case; the branch changes one word of it."""
    files = {"skills/sums/SKILL.md": SKILL.format(word="up"), "skills/sums/evals/evals.json": EVALS}
    return make_repository(folder, files, {"skills/sums/SKILL.md": SKILL.format(word="together"), **more})


def run_in_action(
    runner_folder: Path, image: str, repository: Path, *line: str, env: dict[str, str] | None = None, **more: Any
) -> tuple[StepResult, Runner]:
    """A command of the program as a step on a checkout of ``feature``."""
    with Runner(runner_folder, image, action_running(*line), env=env, **more) as runner:
        runner.checkout(repository, "feature")
        return runner.run("push", {"ref": "refs/heads/feature"}), runner


def test_the_image_says_its_version_and_checks_a_workspace_of_another_user(image: str, tmp_path: Path) -> None:
    done, _ = run_in_action(tmp_path / "runner", image, a_repository(tmp_path / "repository"), "check", "skills")
    assert done.exit_code == 0, done.log
    assert "1 skill, 1 eval case, 0 unusable" in done.log
    assert done.leftovers == ()
    assert done.foreign_files == ()
    version = subprocess.run(["docker", "run", "--rm", image, "--version"], capture_output=True, text=True, check=True)
    assert version.stdout.startswith("skill-gate, version ")


def test_the_image_brings_no_installer_no_test_suite_no_variable_and_no_user(
    image: str, engine: docker.DockerClient
) -> None:
    config = engine.images.get(image).attrs["Config"]
    assert [entry.partition("=")[0] for entry in config["Env"]] == ["PATH"]
    assert config["User"] == ""
    assert not config["Volumes"]
    assert config["Entrypoint"] == ["/opt/skill-gate/venv/bin/python", "-I", "/opt/skill-gate/app/entrypoint.py"]
    found = in_image(
        image,
        "find /opt/skill-gate -name tests -o -name pip -o -name '*.crt' -o -path '*/bin/*' -type f",
    )
    assert found.stdout.strip() == ""
    # Where the machine that builds has authorities of its own, they are used for building and stay out.
    authorities = in_image(image, "grep -c BEGIN /etc/ssl/certs/ca-certificates.crt")
    assert 100 < int(authorities.stdout) < 200


def test_the_clients_of_the_providers_and_of_github_find_authorities_to_trust(image: str) -> None:
    program = (
        "import certifi, httpx2, ssl; trusted = ssl.create_default_context(cafile=certifi.where()); "
        "print(httpx2.create_ssl_context().cert_store_stats()['x509_ca'] > 100, trusted.cert_store_stats()['x509_ca'] > 100)"
    )
    done = in_image(image, f'/opt/skill-gate/venv/bin/python -I -c "{program}"')
    assert done.stdout.split() == ["True", "True"], done.stderr


def test_the_tool_user_reads_nothing_of_the_gate(image: str) -> None:
    """The same image can be the sandbox: what judges is out of reach for what is judged."""
    confined = ("--user", "65534:65534", "--cap-drop", "ALL", "--security-opt", "no-new-privileges")
    attempts = (
        "ls /opt/skill-gate",
        "cat /opt/skill-gate/app/entrypoint.py",
        "cat /opt/skill-gate/app/gate/llm/prompts/grader.md",
        "/opt/skill-gate/venv/bin/python -c pass",
        "ls -d /opt/skill-gate/app/gate",
        "head -c 1 /opt/skill-gate/post",
    )
    script = "; ".join(f"{attempt} >/dev/null 2>>/tmp/said; echo $?" for attempt in attempts)
    assert in_image(image, script).stdout.split() == ["0"] * len(attempts)  # root can: these are the right names
    denied = in_image(image, f"{script}; grep -ci denied /tmp/said", *confined).stdout.split()
    assert "0" not in denied[:-1]
    assert denied[-1] == str(len(attempts))
    look = (
        "find / -xdev -path '*skill?gate*' -readable 2>/dev/null; python3 -c 'import gate' 2>/dev/null && echo imported"
    )
    assert in_image(image, look, *confined).stdout == ""
    loose = "find /opt/skill-gate ! -type l -perm /077; find / -xdev -type f -perm /6000"
    assert in_image(image, loose).stdout == ""


def test_the_image_as_sandbox_gives_the_demonstration_the_same_verdicts(image: str, tmp_path: Path) -> None:
    make_demo(tmp_path / "repository")
    done = run_gate(*arguments(tmp_path / "repository", tmp_path / "result", ["--image", image]))
    assert done.returncode == 1, done.stderr
    report = json.loads((tmp_path / "result/report.json").read_text())
    assert {one["path"]: one["verdict"] for one in report["skills"]} == dict(
        zip(SKILLS, ("pass", "fail", "pass"), strict=True)
    )


def test_files_reach_a_sibling_by_copy_while_a_bind_of_the_containers_own_path_would_be_empty(
    image: str, engine: docker.DockerClient, tmp_path: Path
) -> None:
    repository = a_repository(tmp_path / "repository")
    digest = hashlib.sha256(SKILL.format(word="together").encode()).hexdigest()
    seen: list[dict[str, Any]] = []
    inside: list[str] = []

    def agent(request: Request) -> Reply:
        if not request.turn:
            return Reply.calling(
                "bash", {"command": "sha256sum /skills/*/SKILL.md; ls -la /opt/skill-gate; ls -A /github"}
            )
        inside.extend(result.text for message in request.messages for result in message.tool_results)
        seen.extend(found.attrs for found in engine.containers.list(filters={"label": "gate.owner"}))
        return Reply("Sums: 3.")

    with (
        ScriptedServer(generic.scenario(agent=agent)) as server,
        Forwarder(bridge_address(engine), int(server.url.rpartition(":")[2])) as forwarder,
        Runner(
            tmp_path / "runner",
            image,
            action_running(
                "run", "--base", "origin/main", "--mode", "smoke", "--model", f"openai@http://{forwarder.host}/v1:agent",
                "--image", image, "--out", "/github/runner_temp/out",
            ),
        ) as runner,
    ):  # fmt: skip
        runner.checkout(repository, "feature")
        step = runner.start("push", {"ref": "refs/heads/feature"})
        own = step.container()
        done = step.wait()
    assert done.exit_code in (0, 1), done.log
    assert inside, done.log
    assert f"{digest}  /skills/" in inside[0]
    assert "Permission denied" in inside[0]
    mine = [facts for facts in seen if facts["Config"]["Labels"]["gate.owner"].startswith(own[:12])]
    assert mine
    for facts in mine:
        assert not facts["HostConfig"]["Binds"]
        assert {mount["Type"] for mount in facts["Mounts"]} == {"volume"}
        assert facts["Image"] == engine.images.get(image).id
    assert done.leftovers == ()
    assert done.foreign_files == ()
    # The control: what a sibling would have got, had the gate bound the path that it knows.
    assert (runner.paths.workspace / "skills/sums/SKILL.md").exists()
    there = engine.containers.run(
        image,
        ["-c", "ls -A /host/github 2>/dev/null || true"],
        entrypoint="sh",
        volumes={"/": {"bind": "/host", "mode": "ro"}},
        remove=True,
    )
    bound = engine.containers.run(
        image,
        ["-c", "ls -A /w"],
        entrypoint="sh",
        volumes={"/github/workspace": {"bind": "/w", "mode": "ro"}},
        remove=True,
    )
    if not there:
        engine.containers.run(
            image,
            ["-c", "rmdir /host/github/workspace /host/github"],
            entrypoint="sh",
            volumes={"/": {"bind": "/host", "mode": "rw"}},
            remove=True,
        )
        assert bound == b""


def test_a_checkout_of_another_user_stops_plain_git_but_not_the_gate(image: str, tmp_path: Path) -> None:
    repository = make_repository(tmp_path / "repository", {"README.md": "text"}, {"notes.txt": "text"})
    done, runner = run_in_action(
        tmp_path / "runner", image, repository, "run", "--base", "origin/main", "--out", "/github/runner_temp/out"
    )
    assert done.exit_code == 0, done.log
    assert "nothing to evaluate" in done.log
    plain = in_image(image, "git -C /w log -1", "-v", f"{runner.paths.workspace}:/w", "-e", "HOME=/github/home")
    assert plain.returncode != 0
    assert "dubious ownership" in plain.stderr


def test_what_earlier_steps_set_for_the_runners_machine_does_not_reach_the_gate(image: str, tmp_path: Path) -> None:
    """PATH and PYTHON* of setup-python, and programs of the pull request that an earlier step has put first."""
    folder = make_repository(
        tmp_path / "repository",
        {"README.md": "text"},
        {
            "bin/git": GIT_OF_THE_PULL_REQUEST,
            "gate/__init__.py": "raise SystemExit(9)",
            "json.py": "raise SystemExit(9)",
        },
    )
    (folder / "bin/git").chmod(0o755)
    git(folder, "add", "--all")
    git(folder, "commit", "--quiet", "--message", "executable")
    python = "/opt/hostedtoolcache/Python/3.12.7/x64"
    action = action_running("run", "--base", "origin/main", "--out", "/github/runner_temp/out")
    with Runner(tmp_path / "runner", image, action) as runner:
        runner.checkout(folder, "feature")
        workspace = runner.paths.workspace
        polluted = {
            "PATH": f"{workspace}/bin:{python}/bin:/home/runner/.local/bin",
            "PYTHONPATH": str(workspace),
            "PYTHONHOME": python,
            "PYTHONSTARTUP": f"{workspace}/json.py",
            "LD_LIBRARY_PATH": f"{python}/lib",
            "pythonLocation": python,
            "SSL_CERT_FILE": "/usr/local/share/ca-certificates/company.crt",
            "REQUESTS_CA_BUNDLE": "/usr/local/share/ca-certificates/company.crt",
            "GIT_DIR": "/nonexistent",
        }
        done = runner.run("push", {"ref": "refs/heads/feature"}, env=polluted)
        assert done.exit_code == 0, done.log
        assert "nothing to evaluate" in done.log
        assert not (workspace / "ran").exists()
        # The control: with that PATH a program that looks for git finds the pull request's.
        options = [
            option for name, value in polluted.items() for option in ("-e", f"{name}={runner.paths.inside(value)}")
        ]
        in_image(image, "git --version", "-v", f"{workspace}:/github/workspace", *options)
        assert (workspace / "ran").exists()


def test_an_engine_that_is_not_there_is_said_and_nothing_counts_as_judged(
    image: str, engine: docker.DockerClient, tmp_path: Path
) -> None:
    repository = a_repository(tmp_path / "repository")
    with (
        ScriptedServer(generic.scenario()) as server,
        Forwarder(bridge_address(engine), int(server.url.rpartition(":")[2])) as forwarder,
    ):
        model = f"openai@http://{forwarder.host}/v1:agent"
        line = ("run", "--base", "origin/main", "--mode", "smoke", "--model", model, "--out", "/github/runner_temp/out")
        for name, socket, words in (
            ("missing", None, "the socket /var/run/docker.sock does not exist"),
            ("folder", tmp_path / "nobody-made-this.sock", "/var/run/docker.sock is a folder"),
        ):
            done, runner = run_in_action(tmp_path / name, image, repository, *line, socket=socket)
            assert done.exit_code == 3, done.log
            skill = json.loads((runner.paths.temp / "out/report.json").read_text())["skills"][0]
            said = str(skill["reasons"])
            assert words in said
            assert "start docker" in said.lower()
            assert "Traceback" not in done.raw_log
    assert (tmp_path / "nobody-made-this.sock").is_dir()


def test_building_again_builds_nothing_and_says_what_the_image_is_made_of(image: str) -> None:
    assert build().returncode == 0
    started = time.monotonic()
    done = build()
    print(f"second build: {time.monotonic() - started:.1f} s\n{done.stderr}")
    assert done.returncode == 0
    assert "skill-gate-sandbox:dev is up to date" in done.stderr
    assert f"{image} is up to date" in done.stderr
    layers = done.stderr.partition(f"layers of {image}:")[2].strip().splitlines()
    assert len(layers) >= 4
    assert all("B  " in layer for layer in layers)
