"""A file was produced or changed by the run."""

from __future__ import annotations

from gate.domain.checks import FileExists
from gate.domain.judgement import CheckStatus
from gate.judging.ground_truth.facts import Answer, Facts
from gate.judging.ground_truth.values import clip, computed


def evaluate(parameters: FileExists, facts: Facts) -> Answer:
    """A file that the gate itself had put there and that is unchanged was not produced."""
    path = computed(parameters.path, facts.record.run_date)
    expected = f"{clip(path)} produced or changed by the run"
    found = facts.file(path)
    if found is None:
        return Answer(CheckStatus.FAILED, expected, f"no such file; {facts.produced()}")
    if found.fixture == "unchanged":
        return Answer(CheckStatus.FAILED, expected, f"{clip(path)} was there from the start and is unchanged")
    words = "changed" if found.fixture == "changed" else "new"
    return Answer(CheckStatus.PASSED, expected, f"{clip(path)}, {words}, {found.size_bytes} bytes")
