from __future__ import annotations

import re
from pathlib import Path

import pytest

from gate.domain.evidence import Block, RunRecord
from gate.evidence.bundle import load_blocks
from gate.judging.controls import Control, make_controls
from gate.judging.showing import for_a_judge
from tests.builders_judging import SEED, Call, a_run


def controls(root: Path, record: RunRecord, *labels: str) -> tuple[tuple[Control, ...], tuple[Block, ...]]:
    blocks = for_a_judge(load_blocks(root, record))
    return make_controls(record, blocks, SEED, *labels), blocks


def named(control: Control) -> str:
    found = re.search(r"`([^`]+)`|\"([^\"]+)\"", control.text)
    assert found is not None
    return found[1] or found[2]


@pytest.mark.parametrize("number", range(30))
def test_false_controls_are_false_and_true_ones_true(tmp_path: Path, number: int) -> None:
    record = a_run(
        tmp_path, calls=[Call("bash", {"command": "ls"}), Call("read_file")], response="The sum of it all is 12."
    )
    made, blocks = controls(tmp_path, record, str(number))
    text = "\n".join(f"{block.title}\n{block.text}" for block in blocks)
    assert sum(not control.known for control in made) >= 2
    assert sum(control.known for control in made) >= 1
    for control in made:
        assert (named(control) in text) is control.known, control


def test_true_and_false_controls_have_the_same_forms(tmp_path: Path) -> None:
    record = a_run(tmp_path, calls=[Call("bash")], response="The sum of it all is 12.")
    made, _ = controls(tmp_path, record)
    forms = {
        known: {re.sub(r"`[^`]+`|\"[^\"]+\"", "X", c.text) for c in made if c.known is known} for known in (True, False)
    }
    assert forms[True] == forms[False]


def test_an_agent_that_prints_every_name_in_the_pool_does_not_make_a_false_control_true(tmp_path: Path) -> None:
    names = "send_email create_ticket translate_document resize_image book_meeting archive_export delete_branch"
    names += " charge_card post_message restart_service upload_backup sign_contract"
    record = a_run(tmp_path, response=names)
    made, blocks = controls(tmp_path, record)
    assert all(named(control) not in block.text for control in made if not control.known for block in blocks)


@pytest.mark.parametrize("response", ["结果是一千二百五十元\uff0c已经全部核对完毕。", "42 euros", "ok then"])
def test_a_short_or_chinese_response_has_a_true_control_too(tmp_path: Path, response: str) -> None:
    made, _ = controls(tmp_path, a_run(tmp_path, response=response))
    assert any(control.known for control in made)


def test_other_labels_give_other_controls(tmp_path: Path) -> None:
    record = a_run(tmp_path)
    assert controls(tmp_path, record, "a") == controls(tmp_path, record, "a")
    assert controls(tmp_path, record, "a") != controls(tmp_path, record, "b")
