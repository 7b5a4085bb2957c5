"""``skill-gate init`` as somebody uses it for the first time."""

from __future__ import annotations

import json
import shutil
import threading
from dataclasses import replace
from pathlib import Path

import pytest

from gate.adapters.git_repository import GitRepository
from gate.cli import main as run_command
from gate.cli.init import IGNORE, POLICY, WORKFLOW, skeleton_text
from gate.domain.findings import Level
from gate.domain.skill import Skill
from gate.domain.suite import UNWRITTEN_PROMPT, Suite
from gate.intake.policy import read_policy
from gate.intake.tree import check_folder
from gate.wiring import bind
from tests.scripted.demo import scenario
from tests.scripted.server import ScriptedServer
from tests.story import git

SKILL = """---
name: {name}
description: Writes {name} for the team. Use when somebody asks for {name}.
---
# {name}

- Always put the date on the first line.
- Never use more than "ten" words.
"""
AGENTSKILLS = (
    '{"skill_name": "b", "evals": [{"id": 1, "prompt": "Write b.", "assertions": ["It names the \\"date\\"."]}]}'
)
SENTRY = '[{"id": "eval-1", "prompt": "Write c.", "expectations": [{"text": "It names the \\"date\\".", "precision": "semantic"}]}]'
SKILLGRADE = """version: "1"
tasks:
  - name: write
    instruction: Write d.
    graders:
      - {type: llm_rubric, rubric: It names the date., weight: 1.0}
"""


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    root = tmp_path / "repository"
    for name in "abcd":
        place = root / "skills" / name
        place.mkdir(parents=True)
        (place / "SKILL.md").write_text(SKILL.format(name=name), encoding="utf-8")
    (root / "skills/b/evals").mkdir()
    (root / "skills/b/evals/evals.json").write_text(AGENTSKILLS, encoding="utf-8")
    (root / "skills/c/evals").mkdir()
    (root / "skills/c/evals/evals.json").write_text(SENTRY, encoding="utf-8")
    (root / "skills/d/eval.yaml").write_text(SKILLGRADE, encoding="utf-8")
    git(root, "init", "--quiet", "--initial-branch=main")
    return root


def init(*arguments: object, **keys: str) -> tuple[int, list[str]]:
    said: list[str] = []
    app = replace(bind(dict(keys), threading.Event()), say=said.append)
    return run_command(app, ["init", *map(str, arguments)]), said


def contents(root: Path) -> dict[str, bytes]:
    return {
        str(path.relative_to(root)): path.read_bytes()
        for path in sorted(root.rglob("*"))
        if path.is_file() and ".git/" not in str(path.relative_to(root)) + "/"
    }


def suite_of(folder: Path) -> tuple[Skill, Suite]:
    (found,) = check_folder(folder)
    assert found.skill is not None
    assert found.suite is not None
    assert not any(item.blocks for item in found.findings)
    return found.skill, found.suite


def write_prompt(suite: Path) -> None:
    suite.write_text(suite.read_text(encoding="utf-8").replace(UNWRITTEN_PROMPT, "Write a."), encoding="utf-8")


def check(capsys: pytest.CaptureFixture[str], *arguments: object) -> tuple[int, list[str]]:
    capsys.readouterr()
    code = run_command(bind({}, threading.Event()), ["check", *map(str, arguments)])
    return code, capsys.readouterr().out.splitlines()


def test_check_after_init_complains_of_nothing_but_the_prompt_that_is_to_be_written(
    repository: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    init(repository)
    code, printed = check(capsys, repository, "--explain-suite")
    assert code == 0
    errors = [line for line in printed if ": error: " in line]
    assert len(errors) == 1
    assert errors[0].startswith(f"{repository}/skills/a/evals/skill-gate.yaml:")
    assert errors[0].endswith("[suite/unwritten]")
    assert not any(".github" in line for line in printed)
    write_prompt(repository / "skills/a/evals/skill-gate.yaml")
    assert not any(": error: " in line for line in check(capsys, repository)[1])


def test_a_skeleton_is_no_evals_until_somebody_writes_its_prompt(repository: Path) -> None:
    init(repository)
    suite = repository / "skills/a/evals/skill-gate.yaml"
    suite.write_text(suite.read_text().replace("generated: true\n", ""), encoding="utf-8")
    (found,) = check_folder(repository / "skills/a")
    assert found.suite is None
    assert found.cases == 0
    assert [item.rule for item in found.findings if item.level is Level.ERROR] == ["suite/unwritten"]
    write_prompt(suite)
    assert [case.eval_id for case in suite_of(repository / "skills/a")[1].cases] == ["first"]


def test_a_run_over_a_skeleton_judges_nothing_and_says_why(repository: Path, tmp_path: Path) -> None:
    init(repository)
    git(repository, "add", "--all")
    git(repository, "commit", "--quiet", "--message", "Set up")
    app = replace(bind({}, threading.Event()), say=lambda text: None)
    out = tmp_path / "out"
    run_command(app, ["run", "skills/a", "--repository", str(repository), "--mode", "smoke", "--out", str(out)])
    (skill,) = json.loads((out / "report.json").read_text())["skills"]
    assert skill["verdict"] == "no_evals"
    assert "suite/unwritten" in [item["rule"] for item in skill["findings"]]


def test_of_a_skeleton_with_one_written_case_only_that_one_is_run(repository: Path) -> None:
    init(repository)
    suite = repository / "skills/a/evals/skill-gate.yaml"
    text = suite.read_text(encoding="utf-8")
    more = "cases:\n  - id: mine\n    prompt: Write a.\n    expectations: [The date is on the first line.]\n"
    suite.write_text(text.replace("cases:\n", more, 1), encoding="utf-8")
    assert [case.eval_id for case in suite_of(repository / "skills/a")[1].cases] == ["mine"]


def test_a_prompt_about_todos_that_no_program_made_is_a_prompt(repository: Path) -> None:
    place = repository / "skills/a/evals/skill-gate.yaml"
    place.parent.mkdir()
    place.write_text(
        'version: 1\ncases:\n- id: mine\n  prompt: "TODO: buy milk. Sort this list."\n  expectations: [It is sorted.]\n',
        encoding="utf-8",
    )
    assert [case.eval_id for case in suite_of(repository / "skills/a")[1].cases] == ["mine"]


@pytest.mark.parametrize(
    ("before", "after"),
    [
        (b"node_modules/\n", b"node_modules/\n.skill-gate/\n"),
        (b"node_modules/", b"node_modules/\n.skill-gate/\n"),
        (b"", b".skill-gate/\n"),
        (b"/.skill-gate\n", b"/.skill-gate\n"),
        (b".skill-gate/\r\nx\r\n", b".skill-gate/\r\nx\r\n"),
    ],
)
def test_bundles_are_ignored_by_git_and_what_was_ignored_stays(repository: Path, before: bytes, after: bytes) -> None:
    (repository / IGNORE).write_bytes(before)
    init(repository)
    assert (repository / IGNORE).read_bytes() == after
    (repository / ".skill-gate").mkdir()
    (repository / ".skill-gate/report.json").write_text("{}")
    assert ".skill-gate" not in git(repository, "status", "--short", "--untracked-files=all").split()[1::2]


def test_it_says_how_to_try_a_skill_that_no_branch_has_changed(
    repository: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    init(repository)
    assert "skill-gate run skills/b --mode smoke" in capsys.readouterr().out, "the first that has cases to run"
    for name in "bcd":
        shutil.rmtree(repository / "skills" / name)
    init(repository)
    assert "skill-gate run skills/a --mode smoke" in capsys.readouterr().out, "its skeleton, once it is written"


def test_it_writes_a_policy_a_workflow_and_evals_for_the_one_skill_without_any(
    repository: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    before = contents(repository)
    assert init(repository)[0] == 0
    after = contents(repository)
    assert set(after) - set(before) == {POLICY, WORKFLOW, IGNORE, "skills/a/evals/skill-gate.yaml"}
    assert {name: after[name] for name in before} == before
    printed = capsys.readouterr().out
    for dialect in ("agentskills", "skillsentry", "skillgrade"):
        assert dialect in printed
    write_prompt(repository / "skills/a/evals/skill-gate.yaml")
    skill, suite = suite_of(repository / "skills/a")
    assert suite.generated
    assert [item.rule_ref for item in suite.cases[0].expectations] == ["line 7", "line 8"]
    assert '"' not in "".join(item.text for item in suite.cases[0].expectations)
    assert skeleton_text(skill).encode() == after["skills/a/evals/skill-gate.yaml"]


def test_a_second_time_it_changes_nothing(repository: Path, capsys: pytest.CaptureFixture[str]) -> None:
    init(repository)
    before = contents(repository)
    capsys.readouterr()
    assert init(repository)[0] == 0
    assert contents(repository) == before
    assert "written" not in capsys.readouterr().out


@pytest.mark.parametrize("name", [POLICY, WORKFLOW, ".github/skill-gate.yaml", "skills/a/evals/skill-gate.yaml"])
def test_what_is_there_stays_as_it_is(repository: Path, name: str) -> None:
    place = repository / name
    place.parent.mkdir(parents=True, exist_ok=True)
    place.write_text("mode: [broken\n", encoding="utf-8")
    init(repository)
    assert place.read_text() == "mode: [broken\n"
    assert not (name.endswith("skill-gate.yaml") and name.startswith(".github") and (repository / POLICY).exists())


def test_a_workflow_that_runs_the_gate_under_another_name_is_enough(repository: Path) -> None:
    other = repository / ".github/workflows/skills.yml"
    other.parent.mkdir(parents=True)
    other.write_text("jobs: {a: {steps: [{uses: someone/skill-gate@v1}]}}\n", encoding="utf-8")
    init(repository)
    assert not (repository / WORKFLOW).exists()


def test_it_writes_through_no_link(repository: Path, tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    (repository / ".github").symlink_to(outside)
    code, said = init(repository)
    assert code == 2
    assert list(outside.iterdir()) == []
    assert any(".github" in line for line in said)


def test_the_policy_that_it_writes_is_one(repository: Path) -> None:
    init(repository)
    git(repository, "add", "--all")
    git(repository, "commit", "--quiet", "--message", "Set up")
    repo = GitRepository(str(repository))
    policy, findings = read_policy(repo, repo.resolve("HEAD"))
    assert findings == ()
    assert policy.mode is not None
    assert policy.mode.value == "standard"


def test_a_folder_without_a_skill_is_an_error_for_people(tmp_path: Path) -> None:
    code, said = init(tmp_path)
    assert code == 2
    assert any("There is no SKILL.md in or below" in line for line in said)


def test_a_draft_needs_a_model(repository: Path) -> None:
    code, said = init(repository, "--draft")
    assert code == 2
    assert any("ANTHROPIC_API_KEY" in line for line in said)
    assert not (repository / "skills/a/evals").exists()


def test_a_drafted_suite_is_reviewed_marked_and_read_back(repository: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with ScriptedServer(scenario()) as server:
        model = f"openai@{server.openai_url}:any"
        code, said = init(repository, "--draft", "--model", model, "--seed", "5" * 64, OPENAI_API_KEY="key")
        asked = [request.system.split(".")[0] for request in server.requests]
    assert code == 0, said
    assert len(asked) == 5  # a draft, then two documents and two reviews
    _, suite = suite_of(repository / "skills/a")
    assert suite.generated
    (case,) = suite.cases
    assert case.expectations
    assert {item.rule_ref for item in case.expectations} == {"- Always put the date on the first line."}
    text = (repository / "skills/a/evals/skill-gate.yaml").read_text()
    assert "# the-plain-case-1: review 0.70 then 0.88" in text
    assert "1 drafted case, to be reviewed" in capsys.readouterr().out
    for name in "bcd":
        assert not (repository / f"skills/{name}/evals/skill-gate.yaml").exists()
