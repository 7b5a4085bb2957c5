"""Whether the agent opened the skill."""

from __future__ import annotations

from gate.domain.checks import SkillOpened
from gate.domain.judgement import CheckStatus
from gate.judging.ground_truth.facts import Answer, Facts
from gate.judging.ground_truth.values import clip


def evaluate(parameters: SkillOpened, facts: Facts) -> Answer:
    """What the gate recorded of the skill's own folder; what the agent says of itself counts for nothing."""
    metrics = facts.record.metrics
    what = clip(parameters.file) if parameters.file else "the skill"
    expected = f"{what} is {'opened' if parameters.opened else 'not opened'}"
    opened = parameters.file in metrics.opened if parameters.file else metrics.activated
    names = (
        f"the run opened {clip(', '.join(metrics.opened), 300)}" if metrics.opened else "the run opened no file of it"
    )
    found = f"{'opened' if opened else 'not opened'}; {names}"
    return Answer(CheckStatus.PASSED if opened is parameters.opened else CheckStatus.FAILED, expected, found)
