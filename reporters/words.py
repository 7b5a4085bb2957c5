"""Words and figures that the comment and the page share. Plain text; nothing here is escaped."""

from __future__ import annotations

from collections.abc import Iterable

from gate.domain.base import FallbackCount, Severity
from gate.domain.discussion import Dimension
from gate.domain.findings import Finding
from gate.domain.manifest import ManifestScope, ManifestState, ManifestStatus
from gate.domain.numbers import counted
from gate.domain.plan import Arm
from gate.domain.report import (
    ArmFigures,
    AssertionTriage,
    CaseReport,
    Citation,
    CitedBlock,
    CitedLine,
    Condition,
    DiscussionReport,
    GateReport,
    GradedRow,
    ModelUse,
    RunEvidence,
    Share,
    SkillReport,
    Verdict,
)
from reporters.catalogue import ENGLISH, Speech

ARM_NAMES = {
    Arm.WITH_SKILL: "with skill",
    Arm.WITHOUT_SKILL: "without",
    Arm.BASE_SKILL: "base version",
    Arm.SELF_GENERATED: "self-generated skill",
    Arm.PLACEBO: "placebo text",
}
VERDICT_NAMES = {
    Verdict.PASS: "PASS",
    Verdict.CONDITIONAL: "CONDITIONAL",
    Verdict.INCONCLUSIVE: "INCONCLUSIVE",
    Verdict.FAIL: "FAIL",
    Verdict.INVALID: "INVALID",
    Verdict.ERROR: "ERROR",
    Verdict.BLOCKED: "BLOCKED",
    Verdict.NO_EVALS: "NO EVALS",
    Verdict.NOT_MEASURED: "NOT MEASURED",
}
FIGURES_LEGEND = "Figures: checks and expectations passed of all, over the finished of the planned runs."
TRIAGE_LEGEND = (
    "Class: discriminating passes with the skill and not without; saturated passes in both; dead fails in both; inverted "
    "passes without the skill and not with it; flaky goes either way in both; under-powered: too few runs to tell."
)
VERIFY_HINT = "skill-gate verify DIR"
NO_FALLBACKS = "None: reply tiers, rejected quotes, retries, dropped runs, skipped arms, voided batches are all 0."


def share(value: Share) -> str:
    """``5/6``, or a dash where nothing was tried."""
    return f"{value.passed}/{value.total}" if value.total else "–"  # noqa: RUF001 - a dash in a table cell


def things(skill: SkillReport) -> str:
    """What the assertions of a skill are, in one word."""
    kinds = sorted({item.kind for item in skill.triage if item.severity is not Severity.INFO})
    return f"{kinds[0]}s" if len(kinds) == 1 else "assertions"


def arm_of(skill: SkillReport, arm: Arm) -> ArmFigures | None:
    """The figures of one arm."""
    return next((item for item in skill.arms if item.arm is arm), None)


def history_lines(skill: SkillReport) -> list[str]:
    """What earlier sessions said of a skill, and what each case was held against where a baseline was; may be empty."""
    if skill.history is None:
        return []
    held = skill.history.baseline
    return [f"history: {skill.history.words}", *([f"baseline: {'; '.join(held)}"] if held else [])]


def arm_cell(skill: SkillReport, arm: Arm, speech: Speech = ENGLISH) -> str:
    """``5/6 checks in 2/2 runs`` (finished of planned); ``not run`` where no run of the arm was planned."""
    figures = arm_of(skill, arm)
    if figures is None or not figures.planned:
        return speech.say("cell.not_run")
    runs = speech.say("cell.runs", finished=figures.finished, planned=figures.planned)
    if not figures.assertions.total:
        return speech.say("cell.finished", runs=runs)
    named = speech.say(f"cell.{things(skill)}")
    return speech.say("cell.passed", share=share(figures.assertions), things=named, runs=runs)


def lift_cell(skill: SkillReport, speech: Speech = ENGLISH) -> str:
    """The difference alone; the sentence with its rates is in the details."""
    first = skill.lift.split(" ", 1)[0]
    return first if first[:1] in ("+", "-") else speech.say("cell.not_computed")


def change_words(skill: SkillReport, speech: Speech = ENGLISH) -> str:
    """``modified, code_execution``."""
    return speech.say("cell.change", change=speech.word(skill.change), type=skill.type)


def rate(value: float | None, digits: int = 2) -> str:
    """A number, or a dash where it is unknown."""
    return "–" if value is None else f"{value:.{digits}f}"  # noqa: RUF001 - a dash in a table cell


def spread(figures: ArmFigures) -> str:
    """Mean and sample standard deviation of the rate over runs."""
    if figures.mean_rate is None:
        return "–"  # noqa: RUF001 - a dash in a table cell
    sd = "" if figures.sd_rate is None else f" ± {figures.sd_rate:.2f}"
    return f"{figures.mean_rate:.2f}{sd}"


def tokens(value: float | None, speech: Speech = ENGLISH) -> str:
    """Thousands separated, or ``unknown``."""
    return speech.say("cell.unknown") if value is None else f"{value:,.0f}"


def dollars(value: float | None, speech: Speech = ENGLISH) -> str:
    """``$0.0123``, or ``unknown``: never a zero for what is not known."""
    if value is None:
        return speech.say("cell.unknown")
    return f"${value:.2f}" if value >= 1 or value == 0 else f"${value:.4f}"


def place(finding: Finding) -> str:
    """``path:line:column`` as far as known."""
    text = finding.path
    if finding.line is not None:
        text += f":{finding.line}" + (f":{finding.column}" if finding.column is not None else "")
    return text


def finding_text(finding: Finding) -> str:
    """What was found, then what to do."""
    if not finding.remedy:
        return finding.message
    return f"{finding.message.rstrip(' .')}. {finding.remedy}"


def manifest_words(item: ManifestStatus, speech: Speech = ENGLISH) -> str:
    """A manifest's state and what it rests on: digests that match are never called a signature that holds."""
    state = speech.word(item.state.value)
    if item.state is ManifestState.VERIFIED:
        basis = {ManifestScope.FORM: "form", ManifestScope.DIGESTS: "digests", ManifestScope.SIGNATURE: "signature"}
        facts = {"n": item.files} if item.scope is ManifestScope.DIGESTS else {}
        return speech.say(f"cell.manifest_{basis[item.scope]}", state=state, **facts)
    return speech.say("cell.manifest_reason", state=state, reason=item.reason) if item.reason else state


def case_title(case: CaseReport) -> str:
    """Id and name of a case."""
    return f"{case.eval_id} {case.name}".strip()


def passed_word(case: CaseReport, speech: Speech = ENGLISH) -> str:
    """``passed``, ``not passed``, or that it could not be said."""
    return speech.say({True: "cell.case_passed", False: "cell.case_failed", None: "cell.case_open"}[case.passed])


def comparison_word(case: CaseReport, speech: Speech = ENGLISH) -> str:
    """The winner of Layer 3 in words."""
    won = case.comparison in ("skill_wins", "baseline_wins", "tie")
    word = speech.say(f"cell.{case.comparison}") if won else speech.told(case.comparison)
    if not case.comparison_detail:
        return word
    return speech.say("cell.comparison", word=word, detail=speech.told(case.comparison_detail))


CONDITION_COLUMNS = ("Condition", "Passed", "Mean rate", "Cases", "Runs", "Lift over none")


def condition_cells(item: Condition, speech: Speech = ENGLISH) -> tuple[str, ...]:
    """One of the three conditions: its rate and its lift, each with its counts."""
    name = speech.known(item.name)
    if item.absent is not None:
        return (name, speech.say("cell.condition_absent", why=speech.told(item.absent)), *[""] * 4)
    lift = "" if item.lift is None else speech.say("cell.condition_lift", lift=f"{item.lift:+.2f}", n=item.lift_cases)
    return (name, share(item.passed), rate(item.rate), str(item.cases), str(item.runs), lift)


def assertion_title(item: AssertionTriage) -> str:
    """Severity, kind and id."""
    return f"{item.severity.value} {item.kind} {item.assertion_id}"


_KINDS = {"tool_calls": "tool call", "response": "response", "outputs": "output", "agent_notes": "agent's notes"}


def run_anchor(run: RunEvidence) -> str:
    """The page's name of a run: its folder, which no other run of the session has."""
    return run.folder.removeprefix("skills/")


def row_anchor(run: RunEvidence, row: GradedRow) -> str:
    """The page's name of a graded row."""
    return f"{run_anchor(run)}/row-{row.number}"


def line_anchor(run: RunEvidence, block: str, line: int) -> str:
    """The page's name of a line of the record, as judges cite it: ``<run>/B003:12``."""
    return f"{run_anchor(run)}/{block}:{line}"


def run_title(run: RunEvidence) -> str:
    """``case 1, with skill, run 2``."""
    return f"case {run.eval_id}, {ARM_NAMES.get(run.arm, run.arm.value)}, run {run.run}"


def block_title(block: CitedBlock) -> str:
    """``B003, tool call, Step 2: bash, 40 lines``."""
    count = "1 line" if block.total_lines == 1 else f"{block.total_lines} lines"
    kind = _KINDS.get(block.kind, block.kind)
    names = (kind,) if block.title == kind else (kind, block.title)
    return ", ".join((block.id, *names, count))


def citation(cite: Citation) -> str:
    """``B003:12``, with the tier by which code accepted a quote."""
    return f"{cite.block}:{cite.line}" + (f" ({cite.accepted_as})" if cite.accepted_as else "")


def row_title(row: GradedRow) -> str:
    """Severity, kind and id."""
    return f"{row.severity.value} {row.kind} {row.id}"


def segments(line: CitedLine) -> list[tuple[str, bool]]:
    """The pieces of a line, and whether each is cited."""
    pieces: list[tuple[str, bool]] = []
    done = 0
    for start, end in line.marks:
        pieces += [(line.text[done:start], False), (line.text[start:end], True)]
        done = end
    pieces.append((line.text[done:], False))
    return [piece for piece in pieces if piece[0]]


def rows_of(skill: SkillReport, item: AssertionTriage) -> list[tuple[RunEvidence, GradedRow]]:
    """The graded rows of an assertion, in the order of the report: arms, then runs."""
    return [
        (run, row)
        for run in skill.evidence
        if run.eval_id == item.eval_id
        for row in run.rows
        if row.kind == item.kind and row.id == item.assertion_id
    ]


def rows_by_arm(skill: SkillReport, item: AssertionTriage) -> dict[str, list[tuple[RunEvidence, GradedRow]]]:
    """The graded rows of an assertion by the name of their arm."""
    found: dict[str, list[tuple[RunEvidence, GradedRow]]] = {}
    for run, row in rows_of(skill, item):
        found.setdefault(ARM_NAMES.get(run.arm, run.arm.value), []).append((run, row))
    return found


def run_link(run: RunEvidence, row: GradedRow) -> str:
    """The number of a run; a cross beside it where the row did not pass."""
    return f"{run.run}" if row.status == "passed" else f"{run.run}\u00a0\u2717"


def telling_place(skill: SkillReport, item: AssertionTriage, speech: Speech = ENGLISH) -> tuple[str, str]:
    """(what it is, anchor) of the place that shows most about an assertion; empty where no run graded it.

    The first run with the skill in which it did not pass, else the first with evidence: the line that was cited, or the
    row where no line was.
    """
    found = rows_of(skill, item)
    own = [pair for pair in found if pair[0].arm is Arm.WITH_SKILL] or found
    if not own:
        return "", ""
    run, row = min(own, key=lambda pair: (pair[1].status == "passed", not pair[1].cites))
    if not row.cites:
        return speech.say("cell.run_line", run=run.run), row_anchor(run, row)
    cite = row.cites[0]
    place = speech.say("cell.run_place", run=run.run, place=f"{cite.block}:{cite.line}")
    return place, line_anchor(run, cite.block, cite.line)


def fallback_words(count: FallbackCount, speech: Speech = ENGLISH) -> str:
    """``grader: reply_fenced: 2``."""
    kind = fallback_kind(count.kind, speech)
    if not count.role:
        return speech.say("cell.fallback_alone", kind=kind, n=count.count)
    return speech.say("cell.fallback", role=speech.word(count.role), kind=kind, n=count.count)


def fallback_kind(kind: str, speech: Speech) -> str:
    """What went another way: in English the kind's own name; elsewhere words, with the name where it has a rest."""
    if speech.english:
        return kind
    name, _, rest = kind.partition(":")
    words = speech.sense(f"fallback.{name}")
    if not words:
        return kind
    arm, _, why = rest.partition(": ")
    if why:  # arm_skipped:without_skill: skipped in this mode
        rest = speech.say("cell.change_why", change=speech.word(arm), why=speech.told(why))
    return speech.say("cell.fallback_rest", kind=words, rest=rest) if rest else words


INTENDED = (
    "reply_native",
    "reply_whole",
    "discussion_end:no_new_evidence",
    "gateway_side_call",
    "gateway_tokens_counted",
)
"""Kinds that are counted with the fallbacks (DESIGN.md 9, the tier of every reply) and are none themselves."""
AGENT_PROGRAM = "agent_program "
"""Beginning of the kind that counts runs of an agent program, by its name and version; none is a fallback either."""


def fallback_total(counts: Iterable[FallbackCount]) -> int:
    """How often something went another way than intended."""
    own = (item for item in counts if not item.kind.startswith(AGENT_PROGRAM))
    return sum(item.count for item in own if item.kind not in INTENDED)


ENDS = {
    "no_new_evidence": "neither side had new evidence",
    "round_cap": "the last round was reached",
    "lost": "one of the three could not be heard",
    "degraded": "there was no valid evaluation",
}


def path_words(path: Iterable[float | None], speech: Speech = ENGLISH) -> str:
    """``0.70 -> 0.88``."""
    return " -> ".join(speech.say("discussion.no_score") if score is None else f"{score:.2f}" for score in path)


def dimension_cells(item: DiscussionReport) -> list[tuple[str, str]]:
    """(dimension, score) in the order of their weights."""
    scores = [(name.value, item.scores.get(name.value)) for name in Dimension]
    return [(name, "no score" if score is None else f"{score:g}") for name, score in scores]


def discussion_words(item: DiscussionReport, speech: Speech = ENGLISH) -> str:
    """One discussion: grade, scores, how it went. It moves no verdict."""

    def say(name: str, **facts: object) -> str:
        return speech.say(f"discussion.{name}", **facts)

    grade, path = item.grade or say("none"), path_words(item.score_path, speech)
    parts = [say("line", id=item.eval_id, run=item.run, grade=grade, path=path)]
    if item.degraded:
        parts.append(say("degraded", why=item.degraded))
    parts.append(", ".join(f"{name} {shown}" for name, shown in dimension_cells(item)))
    if item.by_rule:
        parts.append(say("by_rule", names=", ".join(item.by_rule)))
    why = say(_ENDED[item.end_reason]) if item.end_reason in _ENDED else item.end_reason
    parts.append(say("rounds", n=item.rounds, accepted=item.accepted_rounds, why=why))
    if item.seed_end:
        parts.append(say("seed_end", what=item.seed_end))
    parts.append(say("void", n=item.void_objections, cave=item.cave_index))
    if item.criteria.total:
        parts.append(say("criteria", source=item.criteria_source, share=share(item.criteria)))
    parts += [say("moved", what=text) for text in item.moved]
    return speech.say("headline.semicolon").join(parts)


_ENDED = {"no_new_evidence": "no_new_evidence", "round_cap": "round_cap", "lost": "lost", "degraded": "end_degraded"}
"""Reason of an end -> its message."""


def discussion_lines(skill: SkillReport, speech: Speech = ENGLISH) -> list[str]:
    """Every discussion, then why other runs had none; nothing where the mode asked for none."""
    lines = [discussion_words(item, speech) for item in skill.discussions]
    return [*lines, *(speech.say("discussion.undiscussed", why=speech.told(text)) for text in skill.undiscussed)]


def contract_lines(skill: SkillReport, speech: Speech = ENGLISH) -> list[str]:
    """The contracts of a skill; nothing where the policy asks for none."""

    def say(name: str, **facts: object) -> str:
        return speech.say(f"contract.{name}", **facts)

    contract = skill.contract
    if contract is None:
        return []
    if contract.not_made:
        return [say("not_made", why=contract.not_made)]
    lines = [say("drafted")] if contract.drafted else []
    for task in contract.tasks:
        facts = {
            "agreed": say("agreed" if task.approved else "forced"),
            "path": path_words(task.score_path, speech),
            "said": say("disagreed", n=task.disagreements) if task.disagreements else "",
            "lost": say("lost", why=task.degraded) if task.degraded else "",
        }
        lines.append(say("task", id=task.eval_id, n=len(task.score_path), **facts))
    told = say("all_told" if contract.plan_given == "all_arms" else "none_told")
    return [*lines, *map(speech.original, (*contract.missing, *contract.refused)), told]


def usage_cells(use: ModelUse, speech: Speech = ENGLISH) -> tuple[str, ...]:
    """role, model, calls, failed calls, tokens in, tokens out, cost."""
    return (
        speech.word(use.role),
        use.model,
        str(use.calls),
        str(use.failed_calls),
        tokens(use.input_tokens, speech),
        tokens(use.output_tokens, speech),
        dollars(use.cost_usd, speech),
    )


def spent_words(case: CaseReport) -> str:
    """What a case cost over all roles, and what it might: ``12 of 200 calls, 8,123 tokens, $0.0100 of $0.67``; a dash where
    nothing was asked for it."""
    spent, share = case.spent, case.share
    if spent is None:
        return "–"  # noqa: RUF001 - a dash in a table cell
    used = (
        None if spent.input_tokens is None or spent.output_tokens is None else spent.input_tokens + spent.output_tokens
    )
    known = spent.known_input_tokens + spent.known_output_tokens
    unknown = f"at least {known:,} tokens" if known else "tokens unknown"
    count = f"{used:,} tokens" if used is not None else unknown
    money = dollars(spent.cost_usd) if spent.cost_usd is not None or not spent.known_cost_usd else ""
    calls = f"{spent.calls} of {share.model_calls} calls" if share is not None else counted(spent.calls, "call")
    failed = f" ({spent.failed_calls} failed)" if spent.failed_calls else ""
    price = money if money != "unknown" else "price unknown"
    price = price or f"at least {dollars(spent.known_cost_usd)}"
    cap = f" of {dollars(share.usd)}" if share is not None and price != "price unknown" else ""
    return f"{calls}{failed}, {count}, {price}{cap}"


REPLAYED = "scripted"
"""How ``GateReport.models`` begins where recorded replies answered."""
UNPRICED = "price unknown"


def nothing_paid(report: GateReport) -> bool:
    """Whether recorded replies answered and nobody knows a list price: unknown would sound like a bill to come."""
    return report.models.startswith(REPLAYED) and not any(use.known_cost_usd for use in report.usage)


def cost_line(report: GateReport) -> str:
    """The report's line about cost; of a replay it says that nothing was paid."""
    return report.cost.replace(UNPRICED, "$0.00 paid (a replay)") if nothing_paid(report) else report.cost


def total_cost(report: GateReport, speech: Speech = ENGLISH) -> str:
    """Sum over roles; ``unknown`` as soon as one is, but for a replay, for which nothing was paid."""
    if report.usage and nothing_paid(report):
        return speech.say("cell.replay")
    costs = [use.cost_usd for use in report.usage]
    known = [cost for cost in costs if cost is not None]
    if not costs:
        return "$0.00"
    if len(known) == len(costs):
        return dollars(sum(known))
    least = sum(use.known_cost_usd for use in report.usage)
    return speech.say("cell.at_least", money=dollars(least)) if least else speech.say("cell.unknown")


def commits(report: GateReport, speech: Speech = ENGLISH) -> str:
    """``base..head``, shortened; what is not known is said."""
    base = report.base_commit[:12] if report.base_commit else speech.say("cell.no_base")
    head = report.head_commit[:12] if report.head_commit else speech.say("cell.no_head")
    return f"{base}..{head}"


def verdict_counts(report: GateReport) -> str:
    """``1 FAIL, 2 PASS``, in the order of the report."""
    seen: dict[Verdict, int] = {}
    for skill in report.skills:
        seen[skill.verdict] = seen.get(skill.verdict, 0) + 1
    return ", ".join(f"{count} {VERDICT_NAMES[verdict]}" for verdict, count in seen.items())
