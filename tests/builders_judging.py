"""Sealed runs on disk, and judges in a few words, for tests of Layers 2a, 2b and 3."""

from __future__ import annotations

import itertools
import json
import re
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from gate.domain.base import sha256_hex
from gate.domain.chat import ChatRequest, Role
from gate.domain.evidence import Metrics, Outcome, RunRecord, Timing
from gate.domain.plan import Arm, RunKey
from gate.domain.sandbox import Collected, CollectedBlob
from gate.domain.seeding import SessionSeed
from gate.domain.skill import SkillType
from gate.domain.suite import Case, Expectation
from gate.evidence.bundle import Bundle
from gate.llm.ledger import Ledger
from gate.llm.roles import Models
from gate.settings import Caps
from tests.fakes.chat import ScriptedChat, Step

SEED = SessionSeed("5e" * 32)
SESSION = "session-1"


class Call(NamedTuple):
    """One tool call of a run."""

    tool: str
    args: dict[str, Any] | None = None
    result: str = "ok"
    status: str = "success"
    raw_args: str = ""
    reported: bool = False
    exit_code: int | None = None


class _StoppedClock:
    def now_iso(self) -> str:
        return "2026-01-31T12:00:00Z"

    def today_iso(self) -> str:
        return "2026-01-31"

    def monotonic_ms(self) -> int:
        return 0


def a_run(
    root: Path,
    *,
    calls: Sequence[Call] = (),
    response: str | None = "All done, and the total is 1250.",
    notes: Sequence[str] = (),
    files: Mapping[str, bytes] | None = None,
    fixture: Mapping[str, bytes] | None = None,
    outcome: Outcome = Outcome.COMPLETED,
    skill_type: SkillType = SkillType.CODE_EXECUTION,
    arm: Arm = Arm.WITH_SKILL,
    run: int = 1,
    run_date: str = "2026-01-31",
    activated: bool = True,
    contaminated: str | None = None,
) -> RunRecord:
    """A run, written and sealed below ``root`` by the gate's own code and read back."""
    key = RunKey(skill_path="skills/sums", slug="skills-sums-1", eval_id="one", run=run, arm=arm)
    folder = Bundle(root).run(key)
    with folder.event_log(lambda text: text, _StoppedClock()) as log:
        log.append("run_started", skill_type=skill_type.value)
        log.append("prompt", system="s", user="u")
        uses = [{"id": f"call-{number}", "name": call.tool} for number, call in enumerate(calls, 1)]
        log.append("model_reply", step=1, text="", tool_uses=uses, finish="stop")
        for step, note in enumerate(notes, 1):
            log.append("note", step=step, text=note)
        for number, call in enumerate(calls, 1):
            args: dict[str, Any] = {"args": call.args if call.args is not None or call.raw_args else {}}
            if call.raw_args:
                args["raw_args"] = call.raw_args
            log.append("tool_call", step=number, call_id=f"call-{number}", tool=call.tool, **args)
            log.append(
                "tool_result",
                step=number,
                call_id=f"call-{number}",
                tool=call.tool,
                status=call.status,
                text=call.result,
                total_bytes=len(call.result),
                truncated=False,
                exit_code=call.exit_code,
                reported=call.reported,
            )
        if response is not None:
            log.append("response", text=response)
        log.append("run_ended", outcome=outcome.value, reason="as told")
    blobs = tuple(
        CollectedBlob(path=path, size_bytes=len(data), sha256=sha256_hex(data), data=data)
        for path, data in sorted((files or {}).items())
    )
    collected = folder.write_outputs(Collected(files=blobs), fixture)
    return folder.finish(
        purpose="planned",
        skill_type=skill_type,
        outcome=outcome,
        reason="as told",
        metrics=Metrics(activated=activated),
        timing=Timing(
            started_at="2026-01-31T12:00:00Z", duration_ms=1, total_duration_seconds=0.001, model_ms=0, sandbox_ms=0
        ),
        usage=None,
        model="scripted:scripted-1",
        image="image",
        run_date=run_date,
        files=collected,
        contaminated=contaminated,
    )


def expecting(*texts: str, **changes: Any) -> Case:
    """A case whose expectations are ``e1`` …"""
    rows = tuple(Expectation(id=f"e{number}", text=text) for number, text in enumerate(texts, 1))
    return Case(**{"eval_id": "one", "prompt": "Add the numbers up.", "expectations": rows, **changes})


def judged_by(script: Callable[[ChatRequest], Step] | Sequence[Step]) -> tuple[Models, Ledger, ScriptedChat]:
    """Models of which every role is one scripted judge."""
    chat = ScriptedChat(script)
    return Models(lambda role: chat), Ledger(Caps(), lambda model, usage: 0.0), chat


def one_per_role(scripts: Mapping[Role, ScriptedChat]) -> Models:
    """Models with a scripted client for each role."""
    return Models(lambda role: scripts[role])


# What a judge can read in its question ---------------------------------------------------------------------------------

_ROW = re.compile(r"^(r\d+) \| (tool call|any) \| (.*)$", re.MULTILINE)
_LINE = re.compile(r"^(B\d+):(\d+)\|(.*)$", re.MULTILINE)


class Asked(NamedTuple):
    """A row of a question to the grader."""

    id: str
    kind: str
    text: str

    @property
    def is_false_control(self) -> bool:
        """Tests may tell controls apart by their words; a judge cannot know that nothing else has these words."""
        return bool(_FALSE_CONTROL.fullmatch(self.text))


_FALSE_CONTROL = re.compile(
    r"The tool `(?:send_email|create_ticket|translate_document|resize_image|book_meeting|archive_export|delete_branch|"
    r"charge_card|post_message|restart_service|upload_backup|sign_contract)\w*` was called\."
    r'|The response contains the text "(?:Reference number|Tracking code|Batch|Order|Protocol entry|Room|Shelf mark|'
    r'Permit) \d+"\.'
)


def user_text(request: ChatRequest) -> str:
    """Everything that a judge was shown."""
    return "\n".join(message.text for message in request.messages if message.role == "user")


def rows_of(request: ChatRequest) -> list[Asked]:
    """The rows of a question to the grader."""
    return [Asked(*found.groups()) for found in _ROW.finditer(request.messages[0].text)]


def lines_of(request: ChatRequest) -> list[tuple[str, str]]:
    """(line id, text) of the record as a judge is shown it."""
    return [(f"{found[1]}:{found[2]}", found[3]) for found in _LINE.finditer(request.messages[0].text)]


def row(row_id: str, verdict: str, *quotes: tuple[str, str]) -> dict[str, Any]:
    """A row of the grader's reply; quotes are (source, text)."""
    return {
        "id": row_id,
        "quotes": [{"source": source, "text": text} for source, text in quotes],
        "reason": "seen",
        "verdict": verdict,
    }


def graded(rows: Sequence[dict[str, Any]], **more: Any) -> str:
    """The grader's reply."""
    return json.dumps({"rows": list(rows), "claims": [], "eval_feedback": [], **more})


def honest(answers: Mapping[str, dict[str, Any]]) -> Callable[[ChatRequest], str]:
    """A grader that answers controls rightly and each expectation as ``answers`` (text -> row without id) says."""

    def reply(request: ChatRequest) -> str:
        return graded([answer_one(item, request, answers) for item in rows_of(request)])

    return reply


def answer_one(item: Asked, request: ChatRequest, answers: Mapping[str, dict[str, Any]]) -> dict[str, Any]:
    """The row of one expectation or control."""
    if item.text in answers:
        return {**answers[item.text], "id": item.id}
    if item.is_false_control:
        return row(item.id, "fail")
    wanted = re.search(r"`([^`]+)`|\"([^\"]+)\"", item.text)
    assert wanted is not None, item.text
    needle = wanted[1] or wanted[2]
    source, text = next((found for found in lines_of(request) if needle in found[1]), ("B001:1", "nothing found"))
    return row(item.id, "pass", (source, text))


# The comparator ----------------------------------------------------------------------------------------------------------


def scores(*values: int) -> dict[str, int]:
    """Six scores in the order of CRITERIA; fewer are repeated from the last."""
    names = ("correctness", "completeness", "accuracy", "organization", "formatting", "usability")
    return dict(zip(names, itertools.chain(values, itertools.repeat(values[-1])), strict=False))


def compared(first: dict[str, int], second: dict[str, int], quotes: Sequence[dict[str, Any]] = ()) -> str:
    """The comparator's reply."""
    reply = {"reasoning": "The first output is longer.", "quotes": list(quotes), "first": first, "second": second}
    return json.dumps(reply)
