"""Record the demonstration anew from the scripted models: ``python -m tests.scripted.record_demo FOLDER``.

The same inputs give the same bytes, so a recording that differs from the one in ``examples/demo/recording`` shows what
changed in the prompts, the skills or the scripted models.
"""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

from examples.demo.run_demo import arguments, make_repository
from gate.cli import main as run_command
from gate.wiring import bind
from tests.scripted.demo import scenario
from tests.scripted.server import ScriptedServer

SEED = "5eed" * 16
"""Of the recorded session: arbitrary, fixed."""


def record(folder: Path, work: Path) -> int:
    """Run the demonstration against the scripted models and write the recording; returns the gate's exit code."""
    repository = work / "repository"
    make_repository(repository)
    with ScriptedServer(scenario()) as server:
        extra = [
            "--model", f"anthropic@{server.url}:scripted-agent",
            "--judge-model", f"openai@{server.openai_url}:scripted-judge",
            "--record", str(folder),
            "--seed", SEED,
        ]  # fmt: skip
        return run_command(bind({}), arguments(repository, work / "result", extra))


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as temporary:
        sys.exit(record(Path(sys.argv[1]), Path(temporary)))
