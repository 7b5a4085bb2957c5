from __future__ import annotations

import pytest

from gate.cli.inputs import INPUTS, ActionInputs, CommentWhen, read_inputs
from gate.domain.event import DispatchEvent
from gate.domain.plan import Enforce, Mode
from gate.errors import ConfigurationError


def dispatch(**inputs: str) -> DispatchEvent:
    return DispatchEvent(
        ref="refs/heads/main", sha="a" * 40, inputs=inputs, repository="acme/skills", default_branch="main"
    )


def test_no_input_and_an_empty_one_are_the_same() -> None:
    assert read_inputs({}) == read_inputs({f"INPUT_{name.upper()}": " " for name in INPUTS}) == ActionInputs()


@pytest.mark.parametrize("spelling", ["INPUT_JUDGE-MODEL", "INPUT_JUDGE_MODEL"])
def test_dashes_are_kept_by_the_runner_and_lost_by_others(spelling: str) -> None:
    assert read_inputs({spelling: "openai:x"}).judge_model == "openai:x"


def test_every_input_is_read() -> None:
    inputs = read_inputs(
        {
            "INPUT_MODEL": "anthropic:a",
            "INPUT_JUDGE-MODEL": "openai:b",
            "INPUT_MODE": "full",
            "INPUT_ENFORCE": "strict",
            "INPUT_PATHS": "skills/a\n  skills/b b \n\n",
            "INPUT_BASE": "release",
            "INPUT_IMAGE": "own:1",
            "INPUT_JOBS": "2",
            "INPUT_COMMENT": "failure",
            "INPUT_STATUS": "False",
            "INPUT_STATUS-CONTEXT": "gate / nightly",
            "INPUT_OUT": "result",
            "INPUT_EXIT-CONDITIONAL": "1",
            "INPUT_PULL-REQUEST": "12",
        }
    )
    assert inputs == ActionInputs(
        model="anthropic:a",
        judge_model="openai:b",
        mode=Mode.FULL,
        enforce=Enforce.STRICT,
        paths=("skills/a", "skills/b b"),
        base="release",
        image="own:1",
        jobs=2,
        comment=CommentWhen.FAILURE,
        status=False,
        status_context="gate / nightly",
        out="result",
        exit_conditional=1,
        pull_request=12,
    )


def test_everything_that_is_wrong_is_said_at_once() -> None:
    with pytest.raises(ConfigurationError) as caught:
        read_inputs(
            {"INPUT_MODE": "fast", "INPUT_JOBS": "65", "INPUT_STATUS": "yes", "INPUT_EXIT-CONDITIONAL": "\uff12"}
        )
    for name in ("mode", "jobs", "status", "exit-conditional"):
        assert f"input {name} is " in caught.value.message


def test_inputs_of_a_dispatched_workflow_count_where_the_action_has_none() -> None:
    event = dispatch(mode="full", paths="skills/a", pull_request="9", enforce="advisory")
    inputs = read_inputs({"INPUT_MODE": "quick"}, event)
    assert (inputs.mode, inputs.paths, inputs.pull_request) == (Mode.QUICK, ("skills/a",), 9)
    assert inputs.enforce is None  # only what a person chooses for one run
