"""What bubblewrap holds beside what every sandbox promises (``tests/contract/test_sandbox_contract.py``)."""

from __future__ import annotations

import hashlib
import hmac
import json
import os
import secrets
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from gate.adapters.bubblewrap_sandbox import BubblewrapSandbox
from gate.domain.sandbox import BoxSpec, OneShotSpec, ProgramFile, PutFile
from gate.errors import BoxDeadError, SandboxError
from gate.protocols import Box
from tests.conftest import require_bubblewrap
from tests.docker import _probes

IMAGE = "skill-gate-sandbox:dev"
HELD_AS_A_CONTAINER_DOES = ("network", "other arm", "keys", "what judges", "residue")
"""Groups of attempts of the isolation tests; the others are about a container's own limits and filters."""
NOT_OF_AN_OTHER = (
    "the environment of somebody else's process",
    "the memory of somebody else's process",
    "the open files of somebody else's process",
    "the root of somebody else's process",
    "a signal to a process of another user",
    "the session's key ring of the kernel",
    "a change of the file that proves the collection",
)
"""Its first process has the same user and nothing to hide; a changed sentinel is noticed; no call is filtered."""


@pytest.fixture(autouse=True)
def _bubblewrap() -> None:
    require_bubblewrap()


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return tmp_path / "sandboxes"


@pytest.fixture
def sandbox(root: Path) -> BubblewrapSandbox:
    return BubblewrapSandbox(root)


@pytest.fixture
def box(sandbox: BubblewrapSandbox) -> Iterator[Box]:
    with sandbox.open(a_spec()) as made:
        yield made


def a_spec(session_id: str = "session", **changes: int) -> BoxSpec:
    return BoxSpec(session_id=session_id, label="a/b", image=IMAGE).model_copy(update=changes)


def bash(box: Box, script: str, timeout_s: float = 20) -> str:
    result = box.exec(["bash", "-c", script], timeout_s=timeout_s)
    return (result.stdout + result.stderr).decode("utf-8", "replace")


@pytest.mark.requirements("R16", "R18", "R23")
def test_what_matters_for_a_fair_comparison_is_held(box: Box) -> None:
    if not Path("/usr/bin/python3").exists():
        pytest.skip("no python3 in /usr, which is what commands see here")
    nonce = secrets.token_hex(16).encode()
    box.put_workspace([PutFile(path="here", data=nonce)])
    canary = f"canary-{secrets.token_hex(12)}"
    names = ("key", "credential", "arm", "argv", "residue", "eval", "truth", "expectation", "history", "neighbour",
             "policy", "bundle", "skill")  # fmt: skip
    config = {
        "port": 47_124, "gateway": "127.0.0.1", "docker0": "127.0.0.1", "sibling": "127.0.0.1",
        "canaries": dict.fromkeys(names, canary[::-1]),
    }  # fmt: skip
    environment = {**os.environ, "ANTHROPIC_API_KEY": canary}
    with subprocess.Popen([sys.executable, "-c", "import time; time.sleep(60)", canary], env=environment) as gate:
        source = Path(_probes.__file__).read_text(encoding="utf-8")
        program = f"{source}\nmain({json.dumps(config)})\n"
        ran = box.exec(["python3", "-I", "-B", "-"], stdin=program.encode(), timeout_s=120, output_cap_bytes=1_000_000)
        gate.kill()

    assert ran.exit_code == 0, ran.stderr
    answers = [json.loads(line) for line in ran.stdout.splitlines()]
    assert {answer["name"] for answer in answers} == set(_probes.ATTEMPTS)
    for answer in answers:
        mark = hmac.new(nonce, answer["name"].encode(), hashlib.sha256).hexdigest()
        assert answer["mark"] == mark, "it ran in the sandbox"
    reached = {
        answer["name"]: answer["said"]
        for answer in answers
        if answer["group"] in HELD_AS_A_CONTAINER_DOES and answer["reached"] and answer["name"] not in NOT_OF_AN_OTHER
    }
    assert reached == {}


def test_nothing_of_the_machine_is_seen_but_its_programs(box: Box) -> None:
    assert bash(box, "ls /").split() == sorted(
        name for name in ("bin", "dev", "etc", "lib", "lib32", "lib64", "libx32", "proc", "sbin", "skills", "tmp", "usr", "work")
        if Path(f"/{name}").exists() or name in ("skills", "work")
    )  # fmt: skip
    assert "No such file" in bash(box, "cat /etc/shadow")
    assert bash(box, "cut -d: -f1 /etc/passwd") == "nobody\n"


def test_it_says_that_it_is_weaker(sandbox: BubblewrapSandbox) -> None:
    facts = sandbox.facts()

    assert facts.weaker
    assert "weaker isolation" in facts.description
    assert [item.state for item in sandbox.examine()] == ["ok", "warning"]


def test_without_bubblewrap_it_says_how_to_get_it(sandbox: BubblewrapSandbox, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shutil, "which", lambda *_, **__: None)

    with pytest.raises(SandboxError, match="not on this machine") as caught:
        sandbox.facts()
    assert "apt install bubblewrap" in caught.value.remedy
    assert sandbox.examine()[0].state == "failure"


def test_it_has_no_images_and_runs_no_agent_programs(sandbox: BubblewrapSandbox, box: Box) -> None:
    with pytest.raises(SandboxError, match="has no images"):
        sandbox.resolve_image("node:22")
    with pytest.raises(SandboxError, match="Docker"):
        sandbox.install(IMAGE, "session", [ProgramFile(name="agent", source=Path("/bin/true"))])
    with pytest.raises(SandboxError, match="Docker"):
        box.connect(["relay"])


def test_a_time_out_ends_children_that_left_their_group_and_ignore_being_asked(box: Box) -> None:
    mark = f"4242{secrets.randbelow(10**6)}"
    result = box.exec(
        ["bash", "-c", f"trap '' TERM; setsid sleep {mark} & (trap '' TERM HUP; sleep {mark}) & sleep {mark}"],
        timeout_s=1,
    )

    assert result.timed_out
    assert not processes(f"sleep\0{mark}")


def processes(words: str) -> list[str]:
    found = []
    for folder in Path("/proc").iterdir():
        try:
            if words.encode() in (folder / "cmdline").read_bytes():
                found.append(folder.name)
        except OSError:
            continue
    return found


def test_what_a_command_left_in_the_background_ends_with_it(box: Box) -> None:
    mark = f"4343{secrets.randbelow(10**6)}"

    assert bash(box, f"setsid sleep {mark} >/dev/null 2>&1 & echo begun") == "begun\n"
    assert not processes(f"sleep\0{mark}")


def test_a_flood_is_cut_and_the_box_goes_on(box: Box) -> None:
    result = box.exec(["yes"], timeout_s=60)

    assert (result.exit_code, result.truncated, result.timed_out) == (137, True, False)
    assert result.stdout_bytes > 64 * 1024 * 1024
    assert len(result.stdout) <= 262_144
    assert bash(box, "echo alive") == "alive\n"


def test_memory_of_a_process_and_length_of_a_file_are_limited(sandbox: BubblewrapSandbox) -> None:
    with sandbox.open(a_spec(memory_mb=128, workspace_mb=16)) as box:
        assert box.exec(["python3", "-c", "x = bytearray(400 << 20)"], timeout_s=30).exit_code != 0
        assert box.exec(["truncate", "-s", "1T", "bomb"], timeout_s=30).exit_code != 0
        assert bash(box, "echo alive") == "alive\n"


def test_a_workspace_that_grows_over_its_quota_ends_the_box_and_is_the_agents_doing(sandbox: BubblewrapSandbox) -> None:
    script = "i=0; while :; do i=$((i+1)); head -c 4M /dev/zero > f$i; done"
    with sandbox.open(a_spec(workspace_mb=32)) as box:
        with pytest.raises(BoxDeadError, match="more than 32 MiB") as caught:
            box.exec(["bash", "-c", script], timeout_s=60)
        assert caught.value.agent_caused
        assert any(blob.path == "f1" for blob in box.collect().files), "its workspace is still evidence"


def test_files_are_not_put_through_a_link_that_a_command_made(box: Box, tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    bash(box, f"ln -s {outside} link; ln -s {outside}/file plain")

    with pytest.raises(SandboxError, match="link"):
        box.put_workspace([PutFile(path="link/file", data=b"x")])
    box.put_workspace([PutFile(path="plain", data=b"mine")])

    assert list(outside.iterdir()) == []
    assert bash(box, "cat plain") == "mine"


def test_a_workspace_that_was_locked_is_collected_and_removed(sandbox: BubblewrapSandbox, root: Path) -> None:
    with sandbox.open(a_spec()) as box:
        bash(box, "mkdir -p a/b; echo deep > a/b/c; chmod 0 a/b/c a/b a")
        assert [blob.path for blob in box.collect().files] == ["a/b/c"]
    assert not list(root.glob("*/*"))


def test_one_command_sees_its_oracle_and_cannot_change_it(sandbox: BubblewrapSandbox) -> None:
    spec = OneShotSpec(
        session_id="session",
        label="v",
        image=IMAGE,
        argv=("sh", "-c", "cat /oracle/truth; echo forged > /oracle/truth; cat /oracle/truth; echo $HOME; ls /skills"),
        oracle_files=(PutFile(path="truth", data=b"42\n"),),
    )
    result = sandbox.run_once(spec)

    assert result.stdout == b"42\n42\n/tmp\n"
    assert b"Read-only file system" in result.stderr


def test_killing_a_session_ends_a_command_that_runs(sandbox: BubblewrapSandbox) -> None:
    with sandbox.open(a_spec()) as box:
        timer = threading.Timer(0.5, sandbox.kill_all, ["session"])
        timer.start()
        with pytest.raises(BoxDeadError, match="told to stop") as caught:
            box.exec(["sleep", "600"], timeout_s=600)
        timer.join()
    assert not caught.value.agent_caused


ORPHAN = """
import sys
from pathlib import Path
from gate.adapters.bubblewrap_sandbox import BubblewrapSandbox
from gate.domain.sandbox import BoxSpec
with BubblewrapSandbox(Path(sys.argv[1])).open(BoxSpec(session_id="orphan", label="l", image=sys.argv[2])) as box:
    print("open", flush=True)
    box.exec(["sleep", sys.argv[3]], timeout_s=600)
"""


def test_a_killed_gate_leaves_no_process_and_the_reaper_removes_its_folders(
    sandbox: BubblewrapSandbox, root: Path
) -> None:
    mark = f"4444{secrets.randbelow(10**6)}"
    command = [sys.executable, "-c", ORPHAN, str(root), IMAGE, mark]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as gate:
        assert gate.stdout is not None
        assert gate.stdout.readline() == "open\n"
        until(lambda: processes(f"sleep\0{mark}"))
        assert sandbox.reap().removed_containers == 0, "its owner lives"
        gate.send_signal(signal.SIGKILL)
    until(lambda: not processes(f"sleep\0{mark}"))

    with sandbox.open(a_spec()) as box:
        report = sandbox.reap()
        assert (report.removed_containers, report.removed_volumes, report.failed) == (1, 2, ())
        assert bash(box, "echo alive") == "alive\n", "our own box is alive and ours"
    assert not list(root.glob("*/*"))


def until(done: Callable[[], object]) -> None:
    deadline = time.monotonic() + 20
    while not done():
        assert time.monotonic() < deadline, "it did not happen"
        time.sleep(0.05)
