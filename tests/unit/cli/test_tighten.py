from __future__ import annotations

import itertools
from typing import Any

import pytest

from gate.cli.inputs import ActionInputs
from gate.cli.tighten import tighten
from gate.domain.chat import Role
from gate.domain.plan import Enforce, Mode
from gate.settings import LEVELS, MODES, Policy

WORKFLOW = ".github/workflows/gate.yml"


def kept(inputs: ActionInputs, policy: Policy) -> tuple[ActionInputs, list[str]]:
    made, findings = tighten(inputs, policy, workflow=WORKFLOW)
    assert {finding.path for finding in findings} <= {WORKFLOW}
    return made, [finding.message.split('"')[0].removeprefix("the input ").strip() for finding in findings]


@pytest.mark.parametrize(("asked", "said"), list(itertools.product(MODES, MODES)))
def test_a_mode_is_followed_where_it_does_no_less(asked: Mode, said: Mode) -> None:
    made, dropped = kept(ActionInputs(mode=asked), Policy(mode=said))
    follows = MODES.index(asked) >= MODES.index(said)
    assert made.mode == (asked if follows else None)
    assert dropped == ([] if follows else ["mode"])


@pytest.mark.parametrize(("asked", "said"), list(itertools.product(LEVELS, LEVELS)))
def test_an_enforcement_is_followed_where_it_is_no_weaker(asked: Enforce, said: Enforce) -> None:
    made, dropped = kept(ActionInputs(enforce=asked), Policy(enforce=said))
    follows = LEVELS.index(asked) >= LEVELS.index(said)
    assert made.enforce == (asked if follows else None)
    assert dropped == ([] if follows else ["enforce"])


def test_regression_is_stricter_than_no_mode_and_none_is_stricter_than_it() -> None:
    for mode in MODES:
        assert kept(ActionInputs(mode=Mode.REGRESSION), Policy(mode=mode))[1] == ["mode"]
        assert kept(ActionInputs(mode=mode), Policy(mode=Mode.REGRESSION))[1] == ["mode"]
    assert kept(ActionInputs(mode=Mode.REGRESSION), Policy(mode=Mode.REGRESSION))[1] == []


def test_where_the_policy_says_nothing_the_default_is_what_may_be_tightened() -> None:
    loose = ActionInputs(mode=Mode.QUICK, enforce=Enforce.ADVISORY)
    assert kept(loose, Policy()) == (ActionInputs(), ["mode", "enforce"])
    strict = ActionInputs(mode=Mode.FULL, enforce=Enforce.STRICT)
    assert kept(strict, Policy()) == (strict, [])


def test_a_change_cannot_choose_who_runs_its_cases() -> None:
    other = ActionInputs(harness="command")
    assert kept(other, Policy()) == (ActionInputs(), ["harness"])
    fine = ActionInputs(harness="codex")
    assert kept(fine, Policy(harness="codex")) == (fine, [])


def test_models_and_image_can_only_be_picked_from_the_policy() -> None:
    policy = Policy(models={Role.EXECUTOR: "anthropic:a", Role.GRADER: "openai:b"}, image="own@sha256:1")
    fine = ActionInputs(model="openai:b", judge_model="openai:b", image="own@sha256:1")
    assert kept(fine, policy) == (fine, [])
    other = ActionInputs(model="openai@http://evil.example/v1:b", judge_model="openai:c", image="own")
    assert kept(other, policy) == (ActionInputs(), ["model", "judge-model", "image"])
    assert kept(fine, Policy()) == (ActionInputs(), ["model", "judge-model", "image"])


def test_what_is_judged_and_what_it_is_compared_with_are_not_the_changes_to_say() -> None:
    assert kept(ActionInputs(paths=("skills/a",), base="main"), Policy()) == (ActionInputs(), ["paths", "base"])


def test_what_decides_nothing_is_free() -> None:
    free: dict[str, Any] = {"jobs": 9, "out": "x", "status": False, "status_context": "y", "exit_conditional": 1}
    assert kept(ActionInputs(**free), Policy()) == (ActionInputs(**free), [])


def test_a_finding_says_what_was_ignored_why_and_where_to_say_it() -> None:
    _, (finding,) = tighten(ActionInputs(mode=Mode.SMOKE), Policy(), workflow=WORKFLOW)
    assert finding.rule == "input/loosens"
    assert finding.message == (
        'the input mode "smoke" was not followed: a change may only tighten this, which is standard'
    )
    assert ".github/skill-gate.yml on the base branch" in finding.remedy
    assert not finding.blocks
