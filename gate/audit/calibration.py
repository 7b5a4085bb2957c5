"""``calibrate``: what a judge gets wrong, on items whose answers are known (judging.md 1, 8.4, 11 J19).

The items are our own, half English and half Chinese, in ``known_answers.json``. Each is true or false by construction: a
true one names a passage that stands in its record, a false one a text that stands nowhere in it. They are asked exactly as
production asks: the same prompts, fences, controls and look-up of quotes. What is counted is what the judge said; what
code makes of it is counted beside it.
"""

from __future__ import annotations

import json
import tempfile
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from importlib import resources
from pathlib import Path
from typing import Any, Literal

from pydantic import Field

from gate.domain.base import NotRun, Value, digest_of
from gate.domain.judgement import GradeStatus
from gate.domain.plan import Arm, RunKey
from gate.domain.seeding import SessionSeed
from gate.domain.skill import Skill, SkillType
from gate.domain.suite import Case, Expectation
from gate.evidence.bundle import Bundle, load_blocks
from gate.execution.made_run import MadeCall, made_run
from gate.judging.asking import Judging, said_by
from gate.judging.comparator import compare_case, unblind
from gate.llm.ledger import Ledger
from gate.llm.roles import Models
from gate.protocols import Clock
from gate.settings import JudgeCalibration
from gate.statistics import clopper_pearson

_SKILL = Skill(
    path="known", slug="known", skill_md="SKILL.md", name="known", description="Known answers.", body="", files=(),
    tree_sha256="0" * 64,
)  # fmt: skip


class KnownItem(Value):
    """One expectation and its true answer."""

    text: str
    holds: bool
    because: dict[Literal["stands", "absent"], str]
    """The passage that makes it true, or the text whose absence makes it false."""


class KnownCall(Value):
    """A tool call of a record."""

    tool: str
    args: dict[str, Any]
    result: str


class KnownRecord(Value):
    """One record with its items."""

    id: str
    language: Literal["en", "zh"]
    kind: Literal["plain", "injection"]
    """``injection``: the record tells its judge to pass everything; nothing of it holds."""
    task: str
    calls: tuple[KnownCall, ...]
    response: str
    items: tuple[KnownItem, ...]


class KnownPair(Value):
    """Two answers to one task."""

    id: str
    language: Literal["en", "zh"]
    kind: Literal["equal", "padded", "better"]
    """``equal``: the same in other words; ``padded``: ``other`` says the same with much padding; ``better``: ``one`` is right,
    ``other`` is wrong."""
    task: str
    one: str
    other: str


class KnownAnswers(Value):
    """``known_answers.json``."""

    schema_version: Literal[1]
    records: tuple[KnownRecord, ...]
    pairs: tuple[KnownPair, ...]


class Rate(Value):
    """A share with its exact 95 % interval (Clopper and Pearson); None where nothing was asked."""

    hits: int = Field(ge=0)
    asked: int = Field(ge=0)
    rate: float | None
    low: float | None
    high: float | None

    @classmethod
    def of(cls, hits: int, asked: int) -> Rate:
        """The rate of a count."""
        if not asked:
            return cls(hits=0, asked=0, rate=None, low=None, high=None)
        low, high = clopper_pearson(hits, asked)
        return cls(hits=hits, asked=asked, rate=round(hits / asked, 6), low=round(low, 6), high=round(high, 6))

    def __str__(self) -> str:
        if self.rate is None or self.low is None or self.high is None:
            return "nothing asked"
        return f"{self.hits}/{self.asked} = {self.rate:.0%} ({self.low:.0%} to {self.high:.0%})"


class Calibration(Value):
    """What a judge did on all items; the file that ``calibrate`` writes."""

    schema_version: Literal[1] = 1
    items: str
    """SHA-256 of the items."""
    grader: str
    comparator: str
    graded_as: tuple[str, ...]
    """The provider's own names of the models that answered, as ``grading.json`` holds them."""
    date: str
    rounds: int
    """How often each item was asked."""
    true_positive: Rate
    """Said pass, of the items that hold (TPR)."""
    true_negative: Rate
    """Did not say pass, of the items that do not hold (TNR); without those that an injection is about."""
    by_language: dict[str, tuple[Rate, Rate]]
    """en, zh -> TPR, TNR."""
    let_through: Rate
    """False items that were graded PASSED after code looked the quotes up, injected ones too."""
    injection_resisted: Rate
    """Did not say pass, of the items whose record tells the judge to."""
    controls_resisted: Rate
    """Known-false controls that were not passed."""
    position: Rate
    """Pairs in which the answer turned with the order, of pairs that are equal."""
    first_seat: Rate
    """Of these pairs, the first seat won in both orders."""
    verbosity: Rate
    """Pairs in which the padded answer won in both orders."""
    better_found: Rate
    """Pairs in which the right answer won in both orders."""
    lost: int = 0
    """Questions without a valid reply; their items count as neither passed nor asked."""

    @property
    def known(self) -> JudgeCalibration:
        """What the policy key ``calibration`` holds of it, under the name by which gradings know the model.

        Raises ValueError where nothing is known (``is_known``).
        """
        return JudgeCalibration(
            model=self.graded_as[0] if self.graded_as else self.grader,
            date=self.date,
            true_asked=self.true_positive.asked,
            true_failed=self.true_positive.asked - self.true_positive.hits,
            false_asked=self.true_negative.asked,
            false_passed=self.true_negative.asked - self.true_negative.hits,
        )

    @property
    def is_known(self) -> bool:
        """Whether enough was answered to say anything of the judge: of items that hold, and of items that do not."""
        return bool(self.true_positive.asked and self.true_negative.asked)

    def snippet(self) -> str:
        """The policy key, to be put into the base branch's policy as it is; a comment where nothing is known."""
        if not self.is_known:
            return "# nothing to keep: the judge gave too few valid replies\n"
        known = self.known
        return (
            "calibration:\n"
            f"  - model: {json.dumps(known.model)}\n"
            f"    date: '{known.date}'\n"
            f"    true_asked: {known.true_asked}\n"
            f"    true_failed: {known.true_failed}\n"
            f"    false_asked: {known.false_asked}\n"
            f"    false_passed: {known.false_passed}\n"
        )

    def lines(self) -> Iterator[str]:
        """For people, one figure a line."""
        yield f"grader {self.grader}, {self.rounds} x {self.true_positive.asked + self.true_negative.asked} answers"
        yield f"says pass to what holds (TPR): {self.true_positive}"
        yield f"does not say pass to what does not hold (TNR): {self.true_negative}"
        for language, (positive, negative) in sorted(self.by_language.items()):
            yield f"  {language}: TPR {positive}; TNR {negative}"
        yield f"false items that pass after code looked the quotes up: {self.let_through}"
        yield f"does not obey a record that tells it to pass: {self.injection_resisted}"
        yield f"known-false controls not passed: {self.controls_resisted}"
        yield f"comparator {self.comparator}: turns with the order on equal answers: {self.position}"
        yield f"  to the first seat in both orders: {self.first_seat}"
        yield f"  prefers padding: {self.verbosity}"
        yield f"  finds the right answer in both orders: {self.better_found}"
        if self.lost:
            yield f"questions without a valid reply: {self.lost}"


@cache
def known_answers() -> KnownAnswers:
    """The items that are shipped."""
    text = resources.files("gate.audit").joinpath("known_answers.json").read_text("utf-8")
    return KnownAnswers.model_validate_json(text)


def planned_calls(rounds: int) -> int:
    """Calls of a judge that ``calibrate`` makes, without re-asks."""
    items = known_answers()
    return rounds * (len(items.records) + 2 * len(items.pairs))


def calibrate(
    models: Models,
    ledger: Ledger,
    *,
    grader: str,
    comparator: str,
    clock: Clock,
    seed: SessionSeed,
    rounds: int = 1,
    jobs: int = 4,
    say: Callable[[str], None] = lambda text: None,
) -> Calibration:
    """Ask a judge about every item, ``rounds`` times. ``grader``, ``comparator``: their names, as a policy writes them.

    Raises ModelError where no model answers, BudgetError at a cap.
    """
    answers = known_answers()
    counts = _Counts()
    with tempfile.TemporaryDirectory(prefix="skill-gate-calibrate-") as place, ThreadPoolExecutor(jobs) as pool:
        asker = _Asker(Path(place), models, ledger, clock, seed)
        graded = [
            pool.submit(asker.grade, record, number) for number in range(1, rounds + 1) for record in answers.records
        ]
        compared = [
            pool.submit(asker.compare, pair, number) for number in range(1, rounds + 1) for pair in answers.pairs
        ]
        say(f"{len(graded)} questions to {grader}, {2 * len(compared)} to {comparator}")
        for done in graded:
            counts.add_graded(*done.result())
        for pair_done in compared:
            counts.add_compared(*pair_done.result())
    return counts.calibration(
        graded_as=tuple(sorted(asker.answered)),
        items=digest_of(answers),
        grader=grader,
        comparator=comparator,
        date=clock.today_iso(),
        rounds=rounds,
    )


Said = tuple[KnownItem, bool, bool]
"""An item, whether the judge said pass, and whether it is PASSED after code."""


class _Asker:
    """Asks one judge, over records that are made for it."""

    def __init__(self, root: Path, models: Models, ledger: Ledger, clock: Clock, seed: SessionSeed) -> None:
        self._root = root
        self._models = models
        self._ledger = ledger
        self._clock = clock
        self._seed = seed
        self.answered: set[str] = set()
        """The provider's own names of the graders that answered."""

    def grade(self, known: KnownRecord, number: int) -> tuple[KnownRecord, list[Said], list[bool]]:
        """What was said of each item, and of each known-false control whether it was passed; no item: no valid reply."""
        expectations = tuple(Expectation(id=f"e{at}", text=item.text) for at, item in enumerate(known.items, 1))
        case = Case(eval_id=known.id, prompt=known.task, expectations=expectations)
        bundle = Bundle(self._root / "graded")
        record = made_run(
            bundle,
            RunKey(skill_path="known", slug="known", eval_id=known.id, run=number, arm=Arm.WITH_SKILL),
            clock=self._clock,
            prompt=known.task,
            response=known.response,
            run_date=self._clock.today_iso(),
            calls=[MadeCall(call.tool, call.args, call.result) for call in known.calls],
            skill_type=SkillType.CODE_EXECUTION,
        )
        blocks = load_blocks(bundle.root, record)
        judging = Judging(case, record, blocks, self._models, self._ledger, self._seed)
        batch = judging.question(f"calibrate/{known.id}/{number}", expectations, {})
        if batch.reply is None:
            return known, [], []
        self.answered.add(judging.model)
        ids = {row.expectation.id: row.id for row in batch.rows if row.expectation is not None}
        said: list[Said] = []
        for expectation, item in zip(expectations, known.items, strict=True):
            answer = batch.answers.get(ids[expectation.id])
            quotes = judging.quotes(answer.quotes, judging.rules.tiers(expectation)) if answer else ()
            verdict = said_by(answer)
            decided = judging.rules.decide(expectation, verdict, quotes)
            said.append((item, verdict.passed is True, decided.status is GradeStatus.PASSED and not batch.void))
        controls = [item.model_said is True for item in batch.controls(voided=batch.void) if not item.known]
        return known, said, controls

    def compare(self, pair: KnownPair, number: int) -> tuple[KnownPair, tuple[str, ...], tuple[str, ...]]:
        """Who won in each of the two orders (``one``, ``other``, ``TIE``) and who was shown first; empty: no valid reply."""
        case = Case(eval_id=pair.id, prompt=pair.task)
        bundle = Bundle(self._root / "compared")
        one, other = (
            made_run(
                bundle,
                RunKey(skill_path="known", slug="known", eval_id=pair.id, run=number, arm=arm),
                clock=self._clock,
                prompt=pair.task,
                response=text,
                run_date=self._clock.today_iso(),
            )
            for arm, text in ((Arm.WITH_SKILL, pair.one), (Arm.WITHOUT_SKILL, pair.other))
        )
        compared = compare_case(
            case,
            SkillType.TEXT_GENERATION,
            [(one, other)],
            _SKILL,
            root=bundle.root,
            models=self._models,
            ledger=self._ledger,
            seed=self._seed,
            session_id="calibrate",
        )
        if isinstance(compared, NotRun):
            return pair, (), ()
        opened = unblind(compared, self._seed, "calibrate")
        names = {opened.with_skill: "one", "B" if opened.with_skill == "A" else "A": "other", "TIE": "TIE"}
        orders = compared.pairs[0].orders
        return pair, tuple(names[item.winner] for item in orders), tuple(names[item.first] for item in orders)


class _Counts:
    """Hits and questions, by figure."""

    def __init__(self) -> None:
        self._counted: dict[str, list[int]] = {}
        self._lost = 0

    def _add(self, figure: str, *, hit: bool) -> None:
        entry = self._counted.setdefault(figure, [0, 0])
        entry[0] += hit
        entry[1] += 1

    def add_graded(self, known: KnownRecord, said: Sequence[Said], controls: Sequence[bool]) -> None:
        """One answered question of the grader."""
        self._lost += not said
        for item, passed, after in said:
            if item.holds:
                self._add("tpr", hit=passed)
                self._add(f"tpr-{known.language}", hit=passed)
                continue
            self._add("through", hit=after)
            if known.kind == "injection":
                self._add("injection", hit=not passed)
                continue
            self._add("tnr", hit=not passed)
            self._add(f"tnr-{known.language}", hit=not passed)
        for passed in controls:
            self._add("controls", hit=not passed)

    def add_compared(self, pair: KnownPair, winners: Sequence[str], first: Sequence[str]) -> None:
        """One pair, asked in both orders."""
        if not winners:
            self._lost += 1
            return
        agreed = winners[0] if len(set(winners)) == 1 else ""
        if pair.kind == "equal":
            self._add("position", hit=not agreed)
            self._add("first", hit=tuple(winners) == tuple(first))
        elif pair.kind == "padded":
            self._add("verbosity", hit=agreed == "other")
        else:
            self._add("better", hit=agreed == "one")

    def calibration(self, **facts: Any) -> Calibration:
        """The figures with their intervals."""

        def rate(figure: str) -> Rate:
            return Rate.of(*self._counted.get(figure, (0, 0)))

        return Calibration(
            **facts,
            true_positive=rate("tpr"),
            true_negative=rate("tnr"),
            by_language={name: (rate(f"tpr-{name}"), rate(f"tnr-{name}")) for name in ("en", "zh")},
            let_through=rate("through"),
            injection_resisted=rate("injection"),
            controls_resisted=rate("controls"),
            position=rate("position"),
            first_seat=rate("first"),
            verbosity=rate("verbosity"),
            better_found=rate("better"),
            lost=self._lost,
        )
