"""Layer 3, second step: why the comparison came out as it did, and what to change in SKILL.md (R90-R106).

Asked after ``comparison.json`` is sealed and opened, by an own client. Advice, never a verdict: code fixes what follows from
the outcome (priorities, notes) and finds every quoted rule in SKILL.md itself.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any, Literal

from gate.domain.base import NotRun
from gate.domain.chat import ChatRequest, Message, ReplySchema, Role
from gate.domain.evidence import Block, RunRecord, Tier
from gate.domain.judgement import Analysis, Comparison, FollowedInstructions, Suggestion, Unblinding, Winner
from gate.domain.plan import safe_id
from gate.domain.seeding import SessionSeed
from gate.domain.skill import Skill
from gate.domain.suite import Case
from gate.errors import EvidenceError
from gate.evidence.bundle import load_blocks
from gate.evidence.quotes import normalise
from gate.judging.counting import Fallbacks
from gate.judging.ground_truth.values import clip
from gate.judging.schema import WHOLE, Reply
from gate.judging.showing import cut_to
from gate.llm.ledger import Ledger
from gate.llm.prompting import Fence, load_prompt, numbered
from gate.llm.replies import Asked, ask
from gate.llm.roles import Models

UNCLEAR_SCORE = 5
"""R106: at or below this the skill was read but not followed."""
_SKILL_CHARACTERS = 60_000
_RECORD_CHARACTERS = 80_000
_MAX_ITEMS = 6
_TEXT_CHARACTERS = 500
_RULE_CHARACTERS = 8
"""A quoted rule shorter than this could stand anywhere."""
_OUTPUT_TOKENS = 4_096


class _CauseReply(Reply):
    text: str
    rule_quote: str


class _FollowingReply(Reply):
    score: Annotated[Literal[1, 2, 3, 4, 5, 6, 7, 8, 9, 10], WHOLE]
    issues: list[str]


class _SuggestionReply(Reply):
    priority: Literal["high", "medium", "low"]
    category: Literal["instructions", "tools", "examples", "error_handling", "structure", "references"]
    suggestion: str
    expected_impact: str
    rule_quote: str
    harmful_rule: bool


class _AnalyzerReply(Reply):
    winner_strengths: list[_CauseReply]
    loser_weaknesses: list[_CauseReply]
    instruction_following: _FollowingReply
    improvement_suggestions: list[_SuggestionReply]


def analyse_case(
    case: Case,
    comparison: Comparison,
    unblinding: Unblinding,
    skill: Skill,
    with_run: RunRecord,
    without_run: RunRecord,
    *,
    root: Path,
    models: Models,
    ledger: Ledger,
    seed: SessionSeed,
) -> Analysis | NotRun:
    """Explain a sealed comparison with SKILL.md and the records of both arms; also on a TIE (R133).

    NotRun where the analyzer gave no valid reply. Raises EvidenceError where ``unblinding`` is not of this comparison,
    ModelError and BudgetError.
    """
    if not comparison.sealed or unblinding.comparison_sealed != comparison.sealed:
        raise EvidenceError(
            f"The comparison of case {case.eval_id!r} is not the one that was sealed before unblinding.",
            path="comparison.json",
            remedy="Do not use this bundle: run the gate again.",
        )
    fallbacks = Fallbacks(Role.ANALYZER)
    label = f"{skill.slug}/{safe_id(case.eval_id)}/analyse"
    fence = Fence(seed.token("analyzer-fence", label))
    request = ChatRequest(
        label=label,
        system=load_prompt("analyzer", question=load_prompt(f"analyzer_question_{unblinding.outcome.value}")),
        messages=(
            Message(
                role="user",
                text="\n\n".join(
                    [
                        "# Task",
                        fence.wrap("task", case.prompt),
                        "# Verdict",
                        fence.wrap("verdict", _verdict(comparison, unblinding)),
                        "# SKILL.md",
                        numbered(cut_to([_skill_block(skill)], _SKILL_CHARACTERS)[0], fence),
                        "# Record with the skill",
                        numbered(_record(root, with_run), fence),
                        "# Record without the skill",
                        numbered(_record(root, without_run), fence),
                    ]
                ),
            ),
        ),
        reply_schema=ReplySchema(name="analysis", json_schema=_AnalyzerReply.model_json_schema()),
        max_output_tokens=_OUTPUT_TOKENS,
    )

    def parse(data: dict[str, Any]) -> _AnalyzerReply:
        return _AnalyzerReply.model_validate(data)

    asked: Asked[_AnalyzerReply] = ask(models.of(Role.ANALYZER), request, parse, role=Role.ANALYZER, ledger=ledger)
    fallbacks.add(asked.fallbacks)
    reply = asked.value
    if reply is None:
        why = clip(asked.problem, 200).rstrip(".")
        return NotRun(not_run=f"the analyzer gave no valid reply: {why}", fallbacks=fallbacks.values())
    suggestions = [_suggestion(item, skill, unblinding.outcome, fallbacks) for item in reply.improvement_suggestions]
    following = FollowedInstructions(
        score=reply.instruction_following.score,
        issues=tuple(clip(item, _TEXT_CHARACTERS) for item in reply.instruction_following.issues[:_MAX_ITEMS]),
    )
    return Analysis(
        eval_id=case.eval_id,
        outcome=unblinding.outcome,
        winner_strengths=_causes(reply.winner_strengths, skill, fallbacks),
        loser_weaknesses=_causes(reply.loser_weaknesses, skill, fallbacks),
        with_skill_following=following,
        # Sorted by priority; a stable sort keeps the analyzer's own order within one.
        suggestions=tuple(
            sorted(suggestions, key=lambda item: ("high", "medium", "low").index(item.priority))[:_MAX_ITEMS]
        ),
        notes=_notes(unblinding.outcome, following, with_run, suggestions),
        fallbacks=fallbacks.values(),
        model=asked.reply_model,
    )


def rule_line(skill: Skill, quote: str) -> int | None:
    """The 1-based line of SKILL.md that holds a quoted rule, or None.

    Compared after the normalisation of quotes (spaces, typography), without list marks and without regard to a rule that
    is broken over lines: then it is the line where it starts.
    """
    wanted = normalise(quote).strip().lstrip("-*#>+ ").strip()
    if len(wanted.replace(" ", "")) < _RULE_CHARACTERS and not any("\u3400" <= c <= "\u9fff" for c in wanted):
        return None
    lines = [normalise(line).strip() for line in skill.text.replace("\r\n", "\n").split("\n")]
    for number, line in enumerate(lines, 1):
        if wanted and wanted in line:
            return number
    joined, starts = "", []
    for line in lines:
        starts.append(len(joined))
        joined += f"{line} " if line else ""
    place = joined.find(wanted) if wanted else -1
    if place < 0:
        return None
    return max(number for number, start in enumerate(starts, 1) if start <= place and lines[number - 1])


def _suggestion(given: _SuggestionReply, skill: Skill, outcome: Winner, fallbacks: Fallbacks) -> Suggestion:
    priority = given.priority
    if outcome is Winner.BASELINE and given.harmful_rule:
        priority = "high"  # R95: a rule that makes the work worse comes first, whatever the analyzer calls it
    return Suggestion(
        priority=priority,
        category=given.category,
        suggestion=clip(given.suggestion, _TEXT_CHARACTERS),
        expected_impact=clip(given.expected_impact, _TEXT_CHARACTERS),
        skill_md_line=_line(skill, given.rule_quote, fallbacks),
    )


def _causes(given: Sequence[_CauseReply], skill: Skill, fallbacks: Fallbacks) -> tuple[str, ...]:
    """Sentences, each with the line of SKILL.md that code found for it (R122)."""
    causes = []
    for item in given[:_MAX_ITEMS]:
        line = _line(skill, item.rule_quote, fallbacks)
        causes.append(clip(item.text, _TEXT_CHARACTERS) + (f" (SKILL.md line {line})" if line else ""))
    return tuple(causes)


def _line(skill: Skill, quote: str, fallbacks: Fallbacks) -> int | None:
    line = rule_line(skill, quote)
    fallbacks.count("rule_quote_not_found", int(line is None and bool(quote.strip())))
    return line


def _notes(
    outcome: Winner, following: FollowedInstructions, with_run: RunRecord, suggestions: Sequence[Suggestion]
) -> tuple[str, ...]:
    notes = []
    if outcome is Winner.TIE:
        notes.append("no observable gain on this case")
    if outcome is Winner.BASELINE:
        notes.append("no gain: the output without the skill was better on this case")
        if not any(item.priority == "high" for item in suggestions):
            notes.append("the analyzer named no rule that did harm")
    if not with_run.metrics.activated:
        notes.append("SKILL.md was not opened in the run that was analysed")
    elif following.score <= UNCLEAR_SCORE:
        notes.append(f"read but not followed: SKILL.md unclear (instruction following {following.score} of 10)")
    return tuple(notes)


def _verdict(comparison: Comparison, unblinding: Unblinding) -> str:
    with_label = unblinding.with_skill
    names = {with_label: "with the skill", "B" if with_label == "A" else "A": "without the skill"}
    lines = [f"outcome: {unblinding.outcome.value}"]
    for label in ("A", "B"):
        scores = ", ".join(f"{name} {value:g}" for name, value in comparison.rubric.get(label, {}).items())
        lines.append(f"output {label} ({names[label]}): {scores}")
    return "\n".join([*lines, "the comparator's words:", comparison.reasoning])


def _skill_block(skill: Skill) -> Block:
    return Block(id="S", tier=Tier.OUTPUT, kind="outputs", title=skill.skill_md, text=skill.text.replace("\r\n", "\n"))


def _record(root: Path, record: RunRecord) -> tuple[Block, ...]:
    """All of a run's record, notes too: nothing here decides, and they show how an agent understood its instructions."""
    return cut_to(load_blocks(root, record), _RECORD_CHARACTERS)[0]
