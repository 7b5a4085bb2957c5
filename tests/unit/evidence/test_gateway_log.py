"""gateway.jsonl: chained like the events, sealed with them, and no word of the model stands in the events alone."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from gate.domain.chat import TokenUsage
from gate.domain.evidence import Metrics, Outcome, RunRecord, Timing
from gate.domain.plan import Arm, RunKey
from gate.domain.skill import SkillType
from gate.errors import EvidenceError
from gate.evidence.bundle import Bundle, load_run
from gate.evidence.seal import seal_bundle
from tests.unit.execution.world import StillClock

KEY = RunKey(skill_path="skills/sums", slug="sums", eval_id="1", run=1, arm=Arm.WITH_SKILL)
REPLY: dict[str, Any] = {"text": "3", "tool_uses": [], "finish": "stop", "usage": None, "model": "m"}


def a_run(root: Path, *, said: str = "3", answered: str = "3") -> RunRecord:
    folder = Bundle(root).run(KEY)
    with folder.event_log(lambda text: text, StillClock()) as log:
        log.append("run_started", skill_type="text_generation")
        log.append("prompt", system="s", user="u")
        with folder.gateway_log(lambda text: text, StillClock()) as gateway:
            gateway.append("asked", number=0)
            gateway.append("answered", number=0, reply={**REPLY, "text": answered})
        log.append("model_reply", step=1, **{**REPLY, "text": said})
        log.append("response", text=said)
        log.append("run_ended", outcome="completed", reason="")
    return folder.finish(
        purpose="planned", skill_type=SkillType.TEXT_GENERATION, outcome=Outcome.COMPLETED, reason="", metrics=Metrics(),
        timing=Timing(started_at="", duration_ms=0, total_duration_seconds=0, model_ms=0, sandbox_ms=0),
        usage=TokenUsage(), model="m", image="i", run_date="2026-01-31",
    )  # fmt: skip


def test_a_whole_one_is_sealed_with_the_run_and_its_chain_is_in_the_manifest(tmp_path: Path) -> None:
    record = a_run(tmp_path)
    assert record.outcome is Outcome.COMPLETED
    seal = json.loads((tmp_path / KEY.folder / "seal.json").read_text())
    assert (seal["gateway_events"], len(seal["gateway_head"])) == (2, 64)
    seal_bundle(tmp_path, {})
    chains = json.loads((tmp_path / "manifest.json").read_text())["chains"]
    assert chains[f"{KEY.folder}/gateway.jsonl"] == seal["gateway_head"]


@pytest.mark.requirements("R226")
def test_a_reply_that_the_gateway_never_saw_is_no_evidence(tmp_path: Path) -> None:
    with pytest.raises(EvidenceError, match="does not hold"):
        a_run(tmp_path, said="4", answered="3")


@pytest.mark.parametrize("change", ["removed", "cut", "edited"])
def test_one_that_was_changed_is_found(tmp_path: Path, change: str) -> None:
    a_run(tmp_path)
    path = tmp_path / KEY.folder / "gateway.jsonl"
    lines = path.read_bytes().splitlines(keepends=True)
    if change == "removed":
        path.unlink()
    else:
        path.write_bytes(lines[0] if change == "cut" else b"".join(lines).replace(b'"3"', b'"9"'))
    with pytest.raises(EvidenceError, match=r"gateway\.jsonl"):
        load_run(tmp_path, KEY.folder)
