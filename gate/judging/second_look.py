"""Second looks at what a grader passed: another judge, the opposite question, and the same without the cited lines.

A judge that was talked into a verdict answers every question alike. A second look can take a pass away, never give one
(judging.md 1.1, 3.2): where the judge also passes the opposite of an expectation, its pass means nothing; where a judge of
another family does not agree, there is no pass. That a pass stands without the lines that were cited only tells that they
did not carry it; it is counted and shown.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import lru_cache
from typing import NamedTuple

from gate.domain.base import Severity
from gate.domain.chat import Role
from gate.domain.evidence import Block
from gate.domain.judgement import ExpectationGrade, GradeStatus, SpotCheck
from gate.domain.suite import Expectation
from gate.errors import ModelError
from gate.evidence.quotes import unescape
from gate.evidence.suspicious import judge_directed, judge_directed_name
from gate.judging.asking import Batch, Judging, RowReply, said_by
from gate.judging.ground_truth.values import clip
from gate.judging.rows import Decision, RowRules, Said

_CJK = re.compile("[\u3400-\u9fff]")
_LEFT_OUT = "(this line is left out)"
_TOGETHER = 4
_LEFT_OUT_NAME = "(a name is left out)"


class Scrutiny(NamedTuple):
    """Which second looks a run gets."""

    needed: bool = False
    """Whether a pass depends on them: the record speaks to a judge, or the policy wants two. Otherwise they are samples."""

    second_judge: bool = False
    twins: bool = False
    delete_one: bool = False

    @property
    def any(self) -> bool:
        """Whether there is something to do."""
        return self.second_judge or self.twins or self.delete_one


class Looked(NamedTuple):
    """What second looks found."""

    spot_checks: tuple[SpotCheck, ...] = ()
    second_model: str = ""


def opposite(text: str) -> str:
    """An expectation that is met exactly where ``text`` is not, in its language."""
    if _CJK.search(text):
        return f"以下说法在这次运行中并不成立\uff08否定\uff09\uff1a{text}"
    return f"It is not the case in this run that the following holds: {text}"


def look_again(judging: Judging, label: str, grades: Sequence[ExpectationGrade], scrutiny: Scrutiny) -> Looked:
    """The second looks at the passed rows of a graded batch, cheapest effect first.

    A model that does not answer takes nothing of the first look away but what depends on the second: there each passed
    row says so. Raises BudgetError.
    """
    by_id = {item.id: item for item in judging.case.expectations}
    passed = [by_id[grade.expectation_id] for grade in grades if grade.status is GradeStatus.PASSED]
    if not passed or not scrutiny.any:
        return Looked()
    found: list[SpotCheck] = []
    second_model = ""
    if scrutiny.second_judge:
        other = replace(judging, role=Role.SECOND_GRADER, model="")
        found += _taken(
            judging, "second_judge", passed, scrutiny, lambda: _second_judge(other, f"{label}/second", passed)
        )
        judging.fallbacks.add(other.fallbacks.values())
        second_model = other.model
    if scrutiny.twins:
        found += _taken(judging, "negation_twin", passed, scrutiny, lambda: _twins(judging, f"{label}/twins", passed))
    if scrutiny.needed and (unsaid := without_what_speaks(judging.blocks)) != judging.blocks:
        quotes = {grade.expectation_id: grade.quotes for grade in grades}
        resting = [item for item in passed if judging.rules.rests_on_what_speaks(item, quotes[item.id])]
        if resting:
            found += _taken(
                judging, "unsaid", resting, scrutiny, lambda: _unsaid(judging, f"{label}/unsaid", resting, unsaid)
            )
    if scrutiny.delete_one:
        drawn = passed[judging.seed.below(len(passed), "delete-one", label)]
        cited = next(grade for grade in grades if grade.expectation_id == drawn.id)
        found += _taken(
            judging, "delete_one", [drawn], scrutiny, lambda: _delete_one(judging, f"{label}/without", drawn, cited)
        )
    return Looked(tuple(found), second_model)


def ask_again(
    judging: Judging, label: str, grades: Sequence[ExpectationGrade], wanted: GradeStatus
) -> tuple[SpotCheck, ...]:
    """The rows with this status, asked once more with a fresh context, fence and controls.

    A judge that says one thing of a record and then the other tosses a coin: that it fails head and passes base, run after run,
    is then no sign of a change (``gate.decision.charges``). Where it gives no answer the first one stands. Raises BudgetError.
    """
    by_id = {item.id: item for item in judging.case.expectations}
    chosen = [
        by_id[grade.expectation_id]
        for grade in grades
        if grade.status is wanted and grade.severity is not Severity.INFO and grade.method == "grader"
    ]
    if not chosen:
        return ()
    try:
        batch = judging.question(label, chosen, {})
    except ModelError as error:
        if error.kind == "replay_miss":
            raise
        judging.fallbacks.count("second_look_failed:again")
        return ()
    judging.fallbacks.count("batch_voided", int(batch.void))
    checks = []
    for item in chosen:
        answer = _answer(batch, item)
        quotes = judging.quotes(answer.quotes, judging.rules.tiers(item)) if answer else ()
        check = _check("again", item.id, batch, said_by(answer)).model_copy(update={"quotes": quotes})
        checks.append(check.model_copy(update={"status": again_status(judging.rules, item, check)}))
    judging.fallbacks.count(
        "asked_again_said_otherwise", sum(check.status not in (None, GradeStatus.UNGRADED, wanted) for check in checks)
    )
    return tuple(checks)


def again_status(rules: RowRules, expectation: Expectation, check: SpotCheck) -> GradeStatus:
    """What code makes of an answer that was given again; UNGRADED where it says nothing."""
    if check.voided:
        return GradeStatus.UNGRADED
    return rules.decide(expectation, Said(check.model_said, check.unsure), check.quotes).status


def _taken(
    judging: Judging,
    kind: str,
    passed: Sequence[Expectation],
    scrutiny: Scrutiny,
    look: Callable[[], list[SpotCheck]],
) -> list[SpotCheck]:
    """What a look found; where no model answered, that it could not be taken."""
    try:
        return look()
    except ModelError as error:
        if error.kind == "replay_miss":
            raise  # a recording of another session, which nobody should take for a model that was down
        judging.fallbacks.count(f"second_look_failed:{kind}")
        if not scrutiny.needed or kind == "delete_one":
            return []
        why = clip(error.message, 200)
        return [
            SpotCheck.model_validate({"kind": kind, "expectation_id": item.id, "model_said": None, "error": why})
            for item in passed
        ]


def _second_judge(other: Judging, label: str, passed: Sequence[Expectation]) -> list[SpotCheck]:
    batch = other.question(label, passed, {})
    checks = []
    for item in passed:
        answer = _answer(batch, item)
        quotes = other.quotes(answer.quotes, other.rules.tiers(item)) if answer else ()
        other.fallbacks.rejected(quotes)
        checks.append(_check("second_judge", item.id, batch, said_by(answer)).model_copy(update={"quotes": quotes}))
    other.fallbacks.count("batch_voided", int(batch.void))
    return checks


def _twins(judging: Judging, label: str, passed: Sequence[Expectation]) -> list[SpotCheck]:
    twins = [item.model_copy(update={"text": opposite(item.text)}) for item in passed]
    batch = judging.question(label, twins, {})
    checks = [_check("negation_twin", twin.id, batch, said_by(_answer(batch, twin))) for twin in twins]
    judging.fallbacks.count("negation_twin_passed", sum(check.model_said is True for check in checks))
    judging.fallbacks.count("batch_voided", int(batch.void))
    return checks


def _unsaid(judging: Judging, label: str, resting: Sequence[Expectation], blocks: tuple[Block, ...]) -> list[SpotCheck]:
    """The same question about the record as it would be if nothing in it spoke to a judge."""
    rest = replace(judging, blocks=blocks)
    batch = rest.question(label, resting, {})
    judging.fallbacks.add(rest.fallbacks.values())
    checks = []
    for item in resting:
        answer = _answer(batch, item)
        quotes = judging.quotes(answer.quotes, judging.rules.tiers(item)) if answer else ()
        checks.append(_check("unsaid", item.id, batch, said_by(answer)).model_copy(update={"quotes": quotes}))
    judging.fallbacks.count("batch_voided", int(batch.void))
    return checks


def without_what_speaks(blocks: Sequence[Block]) -> tuple[Block, ...]:
    """The record without the lines, and pairs of lines, that speak to a judge, and without such names; line ids stay
    valid. The gate's own lines of a call stay."""
    return tuple(
        block.model_copy(
            update={
                "title": _LEFT_OUT_NAME if judge_directed_name(block.title) else block.title,
                "text": _unspoken(block),
            }
        )
        for block in blocks
    )


@lru_cache(maxsize=10_000)
def _speaks(text: str) -> bool:
    # Under six characters nothing is said; outputs of many thousand lines repeat themselves.
    if len(text) < 6:
        return False
    return bool(judge_directed(text) or ("\\" in text and judge_directed(unescape(text))))


def _unspoken(block: Block) -> str:
    lines = block.text.split("\n")
    out: set[int] = set()
    _find(lines, 0, len(lines), out)
    return "\n".join(_LEFT_OUT if number in out else line for number, line in enumerate(lines)) if out else block.text


def _find(lines: Sequence[str], start: int, end: int, out: set[int]) -> None:
    """Collect the lines from ``start`` up to ``end`` that speak to a judge: by halves that share a line, so that a long
    text that is harmless is looked at once."""
    if not _speaks("\n".join(lines[start:end])):
        return
    if end - start > 2:
        middle = (start + end) // 2
        _find(lines, start, middle + 1, out)
        _find(lines, middle, end, out)
    elif end - start == 2:
        out.update(number for number in (start, start + 1) if _speaks(lines[number]))
    if out.isdisjoint(range(start, end)):
        # What speaks only in these lines together: those around the middle, which neither half has whole.
        middle = (start + end) // 2
        out.update(range(max(start, middle - _TOGETHER), min(end, middle + _TOGETHER)))


def _delete_one(judging: Judging, label: str, item: Expectation, cited: ExpectationGrade) -> list[SpotCheck]:
    blocks = without_cited(judging.blocks, cited)
    if all(not block.text.strip() or block.text == _LEFT_OUT for block in blocks):
        return []
    rest = replace(judging, blocks=blocks)
    batch = rest.question(label, [item], {})
    judging.fallbacks.add(rest.fallbacks.values())
    check = _check("delete_one", item.id, batch, said_by(_answer(batch, item)))
    judging.fallbacks.count("delete_one_still_passed", int(check.model_said is True))
    return [check]


def without_cited(blocks: Sequence[Block], cited: ExpectationGrade) -> tuple[Block, ...]:
    """The record without the lines that an accepted quote of a row stands in; line ids stay valid."""
    left_out: dict[str, set[int]] = {}
    for quote in cited.quotes:
        named = re.search(r"[Bb](\d{1,6})", quote.source)
        if quote.verdict.accepted and named and quote.line is not None:
            lines = range(quote.line, quote.line + quote.expanded.count("\n") + 1)
            left_out.setdefault(f"B{int(named[1]):03d}", set()).update(lines)
    return tuple(
        block.model_copy(
            update={
                "text": "\n".join(
                    _LEFT_OUT if number in left_out[block.id] else line
                    for number, line in enumerate(block.text.split("\n"), 1)
                )
            }
        )
        if block.id in left_out
        else block
        for block in blocks
    )


def _answer(batch: Batch, item: Expectation) -> RowReply | None:
    return next((batch.answers.get(row.id) for row in batch.rows if row.expectation is item), None)


def after(rules: RowRules, expectation: Expectation, decision: Decision, spot_checks: Sequence[SpotCheck]) -> Decision:
    """What second looks leave of a decision. Pure; looks at a PASSED one only."""
    if decision.status is not GradeStatus.PASSED:
        return decision
    own = [check for check in spot_checks if check.expectation_id == expectation.id]
    return next((changed for check in own if (changed := _taken_away(rules, expectation, check))), decision)


def _taken_away(rules: RowRules, expectation: Expectation, check: SpotCheck) -> Decision | None:
    """The decision instead of a pass, or None where the pass stands."""
    if check.kind in ("delete_one", "again"):
        return None
    if check.error:
        return Decision(GradeStatus.UNGRADED, f"the second look at it could not be taken: {check.error}")
    if check.voided:
        return Decision(GradeStatus.UNGRADED, f"{_WHO[check.kind]} passed an expectation that is known to be false")
    if check.kind == "negation_twin":
        if check.model_said is not True:
            return None
        return Decision(GradeStatus.UNGRADED, "the grader passed it and passed its opposite, too")
    said = rules.decide(expectation, Said(check.model_said, check.unsure), check.quotes)
    if said.status is GradeStatus.PASSED:
        return None
    if check.kind == "unsaid":
        return Decision(
            GradeStatus.UNGRADED, "the grader passed it, and did not without the lines that speak to a judge"
        )
    return Decision(said.status, f"the grader passed it, a second judge of another family did not: {said.reason}")


_WHO = {
    "second_judge": "the second judge",
    "negation_twin": "asked for the opposite, the grader",
    "unsaid": "asked without the lines that speak to a judge, the grader",
}


def _check(kind: str, expectation_id: str, batch: Batch, said: Said) -> SpotCheck:
    return SpotCheck.model_validate(
        {
            "kind": kind,
            "expectation_id": expectation_id,
            "model_said": said.passed,
            "unsure": said.unsure,
            "voided": batch.void,
        }
    )
