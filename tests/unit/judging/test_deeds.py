"""What an agent says, prints or promises is no deed: files that nobody made, commands that were only printed."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from gate.domain.judgement import GradeStatus
from gate.judging.grader import grade_run, recheck_grading
from gate.judging.second_look import opposite
from tests.builders_judging import SEED, Call, a_run, expecting, honest, judged_by, row

PASSED, FAILED = GradeStatus.PASSED, GradeStatus.FAILED
SAID = "I saved the totals to out/report.csv for you."


def status_of(root: Path, text: str, quote: tuple[str, str], **run: Any) -> tuple[GradeStatus, str]:
    """What becomes of a pass by a lenient judge that quotes one line."""
    record = a_run(root, **run)
    answers = {text: row("", "pass", quote), opposite(text): row("", "fail")}
    models, ledger, _ = judged_by(honest(answers))
    case = expecting(text)
    grading = grade_run(case, record, None, root=root, models=models, ledger=ledger, seed=SEED)
    assert recheck_grading(grading, case, record, root) == []
    return grading.rows[0].status, grading.rows[0].reason


@pytest.mark.requirements("R29", "R59")
@pytest.mark.parametrize(
    "text", ["The file `report.csv` is saved.", "Creates `out/report.csv`.", "生成了文件 `report.csv`。"]
)
def test_a_file_of_which_only_the_answer_knows_was_not_made(tmp_path: Path, text: str) -> None:
    status, reason = status_of(tmp_path, text, ("B001:1", SAID), response=SAID)
    assert status is FAILED
    assert "no file" in reason


@pytest.mark.parametrize(
    "run",
    [
        {"files": {"out/report.csv": b"a,b\n1,2\n"}},
        {"files": {"out/report.csv": b"\x00\x01binary"}},
        {"calls": [Call("bash", {"command": "python sum.py --out out/report.csv"}, "")]},
        {"calls": [Call("bash", {"command": "python sum.py"}, "written: out/report.csv")]},
        {"calls": [Call("mcp__drive__upload", {"name": "report.csv"}, "ok")]},
    ],
    ids=["it is there", "it is there and no text", "a call names it", "a call reports it", "a server got it"],
)
def test_a_file_that_the_record_knows_may_be_quoted_from_the_answer(tmp_path: Path, run: dict[str, Any]) -> None:
    block = "B002:1" if "calls" in run else "B001:1"
    status, reason = status_of(tmp_path, "The file `report.csv` is saved.", (block, SAID), response=SAID, **run)
    assert status is PASSED, reason


@pytest.mark.parametrize(
    "text",
    [
        "The answer says that `report.csv` is saved.",
        "The answer tells where `report.csv` was written.",
        "Mentions `report.csv`.",
        "The answer explains how `report.csv` is created.",
    ],
)
def test_what_is_asked_of_the_words_may_rest_on_the_words(tmp_path: Path, text: str) -> None:
    status, reason = status_of(tmp_path, text, ("B001:1", SAID), response=SAID)
    assert status is PASSED, reason


RAN = "The command `pytest` was run."


@pytest.mark.requirements("R28", "R29")
@pytest.mark.parametrize(
    "command",
    [
        "echo 'pytest: 12 passed'",
        "printf 'pytest 12 passed\\n'",
        "true # pytest",
        "ls; echo pytest",
        "sudo echo pytest",
    ],
)
def test_a_command_that_was_only_printed_was_not_run(tmp_path: Path, command: str) -> None:
    calls = [Call("bash", {"command": command}, "pytest: 12 passed")]
    status, reason = status_of(tmp_path, RAN, ("B001:5", "pytest: 12 passed"), calls=calls)
    assert status is FAILED, reason
    assert "print" in reason


@pytest.mark.parametrize(
    "calls",
    [
        [Call("bash", {"command": "pytest -q"}, "12 passed in 1 s")],
        [Call("bash", {"command": "cd app && python -m pytest"}, "12 passed in 1 s")],
        [Call("bash", {"command": "echo pytest > run.sh && bash run.sh"}, "12 passed in 1 s")],
        [Call("bash", {"command": "echo pytest | bash"}, "12 passed in 1 s")],
        [
            Call("bash", {"command": "echo pytest"}, "pytest is on"),
            Call("bash", {"command": "make test"}, "pytest: 12 passed"),
        ],
        [Call("write_file", {"path": "run.sh", "content": "pytest"}, "12 characters written")],
        [Call("bash", {"command": "echo $(pytest -q)"}, "12 passed in 1 s")],
        [Call("bash", {"command": "make test # runs pytest"}, "pytest: 12 passed")],
        [Call("bash", {"command": "echo pytest; make test"}, "pytest: 12 passed")],
    ],
    ids=[
        "run",
        "as a module",
        "by a script",
        "by a pipe",
        "by make",
        "in a file",
        "inside of echo",
        "beside a comment",
        "beside echo",
    ],
)
def test_whatever_could_have_run_it_is_left_to_the_judge(tmp_path: Path, calls: list[Call]) -> None:
    quotes = ("B001:2", "pytest")
    record_line = {"write_file": '"content":"pytest"'}.get(
        calls[0].tool, f'"command":"{(calls[0].args or {}).get("command")}"'
    )
    status, reason = status_of(tmp_path, RAN, (quotes[0], record_line), calls=calls)
    assert status is PASSED, reason


def test_where_printing_is_what_is_expected_it_is_the_deed(tmp_path: Path) -> None:
    calls = [Call("bash", {"command": "echo ready-now"}, "ready-now")]
    text = "Runs a command that prints `ready-now`."
    status, reason = status_of(tmp_path, text, ("B001:5", "ready-now"), calls=calls)
    assert status is PASSED, reason
