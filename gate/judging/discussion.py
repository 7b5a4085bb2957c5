"""The discussion after a run: an evaluation in six dimensions, and an appeal that cannot be abused (DESIGN.md 4, R145-R181).

Evaluator, defender and prosecutor are clients of their own without a history: each question is a conversation of its own.
The two sides are heard on the same report, without hearing each other; what they bring is judged by somebody who knows
neither the scores nor the speakers. ``discussion_rules`` decides what counts. Whatever is said here moves no check, no
expectation and no verdict.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Any, Literal, NamedTuple

from pydantic import BeforeValidator

from gate.domain.base import NotRun
from gate.domain.chat import ChatRequest, Message, ReplySchema, Role
from gate.domain.discussion import MAX_ROUNDS, Dimension, Discussion
from gate.domain.evidence import Block
from gate.domain.judgement import Quote
from gate.domain.seeding import SessionSeed
from gate.errors import BudgetError, ModelError
from gate.evidence.quotes import QuoteIndex
from gate.judging.asking import looked_up
from gate.judging.counting import Fallbacks
from gate.judging.discussion_rules import (
    KEPT_CHARACTERS,
    POINTS_PER_SIDE,
    Exchange,
    Ground,
    Heard,
    Point,
    Side,
    Statement,
    admitted,
    captured,
    carried,
    cited_in,
    derive,
    end_reason,
    facts_of,
    hundredths,
    simple_reason,
)
from gate.judging.ground_truth.values import clip, storable
from gate.judging.schema import Reply
from gate.judging.showing import cut_to, for_a_judge
from gate.llm.ledger import Ledger
from gate.llm.prompting import Fence, load_prompt, numbered
from gate.llm.replies import Asked, ReplyProblem, ask
from gate.llm.roles import Models

FILE_CHARACTERS = 3_000
"""R168: of a file that the run left, shown to every role."""
_QUOTES, _QUOTE_CHARACTERS = 3, 2_000
_REASON_CHARACTERS = 300
_OUTPUT_TOKENS = 4_096
_SIDES: tuple[tuple[Side, Role], ...] = (("defender", Role.DEFENDER), ("prosecutor", Role.PROSECUTOR))
_Name = Literal["task_completion", "truthfulness", "tool_accuracy", "output_quality", "error_recovery", "efficiency"]


def _score(value: Any) -> Any:
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value <= 1:
        raise ValueError("this must be a number from 0 to 1, written without quotes")
    return float(value)


_Score = Annotated[float, BeforeValidator(_score)]


class _QuoteReply(Reply):
    source: str
    text: str


class _DimensionReply(Reply):
    dimension: _Name
    score: _Score
    quotes: list[_QuoteReply]
    reason: str


class _CriterionReply(Reply):
    id: str
    met: Literal["yes", "no", "unsure"]
    quotes: list[_QuoteReply]


class _EvaluationReply(Reply):
    dimensions: list[_DimensionReply]
    criteria: list[_CriterionReply]
    note: str


class _AgainReply(Reply):
    dimension: _Name
    score: _Score
    reason: str


class _ScoresReply(Reply):
    dimensions: list[_AgainReply]


class _ObjectionReply(Reply):
    dimension: _Name
    text: str
    quotes: list[_QuoteReply]


class _SideReply(Reply):
    accepts: bool
    objections: list[_ObjectionReply]


class _Lost(Exception):  # noqa: N818 - ends a round, not the program
    """A voice is missing: the round counts for nothing."""


class _Spoken(NamedTuple):
    accepts: bool
    points: tuple[Point, ...]
    left_out: int


def discuss_run(
    ground: Ground, *, models: Models, ledger: Ledger, seed: SessionSeed, label: str = ""
) -> Discussion | NotRun:
    """Evaluate one sealed, completed run and hear both sides; NotRun with the reason where it is simple (R215).

    An evaluator without a valid reply gives a report by rules alone, marked ``degraded``, and nobody is heard about it. A
    side or a new evaluation that is lost later (no answer, no valid reply, a cap) voids its round and ends the discussion
    with the scores of the rounds before. Raises ModelError and BudgetError where the first report could not be asked for.
    """
    reason = simple_reason(ground)
    if reason is not None:
        return NotRun(not_run=reason)
    return _Chamber(ground, models, ledger, seed, label or f"{ground.record.key.label}/discuss").hold()


class _Chamber:
    """One discussion while it is held."""

    def __init__(self, ground: Ground, models: Models, ledger: Ledger, seed: SessionSeed, label: str) -> None:
        self._ground, self._models, self._ledger, self._seed, self._label = ground, models, ledger, seed, label
        self._index = QuoteIndex(ground.blocks)
        shown, cut = _shown(ground.blocks)
        self._for_sides = shown
        self._for_evaluator = for_a_judge(shown)
        self._cut = cut
        self._fallbacks = Fallbacks(Role.EVALUATOR)
        self._fallbacks.count("record_cut", int(bool(cut)))
        self._replied: dict[str, str] = {}
        self._notes = [warning] if (warning := captured(ground)) else []

    def hold(self) -> Discussion:
        first, criteria, problem = self._first()
        exchange = Exchange(first, (), criteria)
        if first is None:
            self._fallbacks.count("evaluation_rules_only")
            self._notes.append(f"the evaluator gave no valid report, so every score is by rule: {clip(problem, 150)}")
        discussion = self._derive(exchange)
        while end_reason(exchange, discussion.rounds, self._ground.max_rounds) is None:
            heard = self._round(len(exchange.rounds) + 1, discussion)
            exchange = exchange._replace(rounds=(*exchange.rounds, heard))
            if heard.lost:
                self._notes.append(f"round {len(exchange.rounds)} is void: {heard.lost}")
            discussion = self._derive(exchange)
        self._count(discussion)
        return discussion.model_copy(update={"fallbacks": self._fallbacks.values(), "models": dict(self._replied)})

    def _derive(self, exchange: Exchange) -> Discussion:
        return derive(exchange, self._ground, degraded="; ".join(self._notes), cut=self._cut)

    def _count(self, discussion: Discussion) -> None:
        self._fallbacks.count(f"discussion_end:{discussion.end_reason}")
        self._fallbacks.count("dimension_by_rule", sum(row.method == "rule" for row in discussion.initial))
        self._fallbacks.count("dimension_without_score", sum(row.method == "none" for row in discussion.initial))
        self._fallbacks.count("objection_void", discussion.void_objections)
        self._fallbacks.count("objections_over_limit", sum(item.left_out for item in discussion.rounds))

    # The first report

    def _first(
        self,
    ) -> tuple[dict[Dimension, Statement] | None, tuple[tuple[bool | None, tuple[Quote, ...]], ...], str]:
        asked = self._evaluate(f"{self._label}/evaluate", tuple(Dimension), self._ground.criteria)
        reply = asked.value
        none = tuple((None, ()) for _ in self._ground.criteria)
        if reply is None:
            return None, none, asked.problem
        said = {Dimension(row.dimension): self._statement(row) for row in reply.dimensions}
        missing = tuple(name for name in Dimension if name not in said or not carried(said[name]))
        if missing:
            self._fallbacks.count("dimension_reasked", len(missing))
            try:
                again = self._evaluate(f"{self._label}/evaluate/missing", missing, ()).value
            except (ModelError, BudgetError) as error:
                # The rules fill what this question was about; that nobody could be asked is said.
                self._fallbacks.count("dimension_reask_lost")
                self._notes.append(f"{len(missing)} dimensions could not be asked for again: {clip(str(error), 150)}")
                again = None
            for row in again.dimensions if again else ():
                second = self._statement(row)
                if carried(second) or Dimension(row.dimension) not in said:
                    said[Dimension(row.dimension)] = second
        by_id = {row.id: row for row in reply.criteria}
        criteria = tuple(self._criterion(by_id.get(f"k{n}")) for n, _ in enumerate(self._ground.criteria, 1))
        return said, criteria, ""

    def _evaluate(
        self, label: str, dimensions: Sequence[Dimension], criteria: Sequence[str]
    ) -> Asked[_EvaluationReply]:
        ids = {f"k{number}" for number, _ in enumerate(criteria, 1)}
        names = {item.value for item in dimensions}

        def parse(data: dict[str, Any]) -> _EvaluationReply:
            reply = _EvaluationReply.model_validate(data)
            _each_once([row.dimension for row in reply.dimensions], names)
            _each_once([row.id for row in reply.criteria], ids)
            return reply

        fence = Fence(self._seed.token("evaluator-fence", label))
        parts = self._opening(fence)
        if criteria:
            lines = [f"k{number} | {' '.join(text.split())}" for number, text in enumerate(criteria, 1)]
            parts += ["# Criteria", fence.wrap("criteria", "\n".join(lines))]
        parts += ["# Record", numbered(self._for_evaluator, fence), self._note_of_cuts()]
        parts.append(f"Give the dimensions {', '.join(item.value for item in dimensions)}.")
        return self._ask(Role.EVALUATOR, label, load_prompt("evaluator"), parts, parse, _EvaluationReply)

    def _statement(self, row: _DimensionReply) -> Statement:
        dimension = Dimension(row.dimension)
        quotes = self._quotes(row.quotes, self._ground.tiers(dimension))
        return Statement(hundredths(row.score), clip(row.reason, _REASON_CHARACTERS), quotes)

    def _criterion(self, row: _CriterionReply | None) -> tuple[bool | None, tuple[Quote, ...]]:
        if row is None:
            return None, ()
        quotes = self._quotes(row.quotes, frozenset({1, 2}))
        met = {"yes": True, "no": False, "unsure": None}[row.met]
        if met and not any(quote.verdict.accepted for quote in quotes):
            met = None
        return met, quotes

    # A round

    def _round(self, number: int, report: Discussion) -> Heard:
        spoken: dict[Side, _Spoken] = {}
        proposed: dict[Dimension, float] = {}
        lost = ""
        try:
            for side, role in _SIDES:
                spoken[side] = self._speak(number, side, role, report)
            cited = cited_in(report, self._ground.blocks)
            said = self._heard(spoken, {}, "").points
            points = [item for item in admitted(said, cited, report.initial) if item.admitted]
            if points:
                proposed = self._judge_anew(number, points)
        except _Lost as problem:
            lost = str(problem)
        except (ModelError, BudgetError) as error:
            lost = clip(str(error), 200)
        return self._heard(spoken, {} if lost else proposed, lost)

    def _heard(self, spoken: dict[Side, _Spoken], proposed: dict[Dimension, float], lost: str) -> Heard:
        return Heard(
            defender_accepts=spoken["defender"].accepts if "defender" in spoken else False,
            points=tuple(point for side in spoken.values() for point in side.points),
            left_out=sum(side.left_out for side in spoken.values()),
            proposed=proposed,
            lost=lost,
        )

    def _speak(self, number: int, side: Side, role: Role, report: Discussion) -> _Spoken:
        label = f"{self._label}/round-{number}/{side}"
        fence = Fence(self._seed.token("side-fence", label))
        parts = [
            *self._opening(fence),
            "# Report",
            fence.wrap("report", "\n".join(_report_lines(report))),
            "# Cited",
            fence.wrap("cited", "\n".join(_cited_lines(report)) or "(nothing)"),
            "# Record",
            numbered(self._for_sides, fence),
            self._note_of_cuts(),
        ]
        system = load_prompt(
            "discussion_side", side=load_prompt(f"discussion_side_{side}").strip(), limit=str(POINTS_PER_SIDE)
        )
        asked = self._ask(role, label, system, parts, _SideReply.model_validate, _SideReply)
        if asked.value is None:
            raise _Lost(f"the {side} gave no valid reply: {clip(asked.problem, 150)}")
        given = asked.value.objections
        points = tuple(self._point(side, item) for item in given[:POINTS_PER_SIDE])
        return _Spoken(asked.value.accepts, points, max(0, len(given) - POINTS_PER_SIDE))

    def _point(self, side: Side, given: _ObjectionReply) -> Point:
        dimension = Dimension(given.dimension)
        text = clip(storable(" ".join(given.text.split())), KEPT_CHARACTERS)
        return Point(side, dimension, text, self._quotes(given.quotes, self._ground.tiers(dimension)))

    def _judge_anew(self, number: int, points: Sequence[Any]) -> dict[Dimension, float]:
        """A fresh evaluation of the dimensions in question: without scores, without names, points in a drawn order."""
        label = f"{self._label}/round-{number}/evaluate"
        names = [item for item in Dimension if any(point.dimension is item for point in points)]

        def parse(data: dict[str, Any]) -> _ScoresReply:
            reply = _ScoresReply.model_validate(data)
            given = [row.dimension for row in reply.dimensions]
            _each_once(given, {item.value for item in names})
            if missing := sorted({item.value for item in names} - set(given)):
                raise ReplyProblem(f"These dimensions are missing: {', '.join(missing)}.")
            return reply

        fence = Fence(self._seed.token("anew-fence", label))
        lines = []
        for point in self._seed.shuffled(points, "points", label):
            lines.append(f"about {point.dimension.value}: {point.text}")
            lines += [
                f"    {quote.source.split(':')[0]}:{quote.line} | {clip(' '.join(quote.expanded.split()), 600)}"
                for quote in point.quotes
                if quote.verdict.accepted
            ]
        parts = [
            *self._opening(fence),
            "# Points",
            fence.wrap("points", "\n".join(lines)),
            "# Record",
            numbered(self._for_evaluator, fence),
            self._note_of_cuts(),
            f"Give the dimensions {', '.join(item.value for item in names)}.",
        ]
        asked = self._ask(Role.EVALUATOR, label, load_prompt("evaluator_again"), parts, parse, _ScoresReply)
        if asked.value is None:
            raise _Lost(f"the new evaluation gave no valid reply: {clip(asked.problem, 150)}")
        return {Dimension(row.dimension): hundredths(row.score) for row in asked.value.dimensions}

    # Common

    def _opening(self, fence: Fence) -> list[str]:
        return [
            "# Task",
            fence.wrap("task", self._ground.case.asked),
            "# Facts",
            fence.wrap("facts", "\n".join(facts_of(self._ground))),
        ]

    def _note_of_cuts(self) -> str:
        return f"Blocks {', '.join(self._cut)} are longer than what is shown." if self._cut else ""

    def _quotes(self, given: Sequence[_QuoteReply], tiers: frozenset[int]) -> tuple[Quote, ...]:
        quotes = tuple(
            looked_up(self._index, item.text[:_QUOTE_CHARACTERS], item.source.strip()[:40], tiers)
            for item in given[:_QUOTES]
        )
        self._fallbacks.rejected(quotes)
        return quotes

    def _ask(
        self, role: Role, label: str, system: str, parts: Sequence[str], parse: Any, shape: type[Reply]
    ) -> Asked[Any]:
        request = ChatRequest(
            label=label,
            system=system,
            messages=(Message(role="user", text="\n\n".join(part for part in parts if part)),),
            reply_schema=ReplySchema(name="discussion", json_schema=shape.model_json_schema()),
            max_output_tokens=_OUTPUT_TOKENS,
        )
        asked: Asked[Any] = ask(self._models.of(role), request, parse, role=role, ledger=self._ledger)
        self._fallbacks.add(asked.fallbacks)
        if asked.reply_model:
            self._replied[role.value] = asked.reply_model
        return asked


def _each_once(given: Sequence[str], wanted: set[str]) -> None:
    if unknown := sorted(set(given) - wanted):
        raise ReplyProblem(f"These were not asked for: {clip(', '.join(unknown), 200)}.")
    if len(set(given)) != len(given):
        raise ReplyProblem("One of them stands there more than once.")


def _shown(blocks: Sequence[Block]) -> tuple[tuple[Block, ...], tuple[str, ...]]:
    """The record with every file cut at FILE_CHARACTERS, the whole cut to what fits; and the ids of what was cut."""
    shown: list[Block] = []
    cut: list[str] = []
    for block in blocks:
        kept, shortened = cut_to([block], FILE_CHARACTERS) if block.kind == "outputs" else ((block,), ())
        shown += kept
        cut += shortened
    fitted, more = cut_to(shown)
    return fitted, tuple(sorted({*cut, *more}))


def _report_lines(report: Discussion) -> list[str]:
    reasons = {row.dimension: row.reason for row in report.initial}
    return [
        f"{dimension.value}: {'no score' if score is None else f'{score:g}'}: {reasons[dimension]}"
        for dimension, score in report.scores.items()
    ]


def _cited_lines(report: Discussion) -> list[str]:
    quotes = [quote for row in report.initial for quote in row.quotes]
    quotes += [q for item in report.rounds for point in item.objections if point.admitted for q in point.quotes]
    return [
        f"{quote.source.split(':')[0]}:{quote.line} | {clip(' '.join(quote.text.split()), 300)}"
        for quote in quotes
        if quote.verdict.accepted
    ]


__all__ = ["FILE_CHARACTERS", "MAX_ROUNDS", "discuss_run"]
