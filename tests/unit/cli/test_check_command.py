from __future__ import annotations

import json
from pathlib import Path

import pytest

from gate.cli import main
from gate.wiring import bind

GOOD = "---\nname: sums\ndescription: Adds numbers.\nversion: '1'\n---\n[x](none.md)\n"


def check(folder: Path, capsys: pytest.CaptureFixture[str], *options: str) -> tuple[int, str]:
    code = main(bind({}), ["check", str(folder), *options])
    return code, capsys.readouterr().out


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "skills" / "sums").mkdir(parents=True)
    (tmp_path / "skills" / "sums" / "SKILL.md").write_text(GOOD, "utf-8")
    return tmp_path


def test_json_holds_facts_and_findings_with_paths_that_start_as_they_were_named(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    code, out = check(folder, capsys, "--json")
    skill = json.loads(out)[0]
    assert code == 0
    assert skill["path"] == f"{folder}/skills/sums"
    assert skill["facts"]["links"][0]["kind"] == "broken"
    assert [item["rule"] for item in skill["findings"]] == ["body/broken-link"]
    assert skill["findings"][0]["path"] == f"{folder}/skills/sums/SKILL.md"


def test_a_validator_that_refuses_makes_the_exit_code_1_only_where_it_was_asked(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert check(folder, capsys)[0] == 0
    assert check(folder, capsys, "--profile", "claude-code")[0] == 0
    code, out = check(folder, capsys, "--profile", "spec", "--profile", "skills-ref")
    assert code == 1
    assert "profile/spec/unknown-key" in out
    assert "profile/skills-ref/unexpected-fields" in out


def test_sarif_goes_to_standard_output_and_nothing_else(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code, out = check(folder, capsys, "--sarif")
    assert code == 0
    assert [item["ruleId"] for item in json.loads(out)["runs"][0]["results"]] == ["body/broken-link"]


def test_json_and_sarif_together_are_a_mistake_of_the_caller(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert check(folder, capsys, "--sarif", "--json") == (2, "")


def test_a_broken_skill_is_listed_and_does_not_hide_the_others(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (folder / "skills" / "review").mkdir()
    text = "---\nname: review\ndescription: Review along two axes: standards and tests\n---\n"
    (folder / "skills" / "review" / "SKILL.md").write_text(text, "utf-8")
    code, out = check(folder, capsys)
    assert code == 1
    assert f"{folder}/skills/review/SKILL.md:3: error:" in out
    assert "in quotes" in out
    assert out.endswith("2 skills, 0 eval cases, 1 unusable\n")


def test_every_file_and_manifest_is_counted_by_kind_and_a_manifests_state_is_said(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    skill = folder / "skills" / "sums"
    for name in ("run.py", "notes.md", "evals/evals.json", "evals/files/a.csv", "data.bin"):
        (skill / name).parent.mkdir(parents=True, exist_ok=True)
        (skill / name).write_text('{"evals": [{"id": 1, "prompt": "p", "expectations": ["x"]}]}', "utf-8")
    (skill / "link").symlink_to("run.py")
    (folder / ".claude-plugin").mkdir()
    plugin = {"name": "p", "version": "1.0.0", "description": "d", "skills": ["./skills/gone"]}
    (folder / ".claude-plugin" / "plugin.json").write_text(json.dumps(plugin), "utf-8")
    _, out = check(folder, capsys)
    lines = out.splitlines()
    assert "files by kind: SKILL.md 1, document 1, eval file 1, file beside evals 1, link 1, other 1, script 1" in lines
    assert "eval files by dialect: skill-creator 1" in lines
    assert "manifests by kind: plugin-json failed 1, skills without a signature 1" in lines
    assert [line for line in lines if line.startswith(f"{folder}/.claude-plugin/plugin.json: plugin-json: failed")]


def test_with_json_the_summary_is_for_people_and_not_in_the_data(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    main(bind({}), ["check", str(folder), "--json"])
    found = capsys.readouterr()
    assert len(json.loads(found.out)) == 1
    assert "files by kind: SKILL.md 1" in found.err
