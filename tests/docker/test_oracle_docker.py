"""A workspace cannot hijack the program that judges it: on a real engine."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import pytest

from gate.adapters.docker_sandbox import DockerSandbox
from gate.domain.checks import Check, Command, OracleCommand
from gate.domain.judgement import CheckStatus
from gate.domain.sandbox import OneShotSpec, PutFile
from gate.domain.suite import Case
from gate.evidence.bundle import Bundle
from gate.execution.verification import oracle_argv, verify_run
from gate.judging.ground_truth import check_run
from tests.builders_judging import a_run
from tests.docker.conftest import IMAGE

pytestmark = pytest.mark.docker

# Fails for a workspace without the right answer, whatever else is in it.
PYTHON = """
import json, os, pathlib, sys
assert os.getcwd() == "/tmp" and os.listdir(".") == [], (os.getcwd(), os.listdir("."))
assert not [item for item in sys.path if item.startswith(("/work", "/tmp"))] and "" not in sys.path, sys.path
assert sorted(os.environ) == ["HOME", "LANG", "PATH", "PYTHONHASHSEED", "TZ"], sorted(os.environ)
assert os.stat(__file__).st_uid == 0 and not os.access("/oracle", os.W_OK) and not os.access(__file__, os.W_OK)
answer = pathlib.Path("/work/answer.json")
assert json.loads(answer.read_text())["total"] == 1250, "wrong total"
print("oracle: right")
"""
BASH = '[[ $(python3 -c "print(6 * 7)") == 42 && $(cat /work/answer.json) == *1250* ]] && echo "oracle: right"\n'
# The same question, asked where the workspace is: its folder comes first on the path of modules.
NAIVE = """python3 -c 'import json, sys; sys.exit(json.load(open("answer.json"))["total"] != 1250)'"""
WIN = "#!/bin/sh\necho 'oracle: right'\nexit 0\n"
STOP = "import os\nprint('oracle: right', flush=True)\nos._exit(0)\n"
HIJACK = {
    "conftest.py": STOP,
    "sitecustomize.py": STOP,
    "usercustomize.py": STOP,
    "json/__init__.py": STOP,
    "pathlib.py": STOP,
    "pytest.ini": "[pytest]\naddopts = --co -q\n",
    "setup.cfg": "[tool:pytest]\naddopts = --co\n",
    ".bashrc": WIN,
    ".profile": WIN,
    ".bash_env": WIN,
    "home/.bashrc": WIN,
    "home/.local/lib/python3.11/site-packages/usercustomize.py": STOP,
    "python": WIN,
    "python3": WIN,
    "cat": WIN,
    "env": WIN,
    "bin/python3": WIN,
    "oracle/check.py": STOP,
    "oracle/check.sh": WIN,
    ".skill-gate-go": "",
}


def status(root: Path, sandbox: DockerSandbox, session_id: str, run: int, files: Mapping[str, bytes]) -> list[str]:
    """What both oracles and the naive command say of a workspace."""
    record = a_run(root, run=run, files=files)
    # Whoever plants a program makes it executable.
    record = record.model_copy(
        update={"files": tuple(file.model_copy(update={"executable": True}) for file in record.files)}
    )
    oracles = {"check.py": PYTHON, "check.sh": BASH}
    oracle_checks = tuple(
        Check(
            id=name,
            parameters=OracleCommand(files=oracles, script=name, stdout_contains="oracle: right"),
        )
        for name in oracles
    )
    checks = (*oracle_checks, Check(id="naive", parameters=Command(run=NAIVE)))
    case = Case(eval_id="one", prompt="p", checks=checks)
    verification = verify_run(record, case, bundle=Bundle(root), sandbox=sandbox, image=IMAGE, session_id=session_id)
    results = check_run(case, record, root, verification)
    return [f"{result.status.value}: {result.found}" for result in results]


def test_a_workspace_full_of_traps_gains_nothing_and_the_right_answer_still_passes(
    real_sandbox: DockerSandbox, session_id: str, tmp_path: Path
) -> None:
    traps = {path: text.encode() for path, text in HIJACK.items()}

    wrong = status(tmp_path, real_sandbox, session_id, 1, {**traps, "answer.json": b'{"total": 1}'})
    right = status(tmp_path, real_sandbox, session_id, 2, {**traps, "answer.json": b'{"total": 1250}'})

    assert wrong[0].startswith(f"{CheckStatus.FAILED.value}: exit code 1: ")
    assert wrong[0].endswith("wrong total")
    assert wrong[1] == "failed: exit code 1 and no output"
    assert wrong[2] == "passed: exit code 0", "the traps work where nothing defends against them"
    assert right == ["passed: exit code 0"] * 3


def test_files_that_judge_are_roots_and_no_command_can_write_where_they_lie(
    real_sandbox: DockerSandbox, session_id: str
) -> None:
    script = "stat -c '%u %a %n' /oracle /oracle/a.py; echo x > /oracle/a.py; echo x > /oracle/b; ls /skills /work"
    result = real_sandbox.run_once(
        OneShotSpec(
            session_id=session_id,
            label="v",
            image=IMAGE,
            argv=("bash", "-c", script),
            oracle_files=(PutFile(path="a.py", data=b"1"),),
        )
    )

    assert result.stdout.decode().split("\n")[:2] == ["0 755 /oracle", "0 644 /oracle/a.py"]
    assert result.stderr.decode().count("Permission denied") == 2


def test_an_oracle_is_named_by_absolute_paths_only() -> None:
    for script in ("a.py", "sub/b.sh"):
        argv = oracle_argv(OracleCommand(files={script: ""}, script=script))
        programs = [argv[0], argv[4], next(item for item in argv if item.endswith(("python3", "bash")))]
        assert all(item.startswith("/") for item in programs)
        assert argv[-1] == f"/oracle/{script}"
