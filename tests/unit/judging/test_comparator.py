from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from gate.domain.base import NotRun
from gate.domain.chat import ChatRequest
from gate.domain.checks import Check, ResponseHasHeading, ResponseNotContains, ResponseWordCount, ToolCallCount
from gate.domain.evidence import Outcome, RunRecord
from gate.domain.judgement import Comparison, CriterionScores, Winner
from gate.domain.plan import Arm
from gate.domain.seeding import SessionSeed
from gate.domain.skill import SkillType
from gate.domain.suite import Case, Expectation
from gate.errors import EvidenceError, ModelError
from gate.judging.comparator import case_winner, compare_case, recheck_comparison, unblind
from tests.builders_judging import SEED, SESSION, Call, a_run, compared, expecting, judged_by, scores, user_text
from tests.builders_skill import a_skill
from tests.fakes.chat import ScriptedChat, Step

SKILL = a_skill("skills/invoice-totals", body="Always round the total of every invoice to two decimals.\n")
GOOD, BAD = "GOOD answer with the rounded total.", "BAD answer without any total."


def pair(root: Path, run: int = 1, **changes: Any) -> tuple[RunRecord, RunRecord]:
    """A pair of runs; the one with the skill says GOOD."""
    with_run = a_run(root, response=changes.pop("good", GOOD), run=run, arm=Arm.WITH_SKILL, **changes)
    return with_run, a_run(root, response=BAD, run=run, arm=Arm.WITHOUT_SKILL)


def compare(
    root: Path,
    script: Callable[[ChatRequest], Step] | list[Step],
    pairs: list[tuple[RunRecord, RunRecord]],
    *,
    case: Case | None = None,
    skill_type: SkillType = SkillType.CODE_EXECUTION,
    seed: SessionSeed = SEED,
) -> tuple[Comparison | NotRun, ScriptedChat]:
    models, ledger, chat = judged_by(script)
    comparison = compare_case(
        case or expecting("States the total."),
        skill_type,
        pairs,
        SKILL,
        root=root,
        models=models,
        ledger=ledger,
        seed=seed,
        session_id=SESSION,
    )
    if isinstance(comparison, Comparison):
        assert recheck_comparison(comparison) == []
        stored = Comparison.model_validate_json(comparison.model_dump_json())
        assert recheck_comparison(stored) == []
    return comparison, chat


def made(comparison: Comparison | NotRun) -> Comparison:
    assert isinstance(comparison, Comparison)
    return comparison


def section(request: ChatRequest, position: str) -> str:
    text = user_text(request)
    start = text.index(f"# The {position} output")
    return text[start : text.index("# The second output")] if position == "first" else text[start:]


def by_quality(better: int = 5, worse: int = 3) -> Callable[[ChatRequest], str]:
    """A comparator that sees which output is good, wherever it stands."""

    def reply(request: ChatRequest) -> str:
        first_good = "GOOD" in section(request, "first")
        ids = {"good": "B101" if first_good else "B201", "bad": "B201" if first_good else "B101"}
        quotes = [
            {
                "criterion": name,
                "output": "first" if (ids[kind] == "B101") else "second",
                "source": ids[kind],
                "text": text,
            }
            for name in ("correctness", "completeness", "accuracy", "organization", "formatting", "usability")
            for kind, text in (("good", "GOOD answer"), ("bad", "BAD answer"))
        ]
        high, low = scores(better), scores(worse)
        return compared(high if first_good else low, low if first_good else high, quotes)

    return reply


@pytest.mark.requirements("R12", "R47", "R48", "R77", "R78", "R79", "R80", "R82", "R83")
def test_the_better_output_wins_in_both_orders_whatever_label_it_was_given(tmp_path: Path) -> None:
    labels = set()
    for number in range(8):
        seed = SessionSeed(f"{number:02x}" * 32)
        root = tmp_path / str(number)
        comparison = made(compare(root, by_quality(), [pair(root)], seed=seed)[0])
        unblinding = unblind(comparison, seed, SESSION)
        labels.add(unblinding.with_skill)
        assert unblinding.outcome is Winner.SKILL
        assert comparison.winner == unblinding.with_skill
        assert not comparison.pairs[0].position_unstable
        assert comparison.rubric[comparison.winner] == {"overall_score": 10, "content_score": 5, "structure_score": 5}
        assert [order.first for order in comparison.pairs[0].orders] == ["A", "B"]
    assert labels == {"A", "B"}


@pytest.mark.requirements("R131")
def test_the_baseline_can_win(tmp_path: Path) -> None:
    comparison = made(compare(tmp_path, by_quality(2, 5), [pair(tmp_path)])[0])
    assert unblind(comparison, SEED, SESSION).outcome is Winner.BASELINE


def test_a_comparator_that_prefers_a_seat_gives_ties_and_says_position_unstable(tmp_path: Path) -> None:
    quotes = [
        {"criterion": name, "output": output, "source": "B101" if output == "first" else "B201", "text": "answer with"}
        for name in ("correctness", "completeness", "accuracy", "organization", "formatting", "usability")
        for output in ("first", "second")
    ]
    for favoured in ("first", "second"):
        root = tmp_path / favoured
        high_first = favoured == "first"
        reply = compared(scores(5 if high_first else 1), scores(1 if high_first else 5), quotes)
        comparison = made(compare(root, lambda request, reply=reply: reply, [pair(root), pair(root, 2)])[0])  # type: ignore[misc]
        assert comparison.winner == "TIE"
        assert all(item.position_unstable for item in comparison.pairs)
        assert {item.kind: item.count for item in comparison.fallbacks}["position_unstable"] == 2
        assert comparison.rubric["A"] == comparison.rubric["B"]
        assert unblind(comparison, SEED, SESSION).outcome is Winner.TIE


@pytest.mark.requirements("R84", "R89")
@pytest.mark.parametrize(
    ("good", "bad", "winner"),
    [
        ((4, 4, 4, 4, 4, 4), (4, 4, 4, 4, 4, 4), Winner.TIE),
        ((4, 4, 4, 4, 4, 4), (3, 4, 4, 4, 4, 4), Winner.TIE),
        ((4, 4, 4, 4, 4, 4), (3, 3, 4, 4, 4, 4), Winner.SKILL),
    ],
)
def test_sums_that_differ_by_one_are_a_tie_and_by_two_a_win(
    tmp_path: Path, good: tuple[int, ...], bad: tuple[int, ...], winner: Winner
) -> None:
    def reply(request: ChatRequest) -> str:
        first_good = "GOOD" in section(request, "first")
        return compared(scores(*(good if first_good else bad)), scores(*(bad if first_good else good)))

    assert unblind(made(compare(tmp_path, reply, [pair(tmp_path)])[0]), SEED, SESSION).outcome is winner


def test_a_case_is_won_by_more_won_pairs_and_no_lost_one(tmp_path: Path) -> None:
    comparison = made(compare(tmp_path, by_quality(), [pair(tmp_path)])[0])
    won, other = comparison.pairs[0], "B" if comparison.winner == "A" else "A"
    lost = won.model_copy(update={"winner": other})
    tied = won.model_copy(update={"winner": "TIE"})
    assert case_winner([won, tied]) == won.winner
    assert case_winner([won, won, lost]) == "TIE"
    assert case_winner([tied, tied]) == "TIE"


# blindness ---------------------------------------------------------------------------------------------------------------


@pytest.mark.requirements("R12", "R76")
def test_nothing_that_names_an_arm_or_the_skill_reaches_the_comparator(tmp_path: Path) -> None:
    leaky = (
        "GOOD. I used the invoice-totals skill at /skills/invoice-totals/SKILL.md: "
        "always round the total of every invoice to two decimals."
    )
    case = expecting("The invoice-totals skill rounds.", prompt="Sum up skills/invoice-totals input.")
    with_run, without_run = pair(
        tmp_path,
        good=leaky,
        files={"invoice-totals/out.md": b"made with_skill"},
        notes=["private thought"],
        calls=[Call("bash")],
    )
    comparison, chat = compare(tmp_path, by_quality(4, 4), [(with_run, without_run)], case=case)
    for request in chat.requests:
        text = user_text(request) + request.system
        assert not re.search(
            r"invoice.totals|/skills|skill\.md|with_skill|without_skill|base_skill|private thought", text, re.IGNORECASE
        )
        assert "round the total of every invoice" not in text
    assert made(comparison).pairs[0].leaks == ("arm_words", "skill_name", "skill_path", "skill_text")
    assert {item.kind for item in made(comparison).fallbacks} >= {"blindness_risk"}


def test_the_two_orders_show_the_same_two_outputs_exchanged(tmp_path: Path) -> None:
    _, chat = compare(tmp_path, by_quality(4, 4), [pair(tmp_path, files={"a.py": b"print(1)\n"})])
    one, two = chat.requests
    assert ("GOOD" in section(one, "first")) is ("GOOD" in section(two, "second"))
    assert ("GOOD" in section(one, "first")) is not ("GOOD" in section(two, "first"))


def test_files_that_the_run_made_are_shown_and_fixtures_are_not(tmp_path: Path) -> None:
    files = {"made.py": b"print('made')\n", "given.csv": b"given,data\n", "blob.bin": b"\x00\x01"}
    pairs = [pair(tmp_path, files=files, fixture={"given.csv": b"given,data\n"})]
    _, chat = compare(tmp_path, by_quality(4, 4), pairs)
    text = user_text(chat.requests[0])
    assert "print('made')" in text
    assert "given,data" not in text
    assert "files that are not shown (not text, too long, or too many): 1" in text


def test_an_output_that_is_too_long_says_that_it_is_cut(tmp_path: Path) -> None:
    _, chat = compare(tmp_path, by_quality(4, 4), [pair(tmp_path, good="GOOD " + "line of text\n" * 10_000)])
    text = user_text(chat.requests[0])
    assert "more characters of this block are not shown" in text
    assert len(text) < 120_000


@pytest.mark.requirements("R75", "R81", "R86", "R87", "R88")
def test_text_skills_get_headings_length_and_forbidden_words_counted_by_code(tmp_path: Path) -> None:
    case = Case(
        eval_id="one",
        prompt="Write.",
        checks=(
            Check(id="c1", parameters=ResponseHasHeading(level=2, text="Risks")),
            Check(id="c2", parameters=ResponseWordCount(max=100)),
            Check(id="c3", parameters=ResponseNotContains(pattern="synergy")),
            Check(id="c4", parameters=ToolCallCount(tool="bash", min=1)),
        ),
        expectations=(Expectation(id="e1", text="Is polite."),),
    )
    pairs = [pair(tmp_path, good="GOOD\n\n## Risks\n\nsynergy")]
    _, chat = compare(tmp_path, by_quality(4, 4), pairs, case=case, skill_type=SkillType.TEXT_GENERATION)
    request = chat.requests[0]
    good = section(request, "first") if "GOOD" in section(request, "first") else section(request, "second")
    assert "- words in the response: 3" in good
    assert "- headings of level 2 in the response: Risks" in good
    assert '- a heading of level 2 "Risks": yes' in good
    assert '- no "synergy" in the response: no (line 5 of the response: "synergy")' in good
    assert "bash" not in user_text(request)
    assert "- Is polite." in user_text(request)


@pytest.mark.requirements("R81")
def test_each_skill_type_has_its_own_anchors_for_the_same_six_criteria(tmp_path: Path) -> None:
    systems = set()
    for skill_type in SkillType:
        root = tmp_path / skill_type.value
        _, chat = compare(root, by_quality(4, 4), [pair(root)], skill_type=skill_type)
        systems.add(chat.requests[0].system)
        for name in ("correctness", "completeness", "accuracy", "organization", "formatting", "usability"):
            (line,) = re.findall(rf"^- \*\*{name}\*\*: (.+)$", chat.requests[0].system, re.MULTILINE)
            # Every point has words of its own.
            points = re.split(r"(?:^|; )(?=[1-5] )", line)[1:]
            assert [point[0] for point in points] == ["1", "2", "3", "4", "5"]
            assert all(len(point) > 10 for point in points)
    assert len(systems) == len(SkillType)


# replies -----------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("score", [0, 6, "5", 4.5, 5.0, True, None, [5]])
def test_a_score_is_a_whole_number_from_one_to_five_or_nothing_is_compared(tmp_path: Path, score: Any) -> None:
    reply = json.loads(compared(scores(4), scores(4)))
    reply["first"]["accuracy"] = score
    comparison, chat = compare(tmp_path, lambda request: json.dumps(reply), [pair(tmp_path)])
    assert isinstance(comparison, NotRun)
    assert "no valid reply with A shown first" in comparison.not_run
    assert len(chat.requests) == 2


def test_totals_and_winners_of_the_model_are_not_fields_of_a_reply(tmp_path: Path) -> None:
    reply = {**json.loads(compared(scores(4), scores(4))), "winner": "first", "overall": 9.9}
    assert isinstance(compare(tmp_path, lambda request: json.dumps(reply), [pair(tmp_path)])[0], NotRun)


def test_one_order_without_a_reply_makes_the_whole_comparison_not_run(tmp_path: Path) -> None:
    good = by_quality(4, 4)
    comparison, _ = compare(
        tmp_path, lambda request: "no" if "/b-first" in request.label else good(request), [pair(tmp_path)]
    )
    assert isinstance(comparison, NotRun)
    assert "with B shown first" in comparison.not_run


def test_a_difference_of_two_asks_for_quotes_once_and_then_counts_the_gap(tmp_path: Path) -> None:
    def reply(request: ChatRequest) -> str:
        first_good = "GOOD" in section(request, "first")
        return compared(scores(5 if first_good else 3), scores(3 if first_good else 5))

    comparison, chat = compare(tmp_path, reply, [pair(tmp_path)])
    assert [request.label.rsplit("/", 1)[-1] for request in chat.requests] == ["a-first", "reask", "b-first", "reask"]
    assert {item.kind: item.count for item in made(comparison).fallbacks}["comparator_quote_missing"] == 12


def test_quotes_are_looked_up_in_the_output_they_name_and_speak_of_labels(tmp_path: Path) -> None:
    def reply(request: ChatRequest) -> str:
        first_good = "GOOD" in section(request, "first")
        quotes = [
            {
                "criterion": "accuracy",
                "output": "first",
                "source": "B101:1",
                "text": "GOOD answer" if first_good else "BAD answer",
            },
            {"criterion": "accuracy", "output": "second", "source": "B201:1", "text": "answer that nobody gave"},
        ]
        return compared(scores(4, 4, 5, 4), scores(4, 4, 3, 4), quotes)

    comparison = made(compare(tmp_path, reply, [pair(tmp_path)])[0])
    accepted = [[quote.verdict.accepted for quote in order.quotes] for order in comparison.pairs[0].orders]
    assert accepted == [[True, False], [True, False]]
    assert [order.quotes[0].source for order in comparison.pairs[0].orders] == ["A response:1", "B response:1"]
    assert {item.kind: item.count for item in comparison.fallbacks}["quote_rejected:not_found"] == 2
    assert comparison.pairs[0].orders[0].reasoning == "output A is longer."
    assert comparison.pairs[0].orders[1].reasoning == "output B is longer."


def test_without_a_completed_pair_there_is_no_comparison_and_no_call(tmp_path: Path) -> None:
    dead = (a_run(tmp_path, outcome=Outcome.TIMEOUT), a_run(tmp_path, arm=Arm.WITHOUT_SKILL))
    comparison, _ = compare(tmp_path, [], [dead])
    assert comparison == NotRun(not_run="no run completed with and without the skill")
    comparison, _ = compare(tmp_path, by_quality(4, 4), [dead, pair(tmp_path, 2)])
    assert [item.run_with for item in made(comparison).pairs] == [2]


def test_a_model_error_of_the_comparator_is_the_callers(tmp_path: Path) -> None:
    with pytest.raises(ModelError):
        compare(tmp_path, [ModelError("gone", kind="connection")], [pair(tmp_path)])


# seal --------------------------------------------------------------------------------------------------------------------


@pytest.mark.requirements("R130", "R134", "R135", "R136")
def test_the_assignment_is_one_for_all_runs_of_a_case_and_follows_from_the_session_key(tmp_path: Path) -> None:
    comparison = made(compare(tmp_path, by_quality(), [pair(tmp_path), pair(tmp_path, 2)])[0])
    bit = SEED.derive("assignment", "one", SESSION)[-1] & 1
    assert unblind(comparison, SEED, SESSION).with_skill == ("A" if bit else "B")
    assert {item.winner for item in comparison.pairs} == {comparison.winner}
    others = {unblind(_for_case(comparison, f"case-{n}"), SEED, SESSION).with_skill for n in range(20)}
    assert others == {"A", "B"}


def _for_case(comparison: Comparison, eval_id: str) -> Comparison:
    from gate.domain.base import digest_of

    fresh = comparison.model_copy(update={"eval_id": eval_id, "sealed": ""})
    return fresh.model_copy(update={"sealed": digest_of(fresh)})


def test_a_comparison_that_was_changed_after_the_seal_is_not_opened(tmp_path: Path) -> None:
    comparison = made(compare(tmp_path, by_quality(), [pair(tmp_path)])[0])
    for changed in (
        comparison.model_copy(update={"winner": "TIE"}),
        comparison.model_copy(update={"reasoning": "other"}),
        comparison.model_copy(update={"sealed": ""}),
    ):
        with pytest.raises(EvidenceError, match="changed after it was sealed"):
            unblind(changed, SEED, SESSION)
        assert recheck_comparison(changed)


def test_scores_that_do_not_add_up_are_seen_even_under_a_fresh_seal(tmp_path: Path) -> None:
    comparison = made(compare(tmp_path, by_quality(), [pair(tmp_path)])[0])
    first = comparison.pairs[0].orders[0]
    low = CriterionScores(**scores(1))
    order = first.model_copy(update={"a": low, "b": low})
    forged_pair = comparison.pairs[0].model_copy(update={"orders": (order, comparison.pairs[0].orders[1])})
    forged = _for_case(comparison.model_copy(update={"pairs": (forged_pair,)}), "one")
    assert any("the scores say TIE" in problem for problem in recheck_comparison(forged))
    assert any("mean scores" in problem for problem in recheck_comparison(forged))
