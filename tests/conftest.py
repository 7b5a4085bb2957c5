"""What every test may rely on: the engine or a reason why not, the shared folder or a reason why not, and a clean engine afterwards."""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, NoReturn

import hypothesis
import pytest

if TYPE_CHECKING:
    from docker import DockerClient
    from xdist.remote import Producer
    from xdist.scheduler import LoadScopeScheduling

IN_CI = os.environ.get("CI") == "true"
REQUIRE_DOCKER = IN_CI or os.environ.get("SKILL_GATE_REQUIRE_DOCKER") == "1"

OWNER_LABEL = "gate.owner"

os.environ["SKILL_GATE_CACHE"] = ""
"""No test finds what another one kept, and none fills the cache of whoever runs them."""

hypothesis.settings.register_profile("hand", deadline=None)
hypothesis.settings.register_profile("ci", deadline=None, derandomize=True, print_blob=True)
hypothesis.settings.load_profile("ci" if IN_CI else "hand")


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """The marker `docker` and the fixture `engine` imply each other, so that `-m docker` misses nothing."""
    for item in items:
        if not isinstance(item, pytest.Function):
            continue
        if "engine" in item.fixturenames:
            item.add_marker(pytest.mark.docker)
        elif item.get_closest_marker("docker"):
            item.fixturenames.insert(0, "engine")


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item: pytest.Item) -> None:
    if item.get_closest_marker("browser") and not (shutil.which("chromium") and shutil.which("chromedriver")):
        _unavailable("no chromium and chromedriver on this machine; .ci/browser installs them", required=IN_CI)


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Producer) -> LoadScopeScheduling:
    """Side by side (`-n 2`) go files, so that each builds its fixtures once; what counts on the engine goes one after another."""
    from xdist.scheduler import LoadScopeScheduling

    class ByFile(LoadScopeScheduling):  # type: ignore[misc]
        def _split_scope(self, nodeid: str) -> str:
            file = nodeid.partition("::")[0]
            return "engine" if file.startswith(("tests/docker/", "tests/bench/")) else file

    return ByFile(config, log)


def _unavailable(reason: str, *, required: bool) -> NoReturn:
    if required:
        pytest.fail(reason, pytrace=False)
    pytest.skip(reason)


def require_bubblewrap() -> None:
    """Skip unless bubblewrap can make a sandbox here; in CI as root, where .ci/bubblewrap has installed it, fail."""
    # Not all of /: other programs mount and unmount below it while it would be bound.
    folders = [word for name in ("usr", "bin", "lib", "lib64") for word in ("--ro-bind-try", f"/{name}", f"/{name}")]
    try:
        done = subprocess.run(
            ["bwrap", "--unshare-all", *folders, "true"], capture_output=True, timeout=60, check=False
        )
        works = done.returncode == 0
    except (OSError, subprocess.TimeoutExpired):
        works = False
    if not works:
        _unavailable(
            "no bubblewrap that may make namespaces; .ci/bubblewrap installs it", required=IN_CI and os.geteuid() == 0
        )


@pytest.fixture(scope="session")
def shared_dir() -> Path:
    """The folder `shared` beside the clone: the corpus of real skills and the prepared cases."""
    path = Path(__file__).resolve().parents[2] / "shared"
    if not path.is_dir():
        pytest.skip("no folder `shared` beside the clone: the corpus of real skills is not on this machine")
    return path


@pytest.fixture(scope="session")
def engine() -> Iterator[DockerClient]:
    """A client of a Docker engine that answers."""
    client = _connect()
    if client is None:
        _unavailable("no Docker engine answers; .ci/engine finds or starts one", required=REQUIRE_DOCKER)
    yield client
    client.close()


@pytest.fixture(scope="session", autouse=True)
def _nothing_left_behind(request: pytest.FixtureRequest) -> Iterator[None]:
    """Removes sandboxes and volumes that the tests of this session left on the engine, and makes the session fail for them.

    Autouse and session-wide, it is set up before and torn down after every other fixture.
    """
    client = _connect() if any(item.get_closest_marker("docker") for item in request.session.items) else None
    if client is None:
        yield
        return
    before = {*_labelled_containers(client), *_labelled_volumes(client)}
    yield
    leftovers = []
    for container_id, (name, owner) in _labelled_containers(client).items():
        if container_id not in before and not _belongs_to_another_session(owner):
            client.api.remove_container(container_id, v=True, force=True)
            leftovers.append(f"container {name} ({OWNER_LABEL}={owner})")
    for name, owner in _labelled_volumes(client).items():
        if name not in before and not _belongs_to_another_session(owner):
            client.api.remove_volume(name, force=True)
            leftovers.append(f"volume {name} ({OWNER_LABEL}={owner})")
    client.close()
    if leftovers:
        pytest.fail("left on the engine, now removed:\n  " + "\n  ".join(leftovers), pytrace=False)


def _connect() -> DockerClient | None:
    # Tests that need no engine need not pay for this import.
    import docker
    import docker.errors

    try:
        client = docker.from_env(timeout=60)
        client.ping()
    except docker.errors.DockerException:
        return None
    return client


def _labelled_containers(client: DockerClient) -> dict[str, tuple[str, str]]:
    found = client.api.containers(all=True, filters={"label": OWNER_LABEL})
    return {entry["Id"]: (entry["Names"][0].lstrip("/"), entry["Labels"][OWNER_LABEL]) for entry in found}


def _labelled_volumes(client: DockerClient) -> dict[str, str]:
    found = client.api.volumes(filters={"label": OWNER_LABEL})["Volumes"] or []
    return {entry["Name"]: entry["Labels"][OWNER_LABEL] for entry in found}


def _belongs_to_another_session(owner: str) -> bool:
    """Whether `owner` (host:boot:pid) is a living process of this machine that these tests did not start."""
    host, _, rest = owner.partition(":")
    pid = rest.rpartition(":")[2]
    if host != socket.gethostname() or not pid.isdigit():
        return False
    ancestor = int(pid)
    while ancestor > 1:
        if ancestor == os.getpid():
            return False
        try:
            stat = Path(f"/proc/{ancestor}/stat").read_text()
        except OSError:
            return False
        # The command's name is in brackets and may hold anything; the state and the parent follow it.
        ancestor = int(stat.rpartition(")")[2].split()[1])
    return True
