"""The compose file of examples/service: valid, and it says nothing that the program does not know."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import click
import pytest
import yaml

from gate.cli.serve import serve, worker
from gate.wiring import SECRET_VARIABLES

ROOT = Path(__file__).resolve().parents[2]
FOLDER = ROOT / "examples/service"
COMPOSE = FOLDER / "compose.yaml"
VARIABLES = {name for names in SECRET_VARIABLES.values() for name in names} | {
    "SKILL_GATE_APP_ID",
    "SKILL_GATE_APP_KEY_FILE",
}


def _check(path: Path) -> subprocess.CompletedProcess[str]:
    line = [str(Path(sys.executable).parent / "check-jsonschema"), "--builtin-schema", "vendor.compose-spec", str(path)]
    return subprocess.run(line, capture_output=True, text=True, check=False)


@pytest.fixture(scope="module")
def compose() -> dict[str, Any]:
    found: dict[str, Any] = yaml.safe_load(COMPOSE.read_text(encoding="utf-8"))
    return found


def test_it_fits_the_schema_of_compose_files() -> None:
    done = _check(COMPOSE)
    assert done.returncode == 0, done.stdout + done.stderr


def test_a_wrong_one_would_not_slip_through(tmp_path: Path) -> None:
    (tmp_path / "compose.yaml").write_text("services: {a: {image: x, cap_dorp: [ALL]}}\n")
    assert _check(tmp_path / "compose.yaml").returncode == 1


@pytest.mark.parametrize(("name", "command"), [("service", serve), ("worker", worker)])
def test_its_command_lines_are_ones_that_the_program_takes(
    compose: dict[str, Any], name: str, command: click.Command
) -> None:
    called, *arguments = compose["services"][name]["command"]
    assert called == command.name
    context = command.make_context(called, list(arguments))
    assert context.params["data"] == "/data"
    assert "data:/data" in compose["services"][name]["volumes"]


def _variables(file: str) -> dict[str, str]:
    lines = (FOLDER / f"{file}.example").read_text(encoding="utf-8").splitlines()
    return {
        name: value for name, _, value in (line.partition("=") for line in lines if line and not line.startswith("#"))
    }


@pytest.mark.parametrize("file", ["service.env", "worker.env"])
def test_variables_of_the_example_are_known_and_hold_no_secret(file: str) -> None:
    variables = _variables(file)
    assert variables.keys() <= VARIABLES
    assert [value for name, value in variables.items() if value and not name.endswith("_FILE")] == []


def test_the_process_that_the_network_reaches_has_no_key_of_a_model(compose: dict[str, Any]) -> None:
    keys = {name for kind in ("anthropic", "openai") for name in SECRET_VARIABLES[kind]}
    services = compose["services"]
    assert services["service"]["env_file"] == "service.env"
    assert services["worker"]["env_file"] == ["service.env", "worker.env"]
    assert keys.isdisjoint({*_variables("service.env"), *services["service"]["environment"]})
    assert keys & _variables("worker.env").keys()


def test_only_the_worker_has_the_engine_and_only_this_machine_reaches_the_service(compose: dict[str, Any]) -> None:
    services = compose["services"]
    with_engine = [name for name, one in services.items() if "docker.sock" in str(one.get("volumes"))]
    assert with_engine == ["worker"]
    assert [one.get("ports") for one in services.values() if "ports" in one] == [["127.0.0.1:8080:8080"]]
    assert services["service"]["cap_drop"] == ["ALL"]
    assert "--no-work" in services["service"]["command"]


def test_what_the_page_of_the_service_says_of_it_is_in_it() -> None:
    text = COMPOSE.read_text(encoding="utf-8")
    page = (ROOT / "docs" / "service.md").read_text(encoding="utf-8")
    (line,) = set(re.findall(r"docker compose --file \S+ up --detach", page))
    assert line in text
