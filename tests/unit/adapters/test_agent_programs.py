"""Where an agent program is: package managers leave a launcher, and a sandbox needs the executable behind it."""

from __future__ import annotations

from pathlib import Path

import pytest

from gate.adapters.agent_programs import find_program
from gate.errors import ConfigurationError

ELF = b"\x7fELF and so on"


def put(path: Path, data: bytes = ELF) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(data)
    path.chmod(0o755)
    return path


def link(path: Path, to: Path) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.symlink_to(to)
    return path


def test_a_launcher_that_is_a_link_to_the_executable(tmp_path: Path) -> None:
    real = put(tmp_path / "node_modules/@maker/claude-code/bin/claude.exe")
    link(tmp_path / "bin/claude", real)
    (found,) = find_program("claude", None, path=str(tmp_path / "bin"))
    assert (found.name, found.source) == ("claude", real)


def test_a_launcher_that_is_a_script_leads_to_the_package_beside_it_and_to_its_company(tmp_path: Path) -> None:
    packages = tmp_path / "node_modules/@maker"
    script = put(packages / "codex/bin/codex.js", b"#!/usr/bin/env node\n")
    put(packages / "aaa/bin/codex")  # of somebody else
    real = put(packages / "codex-linux-x64/vendor/x/bin/codex")
    rg = put(packages / "codex-linux-x64/vendor/x/codex-path/rg")
    link(tmp_path / "bin/codex", script)
    files = find_program("codex", None, path=str(tmp_path / "bin"))
    assert [(file.name, file.source) for file in files] == [("codex", real), ("rg", rg)]


def test_nothing_on_the_machine_leaves_it_to_the_image(tmp_path: Path) -> None:
    assert find_program("claude", None, path=str(tmp_path)) == ()
    put(tmp_path / "claude", b"#!/bin/sh\nexec elsewhere\n")
    assert find_program("claude", None, path=str(tmp_path)) == ()


def test_a_file_that_is_named_is_taken_as_it_is_and_a_folder_is_searched(tmp_path: Path) -> None:
    script = put(tmp_path / "agent.sh", b"#!/bin/sh\n")
    assert [file.source for file in find_program("agent", str(script))] == [script]
    real = put(tmp_path / "deep/down/claude")
    assert [file.source for file in find_program("claude", str(tmp_path))] == [real]


@pytest.mark.parametrize("named", ["missing", "."])
def test_what_is_named_and_is_none_is_an_error_that_says_so(tmp_path: Path, named: str) -> None:
    with pytest.raises(ConfigurationError) as caught:
        find_program("claude", str(tmp_path / named))
    assert str(tmp_path) in caught.value.message
    assert caught.value.remedy


def test_nobody_else_s_program_is_taken_along_from_further_away(tmp_path: Path) -> None:
    (tmp_path / "mine").mkdir()
    (tmp_path / "theirs/deep").mkdir(parents=True)
    for place in ("mine/codex", "theirs/deep/rg"):
        (tmp_path / place).write_bytes(b"\x7fELF")
    assert [file.name for file in find_program("codex", str(tmp_path / "mine/codex"))] == ["codex"]
