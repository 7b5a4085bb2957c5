"""The lines of a run's record that its graded rows rest on, for people who want to look for themselves.

Nothing is decided here: rows, quotes and their places come from Layers 2a and 2b, the text from the sealed record.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from pathlib import Path

from gate.domain.base import NotRun
from gate.domain.evidence import Block, Outcome
from gate.domain.judgement import CheckResult, CheckStatus, ExpectationGrade, GradeStatus, Quote
from gate.domain.plan import COMPARED_ARMS, Arm
from gate.domain.report import CaseRecord, Citation, CitedBlock, CitedLine, GradedRow, JudgedRun, RunEvidence
from gate.evidence.bundle import load_blocks

ROWS = 3_000
"""Graded rows that a report shows, over all skills; what is not passed comes first. The rest is counted."""
ROWS_OF_A_SKILL = 50
"""That many every skill may show, whatever the others take."""
CONTEXT = 1
"""Lines shown before and after what is cited."""
LINE_CHARACTERS = 300
"""Of a line that is cited; of one that stands beside it half of this."""
QUOTED_LINES = 12
"""Of a quote over more lines the first ones are shown."""
ANSWER_CHARACTERS = 4_000
"""Of an answer that is shown beside another arm's."""
ANSWERS_CHARACTERS = 600_000
"""Of all answers of a session; the cases beyond show none."""
_TEXT, _REASON = 300, 500
_BLOCK = re.compile(r"[Bb](\d{1,6})")
_PLACE = re.compile(r"\bline (\d{1,7}) of ")
_SURROGATE = re.compile("[\ud800-\udfff]")
_GOOD = (CheckStatus.PASSED.value, GradeStatus.PASSED.value)


class _Lines:
    """The lines of one block, and which of them are cited where."""

    def __init__(self, block: Block) -> None:
        self.block = block
        # What no file can hold is replaced one for one, so that every offset stays valid.
        self.texts = _SURROGATE.sub("\ufffd", block.text).split("\n")
        self._starts = [0]
        for text in self.texts[:-1]:
            self._starts.append(self._starts[-1] + len(text) + 1)
        self._marks: dict[int, set[tuple[int, int]]] = {}

    def cite(self, line: int, start: int | None = None, end: int | None = None) -> int:
        """Cite a line, or the part of the block from ``start`` to ``end``; returns the first line that is cited."""
        first = min(max(line, 1), len(self.texts))
        if start is None or end is None:
            self._marks.setdefault(first, set()).add((0, len(self.texts[first - 1])))
            return first
        for number in range(first, min(first + QUOTED_LINES, len(self.texts) + 1)):
            at = self._starts[number - 1]
            mark = (max(start - at, 0), min(end - at, len(self.texts[number - 1])))
            if at >= end and number > first:
                break
            self._marks.setdefault(number, set()).add(mark)
        return first

    def shown(self) -> CitedBlock:
        """The cited lines with what stands beside them."""
        numbers = {
            number
            for cited in self._marks
            for number in range(max(1, cited - CONTEXT), min(len(self.texts), cited + CONTEXT) + 1)
        }
        return CitedBlock(
            id=self.block.id,
            tier=int(self.block.tier),
            kind=self.block.kind,
            title=_SURROGATE.sub("\ufffd", self.block.title[:_TEXT]),
            total_lines=len(self.texts),
            lines=tuple(self._line(number) for number in sorted(numbers)),
        )

    def _line(self, number: int) -> CitedLine:
        text = self.texts[number - 1]
        marks = _joined(self._marks.get(number, ()))
        limit = LINE_CHARACTERS if marks else LINE_CHARACTERS // 2
        at = 0
        if marks and len(text) > limit:
            # The first mark with something before it, the rest as far as it goes.
            at = max(0, min(marks[0][0] - limit // 4, len(text) - limit))
        end = min(len(text), at + limit)
        return CitedLine(
            number=number,
            text=text[at:end],
            marks=tuple((max(a, at) - at, min(b, end) - at) for a, b in marks if min(b, end) > max(a, at)),
            cut_before=at > 0,
            cut_after=end < len(text),
        )


def _joined(spans: Iterable[tuple[int, int]]) -> list[tuple[int, int]]:
    joined: list[tuple[int, int]] = []
    for start, end in sorted(spans):
        if joined and start <= joined[-1][1]:
            joined[-1] = (joined[-1][0], max(end, joined[-1][1]))
        else:
            joined.append((start, end))
    return joined


def cited_evidence(
    root: Path, cases: Sequence[CaseRecord], rows: int = ROWS, answers: int = ANSWERS_CHARACTERS
) -> tuple[RunEvidence, ...]:
    """Of every judged run of a skill its graded rows with the places of their evidence, at most ``rows`` rows.

    In the order of cases, arms and runs. Where there are more rows, those that did not pass come first, then by order;
    a run says how many of its rows are left out. The first completed run of each compared arm of a case has its answer,
    so that they can be read side by side, until these have ``answers`` characters. Raises EvidenceError where a record
    cannot be read.
    """
    arms = list(Arm)
    runs = [
        run
        for case in cases
        for run in sorted(case.runs, key=lambda run: (arms.index(run.record.key.arm), run.record.key.run))
        if _judged(run)
    ]
    wanted = [(number, row) for number, run in enumerate(runs) for row in range(len(_judged(run)))]
    if len(wanted) > rows:
        wanted.sort(key=lambda item: _judged(runs[item[0]])[item[1]].status.value in _GOOD)
        wanted = wanted[:rows]
    kept: dict[int, set[int]] = {}
    for number, row in wanted:
        kept.setdefault(number, set()).add(row)
    found, answered = [], set[tuple[str, Arm]]()
    for number, run in enumerate(runs):
        key = run.record.key
        first = run.record.outcome is Outcome.COMPLETED and (key.eval_id, key.arm) not in answered
        if answering := first and answers > 0 and key.arm in COMPARED_ARMS:
            answered.add((key.eval_id, key.arm))
        evidence = _evidence(root, run, kept.get(number, set()), answering=answering)
        answers -= len(evidence.answer or "")
        found.append(evidence)
    return tuple(found)


def _judged(run: JudgedRun) -> list[CheckResult | ExpectationGrade]:
    checks, grading = run.judgement.checks, run.judgement.grading
    rows: list[CheckResult | ExpectationGrade] = []
    rows += [] if isinstance(checks, NotRun) else checks
    rows += [] if isinstance(grading, NotRun) else grading.rows
    return rows


def _evidence(root: Path, run: JudgedRun, kept: set[int], *, answering: bool) -> RunEvidence:
    judged = _judged(run)
    cited = [judged[number] for number in sorted(kept)]
    blocks: dict[int, _Lines] = {}
    answer: str | None = None
    if answering or any(_cites(row) for row in cited):
        loaded = load_blocks(root, run.record)
        blocks = {int(block.id[1:]): _Lines(block) for block in loaded}
        if answering:
            answer = _SURROGATE.sub("\ufffd", next((block.text for block in loaded if block.kind == "response"), ""))
    seen: dict[int, _Lines] = {}
    rows = tuple(_row(number, judged[number], blocks, seen) for number in sorted(kept))
    key = run.record.key
    return RunEvidence(
        eval_id=key.eval_id,
        arm=key.arm,
        run=key.run,
        folder=key.folder,
        rows=rows,
        blocks=tuple(lines.shown() for _, lines in sorted(seen.items())),
        left_out=len(judged) - len(rows),
        answer=None if answer is None else answer[:ANSWER_CHARACTERS],
        answer_cut=max(0, len(answer or "") - ANSWER_CHARACTERS),
    )


def _cites(row: CheckResult | ExpectationGrade) -> bool:
    if isinstance(row, CheckResult):
        return row.block is not None
    return any(quote.verdict.accepted for quote in row.quotes)


def _row(
    number: int, row: CheckResult | ExpectationGrade, blocks: dict[int, _Lines], seen: dict[int, _Lines]
) -> GradedRow:
    if isinstance(row, CheckResult):
        place = _place(row, blocks, seen)
        return GradedRow(
            number=number,
            kind="check",
            id=row.check_id,
            severity=row.severity,
            text=row.expected[:_TEXT],
            status=row.status.value,
            reason=row.found[:_REASON],
            cites=() if place is None else (place,),
        )
    found = [_quoted(quote, blocks, seen) for quote in row.quotes if quote.verdict.accepted]
    return GradedRow(
        number=number,
        kind="expectation",
        id=row.expectation_id,
        severity=row.severity,
        text=row.text[:_TEXT],
        status=row.status.value,
        reason=row.reason[:_REASON],
        cites=tuple(dict.fromkeys(item for item in found if item is not None)),
        rejected=tuple(quote.verdict.value for quote in row.quotes if not quote.verdict.accepted),
    )


def _quoted(quote: Quote, blocks: dict[int, _Lines], seen: dict[int, _Lines]) -> Citation | None:
    lines = _lines_of(quote.source, blocks, seen)
    if lines is None or quote.line is None:
        return None
    line = lines.cite(quote.line, quote.start, quote.end)
    return Citation(block=lines.block.id, line=line, accepted_as=quote.verdict.value)


def _place(check: CheckResult, blocks: dict[int, _Lines], seen: dict[int, _Lines]) -> Citation | None:
    """The place of a check: the line that its sentence names, where it is about a text, else the block's first line."""
    lines = _lines_of(check.block or "", blocks, seen)
    if lines is None:
        return None
    named = _PLACE.findall(check.found) if lines.block.kind in ("response", "outputs") else []
    return Citation(block=lines.block.id, line=lines.cite(int(named[-1]) if named else 1))


def _lines_of(source: str, blocks: dict[int, _Lines], seen: dict[int, _Lines]) -> _Lines | None:
    named = _BLOCK.search(source)
    lines = blocks.get(int(named[1])) if named else None
    if lines is not None:
        seen[int(lines.block.id[1:])] = lines
    return lines
