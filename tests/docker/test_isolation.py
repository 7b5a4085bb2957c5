"""Nobody gets out: every attempt runs in a sandbox of the gate and, as a control, in a container as people start them.

In the control each attempt must succeed; an attempt that nothing could make succeed proves nothing where it fails.
``python -m tests.docker.test_isolation`` prints the table.
"""

from __future__ import annotations

import contextlib
import hashlib
import hmac
import json
import os
import secrets
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import docker
import pytest
from docker.types import Ulimit

from gate.adapters.docker_sandbox import DockerSandbox
from gate.adapters.docker_sandbox.creation import this_owner
from gate.domain.sandbox import BoxSpec, PutFile
from gate.domain.suite import FixtureFile
from gate.execution.arms import assert_arm, skill_files, skill_folder, workspace_files
from tests.bench._figures import table
from tests.builders_skill import a_case, a_file, a_skill
from tests.docker import _probes
from tests.docker.conftest import IMAGE

if TYPE_CHECKING:
    from docker import DockerClient
    from docker.models.containers import Container

    from gate.domain.skill import Skill
    from gate.protocols import Box

pytestmark = [pytest.mark.docker, pytest.mark.timeout(240)]

SOURCE = Path(_probes.__file__).read_text(encoding="utf-8")
PORT = 47_123
NAMES = (
    "key", "credential", "arm", "argv", "residue",
    "eval", "truth", "expectation", "history", "neighbour", "policy", "bundle", "skill",
)  # fmt: skip
HELD_OPEN = [
    "SYS_ADMIN", "NET_ADMIN", "NET_RAW", "SYS_PTRACE", "SYS_MODULE", "SYS_RAWIO", "SYS_CHROOT", "SYS_NICE", "SYS_TIME",
    "MKNOD", "SYSLOG", "DAC_READ_SEARCH", "KILL",
]  # fmt: skip
ARM_GROUPS = ("what judges", "keys")


@dataclass(frozen=True)
class Answer:
    """What became of one attempt in one place."""

    ran_there: bool
    reached: bool
    said: str


@dataclass(frozen=True)
class Results:
    """Attempt -> answer: in the baseline's sandbox, in the arm with the skill, in the control."""

    held: dict[str, Answer]
    with_skill: dict[str, Answer]
    control: dict[str, Answer]
    arm_seen_by_itself: dict[str, Answer]

    def rows(self) -> list[list[str]]:
        """For the table."""
        rows = []
        for name, (group, _) in _probes.ATTEMPTS.items():
            held, control = self.held.get(name), self.control.get(name)
            rows.append([f"{group}: {name}", _word(held), _word(control), held.said[:40] if held else ""])
        return rows

    def escapes(self) -> list[str]:
        """Attempts that got out, or of which nothing proves that they ran where they had to."""
        return [name for name in _probes.ATTEMPTS if not _is_held(self.held.get(name))]


def _word(answer: Answer | None) -> str:
    if answer is None or not answer.ran_there:
        return "did not run"
    return "REACHED" if answer.reached else "held"


def _is_held(answer: Answer | None) -> bool:
    return answer is not None and answer.ran_there and not answer.reached


def _read(output: bytes, nonce: bytes) -> dict[str, Answer]:
    found = {}
    for line in output.decode("utf-8", "replace").splitlines():
        if line.startswith("{"):
            data: dict[str, Any] = json.loads(line)
            mark = hmac.new(nonce, data["name"].encode(), hashlib.sha256).hexdigest()
            found[data["name"]] = Answer(mark == data["mark"], data["reached"], data["said"])
    return found


def _program(function: str, config: dict[str, Any]) -> str:
    return f"{SOURCE}\n{function}({json.dumps(config)!s})\n"


class World:
    """What there is to be reached, and the places to reach it from."""

    def __init__(self, client: DockerClient, sandbox: DockerSandbox, folder: Path) -> None:
        self._client = client
        self._sandbox = sandbox
        self._folder = folder
        self._session = f"isolation-{secrets.token_hex(4)}"
        self._labels = {"gate.session": self._session, "gate.owner": this_owner()}
        self._canaries = {name: f"canary-{name}-{secrets.token_hex(12)}" for name in NAMES}
        self._rest = contextlib.ExitStack()
        self._config: dict[str, Any] = {"port": PORT, "canaries": {k: v[::-1] for k, v in self._canaries.items()}}

    def results(self) -> Results:
        """Run everything."""
        with self._rest:
            self._start_gate()
            neighbour, network = self._start_neighbour()
            bridge = self._client.api.inspect_network("bridge")["IPAM"]["Config"][0]
            address = self._client.api.inspect_container(str(neighbour.id))["NetworkSettings"]["Networks"][network]
            self._config |= {
                "gateway": address["Gateway"],
                "sibling": address["IPAddress"],
                "docker0": bridge.get("Gateway") or bridge["Subnet"].rpartition(".")[0] + ".1",
            }
            answers: dict[str, dict[str, Answer]] = {}
            control = threading.Thread(target=lambda: answers.update(control=self._control(neighbour)))
            control.start()
            try:
                held, with_skill, itself = self._held()
            finally:
                control.join()
            return Results(held, with_skill, answers.get("control", {}), itself)

    # --- the world outside

    def _start_gate(self) -> None:
        """A process of the host that has a key, as the gate has one."""
        environment = {**os.environ, "ANTHROPIC_API_KEY": self._canaries["key"]}
        command = [sys.executable, "-c", "import time; time.sleep(600)", self._canaries["key"]]
        gate = subprocess.Popen(command, env=environment)
        self._rest.callback(gate.wait)
        self._rest.callback(gate.kill)
        home = self._folder / ".docker"
        home.mkdir()
        (home / "config.json").write_text(json.dumps({"auths": {"example": {"auth": self._canaries["credential"]}}}))

    def _start_neighbour(self) -> tuple[Container, str]:
        """The other arm as people start it, in a network of its own that plays the cloud as well."""
        network = self._client.networks.create(self._session, driver="bridge", labels=self._labels)
        self._rest.callback(network.remove)
        made = self._naive(
            ["python3", "-I", "-B", "-c", _program("other_arm", self._config), self._canaries["argv"]],
            environment={"ARM": self._canaries["arm"], "ANTHROPIC_API_KEY": self._canaries["key"]},
            network=self._session,
            networking_config={self._session: self._client.api.create_endpoint_config(aliases=["other-arm"])},
            ipc_mode="shareable",
        )
        _until(lambda: b"ready" in made.logs())
        return made, self._session

    def _naive(self, command: list[str], **how: Any) -> Container:
        api = self._client.api
        network, networking = how.pop("network", None), how.pop("networking_config", None)
        host = api.create_host_config(
            cap_add=HELD_OPEN,
            security_opt=["seccomp=unconfined", "apparmor=unconfined"],
            pid_mode="host",
            binds=["/sys:/sys", "/dev:/host-dev", "/var/run/docker.sock:/var/run/docker.sock"],
            network_mode=how.pop("network_mode", network),
            ipc_mode=how.pop("ipc_mode", None),
            device_cgroup_rules=["a *:* rwm"],
            volumes_from=how.pop("volumes_from", None),
            ulimits=[Ulimit(name="core", soft=0, hard=-1)] if _may_dump() else None,
        )
        host["MaskedPaths"] = host["ReadonlyPaths"] = []
        made = api.create_container(
            IMAGE,
            command,
            user="0:0",
            host_config=host,
            labels=self._labels,
            volumes=["/work"],
            networking_config=api.create_networking_config(networking) if networking else None,
            **how,
        )
        container = self._client.containers.get(made["Id"])
        self._rest.callback(container.remove, v=True, force=True)
        container.start()
        return container

    # --- where attempts run

    def _control(self, neighbour: Container) -> dict[str, Answer]:
        """A container that shares with its neighbour, holds the whole repository and was used before."""
        made = self._naive(
            ["sleep", "600"],
            environment={"ANTHROPIC_API_KEY": self._canaries["key"]},
            network_mode=f"container:{neighbour.id}",
            ipc_mode=f"container:{neighbour.id}",
            volumes_from=[neighbour.id],
        )
        nonce = secrets.token_hex(16).encode()
        files = {
            "work/here": nonce,
            "work/.skill-gate/sentinel": b"sentinel",
            "work/bundle/transcript.md": self._canaries["bundle"].encode(),
            "root/.docker/config.json": (self._folder / ".docker" / "config.json").read_bytes(),
            "root/key": self._canaries["key"].encode(),
            **{f"work/repository/{file.path}": file.data for file in self._repository()},
        }
        from gate.adapters.docker_sandbox.archives import pack

        packed = pack([PutFile(path=path, data=data) for path, data in files.items()], owner=0)
        self._client.api.put_archive(str(made.id), "/", packed)
        made.exec_run(["sh", "-c", "cp /bin/true /usr/local/bin/set; chmod u+s /usr/local/bin/set"])
        made.exec_run(["python3", "-I", "-B", "-c", _program("earlier_case", self._config)])
        ran: Any = made.exec_run(["python3", "-I", "-B", "-c", _program("main", self._config)], workdir="/work")
        assert ran.exit_code == 0, ran.output
        return _read(ran.output, nonce)

    def _repository(self) -> list[PutFile]:
        """The repository that the skill comes from, as somebody would copy it into a workspace."""
        own = self._canaries
        files = {
            ".git/objects/pack": own["history"],
            ".github/skill-gate.yml": own["policy"],
            ".claude/skills/other/SKILL.md": own["neighbour"],
            "skills/sums/SKILL.md": self._skill_text,
            "skills/sums/evals/evals.json": own["eval"] + own["truth"] + own["expectation"],
        }
        return [PutFile(path=path, data=text.encode()) for path, text in files.items()]

    @property
    def _skill(self) -> Skill:
        own = self._canaries
        evals = json.dumps({"prompt": "Add 1 and 2.", "x": [own["eval"], own["truth"], own["expectation"]]})
        return a_skill(body=f"# Sums\n\nAlways say {own['skill']} first.\n", files=(a_file("evals/evals.json", evals),))

    @property
    def _skill_text(self) -> str:
        return self._skill.text

    def _held(self) -> tuple[dict[str, Answer], dict[str, Answer], dict[str, Answer]]:
        """The arms of a case as the gate makes them, after an earlier case in a sandbox of the same image."""
        own = self._canaries
        skill = self._skill
        case = a_case(prompt="Add 1 and 2.").model_copy(
            update={
                "files": (
                    FixtureFile(path="numbers.txt", data=b"1 2"),
                    FixtureFile(path=".git/objects/pack", data=own["history"].encode()),
                    FixtureFile(path=".claude/skills/other/SKILL.md", data=own["neighbour"].encode()),
                    FixtureFile(path="copy.md", data=self._skill_text.encode()),
                    FixtureFile(
                        path="evals/evals.json",
                        data=json.dumps({"prompt": "Add 1 and 2.", "x": own["eval"]}).encode(),
                    ),
                )
            }
        )
        workspace = workspace_files(case, [skill])
        with self._key_in_environment():
            with self._sandbox.open(self._spec("earlier")) as box:
                left = box.exec(["python3", "-I", "-B", "-c", _program("earlier_case", self._config)], timeout_s=30)
                assert b"/work\n" in left.stdout, left.stderr
            with self._sandbox.open(self._spec("with_skill")) as arm, self._sandbox.open(self._spec("without")) as base:
                arm.put_workspace(workspace.files)
                arm.put_skill(skill_files(skill), name=skill_folder(skill))
                base.put_workspace(workspace.files)
                assert_arm(arm, skill, workspace)
                assert_arm(base, None, workspace)
                self._offer(arm)
                held = self._attempts(base)
                with_skill = self._attempts(arm)
        return held, with_skill, with_skill

    def _spec(self, label: str) -> BoxSpec:
        return BoxSpec(session_id=self._session, label=label, image=IMAGE)

    @contextlib.contextmanager
    def _key_in_environment(self) -> Iterator[None]:
        before = os.environ.get("ANTHROPIC_API_KEY")
        os.environ["ANTHROPIC_API_KEY"] = self._canaries["key"]
        try:
            yield
        finally:
            del os.environ["ANTHROPIC_API_KEY"]
            if before is not None:
                os.environ["ANTHROPIC_API_KEY"] = before

    def _offer(self, arm: Box) -> None:
        """The other arm does all that it can to be found."""
        program = _program("other_arm", self._config)
        script = 'ARM="$1" setsid python3 -I -B -c "$0" "$2" >/work/ready 2>/work/trouble </dev/null &'
        arm.exec(["sh", "-c", script, program, self._canaries["arm"], self._canaries["argv"]], timeout_s=30)
        _until(lambda: arm.exec(["cat", "/work/ready"], timeout_s=30).stdout == b"ready\n")

    def _attempts(self, box: Box) -> dict[str, Answer]:
        nonce = secrets.token_hex(16).encode()
        box.put_workspace([PutFile(path="here", data=nonce)])
        command = ["python3", "-I", "-B", "-c", _program("main", self._config)]
        ran = box.exec(command, timeout_s=120, output_cap_bytes=1_000_000)
        assert ran.exit_code == 0, ran.stderr
        return _read(ran.stdout, nonce)


def _may_dump() -> bool:
    import resource

    return resource.getrlimit(resource.RLIMIT_CORE)[1] == resource.RLIM_INFINITY


def _until(done: Any, seconds: float = 30) -> None:
    deadline = time.monotonic() + seconds
    while not done():
        assert time.monotonic() < deadline, "what was to be reached did not start"
        time.sleep(0.1)


@pytest.fixture(scope="module")
def results(engine: DockerClient, real_sandbox: DockerSandbox, tmp_path_factory: pytest.TempPathFactory) -> Results:
    return World(engine, real_sandbox, tmp_path_factory.mktemp("gate")).results()


@pytest.mark.requirements("R16", "R18", "R19", "R23")
@pytest.mark.parametrize("name", list(_probes.ATTEMPTS))
def test_no_attempt_gets_out_of_a_sandbox_and_each_succeeds_without_one(results: Results, name: str) -> None:
    held, control = results.held[name], results.control[name]

    assert held.ran_there, "it ran in the sandbox"
    assert control.ran_there, "it ran in the control"
    assert control.reached, f"the attempt can succeed: {control.said}"
    assert not held.reached, held.said


@pytest.mark.requirements("R16", "R23")
def test_the_arm_with_the_skill_holds_the_skill_and_nothing_that_judges(results: Results) -> None:
    reached = {
        name
        for name, (group, _) in _probes.ATTEMPTS.items()
        if group in ARM_GROUPS and not _is_held(results.with_skill.get(name))
    }

    assert reached == {"the skill under test, from the baseline, in any file"}


def test_what_is_looked_for_in_the_other_arm_is_really_there(results: Results) -> None:
    own = {
        name
        for name, (group, _) in _probes.ATTEMPTS.items()
        if group == "other arm" and results.arm_seen_by_itself[name].reached
    }

    assert own >= {
        "its port on the loopback",
        "its abstract socket",
        "its abstract socket in /proc/net/unix",
        "its socket in a folder",
        "its shared memory as a file",
        "its shared memory of System V",
        "its message queue of System V",
        "its semaphores of System V",
        "its POSIX message queue",
        "its files, anywhere in the file system",
        "its files by way of its processes",
        "its command lines",
        "its environment",
    }


def test_there_are_sixty_attempts_and_their_table_is_shown(
    results: Results, capsys: pytest.CaptureFixture[str]
) -> None:
    with capsys.disabled():
        print(f"\n{_table(results)}")

    assert len(_probes.ATTEMPTS) >= 60
    assert results.escapes() == []


def _table(results: Results) -> str:
    reached = sum(answer.reached for answer in results.control.values())
    head = ("attempt", "sandbox", "unhardened", "what the sandbox said")
    return (
        f"{table(head, results.rows())}\n"
        f"{len(results.rows())} attempts: {len(results.escapes())} escapes from the sandbox, {reached} from the control"
    )


def main() -> int:
    """Print the table. Exit: 0 nothing got out, 1 something did."""
    client, sandbox = docker.from_env(timeout=60), DockerSandbox()
    with tempfile.TemporaryDirectory() as folder:
        results = World(client, sandbox, Path(folder)).results()
    print(_table(results))
    return 1 if results.escapes() else 0


if __name__ == "__main__":
    raise SystemExit(main())
