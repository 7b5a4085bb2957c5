"""Layer 2b: the grader proposes with quotes, code decides (DESIGN.md 4).

The grader has its own client and no history. It sees the task, the expectations and the numbered record without the agent's
notes, never SKILL.md. Whatever it says, a row is PASSED only by ``rows.RowRules``.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path
from typing import Literal

from gate.domain.chat import Role
from gate.domain.evidence import Block, RunRecord, Tier
from gate.domain.judgement import Claim, ExpectationGrade, GradeStatus, Grading, Quote
from gate.domain.plan import Arm
from gate.domain.seeding import SessionSeed
from gate.domain.skill import Skill
from gate.domain.suite import Case, Expectation
from gate.evidence.bundle import load_blocks
from gate.evidence.quotes import QuoteIndex, nearest, unescape
from gate.evidence.suspicious import judge_directed, judge_directed_name
from gate.judging.asking import Batch, ClaimReply, Judging, looked_up, made_by, said_by, tool_names
from gate.judging.expectations import CALLS_AND_OUTPUT
from gate.judging.ground_truth.values import clip
from gate.judging.rows import MISSING, Decision, RowRules, Said
from gate.judging.second_look import (
    Looked,
    Scrutiny,
    after,
    again_status,
    ask_again,
    look_again,
    without_what_speaks,
)
from gate.judging.showing import cut_to, for_a_judge
from gate.llm.ledger import Ledger
from gate.llm.roles import Models

ROWS_PER_QUESTION = 15
"""Expectations in one question, controls not counted."""
_REASON_CHARACTERS = 300
_MAX_CLAIMS, _MAX_FEEDBACK = 8, 5
_IN_NOTES = " (notes)"
_LABELS = re.compile(r"^(?:Tool|Args|Status|Return):", re.MULTILINE)
_CONTENT = re.compile(r"\w")
_SKILL_RULE = re.compile(r"\bskill(?:\.md)?\b|技能", re.IGNORECASE)
_QUOTED_RULE = re.compile(r'"([^"\n]{8,200})"|\u201c([^\u201d\n]{4,200})\u201d|「([^」\n]{4,200})」')


def grade_run(
    case: Case,
    record: RunRecord,
    skill: Skill | None,
    *,
    root: Path,
    models: Models,
    ledger: Ledger,
    seed: SessionSeed,
    second_judge: Literal["off", "auto", "on"] = "auto",
    spot_checks: bool = False,
) -> Grading:
    """Grade the expectations of a case over one sealed run.

    One row per expectation, in the order of the case. No model is asked where the case has no expectations, the run did not
    complete, or it left nothing to judge. A batch in which a known-false control passed is asked anew once; if it happens
    again, ``voided`` says so and every row is ungraded. ``skill`` is read by code only, to look up rules that the agent
    claims to quote.

    Passed rows are looked at again (``second_look``) where ``spot_checks`` says so, and in any case where the record
    speaks to a judge: then the opposite of each is asked, and with ``second_judge`` ``auto`` a grader of another family
    must agree, where there is one; with ``on`` it must agree in every run. In runs of the confirm stage the rows that a
    charge may rest on are asked once more (``ask_again``). Where no model answers a look that a pass
    depends on, the row is ungraded; the others keep what the first look gave. Raises ModelError (of the first look),
    BudgetError and EvidenceError.
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
    judging = Judging(case, record, blocks, models, ledger, seed)
    scrutiny = _scrutiny(models, second_judge, hit=speaks_to_a_judge(suspicious), full=spot_checks)
    looked: list[Looked] = []
    rows: list[ExpectationGrade] = []
    claims: list[Claim] = []
    feedback: list[str] = []
    voided = None
    for number, start in enumerate(range(0, len(case.expectations), ROWS_PER_QUESTION), 1):
        expectations = case.expectations[start : start + ROWS_PER_QUESTION]
        batch = _believable(judging, f"{record.key.label}/grade-{number}", expectations)
        if batch is None:
            voided = "the grader passed or left out an expectation that is known to be false, twice"
            break
        decided = _decided(judging, f"{record.key.label}/grade-{number}", expectations, batch)
        looked.append(look_again(judging, f"{record.key.label}/grade-{number}", decided, scrutiny))
        rows += _still_passed(judging, expectations, decided, looked[-1])
        if (wanted := _charged(record)) is not None:
            own = rows[-len(expectations) :]
            looked.append(Looked(ask_again(judging, f"{record.key.label}/grade-{number}/confirm", own, wanted)))
        if batch.reply is not None:
            claims += [_claim(judging, item, skill) for item in batch.reply.claims[:_MAX_CLAIMS]]
            feedback += [clip(item, 500) for item in batch.reply.eval_feedback[:_MAX_FEEDBACK] if item.strip()]
    if voided is not None:
        rows = [_ungraded(item, voided) for item in case.expectations]
        claims, feedback, looked = [], [], []
    return Grading(
        rows=tuple(rows),
        controls=tuple(judging.controls),
        voided=voided,
        spot_checks=tuple(check for item in looked for check in item.spot_checks),
        second_model=next((item.second_model for item in looked if item.second_model), ""),
        claims=tuple({item.text: item for item in reversed(claims)}.values())[::-1],
        eval_feedback=tuple(dict.fromkeys(feedback)),
        suspicious=suspicious,
        fallbacks=judging.fallbacks.values(),
        model=judging.model,
    )


def recheck_grading(
    grading: Grading, case: Case, record: RunRecord, root: Path, *, second_judge: bool = False
) -> list[str]:
    """What a stored grading says otherwise than the record and the rules do, one sentence each; empty: nothing.

    ``second_judge``: the policy asks for two judges to agree to every pass.

    Offline: every quote is looked up again and every status derived again by the code that made it. Raises EvidenceError.
    """
    where = f"{record.key.folder}/grading.json"
    if [row.expectation_id for row in grading.rows] != [item.id for item in case.expectations]:
        return [f"{where}: its rows are not the expectations of the case"]
    blocks = load_blocks(root, record) if case.expectations and record.completed else ()
    shown = for_a_judge(blocks)
    rules = RowRules(blocks, tool_names(case, record), cut=bool(cut_to(shown)[1]), made=made_by(record))
    index = QuoteIndex(blocks)
    suspicious = _suspicious(blocks)
    spoken = speaks_to_a_judge(suspicious) and without_what_speaks(blocks) != blocks
    problems = _recheck_second_looks(grading, case, index, rules, where)
    if grading.suspicious != suspicious:
        problems.append(f"{where}: what speaks to a judge in the record is not what it says")
    for row, expectation in zip(grading.rows, case.expectations, strict=True):
        if (row.text, row.severity, row.precision) != (expectation.text, expectation.severity, expectation.precision):
            problems.append(f"{where}: {row.expectation_id} is not the expectation of the case")
        if not all(_stands(quote, index, rules.tiers(expectation)) for quote in row.quotes):
            problems.append(f"{where}: a quote of {row.expectation_id} is not what the record holds")
        decision = rules.decide(expectation, Said(row.model_said, row.unsure), row.quotes)
        expected = _expected(grading, record, rules, expectation, decision, empty=_empty(shown))
        if decision.status is GradeStatus.PASSED and grading.voided is None and record.completed:
            owed = _owed(rules, expectation, row, spoken=spoken, hit=speaks_to_a_judge(suspicious), two=second_judge)
            problems += [
                f"{where}: {words} about {row.expectation_id}"
                for kind, words in owed.items()
                if not _looked_at(row, grading, kind)
            ]
        if row.status is not expected:
            problems.append(f"{where}: {row.expectation_id} is {row.status.value}, the rules say {expected.value}")
    fooled = any(not item.known and item.model_said is True and not item.voided for item in grading.controls)
    if grading.voided is None and fooled:
        problems.append(f"{where}: a known-false control passed, but the batch counts")
    if not all(_stands(claim.quote, index, CALLS_AND_OUTPUT) for claim in grading.claims if claim.quote):
        problems.append(f"{where}: the quote of a claim is not what the record holds")
    return problems


def _expected(
    grading: Grading,
    record: RunRecord,
    rules: RowRules,
    expectation: Expectation,
    decision: Decision,
    *,
    empty: bool,
) -> GradeStatus:
    """The status of a row by the rules, from what is stored of it."""
    if grading.voided is not None:
        return GradeStatus.UNGRADED
    if not record.completed:
        return _not_completed(record)[0]
    return GradeStatus.FAILED if empty else after(rules, expectation, decision, grading.spot_checks).status


def _recheck_second_looks(grading: Grading, case: Case, index: QuoteIndex, rules: RowRules, where: str) -> list[str]:
    by_id = {item.id: item for item in case.expectations}
    return [
        f"{where}: a second look at {check.expectation_id} is not about the record"
        for check in grading.spot_checks
        if check.expectation_id not in by_id
        or not all(_stands(quote, index, rules.tiers(by_id[check.expectation_id])) for quote in check.quotes)
        or check.status != (again_status(rules, by_id[check.expectation_id], check) if check.kind == "again" else None)
    ]


def _owed(
    rules: RowRules, expectation: Expectation, row: ExpectationGrade, *, spoken: bool, hit: bool, two: bool
) -> dict[str, str]:
    """The second looks that a pass of this row needs: kind -> what to say where it was not taken."""
    owed = {}
    if hit:
        owed["negation_twin"] = "the opposite was not asked"
    if two:
        owed["second_judge"] = "no second judge was asked"
    if spoken and rules.rests_on_what_speaks(expectation, row.quotes):
        owed["unsaid"] = "nobody was asked without what speaks to a judge"
    return owed


def _looked_at(row: ExpectationGrade, grading: Grading, kind: str) -> bool:
    return any(check.kind == kind and check.expectation_id == row.expectation_id for check in grading.spot_checks)


def speaks_to_a_judge(suspicious: Sequence[str]) -> bool:
    """Whether what a judge is shown speaks to it; no judge is shown the agent's notes."""
    return any(not item.endswith(_IN_NOTES) for item in suspicious)


def _charged(record: RunRecord) -> GradeStatus | None:
    """What a row of this run has to be for a charge to rest on it; None where it is no run of the confirm stage that counts."""
    if record.purpose != "confirm":
        return None
    return {Arm.WITH_SKILL: GradeStatus.FAILED, Arm.BASE_SKILL: GradeStatus.PASSED}.get(record.key.arm)


def other_family(models: Models) -> bool:
    """Whether there is a second grader of another family than the grader's."""
    return models.of(Role.SECOND_GRADER).family != models.of(Role.GRADER).family


def _scrutiny(models: Models, second_judge: str, *, hit: bool, full: bool) -> Scrutiny:
    wanted = second_judge == "on" or (second_judge == "auto" and hit)
    return Scrutiny(
        needed=hit or second_judge == "on",
        second_judge=wanted and other_family(models),
        twins=hit or full,
        delete_one=full,
    )


def _still_passed(
    judging: Judging, expectations: Sequence[Expectation], grades: Sequence[ExpectationGrade], looked: Looked
) -> list[ExpectationGrade]:
    """The rows of a batch after the second looks."""
    rows = []
    for expectation, grade in zip(expectations, grades, strict=True):
        decision = Decision(grade.status, grade.reason)
        left = after(judging.rules, expectation, decision, looked.spot_checks)
        if left is not decision:
            judging.fallbacks.count("second_look_took_a_pass")
            rows.append(
                grade.model_copy(update={"status": left.status, "reason": clip(left.reason, _REASON_CHARACTERS)})
            )
        else:
            rows.append(grade)
    return rows


def _stands(quote: Quote, index: QuoteIndex, tiers: frozenset[int]) -> bool:
    return looked_up(index, quote.text, quote.source, tiers) == quote


def _empty(shown: Sequence[Block]) -> bool:
    """Whether there is nothing that a judge could read: no letter or digit in what is shown."""
    return not any(_CONTENT.search(block.text) for block in shown)


def _believable(judging: Judging, label: str, expectations: Sequence[Expectation]) -> Batch | None:
    """The first batch whose controls hold, of two at most; None where neither's do."""
    for name in (label, f"{label}/again"):
        batch = judging.question(name, expectations, {})
        _count_controls(judging, batch)
        if not batch.void:
            return batch
    return None


def _count_controls(judging: Judging, batch: Batch) -> None:
    graded = batch.controls(voided=batch.void)
    judging.controls += graded
    judging.fallbacks.count("control_false_passed", sum(not c.known and c.model_said is True for c in graded))
    judging.fallbacks.count("control_true_failed", sum(c.known and c.model_said is not True for c in graded))
    judging.fallbacks.count("batch_voided", int(batch.void))


def _decided(judging: Judging, label: str, expectations: Sequence[Expectation], batch: Batch) -> list[ExpectationGrade]:
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


def _row(judging: Judging, expectation: Expectation, batch: Batch) -> tuple[ExpectationGrade, Decision]:
    answer = next((batch.answers.get(row.id) for row in batch.rows if row.expectation is expectation), None)
    said = said_by(answer)
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


def _hint(judging: Judging, grade: ExpectationGrade, decision: Decision) -> str:
    """What was wrong with a row, with the nearest text of the first quote that was not found."""
    lost = next((quote for quote in grade.quotes if quote.verdict.value == "not_found"), None)
    hint = decision.ask_again
    if lost is not None and (near := nearest(lost.text, judging.shown)):
        hint += f" The nearest text to one of your quotes is: {clip(near, 300)}"
    return hint


def _claim(judging: Judging, given: ClaimReply, skill: Skill | None) -> Claim:
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


def judge_directed_blocks(blocks: Sequence[Block]) -> tuple[str, ...]:
    """Where what a judge is shown speaks to it, as ``<rule> in <block>``."""
    return tuple(item for item in _suspicious(blocks) if not item.endswith(_IN_NOTES))


def _suspicious(blocks: Sequence[Block]) -> tuple[str, ...]:
    """Where the record speaks to a judge, as ``<rule> in <block>``; notes too, though no judge sees them."""
    return tuple(
        f"{rule} in {block.id}{_IN_NOTES if block.tier is Tier.NOTES else ''}"
        for block in blocks
        for rule in _directed(block)
    )


def _directed(block: Block) -> list[str]:
    """The rules that a block meets as it is or, where it is JSON, as its texts read; its title is shown, too."""
    # The gate's own labels in a call's block are no words of the agent.
    text = _LABELS.sub("\n\n", block.text) if block.kind == "tool_calls" else block.text
    shown = f"{block.title}\n\n{text}"
    # A tool's or a file's name is text, too; only the gate's own words in a title are not.
    rules = {*judge_directed(shown), *judge_directed_name(block.title)}
    if "\\" in shown:
        rules.update(judge_directed(unescape(shown)))
    return sorted(rules)
