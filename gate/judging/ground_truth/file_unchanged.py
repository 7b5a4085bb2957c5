"""A file of the fixture is there at the end as it was."""

from __future__ import annotations

from gate.domain.checks import FileUnchanged
from gate.domain.judgement import CheckStatus
from gate.judging.ground_truth.facts import Answer, Facts, workspace_path
from gate.judging.ground_truth.values import NotCheckableError, clip, computed


def evaluate(parameters: FileUnchanged, facts: Facts) -> Answer:
    """Byte for byte, by its digest. A file that the run itself made, or that was never put there, is ``not_run``."""
    path = workspace_path(computed(parameters.path, facts.record.run_date))
    expected = f"{clip(path)} as it was at the start"
    if path not in facts.fixture:
        raise NotCheckableError(f"{clip(path)} was not there at the start")
    found = facts.file(path)
    if found is None:
        gone = facts.uncollected.named.get(path, "it is gone")
        return Answer(CheckStatus.FAILED, expected, clip(gone, 300))
    if found.fixture != "unchanged":
        return Answer(CheckStatus.FAILED, expected, f"it was changed and has {found.size_bytes} bytes now")
    return Answer(CheckStatus.PASSED, expected, "unchanged")
