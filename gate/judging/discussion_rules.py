"""What code makes of a discussion: which points count, what they move, when it ends. Pure; ``verify`` derives by it again.

The source lets a defender talk a judge round in twenty rounds. Here a point counts only with a passage that code finds in the
record and that nobody cited before; a rise ends a tenth above the first report, and a fall does not end (judging.md 7).
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from typing import Literal, NamedTuple

from gate.domain.base import NotRun, Severity, canonical_json, digest_of
from gate.domain.contract import SkillContract
from gate.domain.discussion import (
    CAP,
    CONVERGED,
    HARD_ROUNDS,
    OBJECTION_CHARACTERS,
    WEIGHTS,
    Criterion,
    Dimension,
    DimensionScore,
    Discussion,
    DiscussionRound,
    Objection,
    exact,
    grade_of,
    overall_of,
)
from gate.domain.evidence import Block, RunRecord, Tier, ToolCall, Verification
from gate.domain.judgement import CheckResult, CheckStatus, GradeStatus, Grading, Quote
from gate.domain.report import JudgedRun
from gate.domain.suite import Case
from gate.evidence.assemble import read_value
from gate.evidence.bundle import load_blocks
from gate.evidence.quotes import MINIMUM_CHARACTERS, MINIMUM_CJK, QuoteIndex, normalise, unescape
from gate.judging.asking import looked_up
from gate.judging.grader import judge_directed_blocks

POINTS_PER_SIDE = 3
"""Of one side in one round; what is over it is not read."""
SIMPLE_TOOL_CALLS = 3
KEPT_CHARACTERS = 2 * OBJECTION_CHARACTERS
"""Of an objection that is too long, so that it can be seen that it was."""
PROCESS = frozenset({Dimension.TOOL_ACCURACY, Dimension.ERROR_RECOVERY, Dimension.EFFICIENCY})
"""About what was called: where there were calls, only a quote of one shows it."""
_NOT_FIRST_REPLY = ("row_reasked", "row_missing", "reply_reasked", "reply_invalid", "batch_voided", "record_cut")
_BLOCK = re.compile(r"[Bb](\d{1,6})")
_BLANK = re.compile(r"\s")
_CJK = re.compile("[\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uac00-\ud7a3\uf900-\ufaff]")
_RAN_WELL = ("ok", "html_ok", "service_ok")
_DID_NOT_RUN = ("no_entrypoint", "infra", "missing_runtime", "missing_dependency", "long_running")

Side = Literal["defender", "prosecutor"]


@dataclass(frozen=True)
class Ground:
    """One run, as everything of its discussion is derived from it."""

    case: Case
    record: RunRecord
    blocks: tuple[Block, ...]
    """All of the record."""
    checks: tuple[CheckResult, ...] | NotRun
    grading: Grading | NotRun
    verification: Verification | None
    max_rounds: int
    criteria: tuple[str, ...] = ()
    """Success criteria of a contract that are no expectations of the case."""
    by_contract: bool = False

    @classmethod
    def of(
        cls,
        root: Path,
        case: Case,
        run: JudgedRun,
        *,
        max_rounds: int,
        contract: SkillContract | NotRun | None = None,
    ) -> Ground:
        """From the files of a sealed run. Raises EvidenceError."""
        found = read_value(root, f"{run.record.key.folder}/verification.json", Verification)
        task = contract.task(case.eval_id) if isinstance(contract, SkillContract) else None
        own = {item.text for item in case.expectations}
        drafted = isinstance(contract, SkillContract) and contract.drafted
        wanted = task.document.success_criteria if task is not None and not drafted else ()
        return cls(
            case=case,
            record=run.record,
            blocks=load_blocks(root, run.record),
            checks=run.judgement.checks,
            grading=run.judgement.grading,
            verification=None if isinstance(found, NotRun) else found,
            max_rounds=max_rounds,
            criteria=tuple(text for text in wanted if text not in own),
            by_contract=task is not None,
        )

    def tiers(self, dimension: Dimension) -> frozenset[int]:
        """Source tiers that can be evidence for a dimension."""
        return frozenset({1}) if dimension in PROCESS and self.record.calls else frozenset({1, 2})


class Statement(NamedTuple):
    """What the evaluator said of one dimension."""

    score: float
    reason: str
    quotes: tuple[Quote, ...]


class Point(NamedTuple):
    """What a side said, with its quotes as code found them."""

    side: Side
    dimension: Dimension
    text: str
    quotes: tuple[Quote, ...]


class Heard(NamedTuple):
    """What was said in a round."""

    defender_accepts: bool
    points: tuple[Point, ...]
    left_out: int
    proposed: dict[Dimension, float]
    lost: str


class Exchange(NamedTuple):
    """All that was said: what a discussion is derived from, beside its ground."""

    first: dict[Dimension, Statement] | None
    """None: the evaluator gave no valid report."""
    rounds: tuple[Heard, ...]
    criteria: tuple[tuple[bool | None, tuple[Quote, ...]], ...]
    """What the evaluator said of each criterion of ``Ground.criteria``."""


# Simple (R213-R216) ------------------------------------------------------------------------------------------------------


def simple_reason(ground: Ground) -> str | None:
    """Why a run needs no discussion, as a clause; None where it does. A ``risk: high`` case always does."""
    record, grading = ground.record, ground.grading
    if ground.case.risk == "high" or isinstance(grading, NotRun) or grading.voided is not None:
        return None
    produced = [item for item in record.files if item.fixture != "unchanged"]
    if produced or len(record.calls) > SIMPLE_TOOL_CALLS:
        return None
    if any(item.kind in _NOT_FIRST_REPLY for item in grading.fallbacks):
        return None
    if not all(any(quote.verdict.accepted for quote in row.quotes) for row in grading.rows):
        return None
    if isinstance(ground.checks, NotRun) or any(item.status is CheckStatus.INFRA for item in ground.checks):
        return None
    decided = "exact checks" if not grading.rows else "exact checks or accepted quotes at the first reply"
    return f"simple (R215): no produced file, {len(record.calls)} tool calls, everything decided by {decided}"


# By rule (guard 5) -------------------------------------------------------------------------------------------------------


class Counted(NamedTuple):
    """A count of a count, in words."""

    hits: int
    of: int
    words: str

    @property
    def score(self) -> float | None:
        """In hundredths; None where there is nothing to count."""
        return hundredths(self.hits / self.of) if self.of else None


def hundredths(value: float) -> float:
    """A score as it is kept."""
    return round(value * 100) / 100


def by_rule(dimension: Dimension, ground: Ground) -> Counted:
    """What the record alone says of a dimension (DESIGN.md 4). Nothing to count gives no score."""
    calls = ground.record.calls
    if dimension is Dimension.TASK_COMPLETION:
        asked = () if isinstance(ground.checks, NotRun) else ground.checks
        counted = [item for item in asked if item.severity is Severity.MUST and item.status is not CheckStatus.INFRA]
        return Counted(
            sum(item.status is CheckStatus.PASSED for item in counted), len(counted), "must checks that passed"
        )
    if dimension is Dimension.TOOL_ACCURACY:
        return Counted(sum(call.status == "success" for call in calls), len(calls), "tool calls that succeeded")
    if dimension is Dimension.TRUTHFULNESS:
        claims = () if isinstance(ground.grading, NotRun) else ground.grading.claims
        checked = [claim for claim in claims if claim.verified != "unknown"]
        return Counted(sum(claim.verified == "true" for claim in checked), len(checked), "checked claims not refuted")
    if dimension is Dimension.ERROR_RECOVERY:
        recovered, errors = _recoveries(calls)
        return Counted(recovered, errors, "errors that a success of the same tool follows")
    if dimension is Dimension.EFFICIENCY:
        return Counted(len(calls) - _repeated(calls), len(calls), "tool calls that repeat no earlier one")
    produced = ground.verification.produced if ground.verification else None
    ran = produced is not None and produced.outcome not in _DID_NOT_RUN
    good = produced is not None and produced.outcome in _RAN_WELL
    return Counted(int(good), int(ran), "real execution that went well")


def _recoveries(calls: Sequence[ToolCall]) -> tuple[int, int]:
    bad = [at for at, call in enumerate(calls) if call.status in ("error", "timeout")]
    good = [any(c.tool == calls[at].tool and c.status == "success" for c in calls[at + 1 :]) for at in bad]
    return sum(good), len(bad)


def _repeated(calls: Sequence[ToolCall]) -> int:
    seen = Counter(canonical_json([call.tool, call.args, call.raw_args]) for call in calls)
    return sum(count - 1 for count in seen.values())


def captured(ground: Ground) -> str:
    """What to say where the record speaks to whoever evaluates it; empty where it does not. Scores of such a run may be the
    agent's own."""
    found = judge_directed_blocks(ground.blocks)
    return f"the record addresses a judge ({', '.join(found[:3])}): its scores may be its own words" if found else ""


def facts_of(ground: Ground) -> list[str]:
    """What code can count of a run, in words: handed over to every role, asked of none."""
    record = ground.record
    facts = [f"steps: {record.metrics.total_steps}; tool calls: {len(record.calls)}"]
    for dimension in Dimension:
        counted = by_rule(dimension, ground)
        if counted.of:
            facts.append(f"{counted.words}: {counted.hits} of {counted.of}")
    produced = ground.verification.produced if ground.verification else None
    if produced is not None and produced.entry_point:
        ended = f", exit code {produced.exit_code}" if produced.exit_code is not None else ""
        facts.append(f"{produced.entry_point} was really executed: {produced.outcome}{ended}")
    return facts


# The first report --------------------------------------------------------------------------------------------------------


def first_report(first: Mapping[Dimension, Statement] | None, ground: Ground) -> tuple[DimensionScore, ...]:
    """Six rows: the evaluator's number where an accepted quote carries it, else the rule's, else none."""
    return tuple(_first_row(dimension, (first or {}).get(dimension), ground) for dimension in Dimension)


def _first_row(dimension: Dimension, said: Statement | None, ground: Ground) -> DimensionScore:
    quotes = said.quotes if said else ()
    given = said.score if said else None
    if said is not None and carried(said):
        return DimensionScore(
            dimension=dimension, score=said.score, method="evaluator", said=given, reason=said.reason, quotes=quotes
        )
    counted = by_rule(dimension, ground)
    why = "the evaluator gave no score with an accepted quote"
    return DimensionScore(
        dimension=dimension,
        score=counted.score,
        method="none" if counted.score is None else "rule",
        said=given,
        reason=f"{why}; by rule: {counted.words}: {counted.hits} of {counted.of}",
        quotes=quotes,
    )


def carried(said: Statement) -> bool:
    """Whether a number has evidence."""
    return any(quote.verdict.accepted for quote in said.quotes)


# What counts as new ------------------------------------------------------------------------------------------------------


class Cited:
    """The passages that were cited so far."""

    def __init__(self, blocks: Sequence[Block]) -> None:
        self._blocks = {int(block.id[1:]): block for block in blocks}
        self._spans: dict[int, list[tuple[int, int]]] = {}
        self._texts: list[tuple[int, str]] = []

    def copy(self) -> Cited:
        """The same passages, to be added to by one side alone."""
        other = Cited(())
        other._blocks = self._blocks
        other._spans = {number: list(spans) for number, spans in self._spans.items()}
        other._texts = list(self._texts)
        return other

    def add(self, quotes: Iterable[Quote]) -> None:
        """Count accepted quotes as cited."""
        for quote in quotes:
            number = self._number(quote)
            if number is not None and quote.start is not None and quote.end is not None:
                self._spans.setdefault(number, []).append((quote.start, quote.end))
                self._texts.append((number, _plain(quote.text)))

    def is_new(self, quote: Quote) -> bool:
        """Whether an accepted quote shows something that no cited passage did.

        A passage that overlaps cited ones must bring as much text of its own as a quote needs; the same words elsewhere
        are new only where another tool call holds them.
        """
        number = self._number(quote)
        if number is None or quote.start is None or quote.end is None:
            return False
        call = self._blocks[number].tier is Tier.TOOL_CALLS
        text = _plain(quote.text)
        if any(text in seen for at, seen in self._texts if at == number or not call):
            return False
        overlapping = [span for span in self._spans.get(number, ()) if span[0] < quote.end and quote.start < span[1]]
        if not overlapping:
            return True
        rest = _outside((quote.start, quote.end), overlapping, self._blocks[number].text)
        seen = _BLANK.sub("", normalise(rest))
        return len(seen) >= MINIMUM_CHARACTERS or len(_CJK.findall(seen)) >= MINIMUM_CJK

    def _number(self, quote: Quote) -> int | None:
        found = _BLOCK.search(quote.source)
        number = int(found[1]) if found else None
        return number if quote.verdict.accepted and number in self._blocks else None


def _plain(text: str) -> str:
    return normalise(unescape(text)).strip()


def _outside(span: tuple[int, int], others: Sequence[tuple[int, int]], text: str) -> str:
    """What of a span no other span covers."""
    at, pieces = span[0], []
    for start, end in sorted(others):
        if start > at:
            pieces.append(text[at : min(start, span[1])])
        at = max(at, end)
    if at < span[1]:
        pieces.append(text[at : span[1]])
    return "".join(pieces)


# Rounds ------------------------------------------------------------------------------------------------------------------


def cited_in(discussion: Discussion, blocks: Sequence[Block]) -> Cited:
    """Everything that was cited so far: by the first report, and by points that counted."""
    cited = Cited(blocks)
    cited.add(quote for row in discussion.initial for quote in row.quotes)
    cited.add(q for item in discussion.rounds for point in item.objections if point.admitted for q in point.quotes)
    return cited


def admitted(
    points: Sequence[Point], cited: Cited, first: Sequence[DimensionScore], *, void: str = ""
) -> tuple[Objection, ...]:
    """Each point with whether it counts. The sides do not hear each other: both may bring the same passage.

    A score that was counted by rule is no opinion: no point is about it.
    """
    own = {"defender": cited.copy(), "prosecutor": cited.copy()}
    counted = {row.dimension for row in first if row.method != "evaluator"}
    objections = []
    for point in points:
        refused = void or ("no opinion: counted by rule" if point.dimension in counted else "")
        refused = refused or _refused(point, own[point.side])
        if not refused:
            own[point.side].add(point.quotes)
        objections.append(
            Objection(
                side=point.side,
                dimension=point.dimension,
                text=point.text,
                quotes=point.quotes,
                admitted=not refused,
                refused=refused,
            )
        )
    return tuple(objections)


def _refused(point: Point, cited: Cited) -> str:
    if len(point.text) > OBJECTION_CHARACTERS:
        return f"longer than {OBJECTION_CHARACTERS} characters"
    if not point.quotes:
        return "no passage of the record is quoted"
    if not any(quote.verdict.accepted for quote in point.quotes):
        return f"no verified quote ({', '.join(sorted({quote.verdict.value for quote in point.quotes}))})"
    if not any(cited.is_new(quote) for quote in point.quotes):
        return "everything that it quotes was cited before"
    return ""


def moved(
    before: Mapping[Dimension, float | None],
    first: Sequence[DimensionScore],
    objections: Sequence[Objection],
    proposed: Mapping[Dimension, float],
) -> dict[Dimension, float | None]:
    """The scores after a round: a rise only with an admitted point of the defender and never past CAP over the first
    report, a fall only with one of the prosecutor. A dimension without a score stays without: there is nothing to move.
    """
    after = dict(before)
    ceiling = {row.dimension: min(Fraction(1), exact(row.score) + CAP) for row in first if row.score is not None}
    for dimension, value in proposed.items():
        old = before.get(dimension)
        if old is None:
            continue
        sides = {item.side for item in objections if item.admitted and item.dimension is dimension}
        if value > old and "defender" in sides:
            after[dimension] = float(max(exact(old), min(exact(value), ceiling[dimension])))
        elif value < old and "prosecutor" in sides:
            after[dimension] = value
    return after


def derive(
    exchange: Exchange, ground: Ground, *, degraded: str = "", cut: tuple[str, ...] = (), **kept: object
) -> Discussion:
    """The whole discussion from what was said. ``kept``: fallbacks and models, which nothing is derived from."""
    first = first_report(exchange.first, ground)
    scores: dict[Dimension, float | None] = {row.dimension: row.score for row in first}
    cited = Cited(ground.blocks)
    cited.add(quote for row in first for quote in row.quotes)
    path = [overall_of(scores)]
    rounds: list[DiscussionRound] = []
    cave = 0
    for number, heard in enumerate(exchange.rounds, 1):
        objections = admitted(heard.points, cited, first, void=heard.lost and "the round is void")
        after = moved(scores, first, objections, heard.proposed)
        cave += _caved(scores, after, objections)
        cited.add(quote for item in objections if item.admitted for quote in item.quotes)
        rounds.append(
            DiscussionRound(
                number=number,
                defender_accepts=heard.defender_accepts,
                objections=objections,
                left_out=heard.left_out,
                proposed=heard.proposed,
                scores=after,
                overall=overall_of(after),
                largest_change=_largest(scores, after),
                lost=heard.lost,
            )
        )
        scores = after
        path.append(overall_of(scores))
    ended = _seed_end(rounds, path)
    return Discussion(
        initial=first,
        initial_digest=digest_of([row.to_json() for row in first]),
        rounds=tuple(rounds),
        scores=scores,
        overall=path[-1],
        discussion_grade=grade_of(path[-1]),
        score_path=tuple(path),
        end_reason=end_reason(exchange, rounds, ground.max_rounds) or "no_new_evidence",
        seed_end_reason=ended[0],
        seed_end_round=ended[1],
        accepted_rounds=sum(item.defender_accepts for item in rounds),
        void_objections=sum(not point.admitted for item in rounds for point in item.objections),
        cave_index=cave,
        degraded=degraded,
        alignment=alignment(exchange, ground),
        alignment_source="contract" if ground.by_contract else "suite",
        cut=cut,
        max_rounds=ground.max_rounds,
        **kept,  # type: ignore[arg-type]
    )


def end_reason(
    exchange: Exchange, rounds: Sequence[DiscussionRound], max_rounds: int
) -> Literal["no_new_evidence", "round_cap", "lost", "degraded"] | None:
    """Why the discussion is over; None: it goes on. That the defender accepts, or that little moved, ends nothing."""
    if exchange.first is None:
        return "degraded"
    if not rounds:
        return None
    if rounds[-1].lost:
        return "lost"
    if not any(item.admitted for item in rounds[-1].objections):
        return "no_new_evidence"
    return "round_cap" if len(rounds) >= min(max_rounds, HARD_ROUNDS) else None


def _caved(
    before: Mapping[Dimension, float | None],
    after: Mapping[Dimension, float | None],
    objections: Sequence[Objection],
) -> int:
    """Changes in favour of a side without an admitted point; counted, not assumed."""
    caved = 0
    for dimension in Dimension:
        old, new = before.get(dimension), after.get(dimension)
        if old is None or new is None or old == new:
            continue
        side = "defender" if new > old else "prosecutor"
        caved += not any(item.admitted and item.side == side and item.dimension is dimension for item in objections)
    return caved


def _largest(before: Mapping[Dimension, float | None], after: Mapping[Dimension, float | None]) -> float:
    changes = [abs(exact(new) - exact(old)) for old, new in _both(before, after)]
    return float(max(changes, default=Fraction(0)))


def _both(
    before: Mapping[Dimension, float | None], after: Mapping[Dimension, float | None]
) -> list[tuple[float, float]]:
    pairs = [(before.get(dimension), after.get(dimension)) for dimension in WEIGHTS]
    return [(old, new) for old, new in pairs if old is not None and new is not None]


def _seed_end(
    rounds: Sequence[DiscussionRound], path: Sequence[float | None]
) -> tuple[Literal["defender_accepts", "score_converged", "round_cap"] | None, int | None]:
    """Where the source would have stopped: R176, then R177, then R178. Without an overall score R177 looks at the largest
    change of a dimension."""
    for item in rounds:
        if item.lost:
            continue
        old, new = path[item.number - 1], path[item.number]
        change = abs(exact(new) - exact(old)) if old is not None and new is not None else exact(item.largest_change)
        if item.defender_accepts:
            return "defender_accepts", item.number
        if change <= CONVERGED:
            return "score_converged", item.number
        if item.number >= HARD_ROUNDS:
            return "round_cap", item.number
    return None, None


# Requirement alignment (R212) --------------------------------------------------------------------------------------------


def alignment(exchange: Exchange, ground: Ground) -> tuple[Criterion, ...]:
    """Success criteria, each met by an exact check or by an accepted quote: those of the contract, else the case's own."""
    said = exchange.criteria or tuple((None, ()) for _ in ground.criteria)
    found = [
        Criterion(id=f"k{number}", text=text, met=_met(met, quotes), by="evaluator", quotes=quotes)
        for number, (text, (met, quotes)) in enumerate(zip(ground.criteria, said, strict=True), 1)
    ]
    if ground.criteria:
        return tuple(found)
    status = {True: CheckStatus.PASSED, False: CheckStatus.FAILED}
    for check in () if isinstance(ground.checks, NotRun) else ground.checks:
        met = None if check.status is CheckStatus.INFRA else check.status is status[True]
        found.append(Criterion(id=check.check_id, text=check.expected, met=met, by="check"))
    for row in () if isinstance(ground.grading, NotRun) else ground.grading.rows:
        graded = None if row.status is GradeStatus.UNGRADED else row.status is GradeStatus.PASSED
        found.append(Criterion(id=row.expectation_id, text=row.text, met=graded, by="grader"))
    return tuple(found)


def _met(said: bool | None, quotes: Sequence[Quote]) -> bool | None:
    if said:
        return True if any(quote.verdict.accepted for quote in quotes) else None
    return said


# Again, offline ----------------------------------------------------------------------------------------------------------


def recheck_discussion(discussion: Discussion, ground: Ground) -> list[str]:
    """What a stored discussion says otherwise than the record and the rules do, one sentence each; empty: nothing."""
    if [item.text for item in discussion.alignment if item.by == "evaluator"] != list(ground.criteria):
        return ["its criteria are not those of the contract"]
    index = QuoteIndex(ground.blocks)
    problems = []
    for quote, tiers in _quotes(discussion, ground):
        if looked_up(index, quote.text, quote.source, tiers) != quote:
            problems.append(f'a quote is not what the record holds: "{quote.text[:60]}"')
    again = derive(
        exchange_of(discussion),
        ground,
        degraded=discussion.degraded,
        cut=discussion.cut,
        fallbacks=discussion.fallbacks,
        models=discussion.models,
    )
    if again != discussion:
        names = [name for name in Discussion.model_fields if getattr(again, name) != getattr(discussion, name)]
        problems.append(f"{', '.join(names)} do not follow from what was said")
    if end_reason(exchange_of(discussion), again.rounds, ground.max_rounds) is None:
        problems.append("it ended although there was new evidence, or before anybody was heard")
    warned = captured(ground)
    if discussion.end_reason in ("lost", "degraded") and not discussion.degraded.removeprefix(warned):
        problems.append("it hides that it did not go as intended")
    if warned and warned not in discussion.degraded:
        problems.append("it hides that the record addresses a judge")
    return problems


def exchange_of(discussion: Discussion) -> Exchange:
    """What was said, from what is stored."""
    first = {
        row.dimension: Statement(row.said, row.reason, row.quotes) for row in discussion.initial if row.said is not None
    }
    rounds = tuple(
        Heard(
            item.defender_accepts,
            tuple(Point(point.side, point.dimension, point.text, point.quotes) for point in item.objections),
            item.left_out,
            dict(item.proposed),
            item.lost,
        )
        for item in discussion.rounds
    )
    criteria = tuple((item.met, item.quotes) for item in discussion.alignment if item.by == "evaluator")
    return Exchange(None if discussion.end_reason == "degraded" else first, rounds, criteria)


def _quotes(discussion: Discussion, ground: Ground) -> list[tuple[Quote, frozenset[int]]]:
    found = [(quote, ground.tiers(row.dimension)) for row in discussion.initial for quote in row.quotes]
    for item in discussion.rounds:
        found += [(q, ground.tiers(point.dimension)) for point in item.objections for q in point.quotes]
    both = frozenset({1, 2})
    return found + [(quote, both) for row in discussion.alignment for quote in row.quotes]
