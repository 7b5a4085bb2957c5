"""One question to a grader: its rows mixed with controls, the record inside a fence, and the reply checked for its shape.

Used for the first look at a run and for the second looks (``second_look``), which ask about the same record with another
model, the opposite question, or without the lines that were cited.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, NamedTuple, TypeAlias

from gate.domain.chat import ChatRequest, Message, ReplySchema, Role
from gate.domain.evidence import Block, RunRecord
from gate.domain.judgement import ControlGrade, Quote
from gate.domain.seeding import SessionSeed
from gate.domain.suite import Case, Expectation
from gate.evidence.quotes import QuoteIndex
from gate.judging.controls import Control, make_controls
from gate.judging.counting import Fallbacks
from gate.judging.expectations import CALLS_AND_OUTPUT, TOOL_CALLS_ONLY, allowed_tiers
from gate.judging.ground_truth.values import clip, storable
from gate.judging.rows import MISSING, RowRules, Said
from gate.judging.schema import Reply
from gate.judging.showing import cut_to, for_a_judge
from gate.llm.ledger import Ledger
from gate.llm.prompting import Fence, load_prompt, numbered
from gate.llm.replies import Asked, ReplyProblem, ask
from gate.llm.roles import Models

_BREAKS = re.compile("[\\s\x1c-\x1e]*[\n\r\x0b\x0c\x1c-\x1e\x85\u2028\u2029][\\s\x1c-\x1e]*")
QUOTES_PER_ROW = 6
"""More quotes of a row are not looked at."""
_QUOTE_CHARACTERS = 2_000
_OUTPUT_TOKENS = 8_192


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


# Their own names stand in the schema that a model is shown, so they stay as they are.
QuoteReply: TypeAlias = _QuoteReply
RowReply: TypeAlias = _RowReply
ClaimReply: TypeAlias = _ClaimReply
GraderReply: TypeAlias = _GraderReply


class Row(NamedTuple):
    """A line of a question: an expectation, or a control."""

    id: str
    text: str
    expectation: Expectation | None
    control: Control | None


@dataclass(frozen=True)
class Batch:
    """An answered question."""

    answers: dict[str, _RowReply]
    """By row id."""
    rows: tuple[Row, ...]
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
                model_said=said_by(self.answers.get(row.id)).passed,
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
class Judging:
    """One run being graded: what every question of it shares."""

    case: Case
    record: RunRecord
    blocks: tuple[Block, ...]
    models: Models
    ledger: Ledger
    seed: SessionSeed
    role: Role = Role.GRADER
    shown: tuple[Block, ...] = ()
    cut: tuple[str, ...] = ()
    model: str = ""
    fallbacks: Fallbacks = field(init=False)
    controls: list[ControlGrade] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.fallbacks = Fallbacks(self.role)
        self.shown, self.cut = cut_to(for_a_judge(self.blocks))
        self.tools = tool_names(self.case, self.record)
        self.index = QuoteIndex(self.blocks)
        self.rules = RowRules(self.blocks, self.tools, cut=bool(self.cut), made=made_by(self.record))
        if self.cut:
            self.fallbacks.count("record_cut")

    def quotes(self, given: Sequence[_QuoteReply], tiers: frozenset[int]) -> tuple[Quote, ...]:
        """The quotes of a row, each looked up in the whole record."""
        return tuple(
            looked_up(self.index, item.text[:_QUOTE_CHARACTERS], item.source.strip()[:40], tiers)
            for item in given[:QUOTES_PER_ROW]
        )

    def question(self, label: str, expectations: Sequence[Expectation], hints: dict[str, str]) -> Batch:
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

        asked: Asked[_GraderReply] = ask(self.models.of(self.role), request, parse, role=self.role, ledger=self.ledger)
        self.fallbacks.add(asked.fallbacks)
        self.model = asked.reply_model or self.model
        answers = {row.id: row for row in asked.value.rows} if asked.value else {}
        return Batch(answers, rows, asked.value, asked.problem)

    def _rows(self, label: str, expectations: Sequence[Expectation]) -> tuple[Row, ...]:
        controls = make_controls(self.record, self.shown, self.seed, "control", label)
        items: list[Expectation | Control] = [*expectations, *controls]
        mixed = self.seed.shuffled(items, "row-order", label)
        return tuple(
            Row(
                id=f"r{number}",
                text=" ".join(item.text.split()),
                expectation=item if isinstance(item, Expectation) else None,
                control=item if isinstance(item, Control) else None,
            )
            for number, item in enumerate(mixed, 1)
        )

    def _request(self, label: str, rows: Sequence[Row], hints: dict[str, str]) -> ChatRequest:
        fence = Fence(self.seed.token("grader-fence", label))
        kinds = {TOOL_CALLS_ONLY: "tool call", CALLS_AND_OUTPUT: "any"}
        # One line a row: a text over several lines could pass for further rows.
        lines = [
            f"{row.id} | {kinds[allowed_tiers(row.text, self.tools)]} | {_BREAKS.sub(' ', row.text)}" for row in rows
        ]
        parts = [
            "# Task",
            fence.wrap("task", self.case.asked),
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


def looked_up(index: QuoteIndex, text: str, source: str, tiers: frozenset[int]) -> Quote:
    """A quote as code finds it, in a form that reads back from a bundle as it is."""
    found = index.check(storable(text), storable(source), allowed_tiers=tiers)
    return found.model_copy(update={"expanded": storable(found.expanded)})


def tool_names(case: Case, record: RunRecord) -> tuple[str, ...]:
    """Every tool that a run called or that its case declares, sorted."""
    declared = {f"mcp__{server.name}__{tool.name}" for server in case.mcp_servers for tool in server.tools}
    return tuple(sorted(declared | {call.tool for call in record.calls}))


def made_by(record: RunRecord) -> tuple[str, ...]:
    """Paths of the files that a run made or changed."""
    return tuple(file.path for file in record.files if file.fixture != "unchanged")


def said_by(answer: _RowReply | None) -> Said:
    if answer is None:
        return MISSING
    if answer.verdict == "unsure":
        return Said(None, unsure=True)
    return Said(answer.verdict == "pass")


def _schema(rows: Sequence[Row]) -> dict[str, Any]:
    """The reply's JSON schema, with the ids of this question."""
    schema = _GraderReply.model_json_schema()
    schema["$defs"]["_RowReply"]["properties"]["id"]["enum"] = [row.id for row in rows]
    return schema
