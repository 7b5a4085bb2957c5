"""Layer 3: a blind comparison of two outputs (DESIGN.md 4).

The comparator sees two outputs without any mark of an arm, is asked in both orders, and gives six scores each; a second
one, of another family, must agree where there is one. Sums, ties, winners and the seal are code's. What A and B stand for is
drawn by HMAC and opened by ``unblind`` only.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from typing import Annotated, Any, Literal, NamedTuple

from gate.domain.base import NotRun, Value, digest_of, six_digits
from gate.domain.chat import ChatRequest, Message, ReplySchema, Role
from gate.domain.checks import OFF_OUTPUT_KINDS, shown_parameters
from gate.domain.evidence import Block, RunRecord, Tier
from gate.domain.judgement import (
    CRITERIA,
    QUOTED_DIFFERENCE,
    CheckStatus,
    Comparison,
    CriterionScores,
    OrderResult,
    PairComparison,
    Passage,
    Unblinding,
    Winner,
    counted_difference,
)
from gate.domain.plan import Arm, safe_id
from gate.domain.seeding import SessionSeed
from gate.domain.skill import Skill, SkillType
from gate.domain.suite import Case
from gate.errors import EvidenceError
from gate.evidence.bundle import load_output
from gate.evidence.quotes import QuoteIndex, nearest, unescape
from gate.evidence.suspicious import judge_directed
from gate.judging.counting import Fallbacks
from gate.judging.ground_truth import check_run
from gate.judging.ground_truth.response_has_heading import headings
from gate.judging.ground_truth.response_word_count import count_words
from gate.judging.ground_truth.values import clip, storable
from gate.judging.schema import WHOLE, Reply
from gate.judging.scrub import HIDDEN, Scrubber
from gate.judging.showing import cut_to
from gate.llm.ledger import Ledger
from gate.llm.prompting import Fence, load_prompt, numbered
from gate.llm.replies import Asked, ReplyProblem, ask
from gate.llm.roles import Models

TIE_MARGIN = 1
"""Sums of the six criteria that differ by no more than this are a tie: overall = sum / 3, so |difference| < 0.5 (K3)."""
SHOWN_CHARACTERS = 60_000
"""Of one output, response and files together."""
MAX_FILES = 20
"""Files of one output that are shown."""
_FILE_BYTES = 200_000
_QUOTE_CHARACTERS = 2_000
_TYPOGRAPHY = frozenset({"zero_width", "bidi", "tag_characters"})
"""Of the rules about text that addresses a judge: what no judge is shown."""
_REASONING_CHARACTERS = 1_200
_OUTPUT_TOKENS = 4_096
_FACT_CHECKS: dict[SkillType, tuple[str, ...]] = {
    SkillType.TEXT_GENERATION: ("response_",),
    SkillType.MCP_BASED: ("response_", "json_field"),
    SkillType.CODE_EXECUTION: ("file_", "json_field"),
}
_CONTENT_CRITERIA, _STRUCTURE_CRITERIA = CRITERIA[:3], CRITERIA[3:]

# An enumeration instead of bounds: providers that enforce schemas know few keywords.
_Score = Annotated[Literal[1, 2, 3, 4, 5], WHOLE]

Label = Literal["A", "B"]
Position = Literal["first", "second"]


class Output(Value):
    """What a comparator sees of a run: scrubbed texts and counted facts. It has no field that an arm could stand in."""

    pieces: tuple[tuple[str, str], ...]
    """(title, text): the response, then files by path."""
    facts: tuple[str, ...]


class Question(Value):
    """One asking, but for the outputs."""

    task: str
    checklist: tuple[str, ...]
    skill_type: SkillType


class _ScoresReply(Reply):
    correctness: _Score
    completeness: _Score
    accuracy: _Score
    organization: _Score
    formatting: _Score
    usability: _Score


class _QuoteReply(Reply):
    criterion: Literal["correctness", "completeness", "accuracy", "organization", "formatting", "usability"]
    output: Literal["first", "second"]
    source: str
    text: str


class _ComparatorReply(Reply):
    reasoning: str
    quotes: list[_QuoteReply]
    first: _ScoresReply
    second: _ScoresReply


class _Blind(NamedTuple):
    output: Output
    leaks: Counter[str]
    speaks: bool
    """Whether what is shown addresses a judge."""


def order_winner(a: CriterionScores, b: CriterionScores, unquoted: Collection[str] = ()) -> Literal["A", "B", "TIE"]:
    """TIE iff the sums differ by at most TIE_MARGIN, tested first (K3; judging.md 5.5); else the greater sum.

    ``unquoted``: criteria whose difference nothing in the outputs shows (``counted_difference``).
    """
    difference = counted_difference(a, b, unquoted)
    if abs(difference) <= TIE_MARGIN:
        return "TIE"
    return "A" if difference > 0 else "B"


def pair_winner(orders: Sequence[OrderResult], barred: Collection[str] = ()) -> tuple[Literal["A", "B", "TIE"], bool]:
    """(winner, position_unstable) of a pair: won only where all orders of all judges agree, and never by a ``barred`` side.

    Unstable is a judge that said something else when the order was reversed; judges of two families that each keep to
    their word and do not agree give a TIE that is stable.
    """
    first = orders[0]
    if all(item.winner == first.winner for item in orders):
        return ("TIE" if first.winner in barred else first.winner), False
    by_judge = ({item.winner for item in orders if item.second_family is second} for second in (False, True))
    return "TIE", any(len(said) > 1 for said in by_judge)


def case_winner(pairs: Sequence[PairComparison]) -> Literal["A", "B", "TIE"]:
    """The side with more won pairs and no lost one, else TIE."""
    won = {item.winner for item in pairs} - {"TIE"}
    return won.pop() if len(won) == 1 else "TIE"


def second_family(models: Models) -> bool:
    """Whether there is a second comparator of another family than the comparator's."""
    return models.of(Role.SECOND_COMPARATOR).family != models.of(Role.COMPARATOR).family


def compare_case(
    case: Case,
    skill_type: SkillType,
    pairs: Sequence[tuple[RunRecord, RunRecord]],
    skill: Skill,
    *,
    root: Path,
    models: Models,
    ledger: Ledger,
    seed: SessionSeed,
    session_id: str,
    both_families: bool = False,
    redact: Callable[[Any], Any] = lambda value: value,
) -> Comparison | NotRun:
    """Compare the two arms of a case over pairs of runs, each in both orders, and seal the result.

    ``pairs``: (with skill, without skill); a pair given twice counts once. ``both_families``: the second comparator is
    asked as well, and a pair is won only where the two agree. ``redact`` is applied to the JSON form before the seal.
    NotRun where no pair completed on both sides, or where an order got no valid reply: half an asking is a seat's opinion.
    Raises ModelError, BudgetError and EvidenceError.
    """
    once = list({(ours.key.run, theirs.key.run): (ours, theirs) for ours, theirs in pairs}.values())
    usable = [pair for pair in once if all(record.completed for record in pair)]
    if not usable:
        return NotRun(not_run="no run completed with and without the skill")
    fallbacks = Fallbacks(Role.COMPARATOR)
    fallbacks.count("pair_not_compared", len(once) - len(usable))
    scrubber = Scrubber(skill, shared=[case.asked])
    question = Question(
        task=scrubber.scrub(case.asked).text,
        checklist=tuple(scrubber.scrub(line).text for line in checklist(case)),
        skill_type=skill_type,
    )
    judges = [Role.COMPARATOR, Role.SECOND_COMPARATOR] if both_families else [Role.COMPARATOR]
    asking = [_Asking(role, question, models, ledger, seed, fallbacks) for role in judges]
    with_label = _with_skill_label(seed, case.eval_id, session_id)
    done: list[PairComparison] = []
    for with_run, without_run in usable:
        sides = _sides(with_label, *(_blind(case, skill_type, run, root, scrubber) for run in (with_run, without_run)))
        name = f"{skill.slug}/{safe_id(case.eval_id)}/compare-{with_run.key.run}-{without_run.key.run}"
        orders: list[OrderResult] = []
        for judge in asking:
            for first in ("A", "B"):
                order = judge.order(f"{name}/{first.lower()}-first", sides, first)
                if isinstance(order, NotRun):
                    return order.model_copy(update={"fallbacks": fallbacks.values()})
                orders.append(order)
        pair = _pair(with_run.key.run, without_run.key.run, orders, sides)
        fallbacks.count("position_unstable", int(pair.position_unstable))
        fallbacks.count("families_split", int(pair.split))
        fallbacks.count("blindness_risk", pair.scrubbed)
        fallbacks.count("output_addresses_a_judge", len(pair.speaks_to_a_judge))
        done.append(pair)
    comparison = Comparison(
        eval_id=case.eval_id,
        checklist=question.checklist,
        pairs=tuple(done),
        winner=case_winner(done),
        rubric=rubric(done),
        reasoning=_reasoning(done),
        fallbacks=fallbacks.values(),
        model=asking[0].model,
        second_model=asking[1].model if both_families else "",
    )
    # What is sealed is what is stored: a secret that a model made up must not break the seal.
    comparison = Comparison.model_validate(redact(comparison.to_json()))
    return comparison.model_copy(update={"sealed": comparison.seal})


def _pair(run_with: int, run_without: int, orders: Sequence[OrderResult], sides: dict[Label, _Blind]) -> PairComparison:
    barred: tuple[Label, ...] = tuple(label for label in ("A", "B") if sides[label].speaks)
    winner, unstable = pair_winner(orders, barred)
    leaks = sides["A"].leaks + sides["B"].leaks
    return PairComparison(
        run_with=run_with,
        run_without=run_without,
        orders=tuple(orders),
        winner=winner,
        position_unstable=unstable,
        split=not unstable and len({order.winner for order in orders}) > 1,
        leaks=tuple(sorted(leaks)),
        scrubbed=leaks.total(),
        speaks_to_a_judge=barred,
    )


def deciding_pair(comparison: Comparison) -> tuple[int, int]:
    """(with-run, without-run) of the first pair that went as the case did: the one to look into."""
    pair = next((item for item in comparison.pairs if item.winner == comparison.winner), comparison.pairs[0])
    return pair.run_with, pair.run_without


def unblind(comparison: Comparison, seed: SessionSeed, session_id: str) -> Unblinding:
    """What the labels stood for. Raises EvidenceError where the comparison was changed after it was sealed."""
    if not comparison.intact:
        raise EvidenceError(
            f"The comparison of case {comparison.eval_id!r} was changed after it was sealed.",
            path="comparison.json",
            remedy="Do not use this bundle: run the gate again.",
        )
    with_label = _with_skill_label(seed, comparison.eval_id, session_id)
    won = None if comparison.winner == "TIE" else comparison.winner == with_label
    return Unblinding(
        comparison_sealed=comparison.sealed,
        with_skill=with_label,
        outcome={None: Winner.TIE, True: Winner.SKILL, False: Winner.BASELINE}[won],
        winner_is_with_skill=won,
    )


def recheck_comparison(comparison: Comparison) -> list[str]:
    """What a stored comparison says otherwise than its own scores do, one sentence each; empty: nothing."""
    where = f"comparison of case {comparison.eval_id!r}"
    problems: list[str] = []
    for pair in comparison.pairs:
        name = f"{where}, runs {pair.run_with} and {pair.run_without}"
        problems += _recheck_pair(pair, name)
    if not comparison.pairs:
        problems.append(f"{where}: it compares no runs")
    elif comparison.rubric != rubric(comparison.pairs):
        problems.append(f"{where}: the mean scores are not the means of its scores")
    if comparison.winner != (right := case_winner(comparison.pairs)):
        problems.append(f"{where}: the winner is {comparison.winner}, the pairs say {right}")
    if not comparison.intact:
        problems.append(f"{where}: it was changed after it was sealed")
    return problems


def _recheck_pair(pair: PairComparison, name: str) -> Iterator[str]:
    for order in pair.orders:
        if order.winner != (right := order_winner(order.a, order.b, order.unquoted)):
            yield f"{name}, {order.first} first: the winner is {order.winner}, the scores say {right}"
        if order.unquoted != _unquoted(order.a, order.b, order.quotes):
            yield f"{name}, {order.first} first: the criteria without a quote are not those that its quotes leave"
    asked = sorted((order.second_family, order.first) for order in pair.orders)
    both = [(False, "A"), (False, "B")]
    if asked not in (both, [*both, (True, "A"), (True, "B")]):
        yield f"{name}: it was not asked once in each order"
    elif (pair.winner, pair.position_unstable) != (expected := pair_winner(pair.orders, pair.speaks_to_a_judge)):
        yield f"{name}: the winner is {pair.winner}, the orders say {expected[0]}"


def recheck_outputs(
    comparison: Comparison,
    opened: Unblinding,
    case: Case,
    skill: Skill,
    *,
    skill_type: SkillType,
    records: Iterable[RunRecord],
    root: Path,
) -> list[str]:
    """What a stored comparison says otherwise than the outputs of its runs do: quotes, leaks, text that addresses a judge.

    One sentence each; empty: nothing. Raises EvidenceError where the files of a run are not what was sealed.
    """
    scrubber = Scrubber(skill, shared=[case.asked])
    by_key = {(record.key.arm, record.key.run): record for record in records}
    problems = []
    for pair in comparison.pairs:
        name = f"comparison of case {comparison.eval_id!r}, runs {pair.run_with} and {pair.run_without}"
        ours, theirs = by_key.get((Arm.WITH_SKILL, pair.run_with)), by_key.get((Arm.WITHOUT_SKILL, pair.run_without))
        if ours is None or theirs is None or not ours.completed or not theirs.completed:
            problems.append(f"{name}: one of them is not in the bundle, or did not complete")
            continue
        runs = (ours, theirs)
        sides = _sides(opened.with_skill, *(_blind(case, skill_type, run, root, scrubber) for run in runs))
        found = _pair(pair.run_with, pair.run_without, pair.orders, sides)
        if (pair.leaks, pair.scrubbed) != (found.leaks, found.scrubbed):
            problems.append(f"{name}: the leaks are not those that its outputs have")
        if pair.speaks_to_a_judge != found.speaks_to_a_judge:
            problems.append(f"{name}: which output addresses a judge is not what its outputs say")
        for order in pair.orders:
            second = _other(order.first)
            look_up = _LookUp(order.first, sides[order.first].output, sides[second].output)
            if any(
                look_up.passage(item.criterion, item.output, item.cited, item.text) != item for item in order.quotes
            ):
                problems.append(f"{name}, {order.first} first: a quote is not what its output gives")
    return problems


def rubric(pairs: Sequence[PairComparison]) -> dict[str, dict[str, float]]:
    """Means over orders and pairs, exact and then rounded: overall 2-10 (R48), content and structure 1-5."""
    scores: dict[Label, list[CriterionScores]] = {
        "A": [order.a for pair in pairs for order in pair.orders],
        "B": [order.b for pair in pairs for order in pair.orders],
    }

    def mean(given: list[CriterionScores], criteria: Sequence[str], divisor: int) -> float:
        total = sum(getattr(item, name) for item in given for name in criteria)
        return six_digits(float(Fraction(total, divisor * len(given))))

    return {
        label: {
            "overall_score": mean(given, CRITERIA, 3),
            "content_score": mean(given, _CONTENT_CRITERIA, 3),
            "structure_score": mean(given, _STRUCTURE_CRITERIA, 3),
        }
        for label, given in scores.items()
        if given
    }


def checklist(case: Case) -> tuple[str, ...]:
    """A neutral list of what a good output meets, from the case: expectations, and checks of the output (K8).

    Checks of calls are left out, since a comparator sees no calls; the model answer is never shown.
    """
    lines = [" ".join(item.text.split()) for item in case.expectations]
    for check in case.checks:
        if check.parameters.kind not in OFF_OUTPUT_KINDS:
            values = shown_parameters(check.parameters, exclude_none=True)
            said = ", ".join(f"{name} {clip(str(value), 100)}" for name, value in values.items())
            lines.append(" ".join(check.description.split()) or f"{check.parameters.kind.replace('_', ' ')}: {said}")
    return tuple(dict.fromkeys(lines))


def question_text(question: Question, first: Output, second: Output, fence: Fence) -> str:
    """The user message. Exchanging the outputs exchanges the two sections and nothing else (J5)."""
    parts = ["# Task", fence.wrap("task", question.task), "# Checklist"]
    listed = "\n".join(f"- {line}" for line in question.checklist)
    parts.append(fence.wrap("checklist", listed) if listed else "(none)")
    return "\n\n".join([*parts, output_section("first", first, fence), output_section("second", second, fence)])


def output_section(position: Position, output: Output, fence: Fence) -> str:
    """One output as it is shown in a position."""
    shown, _ = cut_to(_blocks(position, output), SHOWN_CHARACTERS)
    facts = fence.wrap("facts", "\n".join(f"- {fact}" for fact in output.facts))
    return "\n\n".join([f"# The {position} output", numbered(shown, fence), "Facts", facts])


def _blocks(position: Position, output: Output) -> tuple[Block, ...]:
    base = 100 if position == "first" else 200
    return tuple(
        Block(id=f"B{base + number}", tier=Tier.OUTPUT, kind="outputs", title=title, text=text)
        for number, (title, text) in enumerate(output.pieces, 1)
    )


@dataclass
class _Asking:
    """What every asking of a case shares."""

    role: Role
    question: Question
    models: Models
    ledger: Ledger
    seed: SessionSeed
    fallbacks: Fallbacks
    model: str = ""

    def order(self, name: str, sides: dict[Label, _Blind], first: Label) -> OrderResult | NotRun:
        """One order. The reply speaks of positions; code puts labels back, so that a seat cannot stand for a label."""
        second = _other(first)
        look_up = _LookUp(first, sides[first].output, sides[second].output)
        asked = self._ask(name if self.role is Role.COMPARATOR else f"{name}/second", look_up)
        reply = asked.value
        if reply is None:
            why = clip(asked.problem, 200).rstrip(".")
            return NotRun(not_run=f"the {self._who} gave no valid reply with {first} shown first: {why}")
        quotes = look_up.passages(reply)
        scores = {
            first: CriterionScores.model_validate(reply.first.model_dump()),
            second: CriterionScores.model_validate(reply.second.model_dump()),
        }
        unquoted = _unquoted(scores["A"], scores["B"], quotes)
        self.fallbacks.rejected(quotes)
        self.fallbacks.count("comparator_quote_missing", len(unquoted))
        return OrderResult(
            first=first,
            a=scores["A"],
            b=scores["B"],
            reasoning=_with_labels(clip(reply.reasoning, _REASONING_CHARACTERS), first),
            quotes=quotes,
            unquoted=unquoted,
            winner=order_winner(scores["A"], scores["B"], unquoted),
            second_family=self.role is Role.SECOND_COMPARATOR,
        )

    @property
    def _who(self) -> str:
        return self.role.value.replace("_", " ")

    def _ask(self, name: str, look_up: _LookUp) -> Asked[_ComparatorReply]:
        fence = Fence(self.seed.token("comparator-fence", name))
        anchors = load_prompt(f"comparator_anchors_{self.question.skill_type.value}")
        request = ChatRequest(
            label=name,
            system=load_prompt("comparator", anchors=anchors),
            messages=(Message(role="user", text=question_text(self.question, look_up.first, look_up.second, fence)),),
            reply_schema=ReplySchema(name="comparison", json_schema=_ComparatorReply.model_json_schema()),
            max_output_tokens=_OUTPUT_TOKENS,
        )
        tries = 0

        def parse(data: dict[str, Any]) -> _ComparatorReply:
            nonlocal tries
            tries += 1
            reply = _ComparatorReply.model_validate(data)
            # Asked for once more only: the scores of a second reply without quotes count for less, and the gap is counted.
            if tries == 1 and (gaps := look_up.gaps(reply)):
                raise ReplyProblem(gaps)
            return reply

        asked = ask(self.models.of(self.role), request, parse, role=self.role, ledger=self.ledger)
        self.fallbacks.add(asked.fallbacks)
        self.model = asked.reply_model or self.model
        return asked


class _LookUp:
    """The two outputs of one order, ready to look quotes up in the whole of them."""

    def __init__(self, first: Label, shown_first: Output, shown_second: Output) -> None:
        self.first, self.second = outputs = (shown_first, shown_second)
        self._labels: dict[str, Label] = {"first": first, "second": _other(first)}
        self._blocks = {
            self._labels[position]: _blocks(position, output)
            for position, output in zip(_POSITIONS, outputs, strict=True)
        }
        self._indexes = {label: QuoteIndex(blocks) for label, blocks in self._blocks.items()}

    def passages(self, reply: _ComparatorReply) -> tuple[Passage, ...]:
        """Every quote of a reply as code finds it; sources speak of labels from here on."""
        return tuple(
            self.passage(given.criterion, self._labels[given.output], given.source, given.text)
            for given in reply.quotes[: 2 * len(CRITERIA)]
        )

    def passage(self, criterion: str, label: Label, cited: str, text: str) -> Passage:
        """One quote; what comes out goes in again as it is."""
        text, cited = storable(text[:_QUOTE_CHARACTERS]), storable(cited.strip()[:40])
        found = self._indexes[label].check(text, cited, allowed_tiers=frozenset({2}))
        number = re.search(r"[Bb](\d{3})", cited)
        title = next((b.title for b in self._blocks[label] if number and b.id == f"B{number[1]}"), "?")
        line = f":{found.line}" if found.line else ""
        values = found.model_dump(exclude={"source", "expanded"})
        return Passage(
            **values,
            criterion=criterion,  # type: ignore[arg-type]
            output=label,
            cited=cited,
            source=storable(f"{label} {title}{line}"),
            expanded=storable(found.expanded),
        )

    def gaps(self, reply: _ComparatorReply) -> str:
        """What a reply lacks, in words for its second try; empty where it lacks nothing."""
        quotes = self.passages(reply)
        missing = _unquoted(reply.first, reply.second, quotes)
        if not missing:
            return ""
        words = f"These criteria differ by 2 or more and lack a quote from each output that stands there: {', '.join(missing)}."
        lost = next((item for item in quotes if item.criterion in missing and not item.verdict.accepted), None)
        if lost is not None and (near := nearest(lost.text, self._blocks[lost.output])):
            words += f" The nearest text to one of your quotes is: {clip(near, 300)}"
        return words


_POSITIONS: tuple[Position, Position] = ("first", "second")


def _unquoted(
    one: _ScoresReply | CriterionScores, other: _ScoresReply | CriterionScores, quotes: Sequence[Passage]
) -> tuple[str, ...]:
    """Criteria that differ by QUOTED_DIFFERENCE or more without a quote from each output that was found there."""
    found = {(item.criterion, item.output) for item in quotes if item.verdict.accepted}
    return tuple(
        name
        for name in CRITERIA
        if abs(getattr(one, name) - getattr(other, name)) >= QUOTED_DIFFERENCE
        and not {(name, "A"), (name, "B")} <= found
    )


def _with_labels(reasoning: str, first: Label) -> str:
    """Words about positions as words about labels."""
    names = {"first": f"output {first}", "second": f"output {_other(first)}"}
    return re.sub(
        r"\b(?:the\s+)?(first|second)\s+(?:output|answer|response|one)\b",
        lambda found: names[found[1].lower()],
        reasoning,
        flags=re.IGNORECASE,
    )


def _blind(case: Case, skill_type: SkillType, record: RunRecord, root: Path, scrubber: Scrubber) -> _Blind:
    """A run's output without its arm: response and kept text files that the run made or changed, and facts."""
    leaks: Counter[str] = Counter()

    def clean(text: str) -> str:
        scrubbed = scrubber.scrub(text)
        leaks.update(scrubbed.leaks)
        return scrubbed.text

    pieces = [("response", clean(record.response or "(no response)"))]
    produced = [item for item in record.files if item.fixture != "unchanged"]
    unshown = 0
    for item in produced:
        text = _text(load_output(root, record, item.path)) if item.size_bytes <= _FILE_BYTES else None
        if text is None or len(pieces) > MAX_FILES:
            unshown += 1
        else:
            pieces.append((clean(item.path), clean(text)))
    facts = [clean(" ".join(fact.split())) for fact in _facts(case, skill_type, record, root)]
    if unshown:
        facts.append(f"files that are not shown (not text, too long, or too many): {unshown}")
    output = Output(pieces=tuple(pieces), facts=tuple(facts))
    return _Blind(output, leaks, _speaks_to_a_judge(output))


def _sides(with_label: Label, ours: _Blind, theirs: _Blind) -> dict[Label, _Blind]:
    """The two outputs by label, with the same number of hidden places: or the count alone would tell the arms apart."""
    counts = [sum(text.count(HIDDEN) for _, text in blind.output.pieces) for blind in (ours, theirs)]
    more = max(counts)
    one, other = (
        blind._replace(output=_with_markers(blind.output, more - count))
        for blind, count in zip((ours, theirs), counts, strict=True)
    )
    return {with_label: one, _other(with_label): other}


def _with_markers(output: Output, count: int) -> Output:
    """An output with HIDDEN put behind this many of its lines, drawn by their digests; one a line at most."""
    if count == 0:
        return output
    lines = [(at, number, line) for at, (_, text) in enumerate(output.pieces) for number, line in _lines(text)]
    drawn = sorted((item for item in lines if item[2].strip()), key=lambda item: digest_of(list(item)))[:count]
    chosen = {(at, number) for at, number, _ in drawn}
    pieces = tuple(
        (title, "\n".join(f"{line} {HIDDEN}" if (at, number) in chosen else line for number, line in _lines(text)))
        for at, (title, text) in enumerate(output.pieces)
    )
    return output.model_copy(update={"pieces": pieces})


def _lines(text: str) -> list[tuple[int, str]]:
    return list(enumerate(text.split("\n")))


def _speaks_to_a_judge(output: Output) -> bool:
    shown = (f"{title}\n{text}" for title, text in output.pieces)
    return any(
        set(judge_directed(text)) - _TYPOGRAPHY or ("\\" in text and set(judge_directed(unescape(text))) - _TYPOGRAPHY)
        for text in shown
    )


def _text(data: bytes | None) -> str | None:
    if data is None or b"\0" in data:
        return None
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError:
        return None


def _facts(case: Case, skill_type: SkillType, record: RunRecord, root: Path) -> list[str]:
    """What code can count: it is handed over, not asked (R81, R86-R88)."""
    response = record.response or ""
    facts = [f"words in the response: {count_words(response)}"]
    second_level = [text for level, text, _ in headings(response) if level == 2]
    if skill_type is SkillType.TEXT_GENERATION or second_level:
        facts.append(f"headings of level 2 in the response: {clip('; '.join(second_level), 400) or 'none'}")
    produced = [item for item in record.files if item.fixture != "unchanged"]
    names = ", ".join(f"{item.path} ({item.size_bytes} bytes)" for item in produced[:MAX_FILES])
    if skill_type is not SkillType.TEXT_GENERATION or produced:
        facts.append(f"files made or changed: {len(produced)}{f': {clip(names, 600)}' if names else ''}")
    wanted = _FACT_CHECKS[skill_type]
    # A check that is asked of one arm only would tell which output is from that arm.
    checks = tuple(check for check in case.checks if check.parameters.kind.startswith(wanted) and not check.arms)
    words = {
        CheckStatus.PASSED: "yes",
        CheckStatus.FAILED: "no",
        CheckStatus.NOT_RUN: "no",
        CheckStatus.INFRA: "unknown",
    }
    results = check_run(case.model_copy(update={"checks": checks}), record, root, None) if checks else ()
    facts += [f"{clip(item.expected, 200)}: {words[item.status]} ({clip(item.found, 200)})" for item in results]
    return facts


def _reasoning(pairs: Sequence[PairComparison]) -> str:
    return "\n".join(
        f"Runs {pair.run_with} and {pair.run_without}, {order.first} first: {order.reasoning}"
        for pair in pairs
        for order in pair.orders
    )


def _with_skill_label(seed: SessionSeed, eval_id: str, session_id: str) -> Label:
    """K1: the lowest bit of HMAC-SHA256 under the session's key, over the eval id and the session id."""
    return "A" if seed.bit("assignment", eval_id, session_id) else "B"


def _other(label: Label) -> Label:
    return "B" if label == "A" else "A"
