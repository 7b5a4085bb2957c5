"""Every real eval file of the corpus is understood, or named with the reason."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from gate.domain.findings import Level
from gate.intake.suite import read_evals
from gate.intake.suite_places import is_suite_name
from gate.intake.tree import check_folder
from tests.builders_skill import DESCRIPTION, a_file, a_skill


def test_every_eval_file_of_the_corpus_is_understood(shared_dir: Path) -> None:
    dialects: dict[str, int] = {}
    cases = judged = 0
    for path in sorted(item for item in (shared_dir / "corpus").rglob("*") if is_suite_name(item.name)):
        data = path.read_bytes()
        place = f"evals/{path.name}" if path.name == "evals.json" else path.name
        name = path.parent.parent.name if path.parent.name == "evals" else path.parent.name
        file = a_file(place).model_copy(update={"data": data, "size_bytes": len(data)})
        reading = read_evals(a_skill(f"skills/{name}", files=(file,)))
        assert not [item for item in reading.findings if item.level is Level.ERROR], (path, reading.findings)
        assert {item.rule for item in reading.findings} <= {
            "suite/no-case", "suite/trigger-cases", "suite/settings", "suite/could-be-exact", "suite/unknown-keys",
            "suite/unknown-tool",
        }, (path, reading.findings)  # fmt: skip
        (source,) = reading.sources
        dialects[source.dialect] = dialects.get(source.dialect, 0) + 1
        if reading.suite is None:
            assert json.loads(data) == [], path
        else:
            cases += len(reading.suite.cases)
            judged += sum(len(case.checks) + len(case.expectations) for case in reading.suite.cases)
    assert dialects["dotnet-scenarios"] == 6
    assert dialects["nvidia"] + dialects["agentskills"] >= 12
    assert sum(dialects.values()) >= 21
    assert cases > 80
    assert judged > 500


def test_evals_that_belong_to_no_skill_are_said_with_what_they_hold(shared_dir: Path) -> None:
    checked = check_folder(shared_dir / "corpus" / "dotnet__skills", orphans=True)
    said = [found.message for item in checked for found in item.findings if found.rule == "suite/no-skill"]
    assert len(said) + sum(item.suite is not None and item.skill is not None for item in checked) == 6
    assert all("cases" in message for message in said)
    assert not [
        found for item in checked for found in item.findings if found.blocks and found.rule.startswith("suite/")
    ]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    skill = tmp_path / "skills" / "sums"
    (skill / "evals").mkdir(parents=True)
    (skill / "SKILL.md").write_text(f"---\nname: sums\ndescription: {DESCRIPTION}\n---\nAdd.\n", encoding="utf-8")
    (skill / "evals" / "evals.json").write_text(
        json.dumps(
            [
                {
                    "id": "a\x1b[31m",
                    "prompt": "Add 1 and 2.",
                    "assertions": [{"type": "contains", "value": "3"}, "At most 5 words"],
                },
                {"query": "Draw a cat", "should_trigger": False},
            ]
        ),
        encoding="utf-8",
    )
    (tmp_path / "old" / "evals").mkdir(parents=True)
    (tmp_path / "old" / "evals" / "evals.json").write_text('[{"prompt": "p", "expectation": ["e"]}]', encoding="utf-8")
    return tmp_path


def run_check(*arguments: str) -> tuple[int, str]:
    """What the command answers: (exit code, standard output)."""
    entry = Path(__file__).resolve().parents[3] / "entrypoint.py"
    done = subprocess.run(
        [sys.executable, str(entry), "check", *arguments], capture_output=True, text=True, check=False, timeout=120
    )
    return done.returncode, done.stdout


def test_explain_suite_prints_what_each_case_became(folder: Path) -> None:
    code, output = run_check("--explain-suite", str(folder))
    lines = [line.strip() for line in output.splitlines()]
    assert code == 0, output
    assert 'check c1 (must): response_contains keyword "3"' in lines
    assert "could be exact: - {kind: response_word_count, max: 5}" in lines
    assert any(line.endswith("should not open the skill: Draw a cat") for line in lines)
    assert "\x1b" not in output, "what a file holds steers no terminal"
    assert lines[-1] == "1 skill, 1 eval case, 0 unusable", "evals of no skill make none unusable"
    _, output = run_check(str(folder))
    assert "check c1" not in output
    assert "suite/no-skill" in output
    assert "did you mean expectations?" in output
