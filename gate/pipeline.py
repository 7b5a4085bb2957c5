"""Every stage in order, and the one loop: the table of contents of the program. Ends at a GateReport."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

from gate import __version__
from gate.decision.look import Look
from gate.decision.state import summarise
from gate.decision.triage import needs_confirm, undecided
from gate.decision.verdict import decide_skills
from gate.domain.base import NotRun, Value, rounded
from gate.domain.chat import ChatRequest, Message, Role
from gate.domain.evidence import RunRecord, Verification
from gate.domain.findings import Finding
from gate.domain.intake import Intake
from gate.domain.judgement import Comparison, Grading, Winner
from gate.domain.plan import Arm, CasePlan, Enforce, Mode, Plan, RunRequest, SkillPlan, case_folder
from gate.domain.report import CaseRecord, GateReport, ModelUse, Override, SkillRecord
from gate.domain.seeding import SessionSeed
from gate.errors import BudgetError, Cancelled, ConfigurationError, EvidenceError, InfrastructureError
from gate.evidence.assemble import SkillFacts, read_case_record, read_skill_record, skill_file
from gate.evidence.bundle import Bundle
from gate.evidence.redact import Redactor
from gate.evidence.shapes import benchmark_file, checks_file, grading_file
from gate.execution.runner import execute
from gate.execution.verification import verify_run
from gate.intake.read import read_session
from gate.judging.analyzer import analyse_case
from gate.judging.comparator import compare_case, unblind
from gate.judging.grader import grade_run, other_family
from gate.judging.ground_truth import check_run
from gate.llm.ledger import Ledger
from gate.llm.roles import Models
from gate.planning.modes import RULES
from gate.planning.plan import confirm_requests, fill_requests, plan_session, planned_requests
from gate.protocols import Clock, Progress, Repository, Sandbox
from gate.settings import Policy, Settings

T = TypeVar("T")
R = TypeVar("R")

CANCEL_SECONDS = 3.0
"""After a signal: how long runs may take to write down that they were cancelled."""


@dataclass(frozen=True)
class World:
    """The world outside, as arguments."""

    repository: Repository
    sandbox: Callable[[], Sandbox]
    """Made when the first run needs it: a session with nothing to run needs no engine."""
    models: Models | None
    ledger: Ledger
    clock: Clock
    seed: SessionSeed
    session_id: str
    run_date: str
    progress: Progress
    redactor: Redactor
    models_text: str
    """For the report's footer."""
    notes: tuple[str, ...] = ()
    cancelled: threading.Event = field(default_factory=threading.Event)
    abort: Callable[[], None] = lambda: None
    """Ends the program at once; called when a session that was told to stop does not end by itself."""


@dataclass
class _Trouble:
    """What stopped a skill, by slug: filled while the session runs, read by the decision from skill.json."""

    errors: dict[str, set[str]] = field(default_factory=dict)
    over_budget: dict[str, str] = field(default_factory=dict)
    lock: threading.Lock = field(default_factory=threading.Lock)

    def error(self, slug: str, text: str) -> None:
        """An infrastructure error of one skill."""
        with self.lock:
            self.errors.setdefault(slug, set()).add(text)

    def budget(self, slug: str, text: str) -> None:
        """The first cap that one skill ran into."""
        with self.lock:
            self.over_budget.setdefault(slug, text)


@dataclass(frozen=True)
class _Session:
    """What every step of a session that measures needs: an engine that answered, models that answered."""

    settings: Settings
    world: World
    plan: Plan
    bundle: Bundle
    sandbox: Sandbox
    models: Models
    images: dict[str, str]
    """Skill path -> id of the image that its runs and its verification containers get."""
    trouble: _Trouble


def run(settings: Settings, world: World) -> GateReport:
    """The main job: from a change in a repository to a report, everything written to the bundle.

    Raises ConfigurationError and RepositoryError where the job could not begin, Cancelled when told to stop. What fails
    later is in the report: a verdict ``error`` and the state that follows from it.
    """
    bundle = Bundle(Path(settings.out))
    # Suppressions end by the date that everything else of this session is counted from.
    intake = read_session(world.repository, settings.model_copy(update={"run_date": world.run_date}))
    plan = plan_session(intake, settings, session_id=world.session_id, run_date=world.run_date)
    bundle.write("plan.json", world.redactor.json(plan_facts(plan)))
    bundle.write("session.json", world.redactor.json(session_facts(settings, world)))
    trouble = _Trouble()
    sandbox_text = "none: nothing had to be run"
    measured = [skill for skill in plan.skills if skill.not_measured is None and any(map(_runs, skill.cases))]
    if measured:
        with _left_in_time(world):
            session, sandbox_text = _open(settings, world, plan, bundle, trouble)
            if world.cancelled.is_set():
                raise Cancelled("The session was cancelled.")
            if session is not None:
                with _cleaned_up(session):
                    _measure(session, measured)
    _write_facts(bundle, world, plan, intake, trouble, sandbox_text=sandbox_text)
    report = decide(bundle.root)
    for skill_report in report.skills:
        bundle.write(f"skills/{skill_report.slug}/gate-result.json", skill_report)
    bundle.write("report.json", report)
    return report


@contextmanager
def _left_in_time(world: World) -> Iterator[None]:
    """When told to stop, leave within a few seconds, whatever is waited for.

    A model's answer under way can take minutes, the first one of the preflight too, and an engine can be slow to open;
    a runner kills the program 10 s after its first signal.
    """
    ended = threading.Event()

    def watch() -> None:
        while not ended.is_set():
            if world.cancelled.wait(0.2):
                if not ended.wait(CANCEL_SECONDS * 1.5):
                    world.abort()
                return

    threading.Thread(target=watch, name="cancel", daemon=True).start()
    try:
        yield
    finally:
        ended.set()


@contextmanager
def _cleaned_up(session: _Session) -> Iterator[None]:
    """Whatever happens, nothing of this session stays on the engine; when told to stop, containers are killed at once.

    What a slow engine still holds when the program has to leave is the next session's to remove.
    """
    world, sandbox = session.world, session.sandbox
    ended = threading.Event()

    def watch() -> None:
        while not ended.is_set():
            if world.cancelled.wait(0.2):
                sandbox.kill_all(world.session_id)
                if not ended.wait(CANCEL_SECONDS / 2):
                    sandbox.reap(world.session_id)
                return

    threading.Thread(target=watch, name="sweep", daemon=True).start()
    try:
        yield
    finally:
        for failure in sandbox.reap(world.session_id).failed:
            world.progress.say(f"could not remove: {failure}")
        ended.set()


def _runs(case: CasePlan) -> int:
    return sum(arm.runs for arm in case.arms)


def _open(
    settings: Settings, world: World, plan: Plan, bundle: Bundle, trouble: _Trouble
) -> tuple[_Session | None, str]:
    """Preflight: an engine, the image and one cheap answer of each model, before any container starts (cases B 21)."""
    if world.models is None:
        raise ConfigurationError("Runs are planned, but no model is named.", remedy="Name one with --model.")
    try:
        sandbox = world.sandbox()
        description = sandbox.facts().description
        images = _images(settings, sandbox, plan)
        _preflight_models(world, world.models, second=settings.policy.second_judge == "on")
    except (InfrastructureError, BudgetError) as error:
        for skill in plan.skills:
            if skill.not_measured is None and skill.cases:
                trouble.error(skill.slug, str(error))
        return None, "none could be used"
    world.progress.say(f"sandbox: {description}")
    return _Session(settings, world, plan, bundle, sandbox, world.models, images, trouble), description


def _images(settings: Settings, sandbox: Sandbox, plan: Plan) -> dict[str, str]:
    """The image of every skill that is run: its own of the policy, the policy's, or the session's. Each is asked for once."""
    ids: dict[str, str] = {}
    found = {}
    for skill in plan.skills:
        if not any(map(_runs, skill.cases)):
            continue
        image = settings.policy.for_skill(skill.change.path).image or settings.image
        if image not in ids:
            ids[image] = sandbox.resolve_image(image)
        found[skill.change.path] = ids[image]
    return found


def _preflight_models(world: World, models: Models, *, second: bool) -> None:
    """One cheap answer of every model that the session cannot do without.

    Raises ModelError, BudgetError, and ConfigurationError where the policy wants a second judge and there is none.
    """
    if second and not other_family(models):
        raise ConfigurationError(
            "The policy says second_judge: on, but there is no grader of a second family.",
            remedy="Name one under models: second_grader, of another provider than the grader.",
        )
    asked = set()
    for role in (Role.EXECUTOR, Role.GRADER, *((Role.SECOND_GRADER,) if second else ())):
        model = models.of(role)
        if model.name in asked:
            continue
        asked.add(model.name)
        request = ChatRequest(
            label=f"preflight/{role.value}",
            system="Answer with the word ready.",
            messages=(Message(role="user", text="Are you ready?"),),
            max_output_tokens=64,
        )
        world.ledger.call(model, request, role=role)


def _measure(session: _Session, skills: Sequence[SkillPlan]) -> None:
    """Runs and layers: the planned runs, then at most two further rounds (fill, confirm), then Layer 3."""
    _run_and_judge(session, planned_requests(session.plan))
    for further in (_fill, _confirm):
        requests = [request for skill in skills for request in further(session, skill)]
        if requests:
            session.world.progress.say(f"{len(requests)} further runs: {requests[0].purpose}")
            _run_and_judge(session, requests)
    pairs = [(skill, case) for skill in skills for case in skill.cases]
    _each(session, pairs, lambda pair: _layer3(session, *pair))


def _fill(session: _Session, skill: SkillPlan) -> list[RunRequest]:
    if RULES[session.plan.mode].fill is None:
        return []
    requests = []
    for case in _case_records(session, skill):
        if undecided(case):
            requests += fill_requests(skill, case, session.plan.mode)
    return requests


def _confirm(session: _Session, skill: SkillPlan) -> list[RunRequest]:
    requests = []
    for case in _case_records(session, skill):
        if needs_confirm(case):
            requests += confirm_requests(skill, case, session.plan.mode)
    return requests


def _case_records(session: _Session, skill: SkillPlan) -> list[CaseRecord]:
    broken: list[str] = []
    return [read_case_record(session.bundle.root, skill, case, broken) for case in skill.cases if case.blocked is None]


def _run_and_judge(session: _Session, requests: Sequence[RunRequest]) -> None:
    world = session.world
    by_image: dict[str, list[RunRequest]] = {}
    for request in requests:
        by_image.setdefault(session.images[request.key.skill_path], []).append(request)
    records = [
        record
        for image, group in by_image.items()
        for record in execute(
            group,
            session_id=world.session_id,
            run_date=world.run_date,
            image=image,
            jobs=session.settings.jobs,
            sandbox=session.sandbox,
            models=session.models,
            ledger=world.ledger,
            bundle=session.bundle,
            redactor=world.redactor,
            seed=world.seed,
            clock=world.clock,
            progress=world.progress,
            cancelled=world.cancelled,
        )
    ]
    by_key = {(request.key.folder): request for request in requests}
    jobs = [(record, by_key[record.key.folder]) for record in records]
    _each(session, jobs, lambda job: _judge_run(session, *job))


def _judge_run(session: _Session, record: RunRecord, request: RunRequest) -> None:
    """Verification containers, Layer 2a, Layer 2b of one run; each result is a file."""
    root, bundle = session.bundle.root, session.bundle
    verification: Verification | None = None
    if record.completed:
        verified = _guarded(
            session,
            record.key.slug,
            lambda: verify_run(
                record,
                request.case,
                bundle=bundle,
                sandbox=session.sandbox,
                image=session.images[record.key.skill_path],
                session_id=session.world.session_id,
                redactor=session.world.redactor,
            ),
        )
        verification = None if isinstance(verified, NotRun) else verified
    if not record.scored:
        checks: Any = NotRun(
            not_run=f"the run is {record.outcome.value}: {record.reason or record.contaminated or record.invalid}"
        )
        grading: Grading | NotRun = checks
    else:
        checks = _guarded(session, record.key.slug, lambda: check_run(request.case, record, root, verification))
        grading = _guarded(
            session,
            record.key.slug,
            lambda: grade_run(
                request.case,
                record,
                request.skill,
                root=root,
                models=session.models,
                ledger=session.world.ledger,
                seed=session.world.seed,
                second_judge=session.settings.policy.second_judge,
                spot_checks=RULES[session.plan.mode].twins,
            ),
        )
    _write(session, f"{record.key.folder}/checks.json", checks_file(checks))
    _write(session, f"{record.key.folder}/grading.json", grading_file(record, checks, grading))


def _guarded(session: _Session, slug: str, step: Callable[[], R]) -> R | NotRun:
    """Run a judging step; what stops it is a value with the reason."""
    try:
        return step()
    except BudgetError as error:
        session.trouble.budget(slug, error.message)
        return NotRun(not_run=f"over budget: {error.message}")
    except InfrastructureError as error:
        # Not an error of the whole skill: the decision asks how much of the evidence is left (DESIGN.md 4, 5).
        return NotRun(not_run=str(error))
    except EvidenceError as error:
        # The record was changed under our hands: the decision finds the broken seal and calls the skill invalid.
        return NotRun(not_run=error.message)


def _layer3(session: _Session, skill: SkillPlan, case: CasePlan) -> None:
    """Compare blind, seal, unblind, analyse; what does not run is a file that says why."""
    folder = case_folder(skill.slug, case.case.eval_id)
    root = session.bundle.root
    pairs = _pairs(session, read_case_record(root, skill, case, []))
    head = skill.head
    skipped = case.compare
    if skipped is None and not pairs:
        skipped = NotRun(not_run="no pair of runs completed on both sides")
    if skipped is not None or head is None:
        _write(session, f"{folder}/comparison.json", skipped)
        _write(session, f"{folder}/analysis.json", skipped)
        return
    world = session.world
    comparison = _guarded(
        session,
        skill.slug,
        lambda: compare_case(
            case.case,
            skill.type,
            pairs,
            head,
            root=root,
            models=session.models,
            ledger=world.ledger,
            seed=world.seed,
            session_id=world.session_id,
        ),
    )
    _write(session, f"{folder}/comparison.json", comparison)
    if isinstance(comparison, NotRun):
        _write(session, f"{folder}/analysis.json", NotRun(not_run=f"no comparison: {comparison.not_run}"))
        return
    # Only now, with the sealed comparison on disk, is the assignment opened (R130).
    sealed = session.bundle.read(f"{folder}/comparison.json", Comparison)
    opened = unblind(sealed, world.seed, world.session_id)
    _write(session, f"{folder}/unblinding.json", opened)
    policy = RULES[session.plan.mode].analyzer
    if policy == "never" or (policy == "not_won" and opened.outcome is Winner.SKILL):
        _write(session, f"{folder}/analysis.json", NotRun(not_run="the skill won; this mode analyses losses and ties"))
        return
    with_run, without_run = pairs[0]
    analysis = _guarded(
        session,
        skill.slug,
        lambda: analyse_case(
            case.case,
            sealed,
            opened,
            head,
            with_run,
            without_run,
            root=root,
            models=session.models,
            ledger=world.ledger,
            seed=world.seed,
        ),
    )
    _write(session, f"{folder}/analysis.json", analysis)


def _pairs(session: _Session, record: CaseRecord) -> list[tuple[RunRecord, RunRecord]]:
    """Run pairs to compare: all completed ones of equal number, or one drawn by the seed (K10)."""
    with_runs = {run.record.key.run: run.record for run in record.of(Arm.WITH_SKILL) if run.record.completed}
    without = {run.record.key.run: run.record for run in record.of(Arm.WITHOUT_SKILL) if run.record.completed}
    numbers = sorted(set(with_runs) & set(without))
    if not numbers:
        return []
    if not RULES[session.plan.mode].all_pairs:
        drawn = session.world.seed.below(len(numbers), "pair", record.plan.case.eval_id, session.world.session_id)
        numbers = [numbers[drawn]]
    return [(with_runs[number], without[number]) for number in numbers]


def _each(session: _Session, items: Iterable[T], step: Callable[[T], None]) -> None:
    """Do a step for every item, ``jobs`` at a time; the first error stops the rest and is raised."""
    with ThreadPoolExecutor(max_workers=session.settings.jobs) as pool:
        futures = [pool.submit(_unless_cancelled, session, step, item) for item in items]
        try:
            for future in futures:
                future.result()
        except BaseException:
            for future in futures:
                future.cancel()
            raise


def _unless_cancelled(session: _Session, step: Callable[[T], None], item: T) -> None:
    if session.world.cancelled.is_set():
        raise Cancelled("The session was cancelled.")
    step(item)


def _write(session: _Session, relative: str, value: Any) -> None:
    session.bundle.write(relative, _redacted(session.world.redactor, value))


def _redacted(redactor: Redactor, value: Any) -> Any:
    return redactor.json(value.to_json() if isinstance(value, Value) else value)


def plan_facts(plan: Plan) -> dict[str, Any]:
    """plan.json: the plan without the skills' contents, which skill.json holds."""
    data = plan.to_json()
    data["skills"] = [
        {
            "path": skill.change.path,
            "slug": skill.slug,
            "type": skill.type.value,
            "type_reason": skill.type_reason,
            "not_measured": skill.not_measured,
            "cases": [
                {
                    "eval_id": case.case.eval_id,
                    "origin": case.origin,
                    "blocked": case.blocked,
                    "arms": [arm.to_json() for arm in case.arms],
                    "compare": case.compare.not_run if case.compare else None,
                }
                for case in skill.cases
            ],
        }
        for skill in plan.skills
    ]
    return data


def session_facts(settings: Settings, world: World) -> dict[str, Any]:
    """session.json: what a replay and ``verify`` need to know, and who decided what. No secret is in Settings."""
    return {
        "session_id": world.session_id,
        "seed": world.seed.hex,
        "run_date": world.run_date,
        "models_text": world.models_text,
        "mode": settings.mode.value,
        "enforce": settings.enforce.value,
        "policy": settings.policy.to_json(),
        "exit_conditional": settings.exit_conditional,
        "notes": list(world.notes),
    }


def _write_facts(
    bundle: Bundle, world: World, plan: Plan, intake: Intake, trouble: _Trouble, *, sandbox_text: str
) -> None:
    """The last files that the decision reads: the plan of each skill with what stopped it, and what was spent."""
    for skill in plan.skills:
        facts = SkillFacts(
            plan=skill,
            errors=tuple(sorted(trouble.errors.get(skill.slug, ()))),
            over_budget=trouble.over_budget.get(skill.slug),
        )
        bundle.write(skill_file(skill.slug), _redacted(world.redactor, facts))
        manifests = {
            "manifests": [status.to_json() for status in skill.manifests],
            "findings": [finding.to_json() for finding in skill.manifest_findings],
            "preflight": [fact.to_json() for fact in skill.preflight],
        }
        bundle.write(f"skills/{skill.slug}/manifests.json", world.redactor.json(manifests))
    session = {
        "findings": [finding.to_json() for finding in intake.findings],
        "usage": [use.to_json() for use in world.ledger.uses()],
        "sandbox": sandbox_text,
        "notes": [*world.notes, *plan.notes],
        "base_commit": plan.base_commit,
        "head_commit": plan.head_commit,
        "estimated_calls": plan.estimated_calls,
        "estimated_tokens": plan.estimated_tokens,
        "worst_calls": plan.worst_calls,
        "worst_tokens": plan.worst_tokens,
        "slugs": [skill.slug for skill in plan.skills],
    }
    bundle.write("usage.json", world.redactor.json(session))


def decide(root: Path) -> GateReport:
    """The decision as a pure function of a bundle's files: what the gate says, and what ``verify`` derives again.

    Raises EvidenceError where a file is missing or is not what it should be.
    """
    bundle = Bundle(root)
    session: Any = bundle.read_json("session.json")
    facts: Any = bundle.read_json("usage.json")
    try:
        policy = Policy.model_validate(session["policy"])
        plan = Plan(
            session_id=session["session_id"],
            mode=Mode(session["mode"]),
            enforce=Enforce(session["enforce"]),
            run_date=session["run_date"],
            base_commit=facts["base_commit"],
            head_commit=facts["head_commit"],
            skills=(),
            estimated_calls=facts["estimated_calls"],
            estimated_tokens=facts["estimated_tokens"],
            worst_calls=facts.get("worst_calls", 0),
            worst_tokens=facts.get("worst_tokens", 0),
        )
        skills = decide_skills([_look(read_skill_record(root, slug), plan, policy) for slug in facts["slugs"]])
        report = summarise(
            plan,
            skills,
            gate_version=__version__,
            models=session["models_text"],
            sandbox=facts["sandbox"],
            usage=[ModelUse.model_validate(item) for item in facts["usage"]],
            session_findings=[Finding.model_validate(item) for item in facts["findings"]],
            notes=facts["notes"],
            exit_conditional=session["exit_conditional"],
            override=Override.model_validate(override) if (override := session.get("override")) else None,
        )
        return GateReport.model_validate(rounded(report.to_json()))
    except (KeyError, TypeError, ValueError) as error:
        raise EvidenceError(f"The bundle's session facts cannot be read: {error}.", path="session.json") from None


def _look(record: SkillRecord, plan: Plan, policy: Policy) -> Look:
    own = policy.for_skill(record.plan.change.path)
    return Look(
        record=record,
        mode=plan.mode,
        enforce=plan.enforce,
        thresholds=own.thresholds,
        manifest_errors=own.manifest_errors,
        require_layer3=own.require_layer3,
        waivers=policy.waivers,
        run_date=plan.run_date,
    )


def write_benchmarks(root: Path, bundle: Bundle, slugs: Sequence[str]) -> None:
    """benchmark.json of every skill that was measured."""
    for slug in slugs:
        record = read_skill_record(root, slug)
        runs = [run.record for case in record.cases for run in case.runs]
        if record.plan.head is not None and runs:
            bundle.write(
                f"skills/{slug}/benchmark.json",
                benchmark_file(
                    record.plan.head.name, record.plan.change.path, runs[0].model, runs[0].run_date, record.cases
                ),
            )
