"""For every key of the policy, one pull request whose workflow tries to loosen it by an input."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from gate.settings import Policy, Way, strict_direction
from tests.pipeline.action_stage import NO_SKILL_CHANGES, Stage, stage
from tests.unit.intake.test_policy_directions import LOOSER, LOOSER_THRESHOLDS

POLICY = """\
mode: standard
enforce: strict
thresholds: {threshold: 0.9}
ignore: [old/**]
manifest_errors: block
require_layer3: true
require_signed: true
second_judge: "on"
"""
INPUTS = {"models": ("model", "openai:tiny"), "mode": ("mode", "smoke"), "enforce": ("enforce", "advisory"),
          "image": ("image", "evil:latest"), "harness": ("harness", "codex"),
          "service_url": ("service-url", "https://evil.example")}  # fmt: skip
"""Key -> the input that speaks about it; of every other key the input would have the key's own name."""
LOOSE = {**{key: values[0] for key, values in LOOSER.items()}, "thresholds": LOOSER_THRESHOLDS}


def policy_of(here: Stage) -> object:
    return json.loads((here.bundle / "session.json").read_text())["policy"]


HELD = [key for key in Policy.model_fields if strict_direction(Policy, key).way is not Way.FREE]
"""All keys but those that only say how a report looks."""


@pytest.mark.parametrize("key", HELD)
def test_an_input_that_would_loosen_a_key_is_ignored_and_listed(tmp_path: Path, key: str) -> None:
    name, given = INPUTS.get(key, (key, json.dumps(LOOSE.get(key, "loose"), default=str)))
    with stage(tmp_path, change=NO_SKILL_CHANGES, policy=POLICY) as here:
        here.run()
        before, facts = policy_of(here), {one: here.report[one] for one in ("mode", "enforce", "headline")}
        done = here.run(given={name: given})
        assert policy_of(here) == before
        assert {one: here.report[one] for one in facts} == facts
        (finding,) = here.report["session_findings"]
        assert finding["rule"] == ("input/loosens" if key in INPUTS else "input/unknown")
        said = name.replace("_", "-")
        assert f"the input {said} " in finding["message"]
        assert f"the input {said} " in done.text
        assert finding["rule"] in here.comments[0]
        assert "Traceback" not in done.text


def test_every_key_is_one_that_no_change_can_loosen() -> None:
    for key in Policy.model_fields:
        assert strict_direction(Policy, key).way in Way
