"""Records, events and blocks with valid and boring defaults; a test names only what it is about."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from gate.domain.base import sha256_hex
from gate.domain.evidence import Block, Event, Metrics, Outcome, RunRecord, Tier, Timing
from gate.domain.plan import Arm, RunKey
from gate.domain.sandbox import Collected, CollectedBlob
from gate.domain.skill import SkillType
from gate.evidence.bundle import Bundle
from gate.evidence.events import ZERO_HASH, EventLog, make_event, response_of, tool_calls

RUN_DATE = "2026-01-31"
IMAGE = "sha256:" + "0" * 64
MODEL = "scripted:agent"


class TickingClock:
    """A clock that is a millisecond later each time it is asked, and always on the same day."""

    def __init__(self) -> None:
        self._ticks = itertools.count()

    def now_iso(self) -> str:
        """Noon."""
        return f"{RUN_DATE}T12:00:00Z"

    def today_iso(self) -> str:
        """The run date."""
        return RUN_DATE

    def monotonic_ms(self) -> int:
        """0, 1, 2 …"""
        return next(self._ticks)


def a_run_key(**changes: Any) -> RunKey:
    """The key of the first run of a case with the skill."""
    return RunKey(
        **{
            "skill_path": "skills/tables",
            "slug": "skills-tables-1a2b3c4d",
            "eval_id": "case-1",
            "run": 1,
            "arm": Arm.WITH_SKILL,
            **changes,
        }
    )


def a_run_record(**changes: Any) -> RunRecord:
    """A completed run of one successful command, as if read back from its folder."""
    events = some_events()
    return RunRecord(
        **{
            "key": a_run_key(),
            "purpose": "planned",
            "skill_type": SkillType.CODE_EXECUTION,
            "outcome": Outcome.COMPLETED,
            "reason": "",
            "calls": tool_calls(events),
            "response": response_of(events),
            "files": (),
            "metrics": Metrics(activated=True),
            "usage": None,
            "model": MODEL,
            "image": IMAGE,
            "run_date": RUN_DATE,
            "chain_head": events[-1].hash,
            "seal": "0" * 64,
            **changes,
        }
    )


def events_of(*entries: tuple[str, Mapping[str, Any]]) -> tuple[Event, ...]:
    """Exactly these events (kind, data), chained, one a millisecond."""
    events: list[Event] = []
    for seq, (kind, data) in enumerate(entries):
        events.append(make_event(seq, kind, seq, dict(data), events[-1].hash if events else ZERO_HASH))
    return tuple(events)


def a_call(step: int = 1, tool: str = "bash", **changes: Any) -> tuple[tuple[str, Mapping[str, Any]], ...]:
    """A tool call and its result, as entries; ``args``, ``call_id`` and ``raw_args`` go to the call, the rest to the result."""
    call = {"step": step, "call_id": f"call-{step}", "tool": tool, "args": {"command": "ls"}, "raw_args": ""}
    call |= {name: changes.pop(name) for name in ("args", "call_id", "raw_args") if name in changes}
    text = changes.get("text", "report.md\n")
    result = {
        "step": step,
        "call_id": call["call_id"],
        "tool": tool,
        "status": "success",
        "text": text,
        "total_bytes": len(text.encode("utf-8", "surrogatepass")),
        "truncated": False,
        "exit_code": 0,
        "reported": False,
        **changes,
    }
    return ("tool_call", call), ("tool_result", result)


def run_entries(
    *middle: tuple[str, Mapping[str, Any]],
    response: str | None = "Done: see report.md.",
    outcome: str = "completed",
    skill_type: SkillType = SkillType.CODE_EXECUTION,
    prompt: str = "Make the report.",
) -> list[tuple[str, Mapping[str, Any]]]:
    """The entries of a whole run around ``middle`` (notes, calls and results), with the replies that asked for the calls."""
    calls = [data for kind, data in middle if kind == "tool_call"]
    uses = [{"id": data["call_id"], "name": data["tool"], "arguments": data["args"]} for data in calls]
    entries: list[tuple[str, Mapping[str, Any]]] = [
        (
            "run_started",
            {
                "key": a_run_key().to_json(),
                "skill_type": skill_type.value,
                "skill_tree": None,
                "model": MODEL,
                "image": IMAGE,
                "limits": {"steps": 10},
                "run_date": RUN_DATE,
            },
        ),
        ("prompt", {"system": "You are an agent.", "user": prompt}),
    ]
    if uses:
        entries.append(
            (
                "model_reply",
                {"step": 1, "text": "", "tool_uses": uses, "finish": "tool_use", "usage": None, "model": MODEL},
            )
        )
    entries += middle
    if response is not None:
        reply = {"step": 9, "text": response, "tool_uses": [], "finish": "stop", "usage": None, "model": MODEL}
        entries += [("model_reply", reply), ("response", {"text": response})]
    entries.append(("run_ended", {"outcome": outcome, "reason": ""}))
    return entries


def some_events(*middle: tuple[str, Mapping[str, Any]], **changes: Any) -> tuple[Event, ...]:
    """A whole run; without ``middle`` one note and one successful command. ``changes`` as in ``run_entries``."""
    default = (("note", {"step": 1, "text": "I will list the files."}), *a_call())
    return events_of(*run_entries(*(middle or default), **changes))


def a_block(text: str, *, number: int = 1, tier: Tier = Tier.TOOL_CALLS, title: str = "Step 1: bash") -> Block:
    """A block of this text; its kind follows the tier."""
    kinds = {Tier.TOOL_CALLS: "tool_calls", Tier.OUTPUT: "response", Tier.NOTES: "agent_notes"}
    return Block.model_validate(
        {"id": f"B{number:03d}", "tier": tier, "kind": kinds[tier], "title": title, "text": text}
    )


def some_blocks(*texts: str, tier: Tier = Tier.TOOL_CALLS) -> tuple[Block, ...]:
    """One block a text, numbered from B001."""
    return tuple(a_block(text, number=number, tier=tier) for number, text in enumerate(texts, 1))


def a_collection(files: Mapping[str, bytes]) -> Collected:
    """Files as they come out of a sandbox."""
    return Collected(
        files=tuple(
            CollectedBlob(path=path, size_bytes=len(data), sha256=sha256_hex(data), data=data)
            for path, data in sorted(files.items())
        )
    )


def write_run_folder(
    root: Path,
    *,
    entries: Sequence[tuple[str, Mapping[str, Any]]] | None = None,
    files: Mapping[str, bytes] | None = None,
    fixture: Mapping[str, bytes] | None = None,
    key: RunKey | None = None,
    **changes: Any,
) -> RunRecord:
    """A run below the bundle folder ``root``, written and sealed by the gate's own code, and its record as read back.

    ``entries``: the whole event log (``run_entries``). ``changes`` go to ``RunFolder.finish``.
    """
    written = run_entries(*a_call()) if entries is None else entries
    folder = Bundle(root).run(key or a_run_key())
    with folder.event_log(lambda text: text, TickingClock()) as log:
        append_all(log, written)
    return folder.finish(
        **{
            "purpose": "planned",
            "skill_type": SkillType.CODE_EXECUTION,
            "outcome": Outcome(str(written[-1][1].get("outcome", "completed"))) if written else Outcome.COMPLETED,
            "reason": "",
            "metrics": Metrics(activated=True),
            "timing": Timing(
                started_at=f"{RUN_DATE}T12:00:00Z",
                duration_ms=1200,
                total_duration_seconds=1.2,
                model_ms=900,
                sandbox_ms=300,
            ),
            "usage": None,
            "model": MODEL,
            "image": IMAGE,
            "run_date": RUN_DATE,
            "files": folder.write_outputs(a_collection(files or {}), fixture or {}),
            **changes,
        }
    )


def append_all(log: EventLog, entries: Iterable[tuple[str, Mapping[str, Any]]]) -> None:
    """Append these entries one by one."""
    for kind, data in entries:
        log.append(kind, **data)
