"""The lines that graded rows rest on, as the report shows them."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gate.domain.base import NotRun
from gate.domain.checks import Check, ResponseContains, ToolCallCount
from gate.domain.evidence import Block, Tier
from gate.domain.judgement import CaseComparison, RunJudgement
from gate.domain.plan import Arm, CasePlan
from gate.domain.report import CaseRecord, JudgedRun, RunEvidence
from gate.evidence.bundle import load_blocks
from gate.evidence.cited import LINE_CHARACTERS, QUOTED_LINES, _Lines, cited_evidence
from gate.evidence.quotes import check_quote
from gate.judging.grader import grade_run
from gate.judging.ground_truth import check_run
from gate.judging.second_look import opposite
from tests.builders_judging import SEED, Call, a_run, expecting, honest, judged_by, row

TOTAL, POLITE = "States the total of 1250.", "The answer is polite."
RESPONSE = "Good morning,\nhere is the sum.\nThe total is 1250.\nKind regards"
NOTHING = CaseComparison(comparison=NotRun(not_run="none"), analysis=NotRun(not_run="none"))


def judged(root: Path, *, response: str = RESPONSE, arm: Arm = Arm.WITH_SKILL, run: int = 1) -> CaseRecord:
    """One run with two checks and two expectations, judged by the gate's own code."""
    checks = (
        Check(id="c1", parameters=ResponseContains(keyword="Kind")),
        Check(id="c2", parameters=ToolCallCount(tool="bash", min=1)),
    )
    case = expecting(TOTAL, POLITE, checks=checks)
    record = a_run(root, calls=[Call("bash", {"command": "sum"}, "1250")], response=response, arm=arm, run=run)
    answers = {
        TOTAL: row("", "pass", ("B002:3", "The total is 1250."), ("B001:2", "no such text at all")),
        POLITE: row("", "fail"),
        opposite(TOTAL): row("", "fail"),
    }
    models, ledger, _ = judged_by(honest(answers))
    grading = grade_run(case, record, None, root=root, models=models, ledger=ledger, seed=SEED)
    judgement = RunJudgement(checks=check_run(case, record, root, None), grading=grading)
    return CaseRecord(
        plan=CasePlan(case=case, arms=()), runs=(JudgedRun(record=record, judgement=judgement),), layer3=NOTHING
    )


def only(found: tuple[RunEvidence, ...]) -> RunEvidence:
    (run,) = found
    return run


def test_each_row_names_the_line_that_it_rests_on_and_the_line_is_there_as_recorded(tmp_path: Path) -> None:
    run = only(cited_evidence(tmp_path, [judged(tmp_path)]))
    rows = {item.id: item for item in run.rows}
    assert [(item.number, item.kind, item.status) for item in run.rows] == [
        (0, "check", "passed"),
        (1, "check", "passed"),
        (2, "expectation", "passed"),
        (3, "expectation", "failed"),
    ]
    assert [(cite.block, cite.line, cite.accepted_as) for cite in rows["e1"].cites] == [("B002", 3, "T0")]
    assert rows["e1"].rejected == ("not_found",)
    assert [(cite.block, cite.line) for cite in rows["c1"].cites] == [("B002", 4)]
    assert rows["e2"].cites == ()
    block = next(item for item in run.blocks if item.id == "B002")
    assert [(line.number, line.text) for line in block.lines] == [
        (2, "here is the sum."),
        (3, "The total is 1250."),
        (4, "Kind regards"),
    ]
    line = block.lines[1]
    assert [line.text[start:end] for start, end in line.marks] == ["The total is 1250."]
    assert block.total_lines == 4


def test_every_citation_of_a_report_has_its_line(tmp_path: Path) -> None:
    run = only(cited_evidence(tmp_path, [judged(tmp_path)]))
    there = {(block.id, line.number) for block in run.blocks for line in block.lines}
    assert {(cite.block, cite.line) for item in run.rows for cite in item.cites} <= there


def test_runs_come_by_arm_and_number_and_each_folder_once(tmp_path: Path) -> None:
    cases = [judged(tmp_path, arm=arm, run=run) for arm in (Arm.WITHOUT_SKILL, Arm.WITH_SKILL) for run in (2, 1)]
    together = cases[0].model_copy(update={"runs": tuple(run for case in cases for run in case.runs)})
    found = cited_evidence(tmp_path, [together])
    assert [(item.arm, item.run) for item in found] == [
        (Arm.WITH_SKILL, 1),
        (Arm.WITH_SKILL, 2),
        (Arm.WITHOUT_SKILL, 1),
        (Arm.WITHOUT_SKILL, 2),
    ]
    assert len({item.folder for item in found}) == 4


@pytest.mark.parametrize("rows", [0, 1, 3])
def test_where_room_is_short_what_did_not_pass_stays_and_the_rest_is_counted(tmp_path: Path, rows: int) -> None:
    run = only(cited_evidence(tmp_path, [judged(tmp_path)], rows))
    assert len(run.rows) == rows
    assert run.left_out == 4 - rows
    assert rows == 0 or "failed" in [item.status for item in run.rows]
    assert [item.number for item in run.rows] == sorted(item.number for item in run.rows)


def test_of_a_long_line_the_part_is_shown_that_is_cited(tmp_path: Path) -> None:
    response = "x" * 5_000 + " The total is 1250. " + "y" * 5_000
    record = judged(tmp_path, response=response).runs[0].record
    block = load_blocks(tmp_path, record)[1]
    quote = check_quote("The total is 1250.", "B002", [block], allowed_tiers=frozenset({2}))
    lines = _Lines(block)
    lines.cite(quote.line or 0, quote.start, quote.end)
    (line,) = lines.shown().lines
    assert len(line.text) == LINE_CHARACTERS
    assert [line.text[start:end] for start, end in line.marks] == ["The total is 1250."]
    assert (line.cut_before, line.cut_after) == (True, True)


TEXTS = st.text(st.characters(exclude_categories=["Cs"]) | st.sampled_from("\n\n a中\u0301"), min_size=1, max_size=200)


@given(text=TEXTS, data=st.data())
def test_marks_cover_exactly_what_was_cited(text: str, data: st.DataObject) -> None:
    start = data.draw(st.integers(0, len(text) - 1))
    end = data.draw(st.integers(start + 1, len(text)))
    lines = _Lines(Block(id="B001", tier=Tier.OUTPUT, kind="response", title="response", text=text))
    first = lines.cite(text.count("\n", 0, start) + 1, start, end)
    shown = lines.shown()
    assert first in [line.number for line in shown.lines]
    wanted = text[start:end].split("\n")[:QUOTED_LINES]
    marked = {line.number: [line.text[a:b] for a, b in line.marks] for line in shown.lines}
    for number, part in enumerate(wanted, first):
        assert "".join(marked.get(number, [])) == part
