"""Every stage in order, and the one loop: the table of contents of the program. Ends at a GateReport."""

from __future__ import annotations

import shutil
import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

from gate import __version__
from gate.decision.appeals import token_share
from gate.decision.further import needs_confirm, undecided
from gate.decision.look import Look
from gate.decision.state import summarise
from gate.decision.verdict import decide_skills
from gate.domain.base import NotRun, Value, digest_of, pretty_json, rounded
from gate.domain.chat import ChatRequest, Message, Role
from gate.domain.contract import SkillContract
from gate.domain.discussion import Discussion
from gate.domain.evidence import RunRecord, Verification
from gate.domain.findings import Finding, Level
from gate.domain.intake import Intake
from gate.domain.judgement import Comparison, GradeStatus, Grading, Winner
from gate.domain.plan import (
    OPTIONAL_ARMS,
    Arm,
    CasePlan,
    Enforce,
    Mode,
    Plan,
    RunRequest,
    SessionPlan,
    SkillPlan,
    case_folder,
    safe_id,
)
from gate.domain.report import CaseRecord, GateReport, JudgedRun, ModelUse, Override, SkillRecord
from gate.domain.seeding import JudgingSeeds, SessionSeed
from gate.domain.skill import Skill, texts_of
from gate.domain.suite import Case
from gate.errors import BudgetError, Cancelled, ConfigurationError, EvidenceError, InfrastructureError
from gate.evidence.assemble import (
    SkillFacts,
    contract_file,
    read_case_record,
    read_skill_record,
    read_value,
    skill_file,
)
from gate.evidence.bundle import PLAN, SESSION, Bundle, load_run
from gate.evidence.cache import Cache, ReplyShelf, code_digest
from gate.evidence.cited import ROWS, ROWS_OF_A_SKILL, cited_evidence
from gate.evidence.merge import SHARD, ShardFacts, merge_shards, shard_errors, summed
from gate.evidence.redact import Redactor
from gate.evidence.shapes import benchmark_file, checks_file, grading_file
from gate.execution.harnesses.install import AgentSource, install
from gate.execution.reuse import Around, Reuse, run_facts
from gate.execution.runner import Agent, execute
from gate.execution.stand_ins import own_skill_files, own_skill_request, placebo
from gate.execution.verification import verify_run
from gate.intake.read import read_session
from gate.intake.skill import parse_skill
from gate.judging.analyzer import analyse_case
from gate.judging.comparator import compare_case, deciding_pair, second_family, unblind
from gate.judging.discussion import discuss_run
from gate.judging.discussion_rules import Ground
from gate.judging.grader import grade_run, other_family
from gate.judging.ground_truth import check_run
from gate.judging.ground_truth.trivial import idle_passes
from gate.llm.journal import JOURNAL, Journal, journalled
from gate.llm.ledger import Ledger
from gate.llm.remembering import remembering
from gate.llm.roles import Models
from gate.planning.contract import Parties, contract_for, draft, wants_draft, with_plans
from gate.planning.modes import RULES, discussion_scope
from gate.planning.past import PastCost, expected, expected_words, past_facts, past_of
from gate.planning.plan import confirm_requests, fill_requests, plan_session, planned_requests
from gate.planning.shards import Shard, part_of, shards
from gate.protocols import Clock, McpReach, Progress, Repository, Sandbox
from gate.settings import Policy, Settings

T = TypeVar("T")
R = TypeVar("R")

NO_SANDBOX = "none: nothing had to be run"
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
    cache: Cache | None = None
    """What earlier sessions left to be used again; None: nothing is taken and nothing kept."""
    journal: Journal | None = None
    """The replies of this session, for when it is killed; None: they are not written down."""
    agent: Callable[[], AgentSource] | None = None
    """The agent program that runs the cases instead of the built-in loop, made when there is something to run."""
    mcp: McpReach | None = None
    """The way to the real MCP servers that the base policy names; None: it names none."""

    @property
    def judging_seeds(self) -> JudgingSeeds:
        """From which the judges of a record get their fences, controls and labels."""
        return JudgingSeeds(self.seed, self.session_id, self.cache.judging_seed if self.cache else None)


@dataclass
class _Trouble:
    """What stopped a skill, by slug: filled while the session runs, read by the decision from skill.json."""

    errors: dict[str, set[str]] = field(default_factory=dict)
    over_budget: dict[str, str] = field(default_factory=dict)
    broken: dict[str, set[str]] = field(default_factory=dict)
    """Evidence that a merge refused."""
    notes: list[str] = field(default_factory=list)
    """Facts for the report that are nobody's failure."""
    lock: threading.Lock = field(default_factory=threading.Lock)

    def note(self, text: str) -> None:
        """A fact for the report."""
        with self.lock:
            self.notes.append(text)

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
    reuse: Reuse | None
    shelf: ReplyShelf | None
    agent: Agent | None = None
    """The agent program that runs the cases; None: the built-in loop."""

    def around(self, request: RunRequest) -> Around:
        """What a run depends on beside its request."""
        return Around(
            model=self.models.of(Role.EXECUTOR).name,
            harness=self.agent.program.text if self.agent else f"loop {__version__}",
            image=self.images[request.key.skill_path],
            sandbox=self.settings.sandbox,
        )

    def settle(self, prefix: str, *, keep: bool) -> None:
        """Keep the judges' replies to calls of this label for later sessions, or forget them."""
        if self.shelf is not None:
            self.shelf.settle(prefix, keep=keep)


def run(settings: Settings, world: World) -> GateReport:
    """The main job: from a change in a repository to a report, everything written to the bundle.

    Raises ConfigurationError and RepositoryError where the job could not begin, Cancelled when told to stop. What fails
    later is in the report: a verdict ``error`` and the state that follows from it.
    """
    bundle = Bundle(Path(settings.out))
    planned = _prepared(settings, world, bundle)
    trouble = _Trouble()
    sandbox_text = _measured(settings, planned.world, planned.plan, bundle, trouble)
    told = _Told(planned.findings + tuple(_cache_findings(world)), world.notes, world.ledger.uses(), sandbox_text)
    _write_facts(bundle, world.redactor, planned.plan, trouble, told)
    return _concluded(bundle)


class _Planned(NamedTuple):
    """What is known before anything runs."""

    plan: Plan
    findings: tuple[Finding, ...]
    """Of the session as a whole."""
    session: dict[str, Any]
    """session.json."""
    world: World
    """With a journal on its models."""


class _Told(NamedTuple):
    """What usage.json says beside the plan."""

    findings: tuple[Finding, ...]
    notes: tuple[str, ...]
    usage: tuple[ModelUse, ...]
    sandbox: str


def _prepared(settings: Settings, world: World, bundle: Bundle) -> _Planned:
    """Intake, plan and contract; writes session.json and plan.json."""
    # Suppressions end by the date that everything else of this session is counted from.
    intake = read_session(world.repository, settings.model_copy(update={"run_date": world.run_date}))
    plan = plan_session(intake, settings, session_id=world.session_id, run_date=world.run_date)
    facts = {**session_facts(settings, world), "plan": digest_of(plan_facts(plan)), "code": code_digest()}
    session_file: dict[str, Any] = world.redactor.json(facts)
    world = _continue_or_begin(bundle, session_file, world)
    bundle.write(PLAN, world.redactor.json({**plan_facts(plan), "harness": settings.harness}))
    if settings.policy.contract == "on" and world.models is not None and settings.static_only is None:
        with _left_in_time(world):
            plan = _contracted(settings, world, intake, plan, bundle)
    bundle.write(PLAN, world.redactor.json({**plan_facts(plan), "harness": settings.harness}))
    return _Planned(plan, intake.findings, session_file, world)


def _measured(settings: Settings, world: World, plan: Plan, bundle: Bundle, trouble: _Trouble) -> str:
    """Everything that runs; returns what it ran in, in words."""
    measured = [skill for skill in plan.skills if skill.not_measured is None and any(map(_runs, skill.cases))]
    if not measured:
        return NO_SANDBOX
    with _left_in_time(world):
        session, sandbox_text = _open(settings, world, plan, bundle, trouble)
        if world.cancelled.is_set():
            raise Cancelled("The session was cancelled.")
        if session is not None:
            past = _past_costs(session, measured)
            guess = expected(plan, past, settings)
            world.progress.say(expected_words(guess, plan))
            world.progress.expect(
                cases=sum(_runs(case) > 0 for skill in measured for case in skill.cases),
                runs=sum(_runs(case) for skill in measured for case in skill.cases),
                calls=guess.calls,
            )
            with _cleaned_up(session):
                _measure(session, measured)
            _keep_costs(session, measured)
    return sandbox_text


def _past_costs(session: _Session, skills: Sequence[SkillPlan]) -> dict[str, PastCost]:
    """By slug: what a skill needed in an earlier session, as far as one kept it."""
    cache = session.world.cache
    if cache is None:
        return {}
    found = {skill.slug: cache.take_value("cost", past_facts(skill, session.settings), PastCost) for skill in skills}
    return {slug: cost for slug, cost in found.items() if cost is not None}


def _keep_costs(session: _Session, skills: Sequence[SkillPlan]) -> None:
    cache = session.world.cache
    if cache is None:
        return
    for skill in skills:
        made = sum(run.reused is None for case in _case_records(session, skill) for run in case.runs)
        cost = past_of(session.world.ledger.uses(skill.slug), made)
        if cost is not None:
            cache.keep_value("cost", past_facts(skill, session.settings), cost, skill.slug)


def _concluded(bundle: Bundle) -> GateReport:
    """Decide on what the bundle's files say, and write it beside them."""
    report = decide(bundle.root)
    for skill_report in report.skills:
        bundle.write(f"skills/{skill_report.slug}/gate-result.json", skill_report)
    bundle.write("report.json", report)
    return report


def make_plan(settings: Settings, world: World) -> SessionPlan:
    """A plan to be cut into shards. Nothing is run; with a contract, generator and reviewer are asked once, here.

    Raises as ``run``.
    """
    bundle = Bundle(Path(settings.out))
    planned = _prepared(settings, world, bundle)
    agreed = sorted(bundle.root.glob("skills/*/contract.json"))
    names = [path.relative_to(bundle.root).as_posix() for path in agreed]
    return SessionPlan(
        settings=settings.model_copy(update={"out": "", "cache": None, "seed": world.seed.hex}).to_json(),
        session=planned.session,
        plan=planned.plan,
        findings=planned.findings,
        files={name: bundle.read_json(name) for name in names},
        usage=tuple(use.to_json() for use in planned.world.ledger.uses()),
        contents={
            file.sha256: file.data
            for skill in planned.plan.skills
            for version in (skill.head, skill.base)
            if version is not None
            for file in version.files
        },
    )


def run_shard(settings: Settings, world: World, session: SessionPlan, shard: Shard, attempt: int = 1) -> ShardFacts:
    """Run the cases of one shard into the bundle folder: runs, fill, confirm, Layers 2 and 3; no decision.

    ``settings`` are the plan's, with an own ``out``. Raises ConfigurationError for a shard that the plan does not have,
    and as ``run``.
    """
    bundle = Bundle(Path(settings.out))
    part = part_of(session.whole(), shard)
    world = _continue_or_begin(bundle, {**session.session, "shard": str(shard), "digest": session.digest}, world)
    for name, value in session.files.items():
        bundle.write(name, value)  # the discussion holds runs to their contract
    trouble = _Trouble()
    sandbox_text = _measured(settings, world, part, bundle, trouble)
    facts = ShardFacts(
        plan=session.digest,
        number=shard.number,
        count=shard.of,
        attempt=attempt,
        usage=world.ledger.uses(),
        sandbox=sandbox_text,
        notes=tuple(trouble.notes),
        findings=tuple(_cache_findings(world)),
        errors={slug: tuple(sorted(texts)) for slug, texts in sorted(trouble.errors.items())},
        over_budget=dict(sorted(trouble.over_budget.items())),
    )
    _write_raw(bundle, world.redactor, SHARD, facts)
    return facts


def merge(
    session: SessionPlan, folders: Sequence[Path], count: int, out: Path, mac_key: bytes | None = None
) -> GateReport:
    """The session of a plan from its shards: as if one machine had run it, or with what is missing or broken said.

    A shard that is missing makes its skills ``error``, one that was changed makes them ``invalid``. Raises
    ConfigurationError for folders that are no shards of this plan.
    """
    bundle = Bundle(out)
    bundle.clear()
    bundle.write(SESSION, session.session)  # first: a merge that is killed leaves a folder that the next one knows
    merged = merge_shards(folders, session.digest, count, bundle, mac_key)
    slugs = {number: {unit.slug for unit in own} for number, own in enumerate(shards(session.plan, count), 1)}
    trouble = _Trouble()
    for slug, texts in shard_errors(merged, slugs).items():
        trouble.errors[slug] = set(texts)
    for number, text in sorted(merged.broken.items()):
        for slug in slugs[number]:
            trouble.broken.setdefault(slug, set()).add(f"shard {text}")
    for facts in merged.shards:
        trouble.notes += [note for note in facts.notes if note not in trouble.notes]
        for slug, text in facts.over_budget.items():
            trouble.budget(slug, text)
    used = sorted({facts.sandbox for facts in merged.shards} - {NO_SANDBOX}) or [NO_SANDBOX]
    findings = [finding for facts in merged.shards for finding in facts.findings]
    told = _Told(
        (*session.findings, *sorted(set(findings), key=lambda finding: (finding.path, finding.rule))),
        tuple(session.session["notes"]),
        summed(
            [*map(ModelUse.model_validate, session.usage), *(use for facts in merged.shards for use in facts.usage)]
        ),
        "; ".join(used),
    )
    bundle.write(PLAN, {**plan_facts(session.plan), "harness": session.settings["harness"]})
    for name, value in session.files.items():
        bundle.write(name, value)
    _write_facts(bundle, Redactor({}), session.whole(), trouble, told)
    return _concluded(bundle)


def _contracted(settings: Settings, world: World, intake: Intake, plan: Plan, bundle: Bundle) -> Plan:
    """The plan with what generator and reviewer agreed on: contracts of its cases, and cases for skills without evals."""
    if world.models is None:
        return plan
    models, shelf = world.models, None
    if world.cache is not None:
        shelf = ReplyShelf(world.cache)
        models = remembering(models, shelf)
    parties = Parties(models, world.ledger, lambda digest: world.judging_seeds.of(digest)[0])
    contracts: dict[str, SkillContract | NotRun] = {}
    skills = []
    room = settings.policy.caps.skills_per_session - sum(map(_is_measured, plan.skills))
    for found in intake.skills:
        _raise_if_cancelled(world)
        if not wants_draft(found) or found.head is None or len(contracts) >= room:
            skills.append(found)
            continue
        made = draft(found.head, parties, trivial=lambda case: idle_passes(case, run_date=world.run_date))
        contracts[found.slug] = made if isinstance(made, NotRun) else made.contract
        suite = found.suite if isinstance(made, NotRun) else made.suite
        skills.append(found.model_copy(update={"suite": suite}))
    if contracts:
        drafted = intake.model_copy(update={"skills": tuple(skills)})
        plan = plan_session(drafted, settings, session_id=world.session_id, run_date=world.run_date)
    for skill in filter(_is_measured, plan.skills):
        _raise_if_cancelled(world)
        if skill.slug not in contracts:
            contracts[skill.slug] = contract_for(
                skill, parties, plan_given=settings.policy.contract_plan, jobs=settings.jobs
            )
    for slug, contract in contracts.items():
        if shelf is not None:
            shelf.settle(f"{slug}/", keep=isinstance(contract, SkillContract) and contract.whole)
        bundle.write(contract_file(slug), _redacted(world.redactor, contract))
    return with_plans(plan, contracts)


def _is_measured(skill: SkillPlan) -> bool:
    return skill.not_measured is None and any(map(_runs, skill.cases))


def _raise_if_cancelled(world: World) -> None:
    if world.cancelled.is_set():
        raise Cancelled("The session was cancelled.")


def _continue_or_begin(bundle: Bundle, session_file: Any, world: World) -> World:
    """Write session.json; what lies in the folder is used where it is of exactly this session, else it goes.

    The same session: equal settings, policy, seed, plan and code. Returns the world with a journal on its models.
    """
    data, journal = pretty_json(session_file), world.journal
    if journal is not None and journal.continues(data):
        runs, replies = journal.put_aside(), journal.charge(world.ledger)
        bundle.clear(keep=frozenset({SESSION, PLAN, JOURNAL}))
        world.progress.say(
            f"continuing the session that was stopped: {runs} runs and {replies} replies are here already"
        )
    else:
        bundle.clear()
        if journal is not None:
            journal.forget()
            journal.vouch(data)
        bundle.write_bytes(SESSION, data)
    if journal is None or world.models is None:
        return world
    return replace(world, models=journalled(world.models, journal))


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
        if session.agent is not None:
            session.agent.gateway.close()
        ended.set()


def _runs(case: CasePlan) -> int:
    return sum(arm.runs for arm in case.arms)


def _open(
    settings: Settings, world: World, plan: Plan, bundle: Bundle, trouble: _Trouble
) -> tuple[_Session | None, str]:
    """Preflight: an engine, the image and one cheap answer of each model, before any container starts (cases B 21)."""
    if world.models is None:
        raise ConfigurationError("Runs are planned, but no model is named.", remedy="Name one with --model.")
    sandbox: Sandbox | None = None
    try:
        sandbox = world.sandbox()
        description = sandbox.facts().description
        # What a session that was killed has left, on a laptop too, where no later step cleans up.
        for failure in sandbox.reap(None).failed:
            world.progress.say(f"could not remove what an earlier session left: {failure}")
        images = _images(settings, sandbox, plan)
        agent = _agent(world, sandbox, images)
        session = _session(settings, world, plan, bundle, sandbox=sandbox, images=images, trouble=trouble, agent=agent)
        if not _all_kept(session):
            _preflight_models(world, world.models, second=settings.policy.second_judge == "on")
    except (InfrastructureError, BudgetError) as error:
        for skill in plan.skills:
            if skill.not_measured is None and skill.cases:
                trouble.error(skill.slug, str(error))
        if world.agent is not None and sandbox is not None:
            sandbox.reap(world.session_id)  # the volume of the program
        return None, "none could be used"
    if agent is not None:
        description += f"; the cases were run by {agent.program.text}"
    world.progress.say(f"sandbox: {description}")
    return session, description


def _agent(world: World, sandbox: Sandbox, images: dict[str, str]) -> Agent | None:
    """The session's agent program, in its volume and seen to run. Raises InfrastructureError, ConfigurationError."""
    if world.agent is None or not images:
        return None
    source = world.agent()
    image = images[min(images)]
    return Agent(install(source, sandbox, image=image, session_id=world.session_id), source.gateway)


def _session(
    settings: Settings,
    world: World,
    plan: Plan,
    bundle: Bundle,
    *,
    sandbox: Sandbox,
    images: dict[str, str],
    trouble: _Trouble,
    agent: Agent | None = None,
) -> _Session:
    models, reuse, shelf = world.models, None, None
    if models is None:
        raise ConfigurationError("Runs are planned, but no model is named.", remedy="Name one with --model.")
    if world.cache is not None:
        reuse, shelf = Reuse(world.cache, bundle, world.progress), ReplyShelf(world.cache)
        models = remembering(models, shelf)
    return _Session(
        settings=settings,
        world=world,
        plan=plan,
        bundle=bundle,
        sandbox=sandbox,
        models=models,
        images=images,
        trouble=trouble,
        reuse=reuse,
        shelf=shelf,
        agent=agent,
    )


def _all_kept(session: _Session) -> bool:
    """Whether an earlier session made every planned run: then no model has to answer before anything starts."""
    reuse = session.reuse
    return reuse is not None and all(
        reuse.has(request, session.around(request)) for request in planned_requests(session.plan)
    )


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
    """Runs and layers: the planned runs, then at most two further rounds (fill, confirm), then Layer 3, then the discussion:
    what no verdict rests on comes last, so that a cap takes it first."""
    _run_and_judge(session, _with_stand_ins(session, skills, planned_requests(session.plan)))
    for further in (_fill, _confirm):
        requests = [request for skill in skills for request in further(session, skill)]
        if requests:
            session.world.progress.say(f"{len(requests)} further runs: {requests[0].purpose}")
            _run_and_judge(session, requests)
    pairs = [(skill, case) for skill in skills for case in skill.cases]
    _each(session, "comparing", pairs, lambda pair: _layer3(session, *pair))
    judged = [(skill, run) for skill in skills for case in _case_records(session, skill) for run in case.runs]
    _each(session, "discussing", judged, lambda item: _discuss(session, *item))


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


def _with_stand_ins(session: _Session, skills: Sequence[SkillPlan], requests: Sequence[RunRequest]) -> list[RunRequest]:
    """The requests, with what the optional arms get in place of the author's skill. An arm without it does not run."""
    made: dict[tuple[str, Arm], Skill] = {}
    for plan in skills:
        if plan.head is not None:
            made[plan.slug, Arm.PLACEBO] = placebo(plan.head)
        request = own_skill_request(plan)
        own = _own_skill(session, request) if request is not None else None
        if own is not None:
            made[plan.slug, Arm.SELF_GENERATED] = own
    ready: list[RunRequest] = []
    for request in requests:
        if request.key.arm not in OPTIONAL_ARMS:
            ready.append(request)
        elif (skill := made.get((request.key.slug, request.key.arm))) is not None:
            ready.append(request.model_copy(update={"skill": skill}))
    return ready


def _own_skill(session: _Session, request: RunRequest) -> Skill | None:
    """The skill that the model writes for itself; None where it gave none, which the report then says."""
    record = _records(session, [request])[0]
    skill = None
    if record.completed:
        skill, _ = parse_skill(request.key.skill_path, own_skill_files(session.bundle.root, record))
    if skill is None:
        why = record.contaminated or record.reason or "it wrote no readable skill/SKILL.md"
        session.trouble.note(
            f"{request.key.skill_path}: no self_generated runs: the model gave no skill of its own: {why}"
        )
    return skill


def _run_and_judge(session: _Session, requests: Sequence[RunRequest]) -> None:
    session.world.progress.step("running", len(requests))
    records = _records(session, requests)
    by_key = {(request.key.folder): request for request in requests}
    jobs = [(record, by_key[record.key.folder]) for record in records]
    if session.reuse is not None:
        for record, request in jobs:
            session.reuse.keep(request, session.around(request), record)
    _each(session, "judging", jobs, lambda job: _judge_run(session, *job))


def _records(session: _Session, requests: Sequence[RunRequest]) -> list[RunRecord]:
    """A record of each request: one that an earlier session made, else a run."""
    world = session.world
    by_image: dict[str, list[RunRequest]] = {}
    records: list[RunRecord] = []
    for request in requests:
        kept = _of_before(session, request)
        if kept is None and session.reuse is not None:
            kept = session.reuse.take(request, session.around(request))
        if kept is not None:
            records.append(kept)
        else:
            by_image.setdefault(session.images[request.key.skill_path], []).append(request)
    records += [
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
            agent=session.agent,
            mcp=world.mcp,
            sealed=partial(_write_down, session),
        )
    ]
    return records


def _of_before(session: _Session, request: RunRequest) -> RunRecord | None:
    """The run where this session made it before it was killed; what infrastructure or the kill itself stopped goes."""
    folder, journal = request.key.folder, session.world.journal
    if journal is None or not journal.take_back(run_facts(request, session.around(request)), folder):
        return None
    try:
        record = load_run(session.bundle.root, folder)
    except EvidenceError as error:
        session.world.progress.say(f"{request.key.label} is made again: {error.message}")
    else:
        if record.outcome.agent_caused:
            session.world.progress.run_done(request.key.label, f"{record.outcome.value}, made before the stop")
            return record
    shutil.rmtree(session.bundle.path(folder))
    return None


def _write_down(session: _Session, request: RunRequest, record: RunRecord) -> None:
    if session.world.journal is not None and record.outcome.agent_caused:
        session.world.journal.made(run_facts(request, session.around(request)), record.seal, request.key.label)


def _judge_run(session: _Session, record: RunRecord, request: RunRequest) -> None:
    """Verification containers, Layer 2a, Layer 2b of one run; each result is a file."""
    root = session.bundle.root
    verification: Verification | None = None
    if record.completed:
        verified = _guarded(
            session,
            record.key.slug,
            lambda: _verified(session, record, request),
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
                seed=session.world.judging_seeds.of(record.seal)[0],
                second_judge=session.settings.policy.second_judge,
                spot_checks=RULES[session.plan.mode].twins,
            ),
        )
    complete = isinstance(grading, Grading) and all(row.status is not GradeStatus.UNGRADED for row in grading.rows)
    session.settle(f"{record.key.label}/", keep=complete)
    _write(session, f"{record.key.folder}/checks.json", checks_file(checks))
    _write(session, f"{record.key.folder}/grading.json", grading_file(record, checks, grading))


def _verified(session: _Session, record: RunRecord, request: RunRequest) -> Verification:
    """What ran over a copy of the run's workspace; from an earlier session where it ran there over the same bytes."""
    found = None
    if session.reuse is not None:
        found = session.reuse.take_verification(record, request.case, session.around(request))
    if found is not None:
        session.bundle.write(f"{record.key.folder}/verification.json", found)
        return found
    made = verify_run(
        record,
        request.case,
        bundle=session.bundle,
        sandbox=session.sandbox,
        image=session.images[record.key.skill_path],
        session_id=session.world.session_id,
        redactor=session.world.redactor,
    )
    if session.reuse is not None:
        session.reuse.keep_verification(record, request.case, session.around(request), made)
    return made


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
    """Layer 3 of one case; replies that led to a comparison are kept for later sessions."""
    _compared(session, skill, case)
    folder = case_folder(skill.slug, case.case.eval_id)
    compared = read_value(session.bundle.root, f"{folder}/comparison.json", Comparison)
    session.settle(f"{skill.slug}/{safe_id(case.case.eval_id)}/", keep=isinstance(compared, Comparison))


def _compared(session: _Session, skill: SkillPlan, case: CasePlan) -> None:
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
    seed, assignment = world.judging_seeds.of(*(record.seal for pair in pairs for record in pair))
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
            seed=seed,
            session_id=assignment,
            both_families=session.settings.policy.second_judge != "off" and second_family(session.models),
            redact=world.redactor.json,
        ),
    )
    _write(session, f"{folder}/comparison.json", comparison)
    if isinstance(comparison, NotRun):
        _write(session, f"{folder}/analysis.json", NotRun(not_run=f"no comparison: {comparison.not_run}"))
        return
    # Only now, with the sealed comparison on disk, is the assignment opened (R130).
    sealed = session.bundle.read(f"{folder}/comparison.json", Comparison)
    opened = _guarded(session, skill.slug, lambda: unblind(sealed, seed, assignment))
    _write(session, f"{folder}/unblinding.json", opened)
    if isinstance(opened, NotRun):
        _write(session, f"{folder}/analysis.json", opened)
        return
    policy = RULES[session.plan.mode].analyzer
    if policy == "never" or (policy == "not_won" and opened.outcome is Winner.SKILL):
        _write(session, f"{folder}/analysis.json", NotRun(not_run="the skill won; this mode analyses losses and ties"))
        return
    looked_into = deciding_pair(sealed)
    with_run, without_run = next(pair for pair in pairs if (pair[0].key.run, pair[1].key.run) == looked_into)
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
            seed=seed,
        ),
    )
    _write(session, f"{folder}/analysis.json", analysis)


def _discuss(session: _Session, skill: SkillPlan, run: JudgedRun) -> None:
    """The discussion of one run; where there is none, a file that says why."""
    key = run.record.key
    case = next(item.case for item in skill.cases if item.case.eval_id == key.eval_id)
    skipped = discussion_scope(session.plan.mode, case.risk, key.arm)
    if skipped is None and not run.record.completed:
        skipped = NotRun(not_run="the run did not complete, so there is no work to discuss")
    result: Discussion | NotRun = skipped or _discussed(session, case, run)
    session.settle(f"{key.label}/discuss", keep=isinstance(result, Discussion) and not result.degraded)
    _write(session, f"{key.folder}/discussion.json", result)


def _discussed(session: _Session, case: Case, run: JudgedRun) -> Discussion | NotRun:
    world, root = session.world, session.bundle.root
    try:
        ground = Ground.of(
            root,
            case,
            run,
            max_rounds=session.settings.policy.discussion_rounds,
            contract=read_value(root, contract_file(run.record.key.slug), SkillContract),
        )
        seed = world.judging_seeds.of(run.record.seal)[0]
        return discuss_run(ground, models=session.models, ledger=world.ledger, seed=seed)
    except BudgetError as error:
        # Unlike a grade that is missing, this takes nothing from a verdict: it is said, and the skill stays measured.
        return NotRun(not_run=f"over budget: {error.message}")
    except InfrastructureError as error:
        return NotRun(not_run=f"the evaluator could not be asked: {error}")
    except EvidenceError as error:
        return NotRun(not_run=error.message)


def _pairs(session: _Session, record: CaseRecord) -> list[tuple[RunRecord, RunRecord]]:
    """Run pairs to compare: all completed ones of equal number, or one drawn by the seed (K10).

    Where no two of equal number completed, any two that did are a pair, and one is drawn.
    """
    ours = [run.record for run in record.of(Arm.WITH_SKILL) if run.record.completed]
    theirs = [run.record for run in record.of(Arm.WITHOUT_SKILL) if run.record.completed]
    both = [(one, other) for one in ours for other in theirs]
    pairs = [pair for pair in both if pair[0].key.run == pair[1].key.run]
    if both and (not pairs or not RULES[session.plan.mode].all_pairs):
        pairs = pairs or both
        drawn = session.world.seed.below(len(pairs), "pair", record.plan.case.eval_id, session.world.session_id)
        pairs = [pairs[drawn]]
    return pairs


def _each(session: _Session, what: str, items: Sequence[T], step: Callable[[T], None]) -> None:
    """Do a step for every item, ``jobs`` at a time; the first error stops the rest and is raised."""
    session.world.progress.step(what, len(items))
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
    session.world.progress.step_done()


def _write(session: _Session, relative: str, value: Any) -> None:
    session.bundle.write(relative, _redacted(session.world.redactor, value))


def _write_raw(bundle: Bundle, redactor: Redactor, relative: str, value: Value) -> None:
    bundle.write(relative, _redacted(redactor, value))


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
        "judging_seed": world.cache.judging_seed if world.cache else None,
        "run_date": world.run_date,
        "models_text": world.models_text,
        "mode": settings.mode.value,
        "enforce": settings.enforce.value,
        "harness": settings.harness,
        "policy": settings.policy.to_json(),
        "exit_conditional": settings.exit_conditional,
        "override": settings.override.to_json() if settings.override is not None else None,
        "notes": list(world.notes),
    }


def _write_facts(bundle: Bundle, redactor: Redactor, plan: Plan, trouble: _Trouble, told: _Told) -> None:
    """The last files that the decision reads: the plan of each skill with what stopped it, and what was spent."""
    for skill in plan.skills:
        facts = SkillFacts(
            plan=skill,
            texts=texts_of(skill.head) if skill.head is not None and skill.not_measured is None else {},
            errors=tuple(sorted(trouble.errors.get(skill.slug, ()))),
            over_budget=trouble.over_budget.get(skill.slug),
            broken=tuple(sorted(trouble.broken.get(skill.slug, ()))),
        )
        bundle.write(skill_file(skill.slug), _redacted(redactor, facts))
        manifests = {
            "manifests": [status.to_json() for status in skill.manifests],
            "findings": [finding.to_json() for finding in skill.manifest_findings],
            "preflight": [fact.to_json() for fact in skill.preflight],
        }
        bundle.write(f"skills/{skill.slug}/manifests.json", redactor.json(manifests))
    session = {
        "findings": [finding.to_json() for finding in told.findings],
        "usage": [use.to_json() for use in told.usage],
        "sandbox": told.sandbox,
        "notes": [*told.notes, *plan.notes, *trouble.notes],
        "base_commit": plan.base_commit,
        "head_commit": plan.head_commit,
        "estimated_calls": plan.estimated_calls,
        "estimated_tokens": plan.estimated_tokens,
        "worst_calls": plan.worst_calls,
        "worst_tokens": plan.worst_tokens,
        "slugs": [skill.slug for skill in plan.skills],
    }
    bundle.write("usage.json", redactor.json(session))


def _cache_findings(world: World) -> list[Finding]:
    """Kept entries that come from elsewhere, each named: somebody put them there."""
    return [
        Finding(
            rule=f"cache/{problem.rule}",
            level=Level.WARNING,
            path=problem.path,
            message=problem.message,
            remedy="Nothing of it was used; remove the entry if it does not go away by itself.",
        )
        for problem in (world.cache.problems if world.cache else ())
    ]


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
        used = [ModelUse.model_validate(item) for item in facts["usage"]]
        records = [read_skill_record(root, slug) for slug in facts["slugs"]]
        skills = decide_skills([_look(record, plan, policy) for record in records])
        # After the decision, which looks at no text: the lines that people can look up.
        room = max(ROWS_OF_A_SKILL, ROWS // max(1, len(records)))
        shown = {record.plan.slug: cited_evidence(root, record.cases, room) for record in records}
        skills = [skill.model_copy(update={"evidence": shown[skill.slug]}) for skill in skills]
        findings = [Finding.model_validate(item) for item in facts["findings"]]
        report = summarise(
            plan,
            skills,
            gate_version=__version__,
            models=session["models_text"],
            sandbox=facts["sandbox"],
            usage=used,
            session_findings=findings,
            # The session did not see everything that it should have: what it did see says nothing about the rest.
            session_errors=[item.message for item in findings if item.blocks],
            notes=[*facts["notes"], *([share] if (share := token_share(used)) else [])],
            exit_conditional=session["exit_conditional"],
            override=Override.model_validate(override) if (override := session.get("override")) else None,
            kept=session.get("judging_seed") is not None,
        )
        report = report.model_copy(update={"report_url": _report_url(policy, plan)})
        return GateReport.model_validate(rounded(report.to_json()))
    except (KeyError, TypeError, ValueError) as error:
        raise EvidenceError(f"The bundle's session facts cannot be read: {error}.", path="session.json") from None


def _report_url(policy: Policy, plan: Plan) -> str:
    """The policy's address of report.html with this session's facts in it; both are plain names."""
    url = policy.report_url or ""
    return url.replace("{session}", plan.session_id).replace("{head}", plan.head_commit or "")


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
        calibration=policy.calibration,
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
