"""Layer 3: a blind comparison of two outputs (DESIGN.md 4).

The comparator sees two outputs without any mark of an arm, is asked in both orders, and gives six scores each. Sums, ties,
winners and the seal are code's. What A and B stand for is drawn by HMAC and opened by ``unblind`` only.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
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
    CheckStatus,
    Comparison,
    CriterionScores,
    OrderResult,
    PairComparison,
    Quote,
    Unblinding,
    Winner,
)
from gate.domain.plan import safe_id
from gate.domain.seeding import SessionSeed
from gate.domain.skill import Skill, SkillType
from gate.domain.suite import Case
from gate.errors import EvidenceError
from gate.evidence.bundle import load_output
from gate.evidence.quotes import QuoteIndex
from gate.judging.counting import Fallbacks
from gate.judging.ground_truth import check_run
from gate.judging.ground_truth.response_has_heading import headings
from gate.judging.ground_truth.response_word_count import count_words
from gate.judging.ground_truth.values import clip, storable
from gate.judging.schema import WHOLE, Reply
from gate.judging.scrub import Scrubber
from gate.judging.showing import cut_to
from gate.llm.ledger import Ledger
from gate.llm.prompting import Fence, load_prompt, numbered
from gate.llm.replies import Asked, ReplyProblem, ask
from gate.llm.roles import Models

TIE_MARGIN = 1
"""Sums of the six criteria that differ by no more than this are a tie: overall = sum / 3, so |difference| < 0.5 (K3)."""
QUOTED_DIFFERENCE = 2
"""A criterion that differs by this or more needs a quote from each output."""
SHOWN_CHARACTERS = 60_000
"""Of one output, response and files together."""
MAX_FILES = 20
"""Files of one output that are shown."""
_FILE_BYTES = 200_000
_QUOTE_CHARACTERS = 2_000
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


def order_winner(a: CriterionScores, b: CriterionScores) -> Literal["A", "B", "TIE"]:
    """TIE iff the sums differ by at most TIE_MARGIN, tested first (K3; judging.md 5.5); else the greater sum."""
    if abs(a.total - b.total) <= TIE_MARGIN:
        return "TIE"
    return "A" if a.total > b.total else "B"


def pair_winner(orders: Sequence[OrderResult]) -> tuple[Literal["A", "B", "TIE"], bool]:
    """(winner, position_unstable) of a pair: won only where all orders agree; any disagreement is an unstable TIE."""
    said = {item.winner for item in orders}
    return (orders[0].winner, False) if len(said) == 1 else ("TIE", True)


def case_winner(pairs: Sequence[PairComparison]) -> Literal["A", "B", "TIE"]:
    """The side with more won pairs and no lost one, else TIE."""
    won = {item.winner for item in pairs} - {"TIE"}
    return won.pop() if len(won) == 1 else "TIE"


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
) -> Comparison | NotRun:
    """Compare the two arms of a case over pairs of runs, each in both orders, and seal the result.

    ``pairs``: (with skill, without skill). NotRun where no pair completed on both sides, or where an order got no valid
    reply: half an asking is a seat's opinion. Raises ModelError, BudgetError and EvidenceError.
    """
    usable = [pair for pair in pairs if all(record.completed for record in pair)]
    if not usable:
        return NotRun(not_run="no run completed with and without the skill")
    fallbacks = Fallbacks(Role.COMPARATOR)
    fallbacks.count("pair_not_compared", len(pairs) - len(usable))
    scrubber = Scrubber(skill, shared=[case.prompt])
    question = Question(
        task=scrubber.scrub(case.prompt).text,
        checklist=tuple(scrubber.scrub(line).text for line in checklist(case)),
        skill_type=skill_type,
    )
    asking = _Asking(question, models, ledger, seed, fallbacks)
    with_label = _with_skill_label(seed, case.eval_id, session_id)
    done: list[PairComparison] = []
    for with_run, without_run in usable:
        sides: dict[Label, _Blind] = {
            with_label: _blind(case, skill_type, with_run, root, scrubber),
            _other(with_label): _blind(case, skill_type, without_run, root, scrubber),
        }
        name = f"{skill.slug}/{safe_id(case.eval_id)}/compare-{with_run.key.run}-{without_run.key.run}"
        orders: list[OrderResult] = []
        for first in ("A", "B"):
            order = asking.order(f"{name}/{first.lower()}-first", sides, first)
            if isinstance(order, NotRun):
                return order.model_copy(update={"fallbacks": fallbacks.values()})
            orders.append(order)
        winner, unstable = pair_winner(orders)
        leaks = sides["A"].leaks + sides["B"].leaks
        fallbacks.count("position_unstable", int(unstable))
        fallbacks.count("blindness_risk", leaks.total())
        done.append(
            PairComparison(
                run_with=with_run.key.run,
                run_without=without_run.key.run,
                orders=tuple(orders),
                winner=winner,
                position_unstable=unstable,
                leaks=tuple(sorted(leaks)),
                scrubbed=leaks.total(),
            )
        )
    comparison = Comparison(
        eval_id=case.eval_id,
        pairs=tuple(done),
        winner=case_winner(done),
        rubric=rubric(done),
        reasoning=_reasoning(done),
        fallbacks=fallbacks.values(),
        model=asking.model,
    )
    return comparison.model_copy(update={"sealed": digest_of(comparison)})


def unblind(comparison: Comparison, seed: SessionSeed, session_id: str) -> Unblinding:
    """What the labels stood for. Raises EvidenceError where the comparison was changed after it was sealed."""
    if comparison.sealed != _digest(comparison):
        raise EvidenceError(
            f"The comparison of case {comparison.eval_id!r} was changed after it was sealed.",
            path="comparison.json",
            remedy="Do not use this bundle: run the gate again.",
        )
    with_label = _with_skill_label(seed, comparison.eval_id, session_id)
    if comparison.winner == "TIE":
        outcome = Winner.TIE
    else:
        outcome = Winner.SKILL if comparison.winner == with_label else Winner.BASELINE
    return Unblinding(comparison_sealed=comparison.sealed, with_skill=with_label, outcome=outcome)


def recheck_comparison(comparison: Comparison) -> list[str]:
    """What a stored comparison says otherwise than its own scores do, one sentence each; empty: nothing."""
    where = f"comparison of case {comparison.eval_id!r}"
    problems = []
    for pair in comparison.pairs:
        name = f"{where}, runs {pair.run_with} and {pair.run_without}"
        problems += [
            f"{name}, {order.first} first: the winner is {order.winner}, the scores say {right}"
            for order in pair.orders
            if order.winner != (right := order_winner(order.a, order.b))
        ]
        if sorted(order.first for order in pair.orders) != ["A", "B"]:
            problems.append(f"{name}: it was not asked once in each order")
        elif (pair.winner, pair.position_unstable) != (expected := pair_winner(pair.orders)):
            problems.append(f"{name}: the winner is {pair.winner}, the orders say {expected[0]}")
    if not comparison.pairs:
        problems.append(f"{where}: it compares no runs")
    elif comparison.rubric != rubric(comparison.pairs):
        problems.append(f"{where}: the mean scores are not the means of its scores")
    if comparison.winner != (right := case_winner(comparison.pairs)):
        problems.append(f"{where}: the winner is {comparison.winner}, the pairs say {right}")
    if comparison.sealed != _digest(comparison):
        problems.append(f"{where}: it was changed after it was sealed")
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

    question: Question
    models: Models
    ledger: Ledger
    seed: SessionSeed
    fallbacks: Fallbacks
    model: str = ""

    def order(self, name: str, sides: dict[Label, _Blind], first: Label) -> OrderResult | NotRun:
        """One order. The reply speaks of positions; code puts labels back, so that a seat cannot stand for a label."""
        second = _other(first)
        shown = {"first": sides[first].output, "second": sides[second].output}
        asked = self._ask(name, shown["first"], shown["second"])
        reply = asked.value
        if reply is None:
            why = clip(asked.problem, 200).rstrip(".")
            return NotRun(not_run=f"the comparator gave no valid reply with {first} shown first: {why}")
        quotes = _quotes(reply, {"first": first, "second": second}, shown)
        self.fallbacks.rejected(quotes)
        self.fallbacks.count("comparator_quote_missing", len(_unquoted(reply)))
        scores = {
            first: CriterionScores.model_validate(reply.first.model_dump()),
            second: CriterionScores.model_validate(reply.second.model_dump()),
        }
        return OrderResult(
            first=first,
            a=scores["A"],
            b=scores["B"],
            reasoning=_with_labels(clip(reply.reasoning, _REASONING_CHARACTERS), first),
            quotes=quotes,
            winner=order_winner(scores["A"], scores["B"]),
        )

    def _ask(self, name: str, first: Output, second: Output) -> Asked[_ComparatorReply]:
        fence = Fence(self.seed.token("comparator-fence", name))
        anchors = load_prompt(f"comparator_anchors_{self.question.skill_type.value}")
        request = ChatRequest(
            label=name,
            system=load_prompt("comparator", anchors=anchors),
            messages=(Message(role="user", text=question_text(self.question, first, second, fence)),),
            reply_schema=ReplySchema(name="comparison", json_schema=_ComparatorReply.model_json_schema()),
            max_output_tokens=_OUTPUT_TOKENS,
        )
        tries = 0

        def parse(data: dict[str, Any]) -> _ComparatorReply:
            nonlocal tries
            tries += 1
            reply = _ComparatorReply.model_validate(data)
            # Asked for once more only: the scores of a second reply without quotes stand, and the gap is counted.
            if tries == 1 and (gaps := _unquoted(reply)):
                raise ReplyProblem(
                    f"These criteria differ by 2 or more and lack a quote from each output: {', '.join(gaps)}."
                )
            return reply

        asked = ask(self.models.of(Role.COMPARATOR), request, parse, role=Role.COMPARATOR, ledger=self.ledger)
        self.fallbacks.add(asked.fallbacks)
        self.model = asked.reply_model or self.model
        return asked


def _unquoted(reply: _ComparatorReply) -> list[str]:
    """Criteria that differ by QUOTED_DIFFERENCE or more without a quote from each output."""
    return [
        name
        for name in CRITERIA
        if abs(getattr(reply.first, name) - getattr(reply.second, name)) >= QUOTED_DIFFERENCE
        and {quote.output for quote in reply.quotes if quote.criterion == name} != {"first", "second"}
    ]


def _quotes(reply: _ComparatorReply, labels: dict[str, Label], shown: dict[str, Output]) -> tuple[Quote, ...]:
    """Every quote looked up in the whole scrubbed output it names; sources speak of labels from here on."""
    blocks: dict[Position, tuple[Block, ...]] = {
        "first": _blocks("first", shown["first"]),
        "second": _blocks("second", shown["second"]),
    }
    indexes = {position: QuoteIndex(given) for position, given in blocks.items()}
    quotes = []
    for given in reply.quotes[: 2 * len(CRITERIA)]:
        found = indexes[given.output].check(
            storable(given.text[:_QUOTE_CHARACTERS]), given.source.strip()[:40], allowed_tiers=frozenset({2})
        )
        number = re.search(r"[Bb](\d{3})", given.source)
        title = next((b.title for b in blocks[given.output] if number and b.id == f"B{number[1]}"), "?")
        line = f":{found.line}" if found.line else ""
        source = storable(f"{labels[given.output]} {title}{line}")
        quotes.append(found.model_copy(update={"source": source, "expanded": storable(found.expanded)}))
    return tuple(quotes)


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
    facts = [clean(fact) for fact in _facts(case, skill_type, record, root)]
    if unshown:
        facts.append(f"files that are not shown (not text, too long, or too many): {unshown}")
    return _Blind(Output(pieces=tuple(pieces), facts=tuple(facts)), leaks)


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


def _digest(comparison: Comparison) -> str:
    return digest_of(comparison.model_copy(update={"sealed": ""}))
