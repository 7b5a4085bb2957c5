from __future__ import annotations

import re
import tomllib
from pathlib import Path

import click
import pytest
from pydantic import BaseModel

from gate import __version__
from gate.cli.init import WORKFLOW_TEXT
from gate.cli.main import group
from gate.decision.figures import GRADES
from gate.domain.checks import CHECK_KINDS
from gate.domain.report import TriageClass, Verdict
from gate.settings import Caps, Policy, Settings, Thresholds, Waiver
from reporters.words import TRIAGE_LEGEND

ROOT = Path(__file__).resolve().parents[2]
README = (ROOT / "README.md").read_text(encoding="utf-8")
DOCS = {path.stem: path.read_text(encoding="utf-8") for path in (ROOT / "docs").glob("*.md")}
_CONTEXT = click.Context(group)
COMMANDS = {name: command for name in group.list_commands(_CONTEXT) if (command := group.get_command(_CONTEXT, name))}


def options_of(command: click.Command) -> set[str]:
    return {name for parameter in command.params for name in parameter.opts if name.startswith("--")}


def options_below(command: click.Command) -> set[str]:
    parts = command.commands.values() if isinstance(command, click.Group) else [command]
    return set().union(*map(options_of, parts))


def test_the_page_of_commands_names_every_command_and_every_option_of_run() -> None:
    for name, command in COMMANDS.items():
        assert f"skill-gate {name}" in "".join(DOCS.values()), name
        if name == "run":
            table = DOCS["commands"].partition("## Options of `skill-gate run`")[2].partition("\n##")[0]
            assert set(re.findall(r"--[a-z][a-z-]+", table)) == options_of(command)


def test_the_page_of_commands_lists_every_option_of_every_other_command() -> None:
    table = DOCS["commands"].partition("## Options of the other commands")[2].partition("\n##")[0]
    rows = {
        row.split("`")[1].split()[0]: set(re.findall(r"--[a-z][a-z-]+", row))
        for row in re.findall(r"^\| `.*", table, re.MULTILINE)
    }
    elsewhere = {"run", "check", "action"}  # tables of their own
    assert rows == {name: options_below(command) for name, command in COMMANDS.items() if name not in elsewhere}


def test_readme_and_init_name_the_action_by_this_version() -> None:
    named = re.findall(r"OWNER/skill-gate@(\S+)", README + "".join(DOCS.values()) + WORKFLOW_TEXT)
    assert len(named) >= 3
    assert set(named) == {f"v{__version__}"}


def test_the_page_of_verdicts_explains_every_class_of_an_assertion_and_every_grade() -> None:
    table = DOCS["verdicts"].partition("| class | meaning |")[2].partition("\n\n")[0]
    assert set(re.findall(r"^\| `([a-z-]+)`", table, re.MULTILINE)) == {item.value for item in TriageClass}
    assert all(item.value in TRIAGE_LEGEND for item in TriageClass)
    grades = DOCS["verdicts"].partition("The release grade")[2].partition("\n\n")[0]
    for letter, at_least in GRADES:
        assert f"{letter} from {at_least * 100:.0f} %" in grades


def test_every_flag_of_run_is_a_setting_or_chooses_one() -> None:
    elsewhere = {
        "model": "models",
        "judge_model": "models",
        "as_json": "out",
        "quiet": "out",
        "cache_folder": "cache",
        "no_cache": "cache",
        "plan": "out",
        "shard": "out",
        "language": "policy",
        "mutation_file": "guarded_lines",
    }
    for parameter in COMMANDS["run"].params:
        assert elsewhere.get(str(parameter.name), str(parameter.name)) in Settings.model_fields


@pytest.mark.parametrize("model", [Policy, Thresholds, Caps, Waiver])
def test_the_page_of_the_policy_names_every_key(model: type[BaseModel]) -> None:
    section = DOCS["policy"]
    assert [name for name in model.model_fields if f"`{name}`" not in section] == []


def test_the_page_of_cases_describes_exactly_the_check_kinds_there_are() -> None:
    table = DOCS["cases"].partition("| check kind | holds when |")[2].partition("\n\n")[0]
    assert set(re.findall(r"`([a-z]+_[a-z_]+|command)`", table)) - {
        "expected_count",
        "expect_exit",
        "stdout_contains",
    } == set(CHECK_KINDS)


def test_readme_explains_every_verdict() -> None:
    table = README.partition("| verdict | meaning |")[2].partition("\n\n")[0]
    assert {verdict.value for verdict in Verdict} <= set(re.findall(r"`([a-z_]+)`", table))


def test_the_package_has_one_version() -> None:
    assert tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["version"] == __version__


def test_the_entry_point_is_small_and_imports_the_wiring_only() -> None:
    text = (ROOT / "entrypoint.py").read_text()
    assert len(text.splitlines()) <= 60
    assert re.findall(r"^(?:from|import) (\S+)", text, re.MULTILINE) == ["sys", "gate.wiring"]


def test_no_file_names_a_package_registry_or_a_machine_path() -> None:
    hosts = re.compile(
        r"files\.pythonhosted|pypi\.org/simple|registry\.npmjs|deb\.debian\.org|/work/(?:main|shared)\b|/opt/pypi"
    )
    names = ["requirements.txt", "requirements-dev.txt", "Makefile", "Dockerfile", "pyproject.toml", "README.md"]
    found = [name for name in names if hosts.search((ROOT / name).read_text())]
    found += [str(path) for path in (ROOT / ".ci").iterdir() if hosts.search(path.read_text())]
    assert found == []
