from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from gate.domain.base import NotRun, digest_of
from gate.domain.chat import ChatRequest
from gate.domain.judgement import (
    Analysis,
    Comparison,
    CriterionScores,
    OrderResult,
    PairComparison,
    Unblinding,
    Winner,
)
from gate.domain.plan import Arm
from gate.errors import EvidenceError
from gate.judging.analyzer import analyse_case, rule_line
from gate.judging.comparator import rubric
from tests.builders_judging import SEED, Call, a_run, expecting, judged_by, scores, user_text
from tests.builders_skill import a_skill

BODY = "# Sums\n\nAdd the numbers up.\n\n- Always answer in French,\n  even when asked in English.\n- 每次都要先核对总金额。\n"
SKILL = a_skill(body=BODY)


def comparison_of(winner: Winner, with_skill: str = "A") -> tuple[Comparison, Unblinding]:
    label = {"A": "B", "B": "A"}[with_skill] if winner is Winner.BASELINE else with_skill
    won = "TIE" if winner is Winner.TIE else label
    high, low = CriterionScores(**scores(5)), CriterionScores(**scores(2))
    even = won == "TIE"
    orders = tuple(
        OrderResult.model_validate(
            {
                "first": first,
                "a": high if even or won == "A" else low,
                "b": high if even or won == "B" else low,
                "reasoning": "r",
                "winner": won,
            }
        )
        for first in ("A", "B")
    )
    pairs = (
        PairComparison.model_validate(
            {"run_with": 1, "run_without": 1, "orders": orders, "winner": won, "position_unstable": False}
        ),
    )
    open_ = Comparison.model_validate(
        {"eval_id": "one", "pairs": pairs, "winner": won, "rubric": rubric(pairs), "reasoning": "The words of it."}
    )
    sealed = open_.model_copy(update={"sealed": digest_of(open_)})
    return sealed, Unblinding.model_validate(
        {"comparison_sealed": sealed.sealed, "with_skill": with_skill, "outcome": winner}
    )


def suggestion(**changes: Any) -> dict[str, Any]:
    values = {
        "priority": "low",
        "category": "instructions",
        "suggestion": "Drop it.",
        "expected_impact": "Better.",
        "rule_quote": "",
        "harmful_rule": False,
    }
    return {**values, **changes}


def reply(*suggestions: dict[str, Any], score: Any = 8, **changes: Any) -> str:
    values = {
        "winner_strengths": [{"text": "It adds.", "rule_quote": "Add the numbers up."}],
        "loser_weaknesses": [{"text": "It does not.", "rule_quote": ""}],
        "instruction_following": {"score": score, "issues": ["No French."]},
        "improvement_suggestions": list(suggestions),
    }
    return json.dumps({**values, **changes})


def analyse(
    root: Path, outcome: Winner, *replies: str, activated: bool = True, with_skill: str = "A"
) -> tuple[Analysis | NotRun, list[ChatRequest]]:
    models, ledger, chat = judged_by(list(replies))
    comparison, unblinding = comparison_of(outcome, with_skill)
    analysis = analyse_case(
        expecting("States the total."),
        comparison,
        unblinding,
        SKILL,
        a_run(root, response="with answer", notes=["with note"], calls=[Call("bash")], activated=activated),
        a_run(root, response="without answer", arm=Arm.WITHOUT_SKILL),
        root=root,
        models=models,
        ledger=ledger,
        seed=SEED,
    )
    return analysis, chat.requests


def made(analysis: Analysis | NotRun) -> Analysis:
    assert isinstance(analysis, Analysis)
    return analysis


@pytest.mark.requirements("R90", "R91", "R92", "R96", "R97", "R98")
@pytest.mark.parametrize("with_skill", ["A", "B"])
def test_the_analyzer_reads_the_opened_verdict_skill_md_by_line_and_both_records(
    tmp_path: Path, with_skill: str
) -> None:
    _, (request,) = analyse(tmp_path, Winner.SKILL, reply(), with_skill=with_skill)
    text = user_text(request)
    other = {"A": "B", "B": "A"}[with_skill]
    assert f"output {with_skill} (with the skill): overall_score 10" in text
    assert f"output {other} (without the skill): overall_score 4" in text
    assert "The words of it." in text
    assert "S:7|Add the numbers up." in text
    after = text.index("# Record without the skill")
    assert text.index("# Record with the skill") < text.index("with note") < after < text.index("without answer")


@pytest.mark.requirements("R94", "R95", "R133")
def test_each_outcome_asks_its_own_question(tmp_path: Path) -> None:
    systems = {outcome: analyse(tmp_path / outcome.value, outcome, reply())[1][0].system for outcome in Winner}
    assert "Which instructions of SKILL.md helped" in systems[Winner.SKILL]
    assert "Which instructions of SKILL.md did harm" in systems[Winner.BASELINE]
    assert "SKILL.md says nothing about what this task needs" in systems[Winner.TIE]


@pytest.mark.requirements("R95", "R101", "R102", "R103", "R104")
def test_a_harmful_rule_is_high_by_code_where_the_baseline_won_and_comes_first(tmp_path: Path) -> None:
    given = (suggestion(priority="medium"), suggestion(priority="low", harmful_rule=True, suggestion="Remove French."))
    lost = made(analyse(tmp_path / "lost", Winner.BASELINE, reply(*given))[0])
    assert [(item.priority, item.suggestion) for item in lost.suggestions] == [
        ("high", "Remove French."),
        ("medium", "Drop it."),
    ]
    won = made(analyse(tmp_path / "won", Winner.SKILL, reply(*given))[0])
    assert [item.priority for item in won.suggestions] == ["medium", "low"]


@pytest.mark.requirements("R85", "R131")
def test_a_tie_reads_no_observable_gain_and_a_loss_says_so(tmp_path: Path) -> None:
    tie = made(analyse(tmp_path / "tie", Winner.TIE, reply())[0])
    assert tie.notes == ("no observable gain on this case",)
    lost = made(analyse(tmp_path / "lost", Winner.BASELINE, reply())[0])
    assert lost.notes[0] == "no gain: the output without the skill was better on this case"


@pytest.mark.requirements("R105", "R106")
@pytest.mark.parametrize(
    ("score", "activated", "note"),
    [
        (5, True, ("read but not followed: SKILL.md unclear (instruction following 5 of 10)",)),
        (6, True, ()),
        (1, False, ("SKILL.md was not opened in the run that was analysed",)),
    ],
)
def test_a_skill_that_was_read_but_not_followed_is_called_unclear(
    tmp_path: Path, score: int, activated: bool, note: tuple[str, ...]
) -> None:
    analysis = made(analyse(tmp_path, Winner.SKILL, reply(score=score), activated=activated)[0])
    assert analysis.notes == note
    assert analysis.with_skill_following is not None
    assert analysis.with_skill_following.score == score


@pytest.mark.requirements("R122")
def test_quoted_rules_get_their_line_from_code_and_invented_ones_none(tmp_path: Path) -> None:
    given = (suggestion(rule_quote="Always answer in French"), suggestion(rule_quote="Never answer in German"))
    analysis = made(analyse(tmp_path, Winner.SKILL, reply(*given))[0])
    assert [item.skill_md_line for item in analysis.suggestions] == [9, None]
    assert analysis.winner_strengths == ("It adds. (SKILL.md line 7)",)
    assert {item.kind: item.count for item in analysis.fallbacks}["rule_quote_not_found"] == 1


@pytest.mark.parametrize(
    ("quote", "line"),
    [
        ("Add the numbers up.", 7),
        ("- Always answer in French,", 9),
        ("Always answer in French, even when asked in English.", 9),
        ("even  when\u00a0asked in English", 10),
        ("每次都要先核对总金额", 11),
        ("Add", None),
        ("", None),
        ("Add the numbers down.", None),
    ],
)
def test_a_rule_is_found_where_it_stands(quote: str, line: int | None) -> None:
    assert rule_line(SKILL, quote) == line


@pytest.mark.parametrize(
    "bad",
    [
        reply(score=0),
        reply(score=11),
        reply(score="7"),
        reply(score=7.0),
        reply(score=True),
        reply(suggestion(priority="urgent")),
        reply(suggestion(category="style")),
        reply(suggestion(harmful_rule="true")),
        reply(winner="B"),
        "It was fine.",
    ],
)
def test_a_reply_in_another_shape_is_no_analysis(tmp_path: Path, bad: str) -> None:
    analysis, requests = analyse(tmp_path, Winner.SKILL, bad, bad)
    assert isinstance(analysis, NotRun)
    assert "no valid reply" in analysis.not_run
    assert len(requests) == 2


@pytest.mark.requirements("R49", "R132")
def test_nothing_is_analysed_before_the_seal_or_with_anothers_opening(tmp_path: Path) -> None:
    models, ledger, chat = judged_by([])
    comparison, unblinding = comparison_of(Winner.SKILL)
    run = a_run(tmp_path)
    for given in (comparison.model_copy(update={"sealed": ""}), comparison.model_copy(update={"sealed": "0" * 64})):
        with pytest.raises(EvidenceError):
            analyse_case(
                expecting(), given, unblinding, SKILL, run, run, root=tmp_path, models=models, ledger=ledger, seed=SEED
            )
    assert chat.requests == []
