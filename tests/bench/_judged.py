"""One changed skill through the gate's own layers, in process, with scripted models.

``whole_session`` is the pipeline itself, from intake to decision, with boxes in memory. ``judged`` is the same without what
costs time and changes nothing here: runs are written down by the gate's recorder and not by its loop, work that is equal is
checked and graded once, and outputs are not compared blind. ``tests.bench.sabotage`` says how often the two agree.

Nothing here decides, and nothing tells agent, judge or gate what was changed or why: the agent gets the text of the skill
that the gate puts into its box, and a seed of its own.
"""

from __future__ import annotations

import json
import shutil
import tempfile
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from random import Random
from typing import Self

from gate.audit.mutate import MutatedRepository
from gate.audit.simulate import NOT_COMPARED
from gate.decision.further import needs_confirm, undecided
from gate.decision.look import Look
from gate.decision.state import state_of
from gate.decision.verdict import decide_skills
from gate.domain.base import NotRun, canonical_json, sha256_hex
from gate.domain.chat import ChatReply, ChatRequest, Finish, Role, TokenUsage, ToolUse
from gate.domain.evidence import RunRecord
from gate.domain.judgement import CheckStatus, Grading, Quote, RunJudgement
from gate.domain.plan import Arm, Enforce, RunRequest
from gate.domain.report import CaseRecord, JudgedRun, SkillRecord, SkillReport, State, Verdict
from gate.domain.seeding import SessionSeed
from gate.evidence.assemble import read_skill_record
from gate.evidence.redact import Redactor
from gate.intake.read import read_session
from gate.judging.grader import grade_run
from gate.judging.ground_truth import check_run
from gate.llm.roles import Models
from gate.pipeline import World, run
from gate.planning.plan import confirm_requests, fill_requests, plan_session, planned_requests
from gate.settings import ModelChoice, Settings, Thresholds
from tests.bench._follower import Chance, plan, task_of
from tests.bench._taught import COUNTED, SCRIPT, Done, Taught, done_by
from tests.builders_judging import Call, a_run
from tests.fakes.chat import ScriptedChat
from tests.fakes.repository import FakeRepository
from tests.fakes.sandbox import Command, Program, Ran, ScriptedBox, ScriptedSandbox
from tests.scripted import judges
from tests.scripted.demo import LOCATION
from tests.unit.execution.world import Lines, StillClock, a_ledger, shell

RUN_DATE = "2026-01-31"
_FAST = "/dev/shm" if Path("/dev/shm").is_dir() else None
"""Runs are written and read back many times and kept by nobody."""
USAGE = TokenUsage(input_tokens=100, output_tokens=20)
Judge = Callable[[ChatRequest], str]


@dataclass(frozen=True)
class Row:
    """One assertion of one run, as a policy sees it."""

    case: str
    id: str
    exact: bool
    said: bool
    """Of a check: whether it passed. Of an expectation: what the judge said, at its word."""
    quotes: tuple[str, ...] = ()


@dataclass(frozen=True)
class Seen:
    """One run, as a policy sees it."""

    arm: Arm
    run: int
    rows: tuple[Row, ...]
    record: str
    """What the judge could read of the run: arguments and results of its tool calls, and the answer."""


@dataclass(frozen=True)
class Judged:
    """What the gate says of one change, and what other policies can be asked of the same runs."""

    verdict: Verdict
    states: Mapping[Enforce, State]
    reason: str
    runs: tuple[Seen, ...]
    first_orders: tuple[str, ...]
    """Per compared case: who won where the comparator was asked once, in one order: ``with``, ``without``, ``tie``."""
    calls: int
    """Of models."""


def _change(skill: Taught, path: str, text: str, seed: str, out: str) -> tuple[MutatedRepository, Settings]:
    """The skill with one file of its folder replaced, as a change on top of a commit that holds the skill."""
    inner = FakeRepository()
    commit = inner.commit(skill.files(), branch="main")
    over = MutatedRepository(inner, commit, f"{skill.folder}/{path}", text.encode())
    settings = Settings(
        repository="memory",
        paths=(skill.folder,),
        base=commit,
        exact_base=True,
        out=out,
        models=ModelChoice(executor="scripted:agent", judge="scripted:judge"),
        jobs=1,
        seed=sha256_hex(seed.encode()),
    )
    return over, settings


class Judging:
    """Layers 1, 2a and 2b for one skill: what is equal is judged once. Use as a block: its folder goes with it."""

    def __init__(self, skill: Taught, judge: Judge, *, noisy: bool = False) -> None:
        """``noisy``: the judge may say something else of the same work in another run."""
        self.skill = skill
        self._noisy = noisy
        self._models = Models(lambda role: ScriptedChat(judge))
        self._known: dict[tuple[object, ...], JudgedRun] = {}
        self._cases = {case.eval_id: case for case in skill.cases}
        self._folder = Path(tempfile.mkdtemp(prefix="sabotage-", dir=_FAST))

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        shutil.rmtree(self._folder, ignore_errors=True)

    def run(self, request: RunRequest, seed: str, miss: float) -> JudgedRun:
        """One run of the follower, recorded, checked and graded."""
        case = self._cases[request.case.eval_id]
        text = request.skill.text if request.skill else ""
        script = request.skill.file("scripts/count.py") if request.skill else None
        chance = Chance(f"{seed}/{request.key.label}", miss)
        done = done_by(text, case.task, chance, self.skill.name, script.data.decode() if script else "")
        key: tuple[object, ...] = (case.eval_id, request.skill is None, done.answer, done.calls)
        if self._noisy and not all(item.holds(done) for item in case.assertions if not item.exact):
            key = (*key, seed, request.key.label)
        found = self._known.get(key)
        if found is None:
            found = self._known[key] = self._judged(request, done)
        record = found.record.model_copy(
            update={"key": request.key, "purpose": request.purpose, "skill_type": request.skill_type}
        )
        return found.model_copy(update={"record": record})

    def _judged(self, request: RunRequest, done: Done) -> JudgedRun:
        root = self._folder / str(len(self._known))
        fixture = {item.path: item.data for item in request.case.files}
        calls = [Call("bash", {"command": "cat input.csv"}, fixture["input.csv"].decode())]
        if request.skill is not None:
            calls.insert(0, Call("bash", {"command": "cat SKILL.md"}, request.skill.text))
        for kind, what, _ in done.calls:
            if kind == "read":
                held = fixture.get(what)
                calls.append(
                    Call(
                        "read_file",
                        {"path": what},
                        held.decode() if held else "no such file",
                        "success" if held else "error",
                    )
                )
            elif kind == "run":
                works = "The script says" in done.answer
                text = COUNTED.format(count=len(fixture["input.csv"].splitlines()) - 1) if works else "out of order"
                calls.append(
                    Call("bash", {"command": what}, text, "success" if works else "error", exit_code=0 if works else 1)
                )
            else:
                calls.append(Call("write_file", {"path": what, "content": done.answer}, f"written: {what}"))
        written = {path: text.encode() for path, text in done.files.items()}
        record = a_run(
            root, calls=calls, response=done.answer, files={**fixture, **written}, fixture=fixture,
            arm=request.key.arm, activated=request.skill is not None, skill_type=request.skill_type,
        )  # fmt: skip
        checks = check_run(request.case, record, root, None)
        grading = grade_run(
            request.case, record, request.skill, root=root, models=self._models, ledger=a_ledger(price=0.0),
            seed=SessionSeed(sha256_hex(record.seal.encode())),
        )  # fmt: skip
        shutil.rmtree(root, ignore_errors=True)
        return JudgedRun(record=record, judgement=RunJudgement(checks=checks, grading=grading))


def judged(judging: Judging, path: str, text: str, *, seed: str, miss: float) -> Judged:
    """A change of one file of the skill, as a pull request. ``miss``: how often the agent misses a rule that it has read."""
    over, settings = _change(judging.skill, path, text, seed, "nowhere")
    intake = read_session(over, settings)
    plan = plan_session(intake, settings, session_id="session", run_date=RUN_DATE)
    (skill,) = plan.skills
    runs: dict[str, list[JudgedRun]] = {case.case.eval_id: [] for case in skill.cases}

    def make(requests: Sequence[RunRequest]) -> None:
        for request in requests:
            runs[request.case.eval_id].append(judging.run(request, seed, miss))

    def records() -> list[CaseRecord]:
        return [
            CaseRecord(plan=case, runs=tuple(runs[case.case.eval_id]), layer3=NOT_COMPARED)
            for case in skill.cases
            if case.blocked is None
        ]

    make(planned_requests(plan))
    make([request for case in records() if undecided(case) for request in fill_requests(skill, case, plan.mode)])
    make([request for case in records() if needs_confirm(case) for request in confirm_requests(skill, case, plan.mode)])
    record = SkillRecord(plan=skill, cases=tuple(records()))
    look = Look(record, plan.mode, plan.enforce, Thresholds(), "warn", False, (), RUN_DATE)
    (found,) = decide_skills([look])
    return _told(found, record, 0)


def whole_session(skill: Taught, path: str, text: str, *, seed: str, miss: float, judge: Judge) -> Judged:
    """The same by the pipeline itself."""
    agent = _agent(skill, seed, miss)
    calls = [0]

    def counted(answer: Callable[[ChatRequest], ChatReply | str]) -> ScriptedChat:
        def reply(request: ChatRequest) -> ChatReply | str:
            calls[0] += 1
            return answer(request)

        return ScriptedChat(reply)

    clients = {Role.EXECUTOR: counted(agent)}
    by_text = counted(_judges(judge))
    folder = Path(tempfile.mkdtemp(prefix="sabotage-", dir=_FAST))
    try:
        over, settings = _change(skill, path, text, seed, str(folder))
        session = SessionSeed(settings.seed or "")
        with ScriptedSandbox(_program(skill)) as sandbox:
            world = World(
                repository=over,
                sandbox=lambda: sandbox,
                models=Models(lambda role: clients.get(role, by_text)),
                ledger=a_ledger(price=0.0),
                clock=StillClock(),
                seed=session,
                session_id=session.token("session", length=12),
                run_date=RUN_DATE,
                progress=Lines(),
                redactor=Redactor({}),
                models_text="scripted",
                cancelled=threading.Event(),
            )
            report = run(settings, world)
        (found,) = report.skills
        record = read_skill_record(folder, found.slug)
        return _told(found, record, calls[0])
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _told(found: SkillReport, record: SkillRecord, calls: int) -> Judged:
    return Judged(
        verdict=found.verdict,
        states={level: state_of(found.verdict, level) for level in Enforce},
        reason=found.reasons[0] if found.reasons else "",
        runs=tuple(_seen(record)),
        first_orders=tuple(_first_orders(record)),
        calls=calls,
    )


def _program(skill: Taught) -> Program:
    """A box in which ``cat`` and the one script work; a script that was changed is really run."""
    base = shell()

    def program(box: ScriptedBox, command: Command) -> Ran | bytes | str:
        argv = command.argv
        line = argv[2] if argv[:2] == ("bash", "-c") and len(argv) == 3 else ""
        if not line.startswith("python3 "):
            return base(box, command)
        _, script, *rest = line.split()
        source = box.read(script)
        if source == SCRIPT.encode() and rest:
            return COUNTED.format(count=len(box.read(rest[0]).decode().splitlines()) - 1) + "\n"
        return Ran(stderr=b"out of order\n", exit_code=1)

    return program


def _agent(skill: Taught, seed: str, miss: float) -> Callable[[ChatRequest], ChatReply]:
    """The follower as a model with tools; what it knows of the skill is what a command showed it."""

    def reply(request: ChatRequest) -> ChatReply:
        location = LOCATION.search(request.system)
        task = next(message.text for message in request.messages if message.role == "user")
        results = [item.text for message in request.messages for item in message.tool_results]
        asked = [use for message in request.messages for use in message.tool_uses]
        if not location and not asked and request.label.endswith(("executor", "preflight")):
            return _say("ready")
        if not asked:
            first = [("bash", {"command": "cat input.csv"})]
            if location:
                first.insert(0, ("bash", {"command": f"cat {location[1]}"}))
            return _use(first)
        text = results[0] if location else ""
        table = results[1] if location else results[0]
        before = 2 if location else 1
        chance = Chance(f"{seed}/{request.label.rpartition('/turn-')[0]}", miss)
        work = plan(text, task_of(task, table), chance)
        done = list(zip(work.calls, results[before:], strict=False))
        outputs = {what: _output(result) for (kind, what, _), result in done if kind == "run"}
        answer = work.answer(outputs)
        if len(done) < len(work.calls):
            kind, what, _ = work.calls[len(done)]
            tool = {
                "read": ("read_file", {"path": what}),
                "run": ("bash", {"command": what}),
                "write": ("write_file", {"path": what, "content": answer}),
            }[kind]
            return _use([tool])
        return _say(answer)

    return reply


def _output(result: str) -> str:
    """What a command printed, where it worked."""
    return result.strip() if "rows read" in result else ""


def _say(text: str) -> ChatReply:
    return ChatReply(text=text, finish=Finish.STOP, usage=USAGE, model="scripted-1")


def _use(tools: Sequence[tuple[str, Mapping[str, str]]]) -> ChatReply:
    uses = tuple(ToolUse(id=f"use-{at}", name=name, arguments=dict(given)) for at, (name, given) in enumerate(tools))
    return ChatReply(text="", tool_uses=uses, finish=Finish.TOOL_USE, usage=USAGE, model="scripted-1")


def _judges(judge: Judge) -> Callable[[ChatRequest], str]:
    """Everybody who judges, by what their system text says."""

    def reply(request: ChatRequest) -> str:
        system = request.system
        if "You check whether expectations" in system:
            return judge(request)
        if "You compare two pieces of work" in system:
            return judges.comparator(request).text  # type: ignore[arg-type,union-attr]
        if "You explain why two runs" in system:
            return judges.analyzer(request).text  # type: ignore[arg-type,union-attr]
        return "ready" if "Answer with the word ready" in system else "{}"

    return reply


def literal_judge(request: ChatRequest) -> str:
    """A judge that looks up what an expectation names, and never errs."""
    return judges.grader(request).text  # type: ignore[arg-type,union-attr]


def lenient_judge(seed: str, true_fail: float) -> Judge:
    """A judge that passes some of what does not hold and cites a real line for it, or what it would have liked to read.

    It cannot tell controls from rows.
    """

    def reply(request: ChatRequest) -> str:
        said = json.loads(literal_judge(request))
        text = request.messages[-1].text
        lines = [(place, line) for place, line in judges.LINE.findall(text) if len(line.strip()) >= 8]
        wanted = {row_id: judges.LITERAL.findall(words) for row_id, _, words in judges.ROW.findall(text)}
        for row in said["rows"]:
            rng = Random(f"{seed}/{request.label}/{row['id']}")
            if row["verdict"] == "fail" and rng.random() >= true_fail and lines:
                place, line = rng.choice(lines)
                if rng.random() < 0.5:
                    line = next(iter(wanted.get(row["id"], [])), line)
                row.update(verdict="pass", quotes=[{"source": place, "text": line}], reason="It is there.")
        return json.dumps(said)

    return reply


def _seen(record: SkillRecord) -> Sequence[Seen]:
    found = []
    for case in record.cases:
        for item in case.runs:
            checks, grading = item.judgement.checks, item.judgement.grading
            rows = []
            if not isinstance(checks, NotRun):
                rows += [
                    Row(case.plan.case.eval_id, check.check_id, True, check.status is CheckStatus.PASSED)
                    for check in checks
                ]
            if isinstance(grading, Grading):
                rows += [
                    Row(
                        case.plan.case.eval_id, row.expectation_id, False, bool(row.model_said), tuple(map(_text, row.quotes))
                    )
                    for row in grading.rows
                ]  # fmt: skip
            found.append(Seen(item.record.key.arm, item.record.key.run, tuple(rows), _shown(item.record)))
    return found


def _text(quote: Quote) -> str:
    return quote.text


def _shown(record: RunRecord) -> str:
    parts = [text for call in record.calls for text in (f"Args: {canonical_json(call.args).decode()}", call.result)]
    return "\n".join([*parts, record.response or ""])


def _first_orders(record: SkillRecord) -> Sequence[str]:
    found = []
    for case in record.cases:
        comparison, opened = case.layer3.comparison, case.layer3.unblinding
        if isinstance(comparison, NotRun) or opened is None or not comparison.pairs:
            continue
        first = comparison.pairs[0].orders[0].winner
        found.append("tie" if first == "TIE" else "with" if first == opened.with_skill else "without")
    return found
