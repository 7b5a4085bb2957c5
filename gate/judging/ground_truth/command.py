"""A command that was run in its own container over a copy of the collected workspace, after the run was sealed."""

from __future__ import annotations

from gate.domain.checks import Command
from gate.domain.evidence import CommandResult
from gate.domain.judgement import CheckStatus
from gate.judging.ground_truth.facts import Answer
from gate.judging.ground_truth.literal import quoted
from gate.judging.ground_truth.values import NotCheckableError, clip


def evaluate(parameters: Command, result: CommandResult | None) -> Answer:
    """Judges the recorded result. No result, or one that the engine spoiled, is infrastructure, not a failure.

    A command that ran out of time or memory ran, and failed. Text that is not in output which was cut is ``not_run``.
    """
    expected = f"exit code {parameters.expect_exit} from {quoted(parameters.run)}"
    if parameters.stdout_contains is not None:
        expected += f" and {quoted(parameters.stdout_contains)} in its output"
    if result is None:
        return Answer(CheckStatus.INFRA, expected, "the command was never run")
    if result.status == "infra" or (result.status == "ran" and result.exit_code is None):
        return Answer(CheckStatus.INFRA, expected, result.reason or "the engine gave no exit code")
    if result.status == "timeout":
        return Answer(CheckStatus.FAILED, expected, f"it did not end within {parameters.timeout_s} s")
    if result.status == "oom":
        return Answer(CheckStatus.FAILED, expected, "it ran out of memory")
    if result.exit_code != parameters.expect_exit:
        said = result.stderr.strip() or result.stdout.strip()
        words = f"exit code {result.exit_code}" + (f": {clip(said[-400:], 300)}" if said else " and no output")
        return Answer(CheckStatus.FAILED, expected, words)
    if parameters.stdout_contains is not None and parameters.stdout_contains not in result.stdout:
        if result.truncated:
            raise NotCheckableError("the text is not in the part of the output that was kept; the output was cut")
        words = f"exit code {result.exit_code}, output {quoted(result.stdout)}"
        return Answer(CheckStatus.FAILED, expected, words)
    return Answer(CheckStatus.PASSED, expected, f"exit code {result.exit_code}")
