"""The action's own description, the code behind it, README and the image agree."""

from __future__ import annotations

import json
import re
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml

from gate.cli.inputs import INPUTS, SECRET_INPUTS, input_of, read_inputs
from reporters.outputs import KEYS
from tests.runner.environment import effective_inputs, input_variables, read_action

ROOT = Path(__file__).resolve().parents[2]
ACTION = read_action(ROOT / "action.yml")
README = (ROOT / "README.md").read_text(encoding="utf-8")
SECTION = README.partition("## Use it as an Action")[2].partition("\n## ")[0]
REFERENCE = (ROOT / "docs" / "action.md").read_text(encoding="utf-8")
DOCKERFILE = (ROOT / "Dockerfile").read_text(encoding="utf-8")


def table(heading: str) -> dict[str, str]:
    """First column and the rest of a table of docs/action.md."""
    rows = REFERENCE.partition(f"| {heading} |")[2].partition("\n\n")[0].splitlines()[2:]
    return {row.split("|")[1].strip().strip("`"): row.split("|", 2)[2] for row in rows if row.startswith("|")}


def test_the_inputs_are_those_that_the_code_reads() -> None:
    assert tuple(ACTION["inputs"]) == INPUTS


def test_the_outputs_are_those_that_the_code_writes() -> None:
    assert tuple(ACTION["outputs"]) == KEYS


def test_the_reference_lists_exactly_these_inputs_and_outputs() -> None:
    named = {name for cell in table("input") for name in re.findall(r"[a-z-]+", cell)}
    assert named == set(ACTION["inputs"])
    assert set(table("output")) == set(ACTION["outputs"])


def test_every_input_and_output_says_what_it_is() -> None:
    for name, facts in {**ACTION["inputs"], **ACTION["outputs"]}.items():
        assert len(facts["description"]) > 20, name
        assert facts["description"].endswith((".", "…")), name


def test_no_input_but_the_token_has_a_default_that_would_outvote_the_policy() -> None:
    assert [name for name, facts in ACTION["inputs"].items() if "default" in facts] == ["github-token"]


def test_defaults_that_the_descriptions_name_are_those_of_the_code() -> None:
    defaults: dict[str, Any] = json.loads(read_inputs({}).model_dump_json())
    for name in ("jobs", "comment", "status", "status-context", "exit-conditional"):
        value = json.dumps(defaults[name.replace("-", "_")]).strip('"')
        assert f"Default is {value}." in ACTION["inputs"][name]["description"], name


def test_what_the_runner_makes_of_the_inputs_is_what_the_code_finds() -> None:
    given = {"judge-model": "openai:gpt-5", "status-context": "other", "jobs": "2", "exit-conditional": "1"}
    variables = input_variables(effective_inputs(ACTION, given, "ghs_1"))
    inputs = read_inputs(variables)
    assert (inputs.judge_model, inputs.status_context, inputs.jobs, inputs.exit_conditional) == (
        "openai:gpt-5",
        "other",
        2,
        1,
    )
    assert inputs.mode is None
    assert [input_of(variables, name) for name in SECRET_INPUTS] == ["ghs_1", "", "", ""]


def test_the_workflow_of_readme_is_short_valid_and_uses_inputs_that_exist() -> None:
    text = SECTION.partition("```yaml\n")[2].partition("```")[0]
    assert len(text.splitlines()) <= 15
    workflow = yaml.safe_load(text)
    assert set(workflow["permissions"]) == {"contents", "pull-requests", "statuses"}
    steps = next(iter(workflow["jobs"].values()))["steps"]
    # Without the whole history there is no merge base, and a `paths` filter would leave a required check waiting for ever.
    assert steps[0]["with"]["fetch-depth"] == 0
    assert set(steps[1]["with"]) <= set(ACTION["inputs"])
    assert "paths" not in json.dumps(workflow.get("on", workflow.get(True)))


def test_the_image_is_built_of_the_last_stage_and_starts_an_isolated_interpreter_without_a_shell() -> None:
    assert ACTION["runs"]["image"] == "Dockerfile"
    gate = DOCKERFILE.partition("FROM sandbox AS gate")[2]
    assert "\nFROM " not in gate
    entrypoint = json.loads(gate.partition("ENTRYPOINT ")[2].splitlines()[0])
    assert entrypoint == ["/opt/skill-gate/venv/bin/python", "-I", "/opt/skill-gate/app/entrypoint.py"]
    # The runner needs root, names the folder itself, and a sandbox of this image must inherit no variable.
    assert re.findall(r"^(?:USER|WORKDIR|ENV|ARG)\b", gate, re.MULTILINE) == []
    assert ACTION["runs"]["post-entrypoint"] == "/opt/skill-gate/post"


def test_the_base_is_a_plain_tag_and_a_release_names_its_digest_beside_the_same_tag() -> None:
    base = re.findall(r"^ARG BASE=(\S+)$", DOCKERFILE, re.MULTILINE)
    assert len(base) == 1
    assert "@" not in base[0]
    pinned = (ROOT / ".ci/base-image").read_text(encoding="utf-8")
    assert re.findall(r"^tag=(\S+)$", pinned, re.MULTILINE) == base
    digest = re.findall(r"^digest=(\S+)$", pinned, re.MULTILINE)
    done = subprocess.run([ROOT / ".ci/base-image"], capture_output=True, text=True, check=False)
    if re.fullmatch(r"sha256:[0-9a-f]{64}", digest[0]):
        assert (done.returncode, done.stdout) == (0, f"{base[0]}@{digest[0]}\n")
    else:
        assert digest == ["unknown"]
        assert (done.returncode, done.stdout) == (3, "")
        assert "what to do" in done.stderr


@pytest.mark.parametrize("kept_out", [".git", ".env", "tests", ".venv", "machine.key"])
def test_only_what_an_image_is_made_of_is_sent_to_the_engine(kept_out: str) -> None:
    lines = [line for line in (ROOT / ".dockerignore").read_text().splitlines() if line and not line.startswith("#")]
    assert lines[0] == "*"
    assert f"!{kept_out}" not in lines
    copied = set(re.findall(r"^COPY (?!--)(.+) \S+$", DOCKERFILE, re.MULTILINE))
    named = {name.rstrip("*") for group in copied for name in group.split()}
    assert {line[1:] for line in lines if line.startswith("!")} == named
