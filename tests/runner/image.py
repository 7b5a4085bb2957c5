"""The image under test, made of the code as it is now."""

from __future__ import annotations

import functools
import subprocess
from pathlib import Path
from typing import Any

from tests.runner.environment import read_action

ROOT = Path(__file__).resolve().parents[2]
ACTION = ROOT / "action.yml"
GATE_IMAGE = "skill-gate:dev"


@functools.cache
def gate_image() -> str:
    """The image's name. Built once a test session, which takes a second or two where only code has changed.

    Raises:
        AssertionError: The build failed; its output is in the message.
    """
    done = build()
    assert done.returncode == 0, done.stderr
    return GATE_IMAGE


def build() -> subprocess.CompletedProcess[str]:
    """Run ``.ci/image``."""
    return subprocess.run([ROOT / ".ci/image"], capture_output=True, text=True, timeout=900, check=False)


def action_running(*arguments: str) -> dict[str, Any]:
    """The action's description with arguments for the image: any command of the program under the runner's conditions."""
    action = read_action(ACTION)
    return {**action, "runs": {**action["runs"], "args": list(arguments)}}
