"""The contract before the runs: a generator writes what a case has to deliver, a reviewer says what is missing (R148-R166).

Two clients without a history. By number only: at 0.8 and more the document is agreed, whatever ``approved`` says; after
three rounds the last version counts all the same, and is marked as forced (K27). For a skill without evals the generator
also drafts tasks from SKILL.md; what becomes of them is a ``generated`` suite, which can never pass unconditionally.

The generator of a contract never sees SKILL.md, only the task: its plan may be told to every arm, and the one without the
skill must not get the skill's method by that way.
"""

from __future__ import annotations

import posixpath
import re
from collections import Counter
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Annotated, Any, Generic, Literal, NamedTuple, TypeVar

from pydantic import BaseModel, BeforeValidator, ConfigDict

from gate.domain.base import FallbackCount, NotRun, Severity, digest_of
from gate.domain.chat import ChatRequest, Message, ReplySchema, Role
from gate.domain.checks import Check
from gate.domain.contract import (
    APPROVAL_THRESHOLD,
    MAX_REVIEW_ROUNDS,
    PLAN_TAGS,
    ContractDocument,
    ReviewRound,
    SkillContract,
    TaskContract,
)
from gate.domain.evidence import Block, Tier
from gate.domain.intake import SkillIntake
from gate.domain.plan import Plan, SkillPlan, safe_id
from gate.domain.seeding import SessionSeed
from gate.domain.skill import Skill, is_agent_visible
from gate.domain.suite import Case, CaseType, Expectation, FixtureFile, Suite
from gate.errors import BudgetError, ModelError
from gate.evidence.quotes import normalise
from gate.llm.ledger import Ledger
from gate.llm.prompting import Fence, load_prompt
from gate.llm.replies import Asked, ReplyProblem, ask
from gate.llm.roles import Models

T = TypeVar("T")

DRAFTED_TASKS = 3
"""Of one skill."""
LEAST_CRITERIA = 2
"""Of a drafted task: fewer that say something, and it is thrown away."""
SUITE_PATH = "contract.json"
_MAX_ITEMS, _MAX_TEXT = 12, 600
_FILES, _FILE_CHARACTERS = 5, 20_000
_SKILL_CHARACTERS = 60_000
_RULE_CHARACTERS = 8
_OUTPUT_TOKENS = 4_096
_LOST_CALLS = 2
"""After so many contracts that nobody could be asked for, the others of the skill are not asked for."""
_CJK = re.compile("[\u3400-\u9fff]")
_WORD = re.compile(r"[\u3400-\u9fff]|(?:(?![\u3400-\u9fff])[^\W\d_]){2,}")
_LITERAL = re.compile(r"\d|[\"\u201c\u300c`]|\b\w+[._/]\w+")
_NO_NEWS = """
a agent agents all an and answer answers any appropriate are as at be been by clear clearly complete completed completely
completes content correct correctly deliver delivered delivers do does done empty exist existing exists file files final
finish finished for full fully gives given good handled has have helpful in is it its made makes must no non not of on one
or output outputs present produced produces proper properly provided provides quality reasonable relevant reply request
requested requirement requirements resolved response responds responses result results returns satisfied shall should some
something successful successfully task tasks text that the there this to useful user users valid was well were will with
work works written 回 答 输 出 响 应 存 在 完 成 任 务 用 户 正 确 的 了 有 是 不 为 空 内 容 文 件 结 果 和 或 应 该 必 须
"""
_SAYS_NOTHING = frozenset(_NO_NEWS.split())


def _score(value: Any) -> Any:
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value <= 1:
        raise ValueError("this must be a number from 0 to 1, written without quotes")
    return round(float(value) * 100) / 100


class _Reply(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True)


class _DocumentReply(_Reply):
    requirement_summary: str
    key_deliverables: list[str]
    success_criteria: list[str]
    technical_approach: str
    risk_areas: list[str]
    plan: list[str]


class _ReviewReply(_Reply):
    score: Annotated[float, BeforeValidator(_score)]
    approved: bool
    findings: list[str]


class _FileReply(_Reply):
    path: str
    text: str


class _CheckReply(_Reply):
    kind: Literal["response_contains", "response_not_contains", "file_exists"]
    value: str


class _TaskReply(_Reply):
    name: str
    type: Literal["happy_path", "edge_case"]
    prompt: str
    files: list[_FileReply]
    rules: list[str]
    checks: list[_CheckReply]


class _DraftReply(_Reply):
    tasks: list[_TaskReply]


class Parties(NamedTuple):
    """Who signs, and what every question of it needs."""

    models: Models
    ledger: Ledger
    seed_of: Callable[[str], SessionSeed]
    """From the digest of what a contract is about: its fences cannot be known by whoever writes that."""


class Drafted(NamedTuple):
    """What was drafted for a skill without evals."""

    suite: Suite | None
    """None: nothing that could be used."""
    contract: SkillContract


# One contract ------------------------------------------------------------------------------------------------------------


def approved_by(score: float | None) -> bool:
    """R160, R164: by the number alone; no number is no agreement."""
    return score is not None and score >= APPROVAL_THRESHOLD


def sign(case: Case, parties: Parties, *, label: str, rules: Sequence[str] = ()) -> TaskContract:
    """The contract of one case, in at most MAX_REVIEW_ROUNDS rounds.

    A reply that is lost or unusable later than the first document ends it with what there is: the last version counts,
    ``forced``, and ``degraded`` says why. Raises ModelError, BudgetError and ReplyProblem where there is no document at all.
    """
    table = _Table(case, parties, label, tuple(rules))
    rounds: list[ReviewRound] = []
    degraded = ""
    try:
        for number in range(1, MAX_REVIEW_ROUNDS + 1):
            document = table.document(number, rounds[-1] if rounds else None)
            rounds.append(ReviewRound(number=number, document=document, score=None))
            rounds[-1] = table.review(number, document)
            if approved_by(rounds[-1].score):
                break
    except (ModelError, BudgetError, ReplyProblem) as problem:
        if not rounds:
            raise
        degraded = f"round {len(rounds)}: {_clip(str(problem), 200)}"
    approved = approved_by(rounds[-1].score)
    table.counts["contract_forced", ""] += not approved
    table.counts["contract_unreviewed", ""] += rounds[-1].score is None
    table.counts["contract_approved_disagrees", ""] += sum(item.disagrees for item in rounds)
    return TaskContract(
        eval_id=case.eval_id,
        rounds=tuple(rounds),
        approved=approved,
        forced=not approved,
        degraded=degraded,
        fallbacks=table.fallbacks(),
    )


class _Table:
    """Where the two meet: each question is a conversation of its own."""

    def __init__(self, case: Case, parties: Parties, label: str, rules: tuple[str, ...]) -> None:
        self._case, self._parties, self._label, self._rules = case, parties, label, rules
        self._seed = parties.seed_of(digest_of([case.model_copy(update={"line": None}).to_json(), list(rules)]))
        self.counts: Counter[tuple[str, str]] = Counter()

    def document(self, number: int, before: ReviewRound | None) -> ContractDocument:
        """The generator's version. Raises ReplyProblem where it gives none."""
        label = f"{self._label}/round-{number}/generate"
        fence = Fence(self._seed.token("generator-fence", label))
        parts = self._about(fence)
        if before is not None:
            parts += [
                "# Last version",
                fence.wrap("last version", _document_text(before.document)),
                "# Findings",
                fence.wrap("findings", "\n".join(before.findings) or "(none)"),
            ]
        system = load_prompt("contract_generator")
        question = _Question(Role.GENERATOR, label, system, parts, _document, _DocumentReply)
        return _asked(self._parties, question, self.counts)

    def review(self, number: int, document: ContractDocument) -> ReviewRound:
        """What the reviewer says. Raises ReplyProblem where it says nothing valid: that is never a score."""
        label = f"{self._label}/round-{number}/review"
        fence = Fence(self._seed.token("reviewer-fence", label))
        parts = [*self._about(fence), "# Document", fence.wrap("document", _document_text(document))]
        system, parse = load_prompt("contract_reviewer"), _ReviewReply.model_validate
        reply = _asked(self._parties, _Question(Role.REVIEWER, label, system, parts, parse, _ReviewReply), self.counts)
        return ReviewRound(
            number=number,
            document=document,
            score=reply.score,
            approved_said=reply.approved,
            disagrees=reply.approved is not approved_by(reply.score),
            findings=_texts(reply.findings),
        )

    def fallbacks(self) -> tuple[FallbackCount, ...]:
        """Everything counted, sorted."""
        return _counted(self.counts)

    def _about(self, fence: Fence) -> list[str]:
        files = "\n".join(item.path for item in self._case.files)
        parts = ["# Task", fence.wrap("task", self._case.prompt), "# Files", fence.wrap("files", files or "(none)")]
        if self._rules:
            parts += ["# Rules", fence.wrap("rules", "\n".join(self._rules))]
        return parts


class _Question(NamedTuple, Generic[T]):
    role: Role
    label: str
    system: str
    parts: Sequence[str]
    parse: Callable[[dict[str, Any]], T]
    shape: type[_Reply]


def _asked(parties: Parties, question: _Question[T], counts: Counter[tuple[str, str]]) -> T:
    """A valid answer through the five guards. Raises ReplyProblem where there is none, ModelError and BudgetError."""
    role = question.role
    request = ChatRequest(
        label=question.label,
        system=question.system,
        messages=(Message(role="user", text="\n\n".join(question.parts)),),
        reply_schema=ReplySchema(name="contract", json_schema=question.shape.model_json_schema()),
        max_output_tokens=_OUTPUT_TOKENS,
    )
    asked: Asked[T] = ask(parties.models.of(role), request, question.parse, role=role, ledger=parties.ledger)
    for item in asked.fallbacks:
        counts[item.kind, item.role] += item.count
    if asked.value is None:
        raise ReplyProblem(f"the {role.value} gave no valid reply: {_clip(asked.problem, 150)}")
    return asked.value


def _document(data: dict[str, Any]) -> ContractDocument:
    reply = _DocumentReply.model_validate(data)
    document = ContractDocument(
        requirement_summary=_clip(reply.requirement_summary, _MAX_TEXT),
        key_deliverables=_texts(reply.key_deliverables),
        success_criteria=_texts(reply.success_criteria),
        technical_approach=_clip(reply.technical_approach, _MAX_TEXT),
        risk_areas=_texts(reply.risk_areas),
        plan=_texts(reply.plan),
    )
    empty = [name for name, value in document if not value]
    if empty:
        raise ReplyProblem(f"These fields are empty: {', '.join(empty)}.")
    untagged = [step for step in document.plan if not step.startswith(PLAN_TAGS)]
    if untagged:
        raise ReplyProblem(f"Each step of the plan begins with one of {', '.join(PLAN_TAGS)}.")
    if not document.plan[-1].startswith("[VERIFY]"):
        raise ReplyProblem("The last step of the plan must be a [VERIFY] step.")
    return document


def _document_text(document: ContractDocument) -> str:
    lines = []
    for name, value in document:
        lines += [f"{name}: {value}"] if isinstance(value, str) else [f"{name}:", *(f"- {item}" for item in value)]
    return "\n".join(lines)


def _texts(given: Sequence[str]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(text for item in given if (text := _clip(item, _MAX_TEXT))))[:_MAX_ITEMS]


def _clip(text: str, limit: int) -> str:
    text = " ".join(re.sub("[\ud800-\udfff]", "\ufffd", text).split())
    return text if len(text) <= limit else f"{text[: limit - 1]}…"


def _counted(counts: Counter[tuple[str, str]]) -> tuple[FallbackCount, ...]:
    return tuple(
        FallbackCount(kind=kind, role=role, count=count) for (kind, role), count in sorted(counts.items()) if count
    )


# All cases of a skill with evals -------------------------------------------------------------------------------------------


def contract_for(
    skill: SkillPlan, parties: Parties, *, plan_given: Literal["none", "all_arms"] = "none", jobs: int = 1
) -> SkillContract | NotRun:
    """The contracts of the cases that will run. A case without one is named with the reason: it runs all the same."""
    cases = [
        planned.case
        for planned in skill.cases
        if planned.blocked is None and planned.case.trigger is None and any(arm.runs for arm in planned.arms)
    ]

    lost: list[str] = []

    def signed(case: Case) -> TaskContract | str:
        # A server that is down is not waited for case by case.
        if len(lost) >= _LOST_CALLS:
            return f"{case.eval_id}: no contract: not asked, after {lost[0]}"
        try:
            return sign(case, parties, label=f"{skill.slug}/{safe_id(case.eval_id)}/contract")
        except (ModelError, BudgetError) as problem:
            lost.append(_clip(str(problem), 200))
            return f"{case.eval_id}: no contract: {lost[-1]}"
        except ReplyProblem as problem:
            return f"{case.eval_id}: no contract: {_clip(str(problem), 200)}"

    with ThreadPoolExecutor(max_workers=jobs) as pool:
        results = list(pool.map(signed, cases))
    tasks = tuple(item for item in results if isinstance(item, TaskContract))
    missing = tuple(item for item in results if isinstance(item, str))
    if not tasks:
        return NotRun(not_run="; ".join(missing) or "no case of this skill runs")
    return SkillContract(drafted=False, plan_given=plan_given, tasks=tasks, missing=missing)


def with_plans(plan: Plan, contracts: dict[str, SkillContract | NotRun]) -> Plan:
    """The session's plan with the steps of each contract that says ``all_arms``: every arm of a case is told the same."""
    return plan.model_copy(update={"skills": tuple(_told(skill, contracts.get(skill.slug)) for skill in plan.skills)})


def _told(skill: SkillPlan, contract: SkillContract | NotRun | None) -> SkillPlan:
    if not isinstance(contract, SkillContract) or contract.plan_given == "none" or contract.drafted:
        return skill
    cases = []
    for planned in skill.cases:
        task = contract.task(planned.case.eval_id)
        steps = task.document.plan if task else ()
        cases.append(planned.model_copy(update={"case": planned.case.model_copy(update={"plan": steps})}))
    return skill.model_copy(update={"cases": tuple(cases)})


# A suite for a skill without evals -------------------------------------------------------------------------------------------


def wants_draft(found: SkillIntake) -> bool:
    """Whether a skill has nothing that could be run, and nothing was taken away: then tasks may be drafted for it."""
    readable = found.head is not None and not found.invalid and found.change.agent_visible
    had = found.base_suite is not None and bool(found.base_suite.cases)
    return readable and not had and not (found.suite and (found.suite.cases or found.suite.triggers))


def draft(
    skill: Skill,
    parties: Parties,
    *,
    trivial: Callable[[Case], Sequence[str]],
) -> Drafted | NotRun:
    """Draft tasks from SKILL.md, sign a contract for each, and make a ``generated`` suite of what holds.

    ``trivial``: ids of the checks of a case that an agent passes that does nothing; these are dropped. Code refuses what
    tests nothing: a task that puts no line of SKILL.md to the test, criteria that any answer meets, a contract that nobody
    reviewed. The plan of such a contract is told to nobody: it was made from SKILL.md. NotRun where the generator gave nothing to begin with. Raises nothing for what a model does.
    """
    counts: Counter[tuple[str, str]] = Counter()
    try:
        reply = _draft(skill, parties, counts)
    except (ModelError, BudgetError, ReplyProblem) as problem:
        return NotRun(not_run=f"no tasks could be drafted: {_clip(str(problem), 200)}", fallbacks=_counted(counts))
    tasks: list[TaskContract] = []
    cases: list[Case] = []
    refused: list[str] = []
    for number, item in enumerate(reply.tasks[:DRAFTED_TASKS], 1):
        name = _clip(item.name, 80) or f"task {number}"
        made = _task_case(item, name, number, skill, refused)
        if made is None:
            continue
        case, rules = made
        label = f"{skill.slug}/{safe_id(case.eval_id)}/contract"
        try:
            contract = sign(case, parties, label=label, rules=[text for _, text in rules])
        except (ModelError, BudgetError, ReplyProblem) as problem:
            refused.append(f"{name}: no contract: {_clip(str(problem), 200)}")
            continue
        tasks.append(contract)
        finished = _finished(case, contract, name, rules, trivial, refused)
        if finished is not None:
            cases.append(finished)
    counts["drafted_refused", ""] += len(refused)
    contract_file = SkillContract(
        drafted=True,
        tasks=tuple(tasks),
        refused=tuple(refused),
        fallbacks=_counted(counts),
    )
    suite = Suite(path=SUITE_PATH, dialect="skill-gate", cases=tuple(cases), generated=True) if cases else None
    return Drafted(suite, contract_file)


def _draft(skill: Skill, parties: Parties, counts: Counter[tuple[str, str]]) -> _DraftReply:
    label = f"{skill.slug}/contract/draft"
    fence = Fence(parties.seed_of(skill.tree_sha256).token("draft-fence", label))
    text = skill.text.replace("\r\n", "\n")[:_SKILL_CHARACTERS]
    block = Block(id="S", tier=Tier.OUTPUT, kind="outputs", title=skill.skill_md, text=text)
    names = [item.path for item in skill.files if is_agent_visible(item.path) and item.path != skill.skill_md]
    parts = [
        "# SKILL.md",
        fence.numbered(block),
        "# Files",
        fence.wrap("files", "\n".join(names[:200]) or "(none)"),
    ]
    system = load_prompt("contract_draft", limit=str(DRAFTED_TASKS))

    def parse(data: dict[str, Any]) -> _DraftReply:
        reply = _DraftReply.model_validate(data)
        if not reply.tasks:
            raise ReplyProblem("There is no task. Draft at least one.")
        return reply

    return _asked(parties, _Question(Role.GENERATOR, label, system, parts, parse, _DraftReply), counts)


def _task_case(
    item: _TaskReply, name: str, number: int, skill: Skill, refused: list[str]
) -> tuple[Case, list[tuple[int, str]]] | None:
    """The bare case of a drafted task and the rules that it tests, or None with the reason in ``refused``."""
    rules = [(line, _clip(text, _MAX_TEXT)) for text in item.rules if (line := rule_line(skill, text)) is not None]
    if not rules:
        refused.append(f"{name}: it puts no line of SKILL.md to the test")
        return None
    prompt = re.sub("[\ud800-\udfff]", "\ufffd", item.prompt).strip()
    if not prompt:
        refused.append(f"{name}: there is no prompt")
        return None
    if any(_bare(text) in _bare(prompt) for _, text in rules):
        refused.append(f"{name}: its prompt gives away the rule that it is to test")
        return None
    files = []
    for given in item.files[:_FILES]:
        path = _safe(given.path)
        if path is None or len(given.text) > _FILE_CHARACTERS:
            refused.append(f"{name}: the file {_clip(given.path, 80)} cannot be put into a workspace")
            continue
        files.append(FixtureFile(path=path, data=given.text.encode("utf-8", "replace")))
    stem = re.sub(r"[^a-z0-9]+", "-", name.lower()).strip("-")[:40] or "task"
    checks: list[Check] = []
    for wanted in item.checks[:_MAX_ITEMS]:
        made = _check(wanted, len(checks) + 1, rules[0][1])
        if made is None:
            refused.append(f"{name}: the check {wanted.kind} has no usable value")
        else:
            checks.append(made)
    case = Case(
        eval_id=f"{stem}-{number}",
        name=name,
        prompt=prompt,
        type=CaseType(item.type),
        files=tuple({file.path: file for file in files}.values()),
        checks=tuple(checks),
        source="contract",
    )
    return case, rules


def _bare(text: str) -> str:
    return normalise(text).strip().lstrip("-*#>+0123456789.) ").rstrip(". ").casefold()


def _check(given: _CheckReply, number: int, rule: str) -> Check | None:
    value = given.value.strip()
    if given.kind == "file_exists":
        path = _safe(value)
        parameters: dict[str, Any] | None = {"kind": given.kind, "path": path} if path else None
    else:
        name = "keyword" if given.kind == "response_contains" else "pattern"
        usable = 2 <= len(value) <= 200
        parameters = {"kind": given.kind, name: value} if usable else None
    if parameters is None:
        return None
    return Check.model_validate(
        {"id": f"c{number}", "parameters": parameters, "severity": Severity.SHOULD, "rule_ref": rule}
    )


def _safe(path: str) -> str | None:
    """A relative path inside the workspace, or None."""
    if not path.strip() or "\\" in path or "\0" in path or path.startswith(("/", "~")):
        return None
    normal = posixpath.normpath(path.strip())
    inside = normal not in (".", "..") and not normal.startswith("../") and len(normal) <= 120
    return normal if inside and normal.isprintable() else None


def _finished(
    case: Case,
    contract: TaskContract,
    name: str,
    rules: Sequence[tuple[int, str]],
    trivial: Callable[[Case], Sequence[str]],
    refused: list[str],
) -> Case | None:
    """The case with the criteria that say something as expectations, or None with the reason in ``refused``."""
    if contract.rounds[-1].score is None:
        refused.append(f"{name}: nobody reviewed its contract ({contract.degraded})")
        return None
    criteria = []
    for text in contract.document.success_criteria:
        if says_nothing(text):
            refused.append(f'{name}: any answer meets "{text}"')
        else:
            criteria.append(text)
    if len(criteria) < LEAST_CRITERIA:
        refused.append(f"{name}: {len(criteria)} criteria that say something; {LEAST_CRITERIA} are needed")
        return None
    rule = rules[0][1]
    expectations = tuple(
        Expectation(id=f"e{number}", text=text, rule_ref=rule) for number, text in enumerate(criteria, 1)
    )
    full = case.model_copy(update={"expectations": expectations})
    useless = set(trivial(full))
    if useless:
        refused.append(f"{name}: checks that an agent passes that does nothing: {', '.join(sorted(useless))}")
    full = full.model_copy(update={"checks": tuple(item for item in full.checks if item.id not in useless)})
    return full.model_copy(update={"digest": digest_of(full.model_copy(update={"line": None, "digest": ""}))})


def says_nothing(criterion: str) -> bool:
    """Whether a criterion asks for nothing that an answer could lack: no literal, and hardly a word of its own."""
    if _LITERAL.search(criterion):
        return False
    own = {word.lower() for word in _WORD.findall(criterion)} - _SAYS_NOTHING
    return len(own) < (4 if _CJK.search(criterion) else 2)


def rule_line(skill: Skill, text: str) -> int | None:
    """The 1-based line of SKILL.md that holds a copied rule, or None. Front matter is no rule."""
    wanted = normalise(text).strip().lstrip("-*#>+ ").strip()
    if len(wanted.replace(" ", "")) < _RULE_CHARACTERS and len(_CJK.findall(wanted)) < _RULE_CHARACTERS // 2:
        return None
    for number, line in enumerate(skill.body.split("\n"), skill.body_line):
        if wanted in normalise(line):
            return number
    return None


# Again, offline ----------------------------------------------------------------------------------------------------------


def recheck_contract(contract: SkillContract, suite: Suite | None = None) -> list[str]:
    """What a stored contract says otherwise than its own numbers do, one sentence each; empty: nothing.

    ``suite``: of the skill; a drafted one asks for nothing but what its contracts say, and is marked.
    """
    problems = _foreign(contract, suite) if contract.drafted and suite is not None else []
    for task in contract.tasks:
        agreed = [approved_by(item.score) for item in task.rounds]
        where = f"the contract of {task.eval_id}"
        if task.approved is not agreed[-1] or task.forced is agreed[-1]:
            problems.append(f"{where}: approved and forced do not follow from its scores")
        if any(agreed[:-1]) or len(task.rounds) > MAX_REVIEW_ROUNDS:
            problems.append(f"{where}: it went on after it was agreed, or too long")
        if not agreed[-1] and len(task.rounds) < MAX_REVIEW_ROUNDS and not task.degraded:
            problems.append(f"{where}: it ended early without a reason")
        for item in task.rounds:
            said = item.approved_said is not None and item.approved_said is not approved_by(item.score)
            if item.disagrees is not said:
                problems.append(f"{where}: round {item.number} hides that approved and score disagree")
    return problems


def _foreign(contract: SkillContract, suite: Suite) -> list[str]:
    problems = [] if suite.generated else ["the suite was drafted and is not marked as generated"]
    for case in suite.cases:
        task = contract.task(case.eval_id)
        agreed = () if task is None else task.document.success_criteria
        if any(item.text not in agreed or says_nothing(item.text) for item in case.expectations):
            problems.append(f"the drafted case {case.eval_id} asks for something that its contract does not say")
    return problems
