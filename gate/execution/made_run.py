"""A run that nobody ran, recorded as every run is: events, outputs, seal. For null agents and for judges' known answers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from gate.domain.base import sha256_hex
from gate.domain.chat import TokenUsage
from gate.domain.evidence import Metrics, Outcome, RunRecord, Timing
from gate.domain.plan import RunKey
from gate.domain.sandbox import Collected, CollectedBlob
from gate.domain.skill import SkillType
from gate.evidence.bundle import Bundle
from gate.protocols import Clock


class MadeCall(NamedTuple):
    """A tool call that succeeded."""

    tool: str
    args: Mapping[str, Any]
    result: str


def made_run(
    bundle: Bundle,
    key: RunKey,
    *,
    clock: Clock,
    prompt: str,
    response: str,
    run_date: str,
    calls: Sequence[MadeCall] = (),
    files: Mapping[str, bytes] | None = None,
    fixture: Mapping[str, bytes] | None = None,
    skill_type: SkillType = SkillType.TEXT_GENERATION,
) -> RunRecord:
    """Record, seal and read back one completed run that opened the skill.

    ``fixture``: what was there before, ``files``: what the run wrote over it. Raises EvidenceError where the bundle holds
    the run already, InfrastructureError for a full disk.
    """
    folder = bundle.run(key)
    with folder.event_log(lambda text: text, clock) as log:
        log.append("run_started", key=key.to_json(), skill_type=skill_type.value, run_date=run_date)
        log.append("prompt", system="", user=prompt)
        for step, call in enumerate(calls, 1):
            name = f"call-{step}"
            use = {"id": name, "name": call.tool, "arguments": dict(call.args)}
            log.append("model_reply", step=step, text="", tool_uses=[use], finish="tool_use")
            log.append("tool_call", step=step, call_id=name, tool=call.tool, args=dict(call.args))
            log.append(
                "tool_result",
                step=step,
                call_id=name,
                tool=call.tool,
                status="success",
                text=call.result,
                total_bytes=len(call.result.encode()),
                truncated=False,
                exit_code=None,
                reported=False,
            )
        log.append("model_reply", step=len(calls) + 1, text=response, tool_uses=[], finish="stop")
        log.append("response", text=response)
        log.append("run_ended", outcome=Outcome.COMPLETED.value, reason="")
    before = dict(fixture or {})
    blobs = [
        CollectedBlob(path=path, size_bytes=len(data), sha256=sha256_hex(data), data=data, executable=True)
        for path, data in sorted({**before, **(files or {})}.items())
    ]
    return folder.finish(
        purpose="planned",
        skill_type=skill_type,
        outcome=Outcome.COMPLETED,
        reason="",
        metrics=Metrics(
            activated=True, total_tool_calls=len(calls), input_tokens=0, output_tokens=0, total_tokens=0, cost_usd=0
        ),
        timing=Timing(
            started_at=run_date, duration_ms=0, total_duration_seconds=0, model_ms=0, sandbox_ms=0, total_tokens=0
        ),
        usage=TokenUsage(),
        model="none",
        image="none",
        run_date=run_date,
        files=folder.write_outputs(Collected(files=tuple(blobs)), before),
    )
