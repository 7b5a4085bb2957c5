from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from gate.domain.base import NotRun
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
from gate.judging.analyzer import analyse_case, cite, line_of, recheck_analysis
from gate.judging.comparator import rubric
from tests.builders_judging import SEED, Call, a_run, expecting, judged_by, scores, user_text
from tests.builders_skill import a_file, a_skill

BODY = "# Sums\n\nAdd the numbers up.\n\n- Always answer in French,\n  even when asked in English.\n- 每次都要先核对总金额。\n"
SKILL = a_skill(body=BODY, files=(a_file("references/tax.md", "# Tax\n\nBooks have the reduced rate of 7 %.\n"),))


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
    sealed = open_.model_copy(update={"sealed": open_.seal})
    is_with = {Winner.SKILL: True, Winner.BASELINE: False, Winner.TIE: None}[winner]
    return sealed, Unblinding(
        comparison_sealed=sealed.sealed,
        with_skill="A" if with_skill == "A" else "B",
        outcome=winner,
        winner_is_with_skill=is_with,
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
        "execution_patterns": {"with_skill": "It adds at once.", "without_skill": "It asks first."},
        "winner_strengths": [{"text": "It adds.", "rule_quote": "Add the numbers up."}],
        "loser_weaknesses": [{"text": "It does not.", "rule_quote": ""}],
        "instruction_following": {
            "with_skill": {"score": score, "issues": ["No French."]},
            "without_skill": {"score": 3, "issues": ["It could not know."]},
        },
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


@pytest.mark.requirements("R90", "R91", "R92", "R96", "R97", "R98", "R144")
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
    assert [(item.priority, item.suggestion) for item in lost.improvement_suggestions] == [
        ("high", "Remove French."),
        ("medium", "Drop it."),
    ]
    won = made(analyse(tmp_path / "won", Winner.SKILL, reply(*given))[0])
    assert [item.priority for item in won.improvement_suggestions] == ["medium", "low"]


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
    assert analysis.instruction_following is not None
    assert analysis.instruction_following.with_skill.score == score


@pytest.mark.requirements("R105")
@pytest.mark.parametrize(
    ("outcome", "winner", "loser"), [(Winner.SKILL, 8, 3), (Winner.BASELINE, 3, 8), (Winner.TIE, None, None)]
)
def test_instruction_following_is_given_for_both_arms_and_named_by_who_won(
    tmp_path: Path, outcome: Winner, winner: int | None, loser: int | None
) -> None:
    following = made(analyse(tmp_path, outcome, reply())[0]).instruction_following
    assert following is not None
    assert (following.with_skill.score, following.without_skill.score) == (8, 3)
    assert following.without_skill.issues == ("It could not know.",)
    assert (following.winner.score if following.winner else None, following.loser and following.loser.score) == (
        winner,
        loser,
    )


@pytest.mark.requirements("R90", "R98", "R121")
@pytest.mark.parametrize(("outcome", "is_with"), [(Winner.SKILL, True), (Winner.BASELINE, False), (Winner.TIE, None)])
def test_the_analysis_says_who_won_in_the_words_of_the_source(
    tmp_path: Path, outcome: Winner, is_with: bool | None
) -> None:
    data = made(analyse(tmp_path, outcome, reply(suggestion()), with_skill="B")[0]).to_json()
    summary = data["comparison_summary"]
    assert summary["winner_is_with_skill"] is is_with
    assert summary["winner"] == {True: "B", False: "A", None: "TIE"}[is_with]
    assert summary["comparator_reasoning"] == "The words of it."
    assert summary["evaluated_skill"] == SKILL.path
    assert {"winner_strengths", "loser_weaknesses", "instruction_following", "improvement_suggestions"} <= set(data)
    assert set(data["improvement_suggestions"][0]) >= {"priority", "category", "suggestion", "expected_impact"}
    assert data["transcript_insights"]["without_skill_execution_pattern"] == "It asks first."


@pytest.mark.requirements("R122")
def test_quoted_rules_get_their_line_from_code_and_invented_ones_none(tmp_path: Path) -> None:
    given = (
        suggestion(rule_quote="Always answer in French"),
        suggestion(rule_quote="Never answer in German"),
        suggestion(rule_quote="Books have the reduced rate"),
    )
    analysis = made(analyse(tmp_path, Winner.SKILL, reply(*given))[0])
    places = [item.citation and (item.citation.path, item.citation.line) for item in analysis.improvement_suggestions]
    assert places == [(f"{SKILL.path}/SKILL.md", 9), None, (f"{SKILL.path}/references/tax.md", 3)]
    cause = analysis.winner_strengths[0]
    assert cause.text == "It adds."
    assert cause.citation is not None
    assert (cause.citation.line, cause.citation.text) == (7, "Add the numbers up.")
    assert {item.kind: item.count for item in analysis.fallbacks}["rule_quote_not_found"] == 1
    assert recheck_analysis(analysis, SKILL) == []


def test_a_citation_that_the_skill_does_not_hold_is_seen(tmp_path: Path) -> None:
    analysis = made(analyse(tmp_path, Winner.SKILL, reply())[0])
    cause = analysis.winner_strengths[0]
    assert cause.citation is not None
    for change in ({"line": 8}, {"line": 999}, {"path": "skills/other/SKILL.md"}, {"text": "Add the numbers down."}):
        forged = cause.model_copy(update={"citation": cause.citation.model_copy(update=change)})
        assert recheck_analysis(analysis.model_copy(update={"winner_strengths": (forged,)}), SKILL)


def test_the_files_of_the_skill_are_shown_with_their_own_line_numbers(tmp_path: Path) -> None:
    _, (request,) = analyse(tmp_path, Winner.SKILL, reply())
    assert "S1:3|Books have the reduced rate of 7 %." in user_text(request)


def test_a_loss_without_a_named_rule_says_so(tmp_path: Path) -> None:
    named = made(analyse(tmp_path / "named", Winner.BASELINE, reply(suggestion(harmful_rule=True)))[0])
    assert named.notes == ("no gain: the output without the skill was better on this case",)
    unnamed = made(analyse(tmp_path / "unnamed", Winner.BASELINE, reply(suggestion(priority="high")))[0])
    assert unnamed.notes[1] == "the analyzer named no rule that did harm"


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
    assert line_of(SKILL.text, quote) == line
    found = cite(SKILL, quote)
    assert (found.line if found else None) == line


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
    for given, opened in (
        (comparison.model_copy(update={"sealed": ""}), unblinding),
        (comparison.model_copy(update={"sealed": "0" * 64}), unblinding),
        # Changed after the seal, which stayed as it was.
        (comparison.model_copy(update={"reasoning": "B is far better."}), unblinding),
        (comparison, unblinding.model_copy(update={"outcome": Winner.BASELINE})),
        (comparison, unblinding.model_copy(update={"with_skill": "B"})),
        (comparison, unblinding.model_copy(update={"winner_is_with_skill": None})),
    ):
        with pytest.raises(EvidenceError):
            analyse_case(
                expecting(), given, opened, SKILL, run, run, root=tmp_path, models=models, ledger=ledger, seed=SEED
            )
    assert chat.requests == []
