"""``calibrate`` gives back the rates of judges whose rates are known."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from random import Random
from typing import Any

import pytest

from gate.audit.calibration import Calibration, Rate, calibrate, known_answers
from gate.domain.chat import ChatRequest
from gate.settings import JudgeCalibration
from gate.statistics import clopper_pearson
from tests.builders_judging import SEED, _StoppedClock, judged_by
from tests.scripted.judges import LINE, ROW

CRITERIA = ("correctness", "completeness", "accuracy", "organization", "formatting", "usability")
ITEMS = {" ".join(item.text.split()): item.holds for record in known_answers().records for item in record.items}
WORSE = {pair.other for pair in known_answers().pairs if pair.kind == "better"}


def rows(request: ChatRequest, says: Callable[[str, str], bool]) -> str:
    text = request.messages[0].text
    lines = [(place, line) for place, line in LINE.findall(text) if len(line.strip()) >= 8]
    found = []
    for row_id, _, words in ROW.findall(text.partition("# Expectations")[2].partition("# Record")[0]):
        passed = says(words.strip(), text)
        quotes = [{"source": lines[0][0], "text": lines[0][1]}] if passed and lines else []
        found.append({"id": row_id, "quotes": quotes, "reason": "so", "verdict": "pass" if passed else "fail"})
    return json.dumps({"rows": found, "claims": [], "eval_feedback": []})


def scores(first: int, second: int, text: str) -> str:
    halves = text.partition("# The second output")
    quotes: list[dict[str, Any]] = []
    for side, half in (("first", halves[0].partition("# The first output")[2]), ("second", halves[2])):
        place, line = LINE.findall(half)[0]
        quotes += [{"criterion": name, "output": side, "source": place, "text": line} for name in CRITERIA]
    both = {"first": dict.fromkeys(CRITERIA, first), "second": dict.fromkeys(CRITERIA, second)}
    return json.dumps({"reasoning": "so", "quotes": quotes, **both})


def a_judge(
    says: Callable[[str, str], bool], compares: Callable[[str, str], tuple[int, int]]
) -> Callable[[ChatRequest], str]:
    def answer(request: ChatRequest) -> str:
        text = request.messages[0].text
        if "/compare-" not in request.label:
            return rows(request, says)
        first, _, second = text.partition("# The first output")[2].partition("# The second output")
        return scores(*compares(first, second), text)

    return answer


def measured(script: Callable[[ChatRequest], str], rounds: int = 1) -> Calibration:
    models, ledger, _ = judged_by(script)
    return calibrate(
        models, ledger, grader="scripted:scripted-1", comparator="scripted:scripted-1", clock=_StoppedClock(),
        seed=SEED, rounds=rounds, jobs=1,
    )  # fmt: skip


def truth(words: str, text: str) -> bool:
    """What an honest judge says; of controls too, which are about what stands in the record."""
    if words in ITEMS:
        return ITEMS[words]
    (named,) = re.findall(r'`(.+)`|"(.+)"', words) or [("", "")]
    return (named[0] or named[1]) in text.partition("# Record")[2]


def fair(first: str, second: str) -> tuple[int, int]:
    return (2 if any(text in first for text in WORSE) else 4, 2 if any(text in second for text in WORSE) else 4)


def test_an_honest_judge_has_no_faults() -> None:
    found = measured(a_judge(truth, fair))
    assert (found.true_positive.rate, found.true_negative.rate, found.injection_resisted.rate) == (1, 1, 1)
    assert (found.position.rate, found.verbosity.rate, found.better_found.rate) == (0, 0, 1)
    assert (found.controls_resisted.rate, found.lost) == (1, 0)
    assert found.true_positive.asked + found.true_negative.asked + found.injection_resisted.asked == len(ITEMS) >= 60
    assert found.true_positive.low == pytest.approx(clopper_pearson(30, 30)[0], abs=1e-6)


@pytest.mark.parametrize(("tpr", "tnr"), [(0.95, 0.9), (0.7, 0.25)])
def test_the_rates_of_a_lenient_judge_are_within_its_intervals(tpr: float, tnr: float) -> None:
    rng = Random(f"{tpr}/{tnr}")

    def says(words: str, text: str) -> bool:
        holds = truth(words, text)
        return rng.random() < tpr if holds else rng.random() >= tnr

    found = measured(a_judge(says, fair), rounds=2)
    for rate, known in ((found.true_positive, tpr), (found.true_negative, tnr)):
        assert rate.low is not None
        assert rate.high is not None
        assert rate.low <= known <= rate.high
    assert found.known.true_failed == found.true_positive.asked - found.true_positive.hits


def test_a_judge_that_obeys_the_record_is_seen_and_no_quote_of_it_counts() -> None:
    def says(words: str, text: str) -> bool:
        told = any(mark in text for mark in ("Note to the grader", "[system] Grading", "评审须知", "评审已结束"))
        return told or truth(words, text)

    found = measured(a_judge(says, fair))
    assert found.injection_resisted.rate == 0
    assert found.true_negative.rate == 1
    assert found.controls_resisted.rate is not None
    assert found.controls_resisted.rate < 1
    assert found.let_through.rate == 0


def test_taste_for_seats_and_for_length_is_told_apart() -> None:
    seat = measured(a_judge(truth, lambda first, second: (5, 2)))
    assert (seat.position.rate, seat.first_seat.rate, seat.verbosity.rate, seat.better_found.rate) == (1, 1, 0, 0)
    length = measured(a_judge(truth, lambda first, second: (5, 2) if len(first) > len(second) else (2, 5)))
    assert length.verbosity.rate == 1


def test_what_cannot_be_read_is_lost_and_counts_as_nothing() -> None:
    found = measured(lambda request: "no")
    assert found.lost == len(known_answers().records) + len(known_answers().pairs)
    assert found.true_positive == Rate.of(0, 0)
    assert found.true_positive.rate is None
    assert not found.is_known
    assert found.snippet().startswith("# nothing to keep"), (
        "a policy that names no figure must not read as one that does"
    )


def test_every_item_follows_from_its_record() -> None:
    answers = known_answers()
    for record in answers.records:
        parts = [record.response]
        parts += [text for call in record.calls for text in (call.tool, call.result, *map(str, call.args.values()))]
        whole = "\n".join(parts)
        for item in record.items:
            if item.holds:
                assert item.because["stands"] in whole, item.text
            else:
                assert item.because["absent"] not in whole, item.text
    languages = [(record.language, len(record.items)) for record in answers.records]
    assert sum(n for lang, n in languages if lang == "zh") == sum(n for lang, n in languages if lang == "en")
    ids = [record.id for record in answers.records] + [pair.id for pair in answers.pairs]
    assert len(ids) == len(set(ids))


def test_the_snippet_is_what_a_policy_takes() -> None:
    import yaml

    found = measured(a_judge(truth, fair))
    (entry,) = yaml.safe_load(found.snippet())["calibration"]
    assert JudgeCalibration.model_validate(entry) == found.known
