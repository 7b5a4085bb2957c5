from __future__ import annotations

import json
import random
import shutil
import signal
import threading
import time
from pathlib import Path

import docker
import pytest

from tests.scripted import generic
from tests.scripted.server import ScriptedServer
from tests.scripted.values import Reply, Request
from tests.story import git, labelled, make_repository, run_gate, start_gate

pytestmark = [pytest.mark.docker, pytest.mark.timeout(300)]

SKILL = "---\nname: sums\ndescription: Adds numbers. Use when somebody asks for a sum.\n---\n# Sums\n\nAdd the numbers {word}.\n"
EVALS = json.dumps(
    {
        "skill_name": "sums",
        "evals": [
            {"id": 1, "prompt": "What is 1 and 2?", "expectations": ['The answer contains the word "Sums".']},
            {"id": 2, "prompt": "What is 3 and 4?", "expectations": ['The answer contains the word "Sums".']},
        ],
    }
)
CORPUS_SKILLS = (
    "NVIDIA__skills/skills/amc-setup-calibration-stack",
    "NVIDIA__skills/skills/mcore-split-pr",
    "NVIDIA__skills/skills/mcore-linting-and-formatting",
)


def a_repository(folder: Path) -> Path:
    """One skill with two cases; the branch changes one word of it."""
    return make_repository(
        folder,
        {"skills/sums/SKILL.md": SKILL.format(word="up"), "skills/sums/evals/evals.json": EVALS},
        {"skills/sums/SKILL.md": SKILL.format(word="together")},
    )


def models(server: ScriptedServer) -> list[str]:
    """Both dialects: the agent speaks one, the judges the other."""
    return ["--model", f"anthropic@{server.url}:agent", "--judge-model", f"openai@{server.openai_url}:judge"]


def report_of(out: Path) -> dict[str, object]:
    value: dict[str, object] = json.loads((out / "report.json").read_text())
    return value


def test_real_public_skills_run_the_whole_way(shared_dir: Path, tmp_path: Path) -> None:
    """Skills of the corpus as they were published; where one brings no cases, the suite of another repository is put beside it."""
    corpus = shared_dir / "corpus"
    main: dict[str, str] = {}
    branch: dict[str, str | None] = {}
    suites = ("NVIDIA__skills/skills/nv-generate-mr", "coreyhaines31__marketingskills/skills/ads")
    for index, source in enumerate(CORPUS_SKILLS):
        name = source.rsplit("/", 1)[-1]
        for file in sorted((corpus / source).rglob("*")):
            if file.is_file():
                main[f"skills/{name}/{file.relative_to(corpus / source)}"] = file.read_text(encoding="utf-8")
        suite = f"skills/{name}/evals/evals.json"
        if json.loads(main[suite]) == []:
            main[suite] = (corpus / suites[index - 1] / "evals/evals.json").read_text(encoding="utf-8")
        branch[f"skills/{name}/SKILL.md"] = main[f"skills/{name}/SKILL.md"] + "\nKeep the answer short.\n"
    make_repository(tmp_path / "repository", main, branch)
    with ScriptedServer(generic.scenario()) as server:
        done = run_gate(
            "run", "--repository", tmp_path / "repository", "--base", "main", "--mode", "quick",
            "--out", tmp_path / "out", *models(server),
        )  # fmt: skip
    assert done.returncode in (0, 1), done.stderr
    report = report_of(tmp_path / "out")
    skills = {str(skill["path"]): skill for skill in report["skills"]}  # type: ignore[attr-defined]
    assert sorted(skills) == sorted(f"skills/{source.rsplit('/', 1)[-1]}" for source in CORPUS_SKILLS)
    for skill in skills.values():
        assert skill["verdict"] in ("fail", "inconclusive", "conditional"), (skill["path"], skill["reasons"])
        with_arm = next(arm for arm in skill["arms"] if arm["arm"] == "with_skill")
        assert with_arm["planned"] == with_arm["completed"] == with_arm["activated"] > 0
        without = next(arm for arm in skill["arms"] if arm["arm"] == "without_skill")
        assert without["activated"] == 0
    assert run_gate("verify", tmp_path / "out").returncode == 0


@pytest.mark.requirements("R220")
def test_a_running_sandbox_has_no_network_no_capability_no_foreign_mount_and_no_key(
    engine: docker.DockerClient, tmp_path: Path
) -> None:
    canary = "sk-canary-7f3e9a1b5c2d8e4f6071"
    seen: list[dict[str, object]] = []
    inside: list[str] = []

    def agent(request: Request) -> Reply:
        if not request.turn:
            return Reply.calling("bash", {"command": "env; cat /proc/*/environ /proc/*/cmdline 2>/dev/null; sleep 1"})
        results = [result.text for message in request.messages for result in message.tool_results]
        inside.extend(results)
        running = engine.containers.list(filters={"label": "gate.owner"})
        seen.extend(found.attrs for found in running)
        return Reply("Sums: 3.")

    a_repository(tmp_path / "repository")
    with ScriptedServer(generic.scenario(agent=agent)) as server:
        done = run_gate(
            "run", "--repository", tmp_path / "repository", "--base", "main", "--mode", "smoke",
            "--out", tmp_path / "out", *models(server), ANTHROPIC_API_KEY=canary, OPENAI_API_KEY=canary,
        )  # fmt: skip
    assert seen, done.stderr
    for facts in seen:
        host, config = facts["HostConfig"], facts["Config"]
        assert isinstance(host, dict)
        assert isinstance(config, dict)
        assert host["NetworkMode"] == "none"
        assert host["CapDrop"] == ["ALL"]
        assert not host["CapAdd"]
        assert not host["Binds"]
        assert host["ReadonlyRootfs"] is True
        assert host["Privileged"] is False
        assert "no-new-privileges:true" in host["SecurityOpt"]
        mounts = facts["Mounts"]
        assert isinstance(mounts, list)
        assert {(mount["Type"], mount["Destination"]) for mount in mounts} == {
            ("volume", "/work"),
            ("volume", "/skills"),
        }
        names = {entry.split("=")[0] for entry in config["Env"]}
        assert names <= {"HOME", "LANG", "PATH", "TZ", "PYTHONDONTWRITEBYTECODE", "PYTHONHASHSEED", "LC_ALL", "TERM"}, (
            names
        )
    assert inside
    assert "HOME=/work/home" in inside[0]
    assert canary not in "".join(inside)
    assert canary not in done.stdout + done.stderr
    for path in (tmp_path / "out").rglob("*"):
        if path.is_file():
            assert canary.encode() not in path.read_bytes(), path


@pytest.mark.requirements("R225")
def test_a_model_server_that_is_down_is_an_error_and_nobody_is_blamed(tmp_path: Path) -> None:
    a_repository(tmp_path / "repository")
    done = run_gate(
        "run", "--repository", tmp_path / "repository", "--base", "main", "--out", tmp_path / "out",
        "--model", "openai@http://127.0.0.1:9/v1:agent",
    )  # fmt: skip
    assert done.returncode == 3
    report = report_of(tmp_path / "out")
    assert report["state"] == "error"
    skill = report["skills"][0]  # type: ignore[index]
    assert skill["verdict"] == "error"
    assert skill["authoritative"]["total"] == 0
    comment = (tmp_path / "out/report.md").read_text()
    assert "127.0.0.1:9" in comment
    assert "What to do" in comment
    assert "PASS" not in comment
    assert run_gate("verify", tmp_path / "out").returncode == 0


def test_a_model_server_that_dies_in_the_middle_is_an_error_too(tmp_path: Path) -> None:
    from tests.scripted.faults import HttpError

    calls = threading.Semaphore(1)  # one run at most is whole, whichever is first

    def agent(request: Request) -> Reply | HttpError:
        if calls.acquire(blocking=False):
            return Reply("Sums: 3.")
        return HttpError(500, "gone")

    a_repository(tmp_path / "repository")
    with ScriptedServer(generic.scenario(agent=agent)) as server:
        done = run_gate(
            "run", "--repository", tmp_path / "repository", "--base", "main", "--mode", "quick",
            "--out", tmp_path / "out", *models(server),
        )  # fmt: skip
    assert done.returncode == 3, done.stderr
    skill = report_of(tmp_path / "out")["skills"][0]  # type: ignore[index]
    assert skill["verdict"] == "error"


def test_no_change_is_a_success_without_engine_and_without_model(tmp_path: Path) -> None:
    make_repository(tmp_path / "repository", {"skills/sums/SKILL.md": SKILL.format(word="up")}, {"notes.txt": "text"})
    done = run_gate(
        "run", "--repository", tmp_path / "repository", "--base", "main", "--out", tmp_path / "out",
        DOCKER_HOST="unix:///nowhere.sock",
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert "nothing to evaluate" in str(report_of(tmp_path / "out")["headline"])


def test_an_engine_that_is_not_there_is_an_error_that_says_what_to_do(tmp_path: Path) -> None:
    a_repository(tmp_path / "repository")
    with ScriptedServer(generic.scenario()) as server:
        done = run_gate(
            "run", "--repository", tmp_path / "repository", "--base", "main", "--out", tmp_path / "out",
            *models(server), DOCKER_HOST="unix:///nowhere.sock",
        )  # fmt: skip
    assert done.returncode == 3
    skill = report_of(tmp_path / "out")["skills"][0]  # type: ignore[index]
    assert skill["verdict"] == "error"
    assert "engine" in str(skill["reasons"]).lower()


def test_interrupted_at_random_moments_nothing_is_left_behind(engine: docker.DockerClient, tmp_path: Path) -> None:
    a_repository(tmp_path / "repository")
    draw = random.Random(20260131)
    with ScriptedServer(generic.scenario()) as server:
        for number in range(10):
            out = tmp_path / f"out-{number}"
            process = start_gate(
                "run", "--repository", tmp_path / "repository", "--base", "main", "--mode", "quick", "--out", out,
                *models(server),
            )  # fmt: skip
            time.sleep(0.7 + 3 * draw.random())
            process.send_signal(signal.SIGINT if number % 2 else signal.SIGTERM)
            _, errors = process.communicate(timeout=60)
            # A signal before the program has set itself up ends it at once: then nothing was begun either.
            assert process.returncode in (0, 1, 130, -signal.SIGINT, -signal.SIGTERM), errors
            left = [name for name in labelled(engine) if f":{process.pid}" in name] or _owned_by(engine, process.pid)
            assert left == [], (number, errors)
            shutil.rmtree(out, ignore_errors=True)


def test_a_session_that_waits_for_a_model_ends_all_the_same(engine: docker.DockerClient, tmp_path: Path) -> None:
    asked = threading.Event()
    release = threading.Event()

    def agent(request: Request) -> Reply:
        asked.set()
        release.wait(60)
        return Reply("Sums: 3.")

    a_repository(tmp_path / "repository")
    try:
        with ScriptedServer(generic.scenario(agent=agent)) as server:
            process = start_gate(
                "run", "--repository", tmp_path / "repository", "--base", "main", "--mode", "smoke",
                "--out", tmp_path / "out", *models(server),
            )  # fmt: skip
            assert asked.wait(60)
            process.send_signal(signal.SIGINT)
            # The runner of GitHub kills 10 s after its first signal.
            _, errors = process.communicate(timeout=9)
            assert process.returncode == 130, errors
            assert _owned_by(engine, process.pid) == []
            release.set()
    finally:
        release.set()


def test_a_session_that_waits_for_the_first_answer_of_a_model_ends_too(tmp_path: Path) -> None:
    """The preflight asks before anything is opened; a provider that never answers must not hold the program."""
    asked, release = threading.Event(), threading.Event()

    def silent(request: Request) -> Reply:
        asked.set()
        release.wait(60)
        return Reply("ready")

    a_repository(tmp_path / "repository")
    try:
        with ScriptedServer(silent) as server:
            process = start_gate(
                "run", "--repository", tmp_path / "repository", "--base", "main", "--out", tmp_path / "out",
                "--model", f"openai@{server.openai_url}:agent",
            )  # fmt: skip
            assert asked.wait(60)
            process.send_signal(signal.SIGINT)
            _, errors = process.communicate(timeout=20)
            assert process.returncode == 130, errors
            release.set()
    finally:
        release.set()


def _owned_by(engine: docker.DockerClient, pid: int) -> list[str]:
    found = engine.api.containers(all=True, filters={"label": "gate.owner"})
    volumes = engine.api.volumes(filters={"label": "gate.owner"})["Volumes"] or []
    owned = [entry["Names"][0] for entry in found if entry["Labels"]["gate.owner"].endswith(f":{pid}")]
    return owned + [entry["Name"] for entry in volumes if entry["Labels"]["gate.owner"].endswith(f":{pid}")]


def test_the_default_is_what_changed_against_the_merge_base(tmp_path: Path) -> None:
    """A branch that is behind main judges its own change only."""
    folder = a_repository(tmp_path / "repository")
    git(folder, "switch", "--quiet", "main")
    (folder / "skills/other").mkdir(parents=True)
    (folder / "skills/other/SKILL.md").write_text(SKILL.replace("sums", "other").format(word="up"))
    git(folder, "add", "--all")
    git(folder, "commit", "--quiet", "--message", "Another skill, later")
    git(folder, "switch", "--quiet", "feature")
    done = run_gate("run", "--repository", folder, "--base", "main", "--out", tmp_path / "out")
    report = report_of(tmp_path / "out")
    assert [skill["path"] for skill in report["skills"]] == ["skills/sums"]  # type: ignore[attr-defined]
    assert done.returncode == 1  # a member's change without a key is a loud failure
