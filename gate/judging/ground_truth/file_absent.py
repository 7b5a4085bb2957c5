"""A file is not there at the end."""

from __future__ import annotations

from gate.domain.checks import FileAbsent
from gate.domain.judgement import CheckStatus
from gate.judging.ground_truth.facts import Answer, Facts, workspace_path
from gate.judging.ground_truth.values import NotCheckableError, clip, computed
from gate.judging.ground_truth.wildcards import path_matches


def evaluate(parameters: FileAbsent, facts: Facts) -> Answer:
    """A link or device of that name is there, too. Where the workspace was not read to its end, absence is not shown."""
    path = workspace_path(computed(parameters.path, facts.record.run_date))
    expected = f"no file {clip(path)} at the end" + (", though it was there at the start" if parameters.deleted else "")
    there = [item.path for item in facts.record.files if path_matches(item.path, path)]
    there += [item for item in facts.uncollected.named if path_matches(item, path)]
    # A folder of that name, which is known by the files in it.
    there += [item.path for item in facts.record.files if item.path.startswith(f"{path}/")]
    if there:
        more = f" and {len(there) - 5} more" if len(there) > 5 else ""
        return Answer(CheckStatus.FAILED, expected, f"it is there: {clip(', '.join(there[:5]), 300)}{more}")
    if facts.uncollected.unknown:
        raise NotCheckableError(f"the workspace was not read to its end: {clip(facts.uncollected.unknown[0], 200)}")
    if parameters.deleted and not any(path_matches(item, path) for item in facts.fixture):
        return Answer(CheckStatus.FAILED, expected, "it was not there at the start either")
    return Answer(CheckStatus.PASSED, expected, "it is not there")
