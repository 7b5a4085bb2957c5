"""A mutant counts as noticed only where a case noticed it (judging.md 8.2)."""

from __future__ import annotations

import pytest

from gate.audit.mutate import Fate, fate_of
from gate.domain.report import Verdict
from tests.builders_report import sample_report


@pytest.mark.parametrize(
    ("reasons", "fate"),
    [
        (('case "a", run 1 with_skill: the judge\'s batch is void: it passed a control',), "unknown"),
        (("eval a, run 1 with_skill: the pair is contaminated: it read the skill",), "unknown"),
        (("suite/null-agent-passes: evals/skill-gate.yaml:1: null agent passes the whole suite",), "unknown"),
        (("skill-md/yaml: SKILL.md:1: no front matter", "eval a: the judge's batch is void: x"), "killed"),
        (("SKILL.md could not be read",), "killed"),
    ],
)
def test_an_invalid_mutant_is_killed_for_what_it_says_and_never_for_what_its_session_met(
    reasons: tuple[str, ...], fate: Fate
) -> None:
    skill = sample_report().skills[0].model_copy(update={"verdict": Verdict.INVALID, "reasons": reasons})
    assert fate_of(Verdict.PASS, skill) == fate
