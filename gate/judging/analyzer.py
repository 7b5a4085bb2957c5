"""Layer 3, second step: why the comparison came out as it did, and what to change in SKILL.md (R90-R106).

Asked after ``comparison.json`` is sealed and opened, by an own client. Advice, never a verdict: code fixes what follows from
the outcome (priorities, notes) and finds every line that the analyzer copied in SKILL.md or the skill's other files itself.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any, Literal

from gate.domain.base import NotRun
from gate.domain.chat import ChatRequest, Message, ReplySchema, Role
from gate.domain.evidence import Block, RunRecord, Tier
from gate.domain.judgement import (
    NO_GAIN,
    Analysis,
    Cause,
    Comparison,
    ComparisonSummary,
    FollowedInstructions,
    InstructionFollowing,
    SkillLine,
    Suggestion,
    TranscriptInsights,
    Unblinding,
    Winner,
)
from gate.domain.plan import safe_id
from gate.domain.seeding import SessionSeed
from gate.domain.skill import Skill, texts_of
from gate.domain.suite import Case
from gate.errors import EvidenceError
from gate.evidence.bundle import load_blocks
from gate.evidence.quotes import normalise
from gate.judging.counting import Fallbacks
from gate.judging.ground_truth.values import clip, storable
from gate.judging.schema import WHOLE, Reply
from gate.judging.showing import cut_to
from gate.llm.ledger import Ledger
from gate.llm.prompting import Fence, load_prompt, numbered
from gate.llm.replies import Asked, ask
from gate.llm.roles import Models

UNCLEAR_SCORE = 5
"""R106: at or below this the skill was read but not followed."""
UNCLEAR = "read but not followed: SKILL.md unclear"
MAX_FILES = 12
"""Further files of the skill that are shown."""
_SKILL_CHARACTERS = 60_000
_LINE_CHARACTERS = 300
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


class _BothReply(Reply):
    with_skill: _FollowingReply
    without_skill: _FollowingReply


class _PatternsReply(Reply):
    with_skill: str
    without_skill: str


class _SuggestionReply(Reply):
    priority: Literal["high", "medium", "low"]
    category: Literal["instructions", "tools", "examples", "error_handling", "structure", "references"]
    suggestion: str
    expected_impact: str
    rule_quote: str
    harmful_rule: bool


class _AnalyzerReply(Reply):
    execution_patterns: _PatternsReply
    winner_strengths: list[_CauseReply]
    loser_weaknesses: list[_CauseReply]
    instruction_following: _BothReply
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

    NotRun where the analyzer gave no valid reply. Raises EvidenceError where the comparison is not as it was sealed or
    ``unblinding`` does not open it, ModelError and BudgetError.
    """
    if not unblinding.fits(comparison):
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
                        fence.wrap("task", case.asked),
                        "# Verdict",
                        fence.wrap("verdict", _verdict(comparison, unblinding)),
                        "# SKILL.md and its files",
                        numbered(cut_to(_skill_blocks(skill, with_run), _SKILL_CHARACTERS)[0], fence),
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
    outcome = unblinding.outcome
    suggestions = [_suggestion(item, skill, outcome, fallbacks) for item in reply.improvement_suggestions]
    following = _following(reply.instruction_following, outcome)
    return Analysis(
        eval_id=case.eval_id,
        outcome=outcome,
        comparison_summary=ComparisonSummary(
            winner=comparison.winner,
            winner_is_with_skill=unblinding.winner_is_with_skill,
            evaluated_skill=skill.path,
            comparator_reasoning=comparison.reasoning,
            run_with=with_run.key.run,
            run_without=without_run.key.run,
        ),
        winner_strengths=_causes(reply.winner_strengths, skill, fallbacks),
        loser_weaknesses=_causes(reply.loser_weaknesses, skill, fallbacks),
        instruction_following=following,
        # By priority; a stable sort keeps the analyzer's own order within one.
        improvement_suggestions=tuple(
            sorted(suggestions, key=lambda item: ("high", "medium", "low").index(item.priority))[:_MAX_ITEMS]
        ),
        transcript_insights=TranscriptInsights(
            with_skill_execution_pattern=clip(reply.execution_patterns.with_skill, _TEXT_CHARACTERS),
            without_skill_execution_pattern=clip(reply.execution_patterns.without_skill, _TEXT_CHARACTERS),
        ),
        notes=_notes(outcome, following.with_skill, with_run, suggestions),
        fallbacks=fallbacks.values(),
        model=asked.reply_model,
    )


def recheck_analysis(analysis: Analysis, skill: Skill) -> list[str]:
    """Citations of a stored analysis that stand nowhere in the skill, one sentence each; empty: all of them do."""
    where = f"analysis of case {analysis.eval_id!r}"
    cited = [item.citation for item in (*analysis.winner_strengths, *analysis.loser_weaknesses)]
    cited += [item.citation for item in analysis.improvement_suggestions]
    lines = {path: text.split("\n") for path, text in _texts(skill).items()}
    return [
        f"{where}: {item.path}:{item.line} does not say what is cited of it"
        for item in cited
        if item is not None
        and (item.line > len(lines.get(item.path, ())) or item.text != _shown_line(lines[item.path][item.line - 1]))
    ]


def cite(skill: Skill, quote: str) -> SkillLine | None:
    """Where words that an analyzer copied stand: in SKILL.md, else in the first other file by its path; or None."""
    for path, text in _texts(skill).items():
        line = line_of(text, quote)
        if line is not None:
            return SkillLine(path=path, line=line, text=_shown_line(text.split("\n")[line - 1]))
    return None


def line_of(text: str, quote: str) -> int | None:
    """The 1-based line of a file that holds a quoted rule, or None.

    Compared after the normalisation of quotes (spaces, typography), without list marks and without regard to a rule that
    is broken over lines: then it is the line where it starts.
    """
    wanted = normalise(quote).strip().lstrip("-*#>+ ").strip()
    if len(wanted.replace(" ", "")) < _RULE_CHARACTERS and not any("\u3400" <= c <= "\u9fff" for c in wanted):
        return None
    lines = [normalise(line).strip() for line in text.split("\n")]
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


def _texts(skill: Skill) -> dict[str, str]:
    """Path from the repository's root -> text of SKILL.md and then of every other text file that an agent can read."""
    folder = "" if skill.path in ("", ".") else f"{skill.path.rstrip('/')}/"
    return {f"{folder}{path}": text for path, text in texts_of(skill).items()}


def _shown_line(line: str) -> str:
    return storable(clip(line.strip(), _LINE_CHARACTERS))


def _suggestion(given: _SuggestionReply, skill: Skill, outcome: Winner, fallbacks: Fallbacks) -> Suggestion:
    priority = given.priority
    if outcome is Winner.BASELINE and given.harmful_rule:
        priority = "high"  # R95: a rule that makes the work worse comes first, whatever the analyzer calls it
    return Suggestion(
        priority=priority,
        category=given.category,
        suggestion=clip(given.suggestion, _TEXT_CHARACTERS),
        expected_impact=clip(given.expected_impact, _TEXT_CHARACTERS),
        harmful_rule=given.harmful_rule,
        citation=_citation(skill, given.rule_quote, fallbacks),
    )


def _causes(given: Sequence[_CauseReply], skill: Skill, fallbacks: Fallbacks) -> tuple[Cause, ...]:
    return tuple(
        Cause(text=clip(item.text, _TEXT_CHARACTERS), citation=_citation(skill, item.rule_quote, fallbacks))
        for item in given[:_MAX_ITEMS]
    )


def _citation(skill: Skill, quote: str, fallbacks: Fallbacks) -> SkillLine | None:
    citation = cite(skill, quote)
    fallbacks.count("rule_quote_not_found", int(citation is None and bool(quote.strip())))
    return citation


def _following(given: _BothReply, outcome: Winner) -> InstructionFollowing:
    ours, theirs = (
        FollowedInstructions(
            score=item.score, issues=tuple(clip(issue, _TEXT_CHARACTERS) for issue in item.issues[:_MAX_ITEMS])
        )
        for item in (given.with_skill, given.without_skill)
    )
    named = {Winner.SKILL: (ours, theirs), Winner.BASELINE: (theirs, ours), Winner.TIE: (None, None)}[outcome]
    return InstructionFollowing(with_skill=ours, without_skill=theirs, winner=named[0], loser=named[1])


def _notes(
    outcome: Winner, following: FollowedInstructions, with_run: RunRecord, suggestions: Sequence[Suggestion]
) -> tuple[str, ...]:
    notes = []
    if outcome is Winner.TIE:
        notes.append(NO_GAIN)
    if outcome is Winner.BASELINE:
        notes.append("no gain: the output without the skill was better on this case")
        if not any(item.harmful_rule for item in suggestions):
            notes.append("the analyzer named no rule that did harm")
    if not with_run.metrics.activated:
        notes.append("SKILL.md was not opened in the run that was analysed")
    elif following.score <= UNCLEAR_SCORE:
        notes.append(f"{UNCLEAR} (instruction following {following.score} of 10)")
    return tuple(notes)


def _verdict(comparison: Comparison, unblinding: Unblinding) -> str:
    with_label = unblinding.with_skill
    names = {with_label: "with the skill", "B" if with_label == "A" else "A": "without the skill"}
    lines = [f"outcome: {unblinding.outcome.value}"]
    for label in ("A", "B"):
        scores = ", ".join(f"{name} {value:g}" for name, value in comparison.rubric.get(label, {}).items())
        lines.append(f"output {label} ({names[label]}): {scores}")
    return "\n".join([*lines, "the comparator's words:", comparison.reasoning])


def _skill_blocks(skill: Skill, with_run: RunRecord) -> tuple[Block, ...]:
    """SKILL.md, then the files that the agent opened, then the others."""
    opened = {name.rsplit("/", 1)[-1] for name in with_run.metrics.opened}
    main, *others = _texts(skill).items()
    others.sort(key=lambda item: (item[0].rsplit("/", 1)[-1] not in opened, item[0]))
    return tuple(
        Block(id=f"S{number or ''}", tier=Tier.OUTPUT, kind="outputs", title=path, text=text)
        for number, (path, text) in enumerate([main, *others[:MAX_FILES]])
    )


def _record(root: Path, record: RunRecord) -> tuple[Block, ...]:
    """All of a run's record, notes too: nothing here decides, and they show how an agent understood its instructions."""
    return cut_to(load_blocks(root, record), _RECORD_CHARACTERS)[0]
