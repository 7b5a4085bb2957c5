"""GitHub's runner for Docker container actions, imitated: flags, mounts, environment, paths, log commands, files, signals.

    with Runner(tmp_path, "skill-gate:dev", ROOT / "action.yml") as runner:
        runner.checkout(repository, ref="refs/heads/feature")
        done = runner.run("pull_request", payload, {"mode": "quick"})
        assert done.exit_code == 1
        assert done.outputs["verdict"] == "fail"
        assert runner.post().exit_code == 0

What it imitates was read in the runner's sources and measured (``github-action.md`` 1.11, 1.12, 2.1 to 2.3). A job's
container finds servers of the test's process through a ``Forwarder``.
"""

from tests.runner.commands import Annotation, Commands
from tests.runner.files import FileCommandError, parse_pairs, read_summary
from tests.runner.forward import Forwarder, bridge_address
from tests.runner.runner import Runner, Step, StepResult

__all__ = [
    "Annotation",
    "Commands",
    "FileCommandError",
    "Forwarder",
    "Runner",
    "Step",
    "StepResult",
    "bridge_address",
    "parse_pairs",
    "read_summary",
]
