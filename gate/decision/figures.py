"""The figures of a skill, each with its counts. Facts only: what they mean is decided in ``verdict``."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction

from gate import statistics
from gate.decision.remembered import remembered, remembered_of_runs
from gate.decision.triage import (
    Assertion,
    case_passed,
    counting,
    grade_row,
    holds,
    is_usable,
    natural,
    paired_runs,
    passed_over,
    recorded_tally,
    tally,
    usable_runs,
    weighty,
)
from gate.domain.base import FallbackCount, NotRun, six_digits
from gate.domain.contract import SkillContract
from gate.domain.evidence import Outcome
from gate.domain.judgement import ControlGrade, GradeStatus, Grading, Winner
from gate.domain.numbers import plural
from gate.domain.plan import COMPARED_ARMS, OPTIONAL_ARMS, Arm, CasePlan, case_folder
from gate.domain.report import (
    ArmFigures,
    CaseRecord,
    CaseReport,
    ComparedOrder,
    ComparedPair,
    JudgedRun,
    Share,
    SkillRecord,
)
from gate.settings import JudgeCalibration

WIN_LEVEL = 0.05
"""One-sided error of the sign test over decided cases (DESIGN.md 4: p <= .05). Reached against a skill whose cases pass, it
makes the skill conditional."""
LEAD_LEVEL = 0.004
"""One-sided error of the suite test over the scores of all compared cases, at which a suite is called won or lost: equal
outputs are called so in at most 0.8 % of all sessions, whatever the judge (judging.md J4 asks for 1 %). The sign test at
.05 alone gives 1 to 6 %, the more the firmer a judge's tastes, and sees less. Eight cases of one side reach it."""
ENOUGH_DECIDED = 5
"""Under this many decided cases no suite test can reach ``WIN_LEVEL``."""
REASONING_CHARACTERS = 600
"""Of a comparator's reasoning in the report; comparison.json has all of it."""
COUNTED_SUMS = 2_000_000
"""Steps that an exact permutation test of the lift may take: about a second."""
GRADES = (("S", 0.95), ("A", 0.90), ("B", 0.80), ("C", 0.70))
"""Origins 1.9: release grade by the source's rate; below C it is D, and any veto is F."""
DEGRADED = ("rules_only", "rules-only", "invalid")
"""Endings of the fallback kinds that a verdict must name where they are not zero (DESIGN.md 9)."""


def in_order(cases: Iterable[CaseRecord]) -> tuple[CaseRecord, ...]:
    """Cases by eval id, origin and digest: an order that no file order changes."""
    return tuple(sorted(cases, key=lambda case: plan_key(case.plan)))


@remembered
def plan_key(plan: CasePlan) -> tuple[object, ...]:
    """What tells a planned case from all others of its skill, sortable."""
    return (natural(plan.case.eval_id), plan.origin, plan.case.digest, plan.case.name, plan.case.prompt)


def case_name(case: CaseRecord) -> str:
    """How sentences name a case; ids of numbers get the word eval before them."""
    eval_id = case.plan.case.eval_id
    named = eval_id if eval_id.startswith("eval") else f"eval {eval_id}"
    return f"{named} (of the base suite)" if case.plan.origin == "base" else named


@remembered_of_runs
def owed(case: CaseRecord) -> tuple[Assertion, ...]:
    """The weighty assertions that head must keep. A case that only the base suite has must not regress (DESIGN.md 3):
    what the base version did not hold there itself is not asked of head."""
    if case.plan.origin != "base":
        return weighty(case)
    runs = usable_runs(case, Arm.BASE_SKILL)
    held = [(item, recorded_tally(case, item) or tally(runs, item)) for item in weighty(case)]
    return tuple(item for item, counts in held if counts.majority is not False)


def share_over(runs: Sequence[JudgedRun], assertions: Sequence[Assertion]) -> Share:
    """Assertions that passed, of all assertions times runs: a missing verdict never shrinks the total."""
    held = [holds(run, assertion) for run in runs for assertion in assertions]
    return Share(passed=held.count(True), total=len(held))


def add(shares: Iterable[Share]) -> Share:
    """Field-wise sum."""
    listed = list(shares)
    return Share(passed=sum(item.passed for item in listed), total=sum(item.total for item in listed))


def _source_kind(cases: Sequence[CaseRecord]) -> str:
    """What the source's rate counts: exact checks, or expectations where no case has a check (origins 1.9)."""
    return "check" if any(_has_check(weighty(case)) for case in cases) else "expectation"


@remembered
def _has_check(assertions: tuple[Assertion, ...]) -> bool:
    return any(item.kind == "check" for item in assertions)


def source_rate(cases: Sequence[CaseRecord]) -> Share:
    """The source's rate over single exact checks of the with-runs (fallback: expectations). For the letter only."""
    kind = _source_kind(cases)
    return add(_kind_share(case, kind) for case in cases)


@remembered_of_runs
def _kind_share(case: CaseRecord, kind: str) -> Share:
    return share_over(usable_runs(case, Arm.WITH_SKILL), _of_kind(case, kind))


def share_of(cases: Sequence[CaseRecord], case: CaseRecord, arm: Arm) -> Share:
    """What the source's rate counts, of one case of these and one arm."""
    return share_over(usable_runs(case, arm), _of_kind(case, _source_kind(cases)))


def rate_of(cases: Sequence[CaseRecord], case: CaseRecord, arm: Arm) -> Fraction | None:
    """``share_of`` as an exact rate; None where nothing ran."""
    share = share_of(cases, case, arm)
    return Fraction(share.passed, share.total) if share.total else None


@remembered_of_runs
def _kind_rates(case: CaseRecord, kind: str, arm: Arm) -> tuple[Fraction, Fraction] | None:
    """Rates of an arm and without the skill; None where one of them has no run that counts."""
    ones, others = paired_runs(case, arm, Arm.WITHOUT_SKILL)
    chosen = _of_kind(case, kind)
    one, other = share_over(ones, chosen), share_over(others, chosen)
    if not one.total or not other.total:
        return None
    return Fraction(one.passed, one.total), Fraction(other.passed, other.total)


def _of_kind(case: CaseRecord, kind: str) -> tuple[Assertion, ...]:
    return tuple(item for item in weighty(case) if item.kind == kind)


def letter(rate: Share, *, vetoed: bool) -> str | None:
    """The release grade; None where nothing was tried."""
    if vetoed:
        return "F"
    if rate.rate is None:
        return None
    return next((grade for grade, at_least in GRADES if rate.rate >= at_least), "D")


def authoritative(cases: Sequence[CaseRecord], *, confirm: bool = True) -> Share:
    """Cases passed of cases completed, over the head suite (Decision 6, DESIGN.md 3: the base suite must not regress,
    the head suite must pass). A case with no verdict of its own stays in the total."""
    counted = [case_passed(case, confirm=confirm) for case in head_suite(cases) if usable_runs(case, Arm.WITH_SKILL)]
    return Share(passed=counted.count(True), total=len(counted))


def head_suite(cases: Iterable[CaseRecord]) -> tuple[CaseRecord, ...]:
    """Cases that the head suite has, can run and can say something.

    Trigger queries are none of them where there are others: forty short questions that any description passes must not
    hide four pieces of work that fail.
    """
    able = [case for case in cases if case.plan.origin != "base" and case.plan.blocked is None and counting(case)]
    return tuple(case for case in able if case.plan.case.trigger is None) or tuple(able)


@dataclass(frozen=True)
class Lift:
    """With against without, over the cases that have both."""

    with_rate: Fraction
    without_rate: Fraction
    cases: int
    left_out: int
    kind: str
    deltas: tuple[Fraction, ...] = ()
    """Of each case: its rate with the skill minus that without."""

    @property
    def delta(self) -> Fraction:
        """Mean over cases of the difference of the two rates; exact, so that equal rates give 0."""
        return self.with_rate - self.without_rate

    @property
    def chance(self) -> float:
        """One-sided p of a lift as high where the skill changes nothing: every sign of a delta is then a coin's.

        By the permutation test of the deltas where their sums can be counted, else by the sign test, which needs no more.
        """
        scale = math.lcm(*(delta.denominator for delta in self.deltas))
        if len(self.deltas) * sum(abs(delta) for delta in self.deltas) * scale <= COUNTED_SUMS:
            return statistics.sign_flip_test(self.deltas)
        return statistics.sign_test(sum(delta > 0 for delta in self.deltas), sum(delta < 0 for delta in self.deltas))


def lift_of(cases: Sequence[CaseRecord], arm: Arm = Arm.WITH_SKILL) -> Lift | None:
    """The source's Delta, per case and then averaged (never pooled: filled cases have more runs). None: not computed."""
    kind = _source_kind(cases)
    rates = [found for case in cases if (found := _kind_rates(case, kind, arm)) is not None]
    if not rates:
        return None
    return Lift(
        with_rate=sum((rate for rate, _ in rates), Fraction(0)) / len(rates),
        without_rate=sum((rate for _, rate in rates), Fraction(0)) / len(rates),
        cases=len(rates),
        left_out=len(cases) - len(rates),
        kind=f"{kind}s",
        deltas=tuple(with_rate - without_rate for with_rate, without_rate in rates),
    )


@dataclass(frozen=True)
class Duel:
    """Layer 3 over the suite, in cases."""

    won: int
    lost: int
    tied: int
    not_run: int
    leads: tuple[Fraction, ...] = ()
    """Of every compared case: the mean sum of scores with the skill minus that without, over orders and pairs."""

    @property
    def decided(self) -> int:
        """Cases that were no tie."""
        return self.won + self.lost

    @property
    def wins(self) -> bool:
        """The one-sided suite test says that the skill is better, and so do the decided cases."""
        return self._shown(self.won - self.lost, self.leads)

    @property
    def loses(self) -> bool:
        """The one-sided suite test says that the baseline is better, and so do the decided cases."""
        return self._shown(self.lost - self.won, tuple(-lead for lead in self.leads))

    @property
    def p_lost(self) -> float:
        """One-sided exact p of this many lost among the decided cases, if the arms were equal."""
        return statistics.sign_test(self.lost, self.won)

    @property
    def open(self) -> bool:
        """Too few cases to tell: too few decided ones, or more of one side than chance would give, and not enough."""
        one_sided = min(statistics.sign_test(self.won, self.lost), self.p_lost)
        return self.decided < ENOUGH_DECIDED or (one_sided <= WIN_LEVEL and not self.wins and not self.loses)

    def _shown(self, more: int, leads: tuple[Fraction, ...]) -> bool:
        return self.decided >= ENOUGH_DECIDED and more > 0 and statistics.signed_rank(leads) <= LEAD_LEVEL


@remembered
def outcome_of(case: CaseRecord) -> Winner | None:
    """Who won a case after unblinding; None where Layer 3 did not run, or what was opened is not what was sealed."""
    comparison, opened = case.layer3.comparison, case.layer3.unblinding
    if isinstance(comparison, NotRun) or opened is None or not opened.fits(comparison):
        return None
    return opened.outcome


def duel_of(cases: Iterable[CaseRecord]) -> Duel:
    """Won, lost and tied cases, and by how much."""
    compared = [(outcome_of(case), lead_of(case)) for case in cases]
    outcomes = [outcome for outcome, _ in compared]
    return Duel(
        won=outcomes.count(Winner.SKILL),
        lost=outcomes.count(Winner.BASELINE),
        tied=outcomes.count(Winner.TIE),
        not_run=outcomes.count(None),
        leads=tuple(lead for _, lead in compared if lead is not None),
    )


def lead_of(case: CaseRecord) -> Fraction | None:
    """By how much the scores with the skill are above those without; None where there is no outcome."""
    comparison, opened = case.layer3.comparison, case.layer3.unblinding
    if outcome_of(case) is None or isinstance(comparison, NotRun) or opened is None:
        return None
    return comparison.difference if opened.with_skill == "A" else -comparison.difference


@dataclass(frozen=True)
class JudgeHealth:
    """What the controls say about the judge of this session."""

    asked: int
    answered: int
    false_asked: int
    false_passed: int
    true_asked: int
    true_failed: int
    said_pass: int = 0
    said: int = 0
    """Of the expectations: how often the judge said pass, of how often it said pass or fail, before code looked at it."""

    @property
    def sentence(self) -> str:
        """For the report. Controls are easy, so their TPR and TNR are upper bounds (judging.md 1.1)."""
        if not self.answered:
            return "judge health unknown: no control was answered in this session"
        counted = (
            f"{self.answered} of {self.asked} controls answered; known-false ones passed: {self.false_passed} of "
            f"{self.false_asked}; known-true ones failed: {self.true_failed} of {self.true_asked}"
        )
        if not self.false_asked or not self.true_asked:
            return counted
        true_passed, false_failed = self.true_asked - self.true_failed, self.false_asked - self.false_passed
        rates = (
            f"TPR {_with_interval(true_passed, self.true_asked)}, TNR {_with_interval(false_failed, self.false_asked)}"
        )
        return f"{counted}; {rates}, at best{self._corrected(true_passed, false_failed)}"

    def _corrected(self, true_passed: int, false_failed: int) -> str:
        if not self.said:
            return ""
        corrected = statistics.corrected_rate(
            self.said_pass,
            self.said,
            true_passed=true_passed,
            true_asked=self.true_asked,
            false_failed=false_failed,
            false_asked=self.false_asked,
        )
        if corrected is None:
            return f"; TPR + TNR - 1 is under {statistics.WEAK_JUDGE}: its pass rate means nothing"
        return (
            f"; it passed {self.said_pass} of {self.said} expectations, corrected for its errors "
            f"{corrected.rate:.0%} ({corrected.low:.0%} to {corrected.high:.0%})"
        )


def stored_sentence(known: JudgeCalibration) -> str:
    """What a stored calibration says of a judge."""
    return (
        f"stored calibration of {known.model}, {known.date}: TPR "
        f"{_with_interval(known.true_asked - known.true_failed, known.true_asked)}, TNR "
        f"{_with_interval(known.false_asked - known.false_passed, known.false_asked)}"
    )


def is_weak(known: JudgeCalibration) -> bool:
    """Whether a stored calibration says that a judge's verdicts mean little (judging.md 5.7)."""
    right = Fraction(known.true_asked - known.true_failed, known.true_asked)
    right += Fraction(known.false_asked - known.false_passed, known.false_asked)
    return right - 1 < Fraction(statistics.WEAK_JUDGE).limit_denominator(1000)


def _with_interval(hits: int, total: int) -> str:
    low, high = statistics.wilson(hits, total)
    return f"{hits / total:.0%} ({low:.0%} to {high:.0%})"


def judge_health(cases: Iterable[CaseRecord]) -> JudgeHealth:
    """Sums over the gradings of all runs, voided ones too: what voids a batch is what health is about."""
    return JudgeHealth(*map(sum, zip((0,) * 8, *(_health(case) for case in cases), strict=True)))


@remembered_of_runs
def _health(case: CaseRecord) -> tuple[int, ...]:
    """The counts of ``JudgeHealth`` in their order, of one case."""
    listed = list(gradings([case]))
    controls: list[ControlGrade] = [control for grading in listed for control in grading.controls]
    said = [row.model_said for grading in listed for row in grading.rows if row.model_said is not None]
    answered = [control for control in controls if control.model_said is not None]
    false_ones = [control for control in answered if not control.known]
    true_ones = [control for control in answered if control.known]
    return (
        len(controls),
        len(answered),
        len(false_ones),
        sum(control.model_said is True for control in false_ones),
        len(true_ones),
        sum(control.model_said is False for control in true_ones),
        said.count(True),
        len(said),
    )


def gradings(cases: Iterable[CaseRecord]) -> Iterator[Grading]:
    """Every grading that there is."""
    for case in cases:
        for run in case.runs:
            if not isinstance(run.judgement.grading, NotRun):
                yield run.judgement.grading


def graded_share(cases: Iterable[CaseRecord], arm: Arm) -> Share:
    """Expectations with a verdict, of all expectations over the completed runs of an arm."""
    return add(_graded(case, arm) for case in cases)


@remembered_of_runs
def _graded(case: CaseRecord, arm: Arm) -> Share:
    rows = [
        grade_row(run, expectation.id)
        for run in usable_runs(case, arm)
        if run.record.completed
        for expectation in case.plan.case.expectations
    ]
    return Share(
        passed=sum(row is not None and row.status is not GradeStatus.UNGRADED for row in rows), total=len(rows)
    )


def planned_runs(cases: Iterable[CaseRecord], arm: Arm) -> tuple[int, int]:
    """(planned, finished) of an arm: what the plan asks for and what fill and confirm added; what of it is usable."""
    counts = [_planned(case, arm) for case in cases]
    return sum(planned for planned, _ in counts), sum(finished for _, finished in counts)


@remembered_of_runs
def _planned(case: CaseRecord, arm: Arm) -> tuple[int, int]:
    plan = case.plan.arm(arm)
    planned = plan.runs if plan is not None and plan.skipped is None and case.plan.blocked is None else 0
    planned += sum(run.record.purpose != "planned" for run in case.of(arm))
    return planned, len(usable_runs(case, arm))


def arm_skipped(cases: Iterable[CaseRecord], arm: Arm) -> str | None:
    """Why an arm was skipped, with the number of cases; None where it ran in every case that can run."""
    reasons: Counter[str] = Counter()
    for case in cases:
        plan = case.plan.arm(arm)
        if case.plan.blocked is None and (plan is None or plan.skipped is not None or plan.runs == 0):
            reasons[(plan.skipped if plan is not None else None) or "not planned"] += 1
    if not reasons:
        return None
    return "; ".join(f"{reason} ({count} {plural(count, 'case')})" for reason, count in sorted(reasons.items()))


def all_arms(cases: Sequence[CaseRecord]) -> tuple[ArmFigures, ...]:
    """The arms that a verdict may rest on, then the optional ones that were planned. Trigger queries are counted where
    there is nothing else: beside real work they would blur what the arms differ in."""
    cases = [case for case in cases if case.plan.case.trigger is None] or cases
    planned = {plan.arm for case in cases for plan in case.plan.arms if plan.runs}
    shown = (*COMPARED_ARMS, *(arm for arm in OPTIONAL_ARMS if arm in planned))
    return tuple(arm_figures(cases, arm) for arm in shown) if cases else ()


def arm_figures(cases: Sequence[CaseRecord], arm: Arm) -> ArmFigures:
    """The figures of one arm over all cases."""
    planned, finished = planned_runs(cases, arm)
    runs = [(case, run) for case in cases for run in usable_runs(case, arm)]
    completed = [(case, run) for case, run in runs if run.record.completed]
    shares = [share_over([run], weighty(case)) for case, run in runs]
    rates = [share.rate for share in shares if share.rate is not None]
    costs = [run.record.metrics.cost_usd for _, run in runs]
    tokens = [run.record.metrics.total_tokens for _, run in runs]
    known_costs = [cost for cost in costs if cost is not None]
    known_tokens = [float(count) for count in tokens if count is not None]
    return ArmFigures(
        arm=arm,
        planned=planned,
        finished=finished,
        completed=len(completed),
        activated=sum(run.record.metrics.activated for _, run in completed),
        graded=sum(fully_graded(case, run) for case, run in completed),
        assertions=add(shares),
        assertions_interval=_clustered(cases, arm),
        pass_at_2=statistics.mean_pass_at_k(_runs_passed(cases, arm), 2),
        pass_hat_2=statistics.mean_pass_hat_k(_runs_passed(cases, arm), 2),
        mean_rate=statistics.mean(rates),
        sd_rate=statistics.sample_sd(rates),
        # Unknown is not zero: a mean over the known part would flatter the runs that died on budget.
        mean_tokens=statistics.mean(known_tokens) if len(known_tokens) == len(tokens) else None,
        cost_usd=math.fsum(known_costs) if costs and len(known_costs) == len(costs) else None,
        skipped=arm_skipped(cases, arm),
    )


def _clustered(cases: Sequence[CaseRecord], arm: Arm) -> tuple[float, float] | None:
    """The interval of the assertion rate over cases: runs of one case are alike, so they are one value of it."""
    shares = [share_over(usable_runs(case, arm), weighty(case)) for case in cases]
    found = statistics.clustered([(share.passed, share.total) for share in shares if share.total])
    return None if found is None else (six_digits(found.low), six_digits(found.high))


def _runs_passed(cases: Sequence[CaseRecord], arm: Arm) -> list[tuple[int, int]]:
    """(usable runs, those in which every deciding assertion held) of each case."""
    counts = []
    for case in cases:
        runs, deciding = usable_runs(case, arm), counting(case)
        if deciding:
            counts.append((len(runs), sum(all(holds(run, item) for item in deciding) for run in runs)))
    return counts


def fully_graded(case: CaseRecord, run: JudgedRun) -> bool:
    """Whether every expectation of a completed run has a verdict."""
    rows = [grade_row(run, expectation.id) for expectation in case.plan.case.expectations]
    return all(row is not None and row.status is not GradeStatus.UNGRADED for row in rows)


def crashes(cases: Iterable[CaseRecord]) -> Share:
    """With-runs that the agent's doing ended (V4), of the usable ones."""
    return add(_crashed(case) for case in cases)


@remembered_of_runs
def _crashed(case: CaseRecord) -> Share:
    runs = usable_runs(case, Arm.WITH_SKILL)
    return Share(passed=sum(run.record.outcome is not Outcome.COMPLETED for run in runs), total=len(runs))


def activation(cases: Iterable[CaseRecord]) -> Share:
    """With-runs that opened the skill, of the completed ones in which it was offered and might be opened."""
    return add(_opened(case) for case in cases)


@remembered_of_runs
def _opened(case: CaseRecord) -> Share:
    if case.plan.case.mode == "loaded" or case.plan.case.trigger is False:
        return Share(passed=0, total=0)
    runs = [run for run in usable_runs(case, Arm.WITH_SKILL) if run.record.completed]
    return Share(passed=sum(run.record.metrics.activated for run in runs), total=len(runs))


def fallback_sums(record: SkillRecord) -> tuple[FallbackCount, ...]:
    """Every fallback of a skill, summed by kind and role (DESIGN.md 9), with the runs dropped and the arms skipped."""
    sums: Counter[tuple[str, str]] = Counter()
    for item in _contract_fallbacks(record):
        sums[item.kind, item.role] += item.count
    for case in record.cases:
        parts = [run.record.fallbacks for run in case.runs]
        parts += [(FallbackCount(kind="run_reused", count=1),) for run in case.runs if run.reused]
        parts += [run.judgement.grading.fallbacks for run in case.runs]
        parts += [run.discussion.fallbacks for run in case.runs]
        parts += [case.layer3.comparison.fallbacks, case.layer3.analysis.fallbacks]
        for item in (count for part in parts for count in part):
            sums[item.kind, item.role] += item.count
        if case.plan.blocked is None:
            sums["runs_dropped", "executor"] += _dropped(case)
            for plan in case.plan.arms:
                if plan.skipped is not None:
                    sums[f"arm_skipped:{plan.arm.value}: {plan.skipped}", ""] += 1
    return tuple(
        FallbackCount(kind=kind, role=role, count=count) for (kind, role), count in sorted(sums.items()) if count
    )


def _contract_fallbacks(record: SkillRecord) -> tuple[FallbackCount, ...]:
    contract = record.contract
    if contract is None:
        return ()
    signed = contract.tasks if isinstance(contract, SkillContract) else ()
    return (*contract.fallbacks, *(item for task in signed for item in task.fallbacks))


def _dropped(case: CaseRecord) -> int:
    """Runs that count for nothing: void ones, and planned ones without a record."""
    void = sum(not is_usable(run) for run in case.runs)
    planned = sum(plan.runs for plan in case.plan.arms if plan.skipped is None)
    recorded = sum(run.record.purpose == "planned" for run in case.runs)
    return void + max(0, planned - recorded)


def degraded_replies(fallbacks: Iterable[FallbackCount]) -> int:
    """How many replies ended without a verdict of a model: named in the verdict where not zero."""
    return sum(item.count for item in fallbacks if item.kind.endswith(DEGRADED))


def _passed_runs(case: CaseRecord, arm: Arm) -> Share:
    verdicts = [passed_over(case, [run]) for run in usable_runs(case, arm)]
    return Share(passed=verdicts.count(True), total=len(verdicts) - verdicts.count(None))


def case_report(case: CaseRecord, slug: str) -> CaseReport:
    """One case for the report."""
    plan = case.plan
    runs = {arm: share for arm in COMPARED_ARMS if (share := _passed_runs(case, arm)).total}
    with_skill, without = (runs.get(arm) for arm in (Arm.WITH_SKILL, Arm.WITHOUT_SKILL))
    interval = None
    if with_skill and without:
        interval = statistics.difference((with_skill.passed, with_skill.total), (without.passed, without.total))
    return CaseReport(
        eval_id=plan.case.eval_id,
        name=plan.case.name,
        type=plan.case.type.value,
        passed=None if plan.blocked is not None else case_passed(case),
        reasons=_case_reasons(case),
        comparison=_comparison(case),
        comparison_detail="",
        analysis=(),
        folder=case_folder(slug, plan.case.eval_id),
        passed_runs=runs,
        lift_interval=interval,
        pairs=_pairs(case),
        with_skill=share_over(usable_runs(case, Arm.WITH_SKILL), weighty(case)),
        without_skill=share_over(usable_runs(case, Arm.WITHOUT_SKILL), weighty(case)),
        base_skill=share_over(usable_runs(case, Arm.BASE_SKILL), weighty(case)),
    )


def _pairs(case: CaseRecord) -> tuple[ComparedPair, ...]:
    """What the comparator said before unblinding, beside what the labels stood for."""
    comparison, opened = case.layer3.comparison, case.layer3.unblinding
    if isinstance(comparison, NotRun):
        return ()
    return tuple(
        ComparedPair(
            run_with=pair.run_with,
            run_without=pair.run_without,
            winner=pair.winner,
            position_unstable=pair.position_unstable,
            with_skill=opened.with_skill if opened is not None and opened.fits(comparison) else None,
            orders=tuple(
                ComparedOrder(
                    first=item.first,
                    a=item.a.to_json(),
                    b=item.b.to_json(),
                    winner=item.winner,
                    reasoning=item.reasoning[:REASONING_CHARACTERS],
                    second_family=item.second_family,
                )
                for item in pair.orders
            ),
        )
        for pair in comparison.pairs
    )


def _comparison(case: CaseRecord) -> str:
    won = outcome_of(case)
    if won is not None:
        return won.value
    comparison = case.layer3.comparison
    return f"not run: {comparison.not_run if isinstance(comparison, NotRun) else 'no assignment of this comparison was opened'}"


def _case_reasons(case: CaseRecord) -> tuple[str, ...]:
    if case.plan.blocked is not None:
        return (f"blocked: {case.plan.blocked}",)
    runs = usable_runs(case, Arm.WITH_SKILL)
    reasons = list(case.missing)
    if not counting(case):
        reasons.append("has no check and no expectation that counts")
    for assertion in weighty(case):
        counts = tally(runs, assertion)
        if counts.failed or counts.unknown:
            unknown = f", {counts.unknown} without a verdict" if counts.unknown else ""
            reasons.append(f"{assertion.label} passed in {counts.passed} of {counts.total} with-runs{unknown}")
    reasons += [
        f"run {run.record.key.run} {run.record.key.arm.value}: {run.record.outcome.value}: {run.record.reason}"
        for arm in COMPARED_ARMS
        for run in case.of(arm)
        if run.record.outcome is not Outcome.COMPLETED
    ]
    return tuple(reasons)
