"""Layer 2b: the grader proposes with quotes, code decides (DESIGN.md 4).

The grader has its own client and no history. It sees the task, the expectations and the numbered record without the agent's
notes, never SKILL.md. Whatever it says, a row is PASSED only by ``rows.RowRules``.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, NamedTuple

from gate.domain.chat import ChatRequest, Message, ReplySchema, Role
from gate.domain.evidence import Block, RunRecord, Tier
from gate.domain.judgement import (
    Claim,
    ControlGrade,
    ExpectationGrade,
    GradeStatus,
    Grading,
    Quote,
)
from gate.domain.seeding import SessionSeed
from gate.domain.skill import Skill
from gate.domain.suite import Case, Expectation
from gate.evidence.bundle import load_blocks
from gate.evidence.quotes import QuoteIndex, nearest
from gate.evidence.suspicious import judge_directed
from gate.judging.controls import Control, make_controls
from gate.judging.counting import Fallbacks
from gate.judging.expectations import CALLS_AND_OUTPUT, TOOL_CALLS_ONLY, allowed_tiers
from gate.judging.ground_truth.values import clip, storable
from gate.judging.rows import MISSING, Decision, RowRules, Said
from gate.judging.schema import Reply
from gate.judging.showing import cut_to, for_a_judge
from gate.llm.ledger import Ledger
from gate.llm.prompting import Fence, load_prompt, numbered
from gate.llm.replies import Asked, ReplyProblem, ask
from gate.llm.roles import Models

ROWS_PER_QUESTION = 15
"""Expectations in one question, controls not counted."""
QUOTES_PER_ROW = 6
"""More quotes of a row are not looked at."""
_QUOTE_CHARACTERS = 2_000
_REASON_CHARACTERS = 300
_MAX_CLAIMS, _MAX_FEEDBACK = 8, 5
_OUTPUT_TOKENS = 8_192
_CONTENT = re.compile(r"\w")
_SKILL_RULE = re.compile(r"\bskill(?:\.md)?\b|技能", re.IGNORECASE)
_QUOTED_RULE = re.compile(r'"([^"\n]{8,200})"|\u201c([^\u201d\n]{4,200})\u201d|「([^」\n]{4,200})」')


class _QuoteReply(Reply):
    source: str
    text: str


class _RowReply(Reply):
    id: str
    quotes: list[_QuoteReply]
    reason: str
    verdict: Literal["pass", "fail", "unsure"]


class _ClaimReply(Reply):
    text: str
    type: Literal["factual", "process", "quality"]
    verdict: Literal["true", "false", "unknown"]
    quote: _QuoteReply | None
    actual: str


class _GraderReply(Reply):
    rows: list[_RowReply]
    claims: list[_ClaimReply]
    eval_feedback: list[str]


class _Row(NamedTuple):
    """A line of a question: an expectation, or a control."""

    id: str
    text: str
    expectation: Expectation | None
    control: Control | None


@dataclass(frozen=True)
class _Batch:
    """An answered question."""

    answers: dict[str, _RowReply]
    """By row id."""
    rows: tuple[_Row, ...]
    reply: _GraderReply | None
    problem: str

    def controls(self, *, voided: bool) -> tuple[ControlGrade, ...]:
        """What the judge said of the controls, in the order of the question; nothing where there was no valid reply."""
        if self.reply is None:
            return ()
        return tuple(
            ControlGrade(
                text=row.control.text,
                known=row.control.known,
                model_said=_said(self.answers.get(row.id)).passed,
                voided=voided,
            )
            for row in self.rows
            if row.control is not None
        )

    @property
    def void(self) -> bool:
        """Whether a known-false control was passed, or not answered: then nothing of the batch can be believed."""
        if self.reply is None:
            return False
        unanswered = any(row.control and not row.control.known and row.id not in self.answers for row in self.rows)
        return unanswered or any(not c.known and c.model_said is True for c in self.controls(voided=False))


@dataclass
class _Judging:
    """One run being graded: what every question of it shares."""

    case: Case
    record: RunRecord
    blocks: tuple[Block, ...]
    models: Models
    ledger: Ledger
    seed: SessionSeed
    shown: tuple[Block, ...] = ()
    cut: tuple[str, ...] = ()
    model: str = ""
    fallbacks: Fallbacks = field(default_factory=lambda: Fallbacks(Role.GRADER))
    controls: list[ControlGrade] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.shown, self.cut = cut_to(for_a_judge(self.blocks))
        self.tools = tool_names(self.case, self.record)
        self.index = QuoteIndex(self.blocks)
        self.rules = RowRules(self.blocks, self.tools, cut=bool(self.cut))
        if self.cut:
            self.fallbacks.count("record_cut")

    def quotes(self, given: Sequence[_QuoteReply], tiers: frozenset[int]) -> tuple[Quote, ...]:
        """The quotes of a row, each looked up in the whole record."""
        return tuple(
            _looked_up(self.index, item.text[:_QUOTE_CHARACTERS], item.source.strip()[:40], tiers)
            for item in given[:QUOTES_PER_ROW]
        )

    def question(self, label: str, expectations: Sequence[Expectation], hints: dict[str, str]) -> _Batch:
        """Ask about some expectations, with fresh controls and a fresh fence. Raises ModelError, BudgetError."""
        rows = self._rows(label, expectations)
        request = self._request(label, rows, hints)
        ids = {row.id for row in rows}

        def parse(data: dict[str, Any]) -> _GraderReply:
            reply = _GraderReply.model_validate(data)
            given = [row.id for row in reply.rows]
            if unknown := sorted(set(given) - ids):
                raise ReplyProblem(f"These ids were not asked for: {clip(', '.join(unknown))}.")
            if len(set(given)) != len(given):
                raise ReplyProblem("An id stands in more than one row.")
            return reply

        asked: Asked[_GraderReply] = ask(
            self.models.of(Role.GRADER), request, parse, role=Role.GRADER, ledger=self.ledger
        )
        self.fallbacks.add(asked.fallbacks)
        self.model = asked.reply_model or self.model
        answers = {row.id: row for row in asked.value.rows} if asked.value else {}
        return _Batch(answers, rows, asked.value, asked.problem)

    def _rows(self, label: str, expectations: Sequence[Expectation]) -> tuple[_Row, ...]:
        controls = make_controls(self.record, self.shown, self.seed, "control", label)
        items: list[Expectation | Control] = [*expectations, *controls]
        mixed = self.seed.shuffled(items, "row-order", label)
        return tuple(
            _Row(
                id=f"r{number}",
                text=" ".join(item.text.split()),
                expectation=item if isinstance(item, Expectation) else None,
                control=item if isinstance(item, Control) else None,
            )
            for number, item in enumerate(mixed, 1)
        )

    def _request(self, label: str, rows: Sequence[_Row], hints: dict[str, str]) -> ChatRequest:
        fence = Fence(self.seed.token("grader-fence", label))
        kinds = {TOOL_CALLS_ONLY: "tool call", CALLS_AND_OUTPUT: "any"}
        lines = [f"{row.id} | {kinds[allowed_tiers(row.text, self.tools)]} | {row.text}" for row in rows]
        parts = [
            "# Task",
            fence.wrap("task", self.case.prompt),
            "# Expectations",
            fence.wrap("expectations", "\n".join(lines)),
        ]
        told = [
            f"{row.id} | {hints[row.expectation.id]}" for row in rows if row.expectation and row.expectation.id in hints
        ]
        if told:
            parts += [
                "You were asked about some of these before, and your answer could not be used. What was wrong with it:",
                fence.wrap("what was wrong", "\n".join(told)),
            ]
        parts += ["# Record", numbered(self.shown, fence)]
        if self.cut:
            parts.append(f"Blocks {', '.join(self.cut)} are longer than what is shown.")
        return ChatRequest(
            label=label,
            system=load_prompt("grader", standard=load_prompt(f"grader_standard_{self.record.skill_type.value}")),
            messages=(Message(role="user", text="\n\n".join(parts)),),
            reply_schema=ReplySchema(name="grading", json_schema=_schema(rows)),
            max_output_tokens=_OUTPUT_TOKENS,
        )


def grade_run(
    case: Case,
    record: RunRecord,
    skill: Skill | None,
    *,
    root: Path,
    models: Models,
    ledger: Ledger,
    seed: SessionSeed,
) -> Grading:
    """Grade the expectations of a case over one sealed run.

    One row per expectation, in the order of the case. No model is asked where the case has no expectations, the run did not
    complete, or it left nothing to judge. A batch in which a known-false control passed is asked anew once; if it happens
    again, ``voided`` says so and every row is ungraded. ``skill`` is read by code only, to look up rules that the agent
    claims to quote. Raises ModelError, BudgetError and EvidenceError.
    """
    if not case.expectations:
        return Grading(rows=())
    if not record.completed:
        return Grading(rows=tuple(_without_model(item, *_not_completed(record)) for item in case.expectations))
    blocks = load_blocks(root, record)
    suspicious = _suspicious(blocks)
    if _empty(for_a_judge(blocks)):
        nothing = (GradeStatus.FAILED, "the run left no tool call, no response and no output to judge")
        return Grading(rows=tuple(_without_model(item, *nothing) for item in case.expectations), suspicious=suspicious)
    judging = _Judging(case, record, blocks, models, ledger, seed)
    rows: list[ExpectationGrade] = []
    claims: list[Claim] = []
    feedback: list[str] = []
    voided = None
    for number, start in enumerate(range(0, len(case.expectations), ROWS_PER_QUESTION), 1):
        expectations = case.expectations[start : start + ROWS_PER_QUESTION]
        batch = _believable(judging, f"{record.key.label}/grade-{number}", expectations)
        if batch is None:
            voided = "the grader passed an expectation that is known to be false, twice"
            break
        rows += _decided(judging, f"{record.key.label}/grade-{number}", expectations, batch)
        if batch.reply is not None:
            claims += [_claim(judging, item, skill) for item in batch.reply.claims[:_MAX_CLAIMS]]
            feedback += [clip(item, 500) for item in batch.reply.eval_feedback[:_MAX_FEEDBACK] if item.strip()]
    if voided is not None:
        rows = [_ungraded(item, voided) for item in case.expectations]
        claims, feedback = [], []
    return Grading(
        rows=tuple(rows),
        controls=tuple(judging.controls),
        voided=voided,
        claims=tuple({item.text: item for item in reversed(claims)}.values())[::-1],
        eval_feedback=tuple(dict.fromkeys(feedback)),
        suspicious=suspicious,
        fallbacks=judging.fallbacks.values(),
        model=judging.model,
    )


def recheck_grading(grading: Grading, case: Case, record: RunRecord, root: Path) -> list[str]:
    """What a stored grading says otherwise than the record and the rules do, one sentence each; empty: nothing.

    Offline: every quote is looked up again and every status derived again by the code that made it. Raises EvidenceError.
    """
    where = f"{record.key.folder}/grading.json"
    if [row.expectation_id for row in grading.rows] != [item.id for item in case.expectations]:
        return [f"{where}: its rows are not the expectations of the case"]
    blocks = load_blocks(root, record) if case.expectations and record.completed else ()
    shown = for_a_judge(blocks)
    rules = RowRules(blocks, tool_names(case, record), cut=bool(cut_to(shown)[1]))
    index = QuoteIndex(blocks)
    problems = []
    for row, expectation in zip(grading.rows, case.expectations, strict=True):
        if (row.text, row.severity, row.precision) != (expectation.text, expectation.severity, expectation.precision):
            problems.append(f"{where}: {row.expectation_id} is not the expectation of the case")
        if not all(_stands(quote, index, rules.tiers(expectation)) for quote in row.quotes):
            problems.append(f"{where}: a quote of {row.expectation_id} is not what the record holds")
        if grading.voided is not None:
            expected = GradeStatus.UNGRADED
        elif not record.completed:
            expected = _not_completed(record)[0]
        elif _empty(shown):
            expected = GradeStatus.FAILED
        else:
            expected = rules.decide(expectation, Said(row.model_said, row.unsure), row.quotes).status
        if row.status is not expected:
            problems.append(f"{where}: {row.expectation_id} is {row.status.value}, the rules say {expected.value}")
    fooled = any(not item.known and item.model_said is True and not item.voided for item in grading.controls)
    if grading.voided is None and fooled:
        problems.append(f"{where}: a known-false control passed, but the batch counts")
    if not all(_stands(claim.quote, index, CALLS_AND_OUTPUT) for claim in grading.claims if claim.quote):
        problems.append(f"{where}: the quote of a claim is not what the record holds")
    return problems


def _stands(quote: Quote, index: QuoteIndex, tiers: frozenset[int]) -> bool:
    return _looked_up(index, quote.text, quote.source, tiers) == quote


def _looked_up(index: QuoteIndex, text: str, source: str, tiers: frozenset[int]) -> Quote:
    """A quote as code finds it, in a form that reads back from a bundle as it is."""
    found = index.check(storable(text), storable(source), allowed_tiers=tiers)
    return found.model_copy(update={"expanded": storable(found.expanded)})


def _empty(shown: Sequence[Block]) -> bool:
    """Whether there is nothing that a judge could read: no letter or digit in what is shown."""
    return not any(_CONTENT.search(block.text) for block in shown)


def tool_names(case: Case, record: RunRecord) -> tuple[str, ...]:
    """Every tool that a run called or that its case declares, sorted."""
    declared = {f"mcp__{server.name}__{tool.name}" for server in case.mcp_servers for tool in server.tools}
    return tuple(sorted(declared | {call.tool for call in record.calls}))


def _believable(judging: _Judging, label: str, expectations: Sequence[Expectation]) -> _Batch | None:
    """The first batch whose controls hold, of two at most; None where neither's do."""
    for name in (label, f"{label}/again"):
        batch = judging.question(name, expectations, {})
        _count_controls(judging, batch)
        if not batch.void:
            return batch
    return None


def _count_controls(judging: _Judging, batch: _Batch) -> None:
    graded = batch.controls(voided=batch.void)
    judging.controls += graded
    judging.fallbacks.count("control_false_passed", sum(not c.known and c.model_said is True for c in graded))
    judging.fallbacks.count("control_true_failed", sum(c.known and c.model_said is not True for c in graded))
    judging.fallbacks.count("batch_voided", int(batch.void))


def _decided(
    judging: _Judging, label: str, expectations: Sequence[Expectation], batch: _Batch
) -> list[ExpectationGrade]:
    """The rows of a batch; those that a second answer could change are asked once more, together."""
    first = {item.id: _row(judging, item, batch) for item in expectations}
    again = [item for item in expectations if first[item.id][1].ask_again] if batch.reply is not None else []
    if again:
        judging.fallbacks.count("row_reasked", len(again))
        hints = {item.id: _hint(judging, *first[item.id]) for item in again}
        second = judging.question(f"{label}/rows", again, hints)
        _count_controls(judging, second)
        if second.reply is not None and not second.void:
            for item in again:
                # A row that is missing again leaves the first answer as it is.
                if any(row.expectation is item and row.id in second.answers for row in second.rows):
                    first[item.id] = _row(judging, item, second)
    result = []
    for item in expectations:
        grade, decision = first[item.id]
        if decision.forced:
            judging.fallbacks.count(decision.forced)
        if grade.status is GradeStatus.UNGRADED and grade.model_said is None and not grade.unsure:
            judging.fallbacks.count("row_missing")
        result.append(grade)
    return result


def _row(judging: _Judging, expectation: Expectation, batch: _Batch) -> tuple[ExpectationGrade, Decision]:
    answer = next((batch.answers.get(row.id) for row in batch.rows if row.expectation is expectation), None)
    said = _said(answer)
    quotes = judging.quotes(answer.quotes, judging.rules.tiers(expectation)) if answer else ()
    judging.fallbacks.rejected(quotes)
    decision = judging.rules.decide(expectation, said, quotes)
    reason = decision.reason
    if answer is None and batch.problem:
        reason = f"{reason} ({batch.problem})"
    elif (
        answer is not None
        and answer.reason.strip()
        and decision.status is not GradeStatus.UNGRADED
        and not decision.forced
    ):
        reason = f"{reason}: {answer.reason}"
    return _grade(expectation, decision.status, reason, said, quotes), decision


def _hint(judging: _Judging, grade: ExpectationGrade, decision: Decision) -> str:
    """What was wrong with a row, with the nearest text of the first quote that was not found."""
    lost = next((quote for quote in grade.quotes if quote.verdict.value == "not_found"), None)
    hint = decision.ask_again
    if lost is not None and (near := nearest(lost.text, judging.shown)):
        hint += f" The nearest text to one of your quotes is: {clip(near, 300)}"
    return hint


def _said(answer: _RowReply | None) -> Said:
    if answer is None:
        return MISSING
    if answer.verdict == "unsure":
        return Said(None, unsure=True)
    return Said(answer.verdict == "pass")


def _claim(judging: _Judging, given: _ClaimReply, skill: Skill | None) -> Claim:
    """A claim with its quote looked up: confirmed or refuted only with an accepted quote.

    The response cannot confirm what it claims itself. A rule that the agent says it has from the skill is looked up in SKILL.md by code; no judge is asked.
    """
    quote = None
    verified = given.verdict
    actual = clip(given.actual, _REASON_CHARACTERS)
    if given.quote is not None:
        quote = judging.quotes([given.quote], CALLS_AND_OUTPUT)[0]
        judging.fallbacks.rejected([quote])
    if quote is None or not quote.verdict.accepted or (verified == "true" and judging.rules.from_response(quote)):
        verified = "unknown"
    rule = _QUOTED_RULE.search(given.text) if skill is not None and _SKILL_RULE.search(given.text) else None
    if skill is not None and rule is not None:
        words = " ".join(next(group for group in rule.groups() if group).split())
        there = words.casefold() in " ".join(skill.text.split()).casefold()
        verified = "true" if there else "false"
        actual = "stands in SKILL.md" if there else "does not stand in SKILL.md"
    return Claim(text=clip(given.text, 500), type=given.type, verified=verified, actual=actual, quote=quote)


def _not_completed(record: RunRecord) -> tuple[GradeStatus, str]:
    """How the expectations of a run without a judgeable end are decided by code."""
    void = record.contaminated or record.invalid
    if void is None and record.outcome.agent_caused:
        return GradeStatus.FAILED, f"the run ended as {record.outcome.value}: {record.reason}"
    return GradeStatus.UNGRADED, void or f"the run ended as {record.outcome.value}: {record.reason}"


def _without_model(expectation: Expectation, status: GradeStatus, reason: str) -> ExpectationGrade:
    return _grade(expectation, status, reason, MISSING, (), method="code")


def _ungraded(expectation: Expectation, reason: str) -> ExpectationGrade:
    return _grade(expectation, GradeStatus.UNGRADED, reason, MISSING, ())


def _grade(
    expectation: Expectation,
    status: GradeStatus,
    reason: str,
    said: Said,
    quotes: tuple[Quote, ...],
    *,
    method: Literal["grader", "code"] = "grader",
) -> ExpectationGrade:
    return ExpectationGrade(
        expectation_id=expectation.id,
        text=expectation.text,
        severity=expectation.severity,
        precision=expectation.precision,
        rule_ref=expectation.rule_ref,
        status=status,
        model_said=said.passed,
        unsure=said.unsure,
        quotes=quotes,
        reason=clip(reason, _REASON_CHARACTERS),
        method=method,
    )


def _suspicious(blocks: Sequence[Block]) -> tuple[str, ...]:
    """Where the record speaks to a judge, as ``<rule> in <block>``; notes too, though no judge sees them."""
    return tuple(
        f"{rule} in {block.id}{' (notes)' if block.tier is Tier.NOTES else ''}"
        for block in blocks
        for rule in judge_directed(block.text)
    )


def _schema(rows: Sequence[_Row]) -> dict[str, Any]:
    """The reply's JSON schema, with the ids of this question."""
    schema = _GraderReply.model_json_schema()
    schema["$defs"]["_RowReply"]["properties"]["id"]["enum"] = [row.id for row in rows]
    return schema
