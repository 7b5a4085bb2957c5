"""What the hijacker plants deceives a careless command on a real engine, and no oracle that lies out of its reach."""

from __future__ import annotations

import pytest

from gate.adapters.docker_sandbox import DockerSandbox
from gate.domain.checks import Check, Command, OracleCommand
from gate.domain.suite import Case, FixtureFile, Suite
from gate.execution.null_agents import NullStage
from gate.pipeline.null_controls import Engine, null_results
from tests.builders_judging import _StoppedClock
from tests.docker.conftest import IMAGE

pytestmark = pytest.mark.docker

CHECK = "import json, sys; sys.exit(json.load(open('/work/totals.json'))['total'] != 5)"


def passing(sandbox: DockerSandbox, session_id: str, parameters: Command | OracleCommand) -> set[str]:
    case = Case(
        eval_id="one",
        prompt="Add up in.csv.",
        files=(FixtureFile(path="in.csv", data=b"1\n4\n"),),
        checks=(Check(id="c1", parameters=parameters),),
    )
    made = Engine(sandbox, sandbox.resolve_image(IMAGE), session_id, _StoppedClock())
    suite = Suite(path="evals/skill-gate.yaml", dialect="skill-gate", cases=(case,))
    results = null_results(NullStage(suite), run_date="2026-01-31", engine=lambda: made)
    assert all(item.verdict is not None for item in results)
    return {item.agent for item in results if item.passes}


def test_a_command_that_imports_from_the_workspace_is_deceived_and_an_oracle_is_not(
    real_sandbox: DockerSandbox, session_id: str
) -> None:
    careless = Command(run=f'python3 -c "{CHECK}"')
    assert passing(real_sandbox, session_id, careless) == {"hijacker"}
    oracle = OracleCommand(files={"check.py": CHECK}, script="check.py")
    assert passing(real_sandbox, session_id, oracle) == set()
