"""The whole Action in one process, from an event's payload to what stands on GitHub and in the runner's files."""

from __future__ import annotations

from pathlib import Path

import pytest

from reporters.outputs import KEYS
from tests.pipeline.action_stage import KEY, NO_SKILL_CHANGES, stage


def test_a_pull_request_gets_one_comment_one_status_on_its_head_a_summary_and_every_output(tmp_path: Path) -> None:
    with stage(tmp_path) as here:
        done = here.run(mode="full")
        print(done.text)
        print(done.outputs)
        print(here.statuses())
        assert done.code == here.report["exit_code"]
        assert 0
