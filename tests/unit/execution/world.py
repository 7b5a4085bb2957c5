"""A small world for tests of Layer 1: a sandbox of scripted commands, a model that says what was written down, a record in memory."""

from __future__ import annotations

import hashlib
import json
import threading
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from gate.domain.evidence import Event, RunRecord
from gate.domain.plan import Arm, Limits, RunKey, RunRequest
from gate.domain.sandbox import BoxSpec
from gate.domain.seeding import SessionSeed
from gate.domain.skill import Skill, SkillType
from gate.domain.suite import Case
from gate.evidence.bundle import Bundle
from gate.evidence.events import ZERO_HASH, make_event
from gate.evidence.redact import Redactor
from gate.execution.arms import IMAGE_SEARCH, SURVEY_COMMAND
from gate.execution.loop import LIST_FILES, WRITE_FILE, Loop, LoopEnd
from gate.execution.runner import execute
from gate.llm.ledger import Ledger
from gate.llm.roles import Models
from gate.protocols import ChatModel, McpReach
from gate.settings import Caps
from tests.builders_skill import a_case, a_file, a_skill
from tests.fakes.chat import ScriptedChat
from tests.fakes.sandbox import SENTINEL, Command, Program, Ran, ScriptedBox, ScriptedSandbox

IMAGE = "skill-gate-sandbox:dev"
BODY = "# Sums\n\nRead every number aloud before you add it to the others.\n\nAdd the numbers from left to right.\n"

Answer = Ran | bytes | str | Callable[[ScriptedBox, Command], Ran | bytes | str]


def survey(box: ScriptedBox) -> str:
    """What the survey script prints in a real sandbox."""
    below = {path: data for path, data in box.files.items() if path.startswith(("/skills/", "/work/"))}
    parts = [
        [f"f {'755' if path in box.executable else '644'} {path}" for path in below],
        [f"{hashlib.sha256(data).hexdigest()}  {path}" for path, data in below.items()],
        [],
        ["HOME=/work/home", "PATH=/bin"],
    ]
    return "\0".join("".join(f"{record}\0" for record in part) for part in parts)


def shell(commands: Mapping[str, Answer] | None = None, *, default: Answer | None = None) -> Program:
    """A program that does what the built-in tools ask for; ``commands``: bash command -> answer."""

    def program(box: ScriptedBox, command: Command) -> Ran | bytes | str:
        argv = command.argv
        if argv == SURVEY_COMMAND:
            return survey(box)
        if argv[:3] == ("sh", "-c", IMAGE_SEARCH):
            return "searched\n"
        if argv[:2] == ("cat", "--"):
            return box.read(argv[2])
        if argv[:3] == ("bash", "-c", WRITE_FILE):
            box.write(argv[4], command.stdin)
            return f"written: {argv[4]}\n"
        if argv[:3] == ("bash", "-c", LIST_FILES):
            root = f"{box.path(argv[4]).rstrip('/')}/"
            names = [path.removeprefix(root) for path in box.files if path.startswith(root) and path != SENTINEL]
            return "".join(f"f {name}\n" for name in sorted(names))
        line = argv[2] if argv[:2] == ("bash", "-c") else " ".join(argv)
        answer = (commands or {}).get(line, default)
        if callable(answer):
            return answer(box, command)
        if answer is not None:
            return answer
        if line.startswith("cat "):
            return b"".join(box.read(name) for name in line.split()[1:])
        return Ran(stderr=f"bash: {line.split()[0]}: command not found\n".encode(), exit_code=127)

    return program


def sums_skill(**changes: Any) -> Skill:
    """A skill with a script, a reference and files that judge it."""
    files = (
        a_file(
            "references/units.md", "Metres come first.\nThen come kilograms and grams.\nSeconds come last of all.\n"
        ),
        a_file("scripts/add.py", "print('add')\n", mode="100755"),
        a_file("evals/evals.json", '{"evals": []}'),
        a_file("plugin.json", "{}"),
    )
    return a_skill(**{"body": BODY, "files": files, **changes})


def a_request(
    arm: Arm = Arm.WITH_SKILL,
    *,
    skill: Skill | None = None,
    case: Case | None = None,
    run: int = 1,
    skill_type: SkillType = SkillType.TEXT_GENERATION,
    **limits: Any,
) -> RunRequest:
    """One run; the baseline gets no skill."""
    subject = skill or sums_skill()
    case = case or a_case()
    return RunRequest(
        key=RunKey(skill_path=subject.path, slug=subject.slug, eval_id=case.eval_id, run=run, arm=arm),
        case=case,
        skill=None if arm is Arm.WITHOUT_SKILL else subject,
        skill_type=skill_type,
        limits=Limits(**{"steps": 6, **limits}),
        subjects=(subject,),
    )


class StillClock:
    """Time that a test moves."""

    def __init__(self) -> None:
        self.ms = 0

    def now_iso(self) -> str:
        return "2026-01-31T12:00:00Z"

    def today_iso(self) -> str:
        return "2026-01-31"

    def monotonic_ms(self) -> int:
        return self.ms


class MemoryLog:
    """A Recorder that keeps events in memory."""

    def __init__(self) -> None:
        self.events: list[Event] = []

    def append(self, kind: str, **data: Any) -> Event:
        event = make_event(
            len(self.events), kind, 0, json.loads(json.dumps(data)), self.events[-1].hash if self.events else ZERO_HASH
        )
        self.events.append(event)
        return event

    def of(self, kind: str) -> list[dict[str, Any]]:
        """The data of every event of a kind."""
        return [event.data for event in self.events if event.kind == kind]


def a_ledger(caps: Caps | None = None, *, price: float | None = 0.001) -> Ledger:
    """A ledger at which every call costs the same (None: unknown)."""
    return Ledger(caps or Caps(), lambda name, usage: price)


def run_loop(
    model: ChatModel,
    request: RunRequest | None = None,
    *,
    program: Program | None = None,
    ledger: Ledger | None = None,
    clock: StillClock | None = None,
    cancelled: Callable[[], bool] = lambda: False,
) -> tuple[LoopEnd, MemoryLog]:
    """The loop alone, in an open box that holds what its arm gets."""
    request = request or a_request()
    log = MemoryLog()
    with (
        ScriptedSandbox(program or shell()) as sandbox,
        sandbox.open(BoxSpec(session_id="s", label="l", image=IMAGE)) as box,
    ):
        if request.skill is not None:
            from gate.execution.arms import skill_files, skill_folder

            box.put_skill(skill_files(request.skill), name=skill_folder(request.skill))
        end = Loop(
            request,
            model=model,
            box=box,
            log=log,
            ledger=ledger or a_ledger(),
            clock=clock or StillClock(),
            cancelled=cancelled,
        ).run()
    return end, log


class Lines:
    """A Progress that remembers."""

    def __init__(self) -> None:
        self.said: list[str] = []
        self.done: list[tuple[str, str]] = []

    def say(self, text: str) -> None:
        self.said.append(text)

    def expect(self, *, cases: int, runs: int, calls: int) -> None:
        """Nothing."""

    def step(self, what: str, total: int) -> None:
        """Nothing."""

    def step_done(self) -> None:
        """Nothing."""

    def run_done(self, label: str, outcome: str) -> None:
        self.done.append((label, outcome))


def run_all(
    requests: list[RunRequest],
    model: ChatModel,
    folder: Path,
    *,
    sandbox: ScriptedSandbox | None = None,
    ledger: Ledger | None = None,
    redactor: Redactor | None = None,
    jobs: int = 2,
    progress: Lines | None = None,
    cancelled: threading.Event | None = None,
    seed: str = "5" * 64,
    mcp: McpReach | None = None,
) -> list[RunRecord]:
    """``execute`` with everything that a test does not care about filled in."""
    sandbox = sandbox or ScriptedSandbox(shell())
    with sandbox:
        return execute(
            requests,
            session_id="session-1",
            run_date="2026-01-31",
            image=IMAGE,
            jobs=jobs,
            sandbox=sandbox,
            models=Models(lambda role: model),
            ledger=ledger or a_ledger(),
            bundle=Bundle(folder),
            redactor=redactor or Redactor({}),
            seed=SessionSeed(seed),
            clock=StillClock(),
            progress=progress or Lines(),
            cancelled=cancelled or threading.Event(),
            mcp=mcp,
        )


def answering(text: str = "The sum is 3.") -> ScriptedChat:
    """A model that answers every run at once."""
    return ScriptedChat(lambda request: text)
