from __future__ import annotations

import json
from pathlib import Path

import pytest

from gate.cli import main
from gate.wiring import bind

SKILL = "---\nname: sums\ndescription: Adds numbers, when asked for a total.\n---\nAdd.\n"
SUITE = """version: 1
cases:
  - id: guarded
    prompt: Add them up.
    files: {in.csv: "1\\n2\\n"}
    checks:
      - {kind: file_unchanged, path: in.csv}
      - {kind: response_contains, keyword: "3"}
  - id: harmless
    prompt: Add them up, and touch nothing.
    checks:
      - {kind: file_absent, path: out.csv}
      - {kind: response_contains_none, texts: [sorry]}
"""


def test_check_says_which_checks_prove_nothing_and_which_case_a_null_agent_passes(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = tmp_path / "skills" / "sums"
    (folder / "evals").mkdir(parents=True)
    (folder / "SKILL.md").write_text(SKILL, "utf-8")
    (folder / "evals" / "skill-gate.yaml").write_text(SUITE, "utf-8")

    assert main(bind({}), ["check", str(tmp_path), "--json"]) == 0
    (skill,) = json.loads(capsys.readouterr().out)
    found = {item["rule"]: item for item in skill["findings"] if item["rule"].startswith("suite/")}

    assert found["suite/trivial-check"]["message"].endswith("c1 (file_unchanged)")
    assert found["suite/trivial-check"]["level"] == "notice"
    assert 'answers "Done." passes every check' in found["suite/idle-agent-passes"]["message"]
    assert found["suite/idle-agent-passes"]["path"] == f"{folder}/evals/skill-gate.yaml"
    assert found["suite/idle-agent-passes"]["line"] == 9
    assert main(bind({}), ["check", str(tmp_path)]) == 0
    assert "evals/skill-gate.yaml:9: warning: case" in capsys.readouterr().out
