"""How often the gate errs: simulated changes, decided by the production code.

Nothing here decides. A simulated agent writes a check result per check and run, a simulated judge a grade per expectation
and run, and from there everything is what a session uses: ``undecided`` and ``needs_confirm`` ask for further runs, the
comparator's own rules make a winner of scores, ``verdict_of`` and ``state_of`` decide. Rates never go in (judging.md 8.4,
11 J8). What is made up is written down in ``World``, ``Judge`` and ``Change``; the numbers are those of judging.md 5.6
unless a comment says otherwise.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum
from functools import lru_cache
from random import Random
from typing import Literal

from gate.decision.further import needs_confirm, undecided
from gate.decision.look import Look
from gate.decision.remembered import remembering
from gate.decision.state import state_of
from gate.decision.verdict import verdict_of
from gate.domain.base import NotRun, Severity, digest_of
from gate.domain.checks import Check, ResponseContains
from gate.domain.evidence import Metrics, Outcome, RunRecord
from gate.domain.judgement import (
    CRITERIA,
    CaseComparison,
    CheckResult,
    CheckStatus,
    Comparison,
    ControlGrade,
    CriterionScores,
    ExpectationGrade,
    GradeStatus,
    Grading,
    OrderResult,
    PairComparison,
    Quote,
    QuoteVerdict,
    RunJudgement,
    SpotCheck,
    Unblinding,
    Winner,
)
from gate.domain.plan import COMPARED_ARMS, Arm, ArmPlan, CasePlan, Enforce, Limits, Mode, RunKey, SkillPlan
from gate.domain.report import CaseRecord, JudgedRun, SkillRecord, State, Verdict
from gate.domain.skill import ChangeKind, Skill, SkillChange, SkillType
from gate.domain.suite import Case, Expectation, Suite
from gate.judging.comparator import case_winner, order_winner, pair_winner, rubric
from gate.planning.modes import RULES
from gate.settings import Thresholds

Purpose = Literal["planned", "fill", "confirm"]
RUN_DATE = "2026-01-05"
CHARGED = {Arm.WITH_SKILL: GradeStatus.FAILED, Arm.BASE_SKILL: GradeStatus.PASSED}
"""Of which rows of a confirming run the grader is asked again."""
PATH = "skills/simulated"


class Change(StrEnum):
    """What a simulated change does to the skill."""

    CLEAN = "clean"
    """Nothing that an agent would notice."""
    CHECKABLE = "checkable"
    """Breaks a rule that a ``must`` check covers."""
    SEMANTIC = "semantic"
    """Breaks a rule that only an expectation covers."""


@dataclass(frozen=True)
class Judge:
    """How a grader and comparator err. Chances are per expectation and run."""

    name: str
    true_pass: float = 1.0
    """Chance of passing what holds (TPR)."""
    true_fail: float = 1.0
    """Chance of failing what does not hold (TNR), where the output is not long."""
    true_fail_long: float | None = None
    """The same for long outputs, half of all cases; None: length does not matter."""
    quotes_fail: float = 0.7
    """Chance that the quote under a wrong pass is made up, which code finds out (judging.md 5.6)."""
    caves: float = 0.0
    """Chance that a rejected quote is answered with one of what the agent said about itself."""
    control_fooled: float = 0.05
    """Chance of passing a known-false control, as a share of 1 - TNR: controls are easier than the work (judging.md 5.7)."""
    position: float = 0.0
    """Points that the comparator adds to what it sees first, over the six criteria."""
    row_missing: float = 0.0
    rules_only: float = 0.0
    """Chance, per run, that no reply could be read."""
    no_answer: float = 0.0
    """Chance, per run, that every try ended in a timeout."""


JUDGES: tuple[Judge, ...] = (
    Judge("oracle"),
    Judge("lenient .96/.90", 0.96, 0.90),
    Judge("lenient .96/.60", 0.96, 0.60),
    Judge("lenient .96/.25", 0.96, 0.25),
    Judge("position- and length-biased", 0.96, 0.95, true_fail_long=0.40, position=4.0),
    Judge("caving", 0.96, 0.90, caves=0.9),
    Judge("quote-forging", 1.0, 0.0, quotes_fail=0.9, control_fooled=0.0),
    Judge("captured", 1.0, 0.0, control_fooled=1.0),
    Judge("captured, spares controls and quotes", 1.0, 0.0, quotes_fail=0.0, control_fooled=0.0),
    Judge("malformed", 0.96, 0.90, row_missing=0.01, rules_only=0.02),
    Judge("slow", 0.96, 0.90, no_answer=0.10),
)
"""Every profile of issue J8. All but the two captured ones and ``lenient .96/.25`` have a TNR of at least .6 after quotes."""


@dataclass(frozen=True)
class World:
    """What a suite and an agent are like."""

    cases: int = 20
    checks: int = 3
    expectations: int = 3
    affected: float = 0.4
    """Share of the cases that a broken rule touches; at least one."""
    strength: tuple[float, float] = (0.5, 1.0)
    """How often an agent with the broken skill misses the rule in a touched case: drawn evenly from this, per change."""
    miss: float = 0.0005
    """Chance, per run and rule, that an agent with a good skill misses it all the same."""
    taught: float = 0.5
    """Share of the assertions that an agent without the skill mostly misses (70 % of its runs)."""
    lost_run: float = 0.005
    """Infrastructure: runs that ended without a record."""
    same_error: float = 0.5
    """Chance that a judge's error on an expectation is the same one in every run of a case."""
    mode: Mode = Mode.STANDARD
    opened: float = 1.0
    """Chance, per run, that an agent opens the skill that it is offered; where it does not, it works as without one."""
    head_only: float = 0.0
    """Share of the cases that the change brings along: base's suite does not have them."""
    gross: bool = False
    """The changed skill is grossly broken: an agent that opens it keeps no rule at all."""


@dataclass(frozen=True)
class Result:
    """One simulated change, decided."""

    verdict: Verdict
    states: dict[Enforce, State]
    runs: int
    mean_passes: bool
    """What the gate "mean pass rate >= .8" says of the same with-runs, model claims taken at their word."""
    reasons: tuple[str, ...] = ()
    with_runs: int = 0
    """Of ``runs``, those with the skill."""


def simulate(change: Change, judge: Judge, world: World, *, count: int, seed: str, first: int = 0) -> Iterator[Result]:
    """Decide changes ``first`` to ``first + count``. The same arguments give the same results, in any slices."""
    parts = _Parts(world)
    # What is remembered of runs that many changes share is kept for a slice; all of them at once would fill the memory.
    for start in range(first, first + count, 250):
        with remembering():
            for number in range(start, min(start + 250, first + count)):
                rng = Random(f"{seed}/{change}/{judge.name}/{number}")  # noqa: S311 - no secret
                yield _Session(change, judge, world, parts, rng).result()


class _Parts:
    """Values that all simulated changes of one world share: frozen, so that thousands of sessions can hold the same ones."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.runs: dict[tuple[object, ...], JudgedRun] = {}
        self.cases: dict[tuple[int, int], CaseRecord] = {}
        self.tuples: dict[tuple[object, ...], tuple[JudgedRun, ...]] = {}
        self.skill = Skill(
            path=PATH, slug="simulated", skill_md="SKILL.md", name="simulated", description="d", body="", files=(),
            tree_sha256="0" * 64,
        )  # fmt: skip
        self.plans = [self._plan(number) for number in range(world.cases)]
        suite = Suite(path=f"{PATH}/evals", dialect="skill-gate", cases=tuple(plan.case for plan in self.plans))
        self.plan = SkillPlan(
            change=SkillChange(path=PATH, kind=ChangeKind.MODIFIED),
            slug="simulated",
            head=self.skill,
            base=self.skill,
            suite=suite,
            cases=tuple(self.plans),
        )

    def _plan(self, number: int) -> CasePlan:
        checks = tuple(Check(id=f"c{at}", parameters=ResponseContains(keyword="x")) for at in range(self.world.checks))
        expectations = tuple(Expectation(id=f"e{at}", text=f"rule {at}") for at in range(self.world.expectations))
        case = Case(eval_id=str(number), prompt="p", checks=checks, expectations=expectations)
        runs = RULES[self.world.mode].runs
        arms = tuple(ArmPlan(arm=arm, runs=runs.get(arm, 0), limits=Limits(steps=10)) for arm in COMPARED_ARMS)
        brought = number < round(self.world.head_only * self.world.cases)
        return CasePlan(
            case=case.model_copy(update={"digest": digest_of(case)}), arms=arms, origin="head" if brought else "both"
        )

    def run(  # noqa: PLR0917 - what tells a run from all others
        self, at: int, arm: Arm, number: int, purpose: Purpose, held: tuple[bool, ...], said: _Said, opened: bool
    ) -> JudgedRun:
        key = (at, arm, number, purpose, held, said, opened)
        found = self.runs.get(key)
        if found is None:
            found = self.runs[key] = self._judged(*key)
        return found

    def case(self, plan: CasePlan, runs: tuple[JudgedRun, ...], layer3: CaseComparison) -> CaseRecord:
        """Runs are told apart by identity: equal ones are the same one (``run``)."""
        same = self.tuples.setdefault((plan.case.eval_id, *map(id, runs)), runs)
        key = (id(layer3), id(same))
        found = self.cases.get(key)
        if found is None:
            found = CaseRecord.model_construct(plan=plan, runs=same, layer3=layer3, missing=())
            self.cases[key] = found
        return found

    def lost(self, at: int, arm: Arm, number: int, purpose: Purpose) -> JudgedRun:
        nothing = NotRun(not_run="the run ended without a record")
        return JudgedRun(
            record=self._record(at, arm, number, purpose, Outcome.INFRA_ERROR, opened=False),
            judgement=RunJudgement(checks=nothing, grading=nothing),
        )

    def _record(self, at: int, arm: Arm, number: int, purpose: Purpose, outcome: Outcome, *, opened: bool) -> RunRecord:
        key = RunKey(skill_path=PATH, slug="simulated", eval_id=str(at), run=number, arm=arm)
        return RunRecord(
            key=key, purpose=purpose, skill_type=SkillType.TEXT_GENERATION, outcome=outcome, reason="", calls=(),
            response="x", files=(), metrics=Metrics(activated=opened), usage=None, model="m",
            image="i", run_date=RUN_DATE, chain_head="", seal="",
        )  # fmt: skip

    def _judged(  # noqa: PLR0917 - as above
        self, at: int, arm: Arm, number: int, purpose: Purpose, held: tuple[bool, ...], said: _Said, opened: bool
    ) -> JudgedRun:
        checks = tuple(
            CheckResult(
                check_id=f"c{index}",
                kind="response_contains",
                severity=Severity.MUST,
                status=CheckStatus.PASSED if ok else CheckStatus.FAILED,
                expected="x",
                found="x" if ok else "y",
            )
            for index, ok in enumerate(held[: self.world.checks])
        )
        return JudgedRun(
            record=self._record(at, arm, number, purpose, Outcome.COMPLETED, opened=opened),
            judgement=RunJudgement(checks=checks, grading=said.grading()),
        )


@dataclass(frozen=True)
class _Said:
    """What the judge made of one run: per expectation whether it said so, and whether code found its quote."""

    rows: tuple[tuple[bool, bool] | None, ...]
    """None: no row."""
    void: bool = False
    control_false_passed: bool = False
    rules_only: bool = False
    no_answer: bool = False
    again: tuple[tuple[bool, bool] | None, ...] = ()
    """The same, of a run of the confirm stage, when it was asked once more about the rows that a charge may rest on."""

    def grading(self) -> Grading | NotRun:
        if self.no_answer:
            return NotRun(not_run="the judge gave no answer in time")
        controls = (
            ControlGrade(text="false", known=False, model_said=self.control_false_passed, voided=self.void),
            ControlGrade(text="true", known=True, model_said=True, voided=self.void),
        )
        return Grading(
            rows=tuple(self._row(at, row) for at, row in enumerate(self.rows)),
            controls=() if self.rules_only else controls,
            voided="the grader passed an expectation that is known to be false, twice" if self.void else None,
            spot_checks=tuple(
                SpotCheck(kind="again", expectation_id=f"e{at}", model_said=row[0], status=_status(row))
                for at, row in enumerate(self.again)
                if row is not None
            ),
        )

    def _row(self, at: int, row: tuple[bool, bool] | None) -> ExpectationGrade:
        said, quoted = row or (False, False)
        verdict = QuoteVerdict.EXACT if quoted else QuoteVerdict.NOT_FOUND
        status = _status((said, quoted))
        return ExpectationGrade(
            expectation_id=f"e{at}",
            text=f"rule {at}",
            severity=Severity.SHOULD,
            precision="semantic",
            status=GradeStatus.UNGRADED if row is None or self.void else status,
            model_said=None if row is None else said,
            quotes=(Quote(text="x", source="B001", verdict=verdict, tier=2 if quoted else None),) if said else (),
            reason="",
            method="rules_only" if self.rules_only else "grader",
        )


def _status(row: tuple[bool, bool]) -> GradeStatus:
    """What code makes of what a judge said and whether its quote was found."""
    return GradeStatus.PASSED if all(row) else GradeStatus.FAILED


@dataclass
class _Session:
    """One change on its way through the production code."""

    change: Change
    judge: Judge
    world: World
    parts: _Parts
    rng: Random
    shared: dict[tuple[object, ...], float] = field(default_factory=dict)

    def __post_init__(self) -> None:
        world, rng = self.world, self.rng
        self.strength = rng.uniform(*world.strength)
        touched = [at for at in range(world.cases) if rng.random() < world.affected]
        self.touched = set(touched or [rng.randrange(world.cases)])
        self.total = world.checks + world.expectations
        # The suite is one: what it teaches does not change from change to change.
        suite = Random("suite")  # noqa: S311 - no secret
        self.taught = [[suite.random() < world.taught for _ in range(self.total)] for _ in range(world.cases)]
        self.long = [rng.random() < 0.5 for _ in range(world.cases)]
        self.broken = {Change.CLEAN: None, Change.CHECKABLE: 0, Change.SEMANTIC: world.checks}[self.change]
        self.claims = self.claimed = 0

    def result(self) -> Result:
        rule = RULES[self.world.mode]
        cases = [self._case(at) for at in range(self.world.cases)]
        if rule.fill is not None:
            cases = [
                self._more(at, case, rule.fill, "fill") if undecided(case) else case for at, case in enumerate(cases)
            ]
        if rule.confirm:
            cases = [
                self._more(at, case, None, "confirm") if needs_confirm(case) else case for at, case in enumerate(cases)
            ]
        cases = [self.parts.case(case.plan, case.runs, self._compared(case)) for case in cases]
        record = SkillRecord.model_construct(
            plan=self.parts.plan, cases=tuple(cases), over_budget=None, errors=(), broken_seals=()
        )
        verdict, reasons = verdict_of(self._look(record, Enforce.STANDARD))
        states = {Enforce.ADVISORY: state_of(verdict, Enforce.ADVISORY)}
        states[Enforce.STANDARD] = state_of(verdict, Enforce.STANDARD)
        # Strict asks for more of what would pass; everything else it treats as failed already.
        strict = verdict_of(self._look(record, Enforce.STRICT))[0] if verdict is Verdict.PASS else verdict
        states[Enforce.STRICT] = state_of(strict, Enforce.STRICT)
        return Result(
            verdict=verdict,
            states=states,
            runs=sum(len(case.runs) for case in cases),
            mean_passes=self.claimed >= 0.8 * self.claims,
            reasons=reasons,
            with_runs=sum(len(case.of(Arm.WITH_SKILL)) for case in cases),
        )

    def _look(self, record: SkillRecord, enforce: Enforce) -> Look:
        return Look(record, self.world.mode, enforce, Thresholds(), "warn", False, (), RUN_DATE)

    def _case(self, at: int) -> CaseRecord:
        plan = self.parts.plans[at]
        runs = [self._run(at, arm.arm, number, "planned") for arm in plan.arms for number in range(1, arm.runs + 1)]
        return self._record(plan, runs)

    def _more(self, at: int, case: CaseRecord, target: int | None, purpose: Purpose) -> CaseRecord:
        runs = list(case.runs)
        for arm in case.plan.arms:
            if arm.runs:
                had = len(case.of(arm.arm))
                last = had + 1 if target is None else target
                runs += [self._run(at, arm.arm, number, purpose) for number in range(had + 1, last + 1)]
        return self._record(case.plan, runs)

    def _record(self, plan: CasePlan, runs: Sequence[JudgedRun]) -> CaseRecord:
        return self.parts.case(plan, tuple(runs), NOT_COMPARED)

    def _run(self, at: int, arm: Arm, number: int, purpose: Purpose) -> JudgedRun:
        if self.rng.random() < self.world.lost_run**2:  # the runner tries once more before it gives up
            return self.parts.lost(at, arm, number, purpose)
        opened = arm is not Arm.WITHOUT_SKILL and (self.world.opened >= 1 or self.rng.random() < self.world.opened)
        held = tuple(self.rng.random() < self._chance(at, index, arm, opened) for index in range(self.total))
        said = self._said(at, held[self.world.checks :])
        if purpose == "confirm" and arm in CHARGED:
            said = self._asked_again(at, held[self.world.checks :], said, CHARGED[arm])
        if arm is Arm.WITH_SKILL and purpose != "confirm":
            self.claims += self.total
            self.claimed += sum(held[: self.world.checks]) + sum(row is not None and row[0] for row in said.rows)
        return self.parts.run(at, arm, number, purpose, held, said, opened)

    def _chance(self, at: int, index: int, arm: Arm, opened: bool) -> float:
        """That an agent of this arm keeps a rule in one run."""
        if not opened:
            return 0.3 if self.taught[at][index] else 1 - self.world.miss
        if arm is Arm.WITH_SKILL and self.world.gross:
            return 0.0
        if arm is Arm.WITH_SKILL and index == self.broken and at in self.touched:
            return 1 - self.strength
        return 1 - self.world.miss

    def _said(self, at: int, held: Sequence[bool]) -> _Said:
        judge, rng = self.judge, self.rng
        if judge.no_answer and rng.random() < judge.no_answer:
            return _Said((None,) * len(held), no_answer=True)
        true_fail = judge.true_fail
        if judge.true_fail_long is not None and self.long[at]:
            true_fail = judge.true_fail_long
        fooled = judge.control_fooled * (1 - true_fail)
        # Fooled once, the batch is asked again in a fresh context; fooled twice, it is void (judging.grader).
        if fooled and rng.random() < fooled and rng.random() < fooled:
            return _Said(((True, True),) * len(held), void=True, control_false_passed=True)
        rows = tuple(
            None if judge.row_missing and rng.random() < judge.row_missing else self._row(at, index, ok, true_fail)
            for index, ok in enumerate(held)
        )
        return _Said(rows, rules_only=bool(judge.rules_only) and rng.random() < judge.rules_only)

    def _asked_again(self, at: int, held: Sequence[bool], said: _Said, wanted: GradeStatus) -> _Said:
        """The rows of a confirming run that a charge may rest on, asked once more (``gate.judging.second_look``)."""
        if said.no_answer or said.void or said.rules_only:
            return said
        judge = self.judge
        true_fail = judge.true_fail_long if judge.true_fail_long is not None and self.long[at] else judge.true_fail
        return replace(
            said,
            again=tuple(
                None if row is None or _status(row) is not wanted else self._row(at, index, held[index], true_fail)
                for index, row in enumerate(said.rows)
            ),
        )

    def _row(self, at: int, index: int, ok: bool, true_fail: float) -> tuple[bool, bool]:
        judge = self.judge
        if ok:
            said = self._draw(at, index, ok) < judge.true_pass
            return said, said
        if self._draw(at, index, ok) < true_fail:
            return False, False
        quoted = self.rng.random() >= judge.quotes_fail
        if not quoted and judge.caves and self.rng.random() < judge.caves:
            quoted = self.rng.random() >= judge.quotes_fail
        return True, quoted

    def _draw(self, at: int, index: int, ok: bool) -> float:
        """A judge's dice: the same in every run of a case where it errs in kind, thrown anew where it errs by chance."""
        if self.rng.random() >= self.world.same_error:
            return self.rng.random()
        return self.shared.setdefault((at, index, ok), self.rng.random())

    def _compared(self, case: CaseRecord) -> CaseComparison:
        """The comparator on the first pair: scores with noise and its love of the first seat, both orders."""
        ones, others = case.of(Arm.WITH_SKILL), case.of(Arm.WITHOUT_SKILL)
        if not RULES[self.world.mode].layer3 or not ones or not others:
            return case.layer3
        lead = 6 * (_kept_share(ones[0]) - _kept_share(others[0]))
        sums: list[int] = []
        for sign in (1, -1):
            seat = self.judge.position / 2 * sign
            sums.append(_sum(21 + lead / 2 + seat + self.rng.gauss(0, 1.2)))
            sums.append(_sum(21 - lead / 2 - seat + self.rng.gauss(0, 1.2)))
        return compared_by(*sums)


@lru_cache(maxsize=65_536)
def compared_by(first_a: int, first_b: int, second_a: int, second_b: int) -> CaseComparison:
    """Layer 3 of a case with one pair of runs, the one with the skill being A, from the sums of scores in both orders."""
    orders = []
    for first, a, b in (("A", _scores(first_a), _scores(first_b)), ("B", _scores(second_a), _scores(second_b))):
        orders.append(
            OrderResult.model_validate({"first": first, "a": a, "b": b, "reasoning": "", "winner": order_winner(a, b)})
        )
    winner, unstable = pair_winner(orders)
    pairs = (
        PairComparison(run_with=1, run_without=1, orders=tuple(orders), winner=winner, position_unstable=unstable),
    )
    comparison = Comparison(eval_id="", pairs=pairs, winner=case_winner(pairs), rubric=rubric(pairs))
    comparison = comparison.model_copy(update={"sealed": comparison.seal})
    won = None if winner == "TIE" else winner == "A"
    return CaseComparison(
        comparison=comparison,
        unblinding=Unblinding(
            comparison_sealed=comparison.sealed,
            with_skill="A",
            outcome={None: Winner.TIE, True: Winner.SKILL, False: Winner.BASELINE}[won],
            winner_is_with_skill=won,
        ),
        analysis=NotRun(not_run="not simulated"),
    )


NOT_COMPARED = CaseComparison(comparison=NotRun(not_run="not yet"), analysis=NotRun(not_run="not yet"))


def _kept_share(run: JudgedRun) -> float:
    checks = run.judgement.checks
    if isinstance(checks, NotRun) or not checks:
        return 0.5
    return sum(result.status is CheckStatus.PASSED for result in checks) / len(checks)


def _sum(total: float) -> int:
    """The nearest sum that six scores can have."""
    return min(30, max(6, round(total)))


def _scores(total: int) -> CriterionScores:
    """Six whole numbers 1-5 with this sum, as even as there are."""
    base, more = divmod(total, 6)
    return CriterionScores.model_construct(
        **{name: base + (at < more) for at, name in enumerate(CRITERIA)}, _fields_set=set(CRITERIA)
    )
