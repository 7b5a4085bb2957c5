"""A program of the suite that looked at a copy of the workspace, in its own container, after the run was sealed."""

from __future__ import annotations

from gate.domain.checks import Command, OracleCommand
from gate.domain.evidence import CommandResult
from gate.judging.ground_truth import command
from gate.judging.ground_truth.facts import Answer
from gate.judging.ground_truth.values import clip


def evaluate(parameters: OracleCommand, result: CommandResult | None) -> Answer:
    """Judges the recorded result as ``command`` does."""
    line = " ".join((parameters.script, *parameters.args))
    as_command = Command(
        run=clip(f"oracle {line}", 300),
        expect_exit=parameters.expect_exit,
        stdout_contains=parameters.stdout_contains,
        timeout_s=parameters.timeout_s,
    )
    return command.evaluate(as_command, result)
