"""``skill-gate verify FILE``: what a transcript of another program can show."""

from __future__ import annotations

import threading
from dataclasses import replace
from pathlib import Path

import pytest

from gate.cli import main as run_command
from gate.wiring import bind
from tests.unit.evidence.test_foreign import CLAUDE, CODEX, TWO_BLOCK


def shown(path: Path, capsys: pytest.CaptureFixture[str]) -> tuple[int, str]:
    code = run_command(replace(bind({}, threading.Event()), say=lambda text: None), ["verify", str(path)])
    return code, capsys.readouterr().out


@pytest.mark.parametrize(
    ("text", "dialect"), [(TWO_BLOCK, "two_block"), (CLAUDE, "claude_stream_json"), (CODEX, "codex_jsonl")]
)
def test_a_transcript_of_a_known_form_says_its_calls_and_that_they_are_reported(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], text: str, dialect: str
) -> None:
    path = tmp_path / "transcript"
    path.write_text(text)
    _, out = shown(path, capsys)
    assert f"format: {dialect}" in out
    assert "tier 2" in out
    assert "calls: none" not in out


def test_free_text_shows_no_call_whatever_it_says(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "transcript.txt"
    path.write_text("I called saveDoc and it returned success.")
    code, out = shown(path, capsys)
    assert code == 0
    assert "cannot show that anything was called" in out


def test_lines_that_count_for_nothing_are_named_and_the_exit_code_says_so(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "run.jsonl"
    path.write_text(CLAUDE.rstrip("\n") + '\n{"type": "assistant", "message": {"content": 7}}\n')
    code, out = shown(path, capsys)
    assert code == 1
    assert "counts as a note: line " in out


def test_many_calls_are_read_in_one_go(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    lines = ['{"type":"thread.started","thread_id":"t"}']
    for number in range(20_000):
        item = f'"id":"i{number}","type":"command_execution","command":"true"'
        lines.append(f'{{"type":"item.completed","item":{{{item},"status":"completed","exit_code":0}}}}')
        lines.append(
            f'{{"type":"item.completed","item":{{"id":"m{number}","type":"agent_message","text":"ok {number}"}}}}'
        )
    path = tmp_path / "run.jsonl"
    path.write_text("\n".join(lines))
    code, out = shown(path, capsys)
    assert (code, "20000 success" in out) == (0, True)
