from __future__ import annotations

import json
import socket
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from gate.domain.checks import Check, Command
from gate.domain.evidence import RunRecord, Verification
from gate.domain.sandbox import OneShotResult, OneShotSpec
from gate.domain.suite import Case, FixtureFile, ServiceProbe
from gate.errors import EvidenceError, SandboxError
from gate.evidence.bundle import Bundle
from gate.evidence.redact import Redactor
from gate.evidence.seal import check_folder
from gate.execution import serve
from gate.execution.starting import entry_point, start_of
from gate.execution.verification import SHOWN, chain_head, missing_html_parts, verify_run
from tests.builders_skill import a_case
from tests.fakes.chat import ScriptedChat, use
from tests.fakes.sandbox import ScriptedBox, ScriptedSandbox
from tests.unit.execution.world import IMAGE, a_request, run_all, shell

PAGE = "<!DOCTYPE html><html><head><title>x</title></head><body>x</body></html>"


def ended(exit_code: int | None = 0, stdout: bytes = b"", stderr: bytes = b"", **more: Any) -> OneShotResult:
    values: dict[str, Any] = {"truncated": False, "timed_out": False, "oom": False}
    return OneShotResult(exit_code=exit_code, stdout=stdout, stderr=stderr, **{**values, **more})


def with_commands(*commands: Command, **case: Any) -> Case:
    checks = tuple(Check(id=f"c{number}", parameters=command) for number, command in enumerate(commands, 1))
    return a_case(checks=checks, **case)


def finished(
    root: Path,
    case: Case,
    files: dict[str, bytes] | None = None,
    *,
    answer: str = "Done.",
    executable: tuple[str, ...] = (),
) -> RunRecord:
    """A sealed run that left these files."""

    def make(box: ScriptedBox, command: Any) -> str:
        for path, data in (files or {}).items():
            box.write(path, data)
        box.executable.update(f"/work/{path}" for path in executable)
        return ""

    chat = ScriptedChat([use("bash", {"command": "make"}), answer])
    [record] = run_all([a_request(case=case)], chat, root, sandbox=ScriptedSandbox(shell({"make": make})))
    assert record.completed
    return record


class Engine:
    """Answers one-shots from a list, errors included, and remembers what was asked."""

    def __init__(self, *answers: OneShotResult | SandboxError) -> None:
        self._answers = list(answers)
        self.sandbox = ScriptedSandbox(once=self._once)

    def _once(self, spec: OneShotSpec) -> OneShotResult:
        answer = self._answers.pop(0)
        if isinstance(answer, SandboxError):
            raise answer
        return answer

    @property
    def asked(self) -> list[OneShotSpec]:
        return self.sandbox.one_shots

    def verify(self, root: Path, record: RunRecord, case: Case, redactor: Redactor | None = None) -> Verification:
        found = verify_run(
            record, case, bundle=Bundle(root), sandbox=self.sandbox, image=IMAGE, session_id="s", redactor=redactor
        )
        assert self._answers == []
        assert Bundle(root).read(f"{record.key.folder}/verification.json", Verification) == found
        return found


def test_a_run_without_commands_and_programs_needs_no_container(tmp_path: Path) -> None:
    record = finished(tmp_path, a_case(), {"notes.md": b"x"})
    engine = Engine()
    found = engine.verify(tmp_path, record, a_case())
    assert (found.run_seal, found.commands, found.produced) == (record.seal, (), None)
    assert engine.asked == []


def test_a_command_check_gets_a_copy_of_the_workspace_with_its_exec_bits_in_a_fresh_container(tmp_path: Path) -> None:
    case = with_commands(
        Command(run="./run.sh", timeout_s=7), files=(FixtureFile(path="data.csv", data=b"1,2", executable=False),)
    )
    record = finished(tmp_path, case, {"run.sh": b"#!/bin/sh\n", "plain.sh": b"#!/bin/sh\n"}, executable=("run.sh",))
    engine = Engine(ended(3, b"out", b"err"), ended(0))
    found = engine.verify(tmp_path, record, case)
    spec = engine.asked[0]
    assert spec.argv == ("/bin/bash", "-c", "./run.sh")
    assert spec.timeout_s == 7
    assert spec.label == f"{record.key.label}/check-c1"
    assert {file.path: (file.data, file.executable) for file in spec.files} == {
        "data.csv": (b"1,2", False), "run.sh": (b"#!/bin/sh\n", True), "plain.sh": (b"#!/bin/sh\n", False),
    }  # fmt: skip
    [result] = found.commands
    assert (result.check_id, result.status, result.exit_code) == ("c1", "ran", 3)
    assert (result.stdout, result.stderr) == ("out", "err")


@pytest.mark.requirements("R225")
@pytest.mark.parametrize(
    ("answers", "status", "exit_code", "reason"),
    [
        ([ended(None, timed_out=True)], "timeout", None, ""),
        ([ended(137, oom=True)], "oom", 137, ""),
        ([SandboxError("No answer.", remedy="Start it."), ended(1)], "ran", 1, ""),
        ([SandboxError("One."), SandboxError("No answer.", remedy="Start it.")], "infra", None, "No answer. Start it."),
        ([ended(None), ended(None)], "infra", None, "the engine gave no exit code"),
    ],
)
def test_how_a_command_ended_is_told_apart_from_an_engine_that_failed(
    tmp_path: Path, answers: list[Any], status: str, exit_code: int | None, reason: str
) -> None:
    case = with_commands(Command(run="true"))
    record = finished(tmp_path, case)
    [result] = Engine(*answers).verify(tmp_path, record, case).commands
    assert (result.status, result.exit_code, result.reason) == (status, exit_code, reason)


def test_a_workspace_file_that_was_over_a_cap_is_said_to_be_missing(tmp_path: Path) -> None:
    case = with_commands(Command(run="true"))
    record = finished(tmp_path, case, {"big.bin": b"x" * 20_000_001})
    engine = Engine(ended(0))
    [result] = engine.verify(tmp_path, record, case).commands
    assert engine.asked[0].files == ()
    assert result.reason == "1 files of the workspace were over a cap and not there"


def test_a_workspace_that_was_changed_after_the_run_is_never_run(tmp_path: Path) -> None:
    case = with_commands(Command(run="true"))
    record = finished(tmp_path, case, {"main.py": b"print(1)"})
    (tmp_path / record.key.folder / "workspace/main.py").write_bytes(b"print(2)")
    with pytest.raises(EvidenceError, match=r"main\.py was changed after the run"):
        Engine().verify(tmp_path, record, case)


def test_verification_leaves_the_sealed_run_as_it_was_and_is_chained_to_it(tmp_path: Path) -> None:
    case = with_commands(Command(run="a"), Command(run="b"))
    record = finished(tmp_path, case)
    found = Engine(ended(0), ended(1)).verify(tmp_path, record, case)
    assert check_folder(tmp_path / record.key.folder) == []
    assert found.chain_head == chain_head(found)
    swapped = found.model_copy(update={"commands": found.commands[::-1]})
    other_run = found.model_copy(update={"run_seal": "0" * 64})
    assert len({chain_head(item) for item in (found, swapped, other_run)}) == 3


def test_what_a_command_prints_is_redacted(tmp_path: Path) -> None:
    case = with_commands(Command(run="env"))
    record = finished(tmp_path, case)
    secret = "sk-canary-0123456789abcdef"
    found = Engine(ended(0, secret.encode())).verify(tmp_path, record, case, Redactor({"provider-key": secret}))
    assert found.commands[0].stdout.startswith("[redacted:provider-key:")
    assert secret.encode() not in (tmp_path / record.key.folder / "verification.json").read_bytes()


GUARD = b"x = 1\nif __name__ == '__main__':\n    print(x)\n"


@pytest.mark.requirements("R183", "R184", "R185", "R186", "R187")
@pytest.mark.parametrize(
    ("response", "files", "found"),
    [
        ("I wrote tool.py.", {"tool.py": b"", "main.py": b""}, ("tool.py", 1)),
        ("Run `python3 ./src/tool.py`", {"src/tool.py": b"", "main.py": b""}, ("src/tool.py", 1)),
        ("It is at /work/src/tool.py", {"src/tool.py": b"", "main.py": b""}, ("src/tool.py", 1)),
        ("Run tool.py", {"src/tool.py": b"", "main.py": b""}, ("src/tool.py", 1)),
        ("Run tool.py", {"a/tool.py": b"", "b/tool.py": b"", "main.py": b""}, ("main.py", 2)),
        ("Run go.sh", {"go.sh": b"", "main.py": b""}, ("go.sh", 1)),
        ("Open page.html", {"page.html": b"", "util.py": GUARD}, ("page.html", 1)),
        ("Open page.html, made by make.py", {"page.html": b"", "make.py": b""}, ("make.py", 1)),
        ("See main.py.bak and xtool.py", {"main.py": b"", "tool.py": GUARD}, ("main.py", 2)),
        ("Done.", {"server.py": b"", "app.py": b"", "a.py": GUARD}, ("app.py", 2)),
        ("Done.", {"pkg/main.py": b"", "b.py": GUARD}, ("pkg/main.py", 2)),
        ("Done.", {"b.py": GUARD, "a.py": b"", "x.html": b""}, ("b.py", 3)),
        ("Done.", {"deep/b.py": GUARD, "z.py": GUARD}, ("z.py", 3)),
        ("Done.", {"a.py": b"", "x.html": b"", "y.sh": b""}, ("x.html", 4)),
        ("Done.", {"y.sh": b"", "a.py": b""}, ("y.sh", 5)),
        ("Done.", {"a.py": b"", "notes.md": b""}, None),
        ("Done.", {}, None),
    ],
)
def test_the_file_to_run_is_found_by_the_five_priorities(response: str, files: dict[str, bytes], found: Any) -> None:
    assert entry_point(response, list(files), files) == found


@pytest.mark.requirements("R182", "R188", "R189", "R190", "R210")
@pytest.mark.parametrize(
    ("name", "answer", "expected"),
    [
        ("main.py", ended(0, b"3\n"), ("ok", 0, "3\n", "", False)),
        ("main.py", ended(1, b"", b"Traceback"), ("nonzero", 1, "", "Traceback", False)),
        ("main.py", ended(139), ("signal", 139, "", "", False)),
        ("main.py", ended(127, b"", b"sh: python3: not found"), ("missing_runtime", 127, "", "sh: python3: not found", False)),
        ("go.sh", ended(127, b"", b"foo: not found"), ("nonzero", 127, "", "foo: not found", False)),
        ("main.py", ended(None, timed_out=True), ("timeout", None, "", "", True)),
        ("main.py", ended(137, oom=True), ("oom", 137, "", "", False)),
    ],
)  # fmt: skip
def test_produced_code_is_run_for_30_seconds_and_how_it_ended_is_recorded(
    tmp_path: Path, name: str, answer: OneShotResult, expected: tuple[Any, ...]
) -> None:
    record = finished(tmp_path, a_case(), {name: b"x"})
    engine = Engine(answer)
    code = engine.verify(tmp_path, record, a_case()).produced
    assert code is not None
    assert (code.outcome, code.exit_code, code.stdout, code.stderr, code.timed_out) == expected
    assert engine.asked[0].timeout_s == 30
    assert engine.asked[0].argv == (("python3" if name == "main.py" else "bash"), name)


def test_an_engine_that_fails_twice_says_nothing_about_the_produced_code(tmp_path: Path) -> None:
    record = finished(tmp_path, a_case(), {"main.py": b"x"})
    code = Engine(SandboxError("One."), SandboxError("No answer.")).verify(tmp_path, record, a_case()).produced
    assert code is not None
    assert (code.outcome, code.stderr) == ("infra", "No answer.")


def test_a_program_that_nothing_tells_how_to_run_is_neither_passed_nor_failed(tmp_path: Path) -> None:
    record = finished(tmp_path, a_case(), {"library.py": b"x = 1\n"})
    code = Engine().verify(tmp_path, record, a_case()).produced
    assert code is not None
    assert (code.entry_point, code.priority, code.outcome) == (None, None, "no_entrypoint")


def test_what_the_fixture_brought_and_the_home_folder_are_no_produced_code(tmp_path: Path) -> None:
    case = a_case(files=(FixtureFile(path="main.py", data=b"print(1)"),))
    record = finished(tmp_path, case, {"home/.cache/app.py": b"x"})
    assert Engine().verify(tmp_path, record, case).produced is None
    (tmp_path / "b").mkdir()
    changed = finished(tmp_path / "b", case, {"main.py": b"print(2)"})
    code = Engine(ended(0)).verify(tmp_path / "b", changed, case).produced
    assert code is not None
    assert code.entry_point == "main.py"


def test_a_file_name_is_never_taken_for_an_option(tmp_path: Path) -> None:
    record = finished(tmp_path, a_case(), {"-c.sh": b"x"})
    engine = Engine(ended(0))
    engine.verify(tmp_path, record, a_case())
    assert engine.asked[0].argv == ("bash", "./-c.sh")


def test_of_a_long_output_start_and_end_are_kept(tmp_path: Path) -> None:
    record = finished(tmp_path, a_case(), {"main.py": b"x"})
    code = (
        Engine(ended(1, b"a" * 9000, b"Traceback" + b"x" * 9000 + b"ValueError"))
        .verify(tmp_path, record, a_case())
        .produced
    )
    assert code is not None
    assert len(code.stdout) <= SHOWN
    assert code.stderr.startswith("Traceback")
    assert code.stderr.endswith("ValueError")


@pytest.mark.requirements("R186")
def test_a_page_is_looked_at_and_never_run(tmp_path: Path) -> None:
    whole = finished(tmp_path, a_case(), {"index.html": PAGE.encode()})
    code = Engine().verify(tmp_path, whole, a_case()).produced
    assert code is not None
    assert (code.entry_point, code.priority, code.outcome) == ("index.html", 4, "html_ok")
    (tmp_path / "b").mkdir()
    broken = finished(tmp_path / "b", a_case(), {"index.html": b"<p>hello"})
    code = Engine().verify(tmp_path / "b", broken, a_case()).produced
    assert code is not None
    assert (code.outcome, code.stderr) == ("html_broken", "missing: DOCTYPE, html, head, body")


@pytest.mark.parametrize(
    ("change", "missing"),
    [
        (lambda page: page, []),
        (lambda page: page.upper(), []),
        (lambda page: page.replace("<!DOCTYPE html>", ""), ["DOCTYPE"]),
        (lambda page: page.replace("<!DOCTYPE html>", "<!DOCTYPE htmlx>"), ["DOCTYPE"]),
        (lambda page: page.replace("<body>", "<!-- <body> -->"), ["body"]),
        (lambda page: page.replace("<head>", "<header>"), ["head"]),
        (lambda page: f"<pre>{page.replace('<', '&lt;')}</pre>", ["DOCTYPE", "html", "head", "body"]),
        (lambda page: "", ["DOCTYPE", "html", "head", "body"]),
    ],
)
def test_a_page_has_the_four_parts_as_elements_not_as_words(change: Callable[[str], str], missing: list[str]) -> None:
    assert missing_html_parts(change(PAGE)) == missing


SERVER = (
    b"import http.server\nhttp.server.HTTPServer(('', 8000), http.server.SimpleHTTPRequestHandler).serve_forever()\n"
)


@pytest.mark.parametrize(
    ("files", "executable", "argv", "priority"),
    [
        ({"package.json": b'{"scripts": {"start": "node s.js"}}'}, (), ("/bin/bash", "-c", 'PATH="$PWD/node_modules/.bin:$PATH"; node s.js'), 6),
        ({"package.json": b'{"bin": {"x": "./cli.js"}}', "cli.js": b"", "b.js": b""}, (), ("node", "./cli.js"), 6),
        ({"package.json": b'{"main": "lib.js"}', "lib.js": b"", "b.js": b""}, (), ("node", "./lib.js"), 6),
        ({"Makefile": b"all:\n\ttrue\nrun: all\n\techo\n", "a.c": b""}, (), ("make", "run"), 6),
        ({"Cargo.toml": b"[package]", "src/main.rs": b""}, (), ("cargo", "run", "--offline", "--quiet"), 6),
        ({"go.mod": b"module x", "main.go": b""}, (), ("go", "run", "."), 6),
        ({"tool": b"#!/bin/sh\necho", "other": b"x"}, ("tool", "other"), ("./tool",), 7),
        ({"only.js": b"1"}, (), ("node", "only.js"), 8),
        ({"package.json": b'{"scripts": {"start": "x"}}', "app.py": b""}, (), ("python3", "app.py"), 2),
    ],
)  # fmt: skip
def test_behind_the_five_priorities_manifests_exec_bits_and_the_only_program_say_what_to_run(
    files: dict[str, bytes], executable: tuple[str, ...], argv: tuple[str, ...], priority: int
) -> None:
    found = start_of("Done.", list(files), files, executable)
    assert found is not None
    assert (found.argv, found.priority) == (argv, priority)


@pytest.mark.parametrize(
    "files",
    [
        {"package.json": b"{", "a.md": b""},
        {"package.json": b'{"scripts": {"start": 7}, "main": "gone.js"}'},
        {"package.json": b"[" * 100_000},
        {"pyproject.toml": b"[project.scripts]\nx = 'os; import evil:main'"},
        {"Makefile": b"all:\n\ttrue\nrun := 1\n"},
        {"go.mod": b"module x"},
        {"a.js": b"", "b.js": b""},
        {"tool": b"plain text"},
    ],
)
def test_a_manifest_that_declares_nothing_to_run_starts_nothing(files: dict[str, bytes]) -> None:
    assert start_of("Done.", list(files), files, ("tool",)) is None


@pytest.mark.parametrize(
    ("answer", "outcome"),
    [
        (ended(1, b"", b"ModuleNotFoundError: No module named 'requests'"), "missing_dependency"),
        (ended(1, b"", b"ModuleNotFoundError: No module named 'helpers.io'"), "nonzero"),
        (ended(137, b"y" * 100, truncated=True), "output_flood"),
        (ended(137, b""), "signal"),
    ],
)
def test_a_missing_package_and_a_flood_of_output_are_told_apart_from_a_failure(
    tmp_path: Path, answer: OneShotResult, outcome: str
) -> None:
    record = finished(tmp_path, a_case(), {"main.py": b"import requests, helpers.io", "helpers/io.py": b""})
    code = Engine(answer).verify(tmp_path, record, a_case()).produced
    assert code is not None
    assert code.outcome == outcome


def seen(engine_asked: OneShotSpec, **facts: Any) -> OneShotResult:
    nonce = json.loads(engine_asked.argv[-1])["nonce"]
    values = {"ports": [], "status": None, "body": "", "error": "", "ended": None, "output": "", **facts}
    return ended(0, f"noise\n{nonce}{json.dumps(values)}\n".encode())


class Watcher(Engine):
    """Answers the first look from its list, and the one of the watcher with what it is said to have seen."""

    def __init__(self, *answers: OneShotResult, **facts: Any) -> None:
        super().__init__(*answers)
        self._facts = facts

    def _once(self, spec: OneShotSpec) -> OneShotResult:
        return seen(spec, **self._facts) if spec.oracle_files else super()._once(spec)


@pytest.mark.requirements("R190")
def test_a_program_that_does_not_end_and_opens_a_port_is_a_server_and_no_crash(tmp_path: Path) -> None:
    record = finished(tmp_path, a_case(), {"server.py": SERVER})
    code = Watcher(ended(None, timed_out=True), ports=[8000]).verify(tmp_path, record, a_case()).produced
    assert code is not None
    assert (code.outcome, code.timed_out, code.ports) == ("long_running", True, (8000,))
    (tmp_path / "b").mkdir()
    hung = finished(tmp_path / "b", a_case(), {"server.py": SERVER})
    code = Watcher(ended(None, timed_out=True)).verify(tmp_path / "b", hung, a_case()).produced
    assert code is not None
    assert (code.outcome, code.timed_out, code.ports) == ("timeout", True, ())


@pytest.mark.parametrize(
    ("facts", "outcome", "words"),
    [
        ({"ports": [8000], "status": 200, "body": "<p>hello"}, "service_ok", ""),
        ({"ports": [8000], "status": 404}, "service_failed", "answered 404, 200 was expected"),
        ({"ports": [8000], "status": 200, "body": "no"}, "service_failed", "does not hold 'hello'"),
        ({"ports": [81]}, "service_failed", "port 8000 gave no answer within 15 s (open: 81)"),
        ({"ended": 1, "output": "Traceback"}, "service_failed", "the program had ended with exit code 1"),
    ],
)
def test_a_case_about_a_server_has_it_started_and_asked_once(
    tmp_path: Path, facts: dict[str, Any], outcome: str, words: str
) -> None:
    case = a_case(service=ServiceProbe(port=8000, contains="hello"))
    record = finished(tmp_path, case, {"server.py": SERVER})
    engine = Watcher(**facts)
    code = engine.verify(tmp_path, record, case).produced
    assert code is not None
    assert code.outcome == outcome
    assert words in code.stderr
    assert len(engine.asked) == 1


def test_a_server_that_stops_what_watches_it_has_not_answered(tmp_path: Path) -> None:
    case = a_case(service=ServiceProbe(port=8000))
    record = finished(tmp_path, case, {"server.py": SERVER})
    code = Engine(ended(137, b'{"ports": [8000], "status": 200}')).verify(tmp_path, record, case).produced
    assert code is not None
    assert code.outcome == "service_failed"
    assert "what watches it was stopped" in code.stderr


def free_port() -> int:
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return int(found.getsockname()[1])


@pytest.mark.parametrize(
    ("program", "wanted"),
    [
        (
            "import http.server as h; h.HTTPServer(('127.0.0.1', {port}), h.SimpleHTTPRequestHandler).serve_forever()",
            200,
        ),
        ("import sys; print('boom'); sys.exit(3)", None),
    ],
)
def test_the_watcher_asks_a_real_server_and_ends_it(tmp_path: Path, program: str, wanted: int | None) -> None:
    port = free_port()
    code = program.format(port=port)
    job = {
        "argv": [sys.executable, "-c", code], "seconds": 20, "nonce": "n0nce", "output": str(tmp_path / "out"),
        "port": port, "path": "/",
    }  # fmt: skip
    done = subprocess.run(
        [sys.executable, "-I", "-B", serve.__file__, json.dumps(job)],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=True,
    )
    found = json.loads(done.stdout.splitlines()[-1].removeprefix("n0nce"))
    assert found["status"] == wanted
    assert (port in found["ports"]) is (wanted == 200)
    if wanted is None:
        assert (found["ended"], found["output"]) == (3, "boom\n")
    with socket.socket() as again:
        assert again.connect_ex(("127.0.0.1", port)) != 0, "the server was ended"
