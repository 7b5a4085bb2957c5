from __future__ import annotations

import resource
from collections.abc import Callable
from typing import TYPE_CHECKING

import pytest

from gate.adapters.docker_sandbox import DockerSandbox
from gate.domain.sandbox import BoxSpec, ExecResult, OneShotSpec
from gate.errors import BoxDeadError, SandboxError
from gate.protocols import Box
from tests.docker.conftest import IMAGE, OpenBox

if TYPE_CHECKING:
    from docker import DockerClient

pytestmark = pytest.mark.docker


def bash(box: Box, script: str, timeout_s: float = 30) -> ExecResult:
    return box.exec(["bash", "-c", script], timeout_s=timeout_s)


def is_alive(box: Box) -> bool:
    return bash(box, "echo alive").stdout == b"alive\n"


def running(box: Box, word: str) -> bool:
    return bash(box, f"pgrep -f '[{word[0]}]{word[1:]}'").exit_code == 0


def test_killing_everything_that_can_be_killed_leaves_the_box_alive(open_box: OpenBox) -> None:
    with open_box() as box:
        assert bash(box, "kill -9 -1").exit_code == 137
        assert is_alive(box)


def test_a_time_out_ends_children_that_left_their_process_group(open_box: OpenBox) -> None:
    with open_box() as box:
        result = bash(
            box, "setsid sleep 4242 & setsid bash -c 'trap \"\" TERM; sleep 4343; sleep 4343' & sleep 4444", 1
        )

        assert result.timed_out
        assert [running(box, f"sleep {number}") for number in (4242, 4343, 4444)] == [False] * 3


def test_a_command_that_stops_its_own_watchman_is_ended_from_outside(open_box: OpenBox) -> None:
    with open_box() as box:
        result = bash(box, "kill -STOP $PPID; sleep 4242", 0.5)

        assert result.timed_out
        assert not running(box, "sleep 4242")


def test_a_command_that_closes_its_output_is_waited_for_until_it_ends(open_box: OpenBox) -> None:
    with open_box() as box:
        assert bash(box, "exec >&- 2>&-; sleep 0.5; exit 7").exit_code == 7
        assert bash(box, "exec >&- 2>&-; sleep 4242", 1).timed_out


def test_a_command_that_ends_itself_as_a_time_out_would_did_not_time_out(open_box: OpenBox) -> None:
    with open_box() as box:
        assert not bash(box, "exit 124").timed_out
        assert not bash(box, "kill -9 $$").timed_out


def test_a_process_in_the_background_lives_on_between_calls(open_box: OpenBox) -> None:
    with open_box() as box:
        first = bash(box, "sleep 4242 & echo started")

        assert (first.stdout, first.timed_out) == (b"started\n", False)
        assert running(box, "sleep 4242")


def test_a_flood_is_cut_off_in_bounded_memory(open_box: OpenBox) -> None:
    with open_box() as box:
        before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        result = bash(box, "yes")
        grown_kb = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before

        assert result.truncated
        assert not result.timed_out
        assert result.stdout_bytes > 64 * 1024 * 1024
        assert len(result.stdout) <= 262_144
        assert grown_kb < 16 * 1024
        assert not running(box, "yes")
        assert is_alive(box)


def test_short_output_of_a_fast_command_is_never_lost(open_box: OpenBox) -> None:
    with open_box() as box:
        assert {box.exec(["echo", "hello"], timeout_s=30).stdout for _ in range(15)} == {b"hello\n"}


def test_output_in_the_last_moment_is_there(open_box: OpenBox) -> None:
    with open_box() as box:
        result = bash(box, "sleep 0.4; head -c 200000 /dev/zero | tr '\\0' x; printf end >&2")

    assert (result.stdout_bytes, result.stderr) == (200_000, b"end")


# Takes every process there is, in the background, and takes it again as soon as one ends.
BOMB = """
import os, time
if os.fork():
    os._exit(0)
os.setsid()
while True:
    try:
        if os.fork() == 0:
            time.sleep(1000)
    except OSError:
        time.sleep(0.001)
"""


def use_until_it_ends(box: Box) -> None:
    """A single command may by luck get hold of a process that has just become free."""
    for _ in range(10):
        bash(box, "sleep 0.2; sleep 0.2; true", 3)


def test_a_fork_bomb_that_stays_is_the_agents_doing(open_box: OpenBox) -> None:
    with open_box(pids=40) as box:
        bash(box, "echo before > made")
        box.exec(["sh", "-c", 'python3 -c "$0" >/dev/null 2>&1', BOMB], timeout_s=30)

        with pytest.raises(BoxDeadError, match="rocesses") as caught:
            use_until_it_ends(box)
        assert caught.value.agent_caused
        assert not caught.value.oom
        with pytest.raises(BoxDeadError):
            bash(box, "true")
        assert [item.path for item in box.collect().files] == ["made"], "its workspace is still evidence"


def test_a_box_that_cannot_be_cleared_after_a_time_out_runs_nothing_more(
    open_box: OpenBox, monkeypatch: pytest.MonkeyPatch
) -> None:
    with open_box() as box:
        monkeypatch.setattr(box, "_strangers", lambda: 1)
        assert bash(box, "echo kept > made; sleep 4242", 0.5).timed_out

        with pytest.raises(BoxDeadError, match="could not be stopped") as caught:
            bash(box, "true")
        assert caught.value.agent_caused
        assert [item.data for item in box.collect().files] == [b"kept\n"]


def test_a_fork_bomb_in_front_is_cleared_by_its_time_out(open_box: OpenBox) -> None:
    with open_box(pids=64) as box:
        result = bash(box, "f() { while :; do f; done & f & }; f 2>/dev/null; while :; do sleep 1; done", 1)

        assert result.timed_out
        assert is_alive(box)


def test_running_out_of_memory_is_told_and_the_box_lives(open_box: OpenBox) -> None:
    with open_box(memory_mb=128) as box:
        result = bash(box, "exec python3 -c 'x = bytearray(400 << 20)'")

        assert (result.exit_code, result.oom, result.timed_out) == (137, True, False)
        assert is_alive(box)
        assert not bash(box, "kill -9 $$").oom, "a later kill is not memory's doing"


def test_one_command_of_its_own_that_runs_out_of_memory_is_told_apart(
    real_sandbox: DockerSandbox, session_id: str
) -> None:
    script = "python3 -c 'x = bytearray(400 << 20)'; exit 3"
    spec = OneShotSpec(session_id=session_id, label="v", image=IMAGE, argv=("bash", "-c", script), memory_mb=128)

    result = real_sandbox.run_once(spec)

    assert (result.exit_code, result.oom, result.timed_out) == (3, True, False)


def test_a_flood_of_one_command_of_its_own_is_cut_off(real_sandbox: DockerSandbox, session_id: str) -> None:
    result = real_sandbox.run_once(OneShotSpec(session_id=session_id, label="v", image=IMAGE, argv=("yes",)))

    assert (result.exit_code, result.truncated, result.timed_out) == (137, True, False)
    assert len(result.stdout) <= 1_048_576


def test_a_file_of_a_terabyte_cannot_be_made(open_box: OpenBox) -> None:
    with open_box() as box:
        assert bash(box, "exec truncate -s 1T /work/bomb").exit_code != 0
        assert sum(item.size_bytes for item in box.collect().files) == 0


def test_many_sparse_files_are_not_streamed_to_their_end(open_box: OpenBox) -> None:
    with open_box(workspace_mb=8) as box:
        bash(box, "echo first > a; for i in $(seq 100); do truncate -s 8M b$i; done; echo last > z")
        collected = box.collect()

    assert collected.files[0].path == "a"
    assert len(collected.files) < 102
    assert any("sparse" in sentence and "was not read" in sentence for sentence in collected.refused)


def test_a_full_workspace_stops_at_its_quota(open_box: OpenBox) -> None:
    with open_box(workspace_mb=8) as box:
        result = bash(box, "head -c 20000000 /dev/zero > big; df --output=avail /work | tail -n 1")
        assert b"space left" in result.stderr or b"too large" in result.stderr
        assert box.collect().files[0].size_bytes <= 8 * 1024 * 1024


def test_what_is_no_plain_file_is_refused_by_name(open_box: OpenBox) -> None:
    script = """
    ln -s /etc/passwd absolute; ln -s ../../etc up; mkfifo fifo; echo hi > file; ln file hard; ln -s nowhere dangling
    python3 -c 'import socket; socket.socket(socket.AF_UNIX).bind("/work/sock")'
    mkdir -p "$(printf 'new\\nline')"; echo x > "$(printf 'new\\nline')/f"; printf x > "$(printf 'bad\\377utf8')"
    echo 1 > Readme; echo 2 > README; mkdir empty
    """
    with open_box() as box:
        bash(box, script)
        collected = box.collect()

    assert [item.path for item in collected.files] == ["README", "file"]
    refused = "\n".join(collected.refused)
    for name in ("absolute", "up", "fifo", "hard", "dangling", "Readme", "new\\nline", "bad"):
        assert name in refused
    assert len(refused.splitlines()) == len(collected.refused), "no name can add a line"


def test_the_sentinel_survives_a_clean_up_and_its_disappearance_is_noticed(open_box: OpenBox) -> None:
    with open_box() as box:
        bash(box, "rm -rf /work/* /work/.[!.]*; echo left > file")
        assert [item.path for item in box.collect().files] == ["file"]

        bash(box, "mv .skill-gate gone; mkdir .skill-gate; cp gone/sentinel .skill-gate/ && rm -f .skill-gate/sentinel")
        with pytest.raises(BoxDeadError, match="proves the copy") as caught:
            box.collect()
        assert caught.value.agent_caused


def test_an_argument_no_kernel_takes_is_the_commands_own_failure(open_box: OpenBox) -> None:
    with open_box() as box:
        assert bash(box, f"echo {'x' * 125_000}").stdout_bytes == 125_001
        assert bash(box, f"echo {'x' * 200_000}").stderr == b"argument list too long\n"
        assert bash(box, "echo \0").exit_code == 126
        assert is_alive(box)


def kill(client: DockerClient, container: str) -> None:
    client.api.kill(container)


def remove(client: DockerClient, container: str) -> None:
    client.api.remove_container(container, force=True)


@pytest.mark.parametrize("end", [kill, remove])
def test_a_box_ended_from_outside_is_not_the_agents_doing(
    engine: DockerClient, open_box: OpenBox, end: Callable[[DockerClient, str], None]
) -> None:
    with open_box() as box:
        assert is_alive(box)
        end(engine, box.facts().container)

        with pytest.raises(BoxDeadError, match="outside") as caught:
            bash(box, "true")
        assert not caught.value.agent_caused
        with pytest.raises(SandboxError):
            box.collect()


def test_a_box_that_outlives_its_fuse_is_not_the_agents_doing(open_box: OpenBox) -> None:
    with open_box(fuse_s=2) as box:
        with pytest.raises(BoxDeadError, match="longest life") as caught:
            bash(box, "sleep 20")

        assert not caught.value.agent_caused


def test_putting_files_into_a_box_that_ended_is_an_error_and_not_silence(
    engine: DockerClient, open_box: OpenBox
) -> None:
    from gate.domain.sandbox import PutFile

    with open_box() as box:
        engine.api.kill(box.facts().container)

        with pytest.raises(BoxDeadError):
            box.put_workspace([PutFile(path="a", data=b"x")])


def test_an_image_in_which_nothing_can_run_is_named_as_the_cause(engine: DockerClient, open_box: OpenBox) -> None:
    empty_archive = b"\0" * 10_240
    engine.api.import_image_from_data(empty_archive, repository="skill-gate-test-bare")
    try:
        with pytest.raises(SandboxError, match="cannot run `sleep`"), open_box(image="skill-gate-test-bare:latest"):
            pass
    finally:
        engine.api.remove_image("skill-gate-test-bare:latest", force=True)


def test_an_image_that_lacks_a_program_is_named_with_it_and_asked_only_once(
    engine: DockerClient, open_box: OpenBox, session_id: str
) -> None:
    made = engine.containers.run(IMAGE, ["rm", "/usr/bin/find", "/usr/bin/sha256sum"], detach=True)
    made.wait()
    image = made.commit(repository="skill-gate-test-lacking", tag=session_id)
    made.remove()
    try:
        for _ in range(2):
            with (
                pytest.raises(SandboxError, match="lacks find, sha256sum, which the gate needs") as caught,
                open_box(image=f"skill-gate-test-lacking:{session_id}"),
            ):
                pass
            assert "GNU coreutils and findutils" in caught.value.remedy
        assert image.id
    finally:
        engine.api.remove_image(f"skill-gate-test-lacking:{session_id}", force=True)


def test_a_box_is_asleep_after_a_collection_until_something_is_asked_of_it(
    engine: DockerClient, open_box: OpenBox
) -> None:
    with open_box() as box:
        box.collect()
        assert engine.containers.get(box.facts().container).status == "paused"
        assert is_alive(box)
        assert engine.containers.get(box.facts().container).status == "running"
        box.collect()
        from gate.domain.sandbox import PutFile

        box.put_workspace([PutFile(path="late", data=b"x")])
        assert [item.path for item in box.collect().files] == ["late"]


def test_a_full_disk_of_the_engine_is_told_before_anything_is_run(
    session_id: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    from gate.adapters.docker_sandbox import sandbox as module

    monkeypatch.setattr(module, "_LEAST_DISK", 1 << 60)
    fresh = DockerSandbox()
    spec = BoxSpec(session_id=session_id, label="l", image=IMAGE)
    with pytest.raises(SandboxError, match="MiB are free where the Docker engine") as caught, fresh.open(spec):
        pass
    fresh.close()
    assert "docker system df" in caught.value.remedy
