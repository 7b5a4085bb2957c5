"""Laws of the discussion, over arbitrary evaluators, sides and fresh judges."""

from __future__ import annotations

from fractions import Fraction

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from gate.domain.base import NotRun
from gate.domain.discussion import CAP, WEIGHTS, Dimension, Discussion, exact, grade_of
from gate.domain.evidence import Block, Tier
from gate.domain.judgement import Grading, Quote
from gate.evidence.quotes import QuoteIndex
from gate.judging.asking import looked_up
from gate.judging.discussion_rules import (
    Cited,
    Exchange,
    Ground,
    Heard,
    Point,
    Statement,
    derive,
    end_reason,
    recheck_discussion,
)
from tests.builders import a_run_record
from tests.builders_judging import expecting

TEXTS = (
    'Tool: bash\nArgs: {"command": "make report"}\nStatus: success\nReturn:\nwritten report.md with 14 rows',
    'Tool: bash\nArgs: {"command": "make check"}\nStatus: error\nReturn:\nthe check of row 7 failed',
    "The report has fourteen rows, and the check of row 7 failed at first.",
    "I think that this went very well indeed.",
)
BLOCKS = (
    Block(id="B001", tier=Tier.TOOL_CALLS, kind="tool_calls", title="Step 1: bash", text=TEXTS[0]),
    Block(id="B002", tier=Tier.TOOL_CALLS, kind="tool_calls", title="Step 2: bash", text=TEXTS[1]),
    Block(id="B003", tier=Tier.OUTPUT, kind="response", title="response", text=TEXTS[2]),
    Block(id="B004", tier=Tier.NOTES, kind="agent_notes", title="Step 1: note", text=TEXTS[3]),
)
GROUND = Ground(
    case=expecting(),
    record=a_run_record(),
    blocks=BLOCKS,
    checks=NotRun(not_run="x"),
    grading=Grading(rows=()),
    verification=None,
    max_rounds=20,
)
INDEX = QuoteIndex(BLOCKS)
SCORES = st.integers(0, 100).map(lambda value: value / 100)
DIMENSIONS = st.sampled_from(list(Dimension))


@st.composite
def quotes(draw: st.DrawFn, dimension: Dimension) -> Quote:
    """A real passage, a changed one, or nothing that anybody wrote; of any block."""
    number = draw(st.integers(0, len(TEXTS) - 1))
    start = draw(st.integers(0, len(TEXTS[number]) - 1))
    text = TEXTS[number][start : start + draw(st.integers(0, 40))]
    if draw(st.booleans()) and text:
        place = draw(st.integers(0, len(text) - 1))
        text = text[:place] + draw(st.sampled_from("0x ")) + text[place + 1 :]
    source = f"B{draw(st.integers(0, 5)):03d}" if draw(st.booleans()) else f"B{number + 1:03d}"
    return looked_up(INDEX, text, source, GROUND.tiers(dimension))


@st.composite
def statements(draw: st.DrawFn) -> dict[Dimension, Statement]:
    names = draw(st.lists(DIMENSIONS, unique=True))
    return {name: Statement(draw(SCORES), "r", tuple(draw(st.lists(quotes(name), max_size=2)))) for name in names}


@st.composite
def points(draw: st.DrawFn) -> Point:
    name = draw(DIMENSIONS)
    side = draw(st.sampled_from(["defender", "prosecutor"]))
    text = draw(st.sampled_from(["short", "x" * 200, "x" * 201]))
    return Point(side, name, text, tuple(draw(st.lists(quotes(name), max_size=3))))  # type: ignore[arg-type]


@st.composite
def rounds(draw: st.DrawFn) -> Heard:
    return Heard(
        defender_accepts=draw(st.booleans()),
        points=tuple(draw(st.lists(points(), max_size=5))),
        left_out=0,
        proposed=draw(st.dictionaries(DIMENSIONS, SCORES)),
        lost=draw(st.sampled_from(["", "", "", "lost"])),
    )


def held(first: dict[Dimension, Statement] | None, said: list[Heard]) -> Discussion:
    """As the code that holds it would: it ends when there is a reason to."""
    exchange = Exchange(first, (), ())
    found = derive(exchange, GROUND, degraded="" if first is not None else "by rule")
    for heard in said:
        if end_reason(exchange, found.rounds, GROUND.max_rounds) is not None:
            break
        exchange = exchange._replace(rounds=(*exchange.rounds, heard))
        lost = "; ".join(item.lost for item in exchange.rounds if item.lost)
        found = derive(exchange, GROUND, degraded=lost)
    return found


@pytest.mark.requirements("R146", "R175", "R217", "R218")
@settings(suppress_health_check=[HealthCheck.too_slow])
@given(st.one_of(st.none(), statements()), st.lists(rounds(), max_size=6))
def test_no_score_moves_without_new_evidence_of_the_side_that_it_favours_and_none_rises_past_the_cap(
    first: dict[Dimension, Statement] | None, said: list[Heard]
) -> None:
    found = held(first, said)
    assert found.cave_index == 0
    start = {row.dimension: row.score for row in found.initial}
    before = dict(start)
    for item in found.rounds:
        for name, score in item.scores.items():
            old = before[name]
            assert (score is None) == (old is None)
            if score is None or old is None or score == old:
                continue
            assert not item.lost
            side = "defender" if score > old else "prosecutor"
            assert any(point.admitted and point.side == side and point.dimension is name for point in item.objections)
            assert 0 <= score <= 1
        before = dict(item.scores)
    for name, score in found.scores.items():
        if score is not None:
            assert exact(score) - exact(start[name] or 0.0) <= CAP
    assert found.scores == before


@given(st.one_of(st.none(), statements()), st.lists(rounds(), max_size=6))
def test_the_total_is_the_weighted_sum_and_the_grade_follows(
    first: dict[Dimension, Statement] | None, said: list[Heard]
) -> None:
    found = held(first, said)
    if any(score is None for score in found.scores.values()):
        assert found.overall is None
    else:
        total = sum(
            (exact(score) * WEIGHTS[name] for name, score in found.scores.items() if score is not None), Fraction(0)
        )
        assert abs(Fraction(repr(found.overall)) - total) < Fraction(1, 10**5)
    assert found.discussion_grade == grade_of(found.overall)
    assert found.score_path[-1] == found.overall


@given(statements(), st.lists(rounds(), max_size=6))
def test_verify_derives_the_same_from_what_is_stored(first: dict[Dimension, Statement], said: list[Heard]) -> None:
    found = held(first, said)
    stored = Discussion.model_validate_json(found.model_dump_json())
    assert stored == found
    problems = recheck_discussion(stored, GROUND)
    if end_reason(Exchange(first, (), ()), (), GROUND.max_rounds) is None and not found.rounds:
        assert problems == ["it ended although there was new evidence, or before anybody was heard"]
    elif found.rounds[-1].lost or not any(item.admitted for item in found.rounds[-1].objections):
        assert problems == []


@given(st.data())
def test_a_passage_is_new_once_and_no_part_of_it_is_new_afterwards(data: st.DataObject) -> None:
    text = data.draw(st.sampled_from(TEXTS[:3]))
    number = TEXTS.index(text) + 1
    start = data.draw(st.integers(0, len(text) - 13))
    end = data.draw(st.integers(start + 12, len(text)))
    whole = looked_up(INDEX, text[start:end], f"B{number:03d}", frozenset({1, 2}))
    cited = Cited(BLOCKS)
    if not whole.verdict.accepted:
        return
    assert cited.is_new(whole)
    cited.add([whole])
    assert not cited.is_new(whole)
    inner = data.draw(st.integers(0, end - start - 8))
    length = data.draw(st.integers(8, end - start - inner))
    part = looked_up(INDEX, text[start:end][inner : inner + length], f"B{number:03d}", frozenset({1, 2}))
    if part.verdict.accepted and part.start is not None and whole.start is not None and part.start >= whole.start:
        assert not cited.is_new(part)
