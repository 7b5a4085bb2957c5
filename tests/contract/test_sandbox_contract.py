"""What every Sandbox promises, asked of a real engine and of the fake that stands in for it.

The commands are real ones; `emulated` says what they do to the fake's dictionaries.
"""

from __future__ import annotations

import hashlib
import threading
import uuid
from collections.abc import Iterator
from pathlib import Path

import pytest

from gate.adapters.bubblewrap_sandbox import BubblewrapSandbox
from gate.adapters.docker_sandbox import DockerSandbox
from gate.domain.sandbox import BoxSpec, OneShotSpec, PutFile
from gate.errors import BoxDeadError, SandboxError
from gate.protocols import Sandbox
from tests.conftest import require_bubblewrap
from tests.fakes.sandbox import SENTINEL, Command, Ran, ScriptedBox, ScriptedSandbox

IMAGE = "skill-gate-sandbox:dev"


def emulated(box: ScriptedBox, command: Command) -> Ran | bytes | str:  # noqa: C901, PLR0911 - one answer a command
    """What the commands of this file do."""
    match command.argv:
        case ("cat",):
            return command.stdin
        case ("cat", *names):
            return b"".join(box.read(name) for name in names)
        case ("tee", name):
            box.write(name, command.stdin)
            return command.stdin
        case ("test", "-x", name):
            return Ran(exit_code=0 if box.path(name) in box.executable else 1)
        case ("ls", "-A", "/skills"):
            found = sorted({path.split("/")[2] for path in box.files if path.startswith("/skills/")})
            return "".join(f"{name}\n" for name in found)
        case ("ln", "-s", target, name):
            box.links[box.path(name)] = target
            return ""
        case ("mv", "/work/.skill-gate", _):
            del box.files[SENTINEL]
            return ""
        case ("sleep", _):
            return Ran(exit_code=124, timed_out=True)
        case ("sh", "-c", "printf out; printf err >&2; exit 3"):
            return Ran(stdout=b"out", stderr=b"err", exit_code=3)
        case ("sh", "-c", "echo begin; seq 100000; echo end"):
            return Ran(stdout=b"begin\n" + b"".join(b"%d\n" % n for n in range(1, 100_001)) + b"end\n")
        case ("echo", words):
            return f"{words}\n"
        case ("pwd",):
            return "/work\n"
        case _:
            return Ran(stderr=b"command not found", exit_code=127)


@pytest.fixture(scope="session")
def docker_sandbox() -> Iterator[DockerSandbox]:
    sandbox = DockerSandbox()
    yield sandbox
    sandbox.close()


@pytest.fixture(params=["scripted", "bubblewrap", pytest.param("docker", marks=pytest.mark.docker)])
def sandbox(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Sandbox]:
    if request.param == "bubblewrap":
        require_bubblewrap()
        yield BubblewrapSandbox(tmp_path / "sandboxes")
        return
    if request.param == "docker":
        real: DockerSandbox = request.getfixturevalue("docker_sandbox")
        yield real
        return
    with ScriptedSandbox(emulated) as scripted:
        yield scripted


@pytest.fixture
def spec() -> BoxSpec:
    """A box of a session of its own."""
    return BoxSpec(session_id=f"contract-{uuid.uuid4().hex[:8]}", label="skill/eval-1/run-1/with_skill", image=IMAGE)


def once(spec: BoxSpec, *argv: str, files: tuple[PutFile, ...] = (), **limits: float) -> OneShotSpec:
    made = OneShotSpec(session_id=spec.session_id, label="verification", image=IMAGE, argv=argv, files=files)
    return made.model_copy(update=limits)


def text_file(path: str, text: str, *, executable: bool = False) -> PutFile:
    return PutFile(path=path, data=text.encode(), executable=executable)


def test_a_sandbox_says_what_it_is(sandbox: Sandbox) -> None:
    facts = sandbox.facts()

    assert facts.kind in ("docker", "bubblewrap")
    assert facts.weaker == (facts.kind == "bubblewrap")
    assert facts.description


def test_an_image_name_resolves_to_one_immutable_id(sandbox: Sandbox) -> None:
    image_id = sandbox.resolve_image(IMAGE)

    assert image_id.startswith("sha256:")
    assert sandbox.resolve_image(image_id) == image_id


def test_an_image_that_is_not_there_is_an_error_with_a_remedy(sandbox: Sandbox) -> None:
    with pytest.raises(SandboxError, match="no-such-image:1") as caught:
        sandbox.resolve_image("no-such-image:1")

    assert caught.value.remedy


def test_a_box_has_no_network_and_is_made_from_the_image_asked_for(sandbox: Sandbox, spec: BoxSpec) -> None:
    with sandbox.open(spec) as box:
        facts = box.facts()

    assert facts.network == "none"
    assert facts.image_digest == sandbox.resolve_image(IMAGE)


def test_files_put_into_the_workspace_are_where_commands_run(sandbox: Sandbox, spec: BoxSpec) -> None:
    with sandbox.open(spec) as box:
        box.put_workspace([text_file("data/in.txt", "first"), text_file("run me.sh", "true", executable=True)])

        assert box.exec(["pwd"], timeout_s=20).stdout == b"/work\n"
        assert box.exec(["cat", "data/in.txt"], timeout_s=20).stdout == b"first"
        assert box.exec(["test", "-x", "run me.sh"], timeout_s=20).exit_code == 0
        assert box.exec(["test", "-x", "data/in.txt"], timeout_s=20).exit_code == 1


def test_the_baseline_has_an_empty_skills_folder(sandbox: Sandbox, spec: BoxSpec) -> None:
    with sandbox.open(spec) as box:
        assert box.exec(["ls", "-A", "/skills"], timeout_s=20).stdout == b""
        box.put_skill([text_file("SKILL.md", "# Skill")], name="demo")
        assert box.exec(["ls", "-A", "/skills"], timeout_s=20).stdout == b"demo\n"


def test_a_skill_can_be_read_and_not_written_by_commands(sandbox: Sandbox, spec: BoxSpec) -> None:
    with sandbox.open(spec) as box:
        box.put_skill(
            [text_file("SKILL.md", "# Skill"), text_file("scripts/a.sh", "true", executable=True)], name="demo"
        )

        assert box.exec(["cat", "/skills/demo/SKILL.md"], timeout_s=20).stdout == b"# Skill"
        assert box.exec(["test", "-x", "/skills/demo/scripts/a.sh"], timeout_s=20).exit_code == 0
        assert box.exec(["tee", "/skills/demo/SKILL.md"], timeout_s=20, stdin=b"forged").exit_code != 0
        assert box.exec(["cat", "/skills/demo/SKILL.md"], timeout_s=20).stdout == b"# Skill"


@pytest.mark.parametrize("path", ["../escape", "/etc/passwd", "a/../../b", "a//b", "nul\0byte", ""])
def test_a_path_that_leaves_its_folder_is_refused(sandbox: Sandbox, spec: BoxSpec, path: str) -> None:
    with sandbox.open(spec) as box, pytest.raises(SandboxError):
        box.put_workspace([PutFile(path=path, data=b"x")])


def test_two_files_of_one_path_are_refused(sandbox: Sandbox, spec: BoxSpec) -> None:
    with sandbox.open(spec) as box, pytest.raises(SandboxError, match="one path"):
        box.put_workspace([text_file("a", "1"), text_file("a", "2")])


def test_a_failing_command_is_a_result_and_no_error(sandbox: Sandbox, spec: BoxSpec) -> None:
    with sandbox.open(spec) as box:
        result = box.exec(["sh", "-c", "printf out; printf err >&2; exit 3"], timeout_s=20)

    assert (result.exit_code, result.stdout, result.stderr) == (3, b"out", b"err")
    assert (result.truncated, result.timed_out, result.oom) == (False, False, False)


def test_a_command_that_does_not_exist_is_a_result_and_no_error(sandbox: Sandbox, spec: BoxSpec) -> None:
    with sandbox.open(spec) as box:
        assert box.exec(["no-such-command"], timeout_s=20).exit_code == 127


def test_stdin_arrives_whole_and_ends(sandbox: Sandbox, spec: BoxSpec) -> None:
    sent = bytes(range(256)) * 2000
    with sandbox.open(spec) as box:
        result = box.exec(["cat"], timeout_s=20, stdin=sent, output_cap_bytes=len(sent))

    assert result.stdout == sent


def test_without_stdin_a_reader_sees_the_end_at_once(sandbox: Sandbox, spec: BoxSpec) -> None:
    with sandbox.open(spec) as box:
        result = box.exec(["cat"], timeout_s=20)

    assert (result.exit_code, result.stdout, result.timed_out) == (0, b"", False)


def test_long_output_keeps_its_head_its_tail_and_its_true_length(sandbox: Sandbox, spec: BoxSpec) -> None:
    with sandbox.open(spec) as box:
        result = box.exec(["sh", "-c", "echo begin; seq 100000; echo end"], timeout_s=20, output_cap_bytes=1000)

    assert result.truncated
    assert result.stdout_bytes == 588_895 + len("begin\nend\n")
    assert len(result.stdout) <= 1000
    assert result.stdout.startswith(b"begin\n1\n")
    assert result.stdout.endswith(b"\n100000\nend\n")


def test_a_command_that_takes_too_long_is_ended_and_the_box_goes_on(sandbox: Sandbox, spec: BoxSpec) -> None:
    with sandbox.open(spec) as box:
        assert box.exec(["sleep", "1000"], timeout_s=0.5).timed_out
        assert box.exec(["pwd"], timeout_s=20).exit_code == 0


def test_a_program_of_the_gate_is_held_by_both_ends(sandbox: Sandbox, spec: BoxSpec) -> None:
    if sandbox.facts().kind == "bubblewrap":
        with sandbox.open(spec) as box, pytest.raises(SandboxError, match="need sandboxes of Docker"):
            box.connect(["cat"])
        return
    with sandbox.open(spec) as box, box.connect(["cat"]) as channel:
        sent = bytes(range(256)) * 2_000
        threading.Thread(target=channel.write, args=(sent,)).start()
        read = b""
        while len(read) < len(sent):
            read += channel.read()
        assert read == sent
        assert box.exec(["echo", "beside it"], timeout_s=30).stdout == b"beside it\n"
        channel.close()
        channel.close()
        with pytest.raises(SandboxError):
            channel.write(b"x" * 1_000_000)


def test_the_end_of_a_program_of_the_gate_is_the_end_of_its_output(sandbox: Sandbox, spec: BoxSpec) -> None:
    if sandbox.facts().kind == "bubblewrap":
        return
    with sandbox.open(spec) as box, box.connect(["sh", "-c", "printf done; printf wrong >&2"]) as channel:
        read = b""
        while piece := channel.read():
            read += piece
        assert read == b"done"


def test_what_commands_wrote_is_collected_sorted_and_without_the_gates_own_files(
    sandbox: Sandbox, spec: BoxSpec
) -> None:
    with sandbox.open(spec) as box:
        box.put_workspace([text_file("z.txt", "given"), text_file("bin/tool", "true", executable=True)])
        box.exec(["tee", "a.txt"], timeout_s=20, stdin=b"made")
        collected = box.collect()
        again = box.collect()
        assert box.exec(["cat", "a.txt"], timeout_s=20).stdout == b"made", "the box goes on after a collection"

    assert [(item.path, item.data, item.executable) for item in collected.files] == [
        ("a.txt", b"made", False),
        ("bin/tool", b"true", True),
        ("z.txt", b"given", False),
    ]
    assert collected.files[0].sha256 == hashlib.sha256(b"made").hexdigest()
    assert collected.refused == ()
    assert again == collected


def test_an_untouched_workspace_collects_as_empty(sandbox: Sandbox, spec: BoxSpec) -> None:
    with sandbox.open(spec) as box:
        collected = box.collect()

    assert (collected.files, collected.refused) == ((), ())


def test_files_over_a_cap_keep_name_size_and_hash(sandbox: Sandbox, spec: BoxSpec) -> None:
    files = [text_file("1", "x" * 60), text_file("2", "y" * 60), text_file("3", "z" * 30)]
    with sandbox.open(spec) as box:
        box.put_workspace(files)
        by_bytes = box.collect(max_bytes=100)
        by_count = box.collect(max_files=1)

    assert [item.data is None for item in by_bytes.files] == [False, True, False]
    assert [item.data is None for item in by_count.files] == [False, True, True]
    assert by_bytes.files[1].size_bytes == 60
    assert by_bytes.files[1].sha256 == hashlib.sha256(b"y" * 60).hexdigest()
    assert len(by_bytes.refused) == len(by_count.refused) == 1


def test_links_are_named_and_not_followed(sandbox: Sandbox, spec: BoxSpec) -> None:
    with sandbox.open(spec) as box:
        box.exec(["ln", "-s", "/etc/passwd", "users"], timeout_s=20)
        collected = box.collect()

    assert collected.files == ()
    assert len(collected.refused) == 1
    assert "users" in collected.refused[0]
    assert "/etc/passwd" in collected.refused[0]


def test_a_workspace_without_its_sentinel_is_never_collected_as_empty(sandbox: Sandbox, spec: BoxSpec) -> None:
    with sandbox.open(spec) as box:
        assert box.exec(["mv", "/work/.skill-gate", "/work/moved"], timeout_s=20).exit_code == 0

        with pytest.raises(SandboxError):
            box.collect()


def test_boxes_do_not_see_each_other(sandbox: Sandbox, spec: BoxSpec) -> None:
    with sandbox.open(spec) as one, sandbox.open(spec) as other:
        one.put_workspace([text_file("secret", "of one")])

        assert other.exec(["cat", "secret"], timeout_s=20).exit_code == 1


def test_leaving_by_an_exception_keeps_the_exception_and_removes_the_box(sandbox: Sandbox, spec: BoxSpec) -> None:
    with pytest.raises(ZeroDivisionError), sandbox.open(spec) as box:
        _ = 1 / 0

    assert sandbox.reap(spec.session_id).removed_containers == 0, "nothing was left to reap"
    with pytest.raises(SandboxError):
        box.exec(["pwd"], timeout_s=20)
    with pytest.raises(SandboxError):
        box.collect()


def test_killing_a_session_ends_its_boxes_and_is_nobodys_fault_inside(sandbox: Sandbox, spec: BoxSpec) -> None:
    with sandbox.open(spec) as box:
        sandbox.kill_all(spec.session_id)
        with pytest.raises(BoxDeadError) as caught:
            box.exec(["pwd"], timeout_s=20)

    assert not caught.value.agent_caused
    with pytest.raises(SandboxError), sandbox.open(spec):
        pass


def test_killing_another_session_leaves_a_box_alone(sandbox: Sandbox, spec: BoxSpec) -> None:
    with sandbox.open(spec) as box:
        sandbox.kill_all(f"{spec.session_id}-other")

        assert box.exec(["pwd"], timeout_s=20).exit_code == 0


def test_reaping_a_session_removes_its_boxes_and_the_rest_stays(sandbox: Sandbox, spec: BoxSpec) -> None:
    other = spec.model_copy(update={"session_id": f"{spec.session_id}-other"})
    with sandbox.open(other) as kept, sandbox.open(spec) as box:
        report = sandbox.reap(spec.session_id)

        assert (report.removed_containers, report.removed_volumes, report.failed) == (1, 2, ())
        with pytest.raises(SandboxError):
            box.exec(["pwd"], timeout_s=20)
        assert kept.exec(["pwd"], timeout_s=20).exit_code == 0


def test_one_command_runs_in_a_container_of_its_own_over_its_files(sandbox: Sandbox, spec: BoxSpec) -> None:
    result = sandbox.run_once(once(spec, "cat", "in/a.txt", files=(text_file("in/a.txt", "text"),)))
    failed = sandbox.run_once(once(spec, "sh", "-c", "printf out; printf err >&2; exit 3"))

    assert (result.exit_code, result.stdout, result.stderr) == (0, b"text", b"")
    assert (failed.exit_code, failed.stdout, failed.stderr) == (3, b"out", b"err")
    assert (result.timed_out, result.oom, result.truncated) == (False, False, False)


def test_one_command_that_takes_too_long_has_no_exit_code(sandbox: Sandbox, spec: BoxSpec) -> None:
    result = sandbox.run_once(once(spec, "sleep", "1000", timeout_s=0.5))

    assert result.timed_out
    assert result.exit_code is None


def test_the_output_of_one_command_is_bounded(sandbox: Sandbox, spec: BoxSpec) -> None:
    result = sandbox.run_once(once(spec, "sh", "-c", "echo begin; seq 100000; echo end", output_cap_bytes=1000))

    assert result.truncated
    assert len(result.stdout) <= 1000
    assert result.stdout.startswith(b"begin\n")
    assert result.stdout.endswith(b"end\n")


def test_boxes_can_be_used_from_many_threads(sandbox: Sandbox, spec: BoxSpec) -> None:
    answers: list[bytes] = []

    def use(number: int) -> None:
        with sandbox.open(spec.model_copy(update={"label": f"thread-{number}"})) as box:
            box.put_workspace([text_file("n", str(number))])
            answers.append(box.exec(["cat", "n"], timeout_s=60).stdout)

    threads = [threading.Thread(target=use, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert sorted(answers) == [b"0", b"1", b"2", b"3"]


def test_the_fake_fails_the_test_that_leaves_a_box_open(spec: BoxSpec) -> None:
    sandbox = ScriptedSandbox(emulated)
    opened = sandbox.open(spec)
    opened.__enter__()

    with pytest.raises(AssertionError, match="never closed"):
        sandbox.check()
    opened.__exit__(None, None, None)
    sandbox.check()
