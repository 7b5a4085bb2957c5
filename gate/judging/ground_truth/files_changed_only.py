"""Only some files may be made, changed or removed."""

from __future__ import annotations

from gate.domain.checks import FilesChangedOnly
from gate.domain.judgement import CheckStatus
from gate.judging.ground_truth.facts import Answer, Facts, workspace_path
from gate.judging.ground_truth.values import NotCheckableError, clip, computed
from gate.judging.ground_truth.wildcards import path_matches

_HOME = "home/"
"""Where tools keep what nobody asked them for."""


def evaluate(parameters: FilesChangedOnly, facts: Facts) -> Answer:
    """Looks at every file, not only at named ones. Links count as made; a workspace not read to its end is ``not_run``."""
    allowed = [workspace_path(computed(path, facts.record.run_date)) for path in parameters.paths]
    names = clip(", ".join(allowed), 300)
    expected = f"no file changed but {names}" if allowed else "no file changed"
    collected = {item.path for item in facts.record.files}
    touched = {item.path: f"{item.path} ({item.fixture})" for item in facts.record.files if item.fixture != "unchanged"}
    touched |= {path: f"{path} (removed)" for path in facts.fixture - collected}
    touched |= {path: f"{path} (no plain file)" for path in facts.uncollected.named}
    wrong = sorted(
        words
        for path, words in touched.items()
        if not path.startswith(_HOME) and not any(path_matches(path, item) for item in allowed)
    )
    if wrong:
        more = f" and {len(wrong) - 10} more" if len(wrong) > 10 else ""
        return Answer(CheckStatus.FAILED, expected, f"{clip(', '.join(wrong[:10]), 400)}{more}")
    if facts.uncollected.unknown:
        raise NotCheckableError(f"the workspace was not read to its end: {clip(facts.uncollected.unknown[0], 200)}")
    return Answer(CheckStatus.PASSED, expected, f"{len(touched)} files made, changed or removed, none but these")
