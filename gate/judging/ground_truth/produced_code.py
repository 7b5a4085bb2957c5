"""R182-R190: how the real execution of what a run produced ended."""

from __future__ import annotations

from gate.domain.checks import ProducedCodeOk
from gate.domain.evidence import ProducedCode
from gate.domain.judgement import CheckStatus
from gate.judging.ground_truth.facts import Answer, Facts, workspace_path
from gate.judging.ground_truth.literal import quoted
from gate.judging.ground_truth.values import NotCheckableError, clip

_GOOD = ("ok", "html_ok", "service_ok")


def evaluate(parameters: ProducedCodeOk, facts: Facts) -> Answer:
    """Judges the recorded execution. Nothing to run is ``not_run``; nothing recorded, or engine trouble, is infrastructure."""
    expected = f"{clip(parameters.entry_point or 'what the run produced')} runs and ends well"
    if parameters.stdout_contains:
        expected += f" and prints {quoted(parameters.stdout_contains)}"
    if facts.verification is None and not facts.record.completed:
        raise NotCheckableError(f"nothing was executed, since the run ended as {facts.record.outcome.value}")
    if facts.verification is None:
        return Answer(CheckStatus.INFRA, expected, "nothing was executed")
    produced = facts.verification.produced
    if produced is None or produced.outcome == "no_entrypoint":
        raise NotCheckableError(f"there was nothing to run; {facts.produced()}")
    name = clip(produced.entry_point or "?")
    if produced.outcome == "infra":
        return Answer(CheckStatus.INFRA, expected, produced.stderr or "the engine failed")
    impossible = _impossible(produced, name)
    if impossible is not None:
        raise NotCheckableError(impossible)
    if parameters.entry_point and workspace_path(parameters.entry_point) != produced.entry_point:
        return Answer(CheckStatus.FAILED, expected, f"{name} was what there was to run")
    said = produced.stderr.strip() or produced.stdout.strip()
    found = f"{name}: {produced.outcome}"
    if produced.exit_code is not None:
        found += f", exit code {produced.exit_code}"
    if produced.outcome not in _GOOD:
        return Answer(CheckStatus.FAILED, expected, f"{found}: {clip(said[-400:], 300)}" if said else found)
    if parameters.stdout_contains and parameters.stdout_contains not in produced.stdout:
        # Only start and end of a long output are kept (R168).
        if "\n[...]\n" in produced.stdout:
            raise NotCheckableError("the text is not in the part of the output that was kept; the output was cut")
        return Answer(CheckStatus.FAILED, expected, f"{found}, output {quoted(produced.stdout)}")
    return Answer(CheckStatus.PASSED, expected, found)


def _impossible(produced: ProducedCode, name: str) -> str | None:
    """Why an execution says neither that the code works nor that it does not; None where it says so."""
    if produced.outcome == "missing_runtime":
        return f"the sandbox has no interpreter for {name}"
    if produced.outcome == "missing_dependency":
        return f"{name} needs a package that the sandbox image does not hold: {clip(produced.stderr[-300:])}"
    if produced.outcome == "long_running":
        ports = ", ".join(map(str, produced.ports))
        return f"{name} is a server on port {ports}; say service: in the case to have it asked"
    return None
